/* consumer.h: the inside of coney_stream_consumer.
 *
 * The loop receives chunks and puts them into a queue; the lane (on the dispatcher, or the loop) takes them out, checks them and hands their
 * messages to the handler. What the lane has to say to the loop goes through atomics and one task: credit to give back, offsets to store, a
 * pause to keep, a chunk that is broken.
 */
#ifndef CONEY_STREAM_CONSUMER_H
#define CONEY_STREAM_CONSUMER_H

#include "core/receiver.h"
#include "proto/stream/chunk.h"
#include "stream/conn.h"

/* A chunk that has arrived. */
struct received {
    struct block *block; /* a reference */
    coney_bytes chunk;
    uint64_t committed;
    uint64_t skip_below; /* messages before this were not asked for */
    uint64_t place;      /* number of the subscription that brought it: credit goes back to that one only */
};

struct kept {
    struct receiver_kept core;
    coney_stream_delivery delivery;
    struct list in_again; /* in the consumer's `again` when it goes to the handler once more */
    int64_t due;
    uint8_t copy[]; /* the entry, unless its block is held */
};

struct coney_stream_chunk {
    struct coney_stream_consumer *consumer;
    struct chunk_walk walk;
    struct chunk chunk;
    uint64_t messages; /* that the handler has taken */
    uint64_t bytes;
};

/* Why the lane stopped where it did. */
enum portion {
    PORTION_DONE,   /* the chunk is finished */
    PORTION_HELD,   /* the message at hand waits: the lane is stopped, a retry is not due, or too much is kept */
    PORTION_BROKEN, /* the chunk cannot be believed */
};

struct coney_stream_consumer {
    struct receiver receiver;
    coney_stream_consumer_options options; /* defaults filled in; its strings are copies */

    /* Under the receiver's lock. */
    struct received *queue; /* a ring */
    size_t queue_cap;
    uint64_t queue_head;
    uint64_t queue_tail;
    uint64_t chunks_done;  /* of the receiver's present place: credit to give back */
    struct list again;     /* the kept deliveries that wait for the handler */
    uint64_t store_wanted; /* by hand: offset + 1 */
    struct {
        uint64_t offset;
        uint64_t count;  /* 0 = nothing to tell */
        const char *why; /* the compression, or the field that is damaged */
        bool compressed;
    } unreadable;
    const char *broken; /* the field at which a chunk broke: the lane does nothing until the loop has seen to it */
    uint64_t broken_at;

    /* The lane's own. */
    struct received current;
    bool has_current;
    bool has_message; /* `delivery` holds a message that is not settled yet */
    struct chunk_walk walk;
    struct chunk chunk;
    coney_stream_delivery delivery;
    uint32_t chunk_attempt;
    int64_t retry_at;         /* when the message or chunk at hand goes to the handler again; 0 = at once */
    uint64_t kept_now;        /* offset + 1 of the message for which the handler called keep */
    struct kept *redelivered; /* the kept delivery that the handler has now */
    uint64_t until_store;     /* messages until the next stored offset */

    /* From the lane to the loop. */
    _Atomic uint64_t position; /* offset after the last message that is done; 0 = none */
    _Atomic uint64_t hand_credit;
    _Atomic bool store_due;
    _Atomic bool connected;

    /* The loop's own. */
    struct stream_offset_spec start; /* what the next Subscribe asks for */
    bool start_known;                /* stored offset asked, "next" pinned */
    bool first_chunk;                /* of this subscription is still to come */
    uint64_t credit_owed;
    bool has_stored;
    uint64_t broken_before; /* offset + 1 of the chunk that was broken last */
    struct timer store_timer;

    counter messages;
    counter bytes;
    counter chunks;
    counter acked;
    counter rejected;
    counter requeued;
    counter kept_acked; /* under the lock */
    counter kept_rejected;
    counter unreadable_count;
    counter stored_offset;
    counter credits;
};

static inline struct coney_stream_consumer *consumer_of(struct receiver *receiver)
{
    return container_of(receiver, struct coney_stream_consumer, receiver);
}

/* consumer.c, from the connection. consumer_received returns NULL or the name of a field that is wrong. */
const char *consumer_received(struct member *member, struct block *block, const struct stream_deliver *deliver);
void consumer_credit_refused(struct member *member, uint16_t code);

/* deliver.c: one portion of work: the run of the lane. */
bool consumer_run(struct lane *lane);

/* deliver.c: gives the blocks of the queue back; with the lock held, or when nothing of the lane runs any more. */
void consumer_drop_queue(struct coney_stream_consumer *consumer);

/* deliver.c: gives the queue's and the lane's blocks back. Nothing of the lane runs any more. */
void consumer_drop_received(struct coney_stream_consumer *consumer);

/* kept.c, on the lane: gives the handler the first kept delivery that is due again. False: there is none. */
bool consumer_redeliver(struct coney_stream_consumer *consumer);

/* kept.c: what was to go to the handler again when the consumer was closed is dropped. */
void consumer_drop_again(struct coney_stream_consumer *consumer);

/* tracking.c, on the loop: what the lane left for it to do. */
void consumer_task(struct receiver *receiver);
void consumer_store_timer(struct timer *timer);
void consumer_store_now(struct coney_stream_consumer *consumer);
void consumer_set_store_timer(struct coney_stream_consumer *consumer);

#endif
