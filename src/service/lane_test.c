/* lane_test.c: lanes with real threads: order by key, bounds, the drain. */
#include "service/dispatch_fixture.h"

#include "base/thread.h"
#include "service/lane.h"

#include <sched.h>
#include <stdio.h>

static struct stage t;

enum { MANY = 400 };

static struct fake_message messages[MANY];
static char bodies[MANY][16];
static const char *const keys[] = {"ada", "bea", "cleo", "dora", "eve", "fay", "gwen"};

/* Message i has key i % 7, and its body says which of that key it is. */
static int setup(void **state)
{
    (void)state;
    stage_make(&t);
    memset(messages, 0, sizeof messages);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(bodies[i], sizeof bodies[i], "%zu %zu", i % 7, i / 7);
        messages[i].body = coney_bytes_str(bodies[i]);
        messages[i].key = keys[i % 7];
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_stop(&t);
    return 0;
}

/* A gate that handlers pass one permit each. */
struct turnstile {
    struct lock lock;
    struct cond changed;
    size_t permits;
    size_t waiting;
    size_t passed;
};

static struct turnstile turnstile;

static void pass(void)
{
    lock_acquire(&turnstile.lock);
    turnstile.waiting++;
    cond_wake_all(&turnstile.changed);
    while (turnstile.permits == 0)
        cond_wait(&turnstile.changed, &turnstile.lock, INT64_MAX);
    turnstile.permits--;
    turnstile.waiting--;
    turnstile.passed++;
    cond_wake_all(&turnstile.changed);
    lock_release(&turnstile.lock);
}

static void let_pass(size_t permits)
{
    lock_acquire(&turnstile.lock);
    turnstile.permits += permits;
    cond_wake_all(&turnstile.changed);
    lock_release(&turnstile.lock);
}

static void await_waiting(size_t count)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    lock_acquire(&turnstile.lock);
    while (turnstile.waiting != count && cond_wait(&turnstile.changed, &turnstile.lock, deadline))
        ;
    size_t seen = turnstile.waiting;
    lock_release(&turnstile.lock);
    assert_int_equal(seen, count);
}

static void *deliver_all(void *arg)
{
    size_t count = *(const size_t *)arg;
    for (size_t i = 0; i < count; i++)
        fake_deliver(&t.fake, "in", &messages[i]);
    return NULL;
}

/* Order ------------------------------------------------------------------------------------------------------------------------- */

static _Atomic unsigned next_of_key[7];
static _Atomic unsigned out_of_order;

static coney_settle in_order(coney_delivery *d, coney_bytes body)
{
    unsigned key = 0;
    unsigned number = 0;
    char text[16] = "";
    memcpy(text, body.data, body.len);
    sscanf(text, "%u %u", &key, &number);
    if (atomic_load(&next_of_key[key]) != number)
        atomic_fetch_add(&out_of_order, 1);
    atomic_store(&next_of_key[key], number + 1);
    (void)d;
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(in_order);

static void messages_of_one_key_stay_in_order(void **state)
{
    (void)state;
    memset(next_of_key, 0, sizeof next_of_key);
    atomic_store(&out_of_order, 0);
    stage_start_real(&t, &(coney_subscription){.handler = in_order_handler, .lanes = 3, .by_key = true, .lane_queue = 4});
    deliver_all(&(size_t){MANY});
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
    assert_int_equal(atomic_load(&out_of_order), 0);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.received), MANY);
    assert_int_equal(counter_get(&stats.calls), MANY);
    assert_int_equal(counter_get(&stats.acked), MANY);
    coney_app_stop(t.app, NULL);
    stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.acked), MANY);
}

static void messages_without_a_key_go_round(void **state)
{
    (void)state;
    memset(&turnstile, 0, sizeof turnstile);
    stage_start_real(&t, &(coney_subscription){.handler = in_order_handler, .lanes = 3, .by_key = true});
    for (size_t i = 0; i < 30; i++) {
        messages[i].key = NULL;
        fake_deliver(&t.fake, "in", &messages[i]);
    }
    for (size_t i = 0; i < 30; i++)
        fake_await_settled(&t.fake, &messages[i]);
    for (size_t i = 0; i < lanes_count(t.s->lanes); i++)
        assert_int_equal(counter_get(&lanes_runner(t.s->lanes, i)->stats.calls), 10);
}

/* Bounds ------------------------------------------------------------------------------------------------------------------------ */

static coney_settle through_turnstile(coney_delivery *d, coney_bytes body)
{
    (void)d;
    (void)body;
    pass();
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(through_turnstile);

static size_t received(void)
{
    struct subscription_stats stats = stage_stats(&t);
    return (size_t)counter_get(&stats.received);
}

static void lanes_run_at_the_same_time_and_a_full_queue_holds_the_source(void **state)
{
    (void)state;
    memset(&turnstile, 0, sizeof turnstile);
    stage_start_real(&t, &(coney_subscription){.handler = through_turnstile_handler, .lanes = 3, .lane_queue = 4});
    for (size_t i = 17; i < 20; i++)
        fake_deliver(&t.fake, "in", &messages[i]);
    await_waiting(3);
    pthread_t source;
    assert_int_equal(thread_start(&source, "source", deliver_all, &(size_t){17}), CONEY_OK);
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    while (received() < 8 && time_now() < deadline)
        sched_yield();
    assert_int_equal(received(), 8); /* three run, four wait, and one holds the source */
    let_pass(20);
    pthread_join(source, NULL);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
}

/* The drain ----------------------------------------------------------------------------------------------------------------------- */

static void *stop(void *arg)
{
    *(coney_status *)arg = coney_app_stop(t.app, NULL);
    return NULL;
}

static bool keep_at_turnstile(struct incoming *m)
{
    pass();
    return fake_keep(m);
}

static coney_status leave_at_once(struct feed *feed, coney_call *call)
{
    struct fake_feed *own = container_of(feed, struct fake_feed, feed);
    lock_acquire(&own->fake->lock);
    own->is_open = false;
    lock_release(&own->fake->lock);
    return fake_step(own->fake, "unsubscribe", own->name, call);
}

static void a_message_that_is_handed_on_through_a_stop_keeps_what_it_stands_on(void **state)
{
    (void)state;
    memset(&turnstile, 0, sizeof turnstile);
    stage_begin(&t, &(coney_subscription){.handler = through_turnstile_handler, .lanes = 2},
                &(coney_app_options){.drain_timeout = CONEY_MILLISECOND}, false);
    struct transport hasty = fake_transport;
    hasty.keep = keep_at_turnstile;
    hasty.unsubscribe = leave_at_once;
    t.broker->transport = t.s->dispatch->transport = &hasty;
    pthread_t source;
    assert_int_equal(thread_start(&source, "source", deliver_all, &(size_t){1}), CONEY_OK);
    await_waiting(1);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_ETIMEDOUT);
    let_pass(1);
    pthread_join(source, NULL);
    coney_app_free(&t.app);
    assert_int_equal(messages[0].settles + atomic_load(&t.calls), 0);
}

static void N06_a_stop_finishes_what_runs_and_gives_back_what_has_not_begun(void **state)
{
    (void)state;
    memset(&turnstile, 0, sizeof turnstile);
    stage_start_real(&t, &(coney_subscription){.handler = through_turnstile_handler, .lanes = 10, .lane_queue = 100});
    deliver_all(&(size_t){100});
    await_waiting(10);
    coney_status status = CONEY_EBROKER;
    pthread_t stopping;
    assert_int_equal(thread_start(&stopping, "stops", stop, &status), CONEY_OK);
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    while (!atomic_load(&t.app->draining) && time_now() < deadline)
        sched_yield();
    while (dispatch_is_open(t.s->dispatch) && time_now() < deadline)
        sched_yield();
    let_pass(100);
    pthread_join(stopping, NULL);
    assert_int_equal(status, CONEY_OK);
    size_t acked = 0;
    for (size_t i = 0; i < 100; i++)
        acked += messages[i].settles == 1 && messages[i].how == CONEY_ACK;
    assert_int_equal(acked, 10);
    assert_int_equal(turnstile.passed, 10);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static coney_settle publish_on_lane(coney_delivery *d, coney_bytes body)
{
    (void)body;
    stage_publish(&t, d);
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(publish_on_lane);

static void *confirm_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 200; i++) {
        fake_await_published(&t.fake, i + 1);
        fake_outcome(&t.fake, i, i % 10 == 9 ? CONEY_EREFUSED : CONEY_OK);
    }
    return NULL;
}

static void outcomes_that_race_with_their_handlers_settle_each_message_once(void **state)
{
    (void)state;
    t.fake.hold_outcomes = true;
    stage_start_real(
        &t, &(coney_subscription){.handler = publish_on_lane_handler, .lanes = 3, .on_publish_failure = CONEY_POLICY_REJECT});
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "confirms", confirm_all, NULL), CONEY_OK);
    deliver_all(&(size_t){200});
    pthread_join(thread, NULL);
    size_t rejected = 0;
    for (size_t i = 0; i < 200; i++)
        rejected += fake_await_settled(&t.fake, &messages[i]) == CONEY_REJECT;
    assert_int_equal(rejected, 20);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static coney_settle fail_first(coney_delivery *d, coney_bytes body)
{
    (void)d;
    pass();
    return body.data == messages[0].body.data ? CONEY_FAILED : CONEY_ACK;
}
CONEY_RAW_HANDLER(fail_first);

static void a_policy_that_stops_leaves_what_waits_for_a_lane_to_the_broker(void **state)
{
    (void)state;
    memset(&turnstile, 0, sizeof turnstile);
    stage_start_real(
        &t, &(coney_subscription){
                .handler = fail_first_handler, .lanes = 2, .by_key = true, .lane_queue = 50, .on_failure = CONEY_POLICY_STOP});
    for (size_t i = 0; i < 20; i++)
        messages[i].key = "one";
    deliver_all(&(size_t){20});
    let_pass(20);
    assert_int_equal(coney_app_wait(t.app, NULL), CONEY_ECANCELED);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(messages[i].settles, 0);
    assert_int_equal(turnstile.passed, 1);
    assert_int_equal(t.fake.feeds[0].kept, 0);
}

static void a_seek_drops_what_waits_for_a_lane(void **state)
{
    (void)state;
    memset(&turnstile, 0, sizeof turnstile);
    stage_start_real(&t, &(coney_subscription){.handler = through_turnstile_handler, .lanes = 2, .lane_queue = 50});
    deliver_all(&(size_t){20});
    await_waiting(2);
    assert_int_equal(coney_app_seek(t.app, "in", &(coney_position){.at = CONEY_STREAM_FIRST}, NULL), CONEY_OK);
    let_pass(20);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
    assert_int_equal(coney_app_stop(t.app, NULL), CONEY_OK);
    assert_int_equal(turnstile.passed, 2);
}

static void a_message_that_cannot_be_kept_comes_again(void **state)
{
    (void)state;
    t.fake.fail_keep = true;
    stage_start_real(&t, &(coney_subscription){.handler = in_order_handler, .lanes = 2});
    assert_int_equal(fake_deliver(&t.fake, "in", &messages[0]), CONEY_SECOND);
}

static void a_virtual_app_has_no_lanes(void **state)
{
    (void)state;
    stage_start(&t, &(coney_subscription){.handler = raw_handler, .lanes = 5, .by_key = true});
    assert_null(t.s->lanes);
    assert_int_equal(stage_deliver(&t, &messages[0]), CONEY_ACK);
}

/* Of a log ---------------------------------------------------------------------------------------------------------------------- */

static coney_settle fail_each_first_attempt(coney_delivery *d, coney_bytes body)
{
    if (coney_delivery_attempt(d) > 1)
        return in_order(d, body);
    return d->m->offset % 3 == 0 ? coney_retry_after(CONEY_MILLISECOND) : CONEY_REQUEUE;
}
CONEY_RAW_HANDLER(fail_each_first_attempt);

static void what_comes_again_of_a_log_comes_before_what_is_behind_it_of_its_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < 7; i++)
        atomic_store(&next_of_key[i], 0);
    atomic_store(&out_of_order, 0);
    t.fake.ordered = true;
    t.fake.counts = true;
    for (size_t i = 0; i < MANY; i++) {
        messages[i].has_offset = true;
        messages[i].offset = i;
    }
    stage_start_real(&t, &(coney_subscription){.handler = fail_each_first_attempt_handler, .lanes = 3, .by_key = true});
    deliver_all(&(size_t){MANY});
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(fake_await_settled(&t.fake, &messages[i]), CONEY_ACK);
    assert_int_equal(atomic_load(&out_of_order), 0);
    struct subscription_stats stats = stage_stats(&t);
    assert_int_equal(counter_get(&stats.received), 2 * MANY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(messages_of_one_key_stay_in_order),
        TEST(messages_without_a_key_go_round),
        TEST(lanes_run_at_the_same_time_and_a_full_queue_holds_the_source),
        TEST(a_message_that_is_handed_on_through_a_stop_keeps_what_it_stands_on),
        TEST(N06_a_stop_finishes_what_runs_and_gives_back_what_has_not_begun),
        TEST(outcomes_that_race_with_their_handlers_settle_each_message_once),
        TEST(a_policy_that_stops_leaves_what_waits_for_a_lane_to_the_broker),
        TEST(a_seek_drops_what_waits_for_a_lane),
        TEST(a_message_that_cannot_be_kept_comes_again),
        TEST(a_virtual_app_has_no_lanes),
        TEST(what_comes_again_of_a_log_comes_before_what_is_behind_it_of_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
