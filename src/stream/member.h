/* member.h: what producers and consumers have in common: a place on a connection to the right node, looked for again when it is lost.
 *
 * A member asks the broker's metadata where its stream is, takes a connection to that node, declares itself there, and is active. Whatever
 * goes wrong on the way ends in member_failed: at open the call fails; afterwards it is an event, and another attempt after a back-off, from the
 * metadata on. Everything here is on the loop, references excepted.
 */
#ifndef CONEY_STREAM_MEMBER_H
#define CONEY_STREAM_MEMBER_H

#include "core/backoff.h"
#include "stream/conn.h"

enum member_state {
    MEMBER_LOCATING,
    MEMBER_CONNECTING,
    MEMBER_DECLARING,
    MEMBER_ACTIVE,
    MEMBER_WAITING, /* for the next attempt */
    MEMBER_DEAD,    /* closed, or given up */
};

struct member;

/* What differs between the two. */
struct member_kind {
    enum purpose purpose;
    const char *noun;                       /* "producer" */
    void (*declare)(struct member *member); /* on a ready connection; ends in member_active or member_failed */
    void (*active)(struct member *member);
    void (*lost)(struct member *member);   /* its connection is gone, or its id is void: forget what is on the wire */
    void (*failed)(struct member *member); /* an attempt has failed; another will follow. May be NULL */
    void (*dead)(struct member *member);   /* it will not come back: every use of the handle answers CONEY_ECLOSED */
    coney_status (*close)(struct member *member, coney_call *call); /* the public close function; ends with member_closed */
    void (*free)(struct member *member);
};

struct member {
    const struct member_kind *kind;
    struct coney_stream_env *env;
    char *stream;
    struct list in_env;
    struct list in_conn;
    struct conn *conn;
    uint8_t id;
    enum member_state state;
    atomic_bool handle_closed; /* the user's handle is gone, or was not given out yet; any thread */
    bool opened;               /* was active once */
    bool keep_trying;          /* a failed open, or a missing stream, is tried again */
    struct op *opening;
    struct timer retry;
    int64_t active_at;      /* when it last got its place */
    struct backoff backoff; /* since a place that held, or the opening */
    _Atomic uint32_t refs;
    counter reconnects;
};

/* A member with one reference, the user's handle. False: memory is out. */
bool member_init(struct member *member, const struct member_kind *kind, struct coney_stream_env *env, const char *stream,
                 bool keep_trying);

struct member *member_ref(struct member *member);
void member_unref(struct member *member);

/* Starts opening. The environment holds a reference until the member is dead and its handle closed. `opening` is ended with the first success or,
 * unless keep_trying, the first failure. In an environment that is closed already the member ends at once. */
void member_open(struct member *member, struct op *opening);

/* The declaration succeeded. */
void member_active(struct member *member);

/* This attempt failed, or the place is lost. `held`: the broker may still know the id, and is asked to forget it. */
void member_failed(struct member *member, coney_status status, uint32_t code, const char *text, bool held);

/* The user closed it, or the environment: leaves the connection; nothing is tried any more. `held` as above. Calls no callback but `lost`. */
void member_end(struct member *member, bool held);

/* The same when the broker has answered with this code: the text says what it means and what to do. The id is free. */
void member_refused(struct member *member, uint16_t code);

/* The close of the handle has ended: drops the user's reference, and the environment's. The member is dead. */
void member_closed(struct member *member);

/* Ends the member like a failure after which nothing will help. */
void member_give_up(struct member *member, coney_status status, const char *text, bool held);

/* From the connection. */
void member_conn_ready(struct member *member);
void member_conn_down(struct member *member, coney_status status, uint32_t code, const char *text);

/* The broker says that the stream has gone from this connection: MetadataUpdate. */
void member_stream_gone(struct member *member, uint32_t code);

/* The public close functions: clears *handle, and closes once, however many threads come. `fork`: fork_generation() at the handle's birth. */
coney_status member_close_handle(struct member *member, void **handle, uint32_t fork, coney_call *call);

/* Runs a constructor's call: blocking ones return CONEY_OK or why not. */
coney_status member_run_open(struct member *member, coney_call *call);

#endif
