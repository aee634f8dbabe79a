/* backoff.c: the doubling, and the generator behind the jitter. */
#include "core/backoff.h"

void backoff_reset(struct backoff *b)
{
    b->attempts = 0;
}

/* The delay before attempt number `attempt` (from 2 on) without jitter. */
static int64_t doubled(const struct backoff *b, uint32_t attempt)
{
    int64_t delay = b->first < b->most ? b->first : b->most;
    for (uint32_t i = 2; i < attempt && delay > 0 && delay < b->most; i++)
        delay = delay > b->most / 2 ? b->most : delay * 2;
    return delay;
}

int64_t backoff_next(struct backoff *b)
{
    if (b->attempts < UINT32_MAX)
        b->attempts++;
    if (b->attempts == 1)
        return 0;
    int64_t delay = doubled(b, b->attempts);
    if (delay <= 0)
        return 0;
    uint64_t half = (uint64_t)delay / 2;
    return delay - (int64_t)(backoff_random(&b->seed) % (half + 1));
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators". */
uint64_t backoff_random(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
