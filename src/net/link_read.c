/* link_read.c: bytes into blocks, frames out of them.
 *
 * A block is twice as large as the usual frame, and a read ends where one more such frame would still fit: so a frame that begins in
 * a block ends in it, and is copied only when it is larger than what was usual. A larger frame gets a block of its size once as large
 * a one, or half as large, has really arrived; before that, blocks double as its bytes come in.
 */
#include "net/link_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define USUAL_LEAST ((size_t)24 << 10)
#define USUAL_MOST ((size_t)2 << 20)
#define FIRST_TRUST (((size_t)64 << 10) - sizeof(struct block))
#define BUDGET ((size_t)1 << 20) /* bytes that one link reads in a round */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t usual_frame(const struct link *link)
{
    return smaller(larger(link->largest, USUAL_LEAST), USUAL_MOST);
}

/* How much of the frame at `start` room is made for: all of it, as far as its size field is believed. */
static size_t believed_frame(const struct link *link)
{
    size_t have = link->end - link->start;
    return smaller(link->need, larger(FIRST_TRUST, 2 * larger(link->largest, have)));
}

/* Goes on in a block of at least `size`, with the beginning of a frame that has arrived. */
static bool move_to_block(struct link *link, size_t size)
{
    struct block *block = block_get(link->pool, size);
    if (block == NULL) {
        link_fail(link, CONEY_ENOMEM, "no memory for a frame of %zu bytes: free some, or lower the credit", size);
        return false;
    }
    size_t have = link->end - link->start;
    if (have > 0)
        memcpy(block->data, link->block->data + link->start, have);
    block_unref(link->block);
    link->block = block;
    link->start = 0;
    link->end = have;
    return true;
}

/* Makes room and returns how many bytes to read at block->data + end; 0 when the link went down. */
static size_t make_room(struct link *link)
{
    size_t usual = usual_frame(link);
    size_t frame = believed_frame(link);
    bool between = link->start == link->end;
    if (link->block != NULL && between && atomic_load_explicit(&link->block->refs, memory_order_acquire) == 1)
        link->start = link->end = 0;
    bool fits = link->block != NULL && link->end < link->block->cap && link->start + frame <= link->block->cap &&
                (!between || link->end + usual < link->block->cap);
    if (!fits && !move_to_block(link, larger(2 * usual, frame)))
        return 0;
    size_t next_fits = link->block->cap > usual ? link->block->cap - usual : 0;
    size_t until = larger(link->start + frame, next_fits);
    return (until > link->end ? until : link->block->cap) - link->end;
}

/* Hands over the whole frames at hand; false when the link went down or was paused. */
static bool hand_over(struct link *link)
{
    bool any = false;
    link->need = 0;
    while (link->start < link->end && !link->paused && link->state == LINK_OPEN) {
        const uint8_t *at = link->block->data + link->start;
        size_t have = link->end - link->start;
        char error[256];
        error[0] = '\0';
        size_t size = link->owner->frame_size(link->ctx, at, have, error, sizeof error);
        if (size == SIZE_MAX) {
            link_fail(link, CONEY_EPROTOCOL, "%s", error);
            return false;
        }
        if (size == 0 || size > have) {
            link->need = size;
            break;
        }
        link->start += size;
        link->largest = larger(link->largest, size);
        any = true;
        link->owner->on_frame(link->ctx, link->block, at, size);
    }
    if (any && link->state == LINK_OPEN)
        link->owner->on_read_end(link->ctx);
    return link->state == LINK_OPEN && !link->paused;
}

static void end_of_input(struct link *link, int error)
{
    if (link->broken != 0 && error != EPROTO)
        link_fail_errno(link, link->broken);
    else if (error != 0)
        link_fail_errno(link, error);
    else if (link->bytes_in == 0 && link->tls == NULL)
        link_fail(link, CONEY_ELOST,
                  "the peer closed the connection without a word: is this the right port, and does it expect TLS?");
    else
        link_fail(link, CONEY_ELOST, "the peer closed the connection: its log says why");
}

/* The socket is empty: an idle link holds no block. */
static void rest(struct link *link)
{
    if (link->start < link->end)
        return;
    block_unref(link->block);
    link->block = NULL;
    link->start = link->end = 0;
}

static ssize_t receive(struct link *link, size_t room)
{
    uint8_t *to = link->block->data + link->end;
    return link->tls == NULL ? recv(link->watch.fd, to, room, 0) : tls_read(link->tls, to, room);
}

void link_read(struct link *link)
{
    if (link->paused || !hand_over(link))
        return;
    for (size_t budget = BUDGET; budget > 0;) {
        size_t room = make_room(link);
        if (room == 0)
            return;
        ssize_t got = receive(link, room);
        if (got < 0 && errno == EINTR)
            continue;
        bool empty = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        if (got <= 0 && (!empty || link->broken != 0)) {
            end_of_input(link, got < 0 && !empty ? errno : 0);
            return;
        }
        if (got > 0) {
            link->end += (size_t)got;
            link->bytes_in += (size_t)got;
            if (!hand_over(link))
                return;
            empty = (size_t)got < room && !link->ending && link->tls == NULL;
        }
        if (empty) {
            rest(link);
            return;
        }
        budget -= smaller(budget, (size_t)got);
    }
    loop_again(link->loop, &link->watch, EPOLLIN);
}
