/* link_read_test.c: frames however they arrive, blocks, pauses, and the peer's end. */
#include "net/link_fixture.h"

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
