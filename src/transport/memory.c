/* memory.c: the broker in memory as a transport, and as what stands in for a server: see memory.h and memory_bus.h. */
#include "base/text.h"
#include "service/app.h"
#include "transport/memory_bus.h"

#include <stdlib.h>

coney_status memory_fail(coney_call *call, coney_status status, uint32_t code, const char *format, ...)
{
    if (call == NULL)
        return status;
    va_list args;
    va_start(args, format);
    text_vprint(call->text, sizeof call->text, format, args);
    va_end(args);
    call->status = status;
    call->code = code;
    return status;
}

/* Life -------------------------------------------------------------------------------------------------------------------- */

static coney_status kept_settle(struct coney_kept *kept, coney_settle how)
{
    return memory_entry_settle(container_of(kept, struct entry, kept), how);
}

static void bus_init(struct bus *bus, enum face face, const struct transport *transport)
{
    bus->pool.bus = bus;
    bus->pool.settle = kept_settle;
    bus->face = face;
    bus->reply_feed.transport = transport;
    list_init(&bus->queues);
    list_init(&bus->exchanges);
    list_init(&bus->listeners);
    list_init(&bus->retired);
    list_init(&bus->patterns);
    list_init(&bus->requests);
    bus->dead_end = &bus->dead;
}

static void bus_destroy(struct bus *bus)
{
    while (!list_empty(&bus->queues))
        memory_queue_delete(bus, container_of(bus->queues.next, struct queue, in_bus));
    memory_exchanges_free(bus);
    for (struct list *l = list_take(&bus->retired); l != NULL; l = list_take(&bus->retired))
        free(container_of(l, struct listener, in_bus));
    while (bus->idle != NULL) {
        struct entry *next = bus->idle->next;
        free(bus->idle);
        bus->idle = next;
    }
    message_pool_free(&bus->pool);
    map_free(&bus->by_hash);
    free(bus->targets);
    free(bus);
}

void memory_bus_leave(struct bus *bus)
{
    bool is_last = bus->freed && bus->orphans == 0;
    lock_release(&bus->lock);
    if (is_last)
        bus_destroy(bus);
}

static coney_status connect_bus(void *self, struct coney_broker *broker, coney_call *call)
{
    struct bus *bus = self;
    (void)call;
    lock_acquire(&bus->lock);
    bus->broker = broker;
    bus->is_connected = true;
    lock_release(&bus->lock);
    return CONEY_OK;
}

/* An exclusive queue goes with the connection. */
static void drop_exclusive(struct bus *bus)
{
    for (struct list *q = bus->queues.next, *next = q->next; q != &bus->queues; q = next, next = q->next) {
        struct queue *queue = container_of(q, struct queue, in_bus);
        if (queue->terms.exclusive && list_empty(&queue->listeners))
            memory_queue_delete(bus, queue);
    }
}

static coney_status disconnect(void *self, coney_call *call)
{
    struct bus *bus = self;
    coney_status status = CONEY_OK;
    lock_acquire(&bus->lock);
    bus->is_connected = false;
    cond_wake_all(&bus->changed);
    while (!list_empty(&bus->listeners) && status == CONEY_OK) {
        struct listener *listener = container_of(bus->listeners.next, struct listener, in_bus);
        lock_release(&bus->lock);
        status = memory_unsubscribe(&listener->feed, call);
        lock_acquire(&bus->lock);
    }
    drop_exclusive(bus);
    lock_release(&bus->lock);
    return status;
}

static void bus_free(void *self)
{
    struct bus *bus = self;
    disconnect(bus, &(coney_call){.deadline = CONEY_OFF});
    if (bus->real != NULL)
        bus->real->free(bus->real_self);
    lock_acquire(&bus->lock);
    bus->freed = true;
    memory_bus_leave(bus);
}

static bool is_connected(void *self)
{
    struct bus *bus = self;
    return atomic_load_explicit(&bus->is_connected, memory_order_relaxed);
}

static bool describe(void *self, char *host, size_t host_cap, const char **protocol, const char **version)
{
    const struct bus *bus = self;
    return bus->real != NULL && bus->real->describe != NULL &&
           bus->real->describe(bus->real_self, host, host_cap, protocol, version);
}

/* The three faces ----------------------------------------------------------------------------------------------------------- */

#define FACE(...)                                                                                                              \
    {                                                                                                                          \
        .check_broker = memory_check_broker, .check_source = memory_check_source, .check_publisher = memory_check_publisher,   \
        .connect = connect_bus, .declare = memory_declare, .subscribe = memory_subscribe, .unsubscribe = memory_unsubscribe,   \
        .open_outlet = memory_open_outlet, .publish = memory_publish, .close_outlet = memory_close_outlet,                     \
        .disconnect = disconnect, .free = bus_free, .connected = is_connected, .info = memory_info,                            \
        .content_type = memory_content_type, .header = memory_header, .key = memory_key, .attempt = memory_attempt,            \
        .keep = memory_keep, .settle = memory_settle, .copy = memory_copy, .delays = memory_delays, .describe = describe,      \
        __VA_ARGS__                                                                                                            \
    }

#define TRANSACTIONS                                                                                                           \
    .tx_begin = memory_tx_begin, .tx_publish = memory_tx_publish, .tx_commit = memory_tx_commit, .tx_abort = memory_tx_abort

static const struct transport faces[] = {
    [FACE_MEMORY] =
        FACE(.name = "memory", .source = CONEY_SOURCE_TOPIC, .seek = memory_seek, .request = memory_request, TRANSACTIONS),
    [FACE_AMQP] = FACE(.name = "amqp", .source = CONEY_SOURCE_QUEUE, .request = memory_request, TRANSACTIONS),
    [FACE_STREAM] = FACE(.name = "stream", .source = CONEY_SOURCE_STREAM, .seek = memory_seek),
};

coney_broker *coney_app_memory_sized(coney_app *app, const coney_memory_options *options, size_t size)
{
    struct bus *bus = calloc(1, sizeof *bus);
    if (bus != NULL) {
        bus_init(bus, FACE_MEMORY, &faces[FACE_MEMORY]);
        if (!app_take_options(&bus->options, sizeof bus->options, options, size))
            bus->options_status = CONEY_EUNSUPPORTED;
        for (size_t i = 0; i < sizeof bus->options.reserved; i++)
            if (bus->options.reserved[i] != 0)
                bus->options_status = CONEY_EINVAL;
    }
    coney_broker *broker = broker_new(app, &faces[FACE_MEMORY], bus);
    if (broker != NULL)
        bus->broker = broker;
    return broker;
}

/* Standing in --------------------------------------------------------------------------------------------------------------- */

struct bus *memory_bus_of(const struct coney_broker *broker)
{
    return broker->transport->free == bus_free ? broker->self : NULL;
}

coney_status memory_stand_in(coney_broker *broker)
{
    struct bus *bus = memory_bus_of(broker);
    if (bus != NULL) {
        bus->is_virtual = true;
        return CONEY_OK;
    }
    bus = calloc(1, sizeof *bus);
    if (bus == NULL)
        return CONEY_ENOMEM;
    enum face face = broker->transport->source == CONEY_SOURCE_STREAM ? FACE_STREAM : FACE_AMQP;
    bus_init(bus, face, &faces[face]);
    bus->is_virtual = true;
    bus->real = broker->transport;
    bus->real_self = broker->self;
    bus->broker = broker;
    broker->transport = &faces[face];
    broker->self = bus;
    return CONEY_OK;
}

bool memory_run_one(coney_broker *broker)
{
    return memory_bus_run_one(memory_bus_of(broker));
}

int64_t memory_next_due(coney_broker *broker)
{
    struct bus *bus = memory_bus_of(broker);
    lock_acquire(&bus->lock);
    int64_t due = memory_due_next(bus);
    lock_release(&bus->lock);
    return due;
}

coney_status memory_inject(coney_broker *broker, const char *exchange, const struct outgoing *out)
{
    struct bus *bus = memory_bus_of(broker);
    struct message *message;
    lock_acquire(&bus->lock);
    coney_status status = memory_encode(bus, coney_bytes_str(exchange), out, &message);
    if (status == CONEY_OK) {
        struct verdict verdict = memory_route(bus, message);
        message_unref(&bus->pool, message);
        status = verdict.code == 404 ? CONEY_ENOTFOUND : verdict.status;
    }
    lock_release(&bus->lock);
    return status;
}

size_t memory_ready(coney_broker *broker, const char *name)
{
    struct bus *bus = memory_bus_of(broker);
    lock_acquire(&bus->lock);
    const struct queue *queue = memory_queue_find(bus, coney_bytes_str(name));
    size_t ready = SIZE_MAX;
    if (queue != NULL)
        ready = queue->terms.kind == QUEUE_LOG ? queue->history.next - queue->history.first : queue->count;
    lock_release(&bus->lock);
    return ready;
}

size_t memory_open(coney_broker *broker)
{
    struct bus *bus = memory_bus_of(broker);
    size_t open = 0;
    lock_acquire(&bus->lock);
    for (const struct list *l = bus->listeners.next; l != &bus->listeners; l = l->next) {
        const struct listener *listener = container_of(l, struct listener, in_bus);
        open += listener->open_count + listener->busy;
    }
    lock_release(&bus->lock);
    return open;
}
