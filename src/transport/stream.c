/* stream.c: the transport over the stream protocol: its table, its life. See stream.h. */
#include "transport/stream.h"

#include "base/text.h"
#include "base/time.h"
#include "base/uri.h"
#include "service/app.h"
#include "service/subscription.h"

#include <stdlib.h>
#include <string.h>

#define SCHEME "rabbitmq-stream"
#define SCHEME_TLS "rabbitmq-stream+tls"
#define DEFAULT_URI "rabbitmq-stream://localhost"
#define DEFAULT_PORT 5552
#define DEFAULT_PORT_TLS 5551

/* Checks ------------------------------------------------------------------------------------------------------------------------ */

static void check_uri(const struct tstream *self, struct mistakes *mistakes)
{
    struct uri uri;
    char error[256];
    if (uri_parse(self->uri, "localhost", &uri, error, sizeof error) != CONEY_OK) {
        mistake(mistakes, "uri", "%s", error);
        return;
    }
    if (strcmp(uri.scheme, SCHEME) != 0 && strcmp(uri.scheme, SCHEME_TLS) != 0)
        mistake(mistakes, "uri", "its scheme is '%s': this broker is reached by %s:// or %s://", uri.scheme, SCHEME,
                SCHEME_TLS);
    uri_free(&uri);
}

static void check_broker(void *ctx, struct mistakes *mistakes)
{
    const struct tstream *self = ctx;
    check_uri(self, mistakes);
    if (self->has_unknown_options)
        mistake(mistakes, "options", "they have members that this version of coney does not know");
    if (self->options.loop != NULL)
        mistake(mistakes, "options.loop", "a service runs its own loops: leave it NULL");
    if (self->options.on_log != NULL)
        mistake(mistakes, "options.on_log", "the log is the app's: set coney_app_options.on_log");
    for (const struct declaration *at = self->broker->declarations; at != NULL; at = at->next)
        if (at->what != DECLARE_STREAM)
            mistake(mistakes, "declarations", "an exchange or a queue is declared over AMQP: use coney_app_amqp for it");
}

static void check_name(const char *field, const char *name, struct mistakes *mistakes)
{
    if (name == NULL || name[0] == '\0')
        mistake(mistakes, field, "a stream's name is missing");
    else if (strlen(name) > TSTREAM_NAME_MAX)
        mistake(mistakes, field, "it has %zu bytes; a name has at most %d", strlen(name), TSTREAM_NAME_MAX);
    else if (!text_is_utf8(name))
        mistake(mistakes, field, "it is not UTF-8");
}

static void check_at_least(const char *field, int64_t number, int64_t least, struct mistakes *mistakes)
{
    if (number < least)
        mistake(mistakes, field, "it is %lld: at least %lld", (long long)number, (long long)least);
}

static void check_source(void *self, const coney_subscription *subscription, struct mistakes *mistakes)
{
    (void)self;
    if (subscription->source.kind != CONEY_SOURCE_STREAM) {
        mistake(mistakes, "source", "a broker of coney_app_stream reads CONEY_STREAM(…) only");
        return;
    }
    const coney_stream_source *source = subscription->source.of;
    check_name("source.name", source->name, mistakes);
    if (source->consumer != NULL && source->consumer[0] != '\0')
        check_name("source.consumer", source->consumer, mistakes);
    if (source->start_if_new < CONEY_STREAM_NEXT || source->start_if_new > CONEY_STREAM_TIMESTAMP)
        mistake(mistakes, "source.start_if_new", "%d is no CONEY_STREAM_ constant", (int)source->start_if_new);
    if (source->credit < 0 || source->credit > INT16_MAX)
        mistake(mistakes, "source.credit", "it is %lld: 1 to %d, or 0 for the default", (long long)source->credit, INT16_MAX);
    check_at_least("source.store_every", source->store_every, CONEY_OFF, mistakes);
    check_at_least("source.store_interval", source->store_interval, CONEY_OFF, mistakes);
    check_at_least("source.max_length", source->max_length, 0, mistakes);
    check_at_least("source.max_segment_size", source->max_segment_size, 0, mistakes);
    if (source->max_age < 0 || source->max_age % CONEY_SECOND != 0)
        mistake(mistakes, "source.max_age", "it is %lld ns: whole seconds, or 0 for no limit", (long long)source->max_age);
    if (!source->declare && (source->max_length != 0 || source->max_age != 0 || source->max_segment_size != 0))
        mistake(mistakes, "source.declare", "max_length, max_age and max_segment_size are for a stream that is declared");
    if (subscription->dead_letter != NULL)
        check_name("dead_letter", subscription->dead_letter, mistakes);
}

static void check_publisher(void *self, const coney_publisher_options *options, struct mistakes *mistakes)
{
    (void)self;
    if (options->exchange != NULL && options->exchange[0] != '\0')
        mistake(mistakes, "exchange", "it is '%s': streams are published to directly, there are no exchanges",
                options->exchange);
    if (options->policy == CONEY_PUBLISH_TRANSACTION)
        mistake(mistakes, "policy", "streams have no transactions");
    if (options->expiration != 0)
        mistake(mistakes, "expiration", "messages of streams do not expire: a stream has max_age");
    if (options->has_priority)
        mistake(mistakes, "priority", "streams have no priorities");
}

/* Life ---------------------------------------------------------------------------------------------------------------------------- */

static void on_event(void *ctx, const coney_event *event)
{
    struct tstream *self = ctx;
    tstream_feed_event(self, event);
    if (self->options.on_event == NULL)
        return;
    const coney_app *outer = app_calls(self->broker->app);
    self->options.on_event(self->options.event_ctx, event);
    app_called(outer);
}

static coney_status connect(void *ctx, struct coney_broker *broker, coney_call *call)
{
    struct tstream *self = ctx;
    char name[256];
    text_print(name, sizeof name, "%s (%s)", broker->app->title, broker->label);
    coney_stream_env_options options = self->options;
    if (options.name == NULL)
        options.name = name;
    options.on_event = on_event;
    options.event_ctx = self;
    options.on_log = broker_log;
    options.log_ctx = broker;
    options.log_level = broker_log_level(broker);
    if (!tstream_copies_open(self))
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    coney_stream_env *env = coney_stream_env_open(self->uri, &options, call);
    lock_acquire(&self->lock);
    self->env = env;
    lock_release(&self->lock);
    return env != NULL ? CONEY_OK : call->status;
}

static coney_status declare_stream(struct tstream *self, const char *name, coney_stream_spec spec, coney_call *call)
{
    spec.if_missing = true;
    return coney_stream_create(self->env, name, &spec, call);
}

static coney_status declare_source(struct tstream *self, const coney_stream_source *source, coney_call *call)
{
    const coney_stream_spec spec = {
        .max_length = source->max_length, .max_age = source->max_age, .max_segment_size = source->max_segment_size};
    return source->declare ? declare_stream(self, source->name, spec, call) : CONEY_OK;
}

static coney_status declare(void *ctx, coney_call *call)
{
    struct tstream *self = ctx;
    coney_status status = CONEY_OK;
    for (const struct declaration *at = self->broker->declarations; at != NULL && status == CONEY_OK; at = at->next)
        status = declare_stream(self, at->stream, at->as.spec, call);
    for (const struct subscription *at = self->broker->subscriptions; at != NULL && status == CONEY_OK; at = at->next)
        status = declare_source(self, at->options.source.of, call);
    return status;
}

static coney_status disconnect(void *ctx, coney_call *call)
{
    struct tstream *self = ctx;
    lock_acquire(&self->lock);
    coney_stream_env *env = self->env;
    self->env = NULL;
    lock_release(&self->lock);
    coney_status copies = tstream_copies_close(self, call);
    coney_status status = coney_stream_env_close(&env, call);
    return status != CONEY_OK ? status : copies;
}

static void free_self(void *ctx)
{
    struct tstream *self = ctx;
    for (struct list *at = list_take(&self->feeds); at != NULL; at = list_take(&self->feeds))
        free(container_of(at, struct tstream_feed, in_broker));
    tstream_copies_free(self);
    free(self);
}

static bool connected(void *ctx)
{
    struct tstream *self = ctx;
    coney_stream_env_stats stats = {0};
    lock_acquire(&self->lock);
    (void)coney_stream_env_get_stats(self->env, &stats);
    lock_release(&self->lock);
    return stats.connections > 0;
}

static bool describe(void *ctx, char *host, size_t host_cap, const char **protocol, const char **version)
{
    const struct tstream *self = ctx;
    struct uri uri;
    char error[256];
    if (uri_parse(self->uri, "localhost", &uri, error, sizeof error) != CONEY_OK)
        return false;
    const struct uri_address *address = &uri.addresses[0];
    unsigned port = strcmp(uri.scheme, SCHEME_TLS) == 0 ? DEFAULT_PORT_TLS : DEFAULT_PORT;
    bool is_bare_v6 = strchr(address->host, ':') != NULL;
    text_print(host, host_cap, is_bare_v6 ? "[%s]:%u" : "%s:%u", address->host, address->port != 0 ? address->port : port);
    uri_free(&uri);
    *protocol = SCHEME;
    *version = "1";
    return true;
}

/* What is published to a stream is there at once. */
static bool delays(const struct feed *feed)
{
    (void)feed;
    return false;
}

/* Opening what is used ----------------------------------------------------------------------------------------------------------------- */

/* A stream that was made a moment ago may have no leader yet: worth another try, after a pause. */
static bool is_worth_another_try(coney_status status, int64_t until)
{
    int64_t pause = time_after(time_now(), 20 * CONEY_MILLISECOND);
    if (status != CONEY_EUNAVAILABLE || pause >= until)
        return false;
    struct lock lock = {0};
    struct cond never = {0};
    lock_acquire(&lock);
    while (cond_wait(&never, &lock, pause))
        ;
    lock_release(&lock);
    return true;
}

int64_t tstream_until(const coney_call *call)
{
    return time_after(time_now(), call->deadline != 0 ? call->deadline : 10 * CONEY_SECOND);
}

coney_stream_env *tstream_env(struct tstream *self)
{
    lock_acquire(&self->lock);
    coney_stream_env *env = self->env;
    lock_release(&self->lock);
    return env;
}

coney_stream_producer *tstream_open_producer(struct tstream *self, const char *stream,
                                             const coney_stream_producer_options *options, coney_call *call)
{
    int64_t until = tstream_until(call);
    coney_stream_producer *producer;
    do
        producer = coney_stream_producer_open(tstream_env(self), stream, options, call);
    while (producer == NULL && is_worth_another_try(call->status, until));
    return producer;
}

coney_stream_consumer *tstream_open_consumer(struct tstream *self, const char *stream,
                                             const coney_stream_consumer_options *options, coney_call *call)
{
    int64_t until = tstream_until(call);
    coney_stream_consumer *consumer;
    do
        consumer = coney_stream_consumer_open(tstream_env(self), stream, options, call);
    while (consumer == NULL && is_worth_another_try(call->status, until));
    return consumer;
}

/* Making one ------------------------------------------------------------------------------------------------------------------------------ */

static const struct transport transport = {
    .name = "stream",
    .source = CONEY_SOURCE_STREAM,
    .check_broker = check_broker,
    .check_source = check_source,
    .check_publisher = check_publisher,
    .connect = connect,
    .declare = declare,
    .subscribe = tstream_subscribe,
    .unsubscribe = tstream_unsubscribe,
    .open_outlet = tstream_open_outlet,
    .publish = tstream_publish,
    .flush = tstream_flush,
    .close_outlet = tstream_close_outlet,
    .disconnect = disconnect,
    .free = free_self,
    .connected = connected,
    .info = tstream_info,
    .content_type = tstream_content_type,
    .header = tstream_header,
    .key = tstream_key,
    .attempt = tstream_attempt,
    .keep = tstream_keep,
    .settle = tstream_settle,
    .copy = tstream_copy,
    .delays = delays,
    .pause = tstream_pause,
    .seek = tstream_seek,
    .stream_delivery = tstream_delivery,
    .describe = describe,
};

static void copy_options(coney_app *app, coney_stream_env_options *options)
{
    options->name = app_copy_text(app, options->name);
    options->mechanism = app_copy_text(app, options->mechanism);
    options->addresses = app_copy_list(app, options->addresses);
    options->client_properties = app_copy_fields(app, options->client_properties, options->client_property_count);
    options->tls = app_copy_tls(app, options->tls);
}

static struct tstream *tstream_new(coney_app *app, const char *uri, const coney_stream_env_options *options, size_t size)
{
    struct tstream *self = calloc(1, sizeof *self);
    if (self == NULL)
        return NULL;
    list_init(&self->feeds);
    self->has_unknown_options = !app_take_options(&self->options, sizeof self->options, options, size);
    self->uri = app_copy_text(app, uri != NULL ? uri : DEFAULT_URI);
    copy_options(app, &self->options);
    return self;
}

coney_broker *coney_app_stream_sized(coney_app *app, const char *uri, const coney_stream_env_options *options, size_t size)
{
    if (app == NULL)
        return NULL;
    struct tstream *self = tstream_new(app, uri, options, size);
    coney_broker *broker = broker_new(app, &transport, self);
    if (broker != NULL)
        self->broker = broker;
    return broker;
}
