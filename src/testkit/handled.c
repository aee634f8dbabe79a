/* handled.c: expectations of what subscriptions were given and have done with it. */
#include "base/bytes.h"
#include "base/text.h"
#include "testkit/kit.h"

enum { WHAT_LONGEST = 512 };

/* Counts ------------------------------------------------------------------------------------------------------------------------- */

static size_t count_settled(const coney_test *t, const struct test_claim *claim)
{
    return test_settled(t, claim->subject, claim->way);
}

static size_t count_called(const coney_test *t, const struct test_claim *claim)
{
    return test_read(t, &claim->subject->called);
}

static size_t count_received(const coney_test *t, const struct test_claim *claim)
{
    return test_read(t, &claim->subject->received_count);
}

static size_t count_batches(const coney_test *t, const struct test_claim *claim)
{
    return test_read(t, &claim->subject->batch_count);
}

static size_t count_undecodable(const coney_test *t, const struct test_claim *claim)
{
    struct subscription_stats stats;
    (void)t;
    dispatch_stats(claim->subject->subscription, &stats);
    return counter_get(&stats.undecodable);
}

static size_t count_failed(const coney_test *t, const struct test_claim *claim)
{
    struct subscription_stats stats;
    (void)t;
    dispatch_stats(claim->subject->subscription, &stats);
    return counter_get(&stats.failed);
}

/* Expectations ------------------------------------------------------------------------------------------------------------------- */

void coney_test_expect_settled(coney_test *test, const char *subscription, coney_settle how, size_t count)
{
    char what[WHAT_LONGEST];
    struct test_claim claim = {.count = count_settled, .expected = count, .subject = test_subject(test, subscription)};
    if (claim.subject == NULL)
        return;
    if (how <= CONEY_KEPT) {
        test_fail(test, "%lld is no settlement: expect CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE or CONEY_RETRIED",
                  (long long)how);
        return;
    }
    claim.way = how > 0 ? TEST_RETRIED : (unsigned)-how;
    if (test_await(test, &claim))
        return;
    text_print(what, sizeof what, "settled %zu as %s, expected %zu", claim.actual, test_way_names[claim.way], count);
    test_fail_subject(test, &claim, what);
}

/* "WORDS N times, expected M" */
static void expect_count(coney_test *test, const char *subscription, struct test_claim claim, const char *words)
{
    char what[WHAT_LONGEST];
    claim.subject = test_subject(test, subscription);
    if (claim.subject == NULL || test_await(test, &claim))
        return;
    text_print(what, sizeof what, "%s %zu times, expected %zu", words, claim.actual, claim.expected);
    test_fail_subject(test, &claim, what);
}

void coney_test_expect_called(coney_test *test, const char *subscription, size_t count)
{
    expect_count(test, subscription, (struct test_claim){.count = count_called, .expected = count}, "its handler was called");
}

void coney_test_expect_undecodable(coney_test *test, const char *subscription, size_t count)
{
    expect_count(test, subscription, (struct test_claim){.count = count_undecodable, .expected = count},
                 "a message could not be decoded");
}

void coney_test_expect_failed(coney_test *test, const char *subscription, size_t count)
{
    expect_count(test, subscription, (struct test_claim){.count = count_failed, .expected = count}, "its handler failed");
}

/* Live there may be one more by now. */
static bool are_sizes(const struct test_subject *subject, const size_t *sizes, size_t count)
{
    const struct test_batch *batch = subject->batches;
    for (size_t i = 0; i < count; i++, batch = batch->next)
        if (batch->size != sizes[i])
            return false;
    return true;
}

static void write_sizes(char *buf, size_t cap, const struct test_subject *subject)
{
    for (const struct test_batch *batch = subject->batches; batch != NULL; batch = batch->next)
        text_append(buf, cap, "%s%zu", batch == subject->batches ? "" : ", ", batch->size);
}

void coney_test_expect_batches(coney_test *test, const char *subscription, const size_t *sizes, size_t count)
{
    char what[WHAT_LONGEST];
    struct test_claim claim = {.count = count_batches, .expected = count, .subject = test_subject(test, subscription)};
    if (claim.subject == NULL)
        return;
    bool is_so = test_await(test, &claim);
    lock_acquire(&test->lock);
    is_so = is_so && are_sizes(claim.subject, sizes, count);
    text_print(what, sizeof what, "%zu batches of (", claim.actual);
    write_sizes(what, sizeof what, claim.subject);
    lock_release(&test->lock);
    if (is_so)
        return;
    text_append(what, sizeof what, "), expected %zu of (", count);
    for (size_t i = 0; i < count; i++)
        text_append(what, sizeof what, "%s%zu", i == 0 ? "" : ", ", sizes[i]);
    text_append(what, sizeof what, ")");
    test_fail_subject(test, &claim, what);
}

/* Messages ----------------------------------------------------------------------------------------------------------------------- */

/* NULL: there is none, and the test has failed. */
static const struct test_received *received_at(coney_test *test, const struct test_subject *subject, size_t index)
{
    char what[WHAT_LONGEST];
    struct test_claim claim = {.count = count_received, .expected = index + 1, .at_least = true, .subject = subject};
    if (!test_await(test, &claim)) {
        text_print(what, sizeof what, "it was given %zu messages, expected one with index %zu", claim.actual, index);
        test_fail_subject(test, &claim, what);
        return NULL;
    }
    lock_acquire(&test->lock);
    const struct test_received *received = subject->received;
    while (index-- > 0)
        received = received->next;
    lock_release(&test->lock);
    return received;
}

static const struct test_received *last_received(coney_test *test, const struct test_subject *subject)
{
    if (received_at(test, subject, 0) == NULL)
        return NULL;
    lock_acquire(&test->lock);
    const struct test_received *last = subject->last_received;
    lock_release(&test->lock);
    return last;
}

void coney_test_expect_received_raw(coney_test *test, const char *subscription, coney_bytes body)
{
    const struct test_subject *subject = test_subject(test, subscription);
    const struct test_received *last = subject != NULL ? last_received(test, subject) : NULL;
    if (last == NULL || bytes_equal(last->body, body))
        return;
    char was[160];
    char expected[160];
    char what[WHAT_LONGEST];
    text_from_wire(was, sizeof was, last->body);
    text_from_wire(expected, sizeof expected, body);
    text_print(what, sizeof what, "the last message is '%s' (%zu bytes), expected '%s' (%zu bytes)", was, last->body.len,
               expected, body.len);
    test_fail_subject(test, &(struct test_claim){.subject = subject}, what);
}

coney_bytes coney_test_received_raw(coney_test *test, const char *subscription, size_t index)
{
    const struct test_subject *subject = test_subject(test, subscription);
    const struct test_received *received = subject != NULL ? received_at(test, subject, index) : NULL;
    return received != NULL ? received->body : coney_bytes_of(NULL, 0);
}

const void *coney_test_received_value(coney_test *test, const char *subscription, size_t index, const coney_type *type)
{
    const struct test_subject *subject = test_subject(test, subscription);
    const struct test_received *received = subject != NULL ? received_at(test, subject, index) : NULL;
    if (received == NULL)
        return NULL;
    const struct subscription *s = subject->subscription;
    const coney_codec *codec = s->codec != NULL ? s->codec : test_codec(test, s->broker, received->info.content_type);
    char what[WHAT_LONGEST];
    text_print(what, sizeof what, "subscription '%s': message %zu", s->name, index);
    return test_decode(test, codec, received->body, &received->info, type, what);
}

void coney_test_on_call(coney_test *test, const char *subscription, void (*hook)(void *ctx, coney_settle how), void *ctx)
{
    struct test_subject *subject = test_subject(test, subscription);
    if (subject == NULL)
        return;
    lock_acquire(&test->lock);
    subject->on_call = hook;
    subject->ctx = ctx;
    lock_release(&test->lock);
}
