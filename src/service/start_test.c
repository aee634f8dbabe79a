/* start_test.c: the order in which an app comes up, and how a start that fails goes back. */
#include "service/app.h"
#include "service/service_fixture.h"

static coney_settle ack(coney_delivery *d, coney_bytes body)
{
    (void)d;
    (void)body;
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(ack);

/* A hook that writes its name down, and fails where it is told to. */
struct hooked {
    struct journal *journal;
    const char *name;
    coney_status status;
    const char *text;
};

static coney_status run_hook(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    struct hooked *hooked = ctx;
    journal_add(hooked->journal, "%s", hooked->name);
    if (hooked->text != NULL)
        text_print(call->text, sizeof call->text, "%s", hooked->text);
    return hooked->status;
}

struct lines {
    struct lock lock;
    char text[8192];
};

static void take_line(void *ctx, coney_log_level level, const char *text)
{
    (void)level;
    struct lines *lines = ctx;
    lock_acquire(&lines->lock);
    text_append(lines->text, sizeof lines->text, "%s\n", text);
    lock_release(&lines->lock);
}

/* Two brokers, a subscription on each, a publisher on the first, two hooks of each stage. */
struct scene {
    struct journal journal;
    struct lines lines;
    struct fake fakes[2];
    struct hooked hooks[8];
    coney_app *app;
    coney_broker *brokers[2];
};

static void add_hook(struct scene *scene, int index, const char *name, coney_stage stage)
{
    scene->hooks[index] = (struct hooked){.journal = &scene->journal, .name = name};
    coney_app_on(scene->app, stage, run_hook, &scene->hooks[index]);
}

static void begin(struct scene *scene, const coney_app_options *options)
{
    memset(scene, 0, sizeof *scene);
    scene->app = coney_app_new("orders", "1.0.0");
    coney_app_options with_log = options != NULL ? *options : (coney_app_options){0};
    with_log.on_log = take_line;
    with_log.log_ctx = &scene->lines;
    coney_app_configure(scene->app, &with_log);
    scene->fakes[0] = (struct fake){.journal = &scene->journal, .name = "a"};
    scene->fakes[1] = (struct fake){.journal = &scene->journal, .name = "b"};
    scene->brokers[0] = fake_broker(scene->app, &scene->fakes[0]);
    scene->brokers[1] = fake_broker(scene->app, &scene->fakes[1]);
    coney_broker_label(scene->brokers[0], "a");
    coney_broker_label(scene->brokers[1], "b");
    coney_publisher_new(scene->brokers[0], &(coney_publisher_options){.name = "receipts", .to = "receipts"});
    coney_subscribe(scene->brokers[0], &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = ack_handler});
    coney_subscribe(scene->brokers[1], &(coney_subscription){.source = CONEY_QUEUE("events"), .handler = ack_handler});
    add_hook(scene, 0, "before1", CONEY_BEFORE_START);
    add_hook(scene, 1, "before2", CONEY_BEFORE_START);
    add_hook(scene, 2, "after1", CONEY_AFTER_START);
    add_hook(scene, 3, "after2", CONEY_AFTER_START);
    add_hook(scene, 4, "stop1", CONEY_BEFORE_STOP);
    add_hook(scene, 5, "stop2", CONEY_BEFORE_STOP);
    add_hook(scene, 6, "end1", CONEY_AFTER_STOP);
    add_hook(scene, 7, "end2", CONEY_AFTER_STOP);
}

static void end(struct scene *scene)
{
    coney_app_free(&scene->app);
    assert_true(scene->fakes[0].is_freed && scene->fakes[1].is_freed);
}

#define UP                                                                                                                     \
    "before1 before2 connect(a) connect(b) declare(a) declare(b) open_outlet(a) open_outlet(receipts) open_outlet(b) "         \
    "subscribe(orders) subscribe(events) after1 after2"
#define DOWN                                                                                                                   \
    "stop2 stop1 unsubscribe(orders) unsubscribe(events) close_outlet(a) close_outlet(receipts) close_outlet(b) "              \
    "disconnect(b) disconnect(a) end2 end1"

static void stages_come_in_their_order_and_stopping_ones_in_the_reverse(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    coney_call call = {0};
    assert_int_equal(coney_app_start(scene.app, &call), CONEY_OK);
    assert_string_equal(call.text, "");
    assert_string_equal(scene.journal.text, UP);
    journal_clear(&scene.journal);
    assert_int_equal(coney_app_stop(scene.app, &call), CONEY_OK);
    assert_string_equal(scene.journal.text, DOWN);
    end(&scene);
}

static void an_app_may_be_started_again_and_works_as_before(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    for (int i = 0; i < 3; i++) {
        journal_clear(&scene.journal);
        assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
        assert_string_equal(scene.journal.text, UP);
        struct fake_message m = {.body = CONEY_STR("x")};
        assert_int_equal(fake_deliver(&scene.fakes[0], "orders", &m), CONEY_ACK);
        assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    }
    end(&scene);
}

static void a_step_that_fails_is_named_and_what_was_up_is_taken_down(void **state)
{
    (void)state;
    static const struct {
        int fake;
        const char *step;
        const char *text;
        const char *after; /* what happens from the failure on */
    } rows[] = {
        {0, "connect", "broker 'a': ", "connect(a) end2 end1"},
        {1, "connect", "broker 'b': ", "connect(b) disconnect(a) end2 end1"},
        {1, "declare", "broker 'b': ", "declare(b) disconnect(b) disconnect(a) end2 end1"},
        {0, "open_outlet", "publisher 'a': ", "open_outlet(a) disconnect(b) disconnect(a) end2 end1"},
        {1, "open_outlet",
         "publisher 'b': ", "open_outlet(b) close_outlet(a) close_outlet(receipts) disconnect(b) disconnect(a) end2 end1"},
        {1, "subscribe", "subscription 'events': ",
         "subscribe(events) unsubscribe(orders) close_outlet(a) close_outlet(receipts) close_outlet(b) disconnect(b) "
         "disconnect(a) end2 end1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scene scene;
        begin(&scene, NULL);
        struct fake *fake = &scene.fakes[rows[i].fake];
        fake->fail_at = rows[i].step;
        fake->fail_status = CONEY_EACCESS;
        coney_call call = {0};
        assert_int_equal(coney_app_start(scene.app, &call), CONEY_EACCESS);
        assert_int_equal(call.status, CONEY_EACCESS);
        assert_int_equal(call.code, 541);
        assert_memory_equal(call.text, rows[i].text, strlen(rows[i].text));
        assert_non_null(strstr(call.text, "the fake was told to fail"));
        size_t tail = strlen(rows[i].after);
        size_t len = strlen(scene.journal.text);
        assert_true(len > tail);
        assert_string_equal(scene.journal.text + len - tail, rows[i].after);

        coney_app_health health;
        coney_app_get_health(scene.app, &health);
        assert_int_equal(health.phase, CONEY_APP_FAILED);
        assert_int_equal(health.status, CONEY_EACCESS);
        assert_int_equal(health.connected, 0);
        assert_int_equal(health.active, 0);

        fake->fail_at = NULL;
        journal_clear(&scene.journal);
        assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
        assert_string_equal(scene.journal.text, UP);
        end(&scene);
    }
}

static void a_starting_hook_that_fails_is_unwound_by_what_had_been_started(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    scene.hooks[1].status = CONEY_ENOTFOUND;
    scene.hooks[1].text = "no database at /var/orders.db";
    coney_call call = {0};
    assert_int_equal(coney_app_start(scene.app, &call), CONEY_ENOTFOUND);
    assert_string_equal(call.text, "hook 'before-start': no database at /var/orders.db");
    assert_string_equal(scene.journal.text, "before1 before2 end2 end1");

    journal_clear(&scene.journal);
    scene.hooks[1].status = CONEY_OK;
    scene.hooks[2].status = CONEY_EREFUSED;
    scene.hooks[2].text = NULL;
    assert_int_equal(coney_app_start(scene.app, &call), CONEY_EREFUSED);
    assert_non_null(strstr(call.text, coney_status_text(CONEY_EREFUSED)));
    assert_non_null(strstr(scene.journal.text, "after1 stop2 stop1 unsubscribe(orders)"));
    assert_non_null(strstr(scene.journal.text, "disconnect(a) end2 end1"));
    end(&scene);
}

static void failures_of_stopping_hooks_are_logged_and_stop_nothing(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    scene.hooks[4].status = CONEY_ETIMEDOUT;
    scene.hooks[4].text = "the cache was not written";
    scene.hooks[7].status = CONEY_EINVAL;
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    journal_clear(&scene.journal);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    assert_string_equal(scene.journal.text, DOWN);
    assert_non_null(strstr(scene.lines.text, "hook 'before-stop': the cache was not written"));
    assert_non_null(strstr(scene.lines.text, "hook 'after-stop': "));
    end(&scene);
}

static void a_step_of_the_stop_that_fails_is_reported_and_the_others_are_taken(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    scene.fakes[0].fail_at = "unsubscribe";
    scene.fakes[1].fail_at = "disconnect";
    journal_clear(&scene.journal);
    coney_call call = {0};
    assert_int_equal(coney_app_stop(scene.app, &call), CONEY_ELOST);
    assert_non_null(strstr(call.text, "subscription 'orders': the fake was told to fail at unsubscribe"));
    assert_string_equal(scene.journal.text, DOWN);
    end(&scene);
}

static void a_running_app_is_not_started_again_nor_changed(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    coney_call call = {0};
    assert_int_equal(coney_app_start(scene.app, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "runs already"));
    assert_int_equal(
        coney_subscribe(scene.brokers[0], &(coney_subscription){.source = CONEY_QUEUE("x"), .handler = ack_handler}),
        CONEY_EINVAL);
    coney_app_on(scene.app, CONEY_AFTER_STOP, run_hook, &scene.hooks[0]);
    assert_non_null(strstr(scene.lines.text, "coney_app_on: the app runs"));
    struct fake late = {0};
    assert_null(fake_broker(scene.app, &late));
    assert_true(late.is_freed);
    journal_clear(&scene.journal);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    assert_string_equal(scene.journal.text, DOWN);
    end(&scene);
}

static void calls_that_would_not_block_are_refused(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    coney_call call = {.on_done = (void (*)(void *, const coney_call *))(uintptr_t)1};
    assert_int_equal(coney_app_start(scene.app, &call), CONEY_EINVAL);
    assert_int_equal(coney_app_wait(scene.app, &call), CONEY_EINVAL);
    assert_int_equal(coney_app_stop(scene.app, &call), CONEY_EINVAL);
    assert_int_equal(coney_app_start(NULL, NULL), CONEY_EINVAL);
    assert_int_equal(coney_app_wait(NULL, NULL), CONEY_EINVAL);
    assert_int_equal(coney_app_stop(NULL, NULL), CONEY_OK);
    assert_int_equal(coney_app_check(NULL, NULL), CONEY_EINVAL);
    end(&scene);
}

static void health_counts_what_is_there(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    coney_app_health health;
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_NEW);
    assert_int_equal(health.subscriptions, 0);
    assert_int_equal(health.brokers, 2);
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_RUNNING);
    assert_int_equal(health.subscriptions, 2);
    assert_int_equal(health.active, 2);
    assert_int_equal(health.connected, 2);
    assert_string_equal(health.reason, "");
    struct sink *sink = scene.fakes[0].feeds[0].feed.sink;
    sink->active(sink, false);
    sink->active(sink, false);
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.active, 1);
    sink->active(sink, true);
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.active, 2);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_STOPPED);
    assert_int_equal(health.active, 0);
    assert_int_equal(health.connected, 0);
    coney_app_get_health(NULL, &health);
    assert_int_equal(health.brokers, 0);
    end(&scene);
}

static void a_subscription_that_ends_is_a_warning_and_counts_as_not_active(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, NULL);
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    struct sink *sink = scene.fakes[0].feeds[0].feed.sink;
    sink->ended(sink, CONEY_ENOTFOUND, "the queue was deleted");
    sink->active(sink, true); /* the end is the last word */
    coney_app_health health;
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_RUNNING);
    assert_int_equal(health.active, 1);
    assert_int_equal(health.subscriptions, 2);
    assert_non_null(
        strstr(scene.lines.text, "subscription 'orders' has ended and receives nothing any more: the queue was deleted"));
    coney_call call = {.deadline = CONEY_MILLISECOND};
    assert_int_equal(coney_app_wait(scene.app, &call), CONEY_ETIMEDOUT);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.active, 2);
    end(&scene);
}

static void a_subscription_that_ends_stops_the_app_where_it_says_so(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, &(coney_app_options){.on_subscription_end = CONEY_ON_END_STOP});
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    struct sink *sink = scene.fakes[1].feeds[0].feed.sink;
    sink->ended(sink, CONEY_ENOTFOUND, "the queue was deleted");
    coney_call call = {0};
    assert_int_equal(coney_app_wait(scene.app, &call), CONEY_ENOTFOUND);
    assert_string_equal(call.text, "subscription 'events' has ended: the queue was deleted");
    coney_app_health health;
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_FAILED);
    assert_string_equal(health.reason, call.text);
    assert_int_equal(coney_app_stop(scene.app, NULL), CONEY_OK);
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_FAILED);
    assert_int_equal(coney_app_start(scene.app, NULL), CONEY_OK);
    coney_app_get_health(scene.app, &health);
    assert_int_equal(health.phase, CONEY_APP_RUNNING);
    end(&scene);
}

struct onlooker {
    coney_app *app;
    pthread_t thread;
    _Atomic bool is_over;
    uint64_t seen;
    uint64_t published;
};

static void see_metric(void *ctx, const coney_metric *metric)
{
    struct onlooker *onlooker = ctx;
    onlooker->seen += strlen(metric->name) + (metric->label_count > 0 ? strlen(metric->labels[1]) : 0);
}

/* All that any thread may ask of an app at any time. */
static void *look_on(void *arg)
{
    struct onlooker *onlooker = arg;
    coney_position position = {0};
    coney_publish_options options = {.to = "x"};
    while (!atomic_load(&onlooker->is_over)) {
        coney_app_health health;
        coney_call call = {.deadline = CONEY_MILLISECOND};
        coney_app_get_health(onlooker->app, &health);
        coney_app_metrics(onlooker->app, see_metric, onlooker);
        (void)coney_app_check(onlooker->app, NULL);
        (void)coney_app_wait(onlooker->app, &call);
        (void)coney_app_seek(onlooker->app, "orders", &position, &call);
        coney_out out = coney_out_of_broker(onlooker->app->brokers);
        onlooker->published += coney_publish_raw(out, CONEY_STR("x"), CONEY_STR(""), &options) == CONEY_OK;
    }
    return NULL;
}

static void anybody_may_look_on_while_an_app_starts_and_stops(void **state)
{
    (void)state;
    struct fake fake = {.publish_with = CONEY_EAGAIN};
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_broker *broker = fake_broker(app, &fake);
    coney_publisher_new(broker, &(coney_publisher_options){.to = "receipts"});
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = ack_handler, .lanes = 2});
    struct onlooker onlooker = {.app = app};
    assert_int_equal(pthread_create(&onlooker.thread, NULL, look_on, &onlooker), 0);
    for (int i = 0; i < 20; i++) {
        struct fake_message m = {.body = CONEY_STR("x")};
        assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
        fake_deliver(&fake, "orders", &m);
        assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);
        assert_true(m.settles <= 1);
    }
    atomic_store(&onlooker.is_over, true);
    pthread_join(onlooker.thread, NULL);
    assert_true(onlooker.seen > 0);
    assert_int_equal(onlooker.published, 0);
    coney_app_free(&app);
}

static void a_very_short_handler_limit_keeps_no_core_busy(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_app_configure(app, &(coney_app_options){.handler_limit = 1});
    int64_t began = time_now();
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    coney_call call = {.deadline = 10 * CONEY_MILLISECOND};
    assert_int_equal(coney_app_wait(app, &call), CONEY_ETIMEDOUT);
    assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);
    int64_t looks = (int64_t)app->watch.turn;
    assert_true(looks <= (time_now() - began) / CONEY_MILLISECOND + 1);
    coney_app_free(&app);
}

static void the_state_is_the_options_until_a_hook_sets_another(void **state)
{
    (void)state;
    int first = 0;
    int second = 0;
    struct scene scene;
    begin(&scene, &(coney_app_options){.state = &first});
    assert_ptr_equal(coney_app_state(scene.app), &first);
    coney_app_set_state(scene.app, &second);
    assert_ptr_equal(coney_app_state(scene.app), &second);
    assert_null(coney_app_state(NULL));
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_come_in_their_order_and_stopping_ones_in_the_reverse),
        cmocka_unit_test(an_app_may_be_started_again_and_works_as_before),
        cmocka_unit_test(a_step_that_fails_is_named_and_what_was_up_is_taken_down),
        cmocka_unit_test(a_starting_hook_that_fails_is_unwound_by_what_had_been_started),
        cmocka_unit_test(failures_of_stopping_hooks_are_logged_and_stop_nothing),
        cmocka_unit_test(a_step_of_the_stop_that_fails_is_reported_and_the_others_are_taken),
        cmocka_unit_test(a_running_app_is_not_started_again_nor_changed),
        cmocka_unit_test(calls_that_would_not_block_are_refused),
        cmocka_unit_test(health_counts_what_is_there),
        cmocka_unit_test(a_subscription_that_ends_is_a_warning_and_counts_as_not_active),
        cmocka_unit_test(a_subscription_that_ends_stops_the_app_where_it_says_so),
        cmocka_unit_test(anybody_may_look_on_while_an_app_starts_and_stops),
        cmocka_unit_test(a_very_short_handler_limit_keeps_no_core_busy),
        cmocka_unit_test(the_state_is_the_options_until_a_hook_sets_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
