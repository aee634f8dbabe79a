/* stream_ends.c: the ends of a run over streams. */
#include "ends.h"

static bool connect_stream(struct session *s, const char *uri, const coney_tls_options *tls, coney_call *call)
{
    const coney_stream_env_options options = {.name = "coney", .on_event = session_on_event, .event_ctx = s, .tls = tls};
    s->env = coney_stream_env_open(uri, &options, call);
    return s->env != NULL;
}

static void disconnect(struct session *s, coney_call *call)
{
    coney_stream_env_close(&s->env, call);
}

static coney_status make(struct session *s, const char *place, coney_call *call)
{
    const coney_stream_spec spec = {.max_length = 5 * CONEY_GIB, .max_segment_size = 100 * CONEY_MIB};
    return coney_stream_create(s->env, place, &spec, call);
}

static coney_status take_away(struct session *s, const char *place, coney_call *call)
{
    return coney_stream_delete(s->env, place, call);
}

static bool open_producer(struct sender *sender, coney_call *call)
{
    const coney_stream_producer_options options = {.name = sender->session->settings->name,
                                                   .on_outcome = outcomes_note,
                                                   .ctx = sender->outcomes,
                                                   .enqueue_timeout = SENDER_PATIENCE};
    sender->producer = coney_stream_producer_open(sender->session->env, sender->session->place, &options, call);
    return sender->producer != NULL;
}

/* With --line-ids a message's tag is its publishing id, too. */
static coney_status send_one(struct sender *sender, coney_bytes body, uint64_t tag)
{
    if (!sender->session->settings->line_ids)
        return coney_stream_send(sender->producer, body, tag);
    const coney_stream_message message = {.body = body, .tag = tag, .publishing_id = tag, .has_publishing_id = true};
    return coney_stream_send_message(sender->producer, &message);
}

static coney_status send_batch(struct sender *sender, const coney_bytes *bodies, size_t count, uint64_t first_tag,
                               size_t *accepted)
{
    return coney_stream_send_batch(sender->producer, bodies, count, first_tag, accepted);
}

static coney_status send_wait(struct sender *sender, coney_bytes body, coney_call *call)
{
    return coney_stream_send_wait(sender->producer, body, call);
}

static coney_status flush(struct sender *sender, coney_call *call)
{
    return coney_stream_producer_flush(sender->producer, call);
}

static void close_producer(struct sender *sender, coney_call *call)
{
    coney_stream_producer_close(&sender->producer, call);
}

static coney_settle on_chunk(void *ctx, coney_stream_chunk *chunk)
{
    struct receiver *receiver = ctx;
    receiver->on_arrivals(receiver->ctx, &(struct arrivals){.chunk = chunk});
    return CONEY_ACK;
}

static bool open_consumer(struct receiver *receiver, coney_call *call)
{
    const struct place *from = &receiver->from;
    const coney_stream_consumer_options options = {.on_chunk = on_chunk,
                                                   .ctx = receiver,
                                                   .start_if_new = from->start,
                                                   .start_offset = from->offset,
                                                   .start_time = from->time};
    receiver->stream = coney_stream_consumer_open(receiver->session->env, receiver->session->place, &options, call);
    return receiver->stream != NULL;
}

static void close_consumer(struct receiver *receiver, coney_call *call)
{
    coney_stream_consumer_close(&receiver->stream, call);
}

const struct protocol stream_protocol = {
    .uri_variable = "CONEY_STREAM_URI",
    .connect = connect_stream,
    .disconnect = disconnect,
    .make = make,
    .remove = take_away,
    .sender_open = open_producer,
    .send = send_one,
    .send_batch = send_batch,
    .send_wait = send_wait,
    .flush = flush,
    .sender_close = close_producer,
    .receiver_open = open_consumer,
    .receiver_close = close_consumer,
};
