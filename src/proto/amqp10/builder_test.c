/* builder_test.c: lists and maps written by a user. */
#include "proto/amqp10/hex.h"
#include <coney/value.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A builder's outermost value is written from the start of its memory. */
static void assert_built(const coney_builder *b, const char *text)
{
    coney_bytes expected = hex(text);
    assert_int_equal(b->len, expected.len);
    assert_memory_equal(b->data, expected.data, expected.len);
    hex_free(expected);
}

static void build_nested(coney_builder *b)
{
    coney_builder_begin(b, CONEY_VALUE_MAP);
    coney_builder_put(b, CONEY_STR("n"), coney_value_i64(3));
    coney_builder_put_begin(b, CONEY_STR("l"), CONEY_VALUE_LIST);
    coney_builder_add(b, coney_value_null());
    coney_builder_begin(b, CONEY_VALUE_LIST);
    coney_builder_end(b);
    coney_builder_end(b);
    coney_builder_put_symbol(b, CONEY_STR("s"), coney_value_symbol(CONEY_STR("y")));
    coney_builder_end(b);
}

static void nested_lists_and_maps_are_written_in_their_shortest_form(void **state)
{
    (void)state;
    uint8_t memory[64];
    coney_builder b;
    coney_value map, list, text;
    coney_builder_init(&b, memory, sizeof memory);
    build_nested(&b);
    assert_int_equal(coney_builder_finish(&b, &map), CONEY_OK);
    assert_built(&b, "c1 14 06 a101'n' 5503 a101'l' c0 03 02 40 45 a301's' a301'y'");
    assert_true(coney_value_find(&map, CONEY_STR("l"), &list));
    assert_int_equal(list.count, 2);
    assert_true(coney_value_find(&map, CONEY_STR("s"), &text));
    assert_int_equal(text.type, CONEY_VALUE_SYMBOL);
}

static void an_empty_list_is_one_byte_and_an_empty_map_three(void **state)
{
    (void)state;
    uint8_t memory[16];
    coney_builder b;
    coney_value value;
    coney_builder_init(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &value), CONEY_OK);
    assert_built(&b, "45");
    assert_int_equal(value.type, CONEY_VALUE_LIST);

    coney_builder_init(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &value), CONEY_OK);
    assert_built(&b, "c1 01 00");
    assert_int_equal(value.count, 0);
}

static void a_list_takes_the_long_form_past_255_bytes(void **state)
{
    (void)state;
    uint8_t memory[600];
    coney_builder b;
    coney_value value;
    for (size_t count = 250; count < 260; count++) {
        coney_builder_init(&b, memory, sizeof memory);
        coney_builder_begin(&b, CONEY_VALUE_LIST);
        for (size_t i = 0; i < count; i++)
            coney_builder_add(&b, coney_value_null());
        coney_builder_end(&b);
        assert_int_equal(coney_builder_finish(&b, &value), CONEY_OK);
        assert_int_equal(value.count, count);
        assert_int_equal(memory[0], count <= 254 ? 0xc0 : 0xd0);
        assert_int_equal(b.len, count + (count <= 254 ? 3 : 9));
        assert_int_equal(coney_value_check(&value), CONEY_OK);
    }
}

static void what_does_not_fit_says_what_it_needs_and_then_fits(void **state)
{
    (void)state;
    coney_builder b;
    coney_value map;
    coney_builder_init(&b, NULL, 0);
    build_nested(&b);
    assert_int_equal(coney_builder_finish(&b, &map), CONEY_ETOOBIG);
    assert_int_equal(map.type, CONEY_VALUE_NULL);
    size_t needed = b.needed;
    for (size_t cap = 1; cap <= needed; cap++) {
        uint8_t *memory = malloc(cap);
        assert_non_null(memory);
        coney_builder_init(&b, memory, cap);
        build_nested(&b);
        assert_int_equal(coney_builder_finish(&b, &map), cap < needed ? CONEY_ETOOBIG : CONEY_OK);
        assert_int_equal(b.needed, needed);
        free(memory);
    }
}

static coney_status finish(coney_builder *b)
{
    coney_value value;
    return coney_builder_finish(b, &value);
}

static void misuse_is_refused_at_the_end(void **state)
{
    (void)state;
    uint8_t memory[128];
    coney_builder b;

    coney_builder_init(&b, memory, sizeof memory); /* nothing built */
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* not closed */
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* closed twice */
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_end(&b);
    coney_builder_end(&b);
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* two outermost */
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_end(&b);
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* an element outside */
    coney_builder_add(&b, coney_value_null());
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* a key without a value */
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_add(&b, coney_value_string(CONEY_STR("k")));
    coney_builder_end(&b);
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* an entry where a value is due */
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_add(&b, coney_value_string(CONEY_STR("k")));
    coney_builder_put(&b, CONEY_STR("k"), coney_value_null());
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* an entry in a list */
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_put(&b, CONEY_STR("k"), coney_value_null());
    coney_builder_end(&b);
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* neither list nor map */
    coney_builder_begin(&b, CONEY_VALUE_ARRAY);
    assert_int_equal(finish(&b), CONEY_EINVAL);

    coney_builder_init(&b, memory, sizeof memory); /* a value that does not fit its type */
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_add(&b, coney_value_unsigned(CONEY_VALUE_U8, 256));
    coney_builder_end(&b);
    assert_int_equal(finish(&b), CONEY_EINVAL);
}

static void a_list_past_4_gib_is_too_big(void **state)
{
    (void)state;
    coney_builder b;
    coney_builder_init(&b, NULL, 0); /* measures: the bytes are not looked at */
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_add(&b, coney_value_string(coney_bytes_of("", UINT32_MAX)));
    coney_builder_end(&b);
    assert_int_equal(finish(&b), CONEY_ETOOBIG);
}

static void nesting_ends_at_its_bound(void **state)
{
    (void)state;
    uint8_t memory[512];
    coney_builder b;
    coney_value value;
    for (unsigned depth = CONEY_VALUE_DEPTH; depth <= CONEY_VALUE_DEPTH + 1; depth++) {
        coney_builder_init(&b, memory, sizeof memory);
        for (unsigned i = 0; i < depth; i++)
            coney_builder_begin(&b, CONEY_VALUE_LIST);
        for (unsigned i = 0; i < depth; i++)
            coney_builder_end(&b);
        coney_status status = coney_builder_finish(&b, &value);
        assert_int_equal(status, depth == CONEY_VALUE_DEPTH ? CONEY_OK : CONEY_EINVAL);
    }
}

static void a_compound_value_built_before_can_be_added(void **state)
{
    (void)state;
    uint8_t first[64], second[64];
    coney_builder b;
    coney_value inner, outer;
    coney_builder_init(&b, first, sizeof first);
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_add(&b, coney_value_u32(7));
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &inner), CONEY_OK);

    coney_builder_init(&b, second, sizeof second);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_put(&b, CONEY_STR("k"), inner);
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &outer), CONEY_OK);
    assert_built(&b, "c1 09 02 a1 01 'k' c0 03 01 52 07");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_lists_and_maps_are_written_in_their_shortest_form),
        cmocka_unit_test(an_empty_list_is_one_byte_and_an_empty_map_three),
        cmocka_unit_test(a_list_takes_the_long_form_past_255_bytes),
        cmocka_unit_test(what_does_not_fit_says_what_it_needs_and_then_fits),
        cmocka_unit_test(misuse_is_refused_at_the_end),
        cmocka_unit_test(a_list_past_4_gib_is_too_big),
        cmocka_unit_test(nesting_ends_at_its_bound),
        cmocka_unit_test(a_compound_value_built_before_can_be_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
