/* memory_read.c: what a delivery of the broker in memory says of itself: see memory_bus.h. */
#include "transport/memory_bus.h"

static const struct entry *entry_of(const struct incoming *m)
{
    return m->native;
}

bool memory_header(const struct incoming *m, coney_bytes name, coney_value *value)
{
    return message_header(entry_of(m)->message, name, value);
}

coney_bytes memory_content_type(const struct incoming *m)
{
    return entry_of(m)->message->content_type;
}

coney_bytes memory_key(const struct incoming *m, const char *header)
{
    const struct entry *entry = entry_of(m);
    coney_bytes name = header != NULL ? coney_bytes_str(header) : CONEY_STR(KEY_HEADER);
    coney_bytes key = {0};
    coney_value value;
    if (message_header(entry->message, name, &value) && coney_value_to_bytes(&value, &key))
        return key;
    return header == NULL && entry->bus->face == FACE_AMQP ? entry->message->to : key;
}

uint64_t memory_attempt(const struct incoming *m)
{
    const struct entry *entry = entry_of(m);
    uint64_t copied = 0;
    uint64_t counted = entry->returns;
    coney_value value;
    bool is_copy = message_header(entry->message, CONEY_STR(ATTEMPTS_HEADER), &value) && coney_value_to_u64(&value, &copied);
    lock_acquire(&entry->bus->lock);
    if (entry->queue != NULL && entry->queue->terms.kind == QUEUE_CLASSIC)
        counted = !is_copy && entry->redelivered; /* it does not count: all that is known is that it is not new */
    lock_release(&entry->bus->lock);
    return copied < UINT64_MAX - 1 - counted ? copied + counted + 1 : UINT64_MAX;
}

/* An unsubscribe takes the queue away while a handler that it did not wait for may still ask. */
static coney_bytes source_of(const struct entry *entry)
{
    lock_acquire(&entry->bus->lock);
    bool is_pattern = entry->listener != NULL && entry->listener->queue == NULL;
    coney_bytes source = entry->queue == NULL || is_pattern ? entry->message->to : entry->queue->name;
    lock_release(&entry->bus->lock);
    return source;
}

static void more_info(const struct message_more *more, coney_delivery_info *info)
{
    info->correlation_id = more->correlation_id;
    info->reply_to = more->reply_to;
    info->message_id = more->message_id;
    info->type = more->type;
    info->headers = more->headers;
    info->timestamp = more->timestamp;
    info->expiration = more->expiration;
    info->priority = more->priority;
    info->has_priority = more->has_priority;
}

void memory_info(const struct incoming *m, coney_delivery_info *info)
{
    const struct entry *entry = entry_of(m);
    const struct message *message = entry->message;
    info->source = source_of(entry);
    info->content_type = message->content_type;
    info->redelivered = entry->redelivered;
    info->has_offset = m->offset != UINT64_MAX;
    info->offset = info->has_offset ? m->offset : 0;
    if (message->more != NULL)
        more_info(message->more, info);
    if (entry->bus->face == FACE_AMQP) {
        info->exchange = message->exchange;
        info->routing_key = message->to;
    }
    if (entry->bus->face == FACE_STREAM)
        info->timestamp = message->stored;
    info->key = memory_key(m, NULL);
}
