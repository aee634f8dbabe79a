/* lane.h: threads of a subscription that take what deliver hands over: messages, or whole batches.
 *
 * With keys each lane has a queue of its own, so what has one key stays in order; without, all take from one queue. A queue is bounded: deliver waits while it is
 * full, and is woken when it is half empty. An idle lane is handed its next item directly.
 */
#ifndef CONEY_SERVICE_LANE_H
#define CONEY_SERVICE_LANE_H

#include "service/dispatch.h"

/* Starts the threads of x->subscription. `run` handles one item, a struct list that stands in what was put. CONEY_ENOMEM, CONEY_ELIMIT. */
coney_status lanes_open(struct dispatch *x, void (*run)(struct dispatch *x, struct runner *r, struct list *item));

/* Moves what waits to `into`, and takes no more when `close`; ends the threads after what runs; frees. All harmless without lanes. */
void lanes_clear(struct dispatch *x, struct list *into, bool close);
void lanes_close(struct dispatch *x);
void lanes_free(struct subscription *s);

/* Puts an item into queue `index`. With `waits` it waits while that is full, else it is taken in any case. False: the lanes are closed. */
bool lanes_put(struct dispatch *x, size_t index, struct list *item, bool waits);

/* An item that the lane of `r` runs is to run again: the lane pauses and takes no other for `delay`. False: it was taken away meanwhile, by lanes_clear. */
bool lanes_hold(struct dispatch *x, struct runner *r, struct list *item, int64_t delay);

/* Waits until the first queue has room. */
void lanes_wait(struct dispatch *x);

size_t lanes_count(const struct lane_set *lanes);
struct runner *lanes_runner(struct lane_set *lanes, size_t index);

/* sink.deliver of subscriptions with lanes, and what a lane does with a message. */
coney_settle lanes_deliver(struct sink *sink, struct incoming *m);
void lanes_item_run(struct dispatch *x, struct runner *r, struct list *item);

#endif
