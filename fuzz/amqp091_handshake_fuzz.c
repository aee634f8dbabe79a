/* amqp091_handshake_fuzz.c: any bytes as what a broker says from the first octet of a connection on.
 *
 * The first byte picks the SASL mechanism, the second how many bytes arrive at a time; the rest is the broker's. A whole environment takes it, on a loop
 * that is stepped here, over a link of memory that stands in for net/link.c. Whatever comes: opening ends once, what we send is what a client may send
 * at that point, no text holds the password, and closing ends everything. */
#define _GNU_SOURCE
#include "memory_link.h"
#include "proto/amqp091/codec.h"

#include <coney/amqp.h>
#include <coney/loop.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PASSWORD "open-sesame"

/* What we sent ------------------------------------------------------------------------------------------------------- */

/* The log-in in its order, then anything that a client may send. */
static void check_output(const struct link *link)
{
    static const uint32_t login[] = {AMQP_CONNECTION_START_OK, AMQP_CONNECTION_TUNE_OK, AMQP_CONNECTION_OPEN};
    size_t len = link->out_len < sizeof link->out ? (size_t)link->out_len : 0; /* too much to look at */
    size_t at = AMQP_PROTOCOL_HEADER_BYTES;
    if (len == 0)
        return;
    require(len >= at && memcmp(link->out, amqp_protocol_header, at) == 0);
    for (size_t nth = 0; at < len; nth++) {
        const char *field;
        struct amqp_method method;
        size_t size = amqp_frame_size(link->out + at, len - at, UINT32_MAX - AMQP_FRAME_BYTES, &field);
        require(field == NULL && size > 0 && size <= len - at);
        struct amqp_frame frame = amqp_frame_of(link->out + at);
        at += size;
        if (frame.type == AMQP_FRAME_HEARTBEAT)
            continue;
        require(frame.type == AMQP_FRAME_METHOD && amqp_decode(frame.payload, &method) == NULL);
        require(amqp_method_from(method.id, AMQP_FROM_CLIENT));
        bool ends = method.id == AMQP_CONNECTION_CLOSE_OK || method.id == AMQP_CONNECTION_CLOSE;
        require(nth >= sizeof login / sizeof login[0] || method.id == login[nth] || ends);
    }
}

/* The environment ---------------------------------------------------------------------------------------------------- */

struct ends {
    unsigned opened;
    unsigned declared;
    unsigned closed;
};

static bool is_known; /* the broker has said the password: its words may be in a text */

static void no_password(const char *text)
{
    require(is_known || strstr(text, PASSWORD) == NULL);
}

static void on_opened(void *ctx, const coney_call *call)
{
    ((struct ends *)ctx)->opened++;
    no_password(call->text);
    require(call->status == CONEY_OK || call->text[0] != '\0');
}

static void on_declared(void *ctx, const coney_call *call)
{
    ((struct ends *)ctx)->declared++;
    no_password(call->text);
}

static void on_closed(void *ctx, const coney_call *call)
{
    ((struct ends *)ctx)->closed++;
    no_password(call->text);
}

static void on_event(void *ctx, const coney_event *event)
{
    (void)ctx;
    no_password(event->text);
}

static void on_log(void *ctx, coney_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    no_password(text);
}

static void steps(coney_loop *loop)
{
    for (int i = 0; i < 8 || coney_loop_step(loop); i++)
        coney_loop_step(loop);
}

static void run(coney_loop *loop, const char *mechanism, size_t piece, const uint8_t *data, size_t size)
{
    struct ends ends = {0};
    coney_amqp_options options = {.loop = loop,
                                  .mechanism = mechanism,
                                  .no_recovery = true,
                                  .on_event = on_event,
                                  .on_log = on_log,
                                  .log_level = CONEY_LOG_DEBUG,
                                  .max_message = 1 << 20};
    coney_call open = {.on_done = on_opened, .ctx = &ends};
    coney_amqp *rabbit = coney_amqp_open("amqp://me:" PASSWORD "@memory", &options, &open);
    require(rabbit != NULL);
    steps(loop);
    require(links != NULL);
    links->owner->on_open(links->ctx);
    coney_amqp_queue queue = {.name = "q"};
    coney_call declare = {.on_done = on_declared, .ctx = &ends};
    unsigned declares = coney_amqp_queue_declare(rabbit, &queue, &declare) == CONEY_OK;
    steps(loop);
    (void)feed(links, data, size, piece);
    steps(loop);
    hang_up();
    steps(loop);
    hang_up();
    steps(loop);
    coney_call close = {.on_done = on_closed, .ctx = &ends};
    coney_amqp_close(&rabbit, &close);
    steps(loop);
    hang_up();
    steps(loop);
    require(ends.opened == 1 && ends.declared == declares && ends.closed == 1);
    for (struct link *link = links; link != NULL; link = link->next) {
        require(link->closed);
        check_output(link);
    }
    free_links();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const mechanisms[] = {"PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"};
    if (size < 2)
        return 0;
    is_known = memmem(data, size, PASSWORD, sizeof PASSWORD - 1) != NULL;
    coney_loop *loop = coney_loop_new();
    require(loop != NULL);
    run(loop, mechanisms[data[0] % 4], data[1], data + 2, size - 2);
    coney_loop_free(&loop);
    require(loop == NULL);
    return 0;
}
