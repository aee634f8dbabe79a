/* batch.c: see batch.h. */
#include "service/batch.h"

#include "base/text.h"
#include "base/time.h"
#include "service/lane.h"

#include <stdlib.h>

#define NOT_SETTLED INT64_MIN

struct coney_batch {
    struct list place; /* in a lane's queue */
    struct coney_batch *next;
    struct subscription *subscription;
    coney_delivery **elements;
    size_t count;
    size_t cap;
    coney_settle *hows; /* run_cap of them, as the values */
    uint8_t *values;
    size_t run_cap;

    bool stays;       /* its elements that are to come again stay in its lane; for those: */
    size_t undecided; /* elements of which it is not known; under the dispatch's lock, as are the two below */
    struct list again;
    int64_t delay; /* the longest that one of them asked for */
};

struct gather {
    struct dispatch *dispatch;
    size_t limit;
    struct lock lock; /* guards what follows */
    struct cond changed;
    coney_batch *open;  /* being gathered, or NULL */
    coney_batch *spare; /* for later */
    int64_t due;        /* when the open one is closed; worker_now's clock */
    struct work timer;
    bool is_set; /* the timer, or it runs */
    bool is_closed;
};

/* Batches ------------------------------------------------------------------------------------------------------------------------ */

static void batch_free(coney_batch *batch)
{
    free(batch->elements);
    free(batch->hows);
    free(batch->values);
    free(batch);
}

/* Under the lock. */
static coney_batch *batch_take(struct gather *g)
{
    coney_batch *batch = g->spare;
    if (batch != NULL) {
        g->spare = batch->next;
        return batch;
    }
    batch = calloc(1, sizeof *batch);
    if (batch == NULL)
        return NULL;
    list_init(&batch->place);
    list_init(&batch->again);
    batch->subscription = g->dispatch->subscription;
    return batch;
}

static void batch_give(struct gather *g, coney_batch *batch)
{
    batch->count = 0;
    lock_acquire(&g->lock);
    batch->next = g->spare;
    g->spare = batch;
    lock_release(&g->lock);
}

/* Room for one element more, growing by doubling up to `limit`. */
static bool has_room(coney_batch *batch, size_t limit)
{
    if (batch->count < batch->cap)
        return true;
    size_t cap = batch->cap == 0 ? 64 : batch->cap * 2;
    cap = cap < limit ? cap : limit;
    coney_delivery **elements = realloc(batch->elements, cap * sizeof *elements);
    if (elements == NULL)
        return false;
    batch->elements = elements;
    batch->cap = cap;
    return true;
}

static size_t value_size(const struct subscription *s)
{
    return s->type != NULL ? s->type->size : sizeof(coney_bytes);
}

/* Room for as many values and settlements as there are elements. */
static bool has_values(coney_batch *batch)
{
    if (batch->count <= batch->run_cap)
        return true;
    free(batch->hows);
    free(batch->values);
    batch->run_cap = 0;
    batch->hows = malloc(batch->cap * sizeof *batch->hows);
    batch->values = malloc(batch->cap * value_size(batch->subscription));
    if (batch->hows == NULL || batch->values == NULL)
        return false;
    batch->run_cap = batch->cap;
    return true;
}

/* Running one ---------------------------------------------------------------------------------------------------------------------- */

/* Elements that stay are settled with their batch still known: whether they come again is told by batch_takes_back. */
static void settle_element(struct runner *r, coney_batch *batch, coney_delivery *d, coney_settle how)
{
    d->batch = batch->stays ? batch : NULL;
    how = settle_returned(r, d, how);
    if (how == CONEY_KEPT)
        return;
    d->plan = (struct settle_plan){.way = PLAN_SETTLE, .how = how};
    if (!batch->stays || !batch_takes_back(d))
        settle_tell(d, how);
}

/* Elements that can be decoded are moved together; the others are settled alone. */
static void decode_all(struct dispatch *x, struct runner *r, coney_batch *batch)
{
    const struct subscription *s = batch->subscription;
    size_t size = value_size(s);
    size_t good = 0;
    for (size_t i = 0; i < batch->count; i++) {
        coney_delivery *d = batch->elements[i];
        void *value = batch->values + good * size;
        d->was_told = false;
        dispatch_received(x, d);
        coney_settle how = CONEY_OK;
        if (s->type != NULL)
            how = dispatch_decode(x, d, value);
        else
            memcpy(value, &d->m->body, sizeof d->m->body);
        if (how != CONEY_OK) {
            settle_element(r, batch, d, how);
            continue;
        }
        d->batch = batch;
        batch->elements[good] = d;
        batch->hows[good] = NOT_SETTLED;
        good++;
    }
    batch->count = good;
}

/* The failure of those that have no settlement of their own is one, and said once. */
static void tell_failure(coney_batch *batch, coney_settle how)
{
    coney_delivery *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        coney_delivery *d = batch->elements[i];
        d->was_told = batch->hows[i] == NOT_SETTLED;
        if (!d->was_told)
            continue;
        count++;
        if (first == NULL || (first->fault.text[0] == '\0' && d->fault.text[0] != '\0'))
            first = d;
    }
    if (first != NULL)
        settle_batch_fault(first, how, count);
}

static void batch_run(struct dispatch *x, struct runner *r, coney_batch *batch)
{
    coney_settle how = coney_retry_after(CONEY_SECOND);
    bool runs = has_values(batch);
    if (runs)
        decode_all(x, r, batch);
    else
        app_log(x->app, CONEY_LOG_ERROR, "subscription '%s': memory is out: a batch of %zu comes again", x->subscription->name,
                batch->count);
    if (runs && batch->count > 0) {
        counter_add(&r->stats.batches, 1);
        counter_add(&r->stats.batched, batch->count);
        int64_t began = dispatch_handler_begins(x);
        how = batch->subscription->options.handler.many(batch, batch->values, batch->count);
        dispatch_handler_ended(x, r, began, batch->count, how);
        if (how < CONEY_REQUEUE)
            tell_failure(batch, how);
    }
    for (size_t i = 0; i < batch->count; i++) {
        coney_settle own = runs ? batch->hows[i] : NOT_SETTLED;
        settle_element(r, batch, batch->elements[i], own != NOT_SETTLED ? own : how);
    }
}

/* What stays ----------------------------------------------------------------------------------------------------------------------- */

bool batch_takes_back(coney_delivery *d)
{
    struct dispatch *x = d->dispatch;
    bool comes_again = d->plan.way == PLAN_SETTLE && settle_comes_again(d->plan.how);
    bool was_counted = false;
    lock_acquire(&x->lock);
    coney_batch *batch = d->batch;
    bool is_taken = batch != NULL && comes_again;
    d->batch = NULL;
    if (is_taken) {
        list_remove(&d->place);
        list_append(&batch->again, &d->place);
        batch->delay = d->plan.how > batch->delay ? d->plan.how : batch->delay;
        was_counted = d->was_counted;
        d->was_counted = false;
    }
    if (batch != NULL && --batch->undecided == 0)
        cond_wake_all(&x->changed);
    lock_release(&x->lock);
    if (was_counted)
        app_closed(x->app);
    return is_taken;
}

/* Under the lock: the subscription is shut, so those that still wait for what they published end without their batch. */
static void let_go_locked(struct dispatch *x, const coney_batch *batch)
{
    for (struct list *item = x->out.next; item != &x->out; item = item->next) {
        coney_delivery *d = container_of(item, coney_delivery, place);
        if (d->batch == batch)
            d->batch = NULL;
    }
}

/* Until the fate of each element is known: of those that have published, when it is confirmed. */
static void await_decisions(struct dispatch *x, struct runner *r, coney_batch *batch)
{
    lock_acquire(&x->lock);
    bool waits = batch->undecided > 0;
    lock_release(&x->lock);
    if (!waits)
        return;
    runner_end(x, r);
    lock_acquire(&x->lock);
    while (batch->undecided > 0 && !dispatch_is_shut(x))
        cond_wait(&x->changed, &x->lock, INT64_MAX);
    if (batch->undecided > 0)
        let_go_locked(x, batch);
    lock_release(&x->lock);
    runner_begin(r);
}

/* In their order, which those that could not be decoded and those that waited for confirms have left. */
static void insert(coney_batch *batch, coney_delivery *d)
{
    size_t at = batch->count++;
    for (; at > 0 && batch->elements[at - 1]->in.offset > d->in.offset; at--)
        batch->elements[at] = batch->elements[at - 1];
    batch->elements[at] = d;
}

/* The batch becomes what is to come again of it. */
static void gather_again(struct runner *r, coney_batch *batch)
{
    batch->count = 0;
    for (struct list *item = list_take(&batch->again); item != NULL; item = list_take(&batch->again)) {
        coney_delivery *d = container_of(item, coney_delivery, place);
        delivery_begin_again(d);
        insert(batch, d);
    }
    counter_add(&r->stats.received, batch->count);
}

/* Runs it until nothing of it comes again; false: what was to come again was taken away. */
static bool run_in_order(struct dispatch *x, struct runner *r, coney_batch *batch)
{
    while (batch->count > 0 && !dispatch_is_halted(x)) {
        batch->undecided = batch->count;
        batch->delay = 0;
        batch_run(x, r, batch);
        await_decisions(x, r, batch);
        gather_again(r, batch);
        if (batch->count > 0 && !lanes_hold(x, r, &batch->place, batch->delay))
            return false;
    }
    return true;
}

void batch_scatter(struct dispatch *x, struct list *item, struct list *into)
{
    coney_batch *batch = container_of(item, coney_batch, place);
    for (size_t i = 0; i < batch->count; i++)
        list_append(into, &batch->elements[i]->place);
    batch_give(x->subscription->gather, batch);
}

static void set_batch_aside(struct dispatch *x, coney_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        dispatch_set_aside(x, batch->elements[i]);
    batch_give(x->subscription->gather, batch);
}

void batch_item_run(struct dispatch *x, struct runner *r, struct list *item)
{
    coney_batch *batch = container_of(item, coney_batch, place);
    batch->stays = batch->count > 0 && batch->elements[0]->stays;
    if (batch->stays && !run_in_order(x, r, batch))
        return;
    if (batch->stays || dispatch_is_halted(x)) {
        set_batch_aside(x, batch);
        return;
    }
    batch_run(x, r, batch);
    batch_give(x->subscription->gather, batch);
}

/* Gathering ------------------------------------------------------------------------------------------------------------------------ */

/* To a lane, which is waited for when it has too much to do; or, virtual, at once. */
static void hand_over(struct dispatch *x, coney_batch *batch, bool waits)
{
    if (x->app->is_virtual)
        batch_item_run(x, &x->direct, &batch->place);
    else if (!lanes_put(x, 0, &batch->place, waits))
        set_batch_aside(x, batch);
}

/* On the worker, whose thread is deliver's when the app is virtual. */
static void hand_over_in_time(struct dispatch *x, coney_batch *batch)
{
    if (!x->app->is_virtual) {
        hand_over(x, batch, false);
        return;
    }
    runner_begin(&x->direct);
    hand_over(x, batch, false);
    runner_end(x, &x->direct);
}

/* Under the lock. */
static void set_timer(struct gather *g, int64_t due)
{
    g->is_set = true;
    worker_at(g->dispatch->app->worker, &g->timer, due);
}

static void timer_run(struct work *work)
{
    struct gather *g = container_of(work, struct gather, timer);
    struct dispatch *x = g->dispatch;
    lock_acquire(&g->lock);
    coney_batch *batch = NULL;
    bool again = false;
    if (g->open != NULL && !g->is_closed) {
        again = worker_now(x->app->worker) < g->due;
        if (again) {
            set_timer(g, g->due);
        } else {
            batch = g->open;
            g->open = NULL;
        }
    }
    lock_release(&g->lock);
    if (batch != NULL)
        hand_over_in_time(x, batch);
    if (again)
        return;
    lock_acquire(&g->lock);
    g->is_set = false;
    if (g->open != NULL && !g->is_closed)
        set_timer(g, g->due);
    cond_wake_all(&g->changed);
    lock_release(&g->lock);
}

/* Adds a held delivery. *full becomes the batch that it closes. False: memory is out, or nothing is gathered any more. */
static bool add(struct gather *g, coney_delivery *d, coney_batch **full)
{
    const struct subscription *s = g->dispatch->subscription;
    bool is_first = g->open == NULL;
    coney_batch *batch = is_first ? batch_take(g) : g->open;
    if (g->is_closed || batch == NULL || !has_room(batch, g->limit)) {
        if (is_first && batch != NULL) {
            batch->next = g->spare;
            g->spare = batch;
        }
        return false;
    }
    batch->elements[batch->count++] = d;
    if (batch->count == g->limit || (d->in.feed->bursts && !d->in.more)) {
        g->open = NULL;
        *full = batch;
        return true;
    }
    g->open = batch;
    if (is_first && s->options.batch_wait != CONEY_OFF) {
        int64_t wait = s->options.batch_wait > 0 ? s->options.batch_wait : 10 * CONEY_MILLISECOND;
        g->due = time_after(worker_now(g->dispatch->app->worker), wait);
        if (!g->is_set)
            set_timer(g, g->due);
    }
    return true;
}

static coney_settle take_in(struct dispatch *x, struct incoming *m)
{
    struct gather *g = x->subscription->gather;
    if (!x->app->is_virtual)
        lanes_wait(x); /* batches that were closed by time are put without a wait */
    coney_delivery *d = dispatch_take(x);
    if (d == NULL)
        return coney_retry_after(CONEY_SECOND);
    delivery_begin(d, m);
    d->stays = m->feed->ordered && !x->app->is_virtual;
    d->returns = 0;
    if (!delivery_hold(d)) {
        dispatch_give(x, d);
        return coney_retry_after(CONEY_SECOND);
    }
    coney_batch *full = NULL;
    lock_acquire(&g->lock);
    bool is_closed = g->is_closed;
    bool added = add(g, d, &full);
    lock_release(&g->lock);
    counter_add(&x->direct.stats.received, added);
    if (full != NULL)
        hand_over(x, full, true);
    if (added)
        return CONEY_KEPT;
    if (is_closed) {
        dispatch_set_aside(x, d);
        return CONEY_KEPT;
    }
    x->transport->settle(&d->in, coney_retry_after(CONEY_SECOND));
    dispatch_give(x, d);
    return CONEY_KEPT;
}

coney_settle batch_deliver(struct sink *sink, struct incoming *m)
{
    struct dispatch *x = ((struct subscription *)(void *)sink)->dispatch;
    runner_begin(&x->direct);
    coney_settle how = dispatch_is_open(x) ? take_in(x, m) : dispatch_turn_away(x, m);
    runner_end(x, &x->direct);
    return how;
}

/* Open and close ------------------------------------------------------------------------------------------------------------------- */

coney_status batch_open(struct dispatch *x)
{
    struct gather *g = calloc(1, sizeof *g);
    if (g == NULL)
        return CONEY_ENOMEM;
    g->dispatch = x;
    g->limit = (size_t)x->subscription->options.batch;
    work_init(&g->timer, timer_run);
    x->subscription->gather = g;
    return CONEY_OK;
}

void batch_clear(struct dispatch *x, struct list *into, bool close)
{
    struct gather *g = x->subscription->gather;
    lock_acquire(&g->lock);
    g->is_closed |= close;
    coney_batch *batch = g->open;
    g->open = NULL;
    if (close && g->is_set && worker_cancel(x->app->worker, &g->timer))
        g->is_set = false;
    lock_release(&g->lock);
    if (batch != NULL)
        batch_scatter(x, &batch->place, into);
}

void batch_close(struct dispatch *x)
{
    struct gather *g = x->subscription->gather;
    if (g == NULL)
        return;
    lock_acquire(&g->lock);
    while (g->is_set)
        cond_wait(&g->changed, &g->lock, INT64_MAX);
    lock_release(&g->lock);
    while (g->spare != NULL) {
        coney_batch *batch = g->spare;
        g->spare = batch->next;
        batch_free(batch);
    }
    x->subscription->gather = NULL;
    free(g);
}

/* What its handler can ask --------------------------------------------------------------------------------------------------------- */

size_t batch_count(const coney_batch *batch)
{
    return batch->count;
}

coney_delivery *coney_batch_delivery(coney_batch *batch, size_t index)
{
    return index < batch->count ? batch->elements[index] : NULL;
}

void coney_batch_settle(coney_batch *batch, size_t index, coney_settle how)
{
    if (index >= batch->count)
        return;
    if (how != CONEY_KEPT) {
        batch->hows[index] = how;
        return;
    }
    const struct subscription *s = batch->subscription;
    app_log(s->app, CONEY_LOG_WARNING, "subscription '%s': elements of a batch cannot be settled as CONEY_KEPT", s->name);
}

void *coney_batch_state(const coney_batch *batch)
{
    return coney_app_state(batch->subscription->app);
}

void *coney_batch_ctx(const coney_batch *batch)
{
    return batch->subscription->options.ctx;
}
