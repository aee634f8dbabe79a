/* call.c: see call.h. */
#include "core/call.h"

#include "base/list.h"
#include "base/map.h"
#include "base/text.h"
#include "base/time.h"

#include <pthread.h>
#include <string.h>

/* A thread that blocks ends its call by itself when the loop is this late: a user's loop that nobody steps fires no timer. Not so with a close on a
 * loop that has its own thread: its caller may count on it that no callback runs afterwards, and the loop does come round. */
#define LOOP_GRACE (100 * CONEY_MILLISECOND)

/* The asynchronous calls of the process by their id, for coney_call_cancel. */
static struct {
    struct lock lock;
    struct map calls;
    uint64_t last_id;
} registry;

/* No other thread is inside the registry when the process is forked, so the child's can be used; the calls in it are the parent's. */
static void before_fork(void)
{
    lock_acquire(&registry.lock);
}

static void after_fork(void)
{
    lock_release(&registry.lock);
}

static void after_fork_in_child(void)
{
    map_free(&registry.calls);
    lock_release(&registry.lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* Makes the call known under an id, which goes to *id, and starts it: in one step, so that whoever cancels it comes after its start. */
static bool registry_start(struct op *op, uint64_t *id)
{
    lock_acquire(&registry.lock);
    op->call.id = ++registry.last_id;
    bool added = map_put(&registry.calls, op->call.id, op);
    if (added) {
        *id = op->call.id;
        loop_post(op->loop, &op->task);
    }
    lock_release(&registry.lock);
    return added;
}

static void registry_remove(uint64_t id)
{
    lock_acquire(&registry.lock);
    map_take(&registry.calls, id);
    if (registry.calls.count == 0)
        map_free(&registry.calls);
    lock_release(&registry.lock);
}

coney_status coney_call_cancel(uint64_t id)
{
    lock_acquire(&registry.lock);
    struct op *op = map_get(&registry.calls, id);
    if (op != NULL && !op->canceling) {
        op->canceling = true;
        loop_post(op->loop, &op_ref(op)->cancel);
    }
    lock_release(&registry.lock);
    return op != NULL ? CONEY_OK : CONEY_ENOTFOUND;
}

static bool end_once(struct op *op, coney_status status, uint32_t code, uint64_t value, const char *text,
                     void (*give)(struct op *op))
{
    lock_acquire(&op->lock);
    bool first = !op->ended;
    if (first) {
        if (give != NULL)
            give(op);
        op->ended = true;
        op->call.status = status;
        op->call.code = code;
        op->call.value = value;
        if (status != CONEY_OK && (text == NULL || text[0] == '\0'))
            text = coney_status_text(status);
        text_print(op->call.text, sizeof op->call.text, "%s", text != NULL ? text : "");
    }
    lock_release(&op->lock);
    return first;
}

/* It has its end: whoever waits for it is told. */
static void tell(struct op *op)
{
    loop_timer_unset(op->loop, &op->timer);
    if (op->waited_for) {
        cond_wake_all(&op->done);
    } else {
        registry_remove(op->call.id);
        op->call.on_done(op->call.ctx, &op->call);
    }
    op_unref(op);
}

bool op_end(struct op *op, coney_status status, uint32_t code, uint64_t value, const char *text)
{
    bool first = end_once(op, status, code, value, text, NULL);
    if (first)
        tell(op);
    return first;
}

bool op_end_giving(struct op *op, uint64_t value, void (*give)(struct op *op))
{
    bool first = end_once(op, CONEY_OK, 0, value, NULL, give);
    if (first)
        tell(op);
    return first;
}

/* Ends the call before its work did, and tells the work. */
static void end_early(struct op *op, coney_status status)
{
    op_ref(op);
    if (op->expire != NULL && op->began && !op_ended(op))
        op->expire(op, status);
    if (op_end(op, status, 0, 0, NULL) && op->began && op->abandon != NULL)
        op->abandon(op);
    op_unref(op);
}

static void run_begin(struct task *task)
{
    struct op *op = container_of(task, struct op, task);
    if (op_ended(op) && op->expire == NULL)
        return; /* the thread that blocked gave up before the loop came round; run_cancel follows */
    op_ref(op);
    op->began = true;
    bool late = op->expire == NULL && time_now() >= op->deadline; /* so long did it wait for its turn */
    bool limited = late || loop_timer_set(op->loop, &op->timer, op->deadline);
    op->begin(op);
    if (late || !limited)
        end_early(op, late ? CONEY_ETIMEDOUT : CONEY_ENOMEM);
    op_unref(op);
}

/* The thread that waited has ended the call; its work has not heard of it yet. */
static void end_work(struct op *op)
{
    loop_timer_unset(op->loop, &op->timer);
    if (!op->began)
        return;
    if (op->expire != NULL)
        op->expire(op, CONEY_ETIMEDOUT);
    else if (op->abandon != NULL)
        op->abandon(op);
}

static void run_cancel(struct task *task)
{
    struct op *op = container_of(task, struct op, cancel);
    if (op->gave_up)
        end_work(op);
    else
        end_early(op, CONEY_ECANCELED);
    op_unref(op);
}

static void run_deadline(struct timer *timer)
{
    end_early(container_of(timer, struct op, timer), CONEY_ETIMEDOUT);
}

void op_init(struct op *op, coney_loop *loop, void (*begin)(struct op *), void (*abandon)(struct op *),
             void (*free)(struct op *))
{
    op->begin = begin;
    op->abandon = abandon;
    op->free = free;
    op->loop = loop;
    op->task.run = run_begin;
    op->cancel.run = run_cancel;
    op->timer.fire = run_deadline;
    atomic_store(&op->refs, 1);
}

bool op_ended(struct op *op)
{
    lock_acquire(&op->lock);
    bool ended = op->ended;
    lock_release(&op->lock);
    return ended;
}

struct op *op_ref(struct op *op)
{
    atomic_fetch_add(&op->refs, 1);
    return op;
}

void op_unref(struct op *op)
{
    if (atomic_fetch_sub(&op->refs, 1) == 1)
        op->free(op);
}

static void copy_results(coney_call *to, const coney_call *from)
{
    to->status = from->status;
    to->code = from->code;
    to->value = from->value;
    memcpy(to->text, from->text, sizeof to->text);
}

coney_status op_refuse(coney_call *call, coney_status status, const char *format, ...)
{
    if (call == NULL)
        return status;
    call->status = status;
    call->code = 0;
    call->value = 0;
    va_list args;
    va_start(args, format);
    text_vprint(call->text, sizeof call->text, format, args);
    va_end(args);
    return status;
}

static void wait_stepping(struct op *op)
{
    while (!op_ended(op) && time_now() < time_after(op->deadline, LOOP_GRACE))
        loop_wait_and_step(op->loop, op->deadline);
}

static void wait_blocking(struct op *op)
{
    bool must_be_told = op->expire != NULL && loop_has_thread(op->loop);
    int64_t limit = must_be_told ? INT64_MAX : time_after(op->deadline, LOOP_GRACE);
    lock_acquire(&op->lock);
    while (!op->ended && cond_wait(&op->done, &op->lock, limit))
        continue;
    lock_release(&op->lock);
}

static coney_status run_blocking(struct op *op, coney_call *call)
{
    if (loop_is_current(op->loop)) {
        op_unref(op);
        return op_refuse(call, CONEY_EDEADLK, "a blocking call inside a callback of the loop that must answer it: set on_done");
    }
    coney_loop *loop = op->loop;
    bool steps = loop_is_stepped_here(loop);
    op->waited_for = true;
    op_ref(op);
    if (!steps)
        loop_hold(loop); /* another thread may close everything meanwhile, which ends the call */
    loop_post(loop, &op->task);
    if (steps)
        wait_stepping(op);
    else
        wait_blocking(op);
    if (end_once(op, CONEY_ETIMEDOUT, 0, 0, NULL, NULL)) {
        op->gave_up = true;
        loop_post(loop, &op->cancel); /* takes over the reference that op_end would have dropped */
    }
    if (!steps)
        loop_release(loop);
    coney_status status = op->call.status;
    if (call != NULL)
        copy_results(call, &op->call);
    op_unref(op);
    return status;
}

/* The results are written first: as soon as the call has started its on_done may run, and `call` be gone. */
static coney_status run_asynchronous(struct op *op, coney_call *call)
{
    uint64_t nobody = 0;
    uint64_t *id = call != NULL ? &call->id : &nobody;
    op_refuse(call, CONEY_OK, "%s", "");
    if (registry_start(op, id))
        return CONEY_OK;
    op_unref(op);
    return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
}

static void tell_nobody(void *ctx, const coney_call *call)
{
    (void)ctx;
    (void)call;
}

coney_status op_check(coney_call *call)
{
    for (size_t i = 0; call != NULL && i < sizeof call->reserved / sizeof call->reserved[0]; i++)
        if (call->reserved[i] != 0)
            return op_refuse(call, CONEY_EINVAL,
                             "the call's reserved members are not zero: zero the coney_call before its first use");
    return CONEY_OK;
}

coney_status op_run(struct op *op, coney_call *call, int64_t default_deadline)
{
    int64_t deadline = default_deadline;
    if (op_check(call) != CONEY_OK) {
        op_unref(op);
        return CONEY_EINVAL;
    }
    if (call != NULL) {
        op->call.on_done = call->on_done;
        op->call.ctx = call->ctx;
        op->call.deadline = call->deadline;
        if (call->deadline != 0)
            deadline = call->deadline;
    }
    op->deadline = time_after(time_now(), deadline);
    if (op->detached && op->call.on_done == NULL)
        op->call.on_done = tell_nobody;
    return op->call.on_done == NULL ? run_blocking(op, call) : run_asynchronous(op, call);
}
