/* commands.c: the table of commands and options. */
#include "commands.h"

#include <string.h>

/* A line of the table: the field of struct settings, the name on the command line, what help calls the value, the default, the
 * least and the most (0 = no limit), what it is. */
#define OPTION(option_kind, member, option_name, ...)                                                                          \
    {                                                                                                                          \
        .name = (option_name), .kind = (option_kind), .field = offsetof(struct settings, member), __VA_ARGS__                  \
    }
#define FLAG(short_form, member, name, text) OPTION(OPTION_FLAG, member, name, .letter = (short_form), .help = (text))
#define OTHER(kind, member, name, what, standard, text)                                                                        \
    OPTION(kind, member, name, .value = (what), .fallback = (standard), .help = (text))
#define TEXT(...) OTHER(OPTION_TEXT, __VA_ARGS__)
#define FILE(...) OTHER(OPTION_FILE, __VA_ARGS__)
#define PLACE(...) OTHER(OPTION_PLACE, __VA_ARGS__)
#define WORD(member, name, what, standard, list, text)                                                                         \
    OPTION(OPTION_WORD, member, name, .value = (what), .fallback = (standard), .words = (list), .help = (text))
#define NUMBER(kind, member, name, what, standard, least, most, text)                                                          \
    OPTION(kind, member, name, .value = (what), .fallback = (standard), .min = (least), .max = (most), .help = (text))
#define COUNT(...) NUMBER(OPTION_COUNT, __VA_ARGS__)
#define SIZE(...) NUMBER(OPTION_SIZE, __VA_ARGS__)
#define DURATION(...) NUMBER(OPTION_DURATION, __VA_ARGS__)
#define END                                                                                                                    \
    {                                                                                                                          \
        .name = NULL                                                                                                           \
    }

static const char *const send_ways[] = {[SEND_ONE] = "one", [SEND_BATCH] = "batch", [SEND_WAIT] = "wait", NULL};

const struct option common_options[] = {
    TEXT(uri, "uri", "URI", "rabbitmq-stream://localhost",
         "the broker, rabbitmq-stream://user:password@host:port/vhost; default CONEY_URI, then"),
    FLAG('v', verbose, "verbose", "tell every step of connections on standard error"),
    FLAG('h', help, "help", "this text"),
    END,
};

static const struct option latency_options[] = {
    COUNT(messages, "messages", "N", "50", 1, 1000000000, "messages in a burst"),
    DURATION(period, "period", "DURATION", "1s", CONEY_MICROSECOND, 0, "from the start of a burst to the next"),
    DURATION(report, "report", "DURATION", "60s", CONEY_MILLISECOND, 0, "from one report to the next"),
    DURATION(duration, "duration", "DURATION", "5m", CONEY_MILLISECOND, 0, "of the whole"),
    TEXT(stream, "stream", "NAME", NULL, "an existing stream; without it one is made for the run and deleted after it"),
    FLAG(0, json, "json", "one object a report, the summary last"),
    END,
};

static const struct option perf_options[] = {
    TEXT(stream, "stream", "NAME", NULL, "an existing stream; without it one is made for the run and deleted after it"),
    COUNT(publishers, "publishers", "N", "1", 0, 1000, "producers, each on a thread of its own; 0 = read what is there"),
    COUNT(consumers, "consumers", "N", "1", 0, 1000, "consumers, each of which reads everything"),
    SIZE(size, "size", "SIZE", "200", 0, CONEY_GIB, "of a message's body; latency is measured from 12 bytes up"),
    COUNT(rate, "rate", "N", NULL, 1, 1000000000, "messages a second of all publishers together; as many as can be without it"),
    COUNT(count, "count", "N", NULL, 1, 0, "messages of all publishers together; each consumer ends after as many"),
    DURATION(duration, "duration", "DURATION", NULL, CONEY_MILLISECOND, 0, "when to end; without it and --count: Ctrl-C"),
    PLACE(from, "from", "PLACE", "next", "where consumers begin: first, last, next, an offset, a time"),
    WORD(send, "send", "WAY", "one", send_ways,
         "one = a call each, batch = 100 a call, wait = each call waits for its confirmation"),
    FLAG(0, json, "json", "the summary as one object"),
    END,
};

static const struct option create_options[] = {
    SIZE(max_length, "max-length", "SIZE", NULL, 1, 0, "drop the oldest segments beyond this, like 5GB"),
    DURATION(max_age, "max-age", "DURATION", NULL, CONEY_SECOND, 0, "drop segments older than this, like 7d"),
    SIZE(segment, "segment", "SIZE", NULL, 1, 3000000000, "size of a segment, like 500MB"),
    TEXT(leader_locator, "leader-locator", "WORD", NULL, "client-local or balanced: the node that leads"),
    COUNT(cluster_size, "cluster-size", "N", NULL, 1, 1000, "replicas at first"),
    FLAG(0, if_missing, "if-missing", "it is no error that it exists with these arguments"),
    END,
};

static const struct option delete_options[] = {
    FLAG(0, if_exists, "if-exists", "it is no error that there is no such stream"),
    END,
};

static const struct option json_options[] = {
    FLAG(0, json, "json", "as one object"),
    END,
};

static const struct option publish_options[] = {
    FILE(file, "file", "FILE", NULL, "read it instead of standard input"),
    FLAG(0, whole, "whole", "the whole input is one message, not each line"),
    TEXT(name, "name", "NAME", NULL, "of the producer: what is sent again after a lost connection is stored once"),
    FLAG(0, line_ids, "line-ids",
         "line N has publishing id N: lines that an earlier run stored under --name are not stored again"),
    DURATION(timeout, "timeout", "DURATION", "30s", CONEY_MILLISECOND, 0, "how long to wait for the last confirmations"),
    END,
};

static const struct option consume_options[] = {
    PLACE(from, "from", "PLACE", "next", "first, last, next, an offset, a time like 2026-01-31T09:00:00Z or @milliseconds"),
    COUNT(count, "count", "N", NULL, 1, 0, "end after N messages"),
    DURATION(idle, "idle", "DURATION", NULL, CONEY_MILLISECOND, 0, "end when nothing came for so long"),
    TEXT(format, "format", "FORMAT", "%b\\n", "of a message, see above, or json"),
    TEXT(name, "name", "NAME", NULL, "store offsets under it, and begin after the stored one when there is one"),
    END,
};

const struct command commands[] = {
    {.name = "latency",
     .summary = "how long messages take through the broker",
     .text = "One producer and one consumer. Each period a burst of messages leaves, each with the time of its own sending;\n"
             "the consumer takes the time when it is handed one. Each report is one line: messages received, then average,\n"
             "p50, p99, p99.9 and maximum in milliseconds, all of this report's messages. The last line is about all.\n"
             "With --json: messages, average_ms, p50_ms, p99_ms, p999_ms, max_ms; the summary has \"summary\":true.\n",
     .options = latency_options,
     .run = latency_run},
    {.name = "perf stream",
     .summary = "how many messages a second a stream takes and gives",
     .text = "Publishes and consumes as fast as it goes, or at --rate, which is kept by the clock: a message that leaves late\n"
             "counts as sent when it was due. A line a second goes to standard error if that is a terminal. The summary:\n"
             "published_per_second (accepted by the client), confirmed_per_second (the broker has them), consumed_per_second\n"
             "(all consumers together), not_confirmed, and the latency from sending to consuming when both sides run (a\n"
             "sample of the messages when there is no --rate). With --publishers 0 it replays what --from says.\n",
     .options = perf_options,
     .run = perf_run},
    {.name = "stream create",
     .operand = "STREAM",
     .summary = "make a stream",
     .text = "Sizes are like 200, 10KB (1000), 10KiB (1024); ages like 500ms, 5s, 10m, 2h, 7d.\n",
     .options = create_options,
     .run = create_run},
    {.name = "stream delete",
     .operand = "STREAM",
     .summary = "delete a stream with all its messages",
     .text = "",
     .options = delete_options,
     .run = delete_run},
    {.name = "stream stats",
     .operand = "STREAM",
     .summary = "the first and the last offsets of a stream",
     .text = "An offset is -1 while the stream is empty, and committed_offset also where the broker does not say.\n",
     .options = json_options,
     .run = stats_run},
    {.name = "stream metadata",
     .operand = "STREAM",
     .summary = "the nodes that hold a stream",
     .text = "",
     .options = json_options,
     .run = metadata_run},
    {.name = "stream publish",
     .operand = "STREAM",
     .summary = "publish lines of standard input or of a file",
     .text = "Each line is a message, without its line end. Every message leaves at once. Ends when all are confirmed; says\n"
             "on standard error which were not, and then fails.\n",
     .options = publish_options,
     .run = publish_run},
    {.name = "stream consume",
     .operand = "STREAM",
     .summary = "write messages to standard output",
     .text =
         "Runs until --count, --idle or Ctrl-C. In a format: %b body, %o offset, %t time of the message's chunk, %T the\n"
         "same in milliseconds since 1970, %s size of the body in bytes, %x body in hexadecimal, %n stream, %% itself; and\n"
         "\\n \\t \\r \\0 \\\\ \\xHH. \"--format json\" writes an object a line: offset, timestamp, and body, or body_base64 "
         "when\n"
         "it is no UTF-8. With --name, an offset is stored only after its message was written; the stored offset wins over\n"
         "--from.\n",
     .options = consume_options,
     .run = consume_run},
    END,
};

const struct command *command_find(char *const *words, int count, int *used)
{
    for (const struct command *c = commands; c->name != NULL; c++) {
        const char *second = strchr(c->name, ' ');
        size_t first_size = second == NULL ? strlen(c->name) : (size_t)(second - c->name);
        int needed = second == NULL ? 1 : 2;
        if (count < needed || strlen(words[0]) != first_size || memcmp(words[0], c->name, first_size) != 0)
            continue;
        if (second != NULL && strcmp(words[1], second + 1) != 0)
            continue;
        *used = needed;
        return c;
    }
    return NULL;
}
