/* What text stands for in JSON: times, base64, UTF-8. */
#include "codec/base64.h"
#include "codec/moment.h"
#include "codec/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void times_are_read_with_any_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1985-04-12T23:20:50.52Z", 482196050520},
        {"1996-12-19T16:39:57-08:00", 851042397000},
        {"1996-12-20T00:39:57z", 851042397000},
        {"1937-01-01T12:00:27.87+00:20", -1041337172130},
        {"1990-12-31T23:59:60Z", 662687999999},
        {"2000-02-29T00:00:00+23:59", 951696060000},
        {"2026-11-30 17:45:00.1234567Z", 1796060700123},
        {"0000-01-01T00:00:00Z", -62167219200000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
        {"1969-12-31T23:59:59.999Z", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ms = 0;
        if (!moment_parse(coney_bytes_str(rows[i].text), &ms) || ms != rows[i].ms)
            fail_msg("%s became %lld", rows[i].text, (long long)ms);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "2026-11-30",
        "2026-11-30T17:45Z",
        "2026-11-30T17:45:00",
        "2026-11-30T17:45:00.Z",
        "2026-11-30T17:45:00Zx",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T17:60:00Z",
        "2026-11-30T17:45:61Z",
        "2026-11-30T17:45:00+24:00",
        "2026-11-30T17:45:00+1:00",
        "-026-11-30T17:45:00Z",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-11-30T17:45:00+01",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ms;
        if (moment_parse(coney_bytes_str(rows[i]), &ms))
            fail_msg("%s", rows[i]);
    }
}

static void times_are_written_in_utc_and_read_back(void **state)
{
    (void)state;
    char buf[MOMENT_MAX];
    for (int64_t ms = -62167219200000; ms <= 253402300799999; ms += 7919000001007) {
        int64_t back = 0;
        size_t len = moment_print(ms, buf);
        assert_int_equal(len, strlen(buf));
        assert_true(moment_parse(coney_bytes_of(buf, len), &back));
        assert_true(back == ms);
    }
    assert_int_equal(moment_print(-1, buf), 24);
    assert_string_equal(buf, "1969-12-31T23:59:59.999Z");
    assert_int_equal(moment_print(951782400000, buf), 20);
    assert_string_equal(buf, "2000-02-29T00:00:00Z");
    assert_int_equal(moment_print(253402300800000, buf), 0);
    assert_int_equal(moment_print(-62167219200001, buf), 0);
    assert_int_equal(moment_print(INT64_MIN, buf), 0);
}

static void base64_is_that_of_the_rfc(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xff\xfe", "+//+"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_bytes bytes = coney_bytes_str(rows[i][0]);
        char text[16];
        uint8_t back[16];
        base64_write(text, bytes);
        assert_int_equal(base64_size(bytes.len), strlen(rows[i][1]));
        assert_memory_equal(text, rows[i][1], base64_size(bytes.len));
        assert_int_equal(base64_read(back, coney_bytes_str(rows[i][1])), bytes.len);
        assert_memory_equal(back, bytes.data, bytes.len);
    }
    static const char *const broken[] = {
        "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm9v\n", "Zm-_", "Zg==Zg==", "Z=g="};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        uint8_t back[16];
        if (base64_read(back, coney_bytes_str(broken[i])) != SIZE_MAX)
            fail_msg("%s", broken[i]);
    }
}

/* In memory of the exact size, at every distance from a step of eight. */
static bool valid_after(size_t before, coney_bytes bytes)
{
    uint8_t *memory = malloc(before + bytes.len);
    assert_non_null(memory);
    memset(memory, 'x', before);
    memcpy(memory + before, bytes.data, bytes.len);
    bool valid = utf8_valid(coney_bytes_of(memory, before + bytes.len));
    free(memory);
    return valid;
}

static void utf8_is_the_shortest_form_of_characters_only(void **state)
{
    (void)state;
    const struct {
        coney_bytes bytes;
        bool valid;
    } rows[] = {
        {CONEY_STR("a"), true},
        {CONEY_STR("\0"), true},
        {CONEY_STR("\xc2\x80"), true},
        {CONEY_STR("\xdf\xbf"), true},
        {CONEY_STR("\xe0\xa0\x80"), true},
        {CONEY_STR("\xed\x9f\xbf"), true},
        {CONEY_STR("\xee\x80\x80"), true},
        {CONEY_STR("\xf0\x90\x80\x80"), true},
        {CONEY_STR("\xf4\x8f\xbf\xbf"), true},
        {CONEY_STR("\x80"), false},
        {CONEY_STR("\xc0\x80"), false},
        {CONEY_STR("\xc1\xbf"), false},
        {CONEY_STR("\xc3"), false},
        {CONEY_STR("\xc3("), false},
        {CONEY_STR("\xe0\x9f\xbf"), false},
        {CONEY_STR("\xed\xa0\x80"), false},
        {CONEY_STR("\xe2\x82"), false},
        {CONEY_STR("\xf0\x8f\xbf\xbf"), false},
        {CONEY_STR("\xf4\x90\x80\x80"), false},
        {CONEY_STR("\xf5\x80\x80\x80"), false},
        {CONEY_STR("\xf0\x90\x80("), false},
        {CONEY_STR("\xff"), false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t before = 0; before < 20; before++)
            if (valid_after(before, rows[i].bytes) != rows[i].valid)
                fail_msg("row %zu after %zu bytes", i, before);
    assert_true(utf8_valid(coney_bytes_of(NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read_with_any_offset),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(times_are_written_in_utc_and_read_back),
        cmocka_unit_test(base64_is_that_of_the_rfc),
        cmocka_unit_test(utf8_is_the_shortest_form_of_characters_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
