/* scene.h: an environment on a real node, a stream of the test's own and its events: what nearly every test against a node
 * begins with, as stage.h is for a scripted peer.
 *
 *     struct scene scene;
 *     scene_up(&scene, node.uri);
 *     struct outcomes outcomes = {0};
 *     coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
 *     …
 *     scene_down(&scene);
 *
 * For the test's thread. What fails fails the test with the call's text.
 */
#ifndef CONEY_TEST_SCENE_H
#define CONEY_TEST_SCENE_H

#include "node.h"
#include "stage.h"

struct scene {
    coney_stream_env *env;
    struct events events;
    coney_stream_env_options options; /* of scene_open */
    char stream[80];                  /* made by scene_open, unlike any other */
};

/* The options and the stream's name; nothing is opened. Recovery begins after 50 ms and waits at most 500 ms. */
void scene_set(struct scene *scene);

/* Opens the environment and creates the stream; scene_up does both. */
void scene_open(struct scene *scene, const char *uri);
void scene_up(struct scene *scene, const char *uri);

/* Deletes the stream, closes the environment, frees the events. */
void scene_down(struct scene *scene);

/* Whether the broker is 3.11 or later, which has statistics; before 3.13 brokers have no filters either. */
bool scene_has_statistics(struct scene *scene);

/* A name that no other test has, also not of another run. */
void fresh_name(char *out, size_t cap, const char *begins);

/* Open one on the scene's stream, with a copy of `options` (NULL = the default) whose callback goes to `outcomes` or
 * `deliveries`. */
coney_stream_producer *scene_producer(struct scene *scene, struct outcomes *outcomes,
                                      const coney_stream_producer_options *options);
coney_stream_consumer *scene_consumer(struct scene *scene, struct deliveries *deliveries,
                                      const coney_stream_consumer_options *options);

/* Publishes the bodies "m<first>" … and waits for their confirms; the offsets follow their order. */
void scene_fill(struct scene *scene, uint64_t first, size_t count);

/* Reads the whole stream, from its first message to its last one now, which it finds by publishing an end mark. The mark is not
 * in `deliveries`. */
void scene_read_back(struct scene *scene, struct deliveries *deliveries);

/* Fails unless the bodies are "m<first>" …, each once and in this order, `count` of them. */
void bodies_are_in_order(struct deliveries *deliveries, uint64_t first, size_t count);

/* The number n of a body "m<n>"; fails for another body. */
uint64_t number_of(const char *body);

#endif
