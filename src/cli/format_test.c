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

static void assert_format(const char *format, const coney_stream_delivery *d, const void *expected, size_t expected_size)
{
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    struct format_space space = {0};
    assert_null(format_check(format));
    format_write(stream, format, d, format_body(d, &space));
    fclose(stream);
    assert_int_equal(size, expected_size);
    assert_memory_equal(out, expected, size);
    free(space.data);
    free(out);
}

#define FORMAT(format, d, expected) assert_format(format, d, expected, sizeof(expected) - 1)

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
        if (format_check(wrong[i]) == NULL)
            fail_msg("'%s' was accepted", wrong[i]);
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
        cmocka_unit_test(the_sections_of_a_body_in_parts_are_joined),
        cmocka_unit_test(a_text_value_is_written_as_its_text_and_another_as_encoded),
        cmocka_unit_test(what_cannot_be_read_is_written_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
