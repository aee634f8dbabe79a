/* Losses on a node of our own that keeps running: connections closed, the node frozen, streams deleted, the plugin gone; and how
 * connections show there. */
#define _GNU_SOURCE
#include "scene.h"
#include "traffic.h"

#include <signal.h>

static struct node node;

static int unfreeze(void **state)
{
    (void)state;
    node_signal(&node, SIGCONT);
    return 0;
}

static void recovered(struct scene *scene, size_t times)
{
    if (events_reach(&scene->events, CONEY_EVENT_RECOVERED, times, 30000))
        return;
    events_print(&scene->events);
    fail_msg("the producer or the consumer does not work again");
}

/* Connections ----------------------------------------------------------------------------------------------------- */

static void connections_that_the_broker_closes_are_made_again(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    scene_up(&scene, node.uri);
    traffic_start(&traffic, &scene, 40000, "writer");
    traffic_passes(&traffic, 5000);
    node_do(&node, "eval '[rabbit_networking:close_connection(P, \"by the operator\") || P <- "
                   "rabbit_networking:local_non_amqp_connections()].'");
    recovered(&scene, 2);
    traffic_is_whole(&traffic);
    scene_down(&scene);
}

static void SB_75_a_frozen_node_is_noticed_by_its_missing_heartbeats(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_set(&scene);
    scene.options.heartbeat = CONEY_SECOND;
    scene.options.connect_timeout = CONEY_SECOND;
    scene_open(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    stage_send(producer, 0, 10);
    outcomes_wait(&outcomes, 10);
    int64_t begun = now_ms();
    node_signal(&node, SIGSTOP);
    stage_send(producer, 10, 10);
    struct event lost = events_wait(&scene.events, CONEY_EVENT_DISCONNECTED, 0);
    assert_in_range(now_ms() - begun, 1000, scaled_ms(5000));
    assert_says(lost.text, "heartbeat");
    assert_true(events_reach(&scene.events, CONEY_EVENT_RECOVERING, 1, 10000));
    node_signal(&node, SIGCONT);
    outcomes_wait(&outcomes, 20);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 20);
    producer_close(&producer);
    outcomes_free(&outcomes);
    scene_down(&scene);
}

static void heartbeats_keep_an_idle_connection(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_set(&scene);
    scene.options.heartbeat = CONEY_SECOND;
    scene_open(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    events_none(&scene.events, CONEY_EVENT_DISCONNECTED, 4000);
    stage_send(producer, 0, 1);
    outcomes_wait(&outcomes, 1);
    producer_close(&producer);
    outcomes_free(&outcomes);
    scene_down(&scene);
}

/* Streams --------------------------------------------------------------------------------------------------------- */

static void a_stream_deleted_under_its_users_ends_them_with_an_event(void **state)
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
    deliveries_wait(&deliveries, 100);
    assert_int_equal(coney_stream_delete(scene.env, scene.stream, NULL), CONEY_OK);
    assert_true(events_reach(&scene.events, CONEY_EVENT_GAVE_UP, 2, 20000));
    for (size_t i = 0; i < 2; i++) {
        struct event event = events_wait(&scene.events, CONEY_EVENT_GAVE_UP, i);
        assert_int_equal(event.status, CONEY_ENOTFOUND);
        assert_string_equal(event.name, scene.stream);
        assert_true(event.handle == producer || event.handle == consumer);
    }
    assert_true(events_count(&scene.events, CONEY_EVENT_STREAM_GONE) >= 1);
    uint64_t late = 0; /* accepted while the event was on its way */
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (coney_stream_send(producer, CONEY_STR("late"), 100 + late) == CONEY_OK && now_ms() < until)
        late++;
    assert_int_equal(coney_stream_send(producer, CONEY_STR("late"), 0), CONEY_ECLOSED);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("late"), NULL), CONEY_ECLOSED);
    producer_close(&producer);
    consumer_close(&consumer);
    outcomes_are_each_once(&outcomes, 0, 100 + late);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 100);
    assert_int_equal(deliveries_count(&deliveries), 100);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void a_stream_deleted_under_load_leaves_every_message_one_outcome(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    scene_up(&scene, node.uri);
    traffic_start(&traffic, &scene, 1000000, NULL);
    traffic_passes(&traffic, 5000);
    assert_int_equal(coney_stream_delete(scene.env, scene.stream, NULL), CONEY_OK);
    pthread_join(traffic.thread, NULL);
    assert_int_equal(traffic.status, CONEY_ECLOSED);
    traffic_passes(&traffic, traffic.accepted);
    outcomes_are_each_once(&traffic.outcomes, 0, traffic.accepted);
    producer_close(&traffic.producer);
    consumer_close(&traffic.consumer);
    assert_int_equal(outcomes_count(&traffic.outcomes), traffic.accepted);
    outcomes_free(&traffic.outcomes);
    deliveries_free(&traffic.deliveries);
    scene_down(&scene);
}

/* The plugin ------------------------------------------------------------------------------------------------------ */

static void a_node_without_the_stream_plugin_is_told_and_recovered_from(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    scene_up(&scene, node.uri);
    traffic_start(&traffic, &scene, 20000, "writer");
    traffic_passes(&traffic, 5000);
    node_do(&node, "rabbitmq-plugins -q disable rabbitmq_stream");
    assert_true(events_reach(&scene.events, CONEY_EVENT_RECOVERING, 2, 30000));
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(node.uri, NULL, &call);
    assert_null(env);
    assert_int_equal(call.status, CONEY_ECONNECT);
    assert_says(call.text, "rabbitmq_stream");
    node_do(&node, "rabbitmq-plugins -q enable rabbitmq_stream");
    traffic_is_whole(&traffic);
    scene_down(&scene);
}

/* What the broker knows of us ------------------------------------------------------------------------------------- */

/* On the shared node the list would break connections of other tests: a broker that is asked about one in its log-in ends it. */
static void connections_show_their_name_purpose_and_properties(void **state)
{
    (void)state;
    struct scene scene;
    scene_set(&scene);
    const coney_field properties[] = {{CONEY_STR_INIT("ship"), coney_value_string(CONEY_STR("nellie"))}};
    char name[80];
    fresh_name(name, sizeof name, "named");
    scene.options.name = name;
    scene.options.client_properties = properties;
    scene.options.client_property_count = 1;
    scene.options.heartbeat = 7 * CONEY_SECOND;
    scene.options.frame_max = 512 * CONEY_KIB;
    scene_open(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, NULL, NULL);
    char *connections =
        node_ctl(&node, "rabbitmq-streams -q list_stream_connections client_properties heartbeat frame_max --formatter json");
    char expected[120];
    snprintf(expected, sizeof expected, "%s-control", name);
    assert_says(connections, expected);
    snprintf(expected, sizeof expected, "%s-publish", name);
    assert_says(connections, expected);
    assert_says(connections, "nellie");
    assert_says(connections, "\"heartbeat\":7");
    assert_says(connections, "\"frame_max\":524288");
    free(connections);
    producer_close(&producer);
    scene_down(&scene);
}

int main(void)
{
    if (!node_start(&node, "loss", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_show_their_name_purpose_and_properties),
        cmocka_unit_test(connections_that_the_broker_closes_are_made_again),
        cmocka_unit_test_teardown(SB_75_a_frozen_node_is_noticed_by_its_missing_heartbeats, unfreeze),
        cmocka_unit_test(heartbeats_keep_an_idle_connection),
        cmocka_unit_test(a_stream_deleted_under_its_users_ends_them_with_an_event),
        cmocka_unit_test(a_stream_deleted_under_load_leaves_every_message_one_outcome),
        cmocka_unit_test(a_node_without_the_stream_plugin_is_told_and_recovered_from),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
