/* consumer.c: opening a consumer, its subscription, the broker's cancel, closing it. */
#include "amqp/consumer.h"

#include "base/text.h"
#include "base/time.h"
#include "core/options.h"
#include "proto/amqp091/table.h"

#include <stdlib.h>

static int64_t call_limit(const struct member *member)
{
    return time_after(time_now(), member->env->settings.call_deadline);
}

/* Subscribing: the prefetch, then the consumer ------------------------------------------------------------------------- */

static void set_subscribed(struct coney_amqp_consumer *consumer, bool subscribed)
{
    lock_acquire(&consumer->receiver.lock);
    consumer->subscribed = subscribed;
    lock_release(&consumer->receiver.lock);
}

/* Anything but a deadline is told by the channel's end. */
static bool has_answer(struct member *member, coney_status status, const char *text)
{
    if (status == CONEY_ETIMEDOUT)
        member_failed(member, status, 0, text, true);
    return status == CONEY_OK;
}

static void prefetch_set(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                         const struct channel_content *content, const char *text)
{
    (void)code;
    (void)answer;
    (void)content;
    (void)has_answer(ctx, status, text);
}

static void consuming(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                      const struct channel_content *content, const char *text)
{
    (void)code;
    (void)content;
    struct member *member = ctx;
    struct coney_amqp_consumer *consumer = amqp_consumer_of(member);
    if (!has_answer(member, status, text))
        return;
    coney_bytes tag = answer->basic_consumer.consumer_tag;
    if (tag.len > 0)
        memcpy(consumer->tag, tag.data, tag.len);
    consumer->tag_len = tag.len;
    set_subscribed(consumer, true);
    member_ref(member);
    receiver_subscribed(&consumer->receiver);
    receiver_wake(&consumer->receiver); /* what came before this answer */
    member_unref(member);
}

static void declare(struct member *member)
{
    struct coney_amqp_consumer *consumer = amqp_consumer_of(member);
    const coney_amqp_consumer_options *options = &consumer->options;
    struct channel *channel = consumer->place.channel;
    const char *queue = topology_queue_name(amqp_of(member->env), member->name);
    struct amqp_method qos = {.id = AMQP_BASIC_QOS, .basic_qos.prefetch_count = (uint16_t)options->prefetch};
    struct amqp_method consume = {.id = AMQP_BASIC_CONSUME,
                                  .basic_consume = {.queue = coney_bytes_str(queue),
                                                    .consumer_tag = coney_bytes_str(options->tag),
                                                    .no_local = options->no_local,
                                                    .no_ack = options->no_ack,
                                                    .exclusive = options->exclusive}};
    if (consumer->argument_count > 0)
        consume.basic_consume.arguments =
            amqp_table_value(consumer->arguments, consumer->arguments_size, consumer->argument_count);
    int64_t limit = call_limit(member);
    if (!channel_request(channel, &qos, limit, prefetch_set, member) ||
        !channel_request(channel, &consume, limit, consuming, member))
        member_failed(member, CONEY_EINVAL, 0, "the consumer's arguments do not fit a frame (frame_max), or memory is out",
                      true);
}

/* The channel's other news ----------------------------------------------------------------------------------------------- */

static void canceled(struct coney_amqp_consumer *consumer)
{
    struct member *member = &consumer->receiver.member;
    if (consumer->receiver.unsubscribing || !member_is_known(member))
        return;
    char text[TEXT_CAP];
    text_print(
        text, sizeof text,
        "the broker canceled the consumer of queue '%s': the queue was deleted or moves, or the right to read it is gone",
        member->name);
    member_ref(member);
    env_event(member->env,
              &(coney_event){.type = CONEY_EVENT_CONSUMER_CANCELED,
                             .status = CONEY_EUNAVAILABLE,
                             .node = member->conn->name,
                             .name = member->name,
                             .handle = consumer},
              "%s", text);
    member_failed(member, CONEY_EUNAVAILABLE, 0, text, true);
    member_unref(member);
}

static void on_method(void *ctx, const struct amqp_method *method)
{
    if (method->id == AMQP_BASIC_CANCEL)
        canceled(amqp_consumer_of(ctx));
}

/* The one refusal that a consumer gets long after its fault. */
static void on_closed(void *ctx, coney_status status, uint16_t code, const char *text)
{
    char more[TEXT_CAP];
    bool late = code == AMQP_CODE_PRECONDITION_FAILED && strstr(text, "delivery acknowledgement") != NULL;
    text_print(more, sizeof more, "%s%s", text,
               late ? ": the broker's consumer_timeout passed before a message was settled; settle sooner, or raise it" : "");
    place_closed(ctx, status, code, more);
}

static const struct channel_owner channel_owner = {
    .opened = place_opened,
    .content = amqp_consumer_content,
    .method = on_method,
    .closed = on_closed,
};

/* Losing the place, and the end ------------------------------------------------------------------------------------------- */

static void count_active(struct coney_amqp_consumer *consumer, bool is)
{
    if (consumer->counted_active != is)
        counter_add(&amqp_of(consumer->receiver.member.env)->consumers_active, is ? 1 : (uint64_t)-1);
    consumer->counted_active = is;
}

static void active(struct member *member)
{
    count_active(amqp_consumer_of(member), true);
}

/* What was acked before this is written if it still can be; what was not settled will come again. */
static void lost(struct member *member)
{
    struct coney_amqp_consumer *consumer = amqp_consumer_of(member);
    coney_loop *loop = member->env->loop;
    amqp_consumer_flush(consumer);
    set_subscribed(consumer, false);
    amqp_consumer_drop_queue(consumer);
    lock_acquire(&consumer->receiver.lock);
    ledger_start(&consumer->ledger);
    consumer->retries.count = 0;
    lock_release(&consumer->receiver.lock);
    atomic_store(&consumer->fresh_from, consumer->next_number);
    consumer->next_tag = 0;
    consumer->tags_before = 0;
    loop_timer_unset(loop, &consumer->flush_timer);
    loop_timer_unset(loop, &consumer->retry_timer);
    amqp_consumer_read_on(consumer, true);
    count_active(consumer, false);
    receiver_lost(&consumer->receiver);
}

static void canceled_by_us(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                           const struct channel_content *content, const char *text)
{
    (void)status;
    (void)code;
    (void)answer;
    (void)content;
    (void)text;
    struct coney_amqp_consumer *consumer = amqp_consumer_of(ctx);
    amqp_consumer_queue_open_run(consumer);
    amqp_consumer_give_back(consumer);
    receiver_unsubscribed(&consumer->receiver, CONEY_OK, true);
}

/* Whatever arrives before the answer is given back then. The answer comes when the queue has worked off all that was settled before: a quorum
 * queue's channel that is closed without it forgets acks that it has not passed on yet. */
static void unsubscribe(struct receiver *receiver)
{
    struct coney_amqp_consumer *consumer = container_of(receiver, struct coney_amqp_consumer, receiver);
    struct member *member = &receiver->member;
    struct amqp_method cancel = {.id = AMQP_BASIC_CANCEL,
                                 .basic_cancel.consumer_tag = coney_bytes_of(consumer->tag, consumer->tag_len)};
    amqp_consumer_flush(consumer);
    if (member->state != MEMBER_ACTIVE ||
        !channel_request(consumer->place.channel, &cancel, call_limit(member), canceled_by_us, member))
        receiver_unsubscribed(receiver, CONEY_OK, member_is_known(member));
}

static void drop(struct receiver *receiver)
{
    struct coney_amqp_consumer *consumer = container_of(receiver, struct coney_amqp_consumer, receiver);
    amqp_consumer_drop_queue(consumer);
    amqp_consumer_drop_current(consumer);
}

static void locate(struct member *member)
{
    struct coney_amqp_consumer *consumer = amqp_consumer_of(member);
    if (!consumer->counted)
        counter_add(&amqp_of(member->env)->consumers, 1);
    consumer->counted = true;
    place_locate(member);
}

static void dead(struct member *member)
{
    struct coney_amqp_consumer *consumer = amqp_consumer_of(member);
    if (consumer->counted)
        counter_add(&amqp_of(member->env)->consumers, (uint64_t)-1);
    consumer->counted = false;
    receiver_dead(member);
}

static void free_consumer(struct member *member)
{
    struct coney_amqp_consumer *consumer = amqp_consumer_of(member);
    receiver_free(&consumer->receiver);
    free(consumer->queue);
    free(consumer->arguments);
    free((char *)(uintptr_t)consumer->options.tag);
    ledger_free(&consumer->ledger);
    retries_free(&consumer->retries);
    free(consumer);
}

static struct place *its_place(struct member *member)
{
    return &amqp_consumer_of(member)->place;
}

static const char *its_queue(struct member *member)
{
    return member->name;
}

static const struct place_kind kind = {
    .member =
        {
            .purpose = PURPOSE_CONSUME,
            .noun = "consumer of queue",
            .unreachable = "",
            .locate = locate,
            .declare = place_declare,
            .active = active,
            .lost = lost,
            .leave = place_leave,
            .is_final = place_is_final,
            .dead = dead,
            .close = receiver_close,
            .free = free_consumer,
        },
    .place_of = its_place,
    .declare = declare,
    .owner = &channel_owner,
    .queue = its_queue,
};

static const struct receiver_kind receiver_kind = {
    .run = amqp_consumer_run,
    .task = amqp_consumer_task,
    .unsubscribe = unsubscribe,
    .drop = drop,
};

/* Opening --------------------------------------------------------------------------------------------------------- */

static struct coney_amqp_consumer *consumer_new(struct env *env, const char *queue, const coney_amqp_consumer_options *options,
                                                bool keep_trying, coney_call *call)
{
    struct coney_amqp_consumer *consumer = calloc(1, sizeof *consumer);
    if (consumer == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    if (amqp_consumer_options_take(consumer, options, call) != CONEY_OK)
        goto fail;
    struct receiver_options receiver_options = {.max_kept = (uint64_t)consumer->options.max_kept,
                                                .on_loop = options->on_loop,
                                                .own_thread = options->own_thread,
                                                .paused = options->paused};
    coney_status status =
        receiver_init(&consumer->receiver, &receiver_kind, &kind.member, env, queue, &receiver_options, keep_trying);
    if (status != CONEY_OK) {
        op_refuse(call, status, "%s", coney_status_text(status));
        goto fail;
    }
    place_init(&consumer->place);
    consumer->until_flush = consumer->options.ack_run;
    consumer->delivery.queue = consumer->receiver.member.name;
    consumer->delivery.consumer = consumer;
    consumer->queue_task.run = amqp_consumer_queue_task;
    consumer->flush_timer.fire = amqp_consumer_run_flush_timer;
    consumer->retry_timer.fire = amqp_consumer_run_retry_timer;
    return consumer;
fail:
    free((char *)(uintptr_t)consumer->options.tag);
    free(consumer->arguments);
    free(consumer);
    return NULL;
}

static coney_status check_queue(const char *queue, coney_call *call)
{
    if (queue == NULL || queue[0] == '\0')
        return op_refuse(call, CONEY_EINVAL, "the queue has no name: one that the broker has named is known by that name");
    return amqp_name_check("queue", queue, call);
}

coney_amqp_consumer *coney_amqp_consumer_open_sized(coney_amqp *rabbit, const char *queue,
                                                    const coney_amqp_consumer_options *user_options, size_t options_size,
                                                    coney_call *call)
{
    struct env *env = rabbit != NULL ? &rabbit->env : NULL;
    coney_amqp_consumer_options options = {0};
    if (env_check(env, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK ||
        check_queue(queue, call) != CONEY_OK || amqp_consumer_options_check(&options, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    struct coney_amqp_consumer *consumer = consumer_new(env, queue, &options, asynchronous && options.keep_trying, call);
    if (consumer == NULL)
        return NULL;
    if (member_run_open(&consumer->receiver.member, call) == CONEY_OK)
        return consumer;
    member_unref(&consumer->receiver.member);
    return NULL;
}

/* Uses ------------------------------------------------------------------------------------------------------------ */

coney_status coney_amqp_consumer_close(coney_amqp_consumer **consumer, coney_call *call)
{
    return member_close_handle((void **)consumer, call);
}

coney_status coney_amqp_consumer_pause(coney_amqp_consumer *consumer)
{
    return receiver_pause(consumer != NULL ? &consumer->receiver : NULL);
}

coney_status coney_amqp_consumer_resume(coney_amqp_consumer *consumer)
{
    coney_status status = receiver_resume(consumer != NULL ? &consumer->receiver : NULL);
    if (status == CONEY_OK)
        receiver_post(&consumer->receiver); /* for the timer of its acks */
    return status;
}

coney_status coney_amqp_consumer_get_stats(const coney_amqp_consumer *consumer, coney_amqp_consumer_stats *stats)
{
    if (consumer == NULL || stats == NULL)
        return CONEY_EINVAL;
    struct lock *lock = (struct lock *)(uintptr_t)&consumer->receiver.lock;
    lock_acquire(lock);
    uint64_t kept = consumer->receiver.kept_count;
    lock_release(lock);
    *stats = (coney_amqp_consumer_stats){
        .messages = counter_get(&consumer->messages),
        .bytes = counter_get(&consumer->bytes),
        .acked = counter_get(&consumer->acked) + counter_get(&consumer->settled[LEDGER_ACKED]),
        .rejected = counter_get(&consumer->settled[LEDGER_REJECTED]),
        .requeued = counter_get(&consumer->settled[LEDGER_REQUEUED]),
        .kept = kept,
        .kept_bytes = atomic_load(&consumer->receiver.kept_bytes),
        .queued_bytes = amqp_consumer_queued_bytes(consumer),
        .stale = counter_get(&consumer->stale),
        .ack_frames = counter_get(&consumer->ack_frames),
        .reconnects = counter_get(&consumer->receiver.member.reconnects),
    };
    return CONEY_OK;
}
