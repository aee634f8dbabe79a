#include "proto/amqp091/table.h"
#include "proto/amqp091/test_bytes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Entries from hex, looked through; they live until the test ends. */
static coney_bytes shelf[64];
static size_t shelved;

static coney_bytes keep(coney_bytes bytes)
{
    assert_true(shelved < sizeof shelf / sizeof *shelf);
    return shelf[shelved++] = bytes;
}

static int clear_shelf(void **state)
{
    (void)state;
    while (shelved > 0)
        release(shelf[--shelved]);
    return 0;
}

static coney_value table_of(const char *hex)
{
    coney_value table;
    assert_null(amqp_table_parse(keep(bytes_of(hex)), &table));
    assert_true(amqp_table_valid(&table));
    return table;
}

static void assert_refused(const char *hex, const char *fault)
{
    coney_value table;
    const char *field = amqp_table_parse(keep(bytes_of(hex)), &table);
    assert_non_null(field);
    assert_string_equal(field, fault);
    assert_int_equal(table.type, CONEY_VALUE_NULL);
}

static coney_value find(const coney_value *map, const char *key)
{
    coney_value value;
    assert_true(coney_value_find(map, text(key), &value));
    return value;
}

static coney_value only_value(const char *hex)
{
    coney_value table = table_of(hex);
    assert_int_equal(table.count, 2);
    return find(&table, "k");
}

static void assert_bytes(const coney_value *value, uint8_t type, const void *bytes, size_t len)
{
    assert_int_equal(value->type, type);
    assert_int_equal(value->as.bytes.len, len);
    if (len > 0)
        assert_memory_equal(value->as.bytes.data, bytes, len);
}

/* Adds everything in `map` to the open map of the builder, or in a list to the open list. */
static void copy_elements(coney_builder *b, const coney_value *from)
{
    coney_value element;
    coney_value_iter iter = coney_value_elements(from);
    while (coney_value_next(&iter, &element)) {
        if (element.type != CONEY_VALUE_LIST && element.type != CONEY_VALUE_MAP) {
            coney_builder_add(b, element);
            continue;
        }
        coney_builder_begin(b, (coney_value_type)element.type);
        copy_elements(b, &element);
        coney_builder_end(b);
    }
    assert_true(coney_value_iter_ok(&iter));
}

static void assert_copies_to_the_same_bytes(const coney_value *table)
{
    uint8_t memory[4096];
    coney_builder b;
    coney_value copy;
    coney_builder_init_table(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    copy_elements(&b, table);
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &copy), CONEY_OK);
    assert_int_equal(copy.count, table->count);
    assert_int_equal(copy.encoding, CONEY_ENCODING_AMQP091);
    assert_bytes(&copy, CONEY_VALUE_MAP, table->as.bytes.data, table->as.bytes.len);
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

static void every_tag_is_read_as_its_type(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        uint8_t type;
        int64_t number;
    } numbers[] = {
        {"01'k' 't' 01", CONEY_VALUE_BOOL, 1},
        {"01'k' 't' 00", CONEY_VALUE_BOOL, 0},
        {"01'k' 'b' 80", CONEY_VALUE_I8, INT8_MIN},
        {"01'k' 'B' 80", CONEY_VALUE_U8, 128},
        {"01'k' 's' fffe", CONEY_VALUE_I16, -2},
        {"01'k' 'u' fffe", CONEY_VALUE_U16, 65534},
        {"01'k' 'I' 80000000", CONEY_VALUE_I32, INT32_MIN},
        {"01'k' 'i' 80000000", CONEY_VALUE_U32, 2147483648},
        {"01'k' 'l' ffffffffffffffff", CONEY_VALUE_I64, -1},
        {"01'k' 'L' 7fffffffffffffff", CONEY_VALUE_I64, INT64_MAX},
        {"01'k' 'T' 000000006553f100", CONEY_VALUE_TIMESTAMP, 1700000000000},
        {"01'k' 'V'", CONEY_VALUE_NULL, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        coney_value value = only_value(numbers[i].hex);
        assert_int_equal(value.type, numbers[i].type);
        if (value.type == CONEY_VALUE_BOOL)
            assert_int_equal(value.as.boolean, numbers[i].number);
        else
            assert_true(value.as.i64 == numbers[i].number);
    }
    assert_true(fabs((double)only_value("01'k' 'f' 3fc00000").as.f32 - 1.5) < 1e-9);
    assert_true(fabs(only_value("01'k' 'd' c004000000000000").as.f64 + 2.5) < 1e-9);

    coney_value text_value = only_value("01'k' 'S' 00000002 'hi'");
    assert_bytes(&text_value, CONEY_VALUE_STRING, "hi", 2);
    coney_value decimal = only_value("01'k' 'D' 02 000004d2");
    assert_bytes(&decimal, CONEY_VALUE_DECIMAL, "\x02\0\0\x04\xd2", 5);
    coney_value list = only_value("01'k' 'A' 00000003 't' 01 'V'");
    assert_int_equal(list.type, CONEY_VALUE_LIST);
    assert_int_equal(list.count, 2);
    coney_value map = only_value("01'k' 'F' 00000003 01'a' 'V'");
    assert_int_equal(map.type, CONEY_VALUE_MAP);
    assert_int_equal(map.count, 2);
    assert_int_equal(map.depth, 1);
    assert_int_equal(find(&map, "a").type, CONEY_VALUE_NULL);
}

static void a_time_beyond_what_milliseconds_hold_reads_as_the_nearest(void **state)
{
    (void)state;
    assert_true(only_value("01'k' 'T' 7fffffffffffffff").as.i64 == INT64_MAX);
    assert_true(only_value("01'k' 'T' 8000000000000000").as.i64 == INT64_MIN);
    assert_true(only_value("01'k' 'T' ffffffffffffffff").as.i64 == -1000);
}

static void B05_a_null_is_an_entry_and_an_element(void **state)
{
    (void)state;
    coney_value table = table_of("01'a' 'V' 01'b' 'I' 00000007 01'c' 'A' 00000002 56 56");
    assert_int_equal(table.count, 6);
    assert_int_equal(find(&table, "a").type, CONEY_VALUE_NULL);
    assert_int_equal(find(&table, "b").as.i64, 7);
    coney_value list = find(&table, "c");
    assert_int_equal(list.count, 2);
    coney_value element;
    coney_value_iter iter = coney_value_elements(&list);
    for (int i = 0; i < 2; i++) {
        assert_true(coney_value_next(&iter, &element));
        assert_int_equal(element.type, CONEY_VALUE_NULL);
    }
    assert_false(coney_value_next(&iter, &element));
    assert_true(coney_value_iter_ok(&iter));
    assert_copies_to_the_same_bytes(&table);
}

static void B06_byte_arrays_stay_apart_from_strings(void **state)
{
    (void)state;
    coney_value table = table_of("01'a' 'x' 00000002 00ff 01'b' 'x' 00000000 01'c' 'S' 00000002 00ff");
    coney_value bytes = find(&table, "a");
    assert_bytes(&bytes, CONEY_VALUE_BINARY, "\x00\xff", 2);
    bytes = find(&table, "b");
    assert_bytes(&bytes, CONEY_VALUE_BINARY, NULL, 0);
    bytes = find(&table, "c");
    assert_bytes(&bytes, CONEY_VALUE_STRING, "\x00\xff", 2);
    assert_copies_to_the_same_bytes(&table);
}

static void B09_a_signed_octet_is_minus_one_and_an_unsigned_one_255(void **state)
{
    (void)state;
    int64_t number;
    coney_value is_signed = only_value("01'k' 'b' ff");
    assert_true(coney_value_to_i64(&is_signed, &number));
    assert_int_equal(number, -1);
    coney_value is_unsigned = only_value("01'k' 'B' ff");
    assert_true(coney_value_to_i64(&is_unsigned, &number));
    assert_int_equal(number, 255);
}

static void B10_an_unknown_tag_is_refused_by_its_name(void **state)
{
    (void)state;
    assert_refused("01'k' 'Z'", "table tag 0x5a");
    assert_refused("01'k' 'U' 0001", "table tag 0x55");
    assert_refused("01'k' 'z' 01 'a'", "table tag 0x7a");
    assert_refused("01'k' 00", "table tag 0x00");
    assert_refused("01'k' ff", "table tag 0xff");
    assert_refused("01'k' 'A' 00000001 'Q'", "table tag 0x51");
    for (unsigned tag = 0; tag < 256; tag++) {
        char hex[64];
        char name[32];
        snprintf(hex, sizeof hex, "01'k' %02x 00000000 00000000", tag);
        snprintf(name, sizeof name, "table tag 0x%02x", tag);
        coney_value table;
        coney_bytes entries = bytes_of(hex);
        const char *field = amqp_table_parse(entries, &table);
        bool known = tag != 0 && strchr("tbBsuIilLfdDSxTVFA", (int)tag) != NULL;
        assert_int_equal(field == NULL || strcmp(field, name) != 0, known);
        release(entries);
    }
}

static void B12_a_measured_x_death_header_is_rebuilt_to_the_same_bytes(void **state)
{
    (void)state;
    coney_value headers = table_of("07'x-death' 'A' 0000006e "
                                   "'F' 00000069 "
                                   "05'count' 'l' 0000000000000001 "
                                   "06'reason' 'S' 00000008 'rejected' "
                                   "05'queue' 'S' 00000004 'jobs' "
                                   "04'time' 'T' 0000000065f1a2b3 "
                                   "08'exchange' 'S' 00000000 "
                                   "0c'routing-keys' 'A' 00000009 'S' 00000004 'jobs' "
                                   "0d'x-first-death' 'V' "
                                   "07'x-extra' 't' 01");
    assert_copies_to_the_same_bytes(&headers);
}

static void B13_equal_keys_and_an_empty_key_stay_and_the_first_counts(void **state)
{
    (void)state;
    coney_value table = table_of("01'a' 'I' 00000001 01'a' 'I' 00000002 00 'V'");
    assert_int_equal(table.count, 6);
    assert_int_equal(find(&table, "a").as.i64, 1);
    assert_int_equal(find(&table, "").type, CONEY_VALUE_NULL);
    coney_field field;
    size_t fields = 0;
    coney_value_iter iter = coney_value_elements(&table);
    while (coney_value_next_field(&iter, &field))
        fields++;
    assert_int_equal(fields, 3);
    assert_copies_to_the_same_bytes(&table);
}

static void A20_empty_tables_arrays_and_strings_are_empty_values(void **state)
{
    (void)state;
    coney_value table = table_of("");
    assert_int_equal(table.type, CONEY_VALUE_MAP);
    assert_int_equal(table.count, 0);
    coney_value value;
    assert_false(coney_value_find(&table, CONEY_STR("a"), &value));
    assert_copies_to_the_same_bytes(&table);

    table = table_of("01'a' 'A' 00000000 01's' 'S' 00000000 01'f' 'F' 00000000");
    value = find(&table, "a");
    assert_int_equal(value.type, CONEY_VALUE_LIST);
    assert_int_equal(value.count, 0);
    value = find(&table, "s");
    assert_bytes(&value, CONEY_VALUE_STRING, NULL, 0);
    assert_copies_to_the_same_bytes(&table);
}

/* Bad input -------------------------------------------------------------------------------------------------------- */

static void A09_a_length_beyond_the_bytes_is_refused(void **state)
{
    (void)state;
    assert_refused("01'k' 'S' 7ffffff0 'abc'", "table");
    assert_refused("01'k' 'x' ffffffff", "table");
    assert_refused("ff 'ab'", "table");
    assert_refused("01'k' 'A' 00000003 'I' 0000", "table");
    assert_refused("01'k' 'A' 00000004 'I' 000000 01'b' 'V'", "table");
    assert_refused("01'k' 'F' 00000002 05'a'", "table");
    assert_refused("01'k'", "table");

    struct reader r = reader_of("\0\0\0\x08\x01kI\0\0\0\x05", 11);
    coney_value table;
    assert_false(amqp_table_read(&r, "x.arguments", &table));
    assert_string_equal(r.field, "x.arguments");
}

static void a_table_cut_anywhere_is_refused_or_ends_at_an_entry(void **state)
{
    (void)state;
    coney_bytes whole =
        keep(bytes_of("01'a' 'I' 00000001 01'b' 'A' 0000000b 'F' 00000004 01'c' 'B' 07 'V' 'V' 01'd' 'D' 0100000001"));
    static const size_t ends[] = {0, 7, 25, 33};
    for (size_t len = 0; len <= whole.len; len++) {
        coney_value table;
        coney_bytes cut = exact_copy(whole.data, len);
        bool at_end = false;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            at_end |= ends[i] == len;
        assert_int_equal(amqp_table_parse(cut, &table) == NULL, at_end);
        release(cut);
    }
}

/* `levels` compound values inside each other, in the only entry of a table. */
static coney_bytes nested(const char *tags, size_t levels)
{
    size_t head = 5;
    size_t inside[300];
    inside[levels] = 0;
    for (size_t i = levels; i-- > 0;)
        inside[i] = head + inside[i + 1] + (i > 0 && tags[(i - 1) % 2] == 'F' ? 2 : 0);
    uint8_t *room = exact_room(2 + inside[0]);
    uint8_t *at = room;
    *at++ = 1;
    *at++ = 'k';
    for (size_t i = 0; i < levels; i++) {
        if (i > 0 && tags[(i - 1) % 2] == 'F') {
            *at++ = 1;
            *at++ = 'k';
        }
        *at++ = (uint8_t)tags[i % 2];
        uint32_t content = i + 1 < levels ? (uint32_t)inside[i + 1] : 0;
        store32(at, content);
        at += 4;
    }
    return coney_bytes_of(room, (size_t)(at - room));
}

static void A08_nesting_is_read_to_its_limit_and_refused_beyond(void **state)
{
    (void)state;
    static const char *const kinds[] = {"AA", "FF", "AF", "FA"};
    static const size_t levels[] = {1, CONEY_VALUE_DEPTH, CONEY_VALUE_DEPTH + 1, 101, 299};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
            coney_value table;
            coney_bytes entries = nested(kinds[k], levels[i]);
            const char *fault = amqp_table_parse(entries, &table);
            if (levels[i] > CONEY_VALUE_DEPTH) {
                assert_string_equal(fault, "table");
            } else {
                assert_null(fault);
                coney_value value = table;
                size_t depth = 0;
                while (value.count > 0) {
                    coney_value_iter iter = coney_value_elements(&value);
                    coney_value element;
                    while (coney_value_next(&iter, &element))
                        value = element;
                    assert_true(coney_value_iter_ok(&iter));
                    depth++;
                }
                assert_int_equal(depth, levels[i]);
            }
            release(entries);
        }
    }
}

static void a_forged_value_is_refused_and_its_walk_stops(void **state)
{
    (void)state;
    coney_value table = amqp_table_value("\001aI\0\0\0\005", 7, 1);
    assert_int_equal(coney_value_check(&table), CONEY_OK);
    coney_value forged[6];
    for (size_t i = 0; i < 6; i++)
        forged[i] = table;
    forged[0].count = 4;
    forged[1].as.bytes.len = 6;
    forged[2].as.bytes.data = NULL;
    forged[3].type = CONEY_VALUE_ARRAY;
    forged[4].type = CONEY_VALUE_DESCRIBED;
    forged[5].encoding = 2;
    for (size_t i = 0; i < 6; i++)
        assert_int_not_equal(coney_value_check(&forged[i]), CONEY_OK);

    static const size_t walked[] = {0, 1, 3, 4, 5};
    for (size_t i = 0; i < sizeof walked / sizeof *walked; i++) {
        coney_value element;
        coney_value_iter iter = coney_value_elements(&forged[walked[i]]);
        while (coney_value_next(&iter, &element))
            ;
        assert_false(coney_value_iter_ok(&iter));
    }
}

/* Writing ---------------------------------------------------------------------------------------------------------- */

static const uint8_t sixteen[16] = {0};

static coney_value decimal_value(coney_bytes bytes)
{
    coney_value value = coney_value_bytes(CONEY_VALUE_DECIMAL, bytes);
    value.encoding = CONEY_ENCODING_AMQP091;
    return value;
}

static void B04_every_type_has_its_tag_or_is_refused_by_name(void **state)
{
    (void)state;
    const struct {
        coney_value value;
        const char *hex; /* NULL: refused */
    } rows[] = {
        {coney_value_null(), "'V'"},
        {coney_value_bool(true), "'t' 01"},
        {coney_value_i8(-1), "'b' ff"},
        {coney_value_i16(-2), "'s' fffe"},
        {coney_value_i32(-3), "'I' fffffffd"},
        {coney_value_i64(-4), "'l' fffffffffffffffc"},
        {coney_value_u8(200), "'B' c8"},
        {coney_value_u16(65535), "'u' ffff"},
        {coney_value_u32(4294967295), "'i' ffffffff"},
        {coney_value_u64(INT64_MAX), "'l' 7fffffffffffffff"},
        {coney_value_f32(1.5f), "'f' 3fc00000"},
        {coney_value_f64(-2.5), "'d' c004000000000000"},
        {coney_value_timestamp(1700000000999), "'T' 000000006553f100"},
        {coney_value_timestamp(-1), "'T' ffffffffffffffff"},
        {coney_value_string(CONEY_STR("hi")), "'S' 00000002 'hi'"},
        {coney_value_binary(CONEY_STR("hi")), "'x' 00000002 'hi'"},
        {decimal_value(CONEY_STR("\002\0\0\0\001")), "'D' 0200000001"},
        {decimal_value(CONEY_STR("\002\0\0\001")), NULL},
        {coney_value_bytes(CONEY_VALUE_DECIMAL, CONEY_STR("\002\0\0\0\001")), NULL},
        {coney_value_u64((uint64_t)INT64_MAX + 1), NULL},
        {coney_value_char('x'), NULL},
        {coney_value_symbol(CONEY_STR("x")), NULL},
        {coney_value_uuid(sixteen), NULL},
        {coney_value_bytes(CONEY_VALUE_LIST, CONEY_STR("")), NULL},
        {coney_value_bytes(CONEY_VALUE_ARRAY, CONEY_STR("")), NULL},
        {coney_value_bytes(CONEY_VALUE_DESCRIBED, CONEY_STR("")), NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_field field = {CONEY_STR("k"), rows[i].value};
        const char *fault;
        size_t size;
        coney_builder b;
        coney_value built;
        uint8_t memory[64];
        coney_builder_init_table(&b, memory, sizeof memory);
        coney_builder_begin(&b, CONEY_VALUE_MAP);
        coney_builder_put(&b, field.key, field.value);
        coney_builder_end(&b);
        if (rows[i].hex == NULL) {
            const char *name = coney_value_type_name(rows[i].value.type);
            assert_int_equal(amqp_table_size(&field, 1, &size, &fault), CONEY_EINVAL);
            assert_string_equal(fault, name);
            assert_int_equal(coney_builder_finish(&b, &built), CONEY_EINVAL);
            assert_string_equal(b.error, name);
            continue;
        }
        coney_bytes wanted = keep(bytes_of(rows[i].hex));
        assert_int_equal(amqp_table_size(&field, 1, &size, &fault), CONEY_OK);
        assert_int_equal(size, 2 + wanted.len);
        uint8_t *written = exact_room(size);
        assert_ptr_equal(amqp_table_write(written, &field, 1), written + size);
        assert_memory_equal(written + 2, wanted.data, wanted.len);
        coney_value again = amqp_table_value(written, size, 1);
        assert_int_equal(coney_value_check(&again), CONEY_OK);
        assert_int_equal(coney_builder_finish(&b, &built), CONEY_OK);
        assert_bytes(&built, CONEY_VALUE_MAP, written, size);
        free(written);
    }
}

static void C08_a_key_of_255_bytes_goes_and_one_of_256_is_refused(void **state)
{
    (void)state;
    static const char bytes[256];
    coney_field field = {coney_bytes_of(bytes, 255), coney_value_bool(true)};
    const char *fault;
    size_t size;
    assert_int_equal(amqp_table_size(&field, 1, &size, &fault), CONEY_OK);
    assert_int_equal(size, 258);
    assert_null(fault);
    field.key.len = 256;
    assert_int_equal(amqp_table_size(&field, 1, &size, &fault), CONEY_EINVAL);
    assert_string_equal(fault, "key");
    assert_int_equal(size, 0);

    uint8_t memory[512];
    coney_builder b;
    coney_value built;
    coney_builder_init_table(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_put(&b, field.key, coney_value_bool(true));
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &built), CONEY_EINVAL);
    assert_string_equal(b.error, "key");
}

static void B14_a_number_keeps_its_type_so_that_the_broker_takes_it(void **state)
{
    (void)state;
    const coney_field arguments[] = {
        {CONEY_STR("x-max-length"), coney_value_i64(10)},
        {CONEY_STR("x-message-ttl"), coney_value_u32(60000)},
        {CONEY_STR("x-queue-type"), coney_value_string(CONEY_STR("quorum"))},
    };
    const char *fault;
    size_t size;
    assert_int_equal(amqp_table_size(arguments, 3, &size, &fault), CONEY_OK);
    uint8_t *entries = exact_room(size);
    amqp_table_write(entries, arguments, 3);
    coney_bytes wanted = keep(bytes_of("0c'x-max-length' 'l' 000000000000000a 0d'x-message-ttl' 'i' 0000ea60 "
                                       "0c'x-queue-type' 'S' 00000006 'quorum'"));
    assert_int_equal(size, wanted.len);
    assert_memory_equal(entries, wanted.data, size);
    free(entries);
}

static void a_table_holds_tables_and_arrays_that_a_builder_made(void **state)
{
    (void)state;
    uint8_t memory[128];
    coney_builder b;
    coney_value built;
    coney_builder_init_table(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_put_begin(&b, CONEY_STR("list"), CONEY_VALUE_LIST);
    coney_builder_add(&b, coney_value_string(CONEY_STR("a")));
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_put(&b, CONEY_STR("b"), coney_value_i8(1));
    coney_builder_end(&b);
    coney_builder_end(&b);
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &built), CONEY_OK);
    coney_bytes wanted = keep(bytes_of("04'list' 'A' 0000000f 'S' 00000001 'a' 'F' 00000004 01'b' 'b' 01"));
    assert_bytes(&built, CONEY_VALUE_MAP, wanted.data, wanted.len);

    coney_field outer = {CONEY_STR("in"), built};
    const char *fault;
    size_t size;
    assert_int_equal(amqp_table_size(&outer, 1, &size, &fault), CONEY_OK);
    assert_int_equal(size, 3 + 5 + wanted.len);
    uint8_t *entries = exact_room(size);
    amqp_table_write(entries, &outer, 1);
    coney_value again = amqp_table_value(entries, size, 1);
    coney_value in = find(&again, "in");
    assert_bytes(&in, CONEY_VALUE_MAP, wanted.data, wanted.len);
    free(entries);
}

static void a_builder_of_a_table_refuses_what_no_table_is(void **state)
{
    (void)state;
    uint8_t memory[64];
    coney_builder b;
    coney_value built;
    coney_builder_init_table(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_LIST);
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &built), CONEY_EINVAL);

    coney_builder_init_table(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_put_symbol(&b, CONEY_STR("k"), coney_value_i8(1));
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &built), CONEY_EINVAL);
    assert_string_equal(b.error, "key");

    coney_builder_init_table(&b, memory, sizeof memory);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    coney_builder_add(&b, coney_value_i8(1));
    coney_builder_add(&b, coney_value_i8(1));
    coney_builder_end(&b);
    assert_int_equal(coney_builder_finish(&b, &built), CONEY_EINVAL);
    assert_int_equal(built.type, CONEY_VALUE_NULL);
}

static void a_builder_without_memory_tells_what_the_table_needs(void **state)
{
    (void)state;
    coney_value built;
    uint8_t memory[64];
    size_t needed = 0;
    for (int pass = 0; pass < 2; pass++) {
        coney_builder b;
        coney_builder_init_table(&b, pass == 0 ? NULL : memory, needed);
        coney_builder_begin(&b, CONEY_VALUE_MAP);
        coney_builder_put(&b, CONEY_STR("k"), coney_value_i64(1));
        coney_builder_end(&b);
        assert_int_equal(coney_builder_finish(&b, &built), pass == 0 ? CONEY_ETOOBIG : CONEY_OK);
        needed = b.needed;
    }
    assert_int_equal(built.as.bytes.len, 11);
}

static void amqplains_response_is_a_table_without_its_length(void **state)
{
    (void)state;
    const coney_field login[] = {
        {CONEY_STR("LOGIN"), coney_value_string(CONEY_STR("u"))},
        {CONEY_STR("PASSWORD"), coney_value_string(CONEY_STR("p"))},
    };
    uint8_t response[64];
    uint8_t *end = amqp_table_write(response, login, 2);
    coney_bytes wanted = keep(bytes_of("05'LOGIN' 'S' 00000001 'u' 08'PASSWORD' 'S' 00000001 'p'"));
    assert_int_equal(end - response, wanted.len);
    assert_memory_equal(response, wanted.data, wanted.len);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, clear_shelf)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_tag_is_read_as_its_type),
        TEST(a_time_beyond_what_milliseconds_hold_reads_as_the_nearest),
        TEST(B05_a_null_is_an_entry_and_an_element),
        TEST(B06_byte_arrays_stay_apart_from_strings),
        TEST(B09_a_signed_octet_is_minus_one_and_an_unsigned_one_255),
        TEST(B10_an_unknown_tag_is_refused_by_its_name),
        TEST(B12_a_measured_x_death_header_is_rebuilt_to_the_same_bytes),
        TEST(B13_equal_keys_and_an_empty_key_stay_and_the_first_counts),
        TEST(A20_empty_tables_arrays_and_strings_are_empty_values),
        TEST(A09_a_length_beyond_the_bytes_is_refused),
        TEST(a_table_cut_anywhere_is_refused_or_ends_at_an_entry),
        TEST(A08_nesting_is_read_to_its_limit_and_refused_beyond),
        TEST(a_forged_value_is_refused_and_its_walk_stops),
        TEST(B04_every_type_has_its_tag_or_is_refused_by_name),
        TEST(C08_a_key_of_255_bytes_goes_and_one_of_256_is_refused),
        TEST(B14_a_number_keeps_its_type_so_that_the_broker_takes_it),
        TEST(a_table_holds_tables_and_arrays_that_a_builder_made),
        TEST(a_builder_of_a_table_refuses_what_no_table_is),
        TEST(a_builder_without_memory_tells_what_the_table_needs),
        TEST(amqplains_response_is_a_table_without_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
