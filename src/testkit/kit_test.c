/* kit_test.c: the start and the stop of an app under test. */
#define _GNU_SOURCE
#include "testkit/testkit_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static coney_settle settle(coney_delivery *d, const order *o)
{
    if (receipt_publish(coney_out_of(d), "receipts", &(receipt){.order_id = o->id}) != CONEY_OK)
        return coney_retry_after(5 * CONEY_SECOND);
    return CONEY_ACK;
}
CONEY_HANDLER(settle, order);

static coney_app *orders_app(void)
{
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_broker *rabbit = coney_app_amqp(app, "amqp://localhost", NULL);
    coney_subscribe(rabbit, &(coney_subscription){
                                .source = CONEY_QUEUE("orders", .type = CONEY_QUEUE_QUORUM, .prefetch = 64),
                                .handler = settle_handler,
                            });
    return app;
}

static void settles_an_order(void **state)
{
    (void)state;
    coney_test *t = coney_test_start(orders_app(), NULL);
    assert_int_equal(
        CONEY_OK, order_publish(coney_test_out(t), "orders", &(order){.id = 42, .customer = CONEY_STR("ada"), .total = 9.5}));

    coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
    assert_int_equal(receipt_expect(t, "receipts")->order_id, 42);
    coney_test_stop(&t);
    assert_null(t);
}

static void an_app_with_mistakes_does_not_start_and_the_text_has_them(void **state)
{
    (void)state;
    coney_app *app = app_with((coney_subscription){.dead_letter = "spent", .batch = 5});
    assert_fails("dead_letter", coney_test_start(app, CATCHING));
    assert_non_null(strstr(failure_text, "batch"));
    assert_fails("NULL", coney_test_start(NULL, CATCHING));
}

static void a_running_app_is_refused(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("memory", "1");
    coney_app_memory(app, &(coney_memory_options){0});
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    assert_fails("started before", coney_test_start(app, CATCHING));
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    coney_test_options options = {.on_failure = on_failure, .max_steps = -1};
    assert_fails("less than zero", coney_test_start(orders_app(), &options));
    options = (coney_test_options){.on_failure = on_failure, .reserved = {0, 1}};
    assert_fails("reserved", coney_test_start(orders_app(), &options));
}

static void a_refused_start_is_expected_with_its_words(void **state)
{
    (void)state;
    assert_holds(coney_test_expect_refused(app_with((coney_subscription){.dead_letter = "spent"}), CATCHING, "max_attempts"));
    assert_fails("expected to say 'elephants'",
                 coney_test_expect_refused(app_with((coney_subscription){.dead_letter = "spent"}), CATCHING, "elephants"));
    assert_fails("the app starts", coney_test_expect_refused(orders_app(), CATCHING, "anything"));
}

static coney_status fail_to_open(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)ctx;
    snprintf(call->text, sizeof call->text, "no database");
    return CONEY_EACCESS;
}

static void a_hook_that_fails_fails_the_start(void **state)
{
    (void)state;
    coney_app *app = orders_app();
    coney_app_on(app, CONEY_AFTER_START, fail_to_open, NULL);
    assert_fails("no database", coney_test_start(app, CATCHING));
}

static coney_status publish_first(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)call;
    coney_broker *broker = ctx;
    return order_publish(coney_out_of_broker(broker), "orders", &(order){.id = 1});
}

static void what_a_hook_of_the_start_publishes_is_handled_when_it_returns(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    SCRIPT(CONEY_ACK);
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = play_handler});
    coney_app_on(app, CONEY_AFTER_START, publish_first, rabbit);
    coney_test *t = start(app);
    assert_holds(coney_test_expect_settled(t, "orders", CONEY_ACK, 1));
    stop(t);
}

static void a_stop_fails_on_a_delivery_that_was_kept(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_KEPT);
    assert_sent(t, 1);
    assert_fails("subscription 'orders': 1 kept", coney_test_stop(&t));
    assert_int_equal(coney_kept_settle(&script.kept, CONEY_ACK), CONEY_ECLOSED);
}

static void a_delivery_that_was_kept_and_settled_is_nothing_to_fail_on(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_KEPT);
    assert_sent(t, 1);
    assert_holds(coney_test_expect_settled(t, "orders", CONEY_ACK, 0));
    assert_int_equal(coney_kept_settle(&script.kept, CONEY_ACK), CONEY_OK);
    coney_test_settle(t);
    assert_holds(coney_test_expect_settled(t, "orders", CONEY_ACK, 1));
    stop(t);
}

static coney_status settle_kept(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)ctx;
    (void)call;
    return coney_kept_settle(&script.kept, CONEY_ACK);
}

static void what_a_hook_of_the_stop_settles_is_nothing_to_fail_on(void **state)
{
    (void)state;
    coney_app *app = app_with((coney_subscription){0});
    coney_app_on(app, CONEY_BEFORE_STOP, settle_kept, NULL);
    coney_test *t = start(app);
    SCRIPT(CONEY_KEPT);
    assert_sent(t, 1);
    stop(t);
}

static void a_message_that_waits_for_its_next_attempt_is_nothing_to_fail_on(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(coney_retry_after(CONEY_SECOND));
    assert_sent(t, 1);
    stop(t);
    t = start(app_with((coney_subscription){.max_attempts = 3}));
    assert_sent(t, 1);
    assert_holds(coney_test_expect_settled(t, "orders", CONEY_RETRIED, 1));
    stop(t);
}

static void an_app_that_has_failed_fails_the_stop_unless_that_was_expected(void **state)
{
    (void)state;
    const coney_subscription stops = {.on_failure = CONEY_POLICY_STOP};
    SCRIPT(CONEY_FAILED);
    coney_test *t = start(app_with(stops));
    assert_holds(coney_test_expect_running(t));
    assert_sent(t, 1);
    assert_fails("has failed", coney_test_expect_running(t));
    coney_test_stop(&t);
    t = start(app_with(stops));
    assert_sent(t, 1);
    assert_fails("the app has failed (CONEY_ECANCELED): subscription 'orders'", coney_test_stop(&t));
    t = start(app_with(stops));
    assert_sent(t, 1);
    assert_holds(coney_test_expect_stopped(t, CONEY_ECANCELED));
    stop(t);
}

static coney_settle ask_to_stop(coney_delivery *d, const order *o)
{
    (void)o;
    coney_app_ask_to_stop(coney_delivery_app(d));
    return CONEY_ACK;
}
CONEY_HANDLER(ask_to_stop, order);

static void a_handler_may_ask_for_a_stop(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){.handler = ask_to_stop_handler}));
    assert_fails("the app runs", coney_test_expect_stopped(t, CONEY_OK));
    assert_sent(t, 1);
    assert_holds(coney_test_expect_stopped(t, CONEY_OK));
    assert_fails("expected CONEY_EACCESS", coney_test_expect_stopped(t, CONEY_EACCESS));
    assert_fails("asked to stop", coney_test_expect_running(t));
    coney_test_stop(&t);
}

static jmp_buf out_of_handler;

static coney_settle leave(coney_delivery *d, const order *o)
{
    (void)d;
    (void)o;
    longjmp(out_of_handler, 1);
}
CONEY_HANDLER(leave, order);

/* In a child that is killed when all went well, so that no leak check sees it: what stood on the handler's stack is nobody's. */
static void a_test_that_is_left_out_of_a_handler_can_be_stopped(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        coney_test *t = coney_test_start(app_with((coney_subscription){.handler = leave_handler}), NULL);
        if (setjmp(out_of_handler) == 0)
            (void)send(t, 1);
        else
            coney_test_stop(&t);
        if (t == NULL)
            raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void without_a_function_of_its_own_a_failure_is_printed_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        coney_test *t = coney_test_start(app_with((coney_subscription){0}), NULL);
        coney_test_expect_called(t, "orders", 3);
        _exit(0);
    }
    close(ends[1]);
    char text[512] = "";
    ssize_t len = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(len > 0);
    assert_non_null(strstr(text, "its handler was called 0 times, expected 3"));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void a_test_that_has_failed_stops_without_another_failure(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    SCRIPT(CONEY_KEPT);
    assert_sent(t, 1);
    assert_fails("settled 0 as ACK, expected 1", coney_test_expect_settled(t, "orders", CONEY_ACK, 1));
    assert_holds(coney_test_stop(&t));
    coney_kept_settle(&script.kept, CONEY_ACK);
    coney_test_stop(NULL);
    coney_test_stop(&t);
}

static void the_app_may_be_stopped_by_the_test(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    assert_int_equal(coney_app_stop(coney_test_app(t), NULL), CONEY_OK);
    assert_holds(coney_test_expect_stopped(t, CONEY_OK));
    stop(t);
}

static void a_wait_that_nothing_could_end_is_a_deadlock(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){0}));
    assert_int_equal(coney_app_wait(coney_test_app(t), NULL), CONEY_EDEADLK);
    stop(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settles_an_order),
        cmocka_unit_test(an_app_with_mistakes_does_not_start_and_the_text_has_them),
        cmocka_unit_test(a_running_app_is_refused),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(a_refused_start_is_expected_with_its_words),
        cmocka_unit_test(a_hook_that_fails_fails_the_start),
        cmocka_unit_test(what_a_hook_of_the_start_publishes_is_handled_when_it_returns),
        cmocka_unit_test(a_stop_fails_on_a_delivery_that_was_kept),
        cmocka_unit_test(a_delivery_that_was_kept_and_settled_is_nothing_to_fail_on),
        cmocka_unit_test(what_a_hook_of_the_stop_settles_is_nothing_to_fail_on),
        cmocka_unit_test(a_message_that_waits_for_its_next_attempt_is_nothing_to_fail_on),
        cmocka_unit_test(an_app_that_has_failed_fails_the_stop_unless_that_was_expected),
        cmocka_unit_test(a_handler_may_ask_for_a_stop),
        cmocka_unit_test(a_test_that_is_left_out_of_a_handler_can_be_stopped),
        cmocka_unit_test(without_a_function_of_its_own_a_failure_is_printed_and_aborts),
        cmocka_unit_test(a_test_that_has_failed_stops_without_another_failure),
        cmocka_unit_test(the_app_may_be_stopped_by_the_test),
        cmocka_unit_test(a_wait_that_nothing_could_end_is_a_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
