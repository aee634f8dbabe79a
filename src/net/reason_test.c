/* reason_test.c: an errno speaks. */
#include "net/reason.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void what_users_meet_has_words_and_a_next_step(void **state)
{
    (void)state;
    char words[128];
    reason_words(words, sizeof words, ECONNREFUSED);
    assert_string_equal(words, "connection refused");
    assert_string_equal(reason_hint(ECONNREFUSED), "is the broker running, and is this its port?");
}

static void what_nobody_expected_has_the_systems_words(void **state)
{
    (void)state;
    char words[128];
    reason_words(words, sizeof words, EXDEV);
    assert_string_equal(words, strerror(EXDEV));
    assert_non_null(strstr(reason_hint(EXDEV), "log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_users_meet_has_words_and_a_next_step),
        cmocka_unit_test(what_nobody_expected_has_the_systems_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
