/* handled_test.c: expectations of what subscriptions were given and did, holding and failing. */
#include "testkit/testkit_fixture.h"

static void a_settlement_is_counted_by_its_kind(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK, CONEY_REQUEUE, CONEY_REJECT, coney_retry_after(CONEY_SECOND), CONEY_ACK);
    for (uint64_t id = 1; id <= 3; id++)
        assert_sent(t, id);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
        coney_test_expect_settled(t, "orders", CONEY_REQUEUE, 1);
        coney_test_expect_settled(t, "orders", CONEY_REJECT, 1);
        coney_test_expect_settled(t, "orders", CONEY_RETRIED, 1);
        coney_test_expect_called(t, "orders", 4);
        coney_test_advance(t, CONEY_SECOND);
        coney_test_expect_settled(t, "orders", CONEY_ACK, 2);
    });
    assert_fails(
        "subscription 'orders': settled 2 as ACK, expected 7; received so far: 5; settled so far: ACK 2, REJECT 1, REQUEUE "
        "1, RETRIED 1",
        coney_test_expect_settled(t, "orders", CONEY_ACK, 7));
    assert_fails("no settlement", coney_test_expect_settled(t, "orders", CONEY_KEPT, 0));
    assert_fails("its handler was called 5 times, expected 1", coney_test_expect_called(t, "orders", 1));
    coney_test_stop(&t);
}

static void what_cannot_be_decoded_is_counted_and_said(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    assert_int_equal(coney_publish_raw(coney_test_out(t), CONEY_STR("{\"id\":true}"), CONEY_STR("application/json"),
                                       &(coney_publish_options){.to = "orders"}),
                     CONEY_OK);
    assert_holds({
        coney_test_expect_undecodable(t, "orders", 1);
        coney_test_expect_called(t, "orders", 0);
        coney_test_expect_settled(t, "orders", CONEY_REJECT, 1);
        coney_test_expect_received_raw(t, "orders", CONEY_STR("{\"id\":true}"));
        coney_test_expect_logged(t, CONEY_LOG_WARNING, "cannot be decoded");
    });
    assert_fails("last fault: subscription 'orders': ", coney_test_expect_undecodable(t, "orders", 0));
    assert_fails("no line of level warning has 'elephants' in it", coney_test_expect_logged(t, CONEY_LOG_WARNING, "elephants"));
    assert_fails("is no order", order_received(t, "orders", 0));
    coney_test_stop(&t);
}

static coney_settle give_up(coney_delivery *d, const order *o)
{
    (void)o;
    return coney_failed(d, "the database is away");
}
CONEY_HANDLER(give_up, order);

static void a_failure_of_a_handler_is_counted_and_its_words_are_the_last_fault(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){.handler = give_up_handler, .on_failure = CONEY_POLICY_REJECT}));
    assert_sent(t, 1);
    assert_holds(coney_test_expect_failed(t, "orders", 1));
    assert_fails("its handler failed 1 times, expected 2", coney_test_expect_failed(t, "orders", 2));
    assert_non_null(strstr(failure_text, "the database is away"));
    coney_test_stop(&t);
}

static void messages_that_were_received_are_read_anew(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    assert_sent(t, 7);
    assert_sent(t, 8);
    assert_holds({
        assert_int_equal(order_received(t, "orders", 0)->id, 7);
        const order *second = order_received(t, "orders", 1);
        assert_int_equal(second->id, 8);
        assert_memory_equal(second->customer.data, "ada", 3);
        assert_true(coney_test_received_raw(t, "orders", 1).len > 0);
        coney_test_expect_received_raw(t, "orders", coney_test_received_raw(t, "orders", 1));
    });
    assert_fails("expected one with index 2", order_received(t, "orders", 2));
    assert_fails("expected 'x' (1 bytes)", coney_test_expect_received_raw(t, "orders", CONEY_STR("x")));
    assert_fails("is no receipt as json reads it", receipt_received(t, "orders", 0));
    coney_test_stop(&t);
}

static void names_that_lead_nowhere_fail(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    assert_fails("no subscription 'order'", coney_test_expect_called(t, "order", 0));
    assert_fails("no broker 'kafka'", coney_test_on(t, "kafka"));
    coney_test_stop(&t);
}

static void a_subscription_is_found_by_its_name_and_by_its_source(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){.name = "settling"}));
    SCRIPT(CONEY_ACK);
    assert_sent(t, 1);
    assert_holds({
        coney_test_expect_called(t, "settling", 1);
        coney_test_expect_called(t, "orders", 1);
    });
    stop(t);
}

static void consumers_of_one_queue_share_its_messages(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    SCRIPT(CONEY_ACK);
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .name = "one", .handler = play_handler});
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .name = "two", .handler = play_handler});
    coney_test *t = start(app);
    for (uint64_t id = 1; id <= 6; id++)
        assert_sent(t, id);
    assert_holds({
        coney_test_expect_settled(t, "one", CONEY_ACK, 3);
        coney_test_expect_settled(t, "two", CONEY_ACK, 3);
    });
    assert_fails("2 subscriptions read 'orders'", coney_test_expect_called(t, "orders", 6));
    coney_test_stop(&t);
}

/* Batches ------------------------------------------------------------------------------------------------------------------------ */

static coney_settle count_them(coney_batch *batch, const order *orders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (orders[i].id == 13)
            coney_batch_settle(batch, i, CONEY_REJECT);
    return CONEY_ACK;
}
CONEY_BATCH_HANDLER(count_them, order);

static void batches_are_closed_by_their_size_and_by_time(void **state)
{
    (void)state;
    coney_test *t =
        start(app_with((coney_subscription){.handler = count_them_handler, .batch = 3, .batch_wait = CONEY_SECOND}));
    for (uint64_t id = 10; id < 15; id++)
        assert_sent(t, id);
    assert_holds({
        coney_test_expect_batches(t, "orders", (size_t[]){3}, 1);
        coney_test_advance(t, CONEY_SECOND - 1);
        coney_test_expect_called(t, "orders", 1);
        coney_test_advance(t, 1);
        coney_test_expect_batches(t, "orders", (size_t[]){3, 2}, 2);
        coney_test_expect_settled(t, "orders", CONEY_ACK, 4);
        coney_test_expect_settled(t, "orders", CONEY_REJECT, 1);
    });
    assert_fails("2 batches of (3, 2), expected 2 of (2, 3)", coney_test_expect_batches(t, "orders", (size_t[]){2, 3}, 2));
    assert_fails("2 batches of (3, 2), expected 1 of (5)", coney_test_expect_batches(t, "orders", (size_t[]){5}, 1));
    coney_test_stop(&t);
}

static void a_stop_fails_on_a_batch_that_was_not_closed(void **state)
{
    (void)state;
    coney_test *t =
        start(app_with((coney_subscription){.handler = count_them_handler, .batch = 3, .batch_wait = CONEY_SECOND}));
    assert_sent(t, 1);
    assert_fails("subscription 'orders': 1 waiting for their batch", coney_test_stop(&t));
}

/* Hooks -------------------------------------------------------------------------------------------------------------------------- */

static coney_test *hooked;
static size_t hook_calls;

static void then_send_another(void *ctx, coney_settle how)
{
    assert_ptr_equal(ctx, &hook_calls);
    assert_int_equal(how, CONEY_ACK);
    if (++hook_calls < 3)
        assert_sent(hooked, 100 + hook_calls);
}

static void a_hook_runs_after_each_call_and_may_publish(void **state)
{
    (void)state;
    coney_test *t = hooked = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    hook_calls = 0;
    assert_holds(coney_test_on_call(t, "orders", then_send_another, &hook_calls));
    assert_sent(t, 1);
    assert_int_equal(hook_calls, 3);
    assert_holds(assert_int_equal(order_received(t, "orders", 2)->id, 102));
    assert_holds(coney_test_on_call(t, "orders", NULL, NULL));
    assert_sent(t, 2);
    assert_int_equal(hook_calls, 3);
    stop(t);
}

static void then_fail(void *ctx, coney_settle how)
{
    (void)how;
    coney_test_expect_called(ctx, "orders", 99);
}

static void a_failure_in_a_hook_fails_the_publish_and_leaves_a_test_that_stops(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    assert_sent(t, 1);
    coney_test_on_call(t, "orders", then_fail, t);
    assert_fails("expected 99", assert_sent(t, 2));
    coney_test_stop(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_settlement_is_counted_by_its_kind),
        cmocka_unit_test(what_cannot_be_decoded_is_counted_and_said),
        cmocka_unit_test(a_failure_of_a_handler_is_counted_and_its_words_are_the_last_fault),
        cmocka_unit_test(messages_that_were_received_are_read_anew),
        cmocka_unit_test(names_that_lead_nowhere_fail),
        cmocka_unit_test(a_subscription_is_found_by_its_name_and_by_its_source),
        cmocka_unit_test(consumers_of_one_queue_share_its_messages),
        cmocka_unit_test(batches_are_closed_by_their_size_and_by_time),
        cmocka_unit_test(a_stop_fails_on_a_batch_that_was_not_closed),
        cmocka_unit_test(a_hook_runs_after_each_call_and_may_publish),
        cmocka_unit_test(a_failure_in_a_hook_fails_the_publish_and_leaves_a_test_that_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
