/* timers_test.c: the heap of deadlines. */
#include "net/timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void timers_set_moved_and_unset_at_random_fire_in_order(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static struct timer timers_of_test[COUNT];
    struct timers heap = {0};
    unsigned seed = 7;
    for (int i = 0; i < 20000; i++) {
        struct timer *timer = &timers_of_test[rand_r(&seed) % COUNT];
        if (rand_r(&seed) % 4 == 0)
            timers_unset(&heap, timer);
        else
            assert_true(timers_set(&heap, timer, rand_r(&seed) % 1000));
    }
    int64_t last = -1;
    size_t taken = 0;
    size_t set = heap.count;
    while (timers_next(&heap) != INT64_MAX) {
        assert_true(timers_next(&heap) >= last);
        last = timers_next(&heap);
        assert_ptr_equal(heap.heap[0]->place, 1);
        timers_unset(&heap, heap.heap[0]);
        taken++;
    }
    assert_int_equal(taken, set);
    timers_free(&heap);
}

static void freed_timers_count_as_unset(void **state)
{
    (void)state;
    struct timers heap = {0};
    struct timer timer = {0};
    assert_true(timers_set(&heap, &timer, 5));
    assert_int_not_equal(timer.place, 0);
    timers_free(&heap);
    assert_int_equal(timer.place, 0);
    assert_true(timers_next(&heap) == INT64_MAX);
    timers_unset(&heap, &timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_set_moved_and_unset_at_random_fire_in_order),
        cmocka_unit_test(freed_timers_count_as_unset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
