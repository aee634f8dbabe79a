/* peer_stream.c: a broker of the stream protocol; see peer.h. */
#include "floor.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>

/* Serving a connection --------------------------------------------------------------------------------------------- */

struct peer {
    struct service service;
    uint64_t count;   /* messages of a subscription */
    uint64_t records; /* of a chunk */
    uint8_t *deliver; /* a whole Deliver frame of them */
    size_t deliver_len;
    struct wire *wire;
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
    wire_write(p->wire, p->confirm, need);
}

static void deliver_chunks(struct peer *p, uint8_t subscription, uint16_t credit)
{
    for (; credit > 0 && p->sent[subscription] < p->count; credit--) {
        p->deliver[8] = subscription;
        put64(p->deliver + 9, p->sent[subscription]);
        put64(p->deliver + DELIVER_HEADER + CHUNK_ID, p->sent[subscription]);
        wire_write(p->wire, p->deliver, p->deliver_len);
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
    out = put32(out, p->service.port);
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
    snprintf(port, sizeof port, "%u", p->service.port);
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
    wire_write(p->wire, data, (size_t)(out - data));
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

static void serve(struct service *service, struct wire *wire)
{
    struct peer *p = (struct peer *)service; /* its first member */
    p->wire = wire;
    do {
        struct frame frame;
        while (wire_take(p->wire, &frame))
            serve_frame(p, &frame);
    } while (wire_receive(p->wire));
}

/* The chunk -------------------------------------------------------------------------------------------------------- */

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

void peer_stream(const struct options *o)
{
    struct peer p = {.service.serve = serve, .count = o->count, .records = o->frame > 0 ? o->frame : 8192};
    check_size(o);
    if (p.records > UINT16_MAX || p.count % p.records != 0)
        die("--frame must fit a chunk, and --count must be whole chunks");
    make_deliver(&p, o->size);
    serve_connections(&p.service);
}
