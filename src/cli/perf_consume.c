/* perf_consume.c: a consumer of coney perf: counts, and times the messages of this run that carry a stamp. */
#include "clock.h"
#include "perf.h"
#include "stamp.h"
#include "stop.h"

/* A run without publishers ends with its last consumer. */
static void reached(const struct perf_consumer *c)
{
    if (atomic_fetch_sub(&c->perf->consumers_left, 1) == 1 && c->perf->settings->publishers == 0)
        stop_ask();
}

static coney_settle on_chunk(void *ctx, coney_stream_chunk *chunk)
{
    struct perf_consumer *c = ctx;
    const uint32_t run = c->perf->run;
    const uint64_t before = atomic_load_explicit(&c->consumed, memory_order_relaxed);
    uint64_t consumed = before;
    int64_t now = clock_now();
    int64_t sent_at;
    coney_stream_delivery delivery;
    while (consumed < c->quota && coney_stream_chunk_next(chunk, &delivery)) {
        consumed++;
        if (run != 0 && stamp_read(delivery.body, run, &sent_at))
            histogram_add(&c->latency, now - sent_at);
    }
    if (consumed == before)
        return CONEY_ACK;
    atomic_store_explicit(&c->last_at, clock_now(), memory_order_relaxed);
    atomic_store_explicit(&c->consumed, consumed, memory_order_release);
    if (consumed == c->quota)
        reached(c);
    return CONEY_ACK;
}

int perf_consumer_open(struct perf_consumer *c, struct perf *perf, uint64_t quota)
{
    c->perf = perf;
    c->quota = quota;
    c->opened_at = clock_now();
    coney_call call = {0};
    const struct place *from = &perf->settings->from;
    coney_stream_consumer_options options = {
        .on_chunk = on_chunk, .ctx = c, .start_if_new = from->start, .start_offset = from->offset, .start_time = from->time};
    c->consumer = coney_stream_consumer_open(perf->session.env, perf->session.stream, &options, &call);
    return c->consumer != NULL ? EXIT_DONE : complain(EXIT_FAILED, "%s", call.text);
}

void perf_consumer_end(struct perf_consumer *c)
{
    coney_stream_consumer_close(&c->consumer, &(coney_call){.deadline = stop_patience()});
}
