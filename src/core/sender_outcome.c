/* sender_outcome.c: what became of the messages: reports, deadlines, and the end of the sender. */
#include "base/text.h"
#include "core/sender_internal.h"

coney_bytes coney_outcome_body(const coney_outcome *outcome)
{
    const struct sender_report *report = outcome->internal;
    return report->sender->kind->body(report->sender, report->slot);
}

void sender_report_to_op(struct sender *sender, struct sender_report *report)
{
    const coney_outcome *outcome = &report->outcome;
    struct op *op = (struct op *)(uintptr_t)report->slot->tag;
    char text[TEXT_CAP] = "";
    if (outcome->status != CONEY_OK)
        sender->kind->explain(sender, outcome, text, sizeof text);
    op_end(op, outcome->status, outcome->code, outcome->publishing_id, text);
    op_unref(op);
}

static void count(struct sender *sender, coney_status status)
{
    counter *counted = status == CONEY_OK          ? &sender->confirmed
                       : status == CONEY_EREFUSED  ? &sender->refused
                       : status == CONEY_ERETURNED ? &sender->returned
                                                   : &sender->unknown;
    counter_add(counted, 1);
    if (status != CONEY_OK && sender->closing != NULL)
        sender->unconfirmed_in_close++;
}

bool sender_settle(struct sender *sender, uint64_t number, struct sender_report *report)
{
    const struct slot *slot = outbox_settle(&sender->outbox, number);
    if (slot == NULL)
        return false;
    count(sender, report->outcome.status);
    sender->kind->describe(sender, number, slot, &report->outcome);
    sender_report(sender, slot, report);
    return true;
}

void sender_refuse_oversized(struct sender *sender)
{
    struct outbox *outbox = &sender->outbox;
    struct sender_report report;
    sender_report_init(sender, &report, CONEY_EREFUSED);
    uint64_t tail = atomic_load(&outbox->tail);
    for (uint64_t number = atomic_load(&outbox->head); number < tail; number++)
        if (!sender->kind->fits(sender, outbox_slot(outbox, number)))
            sender_settle(sender, number, &report);
    sender_settled(sender);
}

void sender_give_up(struct sender *sender, uint64_t end)
{
    struct outbox *outbox = &sender->outbox;
    struct sender_report report;
    sender_report_init(sender, &report, CONEY_EUNKNOWN);
    member_ref(&sender->member);
    for (uint64_t number = atomic_load(&outbox->head); number < end; number++) {
        report.outcome.unsent = number >= outbox->left;
        sender_settle(sender, number, &report);
    }
    sender_settled(sender);
    member_unref(&sender->member);
}

/* Gives whoever was told CONEY_EAGAIN a sign, once there is room. */
static void tell_writable(struct sender *sender)
{
    struct outbox *outbox = &sender->outbox;
    lock_acquire(&outbox->lock);
    bool tell = sender->wants_room && atomic_load(&sender->open) == CONEY_OK && outbox_has_room(outbox, 1);
    if (tell)
        sender->wants_room = false;
    lock_release(&outbox->lock);
    if (tell && sender->on_writable != NULL)
        sender->on_writable(sender->ctx);
}

void sender_settled(struct sender *sender)
{
    struct outbox *outbox = &sender->outbox;
    if (outbox_advance(outbox) == 0)
        return;
    sender_retry_held(sender);
    if (sender->on_writable != NULL)
        tell_writable(sender);
    sender_end_flushes(sender);
    if (sender->closing != NULL && outbox_pending(outbox) == 0)
        sender_finish_close(sender);
}
