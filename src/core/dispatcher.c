/* dispatcher.c: one queue of lanes and one lock over all of them.
 *
 * The lock of the dispatcher guards its lanes, too: taking a lane from the queue and marking it as running is one step for whoever stops it,
 * so between the two nobody can find the lane idle and free it. After `run` the thread lets go of the lane in one step under the same lock.
 */
#include "core/dispatcher.h"

#include "base/fork.h"
#include "base/thread.h"

#include <stdlib.h>

struct dispatcher {
    struct lock lock;
    struct cond work;
    struct list queue; /* of lanes, by `queued` */
    bool ended;
    uint32_t born; /* fork_generation */
    pthread_t thread;
};

static _Thread_local struct lane *here;

/* A number that no other live thread has, not 0. */
static uint64_t thread_id(void)
{
    static _Thread_local char here;
    return (uint64_t)(uintptr_t)&here;
}

/* Lanes -------------------------------------------------------------------------------------------------------------- */

static struct lock *guard_of(struct lane *lane)
{
    return lane->dispatcher != NULL ? &lane->dispatcher->lock : &lane->lock;
}

/* What the dispatcher's thread waits for; NULL for a lane on a loop. */
static const struct cond *work_of(const struct lane *lane)
{
    return lane->dispatcher != NULL ? &lane->dispatcher->work : NULL;
}

static bool is_running(const struct lane *lane)
{
    return atomic_load_explicit(&lane->thread, memory_order_relaxed) != 0;
}

/* Under the guard: hands the lane to who runs it. Returns true when the dispatcher's thread sleeps and is to be woken once the guard is released.
 * On the loop the task may be posted already, from before a stop; then it runs once. */
static bool enqueue(struct lane *lane)
{
    struct dispatcher *d = lane->dispatcher;
    if (d != NULL) {
        list_append(&d->queue, &lane->queued);
        return cond_turn(&d->work);
    }
    if (loop_is_current(lane->loop)) {
        loop_defer(lane->loop, &lane->task);
    } else {
        loop_post(lane->loop, &lane->task);
    }
    return false;
}

/* Under the guard, which is released: as soon as it is free the lane may run, and after that its closing may end the dispatcher, so of both only
 * the address of the condition is used. */
static void release_and_wake(struct lock *guard, const struct cond *work, bool wake)
{
    lock_release(guard);
    if (wake)
        cond_wake_turned(work);
}

/* Under the guard: a lane that is about to run. */
static void begin(struct lane *lane)
{
    lane->woken = false;
    atomic_store_explicit(&lane->thread, thread_id(), memory_order_relaxed);
}

/* Under the guard: `run` has ended. Returns true when it is to be called again. The last touch of the lane by who ran it is the release of
 * the guard, if this returns false: a thread that waits in lane_stop cannot go on before. */
static bool end(struct lane *lane, bool more)
{
    atomic_store_explicit(&lane->thread, 0, memory_order_relaxed);
    lane->woken = lane->woken || more;
    cond_wake_all(&lane->idle);
    if (lane_is_stopped(lane) && lane->ended != NULL)
        loop_post(lane->loop, lane->ended);
    return lane->woken && !lane_is_stopped(lane);
}

/* A handler may step the loop of another lane. */
static bool run(struct lane *lane)
{
    struct lane *outer = here;
    here = lane;
    bool more = lane->run(lane);
    here = outer;
    return more;
}

static void run_on_loop(struct task *task)
{
    struct lane *lane = container_of(task, struct lane, task);
    lock_acquire(&lane->lock);
    bool due = lane->woken && !lane_is_stopped(lane);
    if (due)
        begin(lane);
    lock_release(&lane->lock);
    if (!due)
        return;
    bool more = run(lane);
    lock_acquire(&lane->lock);
    if (end(lane, more))
        loop_post(lane->loop, &lane->task);
    lock_release(&lane->lock);
}

void lane_init(struct lane *lane, struct dispatcher *d, coney_loop *loop, bool (*run)(struct lane *lane))
{
    *lane = (struct lane){.run = run, .dispatcher = d, .loop = loop, .task = {.run = run_on_loop}};
    list_init(&lane->queued);
}

void lane_wake(struct lane *lane)
{
    struct lock *guard = guard_of(lane);
    const struct cond *work = work_of(lane);
    lock_acquire(guard);
    bool idle = !lane->woken && !is_running(lane) && !lane_is_stopped(lane);
    lane->woken = true;
    release_and_wake(guard, work, idle && enqueue(lane));
}

bool lane_stop(struct lane *lane, int64_t deadline)
{
    struct lock *guard = guard_of(lane);
    lock_acquire(guard);
    atomic_store_explicit(&lane->stopped, true, memory_order_release);
    list_remove(&lane->queued);
    bool in_time = true;
    if (!lane_is_current(lane))
        while (is_running(lane) && lane_is_stopped(lane) && in_time)
            in_time = cond_wait(&lane->idle, guard, deadline);
    bool stopped = lane_is_stopped(lane) && (!is_running(lane) || lane_is_current(lane));
    lock_release(guard);
    return stopped;
}

void lane_resume(struct lane *lane)
{
    struct lock *guard = guard_of(lane);
    const struct cond *work = work_of(lane);
    lock_acquire(guard);
    bool due = lane_is_stopped(lane) && lane->woken && !is_running(lane);
    atomic_store_explicit(&lane->stopped, false, memory_order_release);
    release_and_wake(guard, work, due && enqueue(lane));
}

bool lane_is_current(const struct lane *lane)
{
    return atomic_load_explicit(&lane->thread, memory_order_relaxed) == thread_id();
}

struct lane *lane_here(void)
{
    return here;
}

/* The dispatcher ----------------------------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    struct dispatcher *d = arg;
    lock_acquire(&d->lock);
    while (!d->ended) {
        struct list *item = list_take(&d->queue);
        if (item == NULL) {
            cond_wait(&d->work, &d->lock, INT64_MAX);
            continue;
        }
        struct lane *lane = container_of(item, struct lane, queued);
        begin(lane);
        lock_release(&d->lock);
        bool more = run(lane);
        lock_acquire(&d->lock);
        if (end(lane, more))
            list_append(&d->queue, &lane->queued);
    }
    lock_release(&d->lock);
    return NULL;
}

struct dispatcher *dispatcher_start(const char *name)
{
    struct dispatcher *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    list_init(&d->queue);
    d->born = fork_generation();
    if (thread_start(&d->thread, name, serve, d) == CONEY_OK)
        return d;
    free(d);
    return NULL;
}

void dispatcher_end(struct dispatcher *d)
{
    if (d == NULL || d->born != fork_generation())
        return;
    lock_acquire(&d->lock);
    bool first = !d->ended;
    d->ended = true;
    lock_release(&d->lock);
    cond_wake_all(&d->work);
    if (first)
        pthread_join(d->thread, NULL);
}

void dispatcher_stop(struct dispatcher *d)
{
    dispatcher_end(d);
    free(d);
}
