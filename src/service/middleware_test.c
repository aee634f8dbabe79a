/* middleware_test.c: layers around a handler: their order, their answers, their mistakes. */
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

static coney_settle tell(void *ctx, coney_delivery *d, coney_next *next)
{
    struct stage *stage = coney_delivery_ctx(d);
    journal_add(&stage->seen, "%s(", (const char *)ctx);
    coney_settle how = coney_next_run(next, d);
    journal_add(&stage->seen, ")%s", (const char *)ctx);
    return how;
}

static coney_settle answer(void *ctx, coney_delivery *d, coney_next *next)
{
    (void)d;
    (void)next;
    return *(const coney_settle *)ctx;
}

static coney_settle run_twice(void *ctx, coney_delivery *d, coney_next *next)
{
    (void)ctx;
    coney_next_run(next, d);
    return coney_next_run(next, d);
}

static coney_settle run_with_another(void *ctx, coney_delivery *d, coney_next *next)
{
    (void)d;
    return coney_next_run(next, ctx);
}

/* The app and the broker exist only in stage_begin: so layers are added before the start by hand. */
static void start_layered(const coney_subscription *subscription, coney_around_fn outer, void *outer_ctx)
{
    coney_app_options options = {.on_log = stage_log, .log_ctx = &t, .log_level = CONEY_LOG_DEBUG, .codec = &number_codec};
    t.app = coney_app_new("stage", "1");
    coney_app_configure(t.app, &options);
    t.broker = fake_broker(t.app, &t.fake);
    coney_app_use(t.app, outer, outer_ctx);
    coney_broker_use(t.broker, tell, "broker");
    coney_router *router = coney_router_new();
    coney_router_use(router, tell, "router");
    coney_subscription described = *subscription;
    described.source = CONEY_QUEUE("in");
    described.ctx = &t;
    assert_int_equal(coney_route(router, &described), CONEY_OK);
    assert_int_equal(coney_include(t.broker, router), CONEY_OK);
    coney_router_free(&router);
    t.app->worker = worker_new("stage", true, 0);
    t.app->is_virtual = true;
    assert_int_equal(coney_app_start(t.app, NULL), CONEY_OK);
    t.s = app_subscription(t.app, "in");
}

static void the_app_is_outermost_and_the_subscription_innermost(void **state)
{
    (void)state;
    start_layered(&(coney_subscription){.handler = typed_handler, .around = tell, .around_ctx = "own"}, tell, "app");
    struct fake_message m = {.body = CONEY_STR("7")};
    t.how = CONEY_REJECT;
    assert_int_equal(stage_deliver(&t, &m), CONEY_REJECT);
    assert_string_equal(t.seen.text, "app( broker( router( own( 7 )own )router )broker )app");
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.calls), 1);
}

static void middleware_may_settle_without_the_handler(void **state)
{
    (void)state;
    static const coney_settle rows[] = {CONEY_ACK, CONEY_REJECT, 5, CONEY_FAILED};
    static const coney_settle hows[] = {CONEY_ACK, CONEY_REJECT, 5, CONEY_SECOND};
    for (size_t i = 0; i < 4; i++) {
        stage_make(&t);
        coney_settle how = rows[i];
        start_layered(&(coney_subscription){.handler = raw_handler}, answer, &how);
        struct fake_message m = {.body = CONEY_STR("7")};
        assert_int_equal(stage_deliver(&t, &m), hows[i]);
        assert_string_equal(t.seen.text, "");
        struct subscription_stats stats = stage_stats(&t);
        assert_int_equal(counter_get(&stats.calls), 0);
        stage_stop(&t);
    }
}

static void middleware_does_not_see_what_cannot_be_decoded(void **state)
{
    (void)state;
    start_layered(&(coney_subscription){.handler = typed_handler}, tell, "app");
    struct fake_message m = {.body = CONEY_STR("x")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_REJECT);
    assert_string_equal(t.seen.text, "");
}

static void next_is_run_once_and_with_its_own_delivery(void **state)
{
    (void)state;
    start_layered(&(coney_subscription){.handler = raw_handler}, run_twice, NULL);
    struct fake_message m = {.body = CONEY_STR("7")};
    assert_int_equal(stage_deliver(&t, &m), CONEY_SECOND);
    assert_int_equal(atomic_load(&t.calls), 1);
    assert_logged(&t, "middleware has called coney_next_run twice");
    stage_stop(&t);

    stage_make(&t);
    coney_delivery another = {0};
    start_layered(&(coney_subscription){.handler = raw_handler}, run_with_another, &another);
    assert_int_equal(stage_deliver(&t, &m), CONEY_SECOND);
    assert_int_equal(atomic_load(&t.calls), 0);
    assert_logged(&t, "with another delivery than its own");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_app_is_outermost_and_the_subscription_innermost),
        TEST(middleware_may_settle_without_the_handler),
        TEST(middleware_does_not_see_what_cannot_be_decoded),
        TEST(next_is_run_once_and_with_its_own_delivery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
