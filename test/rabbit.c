#define _GNU_SOURCE
#include "rabbit.h"

#include "amqp_scene.h"
#include "scene.h"

void rabbit_open(struct rabbit *rabbit, const struct node *node, const coney_amqp_options *options)
{
    coney_call call = {0};
    coney_amqp_options own = *options;
    *rabbit = (struct rabbit){0};
    own.on_event = events_add;
    own.event_ctx = &rabbit->events;
    fresh_name(rabbit->prefix, sizeof rabbit->prefix, "topology");
    rabbit->env = coney_amqp_open(amqp_uri(node->amqp_port), &own, &call);
    if (rabbit->env == NULL)
        fail_msg("the environment did not open: %s", call.text);
}

void rabbit_up(struct rabbit *rabbit, const struct node *node)
{
    rabbit_open(rabbit, node,
                &(coney_amqp_options){.recovery_delay = 50 * CONEY_MILLISECOND,
                                      .recovery_max_delay = 500 * CONEY_MILLISECOND,
                                      .call_deadline = scaled_ns(10000)});
}

void rabbit_down(struct rabbit *rabbit)
{
    coney_amqp_publisher_close(&rabbit->publisher, NULL);
    assert_int_equal(coney_amqp_close(&rabbit->env, NULL), CONEY_OK);
    events_free(&rabbit->events);
}

const char *named(struct rabbit *rabbit, const char *name)
{
    char full[sizeof rabbit->names[0]];
    const size_t cap = sizeof rabbit->names / sizeof rabbit->names[0];
    snprintf(full, sizeof full, "%s.%s", rabbit->prefix, name);
    for (size_t i = 0; i < cap; i++)
        if (strcmp(rabbit->names[i], full) == 0)
            return rabbit->names[i];
    char *out = rabbit->names[rabbit->name_count++ % cap];
    memcpy(out, full, sizeof full);
    return out;
}

static void succeeded(const coney_call *call)
{
    if (call->status != CONEY_OK)
        fail_msg("%s: %s", coney_status_name(call->status), call->text);
}

void rabbit_exchange(struct rabbit *rabbit, const coney_amqp_exchange *exchange)
{
    coney_call call = {0};
    coney_amqp_exchange_declare(rabbit->env, exchange, &call);
    succeeded(&call);
}

uint64_t rabbit_queue(struct rabbit *rabbit, const coney_amqp_queue *queue)
{
    coney_call call = {0};
    coney_amqp_queue_declare(rabbit->env, queue, &call);
    succeeded(&call);
    return call.value;
}

void rabbit_bind(struct rabbit *rabbit, const char *source, const char *queue, const char *key)
{
    coney_call call = {0};
    coney_amqp_bind(rabbit->env, &(coney_amqp_binding){.source = source, .destination = queue, .routing_key = key}, &call);
    succeeded(&call);
}

void rabbit_unbind(struct rabbit *rabbit, const char *source, const char *queue, const char *key)
{
    coney_call call = {0};
    coney_amqp_unbind(rabbit->env, &(coney_amqp_binding){.source = source, .destination = queue, .routing_key = key}, &call);
    succeeded(&call);
}

void rabbit_bind_exchange(struct rabbit *rabbit, const char *source, const char *destination, const char *key)
{
    coney_call call = {0};
    const coney_amqp_binding binding = {.source = source, .destination = destination, .routing_key = key, .to_exchange = true};
    coney_amqp_bind(rabbit->env, &binding, &call);
    succeeded(&call);
}

void rabbit_delete_queue(struct rabbit *rabbit, const char *queue)
{
    coney_call call = {0};
    coney_amqp_queue_delete(rabbit->env, queue, 0, &call);
    succeeded(&call);
}

void rabbit_delete_exchange(struct rabbit *rabbit, const char *exchange)
{
    coney_call call = {0};
    coney_amqp_exchange_delete(rabbit->env, exchange, 0, &call);
    succeeded(&call);
}

static bool routes(struct rabbit *rabbit, const coney_amqp_message *message)
{
    coney_call call = {0};
    if (rabbit->publisher == NULL)
        rabbit->publisher = coney_amqp_publisher_open(rabbit->env, &(coney_amqp_publisher_options){0}, &call);
    if (rabbit->publisher == NULL)
        fail_msg("%s", call.text);
    coney_status status = coney_amqp_publish_wait(rabbit->publisher, message, &call);
    bool no_exchange = status == CONEY_EREFUSED && call.code == 404;
    if (status != CONEY_OK && status != CONEY_ERETURNED && !no_exchange) {
        events_print(&rabbit->events);
        fail_msg("%s: %s", coney_status_name(status), call.text);
    }
    return status == CONEY_OK;
}

bool rabbit_routes(struct rabbit *rabbit, const char *exchange, const char *key)
{
    return routes(rabbit, &(coney_amqp_message){.body = CONEY_STR("hello"),
                                                .exchange = coney_bytes_str(exchange),
                                                .routing_key = coney_bytes_str(key)});
}

bool rabbit_routes_headers(struct rabbit *rabbit, const char *exchange, const coney_field *headers, size_t count)
{
    return routes(rabbit, &(coney_amqp_message){.body = CONEY_STR("hello"),
                                                .exchange = coney_bytes_str(exchange),
                                                .routing_key = CONEY_STR(""),
                                                .headers = headers,
                                                .header_count = count});
}

void rabbit_holds(struct rabbit *rabbit, const char *queue, uint64_t count)
{
    struct monitor clock = {0};
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    uint64_t ready;
    monitor_lock(&clock);
    while ((ready = rabbit_queue(rabbit, &(coney_amqp_queue){.name = queue, .passive = true})) != count && now_ms() < until)
        monitor_wait(&clock, now_ms() + 5);
    monitor_unlock(&clock);
    monitor_free(&clock);
    if (ready != count)
        fail_msg("queue '%s' holds %llu messages instead of %llu", queue, (unsigned long long)ready, (unsigned long long)count);
}

static bool found(coney_status status, const coney_call *call)
{
    if (status != CONEY_OK && status != CONEY_ENOTFOUND)
        fail_msg("%s: %s", coney_status_name(status), call->text);
    return status == CONEY_OK;
}

bool rabbit_has_queue(struct rabbit *rabbit, const char *queue)
{
    coney_call call = {0};
    return found(coney_amqp_queue_declare(rabbit->env, &(coney_amqp_queue){.name = queue, .passive = true}, &call), &call);
}

bool rabbit_has_exchange(struct rabbit *rabbit, const char *exchange)
{
    coney_call call = {0};
    return found(coney_amqp_exchange_declare(rabbit->env, &(coney_amqp_exchange){.name = exchange, .passive = true}, &call),
                 &call);
}
