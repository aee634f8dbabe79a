/* A property: whatever single bytes of the broker's are changed on their way, the client neither crashes nor hangs, each accepted message has exactly
 * one outcome, each call one end, and once the damage is over everything works. The damage is drawn from a seed that is printed; CONEY_TEST_SEED
 * repeats a run. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

enum { DAMAGES = 120 };

struct calls {
    struct monitor monitor;
    size_t started;
    size_t ended;
};

static void on_done(void *ctx, const coney_call *call)
{
    struct calls *calls = ctx;
    (void)call;
    monitor_lock(&calls->monitor);
    calls->ended++;
    monitor_broadcast(&calls->monitor);
    monitor_unlock(&calls->monitor);
}

static coney_settle take(void *ctx, const coney_amqp_delivery *delivery)
{
    coney_amqp_properties properties;
    (void)ctx;
    (void)coney_amqp_delivery_properties(delivery, &properties);
    return delivery->delivery_tag % 5 == 0 ? CONEY_REJECT : CONEY_ACK;
}

static const uint8_t properties[] = {0x20, 0, 0, 0, 0, 8, 1, 'h', 'S', 0, 0, 0, 1, 'v'};

/* Something for each connection to say. */
static void talk(struct amqp_stage *stage, coney_amqp_publisher *publisher, struct calls *calls, size_t *accepted)
{
    for (int i = 0; i < 3; i++) {
        coney_amqp_message message = {.body = CONEY_STR("body"), .tag = *accepted};
        *accepted += coney_amqp_publish(publisher, &message) == CONEY_OK;
    }
    amqp_peer_deliver_content(stage->peer, "q", coney_bytes_of(properties, sizeof properties), CONEY_STR("m1"), 1);
    amqp_peer_deliver_content(stage->peer, "q", coney_bytes_of(properties, sizeof properties), CONEY_STR("m2"), 0);
    coney_amqp_queue queue = {.name = "q"};
    coney_call call = {.on_done = on_done, .ctx = calls, .deadline = scaled_ns(400)};
    if (coney_amqp_queue_declare(stage->rabbit, &queue, &call) == CONEY_OK)
        calls->started++;
}

static void damage(uint64_t seed, uint64_t reach)
{
    struct dice dice = dice_of(seed);
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    struct calls calls = {0};
    size_t accepted = 0;
    amqp_stage_set(&stage);
    stage.options.recovery_delay = CONEY_MILLISECOND;
    stage.options.recovery_max_delay = 10 * CONEY_MILLISECOND;
    stage.options.call_deadline = scaled_ns(300);
    stage.options.heartbeat = CONEY_SECOND; /* a length that grew stops everything without a word */
    amqp_peer_allow_nonsense(stage.peer);
    amqp_stage_open(&stage);
    amqp_peer_beat(stage.peer, 200);
    coney_amqp_publisher_options publishing = {.enqueue_timeout = CONEY_OFF, .max_messages = 500};
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, &publishing);
    coney_amqp_consumer_options consuming = {.on_delivery = take};
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", NULL, &consuming);
    for (size_t i = 0; i < DAMAGES; i++) {
        amqp_peer_corrupt(stage.peer, 1 + dice_roll(&dice, reach), (uint8_t)(1 + dice_roll(&dice, 255)));
        talk(&stage, publisher, &calls, &accepted);
        outcomes_reach(&outcomes, accepted, 15);
    }
    printf("%zu connections, %zu messages\n", amqp_peer_accepted(stage.peer), accepted);
    amqp_peer_corrupt(stage.peer, 0, 0);
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    if (!outcomes_reach(&outcomes, accepted, SUPPORT_PATIENCE)) {
        events_print(&stage.events);
        fail_msg("%zu of %zu messages have an outcome", outcomes_count(&outcomes), accepted);
    }
    amqp_peer_wait_consumers(stage.peer, "q", 1);
    coney_call call = {0};
    coney_status status = CONEY_ELOST;
    for (int i = 0; i < 100 && status != CONEY_OK; i++)
        status = amqp_stage_declare(&stage, "q", &call);
    if (status != CONEY_OK)
        fail_msg("nothing can be declared any more: %s", call.text);
    coney_amqp_consumer_close(&consumer, NULL);
    coney_amqp_publisher_close(&publisher, NULL);
    coney_amqp_close(&stage.rabbit, NULL);
    outcomes_are_each_once(&outcomes, 0, accepted);
    assert_int_equal(calls.ended, calls.started);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
    monitor_free(&calls.monitor);
}

static void bytes_that_are_changed_on_the_way_cost_their_connection_and_no_more(void **state)
{
    (void)state;
    damage(1, 200);
}

static void a_byte_that_is_changed_at_once_costs_its_connection_and_no_more(void **state)
{
    (void)state;
    damage(2, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_changed_on_the_way_cost_their_connection_and_no_more),
        cmocka_unit_test(a_byte_that_is_changed_at_once_costs_its_connection_and_no_more),
    };
    return run_tests(tests);
}
