/* publish.c: the publishing side of a publisher: what runs for each message, on the user's threads. */
#include "amqp/publisher.h"

#include "core/options.h"

#include <assert.h>
#include <stdlib.h>

/* What a message with only a body begins with ----------------------------------------------------------------------- */

#define HEADER_BODY_SIZE (AMQP_HEAD_BYTES + 4)              /* in a content header's frame: behind class and weight */
#define HEADER_FLAGS (AMQP_HEAD_BYTES + AMQP_PROPERTIES_AT) /* the properties begin */

static void make_plain_head(struct coney_amqp_publisher *publisher)
{
    struct plain_head *plain = &publisher->plain;
    const struct message_target *target = &publisher->target;
    uint16_t number = publisher->outlet.number;
    size_t method = message_method_write(plain->bytes, target->exchange, target->routing_key, !target->drop_unroutable);
    store16(plain->bytes + 1, number);
    size_t properties = target->transient ? 2 : 3;
    uint8_t *at =
        amqp_frame_head_write(plain->bytes + method, AMQP_FRAME_HEADER, number, (uint32_t)(AMQP_PROPERTIES_AT + properties));
    store32(at, AMQP_CLASS_BASIC << 16);
    at += AMQP_PROPERTIES_AT;
    store16(at, target->transient ? 0 : AMQP_DELIVERY_MODE);
    if (!target->transient)
        at[2] = AMQP_PERSISTENT;
    at += properties;
    *at++ = AMQP_END;
    at = amqp_frame_head_write(at, AMQP_FRAME_BODY, number, 0);
    plain->header = (uint16_t)method;
    plain->len = (uint16_t)(at - plain->bytes);
}

void publish_limits_changed(struct sender *sender)
{
    struct coney_amqp_publisher *publisher = publisher_of(sender);
    publisher->body_limit = 0;
    if (atomic_load(&sender->open) != CONEY_OK || sender->limit == 0)
        return;
    make_plain_head(publisher);
    publisher->body_limit = sender->limit < publisher->max_body ? sender->limit : publisher->max_body;
}

/* Whether a message has nothing but a body and perhaps an address and a content type: one look at all the rest. */
static inline bool is_plain(const coney_amqp_message *m)
{
    uint64_t small; /* priority, the flags, the reserved bytes */
    static_assert(sizeof *m - offsetof(coney_amqp_message, priority) == sizeof small,
                  "the message ends with eight small members");
    memcpy(&small, &m->priority, sizeof small);
    return (m->content_encoding.len | m->correlation_id.len | m->reply_to.len | m->message_id.len | m->type.len |
            m->user_id.len | m->app_id.len | m->header_count | (uintptr_t)m->header_table | (uint64_t)m->expiration |
            (uint64_t)m->timestamp | small) == 0;
}

/* Whether it has neither of those two, so that it begins as all do. */
static inline bool is_bare(const coney_amqp_message *m)
{
    return (m->content_type.len | (uintptr_t)m->exchange.data | (uintptr_t)m->routing_key.data) == 0;
}

/* Any message ------------------------------------------------------------------------------------------------------- */

static coney_status make_form(const struct coney_amqp_publisher *publisher, struct message_form *form,
                              const coney_amqp_message *message, const char **field)
{
    *field = "body";
    if (message->body.len > publisher->max_body)
        return CONEY_ETOOBIG;
    return message_form_make(form, message, &publisher->target, field);
}

static coney_status append_any(struct sender_visit *visit, const coney_amqp_message *message)
{
    struct message_form form;
    const char *field;
    coney_status status = make_form(publisher_of(visit->sender), &form, message, &field);
    return status == CONEY_OK ? outlet_append(visit, &form, message->tag) : status;
}

static __attribute__((noinline)) coney_status publish_any(struct coney_amqp_publisher *publisher,
                                                          const coney_amqp_message *message, size_t size)
{
    coney_amqp_message copy;
    struct message_form form;
    const char *field;
    const coney_amqp_message *known = message_known(message, size, &copy);
    if (publisher == NULL || known == NULL)
        return CONEY_EINVAL;
    coney_status status = make_form(publisher, &form, known, &field);
    if (status != CONEY_OK)
        return status;
    struct sender_visit visit = sender_enter(&publisher->outlet.sender);
    status = outlet_append(&visit, &form, known->tag);
    sender_leave(&visit);
    return status;
}

/* A plain message --------------------------------------------------------------------------------------------------- *
 *
 * What nearly every message takes is written out once, in publish_straight, and leaves by a tail call for whatever is rare. */

static inline uint8_t *write_plain_head(const struct plain_head *plain, uint8_t *at, size_t body)
{
    memcpy(at, plain->bytes, plain->len);
    store64(at + plain->header + HEADER_BODY_SIZE, body);
    store32(at + plain->len - sizeof(uint32_t), (uint32_t)body);
    return at + plain->len;
}

static inline coney_bytes exchange_of(const struct coney_amqp_publisher *publisher, const coney_amqp_message *message)
{
    return message->exchange.data != NULL ? message->exchange : publisher->target.exchange;
}

static inline coney_bytes routing_key_of(const struct coney_amqp_publisher *publisher, const coney_amqp_message *message)
{
    return message->routing_key.data != NULL ? message->routing_key : publisher->target.routing_key;
}

/* The same with an address of its own, and a content type among the properties. */
static uint8_t *write_own_head(const struct coney_amqp_publisher *publisher, uint8_t *at, const coney_amqp_message *message)
{
    const struct plain_head *plain = &publisher->plain;
    coney_bytes type = message->content_type;
    uint16_t number = load16(plain->bytes + 1);
    uint16_t flags = load16(plain->bytes + plain->header + HEADER_FLAGS); /* of the delivery mode, or none */
    uint8_t *header = at + message_method_write(at, exchange_of(publisher, message), routing_key_of(publisher, message),
                                                !publisher->target.drop_unroutable);
    store16(at + 1, number);
    memcpy(header, plain->bytes + plain->header, HEADER_FLAGS);
    store64(header + HEADER_BODY_SIZE, message->body.len);
    uint8_t *to = header + HEADER_FLAGS;
    store16(to, type.len > 0 ? flags | AMQP_CONTENT_TYPE : flags);
    to += 2;
    if (type.len > 0) {
        *to++ = (uint8_t)type.len;
        copy_short(to, type.data, type.len);
        to += type.len;
    }
    if (flags != 0)
        *to++ = AMQP_PERSISTENT;
    store32(header + 3, (uint32_t)(to - header - AMQP_HEAD_BYTES));
    *to++ = AMQP_END;
    return amqp_frame_head_write(to, AMQP_FRAME_BODY, number, (uint32_t)message->body.len);
}

static inline size_t plain_size(const struct coney_amqp_publisher *publisher, const coney_amqp_message *message, bool own)
{
    const struct plain_head *plain = &publisher->plain;
    size_t size = plain->len + message->body.len + 1;
    if (own)
        size += message_method_size(exchange_of(publisher, message), routing_key_of(publisher, message)) - plain->header +
                (message->content_type.len > 0 ? 1 + message->content_type.len : 0);
    return size;
}

/* Whether the names are as short as they must be: append_any says which one is not. */
static inline bool fits_names(const coney_amqp_message *m)
{
    return m->content_type.len <= AMQP_SHORT_MAX && m->exchange.len <= AMQP_SHORT_MAX && m->routing_key.len <= AMQP_SHORT_MAX;
}

/* Whether such an entry can go straight in: the body fits one frame and is not empty, and the outbox has nothing to get for it. */
static inline bool goes_straight(const struct coney_amqp_publisher *publisher, const coney_amqp_message *message, size_t size)
{
    return message->body.len - 1 < publisher->body_limit && outbox_is_ready(&publisher->outlet.sender.outbox, size);
}

/* True when the loop must be told. */
static inline bool append_straight(struct coney_amqp_publisher *publisher, const coney_amqp_message *message, size_t size,
                                   bool own)
{
    struct outbox *outbox = &publisher->outlet.sender.outbox;
    coney_bytes body = message->body;
    const struct slot *slot = outbox_append(outbox, size, message->tag, publisher->target.drop_unroutable ? 0 : SLOT_MANDATORY);
    uint8_t *at =
        own ? write_own_head(publisher, slot->entry, message) : write_plain_head(&publisher->plain, slot->entry, body.len);
    copy_short(at, body.data, body.len);
    at[body.len] = AMQP_END;
    return outbox_commit(outbox, size);
}

static coney_status append_plain(struct sender_visit *visit, const coney_amqp_message *message)
{
    struct coney_amqp_publisher *publisher = publisher_of(visit->sender);
    bool own = !is_bare(message);
    size_t size = plain_size(publisher, message, own);
    if (!goes_straight(publisher, message, size) || !fits_names(message))
        return append_any(visit, message);
    visit->tell |= append_straight(publisher, message, size, own);
    return CONEY_OK;
}

/* The lock is held. */
static __attribute__((noinline)) coney_status publish_visiting(struct coney_amqp_publisher *publisher,
                                                               const coney_amqp_message *message)
{
    struct sender_visit visit = {.sender = &publisher->outlet.sender};
    coney_status status = append_plain(&visit, message);
    sender_leave(&visit);
    return status;
}

static __attribute__((noinline)) coney_status publish_after_wait(struct coney_amqp_publisher *publisher,
                                                                 const coney_amqp_message *message)
{
    lock_wait(&publisher->outlet.sender.outbox.lock);
    return publish_visiting(publisher, message);
}

static __attribute__((noinline)) coney_status tell_and_leave(struct coney_amqp_publisher *publisher)
{
    sender_leave(&(struct sender_visit){.sender = &publisher->outlet.sender, .tell = true});
    return CONEY_OK;
}

/* `own`: it has a head of its own; a constant. */
static inline __attribute__((always_inline)) coney_status publish_straight(struct coney_amqp_publisher *publisher,
                                                                           const coney_amqp_message *message, bool own)
{
    struct lock *lock = &publisher->outlet.sender.outbox.lock;
    if (__builtin_expect(!lock_try(lock), 0))
        return publish_after_wait(publisher, message);
    size_t size = plain_size(publisher, message, own);
    if (__builtin_expect(!goes_straight(publisher, message, size), 0))
        return publish_visiting(publisher, message);
    if (__builtin_expect(append_straight(publisher, message, size, own), 0))
        return tell_and_leave(publisher);
    lock_release(lock);
    return CONEY_OK;
}

static __attribute__((noinline)) coney_status publish_own(struct coney_amqp_publisher *publisher,
                                                          const coney_amqp_message *message)
{
    return publish_straight(publisher, message, true);
}

coney_status coney_amqp_publish_sized(coney_amqp_publisher *publisher, const coney_amqp_message *message, size_t size)
{
    if (__builtin_expect(publisher != NULL && publisher->outlet.sender.fork != fork_generation(), 0))
        return CONEY_EFORKED;
    if (__builtin_expect(publisher == NULL || message == NULL || size != sizeof *message || !is_plain(message), 0))
        return publish_any(publisher, message, size);
    if (is_bare(message))
        return publish_straight(publisher, message, false);
    return fits_names(message) ? publish_own(publisher, message) : CONEY_EINVAL;
}

/* Batches, and messages that somebody waits for ------------------------------------------------------------------------ */

coney_status coney_amqp_publish_batch_sized(coney_amqp_publisher *publisher, const coney_amqp_message *messages, size_t count,
                                            size_t message_size, size_t *accepted)
{
    const uint8_t *at = (const void *)messages;
    coney_status status = CONEY_OK;
    size_t done = 0;
    if (accepted != NULL)
        *accepted = 0;
    if (publisher == NULL || (messages == NULL && count > 0))
        return CONEY_EINVAL;
    if (publisher->outlet.sender.fork != fork_generation())
        return CONEY_EFORKED;
    struct sender_visit visit = sender_enter(&publisher->outlet.sender);
    for (; done < count && status == CONEY_OK; at += message_size) {
        coney_amqp_message copy;
        const coney_amqp_message *message = message_known((const void *)at, message_size, &copy);
        if (message == NULL)
            status = CONEY_EINVAL;
        else
            status = is_plain(message) ? append_plain(&visit, message) : append_any(&visit, message);
        done += status == CONEY_OK;
    }
    sender_leave(&visit);
    if (accepted != NULL)
        *accepted = done;
    return status;
}

coney_status publish_append_held(struct sender_visit *visit, coney_bytes held, uint64_t tag, uint8_t flags)
{
    return outlet_append_held(visit, held.data, tag, flags);
}

static coney_status refuse_form(const struct coney_amqp_publisher *publisher, const coney_amqp_message *message,
                                coney_status status, const char *field, coney_call *call)
{
    if (status == CONEY_ETOOBIG && message->body.len > publisher->max_body)
        return op_refuse(call, status, "the body is %zu bytes; the publisher takes at most %zu (max_message_size)",
                         message->body.len, publisher->max_body);
    return op_refuse(call, status, "the message cannot be sent: %s is too long or has no form on the wire", field);
}

coney_status coney_amqp_publish_wait_sized(coney_amqp_publisher *publisher, const coney_amqp_message *message, size_t size,
                                           coney_call *call)
{
    coney_amqp_message copy;
    struct message_form form;
    const char *field;
    if (publisher == NULL || publisher->outlet.sender.fork != fork_generation())
        return sender_run_send(publisher != NULL ? &publisher->outlet.sender : NULL, (coney_bytes){0}, call);
    const coney_amqp_message *known = message_known(message, size, &copy);
    if (known == NULL)
        return op_refuse(call, CONEY_EINVAL, "the message is NULL, or has members that this libconey does not know");
    coney_status status = make_form(publisher, &form, known, &field);
    if (status != CONEY_OK)
        return refuse_form(publisher, known, status, field, call);
    size_t len = message_held_size(&form);
    struct message_held *held = malloc(len);
    if (held == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    message_hold(&form, held);
    status = sender_run_send(&publisher->outlet.sender, coney_bytes_of(held, len), call);
    free(held);
    return status;
}
