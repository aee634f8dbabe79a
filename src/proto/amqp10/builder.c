/* builder.c: nested lists and maps, written front to back into a user's memory.
 *
 * The head of a compound value depends on what comes after it, so room is kept for the longest one, and the content moves
 * back by the difference when it is closed. That costs a move only where the content is small. */
#include "proto/amqp10/value.h"

enum { HEAD = 9 };

static void fail(coney_builder *b, coney_status status)
{
    if (b->status == CONEY_OK)
        b->status = status;
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

void coney_builder_init(coney_builder *builder, void *memory, size_t cap)
{
    memset(builder, 0, sizeof *builder);
    builder->data = memory;
    builder->cap = cap;
}

void coney_builder_begin(coney_builder *builder, coney_value_type type)
{
    coney_builder *b = builder;
    bool second = b->depth == 0 && b->len > 0;
    if ((type != CONEY_VALUE_LIST && type != CONEY_VALUE_MAP) || b->depth == CONEY_VALUE_DEPTH || second)
        fail(b, CONEY_EINVAL);
    if (b->status != CONEY_OK)
        return;
    if (b->depth > 0)
        b->open[b->depth - 1].count++;
    b->open[b->depth].start = b->len;
    b->open[b->depth].count = 0;
    b->open[b->depth].type = (uint32_t)type;
    b->depth++;
    extend(b, HEAD);
}

void coney_builder_add(coney_builder *builder, coney_value value)
{
    coney_builder *b = builder;
    if (b->depth == 0 || amqp10_value_check(&value, (uint8_t)b->depth) != CONEY_OK)
        fail(b, CONEY_EINVAL);
    if (b->status != CONEY_OK)
        return;
    size_t at = b->len;
    b->open[b->depth - 1].count++;
    if (extend(b, amqp10_value_size(&value)))
        amqp10_value_write(b->data + at, &value);
}

/* A key, where a key may stand. */
static void add_key(coney_builder *b, coney_value key)
{
    if (!in_map(b) || b->open[b->depth - 1].count % 2 != 0)
        fail(b, CONEY_EINVAL);
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
    if (b->depth == 0 || (in_map(b) && b->open[b->depth - 1].count % 2 != 0))
        fail(b, CONEY_EINVAL);
    if (b->status != CONEY_OK)
        return;
    b->depth--;
    size_t start = b->open[b->depth].start;
    uint32_t count = b->open[b->depth].count;
    uint8_t type = (uint8_t)b->open[b->depth].type;
    size_t content = b->len - start - HEAD;
    if (content > AMQP10_CONTENT_MAX) {
        fail(b, CONEY_ETOOBIG);
        return;
    }
    size_t head = amqp10_compound_head_size(type, count, content);
    if (writable(b)) {
        memmove(b->data + start + head, b->data + start + HEAD, content);
        amqp10_compound_head_write(b->data + start, type, count, content);
    }
    b->len -= HEAD - head;
}

coney_status coney_builder_finish(coney_builder *builder, coney_value *out)
{
    coney_builder *b = builder;
    *out = coney_value_null();
    if (b->depth > 0 || b->len == 0)
        fail(b, CONEY_EINVAL);
    if (b->status != CONEY_OK)
        return (coney_status)b->status;
    if (!writable(b))
        return CONEY_ETOOBIG;
    struct reader r = reader_of(b->data, b->len);
    amqp10_value_read(&r, 0, "value", out);
    return CONEY_OK;
}
