/* ticket.c: where messages went, for the log; and tickets that need a record. */
#include "service/ticket.h"

#include "base/text.h"
#include "service/batch.h"

#include <stdlib.h>

/* Places ---------------------------------------------------------------------------------------------------------- */

enum { LONGEST_PLACE = 255 };

/* The first destination of a slot stays there; the caller has no lock. NULL: memory is out, or another one was first. */
static const struct place *remember(coney_publisher *p, uint32_t at, coney_bytes to)
{
    struct place *made = malloc(sizeof *made + to.len);
    struct place *other = NULL;
    if (made == NULL)
        return NULL;
    made->number = at + 1;
    made->len = (uint32_t)to.len;
    memcpy(made->text, to.data, to.len);
    if (atomic_compare_exchange_strong_explicit(&p->places[at], &other, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    free(made);
    return place_is(other, to) ? other : NULL;
}

uint32_t ticket_place_other(coney_publisher *p, coney_bytes to)
{
    if (to.len == 0 || to.len > LONGEST_PLACE)
        return 0;
    const uint8_t *text = to.data;
    uint32_t at = (uint32_t)(to.len + 31u * text[to.len - 1] + 7u * text[to.len / 2]) % PUBLISHER_PLACES;
    const struct place *place = atomic_load_explicit(&p->places[at], memory_order_acquire);
    if (place == NULL)
        place = remember(p, at, to);
    if (place == NULL || !place_is(place, to))
        return 0;
    atomic_store_explicit(&p->last_place, place, memory_order_release);
    return place->number;
}

void ticket_place_text(const coney_publisher *p, uint32_t place, char *buf, size_t cap)
{
    const struct place *at = NULL;
    if (place > 0 && place <= PUBLISHER_PLACES)
        at = atomic_load_explicit(&p->places[place - 1], memory_order_acquire);
    text_from_wire(buf, cap, at != NULL ? coney_bytes_of(at->text, at->len) : coney_bytes_of(NULL, 0));
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

void ticket_keep_record(coney_publisher *p, struct ticket *record)
{
    lock_acquire(&p->lock);
    record->next = p->tickets;
    p->tickets = record;
    lock_release(&p->lock);
}

static uint64_t record_ticket(const struct ticket *record)
{
    return TICKET_OURS | TICKET_RECORD | (uint64_t)(uintptr_t)record;
}

bool ticket_record_delivery(coney_publisher *p, coney_delivery *delivery, uint32_t place, uint64_t *ticket)
{
    struct ticket *record = record_take(p, 1);
    if (record == NULL)
        return false;
    record->deliveries[0] = delivery;
    record->place = place;
    *ticket = record_ticket(record);
    return true;
}

bool ticket_record_batch(coney_publisher *p, coney_batch *batch, uint32_t place, uint64_t *ticket)
{
    size_t count = batch_count(batch);
    struct ticket *record = record_take(p, count);
    if (record == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        record->deliveries[i] = coney_batch_delivery(batch, i);
    record->place = place;
    *ticket = record_ticket(record);
    return true;
}

bool ticket_record_caller(coney_publisher *p, uint64_t tag, uint64_t *ticket)
{
    struct ticket *record = record_take(p, 0);
    if (record == NULL)
        return false;
    record->tag = tag;
    *ticket = record_ticket(record);
    return true;
}

void ticket_free_all(coney_publisher *p)
{
    for (struct ticket *record = p->tickets; record != NULL;) {
        struct ticket *next = record->next;
        free(record);
        record = next;
    }
    p->tickets = NULL;
    atomic_store_explicit(&p->last_place, NULL, memory_order_relaxed);
    for (size_t i = 0; i < PUBLISHER_PLACES; i++)
        free(atomic_exchange_explicit(&p->places[i], NULL, memory_order_acq_rel));
}
