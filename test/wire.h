/* wire.h: a client of a real node made by hand: one frame at a time over a blocking socket, through the codec. For what no
 * client of ours sends: entries that are not AMQP, sub-entry batches.
 *
 *     struct wire wire;
 *     wire_open(&wire, node.stream_port);
 *     wire_publish(&wire, stream, entries, 3);
 *     wire_close(&wire);
 *
 * For one thread. What fails fails the test.
 */
#ifndef CONEY_TEST_WIRE_H
#define CONEY_TEST_WIRE_H

#include "proto/stream/codec.h"

struct wire {
    int fd;
    uint32_t correlation;
    uint8_t frame[65536]; /* the last one that arrived */
};

/* Connects to 127.0.0.1 and logs in as guest, to the virtual host "/". */
void wire_open(struct wire *wire, uint16_t port);
void wire_close(struct wire *wire);

/* Sends a command, with a correlation id of its own. */
void wire_send(struct wire *wire, struct stream_frame *frame);

/* The next frame with this key; others are passed over. It must say OK, where it has a code. Views live until the next call. */
struct stream_frame wire_expect(struct wire *wire, uint16_t key);

/* Declares a publisher, publishes the entries in one frame, waits until all are confirmed, and deletes the publisher. */
void wire_publish(struct wire *wire, const char *stream, const struct stream_entry *entries, size_t count);

/* A message as it stands. */
struct stream_entry wire_entry(coney_bytes data);

/* A batch of `records` messages; `data` holds each behind its length, and `compression` is what it claims to be. */
struct stream_entry wire_batch(coney_bytes data, uint16_t records, uint8_t compression);

#endif
