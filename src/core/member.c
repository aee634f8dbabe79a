/* member.c: finding a place, losing it, finding it again. */
#include "core/member.h"

#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

bool member_init(struct member *member, const struct member_kind *kind, struct env *env, const char *name, bool keep_trying)
{
    member->kind = kind;
    member->name = strdup(name);
    if (member->name == NULL)
        return false;
    member->env = env_ref(env);
    member->keep_trying = keep_trying;
    member->backoff.first = env->settings.recovery_delay;
    member->backoff.most = env->settings.recovery_max_delay;
    member->backoff.seed = (uint64_t)(uintptr_t)member ^ (uint64_t)time_now();
    list_init(&member->in_env);
    list_init(&member->in_conn);
    atomic_store(&member->refs, 1);
    return true;
}

struct member *member_ref(struct member *member)
{
    atomic_fetch_add(&member->refs, 1);
    return member;
}

void member_unref(struct member *member)
{
    if (atomic_fetch_sub(&member->refs, 1) > 1)
        return;
    struct env *env = member->env;
    free(member->name);
    member->kind->free(member);
    env_unref(env);
}

/* An attempt ------------------------------------------------------------------------------------------------------ */

static void locate(struct member *member)
{
    member->state = MEMBER_LOCATING;
    member->kind->locate(member);
}

static void declare(struct member *member)
{
    member->state = MEMBER_DECLARING;
    member->kind->declare(member);
}

void member_place(struct member *member, struct conn *conn)
{
    if (conn == NULL) {
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
        return;
    }
    member->state = MEMBER_CONNECTING;
    conn_attach(conn, member);
    if (conn->state == CONN_READY)
        declare(member);
}

void member_conn_ready(struct member *member)
{
    if (member->state == MEMBER_CONNECTING)
        declare(member);
}

void member_conn_down(struct member *member, coney_status status, uint32_t code, const char *text)
{
    bool unreachable = member->state == MEMBER_CONNECTING &&
                       (status == CONEY_ERESOLVE || status == CONEY_ECONNECT || status == CONEY_ETIMEDOUT);
    char more[TEXT_CAP];
    text_print(more, sizeof more, "%s%s", text, unreachable ? member->kind->unreachable : "");
    member_failed(member, status, code, more, false);
}

static void run_retry(struct timer *timer)
{
    locate(container_of(timer, struct member, retry));
}

/* Opening, success, failure, end ---------------------------------------------------------------------------------- */

/* How many publish, or consume, in the environment. */
static void count(struct member *member, int64_t change)
{
    struct env *env = member->env;
    counter_add(member->kind->purpose == PURPOSE_PUBLISH ? &env->publishing : &env->consuming, (uint64_t)change);
}

static void start(struct member *member, struct op *opening)
{
    member_ref(member);
    count(member, 1);
    member->opening = opening;
    member->retry.fire = run_retry;
    list_append(&member->env->members, &member->in_env);
    if (atomic_load(&member->env->open) != CONEY_OK) {
        member_give_up(member, CONEY_ECLOSED, "the environment is being closed", false);
        env_went_on(member->env);
        return;
    }
    (void)backoff_next(&member->backoff);
    locate(member);
}

/* From here on there is a handle to be closed, also of a constructor that blocks, unless its thread has given up. */
static void give_handle(struct member *member, struct op *opening)
{
    bool blocks = opening->waited_for;
    if (blocks)
        atomic_store(&member->handle_closed, false);
    if (!op_end(opening, CONEY_OK, 0, 0, NULL) && blocks)
        atomic_store(&member->handle_closed, true);
}

void member_active(struct member *member)
{
    struct env *env = member->env;
    uint32_t attempt = member->backoff.attempts;
    struct op *opening = member->opening;
    bool first = !member->opened;
    member_ref(member);
    member->opening = NULL;
    member->opened = true;
    member->state = MEMBER_ACTIVE;
    member->active_at = time_now();
    if (first)
        backoff_reset(&member->backoff);
    if (!first) {
        counter_add(&member->reconnects, 1);
        env_event(env,
                  &(coney_event){.type = CONEY_EVENT_RECOVERED,
                                 .attempt = attempt,
                                 .node = member->conn->name,
                                 .name = member->name,
                                 .handle = member},
                  "the %s '%s' works again, on %s, after %u attempts", member->kind->noun, member->name, member->conn->name,
                  (unsigned)attempt);
    }
    if (member->state == MEMBER_ACTIVE)
        member->kind->active(member);
    if (opening != NULL)
        give_handle(member, opening);
    member_unref(member);
}

/* Takes the member off its connection and out of every queue. */
static void leave(struct member *member, bool held)
{
    loop_timer_unset(member->env->loop, &member->retry);
    member->kind->lost(member);
    member->kind->leave(member, held);
    conn_detach(member, held);
}

/* The environment lets go of a member that is dead and whose handle is closed. */
static void let_go(struct member *member)
{
    struct env *env = member->env;
    if (list_empty(&member->in_env) || !atomic_load(&member->handle_closed))
        return;
    list_remove(&member->in_env);
    env_ref(env);
    member_unref(member);
    env_went_on(env);
    env_unref(env);
}

static void die(struct member *member, coney_status status, uint32_t code, const char *text)
{
    struct op *opening = member->opening;
    member->opening = NULL;
    member->state = MEMBER_DEAD;
    count(member, -1);
    member->kind->dead(member);
    if (opening != NULL)
        op_end(opening, status, code, 0, text);
    let_go(member);
}

static bool is_final(const struct member *member, coney_status status)
{
    if (!member->opened)
        return !member->keep_trying;
    return member->env->settings.no_recovery || (!member->keep_trying && member->kind->is_final(member, status));
}

static void wait_and_try(struct member *member, enum member_state was, coney_status status, uint32_t code, const char *text)
{
    struct env *env = member->env;
    bool lost = was == MEMBER_ACTIVE;
    bool held = lost && time_now() - member->active_at >= env->settings.recovery_delay;
    if (held) /* what is lost again and again as soon as it works is not tried without a pause */
        backoff_reset(&member->backoff);
    uint32_t attempt = lost ? 0 : member->backoff.attempts;
    if (lost && status == CONEY_EPROTOCOL)
        (void)backoff_next(&member->backoff); /* what was refused comes again: not at once */
    int64_t delay = backoff_next(&member->backoff);
    member->state = MEMBER_WAITING;
    member->missed = !lost;
    coney_event event = {
        .type = lost ? CONEY_EVENT_RECOVERING : CONEY_EVENT_RECOVERY_FAILED,
        .status = status,
        .code = code,
        .attempt = attempt,
        .delay = delay,
        .name = member->name,
        .handle = member,
    };
    loop_timer_set(env->loop, &member->retry, time_after(time_now(), delay));
    env_event(env, &event, "the %s '%s' %s: %s (next attempt in %lld ms)", member->kind->noun, member->name,
              lost ? "lost its place" : "has no place yet", text, (long long)(delay / CONEY_MILLISECOND));
    if (!lost && member->state == MEMBER_WAITING && member->kind->failed != NULL)
        member->kind->failed(member);
}

static void give_up(struct member *member, coney_status status, uint32_t code, const char *text)
{
    if (member->opened)
        env_event(
            member->env,
            &(coney_event){.type = CONEY_EVENT_GAVE_UP, .status = status, .code = code, .name = member->name, .handle = member},
            "the %s '%s' has ended: %s", member->kind->noun, member->name, text);
    if (member->state != MEMBER_DEAD)
        die(member, status, code, text);
}

void member_failed(struct member *member, coney_status status, uint32_t code, const char *text, bool held)
{
    enum member_state was = member->state;
    if (was == MEMBER_DEAD)
        return;
    member_ref(member);
    leave(member, held);
    if (member->state == MEMBER_DEAD) {
        /* a callback about what was lost has closed it */
    } else if (is_final(member, status)) {
        give_up(member, status, code, text);
    } else {
        struct op *opening = member->opening;
        member->opening = NULL;
        wait_and_try(member, was, status, code, text);
        if (opening != NULL)
            op_end(opening, status, code, 0, text);
    }
    member_unref(member);
}

void member_give_up(struct member *member, coney_status status, const char *text, bool held)
{
    if (member->state == MEMBER_DEAD)
        return;
    member_ref(member);
    leave(member, held);
    if (member->state != MEMBER_DEAD)
        give_up(member, status, 0, text);
    member_unref(member);
}

void member_end(struct member *member, bool held)
{
    if (member->state == MEMBER_DEAD)
        return;
    member_ref(member);
    leave(member, held);
    if (member->state != MEMBER_DEAD)
        die(member, CONEY_ECLOSED, 0, "it was closed");
    member_unref(member);
}

void member_closed(struct member *member)
{
    let_go(member);
    member_unref(member);
}

/* The constructor's call ------------------------------------------------------------------------------------------ */

struct open_op {
    struct op op;
    struct member *member;
};

static void open_begin(struct op *op)
{
    start(container_of(op, struct open_op, op)->member, op);
}

/* The deadline passed, or the user canceled. */
static void open_abandon(struct op *op)
{
    struct open_op *open = container_of(op, struct open_op, op);
    struct member *member = open->member;
    member->opening = NULL;
    if (op->gave_up || (!member->keep_trying && !member->opened))
        member_end(member, member->state == MEMBER_DECLARING);
}

static void open_free(struct op *op)
{
    struct open_op *open = container_of(op, struct open_op, op);
    member_unref(open->member);
    free(open);
}

coney_status member_run_open(struct member *member, coney_call *call)
{
    struct open_op *open = calloc(1, sizeof *open);
    if (open == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    op_init(&open->op, member->env->loop, open_begin, open_abandon, open_free);
    open->member = member_ref(member);
    bool blocking = call == NULL || call->on_done == NULL;
    atomic_store(&member->handle_closed, blocking);
    return op_run(&open->op, call, member->env->settings.call_deadline);
}

coney_status member_close_handle(void **handle, coney_call *call)
{
    struct member *member = handle != NULL ? *handle : NULL;
    if (member == NULL)
        return CONEY_OK;
    if (member->env->fork != fork_generation()) {
        *handle = NULL; /* the parent's loop and locks are in the copy, in whatever state: nothing of it can be freed safely */
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    }
    if (op_check(call) != CONEY_OK)
        return CONEY_EINVAL;
    if (atomic_exchange(&member->handle_closed, true))
        return op_refuse(call, CONEY_ECLOSED, "it is being closed already");
    *handle = NULL; /* at once: when the close has begun, `handle` itself may be gone */
    coney_status status = member->kind->close(member, call);
    if (status == CONEY_ENOMEM) {
        atomic_store(&member->handle_closed, false);
        *handle = member;
    }
    return status;
}
