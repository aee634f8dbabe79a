/* Handles the messages of a queue, one call each, until a signal comes; what the handler returns settles the message.
 *
 *     amqp_consume [QUEUE [URI]]      default: orders amqp://localhost
 */
#include <coney/amqp.h>

#include <signal.h>
#include <stdio.h>

/* Runs on the dispatcher's thread: it may be slow, and may make blocking calls. */
static coney_settle on_order(void *ctx, const coney_amqp_delivery *d)
{
    (void)ctx;
    if (d->body.len == 0)
        return CONEY_REJECT; /* dropped, or dead-lettered where the queue says so */
    if (printf("%.*s\n", (int)d->body.len, (const char *)d->body.data) < 0)
        return coney_retry_after(5 * CONEY_SECOND);
    return CONEY_ACK;
}

int main(int argc, char **argv)
{
    const char *queue = argc > 1 ? argv[1] : "orders";
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);

    coney_call call = {0};
    coney_amqp *rabbit = coney_amqp_open(argc > 2 ? argv[2] : "amqp://localhost", NULL, &call);
    if (rabbit == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    coney_amqp_consumer *orders = NULL;
    if (coney_amqp_queue_declare(rabbit, &(coney_amqp_queue){.name = queue, .type = CONEY_QUEUE_QUORUM}, &call) == CONEY_OK)
        orders = coney_amqp_consumer_open(rabbit, queue,
                                          &(coney_amqp_consumer_options){.prefetch = 200, .on_delivery = on_order}, &call);
    if (orders == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    int number;
    sigwait(&ending, &number);
    coney_amqp_consumer_close(&orders, NULL); /* what no handler had goes back to the queue */
    coney_amqp_close(&rabbit, NULL);
    return 0;
}
