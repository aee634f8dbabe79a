/* Reads a stream from where the last run left off, until a signal comes.
 *
 *     consume [STREAM [NAME [URI]]]      default: invoices audit rabbitmq-stream://localhost
 */
#include <coney/stream.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

/* Runs on the dispatcher's thread: it may be slow, and may make blocking calls. */
static coney_settle on_message(void *ctx, const coney_stream_delivery *d)
{
    (void)ctx;
    printf("%" PRIu64 ": %.*s\n", d->offset, (int)d->body.len, (const char *)d->body.data);
    fflush(stdout);
    return CONEY_ACK;
}

int main(int argc, char **argv)
{
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &ending, NULL);

    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(argc > 3 ? argv[3] : "rabbitmq-stream://localhost", NULL, &call);
    if (env == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    coney_stream_consumer *audit =
        coney_stream_consumer_open(env, argc > 1 ? argv[1] : "invoices",
                                   &(coney_stream_consumer_options){
                                       /* offsets are stored under this name, by themselves, as messages are done */
                                       .name = argc > 2 ? argv[2] : "audit",
                                       .start_if_new = CONEY_STREAM_FIRST, /* only where nothing is stored yet */
                                       .on_message = on_message,
                                   },
                                   &call);
    if (audit == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    int number;
    sigwait(&ending, &number);
    coney_stream_consumer_close(&audit, NULL); /* stores the offset of what is done */
    coney_stream_env_close(&env, NULL);
    return 0;
}
