/* backoff.h: how long to wait before the next attempt: none before the first, then `first` doubling to `most`, each with jitter. */
#ifndef CONEY_CORE_BACKOFF_H
#define CONEY_CORE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t first; /* nanoseconds */
    int64_t most;
    uint32_t attempts; /* made since the last reset */
    uint64_t seed;     /* of the jitter; any value */
};

/* Starts over, after a success. */
void backoff_reset(struct backoff *b);

/* Counts one more attempt and says how long to wait before it: 0 for the first; then between half and the whole of the doubled delay. */
int64_t backoff_next(struct backoff *b);

/* The next number of a small generator (splitmix64): for jitter and for choosing among equals. Not for secrets. */
uint64_t backoff_random(uint64_t *seed);

#endif
