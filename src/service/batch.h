/* batch.h: batches: messages gathered until there are enough, the broker's burst has ended or the first one has waited long enough.
 *
 * A batch runs on a lane, or, when the app is virtual, on the thread that delivers or steps the worker. Its deliveries are held until they are settled. A burst is known
 * by `more`: once a transport has set it, a message without it is the last of its burst and closes the batch.
 *
 * Of an ordered feed the elements that are to come again stay in the batch's lane: it waits for what they have published and for the delay, handles them again as a
 * batch, and only then the next batch. A virtual app leaves them to the transport, which holds back what follows.
 */
#ifndef CONEY_SERVICE_BATCH_H
#define CONEY_SERVICE_BATCH_H

#include "service/dispatch.h"

coney_status batch_open(struct dispatch *x);

/* Moves the deliveries of the batch that is being gathered to `into`, and gathers no more when `close`. */
void batch_clear(struct dispatch *x, struct list *into, bool close);

/* The same of a batch that waited for a lane. */
void batch_scatter(struct dispatch *x, struct list *item, struct list *into);

/* After batch_clear and the lanes' end. */
void batch_close(struct dispatch *x);

/* sink.deliver of subscriptions with batches, and what a lane does with one. */
coney_settle batch_deliver(struct sink *sink, struct incoming *m);
void batch_item_run(struct dispatch *x, struct runner *r, struct list *item);

/* For settle.c: the plan of an element is made. True: it comes again with its batch, which stays in its lane. */
bool batch_takes_back(coney_delivery *d);

/* How many deliveries the handler has before it. */
size_t batch_count(const coney_batch *batch);

#endif
