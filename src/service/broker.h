/* broker.h: the contract between the service framework and a transport: what somebody who adds one has to write.
 *
 * A transport is one static table of functions (struct transport) and a state of its own for each broker (`self`), which its public constructor makes
 * (coney_app_amqp …) and hands to broker_new. service/ knows no protocol: it calls these functions, and the transport calls the sink of a subscription
 * with what arrives. test/conformance holds any implementation to what is said here.
 *
 * Life of a broker: constructor (no I/O) → check_… (no I/O) → connect → declare → open_outlet for each publisher → subscribe for each subscription →
 * deliveries and publishes → unsubscribe → close_outlet → disconnect → free. A start that fails is unwound in the same order; connect may be called again
 * after disconnect. Functions that take a call block up to its deadline and leave a sentence in its text when they fail; they run on the thread that
 * starts or stops the app, or on the app's worker, never on two threads at once for one broker, unless said otherwise.
 */
#ifndef CONEY_SERVICE_BROKER_H
#define CONEY_SERVICE_BROKER_H

#include "service/mistakes.h"

#include <coney/service.h>

struct transport;

/* The transport's side of an open subscription; stands first in a struct of the transport's. */
struct feed {
    const struct transport *transport;
    struct sink *sink;
    bool counts;  /* the broker, or the transport for it, counts deliveries over requeues */
    bool ordered; /* a log: what is to come again comes before what is behind it. Set before the first deliver, as the next */
    bool bursts;  /* it knows what comes together, and sets incoming.more */
};

/* The transport's side of an open publisher; stands first in a struct of the transport's. */
struct outlet {
    const struct transport *transport;
};

/* A message as it comes in. A transport fills it on its stack; the rest is asked for when it is needed. Once kept it may be copied and moved. */
struct incoming {
    coney_bytes body;
    struct feed *feed;
    const void *native; /* the transport's own: its client's delivery */
    coney_kept *kept;   /* set by keep; NULL before */
    uint64_t offset;    /* UINT64_MAX: it has none */
    bool
        more; /* others of the same burst (a chunk) follow at once: a batch is not closed before them, and closed after the last */
};

/* Where a subscription takes its messages. One call at a time for each feed, on a thread on which blocking is fine. */
struct sink {
    /* Handles it. Returns its settlement, for the transport to carry out at once; or CONEY_KEPT, after transport->keep(m) was called and *m copied:
     * transport->settle comes later, from any thread. May block: that is the back-pressure. */
    coney_settle (*deliver)(struct sink *sink, struct incoming *m);
    /* It receives again, or not at the moment (a lost connection). Any thread, must be short. A feed is active when subscribe returns. */
    void (*active)(struct sink *sink, bool active);
    /* It has ended for good: the queue is gone, the right to it was taken away. Once, any thread, must be short. Not for unsubscribe. */
    void (*ended)(struct sink *sink, coney_status status, const char *text);
};

/* A message on its way out. Views; the transport copies what it needs. Empty means absent. */
struct outgoing {
    coney_bytes to; /* NUL behind it */
    coney_bytes body;
    coney_bytes content_type;
    coney_bytes correlation_id;
    coney_bytes reply_to;
    coney_bytes message_id;
    coney_bytes type;
    coney_bytes key; /* partition key; also as header "x-coney-key", which the transport adds */
    const coney_field *headers;
    size_t header_count;
    int64_t expiration; /* nanoseconds */
    int64_t timestamp;  /* milliseconds since 1970 */
    uint8_t priority;   /* with has_priority */
    bool has_priority;
    bool transient;
    bool drop_unroutable;
    bool to_requester; /* `to` is a reply_to: whatever exchange the outlet has is passed by */
};

/* How an outlet is opened. `outcome` once for each accepted message, with its tag; any thread, must be short. */
struct outlet_options {
    const char *name;
    const char *exchange; /* NULL: the default exchange */
    coney_publish_policy policy;
    bool transient;
    bool drop_unroutable;
    coney_outcome_fn outcome;
    void *ctx;
};

/* Messages carry it as a header once the framework has made a copy of them: how often the message was delivered before, a u32 or any integer. */
#define ATTEMPTS_HEADER "x-coney-attempts"
#define KEY_HEADER "x-coney-key"

struct transport {
    const char *name; /* "amqp" */
    coney_source_kind
        source; /* what kind of source it has besides others that check_source accepts: for the text of a mistake */

    /* Adds to `mistakes` what is wrong with a subscription's source or other fields as far as they concern the transport, with a publisher, or with
     * what is to be declared; see mistakes.h. May be called before every start. */
    void (*check_broker)(void *self, struct mistakes *mistakes);
    void (*check_source)(void *self, const coney_subscription *subscription, struct mistakes *mistakes);
    void (*check_publisher)(void *self, const coney_publisher_options *options, struct mistakes *mistakes);

    coney_status (*connect)(void *self, struct coney_broker *broker, coney_call *call);

    /* Everything that is to be declared: coney_declare_… of the broker (broker->declarations), and the sources with `.declare` of its subscriptions. */
    coney_status (*declare)(void *self, coney_call *call);

    /* `attempts` etc. stand in the subscription. Messages may come before it returns. */
    coney_status (*subscribe)(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                              coney_call *call);

    /* No deliver starts after it has returned; waits for one that runs up to the call's deadline. What is kept then goes back to the broker, as does what was
     * received and not delivered; later settles answer CONEY_ECLOSED and are harmless. Frees the feed (or leaves it to the disconnect after a timeout). */
    coney_status (*unsubscribe)(struct feed *feed, coney_call *call);

    coney_status (*open_outlet)(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call);

    /* Any thread. CONEY_OK: one outcome will come, perhaps before this returns. Else nothing was queued. May wait for room, but not on a loop
     * (CONEY_EAGAIN). CONEY_EUNSUPPORTED for a member that it cannot honour. */
    coney_status (*publish)(struct outlet *outlet, const struct outgoing *message, uint64_t tag);

    /* Waits until every message accepted before has had its outcome; any thread but a loop's (CONEY_EDEADLK). NULL: outcomes come from within publish. */
    coney_status (*flush)(struct outlet *outlet, coney_call *call);

    /* Waits for outcomes up to the deadline; those that are missing then come as CONEY_EUNKNOWN before it returns. Frees it. */
    coney_status (*close_outlet)(struct outlet *outlet, coney_call *call);

    coney_status (*disconnect)(void *self, coney_call *call);
    void (*free)(void *self);
    bool (*connected)(void *self); /* any thread */

    /* Messages. All but settle inside deliver, or any time once it is kept. */
    void (*info)(const struct incoming *m, coney_delivery_info *info); /* zeroed before; views as long-lived as the message */
    coney_bytes (*content_type)(const struct incoming *m);
    bool (*header)(const struct incoming *m, coney_bytes name, coney_value *value);
    coney_bytes (*key)(const struct incoming *m,
                       const char *header);        /* partition key; header NULL: KEY_HEADER, then the transport's own */
    uint64_t (*attempt)(const struct incoming *m); /* 1 for the first, as the broker, the header or the transport counts */
    bool (*keep)(struct incoming *m); /* *m stays valid until it is settled, m->body may have moved. False: memory is out */
    coney_status (*settle)(struct incoming *m, coney_settle how); /* what was kept; any thread, also a loop; never blocks */

    /* Publishes a copy of the message with all that it had and ATTEMPTS_HEADER = attempts: to the destination `to`, or with NULL back to where it came from, not before
     * `delay`. Its outcome comes to `outcome` with the tag, as of publish. `delay` above 0 only where delays() is true. NULL `to`: CONEY_EUNSUPPORTED for
     * sources that cannot (streams). Not on a loop. */
    coney_status (*copy)(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                         void *ctx, uint64_t tag);
    bool (*delays)(const struct feed
                       *feed); /* copies can come back later; otherwise a retry with a delay is settled by coney_retry_after */

    /* Optional: NULL where the transport has no such thing. */
    void (*pause)(
        const struct incoming *m); /* inside deliver: there is none after it until unsubscribe, but one that is under way */
    coney_status (*seek)(struct feed *feed, const coney_position *position, coney_call *call); /* on the worker */
    coney_status (*request)(struct outlet *outlet, const struct outgoing *message, struct incoming *reply, coney_call *call);
    coney_status (*tx_begin)(struct outlet *outlet, void **tx,
                             coney_call *call); /* any thread, as the three below; one thread a transaction */
    coney_status (*tx_publish)(void *tx, const struct outgoing *message);
    coney_status (*tx_commit)(void *tx, coney_call *call); /* ends it, whatever it answers */
    coney_status (*tx_abort)(void *tx, coney_call *call);
    const coney_amqp_delivery *(*amqp_delivery)(const struct incoming *m);
    const coney_stream_delivery *(*stream_delivery)(const struct incoming *m);

    /* For documents: "host:port", protocol and its version, without credentials. False when there is none. */
    bool (*describe)(void *self, char *host, size_t host_cap, const char **protocol, const char **version);
};

/* Something that the broker is to declare at the start. */
struct declaration {
    struct declaration *next;
    enum { DECLARE_EXCHANGE, DECLARE_QUEUE, DECLARE_STREAM } what;
    const char *stream; /* DECLARE_STREAM */
    union {
        coney_amqp_exchange exchange;
        coney_amqp_queue queue;
        coney_stream_spec spec;
    } as; /* deep copies */
};

struct middleware {
    coney_around_fn around;
    void *ctx;
};

struct middlewares {
    struct middleware *items;
    size_t count;
};

struct coney_broker {
    struct coney_broker *next; /* in the order of registration */
    coney_app *app;
    const struct transport *transport;
    void *self;
    const char *label;
    const coney_codec *codec; /* NULL: the app's */
    struct middlewares middlewares;
    struct declaration *declarations;   /* in order */
    struct subscription *subscriptions; /* subscription.h, in order */
    struct coney_publisher *publishers; /* publisher.h, in order; the first is the broker's own */
    bool is_connected;
};

/* For constructors of transports: registers a broker with the app, which frees `self` through transport->free in the end. NULL: memory is out, and `self` was
 * freed; also for a NULL app or self (a constructor passes on its calloc). What is wrong with the arguments the constructor finds itself and keeps for
 * check_broker. */
coney_broker *broker_new(coney_app *app, const struct transport *transport, void *self);

/* What a broker's client says of itself: to the app's log. Any thread. */
void broker_log(void *broker, coney_log_level level, const char *text); /* a coney_log_fn */
coney_log_level broker_log_level(const struct coney_broker *broker);

/* Deep copies of what users hand over, all from one arena of the app's, freed with it; NULL: memory is out, and the start says so. */
const char *app_copy_text(coney_app *app, const char *text);
void *app_copy_bytes(coney_app *app, const void *from, size_t len);
const coney_field *app_copy_fields(coney_app *app, const coney_field *fields, size_t count);
const char *const *app_copy_list(coney_app *app, const char *const *list); /* ends with a NULL; NULL also for an empty one */
const coney_tls_options *app_copy_tls(coney_app *app, const coney_tls_options *tls);

#endif
