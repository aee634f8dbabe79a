/* producer.c: opening a producer, declaring it, its frames. */
#include "stream/producer.h"

#include "base/time.h"
#include "stream/locate.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_UNLIMITED (64u << 20) /* what a frame may have when the broker names no limit */

static struct coney_stream_producer *of(struct member *member)
{
    return container_of(member, struct coney_stream_producer, sender.member);
}

/* Writing --------------------------------------------------------------------------------------------------------- */

static size_t entry_limit(const struct sender *sender)
{
    const struct conn *conn = sender->member.conn;
    uint32_t frame_max = conn->frame_max > 0 ? conn->frame_max : FRAME_UNLIMITED;
    size_t around = PUBLISH_HEADER_BYTES - STREAM_SIZE_BYTES;
    return frame_max > around ? frame_max - around : 0;
}

static size_t fill(struct sender *sender, struct iovec *slices, size_t cap, size_t *bytes)
{
    struct coney_stream_producer *producer = producer_of(sender);
    struct outbox_run run;
    size_t taken = outbox_take(&sender->outbox, entry_limit(sender), slices + 1, cap - 1, &run);
    if (taken == 0)
        return 0;
    publish_header_write(producer->header, (uint8_t)sender->member.id, run.entries, (uint32_t)run.bytes, 1);
    slices[0] = (struct iovec){.iov_base = producer->header, .iov_len = sizeof producer->header};
    *bytes += run.bytes + sizeof producer->header;
    counter_add(&sender->frames, 1);
    return taken + 1;
}

static bool fits(const struct sender *sender, const struct slot *slot)
{
    return slot->size <= sender->limit;
}

static const struct sender_kind sender_kind = {
    .noun = "producer",
    .fill = fill,
    .limit = entry_limit,
    .limits_changed = producer_set_limits,
    .fits = fits,
    .describe = producer_describe,
    .body = producer_body,
    .append = producer_append,
    .explain = producer_explain,
    .explain_size = producer_explain_size,
};

/* The place ------------------------------------------------------------------------------------------------------- */

static void declared(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    if (status == CONEY_OK)
        member_active(member);
    else if (answer != NULL)
        stream_refused(member, answer->code);
    else
        member_failed(member, status, 0, text, true);
}

static void request(struct member *member, struct stream_frame *frame, answer_fn answer)
{
    int64_t deadline = time_after(time_now(), member->env->settings.call_deadline);
    if (!stream_conn_request(member->conn, frame, deadline, answer, member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
}

static void send_declare(struct member *member)
{
    struct stream_frame frame = {.key = STREAM_DECLARE_PUBLISHER,
                                 .declare_publisher = {.publisher = (uint8_t)member->id,
                                                       .reference = coney_bytes_str(of(member)->name),
                                                       .stream = coney_bytes_str(member->name)}};
    request(member, &frame, declared);
}

static void got_sequence(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    if (status != CONEY_OK && answer != NULL)
        stream_refused(member, answer->code);
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
        .query_publisher_sequence = {.reference = coney_bytes_str(producer->name), .stream = coney_bytes_str(member->name)}};
    request(member, &frame, got_sequence);
}

static void free_producer(struct member *member)
{
    struct coney_stream_producer *producer = of(member);
    sender_free(&producer->sender);
    free(producer->name);
    free(producer);
}

static const struct member_kind member_kind = {
    .purpose = PURPOSE_PUBLISH,
    .noun = "producer of stream",
    .unreachable = LOCATE_UNREACHABLE,
    .locate = stream_locate,
    .declare = declare,
    .active = sender_active,
    .lost = sender_lost,
    .leave = stream_leave,
    .failed = sender_failed,
    .is_final = stream_is_final,
    .dead = sender_dead,
    .close = sender_close,
    .free = free_producer,
};

/* Opening --------------------------------------------------------------------------------------------------------- */

static coney_status check_options(const coney_stream_producer_options *options, const struct sender_options *common,
                                  const char *stream, coney_call *call)
{
    coney_status status = name_check("stream", stream, STREAM_REFERENCE_MAX, call);
    if (status == CONEY_OK && options->name != NULL)
        status = name_check("producer", options->name, STREAM_REFERENCE_MAX, call);
    if (status != CONEY_OK)
        return status;
    if (reserved_check(options->reserved, sizeof options->reserved) != CONEY_OK)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    return sender_check(common, call);
}

static struct sender_options common_options(const coney_stream_producer_options *options)
{
    return (struct sender_options){.max_messages = options->max_messages,
                                   .max_bytes = options->max_bytes,
                                   .enqueue_timeout = options->enqueue_timeout,
                                   .confirm_timeout = options->confirm_timeout,
                                   .on_outcome = options->on_outcome,
                                   .on_writable = options->on_writable,
                                   .ctx = options->ctx,
                                   .no_resend = options->no_resend};
}

static struct coney_stream_producer *producer_new(struct env *env, const char *stream, const char *name,
                                                  const struct sender_options *common, bool keep_trying)
{
    struct coney_stream_producer *producer = calloc(1, sizeof *producer);
    if (producer == NULL)
        return NULL;
    producer->id_base = 1;
    producer->name = name != NULL ? strdup(name) : NULL;
    if ((name == NULL || producer->name != NULL) &&
        sender_init(&producer->sender, &sender_kind, &member_kind, env, stream, common, keep_trying))
        return producer;
    free(producer->name);
    free(producer);
    return NULL;
}

coney_stream_producer *coney_stream_producer_open_sized(coney_stream_env *env, const char *stream,
                                                        const coney_stream_producer_options *user_options, size_t options_size,
                                                        coney_call *call)
{
    coney_stream_producer_options options = {0};
    if (stream_env_check(env, call) != CONEY_OK ||
        options_copy(&options, sizeof options, user_options, options_size, call) != CONEY_OK)
        return NULL;
    struct sender_options common = common_options(&options);
    if (check_options(&options, &common, stream, call) != CONEY_OK)
        return NULL;
    bool asynchronous = call != NULL && call->on_done != NULL;
    struct coney_stream_producer *producer =
        producer_new(&env->env, stream, options.name, &common, asynchronous && options.keep_trying);
    if (producer == NULL) {
        op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
        return NULL;
    }
    if (member_run_open(&producer->sender.member, call) == CONEY_OK)
        return producer;
    member_unref(&producer->sender.member);
    return NULL;
}

/* Uses ------------------------------------------------------------------------------------------------------------ */

coney_status coney_stream_producer_close(coney_stream_producer **handle, coney_call *call)
{
    return member_close_handle((void **)handle, call);
}

static struct sender *sender_of(coney_stream_producer *producer)
{
    return producer != NULL ? &producer->sender : NULL;
}

coney_status coney_stream_send_wait(coney_stream_producer *producer, coney_bytes body, coney_call *call)
{
    return sender_run_send(sender_of(producer), body, call);
}

coney_status coney_stream_producer_flush(coney_stream_producer *producer, coney_call *call)
{
    return sender_run_flush(sender_of(producer), call);
}

coney_status coney_stream_producer_get_stats(const coney_stream_producer *producer, coney_stream_producer_stats *stats)
{
    if (producer == NULL || stats == NULL)
        return CONEY_EINVAL;
    const struct sender *sender = &producer->sender;
    const struct outbox *outbox = &sender->outbox;
    uint64_t pending = sender_pending(sender);
    uint64_t tail = atomic_load(&outbox->tail);
    *stats = (coney_stream_producer_stats){
        .accepted = tail,
        .accepted_bytes = atomic_load(&outbox->appended),
        .confirmed = counter_get(&sender->confirmed),
        .refused = counter_get(&sender->refused),
        .unknown = counter_get(&sender->unknown),
        .resent = counter_get(&sender->resent),
        .pending = pending,
        .pending_bytes = outbox_pending_bytes(outbox),
        .reconnects = counter_get(&sender->member.reconnects),
        .last_publishing_id = atomic_load(&producer->last_id),
        .frames = counter_get(&sender->frames),
    };
    if (stats->last_publishing_id == 0 && tail > 0)
        stats->last_publishing_id = atomic_load(&producer->id_base) + tail - 1;
    return CONEY_OK;
}
