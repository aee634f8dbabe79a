/* log_test.c: lines of a log on standard error. */
#define _GNU_SOURCE
#include <coney/service.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* What coney_log_stderr writes for a text, into `line`. */
static void log_into(char *line, size_t cap, coney_log_level level, const char *text)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    coney_log_stderr(NULL, level, text);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    size_t len = fread(line, 1, cap - 1, file);
    line[len] = '\0';
    fclose(file);
}

static void a_line_has_time_level_and_message(void **state)
{
    (void)state;
    char line[1024];
    log_into(line, sizeof line, CONEY_LOG_WARNING, "the queue is gone");
    int year, month, day, hour, minute, second, millisecond, end = 0;
    assert_int_equal(
        sscanf(line, "time=%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour, &minute, &second, &millisecond, &end),
        7);
    assert_true(year >= 2024 && month <= 12 && day <= 31);
    assert_string_equal(line + end, " level=warning msg=\"the queue is gone\"\n");
}

static void what_would_break_a_line_is_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *shown;
    } rows[] = {
        {"a \"quoted\" word", "a \\\"quoted\\\" word"},
        {"C:\\temp", "C:\\\\temp"},
        {"two\nlines\r\t", "two\\nlines\\x0d\\x09"},
        {"\x1b[31mred\x7f", "\\x1b[31mred\\x7f"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"", ""},
        {NULL, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[1024], expected[256];
        log_into(line, sizeof line, CONEY_LOG_INFO, rows[i].text);
        snprintf(expected, sizeof expected, "level=info msg=\"%s\"\n", rows[i].shown);
        assert_string_equal(strstr(line, "level="), expected);
    }
}

static void a_very_long_text_is_cut_and_still_a_line(void **state)
{
    (void)state;
    static char text[10000], line[10000];
    memset(text, '\n', sizeof text - 1);
    log_into(line, sizeof line, CONEY_LOG_ERROR, text);
    size_t len = strlen(line);
    assert_in_range(len, 1000, 4096);
    assert_string_equal(line + len - 2, "\"\n");
    assert_ptr_equal(strchr(line, '\n'), line + len - 1);
}

static void the_environment_says_the_level(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int level;
    } rows[] = {{"error", CONEY_LOG_ERROR},
                {"warning", CONEY_LOG_WARNING},
                {"info", CONEY_LOG_INFO},
                {"debug", CONEY_LOG_DEBUG},
                {"off", 0},
                {"loud", CONEY_LOG_WARNING}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("CONEY_LOG", rows[i].text, 1);
        assert_int_equal(coney_log_level_of_env(CONEY_LOG_WARNING), rows[i].level);
    }
    unsetenv("CONEY_LOG");
    assert_int_equal(coney_log_level_of_env(CONEY_LOG_DEBUG), CONEY_LOG_DEBUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_and_message),
        cmocka_unit_test(what_would_break_a_line_is_escaped),
        cmocka_unit_test(a_very_long_text_is_cut_and_still_a_line),
        cmocka_unit_test(the_environment_says_the_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
