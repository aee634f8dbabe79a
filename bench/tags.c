/* tags.c: see tags.h. */
#include "tags.h"

#include "measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tags tags_of(size_t cap)
{
    struct tags tags = {.settled = must_alloc(cap * sizeof(bool)), .first = 1, .next = 1, .cap = cap};
    memset(tags.settled, 0, cap * sizeof(bool));
    return tags;
}

void tags_free(struct tags *tags)
{
    free(tags->settled);
    *tags = (struct tags){0};
}

void tags_open(struct tags *tags, uint64_t count)
{
    if (tags->next + count - tags->first > tags->cap)
        die("%" PRIu64 " messages are open where %zu may be", tags->next + count - tags->first, tags->cap);
    tags->next += count;
    tags->open += count;
}

static uint64_t settle_one(struct tags *tags, uint64_t tag)
{
    bool *settled = &tags->settled[tag % tags->cap];
    if (*settled)
        return 0;
    *settled = true;
    tags->open--;
    return 1;
}

uint64_t tags_settle(struct tags *tags, uint64_t tag, bool multiple)
{
    if (multiple && tag == 0)
        tag = tags->next - 1;
    if (tag < tags->first || tag >= tags->next)
        die("tag %" PRIu64 " was settled, open are %" PRIu64 " to %" PRIu64, tag, tags->first, tags->next - 1);
    if (tags->settled[tag % tags->cap])
        die("tag %" PRIu64 " was settled twice", tag);
    uint64_t count = 0;
    for (uint64_t at = multiple ? tags->first : tag; at <= tag; at++)
        count += settle_one(tags, at);
    for (; tags->first < tags->next && tags->settled[tags->first % tags->cap]; tags->first++)
        tags->settled[tags->first % tags->cap] = false;
    return count;
}
