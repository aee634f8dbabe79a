/* Producers: what goes out, ids and de-duplication, bounds, frames, sending from everywhere. */
#define _GNU_SOURCE
#include "stage.h"

/* Sends ---------------------------------------------------------------------------------------------------------- */

static void a_message_goes_out_as_one_data_section_and_its_outcome_has_tag_id_and_body(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("hello"), 42), CONEY_OK);
    outcomes_wait(&outcomes, 1);
    struct outcome outcome = outcomes_of(&outcomes, 0);
    assert_int_equal(outcome.status, CONEY_OK);
    assert_int_equal(outcome.tag, 42);
    assert_string_equal(outcome.body, "hello");
    struct peer_message message = peer_message_of(stage.peer, 0);
    assert_int_equal(outcome.id, message.id);
    assert_true(bytes_equal(message.entry, CONEY_STR("\0Su\xa0\x05hello")));
    producer_close(&producer);
    assert_int_equal(outcomes_count(&outcomes), 1);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void bodies_of_every_size_class_arrive_whole(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 254, 255, 256, 257, 65535, 65536, 300000, 1048000};
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    uint8_t *body = malloc(1048000);
    assert_non_null(body);
    for (size_t i = 0; i < 1048000; i++)
        body[i] = (uint8_t)(i * 31);
    size_t count = sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < count; i++)
        assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, sizes[i]), i), CONEY_OK);
    outcomes_wait(&outcomes, count);
    outcomes_are_in_order(&outcomes, 0, count);
    for (size_t i = 0; i < count; i++) {
        struct peer_message message = peer_message_of(stage.peer, i);
        assert_int_equal(message.body.len, sizes[i]);
        assert_true(sizes[i] == 0 || memcmp(message.body.data, body, sizes[i]) == 0);
    }
    free(body);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void send_wait_returns_the_outcome_and_the_id(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    coney_call call = {0};
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), &call), CONEY_OK);
    assert_int_equal(call.value, peer_message_of(stage.peer, 0).id);
    peer_confirm_by_hand(stage.peer, true);
    call = (coney_call){.deadline = 50 * CONEY_MILLISECOND};
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("y"), &call), CONEY_ETIMEDOUT);
    peer_wait_messages(stage.peer, 2);
    assert_int_equal(peer_confirm(stage.peer, 1), 1);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    assert_int_equal(outcomes_count(&outcomes), 0);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_batch_has_an_outcome_for_each_body(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    coney_bytes bodies[40];
    for (size_t i = 0; i < 40; i++)
        bodies[i] = numbered(i);
    size_t accepted = 0;
    assert_int_equal(coney_stream_send_batch(producer, bodies, 40, 100, &accepted), CONEY_OK);
    assert_int_equal(accepted, 40);
    outcomes_wait(&outcomes, 40);
    outcomes_are_in_order(&outcomes, 100, 40);
    for (size_t i = 0; i < 40; i++)
        assert_true(bytes_equal(peer_message_of(stage.peer, i).body, bodies[i]));
    assert_true(peer_count(stage.peer, STREAM_PUBLISH) <= 2);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void messages_that_are_sent_while_a_write_is_under_way_share_the_next_frame(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 5000);
    outcomes_wait(&outcomes, 5000);
    outcomes_are_in_order(&outcomes, 0, 5000);
    assert_true(peer_count(stage.peer, STREAM_PUBLISH) < 5000);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    coney_stream_producer_stats stats;
    assert_int_equal(coney_stream_producer_get_stats(producer, &stats), CONEY_OK);
    assert_int_equal(stats.accepted, 5000);
    assert_int_equal(stats.confirmed, 5000);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.pending_bytes, 0);
    assert_int_equal(stats.frames, peer_count(stage.peer, STREAM_PUBLISH));
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_message_with_properties_is_encoded_and_one_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    const coney_field fields[] = {{CONEY_STR_INIT("key"), coney_value_string(CONEY_STR("v"))}};
    coney_message message = {.body = CONEY_STR("b"),
                             .properties.content_type = CONEY_STR("text/plain"),
                             .application_properties = fields,
                             .application_property_count = 1};
    coney_stream_message with = {.message = &message, .tag = 1};
    assert_int_equal(coney_stream_send_message(producer, &with), CONEY_OK);
    message.properties.group_sequence = coney_value_u64(UINT64_C(4294967296));
    assert_int_equal(coney_stream_send_message(producer, &with), CONEY_EINVAL);
    outcomes_wait(&outcomes, 1);
    coney_message_view view;
    assert_int_equal(coney_message_parse(peer_message_of(stage.peer, 0).entry, &view), CONEY_OK);
    assert_int_equal(view.body_size, 1);
    producer_close(&producer);
    assert_int_equal(outcomes_count(&outcomes), 1);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

/* Ids and names -------------------------------------------------------------------------------------------------- */

static void SB_39_a_producer_without_a_name_declares_an_empty_reference_and_asks_for_no_sequence(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_producer *one = stage_producer(&stage, "s", NULL, NULL), *two = stage_producer(&stage, "s", NULL, NULL);
    for (int i = 0; i < 2; i++) {
        const struct stream_frame *declare = &peer_expect(stage.peer, STREAM_DECLARE_PUBLISHER)->frame;
        assert_int_equal(declare->declare_publisher.reference.len, 0);
    }
    assert_int_equal(coney_stream_send_wait(one, CONEY_STR("a"), NULL), CONEY_OK);
    assert_int_equal(coney_stream_send_wait(two, CONEY_STR("b"), NULL), CONEY_OK);
    assert_false(peer_message_of(stage.peer, 0).duplicate || peer_message_of(stage.peer, 1).duplicate);
    assert_int_equal(peer_count(stage.peer, STREAM_QUERY_PUBLISHER_SEQUENCE), 0);
    producer_close(&one);
    producer_close(&two);
    stage_down(&stage);
}

static void a_named_producer_goes_on_after_the_last_id(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_set_sequence(stage.peer, "s", "me", 100);
    coney_stream_producer_options options = {.name = "me"};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 3);
    outcomes_wait(&outcomes, 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(peer_message_of(stage.peer, i).id, 101 + i);
        assert_string_equal(peer_message_of(stage.peer, i).reference, "me");
        assert_false(peer_message_of(stage.peer, i).duplicate);
    }
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_38_a_failed_sequence_query_fails_the_open_and_nothing_is_published(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_answer(stage.peer, STREAM_QUERY_PUBLISHER_SEQUENCE, 1, STREAM_CODE_INTERNAL_ERROR);
    peer_ignore(stage.peer, STREAM_QUERY_PUBLISHER_SEQUENCE, 2);
    coney_stream_producer_options options = {.name = "me"};
    coney_call call = {0};
    assert_null(coney_stream_producer_open(stage.env, "s", &options, &call));
    assert_int_equal(call.status, CONEY_EBROKER);
    call = (coney_call){.deadline = 100 * CONEY_MILLISECOND};
    assert_null(coney_stream_producer_open(stage.env, "s", &options, &call));
    assert_int_equal(call.status, CONEY_ETIMEDOUT);
    assert_int_equal(peer_count(stage.peer, STREAM_PUBLISH), 0);
    stage_down(&stage);
}

static void SB_38_during_recovery_a_failed_sequence_query_is_tried_again_before_anything_is_published(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.name = "me"};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 10);
    peer_wait_messages(stage.peer, 10);
    size_t asked = peer_count(stage.peer, STREAM_QUERY_PUBLISHER_SEQUENCE);
    peer_answer(stage.peer, STREAM_QUERY_PUBLISHER_SEQUENCE, 1, STREAM_CODE_INTERNAL_ERROR);
    peer_confirm_by_hand(stage.peer, false);
    peer_cut(stage.peer, peer_producer_connection(stage.peer, "s"), PEER_RST);
    outcomes_wait(&outcomes, 10);
    outcomes_are_in_order(&outcomes, 0, 10);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 10);
    size_t again = peer_count(stage.peer, STREAM_QUERY_PUBLISHER_SEQUENCE) - asked;
    assert_true(again == 0 || again >= 2); /* not asked at all (the ids are known), or asked until it answered */
    for (size_t i = 10; i < peer_message_count(stage.peer); i++)
        assert_true(peer_message_of(stage.peer, i).duplicate);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_51_equal_ids_are_both_confirmed(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer_options options = {.name = "me"};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    static const uint64_t ids[] = {5, 5, 9, 9, 9};
    for (size_t i = 0; i < 5; i++) {
        coney_stream_message message = {.body = CONEY_STR("x"), .publishing_id = ids[i], .has_publishing_id = true, .tag = i};
        assert_int_equal(coney_stream_send_message(producer, &message), CONEY_OK);
    }
    outcomes_wait(&outcomes, 5);
    outcomes_are_each_once(&outcomes, 0, 5);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 5);
    assert_true(peer_message_of(stage.peer, 1).duplicate);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    coney_stream_producer_stats stats;
    coney_stream_producer_get_stats(producer, &stats);
    assert_int_equal(stats.pending, 0);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void ids_of_ones_own_may_have_gaps_but_not_go_down_nor_mix(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    coney_stream_message message = {.body = CONEY_STR("x"), .publishing_id = 10, .has_publishing_id = true, .tag = 0};
    assert_int_equal(coney_stream_send_message(producer, &message), CONEY_OK);
    message.publishing_id = UINT64_C(1) << 40;
    message.tag = 1;
    assert_int_equal(coney_stream_send_message(producer, &message), CONEY_OK);
    message.publishing_id = 11;
    assert_int_equal(coney_stream_send_message(producer, &message), CONEY_EINVAL);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("y"), 3), CONEY_EINVAL);
    outcomes_wait(&outcomes, 2);
    outcomes_are_each_once(&outcomes, 0, 2);
    assert_int_equal(peer_message_of(stage.peer, 1).id, UINT64_C(1) << 40);
    producer_close(&producer);
    assert_int_equal(outcomes_count(&outcomes), 2);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

/* Threads -------------------------------------------------------------------------------------------------------- */

struct sender {
    coney_stream_producer *producer;
    pthread_t thread;
    uint64_t first;
    size_t count;
    size_t refused;
};

static void *send_all(void *arg)
{
    struct sender *sender = arg;
    for (uint64_t i = 0; i < sender->count; i++)
        sender->refused += coney_stream_send(sender->producer, CONEY_STR("twelve bytes"), sender->first + i) != CONEY_OK;
    return NULL;
}

/* Returns how many sends were refused. */
static size_t send_from_threads(coney_stream_producer *producer, size_t threads, size_t each)
{
    struct sender senders[64];
    for (size_t i = 0; i < threads; i++) {
        senders[i] = (struct sender){.producer = producer, .first = i * each, .count = each};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]), 0);
    }
    size_t refused = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(senders[i].thread, NULL);
        refused += senders[i].refused;
    }
    return refused;
}

static void SB_41_eight_threads_on_a_named_producer_give_distinct_rising_ids(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_set_sequence(stage.peer, "s", "me", 1000);
    coney_stream_producer_options options = {.name = "me"};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    assert_int_equal(send_from_threads(producer, 8, 1000), 0);
    outcomes_wait(&outcomes, 8000);
    outcomes_are_each_once(&outcomes, 0, 8000);
    assert_int_equal(peer_message_count(stage.peer), 8000);
    for (size_t i = 0; i < 8000; i++)
        assert_int_equal(peer_message_of(stage.peer, i).id, 1001 + i);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_52_sixty_four_threads_never_pass_the_bound(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer_options options = {.max_messages = 100};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    size_t each = 300;
    assert_int_equal(send_from_threads(producer, 64, each), 0);
    outcomes_wait(&outcomes, 64 * each);
    outcomes_are_each_once(&outcomes, 0, 64 * each);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    coney_stream_producer_stats stats;
    coney_stream_producer_get_stats(producer, &stats);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.pending_bytes, 0);
    assert_int_equal(stats.confirmed, 64 * each);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

/* Bounds --------------------------------------------------------------------------------------------------------- */

static void SB_46_at_the_bound_a_send_waits_and_then_times_out_and_confirms_make_room(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.max_messages = 1000, .enqueue_timeout = 200 * CONEY_MILLISECOND};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 1000);
    int64_t before = now_ms();
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 1000), CONEY_ETIMEDOUT);
    assert_true(now_ms() - before >= 195 && now_ms() - before < scaled_ms(3000));
    peer_wait_messages(stage.peer, 1000);
    assert_int_equal(peer_confirm(stage.peer, 10), 10);
    outcomes_wait(&outcomes, 10);
    stage_send(producer, 1000, 10);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 1010), CONEY_ETIMEDOUT);
    peer_wait_messages(stage.peer, 1010);
    peer_confirm(stage.peer, SIZE_MAX);
    outcomes_wait(&outcomes, 1010);
    outcomes_are_in_order(&outcomes, 0, 1010);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

struct writable {
    struct monitor monitor;
    size_t count;
};

static void on_writable(void *ctx)
{
    struct writable *writable = ctx;
    monitor_lock(&writable->monitor);
    writable->count++;
    monitor_broadcast(&writable->monitor);
    monitor_unlock(&writable->monitor);
}

static void SB_46_without_waiting_the_answer_comes_at_once_and_on_writable_tells_when_to_go_on(void **state)
{
    (void)state;
    struct stage stage;
    struct writable writable = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {
        .max_messages = 50, .enqueue_timeout = CONEY_OFF, .on_writable = on_writable, .ctx = &writable};
    coney_stream_producer *producer = coney_stream_producer_open(stage.env, "s", &options, NULL);
    assert_non_null(producer);
    stage_send(producer, 0, 50);
    int64_t before = now_ms();
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 50), CONEY_EAGAIN);
    assert_true(now_ms() - before < scaled_ms(1000));
    assert_int_equal(writable.count, 0);
    peer_wait_messages(stage.peer, 50);
    peer_confirm(stage.peer, 1);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&writable.monitor);
    while (writable.count == 0 && monitor_wait(&writable.monitor, until))
        ;
    assert_int_equal(writable.count, 1);
    monitor_unlock(&writable.monitor);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 50), CONEY_OK);
    peer_confirm_by_hand(stage.peer, false);
    peer_wait_messages(stage.peer, 51);
    peer_confirm(stage.peer, SIZE_MAX);
    producer_close(&producer);
    stage_down(&stage);
    monitor_free(&writable.monitor);
}

static void the_bound_in_bytes_holds_too(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.max_bytes = 10000, .enqueue_timeout = CONEY_OFF};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    static const uint8_t body[1000];
    size_t accepted = 0;
    while (accepted < 1000 && coney_stream_send(producer, coney_bytes_of(body, sizeof body), accepted) == CONEY_OK)
        accepted++;
    assert_true(accepted >= 8 && accepted <= 11);
    peer_wait_messages(stage.peer, accepted);
    peer_confirm(stage.peer, SIZE_MAX);
    outcomes_wait(&outcomes, accepted);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), accepted), CONEY_OK);
    peer_wait_messages(stage.peer, accepted + 1);
    peer_confirm(stage.peer, SIZE_MAX);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_batch_at_the_bound_says_how_many_it_took(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.max_messages = 10, .enqueue_timeout = CONEY_OFF};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    coney_bytes bodies[16];
    for (size_t i = 0; i < 16; i++)
        bodies[i] = numbered(i);
    size_t accepted = 99;
    assert_int_equal(coney_stream_send_batch(producer, bodies, 16, 0, &accepted), CONEY_EAGAIN);
    assert_int_equal(accepted, 10);
    peer_wait_messages(stage.peer, 10);
    peer_confirm(stage.peer, SIZE_MAX);
    outcomes_wait(&outcomes, 10);
    outcomes_are_in_order(&outcomes, 0, 10);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

struct blocked {
    coney_stream_producer *producer;
    pthread_t thread;
    coney_status status;
    struct monitor monitor;
    size_t done;
};

static void *send_blocked(void *arg)
{
    struct blocked *blocked = arg;
    coney_status status = coney_stream_send(blocked->producer, CONEY_STR("late"), 999);
    monitor_lock(&blocked->monitor);
    blocked->status = status;
    blocked->done = 1;
    monitor_broadcast(&blocked->monitor);
    monitor_unlock(&blocked->monitor);
    return NULL;
}

static void SB_46_a_cut_does_not_release_a_blocked_sender_but_close_does(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.max_messages = 5, .enqueue_timeout = scaled_ns(20000)};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 5);
    struct blocked blocked = {.producer = producer};
    assert_int_equal(pthread_create(&blocked.thread, NULL, send_blocked, &blocked), 0);
    peer_wait_messages(stage.peer, 5);
    peer_cut(stage.peer, peer_producer_connection(stage.peer, "s"), PEER_RST);
    peer_wait_messages(stage.peer, 10); /* sent again after the recovery */
    monitor_lock(&blocked.monitor);
    assert_int_equal(blocked.done, 0);
    monitor_unlock(&blocked.monitor);
    coney_call call = {.deadline = 100 * CONEY_MILLISECOND};
    coney_stream_producer_close(&producer, &call);
    pthread_join(blocked.thread, NULL);
    assert_int_equal(blocked.status, CONEY_ECLOSED);
    assert_int_equal(outcomes_count(&outcomes), 5);
    stage_down(&stage);
    outcomes_free(&outcomes);
    monitor_free(&blocked.monitor);
}

/* Frames --------------------------------------------------------------------------------------------------------- */

/* Fails unless every Publish kept to the limit. */
static void frames_fit(struct peer *peer, size_t frame_max)
{
    for (size_t i = 0; i < peer_count(peer, STREAM_PUBLISH); i++) {
        const struct peer_record *record = peer_record_of(peer, STREAM_PUBLISH, i);
        if (record->bytes.len > frame_max)
            fail_msg("Publish %zu has %zu bytes", i, record->bytes.len);
    }
}

static void SB_49_no_frame_passes_frame_max_and_the_order_is_kept(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    uint8_t *body = calloc(1, 921600);
    assert_non_null(body);
    coney_bytes bodies[102] = {{body, 921600}, {body, 460800}};
    for (size_t i = 2; i < 102; i++)
        bodies[i] = coney_bytes_of(body, 1000);
    size_t accepted = 0;
    assert_int_equal(coney_stream_send_batch(producer, bodies, 102, 0, &accepted), CONEY_OK);
    outcomes_wait(&outcomes, 102);
    outcomes_are_in_order(&outcomes, 0, 102);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 102);
    frames_fit(stage.peer, 1 << 20);
    assert_true(peer_count(stage.peer, STREAM_PUBLISH) >= 2); /* more where the loop was faster than the batch */
    for (size_t i = 0; i < 102; i++)
        assert_int_equal(peer_message_of(stage.peer, i).body.len, bodies[i].len);
    for (size_t i = 0; i < 102; i++)
        assert_int_equal(coney_stream_send(producer, bodies[i], 102 + i), CONEY_OK);
    outcomes_wait(&outcomes, 204);
    outcomes_are_in_order(&outcomes, 0, 204);
    frames_fit(stage.peer, 1 << 20);
    free(body);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_message_over_frame_max_is_refused_before_it_is_queued(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_set(&stage);
    peer_set_tune(stage.peer, 4096, 60);
    stage_open(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    uint8_t body[8192] = {0};
    size_t fits = 4096 - 9 - 12 - 8; /* size field's limit less header, entry header and data section */
    assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, fits), 0), CONEY_OK);
    assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, fits + 1 + 4), 1), CONEY_ETOOBIG);
    assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, sizeof body), 1), CONEY_ETOOBIG);
    coney_call call = {0};
    assert_int_equal(coney_stream_send_wait(producer, coney_bytes_of(body, sizeof body), &call), CONEY_ETOOBIG);
    assert_says(call.text, "4096");
    outcomes_wait(&outcomes, 1);
    frames_fit(stage.peer, 4096);
    producer_close(&producer);
    assert_int_equal(outcomes_count(&outcomes), 1);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_smaller_frame_max_after_a_reconnect_is_kept_to(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 2000);
    peer_wait_messages(stage.peer, 2000);
    size_t before = peer_count(stage.peer, STREAM_PUBLISH);
    peer_set_tune(stage.peer, 4096, 60);
    peer_confirm_by_hand(stage.peer, false);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    outcomes_wait(&outcomes, 2000);
    outcomes_are_in_order(&outcomes, 0, 2000);
    for (size_t i = before; i < peer_count(stage.peer, STREAM_PUBLISH); i++)
        assert_true(peer_record_of(stage.peer, STREAM_PUBLISH, i)->bytes.len <= 4096);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

/* Many ----------------------------------------------------------------------------------------------------------- */

static void three_hundred_producers_share_two_links_and_each_gets_its_own_confirms(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_producer *producers[300];
    for (size_t i = 0; i < 300; i++)
        producers[i] = stage_producer(&stage, "s", NULL, NULL);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(coney_stream_send_wait(producers[i], CONEY_STR("x"), NULL), CONEY_OK);
    assert_true(peer_open_connections(stage.peer) <= 4);
    coney_stream_env_stats stats;
    assert_int_equal(coney_stream_env_get_stats(stage.env, &stats), CONEY_OK);
    assert_int_equal(stats.producers, 300);
    assert_int_equal(stats.connections, peer_open_connections(stage.peer));
    for (size_t i = 0; i < 300; i++)
        producer_close(&producers[i]);
    peer_wait_gone(stage.peer, "s");
    stage_down(&stage);
}

static void publishing_and_consuming_do_not_share_a_connection(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    assert_int_not_equal(peer_producer_connection(stage.peer, "s"), peer_consumer_connection(stage.peer, "s"));
    producer_close(&producer);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Opening -------------------------------------------------------------------------------------------------------- */

static void a_refusal_of_the_publisher_is_its_status(void **state)
{
    (void)state;
    static const struct {
        uint16_t code;
        coney_status status;
    } codes[] = {{STREAM_CODE_STREAM_DOES_NOT_EXIST, CONEY_ENOTFOUND},
                 {STREAM_CODE_ACCESS_REFUSED, CONEY_EACCESS},
                 {STREAM_CODE_PRECONDITION_FAILED, CONEY_EPRECONDITION}};
    struct stage stage;
    stage_up(&stage);
    for (size_t i = 0; i < 3; i++) {
        peer_answer(stage.peer, STREAM_DECLARE_PUBLISHER, 1, codes[i].code);
        coney_call call = {0};
        assert_null(coney_stream_producer_open(stage.env, "s", NULL, &call));
        assert_int_equal(call.status, codes[i].status);
        assert_int_equal(call.code, codes[i].code);
        peer_by_default(stage.peer, STREAM_DECLARE_PUBLISHER);
    }
    stage_down(&stage);
}

static void an_asynchronous_producer_has_no_room_before_it_is_open(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_hold(stage.peer, STREAM_DECLARE_PUBLISHER, PEER_EVERY);
    coney_stream_producer_options options = {.on_outcome = outcomes_add, .ctx = &outcomes, .enqueue_timeout = CONEY_OFF};
    struct waited_call call = {0};
    coney_stream_producer *producer = coney_stream_producer_open(stage.env, "s", &options, waited_call_of(&call, 0));
    assert_non_null(producer);
    peer_expect(stage.peer, STREAM_DECLARE_PUBLISHER);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("early"), 0), CONEY_EAGAIN);
    peer_release(stage.peer, STREAM_DECLARE_PUBLISHER);
    assert_int_equal(waited_call_wait(&call), CONEY_OK);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("late"), 1), CONEY_OK);
    outcomes_wait(&outcomes, 1);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
    waited_call_free(&call);
}

static void a_message_over_frame_max_is_refused_also_by_a_producer_that_is_opening(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    size_t size = 2 << 20;
    char *body = calloc(1, size);
    struct waited_call call = {0};
    coney_stream_producer *producer = coney_stream_producer_open(stage.env, "s", NULL, waited_call_of(&call, 0));
    assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, size), 0), CONEY_ETOOBIG);
    producer_close(&producer);
    stage_down(&stage);
    free(body);
    waited_call_free(&call);
}

static void an_asynchronous_producer_of_a_missing_stream_is_dead_unless_it_keeps_trying(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_set_stream(stage.peer, "later", STREAM_CODE_STREAM_DOES_NOT_EXIST);
    struct waited_call call = {0}, patient = {0};
    coney_stream_producer *dead = coney_stream_producer_open(stage.env, "later", NULL, waited_call_of(&call, 0));
    assert_non_null(dead);
    assert_int_equal(waited_call_wait(&call), CONEY_ENOTFOUND);
    assert_int_equal(coney_stream_send(dead, CONEY_STR("x"), 0), CONEY_ECLOSED);
    coney_stream_producer_close(&dead, NULL);
    coney_stream_producer_options options = {.keep_trying = true};
    coney_stream_producer *producer = coney_stream_producer_open(stage.env, "later", &options, waited_call_of(&patient, 0));
    assert_non_null(producer);
    assert_int_equal(waited_call_wait(&patient), CONEY_ENOTFOUND);
    events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, 1);
    peer_set_stream(stage.peer, "later", STREAM_CODE_OK);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    producer_close(&producer);
    stage_down(&stage);
    waited_call_free(&call);
    waited_call_free(&patient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_goes_out_as_one_data_section_and_its_outcome_has_tag_id_and_body),
        cmocka_unit_test(bodies_of_every_size_class_arrive_whole),
        cmocka_unit_test(send_wait_returns_the_outcome_and_the_id),
        cmocka_unit_test(a_batch_has_an_outcome_for_each_body),
        cmocka_unit_test(messages_that_are_sent_while_a_write_is_under_way_share_the_next_frame),
        cmocka_unit_test(a_message_with_properties_is_encoded_and_one_that_cannot_be_is_refused),
        cmocka_unit_test(SB_39_a_producer_without_a_name_declares_an_empty_reference_and_asks_for_no_sequence),
        cmocka_unit_test(a_named_producer_goes_on_after_the_last_id),
        cmocka_unit_test(SB_38_a_failed_sequence_query_fails_the_open_and_nothing_is_published),
        cmocka_unit_test(SB_38_during_recovery_a_failed_sequence_query_is_tried_again_before_anything_is_published),
        cmocka_unit_test(SB_51_equal_ids_are_both_confirmed),
        cmocka_unit_test(ids_of_ones_own_may_have_gaps_but_not_go_down_nor_mix),
        cmocka_unit_test(SB_41_eight_threads_on_a_named_producer_give_distinct_rising_ids),
        cmocka_unit_test(SB_52_sixty_four_threads_never_pass_the_bound),
        cmocka_unit_test(SB_46_at_the_bound_a_send_waits_and_then_times_out_and_confirms_make_room),
        cmocka_unit_test(SB_46_without_waiting_the_answer_comes_at_once_and_on_writable_tells_when_to_go_on),
        cmocka_unit_test(the_bound_in_bytes_holds_too),
        cmocka_unit_test(a_batch_at_the_bound_says_how_many_it_took),
        cmocka_unit_test(SB_46_a_cut_does_not_release_a_blocked_sender_but_close_does),
        cmocka_unit_test(SB_49_no_frame_passes_frame_max_and_the_order_is_kept),
        cmocka_unit_test(a_message_over_frame_max_is_refused_before_it_is_queued),
        cmocka_unit_test(a_smaller_frame_max_after_a_reconnect_is_kept_to),
        cmocka_unit_test(three_hundred_producers_share_two_links_and_each_gets_its_own_confirms),
        cmocka_unit_test(publishing_and_consuming_do_not_share_a_connection),
        cmocka_unit_test(a_refusal_of_the_publisher_is_its_status),
        cmocka_unit_test(an_asynchronous_producer_has_no_room_before_it_is_open),
        cmocka_unit_test(a_message_over_frame_max_is_refused_also_by_a_producer_that_is_opening),
        cmocka_unit_test(an_asynchronous_producer_of_a_missing_stream_is_dead_unless_it_keeps_trying),
    };
    return run_tests(tests);
}
