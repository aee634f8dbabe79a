/* link_write_test.c: control before bulk, slow readers, peers that are gone. */
#include "net/link_fixture.h"

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
    peer_reset(f); /* the write at the end of this round fails */
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
    assert_non_null(strstr(f->text, "the peer reset the connection"));
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

static void many_small_fills_take_several_rounds_and_all_leave(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    static uint8_t bulk[40 * LINK_SLICES];
    f->bulk = bulk;
    f->bulk_len = sizeof bulk;
    f->slice = 1;
    link_want_write(f->link);
    coney_loop_step(f->loop);
    assert_in_range(f->writtens, 1, 39); /* other links had their turn in between */
    static uint8_t got[sizeof bulk];
    peer_read(f, got, sizeof got);
    assert_int_equal(f->writtens, 40);
}

static void requests_queue_up_behind_a_slow_peer_and_arrive_as_they_were(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    int small = 32 << 10;
    setsockopt(f->link->watch.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(f->peer, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    enum { FIRST = 2500 << 10, SECOND = 1620 << 10 };
    uint32_t *requests = calloc(1, FIRST + SECOND);
    for (uint32_t i = 0; i < (FIRST + SECOND) / 4; i++)
        requests[i] = i;
    link_write(f->link, requests, FIRST);
    coney_loop_step(f->loop);
    assert_true(link_is_blocked(f->link));
    link_write(f->link, requests + FIRST / 4, SECOND);
    uint32_t *got = calloc(1, FIRST + SECOND);
    peer_read(f, got, FIRST + SECOND);
    assert_int_equal(f->downs, 0);
    assert_memory_equal(got, requests, FIRST + SECOND);
    free(got);
    free(requests);
}

static void a_write_that_the_system_had_no_memory_for_is_tried_again(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->link->writable = false; /* as after ENOBUFS, which no edge follows */
    loop_timer_set(f->loop, &f->link->timer, time_now() + CONEY_MILLISECOND);
    link_write(f->link, "later", 5);
    coney_loop_step(f->loop);
    assert_true(link_is_blocked(f->link));
    char got[6] = "";
    peer_read(f, got, 5);
    assert_string_equal(got, "later");
}

static void the_owner_has_its_memory_back_in_the_middle_of_a_fill(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    enum { SIZE = 16 << 20, SLICES = 40 };
    link_copy_fill(f->link); /* harmless when nothing is being written */
    uint8_t *bulk = malloc(SIZE);
    uint8_t *expected = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        expected[i] = bulk[i] = (uint8_t)(i * 31 + i / 4096);
    f->bulk = bulk;
    f->bulk_len = SIZE;
    f->slice = SIZE / SLICES + 1;
    link_want_write(f->link);
    UNTIL(f, link_is_blocked(f->link));
    assert_int_equal(f->bulk_len, 0); /* one fill took it all */
    link_copy_fill(f->link);
    memset(bulk, 0, SIZE);
    free(bulk);
    uint8_t *got = malloc(SIZE);
    peer_read(f, got, SIZE / 2);
    link_copy_fill(f->link); /* the rest of the copy */
    peer_read(f, got + SIZE / 2, SIZE / 2);
    assert_memory_equal(got, expected, SIZE);
    UNTIL(f, f->writtens == 1);
    free(expected);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        link_test(control_bytes_leave_before_bulk_data_in_one_round),
        link_test(bytes_written_before_the_link_is_open_leave_when_it_is),
        link_test(a_slow_reader_gets_every_byte_in_order_and_control_never_inside_bulk),
        link_test(SB_25_a_write_to_a_peer_that_is_gone_raises_no_signal_and_ends_the_link),
        link_test(what_the_peer_said_last_is_read_although_a_write_failed),
        link_test(a_peer_that_reads_nothing_takes_the_link_down_after_4_MB_of_requests),
        link_test(many_small_fills_take_several_rounds_and_all_leave),
        link_test(requests_queue_up_behind_a_slow_peer_and_arrive_as_they_were),
        link_test(a_write_that_the_system_had_no_memory_for_is_tried_again),
        link_test(the_owner_has_its_memory_back_in_the_middle_of_a_fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
