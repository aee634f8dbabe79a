#define _GNU_SOURCE
#include "help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 8 };

#define COMMON "--uri\n--cacert\n--cert\n--key\n--pkcs12\n--server-name\n--insecure\n--verbose\n--help\n"

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
    assert_completed("", "help\nlatency\nperf\nstream\namqp\n");
    assert_completed("l", "latency\n");
    assert_completed("s", "stream\n");
    assert_completed("stream ", "create\ndelete\nstats\nmetadata\npublish\nconsume\n");
    assert_completed("stream c", "create\nconsume\n");
    assert_completed("perf ", "stream\namqp\n");
    assert_completed("amqp de", "declare\ndelete\n");
    assert_completed("amqp declare ", "queue\nexchange\n");
    assert_completed("amqp declare nothing ", "");
    assert_completed("nothing ", "");
    assert_completed("stream nothing ", "");
}

static void help_completes_the_commands(void **state)
{
    (void)state;
    assert_completed("help ", "latency\nperf\nstream\namqp\n");
    assert_completed("help stream s", "stats\n");
}

static void options_complete_after_the_command(void **state)
{
    (void)state;
    assert_completed("latency --pe", "--period\n");
    assert_completed("latency -",
                     "--messages\n--period\n--report\n--duration\n--stream\n--queue\n--queue-type\n--json\n" COMMON);
    assert_completed("stream delete name --", "--if-exists\n" COMMON);
    assert_completed("stream delete ", "");
}

static void values_complete_where_they_are_words(void **state)
{
    (void)state;
    assert_completed("perf stream --send ", "one\nbatch\nwait\n");
    assert_completed("perf stream --send b", "batch\n");
    assert_completed("perf amqp --ack ", "run\nsingle\nnone\n");
    assert_completed("amqp consume q --ack --re", "--reject\n--requeue\n");
    assert_completed("stream consume s --from ", "first\nlast\nnext\n");
    assert_completed("stream publish s --file ", "");
    assert_completed("latency --json --pe", "--period\n");
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
    help_overview(stream, NULL, 0);
    fflush(stream);
    for (const struct command *c = commands; c->name != NULL; c++)
        assert_non_null(strstr(out, c->name));
    rewind(stream);
    char *perf[] = {(char[]){"perf"}};
    help_overview(stream, perf, 1);
    fclose(stream);
    out[size] = '\0';
    assert_non_null(strstr(out, "perf stream"));
    assert_null(strstr(out, "  latency"));
    free(out);
}

static void words_that_begin_a_command_are_known(void **state)
{
    (void)state;
    char *words[] = {(char[]){"amqp"}, (char[]){"declare"}, (char[]){"queues"}};
    assert_int_equal(help_known(words, 3), 2);
    assert_int_equal(help_known(words, 1), 1);
    assert_int_equal(help_known(words + 1, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_complete_word_by_word),
        cmocka_unit_test(help_completes_the_commands),
        cmocka_unit_test(options_complete_after_the_command),
        cmocka_unit_test(values_complete_where_they_are_words),
        cmocka_unit_test(help_names_every_option_and_its_default),
        cmocka_unit_test(words_that_begin_a_command_are_known),
        cmocka_unit_test(the_overview_names_every_command_or_those_of_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
