/* What the fields of a declaration come to on the wire, and what is refused. */
#include "amqp/arguments.h"

#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static uint8_t entries[1024];

/* The table as a text: "key=tag:value …", in the order of the wire. */
static const char *told(const struct arguments *arguments)
{
    static char text[1024];
    coney_value table = arguments_write(arguments, entries);
    coney_value_iter iter = coney_value_elements(&table);
    coney_field field;
    size_t len = 0;
    text[0] = '\0';
    while (coney_value_next_field(&iter, &field)) {
        coney_bytes bytes;
        int64_t number;
        const char *blank = len > 0 ? " " : "";
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%s%.*s=", blank, (int)field.key.len, (const char *)field.key.data);
        if (coney_value_to_bytes(&field.value, &bytes))
            len += (size_t)snprintf(text + len, sizeof text - len, "S:%.*s", (int)bytes.len, (const char *)bytes.data);
        else if (field.value.type == CONEY_VALUE_BOOL)
            len += (size_t)snprintf(text + len, sizeof text - len, "t:%d", field.value.as.boolean);
        else if (field.value.type == CONEY_VALUE_I64 && coney_value_to_i64(&field.value, &number))
            len += (size_t)snprintf(text + len, sizeof text - len, "l:%lld", (long long)number);
        else
            len += (size_t)snprintf(text + len, sizeof text - len, "?");
    }
    assert_true(coney_value_iter_ok(&iter));
    return text;
}

static void comes_to(const coney_amqp_queue *queue, const char *expected)
{
    struct arguments arguments;
    coney_call call = {0};
    if (arguments_of_queue(&arguments, queue, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    assert_string_equal(told(&arguments), expected);
}

static void refused(const coney_amqp_queue *queue, const char *word)
{
    struct arguments arguments;
    coney_call call = {0};
    assert_int_equal(arguments_of_queue(&arguments, queue, &call), CONEY_EINVAL);
    assert_int_equal(call.status, CONEY_EINVAL);
    if (strstr(call.text, word) == NULL)
        fail_msg("\"%s\" does not name %s", call.text, word);
}

static void B14_every_typed_field_goes_out_as_the_type_that_the_broker_wants(void **state)
{
    (void)state;
    comes_to(&(coney_amqp_queue){0}, "");
    comes_to(&(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC,
                                 .message_ttl = 1500 * CONEY_MILLISECOND,
                                 .expires = 30 * CONEY_SECOND,
                                 .max_length = 10,
                                 .max_length_bytes = 1 << 20,
                                 .overflow = "reject-publish",
                                 .dead_letter_exchange = "",
                                 .dead_letter_routing_key = "dead",
                                 .max_priority = 10,
                                 .single_active_consumer = true},
             "x-dead-letter-exchange=S: x-dead-letter-routing-key=S:dead x-expires=l:30000 x-max-length=l:10 "
             "x-max-length-bytes=l:1048576 x-max-priority=l:10 x-message-ttl=l:1500 x-overflow=S:reject-publish "
             "x-queue-type=S:classic x-single-active-consumer=t:1");
    comes_to(&(coney_amqp_queue){.type = CONEY_QUEUE_QUORUM,
                                 .dead_letter_strategy = "at-least-once",
                                 .delivery_limit = 5,
                                 .initial_group_size = 3,
                                 .leader_locator = "balanced"},
             "x-dead-letter-strategy=S:at-least-once x-delivery-limit=l:5 x-queue-leader-locator=S:balanced "
             "x-queue-type=S:quorum x-quorum-initial-group-size=l:3");
    comes_to(&(coney_amqp_queue){.type = CONEY_QUEUE_STREAM,
                                 .max_age = 7 * 24 * 3600 * CONEY_SECOND,
                                 .initial_group_size = 3,
                                 .max_segment_size = 1000000},
             "x-initial-cluster-size=l:3 x-max-age=S:604800s x-queue-type=S:stream x-stream-max-segment-size-bytes=l:1000000");
}

static void a_delivery_limit_that_is_off_goes_out_as_minus_one(void **state)
{
    (void)state;
    comes_to(&(coney_amqp_queue){.type = CONEY_QUEUE_QUORUM, .delivery_limit = CONEY_OFF},
             "x-delivery-limit=l:-1 x-queue-type=S:quorum");
}

static void a_field_that_the_type_does_not_have_is_refused_by_its_name(void **state)
{
    (void)state;
    refused(&(coney_amqp_queue){.type = CONEY_QUEUE_QUORUM, .transient = true}, "transient");
    refused(&(coney_amqp_queue){.type = CONEY_QUEUE_QUORUM, .exclusive = true}, "exclusive");
    refused(&(coney_amqp_queue){.type = CONEY_QUEUE_QUORUM, .max_priority = 3}, "max_priority");
    refused(&(coney_amqp_queue){.type = CONEY_QUEUE_STREAM, .auto_delete = true}, "auto_delete");
    refused(&(coney_amqp_queue){.type = CONEY_QUEUE_STREAM, .message_ttl = CONEY_SECOND}, "message_ttl");
    refused(&(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC, .max_age = CONEY_SECOND}, "max_age");
    refused(&(coney_amqp_queue){.type = CONEY_QUEUE_CLASSIC, .delivery_limit = 3}, "classic");
    refused(&(coney_amqp_queue){.initial_group_size = 3}, "quorum or stream");
    refused(&(coney_amqp_queue){.type = (coney_queue_type)4}, "type is 4");
}

static void a_number_that_the_broker_would_not_take_is_refused_by_its_name(void **state)
{
    (void)state;
    refused(&(coney_amqp_queue){.max_length = -1}, "max_length");
    refused(&(coney_amqp_queue){.delivery_limit = -2}, "delivery_limit");
    refused(&(coney_amqp_queue){.message_ttl = 1500 * CONEY_MICROSECOND}, "milliseconds");
    refused(&(coney_amqp_queue){.max_age = 1500 * CONEY_MILLISECOND}, "seconds");
    refused(&(coney_amqp_queue){.max_priority = 256}, "255");
    refused(&(coney_amqp_queue){.expires = (INT64_C(1) << 32) * CONEY_MILLISECOND}, "4294967295");
    refused(&(coney_amqp_queue){.max_segment_size = INT64_C(3000000001)}, "3000000000");
}

static void the_users_own_arguments_keep_their_types_and_their_place_is_by_key(void **state)
{
    (void)state;
    const coney_field own[] = {{CONEY_STR("x-z"), coney_value_i64(1)}, {CONEY_STR("x-a"), coney_value_bool(false)}};
    comes_to(&(coney_amqp_queue){.max_length = 7, .arguments = own, .argument_count = 2}, "x-a=t:0 x-max-length=l:7 x-z=l:1");
}

static void an_argument_given_twice_is_refused_by_its_name(void **state)
{
    (void)state;
    const coney_field twice[] = {{CONEY_STR("x-a"), coney_value_i64(1)}, {CONEY_STR("x-a"), coney_value_i64(1)}};
    const coney_field typed[] = {{CONEY_STR("x-max-length"), coney_value_i64(1)}};
    refused(&(coney_amqp_queue){.arguments = twice, .argument_count = 2}, "'x-a' is given twice");
    refused(&(coney_amqp_queue){.max_length = 1, .arguments = typed, .argument_count = 1}, "'x-max-length' is given twice");
}

static void an_argument_that_no_table_can_hold_is_refused_by_its_name(void **state)
{
    (void)state;
    char key[256];
    memset(key, 'k', sizeof key);
    const coney_field symbol[] = {{CONEY_STR("x-a"), coney_value_symbol(CONEY_STR("s"))}};
    const coney_field huge[] = {{CONEY_STR("x-b"), coney_value_u64(UINT64_MAX)}};
    const coney_field long_key[] = {{coney_bytes_of(key, sizeof key), coney_value_i64(1)}};
    refused(&(coney_amqp_queue){.arguments = symbol, .argument_count = 1}, "'x-a'");
    refused(&(coney_amqp_queue){.arguments = huge, .argument_count = 1}, "'x-b'");
    refused(&(coney_amqp_queue){.arguments = long_key, .argument_count = 1}, "key");
    refused(&(coney_amqp_queue){.argument_count = 1}, "NULL");
}

static void an_exchange_says_what_gets_the_unroutable(void **state)
{
    (void)state;
    struct arguments arguments;
    const coney_field own[] = {{CONEY_STR("hash-header"), coney_value_string(CONEY_STR("id"))}};
    const coney_amqp_exchange exchange = {.alternate_exchange = "lost", .arguments = own, .argument_count = 1};
    assert_int_equal(arguments_of_exchange(&arguments, &exchange, NULL), CONEY_OK);
    assert_string_equal(told(&arguments), "alternate-exchange=S:lost hash-header=S:id");
}

static void equal_arguments_are_equal_bytes_in_whatever_order_they_are_given(void **state)
{
    (void)state;
    const coney_field one[] = {{CONEY_STR("x-match"), coney_value_string(CONEY_STR("all"))},
                               {CONEY_STR("a"), coney_value_i32(1)}};
    const coney_field other[] = {one[1], one[0]};
    struct arguments a, b;
    uint8_t second[sizeof entries];
    assert_int_equal(arguments_of_binding(&a, &(coney_amqp_binding){.arguments = one, .argument_count = 2}, NULL), CONEY_OK);
    assert_int_equal(arguments_of_binding(&b, &(coney_amqp_binding){.arguments = other, .argument_count = 2}, NULL), CONEY_OK);
    coney_value first_table = arguments_write(&a, entries);
    coney_value second_table = arguments_write(&b, second);
    assert_int_equal(a.size, first_table.as.bytes.len);
    assert_true(bytes_equal(first_table.as.bytes, second_table.as.bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B14_every_typed_field_goes_out_as_the_type_that_the_broker_wants),
        cmocka_unit_test(a_delivery_limit_that_is_off_goes_out_as_minus_one),
        cmocka_unit_test(a_field_that_the_type_does_not_have_is_refused_by_its_name),
        cmocka_unit_test(a_number_that_the_broker_would_not_take_is_refused_by_its_name),
        cmocka_unit_test(the_users_own_arguments_keep_their_types_and_their_place_is_by_key),
        cmocka_unit_test(an_argument_given_twice_is_refused_by_its_name),
        cmocka_unit_test(an_argument_that_no_table_can_hold_is_refused_by_its_name),
        cmocka_unit_test(an_exchange_says_what_gets_the_unroutable),
        cmocka_unit_test(equal_arguments_are_equal_bytes_in_whatever_order_they_are_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
