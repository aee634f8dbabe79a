/* Settlements on a real node: again, later, refused, kept and settled from elsewhere. */
#define _GNU_SOURCE
#include "scene.h"

static struct node node;

/* What the handler does with offset 5, the first `times` times. */
struct treatment {
    struct deliveries deliveries;
    coney_settle how;
    uint32_t times;
    int64_t first_at; /* when offset 5 came for the first time, and for the last */
    int64_t last_at;
};

static coney_settle treat(void *ctx, const coney_stream_delivery *delivery)
{
    struct treatment *treatment = ctx;
    coney_settle how = delivery->offset == 5 && delivery->attempt < treatment->times ? treatment->how : CONEY_ACK;
    if (delivery->offset == 5) {
        treatment->last_at = now_ms();
        if (delivery->attempt == 0)
            treatment->first_at = treatment->last_at;
    }
    deliveries_add(&treatment->deliveries, delivery);
    return how;
}

/* A consumer of ten messages that treats one so; waits until all have come, the one again and again. */
static coney_stream_consumer *treated(struct scene *scene, struct treatment *treatment, const char *name)
{
    scene_fill(scene, 0, 10);
    coney_stream_consumer_options options = {
        .start_if_new = CONEY_STREAM_FIRST, .name = name, .on_message = treat, .ctx = treatment};
    coney_stream_consumer *consumer = scene_consumer(scene, NULL, &options);
    deliveries_wait(&treatment->deliveries, 10);
    return consumer;
}

static void came_again_in_place(struct treatment *treatment)
{
    assert_int_equal(deliveries_count(&treatment->deliveries), 10 + treatment->times);
    for (size_t i = 0; i < 10 + treatment->times; i++) {
        struct delivery delivery = deliveries_of(&treatment->deliveries, i);
        size_t offset = i < 5 ? i : i <= 5 + treatment->times ? 5 : i - treatment->times;
        assert_int_equal(delivery.offset, offset);
        assert_int_equal(number_of(delivery.body), offset);
        assert_int_equal(delivery.attempt, offset == 5 ? i - 5 : 0);
    }
}

static void a_requeued_message_comes_again_at_once_and_later_ones_wait(void **state)
{
    (void)state;
    struct scene scene;
    struct treatment treatment = {.how = CONEY_REQUEUE, .times = 3};
    scene_up(&scene, node.uri);
    coney_stream_consumer *consumer = treated(&scene, &treatment, NULL);
    deliveries_wait(&treatment.deliveries, 13);
    coney_stream_consumer_stats stats;
    assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_int_equal(stats.requeued, 3);
    consumer_close(&consumer);
    came_again_in_place(&treatment);
    deliveries_free(&treatment.deliveries);
    scene_down(&scene);
}

static void a_message_to_be_tried_later_comes_again_after_that_time(void **state)
{
    (void)state;
    struct scene scene;
    struct treatment treatment = {.how = coney_retry_after(100 * CONEY_MILLISECOND), .times = 2};
    scene_up(&scene, node.uri);
    coney_stream_consumer *consumer = treated(&scene, &treatment, NULL);
    deliveries_wait(&treatment.deliveries, 12);
    consumer_close(&consumer);
    came_again_in_place(&treatment);
    assert_in_range(treatment.last_at - treatment.first_at, 200, scaled_ms(5000));
    deliveries_free(&treatment.deliveries);
    scene_down(&scene);
}

static void a_rejected_message_is_done_and_counted(void **state)
{
    (void)state;
    struct scene scene;
    struct treatment treatment = {.how = CONEY_REJECT, .times = 1};
    scene_up(&scene, node.uri);
    coney_stream_consumer *consumer = treated(&scene, &treatment, "reader");
    consumer_close(&consumer);
    assert_int_equal(deliveries_count(&treatment.deliveries), 10);
    coney_call call = {0};
    assert_int_equal(coney_stream_query_offset(scene.env, scene.stream, "reader", &call), CONEY_OK);
    assert_int_equal(call.value, 9);
    deliveries_free(&treatment.deliveries);
    scene_down(&scene);
}

static void a_message_that_waits_for_its_retry_does_not_hold_up_close(void **state)
{
    (void)state;
    struct scene scene;
    struct treatment treatment = {.how = coney_retry_after(3600 * CONEY_SECOND), .times = 1};
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 10);
    coney_stream_consumer_options options = {
        .start_if_new = CONEY_STREAM_FIRST, .name = "reader", .on_message = treat, .ctx = &treatment};
    coney_stream_consumer *consumer = scene_consumer(&scene, NULL, &options);
    deliveries_wait(&treatment.deliveries, 6);
    int64_t begun = now_ms();
    consumer_close(&consumer);
    assert_true(now_ms() - begun < scaled_ms(2000));
    assert_int_equal(deliveries_count(&treatment.deliveries), 6);
    coney_call call = {0};
    assert_int_equal(coney_stream_query_offset(scene.env, scene.stream, "reader", &call), CONEY_OK);
    assert_int_equal(call.value, 4);
    deliveries_free(&treatment.deliveries);
    scene_down(&scene);
}

/* Kept ------------------------------------------------------------------------------------------------------------ */

struct keeping {
    struct deliveries deliveries;
    coney_kept *kept[100];
    bool (*wanted)(uint64_t offset);
};

static bool every_tenth(uint64_t offset)
{
    return offset % 10 == 3;
}

static bool all(uint64_t offset)
{
    return offset < 100;
}

static coney_settle keep_some(void *ctx, const coney_stream_delivery *delivery)
{
    struct keeping *keeping = ctx;
    coney_settle how = CONEY_ACK;
    if (delivery->attempt == 0 && keeping->wanted(delivery->offset)) {
        keeping->kept[delivery->offset] = coney_stream_keep(delivery);
        how = keeping->kept[delivery->offset] != NULL ? CONEY_KEPT : CONEY_REQUEUE;
    }
    deliveries_add(&keeping->deliveries, delivery);
    return how;
}

static coney_stream_consumer *keeping_consumer(struct scene *scene, struct keeping *keeping, const char *name)
{
    scene_fill(scene, 0, 100);
    coney_stream_consumer_options options = {
        .start_if_new = CONEY_STREAM_FIRST, .name = name, .on_message = keep_some, .ctx = keeping};
    coney_stream_consumer *consumer = scene_consumer(scene, NULL, &options);
    deliveries_wait(&keeping->deliveries, 100);
    return consumer;
}

static uint64_t stored(struct scene *scene, const char *name)
{
    coney_call call = {0};
    coney_status status = coney_stream_query_offset(scene->env, scene->stream, name, &call);
    if (status != CONEY_OK)
        fail_msg("no offset is stored: %s", call.text);
    return call.value;
}

static void a_kept_message_is_readable_until_it_is_settled(void **state)
{
    (void)state;
    struct scene scene;
    struct keeping keeping = {.wanted = all};
    scene_up(&scene, node.uri);
    coney_stream_consumer *consumer = keeping_consumer(&scene, &keeping, NULL);
    coney_stream_consumer_stats stats;
    assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_int_equal(stats.kept, 100);
    for (size_t i = 100; i-- > 0;) {
        const coney_stream_delivery *delivery = coney_stream_kept_delivery(keeping.kept[i]);
        assert_int_equal(delivery->offset, i);
        assert_true(bytes_equal(delivery->body, numbered(i)));
        assert_string_equal(delivery->stream, scene.stream);
        assert_int_equal(coney_kept_settle(&keeping.kept[i], CONEY_KEPT), CONEY_EINVAL);
        assert_non_null(keeping.kept[i]);
        assert_int_equal(coney_kept_settle(&keeping.kept[i], i % 2 == 0 ? CONEY_ACK : CONEY_REJECT), CONEY_OK);
        assert_null(keeping.kept[i]);
        assert_int_equal(coney_kept_settle(&keeping.kept[i], CONEY_ACK), CONEY_OK);
    }
    assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
    assert_int_equal(stats.kept, 0);
    assert_int_equal(stats.kept_bytes, 0);
    assert_int_equal(stats.acked, 50);
    assert_int_equal(stats.rejected, 50);
    consumer_close(&consumer);
    deliveries_free(&keeping.deliveries);
    scene_down(&scene);
}

static void a_kept_message_holds_back_the_stored_offset(void **state)
{
    (void)state;
    struct scene scene;
    struct keeping keeping = {.wanted = every_tenth};
    scene_up(&scene, node.uri);
    coney_stream_consumer *consumer = keeping_consumer(&scene, &keeping, "reader");
    assert_int_equal(coney_kept_settle(&keeping.kept[3], CONEY_ACK), CONEY_OK);
    assert_int_equal(coney_kept_settle(&keeping.kept[23], CONEY_ACK), CONEY_OK);
    coney_call call = {0};
    assert_int_equal(coney_stream_consumer_close(&consumer, &call), CONEY_OK);
    assert_int_equal(call.value, 8);
    assert_int_equal(stored(&scene, "reader"), 12);
    for (size_t i = 3; i < 100; i += 10) {
        if (keeping.kept[i] == NULL)
            continue;
        assert_true(bytes_equal(coney_stream_kept_delivery(keeping.kept[i])->body, numbered(i)));
        assert_int_equal(coney_kept_settle(&keeping.kept[i], CONEY_ACK), CONEY_ECLOSED);
        assert_null(keeping.kept[i]);
    }
    deliveries_free(&keeping.deliveries);
    scene_down(&scene);
}

static void *settle_all(void *ctx)
{
    struct keeping *keeping = ctx;
    for (size_t i = 0; i < 100; i++)
        if (keeping->kept[i] != NULL)
            assert_int_equal(coney_kept_settle(&keeping->kept[i], i == 53 ? CONEY_REQUEUE : CONEY_ACK), CONEY_OK);
    return NULL;
}

static void what_another_thread_settles_moves_the_stored_offset_and_a_requeue_comes_again(void **state)
{
    (void)state;
    struct scene scene;
    struct keeping keeping = {.wanted = every_tenth};
    scene_up(&scene, node.uri);
    coney_stream_consumer *consumer = keeping_consumer(&scene, &keeping, "reader");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, settle_all, &keeping), 0);
    pthread_join(thread, NULL);
    deliveries_wait(&keeping.deliveries, 101);
    struct delivery again = deliveries_of(&keeping.deliveries, 100);
    assert_int_equal(again.offset, 53);
    assert_int_equal(again.attempt, 1);
    assert_string_equal(again.body, "m53");
    consumer_close(&consumer);
    assert_int_equal(stored(&scene, "reader"), 99);
    deliveries_free(&keeping.deliveries);
    scene_down(&scene);
}

static coney_settle keep_all(void *ctx, const coney_stream_delivery *delivery)
{
    struct keeping *keeping = ctx;
    if (delivery->offset < 100)
        keeping->kept[delivery->offset] = coney_stream_keep(delivery);
    deliveries_add(&keeping->deliveries, delivery);
    return delivery->offset < 100 ? CONEY_KEPT : CONEY_ACK;
}

static void what_is_kept_beyond_the_bound_holds_the_next_message_back(void **state)
{
    (void)state;
    struct scene scene;
    struct keeping keeping = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, NULL, NULL);
    static uint8_t body[10000];
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, sizeof body), i), CONEY_OK);
    producer_close(&producer);
    coney_stream_consumer_options options = {
        .start_if_new = CONEY_STREAM_FIRST, .on_message = keep_all, .ctx = &keeping, .max_kept = 30000};
    coney_stream_consumer *consumer = scene_consumer(&scene, NULL, &options);
    for (size_t i = 0; i < 100; i++) {
        deliveries_wait(&keeping.deliveries, i + 1);
        coney_stream_consumer_stats stats;
        assert_int_equal(coney_stream_consumer_get_stats(consumer, &stats), CONEY_OK);
        assert_true(stats.kept < 100);
        assert_int_equal(coney_kept_settle(&keeping.kept[i], CONEY_ACK), CONEY_OK);
    }
    consumer_close(&consumer);
    deliveries_are_in_order(&keeping.deliveries, 0, 100);
    deliveries_free(&keeping.deliveries);
    scene_down(&scene);
}

/* Self-describing bodies ------------------------------------------------------------------------------------------ */

enum { DESCRIBED = 100000, READERS = 4 };

/* FNV-1a. */
static uint64_t sum_of(const uint8_t *at, size_t len)
{
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * 0x100000001b3;
    return sum;
}

/* Number, then bytes that follow from it, then the sum of all before. */
static size_t describe(uint8_t *into, uint64_t number)
{
    size_t len = 8 + number * 7919 % 120;
    store64(into, number);
    for (size_t i = 8; i < len; i++)
        into[i] = (uint8_t)(number * 31 + i);
    store64(into + len, sum_of(into, len));
    return len + 8;
}

static bool is_whole(coney_bytes body, uint64_t number)
{
    const uint8_t *at = body.data;
    return body.len >= 16 && load64(at) == number && load64(at + body.len - 8) == sum_of(at, body.len - 8);
}

/* One of the readers: checks in the handler, keeps every hundredth for a thread that checks it later. */
struct reader_of_all {
    struct monitor monitor;
    coney_kept *kept[DESCRIBED / 100];
    size_t kept_count;
    size_t messages;
    size_t broken;
    uint64_t next;
    pthread_t checker;
};

static coney_settle check_body(void *ctx, const coney_stream_delivery *delivery)
{
    struct reader_of_all *reader = ctx;
    bool whole = is_whole(delivery->body, delivery->offset) && delivery->offset == reader->next;
    coney_kept *kept = delivery->offset % 100 == 7 ? coney_stream_keep(delivery) : NULL;
    reader->next = delivery->offset + 1;
    monitor_lock(&reader->monitor);
    reader->broken += !whole;
    reader->messages++;
    if (kept != NULL)
        reader->kept[reader->kept_count++] = kept;
    if (kept != NULL || reader->messages == DESCRIBED)
        monitor_broadcast(&reader->monitor);
    monitor_unlock(&reader->monitor);
    return kept != NULL ? CONEY_KEPT : CONEY_ACK;
}

/* Until all have come and all that was kept is checked, or nothing comes any more. */
static void *check_kept(void *ctx)
{
    struct reader_of_all *reader = ctx;
    size_t done = 0;
    int64_t until = now_ms() + scaled_ms(30000);
    monitor_lock(&reader->monitor);
    while (reader->messages < DESCRIBED || done < reader->kept_count) {
        if (done == reader->kept_count) {
            if (!monitor_wait(&reader->monitor, until))
                break;
            continue;
        }
        coney_kept *kept = reader->kept[done++];
        monitor_unlock(&reader->monitor);
        const coney_stream_delivery *delivery = coney_stream_kept_delivery(kept);
        bool whole = is_whole(delivery->body, delivery->offset) && delivery->offset % 100 == 7;
        coney_kept_settle(&kept, CONEY_ACK);
        monitor_lock(&reader->monitor);
        reader->broken += !whole;
    }
    monitor_unlock(&reader->monitor);
    return NULL;
}

static void read_with(struct scene *scene, struct scene *scenes)
{
    static struct reader_of_all readers[READERS];
    coney_stream_consumer *consumers[READERS];
    memset(readers, 0, sizeof readers);
    for (size_t i = 0; i < READERS; i++) {
        coney_stream_consumer_options options = {
            .start_if_new = CONEY_STREAM_FIRST, .on_message = check_body, .ctx = &readers[i]};
        coney_call call = {0};
        consumers[i] = coney_stream_consumer_open(scenes[i].env, scene->stream, &options, &call);
        if (consumers[i] == NULL)
            fail_msg("%s", call.text);
        assert_int_equal(pthread_create(&readers[i].checker, NULL, check_kept, &readers[i]), 0);
    }
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(readers[i].checker, NULL);
        coney_call call = {0};
        assert_int_equal(coney_stream_consumer_close(&consumers[i], &call), CONEY_OK);
        assert_int_equal(call.value, 0);
        assert_int_equal(readers[i].messages, DESCRIBED);
        assert_int_equal(readers[i].kept_count, DESCRIBED / 100);
        assert_int_equal(readers[i].broken, 0);
        monitor_free(&readers[i].monitor);
    }
}

static void SB_26_four_consumers_read_every_body_whole_on_one_connection_and_on_four(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.enqueue_timeout = scaled_ns(30000)};
    coney_stream_producer *producer = scene_producer(&scene, NULL, &options);
    for (uint64_t i = 0; i < DESCRIBED; i++) {
        uint8_t body[140];
        size_t len = describe(body, i);
        assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, len), i), CONEY_OK);
    }
    assert_int_equal(coney_stream_producer_flush(producer, &(coney_call){.deadline = scaled_ns(30000)}), CONEY_OK);
    producer_close(&producer);
    struct scene same[READERS] = {scene, scene, scene, scene};
    read_with(&scene, same);
    struct scene own[READERS];
    for (size_t i = 0; i < READERS; i++)
        scene_up(&own[i], node.uri);
    read_with(&scene, own);
    for (size_t i = 0; i < READERS; i++)
        scene_down(&own[i]);
    scene_down(&scene);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_requeued_message_comes_again_at_once_and_later_ones_wait),
        cmocka_unit_test(a_message_to_be_tried_later_comes_again_after_that_time),
        cmocka_unit_test(a_rejected_message_is_done_and_counted),
        cmocka_unit_test(a_message_that_waits_for_its_retry_does_not_hold_up_close),
        cmocka_unit_test(a_kept_message_is_readable_until_it_is_settled),
        cmocka_unit_test(a_kept_message_holds_back_the_stored_offset),
        cmocka_unit_test(what_another_thread_settles_moves_the_stored_offset_and_a_requeue_comes_again),
        cmocka_unit_test(what_is_kept_beyond_the_bound_holds_the_next_message_back),
        cmocka_unit_test(SB_26_four_consumers_read_every_body_whole_on_one_connection_and_on_four),
    };
    return run_tests(tests);
}
