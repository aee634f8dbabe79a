/* The scripted AMQP broker itself: what other tests rely on. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

static void messages_are_confirmed_and_deliveries_settled_by_default(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 100);
    outcomes_wait(&outcomes, 100);
    outcomes_are_in_order(&outcomes, 0, 100);
    assert_int_equal(amqp_peer_message_count(stage.peer), 100);
    assert_true(bytes_equal(amqp_peer_message_of(stage.peer, 7).body, CONEY_STR("m7")));
    amqp_publisher_close(&publisher);

    amqp_peer_feed(stage.peer, "q", 1000);
    coney_amqp_consumer_options options = {.prefetch = 10};
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, &options);
    parcels_wait(&parcels, 1000);
    parcels_are_in_order(&parcels, 0, 1000);
    amqp_peer_wait_feed_done(stage.peer, 1000);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
}

static void a_rule_holds_refuses_or_cuts_what_it_names(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    coney_call call = {0};
    amqp_peer_refuse(stage.peer, AMQP_QUEUE_DECLARE, 1, AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - no");
    assert_int_equal(amqp_stage_declare(&stage, "a", &call), CONEY_EPRECONDITION);
    assert_int_equal(amqp_stage_declare(&stage, "a", &call), CONEY_OK);
    amqp_peer_hold(stage.peer, AMQP_QUEUE_DECLARE, 1);
    struct waited_call held = {0};
    amqp_stage_declare(&stage, "b", waited_call_of(&held, 0));
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 3);
    assert_int_equal(waited_call_count(&held), 0);
    amqp_peer_release(stage.peer, AMQP_QUEUE_DECLARE);
    assert_int_equal(waited_call_wait(&held), CONEY_OK);
    amqp_peer_cut_at(stage.peer, AMQP_QUEUE_DECLARE, 1, PEER_RST);
    assert_int_equal(amqp_stage_declare(&stage, "c", &call), CONEY_ELOST);
    amqp_stage_down(&stage);
    waited_call_free(&held);
}

static void in_pieces_of_any_size_the_same_arrives(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 40; piece += 6) {
        struct amqp_stage stage;
        struct parcels parcels = {0};
        amqp_stage_set(&stage);
        amqp_peer_chop(stage.peer, piece);
        amqp_stage_open(&stage);
        amqp_peer_feed(stage.peer, "q", 50);
        coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
        parcels_wait(&parcels, 50);
        parcels_are_in_order(&parcels, 0, 50);
        warren_close_consumer(&consumer);
        amqp_stage_down(&stage);
        parcels_free(&parcels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_confirmed_and_deliveries_settled_by_default),
        cmocka_unit_test(a_rule_holds_refuses_or_cuts_what_it_names),
        cmocka_unit_test(in_pieces_of_any_size_the_same_arrives),
    };
    return run_tests(tests);
}
