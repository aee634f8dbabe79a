/* kept.c: deliveries that the user has taken out of the handler: settled from any thread, or given to the handler again. */
#include "base/time.h"
#include "stream/consumer.h"

#include <stdlib.h>

#define COPY_ALWAYS 4096 /* an entry up to this size is copied */
#define COPY_FRACTION 8  /* a larger one if it is this small a part of its block */

/* The user holds one reference until it is settled; a handler that has it again holds another while it runs. */
static void drop_kept(struct kept *kept)
{
    if (atomic_fetch_sub(&kept->refs, 1) > 1)
        return;
    block_unref(kept->block);
    member_unref(&kept->consumer->member);
    free(kept);
}

/* Under the lock. */
static void take_out(struct coney_stream_consumer *consumer, struct kept *kept)
{
    list_remove(&kept->in_order);
    list_remove(&kept->in_again);
    consumer->kept_count--;
    atomic_fetch_sub(&consumer->kept_bytes, kept->bytes);
}

/* False: the consumer was closed meanwhile, nobody would look for it any more. */
static bool go_again(struct coney_stream_consumer *consumer, struct kept *kept, coney_settle how)
{
    int64_t due = how > 0 ? time_after(time_now(), how) : 0;
    lock_acquire(&consumer->lock);
    bool open = !consumer->released;
    if (open) {
        kept->delivery.attempt++;
        kept->due = due;
        list_append(&consumer->again, &kept->in_again);
        if (due != 0 && (consumer->wake_at == 0 || due < consumer->wake_at))
            consumer->wake_at = due;
    }
    lock_release(&consumer->lock);
    if (open && due != 0)
        consumer_post(consumer);
    else if (open)
        consumer_wake(consumer);
    return open;
}

static void settle_for_good(struct coney_stream_consumer *consumer, struct kept *kept, coney_settle how)
{
    lock_acquire(&consumer->lock);
    bool held_back = atomic_load(&consumer->kept_bytes) > (uint64_t)consumer->options.max_kept;
    take_out(consumer, kept);
    counter_add(how == CONEY_REJECT ? &consumer->kept_rejected : &consumer->kept_acked, 1);
    lock_release(&consumer->lock);
    if (held_back)
        consumer_wake(consumer);
}

static coney_status settle(struct coney_kept *head, coney_settle how)
{
    struct kept *kept = container_of(head, struct kept, head);
    struct coney_stream_consumer *consumer = kept->consumer;
    coney_status status = CONEY_OK;
    if (consumer->fork != fork_generation()) {
        free(kept);
        return CONEY_EFORKED;
    }
    if (atomic_load(&consumer->open) != CONEY_OK)
        status = CONEY_ECLOSED;
    if (status == CONEY_OK && (how == CONEY_REQUEUE || how > 0)) {
        if (go_again(consumer, kept, how))
            return CONEY_OK;
        status = CONEY_ECLOSED;
    }
    settle_for_good(consumer, kept, how);
    drop_kept(kept);
    return status;
}

coney_kept *coney_stream_keep(const coney_stream_delivery *delivery)
{
    struct coney_stream_consumer *consumer = delivery->consumer;
    if (consumer->options.on_message == NULL || consumer->kept_now == delivery->offset + 1)
        return NULL; /* a chunk cannot be kept, and a message once only */
    if (consumer->redelivered != NULL) {
        consumer->kept_now = delivery->offset + 1;
        return &consumer->redelivered->head;
    }
    struct block *block = consumer->current.block;
    size_t len = delivery->encoded.len;
    bool copy = len <= COPY_ALWAYS || len <= block->cap / COPY_FRACTION;
    struct kept *kept = malloc(sizeof *kept + (copy ? len : 0));
    if (kept == NULL)
        return NULL;
    *kept = (struct kept){
        .head.settle = settle, .refs = 1, .consumer = consumer, .delivery = *delivery, .bytes = copy ? len : block->cap};
    if (copy) {
        memcpy(kept->copy, delivery->encoded.data, len);
        const uint8_t *body = delivery->body.data;
        const uint8_t *encoded = delivery->encoded.data;
        kept->delivery.encoded.data = kept->copy;
        if (body != NULL)
            kept->delivery.body.data = kept->copy + (body - encoded);
    } else {
        kept->block = block_ref(block);
    }
    member_ref(&consumer->member);
    list_init(&kept->in_again);
    lock_acquire(&consumer->lock);
    list_append(&consumer->kept, &kept->in_order);
    consumer->kept_count++;
    atomic_fetch_add(&consumer->kept_bytes, kept->bytes);
    lock_release(&consumer->lock);
    consumer->kept_now = delivery->offset + 1;
    return &kept->head;
}

const coney_stream_delivery *coney_stream_kept_delivery(const coney_kept *kept)
{
    return &container_of(kept, struct kept, head)->delivery;
}

bool consumer_keeps_too_much(struct coney_stream_consumer *consumer)
{
    return atomic_load_explicit(&consumer->kept_bytes, memory_order_relaxed) > (uint64_t)consumer->options.max_kept;
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
    if (lane_is_stopped(&consumer->lane) || consumer->has_message || consumer->options.on_message == NULL)
        return false;
    int64_t next = 0;
    lock_acquire(&consumer->lock);
    struct kept *kept = take_due(consumer, &next);
    if (next != 0 && (consumer->wake_at == 0 || next < consumer->wake_at))
        consumer->wake_at = next;
    lock_release(&consumer->lock);
    if (next != 0)
        loop_post(consumer->member.env->loop, &consumer->task);
    if (kept == NULL)
        return false;
    counter_add(&consumer->messages, 1);
    counter_add(&consumer->requeued, 1);
    atomic_fetch_add(&kept->refs, 1);
    consumer->redelivered = kept;
    consumer->kept_now = 0;
    coney_settle how = consumer->options.on_message(consumer->options.ctx, &kept->delivery);
    consumer->redelivered = NULL;
    bool kept_again = consumer->kept_now != 0;
    consumer->kept_now = 0;
    if (!kept_again)
        (void)settle(&kept->head, how == CONEY_KEPT ? CONEY_ACK : how);
    drop_kept(kept);
    return true;
}

void consumer_drop_again(struct coney_stream_consumer *consumer)
{
    for (;;) {
        lock_acquire(&consumer->lock);
        struct list *at = list_take(&consumer->again);
        struct kept *kept = at != NULL ? container_of(at, struct kept, in_again) : NULL;
        if (kept != NULL)
            take_out(consumer, kept);
        lock_release(&consumer->lock);
        if (kept == NULL)
            return;
        drop_kept(kept);
    }
}
