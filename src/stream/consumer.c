/* consumer.c: opening a consumer, its subscription, the chunks that arrive, closing it. */
#include "stream/consumer.h"

#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>

#define DEFAULT_CREDIT 10
#define DEFAULT_STORE_EVERY 10000
#define DEFAULT_STORE_INTERVAL (5 * CONEY_SECOND)
#define DEFAULT_MAX_KEPT (64 * CONEY_MIB)

static struct coney_stream_consumer *of(struct member *member)
{
    return container_of(member, struct coney_stream_consumer, member);
}

static bool request(struct member *member, struct stream_frame *frame, answer_fn answer)
{
    if (conn_request(member->conn, frame, time_after(time_now(), member->env->settings.call_deadline), answer, member))
        return true;
    member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
    return false;
}

/* Subscribing: the stored offset, then "next" as a number, then the subscription -------------------------------------- */

static void subscribed(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    if (status == CONEY_OK) {
        if (!member->opened)
            member_ref(member); /* the lane's: from here on there are chunks */
        member_active(member);
    } else if (answer != NULL) {
        member_refused(member, answer->code);
    } else {
        member_failed(member, status, 0, text, true);
    }
}

static void subscribe(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    uint8_t room[STREAM_REFERENCE_MAX + 16];
    struct list_writer properties = list_begin(room, sizeof room);
    if (consumer->options.name != NULL)
        list_add_pair(&properties, CONEY_STR("name"), coney_bytes_str(consumer->options.name));
    struct stream_frame frame = {.key = STREAM_SUBSCRIBE,
                                 .subscribe = {.subscription = member->id,
                                               .stream = coney_bytes_str(member->stream),
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
    if (consumer->start.type != STREAM_OFFSET_NEXT || member->conn->versions[STREAM_RESOLVE_OFFSET_SPEC] == 0) {
        subscribe(member);
        return;
    }
    struct stream_frame frame = {.key = STREAM_RESOLVE_OFFSET_SPEC,
                                 .resolve_offset_spec = {.stream = coney_bytes_str(member->stream), .offset = consumer->start}};
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
        member_refused(member, answer->code);
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
    if (consumer->options.name == NULL) {
        pin_next(member);
        return;
    }
    struct stream_frame frame = {
        .key = STREAM_QUERY_OFFSET,
        .query_offset = {.reference = coney_bytes_str(consumer->options.name), .stream = coney_bytes_str(member->stream)}};
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
    lock_acquire(&consumer->lock);
    bool room = consumer->queue_tail - consumer->queue_head < consumer->queue_cap || grow_queue(consumer);
    if (room)
        consumer->queue[consumer->queue_tail++ & (consumer->queue_cap - 1)] = *received;
    lock_release(&consumer->lock);
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
        lock_acquire(&consumer->lock);
        consumer->chunks_done++;
        lock_release(&consumer->lock);
        loop_post(member->env->loop, &consumer->task);
        return NULL;
    }
    struct received received = {
        .block = block_ref(block),
        .chunk = deliver->chunk,
        .committed = deliver->committed,
        .skip_below = first_wanted(consumer, &chunk),
        .place = consumer->place,
    };
    if (!enqueue(consumer, &received)) {
        block_unref(block);
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), true);
        return NULL;
    }
    consumer->start = (struct stream_offset_spec){.type = STREAM_OFFSET_OFFSET, .value = chunk.first + chunk.records};
    lane_wake(&consumer->lane);
    return NULL;
}

void consumer_credit_refused(struct member *member, uint16_t code)
{
    if (code == STREAM_CODE_SUBSCRIPTION_ID_DOES_NOT_EXIST && member->state == MEMBER_ACTIVE)
        member_failed(member, CONEY_EUNAVAILABLE, code, "the broker no longer knows this subscription", false);
}

/* Closing: the handler ends, the offset is stored, the subscription ends ----------------------------------------------- */

struct close_op {
    struct op op;
    struct coney_stream_consumer *consumer;
    bool unsubscribed; /* the request is out */
};

static struct close_op *of_op(struct op *op)
{
    return container_of(op, struct close_op, op);
}

/* Behind all that was posted for the consumer, and what was deferred: the lane's own task on the loop. */
static void drop_lane(struct task *task)
{
    struct coney_stream_consumer *consumer = container_of(task, struct coney_stream_consumer, last_task);
    coney_loop *loop = consumer->member.env->loop;
    if (atomic_load(&consumer->lane.task.posted)) {
        loop_post(loop, task);
        return;
    }
    loop_timer_unset(loop, &consumer->wake_timer);
    member_unref(&consumer->member);
}

/* Nothing of the lane will run again. Its reference, if it ever had work, goes with the last task. */
static void release_lane(struct coney_stream_consumer *consumer)
{
    if (consumer->released || consumer->member.state != MEMBER_DEAD || !lane_stop(&consumer->lane, 0))
        return;
    lock_acquire(&consumer->lock);
    consumer->released = true;
    lock_release(&consumer->lock);
    consumer_drop_received(consumer);
    consumer_drop_again(consumer);
    if (consumer->member.opened)
        loop_post(consumer->member.env->loop, &consumer->last_task);
}

void consumer_post(struct coney_stream_consumer *consumer)
{
    lock_acquire(&consumer->lock);
    if (!consumer->released)
        loop_post(consumer->member.env->loop, &consumer->task);
    lock_release(&consumer->lock);
}

void consumer_wake(struct coney_stream_consumer *consumer)
{
    lock_acquire(&consumer->lock);
    if (!consumer->released)
        lane_wake(&consumer->lane);
    lock_release(&consumer->lock);
}

/* `held` as in member_end. */
static void finish_close(struct coney_stream_consumer *consumer, coney_status status, bool held)
{
    struct op *op = consumer->closing;
    if (op == NULL)
        return;
    consumer->closing = NULL;
    member_end(&consumer->member, held);
    release_lane(consumer);
    lock_acquire(&consumer->lock);
    uint64_t kept = consumer->kept_count;
    lock_release(&consumer->lock);
    op_end(op, status, 0, kept, NULL);
    member_closed(&consumer->member);
}

/* The answer also says that the broker has seen the offset that was stored just before. */
static void unsubscribed(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    (void)status;
    (void)text;
    struct coney_stream_consumer *consumer = ctx;
    finish_close(consumer, CONEY_OK, answer == NULL);
    member_unref(&consumer->member);
}

static void unsubscribe(struct coney_stream_consumer *consumer)
{
    struct member *member = &consumer->member;
    of_op(consumer->closing)->unsubscribed = true;
    consumer_store_now(consumer);
    if (member->state != MEMBER_ACTIVE) {
        finish_close(consumer, CONEY_OK, member->state == MEMBER_DECLARING);
        return;
    }
    member_ref(member);
    conn_forget_id(member->conn, member->id, unsubscribed, consumer);
}

/* Credit that is still to be given back was for a subscription that is gone, and so was an Unsubscribe. */
static void lost(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    atomic_store(&consumer->connected, false);
    lock_acquire(&consumer->lock);
    consumer->place++;
    consumer->chunks_done = 0;
    lock_release(&consumer->lock);
    if (consumer->closing != NULL && of_op(consumer->closing)->unsubscribed)
        finish_close(consumer, CONEY_OK, false);
}

/* Goes on once the handler has ended. */
static void go_on_closing(struct coney_stream_consumer *consumer)
{
    struct close_op *close = of_op(consumer->closing);
    if (!close->unsubscribed && lane_stop(&consumer->lane, 0))
        unsubscribe(consumer);
}

static void close_begin(struct op *op)
{
    struct coney_stream_consumer *consumer = of_op(op)->consumer;
    consumer->closing = op;
    go_on_closing(consumer);
}

static void close_expire(struct op *op, coney_status status)
{
    struct coney_stream_consumer *consumer = of_op(op)->consumer;
    enum member_state state = consumer->member.state;
    finish_close(consumer, status, state == MEMBER_ACTIVE || state == MEMBER_DECLARING);
}

static void close_free(struct op *op)
{
    struct close_op *close = of_op(op);
    member_unref(&close->consumer->member);
    free(close);
}

static void run_ended(struct task *task)
{
    struct coney_stream_consumer *consumer = container_of(task, struct coney_stream_consumer, ended_task);
    struct member *member = member_ref(&consumer->member);
    if (consumer->closing != NULL)
        go_on_closing(consumer);
    release_lane(consumer);
    member_unref(member);
}

static coney_status close_consumer(struct member *member, coney_call *call)
{
    struct coney_stream_consumer *consumer = of(member);
    coney_loop *loop = member->env->loop;
    struct close_op *close = calloc(1, sizeof *close);
    if (close == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    atomic_store(&consumer->open, CONEY_ECLOSED);
    lane_stop(&consumer->lane, 0);
    close->consumer = consumer;
    member_ref(member);
    op_init(&close->op, loop, close_begin, NULL, close_free);
    close->op.expire = close_expire;
    close->op.detached = lane_is_current(&consumer->lane) || loop_is_current(loop);
    return op_run(&close->op, call, member->env->settings.call_deadline);
}

static void dead(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    atomic_store(&consumer->open, CONEY_ECLOSED);
    loop_timer_unset(member->env->loop, &consumer->store_timer);
    loop_timer_unset(member->env->loop, &consumer->wake_timer);
    if (consumer->closing != NULL)
        finish_close(consumer, CONEY_OK, false);
    else if (atomic_load(&member->handle_closed))
        release_lane(consumer);
}

void consumer_stop_here(const struct coney_stream_env *env)
{
    struct lane *lane = lane_here();
    if (lane != NULL && container_of(lane, struct coney_stream_consumer, lane)->member.env == env)
        lane_stop(lane, 0);
}

static void free_consumer(struct member *member)
{
    struct coney_stream_consumer *consumer = of(member);
    consumer_drop_received(consumer);
    free(consumer->queue);
    free((char *)(uintptr_t)consumer->options.name);
    free(consumer);
}

static const struct member_kind kind = {
    .purpose = PURPOSE_CONSUME,
    .noun = "consumer",
    .declare = declare,
    .active = active,
    .lost = lost,
    .dead = dead,
    .close = close_consumer,
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
    if (options->reserved_number != 0 || reserved_check(options->reserved, sizeof options->reserved) != CONEY_OK)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if ((options->on_message == NULL) == (options->on_chunk == NULL))
        return op_refuse(call, CONEY_EINVAL, "a consumer has either on_message or on_chunk");
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
    if (options->max_kept == 0)
        options->max_kept = DEFAULT_MAX_KEPT;
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

static struct coney_stream_consumer *consumer_new(struct coney_stream_env *env, const char *stream,
                                                  const coney_stream_consumer_options *options, bool keep_trying)
{
    struct coney_stream_consumer *consumer = calloc(1, sizeof *consumer);
    char *name = options->name != NULL ? strdup(options->name) : NULL;
    if (consumer == NULL || (options->name != NULL && name == NULL) ||
        !member_init(&consumer->member, &kind, env, stream, keep_trying)) {
        free(name);
        free(consumer);
        return NULL;
    }
    consumer->options = *options;
    consumer->options.name = name;
    set_defaults(&consumer->options);
    consumer->fork = env->fork;
    consumer->start = start_of(options);
    consumer->until_store = (uint64_t)consumer->options.store_every;
    consumer->delivery.stream = consumer->member.stream;
    consumer->delivery.consumer = consumer;
    consumer->task.run = consumer_task;
    consumer->ended_task.run = run_ended;
    consumer->last_task.run = drop_lane;
    consumer->store_timer.fire = consumer_store_timer;
    consumer->wake_timer.fire = consumer_wake_timer;
    list_init(&consumer->kept);
    list_init(&consumer->again);
    lane_init(&consumer->lane, options->on_loop ? NULL : env->dispatcher, env->loop, consumer_run);
    consumer->lane.ended = &consumer->ended_task;
    if (options->paused)
        lane_stop(&consumer->lane, 0);
    return consumer;
}

coney_stream_consumer *coney_stream_consumer_open_sized(coney_stream_env *env, const char *stream,
                                                        const coney_stream_consumer_options *user_options, size_t options_size,
                                                        coney_call *call)
{
    coney_stream_consumer_options options = {0};
    if (env_check(env, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK ||
        check_options(&options, stream, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    struct coney_stream_consumer *consumer = consumer_new(env, stream, &options, asynchronous && options.keep_trying);
    if (consumer == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    if (member_run_open(&consumer->member, call) == CONEY_OK)
        return consumer;
    member_unref(&consumer->member);
    return NULL;
}

/* Uses ------------------------------------------------------------------------------------------------------------ */

static coney_status use(const coney_stream_consumer *consumer)
{
    if (consumer == NULL)
        return CONEY_EINVAL;
    if (consumer->fork != fork_generation())
        return CONEY_EFORKED;
    return (coney_status)atomic_load(&consumer->open);
}

coney_status coney_stream_consumer_close(coney_stream_consumer **handle, coney_call *call)
{
    struct coney_stream_consumer *consumer = handle != NULL ? *handle : NULL;
    if (consumer == NULL)
        return CONEY_OK;
    return member_close_handle(&consumer->member, (void **)handle, consumer->fork, call);
}

coney_status coney_stream_consumer_pause(coney_stream_consumer *consumer)
{
    coney_status status = use(consumer);
    if (status == CONEY_OK)
        lane_stop(&consumer->lane, loop_is_current(consumer->member.env->loop) ? 0 : INT64_MAX);
    return status;
}

coney_status coney_stream_consumer_resume(coney_stream_consumer *consumer)
{
    coney_status status = use(consumer);
    if (status != CONEY_OK)
        return status;
    lane_resume(&consumer->lane);
    if (atomic_load(&consumer->open) != CONEY_OK)
        lane_stop(&consumer->lane, 0); /* closed meanwhile */
    return CONEY_OK;
}

coney_status coney_stream_consumer_credit(coney_stream_consumer *consumer, int64_t chunks)
{
    coney_status status = use(consumer);
    if (status != CONEY_OK)
        return status;
    if (!consumer->options.credit_by_hand || chunks < 1 || chunks > STREAM_CREDIT_MAX)
        return CONEY_EINVAL;
    atomic_fetch_add(&consumer->hand_credit, (uint64_t)chunks);
    consumer_post(consumer);
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
    lock_acquire(&consumer->lock);
    consumer->store_wanted = offset + 1;
    lock_release(&consumer->lock);
    consumer_post(consumer);
    return CONEY_OK;
}

coney_status coney_stream_consumer_get_stats(const coney_stream_consumer *consumer, coney_stream_consumer_stats *stats)
{
    if (consumer == NULL || stats == NULL)
        return CONEY_EINVAL;
    struct lock *lock = (struct lock *)(uintptr_t)&consumer->lock;
    lock_acquire(lock);
    uint64_t kept = consumer->kept_count;
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
        .kept_bytes = atomic_load(&consumer->kept_bytes),
        .queued_chunks = queued,
        .reconnects = counter_get(&consumer->member.reconnects),
        .unreadable = counter_get(&consumer->unreadable_count),
        .last_offset = position > 0 ? position - 1 : 0,
        .stored_offset = counter_get(&consumer->stored_offset),
        .credits = counter_get(&consumer->credits),
    };
    return CONEY_OK;
}
