/* amqp_rig.h: the service transport over AMQP, driven through its table of functions by the test instead of an app, and inboxes: sinks that write down
 * what comes and settle as the test says.
 *
 *     struct rig rig;
 *     rig_up(&rig, amqp_uri(node.amqp_port));
 *     struct inbox inbox = {0};
 *     rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
 *     rig_start(&rig);
 *     rig_publish(&rig, rig.queue, "m0");
 *     inbox_wait(&inbox, 1);
 *     …
 *     rig_down(&rig);
 *
 * For the test's thread. What fails fails the test with the call's text.
 */
#ifndef CONEY_TEST_AMQP_RIG_H
#define CONEY_TEST_AMQP_RIG_H

#include "support.h"

#include "amqp_scene.h"
#include "scene.h"

#include "base/text.h"
#include "service/subscription.h"

/* All of it is in the header, so that tests of the clients need nothing of services. */
#define RIG __attribute__((unused)) static

enum { RIG_FEEDS = 4, RIG_OWN = 16 };

struct arrival {
    char body[32];
    uint64_t attempt;
    uint64_t offset;
    int64_t at; /* now_ms */
    bool redelivered;
};

/* Zero: acks everything. */
struct inbox {
    struct sink sink; /* first */
    struct monitor monitor;
    struct arrival *all;
    size_t count;
    size_t cap;
    /* What the message becomes; without the lock. NULL: acked. */
    coney_settle (*decide)(struct inbox *inbox, struct incoming *m, size_t nth);
    void *ctx;       /* for it */
    size_t inactive; /* how often it was told so */
    size_t active_again;
    size_t ended;
    coney_status ended_status;
    char ended_text[600];
};

struct rig {
    coney_app *app;
    coney_broker *broker;
    const struct transport *transport;
    struct inbox *inboxes[RIG_FEEDS]; /* of the subscriptions, in order */
    struct feed *feeds[RIG_FEEDS];
    size_t feed_count;
    struct outlet *outlet;    /* confirmed, on the default exchange */
    struct outcomes outcomes; /* of it */
    char queue[80];           /* unlike any other */
    char other[80];
    coney_amqp *outside;    /* another environment, that sees what the service has done */
    char own[RIG_OWN][260]; /* queues that rig_down deletes */
    size_t own_count;
};

/* Inboxes ---------------------------------------------------------------------------------------------------------------- */

RIG struct inbox *inbox_at(struct sink *sink)
{
    return (struct inbox *)sink;
}

RIG coney_settle inbox_deliver(struct sink *sink, struct incoming *m)
{
    struct inbox *inbox = inbox_at(sink);
    const struct transport *transport = m->feed->transport;
    struct arrival arrival = {.attempt = transport->attempt(m), .offset = m->offset, .at = now_ms()};
    coney_delivery_info info = {0};
    transport->info(m, &info);
    arrival.redelivered = info.redelivered;
    text_print(arrival.body, sizeof arrival.body, "%.*s", (int)m->body.len, (const char *)m->body.data);
    monitor_lock(&inbox->monitor);
    if (inbox->count == inbox->cap) {
        inbox->cap = inbox->cap > 0 ? 2 * inbox->cap : 64;
        inbox->all = realloc(inbox->all, inbox->cap * sizeof *inbox->all);
    }
    size_t nth = inbox->count;
    inbox->all[inbox->count++] = arrival;
    monitor_broadcast(&inbox->monitor);
    monitor_unlock(&inbox->monitor);
    return inbox->decide != NULL ? inbox->decide(inbox, m, nth) : CONEY_ACK;
}

RIG void inbox_active(struct sink *sink, bool is)
{
    struct inbox *inbox = inbox_at(sink);
    monitor_lock(&inbox->monitor);
    inbox->inactive += !is;
    inbox->active_again += is;
    monitor_broadcast(&inbox->monitor);
    monitor_unlock(&inbox->monitor);
}

RIG void inbox_ended(struct sink *sink, coney_status status, const char *text)
{
    struct inbox *inbox = inbox_at(sink);
    monitor_lock(&inbox->monitor);
    inbox->ended++;
    inbox->ended_status = status;
    text_print(inbox->ended_text, sizeof inbox->ended_text, "%s", text);
    monitor_broadcast(&inbox->monitor);
    monitor_unlock(&inbox->monitor);
}

RIG bool inbox_comes_to(struct inbox *inbox, const size_t *counter, size_t count, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    bool in_time = true;
    monitor_lock(&inbox->monitor);
    while (*counter < count && in_time)
        in_time = monitor_wait(&inbox->monitor, until);
    bool reached = *counter >= count;
    monitor_unlock(&inbox->monitor);
    return reached;
}

RIG bool inbox_reach(struct inbox *inbox, size_t count, int64_t ms)
{
    return inbox_comes_to(inbox, &inbox->count, count, ms);
}

/* Wait until *counter, one of the inbox's, has come to `count`. */
RIG void inbox_wait_for(struct inbox *inbox, const size_t *counter, size_t count)
{
    if (!inbox_comes_to(inbox, counter, count, SUPPORT_PATIENCE))
        fail_msg("%zu came, %zu were expected", *counter, count);
}

RIG void inbox_wait(struct inbox *inbox, size_t count)
{
    inbox_wait_for(inbox, &inbox->count, count);
}

RIG size_t inbox_count(struct inbox *inbox)
{
    monitor_lock(&inbox->monitor);
    size_t count = inbox->count;
    monitor_unlock(&inbox->monitor);
    return count;
}

RIG struct arrival inbox_of(struct inbox *inbox, size_t n)
{
    monitor_lock(&inbox->monitor);
    assert_true(n < inbox->count);
    struct arrival arrival = inbox->all[n];
    monitor_unlock(&inbox->monitor);
    return arrival;
}

/* The n-th with this body; it must be there. */
RIG struct arrival inbox_find(struct inbox *inbox, const char *body, size_t n)
{
    size_t count = inbox_count(inbox);
    for (size_t i = 0; i < count; i++) {
        struct arrival arrival = inbox_of(inbox, i);
        if (strcmp(arrival.body, body) == 0 && n-- == 0)
            return arrival;
    }
    fail_msg("'%s' did not come that often", body);
    return (struct arrival){0};
}

RIG void inbox_free(struct inbox *inbox)
{
    free(inbox->all);
    monitor_free(&inbox->monitor);
}

/* The transport ---------------------------------------------------------------------------------------------------------- */

/* The queue is deleted in the end; gives the name. */
RIG const char *rig_owns(struct rig *rig, const char *name)
{
    assert_true(rig->own_count < RIG_OWN);
    text_print(rig->own[rig->own_count], sizeof rig->own[0], "%s", name);
    return rig->own[rig->own_count++];
}

/* An app with one broker; nothing is connected. rig_see: opens the environment beside it. */
RIG void rig_up(struct rig *rig, const char *uri)
{
    *rig = (struct rig){0};
    coney_amqp_options options = {.recovery_delay = 50 * CONEY_MILLISECOND, .recovery_max_delay = 500 * CONEY_MILLISECOND};
    rig->app = coney_app_new("rig", "1");
    rig->broker = coney_app_amqp(rig->app, uri, &options);
    assert_non_null(rig->broker);
    rig->broker->label = "amqp";
    rig->transport = rig->broker->transport;
    fresh_name(rig->queue, sizeof rig->queue, "service");
    fresh_name(rig->other, sizeof rig->other, "service");
    (void)rig_owns(rig, rig->queue);
    (void)rig_owns(rig, rig->other);
}

RIG void rig_see(struct rig *rig, const char *uri)
{
    coney_call call = {0};
    rig->outside = coney_amqp_open(uri, NULL, &call);
    if (rig->outside == NULL)
        fail_msg("no environment beside the service's: %s", call.text);
}

RIG void rig_add(struct rig *rig, struct inbox *inbox, const coney_subscription *subscription)
{
    assert_true(rig->feed_count < RIG_FEEDS);
    inbox->sink = (struct sink){.deliver = inbox_deliver, .active = inbox_active, .ended = inbox_ended};
    rig->inboxes[rig->feed_count++] = inbox;
    assert_int_equal(coney_subscribe(rig->broker, subscription), CONEY_OK);
}

/* The text of the mistakes, "" when there are none. Static memory. */
RIG const char *rig_mistakes(struct rig *rig)
{
    static char text[4096];
    struct mistakes mistakes = {.subject = "rig"};
    rig->transport->check_broker(rig->broker->self, &mistakes);
    for (struct subscription *s = rig->broker->subscriptions; s != NULL; s = s->next)
        rig->transport->check_source(rig->broker->self, &s->options, &mistakes);
    text_print(text, sizeof text, "%s", mistakes.text != NULL ? mistakes.text : "");
    mistakes_free(&mistakes);
    return text;
}

RIG struct outlet *rig_outlet(struct rig *rig, const struct outlet_options *options)
{
    coney_call call = {0};
    struct outlet *outlet = NULL;
    if (rig->transport->open_outlet(rig->broker->self, options, &outlet, &call) != CONEY_OK)
        fail_msg("no outlet: %s", call.text);
    return outlet;
}

RIG void rig_close_outlet(struct rig *rig, struct outlet **outlet)
{
    coney_call call = {.deadline = 2 * CONEY_SECOND};
    coney_status status = rig->transport->close_outlet(*outlet, &call);
    *outlet = NULL;
    if (status != CONEY_OK)
        fail_msg("the outlet did not close: %s: %s", coney_status_name(status), call.text);
}

RIG coney_status rig_try(struct rig *rig, coney_call *call)
{
    void *self = rig->broker->self;
    coney_status status = rig->transport->connect(self, rig->broker, call);
    if (status == CONEY_OK)
        status = rig->transport->declare(self, call);
    struct subscription *s = rig->broker->subscriptions;
    for (size_t i = 0; s != NULL && status == CONEY_OK; i++, s = s->next)
        status = rig->transport->subscribe(self, &s->options, &rig->inboxes[i]->sink, &rig->feeds[i], call);
    return status;
}

/* Checks, connects, declares, opens the outlet, subscribes. */
RIG void rig_start(struct rig *rig)
{
    coney_call call = {0};
    assert_string_equal(rig_mistakes(rig), "");
    coney_status status = rig_try(rig, &call);
    if (status != CONEY_OK)
        fail_msg("the service did not start: %s: %s", coney_status_name(status), call.text);
    struct outlet_options options = {.name = "rig", .outcome = outcomes_add, .ctx = &rig->outcomes};
    rig->outlet = rig_outlet(rig, &options);
}

/* The same, but one of them must fail: gives its text. */
RIG const char *rig_refused(struct rig *rig, coney_status status)
{
    static coney_call call;
    call = (coney_call){0};
    assert_string_equal(rig_mistakes(rig), "");
    coney_status got = rig_try(rig, &call);
    if (got != status)
        fail_msg("%s was expected, it was %s: %s", coney_status_name(status), coney_status_name(got), call.text);
    return call.text;
}

/* One message through the rig's outlet, and its outcome. */
RIG coney_status rig_publish_message(struct rig *rig, const struct outgoing *message)
{
    size_t nth = outcomes_count(&rig->outcomes);
    coney_status status = rig->transport->publish(rig->outlet, message, nth);
    if (status != CONEY_OK)
        return status;
    outcomes_wait(&rig->outcomes, nth + 1);
    return outcomes_of(&rig->outcomes, nth).status;
}

RIG void rig_publish(struct rig *rig, const char *to, const char *body)
{
    struct outgoing message = {.to = coney_bytes_str(to), .body = coney_bytes_str(body)};
    assert_int_equal(rig_publish_message(rig, &message), CONEY_OK);
}

/* Ends the subscriptions; disconnects; frees. */
RIG void rig_unsubscribe(struct rig *rig)
{
    for (size_t i = 0; i < rig->feed_count; i++) {
        coney_call call = {0};
        if (rig->feeds[i] != NULL && rig->transport->unsubscribe(rig->feeds[i], &call) != CONEY_OK)
            fail_msg("a subscription did not end: %s", call.text);
        rig->feeds[i] = NULL;
    }
}

RIG void rig_stop(struct rig *rig)
{
    coney_call call = {0};
    rig_unsubscribe(rig);
    if (rig->outlet != NULL)
        rig_close_outlet(rig, &rig->outlet);
    assert_int_equal(rig->transport->disconnect(rig->broker->self, &call), CONEY_OK);
}

RIG void rig_down(struct rig *rig)
{
    rig_stop(rig);
    for (size_t i = 0; rig->outside != NULL && i < rig->own_count; i++)
        (void)coney_amqp_queue_delete(rig->outside, rig->own[i], 0, NULL);
    coney_amqp_close(&rig->outside, NULL);
    coney_app_free(&rig->app);
    outcomes_free(&rig->outcomes);
}

/* Messages that are ready, seen from outside; waits until there are so many. */
RIG void rig_wait_for_ready(struct rig *rig, const char *queue, uint64_t count)
{
    uint64_t ready = UINT64_MAX;
    for (int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE); ready != count && now_ms() < until;) {
        coney_call call = {0};
        coney_amqp_queue passive = {.name = queue, .passive = true};
        if (coney_amqp_queue_declare(rig->outside, &passive, &call) != CONEY_OK)
            fail_msg("queue '%s' cannot be asked: %s", queue, call.text);
        ready = call.value;
    }
    if (ready != count)
        fail_msg("queue '%s' has %llu messages, not %llu", queue, (unsigned long long)ready, (unsigned long long)count);
}

#endif
