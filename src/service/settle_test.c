/* settle_test.c: deliveries that outlive their handlers: what they publish, users who keep them, continuations. */
#include "service/dispatch_fixture.h"

#include "base/thread.h"

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

/* What was published --------------------------------------------------------------------------------------------------------- */

static void an_outcome_that_is_there_when_the_handler_returns_costs_nothing(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = stage_publish;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_string_equal(t.journal.text, "publish(out)");
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void the_ack_waits_for_the_last_outcome(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.fake.hold_outcomes = true;
    t.script = stage_publish;
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    assert_int_equal(stage_deliver(&t, &m[0]), CONEY_KEPT);
    assert_int_equal(stage_deliver(&t, &m[1]), CONEY_KEPT);
    assert_int_equal(atomic_load(&t.app->open), 2);
    fake_outcome(&t.fake, 1, CONEY_OK);
    assert_int_equal(m[0].settles, 0);
    assert_int_equal(fake_await_settled(&t.fake, &m[1]), CONEY_ACK);
    fake_outcome(&t.fake, 0, CONEY_OK);
    assert_int_equal(fake_await_settled(&t.fake, &m[0]), CONEY_ACK);
    assert_int_equal(atomic_load(&t.app->open), 0);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.acked), 2);
}

static void publish_three(struct stage *stage, coney_delivery *d)
{
    for (int i = 0; i < 3; i++)
        stage_publish(stage, d);
}

static void several_outcomes_in_any_order_settle_once_and_a_failure_counts(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_publish_failure = coney_policy_retry(5)});
    t.fake.hold_outcomes = true;
    t.script = publish_three;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    fake_outcome(&t.fake, 2, CONEY_OK);
    fake_outcome(&t.fake, 0, CONEY_EREFUSED);
    assert_int_equal(m.settles, 0);
    fake_outcome(&t.fake, 1, CONEY_OK);
    assert_int_equal(fake_await_settled(&t.fake, &m), 5);
    assert_logged(&t, "has published what was lost (CONEY_EREFUSED)");
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.publish_failures), 1);
    assert_int_equal(counter_get(&stats.retried), 1);
}

static void every_policy_of_a_lost_publish_is_followed(void **state)
{
    (void)state;
    const struct {
        coney_policy policy;
        coney_settle how;
    } rows[] = {{CONEY_POLICY_RETRY, CONEY_REQUEUE},
                {CONEY_POLICY_REJECT, CONEY_REJECT},
                {CONEY_POLICY_SKIP, CONEY_ACK},
                {CONEY_POLICY_DEFAULT, CONEY_SECOND}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stage_make(&t);
        stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_publish_failure = rows[i].policy});
        t.fake.outcome_with = CONEY_EUNKNOWN;
        t.script = stage_publish;
        struct fake_message m = {.body = CONEY_STR("a")};
        assert_int_equal(stage_deliver(&t, &m), rows[i].how);
        stage_stop(&t);
    }
}

static void a_settlement_that_is_no_ack_waits_too_and_a_lost_publish_is_only_logged(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_publish_failure = CONEY_POLICY_SKIP});
    t.fake.hold_outcomes = true;
    t.script = stage_publish;
    t.how = CONEY_REJECT;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    assert_int_equal(m.settles, 0);
    fake_outcome(&t.fake, 0, CONEY_ERETURNED);
    assert_int_equal(fake_await_settled(&t.fake, &m), CONEY_REJECT);
    assert_logged(&t, "lost (CONEY_ERETURNED), and is not acked anyway");
}

static void *confirm_later(void *arg)
{
    struct stage *stage = arg;
    fake_await_published(&stage->fake, 1);
    fake_outcome(&stage->fake, 0, CONEY_OK);
    return NULL;
}

static void without_memory_the_lane_waits_for_the_outcome(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.fake.hold_outcomes = true;
    t.fake.fail_keep = true;
    t.script = stage_publish;
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "confirms", confirm_later, &t), CONEY_OK);
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    pthread_join(thread, NULL);
}

/* Transactions ------------------------------------------------------------------------------------------------------------------ */

static void publish_by_transaction(struct stage *stage, coney_delivery *d)
{
    coney_publish_options to = {.to = "out"};
    assert_int_equal(coney_publish_raw(coney_out_by(d, stage->by), CONEY_STR("x"), CONEY_STR(""), &to), CONEY_OK);
}

static void a_transaction_is_committed_before_the_ack_and_aborted_before_all_else(void **state)
{
    (void)state;
    t.transactional = true;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_publish_failure = CONEY_POLICY_REJECT});
    t.script = publish_by_transaction;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_string_equal(t.journal.text, "tx_begin(by) tx_publish(out) tx_commit(by)");
    journal_clear(&t.journal);
    t.how = CONEY_REQUEUE;
    assert_int_equal(stage_deliver(&t, &m), CONEY_REQUEUE);
    assert_string_equal(t.journal.text, "tx_begin(by) tx_publish(out) tx_abort(by)");
    t.how = CONEY_ACK;
    t.fake.fail_at = "tx_commit";
    assert_int_equal(stage_deliver(&t, &m), CONEY_REJECT);
    assert_logged(&t, "has published what was lost (CONEY_ELOST)");
}

static void keep_and_publish_by_transaction(struct stage *stage, coney_delivery *d)
{
    stage_keep(stage, d);
    publish_by_transaction(stage, d);
}

static void the_transaction_of_a_kept_delivery_is_committed_on_the_worker(void **state)
{
    (void)state;
    t.transactional = true;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = keep_and_publish_by_transaction;
    t.how = CONEY_KEPT;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    assert_int_equal(coney_kept_settle(&t.kept, CONEY_ACK), CONEY_OK);
    assert_string_equal(t.journal.text, "tx_begin(by) tx_publish(out)");
    assert_int_equal(m.settles, 0);
    stage_work(&t);
    assert_string_equal(t.journal.text, "tx_begin(by) tx_publish(out) tx_commit(by)");
    assert_int_equal(fake_await_settled(&t.fake, &m), CONEY_ACK);
}

/* Ends ---------------------------------------------------------------------------------------------------------------------------- */

static void a_lost_publish_may_stop_the_app_from_the_loop(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_publish_failure = CONEY_POLICY_STOP});
    t.fake.hold_outcomes = true;
    t.script = stage_publish;
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    stage_deliver(&t, &m[0]);
    fake_outcome(&t.fake, 0, CONEY_EREFUSED);
    assert_int_equal(atomic_load(&t.app->open), 0);
    assert_int_equal(stage_deliver(&t, &m[1]), CONEY_KEPT);
    assert_string_equal(t.seen.text, "a");
    assert_int_equal(coney_app_wait(t.app, NULL), CONEY_EREFUSED);
    coney_app_stop(t.app, NULL);
    assert_int_equal(m[0].settles + m[1].settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void an_app_that_was_stopped_runs_again_and_counts_on(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_int_equal(coney_app_start(t.app, NULL), CONEY_OK);
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.acked), 2);
}

/* Kept ------------------------------------------------------------------------------------------------------------------------- */

static void a_kept_delivery_is_settled_by_whoever_has_it(void **state)
{
    (void)state;
    const coney_settle rows[] = {CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE, coney_retry_after(7)};
    stage_start(&t, &(coney_subscription){.handler = typed_handler});
    t.script = stage_keep;
    t.how = CONEY_KEPT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fake_message m = {.body = CONEY_STR("12")};
        assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
        coney_delivery *d = coney_kept_service_delivery(t.kept);
        assert_ptr_equal(d, t.delivery);
        assert_memory_equal(coney_delivery_body(d).data, "12", 2);
        assert_int_equal(((const number *)d->value)->id, 12);
        assert_int_equal(coney_kept_settle(&t.kept, CONEY_KEPT), CONEY_EINVAL);
        assert_int_equal(coney_kept_settle(&t.kept, rows[i]), CONEY_OK);
        assert_null(t.kept);
        assert_int_equal(fake_await_settled(&t.fake, &m), rows[i]);
    }
    assert_int_equal(atomic_load(&t.app->open), 0);
}

static void keep_twice(struct stage *stage, coney_delivery *d)
{
    stage_keep(stage, d);
    assert_null(coney_delivery_keep(d));
}

static void a_delivery_is_kept_once_and_what_its_handler_returns_is_passed_over(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = keep_twice;
    struct fake_message m = {.body = CONEY_STR("a")};
    t.how = CONEY_REJECT;
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    assert_logged(&t, "kept its delivery and returned -1, which is passed over");
    assert_int_equal(m.settles, 0);
    assert_int_equal(coney_kept_settle(&t.kept, CONEY_ACK), CONEY_OK);
    assert_int_equal(m.settles, 1);
}

static void settle_inside(struct stage *stage, coney_delivery *d)
{
    stage_keep(stage, d);
    assert_int_equal(coney_kept_settle(&stage->kept, CONEY_REJECT), CONEY_OK);
}

static void what_is_kept_may_be_settled_before_its_handler_returns(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = settle_inside;
    t.how = CONEY_KEPT;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    assert_int_equal(fake_await_settled(&t.fake, &m), CONEY_REJECT);
}

static void a_keep_that_fails_leaves_the_delivery_to_its_handler(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.fake.fail_keep = true;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    t.script = NULL;
    assert_null(coney_delivery_keep(t.delivery)); /* and not after the handler */
}

static void a_policy_of_a_kept_delivery_is_asked_with_coney_failed(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_failure = CONEY_POLICY_REJECT});
    t.script = stage_keep;
    t.how = CONEY_KEPT;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    assert_int_equal(coney_kept_settle(&t.kept, CONEY_FAILED), CONEY_EINVAL);
    assert_int_equal(coney_kept_settle(&t.kept, coney_failed(t.delivery, "no luck")), CONEY_OK);
    assert_int_equal(fake_await_settled(&t.fake, &m), CONEY_REJECT);
    assert_logged(&t, "has failed: no luck: it is rejected");
}

static void what_is_published_through_a_kept_delivery_holds_its_ack(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.fake.hold_outcomes = true;
    t.script = stage_keep;
    t.how = CONEY_KEPT;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    stage_publish(&t, t.delivery);
    assert_int_equal(coney_kept_settle(&t.kept, CONEY_ACK), CONEY_OK);
    assert_int_equal(m.settles, 0);
    coney_publish_options to = {.to = "out"};
    assert_int_not_equal(coney_publish_raw(coney_out_of(t.delivery), CONEY_STR("late"), CONEY_STR(""), &to), CONEY_OK);
    fake_outcome(&t.fake, 0, CONEY_OK);
    assert_int_equal(fake_await_settled(&t.fake, &m), CONEY_ACK);
}

/* Continuations --------------------------------------------------------------------------------------------------------------------- */

static void continue_twice(struct stage *stage, coney_delivery *d)
{
    stage_continue(stage, d);
    stage_continue(stage, d);
}

static void continuations_run_once_after_the_settlement_in_their_order(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = continue_twice;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    assert_int_equal(m.settles, 1);
    assert_string_equal(t.after.text, "");
    assert_int_equal(atomic_load(&t.app->open), 1);
    stage_work(&t);
    assert_string_equal(t.after.text, "0 0");
    assert_int_equal(atomic_load(&t.app->open), 0);
}

static void a_continuation_hears_what_the_policies_made_of_it(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_failure = CONEY_POLICY_REJECT});
    t.script = stage_continue;
    t.how = CONEY_FAILED;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    stage_work(&t);
    assert_int_equal(m.how, CONEY_REJECT);
    assert_string_equal(t.after.text, "-1");
}

static void a_continuation_waits_for_outcomes(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.fake.hold_outcomes = true;
    t.script = stage_continue;
    struct fake_message quiet = {.body = CONEY_STR("a")};
    stage_deliver(&t, &quiet);
    t.script = publish_three;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    stage_work(&t);
    assert_string_equal(t.after.text, "0");
    for (size_t i = 0; i < 3; i++)
        fake_outcome(&t.fake, i, CONEY_OK);
    stage_work(&t);
    assert_string_equal(t.after.text, "0"); /* this one has left none */
    assert_int_equal(m.settles, 1);
}

static void without_memory_continuations_run_all_the_same(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.fake.fail_keep = true;
    t.script = stage_continue;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_string_equal(t.after.text, "0");
}

/* With threads ---------------------------------------------------------------------------------------------------------------------- */

enum { MANY = 2000 };

struct relay {
    struct lock lock;
    struct cond changed;
    coney_kept *kept[MANY];
    size_t count;
    size_t taken;
};

static struct relay relay;

static coney_settle hand_on(coney_delivery *d, coney_bytes body)
{
    (void)body;
    coney_kept *kept = coney_delivery_keep(d);
    lock_acquire(&relay.lock);
    relay.kept[relay.count++] = kept;
    cond_wake_all(&relay.changed);
    lock_release(&relay.lock);
    return CONEY_KEPT;
}
CONEY_RAW_HANDLER(hand_on);

static void *settle_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < MANY; i++) {
        lock_acquire(&relay.lock);
        while (relay.count == i)
            cond_wait(&relay.changed, &relay.lock, INT64_MAX);
        coney_kept *kept = relay.kept[i];
        lock_release(&relay.lock);
        coney_kept_settle(&kept, i % 2 == 0 ? CONEY_ACK : CONEY_REJECT);
    }
    return NULL;
}

static void another_thread_settles_while_the_handler_goes_on(void **state)
{
    (void)state;
    memset(&relay, 0, sizeof relay);
    stage_start_real(&t, &(coney_subscription){.handler = hand_on_handler});
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "settles", settle_all, NULL), CONEY_OK);
    static struct fake_message m[MANY];
    memset(m, 0, sizeof m);
    for (size_t i = 0; i < MANY; i++) {
        m[i].body = CONEY_STR("a");
        assert_int_equal(stage_deliver(&t, &m[i]), CONEY_KEPT);
    }
    pthread_join(thread, NULL);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(fake_await_settled(&t.fake, &m[i]), i % 2 == 0 ? CONEY_ACK : CONEY_REJECT);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static size_t times_logged(const char *words)
{
    size_t count = 0;
    for (const char *at = t.log.text; (at = strstr(at, words)) != NULL; at += strlen(words))
        count++;
    return count;
}

static void fail_in_words(struct stage *stage, coney_delivery *d)
{
    stage->how = coney_failed(d, *(const char *)coney_delivery_body(d).data == 'b' ? "bad luck" : "no luck");
}

static void the_same_warning_comes_once_a_second_and_says_how_many_more_there_were(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_failure = CONEY_POLICY_REJECT});
    t.script = fail_in_words;
    struct fake_message no[5] = {0};
    for (size_t i = 0; i < 5; i++) {
        no[i] = (struct fake_message){.body = CONEY_STR("n"), .offset = i, .has_offset = true};
        stage_deliver(&t, &no[i]);
    }
    assert_logged(&t, "subscription 'in': a message at offset 0 has failed: no luck: it is rejected\n");
    assert_int_equal(times_logged("has failed"), 1);
    dispatch_watch(t.s, worker_now(t.app->worker));
    assert_int_equal(times_logged("more like it"), 0);
    stage_advance(&t, CONEY_SECOND);
    dispatch_watch(t.s, worker_now(t.app->worker));
    assert_logged(&t, "subscription 'in': … and 4 more like it: … has failed: no luck: it is rejected\n");

    struct fake_message bad = {.body = CONEY_STR("b")};
    journal_clear(&t.log);
    no[0].settles = no[1].settles = 0;
    stage_deliver(&t, &no[0]);
    stage_deliver(&t, &no[1]);
    stage_deliver(&t, &bad);
    assert_int_equal(times_logged("no luck"), 2);
    assert_logged(&t, "… and 1 more like it: … has failed: no luck");
    assert_int_equal(times_logged("bad luck"), 1);

    bad.settles = 0;
    stage_deliver(&t, &bad);
    assert_int_equal(times_logged("bad luck"), 1);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_logged(&t, "… and 1 more like it: … has failed: bad luck");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_outcome_that_is_there_when_the_handler_returns_costs_nothing),
        TEST(the_ack_waits_for_the_last_outcome),
        TEST(several_outcomes_in_any_order_settle_once_and_a_failure_counts),
        TEST(every_policy_of_a_lost_publish_is_followed),
        TEST(a_settlement_that_is_no_ack_waits_too_and_a_lost_publish_is_only_logged),
        TEST(without_memory_the_lane_waits_for_the_outcome),
        TEST(a_transaction_is_committed_before_the_ack_and_aborted_before_all_else),
        TEST(the_transaction_of_a_kept_delivery_is_committed_on_the_worker),
        TEST(a_lost_publish_may_stop_the_app_from_the_loop),
        TEST(an_app_that_was_stopped_runs_again_and_counts_on),
        TEST(a_kept_delivery_is_settled_by_whoever_has_it),
        TEST(a_delivery_is_kept_once_and_what_its_handler_returns_is_passed_over),
        TEST(what_is_kept_may_be_settled_before_its_handler_returns),
        TEST(a_keep_that_fails_leaves_the_delivery_to_its_handler),
        TEST(a_policy_of_a_kept_delivery_is_asked_with_coney_failed),
        TEST(what_is_published_through_a_kept_delivery_holds_its_ack),
        TEST(continuations_run_once_after_the_settlement_in_their_order),
        TEST(a_continuation_hears_what_the_policies_made_of_it),
        TEST(a_continuation_waits_for_outcomes),
        TEST(without_memory_continuations_run_all_the_same),
        TEST(another_thread_settles_while_the_handler_goes_on),
        TEST(the_same_warning_comes_once_a_second_and_says_how_many_more_there_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
