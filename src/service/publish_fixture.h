/* publish_fixture.h: an app whose publishers are open on a fake transport, without a start, and deliveries in the hands of their handler. */
#ifndef CONEY_SERVICE_PUBLISH_FIXTURE_H
#define CONEY_SERVICE_PUBLISH_FIXTURE_H

#include "service/app.h"
#include "service/dispatch.h"
#include "service/posting.h"
#include "service/service_fixture.h"

#define ORDER(F) F(u64, id) F(string, customer)
CONEY_MESSAGE(order, ORDER);

struct rig {
    struct journal journal;
    struct fake fake;
    coney_app *app;
    coney_broker *broker;
    struct journal log;
    struct fake_message message;
    struct incoming in;
    struct fake_feed feed;
    struct subscription subscription;
    struct dispatch dispatch;
    coney_delivery delivery;
};

FIXTURE void rig_log(void *ctx, coney_log_level level, const char *text)
{
    struct rig *rig = ctx;
    (void)level;
    journal_add(&rig->log, "%s", text);
}

/* A delivery whose handler runs. */
FIXTURE void rig_receive(struct rig *rig)
{
    coney_delivery *d = &rig->delivery;
    rig->feed = (struct fake_feed){.fake = &rig->fake, .name = "requests", .is_open = true};
    rig->feed.feed.transport = &fake_transport;
    rig->in = (struct incoming){.feed = &rig->feed.feed, .native = &rig->message, .body = rig->message.body};
    rig->subscription = (struct subscription){.app = rig->app, .broker = rig->broker, .name = "requests"};
    coney_arena *arena = d->arena != NULL ? d->arena : coney_arena_new();
    rig->dispatch = (struct dispatch){.app = rig->app, .transport = &fake_transport, .subscription = &rig->subscription};
    *d = (coney_delivery){.subscription = &rig->subscription, .dispatch = &rig->dispatch, .arena = arena};
    delivery_begin(d, &rig->in);
}

FIXTURE void rig_open(struct rig *rig)
{
    struct mistakes mistakes = {0};
    assert_int_equal(fake_transport.connect(&rig->fake, rig->broker, NULL), CONEY_OK);
    for (coney_publisher *p = rig->broker->publishers; p != NULL; p = p->next) {
        publisher_check(p, &mistakes);
        assert_int_equal(mistakes.count, 0);
        assert_int_equal(publisher_open(p, NULL), CONEY_OK);
    }
    journal_clear(&rig->journal);
}

FIXTURE void rig_close(struct rig *rig)
{
    for (coney_publisher *p = rig->broker->publishers; p != NULL; p = p->next)
        assert_int_equal(publisher_close(p, NULL), CONEY_OK);
}

FIXTURE int rig_setup(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->fake.journal = &rig->journal;
    rig->app = coney_app_new("publishing", "1");
    coney_app_configure(rig->app, &(coney_app_options){.on_log = rig_log, .log_ctx = rig, .log_level = CONEY_LOG_WARNING});
    rig->broker = fake_broker(rig->app, &rig->fake);
    assert_non_null(rig->broker);
    rig_receive(rig);
    *state = rig;
    return 0;
}

FIXTURE int rig_teardown(void **state)
{
    struct rig *rig = *state;
    rig_close(rig);
    coney_arena_free(&rig->delivery.arena);
    coney_app_free(&rig->app);
    free(rig);
    return 0;
}

/* What was published last. */
FIXTURE const struct fake_published *rig_last(const struct rig *rig)
{
    assert_true(rig->fake.published_count > 0);
    return &rig->fake.published[rig->fake.published_count - 1];
}

FIXTURE void rig_logged(struct rig *rig, const char *text)
{
    if (strstr(rig->log.text, text) == NULL)
        fail_msg("the log has no '%s': %s", text, rig->log.text);
}

#endif
