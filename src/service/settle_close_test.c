/* settle_close_test.c: deliveries that outlive their subscription: what they wait for, and who keeps them, comes after the stop. */
#include "service/dispatch_fixture.h"

static struct stage t;

static int setup(void **state)
{
    (void)state;
    stage_make(&t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_stop(&t);
    return 0;
}

static void an_outcome_that_comes_after_the_stop_finds_the_delivery_and_harms_nothing(void **state)
{
    (void)state;
    stage_begin(&t, &(coney_subscription){.handler = raw_handler}, &(coney_app_options){.drain_timeout = CONEY_MILLISECOND},
                true);
    t.fake.hold_outcomes = true;
    t.script = stage_publish;
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    stage_deliver(&t, &m[0]);
    stage_deliver(&t, &m[1]);
    coney_call call = {0};
    assert_int_equal(coney_app_stop(t.app, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 2);
    fake_outcome(&t.fake, 1, CONEY_OK);
    fake_outcome(&t.fake, 0, CONEY_EUNKNOWN);
    assert_int_equal(m[0].settles + m[1].settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void what_is_kept_beyond_the_stop_is_readable_and_settles_as_closed(void **state)
{
    (void)state;
    stage_begin(&t, &(coney_subscription){.handler = raw_handler}, &(coney_app_options){.drain_timeout = CONEY_MILLISECOND},
                true);
    t.script = stage_keep;
    t.how = CONEY_KEPT;
    struct fake_message m = {.body = CONEY_STR("abc")};
    stage_deliver(&t, &m);
    coney_kept *kept = t.kept;
    coney_call call = {0};
    assert_int_equal(coney_app_stop(t.app, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 1);
    coney_app_free(&t.app);
    assert_memory_equal(coney_delivery_body(coney_kept_service_delivery(kept)).data, "abc", 3);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_ECLOSED);
    assert_int_equal(m.settles, 0);
}

static void the_policies_of_an_app_that_is_gone_are_not_asked(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_failure = CONEY_POLICY_STOP});
    t.how = CONEY_KEPT;
    t.script = stage_keep;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    coney_app_free(&t.app);
    journal_clear(&t.log);
    coney_settle how = coney_failed(t.delivery, "too late");
    assert_int_equal(coney_kept_settle(&t.kept, how), CONEY_ECLOSED);
    assert_string_equal(t.log.text, "");
}

/* As when the close of a subscription and the last settlement of a delivery cross. */
static void a_delivery_that_is_settled_as_its_subscription_closes_is_open_no_more(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.how = CONEY_KEPT;
    t.script = stage_keep;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    assert_int_equal(atomic_load(&t.app->open), 1);
    t.s->dispatch->is_orphan = true;
    assert_int_equal(coney_kept_settle(&t.kept, CONEY_ACK), CONEY_ECLOSED);
    t.s->dispatch->is_orphan = false;
    assert_int_equal(atomic_load(&t.app->open), 0);
}

struct barrier {
    struct lock lock;
    struct cond changed;
    bool is_reached;
    bool may_go_on;
};

static struct barrier barrier;

static void barrier_reach(void *ctx, coney_settle how)
{
    (void)ctx;
    (void)how;
    lock_acquire(&barrier.lock);
    barrier.is_reached = true;
    cond_wake_all(&barrier.changed);
    while (!barrier.may_go_on)
        cond_wait(&barrier.changed, &barrier.lock, INT64_MAX);
    lock_release(&barrier.lock);
}

static void continue_at_barrier(struct stage *stage, coney_delivery *d)
{
    (void)stage;
    assert_int_equal(coney_after(d, barrier_reach, NULL), CONEY_OK);
}

static void keep_with_transaction(struct stage *stage, coney_delivery *d)
{
    coney_publish_options to = {.to = "out"};
    assert_int_equal(coney_publish_raw(coney_out_by(d, stage->by), CONEY_STR("x"), CONEY_STR(""), &to), CONEY_OK);
    stage_keep(stage, d);
}

static void a_transaction_that_waits_for_its_commit_is_aborted_by_a_stop(void **state)
{
    (void)state;
    barrier = (struct barrier){0};
    t.transactional = true;
    stage_begin(&t, &(coney_subscription){.handler = raw_handler}, &(coney_app_options){.drain_timeout = CONEY_MILLISECOND},
                false);
    t.script = continue_at_barrier;
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    stage_deliver(&t, &m[0]);
    lock_acquire(&barrier.lock);
    while (!barrier.is_reached)
        cond_wait(&barrier.changed, &barrier.lock, INT64_MAX);
    lock_release(&barrier.lock);
    t.how = CONEY_KEPT;
    t.script = keep_with_transaction;
    stage_deliver(&t, &m[1]);
    assert_int_equal(coney_kept_settle(&t.kept, CONEY_ACK), CONEY_OK);
    coney_call call = {0};
    coney_status stopped = coney_app_stop(t.app, &call);
    lock_acquire(&barrier.lock);
    barrier.may_go_on = true;
    cond_wake_all(&barrier.changed);
    lock_release(&barrier.lock);
    assert_int_equal(stopped, CONEY_ETIMEDOUT);
    assert_non_null(strstr(t.journal.text, "unsubscribe(in) tx_abort(by)"));
    assert_int_equal(m[1].settles, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_outcome_that_comes_after_the_stop_finds_the_delivery_and_harms_nothing),
        TEST(what_is_kept_beyond_the_stop_is_readable_and_settles_as_closed),
        TEST(the_policies_of_an_app_that_is_gone_are_not_asked),
        TEST(a_delivery_that_is_settled_as_its_subscription_closes_is_open_no_more),
        TEST(a_transaction_that_waits_for_its_commit_is_aborted_by_a_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
