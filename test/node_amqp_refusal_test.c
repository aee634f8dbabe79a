/* What a node of our own takes away while it is in use: queues, exchanges, the password, the virtual host, its certificate, all connections; and
 * messages as large as it takes them. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "amqp_traffic.h"
#include "certs.h"
#include "stage.h"

#include "base/text.h"

enum { MB = 1000000 };

static struct node node;

/* Another environment, for what happens behind the back of the one under test. */
static void outside_deletes_queue(const char *queue)
{
    struct warren outside;
    warren_set(&outside, &node);
    outside.env = coney_amqp_open(outside.uri, NULL, NULL);
    assert_non_null(outside.env);
    assert_int_equal(coney_amqp_queue_delete(outside.env, queue, 0, NULL), CONEY_OK);
    coney_amqp_close(&outside.env, NULL);
}

static struct event has_event(struct warren *warren, coney_event_type type, coney_status status)
{
    int64_t until = now_ms() + scaled_ms(30000);
    for (size_t n = 0; events_reach(&warren->events, type, n + 1, until - now_ms()); n++) {
        struct event event = events_wait(&warren->events, type, n);
        if (event.status == status)
            return event;
    }
    events_print(&warren->events);
    fail_msg("no event %s with %s came", coney_event_name(type), coney_status_name(status));
    return (struct event){0};
}

/* Connections --------------------------------------------------------------------------------------------------------- */

static void L12_connections_that_the_operator_closes_are_made_again_and_nothing_is_lost(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    warren_up(&warren, &node, NULL);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    for (size_t time = 1; time <= 3; time++) {
        amqp_traffic_passes(&traffic, 300);
        node_do(&node, "-q close_all_connections 'the operator wants it so'");
        assert_true(events_reach(&warren.events, CONEY_EVENT_RECOVERED, 2 * time, scaled_ms(SUPPORT_PATIENCE)));
    }
    amqp_traffic_passes(&traffic, 300);
    amqp_traffic_is_whole(&traffic);
    struct event closed = events_wait(&warren.events, CONEY_EVENT_SERVER_CLOSE, 0);
    assert_int_equal(closed.code, 320);
    assert_int_equal(closed.status, CONEY_ELOST);
    assert_says(closed.text, "the operator wants it so");
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_GAVE_UP), 0);
    warren_down(&warren);
}

/* Opens the warren as another user, in another virtual host, or both. */
static void open_at(struct warren *warren, const char *user, const char *password, const char *vhost)
{
    warren_set(warren, &node);
    text_print(warren->uri, sizeof warren->uri, "amqp://%s:%s@127.0.0.1:%u/%s", user, password, (unsigned)node.amqp_port,
               vhost);
    warren_open(warren, NULL);
}

static void a_password_that_is_refused_in_recovery_is_told_with_pauses_until_it_is_taken_again(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    node_do(&node, "-q add_user clerk right");
    node_do(&node, "-q set_permissions clerk '.*' '.*' '.*'");
    open_at(&warren, "clerk", "right", "%2f");
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 300);
    node_do(&node, "-q change_password clerk wrong");
    node_do(&node, "-q close_all_user_connections clerk renewal");
    struct event failed = has_event(&warren, CONEY_EVENT_RECOVERY_FAILED, CONEY_EAUTH);
    assert_int_equal(failed.code, 403);
    assert_true(failed.delay > 0);
    assert_says(failed.text, "password");
    assert_false(events_say(&warren.events, "right"));
    assert_string_not_equal(has_event(&warren, CONEY_EVENT_CONNECT_FAILED, CONEY_EAUTH).node, "");
    (void)events_wait(&warren.events, CONEY_EVENT_RECOVERY_FAILED,
                      11); /* six of the publisher's and the consumer's: the pauses have grown */
    int64_t begun = now_ms();
    size_t before = events_count(&warren.events, CONEY_EVENT_RECOVERY_FAILED);
    (void)events_wait(&warren.events, CONEY_EVENT_RECOVERY_FAILED, before + 5);
    assert_true(now_ms() - begun >=
                250); /* of six some are the third of their kind, with two pauses of 250 ms or more between */
    node_do(&node, "-q change_password clerk right");
    amqp_traffic_passes(&traffic, 300);
    amqp_traffic_is_whole(&traffic);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_GAVE_UP), 0);
    warren_down(&warren);
    node_do(&node, "-q delete_user clerk");
}

static void make_vhost(void)
{
    node_do(&node, "-q add_vhost burrow");
    node_do(&node, "-q set_permissions -p burrow guest '.*' '.*' '.*'");
}

static void a_virtual_host_that_is_deleted_is_told_and_used_again_when_it_is_back(void **state)
{
    (void)state;
    struct warren warren;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    coney_call call = {0};
    make_vhost();
    open_at(&warren, "guest", "guest", "burrow");
    const coney_amqp_publisher_options options = {.routing_key = warren.queue, .on_outcome = outcomes_add, .ctx = &outcomes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren.env, &options, &call);
    assert_non_null(publisher);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    amqp_publish_numbered(publisher, 0, 10);
    outcomes_wait(&outcomes, 10);
    parcels_wait(&parcels, 10);
    node_do(&node, "-q delete_vhost burrow");
    struct event failed = has_event(&warren, CONEY_EVENT_RECOVERY_FAILED, CONEY_EVHOST);
    assert_int_equal(failed.code, 530);
    assert_says(failed.text, "burrow");
    assert_true(failed.delay > 0);
    amqp_publish_numbered(publisher, 10, 10);
    make_vhost();
    outcomes_wait(&outcomes, 20);
    parcels_wait(&parcels, 20); /* the queue was declared again */
    outcomes_are_each_once(&outcomes, 0, 20);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 20);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    warren_close_consumer(&consumer);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
    warren_down(&warren);
    node_do(&node, "-q delete_vhost burrow");
}

/* Queues and exchanges -------------------------------------------------------------------------------------------------- */

static void a_queue_deleted_under_load_returns_what_follows_until_it_is_declared_again(void **state)
{
    (void)state;
    enum { PART = 500 };
    struct warren warren;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    coney_call call = {0};
    warren_up(&warren, &node, NULL);
    const coney_amqp_publisher_options options = {.routing_key = warren.queue, .on_outcome = outcomes_add, .ctx = &outcomes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren.env, &options, &call);
    assert_non_null(publisher);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    amqp_publish_numbered(publisher, 0, PART);
    outcomes_wait(&outcomes, PART);
    parcels_wait(&parcels, PART);
    outside_deletes_queue(warren.queue);
    struct event canceled = events_wait(&warren.events, CONEY_EVENT_CONSUMER_CANCELED, 0);
    assert_string_equal(canceled.name, warren.queue);
    amqp_publish_numbered(publisher, PART, PART);
    outcomes_wait(&outcomes, 2 * PART);
    assert_int_equal(outcomes_with(&outcomes, CONEY_ERETURNED), PART);
    assert_int_equal(outcomes_of(&outcomes, PART).code, 312);
    (void)has_event(&warren, CONEY_EVENT_RECOVERY_FAILED, CONEY_ENOTFOUND);
    warren_declare(&warren, warren.queue, NULL);
    amqp_publish_numbered(publisher, 2 * PART, PART);
    outcomes_wait(&outcomes, 3 * PART);
    parcels_wait(&parcels, 2 * PART);
    outcomes_are_each_once(&outcomes, 0, 3 * PART);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 2 * PART);
    assert_int_equal(parcels_of(&parcels, 2 * PART - 1).number, 3 * PART - 1);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    warren_close_consumer(&consumer);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
    warren_down(&warren);
}

/* Every other message goes to an exchange that is deleted meanwhile. */
static void publish_to_two(coney_amqp_publisher *publisher, const char *exchange, uint64_t first, size_t count)
{
    for (uint64_t n = first; n < first + count; n++) {
        coney_amqp_message message = {.body = numbered(n), .tag = n};
        if (n % 2 == 1)
            message.exchange = coney_bytes_str(exchange);
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
}

static size_t refused_of_odd(struct outcomes *outcomes)
{
    size_t refused = 0;
    for (size_t i = 0; i < outcomes_count(outcomes); i++) {
        struct outcome outcome = outcomes_of(outcomes, i);
        if (outcome.status == CONEY_OK)
            continue;
        assert_int_equal(outcome.status, CONEY_EREFUSED);
        assert_int_equal(outcome.code, 404);
        assert_int_equal(outcome.tag % 2, 1);
        refused++;
    }
    return refused;
}

static void an_exchange_deleted_under_load_costs_its_own_messages_only(void **state)
{
    (void)state;
    enum { PART = 400 };
    struct warren warren, outside;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    coney_call call = {0};
    char exchange[90];
    warren_up(&warren, &node, NULL);
    warren_set(&outside, &node);
    outside.env = coney_amqp_open(outside.uri, NULL, NULL);
    assert_non_null(outside.env);
    snprintf(exchange, sizeof exchange, "%s-x", warren.queue);
    const coney_amqp_exchange declared = {.name = exchange, .type = "fanout"};
    const coney_amqp_binding bound = {.source = exchange, .destination = warren.queue};
    assert_int_equal(coney_amqp_exchange_declare(outside.env, &declared, NULL), CONEY_OK);
    assert_int_equal(coney_amqp_bind(outside.env, &bound, NULL), CONEY_OK);
    const coney_amqp_publisher_options options = {.routing_key = warren.queue, .on_outcome = outcomes_add, .ctx = &outcomes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren.env, &options, &call);
    assert_non_null(publisher);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    publish_to_two(publisher, exchange, 0, PART);
    outcomes_wait(&outcomes, PART);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), PART);
    assert_int_equal(coney_amqp_exchange_delete(outside.env, exchange, 0, NULL), CONEY_OK);
    publish_to_two(publisher, exchange, PART, PART);
    outcomes_wait(&outcomes, 2 * PART);
    assert_int_equal(refused_of_odd(&outcomes), PART / 2);
    assert_int_equal(coney_amqp_exchange_declare(outside.env, &declared, NULL), CONEY_OK);
    assert_int_equal(coney_amqp_bind(outside.env, &bound, NULL), CONEY_OK);
    publish_to_two(publisher, exchange, 2 * PART, PART);
    outcomes_wait(&outcomes, 3 * PART);
    outcomes_are_each_once(&outcomes, 0, 3 * PART);
    assert_int_equal(refused_of_odd(&outcomes), PART / 2);
    parcels_wait(&parcels, 5 * PART / 2); /* or more: what was sent again beside a culprit may come twice */
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    warren_close_consumer(&consumer);
    coney_amqp_exchange_delete(outside.env, exchange, 0, NULL);
    coney_amqp_close(&outside.env, NULL);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
    warren_down(&warren);
}

/* Certificates ---------------------------------------------------------------------------------------------------------- */

static void copy_file(const char *from, const char *to)
{
    char bytes[16384];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    assert_non_null(in);
    assert_non_null(out);
    size_t len = fread(bytes, 1, sizeof bytes, in);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

/* The node's certificate and key become these, from its next connection on. */
static void node_shows(const char *certificate, const char *key)
{
    char path[340];
    text_print(path, sizeof path, "%s/server.pem", node.tls);
    copy_file(certificate, path);
    text_print(path, sizeof path, "%s/server.key", node.tls);
    copy_file(key, path);
    node_do(&node, "-q eval 'ssl:clear_pem_cache().'");
}

static void a_certificate_for_another_host_is_refused_at_once_and_in_recovery_until_it_is_right(void **state)
{
    (void)state;
    if (node.amqps_port == 0)
        skip();
    struct warren warren;
    struct amqp_traffic traffic;
    char here[64];
    struct certs *certs = certs_new();
    certs_make(certs, &(struct cert){.name = "ca"});
    certs_make(certs, &(struct cert){.name = "here", .issuer = "ca", .hosts = "DNS:localhost,IP:127.0.0.1"});
    certs_make(certs, &(struct cert){.name = "elsewhere", .issuer = "ca", .hosts = "DNS:elsewhere.example"});
    const coney_tls_options tls = {.ca_file = certs_path(certs, "ca.pem")};
    warren_set(&warren, &node);
    text_print(warren.uri, sizeof warren.uri, "amqps://127.0.0.1:%u", (unsigned)node.amqps_port);
    text_print(here, sizeof here, "127.0.0.1:%u", (unsigned)node.amqps_port);
    const char *const twice[] = {here, NULL};
    warren.options.tls = &tls;
    warren.options.addresses = twice;

    node_shows(certs_path(certs, "elsewhere.pem"), certs_path(certs, "elsewhere.key"));
    coney_call call = {0};
    assert_null(coney_amqp_open(warren.uri, &warren.options, &call));
    assert_int_equal(call.status, CONEY_ETLS);
    assert_says(call.text, "is not for '127.0.0.1' but for elsewhere.example");
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_CONNECT_FAILED), 1); /* the other address was not tried */

    node_shows(certs_path(certs, "here.pem"), certs_path(certs, "here.key"));
    warren_open(&warren, NULL);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 300);
    node_shows(certs_path(certs, "elsewhere.pem"), certs_path(certs, "elsewhere.key"));
    node_do(&node, "-q close_all_connections renewal");
    struct event failed = has_event(&warren, CONEY_EVENT_RECOVERY_FAILED, CONEY_ETLS);
    assert_says(failed.text, "elsewhere.example");
    assert_true(failed.delay > 0);
    node_shows(certs_path(certs, "here.pem"), certs_path(certs, "here.key"));
    amqp_traffic_passes(&traffic, 300);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
    certs_free(&certs);
}

/* Large messages -------------------------------------------------------------------------------------------------------- */

struct large {
    struct monitor monitor;
    const uint8_t *expected;
    size_t size;
    bool came;
    bool whole;
};

static coney_settle compare(void *ctx, const coney_amqp_delivery *delivery)
{
    struct large *large = ctx;
    bool whole = delivery->body.len == large->size && memcmp(delivery->body.data, large->expected, large->size) == 0;
    monitor_lock(&large->monitor);
    large->came = true;
    large->whole = whole;
    monitor_broadcast(&large->monitor);
    monitor_unlock(&large->monitor);
    return CONEY_ACK;
}

static uint8_t *pattern(size_t size)
{
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    uint32_t next = 1;
    for (size_t i = 0; i < size; i++) {
        next = next * 1103515245 + 12345;
        bytes[i] = (uint8_t)(next >> 16);
    }
    return bytes;
}

static void a_hundred_megabytes_go_both_ways(int64_t heartbeat)
{
    struct warren warren;
    struct large large = {.size = 100 * MB};
    uint8_t *body = pattern(large.size);
    large.expected = body;
    warren_set(&warren, &node);
    warren.options.heartbeat = heartbeat;
    warren_open(&warren, NULL);
    const coney_amqp_consumer_options options = {.on_delivery = compare, .ctx = &large};
    coney_amqp_consumer *consumer = warren_consumer(&warren, NULL, &options);
    coney_call call = {0};
    coney_amqp_publisher *publisher =
        coney_amqp_publisher_open(warren.env, &(coney_amqp_publisher_options){.routing_key = warren.queue}, &call);
    assert_non_null(publisher);
    call = call_within(60000);
    const coney_amqp_message message = {.body = coney_bytes_of(body, large.size)};
    if (coney_amqp_publish_wait(publisher, &message, &call) != CONEY_OK)
        fail_msg("%s: %s", coney_status_name(call.status), call.text);
    int64_t until = now_ms() + scaled_ms(60000);
    monitor_lock(&large.monitor);
    while (!large.came && monitor_wait(&large.monitor, until))
        ;
    monitor_unlock(&large.monitor);
    assert_true(large.came && large.whole);
    if (events_count(&warren.events, CONEY_EVENT_DISCONNECTED) > 0) {
        events_print(&warren.events);
        fail_msg("a connection was lost");
    }
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    warren_close_consumer(&consumer);
    warren_down(&warren);
    monitor_free(&large.monitor);
    free(body);
}

static void a_hundred_megabytes_go_both_ways_with_heartbeats_of_a_second(void **state)
{
    (void)state;
    a_hundred_megabytes_go_both_ways(scaled_ns(1000));
}

static void a_hundred_megabytes_go_both_ways_without_heartbeats(void **state)
{
    (void)state;
    a_hundred_megabytes_go_both_ways(CONEY_OFF);
}

static void a_body_beyond_the_nodes_limit_is_refused_in_its_words_and_the_others_go_on(void **state)
{
    (void)state;
    struct warren warren;
    struct outcomes outcomes = {0};
    coney_call call = {0};
    uint8_t *body = pattern(140 * MB);
    warren_up(&warren, &node, NULL);
    const coney_amqp_publisher_options options = {
        .routing_key = warren.queue, .on_outcome = outcomes_add, .ctx = &outcomes, .max_bytes = CONEY_GIB};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren.env, &options, &call);
    assert_non_null(publisher);
    amqp_publish_numbered(publisher, 0, 10);
    const coney_amqp_message large = {.body = coney_bytes_of(body, 140 * MB), .tag = 10};
    assert_int_equal(coney_amqp_publish(publisher, &large), CONEY_OK);
    amqp_publish_numbered(publisher, 11, 9);
    assert_true(outcomes_reach(&outcomes, 20, scaled_ms(60000)));
    outcomes_are_each_once(&outcomes, 0, 20);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 19);
    for (size_t i = 0; i < 20; i++)
        if (outcomes_of(&outcomes, i).tag == 10) {
            assert_int_equal(outcomes_of(&outcomes, i).status, CONEY_EREFUSED);
            assert_int_equal(outcomes_of(&outcomes, i).code, 406);
        }
    assert_true(events_say(&warren.events, "larger than configured max size 134217728"));
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    outcomes_free(&outcomes);
    warren_down(&warren);
    free(body);
}

int main(void)
{
    if (!node_start(&node, "amqp-refusal", "--memory 2GB --conf 'max_message_size = 134217728'"))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(L12_connections_that_the_operator_closes_are_made_again_and_nothing_is_lost),
        cmocka_unit_test(a_password_that_is_refused_in_recovery_is_told_with_pauses_until_it_is_taken_again),
        cmocka_unit_test(a_virtual_host_that_is_deleted_is_told_and_used_again_when_it_is_back),
        cmocka_unit_test(a_queue_deleted_under_load_returns_what_follows_until_it_is_declared_again),
        cmocka_unit_test(an_exchange_deleted_under_load_costs_its_own_messages_only),
        cmocka_unit_test(a_certificate_for_another_host_is_refused_at_once_and_in_recovery_until_it_is_right),
        cmocka_unit_test(a_hundred_megabytes_go_both_ways_with_heartbeats_of_a_second),
        cmocka_unit_test(a_hundred_megabytes_go_both_ways_without_heartbeats),
        cmocka_unit_test(a_body_beyond_the_nodes_limit_is_refused_in_its_words_and_the_others_go_on),
    };
    int failed = run_tests(tests);
    node_remove(&node);
    return failed;
}
