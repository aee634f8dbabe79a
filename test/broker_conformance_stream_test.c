/* The transport over the stream protocol, on a real node: see conformance.h. */
#define _GNU_SOURCE
#include "conformance.h"

#include "node.h"

static struct node node;
static coney_stream_env *admin;

static coney_broker *broker(coney_app *app)
{
    return coney_app_stream(app, node.uri, NULL);
}

static coney_broker *unreachable(coney_app *app)
{
    return coney_app_stream(app, "rabbitmq-stream://localhost:1", NULL);
}

static void source(const char *name, struct conformance_source *of)
{
    of->as.stream = (coney_stream_source){.name = name, .declare = true, .start_if_new = CONEY_STREAM_FIRST};
    of->source = coney_source_stream(&of->as.stream);
}

static void missing(const char *name, struct conformance_source *of)
{
    of->as.stream = (coney_stream_source){.name = name, .consumer = "nobody"};
    of->source = coney_source_stream(&of->as.stream);
}

static void forget(const char *name)
{
    coney_stream_delete(admin, name, NULL);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    coney_call call = {0};
    admin = coney_stream_env_open(node.uri, NULL, &call);
    if (admin == NULL) {
        fprintf(stderr, "%s\n", call.text);
        return 1;
    }
    int failed = conformance_run(&(struct conformance){
        .name = "stream",
        .broker = broker,
        .unreachable = unreachable,
        .source = source,
        .missing = missing,
        .forget = forget,
        .keeps = true,
        .remembers = true,
        .gives_back = true,
        .seeks = true,
    });
    coney_stream_env_close(&admin, NULL);
    return failed;
}
