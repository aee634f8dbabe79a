/* record.h: one exchange, queue or binding as it was declared: what a call sends, and what is declared again after a connection was lost.
 *
 * A record owns copies of all that its method points to, in one allocation. A call makes it, and gives it to the topology when the broker has said
 * yes. Everything here is on the loop, but record_new, and record_free of what nobody else has seen.
 */
#ifndef CONEY_AMQP_RECORD_H
#define CONEY_AMQP_RECORD_H

#include "amqp/arguments.h"
#include "amqp/topology.h"
#include "core/conn.h"
#include "proto/amqp091/codec.h"

struct track;

struct record {
    struct list in_topology; /* in the list of its kind */
    struct list in_replay;   /* is to be sent there, or was */
    struct track *track;     /* its request is under way there */
    struct amqp_method method;
    uint32_t hash; /* of its subject */
    bool due;      /* to be declared again */
    bool missing;  /* it has been, and a binding did not find it: it is declared before any binding to it */

    /* Queues. */
    char *name;             /* what the user and coney call it; "" until the broker has made one up */
    char *now;              /* what the broker calls it: another one only where it makes the names */
    bool brokers_own;       /* it makes them */
    bool renew;             /* … and the queue of the last name is gone */
    bool transitory;        /* exclusive, and not to be declared again: known as long as its connection lives */
    struct amqp_conn *conn; /* exclusive: where it lives, which it keeps open; NULL: it is gone */
};

/* Copies the method with its strings, and the arguments into it (NULL: none). A declaration of a queue without a name is one of the broker's own
 * names. NULL: memory is out. Any thread. */
struct record *record_new(const struct amqp_method *method, const struct arguments *arguments);

/* It is in no topology and in no replay. NULL is harmless. */
void record_free(struct record *record);

/* The broker has declared the queue: takes the name, and what there is to know of an exclusive one. True: the broker calls it something else
 * than before. */
bool record_declared(struct record *record, coney_bytes name, struct amqp_conn *conn);

/* Remembers it, in the place of one that says the same thing (the same name; the same binding). */
void record_keep(struct topology *topology, struct record *record);

/* Takes it out of the topology and lets go of its connection; frees it, at once or when its request is not under way any more. */
void record_forget(struct record *record);

/* Whether a deletion or unbinding is about the record, or about what it goes with: a binding with its ends. */
bool record_goes_with(const struct record *record, const struct amqp_method *undo);

/* The broker has done what the method says: forgets all that goes with it. */
void record_undo(struct topology *topology, const struct amqp_method *undo);

/* NULL: there is none of this name; the name is the one that coney knows the queue by. */
struct record *record_queue(const struct topology *topology, coney_bytes name);

/* NULL: there is none of this name. */
struct record *record_exchange(const struct topology *topology, coney_bytes name);

/* The records of a binding's ends: its source, and its destination; NULL where there is none. */
struct record_ends {
    struct record *all[2];
};
struct record_ends record_ends(const struct topology *topology, const struct record *binding);

static inline bool record_is_binding(const struct record *record)
{
    return record->method.id == AMQP_QUEUE_BIND || record->method.id == AMQP_EXCHANGE_BIND;
}

/* Whether it is an exclusive queue, which its connection alone may touch. */
bool record_is_exclusive(const struct record *record);

/* Whether it is a queue or an exchange that goes with its last user, whosever that is. */
bool record_is_flighty(const struct record *record);

/* Where a method is to be sent: on a connection for consuming when it is about an exclusive queue, on *conn when that is not NULL; otherwise on the
 * one for control. */
enum purpose record_purpose(const struct topology *topology, const struct amqp_method *method, struct amqp_conn **conn);

/* The method with the queue called what the broker calls it. */
struct amqp_method record_request(const struct topology *topology, const struct amqp_method *method);

/* The name that a method is about first: of a queue, an exchange, a binding's destination. Terminated in what a record holds. */
coney_bytes record_subject(const struct amqp_method *method);

#endif
