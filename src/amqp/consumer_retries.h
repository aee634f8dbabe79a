/* consumer_retries.h: deliveries that are held until a point in time: a heap by their due times, the earliest first.
 *
 * Memory: one array, which grows as it fills and never shrinks. Not thread-safe by itself.
 */
#ifndef CONEY_AMQP_CONSUMER_RETRIES_H
#define CONEY_AMQP_CONSUMER_RETRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retry {
    int64_t due; /* time_now()'s clock */
    uint64_t number;
};

/* Zeroed, it is empty. */
struct retries {
    struct retry *heap;
    size_t count;
    size_t cap;
};

void retries_free(struct retries *retries);

/* False: memory is out, nothing has changed. O(log n). */
bool retries_add(struct retries *retries, int64_t due, uint64_t number);

/* Takes out the earliest and gives its number, if it is due at `now`. O(log n). */
bool retries_take(struct retries *retries, int64_t now, uint64_t *number);

/* When the earliest is due; INT64_MAX: there is none. */
static inline int64_t retries_next(const struct retries *retries)
{
    return retries->count > 0 ? retries->heap[0].due : INT64_MAX;
}

#endif
