/* raw.c: coney_amqp_channel from its opening to its end. */
#include "amqp/raw.h"

#include "base/text.h"

#include <stdlib.h>

void raw_ref(struct coney_amqp_channel *channel)
{
    atomic_fetch_add(&channel->refs, 1);
}

void raw_unref(struct coney_amqp_channel *channel)
{
    if (atomic_fetch_sub(&channel->refs, 1) > 1)
        return;
    for (struct list *at = list_take(&channel->items); at != NULL; at = list_take(&channel->items))
        free(container_of(at, struct raw_item, in_channel));
    env_unref(&channel->amqp->env);
    free(channel);
}

static struct raw_op *raw_of(struct op *op)
{
    return container_of(op, struct raw_op, op);
}

static void free_op(struct op *op)
{
    raw_unref(raw_of(op)->channel);
    free(raw_of(op));
}

struct raw_op *raw_op_new(struct coney_amqp_channel *channel, enum raw_op_kind kind, void (*begin)(struct op *op))
{
    struct raw_op *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return NULL;
    op_init(&raw->op, channel->amqp->env.loop, begin, NULL, free_op);
    raw->kind = kind;
    raw->channel = channel;
    list_init(&raw->in_sent);
    raw_ref(channel);
    return raw;
}

coney_status raw_check(struct coney_amqp_channel *channel, coney_call *call)
{
    char text[TEXT_CAP];
    lock_acquire(&channel->lock);
    coney_status status = channel->status;
    uint32_t code = channel->code;
    text_print(text, sizeof text, "%s", channel->text);
    lock_release(&channel->lock);
    if (status == CONEY_OK)
        return CONEY_OK;
    op_refuse(call, status, "%s", text[0] != '\0' ? text : coney_status_text(status));
    if (call != NULL)
        call->code = code;
    return status;
}

/* What every use answers from here on, unless it is over already. */
static void set_over(struct coney_amqp_channel *channel, coney_status status, uint32_t code, const char *text)
{
    lock_acquire(&channel->lock);
    if (channel->status == CONEY_OK || channel->status == CONEY_EAGAIN) {
        channel->status = status;
        channel->code = code;
        text_print(channel->text, sizeof channel->text, "%s", text);
    }
    lock_release(&channel->lock);
}

/* The environment lets go of it. */
static void unlist(struct coney_amqp_channel *channel)
{
    if (list_empty(&channel->handle.in_env))
        return;
    list_remove(&channel->handle.in_env);
    raw_unref(channel);
}

/* It cannot be opened. A constructor that blocks has not given its handle out: nothing of it is left on the loop. */
static void end_opening(struct coney_amqp_channel *channel, struct op *opening, coney_status status, uint32_t code,
                        const char *text)
{
    if (opening->waited_for)
        unlist(channel);
    op_end(opening, status, code, 0, text);
}

/* From here on there is a handle to be closed, also of a constructor that blocks, unless its thread has given up. */
static void give_handle(struct coney_amqp_channel *channel, struct op *opening)
{
    bool blocks = opening->waited_for;
    if (blocks)
        atomic_store(&channel->handle_closed, false);
    if (!op_end(opening, CONEY_OK, 0, 0, NULL) && blocks)
        atomic_store(&channel->handle_closed, true);
}

/* The loan's callbacks -------------------------------------------------------------------------------------------- */

static void ready(struct loan *loan)
{
    struct coney_amqp_channel *channel = container_of(loan, struct coney_amqp_channel, loan);
    struct op *opening = channel->opening;
    channel->opening = NULL;
    lock_acquire(&channel->lock);
    channel->number = loan->channel->number;
    channel->payload_max = amqp_payload_max(loan->conn->conn.frame_max);
    if (channel->status == CONEY_EAGAIN)
        channel->status = CONEY_OK;
    lock_release(&channel->lock);
    if (opening != NULL)
        give_handle(channel, opening);
}

static void failed(struct loan *loan, coney_status status, uint16_t code, const char *text)
{
    struct coney_amqp_channel *channel = container_of(loan, struct coney_amqp_channel, loan);
    struct op *opening = channel->opening;
    raw_ref(channel);
    channel->opening = NULL;
    set_over(channel, status, code, text);
    raw_end(channel);
    if (opening != NULL)
        end_opening(channel, opening, status, code, text);
    else if (channel->options.on_closed != NULL && !atomic_load(&channel->handle_closed))
        channel->options.on_closed(channel->options.ctx, status, code, text);
    raw_unref(channel);
}

static const char *content(struct loan *loan, struct block *block, const uint8_t *at, size_t len)
{
    struct coney_amqp_channel *channel = container_of(loan, struct coney_amqp_channel, loan);
    struct amqp_unit unit;
    struct amqp_method method;
    (void)block;
    if (!amqp_unit_read(at, len, &unit))
        return "content";
    const char *field = amqp_decode(unit.method, &method);
    if (field == NULL)
        raw_tell(channel, &method, &unit);
    return field;
}

static void method(struct loan *loan, const struct amqp_method *method)
{
    raw_tell(container_of(loan, struct coney_amqp_channel, loan), method, NULL);
}

/* Opening --------------------------------------------------------------------------------------------------------- */

static void open_begin(struct op *op)
{
    struct coney_amqp_channel *channel = raw_of(op)->channel;
    struct coney_amqp *amqp = channel->amqp;
    raw_ref(channel);
    list_append(&amqp->handles, &channel->handle.in_env);
    if (atomic_load(&amqp->env.open) != CONEY_OK) {
        set_over(channel, CONEY_ECLOSED, 0, "");
        end_opening(channel, op, CONEY_ECLOSED, 0, "the environment is being closed");
        return;
    }
    channel->opening = op;
    loan_start(&channel->loan, amqp, channel->options.consuming ? PURPOSE_CONSUME : PURPOSE_CONTROL, NULL);
}

static void open_abandon(struct op *op)
{
    struct coney_amqp_channel *channel = raw_of(op)->channel;
    channel->opening = NULL;
    set_over(channel, CONEY_ECLOSED, 0, "");
    loan_end(&channel->loan, false);
    if (op->waited_for)
        unlist(channel);
}

static void abandon(struct amqp_handle *handle)
{
    struct coney_amqp_channel *channel = container_of(handle, struct coney_amqp_channel, handle);
    set_over(channel, CONEY_ECLOSED, 0, "");
    raw_end(channel);
    if (!atomic_exchange(&channel->handle_closed, true))
        raw_unref(channel);
    raw_unref(channel); /* the loop's */
}

static struct coney_amqp_channel *channel_new(coney_amqp *rabbit, const coney_amqp_channel_options *options)
{
    struct coney_amqp_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL)
        return NULL;
    channel->amqp = amqp_of(env_ref(&rabbit->env));
    channel->options = *options;
    channel->status = CONEY_EAGAIN;
    channel->handle.abandon = abandon;
    channel->pump.task.run = raw_pump;
    channel->loan.ready = ready;
    channel->loan.failed = failed;
    channel->loan.content = content;
    channel->loan.method = method;
    atomic_store(&channel->refs, 1);
    list_init(&channel->handle.in_env);
    list_init(&channel->pump.in_conn);
    list_init(&channel->items);
    list_init(&channel->sent);
    return channel;
}

coney_amqp_channel *coney_amqp_channel_open_sized(coney_amqp *rabbit, const coney_amqp_channel_options *user_options,
                                                  size_t options_size, coney_call *call)
{
    coney_amqp_channel_options options = {0};
    if (env_check(rabbit != NULL ? &rabbit->env : NULL, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK)
        return NULL;
    if (reserved_check(options.reserved, sizeof options.reserved) != CONEY_OK) {
        op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
        return NULL;
    }
    struct coney_amqp_channel *channel = channel_new(rabbit, &options);
    struct raw_op *raw = channel != NULL ? raw_op_new(channel, RAW_OPEN, open_begin) : NULL;
    if (raw == NULL) {
        if (channel != NULL)
            raw_unref(channel);
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    raw->op.abandon = open_abandon;
    atomic_store(&channel->handle_closed, call == NULL || call->on_done == NULL);
    if (op_run(&raw->op, call, rabbit->env.settings.call_deadline) == CONEY_OK)
        return channel;
    raw_unref(channel);
    return NULL;
}

/* Closing --------------------------------------------------------------------------------------------------------- */

void raw_close(struct coney_amqp_channel *channel, struct raw_op *op, coney_status status)
{
    struct op *opening = channel->opening;
    channel->opening = NULL;
    loan_end(&channel->loan, false);
    raw_end_sent(channel, CONEY_ECLOSED, 0, "the channel was closed");
    if (opening != NULL)
        op_end(opening, CONEY_ECLOSED, 0, 0, "the channel was closed");
    op_end(&op->op, status, 0, 0, NULL);
    unlist(channel);
}

/* A close takes place, also when the socket did not take what stood before it in the queue. */
static void close_expire(struct op *op, coney_status status)
{
    struct raw_op *raw = raw_of(op);
    raw_take_back(raw->channel, raw);
    raw_close(raw->channel, raw, status);
}

static void close_free(struct op *op)
{
    struct coney_amqp_channel *channel = raw_of(op)->channel;
    raw_unref(channel); /* the user's */
    free_op(op);
}

coney_status coney_amqp_channel_close(coney_amqp_channel **handle, coney_call *call)
{
    struct coney_amqp_channel *channel = handle != NULL ? *handle : NULL;
    if (channel == NULL)
        return CONEY_OK;
    if (channel->amqp->env.fork != fork_generation()) {
        *handle = NULL; /* the parent's loop may hold its lock: nothing of the copy can be freed safely */
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    }
    if (op_check(call) != CONEY_OK)
        return CONEY_EINVAL;
    struct raw_op *raw = raw_op_new(channel, RAW_CLOSE, raw_begin);
    struct raw_item *item = raw_item_new(0);
    if (raw == NULL || item == NULL) {
        free(item);
        if (raw != NULL)
            op_unref(&raw->op);
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    }
    if (atomic_exchange(&channel->handle_closed, true)) {
        free(item);
        op_unref(&raw->op);
        return op_refuse(call, CONEY_ECLOSED, "it is being closed already");
    }
    *handle = NULL;
    set_over(channel, CONEY_ECLOSED, 0, "the channel was closed");
    raw->op.free = close_free;
    raw->op.expire = close_expire;
    raw->op.detached = loop_is_current(channel->amqp->env.loop);
    lock_acquire(&channel->lock);
    raw_append_locked(channel, item, raw);
    lock_release(&channel->lock);
    return op_run(&raw->op, call, channel->amqp->env.settings.call_deadline);
}
