/* dispatch.c: from deliver to the handler: the gate, the runners, decoding; and what a subscription's deliveries come from and go back to. */
#define _GNU_SOURCE
#include "service/dispatch.h"

#include "base/bytes.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/set.h"
#include "service/batch.h"
#include "service/lane.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const double duration_bounds[DURATION_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

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

/* The last delivery of a subscription that has been closed takes it along. The lock is held, and released. */
static void free_orphan(struct dispatch *x, coney_delivery *d)
{
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
    list_remove(&d->place);
    bool was_counted = d->was_counted;
    d->was_counted = false;
    if (x->is_orphan) {
        free_orphan(x, d);
        return;
    }
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
    coney_status status = x->transport->settle(&d->in, CONEY_REQUEUE);
    lock_acquire(&x->lock);
    list_remove(&d->place);
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

coney_settle dispatch_turn_away(struct dispatch *x, struct incoming *m)
{
    if (atomic_load_explicit(&x->gate, memory_order_relaxed) == GATE_SEEKING)
        return coney_retry_after(CONEY_MILLISECOND);
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

/* Decoding -------------------------------------------------------------------------------------------------------------------- */

static coney_settle refuse(coney_delivery *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static coney_settle refuse(coney_delivery *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    d->fault.path[0] = '\0';
    text_vprint(d->fault.text, sizeof d->fault.text, format, args);
    va_end(args);
    return SETTLE_UNDECODABLE;
}

static bool content_type_fits(struct dispatch *x, coney_delivery *d)
{
    coney_bytes given = x->transport->content_type(d->m);
    if (given.len == 0 || bytes_equal(given, x->content_type) || coney_codec_takes(d->subscription->codec, given))
        return true;
    char text[96];
    text_from_wire(text, sizeof text, given);
    refuse(d, "content type '%s' is not %s's (%s)", text, d->subscription->codec->name, d->subscription->codec->content_type);
    return false;
}

static coney_bytes text_of(const coney_value *value)
{
    bool is_text = value->type == CONEY_VALUE_STRING || value->type == CONEY_VALUE_SYMBOL || value->type == CONEY_VALUE_BINARY;
    return is_text ? value->as.bytes : coney_bytes_of(NULL, 0);
}

static const coney_member *variant_of_type(const coney_type *set, const coney_type *type)
{
    for (uint32_t i = 0; i < set->member_count; i++)
        if (set->members[i].type() == type)
            return &set->members[i];
    return NULL;
}

/* The variant that the subscription's function or the set's header names. */
static coney_settle choose_variant(struct dispatch *x, coney_delivery *d, const coney_member **variant)
{
    const struct subscription *s = d->subscription;
    const coney_type *set = s->type;
    if (s->options.choose != NULL) {
        const coney_type *type = s->options.choose(s->options.ctx, d);
        *variant = type != NULL ? variant_of_type(set, type) : NULL;
        if (*variant != NULL)
            return CONEY_OK;
        return type == NULL ? refuse(d, "no variant of %s was chosen", set->name)
                            : refuse(d, "%s was chosen, which is no variant of %s", type->name, set->name);
    }
    coney_value value;
    coney_bytes text = {NULL, 0};
    if (x->transport->header(d->m, coney_bytes_str(set->to), &value))
        text = text_of(&value);
    else if (strcmp(set->to, "type") == 0)
        text = delivery_info(d)->type;
    if (text.data == NULL)
        return refuse(d, "there is no header '%s', which chooses the variant of %s", set->to, set->name);
    *variant = set_find(set, text);
    if (*variant != NULL)
        return CONEY_OK;
    char shown[96];
    text_from_wire(shown, sizeof shown, text);
    return refuse(d, "header '%s' is '%s', which names no variant of %s", set->to, shown, set->name);
}

static coney_settle decode_set(struct dispatch *x, coney_delivery *d, void *out, coney_status *status)
{
    const struct subscription *s = d->subscription;
    const coney_member *variant = NULL;
    if (s->options.choose != NULL || s->type->to[0] != '\0') {
        coney_settle how = choose_variant(x, d, &variant);
        if (how != CONEY_OK)
            return how;
    }
    *status = set_decode(s->codec, d->m->body, s->type, variant, out, d->arena, &d->fault);
    return CONEY_OK;
}

coney_settle dispatch_decode(struct dispatch *x, coney_delivery *d, void *out)
{
    const struct subscription *s = d->subscription;
    coney_status status = CONEY_OK;
    if (x->checks_content_type && !content_type_fits(x, d))
        return SETTLE_UNDECODABLE;
    d->used_arena = true;
    if (s->type->kind == CONEY_KIND_SET) {
        coney_settle how = decode_set(x, d, out, &status);
        if (how != CONEY_OK)
            return how;
    } else {
        status = coney_decode(s->codec, d->m->body, s->type, out, d->arena, &d->fault);
    }
    if (__builtin_expect(status == CONEY_OK, 1)) {
        d->value = out;
        return CONEY_OK;
    }
    if (status == CONEY_ECORRUPT)
        return SETTLE_UNDECODABLE;
    text_print(d->fault.text, sizeof d->fault.text, "decoding: %s", coney_status_text(status));
    return CONEY_FAILED;
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

coney_settle dispatch_handle(struct dispatch *x, struct runner *r, coney_delivery *d)
{
    const struct subscription *s = d->subscription;
    if (x->probe != NULL && x->probe->received != NULL)
        x->probe->received(x->probe->ctx, x->subscription, d->m->body, delivery_info(d));

    coney_bytes body = d->m->body;
    const void *value = &body;
    if (s->type != NULL) {
        void *out = coney_arena_alloc(d->arena, s->type->size);
        if (out == NULL) {
            text_print(d->fault.text, sizeof d->fault.text, "decoding: memory is out");
            return CONEY_FAILED;
        }
        coney_settle how = dispatch_decode(x, d, out);
        if (__builtin_expect(how != CONEY_OK, 0))
            return how;
        value = out;
    }
    if (s->chain_count > 0)
        return middleware_run(x, r, d, value);
    int64_t began = dispatch_handler_begins(x);
    coney_settle how = s->options.handler.one(d, value);
    dispatch_handler_ended(x, r, began, 1, how);
    return how;
}

/* One lane: the handler runs in deliver. */
static coney_settle deliver_directly(struct sink *sink, struct incoming *m)
{
    struct dispatch *x = ((struct subscription *)(void *)sink)->dispatch;
    struct runner *r = &x->direct;
    runner_begin(r);
    if (!dispatch_is_open(x)) {
        coney_settle away = dispatch_turn_away(x, m);
        runner_end(x, r);
        return away;
    }
    counter_add(&r->stats.received, 1);
    coney_delivery *d = r->at_hand;
    r->at_hand = NULL; /* a handler of a virtual app may cause deliveries to itself */
    if (__builtin_expect(d == NULL, 0) && (d = dispatch_take(x)) == NULL) {
        runner_end(x, r);
        return coney_retry_after(CONEY_SECOND);
    }
    delivery_begin(d, m);
    coney_settle how = dispatch_handle(x, r, d);
    how = settle_returned(r, d, how);
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
    lock_release(&x->lock);
    close_all(x->app, counted);
}

void runner_ended(struct dispatch *x)
{
    if (atomic_load_explicit(&x->app->draining, memory_order_relaxed))
        app_drain_look(x->app);
}

/* Holds s->dispatch where it is while another thread looks at it. */
static struct lock looking;

struct dispatch *dispatch_pin(const struct subscription *s)
{
    lock_acquire(&looking);
    if (s->dispatch == NULL)
        lock_release(&looking);
    return s->dispatch;
}

void dispatch_unpin(void)
{
    lock_release(&looking);
}

/* Calls `visit` for each runner. */
static void each_runner(const struct subscription *s, void (*visit)(void *ctx, struct runner *r), void *ctx)
{
    struct dispatch *x = dispatch_pin(s);
    if (x == NULL)
        return;
    visit(ctx, &x->direct);
    size_t count = s->lanes != NULL ? lanes_count(s->lanes) : 0;
    for (size_t i = 0; i < count; i++)
        visit(ctx, lanes_runner(s->lanes, i));
    dispatch_unpin();
}

static bool runs(const struct runner *r)
{
    return (atomic_load_explicit(&r->run, memory_order_acquire) & 1) != 0;
}

static void count_running(void *ctx, struct runner *r)
{
    *(size_t *)ctx += runs(r);
}

size_t dispatch_running(const struct subscription *s)
{
    struct dispatch *x = s->dispatch;
    if (x == NULL)
        return 0;
    if (atomic_load(&x->app->draining))
        dispatch_shut(x);
    size_t running = 0;
    each_runner(s, count_running, &running);
    lock_acquire(&x->lock);
    running += x->seek != NULL;
    lock_release(&x->lock);
    return running;
}

static void find_current(void *ctx, struct runner *r)
{
    *(bool *)ctx |= runs(r) && atomic_load_explicit(&r->thread, memory_order_relaxed) == (uint64_t)pthread_self();
}

bool dispatch_is_current(const struct subscription *s)
{
    bool is_current = false;
    each_runner(s, find_current, &is_current);
    return is_current;
}

struct watch {
    struct subscription *s;
    int64_t now;
};

static void watch_runner(void *ctx, struct runner *r)
{
    const struct watch *watch = ctx;
    const coney_app *app = watch->s->app;
    uint64_t run = counter_get(&r->run);
    if (run != r->seen) {
        r->seen = run;
        r->seen_at = watch->now;
        return;
    }
    if ((run & 1) == 0 || r->named == run || watch->now - r->seen_at < app->options.handler_limit)
        return;
    r->named = run;
    counter_share(&watch->s->stats.stalls, 1);
    app_log(app, CONEY_LOG_WARNING, "subscription '%s': a handler has been running for more than %lld ms", watch->s->name,
            (long long)((watch->now - r->seen_at) / CONEY_MILLISECOND));
}

void dispatch_watch(struct subscription *s, int64_t now)
{
    if (s->app->options.handler_limit > 0)
        each_runner(s, watch_runner, &(struct watch){s, now});
}

/* Statistics ------------------------------------------------------------------------------------------------------------------- */

static void add_stats(struct subscription_stats *sum, const struct subscription_stats *more)
{
    counter *to = (counter *)sum;
    const counter *from = (const counter *)more;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        counter_share(&to[i], counter_get(&from[i]));
}

static void add_runner_stats(void *ctx, struct runner *r)
{
    add_stats(ctx, &r->stats);
}

void dispatch_stats(const struct subscription *s, struct subscription_stats *sum)
{
    memset(sum, 0, sizeof *sum);
    each_runner(s, add_runner_stats, sum);
    add_stats(sum, &s->stats);
}

struct durations {
    uint64_t *buckets;
    double *sum;
};

static void add_durations(void *ctx, struct runner *r)
{
    struct durations *to = ctx;
    for (size_t i = 0; i <= DURATION_BUCKETS; i++)
        to->buckets[i] += counter_get(&r->durations[i]);
    *to->sum += (double)counter_get(&r->duration_sum) / (double)CONEY_SECOND;
}

void dispatch_durations(const struct subscription *s, uint64_t buckets[DURATION_BUCKETS + 1], double *sum)
{
    memset(buckets, 0, (DURATION_BUCKETS + 1) * sizeof *buckets);
    *sum = 0;
    each_runner(s, add_durations, &(struct durations){buckets, sum});
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
    if (s->type != NULL) {
        x->content_type = coney_bytes_str(s->codec->content_type);
        x->checks_content_type = !s->options.any_content_type && x->content_type.len > 0;
    }
    list_init(&x->out);
    list_init(&x->aside);
    coney_status status = open_lanes(x);
    lock_acquire(&looking);
    s->dispatch = x;
    lock_release(&looking);
    if (status != CONEY_OK)
        dispatch_close(s);
    return status;
}

static void drop_aside(struct dispatch *x)
{
    for (struct list *item = list_take(&x->aside); item != NULL; item = list_take(&x->aside)) {
        coney_delivery *d = container_of(item, coney_delivery, place);
        x->transport->settle(&d->in, CONEY_REQUEUE); /* it is the broker's: only the memory is given back */
        delivery_free(d);
    }
}

/* From here on nobody enters, and the deliveries that are still out count for no drain. Returns how many were counted. */
static size_t leave_orphans(struct dispatch *x)
{
    lock_acquire(&x->lock);
    x->is_orphan = true;
    while (x->inside > 0 || x->seek != NULL)
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

/* What runners have counted becomes the subscription's. */
static void forget_runners(struct dispatch *x)
{
    struct subscription *s = x->subscription;
    lock_acquire(&looking);
    add_stats(&s->stats, &x->direct.stats);
    for (size_t i = 0; s->lanes != NULL && i < lanes_count(s->lanes); i++)
        add_stats(&s->stats, &lanes_runner(s->lanes, i)->stats);
    s->dispatch = NULL;
    lanes_free(s);
    lock_release(&looking);
}

/* A handler that the unsubscribe did not wait for. */
static void wait_for_runner(const struct runner *r)
{
    while (runs(r))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void dispatch_close(struct subscription *s)
{
    struct dispatch *x = s->dispatch;
    if (x == NULL)
        return;
    dispatch_shut(x);
    lanes_close(x);
    batch_close(x);
    wait_for_runner(&x->direct);
    size_t counted = leave_orphans(x);
    drop_aside(x);

    forget_runners(x);

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
