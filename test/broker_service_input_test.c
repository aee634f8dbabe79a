/* Bodies that are not what a service asked for, from a classic queue, a quorum queue and a stream: what each policy does with them, what the log
 * says, and that the next message is handled. */
#define _GNU_SOURCE
#include "shop.h"
#include "stage.h"

#define ORDER(F) F(u64, id) F(string, customer) F(u16, count)
CONEY_MESSAGE(order, ORDER);
#define ORIGIN(F) F(u64, shop)
CONEY_TYPE(origin, ORIGIN);

enum { DEPTH = 10000 };

static struct node node;
static struct desk desk;
static struct shop shop;
static struct sights seen;
static char orders[80], spent[80];

static const enum source { CLASSIC, QUORUM, STREAM } sources[] = {CLASSIC, QUORUM, STREAM};
enum { SOURCES = sizeof sources / sizeof sources[0] };

/* Bodies ---------------------------------------------------------------------------------------------------------------- */

static char deep[64 + 2 * DEPTH]; /* {"id":1,"note":[[…]],"customer":"ada","count":1} */

static const struct bad {
    const char *body; /* NULL: `deep` */
    const char *content_type;
    const char *says; /* the path and what was found there */
} bads[] = {
    {"no order", "application/json", "not JSON: an unexpected character at byte 0"},
    {"", "application/json", "not JSON: it is empty"},
    {"{\"id\":1,\"customer\":\"ad", "application/json", "not JSON: it ends too early"},
    {"{\"id\":1,\"customer\":\"ada\",\"count\":1}}", "application/json", "not JSON: there is more after the value"},
    {NULL, "application/json", "nested deeper than 64"},
    {"{\"id\":1,\"customer\":\"ada\",\"count\":70000}", "application/json", "count: 70000 does not fit u16"},
    {"{\"id\":-1,\"customer\":\"ada\",\"count\":1}", "application/json", "id: -1 does not fit u64"},
    {"{\"id\":1e400,\"customer\":\"ada\",\"count\":1}", "application/json", "id: "},
    {"{\"id\":1,\"customer\":\"ada\",\"count\":1,\"id\":2}", "application/json", "id: the same field twice"},
    {"{\"id\":1,\"customer\":\"\xff\xfe\",\"count\":1}", "application/json", "not JSON: a text that is not UTF-8 at byte 20"},
    {"{\"id\":1,\"customer\":7,\"count\":1}", "application/json", "customer: the number 7 where string is expected"},
    {"{\"id\":1,\"count\":1}", "application/json", "customer: nothing where string is required"},
    {"{\"id\":1,\"customer\":null,\"count\":1}", "application/json", "customer: null where string is required"},
    {"[1,\"ada\",1]", "application/json", "a list where an object order is expected"},
    {"id=1", "text/plain", "content type 'text/plain' is not json's (application/json)"},
};
enum { BADS = sizeof bads / sizeof bads[0] };

static coney_bytes body_of(const struct bad *bad)
{
    return coney_bytes_str(bad->body != NULL ? bad->body : deep);
}

static void make_deep(void)
{
    char *at = stpcpy(deep, "{\"id\":1,\"note\":");
    memset(at, '[', DEPTH);
    memset(at + DEPTH, ']', DEPTH);
    strcpy(at + 2 * DEPTH, ",\"customer\":\"ada\",\"count\":1}");
}

/* The service ----------------------------------------------------------------------------------------------------------- */

static coney_settle take(coney_delivery *d, const order *o)
{
    see_one(&seen, o->id, coney_delivery_attempt(d));
    return CONEY_ACK;
}
CONEY_HANDLER(take, order);

static coney_settle take_name(coney_delivery *d, const order *o)
{
    (void)d;
    assert_true(o->customer.len == 3 && memcmp(o->customer.data, "a\0b", 3) == 0);
    see_one(&seen, o->id, 1);
    return CONEY_ACK;
}
CONEY_HANDLER(take_name, order);

static coney_settle take_from_shop(coney_delivery *d, const order *o)
{
    origin from;
    if (coney_delivery_headers(d, origin_type(), &from) != CONEY_OK)
        return coney_undecodable(d, NULL);
    see_one(&seen, o->id, from.shop);
    return CONEY_ACK;
}
CONEY_HANDLER(take_from_shop, order);

static coney_settle take_all(coney_batch *batch, const order *all, size_t count)
{
    (void)batch;
    for (size_t i = 0; i < count; i++)
        see_one(&seen, all[i].id, count);
    return CONEY_ACK;
}
CONEY_BATCH_HANDLER(take_all, order);

static void put(enum source source, coney_bytes body, const char *content_type)
{
    if (source == STREAM)
        desk_store(&desk, orders, body, content_type);
    else
        desk_put(&desk, orders, body, content_type);
}

/* Begins to serve the source with one subscription, of which the source is filled in. */
static void serve(enum source source, const coney_subscription *subscription)
{
    coney_subscription mine = *subscription;
    const coney_queue_source queue = {.name = orders,
                                      .type = source == QUORUM ? CONEY_QUEUE_QUORUM : CONEY_QUEUE_CLASSIC,
                                      .declare = true,
                                      .dead_letter_exchange = mine.dead_letter == NULL ? "" : NULL,
                                      .dead_letter_routing_key = mine.dead_letter == NULL ? spent : NULL};
    const coney_stream_source stream = {.name = orders, .declare = true, .start_if_new = CONEY_STREAM_FIRST};
    fresh_name(orders, sizeof orders, "orders");
    fresh_name(spent, sizeof spent, "spent");
    desk_declare(&desk, spent, CONEY_QUEUE_CLASSIC);
    shop_set(&shop, &node, NULL);
    shop_set_streams(&shop, &node);
    mine.source = source == STREAM ? coney_source_stream(&stream) : coney_source_queue(&queue);
    assert_int_equal(coney_subscribe(source == STREAM ? shop.streams : shop.rabbit, &mine), CONEY_OK);
    shop_start(&shop);
}

static void clear(enum source source)
{
    if (source == STREAM)
        coney_stream_delete(desk.streams, orders, NULL);
    else
        desk_delete(&desk, orders);
    desk_delete(&desk, spent);
    sights_free(&seen);
}

/* What policies do ------------------------------------------------------------------------------------------------------ */

/* A dead letter of each bad body, as it came, in any order. */
static void all_are_dead_letters(void)
{
    bool has[BADS] = {false};
    desk_wait_for_ready(&desk, spent, BADS);
    for (size_t i = 0; i < BADS; i++) {
        coney_bytes body = desk_take(&desk, spent, NULL, NULL);
        for (size_t j = 0; j < BADS; j++)
            has[j] = has[j] || (body.len == body_of(&bads[j]).len && memcmp(body.data, body_of(&bads[j]).data, body.len) == 0);
    }
    for (size_t j = 0; j < BADS; j++)
        if (!has[j])
            fail_msg("body %zu is not among the dead letters", j);
}

static void N08_what_cannot_be_decoded_is_rejected_and_named_and_the_next_message_is_handled(void **state)
{
    (void)state;
    for (size_t s = 0; s < SOURCES; s++) {
        serve(sources[s], &(coney_subscription){.name = "till", .handler = take_handler});
        for (uint64_t i = 0; i < BADS; i++) {
            put(sources[s], body_of(&bads[i]), bads[i].content_type);
            put(sources[s], CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), "application/json");
            sights_wait(&seen, i + 1);
            const char *line = shop_says(&shop, bads[i].says);
            assert_says(line, "subscription 'till': ");
            assert_says(line, "message 'desk-");
            assert_says(line, "cannot be decoded: ");
            assert_says(line, ": it is rejected");
        }
        assert_int_equal(shop_said(&shop, "cannot be decoded"), BADS);
        if (sources[s] != STREAM) /* which has nothing to reject to */
            all_are_dead_letters();
        assert_int_equal(shop_stop(&shop), 0);
        assert_int_equal(sights_count(&seen), BADS);
        clear(sources[s]);
    }
}

/* Every second body is bad: the others come, and these are dead letters. */
static void has_its_good_half(const coney_subscription *subscription)
{
    for (size_t s = 0; s < SOURCES; s++) {
        serve(sources[s], subscription);
        for (uint64_t i = 0; i < BADS; i++) {
            put(sources[s], body_of(&bads[i]), bads[i].content_type);
            if (sources[s] == STREAM)
                desk_store_orders(&desk, orders, i, 1);
            else
                desk_put_orders(&desk, orders, i, 1);
        }
        sights_have_all(&seen, 0, BADS);
        for (size_t i = 0; i < BADS; i++)
            shop_says(&shop, bads[i].says);
        if (sources[s] != STREAM)
            all_are_dead_letters();
        assert_int_equal(shop_stop(&shop), 0);
        assert_int_equal(sights_count(&seen), BADS);
        assert_true(sources[s] == STREAM || desk_ready(&desk, orders) == 0);
        clear(sources[s]);
    }
}

static void N08_lanes_go_on_after_what_cannot_be_decoded(void **state)
{
    (void)state;
    has_its_good_half(&(coney_subscription){.handler = take_handler, .lanes = 4});
}

static void N08_a_batch_has_what_could_be_decoded(void **state)
{
    (void)state;
    has_its_good_half(&(coney_subscription){.handler = take_all_handler, .batch = 7, .batch_wait = 50 * CONEY_MILLISECOND});
}

static void what_is_to_be_skipped_is_named_and_gone(void **state)
{
    (void)state;
    for (size_t s = 0; s < SOURCES; s++) {
        serve(sources[s], &(coney_subscription){.handler = take_handler, .on_undecodable = CONEY_POLICY_SKIP});
        for (size_t i = 0; i < BADS; i++)
            put(sources[s], body_of(&bads[i]), bads[i].content_type);
        put(sources[s], CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), "application/json");
        sights_wait(&seen, 1);
        assert_int_equal(shop_said(&shop, "cannot be decoded"), BADS);
        assert_int_equal(shop_said(&shop, "it is passed over"), BADS);
        assert_int_equal(shop_stop(&shop), 0);
        assert_int_equal(desk_ready(&desk, spent), 0);
        if (sources[s] != STREAM)
            assert_int_equal(desk_ready(&desk, orders), 0);
        clear(sources[s]);
    }
}

static void what_is_tried_again_in_vain_ends_with_the_dead_letters(void **state)
{
    (void)state;
    for (size_t s = 0; s < SOURCES; s++) {
        if (sources[s] == STREAM) /* whose dead letters go to a stream: broker_service_stream_app_test has them */
            continue;
        serve(sources[s], &(coney_subscription){.handler = take_handler,
                                                .on_undecodable = coney_policy_retry(20 * CONEY_MILLISECOND),
                                                .max_attempts = 3,
                                                .dead_letter = spent});
        put(sources[s], body_of(&bads[0]), bads[0].content_type);
        put(sources[s], CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), "application/json");
        uint64_t attempts = 0;
        desk_wait_for_ready(&desk, spent, 1);
        desk_take(&desk, spent, "x-coney-attempts", &attempts);
        assert_int_equal(attempts, 3);
        sights_wait(&seen, 1);
        shop_says(&shop, "cannot be decoded");
        assert_says(shop_says(&shop, "was delivered 3 times"), spent);
        assert_int_equal(shop_stop(&shop), 0);
        assert_int_equal(desk_ready(&desk, orders), 0);
        clear(sources[s]);
    }
}

static void stays_with_the_broker(const coney_subscription *subscription)
{
    for (size_t s = 0; s < SOURCES; s++) {
        serve(sources[s], subscription);
        put(sources[s], body_of(&bads[5]), bads[5].content_type);
        coney_call call = call_within(SUPPORT_PATIENCE);
        assert_int_equal(coney_app_wait(shop.app, &call), CONEY_ECORRUPT);
        assert_says(call.text, "subscription 'till': ");
        assert_says(call.text, bads[5].says);
        coney_app_health health = shop_health(&shop);
        assert_int_equal(health.status, CONEY_ECORRUPT);
        put(sources[s], CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), "application/json");
        shop_stop(&shop);
        assert_int_equal(sights_count(&seen), 0);
        if (sources[s] != STREAM)
            desk_wait_for_ready(&desk, orders, 2);
        clear(sources[s]);
    }
}

static void what_stops_the_app_stays_with_the_broker_and_the_app_says_why(void **state)
{
    (void)state;
    stays_with_the_broker(&(coney_subscription){.name = "till", .handler = take_handler, .on_undecodable = CONEY_POLICY_STOP});
    stays_with_the_broker(
        &(coney_subscription){.name = "till", .handler = take_handler, .lanes = 4, .on_undecodable = CONEY_POLICY_STOP});
    stays_with_the_broker(
        &(coney_subscription){.name = "till", .handler = take_all_handler, .batch = 1, .on_undecodable = CONEY_POLICY_STOP});
}

/* Others ---------------------------------------------------------------------------------------------------------------- */

static void a_NUL_in_a_text_is_a_byte_like_any_other(void **state)
{
    (void)state;
    serve(CLASSIC, &(coney_subscription){.handler = take_name_handler});
    put(CLASSIC, CONEY_STR("{\"id\":7,\"customer\":\"a\\u0000b\",\"count\":1}"), "application/json");
    sights_wait(&seen, 1);
    assert_int_equal(shop_stop(&shop), 0);
    clear(CLASSIC);
}

static void a_raw_NUL_in_a_text_is_no_JSON(void **state)
{
    (void)state;
    static const char body[] = "{\"id\":7,\"customer\":\"a\0b\",\"count\":1}";
    serve(CLASSIC, &(coney_subscription){.handler = take_handler});
    put(CLASSIC, coney_bytes_of(body, sizeof body - 1), "application/json");
    desk_wait_for_ready(&desk, spent, 1);
    shop_says(&shop, "not JSON: ");
    assert_int_equal(shop_stop(&shop), 0);
    clear(CLASSIC);
}

static void a_message_without_a_content_type_is_taken_and_any_other_if_that_was_asked(void **state)
{
    (void)state;
    serve(CLASSIC, &(coney_subscription){.handler = take_handler});
    put(CLASSIC, CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), NULL);
    put(CLASSIC, CONEY_STR("{\"id\":8,\"customer\":\"ada\",\"count\":1}"), "application/json; charset=utf-8");
    sights_wait(&seen, 2);
    assert_int_equal(shop_stop(&shop), 0);
    clear(CLASSIC);
    serve(CLASSIC, &(coney_subscription){.handler = take_handler, .any_content_type = true});
    put(CLASSIC, CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), "text/plain");
    sights_wait(&seen, 1);
    assert_int_equal(shop_stop(&shop), 0);
    clear(CLASSIC);
}

static void headers_that_are_missing_are_named_and_the_policy_holds(void **state)
{
    (void)state;
    for (size_t s = 0; s < SOURCES; s++) {
        serve(sources[s], &(coney_subscription){.name = "till", .handler = take_from_shop_handler});
        put(sources[s], CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), "application/json");
        const char *line = shop_says(&shop, "cannot be decoded: ");
        assert_says(line, "subscription 'till': ");
        assert_says(line, "shop: nothing where u64 is required");
        if (sources[s] != STREAM)
            desk_wait_for_ready(&desk, spent, 1);
        assert_int_equal(shop_stop(&shop), 0);
        assert_int_equal(sights_count(&seen), 0);
        clear(sources[s]);
    }
}

static void a_content_type_of_any_bytes_is_shown_without_them(void **state)
{
    (void)state;
    serve(CLASSIC, &(coney_subscription){.handler = take_handler});
    put(CLASSIC, CONEY_STR("{\"id\":7,\"customer\":\"ada\",\"count\":1}"), "\x1b[31mred\xff");
    const char *line = shop_says(&shop, "cannot be decoded: content type");
    assert_null(strchr(line, '\x1b'));
    assert_null(strchr(line, '\xff'));
    assert_int_equal(shop_stop(&shop), 0);
    clear(CLASSIC);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    make_deep();
    desk_open(&desk, &node);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(N08_what_cannot_be_decoded_is_rejected_and_named_and_the_next_message_is_handled),
        cmocka_unit_test(N08_lanes_go_on_after_what_cannot_be_decoded),
        cmocka_unit_test(N08_a_batch_has_what_could_be_decoded),
        cmocka_unit_test(what_is_to_be_skipped_is_named_and_gone),
        cmocka_unit_test(what_is_tried_again_in_vain_ends_with_the_dead_letters),
        cmocka_unit_test(what_stops_the_app_stays_with_the_broker_and_the_app_says_why),
        cmocka_unit_test(a_NUL_in_a_text_is_a_byte_like_any_other),
        cmocka_unit_test(a_raw_NUL_in_a_text_is_no_JSON),
        cmocka_unit_test(a_message_without_a_content_type_is_taken_and_any_other_if_that_was_asked),
        cmocka_unit_test(headers_that_are_missing_are_named_and_the_policy_holds),
        cmocka_unit_test(a_content_type_of_any_bytes_is_shown_without_them),
    };
    int failed = run_tests(tests);
    desk_close(&desk);
    return failed;
}
