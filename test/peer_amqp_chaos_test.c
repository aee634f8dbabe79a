/* A property, in both directions: whatever the broker does, each accepted message has exactly one outcome and what was confirmed is stored; each
 * message of a queue is handed over and settled, and no settlement names what is not out. The faults are drawn from a seed that is printed;
 * CONEY_TEST_SEED repeats a run. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

enum { MESSAGES = 10000, FAULTS_MOST = 300 };

struct run {
    struct amqp_stage stage;
    struct dice dice;
    size_t faults;
};

static void run_up(struct run *run, uint64_t seed)
{
    *run = (struct run){.dice = dice_of(seed)};
    amqp_stage_set(&run->stage);
    run->stage.options.recovery_delay = 2 * CONEY_MILLISECOND;
    run->stage.options.recovery_max_delay = 20 * CONEY_MILLISECOND;
    run->stage.options.connect_timeout = scaled_ns(250);
    run->stage.options.call_deadline = scaled_ns(250);
    coney_call call = call_within(8000);
    run->stage.rabbit = coney_amqp_open(amqp_peer_uri(run->stage.peer), &run->stage.options, &call);
    if (run->stage.rabbit == NULL)
        fail_msg("%s", call.text);
}

/* One fault; returns when it is over. Faults are paced by progress, not by a clock. `place` is where the traffic is. */
static void fault(struct run *run, struct amqp_peer_place place, uint32_t declaration)
{
    struct amqp_peer *peer = run->stage.peer;
    run->faults++;
    amqp_peer_chop(peer, dice_roll(&run->dice, 3) == 0 ? 1 + dice_roll(&run->dice, 50) : 0);
    switch (dice_roll(&run->dice, 9)) {
    case 0:
        amqp_peer_cut(peer, PEER_ALL, PEER_RST);
        break;
    case 1:
        amqp_peer_cut(peer, place.connection, PEER_FIN);
        break;
    case 2:
        amqp_peer_go_down(peer, PEER_RST);
        events_reach(&run->stage.events, CONEY_EVENT_RECOVERY_FAILED,
                     events_count(&run->stage.events, CONEY_EVENT_RECOVERY_FAILED) + 1, 200);
        amqp_peer_come_up(peer);
        break;
    case 3: /* frozen, then cut: what is in the socket is lost */
        amqp_peer_freeze(peer, true);
        amqp_peer_cut(peer, PEER_ALL, PEER_RST);
        amqp_peer_freeze(peer, false);
        break;
    case 4: /* a message or a settlement is the last that is read */
        amqp_peer_cut_at(peer, dice_roll(&run->dice, 2) == 0 ? AMQP_BASIC_PUBLISH : AMQP_BASIC_ACK,
                         1 + (int)dice_roll(&run->dice, 20), PEER_RST);
        break;
    case 5:
        amqp_peer_close_channel(peer, place, AMQP_CODE_NOT_FOUND, "NOT_FOUND - for a moment");
        break;
    case 6:
        amqp_peer_close(peer, place.connection, AMQP_CODE_CONNECTION_FORCED, "CONNECTION_FORCED - by an operator");
        break;
    case 7: /* half a frame, then the end */
        amqp_peer_send_bytes(peer, place.connection, CONEY_STR("\1\0\1\0\0\0\30\0\74"));
        amqp_peer_cut(peer, place.connection, PEER_FIN);
        break;
    default: /* the way back is refused once, and answered with silence once */
        amqp_peer_refuse(peer, declaration, 1, AMQP_CODE_RESOURCE_LOCKED, "RESOURCE_LOCKED - for a moment");
        amqp_peer_ignore(peer, declaration, 2);
        amqp_peer_cut(peer, place.connection, PEER_RST);
        break;
    }
}

/* Publishing --------------------------------------------------------------------------------------------------------- */

struct sending {
    coney_amqp_publisher *publisher;
    size_t refused;
};

static void *send_all(void *arg)
{
    struct sending *sending = arg;
    for (uint64_t tag = 0; tag < MESSAGES; tag++) {
        char body[600];
        size_t len = (size_t)snprintf(body, sizeof body, "b%llu", (unsigned long long)tag);
        if (tag % 7 == 0) { /* some are larger */
            memset(body + len, ' ', sizeof body - len);
            len = sizeof body;
        }
        coney_amqp_message message = {.body = coney_bytes_of(body, len), .tag = tag};
        sending->refused += coney_amqp_publish(sending->publisher, &message) != CONEY_OK;
    }
    return NULL;
}

/* How often each message arrived on a channel with confirms. */
static void count_stored(struct amqp_peer *peer, unsigned *stored)
{
    for (size_t i = 0; i < amqp_peer_message_count(peer); i++) {
        struct amqp_peer_message message = amqp_peer_message_of(peer, i);
        char text[24] = {0};
        memcpy(text, message.body.data, message.body.len < sizeof text ? message.body.len : sizeof text - 1);
        unsigned long long tag = strtoull(text + 1, NULL, 10);
        assert_true(text[0] == 'b' && tag < MESSAGES);
        assert_int_equal(message.body.len, tag % 7 == 0 ? 600 : strcspn(text, " "));
        stored[tag]++;
    }
}

static void publish_through_faults(uint64_t seed, const coney_amqp_publisher_options *options)
{
    struct run run;
    struct outcomes outcomes = {0};
    struct sending sending = {0};
    pthread_t thread;
    run_up(&run, seed);
    coney_amqp_publisher_options mine = *options;
    mine.max_messages = 300;
    sending.publisher = amqp_stage_publisher(&run.stage, &outcomes, &mine);
    assert_int_equal(pthread_create(&thread, NULL, send_all, &sending), 0);
    size_t done = 0;
    while (done < MESSAGES && run.faults < FAULTS_MOST) {
        fault(&run, amqp_peer_publisher(run.stage.peer), AMQP_CONFIRM_SELECT);
        outcomes_reach(&outcomes, done + dice_roll(&run.dice, 500), 1000);
        done = outcomes_count(&outcomes);
    }
    pthread_join(thread, NULL);
    amqp_peer_by_default(run.stage.peer, AMQP_BASIC_PUBLISH);
    if (!outcomes_reach(&outcomes, MESSAGES - sending.refused, SUPPORT_PATIENCE)) {
        events_print(&run.stage.events);
        fail_msg("%zu messages have an outcome after %zu faults", outcomes_count(&outcomes), run.faults);
    }
    assert_int_equal(sending.refused, 0);
    printf("%zu faults, %zu recoveries, %zu messages arrived\n", run.faults,
           events_count(&run.stage.events, CONEY_EVENT_RECOVERED), amqp_peer_message_count(run.stage.peer));
    coney_amqp_publisher_close(&sending.publisher, NULL);
    outcomes_are_each_once(&outcomes, 0, MESSAGES);

    unsigned *stored = calloc(MESSAGES, sizeof *stored);
    assert_non_null(stored);
    count_stored(run.stage.peer, stored);
    for (size_t i = 0; i < MESSAGES; i++) {
        struct outcome outcome = outcomes_of(&outcomes, i);
        if (outcome.status == CONEY_OK && stored[outcome.tag] == 0)
            fail_msg("message %llu was confirmed and is not stored", (unsigned long long)outcome.tag);
        if (outcome.unsent && stored[outcome.tag] > 0)
            fail_msg("message %llu was never sent and is stored", (unsigned long long)outcome.tag);
        if (!options->no_resend)
            assert_true(outcome.status == CONEY_OK || outcome.status == CONEY_EREFUSED);
    }
    free(stored);
    if (!options->no_resend) /* a close with one message in flight blames that one */
        assert_true(outcomes_with(&outcomes, CONEY_EREFUSED) <= run.faults);
    amqp_stage_down(&run.stage);
    outcomes_free(&outcomes);
}

static void through_random_faults_every_message_has_one_outcome_and_none_is_lost(void **state)
{
    (void)state;
    publish_through_faults(1, &(coney_amqp_publisher_options){0});
}

static void through_random_faults_without_resend_every_message_has_one_outcome(void **state)
{
    (void)state;
    publish_through_faults(2, &(coney_amqp_publisher_options){.no_resend = true});
}

/* Consuming ---------------------------------------------------------------------------------------------------------- */

struct intake {
    struct monitor monitor;
    struct dice dice;
    unsigned handled[MESSAGES];
    size_t settled; /* acked or rejected by the handler */
    coney_kept *kept[16];
};

static uint64_t number_in(coney_bytes body)
{
    char text[24] = {0};
    memcpy(text, body.data, body.len < sizeof text ? body.len : sizeof text - 1);
    return strtoull(text + 1, NULL, 10);
}

/* Most are acked, some rejected, requeued, retried or kept for a while. */
static coney_settle take_in(void *ctx, const coney_amqp_delivery *delivery)
{
    struct intake *intake = ctx;
    uint64_t number = number_in(delivery->body);
    coney_settle settle = CONEY_ACK;
    coney_kept *old = NULL;
    monitor_lock(&intake->monitor);
    intake->handled[number]++;
    uint64_t roll = dice_roll(&intake->dice, 100);
    if (roll < 5) {
        settle = CONEY_REJECT;
    } else if (roll < 8) {
        settle = CONEY_REQUEUE;
    } else if (roll < 10) {
        settle = coney_retry_after(CONEY_MILLISECOND);
    } else if (roll < 20) {
        size_t at = dice_roll(&intake->dice, 16);
        old = intake->kept[at];
        intake->kept[at] = coney_amqp_keep(delivery);
        settle = CONEY_KEPT;
    }
    intake->settled += settle == CONEY_ACK || settle == CONEY_REJECT;
    monitor_broadcast(&intake->monitor);
    monitor_unlock(&intake->monitor);
    if (old != NULL)
        (void)coney_kept_settle(&old, CONEY_ACK); /* stale after a cut, which is fine */
    return settle;
}

static void settle_what_is_kept(struct intake *intake)
{
    monitor_lock(&intake->monitor);
    for (size_t i = 0; i < 16; i++)
        if (intake->kept[i] != NULL)
            (void)coney_kept_settle(&intake->kept[i], CONEY_ACK);
    monitor_unlock(&intake->monitor);
}

static size_t settled_of(struct intake *intake)
{
    monitor_lock(&intake->monitor);
    size_t settled = intake->settled;
    monitor_unlock(&intake->monitor);
    return settled;
}

static void intake_reach(struct intake *intake, size_t settled, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    monitor_lock(&intake->monitor);
    while (intake->settled < settled && monitor_wait(&intake->monitor, until))
        ;
    monitor_unlock(&intake->monitor);
}

/* Until the queue is empty: also what is kept. */
static void drain(struct run *run, struct intake *intake)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (amqp_peer_feed_done(run->stage.peer) < MESSAGES && now_ms() < until) {
        settle_what_is_kept(intake);
        intake_reach(intake, settled_of(intake) + 1, 20);
    }
    if (amqp_peer_feed_done(run->stage.peer) < MESSAGES) {
        events_print(&run->stage.events);
        fail_msg("%zu of %d messages are settled after %zu faults", amqp_peer_feed_done(run->stage.peer), MESSAGES,
                 run->faults);
    }
}

static void consume_through_faults(uint64_t seed, int64_t prefetch)
{
    static struct intake intake;
    struct run run;
    intake = (struct intake){.dice = {seed}};
    run_up(&run, seed);
    amqp_peer_feed(run.stage.peer, "q", MESSAGES);
    coney_amqp_consumer_options options = {.on_delivery = take_in, .ctx = &intake, .prefetch = prefetch};
    coney_amqp_consumer *consumer = amqp_stage_consumer(&run.stage, "q", NULL, &options);
    for (size_t done = 0; done < MESSAGES * 9 / 10 && run.faults < FAULTS_MOST; done = settled_of(&intake)) {
        fault(&run, amqp_peer_consumer(run.stage.peer, "q"), AMQP_BASIC_CONSUME);
        intake_reach(&intake, done + dice_roll(&run.dice, 500), 1000);
    }
    amqp_peer_by_default(run.stage.peer, AMQP_BASIC_ACK);
    amqp_peer_chop(run.stage.peer, 0);
    drain(&run, &intake);
    printf("%zu faults, %zu recoveries, %zu settled\n", run.faults, events_count(&run.stage.events, CONEY_EVENT_RECOVERED),
           settled_of(&intake));
    for (size_t i = 0; i < MESSAGES; i++)
        assert_true(intake.handled[i] >= 1);
    coney_amqp_consumer_close(&consumer, NULL);
    settle_what_is_kept(&intake);
    for (size_t i = 0; i < MESSAGES; i++)
        assert_true(amqp_peer_feed_acks(run.stage.peer, i) <= 1);
    amqp_stage_down(&run.stage); /* the peer takes no settlement of what is not out */
    monitor_free(&intake.monitor);
}

static void through_random_faults_every_message_of_a_queue_is_handled_and_settled_once(void **state)
{
    (void)state;
    consume_through_faults(3, 0);
}

static void through_random_faults_with_a_small_prefetch_every_message_is_handled(void **state)
{
    (void)state;
    consume_through_faults(4, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(through_random_faults_every_message_has_one_outcome_and_none_is_lost),
        cmocka_unit_test(through_random_faults_without_resend_every_message_has_one_outcome),
        cmocka_unit_test(through_random_faults_every_message_of_a_queue_is_handled_and_settled_once),
        cmocka_unit_test(through_random_faults_with_a_small_prefetch_every_message_is_handled),
    };
    return run_tests(tests);
}
