/* message.c: see message.h. */
#include "amqp/message.h"

#include "core/options.h"

const coney_amqp_message *message_known_copy(const coney_amqp_message *message, size_t size, coney_amqp_message *copy)
{
    *copy = (coney_amqp_message){0};
    if (message == NULL || options_copy(copy, sizeof *copy, message, size, NULL) != CONEY_OK ||
        reserved_check(copy->reserved, sizeof copy->reserved) != CONEY_OK)
        return NULL;
    return copy;
}

static uint8_t *write_name(uint8_t *at, coney_bytes name)
{
    *at++ = (uint8_t)name.len;
    copy_short(at, name.data, name.len);
    return at + name.len;
}

size_t message_method_write(uint8_t at[MESSAGE_METHOD_MAX], coney_bytes exchange, coney_bytes routing_key, bool mandatory)
{
    size_t payload = message_method_size(exchange, routing_key) - AMQP_FRAME_BYTES;
    uint8_t *to = amqp_frame_head_write(at, AMQP_FRAME_METHOD, 0, (uint32_t)payload);
    store32(to, AMQP_BASIC_PUBLISH);
    store16(to + 4, 0);
    to = write_name(write_name(to + 6, exchange), routing_key);
    to[0] = mandatory;
    to[1] = AMQP_END;
    return payload + AMQP_FRAME_BYTES;
}

/* The names ---------------------------------------------------------------------------------------------------------- */

static const char *make_method(struct message_form *form, const coney_amqp_message *message,
                               const struct message_target *target)
{
    coney_bytes exchange = message->exchange.data != NULL ? message->exchange : target->exchange;
    coney_bytes routing_key = message->routing_key.data != NULL ? message->routing_key : target->routing_key;
    if (exchange.len > AMQP_SHORT_MAX)
        return "exchange";
    if (routing_key.len > AMQP_SHORT_MAX)
        return "routing_key";
    form->mandatory = !target->drop_unroutable && !message->drop_unroutable;
    size_t len = message_method_write(form->method_bytes, exchange, routing_key, form->mandatory);
    form->method = coney_bytes_of(form->method_bytes, len);
    return NULL;
}

/* The properties, measured on the way ------------------------------------------------------------------------------------ */

static void take(struct message_form *form, enum amqp_property flag, size_t size)
{
    form->properties.flags |= (uint16_t)flag;
    form->properties_size += size;
}

static inline void take_string(struct message_form *form, enum amqp_property flag, coney_bytes *to, coney_bytes value)
{
    if (value.len == 0)
        return;
    *to = value;
    take(form, flag, 1 + value.len);
}

/* False: one of them may be too long. */
static bool take_strings(struct message_form *form, const coney_amqp_message *m)
{
    struct amqp_properties *p = &form->properties;
    take_string(form, AMQP_CONTENT_TYPE, &p->content_type, m->content_type);
    take_string(form, AMQP_CONTENT_ENCODING, &p->content_encoding, m->content_encoding);
    take_string(form, AMQP_CORRELATION_ID, &p->correlation_id, m->correlation_id);
    take_string(form, AMQP_REPLY_TO, &p->reply_to, m->reply_to);
    take_string(form, AMQP_MESSAGE_ID, &p->message_id, m->message_id);
    take_string(form, AMQP_TYPE, &p->type, m->type);
    take_string(form, AMQP_USER_ID, &p->user_id, m->user_id);
    take_string(form, AMQP_APP_ID, &p->app_id, m->app_id);
    return (m->content_type.len | m->content_encoding.len | m->correlation_id.len | m->reply_to.len | m->message_id.len |
            m->type.len | m->user_id.len | m->app_id.len) <= AMQP_SHORT_MAX;
}

static const char *take_numbers(struct message_form *form, const coney_amqp_message *message, bool transient)
{
    struct amqp_properties *p = &form->properties;
    if (!transient) {
        take(form, AMQP_DELIVERY_MODE, 1);
        p->delivery_mode = AMQP_PERSISTENT;
    }
    if (message->has_priority) {
        take(form, AMQP_PRIORITY, 1);
        p->priority = message->priority;
    }
    if (message->timestamp < 0)
        return "timestamp";
    if (message->timestamp > 0) {
        take(form, AMQP_TIMESTAMP, sizeof(uint64_t));
        p->timestamp = (uint64_t)message->timestamp / 1000;
    }
    if (message->expiration < CONEY_OFF)
        return "expiration";
    if (message->expiration != 0) {
        int64_t ns = message->expiration != CONEY_OFF ? message->expiration : 0;
        uint64_t ms = ((uint64_t)ns + CONEY_MILLISECOND - 1) / CONEY_MILLISECOND;
        take_string(form, AMQP_EXPIRATION, &p->expiration, amqp_expiration_write(form->expiration, ms));
    }
    return NULL;
}

static const char *take_headers(struct amqp_properties *p, const coney_amqp_message *message)
{
    if (message->header_count > 0 && message->headers == NULL)
        return "headers";
    if (message->header_count > 0 && message->header_table != NULL)
        return "header_table";
    p->headers = message->header_table != NULL ? *message->header_table : coney_value_null();
    p->fields = message->headers;
    p->field_count = message->header_count;
    if (message->header_count > 0 || p->headers.type != CONEY_VALUE_NULL)
        p->flags |= AMQP_HEADERS;
    return NULL;
}

static coney_status measure_headers(struct message_form *form, const char **field)
{
    size_t size = 0;
    coney_status status = amqp_headers_size(&form->properties, &size, field);
    form->properties_size += size;
    return status;
}

coney_status message_form_make(struct message_form *form, const coney_amqp_message *message,
                               const struct message_target *target, const char **field)
{
    form->properties.flags = 0;
    form->properties_size = sizeof form->properties.flags;
    form->body = message->body;
    bool measured = take_strings(form, message);
    *field = make_method(form, message, target);
    if (*field == NULL)
        *field = take_numbers(form, message, target->transient || message->transient);
    if (*field == NULL)
        *field = take_headers(&form->properties, message);
    if (*field == NULL && message->body.len > 0 && message->body.data == NULL)
        *field = "body";
    if (*field != NULL)
        return CONEY_EINVAL;
    if (!measured) /* which one it is */
        return amqp_properties_size(&form->properties, &form->properties_size, field);
    return (form->properties.flags & AMQP_HEADERS) != 0 ? measure_headers(form, field) : CONEY_OK;
}

void message_form_write(const struct message_form *form, uint8_t *at, uint16_t channel, uint32_t payload_max)
{
    at = amqp_publish_begin(at, form->method, channel, form->properties_size, form->body.len);
    at = amqp_properties_write(at, &form->properties);
    amqp_publish_end(at, channel, form->body, payload_max);
}

/* Held ----------------------------------------------------------------------------------------------------------------- */

size_t message_held_size(const struct message_form *form)
{
    return sizeof(struct message_held) + form->method.len + form->properties_size + form->body.len;
}

void message_hold(const struct message_form *form, struct message_held *held)
{
    held->method = form->method.len;
    held->properties = form->properties_size;
    held->body = form->body.len;
    held->mandatory = form->mandatory;
    memcpy(held->bytes, form->method.data, form->method.len);
    uint8_t *at = amqp_properties_write(held->bytes + form->method.len, &form->properties);
    if (form->body.len > 0)
        memcpy(at, form->body.data, form->body.len);
}

size_t message_held_wire_size(const struct message_held *held, uint32_t payload_max)
{
    return amqp_publish_size(held->method, held->properties, held->body, payload_max);
}

void message_held_write(const struct message_held *held, uint8_t *at, uint16_t channel, uint32_t payload_max)
{
    const uint8_t *bytes = held->bytes;
    coney_bytes method = coney_bytes_of(bytes, held->method);
    coney_bytes properties = coney_bytes_of(bytes + held->method, held->properties);
    coney_bytes body = coney_bytes_of(bytes + held->method + held->properties, held->body);
    amqp_publish_write(at, method, channel, properties, body, payload_max);
}
