/* seek_test.c: moving a subscription, from its handler and from outside. */
#include "service/dispatch_fixture.h"

#include <sched.h>

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

static const coney_position to_seven = {.at = CONEY_STREAM_OFFSET, .offset = 7};
static coney_status sought;

static void seek_to_seven(struct stage *stage, coney_delivery *d)
{
    (void)stage;
    sought = coney_seek(d, &to_seven);
}

static void a_virtual_app_seeks_at_once_and_says_how_it_went(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler});
    t.script = seek_to_seven;
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    assert_int_equal(stage_deliver(&t, &m[0]), CONEY_ACK);
    assert_int_equal(sought, CONEY_OK);
    assert_int_equal(t.fake.position.offset, 7);
    t.fake.fail_at = "seek";
    t.fake.fail_status = CONEY_ENOOFFSET;
    assert_int_equal(stage_deliver(&t, &m[1]), CONEY_ACK);
    assert_int_equal(sought, CONEY_ENOOFFSET);
}

/* Delivers until something else than "again in a moment" comes back. */
static coney_settle deliver_when_open(struct fake_message *m)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    coney_settle how = stage_deliver(&t, m);
    while (how == CONEY_MILLISECOND && time_now() < deadline) {
        sched_yield();
        how = stage_deliver(&t, m);
    }
    return how;
}

static void a_seek_begins_when_its_handler_has_returned(void **state)
{
    (void)state;
    stage_start_real(&t, &(coney_subscription){.handler = raw_handler});
    t.script = seek_to_seven;
    struct fake_message m[3] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}, {.body = CONEY_STR("c")}};
    assert_int_equal(stage_deliver(&t, &m[0]), CONEY_ACK);
    assert_int_equal(sought, CONEY_OK);
    t.script = NULL;
    assert_int_equal(deliver_when_open(&m[1]), CONEY_ACK);
    assert_string_equal(t.journal.text, "seek(in)");
    assert_string_equal(t.seen.text, "a b");
}

static void a_seek_that_fails_is_logged_and_nothing_is_lost(void **state)
{
    (void)state;
    t.fake.fail_at = "seek";
    t.fake.fail_status = CONEY_ENOOFFSET;
    stage_start_real(&t, &(coney_subscription){.handler = raw_handler});
    t.script = seek_to_seven;
    struct fake_message m[2] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}};
    assert_int_equal(stage_deliver(&t, &m[0]), CONEY_ACK);
    t.script = NULL;
    assert_int_equal(deliver_when_open(&m[1]), CONEY_ACK);
    assert_logged(&t, "subscription 'in': it stays where it is, the seek failed: the fake was told to fail at seek");
}

static uint64_t attempt_seen;

static void see_attempt(struct stage *stage, coney_delivery *d)
{
    (void)stage;
    attempt_seen = coney_delivery_attempt(d);
}

static void what_a_seek_sends_back_is_no_attempt(void **state)
{
    (void)state;
    t.fake.counts = true;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .max_attempts = 2});
    struct fake_message m[2] = {{.body = CONEY_STR("a"), .offset = 7, .has_offset = true},
                                {.body = CONEY_STR("b"), .offset = 8, .has_offset = true}};
    atomic_store(&t.s->dispatch->gate, GATE_SEEKING);
    for (m[0].attempt = 1; m[0].attempt < 4; m[0].attempt++)
        assert_int_equal(stage_deliver(&t, &m[0]), CONEY_MILLISECOND);
    atomic_store(&t.s->dispatch->gate, GATE_OPEN);
    t.script = see_attempt;
    t.how = CONEY_REQUEUE;
    assert_int_equal(stage_deliver(&t, &m[0]), CONEY_REQUEUE);
    assert_int_equal(attempt_seen, 1);
    m[0].attempt = 5;
    assert_int_equal(stage_deliver(&t, &m[0]), CONEY_REJECT);
    assert_int_equal(attempt_seen, 2);
    m[1].attempt = 2;
    assert_int_equal(stage_deliver(&t, &m[1]), CONEY_REJECT);
    assert_int_equal(attempt_seen, 2);
}

static void from_outside_a_seek_blocks_until_it_has_moved(void **state)
{
    (void)state;
    coney_call call = {0};
    stage_start_real(&t, &(coney_subscription){.handler = raw_handler});
    assert_int_equal(coney_app_seek(t.app, "in", &to_seven, &call), CONEY_OK);
    assert_int_equal(t.fake.position.offset, 7);
    assert_int_equal(coney_app_seek(t.app, "nowhere", &to_seven, &call), CONEY_ENOTFOUND);
    assert_string_equal(call.text, "the app has no subscription 'nowhere'");
    assert_int_equal(coney_app_seek(t.app, "in", NULL, &call), CONEY_EINVAL);
    t.fake.fail_at = "seek";
    t.fake.fail_status = CONEY_ENOOFFSET;
    memset(&call, 0, sizeof call);
    assert_int_equal(coney_app_seek(t.app, "in", &to_seven, &call), CONEY_ENOOFFSET);
    assert_int_equal(coney_app_seek(t.app, "in", &to_seven, NULL), CONEY_ENOOFFSET);
    coney_app_stop(t.app, NULL);
    memset(&call, 0, sizeof call);
    assert_int_equal(coney_app_seek(t.app, "in", &to_seven, &call), CONEY_ECLOSED);
}

static void seek_from_outside(struct stage *stage, coney_delivery *d)
{
    (void)d;
    sought = coney_app_seek(stage->app, "in", &to_seven, NULL);
}

static void a_handler_that_would_wait_for_itself_is_told_so(void **state)
{
    (void)state;
    stage_start_real(&t, &(coney_subscription){.handler = raw_handler});
    t.script = seek_from_outside;
    struct fake_message m = {.body = CONEY_STR("a")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
    assert_int_equal(sought, CONEY_EDEADLK);
}

static coney_settle never(coney_batch *batch, const coney_bytes *bodies, size_t count)
{
    (void)batch;
    (void)bodies;
    (void)count;
    fail_msg("a batch that was dropped is handled");
    return CONEY_ACK;
}
CONEY_RAW_BATCH_HANDLER(never);

static void a_seek_drops_what_was_gathered_and_not_handled(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = never_handler, .batch = 5});
    struct fake_message m[3] = {{.body = CONEY_STR("a")}, {.body = CONEY_STR("b")}, {.body = CONEY_STR("c")}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(stage_deliver(&t, &m[i]), CONEY_KEPT);
    assert_int_equal(coney_app_seek(t.app, "in", &to_seven, NULL), CONEY_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fake_await_settled(&t.fake, &m[i]), CONEY_ACK);
    stage_advance(&t, CONEY_SECOND);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_virtual_app_seeks_at_once_and_says_how_it_went),
        TEST(a_seek_begins_when_its_handler_has_returned),
        TEST(what_a_seek_sends_back_is_no_attempt),
        TEST(a_seek_that_fails_is_logged_and_nothing_is_lost),
        TEST(from_outside_a_seek_blocks_until_it_has_moved),
        TEST(a_handler_that_would_wait_for_itself_is_told_so),
        TEST(a_seek_drops_what_was_gathered_and_not_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
