/* amqp_ends.c: the ends of a run over AMQP. */
#include "amqp.h"
#include "ends.h"

static bool connect_amqp(struct session *s, const char *uri, const coney_tls_options *tls, coney_call *call)
{
    const coney_amqp_options options = {.name = "coney", .on_event = session_on_event, .event_ctx = s, .tls = tls};
    s->rabbit = coney_amqp_open(uri, &options, call);
    return s->rabbit != NULL;
}

static void disconnect(struct session *s, coney_call *call)
{
    coney_amqp_close(&s->rabbit, call);
}

static bool is_missing(struct session *s, const char *place)
{
    const coney_amqp_queue asked = {.name = place, .passive = true};
    return coney_amqp_queue_declare(s->rabbit, &asked, NULL) == CONEY_ENOTFOUND;
}

static coney_status make(struct session *s, const char *place, coney_call *call)
{
    const coney_amqp_queue queue = {.name = place, .type = (coney_queue_type)s->settings->queue_type};
    return coney_amqp_queue_declare(s->rabbit, &queue, call);
}

static coney_status take_away(struct session *s, const char *place, coney_call *call)
{
    return coney_amqp_queue_delete(s->rabbit, place, 0, call);
}

static bool open_publisher(struct sender *sender, coney_call *call)
{
    sender->message = amqp_message(sender->session->settings);
    const coney_amqp_publisher_options options = {.routing_key = sender->session->place,
                                                  .on_outcome = outcomes_note,
                                                  .ctx = sender->outcomes,
                                                  .enqueue_timeout = SENDER_PATIENCE,
                                                  .unconfirmed = sender->unconfirmed};
    sender->publisher = coney_amqp_publisher_open(sender->session->rabbit, &options, call);
    return sender->publisher != NULL;
}

static coney_status send_one(struct sender *sender, coney_bytes body, uint64_t tag)
{
    sender->message.body = body;
    sender->message.tag = tag;
    return coney_amqp_publish(sender->publisher, &sender->message);
}

static coney_status send_batch(struct sender *sender, const coney_bytes *bodies, size_t count, uint64_t first_tag,
                               size_t *accepted)
{
    coney_amqp_message messages[SENDER_BATCH];
    for (size_t i = 0; i < count; i++) {
        messages[i] = sender->message;
        messages[i].body = bodies[i];
        messages[i].tag = first_tag + i;
    }
    return coney_amqp_publish_batch(sender->publisher, messages, count, accepted);
}

static coney_status send_wait(struct sender *sender, coney_bytes body, coney_call *call)
{
    sender->message.body = body;
    return coney_amqp_publish_wait(sender->publisher, &sender->message, call);
}

static coney_status flush(struct sender *sender, coney_call *call)
{
    return coney_amqp_publisher_flush(sender->publisher, call);
}

static void close_publisher(struct sender *sender, coney_call *call)
{
    coney_amqp_publisher_close(&sender->publisher, call);
}

/* What comes when no more are wanted goes back to the queue. */
static coney_settle on_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    struct receiver *receiver = ctx;
    struct arrivals arrivals = {.one = delivery->body};
    if (!receiver->on_arrivals(receiver->ctx, &arrivals))
        coney_amqp_consumer_pause(delivery->consumer);
    return arrivals.taken ? CONEY_ACK : CONEY_REQUEUE;
}

static bool open_consumer(struct receiver *receiver, coney_call *call)
{
    const struct settings *settings = receiver->session->settings;
    coney_field start;
    const coney_amqp_consumer_options options = {.on_delivery = on_delivery,
                                                 .ctx = receiver,
                                                 .prefetch = settings->prefetch,
                                                 .ack_run = settings->ack == ACK_SINGLE,
                                                 .no_ack = settings->ack == ACK_NONE,
                                                 .argument_count = amqp_start(&receiver->from, &start),
                                                 .arguments = &start};
    receiver->queue = coney_amqp_consumer_open(receiver->session->rabbit, receiver->session->place, &options, call);
    return receiver->queue != NULL;
}

static void close_consumer(struct receiver *receiver, coney_call *call)
{
    coney_amqp_consumer_close(&receiver->queue, call);
}

const struct protocol amqp_protocol = {
    .uri_variable = "CONEY_AMQP_URI",
    .connect = connect_amqp,
    .disconnect = disconnect,
    .is_missing = is_missing,
    .make = make,
    .remove = take_away,
    .sender_open = open_publisher,
    .send = send_one,
    .send_batch = send_batch,
    .send_wait = send_wait,
    .flush = flush,
    .sender_close = close_publisher,
    .receiver_open = open_consumer,
    .receiver_close = close_consumer,
};
