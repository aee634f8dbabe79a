#define _GNU_SOURCE
#include "help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 8 };

/* What may stand where the last word of `line` stands; a space at its end begins a new word. One space between words. */
static char *completed(const char *line)
{
    static char text[256];
    char *words[WORDS];
    int count = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *rest = text; rest != NULL && count < WORDS;)
        words[count++] = strsep(&rest, " ");
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    help_complete(stream, words, count);
    fclose(stream);
    return out;
}

static void assert_completed(const char *line, const char *expected)
{
    char *out = completed(line);
    assert_string_equal(out, expected);
    free(out);
}

static void commands_complete_word_by_word(void **state)
{
    (void)state;
    assert_completed("", "help\nlatency\nperf\nstream\n");
    assert_completed("l", "latency\n");
    assert_completed("s", "stream\n");
    assert_completed("stream ", "create\ndelete\nstats\nmetadata\npublish\nconsume\n");
    assert_completed("stream c", "create\nconsume\n");
    assert_completed("perf ", "stream\n");
    assert_completed("nothing ", "");
    assert_completed("stream nothing ", "");
}

static void help_completes_the_commands(void **state)
{
    (void)state;
    assert_completed("help ", "latency\nperf\nstream\n");
    assert_completed("help stream s", "stats\n");
}

static void options_complete_after_the_command(void **state)
{
    (void)state;
    assert_completed("latency --pe", "--period\n");
    assert_completed("latency -", "--messages\n--period\n--report\n--duration\n--stream\n--json\n--uri\n--verbose\n--help\n");
    assert_completed("stream delete name --", "--if-exists\n--uri\n--verbose\n--help\n");
    assert_completed("stream delete ", "");
}

static void values_complete_where_they_are_words(void **state)
{
    (void)state;
    assert_completed("perf stream --send ", "one\nbatch\nwait\n");
    assert_completed("perf stream --send b", "batch\n");
    assert_completed("stream consume s --from ", "first\nlast\nnext\n");
    assert_completed("stream publish s --file ", "");
    assert_completed("latency --json --p", "--period\n");
}

static void help_names_every_option_and_its_default(void **state)
{
    (void)state;
    for (const struct command *c = commands; c->name != NULL; c++) {
        char *out = NULL;
        size_t size;
        FILE *stream = open_memstream(&out, &size);
        help_command(stream, c);
        fclose(stream);
        assert_non_null(strstr(out, c->name));
        for (const struct option *o = c->options; o->name != NULL; o++) {
            char written[64];
            snprintf(written, sizeof written, "--%s", o->name);
            assert_non_null(strstr(out, written));
            snprintf(written, sizeof written, "[%s]", o->fallback != NULL ? o->fallback : "");
            assert_true(o->fallback == NULL || strstr(out, written) != NULL);
        }
        free(out);
    }
}

static void the_overview_names_every_command_or_those_of_a_group(void **state)
{
    (void)state;
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    help_overview(stream, NULL);
    fflush(stream);
    for (const struct command *c = commands; c->name != NULL; c++)
        assert_non_null(strstr(out, c->name));
    rewind(stream);
    help_overview(stream, "perf");
    fclose(stream);
    out[size] = '\0';
    assert_non_null(strstr(out, "perf stream"));
    assert_null(strstr(out, "  latency"));
    free(out);
    assert_true(help_is_group("stream"));
    assert_false(help_is_group("str"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_complete_word_by_word),
        cmocka_unit_test(help_completes_the_commands),
        cmocka_unit_test(options_complete_after_the_command),
        cmocka_unit_test(values_complete_where_they_are_words),
        cmocka_unit_test(help_names_every_option_and_its_default),
        cmocka_unit_test(the_overview_names_every_command_or_those_of_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
