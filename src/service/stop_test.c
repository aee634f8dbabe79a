/* stop_test.c: stops from everywhere, and who is told of them. */
#define _GNU_SOURCE
#include "service/stop_fixture.h"

#include <signal.h>
#include <sys/wait.h>

static char stop_text[512];

static coney_settle stop_from_the_handler(coney_delivery *d, coney_bytes body)
{
    (void)body;
    coney_call call = {0};
    stop_status = coney_app_stop(coney_delivery_app(d), &call);
    text_print(stop_text, sizeof stop_text, "%s", call.text);
    coney_app *app = coney_delivery_app(d);
    coney_app_free(&app);
    assert_non_null(app); /* nothing was freed */
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(stop_from_the_handler);

static void stop_from_a_continuation(void *ctx, coney_settle how)
{
    assert_int_equal(how, CONEY_ACK);
    stop_status = coney_app_stop(ctx, NULL);
    gate_open();
}

static coney_settle continue_with_a_stop(coney_delivery *d, coney_bytes body)
{
    (void)body;
    coney_after(d, stop_from_a_continuation, coney_delivery_app(d));
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(continue_with_a_stop);

static coney_settle ask_to_stop(coney_delivery *d, coney_bytes body)
{
    (void)body;
    coney_app_ask_to_stop(coney_delivery_app(d));
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(ask_to_stop);

static coney_settle run_out(coney_delivery *d, coney_bytes body)
{
    (void)body;
    return coney_failed(d, "the disk is full");
}
CONEY_RAW_HANDLER(run_out);

/* Who stops --------------------------------------------------------------------------------------------------------------- */

static void a_stop_or_free_from_a_handler_is_refused(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= 2; lanes++) {
        struct scene scene;
        begin(&scene, NULL, &(coney_subscription){.handler = stop_from_the_handler_handler, .lanes = lanes});
        struct fake_message m = {.body = CONEY_STR("x")};
        fake_deliver(&scene.fake, "orders", &m);
        assert_int_equal(fake_await_settled(&scene.fake, &m), CONEY_ACK);
        assert_int_equal(stop_status, CONEY_EDEADLK);
        assert_non_null(strstr(stop_text, "coney_app_ask_to_stop"));
        assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
        end(&scene);
    }
}

static coney_status wait_status;

/* What an app tells its user, on a client's loop or inside of a publish. */
static void try_to_stop(coney_app *app)
{
    stop_status = coney_app_stop(app, NULL);
    wait_status = coney_app_wait(app, NULL);
    coney_app *freed = app;
    coney_app_free(&freed);
    assert_ptr_equal(freed, app); /* nothing was freed */
}

static void stop_from_an_outcome(void *ctx, const coney_outcome *outcome)
{
    (void)outcome;
    try_to_stop(ctx);
}

static coney_status stop_from_a_publish(void *ctx, const coney_publish *message, coney_publish_next *next)
{
    try_to_stop(ctx);
    return coney_publish_next_run(next, message);
}

static void a_stop_from_what_a_publish_calls_is_refused(void **state)
{
    (void)state;
    struct fake fake = {0};
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_publisher_options told = {.name = "told", .on_outcome = stop_from_an_outcome, .ctx = app};
    coney_publisher_options wrapped = {.name = "wrapped", .around = stop_from_a_publish, .around_ctx = app};
    coney_publisher *publishers[] = {coney_publisher_new(fake_broker(app, &fake), &told),
                                     coney_publisher_new(app->brokers, &wrapped)};
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    for (int i = 0; i < 2; i++) {
        stop_status = wait_status = CONEY_OK;
        coney_out out = coney_out_by_publisher(publishers[i]);
        coney_publish_options options = {.to = "x"};
        assert_int_equal(coney_publish_raw(out, CONEY_STR("x"), CONEY_STR(""), &options), CONEY_OK);
        assert_int_equal(stop_status, CONEY_EDEADLK);
        assert_int_equal(wait_status, CONEY_EDEADLK);
    }
    assert_int_equal(fake.published_count, 2);
    assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);
    coney_app_free(&app);
}

static void a_stop_from_a_continuation_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = continue_with_a_stop_handler});
    struct fake_message m = {.body = CONEY_STR("x")};
    fake_deliver(&scene.fake, "orders", &m);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK); /* which waits for the continuation */
    assert_int_equal(stop_status, CONEY_EDEADLK);
    end(&scene);
}

static coney_status stop_from_a_hook(coney_app *app, void *ctx, coney_call *call)
{
    (void)call;
    *(coney_status *)ctx = coney_app_stop(app, NULL);
    return CONEY_OK;
}

static void a_stop_from_a_hook_is_refused(void **state)
{
    (void)state;
    coney_status statuses[4] = {0};
    coney_app *app = coney_app_new("orders", "1.0.0");
    for (int stage = 0; stage < 4; stage++)
        coney_app_on(app, (coney_stage)stage, stop_from_a_hook, &statuses[stage]);
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);
    for (int stage = 0; stage < 4; stage++)
        assert_int_equal(statuses[stage], CONEY_EDEADLK);
    coney_app_free(&app);
}

static void a_second_stop_waits_for_the_first(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = wait_at_the_gate_handler});
    struct courier running;
    send_courier(&running, &scene);
    gate_await_inside(1);
    struct stopper first, second;
    send_stopper(&first, scene.app);
    await_phase(scene.app, CONEY_APP_STOPPING);
    coney_call call = {.deadline = 10 * CONEY_MILLISECOND};
    assert_int_equal(coney_app_stop(scene.app, &call), CONEY_ETIMEDOUT);
    send_stopper(&second, scene.app);
    assert_false(atomic_load(&second.is_done));
    gate_open();
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    pthread_join(running.thread, NULL);
    assert_int_equal(first.status, CONEY_OK);
    assert_int_equal(second.status, CONEY_OK);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK); /* nothing is left to stop */
    end(&scene);
}

/* Who waits --------------------------------------------------------------------------------------------------------------- */

static coney_app *signalled;

static void on_signal(int number)
{
    (void)number;
    coney_app_ask_to_stop(signalled);
}

static void a_wait_ends_when_a_signal_handler_asks_for_it(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = ask_to_stop_handler});
    signalled = scene.app;
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigaction(SIGALRM, &action, &before);
    ualarm(20000, 0);
    coney_call call = {.deadline = FAKE_PATIENCE};
    assert_int_equal(coney_app_wait(scene.app, &call), CONEY_OK);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    end(&scene);
}

static void *wait_for_it(void *app)
{
    return (void *)(intptr_t)coney_app_wait(app, NULL);
}

static void every_wait_ends_when_a_handler_asks_for_a_stop(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = ask_to_stop_handler});
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, scene.app), 0);
    struct fake_message m = {.body = CONEY_STR("x")};
    fake_deliver(&scene.fake, "orders", &m);
    for (int i = 0; i < 4; i++) {
        void *status = NULL;
        pthread_join(threads[i], &status);
        assert_int_equal((intptr_t)status, CONEY_OK);
    }
    coney_app_health health;
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_RUNNING); /* asking stops nothing by itself */
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    end(&scene);
}

static void a_stop_that_was_asked_for_before_the_start_is_not_forgotten(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("orders", "1.0.0");
    assert_int_equal(coney_app_wait(app, NULL), CONEY_EINVAL);
    coney_app_ask_to_stop(app);
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    assert_int_equal(coney_app_wait(app, NULL), CONEY_OK);
    assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK); /* a new start, nobody has asked */
    coney_call call = {.deadline = CONEY_MILLISECOND};
    assert_int_equal(coney_app_wait(app, &call), CONEY_ETIMEDOUT);
    coney_app_ask_to_stop(NULL);
    coney_app_free(&app);
}

static coney_status fail_the_start(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)call;
    return *(coney_status *)ctx;
}

static void a_stop_that_was_asked_for_outlives_a_start_that_fails(void **state)
{
    (void)state;
    coney_status status = CONEY_ELOST;
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_app_on(app, CONEY_BEFORE_START, fail_the_start, &status);
    coney_app_ask_to_stop(app);
    assert_int_equal(coney_app_start(app, NULL), CONEY_ELOST);
    assert_int_equal(coney_app_wait(app, NULL), CONEY_ELOST);
    status = CONEY_OK;
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    coney_call call = {.deadline = FAKE_PATIENCE};
    assert_int_equal(coney_app_wait(app, &call), CONEY_OK);
    coney_app_free(&app);
}

static coney_status tell_that_it_stops(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)call;
    sem_post(ctx);
    return CONEY_OK;
}

static void an_app_may_be_freed_while_another_thread_stops_it(void **state)
{
    (void)state;
    enum { TIMES = 200 };
    for (int i = 0; i < TIMES; i++) {
        sem_t stops;
        sem_init(&stops, 0, 0);
        coney_app *app = coney_app_new("orders", "1.0.0");
        coney_app_on(app, CONEY_BEFORE_STOP, tell_that_it_stops, &stops);
        assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
        struct stopper stopper;
        send_stopper(&stopper, app);
        sem_wait(&stops);
        coney_app_free(&app);
        pthread_join(stopper.thread, NULL);
        assert_int_equal(stopper.status, CONEY_OK);
        sem_destroy(&stops);
    }
}

static void a_wait_ends_when_somebody_else_stops_the_app(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = ask_to_stop_handler});
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, scene.app), 0);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    void *status = NULL;
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, CONEY_OK);
    end(&scene);
}

static void a_policy_that_stops_ends_the_wait_with_a_failure_and_leaves_the_message_to_the_broker(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = run_out_handler, .on_failure = CONEY_POLICY_STOP});
    struct fake_message m = {.body = CONEY_STR("x")};
    fake_deliver(&scene.fake, "orders", &m);
    coney_call call = {0};
    assert_int_not_equal(coney_app_wait(scene.app, &call), CONEY_OK);
    assert_non_null(strstr(call.text, "orders"));
    coney_app_health health;
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_FAILED);
    assert_int_equal(coney_app_stop(scene.app, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    assert_int_equal(m.settles, 0);
    end(&scene);
}

static coney_status end_the_subscription(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)call;
    struct sink *sink = ((struct fake *)ctx)->feeds[0].feed.sink;
    sink->active(sink, false);
    sink->ended(sink, CONEY_ENOTFOUND, "gone");
    return CONEY_OK;
}

static void an_end_that_comes_with_a_stop_is_no_failure(void **state)
{
    (void)state;
    struct fake fake = {0};
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_app_configure(app, &(coney_app_options){.on_subscription_end = CONEY_ON_END_STOP});
    coney_subscribe(fake_broker(app, &fake), &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = keep_handler});
    coney_app_on(app, CONEY_BEFORE_STOP, end_the_subscription, &fake);
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);
    coney_app_health health;
    coney_app_get_health(app, &health);
    assert_int_equal(health.phase, CONEY_APP_STOPPED);
    coney_app_free(&app);
}

/* Without threads --------------------------------------------------------------------------------------------------------- */

static void a_virtual_app_does_all_on_the_thread_that_has_it(void **state)
{
    (void)state;
    struct fake fake = {0};
    gate_close();
    coney_app *app = coney_app_new("orders", "1.0.0");
    app->is_virtual = true;
    app->worker = worker_new("test", true, 1000 * CONEY_SECOND);
    coney_subscribe(
        fake_broker(app, &fake),
        &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = continue_with_a_stop_handler, .lanes = 4});
    coney_subscribe(app->brokers, &(coney_subscription){.source = CONEY_QUEUE("kept"), .handler = keep_handler});
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    assert_int_equal(coney_app_wait(app, NULL), CONEY_EDEADLK);
    struct fake_message m = {.body = CONEY_STR("x")};
    fake_deliver(&fake, "orders", &m);
    assert_int_equal(m.settles, 1);
    assert_false(gate.is_open);
    struct fake_message other = {.body = CONEY_STR("x")};
    fake_deliver(&fake, "kept", &other);
    coney_call call = {0};
    assert_int_equal(coney_app_stop(app, &call), CONEY_ETIMEDOUT); /* at once: nobody else could settle it */
    assert_int_equal(call.value, 1);
    assert_true(gate.is_open); /* the continuation ran first */
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_ECLOSED);
    coney_app_free(&app);
}

static void a_forked_child_may_only_free(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL, &(coney_subscription){.handler = ask_to_stop_handler});
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool refused = coney_app_start(scene.app, NULL) == CONEY_EFORKED && coney_app_wait(scene.app, NULL) == CONEY_EFORKED &&
                       coney_app_stop(scene.app, NULL) == CONEY_EFORKED &&
                       coney_app_seek(scene.app, "jobs", &(coney_position){.at = CONEY_STREAM_FIRST}, NULL) == CONEY_EFORKED;
        coney_app_free(&scene.app);
        raise(refused && scene.app == NULL ? SIGKILL
                                           : SIGABRT); /* what the parent's threads held is looked at by no leak check */
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_or_free_from_a_handler_is_refused),
        cmocka_unit_test(a_stop_from_what_a_publish_calls_is_refused),
        cmocka_unit_test(a_stop_from_a_continuation_is_refused),
        cmocka_unit_test(a_stop_from_a_hook_is_refused),
        cmocka_unit_test(a_second_stop_waits_for_the_first),
        cmocka_unit_test(a_wait_ends_when_a_signal_handler_asks_for_it),
        cmocka_unit_test(every_wait_ends_when_a_handler_asks_for_a_stop),
        cmocka_unit_test(a_stop_that_was_asked_for_before_the_start_is_not_forgotten),
        cmocka_unit_test(a_stop_that_was_asked_for_outlives_a_start_that_fails),
        cmocka_unit_test(an_app_may_be_freed_while_another_thread_stops_it),
        cmocka_unit_test(a_wait_ends_when_somebody_else_stops_the_app),
        cmocka_unit_test(a_policy_that_stops_ends_the_wait_with_a_failure_and_leaves_the_message_to_the_broker),
        cmocka_unit_test(an_end_that_comes_with_a_stop_is_no_failure),
        cmocka_unit_test(a_virtual_app_does_all_on_the_thread_that_has_it),
        cmocka_unit_test(a_forked_child_may_only_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
