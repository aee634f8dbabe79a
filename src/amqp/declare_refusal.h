/* declare_refusal.h: why the broker does not declare, delete, bind, unbind or purge something, as one sentence. */
#ifndef CONEY_AMQP_DECLARE_REFUSAL_H
#define CONEY_AMQP_DECLARE_REFUSAL_H

#include "proto/amqp091/codec.h"

/* What an answer that is none says (channel_answer_fn). */
struct refusal {
    coney_status status;
    uint16_t code;
    const char *node;   /* who refused it */
    const char *reason; /* struct channel's; NULL: it was no close of the channel, `text` says what it was */
    const char *text;
};

/* `method` as a record holds it (its strings are terminated), `name` what a queue is called that it is about. */
void refusal_explain(const struct amqp_method *method, const char *name, const struct refusal *refusal, char *out, size_t cap);

#endif
