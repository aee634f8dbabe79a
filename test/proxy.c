/* The fault proxy: one thread, two pipes a connection. A pipe reads into `in`, cuts whole frames out of it, makes its faults,
 * and lets them out of `out` when their time has come. */
#define _GNU_SOURCE
#include "proxy.h"

#include "proto/stream/chunk.h"
#include "proto/stream/codec.h"
#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BYTES = 65536,
    QUEUE_BYTES = 1 << 20, /* with more waiting to go out nothing is read */
    SPLIT_BYTES = 4096,    /* instead of both, where few are written at a time */
    TICK_MS = 5,           /* how often a limited direction is looked at */
    SAVED_MS = 20          /* what a limited direction may save up while nothing comes */
};

struct buffer {
    uint8_t *data;
    size_t len, cap;
};

struct parcel {
    int64_t due;
    size_t len;
};

struct pipe {
    struct buffer in;
    struct buffer out;
    struct parcel *parcels; /* of `out`, in order */
    size_t parcel_count, parcel_cap;
    int64_t read_at; /* when a limited pipe read last */
};

struct pair {
    int fds[2]; /* by direction: where its bytes come from; [0] the client's, [1] the broker's or -1 for a mute one */
    struct pipe pipes[2];
    bool over;
};

struct proxy {
    pthread_mutex_t mutex;
    pthread_t thread;
    int listener, wake;
    uint16_t port;
    char uri[64];
    char host[256];
    char service[8];
    enum proxy_door door;
    bool bytes; /* of any protocol: a parcel is what one read gave */
    bool stopping;
    bool swallow;
    int64_t delay;
    size_t split; /* bytes written at a time; 0: any number */
    int64_t limit[2];
    size_t drop[2];
    uint64_t seen[2];    /* bytes that arrived */
    uint64_t corrupt[2]; /* at this count of `seen`; UINT64_MAX: not at all */
    size_t corrupt_chunks;
    size_t refuse_confirms;
    uint16_t refuse_code;
    struct pair **pairs;
    size_t pair_count, pair_cap;
};

static void lock(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
}

static void unlock_and_wake(struct proxy *proxy)
{
    uint64_t one = 1;
    if (write(proxy->wake, &one, sizeof one) < 0)
        abort();
    pthread_mutex_unlock(&proxy->mutex);
}

static uint8_t *buffer_room(struct buffer *buffer, size_t len)
{
    if (buffer->cap - buffer->len < len) {
        buffer->cap = (buffer->len + len) * 2;
        buffer->data = realloc(buffer->data, buffer->cap);
        if (buffer->data == NULL)
            abort();
    }
    return buffer->data + buffer->len;
}

static void buffer_consume(struct buffer *buffer, size_t len)
{
    buffer->len -= len;
    if (len > 0)
        memmove(buffer->data, buffer->data + len, buffer->len);
}

/* Connections ---------------------------------------------------------------------------------------------------- */

static void listener_open(struct proxy *proxy)
{
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(proxy->listener >= 0);
    int on = 1;
    setsockopt(proxy->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(proxy->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof address;
    if (bind(proxy->listener, (struct sockaddr *)&address, len) != 0)
        fail_msg("the proxy cannot bind port %u: %s", proxy->port, strerror(errno));
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&address, &len), 0);
    proxy->port = ntohs(address.sin_port);
}

static int broker_dial(const struct proxy *proxy)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(proxy->host, proxy->service, &hints, &found) != 0)
        return -1;
    int fd = -1;
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static void socket_close(int fd, enum proxy_cut how)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (how == PROXY_RST)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

static void pair_end(struct pair *pair, enum proxy_cut how)
{
    if (pair->over)
        return;
    pair->over = true;
    for (int d = 0; d < 2; d++) {
        if (pair->fds[d] >= 0)
            socket_close(pair->fds[d], how);
        free(pair->pipes[d].in.data);
        free(pair->pipes[d].out.data);
        free(pair->pipes[d].parcels);
        pair->pipes[d] = (struct pipe){0};
    }
}

static void pair_add(struct proxy *proxy, int client, int broker)
{
    if (proxy->pair_count == proxy->pair_cap) {
        proxy->pair_cap = proxy->pair_cap * 2 + 16;
        proxy->pairs = realloc(proxy->pairs, proxy->pair_cap * sizeof(struct pair *));
    }
    struct pair *pair = calloc(1, sizeof *pair);
    if (proxy->pairs == NULL || pair == NULL)
        abort();
    pair->fds[PROXY_TO_BROKER] = client;
    pair->fds[PROXY_TO_CLIENT] = broker;
    proxy->pairs[proxy->pair_count++] = pair;
}

static void client_accept(struct proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    int broker = proxy->door == PROXY_STAYS_MUTE ? -1 : broker_dial(proxy);
    if (broker < 0 && proxy->door != PROXY_STAYS_MUTE) {
        socket_close(client, PROXY_RST);
        return;
    }
    int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (broker >= 0)
        setsockopt(broker, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pair_add(proxy, client, broker);
}

/* Faults --------------------------------------------------------------------------------------------------------- */

/* Flips a bit of the chunk's data, if this is a Deliver with any. */
static void chunk_corrupt(struct proxy *proxy, uint8_t *frame, size_t size)
{
    coney_bytes body = stream_frame_body(frame, size);
    struct stream_frame decoded;
    if (stream_body_key(body) != STREAM_DELIVER || stream_decode(body, STREAM_FROM_SERVER, &decoded) != NULL)
        return;
    if (decoded.deliver.chunk.len <= CHUNK_HEADER_BYTES)
        return;
    frame[size - 1] ^= 1;
    proxy->corrupt_chunks--;
}

/* A PublishError in place of the PublishConfirm, or false when it is none. */
static bool confirm_refuse(struct proxy *proxy, struct pipe *pipe, const uint8_t *frame, size_t size)
{
    coney_bytes body = stream_frame_body(frame, size);
    struct stream_frame confirm;
    if (stream_body_key(body) != STREAM_PUBLISH_CONFIRM || stream_decode(body, STREAM_FROM_SERVER, &confirm) != NULL)
        return false;
    size_t cap = (size_t)confirm.publish_confirm.ids.count * 10;
    uint8_t *room = malloc(cap + 1);
    if (room == NULL)
        abort();
    struct list_writer w = list_begin(room, cap);
    struct list_iter it = list_iter_of(confirm.publish_confirm.ids);
    uint64_t id;
    while (list_next_id(&it, &id))
        list_add_error(&w, (struct stream_publish_error){id, proxy->refuse_code});
    struct stream_frame error = {.key = STREAM_PUBLISH_ERROR, .version = 1};
    error.publish_error.publisher = confirm.publish_confirm.publisher;
    if (!list_end(&w, &error.publish_error.errors))
        abort();
    size_t len = stream_encode(&error, buffer_room(&pipe->out, cap + 64), cap + 64);
    pipe->out.len += len;
    pipe->parcels[pipe->parcel_count - 1].len = len;
    free(room);
    proxy->refuse_confirms--;
    return true;
}

/* Pipes ---------------------------------------------------------------------------------------------------------- */

static void parcel_add(struct proxy *proxy, struct pipe *pipe, enum proxy_direction direction, uint8_t *frame, size_t size)
{
    if (proxy->drop[direction] > 0) {
        proxy->drop[direction]--;
        return;
    }
    if (pipe->parcel_count == pipe->parcel_cap) {
        pipe->parcel_cap = pipe->parcel_cap * 2 + 16;
        pipe->parcels = realloc(pipe->parcels, pipe->parcel_cap * sizeof *pipe->parcels);
        if (pipe->parcels == NULL)
            abort();
    }
    pipe->parcels[pipe->parcel_count++] = (struct parcel){.due = now_ms() + proxy->delay, .len = size};
    if (direction == PROXY_TO_CLIENT && proxy->refuse_confirms > 0 && confirm_refuse(proxy, pipe, frame, size))
        return;
    if (direction == PROXY_TO_CLIENT && proxy->corrupt_chunks > 0)
        chunk_corrupt(proxy, frame, size);
    memcpy(buffer_room(&pipe->out, size), frame, size);
    pipe->out.len += size;
}

static void pipe_cut_frames(struct proxy *proxy, struct pipe *pipe, enum proxy_direction direction)
{
    size_t used = 0;
    for (;;) {
        uint8_t *at = pipe->in.data + used;
        size_t left = pipe->in.len - used;
        if (left < (proxy->bytes ? 1 : STREAM_SIZE_BYTES))
            break;
        size_t size = proxy->bytes ? left : (size_t)load32(at) + STREAM_SIZE_BYTES;
        if (size < STREAM_SIZE_BYTES + STREAM_SMALLEST_FRAME)
            size = left; /* not the stream protocol: as it comes */
        if (size > left)
            break;
        parcel_add(proxy, pipe, direction, at, size);
        used += size;
    }
    buffer_consume(&pipe->in, used);
}

static void bytes_corrupt(struct proxy *proxy, enum proxy_direction direction, uint8_t *at, size_t len)
{
    uint64_t before = proxy->seen[direction];
    proxy->seen[direction] += len;
    if (proxy->corrupt[direction] >= before && proxy->corrupt[direction] - before < len) {
        at[proxy->corrupt[direction] - before] ^= 0xff;
        proxy->corrupt[direction] = UINT64_MAX;
    }
}

/* How many bytes a pipe may read now. */
static size_t pipe_allowance(const struct proxy *proxy, struct pipe *pipe, enum proxy_direction direction)
{
    int64_t limit = proxy->limit[direction];
    size_t queue = proxy->split > 0 ? SPLIT_BYTES : QUEUE_BYTES;
    if (limit == PROXY_NOTHING || (pipe->out.len > queue && !proxy->swallow))
        return 0;
    if (limit == 0)
        return proxy->split > 0 ? SPLIT_BYTES : READ_BYTES;
    int64_t since = now_ms() - pipe->read_at;
    int64_t allowed = limit * (since < SAVED_MS ? since : SAVED_MS) / 1000;
    return allowed > READ_BYTES ? READ_BYTES : (size_t)allowed;
}

static void pipe_read(struct proxy *proxy, struct pair *pair, enum proxy_direction direction)
{
    struct pipe *pipe = &pair->pipes[direction];
    size_t allowed = pipe_allowance(proxy, pipe, direction);
    if (allowed == 0)
        return;
    uint8_t *at = buffer_room(&pipe->in, READ_BYTES);
    ssize_t got = recv(pair->fds[direction], at, allowed, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        pair_end(pair, got < 0 ? PROXY_RST : PROXY_FIN);
        return;
    }
    pipe->read_at = now_ms();
    if (proxy->swallow || pair->fds[PROXY_TO_CLIENT] < 0)
        return;
    bytes_corrupt(proxy, direction, at, (size_t)got);
    pipe->in.len += (size_t)got;
    pipe_cut_frames(proxy, pipe, direction);
}

static size_t pipe_due(const struct pipe *pipe)
{
    size_t due = 0;
    int64_t now = now_ms();
    for (size_t i = 0; i < pipe->parcel_count && pipe->parcels[i].due <= now; i++)
        due += pipe->parcels[i].len;
    return due;
}

static void parcels_consume(struct pipe *pipe, size_t len)
{
    size_t done = 0;
    while (done < pipe->parcel_count && pipe->parcels[done].len <= len)
        len -= pipe->parcels[done++].len;
    if (done < pipe->parcel_count)
        pipe->parcels[done].len -= len;
    pipe->parcel_count -= done;
    if (done > 0)
        memmove(pipe->parcels, pipe->parcels + done, pipe->parcel_count * sizeof *pipe->parcels);
}

static void pipe_write(const struct proxy *proxy, struct pair *pair, enum proxy_direction direction)
{
    struct pipe *pipe = &pair->pipes[direction];
    int to = pair->fds[direction == PROXY_TO_BROKER ? PROXY_TO_CLIENT : PROXY_TO_BROKER];
    size_t due;
    while ((due = pipe_due(pipe)) > 0) {
        if (proxy->split > 0 && due > proxy->split)
            due = proxy->split;
        ssize_t sent = send(to, pipe->out.data, due, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR)
                pair_end(pair, PROXY_RST);
            return;
        }
        buffer_consume(&pipe->out, (size_t)sent);
        parcels_consume(pipe, (size_t)sent);
    }
}

/* The thread ----------------------------------------------------------------------------------------------------- */

struct watch {
    struct pollfd *fds;
    size_t count, cap;
    int wait;
};

static void watch_add(struct watch *watch, int fd, int events)
{
    if (watch->count == watch->cap) {
        watch->cap = watch->cap * 2 + 16;
        watch->fds = realloc(watch->fds, watch->cap * sizeof *watch->fds);
        if (watch->fds == NULL)
            abort();
    }
    watch->fds[watch->count++] = (struct pollfd){.fd = fd, .events = (short)events};
}

static void watch_sooner(struct watch *watch, int64_t ms)
{
    if (watch->wait < 0 || ms < watch->wait)
        watch->wait = ms > 0 ? (int)ms : 0;
}

static void watch_pair(struct proxy *proxy, struct watch *watch, struct pair *pair)
{
    for (int d = 0; d < 2; d++) {
        struct pipe *mine = &pair->pipes[d], *theirs = &pair->pipes[1 - d];
        bool reads = pipe_allowance(proxy, mine, (enum proxy_direction)d) > 0;
        bool writes = pipe_due(theirs) > 0 && !proxy->swallow;
        watch_add(watch, reads || writes ? pair->fds[d] : -1, (reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
        if (proxy->limit[d] > 0 && !reads)
            watch_sooner(watch, TICK_MS);
        if (theirs->parcel_count > 0 && !writes && !proxy->swallow)
            watch_sooner(watch, theirs->parcels[0].due - now_ms());
    }
}

static void watch_gather(struct proxy *proxy, struct watch *watch)
{
    watch->count = 0;
    watch->wait = -1;
    watch_add(watch, proxy->wake, POLLIN);
    watch_add(watch, proxy->door == PROXY_REFUSES ? -1 : proxy->listener, POLLIN);
    for (size_t i = 0; i < proxy->pair_count; i++)
        watch_pair(proxy, watch, proxy->pairs[i]);
}

static void serve_pair(struct proxy *proxy, struct pair *pair, const struct pollfd *fds)
{
    for (int d = 0; d < 2 && !pair->over; d++)
        if (fds[d].fd == pair->fds[d] && (fds[d].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            pipe_read(proxy, pair, (enum proxy_direction)d);
    for (int d = 0; d < 2 && !pair->over && !proxy->swallow; d++)
        pipe_write(proxy, pair, (enum proxy_direction)d);
}

static void pairs_sweep(struct proxy *proxy)
{
    size_t kept = 0;
    for (size_t i = 0; i < proxy->pair_count; i++) {
        if (proxy->pairs[i]->over)
            free(proxy->pairs[i]);
        else
            proxy->pairs[kept++] = proxy->pairs[i];
    }
    proxy->pair_count = kept;
}

static void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;
    struct watch watch = {0};
    lock(proxy);
    while (!proxy->stopping) {
        pairs_sweep(proxy);
        watch_gather(proxy, &watch);
        size_t watched = proxy->pair_count;
        pthread_mutex_unlock(&proxy->mutex);
        poll(watch.fds, watch.count, watch.wait);
        lock(proxy);
        uint64_t count;
        ssize_t got = read(proxy->wake, &count, sizeof count);
        (void)got;
        for (size_t i = 0; i < watched; i++)
            serve_pair(proxy, proxy->pairs[i], &watch.fds[2 + 2 * i]);
        if (watch.fds[1].revents != 0 && proxy->door != PROXY_REFUSES)
            client_accept(proxy);
    }
    pthread_mutex_unlock(&proxy->mutex);
    free(watch.fds);
    return NULL;
}

/* From outside --------------------------------------------------------------------------------------------------- */

static struct proxy *start(const char *host, uint16_t port, bool bytes)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    assert_non_null(proxy);
    proxy->bytes = bytes;
    pthread_mutex_init(&proxy->mutex, NULL);
    snprintf(proxy->host, sizeof proxy->host, "%s", host);
    snprintf(proxy->service, sizeof proxy->service, "%u", port);
    proxy->corrupt[0] = proxy->corrupt[1] = UINT64_MAX;
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(proxy->wake >= 0);
    listener_open(proxy);
    assert_int_equal(listen(proxy->listener, 512), 0);
    snprintf(proxy->uri, sizeof proxy->uri, "rabbitmq-stream://127.0.0.1:%u", proxy->port);

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&proxy->thread, NULL, proxy_run, proxy), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return proxy;
}

struct proxy *proxy_start(const char *host, uint16_t port)
{
    return start(host, port, false);
}

struct proxy *proxy_start_bytes(const char *host, uint16_t port)
{
    return start(host, port, true);
}

void proxy_stop(struct proxy **proxy)
{
    struct proxy *p = *proxy;
    if (p == NULL)
        return;
    *proxy = NULL;
    lock(p);
    p->stopping = true;
    unlock_and_wake(p);
    pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->pair_count; i++)
        pair_end(p->pairs[i], PROXY_FIN);
    for (size_t i = 0; i < p->pair_count; i++)
        free(p->pairs[i]);
    free(p->pairs);
    close(p->listener);
    close(p->wake);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

uint16_t proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

const char *proxy_uri(const struct proxy *proxy)
{
    return proxy->uri;
}

void proxy_resolve(void *ctx, char *host, size_t host_cap, uint16_t *port)
{
    const struct proxy *proxy = ctx;
    snprintf(host, host_cap, "127.0.0.1");
    *port = proxy->port;
}

void proxy_delay(struct proxy *proxy, int64_t ms)
{
    lock(proxy);
    proxy->delay = ms;
    unlock_and_wake(proxy);
}

void proxy_split(struct proxy *proxy, size_t bytes)
{
    lock(proxy);
    proxy->split = bytes;
    unlock_and_wake(proxy);
}

void proxy_cut(struct proxy *proxy, enum proxy_cut how)
{
    lock(proxy);
    for (size_t i = 0; i < proxy->pair_count; i++)
        pair_end(proxy->pairs[i], how);
    unlock_and_wake(proxy);
}

void proxy_swallow(struct proxy *proxy, bool swallow)
{
    lock(proxy);
    proxy->swallow = swallow;
    unlock_and_wake(proxy);
}

void proxy_set_door(struct proxy *proxy, enum proxy_door door)
{
    lock(proxy);
    if (door == PROXY_REFUSES && proxy->door != PROXY_REFUSES) {
        shutdown(proxy->listener, SHUT_RDWR); /* the thread may be in a poll that keeps the socket alive */
        close(proxy->listener);
        listener_open(proxy); /* bound, not listening: the port stays ours */
    }
    if (door != PROXY_REFUSES && proxy->door == PROXY_REFUSES)
        assert_int_equal(listen(proxy->listener, 512), 0);
    proxy->door = door;
    unlock_and_wake(proxy);
}

void proxy_drop(struct proxy *proxy, enum proxy_direction direction, size_t count)
{
    lock(proxy);
    proxy->drop[direction] = count;
    unlock_and_wake(proxy);
}

void proxy_corrupt(struct proxy *proxy, enum proxy_direction direction, uint64_t offset)
{
    lock(proxy);
    proxy->corrupt[direction] = proxy->seen[direction] + offset;
    unlock_and_wake(proxy);
}

void proxy_corrupt_chunks(struct proxy *proxy, size_t count)
{
    lock(proxy);
    proxy->corrupt_chunks = count;
    unlock_and_wake(proxy);
}

void proxy_refuse_confirms(struct proxy *proxy, size_t count, uint16_t code)
{
    lock(proxy);
    proxy->refuse_confirms = count;
    proxy->refuse_code = code;
    unlock_and_wake(proxy);
}

void proxy_limit(struct proxy *proxy, enum proxy_direction direction, int64_t bytes_a_second)
{
    lock(proxy);
    proxy->limit[direction] = bytes_a_second;
    unlock_and_wake(proxy);
}
