/* memory_feed.c: listeners of the broker in memory: how they open, where they begin, how they move and end: see memory_bus.h. */
#include "base/thread.h"
#include "base/time.h"
#include "transport/memory_bus.h"
#include "transport/memory_match.h"

#include <stdlib.h>

/* Opening --------------------------------------------------------------------------------------------------------------------- */

static struct stored *stored_of(const struct bus *bus, const struct queue *stream, const char *consumer)
{
    for (struct stored *stored = bus->stored; stored != NULL; stored = stored->next)
        if (stored->stream == stream && strcmp(stored->consumer, consumer) == 0)
            return stored;
    return NULL;
}

/* The name under which its offset is stored, or NULL. */
static const char *consumer_of(const struct listener *listener)
{
    if (listener->subscription->source.kind != CONEY_SOURCE_STREAM)
        return NULL;
    const coney_stream_source *source = listener->subscription->source.of;
    if (source->consumer != NULL)
        return *source->consumer != '\0' ? source->consumer : NULL;
    return listener->bus->broker != NULL ? listener->bus->broker->app->title : NULL;
}

/* What "x-stream-offset" of a stream queue's consumer says. */
static coney_position argument_position(const coney_queue_source *source)
{
    coney_position position = {.at = source->start, .offset = source->start_offset, .time = source->start_time};
    for (size_t i = 0; i < source->consume_argument_count; i++) {
        const coney_field *argument = &source->consume_arguments[i];
        coney_bytes text = {0};
        if (argument->key.len != 15 || memcmp(argument->key.data, "x-stream-offset", 15) != 0)
            continue;
        if (argument->value.type == CONEY_VALUE_TIMESTAMP) {
            position.at = CONEY_STREAM_TIMESTAMP;
            position.time = argument->value.as.i64;
        } else if (coney_value_to_u64(&argument->value, &position.offset)) {
            position.at = CONEY_STREAM_OFFSET;
        } else if (coney_value_to_bytes(&argument->value, &text)) {
            position.at = text.len == 5 && memcmp(text.data, "first", 5) == 0  ? CONEY_STREAM_FIRST
                          : text.len == 4 && memcmp(text.data, "last", 4) == 0 ? CONEY_STREAM_LAST
                                                                               : CONEY_STREAM_NEXT;
        }
    }
    return position;
}

static coney_position position_of(const struct listener *listener)
{
    const coney_source *of = &listener->subscription->source;
    if (of->kind == CONEY_SOURCE_QUEUE)
        return argument_position(of->of);
    if (of->kind == CONEY_SOURCE_TOPIC) {
        const coney_topic_source *topic = of->of;
        return (coney_position){.at = topic->start, .offset = topic->start_offset, .time = topic->start_time};
    }
    const coney_stream_source *source = of->of;
    const char *consumer = consumer_of(listener);
    const struct stored *stored = consumer != NULL ? stored_of(listener->bus, listener->queue, consumer) : NULL;
    if (stored != NULL && !source->start_always)
        return (coney_position){.at = CONEY_STREAM_OFFSET, .offset = stored->offset};
    return (coney_position){.at = source->start_if_new, .offset = source->start_offset, .time = source->start_time};
}

static void apply_options(struct listener *listener)
{
    const coney_source *of = &listener->subscription->source;
    listener->prefetch = SIZE_MAX;
    listener->most_waiting = SIZE_MAX;
    if (of->kind == CONEY_SOURCE_TOPIC) {
        int64_t most = ((const coney_topic_source *)of->of)->max_waiting;
        listener->most_waiting = most > 0 ? (size_t)most : 10000;
        listener->feed.counts = true;
    } else if (of->kind == CONEY_SOURCE_QUEUE) {
        const coney_queue_source *source = of->of;
        listener->prefetch = source->prefetch == 0 ? 256 : source->prefetch < 0 ? SIZE_MAX : (size_t)source->prefetch;
        listener->priority = source->has_priority ? source->priority : 0;
        listener->feed.counts = listener->queue->terms.kind == QUEUE_QUORUM;
    } else {
        listener->feed.counts = true;
    }
}

static bool is_exclusive(const struct listener *listener)
{
    const coney_source *of = &listener->subscription->source;
    return of->kind == CONEY_SOURCE_QUEUE && ((const coney_queue_source *)of->of)->exclusive_consumer;
}

static bool may_consume(const struct listener *listener)
{
    const struct list *others = &listener->queue->listeners;
    if (list_empty(others))
        return true;
    return !is_exclusive(listener) && !is_exclusive(container_of(others->next, struct listener, in_queue));
}

static void find_only(struct bus *bus)
{
    bool is_plain = bus->face == FACE_MEMORY && list_empty(&bus->patterns);
    for (struct list *q = bus->queues.next; q != &bus->queues; q = q->next) {
        struct queue *queue = container_of(q, struct queue, in_bus);
        const struct list *listeners = &queue->listeners;
        bool is_one = !list_empty(listeners) && listeners->next == listeners->prev;
        struct listener *one = is_one ? container_of(listeners->next, struct listener, in_queue) : NULL;
        queue->only = is_plain && one != NULL && !queue->keeps && !one->closing ? one : NULL;
    }
}

static bool make_target_room(struct bus *bus)
{
    size_t count = 1;
    for (const struct list *l = bus->listeners.next; l != &bus->listeners; l = l->next)
        count++;
    if (count <= bus->target_cap)
        return true;
    struct listener **targets = realloc(bus->targets, count * 2 * sizeof *targets);
    if (targets == NULL)
        return false;
    bus->targets = targets;
    bus->target_cap = count * 2;
    return true;
}

static coney_status find_source(struct listener *listener, coney_call *call)
{
    struct bus *bus = listener->bus;
    const coney_source *of = &listener->subscription->source;
    if (of->kind == CONEY_SOURCE_TOPIC) {
        listener->name = coney_bytes_str(((const coney_topic_source *)of->of)->name);
        if (memory_topic_is_pattern(listener->name))
            return CONEY_OK;
    }
    listener->queue = memory_source_queue(bus, listener->subscription, call);
    if (listener->queue == NULL)
        return call->status;
    listener->name = listener->queue->name;
    if (may_consume(listener))
        return CONEY_OK;
    return memory_fail(call, CONEY_EACCESS, 403, "queue '%s' is in exclusive use: another subscription reads it",
                       listener->queue->text);
}

/* Under the lock. */
static coney_status open_listener(struct listener *listener, coney_call *call)
{
    struct bus *bus = listener->bus;
    if (!bus->is_connected)
        return memory_fail(call, CONEY_ECLOSED, 0, "the broker in memory is not connected");
    coney_status status = find_source(listener, call);
    if (status != CONEY_OK)
        return status;
    apply_options(listener);
    listener->has_offsets = listener->queue != NULL && listener->queue->keeps;
    listener->feed.ordered = listener->has_offsets;
    listener->feed.bursts = !bus->is_virtual; /* a test publishes one by one: size and time close its batches */
    uint64_t from = 0;
    coney_position position = position_of(listener);
    if (listener->has_offsets)
        memory_log_find(listener->queue, &position, &from);
    if (!make_target_room(bus) || (listener->has_offsets && !memory_log_read(listener, from)))
        return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    list_append(&bus->listeners, &listener->in_bus);
    list_append(listener->queue != NULL ? &listener->queue->listeners : &bus->patterns, &listener->in_queue);
    find_only(bus);
    return CONEY_OK;
}

/* What waits in its own line. */
static void drop_own(struct listener *listener)
{
    for (struct entry *entry = line_take(&listener->own); entry != NULL; entry = line_take(&listener->own)) {
        listener->waiting--;
        memory_entry_drop(entry);
    }
}

static void unlink_listener(struct listener *listener)
{
    struct bus *bus = listener->bus;
    struct queue *queue = listener->queue;
    if (bus->last == listener)
        bus->last = NULL;
    list_remove(&listener->in_bus);
    list_remove(&listener->in_queue);
    find_only(bus);
    if (queue == NULL)
        return;
    queue->unused_since = memory_now(bus);
    if (queue->terms.auto_delete && list_empty(&queue->listeners))
        memory_queue_delete(bus, queue);
}

/* A seek has ended. */
static void go_on_locked(struct listener *listener)
{
    listener->is_moving = false;
    memory_wake_if_asleep(listener);
}

static void go_on(struct work *work)
{
    struct listener *listener = container_of(work, struct listener, go_on);
    lock_acquire(&listener->bus->lock);
    go_on_locked(listener);
    lock_release(&listener->bus->lock);
}

coney_status memory_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                              coney_call *call)
{
    struct bus *bus = self;
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL)
        return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    listener->feed = (struct feed){.transport = bus->reply_feed.transport, .sink = sink};
    listener->bus = bus;
    work_init(&listener->go_on, go_on);
    listener->subscription = subscription;
    list_init(&listener->in_bus);
    list_init(&listener->in_queue);
    list_init(&listener->open);
    lock_acquire(&bus->lock);
    coney_status status = open_listener(listener, call);
    if (status == CONEY_OK && !bus->is_virtual) {
        status = thread_start(&listener->thread, "coney-memory", memory_listen, listener);
        listener->threaded = status == CONEY_OK;
        if (status != CONEY_OK) {
            unlink_listener(listener);
            memory_fail(call, status, 0, "no thread for the subscription could be started");
        }
    }
    if (status != CONEY_OK) {
        drop_own(listener);
        free(listener);
    } else {
        *feed = &listener->feed;
    }
    lock_release(&bus->lock);
    return status;
}

/* Ending ---------------------------------------------------------------------------------------------------------------------- */

/* Where a consumer of that name goes on: at the first message that is not settled. */
static void store_offset(struct listener *listener)
{
    struct bus *bus = listener->bus;
    const char *consumer = consumer_of(listener);
    if (consumer == NULL || !listener->has_begun)
        return;
    uint64_t offset = listener->own.head != NULL ? listener->own.head->at : listener->resume;
    for (const struct list *e = listener->open.next; e != &listener->open; e = e->next) {
        const struct entry *entry = container_of(e, struct entry, open);
        offset = entry->at < offset ? entry->at : offset;
    }
    struct stored *stored = stored_of(bus, listener->queue, consumer);
    if (stored == NULL) {
        stored = calloc(1, sizeof *stored);
        if (stored == NULL)
            return;
        *stored = (struct stored){.next = bus->stored, .stream = listener->queue, .consumer = consumer};
        bus->stored = stored;
    }
    stored->offset = offset;
}

/* What users keep stays readable, and is nobody's; the queue has its message again. */
static void orphan(struct entry *entry)
{
    struct bus *bus = entry->bus;
    struct queue *queue = entry->queue;
    if (memory_is_shared(queue)) {
        struct entry *back = memory_entry_new(bus, entry->message, queue, entry->at);
        if (back != NULL) {
            back->returns = entry->returns;
            back->expires = entry->expires;
            memory_queue_return(queue, back, false);
        }
    }
    list_remove(&entry->open);
    entry->is_open = false;
    entry->listener = NULL;
    entry->queue = NULL; /* which may be deleted before it is settled */
    bus->orphans++;
}

static void give_back(struct listener *listener)
{
    if (listener->queue != NULL && listener->queue->keeps)
        store_offset(listener);
    drop_own(listener);
    while (listener->held != NULL) {
        struct entry *entry = listener->held;
        listener->held = entry->next;
        if (memory_is_shared(entry->queue))
            memory_queue_return(entry->queue, entry, false);
        else
            memory_entry_drop(entry);
    }
    while (!list_empty(&listener->open))
        orphan(container_of(listener->open.next, struct entry, open));
}

coney_status memory_unsubscribe(struct feed *feed, coney_call *call)
{
    struct listener *listener = container_of(feed, struct listener, feed);
    struct bus *bus = listener->bus;
    int64_t deadline = time_after(time_now(), call != NULL && call->deadline != 0 ? call->deadline : 10 * CONEY_SECOND);
    lock_acquire(&bus->lock);
    listener->closing = true;
    find_only(bus);
    atomic_store_explicit(&listener->look, true, memory_order_relaxed);
    memory_wake_if_asleep(listener);
    cond_wake_all(&bus->changed);
    while (listener->busy || (listener->threaded && !listener->ended)) {
        if (listener->busy || memory_is_listening(listener)) {
            lock_release(&bus->lock);
            return memory_fail(call, CONEY_EDEADLK, 0, "a subscription cannot be ended from its own handler");
        }
        if (!cond_wait(&bus->changed, &bus->lock, deadline)) {
            lock_release(&bus->lock);
            return memory_fail(call, CONEY_ETIMEDOUT, 0, "a handler still runs");
        }
    }
    give_back(listener);
    unlink_listener(listener);
    list_append(&bus->retired, &listener->in_bus);
    bool threaded = listener->threaded;
    listener->threaded = false;
    pthread_t thread = listener->thread;
    lock_release(&bus->lock);
    if (threaded)
        pthread_join(thread, NULL);
    return CONEY_OK;
}

/* Moving ---------------------------------------------------------------------------------------------------------------------- */

static coney_status find_position(const struct listener *listener, const coney_position *position, uint64_t *offset,
                                  coney_call *call)
{
    if (!listener->has_offsets || listener->bus->face == FACE_AMQP)
        return memory_fail(call, CONEY_EUNSUPPORTED, 0,
                           "it has no positions: only a stream or a topic that keeps its messages has");
    if (memory_log_find(listener->queue, position, offset))
        return CONEY_OK;
    const struct history *log = &listener->queue->history;
    return memory_fail(call, CONEY_ENOOFFSET, 0, "no message has offset %llu: there are %llu to %llu (the last one excluded)",
                       (unsigned long long)position->offset, (unsigned long long)log->first, (unsigned long long)log->next);
}

/* Its thread begins nothing any more; waits for what that has in hand. */
static coney_status halt(struct listener *listener, coney_call *call)
{
    struct bus *bus = listener->bus;
    int64_t deadline = time_after(time_now(), call != NULL && call->deadline != 0 ? call->deadline : 10 * CONEY_SECOND);
    bool in_time = true;
    listener->is_moving = true;
    atomic_store_explicit(&listener->look, true, memory_order_relaxed);
    while (listener->in_hand && in_time)
        in_time = cond_wait(&bus->changed, &bus->lock, deadline);
    return in_time ? CONEY_OK : memory_fail(call, CONEY_ETIMEDOUT, 0, "its handler still runs");
}

/* What it was given and has not handled, or is to handle again, is no longer its. */
static coney_status move(struct listener *listener, uint64_t offset, coney_call *call)
{
    drop_own(listener);
    for (struct entry *entry = listener->held; entry != NULL; entry = listener->held) {
        listener->held = entry->next;
        listener->open_count--;
        memory_entry_drop(entry);
    }
    listener->not_before = 0;
    listener->turn++;
    return memory_log_read(listener, offset) ? CONEY_OK : memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
}

/* The messages begin when it has returned: before, the framework would send them back. */
coney_status memory_seek(struct feed *feed, const coney_position *position, coney_call *call)
{
    struct listener *listener = container_of(feed, struct listener, feed);
    struct bus *bus = listener->bus;
    uint64_t offset = 0;
    lock_acquire(&bus->lock);
    coney_status status = find_position(listener, position, &offset, call);
    bool is_halted = status == CONEY_OK && listener->threaded;
    if (is_halted && (status = halt(listener, call)) == CONEY_OK)
        status = find_position(listener, position, &offset, call); /* which may be gone by now */
    if (status == CONEY_OK)
        status = move(listener, offset, call);
    struct worker *worker = bus->broker->app->worker;
    if (is_halted && worker != NULL)
        worker_post(worker, &listener->go_on);
    else if (is_halted)
        go_on_locked(listener);
    lock_release(&bus->lock);
    return status;
}
