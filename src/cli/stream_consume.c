/* stream_consume.c: coney stream consume. */
#include "clock.h"
#include "ends.h"
#include "format.h"
#include "output.h"
#include "stop.h"

#include <inttypes.h>
#include <stdlib.h>

/* A consumer with a name stores what it has written after so many messages or so much time. */
enum { STORE_EVERY = 10000 };
#define STORE_INTERVAL (5 * CONEY_SECOND)

struct consume {
    const struct settings *settings;
    struct session session;
    coney_stream_consumer *consumer;
    struct format_space space;
    uint64_t next_offset;  /* after the last message written */
    uint64_t since_stored; /* messages written */
    int64_t stored_at;
    _Atomic uint64_t written; /* messages */
};

/* Offsets are stored behind standard output: what was flushed is done. */
static void store(struct consume *c, coney_stream_consumer *consumer)
{
    int64_t now = clock_now();
    if (c->settings->name == NULL || (c->since_stored < STORE_EVERY && now - c->stored_at < STORE_INTERVAL))
        return;
    if (coney_stream_consumer_store(consumer, c->next_offset - 1) == CONEY_OK) {
        c->since_stored = 0;
        c->stored_at = now;
    }
}

static coney_settle on_chunk(void *ctx, coney_stream_chunk *chunk)
{
    struct consume *c = ctx;
    if (stop_asked())
        return CONEY_ACK;
    uint64_t written = atomic_load_explicit(&c->written, memory_order_relaxed);
    uint64_t limit = c->settings->count > 0 ? (uint64_t)c->settings->count : UINT64_MAX;
    uint64_t last = 0, before = written;
    coney_stream_consumer *consumer = NULL;
    coney_stream_delivery delivery;
    while (written < limit && coney_stream_chunk_next(chunk, &delivery)) {
        format_write(stdout, c->settings->format, &format_stream, &delivery, format_stream_body(&delivery, &c->space));
        last = delivery.offset;
        consumer = delivery.consumer;
        written++;
        if (ferror(stdout))
            break;
    }
    if (!output_flush()) {
        stop_ask();
        return CONEY_ACK;
    }
    if (written > before) {
        c->next_offset = last + 1;
        c->since_stored += written - before;
        store(c, consumer);
    }
    atomic_store_explicit(&c->written, written, memory_order_release);
    if (written >= limit)
        stop_ask();
    return CONEY_ACK;
}

static int consume(struct consume *c)
{
    coney_call call = {0};
    coney_stream_consumer_options options = {
        .name = c->settings->name,
        .on_chunk = on_chunk,
        .ctx = c,
        .start_if_new = c->settings->from.start,
        .start_offset = c->settings->from.offset,
        .start_time = c->settings->from.time,
        .store_by_hand = true,
    };
    c->stored_at = clock_now();
    c->consumer = coney_stream_consumer_open(c->session.env, c->settings->stream, &options, &call);
    if (c->consumer == NULL)
        return complain(EXIT_FAILED, "%s", call.text);
    stop_wait_idle(&c->written, c->settings->idle);
    coney_stream_consumer_close(&c->consumer, &(coney_call){.deadline = stop_patience()});
    if (c->settings->verbose)
        complain(0, "%" PRIu64 " messages were written", atomic_load(&c->written));
    if (c->settings->name == NULL || c->next_offset == 0)
        return EXIT_DONE;
    coney_status status =
        coney_stream_store_offset(c->session.env, c->settings->stream, c->settings->name, c->next_offset - 1, &call);
    return status == CONEY_OK ? EXIT_DONE : complain(EXIT_FAILED, "%s", call.text);
}

int stream_consume_run(const struct settings *settings)
{
    const char *wrong = format_check(settings->format, &format_stream);
    if (wrong != NULL)
        return complain(EXIT_USAGE, "--format '%s': %s", settings->format, wrong);
    struct consume c = {.settings = settings};
    int code = session_open(&c.session, &stream_protocol, settings);
    if (code == EXIT_DONE)
        code = session_close(&c.session, consume(&c));
    free(c.space.data);
    return code;
}
