/* uri_test.c: what a URI means, and that no error shows a password. */
#include "base/uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct uri parsed_with(const char *text, const char *host)
{
    struct uri uri;
    char error[256] = "";
    coney_status status = uri_parse(text, host, &uri, error, sizeof error);
    if (status != CONEY_OK)
        fail_msg("%s was refused: %s", text, error);
    return uri;
}

static struct uri parsed(const char *text)
{
    return parsed_with(text, NULL);
}

static void refused(const char *text, const char *expected)
{
    struct uri uri;
    char error[256] = "";
    assert_int_equal(uri_parse(text, strncmp(text, "amqp", 4) == 0 ? "localhost" : NULL, &uri, error, sizeof error),
                     CONEY_EINVAL);
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

static void SB_56_a_virtual_host_is_absent_empty_or_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *vhost;
    } cases[] = {{"rabbitmq-stream://h", NULL},     {"rabbitmq-stream://h/", ""},
                 {"rabbitmq-stream://h/%2f", "/"},  {"rabbitmq-stream://h/%2F?a=b", "/"},
                 {"rabbitmq-stream://h?a=b", NULL}, {"rabbitmq-stream://h/my%20host", "my host"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uri uri = parsed(cases[i].text);
        if (cases[i].vhost == NULL)
            assert_null(uri.vhost);
        else
            assert_string_equal(uri.vhost, cases[i].vhost);
        assert_null(uri.user);
        assert_null(uri.password);
        assert_int_equal(uri.addresses[0].port, 0);
        uri_free(&uri);
    }
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

static void E02_parts_that_are_left_out_are_told_from_empty_ones(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *user;
        const char *password;
        const char *host;
        uint16_t port;
        const char *vhost;
    } cases[] = {
        {"amqp://", NULL, NULL, "localhost", 0, NULL},
        {"amqps://", NULL, NULL, "localhost", 0, NULL},
        {"amqp://:@/", "", "", "localhost", 0, ""},
        {"amqp://user@", "user", NULL, "localhost", 0, NULL},
        {"amqp://user:pass@:1000/v", "user", "pass", "localhost", 1000, "v"},
        {"amqp://[::1]:100/v", NULL, NULL, "::1", 100, "v"},
        {"amqp://host/%2f", NULL, NULL, "host", 0, "/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uri uri = parsed_with(cases[i].text, "localhost");
        assert_true(uri.user == NULL ? cases[i].user == NULL : strcmp(uri.user, cases[i].user) == 0);
        assert_true(uri.password == NULL ? cases[i].password == NULL : strcmp(uri.password, cases[i].password) == 0);
        assert_true(uri.vhost == NULL ? cases[i].vhost == NULL : strcmp(uri.vhost, cases[i].vhost) == 0);
        assert_int_equal(uri.address_count, 1);
        assert_string_equal(uri.addresses[0].host, cases[i].host);
        assert_int_equal(uri.addresses[0].port, cases[i].port);
        uri_free(&uri);
    }
}

static void E02_what_is_no_host_and_port_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"amqp://foo[::1]",      "amqp://[::1]foo", "amqp://foo:1000xyz", "amqp://foo:1000000",
                                        "amqp://foo/%1",        "amqp://foo/%xy",  "amqp://a:b:c",       "amqp://[]",
                                        "amqp://[]:5672/vhost", "amqp://foo:0",    "amqp://foo:-1",      "amqp://foo: 5"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        refused(texts[i], "URI: ");
}

static void E03_an_escape_may_be_any_byte_but_zero_in_either_case(void **state)
{
    (void)state;
    for (unsigned byte = 1; byte <= UINT8_MAX; byte++) {
        char text[64];
        snprintf(text, sizeof text, "AMQP://%%%02x:%%%02X@h/%%%02x", byte, byte, byte);
        struct uri uri = parsed(text);
        const char expected[] = {(char)byte, '\0'};
        assert_string_equal(uri.scheme, "amqp");
        assert_string_equal(uri.user, expected);
        assert_string_equal(uri.password, expected);
        assert_string_equal(uri.vhost, expected);
        uri_free(&uri);
    }
    refused("amqp://h/%00", "a zero byte");
    refused("amqp://h/%2", "two hex digits");
    refused("amqp://h/% 2f", "two hex digits");
    refused("amqp://h/%2g", "two hex digits");
}

static void assert_same_parts(const struct uri *a, const struct uri *b)
{
    assert_true(uri_same_endpoint(a, b));
    assert_int_equal(a->option_count, b->option_count);
    for (size_t i = 0; i < a->option_count; i++) {
        assert_string_equal(a->options[i].key, b->options[i].key);
        assert_string_equal(a->options[i].value, b->options[i].value);
    }
}

static void E05_what_was_formatted_is_read_as_the_same(void **state)
{
    (void)state;
    const struct uri whole = {.scheme = "amqps",
                              .user = "a&b=c",
                              .password = "p@s:s/w?rd#%\xff",
                              .vhost = "x?y",
                              .addresses = {{"host", 5671}, {"fe80::1%eth0", 0}, {"a,b", 1}},
                              .address_count = 3,
                              .options = {{"cacertfile", "/tmp/a&heartbeat=0"}, {"a=b", ""}},
                              .option_count = 2};
    const struct uri least = {.scheme = "amqp", .addresses = {{"h", 0}}, .address_count = 1};
    const struct uri empty = {
        .scheme = "amqp", .user = "", .password = "", .vhost = "", .addresses = {{"h", 0}}, .address_count = 1};
    const struct uri *const cases[] = {&whole, &least, &empty};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        size_t len = uri_format(cases[i], text, sizeof text);
        assert_int_equal(len, strlen(text));
        struct uri again = parsed(text);
        assert_same_parts(cases[i], &again);
        uri_free(&again);
    }
}

static void a_formatted_uri_is_cut_to_fit(void **state)
{
    (void)state;
    const struct uri uri = {.scheme = "amqp", .addresses = {{"host", 5}}, .address_count = 1};
    char text[8] = "xxxxxxx";
    assert_int_equal(uri_format(&uri, text, sizeof text), strlen("amqp://host:5"));
    assert_string_equal(text, "amqp://");
    assert_int_equal(uri_format(&uri, NULL, 0), strlen("amqp://host:5"));
}

static void E06_an_endpoint_is_the_same_only_when_every_part_is(void **state)
{
    (void)state;
    const struct uri one = {.scheme = "amqp",
                            .user = "u",
                            .password = "p",
                            .vhost = "v",
                            .addresses = {{"h", 1}},
                            .address_count = 1,
                            .options = {{"heartbeat", "1"}},
                            .option_count = 1};
    struct uri others[7] = {one, one, one, one, one, one, one};
    others[0].scheme = "amqps";
    others[1].user = "U";
    others[2].password = NULL;
    others[3].vhost = "V";
    others[4].addresses[0].host = "H";
    others[5].addresses[0].port = 2;
    others[6].addresses[1] = one.addresses[0];
    others[6].address_count = 2;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(uri_same_endpoint(&one, &others[i]));
        assert_false(uri_same_endpoint(&others[i], &one));
    }
    struct uri same = one;
    same.option_count = 0;
    assert_true(uri_same_endpoint(&one, &same));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_56_escapes_in_every_part_are_decoded),
        cmocka_unit_test(SB_56_a_virtual_host_is_absent_empty_or_named),
        cmocka_unit_test(SB_56_a_bad_escape_is_refused_and_does_not_show_the_password),
        cmocka_unit_test(a_password_that_was_not_escaped_is_refused_with_the_way_to_write_it),
        cmocka_unit_test(SB_57_ipv6_addresses_stand_in_brackets),
        cmocka_unit_test(several_addresses_are_kept_in_order_up_to_the_bound),
        cmocka_unit_test(options_are_pairs_up_to_the_bound),
        cmocka_unit_test(an_empty_user_or_password_is_not_a_missing_one),
        cmocka_unit_test(what_is_no_uri_is_refused_with_its_reason),
        cmocka_unit_test(E02_parts_that_are_left_out_are_told_from_empty_ones),
        cmocka_unit_test(E02_what_is_no_host_and_port_is_refused),
        cmocka_unit_test(E03_an_escape_may_be_any_byte_but_zero_in_either_case),
        cmocka_unit_test(E05_what_was_formatted_is_read_as_the_same),
        cmocka_unit_test(a_formatted_uri_is_cut_to_fit),
        cmocka_unit_test(E06_an_endpoint_is_the_same_only_when_every_part_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
