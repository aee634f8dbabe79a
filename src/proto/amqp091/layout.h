/* layout.h: the methods of AMQP 0-9-1 as data; private to the codec.
 *
 * A layout names the fields of a method in wire order, with their places in struct amqp_method. Encoding and decoding are two
 * loops over it, so they cannot disagree. A field's name is what a decoder says when the field is wrong.
 */
#ifndef CONEY_PROTO_AMQP091_LAYOUT_H
#define CONEY_PROTO_AMQP091_LAYOUT_H

#include "proto/amqp091/codec.h"

enum field_kind {
    FIELD_U8,
    FIELD_U16,
    FIELD_U32,
    FIELD_U64,
    FIELD_SHORT, /* u8 length, bytes */
    FIELD_LONG,  /* u32 length, bytes */
    FIELD_BIT,   /* neighbours share an octet, the first is its lowest bit */
    FIELD_TABLE,
    FIELD_RESERVED_U16, /* the reserved have no place: written as zero, passed over when read */
    FIELD_RESERVED_SHORT,
    FIELD_RESERVED_LONG,
    FIELD_RESERVED_BIT
};

struct layout_field {
    enum field_kind kind;
    uint16_t at;      /* offset in struct amqp_method */
    const char *name; /* NULL: behind the last field */
};

struct layout_method {
    uint32_t id;
    const char *name;
    uint8_t senders; /* enum amqp_side, or-ed */
    bool content;
    uint32_t answers[2]; /* what may answer it; 0: nothing */
    const struct layout_field *fields;
};

/* All methods, by rising id. */
extern const struct layout_method layout_methods[];
extern const size_t layout_method_count;

/* NULL when there is no such method. */
const struct layout_method *layout_method_of(uint32_t id);

#endif
