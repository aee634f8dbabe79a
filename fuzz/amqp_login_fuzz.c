/* amqp_login_fuzz.c: any bytes as what a broker says to an AMQP client, from the log-in to the end of a channel.
 *
 * The input is a row of parts, each with its length in two octets before it. The client connects to a socket of ours and is sent the first part;
 * if that logs it in it opens a channel, and is sent the second; then it asks for a queue and a message, and is sent the third; it closes the channel,
 * and is sent the fourth. Every call must end once, and nothing may be left behind. */
#define _GNU_SOURCE
#include "base/bytes.h"

#include <arpa/inet.h>
#include <coney/amqp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROUNDS 12 /* of the loop, in which bytes that were sent surely arrive */

struct play {
    coney_loop *loop;
    coney_amqp *rabbit;
    coney_amqp_channel *channel;
    int peer; /* our end; -1: it has not called yet */
    struct reader script;
    size_t begun;
    size_t ended; /* calls */
    coney_status status;
};

static void require(bool condition)
{
    if (!condition)
        abort();
}

static int listener(uint16_t *port)
{
    static int fd = -1;
    static struct sockaddr_in at;
    socklen_t len = sizeof at;
    if (fd < 0) {
        at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        require(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0);
        require(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    }
    *port = ntohs(at.sin_port);
    return fd;
}

static void on_done(void *ctx, const coney_call *call)
{
    struct play *play = ctx;
    play->ended++;
    play->status = call->status;
}

static void on_method(void *ctx, const coney_amqp_method *method, const coney_amqp_delivery *content)
{
    coney_amqp_properties properties;
    (void)ctx;
    require(method->field_count <= 16);
    if (content != NULL)
        (void)coney_amqp_delivery_properties(content, &properties);
}

static coney_call *begin(struct play *play, coney_call *call)
{
    *call = (coney_call){.on_done = on_done, .ctx = play};
    play->begun++;
    return call;
}

static void step(struct play *play, int accepting)
{
    for (int i = 0; i < ROUNDS; i++) {
        coney_loop_step(play->loop);
        if (play->peer < 0)
            play->peer = accept4(accepting, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
}

static void send_part(struct play *play)
{
    uint16_t len = read16(&play->script, "length");
    size_t left = reader_left(&play->script);
    coney_bytes part = read_bytes(&play->script, len < left ? len : left, "part");
    if (part.len > 0 && play->peer >= 0)
        (void)!send(play->peer, part.data, part.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    step(play, -1);
}

static void use_channel(struct play *play)
{
    static coney_amqp_answer answer;
    const coney_value declare[8] = {{0}};
    const coney_value get[3] = {{0}};
    const coney_amqp_method methods[] = {{50, 10, 8, declare}, {60, 70, 3, get}};
    coney_call call;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (coney_amqp_channel_call(play->channel, &methods[i], &answer, begin(play, &call)) != CONEY_OK)
            play->begun--;
}

static void run(struct play *play, int accepting, uint16_t port)
{
    char uri[64];
    coney_call call;
    snprintf(uri, sizeof uri, "amqp://127.0.0.1:%u", (unsigned)port);
    const coney_amqp_options options = {.loop = play->loop, .heartbeat = CONEY_OFF, .max_message = 100000};
    play->rabbit = coney_amqp_open(uri, &options, begin(play, &call));
    require(play->rabbit != NULL);
    step(play, accepting);
    require(play->peer >= 0);
    send_part(play);
    if (play->ended == 0 || play->status != CONEY_OK)
        return;
    const coney_amqp_channel_options with = {.on_method = on_method, .ctx = play};
    play->channel = coney_amqp_channel_open(play->rabbit, &with, begin(play, &call));
    require(play->channel != NULL);
    step(play, -1);
    send_part(play);
    use_channel(play);
    step(play, -1);
    send_part(play);
    require(coney_amqp_channel_close(&play->channel, begin(play, &call)) == CONEY_OK);
    step(play, -1);
    send_part(play);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint16_t port;
    int accepting = listener(&port);
    struct play play = {.loop = coney_loop_new(), .peer = -1, .script = reader_of(data, size)};
    require(play.loop != NULL);
    run(&play, accepting, port);
    close(play.peer);
    step(&play, -1);
    coney_amqp_close(&play.rabbit, NULL);
    require(play.ended == play.begun);
    coney_loop_free(&play.loop);
    return 0;
}
