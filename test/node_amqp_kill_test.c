/* A node of our own that is killed at random points, twenty times, or five under a sanitizer, with load in both directions: every message
 * is accounted for, and each time there is exactly one consumer on each queue. */
#define _GNU_SOURCE
#include "amqp_traffic.h"

enum { LINE = 5 }; /* every LINE kills the queues are emptied first: what was gone then never comes again */

static struct node node;

static coney_amqp_stats stats_of(struct warren *warren)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(warren->env, &stats), CONEY_OK);
    return stats;
}

/* Waits until the environment says that so many consumers are subscribed. */
static void readiness_is(struct warren *warren, uint64_t active)
{
    struct monitor clock = {0};
    int64_t until = now_ms() + scaled_ms(30000);
    monitor_lock(&clock);
    while (stats_of(warren).consumers_active != active && now_ms() < until)
        monitor_wait(&clock, now_ms() + 2);
    monitor_unlock(&clock);
    monitor_free(&clock);
    if (stats_of(warren).consumers_active == active)
        return;
    events_print(&warren->events);
    fail_msg("%llu consumers are subscribed instead of %llu", (unsigned long long)stats_of(warren).consumers_active,
             (unsigned long long)active);
}

/* How many the broker says are on the queue; 0 also where it cannot say. */
static uint64_t consumers_on(struct warren *warren, const char *queue)
{
    coney_amqp_queue_info info = {0};
    const coney_amqp_queue asked = {.name = queue, .passive = true, .info = &info};
    coney_call call = {0};
    coney_status status = coney_amqp_queue_declare(warren->env, &asked, &call);
    if (status != CONEY_OK && status != CONEY_ELOST && status != CONEY_ETIMEDOUT)
        fail_msg("queue '%s' cannot be asked: %s: %s", queue, coney_status_name(status), call.text);
    return status == CONEY_OK ? info.consumers : 0;
}

static void one_consumer_is_on(struct warren *warren, const char *queue)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    uint64_t count;
    while ((count = consumers_on(warren, queue)) == 0 && now_ms() < until)
        ;
    if (count != 1)
        fail_msg("%llu consumers are on queue '%s' instead of one", (unsigned long long)count, queue);
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

static void kill_and_restart(struct warren *warren)
{
    node_kill(&node);
    readiness_is(warren, 0);
    assert_int_equal(stats_of(warren).consumers, 2);
    node_restart(&node);
}

static void empty_before_the_next_kill(struct amqp_traffic *traffic)
{
    amqp_traffic_stops(traffic);
    amqp_traffic_is_gone(traffic, &node);
    amqp_traffic_goes_on(traffic);
}

static void L06_L07_killed_again_and_again_under_load_a_node_loses_nothing_and_finds_each_consumer_once(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic classic, quorum;
    char other[90];
    struct dice dice = dice_of(20261130);
    warren_up(&warren, &node, &(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC});
    snprintf(other, sizeof other, "%s-quorum", warren.queue);
    warren_declare(&warren, other, &(coney_amqp_queue){.type = CONEY_QUEUE_QUORUM});
    node_shut(&node); /* a quorum queue that was just made is on its disk then */
    node_restart(&node);
    amqp_traffic_start(&classic, &warren, warren.queue, NULL);
    amqp_traffic_start(&quorum, &warren, other, NULL);
    classic.killed = quorum.killed = true;
    const size_t kills = scaled_ms(1) > 1 ? LINE : 4 * LINE;
    for (size_t kill = 1; kill <= kills; kill++) {
        amqp_traffic_passes(&classic, 50);
        amqp_traffic_passes(&quorum, 50);
        readiness_is(&warren, 2);
        one_consumer_is_on(&warren, classic.queue);
        one_consumer_is_on(&warren, quorum.queue);
        if (kill % LINE == 0) {
            empty_before_the_next_kill(&classic);
            empty_before_the_next_kill(&quorum);
        }
        pause_ms((int64_t)dice_roll(&dice, 200));
        kill_and_restart(&warren);
    }
    amqp_traffic_passes(&classic, 50);
    amqp_traffic_passes(&quorum, 50);
    amqp_traffic_is_whole(&classic);
    amqp_traffic_is_whole(&quorum);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_GAVE_UP), 0);
    assert_int_equal(stats_of(&warren).consumers, 0);
    coney_amqp_queue_delete(warren.env, other, 0, NULL);
    warren_down(&warren);
}

int main(void)
{
    if (!node_start(&node, "amqp-kill", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(L06_L07_killed_again_and_again_under_load_a_node_loses_nothing_and_finds_each_consumer_once),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
