/* memory_serve.c: how listeners of the broker in memory are served: by their threads, or one message at a time, and how they settle: see memory_bus.h. */
#include "base/time.h"
#include "transport/memory_bus.h"

static _Thread_local struct listener *listening; /* whose thread this is */

bool memory_is_listening(const struct listener *listener)
{
    return listening == listener;
}

void memory_listener_wake(struct listener *listener)
{
    listener->asleep = false;
    cond_wake_all(&listener->wake);
}

/* Settling: under the lock ---------------------------------------------------------------------------------------------------- */

/* In a line of its own: again, before what comes after it. */
static void again(struct listener *listener, struct entry *entry)
{
    entry->returns++;
    entry->redelivered = true;
    memory_line_insert(&listener->own, entry, false);
    listener->waiting++;
}

static void settle_own(struct listener *listener, struct entry *entry, coney_settle how)
{
    struct bus *bus = listener->bus;
    bool again_at_all = how == CONEY_REQUEUE || how > 0;
    if (!again_at_all || bus->face == FACE_AMQP || listener->closing) { /* a server's stream queue takes anything for an ack */
        memory_entry_drop(entry);
        return;
    }
    if (how > 0 && bus->face == FACE_MEMORY) {
        memory_listener_hold(listener, entry, time_after(memory_now(bus), how));
        return;
    }
    if (how > 0)
        listener->not_before = time_after(memory_now(bus), how);
    again(listener, entry);
}

static void settle_shared(struct listener *listener, struct entry *entry, coney_settle how)
{
    if (how == CONEY_REJECT)
        memory_queue_bury(entry->queue, entry, "rejected");
    else if (how == CONEY_REQUEUE)
        memory_queue_return(entry->queue, entry, true);
    else
        memory_listener_hold(listener, entry, time_after(memory_now(listener->bus), how));
}

static coney_status settle(struct entry *entry, coney_settle how)
{
    struct listener *listener = entry->listener;
    if (listener == NULL) {
        bool is_reply = entry->is_reply;
        entry->bus->orphans--;
        memory_entry_drop(entry);
        return is_reply ? CONEY_OK : CONEY_ECLOSED;
    }
    if (entry->is_open) {
        list_remove(&entry->open);
        entry->is_open = false;
        listener->open_count--;
    }
    if (how == CONEY_ACK)
        memory_entry_drop(entry);
    else if (memory_is_shared(entry->queue))
        settle_shared(listener, entry, how);
    else
        settle_own(listener, entry, how);
    memory_wake_if_asleep(listener);
    return CONEY_OK;
}

coney_status memory_entry_settle(struct entry *entry, coney_settle how)
{
    if (how <= CONEY_KEPT)
        return CONEY_EINVAL;
    struct bus *bus = entry->bus;
    lock_acquire(&bus->lock);
    coney_status status = settle(entry, how);
    memory_bus_leave(bus);
    return status;
}

coney_status memory_settle(struct incoming *m, coney_settle how)
{
    return memory_entry_settle((struct entry *)(uintptr_t)m->native, how);
}

bool memory_keep(struct incoming *m)
{
    struct entry *entry = (struct entry *)(uintptr_t)m->native;
    struct listener *listener = entry->listener;
    lock_acquire(&listener->bus->lock);
    list_append(&listener->open, &entry->open);
    entry->is_open = true;
    listener->open_count++;
    lock_release(&listener->bus->lock);
    m->kept = &entry->kept;
    return true;
}

/* Handing over ---------------------------------------------------------------------------------------------------------------- */

static inline coney_settle hand_over(struct listener *listener, struct entry *entry, bool more)
{
    struct incoming m = {.body = entry->message->body,
                         .feed = &listener->feed,
                         .native = entry,
                         .kept = NULL,
                         .offset = listener->has_offsets ? entry->at : UINT64_MAX,
                         .more = more};
    return listener->feed.sink->deliver(listener->feed.sink, &m);
}

/* A run: what a listener's thread took from its line, and handles without the lock. */
struct run {
    struct entry *left;
    struct entry *acked;
    size_t handled;
    uint64_t turn;
};

enum { RUN_MOST = 256 }; /* messages after which it says what it has done: a publisher may wait for room */

static void run_handle(struct listener *listener, struct run *run)
{
    struct entry *acked = NULL;
    size_t handled = 0;
    for (struct entry *entry = run->left; entry != NULL; entry = run->left) {
        struct entry *next = entry->next;
        coney_settle how = hand_over(listener, entry, next != NULL);
        run->left = next;
        handled++;
        if (__builtin_expect(how == CONEY_ACK, 1)) {
            entry->next = acked;
            acked = entry;
        } else if (how != CONEY_KEPT) {
            memory_entry_settle(entry, how);
        }
        if (handled == RUN_MOST || __builtin_expect(atomic_load_explicit(&listener->look, memory_order_relaxed), 0))
            break;
    }
    run->acked = acked;
    run->handled = handled;
}

/* Publishers that wait for room are woken when a quarter is free, unless they have waited for a while (`look`). */
static void make_room(struct listener *listener, size_t handled)
{
    struct bus *bus = listener->bus;
    bool is_urgent = atomic_load_explicit(&listener->look, memory_order_relaxed);
    listener->waiting -= handled;
    if (bus->room_waiters > 0 && (is_urgent || listener->waiting < listener->most_waiting - listener->most_waiting / 4))
        cond_wake_all(&bus->changed);
}

static void run_end(struct listener *listener, struct run *run)
{
    size_t handled = run->handled;
    struct message_pool *pool = &listener->bus->pool;
    for (struct entry *entry = run->acked; entry != NULL;) {
        struct entry *next = entry->next;
        struct message *message = entry->message;
        if (__builtin_expect(entry == &message->entry, 1)) {
            message->entry_used = false;
            message_unref(pool, message);
        } else {
            memory_entry_drop(entry);
        }
        entry = next;
    }
    *run = (struct run){.left = run->left, .turn = run->turn};
    listener->in_hand = false;
    if (__builtin_expect(listener->is_moving, 0))
        cond_wake_all(&listener->bus->changed);
    make_room(listener, handled);
}

/* What is left of it is from before a seek, or nobody is to have it. */
static void run_drop(struct listener *listener, struct run *run)
{
    size_t gone = 0;
    for (; run->left != NULL; gone++) {
        struct entry *next = run->left->next;
        memory_entry_drop(run->left);
        run->left = next;
    }
    make_room(listener, gone);
}

static void run_sleep(struct listener *listener)
{
    bool is_awaited = listener->held != NULL && !listener->is_moving;
    listener->asleep = true;
    cond_wait(&listener->wake, &listener->bus->lock, is_awaited ? listener->held->due : INT64_MAX);
    listener->asleep = false;
}

/* Waits for something in its line; false: it is to end. */
static bool run_begin(struct listener *listener, struct run *run)
{
    for (;; run_sleep(listener)) {
        if (__builtin_expect(listener->turn != run->turn || listener->closing, 0))
            run_drop(listener, run);
        if (listener->closing)
            return false;
        if (listener->is_moving)
            continue;
        if (run->left == NULL) {
            if (listener->held != NULL)
                memory_listener_due(listener, time_now());
            run->left = listener->own.head;
            listener->own = (struct line){0};
        }
        if (run->left != NULL)
            break;
    }
    atomic_store_explicit(&listener->look, false, memory_order_relaxed);
    run->turn = listener->turn;
    listener->in_hand = true;
    return true;
}

void *memory_listen(void *arg)
{
    struct listener *listener = arg;
    struct bus *bus = listener->bus;
    struct run run = {0};
    listening = listener;
    lock_acquire(&bus->lock);
    while (run_begin(listener, &run)) {
        lock_release(&bus->lock);
        run_handle(listener, &run);
        lock_acquire(&bus->lock);
        run_end(listener, &run);
    }
    listener->ended = true;
    cond_wake_all(&bus->changed);
    lock_release(&bus->lock);
    return NULL;
}

/* Virtual: one at a time ------------------------------------------------------------------------------------------------------ */

static bool can_take(const struct listener *listener)
{
    return !listener->busy && !listener->closing && listener->open_count < listener->prefetch;
}

/* Whether it is the turn of this one among those of a queue: of a single active consumer the first one's, else of those of the highest priority. */
static bool is_preferred(const struct listener *listener)
{
    const struct queue *queue = listener->queue;
    if (queue->terms.single_active_consumer)
        return queue->listeners.next == &listener->in_queue;
    for (const struct list *l = queue->listeners.next; l != &queue->listeners; l = l->next) {
        const struct listener *other = container_of(l, struct listener, in_queue);
        if (other->priority > listener->priority && can_take(other))
            return false;
    }
    return true;
}

static struct entry *take_for(struct listener *listener, int64_t now)
{
    if (!can_take(listener))
        return NULL;
    if (memory_is_shared(listener->queue)) {
        struct entry *entry = is_preferred(listener) ? memory_queue_take(listener->queue) : NULL;
        if (entry != NULL)
            entry->listener = listener;
        return entry;
    }
    if (listener->not_before > now)
        return NULL;
    struct entry *entry = line_take(&listener->own);
    if (entry == NULL)
        return NULL;
    listener->not_before = 0;
    listener->waiting--;
    if (entry->at >= listener->resume)
        listener->resume = entry->at + 1;
    listener->has_begun = true;
    return entry;
}

/* The next listener in rotation that can take something. */
static struct listener *next_to_serve(struct bus *bus, int64_t now, struct entry **entry)
{
    struct list *first = bus->last != NULL ? &bus->last->in_bus : &bus->listeners;
    struct list *at = first;
    do {
        at = at->next;
        if (at == &bus->listeners)
            continue;
        struct listener *listener = container_of(at, struct listener, in_bus);
        *entry = take_for(listener, now);
        if (*entry != NULL)
            return listener;
    } while (at != first);
    return NULL;
}

bool memory_bus_run_one(struct bus *bus)
{
    struct entry *entry = NULL;
    lock_acquire(&bus->lock);
    int64_t now = memory_now(bus);
    memory_due(bus, now);
    struct listener *listener = next_to_serve(bus, now, &entry);
    if (listener == NULL) {
        lock_release(&bus->lock);
        return false;
    }
    bus->last = listener;
    listener->busy = true;
    lock_release(&bus->lock);
    coney_settle how = hand_over(listener, entry, false);
    lock_acquire(&bus->lock);
    listener->busy = false;
    if (how != CONEY_KEPT)
        settle(entry, how);
    lock_release(&bus->lock);
    return true;
}
