#define _GNU_SOURCE
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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
    assert_null(settings.uri);
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

static void options_fill_the_library_s_own_structs(void **state)
{
    (void)state;
    assert_true(parse("amqp declare queue orders --queue-type quorum --delivery-limit 3 --message-ttl 2s --passive"));
    assert_string_equal(settings.queue.name, "orders");
    assert_int_equal(settings.queue_type, CONEY_QUEUE_QUORUM);
    assert_int_equal(settings.queue.delivery_limit, 3);
    assert_int_equal(settings.queue.message_ttl, 2 * CONEY_SECOND);
    assert_true(settings.queue.passive);
    assert_true(parse("amqp publish --exchange= --routing-key k --content-type text/plain --cacert ca.pem --insecure"));
    assert_non_null(settings.message.exchange.data);
    assert_int_equal(settings.message.exchange.len, 0);
    assert_int_equal(settings.message.routing_key.len, 1);
    assert_string_equal(settings.message.content_type.data, "text/plain");
    assert_string_equal(settings.tls.ca_file, "ca.pem");
    assert_true(settings.tls.skip_verification);
}

static void of_opposites_the_last_counts(void **state)
{
    (void)state;
    assert_true(parse("amqp publish q --transient"));
    assert_true(settings.message.transient);
    assert_true(parse("amqp publish q --transient --persistent"));
    assert_false(settings.message.transient);
    assert_true(parse("amqp consume q"));
    assert_int_equal(settings.settle, CONEY_ACK);
    assert_true(parse("amqp consume q --ack --requeue"));
    assert_int_equal(settings.settle, CONEY_REQUEUE);
    assert_true(parse("amqp consume q --requeue --reject"));
    assert_int_equal(settings.settle, CONEY_REJECT);
}

static void fields_add_up(void **state)
{
    (void)state;
    assert_true(parse("amqp publish q --header region=eu --header try=3"));
    assert_int_equal(settings.headers.count, 2);
    assert_int_equal(settings.headers.items[1].value.as.i64, 3);
    assert_refused("amqp publish q --header region", "--header 'region': a name");
}

static void no_more_fields_than_there_is_room_for_are_taken(void **state)
{
    (void)state;
    char option[] = "--header", value[] = "a=1", queue[] = "q";
    char *words[2 * 33 + 1] = {queue};
    for (size_t i = 1; i < sizeof words / sizeof words[0]; i += 2) {
        words[i] = option;
        words[i + 1] = value;
    }
    char *name[] = {(char[]){"amqp"}, (char[]){"publish"}};
    int used;
    const struct command *publish = command_find(name, 2, &used);
    assert_true(options_parse(publish, words, 65, &settings, error, sizeof error));
    assert_false(options_parse(publish, words, 67, &settings, error, sizeof error));
    assert_non_null(strstr(error, "one too many"));
}

static void an_operand_in_brackets_may_be_left_out(void **state)
{
    (void)state;
    assert_true(parse("amqp publish --routing-key k"));
    assert_null(settings.queue.name);
    assert_true(parse("amqp publish q"));
    assert_string_equal(settings.queue.name, "q");
    assert_refused("amqp get", "QUEUE is missing");
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
        cmocka_unit_test(what_is_not_said_has_its_default),
        cmocka_unit_test(values_stand_after_a_space_or_an_equals_sign),
        cmocka_unit_test(the_last_of_repeated_options_counts),
        cmocka_unit_test(a_place_is_read_into_its_parts),
        cmocka_unit_test(options_fill_the_library_s_own_structs),
        cmocka_unit_test(of_opposites_the_last_counts),
        cmocka_unit_test(fields_add_up),
        cmocka_unit_test(no_more_fields_than_there_is_room_for_are_taken),
        cmocka_unit_test(an_operand_in_brackets_may_be_left_out),
        cmocka_unit_test(an_operand_may_stand_anywhere_and_begin_with_a_dash_after_two),
        cmocka_unit_test(a_wrong_word_is_named),
        cmocka_unit_test(help_needs_nothing_else),
        cmocka_unit_test(every_default_of_the_table_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
