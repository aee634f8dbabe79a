/* publisher.h: the inside of coney_amqp_publisher.
 *
 * Publishes append to the outbox under its lock, on any thread (publish.c); everything else is on the loop: the place and what is written
 * (publisher.c), the broker's verdicts (confirm.c, confirm_return.c), and the search for a message that closes its channel (confirm_culprit.c).
 */
#ifndef CONEY_AMQP_PUBLISHER_H
#define CONEY_AMQP_PUBLISHER_H

#include "amqp/confirm_map.h"
#include "amqp/publish_outlet.h"

/* What stands before the body of a message that has nothing but a body: method, content header, the body frame's head. */
#define PLAIN_HEAD_MAX (MESSAGE_METHOD_MAX + AMQP_FRAME_BYTES + AMQP_PROPERTIES_AT + 3 + AMQP_HEAD_BYTES)

struct plain_head {
    uint16_t len;
    uint16_t header; /* where the content header's frame begins */
    uint8_t bytes[PLAIN_HEAD_MAX];
};

struct coney_amqp_publisher {
    struct outlet outlet;

    /* Constant. */
    struct message_target target;
    char *exchange; /* what the target's views are of */
    char *routing_key;
    size_t max_body; /* `.max_message_size` */
    bool unconfirmed;
    struct place_kind named; /* its member's kind when it has a name, which is in `noun` */
    char noun[320];

    /* Under the outbox's lock. */
    size_t body_limit; /* a body of 1 to so many bytes may go straight in; 0 while publishes need a closer look */
    struct plain_head plain;

    /* On the loop. */
    struct confirm_map map;
    uint64_t settled_to;  /* slots before this one are settled: the last confirm of several was up to there */
    uint64_t return_from; /* the broker returns in the order of publishing: the next one is this slot or a later one */
    uint64_t doubtful;    /* one of the slots before this has closed a channel: they go out one at a time */
    uint32_t close_code;  /* while the broker's close is taken in: its code and words */
    const char *close_text;
    bool held_back; /* there is something to send, but not yet */
    bool counted;   /* among the environment's publishers; and among those that have a place */
    bool counted_active;
    bool stopped; /* the broker's channel.flow */
};

static inline struct coney_amqp_publisher *publisher_of(const struct sender *sender)
{
    return container_of(sender, struct coney_amqp_publisher, outlet.sender);
}

static inline struct coney_amqp_publisher *publisher_of_member(struct member *member)
{
    return container_of(member, struct coney_amqp_publisher, outlet.sender.member);
}

/* publish.c: for sender_kind. */
void publish_limits_changed(struct sender *sender);
coney_status publish_append_held(struct sender_visit *visit, coney_bytes held, uint64_t tag, uint8_t flags);

/* confirm.c: for channel_owner; ctx is the member. */
void confirm_ack(void *ctx, uint64_t tag, bool multiple);
void confirm_method(void *ctx, const struct amqp_method *method);

/* Settled by the broker: counts and reports it. `report` has all but the message's own. */
void confirm_report(struct coney_amqp_publisher *publisher, const struct slot *slot, struct sender_report *report);

/* confirm_return.c: for channel_owner. */
const char *confirm_return(void *ctx, struct block *block, const uint8_t *at, size_t len);

/* confirm_culprit.c: the broker has closed the channel: settles what did it, or has it searched for. Before the member is told. */
void culprit_look(struct coney_amqp_publisher *publisher, uint16_t code, const char *text);

/* How many entries may be taken now: none, one, or whatever there is (UINT32_MAX). */
uint32_t culprit_allowance(const struct coney_amqp_publisher *publisher);

#endif
