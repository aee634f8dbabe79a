/* tags.h: which delivery tags of a channel are open, whoever acknowledges them: tags count from 1 and are settled one by one or
 * all up to one.
 */
#ifndef BENCH_TAGS_H
#define BENCH_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tags {
    bool *settled; /* of [first, next), by tag modulo cap */
    uint64_t first;
    uint64_t next;
    uint64_t open;
    size_t cap;
};

/* At most `cap` tags from the oldest open one on. One allocation. */
struct tags tags_of(size_t cap);
void tags_free(struct tags *tags);

/* Opens `count` more tags, which must fit. */
void tags_open(struct tags *tags, uint64_t count);

/* Settles `tag`, with `multiple` every open tag up to it (all for 0). A tag that is not open ends the program. Returns how many were settled. */
uint64_t tags_settle(struct tags *tags, uint64_t tag, bool multiple);

#endif
