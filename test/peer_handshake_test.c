/* Opening an environment: every step of the handshake, what can go wrong at it, heartbeats. */
#define _GNU_SOURCE
#include "proxy.h"
#include "stage.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Opens `uri`, which must fail, and gives the call. Fails the test when it takes longer than `ms`. */
static coney_call open_fails(const char *uri, const coney_stream_env_options *options, int64_t ms)
{
    coney_call call = {0};
    int64_t before = now_ms();
    coney_stream_env *env = coney_stream_env_open(uri, options, &call);
    assert_null(env);
    int64_t took = now_ms() - before;
    if (took > scaled_ms(ms))
        fail_msg("the failure took %lld ms: %s", (long long)took, call.text);
    assert_true(call.status != CONEY_OK);
    assert_true(call.text[0] != '\0');
    return call;
}

/* Steps ---------------------------------------------------------------------------------------------------------- */

static void the_handshake_says_who_we_are_and_opens_the_virtual_host(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    stage.options.name = "till 7";
    const coney_field further[] = {{CONEY_STR_INIT("app"), coney_value_string(CONEY_STR("shop"))}};
    stage.options.client_properties = further;
    stage.options.client_property_count = 1;
    stage_open(&stage);
    struct stream_list properties = peer_expect(stage.peer, STREAM_PEER_PROPERTIES)->frame.peer_properties.properties;
    coney_bytes name = list_find(properties, CONEY_STR("connection_name"));
    assert_true(name.len >= 6 && memcmp(name.data, "till 7", 6) == 0);
    assert_true(bytes_equal(list_find(properties, CONEY_STR("app")), CONEY_STR("shop")));
    assert_true(list_find(properties, CONEY_STR("product")).len > 0);
    const struct stream_frame *login = &peer_expect(stage.peer, STREAM_SASL_AUTHENTICATE)->frame;
    assert_true(bytes_equal(login->sasl_authenticate.mechanism, CONEY_STR("PLAIN")));
    assert_true(bytes_equal(login->sasl_authenticate.data, CONEY_STR("\0guest\0guest")));
    assert_true(bytes_equal(peer_expect(stage.peer, STREAM_OPEN)->frame.open.vhost, CONEY_STR("/")));
    assert_int_equal(events_wait(&stage.events, CONEY_EVENT_CONNECTED, 0).status, CONEY_OK);
    stage_down(&stage);
}

static void tune_takes_the_smaller_frame_and_our_heartbeat(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    peer_set_tune(stage.peer, 200000, 40);
    stage.options.frame_max = 300000;
    stage.options.heartbeat = 17 * CONEY_SECOND;
    stage_open(&stage);
    const struct stream_frame *tune = &peer_expect(stage.peer, STREAM_TUNE)->frame;
    assert_int_equal(tune->tune.frame_max, 200000);
    assert_int_equal(tune->tune.heartbeat, 17);
    stage_down(&stage);
}

static void a_frame_max_of_zero_means_no_limit_of_theirs(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    peer_set_tune(stage.peer, 0, 60);
    stage.options.frame_max = 300000;
    stage.options.heartbeat = CONEY_OFF;
    stage_open(&stage);
    const struct stream_frame *tune = &peer_expect(stage.peer, STREAM_TUNE)->frame;
    assert_int_equal(tune->tune.frame_max, 300000);
    assert_int_equal(tune->tune.heartbeat, 0);
    stage_down(&stage);
}

static void only_deliver_is_announced_and_only_to_brokers_that_know_the_command(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    struct stream_list commands =
        peer_expect(stage.peer, STREAM_EXCHANGE_COMMAND_VERSIONS)->frame.exchange_command_versions.commands;
    struct list_iter it = list_iter_of(commands);
    struct stream_version_range range;
    assert_int_equal(commands.count, 1);
    assert_true(list_next_version(&it, &range));
    assert_int_equal(range.key, STREAM_DELIVER);
    assert_int_equal(range.min, 1);
    assert_int_equal(range.max, 2);
    stage_down(&stage);

    stage_set(&stage);
    peer_set_version(stage.peer, "3.10.25");
    stage_open(&stage);
    assert_int_equal(coney_stream_create(stage.env, "s", NULL, NULL), CONEY_OK);
    assert_int_equal(peer_count(stage.peer, STREAM_EXCHANGE_COMMAND_VERSIONS), 0);
    stage_down(&stage);
}

static void a_broker_that_refuses_the_versions_is_served_all_the_same_or_refused_clearly(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    peer_answer(stage.peer, STREAM_EXCHANGE_COMMAND_VERSIONS, PEER_EVERY, STREAM_CODE_INTERNAL_ERROR);
    coney_call call = {0};
    stage.env = coney_stream_env_open(peer_uri(stage.peer), &stage.options, &call);
    if (stage.env == NULL)
        assert_true(call.text[0] != '\0');
    stage_down(&stage);
}

static void SB_56_escaped_parts_of_the_uri_reach_the_broker_decoded(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    char uri[200];
    snprintf(uri, sizeof uri, "rabbitmq-stream://us%%40er:p%%2Fw%%23%%C3%%A9@%s/a%%2Fb", peer_address(peer));
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(uri, NULL, &call);
    assert_non_null(env);
    const struct stream_frame *login = &peer_expect(peer, STREAM_SASL_AUTHENTICATE)->frame;
    assert_true(bytes_equal(login->sasl_authenticate.data, CONEY_STR("\0us@er\0p/w#\xc3\xa9")));
    assert_true(bytes_equal(peer_expect(peer, STREAM_OPEN)->frame.open.vhost, CONEY_STR("a/b")));
    coney_stream_env_close(&env, NULL);
    peer_stop(&peer);
}

static void SB_56_a_path_of_a_slash_or_of_none_is_the_virtual_host_slash(void **state)
{
    (void)state;
    static const char *const paths[] = {"", "/", "/%2f"};
    struct peer *peer = peer_start();
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char uri[200];
        snprintf(uri, sizeof uri, "%s%s", peer_uri(peer), paths[i]);
        coney_stream_env *env = coney_stream_env_open(uri, NULL, NULL);
        assert_non_null(env);
        assert_true(bytes_equal(peer_expect(peer, STREAM_OPEN)->frame.open.vhost, CONEY_STR("/")));
        coney_stream_env_close(&env, NULL);
    }
    peer_stop(&peer);
}

static void SB_56_a_broken_escape_is_refused_without_printing_the_password(void **state)
{
    (void)state;
    coney_call call = open_fails("rabbitmq-stream://me:secret%zz@127.0.0.1:1/", NULL, 1000);
    assert_int_equal(call.status, CONEY_EINVAL);
    assert_null(strstr(call.text, "secret"));
}

/* Addresses ------------------------------------------------------------------------------------------------------ */

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct addrinfo hints = {.ai_family = AF_INET6, .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found = NULL;
    bool works = getaddrinfo("::1", "0", &hints, &found) == 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    if (found != NULL)
        freeaddrinfo(found);
    close(fd);
    return works;
}

static void SB_57_an_ipv6_address_in_the_uri_and_in_metadata_is_dialled(void **state)
{
    (void)state;
    if (!has_ipv6())
        skip();
    struct peer *peer = peer_start_on("::1");
    peer_set_nodes(peer, &(struct peer_node){"::1", peer_port(peer)}, 1, 0);
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, &call);
    if (env == NULL)
        fail_msg("%s", call.text);
    coney_stream_producer *producer = coney_stream_producer_open(env, "s", NULL, &call);
    if (producer == NULL)
        fail_msg("%s", call.text);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("hello"), NULL), CONEY_OK);
    coney_stream_env_close(&env, NULL);
    peer_stop(&peer);
}

static void SB_57_every_address_of_a_name_is_tried(void **state)
{
    (void)state;
    struct peer *peer = peer_start(); /* on 127.0.0.1 only; localhost may give ::1 first */
    char uri[100];
    snprintf(uri, sizeof uri, "rabbitmq-stream://localhost:%u", peer_port(peer));
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(uri, NULL, &call);
    if (env == NULL)
        fail_msg("%s", call.text);
    coney_stream_env_close(&env, NULL);
    peer_stop(&peer);
}

static void a_port_where_nothing_listens_is_named(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    peer_go_down(peer, PEER_FIN);
    coney_call call = open_fails(peer_uri(peer), NULL, 2000);
    assert_int_equal(call.status, CONEY_ECONNECT);
    assert_says(call.text, peer_address(peer));
    peer_stop(&peer);
}

static void a_name_that_does_not_resolve_is_named(void **state)
{
    (void)state;
    coney_call call = open_fails("rabbitmq-stream://no-such-host.invalid", NULL, 8000);
    assert_int_equal(call.status, CONEY_ERESOLVE);
    assert_says(call.text, "no-such-host.invalid");
}

static void SB_88_the_next_address_is_tried_when_one_is_dead(void **state)
{
    (void)state;
    struct peer *dead = peer_start(), *good = peer_start(), *dead_too = peer_start();
    peer_go_down(dead, PEER_FIN);
    peer_go_down(dead_too, PEER_FIN);
    char uri[200];
    snprintf(uri, sizeof uri, "rabbitmq-stream://%s,%s,%s", peer_address(dead), peer_address(good), peer_address(dead_too));
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(uri, NULL, &call);
    if (env == NULL)
        fail_msg("%s", call.text);
    coney_stream_env_close(&env, NULL);

    peer_go_down(good, PEER_FIN);
    call = open_fails(uri, NULL, 3000);
    assert_int_equal(call.status, CONEY_ECONNECT);
    assert_says(call.text, peer_address(dead));
    assert_says(call.text, peer_address(good));
    assert_says(call.text, peer_address(dead_too));
    peer_stop(&dead);
    peer_stop(&good);
    peer_stop(&dead_too);
}

static void SB_88_requests_go_to_the_other_address_when_the_first_dies(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    struct peer *other = peer_start();
    const char *const addresses[] = {peer_address(other), NULL};
    stage.options.addresses = addresses;
    stage_open(&stage);
    assert_int_equal(peer_accepted(other), 0);
    peer_go_down(stage.peer, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0);
    coney_call call = {0};
    coney_status status = coney_stream_create(stage.env, "s", NULL, &call);
    if (status != CONEY_OK)
        fail_msg("%s: %s", coney_status_name(status), call.text);
    assert_int_equal(peer_count(other, STREAM_CREATE), 1);
    stage_down(&stage);
    peer_stop(&other);
}

/* Refusals ------------------------------------------------------------------------------------------------------- */

static void a_wrong_password_is_its_own_status_and_is_not_in_the_text(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    peer_answer(peer, STREAM_SASL_AUTHENTICATE, PEER_EVERY, STREAM_CODE_AUTHENTICATION_FAILURE);
    char uri[200];
    snprintf(uri, sizeof uri, "rabbitmq-stream://ann:hunter2@%s", peer_address(peer));
    coney_call call = open_fails(uri, NULL, 2000);
    assert_int_equal(call.status, CONEY_EAUTH);
    assert_int_equal(call.code, STREAM_CODE_AUTHENTICATION_FAILURE);
    assert_says(call.text, "ann");
    assert_null(strstr(call.text, "hunter2"));
    assert_int_equal(peer_accepted(peer), 1);
    peer_stop(&peer);
}

static void a_virtual_host_that_is_not_there_is_its_own_status(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    peer_answer(peer, STREAM_OPEN, PEER_EVERY, STREAM_CODE_VHOST_ACCESS_FAILURE);
    char uri[200];
    snprintf(uri, sizeof uri, "%s/nowhere", peer_uri(peer));
    coney_call call = open_fails(uri, NULL, 2000);
    assert_int_equal(call.status, CONEY_EVHOST);
    assert_int_equal(call.code, STREAM_CODE_VHOST_ACCESS_FAILURE);
    assert_says(call.text, "nowhere");
    peer_stop(&peer);
}

static void SB_79_a_refusal_at_any_step_of_the_handshake_ends_the_open_at_once(void **state)
{
    (void)state;
    static const struct {
        uint16_t key, code;
        coney_status status;
    } steps[] = {
        {STREAM_PEER_PROPERTIES, STREAM_CODE_INTERNAL_ERROR, CONEY_EBROKER},
        {STREAM_SASL_HANDSHAKE, STREAM_CODE_SASL_MECHANISM_NOT_SUPPORTED, CONEY_EAUTH},
        {STREAM_SASL_AUTHENTICATE, STREAM_CODE_SASL_ERROR, CONEY_EAUTH},
        {STREAM_SASL_AUTHENTICATE, STREAM_CODE_SASL_MECHANISM_NOT_SUPPORTED, CONEY_EAUTH},
        {STREAM_SASL_AUTHENTICATE, STREAM_CODE_LOOPBACK_ONLY, CONEY_EAUTH},
        {STREAM_OPEN, STREAM_CODE_VHOST_ACCESS_FAILURE, CONEY_EVHOST},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct peer *peer = peer_start();
        peer_answer(peer, steps[i].key, PEER_EVERY, steps[i].code);
        coney_call call = open_fails(peer_uri(peer), NULL, 1000);
        if (call.status != steps[i].status)
            fail_msg("%s with code %u gives %s: %s", stream_key_name(steps[i].key), steps[i].code,
                     coney_status_name(call.status), call.text);
        assert_int_equal(call.code, steps[i].code);
        assert_says(call.text, peer_address(peer));
        peer_stop(&peer);
    }
}

static const uint16_t handshake_keys[] = {
    STREAM_PEER_PROPERTIES,          STREAM_SASL_HANDSHAKE, STREAM_SASL_AUTHENTICATE, STREAM_TUNE, STREAM_OPEN,
    STREAM_EXCHANGE_COMMAND_VERSIONS};

static void SB_79_a_cut_at_any_step_of_the_handshake_ends_the_open_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof handshake_keys / sizeof handshake_keys[0]; i++) {
        for (int how = PEER_FIN; how <= PEER_RST; how++) {
            struct peer *peer = peer_start();
            peer_cut_at(peer, handshake_keys[i], PEER_EVERY, (enum peer_cut)how);
            coney_call call = open_fails(peer_uri(peer), NULL, 1000);
            if (call.status != CONEY_ELOST)
                fail_msg("a cut at %s gives %s: %s", stream_key_name(handshake_keys[i]), coney_status_name(call.status),
                         call.text);
            peer_stop(&peer);
        }
    }
}

static void SB_79_silence_at_any_step_of_the_handshake_ends_with_the_deadline(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof handshake_keys / sizeof handshake_keys[0]; i++) {
        if (handshake_keys[i] == STREAM_TUNE)
            continue; /* nobody answers that one */
        struct peer *peer = peer_start();
        peer_ignore(peer, handshake_keys[i], PEER_EVERY);
        coney_call call = call_within(150);
        int64_t before = now_ms();
        assert_null(coney_stream_env_open(peer_uri(peer), NULL, &call));
        if (call.status != CONEY_ETIMEDOUT)
            fail_msg("silence at %s gives %s: %s", stream_key_name(handshake_keys[i]), coney_status_name(call.status),
                     call.text);
        assert_true(now_ms() - before < scaled_ms(2000));
        peer_stop(&peer);
    }
}

static void a_mute_broker_does_not_cost_the_whole_deadline(void **state)
{
    (void)state;
    struct peer *mute = peer_start(), *good = peer_start();
    peer_accept_mute(mute, true);
    char uri[200];
    snprintf(uri, sizeof uri, "rabbitmq-stream://%s,%s", peer_address(mute), peer_address(good));
    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(uri, NULL, &call);
    if (env == NULL)
        fail_msg("%s", call.text);
    coney_stream_env_close(&env, NULL);
    peer_stop(&mute);
    peer_stop(&good);
}

static void a_broker_without_plain_is_refused_with_its_list(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    static const uint8_t only_external[] = {0, 0, 0, 24, 0x80, 18, 0,   1,   0,   0,   0,   2,   0,   1,
                                            0, 0, 0, 1,  0,    8,  'E', 'X', 'T', 'E', 'R', 'N', 'A', 'L'};
    peer_raw_at(peer, STREAM_SASL_HANDSHAKE, PEER_EVERY, coney_bytes_of(only_external, sizeof only_external));
    coney_call call = open_fails(peer_uri(peer), NULL, 2000);
    assert_true(call.status == CONEY_EAUTH || call.status == CONEY_EUNSUPPORTED || call.status == CONEY_EPROTOCOL);
    peer_stop(&peer);
}

static void a_port_that_speaks_something_else_is_a_clear_error(void **state)
{
    (void)state;
    static const struct {
        coney_bytes greeting;
        const char *says;
    } ports[] = {
        {CONEY_STR_INIT("AMQP\0\0\x09\x01"), "speaks AMQP"},
        {CONEY_STR_INIT("HTTP/1.1 400 Bad Request\r\n"), "speaks HTTP"},
        {CONEY_STR_INIT("SSH-2.0-OpenSSH_9.2\r\n"), "speaks SSH"},
        {CONEY_STR_INIT("\x15\x03\x03\0\x02\x02\x46"), "speaks TLS"},
        {CONEY_STR_INIT("\0\0\0\0\0\0\0\0"), "0 bytes, fewer than any frame has"},
    };
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        struct peer *peer = peer_start();
        peer_raw_at(peer, STREAM_PEER_PROPERTIES, PEER_EVERY, ports[i].greeting);
        coney_call call = open_fails(peer_uri(peer), NULL, 2000);
        assert_int_equal(call.status, CONEY_EPROTOCOL);
        assert_says(call.text, ports[i].says);
        peer_stop(&peer);
    }
}

static void a_close_from_the_broker_during_the_handshake_gives_its_words(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    struct stream_frame frame = {.key = STREAM_CLOSE, .version = 1, .correlation = 1};
    frame.close.code = STREAM_CODE_INTERNAL_ERROR;
    frame.close.reason = CONEY_STR("too many connections");
    uint8_t bytes[100];
    size_t len = stream_encode(&frame, bytes, sizeof bytes);
    peer_raw_at(peer, STREAM_OPEN, PEER_EVERY, coney_bytes_of(bytes, len));
    coney_call call = open_fails(peer_uri(peer), NULL, 2000);
    assert_says(call.text, "too many connections");
    peer_stop(&peer);
}

/* Hostile bytes -------------------------------------------------------------------------------------------------- */

static coney_bytes nonsense(struct dice *dice, uint8_t *room, size_t cap)
{
    size_t len = 1 + dice_roll(dice, cap - 1);
    for (size_t i = 0; i < len; i++)
        room[i] = (uint8_t)dice_roll(dice, 256);
    if (len < 12 || dice_roll(dice, 4) == 0)
        return coney_bytes_of(room, len);
    /* Mostly a believable frame: a size that fits, a known key, version 1. */
    store32(room, (uint32_t)len - 4);
    store16(room + 4, (uint16_t)(dice_roll(dice, 2) << 15 | (1 + dice_roll(dice, STREAM_KEY_LAST))));
    store16(room + 6, 1);
    store32(room + 8, (uint32_t)dice_roll(dice, 8));
    return coney_bytes_of(room, len);
}

static void random_frames_at_every_step_of_the_handshake_end_in_a_clear_status(void **state)
{
    (void)state;
    struct dice dice = dice_of(20261130);
    coney_stream_env_options options = {.connect_timeout = scaled_ns(300)};
    for (int round = 0; round < 120; round++) {
        uint16_t key = handshake_keys[dice_roll(&dice, sizeof handshake_keys / sizeof handshake_keys[0])];
        uint8_t room[200];
        struct peer *peer = peer_start();
        peer_allow_nonsense(peer);
        coney_bytes bytes = nonsense(&dice, room, sizeof room);
        peer_raw_at(peer, key, 1, bytes);
        coney_call call = call_within(400);
        int64_t before = now_ms();
        coney_stream_env *env = coney_stream_env_open(peer_uri(peer), &options, &call);
        if (now_ms() - before > scaled_ms(5000))
            fail_msg("round %d took %lld ms", round, (long long)(now_ms() - before));
        if (env == NULL && (call.status == CONEY_OK || call.text[0] == '\0'))
            fail_msg("round %d failed without a status or a text", round);
        coney_stream_env_close(&env, &(coney_call){.deadline = scaled_ns(300)});
        peer_stop(&peer);
    }
}

static void random_frames_after_the_handshake_end_the_connection_and_no_more(void **state)
{
    (void)state;
    struct dice dice = dice_of(7);
    struct stage stage;
    stage_up(&stage);
    peer_allow_nonsense(stage.peer);
    for (int round = 0; round < 60; round++) {
        uint8_t room[300];
        peer_send_bytes(stage.peer, PEER_ALL, nonsense(&dice, room, sizeof room));
        coney_call call = call_within(300);
        coney_stream_create(stage.env, "s", NULL, &call);
    }
    peer_cut(stage.peer, PEER_ALL, PEER_RST); /* whatever half frame is left */
    coney_call call = call_within(5000);
    coney_status status = CONEY_ELOST;
    for (int attempt = 0; attempt < 20 && status == CONEY_ELOST; attempt++)
        status = coney_stream_create(stage.env, "s", NULL, &call);
    if (status != CONEY_OK)
        fail_msg("%s: %s", coney_status_name(status), call.text);
    stage_down(&stage);
}

static void a_size_field_of_gigabytes_is_refused_and_costs_no_memory(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xf0, 0x80, 17, 0, 1};
    peer_raw_at(peer, STREAM_PEER_PROPERTIES, PEER_EVERY, coney_bytes_of(huge, sizeof huge));
    coney_call call = open_fails(peer_uri(peer), NULL, 2000);
    assert_int_equal(call.status, CONEY_EPROTOCOL);
    peer_stop(&peer);
}

/* Heartbeats ----------------------------------------------------------------------------------------------------- */

static void beat(void *ctx, struct peer *peer)
{
    (void)ctx;
    peer_send_heartbeat(peer, PEER_ALL);
}

static void SB_75_and_SB_76_a_silent_broker_is_lost_after_two_to_three_intervals(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    stage.options.heartbeat = CONEY_SECOND;
    stage_open(&stage);
    struct deliveries deliveries = {0};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    int64_t before = now_ms();
    peer_freeze(stage.peer, true);
    struct event lost = events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0);
    int64_t took = now_ms() - before;
    assert_true(took >= 1500 && took <= scaled_ms(4500));
    assert_true(lost.status != CONEY_OK);
    events_wait(&stage.events, CONEY_EVENT_RECOVERING, 0);
    peer_freeze(stage.peer, false);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(peer_count(stage.peer, STREAM_CLOSE), 0);
    peer_deliver(stage.peer, "s", 0, 1);
    deliveries_wait(&deliveries, 1);
    consumer_close(&consumer);
    deliveries_free(&deliveries);
    stage_down(&stage);
}

static uint64_t next_offset;

static void deliver_one(void *ctx, struct peer *peer)
{
    (void)ctx;
    struct peer_chunk chunk = {.first = next_offset++, .count = 1};
    peer_deliver_chunk(peer, "s", &chunk);
}

static void SB_75_deliveries_or_heartbeats_alone_keep_a_connection_alive_and_we_send_our_own(void **state)
{
    (void)state;
    struct stage fed, beaten;
    struct stage *both[] = {&fed, &beaten};
    struct deliveries deliveries = {0};
    coney_stream_consumer *consumer = NULL;
    for (int i = 0; i < 2; i++) {
        stage_set(both[i]);
        both[i]->options.heartbeat = CONEY_SECOND;
    }
    stage_open(&fed);
    stage_open(&beaten);
    next_offset = 0;
    consumer = stage_consumer(&fed, "s", &deliveries, NULL);
    int link = peer_consumer_connection(fed.peer, "s");
    peer_every(fed.peer, 300, deliver_one, NULL);
    peer_every(beaten.peer, 300, beat, NULL);
    assert_true(deliveries_reach(&deliveries, 14, 20000)); /* 4.2 s: four intervals */
    assert_int_equal(peer_consumer_connection(fed.peer, "s"), link);
    assert_int_equal(events_count(&beaten.events, CONEY_EVENT_DISCONNECTED), 0);
    assert_true(peer_count(beaten.peer, STREAM_HEARTBEAT) >= 2);
    consumer_close(&consumer);
    stage_down(&fed);
    stage_down(&beaten);
    deliveries_free(&deliveries);
}

/* Descriptors ---------------------------------------------------------------------------------------------------- */

static void out_of_descriptors_is_a_status_and_the_next_open_works(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(probe >= 0);
    close(probe);
    tight = before;
    for (rlim_t room = 0; room < 4; room++) { /* the loop's own descriptors and the socket: each runs out in turn */
        tight.rlim_cur = (rlim_t)probe + room;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        coney_call call = call_within(3000);
        coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, &call);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_null(env);
        if (call.status != CONEY_ELIMIT)
            fail_msg("with room for %d descriptors: %s: %s", (int)room, coney_status_name(call.status), call.text);
        assert_true(call.text[0] != '\0');
    }
    coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, NULL);
    assert_non_null(env);
    coney_stream_env_close(&env, NULL);
    peer_stop(&peer);
}

static void out_of_descriptors_a_producer_fails_and_the_environment_goes_on(void **state)
{
    (void)state;
    struct stage stage;
    struct rlimit before, tight;
    stage_up(&stage);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(probe >= 0);
    close(probe);
    tight = before;
    tight.rlim_cur = (rlim_t)probe;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    coney_call call = call_within(3000);
    coney_stream_producer *producer = coney_stream_producer_open(stage.env, "s", NULL, &call);
    coney_status created = coney_stream_create(stage.env, "t", NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(producer);
    assert_int_equal(call.status, CONEY_ELIMIT);
    assert_says(call.text, "descriptors");
    assert_int_equal(created, CONEY_OK);
    producer = stage_producer(&stage, "s", NULL, NULL);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    producer_close(&producer);
    stage_down(&stage);
}

/* Asynchronous --------------------------------------------------------------------------------------------------- */

static void an_asynchronous_open_exists_at_once_and_reports_once(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    struct waited_call call = {0};
    coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, waited_call_of(&call, 0));
    assert_non_null(env);
    assert_int_equal(waited_call_wait(&call), CONEY_OK);
    assert_int_equal(coney_stream_create(env, "s", NULL, NULL), CONEY_OK);
    coney_stream_env_close(&env, NULL);
    assert_int_equal(waited_call_count(&call), 1);
    waited_call_free(&call);
    peer_stop(&peer);
}

static void an_asynchronous_open_that_fails_leaves_a_dead_handle(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    peer_go_down(peer, PEER_FIN);
    struct waited_call call = {0};
    coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, waited_call_of(&call, 0));
    assert_non_null(env);
    assert_int_equal(waited_call_wait(&call), CONEY_ECONNECT);
    assert_says(call.answer.text, peer_address(peer));
    assert_int_equal(coney_stream_create(env, "s", NULL, NULL), CONEY_ECLOSED);
    coney_stream_env_close(&env, NULL);
    waited_call_free(&call);
    peer_stop(&peer);
}

static void with_keep_trying_a_failed_open_leaves_a_handle_that_works_later(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    peer_go_down(stage.peer, PEER_FIN);
    stage.options.keep_trying = true;
    struct waited_call call = {0};
    stage.env = coney_stream_env_open(peer_uri(stage.peer), &stage.options, waited_call_of(&call, 0));
    assert_non_null(stage.env);
    assert_int_equal(waited_call_wait(&call), CONEY_ECONNECT);
    peer_come_up(stage.peer);
    assert_int_equal(coney_stream_create(stage.env, "s", NULL, NULL), CONEY_OK);
    stage_down(&stage);
    waited_call_free(&call);
}

static void closing_an_environment_that_is_opening_ends_the_call(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    peer_ignore(peer, STREAM_OPEN, PEER_EVERY);
    struct waited_call call = {0};
    coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, waited_call_of(&call, 0));
    assert_non_null(env);
    peer_expect(peer, STREAM_OPEN);
    coney_stream_env_close(&env, NULL);
    assert_int_equal(waited_call_wait(&call), CONEY_ECLOSED);
    assert_int_equal(waited_call_count(&call), 1);
    waited_call_free(&call);
    peer_stop(&peer);
}

static void an_open_can_be_cancelled(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    peer_ignore(peer, STREAM_OPEN, PEER_EVERY);
    struct waited_call call = {0};
    coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, waited_call_of(&call, 0));
    assert_non_null(env);
    peer_expect(peer, STREAM_OPEN);
    assert_int_equal(coney_call_cancel(call.call.id), CONEY_OK);
    assert_int_equal(waited_call_wait(&call), CONEY_ECANCELED);
    assert_int_equal(coney_call_cancel(call.call.id), CONEY_ENOTFOUND);
    coney_stream_env_close(&env, NULL);
    waited_call_free(&call);
    peer_stop(&peer);
}

static void other_schemes_and_unknown_options_are_refused(void **state)
{
    (void)state;
    assert_int_equal(open_fails("rabbitmq-stream://localhost?verify=verify_none", NULL, 1000).status, CONEY_EINVAL);
    assert_int_equal(open_fails("amqp://localhost", NULL, 1000).status, CONEY_EINVAL);
    assert_int_equal(open_fails("rabbitmq-stream://localhost:99999", NULL, 1000).status, CONEY_EINVAL);
    assert_int_equal(open_fails("rabbitmq-stream://localhost?no_such_option=1", NULL, 1000).status, CONEY_EINVAL);
}

static void options_out_of_range_are_refused_and_named(void **state)
{
    (void)state;
    coney_stream_env_options odd = {.heartbeat = -7};
    assert_int_equal(open_fails("rabbitmq-stream://127.0.0.1:1", &odd, 1000).status, CONEY_EINVAL);
    odd = (coney_stream_env_options){.frame_max = -7};
    assert_int_equal(open_fails("rabbitmq-stream://127.0.0.1:1", &odd, 1000).status, CONEY_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_handshake_says_who_we_are_and_opens_the_virtual_host),
        cmocka_unit_test(tune_takes_the_smaller_frame_and_our_heartbeat),
        cmocka_unit_test(a_frame_max_of_zero_means_no_limit_of_theirs),
        cmocka_unit_test(only_deliver_is_announced_and_only_to_brokers_that_know_the_command),
        cmocka_unit_test(a_broker_that_refuses_the_versions_is_served_all_the_same_or_refused_clearly),
        cmocka_unit_test(SB_56_escaped_parts_of_the_uri_reach_the_broker_decoded),
        cmocka_unit_test(SB_56_a_path_of_a_slash_or_of_none_is_the_virtual_host_slash),
        cmocka_unit_test(SB_56_a_broken_escape_is_refused_without_printing_the_password),
        cmocka_unit_test(SB_57_an_ipv6_address_in_the_uri_and_in_metadata_is_dialled),
        cmocka_unit_test(SB_57_every_address_of_a_name_is_tried),
        cmocka_unit_test(a_port_where_nothing_listens_is_named),
        cmocka_unit_test(a_name_that_does_not_resolve_is_named),
        cmocka_unit_test(SB_88_the_next_address_is_tried_when_one_is_dead),
        cmocka_unit_test(SB_88_requests_go_to_the_other_address_when_the_first_dies),
        cmocka_unit_test(a_wrong_password_is_its_own_status_and_is_not_in_the_text),
        cmocka_unit_test(a_virtual_host_that_is_not_there_is_its_own_status),
        cmocka_unit_test(SB_79_a_refusal_at_any_step_of_the_handshake_ends_the_open_at_once),
        cmocka_unit_test(SB_79_a_cut_at_any_step_of_the_handshake_ends_the_open_at_once),
        cmocka_unit_test(SB_79_silence_at_any_step_of_the_handshake_ends_with_the_deadline),
        cmocka_unit_test(a_mute_broker_does_not_cost_the_whole_deadline),
        cmocka_unit_test(a_broker_without_plain_is_refused_with_its_list),
        cmocka_unit_test(a_port_that_speaks_something_else_is_a_clear_error),
        cmocka_unit_test(a_close_from_the_broker_during_the_handshake_gives_its_words),
        cmocka_unit_test(random_frames_at_every_step_of_the_handshake_end_in_a_clear_status),
        cmocka_unit_test(random_frames_after_the_handshake_end_the_connection_and_no_more),
        cmocka_unit_test(a_size_field_of_gigabytes_is_refused_and_costs_no_memory),
        cmocka_unit_test(SB_75_and_SB_76_a_silent_broker_is_lost_after_two_to_three_intervals),
        cmocka_unit_test(SB_75_deliveries_or_heartbeats_alone_keep_a_connection_alive_and_we_send_our_own),
        cmocka_unit_test(out_of_descriptors_is_a_status_and_the_next_open_works),
        cmocka_unit_test(out_of_descriptors_a_producer_fails_and_the_environment_goes_on),
        cmocka_unit_test(an_asynchronous_open_exists_at_once_and_reports_once),
        cmocka_unit_test(an_asynchronous_open_that_fails_leaves_a_dead_handle),
        cmocka_unit_test(with_keep_trying_a_failed_open_leaves_a_handle_that_works_later),
        cmocka_unit_test(closing_an_environment_that_is_opening_ends_the_call),
        cmocka_unit_test(an_open_can_be_cancelled),
        cmocka_unit_test(other_schemes_and_unknown_options_are_refused),
        cmocka_unit_test(options_out_of_range_are_refused_and_named),
    };
    return run_tests(tests);
}
