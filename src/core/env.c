/* env.c: opening and closing an environment, its threads, its events. */
#include "core/env.h"

#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "core/receiver.h"
#include "core/secret.h"

#include <stdlib.h>

#define POOL_KEEP (64u << 20)

coney_status env_check(const struct env *env, coney_call *call)
{
    if (env == NULL)
        return op_refuse(call, CONEY_EINVAL, "the environment is NULL: it was never opened, or is closed");
    if (env->fork != fork_generation())
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    coney_status status = (coney_status)atomic_load(&env->open);
    return status == CONEY_OK ? CONEY_OK : op_refuse(call, status, "%s", coney_status_text(status));
}

void env_event(struct env *env, const coney_event *event, const char *format, ...)
{
    char text[TEXT_CAP];
    va_list args;
    va_start(args, format);
    text_vprint(text, sizeof text, format, args);
    va_end(args);
    bool trouble = event->status != CONEY_OK;
    log_line(&env->log, trouble ? CONEY_LOG_WARNING : CONEY_LOG_INFO, "%s: %s", coney_event_name(event->type), text);
    if (env->on_event == NULL)
        return;
    coney_event told = *event;
    told.text = text;
    told.node = event->node != NULL ? event->node : "";
    told.name = event->name != NULL ? event->name : "";
    env->on_event(env->event_ctx, &told);
}

/* Life ------------------------------------------------------------------------------------------------------------ */

struct env *env_ref(struct env *env)
{
    atomic_fetch_add(&env->refs, 1);
    return env;
}

void env_unref(struct env *env)
{
    if (atomic_fetch_sub(&env->refs, 1) > 1)
        return;
    dispatcher_stop(env->dispatcher); /* its thread has ended, its lanes are gone */
    crew_free(&env->crew);
    if (env->kind->free != NULL)
        env->kind->free(env);
    settings_free(&env->settings);
    pool_free(env->pool);
    free(env);
}

static void run_last(struct task *task)
{
    env_unref(container_of(task, struct env, last_task));
}

/* Ends the threads, and with its own loop runs what was posted to it. Not on one of them. */
static void end_threads(struct env *env)
{
    if (env->owns_loop && env->loop != NULL)
        loop_thread_stop(env->loop);
    dispatcher_end(env->dispatcher);
    crew_end(&env->crew);
    coney_loop *loop = env->loop; /* a copy: its last tasks still find it in the environment */
    if (env->owns_loop)
        coney_loop_free(&loop);
}

static void tear_down(struct env *env)
{
    end_threads(env);
    if (env->owns_loop)
        env_unref(env);
    else
        loop_post(env->loop, &env->last_task); /* behind whatever else was posted for it */
}

static void *run_reaper(void *arg)
{
    end_threads(arg);
    env_unref(arg);
    return NULL;
}

/* Where nobody waits for the end, a thread of its own sees to it: the environment's threads cannot join themselves. */
static void tear_down_elsewhere(struct env *env)
{
    pthread_t reaper;
    if (!env->owns_loop) {
        loop_post(env->loop, &env->last_task);
        if (env->dispatcher == NULL && crew_is_empty(&env->crew))
            return;
        env_ref(env);
    }
    if (thread_start(&reaper, "coney-close", run_reaper, env) == CONEY_OK)
        pthread_detach(reaper);
    else
        log_line(&env->log, CONEY_LOG_ERROR, "no thread could be had to end the environment: its memory is lost");
}

static bool start_threads(struct env *env, const struct env_options *options, coney_call *call)
{
    env->owns_loop = options->loop == NULL;
    env->loop = env->owns_loop ? coney_loop_new() : options->loop;
    if (env->loop == NULL || (env->owns_loop && loop_thread_start(env->loop, "coney-loop") != CONEY_OK)) {
        op_refuse(call, CONEY_ELIMIT,
                  "no loop could be made: the process is out of descriptors or threads (see ulimit -n and -u)");
        return false;
    }
    if (!env->owns_loop && !options->handler_thread)
        return true;
    env->dispatcher = dispatcher_start("coney-handlers");
    if (env->dispatcher == NULL)
        op_refuse(call, CONEY_ELIMIT, "no thread could be had for the handlers (see ulimit -u)");
    return env->dispatcher != NULL;
}

static void start_credentials(struct env *env, const struct env_options *options)
{
    env->has_credentials = options->credentials != NULL;
    credentials_init(&env->credentials, env->loop, options->credentials, options->credentials_ctx, env->settings.recovery_delay,
                     env->settings.recovery_max_delay);
    env->credentials.renewed = secrets_renewed;
    env->credentials.failed = secrets_failed;
}

/* Once for all rounds, which go round the addresses from different places (core/round.h). */
static void mix_addresses(struct env *env)
{
    struct node *addresses = env->settings.addresses;
    for (size_t i = env->settings.address_count; i > 1; i--) {
        size_t other = backoff_random(&env->random) % i;
        struct node node = addresses[i - 1];
        addresses[i - 1] = addresses[other];
        addresses[other] = node;
    }
}

static void step_closing(struct task *task);

struct env *env_new(const struct env_kind *kind, const char *uri, const struct env_options *options, coney_call *call)
{
    struct env *env = calloc(1, kind->size);
    if (env == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    char text[TEXT_CAP];
    coney_status status = settings_read(&env->settings, kind->settings, uri, &options->settings, env, text, sizeof text);
    if (status != CONEY_OK) {
        op_refuse(call, status, "%s", text);
        free(env);
        return NULL;
    }
    env->kind = kind;
    atomic_store(&env->refs, 1);
    env->fork = fork_generation();
    env->on_event = options->on_event;
    env->event_ctx = options->event_ctx;
    env->log = (struct log){
        .fn = options->on_log, .ctx = options->log_ctx, .level = options->log_level != 0 ? options->log_level : CONEY_LOG_INFO};
    env->random = (uint64_t)time_now() ^ (uint64_t)(uintptr_t)env;
    if (env->settings.shuffle)
        mix_addresses(env);
    env->close_task.run = step_closing;
    env->last_task.run = run_last;
    list_init(&env->conns);
    list_init(&env->members);
    env->pool = pool_new(POOL_KEEP);
    if (env->pool == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        settings_free(&env->settings);
        free(env);
        return NULL;
    }
    if (kind->init != NULL)
        kind->init(env);
    bool started = start_threads(env, options, call);
    start_credentials(env, options);
    if (started)
        return env;
    tear_down(env);
    return NULL;
}

/* Opening --------------------------------------------------------------------------------------------------------- */

struct env_op {
    struct op op;
    struct env *env;
    uint64_t unconfirmed; /* closing: what the members report */
    uint64_t children;    /* closes of members that are under way */
    bool waited;          /* closing: the thread that called tears the environment down */
};

static struct env_op *of_op(struct op *op)
{
    return container_of(op, struct env_op, op);
}

static void open_begin(struct op *op)
{
    struct env *env = of_op(op)->env;
    env->opening = op;
    env->kind->open(env);
}

static void open_abandon(struct op *op)
{
    struct env *env = of_op(op)->env;
    if (env->opening == op)
        env->opening = NULL;
    if (!env->settings.keep_trying)
        atomic_store(&env->open, CONEY_ECLOSED);
}

void env_opened(struct env *env)
{
    struct op *opening = env->opening;
    env->opening = NULL;
    if (opening != NULL)
        op_end(opening, CONEY_OK, 0, 0, NULL);
}

void env_open_failed(struct env *env, coney_status status, uint32_t code, const char *text)
{
    struct op *opening = env->opening;
    env->opening = NULL;
    if (opening == NULL)
        return;
    if (!env->settings.keep_trying)
        atomic_store(&env->open, CONEY_ECLOSED);
    op_end(opening, status, code, 0, text);
}

static void open_free(struct op *op)
{
    env_unref(of_op(op)->env);
    free(of_op(op));
}

static struct env_op *env_op_new(struct env *env, coney_call *call, void (*begin)(struct op *), void (*free_op)(struct op *))
{
    struct env_op *op = calloc(1, sizeof *op);
    if (op == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    op_init(&op->op, env->loop, begin, NULL, free_op);
    op->env = env_ref(env);
    return op;
}

bool env_run_open(struct env *env, coney_call *call)
{
    struct env_op *op = env_op_new(env, call, open_begin, open_free);
    if (op == NULL) {
        tear_down(env);
        return false;
    }
    op->op.abandon = open_abandon;
    if (op_run(&op->op, call, env->settings.call_deadline) == CONEY_OK)
        return true;
    void *handle = env;
    (void)env_close(&handle, NULL);
    return false;
}

/* Closing: the members, then the connections ------------------------------------------------------------------------- */

static void child_closed(struct env_op *closing)
{
    closing->children--;
    env_went_on(closing->env);
    op_unref(&closing->op);
}

static void publishing_closed(void *ctx, const coney_call *call)
{
    struct env_op *closing = ctx;
    closing->unconfirmed += call->value;
    child_closed(closing);
}

static void other_closed(void *ctx, const coney_call *call)
{
    (void)call;
    child_closed(ctx);
}

static void close_member(struct env_op *closing, struct member *member)
{
    int64_t left = closing->op.deadline - time_now();
    coney_call call = {
        .deadline = closing->op.deadline == INT64_MAX ? CONEY_OFF
                    : left > 0                        ? left
                                                      : 1,
        .on_done = member->kind->purpose == PURPOSE_PUBLISH ? publishing_closed : other_closed,
        .ctx = closing,
    };
    closing->children++;
    op_ref(&closing->op); /* a member's close may end after this one's deadline */
    if (member->kind->close(member, &call) != CONEY_OK)
        child_closed(closing);
}

static struct member *next_to_close(struct env *env)
{
    for (struct list *at = env->members.next; at != &env->members; at = at->next) {
        struct member *member = container_of(at, struct member, in_env);
        if (!atomic_exchange(&member->handle_closed, true))
            return member;
    }
    return NULL;
}

static void close_members(struct env_op *closing)
{
    struct member *member;
    while ((member = next_to_close(closing->env)) != NULL)
        close_member(closing, member);
}

/* Ends the members that live, or only those whose opening is under way: a constructor that blocks has not given its handle out, it ends with its
 * call and frees the handle itself. */
static void end_members(struct env *env, bool opening_only)
{
    for (struct list *at = env->members.next; at != &env->members;) {
        struct member *member = container_of(at, struct member, in_env);
        at = at->next;
        if (member->state == MEMBER_DEAD || (opening_only && member->opening == NULL))
            continue;
        member_end(member, false);
        at = env->members.next;
    }
}

static void close_begin(struct op *op)
{
    struct env_op *closing = of_op(op);
    struct env *env = closing->env;
    struct op *opening = env->opening;
    env->closing = op;
    env->opening = NULL;
    if (opening != NULL)
        op_end(opening, CONEY_ECLOSED, 0, 0, "the environment is being closed");
    close_members(closing);
    end_members(env, true);
    env_went_on(env);
}

static void fail_all_conns(struct env *env)
{
    while (!list_empty(&env->conns))
        conn_fail(container_of(env->conns.next, struct conn, in_env), CONEY_ECLOSED, 0, "the environment was closed");
}

static void end_closing(struct env *env, coney_status status)
{
    struct op *op = env->closing;
    if (env->kind->end != NULL)
        env->kind->end(env);
    credentials_end(&env->credentials);
    env->closing = NULL;
    op_end(op, status, 0, of_op(op)->unconfirmed, NULL);
}

/* One look at what is left; runs by itself, so that nothing of what went on is still on the stack. */
static void step_closing(struct task *task)
{
    struct env *env = container_of(task, struct env, close_task);
    if (env->closing == NULL)
        return;
    close_members(of_op(env->closing)); /* one may have been on its way to be opened when the closing began */
    if (of_op(env->closing)->children > 0 || !list_empty(&env->members))
        return;
    if (list_empty(&env->conns)) {
        end_closing(env, CONEY_OK);
        return;
    }
    for (struct list *at = env->conns.next, *next = at->next; at != &env->conns; at = next, next = at->next)
        conn_close(container_of(at, struct conn, in_env));
}

void env_went_on(struct env *env)
{
    if (env->closing != NULL)
        loop_post(env->loop, &env->close_task);
}

/* Whatever is left ends now. */
static void close_expire(struct op *op, coney_status status)
{
    struct env *env = of_op(op)->env;
    if (env->closing != op)
        return;
    end_members(env, false);
    fail_all_conns(env);
    end_closing(env, status);
}

static void close_free(struct op *op)
{
    struct env_op *closing = of_op(op);
    struct env *env = closing->env;
    bool waited = closing->waited;
    free(closing);
    if (!waited)
        tear_down_elsewhere(env);
    env_unref(env);
}

coney_status env_close(void **handle, coney_call *call)
{
    struct env *env = handle != NULL ? *handle : NULL;
    if (env == NULL)
        return CONEY_OK;
    if (env->fork != fork_generation()) {
        *handle = NULL; /* the parent's threads may hold any of its locks: nothing of the copy can be freed safely */
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    }
    if (op_check(call) != CONEY_OK)
        return CONEY_EINVAL;
    struct env_op *closing = env_op_new(env, call, close_begin, close_free);
    if (closing == NULL)
        return CONEY_ENOMEM;
    *handle = NULL;
    atomic_store(&env->open, CONEY_ECLOSED);
    closing->op.expire = close_expire;
    closing->op.detached = receiver_stop_here(env) || loop_is_current(env->loop);
    closing->waited = !closing->op.detached && (call == NULL || call->on_done == NULL);
    bool waited = closing->waited;
    coney_status status = op_run(&closing->op, call, env->settings.call_deadline);
    if (waited && status == CONEY_OK)
        tear_down(env);
    else if (waited)
        tear_down_elsewhere(env); /* a handler may still be running */
    return status;
}
