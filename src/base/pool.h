/* pool.h: reference-counted blocks of memory in classes of powers of two, kept for reuse.
 *
 * Receive buffers and outbox segments come from here, so that the data path allocates nothing once warm. A block that was
 * given back is the next one handed out (its cache lines are warm). The pool keeps at most `keep` bytes idle; what is more
 * goes back to the system. Any thread: the pool has a lock of its own, taken once a block, never once a message.
 */
#ifndef CONEY_BASE_POOL_H
#define CONEY_BASE_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_SMALLEST (4u << 10) /* bytes of the smallest block, its header included */

struct pool;

struct block {
    struct pool *pool;
    struct block *next; /* for whoever holds the block; the pool uses it while the block is idle */
    _Atomic uint32_t refs;
    uint32_t class_index;
    size_t cap; /* usable bytes */
    uint8_t data[];
};

/* A pool that keeps at most `keep` idle bytes; NULL when memory is out. The pool lives until it was freed by its owner and
 * every block came back, in whatever order. */
struct pool *pool_new(size_t keep);
void pool_free(struct pool *pool);

/* A block of at least `size` usable bytes and one reference; NULL when memory is out. Its content is indeterminate. */
struct block *block_get(struct pool *pool, size_t size);

static inline struct block *block_ref(struct block *block)
{
    atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
    return block;
}

/* Drops one reference; the last one gives the block back. NULL is harmless. */
void block_unref(struct block *block);

/* Bytes that the pool holds idle, and bytes in blocks that are out: for statistics and tests. */
size_t pool_idle(struct pool *pool);
size_t pool_out(struct pool *pool);

#endif
