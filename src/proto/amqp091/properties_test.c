#include "proto/amqp091/properties.h"
#include "proto/amqp091/table.h"
#include "proto/amqp091/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char everything[] =
    "fffc 0a'text/plain' 04'gzip' 00000007 01'a' 'I' 00000005 02 09 02'id' 05'reply' 05'60000' 03'm-1' "
    "000000006553f100 05'order' 05'guest' 03'app' 07'cluster'";

/* What amqp_properties_write gives, in memory of exactly the size that was counted. */
static coney_bytes encoded(const struct amqp_properties *p)
{
    size_t size;
    const char *field;
    assert_int_equal(amqp_properties_size(p, &size, &field), CONEY_OK);
    assert_null(field);
    uint8_t *room = exact_room(size);
    assert_ptr_equal(amqp_properties_write(room, p), room + size);
    return coney_bytes_of(room, size);
}

static void assert_encodes_to(const struct amqp_properties *p, const char *hex)
{
    coney_bytes wanted = bytes_of(hex);
    coney_bytes written = encoded(p);
    assert_int_equal(written.len, wanted.len);
    assert_memory_equal(written.data, wanted.data, wanted.len);
    release(written);
    release(wanted);
}

static void assert_fault(const char *hex, const char *fault)
{
    struct amqp_properties p;
    coney_bytes bytes = bytes_of(hex);
    const char *field = amqp_properties_read(bytes, &p);
    assert_non_null(field);
    assert_string_equal(field, fault);
    release(bytes);
}

static void assert_text(coney_bytes bytes, const char *wanted)
{
    assert_int_equal(bytes.len, strlen(wanted));
    assert_memory_equal(bytes.data, wanted, bytes.len);
}

static void every_property_is_read_into_its_own_place(void **state)
{
    (void)state;
    struct amqp_properties p;
    coney_bytes bytes = bytes_of(everything);
    assert_null(amqp_properties_read(bytes, &p));
    assert_int_equal(p.flags, 0xfffc);
    assert_text(p.content_type, "text/plain");
    assert_text(p.content_encoding, "gzip");
    assert_int_equal(p.delivery_mode, AMQP_PERSISTENT);
    assert_int_equal(p.priority, 9);
    assert_text(p.correlation_id, "id");
    assert_text(p.reply_to, "reply");
    assert_text(p.expiration, "60000");
    assert_text(p.message_id, "m-1");
    assert_true(p.timestamp == 1700000000);
    assert_text(p.type, "order");
    assert_text(p.user_id, "guest");
    assert_text(p.app_id, "app");
    assert_text(p.cluster_id, "cluster");
    coney_value number;
    assert_true(coney_value_find(&p.headers, CONEY_STR("a"), &number));
    assert_int_equal(number.as.i64, 5);
    assert_encodes_to(&p, everything);
    release(bytes);
}

static void each_property_alone_is_read_and_written(void **state)
{
    (void)state;
    static const char *const alone[] = {
        "8000 01'x'", "4000 01'x'", "2000 00000000", "1000 01",    "0800 00",
        "0400 01'x'", "0200 01'x'", "0100 01'0'",    "0080 01'x'", "0040 0000000000000001",
        "0020 01'x'", "0010 01'x'", "0008 01'x'",    "0004 01'x'", "0000",
    };
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        struct amqp_properties p;
        coney_bytes bytes = bytes_of(alone[i]);
        assert_null(amqp_properties_read(bytes, &p));
        assert_int_equal(p.flags, i < 14 ? 0x8000 >> i : 0);
        assert_encodes_to(&p, alone[i]);
        release(bytes);
    }
}

static void properties_cut_anywhere_are_refused_with_a_name(void **state)
{
    (void)state;
    coney_bytes whole = bytes_of(everything);
    for (size_t len = 0; len < whole.len; len++) {
        struct amqp_properties p;
        coney_bytes cut = exact_copy(whole.data, len);
        assert_non_null(amqp_properties_read(cut, &p));
        release(cut);
    }
    release(whole);
}

static void each_fault_names_its_property(void **state)
{
    (void)state;
    assert_fault("00", "flags");
    assert_fault("0001 0000", "flags");
    assert_fault("0400 ff 'ab'", "correlation_id");
    assert_fault("1000", "delivery_mode");
    assert_fault("0040 00000000", "timestamp");
    assert_fault("2000 00000008 01'a' 'I' 00000005", "headers");
    assert_fault("0000 00", "properties.end");
}

static void B10_an_unknown_tag_in_the_headers_is_named(void **state)
{
    (void)state;
    assert_fault("2000 00000003 01'a' 'Z'", "table tag 0x5a");
}

static void A20_an_empty_correlation_id_and_an_empty_table_are_there_and_empty(void **state)
{
    (void)state;
    struct amqp_properties p;
    coney_bytes bytes = bytes_of("2400 00000000 00");
    assert_null(amqp_properties_read(bytes, &p));
    assert_int_equal(p.flags, AMQP_HEADERS | AMQP_CORRELATION_ID);
    assert_int_equal(p.correlation_id.len, 0);
    assert_int_equal(p.headers.type, CONEY_VALUE_MAP);
    assert_int_equal(p.headers.count, 0);
    assert_encodes_to(&p, "2400 00000000 00");
    release(bytes);
}

static void the_bit_without_a_meaning_is_passed_over(void **state)
{
    (void)state;
    struct amqp_properties p;
    coney_bytes bytes = bytes_of("1002 02");
    assert_null(amqp_properties_read(bytes, &p));
    assert_encodes_to(&p, "1000 02");
    release(bytes);
}

static void headers_are_what_was_encoded_and_the_fields_behind(void **state)
{
    (void)state;
    const coney_field fields[] = {{CONEY_STR("b"), coney_value_bool(true)}, {CONEY_STR("c"), coney_value_null()}};
    struct amqp_properties p = {.flags = AMQP_HEADERS, .fields = fields, .field_count = 2};
    assert_encodes_to(&p, "2000 00000007 01'b' 't' 01 01'c' 'V'");
    p.headers = amqp_table_value("\001aI\0\0\0\005", 7, 1);
    assert_encodes_to(&p, "2000 0000000e 01'a' 'I' 00000005 01'b' 't' 01 01'c' 'V'");
}

static void assert_refused(const struct amqp_properties *p, const char *fault)
{
    size_t size = 1;
    const char *field;
    assert_int_equal(amqp_properties_size(p, &size, &field), CONEY_EINVAL);
    assert_string_equal(field, fault);
    assert_int_equal(size, 0);
}

static void C08_a_property_of_255_bytes_goes_and_one_of_256_is_refused_by_name(void **state)
{
    (void)state;
    static const char bytes[256];
    struct amqp_properties p = {.flags = AMQP_CORRELATION_ID, .correlation_id = {bytes, 255}};
    release(encoded(&p));
    p.correlation_id.len = 256;
    assert_refused(&p, "correlation_id");
    assert_refused(&(struct amqp_properties){.flags = AMQP_USER_ID, .user_id = {bytes, 256}}, "user_id");
    static char digits[256];
    memset(digits, '1', sizeof digits);
    assert_refused(&(struct amqp_properties){.flags = AMQP_EXPIRATION, .expiration = {digits, 256}}, "expiration");
}

static void headers_that_have_no_form_are_refused_by_name(void **state)
{
    (void)state;
    coney_field field = {CONEY_STR("k"), coney_value_symbol(CONEY_STR("x"))};
    struct amqp_properties p = {.flags = AMQP_HEADERS, .fields = &field, .field_count = 1};
    assert_refused(&p, "symbol");
    p = (struct amqp_properties){.flags = AMQP_HEADERS, .headers = coney_value_i64(1)};
    assert_refused(&p, "headers");
}

static void C10_an_expiration_is_whole_milliseconds_in_digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t ms;
        const char *digits;
    } rows[] = {
        {0, "0"}, {9, "9"}, {10, "10"}, {60000, "60000"}, {99999999999, "99999999999"}, {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char room[AMQP_EXPIRATION_MAX];
        assert_text(amqp_expiration_write(room, rows[i].ms), rows[i].digits);
    }
    static const char *const wrong[] = {"", "abc", "-1", "1.5", " 1", "1 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(&(struct amqp_properties){.flags = AMQP_EXPIRATION, .expiration = text(wrong[i])}, "expiration");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_property_is_read_into_its_own_place),
        cmocka_unit_test(each_property_alone_is_read_and_written),
        cmocka_unit_test(properties_cut_anywhere_are_refused_with_a_name),
        cmocka_unit_test(each_fault_names_its_property),
        cmocka_unit_test(B10_an_unknown_tag_in_the_headers_is_named),
        cmocka_unit_test(A20_an_empty_correlation_id_and_an_empty_table_are_there_and_empty),
        cmocka_unit_test(the_bit_without_a_meaning_is_passed_over),
        cmocka_unit_test(headers_are_what_was_encoded_and_the_fields_behind),
        cmocka_unit_test(C08_a_property_of_255_bytes_goes_and_one_of_256_is_refused_by_name),
        cmocka_unit_test(headers_that_have_no_form_are_refused_by_name),
        cmocka_unit_test(C10_an_expiration_is_whole_milliseconds_in_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
