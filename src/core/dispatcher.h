/* dispatcher.h: the thread on which handlers run, and the lanes that it serves in turn.
 *
 * A lane is one source of work (a consumer). Waking it puts it in the dispatcher's queue, once; the dispatcher calls `run`, which does one
 * portion (a chunk) and says whether there is more, in which case the lane goes to the end of the queue. A lane never runs on two threads at
 * once. A lane without a dispatcher runs on its loop, at the end of the round in which it was woken; when there is more, in the next round.
 *
 * Any thread may wake, stop and resume a lane. No lock is held while `run` runs. No allocation but dispatcher_start's.
 *
 * When may a lane be freed? It must not be woken any more, and:
 * - a lane of a dispatcher: once lane_stop has returned true outside its `run`.
 * - a lane on a loop: after lane_stop, from a task that was posted (loop_post) to the same loop: its own task may still be in the loop's hands.
 * - a lane that is stopped while it runs, from the loop or by its own handler: from `ended`, which is posted to the loop when that `run` has
 *   ended; lane_stop then returns true at once.
 */
#ifndef CONEY_CORE_DISPATCHER_H
#define CONEY_CORE_DISPATCHER_H

#include "base/list.h"
#include "base/lock.h"
#include "net/loop.h"

struct dispatcher;

struct lane {
    bool (*run)(struct lane *lane); /* returns true when there is more to do at once */
    struct dispatcher *dispatcher;  /* NULL: runs on `loop` */
    coney_loop *loop;
    struct lock lock;    /* guards what follows when there is no dispatcher; otherwise the dispatcher's own lock does */
    struct cond idle;    /* a `run` has ended */
    struct list queued;  /* in the dispatcher's queue */
    struct task task;    /* on the loop */
    struct task *ended;  /* posted to `loop` when a `run` ends on a stopped lane: then lane_stop will not wait. May be NULL */
    bool woken;          /* it is queued; or will be when it is resumed, or when the `run` under way has ended */
    atomic_bool stopped; /* paused or closed: run is not called */
    _Atomic uint64_t thread; /* who is in `run`; 0 = nobody */
};

/* Starts the thread (signals blocked, named). NULL: CONEY_ELIMIT or memory is out. */
struct dispatcher *dispatcher_start(const char *name);

/* Ends the thread; lanes that are queued are not run. Not from one of its lanes, which may still be stopped, woken and resumed afterwards: they
 * run no more. Harmless when it has ended. In a forked child, where there is no thread, it does nothing. NULL is harmless. */
void dispatcher_end(struct dispatcher *d);

/* Ends the thread and frees the dispatcher. None of its lanes may be used by anybody afterwards. NULL is harmless. */
void dispatcher_stop(struct dispatcher *d);

void lane_init(struct lane *lane, struct dispatcher *d, coney_loop *loop, bool (*run)(struct lane *lane));

/* There is work. Cheap when the lane is queued already or stopped (a stopped lane remembers it). One futex wake at most, and only when the
 * dispatcher sleeps. A lane on the loop may be woken from any thread, too. */
void lane_wake(struct lane *lane);

/* From when this returns true, `run` is not running and will not be called until lane_resume. Waits for a `run` that is under way until
 * `deadline`, then returns false (the lane is stopped all the same, `run` ends by itself); false also when it was resumed meanwhile. From
 * inside the lane's own `run` it does not wait and returns true: the current `run` must look at lane_is_stopped after each message. */
bool lane_stop(struct lane *lane, int64_t deadline);
void lane_resume(struct lane *lane);

static inline bool lane_is_stopped(const struct lane *lane)
{
    return atomic_load_explicit(&lane->stopped, memory_order_acquire);
}

/* True inside the lane's own `run`, on the thread that runs it. */
bool lane_is_current(const struct lane *lane);

/* The lane in whose `run` this thread is, or NULL. */
struct lane *lane_here(void);

#endif
