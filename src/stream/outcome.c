/* outcome.c: what became of the messages: confirms and refusals from the wire, deadlines, and the end of the producer. */
#include "base/text.h"
#include "proto/amqp10/body.h"
#include "proto/amqp10/data.h"
#include "stream/producer.h"

coney_bytes coney_outcome_body(const coney_outcome *outcome)
{
    const uint8_t *entry = outcome->internal;
    coney_bytes encoded = coney_bytes_of(entry + PUBLISH_ENTRY_BYTES, load32(entry + sizeof(uint64_t)));
    coney_bytes body;
    if (!amqp10_data_only(encoded, &body))
        amqp10_body_find(encoded, &body);
    return body;
}

static void report_to_op(struct coney_stream_producer *producer, const struct slot *slot, const coney_outcome *outcome)
{
    struct op *op = (struct op *)(uintptr_t)slot->tag;
    char text[TEXT_CAP] = "";
    if (outcome->status == CONEY_EREFUSED)
        text_print(text, sizeof text, "the broker did not store the message in stream '%s': %s (code %u)",
                   producer->member.stream, stream_code_name((uint16_t)outcome->code), (unsigned)outcome->code);
    op_end(op, outcome->status, outcome->code, outcome->publishing_id, text);
    op_unref(op);
}

/* Reports what became of a slot that was settled just now. */
static inline void report(struct coney_stream_producer *producer, const struct slot *slot, uint64_t id, coney_outcome *outcome)
{
    outcome->tag = slot->tag;
    outcome->publishing_id = id;
    outcome->internal = slot->entry;
    if (__builtin_expect((slot->flags & SLOT_WAITED) != 0, 0))
        report_to_op(producer, slot, outcome);
    else if (producer->on_outcome != NULL)
        producer->on_outcome(producer->ctx, outcome);
}

/* The number of the slot that an id from the wire speaks of; of no slot in hand if it speaks of none. */
static inline uint64_t number_of_id(const struct coney_stream_producer *producer, uint64_t id)
{
    if (producer->outbox.ids_given)
        return outbox_find(&producer->outbox, id);
    return id - atomic_load_explicit(&producer->id_base, memory_order_relaxed);
}

/* Settles and reports every id. `given` is a constant: for coney's own ids a subtraction finds the slot, which is what runs for each message.
 * No callback moves head or cursor. */
static inline __attribute__((always_inline)) uint64_t confirm_each(struct coney_stream_producer *producer, struct list_iter it,
                                                                   bool given)
{
    const struct outbox *outbox = &producer->outbox;
    uint64_t id_base = atomic_load_explicit(&producer->id_base, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    uint64_t cursor = outbox->cursor;
    coney_outcome outcome = {.status = CONEY_OK};
    uint64_t confirmed = 0;
    uint64_t id;
    while (list_next_id(&it, &id)) {
        uint64_t number = given ? outbox_find(outbox, id) : id - id_base;
        const struct slot *slot = outbox_settle_taken(outbox, number, head, cursor);
        if (__builtin_expect(slot == NULL, 0))
            continue;
        confirmed++;
        report(producer, slot, id, &outcome);
    }
    return confirmed;
}

void producer_confirmed(struct member *member, struct stream_list ids)
{
    struct coney_stream_producer *producer = container_of(member, struct coney_stream_producer, member);
    struct list_iter it = list_iter_of(ids);
    member_ref(member);
    uint64_t confirmed = producer->outbox.ids_given ? confirm_each(producer, it, true) : confirm_each(producer, it, false);
    counter_add(&producer->confirmed, confirmed);
    producer_settled(producer);
    member_unref(member);
}

static void report_refusal(struct coney_stream_producer *producer, const struct slot *slot, coney_outcome *outcome)
{
    counter_add(&producer->refused, 1);
    if (producer->closing != NULL)
        producer->unconfirmed_in_close++;
    report(producer, slot, load64(slot->entry), outcome);
}

/* Codes that say that the broker does not know this publisher any more; the message itself may be sent again. */
static bool means_gone(uint16_t code)
{
    return code == STREAM_CODE_PUBLISHER_DOES_NOT_EXIST || code == STREAM_CODE_STREAM_DOES_NOT_EXIST ||
           code == STREAM_CODE_STREAM_NOT_AVAILABLE;
}

void producer_refused(struct member *member, struct stream_list errors)
{
    struct coney_stream_producer *producer = container_of(member, struct coney_stream_producer, member);
    const struct outbox *outbox = &producer->outbox;
    uint64_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    coney_outcome outcome = {.status = CONEY_EREFUSED};
    uint16_t gone = 0;
    member_ref(member);
    struct list_iter it = list_iter_of(errors);
    struct stream_publish_error error;
    while (list_next_error(&it, &error)) {
        if (means_gone(error.code)) {
            gone = error.code;
            continue;
        }
        const struct slot *slot = outbox_settle_taken(outbox, number_of_id(producer, error.id), head, outbox->cursor);
        if (slot == NULL)
            continue;
        outcome.code = error.code;
        report_refusal(producer, slot, &outcome);
    }
    producer_settled(producer);
    if (gone != 0 && member->state == MEMBER_ACTIVE)
        member_failed(member, CONEY_EUNAVAILABLE, gone, "the broker no longer knows this publisher", false);
    member_unref(member);
}

void producer_refuse_oversized(struct coney_stream_producer *producer, size_t limit)
{
    struct outbox *outbox = &producer->outbox;
    coney_outcome outcome = {.status = CONEY_EREFUSED, .code = STREAM_CODE_FRAME_TOO_LARGE};
    uint64_t tail = atomic_load(&outbox->tail);
    for (uint64_t number = atomic_load(&outbox->head); number < tail; number++) {
        if (outbox_slot(outbox, number)->size <= limit)
            continue;
        const struct slot *slot = outbox_settle(outbox, number);
        if (slot != NULL)
            report_refusal(producer, slot, &outcome);
    }
    producer_settled(producer);
}

void producer_give_up(struct coney_stream_producer *producer, uint64_t end)
{
    struct outbox *outbox = &producer->outbox;
    coney_outcome outcome = {.status = CONEY_EUNKNOWN};
    member_ref(&producer->member);
    for (uint64_t number = atomic_load(&outbox->head); number < end; number++) {
        const struct slot *slot = outbox_settle(outbox, number);
        if (slot == NULL)
            continue;
        counter_add(&producer->unknown, 1);
        if (producer->closing != NULL)
            producer->unconfirmed_in_close++;
        outcome.unsent = number >= outbox->left;
        report(producer, slot, load64(slot->entry), &outcome);
    }
    producer_settled(producer);
    member_unref(&producer->member);
}

/* Gives whoever was told CONEY_EAGAIN a sign, once there is room. */
static void tell_writable(struct coney_stream_producer *producer)
{
    struct outbox *outbox = &producer->outbox;
    lock_acquire(&outbox->lock);
    bool tell = producer->wants_room && atomic_load(&producer->open) == CONEY_OK && outbox_has_room(outbox, 1);
    if (tell)
        producer->wants_room = false;
    lock_release(&outbox->lock);
    if (tell && producer->on_writable != NULL)
        producer->on_writable(producer->ctx);
}

void producer_settled(struct coney_stream_producer *producer)
{
    struct outbox *outbox = &producer->outbox;
    if (outbox_advance(outbox) == 0)
        return;
    producer_retry_held(producer);
    if (producer->on_writable != NULL)
        tell_writable(producer);
    producer_end_flushes(producer);
    if (producer->closing != NULL && outbox_pending(outbox) == 0)
        producer_finish_close(producer);
}
