/* stream.c and stream_encode.c: what is a mistake, what a description says, what a message looks like on its way. */
#include "service/app.h"
#include "transport/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static coney_broker *broker_of(coney_app **app, const char *uri, const coney_stream_env_options *options)
{
    *app = coney_app_new("unit", "1.0.0");
    assert_non_null(*app);
    coney_broker *broker = coney_app_stream(*app, uri, options);
    assert_non_null(broker);
    return broker;
}

/* Exactly one mistake that names `field`; none for NULL. */
static void names(struct mistakes *mistakes, const char *field, size_t row)
{
    if (mistakes->count != (field != NULL))
        fail_msg("row %zu: %zu mistakes: %s", row, mistakes->count, mistakes->text != NULL ? mistakes->text : "");
    if (field != NULL && strstr(mistakes->text, field) == NULL)
        fail_msg("row %zu: '%s' does not name %s", row, mistakes->text, field);
    mistakes_free(mistakes);
}

static void what_is_wrong_with_a_broker_is_named(void **state)
{
    (void)state;
    coney_loop *loop = (coney_loop *)(uintptr_t)1; /* not looked at */
    const struct {
        const char *uri;
        coney_stream_env_options options;
        const char *field;
    } rows[] = {
        {NULL, {.loop = NULL}, NULL},
        {"rabbitmq-stream://ada:secret@one,two:5553/vhost", {.name = "x"}, NULL},
        {"rabbitmq-stream+tls://one", {.loop = NULL}, NULL},
        {"amqp://one", {.loop = NULL}, "uri"},
        {"rabbitmq-stream://one:port", {.loop = NULL}, "uri"},
        {NULL, {.loop = loop}, "options.loop"},
        {NULL, {.on_log = coney_log_stderr}, "options.on_log"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coney_app *app;
        coney_broker *broker = broker_of(&app, rows[i].uri, &rows[i].options);
        struct mistakes mistakes = {.subject = "broker 'stream'"};
        broker->transport->check_broker(broker->self, &mistakes);
        if (mistakes.text != NULL)
            assert_null(strstr(mistakes.text, "secret"));
        names(&mistakes, rows[i].field, i);
        coney_app_free(&app);
    }
}

static void a_queue_to_declare_is_a_mistake(void **state)
{
    (void)state;
    coney_app *app;
    coney_broker *broker = broker_of(&app, NULL, NULL);
    coney_declare_stream(broker, "s", &(coney_stream_spec){.max_length = 1000000});
    coney_declare_queue(broker, &(coney_amqp_queue){.name = "q"});
    struct mistakes mistakes = {.subject = "broker 'stream'"};
    broker->transport->check_broker(broker->self, &mistakes);
    names(&mistakes, "declarations", 0);
    coney_app_free(&app);
}

static void what_is_wrong_with_a_source_is_named(void **state)
{
    (void)state;
    char long_name[257];
    memset(long_name, 'n', 256);
    long_name[256] = '\0';
    const struct {
        coney_stream_source source;
        const char *dead_letter;
        const char *field;
    } rows[] = {
        {{.name = "s"}, NULL, NULL},
        {{.name = "s",
          .consumer = "",
          .credit = 3,
          .store_every = CONEY_OFF,
          .declare = true,
          .max_age = CONEY_SECOND,
          .start_if_new = CONEY_STREAM_TIMESTAMP,
          .start_time = -5},
         "dead",
         NULL},
        {{.name = NULL}, NULL, "source.name"},
        {{.name = long_name}, NULL, "source.name"},
        {{.name = "s", .consumer = long_name}, NULL, "source.consumer"},
        {{.name = "s", .start_if_new = (coney_stream_start)9}, NULL, "source.start_if_new"},
        {{.name = "s", .credit = 40000}, NULL, "source.credit"},
        {{.name = "s", .credit = -1}, NULL, "source.credit"},
        {{.name = "s", .store_every = -2}, NULL, "source.store_every"},
        {{.name = "s", .store_interval = -2}, NULL, "source.store_interval"},
        {{.name = "s", .declare = true, .max_length = -2}, NULL, "source.max_length"},
        {{.name = "s", .declare = true, .max_age = 5}, NULL, "source.max_age"},
        {{.name = "s", .declare = true, .max_segment_size = -1}, NULL, "source.max_segment_size"},
        {{.name = "s", .max_length = 5}, NULL, "source.declare"},
        {{.name = "s"}, long_name, "dead_letter"},
    };
    coney_app *app;
    coney_broker *broker = broker_of(&app, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mistakes mistakes = {.subject = "subscription 's'"};
        const coney_subscription subscription = {.source = coney_source_stream(&rows[i].source),
                                                 .dead_letter = rows[i].dead_letter};
        broker->transport->check_source(broker->self, &subscription, &mistakes);
        names(&mistakes, rows[i].field, i);
    }
    coney_app_free(&app);
}

static void what_streams_cannot_do_for_a_publisher_is_named(void **state)
{
    (void)state;
    static const struct {
        coney_publisher_options options;
        const char *field;
    } rows[] = {
        {{.to = "s", .policy = CONEY_PUBLISH_PLAIN, .transient = true, .drop_unroutable = true}, NULL},
        {{.exchange = ""}, NULL},
        {{.exchange = "events"}, "exchange"},
        {{.policy = CONEY_PUBLISH_TRANSACTION}, "policy"},
        {{.expiration = CONEY_SECOND}, "expiration"},
        {{.has_priority = true}, "priority"},
    };
    coney_app *app;
    coney_broker *broker = broker_of(&app, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mistakes mistakes = {.subject = "publisher 'p'"};
        broker->transport->check_publisher(broker->self, &rows[i].options, &mistakes);
        names(&mistakes, rows[i].field, i);
    }
    coney_app_free(&app);
}

static void a_description_has_host_and_port_and_nothing_secret(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        const char *host;
    } rows[] = {
        {NULL, "localhost:5552"},
        {"rabbitmq-stream://ada:secret@one:5553,two/vhost?name=x", "one:5553"},
        {"rabbitmq-stream+tls://one", "one:5551"},
        {"rabbitmq-stream://[::1]", "[::1]:5552"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coney_app *app;
        char host[100];
        const char *protocol;
        const char *version;
        coney_broker *broker = broker_of(&app, rows[i].uri, NULL);
        assert_true(broker->transport->describe(broker->self, host, sizeof host, &protocol, &version));
        assert_string_equal(host, rows[i].host);
        assert_string_equal(protocol, "rabbitmq-stream");
        coney_app_free(&app);
    }
}

/* Messages -------------------------------------------------------------------------------------------------------------- */

static void only_a_body_alone_is_bare(void **state)
{
    (void)state;
    const coney_bytes x = CONEY_STR("x");
    const coney_field header = {CONEY_STR("h"), coney_value_bool(true)};
    const struct outgoing bare = {.to = x, .body = x, .transient = true, .drop_unroutable = true};
    assert_true(tstream_is_bare(&bare));
    const struct outgoing dressed[] = {
        {.content_type = x}, {.correlation_id = x},
        {.reply_to = x},     {.message_id = x},
        {.type = x},         {.key = x},
        {.timestamp = 1},    {.headers = &header, .header_count = 1},
    };
    for (size_t i = 0; i < sizeof dressed / sizeof dressed[0]; i++)
        assert_false(tstream_is_bare(&dressed[i]));
}

/* Encodes and parses what was built. */
static coney_message_view round_trip(const struct tstream_encoded *encoded, uint8_t *memory, size_t cap)
{
    size_t size;
    const char *field;
    coney_message_view view;
    if (coney_message_encode(&encoded->message, memory, cap, &size, &field) != CONEY_OK)
        fail_msg("%s cannot be encoded", field);
    assert_int_equal(coney_message_parse(coney_bytes_of(memory, size), &view), CONEY_OK);
    return view;
}

static void the_key_is_one_header_more_however_many_there_are(void **state)
{
    (void)state;
    coney_field headers[40];
    for (size_t i = 0; i < 40; i++)
        headers[i] = (coney_field){CONEY_STR("h"), coney_value_i64((int64_t)i)};
    for (size_t count = 0; count <= 40; count++) {
        struct tstream_encoded encoded;
        uint8_t memory[2000];
        coney_value key;
        const struct outgoing message = {
            .body = CONEY_STR("b"), .key = CONEY_STR("k"), .headers = headers, .header_count = count};
        assert_int_equal(tstream_encode(&encoded, &message), CONEY_OK);
        coney_message_view view = round_trip(&encoded, memory, sizeof memory);
        assert_int_equal(view.application_properties.count, 2 * (count + 1));
        assert_true(coney_value_find(&view.application_properties, CONEY_STR(KEY_HEADER), &key));
        assert_memory_equal(key.as.bytes.data, "k", 1);
        tstream_encoded_free(&encoded);
    }
}

/* What came, with a count of its own and an annotation. */
static coney_bytes came(uint8_t *memory, size_t cap, coney_message *message)
{
    static const coney_field properties[] = {
        {CONEY_STR_INIT(ATTEMPTS_HEADER), {.type = CONEY_VALUE_U64, .as.u64 = 2}},
        {CONEY_STR_INIT("tenant"), {.type = CONEY_VALUE_STRING, .as.bytes = CONEY_STR_INIT("ada")}},
    };
    static const coney_field annotations[] = {
        {CONEY_STR_INIT("x-exchange"), {.type = CONEY_VALUE_STRING, .as.bytes = CONEY_STR_INIT("events")}},
        {CONEY_STR_INIT(ATTEMPTS_HEADER), {.type = CONEY_VALUE_U64, .as.u64 = 1}},
    };
    message->properties.content_type = CONEY_STR("text/plain");
    message->properties.message_id = coney_value_u64(7);
    message->application_properties = properties;
    message->application_property_count = 2;
    message->message_annotations = annotations;
    message->message_annotation_count = 2;
    size_t size;
    assert_int_equal(coney_message_encode(message, memory, cap, &size, NULL), CONEY_OK);
    return coney_bytes_of(memory, size);
}

static void a_copy_keeps_everything_and_counts_once(void **state)
{
    (void)state;
    uint8_t original[500];
    uint8_t memory[500];
    coney_message message = {.body = CONEY_STR("body")};
    struct tstream_encoded encoded;
    coney_stream_delivery delivery = {.body = CONEY_STR("body"), .encoded = came(original, sizeof original, &message)};
    const struct incoming m = {.body = delivery.body, .native = &delivery};
    assert_int_equal(tstream_encode_copy(&encoded, &m, 5), CONEY_OK);
    coney_message_view view = round_trip(&encoded, memory, sizeof memory);
    coney_message_properties properties;
    coney_message_get_properties(&view, &properties);
    assert_memory_equal(properties.content_type.data, "text/plain", 10);
    assert_int_equal(properties.message_id.as.u64, 7);
    coney_value value;
    assert_int_equal(view.application_properties.count, 4);
    assert_true(coney_value_find(&view.application_properties, CONEY_STR(ATTEMPTS_HEADER), &value));
    assert_int_equal(value.as.u64, 5);
    assert_true(coney_value_find(&view.application_properties, CONEY_STR("tenant"), &value));
    assert_int_equal(view.message_annotations.count, 2);
    assert_true(coney_value_find(&view.message_annotations, CONEY_STR("x-exchange"), &value));
    tstream_encoded_free(&encoded);
}

static void a_copy_of_a_value_is_that_value(void **state)
{
    (void)state;
    uint8_t original[500];
    uint8_t memory[500];
    coney_message message = {.body_kind = CONEY_BODY_VALUE, .value = coney_value_u64(9)};
    struct tstream_encoded encoded;
    coney_stream_delivery delivery = {.body_kind = CONEY_BODY_VALUE, .encoded = came(original, sizeof original, &message)};
    const struct incoming m = {.native = &delivery};
    assert_int_equal(tstream_encode_copy(&encoded, &m, 1), CONEY_OK);
    coney_message_view view = round_trip(&encoded, memory, sizeof memory);
    coney_body_iter body = coney_message_body(&view);
    coney_value value;
    assert_true(coney_message_body_next(&body, &value));
    assert_int_equal(value.as.u64, 9);
    tstream_encoded_free(&encoded);
}

static void what_cannot_be_read_is_copied_as_it_came(void **state)
{
    (void)state;
    uint8_t memory[200];
    struct tstream_encoded encoded;
    coney_stream_delivery delivery = {
        .body = CONEY_STR("no AMQP"), .encoded = CONEY_STR("no AMQP"), .body_kind = CONEY_BODY_UNREADABLE};
    const struct incoming m = {.body = delivery.body, .native = &delivery};
    assert_int_equal(tstream_attempt(&m), 1);
    assert_int_equal(tstream_content_type(&m).len, 0);
    assert_int_equal(tstream_encode_copy(&encoded, &m, 1), CONEY_OK);
    coney_message_view view = round_trip(&encoded, memory, sizeof memory);
    char body[20];
    assert_int_equal(coney_message_body_copy(&view, body, sizeof body), 7);
    assert_memory_equal(body, "no AMQP", 7);
    tstream_encoded_free(&encoded);
}

/* Reading -------------------------------------------------------------------------------------------------------------------- */

static void attempts_are_those_of_the_header_and_those_here(void **state)
{
    (void)state;
    uint8_t original[500];
    coney_message message = {.body = CONEY_STR("body")};
    coney_stream_delivery delivery = {.encoded = came(original, sizeof original, &message), .attempt = 3};
    const struct incoming m = {.native = &delivery};
    assert_int_equal(tstream_attempt(&m), 2 + 3 + 1);
}

static void headers_that_became_annotations_are_found(void **state)
{
    (void)state;
    uint8_t original[500];
    coney_message message = {.body = CONEY_STR("body"), .properties.group_id = CONEY_STR("group")};
    coney_stream_delivery delivery = {.encoded = came(original, sizeof original, &message), .stream = "s", .offset = 4};
    const struct incoming m = {.native = &delivery};
    coney_value value;
    coney_delivery_info info = {0};
    assert_true(tstream_header(&m, CONEY_STR("x-exchange"), &value));
    assert_memory_equal(value.as.bytes.data, "events", 6);
    assert_memory_equal(tstream_key(&m, NULL).data, "group", 5);
    assert_memory_equal(tstream_key(&m, "tenant").data, "ada", 3);
    assert_int_equal(tstream_key(&m, "absent").len, 0);
    tstream_info(&m, &info);
    assert_true(info.has_offset && info.offset == 4);
    assert_int_equal(info.message_id.len, 0); /* a number has no text */
    assert_memory_equal(info.key.data, "group", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_with_a_broker_is_named),
        cmocka_unit_test(a_queue_to_declare_is_a_mistake),
        cmocka_unit_test(what_is_wrong_with_a_source_is_named),
        cmocka_unit_test(what_streams_cannot_do_for_a_publisher_is_named),
        cmocka_unit_test(a_description_has_host_and_port_and_nothing_secret),
        cmocka_unit_test(only_a_body_alone_is_bare),
        cmocka_unit_test(the_key_is_one_header_more_however_many_there_are),
        cmocka_unit_test(a_copy_keeps_everything_and_counts_once),
        cmocka_unit_test(a_copy_of_a_value_is_that_value),
        cmocka_unit_test(what_cannot_be_read_is_copied_as_it_came),
        cmocka_unit_test(attempts_are_those_of_the_header_and_those_here),
        cmocka_unit_test(headers_that_became_annotations_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
