/* sequence_write.h: what writing CBOR and MessagePack has in common: counts come first, and nothing stands between items. A codec's
 * file includes this in place of emit.h. */
#include "codec/bind.h"
#include "codec/sink.h"

enum { MAPS_ARE_COUNTED = 1 };

static bool put_next(struct bind *b, coney_sink *sink, size_t index)
{
    (void)b, (void)sink, (void)index;
    return true;
}

static bool put_list_end(struct bind *b, coney_sink *sink)
{
    (void)b, (void)sink;
    return true;
}

static bool put_key(struct bind *b, coney_sink *sink, coney_bytes key, size_t index)
{
    (void)index;
    return put_text(b, sink, key);
}

static bool put_map_end(struct bind *b, coney_sink *sink)
{
    (void)b, (void)sink;
    return true;
}

static inline bool put_quick(coney_sink *sink, const coney_member *member, const void *value, size_t index)
{
    (void)sink, (void)member, (void)value, (void)index;
    return false;
}

#include "codec/emit.h"
