/* app.h: the app: what it owns, its phases, what it is made of. Built by one thread before the start (app.c, subscription.c, router.c, check.c), started and stopped by
 * start.c, seen by health.c and metrics.c.
 */
#ifndef CONEY_SERVICE_APP_H
#define CONEY_SERVICE_APP_H

#include "base/lock.h"
#include "base/log.h"
#include "service/broker.h"
#include "service/copy.h"
#include "service/worker.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

struct dispatch_probe; /* dispatch.h */
struct publish_probe;  /* publisher.h */

struct hook {
    struct hook *next; /* of its stage, in order of adding */
    coney_status (*run)(coney_app *app, void *ctx, coney_call *call);
    void *ctx;
};

struct publish_middleware {
    coney_publish_around_fn around;
    void *ctx;
};

struct coney_app {
    const char *title;
    const char *version;
    coney_app_options options; /* defaults filled in; texts are copies */
    struct log log;
    coney_arena *memory;   /* of the description */
    bool out_of_memory;    /* while it was built */
    bool was_configured;   /* and nothing else may have come before */
    struct mistakes built; /* mistakes that were found while it was built: unknown bytes of an option … */
    void *_Atomic state;
    struct hook *hooks[4]; /* by coney_stage, in order of adding */
    struct middlewares middlewares;
    struct publish_middleware *publish_middlewares; /* first is outermost */
    size_t publish_middleware_count;
    coney_broker *brokers;         /* in the order of registration */
    struct worker *_Atomic worker; /* from the first start until it is freed; or before, when a test has set a virtual one */
    bool is_virtual;               /* lanes run inline, nothing waits: the testkit steps the brokers and the worker */
    _Atomic uint32_t born;         /* fork_generation */

    const struct dispatch_probe *dispatch_probe; /* the testkit's, or NULL */
    const struct publish_probe *publish_probe;

    struct work watch; /* of handlers that run too long */
    struct lock lock;  /* guards what follows, but for the atomics and the semaphore */
    struct cond changed;
    coney_app_phase phase;  /* never CONEY_APP_FAILED: a failure is `status`, and it runs on until it is stopped */
    pthread_t phase_thread; /* that starts or stops it */
    coney_status status;    /* why it failed */
    char reason[512];
    sem_t stopping; /* posted whenever coney_app_wait may have something to return for */
    _Atomic bool asked_to_stop;
    _Atomic uint64_t
        open; /* deliveries that outlived their handler and are not settled, and continuations that have not run: a drain waits for 0 */
    _Atomic bool draining; /* sinks keep what comes and start no handler: the broker gets it back at unsubscribe */
};

/* Whether the description may be changed; else the app runs, and `what` (the function) was called too late, which is logged. */
bool app_may_change(coney_app *app, const char *what);

/* Refuses: fills the call, if there is one, and returns `status`. */
coney_status app_refuse(coney_call *call, coney_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* After a stop: handlers and publishes that went on through it may have ended since. False: one has not, so the app can be neither started nor freed;
 * app_unstick_all waits. */
bool app_unstick(coney_app *app);
void app_unstick_all(coney_app *app);

/* All mistakes of the description; what it adds is freed with mistakes_free. */
void app_check(coney_app *app, struct mistakes *mistakes);

/* Logs to the app's callback. Any thread. */
void app_log(const coney_app *app, coney_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A policy or the end of a subscription says that the app must stop: the first reason counts. Any thread, never blocks. */
void app_fail(coney_app *app, coney_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Around what is called of the user's on a client's loop or inside of a publish: a stop from there would wait for its own caller. app_calls returns what
 * app_called takes; calls may stand inside of one another. */
const coney_app *app_calls(const coney_app *app);
void app_called(const coney_app *outer);
bool app_is_in_call(const coney_app *app);

/* One delivery or continuation more that a drain waits for; one less, which wakes the drain. Any thread, no lock unless a drain waits. A handler that runs
 * is no such: the drain asks dispatch_running, and looks again at least every 10 ms; a lane may call app_drain_look when it has become idle while
 * `draining` is set. */
static inline void app_opened(coney_app *app)
{
    atomic_fetch_add_explicit(&app->open, 1, memory_order_relaxed);
}
void app_closed(coney_app *app);
void app_drain_look(coney_app *app);

/* A subscription was found by its name; NULL. */
struct subscription *app_subscription(const coney_app *app, const char *name);

/* Two lists of middleware as one array in the app's memory. */
bool middlewares_add(coney_app *app, struct middlewares *list, coney_around_fn around, void *ctx);

#endif
