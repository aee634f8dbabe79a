/* worker.c: see worker.h. Timers are a pairing heap: the root is the next that is due, links stand in the works. */
#include "service/worker.h"

#include "base/thread.h"
#include "base/time.h"

#include <stdlib.h>
#include <time.h>

struct worker {
    struct lock lock;
    struct cond changed;
    struct list posted;
    struct work *timers; /* root of the heap */
    uint64_t turns;
    bool ending;
    bool is_virtual;
    _Atomic int64_t now; /* virtual */
    pthread_t thread;
};

static _Thread_local const struct worker *current;

static bool is_before(const struct work *a, const struct work *b)
{
    return a->due != b->due ? a->due < b->due : a->turn < b->turn;
}

/* Two heaps become one; either may be NULL. */
static struct work *meld(struct work *a, struct work *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    struct work *top = is_before(b, a) ? b : a;
    struct work *below = top == a ? b : a;
    below->next = top->child;
    if (top->child != NULL)
        top->child->before = below;
    below->before = top;
    top->child = below;
    return top;
}

/* The children of a work that leaves become one heap: in pairs first, which keeps it flat, then from the last pair to the first. */
static struct work *meld_children(struct work *first)
{
    struct work *pairs = NULL;
    while (first != NULL) {
        struct work *one = first;
        struct work *other = one->next;
        first = other != NULL ? other->next : NULL;
        one->next = one->before = NULL;
        if (other != NULL)
            other->next = other->before = NULL;
        one = meld(one, other);
        one->next = pairs;
        pairs = one;
    }
    struct work *heap = NULL;
    while (pairs != NULL) {
        struct work *pair = pairs;
        pairs = pair->next;
        pair->next = NULL;
        heap = meld(heap, pair);
    }
    return heap;
}

static void heap_add(struct worker *worker, struct work *work)
{
    work->child = work->next = work->before = NULL;
    worker->timers = meld(worker->timers, work);
}

static void heap_remove(struct worker *worker, struct work *work)
{
    struct work *heap = meld_children(work->child);
    if (work == worker->timers) {
        worker->timers = heap;
    } else {
        if (work->before->child == work)
            work->before->child = work->next;
        else
            work->before->next = work->next;
        if (work->next != NULL)
            work->next->before = work->before;
        worker->timers = meld(worker->timers, heap);
    }
    work->child = work->next = work->before = NULL;
}

/* Under the lock, as all below: takes it from wherever it waits. */
static void take(struct worker *worker, struct work *work)
{
    switch (work->waits) {
    case WORK_IDLE:
        break;
    case WORK_POSTED:
        list_remove(&work->queued);
        break;
    case WORK_TIMED:
        heap_remove(worker, work);
        break;
    }
    work->waits = WORK_IDLE;
}

/* The next that may run: what is posted, then what is due. */
static struct work *take_ready(struct worker *worker, int64_t now)
{
    struct work *work = NULL;
    if (!list_empty(&worker->posted))
        work = container_of(worker->posted.next, struct work, queued);
    else if (worker->timers != NULL && worker->timers->due <= now)
        work = worker->timers;
    if (work != NULL)
        take(worker, work);
    return work;
}

static void *run_all(void *arg)
{
    struct worker *worker = arg;
    current = worker;
    lock_acquire(&worker->lock);
    for (;;) {
        bool only_posted = worker->ending;
        struct work *work = take_ready(worker, only_posted ? INT64_MIN : time_now());
        if (work != NULL) {
            lock_release(&worker->lock);
            work->run(work);
            lock_acquire(&worker->lock);
        } else if (only_posted) {
            break;
        } else {
            cond_wait(&worker->changed, &worker->lock, worker->timers != NULL ? worker->timers->due : INT64_MAX);
        }
    }
    lock_release(&worker->lock);
    return NULL;
}

struct worker *worker_new(const char *name, bool is_virtual, int64_t virtual_now)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return NULL;
    list_init(&worker->posted);
    worker->is_virtual = is_virtual;
    atomic_init(&worker->now, virtual_now);
    if (is_virtual || thread_start(&worker->thread, name, run_all, worker) == CONEY_OK)
        return worker;
    free(worker);
    return NULL;
}

/* What is left is nobody's any more: its owner may set it with another worker. */
static void drop_all(struct worker *worker)
{
    while (!list_empty(&worker->posted))
        take(worker, container_of(worker->posted.next, struct work, queued));
    while (worker->timers != NULL)
        take(worker, worker->timers);
}

void worker_free(struct worker *worker)
{
    if (worker == NULL)
        return;
    if (worker->is_virtual) {
        while (!list_empty(&worker->posted))
            worker_run_one(worker);
    } else {
        lock_acquire(&worker->lock);
        worker->ending = true;
        cond_wake_all(&worker->changed);
        lock_release(&worker->lock);
        pthread_join(worker->thread, NULL);
    }
    drop_all(worker);
    free(worker);
}

void work_init(struct work *work, void (*run)(struct work *work))
{
    *work = (struct work){.run = run};
    list_init(&work->queued);
}

void worker_post(struct worker *worker, struct work *work)
{
    lock_acquire(&worker->lock);
    if (work->waits != WORK_POSTED) {
        take(worker, work);
        list_append(&worker->posted, &work->queued);
        work->waits = WORK_POSTED;
    }
    cond_wake_all(&worker->changed);
    lock_release(&worker->lock);
}

void worker_at(struct worker *worker, struct work *work, int64_t due)
{
    lock_acquire(&worker->lock);
    take(worker, work);
    work->due = due;
    work->turn = worker->turns++;
    heap_add(worker, work);
    work->waits = WORK_TIMED;
    if (worker->timers == work)
        cond_wake_all(&worker->changed);
    lock_release(&worker->lock);
}

bool worker_cancel(struct worker *worker, struct work *work)
{
    lock_acquire(&worker->lock);
    bool waited = work->waits != WORK_IDLE;
    take(worker, work);
    lock_release(&worker->lock);
    return waited;
}

bool worker_is_current(const struct worker *worker)
{
    return worker != NULL && current == worker;
}

int64_t worker_now(const struct worker *worker)
{
    return worker->is_virtual ? atomic_load_explicit(&worker->now, memory_order_relaxed) : time_now();
}

int64_t worker_wall(const struct worker *worker)
{
    if (worker->is_virtual)
        return worker_now(worker) / CONEY_MILLISECOND;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool worker_run_one(struct worker *worker)
{
    lock_acquire(&worker->lock);
    struct work *work = take_ready(worker, worker_now(worker));
    lock_release(&worker->lock);
    if (work == NULL)
        return false;
    const struct worker *outer = current;
    current = worker;
    work->run(work);
    current = outer;
    return true;
}

int64_t worker_next_due(const struct worker *worker)
{
    struct worker *own = (struct worker *)worker;
    lock_acquire(&own->lock);
    int64_t due = own->timers != NULL ? own->timers->due : INT64_MAX;
    lock_release(&own->lock);
    return due;
}

void worker_set_now(struct worker *worker, int64_t now)
{
    if (now > worker_now(worker))
        atomic_store_explicit(&worker->now, now, memory_order_relaxed);
}
