/* Stored offsets on a real node: by count, by time, by hand, on close; and where the next consumer begins.
 *
 * What the broker writes down about stored offsets takes offsets of the same stream, so bodies are counted here. */
#define _GNU_SOURCE
#include "scene.h"

static struct node node;

#define NOTHING UINT64_MAX

/* What is stored under "reader" now, or NOTHING. */
static uint64_t stored(struct scene *scene)
{
    coney_call call = {0};
    coney_status status = coney_stream_query_offset(scene->env, scene->stream, "reader", &call);
    if (status == CONEY_ENOOFFSET)
        return NOTHING;
    if (status != CONEY_OK)
        fail_msg("%s", call.text);
    return call.value;
}

/* Waits until at least this offset is stored. */
static void wait_until_stored(struct scene *scene, uint64_t offset)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    uint64_t now = stored(scene);
    while ((now == NOTHING || now < offset) && now_ms() < until)
        now = stored(scene);
    if (now == NOTHING || now < offset)
        fail_msg("%lld is stored, not %llu", (long long)now, (unsigned long long)offset);
}

static coney_stream_consumer *reader(struct scene *scene, struct deliveries *deliveries, coney_stream_consumer_options options)
{
    options.name = "reader";
    if (options.start_if_new == CONEY_STREAM_NEXT)
        options.start_if_new = CONEY_STREAM_FIRST;
    return scene_consumer(scene, deliveries, &options);
}

static void SB_13_a_name_that_nobody_used_begins_as_the_options_say(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 100);
    coney_stream_consumer *consumer =
        reader(&scene, &deliveries, (coney_stream_consumer_options){.start_if_new = CONEY_STREAM_OFFSET, .start_offset = 40});
    deliveries_wait(&deliveries, 60);
    consumer_close(&consumer);
    deliveries_are_in_order(&deliveries, 40, 60);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void close_stores_what_is_done_and_the_next_handle_begins_after_it(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    for (uint64_t round = 0; round < 3; round++) {
        scene_fill(&scene, round * 1000, 1000);
        coney_stream_consumer *consumer = reader(&scene, &deliveries, (coney_stream_consumer_options){0});
        deliveries_wait(&deliveries, (round + 1) * 1000);
        consumer_close(&consumer);
        assert_int_equal(stored(&scene), deliveries_of(&deliveries, round * 1000 + 999).offset);
    }
    bodies_are_in_order(&deliveries, 0, 3000);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void offsets_are_stored_by_count(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 1050);
    coney_stream_consumer_options options = {.store_every = 100, .store_interval = CONEY_OFF};
    coney_stream_consumer *consumer = reader(&scene, &deliveries, options);
    deliveries_wait(&deliveries, 1050);
    wait_until_stored(&scene, 999);
    coney_stream_consumer_stats stats;
    assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_in_range(stats.stored_offset, 999, 1049);
    assert_int_equal(stats.last_offset, 1049);
    consumer_close(&consumer);
    assert_int_equal(stored(&scene), 1049);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void offsets_are_stored_by_time(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 10);
    coney_stream_consumer_options options = {.store_every = CONEY_OFF, .store_interval = 50 * CONEY_MILLISECOND};
    coney_stream_consumer *consumer = reader(&scene, &deliveries, options);
    wait_until_stored(&scene, 9);
    scene_fill(&scene, 10, 10);
    deliveries_wait(&deliveries, 20);
    wait_until_stored(&scene, deliveries_of(&deliveries, 19).offset);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 0, 20);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void by_hand_only_what_the_user_says_is_stored(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 100);
    coney_stream_consumer_options options = {.store_by_hand = true, .store_every = 1, .store_interval = CONEY_MILLISECOND};
    coney_stream_consumer *consumer = reader(&scene, &deliveries, options);
    deliveries_wait(&deliveries, 100);
    assert_true(stored(&scene) == NOTHING);
    assert_int_equal(coney_stream_consumer_store(consumer, UINT64_MAX), CONEY_EINVAL);
    assert_int_equal(coney_stream_consumer_store(consumer, 50), CONEY_OK);
    wait_until_stored(&scene, 50);
    consumer_close(&consumer);
    assert_int_equal(stored(&scene), 50);
    deliveries_free(&deliveries);
    consumer = reader(&scene, &deliveries, options);
    deliveries_wait(&deliveries, 49);
    consumer_close(&consumer);
    deliveries_are_in_order(&deliveries, 51, 49);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void a_consumer_without_a_name_stores_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 10);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
    deliveries_wait(&deliveries, 10);
    assert_int_equal(coney_stream_consumer_store(consumer, 5), CONEY_EINVAL);
    consumer_close(&consumer);
    assert_true(stored(&scene) == NOTHING);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_12_an_offset_beyond_what_was_read_is_not_overwritten_by_less(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 10);
    assert_int_equal(coney_stream_store_offset(scene.env, scene.stream, "reader", 1000, NULL), CONEY_OK);
    coney_stream_consumer *consumer = reader(&scene, &deliveries, (coney_stream_consumer_options){0});
    scene_fill(&scene, 10, 5);
    deliveries_wait(&deliveries, 5);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 10, 5);
    assert_int_equal(stored(&scene), 1000);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_07_the_message_in_the_handler_is_not_done_yet(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {.closed_gate = true, .gate_offset = 7};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 20);
    coney_stream_consumer_options options = {.store_every = 1, .store_interval = 10 * CONEY_MILLISECOND};
    coney_stream_consumer *consumer = reader(&scene, &deliveries, options);
    deliveries_wait_at_gate(&deliveries);
    wait_until_stored(&scene, 6);
    assert_int_equal(stored(&scene), 6);
    deliveries_open_gate(&deliveries);
    deliveries_wait(&deliveries, 20);
    consumer_close(&consumer);
    assert_int_equal(stored(&scene), 19);
    deliveries_are_in_order(&deliveries, 0, 20);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_13_a_name_that_nobody_used_begins_as_the_options_say),
        cmocka_unit_test(close_stores_what_is_done_and_the_next_handle_begins_after_it),
        cmocka_unit_test(offsets_are_stored_by_count),
        cmocka_unit_test(offsets_are_stored_by_time),
        cmocka_unit_test(by_hand_only_what_the_user_says_is_stored),
        cmocka_unit_test(a_consumer_without_a_name_stores_nothing),
        cmocka_unit_test(SB_12_an_offset_beyond_what_was_read_is_not_overwritten_by_less),
        cmocka_unit_test(SB_07_the_message_in_the_handler_is_not_done_yet),
    };
    return run_tests(tests);
}
