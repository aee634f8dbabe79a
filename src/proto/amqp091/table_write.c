/* table_write.c: values to tags, and tables out of named values. */
#include "proto/amqp091/table.h"
#include "proto/amqp091/table_value.h"

/* The tag of each type and the bytes of a number behind it. The others have a length there, but for a decimal, whose five bytes
 * are written as they are. */
static const struct {
    char tag;
    uint8_t width;
} forms[] = {
    [CONEY_VALUE_NULL] = {'V', 0},      [CONEY_VALUE_BOOL] = {'t', 1},    [CONEY_VALUE_I8] = {'b', 1},
    [CONEY_VALUE_I16] = {'s', 2},       [CONEY_VALUE_I32] = {'I', 4},     [CONEY_VALUE_I64] = {'l', 8},
    [CONEY_VALUE_U8] = {'B', 1},        [CONEY_VALUE_U16] = {'u', 2},     [CONEY_VALUE_U32] = {'i', 4},
    [CONEY_VALUE_U64] = {'l', 8},       [CONEY_VALUE_F32] = {'f', 4},     [CONEY_VALUE_F64] = {'d', 8},
    [CONEY_VALUE_TIMESTAMP] = {'T', 8}, [CONEY_VALUE_DECIMAL] = {'D', 0}, [CONEY_VALUE_BINARY] = {'x', 0},
    [CONEY_VALUE_STRING] = {'S', 0},    [CONEY_VALUE_LIST] = {'A', 0},    [CONEY_VALUE_MAP] = {'F', 0},
};

enum { LENGTH_BYTES = 4 };

static int64_t seconds(int64_t ms)
{
    return ms / 1000 - (ms % 1000 < 0);
}

static uint64_t number_of(const coney_value *value)
{
    uint32_t bits;
    switch (value->type) {
    case CONEY_VALUE_BOOL:
        return value->as.boolean;
    case CONEY_VALUE_TIMESTAMP:
        return (uint64_t)seconds(value->as.i64);
    case CONEY_VALUE_F32:
        memcpy(&bits, &value->as.f32, sizeof bits);
        return bits;
    default:
        return value->as.u64;
    }
}

static bool is_number(const coney_value *value)
{
    return value->type < CONEY_VALUE_UUID;
}

static uint8_t *write_bytes_at(uint8_t *at, coney_bytes bytes)
{
    if (bytes.len > 0)
        memcpy(at, bytes.data, bytes.len);
    return at + bytes.len;
}

size_t amqp_value_size(const coney_value *value, bool key)
{
    if (key)
        return 1 + value->as.bytes.len;
    if (is_number(value))
        return 1 + (size_t)forms[value->type].width;
    size_t length = value->type == CONEY_VALUE_DECIMAL ? 0 : LENGTH_BYTES;
    return 1 + length + value->as.bytes.len;
}

uint8_t *amqp_value_write(uint8_t *at, const coney_value *value, bool key)
{
    coney_bytes bytes = value->as.bytes;
    if (key) {
        *at = (uint8_t)bytes.len;
        return write_bytes_at(at + 1, bytes);
    }
    *at++ = (uint8_t)forms[value->type].tag;
    if (is_number(value)) {
        uint64_t number = number_of(value);
        for (unsigned shift = 8u * forms[value->type].width; shift > 0; shift -= 8)
            *at++ = (uint8_t)(number >> (shift - 8));
        return at;
    }
    if (value->type != CONEY_VALUE_DECIMAL) {
        store32(at, (uint32_t)bytes.len);
        at += LENGTH_BYTES;
    }
    return write_bytes_at(at, bytes);
}

size_t amqp_compound_head_size(uint8_t type, uint32_t count, size_t content)
{
    (void)type;
    (void)count;
    (void)content;
    return 1 + LENGTH_BYTES;
}

uint8_t *amqp_compound_head_write(uint8_t *at, uint8_t type, uint32_t count, size_t content)
{
    (void)count;
    *at = (uint8_t)forms[type].tag;
    store32(at + 1, (uint32_t)content);
    return at + 1 + LENGTH_BYTES;
}

/* What is wrong with an entry; NULL when nothing is. */
static const char *fault_of(const coney_value *key, const coney_value *value)
{
    if (amqp_value_check(key, 1, true) != CONEY_OK)
        return "key";
    return amqp_value_check(value, 1, false) == CONEY_OK ? NULL : coney_value_type_name(value->type);
}

coney_status amqp_table_size(const coney_field *fields, size_t count, size_t *size, const char **field)
{
    size_t sum = 0;
    *size = 0;
    *field = NULL;
    for (size_t i = 0; i < count; i++) {
        coney_value key = coney_value_string(fields[i].key);
        *field = fault_of(&key, &fields[i].value);
        if (*field != NULL)
            return CONEY_EINVAL;
        sum += amqp_value_size(&key, true) + amqp_value_size(&fields[i].value, false);
    }
    if (sum > UINT32_MAX)
        return CONEY_ETOOBIG;
    *size = sum;
    return CONEY_OK;
}

uint8_t *amqp_table_write(uint8_t *at, const coney_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        coney_value key = coney_value_string(fields[i].key);
        at = amqp_value_write(at, &key, true);
        at = amqp_value_write(at, &fields[i].value, false);
    }
    return at;
}

coney_value amqp_table_value(const void *entries, size_t len, size_t count)
{
    coney_value table = coney_value_bytes(CONEY_VALUE_MAP, coney_bytes_of(entries, len));
    table.encoding = CONEY_ENCODING_AMQP091;
    table.count = (uint32_t)(2 * count);
    return table;
}
