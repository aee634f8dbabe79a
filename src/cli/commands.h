/* commands.h: the one table of commands and options. Parsing (options.h), --help and completion (help.h) read it.
 *
 * To add an option: a field of `struct settings` and a line of its command's list in commands.c.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "units.h"

#include <stddef.h>

/* What the process returns. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_UNCONNECTED = 3,
};

enum send_way { SEND_ONE, SEND_BATCH, SEND_WAIT };

/* The options of all commands; a command uses those in its list. Durations are nanoseconds. */
struct settings {
    const char *uri;
    const char *stream; /* the operand, or --stream */
    const char *name;
    const char *file;
    const char *format;
    const char *leader_locator;
    struct place from;
    int64_t messages;
    int64_t period;
    int64_t report;
    int64_t duration;
    int64_t idle;
    int64_t timeout;
    int64_t publishers;
    int64_t consumers;
    int64_t size;
    int64_t rate;
    int64_t count;
    int64_t send; /* enum send_way */
    int64_t max_length;
    int64_t max_age;
    int64_t segment;
    int64_t cluster_size;
    bool json;
    bool verbose;
    bool help;
    bool whole;
    bool line_ids;
    bool if_missing;
    bool if_exists;
};

enum option_kind {
    OPTION_FLAG,  /* bool */
    OPTION_TEXT,  /* const char * */
    OPTION_FILE,  /* const char *, completed as a file name */
    OPTION_COUNT, /* int64_t, as the three below */
    OPTION_SIZE,
    OPTION_DURATION,
    OPTION_WORD,  /* an index into `words` */
    OPTION_PLACE, /* struct place */
};

struct option {
    const char *name; /* without its dashes; NULL ends a list */
    char letter;      /* of the short form, or 0 */
    enum option_kind kind;
    size_t field;         /* offset in struct settings */
    const char *value;    /* what help calls the value; NULL for a flag */
    const char *fallback; /* the default as a user would write it; NULL: the field stays zero */
    const char *help;
    int64_t min, max;         /* of numbers; max 0 = no limit */
    const char *const *words; /* of OPTION_WORD; NULL-terminated */
};

struct command {
    const char *name;    /* one word or two; NULL ends the table */
    const char *operand; /* "STREAM", which is then needed, or NULL */
    const char *summary;
    const char *text; /* the paragraphs of its help */
    const struct option *options;
    int (*run)(const struct settings *settings); /* returns an exit_code */
};

extern const struct command commands[];

/* Of every command. */
extern const struct option common_options[];

/* The command that the first words name, and in *used how many they are; NULL when there is none. */
const struct command *command_find(char *const *words, int count, int *used);

int latency_run(const struct settings *settings);
int perf_run(const struct settings *settings);
int create_run(const struct settings *settings);
int delete_run(const struct settings *settings);
int stats_run(const struct settings *settings);
int metadata_run(const struct settings *settings);
int publish_run(const struct settings *settings);
int consume_run(const struct settings *settings);

#endif
