/* receiver_kept.c: the deliveries that users have taken out of their handler, counted and bounded. */
#include "core/receiver.h"

#include <stdlib.h>

#define COPY_ALWAYS 4096 /* a delivery up to this size is copied */
#define COPY_FRACTION 2  /* a larger one if it is this small a part of its block: none counts for more than twice its size */

bool receiver_copies(const struct block *block, size_t len)
{
    return len <= COPY_ALWAYS || len <= block->cap / COPY_FRACTION;
}

void receiver_keep(struct receiver *receiver, struct receiver_kept *kept,
                   coney_status (*settle)(struct coney_kept *, coney_settle), struct block *block, size_t len, uint64_t place)
{
    kept->head.settle = settle;
    kept->receiver = receiver;
    kept->block = block != NULL ? block_ref(block) : NULL;
    kept->bytes = block != NULL ? block->cap : len;
    kept->place = place;
    atomic_store(&kept->refs, 1);
    member_ref(&receiver->member);
    lock_acquire(&receiver->lock);
    list_append(&receiver->kept, &kept->in_order);
    receiver->kept_count++;
    atomic_fetch_add(&receiver->kept_bytes, kept->bytes);
    lock_release(&receiver->lock);
}

void receiver_take_out_locked(struct receiver *receiver, struct receiver_kept *kept)
{
    list_remove(&kept->in_order);
    receiver->kept_count--;
    atomic_fetch_sub(&receiver->kept_bytes, kept->bytes);
}

void receiver_take_out(struct receiver *receiver, struct receiver_kept *kept, counter *settled)
{
    lock_acquire(&receiver->lock);
    bool held_back = receiver_keeps_too_much(receiver);
    receiver_take_out_locked(receiver, kept);
    counter_add(settled, 1);
    lock_release(&receiver->lock);
    if (held_back)
        receiver_wake(receiver);
}

void receiver_drop_kept(struct receiver_kept *kept)
{
    if (atomic_fetch_sub(&kept->refs, 1) > 1)
        return;
    block_unref(kept->block);
    member_unref(&kept->receiver->member);
    free(kept);
}
