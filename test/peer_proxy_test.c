/* Faults of the way between us and the broker: delay, half-open, slow, lost frames, wrong bytes. */
#define _GNU_SOURCE
#include "proxy.h"
#include "stage.h"

struct way {
    struct stage stage;
    struct proxy *proxy;
};

static void way_set(struct way *way)
{
    stage_set(&way->stage);
    way->proxy = proxy_start("127.0.0.1", peer_port(way->stage.peer));
    way->stage.options.resolve_address = proxy_resolve;
    way->stage.options.resolver_ctx = way->proxy;
}

static void way_open(struct way *way)
{
    coney_call call = {0};
    way->stage.env = coney_stream_env_open(proxy_uri(way->proxy), &way->stage.options, &call);
    if (way->stage.env == NULL)
        fail_msg("%s: %s", coney_status_name(call.status), call.text);
}

static void way_down(struct way *way)
{
    coney_stream_env_close(&way->stage.env, NULL);
    proxy_stop(&way->proxy);
    stage_down(&way->stage);
}

static void a_long_way_delays_but_loses_and_reorders_nothing(void **state)
{
    (void)state;
    struct way way;
    struct outcomes outcomes = {0};
    way_set(&way);
    proxy_delay(way.proxy, 15);
    way_open(&way);
    coney_stream_producer *producer = stage_producer(&way.stage, "s", &outcomes, NULL);
    for (uint64_t i = 0; i < 10; i++)
        stage_send(producer, i * 500, 500);
    outcomes_wait(&outcomes, 5000);
    outcomes_are_in_order(&outcomes, 0, 5000);
    producer_close(&producer);
    way_down(&way);
    outcomes_free(&outcomes);
}

static void SB_76_a_half_open_connection_is_found_by_its_heartbeats_and_nothing_is_lost(void **state)
{
    (void)state;
    struct way way;
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    way_set(&way);
    way.stage.options.heartbeat = CONEY_SECOND;
    way_open(&way);
    coney_stream_producer *producer = stage_producer(&way.stage, "s", &outcomes, NULL);
    coney_stream_consumer *consumer = stage_consumer(&way.stage, "s", &deliveries, NULL);
    int64_t before = now_ms();
    proxy_swallow(way.proxy, true);
    stage_send(producer, 0, 10); /* into nothing */
    struct event lost = events_wait(&way.stage.events, CONEY_EVENT_DISCONNECTED, 0);
    assert_true(lost.status != CONEY_OK);
    assert_true(now_ms() - before >= 1500 && now_ms() - before <= scaled_ms(4500));
    proxy_swallow(way.proxy, false);
    outcomes_wait(&outcomes, 10);
    outcomes_are_in_order(&outcomes, 0, 10);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 10);
    assert_true(events_reach(&way.stage.events, CONEY_EVENT_RECOVERED, 2, SUPPORT_PATIENCE));
    peer_deliver(way.stage.peer, "s", 0, 1);
    deliveries_wait(&deliveries, 1);
    producer_close(&producer);
    consumer_close(&consumer);
    way_down(&way);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
}

static void a_broker_that_reads_slowly_slows_the_sender_and_loses_nothing(void **state)
{
    (void)state;
    struct way way;
    struct outcomes outcomes = {0};
    way_set(&way);
    way_open(&way);
    coney_stream_producer_options options = {.max_messages = 200};
    coney_stream_producer *producer = stage_producer(&way.stage, "s", &outcomes, &options);
    proxy_limit(way.proxy, PROXY_TO_BROKER, 2000000);
    static uint8_t body[4000];
    int64_t before = now_ms();
    for (uint64_t i = 0; i < 500; i++)
        assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, sizeof body), i), CONEY_OK);
    outcomes_wait(&outcomes, 500);
    assert_true(now_ms() - before >= 500);
    outcomes_are_in_order(&outcomes, 0, 500);
    assert_int_equal(events_count(&way.stage.events, CONEY_EVENT_DISCONNECTED), 0);
    producer_close(&producer);
    way_down(&way);
    outcomes_free(&outcomes);
}

static void a_broker_that_reads_nothing_blocks_neither_answers_elsewhere_nor_close(void **state)
{
    (void)state;
    struct way way;
    struct outcomes outcomes = {0};
    way_set(&way);
    way_open(&way);
    coney_stream_producer_options options = {.enqueue_timeout = CONEY_OFF};
    coney_stream_producer *producer = stage_producer(&way.stage, "s", &outcomes, &options);
    peer_stop_reading(way.stage.peer, peer_producer_connection(way.stage.peer, "s"), true);
    static uint8_t body[1000000];
    uint64_t accepted = 0;
    while (accepted < 200 && coney_stream_send(producer, coney_bytes_of(body, sizeof body), accepted) == CONEY_OK)
        accepted++;
    assert_true(accepted < 200);
    assert_int_equal(coney_stream_create(way.stage.env, "t", NULL, NULL), CONEY_OK);
    coney_call call = {.deadline = 200 * CONEY_MILLISECOND};
    coney_stream_producer_close(&producer, &call);
    assert_int_equal(call.value, accepted);
    outcomes_are_in_order(&outcomes, 0, accepted);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), accepted);
    way_down(&way);
    outcomes_free(&outcomes);
}

static void a_lost_publish_and_a_lost_confirm_end_in_unknown_at_the_confirm_deadline(void **state)
{
    (void)state;
    for (int direction = PROXY_TO_BROKER; direction <= PROXY_TO_CLIENT; direction++) {
        struct way way;
        struct outcomes outcomes = {0};
        way_set(&way);
        way_open(&way);
        coney_stream_producer_options options = {.confirm_timeout = scaled_ns(300)};
        coney_stream_producer *producer = stage_producer(&way.stage, "s", &outcomes, &options);
        proxy_drop(way.proxy, (enum proxy_direction)direction, 1);
        stage_send(producer, 0, 1);
        outcomes_wait(&outcomes, 1);
        assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_EUNKNOWN);
        assert_false(outcomes_of(&outcomes, 0).unsent);
        assert_int_equal(peer_message_count(way.stage.peer), direction == PROXY_TO_BROKER ? 0 : 1);
        assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
        producer_close(&producer);
        way_down(&way);
        outcomes_free(&outcomes);
    }
}

static void a_refused_confirm_is_a_refusal_of_those_messages_alone(void **state)
{
    (void)state;
    struct way way;
    struct outcomes outcomes = {0};
    way_set(&way);
    way_open(&way);
    coney_stream_producer *producer = stage_producer(&way.stage, "s", &outcomes, NULL);
    proxy_refuse_confirms(way.proxy, 1, STREAM_CODE_INTERNAL_ERROR);
    stage_send(producer, 0, 1);
    outcomes_wait(&outcomes, 1);
    stage_send(producer, 1, 1);
    outcomes_wait(&outcomes, 2);
    assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_EREFUSED);
    assert_int_equal(outcomes_of(&outcomes, 0).code, STREAM_CODE_INTERNAL_ERROR);
    assert_int_equal(outcomes_of(&outcomes, 1).status, CONEY_OK);
    producer_close(&producer);
    way_down(&way);
    outcomes_free(&outcomes);
}

static void a_wrong_byte_anywhere_in_the_brokers_side_of_the_handshake_ends_in_a_clear_status(void **state)
{
    (void)state;
    struct way way;
    way_set(&way);
    for (uint64_t offset = 0; offset < 360; offset += 3) {
        proxy_corrupt(way.proxy, PROXY_TO_CLIENT, offset);
        coney_call call = call_within(400);
        int64_t before = now_ms();
        coney_stream_env *env = coney_stream_env_open(proxy_uri(way.proxy), &way.stage.options, &call);
        if (env == NULL && (call.status == CONEY_OK || call.text[0] == '\0'))
            fail_msg("a wrong byte at %llu fails without a status or a text", (unsigned long long)offset);
        coney_stream_env_close(&env, &(coney_call){.deadline = scaled_ns(300)});
        if (now_ms() - before > scaled_ms(5000))
            fail_msg("a wrong byte at %llu takes %lld ms", (unsigned long long)offset, (long long)(now_ms() - before));
    }
    way_down(&way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_way_delays_but_loses_and_reorders_nothing),
        cmocka_unit_test(SB_76_a_half_open_connection_is_found_by_its_heartbeats_and_nothing_is_lost),
        cmocka_unit_test(a_broker_that_reads_slowly_slows_the_sender_and_loses_nothing),
        cmocka_unit_test(a_broker_that_reads_nothing_blocks_neither_answers_elsewhere_nor_close),
        cmocka_unit_test(a_lost_publish_and_a_lost_confirm_end_in_unknown_at_the_confirm_deadline),
        cmocka_unit_test(a_refused_confirm_is_a_refusal_of_those_messages_alone),
        cmocka_unit_test(a_wrong_byte_anywhere_in_the_brokers_side_of_the_handshake_ends_in_a_clear_status),
    };
    return run_tests(tests);
}
