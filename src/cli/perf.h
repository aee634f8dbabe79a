/* perf.h: the two sides of a throughput run. A publisher is a thread with a producer, a consumer is a consumer; perf.c starts them,
 * ends them and sums them up.
 */
#ifndef CLI_PERF_H
#define CLI_PERF_H

#include "histogram.h"
#include "sending.h"
#include "session.h"

#include <pthread.h>

/* What the sides of a run share. Constant while it runs but for the two counts. */
struct perf {
    const struct settings *settings;
    struct session session;
    uint32_t run;  /* of stamps; 0 = messages are not stamped */
    int64_t start; /* of publishing, by clock.h */
    atomic_uint publishers_left;
    atomic_uint consumers_left; /* that have a count to reach */
};

struct perf_publisher {
    struct perf *perf;
    uint64_t index;
    uint64_t quota; /* messages to send */
    coney_stream_producer *producer;
    pthread_t thread;
    char *body;           /* of the size asked for */
    char *stamped;        /* another, for batches, whose first message is stamped */
    int64_t sent_at;      /* when the last message was accepted */
    int64_t confirmed_at; /* when the last outcome was there */
    bool failed;
    _Alignas(64) _Atomic uint64_t accepted; /* by its thread */
    _Alignas(64) struct outcomes outcomes;  /* by the library's */
};

/* Opens the producer. EXIT_DONE or another code; perf_publisher_end in any case. `p` is zeroed memory aligned to 64. */
int perf_publisher_open(struct perf_publisher *p, struct perf *perf, uint64_t index, uint64_t quota);

/* Starts the thread, which publishes its quota, or until the end is asked for, and then waits for all outcomes. */
int perf_publisher_start(struct perf_publisher *p);

void perf_publisher_end(struct perf_publisher *p);

struct perf_consumer {
    struct perf *perf;
    coney_stream_consumer *consumer;
    uint64_t quota;
    int64_t opened_at;
    _Alignas(64) _Atomic uint64_t consumed;
    _Atomic int64_t last_at;  /* when the last chunk was done */
    struct histogram latency; /* to be read after the end */
};

/* Subscribes; messages are counted from here on, up to `quota`. */
int perf_consumer_open(struct perf_consumer *c, struct perf *perf, uint64_t quota);

void perf_consumer_end(struct perf_consumer *c);

#endif
