/* dispatch.c: from deliver to the handler; the gate; and where a subscription's deliveries come from and go back to. */
#define _GNU_SOURCE
#include "service/dispatch.h"

#include "base/time.h"
#include "service/batch.h"
#include "service/lane.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Deliveries ------------------------------------------------------------------------------------------------------------------ */

static coney_delivery *delivery_new(struct dispatch *x)
{
    coney_delivery *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->arena = coney_arena_new();
    if (d->arena == NULL) {
        free(d);
        return NULL;
    }
    d->subscription = x->subscription;
    d->dispatch = x;
    list_init(&d->place);
    return d;
}

static void delivery_free(coney_delivery *d)
{
    coney_arena_free(&d->arena);
    free(d);
}

coney_delivery *dispatch_take(struct dispatch *x)
{
    lock_acquire(&x->lock);
    coney_delivery *d = x->pool;
    if (d != NULL)
        x->pool = d->next;
    lock_release(&x->lock);
    return d != NULL ? d : delivery_new(x);
}

void dispatch_give(struct dispatch *x, coney_delivery *d)
{
    lock_acquire(&x->lock);
    d->next = x->pool;
    x->pool = d;
    lock_release(&x->lock);
}

void dispatch_detach(coney_delivery *d)
{
    struct dispatch *x = d->dispatch;
    app_opened(x->app);
    lock_acquire(&x->lock);
    d->was_counted = true;
    list_append(&x->out, &d->place);
    lock_release(&x->lock);
}

/* The last delivery of a subscription that has been closed takes it along. The lock is held, and released; while a delivery is counted the app is there. */
static void free_orphan(struct dispatch *x, coney_delivery *d)
{
    list_remove(&d->place);
    if (d->was_counted)
        app_closed(x->app);
    bool is_last = x->is_abandoned && list_empty(&x->out);
    lock_release(&x->lock);
    delivery_free(d);
    if (is_last)
        free(x);
}

void dispatch_back(coney_delivery *d)
{
    struct dispatch *x = d->dispatch;
    lock_acquire(&x->lock);
    if (x->is_orphan) {
        free_orphan(x, d);
        return;
    }
    list_remove(&d->place);
    bool was_counted = d->was_counted;
    d->was_counted = false;
    coney_app *app = x->app;
    d->next = x->pool;
    x->pool = d;
    lock_release(&x->lock);
    if (was_counted)
        app_closed(app);
}

coney_status dispatch_orphan(coney_delivery *d)
{
    struct dispatch *x = d->dispatch;
    delivery_end_transactions(d, false);
    coney_status status = x->transport->settle(&d->in, CONEY_REQUEUE);
    lock_acquire(&x->lock);
    free_orphan(x, d);
    return status == CONEY_OK ? CONEY_ECLOSED : status;
}

bool dispatch_enter(struct dispatch *x)
{
    lock_acquire(&x->lock);
    bool is_open = !x->is_orphan;
    x->inside += is_open;
    lock_release(&x->lock);
    return is_open;
}

void dispatch_leave(struct dispatch *x)
{
    lock_acquire(&x->lock);
    x->inside--;
    if (x->inside == 0)
        cond_wake_all(&x->changed);
    lock_release(&x->lock);
}

void dispatch_set_aside(struct dispatch *x, coney_delivery *d)
{
    atomic_store_explicit(&d->in_handler, false, memory_order_relaxed);
    lock_acquire(&x->lock);
    list_remove(&d->place);
    list_append(&x->aside, &d->place);
    bool was_counted = d->was_counted;
    d->was_counted = false;
    lock_release(&x->lock);
    if (was_counted)
        app_closed(x->app);
}

/* It seeks, or has done so since the caller looked. */
static coney_settle come_again(struct dispatch *x, const struct incoming *m)
{
    uint64_t before = dispatch_turned_away(x, m);
    atomic_store_explicit(&x->away_offset, m->offset, memory_order_relaxed);
    counter_set(&x->away_count, before + 1);
    return coney_retry_after(CONEY_MILLISECOND);
}

uint64_t dispatch_turned_away(const struct dispatch *x, const struct incoming *m)
{
    bool is_it = m->offset != UINT64_MAX && m->offset == atomic_load_explicit(&x->away_offset, memory_order_relaxed);
    return is_it ? counter_get(&x->away_count) : 0;
}

coney_settle dispatch_turn_away(struct dispatch *x, struct incoming *m)
{
    if (!dispatch_is_halted(x))
        return come_again(x, m);
    if (x->transport->pause != NULL)
        x->transport->pause(m);
    coney_delivery *d = dispatch_take(x);
    if (d == NULL)
        return CONEY_REQUEUE;
    delivery_begin(d, m);
    if (!delivery_hold(d)) {
        dispatch_give(x, d);
        return CONEY_REQUEUE;
    }
    dispatch_set_aside(x, d);
    return CONEY_KEPT;
}

/* Handlers -------------------------------------------------------------------------------------------------------------------- */

int64_t dispatch_handler_begins(const struct dispatch *x)
{
    return x->is_timed ? time_now() : 0;
}

static void count_duration(struct runner *r, int64_t took)
{
    size_t bucket = 0;
    while (bucket < DURATION_BUCKETS && (double)took > duration_bounds[bucket] * (double)CONEY_SECOND)
        bucket++;
    counter_add(&r->durations[bucket], 1);
    counter_add(&r->duration_sum, (uint64_t)took);
}

void dispatch_handler_ended(struct dispatch *x, struct runner *r, int64_t began, size_t count, coney_settle how)
{
    counter_add(&r->stats.calls, 1);
    if (x->is_timed)
        count_duration(r, time_now() - began);
    if (x->probe != NULL && x->probe->called != NULL)
        x->probe->called(x->probe->ctx, x->subscription, count, how);
}

coney_settle dispatch_call_watched(struct dispatch *x, struct runner *r, coney_delivery *d, const void *value)
{
    int64_t began = dispatch_handler_begins(x);
    coney_settle how = d->subscription->options.handler.one(d, value);
    dispatch_handler_ended(x, r, began, 1, how);
    return how;
}

void dispatch_received(struct dispatch *x, coney_delivery *d)
{
    if (!x->is_watched)
        return;
    atomic_store_explicit(&d->is_special, true, memory_order_relaxed); /* its settlement is told, too */
    if (x->probe != NULL && x->probe->received != NULL)
        x->probe->received(x->probe->ctx, x->subscription, d->m->body, delivery_info(d));
}

static inline coney_settle handle(struct dispatch *x, struct runner *r, coney_delivery *d)
{
    const struct subscription *s = d->subscription;
    const void *value = &d->m->body;
    if (x->is_bare) {
        counter_add(&r->stats.calls, 1);
        return s->options.handler.one(d, value);
    }
    if (__builtin_expect(x->is_watched, 0))
        dispatch_received(x, d);
    if (s->type != NULL) {
        coney_settle how = dispatch_decode(x, d, NULL);
        if (__builtin_expect(how != CONEY_OK, 0))
            return how;
        value = d->value;
    }
    return s->chain_count > 0 ? middleware_run(x, r, d, value) : dispatch_call(x, r, d, value);
}

coney_settle dispatch_handle(struct dispatch *x, struct runner *r, coney_delivery *d)
{
    return handle(x, r, d);
}

static coney_settle decline(struct dispatch *x, struct runner *r, coney_settle how)
{
    runner_end(x, r);
    return how;
}

/* One lane: the handler runs in deliver. */
static coney_settle deliver_directly(struct sink *sink, struct incoming *m)
{
    struct dispatch *x = ((struct subscription *)(void *)sink)->dispatch;
    struct runner *r = &x->direct;
    runner_begin(r);
    if (!dispatch_is_open(x))
        return decline(x, r, dispatch_turn_away(x, m));
    coney_delivery *d = r->at_hand;
    r->at_hand = NULL; /* a handler of a virtual app may cause deliveries to itself */
    if (__builtin_expect(d == NULL, 0) && (d = dispatch_take(x)) == NULL)
        return decline(x, r, coney_retry_after(CONEY_SECOND));
    counter_add(&r->stats.received, 1);
    delivery_begin(d, m);
    coney_settle how = settle_returned(r, d, handle(x, r, d));
    if (how != CONEY_KEPT) {
        if (__builtin_expect(r->at_hand == NULL, 1))
            r->at_hand = d;
        else
            dispatch_give(x, d);
    }
    runner_end(x, r);
    return how;
}

/* The gate and the runners ----------------------------------------------------------------------------------------------------- */

/* After it, every runner's last look at the gate was after what the caller has stored before, or what that runner stored before the look is seen here: so
 * runners need no fence of their own. */
static void fence_all_threads(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
        return;
    struct timespec stores_are_long_done = {.tv_nsec = 1000000};
    nanosleep(&stores_are_long_done, NULL);
}

static void close_all(coney_app *app, size_t count)
{
    for (size_t i = 0; i < count; i++)
        app_closed(app);
}

void dispatch_halt(struct dispatch *x)
{
    int gate = atomic_load_explicit(&x->gate, memory_order_relaxed);
    while (gate < GATE_HALTED && !atomic_compare_exchange_weak(&x->gate, &gate, GATE_HALTED))
        ;
}

void dispatch_clear(struct dispatch *x, struct list *into, bool close)
{
    struct list items;
    list_init(&items);
    lanes_clear(x, &items, close);
    if (x->subscription->gather == NULL) {
        list_move_all(into, &items);
        return;
    }
    for (struct list *item = list_take(&items); item != NULL; item = list_take(&items))
        batch_scatter(x, item, into);
    batch_clear(x, into, close);
}

void dispatch_shut(struct dispatch *x)
{
    if (atomic_exchange_explicit(&x->gate, GATE_CLOSED, memory_order_seq_cst) == GATE_CLOSED)
        return;
    if (!x->app->is_virtual)
        fence_all_threads();
    seek_settle_down(x);
    struct list waiting;
    list_init(&waiting);
    dispatch_clear(x, &waiting, true);
    lock_acquire(&x->lock);
    list_move_all(&x->aside, &waiting);
    size_t counted = settle_cancel_locked(x, true);
    cond_wake_all(&x->changed);
    lock_release(&x->lock);
    close_all(x->app, counted);
}

void runner_ended(struct dispatch *x)
{
    if (atomic_load_explicit(&x->app->draining, memory_order_relaxed))
        app_drain_look(x->app);
}

/* Open and close ---------------------------------------------------------------------------------------------------------------- */

static coney_status open_lanes(struct dispatch *x)
{
    struct subscription *s = x->subscription;
    if (s->options.handler.many != NULL) {
        s->sink.deliver = batch_deliver;
        coney_status status = batch_open(x);
        return status != CONEY_OK || x->app->is_virtual ? status : lanes_open(x, batch_item_run);
    }
    if (s->options.lanes <= 1 || x->app->is_virtual) {
        s->sink.deliver = deliver_directly;
        return CONEY_OK;
    }
    s->sink.deliver = lanes_deliver;
    return lanes_open(x, lanes_item_run);
}

coney_status dispatch_open(struct subscription *s)
{
    struct dispatch *x = calloc(1, sizeof *x);
    if (x == NULL)
        return CONEY_ENOMEM;
    x->subscription = s;
    x->app = s->app;
    x->transport = s->broker->transport;
    x->is_timed = s->app->options.timed;
    x->probe = s->app->dispatch_probe;
    x->is_watched = x->is_timed || x->probe != NULL;
    x->is_bare = s->type == NULL && s->chain_count == 0 && !x->is_watched;
    if (s->type != NULL) {
        x->content_type = coney_bytes_str(s->codec->content_type);
        x->checks_content_type = !s->options.any_content_type && x->content_type.len > 0;
    }
    list_init(&x->out);
    list_init(&x->aside);
    coney_status status = open_lanes(x);
    runner_show_all(x);
    if (status != CONEY_OK)
        dispatch_close(s);
    return status;
}

static void drop_aside(struct dispatch *x)
{
    for (struct list *item = list_take(&x->aside); item != NULL; item = list_take(&x->aside)) {
        coney_delivery *d = container_of(item, coney_delivery, place);
        delivery_end_transactions(d, false);
        x->transport->settle(&d->in, CONEY_REQUEUE); /* it is the broker's: only the memory is given back */
        delivery_free(d);
    }
}

/* From here on nobody enters, and the deliveries that are still out count for no drain. Returns how many were counted. */
static size_t leave_orphans(struct dispatch *x)
{
    lock_acquire(&x->lock);
    x->is_orphan = true;
    while (x->inside > 0)
        cond_wait(&x->changed, &x->lock, INT64_MAX);
    size_t counted = settle_cancel_locked(x, false);
    for (struct list *item = x->out.next; item != &x->out; item = item->next) {
        coney_delivery *d = container_of(item, coney_delivery, place);
        counted += d->was_counted;
        d->was_counted = false;
    }
    lock_release(&x->lock);
    return counted;
}

/* A deliver that the unsubscribe did not wait for. */
static void wait_for_runner(const struct runner *r)
{
    while (runner_runs(r))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Seeks look at lanes and batches. None begins any more. */
static void wait_for_seeks(struct dispatch *x)
{
    lock_acquire(&x->lock);
    while (x->inside > 0 || x->seek != NULL)
        cond_wait(&x->changed, &x->lock, INT64_MAX);
    lock_release(&x->lock);
}

void dispatch_close(struct subscription *s)
{
    struct dispatch *x = s->dispatch;
    if (x == NULL)
        return;
    dispatch_shut(x);
    wait_for_seeks(x);
    wait_for_runner(&x->direct);
    lanes_close(x);
    batch_close(x);
    size_t counted = leave_orphans(x);
    drop_aside(x);
    complaints_sum_up(s, &x->complaints, true);

    runner_hide_all(x);
    lanes_free(s);

    if (x->direct.at_hand != NULL)
        delivery_free(x->direct.at_hand);
    while (x->pool != NULL) {
        coney_delivery *d = x->pool;
        x->pool = d->next;
        delivery_free(d);
    }
    coney_app *app = x->app;
    lock_acquire(&x->lock);
    x->is_abandoned = true;
    bool is_last = list_empty(&x->out);
    lock_release(&x->lock);
    if (is_last)
        free(x);
    close_all(app, counted);
}
