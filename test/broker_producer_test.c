/* Producers on a real node: what is sent is stored as it was sent, has one outcome, and is stored once under a name. */
#define _GNU_SOURCE
#include "scene.h"

static struct node node;

/* Single messages ------------------------------------------------------------------------------------------------- */

static void a_message_is_confirmed_and_stored_as_it_was_sent(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("hello"), 42), CONEY_OK);
    outcomes_wait(&outcomes, 1);
    struct outcome outcome = outcomes_of(&outcomes, 0);
    assert_int_equal(outcome.status, CONEY_OK);
    assert_int_equal(outcome.tag, 42);
    assert_string_equal(outcome.body, "hello");
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    assert_int_equal(deliveries_count(&stored), 1);
    struct delivery delivery = deliveries_of(&stored, 0);
    assert_string_equal(delivery.body, "hello");
    assert_int_equal(delivery.kind, CONEY_BODY_DATA);
    assert_true(delivery.timestamp > 1600000000000);
    assert_int_equal(outcomes_count(&outcomes), 1);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void an_empty_body_is_a_message(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, NULL, NULL);
    assert_int_equal(coney_stream_send_wait(producer, coney_bytes_of(NULL, 0), NULL), CONEY_OK);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    assert_int_equal(deliveries_count(&stored), 1);
    assert_int_equal(deliveries_of(&stored, 0).body_len, 0);
    assert_int_equal(deliveries_of(&stored, 0).kind, CONEY_BODY_DATA);
    deliveries_free(&stored);
    scene_down(&scene);
}

/* Everything that a message can have, there and back. -------------------------------------------------------------- */

static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static void check_everything(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    bool *checked = ctx;
    if (nth > 0)
        return;
    coney_message_view view;
    coney_message_header header;
    coney_message_properties properties;
    coney_value value;
    assert_int_equal(coney_message_parse(delivery->encoded, &view), CONEY_OK);
    assert_true(coney_message_get_header(&view, &header));
    assert_true(coney_message_get_properties(&view, &properties));
    uint64_t number;
    assert_true(coney_value_to_u64(&header.priority, &number));
    assert_int_equal(number, 7);
    assert_true(coney_value_to_u64(&header.ttl, &number));
    assert_int_equal(number, 60000);
    assert_int_equal(properties.message_id.type, CONEY_VALUE_UUID);
    assert_true(bytes_equal(properties.user_id, CONEY_STR("guest")));
    assert_true(bytes_equal(properties.to, CONEY_STR("to")));
    assert_true(bytes_equal(properties.subject, CONEY_STR("午後11:1")));
    assert_true(bytes_equal(properties.reply_to, CONEY_STR("reply")));
    assert_true(coney_value_to_u64(&properties.correlation_id, &number));
    assert_true(number == UINT64_MAX);
    assert_true(bytes_equal(properties.content_type, CONEY_STR("text/plain")));
    assert_true(bytes_equal(properties.content_encoding, CONEY_STR("gzip")));
    assert_true(bytes_equal(properties.group_id, CONEY_STR("group")));
    assert_true(coney_value_to_u64(&properties.group_sequence, &number));
    assert_int_equal(number, UINT32_MAX);
    assert_true(bytes_equal(properties.reply_to_group_id, CONEY_STR("reply group")));
    assert_true(coney_value_find(&view.application_properties, CONEY_STR("region"), &value));
    assert_true(bytes_equal(value.as.bytes, CONEY_STR("eu")));
    assert_true(coney_value_find(&view.application_properties, CONEY_STR("nothing"), &value));
    assert_int_equal(value.type, CONEY_VALUE_NULL);
    assert_true(coney_value_find(&view.message_annotations, CONEY_STR("x-from"), &value));
    assert_true(bytes_equal(value.as.bytes, CONEY_STR("here")));
    assert_true(bytes_equal(delivery->body, CONEY_STR("everything")));
    *checked = true;
}

static void SB_63_a_message_with_everything_is_read_back_with_everything(void **state)
{
    (void)state;
    struct scene scene;
    bool checked = false;
    struct deliveries stored = {.also = check_everything, .also_ctx = &checked};
    scene_up(&scene, node.uri);
    const coney_field properties[] = {{CONEY_STR_INIT("region"), coney_value_string(CONEY_STR("eu"))},
                                      {CONEY_STR_INIT("nothing"), coney_value_null()}};
    const coney_field annotations[] = {{CONEY_STR_INIT("x-from"), coney_value_string(CONEY_STR("here"))}};
    const coney_message message = {
        .body = CONEY_STR("everything"),
        .header = {.durable = coney_value_bool(true), .priority = coney_value_u64(7), .ttl = coney_value_u64(60000)},
        .properties = {.message_id = coney_value_uuid(uuid),
                       .user_id = CONEY_STR("guest"),
                       .to = CONEY_STR("to"),
                       .subject = CONEY_STR("午後11:1"),
                       .reply_to = CONEY_STR("reply"),
                       .correlation_id = coney_value_u64(UINT64_MAX),
                       .content_type = CONEY_STR("text/plain"),
                       .content_encoding = CONEY_STR("gzip"),
                       .absolute_expiry_time = coney_value_timestamp(1900000000000),
                       .creation_time = coney_value_timestamp(-1),
                       .group_id = CONEY_STR("group"),
                       .group_sequence = coney_value_u64(UINT32_MAX),
                       .reply_to_group_id = CONEY_STR("reply group")},
        .application_properties = properties,
        .application_property_count = 2,
        .message_annotations = annotations,
        .message_annotation_count = 1,
    };
    struct outcomes outcomes = {0};
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    assert_int_equal(coney_stream_send_message(producer, &(coney_stream_message){.message = &message, .tag = 9}), CONEY_OK);
    outcomes_wait(&outcomes, 1);
    assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_OK);
    assert_int_equal(outcomes_of(&outcomes, 0).tag, 9);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    assert_true(checked);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void a_message_that_has_no_encoding_is_refused_and_has_no_outcome(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    const coney_message message = {.properties.group_sequence = coney_value_u64(UINT64_C(1) << 32)};
    assert_int_equal(coney_stream_send_message(producer, &(coney_stream_message){.message = &message}), CONEY_EINVAL);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    producer_close(&producer);
    assert_int_equal(outcomes_count(&outcomes), 0);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

/* Publishing ids and names ---------------------------------------------------------------------------------------- */

static coney_status send_as(coney_stream_producer *producer, uint64_t id, uint64_t body)
{
    return coney_stream_send_message(
        producer, &(coney_stream_message){.body = numbered(body), .publishing_id = id, .tag = body, .has_publishing_id = true});
}

static void SB_51_ids_of_ones_own_may_have_gaps_and_repeats_and_a_name_stores_the_first(void **state)
{
    (void)state;
    static const uint64_t ids[] = {5, 5, 9, 100, 100, 100, 4000000000, 4000000001};
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.name = "writer"};
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, &options);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(send_as(producer, ids[i], i), CONEY_OK);
    assert_int_equal(send_as(producer, 4000000000, 8), CONEY_EINVAL);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("without"), 8), CONEY_EINVAL);
    outcomes_wait(&outcomes, 8);
    outcomes_are_each_once(&outcomes, 0, 8);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(outcomes_of(&outcomes, i).id, ids[outcomes_of(&outcomes, i).tag]);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    assert_int_equal(deliveries_count(&stored), 5);
    static const char *const kept[] = {"m0", "m2", "m3", "m6", "m7"};
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(deliveries_of(&stored, i).body, kept[i]);
    coney_call call = {0};
    assert_int_equal(coney_stream_query_publishing_id(scene.env, scene.stream, "writer", &call), CONEY_OK);
    assert_int_equal(call.value, 4000000001);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void what_a_second_handle_sends_again_under_the_name_is_not_stored_again(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.name = "writer"};
    coney_stream_producer *first = scene_producer(&scene, &outcomes, &options);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(send_as(first, i + 1, i), CONEY_OK);
    producer_close(&first);
    coney_stream_producer *second = scene_producer(&scene, &outcomes, &options);
    for (uint64_t i = 500; i < 2000; i++)
        assert_int_equal(send_as(second, i + 1, i), CONEY_OK);
    producer_close(&second);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 2500);
    scene_read_back(&scene, &stored);
    bodies_are_in_order(&stored, 0, 2000);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void a_named_producer_goes_on_after_the_id_that_the_broker_has(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.name = "writer"};
    for (uint64_t round = 0; round < 3; round++) {
        coney_stream_producer *producer = scene_producer(&scene, NULL, &options);
        stage_send(producer, round * 100, 100);
        producer_close(&producer);
    }
    coney_call call = {0};
    assert_int_equal(coney_stream_query_publishing_id(scene.env, scene.stream, "writer", &call), CONEY_OK);
    assert_int_equal(call.value, 300);
    scene_read_back(&scene, &stored);
    bodies_are_in_order(&stored, 0, 300);
    deliveries_free(&stored);
    scene_down(&scene);
}

static void a_name_that_is_in_use_on_the_connection_is_told(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.name = "writer"};
    coney_stream_producer *producer = scene_producer(&scene, NULL, &options);
    coney_call call = {0};
    coney_stream_producer *second = coney_stream_producer_open(scene.env, scene.stream, &options, &call);
    assert_null(second);
    assert_int_equal(call.status, CONEY_EPRECONDITION);
    assert_says(call.text, scene.stream);
    stage_send(producer, 0, 1);
    producer_close(&producer);
    producer = scene_producer(&scene, NULL, &options);
    producer_close(&producer);
    scene_down(&scene);
}

static void SB_39_producers_without_a_name_store_all_that_they_send(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *one = scene_producer(&scene, NULL, NULL);
    coney_stream_producer *two = scene_producer(&scene, NULL, NULL);
    stage_send(one, 0, 100);
    stage_send(two, 0, 100);
    producer_close(&one);
    producer_close(&two);
    scene_read_back(&scene, &stored);
    assert_int_equal(deliveries_count(&stored), 200);
    deliveries_free(&stored);
    scene_down(&scene);
}

/* Batches, waiting ------------------------------------------------------------------------------------------------ */

static void a_batch_is_stored_in_order_with_an_outcome_for_each(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static char texts[COUNT][8];
    static coney_bytes bodies[COUNT];
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    for (size_t i = 0; i < COUNT; i++)
        bodies[i] = coney_bytes_of(texts[i], (size_t)snprintf(texts[i], sizeof texts[i], "m%zu", i));
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    size_t accepted = 0;
    assert_int_equal(coney_stream_send_batch(producer, bodies, COUNT, 1000, &accepted), CONEY_OK);
    assert_int_equal(accepted, COUNT);
    outcomes_wait(&outcomes, COUNT);
    outcomes_are_each_once(&outcomes, 1000, COUNT);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    bodies_are_in_order(&stored, 0, COUNT);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void send_wait_gives_the_outcome_and_the_id(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, &(coney_stream_producer_options){.name = "writer"});
    coney_call call = {0};
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(coney_stream_send_wait(producer, numbered(i), &call), CONEY_OK);
        assert_int_equal(call.value, i);
    }
    assert_int_equal(outcomes_count(&outcomes), 0);
    producer_close(&producer);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void flush_returns_when_all_that_was_sent_before_has_its_outcome(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    for (uint64_t round = 1; round <= 5; round++) {
        stage_send(producer, (round - 1) * 2000, 2000);
        assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
        assert_int_equal(outcomes_count(&outcomes), round * 2000);
    }
    coney_stream_producer_stats stats;
    assert_int_equal(coney_stream_producer_get_stats(producer, &stats), CONEY_OK);
    assert_int_equal(stats.accepted, 10000);
    assert_int_equal(stats.confirmed, 10000);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.pending_bytes, 0);
    producer_close(&producer);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

/* Sizes ----------------------------------------------------------------------------------------------------------- */

static void check_size(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    const uint8_t *body = delivery->body.data;
    (void)nth;
    (void)ctx;
    for (size_t i = 0; i < delivery->body.len; i += 997)
        if (delivery->body.len > 100 && body[i] != (uint8_t)(i * 31))
            fail_msg("byte %zu of a body of %zu is damaged", i, delivery->body.len);
}

static void a_message_as_large_as_frame_max_goes_through_and_one_byte_more_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {.also = check_size};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    /* 9 bytes of the frame, 12 of the entry, 8 of a data section of that length. */
    size_t largest = 1048576 - 9 - 12 - 8;
    uint8_t *body = malloc(largest + 1);
    assert_non_null(body);
    for (size_t i = 0; i <= largest; i++)
        body[i] = (uint8_t)(i * 31);
    assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, largest + 1), 1), CONEY_ETOOBIG);
    assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, largest), 2), CONEY_OK);
    assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, 0), 3), CONEY_OK);
    assert_int_equal(coney_stream_send_wait(producer, coney_bytes_of(body, largest + 1), NULL), CONEY_ETOOBIG);
    outcomes_wait(&outcomes, 2);
    outcomes_are_in_order(&outcomes, 2, 2);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 2);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    assert_int_equal(deliveries_count(&stored), 2);
    assert_int_equal(deliveries_of(&stored, 0).body_len, largest);
    free(body);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void SB_49_large_and_small_bodies_share_frames_that_never_pass_the_limit(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    static uint8_t body[921600];
    coney_bytes bodies[102];
    for (size_t i = 0; i < 102; i++)
        bodies[i] = coney_bytes_of(body, i == 0 ? 921600 : i == 1 ? 460800 : 1000);
    size_t accepted = 0;
    assert_int_equal(coney_stream_send_batch(producer, bodies, 102, 0, &accepted), CONEY_OK);
    outcomes_wait(&outcomes, 102);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 102);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    assert_int_equal(deliveries_count(&stored), 102);
    for (size_t i = 0; i < 102; i++)
        assert_int_equal(deliveries_of(&stored, i).body_len, bodies[i].len);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

/* Many threads ---------------------------------------------------------------------------------------------------- */

enum { THREADS = 8, EACH = 20000 };

struct sender {
    pthread_t thread;
    coney_stream_producer *producer;
    uint64_t first;
    coney_status status;
};

static void *send_each(void *ctx)
{
    struct sender *sender = ctx;
    for (uint64_t i = 0; i < EACH && sender->status == CONEY_OK; i++) {
        char body[24];
        int len = snprintf(body, sizeof body, "m%llu", (unsigned long long)(sender->first + i));
        sender->status = coney_stream_send(sender->producer, coney_bytes_of(body, (size_t)len), sender->first + i);
    }
    return NULL;
}

static void eight_threads_send(coney_stream_producer *producer)
{
    struct sender senders[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.producer = producer, .first = i * EACH};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_each, &senders[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(senders[i].thread, NULL);
        assert_int_equal(senders[i].status, CONEY_OK);
    }
}

/* Every thread's messages are all there, in the order in which it sent them. */
static void each_threads_order_holds(struct deliveries *stored)
{
    uint64_t next[THREADS];
    for (uint64_t i = 0; i < THREADS; i++)
        next[i] = i * EACH;
    assert_int_equal(deliveries_count(stored), THREADS * EACH);
    for (size_t i = 0; i < THREADS * EACH; i++) {
        uint64_t number = number_of(stored->all[i].body);
        if (number >= THREADS * EACH || number != next[number / EACH])
            fail_msg("offset %zu holds m%llu out of its sender's order", i, (unsigned long long)number);
        next[number / EACH]++;
    }
}

static void SB_41_eight_threads_on_one_named_producer_lose_nothing_and_keep_their_order(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.name = "writer", .enqueue_timeout = scaled_ns(30000)};
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, &options);
    eight_threads_send(producer);
    outcomes_wait(&outcomes, THREADS * EACH);
    outcomes_are_each_once(&outcomes, 0, THREADS * EACH);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), THREADS * EACH);
    coney_stream_producer_stats stats;
    assert_int_equal(coney_stream_producer_get_stats(producer, &stats), CONEY_OK);
    assert_int_equal(stats.last_publishing_id, THREADS * EACH);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    each_threads_order_holds(&stored);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_confirmed_and_stored_as_it_was_sent),
        cmocka_unit_test(an_empty_body_is_a_message),
        cmocka_unit_test(SB_63_a_message_with_everything_is_read_back_with_everything),
        cmocka_unit_test(a_message_that_has_no_encoding_is_refused_and_has_no_outcome),
        cmocka_unit_test(SB_51_ids_of_ones_own_may_have_gaps_and_repeats_and_a_name_stores_the_first),
        cmocka_unit_test(what_a_second_handle_sends_again_under_the_name_is_not_stored_again),
        cmocka_unit_test(a_named_producer_goes_on_after_the_id_that_the_broker_has),
        cmocka_unit_test(a_name_that_is_in_use_on_the_connection_is_told),
        cmocka_unit_test(SB_39_producers_without_a_name_store_all_that_they_send),
        cmocka_unit_test(a_batch_is_stored_in_order_with_an_outcome_for_each),
        cmocka_unit_test(send_wait_gives_the_outcome_and_the_id),
        cmocka_unit_test(flush_returns_when_all_that_was_sent_before_has_its_outcome),
        cmocka_unit_test(a_message_as_large_as_frame_max_goes_through_and_one_byte_more_is_refused),
        cmocka_unit_test(SB_49_large_and_small_bodies_share_frames_that_never_pass_the_limit),
        cmocka_unit_test(SB_41_eight_threads_on_one_named_producer_lose_nothing_and_keep_their_order),
    };
    return run_tests(tests);
}
