/* credentials.c: see credentials.h. */
#include "core/credentials.h"

#include "base/thread.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

static void wipe(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

static void *run_question(void *arg)
{
    struct credentials *c = arg;
    c->said = (coney_credentials){0};
    c->status = c->fn(c->ctx, &c->said);
    loop_post(c->loop, &c->answered);
    return NULL;
}

static void tell(struct credentials *c, coney_status status)
{
    struct list told;
    list_init(&told);
    list_move_all(&told, &c->waiting);
    for (struct list *at = list_take(&told); at != NULL; at = list_take(&told)) {
        struct credentials_wait *wait = container_of(at, struct credentials_wait, in_list);
        wait->done(wait, status);
    }
}

static void ask(struct credentials *c, bool unasked)
{
    c->unasked = unasked;
    c->asking = true;
    c->threaded = thread_start(&c->thread, "coney-secret", run_question, c) == CONEY_OK;
    if (c->threaded)
        return;
    c->status = CONEY_ELIMIT;
    loop_post(c->loop, &c->answered);
}

/* Copies what the callback said. */
static coney_status take(struct credentials *c)
{
    c->fresh_until = 0;
    if (c->status != CONEY_OK)
        return c->status;
    wipe(&c->user);
    wipe(&c->password);
    c->user = c->said.user != NULL ? strdup(c->said.user) : NULL;
    c->password = c->said.password != NULL ? strdup(c->said.password) : NULL;
    if ((c->user == NULL) != (c->said.user == NULL) || (c->password == NULL) != (c->said.password == NULL))
        return CONEY_ENOMEM;
    int64_t valid_for = c->said.valid_for;
    c->fresh_until = valid_for > 0 ? time_after(time_now(), valid_for / 5 * 4) : INT64_MAX;
    return CONEY_OK;
}

static void run_answered(struct task *task)
{
    struct credentials *c = container_of(task, struct credentials, answered);
    if (c->fn == NULL)
        return; /* it has ended meanwhile */
    if (c->threaded)
        pthread_join(c->thread, NULL);
    c->asking = c->threaded = false;
    coney_status status = take(c);
    if (status == CONEY_OK) {
        backoff_reset(&c->backoff);
        (void)backoff_next(&c->backoff); /* a first failure to renew them is not followed by another at once */
        loop_timer_set(c->loop, &c->renewal, c->fresh_until);
        c->renewed(c);
    } else if (c->unasked) {
        loop_timer_set(c->loop, &c->renewal, time_after(time_now(), backoff_next(&c->backoff)));
        c->failed(c, status);
    }
    tell(c, status);
}

static void run_renewal(struct timer *timer)
{
    struct credentials *c = container_of(timer, struct credentials, renewal);
    if (c->asking)
        c->unasked = true; /* the open links are told of what comes */
    else
        ask(c, true);
}

void credentials_init(struct credentials *credentials, coney_loop *loop, coney_credentials_fn fn, void *ctx, int64_t first,
                      int64_t most)
{
    *credentials = (struct credentials){
        .fn = fn,
        .ctx = ctx,
        .loop = loop,
        .renewal.fire = run_renewal,
        .answered.run = run_answered,
        .backoff = {.first = first, .most = most, .seed = (uint64_t)(uintptr_t)credentials ^ (uint64_t)time_now()},
    };
    list_init(&credentials->waiting);
}

void credentials_await(struct credentials *credentials, struct credentials_wait *wait)
{
    if (time_now() < credentials->fresh_until) {
        wait->done(wait, CONEY_OK);
        return;
    }
    bool first = list_empty(&credentials->waiting);
    list_init(&wait->in_list);
    list_append(&credentials->waiting, &wait->in_list);
    if (first && !credentials->asking)
        ask(credentials, false);
}

void credentials_forget(struct credentials_wait *wait)
{
    if (wait->in_list.next != NULL)
        list_remove(&wait->in_list);
}

void credentials_refused(struct credentials *credentials)
{
    credentials->fresh_until = 0;
}

void credentials_end(struct credentials *credentials)
{
    if (credentials->fn == NULL)
        return;
    loop_timer_unset(credentials->loop, &credentials->renewal);
    if (credentials->threaded)
        pthread_join(credentials->thread, NULL);
    credentials->threaded = false;
    while (list_take(&credentials->waiting) != NULL)
        continue;
    wipe(&credentials->user);
    wipe(&credentials->password);
    credentials->fn = NULL;
}
