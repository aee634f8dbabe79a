/* backoff_test.c */
#include "core/backoff.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

static void the_first_attempt_is_made_at_once(void **state)
{
    (void)state;
    struct backoff b = {.first = 500, .most = 30000};
    assert_int_equal(backoff_next(&b), 0);
    assert_int_equal(b.attempts, 1);
}

static void the_wait_doubles_up_to_the_most_and_lies_between_half_and_whole(void **state)
{
    (void)state;
    const int64_t whole[] = {500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000};
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct backoff b = {.first = 500, .most = 30000, .seed = seed};
        backoff_next(&b);
        for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
            int64_t wait = backoff_next(&b);
            assert_in_range(wait, whole[i] / 2, whole[i]);
        }
    }
}

static void two_clients_do_not_come_back_together(void **state)
{
    (void)state;
    struct backoff a = {.first = 500000000, .most = 30000000000, .seed = 1};
    struct backoff b = {.first = 500000000, .most = 30000000000, .seed = 2};
    backoff_next(&a);
    backoff_next(&b);
    assert_int_not_equal(backoff_next(&a), backoff_next(&b));
}

static void a_success_starts_over(void **state)
{
    (void)state;
    struct backoff b = {.first = 500, .most = 30000};
    for (int i = 0; i < 10; i++)
        backoff_next(&b);
    backoff_reset(&b);
    assert_int_equal(backoff_next(&b), 0);
    assert_in_range(backoff_next(&b), 250, 500);
}

static void extreme_settings_stay_in_range(void **state)
{
    (void)state;
    struct backoff largest = {.first = INT64_MAX / 2 + 2, .most = INT64_MAX, .attempts = 5};
    assert_true(backoff_next(&largest) >= INT64_MAX / 2);
    struct backoff inverted = {.first = 1000, .most = 10, .attempts = 1};
    assert_in_range(backoff_next(&inverted), 5, 10);
    struct backoff none = {.attempts = UINT32_MAX};
    assert_int_equal(backoff_next(&none), 0);
    assert_int_equal(none.attempts, UINT32_MAX);
}

static void the_generator_spreads(void **state)
{
    (void)state;
    uint64_t seed = 0;
    unsigned buckets[16] = {0};
    for (int i = 0; i < 16000; i++)
        buckets[backoff_random(&seed) % 16]++;
    for (size_t i = 0; i < 16; i++)
        assert_in_range(buckets[i], 850, 1150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_attempt_is_made_at_once),
        cmocka_unit_test(the_wait_doubles_up_to_the_most_and_lies_between_half_and_whole),
        cmocka_unit_test(two_clients_do_not_come_back_together),
        cmocka_unit_test(a_success_starts_over),
        cmocka_unit_test(extreme_settings_stay_in_range),
        cmocka_unit_test(the_generator_spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
