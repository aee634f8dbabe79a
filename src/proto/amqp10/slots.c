/* slots.c: the two tables, and the passage between a struct and the values of a list. */
#include "proto/amqp10/slots.h"
#include "proto/amqp10/value.h"

/* What a slot takes. The last three are coney_bytes in the struct, the others coney_value. */
enum slot_kind {
    SLOT_BOOL,
    SLOT_U8,
    SLOT_U32,
    SLOT_TIMESTAMP,
    SLOT_ID,
    SLOT_BINARY,
    SLOT_STRING,
    SLOT_SYMBOL,
};

struct slot {
    const char *name;
    uint16_t offset;
    uint8_t kind;
};

struct amqp10_slots {
    const char *name;
    size_t size; /* of the struct */
    uint32_t count;
    struct slot slot[AMQP10_SLOTS_MAX];
};

#define HEADER(member, kind)                                                                                                   \
    {                                                                                                                          \
        "header." #member, offsetof(coney_message_header, member), kind                                                        \
    }
#define PROPERTY(member, kind)                                                                                                 \
    {                                                                                                                          \
        "properties." #member, offsetof(coney_message_properties, member), kind                                                \
    }

const struct amqp10_slots amqp10_header_slots = {
    .name = "header",
    .size = sizeof(coney_message_header),
    .count = 5,
    .slot =
        {
            HEADER(durable, SLOT_BOOL),
            HEADER(priority, SLOT_U8),
            HEADER(ttl, SLOT_U32),
            HEADER(first_acquirer, SLOT_BOOL),
            HEADER(delivery_count, SLOT_U32),
        },
};

const struct amqp10_slots amqp10_properties_slots = {
    .name = "properties",
    .size = sizeof(coney_message_properties),
    .count = 13,
    .slot =
        {
            PROPERTY(message_id, SLOT_ID),
            PROPERTY(user_id, SLOT_BINARY),
            PROPERTY(to, SLOT_STRING),
            PROPERTY(subject, SLOT_STRING),
            PROPERTY(reply_to, SLOT_STRING),
            PROPERTY(correlation_id, SLOT_ID),
            PROPERTY(content_type, SLOT_SYMBOL),
            PROPERTY(content_encoding, SLOT_SYMBOL),
            PROPERTY(absolute_expiry_time, SLOT_TIMESTAMP),
            PROPERTY(creation_time, SLOT_TIMESTAMP),
            PROPERTY(group_id, SLOT_STRING),
            PROPERTY(group_sequence, SLOT_U32),
            PROPERTY(reply_to_group_id, SLOT_STRING),
        },
};

#define TYPE(name) (UINT32_C(1) << CONEY_VALUE_##name)

/* The types that may stand in a slot when it is read. */
static const uint32_t accepted[] = {
    [SLOT_BOOL] = TYPE(BOOL),
    [SLOT_U8] = TYPE(U8),
    [SLOT_U32] = TYPE(U32),
    [SLOT_TIMESTAMP] = TYPE(TIMESTAMP),
    [SLOT_ID] = TYPE(U64) | TYPE(UUID) | TYPE(BINARY) | TYPE(STRING),
    [SLOT_BINARY] = TYPE(BINARY),
    [SLOT_STRING] = TYPE(STRING) | TYPE(SYMBOL),
    [SLOT_SYMBOL] = TYPE(STRING) | TYPE(SYMBOL),
};

static bool accepts(const struct slot *slot, const coney_value *value)
{
    return (accepted[slot->kind] >> value->type & 1) != 0;
}

static bool is_bytes(const struct slot *slot)
{
    return slot->kind >= SLOT_BINARY;
}

/* An integer of any type as one of the slot's type. */
static bool narrow(coney_value *value, coney_value_type type, uint64_t max)
{
    uint64_t number;
    if (value->type == CONEY_VALUE_TIMESTAMP || !coney_value_to_u64(value, &number) || number > max)
        return false;
    *value = coney_value_unsigned(type, number);
    return true;
}

static coney_value take_bytes(const struct slot *slot, const void *member)
{
    static const coney_value_type types[] = {
        [SLOT_BINARY] = CONEY_VALUE_BINARY, [SLOT_STRING] = CONEY_VALUE_STRING, [SLOT_SYMBOL] = CONEY_VALUE_SYMBOL};
    coney_bytes bytes;
    memcpy(&bytes, member, sizeof bytes);
    bool absent = bytes.data == NULL && bytes.len == 0;
    return absent ? coney_value_null() : coney_value_bytes(types[slot->kind], bytes);
}

/* The value in `slot` of the struct `from`: null when absent. False: it does not fit. */
static bool take(const struct slot *slot, const void *from, coney_value *out)
{
    const char *member = (const char *)from + slot->offset;
    if (is_bytes(slot))
        *out = take_bytes(slot, member);
    else
        memcpy(out, member, sizeof *out);

    if (out->type == CONEY_VALUE_NULL)
        return true;
    if (amqp10_value_check(out, 1) != CONEY_OK)
        return false;
    if (slot->kind == SLOT_U8)
        return narrow(out, CONEY_VALUE_U8, UINT8_MAX);
    if (slot->kind == SLOT_U32)
        return narrow(out, CONEY_VALUE_U32, UINT32_MAX);
    return accepts(slot, out);
}

uint32_t amqp10_slots_take(const struct amqp10_slots *slots, const void *from, coney_value values[AMQP10_SLOTS_MAX],
                           const char **field)
{
    uint32_t used = 0;
    *field = NULL;
    for (uint32_t i = 0; i < slots->count; i++) {
        if (!take(&slots->slot[i], from, &values[i])) {
            *field = slots->slot[i].name;
            return 0;
        }
        if (values[i].type != CONEY_VALUE_NULL)
            used = i + 1;
    }
    return used;
}

/* Puts a value that was read, and is not null, into its member. False: it has the wrong type. */
static bool fill(const struct slot *slot, const coney_value *value, void *into)
{
    if (!accepts(slot, value))
        return false;
    char *member = (char *)into + slot->offset;
    if (is_bytes(slot))
        memcpy(member, &value->as.bytes, sizeof value->as.bytes);
    else
        memcpy(member, value, sizeof *value);
    return true;
}

bool amqp10_slots_fill(const struct amqp10_slots *slots, const coney_value *list, void *into, const char **field)
{
    coney_value_iter iter = amqp10_elements(list);
    coney_value value;
    memset(into, 0, slots->size);
    *field = slots->name;
    if (list->count > slots->count)
        return false;
    for (uint32_t i = 0; amqp10_next(&iter, &value); i++) {
        if (value.type != CONEY_VALUE_NULL && !fill(&slots->slot[i], &value, into)) {
            *field = slots->slot[i].name;
            return false;
        }
    }
    if (!coney_value_iter_ok(&iter))
        return false;
    *field = NULL;
    return true;
}
