/* amqp_traffic.h: a publisher that sends about 2,000 messages a second from a thread of its own, a consumer that acks them, and the
 * account of both at the end: traffic.h for the other protocol.
 *
 *     struct amqp_traffic traffic;
 *     amqp_traffic_start(&traffic, &warren, warren.queue, NULL);
 *     amqp_traffic_passes(&traffic, 500);
 *     …the fault…
 *     amqp_traffic_passes(&traffic, 500);
 *     amqp_traffic_is_whole(&traffic);
 *
 * For the test's thread.
 */
#ifndef CONEY_TEST_AMQP_TRAFFIC_H
#define CONEY_TEST_AMQP_TRAFFIC_H

#include "warren.h"

#include <stdatomic.h>

struct amqp_traffic {
    struct warren *warren;
    char queue[80];
    struct outcomes outcomes;
    coney_amqp_publisher *publisher;
    coney_amqp_consumer *consumer;
    int64_t prefetch;
    bool no_resend;
    bool killed; /* to be set by the test: a broker that was killed may have forgotten which messages it has delivered before */
    pthread_t thread;
    atomic_bool stop;
    coney_status status; /* of the publish that was not accepted, when one was not */
    _Atomic size_t accepted;

    struct monitor monitor; /* guards what follows */
    uint8_t *times;         /* how often each message came, up to 255 */
    size_t cap;
    size_t distinct;   /* messages that came */
    size_t deliveries; /* with those that came again */
    size_t doubled;    /* that came again as if for the first time */
    size_t gone;       /* messages below this one are gone from the queue */
    size_t undead;     /* and came all the same */
};

/* Opens both on the queue and begins to publish m0, m1 …. `options` is the publisher's (NULL = the default); its exchange and its key are set
 * unless it has a key. */
void amqp_traffic_start(struct amqp_traffic *traffic, struct warren *warren, const char *queue,
                        const coney_amqp_publisher_options *options);

/* Waits until so many more messages have their outcome, and as many have come that had not come before. */
void amqp_traffic_passes(struct amqp_traffic *traffic, size_t messages);

/* Publishes no more. */
void amqp_traffic_stops(struct amqp_traffic *traffic);

/* After the stop: waits until every message had its outcome and has come, and the queue holds none, acked ones included. From here on each that comes
 * is one too many; then publishing goes on. */
void amqp_traffic_is_gone(struct amqp_traffic *traffic, const struct node *node);
void amqp_traffic_goes_on(struct amqp_traffic *traffic);

/* Stops, waits for the rest and closes both. Fails unless every message had one outcome, a confirm (with `.no_resend` it may be unknown); what was
 * confirmed came at least once; messages came again no more often than what was published again, and redelivery after the reconnects there were, can
 * explain; none came once it was gone; and the queue is empty. */
void amqp_traffic_is_whole(struct amqp_traffic *traffic);

#endif
