/* warren.h: an AMQP environment on a real node, a queue of the test's own, its events and deliveries: what nearly every test of an
 * AMQP consumer begins with, as scene.h is for streams.
 *
 *     struct warren warren;
 *     warren_up(&warren, &node, NULL);
 *     warren_fill(&warren, 0, 100);
 *     struct parcels parcels = {0};
 *     coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
 *     parcels_wait(&parcels, 100);
 *     …
 *     warren_down(&warren);
 *
 * For the test's thread. What fails fails the test with the call's text.
 */
#ifndef CONEY_TEST_WARREN_H
#define CONEY_TEST_WARREN_H

#include "node.h"
#include "scissors.h"
#include "support.h"

#include <coney/amqp.h>

struct warren {
    coney_amqp *env;
    struct events events;
    coney_amqp_options options; /* of warren_open */
    struct scissors *scissors;  /* NULL: straight to the node */
    char uri[80];
    char queue[80]; /* unlike any other */
};

/* Options, names; nothing is opened. Recovery begins after 50 ms and waits at most 500 ms. */
void warren_set(struct warren *warren, const struct node *node);

/* Leads the connections that are opened from here on through scissors. */
void warren_through_scissors(struct warren *warren, const struct node *node);

/* Opens the environment and declares the queue, as `queue` has it (its name is not looked at; NULL = the default). warren_up: both. */
void warren_open(struct warren *warren, const coney_amqp_queue *queue);
void warren_up(struct warren *warren, const struct node *node, const coney_amqp_queue *queue);

/* Declares the queue once more, or another one. */
void warren_declare(struct warren *warren, const char *name, const coney_amqp_queue *queue);

/* Deletes the queue, closes the environment, frees the events and the scissors. */
void warren_down(struct warren *warren);

/* Publishes the bodies "m<first>" … to the queue and waits for their confirms. warren_fill_with: the bodies are padded to `size` bytes. */
void warren_fill(struct warren *warren, uint64_t first, size_t count);
void warren_fill_with(struct warren *warren, uint64_t first, size_t count, size_t size);

/* Ends the next connection that gets a byte from the node. */
void warren_cut(struct warren *warren);

/* Messages in the queue that are ready; waiting until there are as many, also across cuts. */
uint64_t warren_ready(struct warren *warren, const char *queue);
void warren_wait_for_ready(struct warren *warren, const char *queue, uint64_t count);

/* Takes what is ready out of the queue, acked, and counts how often each of "m0" … came: at most `count` are looked for. */
void warren_drain(struct warren *warren, const char *queue, unsigned *times, size_t count);

/* Deliveries ----------------------------------------------------------------------------------------------------- */

struct parcel {
    uint64_t number; /* n of its body "m<n>" */
    uint64_t tag;
    uint64_t count;
    bool redelivered;
    size_t body_len;
};

/* A handler whose behaviour the test sets. Zero: acks everything. */
struct parcels {
    struct monitor monitor;
    struct parcel *all;
    size_t count;
    size_t cap;
    coney_settle settle; /* what the handler returns … */
    coney_settle (*decide)(void *ctx, const coney_amqp_delivery *delivery,
                           size_t nth); /* … unless this does; without the lock */
    void *decide_ctx;
    bool closed_gate; /* the handler waits until parcels_open_gate */
    size_t waiting;   /* handlers at the gate now */
};

coney_settle parcels_add(void *ctx, const coney_amqp_delivery *delivery);
void parcels_wait(struct parcels *parcels, size_t count);
bool parcels_reach(struct parcels *parcels, size_t count, int64_t ms);
size_t parcels_count(struct parcels *parcels);
struct parcel parcels_of(struct parcels *parcels, size_t n);
void parcels_wait_at_gate(struct parcels *parcels);
void parcels_open_gate(struct parcels *parcels);

/* Fails unless the numbers are first, first + 1 … in the order of arrival, `count` of them. */
void parcels_are_in_order(struct parcels *parcels, uint64_t first, size_t count);
void parcels_free(struct parcels *parcels);

/* Opens a consumer of the queue, blocking, with a copy of `options` (NULL = the default) whose handler is parcels_add unless it has one. */
coney_amqp_consumer *warren_consumer(struct warren *warren, struct parcels *parcels,
                                     const coney_amqp_consumer_options *options);
coney_amqp_consumer *warren_consumer_of(struct warren *warren, const char *queue, struct parcels *parcels,
                                        const coney_amqp_consumer_options *options);

/* Closing that must succeed; how many were kept. */
uint64_t warren_close_consumer(coney_amqp_consumer **consumer);

coney_amqp_consumer_stats warren_stats(const coney_amqp_consumer *consumer);

#endif
