/* sink.c: memory that grows under what an encoder writes. */
#include "codec/sink.h"

#include <stdlib.h>

enum { SINK_FIRST = 512 };

uint8_t *coney_sink_reserve(coney_sink *sink, size_t len)
{
    if (sink->failed != 0)
        return NULL;
    if (sink->cap - sink->len >= len && sink->data != NULL)
        return sink->data + sink->len;
    size_t cap = sink->cap == 0 ? SINK_FIRST : 2 * sink->cap;
    if (len > PTRDIFF_MAX / 4) {
        sink->failed = 1;
        return NULL;
    }
    if (cap < sink->len + len)
        cap = sink->len + len;
    uint8_t *data = realloc(sink->data, cap);
    if (data == NULL) {
        sink->failed = 1;
        return NULL;
    }
    sink->data = data;
    sink->cap = cap;
    return data + sink->len;
}

void coney_sink_write(coney_sink *sink, const void *data, size_t len)
{
    sink_bytes(sink, data, len);
}

void coney_sink_free(coney_sink *sink)
{
    free(sink->data);
    *sink = (coney_sink){0};
}
