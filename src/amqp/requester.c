/* requester.c: requests and their replies, over direct reply-to.
 *
 * The broker's pseudo-queue amq.rabbitmq.reply-to is consumed on the channel on which the requests are published. A requester is a sender without
 * confirms: a request is written as any publish, and then waits in a map, by its number, for the reply. The correlation id is that number behind one
 * that is drawn for each requester, so that nobody gets a reply to what another process asked. Nothing is sent twice.
 * Replies need no acks, so both are at home on a connection for publishing: a broker that is short of memory stops reading it, and no other.
 */
#include "amqp/kept.h"
#include "amqp/publish_outlet.h"

#include "base/map.h"
#include "base/text.h"
#include "core/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#define REPLY_TO "amq.rabbitmq.reply-to"
#define DEFAULT_REQUESTS 10000
#define MOST_REQUESTS (INT64_C(1) << 30)
#define CORRELATION_BYTES 32 /* two numbers in hexadecimal */

struct coney_amqp_requester {
    struct outlet outlet;

    /* Constant. */
    struct message_target target;
    char *exchange;
    char *routing_key;
    uint64_t max_requests;
    uint64_t mark; /* drawn: the first half of its correlation ids */

    _Atomic uint64_t last; /* number of the last request */

    /* On the loop. */
    struct map under_way; /* struct request, each with a reference, by number */
    bool closing;
    counter dropped;
};

struct request {
    struct op op;
    struct coney_amqp_requester *requester;
    coney_kept **place; /* the user's, for the reply */
    coney_kept *reply;
    uint64_t number;
    uint64_t slot;
    struct message_held *held; /* behind the struct */
};

static struct coney_amqp_requester *of(struct member *member)
{
    return container_of(member, struct coney_amqp_requester, outlet.sender.member);
}

static struct request *of_op(struct op *op)
{
    return container_of(op, struct request, op);
}

/* Correlation ids --------------------------------------------------------------------------------------------------- */

static void write_correlation(char text[CORRELATION_BYTES + 1], uint64_t mark, uint64_t number)
{
    text_print(text, CORRELATION_BYTES + 1, "%016" PRIx64 "%016" PRIx64, mark, number);
}

static bool read_hex(const char *at, uint64_t *out)
{
    char digits[17] = "";
    char *end;
    memcpy(digits, at, 16);
    *out = strtoull(digits, &end, 16);
    return end == digits + 16;
}

/* The request that a correlation id names: taken out of the map. NULL: nobody waits for it. */
static struct request *take_named(struct coney_amqp_requester *requester, coney_bytes correlation)
{
    uint64_t mark, number;
    if (correlation.len != CORRELATION_BYTES || !read_hex(correlation.data, &mark) ||
        !read_hex((const char *)correlation.data + 16, &number) || mark != requester->mark)
        return NULL;
    return map_take(&requester->under_way, number);
}

/* Ends -------------------------------------------------------------------------------------------------------------- */

/* It is out of the map already. */
static void end_request(struct request *request, coney_status status, uint32_t code, const char *text)
{
    op_end(&request->op, status, code, 0, text);
    op_unref(&request->op);
}

static void end_all(struct coney_amqp_requester *requester, coney_status status, uint32_t code, const char *text)
{
    struct map all = requester->under_way;
    requester->under_way = (struct map){0};
    for (size_t i = 0; i < all.cap; i++)
        if (all.entries[i].value != NULL)
            end_request(all.entries[i].value, status, code, text);
    map_free(&all);
}

/* One that has not been sent yet is not sent any more. */
static void request_abandon(struct op *op)
{
    struct request *request = of_op(op);
    struct coney_amqp_requester *requester = request->requester;
    struct outbox *outbox = &requester->outlet.sender.outbox;
    if (map_take(&requester->under_way, request->number) == NULL)
        return;
    if (request->slot >= outbox->cursor && outbox_settle(outbox, request->slot) != NULL)
        outlet_settle_soon(&requester->outlet);
    op_unref(op);
}

/* What comes back --------------------------------------------------------------------------------------------------- */

static void give_reply(struct op *op)
{
    struct request *request = of_op(op);
    *request->place = request->reply;
}

/* The thread that waited may have given up without the loop's having heard of it. */
static void take_reply(struct request *request, struct block *block, const uint8_t *at, size_t len)
{
    struct amqp_kept *kept = amqp_kept_new(block, at, len, amqp_kept_settle_nothing);
    if (kept == NULL) {
        end_request(request, CONEY_ENOMEM, 0, NULL);
        return;
    }
    kept->delivery.delivery_tag = 0;
    request->reply = &kept->kept.head;
    if (!op_end_giving(&request->op, 0, give_reply)) {
        amqp_kept_free(kept);
        counter_add(&request->requester->dropped, 1);
    }
    op_unref(&request->op);
}

static void take_return(struct request *request, const struct amqp_basic_return *returned)
{
    char words[AMQP_SHORT_MAX + 1];
    char routing_key[AMQP_SHORT_MAX + 1];
    char text[TEXT_CAP];
    text_from_wire(words, sizeof words, returned->text);
    text_from_wire(routing_key, sizeof routing_key, returned->routing_key);
    text_print(text, sizeof text, "no queue took the request with the routing key '%s': %s (code %u): does the service run?",
               routing_key, words, (unsigned)returned->code);
    end_request(request, CONEY_ERETURNED, returned->code, text);
}

static const char *content(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct coney_amqp_requester *requester = of(ctx);
    struct amqp_unit unit;
    struct amqp_method method;
    struct amqp_properties properties;
    if (!amqp_unit_read(at, len, &unit))
        return "unit";
    const char *field = amqp_decode(unit.method, &method);
    if (field == NULL)
        field = amqp_properties_read(unit.properties, &properties);
    if (field != NULL)
        return field;
    struct request *request = take_named(requester, properties.correlation_id);
    if (request == NULL)
        counter_add(&requester->dropped, 1);
    else if (unit.id == AMQP_BASIC_RETURN)
        take_return(request, &method.basic_return);
    else
        take_reply(request, block, at, len);
    return NULL;
}

/* The place --------------------------------------------------------------------------------------------------------- */

static void declare(struct member *member)
{
    const struct amqp_method consume = {.id = AMQP_BASIC_CONSUME,
                                        .basic_consume = {.queue = CONEY_STR(REPLY_TO), .no_ack = true}};
    place_declare_by(member, &consume);
}

static void method(void *ctx, const struct amqp_method *method)
{
    if (method->id == AMQP_BASIC_CANCEL)
        member_failed(ctx, CONEY_EUNAVAILABLE, 0, "the broker has canceled the consumer of replies", true);
}

/* With one request under way it is that one which the broker objects to. */
static void closed(void *ctx, coney_status status, uint16_t code, const char *text)
{
    struct member *member = ctx;
    struct coney_amqp_requester *requester = of(member);
    member_ref(member);
    if (member->conn != NULL && member->conn->state != CONN_DOWN)
        end_all(requester, requester->under_way.count == 1 ? status : CONEY_ELOST, code, text);
    place_closed(ctx, status, code, text);
    member_unref(member);
}

static void lost(struct member *member)
{
    struct coney_amqp_requester *requester = of(member);
    outlet_lost(member);
    if (requester->closing)
        end_all(requester, CONEY_ECLOSED, 0, NULL);
    else
        end_all(requester, CONEY_ELOST, 0,
                "the connection was lost while the request was under way: it is not sent again, since it may have been "
                "carried out");
}

static void free_requester(struct member *member)
{
    struct coney_amqp_requester *requester = of(member);
    outlet_free(&requester->outlet);
    map_free(&requester->under_way);
    free(requester->exchange);
    free(requester->routing_key);
    free(requester);
}

/* Closing ----------------------------------------------------------------------------------------------------------- */

struct close_op {
    struct op op;
    struct coney_amqp_requester *requester;
};

static void close_begin(struct op *op)
{
    struct coney_amqp_requester *requester = container_of(op, struct close_op, op)->requester;
    struct member *member = &requester->outlet.sender.member;
    requester->closing = true;
    member_end(member, member_is_known(member));
    op_end(op, CONEY_OK, 0, 0, NULL);
    member_closed(member);
}

/* The loop never came to it before. */
static void close_expire(struct op *op, coney_status status)
{
    (void)op;
    (void)status;
}

static void close_free(struct op *op)
{
    struct close_op *close = container_of(op, struct close_op, op);
    member_unref(&close->requester->outlet.sender.member);
    free(close);
}

static coney_status close_requester(struct member *member, coney_call *call)
{
    struct close_op *close = calloc(1, sizeof *close);
    if (close == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    close->requester = of(member);
    member_ref(member);
    op_init(&close->op, member->env->loop, close_begin, NULL, close_free);
    close->op.expire = close_expire;
    close->op.detached = loop_is_current(member->env->loop);
    return op_run(&close->op, call, member->env->settings.call_deadline);
}

static const struct sender_kind sender_kind = {
    .noun = "requester",
    .fill = outlet_fill,
    .written = outlet_written,
    .limit = outlet_limit,
    .limits_changed = outlet_limits_changed,
    .fits = outlet_fits,
    .describe = outlet_describe,
    .body = outlet_body,
};

static const struct channel_owner owner = {.opened = place_opened, .content = content, .method = method, .closed = closed};

static const struct place_kind kind = {
    .member =
        {
            .purpose = PURPOSE_PUBLISH,
            .noun = "requester of exchange",
            .unreachable = "",
            .locate = place_locate,
            .declare = place_declare,
            .active = outlet_active,
            .lost = lost,
            .leave = place_leave,
            .is_final = place_is_final,
            .dead = sender_dead,
            .close = close_requester,
            .free = free_requester,
        },
    .place_of = outlet_place_of,
    .declare = declare,
    .owner = &owner,
};

/* Opening ----------------------------------------------------------------------------------------------------------- */

static coney_status check_options(const coney_amqp_requester_options *options, coney_call *call)
{
    coney_status status = amqp_name_check("exchange", options->exchange, call);
    if (status == CONEY_OK)
        status = amqp_name_check("routing key", options->routing_key, call);
    if (status != CONEY_OK)
        return status;
    if (reserved_check(options->reserved, sizeof options->reserved) != CONEY_OK)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if (options->max_requests < 0 || options->max_requests > MOST_REQUESTS)
        return op_refuse(call, CONEY_EINVAL, "max_requests is %lld: 1 to %lld, or 0 for the default",
                         (long long)options->max_requests, (long long)MOST_REQUESTS);
    return CONEY_OK;
}

static struct coney_amqp_requester *requester_new(struct coney_amqp *amqp, const coney_amqp_requester_options *options,
                                                  bool keep_trying)
{
    struct coney_amqp_requester *requester = calloc(1, sizeof *requester);
    if (requester == NULL)
        return NULL;
    requester->max_requests = (uint64_t)(options->max_requests > 0 ? options->max_requests : DEFAULT_REQUESTS);
    requester->exchange = strdup(options->exchange != NULL ? options->exchange : "");
    requester->routing_key = strdup(options->routing_key != NULL ? options->routing_key : "");
    const struct sender_options common = {
        .max_messages = (int64_t)requester->max_requests, .enqueue_timeout = CONEY_OFF, .no_resend = true};
    if (getrandom(&requester->mark, sizeof requester->mark, 0) == sizeof requester->mark && requester->exchange != NULL &&
        requester->routing_key != NULL &&
        outlet_init(&requester->outlet, &sender_kind, &kind.member, amqp, requester->exchange, &common, keep_trying)) {
        requester->target = (struct message_target){.exchange = coney_bytes_str(requester->exchange),
                                                    .routing_key = coney_bytes_str(requester->routing_key),
                                                    .transient = true};
        return requester;
    }
    free(requester->exchange);
    free(requester->routing_key);
    free(requester);
    return NULL;
}

coney_amqp_requester *coney_amqp_requester_open_sized(coney_amqp *rabbit, const coney_amqp_requester_options *user_options,
                                                      size_t options_size, coney_call *call)
{
    coney_amqp_requester_options options = {0};
    if (env_check(rabbit != NULL ? &rabbit->env : NULL, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK ||
        check_options(&options, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    struct coney_amqp_requester *requester = requester_new(rabbit, &options, asynchronous && options.keep_trying);
    if (requester == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    struct member *member = &requester->outlet.sender.member;
    if (member_run_open(member, call) == CONEY_OK)
        return requester;
    member_unref(member);
    return NULL;
}

coney_status coney_amqp_requester_close(coney_amqp_requester **requester, coney_call *call)
{
    return member_close_handle((void **)requester, call);
}

uint64_t coney_amqp_requester_dropped(const coney_amqp_requester *requester)
{
    return requester != NULL ? counter_get(&requester->dropped) : 0;
}

/* Requests ---------------------------------------------------------------------------------------------------------- */

/* Writes the request and puts it into the map. */
static coney_status start(struct request *request)
{
    struct coney_amqp_requester *requester = request->requester;
    struct sender *sender = &requester->outlet.sender;
    if (sender->member.state == MEMBER_DEAD)
        return CONEY_ECLOSED;
    if (sender->member.state != MEMBER_ACTIVE)
        return CONEY_ELOST;
    if (requester->under_way.count >= requester->max_requests)
        return CONEY_EAGAIN;
    if (!map_put(&requester->under_way, request->number, request))
        return CONEY_ENOMEM;
    struct sender_visit visit = sender_enter(sender);
    request->slot = atomic_load(&sender->outbox.tail);
    coney_status status = outlet_append_held(&visit, request->held, 0, 0);
    sender_leave(&visit);
    if (status == CONEY_OK)
        op_ref(&request->op);
    else
        map_take(&requester->under_way, request->number);
    return status;
}

static void explain(const struct request *request, coney_status status, char *text, size_t cap)
{
    const struct coney_amqp_requester *requester = request->requester;
    text[0] = '\0';
    if (status == CONEY_EAGAIN && requester->under_way.count < requester->max_requests)
        text_print(text, cap, "the requests before it have not been written yet: the connection takes no more now");
    else if (status == CONEY_EAGAIN)
        text_print(text, cap, "%zu requests wait for their replies: at most %llu may (max_requests)",
                   requester->under_way.count, (unsigned long long)requester->max_requests);
    else if (status == CONEY_ELOST)
        text_print(text, cap, "the requester has no connection now: the request was not sent");
    else if (status == CONEY_ETOOBIG)
        outlet_explain_size(&requester->outlet.sender, coney_bytes_of(request->held, sizeof *request->held), text, cap);
}

static void request_begin(struct op *op)
{
    struct request *request = of_op(op);
    coney_status status = start(request);
    if (status == CONEY_OK)
        return;
    char text[TEXT_CAP];
    explain(request, status, text, sizeof text);
    op_end(op, status, 0, 0, text);
}

static void request_free(struct op *op)
{
    struct request *request = of_op(op);
    member_unref(&request->requester->outlet.sender.member);
    free(request);
}

static coney_status run_request(struct coney_amqp_requester *requester, const struct message_form *form, uint64_t number,
                                coney_kept **reply, coney_call *call)
{
    struct member *member = &requester->outlet.sender.member;
    struct request *request = calloc(1, sizeof *request + message_held_size(form));
    if (request == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    request->held = (struct message_held *)(void *)(request + 1);
    message_hold(form, request->held);
    request->requester = requester;
    request->number = number;
    request->place = reply;
    member_ref(member);
    op_init(&request->op, member->env->loop, request_begin, request_abandon, request_free);
    return op_run(&request->op, call, member->env->settings.call_deadline);
}

coney_status coney_amqp_request_sized(coney_amqp_requester *requester, const coney_amqp_message *message, size_t size,
                                      coney_kept **reply, coney_call *call)
{
    coney_amqp_message copy;
    struct message_form form;
    const char *field;
    char correlation[CORRELATION_BYTES + 1];
    const coney_amqp_message *known = message_known(message, size, &copy);
    if (reply != NULL)
        *reply = NULL;
    if (requester == NULL || known == NULL || reply == NULL)
        return op_refuse(call, CONEY_EINVAL, "the requester, the message or the place for the reply is NULL or not valid");
    if (requester->outlet.sender.fork != fork_generation())
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    uint64_t number = atomic_fetch_add(&requester->last, 1) + 1;
    write_correlation(correlation, requester->mark, number);
    copy = *known;
    copy.correlation_id = coney_bytes_of(correlation, CORRELATION_BYTES);
    copy.reply_to = CONEY_STR(REPLY_TO);
    copy.drop_unroutable = false;
    coney_status status = message_form_make(&form, &copy, &requester->target, &field);
    if (status != CONEY_OK)
        return op_refuse(call, status, "the request cannot be sent: %s is too long or has no form on the wire", field);
    return run_request(requester, &form, number, reply, call);
}

coney_status coney_amqp_reply_sized(coney_amqp_publisher *publisher, const coney_amqp_delivery *request,
                                    const coney_amqp_message *message, size_t size)
{
    coney_amqp_message copy;
    coney_amqp_properties properties;
    const coney_amqp_message *known = message_known(message, size, &copy);
    if (publisher == NULL || request == NULL || known == NULL)
        return CONEY_EINVAL;
    if (coney_amqp_delivery_properties(request, &properties) != CONEY_OK || properties.reply_to.len == 0)
        return CONEY_EINVAL;
    copy = *known;
    copy.exchange = CONEY_STR("");
    copy.routing_key = properties.reply_to;
    copy.correlation_id = properties.correlation_id;
    copy.drop_unroutable = true;
    return coney_amqp_publish(publisher, &copy);
}
