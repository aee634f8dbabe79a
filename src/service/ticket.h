/* ticket.h: the tag under which a publisher hands a message to its transport: whose outcome it is, and for the log where the message went.
 *
 * The caller's own tag passes straight through; a delivery and the place of its destination are packed into the tag. What does not fit (all elements of
 * a batch, a caller's tag that looks like one of ours) stands in a record, which the publisher uses again. Any thread.
 */
#ifndef CONEY_SERVICE_TICKET_H
#define CONEY_SERVICE_TICKET_H

#include "base/bytes.h"
#include "service/publisher.h"

struct ticket {
    struct ticket *next; /* in the publisher's spare ones */
    size_t count;
    size_t cap;
    uint32_t place;
    uint64_t tag;
    coney_delivery *deliveries[];
};

/* Bit 63 clear: the caller's own tag, or the place of a destination where nobody wants tags back. Set, and bit 0 clear: a delivery, and in bits 48 to 54
 * a place. Both set: a record. */
#define TICKET_OURS (UINT64_C(1) << 63)
#define TICKET_RECORD UINT64_C(1)
#define TICKET_PLACE_SHIFT 48
#define TICKET_PLACE_MASK UINT64_C(127)
#define TICKET_POINTER ((UINT64_C(1) << TICKET_PLACE_SHIFT) - 1)

/* A destination that is remembered. */
struct place {
    uint32_t number;
    uint32_t len;
    char text[];
};

static inline bool place_is(const struct place *place, coney_bytes to)
{
    return bytes_equal_short(coney_bytes_of(place->text, place->len), to);
}

/* The half of ticket_place for another destination than the last one. */
uint32_t ticket_place_other(coney_publisher *p, coney_bytes to);

/* The place at which a destination is remembered: 1 to PUBLISHER_PLACES, or 0: it is not. Nothing is remembered for an empty one. */
static inline uint32_t ticket_place(coney_publisher *p, coney_bytes to)
{
    const struct place *last = atomic_load_explicit(&p->last_place, memory_order_acquire);
    return __builtin_expect(last != NULL && place_is(last, to), 1) ? last->number : ticket_place_other(p, to);
}

/* The same the other way round, with what the wire must not write into a log taken out. */
void ticket_place_text(const coney_publisher *p, uint32_t place, char *buf, size_t cap);

/* What does not fit. False: memory is out. */
bool ticket_record_delivery(coney_publisher *p, coney_delivery *delivery, uint32_t place, uint64_t *ticket);
bool ticket_record_batch(coney_publisher *p, coney_batch *batch, uint32_t place, uint64_t *ticket);
bool ticket_record_caller(coney_publisher *p, uint64_t tag, uint64_t *ticket);

/* False: memory is out. */
static inline bool ticket_of_delivery(coney_publisher *p, coney_delivery *delivery, uint32_t place, uint64_t *ticket)
{
    uint64_t pointer = (uint64_t)(uintptr_t)delivery;
    if (__builtin_expect((pointer & ~TICKET_POINTER) != 0, 0))
        return ticket_record_delivery(p, delivery, place, ticket);
    *ticket = TICKET_OURS | (uint64_t)place << TICKET_PLACE_SHIFT | pointer;
    return true;
}

static inline bool ticket_of_caller(coney_publisher *p, uint64_t tag, uint32_t place, uint64_t *ticket)
{
    *ticket = place;
    if (__builtin_expect(p->options.on_outcome == NULL, 1))
        return true;
    *ticket = tag;
    return (tag & TICKET_OURS) == 0 || ticket_record_caller(p, tag, ticket);
}

/* Nobody is told when the message is confirmed. */
static inline bool ticket_is_nobodys(const coney_publisher *p, uint64_t ticket)
{
    return (ticket & TICKET_OURS) == 0 && p->options.on_outcome == NULL;
}

/* The delivery alone that waits for it, or NULL. */
static inline coney_delivery *ticket_delivery(uint64_t ticket)
{
    bool is_one = (ticket & (TICKET_OURS | TICKET_RECORD)) == TICKET_OURS;
    return is_one ? (coney_delivery *)(uintptr_t)(ticket & TICKET_POINTER) : NULL;
}

/* What a tag says. */
struct ticket_reading {
    coney_delivery *one;
    struct ticket *record; /* instead: as many as it has */
    uint64_t tag;          /* neither: the caller's */
    uint32_t place;
};

/* What was read is valid until ticket_done, which every ticket needs once. */
static inline struct ticket_reading ticket_read(const coney_publisher *p, uint64_t ticket)
{
    if ((ticket & TICKET_OURS) == 0)
        return (struct ticket_reading){.tag = ticket,
                                       .place = p->options.on_outcome == NULL ? (uint32_t)(ticket & TICKET_PLACE_MASK) : 0};
    if ((ticket & TICKET_RECORD) == 0)
        return (struct ticket_reading){.one = (coney_delivery *)(uintptr_t)(ticket & TICKET_POINTER),
                                       .place = (uint32_t)(ticket >> TICKET_PLACE_SHIFT & TICKET_PLACE_MASK)};
    struct ticket *record = (struct ticket *)(uintptr_t)(ticket & ~(TICKET_OURS | TICKET_RECORD));
    return (struct ticket_reading){.record = record, .tag = record->tag, .place = record->place};
}

/* The record is used again. */
void ticket_keep_record(coney_publisher *p, struct ticket *record);

static inline void ticket_done(coney_publisher *p, const struct ticket_reading *reading)
{
    if (__builtin_expect(reading->record != NULL, 0))
        ticket_keep_record(p, reading->record);
}

/* Frees records and places; none is out. */
void ticket_free_all(coney_publisher *p);

#endif
