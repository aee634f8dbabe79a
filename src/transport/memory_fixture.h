/* memory_fixture.h: a broker in memory under test, without the framework around it: sinks that write down what they get and settle as they are told. Tests only. */
#ifndef CONEY_TRANSPORT_MEMORY_FIXTURE_H
#define CONEY_TRANSPORT_MEMORY_FIXTURE_H

#include "service/app.h"
#include "service/subscription.h"
#include "transport/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SCENE_READERS = 4, SCENE_KEPT = 16 };

/* One subscription's end: what came, joined by spaces; `how` is what the next deliveries get, `plan` (a character each) before it: a ack, r reject, q requeue,
 * k keep. */
struct reader {
    struct sink sink; /* first */
    struct feed *feed;
    const char *plan;
    coney_settle how;
    char got[4096];
    size_t count;
    uint64_t attempt; /* of the last one */
    uint64_t offset;
    bool more;
    struct incoming kept[SCENE_KEPT];
    size_t kept_count;
    void (*on_delivery)(struct reader *reader, struct incoming *m);
    void *ctx;
};

struct scene {
    coney_app *app;
    coney_broker *broker;
    struct outlet *outlet;
    struct reader readers[SCENE_READERS]; /* of the broker's subscriptions, in order */
    coney_outcome outcome;
    char outcome_text[256];
    size_t outcomes;
    coney_call call;
};

static inline coney_settle reader_deliver(struct sink *sink, struct incoming *m)
{
    struct reader *r = (struct reader *)sink;
    size_t len = strlen(r->got);
    snprintf(r->got + len, sizeof r->got - len, "%s%.*s", len > 0 ? " " : "", (int)m->body.len, (const char *)m->body.data);
    r->count++;
    r->attempt = m->feed->transport->attempt(m);
    r->offset = m->offset;
    r->more = m->more;
    if (r->on_delivery != NULL)
        r->on_delivery(r, m);
    char step = r->plan != NULL && *r->plan != '\0' ? *r->plan++ : '\0';
    if (step == '\0')
        return r->how;
    if (step == 'k') {
        assert_true(m->feed->transport->keep(m));
        r->kept[r->kept_count++] = *m;
        return CONEY_KEPT;
    }
    return step == 'r' ? CONEY_REJECT : step == 'q' ? CONEY_REQUEUE : CONEY_ACK;
}

static inline void scene_outcome(void *ctx, const coney_outcome *outcome)
{
    struct scene *s = ctx;
    s->outcome.tag = outcome->tag;
    s->outcome.status = outcome->status;
    s->outcome.code = outcome->code;
    snprintf(s->outcome_text, sizeof s->outcome_text, "%s", outcome->text);
    s->outcomes++;
}

#define SCENE_NOW (INT64_C(1700000000) * CONEY_SECOND)

/* An app with one broker, which is in memory and virtual from here on. */
static inline void scene_virtual(struct scene *s, coney_app *app, coney_broker *broker)
{
    memset(s, 0, sizeof *s);
    s->app = app;
    s->broker = broker;
    app->worker = worker_new("test", true, SCENE_NOW);
    assert_int_equal(memory_stand_in(broker), CONEY_OK);
}

static inline void scene_amqp(struct scene *s)
{
    coney_app *app = coney_app_new("test", "1");
    scene_virtual(s, app, coney_app_amqp(app, "amqp://localhost", NULL));
}

static inline void scene_stream(struct scene *s)
{
    coney_app *app = coney_app_new("test", "1");
    scene_virtual(s, app, coney_app_stream(app, "rabbitmq-stream://localhost", NULL));
}

static inline void scene_memory(struct scene *s, const coney_memory_options *options)
{
    coney_app *app = coney_app_new("test", "1");
    scene_virtual(s, app, options != NULL ? coney_app_memory(app, options) : coney_app_memory(app, &(coney_memory_options){0}));
}

static inline void scene_read(struct scene *s, coney_source source)
{
    assert_int_equal(coney_subscribe(s->broker, &(coney_subscription){.source = source}), CONEY_OK);
}

static inline struct outlet *scene_outlet(struct scene *s, const char *exchange)
{
    struct outlet *outlet = NULL;
    const struct outlet_options options = {.name = "out", .exchange = exchange, .outcome = scene_outcome, .ctx = s};
    assert_int_equal(s->broker->transport->open_outlet(s->broker->self, &options, &outlet, &s->call), CONEY_OK);
    return outlet;
}

static inline coney_status scene_try_start(struct scene *s)
{
    const struct transport *t = s->broker->transport;
    s->call = (coney_call){.deadline = 5 * CONEY_SECOND};
    coney_status status = t->connect(s->broker->self, s->broker, &s->call);
    if (status == CONEY_OK)
        status = t->declare(s->broker->self, &s->call);
    size_t i = 0;
    for (struct subscription *sub = s->broker->subscriptions; sub != NULL && status == CONEY_OK; sub = sub->next, i++) {
        s->readers[i].sink.deliver = reader_deliver;
        status = t->subscribe(s->broker->self, &sub->options, &s->readers[i].sink, &s->readers[i].feed, &s->call);
    }
    return status;
}

static inline void scene_start(struct scene *s)
{
    if (scene_try_start(s) != CONEY_OK)
        fail_msg("the start fails: %s", s->call.text);
    s->outlet = scene_outlet(s, NULL);
}

static inline void scene_run(struct scene *s)
{
    for (int i = 0; memory_run_one(s->broker); i++)
        assert_true(i < 1000);
}

/* Runs what falls due in so many nanoseconds. */
static inline void scene_advance(struct scene *s, int64_t ns)
{
    int64_t until = worker_now(s->app->worker) + ns;
    for (int64_t due = memory_next_due(s->broker); due <= until; due = memory_next_due(s->broker)) {
        worker_set_now(s->app->worker, due);
        scene_run(s);
    }
    worker_set_now(s->app->worker, until);
    scene_run(s);
}

static inline coney_status scene_send(struct scene *s, struct outlet *outlet, const struct outgoing *out)
{
    s->outcome = (coney_outcome){.status = CONEY_EUNKNOWN};
    coney_status status = outlet->transport->publish(outlet, out, 7);
    return status != CONEY_OK ? status : s->outcome.status;
}

/* Publishes, runs what it causes, and returns its outcome. */
static inline coney_status scene_publish(struct scene *s, const char *to, const char *body)
{
    const struct outgoing out = {.to = coney_bytes_str(to), .body = coney_bytes_str(body)};
    coney_status status = scene_send(s, s->outlet, &out);
    scene_run(s);
    return status;
}

static inline void scene_unsubscribe(struct scene *s, size_t reader)
{
    coney_call call = {.deadline = 5 * CONEY_SECOND};
    assert_int_equal(s->broker->transport->unsubscribe(s->readers[reader].feed, &call), CONEY_OK);
    s->readers[reader].feed = NULL;
}

static inline void scene_close(struct scene *s)
{
    const struct transport *t = s->broker->transport;
    for (size_t i = 0; i < SCENE_READERS; i++)
        if (s->readers[i].feed != NULL)
            scene_unsubscribe(s, i);
    if (s->outlet != NULL)
        t->close_outlet(s->outlet, &s->call);
    coney_call call = {.deadline = 5 * CONEY_SECOND};
    assert_int_equal(t->disconnect(s->broker->self, &call), CONEY_OK);
}

static inline void scene_end(struct scene *s)
{
    scene_close(s);
    struct worker *worker = s->app->worker;
    s->app->worker = NULL;
    coney_app_free(&s->app);
    worker_free(worker);
}

#endif
