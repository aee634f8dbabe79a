/* amqp_admin.c: coney amqp declare, delete, purge, bind, unbind. */
#include "ends.h"
#include "figures.h"

#include <inttypes.h>

static void put_info(const coney_amqp_queue_info *info, bool as_json)
{
    struct figures f;
    figures_begin(&f, as_json);
    figures_text(&f, "queue", info->name);
    figures_unsigned(&f, "messages", info->messages);
    figures_unsigned(&f, "consumers", info->consumers);
    figures_end(&f);
}

int queue_declare_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &amqp_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_amqp_queue_info info;
    coney_amqp_queue queue = settings->queue;
    queue.type = (coney_queue_type)settings->queue_type;
    queue.arguments = settings->arguments.items;
    queue.argument_count = settings->arguments.count;
    queue.info = &info;
    coney_call call = {0};
    if (coney_amqp_queue_declare(s.rabbit, &queue, &call) == CONEY_OK && queue.passive)
        put_info(&info, settings->json);
    return session_close(&s, session_answer(&call));
}

int exchange_declare_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &amqp_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_amqp_exchange exchange = settings->exchange;
    exchange.arguments = settings->arguments.items;
    exchange.argument_count = settings->arguments.count;
    coney_call call = {0};
    coney_amqp_exchange_declare(s.rabbit, &exchange, &call);
    return session_close(&s, session_answer(&call));
}

static unsigned conditions(const struct settings *settings)
{
    return (settings->if_unused ? CONEY_IF_UNUSED : 0) | (settings->if_empty ? CONEY_IF_EMPTY : 0);
}

int queue_delete_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &amqp_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_call call = {0};
    if (coney_amqp_queue_delete(s.rabbit, settings->queue.name, conditions(settings), &call) == CONEY_OK && settings->verbose)
        complain(0, "%" PRIu64 " messages went with queue '%s'", call.value, settings->queue.name);
    return session_close(&s, session_answer(&call));
}

int exchange_delete_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &amqp_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_call call = {0};
    coney_amqp_exchange_delete(s.rabbit, settings->exchange.name, conditions(settings), &call);
    return session_close(&s, session_answer(&call));
}

int queue_purge_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &amqp_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_call call = {0};
    if (coney_amqp_queue_purge(s.rabbit, settings->queue.name, &call) == CONEY_OK && settings->verbose)
        complain(0, "%" PRIu64 " messages of queue '%s' are gone", call.value, settings->queue.name);
    return session_close(&s, session_answer(&call));
}

static int with_binding(const struct settings *settings,
                        coney_status (*change)(coney_amqp *rabbit, const coney_amqp_binding *binding, coney_call *call))
{
    if (settings->binding.source == NULL)
        return complain(EXIT_USAGE, "--exchange is missing");
    struct session s;
    int code = session_open(&s, &amqp_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_amqp_binding binding = settings->binding;
    binding.arguments = settings->arguments.items;
    binding.argument_count = settings->arguments.count;
    coney_call call = {0};
    change(s.rabbit, &binding, &call);
    return session_close(&s, session_answer(&call));
}

int bind_run(const struct settings *settings)
{
    return with_binding(settings, coney_amqp_bind);
}

int unbind_run(const struct settings *settings)
{
    return with_binding(settings, coney_amqp_unbind);
}
