/* Field tables: what is wrong in them, destinations, and the text forms of values. */
#include "codec/codec_fixture.h"
#include "codec/type.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define TWIN(F) F(u8, a) F(u8, b, name("a"))
CONEY_TYPE(twin, TWIN);
#define DEAF(F) F(u8, a, default("256"))
CONEY_TYPE(deaf, DEAF);
#define LATE(F) F(time, a, default("yesterday"))
CONEY_TYPE(late, LATE);
#define BLOB(F) F(bytes, a, default(""))
CONEY_TYPE(blob, BLOB);
#define LISTED(F) F(list, a, u8, default("1"))
CONEY_TYPE(listed, LISTED);
#define LOST(F) F(u8, a)
CONEY_TYPE(lost, LOST, to("x.{b}"));
#define LISTY(F) F(list, a, u8)
CONEY_TYPE(listy, LISTY, to("{a}"));
#define BRACE(F) F(u8, a)
CONEY_TYPE(brace, BRACE, to("{a"));
#define OUTER(F) F(u8, x) F(list_of, inner, twin) F(list_of, more, outer)
CONEY_TYPE(outer, OUTER);
#define SAME(E) E(SAME_A, "x") E(SAME_B, "x")
CONEY_ENUM(same, SAME);
#define WITH_SAME(F) F(enum, e, same)
CONEY_TYPE(with_same, WITH_SAME);
#define PAIR(M) M(line, "x") M(ones, "x")
CONEY_SET(pair, PAIR, header("kind"));
#define ODD(M) M(line, "x") M(phase, "y")
CONEY_SET(odd, ODD);
#define HELD(F) F(message, s, pair)
CONEY_TYPE(held, HELD);

static void a_table_that_cannot_work_is_refused_with_what_and_where(void **state)
{
    (void)state;
    const struct {
        const coney_type *type;
        const char *text;
    } rows[] = {
        {NULL, "the type is NULL"},
        {twin_type(), "type twin: a and b are both \"a\" on the wire"},
        {deaf_type(), "type deaf: the default of member a, \"256\", is no u8"},
        {late_type(), "type late: the default of member a, \"yesterday\", is no time"},
        {blob_type(), "type blob: member a cannot have a default: only bool, numbers, string, time and enum can"},
        {listed_type(), "type listed: member a cannot have a default: only bool, numbers, string, time and enum can"},
        {lost_type(), "type lost: the destination \"x.{b}\" names b, which is no member"},
        {listy_type(), "type listy: the destination \"{a}\" names a, which has no text form"},
        {brace_type(), "type brace: the destination \"{a\" has a brace too many: it names members as {member}"},
        {outer_type(), "type twin: a and b are both \"a\" on the wire"},
        {with_same_type(), "type same: SAME_A and SAME_B are both \"x\" on the wire"},
        {pair_type(), "type pair: line and ones are both \"x\" in the header"},
        {odd_type(), "type odd: variant phase is no message"},
        {held_type(), "type held: member s is a set: only a message as a whole can be one"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        assert_int_equal(coney_type_check(rows[i].type, text, sizeof text), CONEY_EINVAL);
        assert_string_equal(text, rows[i].text);
    }
    char small[10];
    assert_int_equal(coney_type_check(twin_type(), small, sizeof small), CONEY_EINVAL);
    assert_string_equal(small, "type twin");
}

static void a_table_that_works_is_let_through(void **state)
{
    (void)state;
    char text[256] = "old";
    assert_int_equal(coney_type_check(everything_type(), text, sizeof text), CONEY_OK);
    assert_string_equal(text, "");
    assert_int_equal(coney_type_check(phase_type(), NULL, 0), CONEY_OK);
}

#define PARCEL(F)                                                                                                              \
    F(string, city)                                                                                                            \
    F(u64, id) F(i8, low) F(bool, fast) F(f64, weight) F(time, at) F(enum, status, phase) F(optional, floor, i32)
CONEY_TYPE(parcel, PARCEL, to("parcels.{city}.{id}.{low}.{fast}.{weight}.{at}.{status}.{floor}"));
CONEY_TYPE(plainly, LOST, to("fixed"));
CONEY_TYPE(nowhere, LOST);

static void a_destination_is_filled_with_the_texts_of_members(void **state)
{
    (void)state;
    char to[128];
    parcel p = {.city = CONEY_STR("oslo"),
                .id = UINT64_MAX,
                .low = -7,
                .fast = true,
                .weight = 0.1,
                .at = 0,
                .status = PHASE_PAID,
                .floor = {true, -2}};
    assert_int_equal(type_expand_to(parcel_type(), &p, to, sizeof to), CONEY_OK);
    assert_string_equal(to, "parcels.oslo.18446744073709551615.-7.true.0.1.1970-01-01T00:00:00Z.paid.-2");
    assert_int_equal(type_expand_to(parcel_type(), &p, to, strlen(to)), CONEY_ETOOBIG);
    assert_string_equal(to, "");
    p.floor.present = false;
    assert_int_equal(type_expand_to(parcel_type(), &p, to, sizeof to), CONEY_EINVAL);
    p.floor.present = true;
    p.status = (phase)9;
    assert_int_equal(type_expand_to(parcel_type(), &p, to, sizeof to), CONEY_EINVAL);
    p.status = PHASE_NEW;
    p.city = CONEY_STR("a\0b");
    assert_int_equal(type_expand_to(parcel_type(), &p, to, sizeof to), CONEY_EINVAL);
    p.city = coney_bytes_of(NULL, 0);
    assert_int_equal(type_expand_to(parcel_type(), &p, to, sizeof to), CONEY_OK);
    assert_string_equal(to, "parcels..18446744073709551615.-7.true.0.1.1970-01-01T00:00:00Z.new.-2");
    assert_int_equal(type_expand_to(plainly_type(), &p, to, sizeof to), CONEY_OK);
    assert_string_equal(to, "fixed");
    assert_int_equal(type_expand_to(nowhere_type(), &p, to, sizeof to), CONEY_OK);
    assert_string_equal(to, "");
}

static void texts_of_numbers_are_read_to_their_limits_and_no_further(void **state)
{
    (void)state;
    const struct {
        coney_kind kind;
        const char *text;
        bool ok;
    } rows[] = {
        {CONEY_KIND_I8, "-128", true},
        {CONEY_KIND_I8, "-129", false},
        {CONEY_KIND_I8, "127", true},
        {CONEY_KIND_I8, "128", false},
        {CONEY_KIND_I16, "-32768", true},
        {CONEY_KIND_I16, "32768", false},
        {CONEY_KIND_I32, "-2147483648", true},
        {CONEY_KIND_I32, "2147483648", false},
        {CONEY_KIND_I64, "-9223372036854775808", true},
        {CONEY_KIND_I64, "-9223372036854775809", false},
        {CONEY_KIND_I64, "9223372036854775808", false},
        {CONEY_KIND_U8, "255", true},
        {CONEY_KIND_U8, "256", false},
        {CONEY_KIND_U8, "-0", false},
        {CONEY_KIND_U64, "18446744073709551615", true},
        {CONEY_KIND_U64, "18446744073709551616", false},
        {CONEY_KIND_U64, "", false},
        {CONEY_KIND_U64, "1 ", false},
        {CONEY_KIND_U64, "+1", false},
        {CONEY_KIND_I64, "-", false},
        {CONEY_KIND_F64, "1e308", true},
        {CONEY_KIND_F64, "1e309", false},
        {CONEY_KIND_F64, "nan", false},
        {CONEY_KIND_F64, "0x10", false},
        {CONEY_KIND_F64, "1,5", false},
        {CONEY_KIND_F64, "1e", false},
        {CONEY_KIND_F32, "1e38", true},
        {CONEY_KIND_F32, "1e39", false},
        {CONEY_KIND_BOOL, "true", true},
        {CONEY_KIND_BOOL, "1", false},
        {CONEY_KIND_STRING, "\xc3\xa9", true},
        {CONEY_KIND_STRING, "\xc3", false},
        {CONEY_KIND_TIME, "2026-11-30T17:45:00Z", true},
        {CONEY_KIND_BYTES, "", false},
        {CONEY_KIND_RAW, "", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t room[2] = {0};
        struct element element = {NULL, (uint8_t)rows[i].kind};
        if (type_text_parse(element, coney_bytes_str(rows[i].text), room) != rows[i].ok)
            fail_msg("%s as %s", rows[i].text, type_word(element));
    }
}

static void a_number_s_text_reads_back_as_the_number_in_any_locale(void **state)
{
    (void)state;
    static const double numbers[] = {0.1, 1.0 / 3, 1e300, -5e-324, 123456789.125, 0};
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            char buf[TYPE_TEXT_MAX];
            double back = -1;
            struct element element = {NULL, CONEY_KIND_F64};
            coney_bytes text = type_text_of(element, &numbers[i], buf);
            assert_true(type_text_parse(element, text, &back));
            assert_true(back == numbers[i]);
        }
        setlocale(LC_ALL, "de_DE.UTF-8");
    }
    setlocale(LC_ALL, "C");
    float narrow = 0.1f;
    char buf[TYPE_TEXT_MAX];
    coney_bytes text = type_text_of((struct element){NULL, CONEY_KIND_F32}, &narrow, buf);
    assert_int_equal(text.len, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_cannot_work_is_refused_with_what_and_where),
        cmocka_unit_test(a_table_that_works_is_let_through),
        cmocka_unit_test(a_destination_is_filled_with_the_texts_of_members),
        cmocka_unit_test(texts_of_numbers_are_read_to_their_limits_and_no_further),
        cmocka_unit_test(a_number_s_text_reads_back_as_the_number_in_any_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
