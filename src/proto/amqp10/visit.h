/* visit.h: for tests and the fuzzer: reads everything that a parsed message offers.
 *
 * What coney_message_parse accepted must be readable to the last byte, so a walk that ends early ends the process. The sum
 * that comes back depends on every byte read, so that no read is optimised away.
 */
#ifndef CONEY_PROTO_AMQP10_VISIT_H
#define CONEY_PROTO_AMQP10_VISIT_H

#include <coney/message.h>

#include <stdlib.h>

static inline uint64_t visit_bytes(coney_bytes bytes)
{
    const uint8_t *at = bytes.data;
    uint64_t sum = bytes.len;
    for (size_t i = 0; i < bytes.len; i++)
        sum = sum * 31 + at[i];
    return sum;
}

static inline uint64_t visit_value(const coney_value *value)
{
    if (value->type < CONEY_VALUE_UUID)
        return value->type;
    if (value->type < CONEY_VALUE_LIST)
        return visit_bytes(value->as.bytes);
    uint64_t sum = value->count;
    uint32_t count = 0;
    coney_value element;
    coney_value_iter iter = coney_value_elements(value);
    for (; coney_value_next(&iter, &element); count++)
        sum = sum * 31 + visit_value(&element);
    if (!coney_value_iter_ok(&iter) || count != value->count)
        abort();
    return sum;
}

static inline uint64_t visit_message(const coney_message_view *view)
{
    const coney_value *const maps[] = {&view->header,     &view->delivery_annotations,   &view->message_annotations,
                                       &view->properties, &view->application_properties, &view->footer};
    uint64_t sum = 0;
    uint32_t sections = 0;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        sum = sum * 31 + visit_value(maps[i]);

    coney_value section;
    for (coney_body_iter body = coney_message_body(view); coney_message_body_next(&body, &section); sections++)
        sum = sum * 31 + visit_value(&section);
    if (sections != view->body_sections)
        abort();

    coney_message_header header;
    coney_message_properties properties;
    if (coney_message_get_header(view, &header) != (view->header.type != CONEY_VALUE_NULL))
        abort();
    if (coney_message_get_properties(view, &properties) != (view->properties.type != CONEY_VALUE_NULL))
        abort();
    return sum + visit_value(&properties.message_id) + visit_bytes(properties.to) + visit_bytes(properties.group_id);
}

#endif
