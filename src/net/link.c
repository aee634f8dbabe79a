/* link.c: a link's birth and end, and its callbacks from the loop. */
#include "net/link_internal.h"
#include "net/reason.h"

#include "base/fork.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void link_enter(struct link *link)
{
    link->depth++;
}

/* The loop holds a task until it has run; in a forked child it runs none. */
static bool is_held_by_loop(const struct link *link)
{
    return link->generation == fork_generation() && (atomic_load(&link->flush.posted) || atomic_load(&link->report.posted));
}

void link_leave(struct link *link)
{
    if (--link->depth > 0 || !link->closed || is_held_by_loop(link))
        return;
    block_unref(link->block);
    free(link->control);
    free(link->copied);
    free(link->host);
    free(link->name);
    free(link);
}

void link_drop_socket(struct link *link)
{
    loop_timer_unset(link->loop, &link->timer);
    tls_free(link->tls);
    link->tls = NULL;
    if (link->watch.fd < 0)
        return;
    loop_unwatch(link->loop, &link->watch);
    close(link->watch.fd);
    link->watch.fd = -1;
}

static void disconnect(struct link *link)
{
    link->state = LINK_DOWN;
    link_drop_socket(link);
    if (link->resolve != NULL)
        resolve_cancel(link->resolve);
    link->resolve = NULL;
    if (link->addresses != NULL)
        freeaddrinfo(link->addresses);
    link->addresses = NULL;
    link->control_len = 0;
    link->slice_count = 0;
}

static void __attribute__((format(printf, 3, 0)))
take_down(struct link *link, coney_status status, const char *format, va_list reason)
{
    disconnect(link);
    link->status = status;
    text_print(link->text, sizeof link->text, "%s: ", link->name);
    size_t len = strlen(link->text);
    text_vprint(link->text + len, sizeof link->text - len, format, reason);
}

void link_fail(struct link *link, coney_status status, const char *format, ...)
{
    if (link->state == LINK_DOWN)
        return;
    va_list reason;
    va_start(reason, format);
    take_down(link, status, format, reason);
    va_end(reason);
    link->owner->on_down(link->ctx, link->status, link->text);
}

static void report_down(struct task *task)
{
    struct link *link = container_of(task, struct link, report);
    link_enter(link);
    if (!link->closed)
        link->owner->on_down(link->ctx, link->status, link->text);
    link_leave(link);
}

void link_fail_later(struct link *link, coney_status status, const char *format, ...)
{
    if (link->state == LINK_DOWN)
        return;
    va_list reason;
    va_start(reason, format);
    take_down(link, status, format, reason);
    va_end(reason);
    loop_post(link->loop, &link->report);
}

void link_fail_errno(struct link *link, int error)
{
    char words[sizeof link->text];
    if (error == EPROTO && link->tls != NULL) {
        const char *text;
        coney_status status = tls_failure(link->tls, &text);
        text_print(words, sizeof words, "%s", text); /* goes with the connection */
        link_fail(link, status, "%s", words);
        return;
    }
    reason_words(words, sizeof words, error);
    link_fail(link, CONEY_ELOST, "%s: %s", words, reason_hint(error));
}

static void on_ready(struct watch *watch, uint32_t events)
{
    struct link *link = container_of(watch, struct link, watch);
    link_enter(link);
    if (link->state == LINK_CONNECTING || link->state == LINK_HANDSHAKING)
        link_connect_ready(link, events);
    if (link->tls != NULL)
        events |= EPOLLIN | EPOLLOUT; /* inside TLS either direction may have waited for the other */
    if (link->state == LINK_OPEN && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        link->ending = link->ending || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        link_read(link);
    }
    if (link->state == LINK_OPEN && (events & EPOLLOUT) != 0 && !link->writable && link->broken == 0) {
        link->writable = true;
        if (link_has_output(link))
            loop_defer(link->loop, &link->flush);
    }
    link_leave(link);
}

static void on_timer(struct timer *timer)
{
    struct link *link = container_of(timer, struct link, timer);
    link_enter(link);
    if (link->state == LINK_CONNECTING || link->state == LINK_HANDSHAKING) {
        link_connect_timed_out(link);
    } else if (link->state == LINK_OPEN) {
        link->writable = true;
        loop_defer(link->loop, &link->flush);
    }
    link_leave(link);
}

/* An IPv6 address in brackets, so that the port stands apart. */
static char *name_of(const struct link_options *options)
{
    const char *format = strchr(options->host, ':') != NULL ? "[%s]:%u" : "%s:%u";
    size_t cap = strlen(options->host) + sizeof "[]:65535";
    char *name = malloc(cap);
    if (name != NULL)
        text_print(name, cap, format, options->host, (unsigned)options->port);
    return name;
}

struct link *link_open(coney_loop *loop, struct pool *pool, const struct link_options *options, const struct link_owner *owner,
                       void *ctx)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->loop = loop;
    link->pool = pool;
    link->owner = owner;
    link->ctx = ctx;
    link->generation = fork_generation();
    link->connect_timeout = options->connect_timeout;
    link->tls_settings = options->tls;
    link->report.run = report_down;
    link->flush.run = link_flush;
    link->timer.fire = on_timer;
    link->watch = (struct watch){.ready = on_ready, .fd = -1};
    list_init(&link->watch.again);
    link->name = name_of(options);
    link->host = strdup(options->host);
    if (link->name != NULL && link->host != NULL)
        link->resolve = resolve_start(loop, options->host, options->port, link_resolved, link);
    if (link->resolve == NULL) {
        free(link->host);
        free(link->name);
        free(link);
        return NULL;
    }
    return link;
}

void link_pause_reading(struct link *link, bool pause)
{
    bool goes_on = link->paused && !pause;
    link->paused = pause;
    if (goes_on && link->state == LINK_OPEN)
        loop_again(link->loop, &link->watch, EPOLLIN);
}

uint64_t link_bytes_in(const struct link *link)
{
    return link->bytes_in;
}

uint64_t link_bytes_out(const struct link *link)
{
    return link->bytes_out;
}

bool link_is_open(const struct link *link)
{
    return link->state == LINK_OPEN;
}

const char *link_name(const struct link *link)
{
    return link->name;
}

void link_close(struct link **link, bool flush)
{
    struct link *it = *link;
    *link = NULL;
    if (it == NULL)
        return;
    link_enter(it);
    if (flush && it->state == LINK_OPEN && it->broken == 0 && it->generation == fork_generation())
        link_write_last(it);
    it->closed = true;
    disconnect(it);
    link_leave(it);
}
