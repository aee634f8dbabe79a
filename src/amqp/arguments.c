/* arguments.c: one table says for each field of a queue which argument it is, its unit, its range and the types of queues that have it. */
#include "amqp/arguments.h"

#include "base/bytes.h"
#include "base/text.h"
#include "core/call.h"
#include "proto/amqp091/table.h"

#define ROOM(array) (sizeof(array) / sizeof((array)[0]))

/* Of queues, as bits of coney_queue_type. DEFAULT is whatever the virtual host makes of it. */
enum {
    DEFAULT = 1 << CONEY_QUEUE_DEFAULT,
    CLASSIC = 1 << CONEY_QUEUE_CLASSIC,
    QUORUM = 1 << CONEY_QUEUE_QUORUM,
    STREAM = 1 << CONEY_QUEUE_STREAM,
    NO_STREAM = DEFAULT | CLASSIC | QUORUM,
    ANY = NO_STREAM | STREAM,
};

static const char *const type_names[] = {
    [CONEY_QUEUE_DEFAULT] = "default",
    [CONEY_QUEUE_CLASSIC] = "classic",
    [CONEY_QUEUE_QUORUM] = "quorum",
    [CONEY_QUEUE_STREAM] = "stream",
};

enum form {
    NUMBER,
    NUMBER_OR_OFF, /* CONEY_OFF is -1 on the wire, too */
    MILLISECONDS,  /* given in nanoseconds */
    SECONDS_TEXT,  /* given in nanoseconds; "604800s" */
    TEXT,
    FLAG,
    PROPERTY, /* a flag of the method: no argument, but not for every type */
};

/* clang-format off */
#define RULE(field, argument, ...) {#field, argument, offsetof(coney_amqp_queue, field), __VA_ARGS__}
/* clang-format on */

static const struct rule {
    const char *field;
    const char *argument;
    size_t offset; /* in coney_amqp_queue */
    enum form form;
    unsigned types;
    int64_t most;
} rules[] = {
    RULE(message_ttl, "x-message-ttl", MILLISECONDS, NO_STREAM, UINT32_MAX),
    RULE(expires, "x-expires", MILLISECONDS, NO_STREAM, UINT32_MAX),
    RULE(max_length, "x-max-length", NUMBER, NO_STREAM, INT64_MAX),
    RULE(max_length_bytes, "x-max-length-bytes", NUMBER, ANY, INT64_MAX),
    RULE(overflow, "x-overflow", TEXT, NO_STREAM, 0),
    RULE(dead_letter_exchange, "x-dead-letter-exchange", TEXT, NO_STREAM, 0),
    RULE(dead_letter_routing_key, "x-dead-letter-routing-key", TEXT, NO_STREAM, 0),
    RULE(dead_letter_strategy, "x-dead-letter-strategy", TEXT, DEFAULT | QUORUM, 0),
    RULE(max_priority, "x-max-priority", NUMBER, DEFAULT | CLASSIC, 255),
    RULE(delivery_limit, "x-delivery-limit", NUMBER_OR_OFF, DEFAULT | QUORUM, INT64_MAX),
    RULE(initial_group_size, "x-quorum-initial-group-size", NUMBER, QUORUM, INT64_MAX),
    RULE(initial_group_size, "x-initial-cluster-size", NUMBER, STREAM, INT64_MAX),
    RULE(leader_locator, "x-queue-leader-locator", TEXT, ANY, 0),
    RULE(max_age, "x-max-age", SECONDS_TEXT, DEFAULT | STREAM, INT64_MAX),
    RULE(max_segment_size, "x-stream-max-segment-size-bytes", NUMBER, DEFAULT | STREAM, INT64_C(3000000000)),
    RULE(single_active_consumer, "x-single-active-consumer", FLAG, NO_STREAM, 0),
    RULE(transient, NULL, PROPERTY, DEFAULT | CLASSIC, 0),
    RULE(exclusive, NULL, PROPERTY, DEFAULT | CLASSIC, 0),
    RULE(auto_delete, NULL, PROPERTY, DEFAULT | CLASSIC, 0),
};

static const void *member_of(const coney_amqp_queue *queue, const struct rule *rule)
{
    return (const uint8_t *)queue + rule->offset;
}

static int64_t number_of(const coney_amqp_queue *queue, const struct rule *rule)
{
    int64_t number;
    memcpy(&number, member_of(queue, rule), sizeof number);
    return number;
}

static const char *text_of(const coney_amqp_queue *queue, const struct rule *rule)
{
    const char *text;
    memcpy(&text, member_of(queue, rule), sizeof text);
    return text;
}

static bool flag_of(const coney_amqp_queue *queue, const struct rule *rule)
{
    return *(const bool *)member_of(queue, rule);
}

static bool is_set(const coney_amqp_queue *queue, const struct rule *rule)
{
    switch (rule->form) {
    case NUMBER:
    case NUMBER_OR_OFF:
    case MILLISECONDS:
    case SECONDS_TEXT:
        return number_of(queue, rule) != 0;
    case TEXT:
        return text_of(queue, rule) != NULL;
    case FLAG:
    case PROPERTY:
        return flag_of(queue, rule);
    }
    return false;
}

/* A field may be one argument of this type of queue and another of that. */
static bool field_fits(const char *field, coney_queue_type type)
{
    for (size_t i = 0; i < ROOM(rules); i++)
        if (strcmp(rules[i].field, field) == 0 && (rules[i].types & 1u << type) != 0)
            return true;
    return false;
}

static void list_types(unsigned types, char *text, size_t cap)
{
    text[0] = '\0';
    for (size_t i = CONEY_QUEUE_CLASSIC; i < ROOM(type_names); i++)
        if ((types & 1u << i) != 0)
            text_append(text, cap, "%s%s", text[0] == '\0' ? "" : " or ", type_names[i]);
}

static coney_status refuse_misfit(const struct rule *rule, coney_queue_type type, coney_call *call)
{
    unsigned types = 0;
    char names[64];
    for (size_t i = 0; i < ROOM(rules); i++)
        if (strcmp(rules[i].field, rule->field) == 0)
            types |= rules[i].types;
    list_types(types, names, sizeof names);
    return op_refuse(call, CONEY_EINVAL, "%s is set, which a queue of the %s type does not have: it is for a %s queue",
                     rule->field, type_names[type], names);
}

static int64_t unit_of(enum form form)
{
    return form == MILLISECONDS ? CONEY_MILLISECOND : form == SECONDS_TEXT ? CONEY_SECOND : 1;
}

static coney_status number_check(const struct rule *rule, int64_t number, coney_call *call)
{
    int64_t unit = unit_of(rule->form);
    if (rule->form == NUMBER_OR_OFF && number == CONEY_OFF)
        return CONEY_OK;
    if (number < 0)
        return op_refuse(call, CONEY_EINVAL, "%s is negative: %lld", rule->field, (long long)number);
    if (number % unit != 0)
        return op_refuse(call, CONEY_EINVAL, "%s is %lld ns: the broker counts whole %s", rule->field, (long long)number,
                         unit == CONEY_SECOND ? "seconds" : "milliseconds");
    if (number / unit > rule->most)
        return op_refuse(call, CONEY_EINVAL, "%s is %lld%s: the broker takes at most %lld%s", rule->field,
                         (long long)(number / unit), unit == 1 ? "" : " ms", (long long)rule->most, unit == 1 ? "" : " ms");
    return CONEY_OK;
}

static void add(struct arguments *arguments, const char *key, coney_value value)
{
    arguments->typed[arguments->typed_count++] = (coney_field){coney_bytes_str(key), value};
}

static void add_text(struct arguments *arguments, const char *key, const char *text)
{
    add(arguments, key, coney_value_string(coney_bytes_str(text)));
}

static coney_status add_number(struct arguments *arguments, const struct rule *rule, int64_t number, coney_call *call)
{
    coney_status status = number_check(rule, number, call);
    if (status != CONEY_OK)
        return status;
    number /= unit_of(rule->form);
    if (rule->form != SECONDS_TEXT) {
        add(arguments, rule->argument, coney_value_i64(number));
        return CONEY_OK;
    }
    text_print(arguments->max_age, sizeof arguments->max_age, "%llds", (long long)number);
    add_text(arguments, rule->argument, arguments->max_age);
    return CONEY_OK;
}

static coney_status add_field(struct arguments *arguments, const coney_amqp_queue *queue, const struct rule *rule,
                              coney_call *call)
{
    switch (rule->form) {
    case NUMBER:
    case NUMBER_OR_OFF:
    case MILLISECONDS:
    case SECONDS_TEXT:
        return add_number(arguments, rule, number_of(queue, rule), call);
    case TEXT:
        add_text(arguments, rule->argument, text_of(queue, rule));
        return CONEY_OK;
    case FLAG:
        add(arguments, rule->argument, coney_value_bool(true));
        return CONEY_OK;
    case PROPERTY:
        return CONEY_OK;
    }
    return CONEY_OK;
}

/* All of them -------------------------------------------------------------------------------------------------------- */

static size_t count_of(const struct arguments *arguments)
{
    return arguments->typed_count + arguments->further_count;
}

static const coney_field *field_at(const struct arguments *arguments, size_t i)
{
    return i < arguments->typed_count ? &arguments->typed[i] : &arguments->further[i - arguments->typed_count];
}

static bool given_before(const struct arguments *arguments, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (bytes_equal(field_at(arguments, i)->key, field_at(arguments, at)->key))
            return true;
    return false;
}

/* Takes the user's own in and measures them all. */
static coney_status add_further(struct arguments *arguments, const coney_field *further, size_t count, coney_call *call)
{
    if (count > 0 && further == NULL)
        return op_refuse(call, CONEY_EINVAL, "argument_count is %zu, but arguments is NULL", count);
    arguments->further = further;
    arguments->further_count = count;
    for (size_t i = 0; i < count_of(arguments); i++) {
        const coney_field *field = field_at(arguments, i);
        const char *fault;
        size_t size;
        char key[64];
        coney_status status = amqp_table_size(field, 1, &size, &fault);
        text_from_wire(key, sizeof key, field->key);
        if (status != CONEY_OK)
            return op_refuse(call, CONEY_EINVAL, "the argument '%s' cannot be sent: its %s is not one that a table can hold",
                             key, fault != NULL ? fault : "size");
        if (i >= arguments->typed_count && given_before(arguments, i))
            return op_refuse(call, CONEY_EINVAL, "the argument '%s' is given twice", key);
        arguments->size += size;
    }
    return CONEY_OK;
}

coney_status arguments_of_exchange(struct arguments *arguments, const coney_amqp_exchange *exchange, coney_call *call)
{
    *arguments = (struct arguments){0};
    if (exchange->alternate_exchange != NULL)
        add_text(arguments, "alternate-exchange", exchange->alternate_exchange);
    return add_further(arguments, exchange->arguments, exchange->argument_count, call);
}

coney_status arguments_of_queue(struct arguments *arguments, const coney_amqp_queue *queue, coney_call *call)
{
    *arguments = (struct arguments){0};
    if ((unsigned)queue->type >= ROOM(type_names))
        return op_refuse(call, CONEY_EINVAL, "type is %d, which is no type of a queue", (int)queue->type);
    if (queue->type != CONEY_QUEUE_DEFAULT)
        add_text(arguments, "x-queue-type", type_names[queue->type]);
    for (size_t i = 0; i < ROOM(rules); i++) {
        const struct rule *rule = &rules[i];
        if (!is_set(queue, rule))
            continue;
        if (!field_fits(rule->field, queue->type))
            return refuse_misfit(rule, queue->type, call);
        if ((rule->types & 1u << queue->type) == 0)
            continue;
        coney_status status = add_field(arguments, queue, rule, call);
        if (status != CONEY_OK)
            return status;
    }
    return add_further(arguments, queue->arguments, queue->argument_count, call);
}

coney_status arguments_of_binding(struct arguments *arguments, const coney_amqp_binding *binding, coney_call *call)
{
    *arguments = (struct arguments){0};
    return add_further(arguments, binding->arguments, binding->argument_count, call);
}

static int key_order(coney_bytes a, coney_bytes b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* The field with the least key above `last` (NULL: of all); NULL: there is none. */
static const coney_field *next_field(const struct arguments *arguments, const coney_field *last)
{
    const coney_field *next = NULL;
    for (size_t i = 0; i < count_of(arguments); i++) {
        const coney_field *field = field_at(arguments, i);
        if (last != NULL && key_order(field->key, last->key) <= 0)
            continue;
        if (next == NULL || key_order(field->key, next->key) < 0)
            next = field;
    }
    return next;
}

coney_value arguments_write(const struct arguments *arguments, uint8_t *entries)
{
    uint8_t *at = entries;
    if (count_of(arguments) == 0)
        return coney_value_null();
    for (const coney_field *field = next_field(arguments, NULL); field != NULL; field = next_field(arguments, field))
        at = amqp_table_write(at, field, 1);
    return amqp_table_value(entries, arguments->size, count_of(arguments));
}
