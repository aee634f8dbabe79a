/* Handles that come and go on a real node, from many threads, under traffic and faults; and a process without descriptors. */
#define _GNU_SOURCE
#include "proxy.h"
#include "scene.h"

#include <sys/resource.h>
#include <unistd.h>

static struct node node;

enum { STREAMS = 4, THREADS = 8 };

/* Four streams of one environment, with messages in them. */
struct ground {
    struct scene scenes[STREAMS]; /* the first one's environment serves all */
    struct proxy *proxy;
    _Atomic size_t opened;
    _Atomic size_t refused;
};

static void ground_up(struct ground *ground)
{
    *ground = (struct ground){.proxy = proxy_start("127.0.0.1", node.stream_port)};
    struct scene *first = &ground->scenes[0];
    scene_set(first);
    first->options.resolve_address = proxy_resolve;
    first->options.resolver_ctx = ground->proxy;
    scene_open(first, proxy_uri(ground->proxy));
    for (size_t i = 1; i < STREAMS; i++) {
        scene_set(&ground->scenes[i]);
        ground->scenes[i].env = first->env;
        assert_int_equal(coney_stream_create(first->env, ground->scenes[i].stream, NULL, NULL), CONEY_OK);
    }
    for (size_t i = 0; i < STREAMS; i++)
        scene_fill(&ground->scenes[i], 0, 5000);
}

static void ground_down(struct ground *ground)
{
    for (size_t i = 1; i < STREAMS; i++)
        assert_int_equal(coney_stream_delete(ground->scenes[0].env, ground->scenes[i].stream, NULL), CONEY_OK);
    scene_down(&ground->scenes[0]);
    proxy_stop(&ground->proxy);
}

static coney_settle ignore(void *ctx, const coney_stream_delivery *delivery)
{
    (void)ctx;
    return delivery->offset % 1000 == 999 && delivery->attempt == 0 ? CONEY_REQUEUE : CONEY_ACK;
}

struct worker {
    struct ground *ground;
    struct dice dice;
    pthread_t thread;
};

static void come_and_go(struct ground *ground, struct dice *dice)
{
    coney_stream_env *env = ground->scenes[0].env;
    const char *stream = ground->scenes[dice_roll(dice, STREAMS)].stream;
    coney_call call = {.deadline = scaled_ns(20000)};
    coney_stream_consumer *consumer = NULL;
    coney_stream_producer *producer = NULL;
    if (dice_roll(dice, 2) == 0) {
        coney_stream_consumer_options options = {
            .start_if_new = CONEY_STREAM_FIRST, .on_message = ignore, .on_loop = dice_roll(dice, 4) == 0};
        consumer = coney_stream_consumer_open(env, stream, &options, &call);
    } else {
        producer = coney_stream_producer_open(env, stream, &(coney_stream_producer_options){0}, &call);
        for (size_t i = 0; producer != NULL && i < 20; i++)
            if (coney_stream_send(producer, CONEY_STR("more"), i) != CONEY_OK)
                break;
    }
    if (producer != NULL || consumer != NULL)
        ground->opened++;
    else
        ground->refused++;
    coney_stream_consumer_close(&consumer, NULL);
    coney_stream_producer_close(&producer, NULL);
}

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    for (size_t i = 0; i < 100; i++)
        come_and_go(worker->ground, &worker->dice);
    return NULL;
}

static void SB_104_eight_threads_open_and_close_on_four_streams_while_connections_are_cut(void **state)
{
    (void)state;
    struct ground ground;
    struct worker workers[THREADS];
    ground_up(&ground);
    struct dice dice = dice_of(20261130);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.ground = &ground, .dice = {dice_roll(&dice, UINT64_MAX)}};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t cut = 1; cut <= 5; cut++) {
        int64_t until = now_ms() + scaled_ms(60000);
        struct monitor clock = {0};
        monitor_lock(&clock);
        while (ground.opened < cut * 100 && now_ms() < until)
            monitor_wait(&clock, now_ms() + 1);
        monitor_unlock(&clock);
        monitor_free(&clock);
        proxy_cut(ground.proxy, cut % 2 == 0 ? PROXY_FIN : PROXY_RST);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(ground.opened + ground.refused, THREADS * 100);
    assert_true(ground.opened > THREADS * 50);
    coney_stream_env_stats stats;
    assert_int_equal(coney_stream_env_get_stats(ground.scenes[0].env, &stats), CONEY_OK);
    assert_int_equal(stats.producers, 0);
    assert_int_equal(stats.consumers, 0);
    ground_down(&ground);
}

static void SB_102_what_was_queued_for_a_consumer_goes_with_it(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    for (uint64_t i = 0; i < 20; i++)
        scene_fill(&scene, i * 10, 10);
    coney_stream_env_stats stats;
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST, .paused = true};
    struct deliveries deliveries = {0};
    for (size_t round = 0; round < 200; round++) {
        coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
        coney_stream_consumer_stats filled = {0};
        int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
        while (filled.queued_chunks < 10 && now_ms() < until)
            assert_int_equal(coney_stream_consumer_get_stats(consumer, &filled), CONEY_OK);
        assert_true(filled.queued_chunks >= 10);
        consumer_close(&consumer);
    }
    assert_int_equal(deliveries_count(&deliveries), 0);
    assert_int_equal(coney_stream_env_get_stats(scene.env, &stats), CONEY_OK);
    assert_int_equal(stats.consumers, 0);
    assert_true(stats.memory_out < 1 << 20);
    deliveries_free(&deliveries);
    scene_down(&scene);
}

static void SB_103_consumers_closed_at_full_speed_are_called_no_more(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    scene_fill(&scene, 0, 20000);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    for (size_t round = 0; round < 200; round++) {
        struct deliveries deliveries = {0};
        coney_stream_consumer *consumer = scene_consumer(&scene, &deliveries, &options);
        deliveries_wait(&deliveries, round * 10);
        consumer_close(&consumer);
        size_t count = deliveries_count(&deliveries);
        deliveries_are_in_order(&deliveries, 0, count);
        assert_int_equal(coney_stream_consumer_close(&consumer, NULL), CONEY_OK);
        deliveries_free(&deliveries);
    }
    scene_down(&scene);
}

/* Sixty-four senders ----------------------------------------------------------------------------------------------- */

enum { SENDERS = 64, EACH = 2000 };

static void *send_some(void *ctx)
{
    coney_stream_producer *producer = ctx;
    for (uint64_t i = 0; i < EACH; i++)
        if (coney_stream_send(producer, CONEY_STR("x"), i) != CONEY_OK)
            return ctx;
    return NULL;
}

/* How many are accepted, and in hand at a moment between two at which as many were accepted: nothing moved meanwhile. */
static uint64_t accepted_so_far(coney_stream_producer *producer, uint64_t *pending)
{
    coney_stream_producer_stats before;
    coney_stream_producer_stats now;
    coney_stream_producer_stats after;
    do {
        assert_int_equal(coney_stream_producer_get_stats(producer, &before), CONEY_OK);
        assert_int_equal(coney_stream_producer_get_stats(producer, &now), CONEY_OK);
        assert_int_equal(coney_stream_producer_get_stats(producer, &after), CONEY_OK);
    } while (before.accepted != after.accepted);
    *pending = now.pending;
    return now.accepted;
}

static void SB_52_sixty_four_senders_stay_within_the_bound(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.max_messages = 500, .enqueue_timeout = scaled_ns(60000)};
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, &options);
    pthread_t threads[SENDERS];
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_some, producer), 0);
    uint64_t pending = 0;
    while (accepted_so_far(producer, &pending) < SENDERS * EACH / 2)
        assert_in_range(pending, 0, 500);
    for (size_t i = 0; i < SENDERS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    outcomes_wait(&outcomes, SENDERS * EACH);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), SENDERS * EACH);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK); /* then the last outcomes are counted, too */
    coney_stream_producer_stats stats;
    assert_int_equal(coney_stream_producer_get_stats(producer, &stats), CONEY_OK);
    assert_int_equal(stats.confirmed, SENDERS * EACH);
    assert_int_equal(stats.pending, 0);
    producer_close(&producer);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

/* Descriptors ------------------------------------------------------------------------------------------------------ */

static rlim_t lowest_free(void)
{
    int fd = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    close(fd);
    return (rlim_t)fd;
}

static void allow_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void out_of_descriptors_is_a_status_and_passes(void **state)
{
    (void)state;
    struct rlimit before;
    struct scene scene;
    scene_up(&scene, node.uri);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlim_t lowest = lowest_free();
    for (rlim_t spare = 0; spare < 3; spare++) {
        coney_call call = {0};
        allow_descriptors(lowest + spare);
        coney_stream_env *env = coney_stream_env_open(node.uri, NULL, &call);
        allow_descriptors(before.rlim_cur);
        assert_null(env);
        if (call.status != CONEY_ELIMIT)
            fail_msg("%s: %s", coney_status_name(call.status), call.text);
        assert_string_not_equal(call.text, "");
    }
    coney_call call = {0};
    allow_descriptors(lowest);
    coney_stream_producer *producer =
        coney_stream_producer_open(scene.env, scene.stream, &(coney_stream_producer_options){0}, &call);
    allow_descriptors(before.rlim_cur);
    assert_null(producer);
    if (call.status != CONEY_ELIMIT)
        fail_msg("%s: %s", coney_status_name(call.status), call.text);
    assert_says(call.text, "descriptors");
    producer = scene_producer(&scene, NULL, NULL);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), NULL), CONEY_OK);
    producer_close(&producer);
    scene_down(&scene);
}

int main(void)
{
    if (!node_shared(&node) || node.stream_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_104_eight_threads_open_and_close_on_four_streams_while_connections_are_cut),
        cmocka_unit_test(SB_102_what_was_queued_for_a_consumer_goes_with_it),
        cmocka_unit_test(SB_103_consumers_closed_at_full_speed_are_called_no_more),
        cmocka_unit_test(SB_52_sixty_four_senders_stay_within_the_bound),
        cmocka_unit_test(out_of_descriptors_is_a_status_and_passes),
    };
    return run_tests(tests);
}
