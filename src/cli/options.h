/* options.h: reads a command line by the table of commands.h. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "commands.h"

/* Reads `count` words, which follow the command's name, into *settings, with defaults where nothing is said.
 * "--name value", "--name=value", "-v", "--"; the last of repeated options counts. *settings points
 * into the words. With --help nothing else is needed. False: `error` says what is wrong with which word. */
bool options_parse(const struct command *command, char *const *words, int count, struct settings *settings, char *error,
                   size_t error_cap);

/* The option of this name among `command`'s and the common ones, or NULL. */
const struct option *option_find(const struct command *command, const char *name, size_t name_len);

#endif
