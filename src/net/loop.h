/* net/loop.h: one poller: descriptors, timers, and tasks that other threads hand in. The inside of <coney/loop.h>.
 *
 * Everything that belongs to a loop (links, timers, the state of producers and consumers) is touched only by the thread that
 * is in a step of it; other threads hand in tasks. So that state needs no locks, and callbacks run with none held.
 * Only loop_post, loop_is_current and loop_wake may be called from other threads.
 */
#ifndef CONEY_NET_LOOP_H
#define CONEY_NET_LOOP_H

#include <coney/loop.h>

#include "base/list.h"

#include <stdatomic.h>

/* Work to be done on the loop. Lives inside what it is about; must stay alive until it ran. */
struct task {
    void (*run)(struct task *task);
    struct task *next;
    atomic_bool posted;
};

/* Runs the task in the loop's next round. A task that is posted already is not posted twice (it runs once, after the latest
 * post). From another thread it wakes the loop when the loop sleeps: one eventfd write for any number of posts between two
 * rounds. Tasks run in the order of their posts; one that is posted by a task runs in the next round. */
void loop_post(coney_loop *loop, struct task *task);

/* On the loop: runs the task at the end of this round, before the loop looks at its descriptors again: for what is worth
 * gathering over a round (writes, hand-overs). Same rule about a task that is posted already. */
void loop_defer(coney_loop *loop, struct task *task);

/* True on the thread that is in a step of this loop now. */
bool loop_is_current(const coney_loop *loop);

struct timer {
    void (*fire)(struct timer *timer); /* the timer is unset when it runs and may be set again there, or freed */
    int64_t at;
    size_t place; /* in the heap, plus 1; 0 = not set */
};

/* Sets or moves the timer to `at` (time_now()'s clock); INT64_MAX unsets it. Returns false when memory is out and the timer
 * is not set. Setting a timer that was set before never allocates. */
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
 * loop_thread_stop waits for it to end (not from the loop's own thread: there it lets the thread end and detaches it). */
coney_status loop_thread_start(coney_loop *loop, const char *name);
void loop_thread_stop(coney_loop *loop);

/* True when the loop has a thread of its own (made by loop_thread_start). */
bool loop_has_thread(const coney_loop *loop);

/* For a blocking call on a loop that the user steps: waits for readiness until `deadline`, then steps once. */
void loop_wait_and_step(coney_loop *loop, int64_t deadline);

/* The thread that made the last step of a user's loop, or the loop's own thread: is it this one? A blocking call on it must step
 * the loop itself, or be refused inside a step (loop_is_current). */
bool loop_is_stepped_here(const coney_loop *loop);

#endif
