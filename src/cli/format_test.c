#define _GNU_SOURCE
#include "format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const coney_stream_delivery delivery = {
    .body = CONEY_STR_INIT("a\0\xff"),
    .offset = 42,
    .timestamp = 1767225600250,
    .stream = "invoices",
    .body_kind = CONEY_BODY_DATA,
};

static const coney_amqp_delivery queued = {
    .body = CONEY_STR_INIT("42"),
    .exchange = CONEY_STR_INIT("events"),
    .routing_key = CONEY_STR_INIT("orders.eu"),
    .queue = "orders",
    .redelivered = true,
    /* headers, delivery mode, priority, correlation id, reply-to, timestamp */
    .encoded_properties = CONEY_STR_INIT("\x3e\x40\0\0\0\x14"
                                         "\x06region"
                                         "S\0\0\0\x02"
                                         "eu"
                                         "\x03try"
                                         "b\x03"
                                         "\x02\x05"
                                         "\x02id"
                                         "\x02to"
                                         "\0\0\0\0\x69\x55\xb9\x00"),
};

static void assert_format(const char *format, const struct format_kind *kind, const void *d, coney_bytes body,
                          const void *expected, size_t expected_size)
{
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    assert_null(format_check(format, kind));
    format_write(stream, format, kind, d, body);
    fclose(stream);
    assert_int_equal(size, expected_size);
    assert_memory_equal(out, expected, size);
    free(out);
}

static void assert_stream_format(const char *format, const coney_stream_delivery *d, const void *expected, size_t expected_size)
{
    struct format_space space = {0};
    assert_format(format, &format_stream, d, format_stream_body(d, &space), expected, expected_size);
    free(space.data);
}

#define FORMAT(format, d, expected) assert_stream_format(format, d, expected, sizeof(expected) - 1)
#define FORMAT_QUEUED(format, d, expected) assert_format(format, &format_amqp, d, (d)->body, expected, sizeof(expected) - 1)

static void fields_and_escapes_are_replaced(void **state)
{
    (void)state;
    FORMAT("%b\\n", &delivery, "a\0\xff\n");
    FORMAT("%o %s %n 100%%", &delivery, "42 3 invoices 100%");
    FORMAT("%t|%T", &delivery, "2026-01-01T00:00:00.250Z|1767225600250");
    FORMAT("%x\\t\\r\\0\\\\\\x41\\x0a", &delivery, "6100ff\t\r\0\\A\n");
    FORMAT("plain", &delivery, "plain");
}

static void json_has_the_body_as_text_or_as_base64(void **state)
{
    (void)state;
    FORMAT("json", &delivery, "{\"offset\":42,\"timestamp\":\"2026-01-01T00:00:00.250Z\",\"body_base64\":\"YQD/\"}\n");
    coney_stream_delivery text = delivery;
    text.body = CONEY_STR("say \"hi\"");
    FORMAT("json", &text, "{\"offset\":42,\"timestamp\":\"2026-01-01T00:00:00.250Z\",\"body\":\"say \\\"hi\\\"\"}\n");
}

static void a_template_with_an_unknown_letter_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"%", "%q", "a%", "\\", "\\q", "\\x", "\\x4", "\\xg0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (format_check(wrong[i], &format_stream) == NULL)
            fail_msg("'%s' was accepted", wrong[i]);
    assert_non_null(format_check("%k", &format_stream));
    assert_non_null(format_check("%o", &format_amqp));
}

static void a_message_of_a_queue_has_its_route_and_its_properties(void **state)
{
    (void)state;
    FORMAT_QUEUED("%n %e %k %r %i %b%%", &queued, "orders events orders.eu to id 42%");
    FORMAT_QUEUED("json", &queued,
                  "{\"exchange\":\"events\",\"routing_key\":\"orders.eu\",\"redelivered\":true,\"persistent\":true,"
                  "\"correlation_id\":\"id\",\"reply_to\":\"to\",\"priority\":5,\"timestamp\":\"2026-01-01T00:00:00.000Z\","
                  "\"headers\":{\"region\":\"eu\",\"try\":3},\"body\":\"42\"}\n");
}

static void an_empty_message_is_written_as_nothing(void **state)
{
    (void)state;
    const coney_amqp_delivery empty = {.queue = "orders"};
    FORMAT_QUEUED("%b%e%k%x|%s", &empty, "|0");
    FORMAT_QUEUED("json", &empty, "{\"exchange\":\"\",\"routing_key\":\"\",\"redelivered\":false,\"body\":\"\"}\n");
}

static void properties_that_cannot_be_read_are_left_out(void **state)
{
    (void)state;
    coney_amqp_delivery damaged = queued;
    damaged.encoded_properties = CONEY_STR("\xff\xff");
    FORMAT_QUEUED("%i|%b", &damaged, "|42");
    FORMAT_QUEUED("json", &damaged,
                  "{\"exchange\":\"events\",\"routing_key\":\"orders.eu\",\"redelivered\":true,\"body\":\"42\"}\n");
}

static void the_sections_of_a_body_in_parts_are_joined(void **state)
{
    (void)state;
    coney_stream_delivery parts = delivery;
    parts.encoded = CONEY_STR("\0\x53\x75\xa0\x02"
                              "ab\0\x53\x75\xa0\x01"
                              "c");
    parts.body = parts.encoded;
    parts.body_kind = CONEY_BODY_PARTS;
    FORMAT("%b", &parts, "abc");
}

static void a_text_value_is_written_as_its_text_and_another_as_encoded(void **state)
{
    (void)state;
    coney_stream_delivery value = delivery;
    value.body_kind = CONEY_BODY_VALUE;
    value.encoded = CONEY_STR("\0\x53\x77\xa1\x02hi");
    value.body = value.encoded;
    FORMAT("%b", &value, "hi");
    value.encoded = CONEY_STR("\0\x53\x77\x41");
    value.body = value.encoded;
    FORMAT("%x", &value, "00537741");
}

static void what_cannot_be_read_is_written_as_it_is(void **state)
{
    (void)state;
    coney_stream_delivery damaged = delivery;
    damaged.body_kind = CONEY_BODY_UNREADABLE;
    damaged.body = damaged.encoded = CONEY_STR("??");
    FORMAT("%b", &damaged, "??");
    damaged.body_kind = CONEY_BODY_VALUE;
    FORMAT("%b", &damaged, "??");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_and_escapes_are_replaced),
        cmocka_unit_test(json_has_the_body_as_text_or_as_base64),
        cmocka_unit_test(a_template_with_an_unknown_letter_is_refused),
        cmocka_unit_test(a_message_of_a_queue_has_its_route_and_its_properties),
        cmocka_unit_test(an_empty_message_is_written_as_nothing),
        cmocka_unit_test(properties_that_cannot_be_read_are_left_out),
        cmocka_unit_test(the_sections_of_a_body_in_parts_are_joined),
        cmocka_unit_test(a_text_value_is_written_as_its_text_and_another_as_encoded),
        cmocka_unit_test(what_cannot_be_read_is_written_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
