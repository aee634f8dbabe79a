/* The transport over streams on a real node: where feeds begin and move, what is stored, what goes in from AMQP 0-9-1, cuts. What every transport must
 * do is in broker_conformance_stream_test.c. */
#define _GNU_SOURCE
#include "conformance.h"

#include "proxy.h"
#include "scene.h"

#include <coney/amqp.h>

#define NOTHING UINT64_MAX

static struct node node;
static coney_stream_env *admin;

/* What the next stand's broker and source are like. */
static struct {
    const char *uri;
    coney_stream_env_options options;
    coney_stream_source source;
} mine;

static coney_broker *broker(coney_app *app)
{
    return coney_app_stream(app, mine.uri != NULL ? mine.uri : node.uri, &mine.options);
}

static void source(const char *name, struct conformance_source *of)
{
    of->as.stream = mine.source;
    of->as.stream.name = name;
    of->as.stream.declare = true;
    of->source = coney_source_stream(&of->as.stream);
}

static void forget(const char *name)
{
    coney_stream_delete(admin, name, NULL);
}

static const struct conformance what = {.name = "stream", .broker = broker, .source = source, .forget = forget};

static void up(struct stand *stand, size_t sources, coney_stream_source like)
{
    mine.source = like;
    stand_up(stand, &what, sources);
}

static uint64_t stored(struct stand *stand, const char *name)
{
    coney_call call = {0};
    coney_status status = coney_stream_query_offset(admin, stand->names[0], name, &call);
    if (status == CONEY_ENOOFFSET)
        return NOTHING;
    must(status, &call, "query_offset");
    return call.value;
}

static void seek(struct listener *listener, coney_position position)
{
    coney_call call = stand_call();
    must(listener->stand->transport->seek(listener->feed, &position, &call), &call, "seek");
}

/* Where it begins --------------------------------------------------------------------------------------------------------------- */

static void offsets_are_stored_under_the_title_of_the_app(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST});
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 10);
    listener_wait(&listener, 10);
    uint64_t last = listener_of(&listener, 9).offset;
    listener_free(&listener);
    assert_int_equal(stored(&stand, "conformance"), last);
    stand_down(&stand);
}

static void without_a_consumer_name_nothing_is_stored_and_each_start_begins_anew(void **state)
{
    (void)state;
    struct stand stand;
    up(&stand, 1, (coney_stream_source){.consumer = "", .start_if_new = CONEY_STREAM_FIRST});
    stand_publish_numbers(&stand, 0, 0, 10);
    for (size_t round = 0; round < 2; round++) {
        struct listener listener = {.keep = false};
        listener_start(&listener, &stand, 0);
        listener_wait(&listener, 10);
        assert_string_equal(listener_of(&listener, 0).body, "0");
        listener_free(&listener);
    }
    assert_true(stored(&stand, "conformance") == NOTHING);
    stand_down(&stand);
}

static void with_start_always_each_start_begins_where_it_says(void **state)
{
    (void)state;
    struct stand stand;
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST, .start_always = true});
    stand_publish_numbers(&stand, 0, 0, 10);
    for (size_t round = 0; round < 2; round++) {
        struct listener listener = {.keep = false};
        listener_start(&listener, &stand, 0);
        listener_wait(&listener, 10);
        assert_string_equal(listener_of(&listener, 0).body, "0");
        listener_free(&listener);
        assert_true(stored(&stand, "conformance") != NOTHING);
    }
    stand_down(&stand);
}

static void a_declared_stream_has_the_limits_of_its_source(void **state)
{
    (void)state;
    struct stand stand;
    up(&stand, 1, (coney_stream_source){.max_length = 5000000, .max_age = 60 * CONEY_SECOND, .max_segment_size = 1000000});
    const coney_stream_spec same = {.max_length = 5000000, .max_age = 60 * CONEY_SECOND, .max_segment_size = 1000000};
    const coney_stream_spec other = {.max_length = 5000001};
    assert_int_equal(coney_stream_create(admin, stand.names[0], &same, NULL), CONEY_EEXIST);
    assert_int_equal(coney_stream_create(admin, stand.names[0], &other, NULL), CONEY_EPRECONDITION);
    stand_down(&stand);
}

/* Seeks ----------------------------------------------------------------------------------------------------------------------------- */

/* The handler stands at the first message of the new position, and nothing is done there. */
static void a_seek_is_stored_so_that_the_next_start_does_not_go_back(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST, .consumer = "mover"});
    stand_publish_numbers(&stand, 0, 0, 100);
    listener_start(&listener, &stand, 0);
    listener_wait(&listener, 100);
    uint64_t first = listener_of(&listener, 0).offset;
    listener.gate = 100;
    listener.has_gate = true;
    seek(&listener, (coney_position){.at = CONEY_STREAM_OFFSET, .offset = first + 50});
    listener_wait_at_gate(&listener);
    assert_string_equal(listener_of(&listener, 100).body, "50");
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (stored(&stand, "mover") != first + 49 && now_ms() < until)
        ;
    assert_int_equal(stored(&stand, "mover"), first + 49);
    listener_open_gate(&listener);
    listener_wait(&listener, 150);
    listener_stop(&listener);
    assert_int_equal(stored(&stand, "mover"), first + 99);
    listener_free(&listener);
    stand_down(&stand);
}

static void one_seek_may_follow_another(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST, .consumer = ""});
    stand_publish_numbers(&stand, 0, 0, 20);
    listener_start(&listener, &stand, 0);
    listener_wait(&listener, 20);
    uint64_t first = listener_of(&listener, 0).offset;
    size_t had = 20;
    for (uint64_t i = 0; i < 5; i++) {
        seek(&listener, (coney_position){.at = CONEY_STREAM_OFFSET, .offset = first + 19 - i});
        listener_wait(&listener, had + i + 1);
        assert_int_equal(number_of_body(listener_of(&listener, had).body), 19 - i);
        had = listener_count(&listener);
    }
    seek(&listener, (coney_position){.at = CONEY_STREAM_NEXT});
    listener_mark(&listener, 0);
    assert_int_equal(listener_count(&listener), had + 1);
    listener_free(&listener);
    stand_down(&stand);
}

/* The handler does not return: the seek says so at its deadline, and takes effect when it has. */
static void a_seek_that_waits_too_long_says_so_and_happens_later(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.has_gate = true, .gate = 1};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST});
    stand_publish_numbers(&stand, 0, 0, 20);
    listener_start(&listener, &stand, 0);
    listener_wait_at_gate(&listener);
    uint64_t first = listener_of(&listener, 0).offset;
    for (uint64_t i = 0; i < 2; i++) {
        coney_call call = {.deadline = 300 * CONEY_MILLISECOND};
        const coney_position position = {.at = CONEY_STREAM_OFFSET, .offset = first + 10 + i};
        assert_int_equal(stand.transport->seek(listener.feed, &position, &call), CONEY_ETIMEDOUT);
        assert_int_equal(listener_count(&listener), 2);
    }
    listener_open_gate(&listener);
    listener_wait(&listener, 2 + 9);
    assert_string_equal(listener_of(&listener, 1).body, "1");
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(number_of_body(listener_of(&listener, 2 + i).body), 11 + i);
    listener_free(&listener);
    stand_down(&stand);
}

static void a_feed_that_moves_can_be_unsubscribed(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.has_gate = true, .gate = 1};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST});
    stand_publish_numbers(&stand, 0, 0, 20);
    listener_start(&listener, &stand, 0);
    listener_wait_at_gate(&listener);
    coney_call call = {.deadline = 300 * CONEY_MILLISECOND};
    assert_int_equal(stand.transport->seek(listener.feed, &(coney_position){.at = CONEY_STREAM_FIRST}, &call), CONEY_ETIMEDOUT);
    call = (coney_call){.deadline = 100 * CONEY_MILLISECOND};
    assert_int_equal(stand.transport->unsubscribe(listener.feed, &call), CONEY_ETIMEDOUT);
    listener.feed = NULL;
    listener_open_gate(&listener);
    listener_wait(&listener, 2);
    stand_down(&stand);
    assert_int_equal(listener.count, 2);
    listener_free(&listener);
}

/* Publishing -------------------------------------------------------------------------------------------------------------------------- */

/* Until the publisher has heard that its stream is gone a publish may be accepted, and then its outcome tells. */
static coney_status publish_once(struct stand *stand)
{
    const struct outgoing message = {.to = coney_bytes_str(stand->names[0]), .body = CONEY_STR("x")};
    coney_status status = stand->transport->publish(stand->outlet, &message, stand->next_tag);
    if (status != CONEY_OK)
        return status;
    stand->next_tag++;
    return stand_outcomes(stand);
}

static void a_stream_that_was_deleted_is_missed_and_found_when_it_is_made_again(void **state)
{
    (void)state;
    struct stand stand;
    up(&stand, 1, (coney_stream_source){.consumer = ""});
    stand_publish(&stand, 0, "before");
    must(coney_stream_delete(admin, stand.names[0], NULL), NULL, "delete");
    coney_status status;
    do
        status = publish_once(&stand);
    while (status == CONEY_OK || status == CONEY_EUNKNOWN || status == CONEY_EREFUSED);
    assert_int_equal(status, CONEY_ENOTFOUND);
    must(coney_stream_create(admin, stand.names[0], NULL, NULL), NULL, "create");
    stand_publish(&stand, 0, "after");
    stand_down(&stand);
}

/* From AMQP 0-9-1 ------------------------------------------------------------------------------------------------------------------------ */

static void publish_over_amqp(const char *queue)
{
    char uri[64];
    snprintf(uri, sizeof uri, "amqp://127.0.0.1:%u", (unsigned)node.amqp_port);
    coney_call call = stand_call();
    coney_amqp *amqp = coney_amqp_open(uri, NULL, &call);
    must(call.status, &call, "coney_amqp_open");
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(amqp, NULL, &call);
    must(call.status, &call, "coney_amqp_publisher_open");
    const coney_field headers[] = {
        {CONEY_STR(KEY_HEADER), coney_value_string(CONEY_STR("k"))},
        {CONEY_STR(ATTEMPTS_HEADER), coney_value_i64(2)},
        {CONEY_STR("tenant"), coney_value_string(CONEY_STR("ada"))},
    };
    const coney_amqp_message message = {.exchange = CONEY_STR(""),
                                        .routing_key = coney_bytes_str(queue),
                                        .body = CONEY_STR("from AMQP"),
                                        .content_type = CONEY_STR("text/plain"),
                                        .correlation_id = CONEY_STR("c-1"),
                                        .type = CONEY_STR("order"),
                                        .reply_to = CONEY_STR("answers"),
                                        .headers = headers,
                                        .header_count = 3};
    must(coney_amqp_publish_wait(publisher, &message, &call), &call, "publish");
    coney_amqp_publisher_close(&publisher, NULL);
    coney_amqp_close(&amqp, NULL);
}

static void what_comes_from_amqp_091_says_the_same_of_itself(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = true};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST});
    listener_start(&listener, &stand, 0);
    publish_over_amqp(stand.names[0]);
    listener_wait(&listener, 1);
    struct arrival arrival = listener_of(&listener, 0);
    coney_delivery_info info = {0};
    stand.transport->info(&arrival.kept, &info);
    assert_string_equal(arrival.body, "from AMQP");
    assert_string_equal(arrival.content_type, "text/plain");
    assert_int_equal(arrival.attempt, 3);
    bytes_are(info.correlation_id, "c-1");
    bytes_are(info.reply_to, "answers");
    bytes_are(info.type, "order");
    bytes_are(info.key, "k");
    bytes_are(info.exchange, "");
    bytes_are(info.routing_key, stand.names[0]);
    coney_value value;
    assert_true(stand.transport->header(&arrival.kept, CONEY_STR("tenant"), &value));
    bytes_are(value.as.bytes, "ada");
    must(listener_settle(&listener, 0, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    stand_down(&stand);
}

/* Faults ------------------------------------------------------------------------------------------------------------------------------------ */

static void cuts_lose_nothing_and_the_feed_says_when_it_does_not_receive(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    struct proxy *proxy = proxy_start("127.0.0.1", node.stream_port);
    mine.uri = proxy_uri(proxy);
    mine.options = (coney_stream_env_options){.resolve_address = proxy_resolve,
                                              .resolver_ctx = proxy,
                                              .recovery_delay = 50 * CONEY_MILLISECOND,
                                              .recovery_max_delay = 500 * CONEY_MILLISECOND};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST});
    listener_start(&listener, &stand, 0);
    for (size_t round = 0; round < 3; round++) {
        stand_publish_numbers(&stand, 0, round * 200, 200);
        proxy_set_door(proxy, PROXY_REFUSES);
        proxy_cut(proxy, PROXY_RST);
        listener_wait_active(&listener, false);
        proxy_set_door(proxy, PROXY_ACCEPTS);
        listener_wait_active(&listener, true);
    }
    stand_publish(&stand, 0, "600");
    listener_wait(&listener, 601);
    assert_int_equal(listener_count(&listener), 601);
    for (size_t i = 0; i <= 600; i++)
        assert_int_equal(number_of_body(listener_of(&listener, i).body), i);
    listener_free(&listener);
    stand_down(&stand);
    proxy_stop(&proxy);
    memset(&mine, 0, sizeof mine);
}

static void a_stream_deleted_under_a_feed_ends_it(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1, (coney_stream_source){.start_if_new = CONEY_STREAM_FIRST});
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "x");
    listener_wait(&listener, 1);
    must(coney_stream_delete(admin, stand.names[0], NULL), NULL, "delete");
    listener_wait_ended(&listener);
    coney_call call = stand_call();
    (void)stand.transport->unsubscribe(listener.feed, &call);
    listener.feed = NULL;
    listener_free(&listener);
    stand_down(&stand);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    coney_call call = {0};
    admin = coney_stream_env_open(node.uri, NULL, &call);
    if (admin == NULL) {
        fprintf(stderr, "%s\n", call.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_stored_under_the_title_of_the_app),
        cmocka_unit_test(without_a_consumer_name_nothing_is_stored_and_each_start_begins_anew),
        cmocka_unit_test(with_start_always_each_start_begins_where_it_says),
        cmocka_unit_test(a_declared_stream_has_the_limits_of_its_source),
        cmocka_unit_test(a_seek_is_stored_so_that_the_next_start_does_not_go_back),
        cmocka_unit_test(one_seek_may_follow_another),
        cmocka_unit_test(a_seek_that_waits_too_long_says_so_and_happens_later),
        cmocka_unit_test(a_feed_that_moves_can_be_unsubscribed),
        cmocka_unit_test(a_stream_that_was_deleted_is_missed_and_found_when_it_is_made_again),
        cmocka_unit_test(what_comes_from_amqp_091_says_the_same_of_itself),
        cmocka_unit_test(cuts_lose_nothing_and_the_feed_says_when_it_does_not_receive),
        cmocka_unit_test(a_stream_deleted_under_a_feed_ends_it),
    };
    int failed = run_tests(tests);
    coney_stream_env_close(&admin, NULL);
    return failed;
}
