/* Recovery on a node of our own that is killed, stopped and started again. */
#define _GNU_SOURCE
#include "scene.h"
#include "traffic.h"

static struct node node;

static int start(void **state)
{
    (void)state;
    node_restart(&node);
    return 0;
}

/* Restarts -------------------------------------------------------------------------------------------------------- */

/* Fails unless events of these types came in this order, others between them. */
static void events_came(struct events *events, const coney_event_type *types, size_t count)
{
    size_t at = 0;
    monitor_lock(&events->monitor);
    for (size_t i = 0; i < events->count && at < count; i++)
        at += events->all[i].type == types[at];
    monitor_unlock(&events->monitor);
    if (at < count) {
        events_print(events);
        fail_msg("the event \"%s\" did not come in its place", coney_event_name(types[at]));
    }
}

static void recovered(struct scene *scene, size_t times)
{
    if (events_reach(&scene->events, CONEY_EVENT_RECOVERED, times, 30000))
        return;
    events_print(&scene->events);
    fail_msg("the producer or the consumer does not work again");
}

static void survives_kills(const char *name, size_t kills)
{
    struct scene scene;
    struct traffic traffic;
    scene_up(&scene, node.uri);
    traffic_start(&traffic, &scene, 30000 + kills * 10000, name);
    for (size_t kill = 1; kill <= kills; kill++) {
        traffic_passes(&traffic, kill * 10000);
        node_kill(&node);
        node_restart(&node);
        recovered(&scene, kill * 2);
    }
    traffic_is_whole(&traffic);
    static const coney_event_type steps[] = {CONEY_EVENT_CONNECTED, CONEY_EVENT_DISCONNECTED, CONEY_EVENT_RECOVERING,
                                             CONEY_EVENT_CONNECTED, CONEY_EVENT_RECOVERED};
    events_came(&scene.events, steps, sizeof steps / sizeof steps[0]);
    scene_down(&scene);
}

static void a_node_killed_under_load_loses_nothing_that_was_sent(void **state)
{
    (void)state;
    survives_kills(NULL, 1);
}

static void under_a_name_nothing_is_stored_twice_however_often_the_node_is_killed(void **state)
{
    (void)state;
    survives_kills("writer", 2);
}

static void a_node_that_is_stopped_in_order_and_started_again_loses_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    scene_up(&scene, node.uri);
    traffic_start(&traffic, &scene, 30000, "writer");
    traffic_passes(&traffic, 10000);
    node_shut(&node);
    node_restart(&node);
    traffic_is_whole(&traffic);
    scene_down(&scene);
}

static void SB_105_with_the_node_gone_close_is_fast_and_tells_what_is_unknown(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    coney_stream_consumer_options from_first = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &from_first);
    stage_send(producer, 0, 100);
    outcomes_wait(&outcomes, 100);
    node_kill(&node);
    assert_true(events_reach(&scene.events, CONEY_EVENT_RECOVERY_FAILED, 2, 10000));
    stage_send(producer, 100, 50);
    coney_call call = {0};
    int64_t begun = now_ms();
    coney_stream_producer_close(&producer, &call);
    assert_int_equal(call.value, 50);
    assert_int_equal(outcomes_count(&outcomes), 150);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 50);
    assert_true(outcomes_of(&outcomes, 149).unsent);
    consumer_close(&consumer);
    coney_stream_env_close(&scene.env, NULL);
    assert_true(now_ms() - begun < scaled_ms(500));
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
    events_free(&scene.events);
}

/* A node writes down that it coordinates streams some time after its first one was made: killed sooner, it never serves a stream
 * again. An orderly stop writes it down. */
static void make_it_remember_streams(void)
{
    struct scene scene;
    scene_up(&scene, node.uri);
    scene_down(&scene);
    node_shut(&node);
    node_restart(&node);
}

int main(void)
{
    if (!node_start(&node, "recovery", ""))
        return 77;
    make_it_remember_streams();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_killed_under_load_loses_nothing_that_was_sent),
        cmocka_unit_test(under_a_name_nothing_is_stored_twice_however_often_the_node_is_killed),
        cmocka_unit_test(a_node_that_is_stopped_in_order_and_started_again_loses_nothing),
        cmocka_unit_test_teardown(SB_105_with_the_node_gone_close_is_fast_and_tells_what_is_unknown, start),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
