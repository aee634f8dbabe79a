/* histogram.h: a distribution of durations in fixed memory, and its percentiles.
 *
 * Count, sum and maximum are exact; a percentile is at most 0.1 % above the value that it stands for, and never above the maximum.
 * 270 KiB each, allocated by the user, zeroed to begin with. Not thread-safe.
 */
#ifndef CLI_HISTOGRAM_H
#define CLI_HISTOGRAM_H

#include <stdint.h>

/* Values below 1024 ns have a cell each, later ones 1024 cells for each doubling, up to 2^43 ns (2.4 hours). */
enum { HISTOGRAM_STEPS = 1024, HISTOGRAM_CELLS = HISTOGRAM_STEPS * (43 - 10 + 1) };

struct histogram {
    uint64_t count;
    uint64_t sum; /* nanoseconds */
    uint64_t max;
    uint64_t cells[HISTOGRAM_CELLS];
};

/* Adds one value in nanoseconds; a negative one counts as 0. O(1). */
void histogram_add(struct histogram *h, int64_t ns);

/* Adds everything that is in `from`. */
void histogram_merge(struct histogram *h, const struct histogram *from);

/* The smallest value that at least the fraction `p` (0 … 1) of all values do not exceed. 0 when there are none. */
uint64_t histogram_percentile(const struct histogram *h, double p);

/* 0 when there are no values. */
uint64_t histogram_average(const struct histogram *h);

#endif
