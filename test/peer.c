/* The scripted peer: its life, its thread and its sockets. */
#define _GNU_SOURCE
#include "peer_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

void peer_lock(struct peer *peer)
{
    pthread_mutex_lock(&peer->mutex);
}

void peer_unlock(struct peer *peer)
{
    pthread_mutex_unlock(&peer->mutex);
}

void peer_wake(struct peer *peer)
{
    uint64_t one = 1;
    if (write(peer->wake, &one, sizeof one) < 0)
        abort();
    pthread_cond_broadcast(&peer->changed);
}

void *peer_grow(void *array, size_t count, size_t *cap, size_t element)
{
    if (count < *cap)
        return array;
    *cap = *cap == 0 ? 16 : *cap * 2;
    array = realloc(array, *cap * element);
    if (array == NULL)
        abort();
    return array;
}

bool peer_is_command(const struct peer_record *record)
{
    uint16_t key = record->frame.key;
    return !record->frame.response || key == STREAM_TUNE || key == STREAM_CONSUMER_UPDATE;
}

struct connection *peer_connection(struct peer *peer, int connection)
{
    if (connection < 0 || (size_t)connection >= peer->connection_count)
        return NULL;
    struct connection *c = &peer->connections[connection];
    return c->fd >= 0 ? c : NULL;
}

/* Sockets -------------------------------------------------------------------------------------------------------- */

void peer_bind(struct peer *peer)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(struct sockaddr_in);
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
    if (inet_pton(AF_INET, peer->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(peer->port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, peer->host, &v6->sin6_addr), 1);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(peer->port);
        len = sizeof *v6;
    }
    peer->listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(peer->listener >= 0);
    int on = 1;
    setsockopt(peer->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(peer->listener, (struct sockaddr *)&address, len) != 0)
        fail_msg("the peer cannot bind %s:%u: %s", peer->host, peer->port, strerror(errno));
    len = sizeof address;
    assert_int_equal(getsockname(peer->listener, (struct sockaddr *)&address, &len), 0);
    peer->port = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
}

void peer_end(struct peer *peer, int connection, enum peer_cut how)
{
    struct connection *c = peer_connection(peer, connection);
    if (c == NULL)
        return;
    if (how == PEER_RST) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    } else if (c->out_len > 0) {
        ssize_t sent = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent;
    }
    close(c->fd);
    c->fd = -1;
    free(c->in);
    free(c->out);
    c->in = c->out = NULL;
    c->in_len = c->in_cap = c->out_len = c->out_cap = 0;
    peer_forget_connection(peer, connection);
    pthread_cond_broadcast(&peer->changed);
}

static void connections_accept(struct peer *peer)
{
    int fd;
    while ((fd = accept4(peer->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        peer->connections =
            peer_grow(peer->connections, peer->connection_count, &peer->connection_cap, sizeof *peer->connections);
        peer->connections[peer->connection_count++] =
            (struct connection){.fd = fd, .mute = peer->accept_mute, .deliver_version = 1};
        pthread_cond_broadcast(&peer->changed);
    }
}

static void connection_write(struct peer *peer, int connection)
{
    struct connection *c = &peer->connections[connection];
    while (c->out_len > 0) {
        ssize_t sent = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR)
                peer_end(peer, connection, PEER_FIN);
            return;
        }
        c->out_len -= (size_t)sent;
        memmove(c->out, c->out + sent, c->out_len);
    }
    if (c->closing)
        peer_end(peer, connection, PEER_FIN);
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

static void connection_parse(struct peer *peer, int connection)
{
    size_t used = 0;
    for (;;) {
        struct connection *c = peer_connection(peer, connection);
        if (c == NULL)
            return;
        const char *field;
        size_t size = stream_frame_size(c->in + used, c->in_len - used, UINT32_MAX - STREAM_SIZE_BYTES, &field);
        if (field != NULL || size == 0 || size > c->in_len - used) {
            c->in_len -= used;
            memmove(c->in, c->in + used, c->in_len);
            return;
        }
        const uint8_t *body = c->in + used + STREAM_SIZE_BYTES;
        used += size;
        peer_frame_arrived(peer, connection, body, size - STREAM_SIZE_BYTES);
    }
}

static void connection_read(struct peer *peer, int connection)
{
    struct connection *c = &peer->connections[connection];
    if (c->in_cap - c->in_len < 65536) {
        c->in_cap = c->in_len * 2 + 65536;
        c->in = realloc(c->in, c->in_cap);
        if (c->in == NULL)
            abort();
    }
    ssize_t got = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        peer_end(peer, connection, PEER_FIN);
        return;
    }
    c->in_len += (size_t)got;
    connection_parse(peer, connection);
}

/* The thread ----------------------------------------------------------------------------------------------------- */

struct watch {
    struct pollfd *fds;
    int *connections;
    size_t count, cap, connection_cap;
};

static void watch_add(struct watch *watch, int fd, short events, int connection)
{
    watch->fds = peer_grow(watch->fds, watch->count, &watch->cap, sizeof *watch->fds);
    watch->connections = peer_grow(watch->connections, watch->count, &watch->connection_cap, sizeof *watch->connections);
    watch->fds[watch->count] = (struct pollfd){.fd = fd, .events = events};
    watch->connections[watch->count++] = connection;
}

/* First the wake-up, then, unless frozen, the listener (-2) and the connections. */
static void watch_gather(struct peer *peer, struct watch *watch)
{
    watch->count = 0;
    watch_add(watch, peer->wake, POLLIN, -1);
    if (peer->frozen)
        return;
    if (!peer->down)
        watch_add(watch, peer->listener, POLLIN, -2);
    for (size_t i = 0; i < peer->connection_count; i++) {
        const struct connection *c = &peer->connections[i];
        if (c->fd >= 0)
            watch_add(watch, c->fd, (short)((c->stopped ? 0 : POLLIN) | (c->out_len > 0 || c->closing ? POLLOUT : 0)), (int)i);
    }
}

static void connection_ready(struct peer *peer, int connection, short events)
{
    const struct connection *c = peer_connection(peer, connection);
    if (c != NULL && (events & POLLOUT) != 0)
        connection_write(peer, connection);
    c = peer_connection(peer, connection);
    if (c != NULL && !c->stopped && (events & (POLLIN | POLLHUP | POLLERR)) != 0)
        connection_read(peer, connection);
    c = peer_connection(peer, connection);
    if (c != NULL && c->stopped && (events & (POLLHUP | POLLERR)) != 0)
        peer_end(peer, connection, PEER_FIN);
}

static void watch_serve(struct peer *peer, const struct watch *watch)
{
    for (size_t i = 1; i < watch->count && !peer->frozen; i++) {
        if (watch->fds[i].revents == 0)
            continue;
        if (watch->connections[i] == -2) {
            if (!peer->down)
                connections_accept(peer);
        } else {
            connection_ready(peer, watch->connections[i], watch->fds[i].revents);
        }
    }
}

static int every_left(const struct peer *peer)
{
    if (peer->every == 0 || peer->frozen)
        return -1;
    int64_t left = peer->every_due - now_ms();
    return left > 0 ? (int)left : 0;
}

static void every_run(struct peer *peer)
{
    if (peer->every == 0 || peer->frozen || now_ms() < peer->every_due)
        return;
    peer->every_due = now_ms() + peer->every;
    peer->every_fn(peer->every_ctx, peer);
}

static void *peer_run(void *arg)
{
    struct peer *peer = arg;
    struct watch watch = {0};
    peer_lock(peer);
    while (!peer->stopping) {
        watch_gather(peer, &watch);
        int wait = every_left(peer);
        peer_unlock(peer);
        poll(watch.fds, watch.count, wait);
        peer_lock(peer);
        if (watch.fds[0].revents != 0) {
            uint64_t count;
            ssize_t got = read(peer->wake, &count, sizeof count);
            (void)got;
        }
        watch_serve(peer, &watch);
        every_run(peer);
    }
    peer_unlock(peer);
    free(watch.fds);
    free(watch.connections);
    return NULL;
}

struct peer *peer_start_on(const char *host)
{
    struct peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&peer->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&peer->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);

    snprintf(peer->host, sizeof peer->host, "%s", host);
    snprintf(peer->version, sizeof peer->version, "4.0.0");
    peer->frame_max = 1u << 20;
    peer->heartbeat = 60;
    peer->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(peer->wake >= 0);
    peer_bind(peer);
    assert_int_equal(listen(peer->listener, 512), 0);
    bool v6 = strchr(host, ':') != NULL;
    snprintf(peer->address, sizeof peer->address, v6 ? "[%s]:%u" : "%s:%u", host, peer->port);
    snprintf(peer->uri, sizeof peer->uri, "rabbitmq-stream://%s", peer->address);

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&peer->thread, NULL, peer_run, peer), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return peer;
}

struct peer *peer_start(void)
{
    return peer_start_on("127.0.0.1");
}

/* The name of what a client may not send, or NULL. */
static const char *nonsense_of(const struct peer *peer, char *text, size_t cap)
{
    for (size_t i = 0; i < peer->log_count; i++) {
        const struct peer_record *record = &peer->log[i]->record;
        if (record->wrong == NULL)
            continue;
        snprintf(text, cap, "%s (key %u, %zu bytes): %s", stream_key_name(record->frame.key), record->frame.key,
                 record->bytes.len, record->wrong);
        return text;
    }
    return NULL;
}

static void peer_free(struct peer *peer)
{
    for (size_t i = 0; i < peer->log_count; i++)
        free(peer->log[i]);
    for (size_t i = 0; i < peer->publisher_count; i++)
        free(peer->publishers[i]);
    for (size_t i = 0; i < peer->rule_count; i++)
        free(peer->rules[i].raw);
    free(peer->log);
    free(peer->publishers);
    free(peer->rules);
    free(peer->connections);
    free(peer->subscriptions);
    free(peer->names);
    free(peer->messages);
    pthread_cond_destroy(&peer->changed);
    pthread_mutex_destroy(&peer->mutex);
    free(peer);
}

void peer_stop(struct peer **peer)
{
    struct peer *p = *peer;
    if (p == NULL)
        return;
    *peer = NULL;
    peer_lock(p);
    p->stopping = true;
    peer_wake(p);
    peer_unlock(p);
    pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->connection_count; i++)
        peer_end(p, (int)i, PEER_FIN);
    close(p->listener);
    close(p->wake);
    char text[200];
    const char *nonsense = p->nonsense_allowed ? NULL : nonsense_of(p, text, sizeof text);
    peer_free(p);
    if (nonsense != NULL)
        fail_msg("the client sent a frame that no client may send: %s", nonsense);
}

uint16_t peer_port(const struct peer *peer)
{
    return peer->port;
}

const char *peer_uri(const struct peer *peer)
{
    return peer->uri;
}

const char *peer_address(const struct peer *peer)
{
    return peer->address;
}

void peer_allow_nonsense(struct peer *peer)
{
    peer_lock(peer);
    peer->nonsense_allowed = true;
    peer_unlock(peer);
}

void peer_every(struct peer *peer, int64_t ms, void (*fn)(void *ctx, struct peer *peer), void *ctx)
{
    peer_lock(peer);
    peer->every = ms;
    peer->every_due = now_ms() + ms;
    peer->every_fn = fn;
    peer->every_ctx = ctx;
    peer_wake(peer);
    peer_unlock(peer);
}
