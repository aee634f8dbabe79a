/* coney_side.h: coney's side of the rows of floor.h: the same work through the public headers only, as a user would write it,
 * with every option at its default. What the options of a bench program leave open is the library's choice.
 *
 * Each command prints one JSON object with the fields of the floor's. What the library refuses ends the program.
 */
#ifndef BENCH_CONEY_SIDE_H
#define BENCH_CONEY_SIDE_H

#include "measure.h"

#include <coney/stream.h>

#include <semaphore.h>

/* Ends the program with the call's text unless the status is CONEY_OK. */
void side_must(coney_status status, const coney_call *call);

/* Opening and closing that cannot fail: the call's text is the last word of the program. */
coney_stream_env *side_open(const struct options *options);
void side_close(coney_stream_env **env);
void side_create(coney_stream_env *env, const char *stream);
void side_delete(coney_stream_env *env, const char *stream);
coney_stream_producer *side_producer(coney_stream_env *env, const char *stream, const coney_stream_producer_options *options);
coney_stream_consumer *side_consumer(coney_stream_env *env, const char *stream, const coney_stream_consumer_options *options);
void side_flush(coney_stream_producer *producer);
void side_close_producer(coney_stream_producer **producer);
void side_close_consumer(coney_stream_consumer **consumer);

static inline void side_send(coney_stream_producer *producer, coney_bytes body, uint64_t tag)
{
    coney_status status = coney_stream_send(producer, body, tag);
    if (status != CONEY_OK)
        die("send: %s", coney_status_text(status));
}

/* Waits until a handler has posted `done`, two minutes at most. */
void side_await(sem_t *done);

/* Producers and consumers that are open beside what is measured. */
struct crowd {
    coney_stream_producer **producers;
    coney_stream_consumer **consumers;
    size_t count; /* of each */
};

struct crowd crowd_open(coney_stream_env *env, const char *stream, size_t count);
void crowd_close(struct crowd *crowd);

/* Creation to handler. Each message is sent by a call of its own. */
void coney_latency(const struct options *options);
void coney_single(const struct options *options);

/* Confirmed messages a second: one thread, a call and an outcome callback for each message, --handles idle producers and as
 * many idle consumers in the same environment. */
void coney_publish(const struct options *options);

/* Messages a second of a stream that is read from its beginning, with a handler call each. */
void coney_replay(const struct options *options);

/* What --handles producers and as many consumers take: connections, and resident memory when each producer has sent a burst
 * and each consumer has received those of its stream. */
void coney_handles(const struct options *options);

#endif
