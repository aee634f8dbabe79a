/* lane.c: see lane.h. */
#include "service/lane.h"

#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"

#include <inttypes.h>
#include <stdlib.h>

struct queue {
    struct lock lock;
    struct cond room;
    struct list waiting;
    counter count; /* may be read without the lock */
    size_t cap;
    struct list idle; /* lanes without work, the last one to fall idle first */
    bool is_closed;   /* takes no more */
    bool is_over;     /* lanes end when nothing waits */
};

struct lane_thread {
    struct runner runner;
    struct lane_set *set;
    struct queue *queue;
    struct list idle;
    struct cond wake;
    struct list *handed; /* its next item */
    struct list *held;   /* its last one, which it runs again after a while */
    pthread_t thread;
};

struct lane_set {
    struct dispatch *dispatch;
    void (*run)(struct dispatch *x, struct runner *r, struct list *item);
    struct queue *queues;
    size_t queue_count;
    struct lane_thread *threads;
    size_t count;
    size_t turn; /* of messages without a key; deliver's own */
};

/* A lane's thread ---------------------------------------------------------------------------------------------------------------- */

/* Waits for an item and begins the run; NULL: there will be none. */
static struct list *next_item(struct lane_thread *lane)
{
    struct queue *q = lane->queue;
    lock_acquire(&q->lock);
    struct list *item = list_take(&q->waiting);
    if (item == NULL && !q->is_over) {
        list_append(q->idle.next, &lane->idle);
        while (lane->handed == NULL && !q->is_over)
            cond_wait(&lane->wake, &q->lock, INT64_MAX);
        list_remove(&lane->idle);
        item = lane->handed;
        lane->handed = NULL;
    } else if (item != NULL) {
        counter_set(&q->count, counter_get(&q->count) - 1);
    }
    if (item != NULL)
        runner_begin(&lane->runner);
    bool wakes = counter_get(&q->count) <= q->cap / 2 && cond_turn(&q->room);
    lock_release(&q->lock);
    if (wakes)
        cond_wake_turned(&q->room);
    return item;
}

static void *lane_run(void *arg)
{
    struct lane_thread *lane = arg;
    struct dispatch *x = lane->set->dispatch;
    for (struct list *item = next_item(lane); item != NULL; item = next_item(lane)) {
        lane->set->run(x, &lane->runner, item);
        runner_end(x, &lane->runner);
    }
    return NULL;
}

void lanes_item_run(struct dispatch *x, struct runner *r, struct list *item)
{
    coney_delivery *d = container_of(item, coney_delivery, place);
    while (!dispatch_is_halted(x)) {
        coney_settle how = settle_returned(r, d, dispatch_handle(x, r, d));
        if (how == CONEY_KEPT)
            return;
        if (!d->stays || !settle_comes_again(how)) {
            settle_tell(d, how);
            return;
        }
        delivery_begin_again(d);
        counter_add(&r->stats.received, 1);
        if (!lanes_hold(x, r, item, how))
            return;
    }
    dispatch_set_aside(x, d);
}

bool lanes_hold(struct dispatch *x, struct runner *r, struct list *item, int64_t delay)
{
    struct lane_thread *lane = container_of(r, struct lane_thread, runner);
    struct queue *q = lane->queue;
    int64_t until = delay > 0 ? time_after(time_now(), delay) : 0;
    lock_acquire(&q->lock);
    lane->held = item;
    runner_end(x, r);
    while (until != 0 && lane->held != NULL && !q->is_closed && cond_wait(&lane->wake, &q->lock, until))
        ;
    bool is_there = lane->held != NULL;
    lane->held = NULL;
    runner_begin(r);
    lock_release(&q->lock);
    return is_there;
}

/* Putting ------------------------------------------------------------------------------------------------------------------------ */

/* Under the lock: to an idle lane, or into the queue. Returns whom to wake. */
static const struct cond *hand_over(struct queue *q, struct list *item)
{
    struct list *idle = list_take(&q->idle);
    if (idle == NULL) {
        list_append(&q->waiting, item);
        counter_add(&q->count, 1);
        return NULL;
    }
    struct lane_thread *lane = container_of(idle, struct lane_thread, idle);
    lane->handed = item;
    return cond_turn(&lane->wake) ? &lane->wake : NULL;
}

static bool is_full(const struct queue *q)
{
    return counter_get(&q->count) >= q->cap;
}

bool lanes_put(struct dispatch *x, size_t index, struct list *item, bool waits)
{
    struct queue *q = &x->subscription->lanes->queues[index];
    lock_acquire(&q->lock);
    while (waits && is_full(q) && !q->is_closed)
        cond_wait(&q->room, &q->lock, INT64_MAX);
    bool takes = !q->is_closed;
    const struct cond *woken = takes ? hand_over(q, item) : NULL;
    lock_release(&q->lock);
    if (woken != NULL)
        cond_wake_turned(woken);
    return takes;
}

void lanes_wait(struct dispatch *x)
{
    struct queue *q = &x->subscription->lanes->queues[0];
    if (!is_full(q))
        return;
    lock_acquire(&q->lock);
    while (is_full(q) && !q->is_closed)
        cond_wait(&q->room, &q->lock, INT64_MAX);
    lock_release(&q->lock);
}

/* FNV-1a, then its halves over each other, since the lanes are few. */
static size_t hash(coney_bytes key)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < key.len; i++)
        h = (h ^ ((const uint8_t *)key.data)[i]) * UINT64_C(1099511628211);
    return (size_t)(h ^ h >> 32);
}

static size_t queue_of(struct lane_set *lanes, const struct dispatch *x, const struct incoming *m)
{
    if (lanes->queue_count == 1)
        return 0;
    coney_bytes key = x->transport->key(m, x->subscription->options.key_header);
    return (key.len > 0 ? hash(key) : lanes->turn++) % lanes->queue_count;
}

static coney_settle hand_on(struct dispatch *x, struct incoming *m)
{
    const struct subscription *s = x->subscription;
    coney_delivery *d = dispatch_take(x);
    if (d == NULL)
        return coney_retry_after(CONEY_SECOND);
    delivery_begin(d, m);
    d->stays = m->feed->ordered && s->options.by_key;
    d->returns = 0;
    size_t queue = queue_of(s->lanes, x, m);
    if (!delivery_hold(d)) {
        dispatch_give(x, d);
        return coney_retry_after(CONEY_SECOND);
    }
    counter_add(&x->direct.stats.received, 1);
    if (!lanes_put(x, queue, &d->place, true))
        dispatch_set_aside(x, d);
    return CONEY_KEPT;
}

coney_settle lanes_deliver(struct sink *sink, struct incoming *m)
{
    struct dispatch *x = ((struct subscription *)(void *)sink)->dispatch;
    runner_begin(&x->direct);
    coney_settle how = dispatch_is_open(x) ? hand_on(x, m) : dispatch_turn_away(x, m);
    runner_end(x, &x->direct);
    return how;
}

/* Open and close ------------------------------------------------------------------------------------------------------------------- */

static void queue_init(struct queue *q, size_t cap)
{
    q->cap = cap;
    list_init(&q->waiting);
    list_init(&q->idle);
}

static coney_status start_thread(struct lane_set *lanes, size_t index)
{
    struct lane_thread *lane = &lanes->threads[index];
    lane->set = lanes;
    lane->queue = &lanes->queues[index % lanes->queue_count];
    list_init(&lane->idle);
    char name[16];
    text_print(name, sizeof name, "%.10s/%zu", lanes->dispatch->subscription->name, index);
    return thread_start(&lane->thread, name, lane_run, lane);
}

/* Items that may wait: whole batches, so that about `lane_queue` messages do. */
static size_t queue_cap(const coney_subscription *options)
{
    int64_t cap = options->lane_queue > 0 ? options->lane_queue : 64;
    if (options->batch > 0)
        cap = cap / options->batch;
    return cap > 0 ? (size_t)cap : 1;
}

coney_status lanes_open(struct dispatch *x, void (*run)(struct dispatch *x, struct runner *r, struct list *item))
{
    struct subscription *s = x->subscription;
    struct lane_set *lanes = calloc(1, sizeof *lanes);
    if (lanes == NULL)
        return CONEY_ENOMEM;
    s->lanes = lanes;
    x->direct.only_hands_on = true;
    lanes->dispatch = x;
    lanes->run = run;
    size_t count = s->options.lanes > 1 ? (size_t)s->options.lanes : 1;
    size_t queue_count = s->options.by_key && s->options.batch == 0 ? count : 1;
    lanes->queues = calloc(queue_count, sizeof *lanes->queues);
    lanes->threads = calloc(count, sizeof *lanes->threads);
    if (lanes->queues == NULL || lanes->threads == NULL)
        return CONEY_ENOMEM;
    for (; lanes->queue_count < queue_count; lanes->queue_count++)
        queue_init(&lanes->queues[lanes->queue_count], queue_cap(&s->options));
    for (; lanes->count < count; lanes->count++) {
        coney_status status = start_thread(lanes, lanes->count);
        if (status != CONEY_OK)
            return status;
    }
    return CONEY_OK;
}

/* Under the lock. */
static void take_held(struct lane_thread *lane, struct list *into)
{
    if (lane->held == NULL)
        return;
    list_append(into, lane->held);
    lane->held = NULL;
    cond_wake_all(&lane->wake);
}

/* What a lane was handed and has not begun. Under the lock, together with what waits: no lane falls idle while something does. */
static void take_handed(struct lane_thread *lane, struct list *into)
{
    if (lane->handed == NULL)
        return;
    list_append(into, lane->handed);
    lane->handed = NULL;
    list_append(&lane->queue->idle, &lane->idle);
}

static void clear_queue(struct lane_set *lanes, struct queue *q, struct list *into, bool close)
{
    lock_acquire(&q->lock);
    q->is_closed |= close;
    for (size_t i = 0; i < lanes->count; i++)
        if (lanes->threads[i].queue == q) {
            take_held(&lanes->threads[i], into);
            take_handed(&lanes->threads[i], into);
        }
    list_move_all(into, &q->waiting);
    counter_set(&q->count, 0);
    cond_wake_all(&q->room);
    lock_release(&q->lock);
}

void lanes_clear(struct dispatch *x, struct list *into, bool close)
{
    struct lane_set *lanes = x->subscription->lanes;
    if (lanes == NULL)
        return;
    for (size_t i = 0; i < lanes->queue_count; i++)
        clear_queue(lanes, &lanes->queues[i], into, close);
}

void lanes_close(struct dispatch *x)
{
    struct lane_set *lanes = x->subscription->lanes;
    if (lanes == NULL)
        return;
    for (size_t i = 0; i < lanes->queue_count; i++) {
        lock_acquire(&lanes->queues[i].lock);
        lanes->queues[i].is_over = true;
        lock_release(&lanes->queues[i].lock);
    }
    for (size_t i = 0; i < lanes->count; i++) {
        cond_wake_all(&lanes->threads[i].wake);
        pthread_join(lanes->threads[i].thread, NULL);
    }
}

void lanes_free(struct subscription *s)
{
    struct lane_set *lanes = s->lanes;
    if (lanes == NULL)
        return;
    s->lanes = NULL;
    free(lanes->queues);
    free(lanes->threads);
    free(lanes);
}

size_t lanes_count(const struct lane_set *lanes)
{
    return lanes->count;
}

struct runner *lanes_runner(struct lane_set *lanes, size_t index)
{
    return &lanes->threads[index].runner;
}
