/* drive_test.c: retries, delays, dead letters and other brokers, in a time that stands still. */
#include "testkit/testkit_fixture.h"

static void a_retry_comes_when_its_time_has_come_and_not_before(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(coney_retry_after(5 * CONEY_SECOND), CONEY_ACK);
    assert_sent(t, 1);
    assert_holds({
        coney_test_expect_called(t, "orders", 1);
        coney_test_advance(t, 5 * CONEY_SECOND - 1);
        coney_test_expect_called(t, "orders", 1);
        coney_test_advance(t, 1);
        coney_test_expect_called(t, "orders", 2);
        coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
    });
    stop(t);
}

static void one_advance_passes_many_retries(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(coney_retry_after(CONEY_SECOND));
    assert_sent(t, 1);
    assert_holds({
        coney_test_advance(t, 3600 * CONEY_SECOND);
        coney_test_expect_called(t, "orders", 3601);
    });
    assert_fails("time does not go back", coney_test_advance(t, -1));
    coney_test_stop(&t);
}

static void a_waiting_queue_gives_messages_back(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    SCRIPT(coney_retry_after(CONEY_SECOND), CONEY_ACK);
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders", .delay = CONEY_DELAY_QUEUE, .declare = true),
                                                  .handler = play_handler});
    coney_test *t = start(app);
    assert_sent(t, 1);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_RETRIED, 1);
        coney_test_advance(t, 2 * CONEY_SECOND);
        coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
    });
    stop(t);
}

static void spend_attempts_of(coney_queue_type type)
{
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    coney_declare_queue(rabbit, &(coney_amqp_queue){.name = "spent"});
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders", .declare = true, .type = type),
                                                  .handler = play_handler,
                                                  .max_attempts = 3,
                                                  .dead_letter = "spent"});
    coney_test *t = start(app);
    SCRIPT(coney_retry_after(CONEY_SECOND));
    assert_sent(t, 9);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_RETRIED, 1);
        coney_test_advance(t, 10 * CONEY_SECOND);
        coney_test_expect_called(t, "orders", 3);
        coney_test_expect_settled(t, "orders", CONEY_RETRIED, 2);
        coney_test_expect_settled(t, "orders", CONEY_REJECT, 1);
        coney_test_expect_waiting(t, "spent", 1);
        assert_int_equal(order_expect(t, "spent")->id, 9);
        coney_test_expect_logged(t, CONEY_LOG_WARNING, "was delivered 3 times");
    });
    stop(t);
}

static void a_message_is_dead_lettered_after_its_attempts(void **state)
{
    (void)state;
    spend_attempts_of(CONEY_QUEUE_CLASSIC);
    spend_attempts_of(CONEY_QUEUE_QUORUM);
}

static void a_message_that_causes_itself_has_no_end(void **state)
{
    (void)state;
    coney_app *app = app_with((coney_subscription){0});
    coney_test *t = coney_test_start(app, &(coney_test_options){.on_failure = on_failure, .max_steps = 50});
    SCRIPT(CONEY_REQUEUE);
    assert_fails("there is no end to what one publish has caused: after 50 deliveries", assert_sent(t, 1));
    assert_int_equal(script.calls, 51);
    coney_test_stop(&t);

    t = coney_test_start(app_with((coney_subscription){0}), &(coney_test_options){.on_failure = on_failure, .max_steps = 50});
    SCRIPT(CONEY_ACK);
    for (uint64_t id = 0; id < 60; id++)
        assert_sent(t, id);
    assert_holds(coney_test_expect_called(t, "orders", 60));
    stop(t);
}

static coney_test *driven;
static size_t depth, deepest;

static coney_settle send_more(coney_delivery *d, const order *o)
{
    (void)d;
    depth++;
    deepest = depth > deepest ? depth : deepest;
    if (o->id < 3)
        assert_sent(driven, o->id + 1);
    depth--;
    return CONEY_ACK;
}
CONEY_HANDLER(send_more, order);

static void what_a_handler_sends_from_outside_is_handled_after_it(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    coney_subscribe(rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE("orders"), .name = "one", .handler = send_more_handler});
    coney_subscribe(rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE("orders"), .name = "two", .handler = send_more_handler});
    coney_test *t = driven = start(app);
    depth = deepest = 0;
    assert_sent(t, 1);
    assert_int_equal(deepest, 1);
    assert_holds({
        coney_test_expect_called(t, "one", 2);
        coney_test_expect_called(t, "two", 1);
    });
    stop(t);
}

static void then_advance(void *ctx, coney_settle how)
{
    (void)how;
    coney_test_advance(ctx, CONEY_SECOND);
}

static void time_does_not_move_inside_a_hook(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    coney_test_on_call(t, "orders", then_advance, t);
    assert_fails("time stands still there", assert_sent(t, 1));
    coney_test_stop(&t);
}

static int64_t told_time;

static coney_settle tell_time(coney_delivery *d, const order *o)
{
    (void)o;
    told_time = coney_delivery_info_of(d)->timestamp;
    return CONEY_ACK;
}
CONEY_HANDLER(tell_time, order);

static void time_begins_where_the_test_says_and_stands_still(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("shop", "1");
    coney_broker *streams = coney_app_stream(app, "rabbitmq-stream://localhost", NULL);
    coney_subscribe(streams, &(coney_subscription){.source = CONEY_STREAM("orders"), .handler = tell_time_handler});
    coney_test *t = coney_test_start(app, &(coney_test_options){.on_failure = on_failure, .now = 1700000000000});
    assert_sent(t, 1);
    assert_int_equal(told_time, 1700000000000);
    coney_test_advance(t, 90 * CONEY_SECOND);
    assert_sent(t, 2);
    assert_int_equal(told_time, 1700000090000);
    stop(t);
}

/* Streams and topics ------------------------------------------------------------------------------------------------------------- */

static uint64_t ids[16];
static size_t id_count;
static bool rewinds;

static coney_settle read_on(coney_delivery *d, const order *o)
{
    ids[id_count++] = o->id;
    if (rewinds && o->id == 3) {
        rewinds = false;
        return coney_seek(d, &(coney_position){.at = CONEY_STREAM_FIRST}) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
    }
    return CONEY_ACK;
}
CONEY_HANDLER(read_on, order);

static void a_stream_is_read_in_order_and_again_from_where_a_seek_says(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("shop", "1");
    coney_broker *streams = coney_app_stream(app, "rabbitmq-stream://localhost", NULL);
    coney_subscribe(streams, &(coney_subscription){.source = CONEY_STREAM("orders", .start_if_new = CONEY_STREAM_FIRST),
                                                   .handler = read_on_handler});
    coney_test *t = start(app);
    id_count = 0;
    rewinds = true;
    for (uint64_t id = 1; id <= 3; id++)
        assert_sent(t, id);
    assert_int_equal(id_count, 6);
    assert_int_equal(ids[3], 1);
    assert_int_equal(ids[5], 3);
    const coney_position second = {.at = CONEY_STREAM_OFFSET, .offset = 1};
    assert_int_equal(coney_app_seek(coney_test_app(t), "orders", &second, NULL), CONEY_OK);
    coney_test_settle(t);
    assert_int_equal(id_count, 8);
    assert_int_equal(ids[6], 2);
    assert_holds(coney_test_expect_settled(t, "orders", CONEY_ACK, 8));
    stop(t);
}

static void two_brokers_are_told_apart_by_their_labels(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("shop", "1");
    coney_broker *rabbit = coney_app_amqp(app, "amqp://localhost", NULL);
    coney_broker *inside = coney_app_memory(app, &(coney_memory_options){0});
    coney_broker_label(inside, "inside");
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = play_handler});
    coney_subscribe(inside, &(coney_subscription){.source = CONEY_TOPIC("orders.>"), .handler = read_on_handler});
    coney_test *t = start(app);
    SCRIPT(CONEY_ACK);
    script.then = "receipts";
    id_count = 0;
    rewinds = false;
    assert_fails("several brokers", coney_test_out(t));
    coney_test_stop(&t);
    assert_null(t);

    app = coney_app_new("shop", "1");
    rabbit = coney_app_amqp(app, "amqp://localhost", NULL);
    inside = coney_app_memory(app, &(coney_memory_options){0});
    coney_broker_label(inside, "inside");
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = play_handler});
    coney_subscribe(inside, &(coney_subscription){.source = CONEY_TOPIC("orders.>"), .handler = read_on_handler});
    t = start(app);
    coney_test_on(t, "amqp");
    assert_sent(t, 1);
    assert_holds(coney_test_expect_published_count(t, "receipts", 1));
    assert_fails("on broker 'amqp'", coney_test_expect_called(t, "orders.>", 0));
    coney_test_on(t, "inside");
    assert_int_equal(order_publish(coney_test_out(t), "orders.new", &(order){.id = 2}), CONEY_OK);
    assert_holds({
        coney_test_expect_called(t, "orders.>", 1);
        coney_test_expect_published_count(t, "receipts", 0);
    });
    assert_int_equal(ids[0], 2);
    coney_test_stop(&t);
}

static void lanes_run_one_after_the_other(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){.lanes = 4}));
    SCRIPT(CONEY_ACK);
    for (uint64_t id = 1; id <= 8; id++)
        assert_sent(t, id);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_ACK, 8);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(order_received(t, "orders", i)->id, i + 1);
    });
    stop(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_comes_when_its_time_has_come_and_not_before),
        cmocka_unit_test(one_advance_passes_many_retries),
        cmocka_unit_test(a_waiting_queue_gives_messages_back),
        cmocka_unit_test(a_message_is_dead_lettered_after_its_attempts),
        cmocka_unit_test(a_message_that_causes_itself_has_no_end),
        cmocka_unit_test(what_a_handler_sends_from_outside_is_handled_after_it),
        cmocka_unit_test(time_does_not_move_inside_a_hook),
        cmocka_unit_test(time_begins_where_the_test_says_and_stands_still),
        cmocka_unit_test(a_stream_is_read_in_order_and_again_from_where_a_seek_says),
        cmocka_unit_test(two_brokers_are_told_apart_by_their_labels),
        cmocka_unit_test(lanes_run_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
