/* confirm_culprit.c: which message makes the broker close the channel (404, 403, 406).
 *
 * The broker names no message. With one in flight it is that one, which is refused. With several they are doubtful: all are sent again one at a
 * time, until the channel is closed with exactly one in flight, or all are through; where nothing is sent again they stay unknown. Each such close
 * is progress and costs no pause; one that blames nobody is followed by the usual back-off.
 */
#include "amqp/publisher.h"

uint32_t culprit_allowance(const struct coney_amqp_publisher *publisher)
{
    const struct outbox *outbox = &publisher->outlet.sender.outbox;
    uint64_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    if (__builtin_expect(head >= publisher->doubtful, 1))
        return UINT32_MAX;
    return outbox->cursor > head ? 0 : 1;
}

/* How many slots are in flight, up to 2, and the first of them. */
static unsigned in_flight(const struct outbox *outbox, uint64_t *first)
{
    unsigned count = 0;
    for (uint64_t number = atomic_load(&outbox->head); number < outbox->cursor && count < 2; number++) {
        if (outbox_slot(outbox, number)->state != SLOT_OPEN)
            continue;
        if (count++ == 0)
            *first = number;
    }
    return count;
}

static void refuse(struct coney_amqp_publisher *publisher, uint64_t number, uint16_t code, const char *text)
{
    struct sender_report report;
    sender_report_init(&publisher->outlet.sender, &report, CONEY_EREFUSED);
    report.outcome.code = code;
    report.outcome.text = text;
    confirm_report(publisher, outbox_settle(&publisher->outlet.sender.outbox, number), &report);
}

void culprit_look(struct coney_amqp_publisher *publisher, uint16_t code, const char *text)
{
    struct sender *sender = &publisher->outlet.sender;
    if (publisher->unconfirmed)
        return;
    uint64_t first = 0;
    unsigned count = in_flight(&sender->outbox, &first);
    if (count == 0 || (count > 1 && sender->no_resend))
        return;
    if (count == 1)
        refuse(publisher, first, code, text);
    else
        publisher->doubtful = sender->outbox.cursor;
    backoff_reset(&sender->member.backoff);
}
