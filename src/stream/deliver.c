/* deliver.c: from a chunk to the handler: what runs for each message, on the lane. */
#include "base/text.h"
#include "base/time.h"
#include "proto/amqp10/body.h"
#include "proto/amqp10/data.h"
#include "stream/consumer.h"

#include <libdeflate.h>

/* Member by member: a copy of the two as one would wait for the stores that made them. */
static inline void set_message(coney_stream_delivery *delivery, const struct chunk_entry *entry)
{
    coney_bytes encoded = coney_bytes_of(entry->data.data, entry->data.len);
    delivery->offset = entry->offset;
    delivery->encoded.data = encoded.data;
    delivery->encoded.len = encoded.len;
    if (__builtin_expect(amqp10_data_only(encoded, &delivery->body), 1))
        delivery->body_kind = CONEY_BODY_DATA;
    else
        delivery->body_kind = amqp10_body_find(encoded, &delivery->body);
}

static void wake_loop(struct coney_stream_consumer *consumer)
{
    loop_post(consumer->receiver.member.env->loop, &consumer->receiver.task);
}

/* Why messages were passed over is told by the loop, once for those that it did not get round to yet. */
static void skip_unreadable(struct coney_stream_consumer *consumer, uint64_t offset, uint32_t records, const char *why,
                            bool compressed)
{
    uint64_t skipped = records > 0 ? records : 1;
    lock_acquire(&consumer->receiver.lock);
    if (consumer->unreadable.count == 0) {
        consumer->unreadable.offset = offset;
        consumer->unreadable.why = why;
        consumer->unreadable.compressed = compressed;
    }
    consumer->unreadable.count += skipped;
    lock_release(&consumer->receiver.lock);
    counter_add(&consumer->unreadable_count, skipped);
    wake_loop(consumer);
}

static const char *compression_name(uint8_t compression)
{
    static const char *const names[] = {"", "gzip", "snappy", "lz4", "zstd"};
    return compression < sizeof names / sizeof names[0] ? names[compression] : names[0];
}

/* The next message of the chunk, past what cannot be read. Inlined and with nothing passed by address, so that a walk and an entry that are
 * locals of the caller's stay in registers. */
static inline __attribute__((always_inline)) enum chunk_item next_message(struct coney_stream_consumer *consumer,
                                                                          struct chunk_walk *walk, struct chunk_entry *entry)
{
    for (;;) {
        enum chunk_item item = chunk_next(walk, entry);
        if (item == CHUNK_COMPRESSED)
            skip_unreadable(consumer, entry->offset, entry->records, compression_name(entry->compression), true);
        else if (item == CHUNK_DAMAGED)
            skip_unreadable(consumer, entry->offset, entry->records, walk->field, false);
        else
            return item;
    }
}

/* Passes over what the first chunk of a subscription holds before the offset that was asked for. */
static void skip_unwanted(struct chunk_walk *walk, uint64_t wanted)
{
    struct chunk_entry entry;
    enum chunk_item item = CHUNK_MESSAGE;
    while (walk->offset < wanted && item != CHUNK_END && item != CHUNK_BROKEN)
        item = chunk_next(walk, &entry);
}

static inline void done_until(struct coney_stream_consumer *consumer, uint64_t position)
{
    atomic_store_explicit(&consumer->position, position, memory_order_release);
}

static void store_soon(struct coney_stream_consumer *consumer)
{
    consumer->until_store = (uint64_t)consumer->options.store_every;
    atomic_store(&consumer->store_due, true);
    wake_loop(consumer);
}

static void count_towards_store(struct coney_stream_consumer *consumer, uint64_t messages)
{
    if (consumer->until_store > messages)
        consumer->until_store -= messages;
    else
        store_soon(consumer);
}

static void hold_until(struct coney_stream_consumer *consumer, coney_settle how)
{
    counter_add(&consumer->requeued, 1);
    consumer->retry_at = 0;
    if (how == CONEY_REQUEUE)
        return;
    consumer->retry_at = time_after(time_now(), how);
    receiver_wake_later(&consumer->receiver, consumer->retry_at);
}

/* A settlement other than CONEY_ACK. Returns true when the message is done with, false when the handler is to have it again. */
static bool settle_otherwise(struct coney_stream_consumer *consumer, coney_settle how)
{
    coney_stream_delivery *delivery = &consumer->delivery;
    bool was_kept = consumer->kept_now == delivery->offset + 1;
    consumer->kept_now = 0;
    if (was_kept)
        return true;
    if (how == CONEY_REQUEUE || how > 0) {
        delivery->attempt++;
        hold_until(consumer, how);
        return false;
    }
    if (how == CONEY_REJECT)
        counter_add(&consumer->rejected, 1);
    else
        log_line(&consumer->receiver.member.env->log, CONEY_LOG_ERROR,
                 "the handler of stream '%s' returned %lld for offset %llu, which is no settlement%s: taken for done",
                 consumer->receiver.member.name, (long long)how, (unsigned long long)delivery->offset,
                 how == CONEY_KEPT ? " without a call of coney_stream_keep" : "");
    return true;
}

static bool must_hold(struct coney_stream_consumer *consumer)
{
    if (lane_is_stopped(&consumer->receiver.lane))
        return true;
    if (consumer->retry_at != 0 && time_now() < consumer->retry_at) {
        receiver_wake_later(&consumer->receiver,
                            consumer->retry_at); /* the timer may have been used up for something that was due before */
        return true;
    }
    consumer->retry_at = 0;
    return false;
}

/* Gives the handler the message at hand, again if it wants it again. Returns true when the message is done with; false when it is held. */
static bool settle_message(struct coney_stream_consumer *consumer, coney_settle how)
{
    while (how != CONEY_ACK && !settle_otherwise(consumer, how)) {
        if (must_hold(consumer))
            return false;
        counter_add(&consumer->messages, 1);
        how = consumer->options.on_message(consumer->options.ctx, &consumer->delivery);
        if (how == CONEY_ACK)
            counter_add(&consumer->acked, 1);
    }
    consumer->delivery.attempt = 0;
    return true;
}

/* The message after which the last portion stopped; true when there was none or it is done with now. */
static bool settle_held(struct coney_stream_consumer *consumer)
{
    if (!consumer->has_message)
        return true;
    if (must_hold(consumer) || receiver_keeps_too_much(&consumer->receiver))
        return false;
    counter_add(&consumer->messages, 1);
    counter_add(&consumer->bytes, consumer->delivery.encoded.len);
    coney_settle how = consumer->options.on_message(consumer->options.ctx, &consumer->delivery);
    if (how == CONEY_ACK)
        counter_add(&consumer->acked, 1);
    if (!settle_message(consumer, how))
        return false;
    consumer->has_message = false;
    done_until(consumer, consumer->delivery.offset + 1);
    count_towards_store(consumer, 1);
    return true;
}

static inline void message_done(struct coney_stream_consumer *consumer, uint64_t position)
{
    done_until(consumer, position);
    if (__builtin_expect(--consumer->until_store == 0, 0))
        store_soon(consumer);
}

static inline uint64_t chunk_limit(const struct chunk *chunk)
{
    return chunk->first + chunk->records;
}

/* What runs for each message: 49 instructions without the handler. Not inlined, which would leave it short of registers. */
static __attribute__((noinline)) enum portion hand_over_messages(struct coney_stream_consumer *consumer)
{
    coney_settle (*on_message)(void *, const coney_stream_delivery *) = consumer->options.on_message;
    void *ctx = consumer->options.ctx;
    coney_stream_delivery *delivery = &consumer->delivery;
    struct chunk_walk walk = consumer->walk;
    struct chunk_entry entry;
    uint64_t messages = 0;
    uint64_t bytes = 0;
    uint64_t otherwise = 0;
    uint64_t limit = chunk_limit(&consumer->chunk);
    enum chunk_item item;
    while ((item = next_message(consumer, &walk, &entry)) == CHUNK_MESSAGE) {
        set_message(delivery, &entry);
        delivery->last_of_chunk = walk.offset == limit;
        if (__builtin_expect(lane_is_stopped(&consumer->receiver.lane), 0)) {
            consumer->has_message = true;
            break;
        }
        messages++;
        bytes += entry.data.len;
        coney_settle how = on_message(ctx, delivery);
        if (__builtin_expect(how == CONEY_ACK, 1)) {
            message_done(consumer, walk.offset);
            continue;
        }
        otherwise++;
        consumer->has_message = !settle_message(consumer, how);
        if (consumer->has_message)
            break;
        message_done(consumer, walk.offset);
        if (receiver_keeps_too_much(&consumer->receiver))
            break;
    }
    consumer->walk = walk;
    counter_add(&consumer->messages, messages);
    counter_add(&consumer->bytes, bytes);
    counter_add(&consumer->acked, messages - otherwise);
    if (item == CHUNK_MESSAGE)
        return PORTION_HELD;
    return item == CHUNK_END ? PORTION_DONE : PORTION_BROKEN;
}

bool coney_stream_chunk_next(coney_stream_chunk *chunk, coney_stream_delivery *delivery)
{
    struct chunk_entry entry;
    if (next_message(chunk->consumer, &chunk->walk, &entry) != CHUNK_MESSAGE)
        return false;
    *delivery = chunk->consumer->delivery;
    delivery->attempt = chunk->consumer->chunk_attempt;
    set_message(delivery, &entry);
    delivery->last_of_chunk = chunk->walk.offset == chunk_limit(&chunk->chunk);
    chunk->messages++;
    chunk->bytes += delivery->encoded.len;
    return true;
}

uint64_t coney_stream_chunk_count(const coney_stream_chunk *chunk)
{
    return chunk->chunk.records;
}

uint64_t coney_stream_chunk_offset(const coney_stream_chunk *chunk)
{
    return chunk->chunk.first;
}

static enum portion hand_over_chunk(struct coney_stream_consumer *consumer)
{
    if (must_hold(consumer))
        return PORTION_HELD;
    struct coney_stream_chunk chunk = {
        .consumer = consumer,
        .walk = consumer->walk,
        .chunk = consumer->chunk,
    };
    coney_settle how = consumer->options.on_chunk(consumer->options.ctx, &chunk);
    counter_add(&consumer->messages, chunk.messages);
    counter_add(&consumer->bytes, chunk.bytes);
    if (how == CONEY_ACK)
        counter_add(&consumer->acked, chunk.messages);
    if (how != CONEY_ACK && !settle_otherwise(consumer, how)) {
        consumer->chunk_attempt++;
        return PORTION_HELD;
    }
    consumer->chunk_attempt = 0;
    done_until(consumer, chunk_limit(&consumer->chunk));
    count_towards_store(consumer, chunk.messages);
    return PORTION_DONE;
}

/* Chunks in and out ----------------------------------------------------------------------------------------------- */

static bool take_received(struct coney_stream_consumer *consumer)
{
    lock_acquire(&consumer->receiver.lock);
    bool taken = consumer->broken == NULL && consumer->queue_head != consumer->queue_tail;
    if (taken)
        consumer->current = consumer->queue[consumer->queue_head++ & (consumer->queue_cap - 1)];
    lock_release(&consumer->receiver.lock);
    return taken;
}

/* NULL, or what is wrong with the chunk at hand. The header was checked when it arrived. */
static const char *open_chunk(struct coney_stream_consumer *consumer)
{
    struct chunk *chunk = &consumer->chunk;
    const char *field = chunk_open(consumer->current.chunk, chunk);
    if (field != NULL)
        return field;
    if (!consumer->options.skip_crc && libdeflate_crc32(0, chunk->data.data, chunk->data.len) != chunk->crc)
        return "chunk.crc";
    consumer->walk = chunk_walk_of(chunk);
    skip_unwanted(&consumer->walk, consumer->current.skip_below);
    consumer->delivery.timestamp = chunk->timestamp;
    consumer->delivery.committed_offset = consumer->current.committed;
    return NULL;
}

static void finish_chunk(struct coney_stream_consumer *consumer)
{
    consumer->has_current = false;
    consumer->has_message = false;
    block_unref(consumer->current.block);
    lock_acquire(&consumer->receiver.lock);
    bool present =
        consumer->current.place == consumer->receiver.place; /* the credit for others was of a subscription that is gone */
    if (present)
        consumer->chunks_done++;
    lock_release(&consumer->receiver.lock);
    if (present)
        wake_loop(consumer);
}

/* The loop gets a fresh copy from the broker, from this offset on. */
static void report_broken(struct coney_stream_consumer *consumer, const char *field, uint64_t offset)
{
    lock_acquire(&consumer->receiver.lock);
    consumer->broken = field;
    consumer->broken_at = offset;
    lock_release(&consumer->receiver.lock);
    wake_loop(consumer);
}

static bool next_chunk(struct coney_stream_consumer *consumer)
{
    if (consumer->has_current)
        return true;
    if (!take_received(consumer))
        return false;
    consumer->has_current = true;
    const char *field = open_chunk(consumer);
    if (field == NULL)
        return true;
    report_broken(consumer, field, consumer->chunk.first);
    finish_chunk(consumer);
    return false;
}

bool consumer_run(struct lane *lane)
{
    struct coney_stream_consumer *consumer = container_of(lane, struct coney_stream_consumer, receiver.lane);
    if (consumer_redeliver(consumer))
        return true;
    if (lane_is_stopped(lane))
        return true; /* the lane remembers it until it is resumed */
    if (!next_chunk(consumer) || receiver_keeps_too_much(&consumer->receiver))
        return false;
    enum portion portion = PORTION_HELD;
    if (consumer->options.on_chunk != NULL)
        portion = hand_over_chunk(consumer);
    else if (settle_held(consumer))
        portion = hand_over_messages(consumer);
    switch (portion) {
    case PORTION_HELD:
        return consumer->retry_at == 0 && !receiver_keeps_too_much(&consumer->receiver);
    case PORTION_BROKEN:
        report_broken(consumer, consumer->walk.field, consumer->walk.offset);
        finish_chunk(consumer);
        return false;
    case PORTION_DONE:
        finish_chunk(consumer);
        return true;
    }
    return false;
}

void consumer_drop_queue(struct coney_stream_consumer *consumer)
{
    while (consumer->queue_head != consumer->queue_tail)
        block_unref(consumer->queue[consumer->queue_head++ & (consumer->queue_cap - 1)].block);
}

void consumer_drop_received(struct coney_stream_consumer *consumer)
{
    if (consumer->has_current)
        block_unref(consumer->current.block);
    consumer->has_current = false;
    consumer->has_message = false;
    consumer_drop_queue(consumer);
}
