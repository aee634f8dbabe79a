/* retry_test.c: attempts, delays, copies and dead letters, on transports that count and that do not, that can delay and that cannot. */
#include "service/dispatch_fixture.h"

#include "service/publisher.h"

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

static void a_retry_below_the_limit_goes_the_way_that_the_transport_has(void **state)
{
    (void)state;
    const struct {
        bool counts;
        bool delays;
        coney_settle how;
        coney_settle told;
        const char *journal;
        int64_t copy_delay;
        int64_t held;
    } rows[] = {
        {true, false, CONEY_REQUEUE, CONEY_REQUEUE, "", 0, 0},        {true, false, 9, 9, "", 0, 0},
        {true, true, CONEY_REQUEUE, CONEY_REQUEUE, "", 0, 0},         {true, true, 9, CONEY_ACK, "copy(back)", 9, 0},
        {false, false, CONEY_REQUEUE, CONEY_ACK, "copy(back)", 0, 0}, {false, false, 9, CONEY_ACK, "copy(back)", 0, 9},
        {false, true, CONEY_REQUEUE, CONEY_ACK, "copy(back)", 0, 0},  {false, true, 9, CONEY_ACK, "copy(back)", 9, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stage_make(&t);
        t.fake.counts = rows[i].counts;
        t.fake.delays = rows[i].delays;
        stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 3});
        t.how = rows[i].how;
        struct fake_message m = {.body = CONEY_STR("a"), .attempt = 2};
        stage_deliver(&t, &m);
        stage_work(&t);
        if (rows[i].held > 0) {
            assert_int_equal(m.settles, 0);
            stage_advance(&t, rows[i].held - 1);
            assert_int_equal(m.settles, 0);
            stage_advance(&t, 1);
        }
        assert_int_equal(m.settles, 1);
        assert_int_equal(m.how, rows[i].told);
        assert_string_equal(t.journal.text, rows[i].journal);
        if (t.fake.published_count > 0) {
            assert_int_equal(t.fake.published[0].attempts, 2);
            assert_int_equal(t.fake.published[0].delay, rows[i].copy_delay);
        }
        struct subscription_stats stats = stage_stats(&t);
        assert_int_equal(counter_get(rows[i].how > 0 ? &stats.retried : &stats.requeued), 1);
        assert_int_equal(counter_get(&stats.acked), 0);
        stage_stop(&t);
    }
}

static void the_longest_delay_there_is_never_ends(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 3, .on_failure = INT64_MAX});
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    stage_advance(&t, CONEY_SECOND);
    t.how = coney_retry_after(INT64_MAX);
    stage_deliver(&t, &m[0]);
    t.how = CONEY_FAILED;
    stage_deliver(&t, &m[1]);
    stage_advance(&t, 1000 * CONEY_SECOND);
    assert_int_equal(m[0].settles + m[1].settles, 0);
    coney_app_stop(t.app, NULL);
}

static void without_a_limit_only_a_delay_that_the_broker_can_keep_makes_a_copy(void **state)
{
    (void)state;
    t.fake.delays = true;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    struct fake_message m[2] = {{.body = CONEY_STR("a"), .attempt = 50}, {.body = CONEY_STR("a"), .attempt = 50}};
    t.how = CONEY_REQUEUE;
    assert_int_equal(stage_deliver(&t, &m[0]), CONEY_REQUEUE);
    t.how = coney_retry_after(9);
    assert_int_equal(stage_deliver(&t, &m[1]), CONEY_KEPT);
    stage_work(&t);
    assert_int_equal(t.fake.published[0].attempts, 50);
    assert_int_equal(m[1].how, CONEY_ACK);
}

static void a_spent_message_without_a_dead_letter_is_rejected(void **state)
{
    (void)state;
    const coney_settle rows[] = {CONEY_REQUEUE, 9, CONEY_FAILED};
    for (int counts = 0; counts < 2; counts++) {
        stage_make(&t);
        t.fake.counts = counts == 1;
        stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 3});
        for (size_t i = 0; i < 3; i++) {
            t.how = rows[i];
            struct fake_message m = {.body = CONEY_STR("a"), .attempt = 3};
            assert_int_equal(stage_deliver(&t, &m), CONEY_REJECT);
        }
        assert_logged(&t, "was delivered 3 times: it is rejected");
        stage_stop(&t);
    }
}

static void a_spent_message_is_acked_when_its_dead_letter_is_confirmed(void **state)
{
    (void)state;
    t.fake.hold_outcomes = true;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 3, .dead_letter = "dead"});
    t.how = CONEY_FAILED;
    struct fake_message m = {.body = CONEY_STR("a"), .attempt = 3};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    stage_work(&t);
    assert_string_equal(t.journal.text, "copy(dead)");
    assert_int_equal(t.fake.published[0].attempts, 3);
    assert_int_equal(m.settles, 0);
    assert_int_equal(atomic_load(&t.app->open), 1);
    fake_outcome(&t.fake, 0, CONEY_OK);
    assert_int_equal(fake_await_settled(&t.fake, &m), CONEY_ACK);
    assert_int_equal(atomic_load(&t.app->open), 0);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.dead_lettered), 1);
    assert_int_equal(counter_get(&stats.rejected), 1);
    assert_int_equal(counter_get(&stats.acked), 0);
}

static void a_dead_letter_that_fails_is_tried_again_and_its_message_has_no_further_attempt(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 1, .dead_letter = "dead"});
    t.how = CONEY_FAILED;
    t.fake.outcome_with = CONEY_ERETURNED;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    stage_work(&t);
    assert_logged(&t, "the dead letter of a message for 'dead' failed (CONEY_ERETURNED): it is tried again after 1000 ms");
    t.fake.publish_with = CONEY_ECLOSED;
    stage_advance(&t, CONEY_SECOND);
    assert_logged(&t, "the dead letter of a message for 'dead' failed (CONEY_ECLOSED): it is tried again after 1000 ms");
    assert_int_equal(m.settles, 0);
    t.fake.publish_with = t.fake.outcome_with = CONEY_OK;
    stage_advance(&t, CONEY_SECOND - 1);
    assert_int_equal(m.settles, 0);
    stage_advance(&t, 1);
    assert_int_equal(fake_await_settled(&t.fake, &m), CONEY_ACK);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.dead_lettered), 1);
    assert_int_equal(counter_get(&stats.calls), 1);
}

static void a_message_whose_dead_letter_fails_is_given_back_at_a_drain(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 1, .dead_letter = "dead"});
    t.how = CONEY_FAILED;
    t.fake.outcome_with = CONEY_ERETURNED;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    stage_work(&t);
    assert_int_equal(atomic_load(&t.app->open), 1);
    coney_call call = {0};
    assert_int_equal(coney_app_stop(t.app, &call), CONEY_OK);
    assert_int_equal(m.settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void a_dead_letter_without_memory_to_keep_its_message_comes_again(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 1, .dead_letter = "dead"});
    t.how = CONEY_FAILED;
    t.fake.fail_keep = true;
    struct fake_message unkept = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &unkept), CONEY_SECOND);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.dead_lettered), 0);
}

static void a_source_that_takes_no_copies_is_asked_to_give_the_message_again(void **state)
{
    (void)state;
    t.fake.refuse_copy_back = true;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 3});
    t.how = CONEY_REQUEUE;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    stage_work(&t);
    assert_int_equal(m.how, CONEY_REQUEUE);
    assert_string_equal(t.log.text, "");
}

static void a_retry_of_a_kept_delivery_counts_attempts_as_any_other(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 2, .dead_letter = "dead"});
    t.script = stage_keep;
    t.how = CONEY_KEPT;
    struct fake_message m = {.body = CONEY_STR("a"), .attempt = 2};
    stage_deliver(&t, &m);
    assert_int_equal(coney_kept_settle(&t.kept, CONEY_REQUEUE), CONEY_OK);
    stage_work(&t);
    assert_string_equal(t.journal.text, "copy(dead)");
    assert_int_equal(m.how, CONEY_ACK);
}

static void a_lost_publish_counts_as_an_attempt(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 1});
    t.fake.outcome_with = CONEY_EREFUSED;
    t.script = stage_publish;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_REJECT);
}

static void a_continuation_of_a_dead_letter_hears_of_a_rejection(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 1, .dead_letter = "dead"});
    t.script = stage_continue;
    t.how = CONEY_REQUEUE;
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    stage_work(&t);
    assert_string_equal(t.after.text, "-1");
}

static void a_message_held_for_its_retry_is_given_back_at_a_drain(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 3});
    t.how = coney_retry_after(3600 * CONEY_SECOND);
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    assert_int_equal(atomic_load(&t.app->open), 1);
    coney_call call = {0};
    assert_int_equal(coney_app_stop(t.app, &call), CONEY_OK);
    assert_int_equal(m.settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

/* The testkit's eyes ---------------------------------------------------------------------------------------------------------------- */

static coney_status fail_with;

static void probe_published(void *ctx, coney_broker *broker, const char *exchange, const struct outgoing *message)
{
    (void)broker;
    assert_null(exchange);
    uint64_t attempts = 0;
    for (size_t i = 0; i < message->header_count; i++)
        if (strncmp(message->headers[i].key.data, ATTEMPTS_HEADER, message->headers[i].key.len) == 0)
            attempts = message->headers[i].value.as.u64;
    journal_add(ctx, "%.*s:%.*s:%llu", (int)message->to.len, (const char *)message->to.data, (int)message->body.len,
                (const char *)message->body.data, (unsigned long long)attempts);
}

static coney_status probe_fail(void *ctx, coney_broker *broker)
{
    (void)ctx;
    (void)broker;
    return fail_with;
}

static void a_probe_sees_copies_and_may_fail_them(void **state)
{
    (void)state;
    struct journal journal = {0};
    const struct publish_probe probe = {probe_published, probe_fail, &journal};
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 2, .dead_letter = "dead"});
    t.app->publish_probe = &probe;
    t.how = CONEY_FAILED;
    struct fake_message m[3] = {
        {.body = CONEY_STR("a")}, {.body = CONEY_STR("b"), .attempt = 2}, {.body = CONEY_STR("c"), .attempt = 2}};
    fail_with = CONEY_OK;
    stage_deliver(&t, &m[0]);
    stage_advance(&t, CONEY_SECOND);
    stage_deliver(&t, &m[1]);
    stage_work(&t);
    assert_string_equal(journal.text, "in:a:1 dead:b:2");
    fail_with = CONEY_ERETURNED;
    stage_deliver(&t, &m[2]);
    stage_work(&t);
    assert_string_equal(journal.text, "in:a:1 dead:b:2");
    assert_int_equal(m[2].settles, 0);
    fail_with = CONEY_OK;
    stage_advance(&t, CONEY_SECOND);
    assert_string_equal(journal.text, "in:a:1 dead:b:2 dead:c:2");
    assert_int_equal(fake_await_settled(&t.fake, &m[2]), CONEY_ACK);
    t.app->publish_probe = NULL;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_retry_below_the_limit_goes_the_way_that_the_transport_has),
        TEST(the_longest_delay_there_is_never_ends),
        TEST(without_a_limit_only_a_delay_that_the_broker_can_keep_makes_a_copy),
        TEST(a_spent_message_without_a_dead_letter_is_rejected),
        TEST(a_spent_message_is_acked_when_its_dead_letter_is_confirmed),
        TEST(a_dead_letter_that_fails_is_tried_again_and_its_message_has_no_further_attempt),
        TEST(a_message_whose_dead_letter_fails_is_given_back_at_a_drain),
        TEST(a_dead_letter_without_memory_to_keep_its_message_comes_again),
        TEST(a_source_that_takes_no_copies_is_asked_to_give_the_message_again),
        TEST(a_retry_of_a_kept_delivery_counts_attempts_as_any_other),
        TEST(a_lost_publish_counts_as_an_attempt),
        TEST(a_continuation_of_a_dead_letter_hears_of_a_rejection),
        TEST(a_message_held_for_its_retry_is_given_back_at_a_drain),
        TEST(a_probe_sees_copies_and_may_fail_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
