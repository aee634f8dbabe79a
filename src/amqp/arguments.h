/* arguments.h: the fields of an exchange, a queue or a binding as the table of arguments that goes on the wire.
 *
 *     struct arguments arguments;
 *     coney_status status = arguments_of_queue(&arguments, &queue, call);      // refused with the field's name, or fine
 *     uint8_t *entries = malloc(arguments.size);
 *     coney_value table = arguments_write(&arguments, entries);
 *
 * Pure functions but for `call`, which is told what is wrong; any thread. Strings and values are borrowed until the table is written.
 */
#ifndef CONEY_AMQP_ARGUMENTS_H
#define CONEY_AMQP_ARGUMENTS_H

#include <coney/amqp.h>

struct arguments {
    coney_field typed[20]; /* what the fields come to */
    size_t typed_count;
    const coney_field *further; /* the user's own */
    size_t further_count;
    size_t size; /* bytes of all entries */
    char max_age[24];
};

/* Fill *arguments. CONEY_EINVAL with the name of what is wrong: a field that this type of queue does not have, a number out of its range or with
 * a fraction of its unit, a key that is given twice or too long, a value that a table cannot hold. */
coney_status arguments_of_exchange(struct arguments *arguments, const coney_amqp_exchange *exchange, coney_call *call);
coney_status arguments_of_queue(struct arguments *arguments, const coney_amqp_queue *queue, coney_call *call);
coney_status arguments_of_binding(struct arguments *arguments, const coney_amqp_binding *binding, coney_call *call);

/* Writes the entries, `size` bytes, in the order of their keys: so equal arguments are equal bytes. The value is a view of them; null when
 * there is none. */
coney_value arguments_write(const struct arguments *arguments, uint8_t *entries);

#endif
