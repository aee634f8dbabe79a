/* memory_terms.h: what a queue is declared with, and what a server refuses of it: for the broker in memory in the place of one. */
#ifndef CONEY_TRANSPORT_MEMORY_TERMS_H
#define CONEY_TRANSPORT_MEMORY_TERMS_H

#include <coney/service.h>

enum { MEMORY_NAME_MAX = 255 };

enum queue_kind { QUEUE_CLASSIC, QUEUE_QUORUM, QUEUE_LOG };

/* Zero or NULL: not. Texts live as long as the app. */
struct queue_terms {
    enum queue_kind kind;
    int64_t message_ttl;
    int64_t expires;
    int64_t max_length;
    int64_t max_length_bytes;
    int64_t max_priority;
    int64_t delivery_limit; /* CONEY_OFF: none */
    const char *overflow;
    const char *dead_letter_exchange;
    const char *dead_letter_routing_key;
    bool transient;
    bool exclusive;
    bool auto_delete;
    bool single_active_consumer;
};

/* Of a subscription's queue, declared or not, and of a described one; the arguments that are given as fields come after it. */
struct queue_terms memory_terms_of_source(const coney_queue_source *source, const coney_subscription *subscription);
struct queue_terms memory_terms_of_queue(const coney_amqp_queue *queue);

/* Adds arguments by their names on the wire. CONEY_EUNSUPPORTED: one that is not modelled; CONEY_EPRECONDITION: one of the wrong form. */
coney_status memory_terms_add(struct queue_terms *terms, coney_app *app, const coney_field *arguments, size_t count,
                              const char *queue, coney_call *call);

/* The first argument that no server takes for this kind of queue, or in which two declarations differ; NULL: none. */
const char *memory_terms_invalid(const struct queue_terms *terms);
const char *memory_terms_difference(const struct queue_terms *a, const struct queue_terms *b);

/* A text of a field in the app's memory. NULL: it is no text, or too long for a name. */
const char *memory_keep_text(coney_app *app, const coney_value *value);
bool memory_same_text(const char *a, const char *b); /* either may be NULL */

#endif
