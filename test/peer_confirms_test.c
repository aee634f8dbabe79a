/* Confirms, refusals and what becomes of messages when the connection or the stream goes away. */
#define _GNU_SOURCE
#include "stage.h"

/* Confirms ------------------------------------------------------------------------------------------------------- */

static void SB_29_three_batches_in_one_confirm_have_twelve_outcomes(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    for (uint64_t batch = 0; batch < 3; batch++) {
        coney_bytes bodies[4];
        for (size_t i = 0; i < 4; i++)
            bodies[i] = numbered(batch * 4 + i);
        assert_int_equal(coney_stream_send_batch(producer, bodies, 4, batch * 4, NULL), CONEY_OK);
    }
    peer_wait_messages(stage.peer, 12);
    assert_int_equal(peer_confirm(stage.peer, 12), 12);
    outcomes_wait(&outcomes, 12);
    outcomes_are_in_order(&outcomes, 0, 12);
    producer_close(&producer);
    assert_int_equal(outcomes_count(&outcomes), 12);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_29_twelve_confirms_in_reverse_order_have_twelve_outcomes_each_once(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 12);
    peer_wait_messages(stage.peer, 12);
    for (size_t i = 12; i > 0; i--) {
        struct peer_message message = peer_message_of(stage.peer, i - 1);
        peer_confirm_ids(stage.peer, message.connection, message.publisher, &message.id, 1);
        peer_confirm_ids(stage.peer, message.connection, message.publisher, &message.id, 1); /* the wire repeats itself */
    }
    outcomes_wait(&outcomes, 12);
    outcomes_are_each_once(&outcomes, 0, 12);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(outcomes_of(&outcomes, i).tag, 11 - i);
    producer_close(&producer);
    assert_int_equal(outcomes_count(&outcomes), 12);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void confirms_of_ids_that_were_never_sent_are_dropped(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 3);
    peer_wait_messages(stage.peer, 3);
    struct peer_message message = peer_message_of(stage.peer, 0);
    const uint64_t wild[] = {message.id + 100, UINT64_MAX, message.id - 1, 0};
    peer_confirm_ids(stage.peer, message.connection, message.publisher, wild, 4);
    peer_confirm_ids(stage.peer, message.connection, (uint8_t)(message.publisher + 1), &message.id, 1);
    assert_int_equal(peer_confirm(stage.peer, 3), 3);
    outcomes_wait(&outcomes, 3);
    outcomes_are_in_order(&outcomes, 0, 3);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_refused_message_has_the_brokers_code_and_the_others_are_confirmed(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 5);
    peer_wait_messages(stage.peer, 5);
    peer_confirm(stage.peer, 1);
    peer_refuse(stage.peer, 2, STREAM_CODE_INTERNAL_ERROR);
    peer_confirm(stage.peer, 2);
    outcomes_wait(&outcomes, 5);
    outcomes_are_in_order(&outcomes, 0, 5);
    assert_int_equal(outcomes_of(&outcomes, 1).status, CONEY_EREFUSED);
    assert_int_equal(outcomes_of(&outcomes, 1).code, STREAM_CODE_INTERNAL_ERROR);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 3);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    coney_stream_producer_stats stats;
    coney_stream_producer_get_stats(producer, &stats);
    assert_int_equal(stats.refused, 2);
    assert_int_equal(stats.confirmed, 3);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void that_the_publisher_is_gone_is_no_outcome_but_a_recovery(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 4);
    peer_wait_messages(stage.peer, 4);
    peer_confirm_by_hand(stage.peer, false);
    peer_refuse(stage.peer, 4, STREAM_CODE_PUBLISHER_DOES_NOT_EXIST);
    outcomes_wait(&outcomes, 4);
    outcomes_are_in_order(&outcomes, 0, 4);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 4);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_45_an_old_message_becomes_unknown_after_the_confirm_timeout(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.confirm_timeout = 200 * CONEY_MILLISECOND};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    int64_t before = now_ms();
    stage_send(producer, 0, 3);
    outcomes_wait(&outcomes, 3);
    assert_true(now_ms() - before >= 195);
    outcomes_are_in_order(&outcomes, 0, 3);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 3);
    peer_confirm(stage.peer, 3); /* too late: no second outcome */
    peer_confirm_by_hand(stage.peer, false);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    assert_int_equal(outcomes_count(&outcomes), 3);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void flush_waits_for_what_was_accepted_before_it(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    stage_send(producer, 0, 10);
    struct waited_call flush = {0};
    assert_int_equal(coney_stream_producer_flush(producer, waited_call_of(&flush, 0)), CONEY_OK);
    assert_int_equal(coney_stream_exists(stage.env, "s", &(coney_call){0}), CONEY_OK); /* the loop has been round */
    stage_send(producer, 10, 10);
    peer_wait_messages(stage.peer, 20);
    peer_confirm(stage.peer, 9);
    outcomes_wait(&outcomes, 9);
    assert_int_equal(waited_call_count(&flush), 0);
    peer_confirm(stage.peer, 1);
    assert_int_equal(waited_call_wait(&flush), CONEY_OK);
    coney_call call = {.deadline = 30 * CONEY_MILLISECOND};
    assert_int_equal(coney_stream_producer_flush(producer, &call), CONEY_ETIMEDOUT);
    peer_confirm(stage.peer, 10);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
    waited_call_free(&flush);
}

/* Cuts ----------------------------------------------------------------------------------------------------------- */

/* Fails unless every id from the first on is in what the peer stored, duplicates by id left out, in a rising order. */
static void stored_is_complete(struct peer *peer, size_t count)
{
    unsigned char *seen = calloc(count + 1, 1);
    assert_non_null(seen);
    size_t distinct = 0;
    uint64_t first = peer_message_of(peer, 0).id;
    for (size_t i = 0; i < peer_message_count(peer); i++) {
        uint64_t id = peer_message_of(peer, i).id - first;
        if (id < count && seen[id]++ == 0)
            distinct++;
    }
    free(seen);
    if (distinct != count)
        fail_msg("the peer holds %zu of %zu messages", distinct, count);
}

static void SB_44_after_a_cut_what_is_unconfirmed_is_sent_again_in_order_and_nothing_confirmed_is(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 100);
    peer_wait_messages(stage.peer, 100);
    uint64_t first = peer_message_of(stage.peer, 0).id;
    peer_confirm(stage.peer, 50);
    outcomes_wait(&outcomes, 50);
    peer_stop_reading(stage.peer, peer_producer_connection(stage.peer, "s"), true);
    stage_send(producer, 100, 50); /* written into the socket or still in the process: never read */
    peer_confirm_by_hand(stage.peer, false);
    peer_cut(stage.peer, peer_producer_connection(stage.peer, "s"), PEER_RST);
    outcomes_wait(&outcomes, 150);
    outcomes_are_in_order(&outcomes, 0, 150);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 150);
    assert_int_equal(peer_message_count(stage.peer), 200);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(peer_message_of(stage.peer, 100 + i).id, first + 50 + i);
    struct event recovering = events_wait(&stage.events, CONEY_EVENT_RECOVERING, 0);
    assert_string_equal(recovering.name, "s");
    assert_ptr_equal(recovering.handle, producer);
    assert_int_equal(events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0).attempt, 1);
    coney_stream_producer_stats stats;
    coney_stream_producer_get_stats(producer, &stats);
    assert_int_equal(stats.reconnects, 1);
    assert_true(stats.resent >= 50);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_44_without_resend_the_unconfirmed_become_unknown_in_send_order(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.no_resend = true};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 100);
    peer_wait_messages(stage.peer, 100);
    peer_confirm(stage.peer, 50);
    outcomes_wait(&outcomes, 50);
    peer_cut(stage.peer, peer_producer_connection(stage.peer, "s"), PEER_RST);
    outcomes_wait(&outcomes, 100);
    outcomes_are_in_order(&outcomes, 0, 100);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 50);
    assert_string_equal(outcomes_of(&outcomes, 73).body, "m73");
    assert_false(outcomes_of(&outcomes, 73).unsent);
    peer_confirm_by_hand(stage.peer, false);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    assert_int_equal(peer_message_count(stage.peer), 101);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_44_at_close_the_unconfirmed_become_unknown_and_the_call_counts_them(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 100);
    peer_wait_messages(stage.peer, 100);
    peer_confirm(stage.peer, 40);
    outcomes_wait(&outcomes, 40);
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    coney_stream_producer_close(&producer, &call);
    assert_int_equal(call.value, 60);
    outcomes_are_in_order(&outcomes, 0, 100);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 60);
    assert_string_equal(outcomes_of(&outcomes, 99).body, "m99");
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void messages_that_never_left_the_process_say_so(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    peer_go_down(stage.peer, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_RECOVERING, 0);
    stage_send(producer, 0, 3);
    coney_call call = {.deadline = 20 * CONEY_MILLISECOND};
    coney_stream_producer_close(&producer, &call);
    assert_int_equal(outcomes_count(&outcomes), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(outcomes_of(&outcomes, i).status, CONEY_EUNKNOWN);
        assert_true(outcomes_of(&outcomes, i).unsent);
    }
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_named_producer_sends_its_unconfirmed_again_before_anything_new_and_nothing_is_stored_twice(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.name = "me"};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 20);
    peer_wait_messages(stage.peer, 20);
    peer_freeze(stage.peer, true);
    stage_send(producer, 20, 20);
    peer_confirm_by_hand(stage.peer, false);
    peer_cut(stage.peer, PEER_ALL, PEER_RST); /* the twenty are stored, their confirms are lost */
    peer_freeze(stage.peer, false);
    outcomes_wait(&outcomes, 40);
    outcomes_are_in_order(&outcomes, 0, 40);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 40);
    size_t stored = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < peer_message_count(stage.peer); i++) {
        struct peer_message message = peer_message_of(stage.peer, i);
        if (message.duplicate)
            continue;
        assert_true(message.id > last);
        last = message.id;
        stored++;
    }
    assert_int_equal(stored, 40);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void messages_with_ids_of_ones_own_are_sent_again_with_the_same_ids(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    for (uint64_t i = 0; i < 20; i++) {
        coney_stream_message message = {
            .body = numbered(i), .publishing_id = 10 + 7 * (i / 2), .has_publishing_id = true, .tag = i};
        assert_int_equal(coney_stream_send_message(producer, &message), CONEY_OK);
    }
    peer_wait_messages(stage.peer, 20);
    peer_confirm(stage.peer, 5);
    outcomes_wait(&outcomes, 5);
    peer_confirm_by_hand(stage.peer, false);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    outcomes_wait(&outcomes, 20);
    outcomes_are_each_once(&outcomes, 0, 20);
    for (size_t i = 20; i < peer_message_count(stage.peer); i++)
        assert_int_equal(peer_message_of(stage.peer, i).id, 10 + 7 * ((i - 15) / 2));
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_45_a_mute_broker_during_recovery_is_tried_again(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_set(&stage);
    stage.options.connect_timeout = scaled_ns(150);
    stage.options.call_deadline = scaled_ns(150);
    stage_open(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    peer_confirm_by_hand(stage.peer, true);
    stage_send(producer, 0, 5);
    peer_wait_messages(stage.peer, 5);
    peer_accept_mute(stage.peer, true);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, 1);
    peer_confirm_by_hand(stage.peer, false);
    peer_accept_mute(stage.peer, false);
    outcomes_wait(&outcomes, 5);
    outcomes_are_in_order(&outcomes, 0, 5);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 5);
    assert_true(events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0).attempt > 1);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void attempts_are_events_whose_delays_grow_to_the_limit(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    stage.options.recovery_delay = 8 * CONEY_MILLISECOND;
    stage.options.recovery_max_delay = 40 * CONEY_MILLISECOND;
    stage_open(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    peer_go_down(stage.peer, PEER_RST);
    for (uint32_t i = 0; i < 6; i++) {
        struct event event = events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, i);
        assert_int_equal(event.attempt, i + 1);
        assert_true(event.delay > 0 && event.delay <= 60 * CONEY_MILLISECOND);
        assert_true(event.text[0] != '\0');
    }
    peer_come_up(stage.peer);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    producer_close(&producer);
    stage_down(&stage);
}

static void without_recovery_a_cut_ends_the_producer_and_its_messages(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_set(&stage);
    stage.options.no_recovery = true;
    stage_open(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 3);
    peer_wait_messages(stage.peer, 3);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    struct event event = events_wait(&stage.events, CONEY_EVENT_GAVE_UP, 0);
    assert_ptr_equal(event.handle, producer);
    outcomes_wait(&outcomes, 3);
    outcomes_are_in_order(&outcomes, 0, 3);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 3);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 3), CONEY_ECLOSED);
    coney_stream_producer_close(&producer, NULL);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_cut_in_the_middle_of_recovery_is_recovered_from(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.name = "me"};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 50);
    peer_wait_messages(stage.peer, 50);
    static const uint16_t steps[] = {STREAM_PEER_PROPERTIES, STREAM_SASL_AUTHENTICATE, STREAM_OPEN,
                                     STREAM_METADATA,        STREAM_DECLARE_PUBLISHER, STREAM_PUBLISH};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t before = peer_count(stage.peer, steps[i]);
        peer_cut_at(stage.peer, steps[i], 1, PEER_RST);
        peer_cut(stage.peer, PEER_ALL, PEER_RST);
        peer_wait_count(stage.peer, steps[i], before + 1);
        peer_by_default(stage.peer, steps[i]);
    }
    peer_confirm_by_hand(stage.peer, false);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    outcomes_wait(&outcomes, 50);
    outcomes_are_in_order(&outcomes, 0, 50);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 50);
    stored_is_complete(stage.peer, 50);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_message_that_is_half_written_at_a_cut_is_sent_again_whole(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    size_t len = 900000;
    uint8_t *body = malloc(len);
    assert_non_null(body);
    for (size_t i = 0; i < len; i++)
        body[i] = (uint8_t)(i >> 3);
    peer_stop_reading(stage.peer, peer_producer_connection(stage.peer, "s"), true);
    for (uint64_t i = 0; i < 20; i++) /* far more than the socket's buffers hold */
        assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, len), i), CONEY_OK);
    peer_cut(stage.peer, peer_producer_connection(stage.peer, "s"), PEER_RST);
    outcomes_wait(&outcomes, 20);
    outcomes_are_in_order(&outcomes, 0, 20);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 20);
    for (size_t i = 0; i < peer_message_count(stage.peer); i++) {
        struct peer_message message = peer_message_of(stage.peer, i);
        assert_int_equal(message.body.len, len);
        assert_memory_equal(message.body.data, body, len);
    }
    free(body);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void producers_that_share_a_link_recover_each_with_its_own(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes[10] = {0};
    coney_stream_producer *producers[10];
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    for (size_t i = 0; i < 10; i++)
        producers[i] = stage_producer(&stage, "s", &outcomes[i], NULL);
    for (size_t i = 0; i < 10; i++)
        stage_send(producers[i], i * 100, 100);
    peer_wait_messages(stage.peer, 1000);
    peer_confirm_by_hand(stage.peer, false);
    peer_cut(stage.peer, PEER_ALL, PEER_FIN);
    for (size_t i = 0; i < 10; i++) {
        outcomes_wait(&outcomes[i], 100);
        outcomes_are_in_order(&outcomes[i], i * 100, 100);
        assert_int_equal(outcomes_with(&outcomes[i], CONEY_OK), 100);
    }
    assert_true(events_reach(&stage.events, CONEY_EVENT_RECOVERED, 10, 2000));
    for (size_t i = 0; i < 10; i++) {
        producer_close(&producers[i]);
        outcomes_free(&outcomes[i]);
    }
    stage_down(&stage);
}

static void a_stream_deleted_under_a_producer_ends_it_with_every_message_accounted_for(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 10);
    peer_wait_messages(stage.peer, 10);
    assert_int_equal(coney_stream_delete(stage.env, "s", NULL), CONEY_OK);
    struct event gone = events_wait(&stage.events, CONEY_EVENT_STREAM_GONE, 0);
    assert_string_equal(gone.name, "s");
    struct event gave_up = events_wait(&stage.events, CONEY_EVENT_GAVE_UP, 0);
    assert_int_equal(gave_up.status, CONEY_ENOTFOUND);
    assert_ptr_equal(gave_up.handle, producer);
    outcomes_wait(&outcomes, 10);
    outcomes_are_in_order(&outcomes, 0, 10);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 10);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 10), CONEY_ECLOSED);
    coney_stream_producer_close(&producer, NULL);
    assert_int_equal(outcomes_count(&outcomes), 10);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_29_three_batches_in_one_confirm_have_twelve_outcomes),
        cmocka_unit_test(SB_29_twelve_confirms_in_reverse_order_have_twelve_outcomes_each_once),
        cmocka_unit_test(confirms_of_ids_that_were_never_sent_are_dropped),
        cmocka_unit_test(a_refused_message_has_the_brokers_code_and_the_others_are_confirmed),
        cmocka_unit_test(that_the_publisher_is_gone_is_no_outcome_but_a_recovery),
        cmocka_unit_test(SB_45_an_old_message_becomes_unknown_after_the_confirm_timeout),
        cmocka_unit_test(flush_waits_for_what_was_accepted_before_it),
        cmocka_unit_test(SB_44_after_a_cut_what_is_unconfirmed_is_sent_again_in_order_and_nothing_confirmed_is),
        cmocka_unit_test(SB_44_without_resend_the_unconfirmed_become_unknown_in_send_order),
        cmocka_unit_test(SB_44_at_close_the_unconfirmed_become_unknown_and_the_call_counts_them),
        cmocka_unit_test(messages_that_never_left_the_process_say_so),
        cmocka_unit_test(a_named_producer_sends_its_unconfirmed_again_before_anything_new_and_nothing_is_stored_twice),
        cmocka_unit_test(messages_with_ids_of_ones_own_are_sent_again_with_the_same_ids),
        cmocka_unit_test(SB_45_a_mute_broker_during_recovery_is_tried_again),
        cmocka_unit_test(attempts_are_events_whose_delays_grow_to_the_limit),
        cmocka_unit_test(without_recovery_a_cut_ends_the_producer_and_its_messages),
        cmocka_unit_test(a_cut_in_the_middle_of_recovery_is_recovered_from),
        cmocka_unit_test(a_message_that_is_half_written_at_a_cut_is_sent_again_whole),
        cmocka_unit_test(producers_that_share_a_link_recover_each_with_its_own),
        cmocka_unit_test(a_stream_deleted_under_a_producer_ends_it_with_every_message_accounted_for),
    };
    return run_tests(tests);
}
