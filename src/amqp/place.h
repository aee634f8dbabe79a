/* place.h: how a publisher, a consumer or a requester gets its place: topology, a connection of its purpose, a channel, its own declaration.
 *
 * The member's recovery is core's (core/member.h, core/round.h); this is what an attempt does in AMQP. Everything here is on the loop.
 */
#ifndef CONEY_AMQP_PLACE_H
#define CONEY_AMQP_PLACE_H

#include "amqp/channel.h"
#include "core/member.h"

/* Embedded in every member of an AMQP environment. */
struct place {
    struct channel *channel; /* NULL: none */
    struct list waiting;     /* for the topology, in its list */
};

/* A member_kind with what place.c needs; `member` first. Its locate and leave are place_locate and place_leave (a kind whose leave does more
 * calls it). */
struct place_kind {
    struct member_kind member;
    struct place *(*place_of)(struct member *member);
    const struct channel_owner *owner; /* of the channel; ctx is the member. `opened` is place_opened, `closed` place_closed */
    const char *(*queue)(struct member *member); /* consumers: the queue, which may be bound to a connection; NULL otherwise */
};

/* Begins an attempt; ends in kind->declare on an open channel, or in member_failed. */
void place_locate(struct member *member);

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
