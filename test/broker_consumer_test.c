/* Consumers on a real node: where they begin, how they are handed messages, flow, and bodies of every kind. */
#define _GNU_SOURCE
#include "scene.h"
#include "wire.h"

#include <time.h>

static struct node node;

static coney_stream_consumer *consumer_at(struct scene *scene, struct deliveries *deliveries, coney_stream_start start,
                                          uint64_t offset)
{
    coney_stream_consumer_options options = {.start_if_new = start, .start_offset = offset};
    return scene_consumer(scene, deliveries, &options);
}

/* Where to begin -------------------------------------------------------------------------------------------------- */

static void from_the_first_message_on_all_come_in_order(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 5000);
    coney_stream_consumer *consumer = consumer_at(&scene, &deliveries, CONEY_STREAM_FIRST, 0);
    deliveries_wait(&deliveries, 5000);
    scene_fill(&scene, 5000, 100);
    deliveries_wait(&deliveries, 5100);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 0, 5100);
    deliveries_are_in_order(&deliveries, 0, 5100);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_01_from_an_offset_inside_a_chunk_nothing_older_comes(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, NULL, NULL);
    coney_bytes bodies[64];
    char texts[64][8];
    for (size_t i = 0; i < 64; i++)
        bodies[i] = coney_bytes_of(texts[i], (size_t)snprintf(texts[i], sizeof texts[i], "m%zu", i));
    for (size_t round = 0; round < 4; round++)
        assert_int_equal(coney_stream_send_batch(producer, bodies, 64, 0, NULL), CONEY_OK);
    producer_close(&producer);
    static const uint64_t offsets[] = {0, 1, 45, 63, 64, 65, 200, 255};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct deliveries deliveries = {0};
        coney_stream_consumer *consumer = consumer_at(&scene, &deliveries, CONEY_STREAM_OFFSET, offsets[i]);
        deliveries_wait(&deliveries, 256 - offsets[i]);
        consumer_close(&consumer);
        deliveries_are_in_order(&deliveries, offsets[i], 256 - offsets[i]);
        deliveries_free(&deliveries);
    }
    scene_down(&scene);
}

static void from_next_only_what_is_published_afterwards_comes(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 1000);
    coney_stream_consumer *consumer = consumer_at(&scene, &deliveries, CONEY_STREAM_NEXT, 0);
    scene_fill(&scene, 1000, 50);
    deliveries_wait(&deliveries, 50);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 1000, 50);
    deliveries_are_in_order(&deliveries, 1000, 50);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_09_from_last_the_whole_last_chunk_comes(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    if (!scene_has_statistics(&scene)) {
        scene_down(&scene);
        skip();
    }
    scene_fill(&scene, 0, 1000);
    coney_stream_stats stats;
    assert_int_equal(coney_stream_get_stats(scene.env, scene.stream, &stats, NULL), CONEY_OK);
    coney_stream_consumer *consumer = consumer_at(&scene, &deliveries, CONEY_STREAM_LAST, 0);
    size_t count = (size_t)(1000 - stats.committed_chunk_offset);
    deliveries_wait(&deliveries, count);
    consumer_close(&consumer);
    deliveries_are_in_order(&deliveries, (uint64_t)stats.committed_chunk_offset, count);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void an_offset_that_is_not_there_yet_begins_with_what_comes(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 10);
    coney_stream_consumer *consumer = consumer_at(&scene, &deliveries, CONEY_STREAM_OFFSET, 1000000);
    scene_fill(&scene, 10, 10);
    deliveries_wait(&deliveries, 10);
    consumer_close(&consumer);
    deliveries_are_in_order(&deliveries, 10, 10);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_08_from_a_time_whole_chunks_come_from_the_first_that_is_not_older(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries all = {0};
    scene_up(&scene, node.uri);
    for (uint64_t round = 0; round < 5; round++)
        scene_fill(&scene, round * 20, 20);
    coney_stream_consumer *consumer = consumer_at(&scene, &all, CONEY_STREAM_FIRST, 0);
    deliveries_wait(&all, 100);
    consumer_close(&consumer);
    int64_t time = deliveries_of(&all, 60).timestamp;
    size_t first = 0;
    while (deliveries_of(&all, first).timestamp < time)
        first++;
    struct deliveries later = {0};
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_TIMESTAMP, .start_time = time};
    consumer = scene_consumer(&scene, &later, &options);
    deliveries_wait(&later, 100 - first);
    consumer_close(&consumer);
    deliveries_are_in_order(&later, first, 100 - first);
    deliveries_free(&later);
    options.start_time = -1;
    consumer = scene_consumer(&scene, &later, &options);
    deliveries_wait(&later, 100);
    consumer_close(&consumer);
    deliveries_are_in_order(&later, 0, 100);
    deliveries_free(&all);
    deliveries_free(&later);
    scene_down(&scene);
}

/* Chunks and credit ----------------------------------------------------------------------------------------------- */

struct chunks {
    struct deliveries messages;
    size_t handled;
    uint64_t counted;
};

static coney_settle take_chunk(void *ctx, coney_stream_chunk *chunk)
{
    struct chunks *chunks = ctx;
    coney_stream_delivery delivery;
    uint64_t expected = coney_stream_chunk_offset(chunk);
    chunks->handled++;
    chunks->counted += coney_stream_chunk_count(chunk);
    while (coney_stream_chunk_next(chunk, &delivery)) {
        if (delivery.offset != expected++)
            fail_msg("a chunk jumps to offset %llu", (unsigned long long)delivery.offset);
        deliveries_add(&chunks->messages, &delivery);
    }
    return CONEY_ACK;
}

static void a_handler_may_take_chunks_instead_of_messages(void **state)
{
    (void)state;
    struct scene scene;
    struct chunks chunks = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 20000);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .on_chunk = take_chunk, .ctx = &chunks};
    coney_stream_consumer *consumer = scene_consumer(&scene, NULL, &options);
    deliveries_wait(&chunks.messages, 20000);
    coney_stream_consumer_stats stats;
    assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_int_equal(stats.chunks, chunks.handled);
    consumer_close(&consumer);
    bodies_are_in_order(&chunks.messages, 0, 20000);
    assert_int_equal(chunks.counted, 20000);
    assert_true(chunks.handled < 20000);
    deliveries_free(&chunks.messages);
    scene_down(&scene);
}

static void credit_by_hand_lets_as_many_chunks_through_as_were_asked_for(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    for (uint64_t i = 0; i < 20; i++) /* a chunk each */
        scene_fill(&scene, i, 1);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 2, .credit_by_hand = true};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
    deliveries_wait(&deliveries, 2);
    /* An answer that comes behind whatever the broker would have sent. */
    assert_int_equal(coney_stream_query_offset(scene.env, scene.stream, "x", &(coney_call){0}), CONEY_ENOOFFSET);
    assert_int_equal(deliveries_count(&deliveries), 2);
    assert_int_equal(coney_stream_consumer_credit(consumer, 0), CONEY_EINVAL);
    assert_int_equal(coney_stream_consumer_credit(consumer, 32768), CONEY_EINVAL);
    assert_int_equal(coney_stream_consumer_credit(consumer, 3), CONEY_OK);
    deliveries_wait(&deliveries, 5);
    assert_int_equal(coney_stream_query_offset(scene.env, scene.stream, "x", &(coney_call){0}), CONEY_ENOOFFSET);
    assert_int_equal(deliveries_count(&deliveries), 5);
    assert_int_equal(coney_stream_consumer_credit(consumer, 32767), CONEY_OK);
    deliveries_wait(&deliveries, 20);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 0, 20);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_16_credit_may_go_back_for_several_chunks_at_a_time(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    for (uint64_t i = 0; i < 100; i++)
        scene_fill(&scene, i, 1);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .credit = 10, .credit_every = 5};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
    deliveries_wait(&deliveries, 100);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 0, 100);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

/* Pause, resume, close -------------------------------------------------------------------------------------------- */

static void a_paused_consumer_hands_nothing_over_until_it_is_resumed(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 100);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .paused = true};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
    coney_stream_consumer_stats stats = {0};
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (stats.queued_chunks == 0 && now_ms() < until)
        assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_true(stats.queued_chunks > 0);
    assert_int_equal(deliveries_count(&deliveries), 0);
    assert_int_equal(coney_stream_consumer_resume(consumer), CONEY_OK);
    deliveries_wait(&deliveries, 100);
    assert_int_equal(coney_stream_consumer_pause(consumer), CONEY_OK);
    assert_int_equal(coney_stream_consumer_pause(consumer), CONEY_OK);
    scene_fill(&scene, 100, 100);
    assert_int_equal(deliveries_count(&deliveries), 100);
    assert_int_equal(coney_stream_consumer_resume(consumer), CONEY_OK);
    assert_int_equal(coney_stream_consumer_resume(consumer), CONEY_OK);
    deliveries_wait(&deliveries, 200);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 0, 200);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

struct closing {
    struct monitor monitor;
    coney_stream_consumer *consumer;
    uint64_t close_at;
    coney_status status;
    size_t after;
    bool closed;
};

static coney_settle close_in_handler(void *ctx, const coney_stream_delivery *delivery)
{
    struct closing *closing = ctx;
    monitor_lock(&closing->monitor);
    closing->after += closing->closed;
    bool now = delivery->offset == closing->close_at;
    monitor_unlock(&closing->monitor);
    if (!now)
        return CONEY_ACK;
    coney_status status = coney_stream_consumer_close(&closing->consumer, NULL);
    monitor_lock(&closing->monitor);
    closing->status = status;
    closing->closed = true;
    monitor_broadcast(&closing->monitor);
    monitor_unlock(&closing->monitor);
    return CONEY_ACK;
}

static void SB_21_a_consumer_closed_inside_its_handler_is_called_no_more(void **state)
{
    (void)state;
    struct scene scene;
    struct closing closing = {.close_at = 100, .status = CONEY_EINVAL};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 10000);
    coney_stream_consumer_options options = {
        .start_if_new = CONEY_STREAM_FIRST, .on_message = close_in_handler, .ctx = &closing, .paused = true};
    closing.consumer = scene_consumer(&scene, NULL, &options);
    assert_int_equal(coney_stream_consumer_resume(closing.consumer), CONEY_OK);
    monitor_lock(&closing.monitor);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (!closing.closed && monitor_wait(&closing.monitor, until)) {
    }
    assert_true(closing.closed);
    monitor_unlock(&closing.monitor);
    assert_int_equal(closing.status, CONEY_OK);
    assert_null(closing.consumer);
    scene_down(&scene);
    assert_int_equal(closing.after, 0);
    monitor_free(&closing.monitor);
}

/* Bodies ---------------------------------------------------------------------------------------------------------- */

static void a_body_of_several_data_sections_a_value_or_lists_is_told_apart(void **state)
{
    (void)state;
    static const coney_bytes entries[] = {
        {"\0Su\xa0\x02"
         "ab\0Su\xa0\x01"
         "c",
         13},
        {"\0Sw\xa1\x01"
         "A",
         6},
        {"\0Sv\xc0\x05\x02\x54\x01\xa1\x00", 10},
        {"\0Sp\xc0\x02\x01\x41", 7},
        {"\0Su\xa0\x05plain", 10},
    };
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    struct wire wire;
    wire_open(&wire, node.stream_port);
    struct stream_entry raw[5];
    for (size_t i = 0; i < 5; i++)
        raw[i] = wire_entry(entries[i]);
    wire_publish(&wire, scene.stream, raw, 5);
    wire_close(&wire);
    scene_read_back(&scene, &deliveries);
    assert_int_equal(deliveries_count(&deliveries), 5);
    static const coney_body_kind kinds[] = {CONEY_BODY_PARTS, CONEY_BODY_VALUE, CONEY_BODY_SEQUENCE, CONEY_BODY_NONE,
                                            CONEY_BODY_DATA};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(deliveries_of(&deliveries, i).kind, kinds[i]);
    assert_string_equal(deliveries_of(&deliveries, 4).body, "plain");
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void an_entry_that_is_not_amqp_is_handed_over_as_it_is(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    struct wire wire;
    wire_open(&wire, node.stream_port);
    const struct stream_entry raw[] = {wire_entry(CONEY_STR("just text")), wire_entry(CONEY_STR("")),
                                       wire_entry(CONEY_STR("\0Su\xa0\x09short"))};
    wire_publish(&wire, scene.stream, raw, 3);
    wire_close(&wire);
    scene_read_back(&scene, &deliveries);
    assert_int_equal(deliveries_count(&deliveries), 3);
    assert_int_equal(deliveries_of(&deliveries, 0).kind, CONEY_BODY_UNREADABLE);
    assert_string_equal(deliveries_of(&deliveries, 0).body, "just text");
    assert_int_equal(deliveries_of(&deliveries, 1).body_len, 0);
    assert_int_equal(deliveries_of(&deliveries, 2).kind, CONEY_BODY_UNREADABLE);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_27_a_plain_batch_is_read_as_its_messages(void **state)
{
    (void)state;
    static const char batch[] = "\0\0\0\x07\0Su\xa0\x02m1\0\0\0\x07\0Su\xa0\x02m2\0\0\0\x07\0Su\xa0\x02m3";
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    struct wire wire;
    wire_open(&wire, node.stream_port);
    const struct stream_entry raw[] = {wire_entry(CONEY_STR("\0Su\xa0\x02m0")),
                                       wire_batch(coney_bytes_of(batch, sizeof batch - 1), 3, 0),
                                       wire_entry(CONEY_STR("\0Su\xa0\x02m4"))};
    wire_publish(&wire, scene.stream, raw, 3);
    wire_close(&wire);
    scene_read_back(&scene, &deliveries);
    bodies_are_in_order(&deliveries, 0, 5);
    deliveries_are_in_order(&deliveries, 0, 5);
    deliveries_free(&deliveries);
    struct deliveries tail = {0};
    coney_stream_consumer *consumer = consumer_at(&scene, &tail, CONEY_STREAM_OFFSET, 2);
    deliveries_wait(&tail, 4);
    consumer_close(&consumer);
    assert_string_equal(deliveries_of(&tail, 0).body, "m2");
    assert_int_equal(deliveries_of(&tail, 0).offset, 2);
    deliveries_free(&tail);
    scene_down(&scene);
}

static void a_compressed_batch_is_an_event_and_what_follows_is_delivered(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    struct wire wire;
    wire_open(&wire, node.stream_port);
    const struct stream_entry raw[] = {wire_batch(CONEY_STR("not looked at"), 3, 1), wire_entry(CONEY_STR("\0Su\xa0\x02m3"))};
    wire_publish(&wire, scene.stream, raw, 2);
    wire_close(&wire);
    scene_read_back(&scene, &deliveries);
    bodies_are_in_order(&deliveries, 3, 1);
    assert_int_equal(deliveries_of(&deliveries, 0).offset, 3);
    struct event event = events_wait(&scene.events, CONEY_EVENT_UNREADABLE_ENTRY, 0);
    assert_int_equal(event.offset, 0);
    assert_says(event.text, "gzip");
    assert_string_equal(event.name, scene.stream);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

/* Many ------------------------------------------------------------------------------------------------------------ */

static void three_hundred_consumers_use_two_connections(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static coney_stream_consumer *consumers[COUNT];
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 10);
    for (size_t i = 0; i < COUNT; i++)
        consumers[i] = consumer_at(&scene, &deliveries, CONEY_STREAM_FIRST, 0);
    coney_stream_env_stats stats;
    assert_int_equal(coney_stream_env_get_stats(scene.env, &stats), CONEY_OK);
    assert_int_equal(stats.consumers, COUNT);
    assert_in_range(stats.connections, 3, 4); /* one asks questions, one may be kept that published */
    deliveries_wait(&deliveries, (size_t)COUNT * 10);
    for (size_t i = 0; i < COUNT; i++)
        consumer_close(&consumers[i]);
    assert_int_equal(deliveries_count(&deliveries), COUNT * 10);
    assert_int_equal(coney_stream_env_get_stats(scene.env, &stats), CONEY_OK);
    assert_int_equal(stats.consumers, 0);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_the_first_message_on_all_come_in_order),
        cmocka_unit_test(SB_01_from_an_offset_inside_a_chunk_nothing_older_comes),
        cmocka_unit_test(from_next_only_what_is_published_afterwards_comes),
        cmocka_unit_test(SB_09_from_last_the_whole_last_chunk_comes),
        cmocka_unit_test(an_offset_that_is_not_there_yet_begins_with_what_comes),
        cmocka_unit_test(SB_08_from_a_time_whole_chunks_come_from_the_first_that_is_not_older),
        cmocka_unit_test(a_handler_may_take_chunks_instead_of_messages),
        cmocka_unit_test(credit_by_hand_lets_as_many_chunks_through_as_were_asked_for),
        cmocka_unit_test(SB_16_credit_may_go_back_for_several_chunks_at_a_time),
        cmocka_unit_test(a_paused_consumer_hands_nothing_over_until_it_is_resumed),
        cmocka_unit_test(SB_21_a_consumer_closed_inside_its_handler_is_called_no_more),
        cmocka_unit_test(a_body_of_several_data_sections_a_value_or_lists_is_told_apart),
        cmocka_unit_test(an_entry_that_is_not_amqp_is_handed_over_as_it_is),
        cmocka_unit_test(SB_27_a_plain_batch_is_read_as_its_messages),
        cmocka_unit_test(a_compressed_batch_is_an_event_and_what_follows_is_delivered),
        cmocka_unit_test(three_hundred_consumers_use_two_connections),
    };
    return run_tests(tests);
}
