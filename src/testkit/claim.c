/* claim.c: whether something has happened as often as is claimed, and what is said when it has not. */
#include "base/text.h"
#include "base/time.h"
#include "testkit/kit.h"

enum { TEXT_LONGEST = 2048 };

/* What is counted elsewhere wakes nobody. */
#define LOOK_AGAIN (10 * CONEY_MILLISECOND)

static bool holds(const coney_test *t, struct test_claim *claim)
{
    claim->actual = claim->count(t, claim);
    return claim->at_least ? claim->actual >= claim->expected : claim->actual == claim->expected;
}

static void wait_for_news(coney_test *t)
{
    lock_acquire(&t->lock);
    cond_wait(&t->changed, &t->lock, time_after(time_now(), LOOK_AGAIN));
    lock_release(&t->lock);
    test_run_hooks(t);
}

bool test_await(coney_test *t, struct test_claim *claim)
{
    int64_t deadline = time_after(time_now(), t->options.settle_limit);
    bool is_so = holds(t, claim);
    while (t->options.live && !is_so && claim->actual < claim->expected && time_now() < deadline) {
        wait_for_news(t);
        is_so = holds(t, claim);
    }
    lock_acquire(&t->lock);
    bool out_of_memory = t->out_of_memory;
    lock_release(&t->lock);
    if (out_of_memory)
        test_fail(t, "memory is out: not all that the app did was written down");
    return is_so;
}

/* "ACK 1, RETRIED 1" */
static void write_settled(const coney_test *t, char *buf, size_t cap, const struct test_subject *subject)
{
    const char *between = "";
    buf[0] = '\0';
    for (unsigned way = 0; way < TEST_WAYS; way++) {
        size_t count = test_settled(t, subject, way);
        if (count > 0) {
            text_append(buf, cap, "%s%s %zu", between, test_way_names[way], count);
            between = ", ";
        }
    }
    if (buf[0] == '\0')
        text_print(buf, cap, "nothing");
}

void test_fail_subject(coney_test *t, const struct test_claim *claim, const char *what)
{
    const struct test_subject *subject = claim->subject;
    char text[TEXT_LONGEST];
    char settled[128];
    write_settled(t, settled, sizeof settled, subject);
    lock_acquire(&t->lock);
    const char *fault = test_last_fault(t, subject);
    text_print(text, sizeof text, "subscription '%s': %s; received so far: %zu; settled so far: %s%s%s",
               subject->subscription->name, what, subject->received_count, settled, fault[0] != '\0' ? "; last fault: " : "",
               fault);
    lock_release(&t->lock);
    test_fail(t, "%s", text);
}

/* "'receipts' 1, 'audit' 2". Under the lock. */
static void write_published(const coney_test *t, const coney_broker *broker, char *buf, size_t cap)
{
    const char *between = "";
    for (const struct test_place *place = t->places; place != NULL; place = place->next) {
        char name[96];
        if (place->broker != broker || place->published == 0)
            continue;
        text_from_wire(name, sizeof name, place->name);
        text_append(buf, cap, "%s'%s' %zu", between, name, place->published);
        between = ", ";
    }
    if (between[0] == '\0')
        text_append(buf, cap, "nothing");
}

void test_fail_place(coney_test *t, const struct test_claim *claim)
{
    const struct test_place *place = claim->place;
    char text[TEXT_LONGEST];
    lock_acquire(&t->lock);
    text_print(text, sizeof text,
               "destination '%s' of broker '%s': %zu messages were published, expected %zu%s; published so far: ",
               (const char *)place->name.data, place->broker->label, claim->actual, claim->expected,
               claim->at_least ? " or more" : "");
    write_published(t, place->broker, text, sizeof text);
    lock_release(&t->lock);
    test_fail(t, "%s", text);
}
