/* dispatch.h: what happens to a message of a subscription: decode, middleware, handler, policies, settlement; in order, on lanes or in batches.
 *
 * Handlers are called by runners, each one message at a time: the transport's thread (one lane), a lane's thread, or, when the app is virtual, whoever steps
 * it. A runner says in two relaxed stores that a handler begins and that it has ended; that is all that the watch and a drain need, so a message costs
 * no clock, no lock and no atomic addition.
 *
 * The gate: when it is not open, no handler starts. What comes is set aside, kept and unsettled, until the feed has ended and the broker has it back; during
 * a seek it is told to come again.
 */
#ifndef CONEY_SERVICE_DISPATCH_H
#define CONEY_SERVICE_DISPATCH_H

#include "service/complaint.h"
#include "service/delivery.h"

/* Makes what runs the subscription: its pool, lanes, batch; sets s->sink.deliver. CONEY_ENOMEM, CONEY_ELIMIT (threads). */
coney_status dispatch_open(struct subscription *s);

/* After the feed has ended: lanes end, what waited in them is dropped unsettled. Waits for handlers and settlements that run at this moment. Frees all; deliveries that
 * users still keep stay readable, and those that wait for outcomes end with these. */
void dispatch_close(struct subscription *s);

/* Looks for handlers that run too long and logs them, once a run; start.c has the worker call it now and then. `now`: worker_now. */
void dispatch_watch(struct subscription *s, int64_t now);

/* What it has counted. s->stats alone lacks what the runners count, each for itself. Any thread. */
void dispatch_stats(const struct subscription *s, struct subscription_stats *sum);

/* A histogram of the handlers' durations while it is open, for metrics.c: empty unless the app is `.timed`. Any thread. */
enum { DURATION_BUCKETS = 12 };
extern const double duration_bounds[DURATION_BUCKETS];
void dispatch_durations(const struct subscription *s, uint64_t buckets[DURATION_BUCKETS + 1], double *sum);

/* For the testkit: called on every settlement (after all policies) and after each call of a handler, when set; NULL otherwise. Set before the start. */
struct dispatch_probe {
    void (*received)(void *ctx, struct subscription *s, coney_bytes body, const coney_delivery_info *info);
    void (*called)(void *ctx, struct subscription *s, size_t count, coney_settle how);
    void (*settled)(void *ctx, struct subscription *s, coney_settle how);
    void *ctx;
};

/* Inside the room ------------------------------------------------------------------------------------------------------------ */

/* What coney_undecodable returns. */
#define SETTLE_UNDECODABLE ((coney_settle)-5)

struct runner {
    _Atomic uint64_t run;    /* odd while a handler runs, or deliver does */
    _Atomic uint64_t thread; /* whose; pthread_self */
    coney_delivery *at_hand;
    bool only_hands_on; /* deliver's, of a subscription whose handlers run on lanes: it may wait for them as long as it must */
    struct subscription_stats stats; /* written by the runner alone, as are the two below */
    counter durations[DURATION_BUCKETS + 1];
    counter duration_sum; /* nanoseconds */

    /* The watch's own: */
    uint64_t seen;
    int64_t seen_at;
    uint64_t named;
};

struct dispatch {
    _Atomic int gate;
    bool is_timed;
    bool is_watched; /* timed, or with a probe */
    bool is_bare;    /* it takes bytes as they are, nothing is around its handler, and it is not watched */
    bool checks_content_type;
    bool is_orphan;    /* under the lock, as is the one below: it is being closed, nobody enters */
    bool is_abandoned; /* it has been closed: freed with the last delivery that is out */
    coney_bytes content_type;
    const struct dispatch_probe *probe;
    struct runner direct; /* runs handlers in deliver */

    /* The message that was last told to come again because of a seek, and how often: no attempts, for no handler had it. deliver's own, read by anybody. */
    _Atomic uint64_t away_offset;
    counter away_count;

    struct subscription *subscription;
    coney_app *app;
    const struct transport *transport;
    struct complaints complaints;

    struct lock lock; /* guards what follows */
    struct cond changed;
    coney_delivery *pool;
    struct list out;   /* deliveries that outlive their handlers */
    struct list aside; /* kept, unsettled, for the broker to have back */
    uint32_t inside;   /* dispatch_enter */
    struct seek *seek; /* that is under way, seek.c */
};

enum {
    GATE_OPEN,
    GATE_SEEKING,
    GATE_HALTED, /* a policy has stopped the app: as closed, but what waits waits on */
    GATE_CLOSED,
};

static inline bool dispatch_is_open(const struct dispatch *x)
{
    return __builtin_expect(atomic_load_explicit(&x->gate, memory_order_acquire) == GATE_OPEN, 1);
}

static inline bool dispatch_is_halted(const struct dispatch *x)
{
    return atomic_load_explicit(&x->gate, memory_order_acquire) >= GATE_HALTED;
}

static inline bool dispatch_is_shut(const struct dispatch *x)
{
    return atomic_load_explicit(&x->gate, memory_order_acquire) == GATE_CLOSED;
}

/* By the runner's thread. */
static inline void runner_begin(struct runner *r)
{
    atomic_store_explicit(&r->thread, (uint64_t)pthread_self(), memory_order_relaxed);
    counter_add(&r->run, 1);
}
void runner_ended(struct dispatch *x); /* the gate is not open: a drain may wait for this */
static inline void runner_end(struct dispatch *x, struct runner *r)
{
    atomic_store_explicit(&r->run, counter_get(&r->run) + 1, memory_order_release);
    if (!dispatch_is_open(x))
        runner_ended(x);
}

static inline bool runner_runs(const struct runner *r)
{
    return (atomic_load_explicit(&r->run, memory_order_acquire) & 1) != 0;
}

/* Those of a subscription become visible to other threads; and are so no longer, what they have counted is the subscription's. */
void runner_show_all(struct dispatch *x);
void runner_hide_all(struct dispatch *x);

/* Adds to a counter that has no owner. */
static inline void counter_share(counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* What runs the subscription, held where it is until dispatch_unpin, which must come soon; NULL, and nothing to unpin: it is not open. */
struct dispatch *dispatch_pin(const struct subscription *s);
void dispatch_unpin(void);

/* A delivery out of the pool or a new one; NULL: memory is out. And back; it must be in no list. */
coney_delivery *dispatch_take(struct dispatch *x);
void dispatch_give(struct dispatch *x, coney_delivery *d);

/* A held delivery is nobody's from here on; the broker gets it back when the feed ends. */
void dispatch_set_aside(struct dispatch *x, coney_delivery *d);

/* No handler starts from here on. */
void dispatch_halt(struct dispatch *x);

/* The same, and what waits in lanes and batches or for another attempt is set aside. */
void dispatch_shut(struct dispatch *x);

/* Moves all deliveries that wait in lanes and batches to `into`, of their places; no more are taken when `close`. */
void dispatch_clear(struct dispatch *x, struct list *into, bool close);

/* Around what is done for a delivery that outlived its handler: the subscription is not closed meanwhile. False: it has been closed, only
 * dispatch_orphan is left to do, which tells the transport and frees the delivery. */
bool dispatch_enter(struct dispatch *x);
void dispatch_leave(struct dispatch *x);
coney_status dispatch_orphan(coney_delivery *d);

/* The delivery outlives its handler: counted as open until dispatch_back, which returns it to the pool. */
void dispatch_detach(coney_delivery *d);
void dispatch_back(coney_delivery *d);

/* The gate is not open: what deliver answers. */
coney_settle dispatch_turn_away(struct dispatch *x, struct incoming *m);

/* How often the message, if it was the last, was told to come again. */
uint64_t dispatch_turned_away(const struct dispatch *x, const struct incoming *m);

/* Decodes into `out`, of type->size bytes, or with NULL into the arena; d->value is the value. CONEY_OK, SETTLE_UNDECODABLE or CONEY_FAILED, with the
 * fault. */
coney_settle dispatch_decode(struct dispatch *x, coney_delivery *d, void *out);

/* Decodes, and calls middleware and handler. */
coney_settle dispatch_handle(struct dispatch *x, struct runner *r, coney_delivery *d);

/* Calls the handler alone. */
coney_settle dispatch_call_watched(struct dispatch *x, struct runner *r, coney_delivery *d, const void *value);
static inline coney_settle dispatch_call(struct dispatch *x, struct runner *r, coney_delivery *d, const void *value)
{
    if (__builtin_expect(x->is_watched, 0))
        return dispatch_call_watched(x, r, d, value);
    const struct subscription *s = d->subscription;
    counter_add(&r->stats.calls, 1);
    return s->options.handler.one(d, value);
}

/* For what calls the handler of a batch: for each message, before and after. */
void dispatch_received(struct dispatch *x, coney_delivery *d);
int64_t dispatch_handler_begins(const struct dispatch *x);
void dispatch_handler_ended(struct dispatch *x, struct runner *r, int64_t began, size_t count, coney_settle how);

/* middleware.c: the chain around the handler. */
coney_settle middleware_run(struct dispatch *x, struct runner *r, coney_delivery *d, const void *value);

/* settle.c. The handler has returned `how`: what the transport is to be told at once, or CONEY_KEPT: the delivery is somebody else's. */
coney_settle settle_with_care(struct runner *r, coney_delivery *d, coney_settle how);
static inline coney_settle settle_returned(struct runner *r, coney_delivery *d, coney_settle how)
{
    if (__builtin_expect(how != CONEY_ACK || d->is_special, 0))
        return settle_with_care(r, d, how);
    atomic_store_explicit(&d->in_handler, false, memory_order_relaxed);
    counter_add(&r->stats.acked, 1);
    return CONEY_ACK;
}

/* Tells the transport what settle_returned says of a held delivery, which goes back to the pool. */
void settle_tell(coney_delivery *d, coney_settle how);

static inline bool settle_comes_again(coney_settle how)
{
    return how == CONEY_REQUEUE || how > 0;
}

/* One of those that it waits for is there: the last one settles it. What the transport answered, or CONEY_OK. */
coney_status settle_released(coney_delivery *d);

/* What on_undecodable or on_failure says about the delivery; counts and logs it. */
coney_settle settle_fault(coney_delivery *d, coney_settle how);

/* Says in one line that the handler of a batch has failed `how`, of `count` elements that are told so one by one; `first` is one that knows why, if any does. */
void settle_batch_fault(coney_delivery *first, coney_settle how, size_t count);

/* A delivery that outlived its handler: the transport is told `wire`, and it counts as `how`. */
coney_status settle_finish(coney_delivery *d, coney_settle wire, coney_settle how);

/* Runs `run` with the delivery's work on the worker, soon or after `delay`: not when the subscription is shut (false). `run` begins with
 * settle_on_worker_begins, which is dispatch_enter; false: the delivery is gone. */
void settle_on_worker(coney_delivery *d, void (*run)(struct work *work));
bool settle_on_worker_later(coney_delivery *d, void (*run)(struct work *work), int64_t delay);
bool settle_on_worker_begins(coney_delivery *d);

/* Takes back from the worker what has not begun, or what is for later: set aside. The lock is held. Returns how many of them were counted as open. */
size_t settle_cancel_locked(struct dispatch *x, bool only_later);

/* retry.c. What a retry comes to: attempts, dead letter, delay. And the way of its copy. */
struct settle_plan retry_plan(coney_delivery *d, coney_settle how);
void retry_copy(coney_delivery *d);

/* What a delivery is told whose copy cannot be made. */
coney_settle retry_without_copy(const struct settle_plan *plan);

/* seek.c: waits for a seek that is under way, up to the deadline, and cancels one that has not begun. */
void seek_settle_down(struct dispatch *x);
/* The handler that has called coney_seek has returned. */
void seek_begin(coney_delivery *d);

#endif
