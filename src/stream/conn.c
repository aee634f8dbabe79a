/* conn.c: the life of one connection: link, members and their ids, bulk writes, heartbeats, end. */
#include "stream/conn.h"

#include "base/text.h"
#include "base/time.h"
#include "stream/member.h"
#include "stream/producer.h"

#include <stdlib.h>

#define CLOSE_LIMIT (2 * CONEY_SECOND)
#define FRAME_OVERHEAD 64       /* of a Deliver frame around its chunk, generously */
#define WRITE_BYTES (512 << 10) /* gathered for one write at most, whole frames apart: control bytes go first in the next one */
#define SLICES_A_FRAME 4        /* too few free slices than that are not worth a frame */
#define TICKS_A_HEARTBEAT 2
#define SILENT_TICKS 5 /* two and a half heartbeats without a byte */

struct conn *conn_ref(struct conn *conn)
{
    conn->refs++;
    return conn;
}

void conn_unref(struct conn *conn)
{
    if (--conn->refs > 0)
        return;
    env_unref(conn->env);
    map_free(&conn->requests);
    free(conn);
}

/* Ids and members ------------------------------------------------------------------------------------------------- */

bool conn_has_id(const struct conn *conn)
{
    return conn->ids_used < CONN_IDS;
}

/* Goes round, so that an id rests as long as possible before it is used again. */
static uint8_t take_id(struct conn *conn)
{
    while (conn->id_states[conn->id_next] != ID_FREE)
        conn->id_next = (conn->id_next + 1) % CONN_IDS;
    unsigned id = conn->id_next;
    conn->id_next = (id + 1) % CONN_IDS;
    conn->id_states[id] = ID_TAKEN;
    conn->ids_used++;
    return (uint8_t)id;
}

void conn_attach(struct conn *conn, struct member *member)
{
    if (conn->env->idle == conn)
        conn->env->idle = NULL;
    member->conn = conn;
    member->id = take_id(conn);
    conn->by_id[member->id] = member;
    list_append(&conn->members, &member->in_conn);
}

static void free_id(struct conn *conn, uint8_t id)
{
    if (conn->id_states[id] == ID_FREE)
        return;
    conn->id_states[id] = ID_FREE;
    conn->ids_used--;
}

/* One unused connection is kept for the next who asks; a second one is closed. */
static void keep_or_close(struct conn *conn)
{
    struct coney_stream_env *env = conn->env;
    if (env->idle == NULL && conn->state == CONN_READY && env->closing == NULL)
        env->idle = conn;
    else if (env->idle != conn)
        conn_close(conn);
}

void conn_detach(struct member *member, bool held)
{
    struct conn *conn = member->conn;
    if (conn == NULL)
        return;
    member->conn = NULL;
    list_remove(&member->in_conn);
    conn->by_id[member->id] = NULL;
    if (held)
        conn->id_states[member->id] = ID_HELD;
    else
        free_id(conn, member->id);
    if (list_empty(&conn->members) && conn->state < CONN_CLOSING)
        keep_or_close(conn);
}

struct held_id {
    struct conn *conn;
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
    conn_unref(held->conn);
    free(held);
}

void conn_forget_id(struct conn *conn, uint8_t id, answer_fn answer, void *ctx)
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
    *held = (struct held_id){.conn = conn_ref(conn), .answer = answer, .ctx = ctx, .id = id};
    if (!conn_request(conn, &frame, time_after(time_now(), conn->env->settings.call_deadline), id_deleted, held))
        id_deleted(held, CONEY_ENOMEM, NULL, coney_status_text(CONEY_ENOMEM));
}

/* Writing --------------------------------------------------------------------------------------------------------- */

void conn_send(struct conn *conn, const struct stream_frame *frame)
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

void conn_copy_writing(struct conn *conn)
{
    if (conn->state != CONN_DOWN)
        link_copy_fill(conn->link);
}

void conn_want_publish(struct conn *conn, struct list *producer_ready)
{
    if (list_empty(producer_ready))
        list_append(&conn->ready, producer_ready);
    link_want_write(conn->link);
}

/* One frame of each producer that has something to send, in turn. */
static size_t fill(void *ctx, struct iovec *slices, size_t cap)
{
    struct conn *conn = ctx;
    size_t used = 0;
    size_t bytes = 0;
    while (used + SLICES_A_FRAME <= cap && bytes < WRITE_BYTES) {
        struct list *at = list_take(&conn->ready);
        if (at == NULL)
            break;
        size_t taken = producer_fill(at, slices + used, cap - used, &bytes);
        if (taken > 0)
            list_append(&conn->flying, at);
        used += taken;
    }
    return used;
}

static void on_written(void *ctx)
{
    struct conn *conn = ctx;
    if (list_empty(&conn->flying))
        return;
    for (struct list *at = list_take(&conn->flying); at != NULL; at = list_take(&conn->flying)) {
        producer_written(at);
        list_append(&conn->ready, at);
    }
    link_want_write(conn->link);
}

/* Brings the environment's totals up to date. */
static void count_bytes(struct conn *conn)
{
    if (conn->link == NULL)
        return; /* a second dial for which there was no memory */
    uint64_t in = link_bytes_in(conn->link);
    uint64_t out = link_bytes_out(conn->link);
    counter_add(&conn->env->bytes_in, in - conn->counted_in);
    counter_add(&conn->env->bytes_out, out - conn->counted_out);
    conn->counted_in = in;
    conn->counted_out = out;
}

/* Heartbeats ------------------------------------------------------------------------------------------------------ */

static void set_tick(struct conn *conn)
{
    int64_t interval = (int64_t)conn->heartbeat * CONEY_SECOND / TICKS_A_HEARTBEAT;
    loop_timer_set(conn->env->loop, &conn->timer, time_after(time_now(), interval));
}

static void tick(struct conn *conn)
{
    uint64_t in = link_bytes_in(conn->link);
    uint64_t out = link_bytes_out(conn->link);
    conn->silent_ticks = in == conn->seen_in ? conn->silent_ticks + 1 : 0;
    if (conn->silent_ticks >= SILENT_TICKS) {
        char text[TEXT_CAP];
        text_print(text, sizeof text, "%s sent nothing for more than two heartbeats of %u s: the node or the network is down",
                   conn->name, (unsigned)conn->heartbeat);
        conn_fail(conn, CONEY_ELOST, 0, text);
        return;
    }
    if (out == conn->seen_out && !link_is_blocked(conn->link)) {
        struct stream_frame heartbeat = {.key = STREAM_HEARTBEAT, .version = 1};
        conn_send(conn, &heartbeat);
    }
    count_bytes(conn);
    conn->seen_in = in;
    conn->seen_out = link_bytes_out(conn->link);
    set_tick(conn);
}

static void run_timer(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, timer);
    char text[TEXT_CAP];
    switch (conn->state) {
    case CONN_CONNECTING:
        text_print(text, sizeof text,
                   "%s accepted the connection but did not answer %s in time: is it a RabbitMQ stream listener, and alive?",
                   conn->name, stream_key_name(conn->step));
        conn_fail(conn, CONEY_ETIMEDOUT, 0, text);
        break;
    case CONN_READY:
        tick(conn);
        break;
    case CONN_CLOSING:
        conn_fail(conn, CONEY_ECLOSED, 0, "");
        break;
    case CONN_DOWN:
        break;
    }
}

void conn_logged_in(struct conn *conn)
{
    struct coney_stream_env *env = conn->env;
    conn_ref(conn);
    conn->state = CONN_READY;
    loop_timer_unset(env->loop, &conn->timer);
    if (conn->heartbeat > 0)
        set_tick(conn);
    counter_add(&env->connections, 1);
    counter_add(&env->connections_made, 1);
    env_event(env, &(coney_event){.type = CONEY_EVENT_CONNECTED, .node = conn->name}, "connected to %s", conn->name);
    if (conn->purpose == PURPOSE_CONTROL && conn->state == CONN_READY)
        control_ready(conn);
    for (struct list *at = conn->members.next, *next = at->next; at != &conn->members && conn->state == CONN_READY;
         at = next, next = at->next)
        member_conn_ready(container_of(at, struct member, in_conn));
    if (conn->state == CONN_READY && conn->purpose != PURPOSE_CONTROL && list_empty(&conn->members))
        keep_or_close(conn);
    conn_unref(conn);
}

/* The link's callbacks -------------------------------------------------------------------------------------------- */

/* What else listens on ports says so with its first bytes. */
static const struct stranger {
    const char *first;
    size_t len;
    const char *speaks;
} strangers[] = {
    {"AMQP", 4, "AMQP"},
    {"HTTP", 4, "HTTP"},
    {"SSH-", 4, "SSH"},
    {"\x15\x03", 2, "TLS"}, /* its alert at what is no handshake */
};

static const char *stranger_at(const uint8_t *at)
{
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++)
        if (memcmp(at, strangers[i].first, strangers[i].len) == 0)
            return strangers[i].speaks;
    return NULL;
}

static size_t frame_size(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap)
{
    struct conn *conn = ctx;
    const char *field;
    uint32_t most = conn->env->settings.max_chunk + FRAME_OVERHEAD;
    size_t size = stream_frame_size(at, have, most, &field);
    if (field == NULL)
        return size;
    uint32_t said = load32(at);
    const char *stranger = stranger_at(at);
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

static void on_open(void *ctx)
{
    conn_login(ctx);
}

static void on_frame(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct conn *conn = conn_ref(ctx);
    conn_frame(conn, block, at, len);
    conn_unref(conn);
}

static void on_read_end(void *ctx)
{
    count_bytes(ctx);
}

static void on_down(void *ctx, coney_status status, const char *text)
{
    struct conn *conn = ctx;
    char more[TEXT_CAP];
    if (conn->close_status != CONEY_OK) {
        conn_fail(conn, conn->close_status, conn->close_code, conn->close_text);
        return;
    }
    text_print(more, sizeof more, "%s%s", text,
               status == CONEY_ECONNECT ? " (the broker's plugin rabbitmq_stream must be enabled, too)" : "");
    conn_fail(conn, status, 0, more);
}

static const struct link_owner link_callbacks = {
    .frame_size = frame_size,
    .on_open = on_open,
    .on_frame = on_frame,
    .on_read_end = on_read_end,
    .fill = fill,
    .on_written = on_written,
    .on_down = on_down,
};

/* Beginning and end ----------------------------------------------------------------------------------------------- */

static struct link *dial(struct conn *conn)
{
    struct link_options options = {
        .host = conn->dialled.host,
        .port = conn->dialled.port,
        .connect_timeout = conn->env->settings.connect_timeout,
    };
    return link_open(conn->env->loop, conn->env->pool, &options, &link_callbacks, conn);
}

struct conn *conn_open(struct coney_stream_env *env, enum purpose purpose, const struct node *wanted,
                       const struct node *dialled)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return NULL;
    conn->env = env_ref(env);
    conn->refs = 1;
    conn->purpose = purpose;
    conn->wanted = *wanted;
    conn->dialled = *dialled;
    conn->timer.fire = run_timer;
    bool v6 = strchr(dialled->host, ':') != NULL;
    text_print(conn->name, sizeof conn->name, v6 ? "[%s]:%u" : "%s:%u", dialled->host, (unsigned)dialled->port);
    list_init(&conn->in_env);
    list_init(&conn->request_order);
    list_init(&conn->members);
    list_init(&conn->ready);
    list_init(&conn->flying);
    conn->link = dial(conn);
    if (conn->link == NULL) {
        conn_unref(conn);
        return NULL;
    }
    list_append(&env->conns, &conn->in_env);
    return conn;
}

void conn_redial(struct conn *conn)
{
    count_bytes(conn);
    conn->counted_in = conn->counted_out = 0;
    link_close(&conn->link, false);
    loop_timer_unset(conn->env->loop, &conn->timer);
    conn->link = dial(conn);
    if (conn->link == NULL)
        conn_fail(conn, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
}

void conn_close(struct conn *conn)
{
    if (conn->state == CONN_CONNECTING) {
        conn->state = CONN_CLOSING;
        conn_fail(conn, CONEY_ECLOSED, 0, "");
    } else if (conn->state == CONN_READY) {
        conn->state = CONN_CLOSING;
        if (conn->env->idle == conn)
            conn->env->idle = NULL;
        counter_set(&conn->env->connections, counter_get(&conn->env->connections) - 1);
        struct stream_frame close = {.key = STREAM_CLOSE,
                                     .close = {.code = STREAM_CODE_OK, .reason = CONEY_STR("closed by the application")}};
        loop_timer_set(conn->env->loop, &conn->timer, time_after(time_now(), CLOSE_LIMIT));
        if (!conn_request(conn, &close, INT64_MAX, NULL, NULL))
            conn_fail(conn, CONEY_ECLOSED, 0, "");
    }
}

static void tell_end(struct conn *conn, enum conn_state was, coney_status status, uint32_t code, const char *text)
{
    struct coney_stream_env *env = conn->env;
    if (was == CONN_READY) {
        counter_set(&env->connections, counter_get(&env->connections) - 1);
        counter_add(&env->connections_lost, 1);
        env_event(env, &(coney_event){.type = CONEY_EVENT_DISCONNECTED, .status = status, .code = code, .node = conn->name},
                  "lost a connection: %s", text);
    } else if (was == CONN_CONNECTING) {
        env_event(env, &(coney_event){.type = CONEY_EVENT_CONNECT_FAILED, .status = status, .code = code, .node = conn->name},
                  "%s", text);
    }
}

void conn_fail(struct conn *conn, coney_status status, uint32_t code, const char *text)
{
    struct coney_stream_env *env = conn->env;
    enum conn_state was = conn->state;
    if (was == CONN_DOWN)
        return;
    char copy[TEXT_CAP];
    text_print(copy, sizeof copy, "%s", text);
    conn->state = CONN_DOWN;
    list_remove(&conn->in_env);
    loop_timer_unset(env->loop, &conn->timer);
    if (env->idle == conn)
        env->idle = NULL;
    count_bytes(conn);
    link_close(&conn->link, true);
    tell_end(conn, was, status, code, copy);
    requests_fail(&conn->request_order, status, copy);
    while (!list_empty(&conn->members)) {
        struct member *member = container_of(conn->members.next, struct member, in_conn);
        conn_detach(member, false);
        member_conn_down(member, status, code, copy);
    }
    if (conn->purpose == PURPOSE_CONTROL)
        control_down(conn, status, code, copy);
    env_went_on(env);
    conn_unref(conn);
}
