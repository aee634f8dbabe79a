/* coney_amqp_round_trip.c: one message at a time through a queue. */
#include "coney_amqp_side.h"

#include <stdlib.h>
#include <string.h>

struct trips {
    struct samples samples; /* the handler's until it has posted `delivered` */
    sem_t delivered;
    sem_t confirmed;
};

static coney_settle take_sample(void *ctx, const coney_amqp_delivery *delivery)
{
    struct trips *trips = ctx;
    uint64_t created;
    memcpy(&created, delivery->body.data, sizeof created);
    sample_add(&trips->samples, now_ns() - created);
    sem_post(&trips->delivered);
    return CONEY_ACK;
}

static void note_confirmed(void *ctx, const coney_outcome *outcome)
{
    struct trips *trips = ctx;
    if (outcome->status != CONEY_OK)
        die("a message was not confirmed: %s", coney_status_text(outcome->status));
    sem_post(&trips->confirmed);
}

static void make_trips(struct trips *trips, coney_amqp_publisher *publisher, size_t size)
{
    uint8_t *data = must_alloc(size);
    memset(data, 'x', size);
    coney_amqp_message message = {.body = coney_bytes_of(data, size)};
    for (; message.tag < trips->samples.cap; message.tag++) {
        uint64_t now = now_ns();
        memcpy(data, &now, sizeof now);
        rabbit_publish(publisher, &message);
        side_await(&trips->delivered);
        side_await(&trips->confirmed);
    }
    free(data);
}

void coney_amqp_round_trip(const struct options *o)
{
    if (o->count == 0 || o->size < sizeof(uint64_t))
        die("--count must be at least 1, and --size 8");
    uint64_t warmup = o->count / 10;
    struct trips trips = {.samples = samples_of(o->count + warmup)};
    sem_init(&trips.delivered, 0, 0);
    sem_init(&trips.confirmed, 0, 0);
    coney_amqp *rabbit = rabbit_open(o);
    const char *queue = rabbit_queue(rabbit, o);
    coney_amqp_consumer_options reading = {
        .on_delivery = take_sample, .ctx = &trips, .prefetch = (int64_t)o->prefetch, .on_loop = o->on_loop != 0};
    coney_amqp_consumer *consumer = rabbit_consumer(rabbit, queue, &reading);
    coney_amqp_publisher_options writing = {.routing_key = queue, .on_outcome = note_confirmed, .ctx = &trips};
    coney_amqp_publisher *publisher = rabbit_publisher(rabbit, &writing);
    make_trips(&trips, publisher, o->size);
    rabbit_close_publisher(&publisher);
    rabbit_close_consumer(&consumer);
    rabbit_delete(rabbit, queue);
    rabbit_close(&rabbit);
    print_latency("coney", "round-trip", &trips.samples, warmup);
    samples_free(&trips.samples);
    sem_destroy(&trips.delivered);
    sem_destroy(&trips.confirmed);
}
