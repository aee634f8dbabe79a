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
    AMQP_HEADER_LEAST = 14,  /* payload of a content header: class, weight, body size, flags */
    AMQP_PROPERTIES_AT = 12, /* where in that payload the properties stand, flags first */
    AMQP_UNIT_LEAST = AMQP_HEADER_LEAST + 2 * AMQP_FRAME_BYTES /* around a method's payload, without a body */
};

/* Whether content follows the method, without a look at the codec's table. */
static inline bool amqp_carries_content(uint32_t id)
{
    return id == AMQP_BASIC_DELIVER || id == AMQP_BASIC_PUBLISH || id == AMQP_BASIC_RETURN || id == AMQP_BASIC_GET_OK;
}

/* The bytes from `at` on that belong together: a whole unit when a method with content is followed, on its channel and with
 * nothing between, by its header and all of its body in one frame; else the one frame that starts here. While bytes are
 * missing it is what must be at hand before more can be said: 7 bytes at least, the unit at most. 0: as amqp_frame_size, which
 * it takes the place of. A content header that is out of order or not sound is left to the assembler: the unit then falls into
 * its frames. */
static inline size_t amqp_content_extent(const uint8_t *at, size_t have, uint32_t payload_max, const char **field);

/* The same for whatever is no complete delivery with a body. */
size_t amqp_content_extent_any(const uint8_t *at, size_t have, uint32_t payload_max, const char **field);

/* The size of the delivery with a body that is at hand, if that is what starts here; else 0. The end octet of a frame and the
 * head of the next are eight bytes, `CE type channel size`, which are compared as one number. */
static inline size_t amqp_delivery_extent(const uint8_t *at, size_t have, uint32_t payload_max)
{
    if (have < AMQP_UNIT_LEAST || !are32(at + AMQP_HEAD_BYTES, AMQP_BASIC_DELIVER))
        return 0;
    uint64_t first = load64(at);
    uint32_t mark = (uint32_t)AMQP_END << 24 | (uint32_t)(first >> 40); /* CE type channel */
    size_t method = (uint32_t)(first >> 8);
    size_t left = have - AMQP_UNIT_LEAST;
    if (first >> 56 != AMQP_FRAME_METHOD || method > left)
        return 0;

    const uint8_t *header = at + method + AMQP_FRAME_BYTES;
    uint64_t second = load64(header - 1);
    size_t more = (size_t)(uint32_t)second - AMQP_HEADER_LEAST;
    left -= method;
    if (second >> 32 != mark + (1u << 16) || more > left || !are32(header + 7, AMQP_CLASS_BASIC << 16))
        return 0;

    const uint8_t *body = header + AMQP_HEADER_LEAST + more + AMQP_FRAME_BYTES;
    uint64_t size = load64(header + 11);
    left -= more;
    if (left < AMQP_FRAME_BYTES || load64(body - 1) != ((uint64_t)(mark + (2u << 16)) << 32) + size)
        return 0;
    size_t all = (size_t)(body - at) + (size_t)size + AMQP_FRAME_BYTES;
    bool at_hand = size - 1 < left - AMQP_FRAME_BYTES; /* and not 0: an empty body has no frame */
    return at_hand && at[all - 1] == AMQP_END && all <= payload_max ? all : 0;
}

static inline size_t amqp_content_extent(const uint8_t *at, size_t have, uint32_t payload_max, const char **field)
{
    size_t delivery = amqp_delivery_extent(at, have, payload_max);
    if (__builtin_expect(delivery == 0, 0))
        return amqp_content_extent_any(at, have, payload_max, field);
    *field = NULL;
    return delivery;
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
    if (len < AMQP_UNIT_LEAST + 4)
        return false;
    size_t left = len - AMQP_UNIT_LEAST;
    size_t method = load32(at + 3);
    if (method < 4 || method > left)
        return false;
    out->channel = load16(at + 1);
    out->id = load32(at + 7);
    out->method = coney_bytes_of(at + AMQP_HEAD_BYTES, method);

    at += method + AMQP_FRAME_BYTES;
    left -= method;
    size_t more = (size_t)load32(at + 3) - AMQP_HEADER_LEAST;
    if (more > left)
        return false;
    out->properties = coney_bytes_of(at + AMQP_HEAD_BYTES + AMQP_PROPERTIES_AT, AMQP_HEADER_LEAST - AMQP_PROPERTIES_AT + more);

    at += AMQP_HEADER_LEAST + more + AMQP_FRAME_BYTES;
    left -= more;
    if (left == 0) {
        out->body = coney_bytes_of(at, 0);
        return true;
    }
    out->body = coney_bytes_of(at + AMQP_HEAD_BYTES, left - AMQP_FRAME_BYTES);
    return left >= AMQP_FRAME_BYTES && load32(at + 3) == out->body.len;
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
