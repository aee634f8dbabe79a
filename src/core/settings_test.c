/* settings_test.c: what protocols may decide of their URIs, TLS, and who wins. A protocol's own defaults and texts are its room's tests. */
#include "core/settings.h"

#include "net/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT 512

/* Where the kind's own numbers go. */
struct extra {
    uint8_t before;
    int64_t lanes;
};

static const struct settings_number numbers[] = {
    {.key = "lanes", .least = 1, .most = 9, .offset = offsetof(struct extra, lanes)},
};

static const char *const mechanisms[] = {"PLAIN", "EXTERNAL", NULL};

static const struct settings_kind kind = {
    .scheme = "amqp",
    .tls_scheme = "amqps",
    .port = 5672,
    .tls_port = 5671,
    .standard = "amqp://standard",
    .host = "localhost",
    .empty_path_is_vhost = true,
    .frame_max = 131072,
    .mechanisms = mechanisms,
    .numbers = numbers,
    .number_count = 1,
};

static const struct settings_options none;
static struct extra extra;

static struct settings settings_of(const char *uri, const struct settings_options *options)
{
    struct settings settings;
    char error[TEXT] = "";
    extra = (struct extra){0};
    if (settings_read(&settings, &kind, uri, options, &extra, error, sizeof error) != CONEY_OK)
        fail_msg("%s was refused: %s", uri, error);
    return settings;
}

static void is_refused(const char *uri, const struct settings_options *options, const char *says)
{
    struct settings settings;
    char error[TEXT] = "";
    assert_int_equal(settings_read(&settings, &kind, uri, options, &extra, error, sizeof error), CONEY_EINVAL);
    if (strstr(error, says) == NULL)
        fail_msg("'%s' should say '%s' but says '%s'", uri, says, error);
    if (strstr(error, "secret") != NULL)
        fail_msg("'%s' shows a password", error);
    assert_null(settings.tls);
    assert_null(settings.user);
}

static void no_uri_stands_for_the_kinds_own(void **state)
{
    (void)state;
    struct settings settings = settings_of(NULL, &none);
    assert_string_equal(settings.addresses[0].host, "standard");
    assert_int_equal(settings.addresses[0].port, 5672);
    assert_int_equal(settings.frame_max, 131072);
    settings_free(&settings);
}

static void E02_what_is_left_out_is_the_default_and_what_is_empty_is_empty(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        const char *user;
        const char *password;
        const char *vhost;
        const char *host;
        uint16_t port;
    } cases[] = {
        {"amqp://", "guest", "guest", "/", "localhost", 5672},
        {"amqps://", "guest", "guest", "/", "localhost", 5671},
        {"amqp://:@/", "", "", "", "localhost", 5672},
        {"amqp://user@", "user", "guest", "/", "localhost", 5672},
        {"AMQPS://[::1]:100/v", "guest", "guest", "v", "::1", 100},
        {"amqp://h/%2f", "guest", "guest", "/", "h", 5672},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct settings settings = settings_of(cases[i].uri, &none);
        assert_string_equal(settings.user, cases[i].user);
        assert_string_equal(settings.password, cases[i].password);
        assert_string_equal(settings.vhost, cases[i].vhost);
        assert_string_equal(settings.addresses[0].host, cases[i].host);
        assert_int_equal(settings.addresses[0].port, cases[i].port);
        settings_free(&settings);
    }
}

static void the_options_in_common_use_are_understood(void **state)
{
    (void)state;
    struct settings settings =
        settings_of("amqp://h?heartbeat=7&connection_timeout=250&frame_max=8192&auth_mechanism=EXTERNAL&name=n&lanes=3", &none);
    assert_int_equal(settings.heartbeat, 7);
    assert_int_equal(settings.connect_timeout, 250 * CONEY_MILLISECOND);
    assert_int_equal(settings.frame_max, 8192);
    assert_string_equal(settings.mechanism, "EXTERNAL");
    assert_string_equal(settings.name, "n");
    assert_int_equal(extra.lanes, 3);
    settings_free(&settings);
    settings = settings_of("amqp://h", &none);
    assert_string_equal(settings.mechanism, "PLAIN");
    assert_int_equal(extra.lanes, 0);
    settings_free(&settings);
}

static void what_is_not_known_is_refused_with_all_that_is(void **state)
{
    (void)state;
    is_refused("amqp://h?lanes=10", &none, "from 1 to 9");
    is_refused("amqp://me:secret@h?turbo=1", &none, "'turbo'");
    is_refused("amqp://h?turbo=1", &none, "lanes, cacertfile");
    is_refused("amqps://h?fail_if_no_peer_cert=true", &none, "fail_if_no_peer_cert");
    is_refused("http://me:secret@h", &none, "amqp://");
}

static void the_scheme_decides_about_tls(void **state)
{
    (void)state;
    struct settings settings = settings_of("amqp://h", &none);
    assert_null(settings.tls);
    settings_free(&settings);
    settings = settings_of("amqps://h,g:1", &(struct settings_options){.addresses = (const char *const[]){"more", NULL}});
    assert_non_null(settings.tls);
    assert_false(settings.tls->options.skip_verification);
    assert_int_equal(settings.addresses[0].port, 5671);
    assert_int_equal(settings.addresses[1].port, 1);
    assert_int_equal(settings.addresses[2].port, 5671);
    settings_free(&settings);
}

static void what_the_uri_says_about_tls_reaches_tls(void **state)
{
    (void)state;
    struct settings settings =
        settings_of("amqps://h?cacertfile=%2Fca%26a&certfile=/c&keyfile=/k&password=secret&verify=verify_none"
                    "&server_name_indication=other",
                    &none);
    const coney_tls_options *tls = &settings.tls->options;
    assert_string_equal(tls->ca_file, "/ca&a");
    assert_string_equal(tls->certificate, "/c");
    assert_string_equal(tls->private_key, "/k");
    assert_string_equal(tls->key_password, "secret");
    assert_string_equal(tls->server_name, "other");
    assert_true(tls->skip_verification);
    settings_free(&settings);
}

static void the_struct_about_tls_wins_over_the_uri(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = "/struct", .min_version = CONEY_TLS_1_3};
    struct settings_options options = {.tls = &tls};
    struct settings settings =
        settings_of("amqps://h?cacertfile=/uri&server_name_indication=name&verify=verify_peer", &options);
    assert_string_equal(settings.tls->options.ca_file, "/struct");
    assert_string_equal(settings.tls->options.server_name, "name");
    assert_int_equal(settings.tls->options.min_version, CONEY_TLS_1_3);
    assert_false(settings.tls->options.skip_verification);
    settings_free(&settings);
    tls.skip_verification = true;
    settings = settings_of("amqps://h?verify=verify_peer", &options);
    assert_true(settings.tls->options.skip_verification);
    settings_free(&settings);
}

static void tls_is_never_promised_where_there_is_none(void **state)
{
    (void)state;
    static const coney_tls_options tls;
    is_refused("amqp://h", &(struct settings_options){.tls = &tls}, "amqps://");
    is_refused("amqp://me:secret@h?verify=verify_peer", &none, "amqps://");
    is_refused("amqp://h?password=secret", &none, "password is about TLS");
    is_refused("amqps://h?verify=perhaps", &none, "verify=perhaps");
    is_refused("amqps://h?keyfile=/k", &none, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_uri_stands_for_the_kinds_own),
        cmocka_unit_test(E02_what_is_left_out_is_the_default_and_what_is_empty_is_empty),
        cmocka_unit_test(the_options_in_common_use_are_understood),
        cmocka_unit_test(what_is_not_known_is_refused_with_all_that_is),
        cmocka_unit_test(the_scheme_decides_about_tls),
        cmocka_unit_test(what_the_uri_says_about_tls_reaches_tls),
        cmocka_unit_test(the_struct_about_tls_wins_over_the_uri),
        cmocka_unit_test(tls_is_never_promised_where_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
