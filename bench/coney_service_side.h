/* coney_service_side.h: coney's services: the work of coney_amqp_side.h and coney_side.h as a service does it, with every option of the app and of its
 * subscriptions at its default, and the same within one process.
 *
 * Each command prints one JSON object. What the framework refuses ends the program.
 */
#ifndef BENCH_CONEY_SERVICE_SIDE_H
#define BENCH_CONEY_SERVICE_SIDE_H

#include "measure.h"
#include "order.h"

#include <coney/service.h>

#include <semaphore.h>

#define ORDER(F) F(u64, id) F(u32, quantity)
CONEY_MESSAGE(order, ORDER);

/* What the handlers below write; alone until `reached`. */
struct count {
    uint64_t messages;
    uint64_t due; /* the next message that is more than counted */
    uint64_t sum; /* of the bodies' bytes; of orders, of what was decoded */
    uint64_t last;
    uint64_t start; /* when the first message came */
    uint64_t end;   /* when the last one came */
    sem_t reached;  /* the last one has come; within one process: every message that is `due` */
    uint64_t step;  /* from one that is due to the next */
    sem_t *go;      /* the first one waits for it, or NULL */
};
extern struct count service_count;

/* The handler of bodies as they are, of orders, and of orders that are answered by publishing another one to "receipts". */
coney_handler service_handler(const struct options *options);

coney_app *service_app(void);
void service_subscribe(coney_broker *broker, coney_source source, const struct options *options);
void service_start(coney_app *app);
void service_stop(coney_app **app);

/* Waits for service_count.reached, two minutes at most. */
void service_await(void);

/* What the counted messages must have summed up to. */
void service_check(const struct options *options);

/* Within one process: --count messages are published, raw bytes of --size, or orders with --json 1; --reply 1: each is answered. A few blocks are under way at
 * once: as many are published before any is handled, so that no pool grows later; each next one when one has been handled. The publisher's thread and
 * the subscription's take part. */
void service_memory(const struct options *options);

/* Messages a second of --queue, which has --count of --size; orders with --json 1. */
void service_consume(const struct options *options);

/* Messages a second of a stream that is read from its beginning, a handler call each. */
void service_replay(const struct options *options);

#endif
