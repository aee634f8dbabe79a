/* The broker in memory: see conformance.h. As itself, with topics that retain their messages and topics that do not; and, without a thread, in the place
 * of a server: the same scenarios as for the server, with the same answers. */
#define _GNU_SOURCE
#include "conformance.h"

#include "service/app.h"
#include "transport/memory.h"

/* As itself ------------------------------------------------------------------------------------------------------------------ */

static coney_broker *retaining(coney_app *app)
{
    static const coney_memory_options options = {.retain_messages = 100000};
    return coney_app_memory(app, &options);
}

static void from_first(const char *name, struct conformance_source *of)
{
    of->as.topic = (coney_topic_source){.name = name, .start = CONEY_STREAM_FIRST};
    of->source = coney_source_topic(&of->as.topic);
}

static coney_broker *forgetful(coney_app *app)
{
    return coney_app_memory(app, NULL);
}

static void from_now(const char *name, struct conformance_source *of)
{
    of->as.topic = (coney_topic_source){.name = name};
    of->source = coney_source_topic(&of->as.topic);
}

/* In the place of a server: a queue or a stream that the app does not declare counts as one that the server has (drops_orphans) ------------------------------------------------------------------------------------------------------- */

/* The clock goes on only when nothing else is left to do. */
static bool step(coney_broker *broker)
{
    struct worker *worker = broker->app->worker;
    if (memory_run_one(broker) || worker_run_one(worker))
        return true;
    int64_t due = memory_next_due(broker);
    int64_t worker_due = worker_next_due(worker);
    due = worker_due < due ? worker_due : due;
    if (due == INT64_MAX)
        return false;
    worker_set_now(worker, due);
    return true;
}

static coney_broker *stand_in(coney_broker *broker)
{
    must(memory_stand_in(broker), NULL, "memory_stand_in");
    return broker;
}

static coney_broker *amqp(coney_app *app)
{
    return stand_in(coney_app_amqp(app, "amqp://guest:guest@localhost", NULL));
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

static int like_amqp(const char *name, void (*source)(const char *name, struct conformance_source *of), bool delays)
{
    return conformance_run(&(struct conformance){
        .name = name,
        .broker = amqp,
        .source = source,
        .step = step,
        .drops_orphans = true,
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

static coney_broker *stream(coney_app *app)
{
    return stand_in(coney_app_stream(app, "rabbitmq-stream://guest:guest@localhost", NULL));
}

static void log_source(const char *name, struct conformance_source *of)
{
    of->as.stream = (coney_stream_source){.name = name, .declare = true, .start_if_new = CONEY_STREAM_FIRST};
    of->source = coney_source_stream(&of->as.stream);
}

int main(void)
{
    return conformance_run(&(struct conformance){.name = "memory, retained topics",
                                                 .broker = retaining,
                                                 .source = from_first,
                                                 .drops_orphans = true,
                                                 .seeks = true,
                                                 .requests = true,
                                                 .transactions = true,
                                                 .keeps = true}) +
           conformance_run(&(struct conformance){.name = "memory",
                                                 .broker = forgetful,
                                                 .source = from_now,
                                                 .drops_orphans = true,
                                                 .requests = true,
                                                 .transactions = true}) +
           like_amqp("memory for amqp, classic queues", classic, false) +
           like_amqp("memory for amqp, quorum queues", quorum, false) +
           like_amqp("memory for amqp, queues with waiting queues", waiting, true) +
           conformance_run(&(struct conformance){.name = "memory for streams",
                                                 .broker = stream,
                                                 .source = log_source,
                                                 .step = step,
                                                 .drops_orphans = true,
                                                 .keeps = true,
                                                 .remembers = true,
                                                 .gives_back = true,
                                                 .seeks = true});
}
