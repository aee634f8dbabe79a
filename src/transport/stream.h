/* stream.h: the inside of the transport over the stream protocol: what its files share. On the client's public functions only.
 *
 *     stream.c          the table, the constructor, checks, connect, declare, disconnect
 *     stream_feed.c     subscriptions: delivery, events, the end, seeks
 *     stream_message.c  what came: information, headers, keys, keeping, settling
 *     stream_outlet.c   publishers: a producer for each stream that something goes to; copies for dead letters
 *     stream_encode.c   what goes out: messages as AMQP 1.0
 */
#ifndef CONEY_TRANSPORT_STREAM_H
#define CONEY_TRANSPORT_STREAM_H

#include "base/list.h"
#include "base/lock.h"
#include "service/broker.h"
#include "service/worker.h"

#define TSTREAM_NAME_MAX 255
#define TSTREAM_PRODUCERS 256 /* of one outlet; templated destinations may be without number */

/* A broker's state. */
struct tstream {
    const char *uri;
    coney_stream_env_options options;
    bool has_unknown_options;
    struct coney_broker *broker;
    struct tstream_outlet *copies; /* where tstream_copy publishes; from the first connect on */

    struct lock lock;      /* guards what follows, and the consumers of feeds */
    coney_stream_env *env; /* while connected */
    struct list feeds;     /* all that there were; they live as long as the broker, since kept deliveries name them */
};

struct tstream_feed {
    struct feed feed; /* first */
    struct tstream *self;
    struct list in_broker;
    const char *stream;
    coney_stream_consumer_options options;

    /* Under the broker's lock. */
    coney_stream_consumer *consumer; /* NULL: it was unsubscribed */
    uint32_t closing;                /* consumers that a seek has left and that have not ended: the one in place is paused */
    uint64_t store_first;            /* offset + 1 to store when it goes on, 0: none */
    struct cond moved;
    struct work go_on; /* the end of a move */
};

static inline struct tstream_feed *tstream_feed_of(const struct feed *feed)
{
    return (struct tstream_feed *)(uintptr_t)feed;
}

/* stream.c: the environment, NULL while there is none (of which every use answers CONEY_EINVAL); when a call's time is over. */
coney_stream_env *tstream_env(struct tstream *self);
int64_t tstream_until(const coney_call *call);

/* stream.c: opening a producer or consumer; both wait for a stream that has just been made and has no leader yet. */
coney_stream_producer *tstream_open_producer(struct tstream *self, const char *stream,
                                             const coney_stream_producer_options *options, coney_call *call);
coney_stream_consumer *tstream_open_consumer(struct tstream *self, const char *stream,
                                             const coney_stream_consumer_options *options, coney_call *call);

/* stream_feed.c: the members of the table, and what the environment's events mean for a feed. */
coney_status tstream_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                               coney_call *call);
coney_status tstream_unsubscribe(struct feed *feed, coney_call *call);
coney_status tstream_seek(struct feed *feed, const coney_position *position, coney_call *call);
void tstream_feed_event(struct tstream *self, const coney_event *event);

/* stream_message.c: the members of the table. A message whose body stands in several sections is joined for its way. */
coney_settle tstream_deliver_parts(struct sink *sink, struct incoming *m);
void tstream_info(const struct incoming *m, coney_delivery_info *info);
coney_bytes tstream_content_type(const struct incoming *m);
bool tstream_header(const struct incoming *m, coney_bytes name, coney_value *value);
coney_bytes tstream_key(const struct incoming *m, const char *header);
uint64_t tstream_attempt(const struct incoming *m);
bool tstream_keep(struct incoming *m);
void tstream_pause(const struct incoming *m);
coney_status tstream_settle(struct incoming *m, coney_settle how);
const coney_stream_delivery *tstream_delivery(const struct incoming *m);

/* stream_outlet.c: the members of the table. */
coney_status tstream_open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call);
coney_status tstream_publish(struct outlet *outlet, const struct outgoing *message, uint64_t tag);
coney_status tstream_flush(struct outlet *outlet, coney_call *call);
coney_status tstream_close_outlet(struct outlet *outlet, coney_call *call);
coney_status tstream_copy(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                          void *ctx, uint64_t tag);

/* The outlet of copies, for connect (false: memory is out), disconnect and free. */
bool tstream_copies_open(struct tstream *self);
coney_status tstream_copies_close(struct tstream *self, coney_call *call);
void tstream_copies_free(struct tstream *self);

/* stream_encode.c: a message under construction. Views of what it was made from, but for the fields. */
struct tstream_encoded {
    coney_message message;
    coney_field few[16];
    coney_field *many; /* instead of few; freed by tstream_encoded_free */
    coney_field *annotations;
};

/* Whether the body is all there is to say. */
bool tstream_is_bare(const struct outgoing *message);

/* CONEY_ENOMEM. */
coney_status tstream_encode(struct tstream_encoded *encoded, const struct outgoing *message);

/* A copy of what came, its body as the handler was given it, with ATTEMPTS_HEADER = attempts. CONEY_ENOMEM, CONEY_EUNSUPPORTED: the body is several lists. */
coney_status tstream_encode_copy(struct tstream_encoded *encoded, const struct incoming *m, uint64_t attempts);
void tstream_encoded_free(struct tstream_encoded *encoded);

#endif
