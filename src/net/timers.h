/* timers.h: a heap of deadlines. Belongs to a loop; the timers themselves belong to whoever set them. */
#ifndef CONEY_NET_TIMERS_H
#define CONEY_NET_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    void (*fire)(struct timer *timer); /* the timer is unset when it runs and may be set again there, or freed */
    int64_t at;                        /* time_now()'s clock */
    size_t place;                      /* in the heap, plus 1; 0 = not set */
};

/* Zeroed, it is empty. */
struct timers {
    struct timer **heap;
    size_t count;
    size_t cap;
};

/* Sets or moves the timer; INT64_MAX unsets it. False when memory is out and the timer is not set; moving one that is set
 * never fails. O(log n). */
bool timers_set(struct timers *timers, struct timer *timer, int64_t at);
void timers_unset(struct timers *timers, struct timer *timer);

/* The earliest deadline, INT64_MAX when nothing is set. O(1). */
int64_t timers_next(const struct timers *timers);

/* Fires what is due at `now`, the earliest first. A timer that is set to a due time meanwhile may wait for the next call,
 * so that this one ends. */
void timers_fire(struct timers *timers, int64_t now);

/* Frees the heap; the timers in it count as unset. */
void timers_free(struct timers *timers);

#endif
