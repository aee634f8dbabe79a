/* lock.c: the contended halves of the lock, and the condition: futexes.
 *
 * The lock's state 2 says that somebody may sleep; whoever took it in that state hands it on, so no sleeper is forgotten.
 * The lowest bit of a condition's turn says that somebody may sleep on it: a wake that nobody waits for is one load.
 */
#include "base/lock.h"

#include "base/time.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 64 /* a lock is held for some dozens of instructions: worth waiting for before the kernel is asked */

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *until)
{
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void futex_wake(const _Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void lock_wait(struct lock *lock)
{
    for (int spin = 0; spin < SPINS; spin++) {
        uint32_t free = 0;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire, memory_order_relaxed))
            return;
        cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        futex_wait(&lock->state, 2, NULL);
}

void lock_wake(struct lock *lock)
{
    futex_wake(&lock->state, 1);
}

bool cond_wait(struct cond *cond, struct lock *lock, int64_t deadline)
{
    uint32_t turn = atomic_fetch_or_explicit(&cond->turn, 1, memory_order_relaxed) | 1;
    lock_release(lock);
    if (deadline == INT64_MAX) {
        futex_wait(&cond->turn, turn, NULL);
    } else {
        int64_t at = deadline > 0 ? deadline : 0;
        struct timespec until = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
        futex_wait(&cond->turn, turn, &until);
    }
    bool in_time = deadline == INT64_MAX || time_now() < deadline;
    lock_acquire(lock);
    return in_time;
}

bool cond_turn(struct cond *cond)
{
    if ((atomic_load_explicit(&cond->turn, memory_order_relaxed) & 1) == 0)
        return false;
    atomic_fetch_add_explicit(&cond->turn, 1, memory_order_relaxed);
    return true;
}

void cond_wake_turned(const struct cond *cond)
{
    futex_wake(&cond->turn, INT_MAX);
}

void cond_wake_all(struct cond *cond)
{
    if (cond_turn(cond))
        cond_wake_turned(cond);
}
