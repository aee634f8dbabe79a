/* published.c: expectations of what the app has published, of its log and its queues. */
#include "base/text.h"
#include "testkit/kit.h"
#include "transport/memory.h"

enum { WHAT_LONGEST = 512 };

/* Messages ----------------------------------------------------------------------------------------------------------------------- */

static size_t count_published(const coney_test *t, const struct test_claim *claim)
{
    return test_read(t, &claim->place->published);
}

static const struct test_published *published_at(const coney_test *t, const struct test_place *place, size_t index)
{
    const struct test_published *published = t->published;
    while (!test_is_at(place, published) || index-- > 0)
        published = published->next;
    return published;
}

const coney_test_message *coney_test_expect_published(coney_test *test, const char *destination)
{
    struct test_place *place = test_place(test, destination);
    if (place == NULL)
        return NULL;
    struct test_claim claim = {.count = count_published, .expected = place->given + 1, .at_least = true, .place = place};
    if (!test_await(test, &claim)) {
        test_fail_place(test, &claim);
        return NULL;
    }
    lock_acquire(&test->lock);
    const struct test_published *published = published_at(test, place, place->given++);
    lock_release(&test->lock);
    return &published->message;
}

void coney_test_expect_published_count(coney_test *test, const char *destination, size_t count)
{
    struct test_claim claim = {.count = count_published, .expected = count, .place = test_place(test, destination)};
    if (claim.place != NULL && !test_await(test, &claim))
        test_fail_place(test, &claim);
}

const void *coney_test_expect_value(coney_test *test, const char *destination, const coney_type *type)
{
    const coney_test_message *message = coney_test_expect_published(test, destination);
    if (message == NULL)
        return NULL;
    char what[WHAT_LONGEST];
    text_print(what, sizeof what, "destination '%s': message %zu", destination, test_place(test, destination)->given - 1);
    const coney_codec *codec = test_codec(test, test_broker(test), message->content_type);
    return test_decode(test, codec, message->body, &message->info, type, what);
}

void coney_test_expect_header(coney_test *test, const coney_test_message *message, const char *name, coney_value value)
{
    coney_value found;
    char was[160];
    char expected[160];
    if (message == NULL) {
        test_fail(test, "header '%s': there is no message", name);
        return;
    }
    test_value_text(expected, sizeof expected, &value);
    if (!coney_value_find(&message->info.headers, coney_bytes_str(name), &found)) {
        test_fail(test, "the message to '%s' has no header '%s'; expected %s", (const char *)message->to.data, name, expected);
        return;
    }
    if (test_values_equal(&found, &value))
        return;
    test_value_text(was, sizeof was, &found);
    test_fail(test, "the message to '%s' has header '%s' = %s; expected %s", (const char *)message->to.data, name, was,
              expected);
}

void coney_test_on_publish(coney_test *test, const char *destination,
                           void (*hook)(void *ctx, const coney_test_message *message), void *ctx)
{
    struct test_place *place = test_place(test, destination);
    if (place == NULL)
        return;
    lock_acquire(&test->lock);
    place->on_publish = hook;
    place->ctx = ctx;
    lock_release(&test->lock);
}

/* Failing publishes -------------------------------------------------------------------------------------------------------------- */

void coney_test_fail_publishes(coney_test *test, coney_status outcome, size_t count)
{
    bool is_outcome = outcome == CONEY_EREFUSED || outcome == CONEY_ERETURNED || outcome == CONEY_EUNKNOWN;
    if (test->options.live) {
        test_fail(test, "coney_test_fail_publishes is not possible live: the outcomes are the broker's");
    } else if (!is_outcome) {
        test_fail(test, "%s is no outcome of a publish: CONEY_EREFUSED, CONEY_ERETURNED or CONEY_EUNKNOWN",
                  coney_status_name(outcome));
    } else {
        test->failure_as = outcome;
        test->failures = count;
    }
}

/* The log and the queues ---------------------------------------------------------------------------------------------------------- */

static const char *level_name(coney_log_level level)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    return level >= CONEY_LOG_ERROR && level <= CONEY_LOG_DEBUG ? names[level - CONEY_LOG_ERROR] : "unknown";
}

static size_t count_logged(const coney_test *t, const struct test_claim *claim)
{
    struct lock *lock = (struct lock *)&t->lock; /* nothing else is changed */
    size_t count = 0;
    lock_acquire(lock);
    for (const struct test_line *line = t->lines; line != NULL; line = line->next)
        count += line->level == claim->level && strstr(line->text, claim->text) != NULL;
    lock_release(lock);
    return count;
}

void coney_test_expect_logged(coney_test *test, coney_log_level level, const char *text)
{
    struct test_claim claim = {.count = count_logged, .expected = 1, .at_least = true, .text = text, .level = level};
    if (test_await(test, &claim))
        return;
    char said[2048] = "";
    lock_acquire(&test->lock);
    for (const struct test_line *line = test->lines; line != NULL; line = line->next)
        if (line->level <= level)
            text_append(said, sizeof said, "\n  %s: %s", level_name(line->level), line->text);
    lock_release(&test->lock);
    test_fail(test, "no line of level %s has '%s' in it; logged so far:%s", level_name(level), text,
              said[0] != '\0' ? said : " nothing");
}

void coney_test_expect_waiting(coney_test *test, const char *queue, size_t count)
{
    coney_broker *broker = test_broker(test);
    if (broker == NULL)
        return;
    if (test->options.live) {
        test_fail(test, "coney_test_expect_waiting is not possible live");
        return;
    }
    size_t ready = memory_ready(broker, queue);
    if (ready == SIZE_MAX)
        test_fail(test, "broker '%s' has no queue '%s'", broker->label, queue);
    else if (ready != count)
        test_fail(test, "queue '%s' of broker '%s': %zu messages wait in it, expected %zu", queue, broker->label, ready, count);
}
