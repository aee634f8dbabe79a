/* testkit_fixture.h: messages, an app of one handler that does as it is told, and failures that are caught. Tests only. */
#ifndef CONEY_TESTKIT_FIXTURE_H
#define CONEY_TESTKIT_FIXTURE_H

#include <coney/test.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FIXTURE static inline __attribute__((unused))

#define ORDER(F) F(u64, id) F(string, customer) F(f64, total)
CONEY_MESSAGE(order, ORDER);
#define RECEIPT(F) F(u64, order_id)
CONEY_MESSAGE(receipt, RECEIPT);

/* Failures ----------------------------------------------------------------------------------------------------------------------- */

static jmp_buf failed;
static char failure_text[8192];

FIXTURE void on_failure(void *ctx, const char *text)
{
    (void)ctx;
    snprintf(failure_text, sizeof failure_text, "%s", text);
    longjmp(failed, 1);
}

#define CATCHING (&(coney_test_options){.on_failure = on_failure})

/* The statement must fail the test, with these words in the text. */
#define assert_fails(words, statement)                                                                                         \
    do {                                                                                                                       \
        if (setjmp(failed) == 0) {                                                                                             \
            statement;                                                                                                         \
            fail_msg("nothing failed; expected '%s'", words);                                                                  \
        }                                                                                                                      \
        if (strstr(failure_text, words) == NULL)                                                                               \
            fail_msg("failed with \"%s\"; expected '%s' in it", failure_text, words);                                          \
    } while (0)

/* What must hold: a failure is the test's. */
#define assert_holds(statement)                                                                                                \
    do {                                                                                                                       \
        if (setjmp(failed) != 0)                                                                                               \
            fail_msg("%s", failure_text);                                                                                      \
        statement;                                                                                                             \
    } while (0)

/* An app ------------------------------------------------------------------------------------------------------------------------- */

/* What the handler does with its next messages: their settlements in order, the last one for all that follow; published to `then` before, when there is one. */
static struct {
    coney_settle hows[8];
    size_t count;
    size_t calls;
    const char *then;
    coney_kept *kept;
} script;

FIXTURE coney_settle play(coney_delivery *d, const order *o)
{
    coney_settle how =
        script.count > 0 ? script.hows[script.calls < script.count ? script.calls : script.count - 1] : CONEY_ACK;
    script.calls++;
    if (script.then != NULL && receipt_publish(coney_out_of(d), script.then, &(receipt){.order_id = o->id}) != CONEY_OK)
        return coney_failed(d, NULL);
    if (how == CONEY_KEPT)
        script.kept = coney_delivery_keep(d);
    return how;
}
CONEY_HANDLER(play, order);

#define SCRIPT(...)                                                                                                            \
    do {                                                                                                                       \
        const coney_settle hows_[] = {__VA_ARGS__};                                                                            \
        memset(&script, 0, sizeof script);                                                                                     \
        memcpy(script.hows, hows_, sizeof hows_);                                                                              \
        script.count = sizeof hows_ / sizeof hows_[0];                                                                         \
    } while (0)

FIXTURE coney_broker *rabbit_of(coney_app **app)
{
    *app = coney_app_new("shop", "1.0.0");
    return coney_app_amqp(*app, "amqp://localhost", NULL);
}

/* An app with this subscription; its handler is the script's when it has none, its source the queue "orders". */
FIXTURE coney_app *app_with(coney_subscription subscription)
{
    coney_app *app;
    coney_broker *rabbit = rabbit_of(&app);
    const coney_queue_source orders = {.name = "orders"};
    if (subscription.source.of == NULL)
        subscription.source = coney_source_queue(&orders);
    if (subscription.handler.name == NULL)
        subscription.handler = play_handler;
    assert_int_equal(coney_subscribe(rabbit, &subscription), CONEY_OK);
    return app;
}

FIXTURE coney_test *start(coney_app *app)
{
    coney_test *volatile t = NULL;
    assert_holds(t = coney_test_start(app, CATCHING));
    return t;
}

FIXTURE void stop(coney_test *t)
{
    assert_holds(coney_test_stop(&t));
}

FIXTURE coney_status send(coney_test *t, uint64_t id)
{
    return order_publish(coney_test_out(t), "orders", &(order){.id = id, .customer = CONEY_STR("ada"), .total = 9.5});
}

#define assert_sent(t, id) assert_int_equal(send(t, id), CONEY_OK)

#endif
