/* floor_latency.c: from the creation of a message to its hand-over, publisher and consumer in one process. */
#define _GNU_SOURCE
#include "floor.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

struct latency {
    const struct options *options;
    const char *stream;
    uint64_t bursts;
    struct samples samples; /* the consumer's until it is joined */
    struct wire consumer;
};

/* Takes the time of each message of a chunk; all are simple entries with a body that begins with its creation time. */
static void record_chunk(const struct frame *frame, uint64_t body, struct samples *samples)
{
    const uint8_t *chunk = frame->data + DELIVER_HEADER;
    uint32_t records = get32(chunk + CHUNK_RECORDS);
    size_t stride = 4 + DATA_SECTION + body;
    if (frame->len != DELIVER_HEADER + CHUNK_HEADER + records * stride)
        die("a chunk of %u messages in %zu bytes", records, frame->len);
    const uint8_t *created = chunk + CHUNK_HEADER + 4 + DATA_SECTION;
    for (uint32_t i = 0; i < records; i++)
        sample_add(samples, now_ns() - get64(created + i * stride));
}

static void *consume_samples(void *ctx)
{
    struct latency *l = ctx;
    while (l->samples.count < l->samples.cap) {
        struct frame frame = wire_read(&l->consumer);
        if (frame.key != KEY_DELIVER)
            continue;
        record_chunk(&frame, l->options->size, &l->samples);
        wire_credit(&l->consumer, 1);
    }
    return NULL;
}

/* Reads confirms until `deadline` has come or `count` are there. */
static void await_confirms(struct wire *w, uint64_t deadline, uint64_t count, struct confirms *confirms)
{
    for (uint64_t now = now_ns(); now < deadline && confirms->count < count; now = now_ns()) {
        uint64_t left = deadline - now;
        struct timespec patience = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
        struct pollfd ready = {.fd = w->fd, .events = POLLIN};
        if (ppoll(&ready, 1, &patience, NULL) > 0)
            receive_confirms(w, confirms);
    }
}

/* The burst is laid out once; each time its messages get their ids and, one by one, the time. */
static void send_burst(struct wire *w, uint8_t *burst, uint8_t *end, uint64_t id, size_t body)
{
    size_t stride = entry_size(body);
    for (uint8_t *entry = burst + PUBLISH_HEADER; entry < end; entry += stride) {
        put64(entry, id++);
        put64(entry + ENTRY_HEADER + DATA_SECTION, now_ns());
    }
    wire_write(w, burst, (size_t)(end - burst));
}

static void publish_bursts(struct latency *l)
{
    const struct options *o = l->options;
    struct wire w = wire_open(o->uri, RECEIVE_BUFFER);
    wire_declare(&w, l->stream);
    uint8_t *burst = must_alloc(PUBLISH_HEADER + o->messages * entry_size(o->size));
    uint8_t *end = put_publish(burst, 0, o->messages, o->size);
    uint64_t period = SECOND / o->rate, start = now_ns(), all = l->bursts * o->messages;
    struct confirms confirms = {0};
    for (uint64_t i = 0; i < l->bursts; i++) {
        await_confirms(&w, start + (i + 1) * period, UINT64_MAX, &confirms);
        send_burst(&w, burst, end, i * o->messages, o->size);
    }
    await_confirms(&w, now_ns() + 30 * SECOND, all, &confirms);
    if (confirms.count != all)
        die("%" PRIu64 " of %" PRIu64 " messages were confirmed", confirms.count, all);
    free(burst);
    wire_close(&w);
}

/* One second of warm-up is sent and left out. */
static void measure_latency(const char *row, const struct options *o)
{
    check_size(o);
    if (o->messages == 0 || o->rate == 0 || o->seconds == 0)
        die("--messages, --rate and --seconds must be at least 1");
    struct latency l = {.options = o, .stream = own_stream("floor"), .bursts = o->rate * (o->seconds + 1)};
    l.samples = samples_of(l.bursts * o->messages);
    l.consumer = wire_open(o->uri, RECEIVE_BUFFER);
    wire_create(&l.consumer, l.stream);
    wire_subscribe(&l.consumer, l.stream, OFFSET_NEXT, (uint16_t)o->credit);
    pthread_t thread;
    if (pthread_create(&thread, NULL, consume_samples, &l) != 0)
        die("no thread could be made");
    publish_bursts(&l);
    pthread_join(thread, NULL);
    wire_delete(&l.consumer, l.stream);
    wire_close(&l.consumer);
    print_latency("floor", row, &l.samples, o->rate * o->messages);
    samples_free(&l.samples);
}

void floor_latency(const struct options *o)
{
    measure_latency("latency", o);
}

void floor_single(const struct options *o)
{
    struct options one = *o;
    one.messages = 1;
    measure_latency("single", &one);
}
