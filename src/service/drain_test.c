/* drain_test.c: what a stop waits for, and for how long. */
#define _GNU_SOURCE
#include "service/stop_fixture.h"

#include <time.h>

static void a_stop_waits_for_the_handler_that_runs_and_starts_no_other(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = wait_at_the_gate_handler});
    struct courier running;
    send_courier(&running, &scene);
    gate_await_inside(1);
    struct stopper stopper;
    send_stopper(&stopper, scene.app);
    await_halted(&scene);
    struct courier late; /* comes while it drains: it is kept, and the broker gets it back */
    send_courier(&late, &scene);
    pthread_join(late.thread, NULL);
    assert_int_equal(late.how, CONEY_KEPT);
    assert_false(atomic_load(&stopper.is_done));
    gate_open();
    pthread_join(running.thread, NULL);
    pthread_join(stopper.thread, NULL);
    assert_int_equal(running.how, CONEY_ACK);
    assert_int_equal(stopper.status, CONEY_OK);
    assert_int_equal(stopper.call.value, 0);
    assert_int_equal(gate.inside, 1);
    assert_int_equal(late.m.settles, 0);
    end(&scene);
}

enum { LANES = 10, PREFETCHED = 100 };

static void N06_of_a_hundred_prefetched_the_ten_that_run_are_acked_and_ninety_go_back(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = wait_at_the_gate_handler, .lanes = LANES, .lane_queue = PREFETCHED});
    static struct fake_message messages[PREFETCHED];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < PREFETCHED; i++) {
        messages[i].body = CONEY_STR("x");
        assert_int_equal(fake_deliver(&scene.fake, "orders", &messages[i]), CONEY_KEPT);
    }
    gate_await_inside(LANES);
    struct stopper stopper;
    send_stopper(&stopper, scene.app);
    await_halted(&scene);
    int64_t released = time_now();
    gate_open();
    pthread_join(stopper.thread, NULL);
    assert_int_equal(stopper.status, CONEY_OK);
    assert_true(time_now() - released < CONEY_SECOND);
    int acked = 0, back = 0;
    for (int i = 0; i < PREFETCHED; i++) {
        assert_true(messages[i].settles <= 1);
        acked += messages[i].settles == 1 && messages[i].how == CONEY_ACK;
        back += messages[i].settles == 0;
    }
    assert_int_equal(acked, LANES);
    assert_int_equal(back, PREFETCHED - LANES);
    assert_int_equal(gate.inside, LANES);
    end(&scene);
}

static void a_drain_ends_when_its_time_is_over_and_says_how_many_were_left(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, &(coney_app_options){.drain_timeout = 30 * CONEY_MILLISECOND},
          &(coney_subscription){.handler = keep_handler});
    struct fake_message m = {.body = CONEY_STR("x")};
    assert_int_equal(fake_deliver(&scene.fake, "orders", &m), CONEY_KEPT);
    coney_call call = {0};
    int64_t begun = time_now();
    assert_int_equal(coney_app_stop(scene.app, &call), CONEY_ETIMEDOUT);
    assert_true(time_now() - begun >= 30 * CONEY_MILLISECOND);
    assert_int_equal(call.value, 1);
    assert_non_null(strstr(call.text, "1 deliveries were not settled"));
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_ECLOSED);
    assert_int_equal(m.settles, 0);
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK); /* and it counts for no later drain */
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    end(&scene);
}

static void a_stop_waits_for_kept_deliveries_to_be_settled(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = keep_handler});
    struct fake_message m = {.body = CONEY_STR("x")};
    assert_int_equal(fake_deliver(&scene.fake, "orders", &m), CONEY_KEPT);
    struct stopper stopper;
    send_stopper(&stopper, scene.app);
    await_halted(&scene);
    assert_false(atomic_load(&stopper.is_done));
    coney_kept_settle(&kept, CONEY_ACK);
    pthread_join(stopper.thread, NULL);
    assert_int_equal(stopper.status, CONEY_OK);
    assert_int_equal(m.settles, 1);
    assert_int_equal(m.how, CONEY_ACK);
    end(&scene);
}

static void a_handler_that_outlives_the_stop_holds_up_the_next_start_and_the_free(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, &(coney_app_options){.drain_timeout = 10 * CONEY_MILLISECOND},
          &(coney_subscription){.handler = wait_at_the_gate_handler, .lanes = 2});
    struct fake_message m = {.body = CONEY_STR("x")};
    assert_int_equal(fake_deliver(&scene.fake, "orders", &m), CONEY_KEPT);
    gate_await_inside(1);
    coney_call call = {0};
    assert_int_equal(coney_app_stop(scene.app, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 1);
    assert_int_equal(coney_app_start(scene.app, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "has not ended"));
    gate_open();
    end(&scene);
}

/* As from a broker that hangs. */
static coney_status hang(struct feed *feed, coney_call *call)
{
    struct timespec pause = {.tv_nsec = call->deadline};
    nanosleep(&pause, NULL);
    fake_unsubscribe(feed, NULL);
    return CONEY_ETIMEDOUT;
}

static void subscriptions_of_a_broker_that_hangs_share_the_deadline(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    static const char *const names[COUNT] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct transport hanging = fake_transport;
    struct fake fake = {0};
    hanging.unsubscribe = hang;
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_broker *broker = broker_new(app, &hanging, &fake);
    for (int i = 0; i < COUNT; i++)
        coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(names[i]), .handler = keep_handler});
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    coney_call call = {.deadline = 200 * CONEY_MILLISECOND};
    int64_t began = time_now();
    assert_int_equal(coney_app_stop(app, &call), CONEY_ETIMEDOUT);
    assert_true(time_now() - began < COUNT / 2 * call.deadline);
    coney_app_free(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_waits_for_the_handler_that_runs_and_starts_no_other),
        cmocka_unit_test(N06_of_a_hundred_prefetched_the_ten_that_run_are_acked_and_ninety_go_back),
        cmocka_unit_test(a_drain_ends_when_its_time_is_over_and_says_how_many_were_left),
        cmocka_unit_test(a_stop_waits_for_kept_deliveries_to_be_settled),
        cmocka_unit_test(a_handler_that_outlives_the_stop_holds_up_the_next_start_and_the_free),
        cmocka_unit_test(subscriptions_of_a_broker_that_hangs_share_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
