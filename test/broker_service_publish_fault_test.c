/* What handlers publish and nobody takes, confirms or commits: from batches, to streams, in transactions, at a stop; and dead letters without a place. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "proxy.h"
#include "shop.h"
#include "stage.h"

#define ORDER(F) F(u64, id) F(string, customer) F(u16, count)
CONEY_MESSAGE(order, ORDER);
#define RECEIPT(F) F(u64, id)
CONEY_MESSAGE(receipt, RECEIPT);

static struct node node;
static struct desk desk;
static struct shop shop;
static struct sights seen;
static char orders[80], receipts[80], spent[80];
static coney_publisher *printer; /* of receipts */
static struct proxy *proxy;

static int set_up(void **state)
{
    (void)state;
    fresh_name(orders, sizeof orders, "orders");
    fresh_name(receipts, sizeof receipts, "receipts");
    fresh_name(spent, sizeof spent, "spent");
    seen = (struct sights){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    desk_delete(&desk, orders);
    desk_delete(&desk, receipts);
    desk_delete(&desk, spent);
    sights_free(&seen);
    return 0;
}

/* Handlers -------------------------------------------------------------------------------------------------------------- */

static coney_settle confirm(coney_delivery *d, const order *o)
{
    receipt r = {.id = o->id};
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return receipt_publish(coney_out_by(d, printer), receipts, &r) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(confirm, order);

static coney_settle confirm_all(coney_batch *batch, const order *all, size_t count)
{
    receipt r = {.id = all[0].id};
    for (size_t i = 0; i < count; i++)
        see_one(&seen, all[i].id, count);
    return receipt_publish(coney_out_of_batch(batch), receipts, &r) == CONEY_OK ? CONEY_ACK : CONEY_REJECT;
}
CONEY_BATCH_HANDLER(confirm_all, order);

/* Both or none; the first time the connection is cut between them and the commit. */
static coney_settle confirm_twice(coney_delivery *d, const order *o)
{
    receipt r = {.id = o->id};
    coney_out out = coney_out_by(d, printer);
    size_t before = see_one(&seen, o->id, coney_delivery_attempt(d));
    if (receipt_publish(out, receipts, &r) != CONEY_OK || receipt_publish(out, receipts, &r) != CONEY_OK)
        return CONEY_FAILED;
    if (before == 0)
        proxy_cut(proxy, PROXY_RST);
    return CONEY_ACK;
}
CONEY_HANDLER(confirm_twice, order);

static coney_settle give_up(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return CONEY_FAILED;
}
CONEY_HANDLER(give_up, order);

static coney_kept *kept;

static coney_settle keep_first(coney_delivery *d, const order *o)
{
    coney_kept *mine = see_one(&seen, o->id, coney_delivery_attempt(d)) == 0 ? coney_delivery_keep(d) : NULL;
    if (mine == NULL)
        return CONEY_ACK;
    kept = mine;
    return CONEY_KEPT;
}
CONEY_HANDLER(keep_first, order);

/* A second broker of the shop's, through the proxy, with the printer. */
static void set_printer(coney_publish_policy policy)
{
    proxy = proxy_start_bytes("127.0.0.1", node.amqp_port);
    coney_amqp_options quick = {.recovery_delay = 50 * CONEY_MILLISECOND, .recovery_max_delay = 500 * CONEY_MILLISECOND};
    coney_broker *broker = coney_app_amqp(shop.app, amqp_uri(proxy_port(proxy)), &quick);
    printer = coney_publisher_new(broker, &(coney_publisher_options){.name = "printer", .policy = policy});
}

/* Refused and returned --------------------------------------------------------------------------------------------------- */

static void a_batch_whose_receipt_is_refused_comes_again_whole(void **state)
{
    (void)state;
    const coney_field refuse = {CONEY_STR("x-overflow"), coney_value_string(CONEY_STR("reject-publish"))};
    desk_declare_as(
        &desk, receipts,
        &(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC, .max_length = 1, .arguments = &refuse, .argument_count = 1});
    desk_put(&desk, receipts, CONEY_STR("{\"id\":99}"), NULL);
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true),
                                                       .handler = confirm_all_handler,
                                                       .batch = 10,
                                                       .batch_wait = CONEY_OFF,
                                                       .on_publish_failure = coney_policy_retry(20 * CONEY_MILLISECOND)});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 10);
    sights_wait(&seen, 20);
    desk_take(&desk, receipts, NULL, NULL);
    desk_wait_for_ready(&desk, receipts, 1);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    for (uint64_t id = 0; id < 10; id++)
        assert_true(sights_times(&seen, id) >= 2);
}

static void an_order_whose_receipt_has_no_stream_comes_again_until_there_is_one(void **state)
{
    (void)state;
    shop_set(&shop, &node, NULL);
    shop_set_streams(&shop, &node);
    printer = coney_publisher_new(shop.streams, &(coney_publisher_options){.name = "printer"});
    coney_subscribe(shop.rabbit, &(coney_subscription){.name = "till",
                                                       .source = CONEY_QUEUE(orders, .declare = true),
                                                       .handler = confirm_handler,
                                                       .on_publish_failure = coney_policy_retry(50 * CONEY_MILLISECOND),
                                                       .on_failure = coney_policy_retry(50 * CONEY_MILLISECOND)});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 2);
    shop_says(&shop, receipts);
    assert_int_equal(coney_stream_create(desk.streams, receipts, NULL, NULL), CONEY_OK);
    desk_wait_for_ready(&desk, orders, 0);
    size_t count = 0; /* it is acked when it comes no more */
    while (sights_reach(&seen, (count = sights_count(&seen)) + 1, 1000))
        ;
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    coney_stream_delete(desk.streams, receipts, NULL);
}

/* Neither confirmed nor committed ---------------------------------------------------------------------------------------- */

static void at_a_stop_an_order_whose_receipt_is_not_confirmed_goes_back(void **state)
{
    (void)state;
    desk_declare(&desk, receipts, CONEY_QUEUE_CLASSIC);
    shop_set(&shop, &node, &(coney_app_options){.drain_timeout = 300 * CONEY_MILLISECOND});
    set_printer(CONEY_PUBLISH_CONFIRMED);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = confirm_handler});
    shop_start(&shop);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    desk_put_orders(&desk, orders, 0, 5);
    sights_wait(&seen, 5);
    coney_call call = {.deadline = CONEY_SECOND};
    assert_int_equal(coney_app_stop(shop.app, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 5);
    desk_wait_for_ready(&desk, orders, 5);
    shop_end(&shop);
    proxy_stop(&proxy);
}

static void a_transaction_whose_connection_is_cut_before_its_commit_leaves_nothing_and_is_made_again(void **state)
{
    (void)state;
    desk_declare(&desk, receipts, CONEY_QUEUE_CLASSIC);
    shop_set(&shop, &node, NULL);
    set_printer(CONEY_PUBLISH_TRANSACTION);
    coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true),
                                                       .handler = confirm_twice_handler,
                                                       .on_failure = coney_policy_retry(50 * CONEY_MILLISECOND),
                                                       .on_publish_failure = coney_policy_retry(50 * CONEY_MILLISECOND)});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 2);
    desk_wait_for_ready(&desk, receipts, 2);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, receipts), 2);
    assert_int_equal(desk_ready(&desk, orders), 0);
    proxy_stop(&proxy);
}

/* What is in hand at a cut ------------------------------------------------------------------------------------------------ */

static void what_is_kept_over_a_cut_comes_again_and_its_settlement_says_so(void **state)
{
    (void)state;
    desk_declare(&desk, orders, CONEY_QUEUE_QUORUM);
    proxy = proxy_start_bytes("127.0.0.1", node.amqp_port);
    shop_set_at(&shop, amqp_uri(proxy_port(proxy)), NULL);
    coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_QUEUE(orders), .handler = keep_first_handler});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 1);
    proxy_cut(proxy, PROXY_RST);
    sights_wait(&seen, 2);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_ELOST);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    proxy_stop(&proxy);
}

/* Dead letters ------------------------------------------------------------------------------------------------------------ */

/* More than the prefetch wait for a place that does not come: the app stops in time, and all of them are with the broker. */
static void hold_dead_letters(coney_queue_type type)
{
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true, .type = type, .prefetch = 5),
                                          .handler = give_up_handler,
                                          .max_attempts = 1,
                                          .dead_letter = spent});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 10);
    sights_wait(&seen, 5);
    shop_says(&shop, "it is tried again after 1000 ms");
    int64_t began = now_ms();
    assert_int_equal(shop_stop(&shop), 0);
    if (now_ms() - began > scaled_ms(5000))
        fail_msg("it took %lld ms", (long long)(now_ms() - began));
    assert_int_equal(sights_count(&seen), 5);
}

static void dead_letters_without_a_place_are_with_the_broker_after_a_stop(void **state)
{
    (void)state;
    hold_dead_letters(CONEY_QUEUE_CLASSIC);
    desk_wait_for_ready(&desk, orders, 10);
}

static void dead_letters_of_a_quorum_queue_without_a_place_are_with_the_broker_after_a_stop(void **state)
{
    (void)state;
    hold_dead_letters(CONEY_QUEUE_QUORUM);
    desk_wait_for_ready(&desk, orders, 10);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    if (!node_shared(&node))
        return 77;
    desk_open(&desk, &node);
    const struct CMUnitTest tests[] = {
        TEST(a_batch_whose_receipt_is_refused_comes_again_whole),
        TEST(an_order_whose_receipt_has_no_stream_comes_again_until_there_is_one),
        TEST(at_a_stop_an_order_whose_receipt_is_not_confirmed_goes_back),
        TEST(a_transaction_whose_connection_is_cut_before_its_commit_leaves_nothing_and_is_made_again),
        TEST(what_is_kept_over_a_cut_comes_again_and_its_settlement_says_so),
        TEST(dead_letters_without_a_place_are_with_the_broker_after_a_stop),
        TEST(dead_letters_of_a_quorum_queue_without_a_place_are_with_the_broker_after_a_stop),
    };
    int failed = run_tests(tests);
    desk_close(&desk);
    return failed;
}
