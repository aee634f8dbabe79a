/* kept.h: a message outside the handler or the read that brought it: kept by a user, taken with get, or a reply.
 *
 * All three are one struct, which begins with core's coney_kept, so that coney_amqp_kept_delivery reads each; what settling means is its
 * origin's. It holds a copy of its unit, or a reference of the block that the unit stands in.
 */
#ifndef CONEY_AMQP_KEPT_H
#define CONEY_AMQP_KEPT_H

#include "core/receiver.h"

#include <coney/amqp.h>

struct amqp_kept {
    struct receiver_kept kept; /* its receiver is NULL unless a consumer's handler kept the message */
    coney_amqp_delivery delivery;
    void *origin;    /* the origin's own */
    uint64_t number; /* a consumer's: in its ledger */
    uint32_t fork;   /* fork_generation() at its birth */
    uint8_t copy[];
};

static inline struct amqp_kept *amqp_kept_of(const struct coney_kept *head)
{
    struct receiver_kept *kept = (struct receiver_kept *)(uintptr_t)container_of(head, struct receiver_kept, head);
    return container_of(kept, struct amqp_kept, kept);
}

/* Sets the views of a delivery (body, exchange, routing key, properties, tag, redelivered) from a unit of basic.deliver or basic.get-ok; the rest of
 * it is left alone. NULL, or the name of the field that is wrong. */
const char *amqp_delivery_read(coney_amqp_delivery *delivery, const uint8_t *at, size_t len);

/* The unit at `at`, which amqp_delivery_read has passed, for a user to own until it calls coney_kept_settle, which calls `settle`. Of its delivery
 * `queue` is "", `consumer` NULL. NULL: memory is out. Any thread. */
struct amqp_kept *amqp_kept_new(struct block *block, const uint8_t *at, size_t len,
                                coney_status (*settle)(struct coney_kept *kept, coney_settle how));

/* Gives its memory back; in a forked child all but the block. */
void amqp_kept_free(struct amqp_kept *kept);

/* For amqp_kept_new: there is nothing to settle, it is freed. CONEY_OK, or CONEY_EFORKED. */
coney_status amqp_kept_settle_nothing(struct coney_kept *kept, coney_settle how);

#endif
