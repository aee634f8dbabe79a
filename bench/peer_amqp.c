/* peer_amqp.c: a broker of AMQP 0-9-1; see peer.h. */
#include "amqp_wire.h"
#include "peer.h"
#include "tags.h"

#include <poll.h>
#include <stdlib.h>

enum {
    CHANNEL_CAP = 2048,
    TAGS_CAP = 1 << 16,
    FRAME_MAX = 131072,
    CONSUMER_TAG_AT = AMQP_FRAME_HEAD + AMQP_ARGUMENTS, /* of a Deliver frame */
};

struct channel {
    uint16_t prefetch;
    uint64_t published; /* since confirm.select, all with their content */
    uint64_t confirmed;
    uint64_t body_left; /* of the publish under way */
};

struct peer {
    struct service service;
    uint64_t count; /* messages of a consumer */
    uint64_t block; /* messages that go out together */
    uint64_t size;  /* bytes of one */
    bool are_orders;
    struct wire *wire;
    struct channel *channels; /* CHANNEL_CAP */
    uint16_t publishing;      /* the channel whose publishes are to be confirmed; 0, which has none, at first */
    /* The consumer, on channel `consuming` (0: there is none). */
    uint16_t consuming;
    uint64_t sent;
    uint8_t *deliveries; /* a block of them, laid out with the consumer's tag */
    size_t stride;
    size_t tag_at; /* where the delivery tag stands in each */
    struct tags tags;
};

/* Delivering ------------------------------------------------------------------------------------------------------- */

static void lay_out_deliveries(struct peer *p, const char *consumer, const char *queue)
{
    size_t room = 1024 + p->size;
    uint8_t *block = must_alloc(p->block * room), *at = block;
    for (uint64_t i = 0; i < p->block; i++) {
        uint8_t *begin = at;
        at = put_short(wire91_begin_method(begin, p->consuming, BASIC_DELIVER), consumer);
        p->tag_at = (size_t)(at - begin);
        at = put_short(put_short(put8(put64(at, 0), 0), ""), queue);
        at = wire91_end(begin, at);
        at = p->are_orders ? put_order(at, p->consuming, p->size) : put_content(at, p->consuming, p->size);
    }
    p->deliveries = block;
    p->stride = (size_t)(at - block) / p->block;
}

static void deliver(struct peer *p)
{
    uint64_t prefetch = p->channels[p->consuming].prefetch;
    uint64_t limit = prefetch == 0 ? TAGS_CAP : prefetch;
    if (limit < p->block)
        die("a prefetch of %u has no room for --frame", (unsigned)limit);
    while (p->sent < p->count && p->tags.open + p->block <= limit) {
        for (uint64_t i = 0; i < p->block; i++)
            put64(p->deliveries + i * p->stride + p->tag_at, p->sent + i + 1);
        tags_open(&p->tags, p->block);
        p->sent += p->block;
        wire_write(p->wire, p->deliveries, p->block * p->stride);
    }
}

/* Text of a short string at `*at`, which moves behind it. Valid until the next call. */
static const char *short_at(const uint8_t **at)
{
    static char text[256];
    memcpy(text, *at + 1, **at);
    text[**at] = '\0';
    *at += 1 + **at;
    return text;
}

/* queue.consume: ticket, queue, consumer tag. */
static void start_consumer(struct peer *p, const struct amqp_frame *frame)
{
    const uint8_t *at = frame->payload + AMQP_ARGUMENTS + 2;
    char queue[256];
    strcpy(queue, short_at(&at));
    const char *consumer = at[0] == 0 ? "peer-made" : short_at(&at);
    if (p->consuming != 0)
        die("a second consumer on a connection");
    p->consuming = frame->channel;
    p->tags = tags_of(TAGS_CAP);
    lay_out_deliveries(p, consumer, queue);
    deliver(p);
}

static void take_ack(struct peer *p, const struct amqp_frame *frame)
{
    const uint8_t *tag = frame->payload + AMQP_ARGUMENTS;
    if (frame->channel != p->consuming || frame->len < AMQP_ARGUMENTS + 9)
        die("an ack on channel %u, where nothing was delivered", frame->channel);
    tags_settle(&p->tags, get64(tag), frame->method != BASIC_REJECT && (tag[8] & AMQP_NACK_MULTIPLE) != 0);
    deliver(p);
}

/* Confirming ------------------------------------------------------------------------------------------------------- */

static uint64_t unconfirmed(const struct peer *p)
{
    return p->channels[p->publishing].published - p->channels[p->publishing].confirmed;
}

static void confirm(struct peer *p)
{
    struct channel *c = &p->channels[p->publishing];
    if (unconfirmed(p) == 0)
        return;
    uint8_t ack[AMQP_ACK_SIZE];
    c->confirmed = c->published;
    put_ack(ack, p->publishing, c->confirmed, true);
    wire_write(p->wire, ack, sizeof ack);
}

static void take_content(struct peer *p, const struct amqp_frame *frame)
{
    struct channel *c = &p->channels[frame->channel];
    if (p->publishing != frame->channel)
        confirm(p);
    p->publishing = frame->channel;
    if (frame->type == AMQP_FRAME_HEADER)
        c->body_left = get64(frame->payload + AMQP_CONTENT_SIZE);
    else if (frame->len > c->body_left)
        die("a body frame of %zu bytes where %zu are left", frame->len, (size_t)c->body_left);
    else
        c->body_left -= frame->len;
    if (c->body_left == 0)
        c->published++;
    if (unconfirmed(p) == p->block)
        confirm(p);
}

/* Answering -------------------------------------------------------------------------------------------------------- */

/* What stands in the -ok of a method, besides its number, which is the method's plus 1. */
enum answer { NOTHING, NUMBER, LONG, TEXT, QUEUE, CONSUMER };

static const struct {
    enum amqp_method method;
    enum answer answer;
} answers[] = {
    {CONNECTION_OPEN, TEXT},    {CONNECTION_CLOSE, NOTHING}, {CONNECTION_UPDATE_SECRET, NOTHING},
    {CHANNEL_OPEN, LONG},       {CHANNEL_CLOSE, NOTHING},    {EXCHANGE_DECLARE, NOTHING},
    {EXCHANGE_DELETE, NOTHING}, {EXCHANGE_BIND, NOTHING},    {QUEUE_DECLARE, QUEUE},
    {QUEUE_BIND, NOTHING},      {QUEUE_PURGE, NUMBER},       {QUEUE_DELETE, NUMBER},
    {QUEUE_UNBIND, NOTHING},    {BASIC_QOS, NOTHING},        {BASIC_CONSUME, CONSUMER},
    {BASIC_CANCEL, TEXT},       {CONFIRM_SELECT, NOTHING},
};

static enum answer answer_to(const struct amqp_frame *frame)
{
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if ((uint32_t)answers[i].method == frame->method)
            return answers[i].answer;
    die("method %u.%u is not known here", frame->method >> 16, frame->method & 0xffff);
}

static void answer(struct peer *p, const struct amqp_frame *frame)
{
    uint8_t data[1024], *at = wire91_begin_method(data, frame->channel, frame->method + 1);
    const uint8_t *arguments = frame->payload + AMQP_ARGUMENTS;
    switch (answer_to(frame)) {
    case NOTHING:
        break;
    case NUMBER:
    case LONG:
        at = put32(at, 0);
        break;
    case TEXT: /* basic.cancel: its consumer tag; connection.open-ok: whatever it is */
        at = put_short(at, short_at(&arguments));
        break;
    case QUEUE:
        arguments += 2;
        at = put32(put32(put_short(at, short_at(&arguments)), 0), 0);
        break;
    case CONSUMER:
        arguments += 2;
        short_at(&arguments);
        at = put_short(at, arguments[0] == 0 ? "peer-made" : short_at(&arguments));
        break;
    }
    at = wire91_end(data, at);
    wire_write(p->wire, data, (size_t)(at - data));
}

static void serve_method(struct peer *p, const struct amqp_frame *frame)
{
    switch (frame->method) {
    case BASIC_PUBLISH:
    case CONNECTION_TUNE_OK:
    case CHANNEL_CLOSE_OK:
        return;
    case BASIC_ACK:
    case BASIC_NACK:
    case BASIC_REJECT:
        take_ack(p, frame);
        return;
    case BASIC_QOS:
        p->channels[frame->channel].prefetch = get16(frame->payload + AMQP_ARGUMENTS + 4);
        break;
    case CHANNEL_OPEN:
        p->channels[frame->channel] = (struct channel){0};
        break;
    }
    answer(p, frame);
    if (frame->method == BASIC_CONSUME)
        start_consumer(p, frame);
}

static void serve_frame(struct peer *p, const struct amqp_frame *frame)
{
    if (frame->channel >= CHANNEL_CAP)
        die("channel %u was never offered", frame->channel);
    if (frame->type == AMQP_FRAME_METHOD)
        serve_method(p, frame);
    else if (frame->type != AMQP_FRAME_HEARTBEAT)
        take_content(p, frame);
}

/* The log-in ------------------------------------------------------------------------------------------------------- */

static uint8_t *put_capability(uint8_t *p, const char *name)
{
    return put8(put8(put_short(p, name), 't'), 1);
}

static void send_start(struct wire *w)
{
    static const char *const capabilities[] = {
        "publisher_confirms",           "basic.nack",       "consumer_cancel_notify", "connection.blocked",
        "authentication_failure_close", "per_consumer_qos", "direct_reply_to",
    };
    uint8_t data[1024], *properties = put8(put8(wire91_begin_method(data, 0, CONNECTION_START), 0), 9);
    uint8_t *at = put8(put_short(put32(properties, 0), "version"), 'S');
    at = put_long(at, "4.3.0", 5);
    uint8_t *table = put8(put_short(at, "capabilities"), 'F');
    at = put32(table, 0);
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++)
        at = put_capability(at, capabilities[i]);
    put32(table, (uint32_t)(at - table - 4));
    put32(properties, (uint32_t)(at - properties - 4));
    at = put_long(put_long(at, "PLAIN", 5), "en_US", 5);
    at = wire91_end(data, at);
    wire_write(w, data, (size_t)(at - data));
}

static void send_tune(struct wire *w)
{
    uint8_t data[64], *at = wire91_begin_method(data, 0, CONNECTION_TUNE);
    at = wire91_end(data, put16(put32(put16(at, CHANNEL_CAP - 1), FRAME_MAX), 0));
    wire_write(w, data, (size_t)(at - data));
}

static void shake_hands(struct wire *w)
{
    while (w->end < 8)
        if (!wire_receive(w))
            die("a client that greets with %zu bytes", w->end);
    w->start = 8;
    send_start(w);
    wire91_expect(w, CONNECTION_START_OK);
    send_tune(w);
}

/* What is not a whole block is confirmed when nothing comes any more. */
static void await_client(struct peer *p)
{
    enum { PATIENCE_MS = 20 };
    struct pollfd ready = {.fd = p->wire->fd, .events = POLLIN};
    if (unconfirmed(p) > 0 && poll(&ready, 1, PATIENCE_MS) == 0)
        confirm(p);
}

static void serve(struct service *service, struct wire *wire)
{
    struct peer *p = (struct peer *)service; /* its first member */
    p->wire = wire;
    shake_hands(wire);
    do {
        struct amqp_frame frame;
        while (wire91_take(wire, &frame))
            serve_frame(p, &frame);
        await_client(p);
    } while (wire_receive(wire));
}

void peer_amqp(const struct options *o)
{
    struct peer p = {.service.serve = serve,
                     .count = o->count,
                     .block = o->frame > 0 ? o->frame : 128,
                     .size = o->size,
                     .are_orders = o->json != 0,
                     .channels = must_alloc(CHANNEL_CAP * sizeof *p.channels)};
    memset(p.channels, 0, CHANNEL_CAP * sizeof *p.channels);
    if (p.count % p.block != 0 || p.block > TAGS_CAP || p.size + AMQP_FRAME_AROUND > FRAME_MAX)
        die("--count must be whole blocks of --frame, and a body must fit a frame");
    serve_connections(&p.service);
}
