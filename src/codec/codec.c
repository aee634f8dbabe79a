/* codec.c: what all codecs have in common: whole values or none, sets, content types. */
#include "base/bytes.h"
#include "base/text.h"
#include "codec/arena.h"
#include "codec/set.h"
#include "codec/type.h"

#include <strings.h>

static coney_status refuse(coney_fault *fault, coney_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static coney_status refuse(coney_fault *fault, coney_status status, const char *format, ...)
{
    if (fault == NULL)
        return status;
    va_list args;
    va_start(args, format);
    fault->path[0] = '\0';
    text_vprint(fault->text, sizeof fault->text, format, args);
    va_end(args);
    return status;
}

static coney_status report(coney_fault *fault, coney_status status, const coney_fault *found)
{
    if (fault != NULL)
        *fault = *found;
    return status;
}

/* Most messages are a few words. */
static inline void zero(void *out, size_t size)
{
    uint8_t *at = out;
    for (; size >= 16; size -= 16, at += 16)
        memset(at, 0, 16);
    for (; size >= 8; size -= 8, at += 8)
        memset(at, 0, 8);
    for (; size > 0; size--)
        *at++ = 0;
}

static coney_status decode_message(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                   coney_arena *arena, coney_fault *fault)
{
    zero(out, type->size);
    coney_status status = codec->decode(codec, body, type, out, arena, fault);
    if (__builtin_expect(status != CONEY_OK, 0))
        memset(out, 0, type->size);
    return status;
}

/* Sets ----------------------------------------------------------------------------------------------------------- */

const coney_member *set_find(const coney_type *set_type, coney_bytes text)
{
    return type_constant(set_type, text);
}

static coney_status decode_variant(const coney_codec *codec, coney_bytes body, const coney_member *variant, uint32_t more_flags,
                                   void *out, coney_arena *arena, coney_fault *fault)
{
    const coney_type *type = variant->type();
    coney_type stricter = *type;
    stricter.flags |= more_flags;
    struct arena_mark before = arena_mark(arena);
    coney_status status =
        decode_message(codec, body, more_flags == 0 ? type : &stricter, (uint8_t *)out + variant->offset, arena, fault);
    if (status == CONEY_OK)
        memcpy(out, &type, sizeof type);
    else
        arena_rewind(arena, before);
    return status;
}

/* Tries the variants in turn. The fault is that of all of them, or says what each missed. */
static coney_status decode_any(const coney_codec *codec, coney_bytes body, const coney_type *set_type, uint32_t more_flags,
                               void *out, coney_arena *arena, coney_fault *fault)
{
    coney_fault all;
    coney_fault first = {.text = ""};
    coney_fault one = {.text = ""};
    bool alike = true;
    refuse(&all, CONEY_ECORRUPT, "no variant of %s fits", set_type->name);
    for (uint32_t i = 0; i < set_type->member_count; i++) {
        const coney_member *variant = &set_type->members[i];
        coney_status status = decode_variant(codec, body, variant, more_flags, out, arena, &one);
        if (status == CONEY_OK)
            return CONEY_OK;
        if (i == 0)
            first = one;
        alike = alike && strcmp(one.text, first.text) == 0;
        if (status != CONEY_ECORRUPT)
            return report(fault, status, &one);
        text_append(all.text, sizeof all.text, "%s%s (%s)", i == 0 ? ": " : ", ", variant->name, one.text);
    }
    return report(fault, CONEY_ECORRUPT, alike ? &first : &all);
}

coney_status set_decode(const coney_codec *codec, coney_bytes body, const coney_type *set_type, const coney_member *variant,
                        void *out, coney_arena *arena, coney_fault *fault)
{
    memset(out, 0, set_type->size);
    if (variant != NULL)
        return decode_variant(codec, body, variant, 0, out, arena, fault);
    coney_status status = decode_any(codec, body, set_type, CONEY_TYPE_STRICT, out, arena, fault);
    return status == CONEY_ECORRUPT ? decode_any(codec, body, set_type, 0, out, arena, fault) : status;
}

static coney_status encode_set(const coney_codec *codec, const coney_type *set_type, const void *value, coney_sink *sink,
                               coney_arena *arena, coney_fault *fault)
{
    const coney_type *is;
    memcpy(&is, value, sizeof is);
    for (uint32_t i = 0; i < set_type->member_count; i++) {
        const coney_member *variant = &set_type->members[i];
        if (variant->type() == is)
            return codec->encode(codec, is, (const uint8_t *)value + variant->offset, sink, arena, fault);
    }
    return refuse(fault, CONEY_EINVAL, "%s: `is` is no variant of it", set_type->name);
}

/* Any type ------------------------------------------------------------------------------------------------------- */

coney_status coney_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out, coney_arena *arena,
                          coney_fault *fault)
{
    if (codec == NULL || type == NULL || out == NULL || arena == NULL || (body.data == NULL && body.len > 0))
        return refuse(fault, CONEY_EINVAL, "codec, type, out, arena or body is NULL");
    if (__builtin_expect(type->kind == CONEY_KIND_MESSAGE, 1))
        return decode_message(codec, body, type, out, arena, fault);
    if (type->kind == CONEY_KIND_SET)
        return set_decode(codec, body, type, NULL, out, arena, fault);
    return refuse(fault, CONEY_EINVAL, "%s is no message", type->name);
}

static inline coney_status encode_any(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                      coney_arena *arena, coney_fault *fault)
{
    if (__builtin_expect(type->kind == CONEY_KIND_MESSAGE, 1))
        return codec->encode(codec, type, value, sink, arena, fault);
    if (type->kind == CONEY_KIND_SET)
        return encode_set(codec, type, value, sink, arena, fault);
    return refuse(fault, CONEY_EINVAL, "%s is no message", type->name);
}

/* An arena that a caller did not give stands on the stack; its chunks are given back at the end. */
static coney_status encode_alone(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                 coney_fault *fault)
{
    coney_arena arena = {0};
    coney_status status = encode_any(codec, type, value, sink, &arena, fault);
    arena_clear(&arena);
    return status;
}

coney_status coney_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                          coney_arena *arena, coney_fault *fault)
{
    if (codec == NULL || type == NULL || value == NULL || sink == NULL)
        return refuse(fault, CONEY_EINVAL, "codec, type, value or sink is NULL");
    size_t before = sink->len;
    uint32_t failed = sink->failed;
    coney_status status =
        arena != NULL ? encode_any(codec, type, value, sink, arena, fault) : encode_alone(codec, type, value, sink, fault);
    if (__builtin_expect(status == CONEY_OK, 1))
        return CONEY_OK;
    sink->len = before;
    sink->failed = failed;
    return status == CONEY_ENOMEM ? refuse(fault, status, "memory is out") : status;
}

/* Content types -------------------------------------------------------------------------------------------------- */

/* The type of a content type, without parameters and the space before them. */
static coney_bytes essence(coney_bytes content_type)
{
    const char *at = content_type.data;
    size_t len = 0;
    while (len < content_type.len && at[len] != ';')
        len++;
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
        len--;
    return coney_bytes_of(at, len);
}

static bool is_type(coney_bytes type, const char *expected)
{
    size_t len = strlen(expected);
    return type.len == len && strncasecmp(type.data, expected, len) == 0;
}

static bool ends_with(coney_bytes type, const char *suffix)
{
    size_t len = strlen(suffix);
    return type.len > len && strncasecmp((const char *)type.data + type.len - len, suffix, len) == 0;
}

bool coney_codec_takes(const coney_codec *codec, coney_bytes content_type)
{
    coney_bytes type = essence(content_type);
    if (type.len == 0 || codec->content_type[0] == '\0' || is_type(type, codec->content_type))
        return true;
    if (is_type(coney_bytes_str(codec->content_type), "application/json"))
        return is_type(type, "text/json") || ends_with(type, "+json");
    return is_type(coney_bytes_str(codec->content_type), "application/msgpack") && is_type(type, "application/x-msgpack");
}
