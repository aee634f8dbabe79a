/* perf_consume.c: a consumer of coney perf: counts, and times the messages of this run that carry a stamp. */
#include "clock.h"
#include "perf.h"
#include "stamp.h"
#include "stop.h"

/* A run without publishers ends with its last quota. */
static void reached(struct perf *perf)
{
    if (atomic_fetch_sub(&perf->quotas, 1) == 1 && perf->settings->publishers == 0)
        stop_ask();
}

/* As many of `wanted` messages as there are left; *last: then there are none. */
static uint64_t claim(_Atomic uint64_t *left, uint64_t wanted, bool *last)
{
    uint64_t seen = atomic_load_explicit(left, memory_order_relaxed);
    uint64_t granted;
    do
        granted = wanted < seen ? wanted : seen;
    while (granted > 0 && !atomic_compare_exchange_weak(left, &seen, seen - granted));
    *last = granted == seen;
    return granted;
}

static bool on_arrivals(void *ctx, struct arrivals *arrivals)
{
    struct perf_consumer *c = ctx;
    const uint32_t run = c->perf->run;
    int64_t now = clock_now();
    int64_t sent_at;
    uint64_t taken = 0;
    bool last;
    const uint64_t granted = claim(c->left, arrivals_count(arrivals), &last);
    coney_bytes body;
    while (taken < granted && arrivals_next(arrivals, &body)) {
        taken++;
        if (run != 0 && stamp_read(body, run, &sent_at))
            histogram_add(&c->latency, now - sent_at);
    }
    if (taken < granted) { /* the chunk held fewer that lie behind the place asked for */
        atomic_fetch_add(c->left, granted - taken);
        last = false;
    }
    if (taken > 0) {
        uint64_t consumed = atomic_load_explicit(&c->consumed, memory_order_relaxed) + taken;
        atomic_store_explicit(&c->last_at, clock_now(), memory_order_relaxed);
        atomic_store_explicit(&c->consumed, consumed, memory_order_release);
        if (last)
            reached(c->perf);
    }
    return !last;
}

int perf_consumer_open(struct perf_consumer *c, struct perf *perf)
{
    c->perf = perf;
    c->opened_at = clock_now();
    atomic_init(&c->own, perf->quota);
    c->left = perf->shared ? &perf->left : &c->own;
    c->receiver = (struct receiver){.session = &perf->session, .from = perf->from, .on_arrivals = on_arrivals, .ctx = c};
    coney_call call = {0};
    return receiver_open(&c->receiver, &call) ? EXIT_DONE : complain(EXIT_FAILED, "%s", call.text);
}

void perf_consumer_end(struct perf_consumer *c)
{
    receiver_close(&c->receiver);
}
