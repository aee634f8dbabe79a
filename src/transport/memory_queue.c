/* memory_queue.c: entries, lines, logs and queues of the broker in memory: see memory_bus.h. */
#include "base/bytes.h"
#include "base/time.h"
#include "transport/memory_bus.h"

#include <stdlib.h>
#include <time.h>

int64_t memory_now(const struct bus *bus)
{
    if (bus->is_virtual && bus->broker != NULL && bus->broker->app->worker != NULL)
        return worker_now(bus->broker->app->worker);
    return time_now();
}

int64_t memory_wall(const struct bus *bus)
{
    if (bus->is_virtual && bus->broker != NULL && bus->broker->app->worker != NULL)
        return worker_wall(bus->broker->app->worker);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Entries and lines ------------------------------------------------------------------------------------------------------- */

static struct entry *entry_allocate(struct bus *bus)
{
    struct entry *entry = malloc(sizeof *entry);
    if (entry == NULL)
        return NULL;
    entry->kept.settle = bus->pool.settle;
    entry->bus = bus;
    list_init(&entry->open);
    return entry;
}

/* Of a message that is in several lines. */
struct entry *memory_entry_more(struct bus *bus)
{
    struct entry *entry = bus->idle;
    if (entry == NULL)
        return entry_allocate(bus);
    bus->idle = entry->next;
    return entry;
}

struct entry *memory_entry_new(struct bus *bus, struct message *message, struct queue *queue, uint64_t at)
{
    struct entry *entry = &message->entry;
    if (!message->entry_used)
        message->entry_used = true;
    else if ((entry = memory_entry_more(bus)) == NULL)
        return NULL;
    entry->message = message_ref(message);
    entry->queue = queue;
    entry->listener = NULL;
    entry->at = at;
    entry->returns = 0;
    entry->expires = INT64_MAX;
    entry->redelivered = false;
    entry->is_open = false;
    entry->is_reply = false;
    return entry;
}

void memory_entry_drop(struct entry *entry)
{
    struct bus *bus = entry->bus;
    struct message *message = entry->message;
    if (entry == &message->entry) {
        message->entry_used = false;
    } else {
        entry->next = bus->idle;
        bus->idle = entry;
    }
    message_unref(&bus->pool, message);
}

static int64_t priority_of(const struct entry *entry)
{
    const struct message_more *more = entry->message->more;
    int64_t most = entry->queue->terms.max_priority;
    if (more == NULL || !more->has_priority)
        return 0;
    return more->priority < most ? more->priority : most;
}

static bool goes_before(const struct entry *a, const struct entry *b, bool priorities)
{
    if (priorities && priority_of(a) != priority_of(b))
        return priority_of(a) > priority_of(b);
    return a->at < b->at;
}

void memory_line_insert(struct line *line, struct entry *entry, bool priorities)
{
    if (line->tail == NULL || !goes_before(entry, line->tail, priorities)) {
        line_append(line, entry);
        return;
    }
    struct entry **at = &line->head;
    while (!goes_before(entry, *at, priorities))
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
}

/* By when it is due: held entries, delayed copies. */
static void insert_by_due(struct entry **at, struct entry *entry)
{
    while (*at != NULL && (*at)->due <= entry->due)
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
}

/* Queues by name ---------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(coney_bytes name)
{
    const uint8_t *at = name.data;
    size_t left = name.len;
    uint64_t hash = name.len * UINT64_C(0x9e3779b97f4a7c15);
    for (; left >= 8; at += 8, left -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    for (; left > 0; at++, left--)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash ^ (hash >> 29);
}

struct queue *memory_queue_find(struct bus *bus, coney_bytes name)
{
    if (name.len == 0 || bus->by_hash.count == 0)
        return NULL;
    struct queue **recent = &bus->recent[memory_recent(name)];
    if (*recent != NULL && bytes_equal((*recent)->name, name))
        return *recent;
    struct queue *queue = map_get(&bus->by_hash, hash_of(name));
    while (queue != NULL && !bytes_equal(queue->name, name))
        queue = queue->same_hash;
    if (queue != NULL)
        *recent = queue;
    return queue;
}

struct queue *memory_queue_new(struct bus *bus, coney_bytes name, const struct queue_terms *terms)
{
    struct queue *queue = calloc(1, sizeof *queue + name.len + 1);
    if (queue == NULL)
        return NULL;
    memcpy(queue->text, name.data, name.len);
    queue->name = coney_bytes_of(queue->text, name.len);
    queue->terms = *terms;
    queue->hash = hash_of(name);
    queue->unused_since = memory_now(bus);
    list_init(&queue->listeners);
    queue->same_hash = bus->by_hash.count > 0 ? map_get(&bus->by_hash, queue->hash) : NULL;
    if (!map_put(&bus->by_hash, queue->hash, queue)) {
        free(queue);
        return NULL;
    }
    list_init(&queue->in_bus);
    list_append(&bus->queues, &queue->in_bus);
    bus->unheard_len = 0;
    return queue;
}

static void forget_name(struct bus *bus, struct queue *queue)
{
    struct queue *first = map_take(&bus->by_hash, queue->hash);
    if (first == queue) {
        first = queue->same_hash;
    } else {
        struct queue *before = first;
        while (before->same_hash != queue)
            before = before->same_hash;
        before->same_hash = queue->same_hash;
    }
    if (first != NULL)
        map_put(&bus->by_hash, queue->hash, first); /* fits where the other one was */
}

static void unbind(struct bus *bus, const struct queue *queue)
{
    for (struct list *e = bus->exchanges.next; e != &bus->exchanges; e = e->next) {
        struct exchange *exchange = container_of(e, struct exchange, in_bus);
        for (struct list *b = exchange->bindings.next, *next = b->next; b != &exchange->bindings; b = next, next = b->next) {
            struct binding *binding = container_of(b, struct binding, in_exchange);
            if (binding->queue != queue)
                continue;
            list_remove(b);
            free(binding);
        }
    }
}

static void drop_delayed(struct bus *bus, const struct queue *queue)
{
    for (struct entry **at = &bus->delayed; *at != NULL;) {
        struct entry *entry = *at;
        if (entry->queue != queue) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        memory_entry_drop(entry);
    }
}

static void drop_stored(struct bus *bus, const struct queue *stream)
{
    for (struct stored **at = &bus->stored; *at != NULL;) {
        struct stored *stored = *at;
        if (stored->stream != stream) {
            at = &stored->next;
            continue;
        }
        *at = stored->next;
        free(stored);
    }
}

void memory_queue_delete(struct bus *bus, struct queue *queue)
{
    for (size_t i = 0; i < RECENT_QUEUES; i++)
        if (bus->recent[i] == queue)
            bus->recent[i] = NULL;
    forget_name(bus, queue);
    unbind(bus, queue);
    drop_delayed(bus, queue);
    drop_stored(bus, queue);
    list_remove(&queue->in_bus);
    for (struct entry *entry = line_take(&queue->line); entry != NULL; entry = line_take(&queue->line))
        memory_entry_drop(entry);
    for (uint64_t at = queue->history.first; at < queue->history.next && queue->history.cap > 0; at++)
        message_unref(&bus->pool, queue->history.ring[at & (queue->history.cap - 1)]);
    free(queue->history.ring);
    free(queue);
}

/* Dead letters and returns ------------------------------------------------------------------------------------------------- */

static struct message *dead_letter_of(struct queue *queue, struct entry *entry, const char *reason)
{
    struct bus *bus = entry->bus;
    const struct message *message = entry->message;
    struct message_more more = {0};
    if (message->more != NULL)
        more = *message->more;
    more.expiration = 0;
    if (message_death(&bus->pool, message, queue->name, reason, &more.headers) != CONEY_OK)
        return NULL;
    struct message view = *message;
    view.more = &more;
    view.exchange = coney_bytes_str(queue->terms.dead_letter_exchange);
    if (queue->terms.dead_letter_routing_key != NULL)
        view.to = coney_bytes_str(queue->terms.dead_letter_routing_key);
    return message_new(&bus->pool, &view, false);
}

void memory_queue_bury(struct queue *queue, struct entry *entry, const char *reason)
{
    struct bus *bus = entry->bus;
    struct message *dead = queue->terms.dead_letter_exchange != NULL ? dead_letter_of(queue, entry, reason) : NULL;
    memory_entry_drop(entry);
    if (dead == NULL)
        return;
    dead->unwanted = strcmp(reason, "rejected") != 0;
    memory_route_dead(bus, dead);
}

static void queue_insert(struct queue *queue, struct entry *entry)
{
    entry->listener = NULL;
    queue->count++;
    queue->bytes += (int64_t)entry->message->body.len;
    memory_line_insert(&queue->line, entry, queue->terms.max_priority > 0);
}

struct entry *memory_queue_take(struct queue *queue)
{
    struct entry *entry = line_take(&queue->line);
    if (entry == NULL)
        return NULL;
    queue->count--;
    queue->bytes -= (int64_t)entry->message->body.len;
    return entry;
}

/* The same message with its count among the headers, as a quorum queue delivers it; as it is when memory is out. */
static struct entry *with_count(struct queue *queue, struct entry *entry)
{
    struct bus *bus = entry->bus;
    const struct message *message = entry->message;
    const coney_field count = {CONEY_STR(DELIVERY_COUNT_HEADER), coney_value_i64((int64_t)entry->returns)};
    struct message_more more = {0};
    if (message->more != NULL)
        more = *message->more;
    const coney_value headers = more.headers;
    coney_status status =
        message_headers(&bus->pool, CONEY_ENCODING_AMQP091, &headers, &count, 1, (coney_bytes){0}, &more.headers);
    struct message view = *message;
    view.more = &more;
    struct message *counted = status == CONEY_OK ? message_new(&bus->pool, &view, false) : NULL;
    struct entry *again = counted != NULL ? memory_entry_new(bus, counted, queue, entry->at) : NULL;
    if (counted != NULL)
        message_unref(&bus->pool, counted);
    if (again == NULL)
        return entry;
    again->returns = entry->returns;
    again->expires = entry->expires;
    memory_entry_drop(entry);
    return again;
}

void memory_queue_return(struct queue *queue, struct entry *entry, bool counts)
{
    if (counts)
        entry->returns++;
    if (counts && queue->terms.kind == QUEUE_QUORUM)
        entry = with_count(queue, entry);
    entry->redelivered = true;
    if (queue->terms.kind == QUEUE_QUORUM && queue->terms.delivery_limit >= 0 &&
        entry->returns > (uint64_t)queue->terms.delivery_limit)
        memory_queue_bury(queue, entry, "delivery_limit");
    else
        queue_insert(queue, entry);
}

/* Appending ---------------------------------------------------------------------------------------------------------------- */

static bool log_grow(struct history *log)
{
    size_t cap = log->cap > 0 ? log->cap * 2 : 64;
    struct message **ring = malloc(cap * sizeof *ring);
    if (ring == NULL)
        return false;
    for (uint64_t at = log->first; at < log->next; at++)
        ring[at & (cap - 1)] = log->ring[at & (log->cap - 1)];
    free(log->ring);
    log->ring = ring;
    log->cap = cap;
    return true;
}

static bool is_over(const struct queue *queue, uint64_t count, int64_t bytes)
{
    const struct queue_terms *terms = &queue->terms;
    return (terms->max_length > 0 && count > (uint64_t)terms->max_length) ||
           (terms->max_length_bytes > 0 && bytes > terms->max_length_bytes);
}

static coney_status log_keep(struct bus *bus, struct queue *queue, struct message *message)
{
    struct history *log = &queue->history;
    if (log->next - log->first == log->cap && !log_grow(log))
        return CONEY_ENOMEM;
    log->ring[log->next & (log->cap - 1)] = message_ref(message);
    log->next++;
    log->bytes += (int64_t)message->body.len;
    if (message->stored == 0)
        message->stored = memory_wall(bus);
    while (log->next - log->first > 1 && is_over(queue, log->next - log->first, log->bytes)) {
        struct message *oldest = log->ring[log->first & (log->cap - 1)];
        log->first++;
        log->bytes -= (int64_t)oldest->body.len;
        message_unref(&bus->pool, oldest);
    }
    return CONEY_OK;
}

bool memory_listener_append(struct listener *listener, struct message *message, struct queue *queue, uint64_t at)
{
    if (at < listener->resume || listener->closing)
        return true;
    struct entry *entry = memory_entry_new(listener->bus, message, queue, at);
    if (entry == NULL)
        return false;
    memory_listener_take(listener, entry);
    return true;
}

static coney_status log_append(struct bus *bus, struct queue *queue, struct message *message)
{
    uint64_t at = queue->keeps ? queue->history.next : bus->next_at++;
    coney_status status = queue->keeps ? log_keep(bus, queue, message) : CONEY_OK;
    if (status != CONEY_OK)
        return status;
    if (bus->face == FACE_MEMORY) {
        size_t count = memory_topic_targets(bus, queue->name, queue);
        for (size_t i = 0; i < count && status == CONEY_OK; i++) {
            struct listener *listener = bus->targets[i];
            bool is_exact = listener->queue == queue;
            if (!memory_listener_append(listener, message, queue, is_exact ? at : bus->next_at++))
                status = CONEY_ENOMEM;
        }
        return status;
    }
    for (struct list *l = queue->listeners.next; l != &queue->listeners; l = l->next)
        if (!memory_listener_append(container_of(l, struct listener, in_queue), message, queue, at))
            return CONEY_ENOMEM;
    return CONEY_OK;
}

static int64_t expiry_of(struct bus *bus, const struct queue *queue, const struct message *message)
{
    int64_t left = queue->terms.message_ttl;
    int64_t own = message->more != NULL ? message->more->expiration : 0;
    if (own > 0 && (left == 0 || own < left))
        left = own;
    return left > 0 ? time_after(memory_now(bus), left) : INT64_MAX;
}

static bool refuses_more(const struct queue *queue, const struct message *message)
{
    const char *overflow = queue->terms.overflow;
    return overflow != NULL && strncmp(overflow, "reject-publish", strlen("reject-publish")) == 0 &&
           is_over(queue, queue->count + 1, queue->bytes + (int64_t)message->body.len);
}

coney_status memory_queue_append(struct bus *bus, struct queue *queue, struct message *message)
{
    if (queue->terms.kind == QUEUE_LOG)
        return log_append(bus, queue, message);
    struct entry *entry = memory_entry_new(bus, message, queue, queue->next_at++);
    if (entry == NULL)
        return CONEY_ENOMEM;
    if (refuses_more(queue, message)) {
        if (strcmp(queue->terms.overflow, "reject-publish-dlx") == 0)
            memory_queue_bury(queue, entry, "maxlen");
        else
            memory_entry_drop(entry);
        return CONEY_EREFUSED;
    }
    entry->expires = expiry_of(bus, queue, message);
    queue_insert(queue, entry);
    while (queue->count > 0 && is_over(queue, queue->count, queue->bytes))
        memory_queue_bury(queue, memory_queue_take(queue), "maxlen");
    return CONEY_OK;
}

/* Reading a log again ------------------------------------------------------------------------------------------------------ */

static uint64_t log_at_time(const struct history *log, int64_t time)
{
    uint64_t low = log->first;
    uint64_t high = log->next;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (log->ring[middle & (log->cap - 1)]->stored < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool memory_log_find(const struct queue *queue, const coney_position *position, uint64_t *offset)
{
    const struct history *log = &queue->history;
    *offset = log->next;
    switch (position->at) {
    case CONEY_STREAM_NEXT:
        return true;
    case CONEY_STREAM_FIRST:
        *offset = log->first;
        return true;
    case CONEY_STREAM_LAST:
        *offset = log->next > log->first ? log->next - 1 : log->next;
        return true;
    case CONEY_STREAM_OFFSET:
        *offset = position->offset;
        return position->offset >= log->first && position->offset <= log->next;
    case CONEY_STREAM_TIMESTAMP:
        *offset = log_at_time(log, position->time);
        return true;
    }
    return false;
}

bool memory_log_read(struct listener *listener, uint64_t from)
{
    struct queue *queue = listener->queue;
    const struct history *log = &queue->history;
    listener->resume = from;
    for (uint64_t at = from > log->first ? from : log->first; at < log->next; at++)
        if (!memory_listener_append(listener, log->ring[at & (log->cap - 1)], queue, at))
            return false;
    return true;
}

/* What time brings ---------------------------------------------------------------------------------------------------------- */

void memory_listener_due(struct listener *listener, int64_t now)
{
    if (listener->not_before <= now)
        listener->not_before = 0;
    while (listener->held != NULL && listener->held->due <= now) {
        struct entry *entry = listener->held;
        listener->held = entry->next;
        listener->open_count--;
        if (entry->queue != NULL && entry->queue->terms.kind != QUEUE_LOG) {
            memory_queue_return(entry->queue, entry, true);
            continue;
        }
        entry->returns++;
        entry->redelivered = true;
        memory_line_insert(&listener->own, entry, false);
        listener->waiting++;
    }
}

void memory_listener_hold(struct listener *listener, struct entry *entry, int64_t due)
{
    entry->due = due;
    listener->open_count++;
    insert_by_due(&listener->held, entry);
}

void memory_delay(struct bus *bus, struct entry *entry, int64_t due)
{
    entry->due = due;
    insert_by_due(&bus->delayed, entry);
}

static void delayed_due(struct bus *bus, int64_t now)
{
    while (bus->delayed != NULL && bus->delayed->due <= now) {
        struct entry *entry = bus->delayed;
        bus->delayed = entry->next;
        memory_queue_append(bus, entry->queue, entry->message);
        memory_entry_drop(entry);
    }
}

static bool queue_ends(const struct queue *queue, int64_t now)
{
    return queue->terms.expires > 0 && list_empty(&queue->listeners) &&
           time_after(queue->unused_since, queue->terms.expires) <= now;
}

void memory_due(struct bus *bus, int64_t now)
{
    for (struct list *l = bus->listeners.next; l != &bus->listeners; l = l->next)
        memory_listener_due(container_of(l, struct listener, in_bus), now);
    delayed_due(bus, now);
    for (struct list *q = bus->queues.next, *next = q->next; q != &bus->queues; q = next, next = q->next) {
        struct queue *queue = container_of(q, struct queue, in_bus);
        while (queue->line.head != NULL && queue->line.head->expires <= now)
            memory_queue_bury(queue, memory_queue_take(queue), "expired");
        next = q->next;
        if (queue_ends(queue, now))
            memory_queue_delete(bus, queue);
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t memory_due_next(const struct bus *bus)
{
    int64_t due = bus->delayed != NULL ? bus->delayed->due : INT64_MAX;
    for (const struct list *l = bus->listeners.next; l != &bus->listeners; l = l->next) {
        const struct listener *listener = container_of(l, struct listener, in_bus);
        if (listener->held != NULL)
            due = sooner(due, listener->held->due);
        if (listener->own.head != NULL && listener->not_before > 0)
            due = sooner(due, listener->not_before);
    }
    for (const struct list *q = bus->queues.next; q != &bus->queues; q = q->next) {
        const struct queue *queue = container_of(q, struct queue, in_bus);
        if (queue->line.head != NULL)
            due = sooner(due, queue->line.head->expires);
        if (queue->terms.expires > 0 && list_empty(&queue->listeners))
            due = sooner(due, time_after(queue->unused_since, queue->terms.expires));
    }
    return due;
}
