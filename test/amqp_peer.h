/* amqp_peer.h: a scripted AMQP 0-9-1 broker on a loopback port, in a thread of the test's process: bytes in, bytes out.
 *
 * It answers like a broker everything that a script does not take over, and keeps all that it received. A rule says what happens to one
 * method instead: a refusal, silence, a cut, a hold until released, a function. On top the test can push methods, messages and raw bytes at
 * any moment, stop reading, stop answering, cut, close its port and open it again. peer.h is the same for streams.
 *
 *     struct amqp_peer *peer = amqp_peer_start();
 *     amqp_peer_refuse(peer, AMQP_QUEUE_DECLARE, PEER_EVERY, AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - inequivalent arg");
 *     coney_amqp *rabbit = coney_amqp_open(amqp_peer_uri(peer), NULL, NULL);
 *     …
 *     const struct amqp_peer_record *declare = amqp_peer_expect(peer, AMQP_QUEUE_DECLARE);
 *     assert_true(bytes_equal(declare->method.queue_declare.queue, CONEY_STR("q")));
 *     amqp_peer_stop(&peer);
 *
 * Any thread may call anything here; the `amqp_peer_expect` family is for the test's thread, since it can fail the test. Records and what they
 * point to live until amqp_peer_stop. What no client may send (a frame that cannot be read, a method on a channel that is not open, content out of
 * order, an ack of nothing) makes amqp_peer_stop fail the test, unless amqp_peer_allow_nonsense was called.
 */
#ifndef CONEY_TEST_AMQP_PEER_H
#define CONEY_TEST_AMQP_PEER_H

#include "burrow.h"
#include "proto/amqp091/codec.h"

struct amqp_peer;

/* Keys of what is no method. All other keys are of enum amqp_method_id. */
enum { AMQP_PEER_GREETING = 1, AMQP_PEER_HEARTBEAT = 2, AMQP_PEER_CONTENT = 3 };

/* One frame that arrived, or the eight bytes that a client begins with. */
struct amqp_peer_record {
    int connection; /* 0 is the first that was accepted */
    uint16_t channel;
    int64_t at;                /* now_ms */
    coney_bytes bytes;         /* all of it */
    const char *wrong;         /* NULL, or why no client may send it */
    struct amqp_method method; /* of a method that can be read; views of `bytes` */
};

/* One message that was published. */
struct amqp_peer_message {
    int connection;
    uint16_t channel;
    uint64_t tag; /* its number on a channel with confirms, from 1; else 0 */
    coney_bytes exchange;
    coney_bytes routing_key;
    bool mandatory;
    coney_bytes properties; /* flags first, for amqp_properties_read */
    coney_bytes body;
    bool settled; /* an ack, a nack or a close went out */
};

/* What became of a delivery. */
enum amqp_peer_fate { AMQP_PEER_OUT, AMQP_PEER_ACKED, AMQP_PEER_REJECTED, AMQP_PEER_REQUEUED, AMQP_PEER_FATES };

struct amqp_peer_place {
    int connection; /* -1: there is none */
    uint16_t channel;
};

/* Life ----------------------------------------------------------------------------------------------------------- */

/* Listens on 127.0.0.1 at a free port. Never NULL: a failure fails the test. */
struct amqp_peer *amqp_peer_start(void);

/* Ends its thread, closes everything, frees. NULL there is harmless. */
void amqp_peer_stop(struct amqp_peer **peer);

uint16_t amqp_peer_port(const struct amqp_peer *peer);

/* "amqp://127.0.0.1:PORT", and "127.0.0.1:PORT". */
const char *amqp_peer_uri(const struct amqp_peer *peer);
const char *amqp_peer_address(const struct amqp_peer *peer);

void amqp_peer_allow_nonsense(struct amqp_peer *peer);

/* How it answers ------------------------------------------------------------------------------------------------- */

/* Rules: `nth` counts what arrives with this key from the moment of the call, 1 = the next one, PEER_EVERY = all. The youngest rule that
 * matches wins. A rule for AMQP_BASIC_PUBLISH is applied when the message is whole. */

/* Closes the channel with a soft code, the connection with a hard one, or when it came on channel 0. */
void amqp_peer_refuse(struct amqp_peer *peer, uint32_t key, int nth, uint16_t code, const char *text);

/* Never answers. */
void amqp_peer_ignore(struct amqp_peer *peer, uint32_t key, int nth);

/* Cuts the connection that it came on, without an answer. */
void amqp_peer_cut_at(struct amqp_peer *peer, uint32_t key, int nth, enum peer_cut how);

/* Keeps it back until amqp_peer_release, which then treats it by default. Others are answered meanwhile. */
void amqp_peer_hold(struct amqp_peer *peer, uint32_t key, int nth);
void amqp_peer_release(struct amqp_peer *peer, uint32_t key);

/* Sends these bytes instead of an answer (they are copied). */
void amqp_peer_raw_at(struct amqp_peer *peer, uint32_t key, int nth, coney_bytes bytes);

/* Calls a function on the peer's thread, which may use every function here that does not wait. True: it has dealt with it. */
typedef bool (*amqp_peer_fn)(void *ctx, struct amqp_peer *peer, const struct amqp_peer_record *record);
void amqp_peer_call_at(struct amqp_peer *peer, uint32_t key, int nth, amqp_peer_fn fn, void *ctx);

/* Forgets all rules of this key. */
void amqp_peer_by_default(struct amqp_peer *peer, uint32_t key);

/* Treats a record as if there were no rules. */
void amqp_peer_treat(struct amqp_peer *peer, const struct amqp_peer_record *record);

/* What it says of itself: version (default "4.1.2"), mechanisms ("PLAIN AMQPLAIN EXTERNAL ANONYMOUS"), tune's proposal (2047 channels, 128 KiB,
 * 60 s). NULL leaves a text as it is. */
void amqp_peer_set_start(struct amqp_peer *peer, const char *version, const char *mechanisms);
void amqp_peer_set_tune(struct amqp_peer *peer, uint16_t channel_max, uint32_t frame_max, uint16_t heartbeat);

/* Pushing -------------------------------------------------------------------------------------------------------- */

void amqp_peer_send(struct amqp_peer *peer, int connection, uint16_t channel, const struct amqp_method *method);
void amqp_peer_send_bytes(struct amqp_peer *peer, int connection, coney_bytes bytes);
void amqp_peer_send_heartbeat(struct amqp_peer *peer, int connection);

/* A method with its content. `properties` is encoded, flags first; empty: none. The body goes in frames of `piece` bytes (0: as large as was
 * agreed). */
void amqp_peer_send_content(struct amqp_peer *peer, int connection, uint16_t channel, const struct amqp_method *method,
                            coney_bytes properties, coney_bytes body, size_t piece);

/* channel.close (whose consumers and deliveries are gone then), connection.close, basic.cancel, basic.return of a message. */
void amqp_peer_close_channel(struct amqp_peer *peer, struct amqp_peer_place place, uint16_t code, const char *text);
void amqp_peer_close(struct amqp_peer *peer, int connection, uint16_t code, const char *text);
void amqp_peer_cancel(struct amqp_peer *peer, const char *queue);
void amqp_peer_return(struct amqp_peer *peer, const struct amqp_peer_message *message, uint16_t code, const char *text);

/* Publishing ----------------------------------------------------------------------------------------------------- */

/* Confirms every message at once by default, on a channel with confirms. By hand: only what follows does. */
void amqp_peer_confirm_by_hand(struct amqp_peer *peer, bool by_hand);

/* Acks the next `count` unsettled messages of live channels, in order and singly; gives how many there were. */
size_t amqp_peer_confirm(struct amqp_peer *peer, size_t count);

/* One ack or nack as it stands, marking nothing. */
void amqp_peer_ack(struct amqp_peer *peer, struct amqp_peer_place place, uint64_t tag, bool multiple);
void amqp_peer_nack(struct amqp_peer *peer, struct amqp_peer_place place, uint64_t tag, bool multiple);

/* Everything that arrived, in order; waits until so many have, and fails the test otherwise. */
size_t amqp_peer_message_count(struct amqp_peer *peer);
struct amqp_peer_message amqp_peer_message_of(struct amqp_peer *peer, size_t n);
void amqp_peer_wait_messages(struct amqp_peer *peer, size_t count);

/* The youngest channel with confirms, or transactions. */
struct amqp_peer_place amqp_peer_publisher(struct amqp_peer *peer);

/* Consuming ------------------------------------------------------------------------------------------------------ */

/* Sends "m<number>" to the youngest live consumer of the queue, whatever its prefetch; fails the test when nobody is there. */
void amqp_peer_deliver(struct amqp_peer *peer, const char *queue, uint64_t first, size_t count);

/* Any message, in frames of `piece` bytes; false when nobody is there. */
bool amqp_peer_deliver_content(struct amqp_peer *peer, const char *queue, coney_bytes properties, coney_bytes body,
                               size_t piece);

/* The queue holds "m0" … "m<count - 1>": they go to its youngest consumer as its prefetch allows, and come again when they were not settled. */
void amqp_peer_feed(struct amqp_peer *peer, const char *queue, size_t count);

/* How many messages of the feed are settled for good, acked or rejected; how often one was acked. */
size_t amqp_peer_feed_done(struct amqp_peer *peer);
unsigned amqp_peer_feed_acks(struct amqp_peer *peer, size_t number);
void amqp_peer_wait_feed_done(struct amqp_peer *peer, size_t count);

/* How many deliveries ended like this, or are out, over all channels there were; waits for a count, and fails the test otherwise. */
size_t amqp_peer_deliveries(struct amqp_peer *peer, enum amqp_peer_fate fate);
void amqp_peer_wait_deliveries(struct amqp_peer *peer, enum amqp_peer_fate fate, size_t count);

/* The youngest live consumer of the queue; how many it has. */
struct amqp_peer_place amqp_peer_consumer(struct amqp_peer *peer, const char *queue);
size_t amqp_peer_consumers(struct amqp_peer *peer, const char *queue);
void amqp_peer_wait_consumers(struct amqp_peer *peer, const char *queue, size_t count);

/* Faults --------------------------------------------------------------------------------------------------------- */

void amqp_peer_cut(struct amqp_peer *peer, int connection, enum peer_cut how);

/* Like SIGSTOP: nothing is accepted, read, treated or written while it holds. */
void amqp_peer_freeze(struct amqp_peer *peer, bool frozen);

/* Accepts and reads, but treats nothing and says nothing, on connections that come from now on. */
void amqp_peer_accept_mute(struct amqp_peer *peer, bool mute);

/* Reads nothing from a connection. */
void amqp_peer_stop_reading(struct amqp_peer *peer, int connection, bool stopped);

/* Closes the port and cuts every connection; and opens the same port again. */
void amqp_peer_go_down(struct amqp_peer *peer, enum peer_cut how);
void amqp_peer_come_up(struct amqp_peer *peer);

/* Writes at most so many bytes at a time; 0 = as many as there are. */
void amqp_peer_chop(struct amqp_peer *peer, size_t bytes);

/* Changes, by exclusive or, the n-th byte that is sent from now on, 1 = the next one. 0: none. */
void amqp_peer_corrupt(struct amqp_peer *peer, size_t nth, uint8_t by);

/* Sends every connection a heartbeat every `ms`; 0 ends that. */
void amqp_peer_beat(struct amqp_peer *peer, int64_t ms);

/* What arrived --------------------------------------------------------------------------------------------------- */

/* The next one with this key that no amqp_peer_expect gave before; fails the test when none comes. */
const struct amqp_peer_record *amqp_peer_expect(struct amqp_peer *peer, uint32_t key);

/* The same within `ms`, or NULL. */
const struct amqp_peer_record *amqp_peer_wait_for(struct amqp_peer *peer, uint32_t key, int64_t ms);

/* How many came with this key so far; the n-th of them, or NULL. */
size_t amqp_peer_count(struct amqp_peer *peer, uint32_t key);
const struct amqp_peer_record *amqp_peer_record_of(struct amqp_peer *peer, uint32_t key, size_t n);

/* Waits for the count; fails the test otherwise. */
void amqp_peer_wait_count(struct amqp_peer *peer, uint32_t key, size_t count);
bool amqp_peer_reaches_count(struct amqp_peer *peer, uint32_t key, size_t count, int64_t ms);

/* The names of the methods that came on a channel (PEER_ALL: on all) of a connection, in their order, with blanks between. */
void amqp_peer_story(struct amqp_peer *peer, int connection, int channel, char *out, size_t cap);

/* Connections accepted so far, and those that are open; waits until so many are. */
size_t amqp_peer_accepted(struct amqp_peer *peer);
size_t amqp_peer_open_connections(struct amqp_peer *peer);
void amqp_peer_wait_open(struct amqp_peer *peer, size_t count);

/* The youngest live connection whose name ends in this: "control", "publish", "consume". -1: there is none. */
int amqp_peer_connection(struct amqp_peer *peer, const char *purpose);

/* Channels that are open on all connections. */
size_t amqp_peer_channels(struct amqp_peer *peer);

#endif
