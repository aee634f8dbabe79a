/* What stands in the way of a start: queues and exchanges that are not there or are other ones, a wrong password, no broker, no descriptors. What it
 * says, what is left of it (nothing), and that the same app starts once the hindrance is gone. And a start with 500 subscriptions. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "proxy.h"
#include "shop.h"
#include "stage.h"

#include <sys/resource.h>

#define ORDER(F) F(u64, id) F(string, customer) F(u16, count)
CONEY_MESSAGE(order, ORDER);

enum { MANY = 500 };

static struct node node;
static struct desk desk;
static struct shop shop;
static struct sights seen;
static char orders[80], other[80];
static char hooks[64]; /* a letter each, in the order in which they ran */

static coney_settle take(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take, order);

static coney_status write_down(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)call;
    strcat(hooks, ctx);
    return CONEY_OK;
}

static void add_hooks(void)
{
    static char letters[][2] = {"a", "b", "c", "d"};
    hooks[0] = '\0';
    for (int stage = CONEY_BEFORE_START; stage <= CONEY_AFTER_STOP; stage++)
        coney_app_on(shop.app, (coney_stage)stage, write_down, letters[stage]);
}

static int set_up(void **state)
{
    (void)state;
    fresh_name(orders, sizeof orders, "orders");
    fresh_name(other, sizeof other, "other");
    seen = (struct sights){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    desk_delete(&desk, orders);
    desk_delete(&desk, other);
    sights_free(&seen);
    return 0;
}

/* It starts, serves one order and stops. */
static void it_works(void)
{
    size_t before = sights_count(&seen);
    shop_start(&shop);
    desk_put_orders(&desk, orders, before, 1);
    sights_wait(&seen, before + 1);
    assert_int_equal(shop_stop(&shop), 0);
}

/* Refusals -------------------------------------------------------------------------------------------------------------- */

static void a_queue_that_is_missing_is_named_and_may_be_made(void **state)
{
    (void)state;
    size_t descriptors = descriptors_open();
    size_t threads = threads_running();
    shop_set(&shop, &node, NULL);
    add_hooks();
    coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_QUEUE(other, .declare = true), .handler = take_handler});
    coney_subscribe(shop.rabbit, &(coney_subscription){.name = "till", .source = CONEY_QUEUE(orders), .handler = take_handler});
    shop_is_refused(&shop, CONEY_ENOTFOUND, "subscription 'till': ");
    shop_is_refused(&shop, CONEY_ENOTFOUND, orders);
    shop_is_refused(&shop, CONEY_ENOTFOUND, "set .declare, or create the queue first");
    assert_string_equal(hooks, "adadad"); /* what had begun has ended, and the others never ran */
    coney_app_health health = shop_health(&shop);
    assert_int_equal(health.phase, CONEY_APP_FAILED);
    assert_int_equal(health.status, CONEY_ENOTFOUND);
    assert_int_equal(health.connected, 0);
    wait_for_descriptors(descriptors);
    wait_for_threads(threads + 1); /* the app's own */
    desk_declare(&desk, orders, CONEY_QUEUE_CLASSIC);
    it_works();
    assert_string_equal(hooks, "adadadabcd");
    wait_for_threads(threads);
}

static void a_queue_with_other_arguments_is_refused_in_the_brokers_words(void **state)
{
    (void)state;
    desk_declare_as(&desk, orders, &(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC, .max_length = 7});
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true, .type = CONEY_QUEUE_CLASSIC),
                                          .handler = take_handler});
    shop_is_refused(&shop, CONEY_EPRECONDITION, "broker 'amqp': ");
    shop_is_refused(&shop, CONEY_EPRECONDITION, orders);
    shop_is_refused(&shop, CONEY_EPRECONDITION, "x-max-length");
    desk_delete(&desk, orders);
    it_works();
}

static void an_exchange_of_another_type_is_refused_in_the_brokers_words(void **state)
{
    (void)state;
    const coney_amqp_exchange exchange = {.name = other, .type = "topic", .transient = true};
    assert_int_equal(coney_amqp_exchange_declare(desk.rabbit, &exchange, NULL), CONEY_OK);
    shop_set(&shop, &node, NULL);
    coney_declare_exchange(shop.rabbit, &(coney_amqp_exchange){.name = other, .type = "fanout", .transient = true});
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    shop_is_refused(&shop, CONEY_EPRECONDITION, other);
    shop_is_refused(&shop, CONEY_EPRECONDITION, "fanout");
    assert_int_equal(coney_amqp_exchange_delete(desk.rabbit, other, 0, NULL), CONEY_OK);
    it_works();
    assert_int_equal(coney_amqp_exchange_delete(desk.rabbit, other, 0, NULL), CONEY_OK);
}

static void a_binding_to_an_exchange_that_is_missing_is_named(void **state)
{
    (void)state;
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit, &(coney_subscription){
                                     .source = CONEY_QUEUE(orders, .declare = true,
                                                           .bindings = CONEY_BINDINGS({.exchange = "nowhere", .key = "k"})),
                                     .handler = take_handler});
    shop_is_refused(&shop, CONEY_ENOTFOUND, "nowhere");
    shop_end(&shop);
}

/* A publisher may be there before its exchange is; whoever wants it at the start declares it, or checks it with `.passive`. */
static void an_exchange_that_is_missing_is_found_at_the_start_when_that_was_asked(void **state)
{
    (void)state;
    shop_set(&shop, &node, NULL);
    coney_declare_exchange(shop.rabbit, &(coney_amqp_exchange){.name = other, .passive = true});
    coney_publisher_new(shop.rabbit, &(coney_publisher_options){.name = "receipts", .exchange = other});
    shop_is_refused(&shop, CONEY_ENOTFOUND, other);
    shop_end(&shop);
}

static coney_publisher *receipts;

static coney_settle pass_on(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return order_publish(coney_out_by(d, receipts), orders, o) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(pass_on, order);

static void what_is_published_to_an_exchange_that_is_missing_is_told_and_holds_its_ack_until_it_is_there(void **state)
{
    (void)state;
    char target[100];
    snprintf(target, sizeof target, "%s-target", orders);
    shop_set(&shop, &node, NULL);
    receipts = coney_publisher_new(shop.rabbit, &(coney_publisher_options){.name = "receipts", .exchange = other});
    coney_subscribe(shop.rabbit, &(coney_subscription){.name = "till",
                                                       .source = CONEY_QUEUE(orders, .declare = true),
                                                       .handler = pass_on_handler,
                                                       .on_publish_failure = coney_policy_retry(50 * CONEY_MILLISECOND)});
    shop_start(&shop);
    desk_put_orders(&desk, orders, 0, 1);
    sights_wait(&seen, 2);
    shop_says(&shop, "subscription 'till': message 'desk-");
    shop_says(&shop, other);
    const coney_amqp_exchange exchange = {.name = other, .type = "fanout", .transient = true};
    assert_int_equal(coney_amqp_exchange_declare(desk.rabbit, &exchange, NULL), CONEY_OK);
    desk_declare(&desk, target, CONEY_QUEUE_CLASSIC);
    assert_int_equal(coney_amqp_bind(desk.rabbit, &(coney_amqp_binding){.source = other, .destination = target}, NULL),
                     CONEY_OK);
    desk_wait_for_ready(&desk, target, 1);
    assert_int_equal(shop_stop(&shop), 0);
    assert_int_equal(desk_ready(&desk, orders), 0);
    assert_int_equal(coney_amqp_exchange_delete(desk.rabbit, other, 0, NULL), CONEY_OK);
    desk_delete(&desk, target);
}

static void a_stream_that_is_missing_is_named(void **state)
{
    (void)state;
    shop_set(&shop, &node, NULL);
    shop_set_streams(&shop, &node);
    coney_subscribe(shop.streams,
                    &(coney_subscription){.name = "till", .source = CONEY_STREAM(orders), .handler = take_handler});
    shop_is_refused(&shop, CONEY_ENOTFOUND, "subscription 'till': ");
    shop_is_refused(&shop, CONEY_ENOTFOUND, orders);
    assert_int_equal(coney_stream_create(desk.streams, orders, NULL, NULL), CONEY_OK);
    shop_start(&shop);
    assert_int_equal(shop_stop(&shop), 0);
    coney_stream_delete(desk.streams, orders, NULL);
}

static void a_queue_that_is_exclusive_to_another_is_named(void **state)
{
    (void)state;
    desk_declare_as(&desk, orders, &(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC, .exclusive = true, .transient = true});
    shop_set(&shop, &node, NULL);
    coney_subscribe(shop.rabbit, &(coney_subscription){.name = "till", .source = CONEY_QUEUE(orders), .handler = take_handler});
    shop_is_refused(&shop, CONEY_EUNAVAILABLE, orders);
    shop_end(&shop);
}

static void a_wrong_password_is_told_and_never_shown(void **state)
{
    (void)state;
    char uri[100];
    snprintf(uri, sizeof uri, "amqp://guest:swordfish@127.0.0.1:%u", (unsigned)node.amqp_port);
    shop_set_at(&shop, uri, NULL);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    shop_is_refused(&shop, CONEY_EAUTH, "check the user name and the password");
    assert_int_equal(shop_said(&shop, "swordfish"), 0);
    assert_null(strstr(shop_health(&shop).reason, "swordfish"));
    shop_end(&shop);
}

static void a_broker_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct proxy *proxy = proxy_start_bytes("127.0.0.1", node.amqp_port);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)proxy_port(proxy));
    proxy_set_door(proxy, PROXY_REFUSES);
    shop_set_at(&shop, amqp_uri(proxy_port(proxy)), NULL);
    add_hooks();
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    coney_call call = call_within(10000);
    assert_int_not_equal(coney_app_start(shop.app, &call), CONEY_OK);
    assert_says(call.text, "broker 'amqp': ");
    assert_says(call.text, address);
    assert_string_equal(hooks, "ad");
    proxy_set_door(proxy, PROXY_ACCEPTS);
    it_works();
    proxy_stop(&proxy);
}

static void a_broker_that_says_nothing_is_waited_for_no_longer_than_the_deadline(void **state)
{
    (void)state;
    struct proxy *proxy = proxy_start_bytes("127.0.0.1", node.amqp_port);
    proxy_set_door(proxy, PROXY_STAYS_MUTE);
    shop_set_at(&shop, amqp_uri(proxy_port(proxy)), NULL);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    coney_call call = {.deadline = 500 * CONEY_MILLISECOND};
    int64_t began = now_ms();
    assert_int_equal(coney_app_start(shop.app, &call), CONEY_ETIMEDOUT);
    assert_true(now_ms() - began < scaled_ms(5000));
    assert_says(call.text, "broker 'amqp': ");
    proxy_set_door(proxy, PROXY_ACCEPTS);
    it_works();
    proxy_stop(&proxy);
}

static void what_the_second_broker_refuses_unwinds_the_first(void **state)
{
    (void)state;
    size_t descriptors = descriptors_open();
    shop_set(&shop, &node, NULL);
    coney_stream_env_options none = {0};
    coney_broker *nowhere = coney_app_stream(shop.app, "rabbitmq-stream://127.0.0.1:1", &none);
    coney_broker_label(nowhere, "elsewhere");
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    coney_call call = call_within(10000);
    assert_int_not_equal(coney_app_start(shop.app, &call), CONEY_OK);
    assert_says(call.text, "broker 'elsewhere': ");
    assert_int_equal(shop_health(&shop).connected, 0);
    wait_for_descriptors(descriptors);
    shop_end(&shop);
}

static void mistakes_of_every_kind_are_told_at_once_and_nothing_is_connected(void **state)
{
    (void)state;
    shop_set(&shop, &node, NULL);
    add_hooks();
    coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_QUEUE(orders), .handler = take_handler, .lanes = -3});
    coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_TOPIC("orders"), .name = "till"});
    coney_call call = {0};
    assert_int_equal(coney_app_start(shop.app, &call), CONEY_EINVAL);
    assert_true(call.value >= 3);
    assert_says(call.text, "lanes");
    assert_says(call.text, "'till'");
    assert_says(call.text, "handler");
    assert_string_equal(hooks, "");
    shop_end(&shop);
}

/* Descriptors ----------------------------------------------------------------------------------------------------------- */

static void set_limit(rlim_t most)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* With room for 0, 1, 2 … further ones, until it starts. */
static void without_descriptors_a_start_fails_in_words_and_leaves_none_behind(void **state)
{
    (void)state;
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    size_t open = descriptors_open();
    shop_set(&shop, &node, NULL);
    shop_set_streams(&shop, &node);
    coney_subscribe(shop.rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE(orders, .declare = true), .handler = take_handler});
    coney_subscribe(shop.streams,
                    &(coney_subscription){.source = CONEY_STREAM(other, .declare = true), .handler = take_handler});
    coney_status status = CONEY_ELIMIT;
    size_t room = 0;
    for (; room < 40 && status != CONEY_OK; room++) {
        coney_call call = {.deadline = 3 * CONEY_SECOND};
        set_limit(open + room);
        status = coney_app_start(shop.app, &call);
        set_limit(before.rlim_cur);
        if (status != CONEY_OK && call.text[0] == '\0')
            fail_msg("with room for %zu descriptors: %s without a word", room, coney_status_name(status));
        if (status != CONEY_OK)
            wait_for_descriptors(open);
    }
    assert_int_equal(status, CONEY_OK);
    assert_true(room > 4);
    coney_app_stop(shop.app, NULL);
    coney_stream_delete(desk.streams, other, NULL);
    it_works();
    coney_stream_delete(desk.streams, other, NULL);
    wait_for_descriptors(open);
}

/* Many ------------------------------------------------------------------------------------------------------------------ */

static void five_hundred_subscriptions_start_serve_and_stop(void **state)
{
    (void)state;
    char names[MANY][96];
    size_t threads = threads_running();
    shop_set(&shop, &node, NULL);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "%s-%zu", orders, i);
        coney_subscribe(shop.rabbit,
                        &(coney_subscription){.source = CONEY_QUEUE(names[i], .declare = true, .exclusive = true,
                                                                    .transient = true, .type = CONEY_QUEUE_CLASSIC),
                                              .handler = take_handler});
    }
    shop_start(&shop);
    assert_int_equal(shop_health(&shop).active, MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        order o = {.id = i, .customer = CONEY_STR("ada")};
        assert_int_equal(order_publish(coney_out_of_broker(shop.rabbit), names[i], &o), CONEY_OK);
    }
    sights_have_all(&seen, 0, MANY);
    assert_int_equal(sights_count(&seen), MANY);
    assert_int_equal(shop_stop(&shop), 0);
    wait_for_threads(threads);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    if (!node_shared(&node))
        return 77;
    desk_open(&desk, &node);
    const struct CMUnitTest tests[] = {
        TEST(a_queue_that_is_missing_is_named_and_may_be_made),
        TEST(a_queue_with_other_arguments_is_refused_in_the_brokers_words),
        TEST(an_exchange_of_another_type_is_refused_in_the_brokers_words),
        TEST(a_binding_to_an_exchange_that_is_missing_is_named),
        TEST(an_exchange_that_is_missing_is_found_at_the_start_when_that_was_asked),
        TEST(what_is_published_to_an_exchange_that_is_missing_is_told_and_holds_its_ack_until_it_is_there),
        TEST(a_stream_that_is_missing_is_named),
        TEST(a_queue_that_is_exclusive_to_another_is_named),
        TEST(a_wrong_password_is_told_and_never_shown),
        TEST(a_broker_that_is_not_there_is_named),
        TEST(a_broker_that_says_nothing_is_waited_for_no_longer_than_the_deadline),
        TEST(what_the_second_broker_refuses_unwinds_the_first),
        TEST(mistakes_of_every_kind_are_told_at_once_and_nothing_is_connected),
        TEST(without_descriptors_a_start_fails_in_words_and_leaves_none_behind),
        TEST(five_hundred_subscriptions_start_serve_and_stop),
    };
    int failed = run_tests(tests);
    desk_close(&desk);
    return failed;
}
