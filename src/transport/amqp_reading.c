/* amqp_reading.c: where a subscription stands in a queue that is a stream, and how it comes back to there.
 *
 * The broker keeps no position for such a consumer, takes nothing back, and the client would begin again where it began at first. So after a cut, and when a
 * message that was kept is to come again, the consumer is closed and another one opened at the first message that is not settled: that one comes again, and
 * whatever was settled behind it, too. A thread of the subscription's own does it, since both calls wait.
 */
#include "transport/amqp.h"

#include "base/list.h"
#include "base/thread.h"
#include "base/time.h"

#include <stdlib.h>

#define PAUSE_FIRST (100 * CONEY_MILLISECOND)
#define PAUSE_MOST (5 * CONEY_SECOND)

/* A message that is kept. */
struct held {
    struct list place;
    const void *native; /* the client's kept delivery, which no other has meanwhile */
    uint64_t offset;
};

struct tamqp_reading {
    struct tamqp_feed *feed;
    pthread_t thread;
    struct lock lock; /* guards what follows */
    struct cond changed;
    struct list held;
    uint64_t next;     /* behind the last one that a handler is done with; UINT64_MAX: none has come */
    int64_t rewind_at; /* INT64_MAX: there is no need to */
    bool passes_by;    /* what the consumer brings now is from the wrong position */
    bool is_leaving;
};

/* Messages ----------------------------------------------------------------------------------------------------------------- */

bool tamqp_reading_begins(struct tamqp_reading *reading, uint64_t offset)
{
    lock_acquire(&reading->lock);
    bool passes_by = reading->passes_by;
    if (!passes_by && reading->next == UINT64_MAX)
        reading->next = offset;
    lock_release(&reading->lock);
    return !passes_by;
}

bool tamqp_reading_waits(struct tamqp_reading *reading, int64_t delay)
{
    int64_t until = time_after(time_now(), delay);
    bool in_time = true;
    lock_acquire(&reading->lock);
    while (!reading->is_leaving && !reading->passes_by && in_time)
        in_time = cond_wait(&reading->changed, &reading->lock, until);
    bool goes_on = !reading->is_leaving && !reading->passes_by;
    lock_release(&reading->lock);
    return goes_on;
}

void tamqp_reading_ends(struct tamqp_reading *reading, uint64_t offset)
{
    lock_acquire(&reading->lock);
    if (offset != UINT64_MAX)
        reading->next = offset + 1;
    lock_release(&reading->lock);
}

struct held *tamqp_reading_prepare(void)
{
    return calloc(1, sizeof(struct held));
}

void tamqp_reading_keeps(struct tamqp_reading *reading, struct held *held, const struct incoming *m)
{
    held->native = m->native;
    held->offset = m->offset;
    lock_acquire(&reading->lock);
    list_append(&reading->held, &held->place);
    lock_release(&reading->lock);
}

static struct held *find(struct tamqp_reading *reading, const struct incoming *m)
{
    for (struct list *at = reading->held.next; at != &reading->held; at = at->next) {
        struct held *held = container_of(at, struct held, place);
        if (held->native == m->native)
            return held;
    }
    return NULL;
}

/* One that is to come again stays among the held ones, so that the position stays before it. */
bool tamqp_reading_settles(struct tamqp_reading *reading, const struct incoming *m, coney_settle how)
{
    bool again = how > 0 || how == CONEY_REQUEUE;
    int64_t at = again ? time_after(time_now(), how > 0 ? how : 0) : INT64_MAX;
    lock_acquire(&reading->lock);
    struct held *held = find(reading, m);
    bool comes_again = held != NULL && again && !reading->is_leaving;
    if (held != NULL && again) {
        held->native = NULL;
        reading->rewind_at = at < reading->rewind_at ? at : reading->rewind_at;
    } else if (held != NULL) {
        list_remove(&held->place);
    }
    lock_release(&reading->lock);
    if (again)
        cond_wake_all(&reading->changed);
    else
        free(held);
    return comes_again;
}

void tamqp_reading_lost(struct tamqp_reading *reading)
{
    lock_acquire(&reading->lock);
    reading->passes_by = true;
    reading->rewind_at = 0;
    lock_release(&reading->lock);
    cond_wake_all(&reading->changed);
}

/* The way back ------------------------------------------------------------------------------------------------------------- */

static void forget_held(struct tamqp_reading *reading)
{
    for (struct list *at = list_take(&reading->held); at != NULL; at = list_take(&reading->held))
        free(container_of(at, struct held, place));
}

/* Waits until there is a reason to go back; false: to leave. From here on nothing of the old consumer is given to anybody. */
static bool wait_for_a_reason(struct tamqp_reading *reading)
{
    lock_acquire(&reading->lock);
    while (!reading->is_leaving && time_now() < reading->rewind_at)
        (void)cond_wait(&reading->changed, &reading->lock, reading->rewind_at);
    reading->passes_by = true;
    reading->rewind_at = INT64_MAX;
    bool goes_on = !reading->is_leaving;
    lock_release(&reading->lock);
    cond_wake_all(&reading->changed);
    return goes_on;
}

/* To the first message that is not settled, once no handler runs; false: it is to leave. */
static bool go_back(struct tamqp_reading *reading, uint64_t *next)
{
    lock_acquire(&reading->lock);
    bool goes_on = !reading->is_leaving;
    for (struct list *at = reading->held.next; at != &reading->held; at = at->next) {
        const struct held *held = container_of(at, struct held, place);
        reading->next = held->offset < reading->next ? held->offset : reading->next;
    }
    forget_held(reading);
    reading->passes_by = !goes_on;
    *next = reading->next;
    lock_release(&reading->lock);
    return goes_on;
}

/* Or until it is to leave. */
static void pause_a_while(struct tamqp_reading *reading, int64_t *pause)
{
    int64_t until = time_after(time_now(), *pause);
    *pause = *pause * 2 < PAUSE_MOST ? *pause * 2 : PAUSE_MOST;
    bool in_time = true;
    lock_acquire(&reading->lock);
    while (!reading->is_leaving && in_time)
        in_time = cond_wait(&reading->changed, &reading->lock, until);
    lock_release(&reading->lock);
}

/* Until it is open; false: it has ended, or is to leave. What is in the way is said once. */
static bool open_again(struct tamqp_reading *reading)
{
    struct tamqp_feed *feed = reading->feed;
    int64_t pause = PAUSE_FIRST;
    coney_status said = CONEY_OK;
    uint64_t next;
    while (go_back(reading, &next)) {
        coney_call call = {0};
        if (tamqp_open_consumer(feed, next, &call))
            return true;
        if (tamqp_is_final(feed, call.status, call.text)) {
            feed->feed.sink->ended(feed->feed.sink, call.status, call.text);
            return false;
        }
        if (call.status != said)
            broker_log(feed->amqp->broker, CONEY_LOG_WARNING, call.text);
        said = call.status;
        pause_a_while(reading, &pause);
    }
    return false;
}

static void *keep_position(void *arg)
{
    struct tamqp_reading *reading = arg;
    struct tamqp_feed *feed = reading->feed;
    while (wait_for_a_reason(reading)) {
        tamqp_close_consumer(feed);
        if (!open_again(reading))
            break;
        feed->was_canceled = false;
        feed->feed.sink->active(feed->feed.sink, true);
    }
    tamqp_close_consumer(feed);
    tamqp_has_left(feed);
    return NULL;
}

/* Life --------------------------------------------------------------------------------------------------------------------- */

struct tamqp_reading *tamqp_reading_new(struct tamqp_feed *feed)
{
    struct tamqp_reading *reading = calloc(1, sizeof *reading);
    if (reading == NULL)
        return NULL;
    reading->feed = feed;
    reading->next = UINT64_MAX;
    reading->rewind_at = INT64_MAX;
    list_init(&reading->held);
    if (thread_start(&reading->thread, "coney-reading", keep_position, reading) == CONEY_OK)
        return reading;
    free(reading);
    return NULL;
}

void tamqp_reading_leave(struct tamqp_reading *reading)
{
    lock_acquire(&reading->lock);
    reading->is_leaving = true;
    lock_release(&reading->lock);
    cond_wake_all(&reading->changed);
}

void tamqp_reading_end(struct tamqp_reading *reading)
{
    tamqp_reading_leave(reading);
    pthread_join(reading->thread, NULL);
}

void tamqp_reading_free(struct tamqp_reading *reading)
{
    forget_held(reading);
    free(reading);
}
