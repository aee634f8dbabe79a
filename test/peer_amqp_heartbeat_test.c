/* Heartbeats: who is alive, who is not, and who says so. Intervals of the protocol are whole seconds: these tests take some. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include <coney/loop.h>
#include <poll.h>

/* The environment asks for a heartbeat of one second. */
static void stage_beating(struct amqp_stage *stage)
{
    amqp_stage_set(stage);
    stage->options.heartbeat = CONEY_SECOND;
    amqp_stage_open(stage);
}

static void K04_a_broker_that_falls_silent_is_lost_and_told_so(void **state)
{
    (void)state;
    struct amqp_stage stage;
    stage_beating(&stage);
    int64_t began = now_ms();
    struct event event = events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0);
    int64_t took = now_ms() - began;
    assert_int_equal(event.status, CONEY_ELOST);
    assert_says(event.text, "heartbeats of 1 s");
    assert_true(took >= 1900);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_CONNECTION_CLOSE), 0);
    assert_true(amqp_peer_count(stage.peer, AMQP_PEER_HEARTBEAT) >= 2);
    amqp_stage_down(&stage);
}

static void K04_after_fifty_reconnects_there_is_one_timer(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    stage_beating(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    for (uint64_t i = 0; i < 50; i++) {
        amqp_peer_cut(stage.peer, amqp_peer_publisher(stage.peer).connection, PEER_RST);
        amqp_publish_numbered(publisher, i, 1);
        outcomes_wait(&outcomes, i + 1);
    }
    amqp_peer_beat(stage.peer, 300);
    int connection = amqp_peer_publisher(stage.peer).connection;
    size_t before = amqp_peer_count(stage.peer, AMQP_PEER_HEARTBEAT), ours = 0;
    for (size_t n = before; ours < 3; n++) {
        amqp_peer_wait_count(stage.peer, AMQP_PEER_HEARTBEAT, n + 1);
        const struct amqp_peer_record *beat = amqp_peer_record_of(stage.peer, AMQP_PEER_HEARTBEAT, n);
        if (beat->connection == connection && ours++ == 1)
            assert_true(amqp_peer_count(stage.peer, AMQP_PEER_HEARTBEAT) - before < 10);
    }
    int64_t first = 0, last = 0;
    for (size_t n = before; amqp_peer_record_of(stage.peer, AMQP_PEER_HEARTBEAT, n) != NULL; n++) {
        const struct amqp_peer_record *beat = amqp_peer_record_of(stage.peer, AMQP_PEER_HEARTBEAT, n);
        if (beat->connection != connection)
            continue;
        first = first == 0 ? beat->at : first;
        last = beat->at;
    }
    assert_true(last - first >= 800); /* half a second apart, with one timer */
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

static void K03_the_bytes_of_an_unfinished_frame_keep_a_connection_alive(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    stage_beating(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    struct amqp_peer_place place = amqp_peer_consumer(stage.peer, "q");
    struct amqp_method deliver = {.id = AMQP_BASIC_DELIVER, .basic_deliver = {.delivery_tag = 1}};
    static uint8_t bytes[200];
    size_t len = amqp_encode(place.channel, &deliver, bytes, sizeof bytes);
    uint8_t *header = amqp_frame_head_write(bytes + len, AMQP_FRAME_HEADER, place.channel, 14);
    memset(header, 0, 14);
    header[1] = AMQP_CLASS_BASIC;
    header[11] = 2;
    header[14] = AMQP_END;
    uint8_t *body = amqp_frame_head_write(header + 15, AMQP_FRAME_BODY, place.channel, 2);
    memcpy(body, "m7\xce", 3);
    size_t all = (size_t)(body + 3 - bytes);
    size_t step = all / 12;
    for (size_t at = 0; at < all; at += step) { /* for 3.6 s or more */
        amqp_peer_send_bytes(stage.peer, place.connection, coney_bytes_of(bytes + at, at + step < all ? step : all - at));
        amqp_peer_send_heartbeat(stage.peer, amqp_peer_connection(stage.peer, "control"));
        events_none(&stage.events, CONEY_EVENT_DISCONNECTED, 300);
    }
    amqp_peer_allow_nonsense(stage.peer); /* it knows nothing of this delivery, which is acked */
    parcels_wait(&parcels, 1);
    assert_int_equal(parcels_of(&parcels, 0).number, 7);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void K07_a_publisher_held_back_by_its_socket_still_sees_who_is_alive(void **state)
{
    (void)state;
    static char body[1 << 20];
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    stage_beating(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    int connection = amqp_peer_publisher(stage.peer).connection;
    amqp_peer_beat(stage.peer, 250);
    amqp_peer_stop_reading(stage.peer, connection, true);
    coney_amqp_message message = {.body = coney_bytes_of(body, sizeof body)};
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    events_none(&stage.events, CONEY_EVENT_DISCONNECTED, 3200); /* it beats: not dead */
    amqp_peer_beat(stage.peer, 0);
    assert_int_equal(events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0).status, CONEY_ELOST);
    amqp_peer_beat(stage.peer, 250);
    outcomes_wait(&outcomes, 20); /* on a new connection, which is read */
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 20);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

static void D11_a_loop_that_never_waits_notices_a_silent_broker(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_set(&stage);
    coney_loop *loop = coney_loop_new();
    assert_non_null(loop);
    stage.options.loop = loop;
    stage.options.heartbeat = CONEY_SECOND;
    stage.rabbit = coney_amqp_open(amqp_peer_uri(stage.peer), &stage.options, &call);
    assert_non_null(stage.rabbit);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    struct pollfd ready = {.fd = coney_loop_fd(loop), .events = POLLIN};
    while (events_count(&stage.events, CONEY_EVENT_DISCONNECTED) == 0 && now_ms() < until) {
        coney_loop_step(loop);
        poll(&ready, 1, 20);
    }
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 1);
    coney_amqp_close(&stage.rabbit, NULL);
    amqp_stage_down(&stage);
    coney_loop_free(&loop);
}

static void without_heartbeats_a_silent_broker_is_left_alone(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_set(&stage);
    stage.options.heartbeat = CONEY_OFF;
    amqp_stage_open(&stage);
    events_none(&stage.events, CONEY_EVENT_DISCONNECTED, 300);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_PEER_HEARTBEAT), 0);
    amqp_stage_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(D11_a_loop_that_never_waits_notices_a_silent_broker),
        cmocka_unit_test(K03_the_bytes_of_an_unfinished_frame_keep_a_connection_alive),
        cmocka_unit_test(K04_a_broker_that_falls_silent_is_lost_and_told_so),
        cmocka_unit_test(K04_after_fifty_reconnects_there_is_one_timer),
        cmocka_unit_test(K07_a_publisher_held_back_by_its_socket_still_sees_who_is_alive),
        cmocka_unit_test(without_heartbeats_a_silent_broker_is_left_alone),
    };
    return run_tests(tests);
}
