/* Closing: what is waited for, what is given up, and that nothing is left behind. */
#define _GNU_SOURCE
#include "stage.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void confirm_later(void *ctx, struct peer *peer)
{
    (void)ctx;
    peer_confirm(peer, SIZE_MAX);
}

static void SB_43_closing_right_after_sending_waits_for_every_confirm(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    peer_every(stage.peer, 300, confirm_later, NULL);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 250);
    coney_call call = {0};
    assert_int_equal(coney_stream_producer_close(&producer, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    outcomes_are_in_order(&outcomes, 0, 250);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 250);
    assert_int_equal(peer_message_count(stage.peer), 250);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_43_at_the_deadline_of_a_close_each_leftover_has_its_outcome_before_it_returns(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    stage_send(producer, 0, 250);
    coney_call call = {.deadline = 100 * CONEY_MILLISECOND};
    int64_t before = now_ms();
    coney_stream_producer_close(&producer, &call);
    assert_true(now_ms() - before < scaled_ms(3000));
    assert_int_equal(call.value, 250);
    outcomes_are_in_order(&outcomes, 0, 250);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 250);
    stage_down(&stage);
    outcomes_free(&outcomes);
}

static void SB_105_closing_after_the_broker_died_is_quick_and_settles_everything(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    stage_set(&stage);
    stage.options.no_recovery = true;
    stage_open(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    stage_send(producer, 0, 10);
    peer_wait_messages(stage.peer, 10);
    peer_go_down(stage.peer, PEER_RST);
    assert_true(events_reach(&stage.events, CONEY_EVENT_GAVE_UP, 2, SUPPORT_PATIENCE));
    int64_t before = now_ms();
    coney_stream_producer_close(&producer, NULL);
    coney_stream_consumer_close(&consumer, NULL);
    coney_stream_env_close(&stage.env, NULL);
    assert_true(now_ms() - before < scaled_ms(500));
    outcomes_are_in_order(&outcomes, 0, 10);
    stage_down(&stage);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
}

static void SB_105_closing_during_recovery_is_quick_where_nothing_is_unsettled(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    coney_stream_consumer_options named = {.name = "me"};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &named);
    peer_go_down(stage.peer, PEER_RST);
    assert_true(events_reach(&stage.events, CONEY_EVENT_RECOVERY_FAILED, 2, SUPPORT_PATIENCE));
    int64_t before = now_ms();
    coney_stream_producer_close(&producer, NULL);
    coney_stream_consumer_close(&consumer, NULL);
    coney_stream_env_close(&stage.env, NULL);
    assert_true(now_ms() - before < scaled_ms(500));
    stage_down(&stage);
    deliveries_free(&deliveries);
}

static void closing_against_a_frozen_broker_keeps_to_the_deadline(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    peer_freeze(stage.peer, true);
    stage_send(producer, 0, 3);
    coney_call call = {.deadline = 150 * CONEY_MILLISECOND};
    int64_t before = now_ms();
    coney_stream_consumer_close(&consumer, &call);
    coney_stream_producer_close(&producer, &call);
    coney_stream_env_close(&stage.env, &call);
    assert_true(now_ms() - before < scaled_ms(3000));
    assert_null(stage.env);
    outcomes_are_in_order(&outcomes, 0, 3);
    peer_freeze(stage.peer, false);
    stage_down(&stage);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
}

static void closing_the_environment_closes_what_is_open_on_it(void **state)
{
    (void)state;
    struct stage stage;
    struct outcomes outcomes = {0};
    struct deliveries deliveries = {0};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer *producer = stage_producer(&stage, "s", &outcomes, NULL);
    coney_stream_consumer_options named = {.name = "me", .start_if_new = CONEY_STREAM_FIRST};
    stage_consumer(&stage, "s", &deliveries, &named);
    peer_deliver(stage.peer, "s", 0, 3);
    deliveries_wait(&deliveries, 3);
    stage_send(producer, 0, 7);
    peer_wait_messages(stage.peer, 7);
    peer_confirm(stage.peer, 2);
    outcomes_wait(&outcomes, 2);
    coney_call call = {.deadline = 100 * CONEY_MILLISECOND};
    coney_stream_env_close(&stage.env, &call);
    assert_int_equal(call.value, 5);
    outcomes_are_in_order(&outcomes, 0, 7);
    const struct peer_record *store = peer_expect(stage.peer, STREAM_STORE_OFFSET);
    assert_int_equal(store->frame.store_offset.offset, 2);
    peer_wait_count(stage.peer, STREAM_CLOSE, 1);
    peer_wait_open(stage.peer, 0);
    stage_down(&stage);
    outcomes_free(&outcomes);
    deliveries_free(&deliveries);
}

static void a_polite_close_deletes_the_publisher_and_the_subscription_and_says_goodbye(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    producer_close(&producer);
    consumer_close(&consumer);
    peer_wait_gone(stage.peer, "s");
    coney_stream_env_close(&stage.env, NULL);
    peer_wait_open(stage.peer, 0);
    assert_int_equal(peer_count(stage.peer, STREAM_CLOSE), peer_accepted(stage.peer));
    stage_down(&stage);
    deliveries_free(&deliveries);
}

struct in_callback {
    coney_stream_producer **producer;
    struct monitor monitor;
    coney_status status;
    size_t outcomes, done;
};

static void close_in_outcome(void *ctx, const coney_outcome *outcome)
{
    struct in_callback *in = ctx;
    (void)outcome;
    monitor_lock(&in->monitor);
    if (in->outcomes++ == 0) {
        in->status = coney_stream_producer_close(in->producer, NULL);
        in->done = 1;
        monitor_broadcast(&in->monitor);
    }
    monitor_unlock(&in->monitor);
}

static void a_producer_may_be_closed_in_its_own_outcome(void **state)
{
    (void)state;
    struct stage stage;
    coney_stream_producer *producer = NULL;
    struct in_callback in = {.producer = &producer, .status = CONEY_EAGAIN};
    stage_up(&stage);
    peer_confirm_by_hand(stage.peer, true);
    coney_stream_producer_options options = {.on_outcome = close_in_outcome, .ctx = &in};
    monitor_lock(&in.monitor);
    producer = coney_stream_producer_open(stage.env, "s", &options, NULL);
    assert_non_null(producer);
    stage_send(producer, 0, 5);
    monitor_unlock(&in.monitor);
    peer_wait_messages(stage.peer, 5);
    peer_confirm(stage.peer, 1);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&in.monitor);
    while (in.done == 0 && monitor_wait(&in.monitor, until))
        ;
    assert_int_equal(in.done, 1);
    assert_null(producer);
    assert_int_equal(in.status, CONEY_OK);
    monitor_unlock(&in.monitor);
    peer_confirm(stage.peer, SIZE_MAX);
    coney_stream_env_close(&stage.env, NULL);
    stage_down(&stage);
    monitor_free(&in.monitor);
}

/* Leaks ---------------------------------------------------------------------------------------------------------- */

static void SB_100_producers_that_come_and_go_leave_no_descriptor_no_thread_and_no_connection(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    producer_close(&producer);
    size_t connections = peer_open_connections(stage.peer), accepted = peer_accepted(stage.peer);
    size_t descriptors = descriptors_open(), threads = threads_running();
    for (int i = 0; i < 500; i++) {
        producer = stage_producer(&stage, "s", NULL, NULL);
        if (i % 5 == 0)
            assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
        producer_close(&producer);
    }
    peer_wait_gone(stage.peer, "s");
    assert_true(peer_open_connections(stage.peer) <= connections);
    wait_for_descriptors(descriptors);
    wait_for_threads(threads);
    if (peer_accepted(stage.peer) > accepted + 600)
        fail_msg("%zu connections for 500 producers", peer_accepted(stage.peer) - accepted);
    stage_down(&stage);
}

static void SB_100_environments_that_come_and_go_leave_nothing(void **state)
{
    (void)state;
    struct peer *peer = peer_start();
    coney_stream_env *env = coney_stream_env_open(peer_uri(peer), NULL, NULL);
    coney_stream_env_close(&env, NULL);
    peer_wait_open(peer, 0);
    size_t descriptors = descriptors_open(), threads = threads_running();
    for (int i = 0; i < 60; i++) {
        env = coney_stream_env_open(peer_uri(peer), NULL, NULL);
        assert_non_null(env);
        if (i % 2 == 0) {
            coney_stream_producer *producer = coney_stream_producer_open(env, "s", NULL, NULL);
            assert_non_null(producer);
            assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 1), CONEY_OK);
        }
        coney_stream_env_close(&env, NULL);
    }
    peer_wait_open(peer, 0);
    wait_for_descriptors(descriptors);
    wait_for_threads(threads);
    peer_stop(&peer);
}

static void failed_opens_leave_nothing(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_call call = {0};
    peer_set_stream(stage.peer, "gone", STREAM_CODE_STREAM_DOES_NOT_EXIST);
    assert_null(coney_stream_producer_open(stage.env, "gone", NULL, &call));
    peer_answer(stage.peer, STREAM_DECLARE_PUBLISHER, PEER_EVERY, STREAM_CODE_ACCESS_REFUSED);
    assert_null(coney_stream_producer_open(stage.env, "s", NULL, &call));
    size_t descriptors = descriptors_open();
    for (int i = 0; i < 200; i++) {
        assert_null(coney_stream_producer_open(stage.env, i % 2 == 0 ? "gone" : "s", NULL, &call));
        assert_int_equal(call.status, i % 2 == 0 ? CONEY_ENOTFOUND : CONEY_EACCESS);
    }
    wait_for_descriptors(descriptors);
    coney_stream_env_stats stats;
    coney_stream_env_get_stats(stage.env, &stats);
    assert_int_equal(stats.producers, 0);
    stage_down(&stage);
}

static void SB_102_chunks_that_wait_for_a_closing_consumer_are_freed(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_env_stats stats;
    uint64_t high = 0;
    for (int round = 0; round < 200; round++) {
        struct deliveries deliveries = {0};
        peer_feed(stage.peer, "s", 0, 50, 10);
        coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .paused = true};
        coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
        coney_stream_consumer_stats seen = {0};
        int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
        while (seen.queued_chunks < 10 && now_ms() < until) {
            coney_stream_consumer_get_stats(consumer, &seen);
            coney_stream_exists(stage.env, "s", &(coney_call){0});
        }
        assert_int_equal(seen.queued_chunks, 10);
        consumer_close(&consumer);
        assert_int_equal(deliveries_count(&deliveries), 0);
        coney_stream_env_get_stats(stage.env, &stats);
        if (round == 20)
            high = stats.memory_out;
        deliveries_free(&deliveries);
    }
    if (stats.memory_out > high + 65536)
        fail_msg("memory in use grew from %llu to %llu", (unsigned long long)high, (unsigned long long)stats.memory_out);
    stage_down(&stage);
}

/* Many at once --------------------------------------------------------------------------------------------------- */

struct churner {
    coney_stream_env *env;
    pthread_t thread;
    uint64_t seed;
    size_t failed;
    coney_status status;
    char text[512];
};

static void churn_failed(struct churner *churner, coney_status status, const char *text)
{
    churner->failed++;
    churner->status = status;
    snprintf(churner->text, sizeof churner->text, "%s", text);
}

static void *churn(void *arg)
{
    static const char *const streams[] = {"a", "b", "c", "d"};
    struct churner *churner = arg;
    struct dice dice = {churner->seed};
    for (int i = 0; i < 60; i++) {
        const char *stream = streams[dice_roll(&dice, 4)];
        struct deliveries deliveries = {0};
        coney_stream_consumer_options options = {.on_message = deliveries_add, .ctx = &deliveries};
        coney_call call = call_within(9000);
        coney_stream_consumer *consumer = coney_stream_consumer_open(churner->env, stream, &options, &call);
        if (consumer == NULL && call.status != CONEY_EUNAVAILABLE) /* that: the stream moved at this moment */
            churn_failed(churner, call.status, call.text);
        coney_status status = coney_stream_consumer_close(&consumer, NULL);
        if (status != CONEY_OK)
            churn_failed(churner, status, "close");
        deliveries_free(&deliveries);
    }
    return NULL;
}

static size_t updates;

static void lose_one(void *ctx, struct peer *peer)
{
    static const char *const streams[] = {"a", "b", "c", "d"};
    (void)ctx;
    peer_lose_stream(peer, streams[updates++ % 4], STREAM_CODE_STREAM_NOT_AVAILABLE);
}

static void SB_104_eight_threads_open_and_close_consumers_while_streams_move(void **state)
{
    (void)state;
    struct stage stage;
    struct churner churners[8];
    stage_up(&stage);
    peer_every(stage.peer, 7, lose_one, NULL);
    for (size_t i = 0; i < 8; i++) {
        churners[i] = (struct churner){.env = stage.env, .seed = 100 + i};
        assert_int_equal(pthread_create(&churners[i].thread, NULL, churn, &churners[i]), 0);
    }
    for (size_t i = 0; i < 8; i++)
        pthread_join(churners[i].thread, NULL);
    for (size_t i = 0; i < 8; i++)
        if (churners[i].failed > 0)
            fail_msg("%zu of 60 failed, last: %s: %s", churners[i].failed, coney_status_name(churners[i].status),
                     churners[i].text);
    stage_down(&stage);
}

/* Forks ---------------------------------------------------------------------------------------------------------- */

static void a_forked_child_is_refused_and_may_free(void **state)
{
    (void)state;
    struct stage stage;
    struct deliveries deliveries = {0};
    stage_up(&stage);
    coney_stream_producer *producer = stage_producer(&stage, "s", NULL, NULL);
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, NULL);
    size_t received = peer_count(stage.peer, STREAM_CLOSE);
    int answer[2];
    assert_int_equal(pipe(answer), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool right = coney_stream_create(stage.env, "t", NULL, NULL) == CONEY_EFORKED &&
                     coney_stream_send(producer, CONEY_STR("x"), 1) == CONEY_EFORKED;
        coney_stream_producer_close(&producer, NULL);
        coney_stream_consumer_close(&consumer, NULL);
        coney_stream_env_close(&stage.env, NULL);
        char verdict = right && stage.env == NULL && producer == NULL && consumer == NULL ? 'y' : 'n';
        kill(getpid(), write(answer[1], &verdict, 1) == 1 ? SIGKILL : SIGABRT); /* no checker looks at a half process */
    }
    close(answer[1]);
    char verdict = '?';
    assert_int_equal(read(answer[0], &verdict, 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(verdict, 'y');
    close(answer[0]);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    assert_int_equal(peer_count(stage.peer, STREAM_CLOSE), received);
    producer_close(&producer);
    consumer_close(&consumer);
    stage_down(&stage);
    deliveries_free(&deliveries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_43_closing_right_after_sending_waits_for_every_confirm),
        cmocka_unit_test(SB_43_at_the_deadline_of_a_close_each_leftover_has_its_outcome_before_it_returns),
        cmocka_unit_test(SB_105_closing_after_the_broker_died_is_quick_and_settles_everything),
        cmocka_unit_test(SB_105_closing_during_recovery_is_quick_where_nothing_is_unsettled),
        cmocka_unit_test(closing_against_a_frozen_broker_keeps_to_the_deadline),
        cmocka_unit_test(closing_the_environment_closes_what_is_open_on_it),
        cmocka_unit_test(a_polite_close_deletes_the_publisher_and_the_subscription_and_says_goodbye),
        cmocka_unit_test(a_producer_may_be_closed_in_its_own_outcome),
        cmocka_unit_test(SB_100_producers_that_come_and_go_leave_no_descriptor_no_thread_and_no_connection),
        cmocka_unit_test(SB_100_environments_that_come_and_go_leave_nothing),
        cmocka_unit_test(failed_opens_leave_nothing),
        cmocka_unit_test(SB_102_chunks_that_wait_for_a_closing_consumer_are_freed),
        cmocka_unit_test(SB_104_eight_threads_open_and_close_consumers_while_streams_move),
        cmocka_unit_test(a_forked_child_is_refused_and_may_free),
    };
    return run_tests(tests);
}
