/* measure.h: what every program in bench/ does the same way, so that the two sides of a ratio differ in nothing else.
 *
 * Options, the clock, latency samples, and one JSON object on standard output as the result. A bench program that cannot
 * do its work says why on standard error and ends with status 1: there is nobody to hand an error to. Not thread-safe.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)

/* Says what went wrong and ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

/* malloc that never fails. */
void *must_alloc(size_t size);

/* Monotonic nanoseconds: the only clock of a measurement. Both ends of a latency are in one process. */
static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* What the sub-commands understand; each reads its own part. 0 in a number = the sub-command's own default. */
struct options {
    const char *uri;    /* --uri, CONEY_URI or guest at localhost by the stream protocol */
    const char *stream; /* --stream; NULL: one of its own, deleted at the end */
    const char *queue;  /* --queue; the same */
    const char *type;   /* --type: of a queue that is declared; default classic */
    const char *ca;     /* --ca: PEM file of whom to believe over TLS */
    uint64_t size;      /* --size: bytes of a message's body, inside an AMQP data section; default 12 */
    uint64_t count;     /* --count: messages */
    uint64_t messages;  /* --messages: in a burst; default 50 */
    uint64_t rate;      /* --rate: bursts a second; default 1 */
    uint64_t seconds;   /* --seconds: of a latency run, after one second of warm-up; default 10 */
    uint64_t window;    /* --window: unconfirmed messages at most */
    uint64_t frame;     /* --frame: messages of a prebuilt Publish frame or chunk */
    uint64_t credit;    /* --credit: chunks under way at most; default 10 */
    uint64_t passes;    /* --passes: how often a replay reads the whole stream; default 1 */
    uint64_t handles;   /* --handles: producers, and as many consumers, that are open beside */
    uint64_t skip_crc;  /* --skip-crc 1: chunks are not checked */
    uint64_t prefetch;  /* --prefetch: deliveries that are not settled at most; default 512 */
    uint64_t ack_each;  /* --ack-each 1: an ack of its own for each message, instead of one for many */
    uint64_t on_loop;   /* --on-loop 1: the handler runs where the socket is read */
    uint64_t json;      /* --json 1: messages are those of order.h, and are decoded */
    uint64_t reply;     /* --reply 1: the handler publishes */
};

struct command {
    const char *name;
    void (*run)(const struct options *options);
};

/* Runs the command that argv[1] names with the `--name value` pairs after it. What main returns. */
int run_command(const struct command *commands, size_t count, int argc, char **argv);

/* "bench-SIDE-PID": a stream or queue of this process's own. Valid until the next call. */
const char *own_stream(const char *side);

/* options->stream and options->queue, which must be given. */
const char *given_stream(const struct options *options);
const char *given_queue(const struct options *options);

/* Waits a moment before a consuming connection ends, outside of what is measured: a quorum queue takes acks in its own time, and
 * loses those that it had not taken when their channel ends. */
void let_acks_arrive(void);

/* Latency samples, in order of arrival. One allocation, touched before the clock matters. */
struct samples {
    uint64_t *ns;
    size_t count;
    size_t cap;
};

struct samples samples_of(size_t cap);
void samples_free(struct samples *samples);

static inline void sample_add(struct samples *samples, uint64_t ns)
{
    if (samples->count == samples->cap)
        die("more messages arrived than were sent");
    samples->ns[samples->count++] = ns;
}

/* The result of a latency run. Leaves out the first `warmup` samples and sorts the others. */
void print_latency(const char *side, const char *row, const struct samples *all, size_t warmup);

/* The result of a throughput run. `rate_name` is "confirmed_per_second" or "consumed_per_second". */
void print_rate(const char *side, const char *row, const char *rate_name, uint64_t size, uint64_t messages, uint64_t ns);

#endif
