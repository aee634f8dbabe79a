/* help.h: what the table of commands.h says to a person and to the shell. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "commands.h"

#include <stdio.h>

/* The commands whose names begin with these words, all without any, with their summaries; and the exit codes. */
void help_overview(FILE *out, char *const *words, int count);

/* One command: how to call it, what it does, its options with their defaults. */
void help_command(FILE *out, const struct command *command);

/* How many of the first words begin the name of a command. */
int help_known(char *const *words, int count);

/* Completion: the lines that may stand where the last of `count` words stands (it may be empty); nothing where any text may. */
void help_complete(FILE *out, char *const *words, int count);

#endif
