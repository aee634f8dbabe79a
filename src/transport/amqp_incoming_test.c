#include "transport/amqp.h"

#include "base/bytes.h"
#include "proto/amqp091/properties.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t encoded[1024];
static coney_amqp_delivery delivery;

/* A message with these headers and a content type; it lasts until the next one. */
static struct incoming message_with(struct tamqp_feed *feed, coney_bytes content_type, const coney_field *fields, size_t count)
{
    struct amqp_properties properties = {.content_type = content_type, .fields = fields, .field_count = count};
    properties.flags = (uint16_t)((count > 0 ? AMQP_HEADERS : 0) | (content_type.data != NULL ? AMQP_CONTENT_TYPE : 0));
    size_t size;
    const char *field;
    assert_int_equal(amqp_properties_size(&properties, &size, &field), CONEY_OK);
    assert_true(size <= sizeof encoded);
    amqp_properties_write(encoded, &properties);
    delivery = (coney_amqp_delivery){
        .queue = "q", .routing_key = CONEY_STR("routing"), .encoded_properties = coney_bytes_of(encoded, size)};
    return (struct incoming){.feed = feed != NULL ? &feed->feed : NULL, .native = &delivery, .offset = UINT64_MAX};
}

static void attempts_come_from_whoever_counts(void **state)
{
    (void)state;
    const coney_field copied = {CONEY_STR("x-coney-attempts"), coney_value_u32(3)};
    const coney_field counted = {CONEY_STR("x-delivery-count"), coney_value_i64(2)};
    const coney_field narrow = {CONEY_STR("x-delivery-count"), coney_value_i8(2)};
    const coney_field both[] = {copied, counted};
    const coney_field text = {CONEY_STR("x-delivery-count"), coney_value_string(CONEY_STR("2"))};
    const coney_field negative = {CONEY_STR("x-coney-attempts"), coney_value_i64(-5)};
    const coney_field huge[] = {{CONEY_STR("x-coney-attempts"), coney_value_i64(INT64_MAX)},
                                {CONEY_STR("x-delivery-count"), coney_value_i64(INT64_MAX)}};
    const struct {
        const coney_field *fields;
        size_t count;
        bool counts;
        bool redelivered;
        uint64_t attempt;
    } cases[] = {
        {NULL, 0, false, false, 1},    {NULL, 0, false, true, 2},       {NULL, 0, true, true, 1},
        {&copied, 1, false, false, 4}, {&copied, 1, false, true, 4},    {&counted, 1, true, true, 3},
        {&counted, 1, false, true, 3}, {&narrow, 1, true, true, 3},     {both, 2, true, true, 6},
        {&text, 1, true, true, 1},     {&negative, 1, false, false, 1}, {huge, 2, true, true, (uint64_t)INT64_MAX * 2 + 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tamqp_feed feed = {.feed.counts = cases[i].counts};
        struct incoming m = message_with(&feed, coney_bytes_of(NULL, 0), cases[i].fields, cases[i].count);
        delivery.redelivered = cases[i].redelivered;
        if (tamqp_attempt(&m) != cases[i].attempt)
            fail_msg("case %zu: %llu", i, (unsigned long long)tamqp_attempt(&m));
    }
}

static void the_content_type_is_read_without_decoding(void **state)
{
    (void)state;
    const coney_field header = {CONEY_STR("a"), coney_value_bool(true)};
    struct incoming m = message_with(NULL, CONEY_STR("text/plain"), &header, 1);
    assert_true(bytes_equal(tamqp_content_type(&m), CONEY_STR("text/plain")));
    m = message_with(NULL, coney_bytes_of(NULL, 0), &header, 1);
    assert_int_equal(tamqp_content_type(&m).len, 0);
    m = message_with(NULL, coney_bytes_of(NULL, 0), NULL, 0);
    assert_int_equal(tamqp_content_type(&m).len, 0);
}

static void a_content_type_that_is_longer_than_the_properties_is_none(void **state)
{
    (void)state;
    struct incoming m = message_with(NULL, CONEY_STR("text/plain"), NULL, 0);
    for (size_t len = 0; len < delivery.encoded_properties.len; len++) {
        uint8_t *cut = malloc(len + (len == 0));
        memcpy(cut, encoded, len);
        delivery.encoded_properties = coney_bytes_of(cut, len);
        assert_int_equal(tamqp_content_type(&m).len, 0);
        free(cut);
        delivery.encoded_properties = coney_bytes_of(encoded, 13);
    }
    assert_int_equal(tamqp_content_type(&m).len, 10);
}

static void properties_that_cannot_be_read_leave_what_the_method_says(void **state)
{
    (void)state;
    coney_delivery_info info = {0};
    struct incoming m = message_with(NULL, CONEY_STR("text/plain"), NULL, 0);
    delivery.encoded_properties.len = 5;
    tamqp_info(&m, &info);
    assert_true(bytes_equal(info.source, CONEY_STR("q")));
    assert_true(bytes_equal(info.routing_key, CONEY_STR("routing")));
    assert_int_equal(info.content_type.len, 0);
}

static void a_key_is_a_header_and_else_the_routing_key(void **state)
{
    (void)state;
    const coney_field fields[] = {{CONEY_STR("x-coney-key"), coney_value_string(CONEY_STR("k"))},
                                  {CONEY_STR("customer"), coney_value_binary(CONEY_STR("c"))},
                                  {CONEY_STR("number"), coney_value_i64(5)}};
    struct incoming m = message_with(NULL, coney_bytes_of(NULL, 0), fields, 3);
    assert_true(bytes_equal(tamqp_key(&m, NULL), CONEY_STR("k")));
    assert_true(bytes_equal(tamqp_key(&m, "customer"), CONEY_STR("c")));
    assert_int_equal(tamqp_key(&m, "number").len, 0);
    assert_int_equal(tamqp_key(&m, "absent").len, 0);
    m = message_with(NULL, coney_bytes_of(NULL, 0), fields + 1, 2);
    assert_true(bytes_equal(tamqp_key(&m, NULL), CONEY_STR("routing")));
}

static void an_expiration_is_digits(void **state)
{
    (void)state;
    assert_int_equal(tamqp_expiration(CONEY_STR("")), 0);
    assert_int_equal(tamqp_expiration(CONEY_STR("0")), CONEY_OFF);
    assert_int_equal(tamqp_expiration(CONEY_STR("60000")), 60 * CONEY_SECOND);
    assert_int_equal(tamqp_expiration(CONEY_STR("-5")), 0);
    assert_int_equal(tamqp_expiration(CONEY_STR("5s")), 0);
    assert_int_equal(tamqp_expiration(CONEY_STR("99999999999999999999999")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_come_from_whoever_counts),
        cmocka_unit_test(the_content_type_is_read_without_decoding),
        cmocka_unit_test(a_content_type_that_is_longer_than_the_properties_is_none),
        cmocka_unit_test(properties_that_cannot_be_read_leave_what_the_method_says),
        cmocka_unit_test(a_key_is_a_header_and_else_the_routing_key),
        cmocka_unit_test(an_expiration_is_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
