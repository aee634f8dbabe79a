/* link_write.c: control bytes from a queue, bulk data from the owner's memory, in one sendmsg. */
#include "net/link_internal.h"

#include "base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define WRITES_A_ROUND 16
#define CONTROL_LEAST ((size_t)4 << 10)
#define CONTROL_KEPT ((size_t)64 << 10) /* a larger queue is freed when it is empty */
#define TRY_AGAIN_AFTER (5 * CONEY_MILLISECOND)

static bool has_bytes(const struct link *link)
{
    return link->control_len > 0 || link->slice_count > 0 || (link->tls != NULL && tls_has_output(link->tls));
}

bool link_has_output(const struct link *link)
{
    return link->want_write || has_bytes(link);
}

/* Makes room for `len` more bytes at the end of the control queue. */
static bool grow_control(struct link *link, size_t len)
{
    if (link->control_at + link->control_len + len <= link->control_cap)
        return true;
    if (link->control_len > 0)
        memmove(link->control, link->control + link->control_at, link->control_len);
    link->control_at = 0;
    size_t cap = link->control_cap > 0 ? link->control_cap : CONTROL_LEAST;
    while (cap < link->control_len + len)
        cap *= 2;
    if (cap == link->control_cap)
        return true;
    uint8_t *control = realloc(link->control, cap);
    if (control == NULL)
        return false;
    link->control = control;
    link->control_cap = cap;
    return true;
}

static size_t take_control(struct link *link, size_t written)
{
    size_t taken = written < link->control_len ? written : link->control_len;
    link->control_at += taken;
    link->control_len -= taken;
    if (link->control_len > 0)
        return taken;
    link->control_at = 0;
    if (link->control_cap > CONTROL_KEPT) {
        free(link->control);
        link->control = NULL;
        link->control_cap = 0;
    }
    return taken;
}

static void take_slices(struct link *link, size_t written)
{
    while (link->slice_at < link->slice_count) {
        struct iovec *slice = &link->vector[1 + link->slice_at];
        if (written < slice->iov_len) {
            slice->iov_base = (uint8_t *)slice->iov_base + written;
            slice->iov_len -= written;
            return;
        }
        written -= slice->iov_len;
        link->slice_at++;
    }
}

static void ask_owner(struct link *link)
{
    link->slice_at = 0;
    link->slice_count = link->owner->fill(link->ctx, link->vector + 1, LINK_SLICES);
    if (link->slice_count == 0)
        link->want_write = false;
}

/* What goes out next: inside a fill only the rest of it, otherwise the control bytes and then the fill. Returns its length. */
static size_t gather(struct link *link, struct msghdr *message)
{
    size_t first = 1 + link->slice_at;
    if (!link->inside && link->control_len > 0) {
        first = 0;
        link->vector[0] = (struct iovec){link->control + link->control_at, link->control_len};
    }
    size_t len = 0;
    for (size_t i = first; i < 1 + link->slice_count; i++)
        len += link->vector[i].iov_len;
    *message = (struct msghdr){.msg_iov = link->vector + first, .msg_iovlen = 1 + link->slice_count - first};
    return len;
}

static void account(struct link *link, size_t written)
{
    link->bytes_out += written;
    size_t control = link->inside ? 0 : take_control(link, written);
    if (link->slice_count == 0)
        return;
    take_slices(link, written - control);
    link->inside = link->inside || written > control;
    if (link->slice_at < link->slice_count)
        return;
    link->inside = false;
    link->slice_count = link->slice_at = 0;
    free(link->copied);
    link->copied = NULL;
    link->owner->on_written(link->ctx);
}

static void write_failed(struct link *link, int error)
{
    link->writable = false;
    if (error == EAGAIN || error == EWOULDBLOCK)
        return;
    if (error == ENOBUFS || error == ENOMEM) { /* no edge will come of this */
        if (loop_timer_set(link->loop, &link->timer, time_after(time_now(), TRY_AGAIN_AFTER)))
            return;
    }
    link->broken = error;
    if (link->paused)
        link_fail_errno(link, error);
    else
        loop_again(link->loop, &link->watch, EPOLLIN);
}

/* What a write through TLS had to read belongs to the reader, who will not hear of it otherwise. */
static ssize_t write_through_tls(struct link *link, const struct msghdr *message)
{
    ssize_t written = tls_write(link->tls, message->msg_iov, message->msg_iovlen);
    int error = errno;
    if (tls_has_input(link->tls))
        loop_again(link->loop, &link->watch, EPOLLIN);
    errno = error;
    return written;
}

static void write_once(struct link *link)
{
    struct msghdr message;
    size_t len = gather(link, &message);
    ssize_t written = link->tls != NULL ? write_through_tls(link, &message)
                      : len > 0         ? sendmsg(link->watch.fd, &message, MSG_NOSIGNAL)
                                        : 0;
    if (written < 0) {
        if (errno != EINTR)
            write_failed(link, errno);
        return;
    }
    if ((size_t)written < len && link->tls == NULL)
        link->writable = false;
    account(link, (size_t)written);
}

void link_flush(struct task *task)
{
    struct link *link = container_of(task, struct link, flush);
    link_enter(link);
    for (int i = 0; i < WRITES_A_ROUND && link->state == LINK_OPEN && link->writable; i++) {
        if (link->slice_count == 0 && link->want_write)
            ask_owner(link);
        if (link->state != LINK_OPEN || !has_bytes(link))
            break;
        write_once(link);
    }
    if (link->state == LINK_OPEN && link->writable && link_has_output(link))
        loop_defer(link->loop, &link->flush);
    link_leave(link);
}

static void write_last_through_tls(struct link *link, struct iovec *slices, size_t count)
{
    ssize_t taken = 0;
    for (size_t i = 0; i < count && taken >= 0; i++) {
        for (; slices[i].iov_len > 0 && (taken = tls_write(link->tls, &slices[i], 1)) > 0;) {
            slices[i].iov_base = (uint8_t *)slices[i].iov_base + taken;
            slices[i].iov_len -= (size_t)taken;
        }
    }
    tls_goodbye(link->tls);
}

/* The rest of a fill that has begun, and the control bytes, offered once: what comes of it, nobody waits for. */
void link_write_last(struct link *link)
{
    struct iovec last[LINK_SLICES + 1];
    size_t count = 0;
    if (link->inside)
        for (size_t i = link->slice_at; i < link->slice_count; i++)
            last[count++] = link->vector[1 + i];
    if (link->control_len > 0)
        last[count++] = (struct iovec){link->control + link->control_at, link->control_len};
    struct msghdr message = {.msg_iov = last, .msg_iovlen = count};
    if (link->tls != NULL)
        write_last_through_tls(link, last, count);
    else if (count > 0)
        sendmsg(link->watch.fd, &message, MSG_NOSIGNAL);
}

void link_write(struct link *link, const void *data, size_t len)
{
    if (link->state == LINK_DOWN || len == 0)
        return;
    if (len > LINK_CONTROL_MAX - link->control_len) {
        link_fail_later(link, CONEY_ELOST, "the peer has stopped reading: %zu bytes of requests wait for it",
                        link->control_len);
        return;
    }
    if (!grow_control(link, len)) {
        link_fail_later(link, CONEY_ENOMEM, "no memory for %zu bytes of requests", link->control_len + len);
        return;
    }
    memcpy(link->control + link->control_at + link->control_len, data, len);
    link->control_len += len;
    if (link->state == LINK_OPEN)
        loop_defer(link->loop, &link->flush);
}

void link_want_write(struct link *link)
{
    link->want_write = true;
    if (link->state == LINK_OPEN)
        loop_defer(link->loop, &link->flush);
}

void link_copy_fill(struct link *link)
{
    struct iovec *slices = link->vector + 1;
    size_t len = 0;
    for (size_t i = link->slice_at; i < link->slice_count; i++)
        len += slices[i].iov_len;
    if (len == 0)
        return;
    uint8_t *copy = malloc(len);
    if (copy == NULL) {
        link_fail_later(link, CONEY_ENOMEM, "no memory for %zu bytes that are being written", len);
        return;
    }
    size_t at = 0;
    for (size_t i = link->slice_at; i < link->slice_count; at += slices[i++].iov_len)
        memcpy(copy + at, slices[i].iov_base, slices[i].iov_len);
    free(link->copied); /* an earlier copy, of which this is the rest */
    link->copied = copy;
    slices[0] = (struct iovec){.iov_base = copy, .iov_len = len};
    link->slice_at = 0;
    link->slice_count = 1;
}

bool link_is_blocked(const struct link *link)
{
    return link->state == LINK_OPEN && !link->writable && has_bytes(link);
}
