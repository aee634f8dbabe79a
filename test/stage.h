/* stage.h: a scripted peer, an environment on it and its events: what nearly every test of the stream client begins with.
 *
 *     struct stage stage;
 *     stage_up(&stage);
 *     struct outcomes outcomes = {0};
 *     coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
 *     …
 *     stage_down(&stage);
 *
 * Recovery begins after 10 ms and waits at most 100 ms, so that tests of it are short. For the test's thread.
 */
#ifndef CONEY_TEST_STAGE_H
#define CONEY_TEST_STAGE_H

#include "peer.h"
#include "support.h"

struct stage {
    struct peer *peer;
    coney_stream_env *env;
    struct events events;
    coney_stream_env_options options; /* of stage_open */
};

/* The peer and the options; no environment yet. */
void stage_set(struct stage *stage);

/* Opens the environment; fails the test with the call's text. */
void stage_open(struct stage *stage);

/* Both. */
void stage_up(struct stage *stage);

/* Closes the environment, stops the peer, frees the events. */
void stage_down(struct stage *stage);

/* Opens one, blocking, with a copy of `options` (NULL = the default) whose callback goes to `outcomes` or `deliveries`. Fails the
 * test with the call's text. */
coney_stream_producer *stage_producer(struct stage *stage, const char *stream, struct outcomes *outcomes,
                                      const coney_stream_producer_options *options);
coney_stream_consumer *stage_consumer(struct stage *stage, const char *stream, struct deliveries *deliveries,
                                      const coney_stream_consumer_options *options);

/* Sends the bodies "m<first>" … with the tags first …; each must be accepted. */
void stage_send(coney_stream_producer *producer, uint64_t first, size_t count);

/* Fails the test unless `text` contains `part`. */
void assert_says(const char *text, const char *part);

/* Closing that must succeed. */
void producer_close(coney_stream_producer **producer);
void consumer_close(coney_stream_consumer **consumer);

#endif
