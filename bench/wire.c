/* wire.c: see wire.h. */
#define _GNU_SOURCE
#include "wire.h"

#include "measure.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

void wire_write(struct wire *w, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(w->fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            die("write: %s", strerror(errno));
        data += n;
        len -= (size_t)n;
    }
}

void wire_make_room(struct wire *w, size_t want)
{
    if (w->cap - w->start >= want && w->end < w->cap)
        return;
    memmove(w->buffer, w->buffer + w->start, w->end - w->start);
    w->end -= w->start;
    w->start = 0;
    if (w->cap >= want && w->end < w->cap)
        return;
    w->cap = want > 2 * w->cap ? want : 2 * w->cap;
    w->buffer = realloc(w->buffer, w->cap);
    if (w->buffer == NULL)
        die("%zu bytes of memory could not be had", w->cap);
}

bool wire_fill(struct wire *w, int flags)
{
    for (;;) {
        ssize_t n = recv(w->fd, w->buffer + w->end, w->cap - w->end, flags);
        if (n > 0) {
            w->end += (size_t)n;
            return true;
        }
        if (n == 0)
            die("the broker closed the connection");
        if (errno == EAGAIN && (flags & MSG_DONTWAIT) != 0)
            return false;
        if (errno == EAGAIN)
            die("nothing came from the broker for 30 seconds");
        if (errno != EINTR)
            die("read: %s", strerror(errno));
    }
}

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

/* The connection --------------------------------------------------------------------------------------------------- */

struct address {
    char user[128];
    char password[128];
    char host[256];
    char port[8];
};

/* `rabbitmq-stream://user:password@host:port`, without escapes; user, password and port may be left out. */
static struct address address_of(const char *uri)
{
    struct address a = {.user = "guest", .password = "guest", .port = "5552"};
    const char *rest = strstr(uri, "://");
    rest = rest != NULL ? rest + 3 : uri;
    const char *at = strchr(rest, '@');
    if (at != NULL && sscanf(rest, "%127[^:@]:%127[^@]", a.user, a.password) < 1)
        die("no user name before '@' in '%s'", uri);
    if (sscanf(at != NULL ? at + 1 : rest, "%255[^:/]:%7[0-9]", a.host, a.port) < 1)
        die("no host in '%s'", uri);
    return a;
}

static int wire_connect(const struct address *a)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(a->host, a->port, &hints, &found);
    if (rc != 0)
        die("%s: %s", a->host, gai_strerror(rc));
    int fd = -1;
    for (struct addrinfo *i = found; i != NULL && fd < 0; i = i->ai_next) {
        fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, i->ai_addr, i->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0)
        die("no connection to %s:%s: %s", a->host, a->port, strerror(errno));
    int on = 1;
    struct timeval patience = {.tv_sec = 30};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
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
    struct address a = address_of(uri);
    struct wire w = {.fd = wire_connect(&a), .buffer = must_alloc(buffer), .cap = buffer};
    memset(w.buffer, 0, buffer);
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

void wire_close(struct wire *w)
{
    close(w->fd);
    free(w->buffer);
    *w = (struct wire){.fd = -1};
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
