/* TLS on a node of our own that asks for client certificates, is killed, and gets new certificates while we are connected. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scene.h"
#include "traffic.h"

#include "base/text.h"

static struct node node;
static char files[5][330];
static coney_tls_options tls;
static char uri[300];

enum { CA, CERTIFICATE, KEY };

static void open_scene(struct scene *scene)
{
    scene_set(scene);
    scene->options.tls = &tls;
    scene_open(scene, uri);
}

static void a_node_that_asks_for_a_certificate_refuses_who_has_none(void **state)
{
    (void)state;
    coney_tls_options without = {.ca_file = files[CA]};
    coney_stream_env_options options = {.tls = &without};
    coney_call call = {0};
    assert_null(coney_stream_env_open(uri, &options, &call));
    assert_says(call.text, "the broker asks for a client certificate: set certificate and private_key, or pkcs12_file");
    assert_int_equal(call.status, CONEY_ETLS);
}

static void with_a_certificate_messages_go_both_ways(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries deliveries = {0};
    open_scene(&scene);
    scene_fill(&scene, 0, 1000);
    scene_read_back(&scene, &deliveries);
    deliveries_are_numbered(&deliveries, 0, 1000);
    scene_down(&scene);
    deliveries_free(&deliveries);
}

/* The user is the certificate's common name, and has no password. */
static void with_external_the_certificate_is_the_log_in(void **state)
{
    (void)state;
    node_do(&node, "add_user coney-client unused");
    node_do(&node, "clear_password coney-client");
    node_do(&node, "set_permissions coney-client '.*' '.*' '.*'");
    coney_amqp_options options = {.tls = &tls, .mechanism = "EXTERNAL"};
    char amqps[300];
    text_print(amqps, sizeof amqps, "amqps://127.0.0.1:%u", (unsigned)node.amqps_port);
    coney_call call = {0};
    coney_amqp *rabbit = coney_amqp_open(amqps, &options, &call);
    if (rabbit == NULL)
        fail_msg("%s", call.text);
    char *users = node_ctl(&node, "-q list_connections user auth_mechanism");
    assert_says(users, "coney-client\tEXTERNAL");
    free(users);
    coney_amqp_close(&rabbit, NULL);
}

/* The user is there already. */
static void with_external_the_certificate_is_the_log_in_of_streams_too(void **state)
{
    (void)state;
    char streams[300];
    text_print(streams, sizeof streams, "rabbitmq-stream+tls://127.0.0.1:%u?auth_mechanism=external",
               (unsigned)node.stream_tls_port);
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(streams, &(coney_stream_env_options){.tls = &tls}, &call);
    if (env == NULL)
        fail_msg("%s", call.text);
    char *users = node_ctl(&node, "-q list_stream_connections user auth_mechanism"); /* as a table drawn with lines */
    assert_says(users, "coney-client");
    assert_says(users, "EXTERNAL");
    free(users);
    coney_stream_env_close(&env, NULL);
}

static void a_node_killed_under_load_loses_nothing_over_tls(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    open_scene(&scene);
    node_shut(&node); /* what it knows of streams is on its disk then */
    node_restart(&node);
    traffic_start(&traffic, &scene, 30000, "writer");
    traffic_passes(&traffic, 10000);
    node_kill(&node);
    node_restart(&node);
    traffic_is_whole(&traffic);
    scene_down(&scene);
}

/* A new CA and new certificates of both sides, under the same names of files. */
static void SB_81_certificates_that_were_renewed_are_used_by_the_next_connection(void **state)
{
    (void)state;
    struct scene scene;
    struct traffic traffic;
    open_scene(&scene);
    traffic_start(&traffic, &scene, 20000, "writer");
    traffic_passes(&traffic, 5000);
    node_shut(&node);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_int_equal(remove(files[i]), 0);
    node_restart(&node);
    traffic_is_whole(&traffic);
    scene_down(&scene);
}

int main(void)
{
    if (!node_start(&node, "tls",
                    "--plugins rabbitmq_stream,rabbitmq_auth_mechanism_ssl "
                    "--conf 'ssl_options.fail_if_no_peer_cert = true' "
                    "--conf 'auth_mechanisms.1 = PLAIN' --conf 'auth_mechanisms.2 = EXTERNAL'"))
        return 77;
    if (node.stream_tls_port == 0) {
        node_remove(&node);
        return 77;
    }
    static const char *const names[] = {"ca.pem", "client.pem", "client.key", "server.pem", "server.key"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        text_print(files[i], sizeof files[i], "%s/%s", node.tls, names[i]);
    tls = (coney_tls_options){.ca_file = files[CA], .certificate = files[CERTIFICATE], .private_key = files[KEY]};
    text_print(uri, sizeof uri, "rabbitmq-stream+tls://guest:guest@127.0.0.1:%u", (unsigned)node.stream_tls_port);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_asks_for_a_certificate_refuses_who_has_none),
        cmocka_unit_test(with_a_certificate_messages_go_both_ways),
        cmocka_unit_test(with_external_the_certificate_is_the_log_in),
        cmocka_unit_test(with_external_the_certificate_is_the_log_in_of_streams_too),
        cmocka_unit_test(a_node_killed_under_load_loses_nothing_over_tls),
        cmocka_unit_test(SB_81_certificates_that_were_renewed_are_used_by_the_next_connection),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
