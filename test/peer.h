/* peer.h: a scripted stream broker on a loopback port, in a thread of the test's process: bytes in, bytes out.
 *
 * It answers like a broker everything that a script does not take over, and keeps all that it received. A rule says what
 * happens to one command instead: an error code, silence, a cut, a hold until released, a function. On top the test can
 * push frames, chunks and raw bytes at any moment, stop reading, stop answering, cut, close its port and open it again.
 *
 *     struct peer *peer = peer_start();
 *     peer_answer(peer, STREAM_CREATE, PEER_EVERY, STREAM_CODE_STREAM_EXISTS);
 *     coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, NULL);
 *     …
 *     const struct peer_record *create = peer_expect(peer, STREAM_CREATE);
 *     assert_true(bytes_equal(create->frame.create.stream, CONEY_STR("s")));
 *     peer_stop(&peer);
 *
 * Any thread may call anything here; the `peer_expect` family is for the test's thread, since it can fail the test. Records
 * and what they point to live until peer_stop. A frame that no client may send makes peer_stop fail the test, unless
 * peer_allow_nonsense was called.
 */
#ifndef CONEY_TEST_PEER_H
#define CONEY_TEST_PEER_H

#include "burrow.h"
#include "proto/stream/chunk.h"
#include "proto/stream/codec.h"

struct peer;

enum { PEER_NO_LEADER = -1, PEER_MESSAGE_BYTES = 64 };

/* One frame that arrived. */
struct peer_record {
    int connection;            /* 0 is the first that was accepted */
    int64_t at;                /* now_ms */
    coney_bytes bytes;         /* without the size field */
    const char *wrong;         /* NULL, or the field at which it could not be decoded */
    struct stream_frame frame; /* views of `bytes`; with `wrong` only key, version and response are set */
};

/* One message that arrived in a Publish. */
struct peer_message {
    int connection;
    uint8_t publisher;
    uint64_t id;
    const char *stream;
    const char *reference; /* "" without a name */
    coney_bytes entry;
    coney_bytes body; /* of a message that is one data section */
    bool duplicate;   /* confirmed, but not stored: its id was not above the last one under that reference */
    bool settled;     /* a confirm or an error went out */
};

struct peer_node {
    const char *host;
    uint16_t port;
};

/* Life ----------------------------------------------------------------------------------------------------------- */

/* Listens on 127.0.0.1, or on another numeric address, at a free port. Never NULL: a failure fails the test. */
struct peer *peer_start(void);
struct peer *peer_start_on(const char *host);

/* Ends its thread, closes everything, frees. NULL there is harmless. */
void peer_stop(struct peer **peer);

uint16_t peer_port(const struct peer *peer);

/* "rabbitmq-stream://127.0.0.1:PORT", and "127.0.0.1:PORT". */
const char *peer_uri(const struct peer *peer);
const char *peer_address(const struct peer *peer);

/* How it answers ------------------------------------------------------------------------------------------------- */

/* Rules: `nth` counts commands with this key from the moment of the call, 1 = the next one, PEER_EVERY = all. The youngest
 * rule that matches wins. */

/* Answers with this code and nothing behind it. */
void peer_answer(struct peer *peer, uint16_t key, int nth, uint16_t code);

/* Never answers. */
void peer_ignore(struct peer *peer, uint16_t key, int nth);

/* Cuts the connection that it came on, without an answer. */
void peer_cut_at(struct peer *peer, uint16_t key, int nth, enum peer_cut how);

/* Keeps the command back until peer_release, which then treats it by default. Other commands are answered meanwhile. */
void peer_hold(struct peer *peer, uint16_t key, int nth);

/* Sends these bytes instead of an answer (they are copied). */
void peer_raw_at(struct peer *peer, uint16_t key, int nth, coney_bytes bytes);

/* Calls a function on the peer's thread, which may use every function here that does not wait. True: it has dealt with it. */
typedef bool (*peer_fn)(void *ctx, struct peer *peer, const struct peer_record *record);
void peer_call_at(struct peer *peer, uint16_t key, int nth, peer_fn fn, void *ctx);

/* Forgets all rules of this key. */
void peer_by_default(struct peer *peer, uint16_t key);

/* Treats held commands with this key by default, in their order, and forgets its rules. */
void peer_release(struct peer *peer, uint16_t key);

void peer_allow_nonsense(struct peer *peer);

/* What it says of itself: peer properties "version" (default "4.0.0"; with 4.3 it knows ResolveOffsetSpec), Tune's proposal
 * (default 1 MiB, 60 s). */
void peer_set_version(struct peer *peer, const char *version);
void peer_set_tune(struct peer *peer, uint32_t frame_max, uint32_t heartbeat);

/* What Metadata, DeclarePublisher and Subscribe say about a stream: default STREAM_CODE_OK for every name. */
void peer_set_stream(struct peer *peer, const char *stream, uint16_t code);

/* The nodes of Metadata (at most 8): `leader` is an index or PEER_NO_LEADER, the others are replicas. Default: itself. */
void peer_set_nodes(struct peer *peer, const struct peer_node *nodes, size_t count, int leader);

/* The name under which Open's answer presents this node. Default: the address that it listens on. */
void peer_set_advertised(struct peer *peer, const char *host, uint16_t port);

/* What QueryPublisherSequence answers for a reference, as if it had published before. */
void peer_set_sequence(struct peer *peer, const char *stream, const char *reference, uint64_t sequence);

/* What QueryOffset answers (default: no offset). StoreOffset sets it, too. */
void peer_set_offset(struct peer *peer, const char *stream, const char *reference, uint64_t offset);

/* The offset that ResolveOffsetSpec answers. */
void peer_set_resolved(struct peer *peer, uint64_t offset);

/* Runs `fn` every `ms` on the peer's thread; `ms` 0 ends that. One at a time. */
void peer_every(struct peer *peer, int64_t ms, void (*fn)(void *ctx, struct peer *peer), void *ctx);

/* Publishing ----------------------------------------------------------------------------------------------------- */

/* Confirms every Publish at once by default. By hand: only peer_confirm does. */
void peer_confirm_by_hand(struct peer *peer, bool by_hand);

/* Confirms the next `count` unsettled messages of live publishers, in order; gives how many there were. */
size_t peer_confirm(struct peer *peer, size_t count);

/* The same, as PublishError with this code. */
size_t peer_refuse(struct peer *peer, size_t count, uint16_t code);

/* One PublishConfirm with these ids as they stand, marking nothing. */
void peer_confirm_ids(struct peer *peer, int connection, uint8_t publisher, const uint64_t *ids, size_t count);

/* Everything that arrived, in order. */
size_t peer_message_count(struct peer *peer);
struct peer_message peer_message_of(struct peer *peer, size_t n);

/* Waits until so many messages have arrived; fails the test otherwise. */
void peer_wait_messages(struct peer *peer, size_t count);

/* Consuming ------------------------------------------------------------------------------------------------------ */

struct peer_chunk {
    uint64_t first;
    int64_t timestamp;          /* default 1700000000000 */
    uint64_t committed;         /* for Deliver version 2 */
    const coney_bytes *entries; /* encoded; NULL: the texts "m<offset>", each as a data section */
    size_t count;
    bool wrong_crc;
};

/* Sends a chunk to the youngest live subscription of the stream, whether it has credit or not; false when there is none. */
bool peer_deliver_chunk(struct peer *peer, const char *stream, const struct peer_chunk *chunk);

/* The messages "m<first>" … in one chunk. Fails the test when nobody is subscribed. */
void peer_deliver(struct peer *peer, const char *stream, uint64_t first, size_t count);

/* A Deliver around these bytes. */
bool peer_deliver_bytes(struct peer *peer, const char *stream, coney_bytes chunk);

/* Sends chunks of `count` messages from offset `first` as fast as credit allows, `chunks` of them, to the youngest
 * subscription; begins again at the asked offset when somebody subscribes anew with one. */
void peer_feed(struct peer *peer, const char *stream, uint64_t first, size_t count, size_t chunks);

/* What credit the youngest live subscription has left: what was given less what was delivered. INT64_MIN: nobody there. */
int64_t peer_credit(struct peer *peer, const char *stream);

/* Live subscriptions and publishers of a stream. */
size_t peer_subscriptions(struct peer *peer, const char *stream);
size_t peer_publishers(struct peer *peer, const char *stream);

/* Waits until the stream has neither; fails the test otherwise. */
void peer_wait_gone(struct peer *peer, const char *stream);

/* The connection of the youngest live subscription or publisher of the stream, or -1. */
int peer_consumer_connection(struct peer *peer, const char *stream);
int peer_producer_connection(struct peer *peer, const char *stream);

/* Pushing -------------------------------------------------------------------------------------------------------- */

void peer_send(struct peer *peer, int connection, const struct stream_frame *frame);

/* The answer to a record with `code` and what else `answer` holds (key, correlation and response are filled in). */
void peer_send_answer(struct peer *peer, const struct peer_record *record, uint16_t code, struct stream_frame answer);

void peer_send_bytes(struct peer *peer, int connection, coney_bytes bytes);
void peer_send_heartbeat(struct peer *peer, int connection);

/* Treats a record as if there were no rules. */
void peer_treat(struct peer *peer, const struct peer_record *record);

/* MetadataUpdate to every connection that publishes to or consumes from the stream, whose entities there are gone then. */
void peer_lose_stream(struct peer *peer, const char *stream, uint16_t code);

/* Close from the server. */
void peer_send_close(struct peer *peer, int connection, uint16_t code, const char *reason);

/* Faults --------------------------------------------------------------------------------------------------------- */

void peer_cut(struct peer *peer, int connection, enum peer_cut how);

/* Like SIGSTOP: nothing is accepted, read, treated or written while it holds. */
void peer_freeze(struct peer *peer, bool frozen);

/* Accepts and reads, but treats nothing and says nothing, on connections that come from now on. */
void peer_accept_mute(struct peer *peer, bool mute);

/* Reads nothing from a connection. */
void peer_stop_reading(struct peer *peer, int connection, bool stopped);

/* Closes the port and cuts every connection; and opens the same port again. */
void peer_go_down(struct peer *peer, enum peer_cut how);
void peer_come_up(struct peer *peer);

/* What arrived --------------------------------------------------------------------------------------------------- */

/* The next command with this key that no peer_expect gave before; fails the test when none comes. */
const struct peer_record *peer_expect(struct peer *peer, uint16_t key);

/* The same within `ms`, or NULL. */
const struct peer_record *peer_wait_for(struct peer *peer, uint16_t key, int64_t ms);

/* Commands with this key so far, answers not counted; and the n-th of them, or NULL. */
size_t peer_count(struct peer *peer, uint16_t key);
const struct peer_record *peer_record_of(struct peer *peer, uint16_t key, size_t n);

/* Waits for the count; fails the test otherwise. */
void peer_wait_count(struct peer *peer, uint16_t key, size_t count);
bool peer_reaches_count(struct peer *peer, uint16_t key, size_t count, int64_t ms);

/* Connections accepted so far, and those that are open. */
size_t peer_accepted(struct peer *peer);
size_t peer_open_connections(struct peer *peer);

/* Waits until so many are open; fails the test otherwise. */
void peer_wait_open(struct peer *peer, size_t count);

/* Chunks --------------------------------------------------------------------------------------------------------- */

/* CRC-32 as zlib computes it, bit by bit. */
uint32_t peer_crc(coney_bytes data);

/* A whole chunk in memory that the caller frees. */
uint8_t *peer_make_chunk(const struct peer_chunk *chunk, size_t *len);

#endif
