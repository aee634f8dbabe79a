/* body.h: finding the body of a message without decoding the rest.
 *
 * The slow path of a delivery, taken when amqp10_data_only says no. Sections are stepped over by their size; only their
 * framing, order and number are checked, never what is inside the others. Pure, no allocation, any thread.
 */
#ifndef CONEY_PROTO_AMQP10_BODY_H
#define CONEY_PROTO_AMQP10_BODY_H

#include <coney/message.h>

/* What kind of body `entry` has. *body becomes a view into `entry`: NONE empty; DATA the content of the one data section;
 * VALUE the encoded value, its constructor first; PARTS (several data sections) and SEQUENCE the body sections as they are
 * encoded; UNREADABLE (no AMQP 1.0 message, or a damaged one) the whole entry. */
coney_body_kind amqp10_body_find(coney_bytes entry, coney_bytes *body);

#endif
