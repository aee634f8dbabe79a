/* coney_amqp_publish.c: as many confirmed messages a second as one publishing thread gets, a call and an outcome callback each. */
#include "coney_amqp_side.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct outcomes {
    uint64_t confirmed;
    uint64_t tag_sum;
};

static void note_outcome(void *ctx, const coney_outcome *outcome)
{
    struct outcomes *outcomes = ctx;
    if (outcome->status != CONEY_OK)
        die("message %" PRIu64 " was not confirmed: %s", outcome->tag, coney_status_text(outcome->status));
    outcomes->confirmed++;
    outcomes->tag_sum += outcome->tag;
}

/* Nanoseconds from the first call to the last outcome. */
static uint64_t publish_all(coney_amqp_publisher *publisher, const struct options *o)
{
    uint8_t *data = must_alloc(o->size);
    memset(data, 'x', o->size);
    coney_amqp_message message = {.body = coney_bytes_of(data, o->size)};
    coney_call call = {.deadline = 60 * CONEY_SECOND};
    uint64_t start = now_ns();
    for (; message.tag < o->count; message.tag++)
        rabbit_publish(publisher, &message);
    side_must(coney_amqp_publisher_flush(publisher, &call), &call);
    uint64_t end = now_ns();
    free(data);
    return end - start;
}

void coney_amqp_publishing(const struct options *o)
{
    struct outcomes outcomes = {0};
    coney_amqp *rabbit = rabbit_open(o);
    const char *queue = rabbit_queue(rabbit, o);
    coney_amqp_publisher_options options = {
        .routing_key = queue, .on_outcome = note_outcome, .ctx = &outcomes, .max_messages = (int64_t)o->window};
    coney_amqp_publisher *publisher = rabbit_publisher(rabbit, &options);
    uint64_t ns = publish_all(publisher, o);
    if (outcomes.confirmed != o->count || outcomes.tag_sum != o->count * (o->count - 1) / 2)
        die("the outcomes are not those of the messages that were sent");
    rabbit_close_publisher(&publisher);
    rabbit_delete(rabbit, queue);
    rabbit_close(&rabbit);
    print_rate("coney", "publish", "confirmed_per_second", o->size, o->count, ns);
}
