/* stop.c: the drain, and everything taken down. */
#include "base/text.h"
#include "base/time.h"
#include "service/dispatch.h"
#include "service/phase.h"
#include "service/publisher.h"

/* How long a drain sleeps at most before it looks again: lanes tell it nothing in the path of messages. */
#define DRAIN_LOOK (10 * CONEY_MILLISECOND)

/* The drain -------------------------------------------------------------------------------------------------------------------- */

void app_drain_look(coney_app *app)
{
    lock_acquire(&app->lock);
    cond_wake_all(&app->changed);
    lock_release(&app->lock);
}

/* The app may be gone as soon as the count is: nothing of it is touched after that, but under the lock that every stop takes before it ends. */
void app_closed(coney_app *app)
{
    if (!atomic_load(&app->draining)) {
        atomic_fetch_sub(&app->open, 1);
        return;
    }
    lock_acquire(&app->lock);
    atomic_fetch_sub(&app->open, 1);
    cond_wake_all(&app->changed);
    lock_release(&app->lock);
}

/* What a drain waits for. */
static uint64_t in_hand(const coney_app *app)
{
    uint64_t count = atomic_load(&app->open);
    for (const coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        for (const struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
            if (s->feed != NULL)
                count += dispatch_running(s);
    return count;
}

/* A test's app has one thread: what can still happen without time passing happens here. */
static uint64_t drain_inline(coney_app *app)
{
    while (in_hand(app) > 0 && worker_run_one(app->worker))
        ;
    return in_hand(app);
}

/* Waits until nothing is in hand. Returns what still is when drain_timeout is over. */
static uint64_t drain(coney_app *app)
{
    atomic_store(&app->draining, true);
    if (app->is_virtual)
        return drain_inline(app);
    int64_t deadline = time_after(time_now(), app->options.drain_timeout);
    for (;;) {
        uint64_t left = in_hand(app);
        int64_t now = time_now();
        if (left == 0 || now >= deadline)
            return left;
        int64_t look = time_after(now, DRAIN_LOOK);
        lock_acquire(&app->lock);
        cond_wait(&app->changed, &app->lock, look < deadline ? look : deadline);
        lock_release(&app->lock);
    }
}

/* The deadline of a stop, which steps of one kind with one broker share: where one has waited in vain, the next need not try as long. */
struct patience {
    int64_t deadline;
    int64_t until;
};

static struct patience patience_of(const coney_call *call)
{
    int64_t deadline = call != NULL && call->deadline != 0 ? call->deadline : 10 * CONEY_SECOND;
    return (struct patience){deadline, time_after(time_now(), deadline)};
}

static coney_call patient_step(const struct patience *patience)
{
    if (patience->deadline < 0)
        return (coney_call){.deadline = CONEY_OFF};
    int64_t left = patience->until - time_now();
    int64_t least = patience->deadline / 20 + 1; /* for what would have ended at once */
    return (coney_call){.deadline = left > least ? left : least};
}

/* A handler that does not return keeps what it stands on: it is left as it is, for app_unstick. */
static void close_subscription(struct subscription *s, struct ending *ending, const struct patience *patience)
{
    if (s->feed == NULL)
        return;
    coney_call step = patient_step(patience);
    coney_status status = s->broker->transport->unsubscribe(s->feed, &step);
    ending_note(ending, status, &step, "subscription", s->name);
    atomic_store(&s->is_active, false);
    s->feed = NULL;
    if (dispatch_running(s) == 0)
        dispatch_close(s);
    else
        app_log(s->app, CONEY_LOG_ERROR, "subscription '%s': a handler still runs after its subscription has ended", s->name);
}

static bool unstick_broker(const coney_broker *broker)
{
    bool is_free = true;
    for (struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
        if (s->dispatch == NULL)
            continue;
        else if (dispatch_running(s) == 0)
            dispatch_close(s);
        else
            is_free = false;
    for (coney_publisher *publisher = broker->publishers; publisher != NULL; publisher = publisher->next)
        is_free = is_free && !publisher_is_used(publisher);
    return is_free;
}

bool app_unstick(coney_app *app)
{
    bool is_free = true;
    for (const coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        is_free = unstick_broker(broker) && is_free;
    return is_free;
}

void app_unstick_all(coney_app *app)
{
    while (!app_unstick(app)) {
        lock_acquire(&app->lock);
        cond_wait(&app->changed, &app->lock, time_after(time_now(), DRAIN_LOOK));
        lock_release(&app->lock);
    }
}

static void close_subscriptions(coney_broker *broker, struct ending *ending, const coney_call *call)
{
    struct patience patience = patience_of(call);
    for (struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
        close_subscription(s, ending, &patience);
}

static void close_publishers(coney_broker *broker, struct ending *ending, const coney_call *call)
{
    struct patience patience = patience_of(call);
    for (coney_publisher *publisher = broker->publishers; publisher != NULL; publisher = publisher->next) {
        coney_call step = patient_step(&patience);
        ending_note(ending, publisher_close(publisher, &step), &step, "publisher", publisher->name);
    }
}

static void disconnect_broker(coney_broker *broker, struct ending *ending, const coney_call *call)
{
    if (!broker->is_connected)
        return;
    coney_call step = phase_step(call);
    lock_acquire(&broker->app->lock);
    broker->is_connected = false;
    lock_release(&broker->app->lock);
    ending_note(ending, broker->transport->disconnect(broker->self, &step), &step, "broker", broker->label);
}

/* The last that was made first. */
static void disconnect_all(coney_app *app, struct ending *ending, const coney_call *call)
{
    for (const coney_broker *done = NULL; done != app->brokers;) {
        coney_broker *broker = app->brokers;
        while (broker->next != done)
            broker = broker->next;
        disconnect_broker(broker, ending, call);
        done = broker;
    }
}

uint64_t phase_close_all(coney_app *app, struct ending *ending, const coney_call *call)
{
    uint64_t left = drain(app);
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        close_subscriptions(broker, ending, call);
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        close_publishers(broker, ending, call);
    disconnect_all(app, ending, call);
    return left;
}

/* Whoever waits for the phase may free the app as soon as it is set: nothing of it is touched after that. */
void phase_rest(coney_app *app)
{
    atomic_store(&app->draining, false);
    if (app->worker != NULL)
        worker_cancel(app->worker, &app->watch);
    phase_set(app, CONEY_APP_STOPPED);
}

/* Stop -------------------------------------------------------------------------------------------------------------------- */

/* A stop that waits for the calling thread would never end. */
static bool waits_for_itself(const coney_app *app)
{
    if (worker_is_current(app->worker) || app_is_in_call(app))
        return true;
    for (const coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        for (const struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
            if (dispatch_is_current(s))
                return true;
    return false;
}

/* Waits for whoever starts or stops it at the moment. CONEY_OK: the caller stops it; CONEY_ECLOSED: it does not run. */
static coney_status begin_stop(coney_app *app, coney_call *call)
{
    int64_t deadline = time_after(time_now(), call != NULL && call->deadline != 0 ? call->deadline : CONEY_OFF);
    coney_status status = CONEY_ECLOSED;
    lock_acquire(&app->lock);
    bool may_stop = app->phase != CONEY_APP_STOPPING; /* one that was under way already is only waited for */
    while (phase_is_busy(app) && status == CONEY_ECLOSED) {
        if (pthread_equal(app->phase_thread, pthread_self()))
            status = CONEY_EDEADLK;
        else if (!cond_wait(&app->changed, &app->lock, deadline) && phase_is_busy(app))
            status = CONEY_ETIMEDOUT;
    }
    if (status == CONEY_ECLOSED && app->phase == CONEY_APP_RUNNING && may_stop) {
        app->phase = CONEY_APP_STOPPING;
        app->phase_thread = pthread_self();
        status = CONEY_OK;
    }
    lock_release(&app->lock);
    return status;
}

static void take_down(coney_app *app, coney_call *call, struct ending *ending, uint64_t *left)
{
    phase_stopping_hooks(app, CONEY_BEFORE_STOP, call);
    struct ending closed = {0};
    *left = phase_close_all(app, &closed, call);
    phase_stopping_hooks(app, CONEY_AFTER_STOP, call);
    if (*left > 0) {
        ending->status = CONEY_ETIMEDOUT;
        text_print(ending->text, sizeof ending->text,
                   "%llu deliveries were not settled within drain_timeout (%lld ms): the broker gives them again",
                   (unsigned long long)*left, (long long)(app->options.drain_timeout / CONEY_MILLISECOND));
    } else {
        *ending = closed;
    }
    if (ending->status != CONEY_OK)
        app_log(app, CONEY_LOG_ERROR, "while the app stopped: %s", ending->text);
}

coney_status coney_app_stop(coney_app *app, coney_call *call)
{
    struct ending ending = {0};
    if (app == NULL)
        return ending_give(call, &ending, 0);
    if (!phase_may_block(call))
        return app_refuse(call, CONEY_EINVAL, PHASE_ASYNC_TEXT);
    if (phase_is_forked(app))
        return app_refuse(call, CONEY_EFORKED, "the app runs in the parent process");
    if (waits_for_itself(app))
        return app_refuse(
            call, CONEY_EDEADLK,
            "a stop from a handler, a continuation or a callback would wait for itself: use coney_app_ask_to_stop");
    switch (begin_stop(app, call)) {
    case CONEY_OK:
        break;
    case CONEY_EDEADLK:
        return app_refuse(call, CONEY_EDEADLK, "a stop from a hook would wait for itself: use coney_app_ask_to_stop");
    case CONEY_ETIMEDOUT:
        return app_refuse(call, CONEY_ETIMEDOUT, "another thread still stops or starts the app");
    default:
        return ending_give(call, &ending, 0);
    }
    uint64_t left = 0;
    take_down(app, call, &ending, &left);
    app_log(app, CONEY_LOG_INFO, "%s has stopped", app->title);
    atomic_store(&app->asked_to_stop, false);
    phase_rest(app);
    return ending_give(call, &ending, left);
}
