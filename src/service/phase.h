/* phase.h: what starting, waiting and stopping share: how an app goes from one phase to the next, and how each has ended.
 *
 * start.c brings up, stop.c takes down, phase.c waits and fails. One thread at a time starts or stops an app: the one that has put it into
 * CONEY_APP_STARTING or CONEY_APP_STOPPING.
 */
#ifndef CONEY_SERVICE_PHASE_H
#define CONEY_SERVICE_PHASE_H

#include "service/app.h"

/* What a start or a stop has come to: the first failure counts. */
struct ending {
    coney_status status;
    uint32_t code;
    char text[512];
};

/* Notes how a step ended, with "SUBJECT 'NAME': " before its words. True: well. */
bool ending_note(struct ending *ending, coney_status status, const coney_call *step, const char *subject, const char *name);

/* Fills the caller's call, if there is one; returns the status. */
coney_status ending_give(coney_call *call, const struct ending *ending, uint64_t value);

/* A call for one step of what `call` asks for. */
coney_call phase_step(const coney_call *call);

/* A start, a wait and a stop take no on_done. */
bool phase_may_block(const coney_call *call);
#define PHASE_ASYNC_TEXT "on_done is set: a start, a wait and a stop block; call them from a thread of your own"

/* The app's threads are the parent process's. */
bool phase_is_forked(const coney_app *app);

/* Somebody starts or stops it. Under the lock. */
bool phase_is_busy(const coney_app *app);

/* Sets it and wakes who waits for a change, coney_app_wait included. */
void phase_set(coney_app *app, coney_app_phase phase);

/* Waits look again at what they wait for. Also from a signal handler. */
void phase_wake_waits(coney_app *app);

/* The hooks of a stage; of a starting one up to the first that fails (false), of a stopping one all, the last that was added first. */
bool phase_starting_hooks(coney_app *app, coney_stage stage, struct ending *ending, const coney_call *call);
void phase_stopping_hooks(coney_app *app, coney_stage stage, const coney_call *call);

/* stop.c: drains and takes down whatever is up. Returns how many deliveries the drain left unsettled. */
uint64_t phase_close_all(coney_app *app, struct ending *ending, const coney_call *call);

/* stop.c: the end of every stop, also of a start that failed: the app may be started again. */
void phase_rest(coney_app *app);

#endif
