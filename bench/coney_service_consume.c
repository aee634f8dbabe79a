/* coney_service_consume.c: a queue, and a stream, that a service reads to the end. */
#include "coney_service_side.h"

static void consume(const struct options *o, coney_app *app, coney_broker *broker, coney_source source, const char *row)
{
    if (o->count == 0)
        die("--count (the messages that are there) must be at least 1");
    struct count *count = &service_count;
    *count = (struct count){.due = 1, .step = o->count, .last = o->count};
    sem_init(&count->reached, 0, 0);
    service_subscribe(broker, source, o);
    service_start(app);
    service_await();
    let_acks_arrive();
    service_stop(&app);
    service_check(o);
    print_rate("coney", row, "consumed_per_second", o->size, o->count, count->end - count->start);
}

void service_consume(const struct options *o)
{
    coney_app *app = service_app();
    coney_broker *broker = coney_app_amqp(app, o->uri, NULL);
    consume(o, app, broker, CONEY_QUEUE(given_queue(o), .prefetch = (int64_t)o->prefetch), "consume");
}

void service_replay(const struct options *o)
{
    coney_app *app = service_app();
    coney_broker *broker = coney_app_stream(app, o->uri, NULL);
    consume(o, app, broker,
            CONEY_STREAM(given_stream(o), .consumer = "", .start_if_new = CONEY_STREAM_FIRST, .credit = (int64_t)o->credit),
            "replay");
}
