/* apps_test.c: apps of many kinds under test: sets, other codecs, transactions, topics that keep their messages, logs of their own. */
#include "testkit/testkit_fixture.h"

#define EVENT(M) M(order, "order.made") M(receipt, "receipt.made")
CONEY_SET(event, EVENT, header("event-type"));
CONEY_FUNCTIONS(event);

static size_t order_events, receipt_events;

static coney_settle on_event(coney_delivery *d, const event *e)
{
    (void)d;
    order_events += e->is == order_type();
    receipt_events += e->is == receipt_type();
    return CONEY_ACK;
}
CONEY_HANDLER(on_event, event);

static void variants_of_a_set_are_published_and_read_by_their_header(void **state)
{
    (void)state;
    coney_test *t = start(app_with((coney_subscription){.handler = on_event_handler}));
    order_events = receipt_events = 0;
    assert_int_equal(
        event_publish(coney_test_out(t), "orders", &(event){.is = receipt_type(), .value.as_receipt = {.order_id = 5}}),
        CONEY_OK);
    assert_int_equal(event_publish(coney_test_out(t), "orders", &(event){.is = order_type(), .value.as_order = {.id = 6}}),
                     CONEY_OK);
    assert_int_equal(order_events, 1);
    assert_int_equal(receipt_events, 1);
    assert_holds({
        const event *first = event_received(t, "orders", 0);
        assert_ptr_equal(first->is, receipt_type());
        assert_int_equal(first->value.as_receipt.order_id, 5);
        assert_int_equal(order_received(t, "orders", 1)->id, 6);
    });
    stop(t);
}

static coney_publisher *by_cbor;

static coney_settle publish_by_cbor(coney_delivery *d, const order *o)
{
    return receipt_publish(coney_out_by(d, by_cbor), NULL, &(receipt){.order_id = o->id}) == CONEY_OK ? CONEY_ACK
                                                                                                      : CONEY_FAILED;
}
CONEY_HANDLER(publish_by_cbor, order);

static void what_was_published_is_read_by_the_codec_that_wrote_it(void **state)
{
    (void)state;
    coney_app *app = app_with((coney_subscription){.handler = publish_by_cbor_handler});
    by_cbor = coney_publisher_new(coney_app_amqp(app, "amqp://localhost", NULL),
                                  &(coney_publisher_options){.to = "receipts", .codec = coney_cbor()});
    coney_test *t = start(app);
    coney_test_on(t, "amqp");
    assert_sent(t, 3);
    assert_holds({
        coney_test_expect_published_count(t, "receipts", 0);
        coney_test_on(t, "amqp-2");
        assert_int_equal(receipt_expect(t, "receipts")->order_id, 3);
    });
    stop(t);
}

static coney_publisher *by_exchange;

static coney_settle announce(coney_delivery *d, const order *o)
{
    coney_out out = coney_out_by(d, by_exchange);
    return receipt_publish(out, "receipt.made", &(receipt){.order_id = o->id}) == CONEY_OK ? CONEY_ACK : CONEY_FAILED;
}
CONEY_HANDLER(announce, order);

static void a_publish_to_an_exchange_is_found_by_its_routing_key(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    coney_declare_exchange(rabbit, &(coney_amqp_exchange){.name = "events", .type = "topic"});
    by_exchange = coney_publisher_new(rabbit, &(coney_publisher_options){.exchange = "events", .drop_unroutable = true});
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = announce_handler});
    coney_test *t = start(app);
    assert_sent(t, 4);
    assert_holds({
        const coney_test_message *m = coney_test_expect_published(t, "receipt.made");
        assert_string_equal(m->exchange.data, "events");
        assert_string_equal(m->info.routing_key.data, "receipt.made");
    });
    stop(t);
}

/* Transactions ------------------------------------------------------------------------------------------------------------------- */

static coney_publisher *by_transaction;

static coney_settle publish_two_and_play(coney_delivery *d, const order *o)
{
    coney_out out = coney_out_by(d, by_transaction);
    if (receipt_publish(out, "receipts", &(receipt){.order_id = o->id}) != CONEY_OK ||
        receipt_publish(out, "audit", &(receipt){.order_id = o->id}) != CONEY_OK)
        return CONEY_FAILED;
    return play(d, o);
}
CONEY_HANDLER(publish_two_and_play, order);

static void a_transaction_shows_nothing_unless_it_is_committed(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    by_transaction = coney_publisher_new(rabbit, &(coney_publisher_options){.name = "tx", .policy = CONEY_PUBLISH_TRANSACTION});
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = publish_two_and_play_handler});
    coney_test *t = start(app);
    SCRIPT(CONEY_REJECT, CONEY_ACK);
    assert_sent(t, 1);
    assert_holds(coney_test_expect_published_count(t, "receipts", 0));
    assert_sent(t, 2);
    assert_holds({
        assert_int_equal(receipt_expect(t, "receipts")->order_id, 2);
        coney_test_expect_published_count(t, "audit", 1);
        coney_test_expect_waiting(t, "receipts", 1);
    });
    stop(t);
}

/* Topics ------------------------------------------------------------------------------------------------------------------------- */

static uint64_t ids[8];
static size_t id_count;

static coney_settle note(coney_delivery *d, const order *o)
{
    (void)d;
    ids[id_count++ % 8] = o->id;
    return CONEY_ACK;
}
CONEY_HANDLER(note, order);

static void a_topic_that_keeps_its_messages_can_be_read_again(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("shop", "1");
    coney_broker *inside = coney_app_memory(app, &(coney_memory_options){.retain_messages = 2});
    coney_subscribe(inside, &(coney_subscription){.source = CONEY_TOPIC("orders"), .handler = note_handler});
    coney_test *t = start(app);
    id_count = 0;
    for (uint64_t id = 1; id <= 3; id++)
        assert_sent(t, id);
    assert_int_equal(id_count, 3);
    assert_int_equal(coney_app_seek(coney_test_app(t), "orders", &(coney_position){.at = CONEY_STREAM_FIRST}, NULL), CONEY_OK);
    assert_int_equal(id_count, 3);
    coney_test_settle(t);
    assert_int_equal(id_count, 5);
    assert_int_equal(ids[3], 2);
    assert_int_equal(ids[4], 3);
    stop(t);
}

static void an_app_that_is_stopped_and_started_again_goes_on_where_it_was(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("shop", "1");
    coney_broker *streams = coney_app_stream(app, "rabbitmq-stream://localhost", NULL);
    coney_subscribe(streams, &(coney_subscription){.source = CONEY_STREAM("orders", .start_if_new = CONEY_STREAM_FIRST),
                                                   .handler = note_handler});
    coney_test *t = start(app);
    id_count = 0;
    assert_sent(t, 1);
    assert_int_equal(coney_app_stop(app, NULL), CONEY_OK);
    assert_int_equal(send(t, 2), CONEY_ECLOSED);
    assert_int_equal(coney_app_start(app, NULL), CONEY_OK);
    assert_sent(t, 3);
    assert_int_equal(id_count, 2);
    assert_int_equal(ids[1], 3);
    stop(t);
}

/* Logs --------------------------------------------------------------------------------------------------------------------------- */

static char own_log[4096];

static void log_here(void *ctx, coney_log_level level, const char *text)
{
    assert_ptr_equal(ctx, own_log);
    size_t len = strlen(own_log);
    snprintf(own_log + len, sizeof own_log - len, "%d %s\n", (int)level, text);
}

static coney_test *start_logging(bool keep_log)
{
    coney_app *app = coney_app_new("shop", "1");
    own_log[0] = '\0';
    coney_app_configure(
        app, &(coney_app_options){.on_log = log_here, .log_ctx = own_log, .log_level = CONEY_LOG_WARNING, .state = own_log});
    coney_broker *rabbit = coney_app_amqp(app, "amqp://localhost", NULL);
    coney_subscribe(rabbit, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = play_handler});
    coney_test *t = coney_test_start(app, &(coney_test_options){.on_failure = on_failure, .keep_log = keep_log});
    SCRIPT(CONEY_FAILED);
    assert_sent(t, 1);
    return t;
}

static void the_apps_own_log_has_its_lines_when_they_are_to_be_kept(void **state)
{
    (void)state;
    coney_test *t = start_logging(true);
    assert_non_null(strstr(own_log, "2 subscription 'orders': "));
    assert_null(strstr(own_log, "has started"));
    stop(t);
    t = start_logging(false);
    assert_string_equal(own_log, "");
    assert_holds({
        coney_test_expect_logged(t, CONEY_LOG_WARNING, "has failed");
        coney_test_expect_logged(t, CONEY_LOG_INFO, "has started");
    });
    assert_fails("no line of level error has 'has failed'", coney_test_expect_logged(t, CONEY_LOG_ERROR, "has failed"));
    coney_test_stop(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_of_a_set_are_published_and_read_by_their_header),
        cmocka_unit_test(what_was_published_is_read_by_the_codec_that_wrote_it),
        cmocka_unit_test(a_publish_to_an_exchange_is_found_by_its_routing_key),
        cmocka_unit_test(a_transaction_shows_nothing_unless_it_is_committed),
        cmocka_unit_test(a_topic_that_keeps_its_messages_can_be_read_again),
        cmocka_unit_test(an_app_that_is_stopped_and_started_again_goes_on_where_it_was),
        cmocka_unit_test(the_apps_own_log_has_its_lines_when_they_are_to_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
