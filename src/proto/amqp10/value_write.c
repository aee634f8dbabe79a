/* value_write.c: values to bytes, each in its shortest encoding.
 *
 * A number is first planned (constructor and width), and size and bytes both follow from the plan. */
#include "proto/amqp10/value.h"

/* The constructors of a type that is no view. Zero: there is no such form. */
struct form {
    uint8_t zero;  /* nothing behind it: the number is 0 */
    uint8_t small; /* a byte behind it */
    uint8_t full;  /* `width` bytes behind it */
    uint8_t width;
};

static const struct form forms[] = {
    [CONEY_VALUE_NULL] = {.full = 0x40},
    [CONEY_VALUE_BOOL] = {.zero = 0x42, .full = 0x41},
    [CONEY_VALUE_I8] = {.full = 0x51, .width = 1},
    [CONEY_VALUE_I16] = {.full = 0x61, .width = 2},
    [CONEY_VALUE_I32] = {.small = 0x54, .full = 0x71, .width = 4},
    [CONEY_VALUE_I64] = {.small = 0x55, .full = 0x81, .width = 8},
    [CONEY_VALUE_U8] = {.full = 0x50, .width = 1},
    [CONEY_VALUE_U16] = {.full = 0x60, .width = 2},
    [CONEY_VALUE_U32] = {.zero = 0x43, .small = 0x52, .full = 0x70, .width = 4},
    [CONEY_VALUE_U64] = {.zero = 0x44, .small = 0x53, .full = 0x80, .width = 8},
    [CONEY_VALUE_F32] = {.full = 0x72, .width = 4},
    [CONEY_VALUE_F64] = {.full = 0x82, .width = 8},
    [CONEY_VALUE_CHAR] = {.full = 0x73, .width = 4},
    [CONEY_VALUE_TIMESTAMP] = {.full = 0x83, .width = 8},
};

/* The constructors of the others; a length or size of 32 bits has the bit LARGE added. */
static const uint8_t codes[] = {
    [CONEY_VALUE_UUID] = 0x98,   [CONEY_VALUE_DECIMAL] = 0x74, [CONEY_VALUE_BINARY] = 0xa0,
    [CONEY_VALUE_STRING] = 0xa1, [CONEY_VALUE_SYMBOL] = 0xa3,  [CONEY_VALUE_LIST] = 0xc0,
    [CONEY_VALUE_MAP] = 0xc1,    [CONEY_VALUE_ARRAY] = 0xe0,   [CONEY_VALUE_DESCRIBED] = 0x00,
};

enum { LARGE = 0x10, EMPTY_LIST = 0x45 };

struct plan {
    uint8_t code;
    uint8_t width;
    uint64_t number;
};

static uint64_t number_of(const coney_value *value)
{
    uint32_t bits;
    if (value->type == CONEY_VALUE_BOOL)
        return value->as.boolean;
    if (value->type != CONEY_VALUE_F32)
        return value->as.u64;
    memcpy(&bits, &value->as.f32, sizeof bits);
    return bits;
}

/* False: the value is a view. */
static bool plan_number(const coney_value *value, struct plan *plan)
{
    if (value->type >= sizeof forms / sizeof *forms)
        return false;
    const struct form *form = &forms[value->type];
    uint64_t number = number_of(value);
    bool is_signed = value->type == CONEY_VALUE_I32 || value->type == CONEY_VALUE_I64;
    bool small = is_signed ? value->as.i64 >= INT8_MIN && value->as.i64 <= INT8_MAX : number <= UINT8_MAX;
    if (form->zero != 0 && number == 0)
        *plan = (struct plan){form->zero, 0, 0};
    else if (form->small != 0 && small)
        *plan = (struct plan){form->small, 1, number};
    else
        *plan = (struct plan){form->full, form->width, number};
    return true;
}

/* Whether size and count of a compound value fit into a byte each. */
static bool compact(uint32_t count, size_t content)
{
    return count <= UINT8_MAX && content < UINT8_MAX;
}

size_t amqp10_compound_head_size(uint8_t type, uint32_t count, size_t content)
{
    if (type == CONEY_VALUE_LIST && count == 0)
        return 1;
    return compact(count, content) ? 3 : 9;
}

uint8_t *amqp10_compound_head_write(uint8_t *at, uint8_t type, uint32_t count, size_t content)
{
    if (type == CONEY_VALUE_LIST && count == 0) {
        *at = EMPTY_LIST;
        return at + 1;
    }
    uint8_t code = codes[type];
    if (compact(count, content)) {
        at[0] = code;
        at[1] = (uint8_t)(content + 1);
        at[2] = (uint8_t)count;
        return at + 3;
    }
    at[0] = code | LARGE;
    store32(at + 1, (uint32_t)(content + 4));
    store32(at + 5, count);
    return at + 9;
}

static bool has_count(const coney_value *value)
{
    return value->type == CONEY_VALUE_LIST || value->type == CONEY_VALUE_MAP || value->type == CONEY_VALUE_ARRAY;
}

static bool has_length(const coney_value *value)
{
    return value->type == CONEY_VALUE_BINARY || value->type == CONEY_VALUE_STRING || value->type == CONEY_VALUE_SYMBOL;
}

static size_t head_size(const coney_value *value)
{
    if (has_count(value))
        return amqp10_compound_head_size(value->type, value->count, value->as.bytes.len);
    if (has_length(value))
        return value->as.bytes.len <= UINT8_MAX ? 2 : 5;
    return 1;
}

static uint8_t *write_head(uint8_t *at, const coney_value *value)
{
    size_t len = value->as.bytes.len;
    uint8_t code = codes[value->type];
    if (has_count(value))
        return amqp10_compound_head_write(at, value->type, value->count, len);
    if (has_length(value) && len > UINT8_MAX) {
        *at = code | LARGE;
        store32(at + 1, (uint32_t)len);
        return at + 5;
    }
    *at++ = value->type == CONEY_VALUE_DECIMAL ? (uint8_t)(code + len / 8 * LARGE) : code; /* 0x74, 0x84, 0x94 */
    if (has_length(value))
        *at++ = (uint8_t)len;
    return at;
}

size_t amqp10_value_size(const coney_value *value)
{
    struct plan plan;
    if (plan_number(value, &plan))
        return 1 + (size_t)plan.width;
    return head_size(value) + value->as.bytes.len;
}

uint8_t *amqp10_value_write(uint8_t *at, const coney_value *value)
{
    struct plan plan;
    if (plan_number(value, &plan)) {
        *at++ = plan.code;
        for (unsigned shift = 8u * plan.width; shift > 0; shift -= 8)
            *at++ = (uint8_t)(plan.number >> (shift - 8));
        return at;
    }
    at = write_head(at, value);
    if (value->as.bytes.len > 0)
        memcpy(at, value->as.bytes.data, value->as.bytes.len);
    return at + value->as.bytes.len;
}
