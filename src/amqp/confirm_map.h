/* confirm_map.h: which slot of the outbox a sequence number of the present channel means.
 *
 * A channel counts its publishes from 1. What is taken from the outbox comes in runs of consecutive slots, so the map is a list of pieces, each
 * with its first sequence and its first slot: mostly one; after a cut one for each gap that confirms had left. Both numbers only grow.
 * On the loop. Allocates only when there are more than a few pieces.
 */
#ifndef CONEY_AMQP_CONFIRM_MAP_H
#define CONEY_AMQP_CONFIRM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIRM_PIECES 8 /* that need no allocation */

struct confirm_piece {
    uint64_t sequence;
    uint64_t slot;
};

struct confirm_map {
    uint64_t next;             /* sequence of the next publish */
    struct confirm_piece last; /* the youngest piece; its sequence is 0 when there is none */
    struct confirm_piece *older;
    size_t first; /* of `older` that is in use */
    size_t count;
    size_t cap;
    struct confirm_piece few[CONFIRM_PIECES];
};

/* Empty, for a channel on which nothing was published. Zero or used before. */
void confirm_map_restart(struct confirm_map *map);
void confirm_map_free(struct confirm_map *map);

/* Makes room for one more piece; false: memory is out. */
bool confirm_map_reserve(struct confirm_map *map);

/* The next `entries` publishes are those of the slots from `slot` on. confirm_map_reserve said yes. */
void confirm_map_add(struct confirm_map *map, uint64_t slot, uint32_t entries);

/* Slots before `head` are of no interest any more. */
void confirm_map_forget(struct confirm_map *map, uint64_t head);

/* The slow half of confirm_map_slot. */
uint64_t confirm_map_search(const struct confirm_map *map, uint64_t sequence);

/* The slot that `sequence` means, which is at least 1 and less than map->next; 0 for one that was forgotten, before whatever head there is. */
static inline uint64_t confirm_map_slot(const struct confirm_map *map, uint64_t sequence)
{
    if (__builtin_expect(sequence >= map->last.sequence, 1))
        return map->last.slot + (sequence - map->last.sequence);
    return confirm_map_search(map, sequence);
}

#endif
