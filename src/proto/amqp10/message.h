/* message.h: encoding a coney_message straight into memory that the caller has set aside for it.
 *
 * Two passes: the size, in which everything is checked, then the bytes. A message with only a body goes faster through
 * data.h. Reading is coney_message_parse of <coney/message.h>. Pure, no allocation, any thread.
 */
#ifndef CONEY_PROTO_AMQP10_MESSAGE_H
#define CONEY_PROTO_AMQP10_MESSAGE_H

#include "base/bytes.h"
#include <coney/message.h>

/* Checks `m` and gives the number of bytes that amqp10_message_write will write. When it fails, *size is 0 and *field, unless
 * `field` is NULL, is the static name of the member at fault, NULL otherwise.
 * CONEY_EINVAL: the member does not fit its slot, as <coney/message.h> states for each.
 * CONEY_ETOOBIG: a section would pass the 4 GiB that its length field can say. */
coney_status amqp10_message_size(const coney_message *m, size_t *size, const char **field);

/* Writes exactly the bytes that amqp10_message_size counted. `m` must have passed it, unchanged since. */
void amqp10_message_write(const coney_message *m, uint8_t *at);

#endif
