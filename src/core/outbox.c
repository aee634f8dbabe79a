/* outbox.c: the log of entries, the pages of slots, and their way from the senders to the loop and back.
 *
 * Who sees what, and when. A sender writes pages, segments, slots and entries before it stores `tail` (release), and the loop looks at nothing
 * at or behind the tail that it last loaded (acquire) into `seen`. The loop is done with a page before it stores `head`, and a sender uses a
 * place of the ring of pages again only when the head that it loaded has passed the page that was there: that is what outbox_has_room says.
 * Segments go through the pool's lock. The one that the senders are writing to is touched by the loop under the lock only.
 */
#include "core/outbox.h"

#include "base/bytes.h"

#include <assert.h>
#include <stdlib.h>

/* Bytes of the block of the largest segment; an entry that does not fit has a larger one for itself. */
#define SEGMENT_MOST (256u << 10)
#define MESSAGES_MOST (UINT64_C(1) << 40)

/* The bytes of a segment stand behind this head, inside a pool block; `block->next` leads to the next younger segment. */
struct segment {
    uint64_t first; /* number of the first slot whose entry is in it; not kept for the oldest one, where nobody asks */
    uint8_t bytes[];
};

/* What outbox_take has gathered. */
struct gathered {
    struct iovec *slices;
    size_t cap;
    size_t count;
    size_t bytes;
    size_t max_bytes;
    uint64_t entries;
};

static_assert(OUTBOX_PAGE_SLOTS * sizeof(struct slot) <= POOL_SMALLEST - sizeof(struct block), "a page is one smallest block");

static struct segment *segment_in(struct block *block)
{
    return (struct segment *)(void *)block->data;
}

static uint8_t *segment_end(struct block *block)
{
    return block->data + block->cap;
}

static bool segment_holds(const struct block *block, const uint8_t *entry)
{
    return entry >= block->data && entry < block->data + block->cap;
}

static bool segment_is_smallest(const struct block *block)
{
    return block->cap <= POOL_SMALLEST - sizeof *block;
}

/* The sender's side ------------------------------------------------------------------------------------------------ */

static bool add_page(struct outbox *o)
{
    uint64_t tail = atomic_load_explicit(&o->tail, memory_order_relaxed);
    struct block *page = block_get(o->pool, OUTBOX_PAGE_SLOTS * sizeof(struct slot));
    if (page == NULL)
        return false;
    o->pages[(tail / OUTBOX_PAGE_SLOTS) & o->page_mask] = page;
    o->page_at = outbox_slot(o, tail);
    return true;
}

/* Twice as large as the one before: while it stays busy an outbox soon hands out long slices, and a quiet one stays small. */
static bool add_segment(struct outbox *o, size_t size)
{
    size_t total = o->youngest == NULL ? POOL_SMALLEST : 2 * (o->youngest->cap + sizeof(struct block));
    size_t usable = (total < SEGMENT_MOST ? total : SEGMENT_MOST) - sizeof(struct block);
    size_t needed = sizeof(struct segment) + size;
    struct block *block = block_get(o->pool, needed > usable ? needed : usable);
    if (block == NULL)
        return false;
    segment_in(block)->first = atomic_load_explicit(&o->tail, memory_order_relaxed);
    if (o->youngest == NULL)
        o->oldest = block; /* the loop has none either, and looks again when it sees the tail move */
    else
        o->youngest->next = block;
    o->youngest = block;
    o->at = segment_in(block)->bytes;
    o->end = segment_end(block);
    return true;
}

/* Sums that cannot overflow: `max_bytes` may be UINT64_MAX. */
bool outbox_look_for_room(struct outbox *o, size_t size)
{
    uint64_t pending = outbox_pending(o); /* first: what left before this head is in `released` */
    uint64_t bytes = outbox_pending_bytes(o);
    uint64_t appended = atomic_load_explicit(&o->appended, memory_order_relaxed);
    uint64_t left = bytes < o->max_bytes ? o->max_bytes - bytes : 0;
    o->tail_most = atomic_load_explicit(&o->tail, memory_order_relaxed) - pending + o->max_messages;
    o->appended_most = left < UINT64_MAX - appended ? appended + left : UINT64_MAX;
    return pending < o->max_messages && (pending == 0 || size <= left);
}

bool outbox_extend(struct outbox *o, size_t size)
{
    if (o->page_at == NULL && !add_page(o))
        return false;
    if (o->youngest != NULL)
        o->end = segment_end(o->youngest);
    return (size_t)(o->end - o->at) >= size || add_segment(o, size);
}

/* A waiter counts itself and then looks at `head`; outbox_advance stores `head` and then looks at the count: both in the one order of all
 * sequentially consistent operations, so at least one of them sees what the other did. A waiter that was seen holds the lock from its look at
 * `head` until it is registered with the condition; outbox_wake passes through the lock and so comes after that. */
coney_status outbox_wait(struct outbox *o, size_t size, int64_t deadline, const _Atomic int *open)
{
    coney_status status;
    bool in_time = true;
    atomic_fetch_add(&o->waiting, 1);
    for (;;) {
        status = (coney_status)atomic_load_explicit(open, memory_order_acquire);
        if (status != CONEY_OK || outbox_has_room(o, size))
            break;
        status = CONEY_ETIMEDOUT;
        if (!in_time)
            break;
        in_time = cond_wait(&o->room, &o->lock, deadline);
    }
    atomic_fetch_sub(&o->waiting, 1);
    return status;
}

void outbox_wake(struct outbox *o)
{
    lock_acquire(&o->lock);
    bool wake = cond_turn(&o->room);
    lock_release(&o->lock);
    if (wake)
        cond_wake_turned(&o->room);
}

/* The loop's side: taking -------------------------------------------------------------------------------------------- */

/* The segment that holds an entry at or behind the one taken last. */
static struct block *find_segment(const struct outbox *o, const uint8_t *entry)
{
    struct block *block = o->taken != NULL ? o->taken : o->oldest;
    while (!segment_holds(block, entry))
        block = block->next;
    return block;
}

/* Adds the next bytes, to the last slice where they touch it. False: it takes a slice more than there are. */
static bool gather(struct outbox *o, struct gathered *g, uint8_t *entry, size_t size)
{
    struct iovec *last = g->count > 0 ? &g->slices[g->count - 1] : NULL;
    if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == entry) {
        last->iov_len += size;
    } else {
        if (g->count == g->cap)
            return false;
        g->slices[g->count++] = (struct iovec){.iov_base = entry, .iov_len = size};
        o->taken = find_segment(o, entry);
        if (o->writing == NULL)
            o->writing = o->taken;
    }
    g->bytes += size;
    return true;
}

/* False: the frame is full, or a slot lies in between. */
static bool take_one(struct outbox *o, struct gathered *g)
{
    struct slot *slot = outbox_slot(o, o->cursor);
    bool open = slot->state == SLOT_OPEN;
    if (g->count > 0 && (!open || g->bytes + slot->size > g->max_bytes))
        return false;
    if (open && !gather(o, g, slot->entry, slot->size))
        return false;
    g->entries += open;
    o->cursor++;
    return true;
}

/* Bytes from `base` to the end of the entry of slot `last`, which is in the same segment. */
static size_t stretch(const struct outbox *o, const uint8_t *base, uint64_t last)
{
    const struct slot *slot = outbox_slot(o, last);
    return (size_t)(slot->entry - base) + slot->size;
}

/* The first slot in [cursor, end) whose entry ends beyond `room` bytes from `base`. */
static uint64_t cut(const struct outbox *o, const uint8_t *base, uint64_t end, size_t room)
{
    uint64_t low = o->cursor;
    while (low < end) {
        uint64_t middle = low + (end - low) / 2;
        if (stretch(o, base, middle) <= room)
            low = middle + 1;
        else
            end = middle;
    }
    return low;
}

/* Takes what is left of a segment without a look at its slots. False: the frame is full. */
static bool take_stretch(struct outbox *o, struct gathered *g)
{
    uint8_t *base = outbox_slot(o, o->cursor)->entry;
    struct block *block = find_segment(o, base);
    bool ends_here = segment_holds(block, outbox_slot(o, o->seen - 1)->entry);
    uint64_t end = ends_here ? o->seen : segment_in(block->next)->first;
    if (g->bytes + stretch(o, base, end - 1) > g->max_bytes) {
        end = cut(o, base, end, g->max_bytes > g->bytes ? g->max_bytes - g->bytes : 0);
        if (end == o->cursor && g->count > 0)
            return false;
        if (end == o->cursor)
            end++; /* the caller's promise is that one entry fits */
    }
    if (!gather(o, g, base, stretch(o, base, end - 1)))
        return false;
    g->entries += end - o->cursor;
    o->cursor = end;
    return true;
}

static void take_while_it_fits(struct outbox *o, struct gathered *g)
{
    bool fits = true;
    while (fits && o->cursor < o->seen)
        fits = o->cursor < o->careful ? take_one(o, g) : take_stretch(o, g);
}

/* The loop has found nothing to take. While something is being written it stays told, since it will be back when that is written: a busy
 * sender makes no wake-up. Otherwise the last look and `scheduled = false` are one step for the senders, who commit under the same lock: what
 * was committed before is seen here, what is committed after finds `scheduled` false and tells. */
static bool more_came(struct outbox *o)
{
    if (o->writing != NULL)
        return false;
    lock_acquire(&o->lock);
    o->seen = atomic_load_explicit(&o->tail, memory_order_relaxed);
    o->scheduled = o->cursor < o->seen;
    bool more = o->scheduled;
    lock_release(&o->lock);
    return more;
}

size_t outbox_take(struct outbox *o, size_t max_bytes, struct iovec *slices, size_t cap, struct outbox_run *run)
{
    struct gathered g = {.slices = slices, .cap = cap, .max_bytes = max_bytes};
    o->seen = atomic_load_explicit(&o->tail, memory_order_acquire);
    do {
        take_while_it_fits(o, &g);
    } while (g.count == 0 && more_came(o));
    if (o->left < o->cursor)
        o->left = o->cursor;
    *run = (struct outbox_run){.first = o->cursor - g.entries, .entries = (uint32_t)g.entries, .bytes = g.bytes};
    return g.count;
}

/* The loop's side: giving back --------------------------------------------------------------------------------------- */

/* Gives back the segments from *link on, up to `keep` or `keep_too`. */
static void drop_segments(struct outbox *o, struct block **link, const struct block *keep, const struct block *keep_too)
{
    while (*link != keep && *link != keep_too) {
        struct block *block = *link;
        *link = block->next;
        if (block == o->taken)
            o->taken = NULL;
        block_unref(block);
    }
}

/* Gives back what is older than `keep`, the segment of the oldest slot in hand, and is not being written: that is before the segments that are
 * being written and, when the head has passed them, behind them. */
static void drop_older_than(struct outbox *o, struct block *keep)
{
    drop_segments(o, &o->oldest, keep, o->writing);
    bool passed = atomic_load_explicit(&o->head, memory_order_relaxed) == o->cursor;
    if (o->writing != NULL && passed && o->taken != keep)
        drop_segments(o, &o->taken->next, keep, keep);
}

/* Under the lock, with nothing in hand: the senders' segment is all that may be left. A small one is used again from its start. */
static void drop_all(struct outbox *o)
{
    drop_older_than(o, o->youngest);
    if (o->writing != NULL || o->youngest == NULL)
        return;
    if (segment_is_smallest(o->youngest)) {
        o->at = segment_in(o->youngest)->bytes;
    } else {
        block_unref(o->youngest);
        o->oldest = o->youngest = o->taken = NULL;
        o->at = NULL;
    }
    o->end = o->at;
}

static bool give_back_if_empty(struct outbox *o, uint64_t head)
{
    lock_acquire(&o->lock);
    o->seen = atomic_load_explicit(&o->tail, memory_order_relaxed);
    bool empty = head == o->seen;
    if (empty)
        drop_all(o);
    lock_release(&o->lock);
    return empty;
}

static void give_back(struct outbox *o)
{
    uint64_t head = atomic_load_explicit(&o->head, memory_order_relaxed);
    if (head == o->seen && give_back_if_empty(o, head))
        return;
    const uint8_t *entry = outbox_slot(o, head)->entry;
    struct block *keep = o->oldest;
    while (!segment_holds(keep, entry))
        keep = keep->next;
    drop_older_than(o, keep);
}

void outbox_written(struct outbox *o)
{
    if (o->writing == NULL)
        return;
    o->writing = NULL;
    give_back(o);
}

uint64_t outbox_rewind(struct outbox *o)
{
    uint64_t open = 0;
    uint64_t head = atomic_load_explicit(&o->head, memory_order_relaxed);
    for (uint64_t number = head; number < o->cursor; number++)
        open += outbox_slot(o, number)->state == SLOT_OPEN;
    if (o->careful < o->left)
        o->careful = o->left;
    o->cursor = head;
    o->taken = NULL;
    outbox_written(o);
    return open;
}

uint64_t outbox_find(const struct outbox *o, uint64_t id)
{
    uint64_t low = atomic_load_explicit(&o->head, memory_order_relaxed);
    uint64_t high = o->cursor;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (load64(outbox_slot(o, middle)->entry) < id)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < o->cursor; low++) {
        const struct slot *slot = outbox_slot(o, low);
        if (load64(slot->entry) != id)
            break;
        if (slot->state == SLOT_OPEN)
            return low;
    }
    return UINT64_MAX;
}

/* Passes over the settled slots from `number` on, gives back the pages that end among them, and adds their sizes to *bytes. */
static uint64_t leave(struct outbox *o, uint64_t number, uint64_t *bytes)
{
    while (number < o->seen) {
        const struct slot *slot = outbox_slot(o, number);
        uint64_t page_end = (number | (OUTBOX_PAGE_SLOTS - 1)) + 1;
        uint64_t end = page_end < o->seen ? page_end : o->seen;
        for (; number < end && slot->state == SLOT_SETTLED; slot++, number++)
            *bytes += slot->size;
        if (number < page_end)
            break;
        struct block **page = &o->pages[((number - 1) / OUTBOX_PAGE_SLOTS) & o->page_mask];
        block_unref(*page);
        *page = NULL;
    }
    return number;
}

uint64_t outbox_advance(struct outbox *o)
{
    uint64_t bytes = 0;
    uint64_t from = atomic_load_explicit(&o->head, memory_order_relaxed);
    o->seen = atomic_load_explicit(&o->tail, memory_order_acquire);
    uint64_t head = leave(o, from, &bytes);
    if (head == from)
        return 0;
    uint64_t released = atomic_load_explicit(&o->released, memory_order_relaxed) + bytes;
    atomic_store_explicit(&o->released, released, memory_order_release);
    atomic_store(&o->head, head);
    if (o->cursor < head)
        o->cursor = head;
    give_back(o);
    if (atomic_load(&o->waiting) > 0)
        outbox_wake(o);
    return head - from;
}

/* Both sides ---------------------------------------------------------------------------------------------------------- */

bool outbox_init(struct outbox *o, struct pool *pool, uint64_t max_messages, uint64_t max_bytes)
{
    *o = (struct outbox){.pool = pool, .max_messages = max_messages, .max_bytes = max_bytes};
    if (max_messages > MESSAGES_MOST)
        return false;
    /* Slots in hand lie on one page more than they fill. */
    uint64_t pages = 1;
    while (pages * OUTBOX_PAGE_SLOTS < max_messages + OUTBOX_PAGE_SLOTS)
        pages *= 2;
    o->page_mask = pages - 1;
    o->pages = calloc(pages, sizeof(struct block *));
    return o->pages != NULL;
}

void outbox_free(struct outbox *o)
{
    o->taken = NULL;
    drop_segments(o, &o->oldest, NULL, NULL);
    for (uint64_t i = 0; o->pages != NULL && i <= o->page_mask; i++)
        block_unref(o->pages[i]);
    free(o->pages);
    o->pages = NULL;
}
