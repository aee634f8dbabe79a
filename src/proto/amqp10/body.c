/* body.c: the body of a message, found by stepping over everything else. */
#include "proto/amqp10/body.h"
#include "proto/amqp10/section.h"

/* From the first body section to the end of the last one. */
static coney_bytes join(coney_bytes first, coney_bytes last)
{
    const uint8_t *start = first.data;
    const uint8_t *end = (const uint8_t *)last.data + last.len;
    return coney_bytes_of(start, (size_t)(end - start));
}

coney_body_kind amqp10_body_find(coney_bytes entry, coney_bytes *body)
{
    struct amqp10_walk walk = amqp10_walk_of(entry);
    struct amqp10_section section;
    coney_body_kind kind = CONEY_BODY_NONE;
    coney_bytes first = {0};
    *body = first;
    while (amqp10_walk_next(&walk, &section)) {
        if (!amqp10_section_is_body(section.code))
            continue;
        if (first.len == 0)
            first = section.encoded;
        if (section.code == AMQP10_VALUE) {
            kind = CONEY_BODY_VALUE;
            *body = section.payload;
        } else if (section.code == AMQP10_SEQUENCE) {
            kind = CONEY_BODY_SEQUENCE;
            *body = join(first, section.encoded);
        } else if (kind == CONEY_BODY_NONE) {
            kind = CONEY_BODY_DATA;
            *body = section.value.as.bytes;
        } else {
            kind = CONEY_BODY_PARTS;
            *body = join(first, section.encoded);
        }
    }
    if (reader_ok(&walk.r))
        return kind;
    *body = entry;
    return CONEY_BODY_UNREADABLE;
}
