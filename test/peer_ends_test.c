/* Ends at awkward moments: ids, pauses, closes that are given up or canceled, members that leave in the middle of a write. */
#define _GNU_SOURCE
#include "stage.h"

#include <coney/loop.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static void more_consumers_and_producers_come_and_go_on_a_connection_than_it_has_ids(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0}, passing = {0};
    stage_up(&stage);
    coney_stream_consumer *stays = stage_consumer(&stage, "s", &deliveries, NULL);
    coney_stream_producer *remains = stage_producer(&stage, "s", NULL, NULL);
    for (int i = 0; i < 300; i++) {
        coney_stream_consumer *consumer = stage_consumer(&stage, "s", &passing, NULL);
        coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
        consumer_close(&consumer);
        producer_close(&producer);
    }
    assert_int_equal(peer_accepted(stage.peer), 3);
    consumer_close(&stays);
    producer_close(&remains);
    stage_down(&stage);
    deliveries_free(&deliveries);
    deliveries_free(&passing);
}

static void a_producer_may_leave_in_the_middle_of_a_write_and_the_others_go_on(void **state)
{
    (void)state;
    enum { LARGE = 60000, LEAVING = 400, STAYING = 200 };
    struct stage stage;
    struct outcomes left = {0}, stayed = {0};
    stage_up(&stage);
    coney_stream_producer *leaves = stage_producer(&stage, "a", &left, NULL);
    coney_stream_producer *stays = stage_producer(&stage, "b", &stayed, NULL);
    assert_int_equal(coney_stream_send_wait(leaves, CONEY_STR("first"), NULL), CONEY_OK);
    peer_stop_reading(stage.peer, peer_producer_connection(stage.peer, "a"), true);
    char *body = malloc(LARGE);
    memset(body, 'x', LARGE);
    for (uint64_t i = 0; i < LEAVING; i++)
        assert_int_equal(coney_stream_send(leaves, coney_bytes_of(body, LARGE), i), CONEY_OK);
    stage_send(stays, 0, STAYING);
    coney_call call = {.deadline = 200 * CONEY_MILLISECOND};
    assert_int_equal(coney_stream_producer_close(&leaves, &call), CONEY_ETIMEDOUT);
    assert_int_equal(outcomes_count(&left), LEAVING);
    memset(body, 'y', LARGE);
    for (uint64_t i = 0; i < LEAVING; i++) /* in the memory that was given back */
        assert_int_equal(coney_stream_send(stays, coney_bytes_of(body, LARGE), STAYING + i), CONEY_OK);
    peer_stop_reading(stage.peer, peer_producer_connection(stage.peer, "b"), false);
    outcomes_wait(&stayed, STAYING + LEAVING);
    outcomes_are_in_order(&stayed, 0, STAYING + LEAVING);
    assert_int_equal(outcomes_with(&stayed, CONEY_OK), STAYING + LEAVING);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);
    for (size_t i = 1; i < peer_message_count(stage.peer); i++) {
        struct peer_message message = peer_message_of(stage.peer, i);
        if (strcmp(message.stream, "a") == 0)
            assert_memory_equal(message.body.data, "xxxxxxxxxxxxxxxx", 16);
    }
    free(body);
    producer_close(&stays);
    stage_down(&stage);
    outcomes_free(&left);
    outcomes_free(&stayed);
}

static void a_connection_lost_during_a_close_without_resend_ends_the_close(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    struct waited_call closed = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.no_resend = true};
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, &options);
    stage_send(producer, 0, 20);
    peer_wait_messages(stage.peer, 20);
    assert_int_equal(coney_stream_producer_close(&producer, waited_call_of(&closed, 0)), CONEY_OK);
    coney_call seen = {0};
    assert_int_equal(coney_stream_exists(stage.env, "s", &seen), CONEY_OK); /* by now the close has begun */
    peer_cut(stage.peer, peer_producer_connection(stage.peer, "s"), PEER_RST);
    waited_call_wait(&closed);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 20);
    stage_down(&stage);
    outcomes_free(&outcomes);
    waited_call_free(&closed);
}

struct pauser {
    coney_stream_consumer **consumer;
    size_t at;
};

static void pause_at(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    (void)delivery;
    struct pauser *pauser = ctx;
    if (nth == pauser->at)
        assert_int_equal(coney_stream_consumer_pause(*pauser->consumer), CONEY_OK);
}

static void what_a_pause_left_of_a_chunk_comes_after_resume_without_another_chunk(void **state)
{
    (void)state;
    struct stage stage;
    coney_stream_consumer *consumer = NULL;
    struct pauser pauser = {.consumer = &consumer, .at = 3};
    struct deliveries deliveries = {.also = pause_at, .also_ctx = &pauser};
    stage_up(&stage);
    consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    peer_deliver(stage.peer, "s", 0, 10);
    deliveries_wait(&deliveries, 4);
    assert_false(deliveries_reach(&deliveries, 5, 50));
    assert_int_equal(coney_stream_consumer_resume(consumer), CONEY_OK);
    deliveries_wait(&deliveries, 10);
    deliveries_are_in_order(&deliveries, 0, 10);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* The first message is kept, and settled for a retry after 30 ms while the second one asks for its own after 90 ms. */
struct two_retries {
    coney_kept *kept;
    int first;
    int second;
    int third;
    struct deliveries *seen;
};

static coney_settle retry_twice(void *ctx, const coney_stream_delivery *delivery)
{
    struct two_retries *retries = ctx;
    deliveries_add(retries->seen, delivery);
    if (delivery->offset == 0 && retries->first++ == 0) {
        retries->kept = coney_stream_keep(delivery);
        assert_null(coney_stream_keep(delivery)); /* once only */
        return CONEY_KEPT;
    }
    if (delivery->offset == 1 && retries->second++ == 0) {
        coney_kept_settle(&retries->kept, coney_retry_after(30 * CONEY_MILLISECOND));
        return coney_retry_after(90 * CONEY_MILLISECOND);
    }
    return CONEY_ACK;
}

static void a_retry_comes_although_an_earlier_one_used_its_timer_up(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries seen = {0};
    struct two_retries retries = {.seen = &seen};
    stage_up(&stage);
    coney_stream_consumer_options options = {.on_message = retry_twice, .ctx = &retries};
    coney_stream_consumer *consumer = coney_stream_consumer_open(stage.env, "s", &options, NULL);
    assert_non_null(consumer);
    peer_deliver(stage.peer, "s", 0, 2);
    deliveries_wait(&seen, 4); /* 0, 1, then 1 and 0 again */
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&seen);
}

static void close_at(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    (void)delivery;
    struct pauser *closer = ctx;
    if (nth == closer->at)
        assert_int_equal(coney_stream_consumer_close(closer->consumer, NULL), CONEY_OK);
}

static void the_message_whose_handler_closes_counts_as_done_in_the_stored_offset(void **state)
{
    (void)state;
    struct stage stage;
    coney_stream_consumer *consumer = NULL;
    struct pauser closer = {.consumer = &consumer, .at = 3};
    struct deliveries deliveries = {.also = close_at, .also_ctx = &closer};
    stage_up(&stage);
    coney_stream_consumer_options options = {.name = "me"};
    consumer = stage_consumer(&stage, "s", &deliveries, &options);
    peer_deliver(stage.peer, "s", 0, 10);
    assert_int_equal(peer_expect(stage.peer, STREAM_STORE_OFFSET)->frame.store_offset.offset, 3);
    peer_wait_gone(stage.peer, "s");
    assert_int_equal(deliveries_count(&deliveries), 4);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void a_close_with_reserved_bytes_set_closes_nothing(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    coney_call odd = {.reserved = {0, 1}};
    assert_int_equal(coney_stream_producer_close(&producer, &odd), CONEY_EINVAL);
    assert_int_equal(coney_stream_consumer_close(&consumer, &odd), CONEY_EINVAL);
    assert_int_equal(coney_stream_env_close(&stage.env, &odd), CONEY_EINVAL);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    producer_close(&producer);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

/* The leak checker sees what is left. */
static void the_environment_closes_handles_that_have_given_up(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    struct waited_call call = {0};
    stage_set(&stage);
    stage.options.no_recovery = true;
    stage_open(&stage);
    assert_non_null(stage_producer(&stage, "s", NULL, NULL));
    assert_non_null(stage_consumer(&stage, "s", &deliveries, NULL));
    peer_set_stream(stage.peer, "none", STREAM_CODE_STREAM_DOES_NOT_EXIST);
    assert_non_null(coney_stream_producer_open(stage.env, "none", NULL, waited_call_of(&call, 0)));
    assert_int_equal(waited_call_wait(&call), CONEY_ENOTFOUND);
    peer_cut(stage.peer, peer_producer_connection(stage.peer, "s"), PEER_RST);
    peer_cut(stage.peer, peer_consumer_connection(stage.peer, "s"), PEER_RST);
    assert_true(events_reach(&stage.events, CONEY_EVENT_GAVE_UP, 2, scaled_ms(5000)));
    int64_t before = now_ms();
    stage_down(&stage);
    assert_true(now_ms() - before < scaled_ms(3000));
    deliveries_free(&deliveries);
    waited_call_free(&call);
}

/* On a loop of one's own -------------------------------------------------------------------------------------------- */

static void step_for(coney_loop *loop, const int *count, int64_t ms)
{
    int64_t until = now_ms() + ms;
    while (*count == 0 && now_ms() < until) {
        poll(&(struct pollfd){coney_loop_fd(loop), POLLIN, 0}, 1, 10);
        coney_loop_step(loop);
    }
}

static void note_status(void *ctx, const coney_call *call)
{
    int *count = ctx;
    ++*count;
    assert_int_equal(call->status, CONEY_ECANCELED);
}

static void a_close_of_the_environment_that_is_canceled_at_once_leaves_nothing_behind(void **state)
{
    (void)state;
    for (int steps = 0; steps < 4; steps++) {
        struct stage stage;
        struct deliveries deliveries = {0};
        stage_set(&stage);
        coney_loop *loop = coney_loop_new();
        stage.options.loop = loop;
        stage_open(&stage);
        peer_confirm_by_hand(stage.peer, true);
        coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
        assert_non_null(stage_consumer(&stage, "s", &deliveries, NULL));
        stage_send(producer, 0, 3);
        int ended = 0;
        coney_call call = {.on_done = note_status, .ctx = &ended};
        assert_int_equal(coney_stream_env_close(&stage.env, &call), CONEY_OK);
        for (int i = 0; i < steps; i++)
            coney_loop_step(loop);
        assert_int_equal(coney_call_cancel(call.id), CONEY_OK);
        step_for(loop, &ended, scaled_ms(5000));
        assert_int_equal(ended, 1);
        if (steps % 2 == 0)
            for (int i = 0; i < 3; i++)
                coney_loop_step(loop);
        coney_loop_free(&loop);
        stage_down(&stage);
        deliveries_free(&deliveries);
    }
}

static void a_close_of_the_environment_at_its_deadline_leaves_nothing_behind(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    coney_loop *loop = coney_loop_new();
    stage.options.loop = loop;
    stage_open(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    stage_send(producer, 0, 3);
    coney_call call = {.deadline = 30 * CONEY_MILLISECOND};
    assert_int_equal(coney_stream_env_close(&stage.env, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 3);
    for (int i = 0; i < 3; i++)
        coney_loop_step(loop);
    coney_loop_free(&loop);
    stage_down(&stage);
}

/* Atomics, since nothing but the end of the threads comes between the handler and the end of the test. */
static atomic_int handlers_begun;
static atomic_bool handler_may_end;

static coney_settle stand_still(void *ctx, const coney_stream_delivery *delivery)
{
    (void)ctx;
    (void)delivery;
    atomic_fetch_add(&handlers_begun, 1);
    while (!atomic_load(&handler_may_end))
        sched_yield();
    return CONEY_ACK;
}

static void an_environment_closes_at_its_deadline_although_a_handler_does_not_return(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    stage.options.on_event = NULL;
    size_t threads = threads_running();
    stage_open(&stage);
    coney_stream_consumer_options options = {.on_message = stand_still};
    assert_non_null(coney_stream_consumer_open(stage.env, "s", &options, NULL));
    peer_deliver(stage.peer, "s", 0, 3);
    while (atomic_load(&handlers_begun) == 0)
        sched_yield();
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    assert_int_equal(coney_stream_env_close(&stage.env, &call), CONEY_ETIMEDOUT);
    atomic_store(&handler_may_end, true);
    wait_for_threads(threads); /* all of the environment's have ended, who saw to that, too */
    assert_int_equal(atomic_load(&handlers_begun), 1);
    stage_down(&stage);
}

static void what_waits_for_an_opening_that_has_not_begun_ends_with_the_environment(void **state)
{
    (void)state;
    struct stage stage;
    struct waited_call opened = {0}, subscribed = {0}, sent = {0}, flushed = {0};
    struct deliveries deliveries = {0};
    stage_set(&stage);
    coney_loop *loop = coney_loop_new(); /* steps only in calls that block: the openings begin in the close */
    stage.options.loop = loop;
    stage_open(&stage);
    coney_stream_producer *producer = coney_stream_producer_open(stage.env, "s", NULL, waited_call_of(&opened, 0));
    coney_stream_consumer_options options = {.on_message = deliveries_add, .ctx = &deliveries};
    assert_non_null(coney_stream_consumer_open(stage.env, "s", &options, waited_call_of(&subscribed, 0)));
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), waited_call_of(&sent, 0)), CONEY_OK);
    assert_int_equal(coney_stream_producer_flush(producer, waited_call_of(&flushed, 0)), CONEY_OK);
    assert_int_equal(coney_stream_env_close(&stage.env, NULL), CONEY_OK);
    assert_int_equal(waited_call_wait(&opened), CONEY_ECLOSED);
    assert_int_equal(waited_call_wait(&subscribed), CONEY_ECLOSED);
    assert_int_equal(waited_call_wait(&sent), CONEY_ECLOSED);
    assert_int_equal(waited_call_count(&flushed), 1);
    coney_loop_free(&loop);
    stage_down(&stage);
    deliveries_free(&deliveries);
    waited_call_free(&opened);
    waited_call_free(&subscribed);
    waited_call_free(&sent);
    waited_call_free(&flushed);
}

struct env_closer {
    struct stage *stage;
    struct waited_call closed;
};

static void close_env_at_the_third(void *ctx, const coney_stream_delivery *delivery, size_t nth)
{
    (void)delivery;
    struct env_closer *closer = ctx;
    if (nth == 2)
        assert_int_equal(coney_stream_env_close(&closer->stage->env, &closer->closed.call), CONEY_OK);
}

static void a_handler_that_closes_the_environment_is_called_no_more(void **state)
{
    (void)state;
    for (int on_loop = 0; on_loop < 2; on_loop++) {
        struct stage stage;
        struct env_closer closer = {.stage = &stage};
        waited_call_of(&closer.closed, 0); /* here, since its end is waited for while the handler begins it */
        struct deliveries deliveries = {.also = close_env_at_the_third, .also_ctx = &closer};
        coney_stream_consumer_options options = {.on_loop = on_loop == 1};
        stage_up(&stage);
        stage_consumer(&stage, "s", &deliveries, &options);
        peer_deliver(stage.peer, "s", 0, 8000);
        deliveries_wait(&deliveries, 3);
        assert_int_equal(waited_call_wait(&closer.closed), CONEY_OK);
        assert_int_equal(deliveries_count(&deliveries), 3);
        stage_down(&stage);
        deliveries_free(&deliveries);
        waited_call_free(&closer.closed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_consumers_and_producers_come_and_go_on_a_connection_than_it_has_ids),
        cmocka_unit_test(a_producer_may_leave_in_the_middle_of_a_write_and_the_others_go_on),
        cmocka_unit_test(a_connection_lost_during_a_close_without_resend_ends_the_close),
        cmocka_unit_test(what_a_pause_left_of_a_chunk_comes_after_resume_without_another_chunk),
        cmocka_unit_test(a_retry_comes_although_an_earlier_one_used_its_timer_up),
        cmocka_unit_test(the_message_whose_handler_closes_counts_as_done_in_the_stored_offset),
        cmocka_unit_test(a_close_with_reserved_bytes_set_closes_nothing),
        cmocka_unit_test(the_environment_closes_handles_that_have_given_up),
        cmocka_unit_test(a_close_of_the_environment_that_is_canceled_at_once_leaves_nothing_behind),
        cmocka_unit_test(a_close_of_the_environment_at_its_deadline_leaves_nothing_behind),
        cmocka_unit_test(an_environment_closes_at_its_deadline_although_a_handler_does_not_return),
        cmocka_unit_test(a_handler_that_closes_the_environment_is_called_no_more),
        cmocka_unit_test(what_waits_for_an_opening_that_has_not_begun_ends_with_the_environment),
    };
    return run_tests(tests);
}
