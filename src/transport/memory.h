/* memory.h: the broker in memory, for the testkit: standing in for a server. */
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

/* Messages ready in a queue; messages delivered and not settled, of all subscriptions. */
size_t memory_ready(coney_broker *broker, const char *queue);
size_t memory_open(coney_broker *broker);

#endif
