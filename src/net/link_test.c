/* link_test.c: a link against a socket that the test holds: frames are four bytes of length and so many of content. */
#define _GNU_SOURCE
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

#define PATIENCE (20 * CONEY_SECOND)
#define LARGEST ((size_t)64 << 20)

enum callback { NONE, ON_OPEN, ON_FRAME, ON_READ_END, FILL, ON_WRITTEN, ON_DOWN };

struct fixture {
    coney_loop *loop;
    struct pool *pool;
    struct link *link;
    int listener;
    uint16_t port;
    int peer;

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

static bool closes(struct fixture *f, enum callback here)
{
    f->last = here;
    if (f->close_in != here)
        return false;
    link_close(&f->link, false);
    return true;
}

static size_t frame_size(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap)
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

static void on_open(void *ctx)
{
    struct fixture *f = ctx;
    f->opened++;
    closes(f, ON_OPEN);
}

static void on_frame(void *ctx, struct block *block, const uint8_t *at, size_t len)
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

static void on_read_end(void *ctx)
{
    struct fixture *f = ctx;
    f->read_ends++;
    closes(f, ON_READ_END);
}

static size_t fill(void *ctx, struct iovec *slices, size_t cap)
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

static void on_written(void *ctx)
{
    struct fixture *f = ctx;
    f->writtens++;
    closes(f, ON_WRITTEN);
}

static void on_down(void *ctx, coney_status status, const char *text)
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

static void listen_on_loopback(struct fixture *f, int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(f->listener, backlog), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
    f->port = ntohs(address.sin_port);
}

static int start(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->loop = coney_loop_new();
    f->pool = pool_new((size_t)64 << 20);
    f->peer = -1;
    f->slice = SIZE_MAX;
    listen_on_loopback(f, 8);
    *state = f;
    return 0;
}

static int stop(void **state)
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

static void open_to(struct fixture *f, const char *host, uint16_t port)
{
    struct link_options options = {.host = host, .port = port, .connect_timeout = 5 * CONEY_SECOND};
    f->link = link_open(f->loop, f->pool, &options, &owner, f);
    assert_non_null(f->link);
}

static void accept_peer(struct fixture *f)
{
    f->peer = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(f->peer >= 0);
}

static void connect_pair(struct fixture *f)
{
    open_to(f, "127.0.0.1", f->port);
    UNTIL(f, f->opened == 1);
    accept_peer(f);
}

/* Writes all of it from the peer's side; the link reads meanwhile. */
static void peer_write(struct fixture *f, const void *data, size_t len)
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
static uint8_t *frames_of(size_t count, size_t content, uint8_t sequence, size_t *len)
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

static void peer_write_frames(struct fixture *f, size_t count, size_t content, uint8_t sequence)
{
    size_t len;
    uint8_t *bytes = frames_of(count, content, sequence, &len);
    peer_write(f, bytes, len);
    free(bytes);
}

/* Reads up to `cap` bytes that the link writes; steps until they are there. */
static void peer_read(struct fixture *f, void *data, size_t len)
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
static void peer_reset(struct fixture *f)
{
    setsockopt(f->peer, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    close(f->peer);
    f->peer = -1;
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

static void frames_split_at_any_byte_arrive_whole(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    size_t len;
    uint8_t *bytes = frames_of(3, 9, 0, &len);
    for (size_t split = 0; split <= len; split++) {
        for (size_t i = 0; i < 3; i++)
            bytes[i * 13 + 4] = (uint8_t)(f->sequence + i);
        uint64_t before = link_bytes_in(f->link);
        peer_write(f, bytes, split);
        UNTIL(f, link_bytes_in(f->link) == before + split);
        assert_int_equal(f->frames, (int)(3 * split + split / 13));
        peer_write(f, bytes + split, len - split);
        UNTIL(f, link_bytes_in(f->link) == before + len);
        assert_int_equal(f->frames, (int)(3 * (split + 1)));
    }
    assert_false(f->out_of_order);
    assert_int_equal(f->bytes, f->frames * 13);
    free(bytes);
}

static void frames_of_one_read_come_together_and_an_idle_link_holds_no_block(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    peer_write_frames(f, 200, 50, 0);
    UNTIL(f, f->frames == 200);
    assert_int_equal(f->read_ends, 1);
    assert_false(f->out_of_order);
    assert_int_equal(pool_out(f->pool), 0);
    assert_true(pool_idle(f->pool) <= (64 << 10));
}

static void frames_of_every_size_around_a_block_arrive_in_order(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    static const size_t contents[] = {0, 1, 100, 24 << 10, (24 << 10) + 1, 65000, 65491, 65492, 65493, 65536, 131072, 300000};
    uint8_t sequence = 0;
    int frames = 0;
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        for (size_t small = 0; small < 3; small++) {
            peer_write_frames(f, 7, 4000 * small + 1, sequence);
            sequence = (uint8_t)(sequence + 7);
            peer_write_frames(f, 2, contents[i], sequence);
            sequence = (uint8_t)(sequence + (contents[i] > 0 ? 2 : 0));
            frames += 9;
        }
    }
    UNTIL(f, f->frames == frames);
    assert_false(f->out_of_order);
    assert_int_equal(pool_out(f->pool), 0);
}

static void a_frame_of_20_MB_grows_its_block_and_the_next_one_is_received_in_place(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    peer_write_frames(f, 1, 20 << 20, 0);
    UNTIL(f, f->frames == 1);
    assert_int_equal(f->bytes, (20 << 20) + 4);
    peer_write_frames(f, 1, 20 << 20, 1);
    UNTIL(f, f->frames == 2);
    assert_true(f->at_start);
    assert_false(f->out_of_order);
}

static void frames_of_chunk_size_are_received_in_place_after_the_first(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    peer_write_frames(f, 1, 1500000, 0);
    UNTIL(f, f->frames == 1);
    size_t len;
    uint8_t *bytes = frames_of(8, 1500000, 1, &len);
    for (int i = 0; i < 8; i++) {
        peer_write(f, bytes + (size_t)i * (len / 8), len / 8);
        UNTIL(f, f->frames == 2 + i);
        assert_true(f->at_start);
        assert_true(f->block->cap < (size_t)4 << 20);
    }
    assert_false(f->out_of_order);
    free(bytes);
}

static void a_size_field_of_60_MB_without_its_bytes_costs_a_small_block(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    peer_write_frames(f, 20, 100, 0);
    uint8_t liar[100] = {0};
    store32(liar, 60 << 20);
    peer_write(f, liar, sizeof liar);
    UNTIL(f, link_bytes_in(f->link) == 20 * 104 + sizeof liar);
    assert_true(pool_out(f->pool) <= (64 << 10));
    static uint8_t some[200000];
    peer_write(f, some, sizeof some);
    UNTIL(f, link_bytes_in(f->link) == 20 * 104 + sizeof liar + sizeof some);
    assert_true(pool_out(f->pool) <= (512 << 10));
}

static void a_frame_that_was_kept_stays_as_it_was(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->keep = true;
    peer_write_frames(f, 1, 1000, 7);
    f->sequence = 7;
    UNTIL(f, f->frames == 1);
    struct block *kept = f->block;
    peer_write_frames(f, 2000, 1000, 8);
    UNTIL(f, f->frames == 2001);
    assert_int_equal(f->kept_len, 1004);
    assert_int_equal(load32(f->kept_at), 1000);
    assert_int_equal(f->kept_at[4], 7);
    assert_false(f->out_of_order);
    assert_true(pool_out(f->pool) > 0);
    block_unref(kept);
}

static void a_size_that_is_none_ends_the_link_with_the_owners_words(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    peer_write_frames(f, 1, 10, 0);
    peer_write(f, "HTTP/1.1 400", 12);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->frames, 1);
    assert_int_equal(f->status, CONEY_EPROTOCOL);
    assert_non_null(strstr(f->text, "a frame of 1213486164 bytes; at most"));
    assert_non_null(strstr(f->text, link_name(f->link)));
    assert_false(link_is_open(f->link));
}

static void pause_after_three(struct fixture *f)
{
    if (f->frames == 3)
        link_pause_reading(f->link, true);
}

static void a_paused_link_hands_over_nothing_and_goes_on_with_the_bytes_at_hand(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->frame_hook = pause_after_three;
    peer_write_frames(f, 10, 10, 0);
    UNTIL(f, f->frames == 3);
    peer_write_frames(f, 5, 10, 10);
    close(f->peer);
    f->peer = -1;
    for (int i = 0; i < 10; i++)
        loop_wait_and_step(f->loop, time_now() + CONEY_MILLISECOND);
    assert_int_equal(f->frames, 3);
    assert_int_equal(f->downs, 0);
    link_pause_reading(f->link, false);
    assert_int_equal(f->frames, 3);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->frames, 15);
    assert_false(f->out_of_order);
}

static void a_peer_that_goes_is_named_after_its_last_frames(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    peer_write_frames(f, 4, 10, 0);
    close(f->peer);
    f->peer = -1;
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->frames, 4);
    assert_int_equal(f->status, CONEY_ELOST);
    char expected[128];
    snprintf(expected, sizeof expected, "127.0.0.1:%u: the peer closed the connection: its log says why", (unsigned)f->port);
    assert_string_equal(f->text, expected);
}

static void a_peer_that_goes_without_a_word_may_be_another_service(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    close(f->peer);
    f->peer = -1;
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ELOST);
    assert_non_null(strstr(f->text, "without a word: is this the right port"));
}

static void a_reset_is_a_lost_link(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    peer_reset(f);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ELOST);
    assert_non_null(strstr(f->text, "the peer reset the connection"));
}

/* Writing ---------------------------------------------------------------------------------------------------------- */

static void control_bytes_leave_before_bulk_data_in_one_round(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->bulk = (const uint8_t *)"bulkdata";
    f->bulk_len = 8;
    f->slice = 3;
    link_want_write(f->link);
    link_write(f->link, "con", 3);
    link_write(f->link, "trol", 4);
    char got[16] = "";
    peer_read(f, got, 15);
    assert_string_equal(got, "controlbulkdata");
    assert_int_equal(f->writtens, 1);
    assert_int_equal(f->fills, 2);
    assert_int_equal(link_bytes_out(f->link), 15);
    assert_false(link_is_blocked(f->link));
}

static void bytes_written_before_the_link_is_open_leave_when_it_is(void **state)
{
    struct fixture *f = *state;
    open_to(f, "127.0.0.1", f->port);
    f->bulk = (const uint8_t *)"bulk";
    f->bulk_len = 4;
    link_write(f->link, "control", 7);
    link_want_write(f->link);
    UNTIL(f, f->opened == 1);
    accept_peer(f);
    char got[12] = "";
    peer_read(f, got, 11);
    assert_string_equal(got, "controlbulk");
}

/* The link writes 12 MB of frames and control frames between them; the peer reads slowly and finds each frame whole. */
static void a_slow_reader_gets_every_byte_in_order_and_control_never_inside_bulk(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    enum { CONTENT = 5000, COUNT = 2400, CONTROLS = 300 };
    size_t len;
    uint8_t *bulk = frames_of(COUNT, CONTENT, 0, &len);
    f->bulk = bulk;
    f->bulk_len = len;
    f->slice = CONTENT + 4; /* a fill ends where a frame ends */
    link_want_write(f->link);
    static uint8_t frame[CONTENT + 4];
    int controls_sent = 0;
    int controls = 0;
    int bulks = 0;
    bool was_blocked = false;
    while (bulks < COUNT || controls < controls_sent) {
        if (controls_sent < CONTROLS) {
            uint8_t control[12];
            store32(control, 8);
            store64(control + 4, (uint64_t)controls_sent++);
            link_write(f->link, control, sizeof control);
        }
        coney_loop_step(f->loop);
        was_blocked = was_blocked || link_is_blocked(f->link);
        peer_read(f, frame, 4);
        if (load32(frame) == 8) {
            peer_read(f, frame + 4, 8);
            assert_int_equal(load64(frame + 4), controls++);
        } else {
            assert_int_equal(load32(frame), CONTENT);
            peer_read(f, frame + 4, CONTENT);
            assert_int_equal(frame[4], (uint8_t)bulks++);
        }
    }
    assert_true(was_blocked);
    assert_int_equal(controls, CONTROLS);
    assert_int_equal(link_bytes_out(f->link), len + CONTROLS * 12);
    free(bulk);
}

static void SB_25_a_write_to_a_peer_that_is_gone_raises_no_signal_and_ends_the_link(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    link_pause_reading(f->link, true);
    peer_reset(f);
    for (int i = 0; i < 1000 && f->downs == 0; i++) {
        link_write(f->link, "credit", 6);
        loop_wait_and_step(f->loop, time_now() + CONEY_MILLISECOND);
    }
    assert_int_equal(f->downs, 1);
    assert_int_equal(f->status, CONEY_ELOST);
}

static void answer_and_vanish(struct fixture *f)
{
    if (f->frames != 1)
        return;
    size_t len;
    uint8_t *last = frames_of(2, 10, 1, &len);
    assert_int_equal(send(f->peer, last, len, MSG_NOSIGNAL), len);
    free(last);
    shutdown(f->peer, SHUT_RDWR);
    close(f->peer);
    f->peer = -1;
    link_write(f->link, "first", 5);
}

static void what_the_peer_said_last_is_read_although_a_write_failed(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->frame_hook = answer_and_vanish;
    peer_write_frames(f, 1, 10, 0);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->frames, 3);
    assert_int_equal(f->status, CONEY_ELOST);
}

static void a_peer_that_reads_nothing_takes_the_link_down_after_4_MB_of_requests(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    static uint8_t request[1 << 20];
    for (int i = 0; i < 40 && f->downs == 0; i++) {
        int downs = f->downs;
        link_write(f->link, request, sizeof request);
        assert_int_equal(f->downs, downs);
        coney_loop_step(f->loop);
    }
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ELOST);
    assert_non_null(strstr(f->text, "the peer has stopped reading"));
    link_write(f->link, request, sizeof request);
    link_want_write(f->link);
    coney_loop_step(f->loop);
    assert_int_equal(f->downs, 1);
}

/* The end ---------------------------------------------------------------------------------------------------------- */

static void a_link_can_be_closed_from_each_of_its_callbacks(void **state)
{
    struct fixture *f = *state;
    for (enum callback where = ON_OPEN; where <= ON_DOWN; where++) {
        f->close_in = where;
        f->last = NONE;
        f->sequence = 0;
        open_to(f, "127.0.0.1", f->port);
        f->bulk = (const uint8_t *)"bulk";
        f->bulk_len = where == FILL || where == ON_WRITTEN ? 4 : 0;
        if (f->bulk_len > 0)
            link_want_write(f->link);
        int64_t deadline = time_after(time_now(), PATIENCE);
        while (f->link != NULL && !link_is_open(f->link) && time_now() < deadline)
            loop_wait_and_step(f->loop, deadline);
        accept_peer(f);
        if (where == ON_FRAME || where == ON_READ_END)
            peer_write_frames(f, 5, 10, 0);
        if (where == ON_DOWN)
            shutdown(f->peer, SHUT_WR);
        UNTIL(f, f->link == NULL);
        for (int i = 0; i < 3; i++)
            coney_loop_step(f->loop);
        assert_int_equal(f->last, where);
        close(f->peer);
        f->peer = -1;
    }
}

static void closing_offers_the_last_control_bytes_to_the_peer(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    link_write(f->link, "goodbye", 7);
    link_close(&f->link, true);
    char got[8] = "";
    peer_read(f, got, 7);
    assert_string_equal(got, "goodbye");
    assert_int_equal(poll(&(struct pollfd){.fd = f->peer, .events = POLLIN}, 1, (int)(PATIENCE / CONEY_MILLISECOND)), 1);
    assert_int_equal(recv(f->peer, got, 1, 0), 0);
}

static void closing_inside_a_fill_finishes_it_before_the_last_control_bytes(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    int small = 64 << 10;
    setsockopt(f->peer, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    static uint8_t bulk[32 << 20];
    f->bulk = bulk;
    f->bulk_len = sizeof bulk;
    f->slice = 1 << 20;
    link_want_write(f->link);
    UNTIL(f, link_is_blocked(f->link));
    link_write(f->link, "goodbye", 7);
    static uint8_t sink[1 << 16];
    while (recv(f->peer, sink, sizeof sink, 0) > 0) {
    }
    uint64_t out = link_bytes_out(f->link);
    assert_true(out < sizeof bulk);
    link_close(&f->link, true);
    bool zeroes_only = true;
    int64_t deadline = time_after(time_now(), PATIENCE);
    for (ssize_t got = -1; got != 0 && time_now() < deadline; got = recv(f->peer, sink, sizeof sink, 0))
        for (ssize_t i = 0; i < got; i++)
            zeroes_only = zeroes_only && sink[i] == 0;
    assert_true(zeroes_only);
}

static void a_link_closed_while_it_resolves_or_connects_calls_nobody(void **state)
{
    struct fixture *f = *state;
    for (int steps = 0; steps < 3; steps++) {
        open_to(f, steps % 2 == 0 ? "localhost" : "127.0.0.1", f->port);
        for (int i = 0; i < steps; i++)
            coney_loop_step(f->loop);
        bool was_open = link_is_open(f->link);
        link_close(&f->link, true);
        for (int i = 0; i < 5; i++)
            loop_wait_and_step(f->loop, time_now() + CONEY_MILLISECOND);
        assert_int_equal(f->opened, was_open);
        assert_int_equal(f->downs, 0);
        f->opened = 0;
    }
}

static void a_forked_child_frees_its_link_and_the_peer_hears_nothing(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    link_write(f->link, "parent", 6);
    pid_t child = fork();
    if (child == 0) {
        link_close(&f->link, true);
        coney_loop_free(&f->loop);
        _exit(f->link != NULL || f->loop != NULL);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    char got[8] = "";
    peer_read(f, got, 6);
    assert_string_equal(got, "parent");
    peer_write_frames(f, 1, 10, 0);
    UNTIL(f, f->frames == 1);
    assert_int_equal(recv(f->peer, got, 1, 0), -1);
}

/* Connecting ------------------------------------------------------------------------------------------------------- */

static void a_port_where_nothing_listens_is_refused_and_says_so(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    f->listener = -1;
    open_to(f, "127.0.0.1", f->port);
    assert_int_equal(f->downs, 0);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ECONNECT);
    char expected[128];
    snprintf(expected, sizeof expected, "127.0.0.1:%u: connection refused: is the broker running, and is this its port?",
             (unsigned)f->port);
    assert_string_equal(f->text, expected);
}

/* What a resolver could have answered, whatever this machine's says. */
static struct addrinfo *addresses_of(struct fixture *f, const char *first, const char *second)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)f->port);
    struct addrinfo *list = NULL;
    assert_int_equal(getaddrinfo(first, port, &hints, &list), 0);
    assert_int_equal(getaddrinfo(second, port, &hints, &list->ai_next), 0);
    return list;
}

static void resolve_to(struct fixture *f, const char *first, const char *second)
{
    open_to(f, "127.0.0.1", f->port);
    resolve_cancel(f->link->resolve);
    link_resolved(f->link, CONEY_OK, addresses_of(f, first, second), "");
}

static void SB_57_the_second_address_is_tried_when_the_first_refuses(void **state)
{
    struct fixture *f = *state;
    resolve_to(f, "::1", "127.0.0.1");
    UNTIL(f, f->opened == 1);
    assert_int_equal(f->downs, 0);
}

static void SB_57_localhost_reaches_a_peer_that_listens_on_ipv4_only(void **state)
{
    struct fixture *f = *state;
    open_to(f, "localhost", f->port);
    UNTIL(f, f->opened == 1);
}

static void SB_57_an_ipv6_address_needs_no_brackets_and_is_named_with_them(void **state)
{
    struct fixture *f = *state;
    open_to(f, "::1", 5552);
    assert_string_equal(link_name(f->link), "[::1]:5552");
    link_close(&f->link, false);

    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t len = sizeof address;
    close(f->listener);
    f->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (f->listener < 0 || bind(f->listener, (struct sockaddr *)&address, len) != 0)
        skip(); /* this machine has no IPv6 */
    assert_int_equal(listen(f->listener, 8), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
    open_to(f, "::1", ntohs(address.sin6_port));
    UNTIL(f, f->opened == 1);
}

static void when_all_addresses_fail_the_text_says_what_each_answered(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    f->listener = -1;
    resolve_to(f, "127.0.0.2", "127.0.0.1");
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ECONNECT);
    assert_non_null(strstr(f->text, ": 127.0.0.2 connection refused, 127.0.0.1 connection refused: is the broker running"));
}

static void an_address_that_does_not_answer_is_given_up_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    listen_on_loopback(f, 0);
    int fillers[4];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(f->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fillers[i], (struct sockaddr *)&address, sizeof address), -1);
    }
    struct link_options options = {.host = "127.0.0.1", .port = f->port, .connect_timeout = 30 * CONEY_MILLISECOND};
    int64_t before = time_now();
    f->link = link_open(f->loop, f->pool, &options, &owner, f);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ETIMEDOUT);
    assert_true(time_now() - before >= 30 * CONEY_MILLISECOND);
    assert_non_null(strstr(f->text, "no answer in time (0.03 s): is the host up"));
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
}

static void out_of_descriptors_is_a_limit_and_says_what_to_raise(void **state)
{
    struct fixture *f = *state;
    int lowest = dup(0);
    close(lowest);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max});
    open_to(f, "127.0.0.1", f->port);
    for (int i = 0; i < 100 && f->downs == 0; i++)
        loop_wait_and_step(f->loop, time_now() + CONEY_MILLISECOND);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(f->downs, 1);
    assert_int_equal(f->status, CONEY_ELIMIT);
    assert_non_null(strstr(f->text, "the process is out of descriptors: raise its limit (ulimit -n)"));
}

static void a_name_that_does_not_resolve_is_named_with_the_resolvers_words(void **state)
{
    struct fixture *f = *state;
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    open_to(f, name, 5552);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ERESOLVE);
    assert_non_null(strstr(f->text, "xxx"));
}

#define link_test(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        link_test(frames_split_at_any_byte_arrive_whole),
        link_test(frames_of_one_read_come_together_and_an_idle_link_holds_no_block),
        link_test(frames_of_every_size_around_a_block_arrive_in_order),
        link_test(a_frame_of_20_MB_grows_its_block_and_the_next_one_is_received_in_place),
        link_test(frames_of_chunk_size_are_received_in_place_after_the_first),
        link_test(a_size_field_of_60_MB_without_its_bytes_costs_a_small_block),
        link_test(a_frame_that_was_kept_stays_as_it_was),
        link_test(a_size_that_is_none_ends_the_link_with_the_owners_words),
        link_test(a_paused_link_hands_over_nothing_and_goes_on_with_the_bytes_at_hand),
        link_test(a_peer_that_goes_is_named_after_its_last_frames),
        link_test(a_peer_that_goes_without_a_word_may_be_another_service),
        link_test(a_reset_is_a_lost_link),
        link_test(control_bytes_leave_before_bulk_data_in_one_round),
        link_test(bytes_written_before_the_link_is_open_leave_when_it_is),
        link_test(a_slow_reader_gets_every_byte_in_order_and_control_never_inside_bulk),
        link_test(SB_25_a_write_to_a_peer_that_is_gone_raises_no_signal_and_ends_the_link),
        link_test(what_the_peer_said_last_is_read_although_a_write_failed),
        link_test(a_peer_that_reads_nothing_takes_the_link_down_after_4_MB_of_requests),
        link_test(a_link_can_be_closed_from_each_of_its_callbacks),
        link_test(closing_offers_the_last_control_bytes_to_the_peer),
        link_test(closing_inside_a_fill_finishes_it_before_the_last_control_bytes),
        link_test(a_link_closed_while_it_resolves_or_connects_calls_nobody),
        link_test(a_forked_child_frees_its_link_and_the_peer_hears_nothing),
        link_test(a_port_where_nothing_listens_is_refused_and_says_so),
        link_test(SB_57_the_second_address_is_tried_when_the_first_refuses),
        link_test(SB_57_localhost_reaches_a_peer_that_listens_on_ipv4_only),
        link_test(SB_57_an_ipv6_address_needs_no_brackets_and_is_named_with_them),
        link_test(when_all_addresses_fail_the_text_says_what_each_answered),
        link_test(an_address_that_does_not_answer_is_given_up_at_its_deadline),
        link_test(out_of_descriptors_is_a_limit_and_says_what_to_raise),
        link_test(a_name_that_does_not_resolve_is_named_with_the_resolvers_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
