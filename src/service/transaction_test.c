/* transaction_test.c: transactions of deliveries and by hand. */
#include "service/publish_fixture.h"

static const order ada = {.id = 42, .customer = CONEY_STR_INIT("ada")};

static coney_publisher *transactional(struct rig *rig, const char *name)
{
    return coney_publisher_new(rig->broker, &(coney_publisher_options){.name = name, .policy = CONEY_PUBLISH_TRANSACTION});
}

/* Of deliveries --------------------------------------------------------------------------------------------------- */

static void what_a_delivery_publishes_is_one_transaction_for_each_publisher(void **state)
{
    struct rig *rig = *state;
    coney_publisher *a = transactional(rig, "a");
    coney_publisher *b = transactional(rig, "b");
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, a), "x", &ada), CONEY_OK);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, a), "y", &ada), CONEY_OK);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, b), "z", &ada), CONEY_OK);
    assert_string_equal(rig->journal.text, "tx_begin(a) tx_publish(x) tx_publish(y) tx_begin(b) tx_publish(z)");
    assert_int_equal(rig->delivery.waits, 1);
    journal_clear(&rig->journal);
    assert_int_equal(delivery_end_transactions(&rig->delivery, true), CONEY_OK);
    assert_string_equal(rig->journal.text, "tx_commit(b) tx_commit(a)");
    assert_null(rig->delivery.scope);
    assert_int_equal(a->stats.published, 2);
    assert_int_equal(a->stats.confirmed, 2);
}

static void anything_but_an_ack_aborts_it(void **state)
{
    struct rig *rig = *state;
    coney_publisher *a = transactional(rig, "a");
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, a), "x", &ada), CONEY_OK);
    assert_int_equal(delivery_end_transactions(&rig->delivery, false), CONEY_OK);
    assert_string_equal(rig->journal.text, "tx_begin(a) tx_publish(x) tx_abort(a)");
    assert_int_equal(delivery_end_transactions(&rig->delivery, true), CONEY_OK);
    assert_int_equal(rig->fake.tx_open, 0);
}

static void a_commit_that_fails_aborts_the_others_and_is_told(void **state)
{
    struct rig *rig = *state;
    coney_publisher *a = transactional(rig, "a");
    coney_publisher *b = transactional(rig, "b");
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, a), "x", &ada), CONEY_OK);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, b), "y", &ada), CONEY_OK);
    journal_clear(&rig->journal);
    rig->fake.fail_at = "tx_commit";
    rig->fake.fail_status = CONEY_EUNKNOWN;
    assert_int_equal(delivery_end_transactions(&rig->delivery, true), CONEY_EUNKNOWN);
    assert_string_equal(rig->journal.text, "tx_commit(b) tx_abort(a)");
    rig_logged(rig, "publisher 'b': the transaction of a message of the subscription 'requests' was not committed: "
                    "the fake was told to fail at tx_commit");
    assert_int_equal(b->stats.failed, 1);
}

static void a_transaction_that_does_not_begin_refuses_the_publish(void **state)
{
    struct rig *rig = *state;
    coney_publisher *a = transactional(rig, "a");
    rig_open(rig);
    rig->fake.fail_at = "tx_begin";
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, a), "x", &ada), CONEY_ELOST);
    assert_string_equal(rig->delivery.fault.text,
                        "publisher 'a': a transaction could not be begun: the fake was told to fail at tx_begin");
    assert_null(rig->delivery.scope);
}

static void a_transactional_publisher_needs_a_delivery(void **state)
{
    struct rig *rig = *state;
    coney_publisher *a = transactional(rig, "a");
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by_publisher(a), "x", &ada), CONEY_EINVAL);
    rig_logged(rig, "publisher 'a': it is transactional: publish through a delivery");
}

static void a_delivery_of_before_a_stop_adds_nothing_to_its_transaction(void **state)
{
    struct rig *rig = *state;
    coney_publisher *a = transactional(rig, "a");
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, a), "x", &ada), CONEY_OK);
    rig_close(rig);
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, a), "x", &ada), CONEY_ECLOSED);
    assert_string_equal(rig->delivery.fault.text,
                        "publisher 'a': the transaction of the delivery ended when the app was stopped");
    assert_int_equal(delivery_end_transactions(&rig->delivery, true), CONEY_ECLOSED);
    assert_int_equal(rig->fake.tx_open, 0);
}

/* By hand --------------------------------------------------------------------------------------------------------- */

static void transactions_by_hand_stand_for_themselves(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_transaction *one = coney_transaction_begin(rig->broker->publishers, NULL);
    coney_transaction *two = coney_transaction_begin(rig->broker->publishers, NULL);
    assert_int_equal(order_transact(one, "x", &ada), CONEY_OK);
    assert_int_equal(order_transact(two, "y", &ada), CONEY_OK);
    assert_int_equal(order_transact(two, NULL, &ada), CONEY_EINVAL);
    rig_logged(rig, "the message has no destination");
    journal_clear(&rig->journal);
    assert_int_equal(coney_transaction_commit(&one, NULL), CONEY_OK);
    assert_int_equal(coney_transaction_abort(&two, NULL), CONEY_OK);
    assert_null(one);
    assert_null(two);
    assert_string_equal(rig->journal.text, "tx_commit(fake) tx_abort(fake)");
    assert_int_equal(coney_transaction_commit(&one, NULL), CONEY_OK);
    assert_int_equal(order_transact(NULL, "x", &ada), CONEY_EINVAL);
}

static void a_failed_commit_leaves_nothing_open(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_transaction *t = coney_transaction_begin(rig->broker->publishers, NULL);
    assert_int_equal(order_transact(t, "x", &ada), CONEY_OK);
    rig->fake.fail_at = "tx_commit";
    coney_call call = {0};
    assert_int_equal(coney_transaction_commit(&t, &call), CONEY_ELOST);
    assert_string_equal(call.text, "the fake was told to fail at tx_commit");
    assert_null(t);
    assert_int_equal(rig->fake.tx_open, 0);
}

static void never(void *ctx, const coney_call *call)
{
    (void)ctx, (void)call;
    fail_msg("on_done was called");
}

static void a_transaction_is_not_asynchronous(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_call call = {.on_done = never};
    assert_null(coney_transaction_begin(rig->broker->publishers, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    coney_transaction *t = coney_transaction_begin(rig->broker->publishers, NULL);
    assert_int_equal(coney_transaction_commit(&t, &call), CONEY_EINVAL);
    assert_non_null(t);
    assert_int_equal(coney_transaction_abort(&t, NULL), CONEY_OK);
}

static void a_stop_aborts_what_is_open(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_transaction *committed = coney_transaction_begin(rig->broker->publishers, NULL);
    coney_transaction *aborted = coney_transaction_begin(rig->broker->publishers, NULL);
    assert_int_equal(order_transact(committed, "x", &ada), CONEY_OK);
    journal_clear(&rig->journal);
    rig_close(rig);
    assert_string_equal(rig->journal.text, "tx_abort(fake) tx_abort(fake) close_outlet(fake)");
    rig_logged(rig, "publisher 'fake': a transaction was open when the app was stopped");
    assert_int_equal(order_transact(committed, "x", &ada), CONEY_ECLOSED);
    rig_open(rig);
    assert_int_equal(order_transact(committed, "x", &ada), CONEY_ECLOSED);
    coney_call call = {0};
    assert_int_equal(coney_transaction_commit(&committed, &call), CONEY_ECLOSED);
    assert_string_equal(call.text, "the transaction ended when the app was stopped");
    assert_int_equal(coney_transaction_abort(&aborted, NULL), CONEY_OK);
}

/* As a call that is inside of the publisher, and as it leaves. */
static void occupy(coney_publisher *p, uint32_t users)
{
    lock_acquire(&p->lock);
    p->users = users;
    cond_wake_all(&p->left);
    lock_release(&p->lock);
}

static void what_a_close_could_not_wait_for_is_not_touched_by_the_next_start(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_publisher *p = rig->broker->publishers;
    struct outlet *outlet = p->outlet;
    coney_transaction *committed = coney_transaction_begin(p, NULL);
    coney_transaction *aborted = coney_transaction_begin(p, NULL);
    occupy(p, 1);
    coney_call call = {.deadline = CONEY_MILLISECOND};
    assert_int_equal(publisher_close(p, &call), CONEY_ETIMEDOUT);
    occupy(p, 0);
    fake_transport.close_outlet(outlet, NULL); /* as the disconnect would */
    rig_open(rig);
    assert_int_equal(order_transact(committed, "x", &ada), CONEY_ECLOSED);
    assert_int_equal(coney_transaction_commit(&committed, NULL), CONEY_ECLOSED);
    assert_int_equal(coney_transaction_abort(&aborted, NULL), CONEY_OK);
    rig_close(rig);
    assert_string_equal(rig->journal.text, "close_outlet(fake)");
}

static void *close_it(void *publisher)
{
    return (void *)(intptr_t)publisher_close(publisher, NULL);
}

static void await_shut(coney_publisher *p)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    for (bool is_shut = false; !is_shut; sched_yield()) {
        lock_acquire(&p->lock);
        is_shut = p->outlet == NULL;
        lock_release(&p->lock);
        assert_true(time_now() < deadline);
    }
}

static void a_transaction_that_ends_while_its_publisher_is_being_closed_is_aborted(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_publisher *p = rig->broker->publishers;
    coney_transaction *t = coney_transaction_begin(p, NULL);
    occupy(p, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_it, p), 0);
    await_shut(p);
    assert_int_equal(coney_transaction_commit(&t, NULL), CONEY_ECLOSED);
    assert_null(t);
    occupy(p, 0);
    void *status = NULL;
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, CONEY_OK);
    assert_string_equal(rig->journal.text, "tx_begin(fake) tx_abort(fake) close_outlet(fake)");
}

static void a_transport_without_transactions_says_so(void **state)
{
    struct rig *rig = *state;
    struct transport bare = fake_transport;
    bare.tx_begin = NULL;
    rig->broker->transport = &bare;
    coney_publisher *a = transactional(rig, "a");
    struct mistakes mistakes = {0};
    publisher_check(a, &mistakes);
    assert_non_null(strstr(mistakes.text, "publisher 'a': policy: CONEY_PUBLISH_TRANSACTION: fake has no transactions"));
    mistakes_free(&mistakes);
    a->options.policy = CONEY_PUBLISH_CONFIRMED;
    rig_open(rig);
    coney_call call = {0};
    assert_null(coney_transaction_begin(a, &call));
    assert_int_equal(call.status, CONEY_EUNSUPPORTED);
    assert_string_equal(call.text, "publisher 'a': fake has no transactions");
    assert_null(coney_transaction_begin(NULL, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    rig_close(rig);
    rig->broker->transport = &fake_transport;
}

/* The testkit's look ---------------------------------------------------------------------------------------------- */

static void see(void *ctx, coney_broker *broker, const char *exchange, const struct outgoing *message)
{
    struct rig *rig = ctx;
    (void)broker;
    (void)exchange;
    journal_add(&rig->journal, "saw(%.*s,%.*s,%.*s)", (int)message->to.len, (const char *)message->to.data,
                (int)message->body.len, (const char *)message->body.data,
                message->header_count > 0 ? (int)message->headers[0].value.as.bytes.len : 0,
                message->header_count > 0 ? (const char *)message->headers[0].value.as.bytes.data : "");
}

static coney_status fail_all(void *ctx, coney_broker *broker)
{
    (void)ctx, (void)broker;
    return CONEY_EREFUSED;
}

static void a_probe_sees_what_was_committed(void **state)
{
    struct rig *rig = *state;
    struct publish_probe probe = {.published = see, .ctx = rig};
    rig->app->publish_probe = &probe;
    rig_open(rig);
    coney_field header = {CONEY_STR("h"), coney_value_string(CONEY_STR("v"))};
    coney_publish_options options = {.to = "x", .headers = &header, .header_count = 1};
    coney_transaction *t = coney_transaction_begin(rig->broker->publishers, NULL);
    assert_int_equal(coney_transaction_publish_sized(t, order_type(), &ada, &options, sizeof options), CONEY_OK);
    assert_int_equal(order_transact(t, "y", &ada), CONEY_OK);
    journal_clear(&rig->journal);
    assert_int_equal(coney_transaction_commit(&t, NULL), CONEY_OK);
    assert_string_equal(rig->journal.text, "tx_commit(fake) saw(x,{\"id\":42,\"customer\":\"ada\"},v) "
                                           "saw(y,{\"id\":42,\"customer\":\"ada\"},)");
    journal_clear(&rig->journal);
    t = coney_transaction_begin(rig->broker->publishers, NULL);
    assert_int_equal(order_transact(t, "x", &ada), CONEY_OK);
    probe.fail = fail_all;
    assert_int_equal(coney_transaction_commit(&t, NULL), CONEY_EREFUSED);
    assert_string_equal(rig->journal.text, "tx_begin(fake) tx_publish(x) tx_abort(fake)");
}

int main(void)
{
#define RIGGED(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        RIGGED(what_a_delivery_publishes_is_one_transaction_for_each_publisher),
        RIGGED(anything_but_an_ack_aborts_it),
        RIGGED(a_commit_that_fails_aborts_the_others_and_is_told),
        RIGGED(a_transaction_that_does_not_begin_refuses_the_publish),
        RIGGED(a_transactional_publisher_needs_a_delivery),
        RIGGED(a_delivery_of_before_a_stop_adds_nothing_to_its_transaction),
        RIGGED(transactions_by_hand_stand_for_themselves),
        RIGGED(a_failed_commit_leaves_nothing_open),
        RIGGED(a_transaction_is_not_asynchronous),
        RIGGED(a_stop_aborts_what_is_open),
        RIGGED(what_a_close_could_not_wait_for_is_not_touched_by_the_next_start),
        RIGGED(a_transaction_that_ends_while_its_publisher_is_being_closed_is_aborted),
        RIGGED(a_transport_without_transactions_says_so),
        RIGGED(a_probe_sees_what_was_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
