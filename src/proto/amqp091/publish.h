/* publish.h: the frames that carry a message, as they are written.
 *
 * The method frame is made once for each destination, by amqp_encode, and copied; where the properties are the same for every
 * message too, so is the content header. Writers take room that the caller has made sure of: amqp_publish_size. Inline, for the
 * data path. Pure functions of bytes.
 *
 *     at = amqp_publish_begin(at, method, channel, properties_len, body.len);
 *     at = amqp_properties_write(at, &properties);
 *     at = amqp_publish_end(at, channel, body, payload_max);
 */
#ifndef CONEY_PROTO_AMQP091_PUBLISH_H
#define CONEY_PROTO_AMQP091_PUBLISH_H

#include "proto/amqp091/content.h"

/* The bytes of a message on the wire: `method` bytes of method frame, `properties` bytes with their flags, and a body of `body`
 * bytes in frames of at most `payload_max` each. The header frame cannot be split: `properties` must not pass
 * amqp_properties_max. */
static inline size_t amqp_publish_size(size_t method, size_t properties, size_t body, uint32_t payload_max)
{
    size_t frames = body <= payload_max ? body > 0 : (body + payload_max - 1) / payload_max;
    return method + AMQP_PROPERTIES_AT + properties + AMQP_FRAME_BYTES + body + frames * AMQP_FRAME_BYTES;
}

/* The bytes of properties, flags included, that fit a content header frame. */
static inline size_t amqp_properties_max(uint32_t payload_max)
{
    return payload_max - AMQP_PROPERTIES_AT;
}

/* Writes the method frame, under `channel`, and the content header but for the properties: the caller writes `properties`
 * bytes of them, flags first, at the place that is returned. */
static inline uint8_t *amqp_publish_begin(uint8_t *at, coney_bytes method, uint16_t channel, size_t properties, size_t body)
{
    memcpy(at, method.data, method.len);
    store16(at + 1, channel);
    at += method.len;
    at = amqp_frame_head_write(at, AMQP_FRAME_HEADER, channel, (uint32_t)(AMQP_PROPERTIES_AT + properties));
    store32(at, AMQP_CLASS_BASIC << 16);
    store64(at + 4, body);
    return at + AMQP_PROPERTIES_AT;
}

/* Ends the content header at `at`, where its properties end, and writes the body frames. Returns where they end. */
static inline uint8_t *amqp_publish_end(uint8_t *at, uint16_t channel, coney_bytes body, uint32_t payload_max)
{
    const uint8_t *from = body.data;
    *at++ = AMQP_END;
    for (size_t left = body.len; left > 0;) {
        size_t len = left < payload_max ? left : payload_max;
        at = amqp_frame_head_write(at, AMQP_FRAME_BODY, channel, (uint32_t)len);
        memcpy(at, from, len);
        at[len] = AMQP_END;
        at += len + 1;
        from += len;
        left -= len;
    }
    return at;
}

/* All of it, with properties that are encoded already, at least the two bytes of flags. Writes amqp_publish_size bytes. */
static inline uint8_t *amqp_publish_write(uint8_t *at, coney_bytes method, uint16_t channel, coney_bytes properties,
                                          coney_bytes body, uint32_t payload_max)
{
    at = amqp_publish_begin(at, method, channel, properties.len, body.len);
    memcpy(at, properties.data, properties.len);
    return amqp_publish_end(at + properties.len, channel, body, payload_max);
}

/* The start of every message of one channel, one destination and one set of properties: made once, copied from then on. */
struct amqp_publish_head {
    const uint8_t *bytes; /* method frame and content header */
    size_t len;           /* amqp_publish_size of an empty body */
    size_t body_size_at;  /* where in `bytes` the size of the body stands */
};

/* Makes it in `room`, which stays the caller's and holds as much as amqp_publish_size says of an empty body. */
static inline struct amqp_publish_head amqp_publish_head_make(uint8_t *room, coney_bytes method, uint16_t channel,
                                                              coney_bytes properties)
{
    uint8_t *end = amqp_publish_write(room, method, channel, properties, coney_bytes_of(NULL, 0), AMQP_FRAME_MAX_DEFAULT);
    return (struct amqp_publish_head){
        .bytes = room, .len = (size_t)(end - room), .body_size_at = method.len + AMQP_HEAD_BYTES + 4};
}

/* Writes head->len bytes and the body frames: what amqp_publish_write would write. */
static inline uint8_t *amqp_publish_after_head(uint8_t *at, const struct amqp_publish_head *head, uint16_t channel,
                                               coney_bytes body, uint32_t payload_max)
{
    memcpy(at, head->bytes, head->len);
    store64(at + head->body_size_at, body.len);
    return amqp_publish_end(at + head->len - 1, channel, body, payload_max);
}

#endif
