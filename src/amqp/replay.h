/* replay.h: declares again what is due of a topology: exchanges, then queues, then bindings.
 *
 * Requests of one kind go out many at a time, on tracks: a track is a channel, one on a connection for control and one on each connection for
 * exclusive queues. What the broker refuses closes its channel and costs this item only: what was sent behind it goes out again on the track's next
 * channel. Items whose track gets no connection are left for the next replay. Everything here is on the loop.
 */
#ifndef CONEY_AMQP_REPLAY_H
#define CONEY_AMQP_REPLAY_H

#include "amqp/declare_refusal.h"
#include "amqp/record.h"

/* Begins one; there is none under way. Ends in topology_replayed, at once when nothing is due. False: memory is out. */
bool replay_start(struct coney_amqp *amqp);

/* Breaks the one off that is under way: what it has not done is still due. Harmless when there is none. */
void replay_stop(struct coney_amqp *amqp);

/* The item whose request on this connection the broker would have answered next; NULL: none. */
struct record *replay_item_on(const struct coney_amqp *amqp, const struct amqp_conn *conn);

/* Tells the user that an item could not be declared again, and when the next attempt is: `delay` nanoseconds, CONEY_OFF = never. */
void replay_item_failed(struct coney_amqp *amqp, const struct record *record, const struct refusal *refusal, int64_t delay);

#endif
