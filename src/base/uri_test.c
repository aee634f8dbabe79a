/* uri_test.c: what a URI means, and that no error shows a password. */
#include "base/uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct uri parsed(const char *text)
{
    struct uri uri;
    char error[256] = "";
    coney_status status = uri_parse(text, &uri, error, sizeof error);
    if (status != CONEY_OK)
        fail_msg("%s was refused: %s", text, error);
    return uri;
}

static void refused(const char *text, const char *expected)
{
    struct uri uri;
    char error[256] = "";
    assert_int_equal(uri_parse(text, &uri, error, sizeof error), CONEY_EINVAL);
    if (strstr(error, expected) == NULL)
        fail_msg("'%s' should say '%s' but says '%s'", text, expected, error);
    if (strstr(error, "secret") != NULL)
        fail_msg("'%s' shows the password", error);
    assert_null(uri.memory);
}

static void SB_56_escapes_in_every_part_are_decoded(void **state)
{
    (void)state;
    struct uri uri = parsed("rabbitmq-stream://us%40er:p%2Fw%23%C3%A9@h:5552/a%2Fb");
    assert_string_equal(uri.scheme, "rabbitmq-stream");
    assert_string_equal(uri.user, "us@er");
    assert_string_equal(uri.password, "p/w#\xc3\xa9");
    assert_int_equal(uri.address_count, 1);
    assert_string_equal(uri.addresses[0].host, "h");
    assert_int_equal(uri.addresses[0].port, 5552);
    assert_string_equal(uri.vhost, "a/b");
    assert_int_equal(uri.option_count, 0);
    uri_free(&uri);
    assert_null(uri.password);
}

static void SB_56_no_path_a_slash_and_an_escaped_slash_are_the_default_virtual_host(void **state)
{
    (void)state;
    static const char *const texts[] = {"rabbitmq-stream://h", "rabbitmq-stream://h/", "rabbitmq-stream://h/%2f",
                                        "rabbitmq-stream://h/%2F?a=b", "rabbitmq-stream://h?a=b"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct uri uri = parsed(texts[i]);
        assert_string_equal(uri.vhost, "/");
        assert_null(uri.user);
        assert_null(uri.password);
        assert_int_equal(uri.addresses[0].port, 0);
        uri_free(&uri);
    }
    struct uri uri = parsed("rabbitmq-stream://h/my%20host");
    assert_string_equal(uri.vhost, "my host");
    uri_free(&uri);
}

static void SB_56_a_bad_escape_is_refused_and_does_not_show_the_password(void **state)
{
    (void)state;
    refused("rabbitmq-stream://user:secret%zz@h/", "escape at byte 30, in the password");
    refused("rabbitmq-stream://user:secret%4", "port at byte 24 is not a number");
    refused("rabbitmq-stream://user:secret%", "port at byte 24");
    refused("rabbitmq-stream://us%4:secret@h", "escape at byte 21, in the user name");
    refused("rabbitmq-stream://user:secret@h/%1", "escape at byte 33, in the virtual host");
    refused("rabbitmq-stream://user:secret@h%gg", "in the host");
    refused("rabbitmq-stream://user:secret@h?k=%", "in the value of an option");
    refused("rabbitmq-stream://user:secret@h?%k=1", "in the name of an option");
    refused("rabbitmq-stream://user:secret%00@h", "%00 at byte 30, in the password");
}

static void a_password_that_was_not_escaped_is_refused_with_the_way_to_write_it(void **state)
{
    (void)state;
    refused("rabbitmq-stream://user:secret/secret@h:5552", "write '/', '?', '#', '@', ':' and '%' inside a part as %2F");
    refused("rabbitmq-stream://user:secret#secret@h:5552", "a '#' at byte 30: write it as %23");
    refused("rabbitmq-stream://user:secret?secret@h:5552", "port at byte 24");
    struct uri uri = parsed("rabbitmq-stream://user:se@cr:et@h:5552");
    assert_string_equal(uri.password, "se@cr:et");
    assert_string_equal(uri.addresses[0].host, "h");
    uri_free(&uri);
}

static void SB_57_ipv6_addresses_stand_in_brackets(void **state)
{
    (void)state;
    struct uri uri = parsed("rabbitmq-stream://[::1]:5552,[fdff::1],[fe80::1%25eth0]:1/");
    assert_int_equal(uri.address_count, 3);
    assert_string_equal(uri.addresses[0].host, "::1");
    assert_int_equal(uri.addresses[0].port, 5552);
    assert_string_equal(uri.addresses[1].host, "fdff::1");
    assert_int_equal(uri.addresses[1].port, 0);
    assert_string_equal(uri.addresses[2].host, "fe80::1%eth0");
    assert_int_equal(uri.addresses[2].port, 1);
    uri_free(&uri);
    refused("rabbitmq-stream://fdff::1:5552", "write an IPv6 address in brackets");
    refused("rabbitmq-stream://[::1:5552", "does not close");
    refused("rabbitmq-stream://[::1]5552", "does not close before the port");
    refused("rabbitmq-stream://[]:5552", "the host is missing");
}

static void several_addresses_are_kept_in_order_up_to_the_bound(void **state)
{
    (void)state;
    char text[1024] = "s://u@";
    for (int i = 0; i < URI_ADDRESSES; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%shost%d:%d", i > 0 ? "," : "", i, 1000 + i);
    }
    struct uri uri = parsed(text);
    assert_int_equal(uri.address_count, URI_ADDRESSES);
    assert_string_equal(uri.addresses[URI_ADDRESSES - 1].host, "host31");
    assert_int_equal(uri.addresses[URI_ADDRESSES - 1].port, 1031);
    uri_free(&uri);
    strcat(text, ",more");
    refused(text, "more than 32 addresses");
}

static void options_are_pairs_up_to_the_bound(void **state)
{
    (void)state;
    struct uri uri = parsed("AMQP+TLS.1://h/v?heartbeat=5&&name=a%26b=c&flag&");
    assert_string_equal(uri.scheme, "amqp+tls.1");
    assert_int_equal(uri.option_count, 3);
    assert_string_equal(uri.options[0].key, "heartbeat");
    assert_string_equal(uri.options[0].value, "5");
    assert_string_equal(uri.options[1].key, "name");
    assert_string_equal(uri.options[1].value, "a&b=c");
    assert_string_equal(uri.options[2].key, "flag");
    assert_string_equal(uri.options[2].value, "");
    uri_free(&uri);
    refused("s://h?=value", "no name before its '='");
    char text[1024] = "s://h?";
    for (int i = 0; i <= URI_OPTIONS; i++)
        strcat(text, "k=v&");
    refused(text, "too many options");
}

static void an_empty_user_or_password_is_not_a_missing_one(void **state)
{
    (void)state;
    struct uri uri = parsed("s://:@h");
    assert_string_equal(uri.user, "");
    assert_string_equal(uri.password, "");
    uri_free(&uri);
    uri = parsed("s://u@h:");
    assert_string_equal(uri.user, "u");
    assert_null(uri.password);
    assert_int_equal(uri.addresses[0].port, 0);
    uri_free(&uri);
}

static void what_is_no_uri_is_refused_with_its_reason(void **state)
{
    (void)state;
    refused("", "does not start with a scheme");
    refused("localhost:5552", "does not start with a scheme");
    refused("user:secret@host", "does not start with a scheme");
    refused("://h", "does not start with a scheme");
    refused("a b://h", "does not start with a scheme");
    refused("s://", "the host is missing at byte 5");
    refused("s://u:secret@", "the host is missing");
    refused("s://h,,g", "the host is missing at byte 7");
    refused("s://:5552", "the host is missing");
    refused("s://h:0", "not a number from 1 to 65535");
    refused("s://h:65536", "not a number from 1 to 65535");
    refused("s://h:99999999999999999999", "not a number from 1 to 65535");
    refused("s://h:55x", "not a number from 1 to 65535");
    refused("s://h/a/b", "a second '/' at byte 8");
    refused("s://h\n", "control character (a line end?) at byte 6");
    char *text = malloc(9000);
    memset(text, 'a', 8999);
    text[8999] = '\0';
    memcpy(text, "s://", 4);
    refused(text, "longer than 8192 bytes");
    text[8192] = '\0';
    struct uri uri = parsed(text);
    uri_free(&uri);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_56_escapes_in_every_part_are_decoded),
        cmocka_unit_test(SB_56_no_path_a_slash_and_an_escaped_slash_are_the_default_virtual_host),
        cmocka_unit_test(SB_56_a_bad_escape_is_refused_and_does_not_show_the_password),
        cmocka_unit_test(a_password_that_was_not_escaped_is_refused_with_the_way_to_write_it),
        cmocka_unit_test(SB_57_ipv6_addresses_stand_in_brackets),
        cmocka_unit_test(several_addresses_are_kept_in_order_up_to_the_bound),
        cmocka_unit_test(options_are_pairs_up_to_the_bound),
        cmocka_unit_test(an_empty_user_or_password_is_not_a_missing_one),
        cmocka_unit_test(what_is_no_uri_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
