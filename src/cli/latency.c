/* latency.c: coney latency: bursts of messages on a timetable, each timed from its sending to its handler. */
#include "clock.h"
#include "ends.h"
#include "figures.h"
#include "output.h"
#include "stamp.h"
#include "stop.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

/* How long the end waits for confirmations, and then for messages without one coming. */
#define PATIENCE (10 * CONEY_SECOND)
#define DRAIN (5 * CONEY_SECOND)

struct latency {
    const struct settings *settings;
    struct session session;
    struct sender sender;
    struct receiver receiver;
    uint32_t run;
    uint64_t sent;
    struct outcomes outcomes;
    _Atomic uint64_t received;
    pthread_mutex_t lock;      /* of `filling` */
    struct histogram *filling; /* this report's, by the consumer */
    struct histogram *full;    /* the last report's; empty between reports */
    struct histogram histograms[2];
    struct histogram total;
};

static bool on_arrivals(void *ctx, struct arrivals *arrivals)
{
    struct latency *l = ctx;
    coney_bytes body;
    int64_t sent_at;
    while (arrivals_next(arrivals, &body)) {
        int64_t now = clock_now();
        if (!stamp_read(body, l->run, &sent_at))
            continue;
        pthread_mutex_lock(&l->lock);
        histogram_add(l->filling, now - sent_at);
        pthread_mutex_unlock(&l->lock);
        atomic_fetch_add_explicit(&l->received, 1, memory_order_release);
    }
    return true;
}

static void put_line(const struct histogram *h, const char *what)
{
    printf("%s %8" PRIu64 " messages", what, h->count);
    if (h->count > 0)
        printf("  average %9.3f ms  p50 %9.3f  p99 %9.3f  p99.9 %9.3f  max %9.3f", (double)histogram_average(h) / 1e6,
               (double)histogram_percentile(h, 0.5) / 1e6, (double)histogram_percentile(h, 0.99) / 1e6,
               (double)histogram_percentile(h, 0.999) / 1e6, (double)h->max / 1e6);
    putchar('\n');
    output_flush();
}

static void put_json(const struct histogram *h, bool summary)
{
    struct figures f;
    figures_begin(&f, true);
    figures_latency(&f, h);
    if (summary)
        figures_mark(&f, "summary");
    figures_end(&f);
}

static void report(struct latency *l)
{
    pthread_mutex_lock(&l->lock);
    struct histogram *full = l->filling;
    l->filling = l->full;
    pthread_mutex_unlock(&l->lock);
    l->full = full;

    if (l->settings->json)
        put_json(full, false);
    else
        put_line(full, "       ");
    histogram_merge(&l->total, full);
    *full = (struct histogram){0};
    if (ferror(stdout))
        stop_ask();
}

/* False: the run cannot go on. */
static bool burst(struct latency *l)
{
    for (int64_t i = 0; i < l->settings->messages && !stop_asked(); i++) {
        char body[STAMP_SIZE];
        stamp_write(body, l->run, clock_now());
        coney_status status = sender_send(&l->sender, coney_bytes_of(body, sizeof body), l->sent);
        if (status == CONEY_ETIMEDOUT)
            return true;
        if (status != CONEY_OK) {
            complain(0, "message %" PRIu64 " could not be sent: %s", l->sent, coney_status_text(status));
            return false;
        }
        l->sent++;
    }
    return true;
}

/* Bursts and reports until the time is over. When both are due the report comes first: it is about whole bursts. */
static int measure(struct latency *l)
{
    int64_t start = clock_now();
    int64_t end = start + l->settings->duration;
    int64_t next_burst = start;
    int64_t next_report = start + l->settings->report;
    for (;;) {
        int64_t next = next_report < next_burst ? next_report : next_burst;
        if (stop_wait(next < end ? next : end) || next >= end)
            return EXIT_DONE;
        if (next == next_report) {
            report(l);
            next_report += l->settings->report;
            continue;
        }
        if (!burst(l))
            return EXIT_FAILED;
        next_burst += l->settings->period;
    }
}

static int open_both(struct latency *l)
{
    coney_call call = {0};
    l->receiver = (struct receiver){.session = &l->session, .on_arrivals = on_arrivals, .ctx = l};
    l->sender = (struct sender){.session = &l->session, .outcomes = &l->outcomes};
    if (receiver_open(&l->receiver, &call) && sender_open(&l->sender, &call))
        return EXIT_DONE;
    receiver_close(&l->receiver);
    return complain(EXIT_FAILED, "%s", call.text);
}

static void drain(struct latency *l)
{
    uint64_t expected = l->sent - outcomes_lost(&l->outcomes);
    uint64_t seen = 0;
    for (int64_t limit = clock_now() + DRAIN; seen < expected && clock_now() < limit;) {
        uint64_t received = atomic_load_explicit(&l->received, memory_order_acquire);
        if (received > seen)
            limit = clock_now() + DRAIN;
        seen = received;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* What is missing at the end makes the run a failure. */
static int account(const struct latency *l)
{
    uint64_t lost = outcomes_lost(&l->outcomes);
    uint64_t received = atomic_load(&l->received);
    if (lost == 0 && received >= l->sent)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "of %" PRIu64 " messages sent, %" PRIu64 " were not confirmed and %" PRIu64 " did not arrive",
                    l->sent, lost, received < l->sent ? l->sent - received : 0);
}

static int run(struct latency *l)
{
    const char *asked = l->settings->queue.name != NULL ? l->settings->queue.name : l->settings->stream;
    int code = session_place(&l->session, asked, "latency");
    if (code == EXIT_DONE)
        code = open_both(l);
    if (code != EXIT_DONE)
        return code;
    code = measure(l);
    sender_flush(&l->sender, PATIENCE);
    sender_close(&l->sender);
    drain(l);
    receiver_close(&l->receiver);
    report(l);
    if (l->settings->json)
        put_json(&l->total, true);
    else
        put_line(&l->total, "summary");
    return account(l) == EXIT_DONE ? code : EXIT_FAILED;
}

int latency_run(const struct settings *settings)
{
    if (settings->stream != NULL && settings->queue.name != NULL)
        return complain(EXIT_USAGE, "--stream and --queue exclude each other");
    struct latency *l = calloc(1, sizeof *l);
    if (l == NULL)
        return complain(EXIT_FAILED, "out of memory");
    l->settings = settings;
    l->outcomes.what = "message";
    l->run = session_random();
    l->filling = &l->histograms[0];
    l->full = &l->histograms[1];
    pthread_mutex_init(&l->lock, NULL);

    int code = session_open(&l->session, settings->queue.name != NULL ? &amqp_protocol : &stream_protocol, settings);
    if (code == EXIT_DONE)
        code = session_close(&l->session, run(l));
    pthread_mutex_destroy(&l->lock);
    free(l);
    return code;
}
