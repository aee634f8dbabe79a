/* The scripted AMQP broker: its life, and the frames that arrive. */
#define _GNU_SOURCE
#include "amqp_peer_internal.h"

static const char *name_of(uint32_t key)
{
    switch (key) {
    case AMQP_PEER_GREETING:
        return "protocol header";
    case AMQP_PEER_HEARTBEAT:
        return "heartbeat";
    case AMQP_PEER_CONTENT:
        return "content";
    default:
        return amqp_method_name(key);
    }
}

struct connection *amqp_peer_connection_at(struct amqp_peer *peer, int connection)
{
    return (struct connection *)burrow_connection(&peer->burrow, connection);
}

/* Channels --------------------------------------------------------------------------------------------------------- */

struct channel *amqp_peer_channel_at(struct amqp_peer *peer, int connection, uint16_t number)
{
    struct connection *c = amqp_peer_connection_at(peer, connection);
    return c != NULL && number < c->channel_cap ? c->channels[number] : NULL;
}

struct channel *amqp_peer_channel_open(struct amqp_peer *peer, int connection, uint16_t number)
{
    struct connection *c = amqp_peer_connection_at(peer, connection);
    if (number >= c->channel_cap) {
        size_t cap = (size_t)number * 2 + 1;
        c->channels = realloc(c->channels, cap * sizeof(struct channel *));
        if (c->channels == NULL)
            abort();
        memset(c->channels + c->channel_cap, 0, (cap - c->channel_cap) * sizeof(struct channel *));
        c->channel_cap = cap;
    }
    c->channels[number] = calloc(1, sizeof(struct channel));
    if (c->channels[number] == NULL)
        abort();
    return c->channels[number];
}

static void end_channel(struct amqp_peer *peer, int connection, struct connection *c, uint16_t number)
{
    struct channel *channel = c->channels[number];
    c->channels[number] = NULL;
    amqp_peer_forget_place(peer, (struct amqp_peer_place){connection, number}, channel);
    free(channel->deliveries);
    free(channel->content);
    free(channel);
}

void amqp_peer_channel_end(struct amqp_peer *peer, int connection, uint16_t number)
{
    struct connection *c = amqp_peer_connection_at(peer, connection);
    if (amqp_peer_channel_at(peer, connection, number) != NULL)
        end_channel(peer, connection, c, number);
}

/* What no client may send ------------------------------------------------------------------------------------------- */

static const char *check_on_channel(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    const struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    uint32_t id = record->method.id;
    if (id == AMQP_CHANNEL_OPEN)
        return channel != NULL                                                           ? "a channel that is open is opened"
               : record->channel > peer->tune.channel_max && peer->tune.channel_max != 0 ? "a channel above channel_max"
                                                                                         : NULL;
    if (channel == NULL)
        return "the channel is not open";
    if (channel->closing)
        return NULL;
    if (id == AMQP_CHANNEL_CLOSE_OK)
        return "nobody closed the channel";
    if (amqp_assembler_busy(&channel->assembler))
        return amqp_fault_method_inside;
    return id == AMQP_BASIC_CONSUME ? amqp_peer_check_consume(peer, record) : NULL;
}

static const char *check_method(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    const struct connection *c = amqp_peer_connection_at(peer, record->connection);
    uint16_t class = AMQP_CLASS_OF(record->method.id);
    if (!amqp_method_from(record->method.id, AMQP_FROM_CLIENT))
        return "a method that only brokers send";
    if ((class == AMQP_CLASS_CONNECTION) != (record->channel == 0))
        return "a method on the wrong channel";
    if (record->channel == 0 || c->closing)
        return NULL; /* behind our own close nothing is treated, so no channel opened either */
    return c->opened ? check_on_channel(peer, record) : "a method before connection.open-ok";
}

static const char *check_size(const struct connection *c, size_t size)
{
    if (!c->opened)
        return size > AMQP_FRAME_MAX_BEFORE_TUNE ? "a frame over 8192 bytes before tune-ok" : NULL;
    return c->frame_max != 0 && size > c->frame_max ? "a frame over frame_max" : NULL;
}

/* The log ---------------------------------------------------------------------------------------------------------- */

static struct entry *entry_new(int connection, uint32_t key, const uint8_t *at, size_t size)
{
    struct entry *entry = calloc(1, sizeof *entry + size);
    assert_non_null(entry);
    memcpy(entry->bytes, at, size);
    entry->base.key = key;
    entry->base.asked = key != AMQP_PEER_CONTENT;
    entry->record.connection = connection;
    entry->record.at = now_ms();
    entry->record.bytes = coney_bytes_of(entry->bytes, size);
    return entry;
}

/* Logs and treats what cannot be more than it is. */
static void take(struct amqp_peer *peer, struct entry *entry)
{
    const struct connection *c = amqp_peer_connection_at(peer, entry->record.connection);
    burrow_log(&peer->burrow, &entry->base);
    if (!c->base.mute && entry->record.wrong == NULL)
        burrow_treat(&peer->burrow, &entry->base);
}

/* Frames ------------------------------------------------------------------------------------------------------------ */

static size_t take_greeting(struct amqp_peer *peer, int connection, const uint8_t *at, size_t have)
{
    if (have < AMQP_PROTOCOL_HEADER_BYTES)
        return 0;
    struct connection *c = amqp_peer_connection_at(peer, connection);
    struct entry *entry = entry_new(connection, AMQP_PEER_GREETING, at, AMQP_PROTOCOL_HEADER_BYTES);
    c->greeted = true;
    if (memcmp(at, amqp_protocol_header, AMQP_PROTOCOL_HEADER_BYTES) != 0)
        entry->record.wrong = "not the protocol header of 0-9-1";
    take(peer, entry);
    return AMQP_PROTOCOL_HEADER_BYTES;
}

/* Puts a frame of a content to the others. */
static const char *add_content(struct amqp_peer *peer, struct channel *channel, const struct entry *entry)
{
    size_t room;
    coney_bytes frame = entry->record.bytes;
    const char *fault = amqp_assembler_check(&channel->assembler, frame.data, frame.len, AMQP_BODY_LIMIT, &room);
    if (fault != NULL)
        return fault;
    channel->content = realloc(channel->content, room);
    if (channel->content == NULL)
        abort();
    if (!amqp_assembler_add(&channel->assembler, frame.data, frame.len, channel->content))
        return NULL;
    uint8_t *unit = channel->content;
    struct entry *publish = channel->publish;
    channel->content = NULL;
    amqp_peer_take_message(peer, publish, unit, room);
    burrow_treat(&peer->burrow, &publish->base);
    return NULL;
}

static void take_content(struct amqp_peer *peer, struct entry *entry)
{
    struct amqp_peer_record *record = &entry->record;
    struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    bool mute = amqp_peer_connection_at(peer, record->connection)->base.mute;
    if (channel == NULL)
        record->wrong = "content on a channel that is not open";
    burrow_log(&peer->burrow, &entry->base);
    if (record->wrong == NULL && !channel->closing && !mute)
        record->wrong = add_content(peer, channel, entry);
}

static void take_method(struct amqp_peer *peer, struct entry *entry)
{
    struct amqp_peer_record *record = &entry->record;
    coney_bytes payload = amqp_frame_of(record->bytes.data).payload;
    entry->base.key = payload.len >= 4 ? load32(payload.data) : 0;
    if (record->wrong == NULL)
        record->wrong = amqp_decode(payload, &record->method);
    record->method.id = entry->base.key;
    if (record->wrong == NULL)
        record->wrong = check_method(peer, record);
    struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    if (record->wrong == NULL && channel != NULL && !channel->closing && amqp_carries_content(record->method.id)) {
        channel->publish = entry;
        burrow_log(&peer->burrow, &entry->base);
        record->wrong = add_content(peer, channel, entry);
        return;
    }
    take(peer, entry);
}

static size_t arrived(struct burrow *burrow, int connection, const uint8_t *at, size_t have)
{
    struct amqp_peer *peer = peer_of(burrow);
    struct connection *c = amqp_peer_connection_at(peer, connection);
    if (!c->greeted)
        return take_greeting(peer, connection, at, have);
    const char *field;
    size_t size = amqp_frame_size(at, have, UINT32_MAX - AMQP_FRAME_BYTES, &field);
    if (field == NULL && (size == 0 || size > have))
        return 0;
    struct amqp_frame frame = amqp_frame_of(at);
    uint32_t key = field == NULL && frame.type == AMQP_FRAME_HEARTBEAT ? AMQP_PEER_HEARTBEAT : AMQP_PEER_CONTENT;
    struct entry *entry = entry_new(connection, key, at, field == NULL ? size : have);
    entry->record.channel = frame.channel;
    entry->record.wrong = field != NULL ? field : check_size(c, size);
    if (field != NULL)
        c->base.mute = true; /* where the next frame begins nobody knows */
    if (field == NULL && frame.type == AMQP_FRAME_METHOD) {
        entry->base.asked = true;
        take_method(peer, entry);
    } else if (key == AMQP_PEER_CONTENT && field == NULL) {
        take_content(peer, entry);
    } else {
        take(peer, entry);
    }
    return entry->record.bytes.len;
}

/* Life ------------------------------------------------------------------------------------------------------------- */

static void accepted(struct burrow *burrow, int connection)
{
    (void)burrow;
    (void)connection;
}

static void ended(struct burrow *burrow, int connection)
{
    struct connection *c = (struct connection *)burrow->connections[connection];
    for (size_t number = 0; number < c->channel_cap; number++)
        if (c->channels[number] != NULL)
            end_channel(peer_of(burrow), connection, c, (uint16_t)number);
    free(c->channels);
    c->channels = NULL;
    c->channel_cap = 0;
}

static bool call(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry)
{
    amqp_peer_fn fn = (amqp_peer_fn)rule->fn;
    return fn(rule->ctx, peer_of(burrow), &((struct entry *)entry)->record);
}

static int connection_of(const struct burrow_entry *entry)
{
    return ((const struct entry *)entry)->record.connection;
}

static void beat(struct burrow *burrow)
{
    burrow_send(burrow, PEER_ALL, coney_bytes_of(amqp_heartbeat, AMQP_FRAME_BYTES));
}

static const struct burrow_kind amqp_kind = {
    .connection_size = sizeof(struct connection),
    .accepted = accepted,
    .arrived = arrived,
    .ended = ended,
    .answer = amqp_peer_answer,
    .call = call,
    .treat = amqp_peer_treat_entry,
    .connection_of = connection_of,
    .tick = beat,
    .name = name_of,
};

struct amqp_peer *amqp_peer_start(void)
{
    struct amqp_peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    peer->tune = (struct amqp_connection_tune){2047, AMQP_FRAME_MAX_DEFAULT, 60};
    amqp_peer_set_start(peer, "4.1.2", "PLAIN AMQPLAIN EXTERNAL ANONYMOUS");
    burrow_start(&peer->burrow, &amqp_kind, "127.0.0.1");
    snprintf(peer->uri, sizeof peer->uri, "amqp://%s", peer->burrow.address);
    return peer;
}

static const char *nonsense_of(const struct amqp_peer *peer, char *text, size_t cap)
{
    for (size_t i = 0; i < peer->burrow.log_count; i++) {
        const struct entry *entry = (const struct entry *)peer->burrow.log[i];
        if (entry->record.wrong == NULL)
            continue;
        snprintf(text, cap, "%s on channel %u (%zu bytes): %s", name_of(entry->base.key), entry->record.channel,
                 entry->record.bytes.len, entry->record.wrong);
        return text;
    }
    return NULL;
}

void amqp_peer_stop(struct amqp_peer **handle)
{
    struct amqp_peer *peer = *handle;
    if (peer == NULL)
        return;
    *handle = NULL;
    burrow_end(&peer->burrow);
    char text[300];
    const char *nonsense = peer->nonsense_allowed ? NULL : nonsense_of(peer, text, sizeof text);
    for (size_t i = 0; i < peer->message_count; i++)
        free(peer->messages[i].unit);
    free(peer->messages);
    free(peer->consumers);
    free(peer->feed.all);
    burrow_free(&peer->burrow);
    free(peer);
    if (nonsense != NULL)
        fail_msg("the client sent what no client may send: %s", nonsense);
}

uint16_t amqp_peer_port(const struct amqp_peer *peer)
{
    return peer->burrow.port;
}

const char *amqp_peer_uri(const struct amqp_peer *peer)
{
    return peer->uri;
}

const char *amqp_peer_address(const struct amqp_peer *peer)
{
    return peer->burrow.address;
}
