/* sender_wait.c: calls that wait for outcomes: one message with its outcome, and flush for all that were accepted before it. */
#include "base/text.h"
#include "core/sender_internal.h"

#include <stdlib.h>
#include <string.h>

struct wait_op {
    struct op op;
    struct sender *sender;
    struct list waiting; /* in held_sends or flushes */
    uint64_t target;     /* flush: the head that it waits for */
    size_t len;          /* of what is to be appended */
    uint8_t held[];
};

static struct wait_op *of_link(struct list *link)
{
    return container_of(link, struct wait_op, waiting);
}

static void wait_free(struct op *op)
{
    struct wait_op *wait = container_of(op, struct wait_op, op);
    member_unref(&wait->sender->member);
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

static coney_status wait_run(struct sender *sender, coney_bytes held, void (*begin)(struct op *), coney_call *call)
{
    if (sender == NULL)
        return op_refuse(call, CONEY_EINVAL, "the handle is NULL: it was never opened, or is closed");
    if (sender->fork != fork_generation())
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    if (held.len > UINT32_MAX)
        return op_refuse(call, CONEY_ETOOBIG, "a body of %zu bytes fits no frame", held.len);
    struct wait_op *wait = calloc(1, sizeof *wait + held.len);
    if (wait == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    op_init(&wait->op, sender->member.env->loop, begin, wait_abandon, wait_free);
    wait->sender = sender;
    member_ref(&sender->member);
    list_init(&wait->waiting);
    wait->len = held.len;
    if (held.len > 0)
        memcpy(wait->held, held.data, held.len);
    return op_run(&wait->op, call, sender->member.env->settings.call_deadline);
}

/* Queues the message, whose outcome goes to the op, which gets a reference. CONEY_EAGAIN: no room. */
static coney_status append(struct wait_op *wait)
{
    struct sender *sender = wait->sender;
    struct sender_visit visit = sender_enter(sender);
    bool wanted = sender->wants_room;
    coney_status status =
        sender->kind->append(&visit, coney_bytes_of(wait->held, wait->len), (uint64_t)(uintptr_t)&wait->op, SLOT_WAITED);
    if (status == CONEY_OK)
        op_ref(&wait->op);
    sender->wants_room = wanted; /* that there is room again is told to those who send by themselves */
    sender_leave(&visit);
    return status;
}

/* The message was not accepted. */
static void refused(struct wait_op *wait, coney_status status)
{
    char text[TEXT_CAP] = "";
    if (status == CONEY_ETOOBIG)
        wait->sender->kind->explain_size(wait->sender, coney_bytes_of(wait->held, wait->len), text, sizeof text);
    op_end(&wait->op, status, 0, 0, text);
}

static void send_begin(struct op *op)
{
    struct wait_op *wait = container_of(op, struct wait_op, op);
    struct sender *sender = wait->sender;
    coney_status status = CONEY_EAGAIN; /* behind those that wait already */
    if (list_empty(&sender->held_sends))
        status = append(wait);
    if (status == CONEY_EAGAIN) {
        op_ref(op);
        list_append(&sender->held_sends, &wait->waiting);
    } else if (status != CONEY_OK) {
        refused(wait, status);
    }
}

coney_status sender_run_send(struct sender *sender, coney_bytes held, coney_call *call)
{
    return wait_run(sender, held, send_begin, call);
}

void sender_retry_held(struct sender *sender)
{
    while (!list_empty(&sender->held_sends)) {
        struct wait_op *wait = of_link(sender->held_sends.next);
        coney_status status = append(wait);
        if (status == CONEY_EAGAIN)
            return;
        list_remove(&wait->waiting);
        if (status != CONEY_OK)
            refused(wait, status);
        op_unref(&wait->op);
    }
}

void sender_fail_held(struct sender *sender)
{
    for (struct list *at = list_take(&sender->held_sends); at != NULL; at = list_take(&sender->held_sends)) {
        struct wait_op *wait = of_link(at);
        op_end(&wait->op, CONEY_ECLOSED, 0, 0, NULL);
        op_unref(&wait->op);
    }
}

/* What was accepted until the loop came round counts, which is at least what was accepted before the call. */
static void flush_begin(struct op *op)
{
    struct wait_op *wait = container_of(op, struct wait_op, op);
    struct outbox *outbox = &wait->sender->outbox;
    wait->target = atomic_load(&outbox->tail);
    if (atomic_load(&outbox->head) >= wait->target) {
        op_end(op, CONEY_OK, 0, 0, NULL);
        return;
    }
    op_ref(op);
    list_append(&wait->sender->flushes, &wait->waiting);
}

coney_status sender_run_flush(struct sender *sender, coney_call *call)
{
    return wait_run(sender, (coney_bytes){0}, flush_begin, call);
}

void sender_end_flushes(struct sender *sender)
{
    uint64_t head = atomic_load_explicit(&sender->outbox.head, memory_order_relaxed);
    while (!list_empty(&sender->flushes) && of_link(sender->flushes.next)->target <= head) {
        struct wait_op *wait = of_link(sender->flushes.next);
        list_remove(&wait->waiting);
        op_end(&wait->op, CONEY_OK, 0, 0, NULL);
        op_unref(&wait->op);
    }
}
