/* send.c: the sending side of a producer: what runs for each message, on the user's threads. */
#include "proto/amqp10/data.h"
#include "proto/amqp10/message.h"
#include "stream/producer.h"

#define SHORT_DATA_BYTES 5 /* around a body of up to 255 bytes: see amqp10_data_size */
#define LONG_DATA_BYTES 8

void producer_set_limits(struct sender *sender)
{
    struct coney_stream_producer *producer = producer_of(sender);
    producer->body_limit = 0;
    if (atomic_load(&sender->open) != CONEY_OK || producer->ids != IDS_OURS || sender->limit <= PUBLISH_ENTRY_BYTES)
        return;
    size_t largest = sender->limit - PUBLISH_ENTRY_BYTES;
    if (largest >= UINT8_MAX + 1 + LONG_DATA_BYTES)
        producer->body_limit = largest - LONG_DATA_BYTES + 1;
    else if (largest >= SHORT_DATA_BYTES)
        producer->body_limit = (largest - SHORT_DATA_BYTES < UINT8_MAX ? largest - SHORT_DATA_BYTES : UINT8_MAX) + 1;
}

/* The first message says whose ids this handle uses. */
static void decide_ids(struct coney_stream_producer *producer, enum ids ids)
{
    producer->ids = ids;
    producer->sender.outbox.ids_given = ids == IDS_GIVEN;
    producer_set_limits(&producer->sender);
}

/* The closer look: CONEY_OK when an entry of `size` bytes may be appended now. */
static coney_status look_closer(struct sender_visit *visit, size_t size, enum ids ids)
{
    struct sender *sender = visit->sender;
    struct coney_stream_producer *producer = producer_of(sender);
    for (;;) {
        coney_status status = (coney_status)atomic_load(&sender->open);
        if (status != CONEY_OK)
            return status;
        if (producer->ids != IDS_UNDECIDED && producer->ids != ids)
            return CONEY_EINVAL;
        if (sender->limit > 0 && size > sender->limit)
            return CONEY_ETOOBIG;
        if (outbox_has_room(&sender->outbox, size)) {
            if (producer->ids == IDS_UNDECIDED)
                decide_ids(producer, ids);
            return CONEY_OK;
        }
        status = sender_wait_for_room(visit, size);
        if (status != CONEY_OK)
            return status;
    }
}

/* The publishing id of the message that is appended next, unless the user gives one. */
static uint64_t own_id(const struct coney_stream_producer *producer)
{
    return atomic_load_explicit(&producer->id_base, memory_order_relaxed) +
           atomic_load_explicit(&producer->sender.outbox.tail, memory_order_relaxed);
}

/* Writes a body's entry into a slot that was appended for it. */
static inline void write_entry(const struct coney_stream_producer *producer, const struct slot *slot, coney_bytes body)
{
    amqp10_data_write(publish_entry_write(slot->entry, own_id(producer), slot->size - PUBLISH_ENTRY_BYTES), body);
}

coney_status producer_append(struct sender_visit *visit, coney_bytes body, uint64_t tag, uint8_t flags)
{
    struct coney_stream_producer *producer = producer_of(visit->sender);
    struct outbox *outbox = &visit->sender->outbox;
    if (body.len > UINT32_MAX)
        return CONEY_ETOOBIG;
    size_t size = PUBLISH_ENTRY_BYTES + amqp10_data_size(body.len);
    if (body.len >= producer->body_limit || !outbox_has_room(outbox, size)) {
        coney_status status = look_closer(visit, size, IDS_OURS);
        if (status != CONEY_OK)
            return status;
    }
    const struct slot *slot = outbox_append(outbox, size, tag, flags);
    if (slot == NULL)
        return CONEY_ENOMEM;
    write_entry(producer, slot, body);
    visit->tell |= outbox_commit(outbox, size);
    return CONEY_OK;
}

/* A single send --------------------------------------------------------------------------------------------------- *
 *
 * What nearly every message takes is written out once, in send_straight, and leaves by a tail call for whatever is rare, so that the usual
 * way saves no registers. A tiny body is copied without a call. Measured for 12 bytes: 105 instructions before, 70 after. */

/* A send that must look closer. The lock is held. */
static __attribute__((noinline)) coney_status send_visiting(struct coney_stream_producer *producer, coney_bytes body,
                                                            uint64_t tag)
{
    struct sender_visit visit = {.sender = &producer->sender};
    coney_status status = producer_append(&visit, body, tag, 0);
    sender_leave(&visit);
    return status;
}

static __attribute__((noinline)) coney_status send_after_wait(struct coney_stream_producer *producer, coney_bytes body,
                                                              uint64_t tag)
{
    lock_wait(&producer->sender.outbox.lock);
    return send_visiting(producer, body, tag);
}

static __attribute__((noinline)) coney_status tell_and_leave(struct coney_stream_producer *producer)
{
    sender_leave(&(struct sender_visit){.sender = &producer->sender, .tell = true});
    return CONEY_OK;
}

/* The head of a body's data section, and the way in which it is copied, follow from how long it is. */
enum body_class {
    BODY_TINY,  /* up to COPY_TINY bytes */
    BODY_SHORT, /* up to 255: a short head */
    BODY_LONG,
};

static inline __attribute__((always_inline)) coney_status send_straight(struct coney_stream_producer *producer,
                                                                        coney_bytes body, uint64_t tag, enum body_class class)
{
    struct outbox *outbox = &producer->sender.outbox;
    size_t data = body.len + (class == BODY_LONG ? LONG_DATA_BYTES : SHORT_DATA_BYTES);
    size_t size = PUBLISH_ENTRY_BYTES + data;
    if (__builtin_expect(!lock_try(&outbox->lock), 0))
        return send_after_wait(producer, body, tag);
    if (__builtin_expect(body.len >= producer->body_limit || !outbox_is_ready(outbox, size), 0))
        return send_visiting(producer, body, tag);
    const struct slot *slot = outbox_append(outbox, size, tag, 0);
    uint8_t *at = publish_entry_write(slot->entry, own_id(producer), (uint32_t)data);
    at = class == BODY_LONG ? amqp10_data_long_head(at, body.len) : amqp10_data_short_head(at, body.len);
    if (class == BODY_TINY)
        copy_tiny(at, body.data, body.len);
    else
        memcpy(at, body.data, body.len);
    if (__builtin_expect(outbox_commit(outbox, size), 0))
        return tell_and_leave(producer);
    lock_release(&outbox->lock);
    return CONEY_OK;
}

static __attribute__((noinline)) coney_status send_short(struct coney_stream_producer *producer, coney_bytes body, uint64_t tag)
{
    return send_straight(producer, body, tag, BODY_SHORT);
}

static __attribute__((noinline)) coney_status send_long(struct coney_stream_producer *producer, coney_bytes body, uint64_t tag)
{
    return send_straight(producer, body, tag, BODY_LONG);
}

coney_status coney_stream_send(coney_stream_producer *producer, coney_bytes body, uint64_t tag)
{
    if (__builtin_expect(producer == NULL, 0))
        return CONEY_EINVAL;
    if (__builtin_expect(producer->sender.fork != fork_generation(), 0))
        return CONEY_EFORKED;
    if (body.len <= COPY_TINY)
        return send_straight(producer, body, tag, BODY_TINY);
    return body.len <= UINT8_MAX ? send_short(producer, body, tag) : send_long(producer, body, tag);
}

coney_status coney_stream_send_batch(coney_stream_producer *producer, const coney_bytes *bodies, size_t count,
                                     uint64_t first_tag, size_t *accepted)
{
    if (accepted != NULL)
        *accepted = 0;
    if (producer == NULL || (bodies == NULL && count > 0))
        return CONEY_EINVAL;
    if (producer->sender.fork != fork_generation())
        return CONEY_EFORKED;
    struct sender_visit visit = sender_enter(&producer->sender);
    coney_status status = CONEY_OK;
    size_t done = 0;
    while (done < count && (status = producer_append(&visit, bodies[done], first_tag + done, 0)) == CONEY_OK)
        done++;
    sender_leave(&visit);
    if (accepted != NULL)
        *accepted = done;
    return status;
}

static coney_status append_message(struct sender_visit *visit, const coney_stream_message *message, size_t data)
{
    struct coney_stream_producer *producer = producer_of(visit->sender);
    struct outbox *outbox = &visit->sender->outbox;
    size_t size = PUBLISH_ENTRY_BYTES + data;
    coney_status status = look_closer(visit, size, message->has_publishing_id ? IDS_GIVEN : IDS_OURS);
    if (status != CONEY_OK)
        return status;
    if (message->has_publishing_id && message->publishing_id < atomic_load_explicit(&producer->last_id, memory_order_relaxed))
        return CONEY_EINVAL;
    struct slot *slot = outbox_append(outbox, size, message->tag, 0);
    if (slot == NULL)
        return CONEY_ENOMEM;
    uint64_t id = message->has_publishing_id ? message->publishing_id : own_id(producer);
    uint8_t *at = publish_entry_write(slot->entry, id, (uint32_t)data);
    if (message->message != NULL)
        amqp10_message_write(message->message, at);
    else
        amqp10_data_write(at, message->body);
    if (message->has_publishing_id)
        atomic_store_explicit(&producer->last_id, id, memory_order_relaxed);
    visit->tell |= outbox_commit(outbox, size);
    return CONEY_OK;
}

coney_status coney_stream_send_message_sized(coney_stream_producer *producer, const coney_stream_message *message, size_t size)
{
    coney_stream_message copy = {0};
    if (producer == NULL || message == NULL || options_copy(&copy, sizeof copy, message, size, NULL) != CONEY_OK ||
        reserved_check(copy.reserved, sizeof copy.reserved) != CONEY_OK)
        return CONEY_EINVAL;
    if (producer->sender.fork != fork_generation())
        return CONEY_EFORKED;
    size_t data = 0;
    if (copy.message != NULL) {
        coney_status status = amqp10_message_size(copy.message, &data, NULL);
        if (status != CONEY_OK)
            return status;
    } else {
        data = amqp10_data_size(copy.body.len);
    }
    if (data > UINT32_MAX - PUBLISH_ENTRY_BYTES)
        return CONEY_ETOOBIG;
    struct sender_visit visit = sender_enter(&producer->sender);
    coney_status status = append_message(&visit, &copy, data);
    sender_leave(&visit);
    return status;
}
