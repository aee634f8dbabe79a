/* producer.h: the inside of coney_stream_producer.
 *
 * Senders append to the outbox under its lock; everything else is on the loop. A message's publishing id is its slot's number plus `id_base`,
 * unless the user gives ids.
 */
#ifndef CONEY_STREAM_PRODUCER_H
#define CONEY_STREAM_PRODUCER_H

#include "core/outbox.h"
#include "stream/member.h"

#define SLOT_WAITED 1 /* the tag is a struct op: coney_stream_send_wait */

#define DEADLINE_MARKS 4

struct coney_stream_producer {
    struct member member;
    struct outbox outbox;

    /* Under the outbox's lock. */
    size_t body_limit; /* a shorter plain body goes straight in; 0 while sends need a closer look (producer_set_limits) */
    size_t max_entry;  /* bytes of the largest entry; 0 until it was open once */
    _Atomic uint64_t id_base;
    _Atomic uint64_t last_id; /* given by the user */
    enum ids {
        IDS_UNDECIDED,
        IDS_OURS,
        IDS_GIVEN,
    } ids;
    bool wants_room;  /* a send was answered CONEY_EAGAIN */
    _Atomic int open; /* CONEY_OK, or what a send answers */

    uint32_t fork;
    int64_t enqueue_timeout;
    uint64_t max_messages; /* the outbox's bound once it is open */
    coney_outcome_fn on_outcome;
    void (*on_writable)(void *ctx);
    void *ctx;
    char *name;

    /* On the loop. */
    struct task send_task; /* there is something to send */
    struct list ready;     /* in the connection's queue of producers to be written, or of those being written */
    uint8_t header[PUBLISH_HEADER_BYTES];
    bool no_resend;
    struct op *closing;
    coney_status close_status; /* what the close will answer */
    uint64_t unconfirmed_in_close;
    struct list flushes;
    struct list held_sends; /* send_wait calls without room */
    int64_t confirm_timeout;
    struct timer confirm_timer;
    uint64_t marks[DEADLINE_MARKS]; /* tails of the last ticks */
    unsigned mark;

    counter confirmed;
    counter refused;
    counter unknown;
    counter resent;
    counter frames;
};

/* From the connection. `ready` is the producer's link in the connection's queue. */
size_t producer_fill(struct list *ready, struct iovec *slices, size_t cap, size_t *bytes);
void producer_written(struct list *ready);
void producer_confirmed(struct member *member, struct stream_list ids);
void producer_refused(struct member *member, struct stream_list errors);

/* send.c, with the outbox's lock held: how long a body may be that goes straight in, after `open`, `ids` or max_entry changed. */
void producer_set_limits(struct coney_stream_producer *producer);

/* send.c, on the loop: queues a body whose outcome goes to `op`, which gets a reference. CONEY_EAGAIN: no room. */
coney_status producer_send_for(struct coney_stream_producer *producer, coney_bytes body, struct op *op);

/* outcome.c: what is in hand before slot `end` becomes CONEY_EUNKNOWN, oldest first. */
void producer_give_up(struct coney_stream_producer *producer, uint64_t end);

/* outcome.c: refuses entries that were accepted under a larger limit than the present connection has. */
void producer_refuse_oversized(struct coney_stream_producer *producer, size_t limit);

/* outcome.c: after slots were settled: memory, waiting senders, flushes, a close that waits. */
void producer_settled(struct coney_stream_producer *producer);

/* producer.c, on the loop: the last outcome is in, or nothing more will come: ends a close that is under way. */
void producer_finish_close(struct coney_stream_producer *producer);

/* wait.c: send_wait and flush calls that wait for room or for the head. */
void producer_retry_held(struct coney_stream_producer *producer);
void producer_end_flushes(struct coney_stream_producer *producer);
void producer_fail_held(struct coney_stream_producer *producer);

#endif
