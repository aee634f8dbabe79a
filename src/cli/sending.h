/* sending.h: producers of the tool: sends that outlast a broker's pause, and the outcomes of what was sent. */
#ifndef CLI_SENDING_H
#define CLI_SENDING_H

#include <coney/stream.h>

#include <stdatomic.h>

/* How often a send that waits for room looks whether the run is to end. */
#define SENDING_PATIENCE (200 * CONEY_MILLISECOND)

/* Counted by one thread (the library's loop, or the one that waits for each outcome), read by any. Begins zeroed. */
struct outcomes {
    const char *what; /* what a tag counts, for texts: "message", "line" */
    _Atomic uint64_t confirmed;
    _Atomic uint64_t refused;
    _Atomic uint64_t unknown;
};

/* A coney_outcome_fn whose ctx is a struct outcomes. The first few that were not confirmed are told on standard error. */
void outcomes_note(void *ctx, const coney_outcome *outcome);

/* Refused or unknown. */
uint64_t outcomes_lost(const struct outcomes *o);

/* coney_stream_send for a producer whose enqueue_timeout is SENDING_PATIENCE: waits for room until there is some or the run is to
 * end, which is CONEY_ETIMEDOUT. */
coney_status sending_one(coney_stream_producer *producer, coney_bytes body, uint64_t tag);

/* Waits for the outcomes of all that was sent: up to `timeout` nanoseconds, or until the run is to end. */
void sending_flush(coney_stream_producer *producer, int64_t timeout);

#endif
