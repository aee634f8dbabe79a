/* request_test.c: both sides of requests: asking, and replying. */
#include "service/publish_fixture.h"

#define ANSWER(F) F(u64, sum)
CONEY_MESSAGE(answer, ANSWER);
#define PART(M) M(answer, "answer") M(order, "order")
CONEY_SET(part, PART, header("kind"));
CONEY_FUNCTIONS(part);

static const order ada = {.id = 42, .customer = CONEY_STR_INIT("ada")};

/* Replying -------------------------------------------------------------------------------------------------------- */

static void a_reply_goes_to_where_the_request_asks_for(void **state)
{
    struct rig *rig = *state;
    rig->message = (struct fake_message){.reply_to = "amq.rabbitmq.reply-to.g1", .correlation_id = "c-7"};
    rig->fake.hold_outcomes = true;
    rig_open(rig);
    assert_int_equal(answer_reply(&rig->delivery, &(answer){.sum = 3}), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "amq.rabbitmq.reply-to.g1");
    assert_string_equal(rig_last(rig)->correlation_id, "c-7");
    assert_string_equal(rig_last(rig)->body, "{\"sum\":3}");
    assert_true(rig_last(rig)->flags.to_requester && rig_last(rig)->flags.drop_unroutable);
    assert_int_equal(rig->delivery.waits, 2);
    fake_outcome(&rig->fake, 0, CONEY_OK);
    assert_int_equal(rig->delivery.waits, 1);
}

static void a_reply_keeps_what_its_options_say_but_for_its_destination(void **state)
{
    struct rig *rig = *state;
    rig->message = (struct fake_message){.reply_to = "back", .correlation_id = "c-7"};
    rig_open(rig);
    coney_publish_options options = {.to = "elsewhere", .correlation_id = CONEY_STR("mine"), .expiration = 5};
    assert_int_equal(coney_reply_sized(&rig->delivery, answer_type(), &(answer){0}, &options, sizeof options), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "back");
    assert_string_equal(rig_last(rig)->correlation_id, "mine");
    assert_int_equal(rig_last(rig)->flags.expiration, 5);
    assert_string_equal(options.to, "elsewhere");
}

static void a_message_that_wants_no_reply_gets_none(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    assert_int_equal(answer_reply(&rig->delivery, &(answer){0}), CONEY_EINVAL);
    assert_string_equal(
        rig->delivery.fault.text,
        "publisher 'fake': the message of the subscription 'requests' has no reply_to: nobody waits for a reply");
    assert_int_equal(answer_reply(NULL, &(answer){0}), CONEY_EINVAL);
    assert_int_equal(rig->fake.published_count, 0);
}

/* Asking ---------------------------------------------------------------------------------------------------------- */

static void a_request_gives_its_reply_decoded(void **state)
{
    struct rig *rig = *state;
    struct fake_message reply = {.body = CONEY_STR("{\"sum\":5}"), .content_type = "application/json", .correlation_id = "c"};
    rig->fake.reply = &reply;
    rig_open(rig);
    coney_reply_message *got;
    coney_publish_options options = {.to = "sums"};
    coney_call call = {.deadline = CONEY_SECOND};
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, &call), CONEY_OK);
    assert_string_equal(rig_last(rig)->to, "sums");
    assert_string_equal(rig_last(rig)->body, "{\"id\":42,\"customer\":\"ada\"}");
    assert_int_equal(coney_reply_body(got).len, 9);
    assert_int_equal(answer_of_reply(got)->sum, 5);
    assert_int_equal(coney_reply_info(got)->correlation_id.len, 1);
    assert_null(order_of_reply(got));
    coney_reply_free(&got);
    assert_null(got);
    coney_reply_free(&got);
    assert_int_equal(rig->fake.feeds[FAKE_FEEDS - 1].kept, 0);
    assert_int_equal(rig->broker->publishers->stats.published, 1);
}

static void a_request_of_raw_bytes_goes_out_as_they_are(void **state)
{
    struct rig *rig = *state;
    struct fake_message reply = {.body = CONEY_STR("\0pong")};
    rig->fake.reply = &reply;
    rig_open(rig);
    coney_reply_message *got;
    coney_publish_options options = {.to = "pings"};
    assert_int_equal(
        coney_request_raw(rig->broker->publishers, CONEY_STR("ping"), CONEY_STR("text/plain"), &options, &got, NULL), CONEY_OK);
    assert_string_equal(rig_last(rig)->body, "ping");
    assert_string_equal(rig_last(rig)->content_type, "text/plain");
    assert_int_equal(coney_reply_body(got).len, 5);
    coney_reply_free(&got);
    rig->fake.reply = NULL;
    assert_int_equal(coney_request_raw(rig->broker->publishers, CONEY_STR(""), CONEY_STR(""), &options, &got, NULL),
                     CONEY_ETIMEDOUT);
    assert_null(got);
}

static void a_reply_of_another_content_type_is_not_read(void **state)
{
    struct rig *rig = *state;
    struct fake_message reply = {.body = CONEY_STR("{\"sum\":5}"), .content_type = "application/cbor"};
    rig->fake.reply = &reply;
    rig_open(rig);
    coney_reply_message *got;
    coney_publish_options options = {.to = "sums"};
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, NULL), CONEY_OK);
    const void *value;
    coney_fault fault;
    assert_int_equal(coney_reply_decode(got, answer_type(), &value, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "the reply is 'application/cbor', and the codec json reads 'application/json'");
    assert_null(answer_of_reply(got));
    coney_reply_free(&got);
}

static void a_header_of_the_reply_chooses_the_variant(void **state)
{
    struct rig *rig = *state;
    coney_field kind = {CONEY_STR("kind"), coney_value_string(CONEY_STR("order"))};
    struct fake_message reply = {
        .body = CONEY_STR("{\"id\":1,\"customer\":\"eve\",\"sum\":2}"), .headers = &kind, .header_count = 1};
    rig->fake.reply = &reply;
    rig_open(rig);
    coney_reply_message *got;
    coney_publish_options options = {.to = "sums"};
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, NULL), CONEY_OK);
    const part *p = part_of_reply(got);
    assert_ptr_equal(p->is, order_type());
    assert_int_equal(p->value.as_order.id, 1);
    coney_reply_free(&got);
}

static void a_request_that_fails_says_why(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_reply_message *got;
    coney_publish_options options = {.to = "sums"};
    coney_call call = {0};
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, &call), CONEY_ETIMEDOUT);
    assert_null(got);
    rig->fake.fail_at = "request";
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, &call), CONEY_ELOST);
    assert_string_equal(call.text, "the fake was told to fail at request");
    options.to = NULL;
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, &call), CONEY_EINVAL);
    assert_string_equal(
        call.text,
        "publisher 'fake': the message has no destination: neither the call, nor its type, nor the publisher names one");
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, NULL, &call), CONEY_EINVAL);
}

static void never(void *ctx, const coney_call *call)
{
    (void)ctx, (void)call;
    fail_msg("on_done was called");
}

static void a_request_cannot_be_asynchronous_and_needs_a_transport_that_has_them(void **state)
{
    struct rig *rig = *state;
    rig_open(rig);
    coney_reply_message *got;
    coney_publish_options options = {.to = "sums"};
    coney_call call = {.on_done = never};
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, &call), CONEY_EINVAL);
    struct transport bare = fake_transport;
    bare.request = NULL;
    rig->broker->transport = &bare;
    assert_int_equal(order_request(rig->broker->publishers, &options, &ada, &got, NULL), CONEY_EUNSUPPORTED);
    rig_logged(rig, "publisher 'fake': fake has no requests and replies");
    rig->broker->transport = &fake_transport;
}

int main(void)
{
#define RIGGED(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        RIGGED(a_reply_goes_to_where_the_request_asks_for),
        RIGGED(a_reply_keeps_what_its_options_say_but_for_its_destination),
        RIGGED(a_message_that_wants_no_reply_gets_none),
        RIGGED(a_request_gives_its_reply_decoded),
        RIGGED(a_request_of_raw_bytes_goes_out_as_they_are),
        RIGGED(a_reply_of_another_content_type_is_not_read),
        RIGGED(a_header_of_the_reply_chooses_the_variant),
        RIGGED(a_request_that_fails_says_why),
        RIGGED(a_request_cannot_be_asynchronous_and_needs_a_transport_that_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
