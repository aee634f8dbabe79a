/* slots.h: header and properties, which on the wire are lists whose positions have a meaning.
 *
 * One table each says what stands where; reading and writing both follow it. Pure, no allocation, any thread.
 */
#ifndef CONEY_PROTO_AMQP10_SLOTS_H
#define CONEY_PROTO_AMQP10_SLOTS_H

#include <coney/message.h>

#define AMQP10_SLOTS_MAX 13

struct amqp10_slots; /* a table */

extern const struct amqp10_slots amqp10_header_slots;     /* for coney_message_header */
extern const struct amqp10_slots amqp10_properties_slots; /* for coney_message_properties */

/* Takes the values out of `from`, the struct that `slots` is for, and returns how many there are up to the last that is not
 * absent; absent ones between are null. On CONEY_EINVAL returns 0 and *field is the name of the member that does not fit;
 * otherwise *field is NULL. */
uint32_t amqp10_slots_take(const struct amqp10_slots *slots, const void *from, coney_value values[AMQP10_SLOTS_MAX],
                           const char **field);

/* Fills `into` from a list. What the list does not have, or has as null, is absent. False, and *field the name of the member,
 * when a value has the wrong type, the list is longer than it may be, or it cannot be read. */
bool amqp10_slots_fill(const struct amqp10_slots *slots, const coney_value *list, void *into, const char **field);

#endif
