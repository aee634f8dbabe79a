/* A real node behind the fault proxy: cuts, half-open connections, delays, damaged bytes. Nothing is lost, nothing comes twice. */
#define _GNU_SOURCE
#include "proxy.h"
#include "scene.h"
#include "traffic.h"

static struct node node;

/* A scene whose broker is behind a proxy; heartbeats are the shortest that there are. */
static struct proxy *scene_behind_proxy(struct scene *scene)
{
    struct proxy *proxy = proxy_start("127.0.0.1", node.stream_port);
    scene_set(scene);
    scene->options.resolve_address = proxy_resolve;
    scene->options.resolver_ctx = proxy;
    scene->options.heartbeat = CONEY_SECOND;
    scene_open(scene, proxy_uri(proxy));
    return proxy;
}

static void cuts_under_load_lose_and_repeat_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    struct proxy *proxy = scene_behind_proxy(&scene);
    traffic_start(&traffic, &scene, 20000, "writer");
    for (size_t cut = 1; cut <= 5; cut++) {
        traffic_passes(&traffic, cut * 3000);
        proxy_cut(proxy, cut % 2 == 0 ? PROXY_FIN : PROXY_RST);
        assert_true(events_reach(&scene.events, CONEY_EVENT_RECOVERED, cut * 2, 30000));
    }
    traffic_is_whole(&traffic);
    struct event lost = events_wait(&scene.events, CONEY_EVENT_DISCONNECTED, 0);
    assert_string_not_equal(lost.text, "");
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void SB_76_a_connection_that_went_silent_is_given_up_after_missed_heartbeats(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    struct proxy *proxy = scene_behind_proxy(&scene);
    traffic_start(&traffic, &scene, 20000, "writer");
    traffic_passes(&traffic, 2000);
    int64_t begun = now_ms();
    proxy_swallow(proxy, true);
    assert_true(events_reach(&scene.events, CONEY_EVENT_DISCONNECTED, 1, 10000));
    assert_true(now_ms() - begun < scaled_ms(5000));
    proxy_swallow(proxy, false);
    /* The ends that were cut off are not repaired. */
    traffic_is_whole(&traffic);
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void a_slow_way_to_the_broker_loses_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    struct proxy *proxy = scene_behind_proxy(&scene);
    proxy_delay(proxy, 20);
    traffic_start(&traffic, &scene, 10000, "writer");
    traffic_is_whole(&traffic);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_DISCONNECTED), 0);
    proxy_delay(proxy, 0);
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void SB_34_a_damaged_chunk_is_an_event_and_is_delivered_whole_afterwards(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    for (uint64_t i = 0; i < 10; i++)
        scene_fill(&scene, i * 100, 100);
    proxy_corrupt_chunks(proxy, 1);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
    struct event event = events_wait(&scene.events, CONEY_EVENT_CORRUPT_CHUNK, 0);
    assert_int_equal(event.offset, 0);
    assert_int_equal(event.status, CONEY_ECORRUPT);
    assert_string_equal(event.name, scene.stream);
    deliveries_wait(&deliveries, 1000);
    consumer_close(&consumer);
    bodies_are_in_order(&deliveries, 0, 1000);
    deliveries_are_in_order(&deliveries, 0, 1000);
    deliveries_free(&deliveries);
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void a_chunk_that_stays_damaged_stops_its_consumer(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    scene_fill(&scene, 0, 100);
    proxy_corrupt_chunks(proxy, 1000);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
    struct event event = events_wait(&scene.events, CONEY_EVENT_GAVE_UP, 0);
    assert_int_equal(event.status, CONEY_ECORRUPT);
    assert_ptr_equal(event.handle, consumer);
    assert_int_equal(deliveries_count(&deliveries), 0);
    consumer_close(&consumer);
    proxy_corrupt_chunks(proxy, 0);
    deliveries_free(&deliveries);
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void a_damaged_byte_anywhere_ends_in_recovery_not_in_loss(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    scene_fill(&scene, 0, 2000);
    struct dice dice = dice_of(20261130);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    for (size_t round = 0; round < 20; round++) {
        coney_stream_consumer *consumer = NULL;
        coney_call call = {0};
        options.on_message = deliveries_add;
        options.ctx = &deliveries;
        proxy_corrupt(proxy, PROXY_TO_CLIENT, dice_roll(&dice, 30000));
        /* The byte may hit the answers to the opening itself: a clear failure, then. */
        consumer = coney_stream_consumer_open(scene.env, scene.stream, &options, &call);
        if (consumer == NULL) {
            assert_string_not_equal(call.text, "");
        } else {
            deliveries_wait(&deliveries, 2000);
            consumer_close(&consumer);
            bodies_are_in_order(&deliveries, 0, 2000);
        }
        deliveries_free(&deliveries);
        deliveries = (struct deliveries){0};
    }
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void a_refused_confirm_is_an_outcome_with_the_brokers_code(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    proxy_refuse_confirms(proxy, 1, 15);
    stage_send(producer, 0, 1);
    outcomes_wait(&outcomes, 1);
    assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_EREFUSED);
    assert_int_equal(outcomes_of(&outcomes, 0).code, 15);
    stage_send(producer, 1, 1);
    outcomes_wait(&outcomes, 2);
    assert_int_equal(outcomes_of(&outcomes, 1).status, CONEY_OK);
    producer_close(&producer);
    outcomes_free(&outcomes);
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void without_resending_what_was_cut_off_is_unknown(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, &(coney_stream_producer_options){.no_resend = true});
    stage_send(producer, 0, 100);
    outcomes_wait(&outcomes, 100);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    stage_send(producer, 100, 100);
    proxy_cut(proxy, PROXY_RST);
    outcomes_wait(&outcomes, 200);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 100);
    outcomes_are_in_order(&outcomes, 0, 200);
    proxy_limit(proxy, PROXY_TO_CLIENT, 0);
    events_wait(&scene.events, CONEY_EVENT_RECOVERED, 0);
    stage_send(producer, 200, 100);
    outcomes_wait(&outcomes, 300);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 200);
    producer_close(&producer);
    outcomes_free(&outcomes);
    scene_down(&scene);
    proxy_stop(&proxy);
}

int main(void)
{
    if (!node_shared(&node) || node.stream_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_under_load_lose_and_repeat_nothing),
        cmocka_unit_test(SB_76_a_connection_that_went_silent_is_given_up_after_missed_heartbeats),
        cmocka_unit_test(a_slow_way_to_the_broker_loses_nothing),
        cmocka_unit_test(SB_34_a_damaged_chunk_is_an_event_and_is_delivered_whole_afterwards),
        cmocka_unit_test(a_chunk_that_stays_damaged_stops_its_consumer),
        cmocka_unit_test(a_damaged_byte_anywhere_ends_in_recovery_not_in_loss),
        cmocka_unit_test(a_refused_confirm_is_an_outcome_with_the_brokers_code),
        cmocka_unit_test(without_resending_what_was_cut_off_is_unknown),
    };
    return run_tests(tests);
}
