/* memory_declare.c: exchanges, queues, bindings and streams of the broker in memory, and what a server would refuse of them: see memory_bus.h. */
#include "base/bytes.h"
#include "base/text.h"
#include "service/subscription.h"
#include "transport/memory_bus.h"

#include <stdlib.h>

/* Queues ------------------------------------------------------------------------------------------------------------------ */

static struct queue *queue_add(struct bus *bus, const char *name, const struct queue_terms *terms, coney_call *call)
{
    struct queue *queue = memory_queue_new(bus, coney_bytes_str(name), terms);
    if (queue == NULL)
        memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    else
        queue->keeps = terms->kind == QUEUE_LOG;
    return queue;
}

static coney_status refuse_queue(const char *name, const struct queue_terms *terms, coney_call *call)
{
    if (strlen(name) > MEMORY_NAME_MAX)
        return memory_fail(call, CONEY_EINVAL, 0, "a queue's name of %zu bytes: at most 255 are possible", strlen(name));
    const char *invalid = memory_terms_invalid(terms);
    if (invalid != NULL)
        return memory_fail(call, CONEY_EPRECONDITION, 406,
                           "queue '%s': PRECONDITION_FAILED - invalid arg '%s' for a queue of its type", name, invalid);
    if (terms->transient && !terms->exclusive)
        return memory_fail(
            call, CONEY_EBROKER, 541,
            "queue '%s': a server denies queues that are transient and not exclusive: leave out `.transient`, or "
            "set `.exclusive`",
            name);
    return CONEY_OK;
}

/* Declares a queue by this name, or finds it with the same terms. NULL: call->text says why not. */
static struct queue *declare_queue(struct bus *bus, const char *name, const struct queue_terms *terms, coney_call *call)
{
    if (refuse_queue(name, terms, call) != CONEY_OK)
        return NULL;
    struct queue *queue = memory_queue_find(bus, coney_bytes_str(name));
    if (queue == NULL)
        return queue_add(bus, name, terms, call);
    const char *different = memory_terms_difference(&queue->terms, terms);
    bool is_log = queue->terms.kind == QUEUE_LOG;
    if (different != NULL && (!queue->implied || is_log != (terms->kind == QUEUE_LOG))) {
        memory_fail(call, CONEY_EPRECONDITION, 406,
                    "queue '%s': PRECONDITION_FAILED - inequivalent arg '%s': it exists with another value", name, different);
        return NULL;
    }
    queue->terms = *terms;
    queue->implied = false;
    return queue;
}

static bool is_reserved(const char *name)
{
    return strncmp(name, "amq.", 4) == 0;
}

static coney_status declare_described_queue(struct bus *bus, const coney_amqp_queue *q, coney_call *call)
{
    struct queue_terms terms = memory_terms_of_queue(q);
    const char *name = q->name != NULL ? q->name : "";
    if (*name == '\0')
        return memory_fail(call, CONEY_EUNSUPPORTED, 0,
                           "a queue that the server names is of no use to an app that does not read it");
    if (q->passive) {
        if (memory_queue_find(bus, coney_bytes_str(name)) != NULL)
            return CONEY_OK;
        struct queue *queue = queue_add(bus, name, &terms, call);
        if (queue == NULL)
            return CONEY_ENOMEM;
        queue->implied = true;
        return CONEY_OK;
    }
    if (is_reserved(name))
        return memory_fail(call, CONEY_EACCESS, 403,
                           "queue '%s': ACCESS_REFUSED - names that begin with 'amq.' are the server's", name);
    coney_status status = memory_terms_add(&terms, bus->broker->app, q->arguments, q->argument_count, name, call);
    if (status != CONEY_OK)
        return status;
    return declare_queue(bus, name, &terms, call) != NULL ? CONEY_OK : call->status;
}

/* Exchanges --------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum exchange_kind kind;
} exchange_types[] = {
    {"direct", EXCHANGE_DIRECT}, {"topic", EXCHANGE_TOPIC}, {"fanout", EXCHANGE_FANOUT}, {"headers", EXCHANGE_HEADERS}};

static bool exchange_kind_of(const char *type, enum exchange_kind *kind)
{
    const char *wanted = type != NULL && *type != '\0' ? type : "direct";
    for (size_t i = 0; i < sizeof exchange_types / sizeof *exchange_types; i++)
        if (strcmp(exchange_types[i].name, wanted) == 0) {
            *kind = exchange_types[i].kind;
            return true;
        }
    return false;
}

static struct exchange *exchange_add(struct bus *bus, const char *name, enum exchange_kind kind)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL)
        return NULL;
    exchange->name = name;
    exchange->kind = kind;
    list_init(&exchange->in_bus);
    list_init(&exchange->bindings);
    list_append(&bus->exchanges, &exchange->in_bus);
    return exchange;
}

static coney_status server_exchanges(struct bus *bus, coney_call *call)
{
    static const struct {
        const char *name;
        enum exchange_kind kind;
    } ours[] = {{"amq.direct", EXCHANGE_DIRECT},
                {"amq.topic", EXCHANGE_TOPIC},
                {"amq.fanout", EXCHANGE_FANOUT},
                {"amq.headers", EXCHANGE_HEADERS},
                {"amq.match", EXCHANGE_HEADERS}};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (memory_exchange_find(bus, coney_bytes_str(ours[i].name)) == NULL &&
            exchange_add(bus, ours[i].name, ours[i].kind) == NULL)
            return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    return CONEY_OK;
}

static const char *alternate_of(struct bus *bus, const coney_amqp_exchange *x)
{
    for (size_t i = 0; i < x->argument_count; i++)
        if (bytes_equal(x->arguments[i].key, CONEY_STR("alternate-exchange")))
            return memory_keep_text(bus->broker->app, &x->arguments[i].value);
    return x->alternate_exchange;
}

static const char *exchange_difference(const struct exchange *exchange, const coney_amqp_exchange *x, enum exchange_kind kind,
                                       const char *alternate)
{
    return exchange->kind != kind                              ? "type"
           : exchange->transient != x->transient               ? "durable"
           : exchange->auto_delete != x->auto_delete           ? "auto_delete"
           : exchange->internal != x->internal                 ? "internal"
           : !memory_same_text(exchange->alternate, alternate) ? "alternate-exchange"
                                                               : NULL;
}

static coney_status declare_exchange(struct bus *bus, const coney_amqp_exchange *x, coney_call *call)
{
    enum exchange_kind kind;
    const char *name = x->name != NULL ? x->name : "";
    if (strlen(name) > MEMORY_NAME_MAX)
        return memory_fail(call, CONEY_EINVAL, 0, "an exchange's name of %zu bytes: at most 255 are possible", strlen(name));
    if (!exchange_kind_of(x->type, &kind))
        return memory_fail(call, CONEY_EUNSUPPORTED, 0,
                           "exchange '%s': the stand-in for a server knows direct, topic, fanout and headers, not '%s'", name,
                           x->type);
    struct exchange *exchange = memory_exchange_find(bus, coney_bytes_str(name));
    if (x->passive && exchange != NULL)
        return CONEY_OK;
    if (*name == '\0' || (is_reserved(name) && exchange == NULL))
        return memory_fail(call, CONEY_EACCESS, 403, "exchange '%s': ACCESS_REFUSED - the name is the server's", name);
    const char *alternate = alternate_of(bus, x);
    if (exchange != NULL) {
        const char *different = exchange_difference(exchange, x, kind, alternate);
        if (different != NULL && !exchange->implied)
            return memory_fail(call, CONEY_EPRECONDITION, 406,
                               "exchange '%s': PRECONDITION_FAILED - inequivalent arg '%s': it exists with another value", name,
                               different);
    } else {
        exchange = exchange_add(bus, name, kind);
        if (exchange == NULL)
            return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    }
    exchange->kind = kind;
    exchange->alternate = alternate;
    exchange->internal = x->internal;
    exchange->transient = x->transient;
    exchange->auto_delete = x->auto_delete;
    exchange->implied = x->passive;
    return CONEY_OK;
}

void memory_exchanges_free(struct bus *bus)
{
    for (struct list *e = list_take(&bus->exchanges); e != NULL; e = list_take(&bus->exchanges)) {
        struct exchange *exchange = container_of(e, struct exchange, in_bus);
        for (struct list *b = list_take(&exchange->bindings); b != NULL; b = list_take(&exchange->bindings))
            free(container_of(b, struct binding, in_exchange));
        free(exchange);
    }
}

/* Bindings ---------------------------------------------------------------------------------------------------------------- */

static coney_status binding_exchanges(struct bus *bus, const coney_queue_source *source, coney_call *call)
{
    for (const coney_queue_binding *b = source->bindings; b != NULL && b->exchange != NULL; b++) {
        bool is_ours = *b->exchange == '\0' || is_reserved(b->exchange);
        coney_status status = CONEY_OK;
        if (b->type != NULL && !is_ours)
            status = declare_exchange(bus, &(coney_amqp_exchange){.name = b->exchange, .type = b->type}, call);
        if (status != CONEY_OK)
            return status;
    }
    return CONEY_OK;
}

static bool is_bound(const struct exchange *exchange, const struct queue *queue, const coney_queue_binding *b)
{
    for (const struct list *l = exchange->bindings.next; l != &exchange->bindings; l = l->next) {
        const struct binding *binding = container_of(l, struct binding, in_exchange);
        if (binding->queue == queue && binding->arguments == b->arguments && binding->argument_count == b->argument_count &&
            bytes_equal(binding->key, coney_bytes_str(b->key)))
            return true;
    }
    return false;
}

static coney_status bind_one(struct bus *bus, struct queue *queue, const coney_queue_binding *b, coney_call *call)
{
    if (*b->exchange == '\0')
        return memory_fail(
            call, CONEY_EACCESS, 403,
            "queue '%s': ACCESS_REFUSED - nothing can be bound to the default exchange: every queue is, under its name",
            queue->text);
    if (b->key != NULL && strlen(b->key) > MEMORY_NAME_MAX)
        return memory_fail(call, CONEY_EINVAL, 0, "queue '%s': a binding key of %zu bytes: at most 255 are possible",
                           queue->text, strlen(b->key));
    struct exchange *exchange = memory_exchange_find(bus, coney_bytes_str(b->exchange));
    if (exchange == NULL)
        return memory_fail(
            call, CONEY_ENOTFOUND, 404,
            "queue '%s': NOT_FOUND - no exchange '%s': give the binding its type, or declare the exchange (passive "
            "where the server has it)",
            queue->text, b->exchange);
    if (is_bound(exchange, queue, b))
        return CONEY_OK;
    struct binding *binding = calloc(1, sizeof *binding);
    if (binding == NULL)
        return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    *binding = (struct binding){
        .queue = queue, .key = coney_bytes_str(b->key), .arguments = b->arguments, .argument_count = b->argument_count};
    list_init(&binding->in_exchange);
    list_append(&exchange->bindings, &binding->in_exchange);
    return CONEY_OK;
}

static coney_status bind_all(struct bus *bus, struct queue *queue, const coney_queue_source *source, coney_call *call)
{
    for (const coney_queue_binding *b = source->bindings; b != NULL && b->exchange != NULL; b++) {
        coney_status status = bind_one(bus, queue, b, call);
        if (status != CONEY_OK)
            return status;
    }
    return CONEY_OK;
}

/* Sources ----------------------------------------------------------------------------------------------------------------- */

static struct queue *nameless_of(struct bus *bus, const coney_subscription *subscription)
{
    for (struct list *q = bus->queues.next; q != &bus->queues; q = q->next) {
        struct queue *queue = container_of(q, struct queue, in_bus);
        if (queue->owner == subscription)
            return queue;
    }
    return NULL;
}

static struct queue *declare_source(struct bus *bus, const coney_subscription *subscription, coney_call *call)
{
    const coney_queue_source *source = subscription->source.of;
    struct queue_terms terms = memory_terms_of_source(source, subscription);
    bool is_named = source->name != NULL && *source->name != '\0';
    char made[64];
    text_print(made, sizeof made, "amq.gen-%llu", (unsigned long long)(bus->next_name + 1));
    const char *name = is_named ? source->name : made;
    if (is_named && is_reserved(name)) {
        memory_fail(call, CONEY_EACCESS, 403, "queue '%s': ACCESS_REFUSED - names that begin with 'amq.' are the server's",
                    name);
        return NULL;
    }
    if (memory_terms_add(&terms, bus->broker->app, source->arguments, source->argument_count, name, call) != CONEY_OK)
        return NULL;
    struct queue *queue = declare_queue(bus, name, &terms, call);
    if (queue == NULL)
        return NULL;
    if (!is_named) {
        queue->owner = subscription;
        bus->next_name++;
    }
    return bind_all(bus, queue, source, call) == CONEY_OK ? queue : NULL;
}

static struct queue *amqp_source(struct bus *bus, const coney_subscription *subscription, coney_call *call)
{
    const coney_queue_source *source = subscription->source.of;
    const char *name = source->name != NULL ? source->name : "";
    struct queue *queue = *name == '\0' ? nameless_of(bus, subscription) : memory_queue_find(bus, coney_bytes_str(name));
    if (queue != NULL)
        return queue;
    if (source->declare)
        return binding_exchanges(bus, source, call) == CONEY_OK ? declare_source(bus, subscription, call) : NULL;
    struct queue_terms terms = memory_terms_of_source(source, subscription);
    if (*name == '\0') {
        memory_fail(call, CONEY_EINVAL, 0, "a queue that is not declared needs a name");
        return NULL;
    }
    queue = queue_add(bus, name, &terms, call);
    if (queue != NULL)
        queue->implied = true;
    return queue;
}

static struct queue *stream_queue(struct bus *bus, const char *name, int64_t max_bytes, bool declared, coney_call *call)
{
    if (name == NULL || *name == '\0' || strlen(name) > MEMORY_NAME_MAX) {
        memory_fail(call, CONEY_EINVAL, 0, "the name of a stream has 1 to 255 bytes");
        return NULL;
    }
    struct queue_terms terms = {.kind = QUEUE_LOG, .max_length_bytes = max_bytes, .delivery_limit = CONEY_OFF};
    struct queue *queue = memory_queue_find(bus, coney_bytes_str(name));
    if (queue == NULL) {
        queue = queue_add(bus, name, &terms, call);
        if (queue != NULL)
            queue->implied = !declared;
        return queue;
    }
    if (declared && !queue->implied && queue->terms.max_length_bytes != max_bytes) {
        memory_fail(call, CONEY_EPRECONDITION, 5, "stream '%s' exists with other arguments", name);
        return NULL;
    }
    if (declared) {
        queue->terms = terms;
        queue->implied = false;
    }
    return queue;
}

static struct queue *topic_queue(struct bus *bus, const coney_topic_source *source, coney_call *call)
{
    struct queue_terms terms = {.kind = QUEUE_LOG,
                                .max_length = bus->options.retain_messages,
                                .max_length_bytes = bus->options.retain_bytes,
                                .delivery_limit = CONEY_OFF};
    struct queue *queue = memory_queue_find(bus, coney_bytes_str(source->name));
    if (queue == NULL)
        queue = queue_add(bus, source->name, &terms, call);
    if (queue != NULL)
        queue->keeps = terms.max_length > 0 || terms.max_length_bytes > 0;
    return queue;
}

struct queue *memory_source_queue(struct bus *bus, const coney_subscription *subscription, coney_call *call)
{
    const coney_source *source = &subscription->source;
    if (bus->face == FACE_AMQP && source->kind == CONEY_SOURCE_QUEUE)
        return amqp_source(bus, subscription, call);
    if (bus->face == FACE_STREAM && source->kind == CONEY_SOURCE_STREAM) {
        const coney_stream_source *stream = source->of;
        return stream_queue(bus, stream->name, stream->declare ? stream->max_length : 0, false, call);
    }
    if (bus->face == FACE_MEMORY && source->kind == CONEY_SOURCE_TOPIC)
        return topic_queue(bus, source->of, call);
    memory_fail(call, CONEY_EINVAL, 0, "the source is none of this broker");
    return NULL;
}

/* The start --------------------------------------------------------------------------------------------------------------- */

static coney_status declare_exchanges(struct bus *bus, coney_call *call)
{
    coney_status status = server_exchanges(bus, call);
    for (const struct declaration *d = bus->broker->declarations; d != NULL && status == CONEY_OK; d = d->next)
        if (d->what == DECLARE_EXCHANGE)
            status = declare_exchange(bus, &d->as.exchange, call);
    return status;
}

static coney_status declare_described(struct bus *bus, const struct declaration *d, coney_call *call)
{
    switch (d->what) {
    case DECLARE_EXCHANGE:
        return CONEY_OK;
    case DECLARE_QUEUE:
        return declare_described_queue(bus, &d->as.queue, call);
    case DECLARE_STREAM:
        return stream_queue(bus, d->stream, d->as.spec.max_length, true, call) != NULL ? CONEY_OK : call->status;
    }
    return CONEY_EINVAL;
}

static coney_status declare_subscription(struct bus *bus, const coney_subscription *subscription, coney_call *call)
{
    const coney_source *source = &subscription->source;
    if (bus->face == FACE_STREAM && source->kind == CONEY_SOURCE_STREAM) {
        const coney_stream_source *stream = source->of;
        return stream_queue(bus, stream->name, stream->max_length, stream->declare, call) != NULL ? CONEY_OK : call->status;
    }
    if (bus->face != FACE_AMQP || source->kind != CONEY_SOURCE_QUEUE)
        return CONEY_OK;
    const coney_queue_source *queue = source->of;
    if (!queue->declare)
        return amqp_source(bus, subscription, call) != NULL ? CONEY_OK : call->status;
    coney_status status = binding_exchanges(bus, queue, call);
    if (status != CONEY_OK)
        return status;
    return declare_source(bus, subscription, call) != NULL ? CONEY_OK : call->status;
}

/* Queues without `.declare` last: another source may declare them. */
static bool is_declared(const coney_subscription *subscription)
{
    const coney_source *source = &subscription->source;
    return source->kind == CONEY_SOURCE_QUEUE    ? ((const coney_queue_source *)source->of)->declare
           : source->kind == CONEY_SOURCE_STREAM ? ((const coney_stream_source *)source->of)->declare
                                                 : false;
}

static coney_status declare_all(struct bus *bus, coney_call *call)
{
    coney_status status = bus->face == FACE_AMQP ? declare_exchanges(bus, call) : CONEY_OK;
    for (const struct declaration *d = bus->broker->declarations; d != NULL && status == CONEY_OK; d = d->next)
        status = declare_described(bus, d, call);
    for (int declared = 1; declared >= 0 && status == CONEY_OK; declared--)
        for (const struct subscription *s = bus->broker->subscriptions; s != NULL && status == CONEY_OK; s = s->next)
            if (is_declared(&s->options) == (declared == 1))
                status = declare_subscription(bus, &s->options, call);
    return status;
}

coney_status memory_declare(void *self, coney_call *call)
{
    struct bus *bus = self;
    if (bus->face == FACE_MEMORY)
        return CONEY_OK;
    lock_acquire(&bus->lock);
    coney_status status = declare_all(bus, call);
    lock_release(&bus->lock);
    return status;
}
