/* crew_test.c: threads that serve one lane each. */
#define _GNU_SOURCE
#include "core/crew.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>

#include "base/time.h"

/* Lanes whose handlers meet: each waits until all of them run. */
struct meeting {
    struct lock lock;
    struct cond changed;
    size_t expected;
    size_t here;
};

struct guest {
    struct lane lane;
    struct meeting *meeting;
    _Atomic bool has_met;
    pthread_t thread;
};

static bool meet(struct lane *lane)
{
    struct guest *guest = container_of(lane, struct guest, lane);
    struct meeting *meeting = guest->meeting;
    int64_t deadline = time_now() + 40 * CONEY_SECOND;
    bool in_time = true;
    guest->thread = pthread_self();
    lock_acquire(&meeting->lock);
    meeting->here++;
    cond_wake_all(&meeting->changed);
    while (meeting->here < meeting->expected && in_time)
        in_time = cond_wait(&meeting->changed, &meeting->lock, deadline);
    lock_release(&meeting->lock);
    atomic_store(&guest->has_met, in_time);
    return false;
}

static void guest_goes(struct guest *guest, struct crew *crew, struct meeting *meeting)
{
    struct dispatcher *d = crew_lend(crew);
    assert_non_null(d);
    guest->meeting = meeting;
    lane_init(&guest->lane, d, NULL, meet);
    lane_wake(&guest->lane);
}

static void wait_for_all(struct meeting *meeting)
{
    lock_acquire(&meeting->lock);
    while (meeting->here < meeting->expected)
        assert_true(cond_wait(&meeting->changed, &meeting->lock, time_now() + 40 * CONEY_SECOND));
    lock_release(&meeting->lock);
}

static void each_lane_has_a_thread_of_its_own(void **state)
{
    (void)state;
    struct crew crew = {0};
    struct meeting meeting = {.expected = 3};
    struct guest guests[3] = {0};
    assert_true(crew_is_empty(&crew));
    for (size_t i = 0; i < 3; i++)
        guest_goes(&guests[i], &crew, &meeting);
    wait_for_all(&meeting);
    assert_false(crew_is_empty(&crew));
    crew_end(&crew);
    for (size_t i = 0; i < 3; i++)
        assert_true(guests[i].has_met);
    crew_free(&crew);
}

static void a_thread_that_was_given_back_is_lent_again(void **state)
{
    (void)state;
    struct crew crew = {0};
    struct meeting first = {.expected = 1};
    struct meeting second = {.expected = 2};
    struct guest gone = {0}, stays = {0}, comes = {0};
    guest_goes(&gone, &crew, &first);
    wait_for_all(&first);
    assert_true(lane_stop(&gone.lane, INT64_MAX));
    crew_give_back(&crew, gone.lane.dispatcher);
    guest_goes(&stays, &crew, &second);
    guest_goes(&comes, &crew, &second);
    wait_for_all(&second);
    crew_free(&crew);
    assert_ptr_equal(stays.lane.dispatcher, gone.lane.dispatcher);
    assert_true(pthread_equal(stays.thread, gone.thread));
    assert_ptr_not_equal(comes.lane.dispatcher, stays.lane.dispatcher);
    assert_true(stays.has_met && comes.has_met);
}

static void what_was_never_lent_is_given_back_harmlessly(void **state)
{
    (void)state;
    struct crew crew = {0};
    struct dispatcher *other = dispatcher_start("coney-test");
    struct dispatcher *d = crew_lend(&crew);
    crew_give_back(&crew, NULL);
    crew_give_back(&crew, other);
    assert_ptr_not_equal(crew_lend(&crew), d);
    crew_free(&crew);
    dispatcher_stop(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lane_has_a_thread_of_its_own),
        cmocka_unit_test(a_thread_that_was_given_back_is_lent_again),
        cmocka_unit_test(what_was_never_lent_is_given_back_harmlessly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
