/* perf.c: coney perf stream and coney perf amqp: starts both sides, tells how it goes, sums up. */
#define _GNU_SOURCE
#include "perf.h"
#include "clock.h"
#include "figures.h"
#include "pace.h"
#include "stamp.h"
#include "stop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* How long the end waits for messages without one coming. */
#define DRAIN (5 * CONEY_SECOND)

struct sums {
    uint64_t accepted, confirmed, refused, unknown, consumed;
};

struct table {
    struct perf perf;
    struct perf_publisher *publishers;
    struct perf_consumer *consumers;
    size_t publisher_count; /* opened */
    size_t consumer_count;
    size_t running; /* threads of publishers */
};

static struct sums sum(const struct table *t)
{
    struct sums s = {0};
    for (size_t i = 0; i < t->publisher_count; i++) {
        const struct perf_publisher *p = &t->publishers[i];
        s.accepted += atomic_load_explicit(&p->accepted, memory_order_relaxed);
        s.confirmed += atomic_load_explicit(&p->outcomes.confirmed, memory_order_relaxed);
        s.refused += atomic_load_explicit(&p->outcomes.refused, memory_order_relaxed);
        s.unknown += atomic_load_explicit(&p->outcomes.unknown, memory_order_relaxed);
    }
    for (size_t i = 0; i < t->consumer_count; i++)
        s.consumed += atomic_load_explicit(&t->consumers[i].consumed, memory_order_acquire);
    return s;
}

/* `of` zeroed elements at the alignment of a cache line. */
static void *aligned(size_t of, size_t size)
{
    void *memory = NULL;
    size_t bytes = (of > 0 ? of : 1) * size;
    if (posix_memalign(&memory, 64, bytes) != 0)
        return NULL;
    return memset(memory, 0, bytes);
}

/* Consumers subscribe before anything but what is there to begin with is published. */
static int open_all(struct table *t)
{
    const struct settings *settings = t->perf.settings;
    uint64_t count = settings->count > 0 ? (uint64_t)settings->count : UINT64_MAX;
    uint64_t publishers = (uint64_t)settings->publishers;
    t->publishers = aligned((size_t)settings->publishers, sizeof *t->publishers);
    t->consumers = aligned((size_t)settings->consumers, sizeof *t->consumers);
    if (t->publishers == NULL || t->consumers == NULL)
        return complain(EXIT_FAILED, "out of memory");
    int code = settings->prefill > 0 ? perf_prefill(&t->perf) : EXIT_DONE;
    for (int64_t i = 0; i < settings->consumers && code == EXIT_DONE; i++)
        code = perf_consumer_open(&t->consumers[t->consumer_count++], &t->perf);
    for (uint64_t i = 0; i < publishers && code == EXIT_DONE; i++) {
        uint64_t quota = count == UINT64_MAX ? UINT64_MAX : pace_share(count, i, publishers);
        code = perf_publisher_open(&t->publishers[t->publisher_count++], &t->perf, i, quota);
    }
    return code;
}

static int start_all(struct table *t)
{
    prctl(PR_SET_TIMERSLACK, 1UL); /* the publishers' threads inherit it: a rate is kept to microseconds */
    t->perf.start = clock_now();
    int code = EXIT_DONE;
    while (t->running < t->publisher_count && code == EXIT_DONE) {
        code = perf_publisher_start(&t->publishers[t->running]);
        if (code == EXIT_DONE)
            t->running++;
    }
    return code;
}

/* Tells how it goes until the run is to end. */
static void watch(const struct table *t)
{
    int64_t duration = t->perf.settings->duration;
    int64_t end = duration > 0 ? t->perf.start + duration : INT64_MAX;
    int64_t line = isatty(STDERR_FILENO) ? t->perf.start + CONEY_SECOND : INT64_MAX;
    struct sums before = {0};
    while (!stop_wait(line < end ? line : end)) {
        if (end <= line) {
            stop_ask();
            return;
        }
        struct sums now = sum(t);
        fprintf(stderr, "%5" PRId64 " s  published %9" PRIu64 "/s  confirmed %9" PRIu64 "/s  consumed %9" PRIu64 "/s\n",
                (line - t->perf.start) / CONEY_SECOND, now.accepted - before.accepted, now.confirmed - before.confirmed,
                now.consumed - before.consumed);
        before = now;
        line += CONEY_SECOND;
    }
}

/* Every consumer, or all that share, have as many as were confirmed and were there to begin with. */
static bool all_arrived(const struct table *t, uint64_t confirmed)
{
    const struct perf *perf = &t->perf;
    bool from_first = perf->shared || perf->from.start == CONEY_STREAM_FIRST;
    uint64_t expected = confirmed + (from_first ? (uint64_t)perf->settings->prefill : 0);
    if (expected > perf->quota)
        expected = perf->quota;
    if (perf->shared && t->consumer_count > 0)
        return sum(t).consumed >= expected;
    for (size_t i = 0; i < t->consumer_count; i++)
        if (atomic_load_explicit(&t->consumers[i].consumed, memory_order_acquire) < expected)
            return false;
    return true;
}

static int drain(const struct table *t)
{
    struct sums seen = sum(t);
    int64_t limit = clock_now() + DRAIN;
    while (!all_arrived(t, seen.confirmed)) {
        struct sums now = sum(t);
        if (now.consumed > seen.consumed)
            limit = clock_now() + DRAIN;
        else if (clock_now() > limit)
            return complain(EXIT_FAILED, "a consumer did not get all messages that were confirmed");
        seen = now;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return EXIT_DONE;
}

static double per_second(uint64_t count, int64_t ns)
{
    return ns > 0 ? (double)count * 1e9 / (double)ns : 0;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void put_summary(const struct table *t, const struct sums *s, const struct histogram *latency)
{
    const int64_t start = t->perf.start;
    int64_t sent = 0, confirmed = 0, consumed = 0;
    for (size_t i = 0; i < t->publisher_count; i++) {
        sent = later(sent, t->publishers[i].sent_at - start);
        confirmed = later(confirmed, t->publishers[i].confirmed_at - start);
    }
    bool waited = t->publisher_count > 0 && t->perf.settings->prefill == 0;
    int64_t first = waited || t->consumer_count == 0 ? start : t->consumers[0].opened_at;
    for (size_t i = 0; i < t->consumer_count; i++)
        consumed = later(consumed, atomic_load(&t->consumers[i].last_at) - first);

    struct figures f;
    figures_begin(&f, t->perf.settings->json);
    if (t->publisher_count > 0) {
        figures_unsigned(&f, "published", s->accepted);
        if (!t->perf.unconfirmed)
            figures_unsigned(&f, "confirmed", s->confirmed);
        figures_decimal(&f, "published_per_second", per_second(s->accepted, sent));
        if (!t->perf.unconfirmed) {
            figures_decimal(&f, "confirmed_per_second", per_second(s->confirmed, confirmed));
            figures_unsigned(&f, "not_confirmed", s->refused + s->unknown);
        }
    }
    if (t->consumer_count > 0) {
        figures_unsigned(&f, "consumed", s->consumed);
        figures_decimal(&f, "consumed_per_second", per_second(s->consumed, consumed));
    }
    if (t->perf.run != 0)
        figures_latency(&f, latency);
    figures_end(&f);
}

static int sum_up(const struct table *t)
{
    struct histogram *latency = calloc(1, sizeof *latency);
    if (latency == NULL)
        return complain(EXIT_FAILED, "out of memory");
    for (size_t i = 0; i < t->consumer_count; i++)
        histogram_merge(latency, &t->consumers[i].latency);
    struct sums s = sum(t);
    put_summary(t, &s, latency);
    free(latency);
    if (s.refused + s.unknown > 0)
        return complain(EXIT_FAILED, "%" PRIu64 " messages were refused, of %" PRIu64 " nothing is known", s.refused,
                        s.unknown);
    return EXIT_DONE;
}

static int run(struct table *t)
{
    int code = open_all(t);
    bool opened = code == EXIT_DONE;
    if (opened)
        code = start_all(t);
    if (code == EXIT_DONE)
        watch(t);
    else
        stop_ask();
    for (size_t i = 0; i < t->running; i++) {
        pthread_join(t->publishers[i].thread, NULL);
        if (t->publishers[i].failed)
            code = EXIT_FAILED;
    }
    for (size_t i = 0; i < t->publisher_count; i++)
        perf_publisher_end(&t->publishers[i]);
    if (opened && t->publisher_count > 0 && drain(t) != EXIT_DONE)
        code = EXIT_FAILED;
    for (size_t i = 0; i < t->consumer_count; i++)
        perf_consumer_end(&t->consumers[i]);
    return opened && sum_up(t) != EXIT_DONE ? EXIT_FAILED : code;
}

/* How many messages a consumer, or all that share, may take. */
static uint64_t quota_of(const struct settings *settings)
{
    if (settings->count > 0)
        return (uint64_t)(settings->count + (settings->publishers > 0 ? settings->prefill : 0));
    return settings->publishers == 0 && settings->prefill > 0 ? (uint64_t)settings->prefill : UINT64_MAX;
}

static const char *contradiction(const struct settings *settings, const char *asked)
{
    if (settings->publishers == 0 && settings->consumers == 0)
        return "--publishers 0 and --consumers 0 leave nothing to do";
    if (settings->publishers == 0 && settings->prefill == 0 && asked == NULL)
        return "--publishers 0 needs the name of something to read, or --prefill";
    return NULL;
}

static int run_there(struct table *t, const char *asked)
{
    int code = session_place(&t->perf.session, asked, "perf");
    if (code != EXIT_DONE)
        return code;
    const struct settings *settings = t->perf.settings;
    if (settings->publishers == 0 && settings->prefill == 0 && t->perf.session.own[0] != '\0')
        return complain(EXIT_FAILED, "'%s' does not exist: there is nothing to read", asked);
    return run(t);
}

static int perf_run(const struct settings *settings, const struct protocol *protocol, const char *asked, bool shared,
                    bool unconfirmed)
{
    const char *wrong = contradiction(settings, asked);
    if (wrong != NULL)
        return complain(EXIT_USAGE, "%s", wrong);
    struct table t = {.perf = {.settings = settings, .from = settings->from, .shared = shared, .unconfirmed = unconfirmed}};
    if (settings->prefill > 0 && settings->from.start == CONEY_STREAM_NEXT && !shared)
        t.perf.from.start = CONEY_STREAM_FIRST;
    bool both = settings->publishers > 0 && settings->consumers > 0;
    t.perf.run = both && settings->size >= STAMP_SIZE ? session_random() : 0;
    t.perf.quota = quota_of(settings);
    atomic_init(&t.perf.left, t.perf.quota);
    atomic_init(&t.perf.quotas, shared ? 1 : (unsigned)settings->consumers);
    atomic_init(&t.perf.publishers_left, (unsigned)settings->publishers);
    int code = session_open(&t.perf.session, protocol, settings);
    if (code == EXIT_DONE)
        code = session_close(&t.perf.session, run_there(&t, asked));
    free(t.publishers);
    free(t.consumers);
    return code;
}

int perf_stream_run(const struct settings *settings)
{
    return perf_run(settings, &stream_protocol, settings->stream, false, false);
}

int perf_amqp_run(const struct settings *settings)
{
    bool shared = settings->queue_type != CONEY_QUEUE_STREAM;
    return perf_run(settings, &amqp_protocol, settings->queue.name, shared, !settings->confirm);
}
