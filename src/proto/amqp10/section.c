/* section.c: one table of sections, and the walk that reads it. */
#include "proto/amqp10/section.h"
#include "proto/amqp10/value.h"
#include <coney/message.h>

#define ANY_TYPE UINT8_MAX

static const struct section_kind {
    const char *name;
    const char *symbol; /* the descriptor in its long form */
    uint8_t type;
    bool repeats;
} kinds[] = {
    {"header", "amqp:header:list", CONEY_VALUE_LIST, false},
    {"delivery_annotations", "amqp:delivery-annotations:map", CONEY_VALUE_MAP, false},
    {"message_annotations", "amqp:message-annotations:map", CONEY_VALUE_MAP, false},
    {"properties", "amqp:properties:list", CONEY_VALUE_LIST, false},
    {"application_properties", "amqp:application-properties:map", CONEY_VALUE_MAP, false},
    {"data section", "amqp:data:binary", CONEY_VALUE_BINARY, true},
    {"amqp-sequence section", "amqp:amqp-sequence:list", CONEY_VALUE_LIST, true},
    {"amqp-value section", "amqp:amqp-value:*", ANY_TYPE, false},
    {"footer", "amqp:footer:map", CONEY_VALUE_MAP, false},
};

enum { KINDS = sizeof kinds / sizeof *kinds, DESCRIBED = 0x00 };

static const struct section_kind *kind_of(uint8_t code)
{
    return &kinds[code - AMQP10_HEADER];
}

const char *amqp10_section_name(uint8_t code)
{
    return kind_of(code)->name;
}

static uint8_t code_of_symbol(coney_bytes symbol)
{
    for (uint8_t i = 0; i < KINDS; i++) {
        if (bytes_equal(symbol, coney_bytes_of(kinds[i].symbol, strlen(kinds[i].symbol))))
            return AMQP10_HEADER + i;
    }
    return 0;
}

/* The descriptor of the next section: a small ulong from every emitter that is known, but a long one or a symbol mean the
 * same. 0 and a failed reader when it is none of ours. */
static uint8_t read_descriptor(struct reader *r)
{
    static const char field[] = "section descriptor";
    coney_value descriptor = coney_value_null();
    uint8_t code = 0;
    if (read8(r, field) != DESCRIBED)
        reader_fail(r, field);
    if (!amqp10_value_read(r, 0, field, &descriptor))
        return 0;
    if (descriptor.type == CONEY_VALUE_U64 && descriptor.as.u64 >= AMQP10_HEADER && descriptor.as.u64 <= AMQP10_FOOTER)
        code = (uint8_t)descriptor.as.u64;
    else if (descriptor.type == CONEY_VALUE_SYMBOL)
        code = code_of_symbol(descriptor.as.bytes);
    if (code == 0)
        reader_fail(r, field);
    return code;
}

static bool may_follow(uint8_t last, uint8_t code)
{
    if (amqp10_section_is_body(last) && amqp10_section_is_body(code))
        return last == code && kind_of(code)->repeats;
    return code > last;
}

bool amqp10_walk_next(struct amqp10_walk *walk, struct amqp10_section *out)
{
    struct reader *r = &walk->r;
    if (reader_left(r) == 0)
        return false;
    const uint8_t *start = r->at;
    uint8_t code = read_descriptor(r);
    if (code == 0)
        return false;
    if (++walk->count > CONEY_MESSAGE_SECTIONS)
        reader_fail(r, "number of sections");
    if (!may_follow(walk->last, code))
        reader_fail(r, "order of sections");
    walk->last = code;

    const uint8_t *payload = r->at;
    coney_value value;
    if (amqp10_value_read(r, 0, amqp10_section_name(code), &value) && kind_of(code)->type != ANY_TYPE &&
        kind_of(code)->type != value.type)
        reader_fail(r, amqp10_section_name(code));
    if (!reader_ok(r))
        return false;
    out->code = code;
    out->encoded = coney_bytes_of(start, (size_t)(r->at - start));
    out->payload = coney_bytes_of(payload, (size_t)(r->at - payload));
    out->value = value;
    return true;
}
