/* sending.c: outcomes counted, sends repeated while the outbox is full. */
#include "sending.h"
#include "session.h"
#include "stop.h"

#include <inttypes.h>

enum { TOLD = 5 };

/* One thread counts: no locked instruction is needed. Returns the new number. */
static uint64_t count(_Atomic uint64_t *counter)
{
    uint64_t number = atomic_load_explicit(counter, memory_order_relaxed) + 1;
    atomic_store_explicit(counter, number, memory_order_release);
    return number;
}

static void tell(const struct outcomes *o, const coney_outcome *outcome)
{
    const char *text = outcome->unsent ? "it never left this process" : coney_status_text(outcome->status);
    if (outcome->code != 0)
        complain(0, "%s %" PRIu64 " was refused with code %" PRIu32 ": %s", o->what, outcome->tag, outcome->code, text);
    else
        complain(0, "%s %" PRIu64 " is not confirmed: %s", o->what, outcome->tag, text);
    if (outcomes_lost(o) == TOLD)
        complain(0, "further ones are only counted");
}

void outcomes_note(void *ctx, const coney_outcome *outcome)
{
    struct outcomes *o = ctx;
    if (outcome->status == CONEY_OK) {
        count(&o->confirmed);
        return;
    }
    count(outcome->status == CONEY_EUNKNOWN ? &o->unknown : &o->refused);
    if (outcomes_lost(o) <= TOLD)
        tell(o, outcome);
}

uint64_t outcomes_lost(const struct outcomes *o)
{
    return atomic_load(&o->refused) + atomic_load(&o->unknown);
}

coney_status sending_one(coney_stream_producer *producer, coney_bytes body, uint64_t tag)
{
    coney_status status;
    do
        status = coney_stream_send(producer, body, tag);
    while (status == CONEY_ETIMEDOUT && !stop_asked());
    return status;
}

void sending_flush(coney_stream_producer *producer, int64_t timeout)
{
    coney_status status = CONEY_ETIMEDOUT;
    for (int64_t left = timeout; left > 0 && status == CONEY_ETIMEDOUT && !stop_asked(); left -= SENDING_PATIENCE) {
        coney_call call = {.deadline = left < SENDING_PATIENCE ? left : SENDING_PATIENCE};
        status = coney_stream_producer_flush(producer, &call);
    }
}
