/* The client inside somebody else's loop: one descriptor, level- and edge-triggered, one thread or several. */
#define _GNU_SOURCE
#include "stage.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

struct embedded {
    struct stage stage;
    coney_loop *loop;
    int epoll; /* edge-triggered, -1: plain poll */
};

static void embed(struct embedded *e, bool edge)
{
    e->epoll = -1;
    stage_set(&e->stage);
    e->loop = coney_loop_new();
    assert_non_null(e->loop);
    e->stage.options.loop = e->loop;
    if (edge) {
        e->epoll = epoll_create1(EPOLL_CLOEXEC);
        assert_true(e->epoll >= 0);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        assert_int_equal(epoll_ctl(e->epoll, EPOLL_CTL_ADD, coney_loop_fd(e->loop), &event), 0);
    }
}

/* One turn of the outer loop; false when nothing became ready in time. */
static bool turn(struct embedded *e)
{
    int ready;
    if (e->epoll >= 0) {
        struct epoll_event event;
        ready = epoll_wait(e->epoll, &event, 1, (int)scaled_ms(SUPPORT_PATIENCE));
    } else {
        struct pollfd fd = {coney_loop_fd(e->loop), POLLIN, 0};
        ready = poll(&fd, 1, (int)scaled_ms(SUPPORT_PATIENCE));
    }
    if (ready == 1)
        coney_loop_step(e->loop);
    return ready == 1;
}

static void turn_until_done(struct embedded *e, struct waited_call *call)
{
    while (waited_call_count(call) == 0)
        if (!turn(e))
            fail_msg("the loop's descriptor was not readable though a call is under way");
}

static void turn_until_outcomes(struct embedded *e, struct outcomes *outcomes, size_t count)
{
    while (outcomes_count(outcomes) < count)
        if (!turn(e))
            fail_msg("the loop's descriptor was not readable with %zu of %zu outcomes", outcomes_count(outcomes), count);
}

static void unembed(struct embedded *e)
{
    coney_stream_env_close(&e->stage.env, NULL);
    coney_loop_free(&e->loop);
    assert_null(e->loop);
    if (e->epoll >= 0)
        close(e->epoll);
    stage_down(&e->stage);
}

static void opens_publishes_and_consumes(bool edge)
{
    struct embedded e;
    struct waited_call opened = {0}, producing = {0}, consuming = {0};
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    embed(&e, edge);
    e.stage.env = coney_stream_env_open(peer_uri(e.stage.peer), &e.stage.options, waited_call_of(&opened, 0));
    assert_non_null(e.stage.env);
    turn_until_done(&e, &opened);
    assert_int_equal(waited_call_wait(&opened), CONEY_OK);

    coney_stream_producer_options p = {.on_outcome = outcomes_add, .ctx = &outcomes};
    coney_stream_producer *producer = coney_stream_producer_open(e.stage.env, "s", &p, waited_call_of(&producing, 0));
    turn_until_done(&e, &producing);
    assert_int_equal(waited_call_wait(&producing), CONEY_OK);
    for (uint64_t round = 0; round < 20; round++) {
        stage_send(producer, round * 100, 100);
        turn_until_outcomes(&e, &outcomes, (round + 1) * 100);
    }
    outcomes_are_in_order(&outcomes, 0, 2000);

    coney_stream_consumer_options c = {
        .on_message = deliveries_add, .ctx = &deliveries, .start_if_new = CONEY_STREAM_FIRST, .credit = 2};
    peer_feed(e.stage.peer, "s", 0, 50, 60);
    coney_stream_consumer *consumer = coney_stream_consumer_open(e.stage.env, "s", &c, waited_call_of(&consuming, 0));
    turn_until_done(&e, &consuming);
    assert_int_equal(waited_call_wait(&consuming), CONEY_OK);
    while (deliveries_count(&deliveries) < 3000)
        if (!turn(&e))
            fail_msg("the loop's descriptor was not readable with %zu of 3000 messages", deliveries_count(&deliveries));
    deliveries_are_in_order(&deliveries, 0, 3000);
    producer_close(&producer); /* blocking, on the stepping thread: it steps */
    consumer_close(&consumer);
    unembed(&e);
    waited_call_free(&opened);
    waited_call_free(&producing);
    waited_call_free(&consuming);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
}

static void under_plain_poll_it_opens_publishes_and_consumes(void **state)
{
    (void)state;
    opens_publishes_and_consumes(false);
}

static void under_an_edge_triggered_epoll_nothing_is_lost(void **state)
{
    (void)state;
    opens_publishes_and_consumes(true);
}

static void blocking_calls_on_the_stepping_thread_step_the_loop(void **state)
{
    (void)state;
    struct embedded e;
    struct deliveries deliveries = {0};
    embed(&e, false);
    stage_open(&e.stage);
    assert_int_equal(coney_stream_create(e.stage.env, "s", NULL, NULL), CONEY_OK);
    coney_stream_producer *producer = stage_producer(&e.stage, "s", NULL, NULL);
    for (int i = 0; i < 50; i++)
        assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    coney_stream_consumer *consumer = stage_consumer(&e.stage, "s", &deliveries, NULL);
    peer_ignore(e.stage.peer, STREAM_CREATE, PEER_EVERY);
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    assert_int_equal(coney_stream_create(e.stage.env, "t", NULL, &call), CONEY_ETIMEDOUT);
    consumer_close(&consumer);
    producer_close(&producer);
    unembed(&e);
    deliveries_free(&deliveries);
}

static void a_full_producer_makes_room_while_its_send_steps_the_loop_or_says_so(void **state)
{
    (void)state;
    struct embedded e;
    struct outcomes outcomes = {0};
    embed(&e, false);
    stage_open(&e.stage);
    coney_stream_producer_options options = {.max_messages = 10};
    coney_stream_producer *producer = stage_producer(&e.stage, "s", &outcomes, &options);
    uint64_t accepted = 0;
    for (int tries = 0; accepted < 200 && tries < 100000; tries++) {
        coney_status status = coney_stream_send(producer, CONEY_STR("x"), accepted);
        assert_true(status == CONEY_OK || status == CONEY_EAGAIN);
        if (status == CONEY_OK)
            accepted++;
        else
            assert_true(turn(&e));
    }
    assert_int_equal(accepted, 200);
    turn_until_outcomes(&e, &outcomes, 200);
    outcomes_are_in_order(&outcomes, 0, 200);
    producer_close(&producer);
    unembed(&e);
    outcomes_free(&outcomes);
}

struct stepper {
    struct embedded *e;
    pthread_t thread;
    atomic_bool stop;
    struct monitor monitor;
    bool steps; /* this thread is the one that steps from now on */
};

static void *step_on(void *arg)
{
    struct stepper *stepper = arg;
    coney_loop_step(stepper->e->loop);
    monitor_lock(&stepper->monitor);
    stepper->steps = true;
    monitor_broadcast(&stepper->monitor);
    monitor_unlock(&stepper->monitor);
    while (!atomic_load(&stepper->stop)) {
        struct pollfd fd = {coney_loop_fd(stepper->e->loop), POLLIN, 0};
        if (poll(&fd, 1, 20) == 1)
            coney_loop_step(stepper->e->loop);
    }
    return NULL;
}

static void other_threads_may_block_while_one_steps(void **state)
{
    (void)state;
    struct embedded e;
    struct outcomes outcomes = {0};
    embed(&e, false);
    struct stepper stepper = {.e = &e};
    assert_int_equal(pthread_create(&stepper.thread, NULL, step_on, &stepper), 0);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&stepper.monitor);
    while (!stepper.steps && monitor_wait(&stepper.monitor, until))
        ;
    assert_true(stepper.steps);
    monitor_unlock(&stepper.monitor);
    stage_open(&e.stage);
    coney_stream_producer_options options = {.max_messages = 50};
    coney_stream_producer *producer = stage_producer(&e.stage, "s", &outcomes, &options);
    stage_send(producer, 0, 3000);
    outcomes_wait(&outcomes, 3000);
    outcomes_are_in_order(&outcomes, 0, 3000);
    producer_close(&producer);
    coney_stream_env_close(&e.stage.env, NULL);
    atomic_store(&stepper.stop, true);
    pthread_join(stepper.thread, NULL);
    monitor_free(&stepper.monitor);
    unembed(&e);
    outcomes_free(&outcomes);
}

static void two_environments_share_a_loop(void **state)
{
    (void)state;
    struct embedded e;
    embed(&e, false);
    stage_open(&e.stage);
    struct peer *other = peer_start();
    coney_stream_env_options options = {.loop = e.loop};
    coney_stream_env *second = coney_stream_env_open(peer_uri(other), &options, NULL);
    assert_non_null(second);
    assert_int_equal(coney_stream_create(e.stage.env, "s", NULL, NULL), CONEY_OK);
    assert_int_equal(coney_stream_create(second, "s", NULL, NULL), CONEY_OK);
    assert_int_equal(peer_count(other, STREAM_CREATE), 1);
    coney_stream_env_close(&second, NULL);
    assert_int_equal(coney_stream_create(e.stage.env, "t", NULL, NULL), CONEY_OK);
    peer_stop(&other);
    unembed(&e);
}

static void recovery_needs_nothing_but_steps(void **state)
{
    (void)state;
    struct embedded e;
    struct outcomes outcomes = {0};
    embed(&e, true);
    stage_open(&e.stage);
    coney_stream_producer *producer = stage_producer(&e.stage, "s", &outcomes, NULL);
    for (uint64_t i = 0; i < 10; i++) {
        peer_cut(e.stage.peer, PEER_ALL, PEER_RST);
        stage_send(producer, i * 10, 10);
        turn_until_outcomes(&e, &outcomes, (i + 1) * 10);
    }
    outcomes_are_in_order(&outcomes, 0, 100);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 100);
    producer_close(&producer);
    unembed(&e);
    outcomes_free(&outcomes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_plain_poll_it_opens_publishes_and_consumes),
        cmocka_unit_test(under_an_edge_triggered_epoll_nothing_is_lost),
        cmocka_unit_test(blocking_calls_on_the_stepping_thread_step_the_loop),
        cmocka_unit_test(a_full_producer_makes_room_while_its_send_steps_the_loop_or_says_so),
        cmocka_unit_test(other_threads_may_block_while_one_steps),
        cmocka_unit_test(two_environments_share_a_loop),
        cmocka_unit_test(recovery_needs_nothing_but_steps),
    };
    return run_tests(tests);
}
