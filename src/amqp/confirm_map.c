/* confirm_map.c: see confirm_map.h. */
#include "amqp/confirm_map.h"

#include <stdlib.h>
#include <string.h>

void confirm_map_restart(struct confirm_map *map)
{
    if (map->older == NULL) {
        map->older = map->few;
        map->cap = CONFIRM_PIECES;
    }
    map->next = 1;
    map->last = (struct confirm_piece){0};
    map->first = map->count = 0;
}

void confirm_map_free(struct confirm_map *map)
{
    if (map->older != map->few)
        free(map->older);
    map->older = NULL;
}

static bool grow(struct confirm_map *map)
{
    size_t cap = 2 * map->cap;
    struct confirm_piece *pieces = malloc(cap * sizeof *pieces);
    if (pieces == NULL)
        return false;
    memcpy(pieces, map->older, map->count * sizeof *pieces);
    confirm_map_free(map);
    map->older = pieces;
    map->cap = cap;
    return true;
}

bool confirm_map_reserve(struct confirm_map *map)
{
    if (map->first + map->count < map->cap)
        return true;
    memmove(map->older, map->older + map->first, map->count * sizeof *map->older);
    map->first = 0;
    return map->count < map->cap || grow(map);
}

void confirm_map_add(struct confirm_map *map, uint64_t slot, uint32_t entries)
{
    bool none = map->last.sequence == 0;
    if (none || slot != confirm_map_slot(map, map->next)) {
        if (!none)
            map->older[map->first + map->count++] = map->last;
        map->last = (struct confirm_piece){.sequence = map->next, .slot = slot};
    }
    map->next += entries;
}

/* A piece goes when the one behind it begins at `head` or before. */
void confirm_map_forget(struct confirm_map *map, uint64_t head)
{
    while (map->count > 0) {
        const struct confirm_piece *second = map->count > 1 ? &map->older[map->first + 1] : &map->last;
        if (second->slot > head)
            break;
        map->first++;
        map->count--;
    }
}

uint64_t confirm_map_search(const struct confirm_map *map, uint64_t sequence)
{
    const struct confirm_piece *pieces = map->older + map->first;
    size_t low = 0;
    size_t high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pieces[middle].sequence <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? pieces[low - 1].slot + (sequence - pieces[low - 1].sequence) : 0;
}
