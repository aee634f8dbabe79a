/* start.c: from a description to a running app. A start that fails goes back the way a stop does: what is open says so itself. */
#include "base/fork.h"
#include "base/text.h"
#include "base/time.h"
#include "service/dispatch.h"
#include "service/phase.h"
#include "service/publisher.h"

/* How often handlers that run too long are looked for at most. */
#define WATCH_PAUSE CONEY_MILLISECOND

/* Up ---------------------------------------------------------------------------------------------------------------------- */

/* Four times in the time that a handler may take, but a short time is no reason to look all the time. */
static void watch_again(coney_app *app)
{
    int64_t pause = app->options.handler_limit / 4;
    if (pause < WATCH_PAUSE)
        pause = WATCH_PAUSE;
    worker_at(app->worker, &app->watch, time_after(worker_now(app->worker), pause));
}

static void watch_handlers(struct work *work)
{
    coney_app *app = container_of(work, coney_app, watch);
    int64_t now = worker_now(app->worker);
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        for (struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
            dispatch_watch(s, now);
    lock_acquire(&app->lock);
    if (app->phase != CONEY_APP_STOPPED)
        watch_again(app);
    lock_release(&app->lock);
}

static bool make_worker(coney_app *app, struct ending *ending)
{
    if (app->worker == NULL) {
        app->worker = worker_new("coney-app", false, 0);
        app->born = fork_generation();
        work_init(&app->watch, watch_handlers);
    }
    if (app->worker == NULL)
        *ending = (struct ending){.status = CONEY_ELIMIT,
                                  .text = "the app's own thread cannot be started: memory or threads are out"};
    return app->worker != NULL;
}

static bool connect_broker(coney_broker *broker, struct ending *ending, const coney_call *call)
{
    coney_call step = phase_step(call);
    coney_status status = broker->transport->connect(broker->self, broker, &step);
    lock_acquire(&broker->app->lock);
    broker->is_connected = status == CONEY_OK;
    lock_release(&broker->app->lock);
    return ending_note(ending, status, &step, "broker", broker->label);
}

static bool declare_on(coney_broker *broker, struct ending *ending, const coney_call *call)
{
    coney_call step = phase_step(call);
    return ending_note(ending, broker->transport->declare(broker->self, &step), &step, "broker", broker->label);
}

static bool open_publishers(coney_broker *broker, struct ending *ending, const coney_call *call)
{
    for (coney_publisher *publisher = broker->publishers; publisher != NULL; publisher = publisher->next) {
        coney_call step = phase_step(call);
        if (!ending_note(ending, publisher_open(publisher, &step), &step, "publisher", publisher->name))
            return false;
    }
    return true;
}

/* A feed may deliver, and end, before subscribe returns: it counts as active before. */
static bool open_subscription(struct subscription *s, struct ending *ending, const coney_call *call)
{
    coney_call step = phase_step(call);
    coney_status status = subscription_resolve(s);
    if (status == CONEY_OK)
        status = dispatch_open(s);
    if (!ending_note(ending, status, &step, "subscription", s->name))
        return false;
    s->sink.active = subscription_active;
    s->sink.ended = subscription_ended;
    atomic_store(&s->has_ended, false);
    atomic_store(&s->is_active, true);
    struct feed *feed = NULL;
    status = s->broker->transport->subscribe(s->broker->self, &s->options, &s->sink, &feed, &step);
    if (status == CONEY_OK) {
        s->feed = feed;
        lock_acquire(&s->app->lock);
        s->was_opened = true;
        lock_release(&s->app->lock);
        return true;
    }
    atomic_store(&s->is_active, false);
    dispatch_close(s);
    return ending_note(ending, status, &step, "subscription", s->name);
}

static bool open_subscriptions(coney_broker *broker, struct ending *ending, const coney_call *call)
{
    for (struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
        if (!open_subscription(s, ending, call))
            return false;
    return true;
}

typedef bool (*broker_step)(coney_broker *broker, struct ending *ending, const coney_call *call);

/* Each step is taken with all brokers before the next one. */
static bool open_all(coney_app *app, struct ending *ending, const coney_call *call)
{
    static const broker_step steps[] = {connect_broker, declare_on, open_publishers, open_subscriptions};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
            if (!steps[i](broker, ending, call))
                return false;
    return true;
}

/* Start ------------------------------------------------------------------------------------------------------------------- */

/* From the first hooks to the second; what had been started is stopped again when one fails. */
static void bring_up(coney_app *app, struct ending *ending, const coney_call *call)
{
    if (!make_worker(app, ending))
        return;
    bool all_open = phase_starting_hooks(app, CONEY_BEFORE_START, ending, call) && open_all(app, ending, call);
    if (all_open && phase_starting_hooks(app, CONEY_AFTER_START, ending, call))
        return;
    struct ending unwound = {0};
    if (all_open)
        phase_stopping_hooks(app, CONEY_BEFORE_STOP, call);
    phase_close_all(app, &unwound, call);
    phase_stopping_hooks(app, CONEY_AFTER_STOP, call);
    if (unwound.status != CONEY_OK)
        app_log(app, CONEY_LOG_ERROR, "while a failed start was undone: %s", unwound.text);
}

/* Under the lock: health reads it. */
static void count_nothing_as_opened(coney_app *app)
{
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        for (struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
            s->was_opened = false;
}

/* CONEY_OK: the caller starts it. */
static coney_status begin_start(coney_app *app, coney_call *call)
{
    lock_acquire(&app->lock);
    bool may = app->phase == CONEY_APP_NEW || app->phase == CONEY_APP_STOPPED;
    if (may) {
        app->phase = CONEY_APP_STARTING;
        app->phase_thread = pthread_self();
        app->status = CONEY_OK;
        app->reason[0] = '\0';
        count_nothing_as_opened(app);
    }
    lock_release(&app->lock);
    return may ? CONEY_OK : app_refuse(call, CONEY_EINVAL, "the app runs already: stop it first");
}

static void set_running(coney_app *app)
{
    if (!app->is_virtual && app->options.handler_limit > 0)
        watch_again(app);
    app_log(app, CONEY_LOG_INFO, "%s %s has started", app->title, app->version);
    phase_set(app, CONEY_APP_RUNNING);
}

static void set_failed(coney_app *app, const struct ending *ending)
{
    lock_acquire(&app->lock);
    app->status = ending->status;
    text_print(app->reason, sizeof app->reason, "%s", ending->text);
    lock_release(&app->lock);
    phase_rest(app);
}

/* Checks, then all the rest. */
static uint64_t start(coney_app *app, struct ending *ending, const coney_call *call)
{
    coney_call check = {0};
    ending->status = coney_app_check(app, &check);
    if (ending->status != CONEY_OK) {
        text_print(ending->text, sizeof ending->text, "%s", check.text);
        app_log(app, CONEY_LOG_ERROR, "the app does not start: %llu mistake%s in its description",
                (unsigned long long)check.value, check.value > 1 ? "s" : "");
        return check.value;
    }
    if (!app_unstick(app)) {
        *ending =
            (struct ending){.status = CONEY_EINVAL, .text = "a handler or a publish from before the last stop has not ended"};
        return 0;
    }
    bring_up(app, ending, call);
    if (ending->status != CONEY_OK)
        app_log(app, CONEY_LOG_ERROR, "the app does not start: %s", ending->text);
    return 0;
}

coney_status coney_app_start(coney_app *app, coney_call *call)
{
    if (app == NULL)
        return app_refuse(call, CONEY_EINVAL, "the app is NULL: memory was out when it was made");
    if (!phase_may_block(call))
        return app_refuse(call, CONEY_EINVAL, PHASE_ASYNC_TEXT);
    if (phase_is_forked(app))
        return app_refuse(call, CONEY_EFORKED, "the app was started by the parent process: it can only be freed here");
    if (begin_start(app, call) != CONEY_OK)
        return CONEY_EINVAL;
    struct ending ending = {0};
    uint64_t value = start(app, &ending, call);
    if (ending.status == CONEY_OK)
        set_running(app);
    else
        set_failed(app, &ending);
    return ending_give(call, &ending, value);
}
