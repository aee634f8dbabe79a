/* value.c: what a user asks of a value, whatever its encoding. */
#include "base/value.h"
#include "base/bytes.h"

static const struct value_encoding *encodings[VALUE_ENCODINGS];

void value_encoding_add(const struct value_encoding *encoding)
{
    encodings[encoding->number] = encoding;
}

/* NULL for an encoding that does not exist. */
static const struct value_encoding *encoding_of(uint8_t number)
{
    return number < VALUE_ENCODINGS ? encodings[number] : NULL;
}

const char *coney_value_type_name(uint8_t type)
{
    static const char *const names[] = {
        "null", "bool",      "i8",   "i16",     "i32",    "i64",    "u8",     "u16",  "u32", "u64",   "f32",       "f64",
        "char", "timestamp", "uuid", "decimal", "binary", "string", "symbol", "list", "map", "array", "described",
    };
    return type < sizeof names / sizeof *names ? names[type] : "?";
}

bool coney_value_to_i64(const coney_value *value, int64_t *out)
{
    bool is_signed = (value->type >= CONEY_VALUE_I8 && value->type <= CONEY_VALUE_I64) || value->type == CONEY_VALUE_TIMESTAMP;
    bool is_unsigned = value->type >= CONEY_VALUE_U8 && value->type <= CONEY_VALUE_U64;
    if (!is_signed && !(is_unsigned && value->as.u64 <= INT64_MAX))
        return false;
    *out = value->as.i64;
    return true;
}

bool coney_value_to_u64(const coney_value *value, uint64_t *out)
{
    int64_t number;
    if (value->type >= CONEY_VALUE_U8 && value->type <= CONEY_VALUE_U64) {
        *out = value->as.u64;
        return true;
    }
    if (!coney_value_to_i64(value, &number) || number < 0)
        return false;
    *out = (uint64_t)number;
    return true;
}

bool coney_value_to_bytes(const coney_value *value, coney_bytes *out)
{
    if (value->type < CONEY_VALUE_BINARY || value->type > CONEY_VALUE_SYMBOL)
        return false;
    *out = value->as.bytes;
    return true;
}

static bool signed_fits(int64_t number, unsigned bits)
{
    return number >= -(INT64_C(1) << (bits - 1)) && number < INT64_C(1) << (bits - 1);
}

coney_status value_check_plain(const coney_value *value)
{
    bool valid = true;
    if (value->type >= CONEY_VALUE_UUID && value->as.bytes.data == NULL && value->as.bytes.len > 0)
        return CONEY_EINVAL;
    switch ((coney_value_type)value->type) {
    case CONEY_VALUE_NULL:
    case CONEY_VALUE_BOOL:
    case CONEY_VALUE_I64:
    case CONEY_VALUE_U64:
    case CONEY_VALUE_F32:
    case CONEY_VALUE_F64:
    case CONEY_VALUE_TIMESTAMP:
    case CONEY_VALUE_DECIMAL:
        break;
    case CONEY_VALUE_I8:
        valid = signed_fits(value->as.i64, 8);
        break;
    case CONEY_VALUE_I16:
        valid = signed_fits(value->as.i64, 16);
        break;
    case CONEY_VALUE_I32:
        valid = signed_fits(value->as.i64, 32);
        break;
    case CONEY_VALUE_U8:
        valid = value->as.u64 <= UINT8_MAX;
        break;
    case CONEY_VALUE_U16:
        valid = value->as.u64 <= UINT16_MAX;
        break;
    case CONEY_VALUE_U32:
    case CONEY_VALUE_CHAR:
        valid = value->as.u64 <= UINT32_MAX;
        break;
    case CONEY_VALUE_UUID:
        valid = value->as.bytes.len == 16;
        break;
    case CONEY_VALUE_BINARY:
    case CONEY_VALUE_STRING:
    case CONEY_VALUE_SYMBOL:
        valid = value->as.bytes.len <= UINT32_MAX;
        break;
    case CONEY_VALUE_LIST:
    case CONEY_VALUE_MAP:
    case CONEY_VALUE_ARRAY:
    case CONEY_VALUE_DESCRIBED:
        return CONEY_EINVAL;
    }
    return valid && value->type <= CONEY_VALUE_DESCRIBED ? CONEY_OK : CONEY_EINVAL;
}

coney_status coney_value_check(const coney_value *value)
{
    const struct value_encoding *encoding = encoding_of(value->encoding);
    if (encoding != NULL)
        return encoding->check(value, 0, false);
    return value->type == CONEY_VALUE_DECIMAL ? CONEY_EINVAL : value_check_plain(value);
}

coney_value_iter coney_value_elements(const coney_value *value)
{
    const struct value_encoding *encoding = encoding_of(value->encoding);
    coney_value_iter iter = {.depth = (uint8_t)(value->depth + 1), .encoding = value->encoding};
    if (!value_is_compound(value))
        return iter;
    if (encoding == NULL || value->depth > CONEY_VALUE_DEPTH)
        iter.failed = 1;
    else
        encoding->enter(value, &iter);
    return iter;
}

bool coney_value_next(coney_value_iter *iter, coney_value *out)
{
    const struct value_encoding *encoding = encoding_of(iter->encoding);
    return encoding != NULL && encoding->next(iter, out);
}

bool coney_value_next_field(coney_value_iter *iter, coney_field *out)
{
    coney_value key;
    coney_value value;
    while (coney_value_next(iter, &key) && coney_value_next(iter, &value)) {
        if (coney_value_to_bytes(&key, &out->key)) {
            out->value = value;
            return true;
        }
    }
    return false;
}

bool coney_value_find(const coney_value *map, coney_bytes key, coney_value *out)
{
    if (map->type != CONEY_VALUE_MAP)
        return false;
    coney_value_iter iter = coney_value_elements(map);
    coney_field field;
    while (coney_value_next_field(&iter, &field)) {
        if (bytes_equal(field.key, key)) {
            *out = field.value;
            return true;
        }
    }
    return false;
}
