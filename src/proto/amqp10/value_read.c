/* value_read.c: constructors to values, and the walk over compound values.
 *
 * The high nibble of a constructor says how its content is framed, a table says what it means. */
#include "proto/amqp10/value.h"

enum { DESCRIBED = 0x00, SYMBOL8 = 0xa3 };

/* Type by constructor, plus one, so that zero is a constructor that does not exist. */
static const uint8_t types[256] = {
    [0x40] = CONEY_VALUE_NULL + 1,    [0x41] = CONEY_VALUE_BOOL + 1,    [0x42] = CONEY_VALUE_BOOL + 1,
    [0x43] = CONEY_VALUE_U32 + 1,     [0x44] = CONEY_VALUE_U64 + 1,     [0x45] = CONEY_VALUE_LIST + 1,
    [0x50] = CONEY_VALUE_U8 + 1,      [0x51] = CONEY_VALUE_I8 + 1,      [0x52] = CONEY_VALUE_U32 + 1,
    [0x53] = CONEY_VALUE_U64 + 1,     [0x54] = CONEY_VALUE_I32 + 1,     [0x55] = CONEY_VALUE_I64 + 1,
    [0x56] = CONEY_VALUE_BOOL + 1,    [0x60] = CONEY_VALUE_U16 + 1,     [0x61] = CONEY_VALUE_I16 + 1,
    [0x70] = CONEY_VALUE_U32 + 1,     [0x71] = CONEY_VALUE_I32 + 1,     [0x72] = CONEY_VALUE_F32 + 1,
    [0x73] = CONEY_VALUE_CHAR + 1,    [0x74] = CONEY_VALUE_DECIMAL + 1, [0x80] = CONEY_VALUE_U64 + 1,
    [0x81] = CONEY_VALUE_I64 + 1,     [0x82] = CONEY_VALUE_F64 + 1,     [0x83] = CONEY_VALUE_TIMESTAMP + 1,
    [0x84] = CONEY_VALUE_DECIMAL + 1, [0x94] = CONEY_VALUE_DECIMAL + 1, [0x98] = CONEY_VALUE_UUID + 1,
    [0xa0] = CONEY_VALUE_BINARY + 1,  [0xa1] = CONEY_VALUE_STRING + 1,  [0xa3] = CONEY_VALUE_SYMBOL + 1,
    [0xb0] = CONEY_VALUE_BINARY + 1,  [0xb1] = CONEY_VALUE_STRING + 1,  [0xb3] = CONEY_VALUE_SYMBOL + 1,
    [0xc0] = CONEY_VALUE_LIST + 1,    [0xc1] = CONEY_VALUE_MAP + 1,     [0xd0] = CONEY_VALUE_LIST + 1,
    [0xd1] = CONEY_VALUE_MAP + 1,     [0xe0] = CONEY_VALUE_ARRAY + 1,   [0xf0] = CONEY_VALUE_ARRAY + 1,
};

/* Bytes that stand at least behind a constructor: the content itself, or what frames it. */
static size_t least_width(uint8_t code)
{
    static const uint8_t widths[16] = {
        [5] = 1, [6] = 2, [7] = 4, [8] = 8, [9] = 16, [0xa] = 1, [0xb] = 4, [0xc] = 2, [0xd] = 8, [0xe] = 2, [0xf] = 8};
    return widths[code >> 4];
}

static bool fixed_width(uint8_t code)
{
    return code >> 4 <= 9;
}

static uint64_t load_number(coney_bytes b)
{
    const uint8_t *at = b.data;
    uint64_t number = 0;
    for (size_t i = 0; i < b.len; i++)
        number = number << 8 | at[i];
    return number;
}

static int64_t sign_extend(uint64_t number, size_t width)
{
    unsigned shift = (unsigned)(64 - 8 * width);
    return (int64_t)(number << shift) >> shift;
}

static bool read_bool(uint8_t code, uint64_t number, coney_value *out)
{
    if (code == 0x56 && number > 1)
        return false;
    out->as.boolean = code == 0x41 || number == 1;
    return true;
}

/* A value of fixed width: `content` has the width of the constructor. */
static bool read_fixed(uint8_t code, coney_bytes content, coney_value *out)
{
    uint64_t number = load_number(content);
    switch ((coney_value_type)out->type) {
    case CONEY_VALUE_BOOL:
        return read_bool(code, number, out);
    case CONEY_VALUE_I8:
    case CONEY_VALUE_I16:
    case CONEY_VALUE_I32:
    case CONEY_VALUE_I64:
    case CONEY_VALUE_TIMESTAMP:
        out->as.i64 = sign_extend(number, content.len);
        return true;
    case CONEY_VALUE_U8:
    case CONEY_VALUE_U16:
    case CONEY_VALUE_U32:
    case CONEY_VALUE_U64:
    case CONEY_VALUE_CHAR:
        out->as.u64 = number;
        return true;
    case CONEY_VALUE_F32: {
        uint32_t bits = (uint32_t)number;
        memcpy(&out->as.f32, &bits, sizeof bits);
        return true;
    }
    case CONEY_VALUE_F64:
        memcpy(&out->as.f64, &number, sizeof number);
        return true;
    case CONEY_VALUE_UUID:
    case CONEY_VALUE_DECIMAL:
        out->as.bytes = content;
        return true;
    case CONEY_VALUE_NULL:
    case CONEY_VALUE_LIST: /* the empty one, 0x45 */
        return true;
    case CONEY_VALUE_BINARY:
    case CONEY_VALUE_STRING:
    case CONEY_VALUE_SYMBOL:
    case CONEY_VALUE_MAP:
    case CONEY_VALUE_ARRAY:
    case CONEY_VALUE_DESCRIBED:
        break;
    }
    return false;
}

/* Steps over the descriptors before a constructor and gives that constructor. Each counts as a level of nesting. */
static uint8_t read_constructor(struct reader *r, uint8_t depth, const char *field)
{
    uint8_t code = read8(r, field);
    while (code == DESCRIBED && reader_ok(r)) {
        uint8_t descriptor = read8(r, field);
        size_t width = least_width(descriptor);
        if (types[descriptor] == CONEY_VALUE_SYMBOL + 1)
            width = descriptor == SYMBOL8 ? read8(r, field) : read32(r, field);
        else if (types[descriptor] != CONEY_VALUE_U64 + 1)
            reader_fail(r, field);
        read_bytes(r, width, field);
        if (depth++ > CONEY_VALUE_DEPTH)
            reader_fail(r, field);
        code = read8(r, field);
    }
    return code;
}

/* The constructor that the elements of an array share, with `r` left at the first element. An array without elements may
 * leave it out. Holds the count against the bytes. */
static uint8_t read_element_constructor(struct reader *r, uint8_t depth, uint32_t count, const char *field)
{
    if (count == 0 && reader_left(r) == 0)
        return 0;
    uint8_t code = read_constructor(r, depth, field);
    size_t width = least_width(code);
    size_t left = reader_left(r);
    bool fits = width == 0          ? left == 0 && count <= CONEY_VALUE_WEIGHTLESS
                : fixed_width(code) ? left == (uint64_t)width * count
                                    : left >= (uint64_t)width * count;
    bool too_deep = types[code] > CONEY_VALUE_LIST && depth > CONEY_VALUE_DEPTH;
    if (types[code] == 0 || !fits || too_deep)
        reader_fail(r, field);
    return code;
}

bool amqp10_count_fits(uint8_t type, uint32_t count, size_t len)
{
    if (type == CONEY_VALUE_ARRAY)
        return true;
    if (type == CONEY_VALUE_DESCRIBED)
        return count == 2;
    return count <= len && (type == CONEY_VALUE_LIST || count % 2 == 0);
}

static void read_compound(struct reader *r, uint8_t code, uint8_t depth, const char *field, coney_value *out)
{
    bool large = (code & 0x10) != 0;
    size_t size = large ? read32(r, field) : read8(r, field);
    coney_bytes framed = read_bytes(r, size, field);
    struct reader in = reader_of(framed.data, framed.len);
    out->count = large ? read32(&in, field) : read8(&in, field);
    out->as.bytes = coney_bytes_of(in.at, reader_left(&in));

    if (out->type == CONEY_VALUE_ARRAY)
        read_element_constructor(&in, (uint8_t)(depth + 1), out->count, field);
    else if (!amqp10_count_fits(out->type, out->count, reader_left(&in)))
        reader_fail(&in, field);
    if (!reader_ok(&in))
        reader_fail(r, field);
}

/* The value after its constructor. */
static bool read_content(struct reader *r, uint8_t code, uint8_t depth, const char *field, coney_value *out)
{
    *out = coney_value_null();
    out->depth = depth;
    out->type = (uint8_t)(types[code] - 1);
    if (types[code] == 0 || (value_is_compound(out) && depth > CONEY_VALUE_DEPTH))
        reader_fail(r, field);
    else if (fixed_width(code)) {
        coney_bytes content = read_bytes(r, least_width(code), field);
        if (reader_ok(r) && !read_fixed(code, content, out))
            reader_fail(r, field);
    } else if (code >> 4 <= 0xb) {
        size_t len = code >> 4 == 0xa ? read8(r, field) : read32(r, field);
        out->as.bytes = read_bytes(r, len, field);
    } else
        read_compound(r, code, depth, field, out);

    if (!reader_ok(r))
        *out = coney_value_null();
    return reader_ok(r);
}

bool amqp10_value_read(struct reader *r, uint8_t depth, const char *field, coney_value *out)
{
    const uint8_t *start = r->at;
    uint8_t code = read_constructor(r, depth, field);
    bool described = reader_ok(r) && *start == DESCRIBED;
    if (!read_content(r, code, (uint8_t)(depth + described), field, out) || !described)
        return reader_ok(r);

    *out = coney_value_bytes(CONEY_VALUE_DESCRIBED, coney_bytes_of(start + 1, (size_t)(r->at - start - 1)));
    out->count = 2;
    out->depth = depth;
    return true;
}

static void enter(const coney_value *value, coney_value_iter *iter)
{
    struct reader r = reader_of(value->as.bytes.data, value->as.bytes.len);
    if (value->encoding != 0 || value->type > CONEY_VALUE_DESCRIBED || value->depth > CONEY_VALUE_DEPTH)
        reader_fail(&r, "value");
    else if (value->type == CONEY_VALUE_ARRAY)
        iter->element = read_element_constructor(&r, iter->depth, value->count, "array");
    iter->left = value->count;
    iter->at = r.at;
    iter->end = r.end;
    iter->failed = !reader_ok(&r);
}

coney_value_iter amqp10_elements(const coney_value *value)
{
    coney_value_iter iter = {.depth = (uint8_t)(value->depth + 1), .encoding = value->encoding};
    if (value_is_compound(value))
        enter(value, &iter);
    return iter;
}

bool amqp10_next(coney_value_iter *iter, coney_value *out)
{
    if (iter->failed)
        return false;
    if (iter->left == 0) {
        iter->failed = iter->at != iter->end;
        return false;
    }
    struct reader r = {.at = iter->at, .end = iter->end};
    coney_value value;
    if (iter->element != 0)
        read_content(&r, iter->element, iter->depth, "element", &value);
    else
        amqp10_value_read(&r, iter->depth, "element", &value);
    iter->failed = !reader_ok(&r);
    if (iter->failed)
        return false;
    iter->at = r.at;
    iter->left--;
    *out = value;
    return true;
}

/* For base/value.h ------------------------------------------------------------------------------------------------- */

static coney_status check(const coney_value *value, uint8_t depth, bool key)
{
    (void)key;
    return amqp10_value_check(value, depth);
}

static size_t size(const coney_value *value, bool key)
{
    (void)key;
    return amqp10_value_size(value);
}

static uint8_t *write(uint8_t *at, const coney_value *value, bool key)
{
    (void)key;
    return amqp10_value_write(at, value);
}

static const struct value_encoding encoding = {
    .enter = enter,
    .next = amqp10_next,
    .check = check,
    .size = size,
    .write = write,
    .head_size = amqp10_compound_head_size,
    .head_write = amqp10_compound_head_write,
    .content_max = AMQP10_CONTENT_MAX,
    .number = CONEY_ENCODING_AMQP10,
};

__attribute__((constructor)) static void add_encoding(void)
{
    value_encoding_add(&encoding);
}

void coney_builder_init(coney_builder *builder, void *memory, size_t cap)
{
    value_builder_init(builder, &encoding, memory, cap);
}
