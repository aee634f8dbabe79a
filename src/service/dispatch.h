/* dispatch.h: what happens to a message of a subscription: decode, middleware, handler, policies, settlement; in order, on lanes or in batches. */
#ifndef CONEY_SERVICE_DISPATCH_H
#define CONEY_SERVICE_DISPATCH_H

#include "service/delivery.h"

/* Makes what runs the subscription: its pool, lanes, batch; sets s->sink. CONEY_ENOMEM, CONEY_ELIMIT (threads). */
coney_status dispatch_open(struct subscription *s);

/* After the feed has ended: lanes end, what waited in them is dropped unsettled. Frees all; deliveries that users still keep stay readable. */
void dispatch_close(struct subscription *s);

/* Looks for handlers that run too long and logs them, once a run; start.c has the worker call it now and then. `now`: worker_now. */
void dispatch_watch(struct subscription *s, int64_t now);

/* A histogram of the handlers' durations, for metrics.c. */
enum { DURATION_BUCKETS = 12 };
extern const double duration_bounds[DURATION_BUCKETS];
void dispatch_durations(const struct subscription *s, uint64_t buckets[DURATION_BUCKETS + 1], double *sum);

/* For the testkit: called on every settlement (after all policies) and after each call of a handler, when set; NULL otherwise. Set before the start. */
struct dispatch_probe {
    void (*received)(void *ctx, struct subscription *s, coney_bytes body, const coney_delivery_info *info);
    void (*called)(void *ctx, struct subscription *s, size_t count, coney_settle how);
    void (*settled)(void *ctx, struct subscription *s, coney_settle how);
    void *ctx;
};

#endif
