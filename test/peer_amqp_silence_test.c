/* A broker that does not answer, at any step: calls end at their deadlines, what recovers tries again, closes do not wait for ever. And one that
 * refuses channels, answers late, or is lost in the middle of a transaction. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

/* Recovery pauses are short, and a step of it that is not answered is given up after this. */
#define STEP 150

static void up(struct amqp_stage *stage)
{
    amqp_stage_set(stage);
    stage->options.call_deadline = scaled_ns(STEP);
    amqp_stage_open(stage);
}

/* Calls ---------------------------------------------------------------------------------------------------------------- */

static void a_call_whose_steps_are_not_answered_ends_at_its_deadline_and_the_next_one_works(void **state)
{
    (void)state;
    static const uint32_t steps[] = {AMQP_CHANNEL_OPEN, AMQP_QUEUE_DECLARE};
    for (size_t i = 0; i < 2; i++) {
        struct amqp_stage stage;
        amqp_stage_up(&stage);
        amqp_peer_allow_nonsense(stage.peer); /* a channel that it ignored is closed */
        amqp_peer_ignore(stage.peer, steps[i], 1);
        coney_call call = {.deadline = scaled_ns(60)};
        assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_ETIMEDOUT);
        assert_true(call.text[0] != '\0');
        call.deadline = 0;
        assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
        amqp_stage_down(&stage);
    }
}

static void opening_a_publisher_or_a_consumer_that_is_not_answered_ends_at_its_deadline(void **state)
{
    (void)state;
    static const struct {
        uint32_t step;
        bool publisher;
    } steps[] = {
        {AMQP_CHANNEL_OPEN, true}, {AMQP_CONFIRM_SELECT, true}, {AMQP_CHANNEL_OPEN, false}, {AMQP_BASIC_CONSUME, false}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct amqp_stage stage;
        struct parcels parcels = {0};
        amqp_stage_up(&stage);
        amqp_peer_allow_nonsense(stage.peer); /* a channel that it ignored is closed */
        amqp_peer_ignore(stage.peer, steps[i].step, PEER_EVERY);
        coney_call call = {.deadline = scaled_ns(60)};
        coney_amqp_publisher_options publisher = {.routing_key = "q"};
        coney_amqp_consumer_options consumer = {.on_delivery = parcels_add, .ctx = &parcels};
        if (steps[i].publisher)
            assert_null(coney_amqp_publisher_open(stage.rabbit, &publisher, &call));
        else
            assert_null(coney_amqp_consumer_open(stage.rabbit, "q", &consumer, &call));
        assert_int_equal(call.status, CONEY_ETIMEDOUT);
        assert_true(call.text[0] != '\0');
        int64_t began = now_ms();
        coney_amqp_close(&stage.rabbit, NULL);
        assert_true(now_ms() - began < scaled_ms(1000));
        amqp_stage_down(&stage);
        parcels_free(&parcels);
    }
}

static void a_message_that_get_brings_too_late_goes_back_to_the_queue(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_kept *kept = NULL;
    amqp_stage_up(&stage);
    amqp_peer_ignore(stage.peer, AMQP_BASIC_GET, 1);
    amqp_peer_hold(stage.peer, AMQP_CHANNEL_CLOSE, 1);
    coney_call call = {.deadline = scaled_ns(60)};
    assert_int_equal(coney_amqp_get(stage.rabbit, "q", &kept, &call), CONEY_ETIMEDOUT);
    uint16_t channel = amqp_peer_expect(stage.peer, AMQP_BASIC_GET)->channel;
    struct amqp_method ok = {.id = AMQP_BASIC_GET_OK, .basic_get_ok = {.delivery_tag = 1}};
    amqp_peer_send_content(stage.peer, 0, channel, &ok, coney_bytes_of(NULL, 0), CONEY_STR("late"), 0);
    assert_int_equal(amqp_peer_expect(stage.peer, AMQP_CHANNEL_CLOSE)->channel, channel); /* which gives it back */
    amqp_peer_release(stage.peer, AMQP_CHANNEL_CLOSE);
    call.deadline = 0;
    assert_int_equal(coney_amqp_get(stage.rabbit, "q", &kept, &call), CONEY_OK);
    assert_null(kept);
    amqp_stage_down(&stage);
}

/* basic.get-ok with a message, which the peer counts as out. */
static bool give_one(void *ctx, struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    (void)ctx;
    struct amqp_method ok = {.id = AMQP_BASIC_GET_OK,
                             .basic_get_ok = {.delivery_tag = 1, .messages = 41, .routing_key = CONEY_STR("q")}};
    amqp_peer_send_content(peer, record->connection, record->channel, &ok, coney_bytes_of(NULL, 0), CONEY_STR("m0"), 1);
    return true;
}

static void a_message_that_get_brings_is_settled_once_also_when_its_connection_is_gone(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_kept *kept = NULL;
    coney_call call = {0};
    amqp_stage_up(&stage);
    amqp_peer_allow_nonsense(stage.peer); /* it knows nothing of these deliveries */
    amqp_peer_call_at(stage.peer, AMQP_BASIC_GET, PEER_EVERY, give_one, NULL);
    assert_int_equal(coney_amqp_get(stage.rabbit, "q", &kept, &call), CONEY_OK);
    assert_int_equal(call.value, 41);
    assert_true(bytes_equal(coney_amqp_kept_delivery(kept)->body, CONEY_STR("m0")));
    assert_int_equal(coney_kept_settle(&kept, CONEY_REQUEUE), CONEY_OK);
    assert_true(amqp_peer_expect(stage.peer, AMQP_BASIC_REJECT)->method.basic_reject.requeue);
    assert_int_equal(coney_amqp_get(stage.rabbit, "q", &kept, &call), CONEY_OK);
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0);
    assert_int_equal(amqp_stage_declare(&stage, "r", &call), CONEY_OK);
    assert_true(bytes_equal(coney_amqp_kept_delivery(kept)->body, CONEY_STR("m0")));
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_ELOST);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_BASIC_ACK), 0);
    assert_int_equal(coney_amqp_get(stage.rabbit, "q", &kept, &call), CONEY_OK);
    coney_amqp_close(&stage.rabbit, NULL);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_ECLOSED);
    amqp_stage_down(&stage);
}

/* Channels that are refused ------------------------------------------------------------------------------------------------ */

static void a_channel_that_is_refused_is_told_and_tried_again_by_what_recovers(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_call call = {0};
    amqp_stage_up(&stage);
    amqp_peer_refuse(stage.peer, AMQP_CHANNEL_OPEN, 1, AMQP_CODE_ACCESS_REFUSED, "ACCESS_REFUSED - no channels today");
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_EACCESS);
    assert_says(call.text, "no channels today");
    amqp_peer_refuse(stage.peer, AMQP_CHANNEL_OPEN, 1, AMQP_CODE_NOT_ALLOWED,
                     "NOT_ALLOWED - number of channels opened (1) has reached the limit");
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_ELOST);
    assert_int_equal(call.code, 530);
    assert_says(call.text, "has reached the limit");
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    amqp_peer_refuse(stage.peer, AMQP_CHANNEL_OPEN, 1, AMQP_CODE_ACCESS_REFUSED, "ACCESS_REFUSED - no channels today");
    amqp_peer_refuse(stage.peer, AMQP_CHANNEL_OPEN, 2, AMQP_CODE_NOT_ALLOWED, "NOT_ALLOWED - limit");
    amqp_peer_cut(stage.peer, amqp_peer_publisher(stage.peer).connection, PEER_RST);
    amqp_publish_numbered(publisher, 0, 5);
    outcomes_wait(&outcomes, 5);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 5);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

/* Recovery --------------------------------------------------------------------------------------------------------------- */

static void each_step_of_recovery_that_is_not_answered_is_tried_again(void **state)
{
    (void)state;
    static const uint32_t steps[] = {AMQP_CHANNEL_OPEN, AMQP_CONFIRM_SELECT, AMQP_BASIC_QOS, AMQP_BASIC_CONSUME,
                                     AMQP_QUEUE_DECLARE};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct amqp_stage stage;
        struct outcomes outcomes = {0};
        struct parcels parcels = {0};
        coney_call call = {0};
        up(&stage);
        amqp_peer_allow_nonsense(stage.peer); /* a channel that it ignored is closed */
        assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
        coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
        coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
        for (int nth = 1; nth <= 3; nth++)
            amqp_peer_ignore(stage.peer, steps[i], nth);
        amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
        amqp_publish_numbered(publisher, 0, 5);
        if (!outcomes_reach(&outcomes, 5, 8000))
            fail_msg("nothing is published any more after %s was not answered", amqp_method_name(steps[i]));
        assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 5);
        amqp_peer_wait_consumers(stage.peer, "q", 1);
        amqp_peer_deliver(stage.peer, "q", 3, 1);
        if (!parcels_reach(&parcels, 1, scaled_ms(8000)))
            fail_msg("nothing is consumed any more after %s was not answered", amqp_method_name(steps[i]));
        warren_close_consumer(&consumer);
        amqp_publisher_close(&publisher);
        amqp_stage_down(&stage);
        outcomes_free(&outcomes);
        parcels_free(&parcels);
    }
}

/* Closing ---------------------------------------------------------------------------------------------------------------- */

static void a_publisher_whose_confirms_do_not_come_closes_at_the_deadline_with_an_outcome_for_each(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    amqp_peer_confirm_by_hand(stage.peer, true);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 7);
    amqp_peer_wait_messages(stage.peer, 7);
    coney_call call = {.deadline = scaled_ns(60)};
    assert_int_equal(coney_amqp_publisher_flush(publisher, &call), CONEY_ETIMEDOUT);
    assert_int_equal(coney_amqp_publisher_close(&publisher, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 7);
    assert_null(publisher);
    outcomes_are_in_order(&outcomes, 0, 7);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 7);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

static void an_old_message_becomes_unknown_after_the_confirm_timeout_and_a_late_confirm_is_harmless(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    amqp_peer_confirm_by_hand(stage.peer, true);
    coney_amqp_publisher_options options = {.confirm_timeout = scaled_ns(80)};
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, &options);
    amqp_publish_numbered(publisher, 0, 3);
    outcomes_wait(&outcomes, 3);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 3);
    amqp_publish_numbered(publisher, 3, 1);
    amqp_peer_wait_messages(stage.peer, 4);
    amqp_peer_ack(stage.peer, amqp_peer_publisher(stage.peer), 4, true);
    outcomes_wait(&outcomes, 4);
    assert_int_equal(outcomes_of(&outcomes, 3).status, CONEY_OK);
    amqp_publisher_close(&publisher);
    outcomes_are_in_order(&outcomes, 0, 4);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

static void a_consumer_whose_cancel_is_not_answered_closes_at_the_deadline(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    amqp_peer_ignore(stage.peer, AMQP_BASIC_CANCEL, PEER_EVERY);
    coney_call call = {.deadline = scaled_ns(60)};
    int64_t began = now_ms();
    (void)coney_amqp_consumer_close(&consumer, &call);
    assert_true(now_ms() - began < scaled_ms(1500));
    assert_null(consumer);
    coney_amqp_close(&stage.rabbit, NULL);
    assert_true(now_ms() - began < scaled_ms(4000));
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void an_environment_whose_broker_is_frozen_closes_soon(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    amqp_peer_freeze(stage.peer, true);
    amqp_publish_numbered(publisher, 0, 4);
    int64_t began = now_ms();
    coney_call call = {.deadline = scaled_ns(300)};
    (void)coney_amqp_close(&stage.rabbit, &call);
    assert_true(now_ms() - began < scaled_ms(3500));
    (void)consumer;
    outcomes_wait(&outcomes, 4);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 4);
    amqp_peer_freeze(stage.peer, false);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
    outcomes_free(&outcomes);
}

/* Transactions ----------------------------------------------------------------------------------------------------------- */

static coney_amqp_tx *begun(struct amqp_stage *stage)
{
    coney_call call = {0};
    coney_amqp_tx *tx = coney_amqp_tx_begin(stage->rabbit, &call);
    if (tx == NULL)
        fail_msg("no transaction: %s", call.text);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            coney_amqp_tx_publish(tx, &(coney_amqp_message){.body = CONEY_STR("x"), .routing_key = CONEY_STR("q")}), CONEY_OK);
    return tx;
}

static void a_commit_is_lost_before_it_is_sent_and_unknown_after(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    coney_amqp_tx *tx = begun(&stage);
    assert_int_equal(coney_amqp_tx_commit(&tx, &call), CONEY_OK);
    assert_int_equal(amqp_peer_message_count(stage.peer), 3);
    tx = begun(&stage);
    amqp_peer_cut_at(stage.peer, AMQP_TX_COMMIT, 1, PEER_RST);
    assert_int_equal(coney_amqp_tx_commit(&tx, &call), CONEY_EUNKNOWN);
    assert_null(tx);
    tx = begun(&stage);
    amqp_peer_wait_messages(stage.peer, 9);
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 1);
    assert_int_equal(coney_amqp_tx_commit(&tx, &call), CONEY_ELOST);
    tx = begun(&stage);
    assert_int_equal(coney_amqp_tx_rollback(&tx, &call), CONEY_OK);
    tx = begun(&stage);
    amqp_peer_ignore(stage.peer, AMQP_TX_COMMIT, 1);
    coney_call soon = {.deadline = scaled_ns(60)};
    coney_status status = coney_amqp_tx_commit(&tx, &soon);
    assert_true(status == CONEY_ETIMEDOUT || status == CONEY_EUNKNOWN);
    assert_null(tx);
    amqp_stage_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_whose_steps_are_not_answered_ends_at_its_deadline_and_the_next_one_works),
        cmocka_unit_test(opening_a_publisher_or_a_consumer_that_is_not_answered_ends_at_its_deadline),
        cmocka_unit_test(a_message_that_get_brings_too_late_goes_back_to_the_queue),
        cmocka_unit_test(a_message_that_get_brings_is_settled_once_also_when_its_connection_is_gone),
        cmocka_unit_test(a_channel_that_is_refused_is_told_and_tried_again_by_what_recovers),
        cmocka_unit_test(each_step_of_recovery_that_is_not_answered_is_tried_again),
        cmocka_unit_test(a_publisher_whose_confirms_do_not_come_closes_at_the_deadline_with_an_outcome_for_each),
        cmocka_unit_test(an_old_message_becomes_unknown_after_the_confirm_timeout_and_a_late_confirm_is_harmless),
        cmocka_unit_test(a_consumer_whose_cancel_is_not_answered_closes_at_the_deadline),
        cmocka_unit_test(an_environment_whose_broker_is_frozen_closes_soon),
        cmocka_unit_test(a_commit_is_lost_before_it_is_sent_and_unknown_after),
    };
    return run_tests(tests);
}
