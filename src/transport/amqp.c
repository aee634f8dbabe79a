/* amqp.c: a RabbitMQ over AMQP 0-9-1 as a broker of an app: its options, its connections, what the client says of itself. */
#include "transport/amqp.h"

#include "base/text.h"
#include "base/uri.h"

#include <stdlib.h>

/* The constructor: copies ----------------------------------------------------------------------------------------------- */

static void take(struct tamqp *t, const char *uri, const coney_amqp_options *options, size_t size)
{
    coney_amqp_options *mine = &t->options;
    t->newer_options = !app_take_options(mine, sizeof *mine, options, size);
    t->uri = app_copy_text(t->app, uri);
    mine->name = app_copy_text(t->app, mine->name);
    mine->addresses = app_copy_list(t->app, mine->addresses);
    mine->tls = app_copy_tls(t->app, mine->tls);
    mine->mechanism = app_copy_text(t->app, mine->mechanism);
    mine->client_properties = app_copy_fields(t->app, mine->client_properties, mine->client_property_count);
}

coney_broker *coney_app_amqp_sized(coney_app *app, const char *uri, const coney_amqp_options *options, size_t size)
{
    struct tamqp *t = calloc(1, sizeof *t);
    if (app != NULL && t != NULL) {
        t->app = app;
        take(t, uri, options, size);
    }
    coney_broker *broker = broker_new(app, &tamqp_transport, t);
    if (broker != NULL)
        t->broker = broker;
    return broker;
}

/* Connections ----------------------------------------------------------------------------------------------------------- */

coney_amqp *tamqp_rabbit(struct tamqp *t)
{
    lock_acquire(&t->lock);
    coney_amqp *rabbit = t->rabbit;
    lock_release(&t->lock);
    return rabbit;
}

static void on_event(void *ctx, const coney_event *event)
{
    struct tamqp *t = ctx;
    tamqp_feed_event(t, event);
    if (t->options.on_event == NULL)
        return;
    const coney_app *outer = app_calls(t->app);
    t->options.on_event(t->options.event_ctx, event);
    app_called(outer);
}

static coney_status open_rabbit(void *self, struct coney_broker *broker, coney_call *call)
{
    struct tamqp *t = self;
    char name[2 * TAMQP_NAME_MAX];
    text_print(name, sizeof name, "%s (%s)", broker->app->title, broker->label);
    coney_amqp_options options = t->options;
    options.on_log = broker_log;
    options.log_ctx = broker;
    options.log_level = broker_log_level(broker);
    options.on_event = on_event;
    options.event_ctx = t;
    if (options.name == NULL)
        options.name = name;
    coney_amqp *rabbit = coney_amqp_open(t->uri, &options, call);
    lock_acquire(&t->lock);
    t->rabbit = rabbit;
    lock_release(&t->lock);
    return rabbit != NULL ? CONEY_OK : call->status;
}

static coney_status close_rabbit(void *self, coney_call *call)
{
    struct tamqp *t = self;
    lock_acquire(&t->lock);
    coney_amqp *rabbit = t->rabbit;
    t->rabbit = NULL;
    lock_release(&t->lock);
    coney_status status = coney_amqp_close(&rabbit, call); /* and with it the copier and the requester */
    t->copier = NULL;
    t->requester = NULL;
    return status;
}

static bool is_connected(void *self)
{
    struct tamqp *t = self;
    coney_amqp_stats stats;
    lock_acquire(&t->lock); /* the handle is not closed meanwhile */
    bool connected = t->rabbit != NULL && coney_amqp_get_stats(t->rabbit, &stats) == CONEY_OK && stats.connections > 0;
    lock_release(&t->lock);
    return connected;
}

static void free_broker(void *self)
{
    struct tamqp *t = self;
    if (t == NULL)
        return;
    tamqp_free_feeds(t);
    tamqp_forget_names(t);
    free(t);
}

static bool describe(void *self, char *host, size_t host_cap, const char **protocol, const char **version)
{
    struct tamqp *t = self;
    struct uri uri;
    char error[256];
    if (uri_parse(t->uri != NULL ? t->uri : "amqp://localhost", "localhost", &uri, error, sizeof error) != CONEY_OK)
        return false;
    bool tls = strcmp(uri.scheme, "amqps") == 0;
    bool is_v6 = strchr(uri.addresses[0].host, ':') != NULL;
    unsigned port = uri.addresses[0].port != 0 ? uri.addresses[0].port : tls ? 5671 : 5672;
    text_print(host, host_cap, is_v6 ? "[%s]:%u" : "%s:%u", uri.addresses[0].host, port);
    *protocol = tls ? "amqps" : "amqp";
    *version = "0.9.1";
    uri_free(&uri);
    return true;
}

const struct transport tamqp_transport = {
    .name = "amqp",
    .source = CONEY_SOURCE_QUEUE,
    .check_broker = tamqp_check_broker,
    .check_source = tamqp_check_source,
    .check_publisher = tamqp_check_publisher,
    .connect = open_rabbit,
    .declare = tamqp_declare,
    .subscribe = tamqp_subscribe,
    .unsubscribe = tamqp_unsubscribe,
    .open_outlet = tamqp_open_outlet,
    .publish = tamqp_publish,
    .flush = tamqp_flush,
    .close_outlet = tamqp_close_outlet,
    .disconnect = close_rabbit,
    .free = free_broker,
    .connected = is_connected,
    .info = tamqp_info,
    .content_type = tamqp_content_type,
    .header = tamqp_header,
    .key = tamqp_key,
    .attempt = tamqp_attempt,
    .keep = tamqp_keep,
    .settle = tamqp_settle,
    .copy = tamqp_copy,
    .delays = tamqp_delays,
    .request = tamqp_request,
    .tx_begin = tamqp_tx_begin,
    .tx_publish = tamqp_tx_publish,
    .tx_commit = tamqp_tx_commit,
    .tx_abort = tamqp_tx_abort,
    .amqp_delivery = tamqp_delivery,
    .describe = describe,
};
