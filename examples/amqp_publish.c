/* Publishes messages to a queue and knows what became of every one of them: stored, refused, or returned since no queue took it.
 *
 *     amqp_publish [QUEUE [COUNT [URI]]]      default: orders 100000 amqp://localhost
 */
#include <coney/amqp.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs on the library's loop, once for each message that publish accepted. */
static void on_outcome(void *ctx, const coney_outcome *o)
{
    (void)ctx;
    if (o->status != CONEY_OK)
        fprintf(stderr, "message %" PRIu64 ": %s %s\n", o->tag, coney_status_text(o->status), o->text);
}

int main(int argc, char **argv)
{
    const char *queue = argc > 1 ? argv[1] : "orders";
    const uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;

    coney_call call = {0};
    coney_amqp *rabbit = coney_amqp_open(argc > 3 ? argv[3] : "amqp://localhost", NULL, &call);
    if (rabbit == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    coney_amqp_publisher *orders = NULL;
    if (coney_amqp_queue_declare(rabbit, &(coney_amqp_queue){.name = queue, .type = CONEY_QUEUE_QUORUM}, &call) == CONEY_OK)
        orders = coney_amqp_publisher_open(
            rabbit, &(coney_amqp_publisher_options){.routing_key = queue, .on_outcome = on_outcome}, &call);
    if (orders == NULL)
        return fprintf(stderr, "%s\n", call.text), 1;

    coney_status status = CONEY_OK;
    for (uint64_t i = 0; i < count && status == CONEY_OK; i++) {
        char body[32];
        int len = snprintf(body, sizeof body, "{\"id\":%" PRIu64 "}", i);
        coney_amqp_message message = {/* persistent, confirmed and mandatory, unless told otherwise */
                                      .body = coney_bytes_of(body, (size_t)len),
                                      .content_type = CONEY_STR("application/json"),
                                      .tag = i};
        status = coney_amqp_publish(orders, &message);
    }
    if (status != CONEY_OK)
        fprintf(stderr, "not published: %s\n", coney_status_text(status));

    coney_amqp_publisher_close(&orders, &call); /* every message has had its outcome */
    uint64_t unconfirmed = call.value;
    coney_amqp_close(&rabbit, NULL);
    return status == CONEY_OK && unconfirmed == 0 ? 0 : 1;
}
