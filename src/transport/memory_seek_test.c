/* memory_seek_test.c: a running app moves in a topic that keeps its messages: nothing of the old place comes afterwards, and nothing of the new one is counted twice. */
#include "base/time.h"
#include "service/app.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MESSAGES = 200, SEEKS = 200 };

static struct {
    struct lock lock;
    struct cond changed;
    uint64_t expected; /* the offset that comes next */
    size_t misplaced;
    size_t repeated;
    size_t seeks;
    bool is_done;
} seen;

/* Goes back to the beginning from somewhere in the first half, again and again, then reads to the end. */
static coney_settle follow(coney_delivery *d, coney_bytes body)
{
    (void)body;
    const coney_delivery_info *info = coney_delivery_info_of(d);
    lock_acquire(&seen.lock);
    seen.misplaced += info->offset != seen.expected;
    seen.repeated += coney_delivery_attempt(d) != 1;
    seen.expected = info->offset + 1;
    if (seen.seeks < SEEKS && info->offset == 1 + seen.seeks % (MESSAGES / 2)) {
        assert_int_equal(coney_seek(d, &(coney_position){.at = CONEY_STREAM_OFFSET, .offset = seen.seeks % 2}), CONEY_OK);
        seen.expected = seen.seeks % 2;
        seen.seeks++;
    }
    seen.is_done = seen.seeks == SEEKS && seen.expected == MESSAGES;
    cond_wake_all(&seen.changed);
    lock_release(&seen.lock);
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(follow);

static bool is_done_by(int64_t deadline)
{
    bool in_time = true;
    lock_acquire(&seen.lock);
    while (!seen.is_done && in_time)
        in_time = cond_wait(&seen.changed, &seen.lock, deadline);
    bool is_done = seen.is_done;
    lock_release(&seen.lock);
    return is_done;
}

static void after_a_seek_the_message_there_comes_next_then_the_rest(void **state)
{
    (void)state;
    coney_app *app = coney_app_new("seeker", "1");
    coney_broker *broker = coney_app_memory(app, &(coney_memory_options){.retain_messages = MESSAGES});
    coney_subscribe(
        broker, &(coney_subscription){.source = CONEY_TOPIC("log", .start = CONEY_STREAM_FIRST), .handler = follow_handler});
    coney_call call = {0};
    if (coney_app_start(app, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(coney_publish_raw(coney_out_of_broker(broker), CONEY_STR("m"), CONEY_STR(""),
                                           &(coney_publish_options){.to = "log"}),
                         CONEY_OK);
    bool is_done = is_done_by(time_after(time_now(), 60 * CONEY_SECOND));
    coney_app_free(&app);
    assert_int_equal(seen.misplaced, 0);
    assert_int_equal(seen.repeated, 0);
    assert_true(is_done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_seek_the_message_there_comes_next_then_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
