/* coney inside a plain poll loop.
 *
 *     embed_poll [URI]      default: rabbitmq-stream://localhost
 */
#include "embed.h"

#include <poll.h>

static void leave(void *ctx)
{
    bool *running = ctx;
    *running = false;
}

int main(int argc, char **argv)
{
    bool running = true;
    struct embed embed = {.loop = coney_loop_new(), .stream = "embed_poll", .on_end = leave, .ctx = &running};
    if (embed.loop == NULL || !embed_start(&embed, argc > 1 ? argv[1] : NULL))
        return 1;
    while (running) {
        struct pollfd ready = {.fd = coney_loop_fd(embed.loop), .events = POLLIN}; /* the program's own descriptors beside it */
        poll(&ready, 1, -1);
        if (ready.revents != 0)
            coney_loop_step(embed.loop);
    }
    return embed_finish(&embed);
}
