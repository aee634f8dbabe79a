/* Typed headers, over an encoding that exists only here: the elements of a map are coney_values, one after the other. */
#include "base/value.h"
#include "codec/codec_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void enter(const coney_value *value, coney_value_iter *iter)
{
    iter->at = value->as.bytes.data;
    iter->left = value->count;
}

static bool next(coney_value_iter *iter, coney_value *out)
{
    if (iter->left == 0)
        return false;
    memcpy(out, iter->at, sizeof *out);
    iter->at += sizeof *out;
    iter->left--;
    iter->failed = out->type > CONEY_VALUE_DESCRIBED;
    return iter->failed == 0;
}

static const struct value_encoding plain = {.enter = enter, .next = next, .number = CONEY_ENCODING_AMQP10};

enum { PAIRS_MOST = 20 };

struct headers {
    coney_value elements[2 * PAIRS_MOST];
    coney_value map;
};

static const coney_value *headers_of(struct headers *h, const coney_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        h->elements[2 * i] = coney_value_string(fields[i].key);
        h->elements[2 * i + 1] = fields[i].value;
    }
    h->map = coney_value_bytes(CONEY_VALUE_MAP, coney_bytes_of(h->elements, 2 * count * sizeof *h->elements));
    h->map.count = (uint32_t)(2 * count);
    return &h->map;
}

#define TRACE(F)                                                                                                               \
    F(u8, hops, default("3"))                                                                                                  \
    F(optional, weight, f64)                                                                                                   \
    F(optional, owner, string, name("x-owner"))                                                                                \
    F(optional, digest, bytes)                                                                                                 \
    F(optional, at, time)                                                                                                      \
    F(optional_of, status, phase)                                                                                              \
    F(optional, fast, bool)                                                                                                    \
    F(optional, delta, i16)
CONEY_TYPE(trace, TRACE);
#define ONLY(F) F(u32, id)
CONEY_TYPE(only, ONLY, strict);
#define DEEP(F) F(list, ids, u8)
CONEY_TYPE(deep, DEEP);

static coney_arena *arena;

static int set_up(void **state)
{
    (void)state;
    value_encoding_add(&plain);
    arena = coney_arena_new();
    return arena == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    coney_arena_free(&arena);
    return 0;
}

static void headers_are_read_from_whatever_type_fits(void **state)
{
    (void)state;
    const coney_field fields[] = {
        {CONEY_STR("delta"), coney_value_i64(-300)},
        {CONEY_STR("hops"), coney_value_i32(7)},
        {CONEY_STR("weight"), coney_value_u8(2)},
        {CONEY_STR("x-owner"), coney_value_binary(CONEY_STR("ada"))},
        {CONEY_STR("x-unknown"), coney_value_null()},
        {CONEY_STR("digest"), coney_value_string(CONEY_STR("\xff\xfe"))},
        {CONEY_STR("at"), coney_value_timestamp(1764524700000)},
        {CONEY_STR("status"), coney_value_symbol(CONEY_STR("paid"))},
        {CONEY_STR("fast"), coney_value_bool(true)},
    };
    struct headers h;
    trace t;
    coney_fault fault;
    if (coney_headers_decode(headers_of(&h, fields, 9), trace_type(), &t, arena, &fault) != CONEY_OK)
        fail_msg("%s", fault.text);
    assert_int_equal(t.delta.value, -300);
    assert_int_equal(t.hops, 7);
    assert_true(t.weight.value == 2);
    assert_int_equal(t.owner.value.len, 3);
    assert_ptr_not_equal(t.owner.value.data, fields[3].value.as.bytes.data);
    assert_int_equal(t.digest.value.len, 2);
    assert_true(t.at.value == 1764524700000);
    assert_int_equal(t.status.value, PHASE_PAID);
    assert_true(t.fast.value);
}

static void headers_are_read_from_texts_too(void **state)
{
    (void)state;
    const coney_field fields[] = {
        {CONEY_STR("hops"), coney_value_string(CONEY_STR("255"))},
        {CONEY_STR("weight"), coney_value_string(CONEY_STR("-1.5"))},
        {CONEY_STR("at"), coney_value_string(CONEY_STR("1970-01-01T00:00:01Z"))},
        {CONEY_STR("fast"), coney_value_string(CONEY_STR("false"))},
        {CONEY_STR("delta"), coney_value_binary(CONEY_STR("-7"))},
    };
    struct headers h;
    trace t;
    assert_int_equal(coney_headers_decode(headers_of(&h, fields, 5), trace_type(), &t, arena, NULL), CONEY_OK);
    assert_int_equal(t.hops, 255);
    assert_true(t.weight.value == -1.5);
    assert_true(t.at.value == 1000);
    assert_true(t.fast.present && !t.fast.value);
    assert_int_equal(t.delta.value, -7);
}

static void no_headers_are_all_defaults(void **state)
{
    (void)state;
    trace t;
    only o;
    coney_fault fault;
    assert_int_equal(coney_headers_decode(NULL, trace_type(), &t, arena, &fault), CONEY_OK);
    assert_int_equal(t.hops, 3);
    assert_false(t.owner.present || t.at.present);
    assert_int_equal(coney_headers_decode(NULL, only_type(), &o, arena, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "id: nothing where u32 is required");
}

static void headers_that_do_not_fit_are_named(void **state)
{
    (void)state;
    coney_value broken = coney_value_null();
    broken.type = CONEY_VALUE_DESCRIBED + 1;
    const struct {
        coney_field fields[2];
        size_t count;
        const coney_type *type;
        const char *text;
    } rows[] = {
        {{{CONEY_STR("hops"), coney_value_i64(256)}}, 1, trace_type(), "hops: 256 does not fit u8"},
        {{{CONEY_STR("hops"), coney_value_f64(1)}}, 1, trace_type(), "hops: the number 1.0 where u8 is expected"},
        {{{CONEY_STR("hops"), coney_value_string(CONEY_STR("many"))}},
         1,
         trace_type(),
         "hops: the text \"many\" where u8 is expected"},
        {{{CONEY_STR("x-owner"), coney_value_string(CONEY_STR("\xff"))}}, 1, trace_type(), "x-owner: a text that is not UTF-8"},
        {{{CONEY_STR("x-owner"), coney_value_char(65)}}, 1, trace_type(), "x-owner: an extension where string is expected"},
        {{{CONEY_STR("hops"), coney_value_u8(1)}, {CONEY_STR("hops"), coney_value_u8(1)}},
         2,
         trace_type(),
         "hops: the same field twice"},
        {{{CONEY_STR("hops"), coney_value_u8(1)}, {CONEY_STR("x"), broken}}, 2, trace_type(), "headers that cannot be read"},
        {{{CONEY_STR("id"), coney_value_u8(1)}, {CONEY_STR("x"), coney_value_u8(1)}},
         2,
         only_type(),
         "x: only has no such field, and is strict"},
        {{{CONEY_STR("id"), coney_value_bytes(CONEY_VALUE_LIST, CONEY_STR(""))}},
         1,
         only_type(),
         "id: a list where u32 is expected"},
        {{{CONEY_STR("id"), coney_value_bytes(CONEY_VALUE_MAP, CONEY_STR(""))}},
         1,
         only_type(),
         "id: an object where u32 is expected"},
        {{{CONEY_STR("id"), coney_value_null()}}, 1, only_type(), "id: null where u32 is required"},
        {{{CONEY_STR("ids"), coney_value_u8(1)}},
         1,
         deep_type(),
         "ids: headers are flat: one value or an optional one, no raw, no message"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct headers h;
        union {
            trace t;
            only o;
            deep d;
        } out;
        coney_fault fault = {.text = ""};
        coney_status status =
            coney_headers_decode(headers_of(&h, rows[i].fields, rows[i].count), rows[i].type, &out, arena, &fault);
        if (status != CONEY_ECORRUPT || strcmp(fault.text, rows[i].text) != 0)
            fail_msg("row %zu: status %d, \"%s\"", i, status, fault.text);
    }
}

static void headers_are_written_with_the_type_that_they_have(void **state)
{
    (void)state;
    trace t = {.hops = 9, .owner = {true, CONEY_STR("ada")}, .status = {true, PHASE_NEW}, .at = {true, 5}};
    const coney_field *fields;
    size_t count;
    coney_fault fault;
    assert_int_equal(coney_headers_encode(trace_type(), &t, arena, &fields, &count, &fault), CONEY_OK);
    assert_int_equal(count, 4);
    assert_int_equal(fields[0].value.type, CONEY_VALUE_U8);
    assert_int_equal(fields[0].value.as.u64, 9);
    assert_memory_equal(fields[1].key.data, "x-owner", fields[1].key.len);
    assert_int_equal(fields[1].value.type, CONEY_VALUE_STRING);
    assert_int_equal(fields[2].value.type, CONEY_VALUE_TIMESTAMP);
    assert_memory_equal(fields[3].value.as.bytes.data, "new", 3);
    t.status.value = (phase)9;
    assert_int_equal(coney_headers_encode(trace_type(), &t, arena, &fields, &count, &fault), CONEY_EINVAL);
    assert_string_equal(fault.text, "status: a number that is no constant of phase");
    assert_int_equal(count, 0);
    assert_int_equal(coney_headers_encode(NULL, &t, arena, &fields, &count, &fault), CONEY_EINVAL);
    assert_int_equal(coney_headers_decode(NULL, trace_type(), NULL, arena, &fault), CONEY_EINVAL);
    t = (trace){.owner = {true, CONEY_STR("\xff")}};
    assert_int_equal(coney_headers_encode(trace_type(), &t, arena, &fields, &count, &fault), CONEY_EINVAL);
    assert_string_equal(fault.text, "x-owner: a text that is not UTF-8");
    deep d = {0};
    assert_int_equal(coney_headers_encode(deep_type(), &d, arena, &fields, &count, &fault), CONEY_EINVAL);
}

static void each_plain_kind_goes_through_headers_and_back(void **state)
{
    (void)state;
    optionals in = {.yes = {true, true},
                    .a8 = {true, -8},
                    .a16 = {true, -16},
                    .a32 = {true, -32},
                    .a64 = {true, INT64_MIN},
                    .b8 = {true, 8},
                    .b16 = {true, 16},
                    .b32 = {true, 32},
                    .b64 = {true, UINT64_MAX},
                    .c32 = {true, 0.5f},
                    .c64 = {true, -0.1},
                    .text = {true, CONEY_STR("text")},
                    .blob = {true, CONEY_STR("\xff")},
                    .at = {true, -1},
                    .status = {true, PHASE_SENT}};
    optionals out;
    const coney_field *fields;
    size_t count;
    coney_fault fault;
    struct headers h;
    coney_type flat = *optionals_type();
    coney_member members[32];
    flat.member_count = 0;
    for (uint32_t i = 0; i < optionals_type()->member_count; i++) {
        const coney_member *member = &optionals_type()->members[i];
        if (member->kind != CONEY_KIND_RAW && strcmp(member->name, "first") != 0)
            members[flat.member_count++] = *member;
    }
    flat.members = members;
    assert_int_equal(coney_headers_encode(&flat, &in, arena, &fields, &count, &fault), CONEY_OK);
    assert_int_equal(count, 15);
    if (coney_headers_decode(headers_of(&h, fields, count), &flat, &out, arena, &fault) != CONEY_OK)
        fail_msg("%s", fault.text);
    assert_true(out.yes.value && out.a8.value == -8 && out.a16.value == -16 && out.a32.value == -32 &&
                out.a64.value == INT64_MIN);
    assert_true(out.b8.value == 8 && out.b16.value == 16 && out.b32.value == 32 && out.b64.value == UINT64_MAX);
    assert_true(out.c32.value == 0.5f && out.c64.value == -0.1 && out.at.value == -1 && out.status.value == PHASE_SENT);
    assert_memory_equal(out.text.value.data, "text", 4);
    assert_memory_equal(out.blob.value.data, "\xff", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_read_from_whatever_type_fits),
        cmocka_unit_test(headers_are_read_from_texts_too),
        cmocka_unit_test(no_headers_are_all_defaults),
        cmocka_unit_test(headers_that_do_not_fit_are_named),
        cmocka_unit_test(headers_are_written_with_the_type_that_they_have),
        cmocka_unit_test(each_plain_kind_goes_through_headers_and_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
