/* traffic.h: a producer that sends about 20,000 messages a second from a thread of its own, a consumer that reads them, and
 * the account of both at the end.
 *
 *     struct traffic traffic;
 *     traffic_start(&traffic, &scene, 20000, "writer");
 *     traffic_passes(&traffic, 3000);
 *     …the fault…
 *     traffic_is_whole(&traffic);
 *
 * For the test's thread.
 */
#ifndef CONEY_TEST_TRAFFIC_H
#define CONEY_TEST_TRAFFIC_H

#include "scene.h"

struct traffic {
    struct scene *scene;
    struct outcomes outcomes;
    struct deliveries deliveries;
    coney_stream_producer *producer;
    coney_stream_consumer *consumer;
    size_t total;
    bool named;
    coney_status status; /* of the send that was not accepted, when one was not */
    size_t accepted;
    pthread_t thread;
};

/* Opens both on the scene's stream and begins to send m0, m1 …, `total` of them. NULL `name`: no de-duplication. */
void traffic_start(struct traffic *traffic, struct scene *scene, size_t total, const char *name);

/* Waits until so many outcomes are in. */
void traffic_passes(struct traffic *traffic, size_t outcomes);

/* Waits for the rest and closes both. Fails unless every message had one outcome, a confirm; and came to the consumer, in order
 * and once with a name, at least once without; and every offset came once. */
void traffic_is_whole(struct traffic *traffic);

#endif
