/* format_amqp.c: what messages of a queue have. */
#include "format.h"
#include "units.h"

#include <stddef.h>

static void put_bytes(FILE *out, coney_bytes bytes)
{
    if (bytes.len > 0)
        fwrite(bytes.data, 1, bytes.len, out);
}

static void put(FILE *out, char letter, const void *delivery)
{
    const coney_amqp_delivery *d = delivery;
    coney_amqp_properties properties = {0};
    if (letter == 'r' || letter == 'i')
        coney_amqp_delivery_properties(d, &properties);
    switch (letter) {
    case 'n':
        fputs(d->queue, out);
        break;
    case 'e':
        put_bytes(out, d->exchange);
        break;
    case 'k':
        put_bytes(out, d->routing_key);
        break;
    case 'r':
        put_bytes(out, properties.reply_to);
        break;
    case 'i':
        put_bytes(out, properties.correlation_id);
        break;
    }
}

static const struct {
    const char *name;
    size_t field;
} texts[] = {
    {"content_type", offsetof(coney_amqp_properties, content_type)},
    {"content_encoding", offsetof(coney_amqp_properties, content_encoding)},
    {"correlation_id", offsetof(coney_amqp_properties, correlation_id)},
    {"reply_to", offsetof(coney_amqp_properties, reply_to)},
    {"message_id", offsetof(coney_amqp_properties, message_id)},
    {"type", offsetof(coney_amqp_properties, type)},
    {"user_id", offsetof(coney_amqp_properties, user_id)},
    {"app_id", offsetof(coney_amqp_properties, app_id)},
    {"expiration", offsetof(coney_amqp_properties, expiration)},
};

static void put_properties(struct json *j, const coney_amqp_properties *properties)
{
    json_bool(j, "persistent", properties->persistent);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const coney_bytes *text = (const void *)((const char *)properties + texts[i].field);
        if (text->len > 0)
            json_text(j, texts[i].name, *text);
    }
    if (properties->has_priority)
        json_unsigned(j, "priority", properties->priority);
    char time[UNITS_TIME_SIZE];
    if (properties->has_timestamp)
        json_text(j, "timestamp", coney_bytes_str(units_time(properties->timestamp, time)));
    if (properties->headers.type == CONEY_VALUE_MAP)
        json_value(j, "headers", &properties->headers);
}

static void members(struct json *j, const void *delivery)
{
    const coney_amqp_delivery *d = delivery;
    json_text(j, "exchange", d->exchange);
    json_text(j, "routing_key", d->routing_key);
    json_bool(j, "redelivered", d->redelivered);
    coney_amqp_properties properties;
    if (coney_amqp_delivery_properties(d, &properties) == CONEY_OK)
        put_properties(j, &properties);
}

const struct format_kind format_amqp = {.letters = "nekri", .put = put, .members = members};
