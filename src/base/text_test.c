/* text_test.c: texts that are cut where a character ends, texts from the wire, the log. */
#include "base/text.h"

#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_text_is_cut_at_the_end_of_a_character(void **state)
{
    (void)state;
    static const char whole[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb0z"; /* a é € rabbit z */
    static const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t cap = 1; cap <= sizeof whole; cap++) {
        char buf[16];
        memset(buf, 'x', sizeof buf);
        text_print(buf, cap, "%s", whole);
        assert_int_equal(strlen(buf), ends[cap - 1]);
        assert_memory_equal(buf, whole, ends[cap - 1]);
        assert_int_equal(buf[cap], 'x');
    }
}

static void bytes_that_are_no_characters_are_cut_anywhere(void **state)
{
    (void)state;
    char buf[5];
    text_print(buf, sizeof buf, "%s", "\x80\x80\x80\x80\x80\x80");
    assert_string_equal(buf, "\x80\x80\x80\x80");
    text_print(buf, 0, "untouched");
    assert_string_equal(buf, "\x80\x80\x80\x80");
}

static void appending_stops_at_the_end_of_the_buffer(void **state)
{
    (void)state;
    char buf[12];
    text_print(buf, sizeof buf, "%s", "one");
    text_append(buf, sizeof buf, ", %d", 2);
    assert_string_equal(buf, "one, 2");
    text_append(buf, sizeof buf, ", and %s", "three");
    assert_string_equal(buf, "one, 2, and");
    text_append(buf, sizeof buf, "!");
    assert_string_equal(buf, "one, 2, and");
}

static void check_wire(const char *bytes, size_t len, size_t cap, const char *expected)
{
    char *copy = malloc(len > 0 ? len : 1); /* of exact size, so that a read past the end is seen */
    memcpy(copy, bytes, len);
    char buf[64];
    text_from_wire(buf, cap, coney_bytes_of(copy, len));
    free(copy);
    assert_string_equal(buf, expected);
}

static void a_text_from_the_wire_shows_nothing_that_a_terminal_obeys(void **state)
{
    (void)state;
    check_wire("plain", 5, 64, "plain");
    check_wire("", 0, 64, "");
    check_wire("a\x1b[31m\n\0b", 9, 64, "a?[31m??b");
    check_wire("\x7f\xc2\x9bx", 4, 64, "??x");
    check_wire("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb0", 9, 64, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb0");
    check_wire("\xff\xc3", 2, 64, "??");
    check_wire("\xe2\x82", 2, 64, "??");
    check_wire("\xc0\xaf\xed\xa0\x80", 5, 64, "?????");
    check_wire("\xe0\x80\x80\xf4\x90\x80\x80\xf0\x80\x80\x80", 11, 64, "???????????");
    check_wire("abc\xc3\xa9", 5, 5, "abc");
    check_wire("abc\xc3\xa9", 5, 6, "abc\xc3\xa9");
    check_wire("abc", 3, 1, "");
}

static void an_errno_has_words(void **state)
{
    (void)state;
    char buf[64];
    text_errno(buf, sizeof buf, ENOENT);
    assert_string_equal(buf, strerror(ENOENT));
}

struct heard {
    int lines;
    coney_log_level level;
    char text[2048];
};

static void hear(void *ctx, coney_log_level level, const char *text)
{
    struct heard *heard = ctx;
    heard->lines++;
    heard->level = level;
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

static void the_log_is_silent_unless_asked_and_keeps_to_its_level(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct log silent = {0};
    log_line(&silent, CONEY_LOG_ERROR, "nobody hears %d", 1);
    struct log log = {.fn = hear, .ctx = &heard, .level = CONEY_LOG_WARNING};
    log_line(&log, CONEY_LOG_INFO, "too talkative");
    assert_int_equal(heard.lines, 0);
    log_line(&log, CONEY_LOG_WARNING, "%s %d", "heard", 1);
    assert_int_equal(heard.lines, 1);
    assert_int_equal(heard.level, CONEY_LOG_WARNING);
    assert_string_equal(heard.text, "heard 1");
    log_line(&log, CONEY_LOG_ERROR, "%1500s", "long");
    assert_int_equal(heard.lines, 2);
    assert_int_equal(strlen(heard.text), 1023);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_cut_at_the_end_of_a_character),
        cmocka_unit_test(bytes_that_are_no_characters_are_cut_anywhere),
        cmocka_unit_test(appending_stops_at_the_end_of_the_buffer),
        cmocka_unit_test(a_text_from_the_wire_shows_nothing_that_a_terminal_obeys),
        cmocka_unit_test(an_errno_has_words),
        cmocka_unit_test(the_log_is_silent_unless_asked_and_keeps_to_its_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
