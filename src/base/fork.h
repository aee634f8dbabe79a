/* fork.h: has this process been forked off since a handle was made?
 *
 * A handle remembers the generation at its birth and refuses with CONEY_EFORKED when it differs: in a child the library's
 * threads do not exist, and the sockets are the parent's. Any thread; one load.
 */
#ifndef CONEY_BASE_FORK_H
#define CONEY_BASE_FORK_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t fork_count; /* read it through fork_generation */

/* How many forks lie between this process and the one that loaded the library. */
static inline uint32_t fork_generation(void)
{
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

#endif
