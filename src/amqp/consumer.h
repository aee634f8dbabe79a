/* consumer.h: the inside of coney_amqp_consumer.
 *
 * The loop gathers deliveries into runs, as they lie behind each other in a receive block, and queues the runs; the lane (on the dispatcher, or the loop) takes a run,
 * walks it and calls the handler. What the handler acks in order the lane tells by one number, `done`; whatever else is settled goes into the ledger
 * under the lock. The loop writes what the ledger says is due. So no lock is taken and no reference counted for a message.
 *
 * Deliveries are numbered for ever upward, over all places: what came from a place that is lost is known by its number.
 */
#ifndef CONEY_AMQP_CONSUMER_H
#define CONEY_AMQP_CONSUMER_H

#include "amqp/consumer_retries.h"
#include "amqp/ledger.h"
#include "amqp/place.h"
#include "core/receiver.h"

/* Deliveries that lie behind each other in a block. */
struct run {
    struct block *block; /* a reference; NULL: there is no run */
    const uint8_t *at;   /* the next unit */
    const uint8_t *end;
    uint64_t number; /* of the delivery at `at` */
    uint64_t place;  /* that it came from */
};

struct coney_amqp_consumer {
    struct receiver receiver;
    struct place place;
    coney_amqp_consumer_options
        options;        /* defaults filled in, prefetch 0 = no limit; its strings are copies, arguments are below */
    uint8_t *arguments; /* encoded entries */
    size_t arguments_size;
    size_t argument_count;

    /* Under the receiver's lock. */
    struct run *queue; /* a ring */
    size_t queue_cap;
    uint64_t queue_head;
    uint64_t queue_tail;
    bool subscribed; /* the queue may be taken from */
    struct ledger ledger;
    struct retries retries;
    uint64_t not_settled;         /* settlements that no_ack made void, not told yet */
    counter settled[LEDGER_TOLD]; /* by mark; what the lane acks in order is in `acked` */
    counter stale;

    /* The lane's own. */
    struct run current;
    const uint8_t *unit_end; /* of the message at hand */
    coney_amqp_delivery delivery;
    uint64_t kept_now;   /* number + 1 of the message for which the handler called keep */
    int64_t until_flush; /* settlements until the loop is asked to write them */

    /* From the lane to the loop. */
    _Atomic uint64_t done;         /* the handler has passed the numbers below */
    _Atomic uint64_t handed_bytes; /* of units; in one order with `full`, of which each side writes one and reads the other */
    counter messages;
    counter bytes;
    counter acked;

    /* From the loop to the lane. */
    _Atomic uint64_t fresh_from; /* lower numbers are of a place that is lost */
    atomic_bool full;            /* too much is queued: the connection is read no further */

    /* The loop's own. */
    struct run open_run;    /* not queued yet */
    uint64_t open_tag;      /* with which it begins */
    uint64_t next_number;   /* behind what is queued */
    uint64_t next_tag;      /* 0: the first of this place is to come */
    uint64_t tags_before;   /* of the channel, when the consumer got it */
    struct block *moved;    /* to which small runs are moved while they wait; NULL: none */
    size_t moved_len;       /* bytes of it in use */
    struct task queue_task; /* the open run goes into the queue at the end of the round */
    bool no_memory;         /* for a queue or the ledger */
    struct timer flush_timer;
    struct timer retry_timer;
    size_t tag_len;
    char tag[AMQP_SHORT_MAX]; /* as the broker calls it */
    bool counted;             /* in the environment's consumers */
    bool counted_active;      /* and among those that are subscribed */
    counter received_bytes;
    counter ack_frames;
};

static inline struct coney_amqp_consumer *amqp_consumer_of(struct member *member)
{
    struct receiver *receiver = container_of(member, struct receiver, member);
    return container_of(receiver, struct coney_amqp_consumer, receiver);
}

/* consumer_options.c: CONEY_OK, or CONEY_EINVAL with a text in the call. */
coney_status amqp_consumer_options_check(const coney_amqp_consumer_options *options, coney_call *call);

/* The same: copies the options, with their defaults, and encodes the arguments. CONEY_EINVAL, CONEY_ENOMEM. */
coney_status amqp_consumer_options_take(struct coney_amqp_consumer *consumer, const coney_amqp_consumer_options *options,
                                        coney_call *call);

/* deliver.c, on the loop: channel_owner.content; ctx is the member. */
const char *amqp_consumer_content(void *ctx, struct block *block, const uint8_t *at, size_t len);

/* deliver.c, on the loop: queue_task, and for whoever needs everything in the queue now. */
void amqp_consumer_queue_task(struct task *task);
void amqp_consumer_queue_open_run(struct coney_amqp_consumer *consumer);

/* deliver.c, on the loop: what is queued is dropped. With the lane's run when nothing of the lane runs any more. */
void amqp_consumer_drop_queue(struct coney_amqp_consumer *consumer);
void amqp_consumer_drop_current(struct coney_amqp_consumer *consumer);

/* deliver.c: the run of the lane. */
bool amqp_consumer_run(struct lane *lane);

/* deliver.c: bytes received and not yet handed over. Any thread. */
uint64_t amqp_consumer_queued_bytes(const struct coney_amqp_consumer *consumer);

/* deliver.c, on the loop: reads the connection again if enough was handed over, or in any case. */
void amqp_consumer_read_on(struct coney_amqp_consumer *consumer, bool anyway);

/* consumer_settle.c, on the lane: the handler returned something else than CONEY_ACK for the message at hand. */
void amqp_consumer_settle_at_hand(struct coney_amqp_consumer *consumer, coney_settle how);

/* consumer_settle.c, on the loop: receiver_kind.task. */
void amqp_consumer_task(struct receiver *receiver);

/* consumer_settle.c, on the loop: writes what is due. Harmless without a place. */
void amqp_consumer_flush(struct coney_amqp_consumer *consumer);

/* consumer_settle.c, on the loop: what is due is written, and all that is in hand goes back: what waits for a retry, what is kept, what no handler had.
 * Nothing of the lane runs. */
void amqp_consumer_give_back(struct coney_amqp_consumer *consumer);

/* consumer_settle.c, on the loop: the handler may be slow: what it has done is written from time to time. */
void amqp_consumer_set_flush_timer(struct coney_amqp_consumer *consumer);
void amqp_consumer_run_flush_timer(struct timer *timer);
void amqp_consumer_run_retry_timer(struct timer *timer);

#endif
