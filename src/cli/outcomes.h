/* outcomes.h: what became of messages that were sent: counted, and the first losses told. */
#ifndef CLI_OUTCOMES_H
#define CLI_OUTCOMES_H

#include <coney/coney.h>

#include <stdatomic.h>

/* Counted by one thread (the library's loop, or the one that waits for each outcome), read by any. Begins zeroed. */
struct outcomes {
    const char *what; /* what a tag counts, for texts: "message", "line" */
    _Atomic uint64_t confirmed;
    _Atomic uint64_t refused; /* or returned */
    _Atomic uint64_t unknown;
};

/* A coney_outcome_fn whose ctx is a struct outcomes. The first few that were not confirmed are told on standard error. */
void outcomes_note(void *ctx, const coney_outcome *outcome);

/* Refused, returned or unknown. */
uint64_t outcomes_lost(const struct outcomes *o);

#endif
