/* floor_amqp.h: the yardstick for queues: plain sockets, frames laid out in memory beforehand, no library. Messages are persistent
 * and mandatory, queues durable.
 *
 * Each command prints one JSON object.
 */
#ifndef BENCH_FLOOR_AMQP_H
#define BENCH_FLOOR_AMQP_H

#include "amqp_wire.h"
#include "measure.h"

/* Confirmed messages a second to a queue of its own, with at most `window` (10,000) unconfirmed, each confirm looked at. */
void amqp_floor_publish(const struct options *options);

/* Declares --queue and publishes --count messages of --size bytes to it. */
void amqp_floor_fill(const struct options *options);

/* Deletes --queue, of which every message must have been acknowledged. */
void amqp_floor_delete(const struct options *options);

/* Messages a second of the --count messages of --queue, which are all that it has: one ack for a quarter of the prefetch, or one each with --ack-each 1. */
void amqp_floor_consume(const struct options *options);

/* From a publish to its delivery through a queue of its own, two sockets, --count times; the next one after the confirm and the
 * delivery of the one before. */
void amqp_floor_round_trip(const struct options *options);

#endif
