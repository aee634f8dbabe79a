/* What tests wait for: the log of a peer, its counts and its messages. */
#define _GNU_SOURCE
#include "peer_internal.h"

/* Waits, with the lock held once, for a change. False at `until`. */
static bool change_wait(struct peer *peer, int64_t until)
{
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
    return pthread_cond_timedwait(&peer->changed, &peer->mutex, &at) == 0 || now_ms() < until;
}

static const struct peer_record *expected_next(struct peer *peer, uint16_t key)
{
    size_t *at = &peer->expected[key & 63];
    while (*at < peer->log_count) {
        const struct peer_record *record = &peer->log[(*at)++]->record;
        if (record->frame.key == key && peer_is_command(record))
            return record;
    }
    return NULL;
}

const struct peer_record *peer_wait_for(struct peer *peer, uint16_t key, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    peer_lock(peer);
    const struct peer_record *record;
    bool more = true;
    while ((record = expected_next(peer, key)) == NULL && more)
        more = change_wait(peer, until);
    peer_unlock(peer);
    return record;
}

static void log_print(struct peer *peer)
{
    peer_lock(peer);
    size_t from = peer->log_count > 40 ? peer->log_count - 40 : 0;
    for (size_t i = from; i < peer->log_count; i++) {
        const struct peer_record *record = &peer->log[i]->record;
        fprintf(stderr, "  peer %s: connection %d sent %s%s\n", peer->address, record->connection,
                stream_key_name(record->frame.key), record->frame.response ? " (answer)" : "");
    }
    peer_unlock(peer);
}

const struct peer_record *peer_expect(struct peer *peer, uint16_t key)
{
    const struct peer_record *record = peer_wait_for(peer, key, SUPPORT_PATIENCE);
    if (record == NULL) {
        log_print(peer);
        fail_msg("the peer waited in vain for %s", stream_key_name(key));
    }
    return record;
}

size_t peer_count(struct peer *peer, uint16_t key)
{
    peer_lock(peer);
    size_t count = peer->counts[key & 63];
    peer_unlock(peer);
    return count;
}

const struct peer_record *peer_record_of(struct peer *peer, uint16_t key, size_t n)
{
    const struct peer_record *found = NULL;
    peer_lock(peer);
    for (size_t i = 0; i < peer->log_count && found == NULL; i++) {
        const struct peer_record *record = &peer->log[i]->record;
        if (record->frame.key == key && peer_is_command(record) && n-- == 0)
            found = record;
    }
    peer_unlock(peer);
    return found;
}

bool peer_reaches_count(struct peer *peer, uint16_t key, size_t count, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    peer_lock(peer);
    bool more = true;
    while (peer->counts[key & 63] < count && more)
        more = change_wait(peer, until);
    bool reached = peer->counts[key & 63] >= count;
    peer_unlock(peer);
    return reached;
}

void peer_wait_count(struct peer *peer, uint16_t key, size_t count)
{
    if (!peer_reaches_count(peer, key, count, SUPPORT_PATIENCE)) {
        log_print(peer);
        fail_msg("the peer has got %zu %s, and waited for %zu", peer_count(peer, key), stream_key_name(key), count);
    }
}

void peer_wait_messages(struct peer *peer, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    peer_lock(peer);
    bool more = true;
    while (peer->message_count < count && more)
        more = change_wait(peer, until);
    size_t got = peer->message_count;
    peer_unlock(peer);
    if (got < count)
        fail_msg("the peer has got %zu messages, and waited for %zu", got, count);
}

size_t peer_accepted(struct peer *peer)
{
    peer_lock(peer);
    size_t count = peer->connection_count;
    peer_unlock(peer);
    return count;
}

size_t peer_open_connections(struct peer *peer)
{
    size_t open = 0;
    peer_lock(peer);
    for (size_t i = 0; i < peer->connection_count; i++)
        open += peer->connections[i].fd >= 0;
    peer_unlock(peer);
    return open;
}

void peer_wait_open(struct peer *peer, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    peer_lock(peer);
    bool more = true;
    while (peer_open_connections(peer) != count && more)
        more = change_wait(peer, until);
    peer_unlock(peer);
    if (peer_open_connections(peer) != count)
        fail_msg("the peer has %zu open connections, and waited for %zu", peer_open_connections(peer), count);
}

void peer_wait_gone(struct peer *peer, const char *stream)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    peer_lock(peer);
    bool more = true;
    while (peer_publishers(peer, stream) + peer_subscriptions(peer, stream) > 0 && more)
        more = change_wait(peer, until);
    size_t publishers = peer_publishers(peer, stream), subscriptions = peer_subscriptions(peer, stream);
    peer_unlock(peer);
    if (publishers + subscriptions > 0)
        fail_msg("stream '%s' still has %zu publishers and %zu subscriptions", stream, publishers, subscriptions);
}
