/* test.c: an app under test: its start on stand-ins, its stop, and what is made of a failure. */
#include "base/text.h"
#include "testkit/kit.h"
#include "transport/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FAILURE_LONGEST = 4096 };

static _Thread_local char failure[FAILURE_LONGEST]; /* outlives the test, and whatever on_failure jumps over */

/* Tests that were left out of a handler: nothing of theirs can be ended, and leak checkers may see whose they are. */
static struct left {
    struct left *next;
    coney_test *test;
} * left_behind;

/* Failures ----------------------------------------------------------------------------------------------------------------------- */

static void give_failure(const coney_test_options *options)
{
    if (options->on_failure != NULL) {
        options->on_failure(options->ctx, failure);
        return;
    }
    fprintf(stderr, "%s\n", failure);
    abort();
}

void test_fail(coney_test *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vprint(failure, sizeof failure, format, args);
    va_end(args);
    t->has_failed = true;
    give_failure(&t->options);
}

/* Start -------------------------------------------------------------------------------------------------------------------------- */

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* What is wrong before anything was started, or NULL. */
static const char *take_options(coney_test_options *ours, const coney_test_options *theirs, size_t size)
{
    bool is_known = app_take_options(ours, sizeof *ours, theirs, size);
    if (ours->settle_limit == 0)
        ours->settle_limit = 10 * CONEY_SECOND;
    if (ours->max_steps == 0)
        ours->max_steps = 10000;
    if (ours->now == 0)
        ours->now = clock_ms();
    if (!is_known)
        return "coney_test_options " NEWER_TEXT;
    if (!is_zero(ours->reserved, sizeof ours->reserved))
        return "coney_test_options: a reserved member is not zero: zero the whole struct first";
    if (ours->settle_limit < 0 || ours->max_steps < 0 || ours->now < 0)
        return "coney_test_options: settle_limit, max_steps and now are not less than zero";
    return NULL;
}

/* Everything of the app becomes this thread's: brokers, time, lanes. */
static bool stand_in(coney_test *t)
{
    coney_app *app = t->app;
    app->is_virtual = true;
    app->worker = worker_new("coney-test", true, t->options.now * CONEY_MILLISECOND);
    if (app->worker == NULL)
        return false;
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        if (memory_stand_in(broker) != CONEY_OK)
            return false;
    return true;
}

static void release(coney_test *t)
{
    test_close_outside(t);
    coney_app_free(&t->app);
    coney_app_free(&t->outside);
    coney_arena_free(&t->memory);
    free(t);
}

static coney_status set_up(coney_test *t, coney_call *call)
{
    if (!test_record(t) || (!t->options.live && !stand_in(t)))
        return app_refuse(call, CONEY_ENOMEM, "memory is out");
    coney_status status = coney_app_start(t->app, call);
    if (status == CONEY_OK && !test_open_outside(t))
        return app_refuse(call, CONEY_ENOMEM, "memory is out");
    if (status == CONEY_OK && !test_drive(t))
        return app_refuse(call, CONEY_ELIMIT, "its start causes more than %lld deliveries (max_steps)",
                          (long long)t->options.max_steps);
    return status;
}

/* Takes the app. NULL: it is freed, and `failure` says why. Else a test, and call->status says how the start went. */
static coney_test *begin(coney_app *app, const coney_test_options *options, const char *wrong, coney_call *call)
{
    if (wrong == NULL && app == NULL)
        wrong = "the app is NULL: memory was out when it was made";
    if (wrong == NULL && app->worker != NULL)
        wrong = "the app was started before: a test takes one that has just been described";
    coney_test *t = wrong == NULL ? calloc(1, sizeof *t) : NULL;
    if (t == NULL) {
        text_print(failure, sizeof failure, "%s", wrong != NULL ? wrong : "memory is out");
        coney_app_free(&app);
        return NULL;
    }
    t->app = app;
    t->options = *options;
    call->status = set_up(t, call);
    return t;
}

coney_test *coney_test_start_sized(coney_app *app, const coney_test_options *options, size_t size)
{
    coney_test_options own;
    const char *wrong = take_options(&own, options, size);
    coney_call call = {0};
    coney_test *t = begin(app, &own, wrong, &call);
    if (t != NULL && call.status == CONEY_OK)
        return t;
    if (t != NULL) {
        text_print(failure, sizeof failure, "the app does not start (%s): %s", coney_status_name(call.status), call.text);
        release(t);
    }
    give_failure(&own);
    return NULL;
}

/* A refused start --------------------------------------------------------------------------------------------------------------- */

static bool has_said(const coney_test *t, const coney_call *call, const char *text)
{
    if (strstr(call->text, text) != NULL)
        return true;
    for (const struct test_line *line = t->lines; line != NULL; line = line->next)
        if (strstr(line->text, text) != NULL)
            return true;
    return false;
}

void coney_test_expect_refused_sized(coney_app *app, const coney_test_options *options, size_t size, const char *text)
{
    coney_test_options own;
    const char *wrong = take_options(&own, options, size);
    coney_call call = {0};
    coney_test *t = begin(app, &own, wrong, &call);
    if (t == NULL) {
        give_failure(&own);
        return;
    }
    bool is_refused = call.status != CONEY_OK;
    bool is_said = is_refused && has_said(t, &call, text);
    if (!is_refused)
        text_print(failure, sizeof failure, "the app starts: it was expected to be refused with '%s'", text);
    else if (!is_said)
        text_print(failure, sizeof failure, "the start was expected to say '%s'; it was refused (%s) with: %s", text,
                   coney_status_name(call.status), call.text);
    release(t);
    if (!is_said)
        give_failure(&own);
}

/* Stop --------------------------------------------------------------------------------------------------------------------------- */

static bool runs(const coney_test *t)
{
    coney_app_health health;
    coney_app_get_health(t->app, &health);
    return health.phase == CONEY_APP_RUNNING || health.phase == CONEY_APP_FAILED;
}

static void name_open(const struct test_subject *subject, size_t count, const char *what)
{
    text_append(failure, sizeof failure, "; subscription '%s': %zu %s", subject->subscription->name, count, what);
}

/* Messages that wait for their batch to be closed. */
static size_t gathered(const struct test_subject *subject)
{
    struct subscription_stats stats;
    if (subject->subscription->options.handler.many == NULL)
        return 0;
    dispatch_stats(subject->subscription, &stats);
    return counter_get(&stats.received) - subject->received_count;
}

/* What is open before the stop, in words, which count if it is open after it, too. Returns what waits in batches. */
static size_t look_around(const coney_test *t)
{
    size_t in_batches = 0;
    text_print(failure, sizeof failure, "the app stops with messages that were not settled");
    for (const struct test_subject *subject = t->subjects; subject != NULL; subject = subject->next) {
        size_t open = test_open_deliveries(subject->subscription);
        size_t waiting = t->options.live ? 0 : gathered(subject);
        in_batches += waiting;
        if (open > 0)
            name_open(subject, open, "kept, or waiting for what they published");
        if (waiting > 0)
            name_open(subject, waiting, "waiting for their batch: coney_test_advance closes it");
    }
    return in_batches;
}

/* False: `failure` says what is wrong. */
static bool stop_well(coney_test *t)
{
    coney_app_health health;
    coney_app_get_health(t->app, &health);
    size_t in_batches = look_around(t);
    coney_call call = {0};
    coney_status status = coney_app_stop(t->app, &call);
    if (health.status != CONEY_OK && !t->may_stop) {
        text_print(failure, sizeof failure, "the app has failed (%s): %s; coney_test_expect_stopped says that it may",
                   coney_status_name(health.status), health.reason);
        return false;
    }
    if (health.status != CONEY_OK) /* what a policy has left unsettled was meant to be */
        return true;
    if (in_batches > 0 || call.value > 0)
        return false;
    if (status == CONEY_OK)
        return true;
    text_print(failure, sizeof failure, "the app does not stop well (%s): %s", coney_status_name(status), call.text);
    return false;
}

static void leave_behind(coney_test *t)
{
    struct left *left = malloc(sizeof *left);
    if (left == NULL)
        return;
    *left = (struct left){left_behind, t};
    left_behind = left;
}

void coney_test_stop(coney_test **test)
{
    if (test == NULL || *test == NULL)
        return;
    coney_test *t = *test;
    *test = NULL;
    if (t->in_step) {
        leave_behind(t);
        return;
    }
    t->is_driving = false;
    bool has_end = t->has_failed || test_drive(t);
    if (!has_end)
        text_print(failure, sizeof failure, "there is no end to what happens in the app (max_steps)");
    test_close_outside(t);
    bool is_well = (!runs(t) || stop_well(t) || t->has_failed) && has_end;
    coney_test_options options = t->options;
    release(t);
    if (!is_well)
        give_failure(&options);
}

/* The app ------------------------------------------------------------------------------------------------------------------------ */

coney_app *coney_test_app(const coney_test *test)
{
    return test->app;
}

void coney_test_on(coney_test *test, const char *broker_label)
{
    for (coney_broker *broker = test->app->brokers; broker != NULL; broker = broker->next)
        if (strcmp(broker->label, broker_label) == 0) {
            test->at = broker;
            return;
        }
    test_fail(test, "the app has no broker '%s'", broker_label);
}

coney_broker *test_broker(coney_test *t)
{
    coney_broker *first = t->app->brokers;
    if (t->at != NULL || (first != NULL && first->next == NULL))
        return t->at != NULL ? t->at : first;
    test_fail(t, first == NULL ? "the app has no broker" : "the app has several brokers: say which by coney_test_on");
    return NULL;
}

/* What a wait answers; where nothing has stopped it, CONEY_EDEADLK or, live, CONEY_ETIMEDOUT. */
static coney_status wait_for_stop(const coney_test *t, int64_t patience, coney_call *call)
{
    *call = (coney_call){.deadline = patience};
    return coney_app_wait(t->app, call);
}

static bool still_runs(coney_status waited)
{
    return waited == CONEY_EDEADLK || waited == CONEY_ETIMEDOUT;
}

void coney_test_expect_running(coney_test *test)
{
    coney_call call;
    coney_status status = wait_for_stop(test, 1, &call);
    if (still_runs(status))
        return;
    if (status == CONEY_OK)
        test_fail(test, "the app was asked to stop; it was expected to run");
    else
        test_fail(test, "the app has failed (%s): %s; it was expected to run", coney_status_name(status), call.text);
}

void coney_test_expect_stopped(coney_test *test, coney_status status)
{
    coney_call call;
    test->may_stop = true;
    coney_status actual = wait_for_stop(test, test->options.settle_limit, &call);
    if (still_runs(actual))
        test_fail(test, "the app runs; it was expected to have stopped with %s", coney_status_name(status));
    else if (actual != status)
        test_fail(test, "the app has stopped with %s%s%s; expected %s", coney_status_name(actual),
                  call.text[0] != '\0' ? ": " : "", call.text, coney_status_name(status));
}
