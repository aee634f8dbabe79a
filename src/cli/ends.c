/* ends.c: what is the same for every protocol: sends repeated while there is no room, outcomes waited for. */
#include "ends.h"
#include "stop.h"

static const struct protocol *by(const struct sender *sender)
{
    return sender->session->protocol;
}

bool sender_open(struct sender *sender, coney_call *call)
{
    return by(sender)->sender_open(sender, call);
}

coney_status sender_send(struct sender *sender, coney_bytes body, uint64_t tag)
{
    coney_status status;
    do
        status = by(sender)->send(sender, body, tag);
    while (status == CONEY_ETIMEDOUT && !stop_asked());
    return status;
}

coney_status sender_send_batch(struct sender *sender, const coney_bytes *bodies, size_t count, uint64_t first_tag,
                               size_t *accepted)
{
    coney_status status;
    *accepted = 0;
    do {
        size_t taken = 0;
        status = by(sender)->send_batch(sender, bodies + *accepted, count - *accepted, first_tag + *accepted, &taken);
        *accepted += taken;
    } while (status == CONEY_ETIMEDOUT && !stop_asked());
    return status;
}

coney_status sender_send_wait(struct sender *sender, coney_bytes body, uint64_t tag)
{
    coney_call call = {0};
    coney_status status = by(sender)->send_wait(sender, body, &call);
    if (status == CONEY_ETIMEDOUT)
        status = CONEY_EUNKNOWN;
    if (status != CONEY_OK && status != CONEY_EREFUSED && status != CONEY_ERETURNED && status != CONEY_EUNKNOWN)
        return status;
    const coney_outcome outcome = {
        .tag = tag, .publishing_id = call.value, .status = status, .code = call.code, .text = call.text};
    outcomes_note(sender->outcomes, &outcome);
    return CONEY_OK;
}

void sender_flush(struct sender *sender, int64_t timeout)
{
    coney_status status = CONEY_ETIMEDOUT;
    for (int64_t left = timeout; left > 0 && status == CONEY_ETIMEDOUT && !stop_asked(); left -= SENDER_PATIENCE) {
        coney_call call = {.deadline = left < SENDER_PATIENCE ? left : SENDER_PATIENCE};
        status = by(sender)->flush(sender, &call);
    }
}

void sender_finish(struct sender *sender)
{
    by(sender)->flush(sender, &(coney_call){.deadline = stop_patience()});
}

void sender_close(struct sender *sender)
{
    by(sender)->sender_close(sender, &(coney_call){.deadline = stop_patience()});
}

bool receiver_open(struct receiver *receiver, coney_call *call)
{
    return receiver->session->protocol->receiver_open(receiver, call);
}

void receiver_close(struct receiver *receiver)
{
    receiver->session->protocol->receiver_close(receiver, &(coney_call){.deadline = stop_patience()});
}
