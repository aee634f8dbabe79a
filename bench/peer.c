/* peer.c: the processes of peer.h.
 *
 *     bench_peer serve --size 12 --count 409600 --frame 8192
 *     bench_peer serve-amqp --size 512 --count 200000
 */
#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_anywhere(uint16_t *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        die("no port could be had: %s", strerror(errno));
    *port = be16toh(address.sin_port);
    return fd;
}

void serve_connections(struct service *service)
{
    signal(SIGCHLD, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int listener = listen_anywhere(&service->port);
    printf("{\"port\": %u}\n", service->port);
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            die("accept: %s", strerror(errno));
        if (fork() == 0) {
            close(listener);
            struct wire wire = wire_around(fd, RECEIVE_BUFFER);
            service->serve(service, &wire);
            _exit(0);
        }
        close(fd);
    }
}

bool wire_receive(struct wire *w)
{
    wire_make_room(w, 4);
    ssize_t n = recv(w->fd, w->buffer + w->end, w->cap - w->end, 0);
    if (n > 0)
        w->end += (size_t)n;
    return n > 0 || (n < 0 && errno == EINTR);
}

int main(int argc, char **argv)
{
    static const struct command commands[] = {{"serve", peer_stream}, {"serve-amqp", peer_amqp}};
    return run_command(commands, sizeof commands / sizeof commands[0], argc, argv);
}
