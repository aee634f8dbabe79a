#define _GNU_SOURCE
#include "units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static void a_size_takes_decimal_and_binary_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {{"0", 0},           {"200", 200},           {"200B", 200},       {"10KB", 10000},
                 {"10kib", 10240},   {"1.5KB", 1500},        {"5GB", 5000000000}, {"2GiB", 2 * CONEY_GIB},
                 {"0.5MiB", 524288}, {"1TB", 1000000000000}, {"500mb", 500000000}};
    for (size_t i = 0; i < LENGTH(cases); i++) {
        int64_t bytes = -1;
        assert_null(units_size(cases[i].text, &bytes));
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void a_duration_needs_its_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {{"500ms", 500 * CONEY_MILLISECOND},
                 {"5s", 5 * CONEY_SECOND},
                 {"1.5s", 1500 * CONEY_MILLISECOND},
                 {"5m", 300 * CONEY_SECOND},
                 {"2h", 7200 * CONEY_SECOND},
                 {"7d", 604800 * CONEY_SECOND},
                 {"20us", 20000},
                 {"0s", 0}};
    int64_t ns = -1;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_null(units_duration(cases[i].text, &ns));
        assert_int_equal(ns, cases[i].ns);
    }
    assert_non_null(strstr(units_duration("5", &ns), "unit"));
}

static void a_number_that_is_none_is_refused_and_nothing_is_written(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "", "-1", "+1", "x", "1x", "1 KB", "KB", ".5s", "99999999999999999999", "9223372036854775807TB"};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        int64_t out = 42;
        assert_non_null(units_size(wrong[i], &out));
        assert_non_null(units_duration(wrong[i], &out));
        assert_non_null(units_count(wrong[i], &out));
        assert_int_equal(out, 42);
    }
}

static void a_fraction_of_the_largest_number_does_not_overflow(void **state)
{
    (void)state;
    int64_t out = 42;
    assert_non_null(units_duration("106751.99999999999d", &out));
    assert_int_equal(out, 42);
}

static void a_duration_of_more_than_a_hundred_years_is_refused(void **state)
{
    (void)state;
    int64_t out = 42;
    assert_non_null(strstr(units_duration("36501d", &out), "years"));
    assert_int_equal(out, 42);
    assert_null(units_duration("36500d", &out));
    assert_int_equal(out, 36500 * (86400 * CONEY_SECOND));
}

static void a_place_is_a_word_an_offset_or_a_time(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        coney_stream_start start;
        uint64_t offset;
        int64_t time;
    } cases[] = {
        {"first", CONEY_STREAM_FIRST, 0, 0},
        {"last", CONEY_STREAM_LAST, 0, 0},
        {"next", CONEY_STREAM_NEXT, 0, 0},
        {"0", CONEY_STREAM_OFFSET, 0, 0},
        {"123456789012", CONEY_STREAM_OFFSET, 123456789012, 0},
        {"1970-01-01T00:00:00Z", CONEY_STREAM_TIMESTAMP, 0, 0},
        {"2026-01-01T00:00:00Z", CONEY_STREAM_TIMESTAMP, 0, 1767225600000},
        {"2026-01-01T01:00:00.25+01:00", CONEY_STREAM_TIMESTAMP, 0, 1767225600250},
        {"2025-12-31T18:30:00-05:30", CONEY_STREAM_TIMESTAMP, 0, 1767225600000},
        {"@1767225600000", CONEY_STREAM_TIMESTAMP, 0, 1767225600000},
        {"@-5", CONEY_STREAM_TIMESTAMP, 0, -5},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct place place;
        assert_null(units_place(cases[i].text, &place));
        assert_int_equal(place.start, cases[i].start);
        assert_int_equal(place.offset, cases[i].offset);
        assert_int_equal(place.time, cases[i].time);
    }
}

static void a_place_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "First",
                                        "-1",
                                        "@",
                                        "@x",
                                        "@--5",
                                        "2026-01-01",
                                        "2026-01-01T00:00:00",
                                        "2026-02-30T00:00:00Z",
                                        "2026-13-01T00:00:00Z",
                                        "2026-01-01 00:00:00Z",
                                        "2026-01-01T00:00:00.Z",
                                        "2026-01-01T00:00:00+25:00",
                                        "2026-01-01T00:00:00Zx"};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        struct place place = {.offset = 42};
        if (units_place(wrong[i], &place) == NULL)
            fail_msg("'%s' was taken for a place", wrong[i]);
        assert_int_equal(place.offset, 42);
    }
}

static void a_time_is_written_with_milliseconds_and_read_back(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "1970-01-01T00:00:00.000Z"},
                 {1767225600250, "2026-01-01T00:00:00.250Z"},
                 {-1, "1969-12-31T23:59:59.999Z"},
                 {INT64_MAX, "@9223372036854775807"},
                 {INT64_MIN, "@-9223372036854775808"}};
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char text[UNITS_TIME_SIZE];
        assert_string_equal(units_time(cases[i].ms, text), cases[i].text);
        struct place place;
        if (cases[i].ms != INT64_MIN) {
            assert_null(units_place(text, &place));
            assert_int_equal(place.time, cases[i].ms);
        }
    }
}

static void assert_field(const char *text, const char *key, coney_value value)
{
    coney_field field;
    assert_null(units_field(text, &field));
    assert_int_equal(field.key.len, strlen(key));
    assert_memory_equal(field.key.data, key, strlen(key));
    assert_int_equal(field.value.type, value.type);
    if (value.type == CONEY_VALUE_I64)
        assert_int_equal(field.value.as.i64, value.as.i64);
    if (value.type == CONEY_VALUE_BOOL)
        assert_int_equal(field.value.as.boolean, value.as.boolean);
    if (value.type != CONEY_VALUE_STRING)
        return;
    assert_int_equal(field.value.as.bytes.len, value.as.bytes.len);
    assert_memory_equal(field.value.as.bytes.data, value.as.bytes.data, value.as.bytes.len);
}

static void a_field_s_value_is_a_number_a_truth_or_text(void **state)
{
    (void)state;
    assert_field("region=eu", "region", coney_value_string(CONEY_STR("eu")));
    assert_field("a=b=c", "a", coney_value_string(CONEY_STR("b=c")));
    assert_field("try=-3", "try", coney_value_i64(-3));
    assert_field("try=\"3\"", "try", coney_value_string(CONEY_STR("3")));
    assert_field("on=true", "on", coney_value_bool(true));
    assert_field("on=false", "on", coney_value_bool(false));
    assert_field("x=1.5", "x", coney_value_string(CONEY_STR("1.5")));
    assert_field("x=", "x", coney_value_string(CONEY_STR("")));
    assert_field("x=\"", "x", coney_value_string(CONEY_STR("\"")));
    assert_field("x=99999999999999999999", "x", coney_value_string(CONEY_STR("99999999999999999999")));
    coney_field field;
    assert_non_null(units_field("region", &field));
    assert_non_null(units_field("=eu", &field));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_size_takes_decimal_and_binary_units),
        cmocka_unit_test(a_duration_needs_its_unit),
        cmocka_unit_test(a_number_that_is_none_is_refused_and_nothing_is_written),
        cmocka_unit_test(a_fraction_of_the_largest_number_does_not_overflow),
        cmocka_unit_test(a_duration_of_more_than_a_hundred_years_is_refused),
        cmocka_unit_test(a_place_is_a_word_an_offset_or_a_time),
        cmocka_unit_test(a_place_that_is_none_is_refused),
        cmocka_unit_test(a_time_is_written_with_milliseconds_and_read_back),
        cmocka_unit_test(a_field_s_value_is_a_number_a_truth_or_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
