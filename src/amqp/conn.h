/* conn.h: one AMQP connection of an environment: log in, channels by their number, blocked and unblocked, the publishers' writes.
 *
 * A connection serves one purpose: publishing, consuming, or requests (topology, get, raw channels), so that a broker that stops reading a
 * publisher holds up no ack. It is core's struct conn with AMQP's parts behind it. Everything here is on the loop.
 *
 * What arrives is taken in units: a method frame, or a method with its whole content where that stands in one piece (proto/amqp091/content.h);
 * so a delivery is one view of the receive block. A content that comes in several body frames, or between frames of other channels, is put
 * together in a block of its channel's, in the same form.
 */
#ifndef CONEY_AMQP_CONN_H
#define CONEY_AMQP_CONN_H

#include "amqp/env.h"
#include "core/conn.h"
#include "proto/amqp091/codec.h"

struct channel;

/* Somebody who writes control bytes in portions, the next one when the last has been written. */
struct amqp_pump {
    struct list in_conn;
    struct task task;
};

struct amqp_conn {
    struct conn conn;
    uint32_t payload_max;      /* of a frame that may arrive */
    size_t unit_max;           /* bytes of a message that need no closer look */
    uint32_t step;             /* the method that the log-in waits for */
    uint16_t channel_max;      /* negotiated: the highest number */
    struct channel **channels; /* by number; grows with the highest in use */
    size_t channel_cap;
    size_t channel_count;
    uint16_t number_next; /* goes round, so that a number rests before it is used again */
    bool is_new;          /* the node is a RabbitMQ 4.1 or later */
    bool logged_in;       /* it became ready, and we have not closed it */
    bool blocked;         /* publishes are held back, control bytes go */
    bool full;        /* a consumer has as much as it may hold: the connection is read while an answer is awaited, no further */
    size_t awaited;   /* answers that somebody waits for */
    unsigned pins;    /* exclusive queues and loans that live on it: it stays open without members */
    struct list idle; /* open channels that nobody uses: loan.h */
    size_t idle_count;
    struct list pumps;   /* wait until the socket takes more */
    struct list secrets; /* renewals without an answer */
};

static inline struct amqp_conn *amqp_conn_of(struct conn *conn)
{
    return container_of(conn, struct amqp_conn, conn);
}

extern const struct conn_kind amqp_conn_kind;

/* Sends a method on `channel` (0: the connection's own) that has no content, as control bytes. False: it has no form on the wire (a name over
 * 255 bytes, a frame over frame_max: C05) or memory is out, and nothing was sent. */
bool amqp_conn_send(struct amqp_conn *conn, uint16_t channel, const struct amqp_method *method);

/* Posts the pump's task when the socket can take more than there is to write now, or the connection is over. */
void amqp_conn_pump(struct amqp_conn *conn, struct amqp_pump *pump);

/* The connection cannot go on: the broker did what the protocol does not allow. `field` names what. */
void amqp_conn_protocol_error(struct amqp_conn *conn, const char *field);

/* The same for a message on this channel. */
void amqp_conn_bad_message(struct amqp_conn *conn, uint16_t channel, const char *field);

/* A consumer on it has as much as it may hold, or none has any more. */
void amqp_conn_set_full(struct amqp_conn *conn, bool full);

/* An answer is awaited on it; it has come, or is awaited no longer. */
void amqp_conn_await(struct amqp_conn *conn);
void amqp_conn_await_no_more(struct amqp_conn *conn);

/* Something keeps the connection open, also without members; or has left it. */
void amqp_conn_pin(struct amqp_conn *conn);
void amqp_conn_unpin(struct amqp_conn *conn);

/* Whether one more channel can be had: a number is free, or an idle channel is there. Not before it is ready. */
bool amqp_conn_has_channel(const struct amqp_conn *conn);

/* handshake.c: the log-in. */
void amqp_login(struct conn *conn);
void amqp_login_method(struct amqp_conn *conn, const struct amqp_method *method);
void amqp_login_refused(struct amqp_conn *conn, uint16_t code, const char *reason); /* the broker closes the connection */

#endif
