/* conn.c: what AMQP adds to a connection: its frames, its own methods, blocked and unblocked, and the channels by their number. */
#include "amqp/channel.h"

#include "base/text.h"
#include "core/secret.h"
#include "core/sender.h"

#include <stdlib.h>

/* Writing --------------------------------------------------------------------------------------------------------- */

bool amqp_conn_send(struct amqp_conn *conn, uint16_t channel, const struct amqp_method *method)
{
    uint8_t small[512];
    size_t len = amqp_encode(channel, method, small, sizeof small);
    if (len == 0 || (conn->conn.frame_max != 0 && len > conn->conn.frame_max))
        return false;
    if (len <= sizeof small) {
        link_write(conn->conn.link, small, len);
        return true;
    }
    uint8_t *large = malloc(len);
    if (large == NULL)
        return false;
    if (amqp_encode(channel, method, large, len) == len)
        link_write(conn->conn.link, large, len);
    explicit_bzero(large, len); /* it may be the log-in */
    free(large);
    return true;
}

static void send_bare(struct amqp_conn *conn, uint32_t id)
{
    uint8_t frame[AMQP_BARE_BYTES];
    amqp_bare_write(frame, 0, id);
    link_write(conn->conn.link, frame, sizeof frame);
}

void amqp_conn_pump(struct amqp_conn *conn, struct amqp_pump *pump)
{
    list_append(&conn->pumps, &pump->in_conn);
    link_want_write(conn->conn.link);
}

static void run_pumps(struct amqp_conn *conn)
{
    for (struct list *at = list_take(&conn->pumps); at != NULL; at = list_take(&conn->pumps))
        loop_post(conn->conn.env->loop, &container_of(at, struct amqp_pump, in_conn)->task);
}

static size_t fill(void *ctx, struct iovec *slices, size_t cap)
{
    struct amqp_conn *conn = ctx;
    run_pumps(conn);
    return conn->blocked ? 0 : sender_link_fill(&conn->conn, slices, cap);
}

static void heartbeat(struct conn *conn)
{
    link_write(conn->link, amqp_heartbeat, AMQP_FRAME_BYTES);
}

/* Reading -------------------------------------------------------------------------------------------------------------- */

static void read_or_not(struct amqp_conn *conn)
{
    bool pause = conn->full && conn->awaited == 0;
    if (conn->conn.paused != pause)
        conn_pause_reading(&conn->conn, pause);
}

void amqp_conn_set_full(struct amqp_conn *conn, bool full)
{
    conn->full = full;
    read_or_not(conn);
}

void amqp_conn_await(struct amqp_conn *conn)
{
    conn->awaited++;
    read_or_not(conn);
}

void amqp_conn_await_no_more(struct amqp_conn *conn)
{
    conn->awaited--;
    read_or_not(conn);
}

/* Renewals ---------------------------------------------------------------------------------------------------------- */

static bool renew(struct conn *base, const char *secret, struct renewal *renewal)
{
    struct amqp_conn *conn = amqp_conn_of(base);
    const struct amqp_method update = {
        .id = AMQP_CONNECTION_UPDATE_SECRET,
        .connection_update_secret = {.secret = coney_bytes_str(secret), .reason = CONEY_STR("renewed by the application")}};
    if (!amqp_conn_send(conn, 0, &update))
        return false;
    list_append(&conn->secrets, &renewal->in_conn);
    amqp_conn_await(conn);
    return true;
}

/* The oldest renewal has its answer; false when there is none. */
static bool renewed(struct amqp_conn *conn)
{
    struct list *at = list_take(&conn->secrets);
    if (at == NULL)
        return false;
    amqp_conn_await_no_more(conn);
    renewal_end(container_of(at, struct renewal, in_conn), CONEY_OK, 0, "");
    return true;
}

/* A broker closes the connection on which it refuses a secret: as not allowed. */
static void fail_renewals(struct amqp_conn *conn, coney_status status, const char *text)
{
    uint32_t code = conn->conn.close_code;
    bool refused = code == AMQP_CODE_NOT_ALLOWED || code == AMQP_CODE_ACCESS_REFUSED;
    for (struct list *at = list_take(&conn->secrets); at != NULL; at = list_take(&conn->secrets))
        renewal_end(container_of(at, struct renewal, in_conn), refused ? CONEY_EAUTH : status, code, text);
}

static bool send_close(struct conn *conn)
{
    const struct amqp_method close = {
        .id = AMQP_CONNECTION_CLOSE,
        .close = {.code = AMQP_CODE_REPLY_SUCCESS, .text = CONEY_STR("closed by the application")}};
    amqp_conn_of(conn)->logged_in = false;
    return amqp_conn_send(amqp_conn_of(conn), 0, &close);
}

/* Members, channels and what else keeps it open ----------------------------------------------------------------------- */

bool amqp_conn_has_channel(const struct amqp_conn *conn)
{
    return conn->channel_count - conn->idle_count < conn->channel_max;
}

static bool has_room(const struct conn *conn)
{
    return amqp_conn_has_channel(container_of(conn, const struct amqp_conn, conn));
}

static void attach(struct conn *conn, struct member *member)
{
    (void)conn;
    member->id = 0; /* until its channel is open */
}

static void detach(struct conn *conn, struct member *member, bool held)
{
    (void)conn;
    (void)member; /* its channel was closed by place_leave, and the number rests by itself */
    (void)held;
}

void amqp_conn_pin(struct amqp_conn *conn)
{
    struct env *env = conn->conn.env;
    if (env->idle == &conn->conn)
        env->idle = NULL;
    conn->pins++;
}

void amqp_conn_unpin(struct amqp_conn *conn)
{
    if (--conn->pins == 0)
        conn_let_go(&conn->conn);
}

static bool is_used(const struct conn *conn)
{
    return conn->purpose == PURPOSE_CONTROL || container_of(conn, const struct amqp_conn, conn)->pins > 0;
}

/* Faults of the broker's ---------------------------------------------------------------------------------------------- */

void amqp_conn_protocol_error(struct amqp_conn *conn, const char *field)
{
    char text[TEXT_CAP];
    text_print(text, sizeof text, "%s broke the protocol: %s", conn->conn.name, field);
    conn_fail(&conn->conn, CONEY_EPROTOCOL, 0, text);
}

void amqp_conn_bad_message(struct amqp_conn *conn, uint16_t channel, const char *field)
{
    char text[TEXT_CAP];
    text_print(text, sizeof text, "a message cannot be read: %s, on channel %u", field, (unsigned)channel);
    amqp_conn_protocol_error(conn, text);
}

/* What another service, or another version of the protocol, says first. */
static bool explain_stranger(const struct amqp_conn *conn, const uint8_t *at, size_t have, char *error, size_t error_cap)
{
    const char *stranger = conn->conn.state == CONN_CONNECTING ? conn_stranger(at, have) : NULL;
    if (stranger == NULL)
        return false;
    if (strcmp(stranger, "AMQP") != 0)
        text_print(error, error_cap, "this port speaks %s, not AMQP: the broker's port is %d by default, %d with TLS", stranger,
                   AMQP_PORT, AMQP_TLS_PORT);
    else if (have < AMQP_PROTOCOL_HEADER_BYTES)
        text_print(error, error_cap, "this port speaks another version of AMQP than 0-9-1");
    else
        text_print(error, error_cap,
                   "this port speaks another version of AMQP (%u-%u-%u-%u), not 0-9-1 (0-0-9-1): is it a RabbitMQ node?", at[4],
                   at[5], at[6], at[7]);
    return true;
}

static void explain_frame(const struct amqp_conn *conn, const uint8_t *at, const char *field, char *error, size_t error_cap)
{
    unsigned size = (unsigned)load32(at + 3);
    unsigned channel = load16(at + 1);
    if (strcmp(field, "frame.type") == 0)
        text_print(error, error_cap, "a frame has type %u, which AMQP 0-9-1 does not have", at[0]);
    else if (strcmp(field, "frame.size") == 0)
        text_print(error, error_cap, "a frame's size field says %u bytes; at most %u are accepted (frame_max)", size,
                   (unsigned)conn->payload_max);
    else if (strcmp(field, "frame.end") == 0)
        text_print(error, error_cap, "a frame of %u bytes on channel %u does not end with the octet 0xCE", size, channel);
    else if (strcmp(field, "heartbeat.channel") == 0)
        text_print(error, error_cap, "a heartbeat came on channel %u instead of 0", channel);
    else if (strcmp(field, "heartbeat.size") == 0)
        text_print(error, error_cap, "a heartbeat has a payload of %u bytes", size);
    else
        text_print(error, error_cap, "a frame is not sound: %s", field);
}

static size_t frame_size(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap)
{
    const struct amqp_conn *conn = ctx;
    const char *field;
    size_t size = amqp_content_extent(at, have, conn->payload_max, &field);
    if (__builtin_expect(field == NULL, 1))
        return size;
    if (!explain_stranger(conn, at, have, error, error_cap))
        explain_frame(conn, at, field, error, error_cap);
    return SIZE_MAX;
}

/* The connection's own methods ---------------------------------------------------------------------------------------- */

static void set_blocked(struct amqp_conn *conn, bool blocked, coney_bytes reason)
{
    struct env *env = conn->conn.env;
    if (conn->blocked == blocked)
        return;
    conn->blocked = blocked;
    counter_add(&amqp_of(env)->blocked, blocked ? 1 : (uint64_t)-1);
    coney_event event = {.type = blocked ? CONEY_EVENT_BLOCKED : CONEY_EVENT_UNBLOCKED, .node = conn->conn.name};
    char words[160];
    text_from_wire(words, sizeof words, reason);
    if (blocked)
        env_event(env, &event, "%s takes no publishes for now: %s", conn->conn.name, words);
    else
        env_event(env, &event, "%s takes publishes again", conn->conn.name);
    if (!blocked && conn->conn.state == CONN_READY)
        link_want_write(conn->conn.link);
}

/* The broker ends the connection: answered at once, since it reads nothing more. */
static void server_close(struct amqp_conn *conn, const struct amqp_close *close)
{
    struct conn *base = &conn->conn;
    struct env *env = base->env;
    char reason[AMQP_SHORT_MAX + 1];
    text_from_wire(reason, sizeof reason, close->text);
    send_bare(conn, AMQP_CONNECTION_CLOSE_OK);
    if (base->state == CONN_CONNECTING) {
        amqp_login_refused(conn, close->code, reason);
        return;
    }
    if (base->state != CONN_READY)
        return; /* our own close is out: the broker answers that one, too */
    coney_status status = amqp_status_of_code(close->code);
    base->close_status = status == CONEY_OK || status == CONEY_EBROKER ? CONEY_ELOST : status;
    base->close_code = close->code;
    char text[TEXT_CAP];
    text_print(text, sizeof text, "%s closed the connection: %s (code %u)", base->name, reason, (unsigned)close->code);
    text_print(base->close_text, sizeof base->close_text, "%s", text);
    env_event(
        env,
        &(coney_event){.type = CONEY_EVENT_SERVER_CLOSE, .status = base->close_status, .code = close->code, .node = base->name},
        "%s", text);
    conn_fail(base, base->close_status, close->code, text);
}

static void own_method(struct amqp_conn *conn, const struct amqp_method *method)
{
    char text[TEXT_CAP];
    if (method->id == AMQP_CONNECTION_CLOSE) {
        server_close(conn, &method->close);
    } else if (conn->conn.state == CONN_CONNECTING) {
        amqp_login_method(conn, method);
    } else if (conn->conn.state == CONN_CLOSING) {
        if (method->id == AMQP_CONNECTION_CLOSE_OK)
            conn_fail(&conn->conn, CONEY_ECLOSED, 0, "");
    } else if (method->id == AMQP_CONNECTION_BLOCKED) {
        set_blocked(conn, true, method->connection_blocked.reason);
    } else if (method->id == AMQP_CONNECTION_UNBLOCKED) {
        set_blocked(conn, false, (coney_bytes){0});
    } else if (method->id != AMQP_CONNECTION_UPDATE_SECRET_OK || !renewed(conn)) {
        text_print(text, sizeof text, "%s came on channel 0, where nothing asked for it", amqp_method_name(method->id));
        amqp_conn_protocol_error(conn, text);
    }
}

static void own_frame(struct amqp_conn *conn, const uint8_t *at, size_t len)
{
    struct amqp_frame frame = amqp_frame_of(at);
    if (frame.type == AMQP_FRAME_HEARTBEAT)
        return;
    char text[TEXT_CAP];
    struct amqp_method method;
    const char *field = amqp_is_unit(at, len) ? "content on channel 0" : amqp_decode(frame.payload, &method);
    if (field == NULL) {
        own_method(conn, &method);
        return;
    }
    text_print(text, sizeof text, "a method on channel 0 cannot be read: %s", field);
    amqp_conn_protocol_error(conn, text);
}

/* A frame for a channel that is not open. */
static void no_channel(struct amqp_conn *conn, uint16_t number, const uint8_t *at, size_t len)
{
    char text[TEXT_CAP];
    if (conn->conn.state != CONN_READY)
        return;
    bool method = at[0] == AMQP_FRAME_METHOD && len >= AMQP_BARE_BYTES;
    const char *what = method ? amqp_method_name(load32(at + AMQP_HEAD_BYTES)) : "content";
    text_print(text, sizeof text, "%s came on channel %u, which is not open", what, (unsigned)number);
    amqp_conn_protocol_error(conn, text);
}

static void other_frame(struct amqp_conn *conn, struct block *block, const uint8_t *at, size_t len)
{
    uint16_t number = load16(at + 1);
    conn_ref(&conn->conn);
    if (number < conn->channel_cap && conn->channels[number] != NULL)
        channel_frame(conn->channels[number], block, at, len);
    else if (number == 0)
        own_frame(conn, at, len);
    else
        no_channel(conn, number, at, len);
    conn_unref(&conn->conn);
}

/* A whole message for a channel that takes it as it stands is what comes most. */
static void on_frame(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct amqp_conn *conn = ctx;
    uint16_t number = load16(at + 1);
    const struct channel *channel = number < conn->channel_cap ? conn->channels[number] : NULL;
    bool straight = channel != NULL && channel->direct != NULL && amqp_is_unit(at, len) &&
                    are32(at + AMQP_HEAD_BYTES, AMQP_BASIC_DELIVER) && len <= conn->unit_max;
    if (__builtin_expect(!straight, 0)) {
        other_frame(conn, block, at, len);
        return;
    }
    const char *field = channel->direct(channel->ctx, block, at, len);
    if (__builtin_expect(field != NULL, 0))
        amqp_conn_bad_message(conn, number, field);
}

/* Beginning and end --------------------------------------------------------------------------------------------------- */

static void init(struct conn *base)
{
    struct amqp_conn *conn = amqp_conn_of(base);
    conn->payload_max = amqp_payload_max(AMQP_FRAME_MAX_DEFAULT);
    conn->unit_max = amqp_of(base->env)->max_message;
    conn->number_next = 1;
    list_init(&conn->idle);
    list_init(&conn->pumps);
    list_init(&conn->secrets);
}

static void down(struct conn *base, coney_status status, const char *text)
{
    struct amqp_conn *conn = amqp_conn_of(base);
    if (conn->logged_in || base->env->closing != NULL)
        topology_conn_lost(amqp_of(base->env), conn);
    if (conn->blocked)
        counter_add(&amqp_of(base->env)->blocked, (uint64_t)-1);
    conn->blocked = false;
    run_pumps(conn);
    fail_renewals(conn, status, text);
    for (size_t number = 1; number < conn->channel_cap; number++)
        if (conn->channels[number] != NULL)
            channel_lost(conn->channels[number], status, (uint16_t)base->close_code, text);
}

static void free_conn(struct conn *base)
{
    free(amqp_conn_of(base)->channels);
}

static const char *awaited(const struct conn *conn)
{
    return amqp_method_name(container_of(conn, const struct amqp_conn, conn)->step);
}

const struct conn_kind amqp_conn_kind = {
    .size = sizeof(struct amqp_conn),
    .link =
        {
            .frame_size = frame_size,
            .on_open = conn_link_open,
            .on_frame = on_frame,
            .on_read_end = conn_link_read_end,
            .fill = fill,
            .on_written = sender_link_written,
            .on_down = conn_link_down,
        },
    .listener = "RabbitMQ AMQP listener",
    .refused_hint = "",
    .init = init,
    .login = amqp_login,
    .awaited = awaited,
    .heartbeat = heartbeat,
    .renew = renew,
    .send_close = send_close,
    .has_room = has_room,
    .is_used = is_used,
    .attach = attach,
    .detach = detach,
    .down = down,
    .free = free_conn,
};
