/* floor_publish.c: as many confirmed messages a second as one socket gives. One thread: the broker is the one that works. */
#define _GNU_SOURCE
#include "floor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Looks at each id of a PublishConfirm; other frames count nothing. */
static void count_confirms(const struct frame *frame, struct confirms *confirms)
{
    if (frame->key != KEY_PUBLISH_CONFIRM)
        return;
    uint32_t count = get32(frame->data + CONFIRM_HEADER - 4);
    if (frame->len != CONFIRM_HEADER + 8 * (size_t)count)
        die("a confirm of %u ids in %zu bytes", count, frame->len);
    const uint8_t *id = frame->data + CONFIRM_HEADER;
    for (uint32_t i = 0; i < count; i++)
        confirms->id_sum += get64(id + 8 * (size_t)i);
    confirms->count += count;
}

/* Frames of equal size one after the other, more than the window holds, sent over and over. */
struct ring {
    uint8_t *data;
    size_t frame_len;
    size_t frames;
    uint64_t per_frame;
};

static struct ring ring_of(const struct options *o)
{
    struct ring ring = {.per_frame = o->frame, .frame_len = PUBLISH_HEADER + o->frame * entry_size(o->size)};
    ring.frames = (o->window + o->frame - 1) / o->frame + 1;
    ring.data = must_alloc(ring.frames * ring.frame_len);
    uint8_t *p = ring.data;
    for (size_t i = 0; i < ring.frames; i++)
        p = put_publish(p, i * ring.per_frame, ring.per_frame, o->size);
    return ring;
}

/* What the confirms of the first `count` messages must add up to, their ids being those of the ring. */
static uint64_t ring_id_sum(const struct ring *ring, uint64_t count)
{
    uint64_t ids = ring->frames * ring->per_frame, rounds = count / ids, rest = count % ids;
    return rounds * (ids * (ids - 1) / 2) + rest * (rest - 1) / 2;
}

/* A publish run and how far it is. A frame belongs to the window from the moment its first byte may go. */
struct run {
    struct ring ring;
    uint64_t window;
    uint64_t count;
    uint64_t sent; /* bytes */
    struct confirms confirms;
};

/* Bytes that may be sent before the next confirm. */
static uint64_t run_room(const struct run *run)
{
    uint64_t until = run->confirms.count + run->window;
    if (until > run->count)
        until = run->count;
    return until / run->ring.per_frame * run->ring.frame_len - run->sent;
}

/* Writes as much as the window and the socket allow, in one system call. False when that is nothing. */
static bool send_some(int fd, struct run *run)
{
    uint64_t room = run_room(run);
    size_t around = run->ring.frames * run->ring.frame_len, at = run->sent % around;
    size_t len = room < around - at ? room : around - at;
    if (len == 0)
        return false;
    ssize_t n = send(fd, run->ring.data + at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        die("write: %s", strerror(errno));
    if (n > 0)
        run->sent += (uint64_t)n;
    return n > 0;
}

static void await_socket(int fd, bool writable)
{
    struct pollfd ready = {.fd = fd, .events = (short)(POLLIN | (writable ? POLLOUT : 0))};
    if (poll(&ready, 1, 30000) == 0)
        die("the broker took and confirmed nothing for 30 seconds");
}

/* Nanoseconds from the first byte to the last confirm of `count` messages, which are whole frames. */
static uint64_t publish_all(struct wire *w, const struct options *o)
{
    struct run run = {.ring = ring_of(o), .window = o->window, .count = o->count};
    uint64_t start = now_ns();
    while (run.confirms.count < run.count) {
        bool sent = send_some(w->fd, &run);
        bool received = receive_confirms(w, &run.confirms);
        if (!sent && !received)
            await_socket(w->fd, run_room(&run) > 0);
    }
    uint64_t end = now_ns();
    if (run.confirms.count != run.count || run.confirms.id_sum != ring_id_sum(&run.ring, run.count))
        die("the confirmed ids are not those that were sent");
    free(run.ring.data);
    return end - start;
}

/* The bounds of a run, with the defaults where the options say nothing, and its messages rounded up to whole frames. */
static struct options publish_options(const struct options *given, uint64_t count, uint64_t window, uint64_t frame)
{
    struct options o = *given;
    o.count = o.count > 0 ? o.count : count;
    o.window = o.window > 0 ? o.window : window;
    o.frame = o.frame > 0 ? o.frame : frame;
    check_size(&o);
    if (o.frame > o.window || o.frame * entry_size(o.size) > 1000000)
        die("--frame must be at most --window, and a frame at most a megabyte");
    o.count = (o.count + o.frame - 1) / o.frame * o.frame;
    return o;
}

uint8_t *put_publish(uint8_t *p, uint64_t id, size_t count, size_t body)
{
    p = put32(p, (uint32_t)(PUBLISH_HEADER - 4 + count * entry_size(body)));
    p = put16(p, KEY_PUBLISH);
    p = put16(p, 1);
    p = put8(p, 0);
    p = put32(p, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        p = put64(p, id + i);
        p = put32(p, (uint32_t)(DATA_SECTION + body));
        p = put32(p, 0x005375a0);
        p = put8(p, (uint8_t)body);
        memset(p, 'x', body);
        p += body;
    }
    return p;
}

void check_size(const struct options *o)
{
    if (o->size < SMALLEST_BODY || o->size > LARGEST_BODY)
        die("--size must be from %d to %d", SMALLEST_BODY, LARGEST_BODY);
}

bool receive_confirms(struct wire *w, struct confirms *confirms)
{
    wire_make_room(w, 4);
    if (!wire_fill(w, MSG_DONTWAIT))
        return false;
    struct frame frame;
    while (wire_take(w, &frame))
        count_confirms(&frame, confirms);
    return true;
}

void floor_publish(const struct options *given)
{
    struct options o = publish_options(given, 2000000, 10000, 1000);
    const char *stream = own_stream("floor");
    struct wire w = wire_open(o.uri, RECEIVE_BUFFER);
    wire_create(&w, stream);
    wire_declare(&w, stream);
    uint64_t ns = publish_all(&w, &o);
    wire_delete(&w, stream);
    wire_close(&w);
    print_rate("floor", "publish", "confirmed_per_second", o.size, o.count, ns);
}

void floor_fill(const struct options *given)
{
    struct options o = publish_options(given, 5000000, 40000, 4000);
    struct wire w = wire_open(o.uri, RECEIVE_BUFFER);
    wire_create(&w, given_stream(&o));
    wire_declare(&w, o.stream);
    uint64_t ns = publish_all(&w, &o);
    wire_close(&w);
    print_rate("floor", "fill", "confirmed_per_second", o.size, o.count, ns);
}

void floor_delete(const struct options *o)
{
    struct wire w = wire_open(o->uri, RECEIVE_BUFFER);
    wire_delete(&w, given_stream(o));
    wire_close(&w);
    printf("{\"side\": \"floor\", \"row\": \"delete\"}\n");
}
