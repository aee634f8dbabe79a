/* deliver.c: from a chunk to the handler: what runs for each message, on the lane. */
#include "base/text.h"
#include "base/time.h"
#include "proto/amqp10/body.h"
#include "proto/amqp10/data.h"
#include "stream/consumer.h"

#include <libdeflate.h>

static inline void set_message(coney_stream_delivery *delivery, const struct chunk_entry *entry)
{
    delivery->offset = entry->offset;
    delivery->encoded = entry->data;
    delivery->attempt = 0;
    if (__builtin_expect(amqp10_data_only(entry->data, &delivery->body), 1))
        delivery->body_kind = CONEY_BODY_DATA;
    else
        delivery->body_kind = amqp10_body_find(entry->data, &delivery->body);
}

static void wake_loop(struct coney_stream_consumer *consumer)
{
    loop_post(consumer->member.env->loop, &consumer->task);
}

/* What the entry's messages could not be read for is told by the loop, once for those that it did not get round to yet. */
static void skip_unreadable(struct coney_stream_consumer *consumer, const struct chunk_entry *entry, const char *why)
{
    static const char *const compressions[] = {"", "gzip", "snappy", "lz4", "zstd"};
    uint64_t skipped = entry->records > 0 ? entry->records : 1;
    lock_acquire(&consumer->lock);
    if (consumer->unreadable.count == 0) {
        consumer->unreadable.offset = entry->offset;
        consumer->unreadable.why = why != NULL ? why : compressions[entry->compression <= 4 ? entry->compression : 0];
        consumer->unreadable.compressed = why == NULL;
    }
    consumer->unreadable.count += skipped;
    lock_release(&consumer->lock);
    counter_add(&consumer->unreadable_count, skipped);
    wake_loop(consumer);
}

/* The next message of the chunk that was asked for. */
static enum chunk_item next_message(struct coney_stream_consumer *consumer, struct chunk_walk *walk, uint64_t skip_below,
                                    coney_stream_delivery *delivery)
{
    struct chunk_entry entry;
    for (;;) {
        enum chunk_item item = chunk_next(walk, &entry);
        if (__builtin_expect(item == CHUNK_MESSAGE, 1)) {
            if (__builtin_expect(entry.offset < skip_below, 0))
                continue;
            set_message(delivery, &entry);
            return item;
        }
        if (item == CHUNK_COMPRESSED)
            skip_unreadable(consumer, &entry, NULL);
        else if (item == CHUNK_DAMAGED)
            skip_unreadable(consumer, &entry, walk->field);
        else
            return item;
    }
}

/* Counts for a stretch of messages, kept in registers while it lasts. */
struct tally {
    uint64_t messages;
    uint64_t bytes;
    uint64_t acked;
};

static void flush_tally(struct coney_stream_consumer *consumer, const struct tally *tally)
{
    counter_add(&consumer->messages, tally->messages);
    counter_add(&consumer->bytes, tally->bytes);
    counter_add(&consumer->acked, tally->acked);
}

static inline void done_until(struct coney_stream_consumer *consumer, uint64_t position)
{
    atomic_store_explicit(&consumer->position, position, memory_order_release);
}

static void count_towards_store(struct coney_stream_consumer *consumer, uint64_t messages)
{
    if (consumer->until_store > messages) {
        consumer->until_store -= messages;
        return;
    }
    consumer->until_store = (uint64_t)consumer->options.store_every;
    atomic_store(&consumer->store_due, true);
    wake_loop(consumer);
}

static void hold_until(struct coney_stream_consumer *consumer, coney_settle how)
{
    counter_add(&consumer->requeued, 1);
    consumer->retry_at = 0;
    if (how == CONEY_REQUEUE)
        return;
    consumer->retry_at = time_after(time_now(), how);
    lock_acquire(&consumer->lock);
    consumer->wake_at = consumer->retry_at;
    lock_release(&consumer->lock);
    wake_loop(consumer);
}

/* A settlement other than CONEY_ACK. Returns true when the message is done with, false when the handler is to have it again. */
static bool settle_otherwise(struct coney_stream_consumer *consumer, coney_settle how)
{
    coney_stream_delivery *delivery = &consumer->delivery;
    bool was_kept = consumer->kept_now != NULL;
    consumer->kept_now = NULL;
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
        log_line(&consumer->member.env->log, CONEY_LOG_ERROR,
                 "the handler of stream '%s' returned %lld for offset %llu, which is no settlement%s: taken for done",
                 consumer->member.stream, (long long)how, (unsigned long long)delivery->offset,
                 how == CONEY_KEPT ? " without a call of coney_stream_keep" : "");
    return true;
}

static bool must_hold(struct coney_stream_consumer *consumer)
{
    if (lane_is_stopped(&consumer->lane))
        return true;
    if (consumer->retry_at != 0 && time_now() < consumer->retry_at)
        return true;
    consumer->retry_at = 0;
    return false;
}

static enum portion hand_over_messages(struct coney_stream_consumer *consumer)
{
    coney_settle (*on_message)(void *, const coney_stream_delivery *) = consumer->options.on_message;
    void *ctx = consumer->options.ctx;
    coney_stream_delivery *delivery = &consumer->delivery;
    uint64_t skip_below = consumer->current.skip_below;
    struct tally tally = {0};
    enum portion portion = PORTION_HELD;
    for (;;) {
        if (!consumer->has_message) {
            enum chunk_item item = next_message(consumer, &consumer->walk, skip_below, delivery);
            if (item != CHUNK_MESSAGE) {
                portion = item == CHUNK_END ? PORTION_DONE : PORTION_BROKEN;
                break;
            }
        }
        consumer->has_message = true;
        if (__builtin_expect(lane_is_stopped(&consumer->lane) || consumer->retry_at != 0 || consumer->kept_bytes != 0, 0))
            if (must_hold(consumer) || consumer_keeps_too_much(consumer))
                break;
        tally.messages++;
        tally.bytes += delivery->encoded.len;
        coney_settle how = on_message(ctx, delivery);
        if (__builtin_expect(how == CONEY_ACK && consumer->kept_now == NULL, 1))
            tally.acked++;
        else if (!settle_otherwise(consumer, how))
            continue;
        consumer->has_message = false;
        done_until(consumer, delivery->offset + 1);
        if (__builtin_expect(--consumer->until_store == 0, 0)) {
            consumer->until_store = 1;
            count_towards_store(consumer, 1);
        }
    }
    flush_tally(consumer, &tally);
    return portion;
}

bool coney_stream_chunk_next(coney_stream_chunk *chunk, coney_stream_delivery *delivery)
{
    if (next_message(chunk->consumer, &chunk->walk, chunk->skip_below, &chunk->consumer->delivery) != CHUNK_MESSAGE)
        return false;
    chunk->consumer->delivery.attempt = chunk->consumer->chunk_attempt;
    *delivery = chunk->consumer->delivery;
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
        .walk = chunk_walk_of(&consumer->chunk),
        .chunk = consumer->chunk,
        .skip_below = consumer->current.skip_below,
    };
    coney_settle how = consumer->options.on_chunk(consumer->options.ctx, &chunk);
    struct tally tally = {.messages = chunk.messages, .bytes = chunk.bytes, .acked = how == CONEY_ACK ? chunk.messages : 0};
    flush_tally(consumer, &tally);
    if (how != CONEY_ACK && !settle_otherwise(consumer, how)) {
        consumer->chunk_attempt++;
        return PORTION_HELD;
    }
    consumer->chunk_attempt = 0;
    done_until(consumer, consumer->chunk.first + consumer->chunk.records);
    count_towards_store(consumer, chunk.messages);
    return PORTION_DONE;
}

/* Chunks in and out ----------------------------------------------------------------------------------------------- */

static bool take_received(struct coney_stream_consumer *consumer)
{
    lock_acquire(&consumer->lock);
    bool taken = consumer->broken == NULL && consumer->queue_head != consumer->queue_tail;
    if (taken)
        consumer->current = consumer->queue[consumer->queue_head++ & (consumer->queue_cap - 1)];
    lock_release(&consumer->lock);
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
    consumer->delivery.timestamp = chunk->timestamp;
    consumer->delivery.committed_offset = consumer->current.committed;
    return NULL;
}

static void finish_chunk(struct coney_stream_consumer *consumer)
{
    consumer->has_current = false;
    consumer->has_message = false;
    block_unref(consumer->current.block);
    if (consumer->current.place != atomic_load(&consumer->place))
        return; /* its credit was of a subscription that is gone */
    atomic_fetch_add(&consumer->chunks_done, 1);
    wake_loop(consumer);
}

/* The loop gets a fresh copy from the broker, from this offset on. */
static void report_broken(struct coney_stream_consumer *consumer, const char *field, uint64_t offset)
{
    lock_acquire(&consumer->lock);
    consumer->broken = field;
    consumer->broken_at = offset;
    lock_release(&consumer->lock);
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
    struct coney_stream_consumer *consumer = container_of(lane, struct coney_stream_consumer, lane);
    if (consumer_redeliver(consumer))
        return true;
    if (lane_is_stopped(lane) || !next_chunk(consumer))
        return false;
    enum portion portion = consumer->options.on_chunk != NULL ? hand_over_chunk(consumer) : hand_over_messages(consumer);
    switch (portion) {
    case PORTION_HELD:
        return consumer->retry_at == 0 && !lane_is_stopped(lane) && !consumer_keeps_too_much(consumer);
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

void consumer_drop_received(struct coney_stream_consumer *consumer)
{
    if (consumer->has_current)
        block_unref(consumer->current.block);
    consumer->has_current = false;
    consumer->has_message = false;
    while (consumer->queue_head != consumer->queue_tail)
        block_unref(consumer->queue[consumer->queue_head++ & (consumer->queue_cap - 1)].block);
}
