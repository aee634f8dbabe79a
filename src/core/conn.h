/* conn.h: one connection of an environment: dialling, the log-in's limits, heartbeats, the members that share it, its end.
 *
 * It stands first in each client's own struct, whose conn_kind brings the protocol: frames, log-in, requests. A connection serves one
 * purpose: publishing and consuming never share one, since the broker stops reading a connection that publishes into an alarm.
 * Everything here is on the loop.
 */
#ifndef CONEY_CORE_CONN_H
#define CONEY_CORE_CONN_H

#include "core/env.h"
#include "net/link.h"

struct member;
struct renewal;
struct round;

enum purpose {
    PURPOSE_CONTROL,
    PURPOSE_PUBLISH,
    PURPOSE_CONSUME,
};

/* "control", "publish", "consume": for the connection's name at the broker. */
const char *purpose_name(enum purpose purpose);

enum conn_state {
    CONN_CONNECTING, /* TCP, then the log-in */
    CONN_READY,
    CONN_CLOSING, /* our Close is out */
    CONN_DOWN,
};

/* What differs between the protocols. */
struct conn_kind {
    size_t size; /* of the client's struct, which begins with its struct conn */

    void (*init)(struct conn *conn); /* the client's own fields, before it is dialled. Cannot fail. May be NULL */

    /* The link's callbacks; their ctx is the struct conn. The kind's own: frame_size, on_frame (which holds a reference of the connection
     * while it works). conn.c's: conn_link_open, conn_link_read_end (may be called from one of the kind's), conn_link_down. For senders:
     * sender_link_fill and sender_link_written (core/sender.h). */
    struct link_owner link;

    const char *listener;             /* "RabbitMQ stream listener": what should be at the other end; for texts */
    const char *refused_hint;         /* said behind the text when no address accepted; "" for nothing */
    void (*login)(struct conn *conn); /* TCP is there: starts the log-in, which ends with conn_ready or conn_fail */
    const char *(*awaited)(const struct conn *conn); /* the name of what the log-in waits for */
    void (*heartbeat)(struct conn *conn);            /* sends one */
    /* Gives the broker a new password or token on a connection that is ready; ends with renewal_end (core/secret.h), not from inside, also when the
     * connection is lost. False: memory is out, or it has no room in a frame. */
    bool (*renew)(struct conn *conn, const char *secret, struct renewal *renewal);
    bool (*send_close)(struct conn *conn);     /* an orderly Close, whose answer calls conn_fail; false: it cannot be sent */
    bool (*has_room)(const struct conn *conn); /* whether one more member fits; also asked while it connects */
    bool (*is_used)(const struct conn *conn);  /* by somebody beside its members; may be NULL */
    void (*attach)(struct conn *conn, struct member *); /* gives member->id, a number that is free on the connection */
    /* The member leaves: the number is free again, or rests while the broker may still know it (`held`). */
    void (*detach)(struct conn *conn, struct member *member, bool held);
    void (*down)(struct conn *conn, coney_status status,
                 const char *text);  /* it is over, members are told next: requests end */
    void (*free)(struct conn *conn); /* the client's own fields; may be NULL */
};

struct conn {
    const struct conn_kind *kind;
    struct env *env;
    struct link *link; /* NULL when it is down */
    struct list in_env;
    struct round *round; /* that dials it, or brought it; NULL: none */
    enum purpose purpose;
    enum conn_state state;
    uint32_t refs; /* callbacks and owners on the loop */
    struct node dialled;
    char name[HOST_CAP + 8]; /* "host:port" of `dialled` */

    struct credentials_wait credentials; /* the log-in waits for them */
    struct timer timer;                  /* log-in and closing: a limit; ready: heartbeats */
    uint32_t frame_max;                  /* as agreed; 0 = no limit. Set by the log-in */
    uint32_t heartbeat;                  /* seconds, as agreed; 0 = off. Set by the log-in */
    uint64_t seen_in;                    /* bytes at the last tick */
    uint64_t seen_out;
    uint64_t counted_in; /* of the link's bytes, in the environment's totals */
    uint64_t counted_out;
    unsigned silent_ticks;
    bool paused; /* it is not read: that nothing comes means nothing */

    coney_status close_status; /* the broker's Close said so; what the link says afterwards does not count */
    uint32_t close_code;
    char close_text[256];

    struct list members;
    struct list ready;  /* senders with something to send */
    struct list flying; /* senders whose bytes are being written */
};

/* Opens a connection to `dialled`; it is in env->conns until it is down. The struct is zeroed but for its struct conn. NULL: memory is out. */
struct conn *conn_open(struct env *env, const struct conn_kind *kind, enum purpose purpose, const struct node *dialled);

/* Drops the link and dials once more; for a log-in that finds another node than it wanted. */
void conn_redial(struct conn *conn);

/* The log-in waits for its next step: each has six seconds, since a broker delays a refusal by three and drops who is silent for ten. */
void conn_await(struct conn *conn);

/* The log-in has succeeded, frame_max and heartbeat are agreed: the round is told first, then the members. */
void conn_ready(struct conn *conn);

/* Orderly end: Close, its answer or a short limit, then gone. Harmless when it is under way. */
void conn_close(struct conn *conn);

/* At once: requests, members (member_conn_down) and the round are told, in this order. Drops the connection's own reference. Without effect when it
 * is down. */
void conn_fail(struct conn *conn, coney_status status, uint32_t code, const char *text);

/* Inline: one of each for every frame. conn_free is what the last conn_unref calls. */
void conn_free(struct conn *conn);

static inline struct conn *conn_ref(struct conn *conn)
{
    conn->refs++;
    return conn;
}

static inline void conn_unref(struct conn *conn)
{
    if (__builtin_expect(--conn->refs == 0, 0))
        conn_free(conn);
}

/* A member takes a place on the connection (kind->has_room said that it may), or leaves it. */
void conn_attach(struct conn *conn, struct member *member);
void conn_detach(struct member *member, bool held);

/* Somebody who used it has left: a connection that is ready and that nobody uses is kept for the next who asks, if it is the only one; otherwise it is
 * closed. */
void conn_let_go(struct conn *conn);

/* A member has received as much as it can hold: the connection is read no further until it is let go on. Heartbeats still go out, and the peer's
 * silence does not count. */
void conn_pause_reading(struct conn *conn, bool pause);

/* A sender's `ready` has something to send. */
void conn_want_write(struct conn *conn, struct list *sender_ready);

/* For conn_kind.link. */
void conn_link_open(void *ctx);
void conn_link_read_end(void *ctx);
void conn_link_down(void *ctx, coney_status status, const char *text);

/* What a port of another kind sends first: "AMQP", "HTTP", "SSH", "TLS"; NULL when it is none of them, or too short to say. */
const char *conn_stranger(const uint8_t *at, size_t have);

#endif
