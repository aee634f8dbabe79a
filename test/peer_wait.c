/* What tests wait for: the log of a stream broker, its counts and its messages. */
#define _GNU_SOURCE
#include "peer_internal.h"

static const struct peer_record *record_of(const struct burrow_entry *entry)
{
    return entry != NULL ? &((const struct entry *)entry)->record : NULL;
}

const struct peer_record *peer_wait_for(struct peer *peer, uint16_t key, int64_t ms)
{
    return record_of(burrow_wait_for(&peer->burrow, key, ms));
}

const struct peer_record *peer_expect(struct peer *peer, uint16_t key)
{
    return record_of(burrow_expect(&peer->burrow, key));
}

size_t peer_count(struct peer *peer, uint16_t key)
{
    return burrow_count(&peer->burrow, key);
}

const struct peer_record *peer_record_of(struct peer *peer, uint16_t key, size_t n)
{
    return record_of(burrow_nth(&peer->burrow, key, n));
}

bool peer_reaches_count(struct peer *peer, uint16_t key, size_t count, int64_t ms)
{
    return burrow_reaches_count(&peer->burrow, key, count, ms);
}

void peer_wait_count(struct peer *peer, uint16_t key, size_t count)
{
    burrow_wait_count(&peer->burrow, key, count);
}

void peer_wait_messages(struct peer *peer, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    burrow_lock(&peer->burrow);
    bool more = true;
    while (peer->message_count < count && more)
        more = burrow_wait(&peer->burrow, until);
    size_t got = peer->message_count;
    burrow_unlock(&peer->burrow);
    if (got < count)
        fail_msg("the peer has got %zu messages, and waited for %zu", got, count);
}

size_t peer_accepted(struct peer *peer)
{
    return burrow_accepted(&peer->burrow);
}

size_t peer_open_connections(struct peer *peer)
{
    return burrow_open_connections(&peer->burrow);
}

void peer_wait_open(struct peer *peer, size_t count)
{
    burrow_wait_open(&peer->burrow, count);
}

void peer_wait_gone(struct peer *peer, const char *stream)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    burrow_lock(&peer->burrow);
    bool more = true;
    while (peer_publishers(peer, stream) + peer_subscriptions(peer, stream) > 0 && more)
        more = burrow_wait(&peer->burrow, until);
    size_t publishers = peer_publishers(peer, stream), subscriptions = peer_subscriptions(peer, stream);
    burrow_unlock(&peer->burrow);
    if (publishers + subscriptions > 0)
        fail_msg("stream '%s' still has %zu publishers and %zu subscriptions", stream, publishers, subscriptions);
}
