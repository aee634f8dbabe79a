/* outcomes.c: outcomes counted. */
#include "outcomes.h"
#include "session.h"

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
    const char *text = outcome->unsent          ? "it never left this process"
                       : *outcome->text != '\0' ? outcome->text
                                                : coney_status_text(outcome->status);
    if (outcome->status == CONEY_ERETURNED)
        complain(0, "%s %" PRIu64 " was returned, no queue takes it: %" PRIu32 " %s", o->what, outcome->tag, outcome->code,
                 outcome->text);
    else if (outcome->code != 0)
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
