/* env.c: opening and closing an AMQP environment, what its rounds bring, statistics. */
#include "amqp/env.h"

#include "amqp/conn.h"
#include "amqp/loan.h"
#include "core/secret.h"

#include <string.h>

/* Codes and names ------------------------------------------------------------------------------------------------- */

coney_status amqp_status_of_code(uint16_t code)
{
    switch (code) {
    case 0:
        return CONEY_OK;
    case AMQP_CODE_NOT_FOUND:
        return CONEY_ENOTFOUND;
    case AMQP_CODE_ACCESS_REFUSED:
        return CONEY_EACCESS;
    case AMQP_CODE_PRECONDITION_FAILED:
        return CONEY_EPRECONDITION;
    case AMQP_CODE_RESOURCE_LOCKED:
        return CONEY_EUNAVAILABLE;
    case AMQP_CODE_CONNECTION_FORCED:
        return CONEY_ELOST;
    default:
        return CONEY_EBROKER;
    }
}

coney_status amqp_name_check(const char *what, const char *name, coney_call *call)
{
    size_t len = name != NULL ? strlen(name) : 0;
    if (len <= AMQP_SHORT_MAX)
        return CONEY_OK;
    return op_refuse(call, CONEY_EINVAL, "the %s is %zu bytes long: at most %d are possible", what, len, AMQP_SHORT_MAX);
}

/* Rounds ---------------------------------------------------------------------------------------------------------- */

static bool round_wanted(struct round *round)
{
    bool opening = round->purpose == PURPOSE_CONTROL && round->env->opening != NULL;
    return opening || loans_want(amqp_of(round->env), round->purpose);
}

static void round_ready(struct round *round)
{
    if (round->purpose == PURPOSE_CONTROL)
        env_opened(round->env);
    loans_go_on(amqp_of(round->env));
}

static void round_failed(struct round *round, coney_status status, uint32_t code, const char *text)
{
    if (round->purpose == PURPOSE_CONTROL)
        env_open_failed(round->env, status, code, text);
    loans_fail(amqp_of(round->env), round->purpose, status, (uint16_t)code, text);
}

/* Life ------------------------------------------------------------------------------------------------------------ */

static void run_loans(struct task *task)
{
    loans_go_on(container_of(task, struct coney_amqp, loan_task));
}

static void init(struct env *env)
{
    struct coney_amqp *amqp = amqp_of(env);
    for (size_t i = 0; i < sizeof amqp->rounds / sizeof amqp->rounds[0]; i++) {
        struct round *round = &amqp->rounds[i];
        round_init(round, env, &amqp_conn_kind, (enum purpose)i);
        round->wanted = round_wanted;
        round->ready = round_ready;
        round->failed = round_failed;
    }
    list_init(&amqp->loans_waiting);
    list_init(&amqp->handles);
    amqp->loan_task.run = run_loans;
    topology_init(amqp);
}

static void open(struct env *env)
{
    round_start(&amqp_of(env)->rounds[PURPOSE_CONTROL]);
}

static void end(struct env *env)
{
    struct coney_amqp *amqp = amqp_of(env);
    loans_end(amqp);
    for (struct list *at = list_take(&amqp->handles); at != NULL; at = list_take(&amqp->handles)) {
        struct amqp_handle *handle = container_of(at, struct amqp_handle, in_env);
        handle->abandon(handle);
    }
    topology_free(amqp);
}

static const struct env_kind amqp_kind = {
    .size = sizeof(struct coney_amqp),
    .settings = &amqp_settings,
    .init = init,
    .open = open,
    .end = end,
};

coney_amqp *coney_amqp_open_sized(const char *uri, const coney_amqp_options *user_options, size_t options_size,
                                  coney_call *call)
{
    coney_amqp_options options = {0};
    struct env_options common;
    if (options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    options.keep_trying = options.keep_trying && asynchronous;
    amqp_common_options(&options, &common);
    struct env *env = env_new(&amqp_kind, uri, &common, call);
    if (env == NULL)
        return NULL;
    struct coney_amqp *amqp = amqp_of(env);
    if (amqp_own_options(amqp, &options, call) != CONEY_OK) {
        void *handle = env;
        (void)env_close(&handle, NULL);
        return NULL;
    }
    return env_run_open(env, call) ? amqp : NULL;
}

coney_status coney_amqp_close(coney_amqp **rabbit, coney_call *call)
{
    return env_close((void **)rabbit, call);
}

coney_status coney_amqp_update_secret(coney_amqp *rabbit, const char *secret, coney_call *call)
{
    return env_update_secret(rabbit != NULL ? &rabbit->env : NULL, secret, call);
}

coney_status coney_amqp_get_stats(const coney_amqp *rabbit, coney_amqp_stats *stats)
{
    if (stats == NULL)
        return CONEY_EINVAL;
    *stats = (coney_amqp_stats){0};
    if (rabbit == NULL)
        return CONEY_EINVAL;
    const struct env *env = &rabbit->env;
    stats->connections = counter_get(&env->connections);
    stats->connections_made = counter_get(&env->connections_made);
    stats->connections_lost = counter_get(&env->connections_lost);
    stats->blocked = counter_get(&rabbit->blocked);
    stats->channels = counter_get(&rabbit->channels);
    stats->publishers = counter_get(&rabbit->publishers);
    stats->publishers_active = counter_get(&rabbit->publishers_active);
    stats->consumers = counter_get(&rabbit->consumers);
    stats->consumers_active = counter_get(&rabbit->consumers_active);
    stats->bytes_in = counter_get(&env->bytes_in);
    stats->bytes_out = counter_get(&env->bytes_out);
    stats->memory_out = pool_out(env->pool);
    stats->memory_idle = pool_idle(env->pool);
    return CONEY_OK;
}
