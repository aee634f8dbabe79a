/* Consumers and publishers while their node is killed and comes back: nothing confirmed is lost, and each consumer is there once. */
#define _GNU_SOURCE
#include "warren.h"

enum { KILLS = 4, MOST = 200000 };

static struct node node;

/* What the handler has seen of the numbers that were published. */
struct ledger {
    struct monitor monitor;
    unsigned char times[MOST];
    size_t distinct;
};

static coney_settle note(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    struct ledger *ledger = ctx;
    char text[24] = "";
    (void)nth;
    memcpy(text, delivery->body.data, delivery->body.len < sizeof text - 1 ? delivery->body.len : sizeof text - 1);
    uint64_t number = strtoull(text + 1, NULL, 10);
    if (number >= MOST)
        return CONEY_REJECT;
    monitor_lock(&ledger->monitor);
    ledger->distinct += ledger->times[number] == 0;
    ledger->times[number]++;
    monitor_broadcast(&ledger->monitor);
    monitor_unlock(&ledger->monitor);
    return CONEY_ACK;
}

static void wait_for_distinct(struct ledger *ledger, size_t count)
{
    int64_t until = now_ms() + scaled_ms(60000);
    monitor_lock(&ledger->monitor);
    while (ledger->distinct < count && monitor_wait(&ledger->monitor, until))
        ;
    size_t distinct = ledger->distinct;
    monitor_unlock(&ledger->monitor);
    if (distinct < count)
        fail_msg("%zu messages were handled instead of %zu", distinct, count);
}

static uint64_t consumers_of(struct warren *warren)
{
    coney_amqp_queue_info info;
    coney_amqp_queue queue = {.name = warren->queue, .passive = true, .info = &info};
    coney_call call = {0};
    if (coney_amqp_queue_declare(warren->env, &queue, &call) != CONEY_OK)
        fail_msg("queue '%s' cannot be asked: %s", warren->queue, call.text);
    return info.consumers;
}

/* Publishes as long as it is let, from a thread of its own. */
struct load {
    struct warren *warren;
    coney_amqp_publisher *publisher;
    _Atomic uint64_t published;
    _Atomic bool stop;
};

static void *publish_on(void *ctx)
{
    struct load *load = ctx;
    while (!load->stop && load->published < MOST) {
        coney_amqp_message message = {.body = numbered(load->published), .tag = load->published};
        if (coney_amqp_publish(load->publisher, &message) == CONEY_OK)
            load->published++;
    }
    return NULL;
}

static void L06_L07_after_each_kill_there_is_one_consumer_and_nothing_confirmed_is_lost(void **state)
{
    (void)state;
    struct warren warren;
    struct ledger *ledger = calloc(1, sizeof *ledger);
    struct parcels parcels = {.decide = note, .decide_ctx = ledger};
    struct outcomes outcomes = {0};
    warren_up(&warren, &node,
              NULL); /* classic: a single quorum member that is killed right after its birth is born again, empty */
    struct load load = {.warren = &warren};
    coney_amqp_publisher_options publishing = {.routing_key = warren.queue,
                                               .max_messages = 500,
                                               .enqueue_timeout = 60 * CONEY_SECOND,
                                               .on_outcome = outcomes_add,
                                               .ctx = &outcomes};
    load.publisher = coney_amqp_publisher_open(warren.env, &publishing, NULL);
    assert_non_null(load.publisher);
    coney_amqp_consumer_options options = {.prefetch = 100};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    pthread_t thread;
    pthread_create(&thread, NULL, publish_on, &load);

    for (uint64_t kill = 1; kill <= KILLS; kill++) {
        wait_for_distinct(ledger, kill * 500);
        node_kill(&node);
        node_restart(&node);
        int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
        while (warren_stats(consumer).reconnects < kill && now_ms() < until)
            parcels_reach(&parcels, parcels_count(&parcels) + 1, 50);
        if (warren_stats(consumer).reconnects != kill)
            events_print(&warren.events);
        assert_int_equal(warren_stats(consumer).reconnects, kill);
        assert_int_equal(consumers_of(&warren), 1);
        coney_amqp_stats stats;
        coney_amqp_get_stats(warren.env, &stats);
        assert_int_equal(stats.consumers, 1);
        assert_int_equal(stats.consumers_active, 1);
    }
    load.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(coney_amqp_publisher_close(&load.publisher, NULL), CONEY_OK);
    uint64_t published = load.published;
    outcomes_are_each_once(&outcomes, 0, published);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), published);
    wait_for_distinct(ledger, published);
    warren_close_consumer(&consumer);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_CHANNEL_CLOSED), 0);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
    monitor_free(&ledger->monitor);
    free(ledger);
    warren_down(&warren);
}

static void a_consumer_says_that_it_is_not_subscribed_while_its_node_is_away_and_closes_at_once(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    coney_amqp_stats stats;
    warren_up(&warren, &node, NULL);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    node_shut(&node);
    events_wait(&warren.events, CONEY_EVENT_RECOVERY_FAILED, 0);
    coney_amqp_get_stats(warren.env, &stats);
    assert_int_equal(stats.consumers, 1);
    assert_int_equal(stats.consumers_active, 0);
    int64_t began = now_ms();
    warren_close_consumer(&consumer);
    assert_true(now_ms() - began < scaled_ms(2000));
    node_restart(&node);
    parcels_free(&parcels);
    warren_down(&warren);
}

int main(void)
{
    if (!node_start(&node, "amqp-consume", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(L06_L07_after_each_kill_there_is_one_consumer_and_nothing_confirmed_is_lost),
        cmocka_unit_test(a_consumer_says_that_it_is_not_subscribed_while_its_node_is_away_and_closes_at_once),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
