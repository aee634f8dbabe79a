/* Threads that open, use and close publishers, transactions and requesters on one environment, while connections and channels are lost: each
 * message that was accepted has one outcome by the end of its publisher's close, no call outlasts its deadline, and nothing is left behind. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WORKERS = 4, ROUNDS = 100, FAULTS = 200 };

struct churn {
    struct amqp_stage stage;
    _Atomic unsigned workers;
};

struct worker {
    struct churn *churn;
    pthread_t thread;
    struct dice dice;
    unsigned opened;
};

/* cmocka's own checks are for the test's thread. */
static _Atomic(const char *) wrong;

#define must(condition) ((condition) ? (void)0 : atomic_store(&wrong, #condition))

static void count_outcome(void *ctx, const coney_outcome *outcome)
{
    _Atomic size_t *outcomes = ctx;
    atomic_fetch_add(outcomes, outcome->tag == 7);
}

/* Runs a step that may not last much longer than its deadline. */
#define in_time(ms, step)                                                                                                      \
    do {                                                                                                                       \
        int64_t begun = now_ms();                                                                                              \
        step;                                                                                                                  \
        must(now_ms() - begun < scaled_ms((ms) + 5000));                                                                       \
    } while (0)

static size_t publish_some(coney_amqp_publisher *publisher, struct dice *dice)
{
    coney_amqp_message messages[3] = {{.body = CONEY_STR("one"), .tag = 7},
                                      {.body = CONEY_STR("two"), .routing_key = CONEY_STR("k"), .tag = 7},
                                      {.body = CONEY_STR(""), .message_id = CONEY_STR("id"), .tag = 7}};
    size_t accepted = 0;
    size_t batch = 0;
    for (uint64_t i = dice_roll(dice, 200); i > 0; i--)
        accepted += coney_amqp_publish(publisher, &messages[i % 3]) == CONEY_OK;
    (void)!coney_amqp_publish_batch(publisher, messages, 3, &batch);
    coney_call call = call_within(200);
    if (dice_roll(dice, 3) == 0)
        in_time(200, (void)coney_amqp_publish_wait(publisher, &messages[0], &call));
    if (dice_roll(dice, 3) == 0)
        in_time(200, (void)coney_amqp_publisher_flush(publisher, &call));
    return accepted + batch;
}

static bool use_publisher(struct churn *churn, struct dice *dice)
{
    _Atomic size_t outcomes = 0;
    coney_amqp_publisher_options options = {.routing_key = "q",
                                            .on_outcome = count_outcome,
                                            .ctx = &outcomes,
                                            .max_messages = 50,
                                            .enqueue_timeout = scaled_ns(100),
                                            .no_resend = dice_roll(dice, 3) == 0,
                                            .unconfirmed = dice_roll(dice, 4) == 0};
    coney_call call = call_within(2000);
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(churn->stage.rabbit, &options, &call);
    if (publisher == NULL)
        return false;
    size_t accepted = publish_some(publisher, dice);
    call = call_within(dice_roll(dice, 2) == 0 ? 1 : 2000);
    in_time(2000, (void)coney_amqp_publisher_close(&publisher, &call));
    must(publisher == NULL);
    must(atomic_load(&outcomes) == accepted);
    return true;
}

static bool use_transaction(struct churn *churn, struct dice *dice)
{
    coney_call call = call_within(2000);
    coney_amqp_tx *tx = coney_amqp_tx_begin(churn->stage.rabbit, &call);
    if (tx == NULL)
        return false;
    coney_amqp_message message = {.body = CONEY_STR("x"), .routing_key = CONEY_STR("q")};
    for (uint64_t i = dice_roll(dice, 50); i > 0; i--)
        (void)!coney_amqp_tx_publish(tx, &message);
    call = call_within(dice_roll(dice, 2) == 0 ? 1 : 2000);
    if (dice_roll(dice, 2) == 0)
        in_time(2000, (void)coney_amqp_tx_commit(&tx, &call));
    else
        in_time(2000, (void)coney_amqp_tx_rollback(&tx, &call));
    must(tx == NULL);
    return true;
}

/* Nobody answers: every request ends by its deadline or with the connection. */
static bool use_requester(struct churn *churn, struct dice *dice)
{
    coney_call call = call_within(2000);
    coney_amqp_requester_options options = {.routing_key = "service"};
    coney_amqp_requester *requester = coney_amqp_requester_open(churn->stage.rabbit, &options, &call);
    if (requester == NULL)
        return false;
    coney_kept *kept[4];
    struct waited_call calls[3] = {0};
    size_t under_way = 0;
    for (; under_way < dice_roll(dice, 4); under_way++)
        if (coney_amqp_request(requester, &(coney_amqp_message){.body = CONEY_STR("?")}, &kept[under_way],
                               waited_call_of(&calls[under_way], 30)) != CONEY_OK)
            break;
    call = call_within(20);
    in_time(20, (void)coney_amqp_request(requester, &(coney_amqp_message){.body = CONEY_STR("?")}, &kept[3], &call));
    must(kept[3] == NULL);
    if (under_way > 0 && dice_roll(dice, 2) == 0)
        coney_call_cancel(calls[0].call.id);
    call = call_within(2000);
    in_time(2000, (void)coney_amqp_requester_close(&requester, &call));
    for (size_t i = 0; i < under_way; i++) {
        must(waited_call_wait(&calls[i]) != CONEY_OK);
        must(waited_call_count(&calls[i]) == 1);
        waited_call_free(&calls[i]);
    }
    return true;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        switch (dice_roll(&worker->dice, 4)) {
        case 0:
            worker->opened += use_transaction(worker->churn, &worker->dice);
            break;
        case 1:
            worker->opened += use_requester(worker->churn, &worker->dice);
            break;
        default:
            worker->opened += use_publisher(worker->churn, &worker->dice);
            break;
        }
    }
    atomic_fetch_sub(&worker->churn->workers, 1);
    return NULL;
}

static void fault(struct amqp_stage *stage, struct dice *dice)
{
    struct amqp_peer_place place = amqp_peer_publisher(stage->peer);
    uint64_t roll = dice_roll(dice, 6);
    if (roll == 0)
        amqp_peer_cut(stage->peer, PEER_ALL, PEER_RST);
    else if (roll == 1)
        amqp_peer_cut(stage->peer, amqp_peer_connection(stage->peer, "control"), PEER_FIN);
    else if (roll == 2 && place.connection >= 0)
        amqp_peer_cut(stage->peer, place.connection, PEER_RST);
    else if (roll == 3)
        amqp_peer_refuse(stage->peer, AMQP_BASIC_PUBLISH, 5, AMQP_CODE_NOT_FOUND, "NOT_FOUND - no exchange 'x'");
    else if (place.connection >= 0)
        amqp_peer_close_channel(stage->peer, place, AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - x");
}

static void threads_that_open_use_and_close_handles_through_faults_leave_nothing_behind(void **state)
{
    (void)state;
    struct churn churn = {.workers = WORKERS};
    struct worker workers[WORKERS];
    struct dice dice = dice_of(4);
    amqp_stage_set(&churn.stage);
    churn.stage.options.recovery_delay = 2 * CONEY_MILLISECOND;
    churn.stage.options.recovery_max_delay = 20 * CONEY_MILLISECOND;
    amqp_peer_allow_nonsense(churn.stage.peer); /* a cut leaves half frames */
    amqp_stage_open(&churn.stage);
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.churn = &churn, .dice = dice_of(10 + i)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t faults = 0; atomic_load(&churn.workers) > 0; faults++) {
        size_t seen = events_count(&churn.stage.events, CONEY_EVENT_CONNECTED);
        if (faults < FAULTS)
            fault(&churn.stage, &dice);
        events_reach(&churn.stage.events, CONEY_EVENT_CONNECTED, seen + 1, 50);
    }
    unsigned opened = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        opened += workers[i].opened;
    }
    if (atomic_load(&wrong) != NULL)
        fail_msg("not so: %s", atomic_load(&wrong));
    assert_true(opened > WORKERS * ROUNDS / 4);
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(churn.stage.rabbit, &stats), CONEY_OK);
    assert_int_equal(stats.publishers, 0);
    assert_int_equal(stats.publishers_active, 0);
    amqp_stage_down(&churn.stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_open_use_and_close_handles_through_faults_leave_nothing_behind),
    };
    return run_tests(tests);
}
