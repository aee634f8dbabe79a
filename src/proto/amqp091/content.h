/* content.h: the frames that carry a message, as they are received.
 *
 * A message is a method frame (publish, deliver, return, get-ok), a content header frame, and body frames up to its size. A
 * *unit* is that in its canonical form: the three frames behind each other, with one body frame, or none for an empty body.
 * Deliveries that fit one body frame arrive as units and are handed on in place; any other split is put together by
 * assembler.h. Inline, for the data path. Pure functions of bytes; any thread.
 *
 *     size = amqp_content_extent(at, have, payload_max, &field);
 *     if (field != NULL) the peer sent no frame
 *     else if (size == 0 || size > have) wait for more bytes
 *     else if (amqp_is_unit(at, size)) a message: amqp_unit_read
 *     else one frame: amqp_frame_of
 */
#ifndef CONEY_PROTO_AMQP091_CONTENT_H
#define CONEY_PROTO_AMQP091_CONTENT_H

#include "proto/amqp091/codec.h"

enum {
    AMQP_HEADER_LEAST = 14, /* payload of a content header: class, weight, body size, flags */
    AMQP_PROPERTIES_AT = 12 /* where in that payload the properties stand, flags first */
};

/* Whether content follows the method, without a look at the codec's table. */
static inline bool amqp_carries_content(uint32_t id)
{
    return id == AMQP_BASIC_DELIVER || id == AMQP_BASIC_PUBLISH || id == AMQP_BASIC_RETURN || id == AMQP_BASIC_GET_OK;
}

/* Whether the frame at `at` is of this type, on the channel of the frame at `first`. */
static inline bool amqp_same_channel(const uint8_t *at, uint8_t type, const uint8_t *first)
{
    return at[0] == type && at[1] == first[1] && at[2] == first[2];
}

/* The bytes from `at` on that belong together: a whole unit when a method with content is followed, on its channel and with
 * nothing between, by its header and all of its body in one frame; else the one frame that starts here. While bytes are
 * missing it is what must be at hand before more can be said: 7 bytes at least, the unit at most. 0: as amqp_frame_size, which
 * it takes the place of. A content header that is out of order or not sound is left to the assembler: the unit then falls into
 * its frames. */
static inline size_t amqp_content_extent(const uint8_t *at, size_t have, uint32_t payload_max, const char **field)
{
    size_t method = amqp_frame_size(at, have, payload_max, field);
    if (method < AMQP_BARE_BYTES || have < method || at[0] != AMQP_FRAME_METHOD || !amqp_carries_content(load32(at + 7)))
        return method;
    if (have < method + AMQP_HEAD_BYTES)
        return method + AMQP_HEAD_BYTES;

    const uint8_t *header = at + method;
    uint32_t header_size = load32(header + 3);
    size_t body_at = method + header_size + AMQP_FRAME_BYTES;
    if (!amqp_same_channel(header, AMQP_FRAME_HEADER, at) || header_size < AMQP_HEADER_LEAST || header_size > payload_max)
        return method;
    if (have < body_at)
        return body_at;
    uint64_t body_size = load64(header + 11);
    bool sound = at[body_at - 1] == AMQP_END && are32(header + 7, AMQP_CLASS_BASIC << 16);
    if (!sound || body_size > payload_max)
        return method;
    if (body_size == 0)
        return body_at;

    if (have < body_at + AMQP_HEAD_BYTES)
        return body_at + AMQP_HEAD_BYTES;
    const uint8_t *body = at + body_at;
    size_t all = body_at + (size_t)body_size + AMQP_FRAME_BYTES;
    if (!amqp_same_channel(body, AMQP_FRAME_BODY, at) || load32(body + 3) != body_size)
        return method;
    return have < all || at[all - 1] == AMQP_END ? all : method;
}

/* Whether `len` bytes, as amqp_content_extent measured them, are a unit and no single frame. */
static inline bool amqp_is_unit(const uint8_t *at, size_t len)
{
    return (size_t)load32(at + 3) + AMQP_FRAME_BYTES < len;
}

/* A message in place. All views point into the unit. */
struct amqp_unit {
    uint16_t channel;
    uint32_t id;            /* the method that carries it */
    coney_bytes method;     /* its payload, for amqp_decode or amqp_deliver_read */
    coney_bytes properties; /* for amqp_properties_read */
    coney_bytes body;
};

/* Reads a unit. Never reads past `len`; false, and *out not complete, when the bytes are no unit. What amqp_content_extent
 * measured and what an assembler made always is one. */
static inline bool amqp_unit_read(const uint8_t *at, size_t len, struct amqp_unit *out)
{
    if (len < AMQP_BARE_BYTES)
        return false;
    out->channel = load16(at + 1);
    out->id = load32(at + 7);
    out->method = coney_bytes_of(at + AMQP_HEAD_BYTES, load32(at + 3));
    size_t header = out->method.len + AMQP_FRAME_BYTES;
    if (out->method.len < 4 || len < header + AMQP_HEADER_LEAST + AMQP_FRAME_BYTES)
        return false;

    at += header;
    len -= header;
    size_t size = load32(at + 3);
    out->properties = coney_bytes_of(at + AMQP_HEAD_BYTES + AMQP_PROPERTIES_AT, size - AMQP_PROPERTIES_AT);
    out->body = coney_bytes_of(NULL, 0);
    if (size < AMQP_HEADER_LEAST || len < size + AMQP_FRAME_BYTES)
        return false;

    at += size + AMQP_FRAME_BYTES;
    len -= size + AMQP_FRAME_BYTES;
    if (len == 0)
        return true;
    if (len < AMQP_FRAME_BYTES)
        return false;
    out->body = coney_bytes_of(at + AMQP_HEAD_BYTES, load32(at + 3));
    return len == out->body.len + AMQP_FRAME_BYTES;
}

/* Reads the payload of basic.deliver, as amqp_decode does. NULL, or the name of the field that is wrong. */
static inline const char *amqp_deliver_read(coney_bytes method, struct amqp_basic_deliver *out)
{
    const uint8_t *at = method.data;
    size_t left = method.len;
    if (left < 5 || left - 5 < at[4])
        return "basic_deliver.consumer_tag";
    out->consumer_tag = coney_bytes_of(at + 5, at[4]);
    left -= 5 + out->consumer_tag.len;
    at += 5 + out->consumer_tag.len;

    if (left < 9)
        return left < 8 ? "basic_deliver.delivery_tag" : "basic_deliver.redelivered";
    out->delivery_tag = load64(at);
    out->redelivered = at[8] & 1;
    left -= 9;
    at += 9;

    if (left < 1 || left - 1 < at[0])
        return "basic_deliver.exchange";
    out->exchange = coney_bytes_of(at + 1, at[0]);
    left -= 1 + out->exchange.len;
    at += 1 + out->exchange.len;

    if (left < 1 || left - 1 < at[0])
        return "basic_deliver.routing_key";
    out->routing_key = coney_bytes_of(at + 1, at[0]);
    return left - 1 == at[0] ? NULL : "method.end";
}

#endif
