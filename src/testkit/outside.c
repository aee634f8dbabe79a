/* outside.c: somebody outside the app, who publishes to its brokers and asks for replies.
 *
 * An app of its own, never started, has a broker for each of the app's. Its transport is the app's with other outlets, which stand on outlets of the app's
 * broker: so the usual publishers, codecs and options are at work, and none of the app's middleware or records. A publish comes back with its outcome as its
 * status, when all that it causes has happened.
 */
#include "base/time.h"
#include "service/posting.h"
#include "testkit/kit.h"

#include <stdlib.h>

struct outsider {
    struct transport transport;
    coney_test *test;
    coney_broker *inner; /* the app's */
};

struct way {
    struct outlet outlet; /* first */
    struct outsider *outsider;
    struct outlet *inner;
    struct outlet_options options;
    struct scratch
        *scratch;     /* the publisher's first, which a test that is left in the middle of a publish does not give back */
    struct lock lock; /* guards what follows */
    struct cond changed;
    uint64_t asked;    /* the tag of the publish whose outcome is waited for */
    uint64_t answered; /* and of the one whose outcome came */
    coney_status status;
};

static struct way *of(struct outlet *outlet)
{
    return container_of(outlet, struct way, outlet);
}

/* Outlets ------------------------------------------------------------------------------------------------------------------------ */

static void note_outcome(void *ctx, const coney_outcome *outcome)
{
    enum { NOT_FOUND = 404 };
    struct way *way = ctx;
    lock_acquire(&way->lock);
    if (outcome->tag == way->asked) {
        way->answered = outcome->tag;
        way->status = outcome->code == NOT_FOUND ? CONEY_ENOTFOUND : outcome->status;
        cond_wake_all(&way->changed);
    }
    lock_release(&way->lock);
}

static coney_status open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call)
{
    struct outsider *outsider = self;
    coney_broker *inner = outsider->inner;
    struct way *way = calloc(1, sizeof *way);
    if (way == NULL)
        return CONEY_ENOMEM;
    way->outlet.transport = &outsider->transport;
    way->outsider = outsider;
    way->options = *options;
    struct outlet_options own = *options;
    own.outcome = note_outcome;
    own.ctx = way;
    coney_status status = inner->transport->open_outlet(inner->self, &own, &way->inner, call);
    if (status == CONEY_OK)
        *outlet = &way->outlet;
    else
        free(way);
    return status;
}

/* Under the lock. */
static coney_status wait_for_outcome(struct way *way)
{
    int64_t deadline = time_after(time_now(), way->outsider->test->options.settle_limit);
    while (way->answered != way->asked)
        if (!cond_wait(&way->changed, &way->lock, deadline))
            return CONEY_ETIMEDOUT;
    return way->status;
}

static coney_status publish(struct outlet *outlet, const struct outgoing *message, uint64_t tag)
{
    struct way *way = of(outlet);
    lock_acquire(&way->lock);
    uint64_t asked = ++way->asked;
    lock_release(&way->lock);
    coney_status status = way->inner->transport->publish(way->inner, message, asked);
    if (status == CONEY_OK) {
        lock_acquire(&way->lock);
        status = wait_for_outcome(way);
        lock_release(&way->lock);
    }
    if (status == CONEY_OK)
        way->options.outcome(way->options.ctx, &(coney_outcome){.tag = tag, .status = CONEY_OK, .text = ""});
    test_drive_to_the_end(way->outsider->test);
    return status;
}

static coney_status request(struct outlet *outlet, const struct outgoing *message, struct incoming *reply, coney_call *call)
{
    struct way *way = of(outlet);
    coney_status status = way->inner->transport->request(way->inner, message, reply, call);
    test_drive_to_the_end(way->outsider->test);
    return status;
}

static coney_status close_outlet(struct outlet *outlet, coney_call *call)
{
    struct way *way = of(outlet);
    coney_status status = CONEY_OK;
    if (way->outsider->inner->is_connected || !way->outsider->test->options.live) /* else it has gone with its connection */
        status = way->inner->transport->close_outlet(way->inner, call);
    free(way);
    return status;
}

/* Publishers --------------------------------------------------------------------------------------------------------------------- */

/* NULL: memory is out. */
static struct outsider *outsider_new(coney_test *t, coney_broker *inner)
{
    struct outsider *outsider = malloc(sizeof *outsider);
    if (outsider == NULL)
        return NULL;
    *outsider = (struct outsider){.transport = *inner->transport, .test = t, .inner = inner};
    struct transport *transport = &outsider->transport;
    transport->open_outlet = open_outlet;
    transport->publish = publish;
    transport->request = transport->request != NULL ? request : NULL;
    transport->close_outlet = close_outlet;
    transport->free = free;
    return outsider;
}

bool test_open_outside(coney_test *t)
{
    t->outside = coney_app_new("outside", "");
    for (coney_broker *inner = t->app->brokers; inner != NULL && t->outside != NULL; inner = inner->next) {
        struct outsider *outsider = outsider_new(t, inner);
        coney_broker *broker = outsider != NULL ? broker_new(t->outside, &outsider->transport, outsider) : NULL;
        if (broker == NULL)
            return false;
        broker->codec = inner->codec != NULL ? inner->codec : t->app->options.codec;
    }
    return t->outside != NULL && !t->outside->out_of_memory;
}

static coney_broker *outside_of(const coney_test *t, const coney_broker *inner)
{
    coney_broker *broker = t->outside->brokers;
    while (((const struct outsider *)broker->self)->inner != inner)
        broker = broker->next;
    return broker;
}

static coney_publisher *publisher_for(coney_broker *broker, const char *exchange)
{
    for (coney_publisher *p = broker->publishers; p != NULL; p = p->next)
        if (exchange == NULL ? p->options.exchange == NULL
                             : p->options.exchange != NULL && strcmp(p->options.exchange, exchange) == 0)
            return p;
    const coney_publisher_options options = {.exchange = exchange};
    return publisher_add(broker, &options, sizeof options);
}

static coney_status open_publisher(coney_publisher *p, coney_call *call)
{
    if (p->spare == NULL)
        p->spare = posting_scratch_new();
    coney_status status = p->spare != NULL ? publisher_open(p, call) : CONEY_ENOMEM;
    if (status == CONEY_OK)
        of(p->outlet)->scratch = p->spare;
    return status;
}

static void close_publisher(coney_publisher *p)
{
    if (p->outlet == NULL)
        return;
    if (p->users > 0) {
        struct scratch *scratch = of(p->outlet)->scratch;
        scratch->next = p->spare;
        p->spare = scratch;
        p->users = 0;
    }
    publisher_close(p, &(coney_call){0});
}

void test_close_outside(coney_test *t)
{
    if (t->outside == NULL)
        return;
    for (coney_broker *broker = t->outside->brokers; broker != NULL; broker = broker->next)
        for (coney_publisher *p = broker->publishers; p != NULL; p = p->next)
            close_publisher(p);
}

coney_out coney_test_out_to(coney_test *test, const char *exchange)
{
    coney_broker *inner = test_broker(test);
    if (inner == NULL)
        return coney_out_by_publisher(NULL);
    coney_call call = {0};
    coney_publisher *p = publisher_for(outside_of(test, inner), exchange);
    coney_status status = p == NULL ? CONEY_ENOMEM : p->outlet == NULL ? open_publisher(p, &call) : CONEY_OK;
    if (status == CONEY_OK)
        return coney_out_by_publisher(p);
    test_fail(test, "coney_test_out: no publisher could be opened (%s): %s", coney_status_name(status), call.text);
    return coney_out_by_publisher(NULL);
}

coney_out coney_test_out(coney_test *test)
{
    return coney_test_out_to(test, NULL);
}
