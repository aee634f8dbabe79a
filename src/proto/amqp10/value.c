/* value.c: what a user asks of a value, on top of the walk over its elements. */
#include "proto/amqp10/value.h"

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
