/* Requests against a scripted broker: replies that come late, doubled or to nobody, and what a cut leaves of them. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include "proto/amqp091/properties.h"

#include <pthread.h>

#define REPLIES "amq.rabbitmq.reply-to"

static coney_amqp_requester *requester_up(struct amqp_stage *stage)
{
    coney_call call = {0};
    amqp_stage_up(stage);
    coney_amqp_requester_options options = {.routing_key = "service"};
    coney_amqp_requester *requester = coney_amqp_requester_open(stage->rabbit, &options, &call);
    if (requester == NULL)
        fail_msg("the requester did not open: %s", call.text);
    return requester;
}

static void requester_down(struct amqp_stage *stage, coney_amqp_requester **requester)
{
    assert_int_equal(coney_amqp_requester_close(requester, NULL), CONEY_OK);
    amqp_stage_down(stage);
}

/* The n-th request is answered with `body`, under its correlation id. */
static void reply(struct amqp_peer *peer, size_t n, const char *body)
{
    uint8_t encoded[64];
    size_t size;
    const char *field;
    struct amqp_properties asked;
    assert_null(amqp_properties_read(amqp_peer_message_of(peer, n).properties, &asked));
    struct amqp_properties said = {.flags = AMQP_CORRELATION_ID, .correlation_id = asked.correlation_id};
    assert_int_equal(amqp_properties_size(&said, &size, &field), CONEY_OK);
    assert_true(size <= sizeof encoded);
    amqp_properties_write(encoded, &said);
    assert_true(amqp_peer_deliver_content(peer, REPLIES, coney_bytes_of(encoded, size), coney_bytes_str(body), 0));
}

static coney_status request(coney_amqp_requester *requester, coney_kept **place, coney_call *call)
{
    return coney_amqp_request(requester, &(coney_amqp_message){.body = CONEY_STR("?")}, place, call);
}

static void says(coney_kept **kept, const char *body)
{
    assert_non_null(*kept);
    assert_true(bytes_equal(coney_amqp_kept_delivery(*kept)->body, coney_bytes_str(body)));
    assert_int_equal(coney_kept_settle(kept, CONEY_ACK), CONEY_OK);
}

/* One more request, the n-th, with its reply: all that the broker sent before has been read. */
static void round_trip(struct amqp_stage *stage, coney_amqp_requester *requester, size_t n)
{
    struct waited_call call = {0};
    coney_kept *kept;
    assert_int_equal(request(requester, &kept, waited_call_of(&call, 0)), CONEY_OK);
    amqp_peer_wait_messages(stage->peer, n + 1);
    reply(stage->peer, n, "there");
    assert_int_equal(waited_call_wait(&call), CONEY_OK);
    says(&kept, "there");
    waited_call_free(&call);
}

static void replies_in_any_order_find_their_requests_and_a_second_one_is_dropped(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_amqp_requester *requester = requester_up(&stage);
    static const char *const bodies[] = {"a", "b", "c"};
    struct waited_call calls[3] = {0};
    coney_kept *kept[3];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(request(requester, &kept[i], waited_call_of(&calls[i], 0)), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 3);
    for (size_t i = 3; i-- > 0;) {
        reply(stage.peer, i, bodies[i]);
        reply(stage.peer, i, "again");
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(waited_call_wait(&calls[i]), CONEY_OK);
        says(&kept[i], bodies[i]);
        waited_call_free(&calls[i]);
    }
    round_trip(&stage, requester, 3);
    assert_int_equal(coney_amqp_requester_dropped(requester), 3);
    requester_down(&stage, &requester);
}

static void a_cut_ends_the_requests_under_way_and_later_ones_are_answered(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_amqp_requester *requester = requester_up(&stage);
    struct waited_call calls[2] = {0};
    coney_kept *kept[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(request(requester, &kept[i], waited_call_of(&calls[i], 0)), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 2);
    amqp_peer_cut(stage.peer, amqp_peer_connection(stage.peer, "publish"), PEER_RST);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(waited_call_wait(&calls[i]), CONEY_ELOST);
        assert_null(kept[i]);
        waited_call_free(&calls[i]);
    }
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    round_trip(&stage, requester, 2); /* nothing was sent twice */
    requester_down(&stage, &requester);
}

static void a_broker_that_takes_no_publishes_holds_up_requests_and_no_other_call(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_amqp_requester *requester = requester_up(&stage);
    int connection = amqp_peer_connection(stage.peer, "publish");
    struct amqp_method blocked = {.id = AMQP_CONNECTION_BLOCKED, .connection_blocked = {.reason = CONEY_STR("low on memory")}};
    amqp_peer_send(stage.peer, connection, 0, &blocked);
    events_wait(&stage.events, CONEY_EVENT_BLOCKED, 0);
    amqp_peer_stop_reading(stage.peer, connection, true);
    coney_kept *kept;
    coney_call call = call_within(50);
    assert_int_equal(request(requester, &kept, &call), CONEY_ETIMEDOUT);
    call = (coney_call){0};
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    amqp_peer_stop_reading(stage.peer, connection, false);
    amqp_peer_send(stage.peer, connection, 0, &(struct amqp_method){.id = AMQP_CONNECTION_UNBLOCKED});
    round_trip(&stage, requester, 0); /* what timed out was not sent */
    requester_down(&stage, &requester);
}

/* Patience ----------------------------------------------------------------------------------------------------------- */

/* A call whose end holds up the loop, and a thread that gives up on another meanwhile. */
struct patience {
    struct monitor monitor;
    coney_amqp_requester *requester;
    coney_kept *place; /* of the thread that gave up */
    coney_status status;
    bool gave_up;
};

static void hold_the_loop(void *ctx, const coney_call *call)
{
    struct patience *patience = ctx;
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    assert_int_equal(call->status, CONEY_OK);
    monitor_lock(&patience->monitor);
    while (!patience->gave_up && monitor_wait(&patience->monitor, until))
        ;
    monitor_unlock(&patience->monitor);
}

static void *give_up_soon(void *ctx)
{
    struct patience *patience = ctx;
    coney_call call = call_within(300);
    coney_status status = request(patience->requester, &patience->place, &call);
    monitor_lock(&patience->monitor);
    patience->status = status;
    patience->gave_up = true;
    monitor_broadcast(&patience->monitor);
    monitor_unlock(&patience->monitor);
    return NULL;
}

static void a_late_reply_is_not_written_where_the_thread_that_gave_up_had_its_place(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct patience patience = {.requester = requester_up(&stage)};
    coney_kept *first;
    coney_call holding = {.on_done = hold_the_loop, .ctx = &patience};
    pthread_t thread;
    assert_int_equal(request(patience.requester, &first, &holding), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 1);
    assert_int_equal(pthread_create(&thread, NULL, give_up_soon, &patience), 0);
    amqp_peer_wait_messages(stage.peer, 2);
    amqp_peer_freeze(stage.peer, true);
    reply(stage.peer, 0, "holds");
    reply(stage.peer, 1, "late");
    amqp_peer_freeze(stage.peer, false); /* so that one read brings both */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(patience.status, CONEY_ETIMEDOUT);
    round_trip(&stage, patience.requester, 2);
    assert_null(patience.place);
    assert_int_equal(coney_amqp_requester_dropped(patience.requester), 1);
    says(&first, "holds");
    requester_down(&stage, &patience.requester);
    monitor_free(&patience.monitor);
}

static void a_requester_that_is_closed_in_the_same_breath_as_its_request_ends_both(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call asked = {0};
    struct waited_call closed = {0};
    coney_call call = {0};
    coney_kept *kept;
    amqp_stage_set(&stage);
    stage.options.loop = coney_loop_new();
    amqp_stage_open(&stage);
    coney_amqp_requester_options options = {.routing_key = "service"};
    coney_amqp_requester *requester = coney_amqp_requester_open(stage.rabbit, &options, &call);
    assert_non_null(requester);
    assert_int_equal(request(requester, &kept, waited_call_of(&asked, 0)), CONEY_OK);
    assert_int_equal(coney_amqp_requester_close(&requester, waited_call_of(&closed, 0)), CONEY_OK);
    amqp_stage_down(&stage); /* the loop comes to both in one round */
    assert_int_equal(waited_call_wait(&asked), CONEY_ECLOSED);
    assert_int_equal(waited_call_wait(&closed), CONEY_OK);
    coney_loop_free(&stage.options.loop);
    waited_call_free(&asked);
    waited_call_free(&closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_in_any_order_find_their_requests_and_a_second_one_is_dropped),
        cmocka_unit_test(a_cut_ends_the_requests_under_way_and_later_ones_are_answered),
        cmocka_unit_test(a_broker_that_takes_no_publishes_holds_up_requests_and_no_other_call),
        cmocka_unit_test(a_requester_that_is_closed_in_the_same_breath_as_its_request_ends_both),
        cmocka_unit_test(a_late_reply_is_not_written_where_the_thread_that_gave_up_had_its_place),
    };
    return run_tests(tests);
}
