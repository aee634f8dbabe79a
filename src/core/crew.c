/* crew.c: see crew.h. */
#include "core/crew.h"

#include <stdlib.h>

struct hand {
    struct hand *next;
    struct dispatcher *dispatcher;
    bool lent;
};

static struct dispatcher *take_spare(struct crew *crew)
{
    struct dispatcher *spare = NULL;
    lock_acquire(&crew->lock);
    for (struct hand *hand = crew->hands; hand != NULL && spare == NULL; hand = hand->next) {
        if (hand->lent)
            continue;
        hand->lent = true;
        spare = hand->dispatcher;
    }
    lock_release(&crew->lock);
    return spare;
}

struct dispatcher *crew_lend(struct crew *crew)
{
    struct dispatcher *spare = take_spare(crew);
    if (spare != NULL)
        return spare;
    struct hand *hand = calloc(1, sizeof *hand);
    struct dispatcher *d = hand != NULL ? dispatcher_start("coney-handler") : NULL;
    if (d == NULL) {
        free(hand);
        return NULL;
    }
    hand->dispatcher = d;
    hand->lent = true;
    lock_acquire(&crew->lock);
    hand->next = crew->hands;
    crew->hands = hand;
    lock_release(&crew->lock);
    return d;
}

void crew_give_back(struct crew *crew, const struct dispatcher *d)
{
    lock_acquire(&crew->lock);
    for (struct hand *hand = crew->hands; hand != NULL; hand = hand->next)
        if (hand->dispatcher == d)
            hand->lent = false;
    lock_release(&crew->lock);
}

/* Hands are only ever added in front, so the list can be walked without the lock. */
static struct hand *first(struct crew *crew)
{
    lock_acquire(&crew->lock);
    struct hand *hand = crew->hands;
    lock_release(&crew->lock);
    return hand;
}

bool crew_is_empty(struct crew *crew)
{
    return first(crew) == NULL;
}

void crew_end(struct crew *crew)
{
    for (struct hand *hand = first(crew); hand != NULL; hand = hand->next)
        dispatcher_end(hand->dispatcher);
}

void crew_free(struct crew *crew)
{
    for (struct hand *hand = first(crew), *next; hand != NULL; hand = next) {
        next = hand->next;
        dispatcher_stop(hand->dispatcher);
        free(hand);
    }
    crew->hands = NULL;
}
