/* conn.c: what makes core's connection a stream connection: frames, the members' ids, heartbeats, Close. */
#include "stream/conn.h"

#include "base/text.h"
#include "base/time.h"
#include "core/sender.h"

#include <stdlib.h>

#define FRAME_OVERHEAD 64 /* of a Deliver frame around its chunk, generously */

/* Ids ------------------------------------------------------------------------------------------------------------- */

static bool has_id(const struct conn *conn)
{
    return stream_conn_of_const(conn)->ids_used < CONN_IDS;
}

/* Goes round, so that an id rests as long as possible before it is used again. */
static uint8_t take_id(struct stream_conn *conn)
{
    while (conn->id_states[conn->id_next] != ID_FREE)
        conn->id_next = (conn->id_next + 1) % CONN_IDS;
    unsigned id = conn->id_next;
    conn->id_next = (id + 1) % CONN_IDS;
    conn->id_states[id] = ID_TAKEN;
    conn->ids_used++;
    return (uint8_t)id;
}

static void attach(struct conn *any, struct member *member)
{
    struct stream_conn *conn = stream_conn_of(any);
    member->id = take_id(conn);
    conn->by_id[member->id] = member;
}

static void free_id(struct stream_conn *conn, uint8_t id)
{
    if (conn->id_states[id] == ID_FREE)
        return;
    conn->id_states[id] = ID_FREE;
    conn->ids_used--;
}

static void detach(struct conn *any, struct member *member, bool held)
{
    struct stream_conn *conn = stream_conn_of(any);
    conn->by_id[member->id] = NULL;
    if (held)
        conn->id_states[member->id] = ID_HELD;
    else
        free_id(conn, (uint8_t)member->id);
}

struct held_id {
    struct stream_conn *conn;
    answer_fn answer;
    void *ctx;
    uint8_t id;
};

static void id_deleted(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct held_id *held = ctx;
    if (answer != NULL &&
        held->conn->id_states[held->id] == ID_HELD) /* else its member has not left yet, or it is another's already */
        free_id(held->conn, held->id);
    if (held->answer != NULL)
        held->answer(held->ctx, status, answer, text);
    conn_unref(&held->conn->conn);
    free(held);
}

void stream_conn_forget_id(struct conn *conn, uint8_t id, answer_fn answer, void *ctx)
{
    if (conn->state != CONN_READY)
        return;
    struct stream_frame frame = {.key = STREAM_UNSUBSCRIBE, .unsubscribe.subscription = id};
    if (conn->purpose == PURPOSE_PUBLISH)
        frame = (struct stream_frame){.key = STREAM_DELETE_PUBLISHER, .delete_publisher.publisher = id};
    struct held_id *held = malloc(sizeof *held);
    if (held == NULL) {
        if (answer != NULL)
            answer(ctx, CONEY_ENOMEM, NULL, coney_status_text(CONEY_ENOMEM));
        return; /* the id stays held as long as the connection lives */
    }
    *held = (struct held_id){.conn = stream_conn_of(conn_ref(conn)), .answer = answer, .ctx = ctx, .id = id};
    if (!stream_conn_request(conn, &frame, time_after(time_now(), conn->env->settings.call_deadline), id_deleted, held))
        id_deleted(held, CONEY_ENOMEM, NULL, coney_status_text(CONEY_ENOMEM));
}

/* Frames ---------------------------------------------------------------------------------------------------------- */

void stream_conn_send(struct conn *conn, const struct stream_frame *frame)
{
    uint8_t small[512];
    size_t len = stream_encode(frame, small, sizeof small);
    if (len <= sizeof small) {
        link_write(conn->link, small, len);
        return;
    }
    uint8_t *large = malloc(len);
    if (large == NULL) {
        conn_fail(conn, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
        return;
    }
    if (stream_encode(frame, large, len) == len)
        link_write(conn->link, large, len);
    free(large);
}

static size_t frame_size(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap)
{
    struct conn *conn = ctx;
    const char *field;
    uint32_t most = stream_env_of(conn->env)->max_chunk + FRAME_OVERHEAD;
    size_t size = stream_frame_size(at, have, most, &field);
    if (field == NULL)
        return size;
    uint32_t said = load32(at);
    const char *stranger = conn_stranger(at, have);
    if (stranger != NULL)
        text_print(error, error_cap,
                   "this port speaks %s, not the stream protocol: the stream plugin's port is 5552 by default, and the plugin "
                   "rabbitmq_stream must be enabled",
                   stranger);
    else if (said <= most)
        text_print(error, error_cap, "a frame's size field says %u bytes, fewer than any frame has", (unsigned)said);
    else
        text_print(error, error_cap, "a frame's size field says %u bytes; at most %u are accepted (max_chunk)", (unsigned)said,
                   (unsigned)most);
    return SIZE_MAX;
}

/* The connection's kind ------------------------------------------------------------------------------------------- */

static void init(struct conn *any)
{
    struct stream_conn *conn = stream_conn_of(any);
    conn->wanted = any->dialled;
    list_init(&conn->request_order);
}

static const char *awaited(const struct conn *conn)
{
    return stream_key_name(stream_conn_of_const(conn)->step);
}

static void send_heartbeat(struct conn *conn)
{
    struct stream_frame heartbeat = {.key = STREAM_HEARTBEAT, .version = 1};
    stream_conn_send(conn, &heartbeat);
}

static bool send_close(struct conn *conn)
{
    struct stream_frame close = {.key = STREAM_CLOSE,
                                 .close = {.code = STREAM_CODE_OK, .reason = CONEY_STR("closed by the application")}};
    return stream_conn_request(conn, &close, INT64_MAX, NULL, NULL);
}

static void down(struct conn *conn, coney_status status, const char *text)
{
    requests_fail(&stream_conn_of(conn)->request_order, status, text);
}

static void free_parts(struct conn *conn)
{
    map_free(&stream_conn_of(conn)->requests);
}

const struct conn_kind stream_conn_kind = {
    .size = sizeof(struct stream_conn),
    .init = init,
    .link = {.frame_size = frame_size,
             .on_open = conn_link_open,
             .on_frame = stream_conn_frame,
             .on_read_end = conn_link_read_end,
             .fill = sender_link_fill,
             .on_written = sender_link_written,
             .on_down = conn_link_down},
    .listener = "RabbitMQ stream listener",
    .refused_hint = " (the broker's plugin rabbitmq_stream must be enabled, too)",
    .login = stream_login,
    .awaited = awaited,
    .heartbeat = send_heartbeat,
    .renew = stream_renew,
    .send_close = send_close,
    .has_room = has_id,
    .attach = attach,
    .detach = detach,
    .down = down,
    .free = free_parts,
};

struct conn *stream_conn_open(struct coney_stream_env *env, enum purpose purpose, const struct node *wanted,
                              const struct node *dialled)
{
    struct conn *conn = conn_open(&env->env, &stream_conn_kind, purpose, dialled);
    if (conn != NULL)
        stream_conn_of(conn)->wanted = *wanted;
    return conn;
}
