/* map.c: open addressing, linear probing, at most three quarters full; a removal closes its gap, so there are no tombstones. */
#include "base/map.h"

#include <stdlib.h>

#define SMALLEST 16

/* Fibonacci hashing: the upper half of the product is mixed well enough for counters and for pointers. */
static size_t home_of(const struct map *map, uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (map->cap - 1);
}

/* The entry of `key`, or the free one where it would go. There is always a free one. */
static struct map_entry *find(const struct map *map, uint64_t key)
{
    size_t at = home_of(map, key);
    while (map->entries[at].value != NULL && map->entries[at].key != key)
        at = (at + 1) & (map->cap - 1);
    return &map->entries[at];
}

static bool grow(struct map *map)
{
    struct map bigger = {.cap = map->cap > 0 ? map->cap * 2 : SMALLEST, .count = map->count};
    bigger.entries = calloc(bigger.cap, sizeof *bigger.entries);
    if (bigger.entries == NULL)
        return false;
    for (size_t i = 0; i < map->cap; i++)
        if (map->entries[i].value != NULL)
            *find(&bigger, map->entries[i].key) = map->entries[i];
    free(map->entries);
    *map = bigger;
    return true;
}

/* Frees the entry at `gap` and moves back whatever could not have its own place because of it. */
static void close_gap(struct map *map, size_t gap)
{
    size_t mask = map->cap - 1;
    for (size_t at = (gap + 1) & mask; map->entries[at].value != NULL; at = (at + 1) & mask) {
        size_t home = home_of(map, map->entries[at].key);
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            map->entries[gap] = map->entries[at];
            gap = at;
        }
    }
    map->entries[gap] = (struct map_entry){0};
}

void map_free(struct map *map)
{
    free(map->entries);
    *map = (struct map){0};
}

bool map_put(struct map *map, uint64_t key, void *value)
{
    struct map_entry *entry = map->cap > 0 ? find(map, key) : NULL;
    bool replaces = entry != NULL && entry->value != NULL;
    if (!replaces && (map->count + 1) * 4 > map->cap * 3) {
        if (!grow(map))
            return false;
        entry = find(map, key);
    }
    *entry = (struct map_entry){.key = key, .value = value};
    map->count += !replaces;
    return true;
}

void *map_get(const struct map *map, uint64_t key)
{
    return map->cap > 0 ? find(map, key)->value : NULL;
}

void *map_take(struct map *map, uint64_t key)
{
    if (map->cap == 0)
        return NULL;
    struct map_entry *entry = find(map, key);
    void *value = entry->value;
    if (value != NULL) {
        close_gap(map, (size_t)(entry - map->entries));
        map->count--;
    }
    return value;
}
