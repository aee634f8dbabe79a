/* time_test.c: deadlines that do not overflow, clocks that go on. */
#include "base/time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static void a_deadline_never_overflows(void **state)
{
    (void)state;
    assert_int_equal(time_after(100, 5), 105);
    assert_int_equal(time_after(100, 0), 100);
    assert_true(time_after(100, -1) == INT64_MAX);
    assert_true(time_after(100, INT64_MAX) == INT64_MAX);
    assert_true(time_after(INT64_MAX, 1) == INT64_MAX);
}

static void the_clocks_agree_with_the_systems(void **state)
{
    (void)state;
    int64_t first = time_now();
    assert_true(first > 0);
    assert_true(time_now() >= first);
    int64_t system = (int64_t)time(NULL) * 1000;
    int64_t wall = time_wall();
    assert_true(wall >= system - 1000 && wall < system + 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_never_overflows),
        cmocka_unit_test(the_clocks_agree_with_the_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
