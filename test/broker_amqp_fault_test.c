/* A real node behind the fault proxy: cuts, half-open connections, slow and halting ways; and a process that is out of descriptors. Nothing
 * is lost. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "amqp_traffic.h"
#include "proxy.h"
#include "stage.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct node node;

/* A warren whose node is behind a proxy; heartbeats are the shortest that there are, where the machine is not slow. */
static struct proxy *warren_behind_proxy(struct warren *warren, coney_queue_type type)
{
    struct proxy *proxy = proxy_start_bytes("127.0.0.1", node.amqp_port);
    warren_set(warren, &node);
    snprintf(warren->uri, sizeof warren->uri, "amqp://127.0.0.1:%u", (unsigned)proxy_port(proxy));
    warren->options.heartbeat = scaled_ns(1000);
    warren_open(warren, &(coney_amqp_queue){.type = type});
    return proxy;
}

static coney_amqp_publisher *publisher_of(struct warren *warren, struct outcomes *outcomes, int64_t max_bytes)
{
    coney_call call = {0};
    const coney_amqp_publisher_options options = {
        .routing_key = warren->queue, .on_outcome = outcomes_add, .ctx = outcomes, .max_bytes = max_bytes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren->env, &options, &call);
    if (publisher == NULL)
        fail_msg("the publisher did not open: %s: %s", coney_status_name(call.status), call.text);
    return publisher;
}

/* Publishes "m<number>", padded to this size. */
static void publish_padded(coney_amqp_publisher *publisher, uint64_t number, size_t size)
{
    char *body = calloc(1, size + 32);
    assert_non_null(body);
    snprintf(body, 32, "m%llu", (unsigned long long)number);
    const coney_amqp_message message = {.body = coney_bytes_of(body, size), .tag = number};
    assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    free(body);
}

/* Waits until all connections are lost that were there before. */
static void are_lost(struct warren *warren, const coney_amqp_stats *before, int64_t ms)
{
    size_t count = before->connections_lost + before->connections;
    if (events_reach(&warren->events, CONEY_EVENT_DISCONNECTED, count, scaled_ms(ms)))
        return;
    events_print(&warren->events);
    fail_msg("%zu connections were lost instead of %zu", events_count(&warren->events, CONEY_EVENT_DISCONNECTED), count);
}

static coney_amqp_stats stats_of(struct warren *warren)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(warren->env, &stats), CONEY_OK);
    return stats;
}

/* Cuts -------------------------------------------------------------------------------------------------------------- */

static void cuts_under_load_lose_nothing(coney_queue_type type)
{
    struct warren warren;
    struct amqp_traffic traffic;
    struct proxy *proxy = warren_behind_proxy(&warren, type);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    for (size_t cut = 1; cut <= 5; cut++) {
        amqp_traffic_passes(&traffic, 500);
        coney_amqp_stats before = stats_of(&warren);
        proxy_cut(proxy, cut % 2 == 0 ? PROXY_FIN : PROXY_RST);
        are_lost(&warren, &before, SUPPORT_PATIENCE);
    }
    amqp_traffic_is_whole(&traffic);
    assert_string_not_equal(events_wait(&warren.events, CONEY_EVENT_DISCONNECTED, 0).text, "");
    warren_down(&warren);
    proxy_stop(&proxy);
}

static void cuts_under_load_lose_nothing_from_a_classic_queue(void **state)
{
    (void)state;
    cuts_under_load_lose_nothing(CONEY_QUEUE_CLASSIC);
}

static void cuts_under_load_lose_nothing_from_a_quorum_queue(void **state)
{
    (void)state;
    cuts_under_load_lose_nothing(CONEY_QUEUE_QUORUM);
}

static void K05_what_is_published_into_a_connection_that_has_gone_silent_is_sent_again(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    struct proxy *proxy = warren_behind_proxy(&warren, CONEY_QUEUE_CLASSIC);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 500);
    int64_t begun = now_ms();
    coney_amqp_stats before = stats_of(&warren);
    proxy_swallow(proxy, true);
    are_lost(&warren, &before, 10000); /* all: one that lived on would have a gap in what it carries */
    assert_in_range(now_ms() - begun, 1500, scaled_ms(5000));
    proxy_swallow(proxy, false);
    amqp_traffic_passes(&traffic, 500);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
    proxy_stop(&proxy);
}

static void a_broker_that_cannot_be_reached_for_a_while_is_found_again(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    struct proxy *proxy = warren_behind_proxy(&warren, CONEY_QUEUE_CLASSIC);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 500);
    proxy_set_door(proxy, PROXY_REFUSES);
    proxy_cut(proxy, PROXY_RST);
    events_wait(&warren.events, CONEY_EVENT_RECOVERY_FAILED, 3);
    proxy_set_door(proxy, PROXY_ACCEPTS);
    amqp_traffic_passes(&traffic, 500);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
    proxy_stop(&proxy);
}

/* Lets connections through again when one attempt has failed: the next one, for something else, succeeds. */
struct gate {
    struct events *events;
    struct proxy *proxy;
    atomic_bool opens;
    bool armed; /* an attempt is over: the next connection that fails is for the topology */
};

static void open_gate(void *ctx, const coney_event *event)
{
    struct gate *gate = ctx;
    gate->armed |= event->type == CONEY_EVENT_RECOVERY_FAILED && atomic_load(&gate->opens);
    if (event->type == CONEY_EVENT_CONNECT_FAILED && gate->armed) {
        gate->armed = false;
        atomic_store(&gate->opens, false);
        proxy_set_door(gate->proxy, PROXY_ACCEPTS);
    }
    events_add(gate->events, event);
}

static void no_publisher_is_back_before_its_queue_is(void **state)
{
    (void)state;
    enum { ROUNDS = 8 };
    struct warren warren, outside;
    struct outcomes outcomes = {0};
    struct proxy *proxy = proxy_start_bytes("127.0.0.1", node.amqp_port);
    warren_up(&outside, &node, NULL);
    warren_set(&warren, &node);
    struct gate gate = {.events = &warren.events, .proxy = proxy};
    warren.options.on_event = open_gate;
    warren.options.event_ctx = &gate;
    snprintf(warren.uri, sizeof warren.uri, "amqp://127.0.0.1:%u", (unsigned)proxy_port(proxy));
    warren_open(&warren, NULL);
    coney_amqp_publisher *publisher = publisher_of(&warren, &outcomes, 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        proxy_set_door(proxy, PROXY_REFUSES);
        proxy_cut(proxy, PROXY_RST);
        events_wait(&warren.events, CONEY_EVENT_RECOVERING, round);
        assert_int_equal(coney_amqp_queue_delete(outside.env, warren.queue, 0, NULL), CONEY_OK);
        amqp_publish_numbered(publisher, round, 1);
        atomic_store(&gate.opens, true);
        outcomes_wait(&outcomes, round + 1);
        assert_int_equal(outcomes_of(&outcomes, round).status, CONEY_OK);
    }
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    outcomes_free(&outcomes);
    warren_down(&warren);
    warren_down(&outside);
    proxy_stop(&proxy);
}

/* Slow ways --------------------------------------------------------------------------------------------------------- */

static void a_slow_way_to_the_broker_loses_nothing(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    struct proxy *proxy = warren_behind_proxy(&warren, CONEY_QUEUE_CLASSIC);
    proxy_delay(proxy, 20);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 2000);
    amqp_traffic_is_whole(&traffic);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    warren_down(&warren);
    proxy_stop(&proxy);
}

static void bytes_that_come_one_by_one_make_the_same_frames(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    struct proxy *proxy = warren_behind_proxy(&warren, CONEY_QUEUE_QUORUM);
    proxy_split(proxy, 1);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 200);
    amqp_traffic_is_whole(&traffic);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    warren_down(&warren);
    proxy_stop(&proxy);
}

/* 1 KiB a second, and the message takes longer than a silent connection lives. */
static void K03_a_message_that_arrives_slowly_keeps_its_connection_either_way(void **state)
{
    (void)state;
    struct warren warren;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    struct proxy *proxy = warren_behind_proxy(&warren, CONEY_QUEUE_CLASSIC);
    coney_amqp_publisher *publisher = publisher_of(&warren, &outcomes, 0);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    for (int direction = 0; direction < 2; direction++) {
        int64_t begun = now_ms();
        proxy_limit(proxy, (enum proxy_direction)direction, CONEY_KIB);
        publish_padded(publisher, (uint64_t)direction, 5000);
        outcomes_wait(&outcomes, (size_t)direction + 1);
        parcels_wait(&parcels, (size_t)direction + 1);
        assert_true(now_ms() - begun > 4000);
        proxy_limit(proxy, (enum proxy_direction)direction, 0);
    }
    assert_int_equal(parcels_of(&parcels, 1).body_len, 5000);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 2);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    warren_close_consumer(&consumer);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
    warren_down(&warren);
    proxy_stop(&proxy);
}

/* The socket is full; what comes from the broker is read all the same, and when nothing comes any more either the connection is given up. */
static void K07_a_broker_that_reads_nothing_is_waited_for_as_long_as_it_lives(void **state)
{
    (void)state;
    enum { COUNT = 24, SIZE = 1 << 20 };
    struct warren warren;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    struct proxy *proxy = warren_behind_proxy(&warren, CONEY_QUEUE_CLASSIC);
    coney_amqp_publisher *publisher = publisher_of(&warren, &outcomes, 64 * CONEY_MIB);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    proxy_limit(proxy, PROXY_TO_BROKER, PROXY_NOTHING);
    for (uint64_t n = 0; n < COUNT; n++)
        publish_padded(publisher, n, SIZE);
    events_none(&warren.events, CONEY_EVENT_DISCONNECTED, 800);
    assert_int_equal(outcomes_count(&outcomes), 0);
    proxy_limit(proxy, PROXY_TO_BROKER, 0);
    outcomes_wait(&outcomes, COUNT);
    parcels_wait(&parcels, COUNT);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);

    coney_amqp_stats before = stats_of(&warren);
    proxy_limit(proxy, PROXY_TO_BROKER, PROXY_NOTHING);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    for (uint64_t n = COUNT; n < 2 * COUNT; n++)
        publish_padded(publisher, n, SIZE);
    are_lost(&warren, &before, 6000);
    proxy_limit(proxy, PROXY_TO_BROKER, 0);
    proxy_limit(proxy, PROXY_TO_CLIENT, 0);
    outcomes_wait(&outcomes, 2 * COUNT);
    parcels_wait(&parcels, 2 * COUNT);
    outcomes_are_each_once(&outcomes, 0, 2 * COUNT);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 2 * COUNT);
    assert_int_equal(coney_amqp_publisher_close(&publisher, NULL), CONEY_OK);
    warren_close_consumer(&consumer);
    outcomes_free(&outcomes);
    parcels_free(&parcels);
    warren_down(&warren);
    proxy_stop(&proxy);
}

/* Closing ------------------------------------------------------------------------------------------------------------ */

/* Its acks wait in the broker's channel while the queue has many to work off; a channel that is closed forgets them. */
static void what_was_acked_one_by_one_just_before_a_close_does_not_come_back(coney_queue_type type, bool in_order)
{
    enum { COUNT = 3000 };
    struct warren warren, other;
    struct parcels parcels = {0};
    warren_up(&warren, &node, &(coney_amqp_queue){.type = type});
    warren_fill(&warren, 0, COUNT);
    warren_set(&other, &node);
    snprintf(other.queue, sizeof other.queue, "%s", warren.queue);
    warren_open(&other, &(coney_amqp_queue){.type = type, .forget = true});
    const coney_amqp_consumer_options options = {.prefetch = COUNT, .ack_run = 1};
    coney_amqp_consumer *consumer = warren_consumer(&other, &parcels, &options);
    parcels_wait(&parcels, COUNT);
    if (in_order)
        warren_close_consumer(&consumer);
    assert_int_equal(coney_amqp_close(&other.env, NULL), CONEY_OK);
    warren_wait_for_ready(&warren, warren.queue, 0);
    consumer = warren_consumer(&warren, &parcels, NULL);
    assert_false(parcels_reach(&parcels, COUNT + 1, 300));
    warren_close_consumer(&consumer);
    parcels_free(&parcels);
    events_free(&other.events);
    warren_down(&warren);
}

static void what_was_acked_just_before_a_close_does_not_come_back(void **state)
{
    (void)state;
    static const coney_queue_type types[] = {CONEY_QUEUE_CLASSIC, CONEY_QUEUE_QUORUM};
    for (size_t i = 0; i < 4; i++)
        what_was_acked_one_by_one_just_before_a_close_does_not_come_back(types[i / 2], i % 2 == 0);
}

/* Descriptors --------------------------------------------------------------------------------------------------------- */

static int lowest_free_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void allow_descriptors_below(int fd)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)fd;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void out_of_descriptors_an_open_says_so_and_the_next_one_works(void **state)
{
    (void)state;
    const char *uri = amqp_uri(node.amqp_port);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int free_one = lowest_free_descriptor();
    for (int room = 0; room < 4; room++) { /* the loop's own descriptors and the socket: each runs out in turn */
        allow_descriptors_below(free_one + room);
        coney_call call = call_within(3000);
        coney_amqp *rabbit = coney_amqp_open(uri, NULL, &call);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_null(rabbit);
        if (call.status != CONEY_ELIMIT)
            fail_msg("with room for %d descriptors: %s: %s", room, coney_status_name(call.status), call.text);
        assert_true(call.text[0] != '\0');
    }
    coney_amqp *rabbit = coney_amqp_open(uri, NULL, NULL);
    assert_non_null(rabbit);
    coney_amqp_close(&rabbit, NULL);
}

/* Takes every descriptor that a lost connection gives back, as another part of the process would. */
struct hoard {
    struct events *events;
    atomic_bool takes;
    int fds[64];
    size_t count;
};

static void take_descriptors(void *ctx, const coney_event *event)
{
    struct hoard *hoard = ctx;
    int fd;
    size_t most = atomic_load(&hoard->takes) ? sizeof hoard->fds / sizeof hoard->fds[0] : 0;
    while (hoard->count < most && (fd = dup(STDERR_FILENO)) >= 0)
        hoard->fds[hoard->count++] = fd;
    events_add(hoard->events, event);
}

/* As a network that goes away would, and without a descriptor of our own. */
static void end_connections_to(uint16_t port)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET && peer.sin_port == htons(port))
            shutdown(fd, SHUT_RDWR);
    }
}

static void out_of_descriptors_in_recovery_it_is_tried_until_there_are_some(void **state)
{
    (void)state;
    struct warren warren;
    struct amqp_traffic traffic;
    struct rlimit before;
    warren_set(&warren, &node);
    struct hoard hoard = {.events = &warren.events};
    warren.options.on_event = take_descriptors;
    warren.options.event_ctx = &hoard;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    warren_open(&warren, NULL);
    amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
    amqp_traffic_passes(&traffic, 500);
    allow_descriptors_below(lowest_free_descriptor());
    atomic_store(&hoard.takes, true);
    end_connections_to(node.amqp_port);
    for (size_t n = 0; n < 4; n++) {
        struct event failed = events_wait(&warren.events, CONEY_EVENT_RECOVERY_FAILED, n);
        assert_int_equal(failed.status, CONEY_ELIMIT);
        assert_says(failed.text, "descriptors");
    }
    atomic_store(&hoard.takes, false);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    amqp_traffic_passes(&traffic, 500);
    amqp_traffic_is_whole(&traffic);
    warren_down(&warren);
    for (size_t i = 0; i < hoard.count; i++)
        close(hoard.fds[i]);
}

int main(void)
{
    if (!node_shared(&node) || node.amqp_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_under_load_lose_nothing_from_a_classic_queue),
        cmocka_unit_test(cuts_under_load_lose_nothing_from_a_quorum_queue),
        cmocka_unit_test(K05_what_is_published_into_a_connection_that_has_gone_silent_is_sent_again),
        cmocka_unit_test(a_broker_that_cannot_be_reached_for_a_while_is_found_again),
        cmocka_unit_test(no_publisher_is_back_before_its_queue_is),
        cmocka_unit_test(a_slow_way_to_the_broker_loses_nothing),
        cmocka_unit_test(bytes_that_come_one_by_one_make_the_same_frames),
        cmocka_unit_test(K03_a_message_that_arrives_slowly_keeps_its_connection_either_way),
        cmocka_unit_test(K07_a_broker_that_reads_nothing_is_waited_for_as_long_as_it_lives),
        cmocka_unit_test(what_was_acked_just_before_a_close_does_not_come_back),
        cmocka_unit_test(out_of_descriptors_an_open_says_so_and_the_next_one_works),
        cmocka_unit_test(out_of_descriptors_in_recovery_it_is_tried_until_there_are_some),
    };
    return run_tests(tests);
}
