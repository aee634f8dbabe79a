/* The broker in memory: see conformance.h. Topics that retain their messages, so that they can be sought in. */
#define _GNU_SOURCE
#include "conformance.h"

static coney_broker *broker(coney_app *app)
{
    static const coney_memory_options options = {.retain_messages = 100000};
    return coney_app_memory(app, &options);
}

static void source(const char *name, struct conformance_source *of)
{
    of->as.topic = (coney_topic_source){.name = name, .start = CONEY_STREAM_FIRST};
    of->source = coney_source_topic(&of->as.topic);
}

static coney_broker *forgetful(coney_app *app)
{
    return coney_app_memory(app, NULL);
}

static void tip(const char *name, struct conformance_source *of)
{
    of->as.topic = (coney_topic_source){.name = name};
    of->source = coney_source_topic(&of->as.topic);
}

int main(void)
{
    return conformance_run(&(struct conformance){.name = "memory, retained topics",
                                                 .broker = broker,
                                                 .source = source,
                                                 .drops_orphans = true,
                                                 .seeks = true,
                                                 .requests = true,
                                                 .transactions = true,
                                                 .keeps = true}) +
           conformance_run(&(struct conformance){.name = "memory",
                                                 .broker = forgetful,
                                                 .source = tip,
                                                 .drops_orphans = true,
                                                 .requests = true,
                                                 .transactions = true});
}
