/* lock.h: a mutex of four bytes whose uncontended path is inlined, and a condition to wait on with a deadline. Futexes.
 *
 * The send path takes a lock for each message, so what pthread's mutex spends on kinds and owners counts: on the measured
 * skeleton of send, confirm and outcome it is 203 instructions with it and 144 with this one.
 * A zeroed lock is free, a zeroed cond has no waiters. Neither is recursive; neither is usable between processes.
 */
#ifndef CONEY_BASE_LOCK_H
#define CONEY_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and perhaps waited for */
};

/* The contended halves of the two functions below. */
void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

/* False when another thread holds it: lock_wait then takes it. */
static inline bool lock_try(struct lock *lock)
{
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void lock_acquire(struct lock *lock)
{
    if (!lock_try(lock))
        lock_wait(lock);
}

static inline void lock_release(struct lock *lock)
{
    if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
        lock_wake(lock);
}

struct cond {
    _Atomic uint32_t turn;
};

/* Releases `lock`, waits for a wake or until `deadline` (time_now()'s clock; INT64_MAX = for ever), takes `lock` again.
 * Returns false when the deadline passed. May wake without cause: wait in a loop on the real condition. */
bool cond_wait(struct cond *cond, struct lock *lock, int64_t deadline);

/* Wakes everyone who waits. Call it with the lock held or after the change is visible. */
void cond_wake_all(struct cond *cond);

/* The same in two halves, so that who is woken does not run into the lock: cond_turn with the lock held says whether anybody waits, then, with
 * the lock released, cond_wake_turned wakes them. It looks at nothing in memory: the cond may be gone by then. */
bool cond_turn(struct cond *cond);
void cond_wake_turned(const struct cond *cond);

#endif
