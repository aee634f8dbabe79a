/* amqp_scene.h: an AMQP environment on a real node, a queue of the test's own and its events: scene.h for the other protocol.
 *
 *     struct amqp_scene scene;
 *     amqp_scene_up(&scene, &node);
 *     struct outcomes outcomes = {0};
 *     coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
 *     …
 *     amqp_scene_down(&scene);
 *
 * For the test's thread. What fails fails the test with the call's text.
 */
#ifndef CONEY_TEST_AMQP_SCENE_H
#define CONEY_TEST_AMQP_SCENE_H

#include "node.h"
#include "support.h"

#include <coney/amqp.h>

struct amqp_scene {
    coney_amqp *rabbit;
    struct events events;
    coney_amqp_options options; /* of amqp_scene_open */
    char queue[80];             /* made by amqp_scene_open, unlike any other */
};

/* The URI of a node's listener, or of a port that leads there. Static memory, good for the last four. */
const char *amqp_uri(uint16_t port);

/* The options and the queue's name; nothing is opened. Recovery begins after 50 ms and waits at most 500 ms. */
void amqp_scene_set(struct amqp_scene *scene);

/* Opens the environment and declares the queue (a classic one); amqp_scene_up does both. */
void amqp_scene_open(struct amqp_scene *scene, const char *uri);
void amqp_scene_up(struct amqp_scene *scene, const struct node *node);

/* Deletes the queue, closes the environment, frees the events. */
void amqp_scene_down(struct amqp_scene *scene);

/* Opens a publisher with a copy of `options` (NULL = the default) whose callback goes to `outcomes`; without an exchange and a key it publishes
 * to the scene's queue. */
coney_amqp_publisher *amqp_scene_publisher(struct amqp_scene *scene, struct outcomes *outcomes,
                                           const coney_amqp_publisher_options *options);

/* Publishes the bodies "m<first>" … with the tags first … */
void amqp_publish_numbered(coney_amqp_publisher *publisher, uint64_t first, size_t count);

/* How many messages are ready in a queue (NULL: the scene's). */
uint64_t amqp_scene_ready(struct amqp_scene *scene, const char *queue);

/* Takes the next message out of the scene's queue and copies the beginning of its body; false when the queue is empty. */
bool amqp_scene_take(struct amqp_scene *scene, char *body, size_t cap);

/* Closes it; fails unless that is CONEY_OK. */
void amqp_publisher_close(coney_amqp_publisher **publisher);

#endif
