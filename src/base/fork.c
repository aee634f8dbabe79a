/* fork.c: counts forks, in the child. */
#include "base/fork.h"

#include <pthread.h>

_Atomic uint32_t fork_count;

static void count_in_child(void)
{
    atomic_fetch_add_explicit(&fork_count, 1, memory_order_relaxed);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_in_child);
}
