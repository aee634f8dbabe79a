/* floor_amqp_publish.c: as many confirmed messages a second as one socket and one thread get. */
#define _GNU_SOURCE
#include "floor_amqp.h"
#include "tags.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { BLOCK = 64 }; /* messages that are laid out one after the other */

/* A publish run and how far it is. A message belongs to the window from the moment its first byte may go. */
struct run {
    struct wire *wire;
    uint8_t *block;
    size_t stride;
    uint64_t window;
    uint64_t count;
    uint64_t sent; /* bytes */
    uint64_t confirmed;
    struct tags tags;
};

static struct run run_of(struct wire *w, const char *queue, const struct options *o)
{
    struct run run = {.wire = w, .window = o->window > 0 ? o->window : 10000, .count = o->count};
    if (run.count == 0)
        die("--count must be at least 1");
    run.block = must_alloc(BLOCK * (1024 + o->size));
    uint8_t *at = run.block;
    for (int i = 0; i < BLOCK; i++)
        at = put_amqp_publish(at, queue, o->size);
    run.stride = (size_t)(at - run.block) / BLOCK;
    run.tags = tags_of(2 * run.window);
    return run;
}

/* Opens what the window allows; the bytes that may be sent before the next confirm. */
static uint64_t run_room(struct run *run)
{
    uint64_t opened = run->tags.next - 1, until = run->tags.first - 1 + run->window;
    if (until > run->count)
        until = run->count;
    if (until > opened)
        tags_open(&run->tags, until - opened);
    return (run->tags.next - 1) * run->stride - run->sent;
}

/* Writes as much as the window and the socket allow, in one system call. False when that is nothing. */
static bool send_some(struct run *run)
{
    uint64_t room = run_room(run);
    size_t around = BLOCK * run->stride, at = run->sent % around;
    size_t len = room < around - at ? room : around - at;
    if (len == 0)
        return false;
    ssize_t n = send(run->wire->fd, run->block + at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        die("write: %s", strerror(errno));
    if (n > 0)
        run->sent += (uint64_t)n;
    return n > 0;
}

/* Takes the confirms that have arrived, in one system call. False when that is nothing. */
static bool receive_confirms(struct run *run)
{
    wire_make_room(run->wire, AMQP_FRAME_AROUND);
    if (!wire_fill(run->wire, MSG_DONTWAIT))
        return false;
    struct amqp_frame frame;
    while (wire91_take(run->wire, &frame)) {
        if (frame.method != BASIC_ACK)
            die("method %u.%u where confirms were due", frame.method >> 16, frame.method & 0xffff);
        const uint8_t *tag = frame.payload + AMQP_ARGUMENTS;
        run->confirmed += tags_settle(&run->tags, get64(tag), tag[8] != 0);
    }
    return true;
}

static void await_socket(struct run *run)
{
    struct pollfd ready = {.fd = run->wire->fd, .events = (short)(POLLIN | (run_room(run) > 0 ? POLLOUT : 0))};
    if (poll(&ready, 1, 30000) == 0)
        die("the broker took and confirmed nothing for 30 seconds");
}

/* Nanoseconds from the first byte to the last confirm. */
static uint64_t publish_all(struct wire *w, const char *queue, const struct options *o)
{
    struct run run = run_of(w, queue, o);
    wire91_confirm_select(w);
    uint64_t start = now_ns();
    while (run.confirmed < run.count) {
        bool sent = send_some(&run);
        bool received = receive_confirms(&run);
        if (!sent && !received)
            await_socket(&run);
    }
    uint64_t end = now_ns();
    tags_free(&run.tags);
    free(run.block);
    return end - start;
}

void amqp_floor_publish(const struct options *o)
{
    const char *queue = own_stream("floor");
    struct wire w = wire91_open(o->uri);
    wire91_declare(&w, queue, o->type);
    uint64_t ns = publish_all(&w, queue, o);
    wire91_delete(&w, queue);
    wire91_close(&w);
    print_rate("floor", "publish", "confirmed_per_second", o->size, o->count, ns);
}

void amqp_floor_fill(const struct options *o)
{
    struct wire w = wire91_open(o->uri);
    wire91_declare(&w, given_queue(o), o->type);
    uint64_t ns = publish_all(&w, o->queue, o);
    wire91_close(&w);
    print_rate("floor", "fill", "confirmed_per_second", o->size, o->count, ns);
}

void amqp_floor_delete(const struct options *o)
{
    struct wire w = wire91_open(o->uri);
    uint32_t left = wire91_delete(&w, given_queue(o));
    wire91_close(&w);
    if (left > 0)
        die("%u messages of '%s' were not acknowledged", left, o->queue);
    printf("{\"side\": \"floor\", \"row\": \"delete\"}\n");
}
