/* link_fixture.h: a link against a socket that the test holds: frames are four bytes of length and so many of content.
 *
 * For the link's tests: their first include.
 */
#ifndef CONEY_NET_LINK_FIXTURE_H
#define CONEY_NET_LINK_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/link_internal.h"

#include "base/bytes.h"
#include "base/time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE (50 * CONEY_SECOND)
#define LARGEST ((size_t)64 << 20)

enum callback { NONE, ON_OPEN, ON_FRAME, ON_READ_END, FILL, ON_WRITTEN, ON_DOWN };

struct fixture {
    coney_loop *loop;
    struct pool *pool;
    struct link *link;
    int listener;
    uint16_t port;
    int peer;
    const struct tls_settings *tls;
    int64_t connect_timeout; /* 30 s at first */

    enum callback close_in; /* the callback that closes the link */
    enum callback last;     /* the latest callback */
    void (*frame_hook)(struct fixture *f);
    int opened;
    int frames;
    int read_ends;
    int downs;
    size_t bytes;     /* in whole frames */
    uint8_t sequence; /* first content byte of the next frame expected */
    bool out_of_order;
    bool at_start;          /* the latest frame began its block */
    struct block *block;    /* of the latest frame */
    const uint8_t *kept_at; /* the latest frame itself */
    size_t kept_len;
    bool keep; /* takes a reference to the latest frame's block */
    coney_status status;
    char text[512];

    const uint8_t *bulk; /* what `fill` hands out */
    size_t bulk_len;
    size_t slice; /* at most so many bytes a slice */
    int fills;
    int writtens;
};

static inline bool closes(struct fixture *f, enum callback here)
{
    f->last = here;
    if (f->close_in != here)
        return false;
    link_close(&f->link, false);
    return true;
}

static inline size_t frame_size(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap)
{
    (void)ctx;
    if (have < 4)
        return 0;
    size_t size = (size_t)load32(at) + 4;
    if (size <= LARGEST)
        return size;
    text_print(error, error_cap, "a frame of %zu bytes; at most %zu are accepted", size, LARGEST);
    return SIZE_MAX;
}

static inline void on_open(void *ctx)
{
    struct fixture *f = ctx;
    f->opened++;
    closes(f, ON_OPEN);
}

static inline void on_frame(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct fixture *f = ctx;
    f->frames++;
    f->bytes += len;
    f->block = block;
    f->at_start = at == block->data;
    if (len > 4) {
        f->out_of_order = f->out_of_order || at[4] != f->sequence;
        f->sequence++;
    }
    if (f->keep) {
        f->keep = false;
        block_ref(block);
        f->kept_at = at;
        f->kept_len = len;
    }
    if (f->frame_hook != NULL)
        f->frame_hook(f);
    closes(f, ON_FRAME);
}

static inline void on_read_end(void *ctx)
{
    struct fixture *f = ctx;
    f->read_ends++;
    closes(f, ON_READ_END);
}

static inline size_t fill(void *ctx, struct iovec *slices, size_t cap)
{
    struct fixture *f = ctx;
    size_t count = 0;
    f->fills++;
    for (; count < cap && f->bulk_len > 0; count++) {
        size_t len = f->bulk_len < f->slice ? f->bulk_len : f->slice;
        slices[count] = (struct iovec){(void *)(uintptr_t)f->bulk, len};
        f->bulk += len;
        f->bulk_len -= len;
    }
    closes(f, FILL);
    return count;
}

static inline void on_written(void *ctx)
{
    struct fixture *f = ctx;
    f->writtens++;
    closes(f, ON_WRITTEN);
}

static inline void on_down(void *ctx, coney_status status, const char *text)
{
    struct fixture *f = ctx;
    f->downs++;
    f->status = status;
    text_print(f->text, sizeof f->text, "%s", text);
    closes(f, ON_DOWN);
}

static const struct link_owner owner = {
    .frame_size = frame_size,
    .on_open = on_open,
    .on_frame = on_frame,
    .on_read_end = on_read_end,
    .fill = fill,
    .on_written = on_written,
    .on_down = on_down,
};

#define UNTIL(f, condition)                                                                                                    \
    do {                                                                                                                       \
        int64_t deadline_ = time_after(time_now(), PATIENCE);                                                                  \
        while (!(condition)) {                                                                                                 \
            if (time_now() >= deadline_)                                                                                       \
                fail_msg("never came true: %s (down: '%s')", #condition, (f)->text);                                           \
            loop_wait_and_step((f)->loop, time_now() + 20 * CONEY_MILLISECOND);                                                \
        }                                                                                                                      \
    } while (0)

static inline void listen_on_loopback(struct fixture *f, int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(f->listener, backlog), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
    f->port = ntohs(address.sin_port);
}

static inline int start(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->loop = coney_loop_new();
    f->pool = pool_new((size_t)64 << 20);
    f->peer = -1;
    f->connect_timeout = 30 * CONEY_SECOND;
    f->slice = SIZE_MAX;
    listen_on_loopback(f, 8);
    *state = f;
    return 0;
}

static inline int stop(void **state)
{
    struct fixture *f = *state;
    link_close(&f->link, false);
    coney_loop_free(&f->loop);
    size_t out = pool_out(f->pool);
    pool_free(f->pool);
    close(f->listener);
    if (f->peer >= 0)
        close(f->peer);
    free(f);
    return out == 0 ? 0 : -1;
}

static inline void open_to(struct fixture *f, const char *host, uint16_t port)
{
    struct link_options options = {.host = host, .port = port, .connect_timeout = f->connect_timeout, .tls = f->tls};
    f->link = link_open(f->loop, f->pool, &options, &owner, f);
    assert_non_null(f->link);
}

static inline void accept_peer(struct fixture *f)
{
    f->peer = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(f->peer >= 0);
}

static inline void connect_pair(struct fixture *f)
{
    open_to(f, "127.0.0.1", f->port);
    UNTIL(f, f->opened == 1);
    accept_peer(f);
}

/* Writes all of it from the peer's side; the link reads meanwhile. */
static inline void peer_write(struct fixture *f, const void *data, size_t len)
{
    const uint8_t *at = data;
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (len > 0) {
        ssize_t written = send(f->peer, at, len, MSG_NOSIGNAL);
        if (written > 0) {
            at += written;
            len -= (size_t)written;
        } else {
            assert_int_equal(errno, EAGAIN);
        }
        if (len > 0)
            coney_loop_step(f->loop);
        assert_true(time_now() < deadline);
    }
}

/* Frames of `content` bytes each, numbered by their first content byte from `sequence` on; to be freed. */
static inline uint8_t *frames_of(size_t count, size_t content, uint8_t sequence, size_t *len)
{
    *len = count * (content + 4);
    uint8_t *bytes = calloc(1, *len);
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = bytes + i * (content + 4);
        store32(at, (uint32_t)content);
        if (content > 0)
            at[4] = sequence++;
    }
    return bytes;
}

static inline void peer_write_frames(struct fixture *f, size_t count, size_t content, uint8_t sequence)
{
    size_t len;
    uint8_t *bytes = frames_of(count, content, sequence, &len);
    peer_write(f, bytes, len);
    free(bytes);
}

/* Reads up to `cap` bytes that the link writes; steps until they are there. */
static inline void peer_read(struct fixture *f, void *data, size_t len)
{
    uint8_t *at = data;
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (len > 0) {
        ssize_t got = recv(f->peer, at, len, 0);
        if (got > 0) {
            at += got;
            len -= (size_t)got;
            continue;
        }
        assert_true(got < 0 && errno == EAGAIN);
        assert_true(time_now() < deadline);
        loop_wait_and_step(f->loop, time_now() + CONEY_MILLISECOND);
    }
}

/* The peer goes with a reset. */
static inline void peer_reset(struct fixture *f)
{
    setsockopt(f->peer, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    close(f->peer);
    f->peer = -1;
}

#define link_test(test) cmocka_unit_test_setup_teardown(test, start, stop)

#endif
