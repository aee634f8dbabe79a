/* outbox.h: what was accepted for sending and has no outcome yet: a log of encoded entries, and a slot for each.
 *
 * Senders append under `lock`; the loop takes frames' worth of entries for writing, settles slots as the broker answers, and gives the
 * memory back from the oldest on. The broker confirms entry by entry, so a cut finds frames half confirmed: the log holds entries, not
 * frames, and after outbox_rewind the entries that are still open are taken again, in order, without being encoded again.
 *
 * Numbers: a slot's number counts accepted messages from 0 up for ever. [head, tail) are the slots in hand; before `cursor` they were
 * taken for writing; before `left` they were once taken, on whatever connection ("may have left the process").
 *
 * Threads: the functions of the sender's side are called with `lock` held, by any thread; those of the loop's side on the loop, without it
 * (they take it where they must: once a frame, once an advance, never once a message). Settling takes no lock.
 * Memory: blocks of the pool, for segments of the log and for pages of slots; nothing is allocated once the pool is warm. An idle outbox
 * holds one page and one small segment at most.
 */
#ifndef CONEY_CORE_OUTBOX_H
#define CONEY_CORE_OUTBOX_H

#include "base/lock.h"
#include "base/pool.h"

#include <coney/coney.h>
#include <sys/uio.h>

#define OUTBOX_PAGE_SLOTS 128 /* 24 bytes each: a page is one block of the pool's smallest class */

enum slot_state {
    SLOT_OPEN = 1,
    SLOT_SETTLED = 2,
};

struct slot {
    uint64_t tag;
    uint8_t *entry; /* the encoded entry in the log; valid until the slot leaves at the head */
    uint32_t size;  /* its bytes */
    uint8_t state;  /* enum slot_state; the loop's once the slot is in hand */
    uint8_t flags;  /* the sender's own marks */
};

struct outbox {
    struct lock lock;
    struct cond room;         /* senders that wait at a bound */
    _Atomic uint32_t waiting; /* how many they are */

    /* The sender's side, under the lock. */
    bool scheduled;            /* the loop knows that there is something to take */
    uint8_t *at;               /* where the next entry goes */
    uint8_t *end;              /* of its segment; or `at` itself, to send the next append through outbox_extend */
    struct slot *page_at;      /* the slot for `tail`; NULL: its page must be had first, and then `end` is `at` */
    _Atomic uint64_t tail;     /* number of the next slot */
    _Atomic uint64_t appended; /* bytes appended in all */
    uint64_t tail_most; /* up to here there is room, whatever the loop has done since the senders last looked at `head` */
    uint64_t appended_most;
    struct block *youngest; /* the segment that `at` is in; NULL: there is none */

    /* Constant while there are messages. They also keep what the senders write and what the loop writes out of each other's cache lines. */
    uint64_t max_messages; /* 0 for a while: nothing is accepted */
    uint64_t max_bytes;
    bool ids_given; /* publishing ids are the user's: found by search */
    struct pool *pool;
    struct block **pages; /* ring of pages, by slot number / OUTBOX_PAGE_SLOTS */
    uint64_t page_mask;

    /* The loop's side. */
    _Atomic uint64_t head;     /* the oldest slot that is open */
    _Atomic uint64_t released; /* bytes of settled slots that left at the head */
    uint64_t seen;             /* the tail as the loop last saw it */
    uint64_t cursor;           /* the next slot to take */
    uint64_t left;             /* slots before this were once taken */
    uint64_t careful;          /* before this slot, taking must look at each slot (settled ones are passed over) */
    struct block *oldest;      /* segment that is in use; they are chained by `next` up to `youngest` */
    struct block *writing;     /* the segments from this one to `taken` are being written; NULL = nothing is */
    struct block *taken;       /* the segment of the entry taken last; NULL = it was given back: look from `oldest` on */
};

/* `max_messages` and `max_bytes` are the bounds (at least 1; one message larger than max_bytes is accepted when the outbox is empty).
 * False: memory is out. */
bool outbox_init(struct outbox *o, struct pool *pool, uint64_t max_messages, uint64_t max_bytes);

/* Gives all memory back, whatever is in hand. Nobody may use the outbox any more. */
void outbox_free(struct outbox *o);

/* The sender's side (lock held) ----------------------------------------------------------------------------------- */

/* Messages in hand and their bytes. Without the lock, on any thread: a snapshot (the older end is read first, so it is never negative). */
static inline uint64_t outbox_pending(const struct outbox *o)
{
    uint64_t head = atomic_load_explicit(&o->head, memory_order_seq_cst);
    return atomic_load_explicit(&o->tail, memory_order_relaxed) - head;
}

static inline uint64_t outbox_pending_bytes(const struct outbox *o)
{
    uint64_t released = atomic_load_explicit(&o->released, memory_order_acquire);
    return atomic_load_explicit(&o->appended, memory_order_relaxed) - released;
}

/* The slow half of outbox_has_room: looks how far the head has come meanwhile. */
bool outbox_look_for_room(struct outbox *o, size_t size);

/* True when a message of `size` encoded bytes passes neither bound. */
static inline bool outbox_has_room(struct outbox *o, size_t size)
{
    uint64_t tail = atomic_load_explicit(&o->tail, memory_order_relaxed);
    uint64_t appended = atomic_load_explicit(&o->appended, memory_order_relaxed);
    return __builtin_expect(tail < o->tail_most && appended + size <= o->appended_most, 1) || outbox_look_for_room(o, size);
}

/* The slow half of outbox_append: gets the segment or page that is missing. False: memory is out, what is in hand has not changed. */
bool outbox_extend(struct outbox *o, size_t size);

/* True when a message of `size` encoded bytes passes neither bound and outbox_append has nothing to get for it. */
static inline bool outbox_is_ready(const struct outbox *o, size_t size)
{
    uint64_t tail = atomic_load_explicit(&o->tail, memory_order_relaxed);
    uint64_t appended = atomic_load_explicit(&o->appended, memory_order_relaxed);
    return tail < o->tail_most && appended + size <= o->appended_most && (size_t)(o->end - o->at) >= size;
}

/* Makes room for the encoded bytes (at least 1) of one message and its slot (tag, entry, size, SLOT_OPEN, flags). The caller writes the entry
 * at slot->entry and then calls outbox_commit, or drops the matter. NULL: memory is out. The caller has checked outbox_has_room. */
static inline struct slot *outbox_append(struct outbox *o, size_t size, uint64_t tag, uint8_t flags)
{
    if (__builtin_expect((size_t)(o->end - o->at) < size, 0) && !outbox_extend(o, size))
        return NULL;
    struct slot *slot = o->page_at;
    slot->tag = tag;
    slot->entry = o->at;
    slot->size = (uint32_t)size;
    slot->state = SLOT_OPEN;
    slot->flags = flags;
    return slot;
}

/* Puts the appended message in hand. Returns true when the loop must be told (it was told nothing since it last found the outbox empty):
 * release the lock, then tell it. */
static inline bool outbox_commit(struct outbox *o, size_t size)
{
    uint64_t tail = atomic_load_explicit(&o->tail, memory_order_relaxed) + 1;
    o->at += size;
    o->page_at++;
    if (__builtin_expect(tail % OUTBOX_PAGE_SLOTS == 0, 0)) {
        o->page_at = NULL;
        o->end = o->at;
    }
    atomic_store_explicit(&o->appended, atomic_load_explicit(&o->appended, memory_order_relaxed) + size, memory_order_relaxed);
    atomic_store_explicit(&o->tail, tail, memory_order_release);
    if (__builtin_expect(o->scheduled, 1))
        return false;
    o->scheduled = true;
    return true;
}

/* Waits for room for `size` bytes until `deadline`; the lock is released meanwhile. `open` is looked at first and after each wake:
 * CONEY_OK (there is room), CONEY_ETIMEDOUT, or what `*open` says once it is not CONEY_OK. */
coney_status outbox_wait(struct outbox *o, size_t size, int64_t deadline, const _Atomic int *open);

/* Makes everyone in outbox_wait look at `*open`, which was changed before. Any thread, lock not held. */
void outbox_wake(struct outbox *o);

/* The loop's side (lock not held) ---------------------------------------------------------------------------------- */

static inline struct slot *outbox_slot(const struct outbox *o, uint64_t number)
{
    struct slot *slots = (struct slot *)(void *)o->pages[(number / OUTBOX_PAGE_SLOTS) & o->page_mask]->data;
    return slots + number % OUTBOX_PAGE_SLOTS;
}

/* What outbox_take took: the slots [first, first + entries), all of them open, and their bytes. */
struct outbox_run {
    uint64_t first;
    uint32_t entries;
    size_t bytes;
};

/* Takes the next open entries for one frame: at most `max_bytes` of them (and at least one entry, which is the caller's promise to fit; so
 * `max_bytes` 1 takes one), as slices of memory, at most `cap` (at least 1). Returns the number of slices; 0 = nothing to take, and then, if nothing is
 * being written either, the next commit asks to tell the loop again. So after outbox_written take again, until it is 0. Settled slots are passed
 * over, and the run ends where one lies between. What was taken stays readable until outbox_written or outbox_rewind, even if it is settled
 * meanwhile. */
size_t outbox_take(struct outbox *o, size_t max_bytes, struct iovec *slices, size_t cap, struct outbox_run *run);

/* All that was taken is with the kernel: its memory may be given back. */
void outbox_written(struct outbox *o);

/* The connection is gone, nothing of this outbox is being written any more: what is in hand will be taken again, from the oldest open slot on.
 * Returns how many open slots had been taken on this connection: what is in hand since an earlier loss has been reported there. */
uint64_t outbox_rewind(struct outbox *o);

/* The number of the oldest open slot with this publishing id (the first eight bytes of its entry, network order) among those that were taken,
 * for ids that the user gave (they never go down); UINT64_MAX when there is none. O(log n). */
uint64_t outbox_find(const struct outbox *o, uint64_t id);

/* Settles an open slot that is in hand: returns it (valid until outbox_advance), or NULL when `number` is not in [head, tail) or is settled
 * already: the wire may repeat itself. The caller reports the outcome. */
static inline struct slot *outbox_settle(struct outbox *o, uint64_t number)
{
    uint64_t head = atomic_load_explicit(&o->head, memory_order_relaxed);
    if (__builtin_expect(number - head >= o->seen - head, 0)) {
        o->seen = atomic_load_explicit(&o->tail, memory_order_acquire);
        if (number - head >= o->seen - head)
            return NULL;
    }
    struct slot *slot = outbox_slot(o, number);
    if (slot->state != SLOT_OPEN)
        return NULL;
    slot->state = SLOT_SETTLED;
    if (__builtin_expect(number >= o->cursor, 0) && number >= o->careful)
        o->careful = number + 1;
    return slot;
}

/* Whether a number is in hand and was taken for writing on this connection: the wire can mean no other. */
static inline bool outbox_was_taken(const struct outbox *o, uint64_t number)
{
    uint64_t head = atomic_load_explicit(&o->head, memory_order_relaxed);
    return number - head < o->cursor - head;
}

/* The same for what the wire says: a number that was not taken for writing cannot be meant. `head` and `cursor` are the outbox's own, which a
 * loop over many numbers reads once. */
static inline struct slot *outbox_settle_taken(const struct outbox *o, uint64_t number, uint64_t head, uint64_t cursor)
{
    if (__builtin_expect(number - head >= cursor - head, 0))
        return NULL;
    struct slot *slot = outbox_slot(o, number);
    if (__builtin_expect(slot->state != SLOT_OPEN, 0))
        return NULL;
    slot->state = SLOT_SETTLED;
    return slot;
}

/* After any number of settles: moves the head past what is settled, gives memory back, wakes senders that wait. Call it once a frame or
 * read. A slot settled before it was taken is never taken (it never leaves the process). Returns how many slots left. Memory that is being
 * written stays, whatever left; so a stalled write holds what it writes and nothing that came after it. */
uint64_t outbox_advance(struct outbox *o);

#endif
