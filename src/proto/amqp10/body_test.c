/* body_test.c: the fast and the slow way to a body. */
#include "proto/amqp10/body.h"
#include "proto/amqp10/data.h"
#include "proto/amqp10/hex.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_body_of_any_size_is_written_as_one_data_section_and_found_again(void **state)
{
    (void)state;
    const size_t lengths[] = {0, 1, 200, 255, 256, 70000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t size = amqp10_data_size(lengths[i]);
        uint8_t *body = calloc(lengths[i] + 1, 1), *entry = malloc(size);
        assert_non_null(body);
        assert_non_null(entry);
        coney_bytes found = {0};
        assert_int_equal(size, lengths[i] + (lengths[i] < 256 ? 5 : 8));
        assert_ptr_equal(amqp10_data_write(entry, coney_bytes_of(body, lengths[i])), entry + size);

        assert_true(amqp10_data_only(coney_bytes_of(entry, size), &found));
        assert_ptr_equal(found.data, entry + size - lengths[i]);
        assert_int_equal(found.len, lengths[i]);
        assert_int_equal(amqp10_body_find(coney_bytes_of(entry, size), &found), CONEY_BODY_DATA);
        assert_ptr_equal(found.data, entry + size - lengths[i]);
        assert_int_equal(found.len, lengths[i]);
        free(body);
        free(entry);
    }
}

static void anything_but_exactly_one_data_section_is_left_to_the_slow_path(void **state)
{
    (void)state;
    const char *const cases[] = {
        "",
        "00 53 75 a0",
        "00 53 75 a0 01",
        "00 53 75 a0 01 61 62",
        "00 53 75 a0 01 61 00 53 75 a0 01 62",
        "00 53 75 b0 00 00 00",
        "00 53 75 b0 00 00 00 01",
        "00 53 75 b0 00 00 00 00 61",
        "00 53 77 a0 01 61",
        "00 80 0000000000000075 a0 01 61",
        "'hello'",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coney_bytes entry = hex(cases[i]), body = {0};
        assert_false(amqp10_data_only(entry, &body));
        assert_null(body.data);
        hex_free(entry);
    }
}

static void the_body_is_found_behind_and_before_other_sections(void **state)
{
    (void)state;
    const struct {
        const char *entry;
        coney_body_kind kind;
        size_t at, len;
    } cases[] = {
        {"", CONEY_BODY_NONE, 0, 0},
        {"00 53 73 c0 01 00", CONEY_BODY_NONE, 0, 0},
        {"00 53 74 c1 05 02 a10161 41 00 53 75 a0 01 'x'", CONEY_BODY_DATA, 15, 1},
        {"00 53 75 a0 01 'x' 00 53 78 c1 01 00", CONEY_BODY_DATA, 5, 1},
        {"00 80 0000000000000075 a0 01 'x'", CONEY_BODY_DATA, 12, 1},
        {"00 a3 10 'amqp:data:binary' a0 01 'x'", CONEY_BODY_DATA, 21, 1},
        {"00 53 75 b0 00000001 'x'", CONEY_BODY_DATA, 8, 1},
        {"00 53 70 45 00 53 75 a0 01 'x' 00 53 75 a0 01 'y' 00 53 78 c1 01 00", CONEY_BODY_PARTS, 4, 12},
        {"00 53 77 a1 01 41", CONEY_BODY_VALUE, 3, 3},
        {"00 53 77 40", CONEY_BODY_VALUE, 3, 1},
        {"00 53 76 c0 03 01 a1 00 00 53 76 45", CONEY_BODY_SEQUENCE, 0, 12},
        {"'hello'", CONEY_BODY_UNREADABLE, 0, 5},
        {"00 53 75 a0 02 'x'", CONEY_BODY_UNREADABLE, 0, 6},
        {"00 53 75 a0 01 'x' 00", CONEY_BODY_UNREADABLE, 0, 7},
        {"00 53 75 a1 01 'x'", CONEY_BODY_UNREADABLE, 0, 6},
        {"00 53 75 a0 01 'x' 00 53 77 40", CONEY_BODY_UNREADABLE, 0, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coney_bytes entry = hex(cases[i].entry), body;
        coney_body_kind kind = amqp10_body_find(entry, &body);
        if (kind != cases[i].kind || body.len != cases[i].len)
            fail_msg("%s: kind %d, %zu bytes", cases[i].entry, (int)kind, body.len);
        if (body.len > 0)
            assert_ptr_equal(body.data, (const uint8_t *)entry.data + cases[i].at);
        hex_free(entry);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_of_any_size_is_written_as_one_data_section_and_found_again),
        cmocka_unit_test(anything_but_exactly_one_data_section_is_left_to_the_slow_path),
        cmocka_unit_test(the_body_is_found_behind_and_before_other_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
