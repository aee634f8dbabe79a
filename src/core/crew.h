/* crew.h: threads that serve one lane each, for handlers that must not wait for others'.
 *
 * A thread that has been given back is lent again; all of them end together. Zeroed it is empty. Any thread.
 */
#ifndef CONEY_CORE_CREW_H
#define CONEY_CORE_CREW_H

#include "core/dispatcher.h"

struct hand;

struct crew {
    struct lock lock; /* guards what follows */
    struct hand *hands;
};

/* A dispatcher that serves nobody else, until it is given back: its lane may not be woken any more then. NULL: threads or memory are out. */
struct dispatcher *crew_lend(struct crew *crew);
void crew_give_back(struct crew *crew, const struct dispatcher *d);

/* Whether it never had a thread. */
bool crew_is_empty(struct crew *crew);

/* Ends the threads, as dispatcher_end does; waits for what runs on them. Not on one of them. */
void crew_end(struct crew *crew);

/* The same, and frees them; nobody may use the crew or a lane of it afterwards. */
void crew_free(struct crew *crew);

#endif
