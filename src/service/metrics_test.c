/* metrics_test.c: what an app has counted, under which names and labels. */
#include "service/app.h"
#include "service/service_fixture.h"

static coney_settle settle_as_it_says(coney_delivery *d, coney_bytes body)
{
    char first = body.len > 0 ? *(const char *)body.data : '?';
    if (first == 'p' &&
        coney_publish_raw(coney_out_of(d), body, CONEY_STR(""), &(coney_publish_options){.to = "out"}) != CONEY_OK)
        return CONEY_FAILED;
    return first == 'r' ? CONEY_REJECT : first == 'q' ? CONEY_REQUEUE : first == 'l' ? coney_retry_after(1) : CONEY_ACK;
}
CONEY_RAW_HANDLER(settle_as_it_says);

static coney_settle take_rows(coney_batch *batch, const coney_bytes *rows, size_t count)
{
    (void)batch;
    (void)rows;
    (void)count;
    return CONEY_ACK;
}
CONEY_RAW_BATCH_HANDLER(take_rows);

/* A metric that is looked for, by its name and labels as "name=orders status=ack". */
struct search {
    const char *name;
    const char *labels;
    size_t found;
    double value;
    uint64_t count;
    uint64_t in_buckets;
    coney_metric_kind kind;
};

static void look(void *ctx, const coney_metric *metric)
{
    struct search *search = ctx;
    char labels[256] = "";
    for (uint32_t i = 0; i < metric->label_count; i++)
        text_append(labels, sizeof labels, "%s%s=%s", i > 0 ? " " : "", metric->labels[2 * i], metric->labels[2 * i + 1]);
    assert_non_null(metric->help);
    if (strcmp(metric->name, search->name) != 0 || strcmp(labels, search->labels) != 0)
        return;
    search->found++;
    search->value = metric->value;
    search->kind = metric->kind;
    search->count = metric->count;
    for (uint32_t i = 0; metric->kind == CONEY_METRIC_HISTOGRAM && i <= metric->bound_count; i++)
        search->in_buckets += metric->buckets[i];
}

static struct search find(coney_app *app, const char *name, const char *labels)
{
    struct search search = {.name = name, .labels = labels};
    coney_app_metrics(app, look, &search);
    if (search.found != 1)
        fail_msg("%s{%s} was given %zu times", name, labels, search.found);
    return search;
}

static void expect(coney_app *app, const char *name, const char *labels, int value)
{
    struct search search = find(app, name, labels);
    if ((int)search.value != value)
        fail_msg("%s{%s} is %g, expected %d", name, labels, search.value, value);
}

static void messages_are_counted_by_how_they_were_settled(void **state)
{
    (void)state;
    struct fake fake = {0};
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_app_configure(app, &(coney_app_options){.timed = true});
    coney_broker *broker = fake_broker(app, &fake);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = settle_as_it_says_handler});
    coney_subscribe(broker,
                    &(coney_subscription){
                        .source = CONEY_QUEUE("rows"), .handler = take_rows_handler, .batch = 2, .batch_wait = CONEY_OFF});
    expect(app, "coney_app_state", "", CONEY_APP_NEW);
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    static const char *const bodies[] = {"a", "a", "a", "p", "r", "q", "q", "l"};
    struct fake_message messages[sizeof bodies / sizeof bodies[0]] = {0};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        messages[i].body = coney_bytes_str(bodies[i]);
        fake_deliver(&fake, "orders", &messages[i]);
        fake_await_settled(&fake, &messages[i]);
    }
    struct fake_message rows[4] = {0};
    for (size_t i = 0; i < 4; i++)
        fake_deliver(&fake, "rows", &rows[i]);
    for (size_t i = 0; i < 4; i++)
        fake_await_settled(&fake, &rows[i]);

    expect(app, "coney_app_state", "", CONEY_APP_RUNNING);
    expect(app, "coney_app_subscriptions_active", "", 2);
    expect(app, "coney_app_brokers_connected", "", 1);
    struct search durations = find(app, "coney_consume_duration_seconds", "name=orders");
    assert_int_equal(durations.kind, CONEY_METRIC_HISTOGRAM);
    assert_int_equal(durations.count, 8);
    assert_int_equal(durations.in_buckets, 8);
    assert_true(durations.value >= 0 && durations.value < 5);
    assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);

    for (int i = 0; i < 2; i++) { /* also when it has been freed of what ran it */
        expect(app, "coney_messages_received_total", "name=orders", 8);
        expect(app, "coney_messages_consumed_total", "name=orders status=ack", 4);
        expect(app, "coney_messages_consumed_total", "name=orders status=nack", 4);
        expect(app, "coney_messages_processed_total", "name=orders outcome=ack", 4);
        expect(app, "coney_messages_processed_total", "name=orders outcome=nack_drop", 1);
        expect(app, "coney_messages_processed_total", "name=orders outcome=nack_requeue", 2);
        expect(app, "coney_messages_processed_total", "name=orders outcome=retry_after", 1);
        expect(app, "coney_messages_in_flight", "name=orders", 0);
        expect(app, "coney_handler_calls_total", "name=orders", 8);
        expect(app, "coney_messages_published_total", "name=fake status=ok", 1);
        expect(app, "coney_messages_published_total", "name=fake status=error", 0);
        expect(app, "coney_messages_processed_total", "name=rows outcome=ack", 4);
        expect(app, "coney_batch_size", "name=rows", 4);
        assert_int_equal(find(app, "coney_batch_size", "name=rows").count, 2);
        assert_int_equal(find(app, "coney_batch_size", "name=rows").in_buckets, 2);
    }
    coney_app_metrics(NULL, look, NULL);
    coney_app_metrics(app, NULL, NULL);
    coney_app_free(&app);
}

struct series {
    int count;
    double sum;
};

static void count_series(void *ctx, const coney_metric *metric)
{
    struct series *series = ctx;
    bool is_it = strcmp(metric->name, "coney_messages_published_total") == 0 && strcmp(metric->labels[1], "receipts") == 0 &&
                 strcmp(metric->labels[3], "ok") == 0;
    series->count += is_it;
    series->sum += is_it ? metric->value : 0;
}

static void publishers_of_one_name_are_one_metric(void **state)
{
    (void)state;
    struct fake fakes[2] = {{0}, {0}};
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_publisher *publishers[3];
    for (int i = 0; i < 2; i++)
        publishers[i] = coney_publisher_new(fake_broker(app, &fakes[i]), &(coney_publisher_options){.to = "receipts"});
    publishers[2] = coney_publisher_new(app->brokers, &(coney_publisher_options){.to = "receipts", .transient = true});
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(coney_publish_raw(coney_out_by_publisher(publishers[i]), CONEY_STR("x"), CONEY_STR(""), NULL),
                         CONEY_OK);
    struct series series = {0};
    coney_app_metrics(app, count_series, &series);
    assert_int_equal(series.count, 1);
    assert_int_equal((int)series.sum, 3);
    coney_app_free(&app);
}

static coney_settle keep_it(coney_delivery *d, coney_bytes body)
{
    (void)body;
    coney_kept **kept = coney_delivery_ctx(d);
    *kept = coney_delivery_keep(d);
    return CONEY_KEPT;
}
CONEY_RAW_HANDLER(keep_it);

static void what_a_stop_has_given_back_is_in_flight_no_more(void **state)
{
    (void)state;
    struct fake fake = {0};
    coney_kept *kept = NULL;
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_app_configure(app, &(coney_app_options){.drain_timeout = 1});
    coney_broker *broker = fake_broker(app, &fake);
    coney_subscribe(broker,
                    &(coney_subscription){
                        .source = CONEY_QUEUE("rows"), .handler = take_rows_handler, .batch = 9, .batch_wait = CONEY_OFF});
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE("kept"), .handler = keep_it_handler, .ctx = &kept});
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    struct fake_message messages[4] = {0};
    fake.fail_keep = true;
    assert_int_equal(fake_deliver(&fake, "rows", &messages[0]), CONEY_SECOND);
    fake.fail_keep = false;
    fake_deliver(&fake, "rows", &messages[1]);
    fake_deliver(&fake, "rows", &messages[2]);
    fake_deliver(&fake, "kept", &messages[3]);
    expect(app, "coney_messages_in_flight", "name=rows", 2);
    expect(app, "coney_messages_in_flight", "name=kept", 1);
    (void)coney_app_stop(app, NULL);
    expect(app, "coney_messages_in_flight", "name=rows", 0);
    expect(app, "coney_messages_in_flight", "name=kept", 0);
    (void)coney_kept_settle(&kept, CONEY_ACK);
    coney_app_free(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_counted_by_how_they_were_settled),
        cmocka_unit_test(publishers_of_one_name_are_one_metric),
        cmocka_unit_test(what_a_stop_has_given_back_is_in_flight_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
