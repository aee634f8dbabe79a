/* ticket.h: the tag under which a publisher hands a message to its transport: whose outcome it is, and for the log where the message went.
 *
 * The caller's own tag passes straight through; a delivery and the place of its destination are packed into the tag. What does not fit (all elements of
 * a batch, a caller's tag that looks like one of ours) stands in a record, which the publisher uses again. Any thread.
 */
#ifndef CONEY_SERVICE_TICKET_H
#define CONEY_SERVICE_TICKET_H

#include "service/publisher.h"

struct ticket {
    struct ticket *next; /* in the publisher's spare ones */
    size_t count;
    size_t cap;
    uint32_t place;
    uint64_t tag;
    coney_delivery *deliveries[];
};

/* What a tag says. `deliveries` may point into the reading itself. */
struct ticket_reading {
    coney_delivery *const *deliveries; /* whose outcome it is; none: the caller's, with `tag` */
    size_t count;
    uint64_t tag;
    const char *to; /* "" where it was not remembered */
    coney_delivery *one;
    struct ticket *record;
};

/* False: memory is out. `to` is remembered for the log unless it is empty. */
bool ticket_of_delivery(coney_publisher *p, coney_delivery *delivery, coney_bytes to, uint64_t *ticket);
bool ticket_of_batch(coney_publisher *p, coney_batch *batch, coney_bytes to, uint64_t *ticket);
bool ticket_of_caller(coney_publisher *p, uint64_t tag, coney_bytes to, uint64_t *ticket);

/* What was read is valid until ticket_done, which every ticket needs once. */
void ticket_read(coney_publisher *p, uint64_t ticket, struct ticket_reading *reading);
void ticket_done(coney_publisher *p, struct ticket_reading *reading);

/* Frees records and places; none is out. */
void ticket_free_all(coney_publisher *p);

#endif
