/* declare.c: the public calls about exchanges, queues and bindings: one request on a lent channel each. */
#include "amqp/declare_refusal.h"
#include "amqp/loan.h"
#include "amqp/record.h"
#include "base/text.h"

#include <stdlib.h>

/* What becomes of the record when the broker has said yes. */
enum memory {
    KEEP,       /* it is declared again */
    TRANSITORY, /* it is known as long as its connection lives */
    NONE,       /* it leaves nothing behind, or was only asked about */
    UNDO,       /* it takes something back */
};

/* One call. */
struct declaration {
    struct op op;
    struct coney_amqp *amqp;
    struct record *record; /* the request; NULL: the topology has it */
    enum memory memory;
    coney_amqp_queue_info *info;            /* the user's, or NULL */
    const struct amqp_queue_declare_ok *ok; /* while it is given to that */
    struct topology_call call;              /* waits for the topology, or is known there as undoing */
    struct loan loan;
    bool lent; /* the loan has begun and is not over: it holds a reference */
};

static struct declaration *of_op(struct op *op)
{
    return container_of(op, struct declaration, op);
}

static struct declaration *of_loan(struct loan *loan)
{
    return container_of(loan, struct declaration, loan);
}

static void declaration_free(struct op *op)
{
    struct declaration *d = of_op(op);
    record_free(d->record);
    env_unref(&d->amqp->env);
    free(d);
}

/* The channel is not needed any more. */
static void give_back(struct declaration *d, bool clean)
{
    if (!d->lent)
        return;
    d->lent = false;
    list_remove(&d->call.waiting);
    loan_end(&d->loan, clean);
    op_unref(&d->op);
}

/* The answer -------------------------------------------------------------------------------------------------------- */

static void end_refused(struct declaration *d, const struct refusal *refusal)
{
    char why[TEXT_CAP];
    refusal_explain(&d->record->method, d->record->name, refusal, why, sizeof why);
    op_end(&d->op, refusal->status, refusal->code, 0, why);
}

static void remember(struct declaration *d, const struct amqp_method *answer)
{
    struct topology *topology = &d->amqp->topology;
    struct record *record = d->record;
    switch (d->memory) {
    case KEEP:
    case TRANSITORY:
        if (answer->id == AMQP_QUEUE_DECLARE_OK)
            (void)record_declared(record, answer->queue_declare_ok.queue, d->loan.channel->conn);
        record->transitory = d->memory == TRANSITORY;
        record_keep(topology, record);
        d->record = NULL;
        break;
    case UNDO:
        record_undo(topology, &record->method);
        break;
    case NONE:
        break;
    }
}

static void give_info(struct op *op)
{
    coney_amqp_queue_info *info = of_op(op)->info;
    const struct amqp_queue_declare_ok *ok = of_op(op)->ok;
    *info = (coney_amqp_queue_info){.messages = ok->messages, .consumers = ok->consumers};
    memcpy(info->name, ok->queue.data, ok->queue.len < sizeof info->name ? ok->queue.len : sizeof info->name - 1);
}

static uint64_t value_of(const struct amqp_method *answer)
{
    switch (answer->id) {
    case AMQP_QUEUE_DECLARE_OK:
        return answer->queue_declare_ok.messages;
    case AMQP_QUEUE_DELETE_OK:
    case AMQP_QUEUE_PURGE_OK:
        return answer->queue_messages.messages;
    default:
        return 0;
    }
}

static void answered(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                     const struct channel_content *content, const char *text)
{
    struct declaration *d = ctx;
    (void)content;
    if (status == CONEY_OK) {
        remember(d, answer);
        d->ok = answer->id == AMQP_QUEUE_DECLARE_OK ? &answer->queue_declare_ok : NULL;
        op_end_giving(&d->op, value_of(answer), d->info != NULL && d->ok != NULL ? give_info : NULL);
        give_back(d, true);
        return;
    }
    const struct channel *channel = d->loan.channel;
    end_refused(d, &(struct refusal){status, code, channel->conn->conn.name, channel->reason, text});
    if (status == CONEY_ETIMEDOUT)
        give_back(d, false); /* otherwise `failed` follows */
}

/* The way to it ----------------------------------------------------------------------------------------------------- */

static void ready(struct loan *loan)
{
    struct declaration *d = of_loan(loan);
    struct amqp_method request = record_request(&d->amqp->topology, &d->record->method);
    uint32_t frame_max = loan->channel->conn->conn.frame_max;
    size_t size = amqp_encode(1, &request, NULL, 0);
    char why[TEXT_CAP];
    if (frame_max != 0 && size > frame_max) {
        text_print(why, sizeof why, "the arguments are too large: the request takes %zu bytes, a frame holds %u (frame_max)",
                   size, (unsigned)frame_max);
        end_refused(d, &(struct refusal){.status = CONEY_ETOOBIG, .text = why});
    } else if (!channel_request(loan->channel, &request, d->op.deadline, answered, d)) {
        op_end(&d->op, CONEY_ENOMEM, 0, 0, NULL);
    } else {
        return;
    }
    give_back(d, true);
}

static void failed(struct loan *loan, coney_status status, uint16_t code, const char *text)
{
    struct declaration *d = of_loan(loan);
    if (!op_ended(&d->op))
        end_refused(d, &(struct refusal){.status = status, .code = code, .text = text});
    give_back(d, false);
}

static void borrow(struct declaration *d)
{
    struct amqp_conn *conn;
    enum purpose purpose = record_purpose(&d->amqp->topology, &d->record->method, &conn);
    op_ref(&d->op);
    d->lent = true;
    d->loan.ready = ready;
    d->loan.failed = failed;
    if (d->call.undoes != NULL)
        topology_undoes(d->amqp, &d->call);
    loan_start(&d->loan, d->amqp, purpose, conn);
}

/* The topology is as good as it gets. */
static void go_on(struct topology_call *call)
{
    struct declaration *d = container_of(call, struct declaration, call);
    if (d->amqp->env.closing == NULL)
        borrow(d);
    else
        op_end(&d->op, CONEY_ECLOSED, 0, 0, NULL);
}

static void begin(struct op *op)
{
    struct declaration *d = of_op(op);
    if (topology_is_ready_for(d->amqp, &d->call))
        borrow(d);
}

static void abandon(struct op *op)
{
    struct declaration *d = of_op(op);
    list_remove(&d->call.waiting);
    give_back(d, false);
}

static coney_status run(coney_amqp *rabbit, const struct amqp_method *method, const struct arguments *arguments,
                        enum memory memory, coney_amqp_queue_info *info, coney_call *call)
{
    struct declaration *d = calloc(1, sizeof *d);
    struct record *record = record_new(method, arguments);
    if (d == NULL || record == NULL) {
        free(d);
        record_free(record);
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    }
    op_init(&d->op, rabbit->env.loop, begin, abandon, declaration_free);
    (void)env_ref(&rabbit->env);
    d->amqp = rabbit;
    d->record = record;
    d->memory = memory;
    d->info = info;
    d->call.go_on = go_on;
    d->call.undoes = memory == UNDO ? &record->method : NULL;
    list_init(&d->call.waiting);
    return op_run(&d->op, call, rabbit->env.settings.call_deadline);
}

static coney_status check_env(const coney_amqp *rabbit, coney_call *call)
{
    return env_check(rabbit != NULL ? &rabbit->env : NULL, call);
}

/* The environment and a name that must be there: an empty one would stand for the channel's last queue. */
static coney_status check(const coney_amqp *rabbit, const char *what, const char *name, coney_call *call)
{
    coney_status status = check_env(rabbit, call);
    return status == CONEY_OK ? name_check(what, name, AMQP_SHORT_MAX, call) : status;
}

/* Exchanges --------------------------------------------------------------------------------------------------------- */

coney_status coney_amqp_exchange_declare_sized(coney_amqp *rabbit, const coney_amqp_exchange *user_exchange, size_t size,
                                               coney_call *call)
{
    coney_amqp_exchange exchange = {0};
    struct arguments arguments;
    coney_status status = options_copy(&exchange, sizeof exchange, user_exchange, size, call);
    if (status == CONEY_OK)
        status = check(rabbit, "exchange", exchange.name, call);
    if (status == CONEY_OK && reserved_check(exchange.reserved, sizeof exchange.reserved) != CONEY_OK)
        status = op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if (status == CONEY_OK)
        status = amqp_name_check("type of the exchange", exchange.type, call);
    if (status == CONEY_OK)
        status = arguments_of_exchange(&arguments, &exchange, call);
    if (status != CONEY_OK)
        return status;
    const struct amqp_method method = {
        .id = AMQP_EXCHANGE_DECLARE,
        .exchange_declare = {.exchange = coney_bytes_str(exchange.name),
                             .type = coney_bytes_str(exchange.type != NULL ? exchange.type : "direct"),
                             .passive = exchange.passive,
                             .durable = !exchange.transient,
                             .auto_delete = exchange.auto_delete,
                             .internal = exchange.internal}};
    bool keep = !exchange.passive && !exchange.forget;
    return run(rabbit, &method, exchange.passive ? NULL : &arguments, keep ? KEEP : NONE, NULL, call);
}

static coney_status check_conditions(unsigned conditions, unsigned known, coney_call *call)
{
    if ((conditions & ~known) == 0)
        return CONEY_OK;
    return op_refuse(call, CONEY_EINVAL, "conditions are 0x%x: 0x%x is none of those that there are for it", conditions,
                     conditions & ~known);
}

coney_status coney_amqp_exchange_delete(coney_amqp *rabbit, const char *exchange, unsigned conditions, coney_call *call)
{
    coney_status status = check(rabbit, "exchange", exchange, call);
    if (status == CONEY_OK)
        status = check_conditions(conditions, CONEY_IF_UNUSED, call);
    if (status != CONEY_OK)
        return status;
    const struct amqp_method method = {
        .id = AMQP_EXCHANGE_DELETE,
        .exchange_delete = {.exchange = coney_bytes_str(exchange), .if_unused = (conditions & CONEY_IF_UNUSED) != 0}};
    return run(rabbit, &method, NULL, UNDO, NULL, call);
}

/* Queues ------------------------------------------------------------------------------------------------------------ */

static bool is_nameless(const coney_amqp_queue *queue)
{
    return queue->name == NULL || queue->name[0] == '\0';
}

static coney_status check_queue(const coney_amqp *rabbit, const coney_amqp_queue *queue, coney_call *call)
{
    bool nameless = is_nameless(queue);
    coney_status status = nameless ? check_env(rabbit, call) : check(rabbit, "queue", queue->name, call);
    if (status != CONEY_OK)
        return status;
    if (queue->reserved_number != 0 || reserved_check(queue->reserved, sizeof queue->reserved) != CONEY_OK)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if (nameless && queue->passive)
        return op_refuse(call, CONEY_EINVAL, "the queue has no name: passive asks about one that has");
    if (nameless && (queue->type == CONEY_QUEUE_QUORUM || queue->type == CONEY_QUEUE_STREAM))
        return op_refuse(call, CONEY_EINVAL, "the queue has no name: the broker makes names for classic queues only");
    return CONEY_OK;
}

static enum memory memory_of(const coney_amqp_queue *queue)
{
    if (queue->passive)
        return NONE;
    return !queue->forget ? KEEP : queue->exclusive ? TRANSITORY : NONE;
}

coney_status coney_amqp_queue_declare_sized(coney_amqp *rabbit, const coney_amqp_queue *user_queue, size_t size,
                                            coney_call *call)
{
    coney_amqp_queue queue = {0};
    struct arguments arguments;
    coney_status status = options_copy(&queue, sizeof queue, user_queue, size, call);
    if (status == CONEY_OK)
        status = check_queue(rabbit, &queue, call);
    if (status == CONEY_OK)
        status = arguments_of_queue(&arguments, &queue, call);
    if (status != CONEY_OK)
        return status;
    const struct amqp_method method = {.id = AMQP_QUEUE_DECLARE,
                                       .queue_declare = {.queue = coney_bytes_str(queue.name),
                                                         .passive = queue.passive,
                                                         .durable = !queue.transient,
                                                         .exclusive = queue.exclusive && !queue.passive,
                                                         .auto_delete = queue.auto_delete}};
    return run(rabbit, &method, queue.passive ? NULL : &arguments, memory_of(&queue), queue.info, call);
}

coney_status coney_amqp_queue_delete(coney_amqp *rabbit, const char *queue, unsigned conditions, coney_call *call)
{
    coney_status status = check(rabbit, "queue", queue, call);
    if (status == CONEY_OK)
        status = check_conditions(conditions, CONEY_IF_UNUSED | CONEY_IF_EMPTY, call);
    if (status != CONEY_OK)
        return status;
    const struct amqp_method method = {.id = AMQP_QUEUE_DELETE,
                                       .queue_delete = {.queue = coney_bytes_str(queue),
                                                        .if_unused = (conditions & CONEY_IF_UNUSED) != 0,
                                                        .if_empty = (conditions & CONEY_IF_EMPTY) != 0}};
    return run(rabbit, &method, NULL, UNDO, NULL, call);
}

coney_status coney_amqp_queue_purge(coney_amqp *rabbit, const char *queue, coney_call *call)
{
    coney_status status = check(rabbit, "queue", queue, call);
    if (status != CONEY_OK)
        return status;
    const struct amqp_method method = {.id = AMQP_QUEUE_PURGE, .queue_purge.queue = coney_bytes_str(queue)};
    return run(rabbit, &method, NULL, NONE, NULL, call);
}

/* Bindings ---------------------------------------------------------------------------------------------------------- */

static struct amqp_method binding_method(const coney_amqp_binding *binding, bool bind)
{
    coney_bytes source = coney_bytes_str(binding->source);
    coney_bytes destination = coney_bytes_str(binding->destination);
    coney_bytes key = coney_bytes_str(binding->routing_key);
    if (binding->to_exchange)
        return (struct amqp_method){.id = bind ? AMQP_EXCHANGE_BIND : AMQP_EXCHANGE_UNBIND,
                                    .exchange_bind = {.destination = destination, .source = source, .routing_key = key}};
    if (bind)
        return (struct amqp_method){.id = AMQP_QUEUE_BIND,
                                    .queue_bind = {.queue = destination, .exchange = source, .routing_key = key}};
    return (struct amqp_method){.id = AMQP_QUEUE_UNBIND,
                                .queue_unbind = {.queue = destination, .exchange = source, .routing_key = key}};
}

static coney_status run_binding(coney_amqp *rabbit, const coney_amqp_binding *user_binding, size_t size, bool bind,
                                coney_call *call)
{
    coney_amqp_binding binding = {0};
    struct arguments arguments;
    coney_status status = options_copy(&binding, sizeof binding, user_binding, size, call);
    if (status == CONEY_OK)
        status = check(rabbit, "source exchange", binding.source, call);
    if (status == CONEY_OK)
        status = check(rabbit, binding.to_exchange ? "destination exchange" : "destination queue", binding.destination, call);
    if (status == CONEY_OK)
        status = amqp_name_check("routing key", binding.routing_key, call);
    if (status == CONEY_OK && reserved_check(binding.reserved, sizeof binding.reserved) != CONEY_OK)
        status = op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if (status == CONEY_OK)
        status = arguments_of_binding(&arguments, &binding, call);
    if (status != CONEY_OK)
        return status;
    const struct amqp_method method = binding_method(&binding, bind);
    enum memory memory = !bind ? UNDO : binding.forget ? NONE : KEEP;
    return run(rabbit, &method, &arguments, memory, NULL, call);
}

coney_status coney_amqp_bind_sized(coney_amqp *rabbit, const coney_amqp_binding *binding, size_t size, coney_call *call)
{
    return run_binding(rabbit, binding, size, true, call);
}

coney_status coney_amqp_unbind_sized(coney_amqp *rabbit, const coney_amqp_binding *binding, size_t size, coney_call *call)
{
    return run_binding(rabbit, binding, size, false, call);
}
