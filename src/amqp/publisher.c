/* publisher.c: opening a publisher, its place, what it writes, closing it. */
#include "amqp/publisher.h"

#include "base/text.h"

#include <stdlib.h>

/* Writing --------------------------------------------------------------------------------------------------------- */

static size_t fill(struct sender *sender, struct iovec *slices, size_t cap, size_t *bytes)
{
    struct coney_amqp_publisher *publisher = publisher_of(sender);
    uint32_t allowance = culprit_allowance(publisher);
    publisher->held_back = allowance == 0 || publisher->stopped || !confirm_map_reserve(&publisher->map);
    if (publisher->held_back)
        return 0;
    struct outbox_run run;
    size_t taken = outbox_take(&sender->outbox, allowance == 1 ? 1 : OUTLET_FILL_BYTES, slices, cap, &run);
    if (taken == 0)
        return 0;
    if (!publisher->unconfirmed)
        confirm_map_add(&publisher->map, run.first, run.entries);
    *bytes += run.bytes;
    return taken;
}

static void settled(struct outlet *outlet)
{
    struct coney_amqp_publisher *publisher = container_of(outlet, struct coney_amqp_publisher, outlet);
    confirm_map_forget(&publisher->map, atomic_load_explicit(&outlet->sender.outbox.head, memory_order_relaxed));
    if (publisher->held_back)
        sender_want_write(&outlet->sender);
}

/* Texts ------------------------------------------------------------------------------------------------------------- */

/* Core gives messages up and refuses those that no longer fit: both for a reason that is here. */
static void describe(const struct sender *sender, uint64_t number, const struct slot *slot, coney_outcome *outcome)
{
    const struct coney_amqp_publisher *publisher = publisher_of(sender);
    (void)number;
    (void)slot;
    outcome->text = "";
    if (outcome->status == CONEY_EREFUSED) {
        outcome->code = AMQP_CODE_FRAME_ERROR;
        outcome->text = "the message was written for a connection with a larger frame_max than the present one has";
    } else if (publisher->close_text != NULL) {
        outcome->code = publisher->close_code;
        outcome->text = publisher->close_text;
    }
}

static void explain(const struct sender *sender, const coney_outcome *outcome, char *text, size_t cap)
{
    const char *words = outcome->text;
    if (outcome->status == CONEY_EREFUSED && words[0] == '\0')
        text_print(text, cap,
                   "the broker did not take the message of the %s '%s' (nack): a queue is full, or has no leader now",
                   sender->member.kind->noun, sender->member.name);
    else if (outcome->status == CONEY_EREFUSED)
        text_print(text, cap, "the message was refused: %s", words);
    else if (outcome->status == CONEY_ERETURNED)
        text_print(text, cap, "no queue took the message of the %s '%s': %s (code %u): check the routing key and the bindings",
                   sender->member.kind->noun, sender->member.name, words, (unsigned)outcome->code);
    else if (words[0] != '\0')
        text_print(text, cap, "the message may be stored or not: %s", words);
}

static const struct sender_kind sender_kind = {
    .noun = "publisher",
    .fill = fill,
    .limit = outlet_limit,
    .limits_changed = publish_limits_changed,
    .fits = outlet_fits,
    .describe = describe,
    .body = outlet_body,
    .append = publish_append_held,
    .explain = explain,
    .explain_size = outlet_explain_size,
};

static const struct sender_kind unconfirmed_kind = {
    .noun = "publisher",
    .fill = fill,
    .written = outlet_written,
    .limit = outlet_limit,
    .limits_changed = publish_limits_changed,
    .fits = outlet_fits,
    .describe = describe,
    .body = outlet_body,
    .append = publish_append_held,
    .explain = explain,
    .explain_size = outlet_explain_size,
};

/* The place ------------------------------------------------------------------------------------------------------- */

static void declare(struct member *member)
{
    struct coney_amqp_publisher *publisher = publisher_of_member(member);
    if (publisher->unconfirmed)
        member_active(member);
    else
        place_declare_by(member, &(struct amqp_method){.id = AMQP_CONFIRM_SELECT});
}

/* For the environment's statistics. */
static void count(struct member *member, bool open, bool active)
{
    struct coney_amqp *amqp = amqp_of(member->env);
    struct coney_amqp_publisher *publisher = publisher_of_member(member);
    counter_add(&amqp->publishers, (uint64_t)open - publisher->counted);
    counter_add(&amqp->publishers_active, (uint64_t)active - publisher->counted_active);
    publisher->counted = open;
    publisher->counted_active = active;
}

static void locate(struct member *member)
{
    count(member, true, false);
    place_locate(member);
}

static void active(struct member *member)
{
    struct coney_amqp_publisher *publisher = publisher_of_member(member);
    count(member, true, true);
    confirm_map_restart(&publisher->map);
    publisher->return_from = 0;
    publisher->stopped = false;
    outlet_active(member);
}

static void lost(struct member *member)
{
    count(member, true, false);
    outlet_lost(member);
}

static void dead(struct member *member)
{
    count(member, false, false);
    sender_dead(member);
}

static void closed(void *ctx, coney_status status, uint16_t code, const char *text)
{
    struct member *member = ctx;
    struct coney_amqp_publisher *publisher = publisher_of_member(member);
    member_ref(member);
    if (member->state == MEMBER_ACTIVE && member->conn->state != CONN_DOWN)
        culprit_look(publisher, code, text);
    publisher->close_code = code;
    publisher->close_text = text;
    place_closed(ctx, status, code, text);
    publisher->close_text = NULL;
    member_unref(member);
}

static void free_publisher(struct member *member)
{
    struct coney_amqp_publisher *publisher = publisher_of_member(member);
    outlet_free(&publisher->outlet);
    confirm_map_free(&publisher->map);
    free(publisher->exchange);
    free(publisher->routing_key);
    free(publisher);
}

static const struct channel_owner owner = {
    .opened = place_opened,
    .content = confirm_return,
    .method = confirm_method,
    .ack = confirm_ack,
    .closed = closed,
};

#define KIND(noun_of_it)                                                                                                       \
    {                                                                                                                          \
        .member = {.purpose = PURPOSE_PUBLISH,                                                                                 \
                   .noun = noun_of_it,                                                                                         \
                   .unreachable = "",                                                                                          \
                   .locate = locate,                                                                                           \
                   .declare = place_declare,                                                                                   \
                   .active = active,                                                                                           \
                   .lost = lost,                                                                                               \
                   .leave = place_leave,                                                                                       \
                   .failed = sender_failed,                                                                                    \
                   .is_final = place_is_final,                                                                                 \
                   .dead = dead,                                                                                               \
                   .close = sender_close,                                                                                      \
                   .free = free_publisher},                                                                                    \
        .place_of = outlet_place_of, .declare = declare, .owner = &owner,                                                      \
    }

/* The default exchange has no name of its own: there it is the queue that its messages are for. */
static const struct place_kind to_exchange = KIND("publisher to exchange");
static const struct place_kind to_queue = KIND("publisher to queue");

/* Opening and closing --------------------------------------------------------------------------------------------- */

static struct sender_options sender_options_of(const coney_amqp_publisher_options *options)
{
    return (struct sender_options){
        .max_messages = options->max_messages,
        .max_bytes = options->max_bytes,
        .enqueue_timeout = options->enqueue_timeout,
        .confirm_timeout = options->confirm_timeout,
        .on_outcome = options->on_outcome,
        .on_writable = options->on_writable,
        .ctx = options->ctx,
        .no_resend = options->no_resend,
    };
}

static coney_status check_options(const coney_amqp_publisher_options *options, coney_call *call)
{
    const struct sender_options common = sender_options_of(options);
    coney_status status = amqp_name_check("exchange", options->exchange, call);
    if (status == CONEY_OK)
        status = amqp_name_check("routing key", options->routing_key, call);
    if (status == CONEY_OK)
        status = amqp_name_check("name", options->name, call);
    if (status == CONEY_OK)
        status = sender_check(&common, call);
    if (status != CONEY_OK)
        return status;
    if (reserved_check(options->reserved, sizeof options->reserved) != CONEY_OK)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if (options->max_message_size < CONEY_OFF)
        return op_refuse(call, CONEY_EINVAL, "max_message_size is %lld: bytes, or CONEY_OFF",
                         (long long)options->max_message_size);
    return CONEY_OK;
}

/* Publishers with a name are of a kind of their own, whose noun it stands in. */
static const struct member_kind *kind_of(struct coney_amqp_publisher *publisher, const struct place_kind *kind,
                                         const char *name)
{
    if (name == NULL || name[0] == '\0')
        return &kind->member;
    text_print(publisher->noun, sizeof publisher->noun, "publisher '%s' to %s", name, kind == &to_queue ? "queue" : "exchange");
    publisher->named = *kind;
    publisher->named.member.noun = publisher->noun;
    return &publisher->named.member;
}

/* What is made before outlet_init, and what it may fail without. */
static bool set_target(struct coney_amqp_publisher *publisher, const coney_amqp_publisher_options *options)
{
    publisher->exchange = strdup(options->exchange != NULL ? options->exchange : "");
    publisher->routing_key = strdup(options->routing_key != NULL ? options->routing_key : "");
    if (publisher->exchange == NULL || publisher->routing_key == NULL)
        return false;
    publisher->target = (struct message_target){
        .exchange = coney_bytes_str(publisher->exchange),
        .routing_key = coney_bytes_str(publisher->routing_key),
        .transient = options->transient,
        .drop_unroutable = options->drop_unroutable,
    };
    publisher->max_body = options->max_message_size > 0 ? (size_t)options->max_message_size : SIZE_MAX;
    publisher->unconfirmed = options->unconfirmed;
    publisher->outlet.settled = settled;
    return true;
}

static struct coney_amqp_publisher *publisher_new(struct coney_amqp *amqp, const coney_amqp_publisher_options *options,
                                                  bool keep_trying)
{
    struct coney_amqp_publisher *publisher = calloc(1, sizeof *publisher);
    if (publisher == NULL)
        return NULL;
    const struct sender_options common = sender_options_of(options);
    const struct sender_kind *kind = options->unconfirmed ? &unconfirmed_kind : &sender_kind;
    if (set_target(publisher, options)) {
        bool queue = publisher->exchange[0] == '\0' && publisher->routing_key[0] != '\0';
        if (outlet_init(&publisher->outlet, kind, kind_of(publisher, queue ? &to_queue : &to_exchange, options->name), amqp,
                        queue ? publisher->routing_key : publisher->exchange, &common, keep_trying))
            return publisher;
    }
    free(publisher->exchange);
    free(publisher->routing_key);
    free(publisher);
    return NULL;
}

coney_amqp_publisher *coney_amqp_publisher_open_sized(coney_amqp *rabbit, const coney_amqp_publisher_options *user_options,
                                                      size_t options_size, coney_call *call)
{
    coney_amqp_publisher_options options = {0};
    if (env_check(rabbit != NULL ? &rabbit->env : NULL, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK ||
        check_options(&options, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    struct coney_amqp_publisher *publisher = publisher_new(rabbit, &options, asynchronous && options.keep_trying);
    if (publisher == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    struct member *member = &publisher->outlet.sender.member;
    if (member_run_open(member, call) == CONEY_OK)
        return publisher;
    member_unref(member);
    return NULL;
}

coney_status coney_amqp_publisher_flush(coney_amqp_publisher *publisher, coney_call *call)
{
    return sender_run_flush(publisher != NULL ? &publisher->outlet.sender : NULL, call);
}

coney_status coney_amqp_publisher_close(coney_amqp_publisher **publisher, coney_call *call)
{
    return member_close_handle((void **)publisher, call);
}

coney_status coney_amqp_publisher_get_stats(const coney_amqp_publisher *publisher, coney_amqp_publisher_stats *stats)
{
    if (publisher == NULL || stats == NULL)
        return CONEY_EINVAL;
    const struct sender *sender = &publisher->outlet.sender;
    uint64_t pending = sender_pending(sender);
    *stats = (coney_amqp_publisher_stats){
        .accepted = atomic_load(&sender->outbox.tail),
        .accepted_bytes = atomic_load(&sender->outbox.appended),
        .confirmed = counter_get(&sender->confirmed),
        .refused = counter_get(&sender->refused),
        .returned = counter_get(&sender->returned),
        .unknown = counter_get(&sender->unknown),
        .resent = counter_get(&sender->resent),
        .pending = pending,
        .pending_bytes = outbox_pending_bytes(&sender->outbox),
        .reconnects = counter_get(&sender->member.reconnects),
    };
    return CONEY_OK;
}
