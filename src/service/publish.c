/* publish.c: publishing: middleware, the hand-over to the transport, outcomes. */
#include "base/text.h"
#include "service/app.h"
#include "service/batch.h"
#include "service/posting.h"
#include "service/ticket.h"

/* Outcomes -------------------------------------------------------------------------------------------------------- */

static const char *what_happened(coney_status status)
{
    switch ((int)status) {
    case CONEY_EREFUSED:
        return "was refused";
    case CONEY_ERETURNED:
        return "was returned, no queue took it";
    case CONEY_EUNKNOWN:
        return "may be stored or not";
    default:
        return "failed";
    }
}

static void log_failure(const coney_publisher *p, const struct ticket_reading *reading, const coney_outcome *outcome)
{
    const coney_delivery *delivery =
        reading->record != NULL && reading->record->count > 0 ? reading->record->deliveries[0] : reading->one;
    char line[POSTING_LONGEST_TO + 128];
    char to[POSTING_LONGEST_TO + 1];
    text_print(line, sizeof line, "a message");
    if (delivery != NULL)
        text_append(line, sizeof line, " of the subscription '%s'", delivery->subscription->name);
    ticket_place_text(p, reading->place, to, sizeof to);
    if (to[0] != '\0')
        text_append(line, sizeof line, " to '%s'", to);
    const char *words = outcome->text != NULL && outcome->text[0] != '\0' ? outcome->text : coney_status_text(outcome->status);
    app_log(p->broker->app, CONEY_LOG_WARNING, "publisher '%s': %s %s: %s", p->name, line, what_happened(outcome->status),
            words);
}

/* The struct may be longer than this library knows: it is copied only where the tag must be another one. */
static void tell_caller(const coney_publisher *p, const struct ticket_reading *reading, const coney_outcome *outcome)
{
    coney_outcome told;
    if (reading->record != NULL) {
        told = *outcome;
        told.tag = reading->tag;
        outcome = &told;
    }
    const coney_app *outer = app_calls(p->broker->app);
    p->options.on_outcome(p->options.ctx, outcome);
    app_called(outer);
}

/* What is no good outcome of a delivery alone: of the caller, of a batch, or a failure. */
static void tell(coney_publisher *p, const struct ticket_reading *reading, const coney_outcome *outcome)
{
    size_t count = reading->record != NULL ? reading->record->count : 0;
    bool is_callers = reading->one == NULL && count == 0 && p->options.on_outcome != NULL;
    if (outcome->status != CONEY_OK && !is_callers)
        log_failure(p, reading, outcome);
    if (is_callers)
        tell_caller(p, reading, outcome);
    for (size_t i = 0; i < count; i++)
        delivery_outcome(reading->record->deliveries[i], outcome->status);
    ticket_done(p, reading);
}

static __attribute__((noinline)) void take_outcome(coney_publisher *p, const coney_outcome *outcome)
{
    struct ticket_reading reading = ticket_read(p, outcome->tag);
    bool is_good = outcome->status == CONEY_OK;
    atomic_fetch_add_explicit(is_good ? &p->stats.confirmed : &p->stats.failed, 1, memory_order_relaxed);
    if (reading.one == NULL || !is_good)
        tell(p, &reading, outcome);
    if (reading.one != NULL)
        delivery_outcome(reading.one, outcome->status);
}

void publish_outcome(void *publisher, const coney_outcome *outcome)
{
    coney_publisher *p = publisher;
    coney_delivery *delivery = ticket_delivery(outcome->tag);
    bool is_plain = outcome->status == CONEY_OK && (delivery != NULL || ticket_is_nobodys(p, outcome->tag));
    if (__builtin_expect(!is_plain, 0)) {
        take_outcome(p, outcome);
        return;
    }
    atomic_fetch_add_explicit(&p->stats.confirmed, 1, memory_order_relaxed);
    if (delivery != NULL)
        delivery_outcome(delivery, CONEY_OK);
}

/* The hand-over --------------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) bool ticket_for(struct posting *g, const coney_publish *message, uint64_t *ticket)
{
    coney_publisher *p = g->publisher;
    uint32_t place = g->is_reply ? 0 : ticket_place(p, message->to);
    if (__builtin_expect(g->batch != NULL, 0))
        return ticket_record_batch(p, g->batch, place, ticket);
    return g->delivery != NULL ? ticket_of_delivery(p, g->delivery, place, ticket)
                               : ticket_of_caller(p, message->options->tag, place, ticket);
}

static void expect_all(const struct posting *g)
{
    for (size_t i = 0; i < batch_count(g->batch); i++)
        delivery_expect(coney_batch_delivery(g->batch, i));
}

/* The delivery, or all elements of the batch, wait for the message. */
static inline void expect(const struct posting *g)
{
    if (g->delivery != NULL)
        delivery_expect(g->delivery);
    if (__builtin_expect(g->batch != NULL, 0))
        expect_all(g);
}

static void unexpect(const struct posting *g)
{
    if (g->delivery != NULL)
        delivery_unexpect(g->delivery);
    for (size_t i = 0; g->batch != NULL && i < batch_count(g->batch); i++)
        delivery_unexpect(coney_batch_delivery(g->batch, i));
}

coney_status publish_probe_failure(const struct posting *g)
{
    const struct publish_probe *probe = g->publisher->broker->app->publish_probe;
    return probe != NULL && probe->fail != NULL ? probe->fail(probe->ctx, g->publisher->broker) : CONEY_OK;
}

void publish_probe_published(const struct posting *g, const struct outgoing *message)
{
    const struct publish_probe *probe = g->publisher->broker->app->publish_probe;
    if (__builtin_expect(probe != NULL, 0))
        probe->published(probe->ctx, g->publisher->broker, g->publisher->options.exchange, message);
}

static inline coney_status give_to_transport(struct posting *g, const struct outgoing *message, uint64_t ticket)
{
    coney_status failure = publish_probe_failure(g);
    if (__builtin_expect(failure != CONEY_OK, 0)) {
        publish_outcome(g->publisher, &(coney_outcome){.tag = ticket, .status = failure, .text = ""});
        return CONEY_OK;
    }
    coney_status status = g->transport->publish(g->outlet, message, ticket);
    if (status == CONEY_OK)
        publish_probe_published(g, message);
    return status;
}

static void take_back(struct posting *g, uint64_t ticket)
{
    unexpect(g);
    struct ticket_reading reading = ticket_read(g->publisher, ticket);
    ticket_done(g->publisher, &reading);
}

/* Statuses that the caller is expected to meet, and to try again, are not worth a line. */
static coney_status refused_by_transport(struct posting *g, const struct outgoing *message, coney_status status)
{
    if (status == CONEY_EAGAIN || status == CONEY_ETIMEDOUT || status == CONEY_ECLOSED || status == CONEY_ENOMEM)
        return status;
    char to[POSTING_LONGEST_TO + 1];
    text_from_wire(to, sizeof to, message->to);
    return posting_refuse(g, status, "the message to '%s' was not taken by %s: %s", to, g->transport->name,
                          coney_status_text(status));
}

static inline __attribute__((always_inline)) coney_status hand_over(struct posting *g, const coney_publish *message)
{
    struct outgoing outgoing;
    coney_status status = posting_outgoing(g, message, &outgoing);
    if (status != CONEY_OK)
        return status;
    if (g->publisher->options.policy == CONEY_PUBLISH_TRANSACTION)
        return transaction_add_in_delivery(g, &outgoing);
    uint64_t ticket;
    if (!ticket_for(g, message, &ticket))
        return CONEY_ENOMEM;
    expect(g);
    status = give_to_transport(g, &outgoing, ticket);
    if (__builtin_expect(status != CONEY_OK, 0)) {
        take_back(g, ticket);
        return refused_by_transport(g, &outgoing, status);
    }
    g->accepted++;
    return CONEY_OK;
}

/* Middleware ------------------------------------------------------------------------------------------------------ */

struct coney_publish_next {
    struct posting *posting;
    size_t at; /* of the app's, then the publisher's own, then the hand-over */
};

coney_status coney_publish_next_run(coney_publish_next *next, const coney_publish *message)
{
    const coney_publisher *p = next->posting->publisher;
    const coney_app *app = p->broker->app;
    struct coney_publish_next inner = {next->posting, next->at + 1};
    if (message == NULL || message->options == NULL)
        return posting_refuse(next->posting, CONEY_EINVAL, "middleware has handed on a message without its options");
    if (next->at < app->publish_middleware_count)
        return app->publish_middlewares[next->at].around(app->publish_middlewares[next->at].ctx, message, &inner);
    if (next->at == app->publish_middleware_count && p->options.around != NULL)
        return p->options.around(p->options.around_ctx, message, &inner);
    return hand_over(next->posting, message);
}

static inline __attribute__((always_inline)) coney_status send_through(struct posting *g)
{
    const coney_publisher *p = g->publisher;
    if (__builtin_expect(p->broker->app->publish_middleware_count == 0 && p->options.around == NULL, 1))
        return hand_over(g, &g->message);
    const coney_app *outer = app_calls(p->broker->app);
    coney_status status = coney_publish_next_run(&(struct coney_publish_next){g, 0}, &g->message);
    app_called(outer);
    return status;
}

coney_status publish_send(struct posting *g)
{
    return send_through(g);
}

/* Publishing ------------------------------------------------------------------------------------------------------ */

coney_status coney_publish_sized(coney_out out, const coney_type *type, const void *value, const coney_publish_options *options,
                                 size_t size)
{
    struct posting g;
    coney_status status = posting_begin(&g, &out, options, size, NULL);
    if (status != CONEY_OK)
        return status;
    status = posting_write(&g, type, value);
    return posting_end(&g, status == CONEY_OK ? send_through(&g) : status);
}

coney_status coney_publish_raw_sized(coney_out out, coney_bytes body, coney_bytes content_type,
                                     const coney_publish_options *options, size_t size)
{
    struct posting g;
    coney_status status = posting_begin(&g, &out, options, size, NULL);
    if (status != CONEY_OK)
        return status;
    status = posting_write_raw(&g, body, content_type);
    return posting_end(&g, status == CONEY_OK ? send_through(&g) : status);
}
