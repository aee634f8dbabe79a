/* tx.c: transactions: a channel in transaction mode, and its commit.
 *
 * A transaction is a sender without confirms whose place is never looked for again. What is published goes out at once; the commit waits until all of
 * it has left the process, since a request overtakes what is published. A rollback closes the channel, which rolls back.
 */
#include "amqp/publish_outlet.h"

#include "base/text.h"
#include "core/options.h"

#include <stdlib.h>

#define MOST_UNWRITTEN (1 << 20) /* messages that the connection has not taken yet */

struct coney_amqp_tx {
    struct outlet outlet;
    atomic_bool commit; /* how it is to end */
    atomic_bool ended;  /* it was asked to */

    /* On the loop. */
    struct tx_end *ending;
    bool sent; /* the commit is out */

    /* Why it ended without being asked to; CONEY_OK while it has not. */
    coney_status status;
    uint16_t code;
    char text[TEXT_CAP];
};

struct tx_end {
    struct op op;
    struct coney_amqp_tx *tx;
};

static struct coney_amqp_tx *of(struct member *member)
{
    return container_of(member, struct coney_amqp_tx, outlet.sender.member);
}

/* The end ----------------------------------------------------------------------------------------------------------- */

static void remember(struct coney_amqp_tx *tx, coney_status status, uint16_t code, const char *text)
{
    if (tx->status != CONEY_OK)
        return;
    tx->status = status;
    tx->code = code;
    text_print(tx->text, sizeof tx->text, "%s", text);
}

static void finish(struct coney_amqp_tx *tx, coney_status status, uint16_t code, const char *text)
{
    struct tx_end *end = tx->ending;
    struct member *member = &tx->outlet.sender.member;
    if (end == NULL)
        return;
    tx->ending = NULL;
    member_end(member, member_is_known(member));
    op_end(&end->op, status, code, 0, text);
    member_closed(member);
}

static void finish_lost(struct coney_amqp_tx *tx)
{
    if (!atomic_load(&tx->commit))
        finish(tx, CONEY_OK, 0, NULL);
    else if (tx->status != CONEY_OK)
        finish(tx, tx->status, tx->code, tx->text);
    else
        finish(tx, CONEY_ELOST, 0, "the connection was lost before the commit was sent: none of the messages was taken");
}

static void committed(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                      const struct channel_content *content, const char *text)
{
    struct coney_amqp_tx *tx = ctx;
    (void)answer;
    (void)content;
    if (status == CONEY_OK)
        finish(tx, CONEY_OK, 0, NULL);
    else if (code != 0 && status != CONEY_ELOST)
        remember(tx, status, code, text);
    else if (status != CONEY_ETIMEDOUT) /* the op's own deadline is the same */
        remember(tx, CONEY_EUNKNOWN, code, "the connection was lost after the commit was sent: it may have taken effect");
}

/* Sends the commit, once everything before it has been written. */
static void try_commit(struct coney_amqp_tx *tx)
{
    const struct amqp_method commit = {.id = AMQP_TX_COMMIT};
    const struct sender *sender = &tx->outlet.sender;
    if (tx->ending == NULL || tx->sent || sender->member.state != MEMBER_ACTIVE || outbox_pending(&sender->outbox) > 0)
        return;
    tx->sent = channel_request(tx->outlet.place.channel, &commit, tx->ending->op.deadline, committed, tx);
    if (!tx->sent)
        finish(tx, CONEY_ENOMEM, 0, NULL);
}

static void settled(struct outlet *outlet)
{
    try_commit(container_of(outlet, struct coney_amqp_tx, outlet));
}

static void end_begin(struct op *op)
{
    struct tx_end *end = container_of(op, struct tx_end, op);
    struct coney_amqp_tx *tx = end->tx;
    tx->ending = end;
    if (tx->outlet.sender.member.state == MEMBER_DEAD)
        finish_lost(tx);
    else if (!atomic_load(&tx->commit))
        finish(tx, CONEY_OK, 0, NULL);
    else
        try_commit(tx);
}

static void end_expire(struct op *op, coney_status status)
{
    struct coney_amqp_tx *tx = container_of(op, struct tx_end, op)->tx;
    finish(tx, status, 0,
           tx->sent ? "the commit was not answered in time: it may have taken effect"
                    : "the commit could not be sent in time: none of the messages was taken");
}

static void end_free(struct op *op)
{
    struct tx_end *end = container_of(op, struct tx_end, op);
    member_unref(&end->tx->outlet.sender.member);
    free(end);
}

static coney_status end(struct member *member, coney_call *call)
{
    struct coney_amqp_tx *tx = of(member);
    struct outbox *outbox = &tx->outlet.sender.outbox;
    struct tx_end *end = calloc(1, sizeof *end);
    if (end == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    atomic_store(&tx->ended, true);
    lock_acquire(&outbox->lock);
    atomic_store(&tx->outlet.sender.open, CONEY_ECLOSED);
    lock_release(&outbox->lock);
    end->tx = tx;
    member_ref(member);
    op_init(&end->op, member->env->loop, end_begin, NULL, end_free);
    end->op.expire = end_expire;
    end->op.detached = loop_is_current(member->env->loop);
    return op_run(&end->op, call, member->env->settings.call_deadline);
}

/* The place ------------------------------------------------------------------------------------------------------- */

static const char *content(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct amqp_unit unit;
    struct amqp_method method;
    (void)block;
    if (!amqp_unit_read(at, len, &unit))
        return "unit";
    const char *field = unit.id == AMQP_BASIC_RETURN ? amqp_decode(unit.method, &method) : "a transaction gets no deliveries";
    if (field == NULL)
        outlet_tell_returned(ctx, &method.basic_return);
    return field;
}

static void closed(void *ctx, coney_status status, uint16_t code, const char *text)
{
    struct member *member = ctx;
    if (member->conn != NULL && member->conn->state != CONN_DOWN)
        remember(of(member), status, code, text);
    place_closed(ctx, status, code, text);
}

static void declare(struct member *member)
{
    place_declare_by(member, &(struct amqp_method){.id = AMQP_TX_SELECT});
}

static void active(struct member *member)
{
    outlet_active(member);
    try_commit(of(member));
}

static void dead(struct member *member)
{
    struct coney_amqp_tx *tx = of(member);
    sender_dead(member);
    finish_lost(tx);
}

static bool always_final(const struct member *member, coney_status status)
{
    (void)member;
    (void)status;
    return true;
}

static void free_tx(struct member *member)
{
    outlet_free(&of(member)->outlet);
    free(of(member));
}

static const struct sender_kind sender_kind = {
    .noun = "transaction",
    .fill = outlet_fill,
    .written = outlet_written,
    .limit = outlet_limit,
    .limits_changed = outlet_limits_changed,
    .fits = outlet_fits,
    .describe = outlet_describe,
    .body = outlet_body,
};

static const struct channel_owner owner = {.opened = place_opened, .content = content, .closed = closed};

static const struct place_kind kind = {
    .member =
        {
            .purpose = PURPOSE_PUBLISH,
            .noun = "transaction",
            .unreachable = "",
            .locate = place_locate,
            .declare = place_declare,
            .active = active,
            .lost = outlet_lost,
            .leave = place_leave,
            .is_final = always_final,
            .dead = dead,
            .close = end,
            .free = free_tx,
        },
    .place_of = outlet_place_of,
    .declare = declare,
    .owner = &owner,
};

/* Uses ------------------------------------------------------------------------------------------------------------ */

coney_amqp_tx *coney_amqp_tx_begin(coney_amqp *rabbit, coney_call *call)
{
    const struct sender_options options = {
        .max_messages = MOST_UNWRITTEN, .max_bytes = INT64_MAX, .enqueue_timeout = CONEY_OFF, .no_resend = true};
    if (env_check(rabbit != NULL ? &rabbit->env : NULL, call) != CONEY_OK)
        return NULL;
    struct coney_amqp_tx *tx = calloc(1, sizeof *tx);
    if (tx == NULL || !outlet_init(&tx->outlet, &sender_kind, &kind.member, rabbit, "", &options, false)) {
        free(tx);
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    tx->outlet.settled = settled;
    if (member_run_open(&tx->outlet.sender.member, call) == CONEY_OK)
        return tx;
    member_unref(&tx->outlet.sender.member);
    return NULL;
}

coney_status coney_amqp_tx_publish_sized(coney_amqp_tx *tx, const coney_amqp_message *message, size_t size)
{
    static const struct message_target target = {.exchange = {"", 0}, .routing_key = {"", 0}};
    coney_amqp_message copy;
    struct message_form form;
    const char *field;
    const coney_amqp_message *known = message_known(message, size, &copy);
    if (tx == NULL || known == NULL)
        return CONEY_EINVAL;
    struct sender *sender = &tx->outlet.sender;
    if (sender->fork != fork_generation())
        return CONEY_EFORKED;
    coney_status status = message_form_make(&form, known, &target, &field);
    if (status != CONEY_OK)
        return status;
    struct sender_visit visit = sender_enter(sender);
    status = outlet_append(&visit, &form, 0);
    if (status == CONEY_EAGAIN && sender->limit > 0)
        status = CONEY_ENOMEM;
    if (status == CONEY_ECLOSED && !atomic_load(&tx->ended))
        status = CONEY_ELOST;
    sender_leave(&visit);
    return status;
}

coney_status coney_amqp_tx_commit(coney_amqp_tx **tx, coney_call *call)
{
    if (op_check(call) != CONEY_OK)
        return CONEY_EINVAL; /* the scope stays open, to be rolled back at the latest with the environment */
    if (tx != NULL && *tx != NULL)
        atomic_store(&(*tx)->commit, true);
    return member_close_handle((void **)tx, call);
}

coney_status coney_amqp_tx_rollback(coney_amqp_tx **tx, coney_call *call)
{
    if (tx != NULL && *tx != NULL)
        atomic_store(&(*tx)->commit, false);
    return member_close_handle((void **)tx, call);
}
