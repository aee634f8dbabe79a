#define _GNU_SOURCE
#include "scissors.h"

#include "support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 32, READ_BYTES = 16384 };

/* fds[0] is the client's, fds[1] the node's; -1 for a free place. */
struct joint {
    int fds[2];
};

struct scissors {
    pthread_mutex_t mutex;
    pthread_t thread;
    int listener;
    int wake;
    uint16_t node_port;
    uint16_t port;
    char uri[64];
    bool stopping;
    struct joint joints[PAIRS];
    uint64_t left[2]; /* bytes until the cut, by where they come from; 0 = no cut is asked for */
    size_t cuts;
};

static int loopback(uint16_t port, struct sockaddr_in *address)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void joint_end(struct joint *joint)
{
    static const struct linger at_once = {.l_onoff = 1};
    for (int i = 0; i < 2; i++) {
        if (joint->fds[i] < 0)
            continue;
        setsockopt(joint->fds[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(joint->fds[i]);
        joint->fds[i] = -1;
    }
}

static void joint_accept(struct scissors *scissors)
{
    struct sockaddr_in address;
    int client = accept4(scissors->listener, NULL, NULL, SOCK_CLOEXEC);
    int there = loopback(scissors->node_port, &address);
    struct joint *joint = scissors->joints;
    while (joint < scissors->joints + PAIRS && joint->fds[0] >= 0)
        joint++;
    bool joined = client >= 0 && there >= 0 && joint < scissors->joints + PAIRS &&
                  connect(there, (struct sockaddr *)&address, sizeof address) == 0;
    if (joined) {
        *joint = (struct joint){{client, there}};
        return;
    }
    if (client >= 0)
        close(client);
    if (there >= 0)
        close(there);
}

static bool write_all(int fd, const uint8_t *at, size_t len)
{
    while (len > 0) {
        ssize_t written = send(fd, at, len, MSG_NOSIGNAL);
        if (written <= 0)
            return false;
        at += written;
        len -= (size_t)written;
    }
    return true;
}

static void joint_forward(struct scissors *scissors, struct joint *joint, int from)
{
    uint8_t bytes[READ_BYTES];
    ssize_t got = recv(joint->fds[from], bytes, sizeof bytes, 0);
    size_t len = got > 0 ? (size_t)got : 0;
    uint64_t left = scissors->left[from];
    bool cut = left > 0 && len >= left;
    if (cut)
        len = (size_t)left;
    if (left > 0)
        scissors->left[from] -= len;
    scissors->cuts += cut;
    if (got <= 0 || !write_all(joint->fds[1 - from], bytes, len) || cut)
        joint_end(joint);
}

static nfds_t watch(const struct scissors *scissors, struct pollfd *watched)
{
    watched[0] = (struct pollfd){scissors->wake, POLLIN, 0};
    watched[1] = (struct pollfd){scissors->listener, POLLIN, 0};
    for (size_t i = 0; i < PAIRS; i++)
        for (size_t side = 0; side < 2; side++)
            watched[2 + 2 * i + side] = (struct pollfd){scissors->joints[i].fds[side], POLLIN, 0};
    return 2 + 2 * PAIRS;
}

static void *scissors_run(void *ctx)
{
    struct scissors *scissors = ctx;
    struct pollfd watched[2 + 2 * PAIRS];
    pthread_mutex_lock(&scissors->mutex);
    while (!scissors->stopping) {
        nfds_t count = watch(scissors, watched);
        pthread_mutex_unlock(&scissors->mutex);
        poll(watched, count, -1);
        pthread_mutex_lock(&scissors->mutex);
        for (size_t i = 0; i < PAIRS; i++)
            for (int side = 0; side < 2; side++)
                if (watched[2 + 2 * i + (size_t)side].revents != 0 && scissors->joints[i].fds[side] >= 0)
                    joint_forward(scissors, &scissors->joints[i], side);
        if (watched[1].revents != 0)
            joint_accept(scissors);
    }
    for (size_t i = 0; i < PAIRS; i++)
        joint_end(&scissors->joints[i]);
    pthread_mutex_unlock(&scissors->mutex);
    return NULL;
}

struct scissors *scissors_start(uint16_t port)
{
    struct scissors *scissors = calloc(1, sizeof *scissors);
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    assert_non_null(scissors);
    pthread_mutex_init(&scissors->mutex, NULL);
    scissors->node_port = port;
    for (size_t i = 0; i < PAIRS; i++)
        scissors->joints[i] = (struct joint){{-1, -1}};
    scissors->wake = eventfd(0, EFD_CLOEXEC);
    scissors->listener = loopback(0, &address);
    assert_int_equal(bind(scissors->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(scissors->listener, 64), 0);
    assert_int_equal(getsockname(scissors->listener, (struct sockaddr *)&address, &size), 0);
    scissors->port = ntohs(address.sin_port);
    snprintf(scissors->uri, sizeof scissors->uri, "rabbitmq-stream://127.0.0.1:%u", scissors->port);
    assert_int_equal(pthread_create(&scissors->thread, NULL, scissors_run, scissors), 0);
    return scissors;
}

void scissors_stop(struct scissors **scissors)
{
    struct scissors *gone = *scissors;
    *scissors = NULL;
    if (gone == NULL)
        return;
    pthread_mutex_lock(&gone->mutex);
    gone->stopping = true;
    pthread_mutex_unlock(&gone->mutex);
    eventfd_write(gone->wake, 1);
    pthread_join(gone->thread, NULL);
    close(gone->listener);
    close(gone->wake);
    pthread_mutex_destroy(&gone->mutex);
    free(gone);
}

const char *scissors_uri(const struct scissors *scissors)
{
    return scissors->uri;
}

void scissors_resolve(void *ctx, char *host, size_t host_cap, uint16_t *port)
{
    const struct scissors *scissors = ctx;
    snprintf(host, host_cap, "127.0.0.1");
    *port = scissors->port;
}

void scissors_cut_after(struct scissors *scissors, bool to_client, uint64_t bytes)
{
    pthread_mutex_lock(&scissors->mutex);
    scissors->left[to_client] = bytes;
    pthread_mutex_unlock(&scissors->mutex);
}

/* The other thread finds them at their end and closes them. */
void scissors_cut_all(struct scissors *scissors)
{
    pthread_mutex_lock(&scissors->mutex);
    for (size_t i = 0; i < PAIRS; i++)
        for (size_t side = 0; side < 2; side++)
            if (scissors->joints[i].fds[side] >= 0)
                shutdown(scissors->joints[i].fds[side], SHUT_RDWR);
    pthread_mutex_unlock(&scissors->mutex);
}

size_t scissors_cuts(struct scissors *scissors)
{
    pthread_mutex_lock(&scissors->mutex);
    size_t cuts = scissors->cuts;
    pthread_mutex_unlock(&scissors->mutex);
    return cuts;
}
