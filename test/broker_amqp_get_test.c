/* One message at a time, without a consumer, on a real node. */
#define _GNU_SOURCE
#include "warren.h"

static struct node node;

static coney_kept *get_one(struct warren *warren, uint64_t left)
{
    coney_call call = {0};
    coney_kept *kept = NULL;
    assert_int_equal(coney_amqp_get(warren->env, warren->queue, &kept, &call), CONEY_OK);
    assert_non_null(kept);
    assert_int_equal(call.value, left);
    assert_null(coney_amqp_kept_delivery(kept)->consumer);
    assert_string_equal(coney_amqp_kept_delivery(kept)->queue, warren->queue);
    return kept;
}

static void get_takes_one_message_and_each_settlement_does_what_it_says(void **state)
{
    (void)state;
    struct warren warren;
    coney_call call = {0};
    warren_up(&warren, &node, NULL);
    coney_kept *none = (coney_kept *)&call;
    assert_int_equal(coney_amqp_get(warren.env, warren.queue, &none, &call), CONEY_OK);
    assert_null(none);

    warren_fill(&warren, 0, 4);
    coney_kept *first = get_one(&warren, 3);
    coney_kept *second = get_one(&warren, 2);
    coney_kept *third = get_one(&warren, 1);
    assert_memory_equal(coney_amqp_kept_delivery(second)->body.data, "m1", 2);
    assert_false(coney_amqp_kept_delivery(second)->redelivered);
    assert_int_equal(coney_kept_settle(&first, CONEY_ACK), CONEY_OK);
    assert_int_equal(coney_kept_settle(&second, CONEY_REQUEUE), CONEY_OK);
    assert_int_equal(coney_kept_settle(&third, CONEY_REJECT), CONEY_OK);
    warren_wait_for_ready(&warren, warren.queue, 2);
    second = get_one(&warren, 1);
    assert_true(coney_amqp_kept_delivery(second)->redelivered);
    assert_int_equal(coney_kept_settle(&second, coney_retry_after(10 * CONEY_MILLISECOND)), CONEY_OK);
    warren_wait_for_ready(&warren, warren.queue, 2);

    assert_int_equal(coney_amqp_get(warren.env, "no such queue", &none, &call), CONEY_ENOTFOUND);
    assert_int_equal(call.code, 404);
    assert_int_equal(coney_amqp_get(warren.env, "", &none, &call), CONEY_EINVAL);
    assert_int_equal(coney_amqp_get(warren.env, warren.queue, NULL, &call), CONEY_EINVAL);
    warren_down(&warren);
}

static void what_get_took_is_lost_with_its_connection_and_readable_all_the_same(void **state)
{
    (void)state;
    struct warren warren;
    warren_set(&warren, &node);
    warren_through_scissors(&warren, &node);
    warren_open(&warren, NULL);
    warren_fill(&warren, 0, 2);
    coney_kept *first = get_one(&warren, 1);
    scissors_cut_all(warren.scissors);
    warren_wait_for_ready(&warren, warren.queue, 2);
    assert_memory_equal(coney_amqp_kept_delivery(first)->body.data, "m0", 2);
    assert_int_equal(coney_kept_settle(&first, CONEY_ACK), CONEY_ELOST);
    coney_kept *second = get_one(&warren, 1);
    char queue[80];
    snprintf(queue, sizeof queue, "%s", warren.queue);
    assert_int_equal(coney_amqp_close(&warren.env, NULL), CONEY_OK);
    assert_string_equal(coney_amqp_kept_delivery(second)->queue, queue);
    assert_int_equal(coney_kept_settle(&second, CONEY_ACK), CONEY_ECLOSED);
    warren_open(&warren, NULL);
    warren_wait_for_ready(&warren, warren.queue, 2);
    warren_down(&warren);
}

static void an_exclusive_queue_is_consumed_and_got_from_where_it_lives(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    coney_amqp_queue queue = {.exclusive = true, .transient = true};
    warren_set(&warren, &node);
    warren_through_scissors(&warren, &node);
    warren_open(&warren, &queue);
    warren_fill(&warren, 0, 3);
    for (size_t i = 0; i < 2; i++) {
        coney_kept *kept = get_one(&warren, 2 - i);
        assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    }
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 1);
    assert_int_equal(parcels_of(&parcels, 0).number, 2);
    scissors_cut_all(warren.scissors);
    events_wait(&warren.events, CONEY_EVENT_RECOVERED, 0);
    warren_fill(&warren, 3, 5);
    parcels_wait(&parcels, 6);
    warren_close_consumer(&consumer);
    parcels_free(&parcels);
    warren_down(&warren);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_takes_one_message_and_each_settlement_does_what_it_says),
        cmocka_unit_test(what_get_took_is_lost_with_its_connection_and_readable_all_the_same),
        cmocka_unit_test(an_exclusive_queue_is_consumed_and_got_from_where_it_lives),
    };
    return run_tests(tests);
}
