/* amqp_topology.c: what an app declares at its start: exchanges, then queues, then bindings, then what delays need. */
#include "transport/amqp.h"

#include "base/bytes.h"

#include <stdlib.h>

/* A subscription's queue --------------------------------------------------------------------------------------------------- */

static bool is_given(const coney_queue_source *source, coney_bytes argument)
{
    for (size_t i = 0; i < source->argument_count; i++)
        if (bytes_equal(source->arguments[i].key, argument))
            return true;
    return false;
}

/* With max_attempts a quorum queue counts along, so that a message on which the process dies comes to its end, too. It also counts what a stop or a cut
 * gives back before a handler had it: with no more than max_attempts such messages would end unseen. */
static void limit_attempts(const coney_subscription *subscription, coney_amqp_queue *queue)
{
    const coney_queue_source *source = tamqp_source(subscription);
    if (subscription->max_attempts == 0 || source->type != CONEY_QUEUE_QUORUM)
        return;
    if (subscription->dead_letter != NULL && queue->dead_letter_exchange == NULL &&
        !is_given(source, CONEY_STR("x-dead-letter-exchange"))) {
        queue->dead_letter_exchange = "";
        queue->dead_letter_routing_key = subscription->dead_letter;
    }
    if (queue->delivery_limit == 0 && !is_given(source, CONEY_STR("x-delivery-limit")))
        queue->delivery_limit = subscription->max_attempts + TAMQP_GIVEN_BACK;
}

coney_amqp_queue tamqp_queue_of(const coney_subscription *subscription)
{
    const coney_queue_source *source = tamqp_source(subscription);
    bool is_named = source->name != NULL && source->name[0] != '\0';
    coney_amqp_queue queue = {
        .name = source->name,
        .type = source->type,
        .message_ttl = source->message_ttl,
        .expires = source->expires,
        .max_length = source->max_length,
        .max_length_bytes = source->max_length_bytes,
        .dead_letter_exchange = source->dead_letter_exchange,
        .dead_letter_routing_key = source->dead_letter_routing_key,
        .max_priority = source->max_priority,
        .delivery_limit = source->delivery_limit,
        .arguments = source->arguments,
        .argument_count = source->argument_count,
        .transient = source->transient,
        .exclusive = source->exclusive || !is_named,
        .auto_delete = source->auto_delete,
        .single_active_consumer = source->single_active_consumer,
    };
    if (queue.exclusive && queue.type == CONEY_QUEUE_DEFAULT)
        queue.type = CONEY_QUEUE_CLASSIC; /* whatever the virtual host's default is */
    limit_attempts(subscription, &queue);
    return queue;
}

/* Queues that the broker names ----------------------------------------------------------------------------------------------- */

static struct tamqp_named *named_of(const struct tamqp *t, const coney_subscription *subscription)
{
    struct tamqp_named *named = t->named;
    while (named != NULL && named->subscription != subscription)
        named = named->next;
    return named;
}

static struct tamqp_named *need_named(struct tamqp *t, const coney_subscription *subscription)
{
    struct tamqp_named *named = named_of(t, subscription);
    if (named != NULL || (named = calloc(1, sizeof *named)) == NULL)
        return named;
    named->subscription = subscription;
    named->next = t->named;
    t->named = named;
    return named;
}

const char *tamqp_queue_name(const struct tamqp *t, const coney_subscription *subscription)
{
    const struct tamqp_named *named = named_of(t, subscription);
    return named != NULL ? named->info.name : tamqp_source(subscription)->name;
}

void tamqp_forget_names(struct tamqp *t)
{
    while (t->named != NULL) {
        struct tamqp_named *named = t->named;
        t->named = named->next;
        free(named);
    }
}

/* Declaring: each of these for one thing, in the order in which they are called ------------------------------------------- */

static coney_status declare_exchange(struct tamqp *t, const struct declaration *declaration, coney_call *call)
{
    return declaration->what == DECLARE_EXCHANGE ? coney_amqp_exchange_declare(t->rabbit, &declaration->as.exchange, call)
                                                 : CONEY_OK;
}

static coney_status declare_queue(struct tamqp *t, const struct declaration *declaration, coney_call *call)
{
    return declaration->what == DECLARE_QUEUE ? coney_amqp_queue_declare(t->rabbit, &declaration->as.queue, call) : CONEY_OK;
}

static const coney_queue_binding *bindings_of(const coney_subscription *subscription)
{
    static const coney_queue_binding none[1];
    const coney_queue_source *source = tamqp_source(subscription);
    return source->declare && source->bindings != NULL ? source->bindings : none;
}

/* The broker's own exchanges are there. */
static coney_status declare_bound_exchanges(struct tamqp *t, const coney_subscription *subscription, coney_call *call)
{
    coney_status status = CONEY_OK;
    for (const coney_queue_binding *at = bindings_of(subscription); at->exchange != NULL && status == CONEY_OK; at++) {
        if (at->type == NULL || strncmp(at->exchange, "amq.", 4) == 0)
            continue;
        coney_amqp_exchange exchange = {.name = at->exchange, .type = at->type};
        status = coney_amqp_exchange_declare(t->rabbit, &exchange, call);
    }
    return status;
}

static coney_status declare_own_queue(struct tamqp *t, const coney_subscription *subscription, coney_call *call)
{
    if (!tamqp_source(subscription)->declare)
        return CONEY_OK;
    coney_amqp_queue queue = tamqp_queue_of(subscription);
    if (queue.name == NULL || queue.name[0] == '\0') {
        struct tamqp_named *named = need_named(t, subscription);
        if (named == NULL)
            return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        queue.info = &named->info;
    }
    return coney_amqp_queue_declare(t->rabbit, &queue, call);
}

static coney_status bind_own_queue(struct tamqp *t, const coney_subscription *subscription, coney_call *call)
{
    coney_status status = CONEY_OK;
    for (const coney_queue_binding *at = bindings_of(subscription); at->exchange != NULL && status == CONEY_OK; at++) {
        coney_amqp_binding binding = {.source = at->exchange,
                                      .destination = tamqp_queue_name(t, subscription),
                                      .routing_key = at->key,
                                      .arguments = at->arguments,
                                      .argument_count = at->argument_count};
        status = coney_amqp_bind(t->rabbit, &binding, call);
    }
    return status;
}

static coney_status declare_delays(struct tamqp *t, const coney_subscription *subscription, coney_call *call)
{
    return tamqp_declare_delay(t->rabbit, tamqp_queue_name(t, subscription), subscription, call);
}

static coney_status for_declarations(struct tamqp *t,
                                     coney_status (*each)(struct tamqp *, const struct declaration *, coney_call *),
                                     coney_call *call)
{
    coney_status status = CONEY_OK;
    for (const struct declaration *at = t->broker->declarations; at != NULL && status == CONEY_OK; at = at->next)
        status = each(t, at, call);
    return status;
}

static coney_status for_subscriptions(struct tamqp *t,
                                      coney_status (*each)(struct tamqp *, const coney_subscription *, coney_call *),
                                      coney_call *call)
{
    coney_status status = CONEY_OK;
    for (const struct subscription *at = t->broker->subscriptions; at != NULL && status == CONEY_OK; at = at->next)
        status = each(t, &at->options, call);
    return status;
}

coney_status tamqp_declare(void *self, coney_call *call)
{
    struct tamqp *t = self;
    coney_status status = for_declarations(t, declare_exchange, call);
    if (status == CONEY_OK)
        status = for_subscriptions(t, declare_bound_exchanges, call);
    if (status == CONEY_OK)
        status = for_declarations(t, declare_queue, call);
    if (status == CONEY_OK)
        status = for_subscriptions(t, declare_own_queue, call);
    if (status == CONEY_OK)
        status = for_subscriptions(t, bind_own_queue, call);
    if (status == CONEY_OK)
        status = for_subscriptions(t, declare_delays, call);
    return status;
}
