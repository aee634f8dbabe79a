/* cbor.c: reading CBOR with libcbor's stream decoder, which gives one item at a time and keeps nothing. */
#include "codec/cbor.h"

#include "codec/missing.h"

#ifdef CONEY_HAVE_CBOR

#include "codec/bind.h"
#include "codec/moment.h"

#include <cbor.h>
#include <math.h>

struct source {
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *start;
};

enum { COUNTS_ARE_CLAIMS = 1 };

#include "codec/walk.h"

/* Tokens --------------------------------------------------------------------------------------------------------- */

enum token_kind { TOKEN_ITEM, TOKEN_TAG, TOKEN_CHUNKS, TOKEN_BREAK };

/* An item's head; chunks are the start of a text or binary in pieces, whose type is the item's. */
struct token {
    enum token_kind kind;
    struct item item;
    uint64_t tag;
};

static void set_number(void *ctx, uint8_t type, uint64_t number)
{
    struct token *token = ctx;
    token->item.type = type;
    token->item.number = number;
}

static void on_uint8(void *ctx, uint8_t number)
{
    set_number(ctx, ITEM_UNSIGNED, number);
}

static void on_uint16(void *ctx, uint16_t number)
{
    set_number(ctx, ITEM_UNSIGNED, number);
}

static void on_uint32(void *ctx, uint32_t number)
{
    set_number(ctx, ITEM_UNSIGNED, number);
}

static void on_uint64(void *ctx, uint64_t number)
{
    set_number(ctx, ITEM_UNSIGNED, number);
}

static void on_negint8(void *ctx, uint8_t number)
{
    set_number(ctx, ITEM_NEGATIVE, number);
}

static void on_negint16(void *ctx, uint16_t number)
{
    set_number(ctx, ITEM_NEGATIVE, number);
}

static void on_negint32(void *ctx, uint32_t number)
{
    set_number(ctx, ITEM_NEGATIVE, number);
}

static void on_negint64(void *ctx, uint64_t number)
{
    set_number(ctx, ITEM_NEGATIVE, number);
}

static void set_bytes(void *ctx, uint8_t type, cbor_data data, size_t len)
{
    struct token *token = ctx;
    token->item.type = type;
    token->item.bytes = coney_bytes_of(data, len);
}

static void on_binary(void *ctx, cbor_data data, size_t len)
{
    set_bytes(ctx, ITEM_BINARY, data, len);
}

static void on_text(void *ctx, cbor_data data, size_t len)
{
    set_bytes(ctx, ITEM_TEXT, data, len);
}

static void set_chunks(void *ctx, uint8_t type)
{
    struct token *token = ctx;
    token->kind = TOKEN_CHUNKS;
    token->item.type = type;
}

static void on_binary_chunks(void *ctx)
{
    set_chunks(ctx, ITEM_BINARY);
}

static void on_text_chunks(void *ctx)
{
    set_chunks(ctx, ITEM_TEXT);
}

static void set_container(void *ctx, uint8_t type, bool open, size_t count)
{
    struct token *token = ctx;
    token->item.type = type;
    token->item.open = open;
    token->item.count = count;
}

static void on_list(void *ctx, size_t count)
{
    set_container(ctx, ITEM_LIST, false, count);
}

static void on_open_list(void *ctx)
{
    set_container(ctx, ITEM_LIST, true, 0);
}

static void on_map(void *ctx, size_t count)
{
    set_container(ctx, ITEM_MAP, false, count);
}

static void on_open_map(void *ctx)
{
    set_container(ctx, ITEM_MAP, true, 0);
}

static void on_tag(void *ctx, uint64_t tag)
{
    struct token *token = ctx;
    token->kind = TOKEN_TAG;
    token->tag = tag;
}

static void on_double(void *ctx, double number)
{
    struct token *token = ctx;
    token->item.type = ITEM_REAL;
    token->item.real = number;
}

static void on_float(void *ctx, float number)
{
    on_double(ctx, (double)number);
}

static void on_null(void *ctx)
{
    struct token *token = ctx;
    token->item.type = ITEM_NULL;
}

static void on_bool(void *ctx, bool boolean)
{
    struct token *token = ctx;
    token->item.type = ITEM_BOOL;
    token->item.boolean = boolean;
}

static void on_break(void *ctx)
{
    struct token *token = ctx;
    token->kind = TOKEN_BREAK;
}

static const struct cbor_callbacks callbacks = {
    .uint8 = on_uint8,
    .uint16 = on_uint16,
    .uint32 = on_uint32,
    .uint64 = on_uint64,
    .negint8 = on_negint8,
    .negint16 = on_negint16,
    .negint32 = on_negint32,
    .negint64 = on_negint64,
    .byte_string = on_binary,
    .byte_string_start = on_binary_chunks,
    .string = on_text,
    .string_start = on_text_chunks,
    .array_start = on_list,
    .indef_array_start = on_open_list,
    .map_start = on_map,
    .indef_map_start = on_open_map,
    .tag = on_tag,
    .float2 = on_float,
    .float4 = on_float,
    .float8 = on_double,
    .undefined = on_null,
    .null = on_null,
    .boolean = on_bool,
    .indef_break = on_break,
};

static bool broken(struct walk *w, const char *what)
{
    return bind_fail(&w->bind, "not CBOR: %s at byte %zu", what, (size_t)(w->source.at - w->source.start));
}

static bool next_token(struct walk *w, struct token *token)
{
    struct source *s = &w->source;
    *token = (struct token){.kind = TOKEN_ITEM};
    struct cbor_decoder_result result = cbor_stream_decode(s->at, (size_t)(s->end - s->at), &callbacks, token);
    if (result.status == CBOR_DECODER_NEDATA)
        return broken(w, "it ends too early");
    if (result.status != CBOR_DECODER_FINISHED)
        return broken(w, "an unknown item");
    s->at += result.read;
    return true;
}

/* Items ---------------------------------------------------------------------------------------------------------- */

/* The next piece of a text or binary; false with no fault: there is none. */
static bool next_chunk(struct walk *w, uint8_t type, coney_bytes *chunk)
{
    struct token token;
    if (!next_token(w, &token))
        return false;
    *chunk = token.item.bytes;
    if (token.kind == TOKEN_BREAK)
        return false;
    return (token.kind == TOKEN_ITEM && token.item.type == type) || broken(w, "a piece of another type");
}

/* Makes one of the pieces of a text or binary: once over them for the size, once to copy. */
static bool join_chunks(struct walk *w, struct item *item)
{
    const uint8_t *first = w->source.at;
    coney_bytes chunk;
    size_t len = 0;
    while (next_chunk(w, item->type, &chunk))
        len += chunk.len;
    uint8_t *joined = w->bind.status == CONEY_OK ? arena_take(w->bind.arena, len) : NULL;
    if (joined == NULL)
        return w->bind.status == CONEY_OK && bind_no_memory(&w->bind);
    item->bytes = coney_bytes_of(joined, len);
    w->source.at = first;
    for (; next_chunk(w, item->type, &chunk); joined += chunk.len)
        memcpy(joined, chunk.data, chunk.len);
    return true;
}

/* Seconds since 1970. */
static bool read_seconds(struct item *item)
{
    double ms;
    switch ((enum item_type)item->type) {
    case ITEM_UNSIGNED:
    case ITEM_NEGATIVE:
        if (item->number > INT64_MAX / 1000 - 1)
            return false;
        item->time = (item->type == ITEM_UNSIGNED ? (int64_t)item->number : -1 - (int64_t)item->number) * 1000;
        return true;
    case ITEM_REAL:
        ms = item->real * 1000;
        if (!(fabs(ms) <= (double)CBOR_TIME_MOST))
            return false;
        item->time = llround(ms);
        return true;
    case ITEM_NULL:
    case ITEM_BOOL:
    case ITEM_DIGITS:
    case ITEM_TEXT:
    case ITEM_BINARY:
    case ITEM_TIME:
    case ITEM_LIST:
    case ITEM_MAP:
    case ITEM_OTHER:
        break;
    }
    return false;
}

static bool read_time(struct walk *w, uint64_t tag, struct item *item)
{
    bool ok = tag == 1 ? read_seconds(item) : item->type == ITEM_TEXT && moment_parse(item->bytes, &item->time);
    item->type = ITEM_TIME;
    return ok || bind_fail(&w->bind, "tag %d on what is no time", (int)tag);
}

static inline bool source_take(struct walk *w, struct item *item)
{
    struct token token;
    uint64_t tag = UINT64_MAX;
    while (next_token(w, &token) && token.kind == TOKEN_TAG)
        tag = token.tag;
    if (w->bind.status != CONEY_OK)
        return false;
    if (token.kind == TOKEN_BREAK)
        return broken(w, "an end of what has not begun");
    *item = token.item;
    if (token.kind == TOKEN_CHUNKS && !join_chunks(w, item))
        return false;
    return tag > 1 || read_time(w, tag, item);
}

static inline bool source_more(struct walk *w, struct item *level)
{
    struct source *s = &w->source;
    if (!level->open)
        return level->count-- > 0;
    if (s->at == s->end)
        return broken(w, "it ends too early");
    if (*s->at != 0xff)
        return true;
    s->at++;
    return false;
}

static inline bool source_key(struct walk *w, coney_bytes *key)
{
    struct item item;
    if (!source_take(w, &item))
        return false;
    *key = item.bytes;
    return item.type == ITEM_TEXT || bind_fail(&w->bind, "a key that is no text");
}

static inline void source_pass_foreign(struct walk *w, struct item *level, uint64_t lengths)
{
    (void)w, (void)level, (void)lengths;
}

static bool pass_chunks(struct walk *w, uint8_t type)
{
    coney_bytes chunk;
    while (next_chunk(w, type, &chunk))
        ;
    return w->bind.status == CONEY_OK;
}

static bool pass_item(struct walk *w, uint32_t depth)
{
    struct token token;
    while (next_token(w, &token) && token.kind == TOKEN_TAG)
        ;
    if (w->bind.status != CONEY_OK)
        return false;
    if (token.kind == TOKEN_BREAK)
        return broken(w, "an end of what has not begun");
    if (token.kind == TOKEN_CHUNKS)
        return pass_chunks(w, token.item.type);
    bool map = token.item.type == ITEM_MAP;
    if (!map && token.item.type != ITEM_LIST)
        return true;
    if (depth == BIND_DEPTH)
        return bind_too_deep(&w->bind);
    while (source_more(w, &token.item))
        if (!pass_item(w, depth + 1) || (map && !pass_item(w, depth + 1)))
            return false;
    return w->bind.status == CONEY_OK;
}

static inline bool source_pass(struct walk *w)
{
    return pass_item(w, w->bind.depth);
}

static bool source_raw(struct walk *w, coney_bytes *raw, bool *null)
{
    const uint8_t *start = w->source.at;
    if (!source_pass(w))
        return false;
    *null = *start == 0xf6 || *start == 0xf7;
    if (*null)
        return true;
    *raw = coney_arena_copy(w->bind.arena, coney_bytes_of(start, (size_t)(w->source.at - start)));
    return raw->data != NULL || bind_no_memory(&w->bind);
}

/* ---------------------------------------------------------------------------------------------------------------- */

static void begin(struct walk *w, coney_bytes body, coney_arena *arena, coney_fault *fault)
{
    const uint8_t *start = body.len > 0 ? body.data : (const uint8_t *)"";
    bind_begin(&w->bind, arena, fault, CONEY_ECORRUPT, false);
    w->source = (struct source){.at = start, .end = start + body.len, .start = start};
}

coney_status codec_cbor_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                               coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    struct walk w;
    begin(&w, body, arena, fault);
    if (walk_body(&w, type, out) && w.source.at != w.source.end)
        broken(&w, "there is more after the value");
    return w.bind.status;
}

bool codec_cbor_is_item(coney_bytes bytes, coney_arena *arena, uint32_t depth)
{
    struct walk w;
    begin(&w, bytes, arena, NULL);
    return pass_item(&w, depth) && w.source.at == w.source.end;
}

static const coney_codec cbor = {
    .name = "cbor", .content_type = "application/cbor", .decode = codec_cbor_decode, .encode = codec_cbor_encode};

#else

static const coney_codec cbor = {
    .name = "cbor", .content_type = "application/cbor", .decode = missing_decode, .encode = missing_encode};

#endif

const coney_codec *coney_cbor(void)
{
    return &cbor;
}
