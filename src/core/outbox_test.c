/* outbox_test.c: each promise of outbox.h by name, and a random walk beside a naive model. The threads are in outbox_stress_test.c. */
#include "core/outbox.h"

#include "base/bytes.h"
#include "base/time.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>

#define SLICES 64
#define PUBLISH_ENTRY 12 /* bytes before the body */

struct box {
    struct pool *pool;
    struct outbox o;
};

/* Idle blocks are kept nowhere: a use of what was given back is one of freed memory. */
static struct box *box_new(uint64_t max_messages, uint64_t max_bytes)
{
    struct box *box = calloc(1, sizeof *box);
    assert_non_null(box);
    box->pool = pool_new(0);
    assert_non_null(box->pool);
    assert_true(outbox_init(&box->o, box->pool, max_messages, max_bytes));
    return box;
}

static void box_free(struct box *box)
{
    outbox_free(&box->o);
    assert_int_equal(pool_out(box->pool), 0);
    pool_free(box->pool);
    free(box);
}

/* What stands at byte `i` of the entry with this id. */
static uint8_t pattern(uint64_t id, size_t i)
{
    return (uint8_t)(id * 31 + i * 7 + (i >> 8));
}

static void entry_fill(uint8_t *entry, uint64_t id, size_t size)
{
    store64(entry, id);
    for (size_t i = 8; i < size; i++)
        entry[i] = pattern(id, i);
}

static bool entry_is(const uint8_t *entry, uint64_t id, size_t size)
{
    if (load64(entry) != id)
        return false;
    for (size_t i = 8; i < size; i++)
        if (entry[i] != pattern(id, i))
            return false;
    return true;
}

/* Sends one entry; returns whether the loop must be told. */
static bool put(struct outbox *o, uint64_t id, size_t size)
{
    lock_acquire(&o->lock);
    assert_true(outbox_has_room(o, size));
    struct slot *slot = outbox_append(o, size, id ^ 0xfeed, (uint8_t)id);
    assert_non_null(slot);
    entry_fill(slot->entry, id, size);
    bool tell = outbox_commit(o, size);
    lock_release(&o->lock);
    return tell;
}

static bool has_room(struct outbox *o, size_t size)
{
    lock_acquire(&o->lock);
    bool room = outbox_has_room(o, size);
    lock_release(&o->lock);
    return room;
}

struct frame {
    struct iovec slices[SLICES];
    size_t count;
    size_t bytes;
    uint64_t first;
    uint32_t entries;
};

static struct frame take(struct outbox *o, size_t max_bytes, size_t cap)
{
    struct frame f = {0};
    struct outbox_run run;
    f.count = outbox_take(o, max_bytes, f.slices, cap, &run);
    f.first = run.first;
    f.entries = run.entries;
    f.bytes = run.bytes;
    size_t bytes = 0;
    for (size_t i = 0; i < f.count; i++)
        bytes += f.slices[i].iov_len;
    assert_int_equal(bytes, f.bytes);
    return f;
}

static uint8_t *frame_copy(const struct frame *f)
{
    uint8_t *copy = malloc(f->bytes + 1);
    assert_non_null(copy);
    size_t at = 0;
    for (size_t i = 0; i < f->count; at += f->slices[i++].iov_len)
        memcpy(copy + at, f->slices[i].iov_base, f->slices[i].iov_len);
    return copy;
}

/* The frame holds the ids first, first + 1 …, each in `size` bytes. */
static void assert_frame(const struct frame *f, uint64_t first, uint32_t entries, size_t size)
{
    assert_int_equal(f->entries, entries);
    assert_int_equal(f->bytes, entries * size);
    uint8_t *bytes = frame_copy(f);
    for (uint32_t i = 0; i < entries; i++)
        assert_true(entry_is(bytes + i * size, first + i, size));
    free(bytes);
}

static void settle_range(struct outbox *o, uint64_t from, uint64_t to)
{
    for (uint64_t number = from; number < to; number++)
        assert_non_null(outbox_settle(o, number));
}

/* Taking ------------------------------------------------------------------------------------------------------------- */

static void a_message_is_taken_as_it_was_appended(void **state)
{
    (void)state;
    struct box *box = box_new(10, 1000);
    put(&box->o, 7, 20);
    struct frame f = take(&box->o, 1000, SLICES);
    assert_int_equal(f.count, 1);
    assert_frame(&f, 7, 1, 20);
    struct slot *slot = outbox_settle(&box->o, 0);
    assert_non_null(slot);
    assert_int_equal(slot->tag, 7 ^ 0xfeed);
    assert_int_equal(slot->flags, 7);
    assert_int_equal(slot->size, 20);
    assert_ptr_equal(slot->entry, f.slices[0].iov_base);
    box_free(box);
}

static void neighbours_in_a_segment_are_one_slice(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    for (uint64_t id = 0; id < 150; id++)
        put(&box->o, id, 20);
    struct frame f = take(&box->o, 1 << 20, SLICES);
    assert_int_equal(f.count, 1);
    assert_frame(&f, 0, 150, 20);
    box_free(box);
}

static void a_frame_ends_before_the_entry_that_does_not_fit(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    for (uint64_t id = 0; id < 100; id++)
        put(&box->o, id, 20);
    struct frame f = take(&box->o, 20 * 33 + 19, SLICES);
    assert_frame(&f, 0, 33, 20);
    f = take(&box->o, 20 * 33, SLICES);
    assert_frame(&f, 33, 33, 20);
    f = take(&box->o, 1 << 20, SLICES);
    assert_frame(&f, 66, 34, 20);
    box_free(box);
}

static void one_entry_is_taken_whatever_the_limit(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    put(&box->o, 0, 500);
    put(&box->o, 1, 500);
    struct frame f = take(&box->o, 10, SLICES);
    assert_frame(&f, 0, 1, 500);
    outbox_rewind(&box->o); /* the same where each slot is looked at */
    f = take(&box->o, 10, SLICES);
    assert_frame(&f, 0, 1, 500);
    box_free(box);
}

static void a_frame_ends_when_the_slices_are_used_up(void **state)
{
    (void)state;
    struct box *box = box_new(100, 1 << 20);
    for (uint64_t id = 0; id < 20; id++)
        put(&box->o, id, 5000);
    uint32_t taken = 0;
    int frames = 0;
    for (struct frame f = take(&box->o, 1 << 20, 1); f.count > 0; f = take(&box->o, 1 << 20, 1)) {
        assert_int_equal(f.count, 1);
        assert_frame(&f, taken, f.entries, 5000);
        taken += f.entries;
        frames++;
    }
    assert_int_equal(taken, 20);
    assert_true(frames > 1);
    box_free(box);
}

static void SB_49_a_frame_is_cut_by_bytes_and_filled_across_segments(void **state)
{
    (void)state;
    const size_t frame_max = 1048576 - 13;
    struct box *box = box_new(1000, 64 << 20);
    put(&box->o, 0, 921600 + PUBLISH_ENTRY);
    put(&box->o, 1, 460800 + PUBLISH_ENTRY);
    for (uint64_t id = 2; id < 102; id++)
        put(&box->o, id, 1000 + PUBLISH_ENTRY);
    struct frame first = take(&box->o, frame_max, SLICES);
    assert_frame(&first, 0, 1, 921600 + PUBLISH_ENTRY);
    struct frame second = take(&box->o, frame_max, SLICES);
    assert_int_equal(second.entries, 101);
    assert_int_equal(second.bytes, 460800 + 100 * 1000 + 101 * PUBLISH_ENTRY);
    assert_true(second.count > 1);
    uint8_t *bytes = frame_copy(&second);
    assert_true(entry_is(bytes, 1, 460800 + PUBLISH_ENTRY));
    for (uint64_t i = 0; i < 100; i++)
        assert_true(entry_is(bytes + 460800 + PUBLISH_ENTRY + i * 1012, 2 + i, 1012));
    free(bytes);
    box_free(box);
}

static void a_slot_settled_before_it_was_taken_never_leaves(void **state)
{
    (void)state;
    struct box *box = box_new(100, 1 << 20);
    for (uint64_t id = 0; id < 10; id++)
        put(&box->o, id, 20);
    settle_range(&box->o, 0, 2);
    settle_range(&box->o, 5, 7);
    assert_int_equal(outbox_advance(&box->o), 2);
    struct frame f = take(&box->o, 1000, SLICES);
    assert_frame(&f, 2, 3, 20);
    assert_int_equal(f.first, 2);
    f = take(&box->o, 1000, SLICES);
    assert_frame(&f, 7, 3, 20);
    assert_int_equal(f.first, 7);
    assert_int_equal(take(&box->o, 1000, SLICES).count, 0);
    box_free(box);
}

static void when_all_was_settled_before_it_was_taken_there_is_nothing_to_take(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    assert_true(put(&box->o, 0, 20));
    for (uint64_t id = 1; id < 300; id++)
        put(&box->o, id, 20);
    settle_range(&box->o, 1, 300);
    assert_non_null(outbox_settle(&box->o, 0));
    assert_int_equal(take(&box->o, 1000, SLICES).count, 0);
    assert_int_equal(outbox_advance(&box->o), 300);
    assert_true(put(&box->o, 300, 20));
    struct frame f = take(&box->o, 1000, SLICES);
    assert_frame(&f, 300, 1, 20);
    box_free(box);
}

/* Telling the loop --------------------------------------------------------------------------------------------------- */

static void the_loop_is_told_once_until_it_finds_nothing(void **state)
{
    (void)state;
    struct box *box = box_new(100, 1 << 20);
    assert_true(put(&box->o, 0, 20));
    assert_false(put(&box->o, 1, 20));
    assert_int_equal(take(&box->o, 1000, SLICES).entries, 2);
    outbox_written(&box->o);
    assert_false(put(&box->o, 2, 20));
    assert_int_equal(take(&box->o, 1000, SLICES).entries, 1);
    outbox_written(&box->o);
    assert_int_equal(take(&box->o, 1000, SLICES).count, 0);
    assert_true(put(&box->o, 3, 20));
    box_free(box);
}

static void while_something_is_written_nobody_is_told(void **state)
{
    (void)state;
    struct box *box = box_new(100, 1 << 20);
    put(&box->o, 0, 20);
    assert_int_equal(take(&box->o, 1000, SLICES).entries, 1);
    assert_int_equal(take(&box->o, 1000, SLICES).count, 0);
    assert_false(put(&box->o, 1, 20));
    outbox_written(&box->o);
    assert_int_equal(take(&box->o, 1000, SLICES).entries, 1);
    box_free(box);
}

/* Bounds ------------------------------------------------------------------------------------------------------------- */

static void SB_46_at_the_bound_senders_wait_and_ten_confirms_let_ten_pass(void **state)
{
    (void)state;
    const _Atomic int open = CONEY_OK;
    struct box *box = box_new(1000, 1 << 20);
    for (uint64_t id = 0; id < 1000; id++)
        put(&box->o, id, 20);
    assert_false(has_room(&box->o, 20));
    int64_t before = time_now();
    lock_acquire(&box->o.lock);
    assert_int_equal(outbox_wait(&box->o, 20, before + 50 * CONEY_MILLISECOND, &open), CONEY_ETIMEDOUT);
    lock_release(&box->o.lock);
    assert_true(time_now() - before >= 50 * CONEY_MILLISECOND);
    settle_range(&box->o, 0, 10);
    assert_int_equal(outbox_advance(&box->o), 10);
    for (uint64_t id = 1000; id < 1010; id++)
        put(&box->o, id, 20);
    assert_false(has_room(&box->o, 20));
    box_free(box);
}

static void the_bound_in_bytes_counts_encoded_bytes(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 100);
    put(&box->o, 0, 60);
    assert_true(has_room(&box->o, 40));
    assert_false(has_room(&box->o, 41));
    assert_non_null(outbox_settle(&box->o, 0));
    assert_false(has_room(&box->o, 41));
    outbox_advance(&box->o);
    assert_true(has_room(&box->o, 100));
    box_free(box);
}

static void one_message_above_the_bound_in_bytes_passes_when_nothing_is_in_hand(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 100);
    put(&box->o, 0, 5000);
    assert_false(has_room(&box->o, 8));
    struct frame f = take(&box->o, 10000, SLICES);
    assert_frame(&f, 0, 1, 5000);
    box_free(box);
}

struct waiter {
    struct outbox *o;
    _Atomic int open;
    atomic_bool waits;
    coney_status status;
    bool in_time; /* it did not end by its deadline */
};

static void *wait_for_room(void *arg)
{
    struct waiter *w = arg;
    lock_acquire(&w->o->lock);
    atomic_store(&w->waits, true);
    int64_t deadline = time_now() + 20 * CONEY_SECOND;
    w->status = outbox_wait(w->o, 20, deadline, &w->open);
    w->in_time = time_now() < deadline;
    lock_release(&w->o->lock);
    return NULL;
}

/* Under the lock a waiter is either not there yet or asleep. */
static pthread_t start_waiter(struct waiter *w)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_room, w), 0);
    while (!atomic_load(&w->waits))
        sched_yield();
    lock_acquire(&w->o->lock);
    lock_release(&w->o->lock);
    return thread;
}

static void a_waiting_sender_is_woken_by_room(void **state)
{
    (void)state;
    struct box *box = box_new(1, 1000);
    put(&box->o, 0, 20);
    struct waiter w = {.o = &box->o};
    pthread_t thread = start_waiter(&w);
    assert_non_null(outbox_settle(&box->o, 0));
    outbox_advance(&box->o);
    pthread_join(thread, NULL);
    assert_true(w.in_time);
    assert_int_equal(w.status, CONEY_OK);
    box_free(box);
}

static void a_waiting_sender_is_released_by_close(void **state)
{
    (void)state;
    struct box *box = box_new(1, 1000);
    put(&box->o, 0, 20);
    struct waiter w = {.o = &box->o};
    pthread_t thread = start_waiter(&w);
    atomic_store(&w.open, CONEY_ECLOSED);
    outbox_wake(&box->o);
    pthread_join(thread, NULL);
    assert_true(w.in_time);
    assert_int_equal(w.status, CONEY_ECLOSED);
    box_free(box);
}

/* Settling ----------------------------------------------------------------------------------------------------------- */

static void a_slot_is_settled_once_and_only_while_in_hand(void **state)
{
    (void)state;
    struct box *box = box_new(100, 1000);
    assert_null(outbox_settle(&box->o, 0));
    put(&box->o, 0, 20);
    put(&box->o, 1, 20);
    assert_null(outbox_settle(&box->o, 2));
    assert_null(outbox_settle(&box->o, UINT64_MAX));
    assert_non_null(outbox_settle(&box->o, 1));
    assert_null(outbox_settle(&box->o, 1));
    assert_non_null(outbox_settle(&box->o, 0));
    assert_int_equal(outbox_advance(&box->o), 2);
    assert_null(outbox_settle(&box->o, 0));
    assert_null(outbox_settle(&box->o, 1));
    box_free(box);
}

static void the_head_waits_for_the_oldest_open_slot(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    for (uint64_t id = 0; id < 400; id++)
        put(&box->o, id, 20);
    take(&box->o, 1 << 20, SLICES);
    settle_range(&box->o, 1, 400);
    assert_int_equal(outbox_advance(&box->o), 0);
    assert_true(entry_is(outbox_slot(&box->o, 399)->entry, 399, 20));
    assert_non_null(outbox_settle(&box->o, 0));
    assert_int_equal(outbox_advance(&box->o), 400);
    assert_int_equal(outbox_pending(&box->o), 0);
    assert_int_equal(outbox_pending_bytes(&box->o), 0);
    box_free(box);
}

static void ids_of_the_user_are_found_with_gaps_and_repeats(void **state)
{
    (void)state;
    const uint64_t ids[] = {3, 3, 3, 10, 11, 11, 500};
    struct outbox *o;
    struct box *box = box_new(100, 1000);
    o = &box->o;
    for (size_t i = 0; i < 7; i++)
        put(o, ids[i], 20);
    assert_int_equal(outbox_find(o, 3), UINT64_MAX); /* not taken yet */
    take(o, 120, SLICES);
    assert_int_equal(outbox_find(o, 3), 0);
    assert_int_equal(outbox_find(o, 10), 3);
    assert_int_equal(outbox_find(o, 11), 4);
    assert_int_equal(outbox_find(o, 500), UINT64_MAX);
    assert_int_equal(outbox_find(o, 2), UINT64_MAX);
    assert_int_equal(outbox_find(o, 4), UINT64_MAX);
    assert_non_null(outbox_settle(o, 0));
    assert_int_equal(outbox_find(o, 3), 1);
    settle_range(o, 1, 3);
    assert_int_equal(outbox_find(o, 3), UINT64_MAX);
    outbox_advance(o);
    assert_int_equal(outbox_find(o, 11), 4);
    box_free(box);
}

/* Cuts --------------------------------------------------------------------------------------------------------------- */

static void after_a_cut_what_is_open_is_taken_again_in_order_and_nothing_else(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    for (uint64_t id = 0; id < 300; id++)
        put(&box->o, id, 20);
    take(&box->o, 200 * 20, SLICES);
    settle_range(&box->o, 0, 10);
    settle_range(&box->o, 50, 60);
    outbox_advance(&box->o);
    assert_int_equal(box->o.left, 200);
    assert_int_equal(outbox_rewind(&box->o), 180);
    assert_int_equal(outbox_find(&box->o, 10), UINT64_MAX);
    struct frame f = take(&box->o, 100 * 20, SLICES);
    assert_frame(&f, 10, 40, 20);
    assert_int_equal(f.first, 10);
    f = take(&box->o, 60 * 20, SLICES);
    assert_frame(&f, 60, 60, 20);
    f = take(&box->o, 1 << 20, SLICES);
    assert_frame(&f, 120, 180, 20);
    assert_int_equal(box->o.left, 300);
    box_free(box);
}

static void a_cut_before_the_resend_is_over_loses_nothing(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    for (uint64_t id = 0; id < 100; id++)
        put(&box->o, id, 20);
    take(&box->o, 1 << 20, SLICES);
    assert_int_equal(outbox_rewind(&box->o), 100);
    take(&box->o, 10 * 20, SLICES);
    settle_range(&box->o, 0, 5);
    settle_range(&box->o, 90, 95); /* their deadline passed */
    assert_int_equal(outbox_rewind(&box->o), 5);
    assert_int_equal(outbox_rewind(&box->o), 0);
    struct frame f = take(&box->o, 85 * 20, SLICES);
    assert_int_equal(f.count, 1);
    assert_frame(&f, 5, 85, 20);
    f = take(&box->o, 1 << 20, SLICES);
    assert_frame(&f, 95, 5, 20);
    box_free(box);
}

/* Memory ------------------------------------------------------------------------------------------------------------- */

static void what_is_being_written_stays_readable_after_it_was_settled(void **state)
{
    (void)state;
    struct box *box = box_new(10000, 1 << 20);
    for (uint64_t id = 0; id < 1000; id++)
        put(&box->o, id, 100);
    struct frame f = take(&box->o, 1 << 20, SLICES);
    settle_range(&box->o, 0, 1000);
    outbox_advance(&box->o);
    for (uint64_t id = 1000; id < 1100; id++)
        put(&box->o, id, 100);
    assert_frame(&f, 0, 1000, 100);
    outbox_written(&box->o);
    f = take(&box->o, 1 << 20, SLICES);
    assert_frame(&f, 1000, 100, 100);
    box_free(box);
}

static void a_stalled_write_holds_what_it_writes_and_nothing_that_came_after(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    uint64_t id = 0;
    for (; id < 10; id++)
        put(&box->o, id, 100);
    struct frame f = take(&box->o, 1 << 20, SLICES);
    uint64_t settled = 0;
    for (uint64_t round = 0; round < 500; round++) {
        for (uint64_t end = id + 300; id < end; id++)
            put(&box->o, id, 100);
        settle_range(&box->o, settled, id - round % 2); /* every other time one is left in hand */
        settled = id - round % 2;
        outbox_advance(&box->o);
        assert_true(pool_out(box->pool) <= 3 * (256 << 10));
    }
    assert_frame(&f, 0, 10, 100);
    box_free(box);
}

static void an_idle_outbox_keeps_one_page_and_one_small_segment(void **state)
{
    (void)state;
    struct box *box = box_new(10000, 64 << 20);
    uint64_t id = 0;
    for (uint64_t burst = 1; burst <= 10000; burst *= 10) {
        uint64_t first = id;
        for (; id < first + burst; id++)
            put(&box->o, id, 200);
        while (take(&box->o, 1 << 20, SLICES).count > 0)
            outbox_written(&box->o);
        settle_range(&box->o, first, id);
        assert_int_equal(outbox_advance(&box->o), burst);
        assert_true(pool_out(box->pool) <= 2 * POOL_SMALLEST);
    }
    box_free(box);
}

static void a_small_segment_is_used_again_from_its_start(void **state)
{
    (void)state;
    struct box *box = box_new(10, 64 << 20);
    uint8_t *place = NULL;
    for (uint64_t id = 0; id < 1000; id++) {
        put(&box->o, id, 200);
        struct frame f = take(&box->o, 1000, SLICES);
        assert_true(place == NULL || place == f.slices[0].iov_base);
        place = f.slices[0].iov_base;
        outbox_written(&box->o);
        assert_non_null(outbox_settle(&box->o, id));
        outbox_advance(&box->o);
    }
    box_free(box);
}

static void segments_grow_while_the_outbox_stays_busy(void **state)
{
    (void)state;
    struct box *box = box_new(100000, 64 << 20);
    for (uint64_t id = 0; id < 20000; id++)
        put(&box->o, id, 100);
    size_t slices = 0;
    for (struct frame f = take(&box->o, 1 << 20, SLICES); f.count > 0; f = take(&box->o, 1 << 20, SLICES))
        slices += f.count;
    assert_true(slices <= 6 + 2000000 / (256 << 10) + 1 + 2);
    box_free(box);
}

static void when_memory_is_out_nothing_changes(void **state)
{
    (void)state;
    struct box *box = box_new(10, UINT64_MAX);
    lock_acquire(&box->o.lock);
    assert_null(outbox_append(&box->o, (size_t)1 << 40, 0, 0)); /* larger than the pool's largest block */
    lock_release(&box->o.lock);
    assert_int_equal(take(&box->o, 1000, SLICES).count, 0);
    put(&box->o, 0, 20);
    lock_acquire(&box->o.lock);
    assert_null(outbox_append(&box->o, (size_t)1 << 40, 0, 0));
    lock_release(&box->o.lock);
    put(&box->o, 1, 20);
    struct frame f = take(&box->o, 1000, SLICES);
    assert_int_equal(f.count, 1);
    assert_frame(&f, 0, 2, 20);
    box_free(box);
}

static void an_append_that_is_not_committed_leaves_no_trace(void **state)
{
    (void)state;
    struct box *box = box_new(1000, 1 << 20);
    for (uint64_t id = 0; id < 300; id++) {
        lock_acquire(&box->o.lock);
        assert_non_null(outbox_append(&box->o, id % 10 == 0 ? 9000 : 30, 0, 0));
        lock_release(&box->o.lock);
        put(&box->o, id, 20);
    }
    struct frame f = take(&box->o, 1 << 20, SLICES);
    assert_frame(&f, 0, 300, 20);
    settle_range(&box->o, 0, 300);
    outbox_written(&box->o);
    assert_int_equal(outbox_advance(&box->o), 300);
    assert_true(pool_out(box->pool) <= 2 * POOL_SMALLEST);
    box_free(box);
}

static void bounds_beyond_all_memory_are_refused(void **state)
{
    (void)state;
    struct outbox o;
    assert_false(outbox_init(&o, NULL, UINT64_MAX, 1));
    outbox_free(&o);
}

/* The naive model ---------------------------------------------------------------------------------------------------- */

#define STEPS 60000
#define IN_FLIGHT 16 /* frames taken and not written */

struct message {
    uint64_t id;
    uint32_t size;
    bool settled;
};

struct model {
    struct box *box;
    struct message *messages; /* by number, for ever */
    uint64_t tail, head, cursor, left, next_id;
    uint64_t max_messages, max_bytes;
    bool scheduled;
    struct frame flying[IN_FLIGHT];
    uint8_t *copies[IN_FLIGHT];
    size_t flights;
    uint64_t seed;
};

static uint64_t draw(struct model *m, uint64_t below)
{
    m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (m->seed >> 33) % below;
}

static uint64_t model_bytes(const struct model *m)
{
    uint64_t bytes = 0;
    for (uint64_t n = m->head; n < m->tail; n++)
        bytes += m->messages[n].size;
    return bytes;
}

static uint32_t draw_size(struct model *m)
{
    switch (draw(m, 50)) {
    case 0:
        return (uint32_t)(8 + draw(m, 300000));
    case 1:
    case 2:
        return (uint32_t)(8 + draw(m, 6000));
    default:
        return (uint32_t)(8 + draw(m, 120));
    }
}

static void step_append(struct model *m)
{
    uint32_t size = draw_size(m);
    uint64_t pending = m->tail - m->head;
    bool room = pending < m->max_messages && (pending == 0 || model_bytes(m) + size <= m->max_bytes);
    assert_int_equal(has_room(&m->box->o, size), room);
    if (!room)
        return;
    m->next_id += draw(m, 3) * draw(m, 2); /* repeats and gaps */
    assert_int_equal(put(&m->box->o, m->next_id, size), !m->scheduled);
    m->scheduled = true;
    m->messages[m->tail++] = (struct message){.id = m->next_id, .size = size};
}

/* How many entries the next frame may hold, slices aside; their bytes are checked against `bytes`, as far as they go. */
static void step_take(struct model *m)
{
    if (m->flights == IN_FLIGHT)
        return;
    size_t max_bytes = 1 + draw(m, draw(m, 2) == 0 ? 2000 : 400000);
    size_t cap = 1 + draw(m, draw(m, 2) == 0 ? 3 : SLICES);
    struct frame f = take(&m->box->o, max_bytes, cap);
    uint8_t *bytes = frame_copy(&f);
    size_t at = 0;
    uint32_t entries = 0;
    while (m->cursor < m->tail) {
        const struct message *message = &m->messages[m->cursor];
        if (message->settled ? entries > 0 : entries == f.entries)
            break;
        if (!message->settled) {
            assert_int_equal(m->cursor, f.first + entries);
            assert_true(entry_is(bytes + at, message->id, message->size));
            at += message->size;
            entries++;
        }
        m->cursor++;
    }
    assert_int_equal(entries, f.entries);
    assert_int_equal(at, f.bytes);
    assert_true(f.bytes <= max_bytes || f.entries == 1);
    if (m->cursor < m->tail)
        assert_true(m->messages[m->cursor].settled || f.count == cap || f.bytes + m->messages[m->cursor].size > max_bytes);
    if (m->left < m->cursor)
        m->left = m->cursor;
    if (f.count > 0) {
        m->flying[m->flights] = f;
        m->copies[m->flights++] = bytes;
        return;
    }
    free(bytes);
    if (m->flights == 0)
        m->scheduled = false;
}

/* What was taken has been readable and the same all the time. */
static void land(struct model *m)
{
    for (size_t i = 0; i < m->flights; i++) {
        uint8_t *bytes = frame_copy(&m->flying[i]);
        assert_memory_equal(bytes, m->copies[i], m->flying[i].bytes);
        free(bytes);
        free(m->copies[i]);
    }
    m->flights = 0;
}

static void step_written(struct model *m)
{
    land(m);
    outbox_written(&m->box->o);
}

static void step_rewind(struct model *m)
{
    land(m);
    uint64_t open = 0;
    for (uint64_t n = m->head; n < m->cursor; n++)
        open += !m->messages[n].settled;
    assert_int_equal(outbox_rewind(&m->box->o), open);
    m->cursor = m->head;
}

static void step_settle(struct model *m)
{
    if (m->tail == m->head)
        return;
    /* Mostly what was taken, from the oldest on, with holes. */
    uint64_t taken = m->cursor > m->head ? m->cursor - m->head : 0;
    uint64_t span = draw(m, 10) == 0 || taken == 0 ? m->tail - m->head : taken;
    uint64_t from = m->head + draw(m, 1 + span / 4);
    uint64_t to = from + draw(m, span + 1);
    for (uint64_t n = from; n < to && n < m->tail; n++) {
        if (draw(m, 20) == 0)
            continue;
        struct slot *slot = outbox_settle(&m->box->o, n);
        assert_int_equal(slot != NULL, !m->messages[n].settled);
        if (slot != NULL)
            assert_int_equal(slot->tag, m->messages[n].id ^ 0xfeed);
        m->messages[n].settled = true;
    }
}

static void step_advance(struct model *m)
{
    uint64_t from = m->head;
    while (m->head < m->tail && m->messages[m->head].settled)
        m->head++;
    if (m->cursor < m->head)
        m->cursor = m->head;
    assert_int_equal(outbox_advance(&m->box->o), m->head - from);
}

static void step_find(struct model *m)
{
    if (m->head == m->tail)
        return;
    uint64_t id = m->messages[m->head + draw(m, m->tail - m->head)].id + draw(m, 2);
    uint64_t expected = UINT64_MAX;
    for (uint64_t n = m->head; n < m->cursor && expected == UINT64_MAX; n++)
        if (!m->messages[n].settled && m->messages[n].id == id)
            expected = n;
    assert_int_equal(outbox_find(&m->box->o, id), expected);
}

static void step(struct model *m)
{
    static void (*const steps[])(struct model *) = {
        step_append, step_append, step_append, step_append, step_append,  step_append,  step_take,    step_take,
        step_take,   step_take,   step_settle, step_settle, step_advance, step_advance, step_written, step_find,
    };
    uint64_t drawn = draw(m, 500);
    if (drawn == 0)
        step_rewind(m);
    else
        steps[drawn % (sizeof steps / sizeof steps[0])](m);
    assert_int_equal(outbox_pending(&m->box->o), m->tail - m->head);
    assert_int_equal(outbox_pending_bytes(&m->box->o), model_bytes(m));
}

static void walk(uint64_t seed, uint64_t max_messages, uint64_t max_bytes)
{
    struct model m = {.seed = seed, .max_messages = max_messages, .max_bytes = max_bytes};
    m.box = box_new(max_messages, max_bytes);
    m.messages = calloc(STEPS, sizeof *m.messages);
    assert_non_null(m.messages);
    for (int i = 0; i < STEPS; i++)
        step(&m);
    step_written(&m);
    for (uint64_t n = m.head; n < m.tail; n++)
        outbox_settle(&m.box->o, n);
    assert_int_equal(outbox_advance(&m.box->o), m.tail - m.head);
    assert_true(pool_out(m.box->pool) <= 2 * POOL_SMALLEST);
    free(m.messages);
    box_free(m.box);
}

static void a_random_walk_agrees_with_a_naive_model(void **state)
{
    (void)state;
    walk(1, 1, 1 << 20);
    walk(2, 10, 1 << 20);
    walk(3, 128, 1 << 20);
    walk(4, 300, 100000);
    walk(5, 300, 4 << 20);
    walk(6, 1000, 16 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_taken_as_it_was_appended),
        cmocka_unit_test(neighbours_in_a_segment_are_one_slice),
        cmocka_unit_test(a_frame_ends_before_the_entry_that_does_not_fit),
        cmocka_unit_test(one_entry_is_taken_whatever_the_limit),
        cmocka_unit_test(a_frame_ends_when_the_slices_are_used_up),
        cmocka_unit_test(SB_49_a_frame_is_cut_by_bytes_and_filled_across_segments),
        cmocka_unit_test(a_slot_settled_before_it_was_taken_never_leaves),
        cmocka_unit_test(when_all_was_settled_before_it_was_taken_there_is_nothing_to_take),
        cmocka_unit_test(the_loop_is_told_once_until_it_finds_nothing),
        cmocka_unit_test(while_something_is_written_nobody_is_told),
        cmocka_unit_test(SB_46_at_the_bound_senders_wait_and_ten_confirms_let_ten_pass),
        cmocka_unit_test(the_bound_in_bytes_counts_encoded_bytes),
        cmocka_unit_test(one_message_above_the_bound_in_bytes_passes_when_nothing_is_in_hand),
        cmocka_unit_test(a_waiting_sender_is_woken_by_room),
        cmocka_unit_test(a_waiting_sender_is_released_by_close),
        cmocka_unit_test(a_slot_is_settled_once_and_only_while_in_hand),
        cmocka_unit_test(the_head_waits_for_the_oldest_open_slot),
        cmocka_unit_test(ids_of_the_user_are_found_with_gaps_and_repeats),
        cmocka_unit_test(after_a_cut_what_is_open_is_taken_again_in_order_and_nothing_else),
        cmocka_unit_test(a_cut_before_the_resend_is_over_loses_nothing),
        cmocka_unit_test(what_is_being_written_stays_readable_after_it_was_settled),
        cmocka_unit_test(a_stalled_write_holds_what_it_writes_and_nothing_that_came_after),
        cmocka_unit_test(an_idle_outbox_keeps_one_page_and_one_small_segment),
        cmocka_unit_test(a_small_segment_is_used_again_from_its_start),
        cmocka_unit_test(segments_grow_while_the_outbox_stays_busy),
        cmocka_unit_test(when_memory_is_out_nothing_changes),
        cmocka_unit_test(an_append_that_is_not_committed_leaves_no_trace),
        cmocka_unit_test(bounds_beyond_all_memory_are_refused),
        cmocka_unit_test(a_random_walk_agrees_with_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
