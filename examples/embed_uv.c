/* coney inside libuv, which waits level-triggered.
 *
 *     embed_uv [URI]      default: rabbitmq-stream://localhost
 */
#include "embed.h"

#include <uv.h>

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    coney_loop_step(handle->data);
}

static void leave(void *ctx)
{
    uv_close(ctx, NULL); /* the last handle: uv_run returns */
}

int main(int argc, char **argv)
{
    uv_poll_t handle;
    struct embed embed = {.loop = coney_loop_new(), .stream = "embed_uv", .on_end = leave, .ctx = &handle};
    if (embed.loop == NULL || !embed_start(&embed, argc > 1 ? argv[1] : NULL))
        return 1;
    uv_poll_init(uv_default_loop(), &handle, coney_loop_fd(embed.loop));
    handle.data = embed.loop;
    uv_poll_start(&handle, UV_READABLE, on_readable);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_loop_close(uv_default_loop());
    return embed_finish(&embed);
}
