/* raw_queue.c: what waits to be written on a raw channel, in the order of the calls. */
#include "amqp/raw.h"

#include <stdlib.h>

#define PORTION ((size_t)256 << 10) /* handed to the link at a time */

struct raw_item *raw_item_new(size_t len)
{
    struct raw_item *item = malloc(sizeof *item + len);
    if (item == NULL)
        return NULL;
    *item = (struct raw_item){.len = len};
    list_init(&item->in_channel);
    return item;
}

static void free_item(struct raw_item *item)
{
    if (item->op != NULL)
        op_unref(&item->op->op);
    free(item);
}

static struct raw_item *first_item(struct coney_amqp_channel *channel)
{
    return container_of(channel->items.next, struct raw_item, in_channel);
}

/* The lock is held. A reference goes with the task until it has run and found nothing to wait for. */
static void wake_locked(struct coney_amqp_channel *channel)
{
    if (channel->pumping)
        return;
    channel->pumping = true;
    raw_ref(channel);
    loop_post(channel->amqp->env.loop, &channel->pump.task);
}

void raw_append_locked(struct coney_amqp_channel *channel, struct raw_item *item, struct raw_op *op)
{
    if (op != NULL)
        op_ref(&op->op);
    item->op = op;
    channel->queued += item->len;
    list_append(&channel->items, &item->in_channel);
    if (op == NULL)
        wake_locked(channel);
}

void raw_take_back(struct coney_amqp_channel *channel, struct raw_op *op)
{
    struct raw_item *found = NULL;
    lock_acquire(&channel->lock);
    for (struct list *at = channel->items.next; at != &channel->items && found == NULL; at = at->next)
        if (container_of(at, struct raw_item, in_channel)->op == op)
            found = container_of(at, struct raw_item, in_channel);
    if (found != NULL) {
        list_remove(&found->in_channel);
        channel->queued -= found->len;
    }
    lock_release(&channel->lock);
    if (found != NULL)
        free_item(found);
}

/* The oldest item, if its turn has come: its call has begun, or it has none. */
static struct raw_item *next_item(struct coney_amqp_channel *channel)
{
    lock_acquire(&channel->lock);
    struct raw_item *item = list_empty(&channel->items) ? NULL : first_item(channel);
    if (item != NULL && item->op != NULL && !item->op->begun && !op_ended(&item->op->op))
        item = NULL;
    lock_release(&channel->lock);
    return item;
}

static void drop_item(struct coney_amqp_channel *channel, struct raw_item *item)
{
    lock_acquire(&channel->lock);
    list_remove(&item->in_channel);
    channel->queued -= item->len;
    lock_release(&channel->lock);
    free_item(item);
}

/* Whole frames of the item, up to `most` bytes but one frame at least; returns how many bytes. */
static size_t write_portion(struct coney_amqp_channel *channel, struct raw_item *item, size_t most)
{
    size_t from = item->at;
    do
        item->at += AMQP_FRAME_BYTES + load32(item->frames + item->at + 3);
    while (item->at < item->len && item->at - from < most);
    link_write(channel->loan.conn->conn.link, item->frames + from, item->at - from);
    return item->at - from;
}

/* The item's call, if it has one, waits from here on. False: it has ended already, or ends here. */
static bool expect_answer(struct coney_amqp_channel *channel, struct raw_item *item)
{
    struct raw_op *op = item->op;
    if (op == NULL || item->at > 0)
        return true;
    if (op_ended(&op->op))
        return false;
    if (!channel_expect(channel->loan.channel, op->id, INT64_MAX, raw_answered, op)) {
        op_end(&op->op, CONEY_ENOMEM, 0, 0, NULL);
        return false;
    }
    op_ref(&op->op);
    list_append(&channel->sent, &op->in_sent);
    return true;
}

static void close_item(struct coney_amqp_channel *channel, struct raw_item *item)
{
    struct raw_op *op = item->op;
    op_ref(&op->op);
    drop_item(channel, item);
    raw_close(channel, op, CONEY_OK);
    op_unref(&op->op);
}

static void wait_for_socket(struct coney_amqp_channel *channel)
{
    lock_acquire(&channel->lock);
    bool waits = channel->pumping;
    channel->pumping = true;
    lock_release(&channel->lock);
    if (waits)
        return; /* the task is posted: it comes back here */
    raw_ref(channel);
    amqp_conn_pump(channel->loan.conn, &channel->pump);
}

void raw_go_on(struct coney_amqp_channel *channel)
{
    size_t budget = PORTION;
    struct raw_item *item;
    while (channel->loan.channel != NULL && (item = next_item(channel)) != NULL) {
        if (item->op != NULL && item->op->kind == RAW_CLOSE) {
            close_item(channel, item);
            return;
        }
        if (budget == 0 || link_is_blocked(channel->loan.conn->conn.link)) {
            wait_for_socket(channel);
            return;
        }
        if (!expect_answer(channel, item)) {
            drop_item(channel, item);
            continue;
        }
        size_t written = write_portion(channel, item, budget);
        budget -= written < budget ? written : budget;
        if (item->at == item->len)
            drop_item(channel, item);
    }
}

void raw_pump(struct task *task)
{
    struct amqp_pump *pump = container_of(task, struct amqp_pump, task);
    struct coney_amqp_channel *channel = container_of(pump, struct coney_amqp_channel, pump);
    lock_acquire(&channel->lock);
    channel->pumping = false;
    lock_release(&channel->lock);
    raw_go_on(channel);
    raw_unref(channel);
}

void raw_begin(struct op *op)
{
    struct raw_op *raw = container_of(op, struct raw_op, op);
    struct coney_amqp_channel *channel = raw->channel;
    lock_acquire(&channel->lock);
    raw->begun = true;
    lock_release(&channel->lock);
    raw_go_on(channel);
    if (channel->loan.channel == NULL)
        raw_end(channel);
}

/* Queued items whose call has begun, or that have none, leave; what is not begun finds the channel's end by itself. */
static struct raw_item *take_any(struct coney_amqp_channel *channel)
{
    struct raw_item *found = NULL;
    lock_acquire(&channel->lock);
    for (struct list *at = channel->items.next; at != &channel->items && found == NULL; at = at->next) {
        struct raw_item *item = container_of(at, struct raw_item, in_channel);
        if (item->op == NULL || item->op->begun || op_ended(&item->op->op))
            found = item;
    }
    if (found != NULL) {
        list_remove(&found->in_channel);
        channel->queued -= found->len;
    }
    lock_release(&channel->lock);
    return found;
}

void raw_end_sent(struct coney_amqp_channel *channel, coney_status status, uint32_t code, const char *text)
{
    for (struct list *at = list_take(&channel->sent); at != NULL; at = list_take(&channel->sent)) {
        struct raw_op *op = container_of(at, struct raw_op, in_sent);
        op_end(&op->op, status, code, 0, text);
        op_unref(&op->op);
    }
}

void raw_end(struct coney_amqp_channel *channel)
{
    coney_call why = {0};
    coney_status status = raw_check(channel, &why);
    raw_end_sent(channel, status, why.code, why.text);
    for (struct raw_item *item = take_any(channel); item != NULL; item = take_any(channel)) {
        if (item->op != NULL && item->op->kind == RAW_CLOSE)
            raw_close(channel, item->op, CONEY_OK);
        else if (item->op != NULL)
            op_end(&item->op->op, status, why.code, 0, why.text);
        free_item(item);
    }
}
