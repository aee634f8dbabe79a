/* Where streams live: metadata and its updates, leaders that move, addresses behind a balancer. */
#define _GNU_SOURCE
#include "stage.h"

/* Metadata updates ----------------------------------------------------------------------------------------------- */

static void SB_82_an_update_for_one_stream_moves_its_producer_and_consumer_and_leaves_the_others(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes[2] = {0};
    struct deliveries deliveries[2] = {0};
    static const char *const streams[] = {"s1", "s2"};
    coney_stream_producer *producers[2];
    coney_stream_consumer *consumers[2];
    stage_up(&stage);
    for (size_t i = 0; i < 2; i++) {
        producers[i] = stage_producer(&stage, streams[i], &outcomes[i], NULL);
        consumers[i] = stage_consumer(&stage, streams[i], &deliveries[i], NULL);
    }
    assert_int_equal(peer_producer_connection(stage.peer, "s1"), peer_producer_connection(stage.peer, "s2"));
    peer_confirm_by_hand(stage.peer, true);
    stage_send(producers[0], 0, 5);
    stage_send(producers[1], 0, 5);
    peer_wait_messages(stage.peer, 10);
    peer_confirm_by_hand(stage.peer, false);
    peer_lose_stream(stage.peer, "s1", STREAM_CODE_STREAM_NOT_AVAILABLE);
    outcomes_wait(&outcomes[0], 5);
    outcomes_are_in_order(&outcomes[0], 0, 5);
    assert_int_equal(outcomes_with(&outcomes[0], CONEY_OK), 5);
    assert_true(events_reach(&stage.events, CONEY_EVENT_RECOVERED, 2, SUPPORT_PATIENCE));
    peer_deliver(stage.peer, "s1", 0, 1);
    peer_deliver(stage.peer, "s2", 0, 1);
    deliveries_wait(&deliveries[0], 1);
    deliveries_wait(&deliveries[1], 1);
    peer_confirm(stage.peer, SIZE_MAX);
    outcomes_wait(&outcomes[1], 5);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_RECOVERING), 2);
    assert_int_equal(events_about(&stage.events, CONEY_EVENT_RECOVERING, "s1"), 2);
    assert_int_equal(peer_count(stage.peer, STREAM_DELETE_PUBLISHER), 0);
    assert_int_equal(peer_count(stage.peer, STREAM_UNSUBSCRIBE), 0);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);
    for (size_t i = 0; i < 2; i++) {
        producer_close(&producers[i]);
        consumer_close(&consumers[i]);
        outcomes_free(&outcomes[i]);
        deliveries_free(&deliveries[i]);
    }
    stage_down(&stage);
}

static void an_update_for_a_stream_nobody_uses_is_ignored(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    struct stream_frame frame = {.key = STREAM_METADATA_UPDATE, .version = 1};
    frame.metadata_update.code = STREAM_CODE_STREAM_NOT_AVAILABLE;
    frame.metadata_update.stream = CONEY_STR("other");
    peer_send(stage.peer, PEER_ALL, &frame);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_RECOVERING), 0);
    producer_close(&producer);
    stage_down(&stage);
}

/* Answers -------------------------------------------------------------------------------------------------------- */

static coney_status open_producer_status(struct stage *stage, coney_call *call)
{
    *call = call_within(4000);
    coney_stream_producer *producer = coney_stream_producer_open(stage->env, "s", NULL, call);
    if (producer == NULL)
        return call->status;
    coney_stream_producer_close(&producer, NULL);
    return CONEY_OK;
}

static void SB_84_no_leader_and_not_available_are_retryable_and_not_missing(void **state)
{
    (void)state;
    struct stage stage;
    coney_call call;
    stage_up(&stage);
    struct peer_node self = {"127.0.0.1", peer_port(stage.peer)};
    peer_set_nodes(stage.peer, &self, 1, PEER_NO_LEADER);
    assert_int_equal(open_producer_status(&stage, &call), CONEY_EUNAVAILABLE);
    assert_says(call.text, "s");
    peer_set_nodes(stage.peer, &self, 1, 7);
    coney_status status = open_producer_status(&stage, &call);
    assert_true(status == CONEY_EUNAVAILABLE || status == CONEY_EPROTOCOL);
    peer_set_nodes(stage.peer, &self, 1, 0);
    peer_set_stream(stage.peer, "s", STREAM_CODE_STREAM_NOT_AVAILABLE);
    assert_int_equal(open_producer_status(&stage, &call), CONEY_EUNAVAILABLE);
    peer_set_stream(stage.peer, "s", STREAM_CODE_STREAM_DOES_NOT_EXIST);
    assert_int_equal(open_producer_status(&stage, &call), CONEY_ENOTFOUND);
    peer_set_stream(stage.peer, "s", STREAM_CODE_OK);
    assert_int_equal(open_producer_status(&stage, &call), CONEY_OK);
    stage_down(&stage);
}

/* Answers Metadata with a replica that is no broker, or without the stream that was asked for. */
static bool answer_oddly(void *ctx, struct peer *peer, const struct peer_record *record)
{
    const bool *leave_out = ctx;
    uint8_t brokers_room[100], streams_room[100], replicas_room[8];
    struct list_writer brokers = list_begin(brokers_room, sizeof brokers_room);
    struct list_writer streams = list_begin(streams_room, sizeof streams_room);
    struct list_writer replicas = list_begin(replicas_room, sizeof replicas_room);
    list_add_broker(&brokers, &(struct stream_broker){0, CONEY_STR("127.0.0.1"), peer_port(peer)});
    list_add_index(&replicas, 9);
    struct stream_placement placement = {.stream = CONEY_STR("s"), .code = STREAM_CODE_OK, .leader = 0};
    struct stream_frame answer = {0};
    bool fits = list_end(&replicas, &placement.replicas);
    if (!*leave_out)
        list_add_placement(&streams, &placement);
    fits = fits && list_end(&brokers, &answer.metadata_answer.brokers) && list_end(&streams, &answer.metadata_answer.streams);
    if (fits)
        peer_send_answer(peer, record, 0, answer);
    return fits;
}

static void SB_84_a_replica_that_is_no_broker_is_left_out_and_a_missing_stream_is_an_error(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    bool leave_out = false;
    stage_up(&stage);
    peer_call_at(stage.peer, STREAM_METADATA, PEER_EVERY, answer_oddly, &leave_out);
    coney_stream_metadata metadata;
    assert_int_equal(coney_stream_get_metadata(stage.env, "s", &metadata, NULL), CONEY_OK);
    assert_string_equal(metadata.leader.host, "127.0.0.1");
    assert_int_equal(metadata.replica_count, 0);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    consumer_close(&consumer);
    leave_out = true;
    coney_call call;
    coney_status status = open_producer_status(&stage, &call);
    assert_true(status != CONEY_OK && status != CONEY_ETIMEDOUT);
    assert_true(call.text[0] != '\0');
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* Leaders -------------------------------------------------------------------------------------------------------- */

static void producers_go_to_the_leader_and_consumers_to_a_replica(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_set(&stage);
    struct peer *leader = peer_start(), *replica = peer_start();
    const struct peer_node nodes[] = {{"127.0.0.1", peer_port(leader)}, {"127.0.0.1", peer_port(replica)}};
    peer_set_nodes(stage.peer, nodes, 2, 0);
    stage_open(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    assert_int_equal(peer_publishers(leader, "s"), 1);
    assert_int_equal(peer_subscriptions(replica, "s"), 1);
    producer_close(&producer);
    consumer_close(&consumer);
    stage_down(&stage);
    peer_stop(&leader);
    peer_stop(&replica);
    deliveries_free(&deliveries);
}

static void a_consumer_takes_the_leader_when_its_replica_is_dead(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_set(&stage);
    struct peer *leader = peer_start(), *replica = peer_start();
    const struct peer_node nodes[] = {{"127.0.0.1", peer_port(leader)}, {"127.0.0.1", peer_port(replica)}};
    peer_set_nodes(stage.peer, nodes, 2, 0);
    stage_open(&stage);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    peer_go_down(replica, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(peer_subscriptions(leader, "s"), 1);
    consumer_close(&consumer);
    stage_down(&stage);
    peer_stop(&leader);
    peer_stop(&replica);
    deliveries_free(&deliveries);
}

static void SB_85_each_attempt_asks_anew_where_the_leader_is(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_set(&stage);
    struct peer *old = peer_start(), *new = peer_start();
    peer_set_nodes(stage.peer, &(struct peer_node){"127.0.0.1", peer_port(old)}, 1, 0);
    stage_open(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    peer_confirm_by_hand(old, true);
    stage_send(producer, 0, 5);
    peer_wait_messages(old, 5);
    peer_go_down(old, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, 1); /* metadata still names the old one, which refuses */
    peer_set_nodes(stage.peer, &(struct peer_node){"127.0.0.1", peer_port(new)}, 1, 0);
    outcomes_wait(&outcomes, 5);
    outcomes_are_in_order(&outcomes, 0, 5);
    assert_int_equal(peer_message_count(new), 5);
    producer_close(&producer);
    stage_down(&stage);
    peer_stop(&old);
    peer_stop(&new);
    outcomes_free(&outcomes);
}

static void SB_85_a_stream_that_vanishes_between_metadata_and_declare_is_final_and_not_available_is_survived(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_producer *one = stage_producer(&stage, "one", NULL, NULL);
    peer_answer(stage.peer, STREAM_DECLARE_PUBLISHER, PEER_EVERY, STREAM_CODE_STREAM_DOES_NOT_EXIST);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    struct event event = events_wait(&stage.events, CONEY_EVENT_GAVE_UP, 0);
    assert_int_equal(event.status, CONEY_ENOTFOUND);
    coney_stream_producer_close(&one, NULL);
    peer_by_default(stage.peer, STREAM_DECLARE_PUBLISHER);

    coney_stream_producer *two = stage_producer(&stage, "two", NULL, NULL);
    peer_set_stream(stage.peer, "two", STREAM_CODE_STREAM_NOT_AVAILABLE);
    size_t failed = events_count(&stage.events, CONEY_EVENT_RECOVERY_FAILED);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, failed + 5);
    peer_set_stream(stage.peer, "two", STREAM_CODE_OK);
    assert_int_equal(coney_stream_send_wait(two, CONEY_STR("x"), NULL), CONEY_OK);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_GAVE_UP), 1);
    producer_close(&two);
    stage_down(&stage);
}

/* Addresses ------------------------------------------------------------------------------------------------------ */

struct resolver {
    struct monitor monitor;
    char asked[300];
    uint16_t asked_port;
    uint16_t port;
    size_t count;
};

static void resolve(void *ctx, char *host, size_t host_cap, uint16_t *port)
{
    struct resolver *resolver = ctx;
    monitor_lock(&resolver->monitor);
    snprintf(resolver->asked, sizeof resolver->asked, "%s", host);
    resolver->asked_port = *port;
    resolver->count++;
    monitor_unlock(&resolver->monitor);
    snprintf(host, host_cap, "127.0.0.1");
    *port = resolver->port;
}

static void SB_87_the_address_resolver_is_asked_and_obeyed_also_in_recovery(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_set(&stage);
    struct resolver resolver = {.port = peer_port(stage.peer)};
    peer_set_nodes(stage.peer, &(struct peer_node){"rabbit-0.internal", 5552}, 1, 0);
    peer_set_advertised(stage.peer, "rabbit-0.internal", 5552);
    stage.options.resolve_address = resolve;
    stage.options.resolver_ctx = &resolver;
    stage_open(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    monitor_lock(&resolver.monitor);
    assert_string_equal(resolver.asked, "rabbit-0.internal");
    assert_int_equal(resolver.asked_port, 5552);
    size_t before = resolver.count;
    monitor_unlock(&resolver.monitor);
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    assert_true(events_reach(&stage.events, CONEY_EVENT_RECOVERED, 2, SUPPORT_PATIENCE));
    monitor_lock(&resolver.monitor);
    assert_true(resolver.count > before);
    monitor_unlock(&resolver.monitor);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    producer_close(&producer);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
    monitor_free(&resolver.monitor);
}

static void SB_87_without_a_resolver_the_error_names_the_address_and_the_way_out(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_env_close(&stage.env, NULL);
    const char *const further[] = {peer_address(stage.peer), NULL};
    stage.options.addresses = further; /* with one address on this machine, that one is taken for the node */
    stage_open(&stage);
    peer_set_nodes(stage.peer, &(struct peer_node){"rabbit-0.invalid", 5552}, 1, 0);
    coney_call call;
    assert_int_equal(open_producer_status(&stage, &call), CONEY_ERESOLVE);
    assert_says(call.text, "rabbit-0.invalid");
    assert_says(call.text, "address resolver");
    assert_says(call.text, "advertised_host");
    stage_down(&stage);
}

static void SB_87_a_single_node_on_this_machine_is_reached_at_the_address_that_was_configured(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_set_nodes(stage.peer, &(struct peer_node){"container-7f3a", 5552}, 1, 0);
    coney_call call;
    coney_status status = open_producer_status(&stage, &call);
    if (status != CONEY_OK)
        fail_msg("%s: %s", coney_status_name(status), call.text);
    stage_down(&stage);
}

static void a_broker_that_cuts_at_every_publish_is_not_hammered(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    peer_cut_at(stage.peer, STREAM_PUBLISH, PEER_EVERY, PEER_RST);
    stage_send(producer, 0, 1);
    assert_false(outcomes_reach(&outcomes, 1, 1000));
    /* At 10 ms, 20, 40, 80, then every 50 to 100. */
    assert_in_range(events_count(&stage.events, CONEY_EVENT_RECOVERED), 1, 10 + scaled_ms(1000) / 50);
    peer_by_default(stage.peer, STREAM_PUBLISH);
    outcomes_wait(&outcomes, 1);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 1);
    producer_close(&producer);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_82_an_update_for_one_stream_moves_its_producer_and_consumer_and_leaves_the_others),
        cmocka_unit_test(an_update_for_a_stream_nobody_uses_is_ignored),
        cmocka_unit_test(SB_84_no_leader_and_not_available_are_retryable_and_not_missing),
        cmocka_unit_test(SB_84_a_replica_that_is_no_broker_is_left_out_and_a_missing_stream_is_an_error),
        cmocka_unit_test(producers_go_to_the_leader_and_consumers_to_a_replica),
        cmocka_unit_test(a_consumer_takes_the_leader_when_its_replica_is_dead),
        cmocka_unit_test(SB_85_each_attempt_asks_anew_where_the_leader_is),
        cmocka_unit_test(SB_85_a_stream_that_vanishes_between_metadata_and_declare_is_final_and_not_available_is_survived),
        cmocka_unit_test(SB_87_the_address_resolver_is_asked_and_obeyed_also_in_recovery),
        cmocka_unit_test(SB_87_without_a_resolver_the_error_names_the_address_and_the_way_out),
        cmocka_unit_test(SB_87_a_single_node_on_this_machine_is_reached_at_the_address_that_was_configured),
        cmocka_unit_test(a_broker_that_cuts_at_every_publish_is_not_hammered),
    };
    return run_tests(tests);
}
