/* sink.h: writing to a coney_sink from inside, without a call for what is short. Not thread-safe by itself. */
#ifndef CONEY_CODEC_SINK_H
#define CONEY_CODEC_SINK_H

#include "base/bytes.h"

#include <coney/codec.h>

/* Whether there is room as it is. A sink that failed has none: its cap is its length. */
static inline bool sink_has(const coney_sink *sink, size_t len)
{
    return sink->cap - sink->len >= len;
}

/* coney_sink_reserve. */
static inline uint8_t *sink_room(coney_sink *sink, size_t len)
{
    if (__builtin_expect(!sink_has(sink, len), 0))
        return coney_sink_reserve(sink, len);
    return sink->data + sink->len;
}

/* Copies a text: most are short, and these take no loop and no call. */
static inline void sink_copy(uint8_t *to, const uint8_t *from, size_t len)
{
    uint32_t head, tail;
    if (__builtin_expect(len > COPY_TINY, 0)) {
        memcpy(to, from, len);
    } else if (len >= 8) {
        copy_tiny(to, from, len);
    } else if (len >= 4) {
        memcpy(&head, from, 4);
        memcpy(&tail, from + len - 4, 4);
        memcpy(to, &head, 4);
        memcpy(to + len - 4, &tail, 4);
    } else if (len > 0) {
        to[0] = from[0];
        to[len / 2] = from[len / 2];
        to[len - 1] = from[len - 1];
    }
}

static inline void sink_bytes(coney_sink *sink, const void *data, size_t len)
{
    uint8_t *room = len > 0 ? sink_room(sink, len) : NULL;
    if (room == NULL)
        return;
    sink_copy(room, data, len);
    sink->len += len;
}

static inline void sink_byte(coney_sink *sink, uint8_t byte)
{
    uint8_t *room = sink_room(sink, 1);
    if (room == NULL)
        return;
    *room = byte;
    sink->len++;
}

#endif
