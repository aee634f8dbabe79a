#include "pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const uint64_t rates[] = {1, 3, 7, 100, 1000, 999999, 1000000000};
enum { RATES = sizeof rates / sizeof rates[0] };

static void the_first_message_is_due_at_once_and_none_before(void **state)
{
    (void)state;
    for (int i = 0; i < RATES; i++) {
        assert_int_equal(pace_due(-1, rates[i]), 0);
        assert_int_equal(pace_due(0, rates[i]), 1);
        assert_int_equal(pace_due_at(0, rates[i]), 0);
    }
}

static void a_message_counts_as_due_at_its_very_nanosecond(void **state)
{
    (void)state;
    for (int i = 0; i < RATES - 1; i++)
        for (uint64_t n = 1; n < 5000; n += 37) {
            int64_t at = pace_due_at(n, rates[i]);
            assert_int_equal(pace_due(at, rates[i]), n + 1);
            assert_int_equal(pace_due(at - 1, rates[i]), n);
        }
}

static void a_whole_second_has_the_whole_rate(void **state)
{
    (void)state;
    for (int i = 0; i < RATES; i++) {
        assert_int_equal(pace_due_at(rates[i] * 86400, rates[i]), 86400 * INT64_C(1000000000));
        assert_int_equal(pace_due(86400 * INT64_C(1000000000) - 1, rates[i]), rates[i] * 86400);
    }
}

static void publishers_share_all_messages_and_differ_by_one_at_most(void **state)
{
    (void)state;
    for (uint64_t publishers = 1; publishers < 8; publishers++)
        for (uint64_t due = 0; due < 50; due++) {
            uint64_t sum = 0;
            for (uint64_t i = 0; i < publishers; i++) {
                uint64_t share = pace_share(due, i, publishers);
                assert_in_range(share, due / publishers, due / publishers + 1);
                sum += share;
            }
            assert_int_equal(sum, due);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_message_is_due_at_once_and_none_before),
        cmocka_unit_test(a_message_counts_as_due_at_its_very_nanosecond),
        cmocka_unit_test(a_whole_second_has_the_whole_rate),
        cmocka_unit_test(publishers_share_all_messages_and_differ_by_one_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
