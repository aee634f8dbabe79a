/* confirm_return.c: messages that no queue took: which one came back.
 *
 * basic.return has no number. The broker returns in the order of publishing, so what comes back is the next slot in hand, from where the last one
 * was found, that was mandatory and is like it: exchange, key and body byte for byte, and the properties as far as a broker keeps them.
 */
#include "amqp/publisher.h"

#include "base/text.h"

struct returned {
    struct amqp_basic_return method;
    coney_bytes encoded; /* properties */
    struct amqp_properties properties;
    coney_bytes body;
};

/* A number, or bytes; of compound values only that both are: a broker may put the entries of tables into another order. */
static bool values_equal(const coney_value *a, const coney_value *b)
{
    coney_bytes x, y;
    if (a->type != b->type)
        return false;
    if (a->type >= CONEY_VALUE_LIST || a->type == CONEY_VALUE_NULL)
        return true;
    if (coney_value_to_bytes(a, &x) && coney_value_to_bytes(b, &y))
        return bytes_equal(x, y);
    return a->as.u64 == b->as.u64;
}

/* Brokers sort headers and drop repeated ones, so each of theirs must be among ours. */
static bool headers_equal(const coney_value *ours, const coney_value *theirs)
{
    coney_value_iter it = coney_value_elements(theirs);
    coney_field field;
    while (coney_value_next_field(&it, &field)) {
        coney_value value;
        if (!coney_value_find(ours, field.key, &value) || !values_equal(&value, &field.value))
            return false;
    }
    return true;
}

static bool properties_equal(coney_bytes encoded, const struct returned *returned)
{
    struct amqp_properties ours;
    const struct amqp_properties *theirs = &returned->properties;
    if (bytes_equal(encoded, returned->encoded))
        return true;
    return amqp_properties_read(encoded, &ours) == NULL && bytes_equal(ours.correlation_id, theirs->correlation_id) &&
           bytes_equal(ours.message_id, theirs->message_id) && bytes_equal(ours.reply_to, theirs->reply_to) &&
           bytes_equal(ours.content_type, theirs->content_type) && bytes_equal(ours.type, theirs->type) &&
           bytes_equal(ours.app_id, theirs->app_id) && bytes_equal(ours.expiration, theirs->expiration) &&
           ours.timestamp == theirs->timestamp && ours.priority == theirs->priority &&
           headers_equal(&ours.headers, &theirs->headers);
}

static bool body_equal(struct outlet_entry *entry, coney_bytes body)
{
    const uint8_t *at = body.data;
    for (coney_bytes piece = outlet_entry_body(entry); piece.len > 0; piece = outlet_entry_body(entry)) {
        if (memcmp(at, piece.data, piece.len) != 0)
            return false;
        at += piece.len;
    }
    return true;
}

enum likeness { UNLIKE, ALIKE, EQUAL };

static enum likeness compare(const struct slot *slot, const struct returned *returned)
{
    if (slot->state != SLOT_OPEN || (slot->flags & SLOT_MANDATORY) == 0)
        return UNLIKE;
    struct outlet_entry entry = outlet_entry_read(slot);
    if (entry.body_size != returned->body.len || !bytes_equal(entry.routing_key, returned->method.routing_key) ||
        !bytes_equal(entry.exchange, returned->method.exchange))
        return UNLIKE;
    coney_bytes properties = entry.properties;
    if (!body_equal(&entry, returned->body))
        return UNLIKE;
    return properties_equal(properties, returned) ? EQUAL : ALIKE;
}

/* The first equal slot in [from, end); if there is none, the first that is alike; UINT64_MAX: neither. */
static uint64_t search(const struct outbox *outbox, uint64_t from, uint64_t end, const struct returned *returned)
{
    uint64_t alike = UINT64_MAX;
    for (uint64_t number = from; number < end; number++) {
        enum likeness likeness = compare(outbox_slot(outbox, number), returned);
        if (likeness == EQUAL)
            return number;
        if (likeness == ALIKE && alike == UINT64_MAX)
            alike = number;
    }
    return alike;
}

static uint64_t find(const struct coney_amqp_publisher *publisher, const struct returned *returned)
{
    const struct outbox *outbox = &publisher->outlet.sender.outbox;
    uint64_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    uint64_t from = publisher->return_from > head ? publisher->return_from : head;
    uint64_t number = search(outbox, from, outbox->cursor, returned);
    return number != UINT64_MAX ? number : search(outbox, head, from, returned);
}

static const char *read_return(struct returned *returned, const uint8_t *at, size_t len)
{
    struct amqp_unit unit;
    struct amqp_method method;
    if (!amqp_unit_read(at, len, &unit))
        return "unit";
    if (unit.id != AMQP_BASIC_RETURN)
        return "a publisher's channel gets no deliveries";
    const char *field = amqp_decode(unit.method, &method);
    if (field == NULL)
        field = amqp_properties_read(unit.properties, &returned->properties);
    returned->method = method.basic_return;
    returned->encoded = unit.properties;
    returned->body = unit.body;
    return field;
}

const char *confirm_return(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct coney_amqp_publisher *publisher = publisher_of_member(ctx);
    struct sender *sender = &publisher->outlet.sender;
    (void)block;
    struct returned returned;
    const char *field = read_return(&returned, at, len);
    if (field != NULL)
        return field;
    uint64_t number = publisher->unconfirmed ? UINT64_MAX : find(publisher, &returned);
    if (number == UINT64_MAX) { /* it has its outcome already, or was never to have one */
        outlet_tell_returned(ctx, &returned.method);
        return NULL;
    }
    char words[AMQP_SHORT_MAX + 1];
    text_from_wire(words, sizeof words, returned.method.text);
    struct sender_report report;
    sender_report_init(sender, &report, CONEY_ERETURNED);
    report.outcome.code = returned.method.code;
    report.outcome.text = words;
    publisher->return_from = number + 1;
    confirm_report(publisher, outbox_settle(&sender->outbox, number), &report);
    return NULL;
}
