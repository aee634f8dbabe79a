/* A producer's life on a real node: bounds, opening, closing, deadlines, and calls from where they are not allowed. */
#define _GNU_SOURCE
#include "proxy.h"
#include "scene.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

static struct node node;

/* A scene whose broker is behind a proxy. */
static struct proxy *scene_behind_proxy(struct scene *scene)
{
    struct proxy *proxy = proxy_start("127.0.0.1", node.stream_port);
    scene_set(scene);
    scene->options.resolve_address = proxy_resolve;
    scene->options.resolver_ctx = proxy;
    scene_open(scene, proxy_uri(proxy));
    return proxy;
}

/* Bounds ---------------------------------------------------------------------------------------------------------- */

static void *send_one(void *ctx)
{
    coney_status *status = malloc(sizeof *status);
    if (status != NULL)
        *status = coney_stream_send(ctx, CONEY_STR("waited"), 1000);
    return status;
}

static void SB_46_a_sender_at_the_bound_waits_until_confirms_make_room(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    coney_stream_producer_options options = {.max_messages = 100, .enqueue_timeout = 50 * CONEY_MILLISECOND};
    coney_stream_producer *brief = scene_producer(&scene, &outcomes, &options);
    options.enqueue_timeout = CONEY_OFF;
    coney_stream_producer *never = scene_producer(&scene, &outcomes, &options);
    options.enqueue_timeout = 0;
    coney_stream_producer *patient = scene_producer(&scene, &outcomes, &options);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    stage_send(brief, 0, 100);
    stage_send(never, 100, 100);
    stage_send(patient, 200, 100);
    int64_t begun = now_ms();
    assert_int_equal(coney_stream_send(brief, CONEY_STR("x"), 999), CONEY_ETIMEDOUT);
    assert_true(now_ms() - begun >= 50);
    assert_int_equal(coney_stream_send(never, CONEY_STR("x"), 999), CONEY_EAGAIN);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_one, patient), 0);
    proxy_limit(proxy, PROXY_TO_CLIENT, 0);
    coney_status *status = NULL;
    pthread_join(thread, (void **)&status);
    assert_int_equal(*status, CONEY_OK);
    free(status);
    outcomes_wait(&outcomes, 301);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 301);
    producer_close(&brief);
    producer_close(&never);
    producer_close(&patient);
    scene_down(&scene);
    proxy_stop(&proxy);
    outcomes_free(&outcomes);
}

static void a_bound_in_bytes_holds_as_well(void **state)
{
    (void)state;
    static const uint8_t body[10000];
    struct scene scene;
    struct outcomes outcomes = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    coney_stream_producer_options options = {.max_bytes = 100000, .enqueue_timeout = CONEY_OFF};
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, &options);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    size_t accepted = 0;
    while (accepted < 20 && coney_stream_send(producer, coney_bytes_of(body, sizeof body), accepted) == CONEY_OK)
        accepted++;
    assert_in_range(accepted, 9, 11);
    proxy_limit(proxy, PROXY_TO_CLIENT, 0);
    outcomes_wait(&outcomes, accepted);
    outcomes_are_each_once(&outcomes, 0, accepted);
    producer_close(&producer);
    scene_down(&scene);
    proxy_stop(&proxy);
    outcomes_free(&outcomes);
}

/* On a loop of the user's own, everything in one thread. */

struct flood {
    coney_stream_producer *producer;
    uint64_t sent;
    uint64_t total;
    size_t refusals;
    size_t outcomes;
};

static void pour(struct flood *flood)
{
    while (flood->sent < flood->total) {
        coney_status status = coney_stream_send(flood->producer, numbered(flood->sent), flood->sent);
        if (status == CONEY_EAGAIN) {
            flood->refusals++;
            return;
        }
        assert_int_equal(status, CONEY_OK);
        flood->sent++;
    }
}

static void on_writable(void *ctx)
{
    pour(ctx);
}

static void count_outcome(void *ctx, const coney_outcome *outcome)
{
    struct flood *flood = ctx;
    assert_int_equal(outcome->status, CONEY_OK);
    flood->outcomes++;
}

static void on_the_users_own_loop_a_full_producer_says_when_there_is_room_again(void **state)
{
    (void)state;
    struct scene scene;
    coney_loop *loop = coney_loop_new();
    assert_non_null(loop);
    scene_set(&scene);
    scene.options.loop = loop;
    scene_open(&scene, node.uri);
    struct flood flood = {.total = 20000};
    coney_stream_producer_options options = {.max_messages = 100,
                                             .enqueue_timeout = CONEY_OFF,
                                             .on_outcome = count_outcome,
                                             .on_writable = on_writable,
                                             .ctx = &flood};
    flood.producer = scene_producer(&scene, NULL, &options);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    pour(&flood);
    while (flood.outcomes < flood.total && now_ms() < until) {
        poll(&(struct pollfd){coney_loop_fd(loop), POLLIN, 0}, 1, 100);
        coney_loop_step(loop);
    }
    assert_int_equal(flood.outcomes, flood.total);
    assert_true(flood.refusals > 0);
    producer_close(&flood.producer);
    scene_down(&scene);
    coney_loop_free(&loop);
}

/* Closing --------------------------------------------------------------------------------------------------------- */

static void SB_43_close_waits_for_the_outcome_of_all_that_was_sent(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    stage_send(producer, 0, 10000);
    coney_call call = {0};
    assert_int_equal(coney_stream_producer_close(&producer, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    assert_int_equal(outcomes_count(&outcomes), 10000);
    outcomes_are_each_once(&outcomes, 0, 10000);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 10000);
    scene_read_back(&scene, &stored);
    bodies_are_in_order(&stored, 0, 10000);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void closing_the_environment_closes_its_producers_with_their_outcomes(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    stage_send(producer, 0, 5000);
    coney_call call = {0};
    assert_int_equal(coney_stream_env_close(&scene.env, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 5000);
    outcomes_free(&outcomes);
    scene.env = coney_stream_env_open(node.uri, &scene.options, NULL);
    assert_non_null(scene.env);
    scene_down(&scene);
}

static void a_close_whose_deadline_passes_leaves_the_rest_unknown_and_counts_it(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    stage_send(producer, 0, 100);
    outcomes_wait(&outcomes, 100);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    stage_send(producer, 100, 500);
    coney_call call = {.deadline = 100 * CONEY_MILLISECOND};
    int64_t begun = now_ms();
    coney_status status = coney_stream_producer_close(&producer, &call);
    assert_true(status == CONEY_ETIMEDOUT || status == CONEY_OK);
    assert_true(now_ms() - begun < scaled_ms(2000));
    assert_null(producer);
    assert_int_equal(call.value, 500);
    assert_int_equal(outcomes_count(&outcomes), 600);
    outcomes_are_each_once(&outcomes, 0, 600);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 500);
    proxy_limit(proxy, PROXY_TO_CLIENT, 0);
    scene_down(&scene);
    proxy_stop(&proxy);
    outcomes_free(&outcomes);
}

static void SB_100_a_thousand_producers_made_and_closed_leave_nothing_behind(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, NULL, NULL);
    producer_close(&producer);
    size_t descriptors = descriptors_open();
    size_t threads = threads_running();
    for (size_t i = 0; i < 1000; i++) {
        producer = scene_producer(&scene, NULL, NULL);
        if (i % 10 == 0)
            stage_send(producer, i, 1);
        producer_close(&producer);
    }
    wait_for_descriptors(descriptors);
    wait_for_threads(threads);
    coney_stream_env_stats stats;
    assert_int_equal(coney_stream_env_get_stats(scene.env, &stats), CONEY_OK);
    assert_int_equal(stats.producers, 0);
    assert_int_equal(stats.memory_out, 0);
    scene_down(&scene);
}

static void three_hundred_producers_share_two_connections(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static coney_stream_producer *producers[COUNT];
    struct scene scene;
    struct outcomes outcomes = {0};
    scene_up(&scene, node.uri);
    for (size_t i = 0; i < COUNT; i++)
        producers[i] = scene_producer(&scene, &outcomes, NULL);
    coney_stream_env_stats stats;
    assert_int_equal(coney_stream_env_get_stats(scene.env, &stats), CONEY_OK);
    assert_int_equal(stats.producers, COUNT);
    assert_int_equal(stats.connections, 3); /* one of them asks questions */
    for (size_t i = 0; i < COUNT; i++)
        stage_send(producers[i], i, 1);
    outcomes_wait(&outcomes, COUNT);
    outcomes_are_each_once(&outcomes, 0, COUNT);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), COUNT);
    for (size_t i = 0; i < COUNT; i++)
        producer_close(&producers[i]);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

/* Asynchronous calls ---------------------------------------------------------------------------------------------- */

static void a_producer_that_is_opening_takes_messages_already(void **state)
{
    (void)state;
    struct scene scene;
    struct outcomes outcomes = {0};
    struct deliveries stored = {0};
    struct waited_call opening = {0};
    struct waited_call closing = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer_options options = {.on_outcome = outcomes_add, .ctx = &outcomes};
    coney_stream_producer *producer =
        coney_stream_producer_open(scene.env, scene.stream, &options, waited_call_of(&opening, 0));
    assert_non_null(producer);
    stage_send(producer, 0, 500);
    assert_int_equal(waited_call_wait(&opening), CONEY_OK);
    stage_send(producer, 500, 500);
    assert_int_equal(coney_stream_producer_close(&producer, waited_call_of(&closing, 0)), CONEY_OK);
    assert_null(producer);
    assert_int_equal(waited_call_wait(&closing), CONEY_OK);
    assert_int_equal(outcomes_count(&outcomes), 1000);
    outcomes_are_each_once(&outcomes, 0, 1000);
    scene_read_back(&scene, &stored);
    bodies_are_in_order(&stored, 0, 1000);
    assert_int_equal(waited_call_count(&opening), 1);
    assert_int_equal(waited_call_count(&closing), 1);
    waited_call_free(&opening);
    waited_call_free(&closing);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&outcomes);
}

static void a_producer_of_a_missing_stream_is_dead_and_still_closed(void **state)
{
    (void)state;
    struct scene scene;
    struct waited_call opening = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer =
        coney_stream_producer_open(scene.env, "not there", &(coney_stream_producer_options){0}, waited_call_of(&opening, 0));
    assert_non_null(producer);
    assert_int_equal(waited_call_wait(&opening), CONEY_ENOTFOUND);
    assert_says(opening.answer.text, "'not there'");
    assert_int_equal(coney_stream_send(producer, CONEY_STR("x"), 1), CONEY_ECLOSED);
    producer_close(&producer);
    waited_call_free(&opening);
    scene_down(&scene);
}

static void a_call_that_is_cancelled_ends_so_and_harms_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct waited_call asking = {0};
    struct proxy *proxy = scene_behind_proxy(&scene);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    assert_int_equal(coney_stream_exists(scene.env, scene.stream, waited_call_of(&asking, 0)), CONEY_OK);
    assert_int_equal(coney_call_cancel(asking.call.id), CONEY_OK);
    assert_int_equal(waited_call_wait(&asking), CONEY_ECANCELED);
    assert_int_equal(coney_call_cancel(asking.call.id), CONEY_ENOTFOUND);
    proxy_limit(proxy, PROXY_TO_CLIENT, 0);
    coney_call call = {0};
    assert_int_equal(coney_stream_exists(scene.env, scene.stream, &call), CONEY_OK);
    assert_int_equal(call.value, 1);
    assert_int_equal(waited_call_count(&asking), 1);
    waited_call_free(&asking);
    scene_down(&scene);
    proxy_stop(&proxy);
}

static void a_deadline_ends_a_call_in_time_and_the_late_answer_is_dropped(void **state)
{
    (void)state;
    struct scene scene;
    struct proxy *proxy = scene_behind_proxy(&scene);
    coney_stream_producer *producer = scene_producer(&scene, NULL, NULL);
    proxy_limit(proxy, PROXY_TO_CLIENT, PROXY_NOTHING);
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    int64_t begun = now_ms();
    assert_int_equal(coney_stream_exists(scene.env, scene.stream, &call), CONEY_ETIMEDOUT);
    assert_string_not_equal(call.text, "");
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("x"), &call), CONEY_ETIMEDOUT);
    assert_int_equal(coney_stream_producer_flush(producer, &call), CONEY_ETIMEDOUT);
    assert_in_range(now_ms() - begun, 150, scaled_ms(3000));
    proxy_limit(proxy, PROXY_TO_CLIENT, 0);
    call = (coney_call){0};
    assert_int_equal(coney_stream_exists(scene.env, scene.stream, &call), CONEY_OK);
    assert_int_equal(call.value, 1);
    assert_int_equal(coney_stream_send_wait(producer, CONEY_STR("y"), NULL), CONEY_OK);
    producer_close(&producer);
    scene_down(&scene);
    proxy_stop(&proxy);
}

/* From where it is not allowed ------------------------------------------------------------------------------------ */

struct forbidden {
    struct scene *scene;
    coney_stream_producer *producer;
    struct outcomes outcomes;
    coney_status wait;
    coney_status flush;
    coney_status create;
};

static void call_from_outcome(void *ctx, const coney_outcome *outcome)
{
    struct forbidden *forbidden = ctx;
    coney_call call = {0};
    forbidden->wait = coney_stream_send_wait(forbidden->producer, CONEY_STR("never"), NULL);
    forbidden->flush = coney_stream_producer_flush(forbidden->producer, &call);
    forbidden->create = coney_stream_create(forbidden->scene->env, "never", NULL, NULL);
    outcomes_add(&forbidden->outcomes, outcome);
}

static void a_blocking_call_in_an_outcome_callback_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    struct forbidden forbidden = {.scene = &scene};
    coney_stream_producer_options options = {.on_outcome = call_from_outcome, .ctx = &forbidden};
    forbidden.producer = scene_producer(&scene, NULL, &options);
    stage_send(forbidden.producer, 0, 1);
    outcomes_wait(&forbidden.outcomes, 1);
    assert_int_equal(forbidden.wait, CONEY_EDEADLK);
    assert_int_equal(forbidden.flush, CONEY_EDEADLK);
    assert_int_equal(forbidden.create, CONEY_EDEADLK);
    producer_close(&forbidden.producer);
    scene_read_back(&scene, &stored);
    bodies_are_in_order(&stored, 0, 1);
    deliveries_free(&stored);
    scene_down(&scene);
    outcomes_free(&forbidden.outcomes);
}

static void close_from_outcome(void *ctx, const coney_outcome *outcome)
{
    struct forbidden *forbidden = ctx;
    if (forbidden->producer != NULL)
        forbidden->wait = coney_stream_producer_close(&forbidden->producer, NULL);
    outcomes_add(&forbidden->outcomes, outcome);
}

static void a_producer_closed_in_its_own_callback_gives_every_outcome(void **state)
{
    (void)state;
    struct scene scene;
    scene_up(&scene, node.uri);
    struct forbidden forbidden = {.scene = &scene, .wait = CONEY_EINVAL};
    coney_stream_producer_options options = {.on_outcome = close_from_outcome, .ctx = &forbidden};
    coney_stream_producer *producer = scene_producer(&scene, NULL, &options);
    size_t accepted = 0;
    /* Sent as one batch, so that the handle is not used after a callback has closed it. */
    coney_bytes bodies[1000];
    for (size_t i = 0; i < 1000; i++)
        bodies[i] = CONEY_STR("x");
    forbidden.producer = producer;
    assert_int_equal(coney_stream_send_batch(producer, bodies, 1000, 0, &accepted), CONEY_OK);
    outcomes_wait(&forbidden.outcomes, 1000);
    outcomes_are_each_once(&forbidden.outcomes, 0, 1000);
    assert_int_equal(forbidden.wait, CONEY_OK);
    assert_null(forbidden.producer);
    scene_down(&scene);
    outcomes_free(&forbidden.outcomes);
}

/* What a child does with its parent's handles: 0, or the number of the step that went wrong. */
static int in_child(coney_stream_env *env, coney_stream_producer *producer, const char *stream)
{
    coney_call call = {0};
    coney_stream_producer_stats stats;
    if (coney_stream_send(producer, CONEY_STR("x"), 1) != CONEY_EFORKED)
        return 1;
    if (coney_stream_send_wait(producer, CONEY_STR("x"), &call) != CONEY_EFORKED)
        return 2;
    if (coney_stream_exists(env, stream, &call) != CONEY_EFORKED)
        return 3;
    if (coney_stream_producer_get_stats(producer, &stats) != CONEY_OK)
        return 4;
    coney_stream_producer_close(&producer, NULL);
    coney_stream_env_close(&env, NULL);
    if (producer != NULL || env != NULL)
        return 5;
    return 0;
}

static void a_forked_child_is_refused_and_its_parent_goes_on(void **state)
{
    (void)state;
    struct scene scene;
    struct deliveries stored = {0};
    scene_up(&scene, node.uri);
    coney_stream_producer *producer = scene_producer(&scene, NULL, NULL);
    stage_send(producer, 0, 10);
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(scene.env, producer, scene.stream));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    stage_send(producer, 10, 10);
    producer_close(&producer);
    scene_read_back(&scene, &stored);
    bodies_are_in_order(&stored, 0, 20);
    deliveries_free(&stored);
    scene_down(&scene);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_46_a_sender_at_the_bound_waits_until_confirms_make_room),
        cmocka_unit_test(a_bound_in_bytes_holds_as_well),
        cmocka_unit_test(on_the_users_own_loop_a_full_producer_says_when_there_is_room_again),
        cmocka_unit_test(SB_43_close_waits_for_the_outcome_of_all_that_was_sent),
        cmocka_unit_test(closing_the_environment_closes_its_producers_with_their_outcomes),
        cmocka_unit_test(a_close_whose_deadline_passes_leaves_the_rest_unknown_and_counts_it),
        cmocka_unit_test(SB_100_a_thousand_producers_made_and_closed_leave_nothing_behind),
        cmocka_unit_test(three_hundred_producers_share_two_connections),
        cmocka_unit_test(a_producer_that_is_opening_takes_messages_already),
        cmocka_unit_test(a_producer_of_a_missing_stream_is_dead_and_still_closed),
        cmocka_unit_test(a_call_that_is_cancelled_ends_so_and_harms_nothing),
        cmocka_unit_test(a_deadline_ends_a_call_in_time_and_the_late_answer_is_dropped),
        cmocka_unit_test(a_blocking_call_in_an_outcome_callback_is_refused),
        cmocka_unit_test(a_producer_closed_in_its_own_callback_gives_every_outcome),
        cmocka_unit_test(a_forked_child_is_refused_and_its_parent_goes_on),
    };
    return run_tests(tests);
}
