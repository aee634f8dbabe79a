/* coney/value.h: one typed value, for the maps of AMQP 1.0 messages and for the field tables of AMQP 0-9-1.
 *
 *     uint8_t memory[256];
 *     coney_builder b;
 *     coney_builder_init(&b, memory, sizeof memory);
 *     coney_builder_begin(&b, CONEY_VALUE_MAP);
 *     coney_builder_put(&b, CONEY_STR("attempt"), coney_value_i64(3));
 *     coney_builder_put(&b, CONEY_STR("reason"), coney_value_string(CONEY_STR("timeout")));
 *     coney_builder_end(&b);
 *     coney_value map, reason;
 *     if (coney_builder_finish(&b, &map) == CONEY_OK && coney_value_find(&map, CONEY_STR("reason"), &reason))
 *         printf("%.*s\n", (int)reason.as.bytes.len, (const char *)reason.as.bytes.data);
 *
 * A value is 24 bytes, is passed and copied freely, and owns nothing. Numbers stand in it; text, binary and compound values
 * are views, which live as long as the memory they point into: the user's own, a builder's, or the message that was parsed.
 * Nothing here allocates, blocks or keeps state. Any thread, any callback.
 */
#ifndef CONEY_VALUE_H
#define CONEY_VALUE_H

#include <coney/coney.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum coney_value_type {
    CONEY_VALUE_NULL = 0,
    CONEY_VALUE_BOOL = 1, /* as.boolean */
    CONEY_VALUE_I8 = 2,   /* as.i64, as the three below */
    CONEY_VALUE_I16 = 3,
    CONEY_VALUE_I32 = 4,
    CONEY_VALUE_I64 = 5,
    CONEY_VALUE_U8 = 6, /* as.u64, as the three below */
    CONEY_VALUE_U16 = 7,
    CONEY_VALUE_U32 = 8,
    CONEY_VALUE_U64 = 9,
    CONEY_VALUE_F32 = 10,       /* as.f32 */
    CONEY_VALUE_F64 = 11,       /* as.f64 */
    CONEY_VALUE_CHAR = 12,      /* as.u64: a Unicode code point, not checked */
    CONEY_VALUE_TIMESTAMP = 13, /* as.i64: milliseconds since 1970, negative before */
    CONEY_VALUE_UUID = 14,      /* as.bytes: 16 bytes */
    CONEY_VALUE_DECIMAL = 15,   /* as.bytes: as on the wire; AMQP 1.0: 4, 8 or 16 bytes; 0-9-1: u8 scale, u32 number */
    CONEY_VALUE_BINARY = 16,    /* as.bytes */
    CONEY_VALUE_STRING = 17,    /* as.bytes: UTF-8, not checked, not terminated */
    CONEY_VALUE_SYMBOL = 18,    /* as.bytes: ASCII, not checked, not terminated */
    CONEY_VALUE_LIST = 19,      /* compound, as the three below: read it with coney_value_elements */
    CONEY_VALUE_MAP = 20,       /* elements: key, value, key, value … */
    CONEY_VALUE_ARRAY = 21,     /* elements: all of one type */
    CONEY_VALUE_DESCRIBED = 22, /* elements: the descriptor, then the value */
} coney_value_type;

/* How compound values and decimals are encoded. A value of one encoding cannot stand inside one of the other. */
typedef enum coney_value_encoding {
    CONEY_ENCODING_AMQP10 = 0,
    CONEY_ENCODING_AMQP091 = 1, /* tables are maps, arrays are lists; see coney_builder_init_table */
} coney_value_encoding;

/* Zero is null. The layout is frozen. */
typedef struct coney_value {
    uint8_t type;     /* a coney_value_type */
    uint8_t encoding; /* compound, decimal: a coney_value_encoding */
    uint8_t depth;    /* compound values in which this one stands; those of a user's own making: 0 */
    uint8_t reserved; /* zero */
    uint32_t count;   /* compound: its elements; a map has two for each entry */
    union {
        bool boolean;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
        coney_bytes bytes; /* text, binary, uuid, decimal: the content; compound: the encoded elements */
    } as;
} coney_value;

/* A named value. */
typedef struct coney_field {
    coney_bytes key;
    coney_value value;
} coney_field;

/* A compound value may stand in at most this many others. What is nested deeper is refused, written or read. */
#define CONEY_VALUE_DEPTH 32

/* An array may hold at most this many elements of a type whose elements take no bytes on the wire (null, true, empty
 * list …): there nothing but a limit stands between a few bytes of input and work without end. */
#define CONEY_VALUE_WEIGHTLESS 256

/* "string", "i64" …: for logs. Static memory, never NULL ("?" for a number that is no type). */
CONEY_API const char *coney_value_type_name(uint8_t type);

/* Making values -------------------------------------------------------------------------------------------------- */

static inline coney_value coney_value_null(void)
{
    coney_value v;
    v.type = CONEY_VALUE_NULL;
    v.encoding = 0;
    v.depth = 0;
    v.reserved = 0;
    v.count = 0;
    v.as.bytes = coney_bytes_of(NULL, 0);
    return v;
}

/* A value of any type whose content is bytes. */
static inline coney_value coney_value_bytes(coney_value_type type, coney_bytes content)
{
    coney_value v = coney_value_null();
    v.type = (uint8_t)type;
    v.as.bytes = content;
    return v;
}

static inline coney_value coney_value_string(coney_bytes utf8)
{
    return coney_value_bytes(CONEY_VALUE_STRING, utf8);
}

static inline coney_value coney_value_symbol(coney_bytes ascii)
{
    return coney_value_bytes(CONEY_VALUE_SYMBOL, ascii);
}

static inline coney_value coney_value_binary(coney_bytes bytes)
{
    return coney_value_bytes(CONEY_VALUE_BINARY, bytes);
}

/* Borrows the 16 bytes. */
static inline coney_value coney_value_uuid(const uint8_t *sixteen)
{
    return coney_value_bytes(CONEY_VALUE_UUID, coney_bytes_of(sixteen, 16));
}

static inline coney_value coney_value_bool(bool boolean)
{
    coney_value v = coney_value_null();
    v.type = CONEY_VALUE_BOOL;
    v.as.boolean = boolean;
    return v;
}

static inline coney_value coney_value_signed(coney_value_type type, int64_t number)
{
    coney_value v = coney_value_null();
    v.type = (uint8_t)type;
    v.as.i64 = number;
    return v;
}

static inline coney_value coney_value_unsigned(coney_value_type type, uint64_t number)
{
    coney_value v = coney_value_null();
    v.type = (uint8_t)type;
    v.as.u64 = number;
    return v;
}

static inline coney_value coney_value_i8(int8_t number)
{
    return coney_value_signed(CONEY_VALUE_I8, number);
}

static inline coney_value coney_value_i16(int16_t number)
{
    return coney_value_signed(CONEY_VALUE_I16, number);
}

static inline coney_value coney_value_i32(int32_t number)
{
    return coney_value_signed(CONEY_VALUE_I32, number);
}

static inline coney_value coney_value_i64(int64_t number)
{
    return coney_value_signed(CONEY_VALUE_I64, number);
}

static inline coney_value coney_value_u8(uint8_t number)
{
    return coney_value_unsigned(CONEY_VALUE_U8, number);
}

static inline coney_value coney_value_u16(uint16_t number)
{
    return coney_value_unsigned(CONEY_VALUE_U16, number);
}

static inline coney_value coney_value_u32(uint32_t number)
{
    return coney_value_unsigned(CONEY_VALUE_U32, number);
}

static inline coney_value coney_value_u64(uint64_t number)
{
    return coney_value_unsigned(CONEY_VALUE_U64, number);
}

static inline coney_value coney_value_char(uint32_t code_point)
{
    return coney_value_unsigned(CONEY_VALUE_CHAR, code_point);
}

/* Milliseconds since 1970. */
static inline coney_value coney_value_timestamp(int64_t ms)
{
    return coney_value_signed(CONEY_VALUE_TIMESTAMP, ms);
}

static inline coney_value coney_value_f32(float number)
{
    coney_value v = coney_value_null();
    v.type = CONEY_VALUE_F32;
    v.as.f32 = number;
    return v;
}

static inline coney_value coney_value_f64(double number)
{
    coney_value v = coney_value_null();
    v.type = CONEY_VALUE_F64;
    v.as.f64 = number;
    return v;
}

/* Reading values ------------------------------------------------------------------------------------------------- */

/* Any integer type, and timestamps, whatever its width: false, and *out unchanged, when it is of another type or does not
 * fit. */
CONEY_API bool coney_value_to_i64(const coney_value *value, int64_t *out);
CONEY_API bool coney_value_to_u64(const coney_value *value, uint64_t *out);

/* The content of a string, symbol or binary value: false, and *out unchanged, when it is of another type. */
CONEY_API bool coney_value_to_bytes(const coney_value *value, coney_bytes *out);

/* A walk over the elements of a compound value. Filled by coney_value_elements; its fields are not for users. */
typedef struct coney_value_iter {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t left;    /* elements still to come */
    uint8_t encoding; /* as in coney_value */
    uint8_t depth;    /* of the elements */
    uint8_t element;  /* arrays: the constructor that all elements share; otherwise 0 */
    uint8_t failed;   /* 1 after an element that could not be read */
    uint64_t reserved;
} coney_value_iter;

/* Starts at the first element; a value that is not compound has none. O(1). */
CONEY_API coney_value_iter coney_value_elements(const coney_value *value);

/* The next element: true and *out set, or false at the end, which is also where the walk stops when the next one cannot be
 * read (damaged, or nested deeper than CONEY_VALUE_DEPTH). The elements of an array of described values come without their
 * descriptor. O(1): nested values are stepped over by size. */
CONEY_API bool coney_value_next(coney_value_iter *iter, coney_value *out);

/* False when the walk ended at an element that cannot be read. Never false for what coney_message_parse or
 * coney_builder_finish accepted: they have looked. */
static inline bool coney_value_iter_ok(const coney_value_iter *iter)
{
    return iter->failed == 0;
}

/* The next entry of a map whose key is a string, a symbol or binary; entries with other keys are passed over (read those with
 * coney_value_next, which gives keys and values in turn). False at the end, as coney_value_next. */
CONEY_API bool coney_value_next_field(coney_value_iter *iter, coney_field *out);

/* Looks `key` up in a map: true and *out set, or false and *out unchanged when there is no such key or `map` is no map. A key
 * that is present with null gives true and a null value. The first of several equal keys counts. O(bytes of the map). */
CONEY_API bool coney_value_find(const coney_value *map, coney_bytes key, coney_value *out);

/* CONEY_OK when the value and everything nested in it can be sent and read; CONEY_ECORRUPT when the bytes of a compound value
 * are damaged, its counts do not fit them or it is nested too deep; CONEY_EINVAL when the type is unknown, a number does not fit
 * it, a uuid or decimal has the wrong length, or text or binary passes 4 GiB. O(bytes), with a stack of fixed size. */
CONEY_API coney_status coney_value_check(const coney_value *value);

/* Building lists and maps ---------------------------------------------------------------------------------------- */

/* Writes one list or map, with whatever is nested in it, into memory of the user's. An error sticks: check once, in
 * coney_builder_finish. Filled by coney_builder_init; its fields are not for users. */
typedef struct coney_builder {
    uint8_t *data;
    size_t cap;
    size_t len;
    size_t needed; /* the most bytes in use so far, counted on past `cap` */
    uint32_t status;
    uint32_t depth; /* compound values that are open */
    const void *encoding;
    const char *error; /* after CONEY_EINVAL the type of the value that was refused, or "key"; else NULL. Static memory */
    struct {
        size_t start;
        uint32_t count;
        uint32_t type;
    } open[CONEY_VALUE_DEPTH];
} coney_builder;

/* Starts over, on `cap` bytes that the builder borrows. `memory` may be NULL when `cap` is 0: that measures. */
CONEY_API void coney_builder_init(coney_builder *builder, void *memory, size_t cap);

/* The same for a field table of AMQP 0-9-1: arguments of a queue, headers of a message. The outermost value must be a map. Keys
 * are strings of up to 255 bytes. Every number keeps its type, but for a u64, which goes as an i64 and must fit one; a
 * timestamp goes in whole seconds; a list goes as an array. What the wire does not have is refused: char, uuid, symbol, and
 * values encoded for AMQP 1.0. */
CONEY_API void coney_builder_init_table(coney_builder *builder, void *memory, size_t cap);

/* Opens a list or a map (CONEY_VALUE_LIST, CONEY_VALUE_MAP) as the next element; anything else is CONEY_EINVAL. */
CONEY_API void coney_builder_begin(coney_builder *builder, coney_value_type type);

/* Adds the next element of the open list, or the next key or value of the open map. Copies what the value points to. */
CONEY_API void coney_builder_add(coney_builder *builder, coney_value value);

/* Adds an entry to the open map, with a string or a symbol for its key. */
CONEY_API void coney_builder_put(coney_builder *builder, coney_bytes key, coney_value value);
CONEY_API void coney_builder_put_symbol(coney_builder *builder, coney_bytes key, coney_value value);

/* Opens a list or a map as the value of an entry of the open map. */
CONEY_API void coney_builder_put_begin(coney_builder *builder, coney_bytes key, coney_value_type type);

/* Closes the list or map that was opened last. */
CONEY_API void coney_builder_end(coney_builder *builder);

/* Gives the finished list or map, a view into the builder's memory.
 * CONEY_ETOOBIG: it did not fit, `builder->needed` bytes would do. CONEY_EINVAL: begin and end do not match, a map has a key
 * without a value, put outside a map, more than one outermost value, a value that coney_value_check refuses, or
 * CONEY_VALUE_DEPTH passed. *out is then null. */
CONEY_API coney_status coney_builder_finish(coney_builder *builder, coney_value *out) CONEY_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
