/* view_test.c: reading what the broker and the other clients write, and what has been damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/amqp10/body.h"
#include "proto/amqp10/expect.h"

#define V5 "005372 c118 02 a313'x-dotnet-pub-seq-no' 5505 005375 a001 78"
#define V6 "005374 c10c 04 a10161 51fe a103657461 40 005375 a001 78"
#define V7 "005374 c112 02 a1036b6579 a10ae58d88e5be8c31313a31 005375 a00a 6d795f6d657373616765"
#define V8 "005372 c116 02 a307782d6465617468 d0 00000007 00000001 a10171 005375 a001 78"
#define V9 "005373 c013 0a 404040404040404040 83 ffffffffffffffff 005375 a001 78"

/* "hello" published by AMQP 0-9-1 to the default exchange with the routing key "wire-i", as the broker stores it. */
#define FROM_AMQP091                                                                                                           \
    "005370 c006 05 42 40 40 41 43 005372 c126 04 a30d'x-routing-key' a106'wire-i' a30a'x-exchange' a100 005375 a005'hello'"

#define ALL_PROPERTIES                                                                                                         \
    "005373 c054 0d 5307 a001'u' a102'to' a103'sub' a105'reply' 98 00112233445566778899aabbccddeeff a30a'text/plain' "         \
    "a304'gzip' 83 0000018bcfe56800 83 0000000000000001 a101'g' 5209 a102'rg'"

static void what_the_broker_stores_for_amqp_0_9_1_is_read(void **state)
{
    (void)state;
    coney_message_view view = parse(FROM_AMQP091);
    coney_message_header header;
    coney_message_properties properties;
    coney_value key, exchange;
    assert_body(&view, "hello");
    assert_true(coney_message_get_header(&view, &header));
    assert_int_equal(header.durable.type, CONEY_VALUE_BOOL);
    assert_false(header.durable.as.boolean);
    assert_int_equal(header.priority.type, CONEY_VALUE_NULL);
    assert_true(header.first_acquirer.as.boolean);
    assert_int_equal(header.delivery_count.type, CONEY_VALUE_U32);
    assert_false(coney_message_get_properties(&view, &properties));
    assert_null(properties.subject.data);
    assert_true(coney_value_find(&view.message_annotations, CONEY_STR("x-routing-key"), &key));
    assert_text(key.as.bytes, "wire-i");
    assert_true(coney_value_find(&view.message_annotations, CONEY_STR("x-exchange"), &exchange));
    assert_text(exchange.as.bytes, "");
    hex_free(view.encoded);
}

static void all_properties_are_read_back(void **state)
{
    (void)state;
    coney_message_view view = parse(ALL_PROPERTIES " 005375 a000");
    coney_message_properties p;
    assert_true(coney_message_get_properties(&view, &p));
    assert_int_equal(p.message_id.as.u64, 7);
    assert_text(p.user_id, "u");
    assert_text(p.to, "to");
    assert_text(p.subject, "sub");
    assert_text(p.reply_to, "reply");
    assert_int_equal(p.correlation_id.type, CONEY_VALUE_UUID);
    assert_text(p.content_type, "text/plain");
    assert_text(p.content_encoding, "gzip");
    assert_int_equal(p.absolute_expiry_time.as.i64, 1700000000000);
    assert_int_equal(p.creation_time.as.i64, 1);
    assert_text(p.group_id, "g");
    assert_int_equal(p.group_sequence.as.u64, 9);
    assert_text(p.reply_to_group_id, "rg");
    hex_free(view.encoded);
}

/* The same message as each emitter lays it out: subject "s", application property n = 1, body "x". */
static void the_layout_of_every_known_emitter_is_read(void **state)
{
    (void)state;
    const char *const emitters[] = {
        /* the broker: by size, trailing nulls cut, booleans with a byte */
        "005373 c007 04 404040 a10173 005374 c10b 04 a1016e 5501 a10162 5601 005375 a00178",
        /* Java: long list, short map */
        "005373 d0 0000000a 00000004 404040 a10173 005374 c106 02 a1016e 5501 005375 a00178",
        /* Go: long list with all fields, group-sequence always, long map, long integer */
        "005373 d0 00000013 0000000d 404040 a10173 40404040404040 43 40 "
        "005374 d1 00000010 00000002 a1016e 81 0000000000000001 005375 b0 00000001 78",
        /* Rust: short list with all fields */
        "005373 c010 0d 404040 a10173 404040404040404040 005374 c106 02 a1016e 5501 005375 a00178",
        /* descriptors in their other forms */
        "0080 0000000000000073 c007 04 404040 a10173 00a31f'amqp:application-properties:map' c106 02 a1016e 5501 "
        "00b3 00000010'amqp:data:binary' a00178",
        /* text types exchanged */
        "005373 c007 04 404040 a30173 005374 c106 02 a3016e 5501 005375 a00178",
    };
    for (size_t i = 0; i < sizeof emitters / sizeof *emitters; i++) {
        coney_message_view view = parse(emitters[i]);
        coney_message_properties properties;
        coney_value n;
        assert_body(&view, "x");
        assert_true(coney_message_get_properties(&view, &properties));
        assert_text(properties.subject, "s");
        assert_true(coney_value_find(&view.application_properties, CONEY_STR("n"), &n));
        assert_int_equal(n.type, CONEY_VALUE_I64);
        assert_int_equal(n.as.i64, 1);
        hex_free(view.encoded);
    }
}

static void every_section_is_known_by_its_symbol(void **state)
{
    (void)state;
    coney_message_view view =
        parse("00a310'amqp:header:list' 45 00a31d'amqp:delivery-annotations:map' c10100 00a31c'amqp:message-annotations:map' "
              "c10100 00a314'amqp:properties:list' 45 00a31f'amqp:application-properties:map' c10100 "
              "00a311'amqp:amqp-value:*' 41 00a30f'amqp:footer:map' c10100");
    assert_int_equal(view.body_kind, CONEY_BODY_VALUE);
    assert_int_equal(view.footer.type, CONEY_VALUE_MAP);
    assert_int_equal(view.delivery_annotations.type, CONEY_VALUE_MAP);
    hex_free(view.encoded);
    view = parse("00a317'amqp:amqp-sequence:list' 45");
    assert_int_equal(view.body_kind, CONEY_BODY_SEQUENCE);
    hex_free(view.encoded);
    assert_corrupt_hex("00a310'amqp:footer:list' 45", "section descriptor");
}

static void damage_is_named(void **state)
{
    (void)state;
    assert_corrupt_hex("'hello'", "section descriptor");
    assert_corrupt_hex("00", "section descriptor");
    assert_corrupt_hex("005379 45", "section descriptor");
    assert_corrupt_hex("00536f 45", "section descriptor");
    assert_corrupt_hex("005375 a10178", "data section");
    assert_corrupt_hex("005370 c10100", "header");
    assert_corrupt_hex("005370 c007 06 404040404040 005375 a000", "header");
    assert_corrupt_hex("005370 c002 01 40 005373 c003 01 5601", "properties.message_id");
    assert_corrupt_hex("005370 c003 01 5001", "header.durable");
    assert_corrupt_hex("005373 c00c 0a 404040404040404040 5501", "properties.creation_time");
    assert_corrupt_hex("005374 c107 04 a10161 40 a1", "application_properties");
    assert_corrupt_hex("005377 e008 03 e0 020140 020053", "amqp-value section"); /* an array of three with two */
    /* a short list whose size and count take four bytes each, as one client writes long properties */
    assert_corrupt_hex("005373 c0 0000000a 00000004 404040 a10173 005375 a000", "properties");
}

static void every_message_cut_short_is_refused_or_is_its_first_sections(void **state)
{
    (void)state;
    const char *const vectors[] = {V5, V6, V7, V8, V9, FROM_AMQP091, ALL_PROPERTIES " 005375 a00178 005378 c10100"};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        coney_bytes whole = hex(vectors[i]);
        size_t readable = 0;
        for (size_t len = 0; len <= whole.len; len++) {
            coney_bytes part = hex_copy(whole.data, len), body;
            coney_message_view view;
            coney_status status = coney_message_parse(part, &view);
            assert_true(status == CONEY_OK ? view.error == NULL : view.error != NULL);
            assert_int_equal(amqp10_body_find(part, &body) != CONEY_BODY_UNREADABLE, status == CONEY_OK);
            if (status == CONEY_OK) {
                visit_message(&view);
                readable++;
            }
            hex_free(part);
        }
        assert_in_range(readable, 3, 4); /* nothing, then after each section */
        hex_free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_broker_stores_for_amqp_0_9_1_is_read),
        cmocka_unit_test(all_properties_are_read_back),
        cmocka_unit_test(the_layout_of_every_known_emitter_is_read),
        cmocka_unit_test(every_section_is_known_by_its_symbol),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(every_message_cut_short_is_refused_or_is_its_first_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
