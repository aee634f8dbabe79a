/* publisher.h: publishers of a broker, and everything that goes out: publisher.c (their life), publish.c and posting.c (encode, middleware, hand over), ticket.c
 * (whose outcome it is), reply.c, request.c, transaction.c.
 */
#ifndef CONEY_SERVICE_PUBLISHER_H
#define CONEY_SERVICE_PUBLISHER_H

#include "base/counter.h"
#include "base/list.h"
#include "service/delivery.h"

/* Any thread counts, any thread reads. */
struct publisher_stats {
    counter published; /* accepted by the transport */
    counter confirmed;
    counter failed;  /* outcomes other than CONEY_OK */
    counter refused; /* not accepted: encoding, bounds */
};

struct scratch; /* posting.h */
struct ticket;  /* ticket.h */
struct place;   /* ticket.c */

/* Destinations are remembered for the log, the first one of each place. */
enum { PUBLISHER_PLACES = 64 };

struct coney_publisher {
    struct coney_publisher *next; /* of its broker */
    coney_broker *broker;
    coney_publisher_options options; /* copies, as given */
    const char *name;                /* as given; else `to`, the exchange, or the broker's label */
    const coney_codec *codec;        /* its own, the broker's or the app's: resolved by publisher_open */
    coney_bytes content_type;        /* the codec's */
    struct publisher_stats stats;
    struct place *_Atomic places[PUBLISHER_PLACES]; /* ticket.c */
    const struct place *_Atomic last_place;         /* ticket.c: where the last message went */

    struct lock lock; /* guards what follows */
    struct cond left;
    struct outlet *outlet;    /* while it is open */
    uint32_t users;           /* calls that use the outlet at this moment */
    struct scratch *spare;    /* for calls to come */
    struct ticket *tickets;   /* the same */
    struct list transactions; /* open ones, of coney_transaction.open */
};

/* The broker's own, made by broker_new, and all others; appended to broker->publishers. NULL: memory is out. */
coney_publisher *publisher_add(coney_broker *broker, const coney_publisher_options *options, size_t size);

/* Those that are named by their broker are named anew. */
void publisher_broker_was_labelled(coney_broker *broker);

/* check.c: what is wrong with it, its transport's opinion included. */
void publisher_check(const coney_publisher *p, struct mistakes *mistakes);

coney_status publisher_open(coney_publisher *p, coney_call *call);

/* Harmless when it is not open; call->value: messages without a good outcome. Aborts the transactions that are open. Publishes that are under way are waited
 * for; CONEY_ETIMEDOUT: one has not ended by the deadline, and the outlet is left to the transport's disconnect. */
coney_status publisher_close(coney_publisher *p, coney_call *call);
bool publisher_is_used(coney_publisher *p); /* a call is inside: after a close, one that it did not wait for */
void publisher_free(coney_publisher *p);    /* what is not in the app's memory */

/* For the testkit: every message that the app publishes, after middleware, when it was accepted, in transactions when they are committed, requests when they are
 * answered. Copies to dead letters and waiting queues are settle.c's. */
struct publish_probe {
    void (*published)(void *ctx, coney_broker *broker, const char *exchange, const struct outgoing *message);
    /* May make it fail: returns the outcome to report instead of handing it to the transport, or CONEY_OK to go on. NULL: goes on. */
    coney_status (*fail)(void *ctx, coney_broker *broker);
    void *ctx;
};

#endif
