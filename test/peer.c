/* The scripted stream broker: its life, and the frames that arrive. */
#define _GNU_SOURCE
#include "peer_internal.h"

struct connection *peer_connection(struct peer *peer, int connection)
{
    return (struct connection *)burrow_connection(&peer->burrow, connection);
}

static const char *name_of(uint32_t key)
{
    return stream_key_name((uint16_t)key);
}

/* Frames ----------------------------------------------------------------------------------------------------------- */

/* What peer_expect and the rules look at: a command, or the answer to Tune or ConsumerUpdate. */
static bool is_command(const struct peer_record *record)
{
    uint16_t key = record->frame.key;
    return !record->frame.response || key == STREAM_TUNE || key == STREAM_CONSUMER_UPDATE;
}

static struct entry *entry_new(int connection, const uint8_t *body, size_t len)
{
    struct entry *entry = calloc(1, sizeof *entry + len);
    assert_non_null(entry);
    memcpy(entry->bytes, body, len);
    struct peer_record *record = &entry->record;
    record->connection = connection;
    record->at = now_ms();
    record->bytes = coney_bytes_of(entry->bytes, len);
    record->wrong = stream_decode(record->bytes, STREAM_FROM_CLIENT, &record->frame);
    if (record->wrong != NULL) {
        uint16_t key = stream_body_key(record->bytes);
        record->frame = (struct stream_frame){.key = key & (uint16_t)~STREAM_RESPONSE_BIT,
                                              .version = load16(entry->bytes + 2),
                                              .response = (key & STREAM_RESPONSE_BIT) != 0};
    }
    entry->base.key = record->frame.key;
    entry->base.asked = is_command(record);
    return entry;
}

static size_t arrived(struct burrow *burrow, int connection, const uint8_t *at, size_t have)
{
    const char *field;
    size_t size = stream_frame_size(at, have, UINT32_MAX - STREAM_SIZE_BYTES, &field);
    if (field != NULL || size == 0 || size > have)
        return 0;
    struct entry *entry = entry_new(connection, at + STREAM_SIZE_BYTES, size - STREAM_SIZE_BYTES);
    bool mute = burrow_connection(burrow, connection)->mute;
    burrow_log(burrow, &entry->base);
    if (!mute && entry->record.wrong == NULL)
        burrow_treat(burrow, &entry->base);
    return size;
}

/* Life ------------------------------------------------------------------------------------------------------------- */

static void accepted(struct burrow *burrow, int connection)
{
    peer_connection(stream_peer_of(burrow), connection)->deliver_version = 1;
}

static void ended(struct burrow *burrow, int connection)
{
    peer_forget_connection(stream_peer_of(burrow), connection);
}

static bool call(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry)
{
    peer_fn fn = (peer_fn)rule->fn;
    return fn(rule->ctx, stream_peer_of(burrow), &((struct entry *)entry)->record);
}

static void treat(struct burrow *burrow, struct burrow_entry *entry)
{
    peer_treat(stream_peer_of(burrow), &((struct entry *)entry)->record);
}

static int connection_of(const struct burrow_entry *entry)
{
    return ((const struct entry *)entry)->record.connection;
}

static void tick(struct burrow *burrow)
{
    struct peer *peer = stream_peer_of(burrow);
    peer->every_fn(peer->every_ctx, peer);
}

static const struct burrow_kind stream_kind = {
    .connection_size = sizeof(struct connection),
    .accepted = accepted,
    .arrived = arrived,
    .ended = ended,
    .answer = peer_rule_answer,
    .call = call,
    .treat = treat,
    .connection_of = connection_of,
    .tick = tick,
    .name = name_of,
};

struct peer *peer_start_on(const char *host)
{
    struct peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    snprintf(peer->version, sizeof peer->version, "4.0.0");
    peer->frame_max = 1u << 20;
    peer->heartbeat = 60;
    burrow_start(&peer->burrow, &stream_kind, host);
    snprintf(peer->uri, sizeof peer->uri, "rabbitmq-stream://%s", peer->burrow.address);
    return peer;
}

struct peer *peer_start(void)
{
    return peer_start_on("127.0.0.1");
}

/* The name of what a client may not send, or NULL. */
static const char *nonsense_of(const struct peer *peer, char *text, size_t cap)
{
    for (size_t i = 0; i < peer->burrow.log_count; i++) {
        const struct peer_record *record = &((const struct entry *)peer->burrow.log[i])->record;
        if (record->wrong == NULL)
            continue;
        snprintf(text, cap, "%s (key %u, %zu bytes): %s", stream_key_name(record->frame.key), record->frame.key,
                 record->bytes.len, record->wrong);
        return text;
    }
    return NULL;
}

static void peer_free(struct peer *peer)
{
    for (size_t i = 0; i < peer->publisher_count; i++)
        free(peer->publishers[i]);
    free(peer->publishers);
    free(peer->subscriptions);
    free(peer->names);
    free(peer->messages);
    burrow_free(&peer->burrow);
    free(peer);
}

void peer_stop(struct peer **peer)
{
    struct peer *p = *peer;
    if (p == NULL)
        return;
    *peer = NULL;
    burrow_end(&p->burrow);
    char text[200];
    const char *nonsense = p->nonsense_allowed ? NULL : nonsense_of(p, text, sizeof text);
    peer_free(p);
    if (nonsense != NULL)
        fail_msg("the client sent a frame that no client may send: %s", nonsense);
}

uint16_t peer_port(const struct peer *peer)
{
    return peer->burrow.port;
}

const char *peer_uri(const struct peer *peer)
{
    return peer->uri;
}

const char *peer_address(const struct peer *peer)
{
    return peer->burrow.address;
}
