/* amqp.c: a RabbitMQ over AMQP 0-9-1 as a broker of an app: its options, its connections, what the client says of itself. */
#include "transport/amqp.h"

#include "base/text.h"
#include "base/uri.h"

#include <stdlib.h>

/* The constructor: copies ----------------------------------------------------------------------------------------------- */

static const char *copy_text(struct tamqp *t, const char *text)
{
    if (text == NULL)
        return NULL;
    const char *copy = app_copy_text(t->app, text);
    t->is_out_of_memory = t->is_out_of_memory || copy == NULL;
    return copy;
}

static void *copy_bytes(struct tamqp *t, const void *from, size_t len)
{
    void *copy = app_copy_bytes(t->app, from, len);
    t->is_out_of_memory = t->is_out_of_memory || copy == NULL;
    return copy;
}

static const char *const *copy_list(struct tamqp *t, const char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    if (count == 0)
        return NULL;
    const char **copy = copy_bytes(t, list, (count + 1) * sizeof *list);
    for (size_t i = 0; copy != NULL && i < count; i++)
        copy[i] = copy_text(t, list[i]);
    return copy;
}

static const coney_tls_options *copy_tls(struct tamqp *t, const coney_tls_options *tls)
{
    coney_tls_options *copy = tls != NULL ? copy_bytes(t, tls, sizeof *tls) : NULL;
    if (copy == NULL)
        return NULL;
    copy->ca_file = copy_text(t, tls->ca_file);
    copy->ca_path = copy_text(t, tls->ca_path);
    copy->certificate = copy_text(t, tls->certificate);
    copy->private_key = copy_text(t, tls->private_key);
    copy->pkcs12_file = copy_text(t, tls->pkcs12_file);
    copy->key_password = copy_text(t, tls->key_password);
    copy->server_name = copy_text(t, tls->server_name);
    return copy;
}

static void take(struct tamqp *t, const char *uri, const coney_amqp_options *options, size_t size)
{
    coney_amqp_options *mine = &t->options;
    t->newer_options = !app_take_options(mine, sizeof *mine, options, size);
    t->uri = copy_text(t, uri);
    mine->name = copy_text(t, mine->name);
    mine->addresses = copy_list(t, mine->addresses);
    mine->tls = copy_tls(t, mine->tls);
    mine->mechanism = copy_text(t, mine->mechanism);
    if (mine->client_property_count > 0) {
        mine->client_properties = app_copy_fields(t->app, mine->client_properties, mine->client_property_count);
        t->is_out_of_memory = t->is_out_of_memory || mine->client_properties == NULL;
    }
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
