/* Sets, wholes or nothing, codecs of a user's own, content types, and builds without a library. */
#include "codec/arena.h"
#include "codec/codec_fixture.h"
#include "codec/missing.h"
#include "codec/set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define MADE(F) F(u64, id) F(string, customer)
CONEY_TYPE(made, MADE);
#define PAID(F) F(u64, id) F(f64, amount)
CONEY_TYPE(paid, PAID);
#define MARK(F) F(u64, id)
CONEY_TYPE(mark, MARK);
#define EVENT(M) M(mark, "order.mark") M(made, "order.made") M(paid)
CONEY_SET(event, EVENT, header("event-type"));

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

static void the_variant_that_leaves_nothing_over_comes_first(void **state)
{
    (void)state;
    event e;
    coney_fault fault;
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{\"id\":1,\"amount\":2.5}"), event_type(), &e, arena, &fault),
                     CONEY_OK);
    assert_ptr_equal(e.is, paid_type());
    assert_true(e.value.as_paid.amount == 2.5);
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{\"id\":1,\"customer\":\"ada\"}"), event_type(), &e, arena, &fault),
                     CONEY_OK);
    assert_ptr_equal(e.is, made_type());
    assert_int_equal(e.value.as_made.customer.len, 3);
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{\"id\":7}"), event_type(), &e, arena, &fault), CONEY_OK);
    assert_ptr_equal(e.is, mark_type());
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{\"id\":8,\"colour\":\"red\"}"), event_type(), &e, arena, &fault),
                     CONEY_OK);
    assert_ptr_equal(e.is, mark_type());
    assert_int_equal(e.value.as_mark.id, 8);
}

static void a_variant_that_fits_leaves_the_fault_alone(void **state)
{
    (void)state;
    event e;
    coney_fault fault = {.path = "p", .text = "t"};
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{\"id\":1,\"amount\":2.5}"), event_type(), &e, arena, &fault),
                     CONEY_OK);
    assert_string_equal(fault.path, "p");
    assert_string_equal(fault.text, "t");
}

static void variants_that_were_tried_leave_no_memory_taken(void **state)
{
    (void)state;
    static char body[256 << 10];
    event e;
    memset(body, ' ', sizeof body);
    memcpy(body, "{}", 2);
    const coney_bytes large = coney_bytes_of(body, sizeof body);
    coney_bytes first = coney_arena_copy(arena, CONEY_STR("first"));
    const uint8_t *at = arena->at;
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{}"), event_type(), &e, arena, NULL), CONEY_ECORRUPT);
    assert_ptr_equal(arena->at, at);
    assert_int_equal(coney_decode(coney_json(), large, event_type(), &e, arena, NULL), CONEY_ECORRUPT);
    const struct arena_chunk *grown = arena->newest;
    for (int i = 0; i < 10; i++)
        assert_int_equal(coney_decode(coney_json(), large, event_type(), &e, arena, NULL), CONEY_ECORRUPT);
    assert_ptr_equal(arena->newest, grown);
    assert_string_equal(first.data, "first");
}

static coney_status mark_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                coney_arena *memory, coney_fault *fault)
{
    (void)codec, (void)body, (void)memory, (void)fault;
    ((mark *)out)->id = 5;
    return type == mark_type() ? CONEY_OK : CONEY_ECORRUPT;
}

static void a_codec_of_the_user_s_own_gets_the_type_itself(void **state)
{
    (void)state;
    static const coney_codec only_marks = {.name = "mark", .content_type = "", .decode = mark_decode};
    event e;
    coney_fault fault;
    const coney_member *variant = set_find(event_type(), CONEY_STR("order.mark"));
    assert_int_equal(set_decode(&only_marks, CONEY_STR(""), event_type(), variant, &e, arena, &fault), CONEY_OK);
    assert_int_equal(e.value.as_mark.id, 5);
}

static void a_set_that_nothing_fits_says_what_each_variant_missed(void **state)
{
    (void)state;
    event e;
    event zero;
    coney_fault fault;
    memset(&zero, 0, sizeof zero);
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{\"customer\":1}"), event_type(), &e, arena, &fault),
                     CONEY_ECORRUPT);
    assert_string_equal(fault.text,
                        "no variant of event fits: mark (id: nothing where u64 is required), made (customer: the number 1 "
                        "where string is expected), paid (id: nothing where u64 is required)");
    assert_string_equal(fault.path, "");
    assert_memory_equal(&e, &zero, sizeof e);
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{"), event_type(), &e, arena, NULL), CONEY_ECORRUPT);
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{"), event_type(), &e, arena, &fault), CONEY_ECORRUPT);
    assert_string_equal(fault.text, "not JSON: it ends too early at byte 1");
}

static void a_variant_that_was_chosen_is_the_only_one(void **state)
{
    (void)state;
    event e;
    coney_fault fault;
    const coney_member *variant = set_find(event_type(), CONEY_STR("order.made"));
    assert_string_equal(variant->name, "made");
    assert_string_equal(set_find(event_type(), CONEY_STR("paid"))->name, "paid");
    assert_null(set_find(event_type(), CONEY_STR("made")));
    assert_int_equal(set_decode(coney_json(), CONEY_STR("{\"id\":1,\"customer\":\"x\",\"more\":1}"), event_type(), variant, &e,
                                arena, &fault),
                     CONEY_OK);
    assert_ptr_equal(e.is, made_type());
    assert_int_equal(set_decode(coney_json(), CONEY_STR("{\"id\":1}"), event_type(), variant, &e, arena, &fault),
                     CONEY_ECORRUPT);
    assert_string_equal(fault.text, "customer: nothing where string is required");
    assert_null(e.is);
}

static void a_set_is_written_as_the_variant_that_it_is(void **state)
{
    (void)state;
    coney_sink sink = {0};
    coney_fault fault;
    event e = {.is = paid_type(), .value.as_paid = {.id = 3, .amount = 1}};
    assert_int_equal(coney_encode(coney_json(), event_type(), &e, &sink, NULL, &fault), CONEY_OK);
    assert_int_equal(sink.len, strlen("{\"id\":3,\"amount\":1.0}"));
    assert_memory_equal(sink.data, "{\"id\":3,\"amount\":1.0}", sink.len);
    e.is = line_type();
    assert_int_equal(coney_encode(coney_json(), event_type(), &e, &sink, NULL, &fault), CONEY_EINVAL);
    assert_string_equal(fault.text, "event: `is` is no variant of it");
    coney_sink_free(&sink);
}

static void what_is_not_given_is_named(void **state)
{
    (void)state;
    mark m = {0};
    phase p;
    coney_sink sink = {0};
    coney_fault fault;
    assert_int_equal(coney_decode(NULL, CONEY_STR("{}"), mark_type(), &m, arena, &fault), CONEY_EINVAL);
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{}"), mark_type(), &m, NULL, NULL), CONEY_EINVAL);
    assert_int_equal(coney_decode(coney_json(), coney_bytes_of(NULL, 1), mark_type(), &m, arena, NULL), CONEY_EINVAL);
    assert_int_equal(coney_encode(coney_json(), mark_type(), NULL, &sink, NULL, &fault), CONEY_EINVAL);
    assert_int_equal(coney_decode(coney_json(), CONEY_STR("{}"), phase_type(), &p, arena, &fault), CONEY_EINVAL);
    assert_string_equal(fault.text, "phase is no message");
    assert_int_equal(coney_encode(coney_json(), phase_type(), &m, &sink, NULL, &fault), CONEY_EINVAL);
    sink.failed = 1;
    assert_int_equal(coney_encode(coney_json(), mark_type(), &m, &sink, NULL, &fault), CONEY_ENOMEM);
    assert_int_equal(sink.failed, 1);
}

/* A codec that stands in front of another and turns every byte around. */
struct turned {
    coney_codec codec;
    const coney_codec *inner;
};

static coney_status turned_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                  coney_arena *memory, coney_fault *fault)
{
    const struct turned *t = (const struct turned *)(const void *)codec;
    uint8_t *plain = coney_arena_alloc(memory, body.len);
    for (size_t i = 0; i < body.len; i++)
        plain[i] = (uint8_t) ~((const uint8_t *)body.data)[i];
    return t->inner->decode(t->inner, coney_bytes_of(plain, body.len), type, out, memory, fault);
}

static coney_status turned_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                  coney_arena *memory, coney_fault *fault)
{
    const struct turned *t = (const struct turned *)(const void *)codec;
    size_t before = sink->len;
    coney_status status = t->inner->encode(t->inner, type, value, sink, memory, fault);
    for (size_t i = before; i < sink->len; i++)
        sink->data[i] = (uint8_t)~sink->data[i];
    return status;
}

static void a_codec_of_the_user_s_own_wraps_another(void **state)
{
    (void)state;
    static struct turned t = {
        .codec = {.name = "turned", .content_type = "", .decode = turned_decode, .encode = turned_encode}};
    t.inner = coney_msgpack();
    mark in = {.id = 99};
    mark out;
    coney_sink sink = {0};
    assert_int_equal(coney_encode(&t.codec, mark_type(), &in, &sink, NULL, NULL), CONEY_OK);
    assert_int_equal(sink.data[0], 0x7e);
    assert_int_equal(coney_decode(&t.codec, coney_bytes_of(sink.data, sink.len), mark_type(), &out, arena, NULL), CONEY_OK);
    assert_int_equal(out.id, 99);
    assert_true(coney_codec_takes(&t.codec, CONEY_STR("anything/else")));
    coney_sink_free(&sink);
}

static void content_types_are_compared_without_case_and_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *codec;
        const char *type;
        bool takes;
    } rows[] = {
        {"json", "", true},
        {"json", "application/json", true},
        {"json", "Application/JSON ; charset=utf-8", true},
        {"json", "text/json", true},
        {"json", "application/problem+json", true},
        {"json", "+json", false},
        {"json", "application/jsonp", false},
        {"json", "application/cbor", false},
        {"json", "text/plain", false},
        {"cbor", "application/cbor", true},
        {"cbor", "application/senml+cbor", false},
        {"cbor", "application/json", false},
        {"msgpack", "application/msgpack", true},
        {"msgpack", "application/x-msgpack;v=5", true},
        {"msgpack", "x-msgpack", false},
    };
    const coney_codec *const codecs[] = {coney_json(), coney_cbor(), coney_msgpack()};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t c = 0; c < 3; c++)
            if (strcmp(codecs[c]->name, rows[i].codec) == 0 &&
                coney_codec_takes(codecs[c], coney_bytes_str(rows[i].type)) != rows[i].takes)
                fail_msg("%s, \"%s\"", rows[i].codec, rows[i].type);
    assert_true(coney_codec_takes(coney_json(), coney_bytes_of(NULL, 0)));
}

static void a_build_without_the_library_says_how_to_get_it(void **state)
{
    (void)state;
    static const coney_codec json = {.name = "json", .content_type = "", .decode = missing_decode, .encode = missing_encode};
    mark m = {0};
    coney_sink sink = {0};
    coney_fault fault = {.path = "old"};
    assert_int_equal(coney_decode(&json, CONEY_STR("{}"), mark_type(), &m, arena, &fault), CONEY_EUNSUPPORTED);
    assert_string_equal(fault.text, "this build of coney has no JSON codec: build it with -DCONEY_JSON=ON");
    assert_string_equal(fault.path, "");
    assert_int_equal(coney_encode(&json, mark_type(), &m, &sink, NULL, NULL), CONEY_EUNSUPPORTED);
    event e;
    fault.text[0] = '\0';
    assert_int_equal(coney_decode(&json, CONEY_STR("{}"), event_type(), &e, arena, &fault), CONEY_EUNSUPPORTED);
    assert_string_equal(fault.text, "this build of coney has no JSON codec: build it with -DCONEY_JSON=ON");
}

/* The part of a fault's path that fits is its end. */
static void a_long_path_is_cut_at_the_front(void **state)
{
    (void)state;
    char body[4096];
    size_t len = 0;
    everything e;
    coney_fault fault;
    for (int i = 0; i < 20; i++)
        len +=
            (size_t)snprintf(body + len, sizeof body - len, "{\"l\":{},\"p\":{},\"m\":{},\"by\":{\"a rather long key %d\":", i);
    len += (size_t)snprintf(body + len, sizeof body - len, "{\"p\":7");
    for (int i = 0; i < 20; i++)
        len += (size_t)snprintf(body + len, sizeof body - len, "}}");
    len += (size_t)snprintf(body + len, sizeof body - len, "}");
    assert_int_equal(coney_decode(coney_json(), coney_bytes_of(body, len), everything_type(), &e, arena, &fault),
                     CONEY_ECORRUPT);
    assert_memory_equal(fault.path, "...", 3);
    assert_non_null(strstr(fault.path, ".by[\"a rather long key 19\"].p"));
    assert_non_null(strstr(fault.text, ".p: the number 7 where an object optionals is expected"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_variant_that_leaves_nothing_over_comes_first),
        cmocka_unit_test(a_variant_that_fits_leaves_the_fault_alone),
        cmocka_unit_test(variants_that_were_tried_leave_no_memory_taken),
        cmocka_unit_test(a_codec_of_the_user_s_own_gets_the_type_itself),
        cmocka_unit_test(a_set_that_nothing_fits_says_what_each_variant_missed),
        cmocka_unit_test(a_variant_that_was_chosen_is_the_only_one),
        cmocka_unit_test(a_set_is_written_as_the_variant_that_it_is),
        cmocka_unit_test(what_is_not_given_is_named),
        cmocka_unit_test(a_codec_of_the_user_s_own_wraps_another),
        cmocka_unit_test(content_types_are_compared_without_case_and_parameters),
        cmocka_unit_test(a_build_without_the_library_says_how_to_get_it),
        cmocka_unit_test(a_long_path_is_cut_at_the_front),
    };
    if (!codec_is_here(coney_json()) || !codec_is_here(coney_msgpack()))
        return 77; /* skipped */
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
