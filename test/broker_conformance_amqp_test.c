/* The transport over AMQP 0-9-1, on a real node, over classic and over quorum queues: see conformance.h. */
#define _GNU_SOURCE
#include "conformance.h"

#include "node.h"

#include <coney/amqp.h>

static struct node node;
static char uri[64];
static coney_amqp *admin;

static coney_broker *broker(coney_app *app)
{
    return coney_app_amqp(app, uri, NULL);
}

static coney_broker *unreachable(coney_app *app)
{
    return coney_app_amqp(app, "amqp://localhost:1", NULL);
}

static void classic(const char *name, struct conformance_source *of)
{
    of->as.queue = (coney_queue_source){.name = name, .declare = true};
    of->source = coney_source_queue(&of->as.queue);
}

static void quorum(const char *name, struct conformance_source *of)
{
    of->as.queue = (coney_queue_source){.name = name, .type = CONEY_QUEUE_QUORUM, .declare = true};
    of->source = coney_source_queue(&of->as.queue);
}

static void waiting(const char *name, struct conformance_source *of)
{
    of->as.queue = (coney_queue_source){.name = name, .declare = true, .delay = CONEY_DELAY_QUEUE};
    of->source = coney_source_queue(&of->as.queue);
}

static void missing(const char *name, struct conformance_source *of)
{
    of->as.queue = (coney_queue_source){.name = name};
    of->source = coney_source_queue(&of->as.queue);
}

static void forget(const char *name)
{
    coney_amqp_queue_delete(admin, name, 0, NULL);
}

static int run(const char *name, void (*source)(const char *name, struct conformance_source *of), bool delays)
{
    return conformance_run(&(struct conformance){
        .name = name,
        .broker = broker,
        .unreachable = unreachable,
        .source = source,
        .missing = missing,
        .forget = forget,
        .keeps = true,
        .remembers = true,
        .gives_back = true,
        .shares = true,
        .copies_back = true,
        .delays = delays,
        .requests = true,
        .transactions = true,
        .acks_singly = true,
    });
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    snprintf(uri, sizeof uri, "amqp://guest:guest@127.0.0.1:%u", (unsigned)node.amqp_port);
    coney_call call = {0};
    admin = coney_amqp_open(uri, NULL, &call);
    if (admin == NULL) {
        fprintf(stderr, "%s\n", call.text);
        return 1;
    }
    int failed = run("amqp, classic queues", classic, false) + run("amqp, quorum queues", quorum, false) +
                 run("amqp, queues with waiting queues", waiting, true);
    coney_amqp_close(&admin, NULL);
    return failed;
}
