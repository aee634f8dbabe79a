/* Closing from inside: every callback may close what it is called by, and everything else. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

/* What a callback closes, once, and in which callback. */
enum where { IN_EVENT, IN_OUTCOME, IN_DELIVERY, IN_LOOP_DELIVERY, IN_DONE, WHERES };
enum what { CLOSE_PUBLISHER, CLOSE_CONSUMER, CLOSE_ALL, WHATS };

struct closer {
    struct monitor monitor;
    struct amqp_stage stage;
    coney_amqp_publisher *publisher;
    coney_amqp_consumer *consumer;
    enum what what;
    coney_event_type event; /* of which type, in IN_EVENT */
    bool armed;
    size_t fired;
    size_t ended; /* CLOSE_ALL: nothing comes any more */
    size_t outcomes;
};

static void on_end(void *ctx, const coney_call *call)
{
    struct closer *closer = ctx;
    (void)call;
    monitor_lock(&closer->monitor);
    closer->ended++;
    monitor_broadcast(&closer->monitor);
    monitor_unlock(&closer->monitor);
}

static void fire(struct closer *closer)
{
    coney_call closing = {.on_done = on_end, .ctx = closer};
    monitor_lock(&closer->monitor);
    if (closer->armed) {
        closer->armed = false;
        if (closer->what == CLOSE_PUBLISHER)
            coney_amqp_publisher_close(&closer->publisher, NULL);
        else if (closer->what == CLOSE_CONSUMER)
            coney_amqp_consumer_close(&closer->consumer, NULL);
        else
            coney_amqp_close(&closer->stage.rabbit, &closing);
        closer->fired++;
        monitor_broadcast(&closer->monitor);
    }
    monitor_unlock(&closer->monitor);
}

static void on_event(void *ctx, const coney_event *event)
{
    struct closer *closer = ctx;
    if (event->type == closer->event)
        fire(closer);
}

static void on_outcome(void *ctx, const coney_outcome *outcome)
{
    struct closer *closer = ctx;
    (void)outcome;
    monitor_lock(&closer->monitor);
    closer->outcomes++;
    monitor_unlock(&closer->monitor);
    if (closer->event == 0)
        fire(closer);
}

static coney_settle on_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    (void)delivery;
    fire(ctx);
    return CONEY_ACK;
}

static coney_settle only_ack(void *ctx, const coney_amqp_delivery *delivery)
{
    (void)ctx;
    (void)delivery;
    return CONEY_ACK;
}

static void on_done(void *ctx, const coney_call *call)
{
    (void)call;
    fire(ctx);
}

static void closer_up(struct closer *closer, enum where where)
{
    amqp_stage_set(&closer->stage);
    closer->stage.options.on_event = on_event;
    closer->stage.options.event_ctx = closer;
    amqp_stage_open(&closer->stage);
    coney_amqp_publisher_options publisher = {
        .routing_key = "q", .on_outcome = where == IN_OUTCOME ? on_outcome : NULL, .ctx = closer};
    bool delivers = where == IN_DELIVERY || where == IN_LOOP_DELIVERY;
    coney_amqp_consumer_options consumer = {
        .on_delivery = delivers ? on_delivery : only_ack, .ctx = closer, .on_loop = where == IN_LOOP_DELIVERY};
    closer->publisher = amqp_stage_publisher(&closer->stage, NULL, &publisher);
    closer->consumer = amqp_stage_consumer(&closer->stage, "q", NULL, &consumer);
}

/* Waits until *count is 1. */
static void wait_for_one(struct closer *closer, const size_t *count, const char *what)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&closer->monitor);
    while (*count == 0 && monitor_wait(&closer->monitor, until))
        ;
    size_t got = *count;
    monitor_unlock(&closer->monitor);
    if (got != 1)
        fail_msg("it did not come: %s", what);
}

/* Whatever is left is closed from outside, and nothing comes any more. */
static void closer_down(struct closer *closer)
{
    if (closer->what == CLOSE_ALL) {
        wait_for_one(closer, &closer->ended, "the end of the environment");
    } else {
        coney_amqp_publisher_close(&closer->publisher, NULL);
        coney_amqp_consumer_close(&closer->consumer, NULL);
        coney_amqp_close(&closer->stage.rabbit, NULL);
    }
    amqp_peer_wait_open(closer->stage.peer, 0);
    amqp_stage_down(&closer->stage);
    monitor_free(&closer->monitor);
}

static void arm(struct closer *closer)
{
    monitor_lock(&closer->monitor);
    closer->armed = true;
    monitor_unlock(&closer->monitor);
}

static void G13_an_outcome_a_delivery_or_the_end_of_a_call_may_close_all_that_is_open(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WHATS * WHERES; i++) {
        enum where where = i % WHERES;
        struct closer closer = {.what = i / WHERES};
        if (where == IN_EVENT)
            continue;
        closer_up(&closer, where);
        arm(&closer);
        amqp_peer_feed(closer.stage.peer, "q", 20);
        if (where == IN_OUTCOME)
            amqp_publish_numbered(closer.publisher, 0, 1);
        coney_call call = {.on_done = on_done, .ctx = &closer};
        if (where == IN_DONE)
            assert_int_equal(amqp_stage_declare(&closer.stage, "r", &call), CONEY_OK);
        wait_for_one(&closer, &closer.fired, "see the number of the case");
        closer_down(&closer);
    }
}

/* What makes the broker, or the connection, cause the event. */
static void provoke(struct closer *closer, coney_event_type type)
{
    struct amqp_peer *peer = closer->stage.peer;
    struct amqp_peer_place place = amqp_peer_consumer(peer, "q");
    switch (type) {
    case CONEY_EVENT_CONSUMER_CANCELED:
        amqp_peer_cancel(peer, "q");
        break;
    case CONEY_EVENT_CHANNEL_CLOSED:
        amqp_peer_close_channel(peer, place, AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - x");
        break;
    case CONEY_EVENT_SERVER_CLOSE:
        amqp_peer_close(peer, place.connection, AMQP_CODE_CONNECTION_FORCED, "CONNECTION_FORCED - x");
        break;
    case CONEY_EVENT_BLOCKED:
        amqp_peer_send(peer, amqp_peer_connection(peer, "publish"), 0, &(struct amqp_method){.id = AMQP_CONNECTION_BLOCKED});
        break;
    case CONEY_EVENT_CONNECT_FAILED:
    case CONEY_EVENT_RECOVERY_FAILED:
        amqp_peer_go_down(peer, PEER_RST);
        break;
    default:
        amqp_peer_cut(peer, PEER_ALL, PEER_RST);
        break;
    }
}

static void G13_every_event_may_close_all_that_is_open(void **state)
{
    (void)state;
    static const coney_event_type types[] = {
        CONEY_EVENT_DISCONNECTED,   CONEY_EVENT_RECOVERING,      CONEY_EVENT_CONNECTED,         CONEY_EVENT_RECOVERED,
        CONEY_EVENT_CONNECT_FAILED, CONEY_EVENT_RECOVERY_FAILED, CONEY_EVENT_CONSUMER_CANCELED, CONEY_EVENT_CHANNEL_CLOSED,
        CONEY_EVENT_SERVER_CLOSE,   CONEY_EVENT_BLOCKED};
    for (size_t i = 0; i < WHATS * sizeof types / sizeof types[0]; i++) {
        struct closer closer = {.what = i % WHATS, .event = types[i / WHATS]};
        closer_up(&closer, IN_EVENT);
        arm(&closer);
        provoke(&closer, closer.event);
        wait_for_one(&closer, &closer.fired, coney_event_name(closer.event));
        if (closer.event == CONEY_EVENT_CONNECT_FAILED || closer.event == CONEY_EVENT_RECOVERY_FAILED)
            amqp_peer_come_up(closer.stage.peer);
        closer_down(&closer);
    }
}

static void closes_of_publishers_and_of_their_environment_at_once_end_once_each(void **state)
{
    (void)state;
    for (int turn = 0; turn < 10; turn++) {
        struct amqp_stage stage;
        struct outcomes outcomes[8] = {0};
        struct waited_call closed[8] = {0};
        coney_amqp_publisher *publishers[8];
        amqp_stage_up(&stage);
        amqp_peer_confirm_by_hand(stage.peer, turn % 2 == 0);
        for (size_t i = 0; i < 8; i++) {
            publishers[i] = amqp_stage_publisher(&stage, &outcomes[i], NULL);
            amqp_publish_numbered(publishers[i], 0, 20);
        }
        for (size_t i = 0; i < 8; i++)
            coney_amqp_publisher_close(&publishers[i], waited_call_of(&closed[i], 20));
        coney_amqp_close(&stage.rabbit, NULL);
        for (size_t i = 0; i < 8; i++) {
            (void)waited_call_wait(&closed[i]);
            assert_int_equal(waited_call_count(&closed[i]), 1);
            outcomes_are_each_once(&outcomes[i], 0, 20);
            outcomes_free(&outcomes[i]);
            waited_call_free(&closed[i]);
        }
        amqp_stage_down(&stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(G13_an_outcome_a_delivery_or_the_end_of_a_call_may_close_all_that_is_open),
        cmocka_unit_test(G13_every_event_may_close_all_that_is_open),
        cmocka_unit_test(closes_of_publishers_and_of_their_environment_at_once_end_once_each),
    };
    return run_tests(tests);
}
