/* coney/coney.h: what both clients share: statuses, bytes, calls, outcomes, settlements, credentials, events, the log.
 *
 *     coney_call call = {0};
 *     coney_amqp *rabbit = coney_amqp_open("amqp://localhost", NULL, &call);    // or coney_stream_env_open
 *     if (rabbit == NULL)
 *         fprintf(stderr, "%s\n", call.text);    // says what was tried, what the broker said and what to do next
 *
 * From where may what be called? A control call is one that takes a coney_call: opening, declaring, waiting for an outcome, a request, get, a raw
 * channel's call. The end of a transaction counts as a close; publishing into one, and a raw channel's send, as send. A handler that runs on the
 * loop (`.on_loop`, or a loop of the user's without `.handler_thread`) stands in the loop's column.
 *
 *   | kind of function                      | user thread | handler (dispatcher) | outcome, event, on_done (loop) | signal handler | forked child   |
 *   | ------------------------------------- | ----------- | -------------------- | ------------------------------ | -------------- | -------------- |
 *   | control call that blocks              | yes         | yes                  | no: CONEY_EDEADLK              | no             | CONEY_EFORKED  |
 *   | control call with `on_done`           | yes         | yes                  | yes                            | no             | CONEY_EFORKED  |
 *   | close                                 | yes         | yes; never waits for | yes; never waits               | no             | CONEY_EFORKED; |
 *   |                                       |             | its own handler      |                                |                | only clears it |
 *   | send, publish, settle, credit         | yes         | yes                  | yes; CONEY_EAGAIN for a wait   | no             | CONEY_EFORKED  |
 *   | keep                                  | no          | yes                  | with `.on_loop`                | no             | no             |
 *   | statistics                            | yes         | yes                  | yes                            | no             | no             |
 *   | status texts, readers of values,      | yes         | yes                  | yes                            | texts only     | yes            |
 *   | messages and properties               |             |                      |                                |                |                |
 *
 * On a loop that the user steps, a control call that blocks on the stepping thread steps the loop until it is done.
 */
#ifndef CONEY_CONEY_H
#define CONEY_CONEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CONEY_API __attribute__((visibility("default")))
#define CONEY_MUST_CHECK __attribute__((warn_unused_result))

/* "0.1.0": the version of the library that is loaded, which may differ from CONEY_VERSION, the one compiled against. */
#define CONEY_VERSION "0.1.0"
CONEY_API const char *coney_version(void);

/* Durations are nanoseconds, points in time milliseconds since 1970, sizes bytes. */
#define CONEY_MICROSECOND INT64_C(1000)
#define CONEY_MILLISECOND INT64_C(1000000)
#define CONEY_SECOND INT64_C(1000000000)
#define CONEY_KIB (INT64_C(1) << 10)
#define CONEY_MIB (INT64_C(1) << 20)
#define CONEY_GIB (INT64_C(1) << 30)

/* In a numeric option: switched off. Zero always means "the default". */
#define CONEY_OFF (-1)

/* Statuses ------------------------------------------------------------------------------------------------------- */

typedef enum coney_status {
    CONEY_OK = 0,
    CONEY_EINVAL = 1,         /* an argument or option is not valid; the call's text names it */
    CONEY_ENOMEM = 2,         /* memory could not be had */
    CONEY_ECLOSED = 3,        /* the handle is closed, or was closed while the call waited */
    CONEY_ETIMEDOUT = 4,      /* the deadline of the call passed first */
    CONEY_ECANCELED = 5,      /* coney_call_cancel ended the call */
    CONEY_EAGAIN = 6,         /* no room now and waiting was not allowed; nothing was queued */
    CONEY_EDEADLK = 7,        /* a blocking call on the thread that would have to answer it */
    CONEY_EFORKED = 8,        /* the handle belongs to the parent process */
    CONEY_ERESOLVE = 9,       /* a host name could not be resolved */
    CONEY_ECONNECT = 10,      /* no address accepted a connection */
    CONEY_ELOST = 11,         /* the connection was lost before the answer came */
    CONEY_EPROTOCOL = 12,     /* the peer sent bytes that the protocol does not allow */
    CONEY_EAUTH = 13,         /* the broker refused the user name, the password or the mechanism */
    CONEY_EVHOST = 14,        /* the virtual host does not exist or the user may not enter it */
    CONEY_EACCESS = 15,       /* the user lacks the permission for this resource */
    CONEY_ENOTFOUND = 16,     /* no such stream, queue or exchange */
    CONEY_EEXIST = 17,        /* it exists already, with the same arguments */
    CONEY_EPRECONDITION = 18, /* it exists with other arguments, or the broker does not accept the arguments */
    CONEY_EUNAVAILABLE = 19,  /* it exists but has no leader or replica now; AMQP: it is another connection's */
    CONEY_ETOOBIG = 20,       /* larger than the negotiated or configured limit */
    CONEY_ENOOFFSET = 21,     /* nothing is stored under this name */
    CONEY_EUNSUPPORTED = 22,  /* this broker, or this build of coney, does not have the feature */
    CONEY_ECORRUPT = 23,      /* stored data failed its checksum or cannot be decoded */
    CONEY_EBROKER = 24,       /* the broker answered with a code that has no status of its own: see `code` */
    CONEY_EREFUSED = 25,      /* outcome: the broker did not store the message; `code` says why */
    CONEY_ERETURNED = 26,     /* outcome: the message could not be routed and was returned */
    CONEY_EUNKNOWN = 27,      /* outcome: the message may or may not be stored */
    CONEY_ELIMIT = 28,        /* the process is out of descriptors, threads or another bounded resource */
    CONEY_ETLS = 29,          /* TLS could not be agreed: a certificate of either side, or a peer that speaks none */
} coney_status;

/* A sentence that says what the status means and what to do next. Static memory, any thread, never NULL. */
CONEY_API const char *coney_status_text(coney_status status);

/* "CONEY_EAGAIN". Static memory, any thread, never NULL ("CONEY_?" for a number that is no status). */
CONEY_API const char *coney_status_name(coney_status status);

/* Bytes ---------------------------------------------------------------------------------------------------------- */

/* A view: who made it says how long it lives. `data` may be NULL only when `len` is 0. */
typedef struct coney_bytes {
    const void *data;
    size_t len;
} coney_bytes;

/* CONEY_STR("x") in code, CONEY_STR_INIT("x") for statics. String literals only. */
#define CONEY_STR(literal) (coney_bytes_of("" literal, sizeof(literal) - 1))
#define CONEY_STR_INIT(literal)                                                                                                \
    {                                                                                                                          \
        "" literal, sizeof(literal) - 1                                                                                        \
    }

static inline coney_bytes coney_bytes_of(const void *data, size_t len)
{
    coney_bytes bytes;
    bytes.data = data;
    bytes.len = len;
    return bytes;
}

/* A view of a C string, without its end; NULL gives an empty view. */
CONEY_API coney_bytes coney_bytes_str(const char *text);

/* Calls ---------------------------------------------------------------------------------------------------------- */

/* The last parameter of every control call. Zero it before use (`coney_call call = {0};`); it may be used again after
 * the call has returned, with its inputs as they were. NULL stands for a call that blocks with the default deadline.
 *
 * Blocking (`on_done` NULL): the function returns when the broker has answered or the deadline has passed.
 * Asynchronous (`on_done` set): the library copies the call, writes the copy's `id` here and returns CONEY_OK at once,
 * or another status if the call could not be started, in which case `on_done` is not called. `on_done` runs on the loop
 * exactly once, with a call that lives until it returns, and must not block. The function's inputs are copied.
 *
 * The layout is frozen; `reserved` must stay zero. */
typedef struct coney_call {
    int64_t deadline; /* in: nanoseconds from now; 0 = 10 s, CONEY_OFF = none */
    void (*on_done)(void *ctx, const struct coney_call *call);
    void *ctx;           /* in: handed to on_done */
    uint64_t id;         /* out, asynchronous: for coney_call_cancel */
    uint64_t value;      /* out: what the function says it returns here */
    coney_status status; /* out: what the function returned, or CONEY_OK where it returned a handle */
    uint32_t code;       /* out: the broker's response code, 0 if it sent none */
    uint64_t reserved[4];
    char text[512]; /* out: what was tried, what the broker said, what to do next; empty when all is well */
} coney_call;

/* Ends an asynchronous call with CONEY_ECANCELED: its on_done still runs, on the loop. Any thread.
 * CONEY_ENOTFOUND: no such call is under way (it has ended, or is the parent process's). What was sent to the broker may still
 * take effect. */
CONEY_API coney_status coney_call_cancel(uint64_t id);

/* Outcomes and settlements --------------------------------------------------------------------------------------- */

/* What became of one message that `send` or `publish` accepted. Comes exactly once for each, on the loop; must be short.
 * The struct may grow at its end: never copy it by its size. */
typedef struct coney_outcome {
    uint64_t tag;           /* as given to send */
    uint64_t publishing_id; /* streams: the id on the wire */
    coney_status status;    /* CONEY_OK (confirmed), CONEY_EREFUSED, CONEY_ERETURNED or CONEY_EUNKNOWN */
    uint32_t code;          /* the broker's code, 0 if it sent none (a nack has none) */
    bool unsent;            /* with CONEY_EUNKNOWN: the message never left the process, so it is certainly not stored */
    uint8_t reserved[7];
    const void *internal; /* for coney_outcome_body */
    const char *text;     /* AMQP: why, in the broker's words; "" when it sent none */
} coney_outcome;

typedef void (*coney_outcome_fn)(void *ctx, const coney_outcome *outcome);

/* The body as it was given to send. A view valid until the outcome callback returns; call it only there. */
CONEY_API coney_bytes coney_outcome_body(const coney_outcome *outcome);

/* What a handler returns for a delivery. */
typedef int64_t coney_settle;
#define CONEY_ACK ((coney_settle)0)      /* done */
#define CONEY_REJECT ((coney_settle)-1)  /* not wanted: dropped or dead-lettered; streams: done, counted as rejected */
#define CONEY_REQUEUE ((coney_settle)-2) /* again: back to the queue; streams: to this handler, at once, later ones wait */
#define CONEY_KEPT ((coney_settle)-3)    /* taken by a keep function, settled later */

/* Again after `ns`, which is at least 1; queues: held here so long, then requeued; streams: later ones wait. */
static inline coney_settle coney_retry_after(int64_t ns)
{
    return ns > 0 ? ns : 1;
}

/* A delivery that was taken out of its handler. Owned by the user until settled. */
typedef struct coney_kept coney_kept;

/* Settles *kept and clears it; NULL there is harmless. Any thread; frees the delivery's memory. CONEY_EINVAL: `how` is
 * CONEY_KEPT or no settlement at all; nothing is settled. The memory is freed all the same with CONEY_ECLOSED (the consumer was closed first),
 * CONEY_ELOST (queues: the connection or channel that brought it is gone, and the broker gives the message again) and
 * CONEY_EFORKED. */
CONEY_API coney_status coney_kept_settle(coney_kept **kept, coney_settle how);

/* Credentials ---------------------------------------------------------------------------------------------------- */

/* What a connection logs in with, instead of the URI's user and password. Zeroed before the callback gets it; what it points
 * to must stay valid until the next call for the same environment, or until the environment is closed. Frozen layout. */
typedef struct coney_credentials {
    const char *user;     /* NULL: the URI's */
    const char *password; /* or an OAuth 2 token */
    int64_t valid_for;    /* nanoseconds; after 4/5 of it new ones are asked for, for the open connections too; 0 = for ever */
    uint64_t reserved[4];
} coney_credentials;

/* Fills *credentials; anything but CONEY_OK fails the log-in or the renewal with that status, which is tried again with the
 * usual pauses. Runs on a thread of its own, one at a time for an environment, so it may block: on a request for a token, for instance. */
typedef coney_status (*coney_credentials_fn)(void *ctx, coney_credentials *credentials);

/* Events and the log --------------------------------------------------------------------------------------------- */

typedef enum coney_event_type {
    CONEY_EVENT_CONNECTED = 1,          /* a connection is open; `node` */
    CONEY_EVENT_DISCONNECTED = 2,       /* a connection was lost or ended by the broker; `node`, `status`, `code` */
    CONEY_EVENT_CONNECT_FAILED = 3,     /* one attempt at one address failed; `node`, `status` */
    CONEY_EVENT_RECOVERING = 4,         /* a producer, publisher, consumer … lost its place; `name`, `status` why, `delay` */
    CONEY_EVENT_RECOVERY_FAILED = 5,    /* one attempt failed; `attempt`, `delay` until the next one */
    CONEY_EVENT_RECOVERED = 6,          /* it works again; `attempt` */
    CONEY_EVENT_GAVE_UP = 7,            /* it will not be tried again: `.no_recovery`, a stream that is gone, a transaction */
    CONEY_EVENT_STREAM_GONE = 8,        /* the broker says that a stream in use was deleted or lost its leader */
    CONEY_EVENT_CORRUPT_CHUNK = 9,      /* a chunk failed its checksum or cannot be read; `offset` */
    CONEY_EVENT_UNREADABLE_ENTRY = 10,  /* an entry cannot be read (compressed, damaged); `offset` */
    CONEY_EVENT_OFFSET_NOT_STORED = 11, /* an offset could not be stored; it is tried again; `offset` */
    CONEY_EVENT_SERVER_CLOSE = 12,      /* the broker asked to close a connection; `code`, and its words in `text` */
    CONEY_EVENT_CHANNEL_CLOSED = 13,    /* the broker closed a channel, which costs its own user only; `code`, `name` */
    CONEY_EVENT_CONSUMER_CANCELED = 14, /* the broker ended a consumer: its queue is gone or moves, or the right to it */
    CONEY_EVENT_BLOCKED = 15,           /* the broker is short of memory or disk: this connection's publishes wait; `node` */
    CONEY_EVENT_UNBLOCKED = 16,         /* they go on; `node` */
    CONEY_EVENT_TOPOLOGY_FAILED = 17,   /* an exchange, queue or binding was not declared again; `name`, `code`, `delay` until
                                           the next attempt (0: there is none, the broker closed the connection for it) */
    CONEY_EVENT_QUEUE_RENAMED = 18,     /* a queue that the broker names has another name after recovery: `name` is the first */
    CONEY_EVENT_RETURNED = 19,          /* no queue took a message that has no outcome to tell it (`.unconfirmed`); `code` */
    CONEY_EVENT_SECRET_RENEWED = 20,    /* a connection took the new password or token; `node` */
    CONEY_EVENT_SECRET_REFUSED = 21,    /* it did not (`node`, `code`), or the callback had none and is asked again; `status` */
    CONEY_EVENT_NOT_SETTLED = 22,       /* a settlement had no effect: nothing but ack is possible with `.no_ack`; `name` */
} coney_event_type;

/* One step that the library took by itself. Handed to the environment's on_event on the loop; must be short.
 * All pointers are valid until the callback returns. May grow at its end. */
typedef struct coney_event {
    coney_event_type type;
    coney_status status;
    uint32_t code;      /* the broker's code, 0 if it sent none */
    uint32_t attempt;   /* recovery: 1 for the first try */
    int64_t delay;      /* nanoseconds until the next attempt */
    uint64_t offset;    /* stream offset, for the events that have one */
    const char *node;   /* "host:port", or "" */
    const char *name;   /* the stream, queue, exchange or binding's destination, or "" */
    const char *text;   /* the whole of it as one sentence */
    const void *handle; /* the producer, publisher, consumer, requester or transaction that it is about, or NULL */
} coney_event;

/* "recovering", "recovered" …: for logs. Static memory, never NULL. */
CONEY_API const char *coney_event_name(coney_event_type type);

typedef void (*coney_event_fn)(void *ctx, const coney_event *event);

typedef enum coney_log_level {
    CONEY_LOG_ERROR = 1,
    CONEY_LOG_WARNING = 2,
    CONEY_LOG_INFO = 3,
    CONEY_LOG_DEBUG = 4,
} coney_log_level;

/* The library's only voice, and none unless the user sets it. Any thread of the library; must be short and must not call
 * back into coney. Passwords and tokens never reach it. */
typedef void (*coney_log_fn)(void *ctx, coney_log_level level, const char *text);

#ifdef __cplusplus
}
#endif

#endif
