/* publisher.h: publishers of a broker, and everything that goes out: publisher.c (their life), publish.c (encode, middleware, hand over, outcomes), request.c, transaction.c.
 */
#ifndef CONEY_SERVICE_PUBLISHER_H
#define CONEY_SERVICE_PUBLISHER_H

#include "base/counter.h"
#include "service/delivery.h"

struct publisher_stats {
    counter published;
    counter confirmed;
    counter failed;  /* outcomes other than CONEY_OK */
    counter refused; /* not accepted: encoding, bounds */
};

struct coney_publisher {
    struct coney_publisher *next; /* of its broker */
    coney_broker *broker;
    coney_publisher_options options; /* copies, defaults filled in at the start */
    const char *name;
    const coney_codec *codec; /* resolved at the start */
    struct outlet *outlet;    /* while it is open */
    struct publisher_stats stats;
    struct lock lock;      /* guards the scratch below */
    struct scratch *spare; /* buffers for encoding outside of deliveries */
};

/* The broker's own, made by broker_new. NULL: memory is out. */
coney_publisher *publisher_add(coney_broker *broker, const coney_publisher_options *options, size_t size);

void publisher_check(coney_publisher *p, struct mistakes *mistakes);
coney_status publisher_open(coney_publisher *p, coney_call *call);
coney_status publisher_close(coney_publisher *p,
                             coney_call *call); /* harmless when it is not open; call->value: messages without a good outcome */
void publisher_free(coney_publisher *p);        /* what is not in the app's memory */

/* For the testkit: every message that the app publishes, after middleware, when it was accepted; copies to dead letters and waiting queues included. */
struct publish_probe {
    void (*published)(void *ctx, coney_broker *broker, const char *exchange, const struct outgoing *message);
    /* May make it fail: returns the outcome to report instead of handing it to the transport, or CONEY_OK to go on. NULL: goes on. */
    coney_status (*fail)(void *ctx, coney_broker *broker);
    void *ctx;
};

#endif
