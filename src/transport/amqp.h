/* amqp.h: the inside of the transport over AMQP 0-9-1: queues and exchanges of a RabbitMQ, on the client's public functions.
 *
 *     amqp.c           the broker: its options, its connections, what the client says of itself
 *     amqp_check.c     what is wrong with a description, before anything is connected
 *     amqp_topology.c  exchanges, queues and bindings, declared at the start
 *     amqp_delay.c     where messages wait before they come again
 *     amqp_feed.c      subscriptions
 *     amqp_reading.c   the position in a queue that is a stream
 *     amqp_incoming.c  what came with a message, and its settlement
 *     amqp_outlet.c    publishers, requests, transactions
 *     amqp_copy.c      copies: retries and dead letters
 */
#ifndef CONEY_TRANSPORT_AMQP_H
#define CONEY_TRANSPORT_AMQP_H

#include "base/lock.h"
#include "service/subscription.h"

enum { TAMQP_NAME_MAX = 255 };

struct tamqp_feed;
struct tamqp_reading;

/* A queue that the broker has named, for the subscription that it was declared for. */
struct tamqp_named {
    struct tamqp_named *next;
    const coney_subscription *subscription;
    coney_amqp_queue_info info;
};

/* The last event about a consumer that is being opened: it may come before its handle does. */
struct tamqp_early {
    const void *handle;
    coney_event_type type;
};

/* A broker. */
struct tamqp {
    coney_app *app;
    coney_broker *broker;
    const char *uri;
    coney_amqp_options options; /* copies; on_log, on_event and the name are filled in when it connects */
    bool newer_options;         /* there were members that this library does not know */
    struct tamqp_named *named;

    struct lock lock; /* guards what follows; taken on the loop, so nothing blocks under it */
    coney_amqp *rabbit;
    struct tamqp_feed *feeds; /* all there ever were */

    struct lock opening_lock; /* held while one of these is opened or a waiting queue is declared; never taken on the loop */
    coney_amqp_publisher *copier;
    coney_amqp_requester *requester;
};

/* An open subscription. */
struct tamqp_feed {
    struct feed feed;      /* first */
    _Atomic uint64_t refs; /* the broker's, and one for each delivery that is kept: those may outlive it */
    struct tamqp *amqp;
    struct tamqp_feed *next;
    const coney_queue_source *source; /* the app's copy */
    const char *queue;                /* as the client knows it */
    struct tamqp_reading *reading;    /* NULL but for a queue that is a stream */
    _Atomic bool was_canceled;        /* by the broker, and it has not come back since */
    _Atomic bool was_renamed;         /* the queue, which the broker calls by another name since a reconnect */
    uint64_t again; /* the handler's thread's: how often the message at hand was given to it before; streams only */

    coney_amqp_consumer
        *consumer; /* under the broker's lock, as what follows; NULL while there is none, or it is being closed */
    bool is_opening;
    struct tamqp_early early;
    bool is_leaving; /* somebody sees to its end, and wakes `left` when that is there */
    struct cond left;

    int64_t *waits; /* under opening_lock: delays in milliseconds whose waiting queues are known to be there */
    size_t wait_count;
    size_t wait_cap;
    _Atomic bool doubts_waits; /* a copy came back: one of them is not there any more */
};

extern const struct transport tamqp_transport;

static inline const coney_queue_source *tamqp_source(const coney_subscription *subscription)
{
    return subscription->source.of;
}

static inline struct tamqp_feed *tamqp_feed_of(const struct feed *feed)
{
    return (struct tamqp_feed *)(uintptr_t)feed;
}

/* The client's handle, NULL while it is not connected. Any thread. */
coney_amqp *tamqp_rabbit(struct tamqp *t);

/* amqp_check.c: as of struct transport. */
void tamqp_check_broker(void *self, struct mistakes *mistakes);
void tamqp_check_source(void *self, const coney_subscription *subscription, struct mistakes *mistakes);
void tamqp_check_publisher(void *self, const coney_publisher_options *options, struct mistakes *mistakes);

/* amqp_topology.c: the queue of a source. A quorum queue's delivery limit is max_attempts and as many more: stops and cuts count, too. */
#define TAMQP_GIVEN_BACK 20
coney_amqp_queue tamqp_queue_of(const coney_subscription *subscription);
coney_status tamqp_declare(void *self, coney_call *call);

/* The queue of a subscription as the client knows it: its name, or the one that the broker has made. */
const char *tamqp_queue_name(const struct tamqp *t, const coney_subscription *subscription);
void tamqp_forget_names(struct tamqp *t);

/* amqp_delay.c. A delay's class: milliseconds, no shorter, and at most an eighth longer. */
int64_t tamqp_delay_class(int64_t ns);

/* The longest delay that a queue's TTL can say, in milliseconds. */
#define TAMQP_DELAY_MAX INT64_C(4294967295)

/* "orders.wait.5000", "orders.delay". `name` has room for TAMQP_NAME_MAX + 1. */
void tamqp_waiting_queue_name(char *name, const char *queue, int64_t ms);
void tamqp_delay_exchange_name(char *name, const char *queue);

/* At the start: the exchange of the plugin, or, without `.declare`, whether what the policies need is there. */
coney_status tamqp_declare_delay(coney_amqp *rabbit, const char *queue, const coney_subscription *subscription,
                                 coney_call *call);

/* Sees to it that the waiting queue for delays of this class is there. Blocks when it is not known. */
coney_status tamqp_need_waiting_queue(struct tamqp_feed *feed, int64_t ms);

/* amqp_feed.c: as of struct transport; and an event of the client's, on the loop. */
coney_status tamqp_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                             coney_call *call);
coney_status tamqp_unsubscribe(struct feed *feed, coney_call *call);
void tamqp_feed_event(struct tamqp *t, const coney_event *event);
void tamqp_free_feeds(struct tamqp *t);
void tamqp_feed_unref(struct tamqp_feed *feed);

/* For amqp_reading.c, on its thread: opens the consumer, at `offset` unless that is UINT64_MAX; closes it, however long its handler takes; has left. */
bool tamqp_open_consumer(struct tamqp_feed *feed, uint64_t offset, coney_call *call);
void tamqp_close_consumer(struct tamqp_feed *feed);
void tamqp_has_left(struct tamqp_feed *feed);

/* Whether this failure ends a subscription: the queue is gone, or the right to it. */
bool tamqp_is_final(const struct tamqp_feed *feed, coney_status status, const char *text);

/* amqp_reading.c. NULL: memory or threads are out. */
struct tamqp_reading *tamqp_reading_new(struct tamqp_feed *feed);
void tamqp_reading_leave(struct tamqp_reading *reading); /* ends with tamqp_has_left */
void tamqp_reading_end(
    struct tamqp_reading *reading); /* waits for its thread; deliveries that are kept are settled as before */
void tamqp_reading_free(struct tamqp_reading *reading); /* after it */

/* The consumer's place is gone. On the loop. */
void tamqp_reading_lost(struct tamqp_reading *reading);

/* On the handler's thread: whether a message may be handled (else it comes again); waiting before it is handled again: false when it is to be left; it was. */
bool tamqp_reading_begins(struct tamqp_reading *reading, uint64_t offset);
bool tamqp_reading_waits(struct tamqp_reading *reading, int64_t delay);
void tamqp_reading_ends(struct tamqp_reading *reading, uint64_t offset);

/* Before a message is kept (NULL: memory is out), when it was, and when it is settled: true when it comes again, whatever its consumer says. */
struct held;
struct held *tamqp_reading_prepare(void);
void tamqp_reading_keeps(struct tamqp_reading *reading, struct held *held, const struct incoming *m);
bool tamqp_reading_settles(struct tamqp_reading *reading, const struct incoming *m, coney_settle how);

/* amqp_incoming.c: as of struct transport. */
void tamqp_info(const struct incoming *m, coney_delivery_info *info);
coney_bytes tamqp_content_type(const struct incoming *m);
bool tamqp_header(const struct incoming *m, coney_bytes name, coney_value *value);
coney_bytes tamqp_key(const struct incoming *m, const char *header);
uint64_t tamqp_attempt(const struct incoming *m);
bool tamqp_keep(struct incoming *m);
coney_status tamqp_settle(struct incoming *m, coney_settle how);
const coney_amqp_delivery *tamqp_delivery(const struct incoming *m);

/* What the text of the property `expiration` says, in nanoseconds; 0: it says nothing, CONEY_OFF: at once. */
int64_t tamqp_expiration(coney_bytes text);

/* amqp_outlet.c: as of struct transport. */
coney_status tamqp_open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call);
coney_status tamqp_publish(struct outlet *outlet, const struct outgoing *message, uint64_t tag);
coney_status tamqp_flush(struct outlet *outlet, coney_call *call);
coney_status tamqp_close_outlet(struct outlet *outlet, coney_call *call);
coney_status tamqp_request(struct outlet *outlet, const struct outgoing *message, struct incoming *reply, coney_call *call);
coney_status tamqp_tx_begin(struct outlet *outlet, void **tx, coney_call *call);
coney_status tamqp_tx_publish(void *tx, const struct outgoing *message);
coney_status tamqp_tx_commit(void *tx, coney_call *call);
coney_status tamqp_tx_abort(void *tx, coney_call *call);

/* amqp_copy.c: as of struct transport. */
coney_status tamqp_copy(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                        void *ctx, uint64_t tag);
bool tamqp_delays(const struct feed *feed);

/* What copies go out by, for a subscription that may make some: when they are needed the broker may not be able to open anything. */
coney_status tamqp_open_copier(struct tamqp *t, const coney_subscription *subscription, coney_call *call);

#endif
