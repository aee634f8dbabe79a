/* publish_outlet.h: what publishers, transactions and requesters have in common: a sender on a channel, whose entries are whole publishes.
 *
 * An entry is written once, by the user's thread, as the frames that go on the wire: method, content header, bodies. The channel's number in them
 * is that of the present channel; when the next one has another, what is in hand is given the new number before it is taken again.
 */
#ifndef CONEY_AMQP_PUBLISH_OUTLET_H
#define CONEY_AMQP_PUBLISH_OUTLET_H

#include "amqp/message.h"
#include "amqp/place.h"
#include "core/sender.h"

#define SLOT_MANDATORY 2               /* slot.flags */
#define OUTLET_FILL_BYTES (256u << 10) /* of one outlet before another's turn comes */

struct outlet {
    struct sender sender; /* its limit: the payload of a frame */
    struct place place;
    uint16_t number; /* of the channel that entries are written for; under the outbox's lock */

    /* On the loop. */
    struct task settle_task;
    bool settling;    /* the task is deferred */
    uint64_t written; /* without confirms: slots before this one have left, which is all that becomes of them */
    void (*settled)(struct outlet *outlet); /* after slots were settled; may be NULL */
    uint8_t *body;                          /* a body in one piece: outlet_body */
    size_t body_cap;
};

static inline struct outlet *outlet_of(const struct sender *sender)
{
    return container_of(sender, struct outlet, sender);
}

static inline struct outlet *outlet_of_member(struct member *member)
{
    return container_of(member, struct outlet, sender.member);
}

/* As sender_init and sender_free. */
bool outlet_init(struct outlet *outlet, const struct sender_kind *kind, const struct member_kind *member_kind,
                 struct coney_amqp *amqp, const char *name, const struct sender_options *options, bool keep_trying);
void outlet_free(struct outlet *outlet);

/* For place_kind. */
struct place *outlet_place_of(struct member *member);

/* Any thread, inside a visit: makes sure that there is room for the entry of a message with such parts: CONEY_OK and its *size; CONEY_ETOOBIG (the
 * properties fit no frame, the body no broker), or what the sender answers. Waits, so `outlet->number` and the limit are to be read afterwards. */
coney_status outlet_make_room(struct sender_visit *visit, size_t method, size_t properties, size_t body, size_t *size);

/* The whole of it for a message. */
coney_status outlet_append(struct sender_visit *visit, const struct message_form *form, uint64_t tag);
coney_status outlet_append_held(struct sender_visit *visit, const struct message_held *held, uint64_t tag, uint8_t flags);

/* For sender_kind; its limits_changed is also called when `number` has changed. outlet_fill is for those without confirms; the last two are for those on whom no call waits. */
size_t outlet_fill(struct sender *sender, struct iovec *slices, size_t cap, size_t *bytes);
size_t outlet_limit(const struct sender *sender);
bool outlet_fits(const struct sender *sender, const struct slot *slot);
coney_bytes outlet_body(const struct sender *sender, const struct slot *slot);
void outlet_explain_size(const struct sender *sender, coney_bytes held, char *text, size_t cap);
void outlet_limits_changed(struct sender *sender);
void outlet_describe(const struct sender *sender, uint64_t number, const struct slot *slot, coney_outcome *outcome);

/* Without confirms: what was taken has been written, and ends as CONEY_OK. */
void outlet_written(struct sender *sender);

/* For member_kind: `active` readdresses what is in hand and then is sender_active's. */
void outlet_active(struct member *member);
void outlet_lost(struct member *member);

/* A message came back that has no outcome any more, or never had one: CONEY_EVENT_RETURNED. */
void outlet_tell_returned(struct member *member, const struct amqp_basic_return *returned);

/* On the loop, after a slot was settled: sender_settled follows at the end of the round, once for all. */
void outlet_settle_soon(struct outlet *outlet);

/* An entry taken apart; the views point into it. */
struct outlet_entry {
    coney_bytes exchange;
    coney_bytes routing_key;
    coney_bytes properties;
    uint64_t body_size;
    const uint8_t *bodies; /* its body frames, up to `end` */
    const uint8_t *end;
};

struct outlet_entry outlet_entry_read(const struct slot *slot);

/* The next body frame's payload; empty at the end. */
static inline coney_bytes outlet_entry_body(struct outlet_entry *entry)
{
    if (entry->bodies == entry->end)
        return coney_bytes_of(NULL, 0);
    struct amqp_frame frame = amqp_frame_of(entry->bodies);
    entry->bodies += frame.payload.len + AMQP_FRAME_BYTES;
    return frame.payload;
}

#endif
