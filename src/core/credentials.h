/* credentials.h: user name and password of an environment whose user has a callback for them: asked for on a thread of its own, kept for the
 * log-ins of four fifths of their time, then asked for again.
 *
 * Everything here is on the loop, but the callback, which runs on a thread that lives for that one question; there is one at a time.
 */
#ifndef CONEY_CORE_CREDENTIALS_H
#define CONEY_CORE_CREDENTIALS_H

#include "base/list.h"
#include "core/backoff.h"
#include "net/loop.h"

#include <pthread.h>

/* Somebody who cannot go on without them. Embedded; zeroed it waits for nothing. */
struct credentials_wait {
    struct list in_list;
    /* `status` as the callback answered; with CONEY_OK user and password are there. */
    void (*done)(struct credentials_wait *wait, coney_status status);
};

struct credentials {
    coney_credentials_fn fn; /* NULL: there is no callback, and nothing of this is used */
    void *ctx;
    coney_loop *loop;
    char *user; /* copies; NULL: the URI's */
    char *password;
    int64_t fresh_until; /* time_now()'s clock; 0: there are none */
    struct list waiting;
    struct timer renewal;
    struct backoff backoff;

    /* New ones have come: the open links are to be given them. Those that are there could not be renewed, which is tried again. */
    void (*renewed)(struct credentials *credentials);
    void (*failed)(struct credentials *credentials, coney_status status);

    /* The question under way. */
    pthread_t thread;
    bool asking;
    bool threaded;
    bool unasked; /* by the renewal, not by who waits */
    struct task answered;
    coney_status status;
    coney_credentials said;
};

/* The callbacks `renewed` and `failed` are set by the caller afterwards. `first` and `most` are the pauses between attempts to renew. */
void credentials_init(struct credentials *credentials, coney_loop *loop, coney_credentials_fn fn, void *ctx, int64_t first,
                      int64_t most);

/* Calls wait->done when there are fresh ones, or none could be had: at once, from inside, when they are there. */
void credentials_await(struct credentials *credentials, struct credentials_wait *wait);

/* `done` will not be called any more. Harmless when it does not wait. */
void credentials_forget(struct credentials_wait *wait);

/* A broker refused them: who comes next has them asked for anew. */
void credentials_refused(struct credentials *credentials);

/* Nothing is asked any more; waits for a question under way. Forgets who waits, wipes user and password. Harmless without a callback. */
void credentials_end(struct credentials *credentials);

#endif
