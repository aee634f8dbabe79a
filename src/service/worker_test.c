/* worker_test.c: the app's own thread, real and virtual. */
#include "service/worker.h"

#include "base/time.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATIENCE (10 * CONEY_SECOND)

enum { MANY = 500 };

struct book {
    struct lock lock;
    struct cond changed;
    int seen[MANY * 2];
    size_t count;
    struct worker *worker;
};

struct entry {
    struct work work;
    struct book *book;
    int number;
    int repeats; /* posts itself so often more */
};

static void write_down(struct work *work)
{
    struct entry *entry = container_of(work, struct entry, work);
    struct book *book = entry->book;
    assert_true(worker_is_current(book->worker));
    lock_acquire(&book->lock);
    book->seen[book->count++] = entry->number;
    cond_wake_all(&book->changed);
    lock_release(&book->lock);
    if (entry->repeats-- > 0)
        worker_post(book->worker, work);
}

static struct entry entry_of(struct book *book, int number)
{
    struct entry entry = {.book = book, .number = number};
    return entry;
}

static void await(struct book *book, size_t count)
{
    int64_t deadline = time_after(time_now(), PATIENCE);
    lock_acquire(&book->lock);
    while (book->count < count)
        if (!cond_wait(&book->changed, &book->lock, deadline))
            fail_msg("%zu of %zu works ran", book->count, count);
    lock_release(&book->lock);
}

static void works_run_in_the_order_in_which_they_were_posted(void **state)
{
    (void)state;
    struct book book = {.worker = worker_new("worker", false, 0)};
    struct entry entries[MANY];
    for (int i = 0; i < MANY; i++) {
        entries[i] = entry_of(&book, i);
        work_init(&entries[i].work, write_down);
        worker_post(book.worker, &entries[i].work);
    }
    await(&book, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(book.seen[i], i);
    assert_false(worker_is_current(book.worker));
    worker_free(book.worker);
}

static void what_is_posted_runs_before_the_worker_ends_and_what_is_not_due_does_not(void **state)
{
    (void)state;
    struct book book = {.worker = worker_new("worker", false, 0)};
    struct entry posted = entry_of(&book, 1);
    struct entry late = entry_of(&book, 2);
    posted.repeats = 10;
    work_init(&posted.work, write_down);
    work_init(&late.work, write_down);
    worker_at(book.worker, &late.work, time_after(time_now(), 3600 * CONEY_SECOND));
    worker_post(book.worker, &posted.work);
    worker_free(book.worker);
    assert_int_equal(book.count, 11);
    assert_int_equal(late.work.waits, WORK_IDLE);
}

static void a_timer_wakes_a_worker_that_waits_for_a_later_one(void **state)
{
    (void)state;
    struct book book = {.worker = worker_new("worker", false, 0)};
    struct entry later = entry_of(&book, 2);
    struct entry sooner = entry_of(&book, 1);
    work_init(&later.work, write_down);
    work_init(&sooner.work, write_down);
    int64_t begun = time_now();
    worker_at(book.worker, &later.work, time_after(begun, 30 * CONEY_MILLISECOND));
    worker_at(book.worker, &sooner.work, time_after(begun, 10 * CONEY_MILLISECOND));
    await(&book, 2);
    assert_int_equal(book.seen[0], 1);
    assert_int_equal(book.seen[1], 2);
    assert_true(time_now() - begun >= 30 * CONEY_MILLISECOND);
    worker_free(book.worker);
}

struct poster {
    struct book *book;
    struct entry entries[MANY / 4];
};

static void *post_and_cancel(void *arg)
{
    struct poster *poster = arg;
    struct worker *worker = poster->book->worker;
    for (int i = 0; i < MANY / 4; i++) {
        struct work *work = &poster->entries[i].work;
        work_init(work, write_down);
        worker_at(worker, work, time_after(time_now(), 3600 * CONEY_SECOND));
        assert_true(worker_cancel(worker, work));
        worker_at(worker, work, time_after(time_now(), 3600 * CONEY_SECOND));
        worker_post(worker, work);
    }
    return NULL;
}

static void any_thread_may_post_set_and_cancel(void **state)
{
    (void)state;
    struct book book = {.worker = worker_new("worker", false, 0)};
    static struct poster posters[4];
    pthread_t threads[4];
    for (int t = 0; t < 4; t++) {
        posters[t].book = &book;
        for (int i = 0; i < MANY / 4; i++)
            posters[t].entries[i] = entry_of(&book, t);
        assert_int_equal(pthread_create(&threads[t], NULL, post_and_cancel, &posters[t]), 0);
    }
    for (int t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    await(&book, MANY / 4 * 4);
    worker_free(book.worker);
    assert_int_equal(book.count, MANY / 4 * 4);
}

static void a_virtual_clock_stands_still_until_it_is_moved_and_never_goes_back(void **state)
{
    (void)state;
    struct worker *worker = worker_new("worker", true, 5 * CONEY_SECOND);
    assert_int_equal(worker_now(worker), 5 * CONEY_SECOND);
    assert_int_equal(worker_wall(worker), 5000);
    worker_set_now(worker, 6 * CONEY_SECOND);
    assert_int_equal(worker_now(worker), 6 * CONEY_SECOND);
    worker_set_now(worker, 1);
    assert_int_equal(worker_wall(worker), 6000);
    worker_free(worker);
}

static void a_virtual_worker_runs_what_is_posted_then_what_is_due_and_nothing_early(void **state)
{
    (void)state;
    struct book book = {.worker = worker_new("worker", true, 0)};
    struct entry due = entry_of(&book, 1);
    struct entry posted = entry_of(&book, 2);
    struct entry late = entry_of(&book, 3);
    work_init(&due.work, write_down);
    work_init(&posted.work, write_down);
    work_init(&late.work, write_down);
    worker_at(book.worker, &late.work, 11);
    worker_at(book.worker, &due.work, 10);
    worker_set_now(book.worker, 10);
    worker_post(book.worker, &posted.work);
    assert_true(worker_run_one(book.worker));
    assert_true(worker_run_one(book.worker));
    assert_false(worker_run_one(book.worker));
    assert_int_equal(worker_next_due(book.worker), 11);
    assert_int_equal(book.seen[0], 2);
    assert_int_equal(book.seen[1], 1);
    assert_true(worker_cancel(book.worker, &late.work));
    assert_false(worker_cancel(book.worker, &late.work));
    assert_int_equal(worker_next_due(book.worker), INT64_MAX);
    worker_free(book.worker);
}

/* Against the plain rule: those that were not taken out, by their time, equal ones as they were set. */
static void timers_run_by_their_time_and_those_of_one_moment_as_they_were_set(void **state)
{
    (void)state;
    struct book book = {.worker = worker_new("worker", true, 0)};
    static struct entry entries[MANY];
    unsigned seed = 1;
    for (int i = 0; i < MANY; i++) {
        entries[i] = entry_of(&book, i);
        work_init(&entries[i].work, write_down);
    }
    bool is_out[MANY] = {0};
    for (int i = 0; i < MANY; i++) {
        worker_at(book.worker, &entries[i].work, rand_r(&seed) % 50);
        int other = rand_r(&seed) % (i + 1);
        if (i % 3 == 0 && !is_out[other])
            is_out[other] = worker_cancel(book.worker, &entries[other].work);
        else if (i % 7 == 0 && !is_out[other])
            worker_at(book.worker, &entries[other].work, rand_r(&seed) % 50);
    }
    worker_set_now(book.worker, 50);
    while (worker_run_one(book.worker))
        ;
    size_t expected = 0;
    for (int i = 0; i < MANY; i++)
        expected += !is_out[i];
    assert_int_equal(book.count, expected);
    for (size_t i = 1; i < book.count; i++) {
        const struct work *a = &entries[book.seen[i - 1]].work;
        const struct work *b = &entries[book.seen[i]].work;
        assert_true(a->due < b->due || (a->due == b->due && a->turn < b->turn));
    }
    worker_free(book.worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_run_in_the_order_in_which_they_were_posted),
        cmocka_unit_test(what_is_posted_runs_before_the_worker_ends_and_what_is_not_due_does_not),
        cmocka_unit_test(a_timer_wakes_a_worker_that_waits_for_a_later_one),
        cmocka_unit_test(any_thread_may_post_set_and_cancel),
        cmocka_unit_test(a_virtual_clock_stands_still_until_it_is_moved_and_never_goes_back),
        cmocka_unit_test(a_virtual_worker_runs_what_is_posted_then_what_is_due_and_nothing_early),
        cmocka_unit_test(timers_run_by_their_time_and_those_of_one_moment_as_they_were_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
