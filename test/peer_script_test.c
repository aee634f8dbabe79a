/* The scripted peer itself, spoken to over a plain socket: what the other tests rely on. */
#define _GNU_SOURCE
#include "peer.h"
#include "proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
    int fd;
    uint8_t in[70000];
    size_t len;
    size_t used; /* of `in`, by the frame that was read last */
};

static struct client client;

static void client_connect(uint16_t port)
{
    client = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client.fd, (struct sockaddr *)&address, sizeof address), 0);
}

static void client_send(struct stream_frame frame)
{
    uint8_t bytes[1024];
    frame.version = 1;
    size_t len = stream_encode(&frame, bytes, sizeof bytes);
    assert_true(len > 0 && len <= sizeof bytes);
    assert_int_equal(send(client.fd, bytes, len, MSG_NOSIGNAL), len);
}

/* The next frame, or false at the end of the connection. */
static bool client_read(struct stream_frame *frame)
{
    memmove(client.in, client.in + client.used, client.len -= client.used);
    client.used = 0;
    for (;;) {
        const char *field;
        size_t size = stream_frame_size(client.in, client.len, sizeof client.in, &field);
        if (size > 0 && size <= client.len) {
            client.used = size;
            assert_null(stream_decode(stream_frame_body(client.in, size), STREAM_FROM_SERVER, frame));
            return true;
        }
        struct pollfd readable = {client.fd, POLLIN, 0};
        assert_int_equal(poll(&readable, 1, SUPPORT_PATIENCE), 1);
        ssize_t got = recv(client.fd, client.in + client.len, sizeof client.in - client.len, 0);
        if (got <= 0)
            return false;
        client.len += (size_t)got;
    }
}

static struct stream_frame client_ask(struct stream_frame frame)
{
    struct stream_frame answer;
    frame.correlation = 7;
    client_send(frame);
    assert_true(client_read(&answer));
    assert_true(answer.response);
    assert_int_equal(answer.key, frame.key);
    assert_int_equal(answer.correlation, 7);
    return answer;
}

static void publish(uint64_t id, const char *body)
{
    uint8_t room[128];
    struct list_writer w = list_begin(room, sizeof room);
    struct stream_publish_entry entry = {.id = id, .entry = {.records = 1, .data = coney_bytes_str(body)}};
    list_add_entry(&w, 1, &entry);
    struct stream_frame frame = {.key = STREAM_PUBLISH, .publish.publisher = 3};
    assert_true(list_end(&w, &frame.publish.entries));
    client_send(frame);
}

static void declare(const char *reference)
{
    struct stream_frame frame = {.key = STREAM_DECLARE_PUBLISHER};
    frame.declare_publisher.publisher = 3;
    frame.declare_publisher.stream = CONEY_STR("s");
    frame.declare_publisher.reference = coney_bytes_str(reference);
    assert_int_equal(client_ask(frame).code, STREAM_CODE_OK);
}

static void subscribe(uint16_t credit)
{
    struct stream_frame frame = {.key = STREAM_SUBSCRIBE};
    frame.subscribe.subscription = 5;
    frame.subscribe.stream = CONEY_STR("s");
    frame.subscribe.offset.type = STREAM_OFFSET_FIRST;
    frame.subscribe.credit = credit;
    assert_int_equal(client_ask(frame).code, STREAM_CODE_OK);
}

static void it_leads_through_the_handshake(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    client_connect(peer_port(peer));
    struct stream_frame answer = client_ask((struct stream_frame){.key = STREAM_PEER_PROPERTIES});
    coney_bytes version = list_find(answer.peer_properties_answer.properties, CONEY_STR("version"));
    assert_true(bytes_equal(version, CONEY_STR("4.0.0")));
    assert_int_equal(client_ask((struct stream_frame){.key = STREAM_SASL_HANDSHAKE}).sasl_handshake_answer.mechanisms.count, 2);
    struct stream_frame login = {.key = STREAM_SASL_AUTHENTICATE};
    login.sasl_authenticate.mechanism = CONEY_STR("PLAIN");
    login.sasl_authenticate.data = CONEY_STR("\0guest\0guest");
    assert_int_equal(client_ask(login).code, STREAM_CODE_OK);
    assert_true(client_read(&answer));
    assert_int_equal(answer.key, STREAM_TUNE);
    assert_int_equal(answer.tune.frame_max, 1 << 20);
    client_send((struct stream_frame){.key = STREAM_TUNE, .response = true, .tune = answer.tune});
    struct stream_frame open = {.key = STREAM_OPEN, .open.vhost = CONEY_STR("/")};
    assert_int_equal(client_ask(open).open_answer.properties.count, 2);
    struct stream_frame close_frame = {.key = STREAM_CLOSE, .close.code = 1};
    assert_int_equal(client_ask(close_frame).code, STREAM_CODE_OK);
    assert_false(client_read(&answer));
    close(client.fd);
    peer_stop(&peer);
}

static void it_confirms_at_once_and_drops_what_a_reference_has_had(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    client_connect(peer_port(peer));
    declare("me");
    struct stream_frame confirm;
    for (int i = 0; i < 2; i++) {
        publish(9, "a");
        assert_true(client_read(&confirm));
        assert_int_equal(confirm.key, STREAM_PUBLISH_CONFIRM);
    }
    assert_int_equal(peer_message_count(peer), 2);
    assert_false(peer_message_of(peer, 0).duplicate);
    assert_true(peer_message_of(peer, 1).duplicate);
    close(client.fd);
    peer_stop(&peer);
}

static void by_hand_it_confirms_and_refuses_as_many_as_it_is_told(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    peer_confirm_by_hand(peer, true);
    client_connect(peer_port(peer));
    declare("");
    for (uint64_t id = 1; id <= 3; id++)
        publish(id, "a");
    peer_wait_messages(peer, 3);
    assert_int_equal(peer_confirm(peer, 1), 1);
    assert_int_equal(peer_refuse(peer, 5, STREAM_CODE_INTERNAL_ERROR), 2);
    struct stream_frame frame;
    assert_true(client_read(&frame));
    assert_int_equal(frame.key, STREAM_PUBLISH_CONFIRM);
    assert_int_equal(frame.publish_confirm.ids.count, 1);
    assert_true(client_read(&frame));
    assert_int_equal(frame.key, STREAM_PUBLISH_ERROR);
    assert_int_equal(frame.publish_error.errors.count, 2);
    close(client.fd);
    peer_stop(&peer);
}

static void a_feed_follows_the_credit(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    client_connect(peer_port(peer));
    peer_feed(peer, "s", 100, 10, 3);
    subscribe(2);
    struct stream_frame frame;
    for (uint64_t first = 100; first < 120; first += 10) {
        struct chunk chunk;
        assert_true(client_read(&frame));
        assert_int_equal(frame.key, STREAM_DELIVER);
        assert_null(chunk_open(frame.deliver.chunk, &chunk));
        assert_int_equal(chunk.first, first);
        assert_int_equal(chunk.crc, peer_crc(chunk.data));
    }
    assert_int_equal(peer_credit(peer, "s"), 0);
    client_send((struct stream_frame){.key = STREAM_CREDIT, .credit = {.subscription = 5, .credit = 2}});
    assert_true(client_read(&frame));
    assert_int_equal(frame.key, STREAM_DELIVER);
    assert_int_equal(peer_credit(peer, "s"), 1);
    close(client.fd);
    peer_stop(&peer);
}

static void rules_hold_answer_and_cut(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    client_connect(peer_port(peer));
    struct stream_frame frame = {.key = STREAM_CREATE, .correlation = 1, .create.stream = CONEY_STR("s")};
    peer_answer(peer, STREAM_CREATE, 1, STREAM_CODE_STREAM_EXISTS);
    peer_hold(peer, STREAM_CREATE, 2);
    peer_cut_at(peer, STREAM_CREATE, 3, PEER_RST);
    struct stream_frame answer;
    client_send(frame);
    assert_true(client_read(&answer));
    assert_int_equal(answer.code, STREAM_CODE_STREAM_EXISTS);
    frame.correlation = 2;
    client_send(frame);
    peer_wait_count(peer, STREAM_CREATE, 2);
    client_ask((struct stream_frame){.key = STREAM_SASL_HANDSHAKE});
    peer_release(peer, STREAM_CREATE);
    assert_true(client_read(&answer));
    assert_int_equal(answer.correlation, 2);
    peer_cut_at(peer, STREAM_CREATE, 1, PEER_RST);
    client_send(frame);
    assert_false(client_read(&answer));
    close(client.fd);
    peer_stop(&peer);
}

static void it_goes_down_and_comes_up_on_the_same_port(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    client_connect(peer_port(peer));
    peer_wait_open(peer, 1);
    peer_go_down(peer, PEER_FIN);
    struct stream_frame frame;
    assert_false(client_read(&frame));
    close(client.fd);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(peer_port(peer))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), -1);
    close(fd);
    peer_come_up(peer);
    client_connect(peer_port(peer));
    client_ask((struct stream_frame){.key = STREAM_SASL_HANDSHAKE});
    close(client.fd);
    peer_stop(&peer);
}

static void the_proxy_drops_corrupts_refuses_delays_and_cuts(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    struct proxy *proxy = proxy_start("127.0.0.1", peer_port(peer));
    client_connect(proxy_port(proxy));
    declare("");
    struct stream_frame frame;

    proxy_refuse_confirms(proxy, 1, STREAM_CODE_INTERNAL_ERROR);
    publish(1, "a");
    assert_true(client_read(&frame));
    assert_int_equal(frame.key, STREAM_PUBLISH_ERROR);

    proxy_drop(proxy, PROXY_TO_BROKER, 1);
    publish(2, "dropped");
    publish(3, "b");
    peer_wait_messages(peer, 2);
    assert_int_equal(peer_message_of(peer, 1).id, 3);
    assert_true(client_read(&frame));

    subscribe(10);
    proxy_corrupt_chunks(proxy, 1);
    struct chunk chunk;
    for (int i = 0; i < 2; i++) {
        peer_deliver(peer, "s", 5, 1);
        assert_true(client_read(&frame));
        assert_null(chunk_open(frame.deliver.chunk, &chunk));
        assert_int_equal(chunk.crc == peer_crc(chunk.data), i == 1);
    }

    proxy_delay(proxy, 30);
    int64_t before = now_ms();
    client_ask((struct stream_frame){.key = STREAM_SASL_HANDSHAKE});
    assert_true(now_ms() - before >= 59);
    proxy_delay(proxy, 0);

    proxy_limit(proxy, PROXY_TO_BROKER, PROXY_NOTHING);
    client_send((struct stream_frame){.key = STREAM_SASL_HANDSHAKE, .correlation = 1});
    assert_false(peer_reaches_count(peer, STREAM_SASL_HANDSHAKE, 2, 20));
    proxy_limit(proxy, PROXY_TO_BROKER, 0);
    assert_true(client_read(&frame));

    proxy_cut(proxy, PROXY_RST);
    assert_false(client_read(&frame));
    peer_wait_open(peer, 0);
    close(client.fd);
    proxy_set_door(proxy, PROXY_STAYS_MUTE);
    client_connect(proxy_port(proxy));
    client_send((struct stream_frame){.key = STREAM_SASL_HANDSHAKE, .correlation = 1});
    struct pollfd readable = {client.fd, POLLIN, 0};
    assert_int_equal(poll(&readable, 1, 20), 0);
    close(client.fd);
    proxy_stop(&proxy);
    peer_stop(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_leads_through_the_handshake),
        cmocka_unit_test(it_confirms_at_once_and_drops_what_a_reference_has_had),
        cmocka_unit_test(by_hand_it_confirms_and_refuses_as_many_as_it_is_told),
        cmocka_unit_test(a_feed_follows_the_credit),
        cmocka_unit_test(rules_hold_answer_and_cut),
        cmocka_unit_test(it_goes_down_and_comes_up_on_the_same_port),
        cmocka_unit_test(the_proxy_drops_corrupts_refuses_delays_and_cuts),
    };
    return run_tests(tests);
}
