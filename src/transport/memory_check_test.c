/* memory_check_test.c: mistakes in the description of a broker in memory are found, each with its field; a stand-in finds those of what it stands in for. */
#include "transport/memory_fixture.h"

static void said(struct mistakes *mistakes, const char *text)
{
    if (text == NULL)
        assert_int_equal(mistakes->count, 0);
    else if (mistakes->text == NULL || strstr(mistakes->text, text) == NULL)
        fail_msg("'%s' does not say '%s'", mistakes->text != NULL ? mistakes->text : "", text);
    mistakes_free(mistakes);
}

static void source_says(struct scene *s, coney_source source, const char *text)
{
    struct mistakes mistakes = {.subject = "subscription 's'"};
    const coney_subscription subscription = {.source = source};
    s->broker->transport->check_source(s->broker->self, &subscription, &mistakes);
    said(&mistakes, text);
}

static void publisher_says(struct scene *s, const coney_publisher_options *options, const char *text)
{
    struct mistakes mistakes = {.subject = "publisher 'p'"};
    s->broker->transport->check_publisher(s->broker->self, options, &mistakes);
    said(&mistakes, text);
}

static void broker_says(struct scene *s, const char *text)
{
    struct mistakes mistakes = {.subject = "broker 'b'"};
    s->broker->transport->check_broker(s->broker->self, &mistakes);
    said(&mistakes, text);
}

static void a_topic_that_is_none_is_named(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    source_says(&s, CONEY_TOPIC("orders.*.>"), NULL);
    source_says(&s, CONEY_TOPIC(NULL), "source.name");
    source_says(&s, CONEY_TOPIC("a..b"), "'a..b'");
    source_says(&s, CONEY_TOPIC("a.>.b"), "'a.>.b'");
    source_says(&s, CONEY_TOPIC("a", .max_waiting = -1), "source.max_waiting");
    source_says(&s, CONEY_TOPIC("a", .start = CONEY_STREAM_FIRST), "retain_messages");
    source_says(&s, CONEY_QUEUE("a"), "CONEY_TOPIC");
    scene_end(&s);
    scene_memory(&s, &(coney_memory_options){.retain_messages = 1});
    source_says(&s, CONEY_TOPIC("a", .start = CONEY_STREAM_FIRST), NULL);
    source_says(&s, CONEY_TOPIC("a.*", .start = CONEY_STREAM_FIRST), "pattern");
    source_says(&s, CONEY_TOPIC("a", .start = (coney_stream_start)9), "no position");
    scene_end(&s);
}

static void a_publisher_cannot_have_what_topics_do_not_know(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    publisher_says(&s, &(coney_publisher_options){.to = "orders.{region}"}, NULL);
    publisher_says(&s, &(coney_publisher_options){.to = "orders.*"}, "pattern");
    publisher_says(&s, &(coney_publisher_options){.exchange = "x"}, "exchange");
    publisher_says(&s, &(coney_publisher_options){.expiration = CONEY_SECOND}, "expiration");
    publisher_says(&s, &(coney_publisher_options){.has_priority = true}, "priorit");
    scene_end(&s);
}

static void options_and_declarations_that_make_no_sense_are_found(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, &(coney_memory_options){.retain_messages = -1, .retain_bytes = -1});
    coney_declare_queue(s.broker, &(coney_amqp_queue){.name = "q"});
    broker_says(&s, "retain_messages");
    broker_says(&s, "retain_bytes");
    broker_says(&s, "declarations");
    scene_end(&s);
    scene_memory(&s, NULL);
    broker_says(&s, NULL);
    scene_end(&s);
}

static void a_stand_in_refuses_what_it_stands_in_for_would(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    source_says(&s, CONEY_TOPIC("a"), "CONEY_QUEUE");
    source_says(&s, CONEY_QUEUE("q", .declare = true, .type = CONEY_QUEUE_QUORUM, .max_priority = 3), "max_priority");
    scene_end(&s);
    scene_stream(&s);
    source_says(&s, CONEY_QUEUE("q"), "CONEY_STREAM");
    source_says(&s, CONEY_STREAM("log", .declare = true), NULL);
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_that_is_none_is_named),
        cmocka_unit_test(a_publisher_cannot_have_what_topics_do_not_know),
        cmocka_unit_test(options_and_declarations_that_make_no_sense_are_found),
        cmocka_unit_test(a_stand_in_refuses_what_it_stands_in_for_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
