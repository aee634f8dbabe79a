/* consumer_retries.c: see consumer_retries.h. */
#include "amqp/consumer_retries.h"

#include <stdlib.h>

void retries_free(struct retries *r)
{
    free(r->heap);
}

static bool grow(struct retries *r)
{
    size_t cap = r->cap > 0 ? 2 * r->cap : 16;
    struct retry *heap = realloc(r->heap, cap * sizeof *heap);
    if (heap == NULL)
        return false;
    r->heap = heap;
    r->cap = cap;
    return true;
}

bool retries_add(struct retries *r, int64_t due, uint64_t number)
{
    if (r->count == r->cap && !grow(r))
        return false;
    size_t at = r->count++;
    for (size_t above = (at - 1) / 2; at > 0 && r->heap[above].due > due; at = above, above = (at - 1) / 2)
        r->heap[at] = r->heap[above];
    r->heap[at] = (struct retry){.due = due, .number = number};
    return true;
}

/* The last one goes to the top, and down to its place. */
static void remove_top(struct retries *r)
{
    struct retry last = r->heap[--r->count];
    size_t at = 0;
    for (size_t below = 1; below < r->count; at = below, below = 2 * at + 1) {
        if (below + 1 < r->count && r->heap[below + 1].due < r->heap[below].due)
            below++;
        if (r->heap[below].due >= last.due)
            break;
        r->heap[at] = r->heap[below];
    }
    r->heap[at] = last;
}

bool retries_take(struct retries *r, int64_t now, uint64_t *number)
{
    if (r->count == 0 || r->heap[0].due > now)
        return false;
    *number = r->heap[0].number;
    remove_top(r);
    return true;
}
