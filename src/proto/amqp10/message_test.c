/* message_test.c: the faults that other clients have had with messages, SB-61 to SB-70. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/amqp10/expect.h"

#define V5 "005372 c118 02 a313'x-dotnet-pub-seq-no' 5505 005375 a001 78"
#define V6 "005374 c10c 04 a10161 51fe a103657461 40 005375 a001 78"
#define V7 "005374 c112 02 a1036b6579 a10ae58d88e5be8c31313a31 005375 a00a 6d795f6d657373616765"
#define V8 "005372 c116 02 a307782d6465617468 d0 00000007 00000001 a10171 005375 a001 78"
#define V9 "005373 c013 0a 404040404040404040 83 ffffffffffffffff 005375 a001 78"

#define ALL_PROPERTIES                                                                                                         \
    "005373 c054 0d 5307 a001'u' a102'to' a103'sub' a105'reply' 98 00112233445566778899aabbccddeeff a30a'text/plain' "         \
    "a304'gzip' 83 0000018bcfe56800 83 0000000000000001 a101'g' 5209 a102'rg'"

static void SB_61_lengths_count_bytes_not_characters(void **state)
{
    (void)state;
    const coney_field fields[] = {{CONEY_STR("key"), coney_value_string(CONEY_STR("午後11:1"))}};
    const coney_message m = {
        .body = CONEY_STR("my_message"), .application_properties = fields, .application_property_count = 1};
    coney_value value;
    assert_encodes_as(&m, V7);
    coney_message_view view = parse(V7);
    assert_true(coney_value_find(&view.application_properties, CONEY_STR("key"), &value));
    assert_text(value.as.bytes, "午後11:1");
    assert_body(&view, "my_message");
    hex_free(view.encoded);
}

static coney_message_properties all_properties(const uint8_t *uuid)
{
    return (coney_message_properties){
        .message_id = coney_value_u64(7),
        .user_id = CONEY_STR("u"),
        .to = CONEY_STR("to"),
        .subject = CONEY_STR("sub"),
        .reply_to = CONEY_STR("reply"),
        .correlation_id = coney_value_uuid(uuid),
        .content_type = CONEY_STR("text/plain"),
        .content_encoding = CONEY_STR("gzip"),
        .absolute_expiry_time = coney_value_timestamp(1700000000000),
        .creation_time = coney_value_timestamp(1),
        .group_id = CONEY_STR("g"),
        .group_sequence = coney_value_u32(9),
        .reply_to_group_id = CONEY_STR("rg"),
    };
}

static void SB_63_sizes_count_what_follows_and_content_types_are_symbols(void **state)
{
    (void)state;
    coney_bytes uuid = hex("00112233445566778899aabbccddeeff");
    const coney_field fields[] = {
        {CONEY_STR("a"), coney_value_i32(1)},
        {CONEY_STR("b"), coney_value_bool(true)},
        {CONEY_STR("c"), coney_value_string(CONEY_STR("x"))},
    };
    coney_message m = {.body = CONEY_STR("x"),
                       .properties = all_properties(uuid.data),
                       .application_properties = fields,
                       .application_property_count = 3};
    assert_encodes_as(&m, ALL_PROPERTIES " 005374 c110 06 a10161 5401 a10162 41 a10163 a10178 005375 a00178");

    m = (coney_message){.body = CONEY_STR("x"), .properties.subject = CONEY_STR("s"), .properties.content_type = CONEY_STR("")};
    assert_encodes_as(&m, "005373 c00b 07 404040 a10173 4040 a300 005375 a00178");
    hex_free(uuid);
}

static void SB_65_annotations_may_hold_lists_maps_and_arrays(void **state)
{
    (void)state;
    const struct {
        const char *encoded;
        coney_value_type type;
    } cases[] = {
        {V8, CONEY_VALUE_LIST},
        {"005372 c112 02 a307'x-death' c106 02 a10171 5501 005375 a00178", CONEY_VALUE_MAP},
        {"005372 c112 02 a307'x-death' e006 02 a3 0171 0172 005375 a00178", CONEY_VALUE_ARRAY},
        {"005372 c118 02 a307'x-death' f0 00000009 00000002 a3 0171 0172 005375 a00178", CONEY_VALUE_ARRAY},
        {"005372 c11c 02 a307'x-death' c010 01 c10d 02 a301'q' d0 00000004 00000000 005375 a00178", CONEY_VALUE_LIST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coney_message_view view = parse(cases[i].encoded);
        coney_value death;
        assert_true(coney_value_find(&view.message_annotations, CONEY_STR("x-death"), &death));
        assert_int_equal(death.type, cases[i].type);
        assert_body(&view, "x");
        hex_free(view.encoded);
    }
}

static void SB_66_each_kind_of_body_is_told_apart_and_read(void **state)
{
    (void)state;
    coney_value section;
    coney_message_view view = parse("005377 a10141");
    assert_int_equal(view.body_kind, CONEY_BODY_VALUE);
    coney_body_iter iter = coney_message_body(&view);
    assert_true(coney_message_body_next(&iter, &section));
    assert_int_equal(section.type, CONEY_VALUE_STRING);
    assert_text(section.as.bytes, "A");
    assert_false(coney_message_body_next(&iter, &section));
    assert_int_equal(coney_message_body_size(&view), 0);
    assert_int_equal(coney_message_body_copy(&view, NULL, 0), 0);
    hex_free(view.encoded);

    view = parse("005377 a00141");
    iter = coney_message_body(&view);
    assert_true(coney_message_body_next(&iter, &section));
    assert_int_equal(section.type, CONEY_VALUE_BINARY);
    hex_free(view.encoded);

    view = parse("005377 40");
    assert_int_equal(view.body_kind, CONEY_BODY_VALUE);
    iter = coney_message_body(&view);
    assert_true(coney_message_body_next(&iter, &section));
    assert_int_equal(section.type, CONEY_VALUE_NULL);
    hex_free(view.encoded);

    view = parse("005376 c006 02 5501 a10178");
    assert_int_equal(view.body_kind, CONEY_BODY_SEQUENCE);
    iter = coney_message_body(&view);
    assert_true(coney_message_body_next(&iter, &section));
    assert_int_equal(section.type, CONEY_VALUE_LIST);
    assert_int_equal(section.count, 2);
    hex_free(view.encoded);
}

static void SB_66_data_sections_are_read_one_by_one_and_joined(void **state)
{
    (void)state;
    char body[4] = "....";
    coney_value section;
    coney_message_view view = parse("005375 a002'ab' 005375 b0 00000000 005375 a001'c' 005378 c10100");
    assert_int_equal(view.body_sections, 3);
    assert_body(&view, "abc");
    assert_int_equal(view.footer.type, CONEY_VALUE_MAP);
    coney_body_iter iter = coney_message_body(&view);
    assert_true(coney_message_body_next(&iter, &section));
    assert_text(section.as.bytes, "ab");
    assert_true(coney_message_body_next(&iter, &section));
    assert_text(section.as.bytes, "");
    assert_true(coney_message_body_next(&iter, &section));
    assert_text(section.as.bytes, "c");
    assert_false(coney_message_body_next(&iter, &section));

    assert_int_equal(coney_message_body_copy(&view, body, 1), 1);
    assert_memory_equal(body, "a...", 4);
    hex_free(view.encoded);
}

static void SB_67_a_message_always_has_a_body_when_written(void **state)
{
    (void)state;
    const coney_message empty = {0};
    assert_encodes_as(&empty, "005375 a000");
}

static void SB_67_a_missing_body_reads_as_an_empty_one(void **state)
{
    (void)state;
    coney_message_view view = parse("005373 c00100");
    assert_int_equal(view.body_kind, CONEY_BODY_NONE);
    assert_int_equal(coney_message_body_size(&view), 0);
    assert_true(coney_message_get_properties(&view, &(coney_message_properties){0}));
    hex_free(view.encoded);

    view = parse("");
    assert_int_equal(view.body_kind, CONEY_BODY_NONE);
    hex_free(view.encoded);
}

static void SB_67_sections_out_of_order_or_given_twice_are_refused(void **state)
{
    (void)state;
    const char *const cases[] = {
        "005375 a000 005370 45",               /* header behind the body */
        "005373 45 005372 c10100 005375 a000", /* annotations behind properties */
        "005370 45 005370 45 005375 a000",     /* header twice */
        "005378 c10100 005375 a000",           /* footer before the body */
        "005375 a000 005376 45",               /* two kinds of body */
        "005375 a000 005377 40",
        "005377 40 005377 40",                   /* two values */
        "005375 a000 005378 c10100 005375 a000", /* data around the footer */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_corrupt_hex(cases[i], "order of sections");
}

static void SB_68_null_in_a_map_is_present_and_an_absent_key_is_not(void **state)
{
    (void)state;
    const coney_field fields[] = {{CONEY_STR("a"), coney_value_i8(-2)}, {CONEY_STR("eta"), coney_value_null()}};
    const coney_message m = {.body = CONEY_STR("x"), .application_properties = fields, .application_property_count = 2};
    assert_encodes_as(&m, V6);

    coney_message_view view = parse(V6);
    coney_value value = coney_value_bool(true);
    assert_false(coney_value_find(&view.application_properties, CONEY_STR("etc"), &value));
    assert_int_equal(value.type, CONEY_VALUE_BOOL);
    assert_true(coney_value_find(&view.application_properties, CONEY_STR("eta"), &value));
    assert_int_equal(value.type, CONEY_VALUE_NULL);
    assert_true(coney_value_find(&view.application_properties, CONEY_STR("a"), &value));
    assert_int_equal(value.type, CONEY_VALUE_I8);
    assert_int_equal(value.as.i64, -2);
    hex_free(view.encoded);
}

static void SB_68_null_in_every_slot_reads_as_absent(void **state)
{
    (void)state;
    coney_message_view view = parse("005370 c006 05 4040404040 005373 c00e 0d 40404040404040404040404040 005375 a000");
    const coney_message_header no_header = {0};
    const coney_message_properties no_properties = {0};
    coney_message_header header;
    coney_message_properties properties;
    assert_true(coney_message_get_header(&view, &header));
    assert_memory_equal(&header, &no_header, sizeof header);
    assert_true(coney_message_get_properties(&view, &properties));
    assert_memory_equal(&properties, &no_properties, sizeof properties);
    hex_free(view.encoded);
}

static void SB_69_times_before_1970_are_kept(void **state)
{
    (void)state;
    const coney_message m = {.body = CONEY_STR("x"), .properties.creation_time = coney_value_timestamp(-1)};
    coney_message_properties properties;
    assert_encodes_as(&m, V9);
    coney_message_view view = parse(V9);
    assert_true(coney_message_get_properties(&view, &properties));
    assert_int_equal(properties.creation_time.type, CONEY_VALUE_TIMESTAMP);
    assert_int_equal(properties.creation_time.as.i64, -1);
    assert_int_equal(properties.absolute_expiry_time.type, CONEY_VALUE_NULL);
    hex_free(view.encoded);

    const coney_message epoch = {.properties.creation_time = coney_value_timestamp(0)};
    assert_encodes_as(&epoch, "005373 c013 0a 404040404040404040 83 0000000000000000 005375 a000");
}

static void SB_69_a_group_sequence_above_32_bits_is_refused(void **state)
{
    (void)state;
    coney_message m = {.properties.group_sequence = coney_value_u64(UINT32_MAX)};
    assert_encodes_as(&m, "005373 c011 0c 4040404040404040404040 70 ffffffff 005375 a000");
    m.properties.group_sequence = coney_value_u64(UINT64_C(4294967296));
    assert_refused_for(&m, CONEY_EINVAL, "properties.group_sequence");
    m.properties.group_sequence = coney_value_i64(-1);
    assert_refused_for(&m, CONEY_EINVAL, "properties.group_sequence");
}

static void SB_69_message_ids_keep_their_type(void **state)
{
    (void)state;
    coney_bytes uuid = hex("00112233445566778899aabbccddeeff");
    const struct {
        coney_value id;
        const char *encoded;
    } cases[] = {
        {coney_value_u64(UINT64_MAX), "005373 c00a 01 80 ffffffffffffffff 005375 a000"},
        {coney_value_uuid(uuid.data), "005373 c012 01 98 00112233445566778899aabbccddeeff 005375 a000"},
        {coney_value_binary(CONEY_STR("\x01")), "005373 c004 01 a00101 005375 a000"},
        {coney_value_string(CONEY_STR("i")), "005373 c004 01 a10169 005375 a000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const coney_message m = {.properties.message_id = cases[i].id};
        assert_encodes_as(&m, cases[i].encoded);
        coney_message_view view = parse(cases[i].encoded);
        coney_message_properties properties;
        assert_true(coney_message_get_properties(&view, &properties));
        assert_int_equal(properties.message_id.type, cases[i].id.type);
        if (cases[i].id.type == CONEY_VALUE_U64)
            assert_true(properties.message_id.as.u64 == UINT64_MAX);
        else
            assert_true(bytes_equal(properties.message_id.as.bytes, cases[i].id.as.bytes));
        hex_free(view.encoded);
    }
    const coney_message number = {.properties.correlation_id = coney_value_i64(1)};
    assert_refused_for(&number, CONEY_EINVAL, "properties.correlation_id");
    hex_free(uuid);
}

static void SB_70_hostile_sizes_and_counts_end_in_an_error(void **state)
{
    (void)state;
    assert_corrupt_hex("005377 f0 00000005 7fffffff 40 005375 a000", "amqp-value section");
    assert_corrupt_hex("005374 c114 02 a10161 f0 00000005 7fffffff 45 005375 a000", "application_properties");
    assert_corrupt_hex("005374 d1 00000004 fffffffe 005375 a000", "application_properties");
    assert_corrupt_hex("005374 c104 01 a10161 005375 a000", "application_properties"); /* odd */
    assert_corrupt_hex("005374 c1ff 02 a10161 40 005375 a000", "application_properties");
    assert_corrupt_hex("005375 b0 ffffffff 'x'", "data section");
    assert_corrupt_hex("005373 d0 7fffffff 7fffffff 40", "properties");
    coney_message_view view = parse(V5); /* and the next message is read */
    assert_body(&view, "x");
    hex_free(view.encoded);
}

static void SB_70_a_list_nested_10000_deep_is_refused(void **state)
{
    (void)state;
    const size_t depth = 10000;
    size_t len = 3 + 9 * depth;
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    memcpy(bytes, "\x00\x53\x77", 3);
    for (size_t i = 0; i < depth; i++) {
        uint8_t *at = bytes + 3 + 9 * i;
        at[0] = 0xd0;
        store32(at + 1, (uint32_t)(9 * (depth - i) - 5));
        store32(at + 5, i + 1 < depth);
    }
    assert_corrupt(coney_bytes_of(bytes, len), "amqp-value section");
    free(bytes);
}

static void SB_70_at_most_10000_sections_are_read(void **state)
{
    (void)state;
    size_t len = 5 * (CONEY_MESSAGE_SECTIONS + 1);
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i += 5)
        memcpy(bytes + i, "\x00\x53\x75\xa0\x00", 5);
    assert_corrupt(coney_bytes_of(bytes, len), "number of sections");
    coney_message_view view;
    assert_int_equal(coney_message_parse(coney_bytes_of(bytes, len - 5), &view), CONEY_OK);
    assert_int_equal(view.body_sections, CONEY_MESSAGE_SECTIONS);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_61_lengths_count_bytes_not_characters),
        cmocka_unit_test(SB_63_sizes_count_what_follows_and_content_types_are_symbols),
        cmocka_unit_test(SB_65_annotations_may_hold_lists_maps_and_arrays),
        cmocka_unit_test(SB_66_each_kind_of_body_is_told_apart_and_read),
        cmocka_unit_test(SB_66_data_sections_are_read_one_by_one_and_joined),
        cmocka_unit_test(SB_67_a_message_always_has_a_body_when_written),
        cmocka_unit_test(SB_67_a_missing_body_reads_as_an_empty_one),
        cmocka_unit_test(SB_67_sections_out_of_order_or_given_twice_are_refused),
        cmocka_unit_test(SB_68_null_in_a_map_is_present_and_an_absent_key_is_not),
        cmocka_unit_test(SB_68_null_in_every_slot_reads_as_absent),
        cmocka_unit_test(SB_69_times_before_1970_are_kept),
        cmocka_unit_test(SB_69_a_group_sequence_above_32_bits_is_refused),
        cmocka_unit_test(SB_69_message_ids_keep_their_type),
        cmocka_unit_test(SB_70_hostile_sizes_and_counts_end_in_an_error),
        cmocka_unit_test(SB_70_a_list_nested_10000_deep_is_refused),
        cmocka_unit_test(SB_70_at_most_10000_sections_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
