/* histogram.c: durations counted in cells whose width grows with the value. */
#include "histogram.h"

#include <math.h>

static unsigned cell_of(uint64_t ns)
{
    if (ns < HISTOGRAM_STEPS)
        return (unsigned)ns;
    unsigned doublings = 63 - (unsigned)__builtin_clzll(ns) - 10;
    unsigned cell = (doublings + 1) * HISTOGRAM_STEPS + (unsigned)(ns >> doublings) - HISTOGRAM_STEPS;
    return cell < HISTOGRAM_CELLS ? cell : HISTOGRAM_CELLS - 1;
}

/* The largest value of a cell. */
static uint64_t cell_top(unsigned cell)
{
    if (cell < HISTOGRAM_STEPS)
        return cell;
    unsigned doublings = cell / HISTOGRAM_STEPS - 1;
    return ((uint64_t)(cell % HISTOGRAM_STEPS + HISTOGRAM_STEPS + 1) << doublings) - 1;
}

void histogram_add(struct histogram *h, int64_t ns)
{
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    h->count++;
    h->sum += value;
    if (value > h->max)
        h->max = value;
    h->cells[cell_of(value)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *from)
{
    h->count += from->count;
    h->sum += from->sum;
    if (from->max > h->max)
        h->max = from->max;
    for (unsigned i = 0; i < HISTOGRAM_CELLS; i++)
        h->cells[i] += from->cells[i];
}

uint64_t histogram_percentile(const struct histogram *h, double p)
{
    uint64_t rank = (uint64_t)ceil(p * (double)h->count);
    if (rank == 0)
        rank = 1;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_CELLS - 1; i++) {
        seen += h->cells[i];
        if (seen >= rank)
            return cell_top(i) < h->max ? cell_top(i) : h->max;
    }
    return h->max;
}

uint64_t histogram_average(const struct histogram *h)
{
    return h->count == 0 ? 0 : (h->sum + h->count / 2) / h->count;
}
