/* call.h: a control call under way: the inside of coney_call.
 *
 * An op stands for one call from its start to its end, whichever of three comes first: the work ends it (op_end), its deadline passes, or
 * the user cancels it. It embeds in a struct of the caller's that carries the call's inputs. All of its life but its start is on the loop.
 *
 *     struct delete_op *d = calloc(1, sizeof *d);
 *     op_init(&d->op, env->loop, delete_begin, NULL, delete_free);
 *     return op_run(&d->op, call, env->call_deadline);
 *
 * References: op_run takes over the one that op_init made and drops it when the call has ended. Work that may outlive the call (a request on
 * its way) holds one of its own and finds op_ended() true when it comes back late.
 */
#ifndef CONEY_CORE_CALL_H
#define CONEY_CORE_CALL_H

#include "base/lock.h"
#include "net/loop.h"

struct op {
    void (*begin)(struct op *op); /* on the loop: starts the work, may end it at once */
    /* On the loop, after a deadline or a cancel ended the call while its work was under way; may be NULL. */
    void (*abandon)(struct op *op);
    /* On the loop, at a deadline or a cancel: ends the op with `status` by itself before it returns; NULL for most, which are ended for them.
     * An op that has it begins and expires in any case, also when the thread that waited for it has given up: a close must take place. Then
     * its work may be over already. */
    void (*expire)(struct op *op, coney_status status);
    void (*free)(struct op *op); /* the last reference is gone; any thread */
    coney_loop *loop;
    coney_call call; /* inputs at first, results once it has ended */
    struct task task;
    struct task cancel;
    struct timer timer;
    _Atomic uint32_t refs;
    struct lock lock;
    struct cond done;
    int64_t deadline; /* on time_now()'s clock */
    bool ended;       /* under the lock */
    bool detached;    /* set by the caller before op_run: do not wait, nobody is told; op_run returns CONEY_OK */
    bool waited_for;  /* a thread blocks on it */
    bool gave_up;     /* that thread ended the call itself, since the loop did not */
    bool began;       /* begin was called */
    bool canceling;   /* the cancel task was posted; under the registry's lock */
};

void op_init(struct op *op, coney_loop *loop, void (*begin)(struct op *), void (*abandon)(struct op *),
             void (*free)(struct op *));

/* Runs the call: blocking when `call` is NULL or has no on_done, and then fills it; asynchronous otherwise. Returns what the public function
 * returns. When it returns CONEY_EDEADLK, or CONEY_EINVAL for a call with reserved bytes set, `begin` was not called. */
coney_status op_run(struct op *op, coney_call *call, int64_t default_deadline);

/* CONEY_OK, or CONEY_EINVAL for a call with reserved bytes set, with its text in it: what op_run refuses, for those who must know before. */
coney_status op_check(coney_call *call);

/* Refuses a call before there is an op: fills `call`, if there is one, and returns `status`. */
coney_status op_refuse(coney_call *call, coney_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* On the loop: ends the call, once; later ends change nothing and return false. An empty text becomes the status' own for anything but
 * CONEY_OK. */
bool op_end(struct op *op, coney_status status, uint32_t code, uint64_t value, const char *text);

/* The same with CONEY_OK and something that `give` writes to a place of the user's: in one step with the end, so never when a thread that waited
 * has given up, and its place with it. `give` is called under the op's lock, and not at all when this returns false. It may be NULL. */
bool op_end_giving(struct op *op, uint64_t value, void (*give)(struct op *op));

/* On the loop: whether the call has ended. */
bool op_ended(struct op *op);

struct op *op_ref(struct op *op);
void op_unref(struct op *op);

#endif
