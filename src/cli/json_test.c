#define _GNU_SOURCE
#include "json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *written;
static size_t written_size;
static struct json j;

static int open_object(void **state)
{
    (void)state;
    json_begin(&j, open_memstream(&written, &written_size));
    return 0;
}

static int discard(void **state)
{
    (void)state;
    free(written);
    return 0;
}

static void assert_written(const char *expected)
{
    json_close(&j);
    fclose(j.out);
    assert_string_equal(written, expected);
}

static void an_object_is_one_line(void **state)
{
    (void)state;
    json_unsigned(&j, "offset", UINT64_MAX);
    json_signed(&j, "time", INT64_MIN);
    json_decimal(&j, "average_ms", 1.0 / 3);
    json_null(&j, "none");
    json_bool(&j, "summary", true);
    assert_written("{\"offset\":18446744073709551615,\"time\":-9223372036854775808,\"average_ms\":0.333,\"none\":null,"
                   "\"summary\":true}\n");
}

static void an_empty_object_is_empty(void **state)
{
    (void)state;
    assert_written("{}\n");
}

static void arrays_nest(void **state)
{
    (void)state;
    json_array(&j, "replicas");
    for (int i = 0; i < 2; i++) {
        json_array(&j, NULL);
        json_signed(&j, NULL, i);
        json_close(&j);
    }
    json_close(&j);
    json_array(&j, "empty");
    json_close(&j);
    assert_written("{\"replicas\":[[0],[1]],\"empty\":[]}\n");
}

static void text_is_escaped_and_letters_of_all_scripts_stay(void **state)
{
    (void)state;
    json_text(&j, "a", CONEY_STR("\"\\/\b\f\n\r\t\v\0\x7f"));
    json_text(&j, "b", CONEY_STR("\xc3\xbc \xe2\x82\xac \xf0\x9f\x90\x87"));
    assert_written("{\"a\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u000b\\u0000\\u007f\","
                   "\"b\":\"\xc3\xbc \xe2\x82\xac \xf0\x9f\x90\x87\"}\n");
}

static void bytes_that_are_no_utf8_are_replaced_one_by_one(void **state)
{
    (void)state;
    json_text(&j, "a", CONEY_STR("x\xff\xc3z\xed\xa0\x80"));
    assert_written("{\"a\":\"x\\ufffd\\ufffdz\\ufffd\\ufffd\\ufffd\"}\n");
}

static void any_value_has_its_form(void **state)
{
    (void)state;
    uint8_t memory[512];
    coney_builder b;
    coney_builder_init(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_put(&b, CONEY_STR("a\"b"), coney_value_i64(-3));
    coney_builder_put(&b, CONEY_STR("big"), coney_value_u64(UINT64_MAX));
    coney_builder_put(&b, CONEY_STR("pi"), coney_value_f64(0.5));
    coney_builder_put(&b, CONEY_STR("nan"), coney_value_f64(0.0 / 0.0));
    coney_builder_put(&b, CONEY_STR("at"), coney_value_timestamp(1767225600250));
    coney_builder_put(&b, CONEY_STR("bytes"), coney_value_binary(CONEY_STR("\xff")));
    coney_builder_put(&b, CONEY_STR("none"), coney_value_null());
    coney_builder_put_begin(&b, CONEY_STR("list"), CONEY_VALUE_LIST);
    coney_builder_add(&b, coney_value_bool(true));
    coney_builder_add(&b, coney_value_string(CONEY_STR("x")));
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_end(&b);
    coney_builder_end(&b);
    coney_builder_end(&b);
    coney_value map;
    assert_int_equal(coney_builder_finish(&b, &map), CONEY_OK);
    json_value(&j, "headers", &map);
    assert_written("{\"headers\":{\"a\\\"b\":-3,\"big\":18446744073709551615,\"pi\":0.5,\"nan\":null,"
                   "\"at\":\"2026-01-01T00:00:00.250Z\",\"bytes\":\"/w==\",\"none\":null,\"list\":[true,\"x\",{}]}}\n");
}

static void the_deepest_value_fits(void **state)
{
    (void)state;
    uint8_t memory[1024];
    coney_builder b;
    coney_builder_init(&b, memory, sizeof memory);
    for (int i = 0; i < CONEY_VALUE_DEPTH; i++)
        coney_builder_begin(&b, CONEY_VALUE_LIST);
    for (int i = 0; i < CONEY_VALUE_DEPTH; i++)
        coney_builder_end(&b);
    coney_value list;
    assert_int_equal(coney_builder_finish(&b, &list), CONEY_OK);
    json_value(&j, "a", &list);
    assert_written("{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}\n");
}

static void base64_pads_to_four(void **state)
{
    (void)state;
    json_base64(&j, "a", CONEY_STR(""));
    json_base64(&j, "b", CONEY_STR("f"));
    json_base64(&j, "c", CONEY_STR("fo"));
    json_base64(&j, "d", CONEY_STR("foo"));
    json_base64(&j, "e", CONEY_STR("\xff\xfe\xfd\xfc"));
    assert_written("{\"a\":\"\",\"b\":\"Zg==\",\"c\":\"Zm8=\",\"d\":\"Zm9v\",\"e\":\"//79/A==\"}\n");
}

static void utf8_is_told_from_other_bytes(void **state)
{
    (void)state;
    static const coney_bytes text[] = {CONEY_STR_INIT(""), CONEY_STR_INIT("abc\n"), CONEY_STR_INIT("\xc3\xbc"),
                                       CONEY_STR_INIT("\xef\xbf\xbf"), CONEY_STR_INIT("\xf4\x8f\xbf\xbf")};
    static const coney_bytes other[] = {CONEY_STR_INIT("\x80"),
                                        CONEY_STR_INIT("\xc3"),
                                        CONEY_STR_INIT("\xc0\x80"),
                                        CONEY_STR_INIT("\xe0\x9f\xbf"),
                                        CONEY_STR_INIT("\xed\xa0\x80"),
                                        CONEY_STR_INIT("\xf0\x8f\xbf\xbf"),
                                        CONEY_STR_INIT("\xf4\x90\x80\x80"),
                                        CONEY_STR_INIT("\xf8\x88\x80\x80"),
                                        CONEY_STR_INIT("\xe2\x82")};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        assert_true(json_is_text(text[i]));
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        assert_false(json_is_text(other[i]));
    assert_written("{}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_object_is_one_line, open_object, discard),
        cmocka_unit_test_setup_teardown(an_empty_object_is_empty, open_object, discard),
        cmocka_unit_test_setup_teardown(arrays_nest, open_object, discard),
        cmocka_unit_test_setup_teardown(text_is_escaped_and_letters_of_all_scripts_stay, open_object, discard),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_utf8_are_replaced_one_by_one, open_object, discard),
        cmocka_unit_test_setup_teardown(any_value_has_its_form, open_object, discard),
        cmocka_unit_test_setup_teardown(the_deepest_value_fits, open_object, discard),
        cmocka_unit_test_setup_teardown(base64_pads_to_four, open_object, discard),
        cmocka_unit_test_setup_teardown(utf8_is_told_from_other_bytes, open_object, discard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
