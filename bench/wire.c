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

static int connected_socket(const struct address *a)
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
    struct timeval patience = {.tv_sec = 30};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

struct address address_of(const char *uri, const char *default_port)
{
    struct address a = {.user = "guest", .password = "guest"};
    snprintf(a.port, sizeof a.port, "%s", default_port);
    const char *rest = strstr(uri, "://");
    rest = rest != NULL ? rest + 3 : uri;
    const char *at = strchr(rest, '@');
    if (at != NULL && sscanf(rest, "%127[^:@]:%127[^@]", a.user, a.password) < 1)
        die("no user name before '@' in '%s'", uri);
    if (sscanf(at != NULL ? at + 1 : rest, "%255[^:/]:%7[0-9]", a.host, a.port) < 1)
        die("no host in '%s'", uri);
    return a;
}

struct wire wire_connect(const struct address *address, size_t buffer)
{
    return wire_around(connected_socket(address), buffer);
}

struct wire wire_around(int fd, size_t buffer)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct wire w = {.fd = fd, .buffer = must_alloc(buffer), .cap = buffer};
    memset(w.buffer, 0, buffer);
    return w;
}

void wire_close(struct wire *w)
{
    close(w->fd);
    free(w->buffer);
    *w = (struct wire){.fd = -1};
}

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
