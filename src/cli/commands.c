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
#define UNFLAG(member, name, text) OPTION(OPTION_UNFLAG, member, name, .help = (text))
#define CHOICE(member, name, number, text) OPTION(OPTION_CHOICE, member, name, .min = (number), .help = (text))
#define OTHER(kind, member, name, what, standard, text)                                                                        \
    OPTION(kind, member, name, .value = (what), .fallback = (standard), .help = (text))
#define TEXT(...) OTHER(OPTION_TEXT, __VA_ARGS__)
#define FILE(...) OTHER(OPTION_FILE, __VA_ARGS__)
#define BYTES(member, name, what, text) OTHER(OPTION_BYTES, member, name, what, NULL, text)
#define PLACE(...) OTHER(OPTION_PLACE, __VA_ARGS__)
#define FIELD(member, name, text) OTHER(OPTION_FIELD, member, name, "NAME=VALUE", NULL, text)
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
static const char *const ack_ways[] = {[ACK_RUN] = "run", [ACK_SINGLE] = "single", [ACK_NONE] = "none", NULL};
static const char *const queue_types[] = {[CONEY_QUEUE_DEFAULT] = "default",
                                          [CONEY_QUEUE_CLASSIC] = "classic",
                                          [CONEY_QUEUE_QUORUM] = "quorum",
                                          [CONEY_QUEUE_STREAM] = "stream",
                                          NULL};

const struct option common_options[] = {
    TEXT(uri, "uri", "URI", NULL,
         "rabbitmq-stream[+tls] or amqp[s]://user:password@host:port/vhost; 'coney help' tells the default"),
    FILE(tls.ca_file, "cacert", "FILE", NULL, "TLS: who signed the broker's certificate, in place of the system's store"),
    FILE(tls.certificate, "cert", "FILE", NULL, "TLS: the certificate to show, and those between it and its CA"),
    FILE(tls.private_key, "key", "FILE", NULL, "TLS: its key, when it is not in the same file"),
    FILE(tls.pkcs12_file, "pkcs12", "FILE", NULL, "TLS: certificate and key in one PKCS#12 file, in place of both"),
    TEXT(tls.server_name, "server-name", "NAME", NULL,
         "TLS: whose certificate to expect, in place of the host that is dialled"),
    FLAG(0, tls.skip_verification, "insecure", "TLS: take any certificate: whoever answers can read and change everything"),
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
    TEXT(queue.name, "queue", "NAME", NULL, "over AMQP, through this queue; one that is missing is made for the run"),
    WORD(queue_type, "queue-type", "TYPE", "classic", queue_types, "of a queue that is made for the run"),
    FLAG(0, json, "json", "one object a report, the summary last"),
    END,
};

/* Of both protocols. */
#define PERF_SIDES(consumers_text)                                                                                             \
    COUNT(publishers, "publishers", "N", "1", 0, 1000, "publishers, each on a thread of its own; 0 = read what is there"),     \
        COUNT(consumers, "consumers", "N", "1", 0, 1000, consumers_text)
#define PERF_LOAD                                                                                                              \
    SIZE(size, "size", "SIZE", "200", 0, CONEY_GIB, "of a message's body; latency is measured from 12 bytes up"),              \
        COUNT(rate, "rate", "N", NULL, 1, 1000000000,                                                                          \
              "messages a second of all publishers together; as many as can be without it"),                                   \
        COUNT(prefill, "prefill", "N", NULL, 1, 0, "messages that are there before the consumers begin"),                      \
        COUNT(count, "count", "N", NULL, 1, 0, "messages of all publishers together, or without them those to consume"),       \
        DURATION(duration, "duration", "DURATION", NULL, CONEY_MILLISECOND, 0, "when to end; without it and --count: Ctrl-C"), \
        WORD(send, "send", "WAY", "one", send_ways,                                                                            \
             "one = a call each, batch = 100 a call, wait = each call waits for its outcome"),                                 \
        FLAG(0, json, "json", "the summary as one object")

static const struct option perf_stream_options[] = {
    TEXT(stream, "stream", "NAME", NULL, "an existing stream; without it one is made for the run and deleted after it"),
    PERF_SIDES("consumers, each of which reads everything"),
    PLACE(from, "from", "PLACE", NULL,
          "where consumers begin: first, last, next, an offset, a time [next; first with --prefill]"),
    PERF_LOAD,
    END,
};

static const struct option perf_amqp_options[] = {
    TEXT(queue.name, "queue", "NAME", NULL,
         "a queue; without it, and where it is missing, one is made for the run and deleted after it"),
    WORD(queue_type, "queue-type", "TYPE", "classic", queue_types, "of the queue that is made"),
    PERF_SIDES("consumers, which share the messages; of a stream each reads everything"),
    COUNT(prefetch, "prefetch", "N", "256", 1, 65535, "messages that a consumer is sent ahead of their settlement"),
    WORD(ack, "ack", "WAY", "run", ack_ways,
         "each message is acked by its handler; acks are written in runs or singly; none = no-ack"),
    PLACE(from, "from", "PLACE", NULL, "where consumers of a stream begin, as for perf stream"),
    FLAG(0, confirm, "confirm", "the broker confirms each message; without it one counts as done when it was written"),
    FLAG(0, message.transient, "transient", "messages that a classic queue does not write to disk"),
    PERF_LOAD,
    END,
};

static const struct option stream_create_options[] = {
    SIZE(max_length, "max-length", "SIZE", NULL, 1, 0, "drop the oldest segments beyond this, like 5GB"),
    DURATION(max_age, "max-age", "DURATION", NULL, CONEY_SECOND, 0, "drop segments older than this, like 7d"),
    SIZE(segment, "segment", "SIZE", NULL, 1, 3000000000, "size of a segment, like 500MB"),
    TEXT(leader_locator, "leader-locator", "WORD", NULL, "client-local or balanced: the node that leads"),
    COUNT(cluster_size, "cluster-size", "N", NULL, 1, 1000, "replicas at first"),
    FLAG(0, if_missing, "if-missing", "it is no error that it exists with these arguments"),
    END,
};

static const struct option stream_delete_options[] = {
    FLAG(0, if_exists, "if-exists", "it is no error that there is no such stream"),
    END,
};

static const struct option json_options[] = {
    FLAG(0, json, "json", "as one object"),
    END,
};

static const struct option stream_publish_options[] = {
    FILE(file, "file", "FILE", NULL, "read it instead of standard input"),
    FLAG(0, whole, "whole", "the whole input is one message, not each line"),
    TEXT(name, "name", "NAME", NULL, "of the producer: what is sent again after a lost connection is stored once"),
    FLAG(0, line_ids, "line-ids",
         "line N has publishing id N: lines that an earlier run stored under --name are not stored again"),
    DURATION(timeout, "timeout", "DURATION", "30s", CONEY_MILLISECOND, 0, "how long to wait for the last confirmations"),
    END,
};

static const struct option stream_consume_options[] = {
    PLACE(from, "from", "PLACE", "next", "first, last, next, an offset, a time like 2026-01-31T09:00:00Z or @milliseconds"),
    COUNT(count, "count", "N", NULL, 1, 0, "end after N messages"),
    DURATION(idle, "idle", "DURATION", NULL, CONEY_MILLISECOND, 0, "end when nothing came for so long"),
    TEXT(format, "format", "FORMAT", "%b\\n", "of a message, see above, or json"),
    TEXT(name, "name", "NAME", NULL, "store offsets under it, and begin after the stored one when there is one"),
    END,
};

static const struct option queue_declare_options[] = {
    WORD(queue_type, "queue-type", "TYPE", "default", queue_types, "default = what the virtual host says, usually classic"),
    DURATION(queue.message_ttl, "message-ttl", "DURATION", NULL, CONEY_MILLISECOND, 0, "drop or dead-letter what is older"),
    DURATION(queue.expires, "expires", "DURATION", NULL, CONEY_MILLISECOND, 0, "delete it when nobody used it for so long"),
    COUNT(queue.max_length, "max-length", "N", NULL, 1, 0, "messages; see --overflow"),
    SIZE(queue.max_length_bytes, "max-length-bytes", "SIZE", NULL, 1, 0, "the same in bytes of bodies, like 5GB"),
    TEXT(queue.overflow, "overflow", "WORD", NULL, "beyond that: drop-head, reject-publish or reject-publish-dlx"),
    TEXT(queue.dead_letter_exchange, "dead-letter-exchange", "NAME", NULL, "gets what is rejected or dropped"),
    TEXT(queue.dead_letter_routing_key, "dead-letter-routing-key", "KEY", NULL, "in place of the message's own"),
    TEXT(queue.dead_letter_strategy, "dead-letter-strategy", "WORD", NULL, "quorum: at-most-once or at-least-once"),
    COUNT(queue.max_priority, "max-priority", "N", NULL, 1, 255, "classic: priorities"),
    COUNT(queue.delivery_limit, "delivery-limit", "N", NULL, 1, 0, "quorum: returns before a message is dead-lettered"),
    DURATION(queue.max_age, "max-age", "DURATION", NULL, CONEY_SECOND, 0, "stream: drop segments older than this, like 7d"),
    SIZE(queue.max_segment_size, "segment", "SIZE", NULL, 1, 3000000000, "stream: size of a segment, like 500MB"),
    TEXT(queue.leader_locator, "leader-locator", "WORD", NULL, "client-local or balanced: the node that leads"),
    COUNT(queue.initial_group_size, "cluster-size", "N", NULL, 1, 1000, "quorum, stream: replicas at first"),
    FLAG(0, queue.single_active_consumer, "single-active-consumer", "one consumer at a time gets messages"),
    FLAG(0, queue.auto_delete, "auto-delete", "gone with its last consumer"),
    FLAG(0, queue.transient, "transient", "classic: gone when the broker restarts"),
    FIELD(arguments, "argument", "any further argument; may be given several times"),
    FLAG(0, queue.passive, "passive", "only ask: does it exist, how many messages are ready, how many consumers has it"),
    FLAG(0, json, "json", "what --passive says as one object"),
    END,
};

static const struct option exchange_declare_options[] = {
    TEXT(exchange.type, "type", "TYPE", "direct", "direct, topic, fanout, headers, or a plugin's"),
    TEXT(exchange.alternate_exchange, "alternate-exchange", "NAME", NULL, "gets what cannot be routed"),
    FLAG(0, exchange.auto_delete, "auto-delete", "gone with its last binding"),
    FLAG(0, exchange.internal, "internal", "only other exchanges may publish to it"),
    FLAG(0, exchange.transient, "transient", "gone when the broker restarts"),
    FIELD(arguments, "argument", "any further argument; may be given several times"),
    FLAG(0, exchange.passive, "passive", "only ask whether it exists"),
    END,
};

static const struct option queue_delete_options[] = {
    FLAG(0, if_unused, "if-unused", "only when it has no consumer"),
    FLAG(0, if_empty, "if-empty", "only when it has no message"),
    END,
};

static const struct option exchange_delete_options[] = {
    FLAG(0, if_unused, "if-unused", "only when nothing is bound to it"),
    END,
};

static const struct option no_options[] = {
    END,
};

static const struct option binding_options[] = {
    TEXT(binding.source, "exchange", "NAME", NULL, "where messages come from"),
    TEXT(binding.routing_key, "routing-key", "KEY", NULL, "which ones: the key, of topic exchanges a pattern like orders.*.eu"),
    FIELD(arguments, "argument", "of headers exchanges: a header to match, x-match=any; may be given several times"),
    FLAG(0, binding.to_exchange, "to-exchange", "the destination is an exchange"),
    END,
};

/* Of publish and request. */
#define ROUTE                                                                                                                  \
    BYTES(message.exchange, "exchange", "NAME", "publish to it; without it and a key, to the queue"),                          \
        BYTES(message.routing_key, "routing-key", "KEY", "the routing key")
#define INPUT                                                                                                                  \
    FILE(file, "file", "FILE", NULL, "read it instead of standard input"),                                                     \
        FLAG(0, whole, "whole", "the whole input is one message, not each line")
#define PROPERTIES                                                                                                             \
    BYTES(message.content_type, "content-type", "TYPE", "like application/json"),                                              \
        BYTES(message.content_encoding, "content-encoding", "WORD", "like gzip"),                                              \
        FIELD(headers, "header", "a header; may be given several times"),                                                      \
        BYTES(message.message_id, "message-id", "ID", "the message's own"),                                                    \
        BYTES(message.type, "type", "TYPE", "the application's name for its kind"),                                            \
        BYTES(message.app_id, "app-id", "ID", "who sends it"),                                                                 \
        BYTES(message.user_id, "user-id", "NAME", "the user; the broker refuses any but the one that is logged in"),           \
        COUNT(priority, "priority", "N", NULL, 0, 255, "for queues with priorities"),                                          \
        DURATION(message.expiration, "expiration", "DURATION", NULL, CONEY_MILLISECOND, 0,                                     \
                 "dropped or dead-lettered when it has waited so long")

static const struct option amqp_publish_options[] = {
    ROUTE,
    INPUT,
    FLAG(0, message.transient, "transient", "not written to disk by a classic queue"),
    UNFLAG(message.transient, "persistent", "written to disk, the default"),
    FLAG(0, message.drop_unroutable, "drop-unroutable", "what no queue takes is dropped and counts as done"),
    UNFLAG(message.drop_unroutable, "mandatory", "what no queue takes is a failure, the default"),
    PROPERTIES,
    BYTES(message.correlation_id, "correlation-id", "ID", "what it answers"),
    BYTES(message.reply_to, "reply-to", "QUEUE", "where answers go"),
    DURATION(timeout, "timeout", "DURATION", "30s", CONEY_MILLISECOND, 0, "how long to wait for the last confirmations"),
    END,
};

static const struct option amqp_request_options[] = {
    ROUTE,
    INPUT,
    PROPERTIES,
    DURATION(timeout, "timeout", "DURATION", "10s", CONEY_MILLISECOND, 0, "how long to wait for each reply"),
    TEXT(format, "format", "FORMAT", "%b\\n", "of a reply, see 'coney help amqp consume'"),
    END,
};

/* Of consume and get. */
#define SETTLE                                                                                                                 \
    CHOICE(settle, "ack", CONEY_ACK, "each is done once it was written, the default"),                                         \
        CHOICE(settle, "reject", CONEY_REJECT, "each is dropped, or dead-lettered, once it was written"),                      \
        CHOICE(settle, "requeue", CONEY_REQUEUE, "all are given back at the end")
#define OUTPUT                                                                                                                 \
    TEXT(format, "format", "FORMAT", "%b\\n", "of a message, or json"),                                                        \
        FILE(directory, "into", "DIRECTORY", NULL, "write each message to a file there instead: 1, 2, …")

static const struct option amqp_consume_options[] = {
    COUNT(count, "count", "N", NULL, 1, 0, "end after N messages"),
    DURATION(idle, "idle", "DURATION", NULL, CONEY_MILLISECOND, 0, "end when nothing came for so long"),
    SETTLE,
    FLAG(0, no_ack, "no-ack", "the broker forgets each as it sends it"),
    COUNT(prefetch, "prefetch", "N", "256", 1, 65535,
          "messages that are sent ahead of their settlement; --count when that is less"),
    PLACE(from, "from", "PLACE", NULL, "of a stream: first, last, next, an offset, a time like 2026-01-31T09:00:00Z [next]"),
    FLAG(0, exclusive, "exclusive", "no other consumer may be on the queue"),
    FIELD(arguments, "argument", "of the consumer, like x-priority=5; may be given several times"),
    OUTPUT,
    END,
};

static const struct option amqp_get_options[] = {
    COUNT(count, "count", "N", "1", 1, 0, "as many, or fewer when there are no more"),
    SETTLE,
    OUTPUT,
    END,
};

#define OPERAND(name, member) .operand = (name), .operand_field = offsetof(struct settings, member)

const struct command commands[] = {
    {.name = "latency",
     .summary = "how long messages take through the broker",
     .text =
         "One publisher and one consumer, of a stream or with --queue over AMQP. Each period a burst of messages leaves, each\n"
         "with the time of its own sending; the consumer takes the time when it is handed one. Each report is one line:\n"
         "messages received, then average, p50, p99, p99.9 and maximum in milliseconds, all of this report's messages. The\n"
         "last line is about all.\n"
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
     .options = perf_stream_options,
     .run = perf_stream_run},
    {.name = "perf amqp",
     .summary = "how many messages a second a queue takes and gives",
     .text =
         "As 'perf stream', with the same summary; without --confirm it has no figures of confirmations. A handler acks each\n"
         "message, and the client writes these acks in runs: one for all that are acked up to a message.\n"
         "    coney perf amqp --queue-type quorum --publishers 0 --prefill 100000\n"
         "measures how fast a queue gives what it holds.\n",
     .options = perf_amqp_options,
     .run = perf_amqp_run},
    {.name = "stream create",
     OPERAND("STREAM", stream),
     .summary = "make a stream",
     .text = "Sizes are like 200, 10KB (1000), 10KiB (1024); ages like 500ms, 5s, 10m, 2h, 7d.\n",
     .options = stream_create_options,
     .run = stream_create_run},
    {.name = "stream delete",
     OPERAND("STREAM", stream),
     .summary = "delete a stream with all its messages",
     .text = "",
     .options = stream_delete_options,
     .run = stream_delete_run},
    {.name = "stream stats",
     OPERAND("STREAM", stream),
     .summary = "the first and the last offsets of a stream",
     .text = "An offset is -1 while the stream is empty, and committed_offset also where the broker does not say.\n",
     .options = json_options,
     .run = stream_stats_run},
    {.name = "stream metadata",
     OPERAND("STREAM", stream),
     .summary = "the nodes that hold a stream",
     .text = "",
     .options = json_options,
     .run = stream_metadata_run},
    {.name = "stream publish",
     OPERAND("STREAM", stream),
     .summary = "publish lines of standard input or of a file",
     .text = "Each line is a message, without its line end. Every message leaves at once. Ends when all are confirmed; says\n"
             "on standard error which were not, and then fails.\n",
     .options = stream_publish_options,
     .run = stream_publish_run},
    {.name = "stream consume",
     OPERAND("STREAM", stream),
     .summary = "write messages to standard output",
     .text =
         "Runs until --count, --idle or Ctrl-C. In a format: %b body, %o offset, %t time of the message's chunk, %T the\n"
         "same in milliseconds since 1970, %s size of the body in bytes, %x body in hexadecimal, %n stream, %% itself; and\n"
         "\\n \\t \\r \\0 \\\\ \\xHH. \"--format json\" writes an object a line: offset, timestamp, and body, or body_base64 "
         "when\n"
         "it is no UTF-8. With --name, an offset is stored only after its message was written; the stored offset wins over\n"
         "--from.\n",
     .options = stream_consume_options,
     .run = stream_consume_run},
    {.name = "amqp declare queue",
     OPERAND("QUEUE", queue.name),
     .summary = "make a queue, or see that it is there",
     .text =
         "It is no error that it exists with the same arguments. An argument NAME=VALUE that has no option of its own: whole\n"
         "numbers and true and false are sent as such, anything else as text; text in double quotes is text.\n",
     .options = queue_declare_options,
     .run = queue_declare_run},
    {.name = "amqp declare exchange",
     OPERAND("EXCHANGE", exchange.name),
     .summary = "make an exchange, or see that it is there",
     .text = "It is no error that it exists with the same arguments.\n",
     .options = exchange_declare_options,
     .run = exchange_declare_run},
    {.name = "amqp delete queue",
     OPERAND("QUEUE", queue.name),
     .summary = "delete a queue with all its messages",
     .text = "It is no error that there is no such queue.\n",
     .options = queue_delete_options,
     .run = queue_delete_run},
    {.name = "amqp delete exchange",
     OPERAND("EXCHANGE", exchange.name),
     .summary = "delete an exchange",
     .text = "It is no error that there is no such exchange.\n",
     .options = exchange_delete_options,
     .run = exchange_delete_run},
    {.name = "amqp purge",
     OPERAND("QUEUE", queue.name),
     .summary = "drop all messages of a queue that are ready",
     .text = "",
     .options = no_options,
     .run = queue_purge_run},
    {.name = "amqp bind",
     OPERAND("QUEUE", binding.destination),
     .summary = "bind a queue, or an exchange, to an exchange",
     .text = "",
     .options = binding_options,
     .run = bind_run},
    {.name = "amqp unbind",
     OPERAND("QUEUE", binding.destination),
     .summary = "take a binding away",
     .text = "With the same options as it was bound with. It is no error that there is no such binding.\n",
     .options = binding_options,
     .run = unbind_run},
    {.name = "amqp publish",
     OPERAND("[QUEUE]", queue.name),
     .summary = "publish lines of standard input or of a file",
     .text =
         "To the queue, or to --exchange with --routing-key. Each line is a message, without its line end. Every message\n"
         "leaves at once. Ends when all are confirmed; says on standard error which were refused, returned since no queue\n"
         "took them, or are unknown, and then fails. The value of a header that is a whole number, true or false is sent as\n"
         "such, anything else as text; text in double quotes is text.\n",
     .options = amqp_publish_options,
     .run = amqp_publish_run},
    {.name = "amqp consume",
     OPERAND("QUEUE", queue.name),
     .summary = "write messages of a queue to standard output",
     .text = "Runs until --count, --idle or Ctrl-C. A message is settled after it was written. With --requeue none is settled\n"
             "before the end, so no more than --prefetch are shown. In a format: %b body, %s size of the body in bytes, %x "
             "body in\n"
             "hexadecimal, %n queue, %e exchange, %k routing key, %r reply-to, %i correlation id, %% itself; and\n"
             "\\n \\t \\r \\0 \\\\ \\xHH. \"--format json\" writes an object a line: exchange, routing_key, redelivered, the "
             "properties\n"
             "that are there, headers, and body, or body_base64 when it is no UTF-8. --verbose tells these properties, too.\n",
     .options = amqp_consume_options,
     .run = amqp_consume_run},
    {.name = "amqp get",
     OPERAND("QUEUE", queue.name),
     .summary = "take one message off a queue",
     .text = "Ends with 4 when there was none. Formats as for consume.\n",
     .options = amqp_get_options,
     .run = amqp_get_run},
    {.name = "amqp request",
     OPERAND("[QUEUE]", queue.name),
     .summary = "send lines as requests and write the replies",
     .text =
         "One request at a time, by direct reply-to, to the queue or to --exchange with --routing-key. One can answer with\n"
         "'coney amqp publish --drop-unroutable --routing-key REPLY-TO --correlation-id ID' (%r and %i of consume).\n",
     .options = amqp_request_options,
     .run = amqp_request_run},
    END,
};

const char *command_rest(const struct command *command, char *const *words, int count)
{
    const char *rest = command->name;
    for (int i = 0; i < count; i++) {
        size_t size = strcspn(rest, " ");
        if (size == 0 || strlen(words[i]) != size || memcmp(words[i], rest, size) != 0)
            return NULL;
        rest += size;
        rest += *rest == ' ';
    }
    return rest;
}

const struct command *command_find(char *const *words, int count, int *used)
{
    for (const struct command *c = commands; c->name != NULL; c++) {
        const char *rest = c->name;
        for (*used = 0; *used < count && rest != NULL && *rest != '\0';)
            rest = command_rest(c, words, ++*used);
        if (rest != NULL && *rest == '\0')
            return c;
    }
    return NULL;
}
