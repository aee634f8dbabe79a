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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_wait_for_topology_end_when_the_environment_is_closed),
    };
    return run_tests(tests);
}
