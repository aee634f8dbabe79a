/* body.h: finding the body of a message without decoding the rest.
 *
 * The slow path of a delivery, taken when amqp10_data_only says no. Sections are stepped over by their size; only their
 * framing, order and number are checked, never what is inside the others. Pure, no allocation, any thread.
 */
#ifndef CONEY_PROTO_AMQP10_BODY_H
#define CONEY_PROTO_AMQP10_BODY_H

#include "base/bytes.h"

enum amqp10_body {
    AMQP10_BODY_NONE,       /* well framed, but there is no body section: read it as an empty body */
    AMQP10_BODY_DATA,       /* one data section */
    AMQP10_BODY_PARTS,      /* several data sections: join them with coney_message_body_copy */
    AMQP10_BODY_VALUE,      /* an amqp-value section */
    AMQP10_BODY_SEQUENCE,   /* one or more amqp-sequence sections */
    AMQP10_BODY_UNREADABLE, /* not an AMQP 1.0 message, or a damaged one */
};

/* What kind of body `entry` has. *body becomes a view into `entry`: NONE empty; DATA the content of the section; VALUE the
 * encoded value, its constructor first; PARTS and SEQUENCE the body sections as they are encoded; UNREADABLE the whole
 * entry. */
enum amqp10_body amqp10_body_find(coney_bytes entry, coney_bytes *body);

#endif
