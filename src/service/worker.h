/* worker.h: the app's own thread: continuations, retries that are due, watching over handlers, seeks; and its clock, which a test may own.
 *
 * Tasks run one after the other in the order in which they were posted, timers when they are due, those of one moment in the order in which they were
 * set. Both embed in their owner's structs; nothing here allocates. A virtual worker has no thread: worker_run_one runs everything on the calling
 * thread, and its clock stands still. Any thread may post, set and cancel. Set and cancel: O(log n) amortised, the rest O(1).
 */
#ifndef CONEY_SERVICE_WORKER_H
#define CONEY_SERVICE_WORKER_H

#include "base/list.h"
#include "base/lock.h"

#include <coney/coney.h>

struct work {
    struct list queued;
    void (*run)(struct work *work); /* may post or set it again; may free it */
    int64_t due;                    /* timers: on worker_now's clock */
    uint64_t turn;                  /* timers: which of one moment comes first */
    struct work *child;             /* timers: a pairing heap, worker's own, as are the two below */
    struct work *next;
    struct work *before; /* the parent of a first child, else the sibling */
    enum { WORK_IDLE, WORK_POSTED, WORK_TIMED } waits;
};

struct worker;

/* `virtual_now`: nanoseconds since 1970, for both clocks of a virtual one. NULL: memory or threads are out. */
struct worker *worker_new(const char *name, bool is_virtual, int64_t virtual_now);

/* Ends the thread after what is posted; timers that are not due are dropped. Not on the worker. NULL is harmless. */
void worker_free(struct worker *worker);

void work_init(struct work *work, void (*run)(struct work *work));

/* Runs it soon, also when it waits for a time; harmless when it is posted already. */
void worker_post(struct worker *worker, struct work *work);

/* Runs it at `due`; sets it anew when it was set or posted. */
void worker_at(struct worker *worker, struct work *work, int64_t due);

/* It will not run, unless it runs at this moment on the worker. True: it was waiting and does not any more. */
bool worker_cancel(struct worker *worker, struct work *work);

bool worker_is_current(const struct worker *worker);

/* Monotonic nanoseconds; and milliseconds since 1970. A virtual worker's stand still between advances. */
int64_t worker_now(const struct worker *worker);
int64_t worker_wall(const struct worker *worker);

/* Virtual workers only. Runs one task that is posted or due; false: there is none. When the next timer is due, INT64_MAX: none. Moves the clock (forward
 * only); runs nothing. */
bool worker_run_one(struct worker *worker);
int64_t worker_next_due(const struct worker *worker);
void worker_set_now(struct worker *worker, int64_t now);

#endif
