/* ends.h: the two ends of a run, one that sends and one that receives, whatever the protocol. perf, latency and publish are written
 * on them; what differs between protocols is one table of functions, filled by stream_ends.c and amqp_ends.c.
 *
 *     struct sender sender = {.session = &session, .outcomes = &outcomes};
 *     if (!sender_open(&sender, &call))
 *         complain(0, "%s", call.text);
 *     sender_send(&sender, body, 1);       // its outcome is counted in `outcomes`
 *     sender_flush(&sender, 30 * CONEY_SECOND);
 *     sender_close(&sender);
 */
#ifndef CLI_ENDS_H
#define CLI_ENDS_H

#include "outcomes.h"
#include "session.h"

/* Publishes to the session's place, or where the settings say. One thread. */
struct sender {
    struct session *session;
    struct outcomes *outcomes;
    bool unconfirmed; /* AMQP: an outcome says that a message was written */
    coney_stream_producer *producer;
    coney_amqp_publisher *publisher;
    coney_amqp_message message; /* what each one has */
};

/* False: call->text says why; the sender may be closed all the same. */
bool sender_open(struct sender *sender, coney_call *call);

/* Waits for room until there is some or the run is to end, which is CONEY_ETIMEDOUT. */
coney_status sender_send(struct sender *sender, coney_bytes body, uint64_t tag);

/* `count` bodies with the tags from `first_tag` on, SENDER_BATCH at most. *accepted: how many were queued. */
enum { SENDER_BATCH = 100 };
coney_status sender_send_batch(struct sender *sender, const coney_bytes *bodies, size_t count, uint64_t first_tag,
                               size_t *accepted);

/* Sends one and counts its outcome; one that does not come within the call's deadline is an unknown one. */
coney_status sender_send_wait(struct sender *sender, coney_bytes body, uint64_t tag);

/* Waits for the outcomes of all that was sent: up to `timeout` nanoseconds, or until the run is to end. */
void sender_flush(struct sender *sender, int64_t timeout);

/* The same when the run is ending: as long as stop_patience grants. */
void sender_finish(struct sender *sender);

void sender_close(struct sender *sender);

/* Messages that came together: a chunk of a stream, or one of a queue. */
struct arrivals {
    coney_stream_chunk *chunk;
    coney_bytes one; /* when there is no chunk */
    bool taken;
};

/* How many there are at most. */
static inline uint64_t arrivals_count(const struct arrivals *a)
{
    return a->chunk != NULL ? coney_stream_chunk_count(a->chunk) : 1;
}

/* The body of the next one; what was looked at here is settled as done. */
static inline bool arrivals_next(struct arrivals *a, coney_bytes *body)
{
    if (a->chunk != NULL) {
        coney_stream_delivery delivery;
        bool more = coney_stream_chunk_next(a->chunk, &delivery);
        if (more)
            *body = delivery.body;
        return more;
    }
    bool more = !a->taken;
    a->taken = true;
    *body = a->one;
    return more;
}

struct receiver {
    struct session *session;
    struct place from;                                  /* of streams */
    bool (*on_arrivals)(void *ctx, struct arrivals *a); /* on the dispatcher; false: no more are wanted */
    void *ctx;
    coney_stream_consumer *stream;
    coney_amqp_consumer *queue;
};

/* As sender_open. The receiver must not move while open. */
bool receiver_open(struct receiver *receiver, coney_call *call);
void receiver_close(struct receiver *receiver);

/* What a protocol brings. */
struct protocol {
    const char *uri_variable; /* stands before CONEY_URI */
    bool (*connect)(struct session *s, const char *uri, const coney_tls_options *tls, coney_call *call);
    void (*disconnect)(struct session *s, coney_call *call);
    bool (*is_missing)(struct session *s, const char *place); /* NULL: what was asked for is there, or its use says so */
    coney_status (*make)(struct session *s, const char *place, coney_call *call);
    coney_status (*remove)(struct session *s, const char *place, coney_call *call);
    bool (*sender_open)(struct sender *sender, coney_call *call);
    coney_status (*send)(struct sender *sender, coney_bytes body, uint64_t tag);
    coney_status (*send_batch)(struct sender *sender, const coney_bytes *bodies, size_t count, uint64_t first_tag,
                               size_t *accepted);
    coney_status (*send_wait)(struct sender *sender, coney_bytes body, coney_call *call);
    coney_status (*flush)(struct sender *sender, coney_call *call);
    void (*sender_close)(struct sender *sender, coney_call *call);
    bool (*receiver_open)(struct receiver *receiver, coney_call *call);
    void (*receiver_close)(struct receiver *receiver, coney_call *call);
};

extern const struct protocol stream_protocol;
extern const struct protocol amqp_protocol;

/* In an option of a publisher: how long a send waits for room before it looks whether the run is to end. */
#define SENDER_PATIENCE (200 * CONEY_MILLISECOND)

#endif
