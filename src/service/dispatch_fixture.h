/* dispatch_fixture.h: an app with one subscription on a fake transport, started: virtual, so that a test runs everything on its own thread, or with its threads.
 *
 *     struct stage t;
 *     stage_start(&t, &(coney_subscription){.handler = settle_handler});          // or stage_start_real
 *     struct fake_message m = {.body = CONEY_STR("7")};
 *     assert_int_equal(stage_deliver(&t, &m), CONEY_ACK);
 *     stage_stop(&t);
 *
 * The handlers below do what `script` says and write down what they saw.
 */
#ifndef CONEY_DISPATCH_FIXTURE_H
#define CONEY_DISPATCH_FIXTURE_H

#include "service/dispatch.h"
#include "service/service_fixture.h"

#define NUMBER(F) F(u64, id)
CONEY_TYPE(number, NUMBER);
#define EVEN(F) F(u64, id)
CONEY_TYPE(even, EVEN);
#define ODD(F) F(u64, id)
CONEY_TYPE(odd, ODD);
#define PARITY(M) M(even, "even") M(odd, "odd")
CONEY_SET(parity, PARITY, header("parity"));
CONEY_SET(any_parity, PARITY);

/* A codec whose bodies are decimal numbers; "even" and "odd" take only theirs. */
FIXTURE coney_status number_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                   coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    (void)arena;
    uint64_t id = 0;
    for (size_t i = 0; i < body.len; i++) {
        unsigned digit = ((const unsigned char *)body.data)[i] - '0';
        if (digit > 9) {
            text_print(fault->text, sizeof fault->text, "id: '%.*s' is no number", (int)body.len, (const char *)body.data);
            return CONEY_ECORRUPT;
        }
        id = id * 10 + digit;
    }
    if ((strcmp(type->name, "even") == 0 && id % 2 != 0) || (strcmp(type->name, "odd") == 0 && id % 2 == 0)) {
        text_print(fault->text, sizeof fault->text, "id: not %s", type->name);
        return CONEY_ECORRUPT;
    }
    memcpy(out, &id, sizeof id);
    return CONEY_OK;
}

FIXTURE coney_status number_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                   coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    (void)type;
    (void)arena;
    (void)fault;
    uint64_t id = 0;
    char text[24];
    memcpy(&id, value, sizeof id);
    text_print(text, sizeof text, "%llu", (unsigned long long)id);
    coney_sink_write(sink, text, strlen(text));
    return CONEY_OK;
}

FIXTURE const coney_codec number_codec = {
    .name = "number", .content_type = "text/number", .decode = number_decode, .encode = number_encode};

struct stage {
    coney_app *app;
    coney_broker *broker;
    struct subscription *s;
    struct fake fake;
    struct journal journal;
    struct journal log;
    struct journal seen;                                /* what the handler saw */
    coney_settle how;                                   /* what it returns */
    void (*script)(struct stage *t, coney_delivery *d); /* what it does before */
    coney_delivery *delivery;                           /* the last one's */
    coney_kept *kept;                                   /* for scripts that keep */
    struct journal after;                               /* continuations: "0", "-1" … */
    _Atomic unsigned calls;
    bool transactional; /* set before the start: there is a publisher `by` */
    coney_publisher *by;
    const struct dispatch_probe *probe; /* set before the start */
};

FIXTURE void stage_log(void *ctx, coney_log_level level, const char *text)
{
    struct stage *t = ctx;
    if (level <= CONEY_LOG_WARNING)
        journal_add(&t->log, "%s\n", text);
}

/* Handlers ------------------------------------------------------------------------------------------------------------------ */

FIXTURE coney_settle stage_play(coney_delivery *d)
{
    struct stage *t = coney_delivery_ctx(d);
    t->delivery = d;
    atomic_fetch_add(&t->calls, 1);
    if (t->script != NULL)
        t->script(t, d);
    return t->how;
}

FIXTURE coney_settle raw(coney_delivery *d, coney_bytes body)
{
    struct stage *t = coney_delivery_ctx(d);
    journal_add(&t->seen, "%.*s", (int)body.len, (const char *)body.data);
    return stage_play(d);
}
CONEY_RAW_HANDLER(raw);

FIXTURE coney_settle typed(coney_delivery *d, const number *n)
{
    struct stage *t = coney_delivery_ctx(d);
    journal_add(&t->seen, "%llu", (unsigned long long)n->id);
    return stage_play(d);
}
CONEY_HANDLER(typed, number);

/* Life ------------------------------------------------------------------------------------------------------------------------ */

FIXTURE void stage_make(struct stage *t)
{
    memset(t, 0, sizeof *t);
    t->fake.journal = &t->journal;
}

FIXTURE void stage_begin(struct stage *t, const coney_subscription *subscription, const coney_app_options *options,
                         bool is_virtual)
{
    coney_app_options own = options != NULL ? *options : (coney_app_options){0};
    own.on_log = stage_log;
    own.log_ctx = t;
    own.log_level = CONEY_LOG_DEBUG;
    own.codec = &number_codec;
    t->app = coney_app_new("stage", "1");
    coney_app_configure(t->app, &own);
    t->broker = fake_broker(t->app, &t->fake);
    t->app->dispatch_probe = t->probe;
    if (t->transactional)
        t->by = coney_publisher_new(t->broker, &(coney_publisher_options){.name = "by", .policy = CONEY_PUBLISH_TRANSACTION});
    coney_subscription described = *subscription;
    coney_queue_source source = {.name = "in"};
    described.source = coney_source_queue(&source);
    described.ctx = t;
    assert_int_equal(coney_subscribe(t->broker, &described), CONEY_OK);
    if (is_virtual) {
        t->app->worker = worker_new("stage", true, 0);
        t->app->is_virtual = true;
    }
    coney_call call = {0};
    if (coney_app_start(t->app, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    t->s = app_subscription(t->app, "in");
    assert_non_null(t->s);
    journal_clear(&t->journal);
}

FIXTURE void stage_start(struct stage *t, const coney_subscription *subscription)
{
    stage_begin(t, subscription, NULL, true);
}

FIXTURE void stage_start_real(struct stage *t, const coney_subscription *subscription)
{
    stage_begin(t, subscription, NULL, false);
}

FIXTURE void stage_stop(struct stage *t)
{
    coney_app_free(&t->app);
}

FIXTURE coney_settle stage_deliver(struct stage *t, struct fake_message *m)
{
    return fake_deliver(&t->fake, "in", m);
}

/* Runs what the virtual worker has to do now. */
FIXTURE void stage_work(struct stage *t)
{
    while (worker_run_one(t->app->worker))
        ;
}

FIXTURE void stage_advance(struct stage *t, int64_t ns)
{
    worker_set_now(t->app->worker, worker_now(t->app->worker) + ns);
    stage_work(t);
}

FIXTURE struct subscription_stats stage_stats(struct stage *t)
{
    struct subscription_stats stats;
    dispatch_stats(t->s, &stats);
    return stats;
}

#define assert_logged(t, words)                                                                                                \
    do {                                                                                                                       \
        if (strstr((t)->log.text, words) == NULL)                                                                              \
            fail_msg("'%s' is not in the log:\n%s", words, (t)->log.text);                                                     \
    } while (0)

/* Scripts ----------------------------------------------------------------------------------------------------------------------- */

FIXTURE void stage_publish(struct stage *t, coney_delivery *d)
{
    (void)t;
    coney_publish_options to = {.to = "out"};
    assert_int_equal(coney_publish_raw(coney_out_of(d), CONEY_STR("x"), CONEY_STR(""), &to), CONEY_OK);
}

FIXTURE void stage_keep(struct stage *t, coney_delivery *d)
{
    t->kept = coney_delivery_keep(d);
    assert_non_null(t->kept);
}

FIXTURE void stage_noted(void *ctx, coney_settle how)
{
    struct stage *t = ctx;
    journal_add(&t->after, "%lld", (long long)how);
}

FIXTURE void stage_continue(struct stage *t, coney_delivery *d)
{
    assert_int_equal(coney_after(d, stage_noted, t), CONEY_OK);
}

#endif
