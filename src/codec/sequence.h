/* sequence.h: what reading CBOR and MessagePack has in common: the items of a body stand one after another, the head of a list or
 * map before what is in it. A codec's file includes this in place of walk.h, and defines
 *
 *   SEQUENCE_NAME                                   "CBOR", before the inclusion
 *   bool next_item(struct walk *, struct item *)    walk.h's source_take
 *   bool next_head(struct walk *, struct item *)    the same for what nobody wants: nothing is copied or checked
 *   bool source_more(struct walk *, struct item *)  walk.h's
 */
#include "codec/bind.h"

struct source {
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *start;
};

enum { COUNTS_ARE_CLAIMS = 1 };

#include "codec/walk.h"

static bool next_item(struct walk *w, struct item *item);
static bool next_head(struct walk *w, struct item *item);

static bool broken(struct walk *w, const char *what)
{
    return bind_fail(&w->bind, "not " SEQUENCE_NAME ": %s at byte %zu", what, (size_t)(w->source.at - w->source.start));
}

static inline bool source_take(struct walk *w, struct item *item)
{
    return next_item(w, item);
}

static inline bool source_key(struct walk *w, coney_bytes *key)
{
    struct item item;
    if (!next_item(w, &item))
        return false;
    *key = item.bytes;
    return item.type == ITEM_TEXT || bind_fail(&w->bind, "a key that is no text");
}

static inline void source_pass_foreign(struct walk *w, struct item *level, uint64_t lengths)
{
    (void)w, (void)level, (void)lengths;
}

/* Passes over an item in `depth` others; *item is its head. */
static bool pass_item(struct walk *w, uint32_t depth, struct item *item)
{
    struct item inner;
    if (!next_head(w, item))
        return false;
    bool map = item->type == ITEM_MAP;
    if (!map && item->type != ITEM_LIST)
        return true;
    if (depth == BIND_DEPTH)
        return bind_too_deep(&w->bind);
    while (source_more(w, item))
        if (!pass_item(w, depth + 1, &inner) || (map && !pass_item(w, depth + 1, &inner)))
            return false;
    return w->bind.status == CONEY_OK;
}

static inline bool source_pass(struct walk *w)
{
    struct item item;
    return pass_item(w, w->bind.depth, &item);
}

static bool source_raw(struct walk *w, coney_bytes *raw, bool *null)
{
    struct item item;
    const uint8_t *start = w->source.at;
    if (!pass_item(w, w->bind.depth, &item))
        return false;
    *null = item.type == ITEM_NULL;
    if (*null)
        return true;
    *raw = coney_arena_copy(w->bind.arena, coney_bytes_of(start, (size_t)(w->source.at - start)));
    return raw->data != NULL || bind_no_memory(&w->bind);
}

static void sequence_begin(struct walk *w, coney_bytes body, coney_arena *arena, coney_fault *fault)
{
    const uint8_t *start = body.len > 0 ? body.data : (const uint8_t *)"";
    bind_begin(&w->bind, arena, fault, CONEY_ECORRUPT, false);
    w->source = (struct source){.at = start, .end = start + body.len, .start = start};
}

/* The decode of a codec. */
static coney_status sequence_decode(coney_bytes body, const coney_type *type, void *out, coney_arena *arena, coney_fault *fault)
{
    struct walk w;
    sequence_begin(&w, body, arena, fault);
    if (walk_body(&w, type, out) && w.source.at != w.source.end)
        broken(&w, "there is more after the value");
    return w.bind.status;
}

/* Whether the bytes are one item with nothing behind it that may stand in `depth` others. */
static bool sequence_is_item(coney_bytes bytes, uint32_t depth)
{
    struct walk w;
    struct item item;
    sequence_begin(&w, bytes, NULL, NULL);
    return pass_item(&w, depth, &item) && w.source.at == w.source.end;
}
