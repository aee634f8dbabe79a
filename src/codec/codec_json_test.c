/* JSON: exact bytes and exact faults. */
#define _GNU_SOURCE
#include "codec/codec_fixture.h"
#include "codec/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ORDER(F)                                                                                                               \
    F(u64, id, name("order-id"))                                                                                               \
    F(string, customer, default("nobody"))                                                                                     \
    F(f64, total, default("0.5"))                                                                                              \
    F(optional_of, status, phase)                                                                                              \
    F(list_of, lines, line)                                                                                                    \
    F(map, counts, u8)                                                                                                         \
    F(optional, extra, raw)
CONEY_TYPE(order, ORDER);

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

/* Decodes a body of exact size, behind which nothing may be read. */
static coney_status decode(coney_bytes body, const coney_type *type, void *out, coney_fault *fault)
{
    void *copy = malloc(body.len > 0 ? body.len : 1);
    assert_non_null(copy);
    memset(fault, 0, sizeof *fault);
    memcpy(copy, body.data, body.len);
    coney_status status = coney_decode(coney_json(), coney_bytes_of(copy, body.len), type, out, arena, fault);
    free(copy);
    return status;
}

static order read_order(coney_bytes body)
{
    order o;
    coney_fault fault;
    if (decode(body, order_type(), &o, &fault) != CONEY_OK)
        fail_msg("%.*s: %s", (int)body.len, (const char *)body.data, fault.text);
    return o;
}

static void assert_text(coney_bytes text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.data, expected, text.len);
}

static void fields_are_found_in_any_order_and_others_are_passed_over(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"order-id\":42,\"customer\":\"ada\",\"total\":9.5}",
        " { \"total\" : 9.5 ,\n\"customer\" :\t\"ada\" , \"order-id\":42 }\r\n",
        "{\"x\":1,\"customer\":\"ada\",\"y\":\"z\",\"total\":9.5,\"order-id\":42,\"z\":null}",
        "{\"x\":[{\"total\":1}],\"customer\":\"ada\",\"y\":{\"order-id\":[]},\"total\":9.5,\"order-id\":42}",
        "{\"order-id\":42,\"customer\":\"\\u0061da\",\"total\":95e-1}",
        "{\"order-id\":42,\"customer\":\"ada\",\"total\":9.5,\"status\":null,\"lines\":null,\"counts\":null,\"extra\":null}",
        "{\"0rder-id\":1,\"cu5tomer\":true,\"order-id\":42,\"customer\":\"ada\",\"total\":9.5,\"longer than any\":-0.25}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        order o = read_order(coney_bytes_str(bodies[i]));
        assert_int_equal(o.id, 42);
        assert_text(o.customer, "ada");
        assert_true(o.total == 9.5);
        assert_false(o.status.present || o.extra.present);
        assert_int_equal(o.lines.count + o.counts.count, 0);
    }
}

static void what_is_absent_or_null_is_its_default(void **state)
{
    (void)state;
    order o = read_order(CONEY_STR("{\"order-id\":7}"));
    assert_text(o.customer, "nobody");
    assert_true(o.total == 0.5);
    o = read_order(CONEY_STR("{\"total\":null,\"customer\":null,\"order-id\":7}"));
    assert_text(o.customer, "nobody");
    assert_true(o.total == 0.5);
    o = read_order(CONEY_STR("{\"order-id\":7,\"lines\":[{\"sku\":\"a\"},{\"sku\":\"b\",\"quantity\":3,\"note\":\"n\"}]}"));
    assert_int_equal(o.lines.items[0].quantity, 1);
    assert_false(o.lines.items[0].note.present);
    assert_int_equal(o.lines.items[1].quantity, 3);
    assert_text(o.lines.items[1].note.value, "n");
}

static void a_nul_in_a_text_counts_as_any_character(void **state)
{
    (void)state;
    order o = read_order(CONEY_STR("{\"order-id\":1,\"customer\":\"a\\u0000b\"}"));
    assert_int_equal(o.customer.len, 3);
    assert_memory_equal(o.customer.data, "a\0b", 3);
    o = read_order(CONEY_STR("{\"order-id\":1,\"customer\":\"\\ud83d\\udc30 \xf0\x9f\x90\xb0 \\/\"}"));
    assert_text(o.customer, "\xf0\x9f\x90\xb0 \xf0\x9f\x90\xb0 /");
    o = read_order(CONEY_STR("{\"order-id\":1,\"customer\":\"zw\xc3\xb6lf Boxk\xc3\xa4mpfer\"}"));
    assert_text(o.customer, "zw\xc3\xb6lf Boxk\xc3\xa4mpfer");
}

static void raw_values_are_as_they_stand_in_the_body(void **state)
{
    (void)state;
    order o = read_order(CONEY_STR("{\"\\u0065xtra\" :\n [ 1.50, \"\\u00e9]\\\"\" , {} ] , \"order-id\":1}"));
    assert_true(o.extra.present);
    assert_text(o.extra.value, "[ 1.50, \"\\u00e9]\\\"\" , {} ]");
    lists l;
    coney_fault fault;
    assert_int_equal(decode(CONEY_STR("{\"any\": [ 1e2 , \"\\\\\",{\"any\":[]} ,true]}"), lists_type(), &l, &fault), CONEY_OK);
    assert_int_equal(l.any.count, 4);
    assert_text(l.any.items[0], "1e2");
    assert_text(l.any.items[1], "\"\\\\\"");
    assert_text(l.any.items[2], "{\"any\":[]}");
    assert_text(l.any.items[3], "true");
    maps m;
    assert_int_equal(decode(CONEY_STR("{\"any\":{\"a\": 1 ,\"b\":[2],\"\":-3}}"), maps_type(), &m, &fault), CONEY_OK);
    assert_text(m.any.items[0].value, "1");
    assert_text(m.any.items[1].value, "[2]");
    assert_text(m.any.items[2].value, "-3");
}

static void numbers_at_their_limits_are_exact(void **state)
{
    (void)state;
    optionals o;
    coney_fault fault;
    assert_int_equal(decode(CONEY_STR("{\"a8\":-128,\"a16\":-32768,\"a32\":-2147483648,\"a64\":-9223372036854775808,\"b8\":255,"
                                      "\"b16\":65535,\"b32\":4294967295,\"b64\":18446744073709551615}"),
                            optionals_type(), &o, &fault),
                     CONEY_OK);
    assert_int_equal(o.a8.value, INT8_MIN);
    assert_int_equal(o.a16.value, INT16_MIN);
    assert_true(o.a32.value == INT32_MIN && o.a64.value == INT64_MIN);
    assert_true(o.b8.value == 255 && o.b16.value == 65535 && o.b32.value == UINT32_MAX && o.b64.value == UINT64_MAX);
    static const struct {
        const char *text;
        double number;
    } reals[] = {
        {"0", 0},
        {"0.1", 0.1},
        {"-0.0", -0.0},
        {"-0", 0},
        {"9007199254740993", 9007199254740992.0},
        {"9007199254740991", 9007199254740991.0},
        {"0.30000000000000004", 0.30000000000000004},
        {"123456789012345678", 123456789012345678.0},
        {"1234567890.12345678", 1234567890.12345678},
        {"18446744073709551616", 18446744073709551616.0},
        {"1e308", 1e308},
        {"4.9e-324", 4.9e-324},
        {"-9223372036854775809", -9223372036854775809.0},
    };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        char body[80];
        order p;
        snprintf(body, sizeof body, "{\"order-id\":1,\"total\":%s}", reals[i].text);
        assert_int_equal(decode(coney_bytes_str(body), order_type(), &p, &fault), CONEY_OK);
        if (p.total != reals[i].number)
            fail_msg("%s became %.17g", reals[i].text, p.total);
    }
}

#define FLAT(F)                                                                                                                \
    F(bool, yes)                                                                                                               \
    F(i8, a8)                                                                                                                  \
    F(i16, a16)                                                                                                                \
    F(i32, a32)                                                                                                                \
    F(i64, a64)                                                                                                                \
    F(u8, b8)                                                                                                                  \
    F(u16, b16)                                                                                                                \
    F(u32, b32)                                                                                                                \
    F(u64, b64)                                                                                                                \
    F(f32, c32)                                                                                                                \
    F(enum, status, phase)
CONEY_TYPE(flat, FLAT);

/* A flat body with one value in the place of its own. */
static coney_bytes flat_with(char *room, size_t cap, const char *member, const char *value)
{
    size_t len = 0;
    for (uint32_t i = 0; i < flat_type()->member_count; i++) {
        const char *name = flat_type()->members[i].name;
        const char *usual = i == 0 ? "false" : i + 1 == flat_type()->member_count ? "\"paid\"" : "1";
        int added =
            snprintf(room + len, cap - len, "%s\"%s\":%s", i == 0 ? "{" : ",", name, strcmp(name, member) == 0 ? value : usual);
        len += (size_t)added;
    }
    room[len++] = '}';
    return coney_bytes_of(room, len);
}

static void plain_numbers_are_held_to_their_limits(void **state)
{
    (void)state;
    static const struct {
        const char *member;
        const char *value;
        const char *text; /* NULL: it fits */
    } rows[] = {
        {"yes", "true", NULL},
        {"yes", "tru", "not JSON: an unexpected character at byte 7"},
        {"yes", "0", "yes: the number 0 where bool is expected"},
        {"yes", "42", "yes: the number 42 where bool is expected"},
        {"a8", "-128", NULL},
        {"a8", "127", NULL},
        {"a8", "128", "a8: 128 does not fit i8"},
        {"a8", "-129", "a8: -129 does not fit i8"},
        {"a16", "-32768", NULL},
        {"a16", "32768", "a16: 32768 does not fit i16"},
        {"a32", "-2147483648", NULL},
        {"a32", "-2147483649", "a32: -2147483649 does not fit i32"},
        {"a32", "2147483648", "a32: 2147483648 does not fit i32"},
        {"a64", "-9223372036854775808", NULL},
        {"a64", "9223372036854775807", NULL},
        {"a64", "999999999999999999", NULL},
        {"a64", "-999999999999999999", NULL},
        {"a64", "-0", NULL},
        {"a64", "1.0", "a64: the number 1.0 where i64 is expected"},
        {"a64", "-", "not JSON: a broken number at byte 43"},
        {"b8", "255", NULL},
        {"b8", "256", "b8: 256 does not fit u8"},
        {"b8", "-1", "b8: -1 does not fit u8"},
        {"b16", "65536", "b16: 65536 does not fit u16"},
        {"b32", "4294967295", NULL},
        {"b32", "4294967296", "b32: 4294967296 does not fit u32"},
        {"b64", "18446744073709551615", NULL},
        {"b64", "1e3", "b64: the number 1000.0 where u64 is expected"},
        {"c32", "-0.1", NULL},
        {"c32", "1.", "not JSON: a broken number at byte 83"},
        {"c32", "0.1234567890123456789", NULL},
        {"status", "\"new\"", NULL},
        {"status", "\"old\"", "status: \"old\" is no phase"},
        {"status", "\"sent \\\"off\\\"\"", NULL},
        {"status", "null", "status: null where a text of phase is required"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char room[256];
        flat f;
        coney_fault fault;
        coney_bytes body = flat_with(room, sizeof room, rows[i].member, rows[i].value);
        coney_status status = decode(body, flat_type(), &f, &fault);
        if (status != (rows[i].text == NULL ? CONEY_OK : CONEY_ECORRUPT) ||
            strcmp(fault.text, rows[i].text == NULL ? "" : rows[i].text) != 0)
            fail_msg("%s = %s: status %d, \"%s\"", rows[i].member, rows[i].value, status, fault.text);
    }
}

static void what_is_wrong_is_said_with_its_path(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *path;
        const char *text;
    } rows[] = {
        {"", "", "not JSON: it is empty at byte 0"},
        {"  ", "", "not JSON: it is empty at byte 0"},
        {"order", "", "not JSON: an unexpected character at byte 0"},
        {"[]", "", "a list where an object order is expected"},
        {"\"text\"", "", "the text \"text\" where an object order is expected"},
        {"{\"order-id\":42", "", "not JSON: it ends too early at byte 14"},
        {"{\"order-id\":42,", "", "not JSON: it ends too early at byte 15"},
        {"{\"order-id\":\"4", "", "not JSON: it ends too early at byte 14"},
        {"{\"order-id\":42}x", "", "not JSON: there is more after the value at byte 15"},
        {"{\"order-id\":42}{}", "", "not JSON: there is more after the value at byte 15"},
        {"{\"order-id\":42,}", "", "not JSON: an unexpected character at byte 14"},
        {"{\"order-id\":042}", "", "not JSON: a broken number at byte 12"},
        {"{\"order-id\":42,\"customer\":\"\xff\"}", "", "not JSON: a text that is not UTF-8 at byte 27"},
        {"{\"order-id\":42,\"x\":\"\xed\xa0\x80\"}", "", "not JSON: a text that is not UTF-8 at byte 20"},
        {"{\"order-id\":42,\"customer\":\"\\x\"}", "", "not JSON: a broken text at byte 28"},
        {"{\"order-id\":42,\"customer\":\"\n\"}", "", "not JSON: a broken text at byte 27"},
        {"{\"order-id\":NaN}", "", "not JSON: an unexpected character at byte 12"},
        {"{}", "order-id", "order-id: nothing where u64 is required"},
        {"{\"order-id\":null}", "order-id", "order-id: null where u64 is required"},
        {"{\"customer\":\"x\",\"total\":1}", "order-id", "order-id: nothing where u64 is required"},
        {"{\"order-id\":\"42\"}", "order-id", "order-id: the text \"42\" where u64 is expected"},
        {"{\"order-id\":true}", "order-id", "order-id: true where u64 is expected"},
        {"{\"order-id\":3.0}", "order-id", "order-id: the number 3.0 where u64 is expected"},
        {"{\"order-id\":3e2}", "order-id", "order-id: the number 300.0 where u64 is expected"},
        {"{\"order-id\":-1}", "order-id", "order-id: -1 does not fit u64"},
        {"{\"order-id\":18446744073709551616}", "order-id", "order-id: 18446744073709551616 does not fit u64"},
        {"{\"order-id\":1,\"total\":1e400}", "total", "total: 1e400 does not fit f64"},
        {"{\"order-id\":1,\"order-id\":1}", "order-id", "order-id: the same field twice"},
        {"{\"order-id\":1,\"total\":1,\"order-id\":1}", "order-id", "order-id: the same field twice"},
        {"{\"order-id\":1,\"order\\u002did\":1}", "order-id", "order-id: the same field twice"},
        {"{\"order-id\":1,\"customer\":{}}", "customer", "customer: an object where string is expected"},
        {"{\"order-id\":1,\"status\":\"lost\\u0007\"}", "status", "status: \"lost?\" is no phase"},
        {"{\"order-id\":1,\"status\":1}", "status", "status: the number 1 where a text of phase is expected"},
        {"{\"order-id\":1,\"lines\":{}}", "lines", "lines: an object where a list of line is expected"},
        {"{\"order-id\":1,\"lines\":[{\"sku\":\"a\"},null]}", "lines[1]", "lines[1]: null where an object line is expected"},
        {"{\"order-id\":1,\"lines\":[{\"sku\":\"a\"},7]}", "lines[1]",
         "lines[1]: the number 7 where an object line is expected"},
        {"{\"order-id\":1,\"lines\":[{},{\"sku\":\"a\",\"quantity\":70000}]}", "lines[0].sku",
         "lines[0].sku: nothing where string is required"},
        {"{\"order-id\":1,\"lines\":[{\"sku\":\"\"},{\"sku\":\"a\",\"quantity\":70000}]}", "lines[1].quantity",
         "lines[1].quantity: 70000 does not fit u16"},
        {"{\"order-id\":1,\"lines\":[{\"sku\":\"\",\"colour\":\"red\"}]}", "lines[0].colour",
         "lines[0].colour: line has no such field, and is strict"},
        {"{\"order-id\":1,\"lines\":[{\"colour\":\"red\"}]}", "lines[0].colour",
         "lines[0].colour: line has no such field, and is strict"},
        {"{\"order-id\":1,\"counts\":[]}", "counts", "counts: a list where a map of u8 is expected"},
        {"{\"order-id\":1,\"counts\":{\"a\":1,\"b\":256}}", "counts[\"b\"]", "counts[\"b\"]: 256 does not fit u8"},
        {"{\"order-id\":1,\"counts\":{\"a\":1,\"b\":null}}", "counts[\"b\"]", "counts[\"b\"]: null where u8 is expected"},
        {"{\"order-id\":1,\"counts\":{\"a\":1,\"b\":2,\"\\u0061\":3}}", "counts[\"a\"]", "counts[\"a\"]: the same key twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        order o;
        order zero;
        coney_fault fault;
        memset(&zero, 0, sizeof zero);
        coney_status status = decode(coney_bytes_str(rows[i].body), order_type(), &o, &fault);
        if (status != CONEY_ECORRUPT || strcmp(fault.text, rows[i].text) != 0 || strcmp(fault.path, rows[i].path) != 0)
            fail_msg("%s: status %d, \"%s\" at \"%s\"", rows[i].body, status, fault.text, fault.path);
        assert_memory_equal(&o, &zero, sizeof o);
    }
}

static void texts_that_stand_for_other_kinds_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *text;
    } rows[] = {
        {"{\"blob\":\"YQ\"}", "blob: a text that is not base64 (RFC 4648, padded)"},
        {"{\"blob\":\"YR==\"}", "blob: a text that is not base64 (RFC 4648, padded)"},
        {"{\"blob\":7}", "blob: the number 7 where bytes is expected"},
        {"{\"at\":\"yesterday\"}", "at: the text \"yesterday\" where time is expected"},
        {"{\"at\":0}", "at: the number 0 where time is expected"},
        {"{\"yes\":1}", "yes: the number 1 where bool is expected"},
        {"{\"yes\":\"true\"}", "yes: the text \"true\" where bool is expected"},
        {"{\"c32\":1e39}", "c32: 1e+39 does not fit f32"},
        {"{\"c32\":\"1\"}", "c32: the text \"1\" where f32 is expected"},
        {"{\"a8\":128}", "a8: 128 does not fit i8"},
        {"{\"a8\":-129}", "a8: -129 does not fit i8"},
        {"{\"a64\":9223372036854775808}", "a64: 9223372036854775808 does not fit i64"},
        {"{\"a64\":-9223372036854775809}", "a64: -9223372036854775809 does not fit i64"},
        {"{\"text\":\"0123456789012345678901234567890123456789012345678901234567890123456789\",\"a8\":[]}",
         "a8: a list where i8 is expected"},
        {"{\"a8\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}",
         "a8: the text \"01234567890123456789012345678901234567890123456...\" where i8 is expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        optionals o;
        coney_fault fault;
        assert_int_equal(decode(coney_bytes_str(rows[i].body), optionals_type(), &o, &fault), CONEY_ECORRUPT);
        assert_string_equal(fault.text, rows[i].text);
    }
}

/* `open` as often as it is said, a null, then `close` as often. */
static coney_bytes nested(char *room, const char *before, const char *open, const char *close, size_t depth)
{
    char *at = stpcpy(room, before);
    for (size_t i = 0; i < depth; i++)
        at = stpcpy(at, open);
    at = stpcpy(at, "null");
    for (size_t i = 0; i < depth; i++)
        at = stpcpy(at, close);
    at = stpcpy(at, "}");
    return coney_bytes_of(room, (size_t)(at - room));
}

static void nesting_ends_at_64_wanted_or_not(void **state)
{
    (void)state;
    static char room[200000];
    order o;
    everything e;
    coney_fault fault;
    assert_int_equal(decode(nested(room, "{\"order-id\":1,\"x\":", "[", "]", 63), order_type(), &o, &fault), CONEY_OK);
    assert_int_equal(decode(nested(room, "{\"order-id\":1,\"extra\":", "[", "]", 63), order_type(), &o, &fault), CONEY_OK);
    assert_int_equal(o.extra.value.len, 130);
    assert_int_equal(decode(nested(room, "{\"order-id\":1,\"x\":", "[", "]", 64), order_type(), &o, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "nested deeper than 64");
    assert_int_equal(
        decode(nested(room, "{\"order-id\":1,\"x\":[[[]],{\"y\":[]},[[[]]]],\"z\":", "[", "]", 63), order_type(), &o, &fault),
        CONEY_OK);
    assert_int_equal(decode(nested(room, "{\"order-id\":1,\"extra\":", "[", "]", 64), order_type(), &o, &fault),
                     CONEY_ECORRUPT);
    assert_string_equal(fault.text, "extra: nested deeper than 64");
    assert_int_equal(decode(nested(room, "{\"order-id\":1,\"x\":", "[", "]", 10000), order_type(), &o, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "nested deeper than 64");
    assert_int_equal(decode(nested(room, "{\"l\":{},\"p\":{},\"m\":{},\"children\":",
                                   "[{\"l\":{},\"p\":{},\"m\":{},\"children\":", "}]", 2000),
                            everything_type(), &e, &fault),
                     CONEY_ECORRUPT);
    assert_memory_equal(fault.text, "...", 3);
    assert_non_null(strstr(fault.text, ".children[0].children[0]: nested deeper than 64"));
}

static void values_are_written_as_short_as_they_read(void **state)
{
    (void)state;
    order o = {.id = 42, .customer = CONEY_STR("ada"), .total = 9.5};
    coney_sink sink = {0};
    assert_int_equal(coney_encode(coney_json(), order_type(), &o, &sink, arena, NULL), CONEY_OK);
    assert_text(coney_bytes_of(sink.data, sink.len),
                "{\"order-id\":42,\"customer\":\"ada\",\"total\":9.5,\"lines\":[],\"counts\":{}}");
    sink.len = 0;
    const line rows[] = {{.sku = CONEY_STR("a\"\\\x01\x1f\t\r\n\b\f\x7f\xc3\xa9/"), .quantity = 65535}, {.note = {true, {0}}}};
    const coney_entry_u8 counts[] = {{CONEY_STR("k\n"), 0}, {CONEY_STR("a key of more than sixteen"), 255}};
    o = (order){.customer = CONEY_STR("exactly sixteen."),
                .status = {true, PHASE_SENT},
                .lines = {rows, 2},
                .counts = {counts, 2},
                .extra = {true, CONEY_STR(" [1] ")}};
    assert_int_equal(coney_encode(coney_json(), order_type(), &o, &sink, arena, NULL), CONEY_OK);
    assert_text(coney_bytes_of(sink.data, sink.len),
                "{\"order-id\":0,\"customer\":\"exactly sixteen.\",\"total\":0.0,\"status\":\"sent \\\"off\\\"\","
                "\"lines\":[{\"sku\":\"a\\\"\\\\\\u0001\\u001f\\t\\r\\n\\b\\f\x7f\xc3\xa9/\",\"quantity\":65535},"
                "{\"sku\":\"\",\"quantity\":0,\"note\":\"\"}],\"counts\":{\"k\\n\":0,\"a key of more than sixteen\":255},"
                "\"extra\": [1] }");
    coney_sink_free(&sink);
}

static void numbers_are_written_so_that_they_read_back(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } rows[] = {
        {0, "0.0"},         {-0.0, "-0.0"},
        {1, "1.0"},         {-9.5, "-9.5"},
        {0.1, "0.1"},       {0.001, "0.001"},
        {1e-7, "1e-7"},     {123456789, "123456789.0"},
        {1e21, "1e21"},     {0.30000000000000004, "0.30000000000000004"},
        {99.99, "99.99"},   {1234.5678, "1234.5678"},
        {-0.125, "-0.125"}, {0.29, "0.29"},
        {1.15, "1.15"},     {19.99, "19.99"},
        {4.35, "4.35"},     {999999999.9999, "999999999.9999"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[64];
        coney_sink sink = {0};
        optionals o = {.c64 = {true, rows[i].number}};
        assert_int_equal(coney_encode(coney_json(), optionals_type(), &o, &sink, arena, NULL), CONEY_OK);
        snprintf(expected, sizeof expected, "{\"c64\":%s}", rows[i].text);
        assert_text(coney_bytes_of(sink.data, sink.len), expected);
        coney_sink_free(&sink);
    }
    static const struct {
        float number;
        const char *text;
    } narrow[] = {{0.1f, "0.1"}, {3.14f, "3.14"}, {1.0f, "1.0"}, {16777216, "16777216.0"}};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        char expected[64];
        coney_sink sink = {0};
        optionals o = {.c32 = {true, narrow[i].number}};
        assert_int_equal(coney_encode(coney_json(), optionals_type(), &o, &sink, arena, NULL), CONEY_OK);
        snprintf(expected, sizeof expected, "{\"c32\":%s}", narrow[i].text);
        assert_text(coney_bytes_of(sink.data, sink.len), expected);
        coney_sink_free(&sink);
    }
}

static void what_json_cannot_say_is_refused(void **state)
{
    (void)state;
    const struct {
        optionals value;
        const char *text;
    } rows[] = {
        {{.c64 = {true, NAN}}, "c64: NaN, which JSON cannot say"},
        {{.c32 = {true, INFINITY}}, "c32: an infinite number, which JSON cannot say"},
        {{.at = {true, INT64_MAX}}, "at: a time beyond the years 0 to 9999, which RFC 3339 cannot say"},
        {{.any = {true, {0}}}, "any: raw, but not JSON: it is empty at byte 0"},
        {{.any = {true, CONEY_STR("1 2")}}, "any: raw, but not JSON: there is more after the value at byte 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_sink sink = {0};
        coney_fault fault;
        assert_int_equal(coney_encode(coney_json(), optionals_type(), &rows[i].value, &sink, NULL, &fault), CONEY_EINVAL);
        assert_string_equal(fault.text, rows[i].text);
        assert_int_equal(sink.len, 0);
        coney_sink_free(&sink);
    }
}

static void a_body_that_memory_cannot_hold_is_refused_before_it_is_read(void **state)
{
    (void)state;
    order o;
    coney_fault fault;
    assert_int_equal(coney_decode(coney_json(), coney_bytes_of("{}", SIZE_MAX - 1), order_type(), &o, arena, &fault),
                     CONEY_ENOMEM);
    assert_string_equal(fault.text, "memory is out");
    assert_int_equal(coney_decode(coney_json(), coney_bytes_of("{}", SIZE_MAX / 2), order_type(), &o, arena, NULL),
                     CONEY_ENOMEM);
    coney_sink sink = {0};
    o = (order){.extra = {true, coney_bytes_of("1", SIZE_MAX / 2)}};
    assert_int_equal(coney_encode(coney_json(), order_type(), &o, &sink, arena, &fault), CONEY_ENOMEM);
    assert_string_equal(fault.text, "memory is out");
    coney_sink_free(&sink);
}

#define TEN_(F, n)                                                                                                             \
    F(optional, m##n##0, u8)                                                                                                   \
    F(optional, m##n##1, u8)                                                                                                   \
    F(optional, m##n##2, u8)                                                                                                   \
    F(optional, m##n##3, u8)                                                                                                   \
    F(optional, m##n##4, u8)                                                                                                   \
    F(optional, m##n##5, u8)                                                                                                   \
    F(optional, m##n##6, u8)                                                                                                   \
    F(optional, m##n##7, u8)                                                                                                   \
    F(optional, m##n##8, u8)                                                                                                   \
    F(u8, m##n##9, default("9"))
#define WIDE(F) TEN_(F, 0) TEN_(F, 1) TEN_(F, 2) TEN_(F, 3) TEN_(F, 4) TEN_(F, 5) TEN_(F, 6) TEN_(F, 7)
CONEY_TYPE(wide, WIDE);

static void a_type_of_more_than_64_members_is_like_any_other(void **state)
{
    (void)state;
    wide w;
    coney_fault fault;
    assert_int_equal(decode(CONEY_STR("{\"m78\":78,\"m00\":1,\"m63\":2,\"m64\":3,\"m79\":79}"), wide_type(), &w, &fault),
                     CONEY_OK);
    assert_true(w.m78.value == 78 && w.m00.value == 1 && w.m63.value == 2 && w.m64.value == 3 && w.m79 == 79);
    assert_true(w.m69 == 9 && w.m09 == 9 && !w.m65.present);
    assert_int_equal(decode(CONEY_STR("{\"m78\":78,\"m00\":1,\"m78\":2}"), wide_type(), &w, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "m78: the same field twice");
}

/* A map of many keys takes no longer to check than to read. */
static void the_keys_of_a_large_map_are_compared_in_little_time(void **state)
{
    (void)state;
    enum { KEYS = 50000 };
    char *body = malloc(KEYS * 16);
    assert_non_null(body);
    char *at = stpcpy(body, "{\"order-id\":1,\"counts\":{");
    for (int i = 0; i < KEYS; i++)
        at += sprintf(at, "%s\"%06d\":1", i > 0 ? "," : "", i);
    at = stpcpy(at, "}}");
    order o;
    coney_fault fault;
    assert_int_equal(decode(coney_bytes_of(body, (size_t)(at - body)), order_type(), &o, &fault), CONEY_OK);
    assert_int_equal(o.counts.count, KEYS);
    memcpy(at - 12, "\"000123\"", 8);
    assert_int_equal(decode(coney_bytes_of(body, (size_t)(at - body)), order_type(), &o, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "counts[\"000123\"]: the same key twice");
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_in_any_order_and_others_are_passed_over),
        cmocka_unit_test(what_is_absent_or_null_is_its_default),
        cmocka_unit_test(a_nul_in_a_text_counts_as_any_character),
        cmocka_unit_test(raw_values_are_as_they_stand_in_the_body),
        cmocka_unit_test(numbers_at_their_limits_are_exact),
        cmocka_unit_test(plain_numbers_are_held_to_their_limits),
        cmocka_unit_test(what_is_wrong_is_said_with_its_path),
        cmocka_unit_test(texts_that_stand_for_other_kinds_are_checked),
        cmocka_unit_test(nesting_ends_at_64_wanted_or_not),
        cmocka_unit_test(values_are_written_as_short_as_they_read),
        cmocka_unit_test(numbers_are_written_so_that_they_read_back),
        cmocka_unit_test(what_json_cannot_say_is_refused),
        cmocka_unit_test(a_body_that_memory_cannot_hold_is_refused_before_it_is_read),
        cmocka_unit_test(a_type_of_more_than_64_members_is_like_any_other),
        cmocka_unit_test(the_keys_of_a_large_map_are_compared_in_little_time),
    };
    if (!codec_is_here(coney_json()))
        return 77; /* skipped */
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
