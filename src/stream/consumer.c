/* consumer.c: opening a consumer, its subscription, the chunks that arrive, closing it. */
#include "stream/consumer.h"

#include "base/time.h"
#include "stream/locate.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CREDIT 10
#define DEFAULT_STORE_EVERY 10000
#define DEFAULT_STORE_INTERVAL (5 * CONEY_SECOND)
#define DEFAULT_MAX_KEPT (64 * CONEY_MIB)

static struct coney_stream_consumer *of(struct member *member)
{
    return container_of(member, struct coney_stream_consumer, receiver.member);
}

static bool request(struct member *member, struct stream_frame *frame, answer_fn answer)
{
    if (stream_conn_request(member->conn, frame, time_after(time_now(), member->env->settings.call_deadline), answer, member))
        return true;
    member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
    return false;
}

/* Subscribing: the stored offset, then "next" as a number, then the subscription -------------------------------------- */

static void subscribed(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    if (status == CONEY_OK)
        receiver_subscribed(&of(member)->receiver);
    else if (answer != NULL)
        stream_refused(member, answer->code);
    else
        member_failed(member, status, 0, text, true);
}

static void subscribe(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    uint8_t room[STREAM_REFERENCE_MAX + 16];
    struct list_writer properties = list_begin(room, sizeof room);
    if (consumer->options.name != NULL)
        list_add_pair(&properties, CONEY_STR("name"), coney_bytes_str(consumer->options.name));
    struct stream_frame frame = {.key = STREAM_SUBSCRIBE,
                                 .subscribe = {.subscription = (uint8_t)member->id,
                                               .stream = coney_bytes_str(member->name),
                                               .offset = consumer->start,
                                               .credit = (uint16_t)consumer->options.credit}};
    list_end(&properties, &frame.subscribe.properties);
    consumer->first_chunk = true;
    consumer->credit_owed = 0;
    request(member, &frame, subscribed);
}

static void resolved(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    (void)text;
    struct member *member = ctx;
    if (status == CONEY_OK)
        of(member)->start = answer->resolve_offset_spec_answer.offset;
    if (status == CONEY_OK || answer != NULL)
        subscribe(member);
    else
        member_failed(member, status, 0, text, false);
}

/* "next" becomes the offset that it means now, where the broker can say it (4.3): a cut before the first message then skips nothing. */
static void pin_next(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    consumer->start_known = true;
    if (consumer->start.type != STREAM_OFFSET_NEXT || stream_conn_of(member->conn)->versions[STREAM_RESOLVE_OFFSET_SPEC] == 0) {
        subscribe(member);
        return;
    }
    struct stream_frame frame = {.key = STREAM_RESOLVE_OFFSET_SPEC,
                                 .resolve_offset_spec = {.stream = coney_bytes_str(member->name), .offset = consumer->start}};
    request(member, &frame, resolved);
}

static void got_stored_offset(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    struct coney_stream_consumer *consumer = of(member);
    if (status == CONEY_OK) {
        uint64_t stored = answer->query_offset_answer.offset;
        consumer->start = (struct stream_offset_spec){.type = STREAM_OFFSET_OFFSET, .value = stored + 1};
        consumer->has_stored = true;
        counter_set(&consumer->stored_offset, stored);
    }
    if (status == CONEY_OK || status == CONEY_ENOOFFSET)
        pin_next(member);
    else if (answer != NULL)
        stream_refused(member, answer->code);
    else
        member_failed(member, status, 0, text, false);
}

static void declare(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    if (consumer->start_known) {
        subscribe(member);
        return;
    }
    if (consumer->options.name == NULL || consumer->options.start_always) {
        pin_next(member);
        return;
    }
    struct stream_frame frame = {
        .key = STREAM_QUERY_OFFSET,
        .query_offset = {.reference = coney_bytes_str(consumer->options.name), .stream = coney_bytes_str(member->name)}};
    request(member, &frame, got_stored_offset);
}

static void active(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    atomic_store(&consumer->connected, true);
    if (consumer->store_timer.place == 0)
        consumer_set_store_timer(consumer);
}

/* Chunks ---------------------------------------------------------------------------------------------------------- */

static bool grow_queue(struct coney_stream_consumer *consumer)
{
    size_t cap = consumer->queue_cap > 0 ? consumer->queue_cap * 2 : 16;
    struct received *queue = malloc(cap * sizeof *queue);
    if (queue == NULL)
        return false;
    for (uint64_t i = consumer->queue_head; i != consumer->queue_tail; i++)
        queue[i & (cap - 1)] = consumer->queue[i & (consumer->queue_cap - 1)];
    free(consumer->queue);
    consumer->queue = queue;
    consumer->queue_cap = cap;
    return true;
}

static bool enqueue(struct coney_stream_consumer *consumer, const struct received *received)
{
    lock_acquire(&consumer->receiver.lock);
    bool room = consumer->queue_tail - consumer->queue_head < consumer->queue_cap || grow_queue(consumer);
    if (room)
        consumer->queue[consumer->queue_tail++ & (consumer->queue_cap - 1)] = *received;
    lock_release(&consumer->receiver.lock);
    return room;
}

/* What was asked for lies in the first chunk, behind messages that were not, or begins after it. When the asked offset is beyond the end, the broker
 * begins with the next message, whose offset is lower, and nothing is to be passed over. */
static uint64_t first_wanted(struct coney_stream_consumer *consumer, const struct chunk *chunk)
{
    bool first = consumer->first_chunk;
    consumer->first_chunk = false;
    uint64_t asked = consumer->start.value;
    bool inside = asked > chunk->first && asked - chunk->first <= chunk->records;
    return first && consumer->start.type == STREAM_OFFSET_OFFSET && inside ? asked : 0;
}

const char *consumer_received(struct member *member, struct block *block, const struct stream_deliver *deliver)
{
    struct coney_stream_consumer *consumer = of(member);
    if (member->state != MEMBER_ACTIVE)
        return NULL;
    struct chunk chunk;
    const char *field = chunk_open(deliver->chunk, &chunk);
    if (field != NULL)
        return field;
    counter_add(&consumer->chunks, 1);
    if (chunk.type != CHUNK_USER) {
        lock_acquire(&consumer->receiver.lock);
        consumer->chunks_done++;
        lock_release(&consumer->receiver.lock);
        loop_post(member->env->loop, &consumer->receiver.task);
        return NULL;
    }
    struct received received = {
        .block = block_ref(block),
        .chunk = deliver->chunk,
        .committed = deliver->committed,
        .skip_below = first_wanted(consumer, &chunk),
        .place = consumer->receiver.place,
    };
    if (!enqueue(consumer, &received)) {
        block_unref(block);
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), true);
        return NULL;
    }
    consumer->start = (struct stream_offset_spec){.type = STREAM_OFFSET_OFFSET, .value = chunk.first + chunk.records};
    lane_wake(&consumer->receiver.lane);
    return NULL;
}

void consumer_credit_refused(struct member *member, uint16_t code)
{
    if (code == STREAM_CODE_SUBSCRIPTION_ID_DOES_NOT_EXIST && member->state == MEMBER_ACTIVE)
        member_failed(member, CONEY_EUNAVAILABLE, code, "the broker no longer knows this subscription", false);
}

/* Closing: the offset is stored, the subscription ends ------------------------------------------------------------------- */

/* The answer also says that the broker has seen the offset that was stored just before. */
static void unsubscribed(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    (void)status;
    (void)text;
    struct receiver *receiver = ctx;
    receiver_unsubscribed(receiver, CONEY_OK, answer == NULL);
    member_unref(&receiver->member);
}

static void unsubscribe(struct receiver *receiver)
{
    struct member *member = &receiver->member;
    consumer_store_now(consumer_of(receiver));
    if (member->state != MEMBER_ACTIVE) {
        receiver_unsubscribed(receiver, CONEY_OK, member->state == MEMBER_DECLARING);
        return;
    }
    member_ref(member);
    stream_conn_forget_id(member->conn, (uint8_t)member->id, unsubscribed, receiver);
}

static void drop(struct receiver *receiver)
{
    consumer_drop_received(consumer_of(receiver));
    consumer_drop_again(consumer_of(receiver));
}

/* Credit that is still to be given back was for a subscription that is gone, and so was an Unsubscribe. */
static void lost(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    atomic_store(&consumer->connected, false);
    lock_acquire(&consumer->receiver.lock);
    consumer->chunks_done = 0;
    lock_release(&consumer->receiver.lock);
    receiver_lost(&consumer->receiver);
}

static void dead(struct member *member)
{
    loop_timer_unset(member->env->loop, &of(member)->store_timer);
    receiver_dead(member);
}

static void free_consumer(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    receiver_free(&consumer->receiver);
    consumer_drop_received(consumer);
    free(consumer->queue);
    free((char *)(uintptr_t)consumer->options.name);
    free(consumer);
}

static const struct receiver_kind receiver_kind = {
    .run = consumer_run,
    .task = consumer_task,
    .unsubscribe = unsubscribe,
    .drop = drop,
};

static const struct member_kind member_kind = {
    .purpose = PURPOSE_CONSUME,
    .noun = "consumer of stream",
    .unreachable = LOCATE_UNREACHABLE,
    .locate = stream_locate,
    .declare = declare,
    .active = active,
    .lost = lost,
    .leave = stream_leave,
    .is_final = stream_is_final,
    .dead = dead,
    .close = receiver_close,
    .free = free_consumer,
};

/* Opening --------------------------------------------------------------------------------------------------------- */

static coney_status check_options(const coney_stream_consumer_options *options, const char *stream, coney_call *call)
{
    coney_status status = name_check("stream", stream, STREAM_REFERENCE_MAX, call);
    if (status == CONEY_OK && options->name != NULL)
        status = name_check("consumer", options->name, STREAM_REFERENCE_MAX, call);
    if (status != CONEY_OK)
        return status;
    if (options->reserved_number != 0)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if ((options->on_message == NULL) == (options->on_chunk == NULL))
        return op_refuse(call, CONEY_EINVAL, "a consumer has either on_message or on_chunk");
    if (options->on_loop && options->own_thread)
        return op_refuse(call, CONEY_EINVAL, "a consumer's handler runs either on_loop or on its own_thread");
    if (options->start_if_new < CONEY_STREAM_NEXT || options->start_if_new > CONEY_STREAM_TIMESTAMP)
        return op_refuse(call, CONEY_EINVAL, "start_if_new is %d, which is no CONEY_STREAM_ constant",
                         (int)options->start_if_new);
    if (options->credit < 0 || options->credit > STREAM_CREDIT_MAX)
        return op_refuse(call, CONEY_EINVAL, "credit is %lld: 1 to %d, or 0 for the default", (long long)options->credit,
                         STREAM_CREDIT_MAX);
    int64_t credit = options->credit != 0 ? options->credit : DEFAULT_CREDIT;
    if (options->credit_every < 0 || (options->credit_every > 1 && options->credit_every > credit / 2))
        return op_refuse(call, CONEY_EINVAL,
                         "credit_every is %lld, more than half of credit (%lld): the broker would stop sending",
                         (long long)options->credit_every, (long long)credit);
    if (options->store_every < CONEY_OFF || options->store_interval < CONEY_OFF || options->max_kept < 0)
        return op_refuse(call, CONEY_EINVAL, "store_every, store_interval or max_kept is negative");
    return CONEY_OK;
}

static void set_defaults(coney_stream_consumer_options *options)
{
    if (options->credit == 0)
        options->credit = DEFAULT_CREDIT;
    if (options->credit_every == 0)
        options->credit_every = 1;
    if (options->store_every == 0)
        options->store_every = DEFAULT_STORE_EVERY;
    if (options->store_every == CONEY_OFF || options->name == NULL || options->store_by_hand)
        options->store_every = INT64_MAX;
    if (options->store_interval == 0)
        options->store_interval = DEFAULT_STORE_INTERVAL;
}

static struct stream_offset_spec start_of(const coney_stream_consumer_options *options)
{
    switch (options->start_if_new) {
    case CONEY_STREAM_NEXT:
        break;
    case CONEY_STREAM_FIRST:
        return (struct stream_offset_spec){.type = STREAM_OFFSET_FIRST};
    case CONEY_STREAM_LAST:
        return (struct stream_offset_spec){.type = STREAM_OFFSET_LAST};
    case CONEY_STREAM_OFFSET:
        return (struct stream_offset_spec){.type = STREAM_OFFSET_OFFSET, .value = options->start_offset};
    case CONEY_STREAM_TIMESTAMP:
        return (struct stream_offset_spec){.type = STREAM_OFFSET_TIMESTAMP, .value = (uint64_t)options->start_time};
    }
    return (struct stream_offset_spec){.type = STREAM_OFFSET_NEXT};
}

static struct coney_stream_consumer *consumer_new(struct env *env, const char *stream,
                                                  const coney_stream_consumer_options *options, bool keep_trying,
                                                  coney_call *call)
{
    struct coney_stream_consumer *consumer = calloc(1, sizeof *consumer);
    char *name = options->name != NULL ? strdup(options->name) : NULL;
    struct receiver_options common = {.max_kept = (uint64_t)(options->max_kept != 0 ? options->max_kept : DEFAULT_MAX_KEPT),
                                      .on_loop = options->on_loop,
                                      .own_thread = options->own_thread,
                                      .paused = options->paused};
    coney_status status = CONEY_ENOMEM;
    if (consumer != NULL && (options->name == NULL || name != NULL))
        status = receiver_init(&consumer->receiver, &receiver_kind, &member_kind, env, stream, &common, keep_trying);
    if (status != CONEY_OK) {
        op_refuse(call, status, "%s", coney_status_text(status));
        free(name);
        free(consumer);
        return NULL;
    }
    consumer->options = *options;
    consumer->options.name = name;
    set_defaults(&consumer->options);
    consumer->start = start_of(options);
    consumer->until_store = (uint64_t)consumer->options.store_every;
    consumer->delivery.stream = consumer->receiver.member.name;
    consumer->delivery.consumer = consumer;
    consumer->store_timer.fire = consumer_store_timer;
    list_init(&consumer->again);
    return consumer;
}

coney_stream_consumer *coney_stream_consumer_open_sized(coney_stream_env *env, const char *stream,
                                                        const coney_stream_consumer_options *user_options, size_t options_size,
                                                        coney_call *call)
{
    coney_stream_consumer_options options = {0};
    if (stream_env_check(env, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK ||
        check_options(&options, stream, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    struct coney_stream_consumer *consumer =
        consumer_new(&env->env, stream, &options, asynchronous && options.keep_trying, call);
    if (consumer == NULL)
        return NULL;
    if (member_run_open(&consumer->receiver.member, call) == CONEY_OK)
        return consumer;
    member_unref(&consumer->receiver.member);
    return NULL;
}

/* Uses ------------------------------------------------------------------------------------------------------------ */

static coney_status use(const coney_stream_consumer *consumer)
{
    return receiver_use(consumer != NULL ? &consumer->receiver : NULL);
}

coney_status coney_stream_consumer_close(coney_stream_consumer **handle, coney_call *call)
{
    return member_close_handle((void **)handle, call);
}

coney_status coney_stream_consumer_pause(coney_stream_consumer *consumer)
{
    return receiver_pause(consumer != NULL ? &consumer->receiver : NULL);
}

coney_status coney_stream_consumer_resume(coney_stream_consumer *consumer)
{
    return receiver_resume(consumer != NULL ? &consumer->receiver : NULL);
}

coney_status coney_stream_consumer_credit(coney_stream_consumer *consumer, int64_t chunks)
{
    coney_status status = use(consumer);
    if (status != CONEY_OK)
        return status;
    if (!consumer->options.credit_by_hand || chunks < 1 || chunks > STREAM_CREDIT_MAX)
        return CONEY_EINVAL;
    atomic_fetch_add(&consumer->hand_credit, (uint64_t)chunks);
    receiver_post(&consumer->receiver);
    return CONEY_OK;
}

coney_status coney_stream_consumer_store(coney_stream_consumer *consumer, uint64_t offset)
{
    coney_status status = use(consumer);
    if (status != CONEY_OK)
        return status;
    if (consumer->options.name == NULL || offset == UINT64_MAX)
        return CONEY_EINVAL;
    if (!atomic_load(&consumer->connected))
        return CONEY_EAGAIN;
    lock_acquire(&consumer->receiver.lock);
    consumer->store_wanted = offset + 1;
    lock_release(&consumer->receiver.lock);
    receiver_post(&consumer->receiver);
    return CONEY_OK;
}

coney_status coney_stream_consumer_get_stats(const coney_stream_consumer *consumer, coney_stream_consumer_stats *stats)
{
    if (consumer == NULL || stats == NULL)
        return CONEY_EINVAL;
    struct lock *lock = (struct lock *)(uintptr_t)&consumer->receiver.lock;
    lock_acquire(lock);
    uint64_t kept = consumer->receiver.kept_count;
    uint64_t queued = consumer->queue_tail - consumer->queue_head;
    uint64_t kept_acked = counter_get(&consumer->kept_acked);
    uint64_t kept_rejected = counter_get(&consumer->kept_rejected);
    lock_release(lock);
    uint64_t position = atomic_load(&consumer->position);
    *stats = (coney_stream_consumer_stats){
        .messages = counter_get(&consumer->messages),
        .bytes = counter_get(&consumer->bytes),
        .chunks = counter_get(&consumer->chunks),
        .acked = counter_get(&consumer->acked) + kept_acked,
        .rejected = counter_get(&consumer->rejected) + kept_rejected,
        .requeued = counter_get(&consumer->requeued),
        .kept = kept,
        .kept_bytes = atomic_load(&consumer->receiver.kept_bytes),
        .queued_chunks = queued,
        .reconnects = counter_get(&consumer->receiver.member.reconnects),
        .unreadable = counter_get(&consumer->unreadable_count),
        .last_offset = position > 0 ? position - 1 : 0,
        .stored_offset = counter_get(&consumer->stored_offset),
        .credits = counter_get(&consumer->credits),
    };
    return CONEY_OK;
}
