/* What a script tells the peer: rules for what arrives, things to push, faults. */
#define _GNU_SOURCE
#include "peer_internal.h"

#include <sys/socket.h>
#include <unistd.h>

/* Rules ---------------------------------------------------------------------------------------------------------- */

static struct rule *rule_add(struct peer *peer, uint16_t key, int nth, enum action action)
{
    peer->rules = peer_grow(peer->rules, peer->rule_count, &peer->rule_cap, sizeof *peer->rules);
    struct rule *rule = &peer->rules[peer->rule_count++];
    *rule = (struct rule){.key = key, .nth = nth, .action = action};
    return rule;
}

static const struct rule *rule_for(struct peer *peer, uint16_t key)
{
    const struct rule *found = NULL;
    for (size_t i = 0; i < peer->rule_count; i++) {
        struct rule *rule = &peer->rules[i];
        if (rule->key != key)
            continue;
        rule->seen++;
        if (rule->nth == PEER_EVERY || rule->nth == rule->seen)
            found = rule;
    }
    return found;
}

static void rule_apply(struct peer *peer, const struct rule *rule, struct entry *entry)
{
    struct rule r = *rule; /* a function may add rules */
    const struct peer_record *record = &entry->record;
    switch (r.action) {
    case ACTION_ANSWER:
        peer_send_answer(peer, record, r.code, (struct stream_frame){0});
        break;
    case ACTION_IGNORE:
        break;
    case ACTION_CUT:
        peer_end(peer, record->connection, r.how);
        break;
    case ACTION_HOLD:
        entry->held = true;
        break;
    case ACTION_RAW:
        peer_send_bytes(peer, record->connection, coney_bytes_of(r.raw, r.raw_len));
        break;
    case ACTION_CALL:
        if (!r.fn(r.ctx, peer, record))
            peer_treat(peer, record);
        break;
    }
}

void peer_answer(struct peer *peer, uint16_t key, int nth, uint16_t code)
{
    peer_lock(peer);
    rule_add(peer, key, nth, ACTION_ANSWER)->code = code;
    peer_unlock(peer);
}

void peer_ignore(struct peer *peer, uint16_t key, int nth)
{
    peer_lock(peer);
    rule_add(peer, key, nth, ACTION_IGNORE);
    peer_unlock(peer);
}

void peer_cut_at(struct peer *peer, uint16_t key, int nth, enum peer_cut how)
{
    peer_lock(peer);
    rule_add(peer, key, nth, ACTION_CUT)->how = how;
    peer_unlock(peer);
}

void peer_hold(struct peer *peer, uint16_t key, int nth)
{
    peer_lock(peer);
    rule_add(peer, key, nth, ACTION_HOLD);
    peer_unlock(peer);
}

void peer_raw_at(struct peer *peer, uint16_t key, int nth, coney_bytes bytes)
{
    peer_lock(peer);
    struct rule *rule = rule_add(peer, key, nth, ACTION_RAW);
    rule->raw = malloc(bytes.len + 1);
    assert_non_null(rule->raw);
    memcpy(rule->raw, bytes.data, bytes.len);
    rule->raw_len = bytes.len;
    peer_unlock(peer);
}

void peer_call_at(struct peer *peer, uint16_t key, int nth, peer_fn fn, void *ctx)
{
    peer_lock(peer);
    struct rule *rule = rule_add(peer, key, nth, ACTION_CALL);
    rule->fn = fn;
    rule->ctx = ctx;
    peer_unlock(peer);
}

void peer_by_default(struct peer *peer, uint16_t key)
{
    peer_lock(peer);
    size_t kept = 0;
    for (size_t i = 0; i < peer->rule_count; i++) {
        if (peer->rules[i].key == key)
            free(peer->rules[i].raw);
        else
            peer->rules[kept++] = peer->rules[i];
    }
    peer->rule_count = kept;
    peer_unlock(peer);
}

void peer_release(struct peer *peer, uint16_t key)
{
    peer_lock(peer);
    peer_by_default(peer, key);
    for (size_t i = 0; i < peer->log_count; i++) {
        struct entry *entry = peer->log[i];
        if (entry->held && entry->record.frame.key == key) {
            entry->held = false;
            peer_treat(peer, &entry->record);
        }
    }
    peer_wake(peer);
    peer_unlock(peer);
}

/* The log -------------------------------------------------------------------------------------------------------- */

static struct entry *log_add(struct peer *peer, int connection, const uint8_t *body, size_t len)
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
    peer->log = peer_grow(peer->log, peer->log_count, &peer->log_cap, sizeof(struct entry *));
    peer->log[peer->log_count++] = entry;
    if (peer_is_command(record))
        peer->counts[record->frame.key & 63]++;
    return entry;
}

void peer_frame_arrived(struct peer *peer, int connection, const uint8_t *body, size_t len)
{
    struct entry *entry = log_add(peer, connection, body, len);
    bool mute = peer->connections[connection].mute;
    if (!mute && entry->record.wrong == NULL) {
        const struct rule *rule = peer_is_command(&entry->record) ? rule_for(peer, entry->record.frame.key) : NULL;
        if (rule != NULL)
            rule_apply(peer, rule, entry);
        else
            peer_treat(peer, &entry->record);
    }
    pthread_cond_broadcast(&peer->changed);
}

/* Pushing and faults --------------------------------------------------------------------------------------------- */

static void send_to(struct peer *peer, int connection, coney_bytes bytes)
{
    struct connection *c = peer_connection(peer, connection);
    if (c == NULL || c->closing)
        return;
    if (c->out_cap - c->out_len < bytes.len) {
        c->out_cap = (c->out_len + bytes.len) * 2;
        c->out = realloc(c->out, c->out_cap);
        if (c->out == NULL)
            abort();
    }
    memcpy(c->out + c->out_len, bytes.data, bytes.len);
    c->out_len += bytes.len;
}

void peer_send_bytes(struct peer *peer, int connection, coney_bytes bytes)
{
    peer_lock(peer);
    if (connection == PEER_ALL)
        for (size_t i = 0; i < peer->connection_count; i++)
            send_to(peer, (int)i, bytes);
    else
        send_to(peer, connection, bytes);
    peer_wake(peer);
    peer_unlock(peer);
}

void peer_send(struct peer *peer, int connection, const struct stream_frame *frame)
{
    size_t len = stream_encode(frame, NULL, 0);
    if (len == 0)
        fail_msg("the peer was asked to send a frame without a form on the wire: %s", stream_key_name(frame->key));
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    size_t written = stream_encode(frame, bytes, len);
    peer_send_bytes(peer, connection, coney_bytes_of(bytes, written));
    free(bytes);
}

void peer_send_answer(struct peer *peer, const struct peer_record *record, uint16_t code, struct stream_frame answer)
{
    answer.key = record->frame.key;
    answer.version = 1;
    answer.response = true;
    answer.correlation = record->frame.correlation;
    answer.code = code;
    peer_send(peer, record->connection, &answer);
}

void peer_send_heartbeat(struct peer *peer, int connection)
{
    struct stream_frame frame = {.key = STREAM_HEARTBEAT, .version = 1};
    peer_send(peer, connection, &frame);
}

void peer_send_close(struct peer *peer, int connection, uint16_t code, const char *reason)
{
    struct stream_frame frame = {.key = STREAM_CLOSE, .version = 1, .correlation = 1};
    frame.close.code = code;
    frame.close.reason = coney_bytes_of(reason, strlen(reason));
    peer_send(peer, connection, &frame);
}

void peer_cut(struct peer *peer, int connection, enum peer_cut how)
{
    peer_lock(peer);
    if (connection == PEER_ALL)
        for (size_t i = 0; i < peer->connection_count; i++)
            peer_end(peer, (int)i, how);
    else
        peer_end(peer, connection, how);
    peer_wake(peer);
    peer_unlock(peer);
}

void peer_freeze(struct peer *peer, bool frozen)
{
    peer_lock(peer);
    peer->frozen = frozen;
    peer_wake(peer);
    peer_unlock(peer);
}

void peer_accept_mute(struct peer *peer, bool mute)
{
    peer_lock(peer);
    peer->accept_mute = mute;
    peer_unlock(peer);
}

void peer_stop_reading(struct peer *peer, int connection, bool stopped)
{
    peer_lock(peer);
    for (size_t i = 0; i < peer->connection_count; i++)
        if (connection == PEER_ALL || connection == (int)i)
            peer->connections[i].stopped = stopped;
    peer_wake(peer);
    peer_unlock(peer);
}

void peer_go_down(struct peer *peer, enum peer_cut how)
{
    peer_lock(peer);
    peer->down = true;
    shutdown(peer->listener, SHUT_RDWR); /* the thread may be in a poll that keeps the socket alive */
    close(peer->listener);
    for (size_t i = 0; i < peer->connection_count; i++)
        peer_end(peer, (int)i, how);
    peer_bind(peer); /* bound but not listening: the port stays ours and refuses connections */
    peer_wake(peer);
    peer_unlock(peer);
}

void peer_come_up(struct peer *peer)
{
    peer_lock(peer);
    peer->down = false;
    assert_int_equal(listen(peer->listener, 512), 0);
    peer_wake(peer);
    peer_unlock(peer);
}
