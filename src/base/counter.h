/* counter.h: numbers that one thread counts and any thread may read: a plain add on the counting side, no lock prefix. */
#ifndef CONEY_BASE_COUNTER_H
#define CONEY_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t counter;

/* By the one thread that owns the counter (or under the lock that guards it). */
static inline void counter_add(counter *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void counter_set(counter *c, uint64_t n)
{
    atomic_store_explicit(c, n, memory_order_relaxed);
}

static inline uint64_t counter_get(const counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

#endif
