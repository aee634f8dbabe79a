/* main.c: finds the command, reads its options, runs it, and sees that its output was written. */
#include "help.h"
#include "options.h"
#include "output.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int usage(const struct command *command, const char *error)
{
    fprintf(stderr, "coney %s: %s; 'coney help %s' tells more\n", command->name, error, command->name);
    return EXIT_USAGE;
}

static int no_command(int count, char **words)
{
    int known = help_known(words, count);
    if (known > 0) {
        help_overview(stderr, words, known);
        return EXIT_USAGE;
    }
    if (words[0][0] == '-')
        fprintf(stderr, "coney: '%s' stands before the command: options follow it; 'coney help' tells more\n", words[0]);
    else
        fprintf(stderr, "coney: there is no command '%s'; 'coney help' lists them\n", words[0]);
    return EXIT_USAGE;
}

static int help(int count, char **words)
{
    int used;
    const struct command *command = command_find(words, count, &used);
    if (command != NULL)
        help_command(stdout, command);
    else if (help_known(words, count) == count)
        help_overview(stdout, words, count);
    else
        return no_command(count, words);
    return EXIT_DONE;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run(int count, char **words)
{
    if (count == 0) {
        help_overview(stderr, words, 0);
        return EXIT_USAGE;
    }
    if (strcmp(words[0], "--version") == 0) {
        printf("coney %s\n", coney_version());
        return EXIT_DONE;
    }
    if (strcmp(words[0], "--complete") == 0) {
        help_complete(stdout, words + 1, count - 1);
        return EXIT_DONE;
    }
    if (strcmp(words[0], "help") == 0 || asks_for_help(words[0]))
        return help(count - 1, words + 1);
    if (asks_for_help(words[count - 1]) && help_known(words, count) == count - 1)
        return help(count - 1, words);

    int used;
    const struct command *command = command_find(words, count, &used);
    if (command == NULL)
        return no_command(count, words);
    struct settings settings;
    char error[512];
    if (!options_parse(command, words + used, count - used, &settings, error, sizeof error))
        return usage(command, error);
    if (settings.help) {
        help_command(stdout, command);
        return EXIT_DONE;
    }
    return command->run(&settings);
}

/* A standard descriptor that is closed would become a socket's. */
static void open_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY); /* what is written to a closed output fails, as it should */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    return output_end(run(argc - 1, argv + 1));
}
