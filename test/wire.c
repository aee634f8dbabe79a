#define _GNU_SOURCE
#include "wire.h"

#include "support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct stream_entry wire_entry(coney_bytes data)
{
    return (struct stream_entry){.records = 1, .uncompressed = (uint32_t)data.len, .data = data};
}

struct stream_entry wire_batch(coney_bytes data, uint16_t records, uint8_t compression)
{
    return (struct stream_entry){
        .batch = true, .compression = compression, .records = records, .uncompressed = (uint32_t)data.len, .data = data};
}

static void read_all(struct wire *wire, void *into, size_t len)
{
    uint8_t *at = into;
    while (len > 0) {
        struct pollfd ready = {wire->fd, POLLIN, 0};
        ssize_t got = poll(&ready, 1, (int)scaled_ms(SUPPORT_PATIENCE)) > 0 ? recv(wire->fd, at, len, 0) : -1;
        if (got <= 0)
            fail_msg("the hand-made client's connection ended, or nothing came");
        at += got;
        len -= (size_t)got;
    }
}

void wire_send(struct wire *wire, struct stream_frame *frame)
{
    uint8_t room[65536];
    frame->version = 1;
    frame->correlation = ++wire->correlation;
    size_t len = stream_encode(frame, room, sizeof room);
    assert_in_range(len, 1, sizeof room);
    assert_int_equal(send(wire->fd, room, len, MSG_NOSIGNAL), len);
}

static struct stream_frame next_frame(struct wire *wire)
{
    struct stream_frame frame;
    uint8_t size[4];
    read_all(wire, size, sizeof size);
    uint32_t len = load32(size);
    assert_in_range(len, STREAM_SMALLEST_FRAME, sizeof wire->frame);
    read_all(wire, wire->frame, len);
    const char *wrong = stream_decode(coney_bytes_of(wire->frame, len), STREAM_FROM_SERVER, &frame);
    if (wrong != NULL)
        fail_msg("a frame of the broker cannot be read at %s", wrong);
    return frame;
}

struct stream_frame wire_expect(struct wire *wire, uint16_t key)
{
    for (;;) {
        struct stream_frame frame = next_frame(wire);
        if (frame.key == STREAM_CLOSE && !frame.response)
            fail_msg("the broker closes the hand-made client's connection: code %u, %.*s", (unsigned)frame.close.code,
                     (int)frame.close.reason.len, (const char *)frame.close.reason.data);
        if (frame.key != key)
            continue;
        if (frame.response && frame.code != 0 && frame.code != STREAM_CODE_OK)
            fail_msg("%s was answered with code %u", stream_key_name(key), (unsigned)frame.code);
        return frame;
    }
}

void wire_open(struct wire *wire, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    wire->correlation = 0;
    wire->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(wire->fd >= 0);
    assert_int_equal(connect(wire->fd, (struct sockaddr *)&address, sizeof address), 0);
    struct stream_frame frame = {.key = STREAM_PEER_PROPERTIES};
    wire_send(wire, &frame);
    wire_expect(wire, STREAM_PEER_PROPERTIES);
    frame = (struct stream_frame){.key = STREAM_SASL_HANDSHAKE};
    wire_send(wire, &frame);
    wire_expect(wire, STREAM_SASL_HANDSHAKE);
    frame = (struct stream_frame){
        .key = STREAM_SASL_AUTHENTICATE,
        .sasl_authenticate = {.mechanism = CONEY_STR("PLAIN"), .data = CONEY_STR("\0guest\0guest")},
    };
    wire_send(wire, &frame);
    struct stream_frame tune = wire_expect(wire, STREAM_TUNE);
    frame = (struct stream_frame){.key = STREAM_TUNE, .response = true, .tune = {.frame_max = tune.tune.frame_max}};
    wire_send(wire, &frame);
    frame = (struct stream_frame){.key = STREAM_OPEN, .open.vhost = CONEY_STR("/")};
    wire_send(wire, &frame);
    wire_expect(wire, STREAM_OPEN);
}

void wire_close(struct wire *wire)
{
    struct stream_frame frame = {.key = STREAM_CLOSE, .close = {.code = STREAM_CODE_OK, .reason = CONEY_STR("done")}};
    wire_send(wire, &frame);
    wire_expect(wire, STREAM_CLOSE);
    close(wire->fd);
    wire->fd = -1;
}

void wire_publish(struct wire *wire, const char *stream, const struct stream_entry *entries, size_t count)
{
    static uint8_t room[60000];
    struct stream_frame frame = {.key = STREAM_DECLARE_PUBLISHER,
                                 .declare_publisher = {.publisher = 1, .stream = coney_bytes_str(stream)}};
    wire_send(wire, &frame);
    wire_expect(wire, STREAM_DECLARE_PUBLISHER);
    struct list_writer list = list_begin(room, sizeof room);
    for (size_t i = 0; i < count; i++)
        list_add_entry(&list, 1, &(struct stream_publish_entry){.id = i, .entry = entries[i]});
    frame = (struct stream_frame){.key = STREAM_PUBLISH, .publish.publisher = 1};
    assert_true(list_end(&list, &frame.publish.entries));
    wire_send(wire, &frame);
    for (size_t confirmed = 0; confirmed < count;)
        confirmed += wire_expect(wire, STREAM_PUBLISH_CONFIRM).publish_confirm.ids.count;
    frame = (struct stream_frame){.key = STREAM_DELETE_PUBLISHER, .delete_publisher.publisher = 1};
    wire_send(wire, &frame);
    wire_expect(wire, STREAM_DELETE_PUBLISHER);
}
