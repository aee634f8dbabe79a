/* lock_test.c: mutual exclusion and wakes, under threads that contend. */
#include "base/lock.h"

#include "base/time.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define MILLISECOND INT64_C(1000000)
#define PATIENCE (10000 * MILLISECOND)

enum { THREADS = 4, TURNS = 20000 };

struct shared {
    struct lock lock;
    struct cond cond;
    uint64_t count; /* no atomic: the lock must protect it */
    uint64_t inside;
    int waiting;
    int woken;
    bool open;
};

static void *count_up(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < TURNS; i++) {
        lock_acquire(&shared->lock);
        shared->inside++;
        if (i % 64 == 0)
            sched_yield(); /* with the lock held, so that others have to sleep for it */
        shared->count += shared->inside;
        shared->inside--;
        lock_release(&shared->lock);
    }
    return NULL;
}

static void one_thread_at_a_time_is_inside(void **state)
{
    (void)state;
    struct shared shared = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.count, THREADS * TURNS);
    assert_int_equal(shared.lock.state, 0);
}

static void *wait_until_open(void *arg)
{
    struct shared *shared = arg;
    int64_t deadline = time_now() + PATIENCE;
    lock_acquire(&shared->lock);
    shared->waiting++;
    while (!shared->open && cond_wait(&shared->cond, &shared->lock, deadline)) {
    }
    shared->woken += shared->open;
    lock_release(&shared->lock);
    return NULL;
}

static void everyone_who_waits_is_woken(void **state)
{
    (void)state;
    struct shared shared = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_until_open, &shared), 0);
    int waiting = 0;
    while (waiting < THREADS) {
        lock_acquire(&shared.lock);
        waiting = shared.waiting;
        lock_release(&shared.lock);
        sched_yield();
    }
    int64_t before = time_now();
    lock_acquire(&shared.lock);
    shared.open = true;
    cond_wake_all(&shared.cond);
    lock_release(&shared.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.woken, THREADS);
    assert_true(time_now() - before < PATIENCE / 2);
}

/* Two threads hand a turn to and fro: a lost wake stops them for PATIENCE. */
static void *take_odd_turns(void *arg)
{
    struct shared *shared = arg;
    lock_acquire(&shared->lock);
    while (shared->count < TURNS) {
        if (shared->count % 2 == 1) {
            shared->count++;
            cond_wake_all(&shared->cond);
        } else if (!cond_wait(&shared->cond, &shared->lock, time_now() + PATIENCE)) {
            shared->woken = -1;
            break;
        }
    }
    lock_release(&shared->lock);
    return NULL;
}

static void no_wake_is_lost_between_two_threads(void **state)
{
    (void)state;
    struct shared shared = {0};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, take_odd_turns, &shared), 0);
    lock_acquire(&shared.lock);
    while (shared.count < TURNS && shared.woken == 0) {
        if (shared.count % 2 == 0) {
            shared.count++;
            cond_wake_all(&shared.cond);
        } else if (!cond_wait(&shared.cond, &shared.lock, INT64_MAX)) {
            break;
        }
    }
    lock_release(&shared.lock);
    pthread_join(other, NULL);
    assert_int_equal(shared.woken, 0);
    assert_int_equal(shared.count, TURNS);
}

static void a_wait_ends_at_its_deadline_and_holds_the_lock(void **state)
{
    (void)state;
    struct shared shared = {0};
    lock_acquire(&shared.lock);
    int64_t deadline = time_now() + 5 * MILLISECOND;
    while (cond_wait(&shared.cond, &shared.lock, deadline)) {
    }
    assert_true(time_now() >= deadline);
    assert_int_not_equal(shared.lock.state, 0);
    assert_false(cond_wait(&shared.cond, &shared.lock, -1));
    lock_release(&shared.lock);
    assert_int_equal(shared.lock.state, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_at_a_time_is_inside),
        cmocka_unit_test(everyone_who_waits_is_woken),
        cmocka_unit_test(no_wake_is_lost_between_two_threads),
        cmocka_unit_test(a_wait_ends_at_its_deadline_and_holds_the_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
