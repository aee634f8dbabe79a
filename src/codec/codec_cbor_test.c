/* CBOR: the examples of RFC 8949, and exact faults. */
#define _GNU_SOURCE
#include "codec/codec_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static coney_arena *arena;

static int make_arena(void **state)
{
    (void)state;
    arena = coney_arena_new();
    return arena == NULL;
}

static int free_arena(void **state)
{
    (void)state;
    coney_arena_free(&arena);
    return 0;
}

static coney_status decode(coney_bytes body, const coney_type *type, void *out, coney_fault *fault)
{
    void *copy = malloc(body.len > 0 ? body.len : 1);
    assert_non_null(copy);
    memcpy(copy, body.data, body.len);
    memset(fault, 0, sizeof *fault);
    coney_status status = coney_decode(coney_cbor(), coney_bytes_of(copy, body.len), type, out, arena, fault);
    free(copy);
    return status;
}

/* {"x": item}, decoded into optionals whose member x it is. */
static optionals read_one(const char *member, coney_bytes item)
{
    uint8_t body[256] = {0xa1, (uint8_t)(0x60 | strlen(member))};
    optionals o;
    coney_fault fault;
    memcpy(body + 2, member, strlen(member));
    memcpy(body + 2 + strlen(member), item.data, item.len);
    if (decode(coney_bytes_of(body, 2 + strlen(member) + item.len), optionals_type(), &o, &fault) != CONEY_OK)
        fail_msg("%s: %s", member, fault.text);
    return o;
}

static void assert_text(coney_bytes text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.data, expected, text.len);
}

static void the_integers_of_the_rfc_are_read(void **state)
{
    (void)state;
    const struct {
        coney_bytes item;
        uint64_t number;
    } rows[] = {
        {CONEY_STR("\x00"), 0},
        {CONEY_STR("\x17"), 23},
        {CONEY_STR("\x18\x18"), 24},
        {CONEY_STR("\x19\x03\xe8"), 1000},
        {CONEY_STR("\x1a\x00\x0f\x42\x40"), 1000000},
        {CONEY_STR("\x1b\x00\x00\x00\xe8\xd4\xa5\x10\x00"), 1000000000000},
        {CONEY_STR("\x1b\xff\xff\xff\xff\xff\xff\xff\xff"), UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(read_one("b64", rows[i].item).b64.value == rows[i].number);
    assert_true(read_one("a64", CONEY_STR("\x20")).a64.value == -1);
    assert_true(read_one("a64", CONEY_STR("\x38\x63")).a64.value == -100);
    assert_true(read_one("a64", CONEY_STR("\x39\x03\xe7")).a64.value == -1000);
    assert_true(read_one("a64", CONEY_STR("\x3b\x7f\xff\xff\xff\xff\xff\xff\xff")).a64.value == INT64_MIN);
}

static void the_floats_of_the_rfc_are_read(void **state)
{
    (void)state;
    assert_true(read_one("c64", CONEY_STR("\xf9\x3c\x00")).c64.value == 1.0);
    assert_true(read_one("c64", CONEY_STR("\xf9\x7b\xff")).c64.value == 65504.0);
    assert_true(read_one("c64", CONEY_STR("\xfa\x47\xc3\x50\x00")).c64.value == 100000.0);
    assert_true(read_one("c64", CONEY_STR("\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a")).c64.value == 1.1);
    assert_true(isinf(read_one("c64", CONEY_STR("\xf9\x7c\x00")).c64.value));
    assert_true(isnan(read_one("c32", CONEY_STR("\xf9\x7e\x00")).c32.value));
    assert_true(read_one("c64", CONEY_STR("\x3b\xff\xff\xff\xff\xff\xff\xff\xff")).c64.value == -18446744073709551616.0);
    assert_true(read_one("c32", CONEY_STR("\x18\x64")).c32.value == 100);
}

static void texts_and_binary_in_pieces_become_one(void **state)
{
    (void)state;
    optionals o = read_one("blob", CONEY_STR("\x5f\x42\x01\x02\x40\x43\x03\x04\x05\xff"));
    assert_int_equal(o.blob.value.len, 5);
    assert_memory_equal(o.blob.value.data, "\1\2\3\4\5", 5);
    assert_text(read_one("text", CONEY_STR("\x7f\x65strea\x64ming\xff")).text.value, "streaming");
    assert_text(read_one("text", CONEY_STR("\x7f\xff")).text.value, "");
    assert_text(read_one("text", CONEY_STR("\x64\xf0\x90\x85\x91")).text.value, "\xf0\x90\x85\x91");
    assert_int_equal(read_one("text", CONEY_STR("\x63"
                                                "a\0b"))
                         .text.value.len,
                     3);
}

static void lists_and_maps_of_unsaid_length_end_where_they_say(void **state)
{
    (void)state;
    lists l;
    coney_fault fault;
    assert_int_equal(decode(CONEY_STR("\xbf\x62"
                                      "a8\x9f\x01\x20\xff\x61x\xbf\x61y\x9f\xff\xff\x65"
                                      "first\x9f\xbf\x63sku\x61s\xff\xff\xff"),
                            lists_type(), &l, &fault),
                     CONEY_OK);
    assert_int_equal(l.a8.count, 2);
    assert_int_equal(l.a8.items[1], -1);
    assert_text(l.first.items[0].sku, "s");
    maps m;
    assert_int_equal(decode(CONEY_STR("\xa1\x62"
                                      "b8\xbf\x61k\x01\x7f\x61l\xff\x02\xff"),
                            maps_type(), &m, &fault),
                     CONEY_OK);
    assert_text(m.b8.items[1].key, "l");
    assert_int_equal(m.b8.items[1].value, 2);
}

static void times_are_tagged_as_text_or_seconds(void **state)
{
    (void)state;
    assert_true(read_one("at", CONEY_STR("\xc0\x74"
                                         "2013-03-21T20:04:00Z"))
                    .at.value == 1363896240000);
    assert_true(read_one("at", CONEY_STR("\xc1\x1a\x51\x4b\x67\xb0")).at.value == 1363896240000);
    assert_true(read_one("at", CONEY_STR("\xc1\xfb\x41\xd4\x52\xd9\xec\x20\x00\x00")).at.value == 1363896240500);
    assert_true(read_one("at", CONEY_STR("\xc1\x20")).at.value == -1000);
}

static void other_tags_and_null_are_passed_over(void **state)
{
    (void)state;
    assert_true(read_one("b8", CONEY_STR("\xd9\xd9\xf7\xc2\x07")).b8.value == 7);
    assert_true(read_one("at", CONEY_STR("\xd9\xd9\xf7\xc1\x00")).at.present);
    assert_true(read_one("b8", CONEY_STR("\xc6\xd4\xd7\xd8\x20\x07")).b8.value == 7);
    assert_false(read_one("b8", CONEY_STR("\xf6")).b8.present);
    assert_false(read_one("b8", CONEY_STR("\xf7")).b8.present);
    assert_false(read_one("any", CONEY_STR("\xf6")).any.present);
    assert_false(read_one("any", CONEY_STR("\xc2\xf6")).any.present);
    assert_int_equal(read_one("any", CONEY_STR("\xc1\x9f\x01\x5f\x41\x00\xff\xff")).any.value.len, 8);
}

static void what_is_written_is_as_short_as_the_rfc_has_it(void **state)
{
    (void)state;
    const struct {
        optionals value;
        coney_bytes bytes;
    } rows[] = {
        {{.yes = {false, false}}, CONEY_STR("\xa0")},
        {{.yes = {true, true}}, CONEY_STR("\xa1\x63yes\xf5")},
        {{.b64 = {true, 23}},
         CONEY_STR("\xa1\x63"
                   "b64\x17")},
        {{.b64 = {true, 1000000}},
         CONEY_STR("\xa1\x63"
                   "b64\x1a\x00\x0f\x42\x40")},
        {{.a64 = {true, -1000}},
         CONEY_STR("\xa1\x63"
                   "a64\x39\x03\xe7")},
        {{.c32 = {true, 100000}},
         CONEY_STR("\xa1\x63"
                   "c32\xfa\x47\xc3\x50\x00")},
        {{.c64 = {true, 1.1}},
         CONEY_STR("\xa1\x63"
                   "c64\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a")},
        {{.text = {true, CONEY_STR("\xc3\xbc")}}, CONEY_STR("\xa1\x64text\x62\xc3\xbc")},
        {{.blob = {true, CONEY_STR("\1\2\3\4")}},
         CONEY_STR("\xa1\x64"
                   "blob\x44\1\2\3\4")},
        {{.at = {true, 1363896240000}},
         CONEY_STR("\xa1\x62"
                   "at\xc1\x1a\x51\x4b\x67\xb0")},
        {{.at = {true, 1363896240500}},
         CONEY_STR("\xa1\x62"
                   "at\xc1\xfb\x41\xd4\x52\xd9\xec\x20\x00\x00")},
        {{.status = {true, PHASE_NEW}}, CONEY_STR("\xa1\x66status\x63new")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_sink sink = {0};
        assert_int_equal(coney_encode(coney_cbor(), optionals_type(), &rows[i].value, &sink, NULL, NULL), CONEY_OK);
        assert_int_equal(sink.len, rows[i].bytes.len);
        assert_memory_equal(sink.data, rows[i].bytes.data, sink.len);
        coney_sink_free(&sink);
    }
}

static void what_is_wrong_is_said_with_its_path(void **state)
{
    (void)state;
    const struct {
        coney_bytes body;
        const char *text;
    } rows[] = {
        {CONEY_STR(""), "not CBOR: it ends too early at byte 0"},
        {CONEY_STR("\x80"), "a list where an object line is expected"},
        {CONEY_STR("\xff"), "not CBOR: an end of what has not begun at byte 1"},
        {CONEY_STR("\xa1\x63sku"), "sku: not CBOR: it ends too early at byte 5"},
        {CONEY_STR("\xa1\x63sk"), "not CBOR: it ends too early at byte 1"},
        {CONEY_STR("\xa1\x63sku\x61"), "sku: not CBOR: it ends too early at byte 5"},
        {CONEY_STR("\xa1\x63sku\x1c"), "sku: not CBOR: an unknown item at byte 5"},
        {CONEY_STR("\xa1\x63sku\x61s\x00"), "not CBOR: there is more after the value at byte 7"},
        {CONEY_STR("\xbf\x63sku\x61s"), "not CBOR: it ends too early at byte 7"},
        {CONEY_STR("\xbf\x63sku\xff"), "sku: not CBOR: an end of what has not begun at byte 6"},
        {CONEY_STR("\xa1\x01\x02"), "a key that is no text"},
        {CONEY_STR("\xa1\x63sku\x61\xff"), "sku: a text that is not UTF-8"},
        {CONEY_STR("\xa1\x63sku\x7f\x41x\xff"), "sku: not CBOR: a piece of another type at byte 8"},
        {CONEY_STR("\xa1\x63sku\x7f\xc6\x61x\xff"), "sku: not CBOR: a piece of another type at byte 9"},
        {CONEY_STR("\xa1\x63sku\x7f\xc6\xff"), "sku: not CBOR: a piece of another type at byte 8"},
        {CONEY_STR("\xa1\x63sku\x7f\x61x"), "sku: not CBOR: it ends too early at byte 8"},
        {CONEY_STR("\xa1\x63sku\x41x"), "sku: binary of 1 bytes where string is expected"},
        {CONEY_STR("\xa0"), "sku: nothing where string is required"},
        {CONEY_STR("\xa1\x63sku\xf6"), "sku: null where string is required"},
        {CONEY_STR("\xa2\x63sku\x61s\x63sku\x61s"), "sku: the same field twice"},
        {CONEY_STR("\xa1\x66"
                   "colour\x00"),
         "colour: line has no such field, and is strict"},
        {CONEY_STR("\xa2\x63sku\x61s\x68quantity\x1a\x00\x01\x11\x70"), "quantity: 70000 does not fit u16"},
        {CONEY_STR("\xa2\x63sku\x61s\x68quantity\x3b\xff\xff\xff\xff\xff\xff\xff\xff"),
         "quantity: -18446744073709551616 does not fit u16"},
        {CONEY_STR("\xa2\x63sku\x61s\x68quantity\xf9\x3c\x00"), "quantity: the number 1.0 where u16 is expected"},
        {CONEY_STR("\xa2\x63sku\x61s\x68quantity\xc1\x00"), "quantity: a time where u16 is expected"},
        {CONEY_STR("\xa2\x63sku\x61s\x68quantity\xc1\x61x"), "quantity: tag 1 on what is no time"},
        {CONEY_STR("\xa2\x63sku\x61s\x68quantity\xc0\x61x"), "quantity: tag 0 on what is no time"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        line l;
        coney_fault fault;
        coney_status status = decode(rows[i].body, line_type(), &l, &fault);
        if (status != CONEY_ECORRUPT || strcmp(fault.text, rows[i].text) != 0)
            fail_msg("row %zu: status %d, \"%s\"", i, status, fault.text);
        assert_null(l.sku.data);
    }
}

/* What claims 2^32 or 2^64 elements costs no more than the few that are there. */
static void counts_that_are_only_claimed_take_no_memory(void **state)
{
    (void)state;
    const coney_bytes rows[] = {
        CONEY_STR("\xa1\x62"
                  "a8\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        CONEY_STR("\xa1\x62"
                  "a8\x9a\xff\xff\xff\xff\x01"),
        CONEY_STR("\xa1\x64text\x9a\xff\xff\xff\xff\x7b\xff\xff\xff\xff\xff\xff\xff\xff"),
        CONEY_STR("\xa1\x64"
                  "blob\x9a\xff\xff\xff\xff\x5a\xff\xff\xff\xff"),
        CONEY_STR("\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x61x\x01"),
        CONEY_STR("\xa1\x61x\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lists l;
        coney_fault fault;
        assert_int_equal(decode(rows[i], lists_type(), &l, &fault), CONEY_ECORRUPT);
        assert_non_null(strstr(fault.text, "it ends too early"));
    }
}

static void what_is_passed_over_must_be_whole_too(void **state)
{
    (void)state;
    const coney_bytes rows[] = {CONEY_STR("\xa1\x61x"),
                                CONEY_STR("\xa1\x61x\x9f\x01"),
                                CONEY_STR("\xa1\x61x\x5f\x41"),
                                CONEY_STR("\xa1\x61x\xff"),
                                CONEY_STR("\xa1\x61x\xbf\x01\xff"),
                                CONEY_STR("\xa1\x61x\xc2"),
                                CONEY_STR("\xa1\x61x\x81\x1c"),
                                CONEY_STR("\xa1\x63"
                                          "any\x9f\x01"),
                                CONEY_STR("\xa1\xc2")};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        optionals o;
        coney_fault fault;
        assert_int_equal(decode(rows[i], optionals_type(), &o, &fault), CONEY_ECORRUPT);
        assert_non_null(strstr(fault.text, "not CBOR: "));
    }
}

static void nesting_ends_at_64_wanted_or_not(void **state)
{
    (void)state;
    static uint8_t body[10010] = {0xa1, 0x61, 'x'};
    lists l;
    coney_fault fault;
    memset(body + 3, 0x81, 10000);
    body[3 + 62] = 0x80;
    assert_int_equal(decode(coney_bytes_of(body, 3 + 63), lists_type(), &l, &fault), CONEY_OK);
    body[3 + 62] = 0x81;
    body[3 + 63] = 0x80;
    assert_int_equal(decode(coney_bytes_of(body, 3 + 64), lists_type(), &l, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "nested deeper than 64");
    body[3 + 63] = 0x9f;
    assert_int_equal(decode(coney_bytes_of(body, sizeof body), lists_type(), &l, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "nested deeper than 64");
    memset(body + 3, 0xc2, 10000);
    body[10003] = 0;
    assert_int_equal(decode(coney_bytes_of(body, 10004), lists_type(), &l, &fault), CONEY_OK);
}

static void a_time_that_cannot_be_told_is_refused(void **state)
{
    (void)state;
    optionals o = {.at = {true, (INT64_C(1) << 60) + 1}};
    coney_sink sink = {0};
    coney_fault fault;
    assert_int_equal(coney_encode(coney_cbor(), optionals_type(), &o, &sink, NULL, &fault), CONEY_EINVAL);
    assert_string_equal(fault.text, "at: a time too far away to be told to the millisecond");
    coney_sink_free(&sink);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_integers_of_the_rfc_are_read),
        cmocka_unit_test(the_floats_of_the_rfc_are_read),
        cmocka_unit_test(texts_and_binary_in_pieces_become_one),
        cmocka_unit_test(lists_and_maps_of_unsaid_length_end_where_they_say),
        cmocka_unit_test(times_are_tagged_as_text_or_seconds),
        cmocka_unit_test(other_tags_and_null_are_passed_over),
        cmocka_unit_test(what_is_written_is_as_short_as_the_rfc_has_it),
        cmocka_unit_test(what_is_wrong_is_said_with_its_path),
        cmocka_unit_test(counts_that_are_only_claimed_take_no_memory),
        cmocka_unit_test(what_is_passed_over_must_be_whole_too),
        cmocka_unit_test(nesting_ends_at_64_wanted_or_not),
        cmocka_unit_test(a_time_that_cannot_be_told_is_refused),
    };
    if (!codec_is_here(coney_cbor()))
        return 77; /* skipped */
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
