/* status_test.c: every status has a name and a text of its own; so have the events, the version and bytes their words. */
#include <coney/coney.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_status_has_its_own_name_and_text(void **state)
{
    (void)state;
    for (int a = CONEY_OK; a <= CONEY_ETLS; a++) {
        const char *name = coney_status_name((coney_status)a);
        const char *text = coney_status_text((coney_status)a);
        assert_int_equal(strncmp(name, "CONEY_", 6), 0);
        assert_string_not_equal(name, "CONEY_?");
        assert_true(strlen(text) > 10);
        for (int b = CONEY_OK; b < a; b++) {
            assert_string_not_equal(name, coney_status_name((coney_status)b));
            assert_string_not_equal(text, coney_status_text((coney_status)b));
        }
    }
    assert_string_equal(coney_status_name(CONEY_EAGAIN), "CONEY_EAGAIN");
    assert_string_equal(coney_status_name(CONEY_ETLS), "CONEY_ETLS");
}

static void the_text_of_a_failure_says_what_to_do(void **state)
{
    (void)state;
    for (int status = CONEY_EINVAL; status <= CONEY_ETLS; status++)
        assert_non_null(strstr(coney_status_text((coney_status)status), ": "));
}

static void a_number_that_is_no_status_has_words_too(void **state)
{
    (void)state;
    assert_string_equal(coney_status_name((coney_status)(CONEY_ETLS + 1)), "CONEY_?");
    assert_string_equal(coney_status_name((coney_status)-1), "CONEY_?");
    assert_non_null(strstr(coney_status_text((coney_status)1000), "no status"));
}

static void every_event_has_a_name(void **state)
{
    (void)state;
    for (int type = CONEY_EVENT_CONNECTED; type <= CONEY_EVENT_SERVER_CLOSE; type++)
        assert_string_not_equal(coney_event_name((coney_event_type)type), "unknown event");
    assert_string_equal(coney_event_name(CONEY_EVENT_RECOVERED), "recovered");
    assert_string_equal(coney_event_name((coney_event_type)0), "unknown event");
    assert_string_equal(coney_event_name((coney_event_type)1000), "unknown event");
}

static void the_library_says_its_version(void **state)
{
    (void)state;
    assert_string_equal(coney_version(), CONEY_VERSION);
}

static void a_c_string_is_viewed_without_its_end(void **state)
{
    (void)state;
    coney_bytes view = coney_bytes_str("four");
    assert_int_equal(view.len, 4);
    assert_memory_equal(view.data, "four", 4);
    assert_int_equal(coney_bytes_str("").len, 0);
    assert_int_equal(coney_bytes_str(NULL).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_name_and_text),
        cmocka_unit_test(the_text_of_a_failure_says_what_to_do),
        cmocka_unit_test(a_number_that_is_no_status_has_words_too),
        cmocka_unit_test(every_event_has_a_name),
        cmocka_unit_test(the_library_says_its_version),
        cmocka_unit_test(a_c_string_is_viewed_without_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
