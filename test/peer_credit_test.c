/* Credit and dispatch: how much the broker may send ahead, slow handlers, closing while messages come. */
#define _GNU_SOURCE
#include "stage.h"

#include "proto/amqp10/data.h"

static int64_t credit_given(struct peer *peer)
{
    int64_t given = 0;
    for (size_t i = 0; i < peer_count(peer, STREAM_CREDIT); i++)
        given += peer_record_of(peer, STREAM_CREDIT, i)->frame.credit.credit;
    return given;
}

static void the_default_credit_is_ten_chunks(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    assert_int_equal(peer_expect(stage.peer, STREAM_SUBSCRIBE)->frame.subscribe.credit, 10);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_15_one_credit_comes_back_for_each_chunk(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_feed(stage.peer, "s", 0, 100, 3);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 1};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    deliveries_wait(&deliveries, 300);
    peer_wait_count(stage.peer, STREAM_CREDIT, 3);
    assert_int_equal(credit_given(stage.peer), 3);
    assert_int_equal(peer_credit(stage.peer, "s"), 1);
    consumer_close(&consumer);
    assert_int_equal(credit_given(stage.peer), 3);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_15_a_chunk_that_hands_over_nothing_gives_its_credit_back(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 1};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    assert_true(peer_deliver_chunk(stage.peer, "s", &(struct peer_chunk){.first = 0})); /* no messages */
    peer_wait_count(stage.peer, STREAM_CREDIT, 1);
    uint8_t bytes[256];
    struct chunk_writer w = chunk_begin(bytes, sizeof bytes, CHUNK_USER, 1700000000000, 1, 0);
    chunk_add_raw_batch(&w, 1, 5, 60, CONEY_STR("compressed")); /* five messages that cannot be read */
    size_t len = chunk_finish(&w, peer_crc(chunk_data(&w)));
    assert_true(peer_deliver_bytes(stage.peer, "s", coney_bytes_of(bytes, len)));
    peer_wait_count(stage.peer, STREAM_CREDIT, 2);
    peer_deliver(stage.peer, "s", 5, 1);
    deliveries_wait(&deliveries, 1);
    deliveries_are_numbered(&deliveries, 5, 1);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_16_credit_every_n_chunks_is_refused_above_half_of_the_window_and_works_at_half(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {
        .on_message = deliveries_add, .ctx = &deliveries, .start_if_new = CONEY_STREAM_FIRST, .credit = 10, .credit_every = 6};
    coney_call call = {0};
    assert_null(coney_stream_consumer_open(stage.env, "s", &options, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    assert_says(call.text, "credit_every");
    options.credit_every = 5;
    peer_feed(stage.peer, "s", 0, 3, 40);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    deliveries_wait(&deliveries, 120);
    while (credit_given(stage.peer) < 40) { /* chunks that were done together give their credit together */
        int16_t credit = peer_expect(stage.peer, STREAM_CREDIT)->frame.credit.credit;
        assert_true(credit >= 5);
    }
    assert_int_equal(credit_given(stage.peer), 40);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_18_by_hand_credit_comes_back_only_when_it_is_given(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_feed(stage.peer, "s", 0, 4, 100);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 2, .credit_by_hand = true};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    deliveries_wait(&deliveries, 8);
    assert_false(deliveries_reach(&deliveries, 9, 30));
    assert_int_equal(peer_count(stage.peer, STREAM_CREDIT), 0);
    assert_int_equal(coney_stream_consumer_credit(consumer, 1), CONEY_OK);
    deliveries_wait(&deliveries, 12);
    assert_int_equal(peer_count(stage.peer, STREAM_CREDIT), 1);
    assert_int_equal(peer_record_of(stage.peer, STREAM_CREDIT, 0)->frame.credit.credit, 1);
    assert_int_equal(coney_stream_consumer_credit(consumer, 0), CONEY_EINVAL);
    assert_int_equal(coney_stream_consumer_credit(consumer, 32768), CONEY_EINVAL);
    consumer_close(&consumer);
    coney_stream_consumer *automatic = stage_consumer(&stage, "t", &deliveries, NULL);
    assert_int_equal(coney_stream_consumer_credit(automatic, 1), CONEY_EINVAL);
    consumer_close(&automatic);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_slow_handler_bounds_what_the_broker_sends(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {.closed_gate = true};
    stage_up(&stage);
    peer_feed(stage.peer, "s", 0, 10, 1000);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 4};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    deliveries_wait_at_gate(&deliveries);
    assert_int_equal(peer_credit(stage.peer, "s"), 0);
    coney_stream_consumer_stats stats;
    coney_stream_consumer_get_stats(consumer, &stats);
    assert_true(stats.chunks <= 4);
    deliveries_open_gate(&deliveries);
    deliveries_wait(&deliveries, 10000);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Dispatch ------------------------------------------------------------------------------------------------------- */

static void SB_24_a_blocked_handler_delays_neither_answers_nor_confirms_nor_new_consumers(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries slow = {.closed_gate = true}, quick = {0};
    stage_up(&stage);
    coney_stream_consumer *a = stage_consumer(&stage, "s", &slow, NULL);
    peer_deliver(stage.peer, "s", 0, 1);
    deliveries_wait_at_gate(&slow);
    int64_t before = now_ms();
    coney_stream_consumer *b = stage_consumer(&stage, "t", &quick, NULL);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    assert_true(now_ms() - before < scaled_ms(2000));
    producer_close(&producer);
    deliveries_open_gate(&slow);
    consumer_close(&a);
    consumer_close(&b);
    stage_down(&stage);
    deliveries_free(&slow);
    deliveries_free(&quick);
}

struct caller {
    coney_stream_env *env;
    coney_stream_producer *producer;
    coney_status created, sent;
};

static void call_from_handler(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    struct caller *caller = ctx;
    (void)nth;
    caller->created = coney_stream_create(caller->env, "from-handler", NULL, NULL);
    caller->sent = coney_stream_send_wait(caller->producer, delivery->body, NULL);
}

static void a_handler_may_make_blocking_calls(void **state)
{
    (void)state;
    struct stage stage;
    struct caller caller = {.created = CONEY_EAGAIN, .sent = CONEY_EAGAIN};
    struct deliveries deliveries = {.also = call_from_handler, .also_ctx = &caller};
    stage_up(&stage);
    caller.env = stage.env;
    caller.producer = stage_producer(&stage, "t", NULL, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    peer_deliver(stage.peer, "s", 0, 1);
    peer_wait_messages(stage.peer, 1);
    consumer_close(&consumer); /* waits for the handler */
    assert_int_equal(caller.created, CONEY_OK);
    assert_int_equal(caller.sent, CONEY_OK);
    assert_true(bytes_equal(peer_message_of(stage.peer, 0).body, CONEY_STR("m0")));
    producer_close(&caller.producer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void on_the_loop_handlers_run_and_waiting_is_refused(void **state)
{
    (void)state;
    struct stage stage;
    struct caller caller = {0};
    struct deliveries deliveries = {.also = call_from_handler, .also_ctx = &caller};
    stage_up(&stage);
    caller.env = stage.env;
    caller.producer = stage_producer(&stage, "t", NULL, NULL);
    coney_stream_consumer_options options = {.on_loop = true, .start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_feed(stage.peer, "s", 0, 1, 50);
    deliveries_wait(&deliveries, 50);
    deliveries_are_numbered(&deliveries, 0, 50);
    consumer_close(&consumer);
    assert_int_equal(caller.created, CONEY_EDEADLK);
    assert_int_equal(caller.sent, CONEY_EDEADLK);
    producer_close(&caller.producer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

struct closer {
    size_t at;
    coney_status status;
};

static void close_at(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    struct closer *closer = ctx;
    coney_stream_consumer *self = delivery->consumer;
    if (nth == closer->at)
        closer->status = coney_stream_consumer_close(&self, NULL);
}

static void SB_21_closing_inside_the_handler_stops_after_that_message(void **state)
{
    (void)state;
    struct stage stage;
    struct closer closer = {.at = 100, .status = CONEY_EAGAIN};
    struct deliveries deliveries = {.also = close_at, .also_ctx = &closer};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 8000);
    deliveries_wait(&deliveries, 101);
    peer_wait_count(stage.peer, STREAM_UNSUBSCRIBE, 1);
    assert_int_equal(coney_stream_env_close(&stage.env, NULL), CONEY_OK);
    assert_int_equal(deliveries_count(&deliveries), 101);
    assert_int_equal(closer.status, CONEY_OK);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_21_no_handler_starts_after_a_close_from_another_thread_has_returned(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct stage stage;
        struct deliveries deliveries = {0};
        stage_up(&stage);
        coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
        coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
        peer_deliver(stage.peer, "s", 0, 8000);
        deliveries_wait(&deliveries, 100);
        consumer_close(&consumer);
        size_t at_close = deliveries_count(&deliveries);
        coney_stream_env_close(&stage.env, NULL);
        assert_int_equal(deliveries_count(&deliveries), at_close);
        stage_down(&stage);
        deliveries_free(&deliveries);
    }
}

/* Buffers -------------------------------------------------------------------------------------------------------- */

enum { CHECKED_CONSUMERS = 4, CHECKED_CHUNKS = 400, CHECKED_ENTRIES = 25, KEPT_RING = 32 };

/* A body is its offset, then bytes that follow from it. */
static size_t checked_body(uint8_t *body, uint64_t offset)
{
    size_t len = 8 + offset % 90;
    store64(body, offset);
    for (size_t i = 8; i < len; i++)
        body[i] = (uint8_t)(offset * 7 + i);
    return len;
}

static bool body_is_right(const coney_stream_delivery *delivery)
{
    uint8_t expected[128];
    size_t len = checked_body(expected, delivery->offset);
    return delivery->body.len == len && memcmp(delivery->body.data, expected, len) == 0;
}

struct checker {
    struct deliveries progress;
    coney_kept *ring[KEPT_RING];
    uint64_t seen, wrong;
};

static coney_settle check_body(void *ctx, const coney_stream_delivery *delivery)
{
    struct checker *checker = ctx;
    coney_kept **slot = &checker->ring[checker->seen++ % KEPT_RING];
    checker->wrong += !body_is_right(delivery);
    if (*slot != NULL) { /* an older one, kept through many chunks */
        checker->wrong += !body_is_right(coney_stream_kept_delivery(*slot));
        coney_kept_settle(slot, CONEY_ACK);
    }
    *slot = coney_stream_keep(delivery);
    bool kept = *slot != NULL;
    if (delivery->offset == CHECKED_CHUNKS * CHECKED_ENTRIES - 1)
        deliveries_add(&checker->progress, delivery);
    return kept ? CONEY_KEPT : CONEY_ACK;
}

static void checked_chunk(struct peer *peer, const char *stream, uint64_t first)
{
    uint8_t room[CHECKED_ENTRIES][160];
    coney_bytes entries[CHECKED_ENTRIES];
    for (size_t i = 0; i < CHECKED_ENTRIES; i++) {
        uint8_t body[128];
        size_t len = checked_body(body, first + i);
        const uint8_t *end = amqp10_data_write(room[i], coney_bytes_of(body, len));
        entries[i] = coney_bytes_of(room[i], (size_t)(end - room[i]));
    }
    struct peer_chunk chunk = {.first = first, .entries = entries, .count = CHECKED_ENTRIES};
    assert_true(peer_deliver_chunk(peer, stream, &chunk));
}

static void SB_26_bodies_stay_whole_while_several_consumers_run_and_keep_them(void **state)
{
    (void)state;
    struct stage stage;
    struct checker checkers[CHECKED_CONSUMERS] = {0};
    coney_stream_consumer *consumers[CHECKED_CONSUMERS];
    static const char *const streams[CHECKED_CONSUMERS] = {"a", "b", "c", "d"};
    stage_up(&stage);
    for (size_t i = 0; i < CHECKED_CONSUMERS; i++) {
        coney_stream_consumer_options options = {
            .on_message = check_body, .ctx = &checkers[i], .start_if_new = CONEY_STREAM_FIRST, .credit = 1000};
        consumers[i] = coney_stream_consumer_open(stage.env, streams[i], &options, NULL);
        assert_non_null(consumers[i]);
    }
    for (uint64_t chunk = 0; chunk < CHECKED_CHUNKS; chunk++)
        for (size_t i = 0; i < CHECKED_CONSUMERS; i++)
            checked_chunk(stage.peer, streams[i], chunk * CHECKED_ENTRIES);
    for (size_t i = 0; i < CHECKED_CONSUMERS; i++) {
        deliveries_wait(&checkers[i].progress, 1);
        consumer_close(&consumers[i]);
        for (size_t k = 0; k < KEPT_RING; k++) {
            if (checkers[i].ring[k] != NULL)
                checkers[i].wrong += !body_is_right(coney_stream_kept_delivery(checkers[i].ring[k]));
            coney_kept_settle(&checkers[i].ring[k], CONEY_ACK);
        }
        assert_int_equal(checkers[i].seen, CHECKED_CHUNKS * CHECKED_ENTRIES);
        assert_int_equal(checkers[i].wrong, 0);
        deliveries_free(&checkers[i].progress);
    }
    stage_down(&stage);
}

/* Faults --------------------------------------------------------------------------------------------------------- */

static void SB_25_a_credit_that_cannot_be_written_leads_to_recovery_and_no_signal(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {.closed_gate = true};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 1};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 1);
    deliveries_wait_at_gate(&deliveries);
    peer_cut(stage.peer, peer_consumer_connection(stage.peer, "s"), PEER_RST);
    deliveries_open_gate(&deliveries);
    events_wait(&stage.events, CONEY_EVENT_RECOVERING, 0);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    peer_deliver(stage.peer, "s", 1, 1);
    deliveries_wait(&deliveries, 2);
    deliveries_are_numbered(&deliveries, 0, 2);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void after_recovery_the_window_is_whole_again(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_feed(stage.peer, "s", 0, 5, 200);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 3};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    for (size_t i = 1; i <= 5; i++) {
        deliveries_wait(&deliveries, i * 100);
        peer_cut(stage.peer, PEER_ALL, PEER_RST);
    }
    deliveries_wait(&deliveries, 1000);
    deliveries_are_numbered(&deliveries, 0, 1000);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_103_closing_while_chunks_pour_in_is_harmless(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    for (uint64_t round = 0; round < 300; round++) {
        struct deliveries deliveries = {0};
        peer_feed(stage.peer, "s", 0, 20, 100000);
        coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .on_loop = round % 3 == 2};
        coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
        deliveries_wait(&deliveries, round % 50);
        consumer_close(&consumer);
        assert_int_equal(coney_stream_consumer_close(&consumer, NULL), CONEY_OK); /* again: nothing */
        size_t count = deliveries_count(&deliveries);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(deliveries_of(&deliveries, i).offset, i);
        deliveries_free(&deliveries);
    }
    stage_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_credit_is_ten_chunks),
        cmocka_unit_test(SB_15_one_credit_comes_back_for_each_chunk),
        cmocka_unit_test(SB_15_a_chunk_that_hands_over_nothing_gives_its_credit_back),
        cmocka_unit_test(SB_16_credit_every_n_chunks_is_refused_above_half_of_the_window_and_works_at_half),
        cmocka_unit_test(SB_18_by_hand_credit_comes_back_only_when_it_is_given),
        cmocka_unit_test(a_slow_handler_bounds_what_the_broker_sends),
        cmocka_unit_test(SB_24_a_blocked_handler_delays_neither_answers_nor_confirms_nor_new_consumers),
        cmocka_unit_test(a_handler_may_make_blocking_calls),
        cmocka_unit_test(on_the_loop_handlers_run_and_waiting_is_refused),
        cmocka_unit_test(SB_21_closing_inside_the_handler_stops_after_that_message),
        cmocka_unit_test(SB_21_no_handler_starts_after_a_close_from_another_thread_has_returned),
        cmocka_unit_test(SB_26_bodies_stay_whole_while_several_consumers_run_and_keep_them),
        cmocka_unit_test(SB_25_a_credit_that_cannot_be_written_leads_to_recovery_and_no_signal),
        cmocka_unit_test(after_recovery_the_window_is_whole_again),
        cmocka_unit_test(SB_103_closing_while_chunks_pour_in_is_harmless),
    };
    return run_tests(tests);
}
