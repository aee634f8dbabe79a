/* kept.c: deliveries that the user has taken out of the handler: settled from any thread, or given to the handler again. */
#include "base/time.h"
#include "stream/consumer.h"

#include <stdlib.h>

static struct coney_stream_consumer *consumer_of_kept(const struct kept *kept)
{
    return consumer_of(kept->core.receiver);
}

/* False: the consumer was closed meanwhile, nobody would look for it any more. */
static bool go_again(struct kept *kept, coney_settle how)
{
    struct coney_stream_consumer *consumer = consumer_of_kept(kept);
    struct receiver *receiver = &consumer->receiver;
    int64_t due = how > 0 ? time_after(time_now(), how) : 0;
    lock_acquire(&receiver->lock);
    bool open = !receiver->released;
    if (open) {
        kept->delivery.attempt++;
        kept->delivery.last_of_chunk = true; /* it comes alone */
        kept->due = due;
        list_append(&consumer->again, &kept->in_again);
        if (due != 0 && (receiver->wake_at == 0 || due < receiver->wake_at))
            receiver->wake_at = due;
    }
    lock_release(&receiver->lock);
    if (open && due != 0)
        receiver_post(receiver);
    else if (open)
        receiver_wake(receiver);
    return open;
}

static void settle_for_good(struct kept *kept, coney_settle how)
{
    struct coney_stream_consumer *consumer = consumer_of_kept(kept);
    counter *settled = how == CONEY_REJECT ? &consumer->kept_rejected : &consumer->kept_acked;
    receiver_take_out(&consumer->receiver, &kept->core, settled);
}

static coney_status settle(struct coney_kept *head, coney_settle how)
{
    struct kept *kept = container_of(head, struct kept, core.head);
    struct receiver *receiver = kept->core.receiver;
    coney_status status = CONEY_OK;
    if (receiver->fork != fork_generation()) {
        free(kept);
        return CONEY_EFORKED;
    }
    if (atomic_load(&receiver->open) != CONEY_OK)
        status = CONEY_ECLOSED;
    if (status == CONEY_OK && (how == CONEY_REQUEUE || how > 0)) {
        if (go_again(kept, how))
            return CONEY_OK;
        status = CONEY_ECLOSED;
    }
    settle_for_good(kept, how);
    receiver_drop_kept(&kept->core);
    return status;
}

coney_kept *coney_stream_keep(const coney_stream_delivery *delivery)
{
    struct coney_stream_consumer *consumer = delivery->consumer;
    if (consumer->options.on_message == NULL || consumer->kept_now == delivery->offset + 1)
        return NULL; /* a chunk cannot be kept, and a message once only */
    if (consumer->redelivered != NULL) {
        consumer->kept_now = delivery->offset + 1;
        return &consumer->redelivered->core.head;
    }
    struct block *block = consumer->current.block;
    size_t len = delivery->encoded.len;
    bool copy = receiver_copies(block, len);
    struct kept *kept = malloc(sizeof *kept + (copy ? len : 0));
    if (kept == NULL)
        return NULL;
    *kept = (struct kept){.delivery = *delivery};
    if (copy) {
        memcpy(kept->copy, delivery->encoded.data, len);
        const uint8_t *body = delivery->body.data;
        const uint8_t *encoded = delivery->encoded.data;
        kept->delivery.encoded.data = kept->copy;
        if (body != NULL)
            kept->delivery.body.data = kept->copy + (body - encoded);
    }
    list_init(&kept->in_again);
    receiver_keep(&consumer->receiver, &kept->core, settle, copy ? NULL : block, len, consumer->current.place);
    consumer->kept_now = delivery->offset + 1;
    return &kept->core.head;
}

const coney_stream_delivery *coney_stream_kept_delivery(const coney_kept *kept)
{
    return &container_of(kept, struct kept, core.head)->delivery;
}

/* Under the lock: the first that is due, or NULL and when the next will be. */
static struct kept *take_due(struct coney_stream_consumer *consumer, int64_t *next)
{
    int64_t now = 0;
    for (struct list *at = consumer->again.next; at != &consumer->again; at = at->next) {
        struct kept *kept = container_of(at, struct kept, in_again);
        if (kept->due != 0 && now == 0)
            now = time_now();
        if (kept->due <= now) {
            list_remove(at);
            return kept;
        }
        if (*next == 0 || kept->due < *next)
            *next = kept->due;
    }
    return NULL;
}

bool consumer_redeliver(struct coney_stream_consumer *consumer)
{
    struct receiver *receiver = &consumer->receiver;
    if (lane_is_stopped(&receiver->lane) || consumer->has_message || consumer->options.on_message == NULL)
        return false;
    int64_t next = 0;
    lock_acquire(&receiver->lock);
    struct kept *kept = take_due(consumer, &next);
    lock_release(&receiver->lock);
    if (next != 0)
        receiver_wake_later(receiver, next);
    if (kept == NULL)
        return false;
    counter_add(&consumer->messages, 1);
    counter_add(&consumer->requeued, 1);
    atomic_fetch_add(&kept->core.refs, 1);
    consumer->redelivered = kept;
    consumer->kept_now = 0;
    coney_settle how = consumer->options.on_message(consumer->options.ctx, &kept->delivery);
    consumer->redelivered = NULL;
    bool kept_again = consumer->kept_now != 0;
    consumer->kept_now = 0;
    if (!kept_again)
        (void)settle(&kept->core.head, how == CONEY_KEPT ? CONEY_ACK : how);
    receiver_drop_kept(&kept->core);
    return true;
}

void consumer_drop_again(struct coney_stream_consumer *consumer)
{
    struct receiver *receiver = &consumer->receiver;
    for (;;) {
        lock_acquire(&receiver->lock);
        struct list *at = list_take(&consumer->again);
        struct kept *kept = at != NULL ? container_of(at, struct kept, in_again) : NULL;
        if (kept != NULL)
            receiver_take_out_locked(receiver, &kept->core);
        lock_release(&receiver->lock);
        if (kept == NULL)
            return;
        receiver_drop_kept(&kept->core);
    }
}
