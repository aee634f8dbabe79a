/* pool.c: a stack of idle blocks for each power of two. */
#include "base/pool.h"

#include "base/fork.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stdlib.h>

#define CLASSES 20 /* the largest block is 2 GiB */

struct pool {
    struct lock lock;
    uint32_t generation; /* of the process that last used it */
    bool freed;          /* by its owner; blocks are still out */
    size_t keep;
    size_t idle;
    size_t out;
    struct block *stacks[CLASSES];
};

static size_t class_size(uint32_t class_index)
{
    return (size_t)POOL_SMALLEST << class_index;
}

static uint32_t class_for(size_t size)
{
    uint32_t class_index = 0;
    while (class_index < CLASSES && class_size(class_index) - sizeof(struct block) < size)
        class_index++;
    return class_index;
}

/* In a forked child the lock may be held for ever by a thread that only the parent has. What that thread was about to do with a
 * block concerns that block alone. */
static void acquire(struct pool *pool)
{
    uint32_t generation = fork_generation();
    if (pool->generation != generation) {
        pool->generation = generation;
        atomic_store_explicit(&pool->lock.state, 0, memory_order_relaxed);
    }
    lock_acquire(&pool->lock);
}

struct pool *pool_new(size_t keep)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->keep = keep;
    pool->generation = fork_generation();
    return pool;
}

void pool_free(struct pool *pool)
{
    if (pool == NULL)
        return;
    acquire(pool);
    for (uint32_t i = 0; i < CLASSES; i++) {
        while (pool->stacks[i] != NULL) {
            struct block *block = pool->stacks[i];
            pool->stacks[i] = block->next;
            free(block);
        }
    }
    pool->idle = 0;
    pool->freed = true;
    bool last = pool->out == 0;
    lock_release(&pool->lock);
    if (last)
        free(pool);
}

/* Counts the block as out and takes an idle one, if there is one. */
static struct block *check_out(struct pool *pool, uint32_t class_index)
{
    acquire(pool);
    struct block *block = pool->stacks[class_index];
    if (block != NULL) {
        pool->stacks[class_index] = block->next;
        pool->idle -= class_size(class_index);
    }
    pool->out += class_size(class_index);
    lock_release(&pool->lock);
    return block;
}

/* Counts the block as no longer out and keeps it when there is room; NULL: there is only the count to be changed. */
static void check_in(struct pool *pool, uint32_t class_index, struct block *block)
{
    size_t size = class_size(class_index);
    acquire(pool);
    pool->out -= size;
    if (block != NULL && !pool->freed && size <= pool->keep && pool->idle <= pool->keep - size) {
        block->next = pool->stacks[class_index];
        pool->stacks[class_index] = block;
        pool->idle += size;
        block = NULL;
    }
    bool last = pool->freed && pool->out == 0;
    lock_release(&pool->lock);
    free(block);
    if (last)
        free(pool);
}

struct block *block_get(struct pool *pool, size_t size)
{
    uint32_t class_index = class_for(size);
    if (class_index == CLASSES)
        return NULL;
    struct block *block = check_out(pool, class_index);
    if (block == NULL) {
        block = malloc(class_size(class_index));
        if (block == NULL) {
            check_in(pool, class_index, NULL);
            return NULL;
        }
        block->pool = pool;
        block->class_index = class_index;
        block->cap = class_size(class_index) - sizeof *block;
    }
    block->next = NULL;
    atomic_store_explicit(&block->refs, 1, memory_order_relaxed);
    return block;
}

void block_unref(struct block *block)
{
    if (block == NULL || atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) != 1)
        return;
    check_in(block->pool, block->class_index, block);
}

size_t pool_idle(struct pool *pool)
{
    acquire(pool);
    size_t idle = pool->idle;
    lock_release(&pool->lock);
    return idle;
}

size_t pool_out(struct pool *pool)
{
    acquire(pool);
    size_t out = pool->out;
    lock_release(&pool->lock);
    return out;
}
