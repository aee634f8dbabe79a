/* amqp.c: messages, routes and places from options. */
#include "amqp.h"

coney_amqp_message amqp_message(const struct settings *settings)
{
    coney_amqp_message message = settings->message;
    message.headers = settings->headers.items;
    message.header_count = settings->headers.count;
    message.priority = (uint8_t)settings->priority;
    message.has_priority = settings->priority > 0;
    return message;
}

const char *amqp_route_check(const struct settings *settings)
{
    bool routed = settings->message.exchange.data != NULL || settings->message.routing_key.data != NULL;
    if (settings->queue.name == NULL && !routed)
        return "a QUEUE, or --exchange or --routing-key, is missing";
    if (settings->queue.name != NULL && routed)
        return "messages go to the QUEUE, or to --exchange with --routing-key, not to both";
    return NULL;
}

size_t amqp_start(const struct place *from, coney_field *argument)
{
    argument->key = CONEY_STR("x-stream-offset");
    switch (from->start) {
    case CONEY_STREAM_NEXT:
        return 0;
    case CONEY_STREAM_FIRST:
        argument->value = coney_value_string(CONEY_STR("first"));
        return 1;
    case CONEY_STREAM_LAST:
        argument->value = coney_value_string(CONEY_STR("last"));
        return 1;
    case CONEY_STREAM_OFFSET:
        argument->value = coney_value_u64(from->offset);
        return 1;
    case CONEY_STREAM_TIMESTAMP:
        argument->value = coney_value_timestamp(from->time);
        return 1;
    }
    return 0;
}
