/* confirm.c: the broker's confirms: ack and nack, single and multiple. */
#include "amqp/publisher.h"

/* `count` slots were settled with one status. */
static void settled(struct coney_amqp_publisher *publisher, coney_status status, uint64_t count)
{
    struct sender *sender = &publisher->outlet.sender;
    counter_add(status == CONEY_OK          ? &sender->confirmed
                : status == CONEY_ERETURNED ? &sender->returned
                                            : &sender->refused,
                count);
    if (status != CONEY_OK && sender->closing != NULL)
        sender->unconfirmed_in_close += count;
    outlet_settle_soon(&publisher->outlet);
}

void confirm_report(struct coney_amqp_publisher *publisher, const struct slot *slot, struct sender_report *report)
{
    settled(publisher, report->outcome.status, 1);
    sender_report(&publisher->outlet.sender, slot, report);
}

/* A confirm names a sequence number of this channel; 0 with `multiple`: all. False: it is of nothing that was sent. */
static bool was_sent(const struct coney_amqp_publisher *publisher, uint64_t tag, bool multiple)
{
    return (tag > 0 || multiple) && tag < publisher->map.next;
}

/* All up to `last` that are open. The open slots before the cursor are those that were sent on this channel. The head moves once for all that one
 * read brings, so several of these must not each begin there. */
static void settle_up_to(struct coney_amqp_publisher *publisher, uint64_t last, struct sender_report *report)
{
    const struct outbox *outbox = &publisher->outlet.sender.outbox;
    uint64_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    uint64_t cursor = outbox->cursor;
    uint64_t end = last < cursor ? last + 1 : cursor;
    uint64_t count = 0;
    uint64_t number = publisher->settled_to > head ? publisher->settled_to : head;
    if (end > number)
        publisher->settled_to = end;
    for (; number < end; number++) {
        const struct slot *slot = outbox_settle_taken(outbox, number, head, cursor);
        if (slot == NULL)
            continue;
        count++;
        sender_report(&publisher->outlet.sender, slot, report);
    }
    settled(publisher, report->outcome.status, count);
}

static void settle_one(struct coney_amqp_publisher *publisher, uint64_t number, struct sender_report *report)
{
    const struct outbox *outbox = &publisher->outlet.sender.outbox;
    uint64_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    const struct slot *slot = outbox_settle_taken(outbox, number, head, outbox->cursor);
    if (slot != NULL)
        confirm_report(publisher, slot, report);
}

static void confirm(struct coney_amqp_publisher *publisher, uint64_t tag, bool multiple, coney_status status)
{
    struct sender_report report;
    if (!was_sent(publisher, tag, multiple)) {
        amqp_conn_protocol_error(publisher->outlet.place.channel->conn,
                                 "a confirm names a message that was not published on its channel");
        return;
    }
    sender_report_init(&publisher->outlet.sender, &report, status);
    if (tag == 0)
        tag = publisher->map.next - 1;
    if (tag == 0)
        return;
    uint64_t number = confirm_map_slot(&publisher->map, tag);
    if (multiple)
        settle_up_to(publisher, number, &report);
    else
        settle_one(publisher, number, &report);
}

void confirm_ack(void *ctx, uint64_t tag, bool multiple)
{
    confirm(publisher_of_member(ctx), tag, multiple, CONEY_OK);
}

void confirm_method(void *ctx, const struct amqp_method *method)
{
    struct coney_amqp_publisher *publisher = publisher_of_member(ctx);
    if (method->id == AMQP_BASIC_ACK) {
        confirm(publisher, method->basic_ack.delivery_tag, method->basic_ack.multiple, CONEY_OK);
    } else if (method->id == AMQP_BASIC_NACK) {
        confirm(publisher, method->basic_nack.delivery_tag, method->basic_nack.multiple, CONEY_EREFUSED);
    } else if (method->id == AMQP_CHANNEL_FLOW) {
        publisher->stopped = !method->channel_flow.active;
        sender_want_write(&publisher->outlet.sender);
    }
}
