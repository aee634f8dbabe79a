/* A property: whatever the broker does, each accepted message has exactly one outcome, confirms come in send order, and what
 * was confirmed is stored. The faults are drawn from a seed that is printed; CONEY_TEST_SEED repeats a run. */
#define _GNU_SOURCE
#include "proxy.h"
#include "stage.h"

enum { MESSAGES = 20000 };

struct run {
    struct stage stage;
    struct proxy *proxy;
    struct outcomes outcomes;
    coney_stream_producer *producer;
    pthread_t sender;
    size_t refused;
};

static void *send_all(void *arg)
{
    struct run *run = arg;
    for (uint64_t tag = 0; tag < MESSAGES; tag++) {
        char body[24];
        int len = snprintf(body, sizeof body, "b%llu", (unsigned long long)tag);
        run->refused += coney_stream_send(run->producer, coney_bytes_of(body, (size_t)len), tag) != CONEY_OK;
    }
    return NULL;
}

static void run_up(struct run *run, const coney_stream_producer_options *options)
{
    *run = (struct run){0};
    stage_set(&run->stage);
    run->proxy = proxy_start("127.0.0.1", peer_port(run->stage.peer));
    run->stage.options.resolve_address = proxy_resolve;
    run->stage.options.resolver_ctx = run->proxy;
    run->stage.options.recovery_delay = 2 * CONEY_MILLISECOND;
    run->stage.options.recovery_max_delay = 20 * CONEY_MILLISECOND;
    run->stage.options.connect_timeout = scaled_ns(250);
    run->stage.options.call_deadline = scaled_ns(250);
    peer_allow_nonsense(run->stage.peer); /* a cut leaves half frames; a frozen peer may be cut in one */
    coney_call call = call_within(8000);
    run->stage.env = coney_stream_env_open(proxy_uri(run->proxy), &run->stage.options, &call);
    if (run->stage.env == NULL)
        fail_msg("%s", call.text);
    proxy_limit(run->proxy, PROXY_TO_BROKER, 1000000); /* so that the faults find something under way */
    coney_stream_producer_options mine = *options;
    mine.max_messages = 400;
    run->producer = stage_producer(&run->stage, "s", &run->outcomes, &mine);
    assert_int_equal(pthread_create(&run->sender, NULL, send_all, run), 0);
}

/* One fault; returns when it is over. The faults are paced by progress, not by a clock. */
static void fault(struct run *run, struct dice *dice)
{
    struct peer *peer = run->stage.peer;
    switch (dice_roll(dice, 8)) {
    case 0:
        proxy_cut(run->proxy, PROXY_RST);
        break;
    case 1:
        proxy_cut(run->proxy, PROXY_FIN);
        break;
    case 2:
        peer_cut(peer, PEER_ALL, PEER_RST);
        break;
    case 3:
        peer_go_down(peer, PEER_RST);
        events_reach(&run->stage.events, CONEY_EVENT_RECOVERY_FAILED,
                     events_count(&run->stage.events, CONEY_EVENT_RECOVERY_FAILED) + 1, 500);
        peer_come_up(peer);
        break;
    case 4: /* frozen, then cut: what was read before is stored, the rest is not */
        peer_freeze(peer, true);
        proxy_cut(run->proxy, PROXY_RST);
        peer_freeze(peer, false);
        break;
    case 5: /* confirms are lost, the messages are not */
        peer_confirm_by_hand(peer, true);
        peer_reaches_count(peer, STREAM_PUBLISH, peer_count(peer, STREAM_PUBLISH) + 2, 200);
        peer_cut(peer, PEER_ALL, PEER_FIN);
        peer_confirm_by_hand(peer, false);
        break;
    case 6:
        peer_lose_stream(peer, "s", STREAM_CODE_STREAM_NOT_AVAILABLE);
        break;
    default:
        peer_answer(peer, STREAM_DECLARE_PUBLISHER, 1, STREAM_CODE_STREAM_NOT_AVAILABLE);
        peer_ignore(peer, STREAM_DECLARE_PUBLISHER, 2);
        proxy_cut(run->proxy, PROXY_RST);
        break;
    }
}

/* Faults until everything has an outcome. */
static void run_through(struct run *run, struct dice *dice)
{
    size_t done = 0, faults = 0;
    while (done < MESSAGES && faults < 200) {
        fault(run, dice);
        faults++;
        outcomes_reach(&run->outcomes, done + dice_roll(dice, 1000), 1000);
        done = outcomes_count(&run->outcomes);
    }
    pthread_join(run->sender, NULL);
    if (!outcomes_reach(&run->outcomes, MESSAGES - run->refused, 30000)) {
        events_print(&run->stage.events);
        fail_msg("%zu of %u messages have an outcome after %zu faults", outcomes_count(&run->outcomes),
                 (unsigned)(MESSAGES - run->refused), faults);
    }
    assert_int_equal(run->refused, 0);
    printf("%zu faults, %zu recoveries, %zu messages arrived\n", faults,
           events_count(&run->stage.events, CONEY_EVENT_RECOVERED), peer_message_count(run->stage.peer));
}

/* Fails unless each confirmed message is among those that the peer has. By body, since the id of a tag is the library's choice. */
static void confirmed_are_stored(struct run *run)
{
    unsigned char *stored = calloc(MESSAGES, 1);
    assert_non_null(stored);
    for (size_t i = 0; i < peer_message_count(run->stage.peer); i++) {
        struct peer_message message = peer_message_of(run->stage.peer, i);
        char text[24] = {0};
        assert_true(message.body.len > 1 && message.body.len < sizeof text);
        memcpy(text, message.body.data, message.body.len);
        unsigned long long tag = strtoull(text + 1, NULL, 10);
        assert_true(tag < MESSAGES);
        if (message.duplicate && !stored[tag])
            fail_msg("message %llu was dropped by the broker as a duplicate before it was stored", tag);
        if (message.reference[0] != '\0' && !message.duplicate && stored[tag])
            fail_msg("message %llu was stored twice under a name", tag);
        stored[tag] = 1;
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        struct outcome outcome = outcomes_of(&run->outcomes, i);
        if (outcome.status == CONEY_OK && !stored[outcome.tag])
            fail_msg("message %llu was confirmed and is not stored", (unsigned long long)outcome.tag);
    }
    free(stored);
}

static void run_down(struct run *run)
{
    producer_close(&run->producer);
    assert_int_equal(outcomes_count(&run->outcomes), MESSAGES);
    coney_stream_env_close(&run->stage.env, NULL);
    proxy_stop(&run->proxy);
    stage_down(&run->stage);
    outcomes_free(&run->outcomes);
}

static void through_random_faults_an_unnamed_producer_loses_nothing(void **state)
{
    (void)state;
    struct dice dice = dice_of(1);
    struct run run;
    run_up(&run, &(coney_stream_producer_options){0});
    run_through(&run, &dice);
    outcomes_are_in_order(&run.outcomes, 0, MESSAGES);
    assert_int_equal(outcomes_with(&run.outcomes, CONEY_OK), MESSAGES);
    confirmed_are_stored(&run);
    run_down(&run);
}

static void through_random_faults_a_named_producer_stores_everything_once(void **state)
{
    (void)state;
    struct dice dice = dice_of(2);
    struct run run;
    coney_stream_producer_options options = {.name = "me"};
    run_up(&run, &options);
    run_through(&run, &dice);
    outcomes_are_in_order(&run.outcomes, 0, MESSAGES);
    assert_int_equal(outcomes_with(&run.outcomes, CONEY_OK), MESSAGES);
    confirmed_are_stored(&run);
    run_down(&run);
}

static void through_random_faults_without_resend_each_message_has_one_outcome(void **state)
{
    (void)state;
    struct dice dice = dice_of(3);
    struct run run;
    coney_stream_producer_options options = {.no_resend = true};
    run_up(&run, &options);
    run_through(&run, &dice);
    outcomes_are_each_once(&run.outcomes, 0, MESSAGES);
    assert_int_equal(outcomes_with(&run.outcomes, CONEY_OK) + outcomes_with(&run.outcomes, CONEY_EUNKNOWN), MESSAGES);
    confirmed_are_stored(&run);
    run_down(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(through_random_faults_an_unnamed_producer_loses_nothing),
        cmocka_unit_test(through_random_faults_a_named_producer_stores_everything_once),
        cmocka_unit_test(through_random_faults_without_resend_each_message_has_one_outcome),
    };
    return run_tests(tests);
}
