/* Services over AMQP against a scripted broker: the plugin for delayed messages, which no packaged broker has; a cancel that is no end; connections' names. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"
#include "amqp_rig.h"

#include "base/bytes.h"
#include "proto/amqp091/properties.h"
#include "transport/amqp.h"

static void up(struct rig *rig, struct amqp_peer **peer)
{
    *peer = amqp_peer_start();
    rig_up(rig, amqp_peer_uri(*peer));
}

static void down(struct rig *rig, struct amqp_peer **peer)
{
    rig_down(rig);
    amqp_peer_stop(peer);
}

static void nothing(void *ctx, const coney_outcome *outcome)
{
    (void)ctx;
    (void)outcome;
}

static coney_settle copy_later(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)inbox;
    (void)nth;
    assert_int_equal(m->feed->transport->copy(m, NULL, 1, 1500 * CONEY_MILLISECOND - 1, nothing, NULL, 0), CONEY_OK);
    return CONEY_ACK;
}

static void the_plugin_holds_messages_in_an_exchange_of_the_queues_own(void **state)
{
    (void)state;
    struct rig rig;
    struct amqp_peer *peer;
    struct inbox inbox = {.decide = copy_later};
    up(&rig, &peer);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q", .declare = true, .delay = CONEY_DELAY_PLUGIN)});
    rig_start(&rig);
    const struct amqp_method *declared = &amqp_peer_expect(peer, AMQP_EXCHANGE_DECLARE)->method;
    assert_true(bytes_equal(declared->exchange_declare.exchange, CONEY_STR("q.delay")));
    assert_true(bytes_equal(declared->exchange_declare.type, CONEY_STR("x-delayed-message")));
    coney_value type;
    assert_true(coney_value_find(&declared->exchange_declare.arguments, CONEY_STR("x-delayed-type"), &type));
    assert_true(bytes_equal(type.as.bytes, CONEY_STR("direct")));
    const struct amqp_method *bound = &amqp_peer_expect(peer, AMQP_QUEUE_BIND)->method;
    assert_true(bytes_equal(bound->queue_bind.queue, CONEY_STR("q")));
    assert_true(bytes_equal(bound->queue_bind.exchange, CONEY_STR("q.delay")));
    assert_true(bytes_equal(bound->queue_bind.routing_key, CONEY_STR("q")));

    amqp_peer_deliver(peer, "q", 0, 1);
    amqp_peer_wait_messages(peer, 1);
    struct amqp_peer_message message = amqp_peer_message_of(peer, 0);
    coney_amqp_delivery delivery = {.encoded_properties = message.properties};
    coney_value delay, attempts;
    assert_true(bytes_equal(message.exchange, CONEY_STR("q.delay")));
    assert_true(bytes_equal(message.routing_key, CONEY_STR("q")));
    assert_false(message.mandatory);
    assert_true(coney_amqp_delivery_header(&delivery, CONEY_STR("x-delay"), &delay));
    assert_int_equal(delay.as.i64, 1500);
    assert_true(coney_amqp_delivery_header(&delivery, CONEY_STR("x-coney-attempts"), &attempts));
    assert_int_equal(attempts.as.i64, 1);
    down(&rig, &peer);
    inbox_free(&inbox);
}

static void without_declare_the_plugins_exchange_must_be_there(void **state)
{
    (void)state;
    struct rig rig;
    struct amqp_peer *peer;
    struct inbox inbox = {0};
    up(&rig, &peer);
    amqp_peer_refuse(peer, AMQP_EXCHANGE_DECLARE, PEER_EVERY, AMQP_CODE_NOT_FOUND,
                     "NOT_FOUND - no exchange 'q.delay' in vhost '/'");
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q", .delay = CONEY_DELAY_PLUGIN)});
    assert_says(rig_refused(&rig, CONEY_ENOTFOUND), "q.delay");
    assert_true(amqp_peer_expect(peer, AMQP_EXCHANGE_DECLARE)->method.exchange_declare.passive);
    assert_int_equal(amqp_peer_count(peer, AMQP_QUEUE_BIND), 0);
    down(&rig, &peer);
    inbox_free(&inbox);
}

static void a_cancel_of_a_queue_that_only_moves_is_no_end(void **state)
{
    (void)state;
    struct rig rig;
    struct amqp_peer *peer;
    struct inbox inbox = {0};
    up(&rig, &peer);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q")});
    rig_start(&rig);
    amqp_peer_refuse(peer, AMQP_BASIC_CONSUME, 1, AMQP_CODE_NOT_FOUND,
                     "NOT_FOUND - home node 'a@b' of durable queue 'q' in vhost '/' is down or inaccessible");
    amqp_peer_cancel(peer, "q");
    inbox_wait_for(&inbox, &inbox.active_again, 1);
    assert_int_equal(inbox.inactive, 1);
    assert_int_equal(inbox.ended, 0);
    amqp_peer_deliver(peer, "q", 0, 1);
    inbox_wait(&inbox, 1);
    down(&rig, &peer);
    inbox_free(&inbox);
}

static void a_queue_that_is_missing_after_a_cut_is_waited_for(void **state)
{
    (void)state;
    struct rig rig;
    struct amqp_peer *peer;
    struct inbox inbox = {0};
    up(&rig, &peer);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q")});
    rig_start(&rig);
    amqp_peer_refuse(peer, AMQP_BASIC_CONSUME, 1, AMQP_CODE_NOT_FOUND, "NOT_FOUND - no queue 'q' in vhost '/'");
    amqp_peer_cut(peer, amqp_peer_consumer(peer, "q").connection, PEER_RST);
    inbox_wait_for(&inbox, &inbox.active_again, 1);
    assert_int_equal(inbox.ended, 0);
    down(&rig, &peer);
    inbox_free(&inbox);
}

/* Its last message is still with the handler. */
static coney_settle wait_for_end(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)m;
    (void)nth;
    inbox_wait_for(inbox, &inbox->ended, 1);
    return CONEY_ACK;
}

static void a_right_that_is_taken_away_ends_the_subscription_also_under_a_handler(void **state)
{
    (void)state;
    struct rig rig;
    struct amqp_peer *peer;
    struct inbox inbox = {.decide = wait_for_end};
    up(&rig, &peer);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q")});
    rig_start(&rig);
    amqp_peer_deliver(peer, "q", 0, 2);
    inbox_wait(&inbox, 1);
    amqp_peer_refuse(peer, AMQP_BASIC_CONSUME, PEER_EVERY, AMQP_CODE_ACCESS_REFUSED,
                     "ACCESS_REFUSED - access to queue 'q' refused");
    amqp_peer_cancel(peer, "q");
    inbox_wait_for(&inbox, &inbox.ended, 1);
    assert_int_equal(inbox.ended_status, CONEY_EACCESS);
    rig_unsubscribe(&rig);
    assert_int_equal(inbox_count(&inbox), 1);
    down(&rig, &peer);
    inbox_free(&inbox);
}

/* consume-ok, and then nothing more. */
static bool consume_and_cut(void *ctx, struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    (void)ctx;
    amqp_peer_treat(peer, record);
    amqp_peer_cut(peer, record->connection, PEER_FIN);
    return true;
}

static void a_cut_right_behind_the_subscription_is_seen(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct rig rig;
        struct amqp_peer *peer;
        struct inbox inbox = {0};
        up(&rig, &peer);
        amqp_peer_call_at(peer, AMQP_BASIC_CONSUME, 1, consume_and_cut, NULL);
        rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q")});
        rig_start(&rig);
        amqp_peer_wait_count(peer, AMQP_BASIC_CONSUME, 2);
        amqp_peer_wait_consumers(peer, "q", 1);
        amqp_peer_deliver(peer, "q", 0, 1);
        inbox_wait(&inbox, 1);
        inbox_wait_for(&inbox, &inbox.active_again, inbox.inactive);
        down(&rig, &peer);
        inbox_free(&inbox);
    }
}

struct gate {
    struct monitor monitor;
    bool is_open;
};

static void gate_pass(struct gate *gate)
{
    monitor_lock(&gate->monitor);
    while (!gate->is_open)
        (void)monitor_wait(&gate->monitor, INT64_MAX);
    monitor_unlock(&gate->monitor);
}

static void gate_open(struct gate *gate)
{
    monitor_lock(&gate->monitor);
    gate->is_open = true;
    monitor_broadcast(&gate->monitor);
    monitor_unlock(&gate->monitor);
}

static coney_settle wait_at_gate(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)m;
    (void)nth;
    gate_pass(inbox->ctx);
    return CONEY_ACK;
}

static void waits_for_a_handler_only_so_long(coney_queue_type type)
{
    struct rig rig;
    struct amqp_peer *peer;
    struct gate gate = {.is_open = false};
    struct inbox inbox = {.decide = wait_at_gate, .ctx = &gate};
    up(&rig, &peer);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q", .type = type)});
    rig_start(&rig);
    amqp_peer_deliver(peer, "q", 0, 3);
    inbox_wait(&inbox, 1);
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    assert_int_equal(rig.transport->unsubscribe(rig.feeds[0], &call), CONEY_ETIMEDOUT);
    rig.feeds[0] = NULL;
    gate_open(&gate);
    down(&rig, &peer);
    assert_int_equal(inbox_count(&inbox), 1);
    inbox_free(&inbox);
    monitor_free(&gate.monitor);
}

static void an_unsubscribe_waits_for_a_handler_only_so_long(void **state)
{
    (void)state;
    waits_for_a_handler_only_so_long(CONEY_QUEUE_CLASSIC);
    waits_for_a_handler_only_so_long(CONEY_QUEUE_STREAM);
}

/* Until a test settles it. */
static coney_settle keep(struct inbox *inbox, struct incoming *m, size_t nth)
{
    struct incoming *kept = inbox->ctx;
    (void)nth;
    assert_true(m->feed->transport->keep(m));
    *kept = *m;
    return CONEY_KEPT;
}

static void outlives_its_broker(coney_queue_type type, coney_settle how)
{
    struct rig rig;
    struct amqp_peer *peer;
    struct incoming kept;
    struct inbox inbox = {.decide = keep, .ctx = &kept};
    up(&rig, &peer);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q", .type = type)});
    rig_start(&rig);
    amqp_peer_deliver(peer, "q", 0, 1);
    inbox_wait(&inbox, 1);
    const struct transport *transport = rig.transport;
    down(&rig, &peer);
    assert_int_equal(transport->attempt(&kept), 1);
    assert_int_equal(transport->settle(&kept, how), CONEY_ECLOSED);
    inbox_free(&inbox);
}

static void a_delivery_that_outlives_its_broker_is_settled_harmlessly(void **state)
{
    (void)state;
    outlives_its_broker(CONEY_QUEUE_CLASSIC, CONEY_ACK);
    outlives_its_broker(CONEY_QUEUE_CLASSIC, CONEY_REQUEUE);
    outlives_its_broker(CONEY_QUEUE_STREAM, CONEY_ACK);
    outlives_its_broker(CONEY_QUEUE_STREAM, CONEY_REQUEUE);
}

struct first_and_gate {
    struct incoming first;
    struct gate gate;
};

static coney_settle keep_the_first(struct inbox *inbox, struct incoming *m, size_t nth)
{
    struct first_and_gate *both = inbox->ctx;
    if (nth == 0) {
        assert_true(m->feed->transport->keep(m));
        both->first = *m;
        return CONEY_KEPT;
    }
    gate_pass(&both->gate);
    return CONEY_ACK;
}

/* Until its consumer is being closed. */
static void wait_for_a_move(struct tamqp_feed *feed)
{
    bool has_begun = false;
    for (int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE); !has_begun && now_ms() < until; sched_yield()) {
        lock_acquire(&feed->amqp->lock);
        has_begun = feed->consumer == NULL;
        lock_release(&feed->amqp->lock);
    }
    assert_true(has_begun);
}

static void a_stream_queue_that_is_to_be_left_is_not_opened_again(void **state)
{
    (void)state;
    struct rig rig;
    struct amqp_peer *peer;
    struct first_and_gate both = {.gate = {.is_open = false}};
    struct inbox inbox = {.decide = keep_the_first, .ctx = &both};
    up(&rig, &peer);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_STREAM)});
    rig_start(&rig);
    amqp_peer_deliver(peer, "q", 0, 2);
    inbox_wait(&inbox, 2);
    assert_int_equal(rig.transport->settle(&both.first, CONEY_REQUEUE), CONEY_OK);
    wait_for_a_move(tamqp_feed_of(rig.feeds[0]));
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    assert_int_equal(rig.transport->unsubscribe(rig.feeds[0], &call), CONEY_ETIMEDOUT);
    gate_open(&both.gate);
    rig_unsubscribe(&rig);
    assert_int_equal(amqp_peer_count(peer, AMQP_BASIC_CONSUME), 1);
    down(&rig, &peer);
    inbox_free(&inbox);
    monitor_free(&both.gate.monitor);
}

static void connections_bear_the_names_of_the_app_and_the_broker(void **state)
{
    (void)state;
    struct rig rig;
    struct amqp_peer *peer;
    char host[64], expected[64];
    const char *protocol, *version;
    up(&rig, &peer);
    rig_start(&rig);
    const struct amqp_method *start = &amqp_peer_expect(peer, AMQP_CONNECTION_START_OK)->method;
    coney_value name;
    assert_true(coney_value_find(&start->connection_start_ok.client_properties, CONEY_STR("connection_name"), &name));
    assert_true(name.as.bytes.len >= 10 && memcmp(name.as.bytes.data, "rig (amqp)", 10) == 0);
    assert_true(rig.transport->describe(rig.broker->self, host, sizeof host, &protocol, &version));
    snprintf(expected, sizeof expected, "127.0.0.1:%u", (unsigned)amqp_peer_port(peer));
    assert_string_equal(host, expected);
    assert_string_equal(protocol, "amqp");
    assert_string_equal(version, "0.9.1");
    down(&rig, &peer);
}

static void what_was_given_is_copied_and_events_go_to_whoever_asked_for_them(void **state)
{
    (void)state;
    struct amqp_peer *peer = amqp_peer_start();
    struct events events = {0};
    coney_app *app = coney_app_new("rig", "1");
    char uri[64], address[64], name[16] = "mine", key[16] = "cost-centre", value[16] = "4711";
    snprintf(uri, sizeof uri, "amqp://127.0.0.1:1"); /* where nobody listens */
    snprintf(address, sizeof address, "%s", amqp_peer_address(peer));
    const char *addresses[] = {address, NULL};
    coney_field property = {coney_bytes_str(key), coney_value_string(coney_bytes_str(value))};
    coney_amqp_options options = {.name = name,
                                  .addresses = addresses,
                                  .on_event = events_add,
                                  .event_ctx = &events,
                                  .client_properties = &property,
                                  .client_property_count = 1};
    coney_broker *broker = coney_app_amqp(app, uri, &options);
    memset(uri, 'x', sizeof uri - 1);
    memset(address, 'x', sizeof address - 1);
    memset(name, 'x', sizeof name - 1);
    memset(key, 'x', sizeof key - 1);
    memset(value, 'x', sizeof value - 1);
    addresses[0] = NULL;
    coney_call call = {0};
    if (broker->transport->connect(broker->self, broker, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    const struct amqp_method *start = &amqp_peer_expect(peer, AMQP_CONNECTION_START_OK)->method;
    const coney_value *properties = &start->connection_start_ok.client_properties;
    coney_value found;
    assert_true(coney_value_find(properties, CONEY_STR("cost-centre"), &found));
    assert_true(bytes_equal(found.as.bytes, CONEY_STR("4711")));
    assert_true(coney_value_find(properties, CONEY_STR("connection_name"), &found));
    assert_true(memcmp(found.as.bytes.data, "mine", 4) == 0);
    (void)events_wait(&events, CONEY_EVENT_CONNECTED, 0);
    assert_int_equal(broker->transport->disconnect(broker->self, NULL), CONEY_OK);
    coney_app_free(&app);
    amqp_peer_stop(&peer);
    events_free(&events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plugin_holds_messages_in_an_exchange_of_the_queues_own),
        cmocka_unit_test(without_declare_the_plugins_exchange_must_be_there),
        cmocka_unit_test(a_cancel_of_a_queue_that_only_moves_is_no_end),
        cmocka_unit_test(a_queue_that_is_missing_after_a_cut_is_waited_for),
        cmocka_unit_test(a_right_that_is_taken_away_ends_the_subscription_also_under_a_handler),
        cmocka_unit_test(a_cut_right_behind_the_subscription_is_seen),
        cmocka_unit_test(an_unsubscribe_waits_for_a_handler_only_so_long),
        cmocka_unit_test(a_delivery_that_outlives_its_broker_is_settled_harmlessly),
        cmocka_unit_test(a_stream_queue_that_is_to_be_left_is_not_opened_again),
        cmocka_unit_test(connections_bear_the_names_of_the_app_and_the_broker),
        cmocka_unit_test(what_was_given_is_copied_and_events_go_to_whoever_asked_for_them),
    };
    return run_tests(tests);
}
