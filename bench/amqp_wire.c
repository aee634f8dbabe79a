/* amqp_wire.c: see amqp_wire.h. */
#include "amqp_wire.h"

#include "measure.h"
#include "order.h"

/* Laying out ------------------------------------------------------------------------------------------------------- */

uint8_t *wire91_begin(uint8_t *p, uint8_t type, uint16_t channel)
{
    return put32(put16(put8(p, type), channel), 0);
}

uint8_t *wire91_begin_method(uint8_t *p, uint16_t channel, uint32_t method)
{
    return put32(wire91_begin(p, AMQP_FRAME_METHOD, channel), method);
}

uint8_t *wire91_end(uint8_t *begin, uint8_t *p)
{
    put32(begin + 3, (uint32_t)(p - begin - AMQP_FRAME_HEAD));
    return put8(p, AMQP_FRAME_END);
}

uint8_t *put_short(uint8_t *p, const char *text)
{
    size_t len = strlen(text);
    return put_bytes(put8(p, (uint8_t)len), text, len);
}

uint8_t *put_long(uint8_t *p, const void *data, size_t len)
{
    return put_bytes(put32(p, (uint32_t)len), data, len);
}

/* `type` NULL: none. */
static uint8_t *put_content_header(uint8_t *p, uint16_t channel, const char *type, size_t size)
{
    enum { CLASS_BASIC = 60, HAS_CONTENT_TYPE = 0x8000, HAS_DELIVERY_MODE = 0x1000, PERSISTENT = 2 };
    uint8_t *at = put16(put16(wire91_begin(p, AMQP_FRAME_HEADER, channel), CLASS_BASIC), 0);
    at = put16(put64(at, size), type != NULL ? HAS_CONTENT_TYPE | HAS_DELIVERY_MODE : HAS_DELIVERY_MODE);
    if (type != NULL)
        at = put_short(at, type);
    return wire91_end(p, put8(at, PERSISTENT));
}

uint8_t *put_content(uint8_t *p, uint16_t channel, size_t size)
{
    p = put_content_header(p, channel, NULL, size);
    if (size == 0)
        return p;
    uint8_t *at = wire91_begin(p, AMQP_FRAME_BODY, channel);
    memset(at, 'x', size);
    return wire91_end(p, at + size);
}

uint8_t *put_order(uint8_t *p, uint16_t channel, size_t size)
{
    p = put_content_header(p, channel, "application/json", size);
    uint8_t *at = wire91_begin(p, AMQP_FRAME_BODY, channel);
    return wire91_end(p, at + order_json((char *)at, size));
}

uint8_t *put_amqp_publish(uint8_t *p, const char *queue, size_t size)
{
    enum { MANDATORY = 1 };
    uint8_t *at = put16(wire91_begin_method(p, 1, BASIC_PUBLISH), 0);
    at = put8(put_short(put_short(at, ""), queue), MANDATORY);
    return put_content(wire91_end(p, at), 1, size);
}

uint8_t *put_ack(uint8_t *p, uint16_t channel, uint64_t tag, bool multiple)
{
    uint8_t *at = put64(wire91_begin_method(p, channel, BASIC_ACK), tag);
    return wire91_end(p, put8(at, multiple));
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

bool wire91_take(struct wire *w, struct amqp_frame *frame)
{
    size_t have = w->end - w->start;
    if (have < AMQP_FRAME_HEAD)
        return false;
    const uint8_t *head = w->buffer + w->start;
    size_t len = get32(head + 3);
    if (have < AMQP_FRAME_AROUND + len) {
        wire_make_room(w, AMQP_FRAME_AROUND + len);
        return false;
    }
    const uint8_t *payload = head + AMQP_FRAME_HEAD;
    if (payload[len] != AMQP_FRAME_END)
        die("a frame of type %u and %zu bytes has no end", head[0], len);
    bool is_method = head[0] == AMQP_FRAME_METHOD && len >= AMQP_ARGUMENTS;
    *frame = (struct amqp_frame){
        .payload = payload, .len = len, .method = is_method ? get32(payload) : 0, .channel = get16(head + 1), .type = head[0]};
    w->start += AMQP_FRAME_AROUND + len;
    if (w->start == w->end)
        w->start = w->end = 0;
    return true;
}

struct amqp_frame wire91_read(struct wire *w)
{
    struct amqp_frame frame;
    while (!wire91_take(w, &frame)) {
        wire_make_room(w, AMQP_FRAME_AROUND);
        wire_fill(w, 0);
    }
    return frame;
}

struct amqp_frame wire91_expect(struct wire *w, enum amqp_method method)
{
    struct amqp_frame frame = wire91_read(w);
    if (frame.method == (uint32_t)method)
        return frame;
    if ((frame.method == CONNECTION_CLOSE || frame.method == CHANNEL_CLOSE) && frame.len >= 7)
        die("the broker closed with %u: %.*s", get16(frame.payload + AMQP_ARGUMENTS), frame.payload[6],
            (const char *)frame.payload + 7);
    die("a frame of type %u, method %u.%u, where method %u.%u was due", frame.type, frame.method >> 16, frame.method & 0xffff,
        (unsigned)method >> 16, method & 0xffff);
}

/* Requests --------------------------------------------------------------------------------------------------------- */

struct request {
    uint8_t data[1024];
    uint8_t *at;
};

static void request_begin(struct request *r, uint16_t channel, enum amqp_method method)
{
    r->at = wire91_begin_method(r->data, channel, method);
}

static void request_send(struct wire *w, struct request *r)
{
    uint8_t *end = wire91_end(r->data, r->at);
    wire_write(w, r->data, (size_t)(end - r->data));
}

static struct amqp_frame request_call(struct wire *w, struct request *r, enum amqp_method answer)
{
    request_send(w, r);
    return wire91_expect(w, answer);
}

/* PLAIN: 0, user, 0, password. */
static void log_in(struct wire *w, const struct address *a)
{
    struct request r;
    uint8_t plain[sizeof a->user + sizeof a->password + 2];
    size_t user = strlen(a->user), password = strlen(a->password);
    uint8_t *end = put_bytes(put8(put_bytes(put8(plain, 0), a->user, user), 0), a->password, password);
    request_begin(&r, 0, CONNECTION_START_OK);
    r.at = put_short(put32(r.at, 0), "PLAIN");
    r.at = put_short(put_long(r.at, plain, (size_t)(end - plain)), "en_US");
    struct amqp_frame tune = request_call(w, &r, CONNECTION_TUNE);
    if (tune.len < AMQP_ARGUMENTS + 8)
        die("a Tune of %zu bytes", tune.len);
    request_begin(&r, 0, CONNECTION_TUNE_OK);
    r.at = put_bytes(r.at, tune.payload + AMQP_ARGUMENTS, 6); /* channel_max and frame_max as they were offered */
    r.at = put16(r.at, 0);
    request_send(w, &r);
}

struct wire wire91_open(const char *uri)
{
    struct address a = address_of(uri, "5672");
    struct wire w = wire_connect(&a, RECEIVE_BUFFER);
    struct request r;
    wire_write(&w, (const uint8_t *)"AMQP\0\0\11\1", 8);
    wire91_expect(&w, CONNECTION_START);
    log_in(&w, &a);
    request_begin(&r, 0, CONNECTION_OPEN);
    r.at = put8(put_short(put_short(r.at, "/"), ""), 0);
    request_call(&w, &r, CONNECTION_OPEN_OK);
    request_begin(&r, 1, CHANNEL_OPEN);
    r.at = put_short(r.at, "");
    request_call(&w, &r, CHANNEL_OPEN_OK);
    return w;
}

void wire91_close(struct wire *w)
{
    struct request r;
    request_begin(&r, 0, CONNECTION_CLOSE);
    r.at = put32(put_short(put16(r.at, 200), "done"), 0);
    request_send(w, &r);
    while (wire91_read(w).method != CONNECTION_CLOSE_OK)
        continue;
    wire_close(w);
}

void wire91_declare(struct wire *w, const char *queue, const char *type)
{
    enum { DURABLE = 2 };
    struct request r;
    request_begin(&r, 1, QUEUE_DECLARE);
    r.at = put8(put_short(put16(r.at, 0), queue), DURABLE);
    uint8_t *table = r.at;
    r.at = put8(put_short(put32(table, 0), "x-queue-type"), 'S');
    r.at = put_long(r.at, type, strlen(type));
    put32(table, (uint32_t)(r.at - table - 4));
    request_call(w, &r, QUEUE_DECLARE_OK);
}

uint32_t wire91_delete(struct wire *w, const char *queue)
{
    struct request r;
    request_begin(&r, 1, QUEUE_DELETE);
    r.at = put8(put_short(put16(r.at, 0), queue), 0);
    return get32(request_call(w, &r, QUEUE_DELETE_OK).payload + AMQP_ARGUMENTS);
}

void wire91_confirm_select(struct wire *w)
{
    struct request r;
    request_begin(&r, 1, CONFIRM_SELECT);
    r.at = put8(r.at, 0);
    request_call(w, &r, CONFIRM_SELECT_OK);
}

void wire91_consume(struct wire *w, const char *queue, uint16_t prefetch)
{
    struct request r;
    request_begin(&r, 1, BASIC_QOS);
    r.at = put8(put16(put32(r.at, 0), prefetch), 0);
    request_call(w, &r, BASIC_QOS_OK);
    request_begin(&r, 1, BASIC_CONSUME);
    r.at = put_short(put_short(put16(r.at, 0), queue), "c");
    r.at = put32(put8(r.at, 0), 0);
    request_call(w, &r, BASIC_CONSUME_OK);
}
