/* Services over AMQP, whole: an app, its handlers and policies, on a real node. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scene.h"
#include "scissors.h"

#include <coney/service.h>

#include <stdatomic.h>

#define ORDER(F) F(u64, id) F(string, customer)
CONEY_MESSAGE(order, ORDER);
#define RECEIPT(F) F(u64, order_id)
CONEY_MESSAGE(receipt, RECEIPT);

static struct node node;
static coney_amqp *admin;
static char orders[80], receipts[80], spent[80];

/* What handlers saw, in the order in which they saw it. */
static struct seen {
    struct monitor monitor;
    uint64_t ids[2048];
    uint64_t attempts[2048];
    int64_t at[2048];
    size_t count;
    bool closed_gate;
} seen;

static size_t see(uint64_t id, uint64_t attempt)
{
    monitor_lock(&seen.monitor);
    size_t nth = seen.count++;
    if (nth >= sizeof seen.ids / sizeof seen.ids[0])
        abort();
    seen.ids[nth] = id;
    seen.attempts[nth] = attempt;
    seen.at[nth] = now_ms();
    monitor_broadcast(&seen.monitor);
    while (seen.closed_gate)
        (void)monitor_wait(&seen.monitor, INT64_MAX);
    monitor_unlock(&seen.monitor);
    return nth;
}

static void open_gate(void)
{
    monitor_lock(&seen.monitor);
    seen.closed_gate = false;
    monitor_broadcast(&seen.monitor);
    monitor_unlock(&seen.monitor);
}

static void wait_for(size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&seen.monitor);
    while (seen.count < count && monitor_wait(&seen.monitor, until))
        ;
    size_t came = seen.count;
    monitor_unlock(&seen.monitor);
    if (came < count)
        fail_msg("%zu of %zu messages came", came, count);
}

/* The app of a test ------------------------------------------------------------------------------------------------------ */

static void log_here(void *ctx, coney_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    if (getenv("CONEY_TEST_LOG") != NULL)
        fprintf(stderr, "%s\n", text);
}

static coney_broker *set_at(coney_app **app, const char *uri, const coney_app_options *options)
{
    coney_app_options mine = options != NULL ? *options : (coney_app_options){0};
    mine.on_log = log_here;
    *app = coney_app_new("shop", "1.0.0");
    coney_app_configure(*app, &mine);
    coney_amqp_options quick = {.recovery_delay = 50 * CONEY_MILLISECOND, .recovery_max_delay = 500 * CONEY_MILLISECOND};
    return coney_app_amqp(*app, uri, &quick);
}

static coney_broker *set(coney_app **app)
{
    return set_at(app, amqp_uri(node.amqp_port), NULL);
}

static void start(coney_app *app)
{
    coney_call call = call_within(10000);
    if (coney_app_start(app, &call) != CONEY_OK)
        fail_msg("%s", call.text);
}

static uint64_t stop(coney_app **app)
{
    coney_call call = call_within(10000);
    coney_status status = coney_app_stop(*app, &call);
    if (status != CONEY_OK)
        fail_msg("%s: %s", coney_status_name(status), call.text);
    coney_app_free(app);
    return call.value;
}

static uint64_t ready(const char *queue)
{
    coney_call call = {0};
    coney_amqp_queue passive = {.name = queue, .passive = true};
    if (coney_amqp_queue_declare(admin, &passive, &call) != CONEY_OK)
        fail_msg("queue '%s' cannot be asked: %s", queue, call.text);
    return call.value;
}

static void wait_for_ready(const char *queue, uint64_t count)
{
    uint64_t is = UINT64_MAX;
    for (int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE); is != count && now_ms() < until;)
        is = ready(queue);
    if (is != count)
        fail_msg("'%s' has %llu messages, not %llu", queue, (unsigned long long)is, (unsigned long long)count);
}

static void declare(const char *name, coney_queue_type type)
{
    coney_amqp_queue queue = {.name = name, .type = type};
    assert_int_equal(coney_amqp_queue_declare(admin, &queue, NULL), CONEY_OK);
}

static int set_up(void **state)
{
    (void)state;
    fresh_name(orders, sizeof orders, "orders");
    fresh_name(receipts, sizeof receipts, "receipts");
    fresh_name(spent, sizeof spent, "spent");
    seen.count = 0;
    seen.closed_gate = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    coney_amqp_queue_delete(admin, orders, 0, NULL);
    coney_amqp_queue_delete(admin, receipts, 0, NULL);
    coney_amqp_queue_delete(admin, spent, 0, NULL);
    return 0;
}

/* Orders with the ids from `first` on; returns when the broker has them. */
static void order_some(uint64_t first, uint64_t count)
{
    coney_app *app;
    coney_broker *broker = set(&app);
    start(app);
    for (uint64_t id = first; id < first + count; id++) {
        order o = {.id = id, .customer = CONEY_STR("ada")};
        assert_int_equal(order_publish(coney_out_of_broker(broker), orders, &o), CONEY_OK);
    }
    stop(&app);
}

/* Takes receipts out of their queue until each of the orders 0 … has one; several are fine. */
static void wait_for_receipts(uint64_t count)
{
    bool *has = calloc(count, sizeof *has);
    assert_non_null(has);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    uint64_t left = count;
    while (left > 0 && now_ms() < until) {
        coney_kept *kept = NULL;
        unsigned long long id;
        assert_int_equal(coney_amqp_get(admin, receipts, &kept, NULL), CONEY_OK);
        if (kept == NULL)
            continue;
        coney_bytes body = coney_amqp_kept_delivery(kept)->body;
        char text[64] = "";
        memcpy(text, body.data, body.len < sizeof text ? body.len : sizeof text - 1);
        assert_int_equal(sscanf(text, "{\"order_id\":%llu}", &id), 1);
        assert_true(id < count);
        left -= !has[id];
        has[id] = true;
        coney_kept_settle(&kept, CONEY_ACK);
    }
    free(has);
    if (left > 0)
        fail_msg("%llu orders have no receipt", (unsigned long long)left);
}

/* Handlers ---------------------------------------------------------------------------------------------------------------- */

static coney_settle take(coney_delivery *d, const order *o)
{
    see(o->id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take, order);

static coney_settle confirm(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id};
    see(o->id, coney_delivery_attempt(d));
    return receipt_publish(coney_out_of(d), receipts, &r) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(confirm, order);

static coney_settle give_up(coney_delivery *d, const order *o)
{
    see(o->id, coney_delivery_attempt(d));
    return CONEY_FAILED;
}
CONEY_HANDLER(give_up, order);

/* Publishing through a delivery ---------------------------------------------------------------------------------------------- */

static void an_order_is_acked_when_the_broker_has_its_receipt(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker = set(&app);
    declare(receipts, CONEY_QUEUE_CLASSIC);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = confirm_handler});
    start(app);
    order_some(0, 200);
    wait_for(200);
    wait_for_ready(receipts, 200);
    assert_int_equal(stop(&app), 0);
    assert_int_equal(ready(orders), 0);
    assert_int_equal(seen.count, 200);
}

static void an_order_whose_receipt_no_queue_takes_comes_again(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true),
                                                  .handler = confirm_handler,
                                                  .on_publish_failure = coney_policy_retry(50 * CONEY_MILLISECOND)});
    start(app);
    order_some(7, 1);
    wait_for(2);
    declare(receipts, CONEY_QUEUE_CLASSIC);
    wait_for_ready(receipts, 1);
    stop(&app);
    assert_int_equal(ready(orders), 0);
}

/* Attempts -------------------------------------------------------------------------------------------------------------------- */

static uint64_t attempts_of(const char *queue)
{
    coney_kept *kept = NULL;
    coney_value value;
    uint64_t attempts = 0;
    assert_int_equal(coney_amqp_get(admin, queue, &kept, NULL), CONEY_OK);
    assert_non_null(kept);
    if (coney_amqp_delivery_header(coney_amqp_kept_delivery(kept), CONEY_STR("x-coney-attempts"), &value))
        (void)coney_value_to_u64(&value, &attempts);
    coney_kept_settle(&kept, CONEY_ACK);
    return attempts;
}

static void spends_three_attempts(coney_queue_type type, coney_delay delay)
{
    coney_app *app;
    coney_broker *broker = set(&app);
    declare(spent, CONEY_QUEUE_CLASSIC);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true, .type = type, .delay = delay),
                                                  .handler = give_up_handler,
                                                  .on_failure = coney_policy_retry(40 * CONEY_MILLISECOND),
                                                  .max_attempts = 3,
                                                  .dead_letter = spent});
    start(app);
    order_some(7, 1);
    wait_for_ready(spent, 1);
    stop(&app);
    assert_int_equal(seen.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(seen.attempts[i], i + 1);
        if (i > 0 && seen.at[i] - seen.at[i - 1] < 39)
            fail_msg("attempt %zu came after %lld ms", i + 1, (long long)(seen.at[i] - seen.at[i - 1]));
    }
    assert_int_equal(attempts_of(spent), 3);
    assert_int_equal(ready(orders), 0);
    char waiting[160];
    snprintf(waiting, sizeof waiting, "%s.wait.40", orders);
    coney_amqp_queue_delete(admin, waiting, 0, NULL);
}

static void three_attempts_of_a_classic_queue_end_in_the_dead_letters(void **state)
{
    (void)state;
    spends_three_attempts(CONEY_QUEUE_CLASSIC, CONEY_DELAY_HELD);
}

static void three_attempts_of_a_classic_queue_with_waiting_queues_end_in_the_dead_letters(void **state)
{
    (void)state;
    spends_three_attempts(CONEY_QUEUE_CLASSIC, CONEY_DELAY_QUEUE);
}

static void three_attempts_of_a_quorum_queue_end_in_the_dead_letters(void **state)
{
    (void)state;
    spends_three_attempts(CONEY_QUEUE_QUORUM, CONEY_DELAY_HELD);
}

static void three_attempts_of_a_quorum_queue_with_waiting_queues_end_in_the_dead_letters(void **state)
{
    (void)state;
    spends_three_attempts(CONEY_QUEUE_QUORUM, CONEY_DELAY_QUEUE);
}

static void N08_a_message_that_cannot_be_decoded_is_dead_lettered_and_stops_nobody(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker = set(&app);
    declare(spent, CONEY_QUEUE_CLASSIC);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true, .dead_letter_exchange = "",
                                                                        .dead_letter_routing_key = spent),
                                                  .handler = take_handler});
    start(app);
    coney_publish_options options = {.to = orders};
    assert_int_equal(
        coney_publish_raw(coney_out_of_broker(broker), CONEY_STR("no order"), CONEY_STR("application/json"), &options),
        CONEY_OK);
    order_some(1, 1);
    wait_for(1);
    wait_for_ready(spent, 1);
    stop(&app);
    assert_int_equal(seen.ids[0], 1);
}

/* Stopping -------------------------------------------------------------------------------------------------------------------- */

static coney_settle take_slowly(coney_delivery *d, const order *o)
{
    struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
    see(o->id, coney_delivery_attempt(d));
    nanosleep(&pause, NULL); /* what is stopped is work that takes its time */
    return CONEY_ACK;
}
CONEY_HANDLER(take_slowly, order);

static void N06_a_stop_lets_ten_handlers_end_and_gives_ninety_messages_back(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker = set(&app);
    declare(orders, CONEY_QUEUE_CLASSIC);
    order_some(0, 100);
    coney_subscribe(broker, &(coney_subscription){
                                .source = CONEY_QUEUE(orders, .prefetch = 100), .handler = take_slowly_handler, .lanes = 10});
    start(app);
    wait_for(10);
    int64_t began = now_ms();
    coney_app_ask_to_stop(app);
    assert_int_equal(coney_app_wait(app, NULL), CONEY_OK);
    stop(&app);
    int64_t took = now_ms() - began;
    if (took > scaled_ms(1000))
        fail_msg("it took %lld ms", (long long)took);
    assert_int_equal(seen.count, 10);
    assert_int_equal(ready(orders), 90);
}

/* How a subscription ends and comes back -------------------------------------------------------------------------------------- */

static void an_app_may_end_with_its_queue(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker =
        set_at(&app, amqp_uri(node.amqp_port), &(coney_app_options){.on_subscription_end = CONEY_ON_END_STOP});
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    start(app);
    assert_int_equal(coney_amqp_queue_delete(admin, orders, 0, NULL), CONEY_OK);
    coney_call call = call_within(SUPPORT_PATIENCE);
    assert_int_equal(coney_app_wait(app, &call), CONEY_ENOTFOUND);
    assert_says(call.text, orders);
    coney_app_free(&app);
}

static void cuts_lose_no_order_and_no_receipt(void **state)
{
    (void)state;
    coney_app *app;
    struct scissors *scissors = scissors_start(node.amqp_port);
    uint16_t port = (uint16_t)atoi(strrchr(scissors_uri(scissors), ':') + 1);
    coney_broker *broker = set_at(&app, amqp_uri(port), NULL);
    declare(orders, CONEY_QUEUE_QUORUM);
    declare(receipts, CONEY_QUEUE_CLASSIC);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .prefetch = 20),
                                                  .handler = confirm_handler,
                                                  .on_publish_failure = CONEY_POLICY_RETRY});
    start(app);
    for (uint64_t round = 0; round < 4; round++) {
        order_some(round * 100, 100);
        scissors_cut_all(scissors);
    }
    wait_for_receipts(400);
    stop(&app);
    scissors_stop(&scissors);
}

static void handlers_of_two_subscriptions_run_at_the_same_time(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(receipts, .declare = true), .handler = take_handler});
    start(app);
    seen.closed_gate = true;
    coney_publish_options options[] = {{.to = orders}, {.to = receipts}};
    order o = {.id = 1};
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_publish_with(coney_out_of_broker(broker), &options[i], &o), CONEY_OK);
    wait_for(2); /* both stand at the gate */
    open_gate();
    coney_app_health health;
    coney_app_get_health(app, &health);
    assert_int_equal(health.active, 2);
    stop(&app);
}

/* Requests and transactions ---------------------------------------------------------------------------------------------------- */

static coney_settle answer(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id + 1};
    return receipt_reply(d, &r) == CONEY_OK ? CONEY_ACK : CONEY_REJECT;
}
CONEY_HANDLER(answer, order);

static void a_request_of_one_app_is_answered_by_another(void **state)
{
    (void)state;
    coney_app *shop, *desk;
    coney_broker *there = set(&shop);
    coney_broker *here = set(&desk);
    coney_subscribe(there, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = answer_handler});
    coney_publisher *asking = coney_publisher_new(here, &(coney_publisher_options){.name = "asking", .to = orders});
    start(shop);
    start(desk);
    for (uint64_t id = 0; id < 5; id++) {
        coney_reply_message *reply = NULL;
        coney_call call = {0};
        order o = {.id = id};
        if (order_request(asking, &(coney_publish_options){0}, &o, &reply, &call) != CONEY_OK)
            fail_msg("%s", call.text);
        const receipt *r = receipt_of_reply(reply);
        assert_non_null(r);
        assert_int_equal(r->order_id, id + 1);
        coney_reply_free(&reply);
    }
    coney_reply_message *reply = NULL;
    order o = {.id = 1};
    coney_publish_options nobody = {.to = receipts};
    assert_int_equal(order_request(asking, &nobody, &o, &reply, NULL), CONEY_ERETURNED);
    stop(&desk);
    stop(&shop);
}

static coney_publisher *together;
static _Atomic bool fails_once;

static coney_settle confirm_twice(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id};
    see(o->id, coney_delivery_attempt(d));
    coney_out out = coney_out_by(d, together);
    if (receipt_publish(out, receipts, &r) != CONEY_OK || receipt_publish(out, receipts, &r) != CONEY_OK)
        return CONEY_REJECT;
    return atomic_exchange(&fails_once, false) ? CONEY_FAILED : CONEY_ACK;
}
CONEY_HANDLER(confirm_twice, order);

static void what_a_handler_that_failed_had_published_in_a_transaction_never_appears(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker = set(&app);
    declare(receipts, CONEY_QUEUE_CLASSIC);
    together = coney_publisher_new(broker, &(coney_publisher_options){.name = "together", .policy = CONEY_PUBLISH_TRANSACTION});
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true),
                                                  .handler = confirm_twice_handler,
                                                  .on_failure = CONEY_POLICY_RETRY});
    fails_once = true;
    start(app);
    order_some(1, 1);
    wait_for(2);
    wait_for_ready(receipts, 2);
    stop(&app);
    assert_int_equal(ready(receipts), 2);
    assert_int_equal(ready(orders), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    if (!node_shared(&node))
        return 77;
    coney_call call = {0};
    admin = coney_amqp_open(amqp_uri(node.amqp_port), NULL, &call);
    if (admin == NULL) {
        fprintf(stderr, "%s\n", call.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        TEST(an_order_is_acked_when_the_broker_has_its_receipt),
        TEST(an_order_whose_receipt_no_queue_takes_comes_again),
        TEST(three_attempts_of_a_classic_queue_end_in_the_dead_letters),
        TEST(three_attempts_of_a_classic_queue_with_waiting_queues_end_in_the_dead_letters),
        TEST(three_attempts_of_a_quorum_queue_end_in_the_dead_letters),
        TEST(three_attempts_of_a_quorum_queue_with_waiting_queues_end_in_the_dead_letters),
        TEST(N06_a_stop_lets_ten_handlers_end_and_gives_ninety_messages_back),
        TEST(N08_a_message_that_cannot_be_decoded_is_dead_lettered_and_stops_nobody),
        TEST(an_app_may_end_with_its_queue),
        TEST(cuts_lose_no_order_and_no_receipt),
        TEST(handlers_of_two_subscriptions_run_at_the_same_time),
        TEST(a_request_of_one_app_is_answered_by_another),
        TEST(what_a_handler_that_failed_had_published_in_a_transaction_never_appears),
    };
    int failed = run_tests(tests);
    coney_amqp_close(&admin, NULL);
    return failed;
}
