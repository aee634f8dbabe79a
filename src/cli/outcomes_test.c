#define _GNU_SOURCE
#include "outcomes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What the outcomes print on standard error. */
static char *told(struct outcomes *outcomes, const coney_outcome *each, size_t count)
{
    static char text[2000];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    for (size_t i = 0; i < count; i++)
        outcomes_note(outcomes, &each[i]);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void a_confirm_is_counted_and_not_told(void **state)
{
    (void)state;
    struct outcomes outcomes = {.what = "line"};
    assert_string_equal(told(&outcomes, &(coney_outcome){.status = CONEY_OK, .text = ""}, 1), "");
    assert_int_equal(outcomes.confirmed, 1);
    assert_int_equal(outcomes_lost(&outcomes), 0);
}

static void what_is_not_confirmed_is_told_with_its_number_and_the_reason(void **state)
{
    (void)state;
    struct outcomes outcomes = {.what = "line"};
    const char *refusal = told(&outcomes, &(coney_outcome){.tag = 7, .status = CONEY_EREFUSED, .code = 16, .text = ""}, 1);
    assert_non_null(strstr(refusal, "line 7 was refused with code 16: "));
    assert_string_equal(told(&outcomes, &(coney_outcome){.tag = 8, .status = CONEY_EUNKNOWN, .unsent = true, .text = ""}, 1),
                        "coney: line 8 is not confirmed: it never left this process\n");
    assert_non_null(strstr(told(&outcomes, &(coney_outcome){.tag = 9, .status = CONEY_EUNKNOWN, .text = ""}, 1),
                           "line 9 is not confirmed: "));
    assert_int_equal(outcomes.refused, 1);
    assert_int_equal(outcomes.unknown, 2);
    assert_int_equal(outcomes_lost(&outcomes), 3);
}

static void the_broker_has_the_word_where_it_said_something(void **state)
{
    (void)state;
    struct outcomes outcomes = {.what = "line"};
    const coney_outcome refused = {.tag = 7, .status = CONEY_EREFUSED, .code = 404, .text = "NOT_FOUND - no exchange 'x'"};
    assert_string_equal(told(&outcomes, &refused, 1), "coney: line 7 was refused with code 404: NOT_FOUND - no exchange 'x'\n");
    const coney_outcome returned = {.tag = 8, .status = CONEY_ERETURNED, .code = 312, .text = "NO_ROUTE"};
    assert_string_equal(told(&outcomes, &returned, 1), "coney: line 8 was returned, no queue takes it: 312 NO_ROUTE\n");
    assert_int_equal(outcomes.refused, 2);
}

static void the_first_five_are_told_and_further_ones_only_counted(void **state)
{
    (void)state;
    struct outcomes outcomes = {.what = "message"};
    coney_outcome lost[20];
    for (uint64_t i = 0; i < 20; i++)
        lost[i] = (coney_outcome){.tag = i, .status = CONEY_EUNKNOWN, .text = ""};
    const char *text = told(&outcomes, lost, 20);
    assert_non_null(strstr(text, "message 4 is"));
    assert_non_null(strstr(text, "further ones are only counted\n"));
    assert_null(strstr(text, "message 5 is"));
    assert_int_equal(outcomes_lost(&outcomes), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_confirm_is_counted_and_not_told),
        cmocka_unit_test(what_is_not_confirmed_is_told_with_its_number_and_the_reason),
        cmocka_unit_test(the_broker_has_the_word_where_it_said_something),
        cmocka_unit_test(the_first_five_are_told_and_further_ones_only_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
