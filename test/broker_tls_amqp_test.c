/* AMQP 0-9-1 of a real node over TLS: messages both ways, and what is refused at open. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "stage.h"

#include "base/text.h"
#include "base/time.h"

static struct node node;
static char ca_file[330];

static const char *uri_of(const char *scheme, const char *host, uint16_t port)
{
    static char uri[300];
    text_print(uri, sizeof uri, "%s://guest:guest@%s:%u", scheme, host, (unsigned)port);
    return uri;
}

static void is_refused(const char *uri, const coney_tls_options *tls, coney_status status, const char *says)
{
    coney_amqp_options options = {.tls = tls};
    coney_call call = {0};
    int64_t begin = time_now();
    coney_amqp *rabbit = coney_amqp_open(uri, &options, &call);
    if (rabbit != NULL)
        fail_msg("%s opened", uri);
    assert_says(call.text, says);
    assert_int_equal(call.status, status);
    assert_true(time_now() - begin < scaled_ns(4000));
}

static void open_scene(struct amqp_scene *scene, const coney_tls_options *tls)
{
    amqp_scene_set(scene);
    scene->options.tls = tls;
    amqp_scene_open(scene, uri_of("amqps", "localhost", node.amqps_port));
}

struct received {
    struct monitor monitor;
    size_t count;
    size_t bytes;
};

static coney_settle receive(void *ctx, const coney_amqp_delivery *delivery)
{
    struct received *received = ctx;
    monitor_lock(&received->monitor);
    received->count++;
    received->bytes += delivery->body.len;
    monitor_broadcast(&received->monitor);
    monitor_unlock(&received->monitor);
    return CONEY_ACK;
}

static void wait_for(struct received *received, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&received->monitor);
    while (received->count < count && monitor_wait(&received->monitor, until))
        ;
    size_t came = received->count;
    monitor_unlock(&received->monitor);
    assert_int_equal(came, count);
}

static void messages_are_confirmed_and_delivered_over_tls(void **state)
{
    (void)state;
    struct amqp_scene scene;
    coney_tls_options tls = {.ca_file = ca_file};
    open_scene(&scene, &tls);
    struct outcomes outcomes = {0};
    struct received received = {0};
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    coney_amqp_consumer_options options = {.on_delivery = receive, .ctx = &received};
    coney_call call = {0};
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(scene.rabbit, scene.queue, &options, &call);
    if (consumer == NULL)
        fail_msg("%s", call.text);
    amqp_publish_numbered(publisher, 0, 3000);
    outcomes_wait(&outcomes, 3000);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 3000);
    wait_for(&received, 3000);
    char *connections = node_ctl(&node, "-q list_connections ssl");
    assert_says(connections, "true");
    free(connections);
    assert_int_equal(coney_amqp_consumer_close(&consumer, NULL), CONEY_OK);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
    outcomes_free(&outcomes);
    monitor_free(&received.monitor);
}

static void a_body_of_many_frames_goes_both_ways(void **state)
{
    (void)state;
    struct amqp_scene scene;
    coney_tls_options tls = {.ca_file = ca_file};
    open_scene(&scene, &tls);
    static char body[3000000];
    memset(body, 'x', sizeof body);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    coney_amqp_message message = {.body = coney_bytes_of(body, sizeof body), .routing_key = coney_bytes_str(scene.queue)};
    coney_call call = {0};
    if (coney_amqp_publish_wait(publisher, &message, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    coney_kept *kept = NULL;
    assert_int_equal(coney_amqp_get(scene.rabbit, scene.queue, &kept, &call), CONEY_OK);
    assert_non_null(kept);
    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(kept);
    assert_int_equal(delivery->body.len, sizeof body);
    assert_memory_equal(delivery->body.data, body, sizeof body);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
}

static void the_uri_alone_can_say_whom_to_trust(void **state)
{
    (void)state;
    struct amqp_scene scene;
    char uri[700];
    amqp_scene_set(&scene);
    text_print(uri, sizeof uri, "%s?cacertfile=%s&server_name_indication=localhost",
               uri_of("amqps", "127.0.0.1", node.amqps_port), ca_file);
    amqp_scene_open(&scene, uri);
    amqp_scene_down(&scene);
}

static void without_its_ca_the_broker_is_not_trusted(void **state)
{
    (void)state;
    is_refused(uri_of("amqps", "localhost", node.amqps_port), NULL, CONEY_ETLS, "which is not in the system's store");
}

static void a_broker_of_another_name_is_refused(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = ca_file, .server_name = "node-a.example"};
    is_refused(uri_of("amqps", "localhost", node.amqps_port), &tls, CONEY_ETLS,
               "is not for 'node-a.example' but for localhost, 127.0.0.1");
}

static void ports_of_another_kind_are_told_apart(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = ca_file};
    is_refused(uri_of("amqps", "127.0.0.1", node.amqp_port), &tls, CONEY_ETLS, "this port speaks AMQP in clear text");
    is_refused(uri_of("amqps", "127.0.0.1", node.stream_port), &tls, CONEY_ECONNECT, "does this port speak TLS?");
    is_refused(uri_of("amqp", "127.0.0.1", node.amqps_port), NULL, CONEY_EPROTOCOL, "speaks TLS");
}

static void options_for_tls_beside_a_plain_uri_are_refused(void **state)
{
    (void)state;
    coney_tls_options tls = {.ca_file = ca_file};
    is_refused(uri_of("amqp", "127.0.0.1", node.amqp_port), &tls, CONEY_EINVAL, "amqps://");
}

int main(void)
{
    if (!node_shared(&node) || node.amqps_port == 0)
        return 77;
    text_print(ca_file, sizeof ca_file, "%s/ca.pem", node.tls);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_confirmed_and_delivered_over_tls),
        cmocka_unit_test(a_body_of_many_frames_goes_both_ways),
        cmocka_unit_test(the_uri_alone_can_say_whom_to_trust),
        cmocka_unit_test(without_its_ca_the_broker_is_not_trusted),
        cmocka_unit_test(a_broker_of_another_name_is_refused),
        cmocka_unit_test(ports_of_another_kind_are_told_apart),
        cmocka_unit_test(options_for_tls_beside_a_plain_uri_are_refused),
    };
    return run_tests(tests);
}
