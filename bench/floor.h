/* floor.h: the yardstick. The least that a process can do to use a stream: plain sockets, frames laid out in memory beforehand,
 * no library. Every confirmed id is looked at, every byte of a chunk is received and its credit returned.
 *
 * Each command prints one JSON object. Two threads at most: the main one publishes and reads confirms, the other consumes.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "measure.h"
#include "stream_wire.h"

enum {
    SMALLEST_BODY = 8, /* holds a creation time */
    LARGEST_BODY = 255,
};

struct confirms {
    uint64_t count;
    uint64_t id_sum;
};

/* Ends the program unless options->size is a body that fits a short data section and holds a time. */
void check_size(const struct options *options);

/* Bytes of one entry of a Publish frame. */
static inline size_t entry_size(size_t body)
{
    return ENTRY_HEADER + DATA_SECTION + body;
}

/* One Publish frame with `count` entries, ids from `id` on, bodies of `body` bytes; returns its end. */
uint8_t *put_publish(uint8_t *p, uint64_t id, size_t count, size_t body);

/* Takes the confirms that have arrived, in one system call. False when that is nothing. */
bool receive_confirms(struct wire *w, struct confirms *confirms);

/* Confirmed messages a second with at most `window` (10,000) unconfirmed, in frames of `frame` (1,000). */
void floor_publish(const struct options *options);

/* Makes the stream that the replays read. It is published with 40,000 messages under way: then the broker writes chunks of
 * 8,192 messages, its largest, and does not yet stop reading, as it does at 50,000. */
void floor_fill(const struct options *options);
void floor_delete(const struct options *options);

/* Creation to hand-over: bursts, each in one write; or one message at a time. */
void floor_latency(const struct options *options);
void floor_single(const struct options *options);

/* Messages a second of a stream that is read from its beginning, without a look inside the chunks. `replay` drops bytes as they
 * come; `replay-whole` has each chunk in one piece in memory before it counts, as anyone needs it who wants to look inside. */
void floor_replay(const struct options *options);
void floor_replay_whole(const struct options *options);

#endif
