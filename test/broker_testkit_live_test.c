/* An app under test on its real brokers: `.live`. */
#include "amqp_scene.h"
#include "scene.h"
#include "testkit/testkit_fixture.h"

#include <pthread.h>

static struct node node;
static coney_amqp *admin;
static char orders[80];
static char receipts[80];

static coney_test_options live(int64_t settle_limit)
{
    return (coney_test_options){.on_failure = on_failure, .live = true, .settle_limit = settle_limit};
}

static coney_test *start_live(coney_app *app)
{
    coney_test_options options = live(scaled_ms(SUPPORT_PATIENCE) * CONEY_MILLISECOND);
    coney_test *volatile t = NULL;
    assert_holds(t = coney_test_start(app, &options));
    return t;
}

static coney_app *live_app(coney_subscription subscription)
{
    coney_app *app = coney_app_new("shop", "1.0.0");
    coney_broker *rabbit = coney_app_amqp(app, amqp_uri(node.amqp_port), NULL);
    const coney_queue_source source = {.name = orders, .declare = true};
    coney_declare_queue(rabbit, &(coney_amqp_queue){.name = receipts});
    subscription.source = coney_source_queue(&source);
    subscription.name = "orders";
    if (subscription.handler.name == NULL)
        subscription.handler = play_handler;
    assert_int_equal(coney_subscribe(rabbit, &subscription), CONEY_OK);
    return app;
}

static coney_status send_live(coney_test *t, uint64_t id)
{
    return order_publish(coney_test_out(t), orders, &(order){.id = id, .customer = CONEY_STR("ada")});
}

static void the_test_of_an_order_is_the_same_on_a_real_broker(void **state)
{
    (void)state;
    coney_test *t = start_live(live_app((coney_subscription){0}));
    SCRIPT(CONEY_ACK);
    script.then = receipts;
    assert_int_equal(send_live(t, 42), CONEY_OK);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
        assert_int_equal(receipt_expect(t, receipts)->order_id, 42);
        assert_int_equal(order_received(t, "orders", 0)->id, 42);
        coney_test_expect_running(t);
    });
    stop(t);
}

static void an_expectation_waits_no_longer_than_the_settle_limit(void **state)
{
    (void)state;
    coney_test_options options = live(300 * CONEY_MILLISECOND);
    coney_test *t = coney_test_start(live_app((coney_subscription){0}), &options);
    SCRIPT(CONEY_ACK);
    int64_t began = now_ms();
    assert_fails("settled 0 as ACK, expected 1", coney_test_expect_settled(t, "orders", CONEY_ACK, 1));
    assert_true(now_ms() - began >= 300);
    assert_fails("not possible live", coney_test_fail_publishes(t, CONEY_EREFUSED, 1));
    assert_fails("not possible live", coney_test_expect_waiting(t, orders, 0));
    coney_test_stop(&t);
}

static void outcomes_from_outside_are_the_brokers(void **state)
{
    (void)state;
    coney_test *t = start_live(live_app((coney_subscription){0}));
    assert_int_equal(order_publish(coney_test_out(t), "coney-test.no-such-queue", &(order){.id = 1}), CONEY_ERETURNED);
    stop(t);
}

static void attempts_come_and_end_in_real_time(void **state)
{
    (void)state;
    coney_test *t = start_live(live_app((coney_subscription){.max_attempts = 3, .dead_letter = receipts}));
    SCRIPT(coney_retry_after(20 * CONEY_MILLISECOND));
    assert_int_equal(send_live(t, 7), CONEY_OK);
    assert_holds({
        coney_test_expect_settled(t, "orders", CONEY_REJECT, 1);
        coney_test_expect_settled(t, "orders", CONEY_RETRIED, 2);
        coney_test_expect_called(t, "orders", 3);
        assert_int_equal(order_expect(t, receipts)->id, 7);
    });
    stop(t);
}

static pthread_t hook_thread;
static size_t hook_calls;

static void note_thread(void *ctx, coney_settle how)
{
    (void)ctx;
    hook_thread = pthread_self();
    hook_calls += how == CONEY_ACK;
}

static void hooks_run_on_the_tests_thread(void **state)
{
    (void)state;
    coney_test *t = start_live(live_app((coney_subscription){.lanes = 4}));
    SCRIPT(CONEY_ACK);
    hook_calls = 0;
    assert_holds(coney_test_on_call(t, "orders", note_thread, NULL));
    assert_int_equal(send_live(t, 1), CONEY_OK);
    assert_holds(coney_test_expect_settled(t, "orders", CONEY_ACK, 1));
    coney_test_settle(t);
    assert_int_equal(hook_calls, 1);
    assert_true(pthread_equal(hook_thread, pthread_self()));
    stop(t);
}

static coney_settle answer(coney_delivery *d, const order *o)
{
    return receipt_reply(d, &(receipt){.order_id = o->id * 2}) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(answer, order);

static void somebody_outside_asks_the_app(void **state)
{
    (void)state;
    coney_test *t = start_live(live_app((coney_subscription){.handler = answer_handler}));
    coney_reply_message *reply = NULL;
    coney_call call = {0};
    const coney_publish_options options = {.to = orders};
    if (order_request(coney_test_out(t).publisher, &options, &(order){.id = 4}, &reply, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    assert_int_equal(receipt_of_reply(reply)->order_id, 8);
    coney_reply_free(&reply);
    assert_holds(coney_test_expect_settled(t, "orders", CONEY_ACK, 1));
    stop(t);
}

static void a_delivery_that_is_kept_fails_the_stop(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("shop", "1.0.0");
    coney_app_configure(app, &(coney_app_options){.drain_timeout = 100 * CONEY_MILLISECOND});
    coney_broker *rabbit = coney_app_amqp(app, amqp_uri(node.amqp_port), NULL);
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = play_handler});
    coney_test *t = start_live(app);
    SCRIPT(CONEY_KEPT);
    assert_int_equal(send_live(t, 1), CONEY_OK);
    assert_holds(coney_test_expect_called(t, orders, 1));
    assert_fails("1 kept", coney_test_stop(&t));
    assert_int_equal(coney_kept_settle(&script.kept, CONEY_ACK), CONEY_ECLOSED);
}

static void a_stream_is_read_live(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    coney_app *app = coney_app_new("shop", "1.0.0");
    coney_broker *streams = coney_app_stream(app, node.uri, NULL);
    const coney_stream_source source = {.name = scene.stream, .start_if_new = CONEY_STREAM_FIRST};
    coney_subscribe(streams, &(coney_subscription){.source = coney_source_stream(&source), .handler = play_handler});
    coney_test *t = start_live(app);
    SCRIPT(CONEY_ACK);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(order_publish(coney_test_out(t), scene.stream, &(order){.id = id}), CONEY_OK);
    assert_holds({
        coney_test_expect_settled(t, scene.stream, CONEY_ACK, 3);
        assert_int_equal(order_received(t, scene.stream, 2)->id, 3);
    });
    stop(t);
    scene_down(&scene);
}

static int set_up(void **state)
{
    (void)state;
    fresh_name(orders, sizeof orders, "orders");
    fresh_name(receipts, sizeof receipts, "receipts");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    coney_amqp_queue_delete(admin, orders, 0, NULL);
    coney_amqp_queue_delete(admin, receipts, 0, NULL);
    return 0;
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    coney_call call = {0};
    admin = coney_amqp_open(amqp_uri(node.amqp_port), NULL, &call);
    if (admin == NULL) {
        fprintf(stderr, "%s\n", call.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_test_of_an_order_is_the_same_on_a_real_broker, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expectation_waits_no_longer_than_the_settle_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outcomes_from_outside_are_the_brokers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attempts_come_and_end_in_real_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hooks_run_on_the_tests_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(somebody_outside_asks_the_app, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_delivery_that_is_kept_fails_the_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_is_read_live, set_up, tear_down),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    coney_amqp_close(&admin, NULL);
    return failures;
}
