#include "transport/amqp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The mistakes of a subscription: "" or lines. Freed by the caller. */
static char *mistakes_of(const coney_subscription *subscription)
{
    struct mistakes mistakes = {.subject = "subscription 'q'"};
    tamqp_check_source(NULL, subscription, &mistakes);
    return mistakes.text != NULL ? mistakes.text : calloc(1, 1);
}

static void assert_mistakes(const coney_subscription *subscription, const char *const *fields)
{
    char *text = mistakes_of(subscription);
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n' || at[1] == '\0';
    size_t count = 0;
    for (; fields[count] != NULL; count++) {
        char part[64];
        snprintf(part, sizeof part, "'q': %s: ", fields[count]);
        if (strstr(text, part) == NULL)
            fail_msg("no mistake about %s in: %s", fields[count], text);
    }
    if (lines != count)
        fail_msg("%zu mistakes, not %zu: %s", lines, count, text);
    free(text);
}

#define FIELDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE ((const char *const[]){NULL})
#define SUBSCRIPTION(...) (&(coney_subscription){.source = CONEY_QUEUE(__VA_ARGS__)})

static void what_the_broker_takes_is_no_mistake(void **state)
{
    (void)state;
    assert_mistakes(SUBSCRIPTION("q"), NONE);
    assert_mistakes(SUBSCRIPTION("amq.gen-x"), NONE);
    assert_mistakes(SUBSCRIPTION(NULL, .declare = true), NONE);
    assert_mistakes(SUBSCRIPTION("", .declare = true, .type = CONEY_QUEUE_CLASSIC), NONE);
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .type = CONEY_QUEUE_CLASSIC, .transient = true, .exclusive = true,
                                 .auto_delete = true, .max_priority = 255, .message_ttl = CONEY_MILLISECOND,
                                 .expires = CONEY_MILLISECOND, .max_length = 1, .max_length_bytes = 1,
                                 .single_active_consumer = true, .prefetch = CONEY_OFF,
                                 .bindings = CONEY_BINDINGS({.exchange = "e", .type = "topic", .key = "#"})),
                    NONE);
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .type = CONEY_QUEUE_QUORUM, .delivery_limit = CONEY_OFF,
                                 .dead_letter_exchange = "", .dead_letter_routing_key = "dead", .delay = CONEY_DELAY_QUEUE),
                    NONE);
    assert_mistakes(SUBSCRIPTION("q", .type = CONEY_QUEUE_STREAM, .start = CONEY_STREAM_OFFSET, .start_offset = 5), NONE);
    assert_mistakes(SUBSCRIPTION("q", .type = CONEY_QUEUE_STREAM, .declare = true, .max_length_bytes = 1000), NONE);
}

static void each_type_of_queue_is_refused_what_it_cannot_have(void **state)
{
    (void)state;
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .type = CONEY_QUEUE_QUORUM, .transient = true, .exclusive = true,
                                 .auto_delete = true, .max_priority = 5, .start = CONEY_STREAM_FIRST),
                    FIELDS("transient", "exclusive", "auto_delete", "max_priority", "start"));
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .type = CONEY_QUEUE_CLASSIC, .delivery_limit = 3),
                    FIELDS("delivery_limit"));
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .type = CONEY_QUEUE_STREAM, .transient = true, .exclusive = true,
                                 .auto_delete = true, .max_priority = 5, .delivery_limit = 3, .message_ttl = CONEY_MILLISECOND,
                                 .expires = CONEY_MILLISECOND, .max_length = 1, .dead_letter_exchange = "",
                                 .dead_letter_routing_key = "d", .single_active_consumer = true, .exclusive_consumer = true,
                                 .delay = CONEY_DELAY_QUEUE, .prefetch = CONEY_OFF),
                    FIELDS("transient", "exclusive", "auto_delete", "max_priority", "delivery_limit", "message_ttl", "expires",
                           "max_length", "dead_letter_exchange", "dead_letter_routing_key", "single_active_consumer",
                           "exclusive_consumer", "delay", "prefetch"));
}

static void what_has_no_effect_without_declare_is_a_mistake(void **state)
{
    (void)state;
    const coney_field argument = {CONEY_STR("x"), coney_value_bool(true)};
    assert_mistakes(SUBSCRIPTION("q", .dead_letter_exchange = "", .dead_letter_routing_key = "d",
                                 .message_ttl = CONEY_MILLISECOND, .expires = CONEY_MILLISECOND, .max_length = 1,
                                 .max_length_bytes = 1, .max_priority = 1, .arguments = &argument, .argument_count = 1,
                                 .transient = true, .exclusive = true, .auto_delete = true, .single_active_consumer = true,
                                 .delivery_limit = 1, .bindings = CONEY_BINDINGS({.exchange = "e"})),
                    FIELDS("dead_letter_exchange", "dead_letter_routing_key", "message_ttl", "expires", "max_length",
                           "max_length_bytes", "max_priority", "arguments", "transient", "exclusive", "auto_delete",
                           "single_active_consumer", "delivery_limit", "bindings"));
}

static void names_and_numbers_are_bounded(void **state)
{
    (void)state;
    char name[300];
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    assert_mistakes(SUBSCRIPTION(name), FIELDS("source"));
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .bindings = CONEY_BINDINGS({.exchange = name, .key = name})),
                    FIELDS("bindings", "bindings"));
    name[255] = '\0';
    assert_mistakes(SUBSCRIPTION(name), NONE);
    assert_mistakes(SUBSCRIPTION(name, .delay = CONEY_DELAY_QUEUE), FIELDS("source"));
    name[239] = '\0';
    assert_mistakes(SUBSCRIPTION(name, .delay = CONEY_DELAY_QUEUE), NONE);
    assert_mistakes(SUBSCRIPTION("a\nb"), FIELDS("source"));
    assert_mistakes(SUBSCRIPTION("\xff"), FIELDS("source"));
    assert_mistakes(SUBSCRIPTION("q", .prefetch = 65536), FIELDS("prefetch"));
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .max_priority = 256), FIELDS("max_priority"));
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .message_ttl = -1, .max_length = -1),
                    FIELDS("message_ttl", "max_length"));
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .message_ttl = CONEY_MILLISECOND + 1, .expires = 4294967296000000),
                    FIELDS("message_ttl", "expires"));
}

static void a_batch_that_would_never_be_full_is_a_mistake(void **state)
{
    (void)state;
    coney_subscription s = {.source = CONEY_QUEUE("q"), .batch = 257, .batch_wait = CONEY_OFF};
    assert_mistakes(&s, FIELDS("batch_wait"));
    s.batch_wait = 0;
    assert_mistakes(&s, NONE);
    s.batch_wait = CONEY_OFF;
    s.batch = 256;
    assert_mistakes(&s, NONE);
    s.batch = 300;
    s.source = CONEY_QUEUE("q", .prefetch = CONEY_OFF);
    assert_mistakes(&s, NONE);
    s.source = CONEY_QUEUE("q", .prefetch = 299);
    assert_mistakes(&s, FIELDS("batch_wait"));
}

static void what_cannot_be_meant_is_a_mistake(void **state)
{
    (void)state;
    assert_mistakes(SUBSCRIPTION(NULL), FIELDS("source"));
    assert_mistakes(SUBSCRIPTION("amq.mine", .declare = true), FIELDS("source"));
    assert_mistakes(SUBSCRIPTION(NULL, .declare = true, .type = CONEY_QUEUE_QUORUM), FIELDS("type"));
    assert_mistakes(SUBSCRIPTION(NULL, .declare = true, .delay = CONEY_DELAY_QUEUE), FIELDS("delay"));
    assert_mistakes(SUBSCRIPTION("q", .declare = true, .bindings = CONEY_BINDINGS({.exchange = ""})), FIELDS("bindings"));
    assert_mistakes(SUBSCRIPTION("q", .type = (coney_queue_type)9), FIELDS("type"));
    assert_mistakes(SUBSCRIPTION("q", .delay = (coney_delay)9), FIELDS("delay"));
    assert_mistakes(SUBSCRIPTION("q", .type = CONEY_QUEUE_STREAM, .start = (coney_stream_start)9), FIELDS("start"));
    assert_mistakes(&(coney_subscription){.source = CONEY_STREAM("q")}, FIELDS("source"));
    assert_mistakes(&(coney_subscription){0}, FIELDS("source"));
    assert_mistakes(&(coney_subscription){.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_STREAM), .max_attempts = 3},
                    FIELDS("max_attempts"));
    assert_mistakes(&(coney_subscription){.source = CONEY_QUEUE("q"), .max_attempts = 3, .no_retry_copies = true},
                    FIELDS("no_retry_copies"));
    assert_mistakes(&(coney_subscription){.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_QUORUM),
                                          .max_attempts = 3,
                                          .no_retry_copies = true},
                    NONE);
    assert_mistakes(
        &(coney_subscription){.source = CONEY_QUEUE("q", .declare = true, .type = CONEY_QUEUE_QUORUM, .delivery_limit = 1),
                              .max_attempts = 3},
        FIELDS("delivery_limit"));
}

static void assert_broker(struct tamqp *t, const char *expected)
{
    struct mistakes mistakes = {.subject = "b"};
    tamqp_check_broker(t, &mistakes);
    if (expected == NULL && mistakes.count > 0)
        fail_msg("%s", mistakes.text);
    if (expected != NULL && (mistakes.count != 1 || strstr(mistakes.text, expected) == NULL))
        fail_msg("not '%s': %s", expected, mistakes.text);
    mistakes_free(&mistakes);
}

static coney_loop *some_loop(void)
{
    static char loop;
    return (coney_loop *)&loop;
}

static void log_nothing(void *ctx, coney_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

static void brokers_are_named_by_a_uri_of_amqp_and_have_no_loop_and_no_log_of_their_own(void **state)
{
    (void)state;
    assert_broker(&(struct tamqp){.uri = NULL}, NULL);
    assert_broker(&(struct tamqp){.uri = "amqps://a:b@host:1,other/vh?heartbeat=5"}, NULL);
    assert_broker(&(struct tamqp){.uri = "rabbitmq-stream://host"}, "coney_app_stream");
    assert_broker(&(struct tamqp){.uri = "amqp://host:99999"}, "uri");
    assert_broker(&(struct tamqp){.options.loop = some_loop()}, "loop");
    assert_broker(&(struct tamqp){.options.on_log = log_nothing}, "on_log");
    assert_broker(&(struct tamqp){.newer_options = true}, "newer");
}

static void declarations_have_names_that_are_ours_to_give(void **state)
{
    (void)state;
    const struct {
        struct declaration declaration;
        const char *expected;
    } cases[] = {
        {{.what = DECLARE_EXCHANGE, .as.exchange = {.name = "e"}}, NULL},
        {{.what = DECLARE_EXCHANGE, .as.exchange = {.name = "amq.topic", .passive = true}}, NULL},
        {{.what = DECLARE_EXCHANGE, .as.exchange = {.name = "amq.mine"}}, "amq."},
        {{.what = DECLARE_EXCHANGE}, "name"},
        {{.what = DECLARE_QUEUE, .as.queue = {.name = "q"}}, NULL},
        {{.what = DECLARE_QUEUE, .as.queue = {.name = ""}}, "name"},
        {{.what = DECLARE_STREAM, .stream = "s"}, "CONEY_QUEUE_STREAM"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct declaration declaration = cases[i].declaration;
        coney_broker broker = {.declarations = &declaration};
        assert_broker(&(struct tamqp){.broker = &broker}, cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_broker_takes_is_no_mistake),
        cmocka_unit_test(each_type_of_queue_is_refused_what_it_cannot_have),
        cmocka_unit_test(what_has_no_effect_without_declare_is_a_mistake),
        cmocka_unit_test(names_and_numbers_are_bounded),
        cmocka_unit_test(a_batch_that_would_never_be_full_is_a_mistake),
        cmocka_unit_test(what_cannot_be_meant_is_a_mistake),
        cmocka_unit_test(brokers_are_named_by_a_uri_of_amqp_and_have_no_loop_and_no_log_of_their_own),
        cmocka_unit_test(declarations_have_names_that_are_ours_to_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
