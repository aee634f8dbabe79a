/* stream_options_test.c: the settings that a URI and options make, and what each value that is refused says. */
#include "stream/env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As env_new reads them. */
static coney_status read_both(struct settings *settings, const char *uri, const coney_stream_env_options *options, char *error)
{
    struct env_options common;
    coney_call call = {0};
    *settings = (struct settings){0};
    if (stream_options_read(options, &common, &call))
        return settings_read(settings, &stream_settings, uri, &common.settings, NULL, error, TEXT_CAP);
    memcpy(error, call.text, TEXT_CAP);
    return call.status;
}

static struct settings settings_of(const char *uri, const coney_stream_env_options *options)
{
    static const coney_stream_env_options none;
    struct settings settings;
    char error[TEXT_CAP] = "";
    if (read_both(&settings, uri, options != NULL ? options : &none, error) != CONEY_OK)
        fail_msg("%s was refused: %s", uri != NULL ? uri : "NULL", error);
    return settings;
}

/* The status, and a text that says `says` and shows no password ("secret" in all the tests). Nothing is left to be freed. */
static void is_refused(const char *uri, const coney_stream_env_options *options, coney_status status, const char *says)
{
    struct settings settings;
    char error[TEXT_CAP] = "";
    assert_int_equal(read_both(&settings, uri, options, error), status);
    if (strstr(error, says) == NULL)
        fail_msg("'%s' should say '%s' but says '%s'", uri, says, error);
    if (strstr(error, "secret") != NULL)
        fail_msg("'%s' shows the password", error);
    assert_null(settings.password);
    assert_null(settings.addresses);
}

static void without_a_word_everything_is_the_default(void **state)
{
    (void)state;
    struct settings settings = settings_of(NULL, NULL);
    assert_string_equal(settings.name, "coney");
    assert_string_equal(settings.user, "guest");
    assert_string_equal(settings.password, "guest");
    assert_string_equal(settings.vhost, "/");
    assert_int_equal(settings.address_count, 1);
    assert_string_equal(settings.addresses[0].host, "localhost");
    assert_int_equal(settings.addresses[0].port, 5552);
    assert_int_equal(settings.connect_timeout, 5 * CONEY_SECOND);
    assert_int_equal(settings.call_deadline, 10 * CONEY_SECOND);
    assert_int_equal(settings.recovery_delay, 500 * CONEY_MILLISECOND);
    assert_int_equal(settings.recovery_max_delay, 30 * CONEY_SECOND);
    assert_int_equal(settings.heartbeat, 60);
    assert_int_equal(settings.frame_max, CONEY_MIB);
    assert_null(settings.tls);
    assert_int_equal(settings.property_count, 0);
    assert_false(settings.shuffle || settings.no_recovery || settings.keep_trying);
    settings_free(&settings);
}

static void SB_56_user_password_and_virtual_host_are_decoded(void **state)
{
    (void)state;
    struct settings settings = settings_of("rabbitmq-stream://us%40er:p%3Aw%2F@a:1,b/v%2Fh", NULL);
    assert_string_equal(settings.user, "us@er");
    assert_string_equal(settings.password, "p:w/");
    assert_string_equal(settings.vhost, "v/h");
    assert_int_equal(settings.address_count, 2);
    assert_string_equal(settings.addresses[0].host, "a");
    assert_int_equal(settings.addresses[0].port, 1);
    assert_string_equal(settings.addresses[1].host, "b");
    assert_int_equal(settings.addresses[1].port, 5552);
    settings_free(&settings);
}

static void SB_56_no_path_a_slash_and_an_escaped_slash_are_the_default_virtual_host(void **state)
{
    (void)state;
    static const char *const uris[] = {"rabbitmq-stream://h", "rabbitmq-stream://h/", "rabbitmq-stream://h/%2f"};
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct settings settings = settings_of(uris[i], NULL);
        assert_string_equal(settings.vhost, "/");
        settings_free(&settings);
    }
}

static void SB_57_an_ipv6_address_is_taken_with_and_without_a_port(void **state)
{
    (void)state;
    const char *const addresses[] = {"[fe80::1]:77", "[::2]", NULL};
    coney_stream_env_options options = {.addresses = addresses};
    struct settings settings = settings_of("rabbitmq-stream://[::1]:5553", &options);
    assert_int_equal(settings.address_count, 3);
    assert_string_equal(settings.addresses[0].host, "::1");
    assert_int_equal(settings.addresses[0].port, 5553);
    assert_string_equal(settings.addresses[1].host, "fe80::1");
    assert_int_equal(settings.addresses[1].port, 77);
    assert_string_equal(settings.addresses[2].host, "::2");
    assert_int_equal(settings.addresses[2].port, 5552);
    settings_free(&settings);
}

static void the_options_of_the_uri_have_units_of_their_own(void **state)
{
    (void)state;
    struct settings settings =
        settings_of("rabbitmq-stream://h?heartbeat=7&connect_timeout=250&frame_max=65536&name=orders&shuffle=true", NULL);
    assert_int_equal(settings.heartbeat, 7);
    assert_int_equal(settings.connect_timeout, 250 * CONEY_MILLISECOND);
    assert_int_equal(settings.frame_max, 65536);
    assert_string_equal(settings.name, "orders");
    assert_true(settings.shuffle);
    settings_free(&settings);
}

static void an_option_of_the_struct_wins_over_the_uri(void **state)
{
    (void)state;
    coney_stream_env_options options = {.name = "mine",
                                        .heartbeat = 3 * CONEY_SECOND,
                                        .connect_timeout = CONEY_SECOND,
                                        .call_deadline = 2 * CONEY_SECOND,
                                        .frame_max = 8192,
                                        .max_chunk = 100000,
                                        .no_recovery = true,
                                        .keep_trying = true};
    struct settings settings =
        settings_of("rabbitmq-stream://h?heartbeat=7&connect_timeout=250&frame_max=65536&name=orders", &options);
    assert_string_equal(settings.name, "mine");
    assert_int_equal(settings.heartbeat, 3);
    assert_int_equal(settings.connect_timeout, CONEY_SECOND);
    assert_int_equal(settings.call_deadline, 2 * CONEY_SECOND);
    assert_int_equal(settings.frame_max, 8192);
    assert_true(settings.no_recovery && settings.keep_trying);
    settings_free(&settings);
}

static void heartbeats_are_whole_seconds_rounded_up_or_off(void **state)
{
    (void)state;
    static const struct {
        int64_t option;
        uint32_t seconds;
    } cases[] = {
        {1, 1},
        {CONEY_MILLISECOND, 1},
        {CONEY_SECOND, 1},
        {CONEY_SECOND + 1, 2},
        {UINT16_MAX * CONEY_SECOND, UINT16_MAX},
        {CONEY_OFF, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coney_stream_env_options options = {.heartbeat = cases[i].option};
        struct settings settings = settings_of(NULL, &options);
        assert_int_equal(settings.heartbeat, cases[i].seconds);
        settings_free(&settings);
    }
    struct settings off = settings_of("rabbitmq-stream://h?heartbeat=0", NULL);
    assert_int_equal(off.heartbeat, 0);
    settings_free(&off);
}

static void the_longest_pause_is_never_shorter_than_the_first(void **state)
{
    (void)state;
    coney_stream_env_options options = {.recovery_delay = 60 * CONEY_SECOND};
    struct settings settings = settings_of(NULL, &options);
    assert_int_equal(settings.recovery_max_delay, 60 * CONEY_SECOND);
    settings_free(&settings);
}

static void client_properties_are_copied(void **state)
{
    (void)state;
    char key[] = "site", value[] = "north";
    coney_field fields[] = {{coney_bytes_str(key), coney_value_string(coney_bytes_str(value))},
                            {CONEY_STR("empty"), coney_value_string((coney_bytes){0})}};
    coney_stream_env_options options = {.client_properties = fields, .client_property_count = 2};
    struct settings settings = settings_of(NULL, &options);
    memset(key, 'x', sizeof key);
    memset(value, 'x', sizeof value);
    assert_int_equal(settings.property_count, 2);
    assert_memory_equal(settings.properties[0].key.data, "site", 4);
    coney_bytes copied;
    assert_true(coney_value_to_bytes(&settings.properties[0].value, &copied));
    assert_int_equal(copied.len, 5);
    assert_memory_equal(copied.data, "north", 5);
    settings_free(&settings);
}

static void what_the_uri_may_not_say_is_refused_by_name(void **state)
{
    (void)state;
    static const coney_stream_env_options none;
    static const struct {
        const char *uri;
        coney_status status;
        const char *says;
    } cases[] = {
        {"", CONEY_EINVAL, ""},
        {"localhost", CONEY_EINVAL, ""},
        {"amqp://me:secret@h", CONEY_EINVAL, "rabbitmq-stream://"},
        {"rabbitmq-stream://me:secret@h?verify=verify_none", CONEY_EINVAL, "rabbitmq-stream+tls://"},
        {"rabbitmq-stream://me:secret@", CONEY_EINVAL, ""},
        {"rabbitmq-stream://me:secret@h:port", CONEY_EINVAL, ""},
        {"rabbitmq-stream://me:secret@h:99999", CONEY_EINVAL, ""},
        {"rabbitmq-stream://me:se%zzcret@h", CONEY_EINVAL, ""},
        {"rabbitmq-stream://h?heartbeat=-1", CONEY_EINVAL, "heartbeat=-1"},
        {"rabbitmq-stream://h?heartbeat=65536", CONEY_EINVAL, "65535"},
        {"rabbitmq-stream://h?heartbeat=", CONEY_EINVAL, "heartbeat"},
        {"rabbitmq-stream://h?heartbeat=5s", CONEY_EINVAL, "5s"},
        {"rabbitmq-stream://h?heartbeat=+5", CONEY_EINVAL, "+5"},
        {"rabbitmq-stream://h?heartbeat=99999999999999999999", CONEY_EINVAL, "heartbeat"},
        {"rabbitmq-stream://h?connect_timeout=0", CONEY_EINVAL, "from 1"},
        {"rabbitmq-stream://h?frame_max=4294967296", CONEY_EINVAL, "frame_max"},
        {"rabbitmq-stream://h?shuffle=yes", CONEY_EINVAL, "shuffle=yes"},
        {"rabbitmq-stream://h?retries=3", CONEY_EINVAL, "'retries'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        is_refused(cases[i].uri, &none, cases[i].status, cases[i].says);
}

static void what_the_options_may_not_say_is_refused_by_name(void **state)
{
    (void)state;
    coney_field number[] = {{CONEY_STR("count"), coney_value_i64(3)}};
    const struct {
        coney_stream_env_options options;
        const char *says;
    } cases[] = {
        {{.heartbeat = -2}, "heartbeat"},
        {{.heartbeat = 65536 * CONEY_SECOND}, "heartbeat"},
        {{.connect_timeout = -1}, "connect_timeout"},
        {{.call_deadline = INT64_MIN}, "call_deadline"},
        {{.recovery_delay = -1}, "recovery_delay"},
        {{.recovery_max_delay = -1}, "recovery_max_delay"},
        {{.frame_max = -1}, "frame_max"},
        {{.frame_max = INT64_C(1) << 32}, "frame_max"},
        {{.max_chunk = -1}, "max_chunk"},
        {{.max_chunk = INT64_MAX}, "max_chunk"},
        {{.client_properties = number, .client_property_count = 1}, "'count'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        is_refused("rabbitmq-stream://me:secret@h", &cases[i].options, CONEY_EINVAL, cases[i].says);
}

static void an_address_is_host_and_port_and_nothing_else(void **state)
{
    (void)state;
    char long_name[400], longest[300];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    memset(longest, 'b', 256);
    longest[256] = '\0';
    const struct {
        const char *address;
        const char *says;
    } cases[] = {
        {"", "host:port"},        {"h:x", "host:port"},           {"h:70000", "host:port"},
        {"h/vhost", "host:port"}, {"h?heartbeat=1", "host:port"}, {"h,other", "host:port"},
        {"::1", "host:port"},     {"me:secret@h", "URI"},         {long_name, "host:port"},
        {longest, "255"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const addresses[] = {"good", cases[i].address, NULL};
        coney_stream_env_options options = {.addresses = addresses};
        is_refused("rabbitmq-stream://h", &options, CONEY_EINVAL, cases[i].says);
    }
    longest[255] = '\0';
    const char *const addresses[] = {longest, NULL};
    coney_stream_env_options options = {.addresses = addresses};
    struct settings settings = settings_of(NULL, &options);
    assert_string_equal(settings.addresses[1].host, longest);
    settings_free(&settings);
}

static void the_scheme_decides_about_tls_and_its_port(void **state)
{
    (void)state;
    struct settings settings = settings_of("rabbitmq-stream+tls://h,g:1", NULL);
    assert_non_null(settings.tls);
    assert_int_equal(settings.addresses[0].port, 5551);
    assert_int_equal(settings.addresses[1].port, 1);
    settings_free(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_everything_is_the_default),
        cmocka_unit_test(SB_56_user_password_and_virtual_host_are_decoded),
        cmocka_unit_test(SB_56_no_path_a_slash_and_an_escaped_slash_are_the_default_virtual_host),
        cmocka_unit_test(SB_57_an_ipv6_address_is_taken_with_and_without_a_port),
        cmocka_unit_test(the_options_of_the_uri_have_units_of_their_own),
        cmocka_unit_test(an_option_of_the_struct_wins_over_the_uri),
        cmocka_unit_test(heartbeats_are_whole_seconds_rounded_up_or_off),
        cmocka_unit_test(the_longest_pause_is_never_shorter_than_the_first),
        cmocka_unit_test(client_properties_are_copied),
        cmocka_unit_test(what_the_uri_may_not_say_is_refused_by_name),
        cmocka_unit_test(what_the_options_may_not_say_is_refused_by_name),
        cmocka_unit_test(an_address_is_host_and_port_and_nothing_else),
        cmocka_unit_test(the_scheme_decides_about_tls_and_its_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
