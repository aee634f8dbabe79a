/* publish_test.c: what a publish becomes on its way to the transport: destination, body, headers, middleware, outcomes. */
#include "service/publish_fixture.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACED(F) F(u64, id) F(string, region)
CONEY_MESSAGE(placed, PLACED, to("orders.{region}.placed"));
#define RECEIPT(F) F(u64, order_id)
CONEY_MESSAGE(receipt, RECEIPT, to("receipts"));
#define NUMBER(F) F(f64, value)
CONEY_MESSAGE(number, NUMBER);
#define META(F) F(string, tenant) F(u32, depth) F(optional, note, string)
CONEY_TYPE(meta, META);
#define EVENT(M) M(placed, "order.placed") M(receipt, "receipt.made")
CONEY_SET(event, EVENT, header("event-type"));
CONEY_FUNCTIONS(event);
CONEY_SET(typed_event, EVENT, header("type"));
CONEY_FUNCTIONS(typed_event);

static const order ada = {.id = 42, .customer = CONEY_STR_INIT("ada")};

/* Destinations ---------------------------------------------------------------------------------------------------- */

static void the_call_names_the_destination_before_type_and_publisher(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = coney_publisher_new(rig->broker, &(coney_publisher_options){.to = "from-publisher"});
    rig_open(rig);
    receipt r = {.order_id = 1};
    assert_int_equal(receipt_publish(coney_out_by_publisher(p), "from-call", &r), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "from-call");
    assert_int_equal(receipt_publish(coney_out_by_publisher(p), NULL, &r), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "receipts");
    assert_int_equal(order_publish(coney_out_by_publisher(p), NULL, &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "from-publisher");
    assert_string_equal(rig_last(rig)->body, "{\"id\":42,\"customer\":\"ada\"}");
    assert_string_equal(rig_last(rig)->content_type, "application/json");
}

static void a_template_is_filled_in_from_the_message(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = coney_publisher_new(rig->broker, &(coney_publisher_options){.to = "by.{customer}.{id}"});
    rig_open(rig);
    placed made = {.id = 7, .region = CONEY_STR("eu")};
    assert_int_equal(placed_publish(coney_out_of_broker(rig->broker), NULL, &made), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "orders.eu.placed");
    assert_int_equal(order_publish(coney_out_by_publisher(p), NULL, &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "by.ada.42");
}

static void a_template_that_cannot_be_filled_in_is_refused_and_named(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = coney_publisher_new(rig->broker, &(coney_publisher_options){.to = "by.{region}"});
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by_publisher(p), NULL, &ada), CONEY_EINVAL);
    rig_logged(rig, "publisher 'by.{region}': the destination 'by.{region}' of order cannot be written");
    assert_int_equal(coney_publish_raw(coney_out_by_publisher(p), CONEY_STR("x"), CONEY_STR(""), NULL), CONEY_EINVAL);
    rig_logged(rig, "raw bytes have none");
    char region[300];
    memset(region, 'x', sizeof region);
    placed made = {.region = {region, sizeof region}};
    assert_int_equal(placed_publish(coney_out_of_broker(rig->broker), NULL, &made), CONEY_ETOOBIG);
    rig_logged(rig, "is longer than 255 bytes");
    assert_int_equal(rig->fake.published_count, 0);
}

static void a_message_without_a_destination_is_refused_but_for_an_exchange(void **state)
{
    struct rig *rig = *state;
    coney_publisher *fanout = coney_publisher_new(rig->broker, &(coney_publisher_options){.exchange = "events"});
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_of(&rig->delivery), NULL, &ada), CONEY_EINVAL);
    assert_string_equal(
        rig->delivery.fault.text,
        "publisher 'fake': the message has no destination: neither the call, nor its type, nor the publisher names one");
    rig_logged(rig, rig->delivery.fault.text);
    assert_int_equal(order_publish(coney_out_by_publisher(fanout), NULL, &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "");
    assert_string_equal(rig_last(rig)->exchange, "events");
}

/* Bodies ---------------------------------------------------------------------------------------------------------- */

static coney_status say_name(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                             coney_arena *arena, coney_fault *fault)
{
    (void)type, (void)value, (void)arena, (void)fault;
    coney_sink_write(sink, codec->name, strlen(codec->name));
    return CONEY_OK;
}

static coney_status read_nothing(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                 coney_arena *arena, coney_fault *fault)
{
    (void)codec, (void)body, (void)type, (void)out, (void)arena, (void)fault;
    return CONEY_OK;
}

static const coney_codec of_app = {.name = "app", .content_type = "text/app", .encode = say_name, .decode = read_nothing};
static const coney_codec of_broker = {
    .name = "broker", .content_type = "text/broker", .encode = say_name, .decode = read_nothing};
static const coney_codec of_publisher = {
    .name = "publisher", .content_type = "text/publisher", .encode = say_name, .decode = read_nothing};
static const coney_codec of_call = {.name = "call", .content_type = "", .encode = say_name, .decode = read_nothing};

static void the_codec_is_the_calls_the_publishers_the_brokers_or_the_apps(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = coney_publisher_new(rig->broker, &(coney_publisher_options){.codec = &of_publisher, .to = "x"});
    rig->app->options.codec = &of_app;
    rig_open(rig);
    coney_out own = coney_out_of_broker(rig->broker);
    assert_int_equal(order_publish(own, "x", &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->body, "app");
    assert_int_equal(order_publish(coney_out_by_publisher(p), NULL, &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->body, "publisher");
    assert_string_equal(rig_last(rig)->content_type, "text/publisher");
    coney_publish_options options = {.codec = &of_call};
    assert_int_equal(order_publish_with(coney_out_by_publisher(p), &options, &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->body, "call");
    assert_string_equal(rig_last(rig)->content_type, "");
    rig_close(rig);
    coney_broker_codec(rig->broker, &of_broker);
    rig_open(rig);
    assert_int_equal(order_publish(own, "x", &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->body, "broker");
}

static void a_value_without_a_form_is_refused_with_its_path(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    number n = {.value = __builtin_nan("")};
    assert_int_equal(number_publish(coney_out_of(&rig->delivery), "numbers", &n), CONEY_EINVAL);
    assert_non_null(strstr(rig->delivery.fault.text, "publisher 'fake': number cannot be written as json: value"));
    rig_logged(rig, rig->delivery.fault.text);
    assert_int_equal(rig->broker->publishers->stats.refused, 1);
    assert_int_equal(rig->fake.published_count, 0);
}

static void bytes_go_out_as_they_are(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_publish_options options = {.to = "raw", .key = CONEY_STR("k"), .correlation_id = CONEY_STR("c")};
    assert_int_equal(coney_publish_raw(coney_out_of_broker(rig->broker), CONEY_STR("abc"), CONEY_STR("text/plain"), &options),
                     CONEY_OK);
    assert_string_equal(rig_last(rig)->body, "abc");
    assert_string_equal(rig_last(rig)->content_type, "text/plain");
    assert_string_equal(rig_last(rig)->key, "k");
    assert_string_equal(rig_last(rig)->correlation_id, "c");
}

static void a_set_publishes_what_it_holds_and_says_which_it_is(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_out out = coney_out_of_broker(rig->broker);
    event made = {.is = receipt_type(), .value.as_receipt = {.order_id = 9}};
    assert_int_equal(event_publish(out, NULL, &made), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "receipts");
    assert_string_equal(rig_last(rig)->body, "{\"order_id\":9}");
    assert_string_equal(rig_last(rig)->headers, "event-type=receipt.made");
    coney_field said = {CONEY_STR("event-type"), coney_value_string(CONEY_STR("by hand"))};
    coney_publish_options options = {.headers = &said, .header_count = 1};
    assert_int_equal(event_publish_with(out, &options, &made), CONEY_OK);
    assert_string_equal(rig_last(rig)->headers, "event-type=by hand");
    made.is = order_type();
    assert_int_equal(event_publish(out, NULL, &made), CONEY_EINVAL);
    rig_logged(rig, "the `is` of event is none of its types");
}

static coney_bytes type_seen;

static coney_status see_type(void *ctx, const coney_publish *message, coney_publish_next *next)
{
    (void)ctx;
    type_seen = message->options->type;
    return coney_publish_next_run(next, message);
}

static void a_set_that_chooses_by_type_writes_the_property(void **state)
{
    struct rig *rig = *state;
    coney_app_use_publish(rig->app, see_type, NULL);
    rig_open(rig);
    typed_event made = {.is = receipt_type(), .value.as_receipt = {.order_id = 9}};
    assert_int_equal(typed_event_publish(coney_out_of_broker(rig->broker), NULL, &made), CONEY_OK);
    assert_memory_equal(type_seen.data, "receipt.made", 12);
    assert_string_equal(rig_last(rig)->headers, "");
}

/* Headers --------------------------------------------------------------------------------------------------------- */

static void typed_headers_win_over_plain_ones(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_field plain[] = {{CONEY_STR("tenant"), coney_value_string(CONEY_STR("plain"))},
                           {CONEY_STR("trace"), coney_value_string(CONEY_STR("t1"))}};
    meta m = {.tenant = CONEY_STR("acme"), .depth = 3};
    coney_publish_options options = {
        .to = "x", .headers = plain, .header_count = 2, .header_type = meta_type(), .header_value = &m};
    assert_int_equal(order_publish_with(coney_out_of_broker(rig->broker), &options, &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->headers, "trace=t1 tenant=acme depth=3");
    options.header_type = NULL;
    assert_int_equal(order_publish_with(coney_out_of_broker(rig->broker), &options, &ada), CONEY_OK);
    assert_string_equal(rig_last(rig)->headers, "tenant=plain trace=t1");
    options.header_type = meta_type();
    options.header_value = NULL;
    assert_int_equal(order_publish_with(coney_out_of_broker(rig->broker), &options, &ada), CONEY_EINVAL);
    rig_logged(rig, "header_value is NULL");
}

static void what_a_publisher_says_holds_where_the_call_says_nothing(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = coney_publisher_new(rig->broker, &(coney_publisher_options){.to = "x",
                                                                                     .expiration = CONEY_SECOND,
                                                                                     .priority = 3,
                                                                                     .has_priority = true,
                                                                                     .transient = true,
                                                                                     .drop_unroutable = true});
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by_publisher(p), NULL, &ada), CONEY_OK);
    const struct outgoing *sent = &rig_last(rig)->flags;
    assert_int_equal(sent->expiration, CONEY_SECOND);
    assert_true(sent->has_priority && sent->priority == 3 && sent->transient && sent->drop_unroutable);
    coney_publish_options options = {.expiration = 5, .timestamp = 8, .priority = 9, .has_priority = true, .persistent = true};
    assert_int_equal(order_publish_with(coney_out_by_publisher(p), &options, &ada), CONEY_OK);
    sent = &rig_last(rig)->flags;
    assert_int_equal(sent->expiration, 5);
    assert_int_equal(sent->timestamp, 8);
    assert_true(sent->priority == 9 && !sent->transient && !sent->to_requester);
}

/* Refusals -------------------------------------------------------------------------------------------------------- */

static void an_app_that_does_not_run_publishes_nothing(void **state)
{
    struct rig *rig = *state;
    coney_out out = coney_out_of_broker(rig->broker);
    assert_int_equal(order_publish(out, "x", &ada), CONEY_ECLOSED);
    rig_open(rig);
    assert_int_equal(order_publish(out, "x", &ada), CONEY_OK);
    rig_close(rig);
    assert_int_equal(order_publish(out, "x", &ada), CONEY_ECLOSED);
}

static void a_child_process_publishes_nothing(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    pid_t child = fork();
    if (child == 0)
        _exit(order_publish(coney_out_of_broker(rig->broker), "x", &ada) == CONEY_EFORKED ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void arguments_that_are_null_are_refused(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    assert_int_equal(order_publish((coney_out){0}, "x", &ada), CONEY_EINVAL);
    assert_int_equal(order_publish(coney_out_of(NULL), "x", &ada), CONEY_EINVAL);
    assert_int_equal(order_publish(coney_out_of_broker(NULL), "x", &ada), CONEY_EINVAL);
    assert_int_equal(order_publish(coney_out_of_broker(rig->broker), "x", NULL), CONEY_EINVAL);
    assert_int_equal(coney_publish_sized(coney_out_of_broker(rig->broker), NULL, &ada, NULL, 0), CONEY_EINVAL);
    rig_logged(rig, "the type of the message is NULL");
}

static void options_of_another_version_are_read_as_far_as_they_go(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_out out = coney_out_of_broker(rig->broker);
    struct {
        coney_publish_options known;
        uint64_t more;
    } newer = {.known.to = "newer"};
    assert_int_equal(coney_publish_sized(out, order_type(), &ada, &newer.known, sizeof newer), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "newer");
    newer.more = 1;
    assert_int_equal(coney_publish_sized(out, order_type(), &ada, &newer.known, sizeof newer), CONEY_EUNSUPPORTED);
    coney_publish_options older = {.to = "older", .expiration = 77};
    assert_int_equal(coney_publish_sized(out, order_type(), &ada, &older, offsetof(coney_publish_options, expiration)),
                     CONEY_OK);
    assert_int_equal(rig_last(rig)->flags.expiration, 0);
    older.reserved[2] = 1;
    assert_int_equal(order_publish_with(out, &older, &ada), CONEY_EINVAL);
    rig_logged(rig, "a reserved member is not zero");
}

static void a_delivery_that_was_settled_takes_no_more_publishes(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    rig->delivery.flags = 0;
    assert_int_equal(order_publish(coney_out_of(&rig->delivery), "x", &ada), CONEY_EINVAL);
    rig_logged(rig, "the delivery is settled");
    assert_int_equal(rig->fake.published_count, 0);
}

static void what_the_transport_answers_is_handed_on(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_out out = coney_out_of(&rig->delivery);
    rig->fake.publish_with = CONEY_EAGAIN;
    assert_int_equal(order_publish(out, "x", &ada), CONEY_EAGAIN);
    assert_string_equal(rig->log.text, "");
    rig->fake.publish_with = CONEY_EUNSUPPORTED;
    assert_int_equal(order_publish(out, "x", &ada), CONEY_EUNSUPPORTED);
    rig_logged(rig, "publisher 'fake': the message to 'x' was not taken by fake");
    assert_int_equal(rig->delivery.waits, 1);
    assert_int_equal(rig->broker->publishers->stats.refused, 2);
}

/* Middleware ------------------------------------------------------------------------------------------------------ */

struct layer {
    struct rig *rig;
    const char *name;
    const char *to;      /* handed on instead */
    coney_status answer; /* instead of going on */
    int times;
};

static coney_status around(void *ctx, const coney_publish *message, coney_publish_next *next)
{
    struct layer *layer = ctx;
    journal_add(&layer->rig->journal, "%s", layer->name);
    if (layer->answer != CONEY_OK)
        return layer->answer;
    coney_publish changed = *message;
    if (layer->to != NULL)
        changed.to = coney_bytes_str(layer->to);
    coney_status status = coney_publish_next_run(next, &changed);
    for (int i = 1; i < layer->times; i++)
        status = coney_publish_next_run(next, &changed);
    journal_add(&layer->rig->journal, "/%s", layer->name);
    return status;
}

static void middleware_of_the_app_is_outside_the_publishers(void **state)
{
    struct rig *rig = *state;
    struct layer first = {.rig = rig, .name = "first"}, second = {.rig = rig, .name = "second"};
    struct layer own = {.rig = rig, .name = "own", .to = "changed"};
    coney_app_use_publish(rig->app, around, &first);
    coney_app_use_publish(rig->app, around, &second);
    coney_publisher *p =
        coney_publisher_new(rig->broker, &(coney_publisher_options){.name = "p", .around = around, .around_ctx = &own});
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_by_publisher(p), NULL, &ada), CONEY_OK);
    assert_string_equal(rig->journal.text, "first second own publish(changed) /own /second /first");
    journal_clear(&rig->journal);
    assert_int_equal(order_publish(coney_out_of_broker(rig->broker), "x", &ada), CONEY_OK);
    assert_string_equal(rig->journal.text, "first second publish(x) /second /first");
}

static void middleware_may_answer_by_itself_or_publish_again(void **state)
{
    struct rig *rig = *state;
    struct layer layer = {.rig = rig, .name = "layer", .answer = CONEY_EAGAIN};
    coney_app_use_publish(rig->app, around, &layer);
    rig_open(rig);
    coney_out out = coney_out_of_broker(rig->broker);
    assert_int_equal(order_publish(out, "x", &ada), CONEY_EAGAIN);
    assert_string_equal(rig->journal.text, "layer");
    layer.answer = CONEY_OK;
    layer.times = 2;
    assert_int_equal(order_publish(out, "x", &ada), CONEY_OK);
    assert_int_equal(rig->fake.published_count, 2);
    assert_int_equal(rig->broker->publishers->stats.published, 2);
}

static coney_status forget_the_options(void *ctx, const coney_publish *message, coney_publish_next *next)
{
    (void)ctx;
    return coney_publish_next_run(next, &(coney_publish){.to = message->to, .body = message->body});
}

static void middleware_that_drops_the_options_is_refused(void **state)
{
    struct rig *rig = *state;
    coney_app_use_publish(rig->app, forget_the_options, NULL);
    rig_open(rig);
    assert_int_equal(order_publish(coney_out_of_broker(rig->broker), "x", &ada), CONEY_EINVAL);
    rig_logged(rig, "middleware has handed on a message without its options");
    assert_int_equal(rig->fake.published_count, 0);
}

/* Outcomes -------------------------------------------------------------------------------------------------------- */

static void a_delivery_waits_for_what_was_published_through_it(void **state)
{
    struct rig *rig = *state;
    rig->fake.hold_outcomes = true;
    rig_open(rig);
    coney_out out = coney_out_of(&rig->delivery);
    assert_int_equal(order_publish(out, "x", &ada), CONEY_OK);
    assert_int_equal(order_publish(out, "y", &ada), CONEY_OK);
    assert_int_equal(rig->delivery.waits, 3);
    fake_outcome(&rig->fake, 1, CONEY_OK);
    fake_outcome(&rig->fake, 0, CONEY_ERETURNED);
    assert_int_equal(rig->delivery.waits, 1);
    assert_int_equal(rig->delivery.publish_status, CONEY_ERETURNED);
    rig_logged(
        rig,
        "publisher 'fake': a message of the subscription 'requests' to 'x' was returned, no queue took it: the fake's outcome");
}

struct told {
    uint64_t tags[8];
    coney_status statuses[8];
    size_t count;
};

static void on_outcome(void *ctx, const coney_outcome *outcome)
{
    struct told *told = ctx;
    told->tags[told->count] = outcome->tag;
    told->statuses[told->count++] = outcome->status;
}

static void any_tag_comes_back_and_deliveries_are_no_tags(void **state)
{
    struct rig *rig = *state;
    struct told told = {0};
    coney_publisher *p =
        coney_publisher_new(rig->broker, &(coney_publisher_options){.to = "x", .on_outcome = on_outcome, .ctx = &told});
    rig_open(rig);
    const uint64_t tags[] = {0, 7, UINT64_MAX, UINT64_C(1) << 63, (uint64_t)(uintptr_t)&rig->delivery};
    for (size_t i = 0; i < 5; i++) {
        coney_publish_options options = {.tag = tags[i]};
        assert_int_equal(order_publish_with(coney_out_by_publisher(p), &options, &ada), CONEY_OK);
    }
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, p), NULL, &ada), CONEY_OK);
    assert_int_equal(told.count, 5);
    assert_memory_equal(told.tags, tags, sizeof tags);
    assert_int_equal(rig->delivery.waits, 1);
}

static void a_failure_that_nobody_asks_about_is_logged_with_its_destination(void **state)
{
    struct rig *rig = *state;
    rig->fake.hold_outcomes = true;
    rig_open(rig);
    coney_out out = coney_out_of_broker(rig->broker);
    assert_int_equal(order_publish(out, "first", &ada), CONEY_OK);
    assert_int_equal(order_publish(out, "second", &ada), CONEY_OK);
    fake_outcome(&rig->fake, 1, CONEY_EREFUSED);
    fake_outcome(&rig->fake, 0, CONEY_EUNKNOWN);
    rig_logged(rig, "publisher 'fake': a message to 'second' was refused: the fake's outcome");
    rig_logged(rig, "publisher 'fake': a message to 'first' may be stored or not");
    assert_int_equal(rig->broker->publishers->stats.failed, 2);
}

static void more_destinations_than_are_remembered_do_no_harm(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    char to[16];
    for (int i = 0; i < 200; i++) {
        text_print(to, sizeof to, "queue-%d", i);
        rig->fake.hold_outcomes = i == 199;
        assert_int_equal(order_publish(coney_out_of_broker(rig->broker), to, &ada), CONEY_OK);
    }
    fake_outcome(&rig->fake, 199, CONEY_EREFUSED);
    rig_logged(rig, "was refused");
    assert_int_equal(rig->broker->publishers->stats.confirmed, 199);
}

static void a_publisher_of_another_broker_is_part_of_the_delivery(void **state)
{
    struct rig *rig = *state;
    struct rig *other;
    rig_setup((void **)&other);
    other->fake.hold_outcomes = true;
    coney_publisher *p = coney_publisher_new(other->broker, &(coney_publisher_options){.to = "there"});
    rig_open(rig);
    rig_open(other);
    assert_int_equal(order_publish(coney_out_by(&rig->delivery, p), NULL, &ada), CONEY_OK);
    assert_int_equal(rig->fake.published_count, 0);
    assert_string_equal(rig_last(other)->to, "there");
    assert_int_equal(rig->delivery.waits, 2);
    fake_outcome(&other->fake, 0, CONEY_OK);
    assert_int_equal(rig->delivery.waits, 1);
    rig_teardown((void **)&other);
}

/* The testkit's look ---------------------------------------------------------------------------------------------- */

static void see(void *ctx, coney_broker *broker, const char *exchange, const struct outgoing *message)
{
    struct rig *rig = ctx;
    assert_ptr_equal(broker, rig->broker);
    journal_add(&rig->journal, "saw(%s,%.*s)", exchange != NULL ? exchange : "-", (int)message->to.len,
                (const char *)message->to.data);
}

static coney_status fail_all(void *ctx, coney_broker *broker)
{
    (void)ctx, (void)broker;
    return CONEY_EREFUSED;
}

static void a_probe_sees_what_went_out_and_can_make_it_fail(void **state)
{
    struct rig *rig = *state;
    struct publish_probe probe = {.published = see, .ctx = rig};
    rig->app->publish_probe = &probe;
    rig_open(rig);
    coney_out out = coney_out_of(&rig->delivery);
    assert_int_equal(order_publish(out, "x", &ada), CONEY_OK);
    assert_string_equal(rig->journal.text, "publish(x) saw(-,x)");
    probe.fail = fail_all;
    assert_int_equal(order_publish(out, "y", &ada), CONEY_OK);
    assert_int_equal(rig->delivery.publish_status, CONEY_EREFUSED);
    assert_int_equal(rig->delivery.waits, 1);
    assert_string_equal(rig->journal.text, "publish(x) saw(-,x)");
}

/* Threads --------------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 2000 };

/* Looks at the body and confirms it at once, on whatever thread. */
static coney_status confirm_at_once(struct outlet *outlet, const struct outgoing *message, uint64_t tag)
{
    const struct fake_outlet *own = container_of(outlet, struct fake_outlet, outlet);
    bool is_whole = message->body.len == 26 && memcmp(message->body.data, "{\"id\":42,\"customer\":\"ada\"}", 26) == 0;
    coney_outcome outcome = {.tag = tag, .status = is_whole ? CONEY_OK : CONEY_EREFUSED, .text = ""};
    own->options.outcome(own->options.ctx, &outcome);
    return CONEY_OK;
}

static void *publish_many(void *ctx)
{
    struct rig *rig = ctx;
    char to[32];
    for (int i = 0; i < EACH; i++) {
        text_print(to, sizeof to, "queue-%d", i % 7);
        if (order_publish(coney_out_of_broker(rig->broker), to, &ada) != CONEY_OK)
            return NULL;
    }
    return rig;
}

static void threads_publish_at_the_same_time(void **state)
{
    struct rig *rig = *state;
    struct transport confirming = fake_transport;
    confirming.publish = confirm_at_once;
    rig->broker->transport = &confirming;
    rig_open(rig);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, publish_many, rig), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *finished;
        pthread_join(threads[i], &finished);
        assert_ptr_equal(finished, rig);
    }
    assert_int_equal(rig->broker->publishers->stats.published, THREADS * EACH);
    assert_int_equal(rig->broker->publishers->stats.confirmed, THREADS * EACH);
    rig_close(rig);
    rig->broker->transport = &fake_transport;
}

int main(void)
{
#define RIGGED(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        RIGGED(the_call_names_the_destination_before_type_and_publisher),
        RIGGED(a_template_is_filled_in_from_the_message),
        RIGGED(a_template_that_cannot_be_filled_in_is_refused_and_named),
        RIGGED(a_message_without_a_destination_is_refused_but_for_an_exchange),
        RIGGED(the_codec_is_the_calls_the_publishers_the_brokers_or_the_apps),
        RIGGED(a_value_without_a_form_is_refused_with_its_path),
        RIGGED(bytes_go_out_as_they_are),
        RIGGED(a_set_publishes_what_it_holds_and_says_which_it_is),
        RIGGED(a_set_that_chooses_by_type_writes_the_property),
        RIGGED(typed_headers_win_over_plain_ones),
        RIGGED(what_a_publisher_says_holds_where_the_call_says_nothing),
        RIGGED(an_app_that_does_not_run_publishes_nothing),
        RIGGED(a_child_process_publishes_nothing),
        RIGGED(arguments_that_are_null_are_refused),
        RIGGED(options_of_another_version_are_read_as_far_as_they_go),
        RIGGED(a_delivery_that_was_settled_takes_no_more_publishes),
        RIGGED(what_the_transport_answers_is_handed_on),
        RIGGED(middleware_of_the_app_is_outside_the_publishers),
        RIGGED(middleware_may_answer_by_itself_or_publish_again),
        RIGGED(middleware_that_drops_the_options_is_refused),
        RIGGED(a_delivery_waits_for_what_was_published_through_it),
        RIGGED(any_tag_comes_back_and_deliveries_are_no_tags),
        RIGGED(a_failure_that_nobody_asks_about_is_logged_with_its_destination),
        RIGGED(more_destinations_than_are_remembered_do_no_harm),
        RIGGED(a_publisher_of_another_broker_is_part_of_the_delivery),
        RIGGED(a_probe_sees_what_went_out_and_can_make_it_fail),
        RIGGED(threads_publish_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
