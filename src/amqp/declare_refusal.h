/* declare_refusal.h: why the broker does not declare, delete, bind, unbind or purge something, as one sentence. */
#ifndef CONEY_AMQP_DECLARE_REFUSAL_H
#define CONEY_AMQP_DECLARE_REFUSAL_H

#include "proto/amqp091/codec.h"

/* `method` as a record holds it (its strings are terminated), `name` what a queue is called that it is about, `node` who refused it, the rest as
 * channel_answer_fn has it. */
void refusal_explain(const struct amqp_method *method, const char *name, const char *node, coney_status status, uint16_t code,
                     const char *text, char *out, size_t cap);

#endif
