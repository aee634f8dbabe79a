/* place.h: how a publisher, a consumer or a requester gets its place: topology, a connection of its purpose, a channel, its own declaration.
 *
 * The member's recovery is core's (core/member.h, core/round.h); this is what an attempt does in AMQP. Everything here is on the loop.
 */
#ifndef CONEY_AMQP_PLACE_H
#define CONEY_AMQP_PLACE_H

#include "amqp/channel.h"
#include "core/member.h"

/* Embedded in every member of an AMQP environment; made by place_init. */
struct place {
    struct channel *channel; /* NULL: none */
    struct list waiting;     /* for the topology, in its list: before it looks for a connection, and again on it */
    struct member *waiter;   /* whose place it is, while it waits there: topology.c */
};

/* A member_kind with what place.c needs; `member` first. Its locate, declare and leave are place_locate, place_declare and place_leave (a kind whose
 * leave does more calls it). */
struct place_kind {
    struct member_kind member;
    struct place *(*place_of)(struct member *member);
    void (*declare)(
        struct member *member); /* place->channel is open, member->id its number; ends in member_active or member_failed */
    const struct channel_owner *owner; /* of the channel; ctx is the member. `opened` is place_opened, `closed` place_closed */
    const char *(*queue)(struct member *member); /* consumers: the queue, which may be bound to a connection; NULL otherwise */
};

static inline const struct place_kind *place_kind_of(const struct member *member)
{
    return container_of(member->kind, const struct place_kind, member);
}

static inline struct place *place_of(struct member *member)
{
    return place_kind_of(member)->place_of(member);
}

void place_init(struct place *place);

/* Begins an attempt; ends in place_kind.declare on an open channel, or in member_failed. */
void place_locate(struct member *member);

/* For member_kind.declare: the connection is ready; once the topology is too, opens the channel. */
void place_declare(struct member *member);

/* For place_kind.declare where one method is the whole declaration: its answer ends in member_active or member_failed. */
void place_declare_by(struct member *member, const struct amqp_method *method);

/* The topology is as it should be, or as good as it gets: goes on. */
void place_go_on(struct member *member);

/* Takes the member off its channel, its connection and the topology's list. `held`: the broker may know the channel: it is closed in order. */
void place_leave(struct member *member, bool held);

/* For channel_owner: ctx is the member. `closed` is an event (CONEY_EVENT_CHANNEL_CLOSED) and member_failed. */
void place_opened(void *ctx);
void place_closed(void *ctx, coney_status status, uint16_t code, const char *text);

/* AMQP members go on trying whatever was refused once they have been open, unless `.no_recovery`; at open everything is final unless
 * keep_trying. For kind->is_final. */
bool place_is_final(const struct member *member, coney_status status);

#endif
