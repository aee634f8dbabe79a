/* stream_feed.c: subscriptions to streams: how they begin, where they move, how they end. */
#include "transport/stream.h"

#include "base/time.h"
#include "service/app.h"

#include <stdlib.h>
#include <string.h>

/* Delivery ------------------------------------------------------------------------------------------------------------------- */

/* Data and length each by itself: a load of both at once would wait for the two stores of a moment ago. */
static inline coney_bytes body_of(const coney_stream_delivery *delivery)
{
    return coney_bytes_of(delivery->body.data, *(const volatile size_t *)&delivery->body.len);
}

static coney_settle deliver(void *ctx, const coney_stream_delivery *delivery)
{
    struct tstream_feed *feed = ctx;
    struct incoming m;
    m.body = body_of(delivery);
    m.feed = &feed->feed;
    m.native = delivery;
    m.kept = NULL;
    m.offset = delivery->offset;
    m.more = !delivery->last_of_chunk;
    if (__builtin_expect(delivery->body_kind == CONEY_BODY_PARTS, 0))
        return tstream_deliver_parts(feed->feed.sink, &m);
    return feed->feed.sink->deliver(feed->feed.sink, &m);
}

/* Events: on the loop ----------------------------------------------------------------------------------------------------------- */

static struct tstream_feed *feed_with(struct tstream *self, const void *consumer)
{
    struct tstream_feed *found = NULL;
    lock_acquire(&self->lock);
    for (struct list *at = self->feeds.next; at != &self->feeds && found == NULL; at = at->next) {
        struct tstream_feed *feed = container_of(at, struct tstream_feed, in_broker);
        if (consumer != NULL && feed->consumer == consumer)
            found = feed;
    }
    lock_release(&self->lock);
    return found;
}

void tstream_feed_event(struct tstream *self, const coney_event *event)
{
    if (event->type != CONEY_EVENT_RECOVERING && event->type != CONEY_EVENT_RECOVERED && event->type != CONEY_EVENT_GAVE_UP)
        return;
    struct tstream_feed *feed = feed_with(self, event->handle);
    if (feed == NULL)
        return;
    struct sink *sink = feed->feed.sink;
    if (event->type == CONEY_EVENT_GAVE_UP)
        sink->ended(sink, event->status, event->text);
    else
        sink->active(sink, event->type == CONEY_EVENT_RECOVERED);
}

/* Subscribing -------------------------------------------------------------------------------------------------------------------- */

static coney_stream_consumer_options options_of(const coney_stream_source *source, struct tstream_feed *feed)
{
    return (coney_stream_consumer_options){
        .name = source->consumer[0] != '\0' ? source->consumer : NULL,
        .on_message = deliver,
        .ctx = feed,
        .start_if_new = source->start_if_new,
        .start_offset = source->start_offset,
        .start_time = source->start_time,
        .start_always = source->start_always,
        .credit = source->credit,
        .store_every = source->store_every,
        .store_interval = source->store_interval,
        .own_thread = true,
        .paused = true, /* until it is the feed's, so that no event of it is missed */
    };
}

/* On the worker, when no consumer of the old position runs any more: after the seek has returned, so that the framework takes what comes. What lies before the
 * position is stored as done, so that a new start does not go back to where the feed was; the offset 0 has nothing before it. */
static void go_on(struct work *work)
{
    struct tstream_feed *feed = container_of(work, struct tstream_feed, go_on);
    lock_acquire(&feed->self->lock);
    coney_stream_consumer *consumer = feed->closing == 0 ? feed->consumer : NULL;
    if (consumer != NULL && feed->options.name != NULL && feed->store_first > 1)
        (void)coney_stream_consumer_store(consumer, feed->store_first - 2);
    if (consumer != NULL)
        (void)coney_stream_consumer_resume(consumer);
    lock_release(&feed->self->lock);
}

static struct tstream_feed *feed_new(struct tstream *self, const coney_stream_source *source, struct sink *sink)
{
    struct tstream_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL)
        return NULL;
    feed->feed =
        (struct feed){.transport = self->broker->transport, .sink = sink, .counts = true, .ordered = true, .bursts = true};
    feed->self = self;
    work_init(&feed->go_on, go_on);
    feed->stream = source->name;
    feed->options = options_of(source, feed);
    lock_acquire(&self->lock);
    list_append(&self->feeds, &feed->in_broker);
    lock_release(&self->lock);
    return feed;
}

static void set_consumer(struct tstream_feed *feed, coney_stream_consumer *consumer)
{
    lock_acquire(&feed->self->lock);
    feed->consumer = consumer;
    lock_release(&feed->self->lock);
}

coney_status tstream_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **opened,
                               coney_call *call)
{
    struct tstream_feed *feed = feed_new(self, subscription->source.of, sink);
    if (feed == NULL)
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    coney_stream_consumer *consumer = tstream_open_consumer(self, feed->stream, &feed->options, call);
    if (consumer == NULL)
        return call->status;
    *opened = &feed->feed;
    set_consumer(feed, consumer);
    if (coney_stream_consumer_resume(consumer) == CONEY_OK)
        return CONEY_OK;
    set_consumer(feed, NULL);
    coney_stream_consumer_close(&consumer, NULL);
    return app_refuse(call, CONEY_EUNAVAILABLE, "stream '%s' was lost while it was being subscribed to", feed->stream);
}

/* Waits for the consumers that seeks have left. With the lock. */
static bool wait_for_moves(struct tstream_feed *feed, int64_t until)
{
    bool in_time = true;
    while (feed->closing > 0 && in_time)
        in_time = cond_wait(&feed->moved, &feed->self->lock, until);
    return feed->closing == 0;
}

coney_status tstream_unsubscribe(struct feed *head, coney_call *call)
{
    struct tstream_feed *feed = tstream_feed_of(head);
    struct lock *lock = &feed->self->lock;
    int64_t until = tstream_until(call);
    lock_acquire(lock);
    coney_stream_consumer *consumer = feed->consumer;
    feed->consumer = NULL;
    lock_release(lock);
    coney_status status = coney_stream_consumer_close(&consumer, call);
    lock_acquire(lock);
    bool have_ended = wait_for_moves(feed, until);
    lock_release(lock);
    if (status == CONEY_OK && !have_ended)
        status = app_refuse(call, CONEY_ETIMEDOUT, "a handler of stream '%s' still runs", feed->stream);
    return status;
}

/* Moving --------------------------------------------------------------------------------------------------------------------------- */

/* The last message there is, by the last chunk: for brokers that do not say it (before 4.3). */
struct glance {
    struct lock lock;
    struct cond seen;
    bool has_seen;
    uint64_t last;
};

static coney_settle look(void *ctx, coney_stream_chunk *chunk)
{
    struct glance *glance = ctx;
    lock_acquire(&glance->lock);
    glance->last = coney_stream_chunk_offset(chunk) + coney_stream_chunk_count(chunk) - 1;
    glance->has_seen = true;
    cond_wake_all(&glance->seen);
    lock_release(&glance->lock);
    return CONEY_ACK;
}

static coney_status last_offset(struct tstream_feed *feed, uint64_t *last, coney_call *call)
{
    struct glance glance = {.last = 0};
    const coney_stream_consumer_options options = {
        .on_chunk = look, .ctx = &glance, .start_if_new = CONEY_STREAM_LAST, .credit = 1};
    int64_t until = tstream_until(call);
    coney_stream_consumer *consumer = tstream_open_consumer(feed->self, feed->stream, &options, call);
    if (consumer == NULL)
        return call->status;
    lock_acquire(&glance.lock);
    bool in_time = true;
    while (!glance.has_seen && in_time)
        in_time = cond_wait(&glance.seen, &glance.lock, until);
    lock_release(&glance.lock);
    coney_call closing = {.deadline = CONEY_OFF};
    coney_stream_consumer_close(&consumer, &closing);
    *last = glance.last;
    return glance.has_seen
               ? CONEY_OK
               : app_refuse(call, CONEY_ETIMEDOUT, "the last message of stream '%s' did not come in time", feed->stream);
}

/* CONEY_OK: the message is there, or is the next that comes. Brokers before 3.11 have no statistics and are believed. */
static coney_status check_offset(struct tstream_feed *feed, uint64_t offset, coney_call *call)
{
    coney_stream_stats stats;
    coney_status status = coney_stream_get_stats(tstream_env(feed->self), feed->stream, &stats, call);
    if (status == CONEY_EUNSUPPORTED)
        return CONEY_OK;
    if (status != CONEY_OK)
        return status;
    if (stats.first_offset < 0 && offset == 0)
        return CONEY_OK;
    if (stats.first_offset < 0)
        return app_refuse(call, CONEY_ENOOFFSET, "stream '%s' is empty: it has no offset %llu", feed->stream,
                          (unsigned long long)offset);
    if (offset < (uint64_t)stats.first_offset)
        return app_refuse(call, CONEY_ENOOFFSET, "offset %llu of stream '%s' is gone: the oldest message is %lld",
                          (unsigned long long)offset, feed->stream, (long long)stats.first_offset);
    uint64_t last = (uint64_t)stats.committed_offset;
    if (stats.committed_chunk_offset >= 0 && offset <= (uint64_t)stats.committed_chunk_offset)
        return CONEY_OK;
    if (stats.committed_offset < 0)
        status = last_offset(feed, &last, call);
    if (status == CONEY_OK && offset > last + 1)
        return app_refuse(call, CONEY_ENOOFFSET, "offset %llu of stream '%s' does not exist: the last message is %llu",
                          (unsigned long long)offset, feed->stream, (unsigned long long)last);
    return status;
}

static void left(struct tstream_feed *feed)
{
    lock_acquire(&feed->self->lock);
    if (--feed->closing == 0)
        worker_post(feed->self->broker->app->worker, &feed->go_on);
    cond_wake_all(&feed->moved);
    lock_release(&feed->self->lock);
}

static void old_has_ended(void *ctx, const coney_call *call)
{
    (void)call;
    left(ctx);
}

/* The one at the new position takes the place of the old, and begins when the handler of the old one has returned, however long that takes. */
static coney_status replace_consumer(struct tstream_feed *feed, coney_stream_consumer *consumer, uint64_t store_first,
                                     int64_t until, coney_call *call)
{
    struct lock *lock = &feed->self->lock;
    lock_acquire(lock);
    coney_stream_consumer *old = feed->consumer;
    bool is_open = old != NULL;
    if (is_open) {
        feed->consumer = consumer;
        feed->store_first = store_first;
        feed->closing++;
    }
    lock_release(lock);
    if (!is_open) {
        coney_stream_consumer_close(&consumer, NULL);
        return app_refuse(call, CONEY_ECLOSED, "the subscription of stream '%s' has ended", feed->stream);
    }
    coney_call closing = {.on_done = old_has_ended, .ctx = feed, .deadline = CONEY_OFF};
    if (coney_stream_consumer_close(&old, &closing) != CONEY_OK)
        left(feed);
    lock_acquire(lock);
    bool has_moved = wait_for_moves(feed, until);
    lock_release(lock);
    return has_moved ? CONEY_OK
                     : app_refuse(call, CONEY_ETIMEDOUT, "stream '%s' moves when its handler has returned", feed->stream);
}

coney_status tstream_seek(struct feed *head, const coney_position *position, coney_call *wanted)
{
    struct tstream_feed *feed = tstream_feed_of(head);
    coney_call own = {.text = ""};
    coney_call *call = wanted != NULL ? wanted : &own;
    int64_t until = tstream_until(call);
    bool has_offset = position->at == CONEY_STREAM_OFFSET;
    coney_status status = has_offset ? check_offset(feed, position->offset, call) : CONEY_OK;
    if (status != CONEY_OK)
        return status;
    coney_stream_consumer_options options = feed->options;
    options.start_if_new = position->at;
    options.start_offset = position->offset;
    options.start_time = position->time;
    options.start_always = true;
    coney_stream_consumer *consumer = tstream_open_consumer(feed->self, feed->stream, &options, call);
    if (consumer == NULL)
        return call->status;
    return replace_consumer(feed, consumer, has_offset ? position->offset + 1 : 0, until, call);
}
