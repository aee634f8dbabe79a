/* map.h: a hash map from uint64_t to a pointer. Grows as it fills (an insert may allocate), never shrinks. Not thread-safe. */
#ifndef CONEY_BASE_MAP_H
#define CONEY_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry {
    uint64_t key;
    void *value; /* NULL = free */
};

/* A zeroed map is empty and usable. */
struct map {
    struct map_entry *entries;
    size_t cap; /* 0 or a power of two */
    size_t count;
};

void map_free(struct map *map);

/* Adds or replaces; `value` must not be NULL. False when memory is out, and nothing has changed. */
bool map_put(struct map *map, uint64_t key, void *value);

/* NULL when there is none. */
void *map_get(const struct map *map, uint64_t key);

/* Takes the entry out and returns its value, NULL when there is none. */
void *map_take(struct map *map, uint64_t key);

#endif
