/* Losses on a node of our own: it freezes, or is killed under publishers that do not send again, over TLS, under handles that are closed,
 * under transactions. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "amqp_traffic.h"

#include <signal.h>

static struct node node;

static coney_amqp_stats stats_of(struct warren *warren)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(warren->env, &stats), CONEY_OK);
    return stats;
}

static void pause_ms(int64_t ms)
{
    struct monitor clock = {0};
    int64_t until = now_ms() + ms;
    monitor_lock(&clock);
    while (now_ms() < until)
        monitor_wait(&clock, until);
    monitor_unlock(&clock);
    monitor_free(&clock);
}

static int unfreeze(void **state)
{
    (void)state;
    node_signal(&node, SIGCONT);
    return 0;
}

static void a_frozen_node_is_noticed_by_its_missing_heartbeats_and_loses_nothing(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    warren_set(&warren, &node);
    warren.options.heartbeat = CONEY_SECOND;
    warren.options.connect_timeout = CONEY_SECOND;
    warren_open(&warren, NULL);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 300);
    size_t open = stats_of(&warren).connections;
    int64_t begun = now_ms();
    node_signal(&node, SIGSTOP);
    assert_true(events_reach(&warren.events, CONEY_EVENT_DISCONNECTED, open, 10000));
    assert_in_range(now_ms() - begun, 1500, scaled_ms(5000));
    assert_true(events_say(&warren.events, "heartbeat"));
    assert_int_equal(stats_of(&warren).consumers_active, 0);
    node_signal(&node, SIGCONT);
    amqp_traffic_passes(&traffic, 300);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
}

static void without_resending_a_killed_node_leaves_unknowns_and_what_was_confirmed_is_there(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    warren_up(&warren, &node, NULL);
    const coney_amqp_publisher_options options = {.no_resend = true, .max_messages = 500};
    amqp_traffic_start(&traffic, &warren, warren.queue, &options);
    traffic.killed = true;
    amqp_traffic_passes(&traffic, 300);
    node_write_down(&node);
    node_kill(&node);
    node_restart(&node);
    amqp_traffic_passes(&traffic, 300);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
}

static void a_node_killed_under_load_loses_nothing_over_tls(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    char ca[330];
    if (node.amqps_port == 0)
        skip();
    snprintf(ca, sizeof ca, "%s/ca.pem", node.tls);
    const coney_tls_options tls = {.ca_file = ca};
    warren_set(&warren, &node);
    snprintf(warren.uri, sizeof warren.uri, "amqps://127.0.0.1:%u", (unsigned)node.amqps_port);
    warren.options.tls = &tls;
    warren_open(&warren, NULL);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    traffic.killed = true;
    amqp_traffic_passes(&traffic, 300);
    node_write_down(&node);
    node_kill(&node);
    node_restart(&node);
    amqp_traffic_passes(&traffic, 300);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
}

static void closing_while_the_node_is_away_is_fast_and_gives_every_message_its_outcome(void **state)
{
    (void)state;
    struct warren warren;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    coney_call call = {0};
    warren_up(&warren, &node, NULL);
    const coney_amqp_publisher_options options = {.routing_key = warren.queue, .on_outcome = outcomes_add, .ctx = &outcomes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren.env, &options, &call);
    assert_non_null(publisher);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    warren_consumer(&warren, &parcels, NULL); /* the environment closes this one */
    amqp_publish_numbered(publisher, 0, 100);
    outcomes_wait(&outcomes, 100);
    node_kill(&node);
    events_wait(&warren.events, CONEY_EVENT_RECOVERY_FAILED, 1);
    amqp_publish_numbered(publisher, 100, 100);
    assert_int_equal(stats_of(&warren).consumers, 2);
    assert_int_equal(stats_of(&warren).consumers_active, 0);
    int64_t begun = now_ms();
    warren_close_consumer(&consumer);
    assert_int_equal(coney_amqp_close(&warren.env, &call), CONEY_OK);
    assert_true(now_ms() - begun < scaled_ms(2000));
    assert_int_equal(call.value, 100);
    outcomes_are_each_once(&outcomes, 0, 200);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 100);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 100);
    for (size_t i = 100; i < 200; i++)
        assert_true(outcomes_of(&outcomes, i).unsent);
    node_restart(&node);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
    events_free(&warren.events);
}

/* Transactions and requests ---------------------------------------------------------------------------------------------- */

enum { A_SCOPE = 5, SCOPES = 4000 };

/* What became of each transaction that was begun. */
struct scopes {
    struct warren *warren;
    atomic_bool stop;
    size_t count;
    coney_status ends[SCOPES];
};

static void *commit_all(void *ctx)
{
    struct scopes *scopes = ctx;
    while (!atomic_load(&scopes->stop) && scopes->count < SCOPES) {
        coney_amqp_tx *tx = coney_amqp_tx_begin(scopes->warren->env, NULL);
        coney_status status = tx != NULL ? CONEY_OK : CONEY_ELOST;
        for (uint64_t n = 0; n < A_SCOPE && status == CONEY_OK; n++) {
            const coney_amqp_message message = {.body = numbered(scopes->count * A_SCOPE + n),
                                                .routing_key = coney_bytes_str(scopes->warren->queue)};
            status = coney_amqp_tx_publish(tx, &message);
        }
        if (status == CONEY_OK)
            status = coney_amqp_tx_commit(&tx, NULL);
        else
            coney_amqp_tx_rollback(&tx, NULL);
        scopes->ends[scopes->count++] = status;
        if (status != CONEY_OK)
            pause_ms(50); /* while the node is away each fails at once */
    }
    return NULL;
}

static void transactions_across_a_kill_are_there_whole_when_they_were_committed_and_not_when_they_were_lost(void **state)
{
    (void)state;
    static unsigned times[SCOPES * A_SCOPE];
    static struct scopes scopes;
    struct warren warren;
    pthread_t thread;
    memset(times, 0, sizeof times);
    warren_up(&warren, &node, NULL);
    node_write_down(&node);
    scopes.warren = &warren;
    assert_int_equal(pthread_create(&thread, NULL, commit_all, &scopes), 0);
    pause_ms(500);
    node_kill(&node);
    node_restart(&node);
    pause_ms(500);
    atomic_store(&scopes.stop, true);
    pthread_join(thread, NULL);
    warren_drain(&warren, warren.queue, times, SCOPES * A_SCOPE);
    assert_int_equal(scopes.ends[0], CONEY_OK);
    assert_int_equal(scopes.ends[scopes.count - 1], CONEY_OK);
    for (size_t i = 0; i < scopes.count; i++)
        for (size_t n = 0; n < A_SCOPE; n++) {
            unsigned came = times[i * A_SCOPE + n];
            bool right = scopes.ends[i] == CONEY_OK ? came == 1 : scopes.ends[i] == CONEY_EUNKNOWN ? came <= 1 : came == 0;
            if (!right)
                fail_msg("transaction %zu ended with %s, and its message %zu came %u times", i,
                         coney_status_name(scopes.ends[i]), n, came);
        }
    warren_down(&warren);
}

int main(void)
{
    if (!node_start(&node, "amqp-loss", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_frozen_node_is_noticed_by_its_missing_heartbeats_and_loses_nothing, unfreeze),
        cmocka_unit_test(without_resending_a_killed_node_leaves_unknowns_and_what_was_confirmed_is_there),
        cmocka_unit_test(a_node_killed_under_load_loses_nothing_over_tls),
        cmocka_unit_test(closing_while_the_node_is_away_is_fast_and_gives_every_message_its_outcome),
        cmocka_unit_test(transactions_across_a_kill_are_there_whole_when_they_were_committed_and_not_when_they_were_lost),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
