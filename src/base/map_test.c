/* map_test.c: the map against a plain array that says what must be in it. */
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void an_empty_map_has_nothing(void **state)
{
    (void)state;
    struct map map = {0};
    assert_null(map_get(&map, 1));
    assert_null(map_take(&map, 1));
    map_free(&map);
}

static void a_key_is_replaced_not_doubled(void **state)
{
    (void)state;
    struct map map = {0};
    int a;
    int b;
    assert_true(map_put(&map, 0, &a));
    assert_true(map_put(&map, UINT64_MAX, &a));
    assert_true(map_put(&map, 0, &b));
    assert_int_equal(map.count, 2);
    assert_ptr_equal(map_get(&map, 0), &b);
    assert_ptr_equal(map_take(&map, 0), &b);
    assert_null(map_get(&map, 0));
    assert_ptr_equal(map_get(&map, UINT64_MAX), &a);
    map_free(&map);
    assert_null(map_get(&map, UINT64_MAX));
}

/* Keys that differ in high bits only, or follow each other, or lie a power of two apart. */
static uint64_t key_of(unsigned number, int kind)
{
    static const int shifts[] = {0, 4, 16, 40};
    return (uint64_t)number << shifts[kind];
}

static void puts_and_takes_at_random_keep_what_must_be_there(void **state)
{
    (void)state;
    enum { KEYS = 500 };
    for (int kind = 0; kind < 4; kind++) {
        struct map map = {0};
        static int values[KEYS];
        bool present[KEYS] = {false};
        size_t count = 0;
        unsigned seed = 1;
        for (int i = 0; i < 20000; i++) {
            unsigned number = (unsigned)rand_r(&seed) % KEYS;
            uint64_t key = key_of(number, kind);
            if (rand_r(&seed) % 2 == 0) {
                assert_true(map_put(&map, key, &values[number]));
                count += !present[number];
                present[number] = true;
            } else {
                assert_ptr_equal(map_take(&map, key), present[number] ? &values[number] : NULL);
                count -= present[number];
                present[number] = false;
            }
            assert_int_equal(map.count, count);
        }
        for (unsigned number = 0; number < KEYS; number++)
            assert_ptr_equal(map_get(&map, key_of(number, kind)), present[number] ? &values[number] : NULL);
        map_free(&map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(a_key_is_replaced_not_doubled),
        cmocka_unit_test(puts_and_takes_at_random_keep_what_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
