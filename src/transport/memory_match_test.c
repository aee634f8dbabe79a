/* memory_match_test.c: patterns of topics, keys of topic exchanges, and headers exchanges. */
#include "transport/memory_match.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static coney_bytes b(const char *text)
{
    return coney_bytes_str(text);
}

static void a_topic_pattern_matches_word_by_word(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *topic;
        bool matches;
    } rows[] = {
        {"orders", "orders", true},         {"orders", "order", false},        {"orders.*", "orders.eu", true},
        {"orders.*", "orders", false},      {"orders.*", "orders.a.b", false}, {"orders.>", "orders.a.b", true},
        {"orders.>", "orders", false},      {">", "anything", true},           {"*.created", "order.created", true},
        {"*.created", "order.paid", false}, {"a.*.c", "a.b.c", true},          {"a.*.c", "a.b.c.d", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (memory_topic_matches(b(rows[i].pattern), b(rows[i].topic)) != rows[i].matches)
            fail_msg("%s against %s", rows[i].pattern, rows[i].topic);
}

static void a_topic_with_an_empty_word_or_a_star_inside_a_word_is_not_valid(void **state)
{
    (void)state;
    assert_true(memory_topic_is_valid(b("a.b")));
    assert_true(memory_topic_is_valid(b("a.*.>")));
    static const char *const bad[] = {"", ".", "a..b", "a.", ".a", "a*", "a.b>", "a.>.b", "**"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (memory_topic_is_valid(b(bad[i])))
            fail_msg("'%s' passes as valid", bad[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(memory_topic_is_single(b(bad[i])));
    assert_true(memory_topic_is_single(b("a.b")));
    assert_false(memory_topic_is_single(b("a.*")));
    assert_true(memory_topic_is_pattern(b("a.*")));
    assert_false(memory_topic_is_pattern(b("a.b")));
}

static void a_literal_is_more_specific_than_a_star_and_a_star_than_the_rest(void **state)
{
    (void)state;
    assert_true(memory_topic_compare(b("a.b"), b("a.*")) > 0);
    assert_true(memory_topic_compare(b("a.*"), b("a.>")) > 0);
    assert_true(memory_topic_compare(b("*.b"), b("a.*")) < 0);
    assert_int_equal(memory_topic_compare(b("a.*"), b("a.*")), 0);
}

static void a_topic_exchange_knows_star_and_hash(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *key;
        bool matches;
    } rows[] = {
        {"#", "", true},
        {"#", "a.b", true},
        {"a.#", "a", true},
        {"a.#", "a.b.c", true},
        {"#.c", "a.b.c", true},
        {"#.c", "c", true},
        {"#.c", "c.d", false},
        {"a.*", "a", false},
        {"a.*", "a.b", true},
        {"a.*.#", "a.b", true},
        {"a.#.b", "a.b", true},
        {"a.#.b", "a.x.y.b", true},
        {"a.#.b", "a.x.y", false},
        {"*", "", false},
        {"", "", true},
        {"", "a", false},
        {"#.#", "", true},
        {"#.b.#", "a.b.c", true},
        {"#.b.#.d", "b.b.c.d", true},
        {"#.b.#.d", "a.c.d", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (memory_key_matches(b(rows[i].pattern), b(rows[i].key)) != rows[i].matches)
            fail_msg("'%s' against '%s'", rows[i].pattern, rows[i].key);
}

static coney_value headers_of(coney_builder *builder, uint8_t *memory, size_t cap, const coney_field *fields, size_t count)
{
    coney_builder_init_table(builder, memory, cap);
    coney_builder_begin(builder, CONEY_VALUE_MAP);
    for (size_t i = 0; i < count; i++)
        coney_builder_put(builder, fields[i].key, fields[i].value);
    coney_builder_end(builder);
    coney_value map;
    assert_int_equal(coney_builder_finish(builder, &map), CONEY_OK);
    return map;
}

static void a_headers_exchange_matches_all_or_any_with_or_without_x(void **state)
{
    (void)state;
    uint8_t memory[256];
    coney_builder builder;
    const coney_field given[] = {{CONEY_STR_INIT("region"), coney_value_string(CONEY_STR("eu"))},
                                 {CONEY_STR_INIT("size"), coney_value_i32(3)},
                                 {CONEY_STR_INIT("x-kind"), coney_value_string(CONEY_STR("b"))}};
    coney_value headers = headers_of(&builder, memory, sizeof memory, given, 3);
    const coney_value null = coney_value_null();
    struct {
        const char *how;
        coney_field one, two;
        bool matches;
    } rows[] = {
        {"all", {CONEY_STR("region"), coney_value_string(CONEY_STR("eu"))}, {CONEY_STR("size"), coney_value_i64(3)}, true},
        {"all", {CONEY_STR("region"), coney_value_string(CONEY_STR("us"))}, {CONEY_STR("size"), coney_value_i64(3)}, false},
        {"any", {CONEY_STR("region"), coney_value_string(CONEY_STR("us"))}, {CONEY_STR("size"), coney_value_i64(3)}, true},
        {"any", {CONEY_STR("region"), coney_value_string(CONEY_STR("us"))}, {CONEY_STR("colour"), null}, false},
        {"all", {CONEY_STR("region"), null}, {CONEY_STR("size"), null}, true},
        {"all", {CONEY_STR("x-kind"), coney_value_string(CONEY_STR("a"))}, {CONEY_STR("size"), null}, true},
        {"all-with-x", {CONEY_STR("x-kind"), coney_value_string(CONEY_STR("a"))}, {CONEY_STR("size"), null}, false},
        {"any-with-x", {CONEY_STR("x-kind"), coney_value_string(CONEY_STR("b"))}, {CONEY_STR("colour"), null}, true},
        {"any", {CONEY_STR("x-kind"), coney_value_string(CONEY_STR("b"))}, {CONEY_STR("colour"), null}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_field arguments[] = {{CONEY_STR("x-match"), coney_value_string(b(rows[i].how))}, rows[i].one, rows[i].two};
        if (memory_headers_match(arguments, 3, &headers) != rows[i].matches)
            fail_msg("row %zu (%s)", i, rows[i].how);
    }
    assert_true(memory_headers_match(NULL, 0, &null)); /* a binding without arguments takes everything */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_pattern_matches_word_by_word),
        cmocka_unit_test(a_topic_with_an_empty_word_or_a_star_inside_a_word_is_not_valid),
        cmocka_unit_test(a_literal_is_more_specific_than_a_star_and_a_star_than_the_rest),
        cmocka_unit_test(a_topic_exchange_knows_star_and_hash),
        cmocka_unit_test(a_headers_exchange_matches_all_or_any_with_or_without_x),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
