#include "proto/amqp091/properties.h"

#include <coney/amqp.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint8_t encoded[1024];

/* A delivery with these properties; the bytes last until the next one. */
static coney_amqp_delivery delivery_with(const struct amqp_properties *properties)
{
    size_t size;
    const char *field;
    assert_int_equal(amqp_properties_size(properties, &size, &field), CONEY_OK);
    assert_true(size <= sizeof encoded);
    amqp_properties_write(encoded, properties);
    return (coney_amqp_delivery){.encoded_properties = coney_bytes_of(encoded, size)};
}

static coney_amqp_delivery delivery_with_headers(const coney_field *fields, size_t count)
{
    struct amqp_properties properties = {.flags = AMQP_HEADERS, .fields = fields, .field_count = count};
    return delivery_with(&properties);
}

static void assert_bytes(coney_bytes bytes, const char *expected)
{
    assert_int_equal(bytes.len, strlen(expected));
    if (bytes.len > 0)
        assert_memory_equal(bytes.data, expected, bytes.len);
}

static void every_property_is_read(void **state)
{
    (void)state;
    coney_field header = {CONEY_STR("attempt"), coney_value_i64(3)};
    struct amqp_properties written = {
        .flags = 0xfff8,
        .delivery_mode = AMQP_PERSISTENT,
        .priority = 9,
        .timestamp = 1700000000,
        .content_type = CONEY_STR("text/plain"),
        .content_encoding = CONEY_STR("gzip"),
        .correlation_id = CONEY_STR("c-1"),
        .reply_to = CONEY_STR("back"),
        .expiration = CONEY_STR("60000"),
        .message_id = CONEY_STR("m-1"),
        .type = CONEY_STR("order"),
        .user_id = CONEY_STR("guest"),
        .app_id = CONEY_STR("shop"),
        .fields = &header,
        .field_count = 1,
    };
    coney_amqp_delivery delivery = delivery_with(&written);
    coney_amqp_properties read;
    assert_int_equal(coney_amqp_delivery_properties(&delivery, &read), CONEY_OK);
    assert_bytes(read.content_type, "text/plain");
    assert_bytes(read.content_encoding, "gzip");
    assert_bytes(read.correlation_id, "c-1");
    assert_bytes(read.reply_to, "back");
    assert_bytes(read.expiration, "60000");
    assert_bytes(read.message_id, "m-1");
    assert_bytes(read.type, "order");
    assert_bytes(read.user_id, "guest");
    assert_bytes(read.app_id, "shop");
    assert_true(read.persistent && read.has_priority && read.has_timestamp);
    assert_int_equal(read.priority, 9);
    assert_int_equal(read.timestamp, 1700000000000);
    coney_value attempt;
    int64_t number;
    assert_true(coney_amqp_delivery_header(&delivery, CONEY_STR("attempt"), &attempt));
    assert_true(coney_value_to_i64(&attempt, &number));
    assert_int_equal(number, 3);
    assert_false(coney_amqp_delivery_header(&delivery, CONEY_STR("other"), &attempt));
}

static void what_is_absent_is_empty_and_a_priority_of_zero_is_not_absent(void **state)
{
    (void)state;
    struct amqp_properties written = {0};
    coney_amqp_properties read;
    coney_amqp_delivery delivery = delivery_with(&written);
    assert_int_equal(coney_amqp_delivery_properties(&delivery, &read), CONEY_OK);
    assert_bytes(read.content_type, "");
    assert_int_equal(read.headers.type, CONEY_VALUE_NULL);
    assert_false(read.has_priority || read.has_timestamp || read.persistent);
    written.flags = AMQP_PRIORITY;
    delivery = delivery_with(&written);
    assert_int_equal(coney_amqp_delivery_properties(&delivery, &read), CONEY_OK);
    assert_true(read.has_priority);
    assert_int_equal(read.priority, 0);
}

static void a_timestamp_that_milliseconds_cannot_hold_is_the_latest_that_they_can(void **state)
{
    (void)state;
    struct amqp_properties written = {.flags = AMQP_TIMESTAMP, .timestamp = UINT64_MAX};
    coney_amqp_delivery delivery = delivery_with(&written);
    coney_amqp_properties read;
    assert_int_equal(coney_amqp_delivery_properties(&delivery, &read), CONEY_OK);
    assert_true(read.timestamp == INT64_MAX);
}

static void what_cannot_be_decoded_is_corrupt(void **state)
{
    (void)state;
    static const uint8_t damaged[][4] = {{0x80, 0x00, 0x05, 'a'}, {0x00, 0x01, 0, 0}, {0x20, 0x00, 0x00, 0x00}};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        coney_amqp_delivery delivery = {.encoded_properties = coney_bytes_of(damaged[i], sizeof damaged[i])};
        coney_amqp_properties read;
        coney_value value;
        assert_int_equal(coney_amqp_delivery_properties(&delivery, &read), CONEY_ECORRUPT);
        assert_bytes(read.content_type, "");
        assert_false(coney_amqp_delivery_header(&delivery, CONEY_STR("a"), &value));
        assert_int_equal(coney_amqp_delivery_count(&delivery), 0);
    }
}

static void N04_an_absent_delivery_count_is_zero_and_any_integer_counts(void **state)
{
    (void)state;
    const coney_value values[] = {coney_value_i64(7), coney_value_i32(7), coney_value_i16(7), coney_value_i8(7),
                                  coney_value_u8(7),  coney_value_u16(7), coney_value_u32(7)};
    coney_amqp_delivery delivery = delivery_with_headers(NULL, 0);
    assert_int_equal(coney_amqp_delivery_count(&delivery), 0);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        coney_field field = {CONEY_STR("x-delivery-count"), values[i]};
        delivery = delivery_with_headers(&field, 1);
        assert_int_equal(coney_amqp_delivery_count(&delivery), 7);
    }
    const coney_value others[] = {coney_value_i64(-1), coney_value_string(CONEY_STR("7")), coney_value_null()};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        coney_field field = {CONEY_STR("x-delivery-count"), others[i]};
        delivery = delivery_with_headers(&field, 1);
        assert_int_equal(coney_amqp_delivery_count(&delivery), 0);
    }
}

static void of_equal_headers_the_first_counts(void **state)
{
    (void)state;
    coney_field fields[] = {{CONEY_STR("a"), coney_value_i64(1)}, {CONEY_STR("a"), coney_value_i64(2)}};
    coney_amqp_delivery delivery = delivery_with_headers(fields, 2);
    coney_value value;
    assert_true(coney_amqp_delivery_header(&delivery, CONEY_STR("a"), &value));
    assert_int_equal(value.as.i64, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_property_is_read),
        cmocka_unit_test(what_is_absent_is_empty_and_a_priority_of_zero_is_not_absent),
        cmocka_unit_test(a_timestamp_that_milliseconds_cannot_hold_is_the_latest_that_they_can),
        cmocka_unit_test(what_cannot_be_decoded_is_corrupt),
        cmocka_unit_test(N04_an_absent_delivery_count_is_zero_and_any_integer_counts),
        cmocka_unit_test(of_equal_headers_the_first_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
