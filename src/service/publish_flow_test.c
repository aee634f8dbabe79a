/* publish_flow_test.c: what handlers publish, through the whole of an app that runs: when their messages are settled, and how. */
#include "service/app.h"
#include "service/publisher.h"
#include "service/service_fixture.h"

#define ORDER(F) F(u64, id) F(string, customer)
CONEY_MESSAGE(order, ORDER);
#define RECEIPT(F) F(u64, order_id)
CONEY_MESSAGE(receipt, RECEIPT);

struct scene {
    struct journal journal;
    struct fake fake;
    coney_app *app;
    coney_broker *broker;
    coney_publisher *transactional;
    coney_settle answer;
    int64_t drain_timeout;
};

static struct scene *scene_of(coney_delivery *d)
{
    return coney_state(d);
}

static void begin(struct scene *scene, const coney_subscription *subscription)
{
    scene->fake.journal = &scene->journal;
    scene->app = coney_app_new("orders", "1");
    coney_app_configure(scene->app, &(coney_app_options){.state = scene, .drain_timeout = scene->drain_timeout});
    scene->broker = fake_broker(scene->app, &scene->fake);
    scene->transactional =
        coney_publisher_new(scene->broker, &(coney_publisher_options){.name = "tx", .policy = CONEY_PUBLISH_TRANSACTION});
    assert_int_equal(coney_subscribe(scene->broker, subscription), CONEY_OK);
    coney_call call = {0};
    if (coney_app_start(scene->app, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    journal_clear(&scene->journal);
}

static void end(struct scene *scene)
{
    assert_int_equal(coney_app_stop(scene->app, NULL), CONEY_OK);
    coney_app_free(&scene->app);
}

/* Confirms -------------------------------------------------------------------------------------------------------- */

static coney_settle settle(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id};
    assert_int_equal(receipt_publish(coney_out_of(d), "receipts", &r), CONEY_OK);
    return CONEY_ACK;
}
CONEY_HANDLER(settle, order);

static void an_ack_waits_for_the_confirm_of_what_was_published(void **state)
{
    (void)state;
    struct scene scene = {.fake.hold_outcomes = true};
    begin(&scene, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = settle_handler});
    struct fake_message m = {.body = CONEY_STR("{\"id\":7,\"customer\":\"ada\"}")};
    assert_int_equal(fake_deliver(&scene.fake, "orders", &m), CONEY_KEPT);
    assert_int_equal(m.settles, 0);
    assert_string_equal(scene.fake.published[0].body, "{\"order_id\":7}");
    fake_outcome(&scene.fake, 0, CONEY_OK);
    assert_int_equal(fake_await_settled(&scene.fake, &m), CONEY_ACK);
    end(&scene);
}

static void a_return_applies_on_publish_failure(void **state)
{
    (void)state;
    struct scene scene = {.fake.hold_outcomes = true};
    begin(&scene, &(coney_subscription){
                      .source = CONEY_QUEUE("orders"), .handler = settle_handler, .on_publish_failure = CONEY_POLICY_REJECT});
    struct fake_message m = {.body = CONEY_STR("{\"id\":7,\"customer\":\"ada\"}")};
    assert_int_equal(fake_deliver(&scene.fake, "orders", &m), CONEY_KEPT);
    fake_outcome(&scene.fake, 0, CONEY_ERETURNED);
    assert_int_equal(fake_await_settled(&scene.fake, &m), CONEY_REJECT);
    end(&scene);
}

/* Transactions ---------------------------------------------------------------------------------------------------- */

static coney_settle settle_together(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id};
    struct scene *scene = scene_of(d);
    assert_int_equal(receipt_publish(coney_out_by(d, scene->transactional), "a", &r), CONEY_OK);
    assert_int_equal(receipt_publish(coney_out_by(d, scene->transactional), "b", &r), CONEY_OK);
    return scene->answer;
}
CONEY_HANDLER(settle_together, order);

static void handle_together(struct scene *scene, coney_settle answer, const char *fail_at, coney_settle expected)
{
    scene->answer = answer;
    scene->fake.fail_at = fail_at;
    journal_clear(&scene->journal);
    struct fake_message m = {.body = CONEY_STR("{\"id\":7,\"customer\":\"ada\"}")};
    fake_deliver(&scene->fake, "orders", &m);
    assert_int_equal(fake_await_settled(&scene->fake, &m), expected);
    scene->fake.fail_at = NULL;
}

static void an_ack_commits_and_anything_else_aborts(void **state)
{
    (void)state;
    struct scene scene = {0};
    begin(&scene, &(coney_subscription){.source = CONEY_QUEUE("orders"),
                                        .handler = settle_together_handler,
                                        .on_publish_failure = CONEY_POLICY_RETRY});
    handle_together(&scene, CONEY_ACK, NULL, CONEY_ACK);
    assert_string_equal(scene.journal.text, "tx_begin(tx) tx_publish(a) tx_publish(b) tx_commit(tx)");
    handle_together(&scene, CONEY_REJECT, NULL, CONEY_REJECT);
    assert_string_equal(scene.journal.text, "tx_begin(tx) tx_publish(a) tx_publish(b) tx_abort(tx)");
    handle_together(&scene, CONEY_ACK, "tx_commit", CONEY_REQUEUE);
    assert_string_equal(scene.journal.text, "tx_begin(tx) tx_publish(a) tx_publish(b) tx_commit(tx)");
    assert_int_equal(scene.fake.tx_open, 0);
    end(&scene);
}

static coney_kept *taken;

static coney_settle take_along(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id};
    assert_int_equal(receipt_publish(coney_out_by(d, scene_of(d)->transactional), "a", &r), CONEY_OK);
    taken = coney_delivery_keep(d);
    return CONEY_KEPT;
}
CONEY_HANDLER(take_along, order);

/* The leak checker sees to it that nothing of the transaction is left. */
static void a_stop_aborts_the_transaction_of_a_delivery_that_is_kept_on(void **state)
{
    (void)state;
    struct scene scene = {.drain_timeout = CONEY_MILLISECOND};
    begin(&scene, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = take_along_handler});
    struct fake_message m = {.body = CONEY_STR("{\"id\":7,\"customer\":\"ada\"}")};
    assert_int_equal(fake_deliver(&scene.fake, "orders", &m), CONEY_KEPT);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_ETIMEDOUT);
    assert_non_null(strstr(scene.journal.text, "tx_abort(tx)"));
    assert_int_equal(scene.fake.tx_open, 0);
    coney_app_free(&scene.app);
    assert_int_equal(coney_kept_settle(&taken, CONEY_ACK), CONEY_ECLOSED);
}

/* Batches --------------------------------------------------------------------------------------------------------- */

static coney_settle sum_up(coney_batch *batch, const order *orders, size_t count)
{
    receipt r = {.order_id = orders[0].id + count};
    assert_int_equal(receipt_publish(coney_out_of_batch(batch), "sums", &r), CONEY_OK);
    return CONEY_ACK;
}
CONEY_BATCH_HANDLER(sum_up, order);

static void every_element_waits_for_what_its_batch_published(void **state)
{
    (void)state;
    struct scene scene = {.fake.hold_outcomes = true};
    begin(&scene, &(coney_subscription){.source = CONEY_QUEUE("orders"),
                                        .handler = sum_up_handler,
                                        .batch = 3,
                                        .batch_wait = CONEY_OFF,
                                        .on_publish_failure = CONEY_POLICY_REJECT});
    struct fake_message m[6];
    for (size_t i = 0; i < 6; i++)
        m[i] = (struct fake_message){.body = CONEY_STR("{\"id\":40,\"customer\":\"ada\"}")};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(fake_deliver(&scene.fake, "orders", &m[i]), CONEY_KEPT);
    fake_await_published(&scene.fake, 2);
    assert_string_equal(scene.fake.published[0].body, "{\"order_id\":43}");
    fake_outcome(&scene.fake, 1, CONEY_EREFUSED);
    for (size_t i = 3; i < 6; i++)
        assert_int_equal(fake_await_settled(&scene.fake, &m[i]), CONEY_REJECT);
    assert_int_equal(m[0].settles + m[1].settles + m[2].settles, 0);
    fake_outcome(&scene.fake, 0, CONEY_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fake_await_settled(&scene.fake, &m[i]), CONEY_ACK);
    end(&scene);
}

/* Replies --------------------------------------------------------------------------------------------------------- */

static coney_settle answer(coney_delivery *d, const order *o)
{
    receipt r = {.order_id = o->id};
    return receipt_reply(d, &r) == CONEY_OK ? CONEY_ACK : coney_undecodable(d, NULL);
}
CONEY_HANDLER(answer, order);

static void a_request_is_acked_when_its_reply_is_out(void **state)
{
    (void)state;
    struct scene scene = {0};
    begin(&scene, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = answer_handler});
    struct fake_message m = {
        .body = CONEY_STR("{\"id\":7,\"customer\":\"ada\"}"), .reply_to = "asker", .correlation_id = "c-1"};
    fake_deliver(&scene.fake, "orders", &m);
    assert_int_equal(fake_await_settled(&scene.fake, &m), CONEY_ACK);
    assert_string_equal(scene.fake.published[0].to, "asker");
    assert_string_equal(scene.fake.published[0].correlation_id, "c-1");
    struct fake_message no_request = {.body = CONEY_STR("{\"id\":7,\"customer\":\"ada\"}")};
    fake_deliver(&scene.fake, "orders", &no_request);
    assert_int_equal(fake_await_settled(&scene.fake, &no_request), CONEY_REJECT);
    end(&scene);
}

/* The app's end ------------------------------------------------------------------------------------------------------ */

/* A publish that is on its way until the test lets it go. */
struct gate {
    struct lock lock;
    struct cond changed;
    bool is_inside;
    bool is_open;
    coney_app *app;
    coney_status status;
};

static void gate_set(struct gate *gate, bool *what)
{
    lock_acquire(&gate->lock);
    *what = true;
    cond_wake_all(&gate->changed);
    lock_release(&gate->lock);
}

static bool gate_await(struct gate *gate, const bool *what, int64_t patience)
{
    int64_t deadline = time_after(time_now(), patience);
    lock_acquire(&gate->lock);
    while (!*what && cond_wait(&gate->changed, &gate->lock, deadline))
        ;
    bool is_set = *what;
    lock_release(&gate->lock);
    return is_set;
}

static coney_status stand_in_the_way(void *ctx, const coney_publish *message, coney_publish_next *next)
{
    struct gate *gate = ctx;
    (void)message;
    (void)next;
    gate_set(gate, &gate->is_inside);
    gate_await(gate, &gate->is_open, FAKE_PATIENCE);
    return CONEY_EAGAIN;
}

static void *publish_into_the_gate(void *arg)
{
    struct gate *gate = arg;
    coney_publish_options options = {.to = "x"};
    gate->status = coney_publish_raw(coney_out_of_broker(gate->app->brokers), CONEY_STR("x"), CONEY_STR(""), &options);
    return NULL;
}

static void *free_it(void *app)
{
    coney_app_free(app);
    return NULL;
}

static void a_publish_that_outlives_the_stop_holds_up_the_next_start_and_the_free(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct fake fake = {.journal = &journal};
    struct gate gate = {.app = coney_app_new("orders", "1")};
    coney_app *app = gate.app;
    coney_app_use_publish(app, stand_in_the_way, &gate);
    fake_broker(app, &fake);
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    struct outlet *outlet = app->brokers->publishers->outlet;
    pthread_t publishes, frees;
    assert_int_equal(pthread_create(&publishes, NULL, publish_into_the_gate, &gate), 0);
    assert_true(gate_await(&gate, &gate.is_inside, FAKE_PATIENCE));
    coney_call call = {.deadline = CONEY_MILLISECOND};
    assert_int_equal(coney_app_stop(app, &call), CONEY_ETIMEDOUT);
    assert_non_null(strstr(call.text, "a publish or a request has not ended in time"));
    assert_int_equal(coney_app_start(app, &call), CONEY_EINVAL);
    assert_string_equal(call.text, "a handler or a publish from before the last stop has not ended");
    journal_clear(&journal);
    assert_int_equal(pthread_create(&frees, NULL, free_it, &app), 0);
    gate_await(&gate, &gate.is_open, 20 * CONEY_MILLISECOND); /* time to free what is in use, if it did */
    assert_string_equal(journal.text, "");
    gate_set(&gate, &gate.is_open);
    pthread_join(publishes, NULL);
    pthread_join(frees, NULL);
    assert_int_equal(gate.status, CONEY_EAGAIN);
    assert_string_equal(journal.text, "free(fake)");
    fake_transport.close_outlet(outlet, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ack_waits_for_the_confirm_of_what_was_published),
        cmocka_unit_test(a_return_applies_on_publish_failure),
        cmocka_unit_test(an_ack_commits_and_anything_else_aborts),
        cmocka_unit_test(a_stop_aborts_the_transaction_of_a_delivery_that_is_kept_on),
        cmocka_unit_test(every_element_waits_for_what_its_batch_published),
        cmocka_unit_test(a_request_is_acked_when_its_reply_is_out),
        cmocka_unit_test(a_publish_that_outlives_the_stop_holds_up_the_next_start_and_the_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
