/* MessagePack: the forms of its specification, and exact faults. */
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
    coney_status status = coney_decode(coney_msgpack(), coney_bytes_of(copy, body.len), type, out, arena, fault);
    free(copy);
    return status;
}

/* {"x": item}, decoded into optionals whose member x it is. */
static optionals read_one(const char *member, coney_bytes item)
{
    uint8_t body[256] = {0x81, (uint8_t)(0xa0 | strlen(member))};
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

static void every_form_of_a_number_is_read(void **state)
{
    (void)state;
    const struct {
        coney_bytes item;
        int64_t number;
    } rows[] = {
        {CONEY_STR("\x00"), 0},
        {CONEY_STR("\x7f"), 127},
        {CONEY_STR("\xff"), -1},
        {CONEY_STR("\xe0"), -32},
        {CONEY_STR("\xcc\x05"), 5},
        {CONEY_STR("\xcd\x01\x00"), 256},
        {CONEY_STR("\xce\x00\x01\x00\x00"), 65536},
        {CONEY_STR("\xcf\x00\x00\x00\x01\x00\x00\x00\x00"), INT64_C(1) << 32},
        {CONEY_STR("\xd0\x80"), -128},
        {CONEY_STR("\xd1\x80\x00"), INT16_MIN},
        {CONEY_STR("\xd2\x80\x00\x00\x00"), INT32_MIN},
        {CONEY_STR("\xd3\x80\x00\x00\x00\x00\x00\x00\x00"), INT64_MIN},
        {CONEY_STR("\xd3\x00\x00\x00\x00\x00\x00\x00\x07"), 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(read_one("a64", rows[i].item).a64.value == rows[i].number);
    assert_true(read_one("b64", CONEY_STR("\xcf\xff\xff\xff\xff\xff\xff\xff\xff")).b64.value == UINT64_MAX);
    assert_true(read_one("c64", CONEY_STR("\xca\x3f\x80\x00\x00")).c64.value == 1.0);
    assert_true(read_one("c64", CONEY_STR("\xcb\x3f\xf1\x99\x99\x99\x99\x99\x9a")).c64.value == 1.1);
    assert_true(read_one("c32", CONEY_STR("\x03")).c32.value == 3);
    assert_true(read_one("yes", CONEY_STR("\xc3")).yes.value);
    assert_false(read_one("yes", CONEY_STR("\xc0")).yes.present);
}

static void every_form_of_a_text_and_of_binary_is_read(void **state)
{
    (void)state;
    assert_text(read_one("text", CONEY_STR("\xa0")).text.value, "");
    assert_text(read_one("text", CONEY_STR("\xa1x")).text.value, "x");
    assert_text(read_one("text", CONEY_STR("\xd9\x01x")).text.value, "x");
    assert_text(read_one("text", CONEY_STR("\xda\x00\x00")).text.value, "");
    assert_text(read_one("text", CONEY_STR("\xdb\x00\x00\x00\x01x")).text.value, "x");
    assert_text(read_one("blob", CONEY_STR("\xc4\x01\xff")).blob.value, "\xff");
    assert_text(read_one("blob", CONEY_STR("\xc5\x00\x00")).blob.value, "");
    assert_text(read_one("blob", CONEY_STR("\xc6\x00\x00\x00\x01\xff")).blob.value, "\xff");
    assert_int_equal(read_one("any", CONEY_STR("\x92\xd9\x01x\x81\xa1k\xd4\x05\x00")).any.value.len, 10);
}

static void every_form_of_a_timestamp_is_read(void **state)
{
    (void)state;
    assert_true(read_one("at", CONEY_STR("\xd6\xff\x51\x4b\x67\xb0")).at.value == 1363896240000);
    assert_true(read_one("at", CONEY_STR("\xd7\xff\x77\x35\x94\x00\x51\x4b\x67\xb0")).at.value == 1363896240500);
    assert_true(read_one("at", CONEY_STR("\xc7\x0c\xff\x1d\xcd\x65\x00\xff\xff\xff\xff\xff\xff\xff\xff")).at.value == -500);
}

static void every_time_comes_back_as_it_went(void **state)
{
    (void)state;
    const int64_t rows[] = {INT64_MIN, INT64_MIN + 1, -1001, -1000, -999, -1, 0, 999, 1000, INT64_MAX - 1, INT64_MAX};
    coney_sink sink = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_fault fault;
        optionals out;
        optionals in = {.at = {true, rows[i]}};
        sink.len = 0;
        assert_int_equal(coney_encode(coney_msgpack(), optionals_type(), &in, &sink, arena, &fault), CONEY_OK);
        if (decode(coney_bytes_of(sink.data, sink.len), optionals_type(), &out, &fault) != CONEY_OK)
            fail_msg("%lld: %s", (long long)rows[i], fault.text);
        assert_true(out.at.value == rows[i]);
    }
    coney_sink_free(&sink);
}

static void lists_and_maps_of_every_form_are_read(void **state)
{
    (void)state;
    lists l;
    coney_fault fault;
    assert_int_equal(decode(CONEY_STR("\xde\x00\x03\xa2"
                                      "a8\xdc\x00\x02\x01\xff\xa1x\xdd\x00\x00\x00\x01\x81\xc0\x90\xa5"
                                      "first\x91\xdf\x00\x00\x00\x01\xa3sku\xa1s"),
                            lists_type(), &l, &fault),
                     CONEY_OK);
    assert_int_equal(l.a8.count, 2);
    assert_int_equal(l.a8.items[1], -1);
    assert_text(l.first.items[0].sku, "s");
}

static void what_is_written_is_as_short_as_it_can_be(void **state)
{
    (void)state;
    const struct {
        optionals value;
        coney_bytes bytes;
    } rows[] = {
        {{.yes = {false, false}}, CONEY_STR("\x80")},
        {{.yes = {true, false}}, CONEY_STR("\x81\xa3yes\xc2")},
        {{.b64 = {true, 127}},
         CONEY_STR("\x81\xa3"
                   "b64\x7f")},
        {{.b64 = {true, 65536}},
         CONEY_STR("\x81\xa3"
                   "b64\xce\x00\x01\x00\x00")},
        {{.a64 = {true, -33}},
         CONEY_STR("\x81\xa3"
                   "a64\xd0\xdf")},
        {{.c32 = {true, 1}},
         CONEY_STR("\x81\xa3"
                   "c32\xca\x3f\x80\x00\x00")},
        {{.c64 = {true, 1.1}},
         CONEY_STR("\x81\xa3"
                   "c64\xcb\x3f\xf1\x99\x99\x99\x99\x99\x9a")},
        {{.text = {true, CONEY_STR("\xc3\xbc")}}, CONEY_STR("\x81\xa4text\xa2\xc3\xbc")},
        {{.blob = {true, CONEY_STR("\1\2")}},
         CONEY_STR("\x81\xa4"
                   "blob\xc4\x02\1\2")},
        {{.blob = {true, {0}}},
         CONEY_STR("\x81\xa4"
                   "blob\xc4\x00")},
        {{.at = {true, 1363896240000}},
         CONEY_STR("\x81\xa2"
                   "at\xd6\xff\x51\x4b\x67\xb0")},
        {{.at = {true, 1363896240500}},
         CONEY_STR("\x81\xa2"
                   "at\xd7\xff\x77\x35\x94\x00\x51\x4b\x67\xb0")},
        {{.at = {true, -500}},
         CONEY_STR("\x81\xa2"
                   "at\xc7\x0c\xff\x1d\xcd\x65\x00\xff\xff\xff\xff\xff\xff\xff\xff")},
        {{.status = {true, PHASE_NEW}}, CONEY_STR("\x81\xa6status\xa3new")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_sink sink = {0};
        assert_int_equal(coney_encode(coney_msgpack(), optionals_type(), &rows[i].value, &sink, NULL, NULL), CONEY_OK);
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
        {CONEY_STR(""), "not MessagePack: it ends too early at byte 0"},
        {CONEY_STR("\xc1"), "not MessagePack: an unknown item at byte 0"},
        {CONEY_STR("\x90"), "a list where an object line is expected"},
        {CONEY_STR("\x81\xa3sku"), "sku: not MessagePack: it ends too early at byte 5"},
        {CONEY_STR("\x81\xa3sk"), "not MessagePack: it ends too early at byte 1"},
        {CONEY_STR("\x81\xa3sku\xa1"), "sku: not MessagePack: it ends too early at byte 5"},
        {CONEY_STR("\x81\xa3sku\xc1"), "sku: not MessagePack: an unknown item at byte 5"},
        {CONEY_STR("\x81\xa3sku\xa1s\x00"), "not MessagePack: there is more after the value at byte 7"},
        {CONEY_STR("\x82\xa3sku\xa1s"), "not MessagePack: it ends too early at byte 7"},
        {CONEY_STR("\x81\x01\x02"), "a key that is no text"},
        {CONEY_STR("\x81\xa3sku\xa1\xff"), "sku: a text that is not UTF-8"},
        {CONEY_STR("\x81\xa3sku\xc4\x01x"), "sku: binary of 1 bytes where string is expected"},
        {CONEY_STR("\x81\xa3sku\xd4\x05x"), "sku: an extension where string is expected"},
        {CONEY_STR("\x80"), "sku: nothing where string is required"},
        {CONEY_STR("\x81\xa3sku\xc0"), "sku: null where string is required"},
        {CONEY_STR("\x82\xa3sku\xa1s\xa3sku\xa1s"), "sku: the same field twice"},
        {CONEY_STR("\x81\xa6"
                   "colour\x00"),
         "colour: line has no such field, and is strict"},
        {CONEY_STR("\x82\xa3sku\xa1s\xa8quantity\xce\x00\x01\x11\x70"), "quantity: 70000 does not fit u16"},
        {CONEY_STR("\x82\xa3sku\xa1s\xa8quantity\xff"), "quantity: -1 does not fit u16"},
        {CONEY_STR("\x82\xa3sku\xa1s\xa8quantity\xca\x3f\x80\x00\x00"), "quantity: the number 1.0 where u16 is expected"},
        {CONEY_STR("\x82\xa3sku\xa1s\xa8quantity\xd7\xff\xff\xff\xff\xff\x00\x00\x00\x00"),
         "quantity: an extension where u16 is expected"},
        {CONEY_STR("\x82\xa3sku\xa1s\xa8quantity\xc9\xff\xff\xff\xff\x05"),
         "quantity: not MessagePack: an unknown item at byte 16"},
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

/* What claims 2^32 elements costs no more than the few that are there. */
static void counts_that_are_only_claimed_take_no_memory(void **state)
{
    (void)state;
    const coney_bytes rows[] = {
        CONEY_STR("\x81\xa2"
                  "a8\xdd\xff\xff\xff\xff\x01"),
        CONEY_STR("\x81\xa4text\xdd\xff\xff\xff\xff\xdb\xff\xff\xff\xff"),
        CONEY_STR("\x81\xa4"
                  "blob\xdd\xff\xff\xff\xff\xc6\xff\xff\xff\xff"),
        CONEY_STR("\xdf\xff\xff\xff\xff\xa1x\x01"),
        CONEY_STR("\x81\xa1x\xdd\xff\xff\xff\xff\x01"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lists l;
        coney_fault fault;
        assert_int_equal(decode(rows[i], lists_type(), &l, &fault), CONEY_ECORRUPT);
        assert_non_null(strstr(fault.text, "it ends too early"));
    }
}

static void nesting_ends_at_64_wanted_or_not(void **state)
{
    (void)state;
    static uint8_t body[10010] = {0x81, 0xa1, 'x'};
    lists l;
    coney_fault fault;
    memset(body + 3, 0x91, sizeof body - 3);
    body[3 + 62] = 0x90;
    assert_int_equal(decode(coney_bytes_of(body, 3 + 63), lists_type(), &l, &fault), CONEY_OK);
    body[3 + 62] = 0x91;
    body[3 + 63] = 0x90;
    assert_int_equal(decode(coney_bytes_of(body, 3 + 64), lists_type(), &l, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "nested deeper than 64");
    body[3 + 63] = 0x91;
    assert_int_equal(decode(coney_bytes_of(body, sizeof body), lists_type(), &l, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "nested deeper than 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_number_is_read),        cmocka_unit_test(every_form_of_a_text_and_of_binary_is_read),
        cmocka_unit_test(every_form_of_a_timestamp_is_read),     cmocka_unit_test(every_time_comes_back_as_it_went),
        cmocka_unit_test(lists_and_maps_of_every_form_are_read), cmocka_unit_test(what_is_written_is_as_short_as_it_can_be),
        cmocka_unit_test(what_is_wrong_is_said_with_its_path),   cmocka_unit_test(counts_that_are_only_claimed_take_no_memory),
        cmocka_unit_test(nesting_ends_at_64_wanted_or_not),
    };
    if (!codec_is_here(coney_msgpack()))
        return 77; /* skipped */
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
