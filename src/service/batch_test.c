/* batch_test.c: what closes a batch, what its handler gets, and how its elements are settled; virtual, and with lanes. */
#define _GNU_SOURCE
#include "service/dispatch_fixture.h"

#include "base/thread.h"
#include "service/batch.h"

#include <unistd.h>

static struct stage t;

enum { MANY = 300 };

static struct fake_message messages[MANY];

static int setup(void **state)
{
    (void)state;
    stage_make(&t);
    memset(messages, 0, sizeof messages);
    for (size_t i = 0; i < MANY; i++)
        messages[i].body = CONEY_STR("5");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_stop(&t);
    return 0;
}

/* What the handler does with its batch beside returning stage->how. */
static void (*with_batch)(coney_batch *batch, size_t count);

static coney_settle raw_batch(coney_batch *batch, const coney_bytes *values, size_t count)
{
    struct stage *stage = coney_batch_ctx(batch);
    assert_int_equal(batch_count(batch), count);
    journal_add(&stage->seen, "[");
    for (size_t i = 0; i < count && count < 20; i++) {
        assert_ptr_equal(coney_delivery_body(coney_batch_delivery(batch, i)).data, values[i].data);
        journal_add(&stage->seen, "%.*s", (int)values[i].len, (const char *)values[i].data);
    }
    journal_add(&stage->seen, "]%zu", count);
    if (with_batch != NULL)
        with_batch(batch, count);
    return stage->how;
}
CONEY_RAW_BATCH_HANDLER(raw_batch);

static coney_settle typed_batch(coney_batch *batch, const number *values, size_t count)
{
    struct stage *stage = coney_batch_ctx(batch);
    journal_add(&stage->seen, "[");
    for (size_t i = 0; i < count; i++)
        journal_add(&stage->seen, "%llu", (unsigned long long)values[i].id);
    journal_add(&stage->seen, "]");
    if (with_batch != NULL)
        with_batch(batch, count);
    return stage->how;
}
CONEY_BATCH_HANDLER(typed_batch, number);

static void start(const coney_subscription *subscription)
{
    with_batch = NULL;
    stage_start(&t, subscription);
}

static void deliver(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        assert_int_equal(stage_deliver(&t, &messages[i]), CONEY_KEPT);
}

/* What closes it ------------------------------------------------------------------------------------------------------------------ */

static void a_full_batch_is_handled_at_once(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 3});
    deliver(0, 2);
    assert_string_equal(t.seen.text, "");
    deliver(2, 7);
    assert_string_equal(t.seen.text, "[ 5 5 5 ]3 [ 5 5 5 ]3");
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
    assert_int_equal(messages[6].settles, 0);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.batches), 2);
    assert_int_equal(counter_get(&stats.batched), 6);
    assert_int_equal(counter_get(&stats.calls), 2);
    assert_int_equal(counter_get(&stats.received), 7);
}

static void the_first_message_waits_so_long_for_the_others(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 3, .batch_wait = 100});
    deliver(0, 1);
    stage_advance(&t, 60);
    deliver(1, 2);
    stage_advance(&t, 39);
    assert_string_equal(t.seen.text, "");
    stage_advance(&t, 1);
    assert_string_equal(t.seen.text, "[ 5 5 ]2");
    deliver(2, 5);
    assert_string_equal(t.seen.text, "[ 5 5 ]2 [ 5 5 5 ]3");
    stage_advance(&t, 50);
    deliver(5, 6);
    stage_advance(&t, 99);
    assert_string_equal(t.seen.text, "[ 5 5 ]2 [ 5 5 5 ]3");
    stage_advance(&t, 1);
    assert_string_equal(t.seen.text, "[ 5 5 ]2 [ 5 5 5 ]3 [ 5 ]1");
}

static void the_end_of_a_burst_closes_it_and_nothing_before_but_its_size(void **state)
{
    (void)state;
    t.fake.bursts = true;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 3, .batch_wait = CONEY_OFF});
    deliver(0, 1);
    assert_string_equal(t.seen.text, "[ 5 ]1"); /* one alone is a burst, too, before any other came */
    t.seen.text[0] = '\0';
    for (size_t i = 0; i < 4; i++)
        messages[i].more = true;
    deliver(0, 4);
    assert_string_equal(t.seen.text, "[ 5 5 5 ]3");
    deliver(4, 5);
    assert_string_equal(t.seen.text, "[ 5 5 5 ]3 [ 5 5 ]2");
    deliver(5, 6);
    assert_string_equal(t.seen.text, "[ 5 5 5 ]3 [ 5 5 ]2 [ 5 ]1");
}

static void without_bursts_and_without_a_wait_only_size_closes_it(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 100, .batch_wait = CONEY_OFF});
    deliver(0, 99);
    stage_advance(&t, 3600 * CONEY_SECOND);
    assert_string_equal(t.seen.text, "");
    deliver(99, 100);
    assert_string_equal(t.seen.text, "[ ]100");
}

/* Settlements ----------------------------------------------------------------------------------------------------------------------- */

static void one_settlement_is_for_all(void **state)
{
    (void)state;
    const coney_settle rows[] = {CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE, 8, CONEY_FAILED, CONEY_KEPT};
    const coney_settle hows[] = {CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE, 8, CONEY_SECOND, CONEY_SECOND};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        setup(NULL);
        start(&(coney_subscription){.handler = raw_batch_handler, .batch = 2});
        t.how = rows[row];
        deliver(0, 2);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(fake_await_settled(&t.fake, &messages[i]), hows[row]);
        stage_stop(&t);
    }
}

static void settle_some(coney_batch *batch, size_t count)
{
    (void)count;
    coney_batch_settle(batch, 0, CONEY_REQUEUE);
    coney_batch_settle(batch, 0, CONEY_REJECT);
    coney_batch_settle(batch, 2, 9);
    coney_batch_settle(batch, 1, CONEY_KEPT);
    coney_batch_settle(batch, 99, CONEY_REJECT);
}

static void elements_may_be_settled_each_in_its_own_way(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 3});
    with_batch = settle_some;
    deliver(0, 3);
    assert_int_equal(fake_await_settled(&t.fake, &messages[0]), CONEY_REJECT);
    assert_int_equal(fake_await_settled(&t.fake, &messages[1]), CONEY_ACK);
    assert_int_equal(fake_await_settled(&t.fake, &messages[2]), 9);
    assert_logged(&t, "elements of a batch cannot be settled as CONEY_KEPT");
}

static void an_element_that_cannot_be_decoded_is_settled_alone(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = typed_batch_handler, .batch = 4});
    messages[0].body = CONEY_STR("x");
    messages[1].body = CONEY_STR("1");
    messages[2].content_type = "text/html";
    messages[3].body = CONEY_STR("3");
    deliver(0, 4);
    assert_string_equal(t.seen.text, "[ 1 3 ]");
    const coney_settle hows[] = {CONEY_REJECT, CONEY_ACK, CONEY_REJECT, CONEY_ACK};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), hows[i]);
    for (size_t i = 4; i < 8; i++)
        messages[i].body = CONEY_STR("x");
    deliver(4, 8);
    assert_string_equal(t.seen.text, "[ 1 3 ]");
    assert_int_equal(fake_await_settled(&t.fake, &messages[7]), CONEY_REJECT);
}

static void refuse_what_is_not_for_elements(coney_batch *batch, size_t count)
{
    (void)count;
    coney_delivery *d = coney_batch_delivery(batch, 0);
    assert_null(coney_delivery_keep(d));
    assert_int_equal(coney_after(d, stage_noted, &t), CONEY_EINVAL);
    assert_null(coney_batch_delivery(batch, 99));
}

static void elements_have_no_continuations_and_are_not_kept_one_by_one(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 1});
    with_batch = refuse_what_is_not_for_elements;
    deliver(0, 1);
    assert_int_equal(fake_await_settled(&t.fake, &messages[0]), CONEY_ACK);
}

static void publish_for_all(coney_batch *batch, size_t count)
{
    (void)count;
    coney_publish_options to = {.to = "out"};
    assert_int_equal(coney_publish_raw(coney_out_of_batch(batch), CONEY_STR("x"), CONEY_STR(""), &to), CONEY_OK);
    assert_int_equal(coney_publish_raw(coney_out_of(coney_batch_delivery(batch, 1)), CONEY_STR("y"), CONEY_STR(""), &to),
                     CONEY_OK);
}

static void what_is_published_for_a_batch_holds_all_of_it(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 2, .on_publish_failure = CONEY_POLICY_REJECT});
    t.fake.hold_outcomes = true;
    with_batch = publish_for_all;
    deliver(0, 2);
    assert_int_equal(messages[0].settles + messages[1].settles, 0);
    fake_outcome(&t.fake, 0, CONEY_OK);
    assert_int_equal(fake_await_settled(&t.fake, &messages[0]), CONEY_ACK);
    assert_int_equal(messages[1].settles, 0);
    fake_outcome(&t.fake, 1, CONEY_EREFUSED);
    assert_int_equal(fake_await_settled(&t.fake, &messages[1]), CONEY_REJECT);
}

static void what_is_gathered_at_a_drain_goes_back(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 10});
    deliver(0, 5);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_string_equal(t.seen.text, "");
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(messages[i].settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

/* With threads ------------------------------------------------------------------------------------------------------------------------ */

static void batches_run_on_lanes_and_time_closes_them(void **state)
{
    (void)state;
    with_batch = NULL;
    stage_start_real(
        &t, &(coney_subscription){
                .handler = raw_batch_handler, .batch = 7, .lanes = 3, .lane_queue = 14, .batch_wait = CONEY_MILLISECOND});
    deliver(0, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.batched), MANY);
    assert_true(counter_get(&stats.batches) >= (MANY + 6) / 7);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void *deliver_many(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < MANY; i++)
        fake_deliver(&t.fake, "in", &messages[i]);
    return NULL;
}

static void a_stop_in_the_middle_settles_each_message_once_or_never(void **state)
{
    (void)state;
    with_batch = NULL;
    stage_start_real(
        &t, &(coney_subscription){
                .handler = raw_batch_handler, .batch = 7, .lanes = 2, .lane_queue = 7, .batch_wait = CONEY_MICROSECOND});
    pthread_t source;
    assert_int_equal(thread_start(&source, "source", deliver_many, NULL), CONEY_OK);
    fake_await_settled(&t.fake, &messages[20]);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    pthread_join(source, NULL);
    for (size_t i = 0; i < MANY; i++)
        assert_true(messages[i].settles <= 1);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void say_why(coney_batch *batch, size_t count)
{
    (void)count;
    coney_batch_settle(batch, 0, CONEY_ACK);
    t.how = coney_failed(coney_batch_delivery(batch, 2), "the disk is full");
}

static void the_failure_of_a_batch_is_one_line_with_its_reason(void **state)
{
    (void)state;
    start(&(coney_subscription){.handler = raw_batch_handler, .batch = 5, .on_failure = CONEY_POLICY_REJECT});
    with_batch = say_why;
    deliver(0, 5);
    assert_int_equal(fake_await_settled(&t.fake, &messages[0]), CONEY_ACK);
    assert_int_equal(fake_await_settled(&t.fake, &messages[4]), CONEY_REJECT);
    assert_string_equal(t.log.text, "subscription 'in': a batch of 4 messages has failed: the disk is full: it is rejected\n");
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.failed), 4);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_null(strstr(t.log.text, "more like it"));
}

/* Of a log ---------------------------------------------------------------------------------------------------------------------------- */

static const coney_settle *played; /* what each call of the handler below returns */
static _Atomic size_t plays;

/* Writes down what it gets, and which attempt it is when it is not the first. */
static coney_settle play_batch(coney_batch *batch, const coney_bytes *values, size_t count)
{
    struct stage *stage = coney_batch_ctx(batch);
    char text[256] = "";
    for (size_t i = 0; i < count; i++) {
        const coney_delivery *d = coney_batch_delivery(batch, i);
        text_append(text, sizeof text, "%.*s%s", (int)values[i].len, (const char *)values[i].data,
                    coney_delivery_info_of(d)->redelivered ? "'" : "");
        if (coney_delivery_attempt(d) > 1)
            text_append(text, sizeof text, "%llu", (unsigned long long)coney_delivery_attempt(d));
    }
    journal_add(&stage->seen, "%s", text);
    size_t play = atomic_fetch_add(&plays, 1);
    if (with_batch != NULL && play == 0)
        with_batch(batch, count);
    return played[play];
}
CONEY_RAW_BATCH_HANDLER(play_batch);

static void start_log(const coney_subscription *subscription, const coney_settle *hows)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    for (size_t i = 0; i < sizeof letters - 1; i++) {
        messages[i].body = coney_bytes_of(&letters[i], 1);
        messages[i].has_offset = true;
        messages[i].offset = i;
    }
    t.fake.ordered = true;
    t.fake.counts = true;
    with_batch = NULL;
    played = hows;
    atomic_store(&plays, 0);
    coney_subscription described = *subscription;
    described.handler = play_batch_handler;
    described.batch_wait = CONEY_OFF;
    stage_start_real(&t, &described);
}

/* Until that many calls have been, and the lane pauses. */
static void await_plays(size_t count)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    while ((atomic_load(&plays) < count || dispatch_running(t.s) > 0) && time_now() < deadline)
        usleep(1000);
    assert_int_equal(atomic_load(&plays), count);
    assert_int_equal(dispatch_running(t.s), 0);
}

static void *stop_the_app(void *arg)
{
    (void)arg;
    coney_app_stop(t.app, NULL);
    return NULL;
}

static void a_failed_batch_of_a_log_comes_again_before_what_is_behind_it(void **state)
{
    (void)state;
    static const coney_settle hows[] = {CONEY_FAILED, CONEY_REQUEUE, 1, CONEY_ACK, CONEY_ACK, CONEY_ACK};
    start_log(&(coney_subscription){.batch = 2, .on_failure = 30 * CONEY_MILLISECOND}, hows);
    deliver(0, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
        assert_int_equal(messages[i].settles, 1);
    }
    assert_string_equal(t.seen.text, "ab a'2b'2 a'3b'3 a'4b'4 cd ef");
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.acked), 6);
    assert_int_equal(counter_get(&stats.retried), 4);
    assert_int_equal(counter_get(&stats.requeued), 2);
    assert_int_equal(counter_get(&stats.received), 12);
}

static void requeue_the_ends(coney_batch *batch, size_t count)
{
    coney_batch_settle(batch, 0, CONEY_REQUEUE);
    coney_batch_settle(batch, count - 1, coney_retry_after(CONEY_MILLISECOND));
}

static void only_those_elements_come_again_that_are_told_to(void **state)
{
    (void)state;
    static const coney_settle hows[] = {CONEY_REJECT, CONEY_ACK, CONEY_ACK};
    start_log(&(coney_subscription){.batch = 4}, hows);
    with_batch = requeue_the_ends;
    deliver(0, 8);
    const coney_settle ends[] = {CONEY_ACK, CONEY_REJECT, CONEY_REJECT, CONEY_ACK};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), ends[i]);
    assert_int_equal(fake_await_settled(&t.fake, &messages[7]), CONEY_ACK);
    assert_string_equal(t.seen.text, "abcd a'2d'2 efgh");
}

static void an_element_of_a_log_comes_no_more_often_than_it_may(void **state)
{
    (void)state;
    static const coney_settle hows[] = {CONEY_REQUEUE, CONEY_REQUEUE, CONEY_REQUEUE, CONEY_ACK};
    messages[1].attempt = 2;
    start_log(&(coney_subscription){.batch = 2, .max_attempts = 3, .dead_letter = "dead"}, hows);
    deliver(0, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
    assert_string_equal(t.seen.text, "ab2 a'2b'3 a'3 cd");
    assert_int_equal(t.fake.published_count, 2);
    assert_string_equal(t.fake.published[0].body, "b");
    assert_int_equal(t.fake.published[1].attempts, 3);
}

static void what_a_batch_of_a_log_has_published_is_awaited_and_a_failure_brings_it_again(void **state)
{
    (void)state;
    static const coney_settle hows[] = {CONEY_ACK, CONEY_ACK, CONEY_ACK};
    start_log(&(coney_subscription){.batch = 2, .on_publish_failure = CONEY_POLICY_RETRY}, hows);
    t.fake.hold_outcomes = true;
    with_batch = publish_for_all;
    deliver(0, 4);
    fake_await_published(&t.fake, 2);
    assert_string_equal(t.seen.text, "ab");
    fake_outcome(&t.fake, 0, CONEY_OK);
    assert_int_equal(fake_await_settled(&t.fake, &messages[0]), CONEY_ACK);
    assert_int_equal(atomic_load(&plays), 1);
    fake_outcome(&t.fake, 1, CONEY_EREFUSED);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
    assert_string_equal(t.seen.text, "ab b'2 cd");
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
}

static void a_stop_does_not_wait_for_what_is_to_come_again_and_leaves_it_unsettled(void **state)
{
    (void)state;
    static const coney_settle hows[] = {3600 * CONEY_SECOND};
    start_log(&(coney_subscription){.batch = 2}, hows);
    deliver(0, 6);
    await_plays(1);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(messages[i].settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
    assert_string_equal(t.seen.text, "ab");
}

static void a_stop_waits_for_what_a_batch_of_a_log_has_published(void **state)
{
    (void)state;
    static const coney_settle hows[] = {CONEY_ACK};
    start_log(&(coney_subscription){.batch = 2, .on_publish_failure = CONEY_POLICY_RETRY}, hows);
    t.fake.hold_outcomes = true;
    with_batch = publish_for_all;
    deliver(0, 4);
    fake_await_published(&t.fake, 2);
    pthread_t stopper;
    assert_int_equal(thread_start(&stopper, "stopper", stop_the_app, NULL), CONEY_OK);
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    while (!dispatch_is_halted(t.s->dispatch) && time_now() < deadline)
        usleep(1000);
    assert_true(dispatch_is_halted(t.s->dispatch));
    fake_outcome(&t.fake, 0, CONEY_OK);
    fake_outcome(&t.fake, 1, CONEY_OK);
    pthread_join(stopper, NULL);
    assert_int_equal(messages[0].settles + messages[1].settles, 2);
    assert_int_equal(messages[2].settles, 0);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void a_seek_drops_what_was_to_come_again(void **state)
{
    (void)state;
    static const coney_settle hows[] = {3600 * CONEY_SECOND, CONEY_ACK};
    start_log(&(coney_subscription){.batch = 2}, hows);
    deliver(0, 6);
    await_plays(1);
    const coney_position first = {.at = CONEY_STREAM_FIRST};
    assert_int_equal(coney_app_seek(t.app, "in", &first, NULL), CONEY_OK);
    deliver(6, 8);
    assert_int_equal(fake_await_settled(&t.fake, &messages[7]), CONEY_ACK);
    assert_string_equal(t.seen.text, "ab gh");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_full_batch_is_handled_at_once),
        TEST(the_first_message_waits_so_long_for_the_others),
        TEST(the_end_of_a_burst_closes_it_and_nothing_before_but_its_size),
        TEST(without_bursts_and_without_a_wait_only_size_closes_it),
        TEST(one_settlement_is_for_all),
        TEST(elements_may_be_settled_each_in_its_own_way),
        TEST(an_element_that_cannot_be_decoded_is_settled_alone),
        TEST(elements_have_no_continuations_and_are_not_kept_one_by_one),
        TEST(what_is_published_for_a_batch_holds_all_of_it),
        TEST(what_is_gathered_at_a_drain_goes_back),
        TEST(the_failure_of_a_batch_is_one_line_with_its_reason),
        TEST(batches_run_on_lanes_and_time_closes_them),
        TEST(a_stop_in_the_middle_settles_each_message_once_or_never),
        TEST(a_failed_batch_of_a_log_comes_again_before_what_is_behind_it),
        TEST(only_those_elements_come_again_that_are_told_to),
        TEST(an_element_of_a_log_comes_no_more_often_than_it_may),
        TEST(what_a_batch_of_a_log_has_published_is_awaited_and_a_failure_brings_it_again),
        TEST(a_stop_does_not_wait_for_what_is_to_come_again_and_leaves_it_unsettled),
        TEST(a_stop_waits_for_what_a_batch_of_a_log_has_published),
        TEST(a_seek_drops_what_was_to_come_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
