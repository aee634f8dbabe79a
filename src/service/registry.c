/* registry.c: brokers of an app, and what they are to declare. */
#include "base/text.h"
#include "service/app.h"
#include "service/publisher.h"

/* "amqp", then "amqp-2" …: the first that no other broker has. */
static const char *free_label(coney_app *app, const char *name)
{
    char label[64];
    text_print(label, sizeof label, "%s", name);
    for (unsigned number = 2;; number++) {
        const coney_broker *other = app->brokers;
        while (other != NULL && (other->label == NULL || strcmp(other->label, label) != 0))
            other = other->next;
        if (other == NULL)
            return app_copy_text(app, label);
        text_print(label, sizeof label, "%s-%u", name, number);
    }
}

coney_broker *broker_new(coney_app *app, const struct transport *transport, void *self)
{
    if (app == NULL || self == NULL || !app_may_change(app, "a broker")) {
        if (self != NULL)
            transport->free(self);
        else if (app != NULL)
            app->out_of_memory = true;
        return NULL;
    }
    coney_broker *broker = app_copy_bytes(app, NULL, sizeof *broker);
    if (broker == NULL) {
        transport->free(self);
        return NULL;
    }
    *broker = (coney_broker){.app = app, .transport = transport, .self = self, .label = free_label(app, transport->name)};
    coney_broker **end = &app->brokers;
    while (*end != NULL)
        end = &(*end)->next;
    *end = broker;
    if (publisher_add(broker, NULL, sizeof(coney_publisher_options)) == NULL)
        app->out_of_memory = true;
    return broker;
}

void broker_log(void *broker, coney_log_level level, const char *text)
{
    const coney_broker *from = broker;
    app_log(from->app, level, "broker '%s': %s", from->label, text);
}

coney_log_level broker_log_level(const struct coney_broker *broker)
{
    return broker->app->log.level;
}

void coney_broker_label(coney_broker *broker, const char *label)
{
    if (broker == NULL || !app_may_change(broker->app, "coney_broker_label"))
        return;
    if (label == NULL || *label == '\0') {
        mistake(&broker->app->built, "label", "a label of coney_broker_label is empty");
        return;
    }
    broker->label = app_copy_text(broker->app, label);
    publisher_broker_was_labelled(broker);
}

void coney_broker_codec(coney_broker *broker, const coney_codec *codec)
{
    if (broker != NULL && app_may_change(broker->app, "coney_broker_codec"))
        broker->codec = codec;
}

void coney_broker_use(coney_broker *broker, coney_around_fn around, void *ctx)
{
    if (broker == NULL || !app_may_change(broker->app, "coney_broker_use"))
        return;
    if (around == NULL)
        mistake(&broker->app->built, "middleware", "a function of coney_broker_use is NULL");
    else
        middlewares_add(broker->app, &broker->middlewares, around, ctx);
}

/* Declarations ------------------------------------------------------------------------------------------------------------- */

/* One more, at the end; NULL: refused, or memory is out. `given` is what the caller passed. */
static struct declaration *declare(coney_broker *broker, const char *function, const void *given)
{
    if (broker == NULL || !app_may_change(broker->app, function))
        return NULL;
    if (given == NULL) {
        mistake(&broker->app->built, function, "what is to be declared is NULL");
        return NULL;
    }
    struct declaration *added = app_copy_bytes(broker->app, NULL, sizeof *added);
    struct declaration **end = &broker->declarations;
    while (added != NULL && *end != NULL)
        end = &(*end)->next;
    if (added != NULL)
        *end = added;
    return added;
}

static void take_declared(coney_app *app, const char *function, const char *name, void *ours, size_t ours_size,
                          const void *theirs, size_t size)
{
    if (!app_take_options(ours, ours_size, theirs, size))
        mistake(&app->built, function, "'%s' " NEWER_TEXT, name != NULL ? name : "");
}

void coney_declare_exchange_sized(coney_broker *broker, const coney_amqp_exchange *exchange, size_t size)
{
    struct declaration *declaration = declare(broker, "coney_declare_exchange", exchange);
    if (declaration == NULL)
        return;
    coney_app *app = broker->app;
    coney_amqp_exchange *copy = &declaration->as.exchange;
    declaration->what = DECLARE_EXCHANGE;
    take_declared(app, "coney_declare_exchange", exchange->name, copy, sizeof *copy, exchange, size);
    copy->name = app_copy_text(app, copy->name);
    copy->type = app_copy_text(app, copy->type);
    copy->alternate_exchange = app_copy_text(app, copy->alternate_exchange);
    copy->arguments = app_copy_fields(app, copy->arguments, copy->argument_count);
}

void coney_declare_queue_sized(coney_broker *broker, const coney_amqp_queue *queue, size_t size)
{
    struct declaration *declaration = declare(broker, "coney_declare_queue", queue);
    if (declaration == NULL)
        return;
    coney_app *app = broker->app;
    coney_amqp_queue *copy = &declaration->as.queue;
    declaration->what = DECLARE_QUEUE;
    take_declared(app, "coney_declare_queue", queue->name, copy, sizeof *copy, queue, size);
    copy->name = app_copy_text(app, copy->name);
    copy->overflow = app_copy_text(app, copy->overflow);
    copy->dead_letter_exchange = app_copy_text(app, copy->dead_letter_exchange);
    copy->dead_letter_routing_key = app_copy_text(app, copy->dead_letter_routing_key);
    copy->dead_letter_strategy = app_copy_text(app, copy->dead_letter_strategy);
    copy->leader_locator = app_copy_text(app, copy->leader_locator);
    copy->arguments = app_copy_fields(app, copy->arguments, copy->argument_count);
}

void coney_declare_stream_sized(coney_broker *broker, const char *stream, const coney_stream_spec *spec, size_t size)
{
    struct declaration *declaration = declare(broker, "coney_declare_stream", stream);
    if (declaration == NULL)
        return;
    coney_app *app = broker->app;
    coney_stream_spec *copy = &declaration->as.spec;
    declaration->what = DECLARE_STREAM;
    declaration->stream = app_copy_text(app, stream);
    take_declared(app, "coney_declare_stream", stream, copy, sizeof *copy, spec, size);
    copy->leader_locator = app_copy_text(app, copy->leader_locator);
    copy->arguments = app_copy_fields(app, copy->arguments, copy->argument_count);
    copy->if_missing = true;
}
