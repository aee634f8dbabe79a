/* amqp_peer_stage.h: a scripted AMQP broker, an environment on it and its events: what nearly every test of the AMQP client's own begins with,
 * as stage.h is for streams.
 *
 *     struct amqp_stage stage;
 *     amqp_stage_up(&stage);
 *     struct outcomes outcomes = {0};
 *     coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
 *     …
 *     amqp_stage_down(&stage);
 *
 * Recovery begins after 10 ms and waits at most 100 ms, so that tests of it are short. For the test's thread.
 */
#ifndef CONEY_TEST_AMQP_PEER_STAGE_H
#define CONEY_TEST_AMQP_PEER_STAGE_H

#include "amqp_peer.h"
#include "amqp_scene.h"
#include "scene.h"
#include "warren.h"

struct amqp_stage {
    struct amqp_peer *peer;
    coney_amqp *rabbit;
    struct events events;
    coney_amqp_options options; /* of amqp_stage_open */
};

/* The peer and the options; no environment yet. */
void amqp_stage_set(struct amqp_stage *stage);

/* Opens the environment; fails the test with the call's text. amqp_stage_up: both. */
void amqp_stage_open(struct amqp_stage *stage);
void amqp_stage_up(struct amqp_stage *stage);

/* Opens it, and expects this status and a sentence with these words. */
void amqp_stage_refused(struct amqp_stage *stage, coney_status status, const char *words);

/* Closes the environment, stops the peer, frees the events. */
void amqp_stage_down(struct amqp_stage *stage);

/* Open one, blocking, with a copy of `options` (NULL = the default) whose callback goes to `outcomes` or `parcels`; the publisher's messages go to
 * queue "q" unless the options say otherwise. Fail the test with the call's text. */
coney_amqp_publisher *amqp_stage_publisher(struct amqp_stage *stage, struct outcomes *outcomes,
                                           const coney_amqp_publisher_options *options);
coney_amqp_consumer *amqp_stage_consumer(struct amqp_stage *stage, const char *queue, struct parcels *parcels,
                                         const coney_amqp_consumer_options *options);

/* Declares a queue with this name; the call's status. */
coney_status amqp_stage_declare(struct amqp_stage *stage, const char *queue, coney_call *call);

#endif
