/* kit.h: what the files of the testkit share: an app under test, what was seen of it, and how a test fails.
 *
 * test.c starts and stops, outside.c is somebody who publishes from outside, drive.c runs what is ready and moves the time, record.c writes down what the app
 * does, claim.c waits for counts and says what is wrong with them, handled.c and published.c are the expectations, decode.c reads messages anew.
 *
 * In process everything is on the test's thread. Live, the app's threads write into the records, under the lock; hooks run on the test's thread in either case,
 * between two deliveries, so that a failed assertion in one may longjmp away.
 */
#ifndef CONEY_TESTKIT_KIT_H
#define CONEY_TESTKIT_KIT_H

#include "service/app.h"
#include "service/dispatch.h"
#include "service/publisher.h"

#include <coney/test.h>

enum { TEST_RETRIED = 3, TEST_WAYS = 4 }; /* in which a message is settled: test_way_names */
extern const char *const test_way_names[TEST_WAYS];

struct test_received {
    struct test_received *next;
    coney_bytes body;
    coney_delivery_info info;
};

struct test_batch {
    struct test_batch *next;
    size_t size;
};

/* What is known of a subscription. */
struct test_subject {
    struct test_subject *next;
    const struct subscription *subscription;
    struct test_received *received; /* the first of them, as below */
    struct test_received *last_received;
    size_t received_count;
    size_t called;
    size_t settled[TEST_WAYS];
    struct test_batch *batches;
    struct test_batch *last_batch;
    size_t batch_count;
    void (*on_call)(void *ctx, coney_settle how);
    void *ctx;
};

struct test_published {
    struct test_published *next;
    const coney_broker *broker;
    coney_test_message message;
};

/* A destination: something was published to it, or the test has asked about it. */
struct test_place {
    struct test_place *next;
    const coney_broker *broker;
    coney_bytes name; /* NUL behind it */
    size_t published;
    size_t given; /* messages that coney_test_expect_published has given */
    void (*on_publish)(void *ctx, const coney_test_message *message);
    void *ctx;
};

struct test_line {
    struct test_line *next;
    coney_log_level level;
    const char *text;
};

/* A hook that is still to be called. */
struct test_event {
    struct test_event *next;
    const struct test_subject *subject; /* after a call that returned `how`; or */
    coney_settle how;
    const struct test_place *place; /* after a publish */
    const coney_test_message *message;
};

struct coney_test {
    coney_app *app;
    coney_app *outside; /* never started: the brokers of outside.c, in the order of the app's */
    coney_test_options options;
    coney_broker *at; /* coney_test_on; NULL: the only one */
    struct log own_log;
    struct dispatch_probe dispatch_probe;
    struct publish_probe publish_probe;
    int64_t steps;           /* deliveries since the drive began */
    coney_status failure_as; /* of the next `failures` publishes */
    size_t failures;
    bool may_stop;
    bool is_driving;
    bool in_step; /* inside the app: a longjmp from here leaves it in mid-air */
    bool has_failed;

    struct lock lock; /* guards what follows */
    struct cond changed;
    coney_arena *memory;
    bool out_of_memory;
    struct test_subject *subjects;
    struct test_published *published;
    struct test_published *last_published;
    struct test_place *places;
    struct test_line *lines;
    struct test_line *last_line;
    struct test_event *events;
    struct test_event *last_event;
};

/* test.c ------------------------------------------------------------------------------------------------------------------------ */

/* Fails the test; returns when on_failure does. */
void test_fail(coney_test *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The broker that the test speaks of. NULL: it must say which, and has failed. */
coney_broker *test_broker(coney_test *t);

/* record.c ---------------------------------------------------------------------------------------------------------------------- */

/* Sets probes and log. False: memory is out. */
bool test_record(coney_test *t);

/* By name, else by source. NULL: there is none or more than one, and the test has failed. */
struct test_subject *test_subject(coney_test *t, const char *name);

/* Of the broker that the test speaks of; made when it is not there. NULL: the test has failed. */
struct test_place *test_place(coney_test *t, const char *destination);
bool test_is_at(const struct test_place *place, const struct test_published *published);

/* Calls the hooks that are to be called. */
void test_run_hooks(coney_test *t);

/* What the log says last of the subscription, or "". Under the lock. */
const char *test_last_fault(const coney_test *t, const struct test_subject *subject);

/* Messages that retries hold here until their time, with nothing told to the broker yet: settled, for a test. */
size_t test_held_copies(const struct subscription *s);

/* How many it has settled in one of the TEST_WAYS. */
size_t test_settled(const coney_test *t, const struct test_subject *subject, unsigned way);

/* One of the counts above, read under the lock. */
size_t test_read(const coney_test *t, const size_t *count);

/* Deliveries that outlived their handlers and wait for something else than time. */
size_t test_open_deliveries(const struct subscription *s);

/* outside.c --------------------------------------------------------------------------------------------------------------------- */

bool test_open_outside(coney_test *t);

/* Before the app stops. */
void test_close_outside(coney_test *t);

/* drive.c ----------------------------------------------------------------------------------------------------------------------- */

/* Runs what is ready, unless that is being done. False: there is no end to it. */
bool test_drive(coney_test *t);

/* The same, and fails when there is no end. */
void test_drive_to_the_end(coney_test *t);

/* claim.c ----------------------------------------------------------------------------------------------------------------------- */

/* That something has happened so many times. */
struct test_claim {
    size_t (*count)(const coney_test *t, const struct test_claim *claim);
    size_t expected;
    bool at_least;
    const struct test_subject *subject;
    const struct test_place *place;
    const char *text;
    coney_log_level level;
    unsigned way;
    size_t actual; /* set by test_await */
};

/* Whether it is so; live, it is waited for up to settle_limit. */
bool test_await(coney_test *t, struct test_claim *claim);

/* "subscription 'orders': settled 1 as ACK, expected 2; settled so far: …; last fault: …" */
void test_fail_subject(coney_test *t, const struct test_claim *claim, const char *what);

/* "published so far: receipts 1, audit 2" */
void test_fail_place(coney_test *t, const struct test_claim *claim);

/* decode.c ---------------------------------------------------------------------------------------------------------------------- */

/* The codec for what was published to a broker with this content type. */
const coney_codec *test_codec(const coney_test *t, const coney_broker *broker, coney_bytes content_type);

/* In the test's memory. NULL: it is no such type, and the test has failed; `what` is the message in words. */
const void *test_decode(coney_test *t, const coney_codec *codec, coney_bytes body, const coney_delivery_info *info,
                        const coney_type *type, const char *what);

/* The headers of what goes out through the broker, as a map in the test's memory. Under the lock. */
coney_value test_headers(coney_test *t, const coney_broker *broker, const struct outgoing *message);

bool test_values_equal(const coney_value *a, const coney_value *b);
void test_value_text(char *buf, size_t cap, const coney_value *value);

#endif
