/* fields.h: any method as a row of values, for callers that know it only by its number.
 *
 * The values stand in the order of the specification, the reserved fields included: numbers as integers, short and long strings as strings, bits as
 * booleans, tables as maps. Pure functions; any thread.
 */
#ifndef CONEY_PROTO_AMQP091_FIELDS_H
#define CONEY_PROTO_AMQP091_FIELDS_H

#include "proto/amqp091/codec.h"

enum { AMQP_FIELDS_MOST = 16 };

/* The values of a method, at most AMQP_FIELDS_MOST; returns how many. Strings and tables are the method's views; what is reserved is zero. */
size_t amqp_fields_of(const struct amqp_method *method, coney_value values[AMQP_FIELDS_MOST]);

/* The method that these values are of. A null stands for zero, false, the empty string and the empty table; what is given for reserved fields is not
 * sent. NULL and *out; or what is wrong: "method.id", "method.fields" (too many or too few), or the name of a field whose value does not fit it. */
const char *amqp_method_of_fields(uint32_t id, const coney_value *values, size_t count, struct amqp_method *out);

/* Whether the method as it stands waits for an answer: it is a request, without nowait. */
bool amqp_method_waits(const struct amqp_method *method);

#endif
