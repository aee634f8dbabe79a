/* The scripted AMQP broker: what is published to it and what it delivers. */
#define _GNU_SOURCE
#include "amqp_peer_internal.h"
#include "proto/amqp091/settle.h"

static void copy_name(char *out, size_t cap, coney_bytes name)
{
    snprintf(out, cap, "%.*s", (int)name.len, name.len > 0 ? (const char *)name.data : "");
}

/* Publishing ------------------------------------------------------------------------------------------------------- */

void amqp_peer_take_message(struct amqp_peer *peer, struct entry *publish, uint8_t *unit, size_t len)
{
    const struct amqp_peer_record *record = &publish->record;
    struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    struct amqp_unit parts;
    assert_true(amqp_unit_read(unit, len, &parts));
    peer->messages = burrow_grow(peer->messages, peer->message_count, &peer->message_cap, sizeof *peer->messages);
    struct message *added = &peer->messages[peer->message_count++];
    added->unit = unit;
    added->message = (struct amqp_peer_message){.connection = record->connection,
                                                .channel = record->channel,
                                                .tag = channel->confirms ? ++channel->published : 0,
                                                .exchange = record->method.basic_publish.exchange,
                                                .routing_key = record->method.basic_publish.routing_key,
                                                .mandatory = record->method.basic_publish.mandatory,
                                                .properties = parts.properties,
                                                .body = parts.body};
    pthread_cond_broadcast(&peer->burrow.changed);
}

void amqp_peer_ack(struct amqp_peer *peer, struct amqp_peer_place place, uint64_t tag, bool multiple)
{
    uint8_t frame[AMQP_SETTLE_BYTES];
    amqp_ack_write(frame, place.channel, tag, multiple);
    amqp_peer_send_bytes(peer, place.connection, coney_bytes_of(frame, sizeof frame));
}

void amqp_peer_nack(struct amqp_peer *peer, struct amqp_peer_place place, uint64_t tag, bool multiple)
{
    uint8_t frame[AMQP_SETTLE_BYTES];
    amqp_nack_write(frame, place.channel, tag, multiple, true);
    amqp_peer_send_bytes(peer, place.connection, coney_bytes_of(frame, sizeof frame));
}

static void confirm(struct amqp_peer *peer, struct amqp_peer_message *message)
{
    message->settled = true;
    amqp_peer_ack(peer, (struct amqp_peer_place){message->connection, message->channel}, message->tag, false);
}

/* Its messages have just become whole: the last of all. */
void amqp_peer_treat_publish(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    struct amqp_peer_message *message = &peer->messages[peer->message_count - 1].message;
    (void)record;
    if (!peer->confirm_by_hand && message->tag != 0)
        confirm(peer, message);
}

/* Whether the channel that it came on can still be told. */
static bool is_live(struct amqp_peer *peer, const struct amqp_peer_message *message)
{
    const struct channel *channel = amqp_peer_channel_at(peer, message->connection, message->channel);
    return channel != NULL && !channel->closing && message->tag != 0 && message->tag <= channel->published;
}

size_t amqp_peer_confirm(struct amqp_peer *peer, size_t count)
{
    size_t done = 0;
    burrow_lock(&peer->burrow);
    for (; peer->confirm_next < peer->message_count && done < count; peer->confirm_next++) {
        struct amqp_peer_message *message = &peer->messages[peer->confirm_next].message;
        if (message->settled || !is_live(peer, message))
            continue;
        confirm(peer, message);
        done++;
    }
    burrow_unlock(&peer->burrow);
    return done;
}

void amqp_peer_confirm_by_hand(struct amqp_peer *peer, bool by_hand)
{
    burrow_lock(&peer->burrow);
    peer->confirm_by_hand = by_hand;
    burrow_unlock(&peer->burrow);
}

size_t amqp_peer_message_count(struct amqp_peer *peer)
{
    burrow_lock(&peer->burrow);
    size_t count = peer->message_count;
    burrow_unlock(&peer->burrow);
    return count;
}

struct amqp_peer_message amqp_peer_message_of(struct amqp_peer *peer, size_t n)
{
    struct amqp_peer_message message = {0};
    burrow_lock(&peer->burrow);
    bool there = n < peer->message_count;
    if (there)
        message = peer->messages[n].message;
    burrow_unlock(&peer->burrow);
    if (!there)
        fail_msg("there is no message %zu", n);
    return message;
}

void amqp_peer_wait_messages(struct amqp_peer *peer, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    burrow_lock(&peer->burrow);
    while (peer->message_count < count && burrow_wait(&peer->burrow, until))
        ;
    size_t got = peer->message_count;
    burrow_unlock(&peer->burrow);
    if (got < count)
        fail_msg("the peer has got %zu messages, and waited for %zu", got, count);
}

struct amqp_peer_place amqp_peer_publisher(struct amqp_peer *peer)
{
    struct amqp_peer_place place = {-1, 0};
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->burrow.connection_count; i++) {
        const struct connection *c = (const struct connection *)peer->burrow.connections[i];
        for (size_t number = 1; number < c->channel_cap; number++)
            if (c->channels[number] != NULL && (c->channels[number]->confirms || c->channels[number]->transacts))
                place = (struct amqp_peer_place){(int)i, (uint16_t)number};
    }
    burrow_unlock(&peer->burrow);
    return place;
}

/* Consumers -------------------------------------------------------------------------------------------------------- */

static bool is_at(struct amqp_peer_place a, struct amqp_peer_place b)
{
    return a.connection == b.connection && a.channel == b.channel;
}

static struct amqp_peer_place place_of(const struct amqp_peer_record *record)
{
    return (struct amqp_peer_place){record->connection, record->channel};
}

const char *amqp_peer_check_consume(const struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    char tag[256];
    copy_name(tag, sizeof tag, record->method.basic_consume.consumer_tag);
    for (size_t i = 0; i < peer->consumer_count; i++)
        if (is_at(peer->consumers[i].place, place_of(record)) && strcmp(peer->consumers[i].tag, tag) == 0)
            return "the consumer tag is in use on the channel";
    return NULL;
}

void amqp_peer_treat_consume(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    const struct amqp_basic_consume *consume = &record->method.basic_consume;
    peer->consumers = burrow_grow(peer->consumers, peer->consumer_count, &peer->consumer_cap, sizeof *peer->consumers);
    struct consumer *consumer = &peer->consumers[peer->consumer_count++];
    *consumer = (struct consumer){.place = place_of(record), .no_ack = consume->no_ack};
    copy_name(consumer->queue, sizeof consumer->queue, consume->queue);
    if (consume->consumer_tag.len > 0)
        copy_name(consumer->tag, sizeof consumer->tag, consume->consumer_tag);
    else
        snprintf(consumer->tag, sizeof consumer->tag, "amq.ctag-%u", peer->names_made++);
    const struct amqp_method ok = {.id = AMQP_BASIC_CONSUME_OK,
                                   .basic_consumer.consumer_tag = coney_bytes_of(consumer->tag, strlen(consumer->tag))};
    if (!consume->nowait)
        amqp_peer_send(peer, record->connection, record->channel, &ok);
    amqp_peer_pump_feed(peer);
}

static void remove_consumer(struct amqp_peer *peer, size_t i)
{
    memmove(&peer->consumers[i], &peer->consumers[i + 1], (--peer->consumer_count - i) * sizeof *peer->consumers);
    pthread_cond_broadcast(&peer->burrow.changed);
}

void amqp_peer_treat_cancel(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    const struct amqp_method ok = {.id = AMQP_BASIC_CANCEL_OK,
                                   .basic_consumer.consumer_tag = record->method.basic_cancel.consumer_tag};
    char tag[256];
    copy_name(tag, sizeof tag, record->method.basic_cancel.consumer_tag);
    for (size_t i = 0; i < peer->consumer_count; i++)
        if (is_at(peer->consumers[i].place, place_of(record)) && strcmp(peer->consumers[i].tag, tag) == 0)
            remove_consumer(peer, i--);
    if (!record->method.basic_cancel.nowait)
        amqp_peer_send(peer, record->connection, record->channel, &ok);
}

static struct consumer *youngest(struct amqp_peer *peer, const char *queue)
{
    for (size_t i = peer->consumer_count; i > 0; i--)
        if (strcmp(peer->consumers[i - 1].queue, queue) == 0)
            return &peer->consumers[i - 1];
    return NULL;
}

struct amqp_peer_place amqp_peer_consumer(struct amqp_peer *peer, const char *queue)
{
    burrow_lock(&peer->burrow);
    const struct consumer *consumer = youngest(peer, queue);
    struct amqp_peer_place place = consumer != NULL ? consumer->place : (struct amqp_peer_place){-1, 0};
    burrow_unlock(&peer->burrow);
    return place;
}

size_t amqp_peer_consumers(struct amqp_peer *peer, const char *queue)
{
    size_t count = 0;
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->consumer_count; i++)
        count += strcmp(peer->consumers[i].queue, queue) == 0;
    burrow_unlock(&peer->burrow);
    return count;
}

void amqp_peer_wait_consumers(struct amqp_peer *peer, const char *queue, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    burrow_lock(&peer->burrow);
    while (amqp_peer_consumers(peer, queue) != count && burrow_wait(&peer->burrow, until))
        ;
    burrow_unlock(&peer->burrow);
    if (amqp_peer_consumers(peer, queue) != count)
        fail_msg("queue '%s' has %zu consumers, and %zu were waited for", queue, amqp_peer_consumers(peer, queue), count);
}

void amqp_peer_cancel(struct amqp_peer *peer, const char *queue)
{
    burrow_lock(&peer->burrow);
    const struct consumer *consumer = youngest(peer, queue);
    if (consumer != NULL) {
        const struct amqp_method cancel = {
            .id = AMQP_BASIC_CANCEL,
            .basic_cancel = {.consumer_tag = coney_bytes_of(consumer->tag, strlen(consumer->tag)), .nowait = true}};
        amqp_peer_send(peer, consumer->place.connection, consumer->place.channel, &cancel);
        remove_consumer(peer, (size_t)(consumer - peer->consumers));
    }
    burrow_unlock(&peer->burrow);
}

/* Deliveries ------------------------------------------------------------------------------------------------------- */

static void deliver(struct amqp_peer *peer, const struct consumer *consumer, coney_bytes properties, coney_bytes body,
                    size_t piece, int64_t queued, bool redelivered)
{
    struct channel *channel = amqp_peer_channel_at(peer, consumer->place.connection, consumer->place.channel);
    channel->deliveries =
        burrow_grow(channel->deliveries, channel->delivery_count, &channel->delivery_cap, sizeof *channel->deliveries);
    enum amqp_peer_fate fate = consumer->no_ack ? AMQP_PEER_ACKED : AMQP_PEER_OUT;
    channel->deliveries[channel->delivery_count++] = (struct handout){.fate = (uint8_t)fate, .queued = queued};
    peer->fates[fate]++;
    channel->out += fate == AMQP_PEER_OUT;
    struct amqp_method method = {.id = AMQP_BASIC_DELIVER,
                                 .basic_deliver = {.consumer_tag = coney_bytes_of(consumer->tag, strlen(consumer->tag)),
                                                   .delivery_tag = channel->delivery_count,
                                                   .redelivered = redelivered,
                                                   .routing_key = coney_bytes_of(consumer->queue, strlen(consumer->queue))}};
    amqp_peer_send_content(peer, consumer->place.connection, consumer->place.channel, &method, properties, body, piece);
}

bool amqp_peer_deliver_content(struct amqp_peer *peer, const char *queue, coney_bytes properties, coney_bytes body,
                               size_t piece)
{
    burrow_lock(&peer->burrow);
    const struct consumer *consumer = youngest(peer, queue);
    if (consumer != NULL)
        deliver(peer, consumer, properties, body, piece, -1, false);
    burrow_unlock(&peer->burrow);
    return consumer != NULL;
}

void amqp_peer_deliver(struct amqp_peer *peer, const char *queue, uint64_t first, size_t count)
{
    for (uint64_t n = first; n < first + count; n++) {
        char body[24];
        int len = snprintf(body, sizeof body, "m%llu", (unsigned long long)n);
        if (!amqp_peer_deliver_content(peer, queue, coney_bytes_of(NULL, 0), coney_bytes_of(body, (size_t)len), 0))
            fail_msg("nobody consumes from '%s'", queue);
    }
}

/* The feed */

void amqp_peer_pump_feed(struct amqp_peer *peer)
{
    struct feed *feed = &peer->feed;
    const struct consumer *consumer = feed->count > 0 ? youngest(peer, feed->queue) : NULL;
    if (consumer == NULL)
        return;
    const struct channel *channel = amqp_peer_channel_at(peer, consumer->place.connection, consumer->place.channel);
    if (channel == NULL || channel->closing)
        return;
    size_t most = channel->prefetch > 0 ? channel->prefetch : SIZE_MAX;
    for (; feed->low < feed->count && channel->out < most; feed->low++) {
        if (feed->all[feed->low].fate != AMQP_PEER_REQUEUED)
            continue;
        char body[24];
        int len = snprintf(body, sizeof body, "m%zu", feed->low);
        feed->all[feed->low].fate = consumer->no_ack ? AMQP_PEER_ACKED : AMQP_PEER_OUT;
        deliver(peer, consumer, coney_bytes_of(NULL, 0), coney_bytes_of(body, (size_t)len), 0, (int64_t)feed->low,
                feed->all[feed->low].times++ > 0);
    }
}

void amqp_peer_feed(struct amqp_peer *peer, const char *queue, size_t count)
{
    burrow_lock(&peer->burrow);
    free(peer->feed.all);
    peer->feed = (struct feed){.count = count, .all = calloc(count + 1, sizeof *peer->feed.all)};
    assert_non_null(peer->feed.all);
    snprintf(peer->feed.queue, sizeof peer->feed.queue, "%s", queue);
    for (size_t i = 0; i < count; i++)
        peer->feed.all[i].fate = AMQP_PEER_REQUEUED;
    amqp_peer_pump_feed(peer);
    burrow_unlock(&peer->burrow);
}

size_t amqp_peer_feed_done(struct amqp_peer *peer)
{
    size_t done = 0;
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->feed.count; i++)
        done += peer->feed.all[i].fate == AMQP_PEER_ACKED || peer->feed.all[i].fate == AMQP_PEER_REJECTED;
    burrow_unlock(&peer->burrow);
    return done;
}

void amqp_peer_wait_feed_done(struct amqp_peer *peer, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    burrow_lock(&peer->burrow);
    while (amqp_peer_feed_done(peer) < count && burrow_wait(&peer->burrow, until))
        ;
    burrow_unlock(&peer->burrow);
    if (amqp_peer_feed_done(peer) < count)
        fail_msg("%zu messages are settled, and %zu were waited for", amqp_peer_feed_done(peer), count);
}

unsigned amqp_peer_feed_acks(struct amqp_peer *peer, size_t number)
{
    burrow_lock(&peer->burrow);
    unsigned acks = peer->feed.all[number].acks;
    burrow_unlock(&peer->burrow);
    return acks;
}

/* Settling --------------------------------------------------------------------------------------------------------- */

static void end_handout(struct amqp_peer *peer, struct handout *handout, enum amqp_peer_fate fate)
{
    peer->fates[handout->fate]--;
    peer->fates[fate]++;
    handout->fate = (uint8_t)fate;
    if (handout->queued < 0)
        return;
    size_t number = (size_t)handout->queued;
    peer->feed.all[number].fate = (uint8_t)fate;
    peer->feed.all[number].acks = (uint8_t)(peer->feed.all[number].acks + (fate == AMQP_PEER_ACKED));
    if (fate == AMQP_PEER_REQUEUED && number < peer->feed.low)
        peer->feed.low = number;
}

static enum amqp_peer_fate fate_of(const struct amqp_method *method)
{
    if (method->id == AMQP_BASIC_ACK)
        return AMQP_PEER_ACKED;
    bool requeue = method->id == AMQP_BASIC_NACK ? method->basic_nack.requeue : method->basic_reject.requeue;
    return requeue ? AMQP_PEER_REQUEUED : AMQP_PEER_REJECTED;
}

static bool is_multiple(const struct amqp_method *method)
{
    return (method->id == AMQP_BASIC_ACK && method->basic_ack.multiple) ||
           (method->id == AMQP_BASIC_NACK && method->basic_nack.multiple);
}

const char *amqp_peer_settle(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    uint64_t tag = record->method.basic_ack.delivery_tag; /* the first field of all three */
    bool multiple = is_multiple(&record->method);
    if (tag == 0 && multiple)
        tag = channel->delivery_count;
    else if (tag == 0 || tag > channel->delivery_count || channel->deliveries[tag - 1].fate != AMQP_PEER_OUT)
        return "a settlement of nothing that is out";
    for (size_t i = multiple ? channel->out_from : (size_t)tag - 1; i < tag; i++)
        if (channel->deliveries[i].fate == AMQP_PEER_OUT) {
            end_handout(peer, &channel->deliveries[i], fate_of(&record->method));
            channel->out--;
        }
    if (multiple)
        channel->out_from = (size_t)tag;
    amqp_peer_pump_feed(peer);
    return NULL;
}

void amqp_peer_forget_place(struct amqp_peer *peer, struct amqp_peer_place place, struct channel *channel)
{
    for (size_t i = 0; i < peer->consumer_count; i++)
        if (is_at(peer->consumers[i].place, place))
            remove_consumer(peer, i--);
    for (size_t i = 0; i < channel->delivery_count; i++)
        if (channel->deliveries[i].fate == AMQP_PEER_OUT)
            end_handout(peer, &channel->deliveries[i], AMQP_PEER_REQUEUED);
    amqp_peer_pump_feed(peer);
    pthread_cond_broadcast(&peer->burrow.changed);
}

size_t amqp_peer_deliveries(struct amqp_peer *peer, enum amqp_peer_fate fate)
{
    burrow_lock(&peer->burrow);
    size_t count = peer->fates[fate];
    burrow_unlock(&peer->burrow);
    return count;
}

void amqp_peer_wait_deliveries(struct amqp_peer *peer, enum amqp_peer_fate fate, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    burrow_lock(&peer->burrow);
    while (peer->fates[fate] < count && burrow_wait(&peer->burrow, until))
        ;
    size_t got = peer->fates[fate];
    burrow_unlock(&peer->burrow);
    if (got < count)
        fail_msg("%zu deliveries have that fate, and %zu were waited for", got, count);
}
