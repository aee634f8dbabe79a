/* value_check.c: whether a value, from the wire or of a user's making, can be read and sent. */
#include "proto/amqp10/value.h"

/* Begins a walk. False when there is nothing to look at: the elements of an array have no bytes, however many there are. */
static bool enter(const coney_value *value, coney_value_iter *iter)
{
    *iter = coney_value_elements(value);
    return iter->failed || iter->element == 0 || iter->at != iter->end;
}

/* Whether everything in a compound value can be read. */
static bool readable(const coney_value *value)
{
    coney_value_iter open[CONEY_VALUE_DEPTH + 2];
    unsigned depth = enter(value, &open[0]);
    while (depth > 0) {
        coney_value_iter *iter = &open[depth - 1];
        coney_value element;
        if (!coney_value_next(iter, &element)) {
            if (iter->failed)
                return false;
            depth--;
        } else if (amqp10_value_compound(&element))
            depth += enter(&element, &open[depth]);
    }
    return true;
}

/* What amqp10_value_read asks of a descriptor. */
static bool has_descriptor(const coney_value *described)
{
    coney_value_iter iter = coney_value_elements(described);
    coney_value descriptor;
    return coney_value_next(&iter, &descriptor) &&
           (descriptor.type == CONEY_VALUE_U64 || descriptor.type == CONEY_VALUE_SYMBOL);
}

/* A compound value, whoever made it. */
static coney_status check_compound(const coney_value *value, uint8_t depth)
{
    coney_value nested = *value;
    nested.depth = depth;
    size_t content = value->as.bytes.len;
    if (value->encoding != 0)
        return CONEY_EINVAL;
    if (depth > CONEY_VALUE_DEPTH || content > AMQP10_CONTENT_MAX || !amqp10_count_fits(value->type, value->count, content))
        return CONEY_ECORRUPT;
    if (value->type == CONEY_VALUE_DESCRIBED && !has_descriptor(&nested))
        return CONEY_ECORRUPT;
    return readable(&nested) ? CONEY_OK : CONEY_ECORRUPT;
}

static bool signed_fits(int64_t number, unsigned bits)
{
    return number >= -(INT64_C(1) << (bits - 1)) && number < INT64_C(1) << (bits - 1);
}

coney_status amqp10_value_check(const coney_value *value, uint8_t depth)
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
    case CONEY_VALUE_DECIMAL:
        valid = value->as.bytes.len == 4 || value->as.bytes.len == 8 || value->as.bytes.len == 16;
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
        return check_compound(value, depth);
    }
    return valid && value->type <= CONEY_VALUE_DESCRIBED ? CONEY_OK : CONEY_EINVAL;
}

coney_status coney_value_check(const coney_value *value)
{
    return amqp10_value_check(value, 0);
}
