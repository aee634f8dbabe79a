/* json.c: reading JSON. yyjson parses a copy of the body in the arena, in place, so that texts need no copy of their own; its
 * values stand in the order of the document, and the walk follows them. */
#include "codec/json.h"

#include "codec/missing.h"

#ifdef CONEY_HAVE_JSON

#include "codec/bind.h"
#include "codec/utf8.h"

#include <yyjson.h>

struct source {
    const yyjson_val *at;
    coney_bytes body;
    const char *copy; /* the body's, with the texts in it */
    /* Raw values are cut out of the body: */
    const char *raw_end;        /* where the last one ended */
    const yyjson_val *raw_next; /* and what came next */
};

enum { COUNTS_ARE_CLAIMS = 0 };

#include "codec/walk.h"

/* Parsing -------------------------------------------------------------------------------------------------------- */

static void *parser_malloc(void *arena, size_t size)
{
    return arena_take(arena, size);
}

static void *parser_realloc(void *arena, void *taken, size_t old, size_t size)
{
    return arena_resize(arena, taken, old, size);
}

static void parser_free(void *arena, void *taken)
{
    (void)arena, (void)taken;
}

static const char *flaw_of(coney_bytes body, yyjson_read_code code)
{
    if (code == YYJSON_READ_ERROR_INVALID_PARAMETER || code == YYJSON_READ_ERROR_EMPTY_CONTENT)
        return "it is empty";
    if (code == YYJSON_READ_ERROR_UNEXPECTED_CONTENT)
        return "there is more after the value";
    if (code == YYJSON_READ_ERROR_UNEXPECTED_END)
        return "it ends too early";
    if (code == YYJSON_READ_ERROR_INVALID_NUMBER)
        return "a broken number";
    if (code == YYJSON_READ_ERROR_INVALID_STRING)
        return utf8_valid(body) ? "a broken text" : "a text that is not UTF-8";
    return "an unexpected character";
}

/* A body in the arena, with zeros behind it; NULL: memory is out. */
static inline char *copy_of(coney_arena *arena, coney_bytes body)
{
    char *copy = body.len < SIZE_MAX - YYJSON_PADDING_SIZE ? arena_take(arena, body.len + YYJSON_PADDING_SIZE) : NULL;
    if (copy == NULL)
        return NULL;
    if (body.len > 0)
        memcpy(copy, body.data, body.len);
    memset(copy + body.len, 0, YYJSON_PADDING_SIZE);
    return copy;
}

/* NULL: memory is out, or *flaw says what is wrong. The values stand in the copy, and in the arena. */
static inline yyjson_doc *parse(coney_arena *arena, coney_bytes body, char *copy, const char **flaw, size_t *flaw_at)
{
    yyjson_alc alc = {parser_malloc, parser_realloc, parser_free, arena};
    yyjson_read_err err;
    *flaw = NULL;
    yyjson_doc *doc = yyjson_read_opts(copy, body.len, YYJSON_READ_INSITU | YYJSON_READ_BIGNUM_AS_RAW, &alc, &err);
    if (doc != NULL || err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return doc;
    *flaw = flaw_of(body, err.code);
    *flaw_at = err.pos;
    return NULL;
}

/* Nesting -------------------------------------------------------------------------------------------------------- */

static const yyjson_val *after(const yyjson_val *value)
{
    bool container = (value->tag & YYJSON_TYPE_ARR) == YYJSON_TYPE_ARR;
    return (const yyjson_val *)(const void *)((const uint8_t *)value + (container ? value->uni.ofs : sizeof *value));
}

static bool is_container(const yyjson_val *value)
{
    return (value->tag & YYJSON_TYPE_ARR) == YYJSON_TYPE_ARR;
}

/* Whether a list or map that stands in `depth` others goes too deep. */
static bool is_too_deep(const yyjson_val *container, uint32_t depth)
{
    const yyjson_val *ends[BIND_DEPTH];
    const yyjson_val *end = after(container);
    uint32_t open = 0;
    for (const yyjson_val *value = container; value < end; value++) {
        if (!is_container(value))
            continue;
        while (open > 0 && value >= ends[open - 1])
            open--;
        if (depth + open == BIND_DEPTH)
            return true;
        ends[open++] = after(value);
    }
    return false;
}

/* Items ---------------------------------------------------------------------------------------------------------- */

static inline void take_number(const yyjson_val *value, struct item *item)
{
    uint64_t subtype = value->tag & YYJSON_SUBTYPE_MASK;
    if (subtype == YYJSON_SUBTYPE_REAL) {
        item->type = ITEM_REAL;
        item->real = value->uni.f64;
    } else if (subtype == YYJSON_SUBTYPE_SINT && value->uni.i64 < 0) {
        item->type = ITEM_NEGATIVE;
        item->number = ~value->uni.u64;
    } else {
        item->type = ITEM_UNSIGNED;
        item->number = value->uni.u64;
    }
}

static inline bool source_take(struct walk *w, struct item *item)
{
    const yyjson_val *value = w->source.at++;
    item->open = false;
    switch (value->tag & YYJSON_TYPE_MASK) {
    case YYJSON_TYPE_STR:
        item->type = ITEM_TEXT;
        item->bytes = coney_bytes_of(value->uni.str, value->tag >> YYJSON_TAG_BIT);
        return true;
    case YYJSON_TYPE_NUM:
        take_number(value, item);
        return true;
    case YYJSON_TYPE_BOOL:
        item->type = ITEM_BOOL;
        item->boolean = (value->tag & YYJSON_SUBTYPE_MASK) == YYJSON_SUBTYPE_TRUE;
        return true;
    case YYJSON_TYPE_ARR:
    case YYJSON_TYPE_OBJ:
        item->type = (value->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_ARR ? ITEM_LIST : ITEM_MAP;
        item->count = value->tag >> YYJSON_TAG_BIT;
        return true;
    case YYJSON_TYPE_RAW:
        item->type = ITEM_DIGITS;
        item->bytes = coney_bytes_of(value->uni.str, value->tag >> YYJSON_TAG_BIT);
        return true;
    default:
        item->type = ITEM_NULL;
        return true;
    }
}

static inline bool source_more(struct walk *w, struct item *level)
{
    (void)w;
    return level->count-- > 0;
}

static inline bool source_key(struct walk *w, coney_bytes *key)
{
    const yyjson_val *value = w->source.at++;
    *key = coney_bytes_of(value->uni.str, value->tag >> YYJSON_TAG_BIT);
    return true;
}

static inline bool source_pass(struct walk *w)
{
    const yyjson_val *value = w->source.at;
    if (__builtin_expect(is_container(value), 0) && is_too_deep(value, w->bind.depth))
        return bind_too_deep(&w->bind);
    w->source.at = after(value);
    return true;
}

static inline void source_pass_foreign(struct walk *w, struct item *level, uint64_t lengths)
{
    const yyjson_val *key = w->source.at;
    uint64_t left = level->count;
    for (; left > 0 && (lengths >> (key->tag >> YYJSON_TAG_BIT & 63) & 1) == 0 && !is_container(key + 1); left--)
        key += 2;
    w->source.at = key;
    level->count = left;
}

/* Raw values ----------------------------------------------------------------------------------------------------- */

/* These look at the body after it was parsed: it is JSON, and a value in it is followed by something. */
static const char *skip_space(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')
        at++;
    return at;
}

/* `at` is behind the opening quote; returns what is behind the closing one. */
static const char *skip_text(const char *at)
{
    while (*at != '"')
        at += *at == '\\' ? 2 : 1;
    return at + 1;
}

static const char *skip_container(const char *at)
{
    size_t open = 0;
    do {
        char c = *at++;
        if (c == '"')
            at = skip_text(at);
        open += c == '[' || c == '{';
        open -= c == ']' || c == '}';
    } while (open > 0);
    return at;
}

static const char *skip_value(const char *at)
{
    if (*at == '"')
        return skip_text(at + 1);
    if (*at == '[' || *at == '{')
        return skip_container(at);
    return at + strcspn(at, ",]} \t\r\n");
}

/* Where the next value begins: after the value before it, after its key, or after the bracket of its list. */
static const char *raw_start(const struct source *s)
{
    if (s->raw_next == s->at)
        return skip_space(skip_space(s->raw_end) + 1);
    bool listed = is_container(s->at - 1);
    const yyjson_val *key = s->at - (listed ? 2 : 1);
    const char *body = s->body.data;
    const char *colon = skip_space(skip_text(body + (key->uni.str - s->copy)));
    const char *value = skip_space(colon + 1);
    return listed ? skip_space(value + 1) : value;
}

static bool source_raw(struct walk *w, coney_bytes *raw, bool *null)
{
    struct source *s = &w->source;
    const char *start = raw_start(s);
    s->raw_end = skip_value(start);
    *null = (s->at->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_NULL;
    if (!source_pass(w))
        return false;
    s->raw_next = s->at;
    if (!*null)
        *raw = coney_arena_copy(w->bind.arena, coney_bytes_of(start, (size_t)(s->raw_end - start)));
    return *null || raw->data != NULL || bind_no_memory(&w->bind);
}

/* ---------------------------------------------------------------------------------------------------------------- */

static bool decode(struct walk *w, coney_bytes body, const coney_type *type, void *out)
{
    const char *flaw = NULL;
    size_t at;
    char *copy = copy_of(w->bind.arena, body);
    yyjson_doc *doc = copy != NULL ? parse(w->bind.arena, body, copy, &flaw, &at) : NULL;
    if (flaw != NULL)
        return bind_fail(&w->bind, "not JSON: %s at byte %zu", flaw, at);
    if (doc == NULL)
        return bind_no_memory(&w->bind);
    w->source = (struct source){.at = doc->root, .body = body, .copy = copy};
    return walk_body(w, type, out);
}

coney_status codec_json_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                               coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    struct walk w;
    bind_begin(&w.bind, arena, fault, CONEY_ECORRUPT, true);
    return decode(&w, body, type, out) ? CONEY_OK : w.bind.status;
}

bool codec_json_is_value(struct bind *b, coney_bytes body)
{
    const char *flaw = NULL;
    size_t at;
    char *copy = copy_of(b->arena, body);
    yyjson_doc *doc = copy != NULL ? parse(b->arena, body, copy, &flaw, &at) : NULL;
    if (flaw != NULL)
        return bind_fail(b, "raw, but not JSON: %s at byte %zu", flaw, at);
    if (doc == NULL)
        return bind_no_memory(b);
    return !is_container(doc->root) || !is_too_deep(doc->root, b->depth) || bind_too_deep(b);
}

static const coney_codec json = {
    .name = "json", .content_type = "application/json", .decode = codec_json_decode, .encode = codec_json_encode};

#else

static const coney_codec json = {
    .name = "json", .content_type = "application/json", .decode = missing_decode, .encode = missing_encode};

#endif

const coney_codec *coney_json(void)
{
    return &json;
}
