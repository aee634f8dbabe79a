/* loop.c: epoll, with an eventfd for wake-ups and a timerfd for timers inside it.
 *
 * Both are watched edge-triggered and never read: each write and each expiry is an edge of its own. So is each for an outer
 * poller that holds the loop's descriptor edge-triggered: the kernel passes every edge inside on to it. What the kernel does not
 * see (a full batch, work put off, tasks of this round) is turned into an edge by a write to the eventfd at the end of a step.
 *
 * Posts are a stack that other threads push to and the loop takes whole. `asleep` says that nobody will look at the stack
 * before the eventfd is written: the poster that clears it writes. The loop sets it first and looks at the stack after that, a
 * poster pushes first and looks at `asleep` after that, both sequentially consistent: one of them sees the other.
 */
#define _GNU_SOURCE
#include "net/loop.h"

#include "base/fork.h"
#include "base/thread.h"
#include "base/time.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BATCH 64   /* descriptors of one round */
#define TASKS 1024 /* posted ones of one round: whatever is posted, descriptors and timers have their turn */

/* A thread that waits by stepping looks up this often: another one may have begun to step, and done what it waits for. */
#define LONGEST_WAIT (20 * CONEY_MILLISECOND)

struct coney_loop {
    int epoll_fd;
    int event_fd;
    int timer_fd;
    uint32_t generation;
    _Atomic(struct task *) posts; /* the latest first */
    atomic_bool asleep;
    _Atomic uint32_t holders;      /* threads that are inside something that touches the loop */
    _Atomic(const void *) current; /* the thread in a step, as thread_mark says it */
    _Atomic(const void *) stepper; /* the thread of the last step */
    struct task *taken;            /* from the stack, in their order; what this round leaves is the next one's */
    struct task **taken_end;
    struct task *deferred;
    struct task **deferred_end;
    struct list again;
    struct timers timers;
    int64_t armed_at; /* what the timerfd is set to; INT64_MAX = it has fired or was never set */
    struct epoll_event events[BATCH];
    int event_at;
    int event_count;
    bool freed; /* inside a step: to be done at its end */
    bool has_thread;
    atomic_bool stopping;
    pthread_t thread;
};

static _Thread_local char thread_mark; /* its address tells threads apart */

static bool is_forked(const coney_loop *loop)
{
    return loop->generation != fork_generation();
}

/* Waking ---------------------------------------------------------------------------------------------------------- */

static void wake(coney_loop *loop)
{
    if (!atomic_load_explicit(&loop->asleep, memory_order_seq_cst) || !atomic_exchange(&loop->asleep, false))
        return;
    uint64_t one = 1;
    ssize_t written = write(loop->event_fd, &one, sizeof one);
    (void)written; /* it fails only when the count is full, and then the descriptor is readable anyway */
}

void loop_hold(coney_loop *loop)
{
    atomic_fetch_add(&loop->holders, 1);
}

void loop_release(coney_loop *loop)
{
    atomic_fetch_sub(&loop->holders, 1);
}

/* Held: as soon as the task can be seen it may run, and be what ends the loop. */
void loop_post(coney_loop *loop, struct task *task)
{
    if (atomic_exchange(&task->posted, true) || is_forked(loop))
        return;
    loop_hold(loop);
    struct task *top = atomic_load_explicit(&loop->posts, memory_order_relaxed);
    do
        task->next = top;
    while (!atomic_compare_exchange_weak(&loop->posts, &top, task));
    wake(loop);
    loop_release(loop);
}

void loop_defer(coney_loop *loop, struct task *task)
{
    if (atomic_exchange(&task->posted, true) || is_forked(loop))
        return;
    task->next = NULL;
    *loop->deferred_end = task;
    loop->deferred_end = &task->next;
    if (!loop_is_current(loop))
        wake(loop);
}

/* Tasks ----------------------------------------------------------------------------------------------------------- */

/* `posted` is cleared before the task runs, with the memory order that shows it all that was written before the last post. */
static void run_task(struct task *task)
{
    atomic_exchange(&task->posted, false);
    task->run(task);
}

static void take_posts(coney_loop *loop)
{
    if (atomic_load_explicit(&loop->posts, memory_order_relaxed) == NULL)
        return;
    struct task *latest = atomic_exchange(&loop->posts, NULL);
    struct task **end = &latest->next; /* of the latest, which comes last */
    struct task *first = NULL;
    while (latest != NULL) {
        struct task *next = latest->next;
        latest->next = first;
        first = latest;
        latest = next;
    }
    *loop->taken_end = first;
    loop->taken_end = end;
}

static void run_posts(coney_loop *loop)
{
    take_posts(loop);
    for (unsigned left = TASKS; left > 0 && loop->taken != NULL; left--) {
        struct task *task = loop->taken;
        loop->taken = task->next;
        if (loop->taken == NULL)
            loop->taken_end = &loop->taken;
        run_task(task);
    }
}

static void run_deferred(coney_loop *loop)
{
    struct task *first = loop->deferred;
    loop->deferred = NULL;
    loop->deferred_end = &loop->deferred;
    while (first != NULL) {
        struct task *task = first;
        first = task->next;
        run_task(task);
    }
}

/* Timers ---------------------------------------------------------------------------------------------------------- */

/* Sets the timerfd if the earliest deadline lies before what it is set to. When that one moved to later it fires too early
 * once, which costs less than a system call at each move. */
static void arm(coney_loop *loop)
{
    int64_t at = timers_next(&loop->timers);
    if (at >= loop->armed_at || is_forked(loop))
        return;
    loop->armed_at = at;
    at = at > 0 ? at : 1;
    struct itimerspec when = {.it_value = {.tv_sec = at / CONEY_SECOND, .tv_nsec = at % CONEY_SECOND}};
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

bool loop_timer_set(coney_loop *loop, struct timer *timer, int64_t at)
{
    bool set = timers_set(&loop->timers, timer, at);
    if (!loop_is_current(loop))
        arm(loop);
    return set;
}

void loop_timer_unset(coney_loop *loop, struct timer *timer)
{
    timers_unset(&loop->timers, timer);
}

/* Descriptors ----------------------------------------------------------------------------------------------------- */

coney_status loop_watch(coney_loop *loop, struct watch *watch)
{
    watch->pending = 0;
    list_init(&watch->again);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = watch};
    return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) == 0 ? CONEY_OK : CONEY_ELIMIT;
}

void loop_unwatch(coney_loop *loop, struct watch *watch)
{
    list_remove(&watch->again);
    for (int i = loop->event_at; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
    if (!is_forked(loop)) /* the child's epoll is the parent's */
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
}

void loop_again(coney_loop *loop, struct watch *watch, uint32_t events)
{
    watch->pending |= events;
    if (list_empty(&watch->again))
        list_append(&loop->again, &watch->again);
    if (!loop_is_current(loop))
        wake(loop);
}

static void call_watch(struct watch *watch, uint32_t events)
{
    events |= watch->pending;
    watch->pending = 0;
    list_remove(&watch->again);
    watch->ready(watch, events);
}

/* Calls the watches of this batch and those in `again`; true when the timerfd was among them. */
static bool call_watches(coney_loop *loop, struct list *again)
{
    bool timer_fired = false;
    for (loop->event_at = 0; loop->event_at < loop->event_count;) {
        const struct epoll_event *event = &loop->events[loop->event_at++];
        if (event->data.ptr == loop)
            timer_fired = true;
        else if (event->data.ptr != NULL)
            call_watch(event->data.ptr, event->events);
    }
    while (!list_empty(again))
        call_watch(container_of(again->next, struct watch, again), 0);
    return timer_fired;
}

/* Rounds ---------------------------------------------------------------------------------------------------------- */

static void one_round(coney_loop *loop, int timeout_ms)
{
    struct list again;
    list_init(&again);
    list_move_all(&again, &loop->again);
    loop->event_count = epoll_wait(loop->epoll_fd, loop->events, BATCH, timeout_ms);
    atomic_store_explicit(&loop->asleep, false, memory_order_relaxed);
    bool timer_fired = call_watches(loop, &again);
    run_posts(loop);
    if (timer_fired) {
        loop->armed_at = INT64_MAX;
        timers_fire(&loop->timers, time_now());
    }
    run_deferred(loop);
    arm(loop);
}

static bool work_is_put_off(const coney_loop *loop)
{
    return !list_empty(&loop->again) || loop->taken != NULL || loop->deferred != NULL;
}

/* False when a thread is in a step already: two that both believe the loop to be theirs do no harm. */
static bool enter(coney_loop *loop)
{
    const void *nobody = NULL;
    if (!atomic_compare_exchange_strong_explicit(&loop->current, &nobody, &thread_mark, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&loop->stepper, &thread_mark, memory_order_relaxed);
    return true;
}

static void leave(coney_loop *loop)
{
    atomic_store_explicit(&loop->current, NULL, memory_order_release);
}

static bool is_needed(const coney_loop *loop)
{
    return atomic_load(&loop->holders) > 0 || atomic_load(&loop->posts) != NULL || loop->taken != NULL ||
           loop->deferred != NULL;
}

/* The last rounds, without descriptors and timers: what was posted may be all that frees its owner. */
static void destroy(coney_loop *loop)
{
    enter(loop);
    while (!is_forked(loop) && is_needed(loop)) {
        run_posts(loop);
        run_deferred(loop);
        if (atomic_load(&loop->holders) > 0)
            sched_yield();
    }
    timers_free(&loop->timers);
    close(loop->epoll_fd);
    close(loop->event_fd);
    close(loop->timer_fd);
    free(loop);
}

bool coney_loop_step(coney_loop *loop)
{
    if (loop->has_thread || is_forked(loop) || !enter(loop))
        return false;
    atomic_store_explicit(&loop->asleep, false, memory_order_relaxed);
    one_round(loop, 0);
    if (loop->freed) {
        destroy(loop);
        return false;
    }
    atomic_store(&loop->asleep, true);
    bool more = loop->event_count == BATCH || work_is_put_off(loop) || atomic_load(&loop->posts) != NULL;
    if (more)
        wake(loop);
    leave(loop);
    return more;
}

void loop_wait_and_step(coney_loop *loop, int64_t deadline)
{
    struct pollfd readable = {.fd = loop->epoll_fd, .events = POLLIN};
    int64_t left = deadline - time_now();
    left = left < 0 ? 0 : left > LONGEST_WAIT ? LONGEST_WAIT : left;
    struct timespec wait = {.tv_nsec = left};
    if (ppoll(&readable, 1, &wait, NULL) > 0)
        coney_loop_step(loop);
}

/* The loop's own thread ------------------------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    coney_loop *loop = arg;
    enter(loop);
    while (!atomic_load(&loop->stopping)) {
        bool idle = !work_is_put_off(loop);
        if (idle) {
            atomic_store(&loop->asleep, true);
            idle = atomic_load(&loop->posts) == NULL && !atomic_load(&loop->stopping);
        }
        one_round(loop, idle ? -1 : 0);
    }
    if (loop->freed) {
        destroy(loop);
        return NULL;
    }
    atomic_store(&loop->asleep, true);
    leave(loop);
    return NULL;
}

coney_status loop_thread_start(coney_loop *loop, const char *name)
{
    atomic_store(&loop->stopping, false);
    atomic_store(&loop->stepper, NULL);
    loop->has_thread = true;
    coney_status status = thread_start(&loop->thread, name, thread_main, loop);
    if (status != CONEY_OK) {
        loop->has_thread = false;
        atomic_store(&loop->stepper, &thread_mark);
    }
    return status;
}

void loop_thread_stop(coney_loop *loop)
{
    if (!loop->has_thread)
        return;
    atomic_store(&loop->stopping, true);
    if (!is_forked(loop)) { /* a child has no such thread */
        wake(loop);
        if (loop_is_current(loop))
            pthread_detach(pthread_self());
        else
            pthread_join(loop->thread, NULL);
    }
    loop->has_thread = false;
}

bool loop_has_thread(const coney_loop *loop)
{
    return loop->has_thread;
}

bool loop_is_current(const coney_loop *loop)
{
    return atomic_load_explicit(&loop->current, memory_order_relaxed) == &thread_mark;
}

bool loop_is_stepped_here(const coney_loop *loop)
{
    return atomic_load_explicit(&loop->stepper, memory_order_relaxed) == &thread_mark;
}

/* The loop itself ------------------------------------------------------------------------------------------------- */

static bool add(const coney_loop *loop, int fd, void *mark)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = mark};
    return fd >= 0 && epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

coney_loop *coney_loop_new(void)
{
    coney_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return NULL;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->epoll_fd < 0 || !add(loop, loop->event_fd, NULL) || !add(loop, loop->timer_fd, loop)) {
        close_if_open(loop->epoll_fd);
        close_if_open(loop->event_fd);
        close_if_open(loop->timer_fd);
        free(loop);
        return NULL;
    }
    loop->generation = fork_generation();
    loop->taken_end = &loop->taken;
    loop->deferred_end = &loop->deferred;
    list_init(&loop->again);
    loop->armed_at = INT64_MAX;
    atomic_init(&loop->asleep, true);
    atomic_init(&loop->stepper, &thread_mark);
    return loop;
}

void coney_loop_free(coney_loop **loop)
{
    coney_loop *it = *loop;
    *loop = NULL;
    if (it == NULL)
        return;
    loop_thread_stop(it);
    if (loop_is_current(it) && !is_forked(it))
        it->freed = true;
    else
        destroy(it);
}

int coney_loop_fd(const coney_loop *loop)
{
    return loop->epoll_fd;
}
