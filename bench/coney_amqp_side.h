/* coney_amqp_side.h: coney's side of the rows over queues, through the public headers only, as a user would write it, with every
 * option at its default but the prefetch. Its counterparts: rabbitmqc.c and floor_amqp.h.
 *
 * Each command prints one JSON object with the fields of its counterpart's.
 */
#ifndef BENCH_CONEY_AMQP_SIDE_H
#define BENCH_CONEY_AMQP_SIDE_H

#include "coney_side.h"

#include <coney/amqp.h>

/* Opening and closing that cannot fail. The queue is this process's own, of --type. */
coney_amqp *rabbit_open(const struct options *options);
void rabbit_close(coney_amqp **rabbit);
const char *rabbit_queue(coney_amqp *rabbit, const struct options *options);
void rabbit_delete(coney_amqp *rabbit, const char *queue);
coney_amqp_publisher *rabbit_publisher(coney_amqp *rabbit, const coney_amqp_publisher_options *options);
void rabbit_close_publisher(coney_amqp_publisher **publisher);
coney_amqp_consumer *rabbit_consumer(coney_amqp *rabbit, const char *queue, const coney_amqp_consumer_options *options);
void rabbit_close_consumer(coney_amqp_consumer **consumer);

static inline void rabbit_publish(coney_amqp_publisher *publisher, const coney_amqp_message *message)
{
    coney_status status = coney_amqp_publish(publisher, message);
    if (status != CONEY_OK)
        die("publish: %s", coney_status_text(status));
}

/* Messages a second of the --count messages of --queue, the handler settling each; each by an ack of its own with --ack-each 1. */
void coney_amqp_consume(const struct options *options);

/* Confirmed messages a second: one thread, a call and an outcome callback for each message. */
void coney_amqp_publishing(const struct options *options);

/* From a publish to its handler, --count times; the next one after the outcome and the delivery of the one before. */
void coney_amqp_round_trip(const struct options *options);

#endif
