/* coney_latency.c: from the creation of a message to its handler, bursts or one at a time. */
#define _GNU_SOURCE
#include "coney_side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct latency {
    struct samples samples; /* the dispatcher's until `done` */
    sem_t done;
};

static coney_settle take_sample(void *ctx, const coney_stream_delivery *delivery)
{
    struct latency *l = ctx;
    uint64_t created;
    memcpy(&created, delivery->body.data, sizeof created);
    sample_add(&l->samples, now_ns() - created);
    if (l->samples.count == l->samples.cap)
        sem_post(&l->done);
    return CONEY_ACK;
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

static void send_bursts(coney_stream_producer *producer, const struct options *o, uint64_t bursts)
{
    uint8_t *body = must_alloc(o->size);
    memset(body, 'x', o->size);
    uint64_t period = SECOND / o->rate, start = now_ns();
    for (uint64_t i = 0; i < bursts; i++) {
        sleep_until(start + (i + 1) * period);
        for (uint64_t k = 0; k < o->messages; k++) {
            uint64_t now = now_ns();
            memcpy(body, &now, sizeof now);
            side_send(producer, coney_bytes_of(body, o->size), i * o->messages + k);
        }
    }
    free(body);
}

static void confirmed(void *ctx, const coney_outcome *outcome)
{
    (void)ctx;
    if (outcome->status != CONEY_OK)
        die("a message was not confirmed: %s", coney_status_text(outcome->status));
}

/* One second of warm-up is sent and left out. */
static void measure_latency(const char *row, const struct options *o)
{
    if (o->messages == 0 || o->rate == 0 || o->seconds == 0 || o->size < sizeof(uint64_t))
        die("--messages, --rate and --seconds must be at least 1, and --size 8");
    uint64_t bursts = o->rate * (o->seconds + 1);
    struct latency l = {.samples = samples_of(bursts * o->messages)};
    sem_init(&l.done, 0, 0);
    const char *stream = own_stream("coney");
    coney_stream_env *env = side_open(o);
    side_create(env, stream);
    coney_stream_consumer_options reading = {.on_message = take_sample, .ctx = &l, .credit = (int64_t)o->credit};
    coney_stream_consumer *consumer = side_consumer(env, stream, &reading);
    coney_stream_producer *producer = side_producer(env, stream, &(coney_stream_producer_options){.on_outcome = confirmed});
    send_bursts(producer, o, bursts);
    side_flush(producer);
    side_await(&l.done);
    side_close_producer(&producer);
    side_close_consumer(&consumer);
    side_delete(env, stream);
    side_close(&env);
    print_latency("coney", row, &l.samples, o->rate * o->messages);
    samples_free(&l.samples);
    sem_destroy(&l.done);
}

void coney_latency(const struct options *o)
{
    measure_latency("latency", o);
}

void coney_single(const struct options *o)
{
    struct options one = *o;
    one.messages = 1;
    measure_latency("single", &one);
}
