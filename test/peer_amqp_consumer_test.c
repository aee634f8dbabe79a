/* Consuming: the order of qos, consume and deliveries, cancels that cross, settlements, what a cut makes stale. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include <sched.h>
#include <stdatomic.h>

struct bench {
    struct amqp_stage stage;
    struct parcels parcels;
    coney_amqp_consumer *consumer;
};

static void bench_up(struct bench *bench, const coney_amqp_consumer_options *options)
{
    *bench = (struct bench){0};
    amqp_stage_up(&bench->stage);
    bench->consumer = amqp_stage_consumer(&bench->stage, "q", &bench->parcels, options);
}

static void bench_down(struct bench *bench)
{
    if (bench->consumer != NULL)
        warren_close_consumer(&bench->consumer);
    amqp_stage_down(&bench->stage);
    parcels_free(&bench->parcels);
}

/* The connection of the consumer is cut, and it is back. */
static void cut_and_back(struct bench *bench, size_t nth)
{
    amqp_peer_cut(bench->stage.peer, amqp_peer_consumer(bench->stage.peer, "q").connection, PEER_RST);
    events_wait(&bench->stage.events, CONEY_EVENT_RECOVERED, nth);
}

/* Subscribing -------------------------------------------------------------------------------------------------------- */

static void H08_the_prefetch_is_set_before_the_consumer_begins_also_after_a_cut(void **state)
{
    (void)state;
    struct bench bench;
    bench_up(&bench, NULL);
    for (size_t cut = 0; cut < 3; cut++) {
        char story[200];
        struct amqp_peer_place place = amqp_peer_consumer(bench.stage.peer, "q");
        amqp_peer_story(bench.stage.peer, place.connection, place.channel, story, sizeof story);
        assert_string_equal(story, "channel.open basic.qos basic.consume");
        cut_and_back(&bench, cut);
    }
    bench_down(&bench);
}

/* deliver, then consume-ok. */
static bool deliver_first(void *ctx, struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    (void)ctx;
    struct amqp_method deliver = {.id = AMQP_BASIC_DELIVER,
                                  .basic_deliver = {.consumer_tag = CONEY_STR("made-up"), .delivery_tag = 1}};
    amqp_peer_send_content(peer, record->connection, record->channel, &deliver, coney_bytes_of(NULL, 0), CONEY_STR("m0"), 0);
    struct amqp_method ok = {.id = AMQP_BASIC_CONSUME_OK, .basic_consumer.consumer_tag = CONEY_STR("made-up")};
    amqp_peer_send(peer, record->connection, record->channel, &ok);
    deliver.basic_deliver.delivery_tag = 2;
    amqp_peer_send_content(peer, record->connection, record->channel, &deliver, coney_bytes_of(NULL, 0), CONEY_STR("m1"), 0);
    return true;
}

static void H06_deliveries_before_and_right_behind_consume_ok_reach_the_handler(void **state)
{
    (void)state;
    for (size_t chop = 0; chop < 2; chop++) {
        struct bench bench = {0};
        amqp_stage_set(&bench.stage);
        amqp_peer_chop(bench.stage.peer, chop * 7);
        amqp_peer_allow_nonsense(bench.stage.peer); /* it knows nothing of these deliveries, which are acked */
        amqp_stage_open(&bench.stage);
        amqp_peer_call_at(bench.stage.peer, AMQP_BASIC_CONSUME, 1, deliver_first, NULL);
        bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, NULL);
        parcels_wait(&bench.parcels, 2);
        parcels_are_in_order(&bench.parcels, 0, 2);
        warren_close_consumer(&bench.consumer);
        coney_bytes tag = amqp_peer_expect(bench.stage.peer, AMQP_BASIC_CANCEL)->method.basic_cancel.consumer_tag;
        assert_true(bytes_equal(tag, CONEY_STR("made-up")));
        bench_down(&bench);
    }
}

static void H05_a_tag_is_used_once_on_a_channel_also_through_recoveries(void **state)
{
    (void)state;
    struct bench bench;
    coney_amqp_consumer_options options = {.tag = "mine"};
    bench_up(&bench, &options); /* the peer takes no tag that is in use on its channel */
    for (size_t cut = 0; cut < 5; cut++) {
        cut_and_back(&bench, cut);
        assert_int_equal(amqp_peer_consumers(bench.stage.peer, "q"), 1);
        assert_int_equal(amqp_peer_count(bench.stage.peer, AMQP_BASIC_CONSUME), cut + 2);
    }
    coney_amqp_consumer *second = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    assert_int_equal(amqp_peer_consumers(bench.stage.peer, "q"), 2);
    warren_close_consumer(&second);
    for (int i = 0; i < 3; i++) {
        warren_close_consumer(&bench.consumer);
        bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    }
    bench_down(&bench);
}

static void a_consumer_on_a_channel_that_was_used_before_settles_by_the_tags_of_that_channel(void **state)
{
    (void)state;
    struct bench bench;
    bench_up(&bench, NULL);
    amqp_peer_deliver(bench.stage.peer, "q", 0, 10);
    amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_ACKED, 10);
    for (int i = 0; i < 5; i++) {
        warren_close_consumer(&bench.consumer);
        bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, NULL);
        amqp_peer_deliver(bench.stage.peer, "q", 0, 10);
        amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_ACKED, (size_t)(i + 2) * 10);
    }
    assert_int_equal(parcels_count(&bench.parcels), 60);
    bench_down(&bench);
}

/* Cancels ------------------------------------------------------------------------------------------------------------ */

/* The broker cancels just before it answers our cancel, or instead of having it. */
static bool cancel_first(void *ctx, struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    (void)ctx;
    (void)record;
    amqp_peer_cancel(peer, "q");
    return false;
}

static void H03_cancels_that_cross_are_fine_in_both_orders(void **state)
{
    (void)state;
    struct bench bench;
    bench_up(&bench, NULL);
    amqp_peer_call_at(bench.stage.peer, AMQP_BASIC_CANCEL, 1, cancel_first, NULL);
    warren_close_consumer(&bench.consumer);
    for (int i = 0; i < 10; i++) {
        bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, NULL);
        amqp_peer_cancel(bench.stage.peer, "q");
        warren_close_consumer(&bench.consumer);
    }
    assert_int_equal(events_count(&bench.stage.events, CONEY_EVENT_DISCONNECTED), 0);
    bench_down(&bench);
}

static void a_cancel_by_the_broker_is_an_event_and_the_consumer_comes_back(void **state)
{
    (void)state;
    struct bench bench;
    bench_up(&bench, NULL);
    amqp_peer_feed(bench.stage.peer, "q", 20);
    amqp_peer_wait_feed_done(bench.stage.peer, 20);
    amqp_peer_cancel(bench.stage.peer, "q");
    struct event event = events_wait(&bench.stage.events, CONEY_EVENT_CONSUMER_CANCELED, 0);
    assert_string_equal(event.name, "q");
    events_wait(&bench.stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(amqp_peer_consumers(bench.stage.peer, "q"), 1);
    amqp_peer_deliver(bench.stage.peer, "q", 77, 1);
    parcels_wait(&bench.parcels, 21);
    assert_int_equal(parcels_of(&bench.parcels, 20).number, 77);
    bench_down(&bench);
}

static void H04_what_arrives_between_cancel_and_its_answer_goes_back_and_nothing_is_lost(void **state)
{
    (void)state;
    struct bench bench;
    bench_up(&bench, NULL);
    amqp_peer_hold(bench.stage.peer, AMQP_BASIC_CANCEL, 1);
    struct waited_call closing = {0};
    assert_int_equal(coney_amqp_consumer_close(&bench.consumer, waited_call_of(&closing, 0)), CONEY_OK);
    amqp_peer_wait_count(bench.stage.peer, AMQP_BASIC_CANCEL, 1);
    amqp_peer_deliver(bench.stage.peer, "q", 0, 400);
    amqp_peer_release(bench.stage.peer, AMQP_BASIC_CANCEL);
    assert_int_equal(waited_call_wait(&closing), CONEY_OK);
    amqp_peer_wait_count(bench.stage.peer, AMQP_CHANNEL_CLOSE, 1);
    assert_int_equal(amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_OUT), 0);
    size_t back = amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_REQUEUED);
    assert_int_equal(back + amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_ACKED), 400);
    assert_int_equal(amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_ACKED), parcels_count(&bench.parcels));
    const struct amqp_peer_record *nack = amqp_peer_wait_for(bench.stage.peer, AMQP_BASIC_NACK, 1000);
    assert_non_null(nack); /* before the channel is closed: nothing is left to the close */
    assert_true(nack->method.basic_nack.requeue);
    waited_call_free(&closing);
    bench_down(&bench);
}

static coney_amqp_stats stats_of(const coney_amqp *rabbit)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(rabbit, &stats), CONEY_OK);
    return stats;
}

static void what_arrives_while_a_consumer_is_closed_takes_no_memory(void **state)
{
    (void)state;
    static char body[60000] = "m0";
    struct bench bench;
    coney_amqp_consumer_options options = {.prefetch = CONEY_OFF};
    bench_up(&bench, &options);
    amqp_peer_hold(bench.stage.peer, AMQP_BASIC_CANCEL, 1);
    struct waited_call closing = {0};
    assert_int_equal(coney_amqp_consumer_close(&bench.consumer, waited_call_of(&closing, 0)), CONEY_OK);
    amqp_peer_wait_count(bench.stage.peer, AMQP_BASIC_CANCEL, 1);
    for (size_t i = 0; i < 400; i++)
        amqp_peer_deliver_content(bench.stage.peer, "q", coney_bytes_of(NULL, 0), coney_bytes_of(body, sizeof body), 0);
    for (int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE); stats_of(bench.stage.rabbit).bytes_in < 400 * sizeof body;) {
        assert_true(now_ms() < until);
        sched_yield();
    }
    assert_true(stats_of(bench.stage.rabbit).memory_out < 4 << 20);
    amqp_peer_release(bench.stage.peer, AMQP_BASIC_CANCEL);
    assert_int_equal(waited_call_wait(&closing), CONEY_OK);
    amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_REQUEUED, 400);
    assert_int_equal(parcels_count(&bench.parcels), 0);
    waited_call_free(&closing);
    bench_down(&bench);
}

static void H10_what_was_given_back_is_handed_over_no_more(void **state)
{
    (void)state;
    struct bench bench = {.parcels = {.closed_gate = true}};
    amqp_stage_up(&bench.stage);
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, NULL);
    amqp_peer_deliver(bench.stage.peer, "q", 0, 50);
    parcels_wait_at_gate(&bench.parcels);
    struct waited_call closing = {0};
    assert_int_equal(coney_amqp_consumer_close(&bench.consumer, waited_call_of(&closing, 0)), CONEY_OK);
    parcels_open_gate(&bench.parcels);
    assert_int_equal(waited_call_wait(&closing), CONEY_OK);
    assert_int_equal(parcels_count(&bench.parcels), 1);
    amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_REQUEUED, 49);
    assert_int_equal(amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_ACKED), 1);
    waited_call_free(&closing);
    bench_down(&bench);
}

/* Settlements -------------------------------------------------------------------------------------------------------- */

struct shelf {
    struct monitor monitor;
    coney_kept *kept[400];
    size_t count;
};

static coney_settle shelve(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    struct shelf *shelf = ctx;
    (void)nth;
    monitor_lock(&shelf->monitor);
    shelf->kept[shelf->count++] = coney_amqp_keep(delivery);
    monitor_broadcast(&shelf->monitor);
    monitor_unlock(&shelf->monitor);
    return CONEY_KEPT;
}

static void shelf_wait(struct shelf *shelf, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&shelf->monitor);
    while (shelf->count < count && monitor_wait(&shelf->monitor, until))
        ;
    monitor_unlock(&shelf->monitor);
    assert_true(shelf->count >= count);
}

static void a_close_gives_back_what_is_kept_and_what_no_handler_had_in_one_frame(void **state)
{
    (void)state;
    struct shelf shelf = {0};
    struct bench bench = {.parcels = {.decide = shelve, .decide_ctx = &shelf}};
    amqp_stage_up(&bench.stage);
    coney_amqp_consumer_options options = {.prefetch = CONEY_OFF};
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    amqp_peer_deliver(bench.stage.peer, "q", 0, 2);
    shelf_wait(&shelf, 2);
    assert_int_equal(coney_kept_settle(&shelf.kept[1], CONEY_ACK), CONEY_OK);
    coney_amqp_consumer_pause(bench.consumer);
    amqp_peer_hold(bench.stage.peer, AMQP_BASIC_CANCEL, 1);
    amqp_peer_deliver(bench.stage.peer, "q", 2, 300);
    struct waited_call closing = {0};
    assert_int_equal(coney_amqp_consumer_close(&bench.consumer, waited_call_of(&closing, 0)), CONEY_OK);
    amqp_peer_wait_count(bench.stage.peer, AMQP_BASIC_CANCEL, 1);
    amqp_peer_release(bench.stage.peer, AMQP_BASIC_CANCEL);
    assert_int_equal(waited_call_wait(&closing), CONEY_OK);
    assert_int_equal(closing.answer.value, 1);
    amqp_peer_wait_count(bench.stage.peer, AMQP_CHANNEL_CLOSE, 1);
    assert_int_equal(amqp_peer_count(bench.stage.peer, AMQP_BASIC_NACK), 1);
    assert_int_equal(amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_REQUEUED), 301);
    assert_int_equal(amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_ACKED), 1);
    assert_int_equal(coney_kept_settle(&shelf.kept[0], CONEY_ACK), CONEY_ECLOSED);
    waited_call_free(&closing);
    bench_down(&bench);
    monitor_free(&shelf.monitor);
}

static void I03_every_settlement_names_a_tag_that_is_out_whatever_the_order(void **state)
{
    (void)state;
    struct dice dice = dice_of(3);
    struct shelf shelf = {0};
    struct bench bench = {.parcels = {.decide = shelve, .decide_ctx = &shelf}};
    amqp_stage_up(&bench.stage);
    coney_amqp_consumer_options options = {.prefetch = 400, .ack_run = 7};
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    amqp_peer_deliver(bench.stage.peer, "q", 0, 400);
    shelf_wait(&shelf, 400);
    size_t how_many[3] = {0};
    static const coney_settle hows[] = {CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE};
    for (size_t left = 400; left > 0; left--) { /* the peer takes no tag that is not out, and no 0 alone */
        size_t at = dice_roll(&dice, left);
        size_t how = dice_roll(&dice, 10);
        how = how < 8 ? 0 : how - 7;
        assert_int_equal(coney_kept_settle(&shelf.kept[at], hows[how]), CONEY_OK);
        shelf.kept[at] = shelf.kept[left - 1];
        how_many[how]++;
    }
    amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_ACKED, how_many[0]);
    amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_REJECTED, how_many[1]);
    amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_REQUEUED, how_many[2]);
    assert_int_equal(amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_OUT), 0);
    bench_down(&bench);
    monitor_free(&shelf.monitor);
}

static void as_many_messages_can_be_kept_as_the_bound_has_room_for(void **state)
{
    (void)state;
    static char body[10000] = "m0";
    struct shelf shelf = {0};
    struct bench bench = {.parcels = {.decide = shelve, .decide_ctx = &shelf}};
    amqp_stage_up(&bench.stage);
    coney_amqp_consumer_options options = {.prefetch = CONEY_OFF, .max_kept = 2 * 300 * sizeof body};
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    for (size_t i = 0; i < 300; i++)
        amqp_peer_deliver_content(bench.stage.peer, "q", coney_bytes_of(NULL, 0), coney_bytes_of(body, sizeof body), 0);
    shelf_wait(&shelf, 300); /* although the blocks that they came in are larger by far */
    assert_in_range(warren_stats(bench.consumer).kept_bytes, 300 * sizeof body, 2 * 300 * sizeof body);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(coney_kept_settle(&shelf.kept[i], CONEY_ACK), CONEY_OK);
    bench_down(&bench);
    monitor_free(&shelf.monitor);
}

static void acks_in_order_go_out_in_runs(void **state)
{
    (void)state;
    struct bench bench;
    coney_amqp_consumer_options options = {.prefetch = 400};
    bench_up(&bench, &options);
    amqp_peer_feed(bench.stage.peer, "q", 10000);
    amqp_peer_wait_feed_done(bench.stage.peer, 10000);
    parcels_are_in_order(&bench.parcels, 0, 10000);
    assert_true(amqp_peer_count(bench.stage.peer, AMQP_BASIC_ACK) < 2500);
    assert_int_equal(amqp_peer_deliveries(bench.stage.peer, AMQP_PEER_REQUEUED), 0);
    bench_down(&bench);
}

static void I06_a_message_that_was_held_too_long_is_stale_and_the_consumer_is_back_with_advice(void **state)
{
    (void)state;
    struct shelf shelf = {0};
    struct bench bench = {.parcels = {.decide = shelve, .decide_ctx = &shelf}};
    amqp_stage_up(&bench.stage);
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, NULL);
    amqp_peer_deliver(bench.stage.peer, "q", 0, 1);
    shelf_wait(&shelf, 1);
    amqp_peer_close_channel(
        bench.stage.peer, amqp_peer_consumer(bench.stage.peer, "q"), AMQP_CODE_PRECONDITION_FAILED,
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms");
    struct event event = events_wait(&bench.stage.events, CONEY_EVENT_CHANNEL_CLOSED, 0);
    assert_int_equal(event.code, 406);
    assert_says(event.text, "consumer_timeout");
    events_wait(&bench.stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(coney_kept_settle(&shelf.kept[0], CONEY_ACK), CONEY_ELOST);
    assert_int_equal(amqp_peer_consumers(bench.stage.peer, "q"), 1);
    amqp_peer_deliver(bench.stage.peer, "q", 0, 1);
    shelf_wait(&shelf, 2);
    assert_int_equal(coney_kept_settle(&shelf.kept[1], CONEY_ACK), CONEY_OK);
    amqp_peer_wait_deliveries(bench.stage.peer, AMQP_PEER_ACKED, 1);
    assert_int_equal(warren_stats(bench.consumer).stale, 1);
    bench_down(&bench);
    monitor_free(&shelf.monitor);
}

static void settling_after_a_cut_sends_nothing(void **state)
{
    (void)state;
    struct shelf shelf = {0};
    struct bench bench = {.parcels = {.decide = shelve, .decide_ctx = &shelf}};
    amqp_stage_up(&bench.stage);
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, NULL);
    amqp_peer_feed(bench.stage.peer, "q", 100);
    shelf_wait(&shelf, 100);
    cut_and_back(&bench, 0);
    shelf_wait(&shelf, 200); /* all of them again */
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(coney_kept_settle(&shelf.kept[i], i % 2 == 0 ? CONEY_ACK : CONEY_REJECT), CONEY_ELOST);
    for (size_t i = 100; i < 200; i++)
        assert_int_equal(coney_kept_settle(&shelf.kept[i], CONEY_ACK), CONEY_OK);
    amqp_peer_wait_feed_done(bench.stage.peer, 100);
    assert_int_equal(amqp_peer_count(bench.stage.peer, AMQP_BASIC_REJECT), 0);
    assert_int_equal(warren_stats(bench.consumer).stale, 100);
    bench_down(&bench);
    monitor_free(&shelf.monitor);
}

static void a_close_ends_whatever_becomes_of_its_cancel(void **state)
{
    (void)state;
    struct bench bench;
    coney_amqp_consumer_options options = {.prefetch = 10};
    bench_up(&bench, &options);
    amqp_peer_feed(bench.stage.peer, "q", 1000);
    amqp_peer_cut_at(bench.stage.peer, AMQP_BASIC_CANCEL, 1, PEER_RST);
    assert_int_equal(warren_close_consumer(&bench.consumer), 0);
    assert_int_equal(amqp_peer_consumers(bench.stage.peer, "q"), 0);

    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    amqp_peer_refuse(bench.stage.peer, AMQP_BASIC_CANCEL, 1, AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - x");
    assert_int_equal(warren_close_consumer(&bench.consumer), 0);

    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    amqp_peer_ignore(bench.stage.peer, AMQP_BASIC_CANCEL, 1);
    coney_call call = call_within(300);
    assert_int_equal(coney_amqp_consumer_close(&bench.consumer, &call), CONEY_ETIMEDOUT);
    assert_null(bench.consumer);
    amqp_peer_wait_consumers(bench.stage.peer, "q", 0);
    assert_int_equal(events_count(&bench.stage.events, CONEY_EVENT_RECOVERING), 0);
    bench_down(&bench);
}

/* Callbacks that close ------------------------------------------------------------------------------------------------ */

struct closer {
    struct bench *bench;
    coney_event_type when;
    bool whole; /* the environment, too */
    struct waited_call ended;
    _Atomic bool armed; /* the consumer is there */
    _Atomic bool done;
};

static void close_here(struct closer *closer)
{
    coney_amqp_consumer_close(&closer->bench->consumer, NULL);
    if (closer->whole)
        coney_amqp_close(&closer->bench->stage.rabbit, waited_call_of(&closer->ended, 0));
}

static void close_at_event(void *ctx, const coney_event *event)
{
    struct closer *closer = ctx;
    events_add(&closer->bench->stage.events, event);
    if (closer->armed && event->type == closer->when && !closer->done) {
        close_here(closer);
        closer->done = true;
    }
}

static void provoke(struct amqp_peer *peer, coney_event_type what)
{
    struct amqp_peer_place place = amqp_peer_consumer(peer, "q");
    if (what == CONEY_EVENT_RECOVERY_FAILED)
        amqp_peer_refuse(peer, AMQP_BASIC_CONSUME, PEER_EVERY, AMQP_CODE_NOT_FOUND, "NOT_FOUND - no queue 'q'");
    amqp_peer_feed(peer, "q", 2000);
    if (what == CONEY_EVENT_CONSUMER_CANCELED)
        amqp_peer_cancel(peer, "q");
    else if (what == CONEY_EVENT_CHANNEL_CLOSED)
        amqp_peer_close_channel(peer, place, AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - x");
    else if (what != CONEY_EVENT_NOT_SETTLED)
        amqp_peer_cut(peer, place.connection, PEER_RST);
}

static void close_in_event(coney_event_type when, bool whole)
{
    struct bench bench = {.parcels = {.settle = when == CONEY_EVENT_NOT_SETTLED ? CONEY_REJECT : CONEY_ACK}};
    struct closer closer = {.bench = &bench, .when = when, .whole = whole};
    amqp_stage_set(&bench.stage);
    bench.stage.options.on_event = close_at_event;
    bench.stage.options.event_ctx = &closer;
    bench.stage.options.no_recovery = when == CONEY_EVENT_GAVE_UP;
    amqp_stage_open(&bench.stage);
    coney_amqp_consumer_options options = {.prefetch = 100, .no_ack = when == CONEY_EVENT_NOT_SETTLED};
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    closer.armed = true;
    provoke(bench.stage.peer, when);
    (void)events_wait(&bench.stage.events, when, 0);
    amqp_peer_wait_consumers(bench.stage.peer, "q", 0);
    while (!closer.done)
        sched_yield();
    if (whole)
        assert_int_equal(waited_call_wait(&closer.ended), CONEY_OK);
    assert_null(bench.consumer);
    bench_down(&bench);
    waited_call_free(&closer.ended);
}

static void a_consumer_and_its_environment_may_be_closed_in_every_event_about_it(void **state)
{
    (void)state;
    static const coney_event_type types[] = {
        CONEY_EVENT_CONSUMER_CANCELED, CONEY_EVENT_CHANNEL_CLOSED,  CONEY_EVENT_DISCONNECTED, CONEY_EVENT_RECOVERING,
        CONEY_EVENT_RECOVERED,         CONEY_EVENT_RECOVERY_FAILED, CONEY_EVENT_NOT_SETTLED,  CONEY_EVENT_GAVE_UP};
    for (size_t i = 0; i < 2 * sizeof types / sizeof types[0]; i++)
        close_in_event(types[i / 2], i % 2 == 1);
}

/* Each handler closes the consumer of the other. */
struct rival {
    coney_amqp_consumer *_Atomic *other;
    _Atomic size_t calls;
};

static coney_settle close_other(void *ctx, const coney_amqp_delivery *delivery)
{
    struct rival *rival = ctx;
    (void)delivery;
    coney_amqp_consumer *other = atomic_exchange(rival->other, NULL);
    coney_amqp_consumer_close(&other, NULL);
    rival->calls++;
    return CONEY_ACK;
}

static void handlers_may_close_the_consumers_of_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        struct amqp_stage stage;
        coney_amqp_consumer *_Atomic handles[2] = {NULL, NULL};
        struct rival rivals[2] = {{.other = &handles[1]}, {.other = &handles[0]}};
        amqp_stage_up(&stage);
        for (int n = 0; n < 2; n++) {
            coney_amqp_consumer_options options = {
                .on_delivery = close_other, .ctx = &rivals[n], .on_loop = (i & (n + 1)) != 0};
            handles[n] = amqp_stage_consumer(&stage, n == 0 ? "one" : "two", NULL, &options);
        }
        amqp_peer_deliver(stage.peer, "one", 0, 50);
        if (amqp_peer_consumers(stage.peer, "two") > 0 && i >= 8)
            (void)amqp_peer_deliver_content(stage.peer, "two", coney_bytes_of(NULL, 0), CONEY_STR("m0"), 0);
        for (int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
             amqp_peer_consumers(stage.peer, "one") + amqp_peer_consumers(stage.peer, "two") > 1;) {
            assert_true(now_ms() < until);
            sched_yield();
        }
        amqp_stage_down(&stage);
        assert_true(rivals[0].calls + rivals[1].calls > 0);
    }
}

/* Threads of their own ----------------------------------------------------------------------------------------------- */

static void handlers_on_threads_of_their_own_run_at_the_same_time(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels[3];
    coney_amqp_consumer *consumers[3];
    const coney_amqp_consumer_options options = {.own_thread = true};
    static const char *const queues[] = {"one", "two", "three"};
    amqp_stage_up(&stage);
    for (int round = 0; round < 2; round++) { /* the second has the threads of the first */
        for (int i = 0; i < 3; i++) {
            parcels[i] = (struct parcels){.closed_gate = true};
            consumers[i] = amqp_stage_consumer(&stage, queues[i], &parcels[i], i < 2 ? &options : NULL);
            amqp_peer_deliver(stage.peer, queues[i], 0, 5);
        }
        for (int i = 0; i < 3; i++)
            parcels_wait_at_gate(&parcels[i]);
        for (int i = 0; i < 3; i++) {
            parcels_open_gate(&parcels[i]);
            parcels_wait(&parcels[i], 5);
            parcels_are_in_order(&parcels[i], 0, 5);
            warren_close_consumer(&consumers[i]);
            parcels_free(&parcels[i]);
        }
    }
    amqp_stage_down(&stage);
}

struct leaver {
    coney_amqp *_Atomic *rabbit; /* closes it, else its consumer */
    coney_amqp_consumer *_Atomic *consumer;
    _Atomic int calls;
    struct waited_call ended;
};

static coney_settle leave(void *ctx, const coney_amqp_delivery *delivery)
{
    struct leaver *leaver = ctx;
    (void)delivery;
    leaver->calls++;
    coney_call *call = waited_call_of(&leaver->ended, 0);
    coney_amqp *rabbit = leaver->rabbit != NULL ? atomic_exchange(leaver->rabbit, NULL) : NULL;
    coney_amqp_consumer *consumer = atomic_exchange(leaver->consumer, NULL);
    if (leaver->rabbit != NULL)
        coney_amqp_close(&rabbit, call);
    else
        coney_amqp_consumer_close(&consumer, call);
    return CONEY_ACK;
}

static void a_handler_on_its_own_thread_may_close_its_consumer_or_the_environment(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct amqp_stage stage;
        struct parcels others = {.closed_gate = true};
        amqp_stage_up(&stage);
        coney_amqp *_Atomic rabbit = stage.rabbit;
        coney_amqp_consumer *_Atomic handle = NULL;
        struct leaver leaver = {.rabbit = whole ? &rabbit : NULL, .consumer = &handle};
        coney_amqp_consumer_options options = {.own_thread = true, .on_delivery = leave, .ctx = &leaver};
        coney_amqp_consumer_options other = {.own_thread = true};
        (void)amqp_stage_consumer(&stage, "other", &others, &other);
        handle = amqp_stage_consumer(&stage, "q", NULL, &options);
        amqp_peer_deliver(stage.peer, "other", 0, 1);
        parcels_wait_at_gate(&others);
        for (int i = 0; i < 5; i++) /* it may be gone after the first */
            (void)amqp_peer_deliver_content(stage.peer, "q", coney_bytes_of(NULL, 0), CONEY_STR("m0"), 0);
        if (whole)
            amqp_peer_wait_consumers(stage.peer, "q", 0);
        parcels_open_gate(&others);
        assert_int_equal(waited_call_wait(&leaver.ended), CONEY_OK);
        assert_int_equal(leaver.calls, 1);
        stage.rabbit = rabbit;
        amqp_stage_down(&stage);
        parcels_free(&others);
        waited_call_free(&leaver.ended);
    }
}

/* Pressure ----------------------------------------------------------------------------------------------------------- */

static void H09_a_full_consumer_stops_the_reading_while_heartbeats_go_on(void **state)
{
    (void)state;
    static char body[60000] = "m0";
    struct bench bench = {.parcels = {.closed_gate = true}};
    amqp_stage_set(&bench.stage);
    bench.stage.options.heartbeat = CONEY_SECOND;
    amqp_stage_open(&bench.stage);
    coney_amqp_consumer_options options = {.prefetch = CONEY_OFF, .no_ack = true, .max_queued = 1 << 20};
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    int connection = amqp_peer_consumer(bench.stage.peer, "q").connection;
    amqp_peer_beat(bench.stage.peer, 300);
    for (size_t i = 0; i < 400; i++)
        assert_true(
            amqp_peer_deliver_content(bench.stage.peer, "q", coney_bytes_of(NULL, 0), coney_bytes_of(body, sizeof body), 0));
    parcels_wait_at_gate(&bench.parcels);
    size_t beats = 0; /* of this connection */
    while (beats < 2)
        beats += amqp_peer_expect(bench.stage.peer, AMQP_PEER_HEARTBEAT)->connection == connection;
    assert_true(warren_stats(bench.consumer).queued_bytes < 4 << 20);
    parcels_open_gate(&bench.parcels);
    parcels_wait(&bench.parcels, 400);
    assert_int_equal(events_count(&bench.stage.events, CONEY_EVENT_DISCONNECTED), 0);
    bench_down(&bench);
}

static void must_be_ok(coney_status status, const coney_call *call)
{
    if (status != CONEY_OK)
        fail_msg("%s: %s", coney_status_name(status), call->text);
}

/* All three need the connection that a full consumer holds up. */
static void a_full_consumer_keeps_no_other_call_of_its_connection_waiting(void **state)
{
    (void)state;
    static char body[60000] = "m0";
    struct bench bench = {.parcels = {.closed_gate = true}};
    amqp_stage_up(&bench.stage);
    coney_amqp_consumer_options options = {.prefetch = CONEY_OFF, .no_ack = true, .max_queued = 100000};
    bench.consumer = amqp_stage_consumer(&bench.stage, "q", &bench.parcels, &options);
    for (size_t i = 0; i < 400; i++)
        amqp_peer_deliver_content(bench.stage.peer, "q", coney_bytes_of(NULL, 0), coney_bytes_of(body, sizeof body), 0);
    parcels_wait_at_gate(&bench.parcels);
    for (int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE); warren_stats(bench.consumer).queued_bytes <= 100000;) {
        assert_true(now_ms() < until);
        sched_yield();
    }
    for (int i = 0; i < 3; i++) {
        coney_call call = {.deadline = 3 * CONEY_SECOND};
        coney_amqp_queue mine = {.name = "mine", .exclusive = true};
        must_be_ok(coney_amqp_queue_declare(bench.stage.rabbit, &mine, &call), &call);
        must_be_ok(coney_amqp_update_secret(bench.stage.rabbit, "another", &call), &call);
        coney_amqp_channel_options consuming = {.consuming = true};
        coney_amqp_channel *raw = coney_amqp_channel_open(bench.stage.rabbit, &consuming, &call);
        must_be_ok(call.status, &call);
        must_be_ok(coney_amqp_channel_close(&raw, &call), &call);
    }
    parcels_open_gate(&bench.parcels);
    parcels_wait(&bench.parcels, 400);
    bench_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_on_its_own_thread_may_close_its_consumer_or_the_environment),
        cmocka_unit_test(handlers_on_threads_of_their_own_run_at_the_same_time),
        cmocka_unit_test(H03_cancels_that_cross_are_fine_in_both_orders),
        cmocka_unit_test(H04_what_arrives_between_cancel_and_its_answer_goes_back_and_nothing_is_lost),
        cmocka_unit_test(H05_a_tag_is_used_once_on_a_channel_also_through_recoveries),
        cmocka_unit_test(H06_deliveries_before_and_right_behind_consume_ok_reach_the_handler),
        cmocka_unit_test(H08_the_prefetch_is_set_before_the_consumer_begins_also_after_a_cut),
        cmocka_unit_test(H09_a_full_consumer_stops_the_reading_while_heartbeats_go_on),
        cmocka_unit_test(H10_what_was_given_back_is_handed_over_no_more),
        cmocka_unit_test(I03_every_settlement_names_a_tag_that_is_out_whatever_the_order),
        cmocka_unit_test(I06_a_message_that_was_held_too_long_is_stale_and_the_consumer_is_back_with_advice),
        cmocka_unit_test(a_cancel_by_the_broker_is_an_event_and_the_consumer_comes_back),
        cmocka_unit_test(a_close_ends_whatever_becomes_of_its_cancel),
        cmocka_unit_test(a_close_gives_back_what_is_kept_and_what_no_handler_had_in_one_frame),
        cmocka_unit_test(a_consumer_and_its_environment_may_be_closed_in_every_event_about_it),
        cmocka_unit_test(a_consumer_on_a_channel_that_was_used_before_settles_by_the_tags_of_that_channel),
        cmocka_unit_test(a_full_consumer_keeps_no_other_call_of_its_connection_waiting),
        cmocka_unit_test(acks_in_order_go_out_in_runs),
        cmocka_unit_test(handlers_may_close_the_consumers_of_each_other),
        cmocka_unit_test(as_many_messages_can_be_kept_as_the_bound_has_room_for),
        cmocka_unit_test(settling_after_a_cut_sends_nothing),
        cmocka_unit_test(what_arrives_while_a_consumer_is_closed_takes_no_memory),
    };
    return run_tests(tests);
}
