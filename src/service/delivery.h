/* delivery.h: a message on its way through a subscription: from the transport to its last settlement.
 *
 * A runner (dispatch.h) has one delivery at hand and uses it again and again: a message that is settled when its handler returns costs no allocation and
 * no lock. A delivery that outlives its handler (kept, or waiting for what it published) is left to whoever settles it, and the runner takes another one
 * from the subscription's pool. Its arena goes with it and is reset when it is used again.
 *
 * How one is settled: handler (or policy) says how → what it published is confirmed (delivery_outcome, from a loop) → retries and dead letters that need a copy are
 * published (on the worker) → the transport is told → continuations run (on the worker) → back to the pool. dispatch.c begins, settle.c ends.
 */
#ifndef CONEY_SERVICE_DELIVERY_H
#define CONEY_SERVICE_DELIVERY_H

#include "core/kept.h"
#include "service/subscription.h"

struct after {
    struct after *next;
    void (*then)(void *ctx, coney_settle how);
    void *ctx;
};

struct bag {
    struct bag *next;
    const void *key;
    void *value;
};

/* What becomes of a delivery once all policies have spoken. */
struct settle_plan {
    enum {
        PLAN_SETTLE,    /* the transport is told */
        PLAN_ASIDE,     /* it stays unsettled until the subscription is closed */
        PLAN_COPY_BACK, /* a copy goes back to where it came from, then it is acked */
        PLAN_COPY_DEAD, /* a copy goes to dead_letter, then it is acked */
    } way;
    coney_settle how; /* what it counts as, and with PLAN_SETTLE is */
    int64_t hold;     /* copies: published after so long */
    int64_t delay;    /* copies: the broker holds them for so long */
    uint64_t attempts;
};

struct coney_delivery {
    struct incoming *m; /* the message: the transport's own until it is held, then `in` */
    struct subscription *subscription;
    struct dispatch *dispatch;
    coney_arena *arena;

    /* Anew for every message: */
    union {
        uint64_t flags;
        struct {
            _Atomic bool in_handler;
            _Atomic bool user_kept; /* between coney_delivery_keep and coney_kept_settle */
            bool is_held;           /* transport->keep was called */
            bool has_info;
            bool used_arena;
            bool is_taken;           /* coney_delivery_keep was called */
            _Atomic bool is_special; /* its handler has kept it, published, sought, or left a continuation; or it is watched */
            bool must_stop;          /* a policy has stopped the app */
        };
    };
    _Atomic uint32_t waits;     /* publishes under way, and one each for the handler and for a user who keeps it: 0 ends it */
    _Atomic int publish_status; /* the first failure of what it published, a coney_status */
    const void *value;          /* decoded, or NULL */
    struct after *afters;       /* in the arena, first added first */
    struct bag *bag;            /* in the arena */
    struct transaction_scope *scope; /* publish.c: transactions that its settlement commits, or NULL */
    coney_fault fault;               /* text "": none */

    struct coney_batch *batch; /* it is an element of it, or NULL; while it is settled under the dispatch's lock */
    bool was_told;             /* of an element: the log has the failure of its batch */
    bool stays;                /* what comes again stays in its lane, so that later ones wait */
    uint32_t returns;          /* how often it has stayed */
    coney_settle how;          /* once the handler has returned, or the user who kept it has spoken */
    struct settle_plan plan;
    struct incoming in;
    struct coney_kept handle;                              /* what coney_delivery_keep gives out */
    struct coney_delivery *next;                           /* in the pool */
    bool was_counted;                                      /* app_opened */
    bool seeks;                                            /* its handler has called coney_seek */
    enum { NOT_POSTED, POSTED, POSTED_FOR_LATER } work_is; /* and may be taken from the worker again */
    struct list place; /* in a lane's queue, or among those that outlive their handlers, or were set aside */
    struct work work;  /* on the worker */
    coney_delivery_info info;
};

/* For publish.c. Before a publish through the delivery is handed to the transport, with the delivery as its tag; and when the transport did not take it. Only
 * while delivery_is_open. */
static inline void delivery_expect(coney_delivery *d)
{
    atomic_store_explicit(&d->is_special, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->waits, 1, memory_order_relaxed);
}
void delivery_unexpect(coney_delivery *d);

/* The coney_outcome_fn of such publishes is publisher.c's, which calls this from a loop: counts it off; the last one settles the delivery when its handler has
 * returned. */
void delivery_outcome(coney_delivery *d, coney_status status);

/* It is its handler's or its keeper's: what is published through it can still be part of its settlement. */
static inline bool delivery_is_open(const coney_delivery *d)
{
    return atomic_load_explicit(&d->in_handler, memory_order_relaxed) ||
           atomic_load_explicit(&d->user_kept, memory_order_relaxed);
}

/* Ends the transactions that were begun for the delivery (coney_out_by with a transactional publisher): commits when `commit`. Blocks. Called by settle.c
 * when the handler has returned, before the settlement, on the lane or, for a delivery that was kept, on the worker; implemented by publish.c. CONEY_OK:
 * committed (or nothing to do). */
coney_status delivery_end_transactions(coney_delivery *d, bool commit);

/* Inside the room ------------------------------------------------------------------------------------------------------------ */

/* The transport keeps the message, which moves to d->in. False: memory is out. Harmless when it is held. */
bool delivery_hold(coney_delivery *d);

/* The info of the message, decoded when it is first asked for. */
const coney_delivery_info *delivery_info(coney_delivery *d);

/* "message 'id' at offset 7": as much of it as there is, for the log. */
void delivery_name(coney_delivery *d, char *buf, size_t cap);

/* The delivery at hand becomes that of `m`. */
static inline void delivery_begin(coney_delivery *d, struct incoming *m)
{
    if (d->used_arena)
        coney_arena_reset(d->arena);
    d->m = m;
    d->flags = 0;
    atomic_store_explicit(&d->in_handler, true, memory_order_relaxed);
    atomic_store_explicit(&d->waits, 1, memory_order_relaxed);
    atomic_store_explicit(&d->publish_status, CONEY_OK, memory_order_relaxed);
    d->afters = NULL;
    d->bag = NULL;
    d->scope = NULL;
    d->fault.text[0] = '\0';
}

/* A held delivery that stays in its lane is handled once more. */
static inline void delivery_begin_again(coney_delivery *d)
{
    delivery_begin(d, &d->in);
    d->is_held = true;
    d->returns++;
}

/* Which delivery of its message it is, 1 for the first. */
uint64_t delivery_attempt(const coney_delivery *d);

#endif
