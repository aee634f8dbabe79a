/* wait.c: calls that wait for a producer's outcomes: send_wait for one message, flush for all that were accepted before it. */
#include "base/text.h"
#include "stream/producer.h"

#include <stdlib.h>

struct wait_op {
    struct op op;
    struct coney_stream_producer *producer;
    struct list waiting; /* in held_sends or flushes */
    uint64_t target;     /* flush: the head that it waits for */
    size_t len;          /* send_wait: the body */
    uint8_t body[];
};

static struct wait_op *of_link(struct list *link)
{
    return container_of(link, struct wait_op, waiting);
}

static void wait_free(struct op *op)
{
    struct wait_op *wait = container_of(op, struct wait_op, op);
    member_unref(&wait->producer->member);
    free(wait);
}

static void wait_abandon(struct op *op)
{
    struct wait_op *wait = container_of(op, struct wait_op, op);
    if (list_empty(&wait->waiting))
        return;
    list_remove(&wait->waiting);
    op_unref(op);
}

static coney_status wait_run(struct coney_stream_producer *producer, coney_bytes body, void (*begin)(struct op *),
                             coney_call *call)
{
    if (producer == NULL)
        return op_refuse(call, CONEY_EINVAL, "the producer is NULL: it was never opened, or is closed");
    if (producer->fork != fork_generation())
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    if (body.len > UINT32_MAX)
        return op_refuse(call, CONEY_ETOOBIG, "a body of %zu bytes fits no frame", body.len);
    struct wait_op *wait = calloc(1, sizeof *wait + body.len);
    if (wait == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    op_init(&wait->op, producer->member.env->loop, begin, wait_abandon, wait_free);
    wait->producer = producer;
    member_ref(&producer->member);
    list_init(&wait->waiting);
    wait->len = body.len;
    if (body.len > 0)
        memcpy(wait->body, body.data, body.len);
    return op_run(&wait->op, call, producer->member.env->settings.call_deadline);
}

/* The message was not accepted. */
static void send_refused(struct wait_op *wait, coney_status status)
{
    char text[TEXT_CAP] = "";
    if (status == CONEY_ETOOBIG)
        text_print(text, sizeof text,
                   "a body of %zu bytes does not fit: with its headers a message may take %zu bytes, since the connection's "
                   "frame_max is %u",
                   wait->len, wait->producer->max_entry,
                   (unsigned)(wait->producer->max_entry + PUBLISH_HEADER_BYTES - STREAM_SIZE_BYTES));
    op_end(&wait->op, status, 0, 0, text);
}

static void send_begin(struct op *op)
{
    struct wait_op *wait = container_of(op, struct wait_op, op);
    struct coney_stream_producer *producer = wait->producer;
    coney_status status = CONEY_EAGAIN; /* behind those that wait already */
    if (list_empty(&producer->held_sends))
        status = producer_send_for(producer, coney_bytes_of(wait->body, wait->len), op);
    if (status == CONEY_EAGAIN) {
        op_ref(op);
        list_append(&producer->held_sends, &wait->waiting);
    } else if (status != CONEY_OK) {
        send_refused(wait, status);
    }
}

coney_status coney_stream_send_wait(coney_stream_producer *producer, coney_bytes body, coney_call *call)
{
    return wait_run(producer, body, send_begin, call);
}

void producer_retry_held(struct coney_stream_producer *producer)
{
    while (!list_empty(&producer->held_sends)) {
        struct wait_op *wait = of_link(producer->held_sends.next);
        coney_status status = producer_send_for(producer, coney_bytes_of(wait->body, wait->len), &wait->op);
        if (status == CONEY_EAGAIN)
            return;
        list_remove(&wait->waiting);
        if (status != CONEY_OK)
            send_refused(wait, status);
        op_unref(&wait->op);
    }
}

void producer_fail_held(struct coney_stream_producer *producer)
{
    for (struct list *at = list_take(&producer->held_sends); at != NULL; at = list_take(&producer->held_sends)) {
        struct wait_op *wait = of_link(at);
        op_end(&wait->op, CONEY_ECLOSED, 0, 0, NULL);
        op_unref(&wait->op);
    }
}

/* What was accepted until the loop came round counts, which is at least what was accepted before the call. */
static void flush_begin(struct op *op)
{
    struct wait_op *wait = container_of(op, struct wait_op, op);
    struct outbox *outbox = &wait->producer->outbox;
    wait->target = atomic_load(&outbox->tail);
    if (atomic_load(&outbox->head) >= wait->target) {
        op_end(op, CONEY_OK, 0, 0, NULL);
        return;
    }
    op_ref(op);
    list_append(&wait->producer->flushes, &wait->waiting);
}

coney_status coney_stream_producer_flush(coney_stream_producer *producer, coney_call *call)
{
    return wait_run(producer, (coney_bytes){0}, flush_begin, call);
}

void producer_end_flushes(struct coney_stream_producer *producer)
{
    uint64_t head = atomic_load_explicit(&producer->outbox.head, memory_order_relaxed);
    while (!list_empty(&producer->flushes) && of_link(producer->flushes.next)->target <= head) {
        struct wait_op *wait = of_link(producer->flushes.next);
        list_remove(&wait->waiting);
        op_end(&wait->op, CONEY_OK, 0, 0, NULL);
        op_unref(&wait->op);
    }
}
