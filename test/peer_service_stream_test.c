/* The transport over streams before a scripted broker: what a real one does too seldom, or not at all. */
#define _GNU_SOURCE
#include "conformance.h"

#include "peer.h"
#include "proto/amqp10/data.h"

static struct peer *peer;

static coney_broker *broker(coney_app *app)
{
    static coney_stream_env_options options;
    options =
        (coney_stream_env_options){.recovery_delay = 10 * CONEY_MILLISECOND, .recovery_max_delay = 100 * CONEY_MILLISECOND};
    return coney_app_stream(app, peer_uri(peer), &options);
}

static void source(const char *name, struct conformance_source *of)
{
    of->as.stream = (coney_stream_source){.name = name, .start_if_new = CONEY_STREAM_FIRST};
    of->source = coney_source_stream(&of->as.stream);
}

static const struct conformance what = {.name = "stream", .broker = broker, .source = source};

static void up(struct stand *stand, size_t sources)
{
    peer = peer_start();
    stand_up(stand, &what, sources);
}

static void down(struct stand *stand)
{
    stand_down(stand);
    peer_stop(&peer);
}

/* Publishers ------------------------------------------------------------------------------------------------------------------ */

static void send_to(struct stand *stand, unsigned number)
{
    char to[32];
    snprintf(to, sizeof to, "place-%u", number);
    stand_send(stand, &(struct outgoing){.to = coney_bytes_str(to), .body = CONEY_STR("x")});
}

static void beyond_256_destinations_the_one_used_longest_ago_is_closed_and_no_outcome_is_lost(void **state)
{
    (void)state;
    struct stand stand;
    up(&stand, 0);
    for (unsigned i = 0; i < 255; i++)
        send_to(&stand, i);
    send_to(&stand, 0);
    send_to(&stand, 255);
    must(stand_outcomes(&stand), NULL, "the outcomes");
    assert_int_equal(peer_count(peer, STREAM_DELETE_PUBLISHER), 0);
    peer_confirm_by_hand(peer, true);
    send_to(&stand, 1);
    send_to(&stand, 256); /* 2 was used longest ago, and goes */
    send_to(&stand, 257); /* 3 */
    send_to(&stand, 0);
    send_to(&stand, 2);
    peer_wait_gone(peer, "place-3");
    for (size_t had = 0; had < 5;)
        had += peer_confirm(peer, 5);
    must(stand_outcomes(&stand), NULL, "the outcomes");
    assert_int_equal(peer_publishers(peer, "place-0"), 1);
    assert_int_equal(peer_publishers(peer, "place-1"), 1);
    assert_int_equal(peer_count(peer, STREAM_DECLARE_PUBLISHER), 256 + 2 + 1);
    for (size_t i = 0; i < stand.next_tag; i++)
        assert_int_equal(stand.outcomes.times[i], 1);
    down(&stand);
}

struct publishing {
    struct stand *stand;
    pthread_t thread;
    unsigned seed;
};

static void *publish_everywhere(void *ctx)
{
    struct publishing *publishing = ctx;
    struct stand *stand = publishing->stand;
    for (unsigned i = 0; i < 400; i++) {
        char to[32];
        snprintf(to, sizeof to, "place-%u", (i * 7 + publishing->seed * 131) % 300);
        const struct outgoing message = {.to = coney_bytes_str(to), .body = CONEY_STR("x")};
        if (stand->transport->publish(stand->outlet, &message, publishing->seed * 1000 + i) != CONEY_OK)
            return stand;
    }
    return NULL;
}

static void threads_that_publish_everywhere_get_one_outcome_for_each_message(void **state)
{
    (void)state;
    struct stand stand;
    struct publishing publishing[3];
    up(&stand, 0);
    for (unsigned i = 0; i < 3; i++) {
        publishing[i] = (struct publishing){.stand = &stand, .seed = i};
        assert_int_equal(pthread_create(&publishing[i].thread, NULL, publish_everywhere, &publishing[i]), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        void *failed;
        pthread_join(publishing[i].thread, &failed);
        assert_null(failed);
    }
    stand_close(&stand);
    assert_int_equal(stand.outcomes.count, 1200);
    assert_int_equal(stand.outcomes.failures, 0);
    down(&stand);
}

/* From an outcome, on the loop: a known destination is fine, one that is to be opened is not. */
struct on_loop {
    struct stand *stand;
    coney_status known;
    coney_status unknown;
    struct monitor monitor;
    bool done;
};

static void publish_here(void *ctx, const coney_outcome *outcome)
{
    (void)outcome;
    struct on_loop *on_loop = ctx;
    struct stand *stand = on_loop->stand;
    const struct outgoing known = {.to = CONEY_STR("known"), .body = CONEY_STR("x")};
    const struct outgoing unknown = {.to = CONEY_STR("unknown"), .body = CONEY_STR("x")};
    monitor_lock(&on_loop->monitor);
    on_loop->known = stand->transport->publish(stand->outlet, &known, 1);
    on_loop->unknown = stand->transport->publish(stand->outlet, &unknown, 2);
    on_loop->done = true;
    monitor_broadcast(&on_loop->monitor);
    monitor_unlock(&on_loop->monitor);
}

static void on_a_loop_a_destination_that_is_not_open_answers_again(void **state)
{
    (void)state;
    struct stand stand;
    struct on_loop on_loop = {.stand = &stand};
    up(&stand, 0);
    stand_send(&stand, &(struct outgoing){.to = CONEY_STR("known"), .body = CONEY_STR("x")});
    must(stand_outcomes(&stand), NULL, "the outcome");
    const struct outlet_options options = {.outcome = publish_here, .ctx = &on_loop};
    struct outlet *other;
    coney_call call = stand_call();
    must(stand.transport->open_outlet(stand.self, &options, &other, &call), &call, "open_outlet");
    const struct outgoing message = {.to = CONEY_STR("elsewhere"), .body = CONEY_STR("x")};
    must(stand.transport->publish(other, &message, 0), NULL, "publish");
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&on_loop.monitor);
    while (!on_loop.done && monitor_wait(&on_loop.monitor, until))
        ;
    monitor_unlock(&on_loop.monitor);
    assert_int_equal(on_loop.known, CONEY_OK);
    assert_int_equal(on_loop.unknown, CONEY_EAGAIN);
    call = stand_call();
    must(stand.transport->close_outlet(other, &call), &call, "close_outlet");
    stand.next_tag = 2;
    must(stand_outcomes(&stand), NULL, "the outcomes");
    down(&stand);
    monitor_free(&on_loop.monitor);
}

static void closing_a_publisher_whose_confirms_do_not_come_ends_at_its_deadline_with_unknown_outcomes(void **state)
{
    (void)state;
    struct stand stand;
    up(&stand, 0);
    peer_confirm_by_hand(peer, true);
    send_to(&stand, 1);
    send_to(&stand, 2);
    coney_call call = {.deadline = 100 * CONEY_MILLISECOND};
    assert_int_equal(stand.transport->close_outlet(stand.outlet, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 2);
    assert_int_equal(stand_outcomes(&stand), CONEY_EUNKNOWN);
    assert_int_equal(stand.outcomes.failures, 2);
    call = stand_call();
    must(stand.transport->disconnect(stand.self, &call), &call, "disconnect");
    stand.outlet = NULL;
    down(&stand);
}

static void what_streams_cannot_honour_is_unsupported(void **state)
{
    (void)state;
    struct stand stand;
    up(&stand, 0);
    const struct outgoing odd[] = {
        {.to = CONEY_STR("s"), .body = CONEY_STR("x"), .expiration = CONEY_SECOND},
        {.to = CONEY_STR("s"), .body = CONEY_STR("x"), .has_priority = true, .priority = 3},
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        assert_int_equal(stand.transport->publish(stand.outlet, &odd[i], 0), CONEY_EUNSUPPORTED);
    assert_int_equal(stand.transport->publish(stand.outlet, &(struct outgoing){.body = CONEY_STR("x")}, 0), CONEY_EINVAL);
    assert_int_equal(peer_count(peer, STREAM_DECLARE_PUBLISHER), 0);
    down(&stand);
}

static void a_stream_without_a_leader_yet_is_tried_again(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1);
    peer_answer(peer, STREAM_SUBSCRIBE, 1, STREAM_CODE_STREAM_NOT_AVAILABLE);
    peer_answer(peer, STREAM_DECLARE_PUBLISHER, 1, STREAM_CODE_STREAM_NOT_AVAILABLE);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "x");
    assert_int_equal(peer_count(peer, STREAM_SUBSCRIBE), 2);
    assert_int_equal(peer_count(peer, STREAM_DECLARE_PUBLISHER), 2);
    listener_free(&listener);
    down(&stand);
}

/* Bodies in parts ----------------------------------------------------------------------------------------------------------------- */

/* A chunk of one message, of two data sections: "one" and "two". */
static void deliver_parts(struct stand *stand, uint64_t offset)
{
    uint8_t entry[32];
    uint8_t bytes[200];
    const uint8_t *end = amqp10_data_write(amqp10_data_write(entry, CONEY_STR("one")), CONEY_STR("two"));
    struct chunk_writer w = chunk_begin(bytes, sizeof bytes, CHUNK_USER, 1700000000000, 1, offset);
    chunk_add(&w, coney_bytes_of(entry, (size_t)(end - entry)));
    size_t len = chunk_finish(&w, peer_crc(chunk_data(&w)));
    assert_true(peer_deliver_bytes(peer, stand->names[0], coney_bytes_of(bytes, len)));
}

static void a_body_in_parts_is_joined(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1);
    listener_start(&listener, &stand, 0);
    deliver_parts(&stand, 0);
    listener_wait(&listener, 1);
    assert_string_equal(listener_of(&listener, 0).body, "onetwo");
    listener_free(&listener);
    down(&stand);
}

static void a_body_in_parts_may_be_kept_and_comes_again(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = true};
    up(&stand, 1);
    listener_start(&listener, &stand, 0);
    deliver_parts(&stand, 0);
    listener_wait(&listener, 1);
    struct incoming kept = listener_of(&listener, 0).kept;
    assert_memory_equal(kept.body.data, "onetwo", 6);
    assert_ptr_equal(stand.transport->stream_delivery(&kept)->encoded.data,
                     coney_stream_kept_delivery(kept.kept)->encoded.data);
    must(listener_settle(&listener, 0, CONEY_REQUEUE), NULL, "settle");
    listener_wait(&listener, 2);
    assert_memory_equal(listener_of(&listener, 1).kept.body.data, "onetwo", 6);
    assert_int_equal(listener_of(&listener, 1).attempt, 2);
    must(listener_settle(&listener, 1, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    down(&stand);
}

/* Bursts ---------------------------------------------------------------------------------------------------------------------------- */

static void all_but_the_last_of_a_chunk_say_that_more_follow(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1);
    listener_start(&listener, &stand, 0);
    peer_deliver(peer, stand.names[0], 0, 5);
    peer_deliver(peer, stand.names[0], 5, 1);
    listener_wait(&listener, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(listener_of(&listener, i).more, i < 4);
    listener_free(&listener);
    down(&stand);
}

static void a_kept_message_that_comes_again_comes_alone(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = true};
    up(&stand, 1);
    listener_start(&listener, &stand, 0);
    peer_deliver(peer, stand.names[0], 0, 2);
    listener_wait(&listener, 2);
    must(listener_settle(&listener, 0, CONEY_REQUEUE), NULL, "settle");
    listener_wait(&listener, 3);
    assert_true(listener_of(&listener, 0).more);
    assert_false(listener_of(&listener, 2).more);
    for (size_t i = 1; i < 3; i++)
        must(listener_settle(&listener, i, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    down(&stand);
}

static void a_lost_connection_makes_a_feed_inactive_until_it_has_another(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1);
    listener_start(&listener, &stand, 0);
    peer_answer(peer, STREAM_SUBSCRIBE, 1, STREAM_CODE_STREAM_NOT_AVAILABLE);
    peer_cut(peer, peer_consumer_connection(peer, stand.names[0]), PEER_RST);
    listener_wait_active(&listener, false);
    listener_wait_active(&listener, true);
    assert_false(listener.ended);
    listener_free(&listener);
    down(&stand);
}

static void a_stream_that_is_gone_ends_its_feed(void **state)
{
    (void)state;
    struct stand stand;
    struct listener listener = {.keep = false};
    up(&stand, 1);
    listener_start(&listener, &stand, 0);
    peer_set_stream(peer, stand.names[0], STREAM_CODE_STREAM_DOES_NOT_EXIST);
    peer_lose_stream(peer, stand.names[0], STREAM_CODE_STREAM_NOT_AVAILABLE);
    listener_wait_ended(&listener);
    listener_free(&listener);
    down(&stand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beyond_256_destinations_the_one_used_longest_ago_is_closed_and_no_outcome_is_lost),
        cmocka_unit_test(threads_that_publish_everywhere_get_one_outcome_for_each_message),
        cmocka_unit_test(on_a_loop_a_destination_that_is_not_open_answers_again),
        cmocka_unit_test(closing_a_publisher_whose_confirms_do_not_come_ends_at_its_deadline_with_unknown_outcomes),
        cmocka_unit_test(what_streams_cannot_honour_is_unsupported),
        cmocka_unit_test(a_stream_without_a_leader_yet_is_tried_again),
        cmocka_unit_test(a_body_in_parts_is_joined),
        cmocka_unit_test(a_body_in_parts_may_be_kept_and_comes_again),
        cmocka_unit_test(all_but_the_last_of_a_chunk_say_that_more_follow),
        cmocka_unit_test(a_kept_message_that_comes_again_comes_alone),
        cmocka_unit_test(a_lost_connection_makes_a_feed_inactive_until_it_has_another),
        cmocka_unit_test(a_stream_that_is_gone_ends_its_feed),
    };
    return run_tests(tests);
}
