/* outcome.c: what became of the messages, as the broker says it: confirms and refusals. */
#include "base/text.h"
#include "proto/amqp10/body.h"
#include "proto/amqp10/data.h"
#include "stream/producer.h"

coney_bytes producer_body(const struct sender *sender, const struct slot *slot)
{
    (void)sender;
    const uint8_t *entry = slot->entry;
    coney_bytes encoded = coney_bytes_of(entry + PUBLISH_ENTRY_BYTES, load32(entry + sizeof(uint64_t)));
    coney_bytes body;
    if (!amqp10_data_only(encoded, &body))
        amqp10_body_find(encoded, &body);
    return body;
}

void producer_describe(const struct sender *sender, uint64_t number, const struct slot *slot, coney_outcome *outcome)
{
    (void)number;
    outcome->publishing_id = load64(slot->entry);
    if (outcome->status == CONEY_EREFUSED && slot->size > sender->limit)
        outcome->code = STREAM_CODE_FRAME_TOO_LARGE;
}

void producer_explain(const struct sender *sender, const coney_outcome *outcome, char *text, size_t cap)
{
    if (outcome->status == CONEY_EREFUSED)
        text_print(text, cap, "the broker did not store the message in stream '%s': %s (code %u)", sender->member.name,
                   stream_code_name((uint16_t)outcome->code), (unsigned)outcome->code);
}

void producer_explain_size(const struct sender *sender, coney_bytes body, char *text, size_t cap)
{
    text_print(text, cap,
               "a body of %zu bytes does not fit: with its headers a message may take %zu bytes, since the connection's "
               "frame_max is %u",
               body.len, sender->limit, (unsigned)(sender->limit + PUBLISH_HEADER_BYTES - STREAM_SIZE_BYTES));
}

/* The number of the slot that an id from the wire speaks of; of no slot in hand if it speaks of none. */
static inline uint64_t number_of_id(const struct coney_stream_producer *producer, uint64_t id)
{
    if (producer->sender.outbox.ids_given)
        return outbox_find(&producer->sender.outbox, id);
    return id - atomic_load_explicit(&producer->id_base, memory_order_relaxed);
}

/* Settles and reports every id. `given` is a constant: for coney's own ids a subtraction finds the slot, which is what runs for each message.
 * No callback moves head or cursor. */
static inline __attribute__((always_inline)) uint64_t confirm_each(struct coney_stream_producer *producer, struct list_iter it,
                                                                   bool given)
{
    struct sender *sender = &producer->sender;
    const struct outbox *outbox = &sender->outbox;
    uint64_t id_base = atomic_load_explicit(&producer->id_base, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    uint64_t cursor = outbox->cursor;
    struct sender_report report;
    sender_report_init(sender, &report, CONEY_OK);
    uint64_t confirmed = 0;
    uint64_t id;
    while (list_next_id(&it, &id)) {
        uint64_t number = given ? outbox_find(outbox, id) : id - id_base;
        const struct slot *slot = outbox_settle_taken(outbox, number, head, cursor);
        if (__builtin_expect(slot == NULL, 0))
            continue;
        confirmed++;
        report.outcome.publishing_id = id;
        sender_report(sender, slot, &report);
    }
    return confirmed;
}

void producer_confirmed(struct member *member, struct stream_list ids)
{
    struct coney_stream_producer *producer = container_of(member, struct coney_stream_producer, sender.member);
    struct list_iter it = list_iter_of(ids);
    member_ref(member);
    uint64_t confirmed =
        producer->sender.outbox.ids_given ? confirm_each(producer, it, true) : confirm_each(producer, it, false);
    counter_add(&producer->sender.confirmed, confirmed);
    sender_settled(&producer->sender);
    member_unref(member);
}

/* Codes that say that the broker does not know this publisher any more; the message itself may be sent again. */
static bool means_gone(uint16_t code)
{
    return code == STREAM_CODE_PUBLISHER_DOES_NOT_EXIST || code == STREAM_CODE_STREAM_DOES_NOT_EXIST ||
           code == STREAM_CODE_STREAM_NOT_AVAILABLE;
}

void producer_refused(struct member *member, struct stream_list errors)
{
    struct coney_stream_producer *producer = container_of(member, struct coney_stream_producer, sender.member);
    struct sender *sender = &producer->sender;
    struct sender_report report;
    sender_report_init(sender, &report, CONEY_EREFUSED);
    uint16_t gone = 0;
    member_ref(member);
    struct list_iter it = list_iter_of(errors);
    struct stream_publish_error error;
    while (list_next_error(&it, &error)) {
        uint64_t number = number_of_id(producer, error.id);
        report.outcome.code = error.code;
        if (means_gone(error.code))
            gone = error.code;
        else if (outbox_was_taken(&sender->outbox, number))
            sender_settle(sender, number, &report);
    }
    sender_settled(sender);
    if (gone != 0 && member->state == MEMBER_ACTIVE)
        member_failed(member, CONEY_EUNAVAILABLE, gone, "the broker no longer knows this publisher", false);
    member_unref(member);
}
