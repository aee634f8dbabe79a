/* topology.h: exchanges, queues and bindings: declared for the user, remembered, and declared again after a connection was lost.
 *
 * Records are kept in the environment, by name; what is deleted there is forgotten, passive declarations are never remembered. When a connection
 * is lost the topology counts as stale: before any member takes a new place, what is remembered is declared again, exchanges first, then
 * queues, then bindings; an exclusive queue only when its own connection was lost. An item that fails is an event, holds up nobody, and is tried
 * again with back-off. A queue that the broker names is known by its first name for ever: topology_queue_name says what it is called now.
 * Everything here is on the loop.
 */
#ifndef CONEY_AMQP_TOPOLOGY_H
#define CONEY_AMQP_TOPOLOGY_H

#include "base/list.h"
#include "core/backoff.h"
#include "net/timers.h"

#include <stdbool.h>

struct coney_amqp;
struct amqp_conn;
struct member;

struct topology {
    struct list exchanges; /* records, in the order of their declaration */
    struct list queues;
    struct list bindings;
    struct list waiting;   /* members (struct place.waiting) that wait for it */
    bool stale;            /* a connection was lost since the last time it was declared */
    struct replay *replay; /* under way */
    struct timer retry;    /* of items that failed */
    struct backoff backoff;
};

void topology_init(struct coney_amqp *amqp);
void topology_free(struct coney_amqp *amqp);

/* A connection that was ready is gone. */
void topology_conn_lost(struct coney_amqp *amqp, struct amqp_conn *conn);

/* True: a member may go on at once. Otherwise it waits in the list and place_go_on is called. */
bool topology_is_ready(struct coney_amqp *amqp, struct member *member);

/* What a queue is called now; `name` itself when there is no record of it. Valid until the loop goes on. */
const char *topology_queue_name(const struct coney_amqp *amqp, const char *name);

/* The connection on which an exclusive queue lives; NULL for any other queue. */
struct amqp_conn *topology_queue_conn(const struct coney_amqp *amqp, const char *name);

#endif
