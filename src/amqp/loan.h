/* loan.h: an open channel for somebody who is no member: a topology call, coney_amqp_get, a transaction, a raw channel.
 *
 * A loan waits for a connection of its purpose (a round over the addresses begins when there is none), takes an idle channel or opens one, and
 * gives it back for the next when nothing is left open on it. Everything here is on the loop.
 */
#ifndef CONEY_AMQP_LOAN_H
#define CONEY_AMQP_LOAN_H

#include "amqp/channel.h"

struct loan {
    struct coney_amqp *amqp;
    enum purpose purpose;
    struct channel *channel; /* once it is ready */
    struct amqp_conn *conn;  /* pinned, a reference; NULL: none yet */
    bool is_bound;           /* to a certain connection */
    int64_t patience; /* nanoseconds for its channel to be opened, once there is a connection; 0: no limit of the loan's own */
    struct list waiting; /* in the environment's: for a connection, or to be told that the channel is ready */

    /* loan->channel is open. Never from inside loan_start. */
    void (*ready)(struct loan *loan);

    /* No connection could be made (CONEY_ECONNECT …: `text` lists what each address said), or no channel is free; later: the broker closed the
     * channel, or the connection was lost. The loan is over; requests on the channel were answered before. Never from inside loan_start. */
    void (*failed)(struct loan *loan, coney_status status, uint16_t code, const char *text);

    /* What arrives besides answers, as channel_owner's; may be NULL: it is dropped. */
    const char *(*content)(struct loan *loan, struct block *block, const uint8_t *at, size_t len);
    void (*method)(struct loan *loan, const struct amqp_method *method);
};

/* Begins. `conn`: that very connection (it is ready); NULL: one of the purpose. The callbacks were set before. */
void loan_start(struct loan *loan, struct coney_amqp *amqp, enum purpose purpose, struct amqp_conn *conn);

/* Ends it from any state; no callback comes any more. `clean`: nothing is open on the channel (no consumer, no unsettled delivery, no confirm or
 * tx mode, no request under way), so that the next may have it; otherwise it is closed. Harmless when it is over, or
 * zeroed. */
void loan_end(struct loan *loan, bool clean);

/* From the environment: looks at those that wait; the environment is closed, nothing comes any more. */
void loans_go_on(struct coney_amqp *amqp);
void loans_end(struct coney_amqp *amqp);

/* From its rounds: whether any waits for a connection of this purpose; that none could be had. */
bool loans_want(const struct coney_amqp *amqp, enum purpose purpose);
void loans_fail(struct coney_amqp *amqp, enum purpose purpose, coney_status status, uint16_t code, const char *text);

#endif
