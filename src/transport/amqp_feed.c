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

/* What is to come again is held here, and later ones wait, for a queue that is a stream takes nothing back. */
static coney_settle handle_until_done(struct tamqp_feed *feed, struct incoming *m)
{
    coney_settle how = feed->feed.sink->deliver(feed->feed.sink, m);
    for (feed->again = 1; how > 0 || how == CONEY_REQUEUE; feed->again++) {
        if (!tamqp_reading_waits(feed->reading, how > 0 ? how : 0))
            break;
        how = feed->feed.sink->deliver(feed->feed.sink, m);
    }
    feed->again = 0;
    return how;
}

static coney_settle on_stream_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    struct tamqp_feed *feed = ctx;
    struct incoming m = {.body = delivery->body, .feed = &feed->feed, .native = delivery, .offset = UINT64_MAX};
    coney_value offset;
    if (coney_amqp_delivery_header(delivery, CONEY_STR("x-stream-offset"), &offset))
        (void)coney_value_to_u64(&offset, &m.offset);
    if (!tamqp_reading_begins(feed->reading, m.offset))
        return CONEY_ACK;
    coney_settle how = handle_until_done(feed, &m);
    if (how <= 0 && how != CONEY_REQUEUE)
        tamqp_reading_ends(feed->reading, m.offset);
    return how == CONEY_KEPT ? CONEY_KEPT : CONEY_ACK;
}

/* Events: on the loop ---------------------------------------------------------------------------------------------------- */

void tamqp_has_left(struct tamqp_feed *feed)
{
    lock_acquire(&feed->amqp->lock);
    feed->is_leaving = false;
    lock_release(&feed->amqp->lock);
    cond_wake_all(&feed->left);
}

static void closed(void *ctx, const coney_call *call)
{
    (void)call;
    tamqp_has_left(ctx);
}

/* Takes the consumer away to close it: NULL when there is none. */
static coney_amqp_consumer *take_away(struct tamqp_feed *feed, bool leaves)
{
    lock_acquire(&feed->amqp->lock);
    coney_amqp_consumer *consumer = feed->consumer;
    feed->consumer = NULL;
    feed->is_leaving = feed->is_leaving || (leaves && consumer != NULL);
    lock_release(&feed->amqp->lock);
    return consumer;
}

/* The client would go on looking for it. */
static void end(struct tamqp_feed *feed, const coney_event *event)
{
    if (feed->reading != NULL) {
        tamqp_reading_leave(feed->reading);
    } else {
        coney_amqp_consumer *consumer = take_away(feed, true);
        coney_call call = {.deadline = CONEY_OFF, .on_done = closed, .ctx = feed};
        if (consumer == NULL)
            return;
        if (coney_amqp_consumer_close(&consumer, &call) != CONEY_OK)
            tamqp_has_left(feed);
    }
    feed->feed.sink->ended(feed->feed.sink, event->status, event->text);
}

/* The broker has canceled the consumer, and now says why. A queue whose node is away comes back. */
bool tamqp_is_final(const struct tamqp_feed *feed, coney_status status, const char *text)
{
    bool is_gone = status == CONEY_ENOTFOUND && strstr(text, "down or inaccessible") == NULL;
    return feed->was_canceled && (is_gone || status == CONEY_EACCESS);
}

static void lost(struct tamqp_feed *feed)
{
    feed->feed.sink->active(feed->feed.sink, false);
    if (feed->reading != NULL)
        tamqp_reading_lost(feed->reading);
}

static void feed_event(struct tamqp_feed *feed, const coney_event *event)
{
    if (event->type == CONEY_EVENT_CONSUMER_CANCELED) {
        feed->was_canceled = true;
    } else if (event->type == CONEY_EVENT_RECOVERING) {
        lost(feed);
    } else if (event->type == CONEY_EVENT_RECOVERED && feed->reading == NULL) {
        feed->was_canceled = false;
        feed->feed.sink->active(feed->feed.sink, true);
    } else if (event->type == CONEY_EVENT_GAVE_UP ||
               (event->type == CONEY_EVENT_RECOVERY_FAILED && tamqp_is_final(feed, event->status, event->text))) {
        end(feed, event);
    }
}

/* Under the lock: notes it for those that are being opened and may be what it is about. */
static void note_early(struct tamqp *t, const coney_event *event)
{
    for (struct tamqp_feed *feed = t->feeds; feed != NULL; feed = feed->next)
        if (feed->is_opening && strcmp(event->name, feed->queue) == 0)
            feed->early = (struct tamqp_early){.handle = event->handle, .type = event->type};
}

static void note_renamed(struct tamqp *t, const char *queue)
{
    lock_acquire(&t->lock);
    for (struct tamqp_feed *feed = t->feeds; feed != NULL; feed = feed->next)
        if (strcmp(queue, feed->queue) == 0)
            feed->was_renamed = true;
    lock_release(&t->lock);
}

void tamqp_feed_event(struct tamqp *t, const coney_event *event)
{
    if (event->type == CONEY_EVENT_QUEUE_RENAMED)
        note_renamed(t, event->name);
    if (event->handle == NULL)
        return;
    lock_acquire(&t->lock);
    struct tamqp_feed *feed = t->feeds;
    while (feed != NULL && feed->consumer != event->handle)
        feed = feed->next;
    if (feed == NULL)
        note_early(t, event);
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

/* The arguments of a stream queue's consumer: its start, or a later position, and what else the source says; from malloc. NULL: memory is out. */
static coney_field *with_position(const coney_queue_source *source, uint64_t offset, size_t *count)
{
    const coney_bytes name = CONEY_STR("x-stream-offset");
    coney_field *fields = calloc(source->consume_argument_count + 1, sizeof *fields);
    if (fields == NULL)
        return NULL;
    coney_value position = offset != UINT64_MAX ? coney_value_i64((int64_t)offset) : start_of(source);
    *count = 1;
    for (size_t i = 0; i < source->consume_argument_count; i++) {
        if (!bytes_equal(source->consume_arguments[i].key, name))
            fields[(*count)++] = source->consume_arguments[i];
        else if (offset == UINT64_MAX)
            position = source->consume_arguments[i].value;
    }
    fields[0] = (coney_field){name, position};
    return fields;
}

static coney_amqp_consumer *open_consumer(struct tamqp_feed *feed, uint64_t offset, coney_call *call)
{
    const coney_queue_source *source = feed->source;
    coney_amqp_consumer_options options = {
        .on_delivery = feed->reading != NULL ? on_stream_delivery : on_delivery,
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
    if (feed->reading != NULL) {
        fields = with_position(source, offset, &options.argument_count);
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

/* Events look for the handle from here on. What they had said before is told under the lock: what they say later comes after it. */
bool tamqp_open_consumer(struct tamqp_feed *feed, uint64_t offset, coney_call *call)
{
    struct tamqp *t = feed->amqp;
    lock_acquire(&t->lock);
    feed->is_opening = true;
    feed->early.handle = NULL;
    lock_release(&t->lock);
    coney_amqp_consumer *consumer = open_consumer(feed, offset, call);
    lock_acquire(&t->lock);
    feed->is_opening = false;
    feed->consumer = consumer;
    if (consumer != NULL && feed->early.handle == consumer && feed->early.type != CONEY_EVENT_RECOVERED)
        lost(feed);
    lock_release(&t->lock);
    return consumer != NULL;
}

static struct tamqp_feed *feed_new(struct tamqp *t, const coney_subscription *subscription, struct sink *sink)
{
    const coney_queue_source *source = tamqp_source(subscription);
    struct tamqp_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL)
        return NULL;
    feed->feed = (struct feed){.transport = &tamqp_transport, .sink = sink, .counts = source->type == CONEY_QUEUE_QUORUM};
    atomic_store(&feed->refs, 1);
    feed->amqp = t;
    feed->source = source;
    feed->queue = tamqp_queue_name(t, subscription);
    if (source->type == CONEY_QUEUE_STREAM) {
        feed->is_leaving = true; /* the reading's thread will, in the end */
        feed->reading = tamqp_reading_new(feed);
        if (feed->reading == NULL) {
            free(feed);
            return NULL;
        }
    }
    lock_acquire(&t->lock);
    feed->next = t->feeds;
    t->feeds = feed;
    lock_release(&t->lock);
    return feed;
}

coney_status tamqp_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                             coney_call *call)
{
    coney_status ready = tamqp_open_copier(self, subscription, call);
    if (ready != CONEY_OK)
        return ready;
    struct tamqp_feed *mine = feed_new(self, subscription, sink);
    if (mine == NULL)
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    *feed = &mine->feed;
    if (tamqp_open_consumer(mine, UINT64_MAX, call))
        return CONEY_OK;
    *feed = NULL;
    if (mine->reading != NULL)
        tamqp_reading_leave(mine->reading);
    if (call->status == CONEY_ENOTFOUND && !mine->source->declare)
        text_append(call->text, sizeof call->text, "; set .declare, or create the queue first");
    return call->status;
}

/* Closing ---------------------------------------------------------------------------------------------------------------- */

static coney_status wait_until_left(struct tamqp_feed *feed, coney_call *call)
{
    int64_t until = time_after(time_now(), call->deadline != 0 ? call->deadline : DEFAULT_DEADLINE);
    bool in_time = true;
    lock_acquire(&feed->amqp->lock);
    while (feed->is_leaving && in_time)
        in_time = cond_wait(&feed->left, &feed->amqp->lock, until);
    bool has_left = !feed->is_leaving;
    lock_release(&feed->amqp->lock);
    return has_left ? CONEY_OK : app_refuse(call, CONEY_ETIMEDOUT, "its handler still runs");
}

void tamqp_close_consumer(struct tamqp_feed *feed)
{
    coney_amqp_consumer *consumer = take_away(feed, false);
    coney_call call = {.deadline = CONEY_OFF};
    (void)coney_amqp_consumer_close(&consumer, &call);
}

/* The feed stays until the broker is freed: events look for it without its lock. */
coney_status tamqp_unsubscribe(struct feed *feed, coney_call *call)
{
    struct tamqp_feed *mine = tamqp_feed_of(feed);
    if (mine->reading != NULL)
        tamqp_reading_leave(mine->reading);
    coney_amqp_consumer *consumer = mine->reading == NULL ? take_away(mine, false) : NULL;
    if (consumer != NULL)
        return coney_amqp_consumer_close(&consumer, call);
    return wait_until_left(mine, call);
}

void tamqp_feed_unref(struct tamqp_feed *feed)
{
    if (atomic_fetch_sub(&feed->refs, 1) > 1)
        return;
    if (feed->reading != NULL)
        tamqp_reading_free(feed->reading);
    free(feed->waits);
    free(feed);
}

void tamqp_free_feeds(struct tamqp *t)
{
    while (t->feeds != NULL) {
        struct tamqp_feed *feed = t->feeds;
        t->feeds = feed->next;
        if (feed->reading != NULL)
            tamqp_reading_end(feed->reading);
        tamqp_feed_unref(feed);
    }
}
