/* What a script tells the AMQP broker: rules for what arrives, things to push, faults; and what it asks. */
#define _GNU_SOURCE
#include "amqp_peer_internal.h"
#include "proto/amqp091/publish.h"

/* Rules ---------------------------------------------------------------------------------------------------------- */

void amqp_peer_refuse(struct amqp_peer *peer, uint32_t key, int nth, uint16_t code, const char *text)
{
    const struct burrow_rule rule = {
        .key = key, .nth = nth, .action = BURROW_ANSWER, .code = code, .raw = (void *)(uintptr_t)text, .raw_len = strlen(text)};
    burrow_add_rule(&peer->burrow, &rule);
}

void amqp_peer_ignore(struct amqp_peer *peer, uint32_t key, int nth)
{
    burrow_add_rule(&peer->burrow, &(struct burrow_rule){.key = key, .nth = nth, .action = BURROW_IGNORE});
}

void amqp_peer_cut_at(struct amqp_peer *peer, uint32_t key, int nth, enum peer_cut how)
{
    burrow_add_rule(&peer->burrow, &(struct burrow_rule){.key = key, .nth = nth, .action = BURROW_CUT, .how = how});
}

void amqp_peer_hold(struct amqp_peer *peer, uint32_t key, int nth)
{
    burrow_add_rule(&peer->burrow, &(struct burrow_rule){.key = key, .nth = nth, .action = BURROW_HOLD});
}

void amqp_peer_release(struct amqp_peer *peer, uint32_t key)
{
    burrow_release(&peer->burrow, key);
}

void amqp_peer_raw_at(struct amqp_peer *peer, uint32_t key, int nth, coney_bytes bytes)
{
    const struct burrow_rule rule = {
        .key = key, .nth = nth, .action = BURROW_RAW, .raw = (void *)(uintptr_t)bytes.data, .raw_len = bytes.len};
    burrow_add_rule(&peer->burrow, &rule);
}

void amqp_peer_call_at(struct amqp_peer *peer, uint32_t key, int nth, amqp_peer_fn fn, void *ctx)
{
    const struct burrow_rule rule = {.key = key, .nth = nth, .action = BURROW_CALL, .fn = (void (*)(void))fn, .ctx = ctx};
    burrow_add_rule(&peer->burrow, &rule);
}

void amqp_peer_by_default(struct amqp_peer *peer, uint32_t key)
{
    burrow_forget_rules(&peer->burrow, key);
}

void amqp_peer_treat(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    struct entry *entry = (struct entry *)((uintptr_t)record - offsetof(struct entry, record));
    burrow_lock(&peer->burrow);
    amqp_peer_treat_entry(&peer->burrow, &entry->base);
    burrow_unlock(&peer->burrow);
}

void amqp_peer_allow_nonsense(struct amqp_peer *peer)
{
    burrow_lock(&peer->burrow);
    peer->nonsense_allowed = true;
    burrow_unlock(&peer->burrow);
}

void amqp_peer_set_start(struct amqp_peer *peer, const char *version, const char *mechanisms)
{
    if (version != NULL)
        snprintf(peer->version, sizeof peer->version, "%s", version);
    if (mechanisms != NULL)
        snprintf(peer->mechanisms, sizeof peer->mechanisms, "%s", mechanisms);
}

void amqp_peer_set_tune(struct amqp_peer *peer, uint16_t channel_max, uint32_t frame_max, uint16_t heartbeat)
{
    burrow_lock(&peer->burrow);
    peer->tune = (struct amqp_connection_tune){channel_max, frame_max, heartbeat};
    burrow_unlock(&peer->burrow);
}

/* Pushing ---------------------------------------------------------------------------------------------------------- */

void amqp_peer_send_bytes(struct amqp_peer *peer, int connection, coney_bytes bytes)
{
    burrow_send(&peer->burrow, connection, bytes);
}

/* The whole frame in memory that the caller frees. */
static uint8_t *encoded(uint16_t channel, const struct amqp_method *method, size_t *len)
{
    *len = amqp_encode(channel, method, NULL, 0);
    if (*len == 0)
        fail_msg("the peer was asked to send a method without a form on the wire: %s", amqp_method_name(method->id));
    uint8_t *bytes = malloc(*len);
    assert_non_null(bytes);
    amqp_encode(channel, method, bytes, *len);
    return bytes;
}

void amqp_peer_send(struct amqp_peer *peer, int connection, uint16_t channel, const struct amqp_method *method)
{
    size_t len;
    uint8_t *bytes = encoded(channel, method, &len);
    amqp_peer_send_bytes(peer, connection, coney_bytes_of(bytes, len));
    free(bytes);
}

void amqp_peer_send_heartbeat(struct amqp_peer *peer, int connection)
{
    amqp_peer_send_bytes(peer, connection, coney_bytes_of(amqp_heartbeat, AMQP_FRAME_BYTES));
}

void amqp_peer_send_content(struct amqp_peer *peer, int connection, uint16_t channel, const struct amqp_method *method,
                            coney_bytes properties, coney_bytes body, size_t piece)
{
    burrow_lock(&peer->burrow);
    const struct connection *c = amqp_peer_connection_at(peer, connection);
    uint32_t payload_max = piece > 0 ? (uint32_t)piece : amqp_payload_max(c != NULL ? c->frame_max : 0);
    burrow_unlock(&peer->burrow);
    if (properties.len == 0)
        properties = CONEY_STR("\0\0");
    size_t len;
    uint8_t *head = encoded(channel, method, &len);
    size_t size = amqp_publish_size(len, properties.len, body.len, payload_max);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    const uint8_t *end = amqp_publish_write(bytes, coney_bytes_of(head, len), channel, properties, body, payload_max);
    assert_true(end == bytes + size);
    amqp_peer_send_bytes(peer, connection, coney_bytes_of(bytes, size));
    free(head);
    free(bytes);
}

static struct amqp_method close_of(uint32_t id, uint16_t code, const char *text)
{
    return (struct amqp_method){.id = id, .close = {.code = code, .text = coney_bytes_of(text, strlen(text))}};
}

void amqp_peer_close_channel(struct amqp_peer *peer, struct amqp_peer_place place, uint16_t code, const char *text)
{
    const struct amqp_method close = close_of(AMQP_CHANNEL_CLOSE, code, text);
    burrow_lock(&peer->burrow);
    struct channel *channel = amqp_peer_channel_at(peer, place.connection, place.channel);
    if (channel != NULL) {
        channel->closing = true;
        amqp_peer_send(peer, place.connection, place.channel, &close);
    }
    burrow_unlock(&peer->burrow);
}

void amqp_peer_close(struct amqp_peer *peer, int connection, uint16_t code, const char *text)
{
    const struct amqp_method close = close_of(AMQP_CONNECTION_CLOSE, code, text);
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->burrow.connection_count; i++) {
        struct connection *c = amqp_peer_connection_at(peer, (int)i);
        if (c == NULL || (connection != PEER_ALL && connection != (int)i))
            continue;
        c->closing = true;
        amqp_peer_send(peer, (int)i, 0, &close);
    }
    burrow_unlock(&peer->burrow);
}

void amqp_peer_return(struct amqp_peer *peer, const struct amqp_peer_message *message, uint16_t code, const char *text)
{
    const struct amqp_method method = {.id = AMQP_BASIC_RETURN,
                                       .basic_return = {.code = code,
                                                        .text = coney_bytes_of(text, strlen(text)),
                                                        .exchange = message->exchange,
                                                        .routing_key = message->routing_key}};
    amqp_peer_send_content(peer, message->connection, message->channel, &method, message->properties, message->body, 0);
}

/* Faults ----------------------------------------------------------------------------------------------------------- */

void amqp_peer_cut(struct amqp_peer *peer, int connection, enum peer_cut how)
{
    burrow_cut(&peer->burrow, connection, how);
}

void amqp_peer_freeze(struct amqp_peer *peer, bool frozen)
{
    burrow_freeze(&peer->burrow, frozen);
}

void amqp_peer_accept_mute(struct amqp_peer *peer, bool mute)
{
    burrow_accept_mute(&peer->burrow, mute);
}

void amqp_peer_stop_reading(struct amqp_peer *peer, int connection, bool stopped)
{
    burrow_stop_reading(&peer->burrow, connection, stopped);
}

void amqp_peer_go_down(struct amqp_peer *peer, enum peer_cut how)
{
    burrow_go_down(&peer->burrow, how);
}

void amqp_peer_come_up(struct amqp_peer *peer)
{
    burrow_come_up(&peer->burrow);
}

void amqp_peer_chop(struct amqp_peer *peer, size_t bytes)
{
    burrow_chop(&peer->burrow, bytes);
}

void amqp_peer_corrupt(struct amqp_peer *peer, size_t nth, uint8_t by)
{
    burrow_corrupt(&peer->burrow, nth, by);
}

void amqp_peer_beat(struct amqp_peer *peer, int64_t ms)
{
    burrow_every(&peer->burrow, ms);
}

/* What arrived ------------------------------------------------------------------------------------------------------ */

static const struct amqp_peer_record *record_of(const struct burrow_entry *entry)
{
    return entry != NULL ? &((const struct entry *)entry)->record : NULL;
}

const struct amqp_peer_record *amqp_peer_expect(struct amqp_peer *peer, uint32_t key)
{
    return record_of(burrow_expect(&peer->burrow, key));
}

const struct amqp_peer_record *amqp_peer_wait_for(struct amqp_peer *peer, uint32_t key, int64_t ms)
{
    return record_of(burrow_wait_for(&peer->burrow, key, ms));
}

size_t amqp_peer_count(struct amqp_peer *peer, uint32_t key)
{
    return burrow_count(&peer->burrow, key);
}

const struct amqp_peer_record *amqp_peer_record_of(struct amqp_peer *peer, uint32_t key, size_t n)
{
    return record_of(burrow_nth(&peer->burrow, key, n));
}

void amqp_peer_wait_count(struct amqp_peer *peer, uint32_t key, size_t count)
{
    burrow_wait_count(&peer->burrow, key, count);
}

bool amqp_peer_reaches_count(struct amqp_peer *peer, uint32_t key, size_t count, int64_t ms)
{
    return burrow_reaches_count(&peer->burrow, key, count, ms);
}

void amqp_peer_story(struct amqp_peer *peer, int connection, int channel, char *out, size_t cap)
{
    size_t len = 0;
    out[0] = '\0';
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->burrow.log_count; i++) {
        const struct entry *entry = (const struct entry *)peer->burrow.log[i];
        bool is_there = entry->record.connection == connection && (channel == PEER_ALL || entry->record.channel == channel);
        if (is_there && entry->base.key > AMQP_PEER_CONTENT && len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len > 0 ? " " : "", amqp_method_name(entry->base.key));
    }
    burrow_unlock(&peer->burrow);
}

size_t amqp_peer_accepted(struct amqp_peer *peer)
{
    return burrow_accepted(&peer->burrow);
}

size_t amqp_peer_open_connections(struct amqp_peer *peer)
{
    return burrow_open_connections(&peer->burrow);
}

void amqp_peer_wait_open(struct amqp_peer *peer, size_t count)
{
    burrow_wait_open(&peer->burrow, count);
}

int amqp_peer_connection(struct amqp_peer *peer, const char *purpose)
{
    int found = -1;
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->burrow.connection_count; i++) {
        const struct connection *c = amqp_peer_connection_at(peer, (int)i);
        const char *end = c != NULL ? strrchr(c->name, '-') : NULL;
        if (end != NULL && strcmp(end + 1, purpose) == 0)
            found = (int)i;
    }
    burrow_unlock(&peer->burrow);
    return found;
}

size_t amqp_peer_channels(struct amqp_peer *peer)
{
    size_t open = 0;
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->burrow.connection_count; i++) {
        const struct connection *c = (const struct connection *)peer->burrow.connections[i];
        for (size_t number = 1; number < c->channel_cap; number++)
            open += c->channels[number] != NULL;
    }
    burrow_unlock(&peer->burrow);
    return open;
}
