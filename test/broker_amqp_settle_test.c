/* Settlements on a real node: each kind, in runs and out of order, from other threads, late, and across cuts. */
#define _GNU_SOURCE
#include "warren.h"

static struct node node;

static const coney_amqp_queue quorum = {.type = CONEY_QUEUE_QUORUM};

/* What the handler does with one message, the first `times` times that it comes. */
struct treatment {
    uint64_t number;
    coney_settle how;
    size_t times;
    size_t came;
    int64_t first_at;
    int64_t last_at;
};

static coney_settle treat(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    struct treatment *treatment = ctx;
    (void)nth;
    if (strtoull((const char *)delivery->body.data + 1, NULL, 10) != treatment->number)
        return CONEY_ACK;
    treatment->last_at = now_ms();
    if (treatment->came++ == 0)
        treatment->first_at = treatment->last_at;
    return treatment->came <= treatment->times ? treatment->how : CONEY_ACK;
}

static void no_channel_was_closed(struct warren *warren)
{
    if (events_count(&warren->events, CONEY_EVENT_CHANNEL_CLOSED) > 0)
        events_print(&warren->events);
    assert_int_equal(events_count(&warren->events, CONEY_EVENT_CHANNEL_CLOSED), 0);
}

/* Bodies of one digit, so that the text behind the digit is the frame's end: "m7". */
static void a_requeued_message_comes_again_and_says_so(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct warren warren;
        struct treatment treatment = {.number = 5, .how = CONEY_REQUEUE, .times = 3};
        struct parcels parcels = {.decide = treat, .decide_ctx = &treatment};
        warren_up(&warren, &node, round == 0 ? NULL : &quorum);
        warren_fill(&warren, 0, 10);
        coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
        parcels_wait(&parcels, 13);
        uint64_t times = 0;
        for (size_t i = 0; i < 13; i++) {
            struct parcel parcel = parcels_of(&parcels, i);
            assert_int_equal(parcel.redelivered, parcel.number == 5 && times > 0);
            if (round == 1) /* N04: absent at first, then counted */
                assert_int_equal(parcel.count, parcel.number == 5 ? times : 0);
            times += parcel.number == 5;
        }
        assert_int_equal(times, 4);
        assert_int_equal(warren_stats(consumer).requeued, 3);
        warren_close_consumer(&consumer);
        assert_int_equal(warren_ready(&warren, warren.queue), 0);
        no_channel_was_closed(&warren);
        parcels_free(&parcels);
        warren_down(&warren);
    }
}

static void a_rejected_message_is_dead_lettered_and_the_others_are_not(void **state)
{
    (void)state;
    struct warren warren;
    struct treatment treatment = {.number = 3, .how = CONEY_REJECT, .times = 1};
    struct parcels parcels = {.decide = treat, .decide_ctx = &treatment};
    char dead[100];
    warren_set(&warren, &node);
    snprintf(dead, sizeof dead, "%s-dead", warren.queue);
    coney_amqp_queue queue = {.dead_letter_exchange = "", .dead_letter_routing_key = dead};
    warren_open(&warren, &queue);
    warren_declare(&warren, dead, NULL);
    warren_fill(&warren, 0, 10);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 10);
    warren_wait_for_ready(&warren, dead, 1);

    coney_kept *kept = NULL;
    assert_int_equal(coney_amqp_get(warren.env, dead, &kept, NULL), CONEY_OK);
    assert_non_null(kept);
    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(kept);
    assert_memory_equal(delivery->body.data, "m3", 2);
    coney_value death;
    assert_true(coney_amqp_delivery_header(delivery, CONEY_STR("x-death"), &death));
    assert_int_equal(death.type, CONEY_VALUE_LIST);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    assert_int_equal(warren_stats(consumer).rejected, 1);
    assert_int_equal(warren_stats(consumer).acked, 9);
    warren_close_consumer(&consumer);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    coney_amqp_queue_delete(warren.env, dead, 0, NULL);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void a_retried_message_is_held_until_it_is_due(void **state)
{
    (void)state;
    struct warren warren;
    struct treatment treatment = {.number = 2, .how = coney_retry_after(150 * CONEY_MILLISECOND), .times = 2};
    struct parcels parcels = {.decide = treat, .decide_ctx = &treatment};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 6);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 6);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    parcels_wait(&parcels, 8);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(parcels_of(&parcels, i).number, i);
    assert_int_equal(parcels_of(&parcels, 7).number, 2);
    warren_close_consumer(&consumer);
    assert_true(treatment.last_at - treatment.first_at >= 299);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    no_channel_was_closed(&warren);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void what_waits_for_its_retry_goes_back_when_the_consumer_is_closed(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {.settle = coney_retry_after(3600 * CONEY_SECOND)};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 20);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 20);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    assert_int_equal(warren_close_consumer(&consumer), 0);
    warren_wait_for_ready(&warren, warren.queue, 20);
    parcels_free(&parcels);
    warren_down(&warren);
}

/* Runs --------------------------------------------------------------------------------------------------------------- */

static void acks_go_out_in_runs_unless_each_is_wanted_by_itself(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct warren warren;
        struct parcels parcels = {0};
        warren_up(&warren, &node, NULL);
        warren_fill(&warren, 0, 2000);
        coney_amqp_consumer_options options = {.prefetch = 400, .ack_run = round};
        coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
        parcels_wait(&parcels, 2000);
        assert_int_equal(coney_amqp_consumer_pause(consumer), CONEY_OK);
        uint64_t frames;
        int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
        do
            frames = warren_stats(consumer).ack_frames;
        while (round == 1 && frames < 2000 && now_ms() < until);
        if (round == 0)
            assert_in_range(frames, 1, 400);
        else
            assert_int_equal(frames, 2000);
        warren_close_consumer(&consumer);
        assert_int_equal(warren_ready(&warren, warren.queue), 0);
        no_channel_was_closed(&warren);
        parcels_free(&parcels);
        warren_down(&warren);
    }
}

static coney_settle stand_at_the_fourth(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    struct parcels *gate = ctx;
    return nth == 3 ? parcels_add(gate, delivery) : CONEY_ACK;
}

static void what_was_acked_is_written_while_a_handler_is_slow(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels gate = {.closed_gate = true};
    struct parcels parcels = {.decide = stand_at_the_fourth, .decide_ctx = &gate};
    warren_up(&warren, &node, NULL);
    warren_fill(&warren, 0, 20);
    coney_amqp_consumer_options options = {.prefetch = 10, .ack_run = 1000};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    parcels_wait_at_gate(&gate);
    warren_wait_for_ready(&warren, warren.queue, 7);
    parcels_open_gate(&gate);
    parcels_wait(&parcels, 20);
    warren_close_consumer(&consumer);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    parcels_free(&gate);
    parcels_free(&parcels);
    warren_down(&warren);
}

/* Kept deliveries ------------------------------------------------------------------------------------------------------ */

/* Takes what it is told to along. */
struct shelf {
    struct monitor monitor;
    coney_kept *kept[4000];
    size_t count;
    size_t taken;   /* by settlers */
    uint64_t every; /* keeps each n-th */
    uint64_t random;
};

static coney_settle shelve(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    struct shelf *shelf = ctx;
    if (nth % shelf->every != 0)
        return CONEY_ACK;
    coney_kept *kept = coney_amqp_keep(delivery);
    assert_non_null(kept);
    assert_null(coney_amqp_keep(delivery));
    monitor_lock(&shelf->monitor);
    shelf->kept[shelf->count++] = kept;
    monitor_broadcast(&shelf->monitor);
    monitor_unlock(&shelf->monitor);
    return CONEY_KEPT;
}

static void wait_for_shelf(struct shelf *shelf, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&shelf->monitor);
    while (shelf->count < count && monitor_wait(&shelf->monitor, until))
        ;
    assert_true(shelf->count >= count);
    monitor_unlock(&shelf->monitor);
}

static void shelf_free(struct shelf *shelf)
{
    monitor_free(&shelf->monitor);
    free(shelf);
}

static void a_kept_message_is_open_until_it_is_settled(void **state)
{
    (void)state;
    struct warren warren;
    struct shelf *shelf = calloc(1, sizeof *shelf);
    shelf->every = 3;
    struct parcels parcels = {.decide = shelve, .decide_ctx = shelf};
    warren_up(&warren, &node, NULL);
    warren_fill_with(&warren, 0, 12, 9000);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 12);
    assert_int_equal(coney_amqp_consumer_pause(consumer), CONEY_OK);
    coney_amqp_consumer_stats stats = warren_stats(consumer);
    assert_int_equal(stats.kept, 4);
    assert_true(stats.kept_bytes >= 4 * 9000);
    for (size_t i = 0; i < 4; i++) {
        char body[8];
        const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(shelf->kept[i]);
        snprintf(body, sizeof body, "m%zu", 3 * i);
        assert_int_equal(delivery->body.len, 9000);
        assert_memory_equal(delivery->body.data, body, strlen(body));
        assert_string_equal(delivery->queue, warren.queue);
        assert_int_equal(coney_kept_settle(&shelf->kept[i], CONEY_KEPT), CONEY_EINVAL);
    }
    assert_int_equal(coney_kept_settle(&shelf->kept[2], CONEY_ACK), CONEY_OK);
    assert_int_equal(coney_kept_settle(&shelf->kept[0], CONEY_REQUEUE), CONEY_OK);
    assert_null(shelf->kept[0]);
    assert_int_equal(coney_kept_settle(&shelf->kept[3], coney_retry_after(1)), CONEY_OK);
    assert_int_equal(warren_close_consumer(&consumer), 1);
    assert_memory_equal(coney_amqp_kept_delivery(shelf->kept[1])->body.data, "m3", 2);
    assert_int_equal(coney_kept_settle(&shelf->kept[1], CONEY_ACK), CONEY_ECLOSED);

    unsigned times[12] = {0};
    warren_wait_for_ready(&warren, warren.queue, 3);
    warren_drain(&warren, warren.queue, times, 12);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(times[i], i == 0 || i == 3 || i == 9);
    no_channel_was_closed(&warren);
    parcels_free(&parcels);
    shelf_free(shelf);
    warren_down(&warren);
}

enum { CROWD = 2000, SETTLERS = 3 };

static uint64_t roll(struct shelf *shelf, uint64_t sides)
{
    shelf->random = shelf->random * 6364136223846793005u + 1442695040888963407u;
    return (shelf->random >> 33) % sides;
}

/* Takes a random one off the shelf; NULL: all have been taken. */
static coney_kept *take_off(struct shelf *shelf)
{
    monitor_lock(&shelf->monitor);
    while (shelf->count == 0 && shelf->taken < CROWD)
        monitor_wait(&shelf->monitor, now_ms() + 100);
    coney_kept *kept = NULL;
    if (shelf->count > 0) {
        size_t at = roll(shelf, shelf->count);
        kept = shelf->kept[at];
        shelf->kept[at] = shelf->kept[--shelf->count];
        shelf->taken++;
    }
    monitor_unlock(&shelf->monitor);
    return kept;
}

static void *settle_some(void *ctx)
{
    for (coney_kept *kept = take_off(ctx); kept != NULL; kept = take_off(ctx))
        assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    return NULL;
}

static void I05_acks_from_several_threads_in_any_order_settle_each_its_own(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct warren warren;
        struct shelf *shelf = calloc(1, sizeof *shelf);
        shelf->every = 1;
        struct parcels parcels = {.decide = shelve, .decide_ctx = shelf};
        warren_up(&warren, &node, round == 0 ? NULL : &quorum);
        warren_fill(&warren, 0, CROWD);
        coney_amqp_consumer_options options = {.prefetch = 64};
        coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
        pthread_t threads[SETTLERS];
        for (size_t i = 0; i < SETTLERS; i++)
            pthread_create(&threads[i], NULL, settle_some, shelf);
        for (size_t i = 0; i < SETTLERS; i++)
            pthread_join(threads[i], NULL);
        parcels_are_in_order(&parcels, 0, CROWD);
        assert_int_equal(warren_stats(consumer).acked, CROWD);
        assert_int_equal(warren_stats(consumer).kept, 0);
        assert_int_equal(warren_close_consumer(&consumer), 0);
        assert_int_equal(warren_ready(&warren, warren.queue), 0);
        no_channel_was_closed(&warren);
        parcels_free(&parcels);
        shelf_free(shelf);
        warren_down(&warren);
    }
}

/* Every message ends acked exactly once here, however it was treated before. */
static coney_settle treat_anyhow(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    struct shelf *shelf = ctx;
    monitor_lock(&shelf->monitor);
    uint64_t what = roll(shelf, 10);
    monitor_unlock(&shelf->monitor);
    if (what == 0)
        return CONEY_REQUEUE;
    if (what == 1)
        return coney_retry_after(CONEY_MILLISECOND);
    if (what < 5) {
        shelf->every = 1;
        return shelve(ctx, delivery, nth);
    }
    monitor_lock(&shelf->monitor);
    shelf->taken++;
    monitor_broadcast(&shelf->monitor);
    monitor_unlock(&shelf->monitor);
    return CONEY_ACK;
}

static void whatever_is_done_with_messages_none_is_lost_and_none_is_left(void **state)
{
    (void)state;
    for (int64_t prefetch = 1; prefetch <= 1000; prefetch *= 10) {
        struct warren warren;
        struct shelf *shelf = calloc(1, sizeof *shelf);
        shelf->random = (uint64_t)prefetch;
        struct parcels parcels = {.decide = treat_anyhow, .decide_ctx = shelf};
        warren_up(&warren, &node, NULL);
        warren_fill(&warren, 0, CROWD);
        coney_amqp_consumer_options options = {.prefetch = prefetch};
        coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
        pthread_t threads[SETTLERS];
        for (size_t i = 0; i < SETTLERS; i++)
            pthread_create(&threads[i], NULL, settle_some, shelf);
        for (size_t i = 0; i < SETTLERS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(warren_close_consumer(&consumer), 0);
        assert_int_equal(warren_ready(&warren, warren.queue), 0);
        bool *seen = calloc(CROWD, sizeof *seen);
        for (size_t i = 0; i < parcels_count(&parcels); i++)
            seen[parcels_of(&parcels, i).number] = true;
        for (size_t i = 0; i < CROWD; i++)
            assert_true(seen[i]);
        free(seen);
        no_channel_was_closed(&warren);
        parcels_free(&parcels);
        shelf_free(shelf);
        warren_down(&warren);
    }
}

static void as_much_may_be_kept_as_is_allowed_and_no_more(void **state)
{
    (void)state;
    struct warren warren;
    struct shelf *shelf = calloc(1, sizeof *shelf);
    shelf->every = 1;
    struct parcels parcels = {.decide = shelve, .decide_ctx = shelf};
    warren_up(&warren, &node, NULL);
    warren_fill_with(&warren, 0, 20, 1000);
    coney_amqp_consumer_options options = {.max_kept = 5000};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    wait_for_shelf(shelf, 5);
    warren_wait_for_ready(&warren, warren.queue, 0);
    assert_int_equal(parcels_count(&parcels), 5);
    for (size_t i = 0; i < 20; i++) {
        wait_for_shelf(shelf, i + 1);
        assert_int_equal(coney_kept_settle(&shelf->kept[i], CONEY_ACK), CONEY_OK);
    }
    assert_int_equal(warren_close_consumer(&consumer), 0);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    parcels_free(&parcels);
    shelf_free(shelf);
    warren_down(&warren);
}

/* Cuts ------------------------------------------------------------------------------------------------------------------ */

static void what_was_kept_across_a_cut_settles_nothing_any_more(void **state)
{
    (void)state;
    struct warren warren;
    struct shelf *shelf = calloc(1, sizeof *shelf);
    shelf->every = 1;
    struct parcels parcels = {.decide = shelve, .decide_ctx = shelf};
    warren_set(&warren, &node);
    warren_through_scissors(&warren, &node);
    warren_open(&warren, NULL);
    warren_fill(&warren, 0, 3);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    parcels_wait(&parcels, 3);
    scissors_cut_all(warren.scissors);
    events_wait(&warren.events, CONEY_EVENT_RECOVERED, 0);
    parcels_wait(&parcels, 6);
    assert_int_equal(coney_amqp_consumer_pause(consumer), CONEY_OK);
    assert_int_equal(coney_kept_settle(&shelf->kept[0], CONEY_ACK), CONEY_ELOST);
    assert_int_equal(coney_kept_settle(&shelf->kept[1], CONEY_REJECT), CONEY_ELOST);
    assert_int_equal(coney_kept_settle(&shelf->kept[2], coney_retry_after(1)), CONEY_ELOST);
    assert_int_equal(warren_stats(consumer).stale, 3);
    assert_int_equal(coney_kept_settle(&shelf->kept[4], CONEY_ACK), CONEY_OK);
    for (size_t i = 3; i < 6; i++)
        assert_true(parcels_of(&parcels, i).redelivered);
    assert_int_equal(warren_close_consumer(&consumer), 2);
    warren_wait_for_ready(&warren, warren.queue, 2);
    assert_int_equal(coney_kept_settle(&shelf->kept[3], CONEY_ACK), CONEY_ECLOSED);
    assert_int_equal(coney_kept_settle(&shelf->kept[5], CONEY_ACK), CONEY_ECLOSED);
    no_channel_was_closed(&warren);
    parcels_free(&parcels);
    shelf_free(shelf);
    warren_down(&warren);
}

static void what_is_in_a_handler_or_queued_at_a_cut_comes_again(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {.closed_gate = true};
    warren_set(&warren, &node);
    warren_through_scissors(&warren, &node);
    warren_open(&warren, &quorum);
    warren_fill(&warren, 0, 40);
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, NULL);
    warren_wait_for_ready(&warren, warren.queue, 0);
    parcels_wait_at_gate(&parcels);
    scissors_cut_all(warren.scissors);
    events_wait(&warren.events, CONEY_EVENT_RECOVERED, 0);
    parcels_open_gate(&parcels);
    parcels_wait(&parcels, 41);
    assert_int_equal(parcels_of(&parcels, 0).number, 0);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(parcels_of(&parcels, i + 1).number, i);
    warren_close_consumer(&consumer);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    no_channel_was_closed(&warren);
    parcels_free(&parcels);
    warren_down(&warren);
}

static void many_cuts_lose_nothing_and_no_stale_tag_reaches_the_wire(void **state)
{
    (void)state;
    struct warren warren;
    struct parcels parcels = {0};
    struct dice dice = dice_of(42);
    warren_set(&warren, &node);
    warren_through_scissors(&warren, &node);
    warren_open(&warren, &quorum);
    warren_fill(&warren, 0, 3000);
    coney_amqp_consumer_options options = {.prefetch = 100};
    coney_amqp_consumer *consumer = warren_consumer(&warren, &parcels, &options);
    for (size_t cut = 0; cut < 12; cut++) {
        scissors_cut_after(warren.scissors, dice_roll(&dice, 2) == 0, 1 + dice_roll(&dice, 20000));
        parcels_reach(&parcels, parcels_count(&parcels) + 100, scaled_ms(500));
    }
    scissors_cut_after(warren.scissors, true, 0);
    scissors_cut_after(warren.scissors, false, 0);
    warren_wait_for_ready(&warren, warren.queue, 0);
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    bool seen[3000] = {false};
    size_t distinct = 0;
    for (size_t i = 0; distinct < 3000 && now_ms() < until;) {
        parcels_reach(&parcels, i + 1, 100);
        for (; i < parcels_count(&parcels); i++) {
            uint64_t number = parcels_of(&parcels, i).number;
            distinct += !seen[number];
            seen[number] = true;
        }
    }
    assert_int_equal(distinct, 3000);
    warren_close_consumer(&consumer);
    assert_int_equal(warren_ready(&warren, warren.queue), 0);
    no_channel_was_closed(&warren);
    parcels_free(&parcels);
    warren_down(&warren);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_requeued_message_comes_again_and_says_so),
        cmocka_unit_test(a_rejected_message_is_dead_lettered_and_the_others_are_not),
        cmocka_unit_test(a_retried_message_is_held_until_it_is_due),
        cmocka_unit_test(what_waits_for_its_retry_goes_back_when_the_consumer_is_closed),
        cmocka_unit_test(acks_go_out_in_runs_unless_each_is_wanted_by_itself),
        cmocka_unit_test(what_was_acked_is_written_while_a_handler_is_slow),
        cmocka_unit_test(a_kept_message_is_open_until_it_is_settled),
        cmocka_unit_test(I05_acks_from_several_threads_in_any_order_settle_each_its_own),
        cmocka_unit_test(whatever_is_done_with_messages_none_is_lost_and_none_is_left),
        cmocka_unit_test(as_much_may_be_kept_as_is_allowed_and_no_more),
        cmocka_unit_test(what_was_kept_across_a_cut_settles_nothing_any_more),
        cmocka_unit_test(what_is_in_a_handler_or_queued_at_a_cut_comes_again),
        cmocka_unit_test(many_cuts_lose_nothing_and_no_stale_tag_reaches_the_wire),
    };
    return run_tests(tests);
}
