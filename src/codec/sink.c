/* sink.c: memory that grows under what an encoder writes. */
#include "codec/sink.h"

#include <stdlib.h>

enum { SINK_FIRST = 512 };

static uint8_t *fail(coney_sink *sink)
{
    sink->failed = 1;
    sink->cap = sink->len;
    return NULL;
}

uint8_t *coney_sink_reserve(coney_sink *sink, size_t len)
{
    if (sink->failed != 0)
        return NULL;
    if (sink_has(sink, len) && sink->data != NULL)
        return sink->data + sink->len;
    if (len > PTRDIFF_MAX / 4)
        return fail(sink);
    size_t cap = sink->cap == 0 ? SINK_FIRST : 2 * sink->cap;
    if (cap < sink->len + len)
        cap = sink->len + len;
    uint8_t *data = realloc(sink->data, cap);
    if (data == NULL)
        return fail(sink);
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
