/* commands.h: the one table of commands and options. Parsing (options.h), --help and completion (help.h) read it.
 *
 * To add an option: a field of `struct settings` and a line of its command's list in commands.c.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "units.h"

#include <coney/amqp.h>

#include <stddef.h>

/* What the process returns. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_UNCONNECTED = 3,
    EXIT_NOTHING = 4, /* there was no message to get */
};

enum send_way { SEND_ONE, SEND_BATCH, SEND_WAIT };
enum ack_way { ACK_RUN, ACK_SINGLE, ACK_NONE };

/* What options that may be given several times say: headers of a message, arguments of a queue. */
struct fields {
    coney_field items[32];
    size_t count;
};

/* The options of all commands; a command uses those in its list. What the library takes as a struct stands here as that struct.
 * Durations are nanoseconds. */
struct settings {
    const char *uri; /* NULL: session.h finds it */
    coney_tls_options tls;
    const char *stream;     /* the operand, or --stream */
    coney_amqp_queue queue; /* its name: the operand, or --queue */
    coney_amqp_exchange exchange;
    coney_amqp_binding binding;
    coney_amqp_message message; /* what each one that is published has */
    struct fields headers;
    struct fields arguments;
    const char *name;
    const char *file;
    const char *directory;
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
    int64_t prefill;
    int64_t prefetch;
    int64_t priority;
    int64_t settle;     /* coney_settle */
    int64_t queue_type; /* coney_queue_type */
    int64_t ack;        /* enum ack_way */
    int64_t send;       /* enum send_way */
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
    bool if_unused;
    bool if_empty;
    bool confirm;
    bool no_ack;
    bool exclusive;
};

enum option_kind {
    OPTION_FLAG,   /* bool: set */
    OPTION_UNFLAG, /* bool: cleared */
    OPTION_CHOICE, /* int64_t: takes no value on the command line and sets `min` */
    OPTION_TEXT,   /* const char * */
    OPTION_FILE,   /* const char *, completed as a file name */
    OPTION_BYTES,  /* coney_bytes */
    OPTION_COUNT,  /* int64_t, as the three below */
    OPTION_SIZE,
    OPTION_DURATION,
    OPTION_WORD,  /* an index into `words` */
    OPTION_PLACE, /* struct place */
    OPTION_FIELD, /* struct fields, one more each time */
};

struct option {
    const char *name; /* without its dashes; NULL ends a list */
    char letter;      /* of the short form, or 0 */
    enum option_kind kind;
    size_t field;         /* offset in struct settings */
    const char *value;    /* what help calls the value; NULL for what takes none */
    const char *fallback; /* the default as a user would write it; NULL: the field stays zero */
    const char *help;
    int64_t min, max;         /* of numbers; max 0 = no limit */
    const char *const *words; /* of OPTION_WORD; NULL-terminated */
};

struct command {
    const char *name;     /* its words, a space between; NULL ends the table */
    const char *operand;  /* "STREAM", which is then needed, "[QUEUE]", which may be left out, or NULL */
    size_t operand_field; /* of struct settings, a const char * */
    const char *summary;
    const char *text; /* the paragraphs of its help */
    const struct option *options;
    int (*run)(const struct settings *settings); /* returns an exit_code */
};

extern const struct command commands[];

/* Of every command. */
extern const struct option common_options[];

/* What of the command's name follows these words, "" when they are all of it; NULL when it begins with others. */
const char *command_rest(const struct command *command, char *const *words, int count);

/* The command that the first words name, and in *used how many they are; NULL when there is none. */
const struct command *command_find(char *const *words, int count, int *used);

int latency_run(const struct settings *settings);
int perf_stream_run(const struct settings *settings);
int perf_amqp_run(const struct settings *settings);

int stream_create_run(const struct settings *settings);
int stream_delete_run(const struct settings *settings);
int stream_stats_run(const struct settings *settings);
int stream_metadata_run(const struct settings *settings);
int stream_publish_run(const struct settings *settings);
int stream_consume_run(const struct settings *settings);

int queue_declare_run(const struct settings *settings);
int queue_delete_run(const struct settings *settings);
int queue_purge_run(const struct settings *settings);
int exchange_declare_run(const struct settings *settings);
int exchange_delete_run(const struct settings *settings);
int bind_run(const struct settings *settings);
int unbind_run(const struct settings *settings);
int amqp_publish_run(const struct settings *settings);
int amqp_consume_run(const struct settings *settings);
int amqp_get_run(const struct settings *settings);
int amqp_request_run(const struct settings *settings);

#endif
