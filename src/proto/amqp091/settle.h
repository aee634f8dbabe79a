/* settle.h: ack, nack and reject without the general codec, whoever sends them.
 *
 * Each is a frame of 21 bytes: `01 channel 0000000d 003c method tag flags CE`. Inline; pure functions of bytes.
 */
#ifndef CONEY_PROTO_AMQP091_SETTLE_H
#define CONEY_PROTO_AMQP091_SETTLE_H

#include "proto/amqp091/frame.h"

enum {
    AMQP_SETTLE_BYTES = 21,
    AMQP_SETTLE_MULTIPLE = 1, /* ack and nack, bit 0 */
    AMQP_REJECT_REQUEUE = 1,  /* reject, bit 0 */
    AMQP_NACK_REQUEUE = 2     /* nack, bit 1 */
};

/* `id` is AMQP_BASIC_ACK, AMQP_BASIC_NACK or AMQP_BASIC_REJECT. Returns where the frame ends. */
static inline uint8_t *amqp_settle_write(uint8_t *at, uint16_t channel, uint32_t id, uint64_t tag, uint8_t flags)
{
    uint8_t *to = amqp_frame_head_write(at, AMQP_FRAME_METHOD, channel, 13);
    store32(to, id);
    store64(to + 4, tag);
    to[12] = flags;
    to[13] = AMQP_END;
    return at + AMQP_SETTLE_BYTES;
}

static inline uint8_t *amqp_ack_write(uint8_t *at, uint16_t channel, uint64_t tag, bool multiple)
{
    return amqp_settle_write(at, channel, AMQP_BASIC_ACK, tag, multiple ? AMQP_SETTLE_MULTIPLE : 0);
}

static inline uint8_t *amqp_nack_write(uint8_t *at, uint16_t channel, uint64_t tag, bool multiple, bool requeue)
{
    uint8_t flags = (uint8_t)((multiple ? AMQP_SETTLE_MULTIPLE : 0) | (requeue ? AMQP_NACK_REQUEUE : 0));
    return amqp_settle_write(at, channel, AMQP_BASIC_NACK, tag, flags);
}

static inline uint8_t *amqp_reject_write(uint8_t *at, uint16_t channel, uint64_t tag, bool requeue)
{
    return amqp_settle_write(at, channel, AMQP_BASIC_REJECT, tag, requeue ? AMQP_REJECT_REQUEUE : 0);
}

struct amqp_settle {
    uint32_t id; /* AMQP_BASIC_ACK, AMQP_BASIC_NACK or AMQP_BASIC_REJECT */
    uint16_t channel;
    uint8_t flags;
    uint64_t tag;
};

/* Whether the whole frame is an ack, a nack or a reject: only then is *out set. One whose size is not 21 is left to
 * amqp_decode, which says what is wrong with it. */
static inline bool amqp_settle_read(const uint8_t *frame, size_t len, struct amqp_settle *out)
{
    if (len != AMQP_SETTLE_BYTES || frame[0] != AMQP_FRAME_METHOD)
        return false;
    uint32_t id = load32(frame + 7);
    if (id != AMQP_BASIC_ACK && id != AMQP_BASIC_NACK && id != AMQP_BASIC_REJECT)
        return false;
    *out = (struct amqp_settle){.id = id, .channel = load16(frame + 1), .flags = frame[19], .tag = load64(frame + 11)};
    return true;
}

#endif
