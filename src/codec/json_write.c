/* json_write.c: writing JSON: texts and integers here, other numbers by yyjson. */
#include "codec/json.h"

#ifdef CONEY_HAVE_JSON

#include "codec/base64.h"
#include "codec/bind.h"
#include "codec/moment.h"
#include "codec/sink.h"
#include "codec/special.h"
#include "codec/utf8.h"

#include <math.h>
#include <yyjson.h>

static bool put_bool(struct bind *b, coney_sink *sink, bool yes)
{
    (void)b;
    sink_bytes(sink, yes ? "true" : "false", yes ? 4 : 5);
    return true;
}

/* Numbers are made backwards, in front of the middle of this, and then copied with what comes behind it. */
enum { NUMBER_MOST = 24 };

struct number {
    uint8_t text[2 * NUMBER_MOST];
};

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                            "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

/* Writes the digits in front of `end` and returns where they begin. */
static inline uint8_t *digits_before(uint8_t *end, uint64_t number)
{
    for (; number > UINT32_MAX; number /= 100) {
        end -= 2;
        memcpy(end, pairs + number % 100 * 2, 2);
    }
    uint32_t left = (uint32_t)number;
    while (left >= 100) {
        uint32_t rest = left / 100;
        end -= 2;
        memcpy(end, pairs + (left - rest * 100) * 2, 2);
        left = rest;
    }
    if (left < 10) {
        *--end = (uint8_t)('0' + left);
        return end;
    }
    end -= 2;
    memcpy(end, pairs + left * 2, 2);
    return end;
}

/* Copies a finished number to `at`, where NUMBER_MOST bytes have room, and returns where it ends. */
static inline uint8_t *copy_number(uint8_t *at, const struct number *number, const uint8_t *start)
{
    memcpy(at, start, NUMBER_MOST);
    return at + (number->text + NUMBER_MOST - start);
}

static inline uint8_t *write_unsigned(uint8_t *at, uint64_t value)
{
    struct number number;
    memset(number.text + NUMBER_MOST, 0, NUMBER_MOST);
    return copy_number(at, &number, digits_before(number.text + NUMBER_MOST, value));
}

static inline bool put_unsigned(struct bind *b, coney_sink *sink, uint64_t number)
{
    (void)b;
    uint8_t *room = sink_room(sink, NUMBER_MOST);
    if (room != NULL)
        sink->len = (size_t)(write_unsigned(room, number) - sink->data);
    return true;
}

static inline bool put_signed(struct bind *b, coney_sink *sink, int64_t number)
{
    if (number < 0)
        sink_byte(sink, '-');
    return put_unsigned(b, sink, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* A number that a few digits after the point say exactly, as most prices and rates: number = whole / 10^places. */
struct decimal {
    uint64_t whole;
    unsigned places; /* one at least */
};

enum { PLACES_MOST = 4 };

static const double powers[PLACES_MOST + 1] = {1, 1e1, 1e2, 1e3, 1e4};

static inline __attribute__((always_inline)) bool decimal_of(double number, bool narrow, struct decimal *out)
{
    double magnitude = fabs(number);
    if (!(magnitude < 1e9) || (magnitude == 0 && signbit(number)))
        return false;
    for (unsigned places = 1; places <= PLACES_MOST; places++) {
        uint64_t whole = (uint64_t)(magnitude * powers[places] + 0.5);
        double back = (double)whole / powers[places];
        if (narrow ? (float)back == (float)magnitude : back == magnitude) {
            *out = (struct decimal){whole, places};
            return true;
        }
    }
    return false;
}

static inline uint8_t *write_decimal(uint8_t *to, bool negative, const struct decimal *decimal)
{
    struct number number;
    uint8_t *at = number.text + NUMBER_MOST;
    uint64_t whole = decimal->whole;
    memset(at, 0, NUMBER_MOST);
    for (unsigned i = 0; i < decimal->places; i++, whole /= 10)
        *--at = (uint8_t)('0' + whole % 10);
    *--at = '.';
    at = digits_before(at, whole);
    if (negative)
        *--at = '-';
    return copy_number(to, &number, at);
}

/* yyjson writes into the sink: what it asks for is one block. */
static void *writer_malloc(void *room, size_t size)
{
    return coney_sink_reserve(room, size);
}

static void *writer_realloc(void *room, void *taken, size_t old, size_t size)
{
    (void)taken, (void)old;
    return coney_sink_reserve(room, size);
}

static void writer_free(void *room, void *taken)
{
    (void)room, (void)taken;
}

static bool put_real(struct bind *b, coney_sink *sink, double number, bool narrow)
{
    struct decimal decimal;
    if (!isfinite(number))
        return bind_fail(b, "%s, which JSON cannot say", isnan(number) ? "NaN" : "an infinite number");
    if (decimal_of(number, narrow, &decimal)) {
        uint8_t *room = sink_room(sink, NUMBER_MOST);
        if (room != NULL)
            sink->len = (size_t)(write_decimal(room, number < 0, &decimal) - sink->data);
        return true;
    }
    yyjson_alc alc = {writer_malloc, writer_realloc, writer_free, sink};
    yyjson_val value = {.tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL, .uni = {.f64 = number}};
    size_t len;
    if (yyjson_val_write_opts(&value, YYJSON_WRITE_NOFLAG, &alc, &len, NULL) != NULL)
        sink->len += len;
    return true;
}

static bool put_f32(struct bind *b, coney_sink *sink, float number)
{
    return put_real(b, sink, (double)number, true);
}

static bool put_f64(struct bind *b, coney_sink *sink, double number)
{
    return put_real(b, sink, number, false);
}

static void put_escape(coney_sink *sink, uint8_t c)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
    static const char hex[] = "0123456789abcdef";
    if (c < sizeof letters && letters[c] != 0) {
        sink_bytes(sink, (const char[]){'\\', letters[c]}, 2);
        return;
    }
    sink_bytes(sink, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

static bool is_escaped(uint8_t c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* What follows the first `done` bytes of a text, with escapes. */
static bool put_escaped(struct bind *b, coney_sink *sink, coney_bytes text, size_t done)
{
    const uint8_t *at = text.data;
    if (!utf8_valid(text))
        return bind_fail(b, "a text that is not UTF-8");
    while (done < text.len) {
        size_t plain = done;
        while (plain < text.len && !is_escaped(at[plain]))
            plain++;
        sink_bytes(sink, at + done, plain - done);
        done = plain;
        if (done < text.len)
            put_escape(sink, at[done++]);
    }
    return true;
}

/* A text, a comma before it and a colon behind it. Quotes behind the copy end the search for what is not plain. */
static bool put_quoted(struct bind *b, coney_sink *sink, bool comma, coney_bytes text, bool colon)
{
    if (comma)
        sink_byte(sink, ',');
    sink_byte(sink, '"');
    uint8_t *room = sink_room(sink, text.len + SPECIAL_SPAN);
    if (room == NULL)
        return true;
    sink_copy(room, text.data, text.len);
    memset(room + text.len, '"', SPECIAL_SPAN);
    size_t plain = special_skip(room);
    sink->len += plain;
    if (plain < text.len && !put_escaped(b, sink, text, plain))
        return false;
    sink_byte(sink, '"');
    if (colon)
        sink_byte(sink, ':');
    return true;
}

static bool put_text(struct bind *b, coney_sink *sink, coney_bytes text)
{
    return put_quoted(b, sink, false, text, false);
}

static bool put_binary(struct bind *b, coney_sink *sink, coney_bytes bytes)
{
    (void)b;
    size_t size = base64_size(bytes.len);
    uint8_t *room = sink_room(sink, size + 2);
    if (room == NULL)
        return true;
    room[0] = '"';
    base64_write((char *)room + 1, bytes);
    room[size + 1] = '"';
    sink->len += size + 2;
    return true;
}

static bool put_time(struct bind *b, coney_sink *sink, int64_t ms)
{
    char text[MOMENT_MAX];
    size_t len = moment_print(ms, text);
    if (len == 0)
        return bind_fail(b, "a time beyond the years 0 to 9999, which RFC 3339 cannot say");
    return put_text(b, sink, coney_bytes_of(text, len));
}

static bool put_raw(struct bind *b, coney_sink *sink, coney_bytes raw)
{
    if (!codec_json_is_value(b, raw))
        return false;
    sink_bytes(sink, raw.data, raw.len);
    return true;
}

static bool put_list(struct bind *b, coney_sink *sink, size_t count)
{
    (void)b, (void)count;
    sink_byte(sink, '[');
    return true;
}

static bool put_next(struct bind *b, coney_sink *sink, size_t index)
{
    (void)b;
    if (index > 0)
        sink_byte(sink, ',');
    return true;
}

static bool put_list_end(struct bind *b, coney_sink *sink)
{
    (void)b;
    sink_byte(sink, ']');
    return true;
}

static bool put_map(struct bind *b, coney_sink *sink, size_t count)
{
    (void)b, (void)count;
    sink_byte(sink, '{');
    return true;
}

static bool put_key(struct bind *b, coney_sink *sink, coney_bytes key, size_t index)
{
    return put_quoted(b, sink, index > 0, key, true);
}

static bool put_map_end(struct bind *b, coney_sink *sink)
{
    (void)b;
    sink_byte(sink, '}');
    return true;
}

/* Members in one go ------------------------------------------------------------------------------------------------ */

/* A text of up to SPECIAL_SPAN bytes; NULL when it is not plain. */
static inline uint8_t *write_short(uint8_t *at, coney_bytes text)
{
    *at++ = '"';
    sink_copy(at, text.data, text.len);
    memset(at + text.len, '"', SPECIAL_SPAN);
    return special_find(at) >= text.len ? at + text.len + 1 : NULL;
}

static inline uint8_t *write_string(uint8_t *at, const coney_bytes *text)
{
    return text->len <= SPECIAL_SPAN ? write_short(at, *text) : NULL;
}

static inline uint8_t *write_real(uint8_t *at, double number)
{
    struct decimal decimal;
    return decimal_of(number, false, &decimal) ? write_decimal(at, number < 0, &decimal) : NULL;
}

static inline uint8_t *write_bool(uint8_t *at, bool yes)
{
    memcpy(at, yes ? "true" : "false", 5);
    return at + (yes ? 4 : 5);
}

enum { MEMBER_MOST = 2 * (2 * SPECIAL_SPAN + 4) }; /* a key and a text, each with what is written behind it on the way */

/* The name of a member: one that was not given is a C identifier, which needs no escape. */
static inline uint8_t *write_name(uint8_t *at, const coney_member *member)
{
    if (__builtin_expect(member->rename_len > 0, 0))
        return write_short(at, coney_bytes_of(member->rename, member->rename_len));
    *at++ = '"';
    sink_copy(at, (const uint8_t *)member->name, member->name_len);
    at += member->name_len;
    *at++ = '"';
    return at;
}

/* A member whose key and value are short and plain, as most are, with the comma before it. False: nothing is written. */
static inline bool put_quick(coney_sink *sink, const coney_member *member, const void *value, size_t index)
{
    bool is_short = member->name_len <= SPECIAL_SPAN && member->rename_len <= SPECIAL_SPAN;
    if (member->shape != CONEY_SHAPE_ONE || !is_short || !sink_has(sink, MEMBER_MOST))
        return false;
    uint8_t *at = sink->data + sink->len;
    *at = ',';
    at = write_name(at + (index > 0), member);
    if (at == NULL)
        return false;
    *at++ = ':';
    switch (member->kind) {
    case CONEY_KIND_STRING:
        at = write_string(at, value);
        break;
    case CONEY_KIND_U64:
        at = write_unsigned(at, *(const uint64_t *)value);
        break;
    case CONEY_KIND_U32:
        at = write_unsigned(at, *(const uint32_t *)value);
        break;
    case CONEY_KIND_F64:
        at = write_real(at, *(const double *)value);
        break;
    case CONEY_KIND_BOOL:
        at = write_bool(at, *(const bool *)value);
        break;
    default:
        return false;
    }
    if (__builtin_expect(at == NULL, 0))
        return false;
    sink->len = (size_t)(at - sink->data);
    return true;
}

enum { MAPS_ARE_COUNTED = 0 };

#include "codec/emit.h"

coney_status codec_json_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                               coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    return emit_body(type, value, sink, arena, fault);
}

#endif
