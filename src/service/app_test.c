/* app_test.c: descriptions: what is copied, what is resolved, and mistakes, all of them at once. */
#include "service/publisher.h"
#include "service/service_fixture.h"

#define ORDER(F) F(u64, id) F(string, customer)
CONEY_MESSAGE(order, ORDER);

#define TWICE(F) F(u64, id) F(u64, other, name("id"))
CONEY_MESSAGE(twice, TWICE);

#define DONE(F) F(u64, id)
CONEY_MESSAGE(done, DONE);
#define EVENTS(M) M(order) M(done)
CONEY_SET(events, EVENTS);

static coney_settle take_order(coney_delivery *d, const order *o)
{
    (void)d;
    (void)o;
    return CONEY_ACK;
}
CONEY_HANDLER(take_order, order);

static coney_settle take_twice(coney_delivery *d, const twice *o)
{
    (void)d;
    (void)o;
    return CONEY_ACK;
}
CONEY_HANDLER(take_twice, twice);

static coney_settle take_event(coney_delivery *d, const events *e)
{
    (void)d;
    (void)e;
    return CONEY_ACK;
}
CONEY_HANDLER(take_event, events);

static coney_settle take_bytes(coney_delivery *d, coney_bytes body)
{
    (void)d;
    (void)body;
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(take_bytes);

static coney_settle take_batch(coney_batch *batch, const coney_bytes *bodies, size_t count)
{
    (void)batch;
    (void)bodies;
    (void)count;
    return CONEY_ACK;
}
CONEY_RAW_BATCH_HANDLER(take_batch);

static const coney_type *choose_order(void *ctx, const coney_delivery *d)
{
    (void)ctx;
    (void)d;
    return order_type();
}

static coney_settle pass(void *ctx, coney_delivery *d, coney_next *next)
{
    (void)ctx;
    return coney_next_run(next, d);
}

/* An app with one broker, and the mistakes that were found in it. */
struct scene {
    struct fake fake;
    coney_app *app;
    coney_broker *broker;
    struct mistakes mistakes;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){0};
    scene->app = coney_app_new("orders", "1.0.0");
    scene->broker = fake_broker(scene->app, &scene->fake);
    assert_non_null(scene->broker);
}

static void end(struct scene *scene)
{
    mistakes_free(&scene->mistakes);
    coney_app_free(&scene->app);
    assert_null(scene->app);
    assert_true(scene->fake.is_freed);
}

static void check(struct scene *scene)
{
    mistakes_free(&scene->mistakes);
    app_check(scene->app, &scene->mistakes);
}

static void expect_mistake(struct scene *scene, const char *line)
{
    const char *text = scene->mistakes.text != NULL ? scene->mistakes.text : "";
    if (strstr(text, line) == NULL)
        fail_msg("expected '%s' among:\n%s", line, text);
}

/* A subscription with one thing wrong: its only mistake begins with `line`. */
static void expect_only(coney_subscription subscription, const char *line)
{
    struct scene scene;
    begin(&scene);
    coney_source orders = CONEY_QUEUE("orders");
    if (subscription.source.kind == CONEY_SOURCE_NONE)
        subscription.source = orders;
    coney_subscribe(scene.broker, &subscription);
    check(&scene);
    expect_mistake(&scene, line);
    if (scene.mistakes.count != 1)
        fail_msg("expected one mistake, '%s', found:\n%s", line, scene.mistakes.text);
    end(&scene);
}

static void a_description_without_mistakes_has_none(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    coney_subscribe(scene.broker, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = take_order_handler});
    coney_subscribe(scene.broker, &(coney_subscription){.source = CONEY_QUEUE("events"),
                                                        .handler = take_event_handler,
                                                        .choose = choose_order,
                                                        .lanes = 4,
                                                        .by_key = true,
                                                        .key_header = "customer",
                                                        .max_attempts = 5,
                                                        .dead_letter = "dead"});
    coney_subscribe(scene.broker,
                    &(coney_subscription){.source = CONEY_QUEUE("rows"), .handler = take_batch_handler, .batch = 100});
    coney_call call = {0};
    coney_status status = coney_app_check(scene.app, &call);
    assert_string_equal(call.text, "");
    assert_int_equal(status, CONEY_OK);
    assert_int_equal(call.value, 0);
    end(&scene);
}

struct lines {
    char text[8192];
    size_t count;
};

static void take_line(void *ctx, coney_log_level level, const char *text)
{
    struct lines *lines = ctx;
    lines->count += level == CONEY_LOG_ERROR;
    text_append(lines->text, sizeof lines->text, "%s\n", text);
}

static void all_mistakes_are_found_at_once_each_with_its_subscription_and_field(void **state)
{
    (void)state;
    struct lines lines = {0};
    struct fake fake = {.mistake = "is wrong"};
    coney_app *app = coney_app_new("orders", "");
    coney_app_configure(app, &(coney_app_options){.on_log = take_line, .log_ctx = &lines, .drain_timeout = -7, .id = "no uri"});
    coney_broker *broker = fake_broker(app, &fake);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE("a"), .lanes = -1});
    coney_subscribe(broker, &(coney_subscription){.handler = take_order_handler, .name = "b", .dead_letter = "dead"});
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE("c"), .name = "a", .handler = take_order_handler});
    coney_app_on(app, CONEY_AFTER_STOP, NULL, NULL);
    coney_call call = {0};
    assert_int_equal(coney_app_check(app, &call), CONEY_EINVAL);
    static const char *const expected[] = {
        "app: version: ",
        "app: drain_timeout: -7",
        "app: id: 'no uri'",
        "app: hook: ",
        "broker 'fake': uri: is wrong",
        "subscription 'a': lanes: -1",
        "subscription 'a': handler: is missing",
        "subscription 'b': source: is missing",
        "subscription 'b': dead_letter: 'dead' needs max_attempts",
        "subscription 'a': name: another subscription has it",
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (strstr(lines.text, expected[i]) == NULL)
            fail_msg("expected '%s' among:\n%s", expected[i], lines.text);
    assert_int_equal(call.value, sizeof expected / sizeof expected[0]);
    assert_int_equal(lines.count, call.value);
    assert_true(strlen(call.text) > 300);
    assert_non_null(strstr(lines.text, call.text)); /* whole lines, as many as fit */
    assert_int_equal(lines.text[strlen(call.text)], '\n');
    assert_int_equal(coney_app_start(app, &call), CONEY_EINVAL);
    assert_int_equal(call.value, 10);
    coney_app_free(&app);
}

static void every_field_of_a_subscription_is_looked_at(void **state)
{
    (void)state;
#define ONE .handler = take_order_handler
#define MANY .handler = take_batch_handler
    static char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    expect_only((coney_subscription){ONE, .name = ""}, "subscription '': name: is empty");
    expect_only((coney_subscription){ONE, .name = long_name}, ": name: has 299 bytes");
    expect_only((coney_subscription){ONE, .name = "a\nb"}, ": name: has a control character");
    expect_only((coney_subscription){ONE, .name = "\xff"}, ": name: is not UTF-8");
    expect_only((coney_subscription){ONE, .source = {.kind = (coney_source_kind)9, .size = 8, .of = "12345678"}, .name = "n"},
                "source: 9 is no kind");
    expect_only((coney_subscription){ONE, .source = CONEY_TOPIC("orders")}, "source: the fake has no topics");
    expect_only((coney_subscription){ONE, .source = CONEY_QUEUE("orders", .reserved = {1})}, "source: a reserved member");
    expect_only((coney_subscription){.name = "n"}, "handler: is missing");
    expect_only((coney_subscription){.handler = take_twice_handler}, "handler: type 'twice': ");
    coney_handler both = take_order_handler;
    both.many = take_batch_handler.many;
    expect_only((coney_subscription){.handler = both, .batch = 5},
                "handler: 'take_order' is for single messages and for batches");
    expect_only((coney_subscription){ONE, .batch = 10}, "batch: 10, and handler 'take_order' takes single messages");
    expect_only((coney_subscription){ONE, .batch_wait = 10}, "batch_wait: has no meaning");
    expect_only((coney_subscription){MANY}, "batch: handler 'take_batch' takes batches");
    expect_only((coney_subscription){MANY, .batch = 65536}, "batch: 65536 is not between 1 and 65535");
    expect_only((coney_subscription){MANY, .batch = 1, .batch_wait = -2}, "batch_wait: -2 is negative");
    expect_only((coney_subscription){MANY, .batch = 1, .lanes = 2, .by_key = true}, "by_key: batches");
    expect_only((coney_subscription){MANY, .batch = 1, .around = pass}, "around: handlers of batches");
    expect_only((coney_subscription){ONE, .lanes = 1025}, "lanes: 1025");
    expect_only((coney_subscription){ONE, .lane_queue = -1}, "lane_queue: -1");
    expect_only((coney_subscription){ONE, .by_key = true}, "by_key: one lane");
    expect_only((coney_subscription){ONE, .lanes = 2, .key_header = "k"}, "key_header: 'k' is looked at with by_key");
    expect_only((coney_subscription){ONE, .on_undecodable = -9}, "on_undecodable: -9 is no policy");
    expect_only((coney_subscription){ONE, .on_failure = -5}, "on_failure: -5 is no policy");
    expect_only((coney_subscription){ONE, .on_publish_failure = INT64_MIN}, "on_publish_failure: ");
    expect_only((coney_subscription){ONE, .max_attempts = -1}, "max_attempts: -1");
    expect_only((coney_subscription){ONE, .max_attempts = 2, .dead_letter = ""}, "dead_letter: is empty");
    expect_only((coney_subscription){ONE, .no_retry_copies = true}, "no_retry_copies: ");
    expect_only((coney_subscription){ONE, .choose = choose_order}, "choose: 'order' is one message");
    expect_only((coney_subscription){.handler = take_bytes_handler, .codec = coney_json()}, "codec: handler 'take_bytes'");
    expect_only((coney_subscription){.handler = take_bytes_handler, .choose = choose_order}, "choose: handler 'take_bytes'");
    expect_only((coney_subscription){ONE, .reserved = {0, 1}}, "subscription: a reserved member");
#undef ONE
#undef MANY
}

static coney_status decode_nothing(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                   coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    (void)body;
    (void)type;
    (void)out;
    (void)arena;
    (void)fault;
    return CONEY_EUNSUPPORTED;
}

static coney_status encode_nothing(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                   coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    (void)type;
    (void)value;
    (void)sink;
    (void)arena;
    (void)fault;
    return CONEY_OK;
}

static const coney_codec absent = {.name = "absent", .content_type = "", .decode = decode_nothing, .encode = encode_nothing};
static const coney_codec half = {.name = "half", .content_type = ""};

static void a_codec_that_this_build_lacks_or_that_is_not_whole_is_found_at_the_start(void **state)
{
    (void)state;
    expect_only((coney_subscription){.handler = take_order_handler, .codec = &absent},
                "codec: this build of coney has no absent");
    expect_only((coney_subscription){.handler = take_event_handler, .codec = &absent},
                "codec: this build of coney has no absent");
    expect_only((coney_subscription){.handler = take_order_handler, .codec = &half}, "codec: 'half' lacks one of");
}

static void a_struct_of_a_newer_library_is_refused_unless_its_further_bytes_are_zero(void **state)
{
    (void)state;
    struct {
        coney_subscription known;
        uint64_t unknown;
    } newer = {.known = {.source = CONEY_QUEUE("orders"), .handler = take_order_handler}};
    struct scene scene;
    begin(&scene);
    assert_int_equal(coney_subscribe_sized(scene.broker, &newer.known, sizeof newer), CONEY_OK);
    check(&scene);
    assert_int_equal(scene.mistakes.count, 0);
    newer.unknown = 1;
    newer.known.name = "later";
    coney_subscribe_sized(scene.broker, &newer.known, sizeof newer);
    check(&scene);
    expect_mistake(&scene, "app: subscription: 'later' has members that this library does not know");
    end(&scene);
}

static void what_comes_too_late_or_twice_is_a_mistake(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    coney_app_configure(scene.app, &(coney_app_options){.timed = true});
    coney_app_configure(scene.app, NULL);
    coney_app_use(scene.app, NULL, NULL);
    coney_broker_use(scene.broker, NULL, NULL);
    coney_broker_label(scene.broker, "");
    coney_app_on(scene.app, (coney_stage)4, NULL, NULL);
    coney_declare_queue(scene.broker, NULL);
    check(&scene);
    expect_mistake(&scene, "app: options: coney_app_configure was called after something had been described");
    expect_mistake(&scene, "app: options: coney_app_configure was called twice");
    expect_mistake(&scene, "a function of coney_app_use is NULL");
    expect_mistake(&scene, "a function of coney_broker_use is NULL");
    expect_mistake(&scene, "app: label: ");
    expect_mistake(&scene, "app: hook: 4 is no stage");
    expect_mistake(&scene, "app: coney_declare_queue: ");
    end(&scene);
}

static void texts_sources_and_arguments_are_copied(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    char name[] = "orders", key[] = "order.*", argument[] = "x-thing", value[] = "red", dead[] = "dead";
    coney_field arguments[] = {{.key = coney_bytes_str(argument), .value = coney_value_string(coney_bytes_str(value))}};
    coney_queue_binding bindings[] = {{.exchange = name, .key = key, .arguments = arguments, .argument_count = 1}, {0}};
    coney_queue_source source = {.name = name, .bindings = bindings, .arguments = arguments, .argument_count = 1};
    coney_subscribe(scene.broker, &(coney_subscription){.source = coney_source_queue(&source),
                                                        .handler = take_bytes_handler,
                                                        .dead_letter = dead,
                                                        .max_attempts = 2});
    coney_declare_queue(scene.broker, &(coney_amqp_queue){.name = dead, .arguments = arguments, .argument_count = 1});
    memset(name, 'z', 6);
    memset(key, 'z', 7);
    memset(argument, 'z', 7);
    memset(value, 'z', 3);
    memset(dead, 'z', 4);
    memset(bindings, 0, sizeof bindings);
    memset(arguments, 0, sizeof arguments);
    memset(&source, 0, sizeof source);

    const struct subscription *s = app_subscription(scene.app, "orders");
    assert_non_null(s);
    const coney_queue_source *copy = s->options.source.of;
    assert_string_equal(copy->name, "orders");
    assert_string_equal(copy->bindings[0].key, "order.*");
    assert_null(copy->bindings[1].exchange);
    assert_memory_equal(copy->arguments[0].key.data, "x-thing", 7);
    assert_memory_equal(copy->bindings[0].arguments[0].value.as.bytes.data, "red", 3);
    assert_string_equal(s->options.dead_letter, "dead");
    assert_string_equal(scene.broker->declarations->as.queue.name, "dead");
    assert_memory_equal(scene.broker->declarations->as.queue.arguments[0].value.as.bytes.data, "red", 3);
    end(&scene);
}

static void declarations_keep_their_order_and_a_declared_stream_may_exist_already(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    coney_declare_exchange(scene.broker, &(coney_amqp_exchange){.name = "events", .type = "topic"});
    coney_declare_queue(scene.broker, &(coney_amqp_queue){.name = "dead"});
    coney_declare_stream(scene.broker, "log", &(coney_stream_spec){.max_length = 5});
    const struct declaration *d = scene.broker->declarations;
    assert_int_equal(d->what, DECLARE_EXCHANGE);
    assert_string_equal(d->as.exchange.type, "topic");
    assert_int_equal(d->next->what, DECLARE_QUEUE);
    assert_int_equal(d->next->next->what, DECLARE_STREAM);
    assert_string_equal(d->next->next->stream, "log");
    assert_true(d->next->next->as.spec.if_missing);
    end(&scene);
}

static void a_subscription_is_named_by_itself_its_source_or_its_handler(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    coney_subscribe(scene.broker,
                    &(coney_subscription){.source = CONEY_QUEUE("q"), .name = "own", .handler = take_bytes_handler});
    coney_subscribe(scene.broker, &(coney_subscription){.source = CONEY_STREAM("s"), .handler = take_bytes_handler});
    coney_subscribe(scene.broker,
                    &(coney_subscription){.source = CONEY_QUEUE(NULL, .declare = true), .handler = take_bytes_handler});
    assert_non_null(app_subscription(scene.app, "own"));
    const struct subscription *stream = app_subscription(scene.app, "s");
    assert_string_equal(((const coney_stream_source *)stream->options.source.of)->consumer, "orders"); /* the app's title */
    assert_non_null(app_subscription(scene.app, "take_bytes"));
    assert_null(app_subscription(scene.app, "q"));
    assert_null(app_subscription(scene.app, NULL));
    end(&scene);
}

static void brokers_are_labelled_by_their_transport_and_number(void **state)
{
    (void)state;
    struct fake fakes[3] = {0};
    coney_app *app = coney_app_new("orders", "1");
    assert_string_equal(fake_broker(app, &fakes[0])->label, "fake");
    coney_broker *second = fake_broker(app, &fakes[1]);
    assert_string_equal(second->label, "fake-2");
    coney_broker_label(second, "other");
    assert_string_equal(second->label, "other");
    coney_broker *third = fake_broker(app, &fakes[2]);
    assert_string_equal(third->label, "fake-2");
    assert_non_null(third->publishers); /* its own */
    struct mistakes mistakes = {0};
    coney_broker_label(third, "other");
    app_check(app, &mistakes);
    assert_int_equal(mistakes.count, 1);
    assert_non_null(strstr(mistakes.text, "broker 'other': label: another broker has it"));
    mistakes_free(&mistakes);
    coney_app_free(&app);
    for (int i = 0; i < 3; i++)
        assert_true(fakes[i].is_freed);
}

static void a_broker_without_an_app_frees_what_it_was_given(void **state)
{
    (void)state;
    struct fake fake = {0};
    assert_null(fake_broker(NULL, &fake));
    assert_true(fake.is_freed);
    coney_app *app = coney_app_new("orders", "1");
    assert_null(broker_new(app, &fake_transport, NULL)); /* memory was out in a constructor */
    coney_call call = {0};
    assert_int_equal(coney_app_check(app, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "app: memory: was out"));
    assert_int_equal(coney_subscribe(NULL, &(coney_subscription){0}), CONEY_EINVAL);
    coney_app_free(&app);
    coney_app_free(&app);
    coney_app_free(NULL);
}

/* Routers ----------------------------------------------------------------------------------------------------------------- */

static int in_app, in_broker, in_outer, in_inner, in_own;

static void a_router_brings_its_codec_and_its_middleware_from_outside_to_inside(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    coney_app_use(scene.app, pass, &in_app);
    coney_broker_use(scene.broker, pass, &in_broker);
    coney_router *inner = coney_router_new();
    coney_router *outer = coney_router_new();
    char name[] = "deep";
    coney_route(inner, &(coney_subscription){
                           .source = CONEY_QUEUE(name), .handler = take_order_handler, .around = pass, .around_ctx = &in_own});
    coney_router_use(inner, pass, &in_inner);
    coney_router_codec(inner, coney_cbor());
    coney_route(outer, &(coney_subscription){.source = CONEY_QUEUE("first"), .handler = take_order_handler});
    assert_int_equal(coney_router_include(outer, inner), CONEY_OK);
    coney_router_free(&inner); /* it was copied */
    coney_route(outer, &(coney_subscription){.source = CONEY_QUEUE("last"), .handler = take_order_handler, .codec = &absent});
    coney_router_use(outer, pass, &in_outer);
    coney_router_codec(outer, coney_msgpack());
    memset(name, 'z', 4);
    assert_int_equal(coney_include(scene.broker, outer), CONEY_OK);
    coney_router_free(&outer);
    assert_null(outer);

    struct subscription *first = scene.broker->subscriptions;
    struct subscription *deep = first->next;
    struct subscription *last = deep->next;
    assert_string_equal(first->name, "first");
    assert_string_equal(deep->name, "deep");
    assert_string_equal(last->name, "last");
    assert_int_equal(subscription_resolve(deep), CONEY_OK);
    const void *expected[] = {&in_app, &in_broker, &in_outer, &in_inner, &in_own};
    assert_int_equal(deep->chain_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_ptr_equal(deep->chain[i].ctx, expected[i]);
    assert_ptr_equal(deep->codec, coney_cbor());
    assert_int_equal(subscription_resolve(first), CONEY_OK);
    assert_int_equal(first->chain_count, 3);
    assert_ptr_equal(first->codec, coney_msgpack());
    assert_ptr_equal(subscription_codec(last), &absent);
    end(&scene);
}

static void a_router_may_be_included_often_also_in_itself(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    coney_router *router = coney_router_new();
    coney_route(router, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = take_order_handler});
    assert_int_equal(coney_router_include(router, router), CONEY_OK);
    assert_int_equal(coney_include(scene.broker, router), CONEY_OK);
    assert_int_equal(coney_include(scene.broker, router), CONEY_OK);
    size_t count = 0;
    for (const struct subscription *s = scene.broker->subscriptions; s != NULL; s = s->next)
        count++;
    assert_int_equal(count, 4);
    coney_router_use(router, NULL, NULL);
    coney_include(scene.broker, router);
    check(&scene);
    expect_mistake(&scene, "subscription 'orders': middleware: a function of coney_router_use is NULL");
    coney_router_free(&router);
    coney_router_free(&router);
    assert_int_equal(coney_include(scene.broker, NULL), CONEY_EINVAL);
    end(&scene);
}

static void what_is_not_given_is_filled_in_and_batches_are_not_wrapped(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    coney_app_use(scene.app, pass, &in_app);
    coney_subscribe(scene.broker, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = take_order_handler});
    coney_subscribe(scene.broker,
                    &(coney_subscription){.source = CONEY_QUEUE("rows"), .handler = take_batch_handler, .batch = 10});
    struct subscription *orders = app_subscription(scene.app, "orders");
    struct subscription *rows = app_subscription(scene.app, "rows");
    for (int i = 0; i < 2; i++) { /* as by a second start */
        assert_int_equal(subscription_resolve(orders), CONEY_OK);
        assert_int_equal(subscription_resolve(rows), CONEY_OK);
    }
    assert_int_equal(orders->options.on_undecodable, CONEY_POLICY_REJECT);
    assert_int_equal(orders->options.on_failure, CONEY_SECOND);
    assert_int_equal(orders->options.on_publish_failure, CONEY_SECOND);
    assert_int_equal(orders->options.lanes, 1);
    assert_int_equal(orders->options.lane_queue, 64);
    assert_ptr_equal(orders->codec, coney_json());
    assert_int_equal(orders->chain_count, 1);
    assert_int_equal(rows->options.batch_wait, 10 * CONEY_MILLISECOND);
    assert_int_equal(rows->chain_count, 0);
    assert_null(rows->codec);
    check(&scene);
    assert_int_equal(scene.mistakes.count, 0);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_without_mistakes_has_none),
        cmocka_unit_test(all_mistakes_are_found_at_once_each_with_its_subscription_and_field),
        cmocka_unit_test(every_field_of_a_subscription_is_looked_at),
        cmocka_unit_test(a_codec_that_this_build_lacks_or_that_is_not_whole_is_found_at_the_start),
        cmocka_unit_test(a_struct_of_a_newer_library_is_refused_unless_its_further_bytes_are_zero),
        cmocka_unit_test(what_comes_too_late_or_twice_is_a_mistake),
        cmocka_unit_test(texts_sources_and_arguments_are_copied),
        cmocka_unit_test(declarations_keep_their_order_and_a_declared_stream_may_exist_already),
        cmocka_unit_test(a_subscription_is_named_by_itself_its_source_or_its_handler),
        cmocka_unit_test(brokers_are_labelled_by_their_transport_and_number),
        cmocka_unit_test(a_broker_without_an_app_frees_what_it_was_given),
        cmocka_unit_test(a_router_brings_its_codec_and_its_middleware_from_outside_to_inside),
        cmocka_unit_test(a_router_may_be_included_often_also_in_itself),
        cmocka_unit_test(what_is_not_given_is_filled_in_and_batches_are_not_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
