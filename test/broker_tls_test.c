/* Streams of a real node over TLS: the way in, what is refused at open and with which words, and that nothing goes in clear
 * text. */
#define _GNU_SOURCE
#include "scene.h"

#include "base/text.h"
#include "base/time.h"

static struct node node;
static char ca_file[330];
static char tls_uri[300];

static const char *uri_of(const char *scheme, const char *host, uint16_t port)
{
    static char uri[300];
    text_print(uri, sizeof uri, "%s://guest:guest@%s:%u", scheme, host, (unsigned)port);
    return uri;
}

/* Opening fails at once with this status and these words. */
static void is_refused(const char *uri, const coney_tls_options *tls, coney_status status, const char *says)
{
    coney_stream_env_options options = {.tls = tls};
    coney_call call = {0};
    int64_t begin = time_now();
    coney_stream_env *env = coney_stream_env_open(uri, &options, &call);
    if (env != NULL)
        fail_msg("%s opened", uri);
    assert_says(call.text, says);
    assert_int_equal(call.status, status);
    assert_true(time_now() - begin < scaled_ns(4000));
}

static void publish_and_read_back(struct scene *scene)
{
    struct deliveries deliveries = {0};
    scene_fill(scene, 0, 5000);
    scene_read_back(scene, &deliveries);
    deliveries_are_numbered(&deliveries, 0, 5000);
    deliveries_free(&deliveries);
}

static void SB_81_messages_are_published_and_consumed_over_tls(void **state)
{
    (void)state;
    struct scene scene;
    coney_tls_options tls = {.ca_file = ca_file};
    scene_set(&scene);
    scene.options.tls = &tls;
    scene_open(&scene, tls_uri);
    publish_and_read_back(&scene);
    char *connections = node_ctl(&node, "-q list_stream_connections ssl conn_name");
    assert_says(connections, "true");
    free(connections);
    scene_down(&scene);
}

static void the_uri_alone_can_say_whom_to_trust(void **state)
{
    (void)state;
    struct scene scene;
    char uri[700];
    scene_set(&scene);
    text_print(uri, sizeof uri, "%s?cacertfile=%s", tls_uri, ca_file);
    scene_open(&scene, uri);
    publish_and_read_back(&scene);
    scene_down(&scene);
}

static void a_large_body_goes_both_ways(void **state)
{
    (void)state;
    struct scene scene;
    coney_tls_options tls = {.ca_file = ca_file};
    scene_set(&scene);
    scene.options.tls = &tls;
    scene_open(&scene, tls_uri);
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    static char body[700000];
    memset(body, 'x', sizeof body);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(coney_stream_send(producer, coney_bytes_of(body, sizeof body), i), CONEY_OK);
    outcomes_wait(&outcomes, 20);
    outcomes_are_in_order(&outcomes, 0, 20);
    coney_stream_consumer_options from_first = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &from_first);
    deliveries_wait(&deliveries, 20);
    assert_int_equal(deliveries_of(&deliveries, 19).body_len, sizeof body);
    coney_stream_consumer_close(&consumer, NULL);
    coney_stream_producer_close(&producer, NULL);
    scene_down(&scene);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
}

static void without_its_ca_the_broker_is_not_trusted(void **state)
{
    (void)state;
    is_refused(tls_uri, NULL, CONEY_ETLS,
               "'CN=coney test CA', which is not in the system's store: put that CA's certificate into");
}

static void SB_81_a_broker_of_another_name_is_refused(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = ca_file, .server_name = "node-a.example"};
    is_refused(tls_uri, &tls, CONEY_ETLS, "is not for 'node-a.example' but for localhost, 127.0.0.1");
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = "/nowhere/ca.pem"};
    is_refused(tls_uri, &tls, CONEY_ETLS, "ca_file '/nowhere/ca.pem' cannot be read");
}

static void SB_81_ports_of_another_kind_are_told_apart(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = ca_file};
    is_refused(uri_of("rabbitmq-stream+tls", "127.0.0.1", node.stream_port), &tls, CONEY_ECONNECT, "does this port speak TLS?");
    is_refused(uri_of("rabbitmq-stream+tls", "127.0.0.1", node.amqp_port), &tls, CONEY_ETLS, "speaks AMQP in clear text");
    is_refused(uri_of("rabbitmq-stream", "127.0.0.1", node.stream_tls_port), NULL, CONEY_EPROTOCOL, "speaks TLS");
}

static void options_for_tls_beside_a_plain_uri_are_refused(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = ca_file};
    is_refused(uri_of("rabbitmq-stream", "127.0.0.1", node.stream_port), &tls, CONEY_EINVAL, "rabbitmq-stream+tls://");
}

static void a_wrong_password_is_told_over_tls_too(void **state)
{
    (void)state;
    char uri[300];
    coney_tls_options tls = {.ca_file = ca_file};
    text_print(uri, sizeof uri, "rabbitmq-stream+tls://guest:wrong@localhost:%u", (unsigned)node.stream_tls_port);
    coney_stream_env_options options = {.tls = &tls};
    coney_call call = {0};
    assert_null(coney_stream_env_open(uri, &options, &call));
    assert_int_equal(call.status, CONEY_EAUTH);
}

int main(void)
{
    if (!node_shared(&node) || node.stream_tls_port == 0)
        return 77;
    text_print(ca_file, sizeof ca_file, "%s/ca.pem", node.tls);
    text_print(tls_uri, sizeof tls_uri, "%s", uri_of("rabbitmq-stream+tls", "localhost", node.stream_tls_port));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_81_messages_are_published_and_consumed_over_tls),
        cmocka_unit_test(the_uri_alone_can_say_whom_to_trust),
        cmocka_unit_test(a_large_body_goes_both_ways),
        cmocka_unit_test(without_its_ca_the_broker_is_not_trusted),
        cmocka_unit_test(SB_81_a_broker_of_another_name_is_refused),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
        cmocka_unit_test(SB_81_ports_of_another_kind_are_told_apart),
        cmocka_unit_test(options_for_tls_beside_a_plain_uri_are_refused),
        cmocka_unit_test(a_wrong_password_is_told_over_tls_too),
    };
    return run_tests(tests);
}
