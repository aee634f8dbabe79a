/* section.h: the walk over the sections of a message.
 *
 * Each section is a described value. The walk reads its descriptor, steps over its value by size, and checks that the value
 * is of the section's type, that sections come in their order and none twice that may not, and that they are not too many.
 * Pure, no allocation, any thread.
 */
#ifndef CONEY_PROTO_AMQP10_SECTION_H
#define CONEY_PROTO_AMQP10_SECTION_H

#include "base/bytes.h"
#include <coney/value.h>

/* The numeric descriptors, in the order in which sections come. */
enum {
    AMQP10_HEADER = 0x70,
    AMQP10_DELIVERY_ANNOTATIONS = 0x71,
    AMQP10_MESSAGE_ANNOTATIONS = 0x72,
    AMQP10_PROPERTIES = 0x73,
    AMQP10_APPLICATION_PROPERTIES = 0x74,
    AMQP10_DATA = 0x75,
    AMQP10_SEQUENCE = 0x76,
    AMQP10_VALUE = 0x77,
    AMQP10_FOOTER = 0x78,
};

struct amqp10_section {
    uint8_t code;
    coney_bytes encoded; /* the whole section */
    coney_bytes payload; /* its value, constructor first */
    coney_value value;
};

struct amqp10_walk {
    struct reader r; /* `r.field` is what could not be read, NULL at a regular end */
    uint32_t count;
    uint8_t last; /* code of the section before, 0 at the start */
};

static inline struct amqp10_walk amqp10_walk_of(coney_bytes message)
{
    return (struct amqp10_walk){.r = reader_of(message.data, message.len)};
}

/* The next section: true, or false at the end or at a fault, which `walk->r.field` tells apart. */
bool amqp10_walk_next(struct amqp10_walk *walk, struct amqp10_section *out);

static inline bool amqp10_section_is_body(uint8_t code)
{
    return code >= AMQP10_DATA && code <= AMQP10_VALUE;
}

/* The member of coney_message that the section fills. Static memory. */
const char *amqp10_section_name(uint8_t code);

#endif
