/* coney/stream.h: RabbitMQ streams: environment, streams, producers, consumers.
 *
 *     coney_call call = {0};
 *     coney_stream_env *env = coney_stream_env_open("rabbitmq-stream://localhost", NULL, &call);
 *     coney_stream_create(env, "invoices", NULL, NULL);
 *     coney_stream_producer_options options = {.on_outcome = on_outcome};
 *     coney_stream_producer *invoices = coney_stream_producer_open(env, "invoices", &options, &call);
 *     if (coney_stream_send(invoices, CONEY_STR("hello"), 1) != CONEY_OK)   // leaves as soon as the connection can take it
 *         return 1;
 *     coney_stream_producer_close(&invoices, &call);                        // every message has had its outcome
 *     coney_stream_env_close(&env, NULL);
 *
 * Every handle may be used from any thread; <coney/coney.h> says which kind of call may come from where. Options are structs whose
 * zero is the default; strings in them are copied. Unless a function says otherwise, a control call can also end with CONEY_EINVAL,
 * CONEY_ENOMEM, CONEY_ECLOSED, CONEY_ETIMEDOUT, CONEY_ECANCELED, CONEY_EDEADLK, CONEY_EFORKED, or a failure of the connection
 * (CONEY_ERESOLVE, CONEY_ECONNECT, CONEY_ELOST, CONEY_EPROTOCOL, CONEY_EAUTH, CONEY_EVHOST, CONEY_ETLS, CONEY_ELIMIT).
 */
#ifndef CONEY_STREAM_H
#define CONEY_STREAM_H

#include <coney/coney.h>
#include <coney/loop.h>
#include <coney/message.h>
#include <coney/tls.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coney_stream_env coney_stream_env;
typedef struct coney_stream_producer coney_stream_producer;
typedef struct coney_stream_consumer coney_stream_consumer;

/* Environment ---------------------------------------------------------------------------------------------------- */

/* Asked before a node is dialled that the broker's metadata named: put the address that this client must use into `host` (at most
 * `host_cap` bytes with its end) and `*port`, which hold the broker's own. For load balancers and port forwards. Runs on the loop. */
typedef void (*coney_stream_resolver_fn)(void *ctx, char *host, size_t host_cap, uint16_t *port);

typedef struct coney_stream_env_options {
    coney_loop *loop;             /* NULL = a thread of its own */
    const char *name;             /* connection name that the broker shows; default "coney" */
    const char *const *addresses; /* further "host:port" to try, in order, after those of the URI; NULL-terminated */
    coney_stream_resolver_fn resolve_address;
    void *resolver_ctx;
    coney_event_fn on_event; /* every step of connections and recovery */
    void *event_ctx;
    coney_log_fn on_log;
    void *log_ctx;
    const coney_field *client_properties; /* strings, shown by the broker beside coney's own */
    size_t client_property_count;
    int64_t heartbeat;            /* nanoseconds, whole seconds; default 60 s, CONEY_OFF = none */
    int64_t connect_timeout;      /* TCP and TLS of an address; default 5 s. The log-in has 6 s a step: refusals come late */
    int64_t call_deadline;        /* what a call's 0 stands for; default 10 s */
    int64_t frame_max;            /* bytes, what we offer; default 1 MiB */
    int64_t max_chunk;            /* bytes of the largest chunk accepted; default 64 MiB */
    int64_t recovery_delay;       /* first pause between attempts, doubling; default 0.5 s */
    int64_t recovery_max_delay;   /* default 30 s */
    coney_log_level log_level;    /* default CONEY_LOG_INFO */
    bool shuffle;                 /* try the addresses in random order */
    bool no_recovery;             /* a lost place is not looked for again: the handle ends with CONEY_EVENT_GAVE_UP */
    bool keep_trying;             /* asynchronous open: go on after every address has failed */
    bool handler_thread;          /* on a loop of the user's: handlers run on a thread of their own all the same */
    const coney_tls_options *tls; /* for rabbitmq-stream+tls; refused beside a plain URI (CONEY_EINVAL) */
    coney_credentials_fn credentials; /* asked, not the URI's user and password; a close waits for a call under way */
    void *credentials_ctx;
    const char *mechanism; /* "PLAIN" (default), "EXTERNAL" (the client certificate says who it is), "ANONYMOUS" */
} coney_stream_env_options;

/* Connects and logs in. `uri`: rabbitmq-stream[+tls]://[user[:password]@]host[:port][,host:port…][/vhost][?option=value…]; default user
 * and password "guest", port 5552 (with TLS 5551), virtual host "/". Options of the URI: heartbeat (s), connect_timeout (ms), frame_max,
 * name, shuffle (true|false), auth_mechanism; for TLS cacertfile, certfile, keyfile, password (of the key), verify (verify_peer|verify_none),
 * server_name_indication; an option of the struct wins. NULL `uri` = "rabbitmq-stream://localhost". With rabbitmq-stream+tls nothing is
 * ever sent in clear text: the nodes that metadata names are dialled by TLS, too.
 * Returns the handle or NULL. With call->on_done it exists at once; if opening fails the handle is dead (every use answers
 * CONEY_ECLOSED) unless `.keep_trying`, and still must be closed. Without on_done each address is tried once.
 * CONEY_EINVAL for a URI that is not one; CONEY_ETLS when TLS cannot be agreed (<coney/tls.h>). */
CONEY_API coney_stream_env *coney_stream_env_open_sized(const char *uri, const coney_stream_env_options *options,
                                                        size_t options_size, coney_call *call);
static inline coney_stream_env *coney_stream_env_open(const char *uri, const coney_stream_env_options *options,
                                                      coney_call *call)
{
    return coney_stream_env_open_sized(uri, options, sizeof *options, call);
}

/* Closes every producer and consumer that is still open (as their own close functions do, their handles become invalid), then the
 * connections. call->value: messages whose outcome was not CONEY_OK because of the close. Clears *env; NULL there is harmless.
 * From a handler or callback it returns at once: that handler is called no more, others may be until call->on_done says that all has ended. */
CONEY_API coney_status coney_stream_env_close(coney_stream_env **env, coney_call *call);

/* Gives a new password or token to every open connection now (RabbitMQ 3.13 and later take one while they are open) and to later log-ins.
 * CONEY_EAUTH with the broker's words when one refused it. CONEY_EINVAL with `.credentials`, which are asked instead. */
CONEY_API coney_status coney_stream_env_update_secret(coney_stream_env *env, const char *secret, coney_call *call);

typedef struct coney_stream_env_stats {
    uint64_t connections; /* open now */
    uint64_t connections_made;
    uint64_t connections_lost;
    uint64_t producers; /* open now */
    uint64_t consumers;
    uint64_t bytes_in; /* over all connections there were */
    uint64_t bytes_out;
    uint64_t memory_out;  /* bytes of receive buffers and outboxes in use */
    uint64_t memory_idle; /* bytes kept for reuse */
    uint64_t reserved[8];
} coney_stream_env_stats;

/* A snapshot. Frozen layout. Never blocks. */
CONEY_API coney_status coney_stream_env_get_stats(const coney_stream_env *env, coney_stream_env_stats *stats);

/* Streams -------------------------------------------------------------------------------------------------------- */

typedef struct coney_stream_spec {
    int64_t max_length;           /* bytes kept; 0 = no limit of ours */
    int64_t max_age;              /* nanoseconds, whole seconds; 0 = no limit */
    int64_t max_segment_size;     /* bytes, at most 3 GB; 0 = the broker's default */
    const char *leader_locator;   /* "client-local", "balanced"; NULL = the broker's default */
    int64_t initial_cluster_size; /* replicas at first; 0 = the broker's default */
    const coney_field *arguments; /* any further argument of the broker's, as texts */
    size_t argument_count;
    bool if_missing; /* CONEY_EEXIST counts as success (other arguments than the existing stream's do not) */
    uint8_t reserved[7];
} coney_stream_spec;

/* The name is one line of UTF-8 and has at most 255 bytes; keep it below 200: brokers make a directory of it that has room for little more,
 * and one that cannot be made costs the broker half a core for ever (seen on 4.0.5).
 * CONEY_EEXIST, CONEY_EPRECONDITION (exists with other arguments, or arguments that the broker does not take), CONEY_EACCESS. */
CONEY_API coney_status coney_stream_create_sized(coney_stream_env *env, const char *stream, const coney_stream_spec *spec,
                                                 size_t spec_size, coney_call *call);
static inline coney_status coney_stream_create(coney_stream_env *env, const char *stream, const coney_stream_spec *spec,
                                               coney_call *call)
{
    return coney_stream_create_sized(env, stream, spec, sizeof *spec, call);
}

/* CONEY_ENOTFOUND, CONEY_EACCESS. */
CONEY_API coney_status coney_stream_delete(coney_stream_env *env, const char *stream, coney_call *call);

/* call->value: 1 if it exists, 0 if not; the return value is CONEY_OK for both. `call` must not be NULL. */
CONEY_API coney_status coney_stream_exists(coney_stream_env *env, const char *stream, coney_call *call);

typedef struct coney_stream_stats {
    int64_t first_offset;           /* -1 while the stream is empty, here and below */
    int64_t committed_chunk_offset; /* first offset of the last committed chunk */
    int64_t committed_offset;       /* the last committed message; -1 where the broker does not say (before 4.3) */
    int64_t last_chunk_offset;      /* first offset of the last chunk */
    uint64_t reserved[8];
} coney_stream_stats;

/* Fills *stats, which must live until the call has ended. CONEY_ENOTFOUND, CONEY_EUNAVAILABLE, CONEY_EACCESS, CONEY_EUNSUPPORTED (before 3.11). */
CONEY_API coney_status coney_stream_get_stats(coney_stream_env *env, const char *stream, coney_stream_stats *stats,
                                              coney_call *call);

/* A node of the broker as its metadata names it. */
typedef struct coney_stream_node {
    char host[256];
    uint16_t port;
    uint16_t reserved[3];
} coney_stream_node;

#define CONEY_STREAM_REPLICAS 32

typedef struct coney_stream_metadata {
    coney_stream_node leader; /* host "" = no leader now */
    coney_stream_node replicas[CONEY_STREAM_REPLICAS];
    uint64_t replica_count; /* without the leader */
    uint64_t reserved[8];
} coney_stream_metadata;

/* Fills *metadata, which must live until the call has ended. CONEY_ENOTFOUND, CONEY_EUNAVAILABLE, CONEY_EACCESS. */
CONEY_API coney_status coney_stream_get_metadata(coney_stream_env *env, const char *stream, coney_stream_metadata *metadata,
                                                 coney_call *call);

/* The partitions of a super stream, in their order. `each` runs once a partition, on the loop, before the call ends. call->value: how many.
 * CONEY_ENOTFOUND, CONEY_EACCESS. */
CONEY_API coney_status coney_stream_partitions(coney_stream_env *env, const char *super_stream,
                                               void (*each)(void *ctx, const char *partition), void *ctx, coney_call *call);

/* The offset stored under `name` in call->value, or CONEY_ENOOFFSET. CONEY_ENOTFOUND, CONEY_EACCESS. `call` must not be NULL. */
CONEY_API coney_status coney_stream_query_offset(coney_stream_env *env, const char *stream, const char *name, coney_call *call);

/* Stores one, and asks for it back, since the protocol has no answer for a store. CONEY_ENOTFOUND, CONEY_EACCESS,
 * CONEY_EINVAL for UINT64_MAX (it is no offset), CONEY_EBROKER when it did not read back. */
CONEY_API coney_status coney_stream_store_offset(coney_stream_env *env, const char *stream, const char *name, uint64_t offset,
                                                 coney_call *call);

/* The last publishing id that the broker has under a producer's `name`, in call->value; 0 when it knows none. `call` must not be NULL. */
CONEY_API coney_status coney_stream_query_publishing_id(coney_stream_env *env, const char *stream, const char *name,
                                                        coney_call *call);

/* Producer ------------------------------------------------------------------------------------------------------- */

typedef struct coney_stream_producer_options {
    const char *name; /* turns de-duplication on: the broker drops ids that it has seen under this name; at most 255 bytes */
    coney_outcome_fn on_outcome;    /* once for each accepted message, on the loop */
    void (*on_writable)(void *ctx); /* on the loop: after a send that answered CONEY_EAGAIN there is room again */
    void *ctx;                      /* for both */
    int64_t max_messages;           /* accepted without an outcome; default 10,000 */
    int64_t max_bytes;              /* the same in bytes; default 64 MiB */
    int64_t enqueue_timeout;        /* how long send waits at a bound; default 10 s, CONEY_OFF = not at all */
    int64_t confirm_timeout; /* an older message becomes CONEY_EUNKNOWN; default CONEY_OFF, checked every quarter of it */
    bool no_resend;          /* after a reconnect, unconfirmed messages become CONEY_EUNKNOWN instead of being sent again */
    bool keep_trying;        /* asynchronous open: a missing stream or a refusal is tried again, too */
    uint8_t reserved[6];
} coney_stream_producer_options;

/* CONEY_ENOTFOUND, CONEY_EUNAVAILABLE (no leader), CONEY_EACCESS, CONEY_EPRECONDITION (the name is in use on this connection).
 * With on_done the handle exists at once; sends wait (or answer CONEY_EAGAIN) until it is open. */
CONEY_API coney_stream_producer *coney_stream_producer_open_sized(coney_stream_env *env, const char *stream,
                                                                  const coney_stream_producer_options *options,
                                                                  size_t options_size, coney_call *call);
static inline coney_stream_producer *coney_stream_producer_open(coney_stream_env *env, const char *stream,
                                                                const coney_stream_producer_options *options, coney_call *call)
{
    return coney_stream_producer_open_sized(env, stream, options, sizeof *options, call);
}

/* Sends one message whose body is `body` (one AMQP 1.0 data section). The body is copied. CONEY_OK: queued, exactly one outcome with
 * this `tag` will come. Anything else: nothing was queued, no outcome comes:
 * CONEY_EAGAIN (at a bound and waiting is not allowed here), CONEY_ETIMEDOUT (waited enqueue_timeout at a bound), CONEY_ETOOBIG (does not
 * fit the connection's frame_max), CONEY_ECLOSED, CONEY_EFORKED, CONEY_ENOMEM, CONEY_EINVAL (the handle is NULL). */
CONEY_API CONEY_MUST_CHECK coney_status coney_stream_send(coney_stream_producer *producer, coney_bytes body, uint64_t tag);

/* A message with everything that AMQP 1.0 knows, or a publishing id of one's own. */
typedef struct coney_stream_message {
    const coney_message *message; /* encoded by send; NULL = `body` alone */
    coney_bytes body;             /* used when `message` is NULL */
    uint64_t publishing_id;       /* used when has_publishing_id; may not be lower than the one before it on this handle */
    uint64_t tag;
    bool has_publishing_id;
    uint8_t reserved[7];
} coney_stream_message;

/* As coney_stream_send. Also CONEY_EINVAL for a message that cannot be encoded or a publishing id that goes down. On one handle either
 * every message has an id of its own or none has (CONEY_EINVAL). Equal ids are both confirmed; a named producer's broker stores the first. */
CONEY_API CONEY_MUST_CHECK coney_status coney_stream_send_message_sized(coney_stream_producer *producer,
                                                                        const coney_stream_message *message, size_t size);
static inline CONEY_MUST_CHECK coney_status coney_stream_send_message(coney_stream_producer *producer,
                                                                      const coney_stream_message *message)
{
    return coney_stream_send_message_sized(producer, message, sizeof *message);
}

/* Sends `count` bodies with the tags first_tag, first_tag + 1 …, entering the producer once; each has an outcome of its own.
 * *accepted (may be NULL): how many were queued before the status that is returned. */
CONEY_API CONEY_MUST_CHECK coney_status coney_stream_send_batch(coney_stream_producer *producer, const coney_bytes *bodies,
                                                                size_t count, uint64_t first_tag, size_t *accepted);

/* Sends one body and waits for its outcome: CONEY_OK, CONEY_EREFUSED, CONEY_EUNKNOWN, or what coney_stream_send answers. When the call's
 * deadline passes first: CONEY_ETIMEDOUT, and the outcome is dropped. on_outcome is not called for it. call->value: the publishing id. */
CONEY_API coney_status coney_stream_send_wait(coney_stream_producer *producer, coney_bytes body, coney_call *call);

/* Waits until every message accepted before this call has its outcome. */
CONEY_API coney_status coney_stream_producer_flush(coney_stream_producer *producer, coney_call *call);

/* Waits for outcomes up to the call's deadline; what has none then becomes CONEY_EUNKNOWN, and the close answers CONEY_ETIMEDOUT. It does not
 * wait for a broker that cannot be reached: once an attempt to find a place again has failed, what is in hand becomes CONEY_EUNKNOWN and the
 * close answers CONEY_ELOST (coney_stream_producer_flush waits). Wakes senders with CONEY_ECLOSED. The handle is closed whatever is answered.
 * call->value: how many messages became CONEY_EUNKNOWN or were refused while it was closing.
 * Clears *producer; NULL there is harmless. When it has ended no callback runs any more; from a callback it returns
 * at once, and the outcomes that are due come after it. */
CONEY_API coney_status coney_stream_producer_close(coney_stream_producer **producer, coney_call *call);

typedef struct coney_stream_producer_stats {
    uint64_t accepted;       /* messages */
    uint64_t accepted_bytes; /* encoded */
    uint64_t confirmed;
    uint64_t refused;
    uint64_t unknown;
    uint64_t resent;
    uint64_t pending; /* without an outcome now */
    uint64_t pending_bytes;
    uint64_t reconnects;
    uint64_t last_publishing_id; /* of the last accepted message; 0 = none */
    uint64_t frames;             /* Publish frames written */
    uint64_t reserved[5];
} coney_stream_producer_stats;

/* A snapshot. Frozen layout. Never blocks. */
CONEY_API coney_status coney_stream_producer_get_stats(const coney_stream_producer *producer,
                                                       coney_stream_producer_stats *stats);

/* Consumer ------------------------------------------------------------------------------------------------------- */

typedef enum coney_stream_start {
    CONEY_STREAM_NEXT = 0,      /* only what is published from now on */
    CONEY_STREAM_FIRST = 1,     /* the oldest message there is */
    CONEY_STREAM_LAST = 2,      /* the last chunk, which may hold several messages */
    CONEY_STREAM_OFFSET = 3,    /* `.start_offset` */
    CONEY_STREAM_TIMESTAMP = 4, /* the first chunk written at or after `.start_time`: only whole chunks carry a time */
} coney_stream_start;

/* One message. All pointers are valid until the handler returns, or as long as it is kept. May grow at its end. */
typedef struct coney_stream_delivery {
    coney_bytes body;    /* DATA: the content; VALUE, SEQUENCE, PARTS: the sections as encoded; UNREADABLE: the entry */
    coney_bytes encoded; /* the whole entry: for coney_message_parse */
    uint64_t offset;
    int64_t timestamp;         /* when its chunk was written; milliseconds since 1970 */
    uint64_t committed_offset; /* the chunk id that was committed when this was sent to us; 0 before RabbitMQ 3.11 */
    const char *stream;
    coney_stream_consumer *consumer;
    coney_body_kind body_kind; /* CONEY_BODY_DATA for what coney_stream_send writes */
    uint32_t attempt;          /* 0 for the first time, 1 after a requeue or retry … */
    const void *internal;
    bool last_of_chunk; /* no other message of its chunk follows at once */
} coney_stream_delivery;

/* All messages of one chunk, for handlers that would rather loop themselves. */
typedef struct coney_stream_chunk coney_stream_chunk;

/* The next message of the chunk into *delivery, or false after the last. */
CONEY_API bool coney_stream_chunk_next(coney_stream_chunk *chunk, coney_stream_delivery *delivery);

/* How many messages it holds at most (some may lie before the asked offset), and its first offset. */
CONEY_API uint64_t coney_stream_chunk_count(const coney_stream_chunk *chunk);
CONEY_API uint64_t coney_stream_chunk_offset(const coney_stream_chunk *chunk);

typedef struct coney_stream_consumer_options {
    const char *name; /* offsets are stored under it; at most 255 bytes; NULL = nothing is stored */
    /* One of the two, on the dispatcher. What on_chunk returns holds for every message of the chunk; not CONEY_KEPT. */
    coney_settle (*on_message)(void *ctx, const coney_stream_delivery *delivery);
    coney_settle (*on_chunk)(void *ctx, coney_stream_chunk *chunk);
    void *ctx;
    coney_stream_start start_if_new; /* where to begin when nothing is stored under the name (or there is no name) */
    uint32_t reserved_number;
    uint64_t start_offset;
    int64_t start_time;     /* milliseconds since 1970; may be negative */
    int64_t credit;         /* chunks that the broker may send ahead of the handler; default 10, at most 32767 */
    int64_t credit_every;   /* give credit back for this many chunks at a time; default 1, at most half of `credit` */
    int64_t store_every;    /* messages done between two stored offsets; default 10,000, CONEY_OFF = not by count */
    int64_t store_interval; /* nanoseconds; default 5 s, CONEY_OFF = not by time */
    int64_t max_kept;       /* bytes of kept deliveries; default 64 MiB: beyond it the next message is held back */
    bool credit_by_hand;    /* credit comes back only by coney_stream_consumer_credit */
    bool store_by_hand;     /* offsets are stored only by coney_stream_consumer_store */
    bool skip_crc;          /* do not check chunks */
    bool on_loop;           /* handlers run on the loop: microseconds faster, and a slow one stops everything */
    bool paused;            /* nothing is handed over before coney_stream_consumer_resume */
    bool keep_trying;       /* asynchronous open: a missing stream or a refusal is tried again, too */
    bool own_thread; /* the handler runs on a thread for this consumer alone: a slow one holds up no other. Not with on_loop */
    bool start_always; /* begins at start_if_new, whatever is stored under the name */
} coney_stream_consumer_options;

/* CONEY_EINVAL also for neither or both handlers, credit_every above half of credit, a name over 255 bytes. CONEY_ENOTFOUND,
 * CONEY_EUNAVAILABLE, CONEY_EACCESS. Messages may come before this returns. */
CONEY_API coney_stream_consumer *coney_stream_consumer_open_sized(coney_stream_env *env, const char *stream,
                                                                  const coney_stream_consumer_options *options,
                                                                  size_t options_size, coney_call *call);
static inline coney_stream_consumer *coney_stream_consumer_open(coney_stream_env *env, const char *stream,
                                                                const coney_stream_consumer_options *options, coney_call *call)
{
    return coney_stream_consumer_open_sized(env, stream, options, sizeof *options, call);
}

/* Ends the subscription. No handler starts after it has returned; it waits for one that runs, but not from inside that handler. Stores the
 * offset of what is done, unless store_by_hand. call->value: deliveries still kept (they stay readable; settling them answers
 * CONEY_ECLOSED). Clears *consumer; NULL there is harmless. */
CONEY_API coney_status coney_stream_consumer_close(coney_stream_consumer **consumer, coney_call *call);

/* No handler starts between pause and resume; pause waits for one that runs, but neither from inside that handler nor on the
 * loop. Credit stays out, so what the broker may send ahead stays in memory. Each answers CONEY_OK when it was so already. */
CONEY_API coney_status coney_stream_consumer_pause(coney_stream_consumer *consumer);
CONEY_API coney_status coney_stream_consumer_resume(coney_stream_consumer *consumer);

/* With credit_by_hand: gives credit for `chunks` more. CONEY_EINVAL: not by hand, or outside 1 … 32767. */
CONEY_API coney_status coney_stream_consumer_credit(coney_stream_consumer *consumer, int64_t chunks);

/* Stores `offset` under the consumer's name; a new process begins after it. Leaves at once and is not answered (the protocol has no
 * answer for it). CONEY_EINVAL: no name, or UINT64_MAX; CONEY_EAGAIN: no connection at the moment. */
CONEY_API coney_status coney_stream_consumer_store(coney_stream_consumer *consumer, uint64_t offset);

/* Takes the delivery along: return CONEY_KEPT, settle later with coney_kept_settle. Only inside on_message, once. NULL: memory is out
 * (settle it otherwise). It holds back the stored offset. A small message is copied, a larger one holds its chunk's memory. */
CONEY_API coney_kept *coney_stream_keep(const coney_stream_delivery *delivery);

/* The delivery that was kept; valid until it is settled. */
CONEY_API const coney_stream_delivery *coney_stream_kept_delivery(const coney_kept *kept);

typedef struct coney_stream_consumer_stats {
    uint64_t messages; /* handed over */
    uint64_t bytes;    /* of their entries */
    uint64_t chunks;   /* received */
    uint64_t acked;
    uint64_t rejected;
    uint64_t requeued; /* requeues and retries */
    uint64_t kept;     /* open now */
    uint64_t kept_bytes;
    uint64_t queued_chunks; /* received and not yet handed over */
    uint64_t reconnects;
    uint64_t unreadable;    /* entries and chunks that could not be read */
    uint64_t last_offset;   /* of the last message that was handed over */
    uint64_t stored_offset; /* last stored by this handle */
    uint64_t credits;       /* Credit frames written */
    uint64_t reserved[6];
} coney_stream_consumer_stats;

/* A snapshot. Frozen layout. Never blocks. */
CONEY_API coney_status coney_stream_consumer_get_stats(const coney_stream_consumer *consumer,
                                                       coney_stream_consumer_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
