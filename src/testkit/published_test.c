/* published_test.c: what the app has published, what fails, and somebody outside, holding and failing. */
#include "testkit/testkit_fixture.h"

static void publishes_are_given_in_order_and_each_once(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    script.then = "receipts";
    assert_sent(t, 1);
    assert_sent(t, 2);
    assert_holds({
        assert_int_equal(receipt_expect(t, "receipts")->order_id, 1);
        const coney_test_message *second = coney_test_expect_published(t, "receipts");
        assert_memory_equal(second->to.data, "receipts", 8);
        assert_memory_equal(second->content_type.data, "application/json", 16);
        assert_string_equal(second->body.data, "{\"order_id\":2}");
        assert_int_equal(second->exchange.len, 0);
        coney_test_expect_published_count(t, "receipts", 2);
        coney_test_expect_published_count(t, "orders", 0);
        coney_test_expect_waiting(t, "receipts", 2);
    });
    assert_fails("destination 'receipts' of broker 'amqp': 2 messages were published, expected 3 or more; published so far: "
                 "'receipts' 2",
                 coney_test_expect_published(t, "receipts"));
    assert_fails("published so far: 'receipts' 2", coney_test_expect_published_count(t, "audit", 1));
    assert_fails("2 messages wait in it, expected 0", coney_test_expect_waiting(t, "receipts", 0));
    assert_fails("broker 'amqp' has no queue 'reciepts'", coney_test_expect_waiting(t, "reciepts", 0));
    coney_test_stop(&t);
}

static void a_publish_that_is_no_such_type_fails(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    script.then = "receipts";
    assert_sent(t, 1);
    assert_fails("destination 'receipts': message 0 is no order as json reads it", order_expect(t, "receipts"));
    coney_test_stop(&t);
}

static coney_settle publish_with_headers(coney_delivery *d, const order *o)
{
    const coney_field headers[] = {{CONEY_STR("tries"), coney_value_i32(3)},
                                   {CONEY_STR("from"), coney_value_string(CONEY_STR("shop"))},
                                   {CONEY_STR("late"), coney_value_bool(true)}};
    const coney_publish_options options = {.to = "receipts",
                                           .key = CONEY_STR("k1"),
                                           .message_id = CONEY_STR("m-1"),
                                           .headers = headers,
                                           .header_count = 3,
                                           .priority = 4,
                                           .has_priority = true,
                                           .expiration = 5 * CONEY_SECOND};
    return receipt_publish_with(coney_out_of(d), &options, &(receipt){.order_id = o->id}) == CONEY_OK ? CONEY_ACK
                                                                                                      : CONEY_FAILED;
}
CONEY_HANDLER(publish_with_headers, order);

static void headers_and_properties_of_publishes_are_there(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){.handler = publish_with_headers_handler}));
    assert_sent(t, 1);
    const coney_test_message *volatile m = NULL;
    assert_holds({
        m = coney_test_expect_published(t, "receipts");
        coney_test_expect_header(t, m, "tries", coney_value_u64(3));
        coney_test_expect_header(t, m, "from", coney_value_string(CONEY_STR("shop")));
        coney_test_expect_header(t, m, "late", coney_value_bool(true));
        coney_test_expect_header(t, m, "x-coney-key", coney_value_string(CONEY_STR("k1")));
        assert_string_equal(m->info.message_id.data, "m-1");
        assert_int_equal(m->info.priority, 4);
        assert_int_equal(m->info.expiration, 5 * CONEY_SECOND);
    });
    assert_fails("has header 'tries' = 3; expected 4", coney_test_expect_header(t, m, "tries", coney_value_i64(4)));
    assert_fails("has header 'late' = true; expected 'yes'",
                 coney_test_expect_header(t, m, "late", coney_value_string(CONEY_STR("yes"))));
    assert_fails("has no header 'nothing'", coney_test_expect_header(t, m, "nothing", coney_value_null()));
    assert_fails("there is no message", coney_test_expect_header(t, NULL, "tries", coney_value_null()));
    coney_test_stop(&t);
}

static size_t seen;

static void see(void *ctx, const coney_test_message *message)
{
    seen++;
    if (ctx != NULL)
        coney_test_expect_header(ctx, message, "signature", coney_value_bool(true));
}

static void a_hook_runs_after_each_publish_to_its_destination(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    script.then = "receipts";
    seen = 0;
    assert_holds(coney_test_on_publish(t, "receipts", see, NULL));
    assert_sent(t, 1);
    assert_sent(t, 2);
    assert_int_equal(seen, 2);
    coney_test_on_publish(t, "receipts", see, t);
    assert_fails("has no header 'signature'", assert_sent(t, 3));
    coney_test_stop(&t);
}

/* Failing ------------------------------------------------------------------------------------------------------------------------ */

static void publishes_fail_as_often_as_is_asked_and_the_message_comes_again(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    script.then = "receipts";
    assert_holds(coney_test_fail_publishes(t, CONEY_EREFUSED, 2));
    assert_sent(t, 1);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_RETRIED, 1);
        coney_test_expect_published_count(t, "receipts", 0);
        coney_test_advance(t, CONEY_SECOND);
        coney_test_expect_settled(t, "orders", CONEY_RETRIED, 2);
        coney_test_advance(t, CONEY_SECOND);
        coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
        coney_test_expect_published_count(t, "receipts", 1);
    });
    assert_fails("CONEY_EAGAIN is no outcome", coney_test_fail_publishes(t, CONEY_EAGAIN, 1));
    coney_test_stop(&t);
}

static void a_publish_to_a_queue_that_is_full_is_refused_as_a_server_refuses_it(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    const coney_field reject = {CONEY_STR("x-overflow"), coney_value_string(CONEY_STR("reject-publish"))};
    coney_declare_queue(rabbit,
                        &(coney_amqp_queue){.name = "receipts", .max_length = 1, .arguments = &reject, .argument_count = 1});
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"),
                                                  .handler = play_handler,
                                                  .on_publish_failure = CONEY_POLICY_REJECT});
    coney_test *t = start(app);
    SCRIPT(CONEY_ACK);
    script.then = "receipts";
    assert_sent(t, 1);
    assert_sent(t, 2);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
        coney_test_expect_settled(t, "orders", CONEY_REJECT, 1);
        coney_test_expect_waiting(t, "receipts", 1);
    });
    stop(t);
}

/* Outside ------------------------------------------------------------------------------------------------------------------------ */

static size_t around_calls;

static coney_status around(void *ctx, const coney_publish *message, coney_publish_next *next)
{
    (void)ctx;
    around_calls++;
    return coney_publish_next_run(next, message);
}

static void what_comes_from_outside_is_not_the_apps_publish(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    coney_app_use_publish(app, around, NULL);
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = play_handler});
    coney_test *t = start(app);
    SCRIPT(CONEY_ACK);
    around_calls = 0;
    assert_holds(coney_test_fail_publishes(t, CONEY_EREFUSED, 1));
    assert_sent(t, 1);
    assert_int_equal(around_calls, 0);
    assert_holds(coney_test_expect_published_count(t, "orders", 0));
    stop(t);
}

static void what_nobody_takes_is_returned_and_what_is_not_there_not_found(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    SCRIPT(CONEY_ACK);
    coney_subscribe(rabbit, &(coney_subscription){
                                .source = CONEY_QUEUE("orders", .declare = true,
                                                      .bindings = CONEY_BINDINGS({"events", "order.*", "topic", NULL, 0})),
                                .handler = play_handler});
    coney_test *t = start(app);
    const order o = {.id = 5};
    assert_int_equal(order_publish(coney_test_out_to(t, "events"), "order.made", &o), CONEY_OK);
    assert_int_equal(order_publish(coney_test_out_to(t, "events"), "invoice.made", &o), CONEY_ERETURNED);
    assert_int_equal(order_publish(coney_test_out_to(t, "nowhere"), "order.made", &o), CONEY_ENOTFOUND);
    assert_int_equal(order_publish(coney_test_out(t), NULL, &o), CONEY_EINVAL);
    assert_holds(coney_test_expect_called(t, "orders", 1));
    stop(t);
}

static coney_settle answer(coney_delivery *d, const order *o)
{
    return receipt_reply(d, &(receipt){.order_id = o->id * 2}) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(answer, order);

static coney_settle ask(coney_delivery *d, const order *o)
{
    coney_reply_message *reply = NULL;
    coney_publisher *publisher = coney_out_of(d).publisher;
    coney_call call = {.deadline = CONEY_SECOND};
    coney_status status = order_request(publisher, &(coney_publish_options){.to = "prices"}, o, &reply, &call);
    if (status != CONEY_OK)
        return coney_failed(d, call.text);
    receipt r = {.order_id = receipt_of_reply(reply)->order_id};
    coney_reply_free(&reply);
    return receipt_publish(coney_out_of(d), "receipts", &r) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(ask, order);

static coney_app *asking_app(bool with_answers)
{
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = ask_handler});
    if (with_answers)
        coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("prices"), .handler = answer_handler});
    return app;
}

static void a_handler_asks_another_one_and_waits_for_its_reply(void **state)
{
    (void)state;
    coney_test *t = start(asking_app(true));
    assert_sent(t, 21);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
        coney_test_expect_settled(t, "prices", CONEY_ACK, 1);
        assert_int_equal(receipt_expect(t, "receipts")->order_id, 42);
        coney_test_expect_published_count(t, "prices", 1);
    });
    stop(t);
}

static void a_request_that_nobody_answers_times_out_in_no_time(void **state)
{
    (void)state;
    coney_test *t = start(asking_app(false));
    assert_sent(t, 21);
    assert_holds({
        coney_test_expect_failed(t, "orders", 1);
        coney_test_expect_logged(t, CONEY_LOG_WARNING, "no reply came");
    });
    stop(t);
}

static void somebody_outside_asks_the_app(void **state)
{
    (void)state;
    coney_test *t = start(asking_app(true));
    coney_reply_message *reply = NULL;
    coney_call call = {0};
    assert_int_equal(
        order_request(coney_test_out(t).publisher, &(coney_publish_options){.to = "prices"}, &(order){.id = 4}, &reply, &call),
        CONEY_OK);
    assert_int_equal(receipt_of_reply(reply)->order_id, 8);
    assert_true(coney_reply_info(reply)->correlation_id.len > 0);
    coney_reply_free(&reply);
    stop(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publishes_are_given_in_order_and_each_once),
        cmocka_unit_test(a_publish_that_is_no_such_type_fails),
        cmocka_unit_test(headers_and_properties_of_publishes_are_there),
        cmocka_unit_test(a_hook_runs_after_each_publish_to_its_destination),
        cmocka_unit_test(publishes_fail_as_often_as_is_asked_and_the_message_comes_again),
        cmocka_unit_test(a_publish_to_a_queue_that_is_full_is_refused_as_a_server_refuses_it),
        cmocka_unit_test(what_comes_from_outside_is_not_the_apps_publish),
        cmocka_unit_test(what_nobody_takes_is_returned_and_what_is_not_there_not_found),
        cmocka_unit_test(a_handler_asks_another_one_and_waits_for_its_reply),
        cmocka_unit_test(a_request_that_nobody_answers_times_out_in_no_time),
        cmocka_unit_test(somebody_outside_asks_the_app),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
