/* phase.c: see phase.h. */
#define _GNU_SOURCE
#include "service/phase.h"

#include "base/fork.h"
#include "base/text.h"
#include "base/time.h"

#include <errno.h>
#include <time.h>

/* Results ----------------------------------------------------------------------------------------------------------------- */

coney_call phase_step(const coney_call *call)
{
    return (coney_call){.deadline = call != NULL ? call->deadline : 0};
}

bool ending_note(struct ending *ending, coney_status status, const coney_call *step, const char *subject, const char *name)
{
    if (status == CONEY_OK)
        return true;
    if (ending->status == CONEY_OK) {
        const char *text = step->text[0] != '\0' ? step->text : coney_status_text(status);
        ending->status = status;
        ending->code = step->code;
        text_print(ending->text, sizeof ending->text, "%s '%s': %s", subject, name, text);
    }
    return false;
}

coney_status ending_give(coney_call *call, const struct ending *ending, uint64_t value)
{
    if (call != NULL) {
        call->status = ending->status;
        call->code = ending->code;
        call->value = value;
        text_print(call->text, sizeof call->text, "%s", ending->text);
    }
    return ending->status;
}

bool phase_may_block(const coney_call *call)
{
    return call == NULL || call->on_done == NULL;
}

bool phase_is_forked(const coney_app *app)
{
    return app->worker != NULL && app->born != fork_generation();
}

/* Callbacks --------------------------------------------------------------------------------------------------------------- */

static _Thread_local const coney_app *calling;

const coney_app *app_calls(const coney_app *app)
{
    const coney_app *outer = calling;
    calling = app;
    return outer;
}

void app_called(const coney_app *outer)
{
    calling = outer;
}

bool app_is_in_call(const coney_app *app)
{
    return calling == app;
}

/* Phases ------------------------------------------------------------------------------------------------------------------ */

bool phase_is_busy(const coney_app *app)
{
    return app->phase == CONEY_APP_STARTING || app->phase == CONEY_APP_STOPPING;
}

void phase_wake_waits(coney_app *app)
{
    int error = errno;
    sem_post(&app->stopping);
    errno = error;
}

void phase_set(coney_app *app, coney_app_phase phase)
{
    lock_acquire(&app->lock);
    app->phase = phase;
    app->phase_thread = pthread_self();
    cond_wake_all(&app->changed);
    phase_wake_waits(app);
    lock_release(&app->lock);
}

void app_fail(coney_app *app, coney_status status, const char *format, ...)
{
    char reason[sizeof app->reason];
    va_list args;
    va_start(args, format);
    text_vprint(reason, sizeof reason, format, args);
    va_end(args);
    lock_acquire(&app->lock);
    bool counts = app->status == CONEY_OK && (phase_is_busy(app) || app->phase == CONEY_APP_RUNNING);
    if (counts) {
        app->status = status;
        memcpy(app->reason, reason, sizeof reason);
    }
    lock_release(&app->lock);
    app_log(app, CONEY_LOG_ERROR, "%s%s", counts ? "the app stops: " : "", reason);
    if (counts)
        phase_wake_waits(app);
}

void coney_app_ask_to_stop(coney_app *app)
{
    if (app == NULL)
        return;
    atomic_store(&app->asked_to_stop, true);
    phase_wake_waits(app);
}

/* Hooks ------------------------------------------------------------------------------------------------------------------- */

static const char *const stage_names[] = {"before-start", "after-start", "before-stop", "after-stop"};

bool phase_starting_hooks(coney_app *app, coney_stage stage, struct ending *ending, const coney_call *call)
{
    for (struct hook *hook = app->hooks[stage]; hook != NULL; hook = hook->next) {
        coney_call step = phase_step(call);
        if (!ending_note(ending, hook->run(app, hook->ctx, &step), &step, "hook", stage_names[stage]))
            return false;
    }
    return true;
}

/* The last that was added first. */
void phase_stopping_hooks(coney_app *app, coney_stage stage, const coney_call *call)
{
    for (const struct hook *done = NULL; done != app->hooks[stage];) {
        const struct hook *hook = app->hooks[stage];
        while (hook->next != done)
            hook = hook->next;
        done = hook;
        coney_call step = phase_step(call);
        coney_status status = hook->run(app, hook->ctx, &step);
        if (status != CONEY_OK)
            app_log(app, CONEY_LOG_ERROR, "hook '%s': %s", stage_names[stage],
                    step.text[0] != '\0' ? step.text : coney_status_text(status));
    }
}

/* Wait -------------------------------------------------------------------------------------------------------------------- */

/* Whether a wait has something to return for, and what. */
static bool has_ended(coney_app *app, struct ending *ending)
{
    bool asked = atomic_load(&app->asked_to_stop);
    lock_acquire(&app->lock);
    bool ended = app->status != CONEY_OK || (app->phase != CONEY_APP_STARTING && asked) || app->phase == CONEY_APP_STOPPING ||
                 app->phase == CONEY_APP_STOPPED;
    *ending = (struct ending){.status = app->status};
    memcpy(ending->text, app->reason, sizeof ending->text);
    lock_release(&app->lock);
    return ended;
}

/* Until somebody posts or the deadline has passed; false: it has. */
static bool wait_for_post(coney_app *app, int64_t deadline)
{
    if (deadline == INT64_MAX) {
        sem_wait(&app->stopping);
        return true;
    }
    struct timespec until = {.tv_sec = deadline / CONEY_SECOND, .tv_nsec = deadline % CONEY_SECOND};
    return sem_clockwait(&app->stopping, CLOCK_MONOTONIC, &until) == 0 || errno != ETIMEDOUT;
}

coney_status coney_app_wait(coney_app *app, coney_call *call)
{
    if (app == NULL || !phase_may_block(call))
        return app_refuse(call, CONEY_EINVAL, app == NULL ? "the app is NULL" : PHASE_ASYNC_TEXT);
    if (phase_is_forked(app))
        return app_refuse(call, CONEY_EFORKED, "the app runs in the parent process");
    if (app_is_in_call(app))
        return app_refuse(call, CONEY_EDEADLK, "a wait from a callback would hold up what it waits for");
    lock_acquire(&app->lock);
    bool is_new = app->phase == CONEY_APP_NEW;
    lock_release(&app->lock);
    if (is_new)
        return app_refuse(call, CONEY_EINVAL, "the app was not started");
    int64_t deadline = time_after(time_now(), call != NULL && call->deadline != 0 ? call->deadline : CONEY_OFF);
    struct ending ending;
    while (!has_ended(app, &ending)) {
        if (app->is_virtual)
            return app_refuse(call, CONEY_EDEADLK, "the app runs on this thread alone: nothing would end the wait");
        if (!wait_for_post(app, deadline))
            return app_refuse(call, CONEY_ETIMEDOUT, "the app still runs");
    }
    phase_wake_waits(app); /* for whoever else waits */
    return ending_give(call, &ending, 0);
}
