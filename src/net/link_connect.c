/* link_connect.c: from a name to an open socket: every address that the resolver gave, in its order, each with its deadline,
 * which TLS shares. The network's failures lead to the next address; what is wrong with TLS itself ends the link. */
#include "net/link_internal.h"
#include "net/reason.h"

#include "base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define TLS_HINT "does this port speak TLS? By default a broker's TLS ports are 5671 (AMQP) and 5551 (streams)"

static bool is_out_of_descriptors(int error)
{
    return error == EMFILE || error == ENFILE;
}

/* Adds to the text what one address said. The address itself is named when the name has several. */
static void note_failure(struct link *link, int error)
{
    char words[128];
    reason_words(words, sizeof words, error);
    bool in_tls = link->state == LINK_HANDSHAKING;
    if (error == ETIMEDOUT)
        text_append(words, sizeof words, " (%" PRId64 " ms)", link->connect_timeout / CONEY_MILLISECOND);
    bool first = link->last_error == 0;
    if (!first)
        text_append(link->text, sizeof link->text, ", ");
    char numeric[NI_MAXHOST];
    const struct addrinfo *at = link->trying;
    if (link->addresses->ai_next != NULL &&
        getnameinfo(at->ai_addr, at->ai_addrlen, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST) == 0)
        text_append(link->text, sizeof link->text, "%s ", numeric);
    text_append(link->text, sizeof link->text, "%s%s", in_tls ? "TLS handshake: " : "", words);
    link->hint = in_tls ? TLS_HINT : reason_hint(error);
    link->all_timed_out = error == ETIMEDOUT && (first || link->all_timed_out);
    link->last_error = error;
}

/* 0 when the attempt is under way: its readiness or its deadline will tell. */
static int start_connecting(struct link *link, const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    link->watch.fd = fd;
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS)
        return errno;
    if (loop_watch(link->loop, &link->watch) != CONEY_OK)
        return ENFILE;
    return loop_timer_set(link->loop, &link->timer, time_after(time_now(), link->connect_timeout)) ? 0 : ENOMEM;
}

static void give_up(struct link *link)
{
    coney_status status = is_out_of_descriptors(link->last_error) ? CONEY_ELIMIT
                          : link->last_error == ENOMEM            ? CONEY_ENOMEM
                          : link->all_timed_out                   ? CONEY_ETIMEDOUT
                                                                  : CONEY_ECONNECT;
    char tried[sizeof link->text];
    memcpy(tried, link->text, sizeof tried);
    link_fail(link, status, "%s: %s", tried, link->hint);
}

static void try_from(struct link *link, struct addrinfo *address)
{
    link->state = LINK_CONNECTING;
    for (; address != NULL; address = address->ai_next) {
        link->trying = address;
        int error = start_connecting(link, address);
        if (error == 0)
            return;
        link_drop_socket(link);
        note_failure(link, error);
        if (is_out_of_descriptors(error))
            break;
    }
    give_up(link);
}

static void try_next(struct link *link, int error)
{
    note_failure(link, error);
    link_drop_socket(link);
    try_from(link, link->trying->ai_next);
}

/* A port of this host that nobody listens on can be given to the very socket that connects to it: TCP then connects it to
 * itself. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage here = {0};
    struct sockaddr_storage there = {0};
    socklen_t here_len = sizeof here;
    socklen_t there_len = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 && here_len == there_len &&
           memcmp(&here, &there, here_len) == 0;
}

void link_resolved(void *ctx, coney_status status, struct addrinfo *list, const char *text)
{
    struct link *link = ctx;
    link_enter(link);
    link->resolve = NULL;
    if (status != CONEY_OK) {
        link_fail(link, status, "%s", text);
    } else {
        link->addresses = list;
        try_from(link, list);
    }
    link_leave(link);
}

static void opened(struct link *link)
{
    loop_timer_unset(link->loop, &link->timer);
    freeaddrinfo(link->addresses);
    link->addresses = NULL;
    link->text[0] = '\0';
    link->state = LINK_OPEN;
    link->writable = true;
    link->owner->on_open(link->ctx);
    if (link->state == LINK_OPEN && link_has_output(link))
        loop_defer(link->loop, &link->flush);
}

static void shake_hands(struct link *link)
{
    if (tls_handshake(link->tls))
        opened(link);
    else if (errno == EPROTO)
        link_fail_errno(link, errno);
    else if (errno != EAGAIN)
        try_next(link, errno);
}

static void connected(struct link *link)
{
    if (link->tls_settings == NULL) {
        opened(link);
        return;
    }
    coney_status status;
    char error[sizeof link->text];
    link->state = LINK_HANDSHAKING;
    link->tls = tls_new(link->tls_settings, link->host, link->watch.fd, link->pool, &status, error, sizeof error);
    if (link->tls == NULL)
        link_fail(link, status, "%s", error);
    else
        shake_hands(link);
}

static void connect_ready(struct link *link, uint32_t events)
{
    int error = 0;
    socklen_t len = sizeof error;
    getsockopt(link->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error == 0 && (events & EPOLLOUT) == 0)
        return;
    if (error == 0 && is_connected_to_itself(link->watch.fd))
        error = ECONNREFUSED;
    if (error != 0) {
        try_next(link, error);
        return;
    }
    connected(link);
}

void link_connect_ready(struct link *link, uint32_t events)
{
    if (link->state == LINK_HANDSHAKING)
        shake_hands(link);
    else
        connect_ready(link, events);
}

void link_connect_timed_out(struct link *link)
{
    try_next(link, ETIMEDOUT);
}
