/* conformance_delivery.c: what is published arrives: in order, whole, where it belongs, with an outcome. */
#define _GNU_SOURCE
#include "conformance.h"

static void is_number(struct listener *listener, size_t nth, size_t number)
{
    char expected[24];
    snprintf(expected, sizeof expected, "%zu", number);
    assert_string_equal(listener_of(listener, nth).body, expected);
}

static void messages_arrive_in_the_order_in_which_they_were_published(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 500);
    listener_wait(&listener, 500);
    for (size_t i = 0; i < 500; i++)
        is_number(&listener, i, i);
    listener_free(&listener);
    stand_down(&stand);
}

static void what_was_published_before_arrives_first_or_never_and_what_comes_later_always(void **state)
{
    const struct conformance *what = *state;
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, what, 1);
    stand_publish(&stand, 0, "before");
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "later");
    listener_wait(&listener, what->keeps ? 2 : 1);
    assert_string_equal(listener_of(&listener, 0).body, what->keeps ? "before" : "later");
    assert_int_equal(listener_times(&listener, "later"), 1);
    listener_free(&listener);
    stand_down(&stand);
}

/* Counts over several listeners. */
struct total {
    struct monitor monitor;
    size_t count;
};

static coney_settle count(struct listener *listener, struct incoming *m, size_t nth)
{
    (void)m;
    (void)nth;
    struct total *total = listener->ctx;
    monitor_lock(&total->monitor);
    total->count++;
    monitor_broadcast(&total->monitor);
    monitor_unlock(&total->monitor);
    return CONEY_ACK;
}

static void total_wait(struct stand *stand, struct total *total, size_t expected)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&total->monitor);
    while (total->count < expected && stand_await(stand, &total->monitor, until))
        ;
    size_t came = total->count;
    monitor_unlock(&total->monitor);
    assert_int_equal(came, expected);
}

static void two_readers_of_a_source_share_its_messages_or_each_get_all(void **state)
{
    const struct conformance *what = *state;
    struct stand stand;
    struct total total = {.count = 0};
    struct listener listeners[2] = {{.handle = count, .ctx = &total}, {.handle = count, .ctx = &total}};
    stand_up(&stand, what, 1);
    listener_start(&listeners[0], &stand, 0);
    listener_start(&listeners[1], &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 20);
    total_wait(&stand, &total, what->shares ? 20 : 40);
    for (size_t i = 0; i < 20; i++) {
        char body[24];
        snprintf(body, sizeof body, "%zu", i);
        size_t first = listener_times(&listeners[0], body);
        size_t second = listener_times(&listeners[1], body);
        assert_int_equal(first + second, what->shares ? 1 : 2);
        assert_true(what->shares || first == second);
    }
    listener_free(&listeners[0]);
    listener_free(&listeners[1]);
    monitor_free(&total.monitor);
    stand_down(&stand);
}

/* Everything that a message may say of itself ------------------------------------------------------------------------------------ */

static const coney_field headers[] = {
    {CONEY_STR_INIT("tenant"), {.type = CONEY_VALUE_STRING, .as.bytes = CONEY_STR_INIT("ada & söhne")}},
    {CONEY_STR_INIT("count"), {.type = CONEY_VALUE_I64, .as.i64 = -7}},
    {CONEY_STR_INIT("urgent"), {.type = CONEY_VALUE_BOOL, .as.boolean = true}},
    {CONEY_STR_INIT("empty"), {.type = CONEY_VALUE_STRING, .as.bytes = CONEY_STR_INIT("")}},
};

static struct outgoing full_message(const char *to)
{
    return (struct outgoing){
        .to = coney_bytes_str(to),
        .body = CONEY_STR("{\"id\":7}"),
        .content_type = CONEY_STR("application/json"),
        .correlation_id = CONEY_STR("c-1"),
        .reply_to = CONEY_STR("answers"),
        .message_id = CONEY_STR("m-1"),
        .type = CONEY_STR("order"),
        .key = CONEY_STR("customer 9"),
        .headers = headers,
        .header_count = sizeof headers / sizeof headers[0],
    };
}

static void header_is(const struct transport *transport, const struct incoming *m, const coney_field *expected)
{
    coney_value value;
    assert_true(transport->header(m, expected->key, &value));
    int64_t number = 0;
    if (expected->value.type == CONEY_VALUE_STRING) {
        char text[64] = "";
        memcpy(text, expected->value.as.bytes.data, expected->value.as.bytes.len);
        assert_int_equal(value.type, CONEY_VALUE_STRING);
        bytes_are(value.as.bytes, text);
    } else if (expected->value.type == CONEY_VALUE_I64) {
        assert_true(coney_value_to_i64(&value, &number));
        assert_int_equal(number, expected->value.as.i64);
    } else {
        assert_int_equal(value.type, CONEY_VALUE_BOOL);
        assert_int_equal(value.as.boolean, expected->value.as.boolean);
    }
}

static void is_the_full_message(const struct transport *transport, const struct incoming *m)
{
    coney_delivery_info info = {0};
    transport->info(m, &info);
    bytes_are(m->body, "{\"id\":7}");
    bytes_are(info.content_type, "application/json");
    bytes_are(transport->content_type(m), "application/json");
    bytes_are(info.correlation_id, "c-1");
    bytes_are(info.reply_to, "answers");
    bytes_are(info.message_id, "m-1");
    bytes_are(info.type, "order");
    bytes_are(info.key, "customer 9");
    bytes_are(transport->key(m, NULL), "customer 9");
    bytes_are(transport->key(m, "tenant"), "ada & söhne");
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        header_is(transport, m, &headers[i]);
    coney_value value;
    assert_false(transport->header(m, CONEY_STR("absent"), &value));
    assert_int_equal(info.headers.type, CONEY_VALUE_MAP);
    assert_true(coney_value_find(&info.headers, CONEY_STR("tenant"), &value));
}

static void what_a_message_says_of_itself_arrives_unchanged(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    struct outgoing message = full_message(stand.names[0]);
    stand_send(&stand, &message);
    must(stand_outcomes(&stand), NULL, "the outcome");
    listener_wait(&listener, 1);
    struct incoming kept = listener_of(&listener, 0).kept;
    is_the_full_message(stand.transport, &kept);
    coney_delivery_info info = {0};
    stand.transport->info(&kept, &info);
    bytes_are(info.source, stand.names[0]);
    assert_int_equal(stand.transport->attempt(&kept), 1);
    must(listener_settle(&listener, 0, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    stand_down(&stand);
}

static void a_message_that_says_nothing_of_itself_has_nothing_to_say(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "bare");
    listener_wait(&listener, 1);
    struct incoming kept = listener_of(&listener, 0).kept;
    coney_delivery_info info = {0};
    stand.transport->info(&kept, &info);
    assert_int_equal(stand.transport->content_type(&kept).len, 0);
    assert_int_equal(info.correlation_id.len + info.reply_to.len + info.message_id.len + info.type.len, 0);
    coney_value value;
    assert_false(stand.transport->header(&kept, CONEY_STR("tenant"), &value));
    assert_int_equal(stand.transport->attempt(&kept), 1);
    must(listener_settle(&listener, 0, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    stand_down(&stand);
}

static void bodies_arrive_byte_for_byte_from_none_to_half_a_mebibyte(void **state)
{
    static const size_t sizes[] = {0, 1, 255, 256, 5000, 512 * 1024};
    struct stand stand;
    struct listener listener = {.keep = true};
    uint8_t *body = malloc(512 * 1024);
    for (size_t i = 0; i < 512 * 1024; i++)
        body[i] = (uint8_t)(i * 7 + i / 251);
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        stand_send(&stand, &(struct outgoing){.to = coney_bytes_str(stand.names[0]), .body = {body, sizes[i]}});
        listener_wait(&listener, i + 1);
        struct incoming kept = listener_of(&listener, i).kept;
        assert_int_equal(kept.body.len, sizes[i]);
        if (sizes[i] > 0)
            assert_memory_equal(kept.body.data, body, sizes[i]);
        must(listener_settle(&listener, i, CONEY_ACK), NULL, "settle");
    }
    must(stand_outcomes(&stand), NULL, "the outcomes");
    listener_free(&listener);
    stand_down(&stand);
    free(body);
}

/* Headers of every awkward shape: byte for byte, or the publish fails and nothing arrives. */
static void awkward_headers_arrive_byte_for_byte_or_not_at_all(void **state)
{
    char long_text[5000];
    char names[60][16];
    coney_field many[60];
    memset(long_text, 'x', sizeof long_text);
    for (size_t i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "header-%zu", i);
        many[i] = (coney_field){coney_bytes_str(names[i]), coney_value_string(CONEY_STR("value"))};
    }
    const coney_field long_value = {CONEY_STR("long"), coney_value_string(coney_bytes_of(long_text, sizeof long_text))};
    const coney_field long_name = {coney_bytes_of(long_text, 200), coney_value_string(CONEY_STR("value"))};
    const coney_field bytes = {CONEY_STR("bytes"), coney_value_binary(CONEY_STR("\xff\x00\xfe"))};
    const coney_field ours = {CONEY_STR(ATTEMPTS_HEADER), coney_value_string(CONEY_STR("no number"))};
    const struct outgoing awkward[] = {
        {.headers = many, .header_count = 60},      {.headers = &long_value, .header_count = 1},
        {.headers = &long_name, .header_count = 1}, {.headers = &bytes, .header_count = 1},
        {.headers = &ours, .header_count = 1},
    };
    struct stand stand;
    struct listener listener = {.keep = true};
    size_t expected = 0;
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    for (size_t i = 0; i < sizeof awkward / sizeof awkward[0]; i++) {
        struct outgoing message = awkward[i];
        message.to = coney_bytes_str(stand.names[0]);
        message.body = CONEY_STR("awkward");
        if (stand.transport->publish(stand.outlet, &message, stand.next_tag) != CONEY_OK)
            continue;
        stand.next_tag++;
        if (stand_outcomes(&stand) != CONEY_OK)
            continue;
        listener_wait(&listener, ++expected);
        struct incoming kept = listener_of(&listener, expected - 1).kept;
        for (size_t h = 0; h < message.header_count; h++) {
            coney_value value;
            coney_bytes content = {0};
            assert_true(stand.transport->header(&kept, message.headers[h].key, &value));
            assert_true(coney_value_to_bytes(&value, &content));
            assert_int_equal(content.len, message.headers[h].value.as.bytes.len);
            assert_memory_equal(content.data, message.headers[h].value.as.bytes.data, content.len);
        }
        assert_int_equal(stand.transport->attempt(&kept), 1);
        must(listener_settle(&listener, expected - 1, CONEY_ACK), NULL, "settle");
    }
    listener.keep = false;
    listener_mark(&listener, 0);
    assert_int_equal(listener_count(&listener), expected + 1);
    listener_free(&listener);
    stand_down(&stand);
}

/* Outcomes ------------------------------------------------------------------------------------------------------------------------- */

static void every_message_has_one_outcome_with_its_tag(void **state)
{
    struct stand stand;
    stand_up(&stand, *state, 1);
    for (size_t i = 0; i < 2000; i++)
        stand_send(&stand, &(struct outgoing){.to = coney_bytes_str(stand.names[0]), .body = CONEY_STR("x")});
    must(stand_outcomes(&stand), NULL, "the outcomes");
    stand_close(&stand);
    assert_int_equal(stand.outcomes.count, 2000);
    for (size_t i = 0; i < 2000; i++)
        assert_int_equal(stand.outcomes.times[i], 1);
    stand_down(&stand);
}

static void closing_a_publisher_waits_for_the_outcomes(void **state)
{
    struct stand stand;
    stand_up(&stand, *state, 1);
    for (size_t i = 0; i < 500; i++)
        stand_send(&stand, &(struct outgoing){.to = coney_bytes_str(stand.names[0]), .body = CONEY_STR("x")});
    stand_close(&stand);
    assert_int_equal(stand.outcomes.count, 500);
    assert_int_equal(stand.outcomes.failures, 0);
    stand_down(&stand);
}

static void a_destination_that_is_not_there_is_told_at_once_or_by_the_outcome(void **state)
{
    const struct conformance *what = *state;
    struct stand stand;
    stand_up(&stand, what, 1);
    const struct outgoing lost = {.to = CONEY_STR("conformance-nowhere"), .body = CONEY_STR("lost")};
    coney_status status = stand.transport->publish(stand.outlet, &lost, 0);
    stand.next_tag = status == CONEY_OK ? 1 : 0;
    if (status == CONEY_OK)
        status = stand_outcomes(&stand);
    if (what->drops_orphans)
        assert_int_equal(status, CONEY_OK);
    else
        assert_true(status == CONEY_ENOTFOUND || status == CONEY_ERETURNED);
    stand_publish(&stand, 0, "the publisher goes on");
    stand_down(&stand);
}

static void with_drop_unroutable_a_destination_that_is_not_there_is_no_failure(void **state)
{
    struct stand stand;
    stand_up(&stand, *state, 1);
    stand_send(&stand,
               &(struct outgoing){.to = CONEY_STR("conformance-nowhere"), .body = CONEY_STR("lost"), .drop_unroutable = true});
    must(stand_outcomes(&stand), NULL, "the outcome");
    stand_down(&stand);
}

struct other_thread {
    struct stand *stand;
    struct listener *listener;
};

static void *publish_and_go(void *ctx)
{
    struct other_thread *thread = ctx;
    stand_send(thread->stand,
               &(struct outgoing){.to = coney_bytes_str(thread->stand->names[0]), .body = CONEY_STR("from afar")});
    return NULL;
}

static void a_thread_may_publish_and_end(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    for (size_t i = 0; i < 3; i++) {
        pthread_t thread;
        struct other_thread other = {.stand = &stand};
        assert_int_equal(pthread_create(&thread, NULL, publish_and_go, &other), 0);
        pthread_join(thread, NULL);
    }
    must(stand_outcomes(&stand), NULL, "the outcomes");
    listener_wait(&listener, 3);
    assert_int_equal(listener_times(&listener, "from afar"), 3);
    listener_free(&listener);
    stand_down(&stand);
}

static void the_last_message_of_a_burst_says_that_no_more_follow(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    for (size_t round = 1; round <= 5; round++) {
        stand_publish_numbers(&stand, 0, 0, 50);
        listener_wait(&listener, round * 50);
        assert_false(listener_of(&listener, round * 50 - 1).more);
    }
    listener_free(&listener);
    stand_down(&stand);
}

static bool has_threads(const struct conformance *what)
{
    return what->step == NULL;
}

const struct scenario conformance_delivery[] = {
    {"messages_arrive_in_the_order_in_which_they_were_published", messages_arrive_in_the_order_in_which_they_were_published,
     NULL},
    {"what_was_published_before_arrives_first_or_never_and_what_comes_later_always",
     what_was_published_before_arrives_first_or_never_and_what_comes_later_always, NULL},
    {"two_readers_of_a_source_share_its_messages_or_each_get_all", two_readers_of_a_source_share_its_messages_or_each_get_all,
     NULL},
    {"what_a_message_says_of_itself_arrives_unchanged", what_a_message_says_of_itself_arrives_unchanged, NULL},
    {"a_message_that_says_nothing_of_itself_has_nothing_to_say", a_message_that_says_nothing_of_itself_has_nothing_to_say,
     NULL},
    {"bodies_arrive_byte_for_byte_from_none_to_half_a_mebibyte", bodies_arrive_byte_for_byte_from_none_to_half_a_mebibyte,
     NULL},
    {"awkward_headers_arrive_byte_for_byte_or_not_at_all", awkward_headers_arrive_byte_for_byte_or_not_at_all, NULL},
    {"every_message_has_one_outcome_with_its_tag", every_message_has_one_outcome_with_its_tag, NULL},
    {"closing_a_publisher_waits_for_the_outcomes", closing_a_publisher_waits_for_the_outcomes, NULL},
    {"a_destination_that_is_not_there_is_told_at_once_or_by_the_outcome",
     a_destination_that_is_not_there_is_told_at_once_or_by_the_outcome, NULL},
    {"with_drop_unroutable_a_destination_that_is_not_there_is_no_failure",
     with_drop_unroutable_a_destination_that_is_not_there_is_no_failure, NULL},
    {"a_thread_may_publish_and_end", a_thread_may_publish_and_end, has_threads},
    {"the_last_message_of_a_burst_says_that_no_more_follow", the_last_message_of_a_burst_says_that_no_more_follow, NULL},
    {NULL, NULL, NULL},
};
