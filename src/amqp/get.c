/* get.c: one message by basic.get, on a lent channel, which it keeps until it is settled. */
#include "amqp/kept.h"
#include "amqp/loan.h"
#include "base/text.h"
#include "base/time.h"
#include "core/options.h"
#include "proto/amqp091/settle.h"

#include <stdlib.h>

/* One call, and the message that it brought. References: the call's; one while the channel is lent; one of the message's until it is settled. */
struct get {
    struct op op;
    struct coney_amqp *amqp;
    char *queue;
    coney_kept **place; /* the user's, for the message */
    struct amqp_kept *message;
    struct topology_call call; /* waits for the topology */
    struct loan loan;
    bool lent;
    uint64_t tag;
    struct task settle_task;
    struct timer retry_timer;

    struct lock lock; /* guards what follows */
    bool gone;        /* the channel, and with it the message: nothing is posted to the loop any more */
    coney_settle how;
};

static struct get *of_op(struct op *op)
{
    return container_of(op, struct get, op);
}

static struct get *of_loan(struct loan *loan)
{
    return container_of(loan, struct get, loan);
}

static void get_free(struct op *op)
{
    struct get *get = of_op(op);
    env_unref(&get->amqp->env);
    free(get->queue);
    free(get);
}

static void give_back(struct get *get, bool clean)
{
    if (!get->lent)
        return;
    get->lent = false;
    lock_acquire(&get->lock);
    get->gone = true;
    lock_release(&get->lock);
    loop_timer_unset(get->op.loop, &get->retry_timer);
    loan_end(&get->loan, clean);
    op_unref(&get->op);
}

/* Settling -------------------------------------------------------------------------------------------------------------- */

static void write_settlement(struct get *get, coney_settle how)
{
    uint8_t frame[AMQP_SETTLE_BYTES];
    struct channel *channel = get->loan.channel;
    if (how == CONEY_ACK)
        amqp_ack_write(frame, channel->number, get->tag, false);
    else
        amqp_reject_write(frame, channel->number, get->tag, how != CONEY_REJECT);
    link_write(channel->conn->conn.link, frame, sizeof frame);
    give_back(get, true);
}

static void run_settle(struct task *task)
{
    struct get *get = container_of(task, struct get, settle_task);
    if (get->lent && get->how > 0)
        loop_timer_set(get->op.loop, &get->retry_timer, time_after(time_now(), get->how));
    else if (get->lent)
        write_settlement(get, get->how);
    op_unref(&get->op);
}

static void run_retry(struct timer *timer)
{
    write_settlement(container_of(timer, struct get, retry_timer), CONEY_REQUEUE);
}

static coney_status settle(struct coney_kept *head, coney_settle how)
{
    struct amqp_kept *kept = amqp_kept_of(head);
    struct get *get = kept->origin;
    if (kept->fork != fork_generation()) {
        amqp_kept_free(kept);
        return CONEY_EFORKED;
    }
    coney_status status = (coney_status)atomic_load(&get->amqp->env.open) == CONEY_OK ? CONEY_ELOST : CONEY_ECLOSED;
    lock_acquire(&get->lock);
    bool posted = !get->gone;
    get->how = how;
    if (posted)
        loop_post(get->op.loop, &get->settle_task); /* which drops the message's reference */
    lock_release(&get->lock);
    amqp_kept_free(kept);
    if (posted)
        return CONEY_OK;
    op_unref(&get->op);
    return status;
}

/* The answer ------------------------------------------------------------------------------------------------------------ */

static void give_message(struct op *op)
{
    struct get *get = of_op(op);
    *get->place = &get->message->kept.head;
}

static void take_message(struct get *get, const struct amqp_basic_get_ok *ok, const struct channel_content *content)
{
    struct amqp_kept *kept = amqp_kept_new(content->block, content->at, content->len, settle);
    if (kept == NULL) {
        op_end(&get->op, CONEY_ENOMEM, 0, 0, NULL);
        give_back(get, false);
        return;
    }
    op_ref(&get->op);
    get->tag = ok->delivery_tag;
    kept->origin = get;
    kept->delivery.queue = get->queue;
    get->message = kept;
    if (op_end_giving(&get->op, ok->messages, give_message))
        return;
    amqp_kept_free(kept);
    give_back(get, false);
    op_unref(&get->op);
}

static void answered(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                     const struct channel_content *content, const char *text)
{
    struct get *get = ctx;
    if (status == CONEY_OK && answer->id == AMQP_BASIC_GET_OK) {
        take_message(get, &answer->basic_get_ok, content);
    } else if (status == CONEY_OK) {
        op_end(&get->op, CONEY_OK, 0, 0, NULL);
        give_back(get, true);
    } else {
        char why[TEXT_CAP];
        text_print(why, sizeof why, "no message can be had from queue '%s': %s", get->queue, text);
        op_end(&get->op, status, code, 0, why);
        if (status == CONEY_ETIMEDOUT)
            give_back(get, false); /* otherwise `failed` follows */
    }
}

/* The way to it ----------------------------------------------------------------------------------------------------------- */

static void ready(struct loan *loan)
{
    struct get *get = of_loan(loan);
    struct amqp_method request = {.id = AMQP_BASIC_GET,
                                  .basic_get.queue = coney_bytes_str(topology_queue_name(get->amqp, get->queue))};
    if (channel_request(loan->channel, &request, get->op.deadline, answered, get))
        return;
    op_end(&get->op, CONEY_ENOMEM, 0, 0, NULL);
    give_back(get, true);
}

static void failed(struct loan *loan, coney_status status, uint16_t code, const char *text)
{
    struct get *get = of_loan(loan);
    op_end(&get->op, status, code, 0, text);
    give_back(get, false);
}

static void borrow(struct get *get)
{
    struct amqp_conn *conn = topology_queue_conn(get->amqp, get->queue);
    op_ref(&get->op);
    get->lent = true;
    get->loan.ready = ready;
    get->loan.failed = failed;
    loan_start(&get->loan, get->amqp, conn != NULL ? PURPOSE_CONSUME : PURPOSE_CONTROL, conn);
}

static void go_on(struct topology_call *call)
{
    struct get *get = container_of(call, struct get, call);
    if (get->amqp->env.closing == NULL)
        borrow(get);
    else
        op_end(&get->op, CONEY_ECLOSED, 0, 0, NULL);
}

static void begin(struct op *op)
{
    struct get *get = of_op(op);
    if (topology_is_ready_for(get->amqp, &get->call))
        borrow(get);
}

static void abandon(struct op *op)
{
    struct get *get = of_op(op);
    list_remove(&get->call.waiting);
    give_back(get, false);
}

coney_status coney_amqp_get(coney_amqp *rabbit, const char *queue, coney_kept **kept, coney_call *call)
{
    coney_status status = env_check(rabbit != NULL ? &rabbit->env : NULL, call);
    if (status == CONEY_OK)
        status = name_check("queue", queue, AMQP_SHORT_MAX, call);
    if (status == CONEY_OK && kept == NULL)
        status = op_refuse(call, CONEY_EINVAL, "there is no place for the message: `kept` is NULL");
    if (status != CONEY_OK)
        return status;
    *kept = NULL;
    struct get *get = calloc(1, sizeof *get);
    if (get == NULL || (get->queue = strdup(queue)) == NULL) {
        free(get);
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    }
    op_init(&get->op, rabbit->env.loop, begin, abandon, get_free);
    (void)env_ref(&rabbit->env);
    get->amqp = rabbit;
    get->place = kept;
    get->call.go_on = go_on;
    get->settle_task.run = run_settle;
    get->retry_timer.fire = run_retry;
    list_init(&get->call.waiting);
    return op_run(&get->op, call, rabbit->env.settings.call_deadline);
}
