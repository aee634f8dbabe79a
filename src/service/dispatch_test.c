/* dispatch_test.c: a message and its handler: settlements, decoding, sets, policies, what a handler can ask; the gate and the watch. */
#include "codec/arena.h"
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

/* Settlements ---------------------------------------------------------------------------------------------------------------- */

static void what_a_handler_returns_is_what_the_transport_is_told(void **state)
{
    (void)state;
    const coney_settle rows[] = {CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE, coney_retry_after(5),
                                 coney_retry_after(3 * CONEY_SECOND)};
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fake_message m = {.body = CONEY_STR("a")};
        t.how = rows[i];
        assert_int_equal(stage_deliver(&t, &m), rows[i]);
        assert_int_equal(m.settles, 1);
        assert_null(m.kept.settle);
    }
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.received), 5);
    assert_int_equal(counter_get(&stats.calls), 5);
    assert_int_equal(counter_get(&stats.acked), 1);
    assert_int_equal(counter_get(&stats.rejected), 1);
    assert_int_equal(counter_get(&stats.requeued), 1);
    assert_int_equal(counter_get(&stats.retried), 2);
    assert_string_equal(t.seen.text, "a a a a a");
}

static void what_is_no_settlement_is_a_failure_that_names_it(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    struct fake_message m = {.body = CONEY_STR("a"), .has_offset = true, .offset = 9};
    t.how = -77;
    assert_int_equal(stage_deliver(&t, &m), CONEY_SECOND);
    assert_logged(
        &t,
        "subscription 'in': a message at offset 9 has failed: its handler returned -77, which is no settlement: it comes again "
        "after 1000 ms");
}

static void kept_without_keep_is_a_failure_that_says_so(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_failure = CONEY_POLICY_REJECT});
    struct fake_message m = {.body = CONEY_STR("a")};
    t.how = CONEY_KEPT;
    assert_int_equal(stage_deliver(&t, &m), CONEY_REJECT);
    assert_logged(&t, "returned CONEY_KEPT and has not kept it: it is rejected");
}

static void every_policy_of_a_failure_is_followed(void **state)
{
    (void)state;
    const struct {
        coney_policy policy;
        coney_settle how;
    } rows[] = {{CONEY_POLICY_RETRY, CONEY_REQUEUE},
                {CONEY_POLICY_REJECT, CONEY_REJECT},
                {CONEY_POLICY_SKIP, CONEY_ACK},
                {coney_policy_retry(7), 7},
                {CONEY_POLICY_DEFAULT, CONEY_SECOND}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stage_make(&t);
        stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_failure = rows[i].policy});
        struct fake_message m = {.body = CONEY_STR("a")};
        t.how = CONEY_FAILED;
        assert_int_equal(stage_deliver(&t, &m), rows[i].how);
        struct subscription_stats stats = stage_stats(&t);
        assert_int_equal(counter_get(&stats.failed), 1);
        stage_stop(&t);
    }
}

static void stop_leaves_the_message_unsettled_until_the_broker_has_it_back(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .on_failure = CONEY_POLICY_STOP});
    struct fake_message m = {.body = CONEY_STR("a")};
    struct fake_message later = {.body = CONEY_STR("b")};
    t.how = CONEY_FAILED;
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    t.how = CONEY_ACK;
    assert_int_equal(stage_deliver(&t, &later), CONEY_KEPT);
    assert_string_equal(t.seen.text, "a");
    coney_call call = {0};
    assert_int_equal(coney_app_wait(t.app, &call), CONEY_ECANCELED);
    assert_non_null(strstr(call.text, "subscription 'in'"));
    coney_app_stop(t.app, NULL);
    assert_int_equal(m.settles + later.settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void fail_with_words(struct stage *stage, coney_delivery *d)
{
    stage->how = coney_failed(d, "the database is away");
}

static void a_failure_can_say_why(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    struct fake_message m = {.body = CONEY_STR("a")};
    t.script = fail_with_words;
    assert_int_equal(stage_deliver(&t, &m), CONEY_SECOND);
    assert_logged(&t, "has failed: the database is away");
}

/* Decoding ---------------------------------------------------------------------------------------------------------------------- */

static void a_typed_handler_gets_the_value(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = typed_handler});
    const char *types[] = {NULL, "text/number", "TEXT/NUMBER; charset=utf-8"};
    for (size_t i = 0; i < 3; i++) {
        struct fake_message m = {.body = CONEY_STR("42"), .content_type = types[i]};
        assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    }
    assert_string_equal(t.seen.text, "42 42 42");
}

static void what_cannot_be_decoded_is_rejected_and_named(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = typed_handler});
    struct fake_message m = {.body = CONEY_STR("4x")};
    struct fake_message next = {.body = CONEY_STR("5")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_REJECT);
    assert_int_equal(stage_deliver(&t, &next), CONEY_ACK);
    assert_logged(&t, "subscription 'in': a message cannot be decoded: id: '4x' is no number: it is rejected");
    assert_string_equal(t.seen.text, "5");
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.undecodable), 1);
    assert_int_equal(counter_get(&stats.calls), 1);
}

static void another_content_type_is_undecodable_unless_any_is_taken(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = typed_handler, .on_undecodable = CONEY_POLICY_SKIP});
    struct fake_message m = {.body = CONEY_STR("4"), .content_type = "application/cbor"};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_logged(&t, "content type 'application/cbor' is not number's (text/number): it is passed over");
    assert_string_equal(t.seen.text, "");
    stage_stop(&t);

    stage_make(&t);
    stage_start(&t, &(coney_subscription){.handler = typed_handler, .any_content_type = true});
    struct fake_message taken = {.body = CONEY_STR("4"), .content_type = "application/cbor"};
    assert_int_equal(stage_deliver(&t, &taken), CONEY_ACK);
    assert_string_equal(t.seen.text, "4");
}

static void find_undecodable(struct stage *stage, coney_delivery *d)
{
    stage->how = coney_undecodable(d, "unit is 'stone'");
}

static void messages_of_another_content_type_take_no_memory_that_stays(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = typed_handler});
    struct fake_message m = {.body = CONEY_STR("7"), .content_type = "text/plain"};
    stage_deliver(&t, &m);
    const coney_arena *arena = t.s->dispatch->direct.at_hand->arena;
    const uint8_t *at = arena->at;
    stage_deliver(&t, &m);
    assert_ptr_equal(arena->at, at);
}

static void a_handler_can_find_a_message_undecodable(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = typed_handler, .on_undecodable = coney_policy_retry(9)});
    struct fake_message m = {.body = CONEY_STR("4")};
    t.script = find_undecodable;
    assert_int_equal(stage_deliver(&t, &m), 9);
    assert_logged(&t, "cannot be decoded: unit is 'stone'");
}

/* Sets ------------------------------------------------------------------------------------------------------------------------------ */

static coney_settle on_parity(coney_delivery *d, const parity *p)
{
    struct stage *stage = coney_delivery_ctx(d);
    if (p->is == even_type())
        journal_add(&stage->seen, "even:%llu", (unsigned long long)p->value.as_even.id);
    if (p->is == odd_type())
        journal_add(&stage->seen, "odd:%llu", (unsigned long long)p->value.as_odd.id);
    return CONEY_ACK;
}
CONEY_HANDLER(on_parity, parity);

static coney_settle on_any(coney_delivery *d, const any_parity *p)
{
    struct stage *stage = coney_delivery_ctx(d);
    journal_add(&stage->seen, "%s", p->is->name);
    return CONEY_ACK;
}
CONEY_HANDLER(on_any, any_parity);

static void a_header_chooses_the_variant_of_a_set(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = on_parity_handler});
    const char *values[] = {"odd", "even", "prime"};
    const coney_settle hows[] = {CONEY_ACK, CONEY_REJECT, CONEY_REJECT};
    for (size_t i = 0; i < 3; i++) {
        coney_field header = {CONEY_STR("parity"), coney_value_string(coney_bytes_str(values[i]))};
        struct fake_message m = {.body = CONEY_STR("7"), .headers = &header, .header_count = 1};
        assert_int_equal(stage_deliver(&t, &m), hows[i]);
    }
    struct fake_message bare = {.body = CONEY_STR("7")};
    assert_int_equal(stage_deliver(&t, &bare), CONEY_REJECT);
    assert_string_equal(t.seen.text, "odd:7");
    assert_logged(&t, "id: not even");
    assert_logged(&t, "header 'parity' is 'prime', which names no variant of parity");
    assert_logged(&t, "there is no header 'parity', which chooses the variant of parity");
}

static const coney_type *choose_by_length(void *ctx, const coney_delivery *d)
{
    (void)ctx;
    coney_value value;
    assert_false(coney_delivery_header(d, CONEY_STR("parity"), &value));
    assert_int_equal(coney_delivery_info_of(d)->source.len, 2);
    size_t len = coney_delivery_body(d).len;
    return len == 1 ? odd_type() : len == 2 ? even_type() : len == 3 ? number_type() : NULL;
}

static void a_function_chooses_the_variant_of_a_set(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = on_parity_handler, .choose = choose_by_length});
    const coney_bytes bodies[] = {CONEY_STR("7"), CONEY_STR("18"), CONEY_STR("123"), CONEY_STR("1234")};
    const coney_settle hows[] = {CONEY_ACK, CONEY_ACK, CONEY_REJECT, CONEY_REJECT};
    for (size_t i = 0; i < 4; i++) {
        struct fake_message m = {.body = bodies[i]};
        assert_int_equal(stage_deliver(&t, &m), hows[i]);
    }
    assert_string_equal(t.seen.text, "odd:7 even:18");
    assert_logged(&t, "number was chosen, which is no variant of parity");
    assert_logged(&t, "no variant of parity was chosen");
}

static const coney_type *choose_from_another_file(void *ctx, const coney_delivery *d)
{
    (void)ctx;
    (void)d;
    static coney_type theirs;
    theirs = *odd_type();
    return &theirs;
}

static void a_variant_may_be_chosen_in_another_file_than_its_set_stands_in(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = on_parity_handler, .choose = choose_from_another_file});
    struct fake_message m = {.body = CONEY_STR("7")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_string_equal(t.seen.text, "odd:7");
}

static void without_a_rule_the_variants_are_tried_in_order(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = on_any_handler});
    struct fake_message odd_one = {.body = CONEY_STR("7")};
    struct fake_message even_one = {.body = CONEY_STR("8")};
    struct fake_message neither = {.body = CONEY_STR("x")};
    assert_int_equal(stage_deliver(&t, &odd_one), CONEY_ACK);
    assert_int_equal(stage_deliver(&t, &even_one), CONEY_ACK);
    assert_int_equal(stage_deliver(&t, &neither), CONEY_REJECT);
    assert_string_equal(t.seen.text, "odd even");
}

/* What a handler can ask ------------------------------------------------------------------------------------------------------------- */

static const char key_of_a_test;

static void ask(struct stage *stage, coney_delivery *d)
{
    assert_string_equal(coney_delivery_subscription(d), "in");
    assert_ptr_equal(coney_delivery_app(d), stage->app);
    assert_int_equal(coney_delivery_attempt(d), 3);
    const coney_delivery_info *info = coney_delivery_info_of(d);
    assert_memory_equal(info->correlation_id.data, "c1", 2);
    assert_ptr_equal(coney_delivery_info_of(d), info);
    assert_null(coney_delivery_find(d, &key_of_a_test));
    assert_int_equal(coney_delivery_put(d, &key_of_a_test, stage), CONEY_OK);
    assert_ptr_equal(coney_delivery_find(d, &key_of_a_test), stage);
    assert_int_equal(coney_delivery_put(d, &key_of_a_test, d), CONEY_OK);
    assert_ptr_equal(coney_delivery_find(d, &key_of_a_test), d);
    assert_non_null(coney_arena_alloc(coney_delivery_arena(d), 10000));
    assert_null(coney_delivery_amqp(d));
    assert_null(coney_delivery_stream(d));
    assert_true(dispatch_is_current(stage->s));
    assert_int_equal(dispatch_running(stage->s), 1);
}

static void a_delivery_answers_its_handler_and_the_next_knows_nothing_of_it(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = ask;
    for (int i = 0; i < 2; i++) {
        struct fake_message m = {.body = CONEY_STR("a"), .correlation_id = "c1", .attempt = 3};
        assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    }
    assert_false(dispatch_is_current(t.s));
    assert_int_equal(dispatch_running(t.s), 0);
}

/* The gate and the watch ---------------------------------------------------------------------------------------------------------------- */

static void while_it_drains_no_handler_starts_and_the_broker_has_the_message_back(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    atomic_store(&t.app->draining, true);
    assert_int_equal(dispatch_running(t.s), 0);
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_KEPT);
    assert_string_equal(t.seen.text, "");
    assert_int_equal(t.fake.feeds[0].pauses, 1);
    coney_app_stop(t.app, NULL);
    assert_int_equal(m.settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void watch_from_inside(struct stage *stage, coney_delivery *d)
{
    (void)d;
    for (int64_t at = 0; at <= 50; at++)
        dispatch_watch(stage->s, at * CONEY_SECOND);
}

static void a_handler_over_its_limit_is_named_once_a_run(void **state)
{
    (void)state;
    stage_begin(&t, &(coney_subscription){.handler = raw_handler}, &(coney_app_options){.handler_limit = 4 * CONEY_SECOND},
                true);
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    t.script = watch_from_inside;
    stage_deliver(&t, &m[0]);
    assert_string_equal(t.log.text, "subscription 'in': a handler has been running for more than 4000 ms\n");
    stage_deliver(&t, &m[1]);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.stalls), 2);
    dispatch_watch(t.s, 100 * CONEY_SECOND);
    dispatch_watch(t.s, 200 * CONEY_SECOND);
    stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.stalls), 2);
}

static void see_metric(void *ctx, const coney_metric *metric)
{
    (void)metric;
    ++*(size_t *)ctx;
}

static void look_around(void *ctx, coney_log_level level, const char *text)
{
    size_t seen = 0;
    coney_app_metrics(t.app, see_metric, &seen);
    if (strstr(text, "has been running") != NULL && seen > 0)
        stage_log(ctx, level, "seen");
}

static void who_is_told_of_a_long_run_may_ask_the_app(void **state)
{
    (void)state;
    stage_begin(&t, &(coney_subscription){.handler = raw_handler}, &(coney_app_options){.handler_limit = 4 * CONEY_SECOND},
                true);
    t.app->log.fn = look_around;
    struct fake_message m = {.body = CONEY_STR("a")};
    t.script = watch_from_inside;
    stage_deliver(&t, &m);
    assert_string_equal(t.log.text, "seen\n");
}

static void durations_are_measured_when_the_app_is_timed(void **state)
{
    (void)state;
    stage_begin(&t, &(coney_subscription){.handler = raw_handler}, &(coney_app_options){.timed = true}, true);
    struct fake_message m = {.body = CONEY_STR("a")};
    stage_deliver(&t, &m);
    uint64_t buckets[DURATION_BUCKETS + 1];
    double sum = 0;
    dispatch_durations(t.s, buckets, &sum);
    uint64_t count = 0;
    for (size_t i = 0; i <= DURATION_BUCKETS; i++)
        count += buckets[i];
    assert_int_equal(count, 1);
    assert_true(sum > 0);
}

/* The testkit's eyes -------------------------------------------------------------------------------------------------------------------- */

static void probe_received(void *ctx, struct subscription *s, coney_bytes body, const coney_delivery_info *info)
{
    journal_add(ctx, "received(%s,%.*s,%.*s)", s->name, (int)body.len, (const char *)body.data, (int)info->source.len,
                (const char *)info->source.data);
}

static void probe_called(void *ctx, struct subscription *s, size_t count, coney_settle how)
{
    (void)s;
    journal_add(ctx, "called(%zu,%lld)", count, (long long)how);
}

static void probe_settled(void *ctx, struct subscription *s, coney_settle how)
{
    (void)s;
    journal_add(ctx, "settled(%lld)", (long long)how);
}

static void a_probe_sees_what_comes_what_the_handler_says_and_what_it_comes_to(void **state)
{
    (void)state;
    struct journal journal = {0};
    const struct dispatch_probe probe = {probe_received, probe_called, probe_settled, &journal};
    t.probe = &probe;
    stage_start(&t, &(coney_subscription){.handler = typed_handler, .max_attempts = 2, .dead_letter = "dead"});
    struct fake_message rows[] = {{.body = CONEY_STR("1")}, {.body = CONEY_STR("x")}, {.body = CONEY_STR("2"), .attempt = 2}};
    stage_deliver(&t, &rows[0]);
    stage_deliver(&t, &rows[1]);
    t.how = CONEY_FAILED;
    stage_deliver(&t, &rows[2]);
    stage_work(&t);
    assert_string_equal(journal.text, "received(in,1,in) called(1,0) settled(0) received(in,x,in) settled(-1) "
                                      "received(in,2,in) called(1,-4) settled(-1)");
    stage_stop(&t);
}

static void restart_inside(struct stage *stage, coney_delivery *d)
{
    (void)d;
    if (atomic_load(&stage->calls) < 3) {
        struct fake_message inner = {.body = CONEY_STR("inner")};
        assert_int_equal(stage_deliver(stage, &inner), CONEY_ACK);
    }
}

static void a_handler_of_a_virtual_app_may_cause_deliveries_to_itself(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = restart_inside;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_string_equal(t.seen.text, "a inner inner");
}

static void look_and_ask_to_stop(struct stage *stage, coney_delivery *d)
{
    journal_add(&stage->after, "%d", coney_delivery_stopping(d));
    coney_app_ask_to_stop(coney_delivery_app(d));
    journal_add(&stage->after, "%d", coney_delivery_stopping(d));
}

static void a_handler_can_see_that_the_app_is_asked_to_stop(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = look_and_ask_to_stop;
    struct fake_message m = {.body = CONEY_STR("x")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_string_equal(t.after.text, "0 1");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_a_handler_returns_is_what_the_transport_is_told),
        TEST(what_is_no_settlement_is_a_failure_that_names_it),
        TEST(kept_without_keep_is_a_failure_that_says_so),
        TEST(every_policy_of_a_failure_is_followed),
        TEST(stop_leaves_the_message_unsettled_until_the_broker_has_it_back),
        TEST(a_failure_can_say_why),
        TEST(a_typed_handler_gets_the_value),
        TEST(what_cannot_be_decoded_is_rejected_and_named),
        TEST(another_content_type_is_undecodable_unless_any_is_taken),
        TEST(messages_of_another_content_type_take_no_memory_that_stays),
        TEST(a_handler_can_find_a_message_undecodable),
        TEST(a_header_chooses_the_variant_of_a_set),
        TEST(a_function_chooses_the_variant_of_a_set),
        TEST(a_variant_may_be_chosen_in_another_file_than_its_set_stands_in),
        TEST(without_a_rule_the_variants_are_tried_in_order),
        TEST(a_delivery_answers_its_handler_and_the_next_knows_nothing_of_it),
        TEST(while_it_drains_no_handler_starts_and_the_broker_has_the_message_back),
        TEST(a_handler_over_its_limit_is_named_once_a_run),
        TEST(who_is_told_of_a_long_run_may_ask_the_app),
        TEST(durations_are_measured_when_the_app_is_timed),
        TEST(a_probe_sees_what_comes_what_the_handler_says_and_what_it_comes_to),
        TEST(a_handler_of_a_virtual_app_may_cause_deliveries_to_itself),
        TEST(a_handler_can_see_that_the_app_is_asked_to_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
