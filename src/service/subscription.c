/* subscription.c: a subscription's description: deep copies, defaults, what is resolved at the start. */
#include "service/subscription.h"

/* Copies ------------------------------------------------------------------------------------------------------------------ */

static const coney_queue_binding *copy_bindings(struct copier to, const coney_queue_binding *bindings)
{
    size_t count = 0;
    while (bindings[count].exchange != NULL)
        count++;
    coney_queue_binding *copies = copier_bytes(to, bindings, (count + 1) * sizeof *bindings);
    for (size_t i = 0; copies != NULL && i < count; i++) {
        coney_queue_binding *binding = &copies[i];
        binding->exchange = copier_text(to, binding->exchange);
        binding->key = copier_text(to, binding->key);
        binding->type = copier_text(to, binding->type);
        binding->arguments = copier_fields(to, binding->arguments, binding->argument_count);
    }
    return copies;
}

static void copy_queue(struct copier to, coney_queue_source *queue)
{
    queue->name = copier_text(to, queue->name);
    queue->dead_letter_exchange = copier_text(to, queue->dead_letter_exchange);
    queue->dead_letter_routing_key = copier_text(to, queue->dead_letter_routing_key);
    queue->arguments = copier_fields(to, queue->arguments, queue->argument_count);
    queue->consume_arguments = copier_fields(to, queue->consume_arguments, queue->consume_argument_count);
    if (queue->bindings != NULL)
        queue->bindings = copy_bindings(to, queue->bindings);
}

static void copy_stream(struct copier to, coney_stream_source *stream)
{
    stream->name = copier_text(to, stream->name);
    stream->consumer = copier_text(to, stream->consumer);
}

static void copy_topic(struct copier to, coney_topic_source *topic)
{
    topic->name = copier_text(to, topic->name);
}

/* What a source of this kind points to has so many bytes; 0: there is no such kind. */
static size_t source_size(coney_source_kind kind)
{
    switch (kind) {
    case CONEY_SOURCE_NONE:
        return 0;
    case CONEY_SOURCE_QUEUE:
        return sizeof(coney_queue_source);
    case CONEY_SOURCE_STREAM:
        return sizeof(coney_stream_source);
    case CONEY_SOURCE_TOPIC:
        return sizeof(coney_topic_source);
    }
    return 0;
}

/* False: it has members that this library does not know. A source of no kind is left for the check. */
static bool copy_source(struct copier to, coney_source *source)
{
    size_t size = source_size(source->kind);
    if (size == 0 || source->of == NULL)
        return true;
    void *copy = copier_bytes(to, NULL, size);
    if (copy == NULL)
        return true;
    bool known = app_take_options(copy, size, source->of, source->size);
    *source = coney_source_of(source->kind, copy, size);
    if (source->kind == CONEY_SOURCE_QUEUE)
        copy_queue(to, copy);
    else if (source->kind == CONEY_SOURCE_STREAM)
        copy_stream(to, copy);
    else
        copy_topic(to, copy);
    return known;
}

bool subscription_copy(struct copier to, coney_subscription *copy, const coney_subscription *from, size_t size)
{
    bool known = app_take_options(copy, sizeof *copy, from, size);
    known = copy_source(to, &copy->source) && known;
    copy->name = copier_text(to, copy->name);
    copy->handler.name = copier_text(to, copy->handler.name);
    copy->dead_letter = copier_text(to, copy->dead_letter);
    copy->key_header = copier_text(to, copy->key_header);
    return known;
}

/* Its place in the app ---------------------------------------------------------------------------------------------------- */

static const char *source_name(const coney_source *source)
{
    if (source->of == NULL || source_size(source->kind) == 0)
        return NULL;
    if (source->kind == CONEY_SOURCE_QUEUE)
        return ((const coney_queue_source *)source->of)->name;
    if (source->kind == CONEY_SOURCE_STREAM)
        return ((const coney_stream_source *)source->of)->name;
    return ((const coney_topic_source *)source->of)->name;
}

static bool is_given(const char *name)
{
    return name != NULL && *name != '\0';
}

/* Its own, the source's, or that of the handler, for a queue that the broker names. Never NULL. */
static const char *name_of(const coney_subscription *options)
{
    if (options->name != NULL)
        return options->name;
    const char *name = source_name(&options->source);
    if (is_given(name))
        return name;
    return options->handler.name != NULL ? options->handler.name : "";
}

static void fill_in(coney_subscription *options)
{
    if (options->on_undecodable == CONEY_POLICY_DEFAULT)
        options->on_undecodable = CONEY_POLICY_REJECT;
    if (options->on_failure == CONEY_POLICY_DEFAULT)
        options->on_failure = coney_policy_retry(CONEY_SECOND);
    if (options->on_publish_failure == CONEY_POLICY_DEFAULT)
        options->on_publish_failure = coney_policy_retry(CONEY_SECOND);
    if (options->lanes == 0)
        options->lanes = 1;
    if (options->lane_queue == 0)
        options->lane_queue = 64;
    if (options->batch_wait == 0 && options->handler.many != NULL)
        options->batch_wait = 10 * CONEY_MILLISECOND;
}

coney_status subscription_add(coney_broker *broker, const coney_subscription *subscription, const struct middlewares *routed,
                              const coney_codec *codec)
{
    coney_app *app = broker->app;
    struct copier to = {.arena = app->memory, .out_of_memory = &app->out_of_memory};
    struct subscription *s = app_copy_bytes(app, NULL, sizeof *s);
    if (s == NULL)
        return CONEY_ENOMEM;
    bool known = subscription_copy(to, &s->options, subscription, sizeof *subscription);
    fill_in(&s->options);
    s->app = app;
    s->broker = broker;
    s->routed_codec = codec;
    s->name = name_of(&s->options);
    if (!known)
        mistake(&app->built, "source", "of '%s' " NEWER_TEXT, s->name);
    if (routed != NULL && routed->count > 0) {
        s->routed.count = routed->count;
        s->routed.items = app_copy_bytes(app, routed->items, routed->count * sizeof *routed->items);
    }
    if (s->options.source.kind == CONEY_SOURCE_STREAM && s->options.source.of != NULL) {
        coney_stream_source *stream = (coney_stream_source *)(uintptr_t)s->options.source.of; /* the copy made above */
        if (stream->consumer == NULL)
            stream->consumer = app->title;
    }
    struct subscription **end = &broker->subscriptions;
    while (*end != NULL)
        end = &(*end)->next;
    *end = s;
    return app->out_of_memory ? CONEY_ENOMEM : CONEY_OK;
}

coney_status coney_subscribe_sized(coney_broker *broker, const coney_subscription *subscription, size_t size)
{
    if (broker == NULL || subscription == NULL || !app_may_change(broker->app, "coney_subscribe"))
        return CONEY_EINVAL;
    coney_subscription known;
    if (!app_take_options(&known, sizeof known, subscription, size))
        mistake(&broker->app->built, "subscription", "'%s' " NEWER_TEXT, name_of(&known));
    return subscription_add(broker, &known, NULL, NULL);
}

/* The start --------------------------------------------------------------------------------------------------------------- */

static struct middleware *append(struct middleware *at, const struct middlewares *list)
{
    if (list->count > 0)
        memcpy(at, list->items, list->count * sizeof *at);
    return at + list->count;
}

const coney_codec *subscription_codec(const struct subscription *s)
{
    const coney_codec *choices[] = {s->options.codec, s->routed_codec, s->broker->codec, s->app->options.codec};
    size_t i = 0;
    while (choices[i] == NULL)
        i++;
    return choices[i];
}

coney_status subscription_resolve(struct subscription *s)
{
    s->type = s->options.handler.type != NULL ? s->options.handler.type() : NULL;
    s->codec = s->type != NULL ? subscription_codec(s) : NULL;
    struct middlewares own = {.items = &(struct middleware){s->options.around, s->options.around_ctx},
                              .count = s->options.around != NULL};
    const struct middlewares *lists[] = {&s->app->middlewares, &s->broker->middlewares, &s->routed, &own};
    size_t count = 0;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        count += lists[i]->count;
    if (s->options.handler.many != NULL)
        count = 0; /* handlers of batches are not wrapped */
    if (count > 0 && s->chain_count != count) {
        s->chain = app_copy_bytes(s->app, NULL, count * sizeof *s->chain);
        if (s->chain == NULL)
            return CONEY_ENOMEM;
    }
    s->chain_count = count;
    struct middleware *at = s->chain;
    for (size_t i = 0; count > 0 && i < sizeof lists / sizeof lists[0]; i++)
        at = append(at, lists[i]);
    return CONEY_OK;
}

/* While it is open -------------------------------------------------------------------------------------------------------- */

/* What becomes of a subscription then is no news. */
static bool app_is_going_down(coney_app *app)
{
    lock_acquire(&app->lock);
    bool is_stopping = app->phase == CONEY_APP_STOPPING;
    lock_release(&app->lock);
    return is_stopping || atomic_load(&app->draining);
}

void subscription_active(struct sink *sink, bool active)
{
    struct subscription *s = container_of(sink, struct subscription, sink);
    if (atomic_load(&s->has_ended) || atomic_exchange(&s->is_active, active) == active || app_is_going_down(s->app))
        return;
    if (active)
        app_log(s->app, CONEY_LOG_INFO, "subscription '%s' receives again", s->name);
    else
        app_log(s->app, CONEY_LOG_WARNING,
                "subscription '%s' does not receive at the moment: its connection is looked for again", s->name);
}

void subscription_ended(struct sink *sink, coney_status status, const char *text)
{
    struct subscription *s = container_of(sink, struct subscription, sink);
    if (atomic_exchange(&s->has_ended, true))
        return;
    atomic_store(&s->is_active, false);
    if (app_is_going_down(s->app))
        return;
    const char *why = is_given(text) ? text : coney_status_text(status);
    if (s->app->options.on_subscription_end == CONEY_ON_END_STOP)
        app_fail(s->app, status != CONEY_OK ? status : CONEY_ECLOSED, "subscription '%s' has ended: %s", s->name, why);
    else
        app_log(s->app, CONEY_LOG_WARNING, "subscription '%s' has ended and receives nothing any more: %s", s->name, why);
}
