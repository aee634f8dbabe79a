/* receiver.h: what a consumer of either protocol is beside its deliveries: a lane, its end, pauses, and the deliveries that users keep.
 *
 * It begins with its member and stands first in each client's own struct. What comes from the wire, how it reaches the handler and what a
 * settlement means is the kind's. The lane runs on the dispatcher, or on the loop; it reaches the loop through receiver_post.
 * How a consumer ends: the handler ends (lane_stop) → kind->unsubscribe → receiver_unsubscribed → the member ends → nothing of the lane runs any more →
 * kind->drop. The lane holds a reference from receiver_subscribed to then.
 */
#ifndef CONEY_CORE_RECEIVER_H
#define CONEY_CORE_RECEIVER_H

#include "core/dispatcher.h"
#include "core/kept.h"
#include "core/member.h"

struct receiver;

struct receiver_kind {
    bool (*run)(struct lane *lane);          /* a portion of work; see dispatcher.h */
    void (*task)(struct receiver *receiver); /* on the loop, after receiver_post: what the lane left for it to do */
    void (*unsubscribe)(
        struct receiver *receiver); /* the handler has ended: says goodbye to the broker; ends with receiver_unsubscribed, which
                                                       comes from inside when there is no place */
    void (*drop)(struct receiver *receiver); /* nothing of the lane runs any more: gives back what has not been handed over */
};

struct receiver {
    struct member member;
    struct lane lane;
    const struct receiver_kind *kind;
    uint32_t fork;     /* fork_generation() at open */
    _Atomic int open;  /* CONEY_OK, or what a use answers */
    uint64_t max_kept; /* bytes */

    struct lock lock; /* guards what follows, and what the kind says */
    uint64_t place;   /* number of the present place: what came from another is stale */
    struct list kept; /* open deliveries (struct receiver_kept), in the order in which they were kept */
    uint64_t kept_count;
    _Atomic uint64_t kept_bytes; /* may be read without the lock */
    int64_t wake_at;             /* when the lane is to be woken: the loop sets a timer; 0 = no need */
    bool released;               /* the lane and the loop are not to be touched any more */

    /* From the lane to the loop. */
    struct task task;
    struct task ended_task; /* a run of the stopped lane has ended */
    struct task last_task;  /* drops the lane's reference */

    /* The loop's own. */
    struct timer wake_timer;
    struct op *closing;
    bool unsubscribing; /* in a close: kind->unsubscribe was called */
};

struct receiver_options {
    uint64_t max_kept; /* bytes */
    bool on_loop;      /* the lane runs on the loop, although there is a dispatcher */
    bool own_thread;   /* … on a thread that serves no other; not with on_loop */
    bool paused;       /* as if receiver_pause had been called */
};

/* A receiver that is not open yet, with one reference, the user's handle; zeroed before, first in a struct from calloc. CONEY_ENOMEM, CONEY_ELIMIT (no
 * thread): there is nothing to give back but the struct. member_kind->free calls receiver_free. */
coney_status receiver_init(struct receiver *receiver, const struct receiver_kind *kind, const struct member_kind *member_kind,
                           struct env *env, const char *name, const struct receiver_options *options, bool keep_trying);
void receiver_free(struct receiver *receiver);

/* The lane and the loop ------------------------------------------------------------------------------------------------ */

/* Has the loop run kind->task; wakes the lane. From any thread, also after the consumer was closed. The lane itself may use loop_post and lane_wake. */
void receiver_post(struct receiver *receiver);
void receiver_wake(struct receiver *receiver);

/* From the lane: it is woken at `at` (time_now()'s clock), or before, and kind->task runs. */
void receiver_wake_later(struct receiver *receiver, int64_t at);

/* The member's life: for member_kind, or to be called from the kind's own --------------------------------------------------- */

/* The broker has taken the subscription: member_active. From here on there may be deliveries. */
void receiver_subscribed(struct receiver *receiver);

/* Its place is gone: what came from there is stale, and an unsubscribe under way has ended. The kind clears what is its own before. */
void receiver_lost(struct receiver *receiver);

void receiver_dead(struct member *member);
coney_status receiver_close(struct member *member, coney_call *call); /* call->value: deliveries that are still kept */

/* kind->unsubscribe has ended. `held` as in member_end. Harmless when the close has ended meanwhile. */
void receiver_unsubscribed(struct receiver *receiver, coney_status status, bool held);

/* Inside a handler of the environment's: that handler is called no more. Harmless elsewhere, and false. Every lane is a receiver's. */
bool receiver_stop_here(const struct env *env);

/* Public uses: any thread ---------------------------------------------------------------------------------------------- */

/* CONEY_OK, CONEY_EINVAL (NULL), CONEY_EFORKED or CONEY_ECLOSED. */
coney_status receiver_use(const struct receiver *receiver);
coney_status receiver_pause(struct receiver *receiver);
coney_status receiver_resume(struct receiver *receiver);

/* Kept deliveries ------------------------------------------------------------------------------------------------------- */

/* Stands first in the kind's own struct, from malloc. Counted: the user's reference, until it is settled; one more while a handler has it again. */
struct receiver_kept {
    struct coney_kept head;
    struct receiver *receiver; /* a reference */
    struct list in_order;      /* in receiver->kept until it is taken out */
    struct block *block;       /* a reference, unless the delivery was copied */
    size_t bytes;              /* memory that it holds */
    uint64_t place;            /* that it came from */
    _Atomic uint32_t refs;
};

/* Whether a delivery of `len` bytes in `block` is copied when it is kept: it is small, or no more than half of its block, of which it would hold
 * the rest as well. */
bool receiver_copies(const struct block *block, size_t len);

/* On the lane: counts a delivery among those that are open. `kept` has one reference; `block` is NULL when `len` bytes were copied. */
void receiver_keep(struct receiver *receiver, struct receiver_kept *kept,
                   coney_status (*settle)(struct coney_kept *, coney_settle), struct block *block, size_t len, uint64_t place);

/* Whether so much is kept that the next message has to wait; taking one out wakes the lane then. */
static inline bool receiver_keeps_too_much(const struct receiver *receiver)
{
    return atomic_load_explicit(&receiver->kept_bytes, memory_order_relaxed) > receiver->max_kept;
}

/* It is open no more; the lock is held. */
void receiver_take_out_locked(struct receiver *receiver, struct receiver_kept *kept);

/* The same with the lock; *settled counts it in the same step, so that a snapshot under the lock adds up. Wakes the lane if it waits for memory.
 * Any thread. */
void receiver_take_out(struct receiver *receiver, struct receiver_kept *kept, counter *settled);

/* Drops a reference. */
void receiver_drop_kept(struct receiver_kept *kept);

#endif
