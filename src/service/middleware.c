/* middleware.c: the chain around a handler: what each layer is given to call stands on the stack, one for each layer. */
#include "service/dispatch.h"

#include "base/text.h"

struct coney_next {
    struct dispatch *dispatch;
    struct runner *runner;
    coney_delivery *delivery;
    const void *value;
    size_t at; /* the layer that it calls; past the last: the handler */
    bool was_run;
};

static coney_settle run_layer(const coney_next *next)
{
    const struct subscription *s = next->delivery->subscription;
    if (next->at < s->chain_count) {
        const struct middleware *layer = &s->chain[next->at];
        coney_next inner = *next;
        inner.at++;
        inner.was_run = false;
        return layer->around(layer->ctx, next->delivery, &inner);
    }
    return dispatch_call(next->dispatch, next->runner, next->delivery, next->value);
}

static coney_settle misused(coney_next *next, const char *what)
{
    return coney_failed(next->delivery, what);
}

coney_settle coney_next_run(coney_next *next, coney_delivery *delivery)
{
    if (next->was_run)
        return misused(next, "middleware has called coney_next_run twice");
    if (delivery != next->delivery)
        return misused(next, "middleware has called coney_next_run with another delivery than its own");
    next->was_run = true;
    return run_layer(next);
}

coney_settle middleware_run(struct dispatch *x, struct runner *r, coney_delivery *d, const void *value)
{
    return run_layer(&(coney_next){.dispatch = x, .runner = r, .delivery = d, .value = value});
}
