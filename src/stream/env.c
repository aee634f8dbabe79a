/* env.c: the public functions of an environment. */
#include "stream/env.h"

#include "core/secret.h"
#include "stream/conn.h"

#define DEFAULT_MAX_CHUNK (64u << 20)

static void open_env(struct env *env)
{
    control_start(stream_env_of(env));
}

static void end(struct env *env)
{
    requests_fail(&stream_env_of(env)->control_queue, CONEY_ECLOSED, "the environment was closed");
}

static void init(struct env *env)
{
    control_init(stream_env_of(env));
}

static const struct env_kind kind = {
    .size = sizeof(struct coney_stream_env),
    .settings = &stream_settings,
    .init = init,
    .open = open_env,
    .end = end,
};

coney_stream_env *coney_stream_env_open_sized(const char *uri, const coney_stream_env_options *user_options,
                                              size_t options_size, coney_call *call)
{
    coney_stream_env_options options = {0};
    struct env_options common;
    if (options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    options.keep_trying = options.keep_trying && asynchronous;
    if (!stream_options_read(&options, &common, call))
        return NULL;
    struct env *env = env_new(&kind, uri, &common, call);
    if (env == NULL)
        return NULL;
    struct coney_stream_env *stream_env = stream_env_of(env);
    stream_env->max_chunk = options.max_chunk > 0 ? (uint32_t)options.max_chunk : DEFAULT_MAX_CHUNK;
    stream_env->resolve_address = options.resolve_address;
    stream_env->resolver_ctx = options.resolver_ctx;
    return env_run_open(env, call) ? stream_env : NULL;
}

coney_status coney_stream_env_close(coney_stream_env **handle, coney_call *call)
{
    return env_close((void **)handle, call);
}

coney_status coney_stream_env_update_secret(coney_stream_env *stream_env, const char *secret, coney_call *call)
{
    return env_update_secret(stream_env != NULL ? &stream_env->env : NULL, secret, call);
}

coney_status coney_stream_env_get_stats(const coney_stream_env *stream_env, coney_stream_env_stats *stats)
{
    if (stream_env == NULL || stats == NULL)
        return CONEY_EINVAL;
    const struct env *env = &stream_env->env;
    *stats = (coney_stream_env_stats){
        .connections = counter_get(&env->connections),
        .connections_made = counter_get(&env->connections_made),
        .connections_lost = counter_get(&env->connections_lost),
        .producers = counter_get(&env->publishing),
        .consumers = counter_get(&env->consuming),
        .bytes_in = counter_get(&env->bytes_in),
        .bytes_out = counter_get(&env->bytes_out),
        .memory_out = pool_out(env->pool),
        .memory_idle = pool_idle(env->pool),
    };
    return CONEY_OK;
}
