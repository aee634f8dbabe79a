/* perf.h: the two sides of a throughput run. A publisher is a thread with a sender, a consumer is a receiver; perf.c starts them,
 * ends them and sums them up.
 */
#ifndef CLI_PERF_H
#define CLI_PERF_H

#include "ends.h"
#include "histogram.h"

#include <pthread.h>

/* What the sides of a run share. Constant while it runs but for the counts. */
struct perf {
    const struct settings *settings;
    struct session session;
    struct place from;     /* where consumers of a stream begin */
    bool shared;           /* consumers share the messages: those of a queue, not of a stream */
    bool unconfirmed;      /* publishers ask for no confirmations */
    uint32_t run;          /* of stamps; 0 = messages are not stamped */
    int64_t start;         /* of publishing, by clock.h */
    uint64_t quota;        /* messages to consume: each consumer, or all that share; UINT64_MAX = no end */
    _Atomic uint64_t left; /* of the quota that is shared */
    atomic_uint quotas;    /* that are not reached yet */
    atomic_uint publishers_left;
};

/* Publishes --prefill messages before the run. EXIT_DONE or another code. */
int perf_prefill(struct perf *perf);

struct perf_publisher {
    struct perf *perf;
    uint64_t index;
    uint64_t quota; /* messages to send */
    struct sender sender;
    pthread_t thread;
    char *body;           /* of the size asked for */
    char *stamped;        /* another, for batches, whose first message is stamped */
    int64_t sent_at;      /* when the last message was accepted */
    int64_t confirmed_at; /* when the last outcome was there */
    bool failed;
    _Alignas(64) _Atomic uint64_t accepted; /* by its thread */
    _Alignas(64) struct outcomes outcomes;  /* by the library's */
};

/* Opens the sender. EXIT_DONE or another code; perf_publisher_end in any case. `p` is zeroed memory aligned to 64. */
int perf_publisher_open(struct perf_publisher *p, struct perf *perf, uint64_t index, uint64_t quota);

/* Starts the thread, which publishes its quota, or until the end is asked for, and then waits for all outcomes. */
int perf_publisher_start(struct perf_publisher *p);

void perf_publisher_end(struct perf_publisher *p);

struct perf_consumer {
    struct perf *perf;
    struct receiver receiver;
    int64_t opened_at;
    _Atomic uint64_t own;   /* what is left of a quota of its own */
    _Atomic uint64_t *left; /* what is left to it: this, or what all share */
    _Alignas(64) _Atomic uint64_t consumed;
    _Atomic int64_t last_at;  /* when the last message was done */
    struct histogram latency; /* to be read after the end */
};

/* Subscribes; messages are counted from here on, up to the quota. */
int perf_consumer_open(struct perf_consumer *c, struct perf *perf);

void perf_consumer_end(struct perf_consumer *c);

#endif
