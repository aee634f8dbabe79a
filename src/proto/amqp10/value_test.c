/* value_test.c: single values and the walk over compound ones. */
#include "base/bytes.h"
#include "proto/amqp10/hex.h"
#include "proto/amqp10/value.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool read_whole(coney_bytes encoded, coney_value *out)
{
    struct reader r = reader_of(encoded.data, encoded.len);
    return amqp10_value_read(&r, 0, "value", out) && reader_left(&r) == 0 && coney_value_check(out) == CONEY_OK;
}

static void assert_encodes_as(const char *text, const coney_value *value)
{
    uint8_t bytes[512];
    coney_bytes expected = hex(text);
    assert_int_equal(coney_value_check(value), CONEY_OK);
    assert_int_equal(amqp10_value_size(value), expected.len);
    assert_ptr_equal(amqp10_value_write(bytes, value), bytes + expected.len);
    assert_memory_equal(bytes, expected.data, expected.len);
    hex_free(expected);
}

static void assert_refused(const char *text)
{
    coney_bytes encoded = hex(text);
    coney_value value;
    if (read_whole(encoded, &value))
        fail_msg("%s was read as a value", text);
    hex_free(encoded);
}

static void each_number_has_all_its_encodings_and_is_written_in_the_shortest(void **state)
{
    (void)state;
    const struct {
        const char *encoded;
        const char *shortest;
        coney_value_type type;
        int64_t number;
    } cases[] = {
        {"43", "43", CONEY_VALUE_U32, 0},
        {"52 00", "43", CONEY_VALUE_U32, 0},
        {"52 ff", "52 ff", CONEY_VALUE_U32, 255},
        {"70 000000ff", "52 ff", CONEY_VALUE_U32, 255},
        {"70 ffffffff", "70 ffffffff", CONEY_VALUE_U32, UINT32_MAX},
        {"44", "44", CONEY_VALUE_U64, 0},
        {"53 80", "53 80", CONEY_VALUE_U64, 128},
        {"80 0000000000000080", "53 80", CONEY_VALUE_U64, 128},
        {"80 ffffffffffffffff", "80 ffffffffffffffff", CONEY_VALUE_U64, -1},
        {"50 ff", "50 ff", CONEY_VALUE_U8, 255},
        {"51 fe", "51 fe", CONEY_VALUE_I8, -2},
        {"60 ffff", "60 ffff", CONEY_VALUE_U16, 65535},
        {"61 8000", "61 8000", CONEY_VALUE_I16, -32768},
        {"54 80", "54 80", CONEY_VALUE_I32, -128},
        {"71 ffffff80", "54 80", CONEY_VALUE_I32, -128},
        {"71 ffffff7f", "71 ffffff7f", CONEY_VALUE_I32, -129},
        {"71 7fffffff", "71 7fffffff", CONEY_VALUE_I32, INT32_MAX},
        {"55 7f", "55 7f", CONEY_VALUE_I64, 127},
        {"81 000000000000007f", "55 7f", CONEY_VALUE_I64, 127},
        {"81 8000000000000000", "81 8000000000000000", CONEY_VALUE_I64, INT64_MIN},
        {"73 0001f407", "73 0001f407", CONEY_VALUE_CHAR, 0x1f407},
        {"83 ffffffffffffffff", "83 ffffffffffffffff", CONEY_VALUE_TIMESTAMP, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coney_bytes encoded = hex(cases[i].encoded);
        coney_value value;
        assert_true(read_whole(encoded, &value));
        assert_int_equal(value.type, cases[i].type);
        assert_int_equal(value.as.i64, cases[i].number);
        assert_encodes_as(cases[i].shortest, &value);
        hex_free(encoded);
    }
}

static void null_booleans_and_floats_keep_their_bits(void **state)
{
    (void)state;
    const struct {
        const char *encoded;
        const char *written;
        coney_value_type type;
    } cases[] = {
        {"40", "40", CONEY_VALUE_NULL},
        {"41", "41", CONEY_VALUE_BOOL},
        {"42", "42", CONEY_VALUE_BOOL},
        {"56 01", "41", CONEY_VALUE_BOOL},
        {"56 00", "42", CONEY_VALUE_BOOL},
        {"72 3fc00000", "72 3fc00000", CONEY_VALUE_F32},
        {"72 7fc00001", "72 7fc00001", CONEY_VALUE_F32},
        {"82 3ff8000000000000", "82 3ff8000000000000", CONEY_VALUE_F64},
        {"82 7ff8000000000001", "82 7ff8000000000001", CONEY_VALUE_F64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coney_bytes encoded = hex(cases[i].encoded);
        coney_value value;
        assert_true(read_whole(encoded, &value));
        assert_int_equal(value.type, cases[i].type);
        assert_encodes_as(cases[i].written, &value);
        hex_free(encoded);
    }
    coney_value f32 = coney_value_f32(1.5F), f64 = coney_value_f64(1.5), yes = coney_value_bool(true);
    assert_encodes_as("72 3fc00000", &f32);
    assert_encodes_as("82 3ff8000000000000", &f64);
    assert_encodes_as("41", &yes);
}

static void text_binary_uuid_and_decimals_are_views_of_their_content(void **state)
{
    (void)state;
    const struct {
        const char *encoded;
        const char *written;
        coney_value_type type;
        size_t len;
    } cases[] = {
        {"a0 00", "a0 00", CONEY_VALUE_BINARY, 0},
        {"b0 00000002 ff00", "a0 02 ff00", CONEY_VALUE_BINARY, 2},
        {"a1 05 'hello'", "a1 05 'hello'", CONEY_VALUE_STRING, 5},
        {"b1 00000001 'h'", "a1 01 'h'", CONEY_VALUE_STRING, 1},
        {"a3 03 'x-a'", "a3 03 'x-a'", CONEY_VALUE_SYMBOL, 3},
        {"b3 00000000", "a3 00", CONEY_VALUE_SYMBOL, 0},
        {"98 00112233445566778899aabbccddeeff", "98 00112233445566778899aabbccddeeff", CONEY_VALUE_UUID, 16},
        {"74 01020304", "74 01020304", CONEY_VALUE_DECIMAL, 4},
        {"84 0102030405060708", "84 0102030405060708", CONEY_VALUE_DECIMAL, 8},
        {"94 0102030405060708090a0b0c0d0e0f10", "94 0102030405060708090a0b0c0d0e0f10", CONEY_VALUE_DECIMAL, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coney_bytes encoded = hex(cases[i].encoded);
        coney_value value;
        assert_true(read_whole(encoded, &value));
        assert_int_equal(value.type, cases[i].type);
        assert_int_equal(value.as.bytes.len, cases[i].len);
        assert_encodes_as(cases[i].written, &value);
        hex_free(encoded);
    }
}

static void text_of_256_bytes_takes_the_long_length(void **state)
{
    (void)state;
    char text[256];
    uint8_t bytes[300];
    memset(text, 'x', sizeof text);
    coney_value shorter = coney_value_string(coney_bytes_of(text, 255));
    coney_value longer = coney_value_string(coney_bytes_of(text, 256));
    assert_int_equal(amqp10_value_size(&shorter), 2 + 255);
    assert_int_equal(amqp10_value_size(&longer), 5 + 256);
    amqp10_value_write(bytes, &longer);
    assert_memory_equal(bytes, "\xb1\x00\x00\x01\x00x", 6);
}

static void constructors_that_do_not_exist_and_values_cut_short_are_refused(void **state)
{
    (void)state;
    const char *const cases[] = {
        "",
        "01",
        "46",
        "57 01",
        "56 02",
        "99 00112233445566778899aabbccddeeff",
        "a2 00",
        "50",
        "61 00",
        "70 000000",
        "83 00",
        "98 00",
        "a1",
        "a1 02 41",
        "b1 000000",
        "b1 ffffffff",
        "c0",
        "c0 00",
        "c0 01",
        "c0 05 01",
        "d0 00000003",
        "d0 00000003 000000",
        "d0 ffffffff 00000000",
        "c1 02 01",
        "00",
        "00 53",
        "00 53 01",
        "00 40 40",
        "00 a3 02 41",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i]);
}

static void counts_that_do_not_fit_their_bytes_are_refused(void **state)
{
    (void)state;
    assert_refused("c0 02 02 40");             /* two elements announced, one there */
    assert_refused("c0 03 01 40 40");          /* one announced, two there */
    assert_refused("d0 00000005 7fffffff 40"); /* a huge one */
    assert_refused("c1 02 01 40");             /* a map with a key and no value */
    assert_refused("e0 04 02 50 01 01 01");    /* longer than its frame */
    assert_refused("e0 03 02 50 01");          /* an array of two with one */
    assert_refused("e0 05 02 a1 01 41 01");    /* the second one cut short */
    assert_refused("f0 00000005 7fffffff 40"); /* elements of no width */
    assert_refused("f0 00000006 7fffffff a100");
    assert_refused("e0 02 00 ff"); /* no elements, of no type */
}

static void elements_come_in_order(void **state)
{
    (void)state;
    coney_bytes encoded = hex("c0 09 05 a10141 40 5505 41 45");
    coney_value list, element;
    assert_true(read_whole(encoded, &list));
    const coney_value_type types[] = {CONEY_VALUE_STRING, CONEY_VALUE_NULL, CONEY_VALUE_I64, CONEY_VALUE_BOOL,
                                      CONEY_VALUE_LIST};
    coney_value_iter iter = coney_value_elements(&list);
    for (size_t i = 0; i < 5; i++) {
        assert_true(coney_value_next(&iter, &element));
        assert_int_equal(element.type, types[i]);
    }
    assert_false(coney_value_next(&iter, &element));
    assert_true(coney_value_iter_ok(&iter));
    assert_encodes_as("c0 09 05 a10141 40 5505 41 45", &list);
    hex_free(encoded);
}

static void arrays_of_every_width_are_walked(void **state)
{
    (void)state;
    const struct {
        const char *encoded;
        size_t count;
        coney_value_type type;
    } cases[] = {
        {"e0 01 00", 0, CONEY_VALUE_NULL},
        {"e0 02 00 a3", 0, CONEY_VALUE_NULL},
        {"e0 05 03 50 010203", 3, CONEY_VALUE_U8},
        {"f0 00000007 00000002 50 0102", 2, CONEY_VALUE_U8},
        {"e0 06 02 a3 0141 0142", 2, CONEY_VALUE_SYMBOL},
        {"e0 02 02 41", 2, CONEY_VALUE_BOOL},
        {"e0 04 02 56 0001", 2, CONEY_VALUE_BOOL},
        {"e0 08 02 c0 020140 020140", 2, CONEY_VALUE_LIST},
        {"e0 07 02 00 5307 50 0102", 2, CONEY_VALUE_U8}, /* described: the descriptor is left out */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coney_bytes encoded = hex(cases[i].encoded);
        coney_value array, element;
        assert_true(read_whole(encoded, &array));
        assert_int_equal(array.type, CONEY_VALUE_ARRAY);
        size_t count = 0;
        for (coney_value_iter iter = coney_value_elements(&array); coney_value_next(&iter, &element); count++)
            assert_int_equal(element.type, cases[i].type);
        assert_int_equal(count, cases[i].count);
        hex_free(encoded);
    }
}

static void a_described_value_gives_its_descriptor_and_its_value(void **state)
{
    (void)state;
    const char *const forms[] = {"00 5307 a10141", "00 80 0000000000000007 a10141", "00 a301'd' a10141",
                                 "00 b300000001'd' a10141"};
    for (size_t i = 0; i < 4; i++) {
        coney_bytes encoded = hex(forms[i]);
        coney_value described, descriptor, value;
        assert_true(read_whole(encoded, &described));
        assert_int_equal(described.type, CONEY_VALUE_DESCRIBED);
        coney_value_iter iter = coney_value_elements(&described);
        assert_true(coney_value_next(&iter, &descriptor));
        assert_int_equal(descriptor.type, i < 2 ? CONEY_VALUE_U64 : CONEY_VALUE_SYMBOL);
        assert_true(coney_value_next(&iter, &value));
        assert_int_equal(value.type, CONEY_VALUE_STRING);
        assert_false(coney_value_next(&iter, &value));
        assert_true(coney_value_iter_ok(&iter));
        assert_encodes_as(forms[i], &described);
        hex_free(encoded);
    }
}

/* `depth` lists, each the only element of the one around it. */
static coney_bytes nested_lists(size_t depth)
{
    size_t len = 9 * depth;
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < depth; i++) {
        uint8_t *at = bytes + 9 * i;
        bool last = i + 1 == depth;
        at[0] = 0xd0;
        store32(at + 1, (uint32_t)(len - 9 * i - 5));
        store32(at + 5, last ? 0 : 1);
    }
    return coney_bytes_of(bytes, len);
}

static coney_bytes nested_descriptors(size_t depth)
{
    size_t len = 3 * depth + 1;
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < depth; i++)
        memcpy(bytes + 3 * i, "\x00\x53\x01", 3);
    bytes[len - 1] = 0x40;
    return coney_bytes_of(bytes, len);
}

static void nesting_ends_at_its_bound(void **state)
{
    (void)state;
    coney_bytes (*const make[])(size_t) = {nested_lists, nested_descriptors};
    for (size_t i = 0; i < 2; i++) {
        const size_t depths[] = {1, CONEY_VALUE_DEPTH + 1, CONEY_VALUE_DEPTH + 2, 10000};
        for (size_t j = 0; j < 4; j++) {
            coney_bytes encoded = make[i](depths[j]);
            coney_value value;
            assert_int_equal(read_whole(encoded, &value), depths[j] <= CONEY_VALUE_DEPTH + 1);
            hex_free(encoded);
        }
    }
}

static void an_array_of_empty_lists_at_the_deepest_level_is_refused(void **state)
{
    (void)state;
    coney_bytes lists = nested_lists(CONEY_VALUE_DEPTH);
    coney_value value;
    uint8_t *bytes = malloc(lists.len + 4);
    assert_non_null(bytes);
    memcpy(bytes, lists.data, lists.len);
    memcpy(bytes + lists.len, "\xe0\x02\x01\x45", 4);
    for (size_t i = 0; i < CONEY_VALUE_DEPTH; i++) {
        store32(bytes + 9 * i + 1, load32(bytes + 9 * i + 1) + 4);
        store32(bytes + 9 * i + 5, 1);
    }
    assert_false(read_whole(coney_bytes_of(bytes, lists.len + 4), &value));
    bytes[lists.len + 3] = 0x40;
    assert_true(read_whole(coney_bytes_of(bytes, lists.len + 4), &value));
    free(bytes);
    hex_free(lists);
}

static void elements_without_weight_are_bounded(void **state)
{
    (void)state;
    coney_bytes at_bound = hex("f0 00000005 00000100 40"), past_bound = hex("f0 00000005 00000101 40");
    coney_value array, element;
    size_t count = 0;
    assert_true(read_whole(at_bound, &array));
    for (coney_value_iter iter = coney_value_elements(&array); coney_value_next(&iter, &element);)
        count++;
    assert_int_equal(count, CONEY_VALUE_WEIGHTLESS);
    assert_false(read_whole(past_bound, &array));
    hex_free(at_bound);
    hex_free(past_bound);
}

static void a_map_is_searched_by_key_whatever_text_type_the_key_has(void **state)
{
    (void)state;
    coney_bytes encoded = hex("c1 18 0a a10161 5501 a30162 5502 a00163 5503 5304 5504 a10161 40");
    coney_value map, found = coney_value_null();
    assert_true(read_whole(encoded, &map));

    assert_true(coney_value_find(&map, CONEY_STR("a"), &found));
    assert_int_equal(found.as.i64, 1); /* the first of two */
    assert_true(coney_value_find(&map, CONEY_STR("b"), &found));
    assert_int_equal(found.as.i64, 2);
    assert_true(coney_value_find(&map, CONEY_STR("c"), &found));
    assert_int_equal(found.as.i64, 3);
    assert_false(coney_value_find(&map, CONEY_STR("d"), &found));
    assert_false(coney_value_find(&map, CONEY_STR("\x04"), &found));
    assert_int_equal(found.as.i64, 3);
    assert_false(coney_value_find(&found, CONEY_STR("a"), &found));

    coney_field field;
    size_t fields = 0;
    for (coney_value_iter iter = coney_value_elements(&map); coney_value_next_field(&iter, &field);)
        fields++;
    assert_int_equal(fields, 4); /* not the one whose key is a number */
    hex_free(encoded);
}

static void integers_convert_when_they_fit(void **state)
{
    (void)state;
    int64_t i = 0;
    uint64_t u = 0;
    coney_value minus = coney_value_i8(-1), big = coney_value_u64(UINT64_MAX), small = coney_value_u16(7);
    coney_value when = coney_value_timestamp(-5), text = coney_value_string(CONEY_STR("7")), real = coney_value_f64(7);

    assert_true(coney_value_to_i64(&minus, &i));
    assert_int_equal(i, -1);
    assert_false(coney_value_to_u64(&minus, &u));
    assert_false(coney_value_to_i64(&big, &i));
    assert_true(coney_value_to_u64(&big, &u));
    assert_true(u == UINT64_MAX);
    assert_true(coney_value_to_i64(&small, &i));
    assert_true(coney_value_to_u64(&small, &u));
    assert_int_equal(i + (int64_t)u, 14);
    assert_true(coney_value_to_i64(&when, &i));
    assert_int_equal(i, -5);
    assert_false(coney_value_to_i64(&text, &i));
    assert_false(coney_value_to_u64(&real, &u));
    assert_int_equal(i, -5);
}

static void a_value_that_a_user_forged_is_refused(void **state)
{
    (void)state;
    const uint8_t list[] = {0x40, 0x40};
    coney_value forged[] = {
        coney_value_signed(CONEY_VALUE_I8, 128),
        coney_value_signed(CONEY_VALUE_I16, -32769),
        coney_value_signed(CONEY_VALUE_I32, INT64_C(1) << 31),
        coney_value_unsigned(CONEY_VALUE_U8, 256),
        coney_value_unsigned(CONEY_VALUE_U16, 65536),
        coney_value_unsigned(CONEY_VALUE_U32, UINT64_C(1) << 32),
        coney_value_unsigned(CONEY_VALUE_CHAR, UINT64_C(1) << 32),
        coney_value_bytes(CONEY_VALUE_UUID, CONEY_STR("short")),
        coney_value_bytes(CONEY_VALUE_DECIMAL, CONEY_STR("12345")),
        coney_value_string(coney_bytes_of(NULL, 1)),
        coney_value_unsigned((coney_value_type)23, 0),
    };
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++)
        assert_int_equal(coney_value_check(&forged[i]), CONEY_EINVAL);

    coney_value compound = coney_value_bytes(CONEY_VALUE_LIST, coney_bytes_of(list, sizeof list));
    assert_int_equal(coney_value_check(&compound), CONEY_ECORRUPT);
    compound.count = 3;
    assert_int_equal(coney_value_check(&compound), CONEY_ECORRUPT);
    compound.count = 2;
    assert_int_equal(coney_value_check(&compound), CONEY_OK);
    compound.type = CONEY_VALUE_DESCRIBED; /* null is no descriptor */
    assert_int_equal(coney_value_check(&compound), CONEY_ECORRUPT);
    compound.as.bytes = coney_bytes_of("\x44\x40", 2);
    assert_int_equal(coney_value_check(&compound), CONEY_OK);
    compound.as.bytes = coney_bytes_of("\x44\x40\x40", 3);
    assert_int_equal(coney_value_check(&compound), CONEY_ECORRUPT);
    compound.type = CONEY_VALUE_ARRAY;
    assert_int_equal(coney_value_check(&compound), CONEY_ECORRUPT);
    compound.encoding = 1;
    assert_int_equal(coney_value_check(&compound), CONEY_EINVAL);
    coney_value_iter iter = coney_value_elements(&compound);
    assert_false(coney_value_next(&iter, &compound));
    assert_false(coney_value_iter_ok(&iter));
}

static void each_type_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(coney_value_type_name(CONEY_VALUE_NULL), "null");
    assert_string_equal(coney_value_type_name(CONEY_VALUE_I64), "i64");
    assert_string_equal(coney_value_type_name(CONEY_VALUE_TIMESTAMP), "timestamp");
    assert_string_equal(coney_value_type_name(CONEY_VALUE_SYMBOL), "symbol");
    assert_string_equal(coney_value_type_name(CONEY_VALUE_DESCRIBED), "described");
    assert_string_equal(coney_value_type_name(23), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_has_all_its_encodings_and_is_written_in_the_shortest),
        cmocka_unit_test(null_booleans_and_floats_keep_their_bits),
        cmocka_unit_test(text_binary_uuid_and_decimals_are_views_of_their_content),
        cmocka_unit_test(text_of_256_bytes_takes_the_long_length),
        cmocka_unit_test(constructors_that_do_not_exist_and_values_cut_short_are_refused),
        cmocka_unit_test(counts_that_do_not_fit_their_bytes_are_refused),
        cmocka_unit_test(elements_come_in_order),
        cmocka_unit_test(arrays_of_every_width_are_walked),
        cmocka_unit_test(a_described_value_gives_its_descriptor_and_its_value),
        cmocka_unit_test(nesting_ends_at_its_bound),
        cmocka_unit_test(an_array_of_empty_lists_at_the_deepest_level_is_refused),
        cmocka_unit_test(elements_without_weight_are_bounded),
        cmocka_unit_test(a_map_is_searched_by_key_whatever_text_type_the_key_has),
        cmocka_unit_test(integers_convert_when_they_fit),
        cmocka_unit_test(a_value_that_a_user_forged_is_refused),
        cmocka_unit_test(each_type_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
