/* peer_tls_test.c: bytes through TLS: however the network cuts them, none is lost, late or in clear text; and how it ends. */
#include "tls_scene.h"

#include "net/tls_internal.h"

#include <signal.h>

/* What the peer can read now, added to `got`. */
static size_t peer_take(struct scene *s, char *got, size_t have, size_t cap)
{
    round_of(s);
    return have + tls_peer_read(&s->peer, got + have, cap - have);
}

static void expect_at_peer(struct scene *s, const char *expected)
{
    char got[256] = "";
    size_t have = 0;
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (have < strlen(expected)) {
        have = peer_take(s, got, have, sizeof got - 1);
        assert_true(time_now() < deadline);
    }
    assert_string_equal(got, expected);
}

static void write_frames(struct scene *s, size_t count, size_t content, uint8_t sequence)
{
    size_t len;
    uint8_t *frames = frames_of(count, content, sequence, &len);
    tls_peer_write(&s->peer, frames, len);
    free(frames);
}

static void a_link_opens_when_tls_is_agreed_and_carries_bytes_both_ways(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    assert_true(link_is_open(s->f->link));
    s->f->bulk = (const uint8_t *)"bulkdata";
    s->f->bulk_len = 8;
    s->f->slice = 3;
    link_want_write(s->f->link);
    link_write(s->f->link, "control", 7);
    expect_at_peer(s, "controlbulkdata");
    assert_int_equal(s->f->writtens, 1);
    assert_int_equal(link_bytes_out(s->f->link), 15);
    write_frames(s, 3, 10, 0);
    ROUNDS_UNTIL(s, s->f->frames == 3);
    assert_false(s->f->out_of_order);
    assert_int_equal(link_bytes_in(s->f->link), 3 * 14);
}

static void tls_1_2_is_spoken_to_a_peer_that_has_no_later_one(void **state)
{
    struct scene *s = *state;
    s->server.max_version = TLS1_2_VERSION;
    open_and_agree(s);
    assert_string_equal(SSL_get_version(s->peer.ssl), "TLSv1.2");
    link_write(s->f->link, "control", 7);
    expect_at_peer(s, "control");
}

static void bytes_written_before_tls_is_agreed_leave_through_it(void **state)
{
    struct scene *s = *state;
    nonblocking_listener(s);
    open_tls(s);
    link_write(s->f->link, "early", 5);
    expect_at_peer(s, "early");
}

/* Every byte is a segment of its own: the handshake, the tickets after it, and a frame; both directions. */
static void F03_one_byte_at_a_time_the_handshake_ends_and_bytes_arrive(void **state)
{
    struct scene *s = *state;
    s->peer.at_once = 1;
    open_and_agree(s);
    write_frames(s, 2, 50, 0);
    link_write(s->f->link, "control", 7);
    expect_at_peer(s, "control");
    ROUNDS_UNTIL(s, s->f->frames == 2);
    assert_false(s->f->out_of_order);
}

static void F03_tls_1_2_one_byte_at_a_time(void **state)
{
    struct scene *s = *state;
    s->server.max_version = TLS1_2_VERSION;
    F03_one_byte_at_a_time_the_handshake_ends_and_bytes_arrive(state);
}

/* A byte each 5 ms would take longer than the deadline allows. */
static void F03_a_handshake_that_crawls_past_the_deadline_is_given_up(void **state)
{
    struct scene *s = *state;
    s->f->connect_timeout = 100 * CONEY_MILLISECOND;
    s->host = "127.0.0.1";
    nonblocking_listener(s);
    open_tls(s);
    UNTIL(s->f, (s->f->peer = accept4(s->f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    tls_peer_start(&s->peer, s->f->peer, &s->server);
    s->peer.at_once = 1;
    int64_t next = time_now();
    while (s->f->downs == 0) {
        loop_wait_and_step(s->f->loop, next);
        if (time_now() < next)
            continue;
        next = time_after(next, 5 * CONEY_MILLISECOND);
        tls_peer_pump(&s->peer);
    }
    assert_int_equal(s->f->status, CONEY_ETIMEDOUT);
    assert_int_equal(s->f->opened, 0);
    assert_non_null(strstr(s->f->text, "TLS handshake: no answer in time (100 ms)"));
}

static void D08_an_address_that_accepts_and_stays_silent_is_given_up_at_the_deadline(void **state)
{
    struct scene *s = *state;
    s->f->connect_timeout = 50 * CONEY_MILLISECOND;
    s->host = "127.0.0.1";
    open_tls(s);
    int64_t begin = time_now();
    UNTIL(s->f, s->f->downs == 1);
    assert_true(time_now() - begin < 5 * CONEY_SECOND);
    assert_int_equal(s->f->status, CONEY_ETIMEDOUT);
    assert_non_null(strstr(s->f->text, "TLS handshake: no answer in time"));
    assert_non_null(strstr(s->f->text, "does this port speak TLS?"));
}

static void F04_fifty_frames_of_one_record_are_handed_over_without_more_traffic(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    write_frames(s, 50, 300, 0); /* 15,200 bytes: one record */
    tls_peer_pump(&s->peer);     /* all that the peer will ever send */
    UNTIL(s->f, s->f->frames == 50);
    assert_false(s->f->out_of_order);
    assert_int_equal(s->f->read_ends, 1);
}

static void pause_after_the_first(struct fixture *f)
{
    if (f->frames == 1)
        link_pause_reading(f->link, true);
}

static void F04_frames_of_a_record_that_a_pause_left_come_when_reading_goes_on(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    s->f->frame_hook = pause_after_the_first;
    write_frames(s, 50, 300, 0);
    write_frames(s, 50, 300, 50);
    tls_peer_pump(&s->peer);
    UNTIL(s->f, s->f->frames == 1);
    for (int i = 0; i < 5; i++)
        coney_loop_step(s->f->loop);
    assert_int_equal(s->f->frames, 1);
    link_pause_reading(s->f->link, false);
    UNTIL(s->f, s->f->frames == 100);
    assert_false(s->f->out_of_order);
}

/* More than the link reads in a round. */
static void F04_a_flood_is_read_to_its_end(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    for (int i = 0; i < 40; i++)
        write_frames(s, 20, 5000, (uint8_t)(20 * i));
    ROUNDS_UNTIL(s, s->f->frames == 800);
    assert_false(s->f->out_of_order);
}

/* 8 MB of frames with control frames between them, to a peer that reads in steps: records fill, block and go on. */
static void a_slow_reader_gets_every_byte_in_order(void **state)
{
    struct scene *s = *state;
    enum { CONTENT = 5000, COUNT = 1600, CONTROLS = 100 };
    open_and_agree(s);
    s->peer.at_once = 16 << 10;
    size_t len;
    uint8_t *bulk = frames_of(COUNT, CONTENT, 0, &len);
    s->f->bulk = bulk;
    s->f->bulk_len = len;
    s->f->slice = CONTENT + 4;
    link_want_write(s->f->link);
    static uint8_t got[1 << 20];
    size_t have = 0;
    int bulks = 0;
    int controls = 0;
    int sent = 0;
    bool was_blocked = false;
    int64_t deadline = time_after(time_now(), 2 * PATIENCE);
    while (bulks < COUNT || controls < CONTROLS) {
        assert_true(time_now() < deadline);
        if (sent < CONTROLS) {
            uint8_t control[8] = {0, 0, 0, 4, 'c', 0, 0, (uint8_t)sent++};
            link_write(s->f->link, control, sizeof control);
        }
        loop_wait_and_step(s->f->loop, time_after(time_now(), CONEY_MILLISECOND));
        was_blocked = was_blocked || link_is_blocked(s->f->link);
        tls_peer_pump(&s->peer);
        for (size_t more; (more = tls_peer_read(&s->peer, got + have, sizeof got - have)) > 0;)
            have += more;
        size_t at = 0;
        for (; have - at >= 4 && have - at >= load32(got + at) + 4u; at += load32(got + at) + 4u) {
            if (load32(got + at) == 4) {
                assert_int_equal(got[at + 7], controls++);
            } else {
                assert_int_equal(load32(got + at), CONTENT);
                assert_int_equal(got[at + 4], (uint8_t)bulks++);
            }
        }
        memmove(got, got + at, have - at);
        have -= at;
    }
    assert_true(was_blocked);
    UNTIL(s->f, s->f->bulk_len == 0);
    free(bulk);
}

/* The peer reads nothing until the socket is full and the last record waits inside TLS, the owner's memory all taken. */
static void what_waits_inside_tls_leaves_when_the_socket_has_room(void **state)
{
    struct scene *s = *state;
    static uint8_t bulk[8000];
    static char got[sizeof bulk];
    open_and_agree(s);
    s->f->slice = sizeof bulk;
    size_t sent = 0;
    while (!link_is_blocked(s->f->link)) {
        assert_int_equal((size_t)s->f->writtens * sizeof bulk, sent);
        assert_true(sent < ((size_t)64 << 20));
        s->f->bulk = bulk;
        s->f->bulk_len = sizeof bulk;
        sent += sizeof bulk;
        link_want_write(s->f->link);
        coney_loop_step(s->f->loop);
        UNTIL(s->f, s->f->bulk_len == 0);
    }
    assert_int_equal((size_t)s->f->writtens * sizeof bulk, sent);
    size_t have = 0;
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (have < sent) {
        assert_true(time_now() < deadline);
        round_of(s);
        for (size_t more; (more = tls_peer_read(&s->peer, got, sizeof got)) > 0;)
            have += more;
    }
    assert_false(link_is_blocked(s->f->link));
}

static void slices_share_records_of_up_to_16_kib(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    static uint8_t bulk[30000];
    s->f->bulk = bulk;
    s->f->bulk_len = sizeof bulk;
    s->f->slice = 1000; /* 30 slices, one fill */
    link_want_write(s->f->link);
    static char got[sizeof bulk];
    size_t have = 0;
    int records = 0;
    while (have < sizeof bulk) {
        round_of(s);
        for (size_t more; (more = tls_peer_read(&s->peer, got + have, sizeof got - have)) > 0; records++)
            have += more;
    }
    assert_int_equal(records, 2);
    assert_int_equal(s->f->fills, 2);
}

/* Moves so many bytes of the peer's ciphertext to the link's socket. */
static void give_to_link(struct scene *s, size_t len)
{
    char bytes[8192];
    int have = BIO_read(s->peer.to_socket, bytes, (int)(len < sizeof bytes ? len : sizeof bytes));
    assert_true(have > 0 && send(s->f->peer, bytes, (size_t)have, MSG_NOSIGNAL) == have);
}

/* A session ticket of two records, for it holds the client's certificate. After the first OpenSSL writes nothing before it
 * has read the second. Returns with a write that waits for that. */
static void begin_a_write_that_has_to_read_first(struct scene *s)
{
    enum { FRAGMENT = 512, RECORD_OVERHEAD = 22 };
    s->server.client_ca = FILE_OF("ca.pem");
    s->options.certificate = FILE_OF("client.pem");
    s->options.private_key = FILE_OF("client.key");
    nonblocking_listener(s);
    open_tls(s);
    UNTIL(s->f, (s->f->peer = accept4(s->f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    tls_peer_start(&s->peer, s->f->peer, &s->server);
    SSL_set_max_send_fragment(s->peer.ssl, FRAGMENT);
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (SSL_do_handshake(s->peer.ssl) != 1) { /* the tickets stay with the peer */
        assert_true(time_now() < deadline);
        tls_peer_take(&s->peer);
        if (!SSL_is_init_finished(s->peer.ssl) && BIO_pending(s->peer.to_socket) > 0)
            give_to_link(s, SIZE_MAX);
        loop_wait_and_step(s->f->loop, time_after(time_now(), CONEY_MILLISECOND));
    }
    assert_int_equal(s->f->opened, 1);
    assert_true(BIO_pending(s->peer.to_socket) > FRAGMENT + RECORD_OVERHEAD);
    give_to_link(s, FRAGMENT + RECORD_OVERHEAD);
    UNTIL(s->f, !SSL_is_init_finished(s->f->link->tls->ssl));
    link_write(s->f->link, "control", 7);
    coney_loop_step(s->f->loop);
    assert_true(link_is_blocked(s->f->link));
}

static void F03_a_write_that_has_to_read_first_goes_out_when_that_came(void **state)
{
    struct scene *s = *state;
    begin_a_write_that_has_to_read_first(s);
    give_to_link(s, SIZE_MAX);
    expect_at_peer(s, "control");
}

/* What such a write reads beyond that, the socket tells nobody of. */
static void F04_a_frame_that_a_write_has_read_is_handed_over(void **state)
{
    struct scene *s = *state;
    begin_a_write_that_has_to_read_first(s);
    write_frames(s, 1, 100, 0);
    give_to_link(s, SIZE_MAX);
    s->f->link->writable = true;
    link_flush(&s->f->link->flush); /* before the loop has looked at the socket */
    UNTIL(s->f, s->f->frames == 1);
    expect_at_peer(s, "control");
}

/* Answers to changed keys are written by reads, beside writes. */
static void a_change_of_keys_while_writing_loses_nothing(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    assert_string_equal(SSL_get_version(s->peer.ssl), "TLSv1.3");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(SSL_key_update(s->peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        write_frames(s, 1, 100, (uint8_t)i);
        link_write(s->f->link, "control", 7);
        expect_at_peer(s, "control");
    }
    ROUNDS_UNTIL(s, s->f->frames == 20);
    assert_false(s->f->out_of_order);
}

static void an_orderly_close_says_goodbye_and_flushes_first(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    link_write(s->f->link, "last words", 10);
    link_close(&s->f->link, true);
    expect_at_peer(s, "last words");
    ROUNDS_UNTIL(s, s->peer.ended);
    char none[8];
    assert_int_equal(tls_peer_read(&s->peer, none, sizeof none), 0);
    assert_true(tls_peer_heard_goodbye(&s->peer));
}

static void the_peers_goodbye_is_a_lost_connection(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    write_frames(s, 1, 10, 0);
    SSL_shutdown(s->peer.ssl);
    ROUNDS_UNTIL(s, s->f->downs == 1);
    assert_int_equal(s->f->frames, 1);
    assert_int_equal(s->f->status, CONEY_ELOST);
    assert_non_null(strstr(s->f->text, "the peer closed the connection: its log says why"));
}

static void an_end_without_goodbye_is_told_as_such(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    write_frames(s, 1, 10, 0);
    tls_peer_pump(&s->peer);
    shutdown(s->f->peer, SHUT_WR); /* half-closed */
    ROUNDS_UNTIL(s, s->f->downs == 1);
    assert_int_equal(s->f->frames, 1);
    assert_int_equal(s->f->status, CONEY_ELOST);
    assert_non_null(strstr(s->f->text, "without the goodbye of TLS"));
}

static void F06_three_writes_to_a_peer_that_reset_are_an_error_and_no_signal(void **state)
{
    struct scene *s = *state;
    sigset_t before = {0};
    sigset_t after = {0};
    sigprocmask(SIG_SETMASK, NULL, &before);
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    open_and_agree(s);
    peer_reset(s->f);
    for (int i = 0; i < 3; i++) {
        link_write(s->f->link, "control", 7);
        coney_loop_step(s->f->loop);
    }
    UNTIL(s->f, s->f->downs == 1);
    assert_int_equal(s->f->status, CONEY_ELOST);
    assert_non_null(strstr(s->f->text, "reset"));
    link_close(&s->f->link, true);
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_memory_equal(&before, &after, sizeof before);
}

/* The last words make the peer's host answer with a reset; the goodbye after them meets a broken pipe. */
static void F06_a_goodbye_to_a_peer_that_is_gone_raises_no_signal(void **state)
{
    struct scene *s = *state;
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    open_and_agree(s);
    close(s->f->peer);
    s->f->peer = -1;
    link_write(s->f->link, "last words", 10);
    link_close(&s->f->link, true);
    assert_int_equal(s->f->downs, 0);
}

static void a_record_that_was_changed_on_its_way_ends_the_link(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    ROUNDS_UNTIL(s, !tls_peer_pump(&s->peer) || BIO_pending(s->peer.to_socket) == 0);
    coney_loop_step(s->f->loop);
    write_frames(s, 1, 100, 0);
    char *record;
    assert_true(BIO_get_mem_data(s->peer.to_socket, &record) > 50);
    record[40] ^= 1;
    ROUNDS_UNTIL(s, s->f->downs == 1);
    assert_int_equal(s->f->frames, 0);
    assert_int_equal(s->f->status, CONEY_ETLS);
    assert_non_null(strstr(s->f->text, "TLS failed: "));
}

/* Goes on for so many rounds of 20 bytes each way, or until TLS is agreed. */
static void rounds(struct scene *s, int count)
{
    int64_t deadline = time_after(time_now(), PATIENCE);
    s->peer.at_once = 20;
    for (int i = 0; i < count && s->f->opened == 0; i += s->f->peer >= 0) {
        round_of(s);
        assert_true(time_now() < deadline);
    }
}

static void F10_a_link_is_freed_once_wherever_in_the_handshake_its_peer_goes(void **state)
{
    struct scene *s = *state;
    s->host = "127.0.0.1";
    nonblocking_listener(s);
    for (int count = 1; count < 80; count += 4) {
        open_tls(s);
        rounds(s, count);
        if (count % 8 == 1)
            peer_reset(s->f);
        else
            shutdown(s->f->peer, SHUT_RDWR);
        UNTIL(s->f, s->f->downs == 1);
        assert_true(s->f->status == CONEY_ECONNECT || s->f->status == CONEY_ELOST);
        hang_up(s);
    }
}

static void F10_a_link_is_freed_once_wherever_in_the_handshake_it_is_closed(void **state)
{
    struct scene *s = *state;
    nonblocking_listener(s);
    for (int count = 0; count < 80; count += 4) {
        open_tls(s);
        rounds(s, count);
        hang_up(s);
        assert_int_equal(s->f->downs, 0);
    }
}

static void F10_a_link_may_be_closed_in_any_callback(void **state)
{
    struct scene *s = *state;
    static const enum callback callbacks[] = {ON_OPEN, ON_FRAME, ON_READ_END, FILL, ON_WRITTEN, ON_DOWN};
    nonblocking_listener(s);
    for (size_t i = 0; i < sizeof callbacks / sizeof callbacks[0]; i++) {
        s->f->close_in = callbacks[i];
        s->f->bulk = (const uint8_t *)"bulk";
        s->f->bulk_len = 4;
        open_tls(s);
        link_want_write(s->f->link);
        bool spoke = false;
        int64_t deadline = time_after(time_now(), PATIENCE);
        while (s->f->link != NULL) {
            assert_true(time_now() < deadline);
            round_of(s);
            if (s->f->opened == 1 && !spoke && s->f->link != NULL && tls_peer_pump(&s->peer)) {
                write_frames(s, 1, 10, 0);
                tls_peer_pump(&s->peer);
                if (callbacks[i] == ON_DOWN)
                    SSL_shutdown(s->peer.ssl);
                spoke = true;
            }
        }
        assert_int_equal(s->f->last, callbacks[i]);
        hang_up(s);
    }
}

static void F02_a_name_is_asked_for_and_an_address_is_not(void **state)
{
    struct scene *s = *state;
    open_and_agree(s);
    assert_string_equal(tls_peer_asked_name(&s->peer), "localhost");
    hang_up(s);
    s->host = "127.0.0.1";
    open_and_agree(s);
    assert_null(tls_peer_asked_name(&s->peer));
    hang_up(s);
    s->options.server_name = "localhost";
    open_and_agree(s);
    assert_string_equal(tls_peer_asked_name(&s->peer), "localhost");
}

static void a_write_with_tls_is_never_clear_text(void **state)
{
    struct scene *s = *state;
    nonblocking_listener(s);
    open_tls(s);
    link_write(s->f->link, "user:secret", 11);
    UNTIL(s->f, (s->f->peer = accept4(s->f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    char got[4096];
    ssize_t len = 0;
    UNTIL(s->f, (len = recv(s->f->peer, got, sizeof got, 0)) > 0);
    assert_int_equal(got[0], 22); /* a handshake record */
    assert_null(memmem(got, (size_t)len, "secret", 6));
    send(s->f->peer, "AMQP\0\0\x09\x01", 8, MSG_NOSIGNAL);
    UNTIL(s->f, s->f->downs == 1);
    assert_true(recv(s->f->peer, got, sizeof got, 0) < 16); /* an alert, or the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_link_opens_when_tls_is_agreed_and_carries_bytes_both_ways),
        scene_test(tls_1_2_is_spoken_to_a_peer_that_has_no_later_one),
        scene_test(bytes_written_before_tls_is_agreed_leave_through_it),
        scene_test(F03_one_byte_at_a_time_the_handshake_ends_and_bytes_arrive),
        scene_test(F03_tls_1_2_one_byte_at_a_time),
        scene_test(F03_a_handshake_that_crawls_past_the_deadline_is_given_up),
        scene_test(D08_an_address_that_accepts_and_stays_silent_is_given_up_at_the_deadline),
        scene_test(F04_fifty_frames_of_one_record_are_handed_over_without_more_traffic),
        scene_test(F04_frames_of_a_record_that_a_pause_left_come_when_reading_goes_on),
        scene_test(F04_a_flood_is_read_to_its_end),
        scene_test(a_slow_reader_gets_every_byte_in_order),
        scene_test(what_waits_inside_tls_leaves_when_the_socket_has_room),
        scene_test(slices_share_records_of_up_to_16_kib),
        scene_test(F03_a_write_that_has_to_read_first_goes_out_when_that_came),
        scene_test(F04_a_frame_that_a_write_has_read_is_handed_over),
        scene_test(a_change_of_keys_while_writing_loses_nothing),
        scene_test(an_orderly_close_says_goodbye_and_flushes_first),
        scene_test(the_peers_goodbye_is_a_lost_connection),
        scene_test(an_end_without_goodbye_is_told_as_such),
        scene_test(F06_three_writes_to_a_peer_that_reset_are_an_error_and_no_signal),
        scene_test(F06_a_goodbye_to_a_peer_that_is_gone_raises_no_signal),
        scene_test(a_record_that_was_changed_on_its_way_ends_the_link),
        scene_test(F10_a_link_is_freed_once_wherever_in_the_handshake_its_peer_goes),
        scene_test(F10_a_link_is_freed_once_wherever_in_the_handshake_it_is_closed),
        scene_test(F10_a_link_may_be_closed_in_any_callback),
        scene_test(F02_a_name_is_asked_for_and_an_address_is_not),
        scene_test(a_write_with_tls_is_never_clear_text),
    };
    tests_filter();
    return cmocka_run_group_tests(tests, make_certs, remove_certs);
}
