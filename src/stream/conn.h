/* conn.h: one stream connection of an environment: log in, requests with answers, and the members' ids. It is core's struct conn with the
 * protocol's parts behind it.
 *
 * A connection serves one purpose. On one for publishing the members are producers and an id is a publisher id; on one for consuming they are
 * consumers and an id is a subscription id. An id is not given out again while the broker may still hold it.
 * Everything here is on the loop.
 */
#ifndef CONEY_STREAM_CONN_H
#define CONEY_STREAM_CONN_H

#include "base/map.h"
#include "core/conn.h"
#include "core/member.h"
#include "proto/stream/codec.h"
#include "proto/stream/fastpath.h"
#include "stream/env.h"

#define CONN_IDS 255 /* of the 256 that the protocol has */

enum id_state {
    ID_FREE = 0,
    ID_TAKEN,
    ID_HELD, /* its member left; the broker has not said yet that it is free */
};

/* The answer to a request. CONEY_OK: `answer` says OK. Another status with an answer: the broker's code is answer->code. Without one: no answer
 * will come (connection lost, deadline). `text` is a sentence about it. Called once, unless the request was forgotten before. */
typedef void (*answer_fn)(void *ctx, coney_status status, const struct stream_frame *answer, const char *text);

struct stream_conn {
    struct conn conn;
    struct node wanted; /* the node as the broker's metadata names it */
    unsigned dials;     /* a balancer may answer with another node: how often it was tried */

    uint16_t step;                          /* log-in: the key whose answer is awaited */
    bool has_versions;                      /* the broker is 3.11 or later */
    uint16_t versions[STREAM_KEY_LAST + 1]; /* highest version that it takes, 0 = not listed */

    uint32_t correlation;
    struct map requests;
    struct list request_order;

    struct member *by_id[CONN_IDS + 1];
    uint8_t id_states[CONN_IDS + 1];
    unsigned ids_used;
    unsigned id_next;
};

static inline struct stream_conn *stream_conn_of(struct conn *conn)
{
    return container_of(conn, struct stream_conn, conn);
}

static inline const struct stream_conn *stream_conn_of_const(const struct conn *conn)
{
    return container_of(conn, const struct stream_conn, conn);
}

extern const struct conn_kind stream_conn_kind;

struct request {
    struct list in_order;     /* in a connection's order, or in the environment's control queue */
    struct stream_conn *conn; /* NULL while it waits for the control connection */
    struct coney_stream_env *env;
    struct timer timer;
    answer_fn answer;
    void *ctx;
    uint32_t correlation;
    uint16_t key;
    size_t len;
    uint8_t frame[];
};

/* Opens a connection to `dialled`, which is to be the node `wanted`. NULL: memory is out. */
struct conn *stream_conn_open(struct coney_stream_env *env, enum purpose purpose, const struct node *wanted,
                              const struct node *dialled);

/* Sends a command that has an answer. `deadline` is on time_now()'s clock. False: memory is out, or the message has no form on the wire;
 * `answer` is not called. The answer never comes from inside. */
bool stream_conn_request(struct conn *conn, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx);

/* Sends a command that has none. */
void stream_conn_send(struct conn *conn, const struct stream_frame *frame);

/* Tells the broker to forget an id of the connection. When it has answered, the id is free if it rests; `answer` (may be NULL) is told. Without effect
 * unless the connection is ready: then `answer` is not called. */
void stream_conn_forget_id(struct conn *conn, uint8_t id, answer_fn answer, void *ctx);

/* No answer to a request with this ctx will be handed over any more. */
void requests_forget(struct coney_stream_env *env, const void *ctx);

/* For the connection itself: its answers, the control queue, and the end of all in a list. request_answered returns false when the answer is to
 * another command than was asked: no broker does that. */
bool request_answered(struct stream_conn *conn, const struct stream_frame *frame);
bool requests_queue(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx);
void requests_send_queued(struct conn *control);
void requests_fail(struct list *order, coney_status status, const char *text);

/* handshake.c: the log-in. */
void stream_login(struct conn *conn);
bool stream_renew(struct conn *conn, const char *secret,
                  struct renewal *renewal); /* for conn_kind: SaslAuthenticate once more */
void stream_login_frame(struct stream_conn *conn, const struct stream_frame *frame);

/* frames.c: one frame that arrived; for conn_kind.link. */
void stream_conn_frame(void *ctx, struct block *block, const uint8_t *at, size_t len);

/* control.c: the control connection. control_request is stream_conn_request on it; it is opened when there is none. */
void control_init(struct coney_stream_env *env);
void control_start(struct coney_stream_env *env);
bool control_request(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx);

/* A broker's code as a status, and the sentence about it: "Create of 'x' on host:port: the broker answered …". */
coney_status status_of_code(uint16_t code);

#endif
