/* arena.h: the inside of coney_arena, for the paths that take memory from it at every message. Not thread-safe by itself. */
#ifndef CONEY_CODEC_ARENA_H
#define CONEY_CODEC_ARENA_H

#include <coney/codec.h>

#include <string.h>

enum {
    ARENA_FIRST = 4 << 10, /* bytes of the first chunk; each next one is twice as large, or as large as needed */
    ARENA_KEEP = 64 << 10, /* what a reset keeps in any case */
    ARENA_CALM = 64,       /* resets in a row that needed no more than that, after which the rest goes back */
};

struct arena_chunk {
    struct arena_chunk *older;
    size_t cap;
    _Alignas(16) uint8_t data[];
};

struct coney_arena {
    uint8_t *at;
    uint8_t *end;
    struct arena_chunk *newest;
    uint32_t calm;
};

/* coney_arena_alloc when the newest chunk is full. */
void *arena_grow(coney_arena *arena, size_t size);

/* `size` bytes, aligned for any type; NULL: memory is out. */
static inline void *arena_take(coney_arena *arena, size_t size)
{
    size_t left = (size_t)(arena->end - arena->at);
    if (__builtin_expect(left < size || left - size < 15, 0))
        return arena_grow(arena, size);
    uint8_t *taken = arena->at;
    arena->at += (size + 15) & ~(size_t)15;
    return taken;
}

/* Where an arena stands, to take back what comes after. */
struct arena_mark {
    struct arena_chunk *chunk;
    uint8_t *at;
};

static inline struct arena_mark arena_mark(const coney_arena *arena)
{
    return (struct arena_mark){arena->newest, arena->at};
}

/* What was allocated since the mark is invalid; its memory is used again as far as it stands in the newest chunk. */
static inline void arena_rewind(coney_arena *arena, struct arena_mark mark)
{
    if (arena->newest != NULL)
        arena->at = arena->newest == mark.chunk ? mark.at : arena->newest->data;
}

/* Gives all memory back; the arena is as new. */
void arena_clear(coney_arena *arena);

/* Makes the newest allocation, of `old` bytes, `size` bytes large: in its place where that is possible, else elsewhere. */
void *arena_resize(coney_arena *arena, void *taken, size_t old, size_t size);

#endif
