/* producer.c: opening a producer, its place on a connection, closing it. */
#include "stream/producer.h"

#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>

#define DEFAULT_MESSAGES 10000
#define DEFAULT_BYTES (64 * CONEY_MIB)
#define DEFAULT_ENQUEUE (10 * CONEY_SECOND)
#define MOST_MESSAGES (INT64_C(1) << 30)
#define FRAME_UNLIMITED (64u << 20) /* what a frame may have when the broker names no limit */

static struct coney_stream_producer *of(struct member *member)
{
    return container_of(member, struct coney_stream_producer, member);
}

/* Writing --------------------------------------------------------------------------------------------------------- */

static size_t entry_limit(const struct conn *conn)
{
    uint32_t frame_max = conn->frame_max > 0 ? conn->frame_max : FRAME_UNLIMITED;
    size_t around = PUBLISH_HEADER_BYTES - STREAM_SIZE_BYTES;
    return frame_max > around ? frame_max - around : 0;
}

size_t producer_fill(struct list *ready, struct iovec *slices, size_t cap, size_t *bytes)
{
    struct coney_stream_producer *producer = container_of(ready, struct coney_stream_producer, ready);
    struct conn *conn = producer->member.conn;
    struct outbox_run run;
    size_t taken = outbox_take(&producer->outbox, entry_limit(conn), slices + 1, cap - 1, &run);
    if (taken == 0)
        return 0;
    publish_header_write(producer->header, producer->member.id, run.entries, (uint32_t)run.bytes, 1);
    slices[0] = (struct iovec){.iov_base = producer->header, .iov_len = sizeof producer->header};
    *bytes += run.bytes + sizeof producer->header;
    counter_add(&producer->frames, 1);
    return taken + 1;
}

void producer_written(struct list *ready)
{
    outbox_written(&container_of(ready, struct coney_stream_producer, ready)->outbox);
}

static void run_send(struct task *task)
{
    struct coney_stream_producer *producer = container_of(task, struct coney_stream_producer, send_task);
    if (producer->member.state == MEMBER_ACTIVE)
        conn_want_publish(producer->member.conn, &producer->ready);
}

/* Confirm deadline ------------------------------------------------------------------------------------------------ */

static void set_confirm_timer(struct coney_stream_producer *producer)
{
    int64_t quarter = producer->confirm_timeout / DEADLINE_MARKS;
    int64_t pause = quarter > CONEY_MILLISECOND ? quarter : CONEY_MILLISECOND; /* a tiny one would keep the loop busy */
    loop_timer_set(producer->member.env->loop, &producer->confirm_timer, time_after(time_now(), pause));
}

/* Four times in a deadline: what was in hand four ticks ago is too old. No clock is read for a message. */
static void run_confirm_timer(struct timer *timer)
{
    struct coney_stream_producer *producer = container_of(timer, struct coney_stream_producer, confirm_timer);
    struct member *member = member_ref(&producer->member);
    uint64_t old = producer->marks[producer->mark];
    producer->marks[producer->mark] = atomic_load(&producer->outbox.tail);
    producer->mark = (producer->mark + 1) % DEADLINE_MARKS;
    producer_give_up(producer, old);
    if (member->state != MEMBER_DEAD)
        set_confirm_timer(producer);
    member_unref(member);
}

/* The place ------------------------------------------------------------------------------------------------------- */

static void declared(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    if (status == CONEY_OK)
        member_active(member);
    else if (answer != NULL)
        member_refused(member, answer->code);
    else
        member_failed(member, status, 0, text, true);
}

static void send_declare(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    struct stream_frame frame = {.key = STREAM_DECLARE_PUBLISHER,
                                 .declare_publisher = {.publisher = member->id,
                                                       .reference = coney_bytes_str(producer->name),
                                                       .stream = coney_bytes_str(member->stream)}};
    if (!conn_request(member->conn, &frame, time_after(time_now(), member->env->settings.call_deadline), declared, member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
}

static void got_sequence(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    if (status != CONEY_OK && answer != NULL)
        member_refused(member, answer->code);
    else if (status != CONEY_OK)
        member_failed(member, status, 0, text, false);
    if (status != CONEY_OK)
        return;
    of(member)->id_base = answer->query_publisher_sequence_answer.sequence + 1;
    send_declare(member);
}

/* A named producer goes on after the last id that the broker has; asked once, since later the ids in hand are the truth. */
static void declare(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    if (producer->name == NULL || member->opened) {
        send_declare(member);
        return;
    }
    struct stream_frame frame = {
        .key = STREAM_QUERY_PUBLISHER_SEQUENCE,
        .query_publisher_sequence = {.reference = coney_bytes_str(producer->name), .stream = coney_bytes_str(member->stream)}};
    if (!conn_request(member->conn, &frame, time_after(time_now(), member->env->settings.call_deadline), got_sequence, member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
}

static void active(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    struct outbox *outbox = &producer->outbox;
    size_t limit = entry_limit(member->conn);
    lock_acquire(&outbox->lock);
    bool shrunk = limit < producer->max_entry;
    producer->max_entry = limit;
    outbox->max_messages = producer->max_messages;
    producer_set_limits(producer);
    bool call = producer->wants_room;
    producer->wants_room = false;
    lock_release(&outbox->lock);
    outbox_wake(outbox);
    if (shrunk)
        producer_refuse_oversized(producer, limit);
    if (member->state != MEMBER_ACTIVE)
        return;
    if (producer->confirm_timeout > 0 && producer->confirm_timer.place == 0)
        set_confirm_timer(producer);
    conn_want_publish(member->conn, &producer->ready);
    producer_retry_held(producer);
    if (call && producer->on_writable != NULL)
        producer->on_writable(producer->ctx);
}

static void lost(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    if (member->conn != NULL && producer->outbox.writing != NULL)
        conn_copy_writing(member->conn);
    list_remove(&producer->ready);
    uint64_t again = outbox_rewind(&producer->outbox);
    if (producer->no_resend)
        producer_give_up(producer, atomic_load(&producer->outbox.tail));
    else
        counter_add(&producer->resent, again);
}

/* Sends are refused from here on; who waits is woken. */
static void shut(struct coney_stream_producer *producer)
{
    struct outbox *outbox = &producer->outbox;
    lock_acquire(&outbox->lock);
    atomic_store(&producer->open, CONEY_ECLOSED);
    producer_set_limits(producer);
    lock_release(&outbox->lock);
    outbox_wake(outbox);
}

static void dead(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    shut(producer);
    producer_give_up(producer, atomic_load(&producer->outbox.tail));
    producer_fail_held(producer);
    producer_end_flushes(producer);
    loop_timer_unset(member->env->loop, &producer->confirm_timer);
    if (producer->closing != NULL)
        producer_finish_close(producer);
}

/* An attempt to find a place again has failed: a close does not wait for the next one. */
static void failed(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    if (producer->closing == NULL)
        return;
    producer->close_status = CONEY_ELOST;
    member_end(member, false);
}

/* Closing --------------------------------------------------------------------------------------------------------- */

struct close_op {
    struct op op;
    struct coney_stream_producer *producer;
};

static const char *close_text(const struct coney_stream_producer *producer)
{
    if (producer->close_status == CONEY_ELOST)
        return "the broker could not be reached while the producer was closed: messages without an outcome became "
               "CONEY_EUNKNOWN";
    if (producer->close_status == CONEY_ETIMEDOUT)
        return "the deadline passed before every message had its outcome: the rest became CONEY_EUNKNOWN";
    return NULL;
}

static void leave_broker(struct coney_stream_producer *producer)
{
    struct member *member = &producer->member;
    member_end(member, member->state == MEMBER_ACTIVE || member->state == MEMBER_DECLARING);
}

void producer_finish_close(struct coney_stream_producer *producer)
{
    struct op *op = producer->closing;
    if (op == NULL)
        return;
    producer->closing = NULL;
    leave_broker(producer);
    op_end(op, producer->close_status, 0, producer->unconfirmed_in_close, close_text(producer));
    member_closed(&producer->member);
}

static struct coney_stream_producer *closing_of(struct op *op)
{
    return container_of(op, struct close_op, op)->producer;
}

static void close_begin(struct op *op)
{
    struct coney_stream_producer *producer = closing_of(op);
    struct member *member = &producer->member;
    producer->closing = op;
    if (member->state == MEMBER_DEAD || outbox_pending(&producer->outbox) == 0)
        producer_finish_close(producer);
    else if (member->state == MEMBER_WAITING && member->backoff.attempts > 1)
        failed(member);
}

/* With messages still in hand: they become unknown first, and that ends the close. */
static void close_expire(struct op *op, coney_status status)
{
    struct coney_stream_producer *producer = closing_of(op);
    producer->close_status = status;
    leave_broker(producer);
}

static void close_free(struct op *op)
{
    struct close_op *close = container_of(op, struct close_op, op);
    member_unref(&close->producer->member);
    free(close);
}

static coney_status close_producer(struct member *member, coney_call *call)
{
    struct coney_stream_producer *producer = of(member);
    coney_loop *loop = member->env->loop;
    struct close_op *close = calloc(1, sizeof *close);
    if (close == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    shut(producer);
    close->producer = producer;
    member_ref(member);
    op_init(&close->op, loop, close_begin, NULL, close_free);
    close->op.expire = close_expire;
    close->op.detached = loop_is_current(loop);
    return op_run(&close->op, call, member->env->settings.call_deadline);
}

static void free_producer(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    outbox_free(&producer->outbox);
    free(producer->name);
    free(producer);
}

static const struct member_kind kind = {
    .purpose = PURPOSE_PUBLISH,
    .noun = "producer",
    .declare = declare,
    .active = active,
    .lost = lost,
    .failed = failed,
    .dead = dead,
    .close = close_producer,
    .free = free_producer,
};

/* Opening --------------------------------------------------------------------------------------------------------- */

static coney_status check_options(const coney_stream_producer_options *options, const char *stream, coney_call *call)
{
    coney_status status = name_check("stream", stream, STREAM_REFERENCE_MAX, call);
    if (status == CONEY_OK && options->name != NULL)
        status = name_check("producer", options->name, STREAM_REFERENCE_MAX, call);
    if (status != CONEY_OK)
        return status;
    if (reserved_check(options->reserved, sizeof options->reserved) != CONEY_OK)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if (options->max_messages < 0 || options->max_messages > MOST_MESSAGES)
        return op_refuse(call, CONEY_EINVAL, "max_messages is %lld: 1 to %lld, or 0 for the default",
                         (long long)options->max_messages, (long long)MOST_MESSAGES);
    if (options->max_bytes < 0)
        return op_refuse(call, CONEY_EINVAL, "max_bytes is %lld: at least 1, or 0 for the default",
                         (long long)options->max_bytes);
    if (options->enqueue_timeout < CONEY_OFF || options->confirm_timeout < CONEY_OFF)
        return op_refuse(call, CONEY_EINVAL, "a timeout is negative: nanoseconds, 0 for the default, or CONEY_OFF");
    return CONEY_OK;
}

static int64_t or_default(int64_t value, int64_t standard)
{
    return value != 0 ? value : standard;
}

static struct coney_stream_producer *producer_new(struct coney_stream_env *env, const char *stream,
                                                  const coney_stream_producer_options *options, bool keep_trying)
{
    struct coney_stream_producer *producer = calloc(1, sizeof *producer);
    if (producer == NULL)
        return NULL;
    producer->max_messages = (uint64_t)or_default(options->max_messages, DEFAULT_MESSAGES);
    uint64_t max_bytes = (uint64_t)or_default(options->max_bytes, DEFAULT_BYTES);
    producer->name = options->name != NULL ? strdup(options->name) : NULL;
    if ((options->name != NULL && producer->name == NULL) ||
        !outbox_init(&producer->outbox, env->pool, producer->max_messages, max_bytes)) {
        free(producer->name);
        free(producer);
        return NULL;
    }
    producer->outbox.max_messages = 0; /* no room before the first place is found */
    producer->id_base = 1;
    producer->fork = env->fork;
    producer->enqueue_timeout = or_default(options->enqueue_timeout, DEFAULT_ENQUEUE);
    producer->confirm_timeout = options->confirm_timeout > 0 ? options->confirm_timeout : 0;
    producer->on_outcome = options->on_outcome;
    producer->on_writable = options->on_writable;
    producer->ctx = options->ctx;
    producer->no_resend = options->no_resend;
    producer->send_task.run = run_send;
    producer->confirm_timer.fire = run_confirm_timer;
    list_init(&producer->ready);
    list_init(&producer->flushes);
    list_init(&producer->held_sends);
    if (!member_init(&producer->member, &kind, env, stream, keep_trying)) {
        outbox_free(&producer->outbox);
        free(producer->name);
        free(producer);
        return NULL;
    }
    return producer;
}

coney_stream_producer *coney_stream_producer_open_sized(coney_stream_env *env, const char *stream,
                                                        const coney_stream_producer_options *user_options, size_t options_size,
                                                        coney_call *call)
{
    coney_stream_producer_options options = {0};
    if (env_check(env, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK ||
        check_options(&options, stream, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    struct coney_stream_producer *producer = producer_new(env, stream, &options, asynchronous && options.keep_trying);
    if (producer == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    if (member_run_open(&producer->member, call) == CONEY_OK)
        return producer;
    member_unref(&producer->member);
    return NULL;
}

/* Uses ------------------------------------------------------------------------------------------------------------ */

coney_status coney_stream_producer_close(coney_stream_producer **handle, coney_call *call)
{
    struct coney_stream_producer *producer = handle != NULL ? *handle : NULL;
    if (producer == NULL)
        return CONEY_OK;
    return member_close_handle(&producer->member, (void **)handle, producer->fork, call);
}

coney_status coney_stream_producer_get_stats(const coney_stream_producer *producer, coney_stream_producer_stats *stats)
{
    if (producer == NULL || stats == NULL)
        return CONEY_EINVAL;
    const struct outbox *outbox = &producer->outbox;
    uint64_t pending = outbox_pending(outbox); /* head and tail are read one after the other: it may come out too high */
    uint64_t tail = atomic_load(&outbox->tail);
    *stats = (coney_stream_producer_stats){
        .accepted = tail,
        .accepted_bytes = atomic_load(&outbox->appended),
        .confirmed = counter_get(&producer->confirmed),
        .refused = counter_get(&producer->refused),
        .unknown = counter_get(&producer->unknown),
        .resent = counter_get(&producer->resent),
        .pending = pending < producer->max_messages ? pending : producer->max_messages,
        .pending_bytes = outbox_pending_bytes(outbox),
        .reconnects = counter_get(&producer->member.reconnects),
        .last_publishing_id = atomic_load(&producer->last_id),
        .frames = counter_get(&producer->frames),
    };
    if (stats->last_publishing_id == 0 && tail > 0)
        stats->last_publishing_id = atomic_load(&producer->id_base) + tail - 1;
    return CONEY_OK;
}
