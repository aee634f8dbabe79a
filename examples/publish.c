/* Publishes a million messages to a stream and knows what became of every one of them.
 *
 *     publish [STREAM [COUNT [URI]]]      default: invoices 1000000 rabbitmq-stream://localhost
 */
#include <coney/stream.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs on the library's loop, once for each message that send accepted. */
static void on_outcome(void *ctx, const coney_outcome *o)
{
    (void)ctx;
    if (o->status != CONEY_OK)
        fprintf(stderr, "message %" PRIu64 ": %s\n", o->tag, coney_status_text(o->status));
}

int main(int argc, char **argv)
{
    const char *stream = argc > 1 ? argv[1] : "invoices";
    const uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;

    coney_call call = {0};
    coney_stream_env *env = coney_stream_env_open(argc > 3 ? argv[3] : "rabbitmq-stream://localhost", NULL, &call);
    if (env == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    if (coney_stream_create(env, stream, &(coney_stream_spec){.max_length = 5 * CONEY_GIB, .if_missing = true}, &call) !=
        CONEY_OK)
        return fprintf(stderr, "%s\n", call.text), 1;
    coney_stream_producer *producer =
        coney_stream_producer_open(env, stream, &(coney_stream_producer_options){.on_outcome = on_outcome}, &call);
    if (producer == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    coney_status status = CONEY_OK;
    for (uint64_t i = 0; i < count && status == CONEY_OK; i++)
        status = coney_stream_send(producer, CONEY_STR("hello"), i); /* on its way before the next line runs */
    if (status != CONEY_OK)
        fprintf(stderr, "not sent: %s\n", coney_status_text(status));

    coney_stream_producer_close(&producer, &call); /* every message has had its outcome */
    uint64_t unconfirmed = call.value;
    coney_stream_env_close(&env, NULL);
    return status == CONEY_OK && unconfirmed == 0 ? 0 : 1;
}
