/* memory_feed.c: listeners of the broker in memory: how they open, are served, settle, move and end: see memory_bus.h. */
#include "base/thread.h"
#include "base/time.h"
#include "transport/memory_bus.h"
#include "transport/memory_match.h"

#include <stdlib.h>

static _Thread_local struct listener *listening; /* whose thread this is */

bool memory_is_listening(const struct listener *listener)
{
    return listening == listener;
}

void memory_listener_wake(struct listener *listener)
{
    listener->asleep = false;
    cond_wake_all(&listener->wake);
}

static void wake_if_asleep(struct listener *listener)
{
    if (listener->asleep)
        memory_listener_wake(listener);
}

/* Whether its listeners share one line. */
static bool is_shared(const struct queue *queue)
{
    return queue != NULL && queue->terms.kind != QUEUE_LOG;
}

/* Settling: under the lock ---------------------------------------------------------------------------------------------------- */

/* In a line of its own: again, before what comes after it. */
static void again(struct listener *listener, struct entry *entry)
{
    entry->returns++;
    entry->redelivered = true;
    memory_line_insert(&listener->own, entry, false);
    listener->waiting++;
}

static void settle_own(struct listener *listener, struct entry *entry, coney_settle how)
{
    struct bus *bus = listener->bus;
    bool again_at_all = how == CONEY_REQUEUE || how > 0;
    if (!again_at_all || bus->face == FACE_AMQP || listener->closing) { /* a server's stream queue takes anything for an ack */
        memory_entry_drop(entry);
        return;
    }
    if (how > 0 && bus->face == FACE_MEMORY) {
        memory_listener_hold(listener, entry, time_after(memory_now(bus), how));
        return;
    }
    if (how > 0)
        listener->not_before = time_after(memory_now(bus), how);
    again(listener, entry);
}

static void settle_shared(struct listener *listener, struct entry *entry, coney_settle how)
{
    if (how == CONEY_REJECT)
        memory_queue_bury(entry->queue, entry, "rejected");
    else if (how == CONEY_REQUEUE)
        memory_queue_return(entry->queue, entry, true);
    else
        memory_listener_hold(listener, entry, time_after(memory_now(listener->bus), how));
}

static coney_status settle(struct entry *entry, coney_settle how)
{
    struct listener *listener = entry->listener;
    if (listener == NULL) {
        bool is_reply = entry->is_reply;
        entry->bus->orphans--;
        memory_entry_drop(entry);
        return is_reply ? CONEY_OK : CONEY_ECLOSED;
    }
    if (entry->is_open) {
        list_remove(&entry->open);
        entry->is_open = false;
        listener->open_count--;
    }
    if (how == CONEY_ACK)
        memory_entry_drop(entry);
    else if (is_shared(entry->queue))
        settle_shared(listener, entry, how);
    else
        settle_own(listener, entry, how);
    wake_if_asleep(listener);
    return CONEY_OK;
}

coney_status memory_entry_settle(struct entry *entry, coney_settle how)
{
    if (how <= CONEY_KEPT)
        return CONEY_EINVAL;
    struct bus *bus = entry->bus;
    lock_acquire(&bus->lock);
    coney_status status = settle(entry, how);
    memory_bus_leave(bus);
    return status;
}

coney_status memory_settle(struct incoming *m, coney_settle how)
{
    return memory_entry_settle((struct entry *)(uintptr_t)m->native, how);
}

bool memory_keep(struct incoming *m)
{
    struct entry *entry = (struct entry *)(uintptr_t)m->native;
    struct listener *listener = entry->listener;
    lock_acquire(&listener->bus->lock);
    list_append(&listener->open, &entry->open);
    entry->is_open = true;
    listener->open_count++;
    lock_release(&listener->bus->lock);
    m->kept = &entry->kept;
    return true;
}

/* Handing over ---------------------------------------------------------------------------------------------------------------- */

static inline coney_settle hand_over(struct listener *listener, struct entry *entry, bool more)
{
    struct incoming m = {.body = entry->message->body,
                         .feed = &listener->feed,
                         .native = entry,
                         .kept = NULL,
                         .offset = listener->has_offsets ? entry->at : UINT64_MAX,
                         .more = more};
    return listener->feed.sink->deliver(listener->feed.sink, &m);
}

void memory_find_only(struct bus *bus)
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

/* A run: what a listener's thread took from its line, and handles without the lock. */
struct run {
    struct entry *left;
    struct entry *acked;
    size_t handled;
    uint64_t turn;
};

enum { RUN_MOST = 256 }; /* messages after which it says what it has done: a publisher may wait for room */

static void run_handle(struct listener *listener, struct run *run)
{
    struct entry *acked = NULL;
    size_t handled = 0;
    for (struct entry *entry = run->left; entry != NULL; entry = run->left) {
        struct entry *next = entry->next;
        coney_settle how = hand_over(listener, entry, next != NULL);
        run->left = next;
        handled++;
        if (__builtin_expect(how == CONEY_ACK, 1)) {
            entry->next = acked;
            acked = entry;
        } else if (how != CONEY_KEPT) {
            memory_entry_settle(entry, how);
        }
        if (handled == RUN_MOST || __builtin_expect(atomic_load_explicit(&listener->look, memory_order_relaxed), 0))
            break;
    }
    run->acked = acked;
    run->handled = handled;
}

/* Publishers that wait for room are woken when a quarter is free, unless they have waited for a while (`look`). */
static void make_room(struct listener *listener, size_t handled)
{
    struct bus *bus = listener->bus;
    bool is_urgent = atomic_load_explicit(&listener->look, memory_order_relaxed);
    listener->waiting -= handled;
    if (bus->room_waiters > 0 && (is_urgent || listener->waiting < listener->most_waiting - listener->most_waiting / 4))
        cond_wake_all(&bus->changed);
}

static void run_end(struct listener *listener, struct run *run)
{
    size_t gone = run->handled;
    struct message_pool *pool = &listener->bus->pool;
    for (struct entry *entry = run->acked; entry != NULL;) {
        struct entry *next = entry->next;
        struct message *message = entry->message;
        if (__builtin_expect(entry == &message->entry, 1)) {
            message->entry_used = false;
            message_unref(pool, message);
        } else {
            memory_entry_drop(entry);
        }
        entry = next;
    }
    if (listener->turn != run->turn || listener->closing)
        for (; run->left != NULL; gone++) {
            struct entry *next = run->left->next;
            memory_entry_drop(run->left);
            run->left = next;
        }
    *run = (struct run){.left = run->left, .turn = listener->turn};
    make_room(listener, gone);
}

/* Waits for something in its line; false: it is to end. */
static bool run_begin(struct listener *listener, struct run *run)
{
    atomic_store_explicit(&listener->look, false, memory_order_relaxed);
    while (run->left == NULL) {
        if (listener->closing)
            return false;
        if (listener->held != NULL)
            memory_listener_due(listener, time_now());
        run->left = listener->own.head;
        listener->own = (struct line){0};
        if (run->left != NULL)
            break;
        listener->asleep = true;
        cond_wait(&listener->wake, &listener->bus->lock, listener->held != NULL ? listener->held->due : INT64_MAX);
        listener->asleep = false;
    }
    run->turn = listener->turn;
    return !listener->closing;
}

static void *listen_on(void *arg)
{
    struct listener *listener = arg;
    struct bus *bus = listener->bus;
    struct run run = {0};
    listening = listener;
    lock_acquire(&bus->lock);
    while (run_begin(listener, &run)) {
        lock_release(&bus->lock);
        run_handle(listener, &run);
        lock_acquire(&bus->lock);
        run_end(listener, &run);
    }
    run_end(listener, &run);
    listener->ended = true;
    cond_wake_all(&bus->changed);
    lock_release(&bus->lock);
    return NULL;
}

/* Virtual: one at a time ------------------------------------------------------------------------------------------------------ */

static bool can_take(const struct listener *listener)
{
    return !listener->busy && !listener->closing && listener->open_count < listener->prefetch;
}

/* Whether it is the turn of this one among those of a queue: of a single active consumer the first one's, else of those of the highest priority. */
static bool is_preferred(const struct listener *listener)
{
    const struct queue *queue = listener->queue;
    if (queue->terms.single_active_consumer)
        return queue->listeners.next == &listener->in_queue;
    for (const struct list *l = queue->listeners.next; l != &queue->listeners; l = l->next) {
        const struct listener *other = container_of(l, struct listener, in_queue);
        if (other->priority > listener->priority && can_take(other))
            return false;
    }
    return true;
}

static struct entry *take_for(struct listener *listener, int64_t now)
{
    if (!can_take(listener))
        return NULL;
    if (is_shared(listener->queue)) {
        struct entry *entry = is_preferred(listener) ? memory_queue_take(listener->queue) : NULL;
        if (entry != NULL)
            entry->listener = listener;
        return entry;
    }
    if (listener->not_before > now)
        return NULL;
    struct entry *entry = line_take(&listener->own);
    if (entry == NULL)
        return NULL;
    listener->not_before = 0;
    listener->waiting--;
    if (entry->at >= listener->resume)
        listener->resume = entry->at + 1;
    listener->has_begun = true;
    return entry;
}

/* The next listener in rotation that can take something. */
static struct listener *next_to_serve(struct bus *bus, int64_t now, struct entry **entry)
{
    struct list *first = bus->last != NULL ? &bus->last->in_bus : &bus->listeners;
    struct list *at = first;
    do {
        at = at->next;
        if (at == &bus->listeners)
            continue;
        struct listener *listener = container_of(at, struct listener, in_bus);
        *entry = take_for(listener, now);
        if (*entry != NULL)
            return listener;
    } while (at != first);
    return NULL;
}

bool memory_bus_run_one(struct bus *bus)
{
    struct entry *entry = NULL;
    lock_acquire(&bus->lock);
    int64_t now = memory_now(bus);
    memory_due(bus, now);
    struct listener *listener = next_to_serve(bus, now, &entry);
    if (listener == NULL) {
        lock_release(&bus->lock);
        return false;
    }
    bus->last = listener;
    listener->busy = true;
    bool more = bus->face != FACE_AMQP && listener->own.head != NULL;
    lock_release(&bus->lock);
    coney_settle how = hand_over(listener, entry, more);
    lock_acquire(&bus->lock);
    listener->busy = false;
    if (how != CONEY_KEPT)
        settle(entry, how);
    lock_release(&bus->lock);
    return true;
}

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
    uint64_t from = 0;
    coney_position position = position_of(listener);
    if (listener->has_offsets)
        memory_log_find(listener->queue, &position, &from);
    if (!make_target_room(bus) || (listener->has_offsets && !memory_log_read(listener, from)))
        return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    list_append(&bus->listeners, &listener->in_bus);
    list_append(listener->queue != NULL ? &listener->queue->listeners : &bus->patterns, &listener->in_queue);
    memory_find_only(bus);
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
    memory_find_only(bus);
    if (queue == NULL)
        return;
    queue->unused_since = memory_now(bus);
    if (queue->terms.auto_delete && list_empty(&queue->listeners))
        memory_queue_delete(bus, queue);
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
    listener->subscription = subscription;
    list_init(&listener->in_bus);
    list_init(&listener->in_queue);
    list_init(&listener->open);
    lock_acquire(&bus->lock);
    coney_status status = open_listener(listener, call);
    if (status == CONEY_OK && !bus->is_virtual) {
        status = thread_start(&listener->thread, "coney-memory", listen_on, listener);
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
    if (is_shared(queue)) {
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
        if (is_shared(entry->queue))
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
    memory_find_only(bus);
    atomic_store_explicit(&listener->look, true, memory_order_relaxed);
    wake_if_asleep(listener);
    cond_wake_all(&bus->changed);
    while (listener->busy || (listener->threaded && !listener->ended)) {
        if (listener->busy || listening == listener) {
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

coney_status memory_seek(struct feed *feed, const coney_position *position, coney_call *call)
{
    struct listener *listener = container_of(feed, struct listener, feed);
    struct bus *bus = listener->bus;
    uint64_t offset = 0;
    coney_status status = CONEY_OK;
    lock_acquire(&bus->lock);
    const struct history *log = listener->queue != NULL ? &listener->queue->history : NULL;
    if (!listener->has_offsets || bus->face == FACE_AMQP) {
        status = memory_fail(call, CONEY_EUNSUPPORTED, 0,
                             "it has no positions: only a stream or a topic that keeps its messages has");
    } else if (!memory_log_find(listener->queue, position, &offset)) {
        status =
            memory_fail(call, CONEY_ENOOFFSET, 0, "no message has offset %llu: there are %llu to %llu (the last one excluded)",
                        (unsigned long long)position->offset, (unsigned long long)log->first, (unsigned long long)log->next);
    } else {
        drop_own(listener);
        listener->not_before = 0;
        listener->turn++;
        atomic_store_explicit(&listener->look, true, memory_order_relaxed);
        if (!memory_log_read(listener, offset))
            status = memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    }
    lock_release(&bus->lock);
    return status;
}
