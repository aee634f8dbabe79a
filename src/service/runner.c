/* runner.c: the runners of a subscription seen from outside: who runs, for how long, and what they have counted. */
#include "service/dispatch.h"

#include "service/lane.h"

const double duration_bounds[DURATION_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

/* Holds s->dispatch where it is while another thread looks at it. */
static struct lock looking;

struct dispatch *dispatch_pin(const struct subscription *s)
{
    lock_acquire(&looking);
    struct dispatch *x = s->dispatch;
    if (x == NULL)
        lock_release(&looking);
    return x;
}

void dispatch_unpin(void)
{
    lock_release(&looking);
}

/* Calls `visit` for each runner. The lock is held. */
static void each_runner_locked(const struct subscription *s, void (*visit)(void *ctx, struct runner *r), void *ctx)
{
    if (s->dispatch == NULL)
        return;
    visit(ctx, &s->dispatch->direct);
    size_t count = s->lanes != NULL ? lanes_count(s->lanes) : 0;
    for (size_t i = 0; i < count; i++)
        visit(ctx, lanes_runner(s->lanes, i));
}

static void each_runner(const struct subscription *s, void (*visit)(void *ctx, struct runner *r), void *ctx)
{
    lock_acquire(&looking);
    each_runner_locked(s, visit, ctx);
    lock_release(&looking);
}

static void count_running(void *ctx, struct runner *r)
{
    *(size_t *)ctx += runner_runs(r);
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
    *(bool *)ctx |= runner_runs(r) && atomic_load_explicit(&r->thread, memory_order_relaxed) == (uint64_t)pthread_self();
}

bool dispatch_is_current(const struct subscription *s)
{
    bool is_current = false;
    each_runner(s, find_current, &is_current);
    return is_current;
}

struct watch {
    int64_t now;
    int64_t limit;
    int64_t found; /* how long one runs that was not named before; 0: there is none */
};

static void watch_runner(void *ctx, struct runner *r)
{
    struct watch *watch = ctx;
    uint64_t run = counter_get(&r->run);
    if (run != r->seen) {
        r->seen = run;
        r->seen_at = watch->now;
    }
    int64_t runs = watch->now - r->seen_at;
    if ((run & 1) == 0 || r->only_hands_on || r->named == run || runs < watch->limit || watch->found > 0)
        return;
    r->named = run;
    watch->found = runs;
}

/* Without the lock, as below. */
static void sum_up(const struct subscription *s)
{
    struct dispatch *x = dispatch_pin(s);
    if (x == NULL)
        return;
    bool is_inside = dispatch_enter(x);
    dispatch_unpin();
    if (!is_inside)
        return;
    complaints_sum_up(s, &x->complaints, false);
    dispatch_leave(x);
}

/* One after the other: what is said is said to the user, who may look for himself. */
void dispatch_watch(struct subscription *s, int64_t now)
{
    sum_up(s);
    struct watch watch = {.now = now, .limit = s->app->options.handler_limit};
    while (watch.limit > 0) {
        watch.found = 0;
        each_runner(s, watch_runner, &watch);
        if (watch.found == 0)
            return;
        counter_share(&s->stats.stalls, 1);
        app_log(s->app, CONEY_LOG_WARNING, "subscription '%s': a handler has been running for more than %lld ms", s->name,
                (long long)(watch.found / CONEY_MILLISECOND));
    }
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
    lock_acquire(&looking); /* around both: a close moves the one to the other */
    each_runner_locked(s, add_runner_stats, sum);
    add_stats(sum, &s->stats);
    lock_release(&looking);
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

/* Coming and going ---------------------------------------------------------------------------------------------------------------- */

void runner_show_all(struct dispatch *x)
{
    lock_acquire(&looking);
    x->subscription->dispatch = x;
    lock_release(&looking);
}

void runner_hide_all(struct dispatch *x)
{
    struct subscription *s = x->subscription;
    lock_acquire(&looking);
    add_stats(&s->stats, &x->direct.stats);
    for (size_t i = 0; s->lanes != NULL && i < lanes_count(s->lanes); i++)
        add_stats(&s->stats, &lanes_runner(s->lanes, i)->stats);
    uint64_t settled = counter_get(&s->stats.acked) + counter_get(&s->stats.rejected) + counter_get(&s->stats.requeued) +
                       counter_get(&s->stats.retried);
    counter_set(&s->stats.dropped, counter_get(&s->stats.received) - settled);
    s->dispatch = NULL;
    lock_release(&looking);
}
