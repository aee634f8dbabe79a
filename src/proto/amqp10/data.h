/* data.h: the message that is one data section and nothing else, which is what most stream entries are.
 *
 * Inline, because the producer's and the consumer's hot paths run through here once a message. Any other shape goes through
 * message.h and body.h of this room. No checks of memory: the caller has made room with amqp10_data_size.
 */
#ifndef CONEY_PROTO_AMQP10_DATA_H
#define CONEY_PROTO_AMQP10_DATA_H

#include "base/bytes.h"

/* The first four bytes of a data section: described, smallulong descriptor 0x75, then binary with a short or a long length. */
#define AMQP10_DATA_SHORT UINT32_C(0x005375a0)
#define AMQP10_DATA_LONG UINT32_C(0x005375b0)

/* Bytes that a message with this body takes. `body_len` is at most UINT32_MAX. */
static inline size_t amqp10_data_size(size_t body_len)
{
    return body_len + (body_len <= UINT8_MAX ? 5 : 8);
}

/* Each writes what stands before a body of this length, the first for one of up to 255 bytes, and returns where the body goes. */
static inline uint8_t *amqp10_data_short_head(uint8_t *at, size_t body_len)
{
    store32(at, AMQP10_DATA_SHORT);
    at[4] = (uint8_t)body_len;
    return at + 5;
}

static inline uint8_t *amqp10_data_long_head(uint8_t *at, size_t body_len)
{
    store32(at, AMQP10_DATA_LONG);
    store32(at + 4, (uint32_t)body_len);
    return at + 8;
}

/* Writes amqp10_data_size(body.len) bytes and returns where they end. */
static inline uint8_t *amqp10_data_write(uint8_t *at, coney_bytes body)
{
    at = body.len <= UINT8_MAX ? amqp10_data_short_head(at, body.len) : amqp10_data_long_head(at, body.len);
    if (body.len > 0)
        memcpy(at, body.data, body.len);
    return at + body.len;
}

/* True when `entry` is exactly one data section in the usual encoding; *body is then a view into it, otherwise unchanged. */
static inline bool amqp10_data_only(coney_bytes entry, coney_bytes *body)
{
    const uint8_t *at = (const uint8_t *)entry.data;
    if (entry.len < 5)
        return false;
    if (__builtin_expect(are32(at, AMQP10_DATA_SHORT) && at[4] == entry.len - 5, 1)) {
        *body = coney_bytes_of(at + 5, entry.len - 5);
        return true;
    }
    if (are32(at, AMQP10_DATA_LONG) && entry.len >= 8 && load32(at + 4) == entry.len - 8) {
        *body = coney_bytes_of(at + 8, entry.len - 8);
        return true;
    }
    return false;
}

#endif
