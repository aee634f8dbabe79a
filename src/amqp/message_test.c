/* Messages on their way to the wire. */
#include "amqp/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct message_target orders = {.exchange = {"", 0}, .routing_key = {"orders", 6}};

static void must_make(struct message_form *form, const coney_amqp_message *message, const struct message_target *target)
{
    const char *field;
    assert_int_equal(message_form_make(form, message, target, &field), CONEY_OK);
}

/* Writes the form and gives its bytes, `size` of them; they are the caller's to free. */
static uint8_t *written(const struct message_form *form, uint32_t payload_max, size_t *size)
{
    *size = message_form_size(form, payload_max);
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    message_form_write(form, bytes, 7, payload_max);
    return bytes;
}

static void a_plain_message_is_these_bytes(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        1, 0, 7, 0, 0, 0, 15, 0,   60,  0,    40, 0, 0, 0, 6, 'o', 'r', 'd', 'e', 'r',  's', 1, 0xce, /* publish, mandatory */
        2, 0, 7, 0, 0, 0, 15, 0,   60,  0,    0,  0, 0, 0, 0, 0,   0,   0,   2,   0x10, 0,   2, 0xce, /* size 2, persistent */
        3, 0, 7, 0, 0, 0, 2,  'h', 'i', 0xce,
    };
    struct message_form form;
    size_t size;
    must_make(&form, &(coney_amqp_message){.body = CONEY_STR("hi")}, &orders);
    uint8_t *bytes = written(&form, 1000, &size);
    assert_int_equal(size, sizeof expected);
    assert_memory_equal(bytes, expected, size);
    assert_true(form.mandatory);
    free(bytes);
}

static void what_a_message_says_itself_wins_over_its_publisher(void **state)
{
    (void)state;
    struct message_form form;
    struct amqp_method method;
    coney_amqp_message message = {.exchange = CONEY_STR("e"), .routing_key = CONEY_STR(""), .drop_unroutable = true};
    must_make(&form, &message, &orders);
    assert_null(amqp_decode(amqp_frame_of(form.method.data).payload, &method));
    assert_int_equal(method.id, AMQP_BASIC_PUBLISH);
    assert_true(bytes_equal(method.basic_publish.exchange, CONEY_STR("e")));
    assert_int_equal(method.basic_publish.routing_key.len, 0);
    assert_false(method.basic_publish.mandatory);
    assert_false(form.mandatory);
}

static void every_property_can_be_read_again(void **state)
{
    (void)state;
    const coney_field headers[] = {{.key = CONEY_STR("n"), .value = coney_value_i32(5)}};
    coney_amqp_message message = {
        .content_type = CONEY_STR("a"),
        .content_encoding = CONEY_STR("b"),
        .correlation_id = CONEY_STR("c"),
        .reply_to = CONEY_STR("d"),
        .message_id = CONEY_STR("e"),
        .type = CONEY_STR("f"),
        .user_id = CONEY_STR("g"),
        .app_id = CONEY_STR("h"),
        .headers = headers,
        .header_count = 1,
        .expiration = 1500 * CONEY_MICROSECOND,
        .timestamp = 1999,
        .priority = 0,
        .has_priority = true,
        .transient = true,
    };
    struct message_form form;
    struct amqp_properties p;
    struct amqp_unit unit;
    coney_value value;
    size_t size;
    must_make(&form, &message, &orders);
    uint8_t *bytes = written(&form, 1000, &size);
    assert_true(amqp_unit_read(bytes, size, &unit));
    assert_null(amqp_properties_read(unit.properties, &p));
    const struct {
        coney_bytes is;
        const char *expected;
    } strings[] = {{p.content_type, "a"}, {p.content_encoding, "b"}, {p.correlation_id, "c"},
                   {p.reply_to, "d"},     {p.message_id, "e"},       {p.type, "f"},
                   {p.user_id, "g"},      {p.app_id, "h"},           {p.expiration, "2"}};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        assert_true(bytes_equal(strings[i].is, coney_bytes_str(strings[i].expected)));
    assert_int_equal(p.timestamp, 1);
    assert_true((p.flags & AMQP_PRIORITY) != 0 && p.priority == 0);
    assert_int_equal(p.flags & AMQP_DELIVERY_MODE, 0);
    assert_true(coney_value_find(&p.headers, CONEY_STR("n"), &value));
    assert_int_equal(value.as.i64, 5);
    free(bytes);
}

static void C10_an_expiration_is_whole_milliseconds_in_digits(void **state)
{
    (void)state;
    const struct {
        int64_t ns;
        const char *digits;
    } cases[] = {
        {CONEY_OFF, "0"}, {1, "1"}, {CONEY_MILLISECOND, "1"}, {60 * CONEY_SECOND, "60000"}, {INT64_MAX, "9223372036855"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message_form form;
        must_make(&form, &(coney_amqp_message){.expiration = cases[i].ns}, &orders);
        assert_true(bytes_equal(form.properties.expiration, coney_bytes_str(cases[i].digits)));
    }
}

static void C08_names_and_strings_end_at_255_bytes(void **state)
{
    (void)state;
    static char text[300];
    memset(text, 'x', sizeof text);
    for (size_t len = 255; len <= 300; len += len == 255 ? 1 : 44) {
        coney_bytes name = coney_bytes_of(text, len);
        const struct {
            coney_amqp_message message;
            const char *field;
        } cases[] = {{{.exchange = name}, "exchange"},
                     {{.routing_key = name}, "routing_key"},
                     {{.correlation_id = name}, "correlation_id"},
                     {{.app_id = name}, "app_id"}};
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct message_form form;
            const char *field = NULL;
            coney_status status = message_form_make(&form, &cases[i].message, &orders, &field);
            assert_int_equal(status, len == 255 ? CONEY_OK : CONEY_EINVAL);
            if (len > 255)
                assert_string_equal(field, cases[i].field);
        }
    }
}

static void what_has_no_form_is_refused_and_named(void **state)
{
    (void)state;
    const coney_value not_a_table = coney_value_i32(1);
    const coney_field field_of = {.key = CONEY_STR("k"), .value = coney_value_uuid((const uint8_t *)"0123456789abcdef")};
    const struct {
        coney_amqp_message message;
        const char *field;
    } cases[] = {
        {{.timestamp = -1}, "timestamp"},
        {{.expiration = -2}, "expiration"},
        {{.header_count = 1}, "headers"},
        {{.header_table = &not_a_table}, "headers"},
        {{.headers = &field_of, .header_count = 1, .header_table = &not_a_table}, "header_table"},
        {{.headers = &field_of, .header_count = 1}, "uuid"},
        {{.body = {NULL, 3}}, "body"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message_form form;
        const char *field = "none";
        assert_int_equal(message_form_make(&form, &cases[i].message, &orders, &field), CONEY_EINVAL);
        assert_string_equal(field, cases[i].field);
    }
}

static void a_body_is_cut_into_frames_that_fit(void **state)
{
    (void)state;
    static uint8_t body[1001];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)i;
    for (size_t len = 0; len <= sizeof body; len += 143) {
        struct message_form form;
        size_t size;
        must_make(&form, &(coney_amqp_message){.body = coney_bytes_of(body, len)}, &orders);
        uint8_t *bytes = written(&form, 100, &size);
        size_t at = form.method.len + AMQP_FRAME_BYTES + AMQP_PROPERTIES_AT + form.properties_size;
        size_t seen = 0;
        while (at < size) {
            struct amqp_frame frame = amqp_frame_of(bytes + at);
            assert_int_equal(frame.type, AMQP_FRAME_BODY);
            assert_in_range(frame.payload.len, 1, 100);
            assert_memory_equal(frame.payload.data, body + seen, frame.payload.len);
            seen += frame.payload.len;
            at += frame.payload.len + AMQP_FRAME_BYTES;
        }
        assert_int_equal(at, size);
        assert_int_equal(seen, len);
        free(bytes);
    }
}

static void what_is_held_is_written_as_the_form_would_be(void **state)
{
    (void)state;
    static char body[500];
    memset(body, 'b', sizeof body);
    struct message_form form;
    size_t size;
    coney_amqp_message message = {
        .body = coney_bytes_of(body, sizeof body), .message_id = CONEY_STR("id"), .drop_unroutable = true};
    must_make(&form, &message, &orders);
    struct message_held *held = malloc(message_held_size(&form));
    assert_non_null(held);
    message_hold(&form, held);
    uint8_t *expected = written(&form, 64, &size);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    assert_int_equal(message_held_wire_size(held, 64), size);
    message_held_write(held, bytes, 7, 64);
    assert_memory_equal(bytes, expected, size);
    assert_int_equal(held->mandatory, form.mandatory);
    free(bytes);
    free(expected);
    free(held);
}

static void a_struct_of_another_size_is_taken_as_far_as_it_is_known(void **state)
{
    (void)state;
    coney_amqp_message copy;
    struct {
        coney_amqp_message message;
        uint64_t later;
    } larger = {.message = {.tag = 9}};
    assert_ptr_equal(message_known(&larger.message, sizeof larger.message, &copy), &larger.message);
    assert_ptr_equal(message_known(&larger.message, sizeof larger, &copy), &copy);
    assert_int_equal(copy.tag, 9);
    assert_ptr_equal(message_known(&larger.message, offsetof(coney_amqp_message, tag), &copy), &copy);
    assert_int_equal(copy.tag, 0);
    larger.later = 1;
    assert_null(message_known(&larger.message, sizeof larger, &copy));
    larger.message.reserved[3] = 1;
    assert_null(message_known(&larger.message, sizeof larger.message, &copy));
    assert_null(message_known(NULL, sizeof larger.message, &copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_message_is_these_bytes),
        cmocka_unit_test(what_a_message_says_itself_wins_over_its_publisher),
        cmocka_unit_test(every_property_can_be_read_again),
        cmocka_unit_test(C10_an_expiration_is_whole_milliseconds_in_digits),
        cmocka_unit_test(C08_names_and_strings_end_at_255_bytes),
        cmocka_unit_test(what_has_no_form_is_refused_and_named),
        cmocka_unit_test(a_body_is_cut_into_frames_that_fit),
        cmocka_unit_test(what_is_held_is_written_as_the_form_would_be),
        cmocka_unit_test(a_struct_of_another_size_is_taken_as_far_as_it_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
