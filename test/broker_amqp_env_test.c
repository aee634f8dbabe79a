/* An AMQP environment on a real node: log-ins and refusals, what the broker shows of a connection, secrets, handles that are dead. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scene.h"

static struct node node;

static coney_amqp *opened(const char *uri, const coney_amqp_options *options)
{
    coney_call call = {0};
    coney_amqp *rabbit = coney_amqp_open(uri, options, &call);
    if (rabbit == NULL)
        fail_msg("%s did not open: %s: %s", uri, coney_status_name(call.status), call.text);
    return rabbit;
}

static coney_amqp_stats stats_of(const coney_amqp *rabbit)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(rabbit, &stats), CONEY_OK);
    return stats;
}

/* "amqp://USERINFO127.0.0.1:PORT/REST" */
static const char *uri_of(const char *userinfo, const char *rest)
{
    static char uri[400];
    snprintf(uri, sizeof uri, "amqp://%s127.0.0.1:%u%s", userinfo, (unsigned)node.amqp_port, rest);
    return uri;
}

static void refused_at_open(const char *uri, const coney_amqp_options *options, coney_status status, uint32_t code,
                            const char *says)
{
    coney_call call = {0};
    coney_amqp *rabbit = coney_amqp_open(uri, options, &call);
    assert_null(rabbit);
    if (call.status != status)
        fail_msg("%s: %s instead of %s: %s", uri, coney_status_name(call.status), coney_status_name(status), call.text);
    assert_int_equal(call.code, code);
    assert_says(call.text, says);
}

/* Log-in ---------------------------------------------------------------------------------------------------------- */

static void an_environment_opens_with_one_connection_and_closes(void **state)
{
    (void)state;
    struct events events = {0};
    coney_amqp_options options = {.on_event = events_add, .event_ctx = &events};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), &options);
    assert_int_equal(stats_of(rabbit).connections, 1);
    assert_true(stats_of(rabbit).bytes_in > 0);
    assert_int_equal(coney_amqp_close(&rabbit, NULL), CONEY_OK);
    assert_null(rabbit);
    assert_int_equal(events_count(&events, CONEY_EVENT_CONNECTED), 1);
    assert_int_equal(events_count(&events, CONEY_EVENT_DISCONNECTED), 0);
    events_free(&events);
}

struct spoken {
    struct monitor monitor;
    char text[20000];
};

static void listen(void *ctx, coney_log_level level, const char *text)
{
    struct spoken *spoken = ctx;
    (void)level;
    monitor_lock(&spoken->monitor);
    size_t len = strlen(spoken->text);
    snprintf(spoken->text + len, sizeof spoken->text - len, "%s\n", text);
    monitor_unlock(&spoken->monitor);
}

static void D12_a_wrong_password_is_told_at_open_and_stands_in_no_text(void **state)
{
    (void)state;
    struct spoken spoken = {0};
    struct events events = {0};
    coney_amqp_options options = {
        .on_log = listen, .log_ctx = &spoken, .log_level = CONEY_LOG_DEBUG, .on_event = events_add, .event_ctx = &events};
    coney_call call = {0};
    coney_amqp *rabbit = coney_amqp_open(uri_of("guest:open-sesame@", ""), &options, &call);
    assert_null(rabbit);
    assert_int_equal(call.status, CONEY_EAUTH);
    assert_int_equal(call.code, 403);
    assert_says(call.text, "'guest'");
    assert_says(call.text, "password");
    assert_null(strstr(call.text, "open-sesame"));
    assert_null(strstr(spoken.text, "open-sesame"));
    assert_false(events_say(&events, "open-sesame"));
    monitor_free(&spoken.monitor);
    events_free(&events);
}

static void D06_an_unknown_or_empty_virtual_host_is_told_at_open_with_the_brokers_words(void **state)
{
    (void)state;
    refused_at_open(uri_of("", "/nowhere"), NULL, CONEY_EVHOST, 530, "vhost nowhere not found");
    refused_at_open(uri_of("", "/"), NULL, CONEY_EVHOST, 530, "virtual host ''");
}

static void D08_a_closed_port_fails_at_once(void **state)
{
    (void)state;
    int64_t began = now_ms();
    refused_at_open("amqp://127.0.0.1:1", NULL, CONEY_ECONNECT, 0, "connection refused");
    assert_true(now_ms() - began < scaled_ms(2000));
}

static void the_stream_port_is_told_from_the_right_one(void **state)
{
    (void)state;
    refused_at_open(amqp_uri(node.stream_port), NULL, CONEY_ELOST, 0, "right port");
}

static void D10_every_mechanism_that_the_broker_offers_logs_in_and_others_are_refused_before(void **state)
{
    (void)state;
    coney_amqp *rabbit = opened(uri_of("", "?auth_mechanism=plain"), NULL);
    coney_amqp_close(&rabbit, NULL);
    rabbit = opened(amqp_uri(node.amqp_port), &(coney_amqp_options){.mechanism = "AMQPLAIN"});
    coney_amqp_close(&rabbit, NULL);
    refused_at_open(uri_of("guest:wrong@", "?auth_mechanism=AMQPLAIN"), NULL, CONEY_EAUTH, 403, "password");
    refused_at_open(amqp_uri(node.amqp_port), &(coney_amqp_options){.mechanism = "EXTERNAL"}, CONEY_EAUTH, 0,
                    "does not offer the SASL mechanism EXTERNAL");
    refused_at_open(amqp_uri(node.amqp_port), &(coney_amqp_options){.mechanism = "PLAINX"}, CONEY_EINVAL, 0, "'PLAINX'");
}

static void options_that_cannot_be_are_refused_before_anything_is_dialled(void **state)
{
    (void)state;
    const char *closed = "amqp://127.0.0.1:1";
    refused_at_open(closed, &(coney_amqp_options){.frame_max = 4095}, CONEY_EINVAL, 0, "frame_max");
    refused_at_open(closed, &(coney_amqp_options){.channel_max = 65536}, CONEY_EINVAL, 0, "channel_max");
    refused_at_open(closed, &(coney_amqp_options){.max_message = -1}, CONEY_EINVAL, 0, "max_message");
    refused_at_open(closed, &(coney_amqp_options){.heartbeat = -2}, CONEY_EINVAL, 0, "heartbeat");
    refused_at_open("amqp://127.0.0.1:1?colour=red", NULL, CONEY_EINVAL, 0, "'colour'");
}

static void the_addresses_are_tried_in_turn(void **state)
{
    (void)state;
    char uri[200];
    struct events events = {0};
    coney_amqp_options options = {.on_event = events_add, .event_ctx = &events};
    snprintf(uri, sizeof uri, "amqp://127.0.0.1:1,127.0.0.1:%u", (unsigned)node.amqp_port);
    coney_amqp *rabbit = opened(uri, &options);
    assert_int_equal(events_count(&events, CONEY_EVENT_CONNECT_FAILED), 1);
    coney_amqp_close(&rabbit, NULL);
    events_free(&events);
}

static void client_properties_that_no_broker_takes_before_the_login_are_refused(void **state)
{
    (void)state;
    static char long_text[9000];
    memset(long_text, 'x', sizeof long_text);
    const coney_field property = {CONEY_STR("note"), coney_value_string(coney_bytes_of(long_text, sizeof long_text))};
    refused_at_open(amqp_uri(node.amqp_port), &(coney_amqp_options){.client_properties = &property, .client_property_count = 1},
                    CONEY_EINVAL, 0, "shorten");
}

static void the_broker_shows_the_connections_name_its_purpose_and_properties(void **state)
{
    (void)state;
    char name[80];
    fresh_name(name, sizeof name, "shown");
    const coney_field property = {CONEY_STR("team"), coney_value_string(CONEY_STR("blue"))};
    coney_amqp_options options = {.name = name, .client_properties = &property, .client_property_count = 1};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), &options);
    char *shown = node_ctl(&node, "-q list_connections client_properties | grep '%s'", name);
    assert_says(shown, "-control");
    assert_says(shown, "\"blue\"");
    assert_says(shown, "\"coney\"");
    assert_says(shown, "consumer_cancel_notify");
    free(shown);
    coney_amqp_close(&rabbit, NULL);
}

/* What the broker took for the heartbeat. */
static void assert_heartbeat(const char *rest, const char *seconds)
{
    char name[80];
    char expected[100];
    fresh_name(name, sizeof name, "beat");
    coney_amqp *rabbit = opened(uri_of("", rest), &(coney_amqp_options){.name = name});
    char *shown = node_ctl(&node, "-q list_connections timeout client_properties | grep '%s'", name);
    snprintf(expected, sizeof expected, "%s\t", seconds);
    assert_memory_equal(shown, expected, strlen(expected));
    free(shown);
    coney_amqp_close(&rabbit, NULL);
}

static void K01_a_heartbeat_may_be_the_brokers_shorter_or_off(void **state)
{
    (void)state;
    assert_heartbeat("", "60");
    assert_heartbeat("?heartbeat=7", "7");
    assert_heartbeat("?heartbeat=0", "0");
}

static void a_quiet_connection_is_kept_alive_by_heartbeats(void **state)
{
    (void)state;
    struct events events = {0};
    coney_amqp_options options = {.on_event = events_add, .event_ctx = &events, .heartbeat = CONEY_SECOND};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), &options);
    events_none(&events, CONEY_EVENT_DISCONNECTED, 4000);
    assert_int_equal(stats_of(rabbit).connections, 1);
    coney_amqp_close(&rabbit, NULL);
    events_free(&events);
}

/* Secrets --------------------------------------------------------------------------------------------------------- */

static void a_new_secret_reaches_every_open_connection(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    coney_call call = {0};
    uint64_t connections = stats_of(scene.rabbit).connections;
    assert_true(connections >= 2);
    assert_int_equal(coney_amqp_update_secret(scene.rabbit, "guest", &call), CONEY_OK);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_SECRET_RENEWED), connections);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
}

struct callback {
    struct monitor monitor;
    size_t asked;
    const char *password;
    coney_status status;
    int64_t valid_for;
};

static coney_status answer(void *ctx, coney_credentials *credentials)
{
    struct callback *callback = ctx;
    monitor_lock(&callback->monitor);
    callback->asked++;
    credentials->user = "guest";
    credentials->password = callback->password;
    credentials->valid_for = callback->valid_for;
    coney_status status = callback->status;
    monitor_unlock(&callback->monitor);
    return status;
}

static void credentials_are_asked_once_and_renewed_before_they_expire(void **state)
{
    (void)state;
    struct callback callback = {.password = "guest", .valid_for = 500 * CONEY_MILLISECOND};
    struct events events = {0};
    coney_amqp_options options = {
        .on_event = events_add, .event_ctx = &events, .credentials = answer, .credentials_ctx = &callback};
    coney_amqp *rabbit = opened(uri_of("nobody:nothing@", ""), &options);
    coney_call call = {0};
    assert_int_equal(callback.asked, 1);
    assert_int_equal(coney_amqp_update_secret(rabbit, "x", &call), CONEY_EINVAL);
    events_wait(&events, CONEY_EVENT_SECRET_RENEWED, 1);
    assert_true(callback.asked >= 3);
    coney_amqp_close(&rabbit, NULL);
    monitor_free(&callback.monitor);
    events_free(&events);
}

static void a_callback_that_fails_to_renew_is_asked_again(void **state)
{
    (void)state;
    struct callback callback = {.password = "guest", .valid_for = 300 * CONEY_MILLISECOND};
    struct events events = {0};
    coney_amqp_options options = {.on_event = events_add,
                                  .event_ctx = &events,
                                  .credentials = answer,
                                  .credentials_ctx = &callback,
                                  .recovery_delay = 20 * CONEY_MILLISECOND};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), &options);
    monitor_lock(&callback.monitor);
    callback.status = CONEY_EUNAVAILABLE;
    monitor_unlock(&callback.monitor);
    struct event refused = events_wait(&events, CONEY_EVENT_SECRET_REFUSED, 1);
    assert_int_equal(refused.status, CONEY_EUNAVAILABLE);
    monitor_lock(&callback.monitor);
    callback.status = CONEY_OK;
    monitor_unlock(&callback.monitor);
    events_wait(&events, CONEY_EVENT_SECRET_RENEWED, 0);
    coney_amqp_close(&rabbit, NULL);
    monitor_free(&callback.monitor);
    events_free(&events);
}

static void what_a_credentials_callback_answers_fails_the_open(void **state)
{
    (void)state;
    struct callback callback = {.status = CONEY_EUNAVAILABLE};
    coney_amqp_options options = {.credentials = answer, .credentials_ctx = &callback};
    refused_at_open(amqp_uri(node.amqp_port), &options, CONEY_EUNAVAILABLE, 0, "credentials callback");
    callback.status = CONEY_OK;
    callback.password = "wrong";
    refused_at_open(amqp_uri(node.amqp_port), &options, CONEY_EAUTH, 403, "'guest'");
    monitor_free(&callback.monitor);
}

/* Dead handles ---------------------------------------------------------------------------------------------------- */

static void calls_on_a_closed_environment_are_refused(void **state)
{
    (void)state;
    coney_call call = {0};
    assert_null(coney_amqp_channel_open(NULL, NULL, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    assert_int_equal(coney_amqp_update_secret(NULL, "x", &call), CONEY_EINVAL);
    assert_int_equal(coney_amqp_close(NULL, &call), CONEY_OK);
    assert_int_equal(coney_amqp_channel_close(NULL, &call), CONEY_OK);
}

static void an_asynchronous_open_fails_once_and_leaves_a_dead_handle(void **state)
{
    (void)state;
    struct waited_call wait = {0};
    coney_amqp *rabbit = coney_amqp_open("amqp://127.0.0.1:1", NULL, waited_call_of(&wait, 0));
    assert_non_null(rabbit);
    assert_int_equal(waited_call_wait(&wait), CONEY_ECONNECT);
    coney_call call = {0};
    assert_null(coney_amqp_channel_open(rabbit, NULL, &call));
    assert_int_equal(call.status, CONEY_ECLOSED);
    assert_int_equal(coney_amqp_close(&rabbit, NULL), CONEY_OK);
    waited_call_free(&wait);
}

int main(void)
{
    if (!node_shared(&node) || node.amqp_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_environment_opens_with_one_connection_and_closes),
        cmocka_unit_test(D12_a_wrong_password_is_told_at_open_and_stands_in_no_text),
        cmocka_unit_test(D06_an_unknown_or_empty_virtual_host_is_told_at_open_with_the_brokers_words),
        cmocka_unit_test(D08_a_closed_port_fails_at_once),
        cmocka_unit_test(the_stream_port_is_told_from_the_right_one),
        cmocka_unit_test(D10_every_mechanism_that_the_broker_offers_logs_in_and_others_are_refused_before),
        cmocka_unit_test(options_that_cannot_be_are_refused_before_anything_is_dialled),
        cmocka_unit_test(the_addresses_are_tried_in_turn),
        cmocka_unit_test(client_properties_that_no_broker_takes_before_the_login_are_refused),
        cmocka_unit_test(the_broker_shows_the_connections_name_its_purpose_and_properties),
        cmocka_unit_test(K01_a_heartbeat_may_be_the_brokers_shorter_or_off),
        cmocka_unit_test(a_quiet_connection_is_kept_alive_by_heartbeats),
        cmocka_unit_test(a_new_secret_reaches_every_open_connection),
        cmocka_unit_test(credentials_are_asked_once_and_renewed_before_they_expire),
        cmocka_unit_test(a_callback_that_fails_to_renew_is_asked_again),
        cmocka_unit_test(what_a_credentials_callback_answers_fails_the_open),
        cmocka_unit_test(calls_on_a_closed_environment_are_refused),
        cmocka_unit_test(an_asynchronous_open_fails_once_and_leaves_a_dead_handle),
    };
    return run_tests(tests);
}
