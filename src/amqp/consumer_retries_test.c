#include "amqp/consumer_retries.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_earliest_comes_first_and_none_before_its_time(void **state)
{
    (void)state;
    struct retries r = {0};
    uint64_t random = 7;
    for (uint64_t i = 0; i < 1000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t due = random >> 50;
        assert_true(retries_add(&r, (int64_t)due, due));
    }
    uint64_t last = 0;
    uint64_t number;
    for (size_t i = 0; i < 1000; i++) {
        int64_t next = retries_next(&r);
        assert_false(retries_take(&r, next - 1, &number));
        assert_true(retries_take(&r, next, &number));
        assert_int_equal(number, next);
        assert_true(number >= last);
        last = number;
    }
    assert_false(retries_take(&r, INT64_MAX, &number));
    assert_true(retries_next(&r) == INT64_MAX);
    retries_free(&r);
}

static void what_goes_in_and_out_in_turn_takes_no_more_memory(void **state)
{
    (void)state;
    struct retries r = {0};
    for (uint64_t i = 0; i < 16; i++)
        assert_true(retries_add(&r, (int64_t)i, i));
    size_t cap = r.cap;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t number;
        assert_true(retries_take(&r, INT64_MAX, &number));
        assert_true(retries_add(&r, (int64_t)(i * 7 % 50), i));
    }
    assert_int_equal(r.cap, cap);
    retries_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_comes_first_and_none_before_its_time),
        cmocka_unit_test(what_goes_in_and_out_in_turn_takes_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
