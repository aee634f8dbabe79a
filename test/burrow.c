/* Scripted brokers: their life, their thread, their sockets and what may go wrong there. */
#define _GNU_SOURCE
#include "burrow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

void burrow_lock(struct burrow *burrow)
{
    pthread_mutex_lock(&burrow->mutex);
}

void burrow_unlock(struct burrow *burrow)
{
    pthread_mutex_unlock(&burrow->mutex);
}

void burrow_wake(struct burrow *burrow)
{
    uint64_t one = 1;
    if (write(burrow->wake, &one, sizeof one) < 0)
        abort();
    pthread_cond_broadcast(&burrow->changed);
}

void *burrow_grow(void *array, size_t count, size_t *cap, size_t element)
{
    if (count < *cap)
        return array;
    *cap = *cap == 0 ? 16 : *cap * 2;
    array = realloc(array, *cap * element);
    if (array == NULL)
        abort();
    return array;
}

struct burrow_connection *burrow_connection(struct burrow *burrow, int connection)
{
    if (connection < 0 || (size_t)connection >= burrow->connection_count)
        return NULL;
    struct burrow_connection *c = burrow->connections[connection];
    return c->fd >= 0 ? c : NULL;
}

/* Sockets -------------------------------------------------------------------------------------------------------- */

static void bind_listener(struct burrow *burrow)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(struct sockaddr_in);
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
    if (inet_pton(AF_INET, burrow->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(burrow->port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, burrow->host, &v6->sin6_addr), 1);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(burrow->port);
        len = sizeof *v6;
    }
    burrow->listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(burrow->listener >= 0);
    int on = 1;
    setsockopt(burrow->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(burrow->listener, (struct sockaddr *)&address, len) != 0)
        fail_msg("a scripted broker cannot bind %s:%u: %s", burrow->host, burrow->port, strerror(errno));
    len = sizeof address;
    assert_int_equal(getsockname(burrow->listener, (struct sockaddr *)&address, &len), 0);
    burrow->port = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
}

void burrow_hang_up(struct burrow *burrow, int connection, enum peer_cut how)
{
    struct burrow_connection *c = burrow_connection(burrow, connection);
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
    burrow->kind->ended(burrow, connection);
    pthread_cond_broadcast(&burrow->changed);
}

void burrow_hang_up_soon(struct burrow *burrow, int connection)
{
    struct burrow_connection *c = burrow_connection(burrow, connection);
    if (c != NULL)
        c->closing = true;
    burrow_wake(burrow);
}

static void accept_connections(struct burrow *burrow)
{
    int fd;
    while ((fd = accept4(burrow->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct burrow_connection *c = calloc(1, burrow->kind->connection_size);
        if (c == NULL)
            abort();
        c->fd = fd;
        c->mute = burrow->accept_mute;
        burrow->connections =
            burrow_grow(burrow->connections, burrow->connection_count, &burrow->connection_cap, sizeof *burrow->connections);
        burrow->connections[burrow->connection_count++] = c;
        burrow->kind->accepted(burrow, (int)burrow->connection_count - 1);
        pthread_cond_broadcast(&burrow->changed);
    }
}

static void write_out(struct burrow *burrow, int connection)
{
    struct burrow_connection *c = burrow->connections[connection];
    while (c->out_len > 0) {
        size_t len = burrow->chop > 0 && burrow->chop < c->out_len ? burrow->chop : c->out_len;
        ssize_t sent = send(c->fd, c->out, len, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR)
                burrow_hang_up(burrow, connection, PEER_FIN);
            return;
        }
        c->out_len -= (size_t)sent;
        memmove(c->out, c->out + sent, c->out_len);
        if (c->out_len > 0 && burrow->chop > 0) {
            sched_yield(); /* the client may read this piece before the next one */
            return;
        }
    }
    if (c->closing)
        burrow_hang_up(burrow, connection, PEER_FIN);
}

static void take_frames(struct burrow *burrow, int connection)
{
    for (size_t used = 0;;) {
        struct burrow_connection *c = burrow_connection(burrow, connection);
        if (c == NULL)
            return;
        size_t size = burrow->kind->arrived(burrow, connection, c->in + used, c->in_len - used);
        used += size;
        if (size > 0)
            continue;
        c->in_len -= used;
        memmove(c->in, c->in + used, c->in_len);
        return;
    }
}

static void read_in(struct burrow *burrow, int connection)
{
    struct burrow_connection *c = burrow->connections[connection];
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
        burrow_hang_up(burrow, connection, PEER_FIN);
        return;
    }
    c->in_len += (size_t)got;
    take_frames(burrow, connection);
}

/* The thread ----------------------------------------------------------------------------------------------------- */

struct watch {
    struct pollfd *fds;
    int *connections;
    size_t count, cap, connection_cap;
};

static void watch_add(struct watch *watch, int fd, short events, int connection)
{
    watch->fds = burrow_grow(watch->fds, watch->count, &watch->cap, sizeof *watch->fds);
    watch->connections = burrow_grow(watch->connections, watch->count, &watch->connection_cap, sizeof *watch->connections);
    watch->fds[watch->count] = (struct pollfd){.fd = fd, .events = events};
    watch->connections[watch->count++] = connection;
}

/* First the wake-up, then, unless frozen, the listener (-2) and the connections. */
static void watch_gather(struct burrow *burrow, struct watch *watch)
{
    watch->count = 0;
    watch_add(watch, burrow->wake, POLLIN, -1);
    if (burrow->frozen)
        return;
    if (!burrow->down)
        watch_add(watch, burrow->listener, POLLIN, -2);
    for (size_t i = 0; i < burrow->connection_count; i++) {
        const struct burrow_connection *c = burrow->connections[i];
        if (c->fd >= 0)
            watch_add(watch, c->fd, (short)((c->stopped ? 0 : POLLIN) | (c->out_len > 0 || c->closing ? POLLOUT : 0)), (int)i);
    }
}

static void serve_connection(struct burrow *burrow, int connection, short events)
{
    const struct burrow_connection *c = burrow_connection(burrow, connection);
    if (c != NULL && (events & POLLOUT) != 0)
        write_out(burrow, connection);
    c = burrow_connection(burrow, connection);
    if (c != NULL && !c->stopped && (events & (POLLIN | POLLHUP | POLLERR)) != 0)
        read_in(burrow, connection);
    c = burrow_connection(burrow, connection);
    if (c != NULL && c->stopped && (events & (POLLHUP | POLLERR)) != 0)
        burrow_hang_up(burrow, connection, PEER_FIN);
}

static void watch_serve(struct burrow *burrow, const struct watch *watch)
{
    for (size_t i = 1; i < watch->count && !burrow->frozen; i++) {
        if (watch->fds[i].revents == 0)
            continue;
        if (watch->connections[i] != -2)
            serve_connection(burrow, watch->connections[i], watch->fds[i].revents);
        else if (!burrow->down)
            accept_connections(burrow);
    }
}

static int until_tick(const struct burrow *burrow)
{
    if (burrow->every == 0 || burrow->frozen)
        return -1;
    int64_t left = burrow->every_due - now_ms();
    return left > 0 ? (int)left : 0;
}

static void tick(struct burrow *burrow)
{
    if (burrow->every == 0 || burrow->frozen || now_ms() < burrow->every_due)
        return;
    burrow->every_due = now_ms() + burrow->every;
    burrow->kind->tick(burrow);
}

static void *run(void *arg)
{
    struct burrow *burrow = arg;
    struct watch watch = {0};
    burrow_lock(burrow);
    while (!burrow->stopping) {
        watch_gather(burrow, &watch);
        int wait = until_tick(burrow);
        burrow_unlock(burrow);
        poll(watch.fds, watch.count, wait);
        burrow_lock(burrow);
        if (watch.fds[0].revents != 0) {
            uint64_t count;
            ssize_t got = read(burrow->wake, &count, sizeof count);
            (void)got;
        }
        watch_serve(burrow, &watch);
        tick(burrow);
    }
    burrow_unlock(burrow);
    free(watch.fds);
    free(watch.connections);
    return NULL;
}

/* Life ------------------------------------------------------------------------------------------------------------- */

static void make_lock(struct burrow *burrow)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&burrow->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&burrow->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void burrow_start(struct burrow *burrow, const struct burrow_kind *kind, const char *host)
{
    burrow->kind = kind;
    make_lock(burrow);
    snprintf(burrow->host, sizeof burrow->host, "%s", host);
    burrow->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(burrow->wake >= 0);
    bind_listener(burrow);
    assert_int_equal(listen(burrow->listener, 512), 0);
    bool v6 = strchr(host, ':') != NULL;
    snprintf(burrow->address, sizeof burrow->address, v6 ? "[%s]:%u" : "%s:%u", host, burrow->port);

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&burrow->thread, NULL, run, burrow), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void burrow_end(struct burrow *burrow)
{
    burrow_lock(burrow);
    burrow->stopping = true;
    burrow_wake(burrow);
    burrow_unlock(burrow);
    pthread_join(burrow->thread, NULL);
    for (size_t i = 0; i < burrow->connection_count; i++)
        burrow_hang_up(burrow, (int)i, PEER_FIN);
    close(burrow->listener);
    close(burrow->wake);
}

void burrow_free(struct burrow *burrow)
{
    for (size_t i = 0; i < burrow->log_count; i++)
        free(burrow->log[i]);
    for (size_t i = 0; i < burrow->connection_count; i++)
        free(burrow->connections[i]);
    for (size_t i = 0; i < burrow->rule_count; i++)
        free(burrow->rules[i].raw);
    free(burrow->log);
    free(burrow->connections);
    free(burrow->rules);
    free(burrow->tallies);
    pthread_cond_destroy(&burrow->changed);
    pthread_mutex_destroy(&burrow->mutex);
}

/* Faults and pushes ------------------------------------------------------------------------------------------------ */

static void corrupt(struct burrow *burrow, uint8_t *bytes, size_t len)
{
    if (burrow->corrupt_in > 0 && burrow->corrupt_in <= len)
        bytes[burrow->corrupt_in - 1] ^= burrow->corrupt_by;
    burrow->corrupt_in = burrow->corrupt_in > len ? burrow->corrupt_in - len : 0;
}

static void send_to(struct burrow *burrow, int connection, coney_bytes bytes)
{
    struct burrow_connection *c = burrow_connection(burrow, connection);
    if (c == NULL || c->closing)
        return;
    if (c->out_cap - c->out_len < bytes.len) {
        c->out_cap = (c->out_len + bytes.len) * 2;
        c->out = realloc(c->out, c->out_cap);
        if (c->out == NULL)
            abort();
    }
    if (bytes.len > 0)
        memcpy(c->out + c->out_len, bytes.data, bytes.len);
    corrupt(burrow, c->out + c->out_len, bytes.len);
    c->out_len += bytes.len;
}

void burrow_send(struct burrow *burrow, int connection, coney_bytes bytes)
{
    burrow_lock(burrow);
    if (connection == PEER_ALL)
        for (size_t i = 0; i < burrow->connection_count; i++)
            send_to(burrow, (int)i, bytes);
    else
        send_to(burrow, connection, bytes);
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

void burrow_cut(struct burrow *burrow, int connection, enum peer_cut how)
{
    burrow_lock(burrow);
    if (connection == PEER_ALL)
        for (size_t i = 0; i < burrow->connection_count; i++)
            burrow_hang_up(burrow, (int)i, how);
    else
        burrow_hang_up(burrow, connection, how);
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

void burrow_freeze(struct burrow *burrow, bool frozen)
{
    burrow_lock(burrow);
    burrow->frozen = frozen;
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

void burrow_accept_mute(struct burrow *burrow, bool mute)
{
    burrow_lock(burrow);
    burrow->accept_mute = mute;
    burrow_unlock(burrow);
}

void burrow_stop_reading(struct burrow *burrow, int connection, bool stopped)
{
    burrow_lock(burrow);
    for (size_t i = 0; i < burrow->connection_count; i++)
        if (connection == PEER_ALL || connection == (int)i)
            burrow->connections[i]->stopped = stopped;
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

void burrow_go_down(struct burrow *burrow, enum peer_cut how)
{
    burrow_lock(burrow);
    burrow->down = true;
    shutdown(burrow->listener, SHUT_RDWR); /* the thread may be in a poll that keeps the socket alive */
    close(burrow->listener);
    for (size_t i = 0; i < burrow->connection_count; i++)
        burrow_hang_up(burrow, (int)i, how);
    bind_listener(burrow); /* bound but not listening: the port stays ours and refuses connections */
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

void burrow_come_up(struct burrow *burrow)
{
    burrow_lock(burrow);
    burrow->down = false;
    assert_int_equal(listen(burrow->listener, 512), 0);
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

void burrow_chop(struct burrow *burrow, size_t bytes)
{
    burrow_lock(burrow);
    burrow->chop = bytes;
    burrow_unlock(burrow);
}

void burrow_every(struct burrow *burrow, int64_t ms)
{
    burrow_lock(burrow);
    burrow->every = ms;
    burrow->every_due = now_ms() + ms;
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

void burrow_corrupt(struct burrow *burrow, size_t nth, uint8_t by)
{
    burrow_lock(burrow);
    burrow->corrupt_in = nth;
    burrow->corrupt_by = by;
    burrow_unlock(burrow);
}
