/* posting.h: one message on its way out: what publishing, replies, requests and transactions do alike.
 *
 *     struct posting g;
 *     if (posting_begin(&g, &out, options, size, NULL) != CONEY_OK) …     // refused: nothing is open
 *     status = posting_write(&g, type, value);                          // body, content type, headers, destination, in the scratch
 *     …                                                                 // posting_outgoing, to the transport
 *     posting_end(&g, status);
 *
 * Between begin and end the publisher's outlet stays open. A posting stands on its caller's stack and allocates nothing once its publisher is warm.
 */
#ifndef CONEY_SERVICE_POSTING_H
#define CONEY_SERVICE_POSTING_H

#include "service/publisher.h"

/* Memory to write a message into. The publisher keeps it for the next one. */
struct scratch {
    struct scratch *next;
    coney_sink body;
    coney_arena *arena;
    uint32_t calm; /* messages in a row that needed little of `body` */
};

enum { POSTING_LONGEST_TO = 255 };

struct posting {
    coney_publisher *publisher;
    const struct transport *transport;
    struct outlet *outlet;
    coney_delivery *delivery;
    coney_batch *batch;
    struct scratch *scratch;
    coney_call *call; /* where a refusal is told as well; or NULL */
    coney_publish message;
    uint32_t accepted; /* by the transport */
    bool is_reply;     /* `to` is a reply_to */
    coney_publish_options own;
    char to[POSTING_LONGEST_TO + 1];
};

/* Enters the publisher. CONEY_EINVAL: a NULL, a settled delivery, a reserved member; CONEY_ECLOSED: it is not open; CONEY_EFORKED; CONEY_EUNSUPPORTED: unknown members; CONEY_ENOMEM.
 * Whatever is refused from here on, has its text in the log, in the delivery's fault and in the call. */
coney_status posting_begin(struct posting *g, const coney_out *out, const coney_publish_options *options, size_t size,
                           coney_call *call);

/* The options of the message, to be changed. */
coney_publish_options *posting_own_options(struct posting *g);

/* Fills g->message; of a reply, all but its destination. */
coney_status posting_write(struct posting *g, const coney_type *type, const void *value);
coney_status posting_write_raw(struct posting *g, coney_bytes body, coney_bytes content_type);

/* A message, perhaps changed by middleware, with the publisher's defaults, as a transport takes it. CONEY_EINVAL: it goes nowhere. */
coney_status posting_outgoing(struct posting *g, const coney_publish *message, struct outgoing *outgoing);

/* Says that something is wrong with the message, and returns `status`. */
coney_status posting_refuse(struct posting *g, coney_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Leaves the publisher, counts, and returns `status`. */
coney_status posting_end(struct posting *g, coney_status status);

/* For publisher_free. */
void posting_free_scratches(coney_publisher *p);

/* publish.c: the coney_outcome_fn of every outlet; `publisher` is its ctx. */
void publish_outcome(void *publisher, const coney_outcome *outcome);

/* publish.c: the testkit's: the outcome that the message is to have instead of going out, or CONEY_OK; and that it went out. */
coney_status publish_probe_failure(const struct posting *g);
void publish_probe_published(const struct posting *g, const struct outgoing *message);

/* publish.c: through all middleware to the transport, or into the delivery's transaction. */
coney_status publish_send(struct posting *g);

/* transaction.c: adds the message to the transaction of its delivery and publisher, which is begun by the first one. */
coney_status transaction_add_in_delivery(struct posting *g, const struct outgoing *message);

/* transaction.c: aborts all that are open on a publisher that is closed; nobody uses them at this moment. */
void transaction_abort_all(coney_publisher *p);

#endif
