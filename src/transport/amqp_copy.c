/* amqp_copy.c: copies of messages: back to their queue with a raised count, at once or after a while, or to another destination. */
#include "transport/amqp.h"

#include "base/bytes.h"
#include "base/text.h"

#include <stdlib.h>

/* Which copies end where ----------------------------------------------------------------------------------------------------- */

struct copying {
    coney_outcome_fn outcome;
    void *ctx;
    uint64_t tag;
    struct tamqp_feed *feed;
};

static void copied(void *ctx, const coney_outcome *outcome)
{
    (void)ctx;
    struct copying *copying = (struct copying *)(uintptr_t)outcome->tag;
    coney_outcome theirs = {.tag = copying->tag,
                            .status = outcome->status,
                            .code = outcome->code,
                            .unsent = outcome->unsent,
                            .internal = outcome->internal,
                            .text = outcome->text};
    if (outcome->status == CONEY_ERETURNED)
        atomic_store(&copying->feed->doubts_waits, true);
    copying->outcome(copying->ctx, &theirs);
    free(copying);
}

/* Closed with the environment, which tells what has no outcome yet. */
static coney_amqp_publisher *copier_of(struct tamqp *t, coney_call *call)
{
    lock_acquire(&t->opening_lock);
    if (t->copier == NULL) {
        coney_amqp_publisher_options options = {.name = "copies", .on_outcome = copied};
        t->copier = coney_amqp_publisher_open(tamqp_rabbit(t), &options, call);
    }
    coney_amqp_publisher *copier = t->copier;
    lock_release(&t->opening_lock);
    return copier;
}

coney_status tamqp_open_copier(struct tamqp *t, const coney_subscription *subscription, coney_call *call)
{
    bool makes_copies = subscription->max_attempts > 0 || tamqp_source(subscription)->delay != CONEY_DELAY_HELD;
    return !makes_copies || copier_of(t, call) != NULL ? CONEY_OK : call->status;
}

/* What a copy has ---------------------------------------------------------------------------------------------------------- */

/* What a broker or coney itself wrote for the delivery at hand; and where else the sender wanted the message, which has been there already. */
static bool is_of_the_delivery(coney_bytes key)
{
    static const coney_bytes own[] = {CONEY_STR_INIT("CC"),
                                      CONEY_STR_INIT("BCC"),
                                      CONEY_STR_INIT(ATTEMPTS_HEADER),
                                      CONEY_STR_INIT("x-delivery-count"),
                                      CONEY_STR_INIT("x-acquired-count"),
                                      CONEY_STR_INIT("x-stream-offset"),
                                      CONEY_STR_INIT("x-delay")};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (bytes_equal(key, own[i]))
            return true;
    return false;
}

/* The message's headers, and two that may be added; NULL: memory is out. */
static coney_field *headers_of(const coney_value *headers, size_t *count)
{
    coney_field *fields = calloc(headers->count / 2 + 2, sizeof *fields);
    coney_value_iter iter = coney_value_elements(headers);
    *count = 0;
    while (fields != NULL && *count < headers->count / 2 && coney_value_next_field(&iter, &fields[*count]))
        *count += !is_of_the_delivery(fields[*count].key);
    return fields;
}

/* Properties that cannot be read are left behind. The user who sent it is, too: the broker takes no other than ours. */
static coney_amqp_message copy_of(const struct incoming *m, coney_value *headers)
{
    coney_amqp_properties p = {0};
    if (coney_amqp_delivery_properties(m->native, &p) != CONEY_OK)
        p = (coney_amqp_properties){.persistent = true};
    *headers = p.headers;
    return (coney_amqp_message){
        .body = m->body,
        .content_type = p.content_type,
        .content_encoding = p.content_encoding,
        .correlation_id = p.correlation_id,
        .reply_to = p.reply_to,
        .message_id = p.message_id,
        .type = p.type,
        .app_id = p.app_id,
        .expiration = tamqp_expiration(p.expiration),
        .timestamp = p.has_timestamp ? p.timestamp : 0,
        .priority = p.priority,
        .has_priority = p.has_priority,
        .transient = !p.persistent,
    };
}

/* Where it goes -------------------------------------------------------------------------------------------------------------- */

/* Where it waits before it comes back; `name` is memory for that. */
static coney_status route_to_wait(struct tamqp_feed *feed, coney_amqp_message *message, int64_t delay, char *name,
                                  coney_field *fields)
{
    int64_t ms = tamqp_delay_class(delay);
    switch (feed->source->delay) {
    case CONEY_DELAY_HELD:
        break;
    case CONEY_DELAY_QUEUE:
        if (ms > TAMQP_DELAY_MAX)
            return CONEY_EUNSUPPORTED;
        tamqp_waiting_queue_name(name, feed->queue, ms);
        message->routing_key = coney_bytes_str(name);
        message->expiration = 0; /* its own would end the wait */
        return tamqp_need_waiting_queue(feed, ms);
    case CONEY_DELAY_PLUGIN:
        tamqp_delay_exchange_name(name, feed->queue);
        message->exchange = coney_bytes_str(name);
        message->routing_key = coney_bytes_str(feed->queue);
        message->drop_unroutable = true; /* the plugin returns at once what it only holds */
        fields[message->header_count++] =
            (coney_field){CONEY_STR("x-delay"), coney_value_i64(delay / CONEY_MILLISECOND + (delay % CONEY_MILLISECOND > 0))};
        return CONEY_OK;
    }
    return CONEY_EUNSUPPORTED;
}

/* A queue that was renamed is asked for what the broker calls it. */
static coney_status route_back(struct tamqp_feed *feed, coney_amqp_message *message, char *name)
{
    message->routing_key = coney_bytes_str(feed->queue);
    if (!feed->was_renamed)
        return CONEY_OK;
    coney_amqp_queue_info info;
    const coney_amqp_queue queue = {.name = feed->queue, .passive = true, .info = &info};
    coney_call call = {0};
    coney_status status = coney_amqp_queue_declare(tamqp_rabbit(feed->amqp), &queue, &call);
    if (status != CONEY_OK)
        return status;
    text_print(name, TAMQP_NAME_MAX + 1, "%s", info.name);
    message->routing_key = coney_bytes_str(name);
    return CONEY_OK;
}

static coney_status route(struct tamqp_feed *feed, coney_amqp_message *message, const char *to, int64_t delay, char *name,
                          coney_field *fields)
{
    message->exchange = CONEY_STR("");
    message->routing_key = coney_bytes_str(to);
    if (to != NULL)
        return CONEY_OK;
    if (feed->reading != NULL)
        return CONEY_EUNSUPPORTED;
    return delay > 0 ? route_to_wait(feed, message, delay, name, fields) : route_back(feed, message, name);
}

static coney_status publish_copy(struct tamqp *t, coney_amqp_message *message, struct copying copying)
{
    coney_call call = {0};
    coney_amqp_publisher *copier = copier_of(t, &call);
    if (copier == NULL)
        return call.status;
    struct copying *own = malloc(sizeof *own);
    if (own == NULL)
        return CONEY_ENOMEM;
    *own = copying;
    message->tag = (uint64_t)(uintptr_t)own;
    coney_status status = coney_amqp_publish(copier, message);
    if (status != CONEY_OK)
        free(own);
    return status;
}

coney_status tamqp_copy(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                        void *ctx, uint64_t tag)
{
    struct tamqp_feed *feed = tamqp_feed_of(m->feed);
    char name[TAMQP_NAME_MAX + 1];
    coney_value headers;
    coney_amqp_message message = copy_of(m, &headers);
    coney_field *fields = headers_of(&headers, &message.header_count);
    if (fields == NULL)
        return CONEY_ENOMEM;
    message.headers = fields;
    fields[message.header_count++] = (coney_field){CONEY_STR(ATTEMPTS_HEADER), coney_value_i64((int64_t)attempts)};
    coney_status status = route(feed, &message, to, delay, name, fields);
    if (status == CONEY_OK)
        status = publish_copy(feed->amqp, &message, (struct copying){outcome, ctx, tag, feed});
    free(fields);
    return status;
}

bool tamqp_delays(const struct feed *feed)
{
    return tamqp_feed_of(feed)->source->delay != CONEY_DELAY_HELD;
}
