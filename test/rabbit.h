/* rabbit.h: an AMQP environment on a real node, its events, and names of the test's own: what tests of topology begin with.
 *
 *     struct rabbit rabbit;
 *     rabbit_up(&rabbit, &node);
 *     rabbit_queue(&rabbit, &(coney_amqp_queue){.name = named(&rabbit, "orders")});
 *     assert_true(rabbit_routes(&rabbit, "", named(&rabbit, "orders")));
 *     …
 *     rabbit_down(&rabbit);
 *
 * For the test's thread. What fails fails the test with the call's text.
 */
#ifndef CONEY_TEST_RABBIT_H
#define CONEY_TEST_RABBIT_H

#include "node.h"
#include "support.h"

#include <coney/amqp.h>

struct rabbit {
    coney_amqp *env;
    struct events events;
    coney_amqp_publisher *publisher; /* opened when it is first needed */
    char prefix[64];                 /* unlike that of any other test or run */
    char names[16][96];
    size_t name_count;
};

/* Recovery begins after 50 ms and waits at most 500 ms. */
void rabbit_up(struct rabbit *rabbit, const struct node *node);

/* With options of the test's own; their events go to rabbit->events. */
void rabbit_open(struct rabbit *rabbit, const struct node *node, const coney_amqp_options *options);

/* Closes the environment; what was declared stays, unless it goes with its connection. */
void rabbit_down(struct rabbit *rabbit);

/* The test's own name for something; the last sixteen different ones live. */
const char *named(struct rabbit *rabbit, const char *name);

/* What must succeed. */
void rabbit_exchange(struct rabbit *rabbit, const coney_amqp_exchange *exchange);
uint64_t rabbit_queue(struct rabbit *rabbit, const coney_amqp_queue *queue);
void rabbit_bind(struct rabbit *rabbit, const char *source, const char *queue, const char *key);
void rabbit_unbind(struct rabbit *rabbit, const char *source, const char *queue, const char *key);
void rabbit_bind_exchange(struct rabbit *rabbit, const char *source, const char *destination, const char *key);
void rabbit_delete_queue(struct rabbit *rabbit, const char *queue);
void rabbit_delete_exchange(struct rabbit *rabbit, const char *exchange);

/* Publishes a message and says whether a queue took it; without the exchange none does. */
bool rabbit_routes(struct rabbit *rabbit, const char *exchange, const char *key);
bool rabbit_routes_headers(struct rabbit *rabbit, const char *exchange, const coney_field *headers, size_t count);

/* The messages that are ready in the queue; waits until there are `count`, and fails the test when that does not come about. */
void rabbit_holds(struct rabbit *rabbit, const char *queue, uint64_t count);

/* Whether it exists, asked passively. */
bool rabbit_has_queue(struct rabbit *rabbit, const char *queue);
bool rabbit_has_exchange(struct rabbit *rabbit, const char *exchange);

#endif
