/* subscription.h: one subscription: its description, and what runs it.
 *
 * Made by coney_subscribe or a router's inclusion (subscription.c, deep copies in the app's memory), checked by check.c, opened by start.c, run by dispatch.c with its
 * lanes (lane.c) or batches (batch.c).
 */
#ifndef CONEY_SERVICE_SUBSCRIPTION_H
#define CONEY_SERVICE_SUBSCRIPTION_H

#include "base/counter.h"
#include "service/app.h"

struct lane_set; /* lane.h */
struct gather;   /* batch.h */

/* What it counts. Written by lanes and loops, read by anybody. */
struct subscription_stats {
    counter received;
    counter acked;
    counter rejected;
    counter requeued;
    counter retried; /* with a delay */
    counter undecodable;
    counter failed;
    counter dead_lettered;
    counter calls; /* of the handler */
    counter publish_failures;
    counter batches;
    counter batched; /* messages in them */
    counter stalls;  /* runs over the handler limit */
    counter dropped; /* received, and settled by nobody here: a stop or a seek has taken them away */
};

struct subscription {
    struct sink sink; /* first: what transports call */
    struct subscription *next;
    coney_app *app;
    coney_broker *broker;
    coney_subscription options; /* as given, texts and source copied, defaults filled in */
    const char *name;
    const coney_codec *routed_codec; /* the innermost router's that has one, or NULL */

    /* Resolved at the start (subscription_resolve): */
    const coney_type *type;    /* NULL: raw */
    const coney_codec *codec;  /* NULL: raw */
    struct middlewares routed; /* the routers' it came through, outermost first */
    struct middleware *chain;  /* app, broker, routers, own: outermost first; NULL when there is none */
    size_t chain_count;

    struct feed *_Atomic feed; /* while it is open */
    bool was_opened;
    _Atomic bool is_active;
    _Atomic bool has_ended;
    struct subscription_stats stats;

    /* dispatch.c, made by dispatch_open, freed by dispatch_close: */
    struct lane_set *lanes;
    struct gather *gather;
    struct dispatch *dispatch;
};

/* Copies a subscription into the app's memory and appends it to the broker's. CONEY_ENOMEM. */
coney_status subscription_add(coney_broker *broker, const coney_subscription *subscription, const struct middlewares *routed,
                              const coney_codec *codec);

/* What its messages are decoded by, if they are: its own codec, the router's, the broker's, the app's. */
const coney_codec *subscription_codec(const struct subscription *s);

/* Type, codec and chain, for a start. CONEY_ENOMEM. */
coney_status subscription_resolve(struct subscription *s);

/* What is wrong with it, its transport's opinion included. Names that two have are app_check's. */
void subscription_check(struct subscription *s, struct mistakes *mistakes);

/* What sink.active and sink.ended are while it is open (start.c sets them, dispatch_open sets sink.deliver). */
void subscription_active(struct sink *sink, bool active);
void subscription_ended(struct sink *sink, coney_status status, const char *text);

/* A deep copy of a description of `size` bytes. False: it has members that this library does not know. */
bool subscription_copy(struct copier to, coney_subscription *copy, const coney_subscription *from, size_t size);

/* Implemented by dispatch.c, asked by start.c from the thread that stops the app:
 * how many handlers of it run now, middleware and the settlement after them included; */
size_t dispatch_running(const struct subscription *s);
/* and whether the calling thread is inside one of them: a stop from there would wait for itself (CONEY_EDEADLK). */
bool dispatch_is_current(const struct subscription *s);

#endif
