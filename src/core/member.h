/* member.h: what producers, publishers and consumers have in common: a place on a connection, looked for again when it is lost.
 *
 * An attempt is the kind's: it locates (streams: metadata, a connection to that node; AMQP: topology, a connection of its purpose), is placed on a
 * connection, declares itself there, and is active. Whatever goes wrong on the way ends in member_failed: at open the call fails; afterwards it is
 * an event, and another attempt after a back-off. Everything here is on the loop, references excepted.
 */
#ifndef CONEY_CORE_MEMBER_H
#define CONEY_CORE_MEMBER_H

#include "core/backoff.h"
#include "core/conn.h"

enum member_state {
    MEMBER_LOCATING,
    MEMBER_CONNECTING, /* placed, or in a round's list; the connection is not ready */
    MEMBER_DECLARING,
    MEMBER_ACTIVE,
    MEMBER_WAITING, /* for the next attempt */
    MEMBER_DEAD,    /* closed, or given up */
};

struct member;

struct member_kind {
    enum purpose purpose;
    const char *noun;        /* "producer of stream": events say "the producer of stream 'x' works again" */
    const char *unreachable; /* said behind the text when the connection to its place could not be made; "" for nothing */
    void (*locate)(struct member *member);  /* begins an attempt; ends in member_place, round_place or member_failed */
    void (*declare)(struct member *member); /* on a ready connection; ends in member_active or member_failed */
    void (*active)(struct member *member);
    void (*lost)(struct member *
                     member); /* its connection is gone (member->conn NULL), or its place is void: forget what is on the wire */
    /* After `lost`: no answer to its requests may come any more; `held`: the broker may still know it, and is asked to forget it. member->conn may
     * be NULL. conn_kind.detach follows. */
    void (*leave)(struct member *member, bool held);
    void (*failed)(struct member *member); /* an attempt has failed; another will follow. May be NULL */
    bool (*is_final)(const struct member *member,
                     coney_status status); /* it was open once: this cannot get better. no_recovery is core's */
    void (*dead)(struct member *member);   /* it will not come back: every use of the handle answers CONEY_ECLOSED */
    coney_status (*close)(struct member *member, coney_call *call); /* the public close function; ends with member_closed */
    void (*free)(struct member *member);
};

struct member {
    const struct member_kind *kind;
    struct env *env;
    char *name; /* of the stream, exchange or queue */
    struct list in_env;
    struct list in_conn;
    struct conn *conn;
    uint16_t id; /* on its connection: of the publisher, the subscription, the channel. conn_kind.attach gave it */
    enum member_state state;
    atomic_bool handle_closed; /* the user's handle is gone, or was not given out yet; any thread */
    bool opened;               /* was active once */
    bool missed;               /* waiting: the last attempt failed, rather than that a place was lost */
    bool keep_trying;          /* a failed open, or what is_final speaks of, is tried again */
    struct op *opening;
    struct timer retry;
    int64_t active_at;      /* when it last got its place */
    struct backoff backoff; /* since a place that held, or the opening */
    _Atomic uint32_t refs;
    counter reconnects;
};

/* A member with one reference, the user's handle. `member` is zeroed and stands first in a struct from malloc. False: memory is out. */
bool member_init(struct member *member, const struct member_kind *kind, struct env *env, const char *name, bool keep_trying);

struct member *member_ref(struct member *member);
void member_unref(struct member *member);

/* Runs a constructor's call: blocking ones return CONEY_OK or why not. The environment holds a reference until the member is dead and its handle
 * closed. The call ends with the first success or, unless keep_trying, the first failure. In an environment that is closed already the member ends
 * at once. */
coney_status member_run_open(struct member *member, coney_call *call);

/* Takes a place on `conn`, which has room: declares at once when it is ready, otherwise when it becomes so. NULL: fails for want of memory. */
void member_place(struct member *member, struct conn *conn);

/* The declaration succeeded. */
void member_active(struct member *member);

/* This attempt failed, or the place is lost. `held`: the broker may still know the member, and is asked to forget it. */
void member_failed(struct member *member, coney_status status, uint32_t code, const char *text, bool held);

/* Ends the member like a failure after which nothing will help. */
void member_give_up(struct member *member, coney_status status, const char *text, bool held);

/* The user closed it, or the environment: leaves the connection; nothing is tried any more. `held` as above. Calls no callback but `lost`. */
void member_end(struct member *member, bool held);

/* The close of the handle has ended: drops the user's reference, and the environment's. The member is dead. */
void member_closed(struct member *member);

/* From the connection. */
void member_conn_ready(struct member *member);
void member_conn_down(struct member *member, coney_status status, uint32_t code, const char *text);

/* Whether the broker may know it. */
static inline bool member_is_known(const struct member *member)
{
    return member->state == MEMBER_ACTIVE || member->state == MEMBER_DECLARING;
}

/* The public close functions: clears *handle, and closes once, however many threads come. */
coney_status member_close_handle(void **handle, coney_call *call);

#endif
