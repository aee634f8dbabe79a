/* encode_test.c: what is written for each member, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/amqp10/expect.h"

#define V5 "005372 c118 02 a313'x-dotnet-pub-seq-no' 5505 005375 a001 78"

static void annotations_are_written_as_symbols(void **state)
{
    (void)state;
    const coney_field fields[] = {{CONEY_STR("x-dotnet-pub-seq-no"), coney_value_i64(5)}};
    const coney_message m = {.body = CONEY_STR("x"), .message_annotations = fields, .message_annotation_count = 1};
    assert_encodes_as(&m, V5);

    const coney_field a[] = {{CONEY_STR("x-a"), coney_value_u32(0)}};
    const coney_message all = {.delivery_annotations = a,
                               .delivery_annotation_count = 1,
                               .message_annotations = a,
                               .message_annotation_count = 1,
                               .footer = a,
                               .footer_count = 1};
    assert_encodes_as(&all, "005371 c107 02 a303'x-a' 43 005372 c107 02 a303'x-a' 43 005375 a000 005378 c107 02 a303'x-a' 43");
}

static void annotation_keys_without_x_are_refused(void **state)
{
    (void)state;
    const coney_bytes keys[] = {CONEY_STR("noX"), CONEY_STR("x"), CONEY_STR(""), CONEY_STR("X-a")};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const coney_field field = {keys[i], coney_value_null()};
        coney_message m = {.message_annotations = &field, .message_annotation_count = 1};
        assert_refused_for(&m, CONEY_EINVAL, "message_annotations");
        m = (coney_message){.delivery_annotations = &field, .delivery_annotation_count = 1};
        assert_refused_for(&m, CONEY_EINVAL, "delivery_annotations");
        m = (coney_message){.footer = &field, .footer_count = 1};
        assert_refused_for(&m, CONEY_EINVAL, "footer");
    }
}

static void the_header_is_written_up_to_its_last_field(void **state)
{
    (void)state;
    coney_message m = {.header.durable = coney_value_bool(true)};
    assert_encodes_as(&m, "005370 c002 01 41 005375 a000");
    m.header.priority = coney_value_i32(9);
    m.header.ttl = coney_value_u64(1000);
    assert_encodes_as(&m, "005370 c009 03 41 5009 70 000003e8 005375 a000");
    m.header.first_acquirer = coney_value_bool(false);
    m.header.delivery_count = coney_value_u32(0);
    assert_encodes_as(&m, "005370 c00b 05 41 5009 70 000003e8 42 43 005375 a000");
}

static void value_and_sequence_bodies_are_written(void **state)
{
    (void)state;
    uint8_t memory[64];
    coney_builder b;
    coney_value list;
    coney_builder_init(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_add(&b, coney_value_i64(1));
    coney_builder_add(&b, coney_value_string(CONEY_STR("x")));
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &list), CONEY_OK);

    coney_message m = {.body_kind = CONEY_BODY_SEQUENCE, .value = list};
    assert_encodes_as(&m, "005376 c006 02 5501 a10178");
    m.body_kind = CONEY_BODY_VALUE;
    assert_encodes_as(&m, "005377 c006 02 5501 a10178");
    m.value = coney_value_null();
    assert_encodes_as(&m, "005377 40");
}

static void a_member_that_does_not_fit_its_slot_is_named(void **state)
{
    (void)state;
    coney_message m = {.header.durable = coney_value_u8(1)};
    assert_refused_for(&m, CONEY_EINVAL, "header.durable");
    m = (coney_message){.header.priority = coney_value_u32(256)};
    assert_refused_for(&m, CONEY_EINVAL, "header.priority");
    m = (coney_message){.header.ttl = coney_value_timestamp(5)};
    assert_refused_for(&m, CONEY_EINVAL, "header.ttl");
    m = (coney_message){.properties.creation_time = coney_value_i64(5)};
    assert_refused_for(&m, CONEY_EINVAL, "properties.creation_time");
    m = (coney_message){.properties.message_id = coney_value_bytes(CONEY_VALUE_UUID, CONEY_STR("short"))};
    assert_refused_for(&m, CONEY_EINVAL, "properties.message_id");
    m = (coney_message){.properties.to = coney_bytes_of(NULL, 3)};
    assert_refused_for(&m, CONEY_EINVAL, "properties.to");
    m = (coney_message){.body = coney_bytes_of(NULL, 3)};
    assert_refused_for(&m, CONEY_EINVAL, "body");
    m = (coney_message){.value = coney_value_i64(1)};
    assert_refused_for(&m, CONEY_EINVAL, "value");
    m = (coney_message){.body_kind = CONEY_BODY_SEQUENCE, .value = coney_value_i64(1)};
    assert_refused_for(&m, CONEY_EINVAL, "value");
    m = (coney_message){.body_kind = CONEY_BODY_VALUE, .value = coney_value_unsigned(CONEY_VALUE_U8, 256)};
    assert_refused_for(&m, CONEY_EINVAL, "value");
    m = (coney_message){.body_kind = CONEY_BODY_VALUE, .body = CONEY_STR("x")};
    assert_refused_for(&m, CONEY_EINVAL, "body");
    m = (coney_message){.body_kind = CONEY_BODY_NONE};
    assert_refused_for(&m, CONEY_EINVAL, "body_kind");
    m = (coney_message){.reserved_more = {0, 1}};
    assert_refused_for(&m, CONEY_EINVAL, "reserved");
    m = (coney_message){.properties.to = coney_bytes_of(NULL, 3), .body_kind = 9};
    assert_refused_for(&m, CONEY_EINVAL, "properties.to"); /* the first of two */
    m = (coney_message){.application_property_count = 1};
    assert_refused_for(&m, CONEY_EINVAL, "application_properties");

    coney_value list = coney_value_bytes(CONEY_VALUE_LIST, coney_bytes_of(NULL, 0));
    coney_field field = {CONEY_STR("x-a"), list};
    m = (coney_message){.application_properties = &field, .application_property_count = 1};
    assert_refused_for(&m, CONEY_EINVAL, "application_properties");
    m = (coney_message){.message_annotations = &field, .message_annotation_count = 1};
    assert_encodes_as(&m, "005372 c107 02 a303'x-a' 45 005375 a000");
    field.value.count = 1;
    assert_refused_for(&m, CONEY_EINVAL, "message_annotations");
}

/* The lengths are looked at, the bytes are not. */
static void what_no_length_field_can_say_is_too_big(void **state)
{
    (void)state;
    const size_t over = (size_t)UINT32_MAX + 1, half = (size_t)UINT32_MAX / 2 + 1;
    coney_message m = {.body = coney_bytes_of("", over)};
    assert_refused_for(&m, CONEY_ETOOBIG, "body");
    m = (coney_message){.properties.to = coney_bytes_of("", half), .properties.subject = coney_bytes_of("", half)};
    assert_refused_for(&m, CONEY_ETOOBIG, "properties");
    const coney_field fields[] = {{CONEY_STR("a"), coney_value_string(coney_bytes_of("", half))},
                                  {CONEY_STR("b"), coney_value_string(coney_bytes_of("", half))}};
    m = (coney_message){.application_properties = fields, .application_property_count = 2};
    assert_refused_for(&m, CONEY_ETOOBIG, "application_properties");
}

static void maps_and_lists_past_255_bytes_take_the_long_form(void **state)
{
    (void)state;
    char text[251];
    memset(text, 'x', sizeof text);
    for (size_t len = 245; len <= sizeof text; len++) {
        const coney_field field = {CONEY_STR("k"), coney_value_string(coney_bytes_of(text, len))};
        const coney_message m = {.application_properties = &field,
                                 .application_property_count = 1,
                                 .properties.message_id = coney_value_string(coney_bytes_of(text, len))};
        coney_bytes encoded = encode(&m);
        coney_message_view view;
        coney_value value;
        size_t list = 2 + len, map = 3 + list;
        assert_int_equal(encoded.len, 5 + 3 + list + (list < 255 ? 3 : 9) + 3 + map + (map < 255 ? 3 : 9));
        assert_int_equal(coney_message_parse(encoded, &view), CONEY_OK);
        assert_true(coney_value_find(&view.application_properties, CONEY_STR("k"), &value));
        assert_int_equal(value.as.bytes.len, len);
        hex_free(encoded);
    }
}

static void encode_measures_and_then_fills(void **state)
{
    (void)state;
    const coney_message m = {.body = CONEY_STR("x")};
    const coney_message bad = {.body_kind = 9};
    uint8_t bytes[6];
    size_t size;
    const char *field;
    assert_int_equal(coney_message_encode(&m, NULL, 0, &size, &field), CONEY_ETOOBIG);
    assert_int_equal(size, 6);
    assert_null(field);
    assert_int_equal(coney_message_encode(&m, bytes, 5, &size, NULL), CONEY_ETOOBIG);
    assert_int_equal(coney_message_encode(&m, bytes, 6, &size, NULL), CONEY_OK);
    assert_memory_equal(bytes, "\x00\x53\x75\xa0\x01x", 6);
    assert_int_equal(coney_message_encode(&bad, bytes, 6, &size, &field), CONEY_EINVAL);
    assert_string_equal(field, "body_kind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotations_are_written_as_symbols),
        cmocka_unit_test(annotation_keys_without_x_are_refused),
        cmocka_unit_test(the_header_is_written_up_to_its_last_field),
        cmocka_unit_test(value_and_sequence_bodies_are_written),
        cmocka_unit_test(a_member_that_does_not_fit_its_slot_is_named),
        cmocka_unit_test(what_no_length_field_can_say_is_too_big),
        cmocka_unit_test(maps_and_lists_past_255_bytes_take_the_long_form),
        cmocka_unit_test(encode_measures_and_then_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
