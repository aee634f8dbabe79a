/* coney_amqp_side.c: opening and closing for coney's side of the rows over queues; see coney_amqp_side.h. */
#include "coney_amqp_side.h"

#include <string.h>

coney_amqp *rabbit_open(const struct options *o)
{
    coney_call call = {0};
    coney_tls_options tls = {.ca_file = o->ca};
    coney_amqp_options options = {.tls = o->ca != NULL ? &tls : NULL};
    coney_amqp *rabbit = coney_amqp_open(o->uri, &options, &call);
    side_must(call.status, &call);
    return rabbit;
}

void rabbit_close(coney_amqp **rabbit)
{
    coney_call call = {0};
    side_must(coney_amqp_close(rabbit, &call), &call);
}

const char *rabbit_queue(coney_amqp *rabbit, const struct options *o)
{
    coney_call call = {0};
    bool is_quorum = strcmp(o->type, "quorum") == 0;
    coney_amqp_queue queue = {.name = own_stream("coney"), .type = is_quorum ? CONEY_QUEUE_QUORUM : CONEY_QUEUE_CLASSIC};
    side_must(coney_amqp_queue_declare(rabbit, &queue, &call), &call);
    return queue.name;
}

void rabbit_delete(coney_amqp *rabbit, const char *queue)
{
    coney_call call = {0};
    side_must(coney_amqp_queue_delete(rabbit, queue, 0, &call), &call);
}

coney_amqp_publisher *rabbit_publisher(coney_amqp *rabbit, const coney_amqp_publisher_options *options)
{
    coney_call call = {0};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(rabbit, options, &call);
    side_must(call.status, &call);
    return publisher;
}

void rabbit_close_publisher(coney_amqp_publisher **publisher)
{
    coney_call call = {0};
    side_must(coney_amqp_publisher_close(publisher, &call), &call);
}

coney_amqp_consumer *rabbit_consumer(coney_amqp *rabbit, const char *queue, const coney_amqp_consumer_options *options)
{
    coney_call call = {0};
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(rabbit, queue, options, &call);
    side_must(call.status, &call);
    return consumer;
}

void rabbit_close_consumer(coney_amqp_consumer **consumer)
{
    coney_call call = {0};
    side_must(coney_amqp_consumer_close(consumer, &call), &call);
}
