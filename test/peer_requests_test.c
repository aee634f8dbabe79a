/* Requests and their answers: streams, offsets, statuses, deadlines, cancelling, calls from the wrong place. */
#define _GNU_SOURCE
#include "stage.h"

/* Statuses ------------------------------------------------------------------------------------------------------- */

static void every_code_of_the_broker_has_its_status_and_a_text_that_names_the_stream(void **state)
{
    (void)state;
    static const struct {
        uint16_t code;
        coney_status status;
    } codes[] = {
        {STREAM_CODE_STREAM_DOES_NOT_EXIST, CONEY_ENOTFOUND},
        {STREAM_CODE_STREAM_EXISTS, CONEY_EEXIST},
        {STREAM_CODE_STREAM_NOT_AVAILABLE, CONEY_EUNAVAILABLE},
        {STREAM_CODE_ACCESS_REFUSED, CONEY_EACCESS},
        {STREAM_CODE_PRECONDITION_FAILED, CONEY_EPRECONDITION},
        {STREAM_CODE_INTERNAL_ERROR, CONEY_EBROKER},
        {77, CONEY_EBROKER},
    };
    struct stage stage;
    stage_up(&stage);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        peer_answer(stage.peer, STREAM_CREATE, 1, codes[i].code);
        coney_call call = {0};
        coney_status status = coney_stream_create(stage.env, "invoices", NULL, &call);
        if (status != codes[i].status)
            fail_msg("code %u gives %s", codes[i].code, coney_status_name(status));
        assert_int_equal(call.status, status);
        assert_int_equal(call.code, codes[i].code);
        assert_says(call.text, "invoices");
        peer_by_default(stage.peer, STREAM_CREATE);
    }
    stage_down(&stage);
}

static void SB_58_create_sends_its_limits_as_texts(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_spec spec = {.max_length = INT64_C(5368709120),
                              .max_age = 7 * 24 * 3600 * CONEY_SECOND,
                              .max_segment_size = 3000000000,
                              .leader_locator = "balanced",
                              .initial_cluster_size = 3};
    assert_int_equal(coney_stream_create(stage.env, "s", &spec, NULL), CONEY_OK);
    struct stream_list arguments = peer_expect(stage.peer, STREAM_CREATE)->frame.create.arguments;
    assert_true(bytes_equal(list_find(arguments, CONEY_STR("max-length-bytes")), CONEY_STR("5368709120")));
    assert_true(bytes_equal(list_find(arguments, CONEY_STR("max-age")), CONEY_STR("604800s")));
    assert_true(bytes_equal(list_find(arguments, CONEY_STR("stream-max-segment-size-bytes")), CONEY_STR("3000000000")));
    assert_true(bytes_equal(list_find(arguments, CONEY_STR("queue-leader-locator")), CONEY_STR("balanced")));
    assert_true(bytes_equal(list_find(arguments, CONEY_STR("initial-cluster-size")), CONEY_STR("3")));
    assert_int_equal(arguments.count, 5);
    const coney_field more[] = {{CONEY_STR_INIT("stream-filter-size-bytes"), coney_value_string(CONEY_STR("32"))}};
    coney_stream_spec with_more = {.arguments = more, .argument_count = 1};
    assert_int_equal(coney_stream_create(stage.env, "t", &with_more, NULL), CONEY_OK);
    arguments = peer_expect(stage.peer, STREAM_CREATE)->frame.create.arguments;
    assert_int_equal(arguments.count, 1);
    assert_true(bytes_equal(list_find(arguments, CONEY_STR("stream-filter-size-bytes")), CONEY_STR("32")));
    stage_down(&stage);
}

static void a_spec_out_of_range_is_refused_without_a_frame(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    const coney_stream_spec odd[] = {
        {.max_length = -5}, {.max_age = -5}, {.max_segment_size = INT64_C(3000000001)}, {.initial_cluster_size = -1}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        coney_call call = {0};
        coney_status status = coney_stream_create(stage.env, "s", &odd[i], &call);
        if (status != CONEY_EINVAL)
            fail_msg("spec %zu gives %s", i, coney_status_name(status));
        assert_true(call.text[0] != '\0');
    }
    assert_int_equal(peer_count(stage.peer, STREAM_CREATE), 0);
    stage_down(&stage);
}

static void SB_59_an_existing_stream_is_its_own_status_and_success_if_missing(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_spec if_missing = {.if_missing = true};
    peer_answer(stage.peer, STREAM_CREATE, PEER_EVERY, STREAM_CODE_STREAM_EXISTS);
    assert_int_equal(coney_stream_create(stage.env, "s", NULL, NULL), CONEY_EEXIST);
    assert_int_equal(coney_stream_create(stage.env, "s", &if_missing, NULL), CONEY_OK);
    peer_answer(stage.peer, STREAM_CREATE, PEER_EVERY, STREAM_CODE_PRECONDITION_FAILED);
    coney_call call = {0};
    assert_int_equal(coney_stream_create(stage.env, "s", &if_missing, &call), CONEY_EPRECONDITION);
    assert_int_equal(call.code, STREAM_CODE_PRECONDITION_FAILED);
    stage_down(&stage);
}

static void a_stream_that_is_not_there_is_not_found_everywhere(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_set_stream(stage.peer, "gone", STREAM_CODE_STREAM_DOES_NOT_EXIST);
    coney_stream_stats stats;
    coney_stream_metadata metadata;
    coney_call call = {0};
    assert_int_equal(coney_stream_delete(stage.env, "gone", NULL), CONEY_ENOTFOUND);
    assert_int_equal(coney_stream_get_stats(stage.env, "gone", &stats, NULL), CONEY_ENOTFOUND);
    assert_int_equal(coney_stream_get_metadata(stage.env, "gone", &metadata, NULL), CONEY_ENOTFOUND);
    assert_int_equal(coney_stream_query_offset(stage.env, "gone", "me", &call), CONEY_ENOTFOUND);
    assert_int_equal(coney_stream_query_publishing_id(stage.env, "gone", "me", &call), CONEY_ENOTFOUND);
    assert_null(coney_stream_producer_open(stage.env, "gone", NULL, &call));
    assert_int_equal(call.status, CONEY_ENOTFOUND);
    assert_says(call.text, "gone");
    struct deliveries deliveries = {0};
    coney_stream_consumer_options options = {.on_message = deliveries_add, .ctx = &deliveries};
    assert_null(coney_stream_consumer_open(stage.env, "gone", &options, &call));
    assert_int_equal(call.status, CONEY_ENOTFOUND);
    assert_says(call.text, "gone");
    stage_down(&stage);
}

static void exists_tells_yes_and_no(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_set_stream(stage.peer, "gone", STREAM_CODE_STREAM_DOES_NOT_EXIST);
    coney_call call = {0};
    assert_int_equal(coney_stream_exists(stage.env, "there", &call), CONEY_OK);
    assert_int_equal(call.value, 1);
    assert_int_equal(coney_stream_exists(stage.env, "gone", &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    stage_down(&stage);
}

static void stats_and_metadata_are_read(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_stream_stats stats;
    assert_int_equal(coney_stream_get_stats(stage.env, "s", &stats, NULL), CONEY_OK);
    assert_int_equal(stats.first_offset, 1);
    assert_int_equal(stats.committed_chunk_offset, 2);
    assert_int_equal(stats.last_chunk_offset, 3);
    assert_int_equal(stats.committed_offset, -1);
    const struct peer_node nodes[] = {{"rabbit-0", 5552}, {"rabbit-1", 5553}, {"rabbit-2", 5554}};
    peer_set_nodes(stage.peer, nodes, 3, 1);
    coney_stream_metadata metadata;
    assert_int_equal(coney_stream_get_metadata(stage.env, "s", &metadata, NULL), CONEY_OK);
    assert_string_equal(metadata.leader.host, "rabbit-1");
    assert_int_equal(metadata.leader.port, 5553);
    assert_int_equal(metadata.replica_count, 2);
    assert_string_equal(metadata.replicas[0].host, "rabbit-0");
    assert_string_equal(metadata.replicas[1].host, "rabbit-2");
    stage_down(&stage);
}

static void partition_seen(void *ctx, const char *partition)
{
    size_t *count = ctx;
    char expected[16];
    snprintf(expected, sizeof expected, "orders-%zu", (*count)++);
    assert_string_equal(partition, expected);
}

static void partitions_come_in_their_order(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    size_t count = 0;
    coney_call call = {0};
    assert_int_equal(coney_stream_partitions(stage.env, "orders", partition_seen, &count, &call), CONEY_OK);
    assert_int_equal(count, 3);
    assert_int_equal(call.value, 3);
    stage_down(&stage);
}

/* Offsets -------------------------------------------------------------------------------------------------------- */

static void SB_13_nothing_stored_is_its_own_status(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_call call = {0};
    assert_int_equal(coney_stream_query_offset(stage.env, "s", "me", &call), CONEY_ENOOFFSET);
    assert_int_equal(call.code, STREAM_CODE_NO_OFFSET);
    assert_int_equal(coney_stream_store_offset(stage.env, "s", "me", 77, NULL), CONEY_OK);
    assert_int_equal(coney_stream_query_offset(stage.env, "s", "me", &call), CONEY_OK);
    assert_int_equal(call.value, 77);
    stage_down(&stage);
}

static void SB_10_the_largest_number_is_no_offset(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    coney_call call = {0};
    assert_int_equal(coney_stream_store_offset(stage.env, "s", "me", UINT64_MAX, &call), CONEY_EINVAL);
    assert_true(call.text[0] != '\0');
    struct deliveries deliveries = {0};
    coney_stream_consumer_options options = {.name = "me"};
    coney_stream_consumer *consumer = stage_consumer(&stage, "s", &deliveries, &options);
    assert_int_equal(coney_stream_consumer_store(consumer, UINT64_MAX), CONEY_EINVAL);
    consumer_close(&consumer);
    assert_int_equal(peer_count(stage.peer, STREAM_STORE_OFFSET), 0);
    deliveries_free(&deliveries);
    stage_down(&stage);
}

static void a_store_that_does_not_read_back_is_an_error(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_ignore(stage.peer, STREAM_STORE_OFFSET, PEER_EVERY);
    peer_set_offset(stage.peer, "s", "me", 5);
    assert_int_equal(coney_stream_store_offset(stage.env, "s", "me", 77, NULL), CONEY_EBROKER);
    stage_down(&stage);
}

static void the_last_publishing_id_is_asked_for(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_set_sequence(stage.peer, "s", "me", 41);
    coney_call call = {0};
    assert_int_equal(coney_stream_query_publishing_id(stage.env, "s", "me", &call), CONEY_OK);
    assert_int_equal(call.value, 41);
    assert_int_equal(coney_stream_query_publishing_id(stage.env, "s", "nobody", &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    stage_down(&stage);
}

/* Input ---------------------------------------------------------------------------------------------------------- */

static void names_that_the_broker_cannot_hold_are_refused_without_a_frame(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    char name[257];
    memset(name, 'n', 256);
    name[256] = '\0';
    coney_call call = {0};
    coney_stream_producer_options producer = {.name = name};
    assert_null(coney_stream_producer_open(stage.env, "s", &producer, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    assert_says(call.text, "255");
    struct deliveries deliveries = {0};
    coney_stream_consumer_options consumer = {.name = name, .on_message = deliveries_add, .ctx = &deliveries};
    assert_null(coney_stream_consumer_open(stage.env, "s", &consumer, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    assert_says(call.text, "255");
    assert_int_equal(coney_stream_query_offset(stage.env, "s", name, &call), CONEY_EINVAL);
    assert_int_equal(coney_stream_store_offset(stage.env, "s", name, 1, &call), CONEY_EINVAL);
    assert_int_equal(coney_stream_create(stage.env, NULL, NULL, &call), CONEY_EINVAL);
    assert_int_equal(coney_stream_create(stage.env, "", NULL, &call), CONEY_EINVAL);
    assert_int_equal(coney_stream_create(stage.env, name, NULL, &call), CONEY_EINVAL);
    assert_int_equal(peer_count(stage.peer, STREAM_DECLARE_PUBLISHER), 0);
    assert_int_equal(peer_count(stage.peer, STREAM_SUBSCRIBE), 0);
    assert_int_equal(peer_count(stage.peer, STREAM_QUERY_OFFSET), 0);
    assert_int_equal(peer_count(stage.peer, STREAM_CREATE), 0);
    stage_down(&stage);
}

static void null_handles_are_refused_and_harmless_to_close(void **state)
{
    (void)state;
    coney_call call = {0};
    coney_stream_env *env = NULL;
    coney_stream_producer *producer = NULL;
    coney_stream_consumer *consumer = NULL;
    assert_int_equal(coney_stream_create(NULL, "s", NULL, &call), CONEY_EINVAL);
    assert_int_equal(coney_stream_send(NULL, CONEY_STR("x"), 1), CONEY_EINVAL);
    assert_int_equal(coney_stream_env_close(&env, NULL), CONEY_OK);
    assert_int_equal(coney_stream_producer_close(&producer, NULL), CONEY_OK);
    assert_int_equal(coney_stream_consumer_close(&consumer, NULL), CONEY_OK);
    struct stage stage;
    stage_up(&stage);
    assert_int_equal(coney_stream_exists(stage.env, "s", NULL), CONEY_EINVAL);
    assert_int_equal(coney_stream_query_offset(stage.env, "s", "me", NULL), CONEY_EINVAL);
    stage_down(&stage);
}

/* Deadlines ------------------------------------------------------------------------------------------------------ */

static void SB_79_a_late_answer_does_not_touch_a_newer_request(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_hold(stage.peer, STREAM_DELETE, 1);
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    assert_int_equal(coney_stream_delete(stage.env, "first", &call), CONEY_ETIMEDOUT);
    assert_true(call.text[0] != '\0');
    peer_hold(stage.peer, STREAM_CREATE, 1);
    struct waited_call second = {0};
    coney_stream_create(stage.env, "second", NULL, waited_call_of(&second, 0));
    peer_wait_count(stage.peer, STREAM_CREATE, 1);
    peer_release(stage.peer, STREAM_DELETE); /* the late answer */
    assert_int_equal(coney_stream_delete(stage.env, "third", NULL), CONEY_OK);
    assert_int_equal(waited_call_count(&second), 0);
    peer_release(stage.peer, STREAM_CREATE);
    assert_int_equal(waited_call_wait(&second), CONEY_OK);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);
    stage_down(&stage);
    waited_call_free(&second);
}

static void SB_79_a_lost_connection_ends_every_waiting_call_at_once(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_ignore(stage.peer, STREAM_CREATE, PEER_EVERY);
    struct waited_call calls[5] = {0};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(coney_stream_create(stage.env, "s", NULL, waited_call_of(&calls[i], 0)), CONEY_OK);
    peer_wait_count(stage.peer, STREAM_CREATE, 5);
    int64_t before = now_ms();
    peer_cut(stage.peer, PEER_ALL, PEER_RST);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(waited_call_wait(&calls[i]), CONEY_ELOST);
        assert_int_equal(waited_call_count(&calls[i]), 1);
        assert_true(calls[i].answer.text[0] != '\0');
    }
    assert_true(now_ms() - before < scaled_ms(1000));
    stage_down(&stage);
    for (size_t i = 0; i < 5; i++)
        waited_call_free(&calls[i]);
}

static void SB_79_a_request_on_a_connection_that_was_cut_unnoticed_does_not_hang(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    for (int round = 0; round < 20; round++) {
        peer_cut(stage.peer, PEER_ALL, round % 2 == 0 ? PEER_RST : PEER_FIN);
        coney_call call = call_within(8000);
        int64_t before = now_ms();
        coney_status status = coney_stream_create(stage.env, "s", NULL, &call);
        if (status != CONEY_OK && status != CONEY_ELOST)
            fail_msg("round %d: %s: %s", round, coney_status_name(status), call.text);
        assert_true(now_ms() - before < scaled_ms(2000));
    }
    stage_down(&stage);
}

static void SB_79_closing_when_the_socket_is_dead_returns_at_once(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_go_down(stage.peer, PEER_RST);
    int64_t before = now_ms();
    assert_int_equal(coney_stream_env_close(&stage.env, NULL), CONEY_OK);
    assert_true(now_ms() - before < scaled_ms(1000));
    stage_down(&stage);
}

static void the_default_deadline_of_the_environment_holds(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    stage.options.call_deadline = scaled_ns(400);
    stage_open(&stage);
    peer_ignore(stage.peer, STREAM_CREATE, PEER_EVERY);
    int64_t before = now_ms();
    assert_int_equal(coney_stream_create(stage.env, "s", NULL, NULL), CONEY_ETIMEDOUT);
    assert_true(now_ms() - before >= scaled_ms(390) && now_ms() - before < scaled_ms(4000));
    stage_down(&stage);
}

static void a_call_can_be_cancelled_and_its_answer_comes_to_nobody(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_hold(stage.peer, STREAM_CREATE, PEER_EVERY);
    struct waited_call call = {0};
    coney_stream_create(stage.env, "s", NULL, waited_call_of(&call, 0));
    peer_wait_count(stage.peer, STREAM_CREATE, 1);
    assert_int_equal(coney_call_cancel(call.call.id), CONEY_OK);
    assert_int_equal(waited_call_wait(&call), CONEY_ECANCELED);
    peer_release(stage.peer, STREAM_CREATE);
    assert_int_equal(coney_stream_create(stage.env, "t", NULL, NULL), CONEY_OK);
    assert_int_equal(waited_call_count(&call), 1);
    assert_int_equal(coney_call_cancel(call.call.id), CONEY_ENOTFOUND);
    stage_down(&stage);
    waited_call_free(&call);
}

static void an_answer_that_nobody_asked_for_is_survived_or_ends_the_connection(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    struct stream_frame frame = {.key = STREAM_CREATE, .version = 1, .response = true, .code = 1, .correlation = 999999};
    peer_send(stage.peer, PEER_ALL, &frame);
    assert_int_equal(coney_stream_create(stage.env, "s", NULL, NULL), CONEY_OK);
    stage_down(&stage);
}

static void an_answer_of_another_kind_to_our_question_is_not_taken_for_it(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_hold(stage.peer, STREAM_QUERY_OFFSET, PEER_EVERY);
    struct waited_call call = {0};
    coney_stream_query_offset(stage.env, "s", "me", waited_call_of(&call, 2000));
    const struct peer_record *query = peer_expect(stage.peer, STREAM_QUERY_OFFSET);
    struct stream_frame wrong = {
        .key = STREAM_CREATE, .version = 1, .response = true, .code = 1, .correlation = query->frame.correlation};
    peer_send(stage.peer, query->connection, &wrong);
    coney_status status = waited_call_wait(&call);
    if (status != CONEY_EPROTOCOL && status != CONEY_ELOST && status != CONEY_ETIMEDOUT)
        fail_msg("%s: %s", coney_status_name(status), call.answer.text);
    stage_down(&stage);
    waited_call_free(&call);
}

static void the_words_of_a_close_from_the_broker_are_an_event(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_send_close(stage.peer, PEER_ALL, STREAM_CODE_FRAME_TOO_LARGE, "frame too large");
    struct event event = events_wait(&stage.events, CONEY_EVENT_SERVER_CLOSE, 0);
    assert_int_equal(event.code, STREAM_CODE_FRAME_TOO_LARGE);
    assert_says(event.text, "frame too large");
    events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0);
    assert_int_equal(coney_stream_create(stage.env, "s", NULL, NULL), CONEY_OK);
    stage_down(&stage);
}

/* Places --------------------------------------------------------------------------------------------------------- */

struct from_loop {
    coney_stream_env *env;
    struct waited_call inner;
    struct monitor monitor;
    coney_status blocking, asynchronous;
    size_t done;
};

static void on_done_calls_again(void *ctx, const coney_call *call)
{
    (void)call;
    struct from_loop *from = ctx;
    coney_status blocking = coney_stream_create(from->env, "t", NULL, NULL);
    coney_status asynchronous = coney_stream_create(from->env, "u", NULL, waited_call_of(&from->inner, 0));
    monitor_lock(&from->monitor);
    from->blocking = blocking;
    from->asynchronous = asynchronous;
    from->done = 1;
    monitor_broadcast(&from->monitor);
    monitor_unlock(&from->monitor);
}

static void a_blocking_call_on_the_loop_is_refused_and_an_asynchronous_one_is_not(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    struct from_loop from = {.env = stage.env};
    coney_call call = {.on_done = on_done_calls_again, .ctx = &from};
    assert_int_equal(coney_stream_create(stage.env, "s", NULL, &call), CONEY_OK);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&from.monitor);
    while (from.done == 0 && monitor_wait(&from.monitor, until))
        ;
    monitor_unlock(&from.monitor);
    assert_int_equal(from.blocking, CONEY_EDEADLK);
    assert_int_equal(from.asynchronous, CONEY_OK);
    assert_int_equal(waited_call_wait(&from.inner), CONEY_OK);
    assert_int_equal(peer_count(stage.peer, STREAM_CREATE), 2);
    stage_down(&stage);
    waited_call_free(&from.inner);
    monitor_free(&from.monitor);
}

static void inputs_of_an_asynchronous_call_are_copied(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    peer_freeze(stage.peer, true);
    char name[] = "original";
    struct waited_call call = {0};
    assert_int_equal(coney_stream_create(stage.env, name, NULL, waited_call_of(&call, 0)), CONEY_OK);
    memset(name, 'X', sizeof name - 1);
    peer_freeze(stage.peer, false);
    assert_int_equal(waited_call_wait(&call), CONEY_OK);
    assert_true(bytes_equal(peer_expect(stage.peer, STREAM_CREATE)->frame.create.stream, CONEY_STR("original")));
    stage_down(&stage);
    waited_call_free(&call);
}

struct asker {
    coney_stream_env *env;
    pthread_t thread;
    size_t wrong;
};

static void *ask(void *arg)
{
    struct asker *asker = arg;
    for (int i = 0; i < 100; i++) {
        coney_call call = {0};
        asker->wrong += coney_stream_exists(asker->env, "s", &call) != CONEY_OK || call.value != 1;
    }
    return NULL;
}

static void several_threads_ask_at_once(void **state)
{
    (void)state;
    struct stage stage;
    stage_up(&stage);
    struct asker askers[8];
    for (size_t i = 0; i < 8; i++) {
        askers[i] = (struct asker){.env = stage.env};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    size_t wrong = 0;
    for (size_t i = 0; i < 8; i++) {
        pthread_join(askers[i].thread, NULL);
        wrong += askers[i].wrong;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(peer_count(stage.peer, STREAM_METADATA), 800);
    stage_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_the_broker_has_its_status_and_a_text_that_names_the_stream),
        cmocka_unit_test(SB_58_create_sends_its_limits_as_texts),
        cmocka_unit_test(a_spec_out_of_range_is_refused_without_a_frame),
        cmocka_unit_test(SB_59_an_existing_stream_is_its_own_status_and_success_if_missing),
        cmocka_unit_test(a_stream_that_is_not_there_is_not_found_everywhere),
        cmocka_unit_test(exists_tells_yes_and_no),
        cmocka_unit_test(stats_and_metadata_are_read),
        cmocka_unit_test(partitions_come_in_their_order),
        cmocka_unit_test(SB_13_nothing_stored_is_its_own_status),
        cmocka_unit_test(SB_10_the_largest_number_is_no_offset),
        cmocka_unit_test(a_store_that_does_not_read_back_is_an_error),
        cmocka_unit_test(the_last_publishing_id_is_asked_for),
        cmocka_unit_test(names_that_the_broker_cannot_hold_are_refused_without_a_frame),
        cmocka_unit_test(null_handles_are_refused_and_harmless_to_close),
        cmocka_unit_test(SB_79_a_late_answer_does_not_touch_a_newer_request),
        cmocka_unit_test(SB_79_a_lost_connection_ends_every_waiting_call_at_once),
        cmocka_unit_test(SB_79_a_request_on_a_connection_that_was_cut_unnoticed_does_not_hang),
        cmocka_unit_test(SB_79_closing_when_the_socket_is_dead_returns_at_once),
        cmocka_unit_test(the_default_deadline_of_the_environment_holds),
        cmocka_unit_test(a_call_can_be_cancelled_and_its_answer_comes_to_nobody),
        cmocka_unit_test(an_answer_that_nobody_asked_for_is_survived_or_ends_the_connection),
        cmocka_unit_test(an_answer_of_another_kind_to_our_question_is_not_taken_for_it),
        cmocka_unit_test(the_words_of_a_close_from_the_broker_are_an_event),
        cmocka_unit_test(a_blocking_call_on_the_loop_is_refused_and_an_asynchronous_one_is_not),
        cmocka_unit_test(inputs_of_an_asynchronous_call_are_copied),
        cmocka_unit_test(several_threads_ask_at_once),
    };
    return run_tests(tests);
}
