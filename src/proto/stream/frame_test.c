#include "proto/stream/codec.h"
#include "proto/stream/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void fewer_than_four_bytes_ask_for_more(void **state)
{
    (void)state;
    for (size_t len = 0; len < 4; len++) {
        coney_bytes some = exact_copy("\0\0\0\4", len);
        const char *field = "untouched";
        assert_int_equal(stream_frame_size(some.data, some.len, 100, &field), 0);
        assert_null(field);
        release(some);
    }
}

static void a_size_field_says_how_long_its_frame_is_before_the_frame_is_there(void **state)
{
    (void)state;
    const char *field;
    assert_int_equal(stream_frame_size("\0\0\0\4", 4, 100, &field), 8);
    assert_null(field);
    assert_int_equal(stream_frame_size("\0\x10\0\0", 4, 1048576, &field), 1048580);
    assert_null(field);
    assert_int_equal(stream_frame_size("\xff\xff\xff\xff", 4, UINT32_MAX, &field), UINT64_C(0x100000003));
    assert_null(field);
}

static void the_limit_does_not_count_the_size_field(void **state)
{
    (void)state;
    const char *field;
    assert_int_equal(stream_frame_size("\0\0\x4e\x20", 4, 20000, &field), 20004);
    assert_null(field);
    assert_int_equal(stream_frame_size("\0\0\x4e\x21", 4, 20000, &field), 0);
    assert_string_equal(field, "frame.size");
}

static void a_size_too_small_for_key_and_version_is_refused_and_named(void **state)
{
    (void)state;
    for (char size = 0; size < 4; size++) {
        const char bytes[4] = {0, 0, 0, size};
        const char *field;
        assert_int_equal(stream_frame_size(bytes, 4, 100, &field), 0);
        assert_string_equal(field, "frame.size");
    }
}

static void two_frames_in_one_run_are_cut_apart(void **state)
{
    (void)state;
    coney_bytes run = bytes_of("00000004 0017 0001  00000007 0009 0001 09 0001");
    const uint8_t *at = run.data;
    const char *field;
    size_t first = stream_frame_size(at, run.len, 100, &field);
    assert_int_equal(first, 8);
    assert_int_equal(stream_body_key(stream_frame_body(at, first)), STREAM_HEARTBEAT);
    size_t second = stream_frame_size(at + first, run.len - first, 100, &field);
    assert_int_equal(first + second, run.len);
    coney_bytes body = stream_frame_body(at + first, second);
    assert_int_equal(body.len, 7);
    assert_int_equal(stream_body_key(body), STREAM_CREDIT);
    release(run);
}

static void every_code_has_words_of_its_own(void **state)
{
    (void)state;
    for (uint16_t code = 1; code <= STREAM_CODE_LAST; code++) {
        assert_string_not_equal(stream_code_name(code), "unknown code");
        for (uint16_t other = 1; other < code; other++)
            assert_string_not_equal(stream_code_name(code), stream_code_name(other));
    }
    assert_string_equal(stream_code_name(2), "stream does not exist");
    assert_string_equal(stream_code_name(19), "no offset");
    assert_string_equal(stream_code_name(0), "unknown code");
    assert_string_equal(stream_code_name(STREAM_CODE_LAST + 1), "unknown code");
    assert_string_equal(stream_code_name(UINT16_MAX), "unknown code");
}

static void every_command_stands_at_its_key_with_a_name_of_its_own(void **state)
{
    (void)state;
    for (uint16_t key = 1; key <= STREAM_KEY_LAST; key++) {
        const struct stream_command *command = stream_command_of(key);
        assert_int_equal(command->key, key);
        assert_string_equal(command->name, stream_key_name(key));
        for (uint16_t other = 1; other < key; other++)
            assert_string_not_equal(command->name, stream_key_name(other));
    }
    assert_string_equal(stream_key_name(STREAM_SUBSCRIBE), "Subscribe");
    assert_string_equal(stream_key_name(STREAM_SUBSCRIBE | STREAM_RESPONSE_BIT), "Subscribe");
    assert_string_equal(stream_key_name(STREAM_KEY_LAST + 1), "unknown command");
    assert_null(stream_command_of(0));
    assert_null(stream_command_of(STREAM_KEY_LAST + 1));
    assert_null(stream_command_of(UINT16_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_than_four_bytes_ask_for_more),
        cmocka_unit_test(a_size_field_says_how_long_its_frame_is_before_the_frame_is_there),
        cmocka_unit_test(the_limit_does_not_count_the_size_field),
        cmocka_unit_test(a_size_too_small_for_key_and_version_is_refused_and_named),
        cmocka_unit_test(two_frames_in_one_run_are_cut_apart),
        cmocka_unit_test(every_code_has_words_of_its_own),
        cmocka_unit_test(every_command_stands_at_its_key_with_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
