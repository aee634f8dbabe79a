/* Consumers on a real node: how deliveries come, from each type of queue, under each option; how consumers end and come back; get. */
#define _GNU_SOURCE
#include "warren.h"

static struct node node;

static const coney_amqp_queue quorum = {.type = CONEY_QUEUE_QUORUM};
static const coney_amqp_queue stream = {.type = CONEY_QUEUE_STREAM};

static void wait_until_empty(struct warren *warren, coney_amqp_consumer **consumer)
{
    warren_close_consumer(consumer);
    assert_int_equal(warren_ready(warren, warren->queue), 0);
}

/* What comes, from which queue ----------------------------------------------------------------------------------------- */

static void consumes_a_thousand(const coney_amqp_queue *queue)
{
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, queue);
    warren_fill(&warren, 0, 500);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    warren_fill(&warren, 500, 500);
    parcels_wait(&parcels, 1000);
    parcels_are_in_order(&parcels, 0, 1000);
    assert_int_equal(coney_amqp_consumer_pause(consumer), CONEY_OK);
    coney_amqp_consumer_stats stats = warren_stats(consumer);
    assert_int_equal(stats.messages, 1000);
    assert_int_equal(stats.acked, 1000);
    wait_until_empty(&warren, &consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void what_a_classic_queue_holds_comes_once_and_in_order(void **state)
{
    (void)state;
    consumes_a_thousand(NULL);
}

static void what_a_quorum_queue_holds_comes_once_and_in_order(void **state)
{
    (void)state;
    consumes_a_thousand(&quorum);
}

static void a_stream_queue_is_read_from_the_offset_that_is_asked_for(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels all = {0};
    struct parcels late = {0};
    warren_up(&warren, &node, &stream);
    warren_fill(&warren, 0, 100);
    coney_field first = {CONEY_STR("x-stream-offset"), coney_value_string(CONEY_STR("first"))};
    coney_field number = {CONEY_STR("x-stream-offset"), coney_value_i64(70)};
    coney_amqp_consumer_options from_first = {.arguments = &first, .argument_count = 1, .prefetch = 20};
    coney_amqp_consumer_options from_70 = {.arguments = &number, .argument_count = 1};
    coney_amqp_consumer *one = warren_consumer(&warren, &all, &from_first);
    coney_amqp_consumer *other = warren_consumer(&warren, &late, &from_70);
    parcels_wait(&all, 100);
    parcels_wait(&late, 30);
    parcels_are_in_order(&all, 0, 100);
    parcels_are_in_order(&late, 70, 30);
    warren_close_consumer(&one);
    warren_close_consumer(&other);
    parcels_free(&all);
    parcels_free(&late);
    warren_down(&warren);
}

static void bodies_of_any_size_come_whole(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 131064, 131065, 400000, 3000000};
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, NULL);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        warren_fill_with(&warren, i, 1, sizes[i]);
    parcels_wait(&parcels, sizeof sizes / sizeof sizes[0]);
    parcels_are_in_order(&parcels, 0, sizeof sizes / sizeof sizes[0]);
    for (size_t i = 2; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_int_equal(parcels_of(&parcels, i).body_len, sizes[i]);
    wait_until_empty(&warren, &consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void consumers_of_one_connection_do_not_mix(void **state)
{
    (void)state;
    enum { QUEUES = 5 };
    struct warren warrens[QUEUES];
    struct parcels parcels[QUEUES] = {0};
    coney_amqp_consumer *consumers[QUEUES];
    warren_up(&warrens[0], &node, NULL);
    for (size_t i = 0; i < QUEUES; i++) {
        if (i > 0) {
            warren_set(&warrens[i], &node);
            warrens[i].env = warrens[0].env;
            warren_declare(&warrens[i], warrens[i].queue, NULL);
        }
        consumers[i] = warren_consumer(&warrens[i], &parcels[i], NULL);
    }
    for (uint64_t round = 0; round < 20; round++)
        for (size_t i = 0; i < QUEUES; i++)
            warren_fill(&warrens[i], round * 10, 10);
    for (size_t i = 0; i < QUEUES; i++) {
        parcels_wait(&parcels[i], 200);
        parcels_are_in_order(&parcels[i], 0, 200);
        wait_until_empty(&warrens[i], &consumers[i]);
        parcels_free(&parcels[i]);
        if (i > 0)
            coney_amqp_queue_delete(warrens[0].env, warrens[i].queue, 0, NULL);
    }
    warren_down(&warrens[0]);
}

/* Options -------------------------------------------------------------------------------------------------------------- */

static void H08_the_prefetch_holds_from_the_first_message_on_and_after_a_cut(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {.closed_gate = true};
    warren_set(&warren, &node);
    warren_through_scissors(&warren, &node);
    warren_open(&warren, NULL);
    warren_fill(&warren, 0, 50);
    coney_amqp_consumer_options options = {.prefetch = 5};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    parcels_wait(&parcels, 1);
    warren_wait_for_ready(&warren, warren.queue, 45);

    for (size_t cut = 1; cut <= 3; cut++) {
        scissors_cut_all(warren.scissors);
        events_wait(&warren.events, CONEY_EVENT_RECOVERED, cut - 1);
        warren_wait_for_ready(&warren, warren.queue, 45);
    }
    parcels_open_gate(&parcels);
    parcels_wait(&parcels, 51); /* the first, whose handler stood at the gate, came again */
    assert_int_equal(warren_stats(consumer).reconnects, 3);
    wait_until_empty(&warren, &consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void with_a_prefetch_of_one_messages_come_one_at_a_time(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {.closed_gate = true};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 200);
    coney_amqp_consumer_options options = {.prefetch = 1};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    parcels_wait(&parcels, 1);
    warren_wait_for_ready(&warren, warren.queue, 199);
    parcels_open_gate(&parcels);
    parcels_wait(&parcels, 200);
    parcels_are_in_order(&parcels, 0, 200);
    warren_close_consumer(&consumer);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void without_a_prefetch_all_of_the_queue_is_sent(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {.closed_gate = true};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 3000);
    coney_amqp_consumer_options options = {.prefetch = CONEY_OFF};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    warren_wait_for_ready(&warren, warren.queue, 0);
    parcels_open_gate(&parcels);
    parcels_wait(&parcels, 3000);
    parcels_are_in_order(&parcels, 0, 3000);
    wait_until_empty(&warren, &consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void an_exclusive_consumer_keeps_others_out(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, NULL);
    coney_amqp_consumer_options options = {.exclusive = true};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    coney_call call = {0};
    options = (coney_amqp_consumer_options){.on_delivery = parcels_add, .ctx = &parcels};
    assert_null(coney_amqp_consumer_open(warren.env, warren.queue, &options, &call));
    assert_int_equal(call.status, CONEY_EACCESS);
    assert_int_equal(call.code, 403);
    warren_fill(&warren, 0, 1);
    parcels_wait(&parcels, 1);
    warren_close_consumer(&consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void the_consumer_of_a_higher_priority_gets_all_that_it_can_take(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels low = {0};
    struct parcels high = {0};
    warren_up(&warren, &node, NULL);
    coney_amqp_consumer_options options = {.priority = -5, .has_priority = true};
    coney_amqp_consumer *lower = warren_consumer(&warren, &low, &options);
    options.priority = 5;
    options.prefetch = CONEY_OFF;
    coney_amqp_consumer *higher = warren_consumer(&warren, &high, &options);
    warren_fill(&warren, 0, 100);
    parcels_wait(&high, 100);
    assert_int_equal(parcels_count(&low), 0);
    warren_close_consumer(&higher);
    warren_fill(&warren, 100, 10);
    parcels_wait(&low, 10);
    warren_close_consumer(&lower);
    parcels_free(&low);
    parcels_free(&high);
    warren_down(&warren);
}

static void without_acks_the_broker_forgets_and_a_reject_is_an_event(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {.settle = CONEY_REJECT};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 100);
    coney_amqp_consumer_options options = {.no_ack = true};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    parcels_wait(&parcels, 100);
    parcels_are_in_order(&parcels, 0, 100);
    struct event event = events_wait(&warren.events, CONEY_EVENT_NOT_SETTLED, 0);
    assert_string_equal(event.name, warren.queue);
    assert_int_equal(warren_stats(consumer).ack_frames, 0);
    wait_until_empty(&warren, &consumer);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_CHANNEL_CLOSED), 0);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void H09_without_acks_no_more_is_held_than_is_allowed_and_the_connection_lives(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels slow = {.closed_gate = true};
    warren_set(&warren, &node);
    warren.options.heartbeat = CONEY_SECOND;
    warren_open(&warren, NULL);
    warren_fill_with(&warren, 0, 4000, 4000);
    coney_amqp_consumer_options options = {.no_ack = true, .max_queued = 500000};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &slow, &options);
    parcels_wait_at_gate(&slow);

    events_none(&warren.events, CONEY_EVENT_DISCONNECTED, 3500);
    uint64_t queued = warren_stats(consumer).queued_bytes;
    assert_in_range(queued, 500000, 2000000);
    parcels_open_gate(&slow);
    parcels_wait(&slow, 4000);
    parcels_are_in_order(&slow, 0, 4000);
    assert_int_equal(events_count(&warren.events, CONEY_EVENT_DISCONNECTED), 0);
    warren_close_consumer(&consumer);
    parcels_free(&slow);
    warren_down(&warren);
}

static void messages_that_come_one_by_one_to_a_slow_handler_take_little_memory(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels slow = {.closed_gate = true};
    coney_amqp_stats stats;
    warren_up(&warren, &node, NULL);
    coney_amqp_consumer_options options = {.prefetch = CONEY_OFF};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &slow, &options);
    coney_amqp_publisher_options publishing = {.routing_key = warren.queue};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren.env, &publishing, NULL);
    for (uint64_t n = 0; n < 300; n++) {
        coney_amqp_message message = {.body = numbered(n)};
        assert_int_equal(coney_amqp_publish_wait(publisher, &message, NULL), CONEY_OK);
    }
    warren_wait_for_ready(&warren, warren.queue, 0);
    coney_amqp_get_stats(warren.env, &stats);
    assert_in_range(stats.memory_out, 1, 1 << 20);
    parcels_open_gate(&slow);
    parcels_wait(&slow, 300);
    parcels_are_in_order(&slow, 0, 300);
    coney_amqp_publisher_close(&publisher, NULL);
    warren_close_consumer(&consumer);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    parcels_free(&slow);
    warren_down(&warren);
}

static void beside_a_full_consumer_others_open_and_close_and_after_it_they_read_on(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels full = {0};
    struct parcels other = {0};
    char queue[100];
    warren_up(&warren, &node, NULL);
    snprintf(queue, sizeof queue, "%s-other", warren.queue);
    warren_declare(&warren, queue, NULL);
    warren_fill_with(&warren, 0, 1000, 4000);
    coney_amqp_consumer_options options = {.prefetch = 500, .max_queued = 100000, .paused = true};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &full, &options);
    warren_wait_for_ready(&warren, warren.queue, 500);
    coney_amqp_consumer *beside[2];
    for (size_t i = 0; i < 2; i++)
        beside[i] = warren_consumer_of(&warren, queue, &other, NULL);
    warren_close_consumer(&beside[1]);

    warren_close_consumer(&consumer);
    warren_wait_for_ready(&warren, warren.queue, 1000);
    coney_amqp_publisher_options publishing = {.routing_key = queue};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren.env, &publishing, NULL);
    coney_amqp_message message = {.body = CONEY_STR("m0")};
    assert_int_equal(coney_amqp_publish_wait(publisher, &message, NULL), CONEY_OK);
    parcels_wait(&other, 1);
    coney_amqp_publisher_close(&publisher, NULL);
    warren_close_consumer(&beside[0]);
    coney_amqp_queue_delete(warren.env, queue, 0, NULL);
    parcels_free(&full);
    parcels_free(&other);
    warren_down(&warren);
}

static void a_handler_on_the_loop_works_the_same(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, NULL);
    coney_amqp_consumer_options options = {.on_loop = true, .prefetch = 10};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    warren_fill(&warren, 0, 1000);
    parcels_wait(&parcels, 1000);
    parcels_are_in_order(&parcels, 0, 1000);
    wait_until_empty(&warren, &consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void no_handler_starts_between_pause_and_resume(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 10);
    coney_amqp_consumer_options options = {.paused = true};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    warren_wait_for_ready(&warren, warren.queue, 0);
    assert_int_equal(parcels_count(&parcels), 0);
    assert_int_equal(coney_amqp_consumer_resume(consumer), CONEY_OK);
    parcels_wait(&parcels, 10);
    assert_int_equal(coney_amqp_consumer_pause(consumer), CONEY_OK);
    warren_fill(&warren, 10, 10);
    warren_wait_for_ready(&warren, warren.queue, 0);
    assert_int_equal(parcels_count(&parcels), 10);
    assert_int_equal(coney_amqp_consumer_resume(consumer), CONEY_OK);
    parcels_wait(&parcels, 20);
    parcels_are_in_order(&parcels, 0, 20);
    wait_until_empty(&warren, &consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void options_that_make_no_sense_are_refused_by_name(void **state)
{
    (void)state;
    struct warren warren;
    warren_up(&warren, &node, NULL);
    coney_field twice = {CONEY_STR("x-priority"), coney_value_i64(1)};
    char long_tag[300];
    memset(long_tag, 'a', sizeof long_tag - 1);
    long_tag[sizeof long_tag - 1] = '\0';
    const struct {
        coney_amqp_consumer_options options;
        const char *named;
    } cases[] = {
        {{.prefetch = 65536}, "prefetch"},
        {{.prefetch = -2}, "prefetch"},
        {{.ack_run = -1}, "ack_run"},
        {{.tag = long_tag}, "tag"},
        {{.argument_count = 1}, "argument_count"},
        {{.arguments = &twice, .argument_count = 1, .has_priority = true}, "x-priority"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coney_call call = {0};
        coney_amqp_consumer_options options = cases[i].options;
        options.on_delivery = parcels_add;
        assert_null(coney_amqp_consumer_open(warren.env, warren.queue, &options, &call));
        assert_int_equal(call.status, CONEY_EINVAL);
        if (strstr(call.text, cases[i].named) == NULL)
            fail_msg("'%s' does not name %s", call.text, cases[i].named);
    }
    coney_call call = {0};
    coney_amqp_consumer_options none = {0};
    assert_null(coney_amqp_consumer_open(warren.env, warren.queue, &none, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    warren_down(&warren);
}

/* The end of a consumer ------------------------------------------------------------------------------------------------- */

static void what_is_not_there_cannot_be_consumed_until_it_is(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 1);
    coney_call call = {0};
    coney_amqp_consumer_options options = {.on_delivery = parcels_add, .ctx = &parcels, .keep_trying = true};
    assert_null(coney_amqp_consumer_open(warren.env, "no such queue", &options, &call));
    assert_int_equal(call.status, CONEY_ENOTFOUND);
    assert_int_equal(call.code, 404);

    assert_int_equal(coney_amqp_queue_delete(warren.env, warren.queue, 0, &call), CONEY_OK);
    struct waited_call waited = {0};
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(warren.env, warren.queue, &options, waited_call_of(&waited, 0));
    assert_non_null(consumer);
    assert_int_equal(waited_call_wait(&waited), CONEY_ENOTFOUND);
    warren_declare(&warren, warren.queue, NULL);
    warren_fill(&warren, 0, 3);
    parcels_wait(&parcels, 3);
    warren_close_consumer(&consumer);
    waited_call_free(&waited);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void a_queue_deleted_under_its_consumer_is_an_event_and_consumed_again_when_it_is_back(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, NULL);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    warren_fill(&warren, 0, 5);
    parcels_wait(&parcels, 5);
    node_do(&node, "delete_queue %s", warren.queue);
    struct event event = events_wait(&warren.events, CONEY_EVENT_CONSUMER_CANCELED, 0);
    assert_string_equal(event.name, warren.queue);
    assert_ptr_equal(event.handle, consumer);
    events_wait(&warren.events, CONEY_EVENT_RECOVERY_FAILED, 1);
    warren_declare(&warren, warren.queue, NULL);
    events_wait(&warren.events, CONEY_EVENT_RECOVERED, 0);
    warren_fill(&warren, 5, 5);
    parcels_wait(&parcels, 10);
    parcels_are_in_order(&parcels, 0, 10);
    warren_close_consumer(&consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void L11_the_same_handle_and_handler_go_on_after_the_third_recovery(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    warren_set(&warren, &node);
    warren_through_scissors(&warren, &node);
    warren_open(&warren, &quorum);
    coney_amqp_consumer_options options = {.tag = "mine"};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    for (size_t cut = 0; cut < 3; cut++) {
        scissors_cut_all(warren.scissors);
        struct event event = events_wait(&warren.events, CONEY_EVENT_RECOVERED, cut);
        assert_ptr_equal(event.handle, consumer);
    }
    warren_fill(&warren, 0, 10);
    parcels_wait(&parcels, 10);
    parcels_are_in_order(&parcels, 0, 10);
    warren_close_consumer(&consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void N06_closing_finishes_the_handler_gives_back_the_rest_and_doubles_nothing(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct warren warren;
        struct parcels parcels = {.closed_gate = true};
        unsigned times[100] = {0};
        warren_up(&warren, &node, round == 0 ? NULL : &quorum);
        warren_fill(&warren, 0, 100);
        coney_amqp_consumer_options options = {.prefetch = 100};
        coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
        warren_wait_for_ready(&warren, warren.queue, 0);
        parcels_wait_at_gate(&parcels);

        struct waited_call waited = {0};
        assert_int_equal(coney_amqp_consumer_close(&consumer, waited_call_of(&waited, 0)), CONEY_OK);
        assert_null(consumer);
        assert_false(waited_call_reach(&waited, 50));
        parcels_open_gate(&parcels);
        assert_int_equal(waited_call_wait(&waited), CONEY_OK);
        assert_int_equal(waited.answer.value, 0);

        size_t handled = parcels_count(&parcels);
        assert_int_equal(handled, 1);
        warren_wait_for_ready(&warren, warren.queue, 99);
        warren_drain(&warren, warren.queue, times, 100);
        assert_int_equal(times[0], 0);
        for (size_t i = 1; i < 100; i++)
            assert_int_equal(times[i], 1);
        waited_call_free(&waited);
        parcels_free(&parcels);
        warren_down(&warren);
    }
}

static coney_settle close_myself(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    coney_amqp_consumer **consumer = ctx;
    (void)delivery;
    if (nth == 4)
        assert_int_equal(coney_amqp_consumer_close(consumer, NULL), CONEY_OK);
    return CONEY_ACK;
}

static void a_handler_can_close_its_own_consumer(void **state)
{
    (void)state;
    struct warren warren;
    coney_amqp_consumer *consumer = NULL;
    struct parcels parcels = {.decide = close_myself, .decide_ctx = &consumer, .closed_gate = true};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 20);
    consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_open_gate(&parcels);
    warren_wait_for_ready(&warren, warren.queue, 15);
    parcels_are_in_order(&parcels, 0, 5);
    assert_null(consumer);
    warren_down(&warren);
    parcels_free(&parcels);
}

static void the_environment_closes_what_is_open_on_it(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 50);
    (void)warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 1);
    assert_int_equal(coney_amqp_close(&warren.env, NULL), CONEY_OK);
    size_t handled = parcels_count(&parcels);
    warren_open(&warren, NULL);
    warren_wait_for_ready(&warren, warren.queue, 50 - handled);
    parcels_free(&parcels);
    warren_down(&warren);
}

/* H11: order is not kept across the hand-over: what the last one did not settle comes to the next, marked. */
static void H11_the_next_single_active_consumer_gets_what_the_last_one_did_not_settle(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels one = {.closed_gate = true};
    struct parcels other = {0};
    coney_amqp_queue queue = {.single_active_consumer = true};
    warren_up(&warren, &node, &queue);
    warren_fill(&warren, 0, 3);
    coney_amqp_consumer *active = warren_consumer(&warren, &one, NULL);
    parcels_wait_at_gate(&one);
    coney_amqp_consumer *waiting = warren_consumer(&warren, &other, NULL);
    warren_fill(&warren, 3, 2);
    assert_int_equal(parcels_count(&other), 0);
    struct waited_call waited = {0};
    coney_amqp_consumer_close(&active, waited_call_of(&waited, 0));
    parcels_open_gate(&one);
    assert_int_equal(waited_call_wait(&waited), CONEY_OK);
    parcels_wait(&other, 4);
    assert_int_equal(parcels_count(&one), 1);
    for (size_t i = 0; i < 2; i++)
        assert_true(parcels_of(&other, i).redelivered || parcels_of(&other, i).number >= 3);
    warren_close_consumer(&waiting);
    waited_call_free(&waited);
    parcels_free(&one);
    parcels_free(&other);
    warren_down(&warren);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_classic_queue_holds_comes_once_and_in_order),
        cmocka_unit_test(what_a_quorum_queue_holds_comes_once_and_in_order),
        cmocka_unit_test(a_stream_queue_is_read_from_the_offset_that_is_asked_for),
        cmocka_unit_test(bodies_of_any_size_come_whole),
        cmocka_unit_test(consumers_of_one_connection_do_not_mix),
        cmocka_unit_test(H08_the_prefetch_holds_from_the_first_message_on_and_after_a_cut),
        cmocka_unit_test(with_a_prefetch_of_one_messages_come_one_at_a_time),
        cmocka_unit_test(without_a_prefetch_all_of_the_queue_is_sent),
        cmocka_unit_test(an_exclusive_consumer_keeps_others_out),
        cmocka_unit_test(the_consumer_of_a_higher_priority_gets_all_that_it_can_take),
        cmocka_unit_test(without_acks_the_broker_forgets_and_a_reject_is_an_event),
        cmocka_unit_test(H09_without_acks_no_more_is_held_than_is_allowed_and_the_connection_lives),
        cmocka_unit_test(messages_that_come_one_by_one_to_a_slow_handler_take_little_memory),
        cmocka_unit_test(beside_a_full_consumer_others_open_and_close_and_after_it_they_read_on),
        cmocka_unit_test(a_handler_on_the_loop_works_the_same),
        cmocka_unit_test(no_handler_starts_between_pause_and_resume),
        cmocka_unit_test(options_that_make_no_sense_are_refused_by_name),
        cmocka_unit_test(what_is_not_there_cannot_be_consumed_until_it_is),
        cmocka_unit_test(a_queue_deleted_under_its_consumer_is_an_event_and_consumed_again_when_it_is_back),
        cmocka_unit_test(L11_the_same_handle_and_handler_go_on_after_the_third_recovery),
        cmocka_unit_test(N06_closing_finishes_the_handler_gives_back_the_rest_and_doubles_nothing),
        cmocka_unit_test(a_handler_can_close_its_own_consumer),
        cmocka_unit_test(the_environment_closes_what_is_open_on_it),
        cmocka_unit_test(H11_the_next_single_active_consumer_gets_what_the_last_one_did_not_settle),
    };
    return run_tests(tests);
}
