/* coney/amqp.h: RabbitMQ over AMQP 0-9-1: environment, topology, publishers, consumers, requests, transactions, raw channels.
 *
 *     coney_call call = {0};
 *     coney_amqp *rabbit = coney_amqp_open("amqp://localhost", NULL, &call);
 *     coney_amqp_queue queue = {.name = "orders", .type = CONEY_QUEUE_QUORUM};
 *     coney_amqp_queue_declare(rabbit, &queue, &call);
 *     coney_amqp_publisher_options options = {.routing_key = "orders", .on_outcome = on_outcome};
 *     coney_amqp_publisher *orders = coney_amqp_publisher_open(rabbit, &options, &call);
 *     coney_amqp_message message = {.body = CONEY_STR("{\"id\":42}"), .tag = 42};
 *     if (coney_amqp_publish(orders, &message) != CONEY_OK)    // persistent, confirmed and mandatory, unless told otherwise
 *         return 1;
 *     coney_amqp_publisher_close(&orders, &call);              // every message has had its outcome
 *     coney_amqp_close(&rabbit, NULL);
 *
 * Every handle may be used from any thread; <coney/coney.h> says which kind of call may come from where. Options are structs whose
 * zero is the default; strings in them are copied. Names and keys are at most 255 bytes. Unless a function says otherwise, a control
 * call can also end with CONEY_EINVAL, CONEY_ENOMEM, CONEY_ECLOSED, CONEY_ETIMEDOUT, CONEY_ECANCELED, CONEY_EDEADLK, CONEY_EFORKED, or
 * a failure of the connection (CONEY_ERESOLVE, CONEY_ECONNECT, CONEY_ELOST, CONEY_ELIMIT, CONEY_EPROTOCOL, CONEY_EAUTH, CONEY_EVHOST,
 * CONEY_ETLS); or with what the broker refused it for, its reply code in call->code and its words in call->text: CONEY_ENOTFOUND (404),
 * CONEY_EACCESS (403), CONEY_EPRECONDITION (406), CONEY_EUNAVAILABLE (405: locked by another connection), CONEY_EBROKER (others).
 *
 * Connections are made and shared behind the scenes, one kind each for publishing, consuming and the rest; every publisher, consumer, requester,
 * transaction and raw channel has a channel of its own.
 */
#ifndef CONEY_AMQP_H
#define CONEY_AMQP_H

#include <coney/coney.h>
#include <coney/loop.h>
#include <coney/tls.h>
#include <coney/value.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coney_amqp coney_amqp;
typedef struct coney_amqp_publisher coney_amqp_publisher;
typedef struct coney_amqp_consumer coney_amqp_consumer;
typedef struct coney_amqp_requester coney_amqp_requester;
typedef struct coney_amqp_tx coney_amqp_tx;
typedef struct coney_amqp_channel coney_amqp_channel;

/* Environment ---------------------------------------------------------------------------------------------------- */

typedef struct coney_amqp_options {
    coney_loop *loop;             /* NULL = a thread of its own */
    const char *name;             /* connection name that the broker shows; default "coney" */
    const char *const *addresses; /* further "host:port" to try, in order, after those of the URI; NULL-terminated */
    coney_event_fn on_event;      /* every step of connections and recovery */
    void *event_ctx;
    coney_log_fn on_log;
    void *log_ctx;
    const coney_field *client_properties; /* strings, shown by the broker beside coney's own */
    size_t client_property_count;
    const coney_tls_options *tls;     /* for amqps; with amqp it is refused (CONEY_EINVAL) */
    const char *mechanism;            /* "PLAIN" (default), "AMQPLAIN", "EXTERNAL", "ANONYMOUS" */
    coney_credentials_fn credentials; /* asked, not the URI's user and password; a close waits for a call under way */
    void *credentials_ctx;
    int64_t heartbeat;       /* nanoseconds, whole seconds; default 60 s, CONEY_OFF = none */
    int64_t connect_timeout; /* TCP and TLS of an address; default 5 s. The log-in has 6 s a step: refusals come late */
    int64_t call_deadline;   /* what a call's 0 stands for; default 10 s */
    int64_t frame_max;   /* bytes, what we offer; default 128 KiB, at least 8 KiB (4 KiB where the broker is older than 4.1) */
    int64_t channel_max; /* channels a connection, then there is another one; default 2,047, or what the broker allows */
    int64_t max_message; /* bytes of the largest message from the broker; default 128 MiB. A larger one ends the connection */
    int64_t recovery_delay;     /* first pause between attempts, doubling; default 0.5 s */
    int64_t recovery_max_delay; /* default 30 s */
    coney_log_level log_level;  /* default CONEY_LOG_INFO */
    bool shuffle;               /* try the addresses in random order */
    bool no_recovery;           /* a lost place is not looked for again: the handle ends with CONEY_EVENT_GAVE_UP */
    bool keep_trying;           /* asynchronous open: go on after every address has failed */
    bool handler_thread;        /* on a loop of the user's: handlers run on a thread of their own all the same */
} coney_amqp_options;

/* Connects and logs in. `uri`: amqp[s]://[user[:password]@]host[:port][,host:port…][/vhost][?option=value…]; default user and password
 * "guest", port 5672 (amqps: 5671), virtual host "/" (an empty one after the slash is the empty name). Options of the URI: heartbeat (s),
 * connection_timeout (ms), frame_max, channel_max, auth_mechanism, name, shuffle (true|false), cacertfile, certfile, keyfile, password (of
 * the key), verify (verify_peer|verify_none), server_name_indication; an option of the struct wins. NULL `uri` = "amqp://localhost".
 * With amqps nothing is ever sent in clear text.
 * Returns the handle or NULL. With call->on_done it exists at once; if opening fails the handle is dead (every use answers
 * CONEY_ECLOSED) unless `.keep_trying`, and still must be closed. Without on_done each address is tried once. */
CONEY_API coney_amqp *coney_amqp_open_sized(const char *uri, const coney_amqp_options *options, size_t options_size,
                                            coney_call *call);
static inline coney_amqp *coney_amqp_open(const char *uri, const coney_amqp_options *options, coney_call *call)
{
    return coney_amqp_open_sized(uri, options, sizeof *options, call);
}

/* Closes everything that is still open on it (as their own close functions do, their handles become invalid), then the connections.
 * call->value: messages whose outcome was not CONEY_OK because of the close. Clears *rabbit; NULL there is harmless.
 * From a handler or callback it returns at once: that handler is called no more, others may be until call->on_done says that all has ended. */
CONEY_API coney_status coney_amqp_close(coney_amqp **rabbit, coney_call *call);

/* Gives a new password or token to every open connection now (update-secret) and to later log-ins. A broker that refuses it closes the
 * connection, which is then looked for again with the new one: CONEY_EAUTH with its words. CONEY_ETOOBIG: it does not fit a frame. CONEY_EINVAL
 * with `.credentials`, which are asked instead. */
CONEY_API coney_status coney_amqp_update_secret(coney_amqp *rabbit, const char *secret, coney_call *call);

typedef struct coney_amqp_stats {
    uint64_t connections; /* open now */
    uint64_t connections_made;
    uint64_t connections_lost;
    uint64_t blocked;           /* connections that the broker blocks now */
    uint64_t channels;          /* open now */
    uint64_t publishers;        /* handles */
    uint64_t publishers_active; /* that have their place now */
    uint64_t consumers;
    uint64_t consumers_active; /* that are subscribed now: fewer than `consumers` means connected but not all subscribed */
    uint64_t bytes_in;         /* over all connections there were */
    uint64_t bytes_out;
    uint64_t memory_out;  /* bytes of receive buffers and outboxes in use */
    uint64_t memory_idle; /* bytes kept for reuse */
    uint64_t reserved[11];
} coney_amqp_stats;

/* A snapshot. Frozen layout. Never blocks. */
CONEY_API coney_status coney_amqp_get_stats(const coney_amqp *rabbit, coney_amqp_stats *stats);

/* Topology ------------------------------------------------------------------------------------------------------- */

/* What is declared here is remembered and declared again after a connection was lost: exchanges, then queues, then bindings. What is
 * deleted here is forgotten; passive declarations are never remembered. An exclusive queue lives on the connection for consuming. */

typedef struct coney_amqp_exchange {
    const char *name;
    const char *type; /* "direct" (default), "topic", "fanout", "headers", or a plugin's, such as "x-consistent-hash" */
    const char *alternate_exchange; /* gets what cannot be routed */
    const coney_field *arguments;   /* any further argument */
    size_t argument_count;
    bool transient;   /* gone when the broker restarts */
    bool auto_delete; /* gone with its last binding */
    bool internal;    /* only other exchanges may publish to it */
    bool passive;     /* only ask whether it exists */
    bool forget;      /* do not declare it again after a reconnect */
    uint8_t reserved[3];
} coney_amqp_exchange;

CONEY_API coney_status coney_amqp_exchange_declare_sized(coney_amqp *rabbit, const coney_amqp_exchange *exchange, size_t size,
                                                         coney_call *call);
static inline coney_status coney_amqp_exchange_declare(coney_amqp *rabbit, const coney_amqp_exchange *exchange,
                                                       coney_call *call)
{
    return coney_amqp_exchange_declare_sized(rabbit, exchange, sizeof *exchange, call);
}

/* Conditions of a delete; they add up. What does not hold answers CONEY_EPRECONDITION. */
#define CONEY_IF_UNUSED 1u
#define CONEY_IF_EMPTY 2u

/* Deleting what does not exist is CONEY_OK (the broker's rule). */
CONEY_API coney_status coney_amqp_exchange_delete(coney_amqp *rabbit, const char *exchange, unsigned conditions,
                                                  coney_call *call);

typedef enum coney_queue_type {
    CONEY_QUEUE_DEFAULT = 0, /* the virtual host's default type, classic unless it was changed */
    CONEY_QUEUE_CLASSIC = 1,
    CONEY_QUEUE_QUORUM = 2,
    CONEY_QUEUE_STREAM = 3,
} coney_queue_type;

/* What the broker said of a queue. Frozen layout. */
typedef struct coney_amqp_queue_info {
    char name[256];
    uint64_t messages; /* ready */
    uint64_t consumers;
    uint64_t reserved[4];
} coney_amqp_queue_info;

typedef struct coney_amqp_queue {
    const char *name; /* NULL or "": the broker makes one, see `info`; coney goes on knowing the queue by that name, also when a
                         reconnect gives it another (CONEY_EVENT_QUEUE_RENAMED) */
    coney_queue_type type;
    uint32_t reserved_number;
    coney_amqp_queue_info *info;         /* NULL, or filled; must live until the call has ended */
    int64_t message_ttl;                 /* nanoseconds, whole milliseconds; 0 = none */
    int64_t expires;                     /* nanoseconds without use until the queue is deleted; 0 = never */
    int64_t max_length;                  /* messages; 0 = no limit */
    int64_t max_length_bytes;            /* 0 = no limit */
    const char *overflow;                /* "drop-head", "reject-publish", "reject-publish-dlx"; NULL = the broker's default */
    const char *dead_letter_exchange;    /* NULL = none; "" = the default exchange */
    const char *dead_letter_routing_key; /* NULL = the message's own */
    const char *dead_letter_strategy;    /* quorum: "at-most-once", "at-least-once" */
    int64_t max_priority;                /* classic: 1 to 255; 0 = none */
    int64_t delivery_limit; /* quorum: returns before a message is dead-lettered; 0 = the broker's default, CONEY_OFF = none */
    int64_t initial_group_size;   /* quorum and stream: replicas at first; 0 = the broker's default */
    const char *leader_locator;   /* "client-local", "balanced" */
    int64_t max_age;              /* stream: nanoseconds, whole seconds; 0 = no limit */
    int64_t max_segment_size;     /* stream: bytes; 0 = the broker's default */
    const coney_field *arguments; /* any further argument */
    size_t argument_count;
    bool transient;   /* classic only; gone when the broker restarts */
    bool exclusive;   /* of this environment's connection for consuming: gone with it */
    bool auto_delete; /* gone with its last consumer */
    bool single_active_consumer;
    bool passive; /* only ask whether it exists */
    bool forget;  /* do not declare it again after a reconnect */
    uint8_t reserved[2];
} coney_amqp_queue;

/* call->value: messages that are ready. CONEY_EPRECONDITION also for one that exists with other arguments. */
CONEY_API coney_status coney_amqp_queue_declare_sized(coney_amqp *rabbit, const coney_amqp_queue *queue, size_t size,
                                                      coney_call *call);
static inline coney_status coney_amqp_queue_declare(coney_amqp *rabbit, const coney_amqp_queue *queue, coney_call *call)
{
    return coney_amqp_queue_declare_sized(rabbit, queue, sizeof *queue, call);
}

/* call->value: messages that went with it. Deleting what does not exist is CONEY_OK (the broker's rule). */
CONEY_API coney_status coney_amqp_queue_delete(coney_amqp *rabbit, const char *queue, unsigned conditions, coney_call *call);

/* call->value: messages that were ready and are gone. */
CONEY_API coney_status coney_amqp_queue_purge(coney_amqp *rabbit, const char *queue, coney_call *call);

typedef struct coney_amqp_binding {
    const char *source;      /* exchange */
    const char *destination; /* queue, or exchange with `to_exchange` */
    const char *routing_key; /* NULL = "" */
    const coney_field *arguments;
    size_t argument_count;
    bool to_exchange;
    bool forget; /* do not bind it again after a reconnect */
    uint8_t reserved[6];
} coney_amqp_binding;

CONEY_API coney_status coney_amqp_bind_sized(coney_amqp *rabbit, const coney_amqp_binding *binding, size_t size,
                                             coney_call *call);
static inline coney_status coney_amqp_bind(coney_amqp *rabbit, const coney_amqp_binding *binding, coney_call *call)
{
    return coney_amqp_bind_sized(rabbit, binding, sizeof *binding, call);
}

/* The same source, destination, key and arguments as it was bound with. Unbinding what is not bound is CONEY_OK (the broker's rule). */
CONEY_API coney_status coney_amqp_unbind_sized(coney_amqp *rabbit, const coney_amqp_binding *binding, size_t size,
                                               coney_call *call);
static inline coney_status coney_amqp_unbind(coney_amqp *rabbit, const coney_amqp_binding *binding, coney_call *call)
{
    return coney_amqp_unbind_sized(rabbit, binding, sizeof *binding, call);
}

/* Publisher ------------------------------------------------------------------------------------------------------ */

/* One message. What is empty or zero is left out on the wire. */
typedef struct coney_amqp_message {
    coney_bytes body;
    coney_bytes exchange;    /* .data NULL: the publisher's */
    coney_bytes routing_key; /* .data NULL: the publisher's */
    coney_bytes content_type;
    coney_bytes content_encoding;
    coney_bytes correlation_id;
    coney_bytes reply_to;
    coney_bytes message_id;
    coney_bytes type;
    coney_bytes user_id; /* the broker refuses any but the one that is logged in */
    coney_bytes app_id;
    const coney_field *headers;
    size_t header_count;
    const coney_value *header_table; /* instead of `headers`: a delivery's, or made with coney_builder_init_table */
    int64_t expiration; /* nanoseconds, whole milliseconds; 0 = none, CONEY_OFF = at once unless a consumer waits */
    int64_t timestamp;  /* milliseconds since 1970, whole seconds on the wire; 0 = none */
    uint64_t tag;       /* comes back in the outcome */
    uint8_t priority;   /* with has_priority */
    bool has_priority;
    bool transient;       /* not written to disk by a classic queue */
    bool drop_unroutable; /* not mandatory: what no queue takes is dropped and confirmed */
    uint8_t reserved[4];
} coney_amqp_message;

typedef struct coney_amqp_publisher_options {
    const char *exchange; /* default: the default exchange, which routes to the queue that the key names */
    const char *routing_key;
    const char *name;               /* told apart by it in the texts of events: "the publisher 'audit' to exchange …" */
    coney_outcome_fn on_outcome;    /* once for each accepted message, on the loop */
    void (*on_writable)(void *ctx); /* on the loop: after a publish that answered CONEY_EAGAIN there is room again */
    void *ctx;                      /* for both */
    int64_t max_messages;           /* accepted without an outcome; default 10,000 */
    int64_t max_bytes;              /* the same in bytes; default 64 MiB */
    int64_t enqueue_timeout;        /* how long publish waits at a bound; default 10 s, CONEY_OFF = not at all */
    int64_t confirm_timeout;  /* an older message becomes CONEY_EUNKNOWN; default CONEY_OFF, checked every quarter of it */
    int64_t max_message_size; /* bytes: a larger body is refused before it is queued; default CONEY_OFF. The broker's own limit
                                       (max_message_size) is not on the wire: a message over it is found and refused by resending */
    bool no_resend;           /* after a cut, messages without an outcome become CONEY_EUNKNOWN instead of being sent again */
    bool unconfirmed; /* no confirms: the outcome CONEY_OK says that the message was written to the connection, nothing more */
    bool transient;   /* all messages are transient */
    bool drop_unroutable; /* none is mandatory */
    bool keep_trying;     /* asynchronous open: a refusal is tried again, too */
    uint8_t reserved[3];
} coney_amqp_publisher_options;

/* The publisher has a channel of its own. That its exchange exists is found out by the first publish: a message that makes the broker close
 * the channel (404, 403, 406) is found by sending what has no outcome again one at a time; it ends as CONEY_EREFUSED with code and text, the
 * others go on (with `.no_resend` several become CONEY_EUNKNOWN with that text, one alone is the one). While the broker takes no publishes (CONEY_EVENT_BLOCKED) they are
 * accepted up to the bounds and wait. With on_done the handle exists at once; publishes wait (or answer CONEY_EAGAIN) until it is open. */
CONEY_API coney_amqp_publisher *coney_amqp_publisher_open_sized(coney_amqp *rabbit, const coney_amqp_publisher_options *options,
                                                                size_t options_size, coney_call *call);
static inline coney_amqp_publisher *coney_amqp_publisher_open(coney_amqp *rabbit, const coney_amqp_publisher_options *options,
                                                              coney_call *call)
{
    return coney_amqp_publisher_open_sized(rabbit, options, sizeof *options, call);
}

/* Queues one message, which is copied. CONEY_OK: exactly one outcome with its tag will come: CONEY_OK (the broker has it), CONEY_EREFUSED
 * (nack, or it made the broker close the channel), CONEY_ERETURNED (no queue took it), CONEY_EUNKNOWN. Anything else: nothing was queued, no
 * outcome comes: CONEY_EAGAIN (at a bound and waiting is not allowed here), CONEY_ETIMEDOUT (waited enqueue_timeout at a bound),
 * CONEY_ETOOBIG (over max_message_size, or over 512 MiB, which no broker takes; or its properties do not fit one frame of frame_max, which cannot
 * be split), CONEY_EINVAL (a name, key or property over 255 bytes, a header that has no form on the wire), CONEY_ECLOSED, CONEY_EFORKED,
 * CONEY_ENOMEM. */
CONEY_API CONEY_MUST_CHECK coney_status coney_amqp_publish_sized(coney_amqp_publisher *publisher,
                                                                 const coney_amqp_message *message, size_t size);
static inline CONEY_MUST_CHECK coney_status coney_amqp_publish(coney_amqp_publisher *publisher,
                                                               const coney_amqp_message *message)
{
    return coney_amqp_publish_sized(publisher, message, sizeof *message);
}

/* Publishes `count` messages, entering the publisher once; each has an outcome of its own. *accepted (may be NULL): how many were queued
 * before the status that is returned. */
CONEY_API CONEY_MUST_CHECK coney_status coney_amqp_publish_batch_sized(coney_amqp_publisher *publisher,
                                                                       const coney_amqp_message *messages, size_t count,
                                                                       size_t message_size, size_t *accepted);
static inline CONEY_MUST_CHECK coney_status coney_amqp_publish_batch(coney_amqp_publisher *publisher,
                                                                     const coney_amqp_message *messages, size_t count,
                                                                     size_t *accepted)
{
    return coney_amqp_publish_batch_sized(publisher, messages, count, sizeof *messages, accepted);
}

/* Publishes one message and waits for its outcome: CONEY_OK, CONEY_EREFUSED, CONEY_ERETURNED, CONEY_EUNKNOWN (with the broker's code and
 * words), or what coney_amqp_publish answers. When the call's deadline passes first: CONEY_ETIMEDOUT, and the outcome is dropped.
 * on_outcome is not called for it. */
CONEY_API coney_status coney_amqp_publish_wait_sized(coney_amqp_publisher *publisher, const coney_amqp_message *message,
                                                     size_t size, coney_call *call);
static inline coney_status coney_amqp_publish_wait(coney_amqp_publisher *publisher, const coney_amqp_message *message,
                                                   coney_call *call)
{
    return coney_amqp_publish_wait_sized(publisher, message, sizeof *message, call);
}

/* Waits until every message accepted before this call has its outcome. */
CONEY_API coney_status coney_amqp_publisher_flush(coney_amqp_publisher *publisher, coney_call *call);

/* Waits for outcomes up to the call's deadline; what has none then becomes CONEY_EUNKNOWN, and the close answers CONEY_ETIMEDOUT. It does not
 * wait for a broker that cannot be reached: once an attempt to find a place again has failed, what is in hand becomes CONEY_EUNKNOWN and the
 * close answers CONEY_ELOST (coney_amqp_publisher_flush waits). Wakes publishes that wait with CONEY_ECLOSED. The handle is closed whatever is
 * answered. call->value: how many messages had another outcome than CONEY_OK while it was closing. Clears *publisher; NULL there is harmless.
 * When it has ended no callback runs any more; from a callback it returns
 * at once, and the outcomes that are due come after it. */
CONEY_API coney_status coney_amqp_publisher_close(coney_amqp_publisher **publisher, coney_call *call);

typedef struct coney_amqp_publisher_stats {
    uint64_t accepted;       /* messages */
    uint64_t accepted_bytes; /* encoded */
    uint64_t confirmed;
    uint64_t refused;
    uint64_t returned;
    uint64_t unknown;
    uint64_t resent;
    uint64_t pending; /* without an outcome now */
    uint64_t pending_bytes;
    uint64_t reconnects;
    uint64_t reserved[6];
} coney_amqp_publisher_stats;

/* A snapshot. Frozen layout. Never blocks. */
CONEY_API coney_status coney_amqp_publisher_get_stats(const coney_amqp_publisher *publisher, coney_amqp_publisher_stats *stats);

/* Transactions --------------------------------------------------------------------------------------------------- */

/* A channel of its own in transaction mode: what is published there is routed when it is committed, all of it or, when the connection is lost
 * before the commit is sent, none. Slow (the broker syncs); confirms are the better choice unless several messages must appear together. */

/* The scope is open from here on. It is not recovered: after a cut every use answers CONEY_ELOST. */
CONEY_API coney_amqp_tx *coney_amqp_tx_begin(coney_amqp *rabbit, coney_call *call);

/* Adds a message, copied, to the transaction; its `exchange` and `routing_key` say where it goes. Never waits. Persistent unless `.transient`. One
 * that no queue takes fails nothing: it is CONEY_EVENT_RETURNED, unless `.drop_unroutable`. CONEY_EINVAL, CONEY_ETOOBIG, CONEY_ELOST,
 * CONEY_ENOMEM, CONEY_ECLOSED, CONEY_EFORKED, CONEY_EAGAIN (begun with on_done, and not open yet); what the broker refuses later fails the
 * commit. */
CONEY_API CONEY_MUST_CHECK coney_status coney_amqp_tx_publish_sized(coney_amqp_tx *tx, const coney_amqp_message *message,
                                                                    size_t size);
static inline CONEY_MUST_CHECK coney_status coney_amqp_tx_publish(coney_amqp_tx *tx, const coney_amqp_message *message)
{
    return coney_amqp_tx_publish_sized(tx, message, sizeof *message);
}

/* Ends the scope; *tx is cleared, NULL there is harmless (CONEY_OK). Commit: CONEY_OK when all messages were taken; CONEY_EUNKNOWN when the
 * connection was lost after the commit had been sent; CONEY_ELOST (before), or the broker's refusal: none was taken; CONEY_ETIMEDOUT: the text
 * says whether it had been sent. Rollback: none is taken. On the loop neither waits: set on_done to learn how a commit ends. */
CONEY_API coney_status coney_amqp_tx_commit(coney_amqp_tx **tx, coney_call *call);
CONEY_API coney_status coney_amqp_tx_rollback(coney_amqp_tx **tx, coney_call *call);

/* Consumer ------------------------------------------------------------------------------------------------------- */

/* One message. All pointers are valid until the handler returns, or as long as it is kept. May grow at its end. */
typedef struct coney_amqp_delivery {
    coney_bytes body;
    coney_bytes exchange;
    coney_bytes routing_key;
    const char *queue;             /* as it was given; "" for a reply */
    coney_amqp_consumer *consumer; /* NULL for coney_amqp_get and for a reply */
    uint64_t delivery_tag;         /* for logs; 0 for a reply */
    coney_bytes encoded_properties;
    bool redelivered;
    uint8_t reserved[7];
    const void *internal;
} coney_amqp_delivery;

/* The properties of a message, decoded when asked for. Frozen layout. */
typedef struct coney_amqp_properties {
    coney_bytes content_type; /* empty when absent, as all strings here */
    coney_bytes content_encoding;
    coney_bytes correlation_id;
    coney_bytes reply_to;
    coney_bytes message_id;
    coney_bytes type;
    coney_bytes user_id;
    coney_bytes app_id;
    coney_bytes expiration; /* as the sender wrote it: milliseconds in decimal */
    coney_value headers;    /* a map; null when absent: coney_value_find, coney_value_elements */
    int64_t timestamp;      /* milliseconds since 1970; with has_timestamp */
    uint8_t priority;       /* with has_priority */
    bool has_priority;
    bool has_timestamp;
    bool persistent;
    uint8_t reserved[4];
    uint64_t reserved_numbers[4];
} coney_amqp_properties;

/* Views into the delivery. CONEY_ECORRUPT: they cannot be decoded (a header of unknown type, a length beyond the end). */
CONEY_API coney_status coney_amqp_delivery_properties(const coney_amqp_delivery *delivery, coney_amqp_properties *properties);

/* One header; false when there is none of that name (of several, the first). */
CONEY_API bool coney_amqp_delivery_header(const coney_amqp_delivery *delivery, coney_bytes name, coney_value *value);

/* How often it was given back before (x-delivery-count of quorum queues), 0 where the broker does not count. */
CONEY_API uint64_t coney_amqp_delivery_count(const coney_amqp_delivery *delivery);

typedef struct coney_amqp_consumer_options {
    coney_settle (*on_delivery)(void *ctx, const coney_amqp_delivery *delivery); /* on the dispatcher */
    void *ctx;
    const char *tag;  /* consumer tag; default: one that the broker makes */
    int64_t prefetch; /* messages sent ahead of their settlement; default 256, at most 65,535, CONEY_OFF = no limit */
    int64_t ack_run;  /* acks that may be gathered into one; default a quarter of the prefetch, 1 = each is written by itself */
    int64_t priority; /* with has_priority: consumers of a higher one are served first */
    const coney_field *arguments; /* "x-stream-offset" and what else the queue takes */
    size_t argument_count;
    /* Bytes of kept deliveries; default 64 MiB: beyond it the next message is held back. A large one can count up to twice its size. */
    int64_t max_kept;
    /* Bytes received and not yet handed over; default 64 MiB: beyond it the connection is read no further, which holds up the other consumers on it. */
    int64_t max_queued;
    bool has_priority;
    bool exclusive;   /* no other consumer may be on the queue */
    bool no_ack;      /* the broker forgets what it sends: nothing is settled, and at a cut messages are lost */
    bool no_local;    /* passed on as it is */
    bool on_loop;     /* handlers run on the loop: microseconds faster, and a slow one stops everything */
    bool paused;      /* nothing is handed over before coney_amqp_consumer_resume */
    bool keep_trying; /* asynchronous open: a missing queue or a refusal is tried again, too */
    bool own_thread;  /* the handler runs on a thread for this consumer alone: a slow one holds up no other. Not with on_loop */
} coney_amqp_consumer_options;

/* The consumer has a channel of its own. Messages may come before this returns. What the handler returns settles the message: CONEY_ACK;
 * CONEY_REJECT (dropped or dead-lettered); CONEY_REQUEUE (counts towards a quorum queue's delivery limit); coney_retry_after (held here for
 * that long, then requeued); CONEY_KEPT. Acks go out in runs: the deliveries up to the first that is open as one frame. After a reconnect it
 * consumes again; what was not settled comes again, also what was received and waited for its handler, and its old deliveries settle nothing any
 * more. */
CONEY_API coney_amqp_consumer *coney_amqp_consumer_open_sized(coney_amqp *rabbit, const char *queue,
                                                              const coney_amqp_consumer_options *options, size_t options_size,
                                                              coney_call *call);
static inline coney_amqp_consumer *coney_amqp_consumer_open(coney_amqp *rabbit, const char *queue,
                                                            const coney_amqp_consumer_options *options, coney_call *call)
{
    return coney_amqp_consumer_open_sized(rabbit, queue, options, sizeof *options, call);
}

/* Ends it: waits for a handler that runs (not from inside that handler) and starts none after that, cancels, writes the acks that are due, gives
 * back with nack what no handler had and what is still kept, closes the channel. call->value: how many kept deliveries that were (they
 * stay readable; settling them answers CONEY_ECLOSED). Clears *consumer; NULL there is harmless. */
CONEY_API coney_status coney_amqp_consumer_close(coney_amqp_consumer **consumer, coney_call *call);

/* No handler starts between pause and resume; pause waits for one that runs, but neither from inside that handler nor on the loop. Each
 * answers CONEY_OK when it was so already. */
CONEY_API coney_status coney_amqp_consumer_pause(coney_amqp_consumer *consumer);
CONEY_API coney_status coney_amqp_consumer_resume(coney_amqp_consumer *consumer);

/* Takes the delivery along: return CONEY_KEPT, settle later with coney_kept_settle: from any thread, in any order. Only inside on_delivery,
 * once. NULL: memory is out (settle it otherwise). Settling what came on a connection that is gone answers CONEY_ELOST and does nothing: the
 * broker gives that message again. A small message is copied, a larger one holds its block of received bytes. */
CONEY_API coney_kept *coney_amqp_keep(const coney_amqp_delivery *delivery);

/* The delivery that was kept; valid until it is settled. Also for what coney_amqp_get and coney_amqp_request gave. */
CONEY_API const coney_amqp_delivery *coney_amqp_kept_delivery(const coney_kept *kept);

typedef struct coney_amqp_consumer_stats {
    uint64_t messages; /* handed over */
    uint64_t bytes;    /* of their bodies */
    uint64_t acked;
    uint64_t rejected;
    uint64_t requeued; /* requeues and retries */
    uint64_t kept;     /* open now */
    uint64_t kept_bytes;
    uint64_t queued_bytes; /* received and not yet handed over */
    uint64_t stale;        /* settlements of deliveries whose connection was gone */
    uint64_t ack_frames;   /* basic.ack written */
    uint64_t reconnects;
    uint64_t reserved[6];
} coney_amqp_consumer_stats;

/* A snapshot. Frozen layout. Never blocks. */
CONEY_API coney_status coney_amqp_consumer_get_stats(const coney_amqp_consumer *consumer, coney_amqp_consumer_stats *stats);

/* Takes one message off the queue, without a consumer: slow (a round trip a message), for tools and tests. *kept (must live until the call has
 * ended) becomes the message, to be settled with coney_kept_settle, or NULL when the queue is empty: CONEY_OK for both.
 * call->value: messages that are still ready. */
CONEY_API coney_status coney_amqp_get(coney_amqp *rabbit, const char *queue, coney_kept **kept, coney_call *call);

/* Request and reply ---------------------------------------------------------------------------------------------- */

typedef struct coney_amqp_requester_options {
    const char *exchange;    /* default: the default exchange */
    const char *routing_key; /* where requests go unless they say otherwise */
    int64_t max_requests;    /* without a reply; default 10,000 */
    bool keep_trying;        /* asynchronous open: a refusal is tried again, too */
    uint8_t reserved[7];
} coney_amqp_requester_options;

/* Requests with direct reply-to (queue amq.rabbitmq.reply-to), on a channel of its own; survives reconnects. */
CONEY_API coney_amqp_requester *coney_amqp_requester_open_sized(coney_amqp *rabbit, const coney_amqp_requester_options *options,
                                                                size_t options_size, coney_call *call);
static inline coney_amqp_requester *coney_amqp_requester_open(coney_amqp *rabbit, const coney_amqp_requester_options *options,
                                                              coney_call *call)
{
    return coney_amqp_requester_open_sized(rabbit, options, sizeof *options, call);
}

/* Sends a request (transient, mandatory; its correlation_id and reply_to are coney's) and waits for its reply, which *reply becomes; it must live
 * until the call has ended, and coney_kept_settle frees what it holds. CONEY_ETIMEDOUT: no reply within the call's deadline (a later one is
 * dropped and counted). CONEY_ERETURNED: no queue took the request. CONEY_ELOST: the connection was lost while it was under way, or is lost
 * now: it is not sent again, since it may have been carried out. CONEY_EAGAIN: max_requests are under way. */
CONEY_API coney_status coney_amqp_request_sized(coney_amqp_requester *requester, const coney_amqp_message *message, size_t size,
                                                coney_kept **reply, coney_call *call);
static inline coney_status coney_amqp_request(coney_amqp_requester *requester, const coney_amqp_message *message,
                                              coney_kept **reply, coney_call *call)
{
    return coney_amqp_request_sized(requester, message, sizeof *message, reply, call);
}

/* Replies that came for no request: late, doubled, or with a correlation id that nobody waits for. Never blocks. */
CONEY_API uint64_t coney_amqp_requester_dropped(const coney_amqp_requester *requester);

/* Ends it; requests under way end with CONEY_ECLOSED. Clears *requester; NULL there is harmless. */
CONEY_API coney_status coney_amqp_requester_close(coney_amqp_requester **requester, coney_call *call);

/* Publishes `message` as the reply to `request`: to its reply_to, with its correlation_id. Not mandatory: the broker drops replies to
 * requesters that are gone. CONEY_EINVAL: the request has no reply_to; else as coney_amqp_publish. */
CONEY_API CONEY_MUST_CHECK coney_status coney_amqp_reply_sized(coney_amqp_publisher *publisher,
                                                               const coney_amqp_delivery *request,
                                                               const coney_amqp_message *message, size_t size);
static inline CONEY_MUST_CHECK coney_status coney_amqp_reply(coney_amqp_publisher *publisher,
                                                             const coney_amqp_delivery *request,
                                                             const coney_amqp_message *message)
{
    return coney_amqp_reply_sized(publisher, request, message, sizeof *message);
}

/* Raw channel ---------------------------------------------------------------------------------------------------- */

/* For whatever else the protocol has. A channel that nothing recovers: when the broker closes it or the connection is lost, every use answers
 * CONEY_ELOST or the broker's refusal, whose code and words calls repeat. It shares its connection with the environment's requests, or with
 * consumers: what it publishes while the broker is short of memory or disk holds those up, too, until the broker reads on. Publishers and requesters
 * have a connection of their own. */

/* A method and its fields in the order of the specification, bits as booleans, the reserved ones included; tables are maps. */
typedef struct coney_amqp_method {
    uint16_t class_id;
    uint16_t method_id;
    uint32_t field_count;
    const coney_value *fields;
} coney_amqp_method;

typedef struct coney_amqp_channel_options {
    /* On the loop, must be short: a method that answers no call (deliver, return, ack, cancel …), with its content if it has one, else NULL.
     * All of it is valid until the callback returns. */
    void (*on_method)(void *ctx, const coney_amqp_method *method, const coney_amqp_delivery *content);
    void (*on_closed)(void *ctx, coney_status status, uint32_t code,
                      const char *text); /* on the loop, once, unless it was closed here */
    void *ctx;
    bool consuming; /* on the connection for consuming, rather than the one for requests: for exclusive queues */
    uint8_t reserved[7];
} coney_amqp_channel_options;

CONEY_API coney_amqp_channel *coney_amqp_channel_open_sized(coney_amqp *rabbit, const coney_amqp_channel_options *options,
                                                            size_t options_size, coney_call *call);
static inline coney_amqp_channel *coney_amqp_channel_open(coney_amqp *rabbit, const coney_amqp_channel_options *options,
                                                          coney_call *call)
{
    return coney_amqp_channel_open_sized(rabbit, options, sizeof *options, call);
}

/* Where an answer is put. Frozen layout. */
typedef struct coney_amqp_answer {
    coney_amqp_method method; /* its fields are `values` */
    coney_value values[16];   /* their strings are views of `memory` */
    char memory[1024];
} coney_amqp_answer;

/* Sends a method and waits for its answer, which *answer becomes; it may be NULL, else it must live until the call has ended. The message that
 * answers basic.get goes to on_method first. Methods go out in the order of the calls.
 * CONEY_EINVAL: no such method, fields that do not fit it, or one that has no answer (coney_amqp_channel_send).
 * CONEY_ETOOBIG: the answer's strings take more than its memory. */
CONEY_API coney_status coney_amqp_channel_call(coney_amqp_channel *channel, const coney_amqp_method *method,
                                               coney_amqp_answer *answer, coney_call *call);

/* Sends a method that has no answer: ack, nack, reject, or with `content` (NULL for none; its exchange and key are not looked at) publish.
 * It has left the process or will; nothing confirms it. CONEY_EAGAIN (4 MiB wait for the socket already, or it is not open yet), CONEY_EINVAL,
 * CONEY_ETOOBIG, CONEY_ELOST, CONEY_ECLOSED, CONEY_EFORKED, CONEY_ENOMEM. */
CONEY_API CONEY_MUST_CHECK coney_status coney_amqp_channel_send(coney_amqp_channel *channel, const coney_amqp_method *method,
                                                                const coney_amqp_message *content);

/* Clears *channel; NULL there is harmless. */
CONEY_API coney_status coney_amqp_channel_close(coney_amqp_channel **channel, coney_call *call);

#ifdef __cplusplus
}
#endif

#endif
