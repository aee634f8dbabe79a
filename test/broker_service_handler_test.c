/* Handlers that do what they should not: fail, return nonsense, settle twice, keep what they got for ever, take too long. And what they publish
 * that nobody takes. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "shop.h"
#include "stage.h"

#include <time.h>

#define ORDER(F) F(u64, id) F(string, customer) F(u16, count)
CONEY_MESSAGE(order, ORDER);
#define RECEIPT(F) F(u64, id)
CONEY_MESSAGE(receipt, RECEIPT);

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

static coney_settle says; /* what the handlers below return the first time that they see a message */

static coney_settle once(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return sights_times(&seen, o->id) == 1 ? says : CONEY_ACK;
}
CONEY_HANDLER(once, order);

static coney_settle fail_with_words(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return coney_failed(d, "the till is locked");
}
CONEY_HANDLER(fail_with_words, order);

static coney_settle take(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take, order);

static coney_kept *kept[4];
static coney_settle settled[4];

static coney_settle keep(coney_delivery *d, const order *o)
{
    kept[o->id] = coney_delivery_keep(d);
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return kept[o->id] != NULL ? CONEY_KEPT : CONEY_REQUEUE;
}
CONEY_HANDLER(keep, order);

/* Settles what it kept, once more, and returns a settlement as well. */
static coney_settle settle_twice(coney_delivery *d, const order *o)
{
    coney_kept *mine = coney_delivery_keep(d);
    if (mine == NULL)
        return CONEY_REQUEUE;
    coney_kept_settle(&mine, CONEY_ACK);
    coney_kept_settle(&mine, CONEY_REJECT);
    see_one(&seen, o->id, 1);
    return CONEY_REJECT;
}
CONEY_HANDLER(settle_twice, order);

static coney_settle keep_twice(coney_delivery *d, const order *o)
{
    kept[o->id] = coney_delivery_keep(d);
    see_one(&seen, o->id, coney_delivery_keep(d) == NULL);
    return CONEY_KEPT;
}
CONEY_HANDLER(keep_twice, order);

static int64_t takes_ms;

static coney_settle take_its_time(coney_delivery *d, const order *o)
{
    struct timespec pause = {.tv_sec = takes_ms / 1000, .tv_nsec = takes_ms % 1000 * 1000000};
    nanosleep(&pause, NULL); /* what is tested is how long it takes */
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take_its_time, order);

static coney_settle confirm(coney_delivery *d, const order *o)
{
    receipt r = {.id = o->id};
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return receipt_publish(coney_out_of(d), receipts, &r) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(confirm, order);

static coney_settle confirm_and_reject(coney_delivery *d, const order *o)
{
    coney_settle how = confirm(d, o);
    return how == CONEY_ACK ? CONEY_REJECT : how;
}
CONEY_HANDLER(confirm_and_reject, order);

/* Serves the orders, from a queue of this type whose rejected messages go to `letters`, with one subscription of which the source is filled in. */
static void serve_as(coney_queue_type type, const char *letters, const coney_subscription *subscription,
                     const coney_app_options *options)
{
    coney_subscription mine = *subscription;
    const coney_queue_source queue = {.name = orders,
                                      .type = type,
                                      .declare = true,
                                      .dead_letter_exchange = letters != NULL ? "" : NULL,
                                      .dead_letter_routing_key = letters};
    desk_declare(&desk, spent, CONEY_QUEUE_CLASSIC);
    shop_set(&shop, &node, options);
    mine.source = coney_source_queue(&queue);
    assert_int_equal(coney_subscribe(shop.rabbit, &mine), CONEY_OK);
    shop_start(&shop);
}

static void serve(coney_queue_type type, const coney_subscription *subscription, const coney_app_options *options)
{
    serve_as(type, spent, subscription, options);
}

/* What they return ------------------------------------------------------------------------------------------------------ */

static void a_failure_comes_again_after_a_second_and_says_why(void **state)
{
    (void)state;
    serve(CONEY_QUEUE_CLASSIC, &(coney_subscription){.name = "till", .handler = fail_with_words_handler}, NULL);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 2);
    assert_true(sights_of(&seen, 1).at - sights_of(&seen, 0).at >= 999);
    const char *line = shop_says(&shop, "the till is locked");
    assert_says(line, "subscription 'till': message 'desk-");
    assert_says(line, "has failed: ");
    assert_says(line, "it comes again after 1000 ms");
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 1);
}

static void a_failure_is_what_the_policy_says(void **state)
{
    (void)state;
    says = CONEY_FAILED;
    serve(CONEY_QUEUE_QUORUM, &(coney_subscription){.handler = once_handler, .on_failure = CONEY_POLICY_REJECT}, NULL);
    desk_put_orders(&desk, orders, 0, 1);
    desk_wait_for_ready(&desk, spent, 1);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(sights_count(&seen), 1);
    desk_take(&desk, spent, NULL, NULL);

    serve(CONEY_QUEUE_QUORUM, &(coney_subscription){.handler = once_handler, .on_failure = CONEY_POLICY_SKIP}, NULL);
    desk_put_orders(&desk, orders, 1, 1);
    sights_wait(&seen, 2);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    assert_int_equal(desk_ready(&desk, spent), 0);

    serve(CONEY_QUEUE_QUORUM, &(coney_subscription){.handler = once_handler, .on_failure = CONEY_POLICY_STOP}, NULL);
    desk_put_orders(&desk, orders, 2, 1);
    coney_call call = call_within(SUPPORT_PATIENCE);
    assert_int_equal(coney_app_wait(shop.app, &call), CONEY_ECANCELED);
    shop_stop(&shop);
    desk_wait_for_ready(&desk, orders, 1);
}

static void nonsense_is_a_failure_and_is_named(void **state)
{
    (void)state;
    const coney_settle nonsense[] = {-17, INT64_MIN, CONEY_KEPT};
    for (uint64_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        says = nonsense[i];
        serve(CONEY_QUEUE_CLASSIC, &(coney_subscription){.handler = once_handler, .on_failure = CONEY_POLICY_RETRY}, NULL);
        desk_put_orders(&desk, orders, i, 1);
        sights_have_all(&seen, i, 1);
        sights_wait(&seen, 2 * i + 2);
        shop_says(&shop, says == CONEY_KEPT ? "its handler returned CONEY_KEPT and has not kept it" : "which is no settlement");
        assert_int_equal(shop_stop(&shop), 0);
        assert_int_equal(desk_ready(&desk, orders), 0);
    }
}

static void the_first_settlement_counts_and_the_others_are_named(void **state)
{
    (void)state;
    serve(CONEY_QUEUE_CLASSIC, &(coney_subscription){.handler = settle_twice_handler}, NULL);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 1);
    shop_says(&shop, "a handler kept its delivery and returned ");
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    assert_int_equal(desk_ready(&desk, spent), 0);
}

static void a_delivery_is_kept_once(void **state)
{
    (void)state;
    serve(CONEY_QUEUE_CLASSIC, &(coney_subscription){.handler = keep_twice_handler}, NULL);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 1);
    assert_int_equal(sights_of(&seen, 0).attempt, 1);
    assert_int_equal(coney_kept_settle(&kept[0], CONEY_ACK), CONEY_OK);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
}

static void what_is_kept_for_ever_is_waited_for_as_long_as_the_drain_may_and_is_with_the_broker_then(void **state)
{
    (void)state;
    serve(CONEY_QUEUE_CLASSIC, &(coney_subscription){.handler = keep_handler},
          &(coney_app_options){.drain_timeout = 300 * CONEY_MILLISECOND});
    desk_put_orders(&desk, orders, 0, 3);
    sights_wait(&seen, 3);
    assert_int_equal(coney_kept_settle(&kept[1], CONEY_ACK), CONEY_OK);
    int64_t began = now_ms();
    coney_call call = call_within(10000);
    assert_int_equal(coney_app_stop(shop.app, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 2);
    assert_says(call.text, "2 deliveries were not settled within drain_timeout (300 ms)");
    assert_true(now_ms() - began >= 299);
    desk_wait_for_ready(&desk, orders, 2);
    coney_delivery *d = coney_kept_service_delivery(kept[0]);
    assert_true(coney_delivery_body(d).len > 0); /* valid until it is settled */
    shop_end(&shop);
    for (size_t i = 0; i < 4; i++)
        settled[i] = kept[i] != NULL ? coney_kept_settle(&kept[i], CONEY_ACK) : CONEY_ECLOSED;
    assert_int_equal(settled[0], CONEY_ECLOSED);
    assert_int_equal(settled[2], CONEY_ECLOSED);
}

static coney_settle later(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return coney_retry_after(3600 * CONEY_SECOND);
}
CONEY_HANDLER(later, order);

static void a_stop_waits_for_no_retry_and_what_was_held_for_one_is_with_the_broker(void **state)
{
    (void)state;
    const coney_queue_type types[] = {CONEY_QUEUE_CLASSIC, CONEY_QUEUE_QUORUM};
    for (size_t i = 0; i < 4; i++) {
        serve(types[i % 2], &(coney_subscription){.handler = later_handler, .max_attempts = i < 2 ? 0 : 3}, NULL);
        desk_put_orders(&desk, orders, 0, 20);
        sights_wait(&seen, 20 * (i + 1));
        int64_t began = now_ms();
        assert_int_equal(shop_stop(&shop), 0);
        if (now_ms() - began > scaled_ms(2000))
            fail_msg("it took %lld ms", (long long)(now_ms() - began));
        desk_wait_for_ready(&desk, orders, 20);
        desk_delete(&desk, orders);
    }
}

/* A hundred are prefetched, ten lanes run, one of them fails. */
static coney_settle fail_in_a_crowd(coney_delivery *d, const order *o)
{
    struct timespec moment = {.tv_nsec = 5000000};
    see_one(&seen, o->id, coney_delivery_attempt(d));
    nanosleep(&moment, NULL);
    return o->id == 20 ? coney_failed(d, "the till is on fire") : CONEY_ACK;
}
CONEY_HANDLER(fail_in_a_crowd, order);

static void a_failure_that_stops_the_app_loses_nothing_of_what_others_had_in_hand(void **state)
{
    (void)state;
    unsigned times[100] = {0};
    desk_declare_as(
        &desk, orders,
        &(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC, .dead_letter_exchange = "", .dead_letter_routing_key = spent});
    desk_put_orders(&desk, orders, 0, 100);
    serve(
        CONEY_QUEUE_CLASSIC,
        &(coney_subscription){.name = "till", .handler = fail_in_a_crowd_handler, .lanes = 10, .on_failure = CONEY_POLICY_STOP},
        NULL);
    coney_call call = call_within(SUPPORT_PATIENCE);
    assert_int_equal(coney_app_wait(shop.app, &call), CONEY_ECANCELED);
    assert_says(call.text, "subscription 'till': message 'desk-");
    assert_says(call.text, "the till is on fire");
    shop_stop(&shop);
    size_t left = 100 - sights_count(&seen) + 1;
    desk_wait_for_ready(&desk, orders, left);
    desk_collect(&desk, orders, left, times, 100);
    for (uint64_t id = 0; id < 100; id++)
        if (times[id] + sights_times(&seen, id) != (id == 20 ? 2 : 1))
            fail_msg("order %llu was handled %zu times and is left %u times", (unsigned long long)id, sights_times(&seen, id),
                     times[id]);
}

/* How long they take ---------------------------------------------------------------------------------------------------- */

static void a_handler_that_takes_longer_than_the_heartbeat_costs_no_connection(void **state)
{
    (void)state;
    takes_ms = 4500;
    shop_set(&shop, &node, NULL);
    coney_amqp_options options = {.heartbeat = CONEY_SECOND};
    coney_broker *broker = coney_app_amqp(shop.app, amqp_uri(node.amqp_port), &options);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true),
                                                  .handler = take_its_time_handler,
                                                  .max_attempts = 5});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 1);
    desk_put_orders(&desk, orders, 1, 1); /* it still receives */
    sights_wait(&seen, 2);
    assert_int_equal(shop_said(&shop, "lost"), 0);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(sights_count(&seen), 2);
    assert_int_equal(desk_ready(&desk, orders), 0);
}

static void a_handler_that_takes_longer_than_its_limit_is_named_once(void **state)
{
    (void)state;
    takes_ms = 900;
    serve(CONEY_QUEUE_CLASSIC, &(coney_subscription){.name = "till", .handler = take_its_time_handler},
          &(coney_app_options){.handler_limit = 200 * CONEY_MILLISECOND});
    desk_put_orders(&desk, orders, 0, 2);
    sights_wait(&seen, 2);
    shop_says(&shop, "subscription 'till': a handler");
    assert_int_equal(shop_said(&shop, "subscription 'till': a handler"), 2); /* once a run */
    assert_int_equal(shop_stop(&shop), 0);
}

/* What they publish ----------------------------------------------------------------------------------------------------- */

static void an_order_whose_receipt_is_returned_is_not_acked_and_says_so(void **state)
{
    (void)state;
    serve(CONEY_QUEUE_CLASSIC,
          &(coney_subscription){
              .name = "till", .handler = confirm_handler, .on_publish_failure = coney_policy_retry(100 * CONEY_MILLISECOND)},
          NULL);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 2);
    assert_true(sights_of(&seen, 1).at - sights_of(&seen, 0).at >= 99);
    const char *line = shop_says(&shop, "has published what was lost (CONEY_ERETURNED)");
    assert_says(line, "subscription 'till': message 'desk-");
    desk_declare(&desk, receipts, CONEY_QUEUE_CLASSIC);
    desk_wait_for_ready(&desk, receipts, 1);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    assert_int_equal(desk_ready(&desk, receipts), 1);
}

static void an_order_whose_receipt_is_refused_comes_again_until_there_is_room(void **state)
{
    (void)state;
    const coney_field refuse = {CONEY_STR("x-overflow"), coney_value_string(CONEY_STR("reject-publish"))};
    desk_declare_as(
        &desk, receipts,
        &(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC, .max_length = 1, .arguments = &refuse, .argument_count = 1});
    desk_put(&desk, receipts, CONEY_STR("{\"id\":99}"), NULL);
    serve(CONEY_QUEUE_CLASSIC,
          &(coney_subscription){.handler = confirm_handler, .on_publish_failure = coney_policy_retry(50 * CONEY_MILLISECOND)},
          NULL);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 2);
    shop_says(&shop, "has published what was lost (CONEY_EREFUSED)");
    desk_take(&desk, receipts, NULL, NULL);
    desk_wait_for_ready(&desk, receipts, 1);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
}

static void what_a_publish_failure_means_the_policy_says(void **state)
{
    (void)state;
    const struct {
        coney_policy policy;
        uint64_t in_orders, in_spent;
    } rows[] = {{CONEY_POLICY_REJECT, 0, 1}, {CONEY_POLICY_SKIP, 0, 0}, {CONEY_POLICY_STOP, 1, 0}};
    for (size_t i = 0; i < 3; i++) {
        serve(CONEY_QUEUE_QUORUM, &(coney_subscription){.handler = confirm_handler, .on_publish_failure = rows[i].policy},
              NULL);
        desk_put_orders(&desk, orders, i, 1);
        sights_wait(&seen, i + 1);
        shop_says(&shop, "CONEY_ERETURNED");
        if (rows[i].policy == CONEY_POLICY_STOP) {
            coney_call call = call_within(SUPPORT_PATIENCE);
            assert_int_equal(coney_app_wait(shop.app, &call), CONEY_ERETURNED);
        }
        shop_stop(&shop);
        desk_wait_for_ready(&desk, orders, rows[i].in_orders);
        desk_wait_for_ready(&desk, spent, rows[i].in_spent);
        if (rows[i].in_spent > 0)
            desk_take(&desk, spent, NULL, NULL);
    }
}

static void a_rejected_order_is_rejected_whatever_became_of_its_receipt(void **state)
{
    (void)state;
    serve(CONEY_QUEUE_CLASSIC, &(coney_subscription){.handler = confirm_and_reject_handler}, NULL);
    desk_put_orders(&desk, orders, 0, 1);
    desk_wait_for_ready(&desk, spent, 1);
    shop_says(&shop, "and is not acked anyway");
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(sights_count(&seen), 1);
    assert_int_equal(desk_ready(&desk, orders), 0);
}

/* Dead letters ---------------------------------------------------------------------------------------------------------- */

static void an_order_whose_dead_letter_no_queue_takes_waits_for_one(void **state)
{
    (void)state;
    says = CONEY_FAILED;
    char away[80];
    fresh_name(away, sizeof away, "away");
    for (size_t i = 0; i < 2; i++) {
        serve(i == 0 ? CONEY_QUEUE_CLASSIC : CONEY_QUEUE_QUORUM,
              &(coney_subscription){
                  .handler = once_handler, .on_failure = CONEY_POLICY_RETRY, .max_attempts = 1, .dead_letter = away},
              NULL);
        desk_put_orders(&desk, orders, i, 1);
        shop_says(&shop, "(CONEY_ERETURNED): it is tried again after 1000 ms");
        desk_declare(&desk, away, CONEY_QUEUE_CLASSIC);
        desk_wait_for_ready(&desk, away, 1);
        assert_int_equal(shop_stop(&shop), 0);
        assert_int_equal(sights_count(&seen), i + 1);
        assert_int_equal(desk_ready(&desk, orders), 0);
        assert_int_equal(desk_ready(&desk, spent), 0);
        desk_delete(&desk, orders);
        desk_delete(&desk, away);
    }
}

/* N02 and N03: ten of a hundred fail each time; the others are settled once, whatever happens to those between them. */
static coney_settle fail_each_tenth(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return o->id % 10 == 3 ? CONEY_REQUEUE : CONEY_ACK;
}
CONEY_HANDLER(fail_each_tenth, order);

static void N02_N03_poison_among_innocent_messages_is_counted_for_itself_and_comes_to_its_end(void **state)
{
    (void)state;
    unsigned times[100] = {0};
    serve(CONEY_QUEUE_QUORUM,
          &(coney_subscription){.handler = fail_each_tenth_handler, .max_attempts = 3, .dead_letter = spent}, NULL);
    desk_put_orders(&desk, orders, 0, 100);
    desk_collect(&desk, spent, 10, times, 100);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    assert_int_equal(desk_ready(&desk, spent), 0);
    assert_int_equal(sights_count(&seen), 90 + 3 * 10);
    for (uint64_t id = 0; id < 100; id++) {
        bool is_poison = id % 10 == 3;
        assert_int_equal(times[id], is_poison ? 1 : 0);
        assert_int_equal(sights_times(&seen, id), is_poison ? 3 : 1);
    }
}

/* A quorum queue counts what stops give back; that alone must not end a message. */
static void N03_what_four_stops_gave_back_unseen_is_handled_in_the_end(void **state)
{
    (void)state;
    takes_ms = 50;
    const coney_subscription till = {.handler = take_its_time_handler, .max_attempts = 1, .dead_letter = spent};
    for (size_t round = 0; round < 4; round++) {
        serve_as(CONEY_QUEUE_QUORUM, NULL, &till, NULL);
        if (round == 0)
            desk_put_orders(&desk, orders, 0, 20);
        sights_wait(&seen, sights_count(&seen) + 1);
        assert_int_equal(shop_stop(&shop), 0);
    }
    assert_true(sights_count(&seen) < 20);
    serve_as(CONEY_QUEUE_QUORUM, NULL, &till, NULL);
    sights_wait(&seen, 20);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(sights_count(&seen), 20);
    assert_int_equal(desk_ready(&desk, orders), 0);
    assert_int_equal(desk_ready(&desk, spent), 0);
}

static void N04_the_first_delivery_is_attempt_one_and_each_further_one_more(void **state)
{
    (void)state;
    says = CONEY_REQUEUE;
    serve(CONEY_QUEUE_QUORUM, &(coney_subscription){.handler = once_handler, .max_attempts = 5}, NULL);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 2);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(sights_of(&seen, 0).attempt, 1);
    assert_int_equal(sights_of(&seen, 1).attempt, 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    if (!node_shared(&node))
        return 77;
    desk_open(&desk, &node);
    const struct CMUnitTest tests[] = {
        TEST(a_failure_comes_again_after_a_second_and_says_why),
        TEST(a_failure_is_what_the_policy_says),
        TEST(nonsense_is_a_failure_and_is_named),
        TEST(the_first_settlement_counts_and_the_others_are_named),
        TEST(a_delivery_is_kept_once),
        TEST(what_is_kept_for_ever_is_waited_for_as_long_as_the_drain_may_and_is_with_the_broker_then),
        TEST(a_stop_waits_for_no_retry_and_what_was_held_for_one_is_with_the_broker),
        TEST(a_failure_that_stops_the_app_loses_nothing_of_what_others_had_in_hand),
        TEST(a_handler_that_takes_longer_than_the_heartbeat_costs_no_connection),
        TEST(a_handler_that_takes_longer_than_its_limit_is_named_once),
        TEST(an_order_whose_receipt_is_returned_is_not_acked_and_says_so),
        TEST(an_order_whose_receipt_is_refused_comes_again_until_there_is_room),
        TEST(what_a_publish_failure_means_the_policy_says),
        TEST(a_rejected_order_is_rejected_whatever_became_of_its_receipt),
        TEST(an_order_whose_dead_letter_no_queue_takes_waits_for_one),
        TEST(N02_N03_poison_among_innocent_messages_is_counted_for_itself_and_comes_to_its_end),
        TEST(N03_what_four_stops_gave_back_unseen_is_handled_in_the_end),
        TEST(N04_the_first_delivery_is_attempt_one_and_each_further_one_more),
    };
    int failed = run_tests(tests);
    desk_close(&desk);
    return failed;
}
