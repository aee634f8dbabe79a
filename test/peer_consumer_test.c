/* Consumers: where they begin, what they see, settlements, stored offsets, recovery. */
#define _GNU_SOURCE
#include "stage.h"

/* Where a subscription begins ------------------------------------------------------------------------------------ */

static struct stream_offset_spec subscribed_at(struct peer *peer)
{
    return peer_expect(peer, STREAM_SUBSCRIBE)->frame.subscribe.offset;
}

static void each_start_has_its_form_on_the_wire(void **state)
{
    (void)state;
    static const struct {
        coney_stream_consumer_options options;
        uint16_t type;
        uint64_t value;
    } starts[] = {
        {{.start_if_new = CONEY_STREAM_NEXT}, STREAM_OFFSET_NEXT, 0},
        {{.start_if_new = CONEY_STREAM_FIRST}, STREAM_OFFSET_FIRST, 0},
        {{.start_if_new = CONEY_STREAM_LAST}, STREAM_OFFSET_LAST, 0},
        {{.start_if_new = CONEY_STREAM_OFFSET, .start_offset = 45}, STREAM_OFFSET_OFFSET, 45},
        {{.start_if_new = CONEY_STREAM_TIMESTAMP, .start_time = 1679909168}, STREAM_OFFSET_TIMESTAMP, 1679909168},
        {{.start_if_new = CONEY_STREAM_TIMESTAMP, .start_time = -5}, STREAM_OFFSET_TIMESTAMP, (uint64_t)-5},
    };
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &starts[i].options);
        struct stream_offset_spec spec = subscribed_at(stage.peer);
        assert_int_equal(spec.type, starts[i].type);
        assert_int_equal(spec.value, starts[i].value);
        consumer_close(&consumer);
    }
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_01_a_consumer_at_offset_45_sees_nothing_older(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_OFFSET, .start_offset = 45};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 32, 64);
    deliveries_wait(&deliveries, 51);
    consumer_close(&consumer);
    deliveries_are_numbered(&deliveries, 45, 51);
    assert_string_equal(deliveries_of(&deliveries, 0).body, "m45");
    assert_string_equal(deliveries_of(&deliveries, 50).body, "m95");
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void an_offset_beyond_the_end_means_what_is_published_next(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_OFFSET, .start_offset = 1000000};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 10, 3); /* beyond the end: the broker goes on with what is published next */
    peer_deliver(stage.peer, "s", 13, 3);
    deliveries_wait(&deliveries, 6);
    consumer_close(&consumer);
    deliveries_are_numbered(&deliveries, 10, 6);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_06_a_consumer_that_got_nothing_begins_again_at_next(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    assert_int_equal(subscribed_at(stage.peer).type, STREAM_OFFSET_NEXT);
    peer_cut(stage.peer, peer_consumer_connection(stage.peer, "s"), PEER_RST);
    assert_int_equal(subscribed_at(stage.peer).type, STREAM_OFFSET_NEXT);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    peer_deliver(stage.peer, "s", 9, 1);
    deliveries_wait(&deliveries, 1);
    peer_cut(stage.peer, peer_consumer_connection(stage.peer, "s"), PEER_RST);
    struct stream_offset_spec spec = subscribed_at(stage.peer);
    assert_int_equal(spec.type, STREAM_OFFSET_OFFSET);
    assert_int_equal(spec.value, 10);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_06_where_the_broker_can_say_where_next_is_nothing_is_skipped_by_a_cut(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_set(&stage);
    peer_set_version(stage.peer, "4.3.1");
    peer_set_resolved(stage.peer, 500);
    stage_open(&stage);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    subscribed_at(stage.peer);
    assert_true(peer_count(stage.peer, STREAM_RESOLVE_OFFSET_SPEC) >= 1);
    peer_set_resolved(stage.peer, 700); /* two hundred were published meanwhile */
    peer_cut(stage.peer, peer_consumer_connection(stage.peer, "s"), PEER_RST);
    struct stream_offset_spec again = subscribed_at(stage.peer);
    assert_int_equal(again.type, STREAM_OFFSET_OFFSET);
    assert_int_equal(again.value, 500);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_07_a_message_in_hand_at_a_cut_is_neither_lost_nor_seen_twice_and_holds_the_stored_offset(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {.closed_gate = true, .gate_offset = 7};
    stage_up(&stage);
    coney_stream_consumer_options options = {
        .name = "me", .start_if_new = CONEY_STREAM_FIRST, .store_every = 1, .store_interval = 20 * CONEY_MILLISECOND};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    subscribed_at(stage.peer);
    peer_deliver(stage.peer, "s", 5, 5);
    deliveries_wait_at_gate(&deliveries);
    int link = peer_consumer_connection(stage.peer, "s");
    peer_wait_count(stage.peer, STREAM_STORE_OFFSET, 1);
    peer_cut(stage.peer, link, PEER_RST);
    struct stream_offset_spec again = subscribed_at(stage.peer);
    assert_int_equal(again.type, STREAM_OFFSET_OFFSET);
    assert_int_equal(again.value, 10); /* what was received whole stays queued */
    for (size_t i = 0; i < peer_count(stage.peer, STREAM_STORE_OFFSET); i++)
        assert_true(peer_record_of(stage.peer, STREAM_STORE_OFFSET, i)->frame.store_offset.offset <= 6);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    peer_deliver(stage.peer, "s", 10, 2);
    deliveries_open_gate(&deliveries);
    deliveries_wait(&deliveries, 7);
    consumer_close(&consumer);
    deliveries_are_numbered(&deliveries, 5, 7);
    size_t stores = peer_count(stage.peer, STREAM_STORE_OFFSET);
    assert_int_equal(peer_record_of(stage.peer, STREAM_STORE_OFFSET, stores - 1)->frame.store_offset.offset, 11);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_chunk_that_arrives_again_after_a_cut_is_not_handed_over_again(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 10);
    deliveries_wait(&deliveries, 10);
    peer_cut(stage.peer, peer_consumer_connection(stage.peer, "s"), PEER_FIN);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    peer_deliver(stage.peer, "s", 5, 10); /* the broker's chunk that contains offset 10 */
    deliveries_wait(&deliveries, 15);
    consumer_close(&consumer);
    deliveries_are_numbered(&deliveries, 0, 15);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_08_a_timestamp_start_hands_over_whole_chunks_with_their_time(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_TIMESTAMP, .start_time = 1500};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    assert_true(peer_deliver_chunk(stage.peer, "s", &(struct peer_chunk){.first = 0, .count = 3, .timestamp = 1000}));
    assert_true(peer_deliver_chunk(stage.peer, "s", &(struct peer_chunk){.first = 3, .count = 2, .timestamp = 2000}));
    deliveries_wait(&deliveries, 5);
    assert_int_equal(deliveries_of(&deliveries, 0).timestamp, 1000);
    assert_int_equal(deliveries_of(&deliveries, 4).timestamp, 2000);
    deliveries_are_numbered(&deliveries, 0, 5);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_09_last_hands_over_the_whole_last_chunk_also_on_a_reused_subscription_id(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options at = {.start_if_new = CONEY_STREAM_OFFSET, .start_offset = 95};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &at);
    consumer_close(&consumer);
    coney_stream_consumer_options last = {.start_if_new = CONEY_STREAM_LAST};
    consumer = stage_consumer(&stage, "s", &deliveries, &last);
    peer_deliver(stage.peer, "s", 90, 10);
    deliveries_wait(&deliveries, 10);
    deliveries_are_numbered(&deliveries, 90, 10);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Stored offsets ------------------------------------------------------------------------------------------------- */

static uint64_t last_stored(struct peer *peer)
{
    size_t count = peer_count(peer, STREAM_STORE_OFFSET);
    assert_true(count > 0);
    return peer_record_of(peer, STREAM_STORE_OFFSET, count - 1)->frame.store_offset.offset;
}

static void SB_13_a_name_without_a_stored_offset_begins_as_asked(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.name = "new", .start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    assert_int_equal(peer_count(stage.peer, STREAM_QUERY_OFFSET), 1);
    assert_int_equal(subscribed_at(stage.peer).type, STREAM_OFFSET_FIRST);
    peer_deliver(stage.peer, "s", 0, 2);
    deliveries_wait(&deliveries, 2);
    deliveries_are_numbered(&deliveries, 0, 2);
    consumer_close(&consumer);
    assert_int_equal(last_stored(stage.peer), 1);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_name_with_a_stored_offset_begins_after_it(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_set_offset(stage.peer, "s", "me", 41);
    coney_stream_consumer_options options = {.name = "me", .start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    struct stream_offset_spec spec = subscribed_at(stage.peer);
    assert_int_equal(spec.type, STREAM_OFFSET_OFFSET);
    assert_int_equal(spec.value, 42);
    peer_deliver(stage.peer, "s", 40, 5);
    deliveries_wait(&deliveries, 3);
    deliveries_are_numbered(&deliveries, 42, 3);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void with_start_always_what_is_stored_does_not_count(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_set_offset(stage.peer, "s", "me", 41);
    coney_stream_consumer_options options = {
        .name = "me", .start_if_new = CONEY_STREAM_OFFSET, .start_offset = 7, .start_always = true};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    assert_int_equal(subscribed_at(stage.peer).value, 7);
    peer_deliver(stage.peer, "s", 7, 3);
    deliveries_wait(&deliveries, 3);
    consumer_close(&consumer);
    assert_int_equal(last_stored(stage.peer), 9);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_failed_offset_query_fails_the_open(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_answer(stage.peer, STREAM_QUERY_OFFSET, PEER_EVERY, STREAM_CODE_ACCESS_REFUSED);
    coney_stream_consumer_options options = {.name = "me", .on_message = deliveries_add, .ctx = &deliveries};
    coney_call call = {0};
    assert_null(coney_stream_consumer_open(stage.env, "s", &options, &call));
    assert_int_equal(call.status, CONEY_EACCESS);
    assert_int_equal(peer_count(stage.peer, STREAM_SUBSCRIBE), 0);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_11_offsets_are_stored_by_time_while_messages_keep_coming(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {
        .name = "me", .start_if_new = CONEY_STREAM_FIRST, .store_every = 1000000, .store_interval = 100 * CONEY_MILLISECOND};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    uint64_t offset = 0;
    int64_t begin = now_ms();
    while (peer_count(stage.peer, STREAM_STORE_OFFSET) < 4 && now_ms() - begin < scaled_ms(SUPPORT_PATIENCE)) {
        peer_deliver(stage.peer, "s", offset++, 1);
        deliveries_wait(&deliveries, offset);
        peer_reaches_count(stage.peer, STREAM_STORE_OFFSET, SIZE_MAX, 10); /* a message every 10 ms */
    }
    int64_t took = now_ms() - begin;
    size_t stores = peer_count(stage.peer, STREAM_STORE_OFFSET);
    assert_true(stores >= 4);
    assert_true((int64_t)stores <= took / 90 + 1);
    uint64_t last = 0;
    for (size_t i = 0; i < stores; i++) {
        uint64_t stored = peer_record_of(stage.peer, STREAM_STORE_OFFSET, i)->frame.store_offset.offset;
        assert_true(i == 0 || stored > last);
        assert_true(stored < offset);
        last = stored;
    }
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void offsets_are_stored_by_count(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {
        .name = "me", .start_if_new = CONEY_STREAM_FIRST, .store_every = 10, .store_interval = CONEY_OFF};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    for (uint64_t i = 0; i < 4; i++) {
        peer_deliver(stage.peer, "s", i * 10, 5);
        peer_deliver(stage.peer, "s", i * 10 + 5, 5);
        assert_int_equal(peer_expect(stage.peer, STREAM_STORE_OFFSET)->frame.store_offset.offset, i * 10 + 9);
    }
    peer_deliver(stage.peer, "s", 40, 3);
    deliveries_wait(&deliveries, 43);
    assert_int_equal(peer_count(stage.peer, STREAM_STORE_OFFSET), 4);
    consumer_close(&consumer);
    assert_int_equal(last_stored(stage.peer), 42);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_12_at_close_the_offset_is_stored_also_beyond_2_to_the_63(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    uint64_t far = UINT64_C(1) << 63;
    peer_set_offset(stage.peer, "s", "me", far);
    coney_stream_consumer_options options = {.name = "me"};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    assert_int_equal(subscribed_at(stage.peer).value, far + 1);
    peer_deliver(stage.peer, "s", far + 1, 1);
    deliveries_wait(&deliveries, 1);
    consumer_close(&consumer);
    assert_int_equal(last_stored(stage.peer), far + 1);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_12_nothing_done_stores_nothing_and_nothing_is_stored_twice(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_set_offset(stage.peer, "s", "me", 10);
    coney_stream_consumer_options options = {.name = "me", .store_every = 1};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    consumer_close(&consumer);
    assert_int_equal(peer_count(stage.peer, STREAM_STORE_OFFSET), 0);
    consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 11, 1);
    peer_wait_count(stage.peer, STREAM_STORE_OFFSET, 1);
    consumer_close(&consumer);
    assert_int_equal(peer_count(stage.peer, STREAM_STORE_OFFSET), 1);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void by_hand_only_the_user_stores(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {
        .name = "me", .start_if_new = CONEY_STREAM_FIRST, .store_every = 1, .store_by_hand = true};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 10);
    deliveries_wait(&deliveries, 10);
    assert_int_equal(coney_stream_consumer_store(consumer, 3), CONEY_OK);
    const struct stream_store_offset *store = &peer_expect(stage.peer, STREAM_STORE_OFFSET)->frame.store_offset;
    assert_int_equal(store->offset, 3);
    assert_true(bytes_equal(store->reference, CONEY_STR("me")));
    assert_true(bytes_equal(store->stream, CONEY_STR("s")));
    consumer_close(&consumer);
    assert_int_equal(peer_count(stage.peer, STREAM_STORE_OFFSET), 1);
    coney_stream_consumer *nameless = stage_consumer(&stage, "s", &deliveries, NULL);
    assert_int_equal(coney_stream_consumer_store(nameless, 3), CONEY_EINVAL);
    consumer_close(&nameless);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Settlements ---------------------------------------------------------------------------------------------------- */

static coney_settle third_time_lucky(void *ctx, const coney_stream_delivery *delivery)
{
    struct deliveries *deliveries = ctx;
    deliveries_add(deliveries, delivery);
    return delivery->offset == 1 && delivery->attempt < 2 ? deliveries->settle : CONEY_ACK;
}

static void attempts_of_one_are_followed_by_two(struct stage *stage, coney_settle settle)
{
    struct deliveries deliveries = {.settle = settle};
    coney_stream_consumer_options options = {
        .on_message = third_time_lucky, .ctx = &deliveries, .start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = coney_stream_consumer_open(stage->env, "s", &options, NULL);
    assert_non_null(consumer);
    peer_deliver(stage->peer, "s", 0, 3);
    deliveries_wait(&deliveries, 5);
    static const uint64_t offsets[] = {0, 1, 1, 1, 2};
    static const uint32_t attempts[] = {0, 0, 1, 2, 0};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(deliveries_of(&deliveries, i).offset, offsets[i]);
        assert_int_equal(deliveries_of(&deliveries, i).attempt, attempts[i]);
        assert_int_equal(deliveries_of(&deliveries, i).body[1], '0' + (int)offsets[i]);
    }
    coney_stream_consumer_stats stats;
    assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_int_equal(stats.requeued, 2);
    consumer_close(&consumer);
    deliveries_free(&deliveries);
}

static void a_requeued_message_comes_again_at_once_and_later_ones_wait(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    attempts_of_one_are_followed_by_two(&stage, CONEY_REQUEUE);
    stage_down(&stage);
}

static void a_retried_message_comes_again_after_its_time_and_later_ones_wait(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    int64_t before = now_ms();
    attempts_of_one_are_followed_by_two(&stage, coney_retry_after(60 * CONEY_MILLISECOND));
    assert_true(now_ms() - before >= 118);
    stage_down(&stage);
}

static void a_rejected_message_is_done_and_counted(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {.settle = CONEY_REJECT};
    stage_up(&stage);
    coney_stream_consumer_options options = {.name = "me", .start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 3);
    deliveries_wait(&deliveries, 3);
    assert_int_equal(coney_stream_consumer_pause(consumer), CONEY_OK); /* the handler of the third has returned */
    coney_stream_consumer_stats stats;
    coney_stream_consumer_get_stats(consumer, &stats);
    assert_int_equal(stats.rejected, 3);
    assert_int_equal(stats.acked, 0);
    assert_int_equal(stats.messages, 3);
    consumer_close(&consumer);
    assert_int_equal(last_stored(stage.peer), 2);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

struct keeper {
    struct deliveries deliveries;
    coney_kept *kept[8];
    size_t count;
};

static coney_settle keep_it(void *ctx, const coney_stream_delivery *delivery)
{
    struct keeper *keeper = ctx;
    coney_settle settle = CONEY_ACK;
    if (delivery->attempt == 0 && delivery->offset % 2 == 1) {
        coney_kept *kept = coney_stream_keep(delivery);
        if (kept != NULL) {
            keeper->kept[keeper->count++] = kept;
            settle = CONEY_KEPT;
        }
    }
    deliveries_add(&keeper->deliveries, delivery);
    return settle;
}

static coney_stream_consumer *keeping_consumer(struct stage *stage, struct keeper *keeper)
{
    coney_stream_consumer_options options = {.name = "me",
                                             .on_message = keep_it,
                                             .ctx = keeper,
                                             .start_if_new = CONEY_STREAM_FIRST,
                                             .store_every = 1,
                                             .store_interval = CONEY_OFF};
    coney_call call = {0};
    coney_stream_consumer *consumer = coney_stream_consumer_open(stage->env, "s", &options, &call);
    if (consumer == NULL)
        fail_msg("%s", call.text);
    return consumer;
}

static void a_kept_delivery_stays_readable_and_holds_the_stored_offset(void **state)
{
    (void)state;
    struct stage stage;
    struct keeper keeper = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = keeping_consumer(&stage, &keeper);
    peer_deliver(stage.peer, "s", 0, 4);
    deliveries_wait(&keeper.deliveries, 4);
    coney_stream_consumer_pause(consumer);
    assert_int_equal(keeper.count, 2);
    const coney_stream_delivery *delivery = coney_stream_kept_delivery(keeper.kept[0]);
    assert_int_equal(delivery->offset, 1);
    assert_true(bytes_equal(delivery->body, CONEY_STR("m1")));
    assert_string_equal(delivery->stream, "s");
    coney_stream_consumer_stats stats;
    coney_stream_consumer_get_stats(consumer, &stats);
    assert_int_equal(stats.kept, 2);
    for (size_t i = 0; i < peer_count(stage.peer, STREAM_STORE_OFFSET); i++)
        assert_int_equal(peer_record_of(stage.peer, STREAM_STORE_OFFSET, i)->frame.store_offset.offset, 0);
    assert_int_equal(coney_kept_settle(&keeper.kept[1], CONEY_ACK), CONEY_OK);
    assert_null(keeper.kept[1]);
    assert_int_equal(coney_kept_settle(&keeper.kept[0], CONEY_KEPT), CONEY_EINVAL);
    assert_int_equal(coney_kept_settle(&keeper.kept[0], CONEY_ACK), CONEY_OK);
    assert_int_equal(coney_kept_settle(&keeper.kept[0], CONEY_ACK), CONEY_OK); /* NULL is harmless */
    consumer_close(&consumer);
    assert_int_equal(last_stored(stage.peer), 3);
    stage_down(&stage);
    deliveries_free(&keeper.deliveries);
}

static void a_kept_delivery_that_is_requeued_comes_again(void **state)
{
    (void)state;
    struct stage stage;
    struct keeper keeper = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = keeping_consumer(&stage, &keeper);
    peer_deliver(stage.peer, "s", 0, 2);
    deliveries_wait(&keeper.deliveries, 2);
    coney_stream_consumer_pause(consumer);
    assert_int_equal(coney_kept_settle(&keeper.kept[0], CONEY_REQUEUE), CONEY_OK);
    coney_stream_consumer_resume(consumer);
    deliveries_wait(&keeper.deliveries, 3);
    assert_int_equal(deliveries_of(&keeper.deliveries, 2).offset, 1);
    assert_int_equal(deliveries_of(&keeper.deliveries, 2).attempt, 1);
    consumer_close(&consumer);
    assert_int_equal(last_stored(stage.peer), 1);
    stage_down(&stage);
    deliveries_free(&keeper.deliveries);
}

static void a_kept_delivery_outlives_its_consumer(void **state)
{
    (void)state;
    struct stage stage;
    struct keeper keeper = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = keeping_consumer(&stage, &keeper);
    peer_deliver(stage.peer, "s", 0, 2);
    deliveries_wait(&keeper.deliveries, 2);
    coney_call call = {0};
    assert_int_equal(coney_stream_consumer_close(&consumer, &call), CONEY_OK);
    assert_int_equal(call.value, 1);
    assert_true(bytes_equal(coney_stream_kept_delivery(keeper.kept[0])->body, CONEY_STR("m1")));
    assert_int_equal(last_stored(stage.peer), 0);
    assert_int_equal(coney_kept_settle(&keeper.kept[0], CONEY_ACK), CONEY_ECLOSED);
    assert_null(keeper.kept[0]);
    stage_down(&stage);
    deliveries_free(&keeper.deliveries);
}

/* Pausing -------------------------------------------------------------------------------------------------------- */

static void between_pause_and_resume_no_handler_starts(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .paused = true};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 5);
    assert_false(deliveries_reach(&deliveries, 1, 30));
    assert_int_equal(coney_stream_consumer_pause(consumer), CONEY_OK);
    assert_int_equal(coney_stream_consumer_resume(consumer), CONEY_OK);
    assert_int_equal(coney_stream_consumer_resume(consumer), CONEY_OK);
    deliveries_wait(&deliveries, 5);
    assert_int_equal(coney_stream_consumer_pause(consumer), CONEY_OK);
    peer_deliver(stage.peer, "s", 5, 5);
    assert_false(deliveries_reach(&deliveries, 6, 30));
    coney_stream_consumer_resume(consumer);
    deliveries_wait(&deliveries, 10);
    deliveries_are_numbered(&deliveries, 0, 10);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void pause_itself(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    (void)ctx;
    if (nth == 2)
        coney_stream_consumer_pause(delivery->consumer);
}

static void pausing_inside_a_handler_takes_effect_after_it(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {.also = pause_itself};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 6);
    deliveries_wait(&deliveries, 3);
    assert_false(deliveries_reach(&deliveries, 4, 30));
    coney_stream_consumer_resume(consumer);
    deliveries_wait(&deliveries, 6);
    deliveries_are_numbered(&deliveries, 0, 6);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Chunks a call -------------------------------------------------------------------------------------------------- */

struct chunks {
    struct deliveries deliveries;
    uint64_t first[8], count[8];
    size_t calls;
};

static coney_settle on_chunk(void *ctx, coney_stream_chunk *chunk)
{
    struct chunks *chunks = ctx;
    monitor_lock(&chunks->deliveries.monitor);
    chunks->first[chunks->calls] = coney_stream_chunk_offset(chunk);
    chunks->count[chunks->calls++] = coney_stream_chunk_count(chunk);
    monitor_unlock(&chunks->deliveries.monitor);
    coney_stream_delivery delivery;
    while (coney_stream_chunk_next(chunk, &delivery))
        deliveries_add(&chunks->deliveries, &delivery);
    return CONEY_ACK;
}

static void a_handler_may_take_whole_chunks(void **state)
{
    (void)state;
    struct stage stage;
    struct chunks chunks = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {
        .name = "me", .on_chunk = on_chunk, .ctx = &chunks, .start_if_new = CONEY_STREAM_OFFSET, .start_offset = 12};
    coney_stream_consumer *consumer = coney_stream_consumer_open(stage.env, "s", &options, NULL);
    assert_non_null(consumer);
    peer_deliver(stage.peer, "s", 10, 5);
    peer_deliver(stage.peer, "s", 15, 5);
    deliveries_wait(&chunks.deliveries, 8);
    consumer_close(&consumer);
    deliveries_are_numbered(&chunks.deliveries, 12, 8);
    assert_int_equal(chunks.calls, 2);
    assert_int_equal(chunks.first[0], 10);
    assert_int_equal(chunks.count[0], 5);
    assert_int_equal(last_stored(stage.peer), 19);
    stage_down(&stage);
    deliveries_free(&chunks.deliveries);
}

static void record_last(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    (void)nth;
    uint64_t *last = ctx;
    if (delivery->last_of_chunk)
        *last |= UINT64_C(1) << delivery->offset;
}

static void the_last_message_of_a_chunk_says_so(void **state)
{
    (void)state;
    struct stage stage;
    uint64_t last = 0;
    struct deliveries deliveries = {.also = record_last, .also_ctx = &last};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 10, 5);
    peer_deliver(stage.peer, "s", 15, 1);
    peer_deliver(stage.peer, "s", 16, 5);
    deliveries_wait(&deliveries, 11);
    consumer_close(&consumer);
    assert_int_equal(last, 1 << 14 | 1 << 15 | 1 << 20);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Recovery ------------------------------------------------------------------------------------------------------- */

static void cuts_between_and_inside_chunks_lose_nothing_and_repeat_nothing(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct dice dice = dice_of(4);
    stage_up(&stage);
    peer_feed(stage.peer, "s", 0, 7, 3000);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    for (int cut = 0; cut < 25; cut++) {
        size_t next = deliveries_count(&deliveries) + dice_roll(&dice, 600);
        if (next > 21000)
            next = 21000;
        deliveries_wait(&deliveries, next);
        peer_cut(stage.peer, PEER_ALL, dice_roll(&dice, 2) == 0 ? PEER_RST : PEER_FIN);
    }
    deliveries_wait(&deliveries, 21000);
    consumer_close(&consumer);
    deliveries_are_numbered(&deliveries, 0, 21000);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_stream_deleted_under_a_consumer_ends_it_with_an_event(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    assert_int_equal(coney_stream_delete(stage.env, "s", NULL), CONEY_OK);
    events_wait(&stage.events, CONEY_EVENT_STREAM_GONE, 0);
    struct event event = events_wait(&stage.events, CONEY_EVENT_GAVE_UP, 0);
    assert_int_equal(event.status, CONEY_ENOTFOUND);
    assert_string_equal(event.name, "s");
    assert_ptr_equal(event.handle, consumer);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Two consumers of one name -------------------------------------------------------------------------------------- */

static void SB_23_after_closing_one_the_next_of_the_same_name_gets_the_messages_and_late_ones_are_dropped(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries first = {0}, second = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.name = "A", .start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &first, &options);
    struct stream_subscribe old = peer_expect(stage.peer, STREAM_SUBSCRIBE)->frame.subscribe;
    int link = peer_consumer_connection(stage.peer, "s");
    consumer_close(&consumer);
    /* A late chunk for the old subscription, whether its id is free or taken anew. */
    size_t len;
    uint8_t *bytes = peer_make_chunk(&(struct peer_chunk){.first = 0, .count = 1}, &len);
    struct stream_frame late = {.key = STREAM_DELIVER, .version = 1};
    late.deliver.subscription = old.subscription;
    late.deliver.chunk = coney_bytes_of(bytes, len);
    peer_send(stage.peer, link, &late);
    free(bytes);
    consumer = stage_consumer(&stage, "s", &second, &options);
    peer_deliver(stage.peer, "s", 1, 3);
    deliveries_wait(&second, 3);
    consumer_close(&consumer);
    assert_int_equal(deliveries_count(&first), 0);
    deliveries_are_numbered(&second, 1, 3);
    stage_down(&stage);
    deliveries_free(&first);
    deliveries_free(&second);
}

/* Threads of their own ------------------------------------------------------------------------------------------- */

static void handlers_on_threads_of_their_own_run_at_the_same_time(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries[2] = {{.closed_gate = true}, {.closed_gate = true}};
    coney_stream_consumer *consumers[2];
    static const char *const streams[] = {"one", "two"};
    const coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .own_thread = true};
    stage_up(&stage);
    for (int i = 0; i < 2; i++) {
        consumers[i] = stage_consumer(&stage, streams[i], &deliveries[i], &options);
        peer_deliver(stage.peer, streams[i], 0, 5);
    }
    for (int i = 0; i < 2; i++)
        deliveries_wait_at_gate(&deliveries[i]);
    for (int i = 0; i < 2; i++) {
        deliveries_open_gate(&deliveries[i]);
        deliveries_wait(&deliveries[i], 5);
        deliveries_are_numbered(&deliveries[i], 0, 5);
        consumer_close(&consumers[i]);
    }
    stage_down(&stage);
    for (int i = 0; i < 2; i++)
        deliveries_free(&deliveries[i]);
}

static void close_itself(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    (void)nth;
    coney_stream_consumer *consumer = delivery->consumer;
    coney_stream_consumer_close(&consumer, waited_call_of(ctx, 0));
}

static void a_handler_on_its_own_thread_may_close_its_consumer(void **state)
{
    (void)state;
    struct stage stage;
    struct waited_call ended = {0};
    struct deliveries deliveries = {.also = close_itself, .also_ctx = &ended};
    stage_up(&stage);
    const coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .own_thread = true};
    (void)stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 5);
    assert_int_equal(waited_call_wait(&ended), CONEY_OK);
    assert_int_equal(deliveries_count(&deliveries), 1);
    stage_down(&stage);
    deliveries_free(&deliveries);
    waited_call_free(&ended);
}

static void options_that_exclude_each_other_are_refused(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    const coney_stream_consumer_options odd[] = {
        {.ctx = &deliveries},
        {.ctx = &deliveries, .on_message = deliveries_add, .on_chunk = on_chunk},
        {.ctx = &deliveries, .on_message = deliveries_add, .credit = 40000},
        {.ctx = &deliveries, .on_message = deliveries_add, .credit = -4},
        {.ctx = &deliveries, .on_message = deliveries_add, .start_if_new = (coney_stream_start)9},
        {.ctx = &deliveries, .on_message = deliveries_add, .on_loop = true, .own_thread = true},
        {.ctx = &deliveries, .on_message = deliveries_add, .reserved_number = 1},
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        coney_call call = {0};
        coney_stream_consumer *consumer = coney_stream_consumer_open(stage.env, "s", &odd[i], &call);
        if (consumer != NULL || call.status != CONEY_EINVAL)
            fail_msg("options %zu give %s", i, coney_status_name(call.status));
        assert_true(call.text[0] != '\0');
    }
    assert_int_equal(peer_count(stage.peer, STREAM_SUBSCRIBE), 0);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_start_has_its_form_on_the_wire),
        cmocka_unit_test(SB_01_a_consumer_at_offset_45_sees_nothing_older),
        cmocka_unit_test(an_offset_beyond_the_end_means_what_is_published_next),
        cmocka_unit_test(SB_06_a_consumer_that_got_nothing_begins_again_at_next),
        cmocka_unit_test(SB_06_where_the_broker_can_say_where_next_is_nothing_is_skipped_by_a_cut),
        cmocka_unit_test(SB_07_a_message_in_hand_at_a_cut_is_neither_lost_nor_seen_twice_and_holds_the_stored_offset),
        cmocka_unit_test(a_chunk_that_arrives_again_after_a_cut_is_not_handed_over_again),
        cmocka_unit_test(SB_08_a_timestamp_start_hands_over_whole_chunks_with_their_time),
        cmocka_unit_test(SB_09_last_hands_over_the_whole_last_chunk_also_on_a_reused_subscription_id),
        cmocka_unit_test(SB_13_a_name_without_a_stored_offset_begins_as_asked),
        cmocka_unit_test(a_name_with_a_stored_offset_begins_after_it),
        cmocka_unit_test(with_start_always_what_is_stored_does_not_count),
        cmocka_unit_test(a_failed_offset_query_fails_the_open),
        cmocka_unit_test(SB_11_offsets_are_stored_by_time_while_messages_keep_coming),
        cmocka_unit_test(offsets_are_stored_by_count),
        cmocka_unit_test(SB_12_at_close_the_offset_is_stored_also_beyond_2_to_the_63),
        cmocka_unit_test(SB_12_nothing_done_stores_nothing_and_nothing_is_stored_twice),
        cmocka_unit_test(by_hand_only_the_user_stores),
        cmocka_unit_test(a_requeued_message_comes_again_at_once_and_later_ones_wait),
        cmocka_unit_test(a_retried_message_comes_again_after_its_time_and_later_ones_wait),
        cmocka_unit_test(a_rejected_message_is_done_and_counted),
        cmocka_unit_test(a_kept_delivery_stays_readable_and_holds_the_stored_offset),
        cmocka_unit_test(a_kept_delivery_that_is_requeued_comes_again),
        cmocka_unit_test(a_kept_delivery_outlives_its_consumer),
        cmocka_unit_test(between_pause_and_resume_no_handler_starts),
        cmocka_unit_test(pausing_inside_a_handler_takes_effect_after_it),
        cmocka_unit_test(a_handler_may_take_whole_chunks),
        cmocka_unit_test(the_last_message_of_a_chunk_says_so),
        cmocka_unit_test(cuts_between_and_inside_chunks_lose_nothing_and_repeat_nothing),
        cmocka_unit_test(a_stream_deleted_under_a_consumer_ends_it_with_an_event),
        cmocka_unit_test(SB_23_after_closing_one_the_next_of_the_same_name_gets_the_messages_and_late_ones_are_dropped),
        cmocka_unit_test(handlers_on_threads_of_their_own_run_at_the_same_time),
        cmocka_unit_test(a_handler_on_its_own_thread_may_close_its_consumer),
        cmocka_unit_test(options_that_exclude_each_other_are_refused),
    };
    return run_tests(tests);
}
