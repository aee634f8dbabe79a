/* publisher.c: publishers from their description to their close, and the places where publishes go out. */
#include "service/publisher.h"

#include "base/text.h"
#include "base/time.h"
#include "service/app.h"
#include "service/posting.h"
#include "service/ticket.h"

/* Description ----------------------------------------------------------------------------------------------------- */

static void append(coney_broker *broker, coney_publisher *p)
{
    coney_publisher **end = &broker->publishers;
    while (*end != NULL)
        end = &(*end)->next;
    *end = p;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static const char *name_of(const coney_publisher *p)
{
    const coney_publisher_options *options = &p->options;
    const char *const names[] = {options->name, options->to, options->exchange};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_given(names[i]))
            return names[i];
    return p->broker->label;
}

void publisher_broker_was_labelled(coney_broker *broker)
{
    for (coney_publisher *p = broker->publishers; p != NULL; p = p->next)
        p->name = name_of(p);
}

coney_publisher *publisher_add(coney_broker *broker, const coney_publisher_options *options, size_t size)
{
    coney_app *app = broker->app;
    coney_publisher *p = app_copy_bytes(app, NULL, sizeof *p);
    if (p == NULL)
        return NULL;
    coney_publisher_options *copy = &p->options;
    bool is_known = app_take_options(copy, sizeof *copy, options, size);
    copy->name = app_copy_text(app, copy->name);
    copy->to = app_copy_text(app, copy->to);
    copy->exchange = app_copy_text(app, copy->exchange);
    p->broker = broker;
    p->name = name_of(p);
    list_init(&p->transactions);
    if (!is_known)
        mistake(&app->built, "publisher", "'%s' " NEWER_TEXT, copy->name != NULL ? copy->name : "");
    append(broker, p);
    return p;
}

coney_publisher *coney_publisher_new_sized(coney_broker *broker, const coney_publisher_options *options, size_t size)
{
    if (broker == NULL || !app_may_change(broker->app, "coney_publisher_new"))
        return NULL;
    return publisher_add(broker, options, size);
}

void coney_app_use_publish(coney_app *app, coney_publish_around_fn around, void *ctx)
{
    if (app == NULL || !app_may_change(app, "coney_app_use_publish"))
        return;
    if (around == NULL) {
        mistake(&app->built, "middleware", "a function of coney_app_use_publish is NULL");
        return;
    }
    size_t count = app->publish_middleware_count;
    struct publish_middleware *grown = app_copy_bytes(app, NULL, (count + 1) * sizeof *grown);
    if (grown == NULL)
        return;
    if (count > 0)
        memcpy(grown, app->publish_middlewares, count * sizeof *grown);
    grown[count] = (struct publish_middleware){around, ctx};
    app->publish_middlewares = grown;
    app->publish_middleware_count = count + 1;
}

/* Open and close -------------------------------------------------------------------------------------------------- */

/* Each message says by itself whether it is transient, so one may be persistent although its publisher is not. */
coney_status publisher_open(coney_publisher *p, coney_call *call)
{
    const coney_codec *codecs[] = {p->options.codec, p->broker->codec, p->broker->app->options.codec};
    p->codec = codecs[0] != NULL ? codecs[0] : codecs[1] != NULL ? codecs[1] : codecs[2];
    p->content_type = coney_bytes_str(p->codec->content_type);
    struct outlet_options options = {
        .name = p->name,
        .exchange = p->options.exchange,
        .policy = p->options.policy,
        .drop_unroutable = p->options.drop_unroutable,
        .outcome = publish_outcome,
        .ctx = p,
    };
    struct outlet *outlet = NULL;
    coney_status status = p->broker->transport->open_outlet(p->broker->self, &options, &outlet, call);
    if (status != CONEY_OK)
        return status;
    lock_acquire(&p->lock);
    p->outlet = outlet;
    lock_release(&p->lock);
    return CONEY_OK;
}

/* Nobody enters from here on. False: somebody has not left by the deadline. */
static bool shut(coney_publisher *p, int64_t deadline, struct outlet **outlet)
{
    lock_acquire(&p->lock);
    *outlet = p->outlet;
    p->outlet = NULL;
    while (p->users > 0 && cond_wait(&p->left, &p->lock, deadline))
        ;
    bool is_empty = p->users == 0;
    lock_release(&p->lock);
    return is_empty;
}

coney_status publisher_close(coney_publisher *p, coney_call *call)
{
    enum { DEFAULT_DEADLINE = 10 };
    int64_t duration = call != NULL && call->deadline != 0 ? call->deadline : DEFAULT_DEADLINE * CONEY_SECOND;
    uint64_t failed = counter_get(&p->stats.failed);
    struct outlet *outlet;
    bool is_empty = shut(p, time_after(time_now(), duration), &outlet);
    if (outlet == NULL)
        return CONEY_OK;
    transaction_abort_all(p);
    if (!is_empty)
        return app_refuse(call, CONEY_ETIMEDOUT, "publisher '%s': a publish or a request has not ended in time", p->name);
    coney_status status = p->broker->transport->close_outlet(outlet, call);
    if (call != NULL)
        call->value = counter_get(&p->stats.failed) - failed;
    return status;
}

bool publisher_is_used(coney_publisher *p)
{
    lock_acquire(&p->lock);
    bool is_used = p->users > 0;
    lock_release(&p->lock);
    return is_used;
}

void publisher_free(coney_publisher *p)
{
    posting_free_scratches(p);
    ticket_free_all(p);
}

/* Where publishes go out ------------------------------------------------------------------------------------------ */

static coney_publisher *own_publisher(const coney_broker *broker)
{
    return broker != NULL ? broker->publishers : NULL;
}

coney_out coney_out_of(coney_delivery *delivery)
{
    return (coney_out){
        .publisher = delivery != NULL ? own_publisher(delivery->subscription->broker) : NULL,
        .delivery = delivery,
    };
}

coney_out coney_out_by(coney_delivery *delivery, coney_publisher *publisher)
{
    return (coney_out){.publisher = publisher, .delivery = delivery};
}

coney_out coney_out_of_broker(coney_broker *broker)
{
    return coney_out_by_publisher(own_publisher(broker));
}

coney_out coney_out_of_batch(coney_batch *batch)
{
    const coney_delivery *first = batch != NULL ? coney_batch_delivery(batch, 0) : NULL;
    return (coney_out){
        .publisher = first != NULL ? own_publisher(first->subscription->broker) : NULL,
        .batch = batch,
    };
}
