/* time_test.c: deadlines that do not overflow, a clock that goes on. */
#include "base/time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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

static void the_clock_never_goes_back(void **state)
{
    (void)state;
    int64_t first = time_now();
    assert_true(first > 0);
    assert_true(time_now() >= first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_never_overflows),
        cmocka_unit_test(the_clock_never_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
