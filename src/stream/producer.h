/* producer.h: the inside of coney_stream_producer: core's sender with the stream protocol's numbers behind it.
 *
 * Senders append to the outbox under its lock; everything else is on the loop. A message's publishing id is its slot's number plus `id_base`,
 * unless the user gives ids.
 */
#ifndef CONEY_STREAM_PRODUCER_H
#define CONEY_STREAM_PRODUCER_H

#include "core/sender.h"
#include "stream/conn.h"

struct coney_stream_producer {
    struct sender sender;

    /* Under the outbox's lock. */
    size_t body_limit; /* a shorter plain body goes straight in; 0 while sends need a closer look (producer_set_limits) */
    _Atomic uint64_t id_base;
    _Atomic uint64_t last_id; /* given by the user */
    enum ids {
        IDS_UNDECIDED,
        IDS_OURS,
        IDS_GIVEN,
    } ids;

    char *name;
    uint8_t header[PUBLISH_HEADER_BYTES]; /* of the frame that is being written */
};

static inline struct coney_stream_producer *producer_of(struct sender *sender)
{
    return container_of(sender, struct coney_stream_producer, sender);
}

static inline const struct coney_stream_producer *producer_of_const(const struct sender *sender)
{
    return container_of(sender, const struct coney_stream_producer, sender);
}

/* outcome.c, from the connection. */
void producer_confirmed(struct member *member, struct stream_list ids);
void producer_refused(struct member *member, struct stream_list errors);

/* send.c, for sender_kind; with the outbox's lock held: how long a body may be that goes straight in, after `open`, `ids` or the limit changed. */
void producer_set_limits(struct sender *sender);

/* send.c, for sender_kind: appends a body for a call that waits. */
coney_status producer_append(struct sender_visit *visit, coney_bytes body, uint64_t tag, uint8_t flags);

/* outcome.c, for sender_kind. */
void producer_describe(const struct sender *sender, uint64_t number, const struct slot *slot, coney_outcome *outcome);
coney_bytes producer_body(const struct sender *sender, const struct slot *slot);
void producer_explain(const struct sender *sender, const coney_outcome *outcome, char *text, size_t cap);
void producer_explain_size(const struct sender *sender, coney_bytes body, char *text, size_t cap);

#endif
