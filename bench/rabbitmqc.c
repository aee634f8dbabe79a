/* rabbitmqc.c: what a C program does with a queue today: the loops that rabbitmq-c's own examples show.
 *
 *     bench_rabbitmqc consume --queue Q --size 512 --count 200000
 *     bench_rabbitmqc publish --size 512 --count 200000
 */
#include "measure.h"
#include "tags.h"
#include "wire.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { CHANNEL = 1, FRAME_MAX = 131072 };

static void must(int rc, const char *what)
{
    if (rc < 0)
        die("%s: %s", what, amqp_error_string2(rc));
}

static void must_reply(amqp_rpc_reply_t reply, const char *what)
{
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        die("%s: %s", what, amqp_error_string2(reply.library_error));
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        die("%s: the broker refused", what);
}

static amqp_connection_state_t open_channel(const struct options *o)
{
    struct address a = address_of(o->uri, "5672");
    amqp_connection_state_t state = amqp_new_connection();
    must(amqp_socket_open(amqp_tcp_socket_new(state), a.host, atoi(a.port)), "connect");
    must_reply(amqp_login(state, "/", 0, FRAME_MAX, 0, AMQP_SASL_METHOD_PLAIN, a.user, a.password), "login");
    amqp_channel_open(state, CHANNEL);
    must_reply(amqp_get_rpc_reply(state), "channel");
    return state;
}

static void close_channel(amqp_connection_state_t state)
{
    must_reply(amqp_channel_close(state, CHANNEL, AMQP_REPLY_SUCCESS), "close of the channel");
    must_reply(amqp_connection_close(state, AMQP_REPLY_SUCCESS), "close");
    amqp_destroy_connection(state);
}

/* Consume: an ack for each message --------------------------------------------------------------------------------- */

static void consume_one(amqp_connection_state_t state, uint64_t size)
{
    amqp_envelope_t envelope;
    amqp_maybe_release_buffers(state);
    must_reply(amqp_consume_message(state, &envelope, NULL, 0), "consume");
    if (envelope.message.body.len != size)
        die("the queue has other messages than those of --size");
    must(amqp_basic_ack(state, CHANNEL, envelope.delivery_tag, 0), "ack");
    amqp_destroy_envelope(&envelope);
}

static void consume(const struct options *o)
{
    amqp_connection_state_t state = open_channel(o);
    amqp_basic_qos(state, CHANNEL, 0, (uint16_t)o->prefetch, 0);
    must_reply(amqp_get_rpc_reply(state), "qos");
    amqp_basic_consume(state, CHANNEL, amqp_cstring_bytes(given_queue(o)), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    must_reply(amqp_get_rpc_reply(state), "consume");
    uint64_t start = 0;
    for (uint64_t i = 0; i < o->count; i++) {
        consume_one(state, o->size);
        if (start == 0)
            start = now_ns();
    }
    uint64_t end = now_ns();
    let_acks_arrive();
    close_channel(state);
    print_rate("rabbitmq-c", "consume", "consumed_per_second", o->size, o->count, end - start);
}

/* Publish: by windows, with an outcome each ------------------------------------------------------------------------ */

struct publishing {
    amqp_connection_state_t state;
    amqp_bytes_t queue;
    amqp_bytes_t body;
    struct tags unconfirmed;
    uint64_t outcomes;
};

static void publish_one(struct publishing *p)
{
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = AMQP_DELIVERY_PERSISTENT};
    must(amqp_basic_publish(p->state, CHANNEL, amqp_empty_bytes, p->queue, 1, 0, &properties, p->body), "publish");
    tags_open(&p->unconfirmed, 1);
}

static void take_confirm(struct publishing *p)
{
    amqp_frame_t frame;
    must(amqp_simple_wait_frame(p->state, &frame), "confirm");
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        die("the broker sent something else than a confirm");
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    p->outcomes += tags_settle(&p->unconfirmed, ack->delivery_tag, ack->multiple != 0);
    amqp_maybe_release_buffers(p->state);
}

/* Fills the window, then waits until half of it is free. */
static uint64_t publish_all(struct publishing *p, uint64_t count, uint64_t window)
{
    uint64_t start = now_ns(), sent = 0;
    while (p->outcomes < count) {
        for (; sent < count && sent - p->outcomes < window; sent++)
            publish_one(p);
        while (p->outcomes < count && sent - p->outcomes > (sent < count ? window / 2 : 0))
            take_confirm(p);
    }
    return now_ns() - start;
}

static void publish(const struct options *o)
{
    uint64_t window = o->window > 0 ? o->window : 1000;
    const char *queue = own_stream("rabbitmqc");
    amqp_table_entry_t type = {.key = amqp_cstring_bytes("x-queue-type"),
                               .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(o->type)}};
    amqp_table_t arguments = {.num_entries = 1, .entries = &type};
    struct publishing p = {.state = open_channel(o),
                           .queue = amqp_cstring_bytes(queue),
                           .body = {.len = o->size, .bytes = must_alloc(o->size)},
                           .unconfirmed = tags_of(2 * window)};
    memset(p.body.bytes, 'x', o->size);
    amqp_queue_declare(p.state, CHANNEL, p.queue, 0, 1, 0, 0, arguments);
    must_reply(amqp_get_rpc_reply(p.state), "declare");
    amqp_confirm_select(p.state, CHANNEL);
    must_reply(amqp_get_rpc_reply(p.state), "confirm.select");
    uint64_t ns = publish_all(&p, o->count, window);
    amqp_queue_delete(p.state, CHANNEL, p.queue, 0, 0);
    must_reply(amqp_get_rpc_reply(p.state), "delete");
    close_channel(p.state);
    tags_free(&p.unconfirmed);
    free(p.body.bytes);
    print_rate("rabbitmq-c", "publish", "confirmed_per_second", o->size, o->count, ns);
}

int main(int argc, char **argv)
{
    static const struct command commands[] = {{"consume", consume}, {"publish", publish}};
    return run_command(commands, sizeof commands / sizeof commands[0], argc, argv);
}
