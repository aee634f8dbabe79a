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
struct amqp_method;
struct member;
struct record;

struct topology {
    struct list exchanges; /* records, in the order of their declaration */
    struct list queues;
    struct list bindings;
    struct list waiting;   /* members (struct place.waiting) that wait for it */
    struct list calls;     /* struct topology_call, that wait for it, too */
    struct list undoing;   /* struct topology_call: deletions and unbindings without an answer */
    bool stale;            /* a connection was lost since the last time it was declared */
    bool unsure;           /* … and what goes with its last user has not been looked at a second time */
    struct replay *replay; /* under way */
    struct timer retry;    /* the next one, of items that failed, or of all where there was no connection */
    struct timer look;     /* the second one at what goes with its last user */
    struct backoff backoff;
    int64_t replayed_at; /* when the last one ended */
};

/* A call that waits until the topology is as it should be: what it needs may not be back yet, or is just on its way back while the call takes it away. */
struct topology_call {
    struct list waiting;
    void (*go_on)(struct topology_call *call);
    const struct amqp_method *undoes; /* a deletion or unbinding; NULL: it takes nothing back */
};

void topology_init(struct coney_amqp *amqp);

/* The environment has ended: no replay begins any more, calls that wait are told, the records are freed. */
void topology_free(struct coney_amqp *amqp);

/* A connection that was ready is gone, not by our own close; or any, while the environment is being closed: nothing of it may be used any more. */
void topology_conn_lost(struct coney_amqp *amqp, struct amqp_conn *conn);

/* True: a member may go on at once. Otherwise it waits in the list and place_go_on is called. */
bool topology_is_ready(struct coney_amqp *amqp, struct member *member);

/* The same for a call, which may take itself out of the list. */
bool topology_is_ready_for(struct coney_amqp *amqp, struct topology_call *call);

/* The call takes something back and goes out now: until it has left the list again, as above, that is not declared again. */
void topology_undoes(struct coney_amqp *amqp, struct topology_call *call);

/* What a queue is called now; `name` itself when there is no record of it. Valid until the loop goes on. */
const char *topology_queue_name(const struct coney_amqp *amqp, const char *name);

/* The connection on which an exclusive queue lives; NULL for any other queue. */
struct amqp_conn *topology_queue_conn(const struct coney_amqp *amqp, const char *name);

/* From the replay: whether a call is taking the record back. */
bool topology_is_undone(const struct topology *topology, const struct record *record);

/* From the replay: whoever waits need not wait any longer, it is as good as it gets for now. */
void topology_let_go(struct coney_amqp *amqp);

/* How a replay ended. */
enum replay_end {
    REPLAY_DONE,  /* all that is due has been tried */
    REPLAY_AGAIN, /* something that was there went away meanwhile, with the last that used it before the cut */
    REPLAY_CUT,   /* there was no connection for some */
};

/* From the replay, which is over and freed. `delay`: until the next one; CONEY_OFF: nothing is due any more. */
void topology_replayed(struct coney_amqp *amqp, enum replay_end end, int64_t delay);

#endif
