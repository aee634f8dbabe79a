/* cbor.c: reading CBOR with libcbor's stream decoder, which gives one item at a time and keeps nothing. */
#include "codec/cbor.h"

#include "codec/missing.h"

#ifdef CONEY_HAVE_CBOR

#include "codec/moment.h"

#include <cbor.h>
#include <math.h>

#define SEQUENCE_NAME "CBOR"
#include "codec/sequence.h"

/* Tokens --------------------------------------------------------------------------------------------------------- */

enum token_kind { TOKEN_ITEM, TOKEN_TAG, TOKEN_CHUNKS, TOKEN_BREAK };

#define TAG_NONE UINT64_MAX

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

/* What the decoder refuses: an unknown item, but for the tags 6 to 20, of which not every libcbor has heard. */
static __attribute__((cold)) bool is_refused(struct walk *w, struct token *token)
{
    uint8_t first = *w->source.at;
    if (first < 0xc6 || first > 0xd4)
        return !broken(w, "an unknown item");
    on_tag(token, first & 0x1f);
    w->source.at++;
    return false;
}

/* The next token behind its tags, of which it has the last. */
static inline __attribute__((always_inline)) bool next_token(struct walk *w, struct token *token)
{
    struct source *s = &w->source;
    *token = (struct token){.tag = TAG_NONE};
    do {
        token->kind = TOKEN_ITEM;
        struct cbor_decoder_result result = cbor_stream_decode(s->at, (size_t)(s->end - s->at), &callbacks, token);
        if (__builtin_expect(result.status == CBOR_DECODER_NEDATA, 0))
            return broken(w, "it ends too early");
        if (result.status == CBOR_DECODER_FINISHED)
            s->at += result.read;
        else if (is_refused(w, token))
            return false;
    } while (token->kind == TOKEN_TAG);
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
    if (token.kind == TOKEN_BREAK && token.tag == TAG_NONE)
        return false;
    bool fits = token.kind == TOKEN_ITEM && token.item.type == type && token.tag == TAG_NONE;
    return fits || broken(w, "a piece of another type");
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

static inline bool next_item(struct walk *w, struct item *item)
{
    struct token token;
    if (!next_token(w, &token))
        return false;
    if (token.kind == TOKEN_BREAK)
        return broken(w, "an end of what has not begun");
    *item = token.item;
    if (token.kind == TOKEN_CHUNKS && !join_chunks(w, item))
        return false;
    return token.tag > 1 || read_time(w, token.tag, item);
}

static bool next_head(struct walk *w, struct item *item)
{
    struct token token;
    coney_bytes chunk;
    if (!next_token(w, &token))
        return false;
    if (token.kind == TOKEN_BREAK)
        return broken(w, "an end of what has not begun");
    *item = token.item;
    if (token.kind == TOKEN_CHUNKS)
        while (next_chunk(w, item->type, &chunk))
            ;
    return w->bind.status == CONEY_OK;
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

/* ---------------------------------------------------------------------------------------------------------------- */

coney_status codec_cbor_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                               coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    return sequence_decode(body, type, out, arena, fault);
}

bool codec_cbor_is_item(coney_bytes bytes, uint32_t depth)
{
    return sequence_is_item(bytes, depth);
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
