/* Alarms on a node of our own, over AMQP: publishers are held back and told so, everything else goes on, and afterwards nothing is lost. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scene.h"

static struct node node;

static void wait_for_alarm(bool on)
{
    int64_t until = now_ms() + scaled_ms(30000);
    bool seen = !on;
    while (seen != on && now_ms() < until) {
        char *alarms = node_ctl(&node, "eval 'rabbit_alarm:get_alarms().'");
        seen = strstr(alarms, "memory") != NULL;
        free(alarms);
    }
    assert_true(seen == on);
}

static void raise_alarm(void)
{
    node_do(&node, "set_vm_memory_high_watermark 0.00001");
    wait_for_alarm(true);
}

static void end_alarm(void)
{
    node_do(&node, "set_vm_memory_high_watermark 0.9");
}

static int end_alarm_after(void **state)
{
    (void)state;
    end_alarm();
    return 0;
}

struct counted {
    struct monitor monitor;
    size_t count;
};

static coney_settle count_and_ack(void *ctx, const coney_amqp_delivery *delivery)
{
    struct counted *counted = ctx;
    (void)delivery;
    monitor_lock(&counted->monitor);
    counted->count++;
    monitor_broadcast(&counted->monitor);
    monitor_unlock(&counted->monitor);
    return CONEY_ACK;
}

static void wait_for_deliveries(struct counted *counted, size_t count)
{
    int64_t until = now_ms() + scaled_ms(30000);
    monitor_lock(&counted->monitor);
    while (counted->count < count && monitor_wait(&counted->monitor, until))
        continue;
    monitor_unlock(&counted->monitor);
    assert_true(counted->count >= count);
}

/* Waits until the consumer's acks have reached the queue. */
static void wait_for_acks(struct amqp_scene *scene)
{
    char *unacked = NULL;
    int64_t until = now_ms() + scaled_ms(30000);
    do {
        free(unacked);
        unacked = node_ctl(&node, "-q list_queues name messages_unacknowledged | grep '^%s' | cut -f2", scene->queue);
    } while (strtol(unacked, NULL, 10) != 0 && now_ms() < until);
    assert_int_equal(strtol(unacked, NULL, 10), 0);
    free(unacked);
}

static void an_alarm_holds_publishers_back_alone_and_afterwards_all_is_confirmed(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    struct counted counted = {0};
    coney_amqp_stats stats;
    amqp_scene_set(&scene);
    scene.options.heartbeat = CONEY_SECOND;
    amqp_scene_open(&scene, amqp_uri(node.amqp_port));
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 1000);
    outcomes_wait(&outcomes, 1000);
    raise_alarm();
    amqp_publish_numbered(publisher, 1000, 4000);
    struct event blocked = events_wait(&scene.events, CONEY_EVENT_BLOCKED, 0);
    assert_says(blocked.text, "memory");
    coney_amqp_get_stats(scene.rabbit, &stats);
    assert_int_equal(stats.blocked, 1);

    coney_call call = {0};
    coney_amqp_consumer_options options = {.on_delivery = count_and_ack, .ctx = &counted};
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(scene.rabbit, scene.queue, &options, &call);
    if (consumer == NULL)
        fail_msg("%s", call.text);
    wait_for_deliveries(&counted, 1000);
    wait_for_acks(&scene);
    /* Longer than a silent connection lives. */
    assert_false(outcomes_reach(&outcomes, 5000, 4000));
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_DISCONNECTED), 0);

    end_alarm();
    events_wait(&scene.events, CONEY_EVENT_UNBLOCKED, 0);
    assert_true(outcomes_reach(&outcomes, 5000, 30000));
    outcomes_are_each_once(&outcomes, 0, 5000);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 5000);
    wait_for_deliveries(&counted, 5000);
    assert_int_equal(counted.count, 5000);
    coney_amqp_get_stats(scene.rabbit, &stats);
    assert_int_equal(stats.blocked, 0);
    amqp_publisher_close(&publisher);
    assert_int_equal(coney_amqp_consumer_close(&consumer, NULL), CONEY_OK);
    amqp_scene_down(&scene);
    outcomes_free(&outcomes);
    monitor_free(&counted.monitor);
}

static void a_publish_that_waits_is_told_at_its_bound_during_an_alarm(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher_options options = {.max_messages = 10, .enqueue_timeout = CONEY_OFF};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    amqp_publish_numbered(publisher, 0, 1);
    outcomes_wait(&outcomes, 1);
    raise_alarm();
    const coney_amqp_message message = {.body = CONEY_STR("held back"), .tag = 1};
    coney_status status = CONEY_OK;
    size_t accepted = 0;
    for (int64_t until = now_ms() + scaled_ms(20000); status == CONEY_OK && now_ms() < until;) {
        status = coney_amqp_publish(publisher, &message);
        accepted += status == CONEY_OK;
    }
    assert_int_equal(status, CONEY_EAGAIN);
    end_alarm();
    outcomes_wait(&outcomes, 1 + accepted);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 1 + accepted);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
    outcomes_free(&outcomes);
}

int main(void)
{
    if (!node_start(&node, "amqp-alarm", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_alarm_holds_publishers_back_alone_and_afterwards_all_is_confirmed, end_alarm_after),
        cmocka_unit_test_teardown(a_publish_that_waits_is_told_at_its_bound_during_an_alarm, end_alarm_after),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
