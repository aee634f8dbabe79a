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

#include "base/fork.h"
#include "service/app.h"
#include "service/publisher.h"

/* Memory to write a message into. The publisher keeps it for the next one. */
struct scratch {
    struct scratch *next;
    coney_sink body;
    coney_arena *arena;
    uint32_t calm; /* messages in a row that needed little of `body` */
    bool is_used;  /* since it was clean */
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

/* For a publisher's spares; NULL: memory is out. */
struct scratch *posting_scratch_new(void);

/* The halves of posting_begin and posting_end that most messages pass by. */
coney_status posting_begin_with_care(struct posting *g, const coney_publish_options *options, size_t size);
void posting_clean(struct scratch *scratch);
void posting_left(coney_publisher *p);

/* Nothing about the message needs a second look before its publisher is entered. */
static inline bool posting_is_plain(const struct posting *g, const coney_publish_options *options, size_t size)
{
    uint32_t reserved;
    if (g->publisher == NULL || options == NULL || size != sizeof *options ||
        (g->delivery != NULL && !delivery_is_open(g->delivery)))
        return false;
    memcpy(&reserved, options->reserved, sizeof reserved);
    return reserved == 0 && g->publisher->broker->app->born == fork_generation();
}

/* False, and not entered: it is not open, or has no scratch to spare. */
static inline bool posting_enter(struct posting *g)
{
    coney_publisher *p = g->publisher;
    lock_acquire(&p->lock);
    struct scratch *scratch = p->spare;
    bool is_ready = p->outlet != NULL && scratch != NULL;
    if (__builtin_expect(is_ready, 1)) {
        p->users++;
        p->spare = scratch->next;
        g->outlet = p->outlet;
        g->scratch = scratch;
    }
    lock_release(&p->lock);
    return is_ready;
}

/* Enters the publisher. CONEY_EINVAL: a NULL, a settled delivery, a reserved member; CONEY_ECLOSED: it is not open; CONEY_EFORKED; CONEY_EUNSUPPORTED: unknown members; CONEY_ENOMEM.
 * Whatever is refused from here on, has its text in the log, in the delivery's fault and in the call. */
static inline __attribute__((always_inline)) coney_status
posting_begin(struct posting *g, const coney_out *out, const coney_publish_options *options, size_t size, coney_call *call)
{
    g->publisher = out->publisher;
    g->delivery = out->delivery;
    g->batch = out->batch;
    g->call = call;
    g->message.delivery = out->delivery;
    g->accepted = 0;
    g->is_reply = false;
    if (__builtin_expect(!posting_is_plain(g, options, size), 0) || __builtin_expect(!posting_enter(g), 0))
        return posting_begin_with_care(g, options, size);
    g->transport = g->publisher->broker->transport;
    g->message.options = options;
    return CONEY_OK;
}

/* The options of the message, to be changed. */
coney_publish_options *posting_own_options(struct posting *g);

/* What the message needs of the scratch is marked in it. */
static inline struct scratch *posting_scratch(struct posting *g)
{
    g->scratch->is_used = true;
    return g->scratch;
}

/* Fills g->message; of a reply, all but its destination. */
coney_status posting_write(struct posting *g, const coney_type *type, const void *value);

/* Headers and destination of raw bytes: the half of posting_write_raw that most messages pass by. */
coney_status posting_write_raw_with_care(struct posting *g);
static inline coney_status posting_write_raw(struct posting *g, coney_bytes body, coney_bytes content_type)
{
    const coney_publish_options *options = g->message.options;
    g->message.body = body;
    g->message.content_type = content_type;
    if (__builtin_expect(options->header_type != NULL || options->to == NULL || options->to[0] == '\0', 0))
        return posting_write_raw_with_care(g);
    g->message.headers = options->headers;
    g->message.header_count = options->header_count;
    g->message.to = coney_bytes_of(options->to, strlen(options->to));
    return CONEY_OK;
}

coney_status posting_refuse_nowhere(struct posting *g);

/* Priority and the like, of the message or of all of them: eight bytes each, which are nearly always zero. */
void posting_mark(const struct posting *g, const coney_publish_options *options, struct outgoing *outgoing);
static inline void posting_mark_nothing(struct outgoing *outgoing)
{
    outgoing->priority = 0;
    outgoing->has_priority = false;
    outgoing->transient = false;
    outgoing->drop_unroutable = false;
    outgoing->to_requester = false;
}
static inline bool posting_has_marks(const struct posting *g, const coney_publish_options *options)
{
    uint64_t own;
    uint64_t defaults;
    memcpy(&own, &options->priority, sizeof own);
    memcpy(&defaults, &g->publisher->options.priority, sizeof defaults);
    return (own | defaults | g->is_reply) != 0;
}

/* A message, perhaps changed by middleware, with the publisher's defaults, as a transport takes it. CONEY_EINVAL: it goes nowhere. */
static inline coney_status posting_outgoing(struct posting *g, const coney_publish *message, struct outgoing *outgoing)
{
    const coney_publish_options *options = message->options;
    const coney_publisher_options *defaults = &g->publisher->options;
    outgoing->to = message->to;
    outgoing->body = message->body;
    outgoing->content_type = message->content_type;
    outgoing->correlation_id = options->correlation_id;
    outgoing->reply_to = options->reply_to;
    outgoing->message_id = options->message_id;
    outgoing->type = options->type;
    outgoing->key = options->key;
    outgoing->headers = message->headers;
    outgoing->header_count = message->header_count;
    outgoing->expiration = options->expiration != 0 ? options->expiration : defaults->expiration;
    outgoing->timestamp = options->timestamp;
    if (__builtin_expect(posting_has_marks(g, options), 0))
        posting_mark(g, options, outgoing);
    else
        posting_mark_nothing(outgoing);
    bool goes_somewhere = message->to.len > 0 || (defaults->exchange != NULL && defaults->exchange[0] != '\0');
    return __builtin_expect(goes_somewhere, 1) ? CONEY_OK : posting_refuse_nowhere(g);
}

/* Says that something is wrong with the message, and returns `status`. */
coney_status posting_refuse(struct posting *g, coney_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Leaves the publisher, counts, and returns `status`. */
static inline coney_status posting_end(struct posting *g, coney_status status)
{
    coney_publisher *p = g->publisher;
    struct scratch *scratch = g->scratch;
    if (scratch != NULL && scratch->is_used)
        posting_clean(scratch);
    lock_acquire(&p->lock);
    if (scratch != NULL) {
        scratch->next = p->spare;
        p->spare = scratch;
    }
    counter_add(&p->stats.published, g->accepted);
    if (__builtin_expect(status != CONEY_OK, 0))
        counter_add(&p->stats.refused, 1);
    p->users--;
    if (__builtin_expect(p->outlet == NULL, 0))
        posting_left(p);
    lock_release(&p->lock);
    return status;
}

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

/* transaction.c: aborts all that are open on a publisher that is closed: nobody enters it any more. */
void transaction_abort_all(coney_publisher *p);

#endif
