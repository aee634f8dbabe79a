/* peer.c: a broker that knows nothing and costs nothing, for counting what a client spends on a message.
 *
 *     bench_peer serve --size 12 --count 409600 --frame 8192
 *
 * Prints {"port": N}, then serves 127.0.0.1:N until it is killed, a process for each connection. Every request is answered with
 * OK, every stream exists and has its leader here. A Publish frame is confirmed at once by one PublishConfirm. A subscription is
 * sent --count messages of --size bytes in chunks of --frame, as credit allows, and then nothing. What it sends depends on
 * nothing but what it was asked, so two runs of a client differ only by the client.
 */
#define _GNU_SOURCE
#include "floor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Serving a connection --------------------------------------------------------------------------------------------- */

struct peer {
    uint16_t port;
    uint64_t count;   /* messages of a subscription */
    uint64_t records; /* of a chunk */
    uint8_t *deliver; /* a whole Deliver frame of them */
    size_t deliver_len;
    struct wire wire;
    uint64_t sent[256]; /* messages, by subscription */
    uint8_t *confirm;
    size_t confirm_cap;
};

/* Confirms every id of a Publish frame of version 1. */
static void confirm_all(struct peer *p, const struct frame *frame)
{
    const uint8_t *at = frame->data + PUBLISH_HEADER, *end = frame->data + frame->len;
    uint32_t count = frame->len >= PUBLISH_HEADER ? get32(at - 4) : 0;
    size_t need = CONFIRM_HEADER + 8 * (size_t)count;
    if (get16(frame->data + 6) != 1 || need > frame->len)
        die("a Publish frame of version %u with %u entries in %zu bytes", get16(frame->data + 6), count, frame->len);
    if (need > p->confirm_cap) {
        free(p->confirm);
        p->confirm = must_alloc(need);
        p->confirm_cap = need;
    }
    uint8_t *out = put32(p->confirm, (uint32_t)(need - 4));
    out = put16(out, KEY_PUBLISH_CONFIRM);
    out = put16(out, 1);
    out = put8(out, frame->data[8]);
    out = put32(out, count);
    for (uint32_t i = 0; i < count; i++) {
        if ((size_t)(end - at) < ENTRY_HEADER || get32(at + 8) > (size_t)(end - at) - ENTRY_HEADER)
            die("entry %u of a Publish frame does not fit into it", i);
        memcpy(out, at, 8);
        out += 8;
        at += ENTRY_HEADER + get32(at + 8);
    }
    if (at != end)
        die("a Publish frame has %zu bytes after its last entry", (size_t)(end - at));
    wire_write(&p->wire, p->confirm, need);
}

static void deliver_chunks(struct peer *p, uint8_t subscription, uint16_t credit)
{
    for (; credit > 0 && p->sent[subscription] < p->count; credit--) {
        p->deliver[8] = subscription;
        put64(p->deliver + 9, p->sent[subscription]);
        put64(p->deliver + DELIVER_HEADER + CHUNK_ID, p->sent[subscription]);
        wire_write(&p->wire, p->deliver, p->deliver_len);
        p->sent[subscription] += p->records;
    }
}

/* Subscribe: the credit follows the stream's name and the offset, which is 8 bytes long in the kinds 4 and 5. */
static void start_subscription(struct peer *p, const struct frame *frame)
{
    const uint8_t *at = frame->data + 13;
    uint8_t subscription = frame->data[12];
    at += 2 + get16(at);
    at += get16(at) >= 4 ? 10 : 2;
    p->sent[subscription] = 0;
    deliver_chunks(p, subscription, get16(at));
}

/* An answer under construction: the head, with the request's correlation id, which is its first word after key and version. */
static uint8_t *put_answer(uint8_t *out, const struct frame *request)
{
    out = put16(out + 4, (uint16_t)(KEY_RESPONSE | request->key));
    out = put16(out, 1);
    return put32(out, get32(request->data + 8));
}

static uint8_t *put_versions(uint8_t *out)
{
    static const uint16_t versions[][3] = {{KEY_PUBLISH, 1, 1}, {KEY_DELIVER, 1, 2}};
    size_t count = sizeof versions / sizeof versions[0];
    out = put32(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        out = put16(put16(put16(out, versions[i][0]), versions[i][1]), versions[i][2]);
    return out;
}

/* Each stream that is asked for exists, without replicas, and node 0 of 1 is its leader. */
static uint8_t *put_metadata(uint8_t *out, const struct peer *p, const struct frame *request)
{
    out = put32(out, 1);
    out = put_text(put16(out, 0), "127.0.0.1");
    out = put32(out, p->port);
    const uint8_t *name = request->data + 16;
    uint32_t count = get32(request->data + 12);
    if (count > 16)
        die("metadata of %u streams at a time", count);
    out = put32(out, count);
    for (uint32_t i = 0; i < count; i++) {
        size_t len = 2 + (size_t)get16(name);
        out = (uint8_t *)memcpy(out, name, len) + len;
        out = put16(put16(out, CODE_OK), 0);
        out = put32(out, 0);
        name += len;
    }
    return out;
}

static uint8_t *put_open(uint8_t *out, const struct peer *p)
{
    char port[8];
    snprintf(port, sizeof port, "%u", p->port);
    out = put_text(put_text(put32(out, 2), "advertised_host"), "127.0.0.1");
    return put_text(put_text(out, "advertised_port"), port);
}

static uint8_t *put_tune(uint8_t *out)
{
    out = put32(out, 12);
    out = put16(put16(out, KEY_TUNE), 1);
    return put32(put32(out, 1048576), 0);
}

static void answer(struct peer *p, const struct frame *request)
{
    uint8_t data[4096];
    if (request->len < 12 || request->len > sizeof data / 2)
        die("a request with key %u of %zu bytes", request->key, request->len);
    uint8_t *out = put_answer(data, request);
    if (request->key == KEY_METADATA)
        out = put_metadata(out, p, request);
    else
        out = put16(out, CODE_OK);
    if (request->key == KEY_PEER_PROPERTIES)
        out = put_text(put_text(put32(out, 1), "version"), "4.3.0");
    else if (request->key == KEY_SASL_HANDSHAKE)
        out = put_text(put32(out, 1), "PLAIN");
    else if (request->key == KEY_OPEN)
        out = put_open(out, p);
    else if (request->key == KEY_VERSIONS)
        out = put_versions(out);
    put32(data, (uint32_t)(out - data) - 4);
    if (request->key == KEY_SASL_AUTHENTICATE)
        out = put_tune(out);
    wire_write(&p->wire, data, (size_t)(out - data));
}

static void serve_frame(struct peer *p, const struct frame *frame)
{
    switch (frame->key) {
    case KEY_PUBLISH:
        confirm_all(p, frame);
        return;
    case KEY_CREDIT:
        deliver_chunks(p, frame->data[8], get16(frame->data + 9));
        return;
    case KEY_STORE_OFFSET:
    case KEY_HEARTBEAT:
    case KEY_TUNE:
    case KEY_RESPONSE | KEY_TUNE:
        return;
    }
    answer(p, frame);
    if (frame->key == KEY_SUBSCRIBE)
        start_subscription(p, frame);
}

/* False when the client has gone. */
static bool receive(struct wire *w)
{
    wire_make_room(w, 4);
    ssize_t n = recv(w->fd, w->buffer + w->end, w->cap - w->end, 0);
    if (n > 0)
        w->end += (size_t)n;
    return n > 0 || (n < 0 && errno == EINTR);
}

static void serve(struct peer *p)
{
    do {
        struct frame frame;
        while (wire_take(&p->wire, &frame))
            serve_frame(p, &frame);
    } while (receive(&p->wire));
}

/* The chunk, and the processes ------------------------------------------------------------------------------------- */

/* CRC-32 as in zlib, a bit at a time: it is computed once. */
static uint32_t crc32_of(const uint8_t *data, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320 & (0 - (crc & 1)));
    }
    return ~crc;
}

/* A Deliver frame, version 2, with a chunk of simple entries; ids are put in when it is sent. */
static void make_deliver(struct peer *p, size_t body)
{
    size_t entries_len = p->records * (4 + DATA_SECTION + body);
    p->deliver_len = DELIVER_HEADER + CHUNK_HEADER + entries_len;
    p->deliver = must_alloc(p->deliver_len);
    memset(p->deliver, 0, p->deliver_len);
    put32(p->deliver, (uint32_t)(p->deliver_len - 4));
    put16(put16(p->deliver + 4, KEY_DELIVER), 2);
    uint8_t *chunk = p->deliver + DELIVER_HEADER, *out = chunk + CHUNK_HEADER;
    for (uint64_t i = 0; i < p->records; i++) {
        out = put32(out, (uint32_t)(DATA_SECTION + body));
        out = put8(put32(out, 0x005375a0), (uint8_t)body);
        memset(out, 'x', body);
        out += body;
    }
    put8(chunk, 0x50);
    put16(chunk + CHUNK_ENTRIES, (uint16_t)p->records);
    put32(chunk + CHUNK_RECORDS, (uint32_t)p->records);
    put64(chunk + 8, 1700000000000);
    put64(chunk + 16, 1);
    put32(chunk + CHUNK_CRC, crc32_of(chunk + CHUNK_HEADER, entries_len));
    put32(chunk + CHUNK_CRC + 4, (uint32_t)entries_len);
}

static int listen_anywhere(uint16_t *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        die("no port could be had: %s", strerror(errno));
    *port = be16toh(address.sin_port);
    return fd;
}

/* A process for each connection: it ends with it. */
static void accept_all(struct peer *p, int listener)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            die("accept: %s", strerror(errno));
        if (fork() == 0) {
            int on = 1;
            close(listener);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            p->wire = (struct wire){.fd = fd, .buffer = must_alloc(RECEIVE_BUFFER), .cap = RECEIVE_BUFFER};
            serve(p);
            _exit(0);
        }
        close(fd);
    }
}

static void serve_connections(const struct options *o)
{
    struct peer p = {.count = o->count, .records = o->frame > 0 ? o->frame : 8192};
    check_size(o);
    if (p.records > UINT16_MAX || p.count % p.records != 0)
        die("--frame must fit a chunk, and --count must be whole chunks");
    make_deliver(&p, o->size);
    signal(SIGCHLD, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int listener = listen_anywhere(&p.port);
    printf("{\"port\": %u}\n", p.port);
    fflush(stdout);
    accept_all(&p, listener);
}

int main(int argc, char **argv)
{
    static const struct command commands[] = {{"serve", serve_connections}};
    return run_command(commands, 1, argc, argv);
}
