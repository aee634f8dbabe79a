/* coney/test.h: an app under test, with no server: everything inside this process and on this thread, time stands still unless it is advanced.
 *
 *     coney_test *t = coney_test_start(orders_app(), NULL);
 *     order o = {.id = 42, .customer = CONEY_STR("ada"), .total = 9.5};
 *     assert_int_equal(CONEY_OK, order_publish(coney_test_out(t), "orders", &o));     // returns when all that it causes has happened
 *     coney_test_expect_settled(t, "orders", CONEY_ACK, 1);
 *     assert_int_equal(receipt_expect(t, "receipts")->order_id, 42);
 *     coney_test_stop(&t);                                                            // fails on anything left unsettled
 *
 * A broker in memory stands in for every broker of the app: for AMQP with exchanges, bindings, competing consumers, dead-lettering, delivery limits
 * and expiry as the server has them, for streams with offsets. It reads the same settings, refuses what the server would refuse, and answers
 * CONEY_EUNSUPPORTED for what it does not model: it never succeeds where the server would fail, with one exception. A queue or stream that a source, a
 * destination of the default exchange or a dead_letter names, and that is not declared, counts as one that the server has: misspelt names are found live
 * only. Lanes run one after the other.
 *
 * What is expected and not so fails the test through coney_test_options.on_failure; without one the text goes to standard error and the process aborts. So no
 * test framework is needed, and any will do. Subscriptions are named as in coney_subscription, by name or source. One thread. All that a function returns
 * lives until coney_test_stop. When on_failure returns, so does what has failed: with NULL or nothing.
 *
 * An assertion of a framework may jump out of a hook, and coney_test_stop works after it. One that jumps out of a handler leaves the app inside of it:
 * coney_test_stop then leaves the app's memory as it is.
 *
 * With `.live` the app runs on its real brokers instead, and expectations wait up to `settle_limit` for what they expect.
 */
#ifndef CONEY_TEST_H
#define CONEY_TEST_H

#include <coney/service.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coney_test_options {
    void (*on_failure)(void *ctx, const char *text); /* may longjmp away, as assertions of test frameworks do */
    void *ctx;
    int64_t settle_limit; /* live: how long an expectation waits; default 10 s */
    int64_t max_steps;    /* deliveries that one publish may cause before it fails as endless; default 10,000 */
    int64_t now;          /* the time at which it begins, milliseconds since 1970; default: the clock's */
    bool live;
    bool keep_log; /* the app's own on_log is called; else lines are kept for coney_test_expect_logged alone */
    uint8_t reserved[6];
} coney_test_options;

/* Takes the app and starts it. A start that fails fails the test (with the mistakes in the text) and gives NULL. */
CONEY_API coney_test *coney_test_start_sized(coney_app *app, const coney_test_options *options, size_t size);
static inline coney_test *coney_test_start(coney_app *app, const coney_test_options *options)
{
    return coney_test_start_sized(app, options, sizeof *options);
}

/* The start must fail and say `text` somewhere, in its call or in the log. Takes and frees the app. */
CONEY_API void coney_test_expect_refused_sized(coney_app *app, const coney_test_options *options, size_t size,
                                               const char *text);
static inline void coney_test_expect_refused(coney_app *app, const coney_test_options *options, const char *text)
{
    coney_test_expect_refused_sized(app, options, sizeof *options, text);
}

/* Stops and frees the app; fails on deliveries that were not settled, and on an app that failed unless coney_test_expect_stopped said so; not when the test has failed
 * already. A message that waits for its next attempt was settled; one that waits in a batch was not. Clears *test; NULL there is harmless. */
CONEY_API void coney_test_stop(coney_test **test);

CONEY_API coney_app *coney_test_app(const coney_test *test);

/* Everything below speaks of the app's only broker, or of the one of this label from here on. */
CONEY_API void coney_test_on(coney_test *test, const char *broker_label);

/* In ------------------------------------------------------------------------------------------------------------------------ */

/* Publishes as somebody outside would: T_publish(coney_test_out(t), "orders", &o), T_publish_with(…). It returns when everything that it causes has happened but
 * what waits for time, with the outcome as its status: CONEY_ERETURNED when no queue takes the message, CONEY_ENOTFOUND for an exchange that is not
 * there, CONEY_EREFUSED by a queue that is full. AMQP: the destination is a routing key of the default exchange, or of another one with coney_test_out_to. The
 * codec is the broker's. Requests are possible, too: T_request(coney_test_out(t).publisher, …). None of it is a publish of the app's. */
CONEY_API coney_out coney_test_out(coney_test *test);
CONEY_API coney_out coney_test_out_to(coney_test *test, const char *exchange);

/* Runs what is ready: after the app was made to do something otherwise than by coney_test_out. */
CONEY_API void coney_test_settle(coney_test *test);

/* Moves the time, running what falls due on the way in its order. Not from a hook. Live: waits for so long. */
CONEY_API void coney_test_advance(coney_test *test, int64_t ns);

/* What handlers did ---------------------------------------------------------------------------------------------------------- */

/* The subscription has settled exactly `count` messages as `how` so far, after all policies (CONEY_RETRIED for any retry with a delay). */
#define CONEY_RETRIED ((coney_settle)1)
CONEY_API void coney_test_expect_settled(coney_test *test, const char *subscription, coney_settle how, size_t count);

/* Its handler was called exactly `count` times so far: once a message, or once a batch. */
CONEY_API void coney_test_expect_called(coney_test *test, const char *subscription, size_t count);
CONEY_API void coney_test_expect_undecodable(coney_test *test, const char *subscription, size_t count);
CONEY_API void coney_test_expect_failed(coney_test *test, const char *subscription, size_t count);
CONEY_API void coney_test_expect_batches(coney_test *test, const char *subscription, const size_t *sizes, size_t count);

/* The last message that it was given is `body`, byte for byte. Typed: T_received(t, subscription, index), decoded anew, fails when there is none. */
CONEY_API void coney_test_expect_received_raw(coney_test *test, const char *subscription, coney_bytes body);
CONEY_API coney_bytes coney_test_received_raw(coney_test *test, const char *subscription, size_t index);

/* Runs after each of its handler's calls, on the test's thread, between two deliveries: it may publish, expect and fail. Live: while the test waits or settles.
 * One a subscription; NULL: none. */
CONEY_API void coney_test_on_call(coney_test *test, const char *subscription, void (*hook)(void *ctx, coney_settle how),
                                  void *ctx);

/* What was published --------------------------------------------------------------------------------------------------------- */

/* One message that the app published (not one of coney_test_out): publishes that were accepted, messages of transactions when they are committed, requests,
 * replies, and copies for dead letters and further attempts. Views end in a NUL that is not counted. */
typedef struct coney_test_message {
    coney_bytes to;
    coney_bytes exchange;
    coney_bytes body;
    coney_bytes content_type;
    coney_delivery_info info;
} coney_test_message;

/* The next message that was published to `destination` (a queue, a stream, a topic, a routing key), each time the one after; fails when there is none. Typed:
 * T_expect(t, destination). */
CONEY_API const coney_test_message *coney_test_expect_published(coney_test *test, const char *destination);
CONEY_API void coney_test_expect_published_count(coney_test *test, const char *destination, size_t count);
CONEY_API void coney_test_expect_header(coney_test *test, const coney_test_message *message, const char *name,
                                        coney_value value);

/* Runs after each publish to it, as coney_test_on_call. */
CONEY_API void coney_test_on_publish(coney_test *test, const char *destination,
                                     void (*hook)(void *ctx, const coney_test_message *message), void *ctx);

/* The next `count` publishes of the app fail with this outcome: CONEY_EREFUSED, CONEY_ERETURNED, CONEY_EUNKNOWN; not live. */
CONEY_API void coney_test_fail_publishes(coney_test *test, coney_status outcome, size_t count);

/* The app ---------------------------------------------------------------------------------------------------------------------- */

CONEY_API void coney_test_expect_running(coney_test *test);
CONEY_API void coney_test_expect_stopped(coney_test *test,
                                         coney_status status); /* it asked to stop: CONEY_OK, or a failure of this status */
CONEY_API void coney_test_expect_logged(coney_test *test, coney_log_level level,
                                        const char *text); /* some line has `text` in it */
CONEY_API void coney_test_expect_waiting(coney_test *test, const char *queue,
                                         size_t count); /* messages ready in it, and it is there; not live */

#ifdef __cplusplus
}
#endif

#endif
