/* memory_terms.c: see memory_terms.h. */
#include "base/bytes.h"
#include "transport/memory_bus.h"

/* The broker's own limit, and what a declaration leaves beyond max_attempts for what stops and cuts give back. */
enum { DEFAULT_DELIVERY_LIMIT = 20, GIVEN_BACK = 20 };

/* Arguments of queues by their names on the wire. What has no place in the terms changes nothing that is modelled here. */
static const struct argument {
    const char *name;
    enum { ARGUMENT_NUMBER, ARGUMENT_MS, ARGUMENT_TEXT, ARGUMENT_BOOL, ARGUMENT_IGNORED } form;
    size_t at;
} arguments[] = {
    {"x-message-ttl", ARGUMENT_MS, offsetof(struct queue_terms, message_ttl)},
    {"x-expires", ARGUMENT_MS, offsetof(struct queue_terms, expires)},
    {"x-max-length", ARGUMENT_NUMBER, offsetof(struct queue_terms, max_length)},
    {"x-max-length-bytes", ARGUMENT_NUMBER, offsetof(struct queue_terms, max_length_bytes)},
    {"x-max-priority", ARGUMENT_NUMBER, offsetof(struct queue_terms, max_priority)},
    {"x-delivery-limit", ARGUMENT_NUMBER, offsetof(struct queue_terms, delivery_limit)},
    {"x-overflow", ARGUMENT_TEXT, offsetof(struct queue_terms, overflow)},
    {"x-dead-letter-exchange", ARGUMENT_TEXT, offsetof(struct queue_terms, dead_letter_exchange)},
    {"x-dead-letter-routing-key", ARGUMENT_TEXT, offsetof(struct queue_terms, dead_letter_routing_key)},
    {"x-single-active-consumer", ARGUMENT_BOOL, offsetof(struct queue_terms, single_active_consumer)},
    {"x-queue-type", ARGUMENT_IGNORED, 0},
    {"x-queue-mode", ARGUMENT_IGNORED, 0},
    {"x-queue-version", ARGUMENT_IGNORED, 0},
    {"x-queue-leader-locator", ARGUMENT_IGNORED, 0},
    {"x-quorum-initial-group-size", ARGUMENT_IGNORED, 0},
    {"x-initial-cluster-size", ARGUMENT_IGNORED, 0},
    {"x-dead-letter-strategy", ARGUMENT_IGNORED, 0},
    {"x-max-age", ARGUMENT_IGNORED, 0},
    {"x-stream-max-segment-size-bytes", ARGUMENT_IGNORED, 0},
};

static const struct argument *argument_of(coney_bytes name)
{
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        if (bytes_equal(coney_bytes_str(arguments[i].name), name))
            return &arguments[i];
    return NULL;
}

const char *memory_keep_text(coney_app *app, const coney_value *value)
{
    coney_bytes bytes = {0};
    char text[MEMORY_NAME_MAX + 1] = {0};
    if (!coney_value_to_bytes(value, &bytes) || bytes.len > MEMORY_NAME_MAX)
        return NULL;
    memcpy(text, bytes.data, bytes.len);
    return app_copy_text(app, text);
}

static bool set_argument(coney_app *app, struct queue_terms *terms, const struct argument *argument, const coney_value *value)
{
    uint8_t *at = (uint8_t *)terms + argument->at;
    int64_t number = 0;
    const char *text = NULL;
    switch (argument->form) {
    case ARGUMENT_NUMBER:
    case ARGUMENT_MS:
        if (!coney_value_to_i64(value, &number))
            return false;
        if (argument->form == ARGUMENT_MS)
            number *= CONEY_MILLISECOND;
        memcpy(at, &number, sizeof number);
        return true;
    case ARGUMENT_TEXT:
        text = memory_keep_text(app, value);
        memcpy(at, &text, sizeof text);
        return text != NULL;
    case ARGUMENT_BOOL:
        memcpy(at, &value->as.boolean, sizeof value->as.boolean);
        return value->type == CONEY_VALUE_BOOL;
    case ARGUMENT_IGNORED:
        return true;
    }
    return false;
}

coney_status memory_terms_add(struct queue_terms *terms, coney_app *app, const coney_field *fields, size_t count,
                              const char *name, coney_call *call)
{
    for (size_t i = 0; i < count; i++) {
        coney_bytes key = fields[i].key;
        const struct argument *argument = argument_of(key);
        bool is_known = argument != NULL || key.len < 2 || memcmp(key.data, "x-", 2) != 0;
        if (!is_known)
            return memory_fail(call, CONEY_EUNSUPPORTED, 0,
                               "queue '%s': the stand-in for a server does not know the argument '%.*s'", name, (int)key.len,
                               (const char *)key.data);
        if (argument != NULL && !set_argument(app, terms, argument, &fields[i].value))
            return memory_fail(call, CONEY_EPRECONDITION, 406, "queue '%s': invalid arg '%.*s' of type %s", name, (int)key.len,
                               (const char *)key.data, coney_value_type_name(fields[i].value.type));
    }
    return CONEY_OK;
}

static enum queue_kind kind_of(coney_queue_type type)
{
    return type == CONEY_QUEUE_QUORUM ? QUEUE_QUORUM : type == CONEY_QUEUE_STREAM ? QUEUE_LOG : QUEUE_CLASSIC;
}

static int64_t limit_of(coney_queue_type type, int64_t limit)
{
    return limit != 0 ? limit : type == CONEY_QUEUE_QUORUM ? DEFAULT_DELIVERY_LIMIT : CONEY_OFF;
}

/* What a subscription makes of its queue: with max_attempts a quorum queue counts along. */
struct queue_terms memory_terms_of_source(const coney_queue_source *s, const coney_subscription *subscription)
{
    bool counts = s->declare && s->type == CONEY_QUEUE_QUORUM && subscription->max_attempts > 0;
    struct queue_terms terms = {
        .kind = kind_of(s->type),
        .message_ttl = s->message_ttl,
        .expires = s->expires,
        .max_length = s->max_length,
        .max_length_bytes = s->max_length_bytes,
        .max_priority = s->max_priority,
        .delivery_limit =
            counts && s->delivery_limit == 0 ? subscription->max_attempts + GIVEN_BACK : limit_of(s->type, s->delivery_limit),
        .dead_letter_exchange = s->dead_letter_exchange,
        .dead_letter_routing_key = s->dead_letter_routing_key,
        .transient = s->transient,
        .exclusive = s->exclusive,
        .auto_delete = s->auto_delete,
        .single_active_consumer = s->single_active_consumer,
    };
    if (counts && subscription->dead_letter != NULL && terms.dead_letter_exchange == NULL) {
        terms.dead_letter_exchange = "";
        terms.dead_letter_routing_key = subscription->dead_letter;
    }
    return terms;
}

struct queue_terms memory_terms_of_queue(const coney_amqp_queue *q)
{
    return (struct queue_terms){
        .kind = kind_of(q->type),
        .message_ttl = q->message_ttl,
        .expires = q->expires,
        .max_length = q->max_length,
        .max_length_bytes = q->max_length_bytes,
        .max_priority = q->max_priority,
        .delivery_limit = limit_of(q->type, q->delivery_limit),
        .overflow = q->overflow,
        .dead_letter_exchange = q->dead_letter_exchange,
        .dead_letter_routing_key = q->dead_letter_routing_key,
        .transient = q->transient,
        .exclusive = q->exclusive,
        .auto_delete = q->auto_delete,
        .single_active_consumer = q->single_active_consumer,
    };
}

/* What a server refuses whatever there is already: the name of the argument at fault, or NULL. */
const char *memory_terms_invalid(const struct queue_terms *terms)
{
    switch (terms->kind) {
    case QUEUE_CLASSIC:
        return terms->delivery_limit != CONEY_OFF                                       ? "x-delivery-limit"
               : terms->max_priority < 0 || terms->max_priority > 255                   ? "x-max-priority"
               : terms->dead_letter_routing_key != NULL && !terms->dead_letter_exchange ? "x-dead-letter-routing-key"
                                                                                        : NULL;
    case QUEUE_QUORUM:
        return terms->transient                                                         ? "durable"
               : terms->exclusive                                                       ? "exclusive"
               : terms->auto_delete                                                     ? "auto_delete"
               : terms->max_priority != 0                                               ? "x-max-priority"
               : terms->dead_letter_routing_key != NULL && !terms->dead_letter_exchange ? "x-dead-letter-routing-key"
                                                                                        : NULL;
    case QUEUE_LOG:
        return terms->transient                      ? "durable"
               : terms->exclusive                    ? "exclusive"
               : terms->auto_delete                  ? "auto_delete"
               : terms->message_ttl != 0             ? "x-message-ttl"
               : terms->expires != 0                 ? "x-expires"
               : terms->max_length != 0              ? "x-max-length"
               : terms->max_priority != 0            ? "x-max-priority"
               : terms->overflow != NULL             ? "x-overflow"
               : terms->dead_letter_exchange != NULL ? "x-dead-letter-exchange"
               : terms->delivery_limit != CONEY_OFF  ? "x-delivery-limit"
                                                     : NULL;
    }
    return NULL;
}

bool memory_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

const char *memory_terms_difference(const struct queue_terms *a, const struct queue_terms *b)
{
    return a->kind != b->kind                                                          ? "x-queue-type"
           : a->transient != b->transient                                              ? "durable"
           : a->exclusive != b->exclusive                                              ? "exclusive"
           : a->auto_delete != b->auto_delete                                          ? "auto_delete"
           : a->message_ttl != b->message_ttl                                          ? "x-message-ttl"
           : a->expires != b->expires                                                  ? "x-expires"
           : a->max_length != b->max_length                                            ? "x-max-length"
           : a->max_length_bytes != b->max_length_bytes                                ? "x-max-length-bytes"
           : a->max_priority != b->max_priority                                        ? "x-max-priority"
           : a->delivery_limit != b->delivery_limit                                    ? "x-delivery-limit"
           : !memory_same_text(a->overflow, b->overflow)                               ? "x-overflow"
           : !memory_same_text(a->dead_letter_exchange, b->dead_letter_exchange)       ? "x-dead-letter-exchange"
           : !memory_same_text(a->dead_letter_routing_key, b->dead_letter_routing_key) ? "x-dead-letter-routing-key"
           : a->single_active_consumer != b->single_active_consumer                    ? "x-single-active-consumer"
                                                                                       : NULL;
}
