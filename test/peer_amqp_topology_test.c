/* Topology against a scripted broker: what a call meets when connections are lost and topology is on its way back. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

static void cut(struct amqp_stage *stage, const char *purpose)
{
    size_t lost = events_count(&stage->events, CONEY_EVENT_DISCONNECTED);
    amqp_peer_cut(stage->peer, amqp_peer_connection(stage->peer, purpose), PEER_RST);
    events_wait(&stage->events, CONEY_EVENT_DISCONNECTED, lost);
}

/* Returns when the loop has done all that it was asked for before. */
static void settle_down(struct amqp_stage *stage)
{
    assert_int_equal(coney_amqp_update_secret(stage->rabbit, "guest", NULL), CONEY_OK);
}

/* While topology is on its way back -------------------------------------------------------------------------------------- */

static void calls_that_wait_for_topology_end_when_the_environment_is_closed(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call declared = {0}, got = {0};
    coney_kept *kept;
    amqp_stage_set(&stage);
    stage.options.recovery_delay = stage.options.recovery_max_delay = 3600 * CONEY_SECOND;
    amqp_stage_open(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", NULL), CONEY_OK);
    amqp_peer_ignore(stage.peer, AMQP_QUEUE_DECLARE, PEER_EVERY);
    cut(&stage, "control");
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 2); /* again */
    assert_int_equal(amqp_stage_declare(&stage, "another", waited_call_of(&declared, CONEY_OFF)), CONEY_OK);
    assert_int_equal(coney_amqp_get(stage.rabbit, "q", &kept, waited_call_of(&got, CONEY_OFF)), CONEY_OK);
    settle_down(&stage);
    cut(&stage, "control"); /* the next attempt is in an hour */
    size_t accepted = amqp_peer_accepted(stage.peer);
    assert_int_equal(coney_amqp_close(&stage.rabbit, NULL), CONEY_OK);
    assert_int_equal(waited_call_wait(&declared), CONEY_ECLOSED);
    assert_int_equal(waited_call_wait(&got), CONEY_ECLOSED);
    assert_int_equal(amqp_peer_accepted(stage.peer), accepted);
    amqp_stage_down(&stage);
    waited_call_free(&declared);
    waited_call_free(&got);
}

/* What is taken back meanwhile -------------------------------------------------------------------------------------------- */

static void is_gone(struct waited_call *deleted)
{
    assert_int_equal(waited_call_wait(deleted), CONEY_OK);
    waited_call_free(deleted);
}

static void a_queue_is_not_declared_again_while_its_delete_is_on_the_wire(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call deleted = {0};
    amqp_stage_up(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", NULL), CONEY_OK);
    assert_int_equal(amqp_stage_declare(&stage, "other", NULL), CONEY_OK);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, NULL, NULL);
    amqp_peer_hold(stage.peer, AMQP_QUEUE_DELETE, 1);
    assert_int_equal(coney_amqp_queue_delete(stage.rabbit, "q", 0, waited_call_of(&deleted, 0)), CONEY_OK);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DELETE, 1);
    cut(&stage, "publish");
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 3);
    const struct amqp_peer_record *again = amqp_peer_record_of(stage.peer, AMQP_QUEUE_DECLARE, 2);
    assert_true(bytes_equal(again->method.queue_declare.queue, CONEY_STR("other")));
    amqp_peer_release(stage.peer, AMQP_QUEUE_DELETE);
    is_gone(&deleted);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    cut(&stage, "publish");
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 1);
    assert_int_equal(amqp_stage_declare(&stage, "last", NULL), CONEY_OK);
    for (size_t i = 3; i < amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE); i++) {
        again = amqp_peer_record_of(stage.peer, AMQP_QUEUE_DECLARE, i);
        assert_false(bytes_equal(again->method.queue_declare.queue, CONEY_STR("q")));
    }
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
}

static void a_queue_whose_delete_was_refused_is_declared_again(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call deleted = {0};
    amqp_stage_up(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", NULL), CONEY_OK);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, NULL, NULL);
    amqp_peer_ignore(stage.peer, AMQP_QUEUE_DELETE, 1);
    assert_int_equal(coney_amqp_queue_delete(stage.rabbit, "q", CONEY_IF_EMPTY, waited_call_of(&deleted, 0)), CONEY_OK);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DELETE, 1);
    cut(&stage, "publish");
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE), 1);
    const struct amqp_peer_record *delete = amqp_peer_record_of(stage.peer, AMQP_QUEUE_DELETE, 0);
    amqp_peer_close_channel(stage.peer, (struct amqp_peer_place){delete->connection, delete->channel},
                            AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - queue 'q' in vhost '/' is not empty");
    assert_int_equal(waited_call_wait(&deleted), CONEY_EPRECONDITION);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 2);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    waited_call_free(&deleted);
}

static void a_delete_waits_for_the_answer_when_its_queue_is_just_declared_again(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call deleted = {0};
    coney_amqp_queue queue = {.name = "q", .auto_delete = true};
    amqp_stage_up(&stage);
    assert_int_equal(coney_amqp_queue_declare(stage.rabbit, &queue, NULL), CONEY_OK);
    cut(&stage, "control");
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 2);
    amqp_peer_hold(stage.peer, AMQP_QUEUE_DECLARE, 1);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 3); /* the second look at it */
    assert_int_equal(coney_amqp_queue_delete(stage.rabbit, "q", 0, waited_call_of(&deleted, 0)), CONEY_OK);
    settle_down(&stage);
    assert_int_equal(coney_amqp_queue_delete(stage.rabbit, "another", 0, NULL), CONEY_OK);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_QUEUE_DELETE), 1);
    amqp_peer_release(stage.peer, AMQP_QUEUE_DECLARE);
    is_gone(&deleted);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_QUEUE_DELETE), 2);
    amqp_stage_down(&stage);
}

/* Words ------------------------------------------------------------------------------------------------------------------- */

static void the_brokers_words_are_told_whole_whatever_is_in_them(void **state)
{
    (void)state;
    const char *words = "inequivalent arg 'x-a - b (code c)' for queue 'q' in vhost '/'";
    struct amqp_stage stage;
    coney_call call = {0};
    char reason[200];
    snprintf(reason, sizeof reason, "PRECONDITION_FAILED - %s", words);
    amqp_stage_up(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", NULL), CONEY_OK);
    amqp_peer_refuse(stage.peer, AMQP_QUEUE_DECLARE, PEER_EVERY, AMQP_CODE_PRECONDITION_FAILED, reason);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_EPRECONDITION);
    assert_int_equal(call.code, 406);
    assert_says(call.text, words);
    cut(&stage, "control");
    struct event failed = events_wait(&stage.events, CONEY_EVENT_TOPOLOGY_FAILED, 0);
    assert_int_equal(failed.status, CONEY_EPRECONDITION);
    assert_says(failed.text, words);
    amqp_stage_down(&stage);
}

static void a_declaration_for_which_the_connection_is_closed_says_so(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    amqp_peer_refuse(stage.peer, AMQP_QUEUE_DECLARE, 1, AMQP_CODE_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - no such queue - at all");
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_ELOST);
    assert_int_equal(call.code, AMQP_CODE_NOT_IMPLEMENTED);
    assert_says(call.text, "cannot declare queue 'q': ");
    assert_says(call.text, "closed the connection: NOT_IMPLEMENTED - no such queue - at all (code 540)");
    amqp_stage_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_wait_for_topology_end_when_the_environment_is_closed),
        cmocka_unit_test(a_queue_is_not_declared_again_while_its_delete_is_on_the_wire),
        cmocka_unit_test(a_queue_whose_delete_was_refused_is_declared_again),
        cmocka_unit_test(a_delete_waits_for_the_answer_when_its_queue_is_just_declared_again),
        cmocka_unit_test(the_brokers_words_are_told_whole_whatever_is_in_them),
        cmocka_unit_test(a_declaration_for_which_the_connection_is_closed_says_so),
    };
    return run_tests(tests);
}
