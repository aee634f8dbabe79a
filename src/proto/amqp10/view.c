/* view.c: a whole message read and checked once, so that nothing asked of it later can fail. */
#include "proto/amqp10/section.h"
#include "proto/amqp10/slots.h"
#include "proto/amqp10/value.h"

/* The place of a section that is not part of the body. */
static coney_value *place_of(coney_message_view *view, uint8_t code)
{
    switch (code) {
    case AMQP10_HEADER:
        return &view->header;
    case AMQP10_DELIVERY_ANNOTATIONS:
        return &view->delivery_annotations;
    case AMQP10_MESSAGE_ANNOTATIONS:
        return &view->message_annotations;
    case AMQP10_PROPERTIES:
        return &view->properties;
    case AMQP10_APPLICATION_PROPERTIES:
        return &view->application_properties;
    default:
        return &view->footer;
    }
}

static const char *check_section(const struct amqp10_section *section)
{
    coney_message_header header;
    coney_message_properties properties;
    const char *field = NULL;
    if (amqp10_value_check(&section->value, 0) != CONEY_OK)
        return amqp10_section_name(section->code);
    if (section->code == AMQP10_HEADER)
        amqp10_slots_fill(&amqp10_header_slots, &section->value, &header, &field);
    else if (section->code == AMQP10_PROPERTIES)
        amqp10_slots_fill(&amqp10_properties_slots, &section->value, &properties, &field);
    return field;
}

static void add_body_section(coney_message_view *view, const struct amqp10_section *section)
{
    static const uint8_t kinds[] = {CONEY_BODY_DATA, CONEY_BODY_SEQUENCE, CONEY_BODY_VALUE};
    view->body_kind = kinds[section->code - AMQP10_DATA];
    if (view->body_sections++ == 0)
        view->body = section->encoded;
    else
        view->body.len += section->encoded.len;
    if (view->body_kind == CONEY_BODY_DATA)
        view->body_size += section->value.as.bytes.len;
}

coney_status coney_message_parse(coney_bytes encoded, coney_message_view *out)
{
    struct amqp10_walk walk = amqp10_walk_of(encoded);
    struct amqp10_section section;
    memset(out, 0, sizeof *out);
    out->encoded = encoded;
    out->body_kind = CONEY_BODY_NONE;
    while (out->error == NULL && amqp10_walk_next(&walk, &section)) {
        out->error = check_section(&section);
        if (amqp10_section_is_body(section.code))
            add_body_section(out, &section);
        else
            *place_of(out, section.code) = section.value;
    }
    if (out->error == NULL)
        out->error = walk.r.field;
    return out->error == NULL ? CONEY_OK : CONEY_ECORRUPT;
}

/* A list that is absent is a null value, which has no elements and so leaves every slot absent. */
bool coney_message_get_header(const coney_message_view *view, coney_message_header *out)
{
    const char *field;
    return amqp10_slots_fill(&amqp10_header_slots, &view->header, out, &field) && view->header.type == CONEY_VALUE_LIST;
}

bool coney_message_get_properties(const coney_message_view *view, coney_message_properties *out)
{
    const char *field;
    return amqp10_slots_fill(&amqp10_properties_slots, &view->properties, out, &field) &&
           view->properties.type == CONEY_VALUE_LIST;
}

coney_body_iter coney_message_body(const coney_message_view *view)
{
    struct reader r = reader_of(view->body.data, view->body.len);
    return (coney_body_iter){.at = r.at, .end = r.end};
}

bool coney_message_body_next(coney_body_iter *iter, coney_value *out)
{
    struct amqp10_walk walk = {.r = {.at = iter->at, .end = iter->end}};
    struct amqp10_section section;
    bool more = amqp10_walk_next(&walk, &section);
    iter->at = walk.r.at;
    if (more)
        *out = section.value;
    return more;
}

size_t coney_message_body_size(const coney_message_view *view)
{
    return (size_t)view->body_size;
}

size_t coney_message_body_copy(const coney_message_view *view, void *into, size_t cap)
{
    coney_body_iter iter = coney_message_body(view);
    coney_value section;
    size_t copied = 0;
    if (view->body_kind != CONEY_BODY_DATA)
        return 0;
    while (copied < cap && coney_message_body_next(&iter, &section)) {
        coney_bytes part = section.as.bytes;
        size_t len = part.len < cap - copied ? part.len : cap - copied;
        if (len > 0)
            memcpy((uint8_t *)into + copied, part.data, len);
        copied += len;
    }
    return copied;
}
