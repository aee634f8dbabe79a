/* net/loop.h: one poller: descriptors, timers, and tasks that other threads hand in. The inside of <coney/loop.h>.
 *
 * Everything that belongs to a loop (links, timers, the state of producers and consumers) is touched only by the thread that
 * is in a step of it; other threads hand in tasks. So that state needs no locks, and callbacks run with none held.
 * Only loop_post, loop_hold, loop_release, loop_is_current, loop_has_thread and loop_is_stepped_here may be called from other threads.
 *
 * A round: wait for descriptors, call their watches, run the tasks that were posted, fire the timers that are due, run the
 * deferred tasks. Of posted tasks it runs so many at most, the rest in the next rounds: however many calls other threads hand in, the rest of the
 * work goes on beside them. A step is one round that does not wait. In a forked child the loop runs nothing, touches no task and may only be freed.
 */
#ifndef CONEY_NET_LOOP_H
#define CONEY_NET_LOOP_H

#include <coney/loop.h>

#include "base/list.h"
#include "net/timers.h"

#include <stdatomic.h>

/* Work to be done on the loop. Lives inside what it is about; must stay alive until it ran. */
struct task {
    void (*run)(struct task *task);
    struct task *next;
    atomic_bool posted;
};

/* Runs the task on the loop: in this round if it comes to its tasks after this, else in a later one; never from inside this call.
 * A task that is posted already is not posted twice (it runs once, after the latest post). From another thread it wakes the
 * loop when the loop sleeps: one eventfd write for any number of posts between two rounds. Tasks run in the order of their
 * posts; one that is posted by a task runs in a later round. Tasks that wait when the loop is freed run then. */
void loop_post(coney_loop *loop, struct task *task);

/* Any thread: the loop is not freed before it is released again: for a thread that hands in what may be the end of everything, and uses the loop
 * afterwards. It must not wait for long in between, unless that ends with the loop's work. */
void loop_hold(coney_loop *loop);
void loop_release(coney_loop *loop);

/* On the loop: runs the task at the end of this round, before the loop looks at its descriptors again: for what is worth
 * gathering over a round (writes, hand-overs), and for what must not wait behind all that is posted. Same rule about a task
 * that is posted or deferred already. One that is deferred by a deferred task, or between two rounds, runs at the end of the
 * next round. */
void loop_defer(coney_loop *loop, struct task *task);

/* True on the thread that is in a step of this loop now. */
bool loop_is_current(const coney_loop *loop);

/* Sets or moves the timer to `at` (time_now()'s clock); INT64_MAX unsets it. Returns false when memory is out and the timer
 * is not set. Moving a timer that is set never allocates and never fails. */
bool loop_timer_set(coney_loop *loop, struct timer *timer, int64_t at);
void loop_timer_unset(coney_loop *loop, struct timer *timer);

/* A watched descriptor. `ready` gets EPOLL* bits; descriptors are edge-triggered. */
struct watch {
    void (*ready)(struct watch *watch, uint32_t events);
    int fd;
    uint32_t pending; /* bits to be handed over again in the next round without asking the kernel */
    struct list again;
};

/* Watches watch->fd for reading, writing and hang-up, edge-triggered. CONEY_OK or CONEY_ELIMIT. */
coney_status loop_watch(coney_loop *loop, struct watch *watch);
void loop_unwatch(coney_loop *loop, struct watch *watch);

/* The watch stopped before the kernel's buffer (or its own) was empty: call `ready` with these bits again next round. */
void loop_again(coney_loop *loop, struct watch *watch, uint32_t events);

/* The loop's own thread: starts one that steps until loop_thread_stop, with all signals blocked. CONEY_OK or CONEY_ELIMIT.
 * loop_thread_stop waits for it to end. On the loop's own thread it detaches it instead, and the thread ends with its round:
 * the loop must then be freed by that thread too, in the same round (coney_loop_free puts it off to the round's end by itself). */
coney_status loop_thread_start(coney_loop *loop, const char *name);
void loop_thread_stop(coney_loop *loop);

/* True when the loop has a thread of its own (made by loop_thread_start). */
bool loop_has_thread(const coney_loop *loop);

/* For a blocking call on a loop that the user steps: waits for readiness, for 20 ms at most and not beyond `deadline`, and steps once if it
 * came. Whoever waits looks again: another thread may have stepped instead. */
void loop_wait_and_step(coney_loop *loop, int64_t deadline);

/* Is this the thread that made the last step of a user's loop (at first the one that made the loop), or the loop's own thread?
 * A blocking call on it must step the loop itself, or be refused inside a step (loop_is_current). */
bool loop_is_stepped_here(const coney_loop *loop);

#endif
