/* amqp_feed.c: subscriptions: a consumer each, on a thread of its own, and what the client's events say of it. */
#include "transport/amqp.h"

#include "base/bytes.h"
#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_DEADLINE (10 * CONEY_SECOND)

/* Messages: the data path ------------------------------------------------------------------------------------------------ */

static coney_settle on_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    struct tamqp_feed *feed = ctx;
    struct incoming m = {.body = delivery->body, .feed = &feed->feed, .native = delivery, .offset = UINT64_MAX};
    return feed->feed.sink->deliver(feed->feed.sink, &m);
}

/* Waits `delay`, and says whether there is still somebody to go on for. */
static bool wait_to_go_on(struct tamqp_feed *feed, int64_t delay)
{
    int64_t until = time_after(time_now(), delay);
    bool in_time = true;
    lock_acquire(&feed->amqp->lock);
    while (!feed->is_leaving && in_time)
        in_time = cond_wait(&feed->changed, &feed->amqp->lock, until);
    bool go_on = !feed->is_leaving;
    lock_release(&feed->amqp->lock);
    return go_on;
}

/* A queue that is a stream takes nothing back: what is to come again is held here, and later ones wait. */
static coney_settle on_stream_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    struct tamqp_feed *feed = ctx;
    struct incoming m = {.body = delivery->body, .feed = &feed->feed, .native = delivery, .offset = UINT64_MAX};
    coney_value offset;
    if (coney_amqp_delivery_header(delivery, CONEY_STR("x-stream-offset"), &offset))
        (void)coney_value_to_u64(&offset, &m.offset);
    coney_settle how = feed->feed.sink->deliver(feed->feed.sink, &m);
    for (feed->again = 1; how > 0 || how == CONEY_REQUEUE; feed->again++) {
        if (!wait_to_go_on(feed, how > 0 ? how : 0))
            break;
        how = feed->feed.sink->deliver(feed->feed.sink, &m);
    }
    feed->again = 0;
    return how;
}

/* Events: on the loop ---------------------------------------------------------------------------------------------------- */

static void closed(void *ctx, const coney_call *call)
{
    struct tamqp_feed *feed = ctx;
    (void)call;
    lock_acquire(&feed->amqp->lock);
    feed->is_closing = false;
    lock_release(&feed->amqp->lock);
    cond_wake_all(&feed->changed);
}

/* Takes the consumer away to close it: NULL when somebody else does. */
static coney_amqp_consumer *leave(struct tamqp_feed *feed, bool by_itself)
{
    lock_acquire(&feed->amqp->lock);
    coney_amqp_consumer *consumer = feed->consumer;
    feed->consumer = NULL;
    feed->is_leaving = true;
    feed->is_closing = feed->is_closing || (by_itself && consumer != NULL);
    lock_release(&feed->amqp->lock);
    cond_wake_all(&feed->changed);
    return consumer;
}

/* The client would go on looking for it. */
static void end(struct tamqp_feed *feed, const coney_event *event)
{
    coney_amqp_consumer *consumer = leave(feed, true);
    if (consumer == NULL)
        return;
    coney_call call = {.deadline = CONEY_OFF, .on_done = closed, .ctx = feed};
    if (coney_amqp_consumer_close(&consumer, &call) != CONEY_OK)
        closed(feed, &call);
    feed->feed.sink->ended(feed->feed.sink, event->status, event->text);
}

/* The broker has canceled the consumer, and now says why: the queue is gone, or the right to it. A queue whose node is away comes back. */
static bool is_final(const struct tamqp_feed *feed, const coney_event *event)
{
    if (!feed->was_canceled)
        return false;
    return event->status == CONEY_EACCESS ||
           (event->status == CONEY_ENOTFOUND && strstr(event->text, "down or inaccessible") == NULL);
}

static void feed_event(struct tamqp_feed *feed, const coney_event *event)
{
    struct sink *sink = feed->feed.sink;
    if (event->type == CONEY_EVENT_CONSUMER_CANCELED) {
        feed->was_canceled = true;
    } else if (event->type == CONEY_EVENT_RECOVERING) {
        sink->active(sink, false);
    } else if (event->type == CONEY_EVENT_RECOVERED) {
        feed->was_canceled = false;
        sink->active(sink, true);
    } else if (event->type == CONEY_EVENT_GAVE_UP || (event->type == CONEY_EVENT_RECOVERY_FAILED && is_final(feed, event))) {
        end(feed, event);
    }
}

void tamqp_feed_event(struct tamqp *t, const coney_event *event)
{
    if (event->handle == NULL)
        return;
    lock_acquire(&t->lock);
    struct tamqp_feed *feed = t->feeds;
    while (feed != NULL && feed->consumer != event->handle)
        feed = feed->next;
    if (feed == NULL && t->opening != NULL && strcmp(event->name, t->opening->queue) == 0)
        t->early = (struct tamqp_early){.handle = event->handle, .type = event->type};
    lock_release(&t->lock);
    if (feed != NULL)
        feed_event(feed, event);
}

/* Opening ---------------------------------------------------------------------------------------------------------------- */

static coney_value start_of(const coney_queue_source *source)
{
    switch (source->start) {
    case CONEY_STREAM_NEXT:
        break;
    case CONEY_STREAM_FIRST:
        return coney_value_string(CONEY_STR("first"));
    case CONEY_STREAM_LAST:
        return coney_value_string(CONEY_STR("last"));
    case CONEY_STREAM_OFFSET:
        return coney_value_i64((int64_t)source->start_offset);
    case CONEY_STREAM_TIMESTAMP:
        return coney_value_timestamp(source->start_time);
    }
    return coney_value_string(CONEY_STR("next"));
}

static bool has_start(const coney_queue_source *source)
{
    for (size_t i = 0; i < source->consume_argument_count; i++)
        if (bytes_equal(source->consume_arguments[i].key, CONEY_STR("x-stream-offset")))
            return true;
    return false;
}

/* The arguments of a stream queue's consumer with its start among them, from malloc; NULL: memory is out. */
static coney_field *with_start(const coney_queue_source *source, size_t *count)
{
    coney_field *fields = calloc(source->consume_argument_count + 1, sizeof *fields);
    if (fields == NULL)
        return NULL;
    *count = 0;
    for (size_t i = 0; i < source->consume_argument_count; i++)
        fields[(*count)++] = source->consume_arguments[i];
    fields[(*count)++] = (coney_field){CONEY_STR("x-stream-offset"), start_of(source)};
    return fields;
}

static coney_amqp_consumer *open_consumer(struct tamqp_feed *feed, coney_call *call)
{
    const coney_queue_source *source = feed->source;
    coney_amqp_consumer_options options = {
        .on_delivery = feed->is_stream ? on_stream_delivery : on_delivery,
        .ctx = feed,
        .prefetch = source->prefetch,
        .priority = source->priority,
        .has_priority = source->has_priority,
        .exclusive = source->exclusive_consumer,
        .arguments = source->consume_arguments,
        .argument_count = source->consume_argument_count,
        .own_thread = true,
    };
    coney_field *fields = NULL;
    if (feed->is_stream && !has_start(source)) {
        fields = with_start(source, &options.argument_count);
        if (fields == NULL) {
            (void)app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
            return NULL;
        }
        options.arguments = fields;
    }
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(tamqp_rabbit(feed->amqp), feed->queue, &options, call);
    free(fields);
    return consumer;
}

/* Gives the handle out to events. What they had said before is told under the lock: what they say from here on comes after it. */
static void take_consumer(struct tamqp_feed *feed, coney_amqp_consumer *consumer)
{
    struct tamqp *t = feed->amqp;
    lock_acquire(&t->lock);
    if (t->early.handle == consumer && t->early.type != CONEY_EVENT_RECOVERED)
        feed->feed.sink->active(feed->feed.sink, false);
    feed->consumer = consumer;
    feed->next = t->feeds;
    t->feeds = feed;
    t->opening = NULL;
    lock_release(&t->lock);
}

static void begin_opening(struct tamqp_feed *feed)
{
    lock_acquire(&feed->amqp->lock);
    feed->amqp->opening = feed;
    feed->amqp->early.handle = NULL;
    lock_release(&feed->amqp->lock);
}

static struct tamqp_feed *feed_new(struct tamqp *t, const coney_subscription *subscription, struct sink *sink)
{
    const coney_queue_source *source = tamqp_source(subscription);
    struct tamqp_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL)
        return NULL;
    feed->feed = (struct feed){.transport = &tamqp_transport, .sink = sink, .counts = source->type == CONEY_QUEUE_QUORUM};
    feed->amqp = t;
    feed->source = source;
    feed->queue = tamqp_queue_name(t, subscription);
    feed->is_stream = source->type == CONEY_QUEUE_STREAM;
    return feed;
}

coney_status tamqp_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                             coney_call *call)
{
    struct tamqp *t = self;
    struct tamqp_feed *mine = feed_new(t, subscription, sink);
    if (mine == NULL)
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    *feed = &mine->feed;
    begin_opening(mine);
    coney_amqp_consumer *consumer = open_consumer(mine, call);
    if (consumer == NULL) {
        lock_acquire(&t->lock);
        t->opening = NULL;
        lock_release(&t->lock);
        *feed = NULL;
        if (call->status == CONEY_ENOTFOUND && !mine->source->declare)
            text_append(call->text, sizeof call->text, "; set .declare, or create the queue first");
        free(mine);
        return call->status;
    }
    take_consumer(mine, consumer);
    return CONEY_OK;
}

/* Closing ---------------------------------------------------------------------------------------------------------------- */

static coney_status wait_until_closed(struct tamqp_feed *feed, const coney_call *call)
{
    int64_t until = time_after(time_now(), call->deadline != 0 ? call->deadline : DEFAULT_DEADLINE);
    bool in_time = true;
    lock_acquire(&feed->amqp->lock);
    while (feed->is_closing && in_time)
        in_time = cond_wait(&feed->changed, &feed->amqp->lock, until);
    bool done = !feed->is_closing;
    lock_release(&feed->amqp->lock);
    return done ? CONEY_OK : CONEY_ETIMEDOUT;
}

/* The feed stays until the broker is freed: deliveries that are kept refer to it. */
coney_status tamqp_unsubscribe(struct feed *feed, coney_call *call)
{
    struct tamqp_feed *mine = tamqp_feed_of(feed);
    coney_amqp_consumer *consumer = leave(mine, false);
    if (consumer != NULL)
        return coney_amqp_consumer_close(&consumer, call);
    return wait_until_closed(mine, call);
}

void tamqp_free_feeds(struct tamqp *t)
{
    while (t->feeds != NULL) {
        struct tamqp_feed *feed = t->feeds;
        t->feeds = feed->next;
        free(feed->waits);
        free(feed);
    }
}
