/* Chunks as they arrive: versions, batches, checksums, sizes, and everything that can be wrong with them. */
#define _GNU_SOURCE
#include "proxy.h"
#include "stage.h"

#include "proto/amqp10/data.h"

/* A chunk under construction: the writer's buffer, finished and sent. */
struct work {
    uint8_t bytes[4096];
    struct chunk_writer w;
};

static void work_begin(struct work *work, uint64_t first)
{
    work->w = chunk_begin(work->bytes, sizeof work->bytes, CHUNK_USER, 1700000000000, 1, first);
}

static coney_bytes work_finish(struct work *work)
{
    size_t len = chunk_finish(&work->w, peer_crc(chunk_data(&work->w)));
    assert_true(len > 0);
    return coney_bytes_of(work->bytes, len);
}

/* "mN" as an encoded message, in a ring of static memory. */
static coney_bytes entry(uint64_t n)
{
    static uint8_t ring[32][40];
    uint8_t *at = ring[n % 32];
    const uint8_t *end = amqp10_data_write(at, numbered(n));
    return coney_bytes_of(at, (size_t)(end - at));
}

static coney_stream_consumer *reader(struct stage *stage, struct deliveries *deliveries)
{
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    return stage_consumer(stage, "s", deliveries, &options);
}

/* Shapes --------------------------------------------------------------------------------------------------------- */

static void SB_27_a_plain_batch_is_five_messages(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    work_begin(&work, 32);
    coney_bytes five[5];
    for (size_t i = 0; i < 5; i++)
        five[i] = entry(32 + i);
    chunk_add_batch(&work.w, five, 5);
    peer_deliver_bytes(stage.peer, "s", work_finish(&work));
    deliveries_wait(&deliveries, 5);
    deliveries_are_numbered(&deliveries, 32, 5);
    assert_string_equal(deliveries_of(&deliveries, 4).body, "m36");
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void batches_and_single_messages_mix(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    work_begin(&work, 0);
    coney_bytes two[2] = {entry(1), entry(2)};
    chunk_add(&work.w, entry(0));
    chunk_add_batch(&work.w, two, 2);
    chunk_add(&work.w, entry(3));
    peer_deliver_bytes(stage.peer, "s", work_finish(&work));
    peer_deliver(stage.peer, "s", 4, 1);
    deliveries_wait(&deliveries, 5);
    deliveries_are_in_order(&deliveries, 0, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(deliveries_of(&deliveries, i).body[1], '0' + (int)i);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_compressed_batch_is_an_event_and_the_next_message_comes(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    work_begin(&work, 10);
    chunk_add(&work.w, entry(10));
    chunk_add_raw_batch(&work.w, 1, 5, 60, CONEY_STR("not really gzip"));
    chunk_add(&work.w, entry(16));
    peer_deliver_bytes(stage.peer, "s", work_finish(&work));
    struct event event = events_wait(&stage.events, CONEY_EVENT_UNREADABLE_ENTRY, 0);
    assert_int_equal(event.offset, 11);
    assert_int_equal(event.status, CONEY_EUNSUPPORTED);
    assert_ptr_equal(event.handle, consumer);
    deliveries_wait(&deliveries, 2);
    assert_int_equal(deliveries_of(&deliveries, 0).offset, 10);
    assert_int_equal(deliveries_of(&deliveries, 1).offset, 16);
    coney_stream_consumer_stats stats;
    coney_stream_consumer_get_stats(consumer, &stats);
    assert_true(stats.unreadable >= 1);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void gaps_between_chunks_are_no_fault(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    peer_deliver(stage.peer, "s", 0, 2);
    peer_deliver(stage.peer, "s", 133, 2);
    deliveries_wait(&deliveries, 4);
    assert_int_equal(deliveries_of(&deliveries, 2).offset, 133);
    consumer_close(&consumer);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_CORRUPT_CHUNK), 0);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_tracking_chunk_is_passed_over_and_gives_its_credit_back(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    work.w = chunk_begin(work.bytes, sizeof work.bytes, CHUNK_TRACKING_DELTA, 1700000000000, 1, 7);
    chunk_add(&work.w, CONEY_STR("\x01\x02me\0\0\0\0\0\0\0\x05"));
    peer_deliver_bytes(stage.peer, "s", work_finish(&work));
    peer_wait_count(stage.peer, STREAM_CREDIT, 1);
    peer_deliver(stage.peer, "s", 8, 1);
    deliveries_wait(&deliveries, 1);
    assert_int_equal(deliveries_of(&deliveries, 0).offset, 8);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_36_both_versions_of_deliver_are_read_and_the_committed_offset_shown(void **state)
{
    (void)state;
    static const uint8_t chunk[] = {
        0x50, 0,    0,    4,    0,    0,    0,    4,    0,    0,    0x01, 0x8b, 0xcf, 0xe5, 0x68,
        0,    0,    0,    0,    0,    0,    0,    0,    1,    0,    0,    0,    0,    0,    0,
        0,    32,   0xd9, 0x66, 0xa1, 0x43, 0,    0,    0,    0x30, 0,    0,    0,    0,    16 /* bloom size */,
        0,    0,    0,    0,    0,    0,    8,    0,    0x53, 0x75, 0xa0, 3,    'm',  '3',  '2',
        0,    0,    0,    8,    0,    0x53, 0x75, 0xa0, 3,    'm',  '3',  '3',  0,    0,    0,
        8,    0,    0x53, 0x75, 0xa0, 3,    'm',  '3',  '4',  0,    0,    0,    8,    0,    0x53,
        0x75, 0xa0, 3,    'm',  '3',  '5'};
    for (uint16_t version = 1; version <= 2; version++) {
        struct stage stage;
        struct deliveries deliveries = {0};
        stage_up(&stage);
        coney_stream_consumer *consumer = reader(&stage, &deliveries);
        struct stream_frame frame = {.key = STREAM_DELIVER, .version = version};
        frame.deliver.subscription = peer_expect(stage.peer, STREAM_SUBSCRIBE)->frame.subscribe.subscription;
        frame.deliver.committed = version == 2 ? 31 : 0;
        frame.deliver.chunk = coney_bytes_of(chunk, sizeof chunk);
        peer_send(stage.peer, peer_consumer_connection(stage.peer, "s"), &frame);
        deliveries_wait(&deliveries, 4);
        deliveries_are_in_order(&deliveries, 32, 4);
        assert_string_equal(deliveries_of(&deliveries, 3).body, "m35");
        assert_int_equal(deliveries_of(&deliveries, 0).timestamp, 1700000000000);
        assert_int_equal(deliveries_of(&deliveries, 0).committed, version == 2 ? 31 : 0);
        consumer_close(&consumer);
        stage_down(&stage);
        deliveries_free(&deliveries);
    }
}

static void SB_35_two_chunks_in_one_read_and_a_chunk_in_many_reads_pass_their_checks(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    int link = peer_consumer_connection(stage.peer, "s");
    uint8_t id = peer_expect(stage.peer, STREAM_SUBSCRIBE)->frame.subscribe.subscription;
    uint8_t both[2048];
    size_t len = 0;
    for (uint64_t first = 0; first < 4; first += 2) {
        work_begin(&work, first);
        chunk_add(&work.w, entry(first));
        chunk_add(&work.w, entry(first + 1));
        struct stream_frame frame = {.key = STREAM_DELIVER, .version = 1};
        frame.deliver.subscription = id;
        frame.deliver.chunk = work_finish(&work);
        len += stream_encode(&frame, both + len, sizeof both - len);
    }
    peer_send_bytes(stage.peer, link, coney_bytes_of(both, len));
    deliveries_wait(&deliveries, 4);
    for (size_t i = 0; i < len; i++) { /* byte by byte; offsets repeat, so nothing new is handed over until the next */
        peer_send_bytes(stage.peer, link, coney_bytes_of(both + i, 1));
        if (i % 16 == 0)
            assert_int_equal(coney_stream_exists(stage.env, "s", &(coney_call){0}), CONEY_OK);
    }
    peer_deliver(stage.peer, "s", 100, 1);
    deliveries_reach(&deliveries, 9, 2000);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_CORRUPT_CHUNK), 0);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_int_equal(deliveries_of(&deliveries, deliveries_count(&deliveries) - 1).offset, 100);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Checksums ------------------------------------------------------------------------------------------------------ */

static void SB_34_a_broken_chunk_names_its_offset_is_not_handed_over_and_is_asked_for_again(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    peer_expect(stage.peer, STREAM_SUBSCRIBE);
    peer_deliver(stage.peer, "s", 0, 5);
    deliveries_wait(&deliveries, 5);
    assert_true(peer_deliver_chunk(stage.peer, "s", &(struct peer_chunk){.first = 5, .count = 5, .wrong_crc = true}));
    struct event event = events_wait(&stage.events, CONEY_EVENT_CORRUPT_CHUNK, 0);
    assert_int_equal(event.offset, 5);
    assert_int_equal(event.status, CONEY_ECORRUPT);
    const struct stream_subscribe *again = &peer_expect(stage.peer, STREAM_SUBSCRIBE)->frame.subscribe;
    assert_int_equal(again->offset.type, STREAM_OFFSET_OFFSET);
    assert_int_equal(again->offset.value, 5);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    peer_deliver(stage.peer, "s", 5, 5);
    deliveries_wait(&deliveries, 10);
    deliveries_are_numbered(&deliveries, 0, 10);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_34_the_same_chunk_broken_twice_ends_the_consumer_instead_of_looping(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    const struct peer_chunk broken = {.first = 5, .count = 5, .wrong_crc = true};
    assert_true(peer_deliver_chunk(stage.peer, "s", &broken));
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_true(peer_deliver_chunk(stage.peer, "s", &broken));
    struct event event = events_wait(&stage.events, CONEY_EVENT_GAVE_UP, 0);
    assert_int_equal(event.status, CONEY_ECORRUPT);
    assert_ptr_equal(event.handle, consumer);
    assert_int_equal(deliveries_count(&deliveries), 0);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_34_the_check_can_be_left_out(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .skip_crc = true};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    assert_true(peer_deliver_chunk(stage.peer, "s", &(struct peer_chunk){.first = 5, .count = 5, .wrong_crc = true}));
    deliveries_wait(&deliveries, 5);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_bit_flipped_on_the_way_is_found_and_the_messages_come_whole(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_set(&stage);
    struct proxy *proxy = proxy_start("127.0.0.1", peer_port(stage.peer));
    stage.options.resolve_address = proxy_resolve;
    stage.options.resolver_ctx = proxy;
    stage_open(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    for (size_t i = 0; i < 4; i++) {
        proxy_corrupt_chunks(proxy, 1); /* never two at once: a chunk that is broken twice ends the consumer */
        peer_feed(stage.peer, "s", i * 500, 10, 50);
        deliveries_wait(&deliveries, (i + 1) * 500);
    }
    deliveries_are_numbered(&deliveries, 0, 2000);
    coney_stream_consumer_stats stats;
    assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_int_equal(stats.unreadable, 4);
    consumer_close(&consumer);
    coney_stream_env_close(&stage.env, NULL);
    proxy_stop(&proxy);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Nonsense ------------------------------------------------------------------------------------------------------- */

static void SB_70_a_hostile_message_is_unreadable_and_the_next_one_comes(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    work_begin(&work, 0);
    chunk_add(&work.w, CONEY_STR("\0Sw\xf0\0\0\0\x05\x7f\xff\xff\xff\x40"));    /* array32 of 2^31-1 nulls */
    chunk_add(&work.w, CONEY_STR("\0Sr\xc1\x04\x03\x40\x40\x40\0Su\xa0\x01x")); /* a map with an odd count */
    chunk_add(&work.w, CONEY_STR("\0Su\xb0\x7f\xff\xff\xffxx"));                /* a size past the entry's end */
    chunk_add(&work.w, CONEY_STR("\xff\xff"));
    chunk_add(&work.w, CONEY_STR(""));
    chunk_add(&work.w, entry(5));
    peer_deliver_bytes(stage.peer, "s", work_finish(&work));
    deliveries_wait(&deliveries, 6);
    deliveries_are_in_order(&deliveries, 0, 6);
    assert_int_equal(deliveries_of(&deliveries, 2).kind, CONEY_BODY_UNREADABLE);
    assert_int_equal(deliveries_of(&deliveries, 3).kind, CONEY_BODY_UNREADABLE);
    assert_int_equal(deliveries_of(&deliveries, 3).body_len, 2);
    assert_string_equal(deliveries_of(&deliveries, 5).body, "m5");
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void bodies_of_other_kinds_are_handed_over_with_their_kind(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    work_begin(&work, 0);
    chunk_add(&work.w, CONEY_STR("\0Sw\xa1\x01"
                                 "A"));
    chunk_add(&work.w, CONEY_STR("\0Su\xa0\x02"
                                 "ab\0Su\xa0\x01"
                                 "c"));
    chunk_add(&work.w, CONEY_STR("\0Ss\xc0\x01\0"));
    chunk_add(&work.w, CONEY_STR("\0Sr\xc1\x18\x02\xa3\x13x-dotnet-pub-seq-noU\x05\0Su\xa0\x01x"));
    peer_deliver_bytes(stage.peer, "s", work_finish(&work));
    deliveries_wait(&deliveries, 4);
    assert_int_equal(deliveries_of(&deliveries, 0).kind, CONEY_BODY_VALUE);
    assert_int_equal(deliveries_of(&deliveries, 1).kind, CONEY_BODY_PARTS);
    assert_int_equal(deliveries_of(&deliveries, 2).kind, CONEY_BODY_NONE);
    assert_int_equal(deliveries_of(&deliveries, 3).kind, CONEY_BODY_DATA);
    assert_string_equal(deliveries_of(&deliveries, 3).body, "x");
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_batch_that_is_wrong_inside_is_an_event_and_the_next_message_comes(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct work work;
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    work_begin(&work, 0);
    chunk_add_raw_batch(&work.w, 0, 5, 12, CONEY_STR("\0\0\0\x02h0\0\0\0\x02h1")); /* two records where five are claimed */
    chunk_add(&work.w, entry(5));
    peer_deliver_bytes(stage.peer, "s", work_finish(&work));
    events_wait(&stage.events, CONEY_EVENT_UNREADABLE_ENTRY, 0);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (now_ms() < until &&
           (deliveries_count(&deliveries) == 0 || deliveries_of(&deliveries, deliveries_count(&deliveries) - 1).offset != 5))
        deliveries_reach(&deliveries, deliveries_count(&deliveries) + 1, 1000);
    assert_int_equal(deliveries_of(&deliveries, deliveries_count(&deliveries) - 1).offset, 5);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void random_bytes_for_a_chunk_never_hang_nor_crash(void **state)
{
    (void)state;
    struct stage stage;
    struct dice dice = dice_of(9);
    stage_set(&stage);
    stage.options.recovery_delay = CONEY_MILLISECOND;
    stage.options.recovery_max_delay = 2 * CONEY_MILLISECOND;
    stage_open(&stage);
    for (int round = 0; round < 150; round++) {
        struct deliveries deliveries = {0};
        coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .skip_crc = dice_roll(&dice, 2) == 0};
        coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
        size_t len;
        uint8_t *bytes = peer_make_chunk(&(struct peer_chunk){.first = 10, .count = 1 + dice_roll(&dice, 20)}, &len);
        for (size_t flips = 1 + dice_roll(&dice, 4); flips > 0; flips--)
            bytes[dice_roll(&dice, len)] = (uint8_t)dice_roll(&dice, 256);
        size_t cut = dice_roll(&dice, 3) == 0 ? dice_roll(&dice, len) : 0;
        peer_deliver_bytes(stage.peer, "s", coney_bytes_of(bytes, len - cut));
        free(bytes);
        assert_int_equal(coney_stream_exists(stage.env, "s", &(coney_call){0}), CONEY_OK);
        consumer_close(&consumer);
        deliveries_free(&deliveries);
    }
    stage_down(&stage);
}

/* Sizes ---------------------------------------------------------------------------------------------------------- */

/* One message of `len` bytes, in a chunk. */
static void deliver_large(struct peer *peer, uint64_t first, size_t len)
{
    uint8_t *body = calloc(1, len + 8);
    assert_non_null(body);
    store32(body, AMQP10_DATA_LONG);
    store32(body + 4, (uint32_t)len);
    coney_bytes large = {body, len + 8};
    assert_true(peer_deliver_chunk(peer, "s", &(struct peer_chunk){.first = first, .entries = &large, .count = 1}));
    free(body);
}

static void SB_73_a_chunk_above_frame_max_is_accepted(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    deliver_large(stage.peer, 0, 1500000);
    peer_deliver(stage.peer, "s", 1, 1);
    deliveries_wait(&deliveries, 2);
    deliveries_are_in_order(&deliveries, 0, 2);
    assert_int_equal(deliveries_of(&deliveries, 0).body_len, 1500000);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_73_a_chunk_above_max_chunk_is_a_clear_event_and_not_a_quick_loop(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_set(&stage);
    stage.options.max_chunk = 100000;
    stage.options.recovery_delay = 50 * CONEY_MILLISECOND;
    stage_open(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    int64_t before = now_ms();
    for (size_t i = 0; i < 4; i++) {
        peer_wait_count(stage.peer, STREAM_SUBSCRIBE, i + 1);
        if (events_count(&stage.events, CONEY_EVENT_GAVE_UP) > 0)
            break;
        if (peer_subscriptions(stage.peer, "s") > 0)
            deliver_large(stage.peer, 0, 150000);
        if (!peer_reaches_count(stage.peer, STREAM_SUBSCRIBE, i + 2, 2000))
            break;
    }
    assert_int_equal(deliveries_count(&deliveries), 0);
    bool gave_up = events_count(&stage.events, CONEY_EVENT_GAVE_UP) > 0;
    assert_true(gave_up || now_ms() - before >= 100); /* an end, or attempts with pauses between them */
    if (!events_say(&stage.events, "max_chunk")) {
        events_print(&stage.events);
        fail_msg("no event names max_chunk");
    }
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void SB_73_a_close_for_a_frame_too_large_advises_a_larger_frame_max(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_consumer *consumer = reader(&stage, &deliveries);
    peer_send_close(stage.peer, peer_consumer_connection(stage.peer, "s"), STREAM_CODE_FRAME_TOO_LARGE, "frame too large");
    struct event event = events_wait(&stage.events, CONEY_EVENT_SERVER_CLOSE, 0);
    assert_int_equal(event.code, STREAM_CODE_FRAME_TOO_LARGE);
    assert_says(event.text, "frame_max");
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_27_a_plain_batch_is_five_messages),
        cmocka_unit_test(batches_and_single_messages_mix),
        cmocka_unit_test(a_compressed_batch_is_an_event_and_the_next_message_comes),
        cmocka_unit_test(gaps_between_chunks_are_no_fault),
        cmocka_unit_test(a_tracking_chunk_is_passed_over_and_gives_its_credit_back),
        cmocka_unit_test(SB_36_both_versions_of_deliver_are_read_and_the_committed_offset_shown),
        cmocka_unit_test(SB_35_two_chunks_in_one_read_and_a_chunk_in_many_reads_pass_their_checks),
        cmocka_unit_test(SB_34_a_broken_chunk_names_its_offset_is_not_handed_over_and_is_asked_for_again),
        cmocka_unit_test(SB_34_the_same_chunk_broken_twice_ends_the_consumer_instead_of_looping),
        cmocka_unit_test(SB_34_the_check_can_be_left_out),
        cmocka_unit_test(a_bit_flipped_on_the_way_is_found_and_the_messages_come_whole),
        cmocka_unit_test(SB_70_a_hostile_message_is_unreadable_and_the_next_one_comes),
        cmocka_unit_test(bodies_of_other_kinds_are_handed_over_with_their_kind),
        cmocka_unit_test(a_batch_that_is_wrong_inside_is_an_event_and_the_next_message_comes),
        cmocka_unit_test(random_bytes_for_a_chunk_never_hang_nor_crash),
        cmocka_unit_test(SB_73_a_chunk_above_frame_max_is_accepted),
        cmocka_unit_test(SB_73_a_chunk_above_max_chunk_is_a_clear_event_and_not_a_quick_loop),
        cmocka_unit_test(SB_73_a_close_for_a_frame_too_large_advises_a_larger_frame_max),
    };
    return run_tests(tests);
}
