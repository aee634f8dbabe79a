/* floor_amqp_consume.c: a queue that is read to its end, and one message at a time through a queue. */
#include "floor_amqp.h"

#include <stdlib.h>

/* A consumer on channel 1 and the delivery that it is at. */
struct consumer {
    struct wire wire;
    uint64_t tag;
    uint64_t left;    /* bytes of the body that have not come */
    uint64_t created; /* the first 8 bytes of the body, where it has so many */
};

static void take_header(struct consumer *c, const struct amqp_frame *frame)
{
    c->left = get64(frame->payload + AMQP_CONTENT_SIZE);
    c->created = 0;
}

static void take_body(struct consumer *c, const struct amqp_frame *frame)
{
    if (frame->len > c->left)
        die("a body frame of %zu bytes where %zu are left", frame->len, (size_t)c->left);
    if (c->created == 0 && frame->len >= sizeof c->created)
        memcpy(&c->created, frame->payload, sizeof c->created);
    c->left -= frame->len;
}

/* The next delivery, if all of it is in the buffer; no system call. */
static bool take_delivery(struct consumer *c)
{
    struct amqp_frame frame;
    while (wire91_take(&c->wire, &frame)) {
        if (frame.method == BASIC_DELIVER) {
            const uint8_t *consumer_tag = frame.payload + AMQP_ARGUMENTS;
            c->tag = get64(consumer_tag + 1 + consumer_tag[0]);
            continue;
        }
        if (frame.type == AMQP_FRAME_HEADER)
            take_header(c, &frame);
        else if (frame.type == AMQP_FRAME_BODY)
            take_body(c, &frame);
        else
            die("method %u.%u where deliveries were due", frame.method >> 16, frame.method & 0xffff);
        if (c->left == 0)
            return true;
    }
    return false;
}

static void receive(struct consumer *c)
{
    wire_make_room(&c->wire, AMQP_FRAME_AROUND);
    wire_fill(&c->wire, 0);
}

/* Acks that are laid out and not yet written. */
struct acks {
    uint8_t *data;
    uint8_t *end;
    uint64_t open; /* deliveries that none of them names, in the mode of one ack for many */
};

static void acks_write(struct acks *acks, struct consumer *c, bool each)
{
    if (!each && acks->open > 0)
        acks->end = put_ack(acks->end, 1, c->tag, true);
    if (acks->end > acks->data)
        wire_write(&c->wire, acks->data, (size_t)(acks->end - acks->data));
    acks->end = acks->data;
    acks->open = 0;
}

/* Reads --count messages. Acks go out at a quarter of the prefetch, and before anything is waited for. The clock runs from the
 * first delivery to the last ack. */
static uint64_t consume_all(struct consumer *c, const struct options *o)
{
    uint64_t quarter = o->prefetch / 4 > 0 ? o->prefetch / 4 : 1, start = 0;
    struct acks acks = {.data = must_alloc(quarter * AMQP_ACK_SIZE)};
    acks.end = acks.data;
    for (uint64_t count = 0; count < o->count; acks_write(&acks, c, o->ack_each)) {
        receive(c);
        if (start == 0)
            start = now_ns();
        while (take_delivery(c)) {
            count++;
            if (o->ack_each)
                acks.end = put_ack(acks.end, 1, c->tag, false);
            if (++acks.open == quarter)
                acks_write(&acks, c, o->ack_each);
        }
    }
    uint64_t end = now_ns();
    free(acks.data);
    return end - start;
}

void amqp_floor_consume(const struct options *o)
{
    if (o->count == 0 || o->prefetch > UINT16_MAX)
        die("--count must be at least 1, and --prefetch fit 16 bits");
    struct consumer c = {.wire = wire91_open(o->uri)};
    wire91_consume(&c.wire, given_queue(o), (uint16_t)o->prefetch);
    uint64_t ns = consume_all(&c, o);
    let_acks_arrive();
    wire91_close(&c.wire);
    print_rate("floor", "consume", "consumed_per_second", o->size, o->count, ns);
}

/* One at a time ---------------------------------------------------------------------------------------------------- */

static void ack(struct consumer *c)
{
    uint8_t frame[AMQP_ACK_SIZE];
    put_ack(frame, 1, c->tag, false);
    wire_write(&c->wire, frame, sizeof frame);
}

/* Publishes one message with the time in its body, and reads its delivery and its confirm. */
static uint64_t round_trip(struct wire *publisher, struct consumer *c, const uint8_t *message, size_t len, uint8_t *body)
{
    uint64_t created = now_ns();
    memcpy(body, &created, sizeof created);
    wire_write(publisher, message, len);
    while (!take_delivery(c))
        receive(c);
    uint64_t ns = now_ns() - c->created;
    ack(c);
    wire91_expect(publisher, BASIC_ACK);
    return ns;
}

void amqp_floor_round_trip(const struct options *o)
{
    if (o->count == 0 || o->size < sizeof(uint64_t))
        die("--count must be at least 1, and --size 8");
    const char *queue = own_stream("floor");
    struct wire publisher = wire91_open(o->uri);
    wire91_declare(&publisher, queue, o->type);
    wire91_confirm_select(&publisher);
    struct consumer c = {.wire = wire91_open(o->uri)};
    wire91_consume(&c.wire, queue, (uint16_t)o->prefetch);
    uint8_t *message = must_alloc(1024 + o->size), *end = put_amqp_publish(message, queue, o->size);
    uint64_t warmup = o->count / 10;
    struct samples samples = samples_of(o->count + warmup);
    for (uint64_t i = 0; i < samples.cap; i++)
        sample_add(&samples, round_trip(&publisher, &c, message, (size_t)(end - message), end - 1 - o->size));
    wire91_delete(&publisher, queue);
    wire91_close(&publisher);
    wire91_close(&c.wire);
    print_latency("floor", "round-trip", &samples, warmup);
    samples_free(&samples);
    free(message);
}
