/* delivery.h: a message on its way through a subscription: from the transport to its last settlement.
 *
 * A subscription's lane has one delivery at hand and uses it again and again: a message that is settled when its handler returns costs no allocation and
 * no lock. A delivery that outlives its handler (kept, or waiting for what it published) is left to whoever settles it, and the lane takes another one from
 * the subscription's pool. Its arena goes with it and is reset when it is used again.
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

struct coney_delivery {
    struct incoming in;
    struct subscription *subscription;
    struct coney_batch *batch; /* it is an element of it, or NULL */
    coney_arena *arena;
    const void *value;        /* decoded, or NULL */
    struct coney_kept handle; /* what coney_delivery_keep gives out */
    coney_delivery_info info;
    bool has_info;
    bool used_arena;
    bool user_kept; /* between coney_delivery_keep and coney_kept_settle */
    bool in_handler;
    coney_fault fault;
    struct after *afters; /* in the arena, first added first */
    struct bag *bag;      /* in the arena */
    coney_settle how;     /* once the handler has returned */

    /* Publishes under way. One count more while the handler runs, so that it ends once. */
    _Atomic uint32_t waits;
    _Atomic int publish_status;      /* the first failure of what it published, a coney_status */
    struct transaction_scope *scope; /* publish.c: transactions that its settlement commits, or NULL */

    struct coney_delivery *next; /* in the pool */
    struct work work;            /* on the worker */
    bool was_counted;            /* app_opened */
};

/* For publish.c. Before a publish through the delivery is handed to the transport, with the delivery as its tag; and when the transport did not take it. */
void delivery_expect(coney_delivery *d);
void delivery_unexpect(coney_delivery *d);

/* The coney_outcome_fn of such publishes is publisher.c's, which calls this from a loop: counts it off; the last one settles the delivery when its handler has
 * returned. */
void delivery_outcome(coney_delivery *d, coney_status status);

/* Ends the transactions that were begun for the delivery (coney_out_by with a transactional publisher): commits when `commit`. Blocks. Called by dispatch.c on the
 * lane when the handler has returned, before the settlement; implemented by publish.c. CONEY_OK: committed (or nothing to do). */
coney_status delivery_end_transactions(coney_delivery *d, bool commit);

#endif
