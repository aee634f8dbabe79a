/* coney inside GLib's main loop.
 *
 *     embed_glib [URI]      default: rabbitmq-stream://localhost
 */
#include "embed.h"

#include <glib-unix.h>

static gboolean on_readable(gint fd, GIOCondition condition, gpointer ctx)
{
    (void)fd;
    (void)condition;
    coney_loop_step(ctx);
    return G_SOURCE_CONTINUE;
}

static void leave(void *ctx)
{
    g_main_loop_quit(ctx);
}

int main(int argc, char **argv)
{
    GMainLoop *main_loop = g_main_loop_new(NULL, FALSE);
    struct embed embed = {.loop = coney_loop_new(), .stream = "embed_glib", .on_end = leave, .ctx = main_loop};
    if (embed.loop == NULL || !embed_start(&embed, argc > 1 ? argv[1] : NULL))
        return 1;
    guint source = g_unix_fd_add(coney_loop_fd(embed.loop), G_IO_IN, on_readable, embed.loop);
    g_main_loop_run(main_loop);
    g_source_remove(source);
    g_main_loop_unref(main_loop);
    return embed_finish(&embed);
}
