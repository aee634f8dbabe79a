/* memory_route.c: from a publish to the queues, streams and listeners that get it: see memory_bus.h. */
#include "base/bytes.h"
#include "transport/memory_bus.h"
#include "transport/memory_match.h"

#include <stdlib.h>

#define NO_ROUTE ((struct verdict){CONEY_ERETURNED, 312, "NO_ROUTE"})

static struct verdict append(struct bus *bus, struct queue *queue, struct message *message)
{
    if (message->unwanted && message_circles(message, queue->name))
        return VERDICT_OK;
    switch (memory_queue_append(bus, queue, message)) {
    case CONEY_OK:
        return VERDICT_OK;
    case CONEY_EREFUSED:
        return (struct verdict){CONEY_EREFUSED, 0, "the queue is full and refuses more (overflow)"};
    default:
        return (struct verdict){CONEY_ENOMEM, 0, "memory is out"};
    }
}

/* To the request that waits under this name. */
static bool to_request(struct bus *bus, struct message *message)
{
    for (struct list *r = bus->requests.next; r != &bus->requests; r = r->next) {
        struct request *request = container_of(r, struct request, in_bus);
        if (!bytes_equal(coney_bytes_str(request->name), message->to))
            continue;
        if (request->reply == NULL)
            request->reply = message_ref(message);
        cond_wake_all(&bus->changed);
        return true;
    }
    return false;
}

/* Topics ------------------------------------------------------------------------------------------------------------------ */

size_t memory_topic_targets(struct bus *bus, coney_bytes name, const struct queue *topic)
{
    size_t count = 0;
    if (topic != NULL)
        for (struct list *l = topic->listeners.next; l != &topic->listeners; l = l->next) {
            struct listener *listener = container_of(l, struct listener, in_queue);
            if (!listener->closing)
                bus->targets[count++] = listener;
        }
    if (bus->options.most_specific && count > 0)
        return count;
    const struct listener *best = NULL;
    for (struct list *l = bus->patterns.next; l != &bus->patterns; l = l->next) {
        struct listener *listener = container_of(l, struct listener, in_queue);
        if (listener->closing || !memory_topic_matches(listener->name, name))
            continue;
        int better = best != NULL ? memory_topic_compare(listener->name, best->name) : 0;
        if (bus->options.most_specific && better < 0)
            continue;
        if (bus->options.most_specific && better > 0)
            count = 0;
        bus->targets[count++] = listener;
        best = listener;
    }
    return count;
}

static struct verdict to_patterns(struct bus *bus, struct message *message)
{
    size_t count = memory_topic_targets(bus, message->to, NULL);
    for (size_t i = 0; i < count; i++)
        if (!memory_listener_append(bus->targets[i], message, NULL, bus->next_at++))
            return (struct verdict){CONEY_ENOMEM, 0, "memory is out"};
    return VERDICT_OK;
}

static struct verdict to_topic(struct bus *bus, struct message *message)
{
    struct queue *topic = memory_queue_named(bus, message->to);
    if (topic != NULL)
        return append(bus, topic, message);
    return to_request(bus, message) ? VERDICT_OK : to_patterns(bus, message);
}

/* Names ------------------------------------------------------------------------------------------------------------------- */

static bool begins_with_amq(coney_bytes name)
{
    return name.len >= 4 && memcmp(name.data, "amq.", 4) == 0;
}

/* Of a request, which waits for its reply or has waited. */
static bool is_of_request(coney_bytes name)
{
    const coney_bytes head = CONEY_STR(MEMORY_REPLY_TO);
    return name.len > head.len && memcmp(name.data, head.data, head.len) == 0;
}

static bool counts_as_there(const struct bus *bus, coney_bytes name)
{
    switch (bus->face) {
    case FACE_MEMORY:
        return (bus->options.retain_messages > 0 || bus->options.retain_bytes > 0) && !is_of_request(name);
    case FACE_AMQP:
        return name.len > 0 && !begins_with_amq(name);
    case FACE_STREAM:
        return name.len > 0;
    }
    return false;
}

struct queue *memory_queue_named(struct bus *bus, coney_bytes name)
{
    struct queue *queue = memory_queue_find(bus, name);
    if (queue != NULL || !counts_as_there(bus, name))
        return queue;
    struct queue_terms terms = {.kind = bus->face == FACE_AMQP ? QUEUE_CLASSIC : QUEUE_LOG, .delivery_limit = CONEY_OFF};
    if (bus->face == FACE_MEMORY) {
        terms.max_length = bus->options.retain_messages;
        terms.max_length_bytes = bus->options.retain_bytes;
    }
    queue = memory_queue_new(bus, name, &terms);
    if (queue == NULL)
        return NULL;
    queue->keeps = bus->face != FACE_AMQP;
    queue->implied = true;
    return queue;
}

static struct verdict to_queue(struct bus *bus, struct message *message)
{
    struct queue *queue = memory_queue_named(bus, message->to);
    if (queue != NULL)
        return append(bus, queue, message);
    return to_request(bus, message) ? VERDICT_OK : NO_ROUTE;
}

/* Exchanges ----------------------------------------------------------------------------------------------------------------- */

struct exchange *memory_exchange_find(struct bus *bus, coney_bytes name)
{
    for (struct list *e = bus->exchanges.next; e != &bus->exchanges; e = e->next) {
        struct exchange *exchange = container_of(e, struct exchange, in_bus);
        if (bytes_equal(coney_bytes_str(exchange->name), name))
            return exchange;
    }
    return NULL;
}

static bool binding_takes(const struct exchange *exchange, const struct binding *binding, const struct message *message)
{
    const coney_value null = coney_value_null();
    switch (exchange->kind) {
    case EXCHANGE_DIRECT:
        return bytes_equal(binding->key, message->to);
    case EXCHANGE_TOPIC:
        return memory_key_matches(binding->key, message->to);
    case EXCHANGE_FANOUT:
        return true;
    case EXCHANGE_HEADERS:
        return memory_headers_match(binding->arguments, binding->argument_count,
                                    message->more != NULL ? &message->more->headers : &null);
    }
    return false;
}

/* To each queue that is bound so that it takes the message, once. The worst verdict counts, as a nack does. */
static struct verdict through(struct bus *bus, const struct exchange *exchange, struct message *message, uint64_t stamp)
{
    struct verdict worst = NO_ROUTE;
    for (struct list *b = exchange->bindings.next; b != &exchange->bindings; b = b->next) {
        struct binding *binding = container_of(b, struct binding, in_exchange);
        if (binding->queue->stamp == stamp || !binding_takes(exchange, binding, message))
            continue;
        binding->queue->stamp = stamp;
        struct verdict verdict = append(bus, binding->queue, message);
        if (worst.status == CONEY_ERETURNED || verdict.status != CONEY_OK)
            worst = verdict;
    }
    return worst;
}

static struct verdict to_exchange(struct bus *bus, struct message *message)
{
    uint64_t stamp = ++bus->stamp;
    struct exchange *exchange = memory_exchange_find(bus, message->exchange);
    if (exchange == NULL)
        return (struct verdict){CONEY_EREFUSED, 404, "NOT_FOUND - no such exchange"};
    if (exchange->internal)
        return (struct verdict){CONEY_EREFUSED, 403, "ACCESS_REFUSED - cannot publish to internal exchange"};
    while (exchange != NULL && exchange->stamp != stamp) {
        exchange->stamp = stamp;
        struct verdict verdict = through(bus, exchange, message, stamp);
        if (verdict.status != CONEY_ERETURNED || exchange->alternate == NULL)
            return verdict;
        if (*exchange->alternate == '\0')
            return to_queue(bus, message);
        exchange = memory_exchange_find(bus, coney_bytes_str(exchange->alternate));
    }
    return NO_ROUTE;
}

/* One message ------------------------------------------------------------------------------------------------------------- */

static struct verdict route_one(struct bus *bus, struct message *message)
{
    switch (bus->face) {
    case FACE_MEMORY:
        return to_topic(bus, message);
    case FACE_AMQP:
        if (message->exchange.len > 0)
            return to_exchange(bus, message);
        return to_queue(bus, message);
    case FACE_STREAM:
        return to_queue(bus, message);
    }
    return NO_ROUTE;
}

static void dead_drain(struct bus *bus)
{
    bus->routing = true;
    while (bus->dead != NULL) {
        struct message *dead = bus->dead;
        bus->dead = dead->next;
        if (bus->dead == NULL)
            bus->dead_end = &bus->dead;
        route_one(bus, dead);
        message_unref(&bus->pool, dead);
    }
    bus->routing = false;
}

void memory_route_dead(struct bus *bus, struct message *message)
{
    message->next = NULL;
    *bus->dead_end = message;
    bus->dead_end = &message->next;
    if (!bus->routing)
        dead_drain(bus);
}

struct verdict memory_route(struct bus *bus, struct message *message)
{
    bus->routing = true;
    struct verdict verdict = route_one(bus, message);
    if (__builtin_expect(bus->dead != NULL, 0))
        dead_drain(bus);
    bus->routing = false;
    return verdict;
}
