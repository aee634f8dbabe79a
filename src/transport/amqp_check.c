/* amqp_check.c: what the broker would refuse, or what cannot be meant, found before anything is connected. */
#include "transport/amqp.h"

#include "base/text.h"
#include "base/uri.h"

#include <string.h>

/* The longest end of a name that is made from a queue's: ".wait." and a delay. */
enum { DELAY_SUFFIX = sizeof ".wait.4294967295" - 1 };

/* What the client asks for when a source says nothing. */
enum { DEFAULT_PREFETCH = 256 };

/* Names ------------------------------------------------------------------------------------------------------------------ */

static void check_name(struct mistakes *mistakes, const char *field, const char *name, size_t most)
{
    if (name == NULL)
        return;
    size_t len = strlen(name);
    if (len > most)
        mistake(mistakes, field, "'%.40s…' is %zu bytes long; at most %zu are possible", name, len, most);
    else if (!text_is_utf8(name))
        mistake(mistakes, field, "is not UTF-8");
    else if (strpbrk(name, "\r\n") != NULL)
        mistake(mistakes, field, "has a line end in it");
}

static bool is_reserved(const char *name)
{
    return name != NULL && strncmp(name, "amq.", 4) == 0;
}

static void check_number(struct mistakes *mistakes, const char *field, int64_t number, int64_t least, int64_t most)
{
    if (number < least || number > most)
        mistake(mistakes, field, "is %lld; it may be %lld to %lld", (long long)number, (long long)least, (long long)most);
}

/* What a queue is told in milliseconds. */
static void check_duration(struct mistakes *mistakes, const char *field, int64_t ns)
{
    if (ns < 0 || ns / CONEY_MILLISECOND > UINT32_MAX || ns % CONEY_MILLISECOND != 0)
        mistake(mistakes, field, "is %lld ns; whole milliseconds are possible, at most %lld of them", (long long)ns,
                (long long)UINT32_MAX);
}

/* Brokers ---------------------------------------------------------------------------------------------------------------- */

static void check_uri(struct mistakes *mistakes, const char *text)
{
    struct uri uri;
    char error[256];
    if (uri_parse(text, "localhost", &uri, error, sizeof error) != CONEY_OK) {
        mistake(mistakes, "uri", "%s", error);
        return;
    }
    if (strcmp(uri.scheme, "amqp") != 0 && strcmp(uri.scheme, "amqps") != 0)
        mistake(mistakes, "uri", "begins with '%s://'; queues are read over amqp:// or amqps://, streams with coney_app_stream",
                uri.scheme);
    uri_free(&uri);
}

static void check_declaration(struct mistakes *mistakes, const struct declaration *declaration)
{
    const char *name = NULL;
    switch (declaration->what) {
    case DECLARE_EXCHANGE:
        name = declaration->as.exchange.name;
        check_name(mistakes, "declare_exchange", name, TAMQP_NAME_MAX);
        break;
    case DECLARE_QUEUE:
        name = declaration->as.queue.name;
        check_name(mistakes, "declare_queue", name, TAMQP_NAME_MAX);
        break;
    case DECLARE_STREAM:
        mistake(mistakes, "declare_stream",
                "'%s': a stream over AMQP is a queue: coney_declare_queue with .type = CONEY_QUEUE_STREAM",
                declaration->stream);
        return;
    }
    const char *field = declaration->what == DECLARE_QUEUE ? "declare_queue" : "declare_exchange";
    bool passive = declaration->what == DECLARE_QUEUE ? declaration->as.queue.passive : declaration->as.exchange.passive;
    if (name == NULL || name[0] == '\0')
        mistake(mistakes, field, "has no name");
    else if (is_reserved(name) && !passive)
        mistake(mistakes, field, "'%s': names that begin with 'amq.' are the broker's; check it with .passive", name);
}

void tamqp_check_broker(void *self, struct mistakes *mistakes)
{
    const struct tamqp *t = self;
    if (t->newer_options)
        mistake(mistakes, "options", NEWER_TEXT);
    if (t->uri != NULL)
        check_uri(mistakes, t->uri);
    if (t->options.loop != NULL)
        mistake(mistakes, "loop", "is set; a service has threads of its own");
    if (t->options.on_log != NULL)
        mistake(mistakes, "on_log", "is set; the log is the app's: coney_app_configure");
    for (const struct declaration *at = t->broker != NULL ? t->broker->declarations : NULL; at != NULL; at = at->next)
        check_declaration(mistakes, at);
}

/* Queues ----------------------------------------------------------------------------------------------------------------- */

/* What only some types of queues can have. */
struct ability {
    const char *field;
    bool is_asked;
    bool by_classic;
    bool by_quorum;
    bool by_stream;
};

static const char *type_name(coney_queue_type type)
{
    static const char *const names[] = {"a queue of the default type", "a classic queue", "a quorum queue", "a stream queue"};
    return names[type];
}

static bool is_able(const struct ability *ability, coney_queue_type type)
{
    switch (type) {
    case CONEY_QUEUE_DEFAULT:
        break;
    case CONEY_QUEUE_CLASSIC:
        return ability->by_classic;
    case CONEY_QUEUE_QUORUM:
        return ability->by_quorum;
    case CONEY_QUEUE_STREAM:
        return ability->by_stream;
    }
    return true;
}

static void check_abilities(const coney_queue_source *s, struct mistakes *mistakes)
{
    const struct ability abilities[] = {
        {"transient", s->transient, true, false, false},
        {"exclusive", s->exclusive, true, false, false},
        {"auto_delete", s->auto_delete, true, false, false},
        {"max_priority", s->max_priority != 0, true, false, false},
        {"delivery_limit", s->delivery_limit != 0, false, true, false},
        {"message_ttl", s->message_ttl != 0, true, true, false},
        {"expires", s->expires != 0, true, true, false},
        {"max_length", s->max_length != 0, true, true, false},
        {"dead_letter_exchange", s->dead_letter_exchange != NULL, true, true, false},
        {"dead_letter_routing_key", s->dead_letter_routing_key != NULL, true, true, false},
        {"single_active_consumer", s->single_active_consumer, true, true, false},
        {"exclusive_consumer", s->exclusive_consumer, true, true, false},
        {"delay", s->delay != CONEY_DELAY_HELD, true, true, false},
        {"start", s->start != CONEY_STREAM_NEXT, false, false, true},
    };
    for (size_t i = 0; i < sizeof abilities / sizeof *abilities; i++)
        if (abilities[i].is_asked && !is_able(&abilities[i], s->type))
            mistake(mistakes, abilities[i].field, "is set; %s has no such thing", type_name(s->type));
}

/* What is said of a queue that somebody else declares would be without effect. */
static void check_undeclared(const coney_queue_source *s, struct mistakes *mistakes)
{
    const struct {
        const char *field;
        bool is_set;
    } settings[] = {
        {"bindings", s->bindings != NULL && s->bindings[0].exchange != NULL},
        {"dead_letter_exchange", s->dead_letter_exchange != NULL},
        {"dead_letter_routing_key", s->dead_letter_routing_key != NULL},
        {"delivery_limit", s->delivery_limit != 0},
        {"message_ttl", s->message_ttl != 0},
        {"expires", s->expires != 0},
        {"max_length", s->max_length != 0},
        {"max_length_bytes", s->max_length_bytes != 0},
        {"max_priority", s->max_priority != 0},
        {"arguments", s->argument_count != 0},
        {"transient", s->transient},
        {"exclusive", s->exclusive},
        {"auto_delete", s->auto_delete},
        {"single_active_consumer", s->single_active_consumer},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (settings[i].is_set)
            mistake(mistakes, settings[i].field, "is set, but the queue is not declared: set .declare, or leave it out");
}

static void check_bindings(const coney_queue_source *s, struct mistakes *mistakes)
{
    for (const coney_queue_binding *at = s->bindings; at != NULL && at->exchange != NULL; at++) {
        if (at->exchange[0] == '\0')
            mistake(mistakes, "bindings", "one is to the default exchange, to which every queue is bound by its name already");
        check_name(mistakes, "bindings", at->exchange, TAMQP_NAME_MAX);
        check_name(mistakes, "bindings", at->key, TAMQP_NAME_MAX);
        check_name(mistakes, "bindings", at->type, TAMQP_NAME_MAX);
        if (at->argument_count > 0 && at->arguments == NULL)
            mistake(mistakes, "bindings", "argument_count is %zu, but arguments is NULL", at->argument_count);
    }
}

static void check_numbers(const coney_queue_source *s, struct mistakes *mistakes)
{
    check_number(mistakes, "prefetch", s->prefetch, CONEY_OFF, UINT16_MAX);
    if (s->prefetch == CONEY_OFF && s->type == CONEY_QUEUE_STREAM)
        mistake(mistakes, "prefetch", "is CONEY_OFF; a stream queue is not read without one");
    check_number(mistakes, "delivery_limit", s->delivery_limit, CONEY_OFF, INT64_MAX);
    check_duration(mistakes, "message_ttl", s->message_ttl);
    check_duration(mistakes, "expires", s->expires);
    check_number(mistakes, "max_length", s->max_length, 0, INT64_MAX);
    check_number(mistakes, "max_length_bytes", s->max_length_bytes, 0, INT64_MAX);
    check_number(mistakes, "max_priority", s->max_priority, 0, 255);
}

/* The broker sends no more than the prefetch before something is settled, and of a batch nothing is before it is closed. */
static void check_batch(const coney_queue_source *s, const coney_subscription *subscription, struct mistakes *mistakes)
{
    int64_t prefetch = s->prefetch != 0 ? s->prefetch : DEFAULT_PREFETCH;
    if (subscription->batch_wait == CONEY_OFF && prefetch > 0 && subscription->batch > prefetch)
        mistake(mistakes, "batch_wait", "is CONEY_OFF: with a prefetch of %lld a batch of %lld would never be full",
                (long long)prefetch, (long long)subscription->batch);
}

static void check_queue_name(const coney_queue_source *s, struct mistakes *mistakes)
{
    size_t most = s->delay == CONEY_DELAY_HELD ? TAMQP_NAME_MAX : TAMQP_NAME_MAX - DELAY_SUFFIX;
    bool is_named = s->name != NULL && s->name[0] != '\0';
    if (is_named) {
        check_name(mistakes, "source", s->name, most);
        if (s->declare && is_reserved(s->name))
            mistake(mistakes, "source", "'%s': names that begin with 'amq.' are the broker's; leave .declare out", s->name);
        return;
    }
    if (!s->declare)
        mistake(mistakes, "source", "has no name; only with .declare the broker makes one");
    if (s->type == CONEY_QUEUE_QUORUM || s->type == CONEY_QUEUE_STREAM)
        mistake(mistakes, "type", "%s that the broker names is not possible: it is exclusive, so it is classic",
                type_name(s->type));
    if (s->delay != CONEY_DELAY_HELD)
        mistake(mistakes, "delay", "a queue that the broker names has no other to wait in: CONEY_DELAY_HELD");
}

static void check_attempts(const coney_queue_source *s, const coney_subscription *subscription, struct mistakes *mistakes)
{
    if (subscription->max_attempts > 0 && s->type == CONEY_QUEUE_STREAM)
        mistake(mistakes, "max_attempts", "is %lld; a stream queue counts nothing and takes nothing back",
                (long long)subscription->max_attempts);
    else if (subscription->no_retry_copies && subscription->max_attempts > 0 && s->type != CONEY_QUEUE_QUORUM)
        mistake(mistakes, "no_retry_copies",
                "is set; %s does not count deliveries, so every retry is a copy: use a quorum queue", type_name(s->type));
    bool limited = s->delivery_limit > 0 && subscription->max_attempts > 0;
    if (limited && s->delivery_limit < subscription->max_attempts - 1)
        mistake(mistakes, "delivery_limit", "is %lld; the broker would end a message before its %lld attempts (max_attempts)",
                (long long)s->delivery_limit, (long long)subscription->max_attempts);
    check_name(mistakes, "dead_letter", subscription->dead_letter, TAMQP_NAME_MAX);
}

void tamqp_check_source(void *self, const coney_subscription *subscription, struct mistakes *mistakes)
{
    (void)self;
    if (subscription->source.kind != CONEY_SOURCE_QUEUE || subscription->source.of == NULL) {
        mistake(mistakes, "source", "a broker over AMQP has queues: .source = CONEY_QUEUE(\"name\")");
        return;
    }
    const coney_queue_source *s = tamqp_source(subscription);
    if (s->type < CONEY_QUEUE_DEFAULT || s->type > CONEY_QUEUE_STREAM) {
        mistake(mistakes, "type", "is %d, which is no CONEY_QUEUE_ constant", (int)s->type);
        return;
    }
    if (s->delay < CONEY_DELAY_HELD || s->delay > CONEY_DELAY_PLUGIN)
        mistake(mistakes, "delay", "is %d, which is no CONEY_DELAY_ constant", (int)s->delay);
    if (s->start < CONEY_STREAM_NEXT || s->start > CONEY_STREAM_TIMESTAMP)
        mistake(mistakes, "start", "is %d, which is no CONEY_STREAM_ constant", (int)s->start);
    check_queue_name(s, mistakes);
    check_numbers(s, mistakes);
    check_bindings(s, mistakes);
    check_name(mistakes, "dead_letter_exchange", s->dead_letter_exchange, TAMQP_NAME_MAX);
    check_name(mistakes, "dead_letter_routing_key", s->dead_letter_routing_key, TAMQP_NAME_MAX);
    check_attempts(s, subscription, mistakes);
    check_batch(s, subscription, mistakes);
    check_abilities(s, mistakes);
    if (!s->declare)
        check_undeclared(s, mistakes);
}

/* Publishers ------------------------------------------------------------------------------------------------------------- */

void tamqp_check_publisher(void *self, const coney_publisher_options *options, struct mistakes *mistakes)
{
    (void)self;
    check_name(mistakes, "exchange", options->exchange, TAMQP_NAME_MAX);
    if (options->expiration < 0)
        mistake(mistakes, "expiration", "is negative");
}
