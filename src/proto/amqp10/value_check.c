/* value_check.c: whether a value, from the wire or of a user's making, can be read and sent. */
#include "proto/amqp10/value.h"

/* Begins a walk. False when there is nothing to look at: the elements of an array have no bytes, however many there are. */
static bool enter(const coney_value *value, coney_value_iter *iter)
{
    *iter = amqp10_elements(value);
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
        if (!amqp10_next(iter, &element)) {
            if (iter->failed)
                return false;
            depth--;
        } else if (value_is_compound(&element))
            depth += enter(&element, &open[depth]);
    }
    return true;
}

/* What amqp10_value_read asks of a descriptor. */
static bool has_descriptor(const coney_value *described)
{
    coney_value_iter iter = amqp10_elements(described);
    coney_value descriptor;
    return amqp10_next(&iter, &descriptor) && (descriptor.type == CONEY_VALUE_U64 || descriptor.type == CONEY_VALUE_SYMBOL);
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

coney_status amqp10_value_check(const coney_value *value, uint8_t depth)
{
    size_t len = value->as.bytes.len;
    if (value_is_compound(value) && value->type <= CONEY_VALUE_DESCRIBED)
        return value->as.bytes.data == NULL && len > 0 ? CONEY_EINVAL : check_compound(value, depth);
    if (value->type == CONEY_VALUE_DECIMAL && (value->encoding != 0 || (len != 4 && len != 8 && len != 16)))
        return CONEY_EINVAL;
    return value_check_plain(value);
}
