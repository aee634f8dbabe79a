/* A disk alarm on a node of our own: publishing stops, everything else goes on, and when it ends nothing is lost. */
#define _GNU_SOURCE
#include "scene.h"
#include "traffic.h"

static struct node node;

static void wait_for_alarm(bool on)
{
    int64_t until = now_ms() + scaled_ms(30000);
    bool seen = !on;
    while (seen != on && now_ms() < until) {
        char *alarms = node_ctl(&node, "eval 'rabbit_alarm:get_alarms().'");
        seen = strstr(alarms, "disk") != NULL;
        free(alarms);
    }
    assert_true(seen == on);
}

static void raise_alarm(void)
{
    node_do(&node, "set_disk_free_limit 99999GB");
    wait_for_alarm(true);
}

static void end_alarm(void)
{
    node_do(&node, "set_disk_free_limit 50MB");
}

static int end_alarm_after(void **state)
{
    (void)state;
    end_alarm();
    return 0;
}

static void an_alarm_stops_publishing_alone_and_afterwards_all_is_confirmed(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    scene_set(&scene);
    scene.options.heartbeat = CONEY_SECOND;
    scene_open(&scene, node.uri);
    scene_fill(&scene, 0, 1000);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, &(coney_stream_producer_options){.name = "writer"});
    stage_send(producer, 1000, 1);
    outcomes_wait(&outcomes, 1);
    raise_alarm();
    stage_send(producer, 1001, 4999);

    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .name = "reader"};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
    deliveries_wait(&deliveries, 1001);
    assert_int_equal(coney_stream_consumer_store(consumer, 500), CONEY_OK);
    coney_call call = {0};
    assert_int_equal(coney_stream_exists(scene.env, scene.stream, &call), CONEY_OK);
    assert_int_equal(call.value, 1);
    /* Longer than a silent connection lives. */
    assert_false(outcomes_reach(&outcomes, 5000, 4000));
    assert_true(outcomes_count(&outcomes) < 5000);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), outcomes_count(&outcomes));

    end_alarm();
    assert_true(outcomes_reach(&outcomes, 5000, 30000));
    outcomes_are_each_once(&outcomes, 1000, 5000);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 5000);
    deliveries_wait(&deliveries, 6000);
    producer_close(&producer);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 0, 6000);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void a_producer_opened_during_an_alarm_is_refused_with_the_reason(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    raise_alarm();
    coney_call call = {0};
    coney_stream_producer *producer =
        coney_stream_producer_open(scene.env, scene.stream, &(coney_stream_producer_options){0}, &call);
    assert_null(producer);
    assert_int_equal(call.status, CONEY_EPRECONDITION);
    assert_says(call.text, "disk space");
    assert_says(call.text, scene.stream);
    end_alarm();
    wait_for_alarm(false);
    producer = scene_producer(&scene, NULL, NULL);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    producer_close(&producer);
    scene_down(&scene);
}

static void an_alarm_under_load_loses_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    scene_up(&scene, node.uri);
    traffic_start(&traffic, &scene, 40000, "writer");
    traffic_passes(&traffic, 5000);
    raise_alarm();
    end_alarm();
    traffic_is_whole(&traffic);
    scene_down(&scene);
}

int main(void)
{
    if (!node_start(&node, "alarm", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_alarm_stops_publishing_alone_and_afterwards_all_is_confirmed, end_alarm_after),
        cmocka_unit_test_teardown(a_producer_opened_during_an_alarm_is_refused_with_the_reason, end_alarm_after),
        cmocka_unit_test_teardown(an_alarm_under_load_loses_nothing, end_alarm_after),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
