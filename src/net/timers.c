/* timers.c: a binary heap; each timer knows its place in it. */
#include "net/timers.h"

#include <stdlib.h>

#define SMALLEST 16

static void put(struct timers *timers, size_t at, struct timer *timer)
{
    timers->heap[at] = timer;
    timer->place = at + 1;
}

static void sift_up(struct timers *timers, size_t at)
{
    struct timer *timer = timers->heap[at];
    for (; at > 0 && timers->heap[(at - 1) / 2]->at > timer->at; at = (at - 1) / 2)
        put(timers, at, timers->heap[(at - 1) / 2]);
    put(timers, at, timer);
}

static void sift_down(struct timers *timers, size_t at)
{
    struct timer *timer = timers->heap[at];
    for (;;) {
        size_t child = at * 2 + 1;
        if (child + 1 < timers->count && timers->heap[child + 1]->at < timers->heap[child]->at)
            child++;
        if (child >= timers->count || timers->heap[child]->at >= timer->at)
            break;
        put(timers, at, timers->heap[child]);
        at = child;
    }
    put(timers, at, timer);
}

static bool has_room(struct timers *timers)
{
    if (timers->count < timers->cap)
        return true;
    size_t cap = timers->cap > 0 ? timers->cap * 2 : SMALLEST;
    struct timer **heap = realloc(timers->heap, cap * sizeof(struct timer *));
    if (heap == NULL)
        return false;
    timers->heap = heap;
    timers->cap = cap;
    return true;
}

bool timers_set(struct timers *timers, struct timer *timer, int64_t at)
{
    if (at == INT64_MAX) {
        timers_unset(timers, timer);
        return true;
    }
    if (timer->place == 0) {
        if (!has_room(timers))
            return false;
        put(timers, timers->count++, timer);
    }
    timer->at = at;
    sift_up(timers, timer->place - 1);
    sift_down(timers, timer->place - 1);
    return true;
}

void timers_unset(struct timers *timers, struct timer *timer)
{
    if (timer->place == 0)
        return;
    size_t at = timer->place - 1;
    timer->place = 0;
    struct timer *last = timers->heap[--timers->count];
    if (last == timer)
        return;
    put(timers, at, last);
    sift_up(timers, at);
    sift_down(timers, last->place - 1);
}

int64_t timers_next(const struct timers *timers)
{
    return timers->count > 0 ? timers->heap[0]->at : INT64_MAX;
}

void timers_fire(struct timers *timers, int64_t now)
{
    for (size_t most = timers->count; most > 0 && timers_next(timers) <= now; most--) {
        struct timer *timer = timers->heap[0];
        timers_unset(timers, timer);
        timer->fire(timer);
    }
}

void timers_free(struct timers *timers)
{
    for (size_t i = 0; i < timers->count; i++)
        timers->heap[i]->place = 0;
    free(timers->heap);
    *timers = (struct timers){0};
}
