/* link.h: one connection to one broker node: resolve, connect, read frames, write control bytes and bulk data.
 *
 * Knows no protocol: how long a frame is, the owner says. Belongs to a loop; every function and callback runs on it. With TLS
 * settings every byte goes through TLS, or the link goes down.
 *
 * Reading: bytes go into pool blocks and each whole frame is handed over as a view of its block, which the receiver may keep by
 * block_ref. A frame that does not fit its block moves to a larger one; how much is taken on a size field's word follows from
 * the largest frame that really arrived before (twice that, 64 KiB at first), so that a lying peer costs no memory. A link that
 * waits between two frames holds no block.
 *
 * Writing: two kinds. Control bytes (requests, credits, heartbeats) are copied into a queue. Bulk data stays where it is: when
 * the socket can take more, the link asks its owner for slices and writes control bytes first, then the slices, in one writev.
 * Writes are gathered over a round of the loop (loop_defer). Nothing raises SIGPIPE.
 */
#ifndef CONEY_NET_LINK_H
#define CONEY_NET_LINK_H

#include "base/pool.h"
#include "net/loop.h"
#include "net/tls.h"

#include <sys/uio.h>

#define LINK_SLICES 64             /* iovecs that the owner may fill at a time */
#define LINK_CONTROL_MAX (4 << 20) /* control bytes queued at most; more is a peer that does not read: the link goes down */

struct link;

struct link_owner {
    /* How long is the frame that starts here, all of it? `have` is at least 1. 0: not enough bytes to say.
     * SIZE_MAX: this is no frame; the owner has put a text for link_down into `error`. */
    size_t (*frame_size)(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap);

    /* TCP is connected, and TLS agreed where it was asked for. */
    void (*on_open)(void *ctx);

    /* One whole frame, `at` inside `block`. May call anything on the link, link_close included (then nothing follows). */
    void (*on_frame)(void *ctx, struct block *block, const uint8_t *at, size_t len);

    /* All frames of one read were handed over. */
    void (*on_read_end)(void *ctx);

    /* The socket can take bulk data: fill at most `cap` slices and return how many; 0 = nothing now (link_want_write asks
     * again). The memory stays untouched until on_written. Not called again before that. */
    size_t (*fill)(void *ctx, struct iovec *slices, size_t cap);

    /* Every byte of the last fill is with the kernel, or inside TLS. */
    void (*on_written)(void *ctx);

    /* It is over, or never began: CONEY_ERESOLVE, CONEY_ECONNECT, CONEY_ETIMEDOUT (connect), CONEY_ELOST (end of file,
     * reset), CONEY_ETLS, CONEY_EPROTOCOL (frame_size said so), CONEY_ELIMIT, CONEY_ENOMEM. Called once, last, and not after
     * link_close. The socket is closed; slices of an unfinished fill are the owner's again. The owner still calls link_close
     * to free the link. */
    void (*on_down)(void *ctx, coney_status status, const char *text);
};

struct link_options {
    const char *host;
    uint16_t port;
    int64_t connect_timeout;        /* nanoseconds for each address that the name resolves to, TLS included */
    const struct tls_settings *tls; /* must outlive the link; NULL = plain */
};

/* Starts connecting; the callbacks come later, never from inside. The host name is copied. All results of the resolver are
 * tried in turn. NULL when memory is out. */
struct link *link_open(coney_loop *loop, struct pool *pool, const struct link_options *options, const struct link_owner *owner,
                       void *ctx);

/* Queues control bytes (copied). They leave at the end of the round, before bulk data. Harmless on a link that is down.
 * When LINK_CONTROL_MAX is passed the link goes down (on_down comes from the loop's next round). */
void link_write(struct link *link, const void *data, size_t len);

/* There is bulk data to be asked for: `fill` is called at the end of the round, or as soon as the socket can take it. */
void link_want_write(struct link *link);

/* The rest of a fill that is under way is copied, so that the owner's slices are its own again at once; on_written comes all
 * the same. Harmless when nothing is being written. When memory is out the link goes down (on_down comes from the loop's
 * next round). */
void link_copy_fill(struct link *link);

/* Stops reading (the owner has as much as it can hold), or goes on. Bytes at hand are handed over first when it goes on. */
void link_pause_reading(struct link *link, bool pause);

/* Bytes read and written so far: a heartbeat timer compares two values instead of reading a clock for each frame. */
uint64_t link_bytes_in(const struct link *link);
uint64_t link_bytes_out(const struct link *link);

/* True while bytes wait for the socket: a peer that does not read now. */
bool link_is_blocked(const struct link *link);

/* True from on_open until it is over. */
bool link_is_open(const struct link *link);

/* "host:port" as it was asked for; for texts. */
const char *link_name(const struct link *link);

/* Ends the link and frees it, at once, from anywhere on the loop, its own callbacks included. `flush`: control bytes queued
 * so far are offered to the socket once, without waiting. No callback follows. *link becomes NULL; NULL there is harmless. */
void link_close(struct link **link, bool flush);

#endif
