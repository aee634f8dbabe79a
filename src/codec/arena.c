/* arena.c: chunks of memory, each twice as large as the one before, of which a reset keeps the largest. */
#include "codec/arena.h"

#include <stdlib.h>

coney_arena *coney_arena_new(void)
{
    return calloc(1, sizeof(coney_arena));
}

void *arena_grow(coney_arena *arena, size_t size)
{
    size_t cap = arena->newest == NULL ? ARENA_FIRST : 2 * arena->newest->cap;
    if (size > PTRDIFF_MAX / 2)
        return NULL;
    if (cap < size + 16)
        cap = size + 16;
    struct arena_chunk *chunk = malloc(sizeof *chunk + cap);
    if (chunk == NULL)
        return NULL;
    chunk->older = arena->newest;
    chunk->cap = cap;
    arena->newest = chunk;
    arena->end = chunk->data + cap;
    arena->at = chunk->data + ((size + 15) & ~(size_t)15);
    return chunk->data;
}

/* What has the newest chunk for itself grows with it: large pieces are moved page by page at most, and leave no copy behind. */
static void *grow_chunk(coney_arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX / 2)
        return NULL;
    struct arena_chunk *chunk = realloc(arena->newest, sizeof *chunk + size + 16);
    if (chunk == NULL)
        return NULL;
    chunk->cap = size + 16;
    arena->newest = chunk;
    arena->end = chunk->data + chunk->cap;
    arena->at = chunk->data + ((size + 15) & ~(size_t)15);
    return chunk->data;
}

void *arena_resize(coney_arena *arena, void *taken, size_t old, size_t size)
{
    uint8_t *start = taken;
    bool is_newest = start + ((old + 15) & ~(size_t)15) == arena->at;
    if (is_newest && size <= (size_t)(arena->end - start) && (size_t)(arena->end - start) - size >= 15) {
        arena->at = start + ((size + 15) & ~(size_t)15);
        return taken;
    }
    if (is_newest && old > 0 && start == arena->newest->data)
        return grow_chunk(arena, size);
    void *moved = arena_take(arena, size);
    if (moved != NULL)
        memcpy(moved, taken, old < size ? old : size);
    return moved;
}

void *coney_arena_alloc(coney_arena *arena, size_t size)
{
    return arena_take(arena, size);
}

coney_bytes coney_arena_copy(coney_arena *arena, coney_bytes bytes)
{
    uint8_t *copy = bytes.len < SIZE_MAX ? arena_take(arena, bytes.len + 1) : NULL;
    if (copy == NULL)
        return coney_bytes_of(NULL, 0);
    if (bytes.len > 0)
        memcpy(copy, bytes.data, bytes.len);
    copy[bytes.len] = '\0';
    return coney_bytes_of(copy, bytes.len);
}

static void free_chunks(struct arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
}

void arena_clear(coney_arena *arena)
{
    free_chunks(arena->newest);
    *arena = (coney_arena){0};
}

/* Keeps the largest chunk only, and not even that when it is large and was not needed for a while. */
static __attribute__((noinline)) void shrink(coney_arena *arena)
{
    struct arena_chunk *newest = arena->newest;
    bool needed = newest->older != NULL || (size_t)(arena->at - newest->data) > ARENA_KEEP;
    arena->calm = needed ? 0 : arena->calm + 1;
    if (newest->cap > ARENA_KEEP && arena->calm >= ARENA_CALM) {
        arena_clear(arena);
        return;
    }
    free_chunks(newest->older);
    newest->older = NULL;
    arena->at = newest->data;
}

void coney_arena_reset(coney_arena *arena)
{
    struct arena_chunk *newest = arena->newest;
    if (newest == NULL)
        return;
    if (__builtin_expect(newest->older != NULL || newest->cap > ARENA_KEEP, 0))
        shrink(arena);
    else
        arena->at = newest->data;
}

void coney_arena_free(coney_arena **arena)
{
    if (*arena == NULL)
        return;
    arena_clear(*arena);
    free(*arena);
    *arena = NULL;
}
