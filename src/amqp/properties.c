/* properties.c: the properties of a delivery, decoded when they are asked for. */
#include "proto/amqp091/properties.h"

#include <coney/amqp.h>

/* The wire counts seconds; what milliseconds cannot hold becomes the nearest that they can. */
static int64_t milliseconds(uint64_t seconds)
{
    return seconds > INT64_MAX / 1000 ? INT64_MAX : (int64_t)seconds * 1000;
}

coney_status coney_amqp_delivery_properties(const coney_amqp_delivery *delivery, coney_amqp_properties *properties)
{
    struct amqp_properties read;
    *properties = (coney_amqp_properties){0};
    if (amqp_properties_read(delivery->encoded_properties, &read) != NULL)
        return CONEY_ECORRUPT;
    *properties = (coney_amqp_properties){
        .content_type = read.content_type,
        .content_encoding = read.content_encoding,
        .correlation_id = read.correlation_id,
        .reply_to = read.reply_to,
        .message_id = read.message_id,
        .type = read.type,
        .user_id = read.user_id,
        .app_id = read.app_id,
        .expiration = read.expiration,
        .headers = read.headers,
        .timestamp = milliseconds(read.timestamp),
        .priority = read.priority,
        .has_priority = (read.flags & AMQP_PRIORITY) != 0,
        .has_timestamp = (read.flags & AMQP_TIMESTAMP) != 0,
        .persistent = read.delivery_mode == AMQP_PERSISTENT,
    };
    return CONEY_OK;
}

bool coney_amqp_delivery_header(const coney_amqp_delivery *delivery, coney_bytes name, coney_value *value)
{
    struct amqp_properties read;
    if (amqp_properties_read(delivery->encoded_properties, &read) != NULL)
        return false;
    return coney_value_find(&read.headers, name, value);
}

uint64_t coney_amqp_delivery_count(const coney_amqp_delivery *delivery)
{
    coney_value value;
    uint64_t count = 0;
    if (coney_amqp_delivery_header(delivery, CONEY_STR("x-delivery-count"), &value))
        (void)coney_value_to_u64(&value, &count);
    return count;
}
