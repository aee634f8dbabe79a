/* shop.h: a service on a real node and what stands around it: the app with its log, what its handlers saw, and a desk from which a test
 * puts messages into queues and streams, and looks into them.
 *
 *     desk_open(&desk, &node);
 *     shop_set(&shop, &node, NULL);
 *     coney_subscribe(shop.rabbit, &(coney_subscription){.source = CONEY_QUEUE(orders), .handler = take_handler});
 *     shop_start(&shop);
 *     desk_put(&desk, orders, CONEY_STR("no order"), "application/json");
 *     shop_says(&shop, "cannot be decoded");
 *     shop_stop(&shop);
 *     desk_close(&desk);
 *
 * For the test's thread; handlers call see_one. What fails fails the test with the call's text.
 */
#ifndef CONEY_TEST_SHOP_H
#define CONEY_TEST_SHOP_H

#include "node.h"
#include "scene.h"

#include <coney/service.h>

/* The app ------------------------------------------------------------------------------------------------------------- */

struct shop {
    coney_app *app;
    coney_broker *rabbit;  /* over AMQP */
    coney_broker *streams; /* over the stream protocol, after shop_set_streams */
    struct monitor monitor;
    char **lines; /* of its log */
    size_t count;
    size_t cap;
};

/* Describes an app "shop" with a broker at this port, or this node; its log is collected whatever the options say. Connections come back after
 * 50 ms, and wait at most 500 ms. */
void shop_set_at(struct shop *shop, const char *uri, const coney_app_options *options);
void shop_set(struct shop *shop, const struct node *node, const coney_app_options *options);

/* Adds the node's streams. */
void shop_set_streams(struct shop *shop, const struct node *node);

void shop_start(struct shop *shop);

/* A start that must fail: with this status, and these words in its text. */
void shop_is_refused(struct shop *shop, coney_status status, const char *words);

/* Stops, which must be well, and frees; gives how many deliveries were not settled. shop_end: whatever it says. */
uint64_t shop_stop(struct shop *shop);
void shop_end(struct shop *shop);

/* Waits until a line of the log has these words in it, and gives it (good for the last four); and how many have them. */
const char *shop_says(struct shop *shop, const char *words);
size_t shop_said(struct shop *shop, const char *words);

coney_app_health shop_health(const struct shop *shop);

/* Waits until so many subscriptions receive, and until so many brokers are connected. */
void shop_is_active(const struct shop *shop, uint64_t subscriptions);
void shop_is_connected(const struct shop *shop, uint64_t brokers);

/* What handlers saw --------------------------------------------------------------------------------------------------- */

struct sight {
    uint64_t id;
    uint64_t attempt;
    int64_t at; /* now_ms() */
};

struct sights {
    struct monitor monitor;
    struct sight *all;
    size_t count;
    size_t cap;
    bool closed_gate; /* see_one waits until sights_open_gate */
};

/* Any thread. Gives how many had been seen before. */
size_t see_one(struct sights *sights, uint64_t id, uint64_t attempt);
void sights_open_gate(struct sights *sights);
void sights_wait(struct sights *sights, size_t count);
bool sights_reach(struct sights *sights, size_t count, int64_t ms);
size_t sights_count(struct sights *sights);
struct sight sights_of(struct sights *sights, size_t n);

/* How often it was seen; waits until each of first … was, `count` of them. */
size_t sights_times(struct sights *sights, uint64_t id);
void sights_have_all(struct sights *sights, uint64_t first, uint64_t count);
void sights_free(struct sights *sights);

/* The desk ------------------------------------------------------------------------------------------------------------ */

struct desk {
    coney_amqp *rabbit;
    coney_stream_env *streams;
    coney_amqp_publisher *publisher;
    struct outcomes outcomes;
    size_t sent;
    size_t stored;
};

void desk_open(struct desk *desk, const struct node *node);
void desk_close(struct desk *desk);

/* Declares a queue; desk_declare_as: with all that `queue` has beside its name. */
void desk_declare(struct desk *desk, const char *name, coney_queue_type type);
void desk_declare_as(struct desk *desk, const char *name, const coney_amqp_queue *queue);
void desk_delete(struct desk *desk, const char *name);

/* Puts messages into a queue, with ids "desk-0" …; returns when the broker has them. The orders are {"id":first,"customer":"ada","count":1} …. */
void desk_put(struct desk *desk, const char *queue, coney_bytes body, const char *content_type);
void desk_put_orders(struct desk *desk, const char *queue, uint64_t first, uint64_t count);

/* The same into a stream. */
void desk_store(struct desk *desk, const char *stream, coney_bytes body, const char *content_type);
void desk_store_orders(struct desk *desk, const char *stream, uint64_t first, uint64_t count);

/* Messages that are ready; waiting until there are as many. */
uint64_t desk_ready(struct desk *desk, const char *queue);
void desk_wait_for_ready(struct desk *desk, const char *queue, uint64_t count);

/* Takes the next message out: a view until the next call, or fails when there is none. `header`, if not NULL, is asked for as a number. */
coney_bytes desk_take(struct desk *desk, const char *queue, const char *header, uint64_t *number);

/* Takes `count` orders or receipts {"id":n…} out, waiting for them; `times`[n] counts each, below `below`. */
void desk_collect(struct desk *desk, const char *queue, size_t count, unsigned *times, size_t below);

#endif
