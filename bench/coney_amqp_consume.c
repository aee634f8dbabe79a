/* coney_amqp_consume.c: a queue that is read to its end, a handler call and a settlement for each message. */
#include "coney_amqp_side.h"

/* The handler's until `done`. The clock runs from the first message to the last. */
struct reading {
    uint64_t messages;
    uint64_t due; /* the next message whose time is taken: 1, then the last */
    uint64_t bytes;
    uint64_t count;
    uint64_t start;
    uint64_t end;
    sem_t done;
};

/* Apart, so that the handler of every other message saves no registers. */
__attribute__((noinline, cold)) static coney_settle first_or_last(struct reading *reading)
{
    if (reading->messages == 1)
        reading->start = now_ns();
    if (reading->messages == reading->count) {
        reading->end = now_ns();
        sem_post(&reading->done);
    }
    reading->due = reading->count;
    return CONEY_ACK;
}

static coney_settle count_message(void *ctx, const coney_amqp_delivery *delivery)
{
    struct reading *reading = ctx;
    reading->bytes += delivery->body.len;
    return __builtin_expect(++reading->messages == reading->due, 0) ? first_or_last(reading) : CONEY_ACK;
}

void coney_amqp_consume(const struct options *o)
{
    if (o->count == 0)
        die("--count (the messages that are in the queue) must be at least 1");
    struct reading reading = {.due = 1, .count = o->count};
    sem_init(&reading.done, 0, 0);
    coney_amqp *rabbit = rabbit_open(o);
    coney_amqp_consumer_options options = {.on_delivery = count_message,
                                           .ctx = &reading,
                                           .prefetch = (int64_t)o->prefetch,
                                           .ack_run = o->ack_each ? 1 : 0,
                                           .on_loop = o->on_loop != 0};
    coney_amqp_consumer *consumer = rabbit_consumer(rabbit, given_queue(o), &options);
    side_await(&reading.done);
    let_acks_arrive();
    rabbit_close_consumer(&consumer);
    rabbit_close(&rabbit);
    sem_destroy(&reading.done);
    if (reading.messages != o->count || reading.bytes != o->count * o->size)
        die("the queue has other messages than --count of --size");
    print_rate("coney", "consume", "consumed_per_second", o->size, o->count, reading.end - reading.start);
}
