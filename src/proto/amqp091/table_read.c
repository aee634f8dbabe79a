/* table_read.c: tags to values, and the walk over tables and arrays.
 *
 * A table is looked through once, front to back, with the ends of the open ones on a stack. After that a walk steps over what
 * is nested by its length. */
#include "proto/amqp091/table.h"
#include "proto/amqp091/table_value.h"

/* Types by tag, plus one, so that zero is a tag that does not exist; and the bytes behind the tag, which for the last four are
 * a length. */
static const struct {
    uint8_t type;
    uint8_t width;
} tags[256] = {
    ['t'] = {CONEY_VALUE_BOOL + 1, 1},      ['b'] = {CONEY_VALUE_I8 + 1, 1},   ['B'] = {CONEY_VALUE_U8 + 1, 1},
    ['s'] = {CONEY_VALUE_I16 + 1, 2},       ['u'] = {CONEY_VALUE_U16 + 1, 2},  ['I'] = {CONEY_VALUE_I32 + 1, 4},
    ['i'] = {CONEY_VALUE_U32 + 1, 4},       ['l'] = {CONEY_VALUE_I64 + 1, 8},  ['L'] = {CONEY_VALUE_I64 + 1, 8},
    ['f'] = {CONEY_VALUE_F32 + 1, 4},       ['d'] = {CONEY_VALUE_F64 + 1, 8},  ['D'] = {CONEY_VALUE_DECIMAL + 1, 5},
    ['T'] = {CONEY_VALUE_TIMESTAMP + 1, 8}, ['V'] = {CONEY_VALUE_NULL + 1, 0}, ['S'] = {CONEY_VALUE_STRING + 1, 4},
    ['x'] = {CONEY_VALUE_BINARY + 1, 4},    ['A'] = {CONEY_VALUE_LIST + 1, 4}, ['F'] = {CONEY_VALUE_MAP + 1, 4},
};

/* clang-format off */
#define TAG(h) "table tag 0x" h
#define TAGS(h) TAG(h "0"), TAG(h "1"), TAG(h "2"), TAG(h "3"), TAG(h "4"), TAG(h "5"), TAG(h "6"), TAG(h "7"), \
                TAG(h "8"), TAG(h "9"), TAG(h "a"), TAG(h "b"), TAG(h "c"), TAG(h "d"), TAG(h "e"), TAG(h "f")
static const char *const tag_names[256] = {
    TAGS("0"), TAGS("1"), TAGS("2"), TAGS("3"), TAGS("4"), TAGS("5"), TAGS("6"), TAGS("7"),
    TAGS("8"), TAGS("9"), TAGS("a"), TAGS("b"), TAGS("c"), TAGS("d"), TAGS("e"), TAGS("f"),
};
/* clang-format on */

static bool has_length(uint8_t type)
{
    return type == CONEY_VALUE_STRING || type == CONEY_VALUE_BINARY || type >= CONEY_VALUE_LIST;
}

/* The next key, without a tag. */
static coney_bytes read_key(struct reader *r, const char *field)
{
    uint8_t len = read8(r, field);
    return read_bytes(r, len, field);
}

/* The next tag's type, and its content: numbers as they stand, of anything with a length what is behind the length. After a
 * failure the content is empty. */
static uint8_t read_content(struct reader *r, const char *field, coney_bytes *content)
{
    *content = (coney_bytes){0};
    uint8_t tag = read8(r, field);
    if (!reader_ok(r))
        return CONEY_VALUE_NULL;
    if (tags[tag].type == 0) {
        reader_fail(r, tag_names[tag]);
        return CONEY_VALUE_NULL;
    }
    uint8_t type = (uint8_t)(tags[tag].type - 1);
    size_t len = has_length(type) ? read32(r, field) : tags[tag].width;
    *content = read_bytes(r, len, field);
    return type;
}

/* Looking through ------------------------------------------------------------------------------------------------- */

/* Counts the elements of a table or an array; fails the reader at one that does not fit. */
static uint32_t count_elements(struct reader *r, uint8_t type, const char *field)
{
    uint32_t count = 0;
    coney_bytes content;
    for (; reader_ok(r) && reader_left(r) > 0; count++) {
        if (type == CONEY_VALUE_MAP) {
            read_key(r, field);
            count++;
        }
        read_content(r, field, &content);
    }
    return count;
}

struct open {
    const uint8_t *end;
    uint8_t type;
};

/* NULL when all that is in a table or array, and in what is nested in it, can be read; else `field` or a tag. */
static const char *fault_inside(coney_bytes elements, uint8_t type, uint8_t depth, const char *field)
{
    struct reader r = reader_of(elements.data, elements.len);
    struct open open[CONEY_VALUE_DEPTH + 2] = {{r.end, type}};
    size_t count = 1;
    while (count > 0 && reader_ok(&r)) {
        r.end = open[count - 1].end;
        if (r.at == r.end) {
            count--;
            continue;
        }
        if (open[count - 1].type == CONEY_VALUE_MAP)
            read_key(&r, field);
        coney_bytes content;
        uint8_t nested = read_content(&r, field, &content);
        if (!reader_ok(&r) || nested < CONEY_VALUE_LIST)
            continue;
        if (depth + count > CONEY_VALUE_DEPTH)
            return field;
        r.at = content.data;
        open[count++] = (struct open){r.at + content.len, nested};
    }
    return r.field;
}

/* A table that was looked through. */
static bool table_of(coney_bytes entries, const char *field, struct reader *r, coney_value *out)
{
    *out = coney_value_null();
    const char *fault = fault_inside(entries, CONEY_VALUE_MAP, 0, field);
    if (fault != NULL) {
        reader_fail(r, fault);
        return false;
    }
    struct reader in = reader_of(entries.data, entries.len);
    *out = amqp_table_value(entries.data, entries.len, count_elements(&in, CONEY_VALUE_MAP, field) / 2);
    return true;
}

bool amqp_table_read(struct reader *r, const char *field, coney_value *out)
{
    size_t len = read32(r, field);
    coney_bytes entries = read_bytes(r, len, field);
    *out = coney_value_null();
    return reader_ok(r) && table_of(entries, field, r, out);
}

const char *amqp_table_parse(coney_bytes entries, coney_value *out)
{
    struct reader r = reader_of(NULL, 0);
    table_of(entries, "table", &r, out);
    return r.field;
}

bool amqp_table_valid(const coney_value *table)
{
    if (table->type == CONEY_VALUE_NULL)
        return true;
    return table->type == CONEY_VALUE_MAP && amqp_value_check(table, 0, false) == CONEY_OK;
}

static coney_status check_compound(const coney_value *value, uint8_t depth)
{
    bool known = value->type == CONEY_VALUE_LIST || value->type == CONEY_VALUE_MAP;
    coney_bytes elements = value->as.bytes;
    if (value->encoding != CONEY_ENCODING_AMQP091 || !known || (elements.data == NULL && elements.len > 0))
        return CONEY_EINVAL;
    if (depth > CONEY_VALUE_DEPTH || elements.len > UINT32_MAX)
        return CONEY_ECORRUPT;
    if (fault_inside(elements, value->type, depth, "value") != NULL)
        return CONEY_ECORRUPT;
    struct reader r = reader_of(elements.data, elements.len);
    return count_elements(&r, value->type, "value") == value->count ? CONEY_OK : CONEY_ECORRUPT;
}

coney_status amqp_value_check(const coney_value *value, uint8_t depth, bool key)
{
    bool valid = true;
    if (key)
        valid = value->type == CONEY_VALUE_STRING && value->as.bytes.len <= UINT8_MAX;
    else if (value->type == CONEY_VALUE_DECIMAL)
        valid = value->encoding == CONEY_ENCODING_AMQP091 && value->as.bytes.len == 5;
    else if (value->type == CONEY_VALUE_U64)
        valid = value->as.u64 <= INT64_MAX;
    else if (value->type >= CONEY_VALUE_LIST)
        return check_compound(value, depth);
    else
        valid = value->type != CONEY_VALUE_CHAR && value->type != CONEY_VALUE_UUID && value->type != CONEY_VALUE_SYMBOL;
    return valid ? value_check_plain(value) : CONEY_EINVAL;
}

/* Walking --------------------------------------------------------------------------------------------------------- */

static uint64_t load_number(coney_bytes content)
{
    const uint8_t *at = content.data;
    uint64_t number = 0;
    for (size_t i = 0; i < content.len; i++)
        number = number << 8 | at[i];
    return number;
}

static int64_t sign_extend(uint64_t number, size_t width)
{
    unsigned shift = (unsigned)(64 - 8 * width);
    return (int64_t)(number << shift) >> shift;
}

/* The nearest that 64 bits can hold. */
static int64_t milliseconds(int64_t seconds)
{
    if (seconds > INT64_MAX / 1000)
        return INT64_MAX;
    return seconds < INT64_MIN / 1000 ? INT64_MIN : seconds * 1000;
}

static void set_content(coney_value *out, coney_bytes content)
{
    uint64_t number = content.len <= 8 ? load_number(content) : 0;
    switch ((coney_value_type)out->type) {
    case CONEY_VALUE_NULL:
        break;
    case CONEY_VALUE_BOOL:
        out->as.boolean = number != 0;
        break;
    case CONEY_VALUE_I8:
    case CONEY_VALUE_I16:
    case CONEY_VALUE_I32:
    case CONEY_VALUE_I64:
        out->as.i64 = sign_extend(number, content.len);
        break;
    case CONEY_VALUE_TIMESTAMP:
        out->as.i64 = milliseconds((int64_t)number);
        break;
    case CONEY_VALUE_F32: {
        uint32_t bits = (uint32_t)number;
        memcpy(&out->as.f32, &bits, sizeof bits);
        break;
    }
    case CONEY_VALUE_F64:
        memcpy(&out->as.f64, &number, sizeof number);
        break;
    case CONEY_VALUE_U8:
    case CONEY_VALUE_U16:
    case CONEY_VALUE_U32:
    case CONEY_VALUE_U64:
    case CONEY_VALUE_CHAR:
        out->as.u64 = number;
        break;
    case CONEY_VALUE_UUID:
    case CONEY_VALUE_DECIMAL:
    case CONEY_VALUE_BINARY:
    case CONEY_VALUE_STRING:
    case CONEY_VALUE_SYMBOL:
    case CONEY_VALUE_LIST:
    case CONEY_VALUE_MAP:
    case CONEY_VALUE_ARRAY:
    case CONEY_VALUE_DESCRIBED:
        out->as.bytes = content;
        break;
    }
}

/* A value behind its tag, standing in `depth` others. */
static void read_value(struct reader *r, uint8_t depth, coney_value *out)
{
    coney_bytes content;
    *out = coney_value_null();
    out->type = read_content(r, "element", &content);
    out->depth = depth;
    if (out->type >= CONEY_VALUE_LIST) {
        struct reader in = reader_of(content.data, content.len);
        out->count = count_elements(&in, out->type, "element");
        if (!reader_ok(&in) || depth > CONEY_VALUE_DEPTH)
            reader_fail(r, "element");
    }
    if (out->type >= CONEY_VALUE_LIST || out->type == CONEY_VALUE_DECIMAL)
        out->encoding = CONEY_ENCODING_AMQP091;
    if (reader_ok(r))
        set_content(out, content);
}

enum { NO_KEYS, AT_KEY, AT_VALUE }; /* coney_value_iter.element */

static void enter(const coney_value *value, coney_value_iter *iter)
{
    struct reader r = reader_of(value->as.bytes.data, value->as.bytes.len);
    iter->at = r.at;
    iter->end = r.end;
    iter->left = value->count;
    iter->element = value->type == CONEY_VALUE_MAP ? AT_KEY : NO_KEYS;
    iter->failed = value->type != CONEY_VALUE_MAP && value->type != CONEY_VALUE_LIST;
}

static bool next(coney_value_iter *iter, coney_value *out)
{
    if (iter->failed)
        return false;
    if (iter->left == 0) {
        iter->failed = iter->at != iter->end;
        return false;
    }
    struct reader r = {.at = iter->at, .end = iter->end};
    coney_value value;
    if (iter->element == AT_KEY)
        value = coney_value_string(read_key(&r, "key"));
    else
        read_value(&r, iter->depth, &value);
    iter->failed = !reader_ok(&r);
    if (iter->failed)
        return false;
    if (iter->element != NO_KEYS)
        iter->element = iter->element == AT_KEY ? AT_VALUE : AT_KEY;
    iter->at = r.at;
    iter->left--;
    *out = value;
    return true;
}

static const struct value_encoding encoding = {
    .enter = enter,
    .next = next,
    .check = amqp_value_check,
    .size = amqp_value_size,
    .write = amqp_value_write,
    .head_size = amqp_compound_head_size,
    .head_write = amqp_compound_head_write,
    .content_max = UINT32_MAX,
    .outermost = CONEY_VALUE_MAP,
    .number = CONEY_ENCODING_AMQP091,
};

__attribute__((constructor)) static void add_encoding(void)
{
    value_encoding_add(&encoding);
}

void coney_builder_init_table(coney_builder *builder, void *memory, size_t cap)
{
    value_builder_init(builder, &encoding, memory, cap);
}
