/* pace.h: a timetable of `rate` messages a second, by arithmetic: message n is due at n / rate seconds after the start, however
 * late the ones before it were, so a delay is never dropped from what is measured.
 */
#ifndef CLI_PACE_H
#define CLI_PACE_H

#include <stdint.h>

/* When message `n` (from 0) is due, in nanoseconds from the start. `rate`: 1 … 10^9. */
static inline int64_t pace_due_at(uint64_t n, uint64_t rate)
{
    return (int64_t)(n / rate * 1000000000 + n % rate * 1000000000 / rate);
}

/* How many messages are due when `elapsed` nanoseconds have passed since the start: the first is due at once. */
static inline uint64_t pace_due(int64_t elapsed, uint64_t rate)
{
    if (elapsed < 0)
        return 0;
    uint64_t ns = (uint64_t)elapsed;
    uint64_t n = ns / 1000000000 * rate + ns % 1000000000 * rate / 1000000000;
    return n + (pace_due_at(n, rate) <= elapsed) + (pace_due_at(n + 1, rate) <= elapsed);
}

/* How many of the messages 0 … due-1 fall to publisher `index` of `publishers`, which take turns. */
static inline uint64_t pace_share(uint64_t due, uint64_t index, uint64_t publishers)
{
    return due > index ? (due - index - 1) / publishers + 1 : 0;
}

#endif
