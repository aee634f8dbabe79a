#include "histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct histogram h, other;

static int empty(void **state)
{
    (void)state;
    memset(&h, 0, sizeof h);
    memset(&other, 0, sizeof other);
    return 0;
}

static void assert_within_a_thousandth(uint64_t value, uint64_t exact)
{
    if (value < exact || value > exact + exact / 1000)
        fail_msg("%llu was expected, or up to 0.1 %% more, and not %llu", (unsigned long long)exact, (unsigned long long)value);
}

static void without_values_everything_is_zero(void **state)
{
    (void)state;
    assert_int_equal(histogram_percentile(&h, 0.5), 0);
    assert_int_equal(histogram_average(&h), 0);
    assert_int_equal(h.max, 0);
}

static void one_value_is_every_percentile_exactly(void **state)
{
    (void)state;
    histogram_add(&h, 1234567);
    assert_int_equal(histogram_percentile(&h, 0), 1234567);
    assert_int_equal(histogram_percentile(&h, 0.5), 1234567);
    assert_int_equal(histogram_percentile(&h, 1), 1234567);
    assert_int_equal(histogram_average(&h), 1234567);
}

static void percentiles_of_an_even_spread_are_its_ranks(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= 100000; i++)
        histogram_add(&h, i * 1000);
    assert_within_a_thousandth(histogram_percentile(&h, 0.5), 50000000);
    assert_within_a_thousandth(histogram_percentile(&h, 0.99), 99000000);
    assert_within_a_thousandth(histogram_percentile(&h, 0.999), 99900000);
    assert_int_equal(histogram_percentile(&h, 1), 100000000);
    assert_int_equal(h.max, 100000000);
    assert_int_equal(histogram_average(&h), 50000500);
}

static void a_percentile_is_a_value_that_enough_values_do_not_exceed(void **state)
{
    (void)state;
    for (int i = 0; i < 99; i++)
        histogram_add(&h, 10);
    histogram_add(&h, 500);
    assert_int_equal(histogram_percentile(&h, 0.99), 10);
    assert_int_equal(histogram_percentile(&h, 0.991), 500);
}

static void any_magnitude_is_kept_to_a_thousandth(void **state)
{
    (void)state;
    for (uint64_t ns = 1; ns < UINT64_C(1) << 43; ns = ns * 3 + 1) {
        memset(&h, 0, sizeof h);
        histogram_add(&h, (int64_t)ns);
        histogram_add(&h, INT64_MAX);
        assert_within_a_thousandth(histogram_percentile(&h, 0.5), ns);
    }
}

static void values_out_of_range_are_counted_at_the_ends(void **state)
{
    (void)state;
    histogram_add(&h, -5);
    histogram_add(&h, INT64_MAX);
    assert_int_equal(h.count, 2);
    assert_int_equal(histogram_percentile(&h, 0.5), 0);
    assert_int_equal(histogram_percentile(&h, 1), INT64_MAX);
}

static void a_merge_is_as_if_all_values_had_been_added_to_one(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= 1000; i++)
        histogram_add(i % 2 ? &h : &other, i * 777);
    histogram_merge(&h, &other);
    assert_int_equal(h.count, 1000);
    assert_int_equal(h.max, 777000);
    assert_within_a_thousandth(histogram_percentile(&h, 0.5), 388500);
    assert_int_equal(histogram_average(&h), (777 * 1001 + 1) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_values_everything_is_zero, empty),
        cmocka_unit_test_setup(one_value_is_every_percentile_exactly, empty),
        cmocka_unit_test_setup(percentiles_of_an_even_spread_are_its_ranks, empty),
        cmocka_unit_test_setup(a_percentile_is_a_value_that_enough_values_do_not_exceed, empty),
        cmocka_unit_test_setup(any_magnitude_is_kept_to_a_thousandth, empty),
        cmocka_unit_test_setup(values_out_of_range_are_counted_at_the_ends, empty),
        cmocka_unit_test_setup(a_merge_is_as_if_all_values_had_been_added_to_one, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
