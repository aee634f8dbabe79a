/* env.h: the inside of coney_stream_env: settings, and what all its connections, producers and consumers share.
 *
 * All of it belongs to the environment's loop, except what says otherwise.
 */
#ifndef CONEY_STREAM_ENV_H
#define CONEY_STREAM_ENV_H

#include "base/counter.h"
#include "base/fork.h"
#include "base/list.h"
#include "base/log.h"
#include "base/pool.h"
#include "core/call.h"
#include "core/dispatcher.h"

#include <coney/stream.h>

#define HOST_CAP 256 /* bytes of a host name with its end */
#define TEXT_CAP sizeof(((coney_call *)0)->text)

struct conn;

/* One address of a broker node. */
struct node {
    char host[HOST_CAP];
    uint16_t port;
};

/* What the URI and the options said, with the defaults filled in. Constant once the environment is open. */
struct settings {
    char *name;
    char *user;
    char *password;
    char *vhost;
    struct node *addresses;
    size_t address_count;
    coney_field *properties; /* of the client's; keys and string values are copies */
    size_t property_count;
    coney_stream_resolver_fn resolve_address;
    void *resolver_ctx;
    int64_t connect_timeout;
    int64_t call_deadline;
    int64_t recovery_delay;
    int64_t recovery_max_delay;
    uint32_t heartbeat; /* seconds; 0 = off */
    uint32_t frame_max;
    uint32_t max_chunk;
    bool shuffle;
    bool no_recovery;
    bool keep_trying;
};

struct coney_stream_env {
    struct settings settings;
    coney_loop *loop;
    bool owns_loop;
    struct dispatcher *dispatcher; /* NULL: handlers run on the loop */
    struct pool *pool;
    struct log log;
    coney_event_fn on_event;
    void *event_ctx;
    uint32_t fork;    /* fork_generation() at open */
    _Atomic int open; /* CONEY_OK, or what a use answers; any thread */
    _Atomic uint32_t refs;
    struct list conns;
    struct list members;       /* producers and consumers: those that live, and dead ones whose handle is open */
    struct conn *control;      /* NULL: none, or not wanted yet */
    struct list control_queue; /* requests that wait for it */
    struct task control_task;  /* opens it */
    size_t address_next;       /* the address that the next control connection tries first */
    size_t tried;              /* addresses that failed in this round */
    char failures[512];        /* what they said */
    struct conn *idle;         /* a connection that nobody uses, kept for the next who asks */
    uint64_t random;
    struct op *opening;
    struct op *closing;
    struct task close_task;
    struct task last_task; /* on a loop of the user's: drops the environment's own reference */
    counter connections;
    counter connections_made;
    counter connections_lost;
    counter producers;
    counter consumers;
    counter bytes_in;
    counter bytes_out;
};

/* Fills *settings from both sources; CONEY_EINVAL or CONEY_ENOMEM with a text. settings_free wipes the password. */
coney_status settings_read(struct settings *settings, const char *uri, const coney_stream_env_options *options, char *error,
                           size_t error_cap);
void settings_free(struct settings *settings);

struct coney_stream_env *env_ref(struct coney_stream_env *env);
void env_unref(struct coney_stream_env *env);

/* CONEY_OK when the environment can be used from here; else what the call must answer, with its text in `call`. Any thread. */
coney_status env_check(const coney_stream_env *env, coney_call *call);

/* Hands an event to the user and a line to the log. `name`, `node` and `handle` may be NULL; the format makes event.text. */
void env_event(struct coney_stream_env *env, const coney_event *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A member or connection has gone: goes on with closing the environment, if it is being closed. */
void env_went_on(struct coney_stream_env *env);

/* Copies what the caller knows of an options struct of `theirs` bytes into `ours` (zeroed first), which is `ours_size` bytes long.
 * CONEY_EUNSUPPORTED when there are more bytes than that and one of them is not zero: the caller was compiled against a newer coney. */
coney_status options_copy(void *ours, size_t ours_size, const void *theirs, size_t theirs_size, coney_call *call);

/* CONEY_EINVAL when one of the reserved bytes of a caller's struct is not zero. */
#define RESERVED_TEXT "a reserved member is not zero: zero the whole struct before its members are set"
coney_status reserved_check(const uint8_t *reserved, size_t count);

/* The name of a stream, a consumer or a producer: one line of UTF-8, at most `max` bytes. The broker takes the line ends
 * out of a stream's name, and a name that is no UTF-8 crashes its connection. */
coney_status name_check(const char *what, const char *name, size_t max, coney_call *call);

#endif
