/* memory.h: the broker in memory, for the testkit: standing in for a server.
 *
 * As "amqp" it has the default exchange, direct, topic, fanout and headers exchanges with alternates; classic, quorum and stream queues; consumers in rotation with prefetch,
 * priorities, exclusive use and a single active one; requeue in place, delivery limits, dead letters with x-death, TTL, expiry, bounds, priorities, waiting queues,
 * direct reply-to. As "stream": offsets, starts, stored offsets, seek, retention by bytes. A queue that a source or a destination on the default exchange names and nobody
 * declares counts as one that the server has, and so does a stream; an exchange must be declared, be it `.passive`.
 *
 * Not modelled, and refused where it is asked for: exchanges and arguments of plugins (but CONEY_DELAY_PLUGIN delays), super streams. Not modelled, and not noticed:
 * permissions, connections that are lost, retention by age, the client's own delivery (coney_delivery_amqp gives NULL).
 */
#ifndef CONEY_TRANSPORT_MEMORY_H
#define CONEY_TRANSPORT_MEMORY_H

#include "service/broker.h"

/* Replaces the transport of `broker`, which must not be connected: it is in memory from here on and behaves like what was there ("amqp": exchanges, queues …; "stream";
 * "memory" keeps its options). Virtual: it has no thread; memory_run_one delivers one message on the calling thread and says whether it did. Delays and expiry are by the
 * clock of the app's worker. CONEY_ENOMEM. */
coney_status memory_stand_in(coney_broker *broker);
bool memory_run_one(coney_broker *broker);

/* When the next delay or expiry is due (worker_now's clock), INT64_MAX: none. */
int64_t memory_next_due(coney_broker *broker);

/* Publishes as somebody outside would: `exchange` NULL: the default exchange, a stream or a topic. CONEY_ENOTFOUND: no such exchange; CONEY_ERETURNED: no queue took it. */
coney_status memory_inject(coney_broker *broker, const char *exchange, const struct outgoing *message);

/* Messages ready in a queue, SIZE_MAX: there is no such queue; messages delivered and not settled, of all subscriptions. */
size_t memory_ready(coney_broker *broker, const char *queue);
size_t memory_open(coney_broker *broker);

#endif
