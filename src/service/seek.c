/* seek.c: moving a subscription to another position, from its handler or from outside. The transport is asked on the worker.
 *
 * From a handler: the seek waits until that handler has returned; from then on the gate says "seeking", and what comes is told to come again, so that nothing is lost
 * when the position turns out to be gone. What waited in lanes and batches is dropped when the seek has succeeded.
 */
#include "service/dispatch.h"

#include "base/time.h"
#include "service/phase.h"

#include <stdlib.h>

struct seek {
    struct work work;
    struct dispatch *dispatch;
    struct feed *feed;
    coney_position position;
    coney_call *call;
    coney_status status;
    bool is_posted;
    bool is_awaited; /* from outside: the struct is the caller's */
    bool is_done;
};

/* What was received before the seek and has not been handled. */
static void drop_waiting(struct dispatch *x)
{
    struct list waiting;
    list_init(&waiting);
    dispatch_clear(x, &waiting, false);
    for (struct list *item = list_take(&waiting); item != NULL; item = list_take(&waiting)) {
        coney_delivery *d = container_of(item, coney_delivery, place);
        x->transport->settle(&d->in, CONEY_ACK);
        counter_share(&x->subscription->stats.dropped, 1);
        dispatch_give(x, d);
    }
}

static coney_status ask_transport(struct dispatch *x, struct feed *feed, const coney_position *position, coney_call *call)
{
    coney_status status = x->transport->seek(feed, position, call);
    if (status == CONEY_OK)
        drop_waiting(x);
    return status;
}

/* Under the lock. */
static void end_locked(struct dispatch *x, struct seek *seek, coney_status status)
{
    int seeking = GATE_SEEKING;
    x->seek = NULL;
    atomic_compare_exchange_strong(&x->gate, &seeking, GATE_OPEN);
    seek->status = status;
    seek->is_done = true;
    cond_wake_all(&x->changed);
    if (!seek->is_awaited)
        free(seek);
}

static void seek_run(struct work *work)
{
    struct seek *seek = container_of(work, struct seek, work);
    struct dispatch *x = seek->dispatch;
    coney_call own = {.text = ""};
    coney_call *call = seek->is_awaited ? seek->call : &own;
    coney_status status = ask_transport(x, seek->feed, &seek->position, call);
    if (status != CONEY_OK && !seek->is_awaited)
        app_log(x->app, CONEY_LOG_ERROR, "subscription '%s': it stays where it is, the seek failed: %s", x->subscription->name,
                own.text[0] != '\0' ? own.text : coney_status_text(status));
    lock_acquire(&x->lock);
    end_locked(x, seek, status);
    lock_release(&x->lock);
}

/* Under the lock. */
static void post_locked(struct dispatch *x, struct seek *seek)
{
    int open = GATE_OPEN;
    atomic_compare_exchange_strong(&x->gate, &open, GATE_SEEKING);
    seek->is_posted = true;
    work_init(&seek->work, seek_run);
    worker_post(x->app->worker, &seek->work);
}

void seek_begin(coney_delivery *d)
{
    struct dispatch *x = d->dispatch;
    d->seeks = false;
    lock_acquire(&x->lock);
    if (x->seek != NULL && !x->seek->is_posted && !x->is_orphan)
        post_locked(x, x->seek);
    lock_release(&x->lock);
}

void seek_settle_down(struct dispatch *x)
{
    lock_acquire(&x->lock);
    struct seek *seek = x->seek;
    if (seek != NULL && (!seek->is_posted || worker_cancel(x->app->worker, &seek->work)))
        end_locked(x, seek, CONEY_ECLOSED);
    lock_release(&x->lock);
}

static coney_status seek_later(coney_delivery *d, const coney_position *position)
{
    struct dispatch *x = d->dispatch;
    struct seek *seek = calloc(1, sizeof *seek);
    if (seek == NULL)
        return CONEY_ENOMEM;
    *seek = (struct seek){.dispatch = x, .feed = d->m->feed, .position = *position};
    lock_acquire(&x->lock);
    coney_status status = CONEY_OK;
    if (dispatch_is_halted(x))
        status = CONEY_ECLOSED;
    else if (x->seek != NULL && (x->seek->is_posted || x->seek->is_awaited))
        status = CONEY_EAGAIN;
    if (status == CONEY_OK) {
        free(x->seek);
        x->seek = seek;
        d->seeks = true;
        atomic_store_explicit(&d->is_special, true, memory_order_relaxed);
    }
    lock_release(&x->lock);
    if (status != CONEY_OK)
        free(seek);
    return status;
}

coney_status coney_seek(coney_delivery *delivery, const coney_position *position)
{
    struct dispatch *x = delivery->dispatch;
    if (position == NULL || !atomic_load_explicit(&delivery->in_handler, memory_order_relaxed))
        return CONEY_EINVAL;
    if (x->transport->seek == NULL)
        return CONEY_EUNSUPPORTED;
    if (x->app->is_virtual)
        return ask_transport(x, delivery->m->feed, position, NULL);
    return seek_later(delivery, position);
}

/* Waits for its turn, then for its end. The caller has entered. */
static coney_status seek_and_wait(struct dispatch *x, struct seek *seek, int64_t deadline)
{
    coney_status status = CONEY_OK;
    lock_acquire(&x->lock);
    while (x->seek != NULL && status == CONEY_OK)
        if (!cond_wait(&x->changed, &x->lock, deadline))
            status = CONEY_ETIMEDOUT;
    if (status == CONEY_OK && dispatch_is_halted(x))
        status = CONEY_ECLOSED;
    if (status == CONEY_OK) {
        x->seek = seek;
        post_locked(x, seek);
        while (!seek->is_done)
            cond_wait(&x->changed, &x->lock, INT64_MAX);
        status = seek->status;
    }
    lock_release(&x->lock);
    return status;
}

static coney_status seek_entered(struct dispatch *x, const coney_position *position, coney_call *call)
{
    struct feed *feed = x->subscription->feed;
    if (feed == NULL || dispatch_is_halted(x))
        return CONEY_ECLOSED;
    if (x->app->is_virtual || worker_is_current(x->app->worker))
        return ask_transport(x, feed, position, call);
    struct seek seek = {.dispatch = x, .feed = feed, .position = *position, .call = call, .is_awaited = true};
    int64_t patience = call != NULL && call->deadline != 0 ? call->deadline : 10 * CONEY_SECOND;
    return seek_and_wait(x, &seek, time_after(time_now(), patience));
}

coney_status coney_app_seek(coney_app *app, const char *subscription, const coney_position *position, coney_call *call)
{
    if (app == NULL || subscription == NULL || position == NULL)
        return app_refuse(call, CONEY_EINVAL, "a seek needs an app, a subscription and a position");
    if (phase_is_forked(app))
        return app_refuse(call, CONEY_EFORKED, "the app runs in the parent process");
    struct subscription *s = app_subscription(app, subscription);
    if (s == NULL)
        return app_refuse(call, CONEY_ENOTFOUND, "the app has no subscription '%s'", subscription);
    if (s->broker->transport->seek == NULL)
        return app_refuse(call, CONEY_EUNSUPPORTED, "subscription '%s' has no positions: '%s' cannot seek", subscription,
                          s->broker->transport->name);
    if (dispatch_is_current(s))
        return app_refuse(call, CONEY_EDEADLK, "a seek of '%s' from its own handler would wait for itself: use coney_seek",
                          subscription);
    struct dispatch *x = dispatch_pin(s);
    bool is_inside = x != NULL && dispatch_enter(x);
    if (x != NULL)
        dispatch_unpin();
    if (!is_inside)
        return app_refuse(call, CONEY_ECLOSED, "subscription '%s' is not open", subscription);
    coney_status status = seek_entered(x, position, call);
    dispatch_leave(x);
    if (status == CONEY_OK || (call != NULL && call->text[0] != '\0'))
        return status;
    return app_refuse(call, status, "subscription '%s' stays where it is: %s", subscription, coney_status_text(status));
}
