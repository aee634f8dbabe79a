/* memory_amqp_test.c: the broker in memory standing in for an AMQP server: routing, competing consumers, settlement, dead letters, expiry, refusals. */
#include "transport/memory_fixture.h"

/* Queues --------------------------------------------------------------------------------------------------------------------- */

static void a_message_on_the_default_exchange_reaches_the_queue_of_its_key(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true));
    scene_start(&s);
    assert_int_equal(scene_publish(&s, "orders", "a"), CONEY_OK);
    assert_int_equal(scene_publish(&s, "elsewhere", "b"), CONEY_OK); /* it counts as being there, and keeps it */
    assert_string_equal(s.readers[0].got, "a");
    assert_int_equal(memory_ready(s.broker, "elsewhere"), 1);
    assert_int_equal(memory_ready(s.broker, "orders"), 0);
    scene_end(&s);
}

static void consumers_of_one_queue_take_turns(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("work", .declare = true));
    scene_read(&s, CONEY_QUEUE("work"));
    scene_start(&s);
    for (int i = 0; i < 4; i++)
        scene_publish(&s, "work", (const char *[]){"1", "2", "3", "4"}[i]);
    assert_string_equal(s.readers[0].got, "1 3");
    assert_string_equal(s.readers[1].got, "2 4");
    scene_end(&s);
}

static void a_consumer_of_higher_priority_is_served_until_its_prefetch_is_spent(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("work", .declare = true));
    scene_read(&s, CONEY_QUEUE("work", .declare = true, .has_priority = true, .priority = 5, .prefetch = 2));
    scene_start(&s);
    s.readers[1].plan = "kkk";
    for (int i = 0; i < 3; i++)
        scene_publish(&s, "work", (const char *[]){"1", "2", "3"}[i]);
    assert_string_equal(s.readers[1].got, "1 2");
    assert_string_equal(s.readers[0].got, "3");
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(s.broker->transport->settle(&s.readers[1].kept[i], CONEY_ACK), CONEY_OK);
    scene_end(&s);
}

static void a_single_active_consumer_has_a_follower(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("work", .declare = true, .single_active_consumer = true));
    scene_read(&s, CONEY_QUEUE("work", .declare = true, .single_active_consumer = true));
    scene_start(&s);
    scene_publish(&s, "work", "1");
    scene_publish(&s, "work", "2");
    scene_unsubscribe(&s, 0);
    scene_publish(&s, "work", "3");
    assert_string_equal(s.readers[0].got, "1 2");
    assert_string_equal(s.readers[1].got, "3");
    scene_end(&s);
}

static void a_requeued_message_comes_again_in_its_place(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true));
    scene_start(&s);
    const struct outgoing first = {.to = CONEY_STR("orders"), .body = CONEY_STR("1")};
    const struct outgoing second = {.to = CONEY_STR("orders"), .body = CONEY_STR("2")};
    scene_send(&s, s.outlet, &first);
    scene_send(&s, s.outlet, &second);
    s.readers[0].plan = "q";
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "1 1 2");
    scene_end(&s);
}

static void a_retry_is_held_for_its_time_and_counts_against_the_prefetch(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true, .prefetch = 1));
    scene_start(&s);
    s.readers[0].how = coney_retry_after(5 * CONEY_SECOND);
    scene_publish(&s, "orders", "1");
    scene_publish(&s, "orders", "2");
    s.readers[0].how = CONEY_ACK;
    scene_advance(&s, 4 * CONEY_SECOND);
    assert_string_equal(s.readers[0].got, "1");
    scene_advance(&s, 2 * CONEY_SECOND);
    assert_string_equal(s.readers[0].got, "1 1 2");
    scene_end(&s);
}

static void what_is_kept_goes_back_when_the_consumer_ends_and_settles_nothing_more(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true));
    scene_start(&s);
    s.readers[0].plan = "k";
    scene_publish(&s, "orders", "1");
    assert_int_equal(memory_open(s.broker), 1);
    scene_unsubscribe(&s, 0);
    assert_int_equal(memory_ready(s.broker, "orders"), 1);
    assert_memory_equal(s.readers[0].kept[0].body.data, "1", 1); /* still readable */
    assert_int_equal(s.broker->transport->settle(&s.readers[0].kept[0], CONEY_ACK), CONEY_ECLOSED);
    assert_int_equal(memory_ready(s.broker, "orders"), 1);
    scene_end(&s);
}

static void a_delivery_that_outlives_the_broker_is_settled_harmlessly(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true));
    scene_start(&s);
    s.readers[0].plan = "k";
    scene_publish(&s, "orders", "1");
    const struct transport *t = s.broker->transport;
    scene_end(&s);
    assert_memory_equal(s.readers[0].kept[0].body.data, "1", 1);
    assert_int_equal(t->settle(&s.readers[0].kept[0], CONEY_ACK), CONEY_ECLOSED);
}

/* Quorum queues and dead letters ------------------------------------------------------------------------------------------------ */

static void a_delivery_that_outlives_its_queue_can_still_be_read(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("mine", .declare = true, .exclusive = true));
    scene_start(&s);
    s.readers[0].plan = "k";
    scene_publish(&s, "mine", "1");
    struct incoming *kept = &s.readers[0].kept[0];
    const struct transport *t = s.broker->transport;
    scene_close(&s);
    s.outlet = NULL;
    coney_delivery_info info = {0};
    t->info(kept, &info);
    assert_memory_equal(info.source.data, "mine", 4);
    assert_int_equal(t->attempt(kept), 1);
    assert_int_equal(t->settle(kept, CONEY_ACK), CONEY_ECLOSED);
    scene_end(&s);
}

static void a_quorum_queue_gives_a_message_twenty_one_times_by_default(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true, .type = CONEY_QUEUE_QUORUM));
    scene_start(&s);
    assert_true(s.readers[0].feed->counts);
    s.readers[0].how = CONEY_REQUEUE;
    scene_publish(&s, "orders", "1");
    assert_int_equal(s.readers[0].count, 21);
    assert_int_equal(s.readers[0].attempt, 21);
    assert_int_equal(memory_ready(s.broker, "orders"), 0);
    scene_end(&s);
}

static void read_count(struct reader *reader, struct incoming *m)
{
    coney_value value;
    coney_delivery_info info = {0};
    int64_t *count = reader->ctx;
    *count = 0;
    m->feed->transport->info(m, &info);
    if (m->feed->transport->header(m, CONEY_STR("x-delivery-count"), &value))
        assert_true(coney_value_to_i64(&value, count));
    assert_int_equal(coney_value_find(&info.headers, CONEY_STR("x-delivery-count"), &value), *count > 0);
    coney_value left;
    assert_true(m->feed->transport->header(m, CONEY_STR("n"), &left));
}

static void a_quorum_queue_writes_its_count_among_the_headers(void **state)
{
    (void)state;
    struct scene s;
    int64_t count = 0;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true, .type = CONEY_QUEUE_QUORUM));
    scene_start(&s);
    s.readers[0].on_delivery = read_count;
    s.readers[0].ctx = &count;
    s.readers[0].plan = "qqkq";
    const coney_field header = {CONEY_STR_INIT("n"), coney_value_i32(1)};
    const struct outgoing out = {.to = CONEY_STR("orders"), .body = CONEY_STR("1"), .headers = &header, .header_count = 1};
    assert_int_equal(scene_send(&s, s.outlet, &out), CONEY_OK);
    scene_run(&s);
    assert_int_equal(count, 2);
    assert_int_equal(s.broker->transport->settle(&s.readers[0].kept[0], CONEY_REQUEUE), CONEY_OK);
    scene_run(&s);
    assert_int_equal(count, 4);
    assert_int_equal(s.readers[0].attempt, 5);
    scene_end(&s);
}

static void what_is_beyond_the_delivery_limit_goes_to_the_dead_letters_of_the_subscription(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    coney_subscribe(s.broker, &(coney_subscription){.source = CONEY_QUEUE("orders", .declare = true, .type = CONEY_QUEUE_QUORUM,
                                                                          .delivery_limit = 2),
                                                    .max_attempts = 3,
                                                    .dead_letter = "spent"});
    scene_start(&s);
    s.readers[0].how = CONEY_REQUEUE;
    scene_publish(&s, "orders", "1");
    assert_int_equal(s.readers[0].count, 3);
    assert_int_equal(memory_ready(s.broker, "spent"), 1);
    scene_end(&s);
}

static void with_max_attempts_the_limit_leaves_room_for_what_is_given_back(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    coney_subscribe(s.broker,
                    &(coney_subscription){.source = CONEY_QUEUE("orders", .declare = true, .type = CONEY_QUEUE_QUORUM),
                                          .max_attempts = 1,
                                          .dead_letter = "spent"});
    scene_start(&s);
    s.readers[0].how = CONEY_REQUEUE;
    scene_publish(&s, "orders", "1");
    assert_int_equal(s.readers[0].count, 22);
    assert_int_equal(memory_ready(s.broker, "spent"), 1);
    scene_end(&s);
}

static char death[256];

static void read_death(struct reader *reader, struct incoming *m)
{
    (void)reader;
    coney_value deaths;
    coney_value first;
    coney_value reason;
    coney_value queue;
    coney_value count;
    int64_t times = 0;
    assert_true(m->feed->transport->header(m, CONEY_STR("x-death"), &deaths));
    coney_value_iter iter = coney_value_elements(&deaths);
    assert_true(coney_value_next(&iter, &first));
    assert_true(coney_value_find(&first, CONEY_STR("reason"), &reason));
    assert_true(coney_value_find(&first, CONEY_STR("queue"), &queue));
    assert_true(coney_value_find(&first, CONEY_STR("count"), &count));
    assert_true(coney_value_to_i64(&count, &times));
    snprintf(death, sizeof death, "%.*s %.*s %d", (int)queue.as.bytes.len, (const char *)queue.as.bytes.data,
             (int)reason.as.bytes.len, (const char *)reason.as.bytes.data, (int)times);
}

static void a_rejected_message_goes_to_the_dead_letter_exchange_and_says_why(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true, .dead_letter_exchange = "dlx", .dead_letter_routing_key = "late"));
    scene_read(&s, CONEY_QUEUE("dead", .declare = true,
                               .bindings = CONEY_BINDINGS({.exchange = "dlx", .key = "late", .type = "direct"})));
    scene_start(&s);
    s.readers[0].how = CONEY_REJECT;
    s.readers[1].on_delivery = read_death;
    scene_publish(&s, "orders", "1");
    assert_string_equal(s.readers[1].got, "1");
    assert_string_equal(death, "orders rejected 1");
    scene_end(&s);
}

static void a_message_expires_at_the_head_of_its_queue_and_becomes_a_dead_letter(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    coney_declare_queue(s.broker, &(coney_amqp_queue){.name = "wait",
                                                      .message_ttl = 5 * CONEY_SECOND,
                                                      .dead_letter_exchange = "",
                                                      .dead_letter_routing_key = "back"});
    scene_read(&s, CONEY_QUEUE("back", .declare = true));
    scene_start(&s);
    s.readers[0].on_delivery = read_death;
    const struct outgoing slow = {.to = CONEY_STR("wait"), .body = CONEY_STR("slow"), .expiration = 4 * CONEY_SECOND};
    const struct outgoing fast = {.to = CONEY_STR("wait"), .body = CONEY_STR("fast"), .expiration = CONEY_SECOND};
    scene_send(&s, s.outlet, &slow);
    scene_send(&s, s.outlet, &fast);
    scene_advance(&s, 3 * CONEY_SECOND);
    assert_string_equal(s.readers[0].got, ""); /* the fast one waits behind the slow one, as on the server */
    scene_advance(&s, CONEY_SECOND);
    assert_string_equal(s.readers[0].got, "slow fast");
    assert_string_equal(death, "wait expired 1");
    scene_end(&s);
}

static void a_dead_letter_that_circles_by_itself_is_dropped(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    coney_declare_queue(
        s.broker, &(coney_amqp_queue){
                      .name = "a", .message_ttl = CONEY_SECOND, .dead_letter_exchange = "", .dead_letter_routing_key = "b"});
    coney_declare_queue(
        s.broker, &(coney_amqp_queue){
                      .name = "b", .message_ttl = CONEY_SECOND, .dead_letter_exchange = "", .dead_letter_routing_key = "a"});
    scene_start(&s);
    scene_publish(&s, "a", "1");
    scene_advance(&s, 10 * CONEY_SECOND);
    assert_int_equal(memory_ready(s.broker, "a") + memory_ready(s.broker, "b"), 0);
    scene_end(&s);
}

static void a_full_queue_drops_its_head_or_refuses_as_it_was_declared(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    coney_declare_queue(
        s.broker,
        &(coney_amqp_queue){.name = "newest", .max_length = 2, .dead_letter_exchange = "", .dead_letter_routing_key = "old"});
    coney_declare_queue(s.broker, &(coney_amqp_queue){.name = "oldest", .max_length = 2, .overflow = "reject-publish"});
    scene_start(&s);
    for (int i = 0; i < 3; i++)
        assert_int_equal(scene_publish(&s, "newest", "x"), CONEY_OK);
    assert_int_equal(memory_ready(s.broker, "newest"), 2);
    assert_int_equal(memory_ready(s.broker, "old"), 1);
    assert_int_equal(scene_publish(&s, "oldest", "x"), CONEY_OK);
    assert_int_equal(scene_publish(&s, "oldest", "x"), CONEY_OK);
    assert_int_equal(scene_publish(&s, "oldest", "x"), CONEY_EREFUSED);
    assert_int_equal(memory_ready(s.broker, "oldest"), 2);
    scene_end(&s);
}

static void a_queue_with_priorities_gives_the_highest_first(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("orders", .declare = true, .max_priority = 5));
    scene_start(&s);
    static const struct {
        const char *body;
        uint8_t priority;
    } rows[] = {{"a", 1}, {"b", 5}, {"c", 9}, {"d", 0}, {"e", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct outgoing out = {.to = CONEY_STR("orders"),
                                     .body = coney_bytes_str(rows[i].body),
                                     .has_priority = true,
                                     .priority = rows[i].priority};
        scene_send(&s, s.outlet, &out);
    }
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "b c a e d");
    scene_end(&s);
}

static void a_queue_that_nobody_uses_is_deleted_when_its_time_is_over(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("idle", .declare = true, .expires = 10 * CONEY_SECOND));
    scene_start(&s);
    scene_advance(&s, 20 * CONEY_SECOND);
    scene_unsubscribe(&s, 0);
    scene_publish(&s, "idle", "1");
    assert_int_equal(memory_ready(s.broker, "idle"), 1);
    scene_advance(&s, 11 * CONEY_SECOND);
    assert_int_equal(memory_ready(s.broker, "idle"), SIZE_MAX);
    scene_end(&s);
}

/* Exchanges ------------------------------------------------------------------------------------------------------------------ */

static void exchanges_route_as_their_types_say(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    const coney_field eu[] = {{CONEY_STR_INIT("x-match"), coney_value_string(CONEY_STR("all"))},
                              {CONEY_STR_INIT("region"), coney_value_string(CONEY_STR("eu"))}};
    scene_read(&s,
               CONEY_QUEUE("d", .declare = true, .bindings = CONEY_BINDINGS({.exchange = "xd", .key = "k", .type = "direct"})));
    scene_read(&s, CONEY_QUEUE("t", .declare = true,
                               .bindings = CONEY_BINDINGS({.exchange = "xt", .key = "order.*", .type = "topic"},
                                                          {.exchange = "xt", .key = "#", .type = "topic"})));
    scene_read(&s, CONEY_QUEUE("f", .declare = true, .bindings = CONEY_BINDINGS({.exchange = "xf", .type = "fanout"})));
    scene_read(&s, CONEY_QUEUE("h", .declare = true,
                               .bindings = CONEY_BINDINGS(
                                   {.exchange = "xh", .type = "headers", .arguments = eu, .argument_count = 2})));
    scene_start(&s);
    static const struct {
        const char *exchange, *key;
        coney_status outcome;
    } rows[] = {{"xd", "k", CONEY_OK},        {"xd", "other", CONEY_ERETURNED},    {"xt", "order.made", CONEY_OK},
                {"xf", "whatever", CONEY_OK}, {"xh", "whatever", CONEY_ERETURNED}, {"xnone", "k", CONEY_EREFUSED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct outlet *outlet = scene_outlet(&s, rows[i].exchange);
        const struct outgoing out = {.to = coney_bytes_str(rows[i].key), .body = CONEY_STR("m")};
        assert_int_equal(scene_send(&s, outlet, &out), rows[i].outcome);
        outlet->transport->close_outlet(outlet, &s.call);
    }
    assert_int_equal(s.outcome.code, 404);
    struct outlet *outlet = scene_outlet(&s, "xh");
    const coney_field header = {CONEY_STR_INIT("region"), coney_value_string(CONEY_STR("eu"))};
    const struct outgoing out = {.to = CONEY_STR("x"), .body = CONEY_STR("m"), .headers = &header, .header_count = 1};
    assert_int_equal(scene_send(&s, outlet, &out), CONEY_OK);
    outlet->transport->close_outlet(outlet, &s.call);
    scene_run(&s);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(s.readers[i].got, "m"); /* once each, however many bindings match */
    scene_end(&s);
}

static void what_an_exchange_cannot_route_goes_to_its_alternate(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    coney_declare_exchange(s.broker, &(coney_amqp_exchange){.name = "main", .alternate_exchange = "rest"});
    coney_declare_exchange(s.broker, &(coney_amqp_exchange){.name = "rest", .type = "fanout", .alternate_exchange = "main"});
    scene_start(&s);
    struct outlet *outlet = scene_outlet(&s, "main");
    const struct outgoing out = {.to = CONEY_STR("k"), .body = CONEY_STR("m")};
    assert_int_equal(scene_send(&s, outlet, &out), CONEY_ERETURNED); /* a circle of alternates ends */
    outlet->transport->close_outlet(outlet, &s.call);
    scene_end(&s);

    scene_amqp(&s);
    coney_declare_exchange(s.broker, &(coney_amqp_exchange){.name = "main", .alternate_exchange = "rest"});
    scene_read(&s, CONEY_QUEUE("lost", .declare = true, .bindings = CONEY_BINDINGS({.exchange = "rest", .type = "fanout"})));
    scene_start(&s);
    outlet = scene_outlet(&s, "main");
    assert_int_equal(scene_send(&s, outlet, &out), CONEY_OK);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "m");
    outlet->transport->close_outlet(outlet, &s.call);
    scene_end(&s);
}

/* Refusals ------------------------------------------------------------------------------------------------------------------- */

static void refused(const coney_queue_source *source, coney_status status, const char *text)
{
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, coney_source_queue(source));
    assert_int_equal(scene_try_start(&s), status);
    if (strstr(s.call.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", s.call.text, text);
    scene_end(&s);
}

static void what_a_server_refuses_is_refused(void **state)
{
    (void)state;
    char long_name[300];
    memset(long_name, 'q', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const coney_field plugin = {CONEY_STR_INIT("x-message-deduplication"), coney_value_bool(true)};
    refused(&(coney_queue_source){.name = long_name, .declare = true}, CONEY_EINVAL, "255");
    refused(&(coney_queue_source){.name = "amq.mine", .declare = true}, CONEY_EACCESS, "amq.");
    refused(&(coney_queue_source){.name = "q", .declare = true, .transient = true}, CONEY_EBROKER, "transient");
    refused(&(coney_queue_source){.name = "q", .declare = true, .type = CONEY_QUEUE_QUORUM, .max_priority = 3},
            CONEY_EPRECONDITION, "x-max-priority");
    refused(&(coney_queue_source){.name = "q", .declare = true, .type = CONEY_QUEUE_QUORUM, .exclusive = true},
            CONEY_EPRECONDITION, "exclusive");
    refused(&(coney_queue_source){.name = "q", .declare = true, .type = CONEY_QUEUE_STREAM, .message_ttl = CONEY_SECOND},
            CONEY_EPRECONDITION, "x-message-ttl");
    refused(&(coney_queue_source){.name = "q", .declare = true, .bindings = CONEY_BINDINGS({.exchange = "", .key = "k"})},
            CONEY_EACCESS, "default exchange");
    refused(&(coney_queue_source){.name = "q", .declare = true, .bindings = CONEY_BINDINGS({.exchange = "none", .key = "k"})},
            CONEY_ENOTFOUND, "no exchange 'none'");
    refused(&(coney_queue_source){.name = "q", .declare = true, .arguments = &plugin, .argument_count = 1}, CONEY_EUNSUPPORTED,
            "x-message-deduplication");
}

static void a_queue_declared_again_with_other_arguments_is_refused(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("q", .declare = true, .max_length = 5));
    scene_read(&s, CONEY_QUEUE("q", .declare = true));
    assert_int_equal(scene_try_start(&s), CONEY_EPRECONDITION);
    assert_int_equal(s.call.code, 406);
    assert_non_null(strstr(s.call.text, "x-max-length"));
    scene_end(&s);
}

static void a_second_consumer_of_a_queue_in_exclusive_use_is_refused(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("q", .declare = true, .exclusive_consumer = true));
    scene_read(&s, CONEY_QUEUE("q"));
    assert_int_equal(scene_try_start(&s), CONEY_EACCESS);
    scene_end(&s);
}

static void messages_that_no_server_takes_are_refused(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_start(&s);
    char long_text[300];
    memset(long_text, 'k', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    const struct outgoing long_key = {.to = coney_bytes_str(long_text)};
    assert_int_equal(scene_send(&s, s.outlet, &long_key), CONEY_EINVAL);
    const struct outgoing long_id = {.to = CONEY_STR("q"), .correlation_id = coney_bytes_str(long_text)};
    assert_int_equal(scene_send(&s, s.outlet, &long_id), CONEY_EINVAL);
    const coney_field symbol = {CONEY_STR_INIT("h"), coney_value_symbol(CONEY_STR("s"))};
    const struct outgoing no_form = {.to = CONEY_STR("q"), .headers = &symbol, .header_count = 1};
    assert_int_equal(scene_send(&s, s.outlet, &no_form), CONEY_EINVAL);
    assert_int_equal(scene_publish(&s, "", "no queue has an empty name"), CONEY_ERETURNED);
    uint8_t *large = calloc(1, (16 << 20) + 1);
    const struct outgoing too_large = {.to = CONEY_STR("q"), .body = {large, (16 << 20) + 1}};
    assert_int_equal(scene_send(&s, s.outlet, &too_large), CONEY_EREFUSED);
    assert_int_equal(s.outcome.code, 406);
    assert_int_equal(memory_ready(s.broker, "q"), SIZE_MAX);
    free(large);
    scene_end(&s);
}

/* Copies, transactions, requests ------------------------------------------------------------------------------------------------ */

static coney_status copied;

static void copy_told(void *ctx, const coney_outcome *outcome)
{
    (void)ctx;
    copied = outcome->status;
}

/* As the framework does it: a copy that waits, then the ack of the original. */
static void retry_by_copy(struct reader *reader, struct incoming *m)
{
    const int64_t *delays = reader->ctx;
    uint64_t attempt = m->feed->transport->attempt(m);
    if (attempt > 1)
        return;
    bool is_long = m->body.len == 4;
    copied = CONEY_EUNKNOWN;
    assert_int_equal(m->feed->transport->copy(m, NULL, attempt, delays[is_long], copy_told, NULL, 0), CONEY_OK);
    assert_int_equal(copied, CONEY_OK);
}

static void a_copy_waits_in_its_queue_and_a_short_delay_not_behind_a_long_one(void **state)
{
    (void)state;
    for (coney_delay delay = CONEY_DELAY_QUEUE; delay <= CONEY_DELAY_PLUGIN; delay++) {
        struct scene s;
        const int64_t delays[] = {2 * CONEY_SECOND, 60 * CONEY_SECOND};
        scene_amqp(&s);
        scene_read(&s, CONEY_QUEUE("orders", .declare = true, .delay = delay));
        scene_start(&s);
        assert_true(s.broker->transport->delays(s.readers[0].feed));
        s.readers[0].on_delivery = retry_by_copy;
        s.readers[0].ctx = (void *)(uintptr_t)delays;
        scene_publish(&s, "orders", "long");
        scene_publish(&s, "orders", "shorter");
        if (delay == CONEY_DELAY_QUEUE)
            assert_int_equal(memory_ready(s.broker, "orders.wait.2000"), 1);
        scene_advance(&s, 3 * CONEY_SECOND);
        assert_string_equal(s.readers[0].got, "long shorter shorter");
        assert_int_equal(s.readers[0].attempt, 2);
        scene_advance(&s, 60 * CONEY_SECOND);
        assert_string_equal(s.readers[0].got, "long shorter shorter long");
        scene_end(&s);
    }
}

static void a_transaction_is_seen_whole_or_not_at_all(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("q", .declare = true));
    scene_start(&s);
    const struct transport *t = s.broker->transport;
    const struct outgoing one = {.to = CONEY_STR("q"), .body = CONEY_STR("1")};
    const struct outgoing two = {.to = CONEY_STR("q"), .body = CONEY_STR("2")};
    void *tx = NULL;
    assert_int_equal(t->tx_begin(s.outlet, &tx, &s.call), CONEY_OK);
    assert_int_equal(t->tx_publish(tx, &one), CONEY_OK);
    assert_int_equal(t->tx_publish(tx, &two), CONEY_OK);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "");
    assert_int_equal(t->tx_commit(tx, &s.call), CONEY_OK);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "1 2");
    assert_int_equal(t->tx_begin(s.outlet, &tx, &s.call), CONEY_OK);
    assert_int_equal(t->tx_publish(tx, &one), CONEY_OK);
    assert_int_equal(t->tx_abort(tx, &s.call), CONEY_OK);
    struct outlet *nowhere = scene_outlet(&s, "none");
    assert_int_equal(t->tx_begin(nowhere, &tx, &s.call), CONEY_OK);
    assert_int_equal(t->tx_publish(tx, &one), CONEY_OK);
    assert_int_equal(t->tx_commit(tx, &s.call), CONEY_ENOTFOUND);
    t->close_outlet(nowhere, &s.call);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "1 2");
    scene_end(&s);
}

static void answer(struct reader *reader, struct incoming *m)
{
    struct scene *s = reader->ctx;
    coney_delivery_info info = {0};
    m->feed->transport->info(m, &info);
    const struct outgoing out = {
        .to = info.reply_to, .body = CONEY_STR("pong"), .correlation_id = info.correlation_id, .to_requester = true};
    assert_int_equal(scene_send(s, s->outlet, &out), CONEY_OK);
}

static void a_request_runs_the_bus_until_its_reply_is_there(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("ask", .declare = true));
    scene_read(&s, CONEY_QUEUE("mute", .declare = true));
    scene_start(&s);
    s.readers[0].on_delivery = answer;
    s.readers[0].ctx = &s;
    const struct transport *t = s.broker->transport;
    struct incoming reply = {0};
    const struct outgoing ask = {.to = CONEY_STR("ask"), .body = CONEY_STR("ping")};
    assert_int_equal(t->request(s.outlet, &ask, &reply, &s.call), CONEY_OK);
    assert_memory_equal(reply.body.data, "pong", 4);
    assert_int_equal(t->settle(&reply, CONEY_ACK), CONEY_OK);

    int64_t before = worker_now(s.app->worker);
    coney_call call = {.deadline = 3 * CONEY_SECOND};
    const struct outgoing mute = {.to = CONEY_STR("mute"), .body = CONEY_STR("ping")};
    assert_int_equal(t->request(s.outlet, &mute, &reply, &call), CONEY_ETIMEDOUT);
    assert_int_equal(worker_now(s.app->worker) - before, 3 * CONEY_SECOND); /* time went on, nobody waited for it */
    const struct outgoing late = {.to = CONEY_STR("amq.rabbitmq.reply-to.1"), .body = CONEY_STR("late"), .to_requester = true};
    assert_int_equal(scene_send(&s, s.outlet, &late), CONEY_OK); /* that nobody waits any more is no failure */
    scene_end(&s);
}

static void a_queue_that_the_server_names_and_an_exclusive_one_end_with_their_owner(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    scene_read(&s, CONEY_QUEUE("", .declare = true, .exclusive = true,
                               .bindings = CONEY_BINDINGS({.exchange = "events", .type = "fanout"})));
    scene_start(&s);
    struct outlet *outlet = scene_outlet(&s, "events");
    const struct outgoing out = {.to = CONEY_STR("k"), .body = CONEY_STR("m")};
    assert_int_equal(scene_send(&s, outlet, &out), CONEY_OK);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "m");
    outlet->transport->close_outlet(outlet, &s.call);
    scene_close(&s);
    s.outlet = NULL;
    scene_start(&s);
    scene_unsubscribe(&s, 0);
    scene_end(&s);
}

static void a_stream_queue_is_read_from_where_it_says_by_each_consumer(void **state)
{
    (void)state;
    struct scene s;
    scene_amqp(&s);
    const coney_field second = {CONEY_STR_INIT("x-stream-offset"), coney_value_u64(1)};
    scene_read(&s, CONEY_QUEUE("log", .declare = true, .type = CONEY_QUEUE_STREAM, .start = CONEY_STREAM_FIRST));
    scene_read(&s, CONEY_QUEUE("log", .type = CONEY_QUEUE_STREAM, .consume_arguments = &second, .consume_argument_count = 1));
    scene_start(&s);
    s.readers[0].plan = "q"; /* a server takes that for an ack */
    for (int i = 0; i < 3; i++)
        scene_publish(&s, "log", (const char *[]){"0", "1", "2"}[i]);
    assert_string_equal(s.readers[0].got, "0 1 2");
    assert_string_equal(s.readers[1].got, "1 2");
    assert_int_equal(s.readers[1].offset, 2);
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_on_the_default_exchange_reaches_the_queue_of_its_key),
        cmocka_unit_test(consumers_of_one_queue_take_turns),
        cmocka_unit_test(a_consumer_of_higher_priority_is_served_until_its_prefetch_is_spent),
        cmocka_unit_test(a_single_active_consumer_has_a_follower),
        cmocka_unit_test(a_requeued_message_comes_again_in_its_place),
        cmocka_unit_test(a_retry_is_held_for_its_time_and_counts_against_the_prefetch),
        cmocka_unit_test(what_is_kept_goes_back_when_the_consumer_ends_and_settles_nothing_more),
        cmocka_unit_test(a_delivery_that_outlives_the_broker_is_settled_harmlessly),
        cmocka_unit_test(a_delivery_that_outlives_its_queue_can_still_be_read),
        cmocka_unit_test(a_quorum_queue_gives_a_message_twenty_one_times_by_default),
        cmocka_unit_test(a_quorum_queue_writes_its_count_among_the_headers),
        cmocka_unit_test(what_is_beyond_the_delivery_limit_goes_to_the_dead_letters_of_the_subscription),
        cmocka_unit_test(with_max_attempts_the_limit_leaves_room_for_what_is_given_back),
        cmocka_unit_test(a_rejected_message_goes_to_the_dead_letter_exchange_and_says_why),
        cmocka_unit_test(a_message_expires_at_the_head_of_its_queue_and_becomes_a_dead_letter),
        cmocka_unit_test(a_dead_letter_that_circles_by_itself_is_dropped),
        cmocka_unit_test(a_full_queue_drops_its_head_or_refuses_as_it_was_declared),
        cmocka_unit_test(a_queue_with_priorities_gives_the_highest_first),
        cmocka_unit_test(a_queue_that_nobody_uses_is_deleted_when_its_time_is_over),
        cmocka_unit_test(exchanges_route_as_their_types_say),
        cmocka_unit_test(what_an_exchange_cannot_route_goes_to_its_alternate),
        cmocka_unit_test(what_a_server_refuses_is_refused),
        cmocka_unit_test(a_queue_declared_again_with_other_arguments_is_refused),
        cmocka_unit_test(a_second_consumer_of_a_queue_in_exclusive_use_is_refused),
        cmocka_unit_test(messages_that_no_server_takes_are_refused),
        cmocka_unit_test(a_copy_waits_in_its_queue_and_a_short_delay_not_behind_a_long_one),
        cmocka_unit_test(a_transaction_is_seen_whole_or_not_at_all),
        cmocka_unit_test(a_request_runs_the_bus_until_its_reply_is_there),
        cmocka_unit_test(a_queue_that_the_server_names_and_an_exclusive_one_end_with_their_owner),
        cmocka_unit_test(a_stream_queue_is_read_from_where_it_says_by_each_consumer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
