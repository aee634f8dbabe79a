/* consumer_settle.c: what became of each message: noted by the handler's thread and by others, told to the broker by the loop. */
#include "amqp/consumer.h"
#include "amqp/kept.h"

#include "base/text.h"
#include "base/time.h"
#include "proto/amqp091/settle.h"

#include <stdlib.h>

#define FLUSH_INTERVAL (10 * CONEY_MILLISECOND) /* while a handler is slow */
#define STEPS 32                                /* frames written at a time */

/* Noting a settlement: any thread -------------------------------------------------------------------------------------- */

static enum ledger_mark mark_of(coney_settle how)
{
    if (how == CONEY_ACK)
        return LEDGER_ACKED;
    return how == CONEY_REJECT ? LEDGER_REJECTED : LEDGER_REQUEUED;
}

static bool hold_for_retry(struct coney_amqp_consumer *consumer, uint64_t number, int64_t due)
{
    return ledger_hold(&consumer->ledger, number) &&
           (retries_add(&consumer->retries, due, number) || ledger_settle(&consumer->ledger, number, LEDGER_REQUEUED));
}

/* What cannot be noted under no_ack is told as an event by the loop, once for those that it did not get round to yet. */
static void note_void(struct coney_amqp_consumer *consumer)
{
    lock_acquire(&consumer->receiver.lock);
    consumer->not_settled++;
    lock_release(&consumer->receiver.lock);
    receiver_post(&consumer->receiver);
}

/* CONEY_OK, or CONEY_ELOST for a delivery whose place is gone. */
static coney_status note(struct coney_amqp_consumer *consumer, uint64_t number, coney_settle how)
{
    if (consumer->options.no_ack) {
        if (how != CONEY_ACK)
            note_void(consumer);
        return CONEY_OK;
    }
    int64_t due = how > 0 ? time_after(time_now(), how) : 0;
    lock_acquire(&consumer->receiver.lock);
    bool fresh = how > 0 ? hold_for_retry(consumer, number, due) : ledger_settle(&consumer->ledger, number, mark_of(how));
    lock_release(&consumer->receiver.lock);
    return fresh ? CONEY_OK : CONEY_ELOST;
}

/* Where it is counted, under the lock. */
static counter *count_of(struct coney_amqp_consumer *consumer, coney_status noted, coney_settle how)
{
    return noted == CONEY_OK ? &consumer->settled[mark_of(how)] : &consumer->stale;
}

void amqp_consumer_settle_at_hand(struct coney_amqp_consumer *consumer, coney_settle how)
{
    struct member *member = &consumer->receiver.member;
    if (consumer->kept_now == consumer->current.number + 1)
        return;
    if (how <= CONEY_KEPT) {
        log_line(&member->env->log, CONEY_LOG_ERROR,
                 "the handler of queue '%s' returned %lld for delivery %llu, which is no settlement%s: it is requeued",
                 member->name, (long long)how, (unsigned long long)consumer->delivery.delivery_tag,
                 how == CONEY_KEPT ? " without a call of coney_amqp_keep" : "");
        how = CONEY_REQUEUE;
    }
    coney_status noted = note(consumer, consumer->current.number, how);
    lock_acquire(&consumer->receiver.lock);
    counter_add(count_of(consumer, noted, how), 1);
    lock_release(&consumer->receiver.lock);
    if (how > 0)
        loop_post(member->env->loop, &consumer->receiver.task);
}

/* Kept deliveries -------------------------------------------------------------------------------------------------------- */

static coney_status settle_kept(struct coney_kept *head, coney_settle how)
{
    struct amqp_kept *kept = amqp_kept_of(head);
    struct coney_amqp_consumer *consumer = kept->delivery.consumer;
    struct receiver *receiver = &consumer->receiver;
    if (kept->fork != fork_generation()) {
        free(kept);
        return CONEY_EFORKED;
    }
    coney_status status = CONEY_ECLOSED;
    if (atomic_load(&receiver->open) == CONEY_OK)
        status = note(consumer, kept->number, how);
    receiver_take_out(receiver, &kept->kept, count_of(consumer, status, how));
    if (status == CONEY_OK)
        receiver_post(receiver);
    receiver_drop_kept(&kept->kept);
    return status;
}

coney_kept *coney_amqp_keep(const coney_amqp_delivery *delivery)
{
    struct coney_amqp_consumer *consumer = delivery->consumer;
    if (consumer == NULL || delivery != &consumer->delivery || consumer->kept_now == consumer->current.number + 1)
        return NULL;
    const struct run *run = &consumer->current;
    size_t len = (size_t)(consumer->unit_end - run->at);
    struct amqp_kept *kept = amqp_kept_new(run->block, run->at, len, settle_kept);
    if (kept == NULL)
        return NULL;
    kept->delivery.consumer = consumer;
    kept->delivery.queue = delivery->queue;
    kept->number = run->number;
    lock_acquire(&consumer->receiver.lock);
    (void)ledger_hold(&consumer->ledger, run->number); /* a place that is lost meanwhile is found out when it is settled */
    lock_release(&consumer->receiver.lock);
    struct block *block = kept->kept.block;
    receiver_keep(&consumer->receiver, &kept->kept, settle_kept, block, len, run->place);
    block_unref(block);
    consumer->kept_now = run->number + 1;
    return &kept->kept.head;
}

/* Telling the broker: on the loop ---------------------------------------------------------------------------------------- */

/* The open channel, or NULL. */
static struct channel *channel_of(const struct coney_amqp_consumer *consumer)
{
    struct channel *channel = consumer->place.channel;
    bool open = channel != NULL && channel->state == CHANNEL_OPEN && channel->conn->conn.state == CONN_READY;
    return open && !consumer->options.no_ack ? channel : NULL;
}

static uint8_t *write_step(uint8_t *at, uint16_t channel, const struct ledger_step *step, uint64_t tags_before)
{
    uint64_t tag = step->tag + tags_before;
    switch (step->verb) {
    case LEDGER_ACK:
        return amqp_ack_write(at, channel, tag, step->multiple);
    case LEDGER_REJECT:
        return amqp_reject_write(at, channel, tag, false);
    case LEDGER_REQUEUE:
        return amqp_reject_write(at, channel, tag, true);
    case LEDGER_RETURN:
        return amqp_nack_write(at, channel, tag, step->multiple, true);
    }
    return at;
}

static void write_steps(struct coney_amqp_consumer *consumer, struct channel *channel, const struct ledger_step *steps,
                        size_t count)
{
    uint8_t frames[STEPS * AMQP_SETTLE_BYTES];
    uint8_t *at = frames;
    uint64_t acks = 0;
    for (size_t i = 0; i < count; i++) {
        acks += steps[i].verb == LEDGER_ACK;
        at = write_step(at, channel->number, &steps[i], consumer->tags_before);
    }
    counter_add(&consumer->ack_frames, acks);
    link_write(channel->conn->conn.link, frames, (size_t)(at - frames));
}

/* Takes the next steps with `take` and writes them, until there are none. */
static void tell(struct coney_amqp_consumer *consumer, size_t (*take)(struct ledger *, struct ledger_step *, size_t))
{
    struct channel *channel = channel_of(consumer);
    struct ledger_step steps[STEPS];
    for (size_t count = channel != NULL; count > 0;) {
        lock_acquire(&consumer->receiver.lock);
        ledger_pass(&consumer->ledger, atomic_load_explicit(&consumer->done, memory_order_acquire));
        count = take(&consumer->ledger, steps, STEPS);
        lock_release(&consumer->receiver.lock);
        if (count > 0)
            write_steps(consumer, channel, steps, count);
    }
}

void amqp_consumer_flush(struct coney_amqp_consumer *consumer)
{
    tell(consumer, ledger_take);
}

/* What is due at `now` goes back to the queue. */
static void requeue_due(struct coney_amqp_consumer *consumer, int64_t now)
{
    uint64_t number;
    lock_acquire(&consumer->receiver.lock);
    while (retries_take(&consumer->retries, now, &number))
        (void)ledger_settle(&consumer->ledger, number, LEDGER_REQUEUED);
    lock_release(&consumer->receiver.lock);
}

void amqp_consumer_give_back(struct coney_amqp_consumer *consumer)
{
    requeue_due(consumer, INT64_MAX);
    tell(consumer, ledger_take_rest);
}

/* Timers and what else the lane leaves for the loop to do --------------------------------------------------------------- */

static void set_retry_timer(struct coney_amqp_consumer *consumer)
{
    lock_acquire(&consumer->receiver.lock);
    int64_t next = retries_next(&consumer->retries);
    lock_release(&consumer->receiver.lock);
    loop_timer_set(consumer->receiver.member.env->loop, &consumer->retry_timer, next);
}

void amqp_consumer_run_retry_timer(struct timer *timer)
{
    struct coney_amqp_consumer *consumer = container_of(timer, struct coney_amqp_consumer, retry_timer);
    requeue_due(consumer, time_now());
    amqp_consumer_flush(consumer);
    set_retry_timer(consumer);
}

/* Whether a handler has, or may get at any time, what was received. */
static bool is_at_work(struct coney_amqp_consumer *consumer)
{
    struct receiver *receiver = &consumer->receiver;
    uint64_t done = atomic_load_explicit(&consumer->done, memory_order_relaxed);
    uint64_t fresh_from = atomic_load_explicit(&consumer->fresh_from, memory_order_relaxed);
    bool waits = lane_is_stopped(&receiver->lane) || receiver_keeps_too_much(receiver);
    return !waits && consumer->next_number > (done > fresh_from ? done : fresh_from);
}

void amqp_consumer_set_flush_timer(struct coney_amqp_consumer *consumer)
{
    coney_loop *loop = consumer->receiver.member.env->loop;
    if (consumer->flush_timer.place == 0 && channel_of(consumer) != NULL && is_at_work(consumer))
        loop_timer_set(loop, &consumer->flush_timer, time_after(time_now(), FLUSH_INTERVAL));
}

void amqp_consumer_run_flush_timer(struct timer *timer)
{
    struct coney_amqp_consumer *consumer = container_of(timer, struct coney_amqp_consumer, flush_timer);
    amqp_consumer_flush(consumer);
    amqp_consumer_set_flush_timer(consumer);
}

static void tell_void(struct coney_amqp_consumer *consumer)
{
    struct member *member = &consumer->receiver.member;
    lock_acquire(&consumer->receiver.lock);
    uint64_t count = consumer->not_settled;
    consumer->not_settled = 0;
    lock_release(&consumer->receiver.lock);
    if (count == 0)
        return;
    env_event(member->env, &(coney_event){.type = CONEY_EVENT_NOT_SETTLED, .name = member->name, .handle = consumer},
              "%llu messages of queue '%s' were to be rejected, requeued or retried, which cannot be done: the consumer has "
              "no_ack, so "
              "the broker has forgotten them",
              (unsigned long long)count, member->name);
}

void amqp_consumer_task(struct receiver *receiver)
{
    struct coney_amqp_consumer *consumer = container_of(receiver, struct coney_amqp_consumer, receiver);
    amqp_consumer_flush(consumer);
    set_retry_timer(consumer);
    amqp_consumer_set_flush_timer(consumer);
    amqp_consumer_read_on(consumer, false);
    tell_void(consumer);
}
