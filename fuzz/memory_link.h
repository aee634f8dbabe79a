/* memory_link.h: a link without sockets, in the place of net/link.c: what is written is kept, what arrives is handed over by the fuzzer. For fuzzers of
 * whole clients: included once, by the fuzzer's own file. */
#ifndef CONEY_FUZZ_MEMORY_LINK_H
#define CONEY_FUZZ_MEMORY_LINK_H

#include "net/link.h"

#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

struct link {
    struct link *next;
    const struct link_owner *owner;
    void *ctx;
    struct pool *pool;
    bool closed;
    bool wants_write;
    uint64_t in;
    uint64_t out_len;
    uint8_t out[1 << 16]; /* what was written first */
};

static struct link *links; /* the youngest first; freed when the input is through */

struct link *link_open(coney_loop *loop, struct pool *pool, const struct link_options *options, const struct link_owner *owner,
                       void *ctx)
{
    (void)loop;
    (void)options;
    struct link *link = calloc(1, sizeof *link);
    require(link != NULL);
    *link = (struct link){.next = links, .owner = owner, .ctx = ctx, .pool = pool};
    links = link;
    return link;
}

void link_write(struct link *link, const void *data, size_t len)
{
    for (size_t i = 0; i < len && link->out_len + i < sizeof link->out; i++)
        link->out[link->out_len + i] = ((const uint8_t *)data)[i];
    link->out_len += len;
}

void link_want_write(struct link *link)
{
    link->wants_write = true;
}

void link_copy_fill(struct link *link)
{
    (void)link;
}

void link_pause_reading(struct link *link, bool pause)
{
    (void)link;
    (void)pause;
}

uint64_t link_bytes_in(const struct link *link)
{
    return link->in;
}

uint64_t link_bytes_out(const struct link *link)
{
    return link->out_len;
}

bool link_is_blocked(const struct link *link)
{
    (void)link;
    return false;
}

bool link_is_open(const struct link *link)
{
    return !link->closed;
}

const char *link_name(const struct link *link)
{
    (void)link;
    return "memory";
}

void link_close(struct link **link, bool flush)
{
    (void)flush;
    if (*link != NULL)
        (*link)->closed = true;
    *link = NULL;
}

static void free_links(void)
{
    while (links != NULL) {
        struct link *link = links;
        links = link->next;
        free(link);
    }
}

/* Bulk data is taken as fast as it comes: into `out`, as far as there is room. */
static void take_bulk(struct link *link)
{
    struct iovec slices[LINK_SLICES];
    while (!link->closed && link->wants_write) {
        size_t count = link->owner->fill(link->ctx, slices, LINK_SLICES);
        link->wants_write = count > 0;
        for (size_t i = 0; i < count; i++)
            link_write(link, slices[i].iov_base, slices[i].iov_len);
        if (count > 0 && !link->closed)
            link->owner->on_written(link->ctx);
    }
}

/* What has arrived so far, `len` bytes from `at` on, cut into frames. Returns where the next one begins. */
static size_t hand_over(struct link *link, const uint8_t *data, size_t at, size_t len)
{
    char error[512] = "";
    while (!link->closed && at < len) {
        size_t size = link->owner->frame_size(link->ctx, data + at, len - at, error, sizeof error);
        if (size == SIZE_MAX) {
            require(error[0] != '\0');
            link->owner->on_down(link->ctx, CONEY_EPROTOCOL, error);
            return len;
        }
        if (size == 0 || size > len - at)
            return at;
        struct block *block = block_get(link->pool, size);
        require(block != NULL);
        memcpy(block->data, data + at, size);
        link->owner->on_frame(link->ctx, block, block->data, size);
        block_unref(block);
        at += size;
    }
    return at;
}

/* `piece` bytes at a time; 0: all at once. Returns where what is no whole frame yet begins. */
static size_t feed(struct link *link, const uint8_t *data, size_t size, size_t piece)
{
    size_t at = 0;
    for (size_t len = 0; len < size && !link->closed;) {
        len = piece > 0 && size - len > piece ? len + piece : size;
        link->in = len;
        at = hand_over(link, data, at, len);
        if (!link->closed)
            link->owner->on_read_end(link->ctx);
        take_bulk(link);
    }
    return at;
}

static void hang_up(void)
{
    for (struct link *link = links; link != NULL; link = link->next)
        if (!link->closed)
            link->owner->on_down(link->ctx, CONEY_ELOST, "the link of memory ends");
}

#endif
