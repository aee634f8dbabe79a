/* coney_handles.c: what a thousand producers and a thousand consumers in one environment take. */
#include "coney_side.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARE = 10, BURST = 100, SIZE = 100, NAME_CAP = 80 };

/* SHARE producers and SHARE consumers on each stream. */
struct many {
    size_t count;
    char (*streams)[NAME_CAP];
    size_t stream_count;
    coney_stream_producer **producers;
    coney_stream_consumer **consumers;
    uint64_t expected;
    _Atomic uint64_t received;
    sem_t done;
};

static coney_settle count_message(void *ctx, const coney_stream_delivery *delivery)
{
    struct many *many = ctx;
    (void)delivery;
    if (atomic_fetch_add_explicit(&many->received, 1, memory_order_relaxed) + 1 == many->expected)
        sem_post(&many->done);
    return CONEY_ACK;
}

static uint64_t resident_kib(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    uint64_t kib = 0;
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmRSS: %" SCNu64, &kib) == 1)
            break;
    if (status == NULL || kib == 0)
        die("/proc/self/status does not tell VmRSS");
    fclose(status);
    return kib;
}

static struct many many_on(coney_stream_env *env, size_t count)
{
    struct many many = {.count = count, .stream_count = count / SHARE, .expected = count * SHARE * BURST};
    many.streams = must_alloc(many.stream_count * sizeof *many.streams);
    many.producers = must_alloc(count * sizeof *many.producers);
    many.consumers = must_alloc(count * sizeof *many.consumers);
    memset(many.producers, 0, count * sizeof *many.producers);
    memset(many.consumers, 0, count * sizeof *many.consumers);
    for (size_t i = 0; i < many.stream_count; i++) {
        snprintf(many.streams[i], sizeof many.streams[i], "%s-%zu", own_stream("coney"), i);
        side_create(env, many.streams[i]);
    }
    return many;
}

static void many_open(struct many *many, coney_stream_env *env)
{
    coney_stream_consumer_options reading = {.on_message = count_message, .ctx = many};
    for (size_t i = 0; i < many->count; i++) {
        const char *stream = many->streams[i / SHARE];
        many->producers[i] = side_producer(env, stream, NULL);
        many->consumers[i] = side_consumer(env, stream, &reading);
    }
}

static void many_send(struct many *many)
{
    static const uint8_t body[SIZE];
    for (size_t i = 0; i < many->count; i++)
        for (uint64_t k = 0; k < BURST; k++)
            side_send(many->producers[i], coney_bytes_of(body, sizeof body), k);
    for (size_t i = 0; i < many->count; i++)
        side_flush(many->producers[i]);
    side_await(&many->done);
}

static void many_close(struct many *many, coney_stream_env *env)
{
    for (size_t i = 0; i < many->count; i++) {
        side_close_producer(&many->producers[i]);
        side_close_consumer(&many->consumers[i]);
    }
    for (size_t i = 0; i < many->stream_count; i++)
        side_delete(env, many->streams[i]);
    free(many->producers);
    free(many->consumers);
    free(many->streams);
}

void coney_handles(const struct options *o)
{
    if (o->handles == 0 || o->handles % SHARE != 0)
        die("--handles must be a multiple of %d", SHARE);
    coney_stream_env *env = side_open(o);
    struct many many = many_on(env, o->handles);
    sem_init(&many.done, 0, 0);
    uint64_t before = resident_kib(), start = now_ns();
    many_open(&many, env);
    uint64_t opened = now_ns();
    many_send(&many);
    uint64_t after = resident_kib();
    coney_stream_env_stats stats;
    coney_stream_env_get_stats(env, &stats);
    many_close(&many, env);
    side_close(&env);
    printf("{\"side\": \"coney\", \"row\": \"handles\", \"producers\": %" PRIu64 ", \"consumers\": %" PRIu64
           ", \"connections\": %" PRIu64 ", \"kib_each\": %.2f, \"open_ms_each\": %.3f, \"deliveries\": %" PRIu64
           ", \"memory_out\": %" PRIu64 ", \"memory_idle\": %" PRIu64 "}\n",
           stats.producers, stats.consumers, stats.connections, (double)(after - before) / (double)(2 * o->handles),
           (double)(opened - start) / 1e6 / (double)(2 * o->handles), many.received, stats.memory_out, stats.memory_idle);
}
