/* json_quick.c: one pass over a body that ends in zeros, so that nothing needs to look for its end. Whatever is not plain is given
 * up, and there is no fault that is found here alone: what this accepts yyjson accepts, with the same values. */
#include "codec/json_quick.h"

#ifdef CONEY_HAVE_JSON

#include "codec/special.h"
#include "codec/utf8.h"

/* Every function takes the place in the text and returns the place behind what it read, or NULL to give up. */

static inline char *skip_space(char *at)
{
    while (__builtin_expect(*at <= ' ', 0) && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* A text of more than ASCII, from `start`; `at` is the first byte that is none. */
static char *read_utf8(char *start, char *at, coney_bytes *text)
{
    while ((*at & 0x80) != 0)
        at += 1 + special_skip(at + 1);
    *text = coney_bytes_of(start, (size_t)(at - start));
    return *at == '"' && utf8_valid(*text) ? at + 1 : NULL;
}

/* `at` is the opening quote. */
static inline char *read_text(char *at, coney_bytes *text)
{
    char *start = at + 1;
    if (*at != '"')
        return NULL;
    at = start + special_skip(start);
    *text = coney_bytes_of(start, (size_t)(at - start));
    if (__builtin_expect(*at != '"', 0))
        return read_utf8(start, at, text);
    return at + 1;
}

enum { DIGITS_MOST = 18 };

/* Digits as JSON has them before the point: no zero first, unless it is the only one. */
static inline char *read_digits(char *at, uint64_t *digits)
{
    char *start = at;
    uint64_t n = 0;
    for (unsigned digit; (digit = (unsigned)(uint8_t)*at - '0') <= 9; at++)
        n = n * 10 + digit;
    *digits = n;
    size_t len = (size_t)(at - start);
    return len - 1 < DIGITS_MOST && (len == 1 || *start != '0') ? at : NULL;
}

static inline bool is_real(const char *at)
{
    return *at == '.' || (*at | 0x20) == 'e';
}

static inline char *read_unsigned(char *at, uint64_t most, uint64_t *out)
{
    at = read_digits(at, out);
    return at != NULL && !is_real(at) && *out <= most ? at : NULL;
}

static inline char *read_signed(char *at, uint64_t most, int64_t *out)
{
    uint64_t digits;
    bool negative = *at == '-';
    at = read_unsigned(at + negative, most + negative, &digits);
    if (at == NULL || (negative && digits == 0))
        return NULL;
    *out = negative ? -(int64_t)digits : (int64_t)digits;
    return at;
}

/* Digits of all up to 2^53 and powers of ten up to 10^18 are exact, and so their quotient is the double that is nearest. */
static inline char *read_real(char *at, double *out)
{
    static const double powers[] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
    uint64_t digits;
    bool negative = *at == '-';
    char *start = at + negative;
    size_t places = 0;
    at = read_digits(start, &digits);
    if (at == NULL)
        return NULL;
    if (*at == '.') {
        char *point = at++;
        for (unsigned digit; (digit = (unsigned)(uint8_t)*at - '0') <= 9; at++)
            digits = digits * 10 + digit;
        places = (size_t)(at - point - 1);
        if (places == 0 || at - start > DIGITS_MOST + 1)
            return NULL;
    }
    if ((*at | 0x20) == 'e' || digits >> 53 != 0 || (negative && digits == 0))
        return NULL;
    *out = (double)digits / powers[places];
    if (negative)
        *out = -*out;
    return at;
}

static inline char *read_bool(char *at, bool *out)
{
    *out = *at == 't';
    return memcmp(at, *out ? "true" : "false", *out ? 4 : 5) == 0 ? at + (*out ? 4 : 5) : NULL;
}

static char *read_enum(char *at, const coney_type *type, void *out)
{
    coney_bytes text;
    at = read_text(at, &text);
    const coney_member *constant = at != NULL ? type_constant(type, text) : NULL;
    if (constant == NULL)
        return NULL;
    type_constant_store(type, constant, out);
    return at;
}

static char *read_rare(char *at, const coney_member *member, void *out)
{
    struct element element = type_element(member);
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double real = 0;
    switch ((coney_kind)element.kind) {
    case CONEY_KIND_I8:
        at = read_signed(at, INT8_MAX, &i64);
        *(int8_t *)out = (int8_t)i64;
        return at;
    case CONEY_KIND_I16:
        at = read_signed(at, INT16_MAX, &i64);
        *(int16_t *)out = (int16_t)i64;
        return at;
    case CONEY_KIND_U8:
        at = read_unsigned(at, UINT8_MAX, &u64);
        *(uint8_t *)out = (uint8_t)u64;
        return at;
    case CONEY_KIND_U16:
        at = read_unsigned(at, UINT16_MAX, &u64);
        *(uint16_t *)out = (uint16_t)u64;
        return at;
    case CONEY_KIND_F32:
        at = read_real(at, &real);
        *(float *)out = (float)real;
        return at;
    case CONEY_KIND_ENUM:
        return read_enum(at, element.type, out);
    default:
        return NULL;
    }
}

static inline __attribute__((always_inline)) char *read_value(char *at, const coney_member *member, void *out)
{
    int64_t i64 = 0;
    uint64_t u64 = 0;
    coney_bytes text;
    if (member->shape != CONEY_SHAPE_ONE)
        return NULL;
    switch (member->kind) {
    case CONEY_KIND_STRING:
        at = read_text(at, &text);
        if (at == NULL)
            return NULL;
        at[-1] = '\0';
        *(coney_bytes *)out = text;
        return at;
    case CONEY_KIND_U64:
        return read_unsigned(at, UINT64_MAX, out);
    case CONEY_KIND_I64:
        return read_signed(at, INT64_MAX, out);
    case CONEY_KIND_U32:
        at = read_unsigned(at, UINT32_MAX, &u64);
        *(uint32_t *)out = (uint32_t)u64;
        return at;
    case CONEY_KIND_I32:
        at = read_signed(at, INT32_MAX, &i64);
        *(int32_t *)out = (int32_t)i64;
        return at;
    case CONEY_KIND_F64:
        return read_real(at, out);
    case CONEY_KIND_BOOL:
        return read_bool(at, out);
    default:
        return read_rare(at, member, out);
    }
}

/* The value of a field that nobody wants. */
static inline char *skip_value(char *at)
{
    coney_bytes text;
    double number;
    bool boolean;
    if (__builtin_expect(*at == '"', 1))
        return read_text(at, &text);
    if (*at == 't' || *at == 'f')
        return read_bool(at, &boolean);
    if (*at == 'n')
        return memcmp(at, "null", 4) == 0 ? at + 4 : NULL;
    return read_real(at, &number);
}

/* A key and the colon, with the space around it. */
static inline char *read_key(char *at, coney_bytes *key)
{
    at = read_text(skip_space(at), key);
    if (at == NULL)
        return NULL;
    at = skip_space(at);
    return *at == ':' ? skip_space(at + 1) : NULL;
}

struct reading {
    struct bind *b;
    const coney_type *type;
    uint8_t *out;
    struct fields fields; /* once a field was not where the table has it */
    bool searching;
};

/* Fields in any order, from the one whose key was read. */
static char *read_searched(struct reading *r, char *at, coney_bytes key, uint32_t ordered)
{
    if (!r->searching && !fields_begin(r->b, &r->fields, r->type, ordered))
        return NULL;
    r->searching = true;
    uint32_t index = fields_find(&r->fields, key);
    if (index == r->type->member_count)
        return (r->type->flags & CONEY_TYPE_STRICT) == 0 ? skip_value(at) : NULL;
    const coney_member *member = &r->type->members[index];
    return fields_mark(r->b, &r->fields, index) ? read_value(at, member, r->out + member->offset) : NULL;
}

static inline char *read_fields(struct reading *r, char *at)
{
    const coney_member *member = r->type->members;
    const coney_member *end = member + r->type->member_count;
    for (;;) {
        coney_bytes key;
        at = read_key(at, &key);
        if (at == NULL)
            return NULL;
        if (!r->searching && member != end && field_is(member, key)) {
            at = read_value(at, member, r->out + member->offset);
            member++;
        } else {
            at = read_searched(r, at, key, (uint32_t)(member - r->type->members));
        }
        if (at == NULL)
            return NULL;
        at = skip_space(at);
        if (*at != ',')
            break;
        at++;
    }
    if (!r->searching && member != end && !fields_begin(r->b, &r->fields, r->type, (uint32_t)(member - r->type->members)))
        return NULL;
    r->searching |= member != end;
    return *at == '}' ? skip_space(at + 1) : NULL;
}

bool codec_json_quick(struct bind *b, char *copy, size_t len, const coney_type *type, uint8_t *out)
{
    struct reading r;
    r.b = b;
    r.type = type;
    r.out = out;
    r.searching = false;
    char *at = skip_space(copy);
    if (*at != '{' || (at = read_fields(&r, at + 1)) != copy + len)
        return false;
    if (!r.searching)
        return true;
    struct step *step = bind_enter(b, STEP_FIELD);
    fields_end(b, &r.fields, step, out);
    bind_leave(b);
    return true;
}

#endif
