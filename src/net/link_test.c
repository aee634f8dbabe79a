/* link_test.c: a link's end: closed from anywhere, with a last word, in a forked child. */
#include "net/link_fixture.h"

#include <signal.h>

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
        /* No leak checker looks: what the parent's threads held is lost here. */
        raise(f->link == NULL && f->loop == NULL ? SIGKILL : SIGABRT);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    char got[8] = "";
    peer_read(f, got, 6);
    assert_string_equal(got, "parent");
    peer_write_frames(f, 1, 10, 0);
    UNTIL(f, f->frames == 1);
    assert_int_equal(recv(f->peer, got, 1, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        link_test(a_link_can_be_closed_from_each_of_its_callbacks),
        link_test(closing_offers_the_last_control_bytes_to_the_peer),
        link_test(closing_inside_a_fill_finishes_it_before_the_last_control_bytes),
        link_test(a_link_closed_while_it_resolves_or_connects_calls_nobody),
        link_test(a_forked_child_frees_its_link_and_the_peer_hears_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
