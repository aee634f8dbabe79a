/* encode.c: a message literal to its sections.
 *
 * Size and write walk the same sections in the same order; whatever can be wrong with a message is found while sizing. */
#include "proto/amqp10/data.h"
#include "proto/amqp10/message.h"
#include "proto/amqp10/section.h"
#include "proto/amqp10/slots.h"
#include "proto/amqp10/value.h"

enum { SECTION_HEAD = 3 };

static uint8_t *write_section_head(uint8_t *at, uint8_t code)
{
    at[0] = 0x00;
    at[1] = 0x53;
    at[2] = code;
    return at + SECTION_HEAD;
}

/* The walk that sizes: the sum so far, and what was wrong first. */
struct sizing {
    size_t size;
    coney_status status;
    const char *field;
};

static void refuse(struct sizing *s, coney_status status, const char *field)
{
    if (s->status != CONEY_OK)
        return;
    s->status = status;
    s->field = field;
}

/* Header and properties ------------------------------------------------------------------------------------------ */

static size_t content_of_values(const coney_value *values, uint32_t count)
{
    size_t content = 0;
    for (uint32_t i = 0; i < count; i++)
        content += amqp10_value_size(&values[i]);
    return content;
}

static void size_slots(struct sizing *s, uint8_t code, const struct amqp10_slots *slots, const void *from)
{
    coney_value values[AMQP10_SLOTS_MAX];
    const char *field;
    uint32_t count = amqp10_slots_take(slots, from, values, &field);
    size_t content = content_of_values(values, count);
    if (field != NULL)
        refuse(s, CONEY_EINVAL, field);
    else if (content > AMQP10_CONTENT_MAX)
        refuse(s, CONEY_ETOOBIG, amqp10_section_name(code));
    else if (count > 0)
        s->size += SECTION_HEAD + amqp10_compound_head_size(CONEY_VALUE_LIST, count, content) + content;
}

static uint8_t *write_slots(uint8_t *at, uint8_t code, const struct amqp10_slots *slots, const void *from)
{
    coney_value values[AMQP10_SLOTS_MAX];
    const char *field;
    uint32_t count = amqp10_slots_take(slots, from, values, &field);
    if (count == 0)
        return at;
    at = write_section_head(at, code);
    at = amqp10_compound_head_write(at, CONEY_VALUE_LIST, count, content_of_values(values, count));
    for (uint32_t i = 0; i < count; i++)
        at = amqp10_value_write(at, &values[i]);
    return at;
}

/* Maps ----------------------------------------------------------------------------------------------------------- */

struct map {
    uint8_t code;
    const coney_field *fields;
    size_t count;
};

static coney_value map_key(const struct map *map, const coney_field *field)
{
    return map->code == AMQP10_APPLICATION_PROPERTIES ? coney_value_string(field->key) : coney_value_symbol(field->key);
}

/* What <coney/message.h> says of the entries of each map. */
static bool entry_fits(const struct map *map, const coney_field *field)
{
    coney_value key = map_key(map, field);
    if (amqp10_value_check(&key, 1) != CONEY_OK || amqp10_value_check(&field->value, 1) != CONEY_OK)
        return false;
    if (map->code == AMQP10_APPLICATION_PROPERTIES)
        return !value_is_compound(&field->value);
    return field->key.len >= 2 && memcmp(field->key.data, "x-", 2) == 0;
}

static size_t content_of_map(const struct map *map)
{
    size_t content = 0;
    for (size_t i = 0; i < map->count; i++) {
        coney_value key = map_key(map, &map->fields[i]);
        content += amqp10_value_size(&key) + amqp10_value_size(&map->fields[i].value);
    }
    return content;
}

static void size_map(struct sizing *s, struct map map)
{
    if (map.count == 0)
        return;
    bool fits = map.fields != NULL;
    for (size_t i = 0; fits && i < map.count; i++)
        fits = entry_fits(&map, &map.fields[i]);
    if (!fits) {
        refuse(s, CONEY_EINVAL, amqp10_section_name(map.code));
        return;
    }
    size_t content = content_of_map(&map);
    if (content > AMQP10_CONTENT_MAX || map.count > UINT32_MAX / 2)
        refuse(s, CONEY_ETOOBIG, amqp10_section_name(map.code));
    else
        s->size += SECTION_HEAD + amqp10_compound_head_size(CONEY_VALUE_MAP, (uint32_t)map.count * 2, content) + content;
}

static uint8_t *write_map(uint8_t *at, struct map map)
{
    if (map.count == 0)
        return at;
    at = write_section_head(at, map.code);
    at = amqp10_compound_head_write(at, CONEY_VALUE_MAP, (uint32_t)map.count * 2, content_of_map(&map));
    for (size_t i = 0; i < map.count; i++) {
        coney_value key = map_key(&map, &map.fields[i]);
        at = amqp10_value_write(at, &key);
        at = amqp10_value_write(at, &map.fields[i].value);
    }
    return at;
}

static struct map delivery_annotations(const coney_message *m)
{
    return (struct map){AMQP10_DELIVERY_ANNOTATIONS, m->delivery_annotations, m->delivery_annotation_count};
}

static struct map message_annotations(const coney_message *m)
{
    return (struct map){AMQP10_MESSAGE_ANNOTATIONS, m->message_annotations, m->message_annotation_count};
}

static struct map application_properties(const coney_message *m)
{
    return (struct map){AMQP10_APPLICATION_PROPERTIES, m->application_properties, m->application_property_count};
}

static struct map footer(const coney_message *m)
{
    return (struct map){AMQP10_FOOTER, m->footer, m->footer_count};
}

/* The body ------------------------------------------------------------------------------------------------------- */

static void size_data(struct sizing *s, const coney_message *m)
{
    if (m->value.type != CONEY_VALUE_NULL)
        refuse(s, CONEY_EINVAL, "value");
    else if (m->body.data == NULL && m->body.len > 0)
        refuse(s, CONEY_EINVAL, "body");
    else if (m->body.len > UINT32_MAX)
        refuse(s, CONEY_ETOOBIG, "body");
    else
        s->size += amqp10_data_size(m->body.len);
}

static void size_body(struct sizing *s, const coney_message *m)
{
    if (m->body_kind == CONEY_BODY_DATA) {
        size_data(s, m);
        return;
    }
    if (m->body_kind != CONEY_BODY_VALUE && m->body_kind != CONEY_BODY_SEQUENCE)
        refuse(s, CONEY_EINVAL, "body_kind");
    else if (m->body.len > 0)
        refuse(s, CONEY_EINVAL, "body");
    else if (m->body_kind == CONEY_BODY_SEQUENCE && m->value.type != CONEY_VALUE_LIST)
        refuse(s, CONEY_EINVAL, "value");
    else if (amqp10_value_check(&m->value, 0) != CONEY_OK)
        refuse(s, CONEY_EINVAL, "value");
    else
        s->size += SECTION_HEAD + amqp10_value_size(&m->value);
}

static uint8_t *write_body(uint8_t *at, const coney_message *m)
{
    if (m->body_kind == CONEY_BODY_DATA)
        return amqp10_data_write(at, m->body);
    at = write_section_head(at, m->body_kind == CONEY_BODY_VALUE ? AMQP10_VALUE : AMQP10_SEQUENCE);
    return amqp10_value_write(at, &m->value);
}

/* The message ---------------------------------------------------------------------------------------------------- */

coney_status amqp10_message_size(const coney_message *m, size_t *size, const char **field)
{
    struct sizing s = {0};
    uint64_t reserved = m->reserved;
    for (size_t i = 0; i < sizeof m->reserved_more / sizeof *m->reserved_more; i++)
        reserved |= m->reserved_more[i];
    if (reserved != 0)
        refuse(&s, CONEY_EINVAL, "reserved");
    size_slots(&s, AMQP10_HEADER, &amqp10_header_slots, &m->header);
    size_map(&s, delivery_annotations(m));
    size_map(&s, message_annotations(m));
    size_slots(&s, AMQP10_PROPERTIES, &amqp10_properties_slots, &m->properties);
    size_map(&s, application_properties(m));
    size_body(&s, m);
    size_map(&s, footer(m));

    *size = s.status == CONEY_OK ? s.size : 0;
    if (field != NULL)
        *field = s.field;
    return s.status;
}

void amqp10_message_write(const coney_message *m, uint8_t *at)
{
    at = write_slots(at, AMQP10_HEADER, &amqp10_header_slots, &m->header);
    at = write_map(at, delivery_annotations(m));
    at = write_map(at, message_annotations(m));
    at = write_slots(at, AMQP10_PROPERTIES, &amqp10_properties_slots, &m->properties);
    at = write_map(at, application_properties(m));
    at = write_body(at, m);
    write_map(at, footer(m));
}

coney_status coney_message_encode(const coney_message *m, void *into, size_t cap, size_t *size, const char **field)
{
    coney_status status = amqp10_message_size(m, size, field);
    if (status != CONEY_OK)
        return status;
    if (*size > cap)
        return CONEY_ETOOBIG;
    amqp10_message_write(m, into);
    return CONEY_OK;
}
