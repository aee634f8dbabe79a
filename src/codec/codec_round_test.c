/* Every kind in every shape, written and read back by every codec. */
#include "codec/codec_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const raws[] = {"[1, {\"a\":null}]", "\x82\x01\x20", "\x92\x01\xff"};

struct round {
    const coney_codec *codec;
    coney_bytes raw; /* any one value in its form */
};

/* The codecs of this build; the last is NULL. */
static const struct round *rounds(void)
{
    static struct round all[4];
    const coney_codec *const codecs[] = {coney_json(), coney_cbor(), coney_msgpack()};
    size_t count = 0;
    for (size_t i = 0; i < 3; i++)
        if (codec_is_here(codecs[i]))
            all[count++] = (struct round){codecs[i], coney_bytes_str(raws[i])};
    return all;
}

static ones sample(coney_bytes raw)
{
    return (ones){
        .yes = true,
        .a8 = INT8_MIN,
        .a16 = INT16_MIN,
        .a32 = INT32_MIN,
        .a64 = INT64_MIN,
        .b8 = UINT8_MAX,
        .b16 = UINT16_MAX,
        .b32 = UINT32_MAX,
        .b64 = UINT64_MAX,
        .c32 = 0.1f,
        .c64 = -1.7976931348623157e308,
        .text = CONEY_STR("caf\xc3\xa9 \"q\" \\ \n \0 x and more than sixteen"),
        .blob = CONEY_STR("\0\xff\x80 z"),
        .at = 1764524700125,
        .any = raw,
        .status = PHASE_SENT,
        .first = {.sku = CONEY_STR("a-1"), .quantity = 7, .note = {true, CONEY_STR("")}},
    };
}

static void assert_same_bytes(coney_bytes a, coney_bytes b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
}

static void assert_same_ones(const ones *a, const ones *b)
{
    assert_true(a->yes == b->yes);
    assert_int_equal(a->a8, b->a8);
    assert_int_equal(a->a16, b->a16);
    assert_int_equal(a->a32, b->a32);
    assert_true(a->a64 == b->a64);
    assert_int_equal(a->b8, b->b8);
    assert_int_equal(a->b16, b->b16);
    assert_int_equal(a->b32, b->b32);
    assert_true(a->b64 == b->b64);
    assert_true(a->c32 == b->c32);
    assert_true(a->c64 == b->c64);
    assert_same_bytes(a->text, b->text);
    assert_same_bytes(a->blob, b->blob);
    assert_true(a->at == b->at);
    assert_same_bytes(a->any, b->any);
    assert_int_equal(a->status, b->status);
    assert_same_bytes(a->first.sku, b->first.sku);
    assert_int_equal(a->first.quantity, b->first.quantity);
    assert_true(a->first.note.present == b->first.note.present);
    assert_same_bytes(a->first.note.value, b->first.note.value);
}

/* Writes the value, reads it from memory of the exact size that is gone before anybody looks, and writes it again. */
static void round_trip(const coney_codec *codec, const coney_type *type, const void *value, void *out, coney_arena *arena)
{
    coney_sink first = {0};
    coney_sink second = {0};
    coney_fault fault = {.text = ""};
    if (coney_encode(codec, type, value, &first, NULL, &fault) != CONEY_OK)
        fail_msg("%s: %s", codec->name, fault.text);
    uint8_t *body = malloc(first.len);
    assert_non_null(body);
    memcpy(body, first.data, first.len);
    if (coney_decode(codec, coney_bytes_of(body, first.len), type, out, arena, &fault) != CONEY_OK)
        fail_msg("%s: %s", codec->name, fault.text);
    memset(body, 0xee, first.len);
    free(body);
    if (coney_encode(codec, type, out, &second, arena, &fault) != CONEY_OK)
        fail_msg("%s: %s", codec->name, fault.text);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);
    coney_sink_free(&first);
    coney_sink_free(&second);
}

static void each_kind_alone_comes_back_as_it_went(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        ones in = sample(r->raw);
        ones out;
        round_trip(r->codec, ones_type(), &in, &out, arena);
        assert_same_ones(&in, &out);
        coney_arena_reset(arena);
    }
    coney_arena_free(&arena);
}

static void an_optional_of_each_kind_is_there_or_not(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        optionals in = {
            .yes = {true, false},
            .a8 = {true, -1},
            .a64 = {true, -129},
            .b64 = {true, 1u << 31},
            .c32 = {true, 3},
            .c64 = {true, 0.30000000000000004},
            .text = {true, CONEY_STR("t")},
            .blob = {true, CONEY_STR("")},
            .at = {true, -1},
            .any = {true, r->raw},
            .status = {true, PHASE_PAID},
            .first = {true, {.sku = CONEY_STR("s"), .quantity = 1}},
        };
        optionals out;
        round_trip(r->codec, optionals_type(), &in, &out, arena);
        assert_true(out.yes.present && !out.yes.value);
        assert_true(out.a8.present && out.a8.value == -1);
        assert_true(out.a64.present && out.a64.value == -129);
        assert_true(out.b64.present && out.b64.value == 1u << 31);
        assert_true(out.c32.present && out.c32.value == 3);
        assert_true(out.c64.present && out.c64.value == in.c64.value);
        assert_true(out.blob.present && out.blob.value.len == 0);
        assert_true(out.at.present && out.at.value == -1);
        assert_true(out.status.present && out.status.value == PHASE_PAID);
        assert_true(out.first.present && out.first.value.quantity == 1 && !out.first.value.note.present);
        assert_same_bytes(out.any.value, r->raw);
        assert_false(out.a16.present || out.a32.present || out.b8.present || out.b16.present || out.b32.present);

        optionals none = {0};
        round_trip(r->codec, optionals_type(), &none, &out, arena);
        assert_memory_equal(&out, &none, sizeof none);
    }
    coney_arena_free(&arena);
}

static void assert_ends_in_nul(coney_bytes text)
{
    assert_int_equal(((const char *)text.data)[text.len], '\0');
}

/* Body, members, elements and keys; short, empty, with escapes, without; between others, and at the end. */
static void a_decoded_string_ends_in_a_nul_that_is_not_counted(void **state)
{
    (void)state;
    const coney_bytes texts[] = {CONEY_STR("a"), CONEY_STR(""), CONEY_STR("\"q\" \\ \n"),
                                 CONEY_STR("more than sixteen, \xc3\xa9")};
    coney_entry_string items[4];
    for (size_t i = 0; i < 4; i++)
        items[i] = (coney_entry_string){.key = texts[i], .value = texts[3 - i]};
    coney_arena *arena = coney_arena_new();
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        lists in_lists = {.text = {texts, 4}};
        lists out_lists;
        round_trip(r->codec, lists_type(), &in_lists, &out_lists, arena);
        maps in_maps = {.text = {items, 4}};
        maps out_maps;
        round_trip(r->codec, maps_type(), &in_maps, &out_maps, arena);
        for (size_t i = 0; i < 4; i++) {
            assert_ends_in_nul(out_lists.text.items[i]);
            assert_ends_in_nul(out_maps.text.items[i].key);
            assert_ends_in_nul(out_maps.text.items[i].value);
            line in = {.sku = texts[i], .quantity = 1, .note = {true, texts[3 - i]}};
            line out;
            round_trip(r->codec, line_type(), &in, &out, arena);
            assert_ends_in_nul(out.sku);
            assert_ends_in_nul(out.note.value);
        }
        coney_arena_reset(arena);
    }
    coney_arena_free(&arena);
}

enum { MANY = 300 };

static void lists_of_each_kind_keep_their_order(void **state)
{
    (void)state;
    static int16_t numbers[MANY];
    static const double reals[] = {0, -0.0, 1e-320, 1e22, 123456.789};
    static const bool flags[] = {true, false, true};
    static const phase phases[] = {PHASE_PAID, PHASE_NEW};
    for (int i = 0; i < MANY; i++)
        numbers[i] = (int16_t)(i * 200 - 30000);
    coney_arena *arena = coney_arena_new();
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        const coney_bytes texts[] = {CONEY_STR("a"), CONEY_STR(""), CONEY_STR("\xf0\x9f\x90\xb0")};
        const coney_bytes any[] = {r->raw, r->raw, r->raw};
        const line rows[] = {{.sku = CONEY_STR("x"), .quantity = 2}, {.sku = CONEY_STR("y"), .note = {true, CONEY_STR("n")}}};
        const int64_t times[] = {0, -62135596800000, 253402300799000};
        lists in = {.a16 = {numbers, MANY},
                    .c64 = {reals, 5},
                    .yes = {flags, 3},
                    .text = {texts, 3},
                    .blob = {texts, 3},
                    .any = {any, 3},
                    .at = {times, 3},
                    .status = {phases, 2},
                    .first = {rows, 2}};
        lists out;
        round_trip(r->codec, lists_type(), &in, &out, arena);
        assert_int_equal(out.a16.count, MANY);
        assert_memory_equal(out.a16.items, numbers, sizeof numbers);
        assert_memory_equal(out.c64.items, reals, sizeof reals);
        assert_true(out.yes.items[0] && !out.yes.items[1] && out.yes.items[2]);
        assert_same_bytes(out.text.items[2], texts[2]);
        assert_same_bytes(out.any.items[2], r->raw);
        assert_memory_equal(out.at.items, times, sizeof times);
        assert_int_equal(out.status.items[1], PHASE_NEW);
        assert_same_bytes(out.first.items[1].note.value, rows[1].note.value);
        assert_int_equal(out.b64.count, 0);
        assert_null(out.b64.items);
    }
    coney_arena_free(&arena);
}

static void maps_of_each_kind_keep_their_keys(void **state)
{
    (void)state;
    static coney_entry_u32 numbers[MANY];
    static char names[MANY][8];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i * 7 % MANY);
        numbers[i] = (coney_entry_u32){coney_bytes_str(names[i]), (uint32_t)i * 1000};
    }
    coney_arena *arena = coney_arena_new();
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        const coney_entry_raw any[] = {{CONEY_STR(""), r->raw}, {CONEY_STR("\"\n"), r->raw}};
        const line_entry rows[] = {{CONEY_STR("first"), {.sku = CONEY_STR("x")}}, {CONEY_STR("second"), {.quantity = 9}}};
        const phase_entry phases[] = {{CONEY_STR("s"), PHASE_PAID}};
        maps in = {.b32 = {numbers, MANY}, .any = {any, 2}, .first = {rows, 2}, .status = {phases, 1}};
        maps out;
        round_trip(r->codec, maps_type(), &in, &out, arena);
        assert_int_equal(out.b32.count, MANY);
        assert_same_bytes(out.b32.items[MANY - 1].key, numbers[MANY - 1].key);
        assert_int_equal(out.b32.items[MANY - 1].value, numbers[MANY - 1].value);
        assert_same_bytes(out.any.items[1].key, any[1].key);
        assert_same_bytes(out.any.items[1].value, r->raw);
        assert_same_bytes(out.first.items[1].key, rows[1].key);
        assert_int_equal(out.first.items[1].value.quantity, 9);
        assert_int_equal(out.status.items[0].value, PHASE_PAID);
    }
    coney_arena_free(&arena);
}

static void a_type_in_lists_and_maps_of_itself_nests(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        everything leaf = {.o = {true, sample(r->raw)}};
        everything_entry entry = {CONEY_STR("leaf"), leaf};
        everything middle[] = {leaf, {.by = {&entry, 1}}, leaf};
        everything root = {.children = {middle, 3}};
        everything out;
        round_trip(r->codec, everything_type(), &root, &out, arena);
        assert_int_equal(out.children.count, 3);
        assert_same_ones(&out.children.items[1].by.items[0].value.o.value, &leaf.o.value);
    }
    coney_arena_free(&arena);
}

/* A value of `depth` messages in one another, each in a list, and the last with lists in a message of its own. */
static coney_status encode_nested(const coney_codec *codec, size_t depth, coney_fault *fault)
{
    static everything chain[100];
    coney_sink sink = {0};
    for (size_t i = 0; i < depth; i++)
        chain[i] = (everything){.children = {&chain[i + 1], i + 1 < depth ? 1 : 0}};
    coney_status status = coney_encode(codec, everything_type(), &chain[0], &sink, NULL, fault);
    assert_int_equal(sink.len > 0, status == CONEY_OK);
    coney_sink_free(&sink);
    return status;
}

static void what_nests_deeper_than_64_is_not_written(void **state)
{
    (void)state;
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        coney_fault fault;
        assert_int_equal(encode_nested(r->codec, 31, &fault), CONEY_OK);
        assert_int_equal(encode_nested(r->codec, 32, &fault), CONEY_EINVAL);
        assert_non_null(strstr(fault.text, "children[0].l.yes: nested deeper than 64"));
        assert_memory_equal(fault.path, "...", 3);
    }
}

static void what_has_no_form_on_the_wire_is_refused_and_the_sink_is_as_it_was(void **state)
{
    (void)state;
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        bool json = strcmp(r->codec->name, "json") == 0;
        coney_bytes broken = CONEY_STR("plain \xc3");
        const coney_entry_string entry = {CONEY_STR("k"), broken};
        struct {
            const char *text;
            const coney_type *type;
            ones one;
            maps map;
        } rows[] = {
            {"text: a text that is not UTF-8", ones_type(), .one = sample(r->raw)},
            {"status: a number that is no constant of phase", ones_type(), .one = sample(r->raw)},
            {json ? "any: raw, but not JSON: it ends too early at byte 1" : "any: raw, but not one item of ", ones_type(),
             .one = sample(r->raw)},
            {"text[\"k\"]: a text that is not UTF-8", maps_type(), .map = {.text = {&entry, 1}}},
        };
        rows[0].one.text = broken;
        rows[1].one.status = (phase)77;
        rows[2].one.any = json ? CONEY_STR("[") : CONEY_STR("\x92\x01");
        if (!json && strcmp(r->codec->name, "cbor") == 0)
            rows[2].one.any = CONEY_STR("\x82\x01");
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            coney_sink sink = {0};
            coney_fault fault;
            coney_sink_write(&sink, "before", 6);
            const void *value = rows[i].type == maps_type() ? (const void *)&rows[i].map : &rows[i].one;
            assert_int_equal(coney_encode(r->codec, rows[i].type, value, &sink, NULL, &fault), CONEY_EINVAL);
            if (strncmp(fault.text, rows[i].text, strlen(rows[i].text)) != 0)
                fail_msg("%s: \"%s\" where \"%s\" was expected", r->codec->name, fault.text, rows[i].text);
            assert_int_equal(sink.len, 6);
            coney_sink_free(&sink);
        }
    }
}

static void a_warm_arena_and_a_warm_sink_take_no_more_memory(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    for (const struct round *r = rounds(); r->codec != NULL; r++) {
        ones in = sample(r->raw);
        ones out;
        coney_sink sink = {0};
        const void *place = NULL;
        for (int i = 0; i < 10; i++) {
            coney_arena_reset(arena);
            sink.len = 0;
            assert_int_equal(coney_encode(r->codec, ones_type(), &in, &sink, arena, NULL), CONEY_OK);
            assert_int_equal(coney_decode(r->codec, coney_bytes_of(sink.data, sink.len), ones_type(), &out, arena, NULL),
                             CONEY_OK);
            if (i > 2)
                assert_ptr_equal(out.blob.data, place);
            place = out.blob.data;
        }
        coney_sink_free(&sink);
    }
    coney_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_alone_comes_back_as_it_went),
        cmocka_unit_test(an_optional_of_each_kind_is_there_or_not),
        cmocka_unit_test(a_decoded_string_ends_in_a_nul_that_is_not_counted),
        cmocka_unit_test(lists_of_each_kind_keep_their_order),
        cmocka_unit_test(maps_of_each_kind_keep_their_keys),
        cmocka_unit_test(a_type_in_lists_and_maps_of_itself_nests),
        cmocka_unit_test(what_nests_deeper_than_64_is_not_written),
        cmocka_unit_test(what_has_no_form_on_the_wire_is_refused_and_the_sink_is_as_it_was),
        cmocka_unit_test(a_warm_arena_and_a_warm_sink_take_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
