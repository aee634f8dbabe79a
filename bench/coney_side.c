/* coney_side.c: opening, closing and sending for coney's side; see coney_side.h. */
#define _GNU_SOURCE
#include "coney_side.h"

#include <errno.h>
#include <stdlib.h>

static coney_settle ignore_message(void *ctx, const coney_stream_delivery *delivery)
{
    (void)ctx;
    (void)delivery;
    return CONEY_ACK;
}

void side_must(coney_status status, const coney_call *call)
{
    if (status != CONEY_OK)
        die("%s", call->text[0] != '\0' ? call->text : coney_status_text(status));
}

coney_stream_env *side_open(const struct options *options)
{
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(options->uri, NULL, &call);
    side_must(call.status, &call);
    return env;
}

void side_close(coney_stream_env **env)
{
    coney_call call = {0};
    side_must(coney_stream_env_close(env, &call), &call);
}

void side_create(coney_stream_env *env, const char *stream)
{
    coney_call call = {0};
    side_must(coney_stream_create(env, stream, NULL, &call), &call);
}

void side_delete(coney_stream_env *env, const char *stream)
{
    coney_call call = {0};
    side_must(coney_stream_delete(env, stream, &call), &call);
}

coney_stream_producer *side_producer(coney_stream_env *env, const char *stream, const coney_stream_producer_options *options)
{
    coney_call call = {0};
    coney_stream_producer *producer = coney_stream_producer_open(env, stream, options, &call);
    side_must(call.status, &call);
    return producer;
}

coney_stream_consumer *side_consumer(coney_stream_env *env, const char *stream, const coney_stream_consumer_options *options)
{
    coney_call call = {0};
    coney_stream_consumer *consumer = coney_stream_consumer_open(env, stream, options, &call);
    side_must(call.status, &call);
    return consumer;
}

void side_flush(coney_stream_producer *producer)
{
    coney_call call = {.deadline = 60 * CONEY_SECOND};
    side_must(coney_stream_producer_flush(producer, &call), &call);
}

void side_close_producer(coney_stream_producer **producer)
{
    coney_call call = {0};
    side_must(coney_stream_producer_close(producer, &call), &call);
}

void side_close_consumer(coney_stream_consumer **consumer)
{
    coney_call call = {0};
    side_must(coney_stream_consumer_close(consumer, &call), &call);
}

void side_await(sem_t *done)
{
    uint64_t limit = now_ns() + 120 * SECOND;
    struct timespec at = {.tv_sec = (time_t)(limit / SECOND), .tv_nsec = (long)(limit % SECOND)};
    while (sem_clockwait(done, CLOCK_MONOTONIC, &at) != 0)
        if (errno != EINTR)
            die("not every message arrived within two minutes");
}

struct crowd crowd_open(coney_stream_env *env, const char *stream, size_t count)
{
    struct crowd crowd = {.producers = must_alloc(count * sizeof(void *) + 1),
                          .consumers = must_alloc(count * sizeof(void *) + 1),
                          .count = count};
    coney_stream_consumer_options consumer = {.on_message = ignore_message};
    for (size_t i = 0; i < count; i++) {
        crowd.producers[i] = side_producer(env, stream, NULL);
        crowd.consumers[i] = side_consumer(env, stream, &consumer);
    }
    return crowd;
}

void crowd_close(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->count; i++) {
        side_close_producer(&crowd->producers[i]);
        side_close_consumer(&crowd->consumers[i]);
    }
    free(crowd->producers);
    free(crowd->consumers);
    *crowd = (struct crowd){0};
}
