/* env.h: the inside of an environment, whatever the protocol: settings, and what all its connections, producers and consumers share.
 *
 * It stands first in each client's own struct (coney_stream_env, coney_amqp), whose pointer is the user's handle. Life:
 *
 *     struct env *env = env_new(&kind, uri, &options, call);                 // threads run, nothing is connected
 *     return env != NULL && env_run_open(env, call) ? handle : NULL;         // kind->open … env_opened or env_open_failed
 *     return env_close((void **)handle, call);                               // members, then connections, then threads
 *
 * All of it belongs to the environment's loop, except what says otherwise.
 */
#ifndef CONEY_CORE_ENV_H
#define CONEY_CORE_ENV_H

#include "base/counter.h"
#include "base/fork.h"
#include "base/list.h"
#include "base/log.h"
#include "base/pool.h"
#include "core/call.h"
#include "core/credentials.h"
#include "core/crew.h"
#include "core/options.h"
#include "core/settings.h"

#define TEXT_CAP sizeof(((coney_call *)0)->text)

struct env;
struct conn;

/* What differs between the clients. */
struct env_kind {
    size_t size; /* of the client's struct, which begins with its struct env */
    const struct settings_kind *settings;
    void (*init)(struct env *env); /* the client's own fields; the settings are there. Cannot fail. May be NULL */
    void (*open)(struct env *env); /* on the loop: starts connecting; ends with env_opened or env_open_failed, now or later */
    void (*end)(
        struct env *env); /* on the loop: closed, connections and members are gone: what still waits ends. May be NULL */
    void (*free)(struct env *env); /* the last reference is gone; any thread. May be NULL */
};

struct env {
    const struct env_kind *kind;
    struct settings settings;
    bool has_credentials; /* a callback for them; constant */
    struct credentials credentials;
    coney_loop *loop;
    bool owns_loop;
    struct dispatcher *dispatcher; /* NULL: handlers run on the loop */
    struct crew crew;              /* the threads of consumers with `.own_thread` */
    struct pool *pool;
    struct log log;
    coney_event_fn on_event;
    void *event_ctx;
    uint32_t fork;    /* fork_generation() at open */
    _Atomic int open; /* CONEY_OK, or what a use answers; any thread */
    _Atomic uint32_t refs;
    struct list conns;
    struct list members; /* those that live, and dead ones whose handle is open */
    struct conn *idle;   /* a connection that nobody uses, kept for the next who asks */
    uint64_t random;     /* for backoff_random */
    struct op *opening;
    struct op *closing; /* set: nothing is opened any more */
    struct task close_task;
    struct task last_task; /* on a loop of the user's: drops the environment's own reference */
    counter connections;
    counter connections_made;
    counter connections_lost;
    counter publishing; /* members that publish, now */
    counter consuming;
    counter bytes_in;
    counter bytes_out;
};

/* What the public options of both clients have in common beyond the settings. */
struct env_options {
    struct settings_options settings;
    coney_loop *loop; /* NULL = a thread of its own */
    coney_event_fn on_event;
    void *event_ctx;
    coney_log_fn on_log;
    void *log_ctx;
    coney_log_level log_level;        /* 0 = CONEY_LOG_INFO */
    coney_credentials_fn credentials; /* asked instead of the URI's user and password; NULL = none */
    void *credentials_ctx;
    bool handler_thread; /* on a loop of the user's: handlers run on a thread of their own all the same */
};

/* An environment that is not connected, zeroed but for its struct env and what kind->init set. NULL: the call says why. */
struct env *env_new(const struct env_kind *kind, const char *uri, const struct env_options *options, coney_call *call);

/* Runs the constructor's call. False: it failed and the environment is gone, the call says why. */
bool env_run_open(struct env *env, coney_call *call);

/* How kind->open ends; harmless when nothing is being opened. After a failure every use answers CONEY_ECLOSED, unless keep_trying. */
void env_opened(struct env *env);
void env_open_failed(struct env *env, coney_status status, uint32_t code, const char *text);

/* The public close function: closes the members, then the connections, then ends the threads. Clears *handle. call->value: what the closes of
 * members that publish reported. */
coney_status env_close(void **handle, coney_call *call);

/* On the loop: what a connection logs in with now. */
static inline const char *env_user(const struct env *env)
{
    return env->credentials.user != NULL ? env->credentials.user : env->settings.user;
}

static inline const char *env_password(const struct env *env)
{
    return env->credentials.password != NULL ? env->credentials.password : env->settings.password;
}

struct env *env_ref(struct env *env);
void env_unref(struct env *env);

/* CONEY_OK when the environment can be used from here; else what the call must answer, with its text in `call`. `env` may be NULL. Any thread. */
coney_status env_check(const struct env *env, coney_call *call);

/* Hands an event to the user and a line to the log. `name`, `node` and `handle` may be NULL; the format makes event.text. */
void env_event(struct env *env, const coney_event *event, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A member or connection has gone: goes on with closing the environment, if it is being closed. */
void env_went_on(struct env *env);

#endif
