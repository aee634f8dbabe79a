/* env.h: the inside of coney_stream_env: core's struct env with the stream protocol's parts behind it.
 *
 * All of it belongs to the environment's loop, except what says otherwise.
 */
#ifndef CONEY_STREAM_ENV_H
#define CONEY_STREAM_ENV_H

#include "core/round.h"

#include <coney/stream.h>

struct coney_stream_env {
    struct env env;
    uint32_t max_chunk;
    coney_stream_resolver_fn resolve_address;
    void *resolver_ctx;
    struct round control;      /* whose connection carries metadata, administration and queries */
    struct list control_queue; /* requests that wait for it */
    struct task control_task;  /* opens it */
};

static inline struct coney_stream_env *stream_env_of(struct env *env)
{
    return container_of(env, struct coney_stream_env, env);
}

/* options.c: the stream protocol's URIs. */
extern const struct settings_kind stream_settings;

/* options.c: what the public options say, for env_new; false: max_chunk is out of range, the call says so. */
bool stream_options_read(const coney_stream_env_options *options, struct env_options *out, coney_call *call);

/* env_check for a handle, which may be NULL. */
static inline coney_status stream_env_check(const coney_stream_env *env, coney_call *call)
{
    return env_check(env != NULL ? &env->env : NULL, call);
}

#endif
