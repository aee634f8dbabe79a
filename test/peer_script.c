/* What a script tells the stream broker: rules for what arrives, things to push, faults. */
#define _GNU_SOURCE
#include "peer_internal.h"

/* Rules ---------------------------------------------------------------------------------------------------------- */

void peer_rule_answer(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry)
{
    peer_send_answer(stream_peer_of(burrow), &((struct entry *)entry)->record, rule->code, (struct stream_frame){0});
}

void peer_answer(struct peer *peer, uint16_t key, int nth, uint16_t code)
{
    burrow_add_rule(&peer->burrow, &(struct burrow_rule){.key = key, .nth = nth, .action = BURROW_ANSWER, .code = code});
}

void peer_ignore(struct peer *peer, uint16_t key, int nth)
{
    burrow_add_rule(&peer->burrow, &(struct burrow_rule){.key = key, .nth = nth, .action = BURROW_IGNORE});
}

void peer_cut_at(struct peer *peer, uint16_t key, int nth, enum peer_cut how)
{
    burrow_add_rule(&peer->burrow, &(struct burrow_rule){.key = key, .nth = nth, .action = BURROW_CUT, .how = how});
}

void peer_hold(struct peer *peer, uint16_t key, int nth)
{
    burrow_add_rule(&peer->burrow, &(struct burrow_rule){.key = key, .nth = nth, .action = BURROW_HOLD});
}

void peer_raw_at(struct peer *peer, uint16_t key, int nth, coney_bytes bytes)
{
    const struct burrow_rule rule = {
        .key = key, .nth = nth, .action = BURROW_RAW, .raw = (void *)(uintptr_t)bytes.data, .raw_len = bytes.len};
    burrow_add_rule(&peer->burrow, &rule);
}

void peer_call_at(struct peer *peer, uint16_t key, int nth, peer_fn fn, void *ctx)
{
    const struct burrow_rule rule = {.key = key, .nth = nth, .action = BURROW_CALL, .fn = (void (*)(void))fn, .ctx = ctx};
    burrow_add_rule(&peer->burrow, &rule);
}

void peer_by_default(struct peer *peer, uint16_t key)
{
    burrow_forget_rules(&peer->burrow, key);
}

void peer_release(struct peer *peer, uint16_t key)
{
    burrow_release(&peer->burrow, key);
}

void peer_allow_nonsense(struct peer *peer)
{
    burrow_lock(&peer->burrow);
    peer->nonsense_allowed = true;
    burrow_unlock(&peer->burrow);
}

void peer_every(struct peer *peer, int64_t ms, void (*fn)(void *ctx, struct peer *peer), void *ctx)
{
    burrow_lock(&peer->burrow);
    peer->every_fn = fn;
    peer->every_ctx = ctx;
    burrow_every(&peer->burrow, ms);
    burrow_unlock(&peer->burrow);
}

/* Pushing ---------------------------------------------------------------------------------------------------------- */

void peer_send_bytes(struct peer *peer, int connection, coney_bytes bytes)
{
    burrow_send(&peer->burrow, connection, bytes);
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

/* Faults ----------------------------------------------------------------------------------------------------------- */

void peer_cut(struct peer *peer, int connection, enum peer_cut how)
{
    burrow_cut(&peer->burrow, connection, how);
}

void peer_freeze(struct peer *peer, bool frozen)
{
    burrow_freeze(&peer->burrow, frozen);
}

void peer_accept_mute(struct peer *peer, bool mute)
{
    burrow_accept_mute(&peer->burrow, mute);
}

void peer_stop_reading(struct peer *peer, int connection, bool stopped)
{
    burrow_stop_reading(&peer->burrow, connection, stopped);
}

void peer_go_down(struct peer *peer, enum peer_cut how)
{
    burrow_go_down(&peer->burrow, how);
}

void peer_come_up(struct peer *peer)
{
    burrow_come_up(&peer->burrow);
}
