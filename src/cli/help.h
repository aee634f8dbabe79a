/* help.h: what the table of commands.h says to a person and to the shell. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "commands.h"

#include <stdio.h>

/* All commands with their summaries, or those whose name begins with the word `group` (NULL = all), and the exit codes. */
void help_overview(FILE *out, const char *group);

/* One command: how to call it, what it does, its options with their defaults. */
void help_command(FILE *out, const struct command *command);

/* True if `word` is the first word of a command. */
bool help_is_group(const char *word);

/* Completion: the lines that may stand where the last of `count` words stands (it may be empty); nothing where any text may. */
void help_complete(FILE *out, char *const *words, int count);

#endif
