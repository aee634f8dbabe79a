/* builder.c: nested lists and maps, written front to back into a user's memory.
 *
 * The head of a compound value depends on what comes after it, so room is kept for the longest one, and the content moves
 * back by the difference when it is closed. That costs a move only where the content is small. */
#include "base/value.h"

#include <string.h>

static const struct value_encoding *encoding_of(const coney_builder *b)
{
    return b->encoding;
}

static void fail(coney_builder *b, coney_status status, const char *error)
{
    if (b->status != CONEY_OK)
        return;
    b->status = status;
    b->error = error;
}

/* Counts `len` bytes at the end; true when they may also be written. */
static bool extend(coney_builder *b, size_t len)
{
    b->len += len;
    if (b->len > b->needed)
        b->needed = b->len;
    return b->needed <= b->cap;
}

static bool writable(const coney_builder *b)
{
    return b->needed <= b->cap;
}

static bool in_map(const coney_builder *b)
{
    return b->depth > 0 && b->open[b->depth - 1].type == CONEY_VALUE_MAP;
}

/* Whether the next element of the open map is a key. */
static bool at_key(const coney_builder *b)
{
    return in_map(b) && b->open[b->depth - 1].count % 2 == 0;
}

void value_builder_init(coney_builder *builder, const struct value_encoding *encoding, void *memory, size_t cap)
{
    memset(builder, 0, sizeof *builder);
    builder->encoding = encoding;
    builder->data = memory;
    builder->cap = cap;
}

void coney_builder_begin(coney_builder *builder, coney_value_type type)
{
    coney_builder *b = builder;
    uint8_t outermost = encoding_of(b)->outermost;
    bool misplaced = b->depth == 0 && (b->len > 0 || (outermost != 0 && type != outermost));
    if ((type != CONEY_VALUE_LIST && type != CONEY_VALUE_MAP) || b->depth == CONEY_VALUE_DEPTH || misplaced)
        fail(b, CONEY_EINVAL, coney_value_type_name((uint8_t)type));
    if (b->status != CONEY_OK)
        return;
    if (b->depth > 0)
        b->open[b->depth - 1].count++;
    b->open[b->depth].start = b->len;
    b->open[b->depth].count = 0;
    b->open[b->depth].type = (uint32_t)type;
    b->depth++;
    extend(b, VALUE_HEAD_MOST);
}

void coney_builder_add(coney_builder *builder, coney_value value)
{
    coney_builder *b = builder;
    bool key = at_key(b);
    if (b->depth == 0 || encoding_of(b)->check(&value, (uint8_t)b->depth, key) != CONEY_OK)
        fail(b, CONEY_EINVAL, key ? "key" : coney_value_type_name(value.type));
    if (b->status != CONEY_OK)
        return;
    size_t at = b->len;
    b->open[b->depth - 1].count++;
    if (extend(b, encoding_of(b)->size(&value, key)))
        encoding_of(b)->write(b->data + at, &value, key);
}

/* A key, where a key may stand. */
static void add_key(coney_builder *b, coney_value key)
{
    if (!at_key(b))
        fail(b, CONEY_EINVAL, "key");
    coney_builder_add(b, key);
}

void coney_builder_put(coney_builder *builder, coney_bytes key, coney_value value)
{
    add_key(builder, coney_value_string(key));
    coney_builder_add(builder, value);
}

void coney_builder_put_symbol(coney_builder *builder, coney_bytes key, coney_value value)
{
    add_key(builder, coney_value_symbol(key));
    coney_builder_add(builder, value);
}

void coney_builder_put_begin(coney_builder *builder, coney_bytes key, coney_value_type type)
{
    add_key(builder, coney_value_string(key));
    coney_builder_begin(builder, type);
}

void coney_builder_end(coney_builder *builder)
{
    coney_builder *b = builder;
    if (b->depth == 0 || (in_map(b) && !at_key(b)))
        fail(b, CONEY_EINVAL, NULL);
    if (b->status != CONEY_OK)
        return;
    b->depth--;
    size_t start = b->open[b->depth].start;
    uint32_t count = b->open[b->depth].count;
    uint8_t type = (uint8_t)b->open[b->depth].type;
    size_t content = b->len - start - VALUE_HEAD_MOST;
    if (content > encoding_of(b)->content_max) {
        fail(b, CONEY_ETOOBIG, NULL);
        return;
    }
    size_t head = encoding_of(b)->head_size(type, count, content);
    if (writable(b)) {
        memmove(b->data + start + head, b->data + start + VALUE_HEAD_MOST, content);
        encoding_of(b)->head_write(b->data + start, type, count, content);
    }
    b->len -= VALUE_HEAD_MOST - head;
    b->open[b->depth].start = start + head;
}

coney_status coney_builder_finish(coney_builder *builder, coney_value *out)
{
    coney_builder *b = builder;
    *out = coney_value_null();
    if (b->depth > 0 || b->len == 0)
        fail(b, CONEY_EINVAL, NULL);
    if (b->status != CONEY_OK)
        return (coney_status)b->status;
    if (!writable(b))
        return CONEY_ETOOBIG;
    size_t start = b->open[0].start;
    out->type = (uint8_t)b->open[0].type;
    out->encoding = encoding_of(b)->number;
    out->count = b->open[0].count;
    out->as.bytes = coney_bytes_of(b->data + start, b->len - start);
    return CONEY_OK;
}
