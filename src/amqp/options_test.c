#include "amqp/conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* What an environment of this URI and these options would be. */
struct reading {
    struct coney_amqp amqp;
    coney_call call; /* status and text of what was refused */
};

static void read_both(struct reading *reading, const char *uri, const coney_amqp_options *options)
{
    struct env_options common;
    char text[TEXT_CAP] = "";
    *reading = (struct reading){0};
    amqp_common_options(options, &common);
    struct settings *settings = &reading->amqp.env.settings;
    coney_status status = settings_read(settings, &amqp_settings, uri, &common.settings, &reading->amqp, text, sizeof text);
    if (status == CONEY_OK)
        (void)amqp_own_options(&reading->amqp, options, &reading->call);
    else
        op_refuse(&reading->call, status, "%s", text);
}

static void release(struct reading *reading)
{
    settings_free(&reading->amqp.env.settings);
}

static void read_uri(struct reading *reading, const char *uri)
{
    read_both(reading, uri, &(coney_amqp_options){0});
    if (reading->call.status != CONEY_OK)
        fail_msg("%s: %s", uri, reading->call.text);
}

static void refused(const char *uri, const coney_amqp_options *options, const char *says)
{
    struct reading reading;
    read_both(&reading, uri, options != NULL ? options : &(coney_amqp_options){0});
    if (reading.call.status != CONEY_EINVAL || strstr(reading.call.text, says) == NULL)
        fail_msg("%s: %s: '%s' instead of '%s'", uri, coney_status_name(reading.call.status), reading.call.text, says);
    release(&reading);
}

static void assert_login(const struct settings *settings, const char *user, const char *password, const char *vhost)
{
    assert_string_equal(settings->user, user);
    assert_string_equal(settings->password, password);
    assert_string_equal(settings->vhost, vhost);
}

static void E02_what_a_uri_leaves_out_has_its_default(void **state)
{
    (void)state;
    struct reading reading;
    const struct settings *settings = &reading.amqp.env.settings;
    static const char *const plain[] = {NULL, "amqp://", "amqp://localhost", "AMQP://LOCALHOST"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        read_uri(&reading, plain[i]);
        assert_login(settings, "guest", "guest", "/");
        assert_int_equal(settings->address_count, 1);
        assert_int_equal(strcasecmp(settings->addresses[0].host, "localhost"), 0);
        assert_int_equal(settings->addresses[0].port, 5672);
        assert_null(settings->tls);
        release(&reading);
    }
    read_uri(&reading, "amqps://");
    assert_int_equal(settings->addresses[0].port, 5671);
    assert_non_null(settings->tls);
    release(&reading);
}

static void E02_empty_parts_of_a_uri_are_empty_and_absent_ones_the_default(void **state)
{
    (void)state;
    struct reading reading;
    const struct settings *settings = &reading.amqp.env.settings;
    read_uri(&reading, "amqp://:@/");
    assert_login(settings, "", "", "");
    release(&reading);
    read_uri(&reading, "amqp://user@");
    assert_login(settings, "user", "guest", "/");
    release(&reading);
    read_uri(&reading, "amqp://[::1]:100/v");
    assert_login(settings, "guest", "guest", "v");
    assert_string_equal(settings->addresses[0].host, "::1");
    assert_int_equal(settings->addresses[0].port, 100);
    release(&reading);
    read_uri(&reading, "amqp://h/%2f");
    assert_login(settings, "guest", "guest", "/");
    release(&reading);
}

static void E02_uris_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"amqp://foo[::1]",    "amqp://[::1]foo",  "amqp://foo:1000xyz",
                                        "amqp://foo:1000000", "amqp://foo%1",     "amqp://foo/%xy",
                                        "amqp://a:b:c",       "http://localhost", "rabbitmq-stream://host"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refused(wrong[i], NULL, "");
}

static void the_defaults_are_those_of_the_header(void **state)
{
    (void)state;
    struct reading reading;
    read_uri(&reading, NULL);
    const struct settings *settings = &reading.amqp.env.settings;
    assert_int_equal(settings->heartbeat, 60);
    assert_int_equal(settings->frame_max, 131072);
    assert_int_equal(settings->connect_timeout, 5 * CONEY_SECOND);
    assert_int_equal(reading.amqp.channel_max, 0);
    assert_int_equal(reading.amqp.max_message, 128 * CONEY_MIB);
    assert_string_equal(reading.amqp.env.settings.mechanism, "PLAIN");
    release(&reading);
}

static void the_options_of_a_uri_reach_the_settings(void **state)
{
    (void)state;
    struct reading reading;
    read_uri(&reading,
             "amqp://h?heartbeat=7&connection_timeout=1500&frame_max=8192&channel_max=12&auth_mechanism=external&name=me");
    const struct settings *settings = &reading.amqp.env.settings;
    assert_int_equal(settings->heartbeat, 7);
    assert_int_equal(settings->connect_timeout, 1500 * CONEY_MILLISECOND);
    assert_int_equal(settings->frame_max, 8192);
    assert_string_equal(settings->name, "me");
    assert_int_equal(reading.amqp.channel_max, 12);
    assert_string_equal(reading.amqp.env.settings.mechanism, "EXTERNAL");
    release(&reading);
}

static void an_option_of_the_struct_wins(void **state)
{
    (void)state;
    struct reading reading;
    const coney_amqp_options options = {.heartbeat = CONEY_OFF,
                                        .frame_max = 65536,
                                        .channel_max = 5,
                                        .max_message = 1000,
                                        .mechanism = "amqplain",
                                        .name = "you"};
    read_both(&reading, "amqp://h?heartbeat=7&frame_max=8192&channel_max=12&auth_mechanism=external&name=me", &options);
    const struct settings *settings = &reading.amqp.env.settings;
    assert_int_equal(reading.call.status, CONEY_OK);
    assert_int_equal(settings->heartbeat, 0);
    assert_int_equal(settings->frame_max, 65536);
    assert_string_equal(settings->name, "you");
    assert_int_equal(reading.amqp.channel_max, 5);
    assert_int_equal(reading.amqp.max_message, 1000);
    assert_string_equal(reading.amqp.env.settings.mechanism, "AMQPLAIN");
    release(&reading);
}

static void what_is_out_of_range_is_refused_by_name(void **state)
{
    (void)state;
    refused("amqp://h?channel_max=65536", NULL, "channel_max");
    refused("amqp://h?frame_max=4095", NULL, "frame_max");
    refused("amqp://h?auth_mechanism=PLAINX", NULL, "'PLAINX'");
    refused("amqp://h?colour=red", NULL, "'colour'");
    refused(NULL, &(coney_amqp_options){.channel_max = -1}, "channel_max");
    refused(NULL, &(coney_amqp_options){.frame_max = -1}, "frame_max");
    refused(NULL, &(coney_amqp_options){.max_message = -1}, "max_message");
    refused(NULL, &(coney_amqp_options){.max_message = 3 * CONEY_GIB}, "max_message");
    refused(NULL, &(coney_amqp_options){.mechanism = ""}, "mechanism");
}

static void TLS_is_asked_for_by_the_scheme_alone(void **state)
{
    (void)state;
    const coney_tls_options tls = {0};
    refused("amqp://h", &(coney_amqp_options){.tls = &tls}, "amqps://");
    refused("amqp://h?cacertfile=/tmp/ca.pem", NULL, "cacertfile");
}

static void reply_codes_have_their_statuses(void **state)
{
    (void)state;
    assert_int_equal(amqp_status_of_code(0), CONEY_OK);
    assert_int_equal(amqp_status_of_code(404), CONEY_ENOTFOUND);
    assert_int_equal(amqp_status_of_code(403), CONEY_EACCESS);
    assert_int_equal(amqp_status_of_code(405), CONEY_EUNAVAILABLE);
    assert_int_equal(amqp_status_of_code(406), CONEY_EPRECONDITION);
    assert_int_equal(amqp_status_of_code(320), CONEY_ELOST);
    assert_int_equal(amqp_status_of_code(541), CONEY_EBROKER);
}

static void C08_a_name_has_255_bytes_at_most(void **state)
{
    (void)state;
    char name[301];
    coney_call call = {0};
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    assert_int_equal(amqp_name_check("queue", name, &call), CONEY_OK);
    assert_int_equal(amqp_name_check("queue", NULL, &call), CONEY_OK);
    name[255] = 'n';
    name[256] = '\0';
    assert_int_equal(amqp_name_check("routing key", name, &call), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "the routing key is 256 bytes long"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E02_what_a_uri_leaves_out_has_its_default),
        cmocka_unit_test(E02_empty_parts_of_a_uri_are_empty_and_absent_ones_the_default),
        cmocka_unit_test(E02_uris_that_cannot_be_are_refused),
        cmocka_unit_test(the_defaults_are_those_of_the_header),
        cmocka_unit_test(the_options_of_a_uri_reach_the_settings),
        cmocka_unit_test(an_option_of_the_struct_wins),
        cmocka_unit_test(what_is_out_of_range_is_refused_by_name),
        cmocka_unit_test(TLS_is_asked_for_by_the_scheme_alone),
        cmocka_unit_test(reply_codes_have_their_statuses),
        cmocka_unit_test(C08_a_name_has_255_bytes_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
