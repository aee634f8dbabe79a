/* content.c: the extent of what starts with any frame, whole or not. */
#include "proto/amqp091/content.h"

/* Whether the frame at `at` is of this type, on the channel of the frame at `first`. */
static bool same_channel(const uint8_t *at, uint8_t type, const uint8_t *first)
{
    return at[0] == type && at[1] == first[1] && at[2] == first[2];
}

size_t amqp_content_extent_any(const uint8_t *at, size_t have, uint32_t payload_max, const char **field)
{
    size_t method = amqp_frame_size(at, have, payload_max, field);
    if (method < AMQP_BARE_BYTES || have < method || at[0] != AMQP_FRAME_METHOD || !amqp_carries_content(load32(at + 7)))
        return method;
    if (have < method + AMQP_HEAD_BYTES)
        return method + AMQP_HEAD_BYTES;

    const uint8_t *header = at + method;
    uint32_t header_size = load32(header + 3);
    size_t body_at = method + header_size + AMQP_FRAME_BYTES;
    if (!same_channel(header, AMQP_FRAME_HEADER, at) || header_size < AMQP_HEADER_LEAST || header_size > payload_max)
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
    if (!same_channel(body, AMQP_FRAME_BODY, at) || load32(body + 3) != body_size)
        return method;
    return have < all || at[all - 1] == AMQP_END ? all : method;
}
