/* Services on a node of our own that is killed, shut down and started again while handlers run; and messages as large as it takes them. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "shop.h"
#include "stage.h"

#include <signal.h>
#include <time.h>

#define ORDER(F) F(u64, id) F(string, customer) F(u16, count)
CONEY_MESSAGE(order, ORDER);
#define RECEIPT(F) F(u64, id)
CONEY_MESSAGE(receipt, RECEIPT);

enum { ORDERS = 300, PREFETCH = 30, MB = 1000000 };

static struct node node;
static struct desk desk;
static struct shop shop;
static struct sights seen;
static char orders[80], receipts[80], spent[80];

static int set_up(void **state)
{
    (void)state;
    fresh_name(orders, sizeof orders, "orders");
    fresh_name(receipts, sizeof receipts, "receipts");
    fresh_name(spent, sizeof spent, "spent");
    seen = (struct sights){0};
    node_restart(&node);
    desk_open(&desk, &node);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    desk_delete(&desk, orders);
    desk_delete(&desk, receipts);
    desk_delete(&desk, spent);
    desk_close(&desk);
    sights_free(&seen);
    return 0;
}

/* Handlers -------------------------------------------------------------------------------------------------------------- */

static bool is_bad(uint64_t id)
{
    return id % 10 == 3;
}

/* Takes a moment, so that some are always in hand; one of ten fails. */
static coney_settle confirm(coney_delivery *d, const order *o)
{
    struct timespec moment = {.tv_nsec = 3000000};
    see_one(&seen, o->id, coney_delivery_attempt(d));
    nanosleep(&moment, NULL);
    if (is_bad(o->id))
        return CONEY_FAILED;
    receipt r = {.id = o->id};
    return receipt_publish(coney_out_of(d), receipts, &r) == CONEY_OK ? CONEY_ACK : CONEY_REQUEUE;
}
CONEY_HANDLER(confirm, order);

static coney_settle fail_at_first(coney_delivery *d, const order *o)
{
    uint64_t attempt = coney_delivery_attempt(d);
    see_one(&seen, o->id, attempt);
    return attempt == 1 ? CONEY_FAILED : CONEY_ACK;
}
CONEY_HANDLER(fail_at_first, order);

static coney_settle take(coney_delivery *d, const order *o)
{
    struct timespec moment = {.tv_nsec = 1000000};
    see_one(&seen, o->id, coney_delivery_attempt(d));
    nanosleep(&moment, NULL);
    return CONEY_ACK;
}
CONEY_HANDLER(take, order);

static coney_settle weigh(coney_delivery *d, coney_bytes body)
{
    see_one(&seen, body.len, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(weigh);

/* Queues ---------------------------------------------------------------------------------------------------------------- */

static void open_shop(coney_queue_type type)
{
    desk_declare(&desk, orders, type);
    desk_declare(&desk, receipts, CONEY_QUEUE_QUORUM);
    desk_declare(&desk, spent, CONEY_QUEUE_QUORUM);
    desk_put_orders(&desk, orders, 0, ORDERS);
    node_write_down(&node);
    shop_set(&shop, &node, &(coney_app_options){.drain_timeout = 5 * CONEY_SECOND});
    coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_QUEUE(orders, .type = type, .prefetch = PREFETCH),
                                                       .handler = confirm_handler,
                                                       .on_publish_failure = CONEY_POLICY_RETRY,
                                                       .on_failure = CONEY_POLICY_RETRY,
                                                       .max_attempts = 1,
                                                       .dead_letter = spent,
                                                       .lanes = 4});
    shop_start(&shop);
}

/* Every order has a receipt, or lies with the spent ones; none is left, and none is in both. */
static void nothing_is_missing(void)
{
    unsigned has_receipt[ORDERS] = {0}, is_spent[ORDERS] = {0};
    desk_wait_for_ready(&desk, orders, 0);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    desk_collect(&desk, receipts, desk_ready(&desk, receipts), has_receipt, ORDERS);
    desk_collect(&desk, spent, desk_ready(&desk, spent), is_spent, ORDERS);
    for (uint64_t id = 0; id < ORDERS; id++)
        if ((has_receipt[id] > 0) == is_bad(id) || (is_spent[id] > 0) != is_bad(id))
            fail_msg("order %llu has %u receipts and was spent %u times", (unsigned long long)id, has_receipt[id],
                     is_spent[id]);
}

static void the_node_goes_and_comes(bool is_killed)
{
    sights_wait(&seen, ORDERS / 4);
    if (is_killed)
        node_kill(&node);
    else
        node_shut(&node);
    shop_is_active(&shop, 0);
    shop_is_connected(&shop, 0);
    assert_int_equal(shop_health(&shop).phase, CONEY_APP_RUNNING);
    node_restart(&node);
    shop_is_active(&shop, 1);
    shop_is_connected(&shop, 1);
    sights_have_all(&seen, 0, ORDERS);
    nothing_is_missing();
}

static void a_node_killed_while_handlers_run_loses_no_order_receipt_or_dead_letter_of_a_quorum_queue(void **state)
{
    (void)state;
    open_shop(CONEY_QUEUE_QUORUM);
    the_node_goes_and_comes(true);
    /* what was in hand or just acked may come again */
    assert_in_range(sights_count(&seen), ORDERS, ORDERS + 4 * PREFETCH);
}

static void a_node_killed_while_handlers_run_loses_no_order_receipt_or_dead_letter_of_a_classic_queue(void **state)
{
    (void)state;
    open_shop(CONEY_QUEUE_CLASSIC);
    the_node_goes_and_comes(true); /* one that is killed may forget any number of acks */
}

static void a_node_shut_down_while_handlers_run_gives_again_only_what_was_in_hand(void **state)
{
    (void)state;
    open_shop(CONEY_QUEUE_CLASSIC);
    the_node_goes_and_comes(false);
    assert_in_range(sights_count(&seen), ORDERS, ORDERS + PREFETCH);
}

/* The node stands still between a publish and its confirm, and dies. */
static void an_ack_waits_for_a_confirm_that_the_dead_node_never_gave(void **state)
{
    (void)state;
    seen.closed_gate = true;
    open_shop(CONEY_QUEUE_QUORUM);
    desk_wait_for_ready(&desk, orders, ORDERS - PREFETCH); /* the others are with the client */
    node_signal(&node, SIGSTOP);
    sights_open_gate(&seen);
    sights_wait(&seen, PREFETCH); /* their receipts are on their way */
    node_kill(&node);
    shop_is_active(&shop, 0);
    node_restart(&node);
    sights_have_all(&seen, 0, ORDERS);
    nothing_is_missing();
    size_t again = 0;
    for (uint64_t id = 0; id < PREFETCH; id++)
        again += sights_times(&seen, id) > 1;
    assert_int_equal(again, PREFETCH); /* none of them was acked */
}

static void what_waits_for_its_retry_in_a_queue_is_there_after_the_node_was_killed(void **state)
{
    (void)state;
    char waiting[100];
    snprintf(waiting, sizeof waiting, "%s.wait.6000", orders);
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true, .delay = CONEY_DELAY_QUEUE),
                                          .handler = fail_at_first_handler,
                                          .on_failure = coney_policy_retry(6 * CONEY_SECOND),
                                          .max_attempts = 3});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 50);
    sights_wait(&seen, 50);
    desk_wait_for_ready(&desk, orders, 0);
    char *queues = node_ctl(&node, "-q list_queues name messages");
    if (strstr(queues, waiting) == NULL)
        fail_msg("there is no queue '%s':\n%s", waiting, queues);
    free(queues);
    desk_wait_for_ready(&desk, waiting, 50);
    node_write_down(&node);
    node_kill(&node);
    node_restart(&node);
    sights_wait(&seen, 100);
    assert_int_equal(shop_stop(&shop), 0);
    for (uint64_t id = 0; id < 50; id++)
        assert_true(sights_times(&seen, id) >= 2);
    for (size_t i = 50; i < 100; i++)
        assert_int_equal(sights_of(&seen, i).attempt, 2);
    assert_int_equal(desk_ready(&desk, orders), 0);
    assert_int_equal(desk_ready(&desk, waiting), 0);
    desk_delete(&desk, waiting);
}

static void N07_a_stop_while_the_node_is_away_ends_in_time_loses_nothing_and_reconnects_nothing(void **state)
{
    (void)state;
    open_shop(CONEY_QUEUE_QUORUM);
    sights_wait(&seen, 20);
    node_kill(&node);
    shop_is_active(&shop, 0);
    coney_call call = {.deadline = 2 * CONEY_SECOND};
    int64_t began = now_ms();
    (void)coney_app_stop(shop.app, &call); /* well or not: what was not confirmed is not known */
    int64_t took = now_ms() - began;
    if (took > scaled_ms(10000))
        fail_msg("it took %lld ms: %s", (long long)took, call.text);
    size_t recovered = shop_said(&shop, "recovered:");
    size_t handled = sights_count(&seen);
    node_restart(&node);
    assert_int_equal(sights_count(&seen), handled); /* N07: it does not come back */
    assert_int_equal(shop_said(&shop, "recovered:"), recovered);
    shop_start(&shop);
    sights_have_all(&seen, 0, ORDERS);
    nothing_is_missing();
}

/* A memory alarm: what is published is not read by the node. */
static void raise_alarm(void)
{
    node_do(&node, "-q set_vm_memory_high_watermark absolute 20MB");
}

static void end_alarm(void)
{
    node_do(&node, "-q set_vm_memory_high_watermark absolute 2GB");
}

static void during_an_alarm_acks_wait_for_their_receipts_and_then_each_order_is_handled_once(void **state)
{
    (void)state;
    seen.closed_gate = true;
    open_shop(CONEY_QUEUE_QUORUM);
    desk_wait_for_ready(&desk, orders, ORDERS - PREFETCH); /* the others are with the client */
    raise_alarm();
    sights_open_gate(&seen);
    sights_wait(&seen, PREFETCH);
    assert_false(sights_reach(&seen, PREFETCH + 1, 500));
    assert_int_equal(shop_health(&shop).active, 1);
    end_alarm();
    sights_have_all(&seen, 0, ORDERS);
    nothing_is_missing();
    assert_int_equal(sights_count(&seen), ORDERS);
}

static void a_stop_during_an_alarm_ends_in_time_and_loses_nothing(void **state)
{
    (void)state;
    seen.closed_gate = true;
    open_shop(CONEY_QUEUE_QUORUM);
    desk_wait_for_ready(&desk, orders, ORDERS - PREFETCH); /* the others are with the client */
    raise_alarm();
    sights_open_gate(&seen);
    sights_wait(&seen, PREFETCH);
    coney_call call = {.deadline = 2 * CONEY_SECOND};
    int64_t began = now_ms();
    assert_int_equal(coney_app_stop(shop.app, &call), CONEY_ETIMEDOUT);
    int64_t took = now_ms() - began;
    if (took > scaled_ms(12000))
        fail_msg("it took %lld ms: %s", (long long)took, call.text);
    end_alarm();
    shop_start(&shop);
    sights_have_all(&seen, 0, ORDERS);
    nothing_is_missing();
}

/* Streams --------------------------------------------------------------------------------------------------------------- */

static void serve_stream(void)
{
    shop_set(&shop, &node, NULL);
    shop_set_streams(&shop, &node);
    coney_subscribe(shop.streams,
                    &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST, .store_every = 50),
                                          .handler = take_handler});
    shop_start(&shop);
}

static void a_stream_goes_on_after_its_node_was_killed_in_order_and_each_message_once(void **state)
{
    (void)state;
    assert_int_equal(coney_stream_create(desk.streams, orders, NULL, NULL), CONEY_OK);
    desk_store_orders(&desk, orders, 0, ORDERS);
    node_write_down(&node);
    serve_stream();
    sights_wait(&seen, ORDERS / 3);
    node_kill(&node);
    shop_is_active(&shop, 0);
    node_restart(&node);
    shop_is_active(&shop, 1);
    sights_wait(&seen, ORDERS);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(sights_count(&seen), ORDERS);
    for (uint64_t id = 0; id < ORDERS; id++)
        assert_int_equal(sights_of(&seen, id).id, id);

    desk_store_orders(&desk, orders, ORDERS, 1); /* the stop has stored where it was */
    serve_stream();
    sights_wait(&seen, ORDERS + 1);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(sights_count(&seen), ORDERS + 1);
    assert_int_equal(sights_of(&seen, ORDERS).id, ORDERS);
    coney_stream_delete(desk.streams, orders, NULL);
}

/* Large messages -------------------------------------------------------------------------------------------------------- */

static char *large_body(int fill)
{
    char *body = malloc(100 * MB);
    assert_non_null(body);
    memset(body, fill, 100 * MB);
    return body;
}

static void a_body_of_100_MB_comes_whole(void **state)
{
    (void)state;
    char *body = large_body('x');
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = weigh_handler});
    shop_start(&shop);
    desk_put(&desk, orders, coney_bytes_of(body, 100 * MB), "application/octet-stream");
    desk_put(&desk, orders, CONEY_STR("small"), NULL);
    sights_wait(&seen, 2);
    assert_int_equal(sights_of(&seen, 0).id, 100 * MB);
    assert_int_equal(sights_of(&seen, 1).id, 5);
    assert_int_equal(shop_stop(&shop), 0);
    free(body);
}

static void a_body_of_100_MB_that_is_no_order_is_rejected_like_a_small_one(void **state)
{
    (void)state;
    char *body = large_body('x');
    desk_declare(&desk, spent, CONEY_QUEUE_CLASSIC);
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true, .type = CONEY_QUEUE_QUORUM,
                                                                .dead_letter_exchange = "", .dead_letter_routing_key = spent),
                                          .handler = take_handler});
    shop_start(&shop);
    desk_put(&desk, orders, coney_bytes_of(body, 100 * MB), "application/json");
    desk_put_orders(&desk, orders, 7, 1);
    sights_wait(&seen, 1);
    shop_says(&shop, "cannot be decoded: ");
    desk_wait_for_ready(&desk, spent, 1);
    assert_int_equal(shop_stop(&shop), 0);
    free(body);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    if (!node_start(&node, "service", "--memory 2GB --conf 'max_message_size = 134217728'"))
        return 77;
    const struct CMUnitTest tests[] = {
        TEST(a_node_killed_while_handlers_run_loses_no_order_receipt_or_dead_letter_of_a_quorum_queue),
        TEST(a_node_killed_while_handlers_run_loses_no_order_receipt_or_dead_letter_of_a_classic_queue),
        TEST(a_node_shut_down_while_handlers_run_gives_again_only_what_was_in_hand),
        TEST(an_ack_waits_for_a_confirm_that_the_dead_node_never_gave),
        TEST(what_waits_for_its_retry_in_a_queue_is_there_after_the_node_was_killed),
        TEST(N07_a_stop_while_the_node_is_away_ends_in_time_loses_nothing_and_reconnects_nothing),
        TEST(during_an_alarm_acks_wait_for_their_receipts_and_then_each_order_is_handled_once),
        TEST(a_stop_during_an_alarm_ends_in_time_and_loses_nothing),
        TEST(a_stream_goes_on_after_its_node_was_killed_in_order_and_each_message_once),
        TEST(a_body_of_100_MB_comes_whole),
        TEST(a_body_of_100_MB_that_is_no_order_is_rejected_like_a_small_one),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
