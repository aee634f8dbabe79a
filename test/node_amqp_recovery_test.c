/* Topology on a node of our own whose connections are cut, and that is stopped and killed: it is back, and its bindings route. */
#define _GNU_SOURCE
#include "rabbit.h"
#include "stage.h"

#include <signal.h>

static struct node node;

/* The operator closes all connections; returns when the environment has lost those that it had. */
static void cut(struct rabbit *rabbit)
{
    coney_amqp_stats stats;
    size_t lost = events_count(&rabbit->events, CONEY_EVENT_DISCONNECTED);
    assert_int_equal(coney_amqp_get_stats(rabbit->env, &stats), CONEY_OK);
    node_do(&node, "close_all_connections cut");
    if (!events_reach(&rabbit->events, CONEY_EVENT_DISCONNECTED, lost + stats.connections, SUPPORT_PATIENCE)) {
        events_print(&rabbit->events);
        fail_msg("the connections were not lost");
    }
}

/* Another environment, for what happens behind the back of the one under test. */
static void outside_deletes(const char *queue, const char *exchange)
{
    struct rabbit outside;
    rabbit_up(&outside, &node);
    if (queue != NULL)
        rabbit_delete_queue(&outside, queue);
    if (exchange != NULL)
        rabbit_delete_exchange(&outside, exchange);
    rabbit_down(&outside);
}

static void outside_declares(const coney_amqp_queue *queue)
{
    struct rabbit outside;
    rabbit_up(&outside, &node);
    rabbit_queue(&outside, queue);
    rabbit_down(&outside);
}

/* A publisher may be back before the topology of another purpose: what it publishes is looked at until it routes. */
static void comes_to_route(struct rabbit *rabbit, const char *exchange, const char *key)
{
    struct monitor clock = {0};
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    bool routed;
    monitor_lock(&clock);
    while (!(routed = rabbit_routes(rabbit, exchange, key)) && now_ms() < until)
        monitor_wait(&clock, now_ms() + 5);
    monitor_unlock(&clock);
    monitor_free(&clock);
    if (routed)
        return;
    events_print(&rabbit->events);
    fail_msg("a message to '%s' with the key '%s' comes to no queue", exchange, key);
}

/* What is back --------------------------------------------------------------------------------------------------------- */

static void what_was_declared_is_back_after_a_cut_and_its_bindings_route(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *first = named(&rabbit, "first"), *second = named(&rabbit, "second"), *queue = named(&rabbit, "q");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = first, .type = "topic"});
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = second, .type = "fanout", .auto_delete = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue, .max_length = 100});
    rabbit_bind_exchange(&rabbit, first, second, "a.*");
    rabbit_bind(&rabbit, second, queue, NULL);
    rabbit_bind(&rabbit, first, queue, "b");
    outside_deletes(queue, first);
    outside_deletes(NULL, second);
    assert_false(rabbit_has_queue(&rabbit, queue)); /* not before a connection is lost */
    cut(&rabbit);
    assert_true(rabbit_has_queue(&rabbit, queue)); /* the call waits for that */
    assert_true(rabbit_has_exchange(&rabbit, first));
    assert_true(rabbit_routes(&rabbit, first, "a.b"));
    assert_true(rabbit_routes(&rabbit, first, "b"));
    assert_false(rabbit_routes(&rabbit, first, "c"));
    rabbit_holds(&rabbit, queue, 2);
    rabbit_delete_queue(&rabbit, queue);
    rabbit_delete_exchange(&rabbit, first);
    rabbit_down(&rabbit);
}

static void everything_comes_back_with_a_node_that_is_started_again(void (*end)(struct node *node), coney_queue_type type)
{
    struct rabbit rabbit;
    coney_amqp_queue_info info;
    rabbit_up(&rabbit, &node);
    const char *transient = named(&rabbit, "transient"), *queue = named(&rabbit, "q"), *mine = named(&rabbit, "mine");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = transient, .type = "topic", .transient = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue, .type = type});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = mine, .exclusive = true, .transient = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.info = &info, .exclusive = true, .auto_delete = true});
    rabbit_bind(&rabbit, transient, queue, "queue");
    rabbit_bind(&rabbit, transient, mine, "mine");
    rabbit_bind(&rabbit, transient, info.name, "brokers");
    assert_true(rabbit_routes(&rabbit, transient, "queue"));
    end(&node);
    node_restart(&node);
    comes_to_route(&rabbit, transient, "queue");
    comes_to_route(&rabbit, transient, "mine");
    comes_to_route(&rabbit, transient, "brokers");
    struct event renamed = events_wait(&rabbit.events, CONEY_EVENT_QUEUE_RENAMED, 0);
    assert_string_equal(renamed.name, info.name);
    assert_true(rabbit_has_queue(&rabbit, mine));
    assert_true(rabbit_has_queue(&rabbit, info.name));
    rabbit_delete_queue(&rabbit, queue);
    rabbit_delete_exchange(&rabbit, transient);
    rabbit_down(&rabbit);
}

static void topology_is_back_when_a_node_was_stopped_in_order_and_started_again(void **state)
{
    (void)state;
    everything_comes_back_with_a_node_that_is_started_again(node_shut, CONEY_QUEUE_QUORUM);
}

static void topology_is_back_when_a_node_was_killed_and_started_again(void **state)
{
    (void)state;
    /* A node that is killed soon after a quorum queue was made blocks every channel that publishes to it afterwards. */
    everything_comes_back_with_a_node_that_is_started_again(node_kill, CONEY_QUEUE_CLASSIC);
}

static void many_items_come_back_in_their_order(void **state)
{
    (void)state;
    enum { QUEUES = 150 };
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *exchange = named(&rabbit, "x");
    char name[128], key[16];
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange, .auto_delete = true});
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "%s-%d", exchange, i);
        snprintf(key, sizeof key, "%d", i);
        rabbit_queue(&rabbit, &(coney_amqp_queue){.name = name, .exclusive = true});
        rabbit_bind(&rabbit, exchange, name, key);
    }
    cut(&rabbit);
    for (int i = 0; i < QUEUES; i++) {
        snprintf(key, sizeof key, "%d", i);
        comes_to_route(&rabbit, exchange, key);
    }
    rabbit_down(&rabbit);
}

/* Names by the broker --------------------------------------------------------------------------------------------------- */

static coney_settle count_message(void *ctx, const coney_amqp_delivery *delivery)
{
    struct waited_call *call = ctx;
    coney_call nothing = {0};
    (void)delivery;
    call->call.on_done(call->call.ctx, &nothing);
    return CONEY_ACK;
}

static void a_queue_that_the_broker_names_anew_keeps_its_name_here_and_its_consumer(void **state)
{
    (void)state;
    struct rabbit rabbit;
    struct waited_call came = {0};
    coney_call call = {0};
    coney_amqp_queue_info info, now;
    rabbit_up(&rabbit, &node);
    waited_call_of(&came, 0);
    const char *exchange = named(&rabbit, "x");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.info = &info, .exclusive = true});
    rabbit_bind(&rabbit, exchange, info.name, "k");
    const coney_amqp_consumer_options options = {.on_delivery = count_message, .ctx = &came};
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(rabbit.env, info.name, &options, &call);
    if (consumer == NULL)
        fail_msg("%s", call.text);
    for (size_t cuts = 1; cuts <= 3; cuts++) {
        cut(&rabbit);
        struct event renamed = events_wait(&rabbit.events, CONEY_EVENT_QUEUE_RENAMED, cuts - 1);
        assert_string_equal(renamed.name, info.name);
        comes_to_route(&rabbit, exchange, "k");
        rabbit_queue(&rabbit, &(coney_amqp_queue){.name = info.name, .passive = true, .info = &now});
        assert_string_not_equal(now.name, info.name);
        assert_says(renamed.text, now.name);
    }
    waited_call_wait(&came);
    rabbit_unbind(&rabbit, exchange, info.name, "k");
    assert_false(rabbit_routes(&rabbit, exchange, "k"));
    assert_int_equal(coney_amqp_consumer_close(&consumer, NULL), CONEY_OK);
    rabbit_delete_queue(&rabbit, info.name);
    assert_false(rabbit_has_queue(&rabbit, now.name));
    rabbit_delete_exchange(&rabbit, exchange);
    waited_call_free(&came);
    rabbit_down(&rabbit);
}

static void an_auto_delete_queue_comes_back_with_its_bindings_and_its_consumer_after_each_cut(void **state)
{
    (void)state;
    struct rabbit rabbit;
    struct waited_call came = {0};
    coney_call call = {0};
    rabbit_up(&rabbit, &node);
    waited_call_of(&came, 0);
    const char *exchange = named(&rabbit, "x"), *queue = named(&rabbit, "q");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange, .auto_delete = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue, .auto_delete = true});
    rabbit_bind(&rabbit, exchange, queue, "k");
    const coney_amqp_consumer_options options = {.on_delivery = count_message, .ctx = &came};
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(rabbit.env, queue, &options, &call);
    if (consumer == NULL)
        fail_msg("%s", call.text);
    for (size_t cuts = 1; cuts <= 5; cuts++) {
        cut(&rabbit);
        if (!events_reach(&rabbit.events, CONEY_EVENT_RECOVERED, cuts, SUPPORT_PATIENCE)) {
            events_print(&rabbit.events);
            fail_msg("the consumer does not work again");
        }
    }
    comes_to_route(&rabbit, exchange, "k");
    waited_call_wait(&came);
    assert_int_equal(coney_amqp_consumer_close(&consumer, NULL), CONEY_OK);
    rabbit_delete_exchange(&rabbit, exchange);
    waited_call_free(&came);
    rabbit_down(&rabbit);
}

static void a_queue_that_the_broker_named_and_that_outlived_the_cut_keeps_its_name(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_amqp_queue_info info, now;
    rabbit_up(&rabbit, &node);
    rabbit_queue(&rabbit, &(coney_amqp_queue){.info = &info});
    assert_true(rabbit_routes(&rabbit, "", info.name));
    cut(&rabbit);
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = info.name, .passive = true, .info = &now});
    assert_string_equal(now.name, info.name);
    rabbit_holds(&rabbit, info.name, 1);
    assert_int_equal(events_count(&rabbit.events, CONEY_EVENT_QUEUE_RENAMED), 0);
    outside_deletes(info.name, NULL);
    cut(&rabbit);
    rabbit_holds(&rabbit, info.name, 0); /* another one, by the same name here */
    assert_int_equal(events_count(&rabbit.events, CONEY_EVENT_QUEUE_RENAMED), 1);
    assert_int_equal(events_count(&rabbit.events, CONEY_EVENT_TOPOLOGY_FAILED), 0);
    rabbit_delete_queue(&rabbit, info.name);
    rabbit_down(&rabbit);
}

/* What is not back --------------------------------------------------------------------------------------------------------- */

static void L04_what_was_deleted_unbound_only_asked_about_or_to_be_forgotten_does_not_come_back(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *deleted = named(&rabbit, "deleted"), *asked = named(&rabbit, "asked"), *forgotten = named(&rabbit, "forgotten");
    const char *exchange = named(&rabbit, "x"), *kept = named(&rabbit, "kept"), *mine = named(&rabbit, "mine");
    outside_declares(&(coney_amqp_queue){.name = asked});
    assert_true(rabbit_has_queue(&rabbit, asked));
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = deleted});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = forgotten, .forget = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = mine, .exclusive = true, .forget = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = kept});
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange});
    rabbit_bind(&rabbit, exchange, kept, "k");
    rabbit_bind(&rabbit, exchange, kept, "l");
    rabbit_bind(&rabbit, exchange, mine, "m");
    rabbit_unbind(&rabbit, exchange, kept, "k");
    rabbit_delete_queue(&rabbit, deleted);
    outside_deletes(asked, exchange);
    outside_deletes(forgotten, NULL);
    cut(&rabbit);
    assert_true(rabbit_has_queue(&rabbit, kept));
    assert_false(rabbit_has_queue(&rabbit, deleted));
    assert_false(rabbit_has_queue(&rabbit, asked));
    assert_false(rabbit_has_queue(&rabbit, forgotten));
    assert_false(rabbit_has_queue(&rabbit, mine));
    assert_true(rabbit_routes(&rabbit, exchange, "l"));
    assert_false(rabbit_routes(&rabbit, exchange, "k"));
    assert_int_equal(events_count(&rabbit.events, CONEY_EVENT_TOPOLOGY_FAILED), 0);
    rabbit_delete_queue(&rabbit, kept);
    rabbit_delete_exchange(&rabbit, exchange);
    rabbit_down(&rabbit);
}

static void without_recovery_nothing_is_declared_again(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_open(&rabbit, &node, &(coney_amqp_options){.no_recovery = true});
    const char *queue = named(&rabbit, "q");
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    outside_deletes(queue, NULL);
    cut(&rabbit);
    assert_false(rabbit_has_queue(&rabbit, queue)); /* a call connects */
    rabbit_down(&rabbit);
}

/* Failures --------------------------------------------------------------------------------------------------------------- */

static void L08_an_item_that_cannot_be_declared_is_told_with_pauses_and_holds_up_nothing_else(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *bad = named(&rabbit, "bad"), *good = named(&rabbit, "good"), *worse = named(&rabbit, "worse");
    const char *exchange = named(&rabbit, "x");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = bad});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = worse});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = good});
    rabbit_bind(&rabbit, exchange, good, "k");
    outside_deletes(good, exchange);
    outside_deletes(bad, NULL);
    outside_deletes(worse, NULL);
    outside_declares(&(coney_amqp_queue){.name = bad, .max_length = 7});
    outside_declares(&(coney_amqp_queue){.name = worse, .max_length = 7});
    int64_t begun = now_ms();
    cut(&rabbit);
    assert_true(rabbit_routes(&rabbit, exchange, "k"));
    struct event failed = events_wait(&rabbit.events, CONEY_EVENT_TOPOLOGY_FAILED, 0);
    assert_string_equal(failed.name, bad);
    assert_int_equal(failed.code, 406);
    assert_int_equal(failed.status, CONEY_EPRECONDITION);
    assert_true(failed.delay > 0);
    assert_says(failed.text, "inequivalent arg 'x-max-length'");
    assert_string_equal(events_wait(&rabbit.events, CONEY_EVENT_TOPOLOGY_FAILED, 1).name, worse);
    (void)events_wait(&rabbit.events, CONEY_EVENT_TOPOLOGY_FAILED, 7); /* four attempts, two events each */
    int64_t took = now_ms() - begun;
    size_t attempts = events_count(&rabbit.events, CONEY_EVENT_TOPOLOGY_FAILED) / 2;
    assert_true(took >= 25 + 50 + 100); /* at least half of each pause but the last */
    assert_in_range(attempts, 4, 4 + (uint64_t)took / 25);
    outside_deletes(bad, NULL);
    outside_deletes(worse, NULL);
    struct monitor clock = {0};
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&clock);
    while (!(rabbit_has_queue(&rabbit, bad) && rabbit_has_queue(&rabbit, worse)) && now_ms() < until)
        monitor_wait(&clock, now_ms() + 10);
    monitor_unlock(&clock);
    monitor_free(&clock);
    assert_true(rabbit_has_queue(&rabbit, bad) && rabbit_has_queue(&rabbit, worse));
    rabbit_delete_queue(&rabbit, bad);
    rabbit_delete_queue(&rabbit, worse);
    rabbit_delete_queue(&rabbit, good);
    rabbit_delete_exchange(&rabbit, exchange);
    rabbit_down(&rabbit);
}

static void while_the_node_is_away_a_call_says_so_and_afterwards_the_topology_is_there(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_call call = {0};
    rabbit_up(&rabbit, &node);
    const char *queue = named(&rabbit, "q"), *other = named(&rabbit, "other");
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue, .exclusive = true});
    node_kill(&node);
    (void)events_wait(&rabbit.events, CONEY_EVENT_DISCONNECTED, 1);
    coney_amqp_queue_declare(rabbit.env, &(coney_amqp_queue){.name = other}, &call);
    if (call.status != CONEY_ECONNECT)
        fail_msg("%s: %s", coney_status_name(call.status), call.text);
    assert_says(call.text, other);
    assert_says(call.text, "127.0.0.1");
    node_restart(&node);
    struct rabbit outside;
    rabbit_up(&outside, &node);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    struct monitor clock = {0};
    coney_status status;
    monitor_lock(&clock); /* it comes back by itself: without members, without calls */
    while ((status = coney_amqp_queue_purge(outside.env, queue, &call)) == CONEY_ENOTFOUND && now_ms() < until)
        monitor_wait(&clock, now_ms() + 20);
    monitor_unlock(&clock);
    monitor_free(&clock);
    assert_int_equal(status, CONEY_EUNAVAILABLE); /* exclusive to the other */
    rabbit_down(&outside);
    rabbit_delete_queue(&rabbit, queue);
    rabbit_down(&rabbit);
}

static void a_call_that_the_broker_leaves_without_an_answer_ends_at_its_deadline_or_when_it_is_canceled(void **state)
{
    (void)state;
    struct rabbit rabbit;
    struct waited_call canceled = {0};
    coney_amqp_stats stats;
    coney_call call = call_within(300);
    rabbit_up(&rabbit, &node);
    const coney_amqp_queue queue = {.name = named(&rabbit, "q")};
    node_signal(&node, SIGSTOP);
    coney_status late = coney_amqp_queue_declare(rabbit.env, &queue, &call);
    coney_status begun = coney_amqp_queue_declare(rabbit.env, &queue, waited_call_of(&canceled, 0));
    coney_status cancel = coney_call_cancel(canceled.call.id);
    coney_status ended = waited_call_wait(&canceled);
    node_signal(&node, SIGCONT);
    assert_int_equal(late, CONEY_ETIMEDOUT);
    assert_int_equal(begun, CONEY_OK);
    assert_int_equal(cancel, CONEY_OK);
    assert_int_equal(ended, CONEY_ECANCELED);
    rabbit_queue(&rabbit, &queue);
    rabbit_delete_queue(&rabbit, queue.name);
    assert_int_equal(waited_call_count(&canceled), 1);
    assert_int_equal(coney_amqp_get_stats(rabbit.env, &stats), CONEY_OK);
    assert_in_range(stats.channels, 0, 4);
    waited_call_free(&canceled);
    rabbit_down(&rabbit);
}

static void closing_while_the_node_is_away_is_fast(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = named(&rabbit, "q"), .exclusive = true});
    node_kill(&node);
    (void)events_wait(&rabbit.events, CONEY_EVENT_CONNECT_FAILED, 2);
    int64_t begun = now_ms();
    rabbit_down(&rabbit);
    assert_true(now_ms() - begun < scaled_ms(500));
    node_restart(&node);
}

int main(void)
{
    if (!node_start(&node, "amqp-recovery", ""))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_declared_is_back_after_a_cut_and_its_bindings_route),
        cmocka_unit_test(topology_is_back_when_a_node_was_stopped_in_order_and_started_again),
        cmocka_unit_test(topology_is_back_when_a_node_was_killed_and_started_again),
        cmocka_unit_test(many_items_come_back_in_their_order),
        cmocka_unit_test(a_queue_that_the_broker_names_anew_keeps_its_name_here_and_its_consumer),
        cmocka_unit_test(an_auto_delete_queue_comes_back_with_its_bindings_and_its_consumer_after_each_cut),
        cmocka_unit_test(a_queue_that_the_broker_named_and_that_outlived_the_cut_keeps_its_name),
        cmocka_unit_test(L04_what_was_deleted_unbound_only_asked_about_or_to_be_forgotten_does_not_come_back),
        cmocka_unit_test(without_recovery_nothing_is_declared_again),
        cmocka_unit_test(L08_an_item_that_cannot_be_declared_is_told_with_pauses_and_holds_up_nothing_else),
        cmocka_unit_test(while_the_node_is_away_a_call_says_so_and_afterwards_the_topology_is_there),
        cmocka_unit_test(a_call_that_the_broker_leaves_without_an_answer_ends_at_its_deadline_or_when_it_is_canceled),
        cmocka_unit_test(closing_while_the_node_is_away_is_fast),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
