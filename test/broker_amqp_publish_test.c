/* Publishing to a real node: confirms, returns, culprits, bounds, cuts, batches, transactions. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scissors.h"

static struct node node;

static void all_are(struct outcomes *outcomes, size_t count, coney_status status)
{
    outcomes_wait(outcomes, count);
    assert_int_equal(outcomes_with(outcomes, status), count);
    assert_int_equal(outcomes_count(outcomes), count);
}

/* Fails unless the queue holds exactly the bodies "m<first>" … in this order. */
static void queue_holds(struct amqp_scene *scene, uint64_t first, size_t count)
{
    char body[32], expected[32];
    assert_int_equal(amqp_scene_ready(scene, NULL), count);
    for (uint64_t n = first; n < first + count; n++) {
        snprintf(expected, sizeof expected, "m%llu", (unsigned long long)n);
        assert_true(amqp_scene_take(scene, body, sizeof body));
        assert_string_equal(body, expected);
    }
}

static void every_message_is_confirmed_once_and_the_queue_has_them_in_order(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 200);
    amqp_publisher_close(&publisher);
    all_are(&outcomes, 200, CONEY_OK);
    outcomes_are_each_once(&outcomes, 0, 200);
    queue_holds(&scene, 0, 200);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void twenty_thousand_messages_are_confirmed_and_counted(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 20000);
    assert_int_equal(coney_amqp_publisher_flush(publisher, NULL), CONEY_OK);
    coney_amqp_publisher_stats stats;
    assert_int_equal(coney_amqp_publisher_get_stats(publisher, &stats), CONEY_OK);
    assert_int_equal(stats.accepted, 20000);
    assert_int_equal(stats.confirmed, 20000);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.pending_bytes, 0);
    amqp_publisher_close(&publisher);
    outcomes_are_each_once(&outcomes, 0, 20000);
    assert_int_equal(amqp_scene_ready(&scene, NULL), 20000);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void C02_an_empty_body_is_a_message(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    char body[8];
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    assert_int_equal(coney_amqp_publish(publisher, &(coney_amqp_message){.tag = 1}), CONEY_OK);
    assert_int_equal(coney_amqp_publish(publisher, &(coney_amqp_message){.body = CONEY_STR("z"), .tag = 2}), CONEY_OK);
    all_are(&outcomes, 2, CONEY_OK);
    assert_true(amqp_scene_take(&scene, body, sizeof body));
    assert_string_equal(body, "");
    assert_true(amqp_scene_take(&scene, body, sizeof body));
    assert_string_equal(body, "z");
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void a_body_of_many_frames_arrives_as_it_was(void **state)
{
    (void)state;
    struct amqp_scene scene;
    size_t len = 1000003;
    uint8_t *body = malloc(len);
    assert_non_null(body);
    for (size_t i = 0; i < len; i++)
        body[i] = (uint8_t)(i * 31 + i / 997);
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    coney_call call = {0};
    coney_amqp_message message = {.body = coney_bytes_of(body, len)};
    assert_int_equal(coney_amqp_publish_wait(publisher, &message, &call), CONEY_OK);
    coney_kept *kept = NULL;
    assert_int_equal(coney_amqp_get(scene.rabbit, scene.queue, &kept, NULL), CONEY_OK);
    assert_non_null(kept);
    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(kept);
    assert_int_equal(delivery->body.len, len);
    assert_memory_equal(delivery->body.data, body, len);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    amqp_publisher_close(&publisher);
    free(body);
    amqp_scene_down(&scene);
}

static coney_amqp_properties properties_of(const coney_kept *kept)
{
    coney_amqp_properties properties;
    assert_int_equal(coney_amqp_delivery_properties(coney_amqp_kept_delivery(kept), &properties), CONEY_OK);
    return properties;
}

static void is_text(coney_bytes bytes, const char *text)
{
    assert_int_equal(bytes.len, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.len);
}

static void every_property_arrives(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    const coney_field headers[] = {{.key = CONEY_STR("n"), .value = coney_value_i32(7)},
                                   {.key = CONEY_STR("s"), .value = coney_value_string(CONEY_STR("text"))}};
    coney_amqp_message message = {
        .body = CONEY_STR("body"),
        .content_type = CONEY_STR("application/json"),
        .content_encoding = CONEY_STR("gzip"),
        .correlation_id = CONEY_STR("c-1"),
        .reply_to = CONEY_STR("answers"),
        .message_id = CONEY_STR("m-1"),
        .type = CONEY_STR("order"),
        .user_id = CONEY_STR("guest"),
        .app_id = CONEY_STR("test"),
        .headers = headers,
        .header_count = 2,
        .expiration = 60 * CONEY_SECOND,
        .timestamp = 1700000000000,
        .priority = 3,
        .has_priority = true,
    };
    coney_call call = {0};
    if (coney_amqp_publish_wait(publisher, &message, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    coney_kept *kept = NULL;
    assert_int_equal(coney_amqp_get(scene.rabbit, scene.queue, &kept, NULL), CONEY_OK);
    coney_amqp_properties p = properties_of(kept);
    is_text(p.content_type, "application/json");
    is_text(p.content_encoding, "gzip");
    is_text(p.correlation_id, "c-1");
    is_text(p.reply_to, "answers");
    is_text(p.message_id, "m-1");
    is_text(p.type, "order");
    is_text(p.user_id, "guest");
    is_text(p.app_id, "test");
    is_text(p.expiration, "60000");
    assert_int_equal(p.timestamp, 1700000000000);
    assert_true(p.has_priority && p.priority == 3);
    assert_true(p.persistent);
    coney_value value;
    assert_true(coney_amqp_delivery_header(coney_amqp_kept_delivery(kept), CONEY_STR("n"), &value));
    assert_int_equal(value.as.i64, 7);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
}

static void a_content_type_alone_arrives_and_transient_means_transient(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    for (int transient = 0; transient < 2; transient++) {
        coney_amqp_publisher_options options = {.transient = transient != 0};
        coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, &options);
        coney_amqp_message message = {.body = CONEY_STR("longer than sixteen bytes"), .content_type = CONEY_STR("text/plain")};
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
        assert_int_equal(coney_amqp_publisher_flush(publisher, NULL), CONEY_OK);
        coney_kept *kept = NULL;
        assert_int_equal(coney_amqp_get(scene.rabbit, scene.queue, &kept, NULL), CONEY_OK);
        assert_non_null(kept);
        coney_amqp_properties p = properties_of(kept);
        is_text(p.content_type, "text/plain");
        is_text(coney_amqp_kept_delivery(kept)->body, "longer than sixteen bytes");
        assert_int_equal(p.persistent, !transient);
        assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
        amqp_publisher_close(&publisher);
    }
    amqp_scene_down(&scene);
}

/* C05, C08, C10: what has no form on the wire is refused here, and costs nobody anything. */
static void what_cannot_be_sent_is_refused_before_it_is_queued(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    static char long_name[256];
    static char huge[200000];
    memset(long_name, 'x', sizeof long_name);
    memset(huge, 'x', sizeof huge);
    const coney_field too_large = {.key = CONEY_STR("h"), .value = coney_value_string(coney_bytes_of(huge, sizeof huge))};
    const coney_field no_form = {.key = CONEY_STR("h"), .value = coney_value_symbol(CONEY_STR("s"))};
    const coney_field long_key = {.key = coney_bytes_of(long_name, 256), .value = coney_value_i32(1)};
    const struct {
        coney_amqp_message message;
        coney_status status;
    } cases[] = {
        {{.routing_key = coney_bytes_of(long_name, 256)}, CONEY_EINVAL},
        {{.exchange = coney_bytes_of(long_name, 256)}, CONEY_EINVAL},
        {{.correlation_id = coney_bytes_of(long_name, 256)}, CONEY_EINVAL},
        {{.body = CONEY_STR("x"), .content_type = coney_bytes_of(long_name, 256)}, CONEY_EINVAL},
        {{.headers = &long_key, .header_count = 1}, CONEY_EINVAL},
        {{.headers = &no_form, .header_count = 1}, CONEY_EINVAL},
        {{.headers = &too_large, .header_count = 1}, CONEY_ETOOBIG},
        {{.expiration = -2}, CONEY_EINVAL},
        {{.timestamp = -1}, CONEY_EINVAL},
        {{.reserved = {1}}, CONEY_EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coney_call call = {0};
        coney_status status = coney_amqp_publish(publisher, &cases[i].message);
        if (status != cases[i].status)
            fail_msg("case %zu: %s", i, coney_status_name(status));
        assert_int_equal(coney_amqp_publish_wait(publisher, &cases[i].message, &call), cases[i].status);
        assert_string_not_equal(call.text, "");
    }
    coney_amqp_message longest = {.correlation_id = coney_bytes_of(long_name, 255), .expiration = CONEY_SECOND, .tag = 5};
    assert_int_equal(coney_amqp_publish(publisher, &longest), CONEY_OK);
    all_are(&outcomes, 1, CONEY_OK);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_CHANNEL_CLOSED), 0);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void a_body_over_max_message_size_is_refused_here(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher_options options = {.max_message_size = 10};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    assert_int_equal(coney_amqp_publish(publisher, &(coney_amqp_message){.body = CONEY_STR("0123456789")}), CONEY_OK);
    coney_amqp_message larger = {.body = CONEY_STR("0123456789a")};
    assert_int_equal(coney_amqp_publish(publisher, &larger), CONEY_ETOOBIG);
    coney_call call = {0};
    assert_int_equal(coney_amqp_publish_wait(publisher, &larger, &call), CONEY_ETOOBIG);
    assert_non_null(strstr(call.text, "max_message_size"));
    all_are(&outcomes, 1, CONEY_OK);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

/* Returns ----------------------------------------------------------------------------------------------------------- */

static void unroutable_messages_among_many_are_returned_each_to_its_own_tag(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    enum { COUNT = 5000 };
    for (uint64_t n = 0; n < COUNT; n++) {
        coney_amqp_message message = {.body = numbered(n % 7), .tag = n}; /* many bodies are equal */
        if (n % 5 == 3)
            message.routing_key = CONEY_STR("no queue has this name");
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
    amqp_publisher_close(&publisher);
    outcomes_are_each_once(&outcomes, 0, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        struct outcome outcome = outcomes_of(&outcomes, i);
        bool unroutable = outcome.tag % 5 == 3;
        if (outcome.status != (unroutable ? CONEY_ERETURNED : CONEY_OK))
            fail_msg("message %llu: %s", (unsigned long long)outcome.tag, coney_status_name(outcome.status));
        assert_int_equal(outcome.code, unroutable ? 312 : 0);
    }
    assert_int_equal(amqp_scene_ready(&scene, NULL), COUNT - COUNT / 5);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

/* With a headers exchange only the headers tell one message from the other, and the broker may write them in another order. */
static void returned_messages_that_differ_only_in_their_headers_are_told_apart(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    char exchange[100];
    amqp_scene_up(&scene, &node);
    snprintf(exchange, sizeof exchange, "%s-headers", scene.queue);
    const coney_field wanted[] = {{.key = CONEY_STR("x-match"), .value = coney_value_string(CONEY_STR("all"))},
                                  {.key = CONEY_STR("kind"), .value = coney_value_i32(0)}};
    assert_int_equal(
        coney_amqp_exchange_declare(scene.rabbit, &(coney_amqp_exchange){.name = exchange, .type = "headers"}, NULL), CONEY_OK);
    coney_amqp_binding binding = {.source = exchange, .destination = scene.queue, .arguments = wanted, .argument_count = 2};
    assert_int_equal(coney_amqp_bind(scene.rabbit, &binding, NULL), CONEY_OK);
    coney_amqp_publisher_options options = {.exchange = exchange};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    for (uint64_t n = 0; n < 300; n++) {
        const coney_field headers[] = {{.key = CONEY_STR("zeta"), .value = coney_value_string(CONEY_STR("last"))},
                                       {.key = CONEY_STR("kind"), .value = coney_value_i32((int32_t)(n % 3))},
                                       {.key = CONEY_STR("alpha"), .value = coney_value_bool(true)}};
        coney_amqp_message message = {.body = CONEY_STR("same"), .headers = headers, .header_count = 3, .tag = n};
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
    amqp_publisher_close(&publisher);
    outcomes_are_each_once(&outcomes, 0, 300);
    for (size_t i = 0; i < 300; i++) {
        struct outcome outcome = outcomes_of(&outcomes, i);
        if (outcome.status != (outcome.tag % 3 == 0 ? CONEY_OK : CONEY_ERETURNED))
            fail_msg("message %llu: %s", (unsigned long long)outcome.tag, coney_status_name(outcome.status));
    }
    assert_int_equal(coney_amqp_exchange_delete(scene.rabbit, exchange, 0, NULL), CONEY_OK);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void an_unroutable_message_that_may_be_dropped_is_confirmed(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    coney_amqp_message message = {.routing_key = CONEY_STR("nobody"), .drop_unroutable = true, .tag = 1};
    assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    all_are(&outcomes, 1, CONEY_OK);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void publish_wait_says_what_became_of_its_message(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    coney_call call = {0};
    assert_int_equal(coney_amqp_publish_wait(publisher, &(coney_amqp_message){.body = CONEY_STR("here")}, &call), CONEY_OK);
    coney_amqp_message nowhere = {.body = CONEY_STR("x"), .routing_key = CONEY_STR("nobody")};
    assert_int_equal(coney_amqp_publish_wait(publisher, &nowhere, &call), CONEY_ERETURNED);
    assert_int_equal(call.code, 312);
    assert_non_null(strstr(call.text, "NO_ROUTE"));
    coney_amqp_message no_exchange = {.body = CONEY_STR("x"), .exchange = CONEY_STR("no such exchange")};
    assert_int_equal(coney_amqp_publish_wait(publisher, &no_exchange, &call), CONEY_EREFUSED);
    assert_int_equal(call.code, 404);
    assert_non_null(strstr(call.text, "no such exchange"));
    assert_int_equal(coney_amqp_publish_wait(publisher, &(coney_amqp_message){.body = CONEY_STR("here")}, &call), CONEY_OK);
    amqp_publisher_close(&publisher);
    assert_int_equal(amqp_scene_ready(&scene, NULL), 2);
    amqp_scene_down(&scene);
}

static void a_queue_that_is_full_refuses_with_a_nack(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    char full[100];
    amqp_scene_up(&scene, &node);
    snprintf(full, sizeof full, "%s-full", scene.queue);
    coney_amqp_queue queue = {.name = full, .max_length = 10, .overflow = "reject-publish"};
    assert_int_equal(coney_amqp_queue_declare(scene.rabbit, &queue, NULL), CONEY_OK);
    coney_amqp_publisher_options options = {.routing_key = full};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    coney_call call = {0};
    while (coney_amqp_publish_wait(publisher, &(coney_amqp_message){.body = CONEY_STR("x")}, &call) == CONEY_OK)
        assert_true(amqp_scene_ready(&scene, full) < 20);
    assert_int_equal(call.status, CONEY_EREFUSED);
    assert_non_null(strstr(call.text, "nack"));
    amqp_publish_numbered(publisher, 0, 100);
    all_are(&outcomes, 100, CONEY_EREFUSED);
    amqp_publisher_close(&publisher);
    assert_int_equal(coney_amqp_queue_delete(scene.rabbit, full, 0, NULL), CONEY_OK);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

/* Culprits ---------------------------------------------------------------------------------------------------------- */

static void messages_to_a_missing_exchange_are_found_among_good_ones(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    enum { COUNT = 500 };
    for (uint64_t n = 0; n < COUNT; n++) {
        coney_amqp_message message = {.body = numbered(n), .tag = n};
        if (n % 100 == 50)
            message.exchange = CONEY_STR("no such exchange");
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
    assert_int_equal(coney_amqp_publisher_flush(publisher, NULL), CONEY_OK);
    outcomes_are_each_once(&outcomes, 0, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        struct outcome outcome = outcomes_of(&outcomes, i);
        bool guilty = outcome.tag % 100 == 50;
        if (outcome.status != (guilty ? CONEY_EREFUSED : CONEY_OK) || outcome.code != (guilty ? 404 : 0))
            fail_msg("message %llu: %s, code %u", (unsigned long long)outcome.tag, coney_status_name(outcome.status),
                     outcome.code);
    }
    assert_true(events_count(&scene.events, CONEY_EVENT_CHANNEL_CLOSED) >= 5);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_true(amqp_scene_ready(&scene, NULL) >= COUNT - 5);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void a_message_under_another_users_name_is_refused_with_406(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 50);
    coney_amqp_message forged = {.body = CONEY_STR("x"), .user_id = CONEY_STR("somebody else"), .tag = 50};
    assert_int_equal(coney_amqp_publish(publisher, &forged), CONEY_OK);
    amqp_publish_numbered(publisher, 51, 50);
    outcomes_wait(&outcomes, 101);
    outcomes_are_each_once(&outcomes, 0, 101);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EREFUSED), 1);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 100);
    for (size_t i = 0; i < 101; i++)
        if (outcomes_of(&outcomes, i).status == CONEY_EREFUSED)
            assert_true(outcomes_of(&outcomes, i).tag == 50 && outcomes_of(&outcomes, i).code == 406);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void a_message_to_an_internal_exchange_is_refused_with_403(void **state)
{
    (void)state;
    struct amqp_scene scene;
    char name[100];
    coney_call call = {0};
    amqp_scene_up(&scene, &node);
    snprintf(name, sizeof name, "%s-internal", scene.queue);
    coney_amqp_exchange exchange = {.name = name, .internal = true};
    assert_int_equal(coney_amqp_exchange_declare(scene.rabbit, &exchange, NULL), CONEY_OK);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    coney_amqp_message message = {.body = CONEY_STR("x"), .exchange = coney_bytes_str(name)};
    assert_int_equal(coney_amqp_publish_wait(publisher, &message, &call), CONEY_EREFUSED);
    assert_int_equal(call.code, 403);
    assert_int_equal(coney_amqp_publish_wait(publisher, &(coney_amqp_message){.body = CONEY_STR("y")}, NULL), CONEY_OK);
    amqp_publisher_close(&publisher);
    assert_int_equal(coney_amqp_exchange_delete(scene.rabbit, name, 0, NULL), CONEY_OK);
    amqp_scene_down(&scene);
}

/* C12: RabbitMQ 4 takes 16 MiB, RabbitMQ 3 128 MiB. */
static void C12_a_body_that_is_too_large_for_the_broker_is_refused_alone(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    size_t len = (16 << 20) + 1;
    char *body = calloc(1, len);
    assert_non_null(body);
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 20);
    coney_amqp_message large = {.body = coney_bytes_of(body, len), .tag = 20};
    assert_int_equal(coney_amqp_publish(publisher, &large), CONEY_OK);
    amqp_publish_numbered(publisher, 21, 20);
    outcomes_wait(&outcomes, 41);
    outcomes_are_each_once(&outcomes, 0, 41);
    for (size_t i = 0; i < 41; i++) {
        struct outcome outcome = outcomes_of(&outcomes, i);
        if (outcome.tag == 20 && outcome.status != CONEY_OK)
            assert_true(outcome.status == CONEY_EREFUSED && outcome.code == 406 && outcome.body_len == len);
        else
            assert_int_equal(outcome.status, CONEY_OK);
    }
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    free(body);
    amqp_scene_down(&scene);
}

static void without_resending_a_closed_channel_makes_what_is_open_unknown(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher_options options = {.no_resend = true, .exchange = "no such exchange", .routing_key = ""};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    amqp_publish_numbered(publisher, 0, 20);
    outcomes_wait(&outcomes, 20);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 20);
    assert_int_equal(outcomes_of(&outcomes, 0).code, 404);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

/* Bounds, batches, without confirms ----------------------------------------------------------------------------------- */

static void a_batch_is_accepted_up_to_the_first_message_that_cannot_be(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    coney_amqp_message messages[20] = {0};
    for (size_t i = 0; i < 20; i++) {
        messages[i].body = numbered(i);
        messages[i].tag = i;
        if (i % 2 == 1)
            messages[i].message_id = CONEY_STR("odd");
    }
    messages[15].timestamp = -1;
    size_t accepted = 99;
    assert_int_equal(coney_amqp_publish_batch(publisher, messages, 20, &accepted), CONEY_EINVAL);
    assert_int_equal(accepted, 15);
    assert_int_equal(coney_amqp_publish_batch(publisher, messages + 16, 4, &accepted), CONEY_OK);
    assert_int_equal(accepted, 4);
    all_are(&outcomes, 19, CONEY_OK);
    amqp_publisher_close(&publisher);
    assert_int_equal(amqp_scene_ready(&scene, NULL), 19);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void the_bound_holds_and_nothing_is_lost_at_it(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher_options options = {.max_messages = 10};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    amqp_publish_numbered(publisher, 0, 3000); /* waits for room most of the time */
    coney_amqp_publisher_stats stats;
    assert_int_equal(coney_amqp_publisher_get_stats(publisher, &stats), CONEY_OK);
    assert_true(stats.pending <= 10);
    all_are(&outcomes, 3000, CONEY_OK);
    amqp_publisher_close(&publisher);
    options.enqueue_timeout = CONEY_OFF;
    publisher = amqp_scene_publisher(&scene, NULL, &options);
    coney_status status = CONEY_OK;
    for (int i = 0; i < 100000 && status == CONEY_OK; i++)
        status = coney_amqp_publish(publisher, &(coney_amqp_message){.body = CONEY_STR("x")});
    assert_int_equal(status, CONEY_EAGAIN);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

enum { THREADS = 8, EACH = 400 };

struct writer {
    pthread_t thread;
    coney_amqp_publisher *own;
    coney_amqp_publisher *shared;
    uint64_t first;
    coney_status status;
};

static void *write_bodies(void *ctx)
{
    static const char body[24000];
    struct writer *writer = ctx;
    for (size_t i = 0; i < EACH && writer->status == CONEY_OK; i++) {
        coney_amqp_message message = {.body = coney_bytes_of(body, 1 + i * 59 % sizeof body), .transient = true};
        writer->status = coney_amqp_publish(i % 2 == 0 ? writer->own : writer->shared, &message);
    }
    return NULL;
}

static void F11_threads_may_share_a_connection_and_a_publisher(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    struct writer writers[THREADS] = {0};
    amqp_scene_set(&scene);
    scene.options.frame_max = 8192; /* bodies of one to three frames */
    amqp_scene_open(&scene, amqp_uri(node.amqp_port));
    coney_amqp_publisher *shared = amqp_scene_publisher(&scene, &outcomes, NULL);
    for (size_t i = 0; i < THREADS; i++) {
        writers[i].own = amqp_scene_publisher(&scene, &outcomes, NULL);
        writers[i].shared = shared;
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_bodies, &writers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(writers[i].thread, NULL);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(writers[i].status, CONEY_OK);
        amqp_publisher_close(&writers[i].own);
    }
    amqp_publisher_close(&shared);
    all_are(&outcomes, THREADS * EACH, CONEY_OK);
    assert_int_equal(amqp_scene_ready(&scene, NULL), THREADS * EACH);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_DISCONNECTED), 0);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

/* What is not confirmed is in the queue sooner or later. */
static void wait_for_ready(struct amqp_scene *scene, uint64_t count)
{
    struct monitor clock = {0};
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&clock);
    while (amqp_scene_ready(scene, NULL) != count && now_ms() < until)
        monitor_wait(&clock, now_ms() + 5);
    monitor_unlock(&clock);
    monitor_free(&clock);
    assert_int_equal(amqp_scene_ready(scene, NULL), count);
}

static void without_confirms_written_is_all_there_is_to_say(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher_options options = {.unconfirmed = true};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    amqp_publish_numbered(publisher, 0, 5000);
    coney_amqp_message nowhere = {.body = CONEY_STR("x"), .routing_key = CONEY_STR("nobody"), .tag = 5000};
    assert_int_equal(coney_amqp_publish(publisher, &nowhere), CONEY_OK);
    all_are(&outcomes, 5001, CONEY_OK);
    struct event event = events_wait(&scene.events, CONEY_EVENT_RETURNED, 0);
    assert_int_equal(event.code, 312);
    wait_for_ready(&scene, 5000);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

/* Life ---------------------------------------------------------------------------------------------------------------- */

static void publishes_wait_for_a_publisher_that_is_being_opened(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    struct waited_call opening = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher_options options = {.routing_key = scene.queue, .on_outcome = outcomes_add, .ctx = &outcomes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(scene.rabbit, &options, waited_call_of(&opening, 0));
    assert_non_null(publisher);
    amqp_publish_numbered(publisher, 0, 10);
    assert_int_equal(waited_call_wait(&opening), CONEY_OK);
    all_are(&outcomes, 10, CONEY_OK);
    amqp_publisher_close(&publisher);
    queue_holds(&scene, 0, 10);
    waited_call_free(&opening);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

static void options_that_cannot_be_are_refused_with_a_text(void **state)
{
    (void)state;
    struct amqp_scene scene;
    static char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    amqp_scene_up(&scene, &node);
    const coney_amqp_publisher_options cases[] = {
        {.exchange = long_name}, {.routing_key = long_name}, {.max_messages = -1},     {.max_bytes = -1},
        {.enqueue_timeout = -2}, {.confirm_timeout = -2},    {.max_message_size = -2}, {.reserved = {0, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coney_call call = {0};
        assert_null(coney_amqp_publisher_open(scene.rabbit, &cases[i], &call));
        assert_int_equal(call.status, CONEY_EINVAL);
        assert_string_not_equal(call.text, "");
    }
    amqp_scene_down(&scene);
}

static void closing_the_environment_closes_what_publishes_in_it(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    coney_amqp_tx *tx = coney_amqp_tx_begin(scene.rabbit, NULL);
    assert_non_null(tx);
    coney_amqp_requester_options options = {.routing_key = scene.queue};
    assert_non_null(coney_amqp_requester_open(scene.rabbit, &options, NULL));
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(scene.rabbit, &stats), CONEY_OK);
    assert_int_equal(stats.publishers, 1);
    assert_int_equal(stats.publishers_active, 1);
    coney_amqp_message message = {.body = CONEY_STR("x"), .routing_key = coney_bytes_str(scene.queue)};
    assert_int_equal(coney_amqp_tx_publish(tx, &message), CONEY_OK);
    amqp_publish_numbered(publisher, 0, 1000);
    coney_call call = {0};
    assert_int_equal(coney_amqp_close(&scene.rabbit, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    all_are(&outcomes, 1000, CONEY_OK);
    events_free(&scene.events);
    amqp_scene_open(&scene, amqp_uri(node.amqp_port));
    queue_holds(&scene, 0, 1000);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
}

/* Cuts ---------------------------------------------------------------------------------------------------------------- */

struct seen {
    struct monitor monitor;
    uint8_t *numbers;
    size_t count;
    size_t arrived;
    size_t twice;
};

static coney_settle note_number(void *ctx, const coney_amqp_delivery *delivery)
{
    struct seen *seen = ctx;
    char body[24] = "";
    memcpy(body, delivery->body.data, delivery->body.len < sizeof body ? delivery->body.len : 0);
    uint64_t n = strtoull(body + 1, NULL, 10);
    monitor_lock(&seen->monitor);
    seen->arrived++;
    if (body[0] == 'm' && n < seen->count) {
        seen->twice += seen->numbers[n];
        seen->numbers[n] = 1;
    }
    monitor_broadcast(&seen->monitor);
    monitor_unlock(&seen->monitor);
    return CONEY_ACK;
}

/* Empties the queue over a connection that nobody cuts: each of "m0" … is there at least once. *twice: how many more there were. */
static void none_is_missing(struct amqp_scene *scene, size_t count, size_t *twice)
{
    struct seen seen = {.numbers = calloc(count, 1), .count = count};
    coney_amqp_consumer_options options = {.on_delivery = note_number, .ctx = &seen};
    coney_amqp *direct = coney_amqp_open(amqp_uri(node.amqp_port), NULL, NULL);
    assert_non_null(direct);
    uint64_t ready = amqp_scene_ready(scene, NULL);
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(direct, scene->queue, &options, NULL);
    assert_non_null(consumer);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&seen.monitor);
    while (seen.arrived < ready && monitor_wait(&seen.monitor, until))
        ;
    monitor_unlock(&seen.monitor);
    assert_int_equal(coney_amqp_close(&direct, NULL), CONEY_OK);
    assert_int_equal(seen.arrived, ready);
    for (size_t n = 0; n < count; n++)
        if (seen.numbers[n] == 0)
            fail_msg("message %zu was confirmed and is not in the queue", n);
    *twice = seen.twice;
    free(seen.numbers);
    monitor_free(&seen.monitor);
}

static void after_cuts_every_message_is_confirmed_once_and_none_is_missing(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    enum { COUNT = 4000 };
    struct scissors *scissors = scissors_start(node.amqp_port);
    amqp_scene_set(&scene);
    scene.options.recovery_delay = 10 * CONEY_MILLISECOND;
    scene.options.recovery_max_delay = 50 * CONEY_MILLISECOND;
    char uri[100];
    snprintf(uri, sizeof uri, "amqp%s", strchr(scissors_uri(scissors), ':'));
    amqp_scene_open(&scene, uri);
    coney_amqp_publisher_options options = {.max_messages = 300};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    struct dice dice = dice_of(20261130);
    for (uint64_t n = 0; n < COUNT; n += 100) {
        if (n % 400 == 0)
            scissors_cut_after(scissors, n % 800 == 0, 1 + dice_roll(&dice, 3000));
        amqp_publish_numbered(publisher, n, 100);
    }
    scissors_cut_after(scissors, true, 0);
    all_are(&outcomes, COUNT, CONEY_OK);
    outcomes_are_each_once(&outcomes, 0, COUNT);
    assert_true(scissors_cuts(scissors) >= 5);
    coney_amqp_publisher_stats stats;
    assert_int_equal(coney_amqp_publisher_get_stats(publisher, &stats), CONEY_OK);
    assert_true(stats.resent > 0 && stats.reconnects > 0);
    amqp_publisher_close(&publisher);
    size_t twice;
    none_is_missing(&scene, COUNT, &twice);
    assert_true(twice <= stats.resent);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
    scissors_stop(&scissors);
}

/* Several publishers get their channels anew, in any order, while their threads go on publishing. */
static void *write_numbers(void *ctx)
{
    struct writer *writer = ctx;
    for (uint64_t n = 0; n < EACH && writer->status == CONEY_OK; n++) {
        char text[24];
        int len = snprintf(text, sizeof text, "m%llu", (unsigned long long)(writer->first + n));
        coney_amqp_message message = {.body = coney_bytes_of(text, (size_t)len), .tag = writer->first + n};
        writer->status = coney_amqp_publish(writer->own, &message);
    }
    return NULL;
}

static void cut_now_and_then(struct scissors *scissors, struct outcomes *outcomes, size_t total)
{
    struct dice dice = dice_of(4);
    for (size_t cuts = 0; outcomes_count(outcomes) < total && cuts < 12; cuts++) {
        scissors_cut_after(scissors, cuts % 2 == 0, 1 + dice_roll(&dice, 6000));
        outcomes_reach(outcomes, total, 100);
    }
    scissors_cut_after(scissors, true, 0);
}

static void publishers_that_share_a_connection_find_their_channels_again(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    struct writer writers[THREADS] = {0};
    struct scissors *scissors = scissors_start(node.amqp_port);
    amqp_scene_set(&scene);
    scene.options.recovery_delay = 10 * CONEY_MILLISECOND;
    scene.options.recovery_max_delay = 50 * CONEY_MILLISECOND;
    char uri[100];
    snprintf(uri, sizeof uri, "amqp%s", strchr(scissors_uri(scissors), ':'));
    amqp_scene_open(&scene, uri);
    coney_amqp_publisher_options options = {.max_messages = 20};
    for (size_t i = 0; i < THREADS; i++) {
        writers[i].first = i * EACH;
        writers[i].own = amqp_scene_publisher(&scene, &outcomes, &options);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_numbers, &writers[i]), 0);
    cut_now_and_then(scissors, &outcomes, THREADS * EACH);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(writers[i].thread, NULL);
        assert_int_equal(writers[i].status, CONEY_OK);
        amqp_publisher_close(&writers[i].own);
    }
    all_are(&outcomes, THREADS * EACH, CONEY_OK);
    outcomes_are_each_once(&outcomes, 0, THREADS * EACH);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_SERVER_CLOSE), 0);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_CHANNEL_CLOSED), 0);
    size_t twice;
    none_is_missing(&scene, THREADS * EACH, &twice);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
    scissors_stop(&scissors);
}

static void J06_without_resending_a_cut_makes_what_is_open_unknown_and_the_count_begins_anew(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    struct scissors *scissors = scissors_start(node.amqp_port);
    amqp_scene_set(&scene);
    char uri[100];
    snprintf(uri, sizeof uri, "amqp%s", strchr(scissors_uri(scissors), ':'));
    amqp_scene_open(&scene, uri);
    coney_amqp_publisher_options options = {.no_resend = true};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, &options);
    scissors_cut_after(scissors, true, 1); /* the first confirm */
    amqp_publish_numbered(publisher, 0, 100);
    outcomes_wait(&outcomes, 100);
    outcomes_are_each_once(&outcomes, 0, 100);
    assert_true(outcomes_with(&outcomes, CONEY_EUNKNOWN) > 0);
    scissors_cut_after(scissors, true, 0);
    events_wait(&scene.events, CONEY_EVENT_RECOVERED, 0);
    amqp_publish_numbered(publisher, 100, 100);
    outcomes_wait(&outcomes, 200);
    for (size_t i = 100; i < 200; i++)
        assert_int_equal(outcomes_of(&outcomes, i).status, CONEY_OK);
    outcomes_are_each_once(&outcomes, 0, 200);
    amqp_publisher_close(&publisher);
    outcomes_free(&outcomes);
    amqp_scene_down(&scene);
    scissors_stop(&scissors);
}

/* J05: callbacks that publish, and one that closes the publisher, in the middle of confirms. */
struct chain {
    struct monitor monitor;
    coney_amqp_publisher *publisher;
    size_t outcomes;
    size_t accepted;
};

static void publish_one_more(void *ctx, const coney_outcome *outcome)
{
    struct chain *chain = ctx;
    (void)outcome;
    monitor_lock(&chain->monitor);
    chain->outcomes++;
    coney_amqp_message message = {.body = CONEY_STR("again")};
    if (chain->publisher != NULL && chain->accepted < 500)
        chain->accepted += coney_amqp_publish(chain->publisher, &message) == CONEY_OK;
    if (chain->outcomes == 250)
        coney_amqp_publisher_close(&chain->publisher, NULL);
    monitor_broadcast(&chain->monitor);
    monitor_unlock(&chain->monitor);
}

static void J05_callbacks_may_publish_and_close(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct chain chain = {.accepted = 10};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher_options options = {.on_outcome = publish_one_more, .ctx = &chain};
    chain.publisher = amqp_scene_publisher(&scene, NULL, &options);
    coney_amqp_publisher *publisher = chain.publisher;
    for (int i = 0; i < 10; i++)
        assert_int_equal(coney_amqp_publish(publisher, &(coney_amqp_message){.body = CONEY_STR("first")}), CONEY_OK);
    int64_t until = now_ms() + scaled_ms(20000);
    monitor_lock(&chain.monitor);
    while ((chain.publisher != NULL || chain.outcomes < chain.accepted) && monitor_wait(&chain.monitor, until))
        ;
    assert_null(chain.publisher);
    assert_int_equal(chain.outcomes, chain.accepted);
    monitor_unlock(&chain.monitor);
    coney_amqp_queue_delete(scene.rabbit, scene.queue, 0, NULL);
    coney_amqp_close(&scene.rabbit, NULL);
    events_free(&scene.events);
    monitor_free(&chain.monitor);
}

/* Transactions ---------------------------------------------------------------------------------------------------------- */

static void publish_in(coney_amqp_tx *tx, struct amqp_scene *scene, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        coney_amqp_message message = {.body = numbered(i), .routing_key = coney_bytes_str(scene->queue)};
        assert_int_equal(coney_amqp_tx_publish(tx, &message), CONEY_OK);
    }
}

static void a_transaction_appears_whole_when_it_is_committed(void **state)
{
    (void)state;
    struct amqp_scene scene;
    coney_call call = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_tx *tx = coney_amqp_tx_begin(scene.rabbit, &call);
    if (tx == NULL)
        fail_msg("%s", call.text);
    publish_in(tx, &scene, 1000);
    assert_int_equal(amqp_scene_ready(&scene, NULL), 0);
    if (coney_amqp_tx_commit(&tx, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    assert_null(tx);
    queue_holds(&scene, 0, 1000);
    amqp_scene_down(&scene);
}

static void a_transaction_that_is_rolled_back_leaves_nothing(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    coney_amqp_tx *tx = coney_amqp_tx_begin(scene.rabbit, NULL);
    assert_non_null(tx);
    publish_in(tx, &scene, 50);
    assert_int_equal(coney_amqp_tx_rollback(&tx, NULL), CONEY_OK);
    assert_null(tx);
    coney_amqp_tx *second = coney_amqp_tx_begin(scene.rabbit, NULL);
    publish_in(second, &scene, 1);
    assert_int_equal(coney_amqp_tx_commit(&second, NULL), CONEY_OK);
    queue_holds(&scene, 0, 1);
    assert_int_equal(coney_amqp_tx_commit(&tx, NULL), CONEY_OK);
    amqp_scene_down(&scene);
}

static void what_the_broker_refuses_fails_the_commit_with_its_words(void **state)
{
    (void)state;
    struct amqp_scene scene;
    coney_call call = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_tx *tx = coney_amqp_tx_begin(scene.rabbit, NULL);
    publish_in(tx, &scene, 5);
    coney_amqp_message lost = {.body = CONEY_STR("x"), .exchange = CONEY_STR("no such exchange")};
    assert_int_equal(coney_amqp_tx_publish(tx, &lost), CONEY_OK);
    assert_int_equal(coney_amqp_tx_commit(&tx, &call), CONEY_ENOTFOUND);
    assert_int_equal(call.code, 404);
    assert_non_null(strstr(call.text, "no such exchange"));
    assert_int_equal(amqp_scene_ready(&scene, NULL), 0);
    amqp_scene_down(&scene);
}

static void a_large_transaction_goes_out_in_full(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    size_t len = 200000;
    char *body = calloc(1, len);
    assert_non_null(body);
    coney_amqp_tx *tx = coney_amqp_tx_begin(scene.rabbit, NULL);
    for (int i = 0; i < 60; i++) { /* 12 MB, more than a connection takes as control bytes */
        coney_amqp_message message = {.body = coney_bytes_of(body, len), .routing_key = coney_bytes_str(scene.queue)};
        assert_int_equal(coney_amqp_tx_publish(tx, &message), CONEY_OK);
    }
    coney_call call = call_within(30000);
    if (coney_amqp_tx_commit(&tx, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    assert_int_equal(amqp_scene_ready(&scene, NULL), 60);
    free(body);
    amqp_scene_down(&scene);
}

static void after_a_cut_a_transaction_is_lost_and_none_of_it_taken(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct scissors *scissors = scissors_start(node.amqp_port);
    amqp_scene_set(&scene);
    char uri[100];
    snprintf(uri, sizeof uri, "amqp%s", strchr(scissors_uri(scissors), ':'));
    amqp_scene_open(&scene, uri);
    coney_amqp_tx *tx = coney_amqp_tx_begin(scene.rabbit, NULL);
    assert_non_null(tx);
    publish_in(tx, &scene, 5);
    scissors_cut_after(scissors, false, 1);
    coney_amqp_message message = {.body = CONEY_STR("x"), .routing_key = coney_bytes_str(scene.queue)};
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    coney_status status = CONEY_OK;
    while (status == CONEY_OK && now_ms() < until)
        status = coney_amqp_tx_publish(tx, &message);
    scissors_cut_after(scissors, false, 0);
    assert_int_equal(status, CONEY_ELOST);
    coney_call call = {0};
    assert_int_equal(coney_amqp_tx_commit(&tx, &call), CONEY_ELOST);
    assert_string_not_equal(call.text, "");
    assert_int_equal(amqp_scene_ready(&scene, NULL), 0);
    amqp_scene_down(&scene);
    scissors_stop(&scissors);
}

int main(void)
{
    if (!node_shared(&node) || node.amqp_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_confirmed_once_and_the_queue_has_them_in_order),
        cmocka_unit_test(twenty_thousand_messages_are_confirmed_and_counted),
        cmocka_unit_test(C02_an_empty_body_is_a_message),
        cmocka_unit_test(a_body_of_many_frames_arrives_as_it_was),
        cmocka_unit_test(every_property_arrives),
        cmocka_unit_test(a_content_type_alone_arrives_and_transient_means_transient),
        cmocka_unit_test(what_cannot_be_sent_is_refused_before_it_is_queued),
        cmocka_unit_test(a_body_over_max_message_size_is_refused_here),
        cmocka_unit_test(unroutable_messages_among_many_are_returned_each_to_its_own_tag),
        cmocka_unit_test(returned_messages_that_differ_only_in_their_headers_are_told_apart),
        cmocka_unit_test(an_unroutable_message_that_may_be_dropped_is_confirmed),
        cmocka_unit_test(publish_wait_says_what_became_of_its_message),
        cmocka_unit_test(a_queue_that_is_full_refuses_with_a_nack),
        cmocka_unit_test(messages_to_a_missing_exchange_are_found_among_good_ones),
        cmocka_unit_test(a_message_under_another_users_name_is_refused_with_406),
        cmocka_unit_test(a_message_to_an_internal_exchange_is_refused_with_403),
        cmocka_unit_test(C12_a_body_that_is_too_large_for_the_broker_is_refused_alone),
        cmocka_unit_test(without_resending_a_closed_channel_makes_what_is_open_unknown),
        cmocka_unit_test(a_batch_is_accepted_up_to_the_first_message_that_cannot_be),
        cmocka_unit_test(the_bound_holds_and_nothing_is_lost_at_it),
        cmocka_unit_test(F11_threads_may_share_a_connection_and_a_publisher),
        cmocka_unit_test(without_confirms_written_is_all_there_is_to_say),
        cmocka_unit_test(publishes_wait_for_a_publisher_that_is_being_opened),
        cmocka_unit_test(options_that_cannot_be_are_refused_with_a_text),
        cmocka_unit_test(closing_the_environment_closes_what_publishes_in_it),
        cmocka_unit_test(after_cuts_every_message_is_confirmed_once_and_none_is_missing),
        cmocka_unit_test(publishers_that_share_a_connection_find_their_channels_again),
        cmocka_unit_test(J06_without_resending_a_cut_makes_what_is_open_unknown_and_the_count_begins_anew),
        cmocka_unit_test(J05_callbacks_may_publish_and_close),
        cmocka_unit_test(a_transaction_appears_whole_when_it_is_committed),
        cmocka_unit_test(a_transaction_that_is_rolled_back_leaves_nothing),
        cmocka_unit_test(what_the_broker_refuses_fails_the_commit_with_its_words),
        cmocka_unit_test(a_large_transaction_goes_out_in_full),
        cmocka_unit_test(after_a_cut_a_transaction_is_lost_and_none_of_it_taken),
    };
    return run_tests(tests);
}
