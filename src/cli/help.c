/* help.c: help texts and completion, from the table. */
#include "help.h"
#include "options.h"

#include <ctype.h>
#include <string.h>

static bool is_begun(char *const *words, int count)
{
    for (const struct command *c = commands; c->name != NULL; c++)
        if (command_rest(c, words, count) != NULL)
            return true;
    return false;
}

int help_known(char *const *words, int count)
{
    int known = 0;
    while (known < count && is_begun(words, known + 1))
        known++;
    return known;
}

void help_overview(FILE *out, char *const *words, int count)
{
    fprintf(out, "Usage: coney COMMAND [OPTION]...\n\nThe RabbitMQ tool.\n\nCommands:\n");
    for (const struct command *c = commands; c->name != NULL; c++)
        if (command_rest(c, words, count) != NULL)
            fprintf(out, "  %-21s  %s\n", c->name, c->summary);
    fprintf(out, "\n'coney help COMMAND' or 'coney COMMAND --help' tells the options; 'coney --version' the version.\n"
                 "--uri names the broker, or CONEY_STREAM_URI and CONEY_AMQP_URI, or CONEY_URI for both; otherwise it is\n"
                 "rabbitmq-stream://localhost or amqp://localhost. CONEY_KEY_PASSWORD opens the file of --key or --pkcs12.\n"
                 "Ctrl-C ends a run with its summary; a second one ends it at once.\n"
                 "Standard output holds results only; what else there is to say goes to standard error.\n"
                 "\nExit status:\n"
                 "  0  done\n"
                 "  1  it failed, or a message was not confirmed, was returned or did not arrive; standard error says why\n"
                 "  2  the command line is wrong\n"
                 "  3  no connection: the broker was not reached or refused the login\n"
                 "  4  'amqp get' found no message\n");
}

/* "-v, --verbose", "    --uri URI"; returns its length. */
static size_t name_option(const struct option *option, char *into, size_t cap)
{
    char letter[] = {'-', option->letter, ',', ' ', '\0'};
    int size = snprintf(into, cap, "%s--%s%s%s", option->letter != 0 ? letter : "    ", option->name,
                        option->value == NULL ? "" : " ", option->value == NULL ? "" : option->value);
    return (size_t)size;
}

/* How much room the longest name takes, at least `width`. */
static size_t widest(const struct option *list, size_t width)
{
    for (; list->name != NULL; list++) {
        size_t size = name_option(list, NULL, 0);
        width = size > width ? size : width;
    }
    return width;
}

static void put_options(FILE *out, const struct option *list, size_t width)
{
    char name[64];
    for (; list->name != NULL; list++) {
        name_option(list, name, sizeof name);
        fprintf(out, "  %-*s %s", (int)width, name, list->help);
        if (list->fallback != NULL)
            fprintf(out, " [%s]", list->fallback);
        fputc('\n', out);
    }
}

void help_command(FILE *out, const struct command *command)
{
    fprintf(out, "Usage: coney %s%s%s [OPTION]...\n\n%c%s.\n%s%s\n", command->name, command->operand == NULL ? "" : " ",
            command->operand == NULL ? "" : command->operand, toupper((unsigned char)command->summary[0]), command->summary + 1,
            *command->text == '\0' ? "" : "\n", command->text);
    size_t width = widest(command->options, widest(common_options, 0));
    if (command->options->name != NULL)
        fputs("Options, with their defaults:\n", out);
    put_options(out, command->options, width);
    fprintf(out, "%sOptions of every command:\n", command->options->name != NULL ? "\n" : "");
    put_options(out, common_options, width);
    fputs("\nExit status: 0 done, 1 failed, 2 wrong command line, 3 no connection.\n", out);
}

static void offer(FILE *out, const char *prefix, const char *typed, const char *word, size_t len)
{
    size_t typed_len = strlen(typed);
    if (typed_len <= len && memcmp(typed, word, typed_len) == 0)
        fprintf(out, "%s%.*s\n", prefix, (int)len, word);
}

/* The words that follow `count` others in the names of commands. */
static void offer_commands(FILE *out, const char *typed, char *const *words, int count)
{
    const char *last = "";
    for (const struct command *c = commands; c->name != NULL; c++) {
        const char *rest = command_rest(c, words, count);
        if (rest == NULL)
            continue;
        size_t size = strcspn(rest, " ");
        if (strncmp(last, rest, size) != 0 || strcspn(last, " ") != size)
            offer(out, "", typed, rest, size);
        last = rest;
    }
}

static void offer_options(FILE *out, const char *typed, const struct option *list)
{
    for (; list->name != NULL; list++)
        offer(out, "--", typed, list->name, strlen(list->name));
}

static void offer_values(FILE *out, const char *typed, const struct option *option)
{
    static const char *const places[] = {"first", "last", "next", NULL};
    const char *const *words = option->kind == OPTION_PLACE ? places : option->words;
    for (; words != NULL && *words != NULL; words++)
        offer(out, "", typed, *words, strlen(*words));
}

void help_complete(FILE *out, char *const *words, int count)
{
    if (count > 0 && strcmp(words[0], "help") == 0 && count > 1) {
        words++;
        count--;
    } else if (count == 1) {
        offer(out, "", words[0], "help", 4);
    }
    if (count == 0)
        return;
    const char *typed = words[count - 1];
    int used;
    const struct command *command = command_find(words, count - 1, &used);
    if (command == NULL) {
        offer_commands(out, typed, words, count - 1);
        return;
    }
    const char *before = words[count - 2];
    const struct option *option =
        count - 1 > used && strncmp(before, "--", 2) == 0 ? option_find(command, before + 2, strlen(before + 2)) : NULL;
    if (option != NULL && option->value != NULL) {
        offer_values(out, typed, option);
    } else if (typed[0] == '-' || command->operand == NULL || count - 1 > used) {
        size_t dashes = strspn(typed, "-");
        offer_options(out, typed + (dashes > 2 ? 2 : dashes), command->options);
        offer_options(out, typed + (dashes > 2 ? 2 : dashes), common_options);
    }
}
