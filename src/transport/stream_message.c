/* stream_message.c: a message that came over a stream: what it says of itself, and what becomes of it. */
#include "transport/stream.h"

#include <stdlib.h>
#include <string.h>

/* A delivery whose body was put together from several data sections: stands for the client's. Known by its body_kind, which no other message has. */
struct joined {
    coney_stream_delivery delivery;
    uint8_t body[];
};

static const coney_stream_delivery *native(const struct incoming *m)
{
    return m->native;
}

static bool is_joined(const struct incoming *m)
{
    return native(m)->body_kind == CONEY_BODY_PARTS;
}

/* Whether it is one data section: then there is nothing else to read, and nothing is parsed. Its head takes five bytes, or eight. */
static bool is_bare(const coney_stream_delivery *delivery)
{
    const uint8_t *encoded = delivery->encoded.data;
    const uint8_t *body = delivery->body.data;
    return delivery->body_kind == CONEY_BODY_DATA && body - encoded <= 8 &&
           body + delivery->body.len == encoded + delivery->encoded.len;
}

static bool parse(const struct incoming *m, coney_message_view *view)
{
    return !is_bare(native(m)) && coney_message_parse(native(m)->encoded, view) == CONEY_OK;
}

coney_settle tstream_deliver_parts(struct sink *sink, struct incoming *m)
{
    coney_message_view view;
    size_t size = parse(m, &view) ? coney_message_body_size(&view) : 0;
    struct joined *joined = malloc(sizeof *joined + size);
    if (joined == NULL)
        return coney_retry_after(CONEY_SECOND);
    joined->delivery = *native(m);
    m->native = &joined->delivery;
    m->body = coney_bytes_of(joined->body, size > 0 ? coney_message_body_copy(&view, joined->body, size) : 0);
    coney_settle how = sink->deliver(sink, m);
    if (how != CONEY_KEPT)
        free(joined);
    return how;
}

/* What it says of itself ---------------------------------------------------------------------------------------------------- */

/* The text of an identifier; of one that is a number or a uuid there is none. */
static coney_bytes text_of(const coney_value *value)
{
    coney_bytes text = {0};
    (void)coney_value_to_bytes(value, &text);
    return text;
}

/* RabbitMQ makes annotations of the headers of AMQP 0-9-1 that begin with "x-", and of what AMQP 1.0 has no place for. */
static bool find(const coney_message_view *view, coney_bytes name, coney_value *value)
{
    return coney_value_find(&view->application_properties, name, value) ||
           coney_value_find(&view->message_annotations, name, value);
}

static coney_bytes annotation(const coney_message_view *view, coney_bytes name)
{
    coney_value value;
    return coney_value_find(&view->message_annotations, name, &value) ? text_of(&value) : (coney_bytes){0};
}

/* RabbitMQ writes the reply_to of AMQP 0-9-1 as an address: /queues/NAME, escaped where it must be, and then it stays as it is. */
static coney_bytes queue_of_address(coney_bytes address)
{
    const coney_bytes prefix = CONEY_STR("/queues/");
    const char *text = address.data;
    if (address.len <= prefix.len || memcmp(text, prefix.data, prefix.len) != 0 || memchr(text, '%', address.len) != NULL)
        return address;
    return coney_bytes_of(text + prefix.len, address.len - prefix.len);
}

static coney_bytes key_of(const coney_message_view *view, const coney_message_properties *properties, coney_bytes header)
{
    coney_value value;
    if (find(view, header.len > 0 ? header : CONEY_STR(KEY_HEADER), &value))
        return text_of(&value);
    return header.len > 0 ? (coney_bytes){0} : properties->group_id;
}

static void read_header(const coney_message_view *view, coney_delivery_info *info)
{
    coney_message_header header;
    uint64_t number = 0;
    if (!coney_message_get_header(view, &header))
        return;
    info->has_priority = coney_value_to_u64(&header.priority, &number);
    info->priority = (uint8_t)number;
    if (coney_value_to_u64(&header.ttl, &number))
        info->expiration = (int64_t)number * CONEY_MILLISECOND;
}

void tstream_info(const struct incoming *m, coney_delivery_info *info)
{
    const coney_stream_delivery *delivery = native(m);
    info->source = coney_bytes_str(delivery->stream);
    info->offset = delivery->offset;
    info->has_offset = true;
    info->timestamp = delivery->timestamp;
    info->redelivered = delivery->attempt > 0;
    coney_message_view view;
    if (!parse(m, &view))
        return;
    coney_message_properties properties;
    coney_message_get_properties(&view, &properties);
    info->content_type = properties.content_type;
    info->content_encoding = properties.content_encoding;
    info->correlation_id = text_of(&properties.correlation_id);
    info->reply_to = queue_of_address(properties.reply_to);
    info->message_id = text_of(&properties.message_id);
    info->type = properties.subject.len > 0 ? properties.subject : annotation(&view, CONEY_STR("x-basic-type"));
    info->app_id = properties.group_id;
    info->exchange = annotation(&view, CONEY_STR("x-exchange"));
    info->routing_key = annotation(&view, CONEY_STR("x-routing-key"));
    info->key = key_of(&view, &properties, (coney_bytes){0});
    info->headers = view.application_properties;
    read_header(&view, info);
}

coney_bytes tstream_content_type(const struct incoming *m)
{
    coney_message_view view;
    coney_message_properties properties = {0};
    if (parse(m, &view))
        coney_message_get_properties(&view, &properties);
    return properties.content_type;
}

bool tstream_header(const struct incoming *m, coney_bytes name, coney_value *value)
{
    coney_message_view view;
    return parse(m, &view) && find(&view, name, value);
}

coney_bytes tstream_key(const struct incoming *m, const char *header)
{
    coney_message_view view;
    coney_message_properties properties;
    if (!parse(m, &view))
        return (coney_bytes){0};
    coney_message_get_properties(&view, &properties);
    return key_of(&view, &properties, coney_bytes_str(header));
}

uint64_t tstream_attempt(const struct incoming *m)
{
    coney_value value;
    uint64_t before = 0;
    if (tstream_header(m, CONEY_STR(ATTEMPTS_HEADER), &value))
        (void)coney_value_to_u64(&value, &before);
    uint64_t here = native(m)->attempt + UINT64_C(1);
    return before < UINT64_MAX - here ? before + here : UINT64_MAX;
}

const coney_stream_delivery *tstream_delivery(const struct incoming *m)
{
    return m->native;
}

/* What becomes of it ---------------------------------------------------------------------------------------------------------- */

bool tstream_keep(struct incoming *m)
{
    m->kept = coney_stream_keep(native(m));
    if (m->kept == NULL)
        return false;
    const coney_stream_delivery *kept = coney_stream_kept_delivery(m->kept);
    if (is_joined(m)) {
        ((struct joined *)(uintptr_t)m->native)->delivery = *kept;
        return true;
    }
    m->native = kept;
    m->body = kept->body;
    return true;
}

void tstream_pause(const struct incoming *m)
{
    (void)coney_stream_consumer_pause(native(m)->consumer);
}

coney_status tstream_settle(struct incoming *m, coney_settle how)
{
    void *joined = is_joined(m) ? (void *)(uintptr_t)m->native : NULL;
    coney_status status = coney_kept_settle(&m->kept, how);
    free(joined);
    return status;
}
