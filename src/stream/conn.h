/* conn.h: one connection of an environment: log in, requests with answers, heartbeats, and the members that share it.
 *
 * A connection serves one purpose. On one for publishing the members are producers and an id is a publisher id; on one for consuming they are
 * consumers and an id is a subscription id. An id is not given out again while the broker may still hold it.
 * Everything here is on the loop.
 */
#ifndef CONEY_STREAM_CONN_H
#define CONEY_STREAM_CONN_H

#include "base/map.h"
#include "net/link.h"
#include "proto/stream/codec.h"
#include "proto/stream/fastpath.h"
#include "stream/env.h"

#define CONN_IDS 255 /* of the 256 that the protocol has */

struct member;

enum purpose {
    PURPOSE_CONTROL,
    PURPOSE_PUBLISH,
    PURPOSE_CONSUME,
};

enum conn_state {
    CONN_CONNECTING, /* TCP, then the log-in */
    CONN_READY,
    CONN_CLOSING, /* our Close is out */
    CONN_DOWN,
};

enum id_state {
    ID_FREE = 0,
    ID_TAKEN,
    ID_HELD, /* its member left; the broker has not said yet that it is free */
};

/* The answer to a request. CONEY_OK: `answer` says OK. Another status with an answer: the broker's code is answer->code. Without one: no answer
 * will come (connection lost, deadline). `text` is a sentence about it. Called once, unless the request was forgotten before. */
typedef void (*answer_fn)(void *ctx, coney_status status, const struct stream_frame *answer, const char *text);

struct conn {
    struct coney_stream_env *env;
    struct link *link;
    struct list in_env;
    enum purpose purpose;
    enum conn_state state;
    uint32_t refs;      /* callbacks and owners on the loop */
    struct node wanted; /* the node as the broker's metadata names it */
    struct node dialled;
    char name[HOST_CAP + 8]; /* "host:port" of `dialled` */
    unsigned dials;          /* a balancer may answer with another node: how often it was tried */

    uint16_t step;      /* log-in: the key whose answer is awaited */
    struct timer timer; /* log-in and closing: a limit; ready: heartbeats */
    uint32_t frame_max;
    uint32_t heartbeat;
    uint64_t seen_in; /* bytes at the last tick */
    uint64_t seen_out;
    uint64_t counted_in; /* of the link's bytes, in the environment's totals */
    uint64_t counted_out;
    unsigned silent_ticks;
    bool has_versions;                      /* the broker is 3.11 or later */
    uint16_t versions[STREAM_KEY_LAST + 1]; /* highest version that it takes, 0 = not listed */
    coney_status close_status;              /* the broker's Close said so */
    uint32_t close_code;
    char close_text[256];

    uint32_t correlation;
    struct map requests;
    struct list request_order;

    struct list members;
    struct member *by_id[CONN_IDS + 1];
    uint8_t id_states[CONN_IDS + 1];
    unsigned ids_used;
    unsigned id_next;
    struct list ready;  /* producers with something to send */
    struct list flying; /* producers whose frame is being written */
};

struct request {
    struct list in_order; /* in a connection's order, or in the environment's control queue */
    struct conn *conn;    /* NULL while it waits for the control connection */
    struct coney_stream_env *env;
    struct timer timer;
    answer_fn answer;
    void *ctx;
    uint32_t correlation;
    uint16_t key;
    size_t len;
    uint8_t frame[];
};

/* Opens a connection; the caller finds it in env->conns and attaches to it. NULL: memory is out. */
struct conn *conn_open(struct coney_stream_env *env, enum purpose purpose, const struct node *wanted,
                       const struct node *dialled);

/* Sends a command that has an answer. `deadline` is on time_now()'s clock. False: memory is out, or the message has no form on the wire;
 * `answer` is not called. The answer never comes from inside. */
bool conn_request(struct conn *conn, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx);

/* The same on the control connection, which is opened when there is none. */
bool control_request(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx);

/* No answer to a request with this ctx will be handed over any more. */
void requests_forget(struct coney_stream_env *env, const void *ctx);

/* For the connection itself: its answers, the control queue, and the end of all in a list. request_answered returns false when the answer is to
 * another command than was asked: no broker does that. */
bool request_answered(struct conn *conn, const struct stream_frame *frame);
bool requests_queue(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx);
void requests_send_queued(struct conn *conn);
void requests_fail(struct list *order, coney_status status, const char *text);

/* Sends a command that has none. */
void conn_send(struct conn *conn, const struct stream_frame *frame);

/* Orderly end: Close, its answer or a short limit, then gone. Harmless when it is under way. */
void conn_close(struct conn *conn);

/* At once: every member is told with conn_down's words and every request is answered. */
void conn_fail(struct conn *conn, coney_status status, uint32_t code, const char *text);

struct conn *conn_ref(struct conn *conn);
void conn_unref(struct conn *conn);

/* Whether one more member fits. */
bool conn_has_id(const struct conn *conn);
void conn_attach(struct conn *conn, struct member *member);

/* The member leaves. `held`: the broker may still know its id, which rests until the broker has answered conn_forget_id. */
void conn_detach(struct member *member, bool held);

/* Tells the broker to forget an id of the connection. When it has answered, the id is free if it rests; `answer` (may be NULL) is told. Without effect
 * unless the connection is ready: then `answer` is not called. */
void conn_forget_id(struct conn *conn, uint8_t id, answer_fn answer, void *ctx);

/* A producer leaves while its frame is being written: the connection goes on with a copy. */
void conn_copy_writing(struct conn *conn);

/* A producer has something to send. */
void conn_want_publish(struct conn *conn, struct list *producer_ready);

/* handshake.c: the log-in. conn_login starts it once TCP is there; conn_logged_in comes back when the connection is ready, conn_redial when another node
 * answered than was wanted. */
void conn_login(struct conn *conn);
void conn_login_frame(struct conn *conn, const struct stream_frame *frame);
void conn_logged_in(struct conn *conn);
void conn_redial(struct conn *conn);

/* frames.c: one frame that arrived. */
void conn_frame(struct conn *conn, struct block *block, const uint8_t *at, size_t len);

/* control.c: opens the control connection if there is none; it became ready, or will not. */
void control_start(struct coney_stream_env *env);
void control_ready(struct conn *conn);
void control_down(struct conn *conn, coney_status status, uint32_t code, const char *text);

/* A broker's code as a status, and the sentence about it: "Create of 'x' on host:port: the broker answered …". */
coney_status status_of_code(uint16_t code);

#endif
