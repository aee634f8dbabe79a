/* coney inside an epoll loop that waits edge-triggered: one step for each edge is enough.
 *
 *     embed_epoll [URI]      default: rabbitmq-stream://localhost
 */
#include "embed.h"

#include <sys/epoll.h>
#include <unistd.h>

static void leave(void *ctx)
{
    bool *running = ctx;
    *running = false;
}

int main(int argc, char **argv)
{
    bool running = true;
    struct embed embed = {.loop = coney_loop_new(), .stream = "embed_epoll", .on_end = leave, .ctx = &running};
    int outer = epoll_create1(EPOLL_CLOEXEC);
    if (embed.loop == NULL || outer < 0)
        return 1;
    struct epoll_event edge = {.events = EPOLLIN | EPOLLET, .data.ptr = embed.loop};
    if (epoll_ctl(outer, EPOLL_CTL_ADD, coney_loop_fd(embed.loop), &edge) != 0 ||
        !embed_start(&embed, argc > 1 ? argv[1] : NULL))
        return 1;
    while (running) {
        struct epoll_event event;
        if (epoll_wait(outer, &event, 1, -1) == 1)
            coney_loop_step(event.data.ptr);
    }
    close(outer);
    return embed_finish(&embed);
}
