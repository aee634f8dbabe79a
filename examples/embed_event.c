/* coney inside libevent, level-triggered or edge-triggered.
 *
 *     embed_event [--edge] [URI]      default: rabbitmq-stream://localhost
 */
#include "embed.h"

#include <event2/event.h>
#include <string.h>

static void on_readable(evutil_socket_t fd, short events, void *ctx)
{
    (void)fd;
    (void)events;
    coney_loop_step(ctx);
}

static void leave(void *ctx)
{
    event_base_loopbreak(ctx);
}

/* EV_ET needs a base that knows it: epoll does, poll does not. */
static struct event_base *base_of(bool edge)
{
    struct event_config *config = event_config_new();
    if (edge)
        event_config_require_features(config, EV_FEATURE_ET);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

int main(int argc, char **argv)
{
    bool edge = argc > 1 && strcmp(argv[1], "--edge") == 0;
    const char *uri = argc > 1 + edge ? argv[1 + edge] : NULL;
    struct event_base *base = base_of(edge);
    struct embed embed = {
        .loop = coney_loop_new(), .stream = edge ? "embed_event_edge" : "embed_event", .on_end = leave, .ctx = base};
    if (base == NULL || embed.loop == NULL || !embed_start(&embed, uri))
        return 1;
    short wanted = (short)(EV_READ | EV_PERSIST | (edge ? EV_ET : 0));
    struct event *readable = event_new(base, coney_loop_fd(embed.loop), wanted, on_readable, embed.loop);
    event_add(readable, NULL);
    event_base_dispatch(base);
    event_free(readable);
    event_base_free(base);
    return embed_finish(&embed);
}
