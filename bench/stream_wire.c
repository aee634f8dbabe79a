/* stream_wire.c: see stream_wire.h. */
#include "stream_wire.h"

#include "measure.h"

bool wire_take(struct wire *w, struct frame *frame)
{
    size_t have = w->end - w->start;
    if (have < 4)
        return false;
    size_t len = 4 + (size_t)get32(w->buffer + w->start);
    if (len < 8)
        die("a frame of %zu bytes", len);
    if (have < len) {
        wire_make_room(w, len);
        return false;
    }
    *frame = (struct frame){.data = w->buffer + w->start, .len = len, .key = get16(w->buffer + w->start + 4)};
    w->start += len;
    if (w->start == w->end)
        w->start = w->end = 0;
    return true;
}

struct frame wire_read(struct wire *w)
{
    struct frame frame;
    while (!wire_take(w, &frame)) {
        wire_make_room(w, 4);
        wire_fill(w, 0);
    }
    return frame;
}

/* Requests --------------------------------------------------------------------------------------------------------- */

/* A request under construction; the size field is written by wire_send. */
struct request {
    uint8_t data[1024];
    uint8_t *at;
};

static void request_begin(struct wire *w, struct request *r, uint16_t key)
{
    r->at = put16(r->data + 4, key);
    r->at = put16(r->at, 1);
    if (key != KEY_CREDIT && key != (KEY_RESPONSE | KEY_TUNE))
        r->at = put32(r->at, ++w->correlation);
}

static void request_send(struct wire *w, struct request *r)
{
    size_t len = (size_t)(r->at - r->data);
    put32(r->data, (uint32_t)(len - 4));
    wire_write(w, r->data, len);
}

/* Sends `r` and waits for its answer, which must be OK; `what` is for the message when it is not. */
static struct frame request_call(struct wire *w, struct request *r, const char *what)
{
    uint16_t key = get16(r->data + 4);
    request_send(w, r);
    struct frame answer = wire_read(w);
    while (answer.key != (KEY_RESPONSE | key))
        answer = wire_read(w);
    if (answer.len < 14 || get16(answer.data + 12) != CODE_OK)
        die("%s: the broker answered with code %d", what, answer.len < 14 ? -1 : get16(answer.data + 12));
    return answer;
}

/* PLAIN: 0, user, 0, password, as bytes with a 32-bit length. */
static uint8_t *put_plain(uint8_t *p, const struct address *a)
{
    size_t user = strlen(a->user), password = strlen(a->password);
    p = put_text(p, "PLAIN");
    p = put32(p, (uint32_t)(user + password + 2));
    p = put8(p, 0);
    p = (uint8_t *)memcpy(p, a->user, user) + user;
    p = put8(p, 0);
    return (uint8_t *)memcpy(p, a->password, password) + password;
}

struct wire wire_open(const char *uri, size_t buffer)
{
    struct address a = address_of(uri, "5552");
    struct wire w = wire_connect(&a, buffer);
    struct request r;
    request_begin(&w, &r, KEY_PEER_PROPERTIES);
    r.at = put32(r.at, 0);
    request_call(&w, &r, "peer properties");
    request_begin(&w, &r, KEY_SASL_HANDSHAKE);
    request_call(&w, &r, "SASL handshake");
    request_begin(&w, &r, KEY_SASL_AUTHENTICATE);
    r.at = put_plain(r.at, &a);
    request_call(&w, &r, "login");
    struct frame tune = wire_read(&w);
    if (tune.key != KEY_TUNE)
        die("the broker sent key %u where Tune was due", tune.key);
    uint32_t frame_max = get32(tune.data + 8);
    request_begin(&w, &r, KEY_RESPONSE | KEY_TUNE);
    r.at = put32(r.at, frame_max);
    r.at = put32(r.at, 0);
    request_send(&w, &r);
    request_begin(&w, &r, KEY_OPEN);
    r.at = put_text(r.at, "/");
    request_call(&w, &r, "open");
    request_begin(&w, &r, KEY_VERSIONS);
    r.at = put32(r.at, 1);
    r.at = put16(put16(put16(r.at, KEY_DELIVER), 1), 2);
    request_call(&w, &r, "command versions");
    return w;
}

/* What a connection is for ----------------------------------------------------------------------------------------- */

void wire_create(struct wire *w, const char *stream)
{
    struct request r;
    request_begin(w, &r, KEY_CREATE);
    r.at = put_text(r.at, stream);
    r.at = put32(r.at, 0);
    request_call(w, &r, "create");
}

void wire_delete(struct wire *w, const char *stream)
{
    struct request r;
    request_begin(w, &r, KEY_DELETE);
    r.at = put_text(r.at, stream);
    request_call(w, &r, "delete");
}

void wire_declare(struct wire *w, const char *stream)
{
    struct request r;
    request_begin(w, &r, KEY_DECLARE_PUBLISHER);
    r.at = put8(r.at, 0);
    r.at = put_text(r.at, "");
    r.at = put_text(r.at, stream);
    request_call(w, &r, "declare publisher");
}

void wire_subscribe(struct wire *w, const char *stream, enum offset_kind from, uint16_t credit)
{
    struct request r;
    request_begin(w, &r, KEY_SUBSCRIBE);
    r.at = put8(r.at, 0);
    r.at = put_text(r.at, stream);
    r.at = put16(r.at, (uint16_t)from);
    r.at = put16(r.at, credit);
    request_call(w, &r, "subscribe");
}

void wire_unsubscribe(struct wire *w)
{
    struct request r;
    request_begin(w, &r, KEY_UNSUBSCRIBE);
    r.at = put8(r.at, 0);
    request_call(w, &r, "unsubscribe");
}

void wire_credit(struct wire *w, uint16_t credit)
{
    struct request r;
    request_begin(w, &r, KEY_CREDIT);
    r.at = put8(r.at, 0);
    r.at = put16(r.at, credit);
    request_send(w, &r);
}
