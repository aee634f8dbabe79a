/* frames.c: what arrives on a connection: confirms and chunks to their members, answers to their requests, the rest to the connection. */
#include "base/text.h"
#include "base/time.h"
#include "stream/conn.h"
#include "stream/consumer.h"
#include "stream/locate.h"
#include "stream/producer.h"

static void protocol_error(struct conn *conn, coney_bytes body, const char *field)
{
    char text[TEXT_CAP];
    text_print(text, sizeof text, "%s sent a %s frame of %zu bytes whose field %s is not what the stream protocol allows",
               conn->name, stream_key_name(stream_body_key(body)), body.len, field);
    conn_fail(conn, CONEY_EPROTOCOL, 0, text);
}

static void metadata_update(struct conn *conn, const struct stream_frame *frame)
{
    for (struct list *at = conn->members.next, *next = at->next; at != &conn->members; at = next, next = at->next) {
        struct member *member = container_of(at, struct member, in_conn);
        if (bytes_equal(frame->metadata_update.stream, coney_bytes_str(member->name)))
            stream_gone(member, frame->metadata_update.code);
    }
}

/* The broker asks to end the connection: answered at once, since after some causes it reads nothing more. */
static void server_close(struct conn *conn, const struct stream_frame *frame)
{
    struct env *env = conn->env;
    char reason[160];
    text_from_wire(reason, sizeof reason, frame->close.reason);
    uint16_t code = frame->close.code;
    coney_status status = status_of_code(code);
    conn->close_status = status == CONEY_OK || status == CONEY_EBROKER ? CONEY_ELOST : status;
    conn->close_code = code;
    const char *advice = code == STREAM_CODE_FRAME_TOO_LARGE ? ": offer a larger frame_max, here and in the broker" : "";
    text_print(conn->close_text, sizeof conn->close_text, "%s closed the connection: %s (code %u)%s", conn->name, reason,
               (unsigned)code, advice);
    env_event(env,
              &(coney_event){.type = CONEY_EVENT_SERVER_CLOSE, .status = conn->close_status, .code = code, .node = conn->name},
              "%s", conn->close_text);
    struct stream_frame answer = {
        .key = STREAM_CLOSE, .version = 1, .response = true, .code = STREAM_CODE_OK, .correlation = frame->correlation};
    stream_conn_send(conn, &answer);
    char text[sizeof conn->close_text];
    memcpy(text, conn->close_text, sizeof text);
    conn_fail(conn, conn->close_status, code, text);
}

/* A consumer that is not single active was never asked for: the broker is told that nothing changes. */
static void consumer_update(struct conn *conn, const struct stream_frame *frame)
{
    struct stream_frame answer = {.key = STREAM_CONSUMER_UPDATE,
                                  .version = 1,
                                  .response = true,
                                  .code = STREAM_CODE_OK,
                                  .correlation = frame->correlation,
                                  .consumer_update_answer.offset.type = STREAM_OFFSET_NONE};
    stream_conn_send(conn, &answer);
}

/* A member's number on the connection; NULL: it has left, or there never was one. */
static struct member *member_of(struct conn *conn, enum purpose purpose, uint8_t id)
{
    return conn->purpose == purpose ? stream_conn_of(conn)->by_id[id] : NULL;
}

static void other_frame(struct conn *conn, coney_bytes body)
{
    struct stream_frame frame;
    const char *field = stream_decode(body, STREAM_FROM_SERVER, &frame);
    if (field != NULL) {
        protocol_error(conn, body, field);
        return;
    }
    if (frame.key == STREAM_HEARTBEAT)
        return;
    if (frame.key == STREAM_CLOSE && !frame.response) {
        server_close(conn, &frame);
        return;
    }
    if (conn->state == CONN_CONNECTING) {
        stream_login_frame(stream_conn_of(conn), &frame);
        return;
    }
    if (frame.key == STREAM_CREDIT) {
        struct member *member = member_of(conn, PURPOSE_CONSUME, frame.credit_answer.subscription);
        if (member != NULL && conn->state == CONN_READY)
            consumer_credit_refused(member, frame.code);
    } else if (frame.response) {
        if (frame.key == STREAM_CLOSE && conn->state == CONN_CLOSING)
            conn_fail(conn, CONEY_ECLOSED, 0, "");
        else if (!request_answered(stream_conn_of(conn), &frame))
            protocol_error(conn, body, "frame.correlation");
    } else if (frame.key == STREAM_METADATA_UPDATE) {
        metadata_update(conn, &frame);
    } else if (frame.key == STREAM_CONSUMER_UPDATE) {
        consumer_update(conn, &frame);
    } else if (frame.key == STREAM_PUBLISH_ERROR) {
        struct member *member = member_of(conn, PURPOSE_PUBLISH, frame.publish_error.publisher);
        if (member != NULL)
            producer_refused(member, frame.publish_error.errors);
    } else {
        protocol_error(conn, body, "frame.key");
    }
}

static void frame_arrived(struct conn *conn, struct block *block, const uint8_t *at, size_t len)
{
    coney_bytes body = stream_frame_body(at, len);
    uint16_t key = stream_body_key(body);
    const char *field = NULL;
    struct member *const *by_id = stream_conn_of(conn)->by_id;
    if (key == STREAM_PUBLISH_CONFIRM && conn->purpose == PURPOSE_PUBLISH && conn->state != CONN_CONNECTING) {
        struct stream_publish_confirm confirm;
        field = confirm_read(body, &confirm);
        if (field == NULL && by_id[confirm.publisher] != NULL)
            producer_confirmed(by_id[confirm.publisher], confirm.ids);
    } else if (key == STREAM_DELIVER && conn->purpose == PURPOSE_CONSUME && conn->state != CONN_CONNECTING) {
        struct stream_deliver deliver;
        field = deliver_read(body, &deliver);
        if (field == NULL && by_id[deliver.subscription] != NULL)
            field = consumer_received(by_id[deliver.subscription], block, &deliver);
    } else {
        other_frame(conn, body);
        return;
    }
    if (field != NULL)
        protocol_error(conn, body, field);
}

void stream_conn_frame(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct conn *conn = conn_ref(ctx);
    frame_arrived(conn, block, at, len);
    conn_unref(conn);
}
