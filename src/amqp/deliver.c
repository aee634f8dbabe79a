/* deliver.c: from the connection to the handler: deliveries into runs, runs through the queue, and what is done for each message on the lane. */
#include "amqp/consumer.h"

#include "proto/amqp091/content.h"

#include <stdlib.h>

#define MOVED_PART 8                   /* a run that is no larger a part of its block is moved */
#define MOVED_LEAST ((size_t)60 << 10) /* of a block for runs that are moved together */

/* As much is queued as may be: the connection waits --------------------------------------------------------------------- */

uint64_t amqp_consumer_queued_bytes(const struct coney_amqp_consumer *consumer)
{
    uint64_t handed = atomic_load(&consumer->handed_bytes); /* first: it never passes what was received */
    return counter_get(&consumer->received_bytes) - handed;
}

/* Tells the connection whether any consumer on it is full: its members are consumers, all of them. */
static void tell_conn(struct conn *conn)
{
    bool full = false;
    if (conn == NULL)
        return;
    for (struct list *at = conn->members.next; at != &conn->members && !full; at = at->next)
        full = atomic_load(&amqp_consumer_of(container_of(at, struct member, in_conn))->full);
    amqp_conn_set_full(amqp_conn_of(conn), full);
}

void amqp_consumer_read_on(struct coney_amqp_consumer *consumer, bool anyway)
{
    uint64_t most = (uint64_t)consumer->options.max_queued;
    if (!atomic_load(&consumer->full) || (!anyway && amqp_consumer_queued_bytes(consumer) > most / 2))
        return;
    atomic_store(&consumer->full, false);
    tell_conn(consumer->receiver.member.conn);
}

static void hold_up_if_full(struct coney_amqp_consumer *consumer)
{
    if (amqp_consumer_queued_bytes(consumer) <= (uint64_t)consumer->options.max_queued)
        return;
    atomic_store(&consumer->full, true);
    tell_conn(consumer->receiver.member.conn);
    amqp_consumer_read_on(consumer, false); /* the lane may have handed it over before it could see `full` */
}

/* Arrival: on the loop ---------------------------------------------------------------------------------------------- */

static bool grow_queue(struct coney_amqp_consumer *consumer)
{
    size_t cap = consumer->queue_cap > 0 ? consumer->queue_cap * 2 : 16;
    struct run *queue = malloc(cap * sizeof *queue);
    if (queue == NULL)
        return false;
    for (uint64_t i = consumer->queue_head; i != consumer->queue_tail; i++)
        queue[i & (cap - 1)] = consumer->queue[i & (consumer->queue_cap - 1)];
    free(consumer->queue);
    consumer->queue = queue;
    consumer->queue_cap = cap;
    return true;
}

/* Small runs that wait for a handler which is behind are moved together: each would hold a receive block, which is many times as large. */
static void move_together(struct coney_amqp_consumer *consumer, struct run *run)
{
    struct pool *pool = consumer->receiver.member.env->pool;
    size_t len = (size_t)(run->end - run->at);
    lock_acquire(&consumer->receiver.lock);
    bool behind = consumer->queue_head != consumer->queue_tail;
    lock_release(&consumer->receiver.lock);
    if (!behind || len > run->block->cap / MOVED_PART)
        return;
    if (consumer->moved == NULL || consumer->moved->cap - consumer->moved_len < len) {
        struct block *block = block_get(pool, len > MOVED_LEAST ? len : MOVED_LEAST);
        if (block == NULL)
            return;
        block_unref(consumer->moved);
        consumer->moved = block;
        consumer->moved_len = 0;
    }
    uint8_t *at = memcpy(consumer->moved->data + consumer->moved_len, run->at, len);
    consumer->moved_len += len;
    block_unref(run->block);
    run->block = block_ref(consumer->moved);
    run->at = at;
    run->end = at + len;
}

/* Under the lock: appends the run to the last one that is queued, if it lies right behind it. */
static bool extend_last(struct coney_amqp_consumer *consumer, const struct run *run)
{
    if (consumer->queue_head == consumer->queue_tail)
        return false;
    struct run *last = &consumer->queue[(consumer->queue_tail - 1) & (consumer->queue_cap - 1)];
    if (last->end != run->at)
        return false;
    last->end = run->end;
    block_unref(run->block);
    return true;
}

static bool has_room(struct coney_amqp_consumer *consumer)
{
    return consumer->queue_tail - consumer->queue_head < consumer->queue_cap || grow_queue(consumer);
}

/* Under the lock. */
static bool count_in(struct coney_amqp_consumer *consumer, uint64_t count)
{
    return consumer->options.no_ack || ledger_receive(&consumer->ledger, count);
}

static bool enqueue(struct coney_amqp_consumer *consumer, struct run *run, uint64_t count)
{
    move_together(consumer, run);
    lock_acquire(&consumer->receiver.lock);
    run->place = consumer->receiver.place;
    bool room = has_room(consumer) && count_in(consumer, count);
    if (room && !extend_last(consumer, run))
        consumer->queue[consumer->queue_tail++ & (consumer->queue_cap - 1)] = *run;
    lock_release(&consumer->receiver.lock);
    return room;
}

/* No handler will have it: it goes back when the cancel is answered. */
static bool only_count(struct coney_amqp_consumer *consumer, uint64_t count)
{
    lock_acquire(&consumer->receiver.lock);
    bool counted = count_in(consumer, count);
    lock_release(&consumer->receiver.lock);
    return counted;
}

static void drop_open_run(struct coney_amqp_consumer *consumer)
{
    block_unref(consumer->open_run.block);
    consumer->open_run = (struct run){0};
}

void amqp_consumer_queue_open_run(struct coney_amqp_consumer *consumer)
{
    struct run *run = &consumer->open_run;
    if (run->block == NULL)
        return;
    uint64_t count = consumer->next_tag - consumer->open_tag;
    uint64_t bytes = (uint64_t)(run->end - run->at);
    bool wanted = !consumer->receiver.unsubscribing;
    counter_add(&consumer->received_bytes, bytes);
    bool taken = !consumer->no_memory && (wanted ? enqueue(consumer, run, count) : only_count(consumer, count));
    consumer->no_memory = !taken;
    if (taken)
        consumer->next_number += count;
    if (!taken || !wanted) {
        counter_add(&consumer->received_bytes, 0 - bytes);
        drop_open_run(consumer);
        return;
    }
    *run = (struct run){0};
    if (consumer->receiver.member.state == MEMBER_ACTIVE)
        lane_wake(&consumer->receiver.lane);
    hold_up_if_full(consumer);
}

/* It holds a reference of the consumer: the deferred task cannot be taken back. */
void amqp_consumer_queue_task(struct task *task)
{
    struct coney_amqp_consumer *consumer = container_of(task, struct coney_amqp_consumer, queue_task);
    struct member *member = &consumer->receiver.member;
    amqp_consumer_queue_open_run(consumer);
    if (consumer->no_memory && member_is_known(member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), true);
    consumer->no_memory = false;
    amqp_consumer_set_flush_timer(consumer);
    member_unref(member);
}

static __attribute__((noinline)) void begin_run(struct coney_amqp_consumer *consumer, struct block *block, const uint8_t *at,
                                                size_t len)
{
    struct member *member = &consumer->receiver.member;
    amqp_consumer_queue_open_run(consumer);
    consumer->open_run = (struct run){.block = block_ref(block), .at = at, .end = at + len, .number = consumer->next_number};
    consumer->open_tag = consumer->next_tag;
    if (!atomic_load_explicit(&consumer->queue_task.posted, memory_order_relaxed)) {
        member_ref(member);
        loop_defer(member->env->loop, &consumer->queue_task);
    }
    if (consumer->options.on_loop && member->state == MEMBER_ACTIVE)
        lane_wake(&consumer->receiver.lane); /* it runs in this round, behind the task */
}

/* A channel that was used before begins where it was left; not so high that its tags could wrap. */
static __attribute__((noinline)) bool begin_tags(struct coney_amqp_consumer *consumer, uint64_t tag)
{
    bool first = consumer->next_tag == 0 && tag != 0 && tag <= INT64_MAX;
    if (first) {
        consumer->next_tag = tag;
        consumer->tags_before = tag - 1;
    }
    return first;
}

const char *amqp_consumer_content(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct coney_amqp_consumer *consumer = amqp_consumer_of(ctx);
    if (load32(at + AMQP_HEAD_BYTES) != AMQP_BASIC_DELIVER)
        return "nothing was published there";
    struct amqp_basic_deliver deliver;
    const char *field = amqp_deliver_read(coney_bytes_of(at + AMQP_HEAD_BYTES, load32(at + 3)), &deliver);
    if (field != NULL)
        return field;
    if (__builtin_expect(deliver.delivery_tag != consumer->next_tag, 0) && !begin_tags(consumer, deliver.delivery_tag))
        return "basic_deliver.delivery_tag is not the next one";
    if (__builtin_expect(consumer->open_run.end == at, 1)) /* of the same block: others' bytes are elsewhere */
        consumer->open_run.end = at + len;
    else
        begin_run(consumer, block, at, len);
    consumer->next_tag++;
    return NULL;
}

void amqp_consumer_drop_queue(struct coney_amqp_consumer *consumer)
{
    uint64_t bytes = 0;
    drop_open_run(consumer);
    lock_acquire(&consumer->receiver.lock);
    while (consumer->queue_head != consumer->queue_tail) {
        struct run *run = &consumer->queue[consumer->queue_head++ & (consumer->queue_cap - 1)];
        bytes += (uint64_t)(run->end - run->at);
        block_unref(run->block);
    }
    lock_release(&consumer->receiver.lock);
    counter_add(&consumer->received_bytes, 0 - bytes);
    block_unref(consumer->moved);
    consumer->moved = NULL;
}

/* The lane ---------------------------------------------------------------------------------------------------------- */

/* Sets the delivery to the unit at `at` and returns the unit's end. Nothing is checked: the connection has measured the unit, and all of its method
 * was read when it arrived. */
static inline const uint8_t *set_delivery(coney_amqp_delivery *delivery, const uint8_t *at)
{
    const uint8_t *header = at + load32(at + 3) + AMQP_FRAME_BYTES;
    uint32_t header_size = load32(header + 3);
    size_t body_size = (size_t)load64(header + AMQP_HEAD_BYTES + 4);
    const uint8_t *body = header + header_size + AMQP_FRAME_BYTES;
    delivery->encoded_properties.data = header + AMQP_HEAD_BYTES + AMQP_PROPERTIES_AT;
    delivery->encoded_properties.len = header_size - AMQP_PROPERTIES_AT;
    delivery->body.data = body_size > 0 ? body + AMQP_HEAD_BYTES : NULL;
    delivery->body.len = body_size;

    const uint8_t *tag = at + AMQP_HEAD_BYTES + 5 + at[AMQP_HEAD_BYTES + 4];
    delivery->delivery_tag = load64(tag);
    delivery->redelivered = tag[8] & 1;
    const uint8_t *exchange = tag + 9;
    const uint8_t *key = exchange + 1 + exchange[0];
    delivery->exchange.data = exchange + 1;
    delivery->exchange.len = exchange[0];
    delivery->routing_key.data = key + 1;
    delivery->routing_key.len = key[0];
    return body_size > 0 ? body + body_size + AMQP_FRAME_BYTES : body;
}

static inline bool is_stale(const struct coney_amqp_consumer *consumer, uint64_t number)
{
    return number < atomic_load_explicit(&consumer->fresh_from, memory_order_relaxed);
}

static bool take_run(struct coney_amqp_consumer *consumer)
{
    if (consumer->current.block != NULL)
        return true;
    lock_acquire(&consumer->receiver.lock);
    bool taken = consumer->subscribed && consumer->queue_head != consumer->queue_tail;
    if (taken)
        consumer->current = consumer->queue[consumer->queue_head++ & (consumer->queue_cap - 1)];
    lock_release(&consumer->receiver.lock);
    return taken;
}

static void wake_loop(struct coney_amqp_consumer *consumer)
{
    consumer->until_flush = consumer->options.ack_run;
    loop_post(consumer->receiver.member.env->loop, &consumer->receiver.task);
}

void amqp_consumer_drop_current(struct coney_amqp_consumer *consumer)
{
    struct run *run = &consumer->current;
    if (run->block == NULL)
        return;
    atomic_fetch_add(&consumer->handed_bytes, (uint64_t)(run->end - run->at));
    block_unref(run->block);
    *run = (struct run){0};
}

/* What runs for each message. Not inlined, which would leave it short of registers. Returns false when the next one must wait. */
static __attribute__((noinline)) bool hand_over(struct coney_amqp_consumer *consumer)
{
    coney_settle (*on_delivery)(void *, const coney_amqp_delivery *) = consumer->options.on_delivery;
    void *ctx = consumer->options.ctx;
    coney_amqp_delivery *delivery = &consumer->delivery;
    struct run *run = &consumer->current;
    const uint8_t *began = run->at;
    const uint8_t *at = run->at;
    uint64_t first = run->number;
    uint64_t number = first;
    uint64_t otherwise = 0;
    uint64_t bytes = 0;
    bool go_on = true;
    while (go_on && at < run->end && !lane_is_stopped(&consumer->receiver.lane) && !is_stale(consumer, number)) {
        const uint8_t *end = set_delivery(delivery, at);
        run->at = at;
        run->number = number;
        consumer->unit_end = end;
        bytes += delivery->body.len;
        coney_settle how = on_delivery(ctx, delivery);
        if (__builtin_expect(how != CONEY_ACK, 0)) {
            otherwise++;
            amqp_consumer_settle_at_hand(consumer, how);
            go_on = !receiver_keeps_too_much(&consumer->receiver);
        }
        at = end;
        atomic_store_explicit(&consumer->done, ++number, memory_order_release);
        if (__builtin_expect(--consumer->until_flush <= 0, 0))
            wake_loop(consumer);
    }
    run->at = at;
    run->number = number;
    counter_add(&consumer->messages, number - first);
    counter_add(&consumer->acked, number - first - otherwise);
    counter_add(&consumer->bytes, bytes);
    atomic_fetch_add(&consumer->handed_bytes, (uint64_t)(at - began));
    if (at == run->end || is_stale(consumer, number))
        amqp_consumer_drop_current(consumer);
    return go_on;
}

static bool may_read_on(const struct coney_amqp_consumer *consumer)
{
    return atomic_load(&consumer->full) && amqp_consumer_queued_bytes(consumer) <= (uint64_t)consumer->options.max_queued / 2;
}

bool amqp_consumer_run(struct lane *lane)
{
    struct receiver *receiver = container_of(lane, struct receiver, lane);
    struct coney_amqp_consumer *consumer = container_of(receiver, struct coney_amqp_consumer, receiver);
    bool more = take_run(consumer) && !receiver_keeps_too_much(receiver) && hand_over(consumer);
    bool rests = !more || lane_is_stopped(lane);
    if ((rests && consumer->until_flush < consumer->options.ack_run) || may_read_on(consumer))
        wake_loop(consumer);
    return more;
}
