/* amqp_incoming.c: what came with a message, asked for when it is needed; keeping it, settling it. */
#include "transport/amqp.h"

#include "base/bytes.h"

#include <stdlib.h>

#define DELIVERY_COUNT_HEADER "x-delivery-count"
#define STREAM_OFFSET_HEADER "x-stream-offset"

enum { FLAG_CONTENT_TYPE = 0x8000 }; /* the first of the properties on the wire */

const coney_amqp_delivery *tamqp_delivery(const struct incoming *m)
{
    return m->native;
}

/* Without decoding: two bytes of flags, and behind them the text, if there is one. */
coney_bytes tamqp_content_type(const struct incoming *m)
{
    const coney_amqp_delivery *delivery = m->native;
    const uint8_t *at = delivery->encoded_properties.data;
    size_t len = delivery->encoded_properties.len;
    if (len < 3 || !(load16(at) & FLAG_CONTENT_TYPE) || at[2] > len - 3)
        return coney_bytes_of(NULL, 0);
    return coney_bytes_of(at + 3, at[2]);
}

bool tamqp_header(const struct incoming *m, coney_bytes name, coney_value *value)
{
    return coney_amqp_delivery_header(m->native, name, value);
}

coney_bytes tamqp_key(const struct incoming *m, const char *header)
{
    coney_value value;
    coney_bytes key = {NULL, 0};
    coney_bytes name = header != NULL ? coney_bytes_str(header) : CONEY_STR(KEY_HEADER);
    if (tamqp_header(m, name, &value) && coney_value_to_bytes(&value, &key))
        return key;
    return header == NULL ? tamqp_delivery(m)->routing_key : key;
}

/* What a header says that counts, whatever integer it is. */
static bool count_of(const struct incoming *m, coney_bytes name, uint64_t *count)
{
    coney_value value;
    return tamqp_header(m, name, &value) && coney_value_to_u64(&value, count);
}

/* A copy begins with the deliveries that came before it, and the broker counts on from there. A queue that counts nothing says only that a message is not
 * new, which may mean no more than that it was on its way to somebody who left. */
uint64_t tamqp_attempt(const struct incoming *m)
{
    uint64_t copied = 0;
    uint64_t counted = 0;
    bool is_copy = count_of(m, CONEY_STR(ATTEMPTS_HEADER), &copied);
    bool is_counted = count_of(m, CONEY_STR(DELIVERY_COUNT_HEADER), &counted);
    if (!is_copy && !is_counted && m->feed != NULL && !m->feed->counts)
        counted = tamqp_delivery(m)->redelivered;
    if (m->kept == NULL && m->feed != NULL)
        counted += tamqp_feed_of(m->feed)->again;
    uint64_t before = copied > UINT64_MAX - 1 - counted ? UINT64_MAX - 1 : copied + counted;
    return before + 1;
}

int64_t tamqp_expiration(coney_bytes text)
{
    const char *digits = text.data;
    int64_t ms = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (digits[i] < '0' || digits[i] > '9' || ms > INT64_MAX / CONEY_MILLISECOND / 10 - 1)
            return 0;
        ms = ms * 10 + (digits[i] - '0');
    }
    if (text.len > 0 && ms == 0)
        return CONEY_OFF;
    return ms * CONEY_MILLISECOND;
}

void tamqp_info(const struct incoming *m, coney_delivery_info *info)
{
    const coney_amqp_delivery *delivery = m->native;
    coney_amqp_properties properties;
    info->source = coney_bytes_str(delivery->queue);
    info->exchange = delivery->exchange;
    info->routing_key = delivery->routing_key;
    info->redelivered = delivery->redelivered;
    info->key = tamqp_key(m, NULL);
    info->offset = m->offset;
    info->has_offset = m->offset != UINT64_MAX;
    if (coney_amqp_delivery_properties(delivery, &properties) != CONEY_OK)
        return;
    info->content_type = properties.content_type;
    info->content_encoding = properties.content_encoding;
    info->correlation_id = properties.correlation_id;
    info->reply_to = properties.reply_to;
    info->message_id = properties.message_id;
    info->type = properties.type;
    info->app_id = properties.app_id;
    info->headers = properties.headers;
    info->timestamp = properties.has_timestamp ? properties.timestamp : 0;
    info->expiration = tamqp_expiration(properties.expiration);
    info->priority = properties.priority;
    info->has_priority = properties.has_priority;
}

bool tamqp_keep(struct incoming *m)
{
    struct tamqp_reading *reading = tamqp_feed_of(m->feed)->reading;
    struct held *held = reading != NULL ? tamqp_reading_prepare() : NULL;
    if (reading != NULL && held == NULL)
        return false;
    coney_kept *kept = coney_amqp_keep(m->native);
    if (kept == NULL) {
        free(held);
        return false;
    }
    m->kept = kept;
    m->native = coney_amqp_kept_delivery(kept);
    m->body = tamqp_delivery(m)->body;
    atomic_fetch_add_explicit(&tamqp_feed_of(m->feed)->refs, 1, memory_order_relaxed);
    if (reading != NULL)
        tamqp_reading_keeps(reading, held, m);
    return true;
}

coney_status tamqp_settle(struct incoming *m, coney_settle how)
{
    struct tamqp_feed *feed = m->feed != NULL ? tamqp_feed_of(m->feed) : NULL; /* NULL: the reply to a request */
    bool is_of_stream = feed != NULL && feed->reading != NULL;
    bool comes_again = is_of_stream && tamqp_reading_settles(feed->reading, m, how);
    coney_status status = coney_kept_settle(&m->kept, is_of_stream ? CONEY_ACK : how); /* all that a stream knows */
    if (feed != NULL)
        tamqp_feed_unref(feed);
    return comes_again ? CONEY_OK : status; /* the way back may have closed its consumer already */
}
