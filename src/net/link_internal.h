/* link_internal.h: what the four files of the link share: link.c (birth and end), link_connect.c, link_read.c, link_write.c.
 *
 * Whatever the loop calls goes through link_enter and link_leave: a link that its owner closes from inside a callback lives on,
 * down, until the outermost of them has returned. After every call of the owner the state must be looked at again.
 */
#ifndef CONEY_NET_LINK_INTERNAL_H
#define CONEY_NET_LINK_INTERNAL_H

#include "base/text.h"
#include "net/link.h"
#include "net/resolve.h"

enum link_state { LINK_RESOLVING, LINK_CONNECTING, LINK_HANDSHAKING, LINK_OPEN, LINK_DOWN };

struct link {
    coney_loop *loop;
    struct pool *pool;
    const struct link_owner *owner;
    void *ctx;
    enum link_state state;
    uint32_t generation;
    unsigned depth; /* link_enter without its link_leave */
    bool closed;    /* by the owner: to be freed when nothing uses it */
    coney_status status;
    struct task report; /* on_down for a failure inside a call of the owner's */
    struct watch watch;
    struct timer timer; /* connecting: the address's deadline; open: try to write again */

    const struct tls_settings *tls_settings; /* NULL = plain */
    struct tls *tls; /* over the socket that is connected; always there when an open link has settings */
    char *host;

    int64_t connect_timeout;
    struct resolve *resolve;
    struct addrinfo *addresses;
    struct addrinfo *trying;
    int last_error;
    const char *hint; /* what to do about it */
    bool all_timed_out;

    struct block *block; /* holds [start, end), which is not handed over yet; NULL while there is nothing */
    size_t start;
    size_t end;
    size_t need;    /* length of the frame at `start`, 0 = not known yet */
    size_t largest; /* frame that arrived */
    bool paused;
    bool ending; /* the kernel has said that the peer's end is in sight: read up to it */
    uint64_t bytes_in;

    struct task flush;
    bool writable;   /* as far as is known */
    bool want_write; /* the owner has bulk data */
    bool inside;     /* a byte of the fill was written, not all */
    int broken;      /* errno of the write that failed: what the peer said before is still read */
    uint8_t *control;
    size_t control_at; /* control[control_at, control_at + control_len) waits */
    size_t control_len;
    size_t control_cap;
    struct iovec vector[1 + LINK_SLICES]; /* [0] is for the control bytes, the fill starts at [1] */
    size_t slice_at;
    size_t slice_count;
    uint8_t *copied; /* what is left of the fill, when the owner wanted its memory back */
    uint64_t bytes_out;

    char text[512];
    char *name;
};

/* link.c */
void link_enter(struct link *link);
void link_leave(struct link *link);
void link_drop_socket(struct link *link);

/* Takes the link down and says so: at once, or from a task when it happens inside a call of the owner's. The reason follows
 * the link's name and ": ". No effect on a link that is down. */
void link_fail(struct link *link, coney_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void link_fail_later(struct link *link, coney_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ELOST with the words for `error`; for EPROTO, which only TLS gives, its own status and sentence. */
void link_fail_errno(struct link *link, int error);

/* link_connect.c: the resolver's `done`; the readiness and the deadline of a socket that connects or agrees on TLS. */
void link_resolved(void *ctx, coney_status status, struct addrinfo *list, const char *text);
void link_connect_ready(struct link *link, uint32_t events);
void link_connect_timed_out(struct link *link);

/* link_read.c: reads what is there, up to a budget. */
void link_read(struct link *link);

/* link_write.c */
void link_flush(struct task *task);
bool link_has_output(const struct link *link);
void link_write_last(struct link *link);

#endif
