/* A memory alarm on a node of our own: publishing stops and is told of, everything else goes on, and when it ends nothing is lost. */
#define _GNU_SOURCE
#include "amqp_traffic.h"
#include "stage.h"

static struct node node;

static void raise_alarm(void)
{
    node_do(&node, "-q set_vm_memory_high_watermark absolute 20MB");
}

static void end_alarm(void)
{
    node_do(&node, "-q set_vm_memory_high_watermark absolute 512MB");
}

static int end_alarm_after(void **state)
{
    (void)state;
    end_alarm();
    return 0;
}

static uint64_t blocked_now(struct warren *warren)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(warren->env, &stats), CONEY_OK);
    return stats.blocked;
}

static coney_amqp_publisher *publisher_of(struct warren *warren, const coney_amqp_publisher_options *options)
{
    coney_call call = {0};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren->env, options, &call);
    if (publisher == NULL)
        fail_msg("the publisher did not open: %s: %s", coney_status_name(call.status), call.text);
    return publisher;
}

static void note_writable(void *ctx)
{
    struct waited_call *writable = ctx;
    const coney_call nothing = {0};
    writable->call.on_done(writable->call.ctx, &nothing);
}

/* The outcomes and the call are told by one ctx. */
struct told {
    struct outcomes outcomes;
    struct waited_call writable;
};

static void told_outcome(void *ctx, const coney_outcome *outcome)
{
    outcomes_add(&((struct told *)ctx)->outcomes, outcome);
}

static void told_writable(void *ctx)
{
    note_writable(&((struct told *)ctx)->writable);
}

/* Publishes until the bound is reached; how many were accepted. */
static uint64_t publish_up_to_the_bound(coney_amqp_publisher *publisher, uint64_t first)
{
    uint64_t number = first;
    coney_status status;
    do {
        const coney_amqp_message message = {.body = numbered(number), .tag = number};
        status = coney_amqp_publish(publisher, &message);
        number += status == CONEY_OK;
    } while (status == CONEY_OK);
    assert_int_equal(status, CONEY_EAGAIN);
    return number - first;
}

static void an_alarm_stops_publishing_alone_and_afterwards_all_is_confirmed(void **state)
{
    (void)state;
    struct warren warren;
    struct told told = {0};
    struct parcels parcels = {0};
    warren_set(&warren, &node);
    warren.options.heartbeat = CONEY_SECOND;
    warren_open(&warren, NULL);
    warren_fill(&warren, 0, 3000);
    waited_call_of(&told.writable, 0);
    const coney_amqp_publisher_options options = {.routing_key = warren.queue,
                                                  .on_outcome = told_outcome,
                                                  .on_writable = told_writable,
                                                  .ctx = &told,
                                                  .max_messages = 500,
                                                  .enqueue_timeout = CONEY_OFF};
    coney_amqp_publisher *publisher = publisher_of(&warren, &options);
    raise_alarm();
    uint64_t accepted = publish_up_to_the_bound(publisher, 3000);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (!events_reach(&warren.events, CONEY_EVENT_BLOCKED, 1, 20) &&
           now_ms() < until) /* it says so to who publishes into it */
        accepted += publish_up_to_the_bound(publisher, 3000 + accepted);
    struct event blocked = events_wait(&warren.events, CONEY_EVENT_BLOCKED, 0);
    assert_says(blocked.text, "memory");
    assert_int_equal(blocked_now(&warren), 1);
    accepted += publish_up_to_the_bound(publisher, 3000 + accepted);

    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 3000);
    coney_call call = {0};
    assert_int_equal(coney_amqp_queue_declare(warren.env, &(coney_amqp_queue){.name = warren.queue, .passive = true}, &call),
                     CONEY_OK);
    size_t before = outcomes_count(&told.outcomes); /* what was under way when it was told is confirmed by now */
    assert_true(before < accepted);
    /* Longer than a silent connection lives. */
    events_none(&warren.events, CONEY_EVENT_DISCONNECTED, 4000);
    assert_int_equal(outcomes_count(&told.outcomes), before);
    assert_int_equal(outcomes_with(&told.outcomes, CONEY_OK), outcomes_count(&told.outcomes));
    char *waiting = node_ctl(&node, "-q list_queues name messages_unacknowledged");
    const char *ours = strstr(waiting, warren.queue);
    assert_non_null(ours);
    assert_int_equal(strtoul(ours + strlen(warren.queue), NULL, 10), 0); /* the acks went out */
    free(waiting);

    end_alarm();
    events_wait(&warren.events, CONEY_EVENT_UNBLOCKED, 0);
    assert_int_equal(blocked_now(&warren), 0);
    waited_call_wait(&told.writable);
    outcomes_wait(&told.outcomes, (size_t)accepted);
    outcomes_are_each_once(&told.outcomes, 3000, (size_t)accepted);
    assert_int_equal(outcomes_with(&told.outcomes, CONEY_OK), accepted);
    parcels_wait(&parcels, 3000 + (size_t)accepted);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    warren_close_consumer(&consumer);
    parcels_are_in_order(&parcels, 0, 3000 + (size_t)accepted);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    waited_call_free(&told.writable);
    outcomes_free(&told.outcomes);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void during_an_alarm_a_publish_waits_at_the_bound_as_long_as_it_is_let(void **state)
{
    (void)state;
    struct warren warren;
    struct outcomes outcomes = {0};
    warren_up(&warren, &node, NULL);
    const coney_amqp_publisher_options options = {.routing_key = warren.queue,
                                                  .on_outcome = outcomes_add,
                                                  .ctx = &outcomes,
                                                  .max_messages = 100,
                                                  .enqueue_timeout = 200 * CONEY_MILLISECOND};
    coney_amqp_publisher *publisher = publisher_of(&warren, &options);
    raise_alarm();
    uint64_t number = 0;
    coney_status status;
    int64_t begun;
    do {
        begun = now_ms();
        const coney_amqp_message message = {.body = numbered(number), .tag = number};
        status = coney_amqp_publish(publisher, &message);
        number += status == CONEY_OK;
    } while (status == CONEY_OK);
    assert_int_equal(status, CONEY_ETIMEDOUT);
    assert_true(now_ms() - begun >= 200);
    coney_call call = call_within(300);
    assert_int_equal(coney_amqp_publish_wait(publisher, &(coney_amqp_message){.body = CONEY_STR("x")}, &call), CONEY_ETIMEDOUT);
    end_alarm();
    outcomes_wait(&outcomes, (size_t)number);
    outcomes_are_each_once(&outcomes, 0, (size_t)number);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), number);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    outcomes_free(&outcomes);
    warren_down(&warren);
}

static void closing_during_an_alarm_ends_at_its_deadline_and_tells_what_is_unknown(void **state)
{
    (void)state;
    struct warren warren;
    struct outcomes outcomes = {0};
    warren_up(&warren, &node, NULL);
    const coney_amqp_publisher_options options = {
        .routing_key = warren.queue, .on_outcome = outcomes_add, .ctx = &outcomes, .enqueue_timeout = CONEY_OFF};
    coney_amqp_publisher *publisher = publisher_of(&warren, &options);
    raise_alarm();
    uint64_t accepted = publish_up_to_the_bound(publisher, 0);
    events_wait(&warren.events, CONEY_EVENT_BLOCKED, 0);
    coney_call call = call_within(300);
    assert_int_equal(coney_amqp_publisher_close(&publisher, &call), CONEY_ETIMEDOUT);
    outcomes_are_each_once(&outcomes, 0, (size_t)accepted);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), call.value);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), accepted - call.value);
    end_alarm();
    outcomes_free(&outcomes);
    warren_down(&warren);
}

static void an_alarm_under_load_loses_nothing(coney_queue_type type)
{
    struct warren warren;
    struct amqp_traffic traffic;
    warren_up(&warren, &node, &(coney_amqp_queue){.type = type});
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 500);
    raise_alarm();
    events_wait(&warren.events, CONEY_EVENT_BLOCKED, 0);
    end_alarm();
    events_wait(&warren.events, CONEY_EVENT_UNBLOCKED, 0);
    amqp_traffic_passes(&traffic, 500);
    amqp_traffic_is_whole(&traffic);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    warren_down(&warren);
}

static void an_alarm_under_load_loses_nothing_from_a_classic_queue(void **state)
{
    (void)state;
    an_alarm_under_load_loses_nothing(CONEY_QUEUE_CLASSIC);
}

static void an_alarm_under_load_loses_nothing_from_a_quorum_queue(void **state)
{
    (void)state;
    an_alarm_under_load_loses_nothing(CONEY_QUEUE_QUORUM);
}

/* A node that comes back with its alarm blocks the new connections too; a node killed under one leaves none behind here. */
static void a_node_killed_during_its_alarm_leaves_no_block_behind(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    warren_up(&warren, &node, NULL);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    traffic.killed = true;
    amqp_traffic_passes(&traffic, 500);
    raise_alarm();
    events_wait(&warren.events, CONEY_EVENT_BLOCKED, 0);
    node_write_down(&node);
    node_kill(&node);
    events_wait(&warren.events, CONEY_EVENT_DISCONNECTED, 1);
    assert_int_equal(blocked_now(&warren), 0);
    node_restart(&node);
    amqp_traffic_passes(&traffic, 500);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
}

int main(void)
{
    if (!node_start(&node, "amqp-alarm", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_alarm_stops_publishing_alone_and_afterwards_all_is_confirmed, end_alarm_after),
        cmocka_unit_test_teardown(during_an_alarm_a_publish_waits_at_the_bound_as_long_as_it_is_let, end_alarm_after),
        cmocka_unit_test_teardown(closing_during_an_alarm_ends_at_its_deadline_and_tells_what_is_unknown, end_alarm_after),
        cmocka_unit_test_teardown(an_alarm_under_load_loses_nothing_from_a_classic_queue, end_alarm_after),
        cmocka_unit_test_teardown(an_alarm_under_load_loses_nothing_from_a_quorum_queue, end_alarm_after),
        cmocka_unit_test_teardown(a_node_killed_during_its_alarm_leaves_no_block_behind, end_alarm_after),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
