/* settle.c: from a handler's return to the last settlement: policies, what was published, the transport, continuations. */
#include "service/dispatch.h"

#include "base/text.h"
#include "base/time.h"
#include "service/batch.h"

#include <inttypes.h>
#include <time.h>

/* Counting --------------------------------------------------------------------------------------------------------------------- */

static counter *counter_of(struct subscription_stats *stats, coney_settle how)
{
    if (how == CONEY_ACK)
        return &stats->acked;
    if (how == CONEY_REJECT)
        return &stats->rejected;
    return how == CONEY_REQUEUE ? &stats->requeued : &stats->retried;
}

static void tell_probe(const struct dispatch *x, coney_settle how)
{
    if (x->probe != NULL && x->probe->settled != NULL)
        x->probe->settled(x->probe->ctx, x->subscription, how);
}

/* Policies --------------------------------------------------------------------------------------------------------------------- */

static void words_of(coney_policy policy, char *buf, size_t cap)
{
    if (policy > 0)
        text_print(buf, cap, "it comes again after %" PRId64 " ms", (policy - 1) / CONEY_MILLISECOND + 1);
    else if (policy == CONEY_POLICY_RETRY)
        text_print(buf, cap, "it comes again");
    else if (policy == CONEY_POLICY_REJECT)
        text_print(buf, cap, "it is rejected");
    else if (policy == CONEY_POLICY_SKIP)
        text_print(buf, cap, "it is passed over");
    else
        text_print(buf, cap, "the app stops, and it stays with the broker");
}

static coney_settle settlement_of(coney_policy policy)
{
    if (policy > 0)
        return policy;
    if (policy == CONEY_POLICY_SKIP)
        return CONEY_ACK;
    return policy == CONEY_POLICY_REJECT ? CONEY_REJECT : CONEY_REQUEUE;
}

/* What has happened to a delivery, and what is said to be done. */
struct verdict {
    enum complaint_kind kind;
    coney_policy policy;
    coney_status status; /* of an app that stops for it */
    char what[512];
};

static struct verdict verdict(enum complaint_kind kind, coney_policy policy, coney_policy otherwise, coney_status status)
{
    return (struct verdict){
        .kind = kind, .policy = policy != CONEY_POLICY_DEFAULT ? policy : otherwise, .status = status, .what = ""};
}

static void say(const coney_delivery *d, const struct verdict *v, const char *name)
{
    char next[80];
    char what[sizeof v->what + sizeof next];
    words_of(v->policy, next, sizeof next);
    text_print(what, sizeof what, "%s: %s", v->what, next);
    complain(d->subscription, &d->dispatch->complaints, v->kind, name, what);
}

/* Says it, unless it was said, and stops the app when that is what follows. */
static coney_settle apply(coney_delivery *d, const struct verdict *v)
{
    char name[192];
    delivery_name(d, name, sizeof name);
    if (!d->was_told || v->kind == COMPLAINT_PUBLISH)
        say(d, v, name);
    if (v->policy == CONEY_POLICY_STOP) {
        d->must_stop = true;
        dispatch_halt(d->dispatch);
        app_fail(d->subscription->app, v->status, "subscription '%s': %s %s", d->subscription->name, name, v->what);
    }
    return settlement_of(v->policy);
}

static struct verdict fault_of(const coney_delivery *d, coney_settle how)
{
    const coney_subscription *options = &d->subscription->options;
    const char *fault = d->fault.text;
    if (how == SETTLE_UNDECODABLE) {
        struct verdict v = verdict(COMPLAINT_UNDECODABLE, options->on_undecodable, CONEY_POLICY_REJECT, CONEY_ECORRUPT);
        text_print(v.what, sizeof v.what, "cannot be decoded: %s", fault[0] != '\0' ? fault : "its handler gave no reason");
        return v;
    }
    struct verdict v = verdict(COMPLAINT_FAILED, options->on_failure, CONEY_SECOND, CONEY_ECANCELED);
    if (how == CONEY_KEPT)
        text_print(v.what, sizeof v.what, "has failed: its handler returned CONEY_KEPT and has not kept it");
    else if (how != CONEY_FAILED)
        text_print(v.what, sizeof v.what, "has failed: its handler returned %" PRId64 ", which is no settlement", how);
    else
        text_print(v.what, sizeof v.what, "has failed%s%s", fault[0] != '\0' ? ": " : "", fault);
    return v;
}

coney_settle settle_fault(coney_delivery *d, coney_settle how)
{
    struct subscription_stats *stats = &d->subscription->stats;
    counter_share(how == SETTLE_UNDECODABLE ? &stats->undecodable : &stats->failed, 1);
    struct verdict v = fault_of(d, how);
    return apply(d, &v);
}

void settle_batch_fault(coney_delivery *first, coney_settle how, size_t count)
{
    struct verdict v = fault_of(first, how);
    char name[64];
    text_print(name, sizeof name, "a batch of %zu messages", count);
    say(first, &v, name);
}

static coney_settle publish_failed(coney_delivery *d, coney_settle how)
{
    struct subscription *s = d->subscription;
    coney_status status = (coney_status)atomic_load_explicit(&d->publish_status, memory_order_relaxed);
    struct verdict v = verdict(COMPLAINT_PUBLISH, s->options.on_publish_failure, CONEY_SECOND, status);
    counter_share(&s->stats.publish_failures, 1);
    text_print(v.what, sizeof v.what, "has published what was lost (%s)", coney_status_name(status));
    if (how == CONEY_ACK)
        return apply(d, &v);
    char name[192];
    delivery_name(d, name, sizeof name);
    text_append(v.what, sizeof v.what, ", and is not acked anyway");
    complain(s, &d->dispatch->complaints, v.kind, name, v.what);
    return how;
}

static struct settle_plan plan_for(coney_delivery *d)
{
    coney_settle how = d->how;
    if (how < CONEY_REQUEUE)
        how = settle_fault(d, how);
    if (atomic_load_explicit(&d->publish_status, memory_order_relaxed) != CONEY_OK)
        how = publish_failed(d, how);
    if (d->must_stop)
        return (struct settle_plan){.way = PLAN_ASIDE, .how = CONEY_REQUEUE};
    if (how == CONEY_ACK || how == CONEY_REJECT)
        return (struct settle_plan){.way = PLAN_SETTLE, .how = how};
    return retry_plan(d, how);
}

/* Of deliveries that outlive their handlers --------------------------------------------------------------------------------------- */

static void run_afters(coney_delivery *d, coney_settle how)
{
    for (const struct after *after = d->afters; after != NULL; after = after->next)
        after->then(after->ctx, how);
}

static void after_run(struct work *work)
{
    coney_delivery *d = container_of(work, coney_delivery, work);
    run_afters(d, d->how);
    dispatch_back(d);
}

coney_status settle_finish(coney_delivery *d, coney_settle wire, coney_settle how)
{
    struct dispatch *x = d->dispatch;
    struct subscription *s = x->subscription;
    coney_status status = x->transport->settle(&d->in, wire);
    if (status == CONEY_EUNSUPPORTED)
        app_log(x->app, CONEY_LOG_WARNING, "subscription '%s': '%s' cannot settle a message in this way", s->name,
                x->transport->name);
    counter_share(counter_of(&s->stats, how), 1);
    tell_probe(x, how);
    if (d->afters == NULL) {
        dispatch_back(d);
        return status;
    }
    d->how = how;
    work_init(&d->work, after_run);
    worker_post(x->app->worker, &d->work);
    return status;
}

void settle_on_worker(coney_delivery *d, void (*run)(struct work *work))
{
    struct dispatch *x = d->dispatch;
    work_init(&d->work, run);
    lock_acquire(&x->lock);
    d->work_is = POSTED;
    worker_post(x->app->worker, &d->work);
    lock_release(&x->lock);
}

bool settle_on_worker_later(coney_delivery *d, void (*run)(struct work *work), int64_t delay)
{
    struct dispatch *x = d->dispatch;
    struct worker *worker = x->app->worker;
    work_init(&d->work, run);
    lock_acquire(&x->lock);
    bool is_shut = atomic_load_explicit(&x->gate, memory_order_relaxed) == GATE_CLOSED;
    if (!is_shut) {
        d->work_is = POSTED_FOR_LATER;
        worker_at(worker, &d->work, time_after(worker_now(worker), delay));
    }
    lock_release(&x->lock);
    return !is_shut;
}

bool settle_on_worker_begins(coney_delivery *d)
{
    struct dispatch *x = d->dispatch;
    lock_acquire(&x->lock);
    d->work_is = NOT_POSTED;
    bool is_open = !x->is_orphan;
    x->inside += is_open;
    lock_release(&x->lock);
    if (!is_open)
        dispatch_orphan(d);
    return is_open;
}

size_t settle_cancel_locked(struct dispatch *x, bool only_later)
{
    size_t counted = 0;
    for (struct list *item = x->out.next; item != &x->out;) {
        coney_delivery *d = container_of(item, coney_delivery, place);
        item = item->next;
        if (d->work_is == NOT_POSTED || (only_later && d->work_is == POSTED) || !worker_cancel(x->app->worker, &d->work))
            continue;
        list_remove(&d->place);
        list_append(&x->aside, &d->place);
        counted += d->was_counted;
        d->was_counted = false;
    }
    return counted;
}

static coney_status carry_out(coney_delivery *d)
{
    struct dispatch *x = d->dispatch;
    coney_settle how = d->plan.how;
    if (d->subscription->options.batch > 0 && batch_takes_back(d)) {
        counter_share(counter_of(&x->subscription->stats, how), 1);
        tell_probe(x, how);
        return CONEY_OK;
    }
    switch (d->plan.way) {
    case PLAN_SETTLE:
        return settle_finish(d, d->plan.how, d->plan.how);
    case PLAN_ASIDE:
        dispatch_set_aside(d->dispatch, d);
        return CONEY_OK;
    case PLAN_COPY_BACK:
    case PLAN_COPY_DEAD:
        retry_copy(d);
        return CONEY_OK;
    }
    return CONEY_OK;
}

static coney_status conclude(coney_delivery *d)
{
    d->plan = plan_for(d);
    return carry_out(d);
}

static void note_failure(coney_delivery *d, coney_status status)
{
    int none = CONEY_OK;
    if (status != CONEY_OK)
        atomic_compare_exchange_strong_explicit(&d->publish_status, &none, (int)status, memory_order_relaxed,
                                                memory_order_relaxed);
}

/* On the lane or on the worker: it may block. */
static void end_transactions(coney_delivery *d)
{
    bool commit = d->how == CONEY_ACK && atomic_load_explicit(&d->publish_status, memory_order_relaxed) == CONEY_OK;
    coney_status status = delivery_end_transactions(d, commit);
    d->scope = NULL;
    if (commit)
        note_failure(d, status);
}

static void commit_run(struct work *work)
{
    coney_delivery *d = container_of(work, coney_delivery, work);
    struct dispatch *x = d->dispatch;
    if (!settle_on_worker_begins(d))
        return;
    end_transactions(d);
    conclude(d);
    dispatch_leave(x);
}

coney_status settle_released(coney_delivery *d)
{
    if (atomic_fetch_sub_explicit(&d->waits, 1, memory_order_acq_rel) > 1)
        return CONEY_OK;
    struct dispatch *x = d->dispatch;
    if (!dispatch_enter(x))
        return dispatch_orphan(d);
    coney_status status = CONEY_OK;
    if (d->scope != NULL)
        settle_on_worker(d, commit_run);
    else
        status = conclude(d);
    dispatch_leave(x);
    return status;
}

void delivery_unexpect(coney_delivery *d)
{
    settle_released(d);
}

void delivery_outcome(coney_delivery *d, coney_status status)
{
    note_failure(d, status);
    settle_released(d);
}

/* When the handler has returned ------------------------------------------------------------------------------------------------- */

/* Memory is out, so the delivery cannot outlive its handler: the lane stands still until what it published is confirmed. */
static void wait_for_outcomes(const coney_delivery *d)
{
    while (atomic_load_explicit(&d->waits, memory_order_acquire) > 1)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool has_outcomes_to_come(const coney_delivery *d)
{
    return atomic_load_explicit(&d->waits, memory_order_acquire) > 1;
}

static coney_settle leave_behind(coney_delivery *d)
{
    dispatch_detach(d);
    settle_released(d);
    return CONEY_KEPT;
}

static coney_settle settle_at_once(struct runner *r, coney_delivery *d, coney_settle how)
{
    counter_add(counter_of(&r->stats, how), 1);
    tell_probe(d->dispatch, how);
    return how;
}

/* The plan cannot be carried out later, because the message could not be kept: what is as safe and can be done now. */
static coney_settle settle_without_memory(struct runner *r, coney_delivery *d)
{
    const struct subscription *s = d->subscription;
    app_log(s->app, CONEY_LOG_ERROR, "subscription '%s': memory is out: a message is settled without what it needed", s->name);
    coney_settle how = d->plan.way == PLAN_SETTLE ? d->plan.how : retry_without_copy(&d->plan);
    settle_at_once(r, d, how);
    run_afters(d, how);
    return how;
}

/* All that is special about it is that it has published, and everything is confirmed. */
static inline bool is_confirmed(const coney_delivery *d)
{
    return !d->is_taken && !d->seeks && d->afters == NULL && d->scope == NULL && !has_outcomes_to_come(d) &&
           atomic_load_explicit(&d->publish_status, memory_order_relaxed) == CONEY_OK;
}

coney_settle settle_with_care(struct runner *r, coney_delivery *d, coney_settle how)
{
    const struct subscription *s = d->subscription;
    atomic_store_explicit(&d->in_handler, false, memory_order_relaxed);
    if (how == CONEY_ACK && is_confirmed(d))
        return settle_at_once(r, d, how);
    if (d->seeks)
        seek_begin(d);
    if (d->is_taken) {
        if (how != CONEY_KEPT)
            app_log(s->app, CONEY_LOG_WARNING,
                    "subscription '%s': a handler kept its delivery and returned %" PRId64
                    ", which is passed over: coney_kept_settle says what becomes of it",
                    s->name, how);
        return leave_behind(d);
    }
    d->how = how;
    if (d->scope != NULL)
        end_transactions(d);
    if (has_outcomes_to_come(d)) {
        if (delivery_hold(d))
            return leave_behind(d);
        wait_for_outcomes(d);
    }
    d->plan = plan_for(d);
    if (d->plan.way == PLAN_SETTLE && d->afters == NULL)
        return settle_at_once(r, d, d->plan.how);
    if (!delivery_hold(d))
        return settle_without_memory(r, d);
    dispatch_detach(d);
    carry_out(d);
    return CONEY_KEPT;
}

void settle_tell(coney_delivery *d, coney_settle how)
{
    struct dispatch *x = d->dispatch;
    x->transport->settle(&d->in, how);
    dispatch_give(x, d);
}
