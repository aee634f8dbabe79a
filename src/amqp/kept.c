/* kept.c: see kept.h. */
#include "amqp/kept.h"

#include "base/fork.h"
#include "proto/amqp091/content.h"

#include <stdlib.h>

static const char *read_deliver(coney_amqp_delivery *delivery, coney_bytes method)
{
    struct amqp_basic_deliver deliver;
    const char *field = amqp_deliver_read(method, &deliver);
    if (field != NULL)
        return field;
    delivery->exchange = deliver.exchange;
    delivery->routing_key = deliver.routing_key;
    delivery->delivery_tag = deliver.delivery_tag;
    delivery->redelivered = deliver.redelivered;
    return NULL;
}

static const char *read_get_ok(coney_amqp_delivery *delivery, coney_bytes method)
{
    struct amqp_method decoded;
    const char *field = amqp_decode(method, &decoded);
    if (field != NULL)
        return field;
    delivery->exchange = decoded.basic_get_ok.exchange;
    delivery->routing_key = decoded.basic_get_ok.routing_key;
    delivery->delivery_tag = decoded.basic_get_ok.delivery_tag;
    delivery->redelivered = decoded.basic_get_ok.redelivered;
    return NULL;
}

const char *amqp_delivery_read(coney_amqp_delivery *delivery, const uint8_t *at, size_t len)
{
    struct amqp_unit unit;
    if (!amqp_unit_read(at, len, &unit))
        return "content";
    delivery->body = unit.body;
    delivery->encoded_properties = unit.properties;
    if (unit.id == AMQP_BASIC_DELIVER)
        return read_deliver(delivery, unit.method);
    if (unit.id == AMQP_BASIC_GET_OK)
        return read_get_ok(delivery, unit.method);
    return "method.id";
}

struct amqp_kept *amqp_kept_new(struct block *block, const uint8_t *at, size_t len,
                                coney_status (*settle)(struct coney_kept *kept, coney_settle how))
{
    bool copies = receiver_copies(block, len);
    struct amqp_kept *kept = calloc(1, sizeof *kept + (copies ? len : 0));
    if (kept == NULL)
        return NULL;
    kept->kept.head.settle = settle;
    kept->kept.refs = 1;
    list_init(&kept->kept.in_order);
    kept->fork = fork_generation();
    kept->delivery.queue = "";
    if (copies)
        at = memcpy(kept->copy, at, len);
    else
        kept->kept.block = block_ref(block);
    kept->kept.bytes = copies ? len : block->cap;
    (void)amqp_delivery_read(&kept->delivery, at, len);
    return kept;
}

void amqp_kept_free(struct amqp_kept *kept)
{
    if (kept->fork == fork_generation())
        block_unref(kept->kept.block);
    free(kept);
}

coney_status amqp_kept_settle_nothing(struct coney_kept *head, coney_settle how)
{
    (void)how;
    struct amqp_kept *kept = amqp_kept_of(head);
    coney_status status = kept->fork == fork_generation() ? CONEY_OK : CONEY_EFORKED;
    amqp_kept_free(kept);
    return status;
}

const coney_amqp_delivery *coney_amqp_kept_delivery(const coney_kept *kept)
{
    return &amqp_kept_of(kept)->delivery;
}
