#define _GNU_SOURCE
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 16 };

static struct settings settings;
static char error[256];

/* A command line, split at spaces. */
static bool parse(const char *line)
{
    static char text[256];
    char *words[WORDS];
    int count = 0, used = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word != NULL && count < WORDS; word = strtok(NULL, " "))
        words[count++] = word;
    const struct command *command = command_find(words, count, &used);
    assert_non_null(command);
    error[0] = '\0';
    return options_parse(command, words + used, count - used, &settings, error, sizeof error);
}

static void assert_refused(const char *line, const char *part)
{
    if (parse(line))
        fail_msg("'%s' was accepted", line);
    if (strstr(error, part) == NULL)
        fail_msg("'%s': '%s' was expected in '%s'", line, part, error);
}

static int no_uri(void **state)
{
    (void)state;
    return unsetenv("CONEY_URI");
}

static void what_is_not_said_has_its_default(void **state)
{
    (void)state;
    assert_true(parse("latency"));
    assert_int_equal(settings.messages, 50);
    assert_int_equal(settings.period, CONEY_SECOND);
    assert_int_equal(settings.report, 60 * CONEY_SECOND);
    assert_int_equal(settings.duration, 300 * CONEY_SECOND);
    assert_null(settings.stream);
    assert_false(settings.json);
    assert_string_equal(settings.uri, "rabbitmq-stream://localhost");
}

static void values_stand_after_a_space_or_an_equals_sign(void **state)
{
    (void)state;
    assert_true(parse("latency --messages 7 --period=10ms --json -v --stream s"));
    assert_int_equal(settings.messages, 7);
    assert_int_equal(settings.period, 10 * CONEY_MILLISECOND);
    assert_true(settings.json);
    assert_true(settings.verbose);
    assert_string_equal(settings.stream, "s");
}

static void the_last_of_repeated_options_counts(void **state)
{
    (void)state;
    assert_true(parse("perf stream --size 1KB --size 2KiB --send batch"));
    assert_int_equal(settings.size, 2048);
    assert_int_equal(settings.send, SEND_BATCH);
}

static void a_place_is_read_into_its_parts(void **state)
{
    (void)state;
    assert_true(parse("stream consume s --from 2026-01-01T00:00:00Z"));
    assert_int_equal(settings.from.start, CONEY_STREAM_TIMESTAMP);
    assert_int_equal(settings.from.time, 1767225600000);
    assert_true(parse("stream consume s"));
    assert_int_equal(settings.from.start, CONEY_STREAM_NEXT);
}

static void the_environment_names_the_broker_unless_the_command_does(void **state)
{
    (void)state;
    setenv("CONEY_URI", "rabbitmq-stream://there", 1);
    assert_true(parse("stream stats s"));
    assert_string_equal(settings.uri, "rabbitmq-stream://there");
    assert_true(parse("stream stats s --uri rabbitmq-stream://here"));
    assert_string_equal(settings.uri, "rabbitmq-stream://here");
    setenv("CONEY_URI", "", 1);
    assert_true(parse("stream stats s"));
    assert_string_equal(settings.uri, "rabbitmq-stream://localhost");
}

static void an_operand_may_stand_anywhere_and_begin_with_a_dash_after_two(void **state)
{
    (void)state;
    assert_true(parse("stream delete --if-exists name"));
    assert_string_equal(settings.stream, "name");
    assert_true(settings.if_exists);
    assert_true(parse("stream delete name --if-exists"));
    assert_string_equal(settings.stream, "name");
    assert_true(parse("stream delete -- --name"));
    assert_string_equal(settings.stream, "--name");
}

static void a_wrong_word_is_named(void **state)
{
    (void)state;
    assert_refused("latency --mesages 7", "'--mesages'");
    assert_refused("latency -x", "'-x'");
    assert_refused("latency --messages", "needs a value");
    assert_refused("latency --messages many", "--messages 'many': a whole number");
    assert_refused("latency --messages 0", "too small");
    assert_refused("latency --messages 99999999999", "too large");
    assert_refused("latency --period 5", "unit");
    assert_refused("latency --json=yes", "takes no value");
    assert_refused("latency --stream=", "empty");
    assert_refused("latency s", "one word too many");
    assert_refused("perf stream --send slowly", "one of one, batch, wait");
    assert_refused("perf stream --from here", "--from 'here'");
    assert_refused("stream stats", "STREAM is missing");
    assert_refused("stream stats a b", "'b'");
    assert_refused("stream create a --segment 4GB", "too large");
}

static void help_needs_nothing_else(void **state)
{
    (void)state;
    assert_true(parse("stream publish --help"));
    assert_true(settings.help);
    assert_true(parse("latency -vh"));
    assert_true(settings.help && settings.verbose);
}

static void every_default_of_the_table_is_valid(void **state)
{
    (void)state;
    for (const struct command *c = commands; c->name != NULL; c++) {
        char operand[] = "s";
        char *words[] = {operand};
        if (!options_parse(c, words, c->operand != NULL, &settings, error, sizeof error))
            fail_msg("%s: %s", c->name, error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_not_said_has_its_default, no_uri),
        cmocka_unit_test_setup(values_stand_after_a_space_or_an_equals_sign, no_uri),
        cmocka_unit_test_setup(the_last_of_repeated_options_counts, no_uri),
        cmocka_unit_test_setup(a_place_is_read_into_its_parts, no_uri),
        cmocka_unit_test_setup_teardown(the_environment_names_the_broker_unless_the_command_does, no_uri, no_uri),
        cmocka_unit_test_setup(an_operand_may_stand_anywhere_and_begin_with_a_dash_after_two, no_uri),
        cmocka_unit_test_setup(a_wrong_word_is_named, no_uri),
        cmocka_unit_test_setup(help_needs_nothing_else, no_uri),
        cmocka_unit_test_setup(every_default_of_the_table_is_valid, no_uri),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
