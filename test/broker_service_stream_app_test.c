/* Services over streams, whole: an app, its handlers and policies, on a real node. */
#define _GNU_SOURCE
#include "scene.h"

#include <coney/service.h>

#include <stdatomic.h>

#define ORDER(F) F(u64, id) F(string, customer)
CONEY_MESSAGE(order, ORDER);
#define RECEIPT(F) F(u64, order_id)
CONEY_MESSAGE(receipt, RECEIPT);

static struct node node;
static coney_stream_env *admin;

/* What handlers saw, in the order in which they saw it. */
static struct seen {
    struct monitor monitor;
    uint64_t ids[4096];
    uint64_t attempts[4096];
    size_t batches[4096];
    size_t count;
    size_t batch_count;
} seen;

static size_t see(uint64_t id, uint64_t attempt)
{
    monitor_lock(&seen.monitor);
    size_t nth = seen.count++;
    if (nth >= sizeof seen.ids / sizeof seen.ids[0])
        abort();
    seen.ids[nth] = id;
    seen.attempts[nth] = attempt;
    monitor_broadcast(&seen.monitor);
    monitor_unlock(&seen.monitor);
    return nth;
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

/* The app of a test ---------------------------------------------------------------------------------------------------------- */

static char orders[80];
static char receipts[80];

static void log_here(void *ctx, coney_log_level level, const char *text)
{
    (void)ctx;
    if (level == CONEY_LOG_ERROR || getenv("CONEY_TEST_LOG") != NULL)
        fprintf(stderr, "%s\n", text);
}

static coney_broker *set(coney_app **app)
{
    *app = coney_app_new("shop", "1.0.0");
    coney_app_configure(*app, &(coney_app_options){.on_log = log_here});
    return coney_app_stream(*app, node.uri, NULL);
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

static int set_up(void **state)
{
    (void)state;
    fresh_name(orders, sizeof orders, "orders");
    fresh_name(receipts, sizeof receipts, "receipts");
    if (coney_stream_create(admin, orders, NULL, NULL) != CONEY_OK ||
        coney_stream_create(admin, receipts, NULL, NULL) != CONEY_OK)
        return 1;
    seen.count = 0;
    seen.batch_count = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    coney_stream_delete(admin, orders, NULL);
    coney_stream_delete(admin, receipts, NULL);
    return 0;
}

/* Orders with the ids from `first` on; returns when the broker has them. */
static void order_some(uint64_t first, uint64_t count)
{
    coney_app *app;
    coney_broker *broker = set(&app);
    start(app);
    for (uint64_t id = first; id < first + count; id++) {
        order o = {.id = id, .customer = id % 2 == 0 ? CONEY_STR("ada") : CONEY_STR("bob")};
        coney_publish_options options = {.to = orders, .key = o.customer};
        assert_int_equal(order_publish_with(coney_out_of_broker(broker), &options, &o), CONEY_OK);
    }
    stop(&app);
}

static uint64_t stored(void)
{
    coney_call call = {0};
    coney_status status = coney_stream_query_offset(admin, orders, "shop", &call);
    return status == CONEY_OK ? call.value : UINT64_MAX;
}

/* Handlers ------------------------------------------------------------------------------------------------------------------------ */

static coney_settle take(coney_delivery *d, const order *o)
{
    see(o->id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take, order);

static coney_settle confirm(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id};
    return receipt_publish(coney_out_of(d), receipts, &r) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(confirm, order);

static coney_settle take_receipt(coney_delivery *d, const receipt *r)
{
    see(r->order_id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take_receipt, receipt);

static void a_handler_publishes_what_another_subscription_reads(void **state)
{
    (void)state;
    order_some(0, 500);
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = confirm_handler});
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(receipts, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = take_receipt_handler});
    start(app);
    wait_for(500);
    assert_int_equal(stop(&app), 0);
    for (uint64_t i = 0; i < 500; i++)
        assert_int_equal(seen.ids[i], i);
    assert_int_equal(seen.count, 500);
    assert_true(stored() != UINT64_MAX && stored() >= 499);
}

static coney_settle fail_odd(coney_delivery *d, const order *o)
{
    see(o->id, coney_delivery_attempt(d));
    return o->id == 3 ? CONEY_FAILED : CONEY_ACK;
}
CONEY_HANDLER(fail_odd, order);

static coney_settle take_dead(coney_delivery *d, const order *o)
{
    see(1000 + o->id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take_dead, order);

static void a_message_that_fails_too_often_goes_to_the_dead_letters_and_later_ones_wait_until_then(void **state)
{
    (void)state;
    order_some(0, 6);
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = fail_odd_handler,
                                                  .on_failure = coney_policy_retry(20 * CONEY_MILLISECOND),
                                                  .max_attempts = 3,
                                                  .dead_letter = receipts});
    start(app);
    wait_for(8);
    assert_int_equal(stop(&app), 0);
    const uint64_t ids[] = {0, 1, 2, 3, 3, 3, 4, 5};
    const uint64_t attempts[] = {1, 1, 1, 1, 2, 3, 1, 1};
    assert_int_equal(seen.count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(seen.ids[i], ids[i]);
        assert_int_equal(seen.attempts[i], attempts[i]);
    }
    broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(receipts, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = take_dead_handler});
    start(app);
    wait_for(9);
    assert_int_equal(stop(&app), 0);
    assert_int_equal(seen.ids[8], 1003);
    assert_int_equal(seen.attempts[8], 4);
}

static coney_settle take_batch(coney_batch *batch, const order *values, size_t count)
{
    (void)batch;
    for (size_t i = 0; i < count; i++)
        see(values[i].id, 1);
    monitor_lock(&seen.monitor);
    seen.batches[seen.batch_count++] = count;
    monitor_unlock(&seen.monitor);
    return CONEY_ACK;
}
CONEY_BATCH_HANDLER(take_batch, order);

/* A chunk is a batch: nobody waits an hour for more. */
static void batches_end_with_their_chunk(void **state)
{
    (void)state;
    order_some(0, 250);
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = take_batch_handler,
                                                  .batch = 100,
                                                  .batch_wait = 3600 * CONEY_SECOND});
    start(app);
    wait_for(250);
    assert_int_equal(stop(&app), 0);
    for (uint64_t i = 0; i < 250; i++)
        assert_int_equal(seen.ids[i], i);
    for (size_t i = 0; i < seen.batch_count; i++)
        assert_in_range(seen.batches[i], 1, 100);
    assert_true(stored() != UINT64_MAX && stored() >= 249);
}

/* The batches with the ids 0 and 100 in them fail at first, each in another way. */
static coney_settle fail_batches(coney_batch *batch, const order *values, size_t count)
{
    coney_settle how = CONEY_ACK;
    for (size_t i = 0; i < count; i++) {
        uint64_t attempt = coney_delivery_attempt(coney_batch_delivery(batch, i));
        see(values[i].id, attempt);
        if (values[i].id % 100 == 0 && attempt < 3)
            how = values[i].id == 0 ? CONEY_FAILED : CONEY_REQUEUE;
    }
    return how;
}
CONEY_BATCH_HANDLER(fail_batches, order);

static void a_failed_batch_holds_back_later_ones(void **state)
{
    (void)state;
    order_some(0, 300);
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = fail_batches_handler,
                                                  .batch = 32,
                                                  .on_failure = 50 * CONEY_MILLISECOND});
    start(app);
    wait_for(300 + 2 * 2);
    while (seen.ids[seen.count - 1] != 299)
        wait_for(seen.count + 1);
    assert_int_equal(stop(&app), 0);
    uint64_t attempts[300] = {0};
    uint64_t last = 0;
    for (size_t i = 0; i < seen.count; i++) {
        uint64_t id = seen.ids[i];
        assert_int_equal(seen.attempts[i], ++attempts[id]);
        if (seen.attempts[i] == 1)
            assert_int_equal(id, i == 0 ? 0 : last + 1);
        last = seen.attempts[i] == 1 ? id : last;
    }
    assert_int_equal(attempts[0], 3);
    assert_int_equal(attempts[100], 3);
    assert_int_equal(last, 299);
    assert_true(stored() != UINT64_MAX && stored() >= 299);
}

static void lanes_by_key_keep_each_customers_order(void **state)
{
    (void)state;
    order_some(0, 400);
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = take_handler,
                                                  .lanes = 3,
                                                  .by_key = true});
    start(app);
    wait_for(400);
    assert_int_equal(stop(&app), 0);
    uint64_t next[2] = {0, 1};
    for (size_t i = 0; i < 400; i++) {
        uint64_t *expected = &next[seen.ids[i] % 2];
        assert_int_equal(seen.ids[i], *expected);
        *expected += 2;
    }
    assert_int_equal(seen.count, 400);
    assert_true(stored() != UINT64_MAX && stored() >= 399);
}

static coney_settle back_once(coney_delivery *d, const order *o)
{
    size_t nth = see(o->id, coney_delivery_attempt(d));
    uint64_t first = coney_delivery_info_of(d)->offset - o->id;
    if (nth == 7 && coney_seek(d, &(coney_position){.at = CONEY_STREAM_OFFSET, .offset = first + 2}) != CONEY_OK)
        return CONEY_REJECT;
    return CONEY_ACK;
}
CONEY_HANDLER(back_once, order);

static void a_handler_seeks_back_and_what_follows_is_in_order(void **state)
{
    (void)state;
    order_some(0, 20);
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                  .handler = back_once_handler});
    start(app);
    wait_for(8 + 18);
    assert_int_equal(stop(&app), 0);
    assert_int_equal(seen.count, 8 + 18);
    for (size_t i = 0; i < 26; i++)
        assert_int_equal(seen.ids[i], i < 8 ? i : i - 6);
    for (size_t i = 0; i < 26; i++)
        assert_int_equal(seen.attempts[i], 1);
}

static void a_seek_from_outside_moves_lanes_too_and_an_unknown_position_is_refused(void **state)
{
    (void)state;
    order_some(0, 50);
    coney_app *app;
    coney_broker *broker = set(&app);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                  .name = "orders",
                                                  .handler = take_handler,
                                                  .lanes = 2,
                                                  .by_key = true});
    start(app);
    wait_for(50);
    coney_call call = call_within(10000);
    coney_position nowhere = {.at = CONEY_STREAM_OFFSET, .offset = 1u << 30};
    assert_int_equal(coney_app_seek(app, "orders", &nowhere, &call), CONEY_ENOOFFSET);
    assert_non_null(strstr(call.text, "does not exist"));
    call = call_within(10000);
    assert_int_equal(coney_app_seek(app, "orders", &(coney_position){.at = CONEY_STREAM_OFFSET, .offset = 50}, &call),
                     CONEY_OK);
    call = call_within(10000);
    assert_int_equal(coney_app_seek(app, "orders", &(coney_position){.at = CONEY_STREAM_FIRST}, &call), CONEY_OK);
    wait_for(100);
    assert_int_equal(stop(&app), 0);
    assert_int_equal(seen.count, 100);
}

/* The first run is stopped in the middle; the second begins where it stopped. */
static coney_settle take_slowly(coney_delivery *d, const order *o)
{
    (void)d;
    see(o->id, 1);
    struct timespec a_while = {.tv_nsec = 1000000};
    nanosleep(&a_while, NULL);
    return CONEY_ACK;
}
CONEY_HANDLER(take_slowly, order);

static void a_stop_hands_back_what_no_handler_had_and_nothing_comes_twice(void **state)
{
    (void)state;
    order_some(0, 600);
    for (size_t round = 1; round <= 3; round++) {
        coney_app *app;
        coney_broker *broker = set(&app);
        coney_subscribe(broker, &(coney_subscription){.source = CONEY_STREAM(orders, .start_if_new = CONEY_STREAM_FIRST),
                                                      .handler = take_slowly_handler});
        start(app);
        wait_for(round * 200);
        assert_int_equal(stop(&app), 0);
    }
    assert_int_equal(seen.count, 600);
    for (uint64_t i = 0; i < 600; i++)
        assert_int_equal(seen.ids[i], i);
}

static void note_outcome(void *ctx, const coney_outcome *outcome)
{
    if (outcome->status == CONEY_OK)
        atomic_fetch_add((_Atomic size_t *)ctx, 1);
}

static void a_flush_waits_for_the_outcomes_of_all_streams_that_were_published_to(void **state)
{
    (void)state;
    enum { EACH = 500 };
    _Atomic size_t outcomes = 0;
    coney_app *app;
    coney_publisher *publisher =
        coney_publisher_new(set(&app), &(coney_publisher_options){.on_outcome = note_outcome, .ctx = &outcomes});
    start(app);
    coney_out out = coney_out_by_publisher(publisher);
    assert_int_equal(coney_publisher_flush(publisher, NULL), CONEY_OK);
    for (size_t round = 1; round <= 3; round++) {
        for (size_t i = 0; i < EACH; i++) {
            assert_int_equal(order_publish(out, orders, &(order){.id = i}), CONEY_OK);
            assert_int_equal(receipt_publish(out, receipts, &(receipt){.order_id = i}), CONEY_OK);
        }
        coney_call call = call_within(10000);
        assert_int_equal(coney_publisher_flush(publisher, &call), CONEY_OK);
        assert_int_equal(atomic_load(&outcomes), round * 2 * EACH);
    }
    stop(&app);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    coney_call call = {0};
    admin = coney_stream_env_open(node.uri, NULL, &call);
    if (admin == NULL) {
        fprintf(stderr, "%s\n", call.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_handler_publishes_what_another_subscription_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_that_fails_too_often_goes_to_the_dead_letters_and_later_ones_wait_until_then,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(batches_end_with_their_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_batch_holds_back_later_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flush_waits_for_the_outcomes_of_all_streams_that_were_published_to, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(lanes_by_key_keep_each_customers_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_handler_seeks_back_and_what_follows_is_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_seek_from_outside_moves_lanes_too_and_an_unknown_position_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_stop_hands_back_what_no_handler_had_and_nothing_comes_twice, set_up, tear_down),
    };
    int failed = run_tests(tests);
    coney_stream_env_close(&admin, NULL);
    monitor_free(&seen.monitor);
    return failed;
}
