/* ticket.c: tags: bit 63 clear: the caller's own, or the place of a destination where nobody wants tags back. Set, and bit 0 clear: a delivery,
 * and in bits 48 to 54 a place. Both set: a record. */
#include "service/ticket.h"

#include "service/batch.h"

#include <stdlib.h>
#include <string.h>

enum { PLACE_SHIFT = 48, PLACE_MASK = 127, LONGEST_PLACE = 255 };

#define OURS (UINT64_C(1) << 63)
#define RECORD UINT64_C(1)
#define POINTER ((UINT64_C(1) << PLACE_SHIFT) - 1)

/* Places ---------------------------------------------------------------------------------------------------------- */

static bool is_text(const char *place, coney_bytes to)
{
    return strlen(place) == to.len && memcmp(place, to.data, to.len) == 0;
}

/* The first destination of a slot stays there; the caller has no lock. */
static bool remember(_Atomic(char *) *slot, coney_bytes to)
{
    char *copy = strndup(to.data, to.len);
    char *seen = NULL;
    if (copy == NULL)
        return false;
    if (atomic_compare_exchange_strong_explicit(slot, &seen, copy, memory_order_acq_rel, memory_order_acquire))
        return true;
    free(copy);
    return is_text(seen, to);
}

/* 1 to PUBLISHER_PLACES; 0: it is not remembered. */
static uint32_t place_of(coney_publisher *p, coney_bytes to)
{
    if (to.len == 0 || to.len > LONGEST_PLACE)
        return 0;
    const uint8_t *text = to.data;
    uint32_t hash = (uint32_t)to.len + 31u * text[to.len - 1] + 131u * text[to.len / 2] + 541u * text[0];
    uint32_t at = hash % PUBLISHER_PLACES;
    const char *place = atomic_load_explicit(&p->places[at], memory_order_acquire);
    bool is_known = place != NULL ? is_text(place, to) : remember(&p->places[at], to);
    return is_known ? at + 1 : 0;
}

static const char *place_text(coney_publisher *p, uint32_t place)
{
    if (place == 0 || place > PUBLISHER_PLACES)
        return "";
    const char *text = atomic_load_explicit(&p->places[place - 1], memory_order_acquire);
    return text != NULL ? text : "";
}

/* Records --------------------------------------------------------------------------------------------------------- */

static struct ticket *record_take(coney_publisher *p, size_t count)
{
    lock_acquire(&p->lock);
    struct ticket *record = p->tickets;
    if (record != NULL)
        p->tickets = record->next;
    lock_release(&p->lock);
    if (record == NULL || record->cap < count) {
        struct ticket *grown = realloc(record, sizeof *record + count * sizeof(coney_delivery *));
        if (grown == NULL) {
            free(record);
            return NULL;
        }
        record = grown;
        record->cap = count;
    }
    record->count = count;
    record->tag = 0;
    record->place = 0;
    return record;
}

static uint64_t record_ticket(const struct ticket *record)
{
    return OURS | RECORD | (uint64_t)(uintptr_t)record;
}

/* Tickets --------------------------------------------------------------------------------------------------------- */

bool ticket_of_delivery(coney_publisher *p, coney_delivery *delivery, coney_bytes to, uint64_t *ticket)
{
    uint32_t place = place_of(p, to);
    uint64_t pointer = (uint64_t)(uintptr_t)delivery;
    if (__builtin_expect((pointer & ~POINTER) == 0, 1)) {
        *ticket = OURS | (uint64_t)place << PLACE_SHIFT | pointer;
        return true;
    }
    struct ticket *record = record_take(p, 1);
    if (record == NULL)
        return false;
    record->deliveries[0] = delivery;
    record->place = place;
    *ticket = record_ticket(record);
    return true;
}

bool ticket_of_batch(coney_publisher *p, coney_batch *batch, coney_bytes to, uint64_t *ticket)
{
    size_t count = batch_count(batch);
    struct ticket *record = record_take(p, count);
    if (record == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        record->deliveries[i] = coney_batch_delivery(batch, i);
    record->place = place_of(p, to);
    *ticket = record_ticket(record);
    return true;
}

bool ticket_of_caller(coney_publisher *p, uint64_t tag, coney_bytes to, uint64_t *ticket)
{
    bool tag_is_wanted = p->options.on_outcome != NULL;
    if (!tag_is_wanted || (tag & OURS) == 0) {
        *ticket = tag_is_wanted ? tag : place_of(p, to);
        return true;
    }
    struct ticket *record = record_take(p, 0);
    if (record == NULL)
        return false;
    record->tag = tag;
    *ticket = record_ticket(record);
    return true;
}

void ticket_read(coney_publisher *p, uint64_t ticket, struct ticket_reading *reading)
{
    *reading = (struct ticket_reading){.tag = ticket, .to = ""};
    if ((ticket & OURS) == 0) {
        if (p->options.on_outcome == NULL)
            reading->to = place_text(p, (uint32_t)(ticket & PLACE_MASK));
        return;
    }
    if ((ticket & RECORD) == 0) {
        reading->one = (coney_delivery *)(uintptr_t)(ticket & POINTER);
        reading->deliveries = &reading->one;
        reading->count = 1;
        reading->to = place_text(p, (uint32_t)(ticket >> PLACE_SHIFT) & PLACE_MASK);
        return;
    }
    struct ticket *record = (struct ticket *)(uintptr_t)(ticket & ~(OURS | RECORD));
    reading->record = record;
    reading->deliveries = record->deliveries;
    reading->count = record->count;
    reading->tag = record->tag;
    reading->to = place_text(p, record->place);
}

void ticket_done(coney_publisher *p, struct ticket_reading *reading)
{
    if (reading->record == NULL)
        return;
    lock_acquire(&p->lock);
    reading->record->next = p->tickets;
    p->tickets = reading->record;
    lock_release(&p->lock);
}

void ticket_free_all(coney_publisher *p)
{
    for (struct ticket *record = p->tickets; record != NULL;) {
        struct ticket *next = record->next;
        free(record);
        record = next;
    }
    p->tickets = NULL;
    for (size_t i = 0; i < PUBLISHER_PLACES; i++)
        free(atomic_exchange_explicit(&p->places[i], NULL, memory_order_acq_rel));
}
