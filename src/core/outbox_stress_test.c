/* outbox_stress_test.c: senders, a loop and a broker's confirms at the same time; every byte on the wire is read back. For TSan, too. */
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

#define SLICES 8
#define SENDERS_MOST 64
#define DEADLINE (50 * CONEY_SECOND)

/* What a run is made of. */
struct plan {
    unsigned senders;
    uint64_t each; /* messages of a sender */
    uint64_t max_messages;
    uint64_t max_bytes;
    uint32_t cuts;  /* one take in so many is followed by a cut; 0 = none */
    uint32_t early; /* one round in so many settles something that was not taken, as a deadline does; 0 = none */
    bool no_wait;   /* senders try again instead of waiting */
    size_t keep;    /* of the pool; 0: what is given back is freed memory at once */
};

struct run {
    struct plan plan;
    struct pool *pool;
    struct outbox o;
    _Atomic int open;
    int64_t deadline;
    uint64_t next_id; /* under the outbox's lock, as a producer's is */

    /* The loop's bell: it sleeps until somebody rings. */
    struct lock lock;
    struct cond rung;
    bool ringing;

    uint64_t seed;
    uint64_t settled;
    uint64_t wire_next; /* the lowest id that may come next: after a cut the oldest open one */
    atomic_ullong failures;
};

#define check(run, condition) ((void)((condition) || atomic_fetch_add(&(run)->failures, 1)))

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

static void ring(struct run *run)
{
    lock_acquire(&run->lock);
    run->ringing = true;
    lock_release(&run->lock);
    cond_wake_all(&run->rung);
}

/* The sender -------------------------------------------------------------------------------------------------------- */

static bool room_or_wait(struct run *run, size_t size)
{
    if (outbox_has_room(&run->o, size))
        return true;
    return !run->plan.no_wait && outbox_wait(&run->o, size, run->deadline, &run->open) == CONEY_OK;
}

/* True when it was accepted. */
static bool send_one(struct run *run, size_t size)
{
    lock_acquire(&run->o.lock);
    if (!room_or_wait(run, size)) {
        lock_release(&run->o.lock);
        return false;
    }
    struct slot *slot = outbox_append(&run->o, size, run->next_id, 0);
    check(run, slot != NULL);
    store64(slot->entry, run->next_id);
    store32(slot->entry + 8, (uint32_t)size);
    memset(slot->entry + 12, (uint8_t)run->next_id, size - 12);
    run->next_id++;
    bool tell = outbox_commit(&run->o, size);
    check(run, outbox_pending(&run->o) <= run->plan.max_messages);
    check(run, outbox_pending_bytes(&run->o) <= run->plan.max_bytes);
    lock_release(&run->o.lock);
    if (tell)
        ring(run);
    return true;
}

static void *send_all(void *arg)
{
    struct run *run = arg;
    uint64_t seed = (uint64_t)(uintptr_t)&seed;
    for (uint64_t sent = 0; sent < run->plan.each;) {
        size_t size = draw(&seed, 100) == 0 ? 12 + draw(&seed, 9000) : 12 + draw(&seed, 60);
        if (send_one(run, size))
            sent++;
        else if (time_now() > run->deadline)
            break;
        else
            sched_yield();
    }
    return NULL;
}

/* The loop ----------------------------------------------------------------------------------------------------------- */

/* Reads the entries of a frame as a broker does. They may lie across slices only at their edges: a slice ends with an entry. */
static void read_frame(struct run *run, const struct iovec *slices, size_t count, uint32_t entries)
{
    uint32_t read = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = slices[i].iov_base;
        const uint8_t *end = at + slices[i].iov_len;
        for (; at < end; at += load32(at + 8), read++) {
            uint64_t id = load64(at);
            check(run, id >= run->wire_next);
            run->wire_next = id + 1;
            check(run, load32(at + 8) == 12 || at[load32(at + 8) - 1] == (uint8_t)id);
        }
        check(run, at == end);
    }
    check(run, read == entries);
}

static void settle_one(struct run *run, uint64_t number)
{
    struct slot *slot = outbox_settle(&run->o, number);
    if (slot == NULL)
        return;
    check(run, slot->tag == load64(slot->entry));
    check(run, slot->tag == number);
    run->settled++;
}

/* The broker confirms some of what it has, mostly in order. */
static void confirm_some(struct run *run, uint64_t most)
{
    uint64_t number = atomic_load(&run->o.head);
    for (uint64_t n = draw(&run->seed, most + 1); n > 0 && number < run->o.cursor; n--, number++)
        settle_one(run, number + (draw(&run->seed, 8) == 0));
    outbox_advance(&run->o);
}

static void expire_some(struct run *run)
{
    uint64_t tail = atomic_load_explicit(&run->o.tail, memory_order_acquire);
    for (uint64_t number = run->o.cursor + draw(&run->seed, 3); number < tail; number += 2)
        settle_one(run, number);
}

static void cut(struct run *run)
{
    outbox_advance(&run->o);
    outbox_rewind(&run->o);
    run->wire_next = atomic_load(&run->o.head);
}

/* One frame: taken, settled in part while it is being written, read by the broker. False: there was nothing to take. */
static bool write_one(struct run *run)
{
    struct iovec slices[SLICES];
    struct outbox_run taken;
    size_t count = outbox_take(&run->o, 1 + draw(&run->seed, 20000), slices, 1 + draw(&run->seed, SLICES), &taken);
    if (count == 0)
        return false;
    if (draw(&run->seed, 4) == 0)
        confirm_some(run, 1000);
    read_frame(run, slices, count, taken.entries);
    if (run->plan.cuts > 0 && draw(&run->seed, run->plan.cuts) == 0)
        cut(run);
    else
        outbox_written(&run->o);
    return true;
}

static void confirm_all(struct run *run)
{
    for (uint64_t number = atomic_load(&run->o.head); number < run->o.cursor; number++)
        settle_one(run, number);
    outbox_advance(&run->o);
}

static void sleep_until_told(struct run *run)
{
    lock_acquire(&run->lock);
    bool in_time = true;
    while (!run->ringing && in_time)
        in_time = cond_wait(&run->rung, &run->lock, run->deadline);
    check(run, run->ringing);
    run->ringing = false;
    lock_release(&run->lock);
}

static void *loop(void *arg)
{
    struct run *run = arg;
    uint64_t all = run->plan.senders * run->plan.each;
    while (run->settled < all && time_now() < run->deadline) {
        bool wrote = write_one(run);
        if (run->plan.early > 0 && draw(&run->seed, run->plan.early) == 0)
            expire_some(run);
        if (draw(&run->seed, 3) == 0)
            confirm_some(run, 500);
        if (wrote)
            continue;
        confirm_all(run); /* nothing else will move the senders on */
        if (run->settled < all)
            sleep_until_told(run);
    }
    outbox_advance(&run->o);
    return NULL;
}

static void perform(struct plan plan)
{
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    run->plan = plan;
    run->seed = plan.senders;
    run->deadline = time_now() + DEADLINE;
    run->pool = pool_new(plan.keep);
    assert_true(outbox_init(&run->o, run->pool, plan.max_messages, plan.max_bytes));
    pthread_t looping;
    pthread_t senders[SENDERS_MOST];
    assert_int_equal(pthread_create(&looping, NULL, loop, run), 0);
    for (unsigned i = 0; i < plan.senders; i++)
        assert_int_equal(pthread_create(&senders[i], NULL, send_all, run), 0);
    for (unsigned i = 0; i < plan.senders; i++)
        pthread_join(senders[i], NULL);
    pthread_join(looping, NULL);
    assert_int_equal(run->failures, 0);
    assert_int_equal(run->next_id, plan.senders * plan.each);
    assert_int_equal(run->settled, plan.senders * plan.each);
    assert_int_equal(outbox_pending(&run->o), 0);
    assert_int_equal(outbox_pending_bytes(&run->o), 0);
    assert_true(pool_out(run->pool) <= 2 * POOL_SMALLEST);
    outbox_free(&run->o);
    assert_int_equal(pool_out(run->pool), 0);
    pool_free(run->pool);
    free(run);
}

static void one_sender_and_the_loop_lose_nothing_and_miss_no_wake_up(void **state)
{
    (void)state;
    perform((struct plan){.senders = 1, .each = 100000, .max_messages = 1000, .max_bytes = 64 << 20, .keep = 1 << 20});
    perform((struct plan){.senders = 1, .each = 20000, .max_messages = 3, .max_bytes = 64 << 20});
    perform((struct plan){.senders = 1, .each = 20000, .max_messages = 1, .max_bytes = 64 << 20});
}

static void SB_41_ids_of_eight_threads_are_distinct_and_rise_on_the_wire(void **state)
{
    (void)state;
    perform((struct plan){.senders = 8, .each = 10000, .max_messages = 10000, .max_bytes = 64 << 20, .keep = 1 << 20});
}

static void SB_52_many_senders_never_pass_a_bound(void **state)
{
    (void)state;
    perform((struct plan){.senders = 64, .each = 1000, .max_messages = 100, .max_bytes = 64 << 20});
    perform((struct plan){.senders = 8, .each = 5000, .max_messages = 10000, .max_bytes = 20000});
    perform((struct plan){.senders = 8, .each = 5000, .max_messages = 50, .max_bytes = 20000, .no_wait = true});
}

static void cuts_and_deadlines_under_eight_senders_keep_the_order(void **state)
{
    (void)state;
    perform((struct plan){.senders = 8, .each = 10000, .max_messages = 2000, .max_bytes = 1 << 20, .cuts = 20});
    perform(
        (struct plan){.senders = 8, .each = 10000, .max_messages = 2000, .max_bytes = 1 << 20, .early = 10, .keep = 16 << 10});
    perform((struct plan){.senders = 8, .each = 10000, .max_messages = 500, .max_bytes = 1 << 20, .cuts = 10, .early = 5});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sender_and_the_loop_lose_nothing_and_miss_no_wake_up),
        cmocka_unit_test(SB_41_ids_of_eight_threads_are_distinct_and_rise_on_the_wire),
        cmocka_unit_test(SB_52_many_senders_never_pass_a_bound),
        cmocka_unit_test(cuts_and_deadlines_under_eight_senders_keep_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
