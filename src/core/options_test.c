/* options_test.c: options of older and newer programs, and names. */
#include "core/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void options_of_an_older_program_are_taken_as_they_are(void **state)
{
    (void)state;
    struct {
        int32_t old;
        int32_t new;
    } ours = {0};
    int32_t theirs = 7;
    assert_int_equal(options_copy(&ours, sizeof ours, &theirs, sizeof theirs, NULL), CONEY_OK);
    assert_int_equal(ours.old, 7);
    assert_int_equal(ours.new, 0);
    assert_int_equal(options_copy(&ours, sizeof ours, NULL, sizeof ours, NULL), CONEY_OK);
    assert_int_equal(ours.old, 7);
}

static void options_of_a_newer_program_are_taken_while_what_is_new_is_zero(void **state)
{
    (void)state;
    int32_t theirs[2] = {7, 0}, ours = 0;
    coney_call call = {0};
    assert_int_equal(options_copy(&ours, sizeof ours, theirs, sizeof theirs, &call), CONEY_OK);
    assert_int_equal(ours, 7);
    theirs[1] = 1 << 24;
    assert_int_equal(options_copy(&ours, sizeof ours, theirs, sizeof theirs, &call), CONEY_EUNSUPPORTED);
    assert_non_null(strstr(call.text, coney_version()));
}

static void a_name_is_neither_empty_nor_longer_than_the_broker_takes(void **state)
{
    (void)state;
    char name[257];
    memset(name, 'n', 256);
    name[256] = '\0';
    coney_call call = {0};
    assert_int_equal(name_check("stream", name, 255, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "256"));
    assert_non_null(strstr(call.text, "255"));
    name[255] = '\0';
    assert_int_equal(name_check("stream", name, 255, &call), CONEY_OK);
    assert_int_equal(name_check("stream", "", 255, &call), CONEY_EINVAL);
    assert_int_equal(name_check("stream", NULL, 255, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "stream"));
}

static void a_name_is_one_line_of_utf8(void **state)
{
    (void)state;
    coney_call call = {0};
    assert_int_equal(name_check("stream", "gr\xc3\xbc\xc3\x9f e", 255, &call), CONEY_OK);
    assert_int_equal(name_check("stream", "s\n", 255, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "line end"));
    assert_int_equal(name_check("stream", "a\rb", 255, &call), CONEY_EINVAL);
    assert_int_equal(name_check("stream", "a\xff", 255, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "UTF-8"));
    assert_int_equal(name_check("stream", "cut\xc3", 255, &call), CONEY_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_an_older_program_are_taken_as_they_are),
        cmocka_unit_test(options_of_a_newer_program_are_taken_while_what_is_new_is_zero),
        cmocka_unit_test(a_name_is_neither_empty_nor_longer_than_the_broker_takes),
        cmocka_unit_test(a_name_is_one_line_of_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
