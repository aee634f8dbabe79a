/* Connections to a real node that are cut between two bytes, wherever those stand. */
#define _GNU_SOURCE
#include "scissors.h"
#include "traffic.h"

static struct node node;

static struct scissors *scene_behind_scissors(struct scene *scene)
{
    struct scissors *scissors = scissors_start(node.stream_port);
    scene_set(scene);
    scene->options.resolve_address = scissors_resolve;
    scene->options.resolver_ctx = scissors;
    scene->options.recovery_delay = 10 * CONEY_MILLISECOND;
    scene->options.recovery_max_delay = 50 * CONEY_MILLISECOND;
    scene_open(scene, scissors_uri(scissors));
    return scissors;
}

static bool cut_came(struct scissors *scissors, size_t cuts, int64_t ms)
{
    struct monitor clock = {0};
    int64_t until = now_ms() + scaled_ms(ms);
    monitor_lock(&clock);
    while (scissors_cuts(scissors) < cuts && now_ms() < until)
        monitor_wait(&clock, now_ms() + 1);
    monitor_unlock(&clock);
    monitor_free(&clock);
    return scissors_cuts(scissors) >= cuts;
}

/* Forty cuts while messages go both ways: most of them in the middle of a frame, some in a log-in. */
static void cuts_anywhere(bool to_client)
{
    struct scene scene;
    struct traffic traffic;
    struct scissors *scissors = scene_behind_scissors(&scene);
    struct dice dice = dice_of(20261130);
    traffic_start(&traffic, &scene, 60000, "writer");
    size_t cuts = 0;
    while (cuts < 40 && outcomes_count(&traffic.outcomes) < 50000) {
        scissors_cut_after(scissors, to_client, 1 + dice_roll(&dice, 20000));
        if (!cut_came(scissors, cuts + 1, 30000))
            break;
        cuts++;
    }
    scissors_cut_after(scissors, to_client, 0);
    traffic_is_whole(&traffic);
    assert_in_range(cuts, 10, 40);
    scene_down(&scene);
    scissors_stop(&scissors);
}

static void cut_anywhere_on_the_way_to_the_client_nothing_is_lost_or_repeated(void **state)
{
    (void)state;
    cuts_anywhere(true);
}

static void cut_anywhere_on_the_way_to_the_broker_nothing_is_lost_or_repeated(void **state)
{
    (void)state;
    cuts_anywhere(false);
}

/* The log-in, and the opening of a producer, cut behind every byte of the answers up to their end. */
static void an_opening_that_is_cut_anywhere_is_a_clear_failure(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    struct scissors *scissors = scissors_start(node.stream_port);
    coney_stream_env_options options = {.resolve_address = scissors_resolve, .resolver_ctx = scissors, .no_recovery = true};
    size_t opened = 0;
    size_t failed = 0;
    for (uint64_t bytes = 1; opened < 3; bytes += 7) {
        coney_call call = {0};
        coney_stream_producer *producer = NULL;
        size_t cuts = scissors_cuts(scissors);
        scissors_cut_after(scissors, true, bytes);
        coney_stream_env *env = coney_stream_env_open(scissors_uri(scissors), &options, &call);
        if (env != NULL)
            producer = coney_stream_producer_open(env, scene.stream, &(coney_stream_producer_options){0}, &call);
        bool was_cut = scissors_cuts(scissors) > cuts;
        if (producer == NULL) {
            if (!was_cut)
                fail_msg("%d %u %s", (int)call.status, call.code, call.text);
            assert_string_not_equal(call.text, "");
            assert_true(call.status == CONEY_ELOST || call.status == CONEY_EPROTOCOL);
            failed++;
        }
        opened += producer != NULL && !was_cut;
        coney_stream_producer_close(&producer, NULL);
        coney_stream_env_close(&env, NULL);
        assert_in_range(bytes, 1, 100000);
    }
    assert_true(failed > 10);
    scissors_stop(&scissors);
    scene_down(&scene);
}

int main(void)
{
    if (!node_shared(&node) || node.stream_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere_on_the_way_to_the_client_nothing_is_lost_or_repeated),
        cmocka_unit_test(cut_anywhere_on_the_way_to_the_broker_nothing_is_lost_or_repeated),
        cmocka_unit_test(an_opening_that_is_cut_anywhere_is_a_clear_failure),
    };
    return run_tests(tests);
}
