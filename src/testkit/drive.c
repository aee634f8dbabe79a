/* drive.c: running what is ready, and moving the time. */
#include "base/time.h"
#include "testkit/kit.h"
#include "transport/memory.h"

#include <time.h>

/* What has begun is finished first, then the next message. */
static bool run_one(coney_test *t)
{
    if (worker_run_one(t->app->worker))
        return true;
    for (coney_broker *broker = t->app->brokers; broker != NULL; broker = broker->next)
        if (memory_run_one(broker)) {
            t->steps++;
            return true;
        }
    return false;
}

static bool step(coney_test *t)
{
    t->in_step = true;
    bool ran = run_one(t);
    t->in_step = false;
    test_run_hooks(t);
    return ran;
}

bool test_drive(coney_test *t)
{
    if (t->is_driving)
        return true;
    if (t->options.live) {
        test_run_hooks(t);
        return true;
    }
    t->is_driving = true;
    t->steps = 0;
    while (t->steps <= t->options.max_steps && step(t))
        ;
    t->is_driving = false;
    return t->steps <= t->options.max_steps;
}

void test_drive_to_the_end(coney_test *t)
{
    if (!test_drive(t))
        test_fail(t,
                  "there is no end to what one publish has caused: after %lld deliveries (max_steps) there are more; does a "
                  "message come again and again, or cause itself?",
                  (long long)t->options.max_steps);
}

void coney_test_settle(coney_test *test)
{
    test_drive_to_the_end(test);
}

/* Time --------------------------------------------------------------------------------------------------------------------------- */

static int64_t next_due(const coney_test *t)
{
    int64_t due = worker_next_due(t->app->worker);
    for (coney_broker *broker = t->app->brokers; broker != NULL; broker = broker->next) {
        int64_t own = memory_next_due(broker);
        due = own < due ? own : due;
    }
    return due;
}

static void sleep_for(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / CONEY_SECOND, .tv_nsec = ns % CONEY_SECOND};
    while (nanosleep(&left, &left) != 0)
        ;
}

void coney_test_advance(coney_test *test, int64_t ns)
{
    if (ns < 0 || test->is_driving) {
        test_fail(test, ns < 0 ? "time does not go back: coney_test_advance by less than 0"
                               : "coney_test_advance inside a handler or a hook: time stands still there");
        return;
    }
    if (test->options.live) {
        sleep_for(ns);
        test_run_hooks(test);
        return;
    }
    struct worker *worker = test->app->worker;
    int64_t until = time_after(worker_now(worker), ns);
    test_drive_to_the_end(test);
    for (int64_t due = next_due(test); due > worker_now(worker) && due <= until; due = next_due(test)) {
        worker_set_now(worker, due);
        test_drive_to_the_end(test);
    }
    worker_set_now(worker, until);
    test_drive_to_the_end(test);
}
