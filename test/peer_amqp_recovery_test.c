/* Losing the connection and coming back: topology, consumers and publishers, once each; secrets. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

static coney_amqp_stats stats_of(const coney_amqp *rabbit)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(rabbit, &stats), CONEY_OK);
    return stats;
}

/* Consumers ---------------------------------------------------------------------------------------------------------- */

static void L06_after_each_of_twenty_cuts_a_message_is_handled(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    struct dice dice = dice_of(6);
    coney_call call = {0};
    amqp_stage_up(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    for (size_t i = 0; i < 20; i++) {
        static const uint32_t points[] = {AMQP_PEER_GREETING, AMQP_CONNECTION_START_OK, AMQP_CONNECTION_OPEN, AMQP_CHANNEL_OPEN,
                                          AMQP_BASIC_QOS,     AMQP_BASIC_CONSUME,       AMQP_QUEUE_DECLARE};
        uint32_t point = points[dice_roll(&dice, sizeof points / sizeof points[0])];
        amqp_peer_cut_at(stage.peer, point, 1, i % 2 == 0 ? PEER_RST : PEER_FIN);
        if (dice_roll(&dice, 2) == 0) {
            amqp_peer_go_down(stage.peer, PEER_RST);
            amqp_peer_come_up(stage.peer);
        } else {
            amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
        }
        amqp_peer_wait_consumers(stage.peer, "q", 1);
        amqp_peer_deliver(stage.peer, "q", i, 1);
        parcels_wait(&parcels, i + 1);
        amqp_peer_by_default(stage.peer, point);
        assert_int_equal(stats_of(stage.rabbit).consumers_active, 1);
    }
    parcels_are_in_order(&parcels, 0, 20);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void L07_after_twenty_restarts_there_is_one_consumer_and_one_of_each_connection(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    for (uint64_t i = 0; i < 20; i++) {
        amqp_peer_go_down(stage.peer, PEER_RST);
        amqp_peer_come_up(stage.peer);
        amqp_publish_numbered(publisher, i, 1);
        outcomes_wait(&outcomes, i + 1);
        amqp_peer_wait_consumers(stage.peer, "q", 1);
    }
    coney_call call = {0};
    assert_int_equal(amqp_stage_declare(&stage, "r", &call), CONEY_OK);
    assert_int_equal(amqp_peer_consumers(stage.peer, "q"), 1);
    amqp_peer_wait_open(stage.peer, 3);
    assert_int_equal(stats_of(stage.rabbit).connections, 3);
    warren_close_consumer(&consumer);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
    outcomes_free(&outcomes);
}

static void connected_but_not_subscribed_is_seen_in_the_statistics(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    amqp_peer_refuse(stage.peer, AMQP_BASIC_CONSUME, PEER_EVERY, AMQP_CODE_NOT_FOUND, "NOT_FOUND - no queue 'q'");
    amqp_peer_cut(stage.peer, amqp_peer_consumer(stage.peer, "q").connection, PEER_RST);
    struct event failed = events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, 2);
    assert_int_equal(failed.code, 404);
    assert_true(failed.delay > 0); /* told, and not spun on */
    coney_amqp_stats stats = stats_of(stage.rabbit);
    assert_int_equal(stats.consumers, 1);
    assert_int_equal(stats.consumers_active, 0);
    assert_true(stats.connections >= 1);
    amqp_peer_by_default(stage.peer, AMQP_BASIC_CONSUME);
    amqp_peer_wait_consumers(stage.peer, "q", 1);
    amqp_peer_deliver(stage.peer, "q", 0, 1);
    parcels_wait(&parcels, 1);
    assert_int_equal(stats_of(stage.rabbit).consumers_active, 1);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

/* Topology ----------------------------------------------------------------------------------------------------------- */

static void L04_recovery_declares_what_is_known_in_order_and_consumes_when_it_stands(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    coney_call call = {0};
    amqp_stage_up(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    assert_int_equal(coney_amqp_exchange_declare(stage.rabbit, &(coney_amqp_exchange){.name = "x"}, &call), CONEY_OK);
    assert_int_equal(coney_amqp_bind(stage.rabbit, &(coney_amqp_binding){.source = "x", .destination = "q"}, &call), CONEY_OK);
    assert_int_equal(amqp_stage_declare(&stage, "gone", &call), CONEY_OK);
    assert_int_equal(coney_amqp_queue_delete(stage.rabbit, "gone", 0, &call), CONEY_OK);
    coney_amqp_queue passive = {.name = "asked", .passive = true};
    assert_int_equal(coney_amqp_queue_declare(stage.rabbit, &passive, &call), CONEY_OK);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    size_t declares = amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE);
    amqp_peer_hold(stage.peer, AMQP_QUEUE_BIND, 1);
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_BIND, 2);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_EXCHANGE_DECLARE), 2);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE), declares + 1);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_BASIC_CONSUME), 1); /* not before the topology stands */
    const struct amqp_peer_record *exchange = amqp_peer_record_of(stage.peer, AMQP_EXCHANGE_DECLARE, 1);
    const struct amqp_peer_record *queue = amqp_peer_record_of(stage.peer, AMQP_QUEUE_DECLARE, declares);
    assert_true(exchange->at <= queue->at);
    assert_true(bytes_equal(queue->method.queue_declare.queue, CONEY_STR("q")));
    assert_true(queue->method.queue_declare.durable);
    amqp_peer_release(stage.peer, AMQP_QUEUE_BIND);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(amqp_peer_consumers(stage.peer, "q"), 1);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void L08_what_cannot_be_declared_again_is_told_in_words_and_tried_with_pauses(void **state)
{
    (void)state;
    static const char words[] =
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'";
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    amqp_peer_refuse(stage.peer, AMQP_QUEUE_DECLARE, PEER_EVERY, AMQP_CODE_PRECONDITION_FAILED, words);
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    struct event event = events_wait(&stage.events, CONEY_EVENT_TOPOLOGY_FAILED, 0);
    assert_int_equal(event.code, 406);
    assert_string_equal(event.name, "q");
    assert_says(event.text, "received 'true' but current is 'false'");
    events_wait(&stage.events, CONEY_EVENT_TOPOLOGY_FAILED, 2);
    assert_true(amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE) < 30);
    amqp_peer_by_default(stage.peer, AMQP_QUEUE_DECLARE);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    amqp_stage_down(&stage);
}

/* The broker's own close --------------------------------------------------------------------------------------------- */

static void L12_a_forced_close_is_answered_and_got_over(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    for (size_t i = 0; i < 3; i++) {
        amqp_peer_close(stage.peer, amqp_peer_consumer(stage.peer, "q").connection, AMQP_CODE_CONNECTION_FORCED,
                        "CONNECTION_FORCED - Closed via management plugin");
        struct event event = events_wait(&stage.events, CONEY_EVENT_SERVER_CLOSE, i);
        assert_int_equal(event.code, 320);
        assert_int_equal(event.status, CONEY_ELOST);
        assert_says(event.text, "Closed via management plugin");
        events_wait(&stage.events, CONEY_EVENT_RECOVERED, i);
        amqp_peer_wait_count(stage.peer, AMQP_CONNECTION_CLOSE_OK, i + 1);
    }
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void L12_a_virtual_host_that_is_gone_is_told_with_pauses_until_it_is_back(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    amqp_peer_refuse(stage.peer, AMQP_CONNECTION_OPEN, PEER_EVERY, AMQP_CODE_NOT_ALLOWED, "NOT_ALLOWED - vhost '/' is gone");
    amqp_peer_cut(stage.peer, amqp_peer_consumer(stage.peer, "q").connection, PEER_RST);
    struct event event = events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, 1);
    assert_int_equal(event.status, CONEY_EVHOST);
    assert_true(event.delay > 0);
    amqp_peer_by_default(stage.peer, AMQP_CONNECTION_OPEN);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void without_recovery_everything_ends_at_a_cut_and_says_so(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    struct outcomes outcomes = {0};
    amqp_stage_set(&stage);
    stage.options.no_recovery = true;
    amqp_stage_open(&stage);
    amqp_peer_confirm_by_hand(stage.peer, true);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 5);
    amqp_peer_wait_messages(stage.peer, 5);
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_GAVE_UP, 1);
    outcomes_wait(&outcomes, 5);
    outcomes_are_in_order(&outcomes, 0, 5);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EUNKNOWN), 5);
    coney_amqp_consumer_close(&consumer, NULL);
    coney_amqp_publisher_close(&publisher, NULL);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
    outcomes_free(&outcomes);
}

/* Secrets ------------------------------------------------------------------------------------------------------------ */

static void SB_80_a_new_secret_reaches_every_link_and_every_later_log_in(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    struct outcomes outcomes = {0};
    coney_call call = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    assert_int_equal(coney_amqp_update_secret(stage.rabbit, "new-token", &call), CONEY_OK);
    amqp_peer_wait_count(stage.peer, AMQP_CONNECTION_UPDATE_SECRET, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct amqp_peer_record *update = amqp_peer_record_of(stage.peer, AMQP_CONNECTION_UPDATE_SECRET, i);
        assert_true(bytes_equal(update->method.connection_update_secret.secret, CONEY_STR("new-token")));
    }
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_SECRET_RENEWED), 3);
    size_t before = amqp_peer_count(stage.peer, AMQP_CONNECTION_START_OK);
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 1);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    assert_true(amqp_peer_count(stage.peer, AMQP_CONNECTION_START_OK) >= before + 3);
    for (size_t i = before; i < amqp_peer_count(stage.peer, AMQP_CONNECTION_START_OK); i++) {
        const struct amqp_peer_record *ok = amqp_peer_record_of(stage.peer, AMQP_CONNECTION_START_OK, i);
        assert_true(bytes_equal(ok->method.connection_start_ok.response, CONEY_STR("\0guest\0new-token")));
    }
    assert_false(events_say(&stage.events, "new-token"));
    warren_close_consumer(&consumer);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
    outcomes_free(&outcomes);
}

static void SB_80_a_secret_that_is_refused_is_told_with_the_brokers_words_and_without_itself(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    amqp_peer_refuse(stage.peer, AMQP_CONNECTION_UPDATE_SECRET, 1, AMQP_CODE_NOT_ALLOWED,
                     "NOT_ALLOWED - New secret was refused");
    assert_int_equal(coney_amqp_update_secret(stage.rabbit, "bad-token", &call), CONEY_EAUTH);
    assert_int_equal(call.code, 530);
    assert_says(call.text, "New secret was refused");
    assert_null(strstr(call.text, "bad-token"));
    assert_int_equal(events_wait(&stage.events, CONEY_EVENT_SECRET_REFUSED, 0).code, 530);
    assert_false(events_say(&stage.events, "bad-token"));
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    amqp_stage_down(&stage);
}

static void SB_80_a_secret_that_no_log_in_can_carry_is_told_and_nothing_hangs(void **state)
{
    (void)state;
    static char token[9001];
    struct amqp_stage stage;
    struct parcels parcels = {0};
    coney_call call = {0};
    memset(token, 'x', sizeof token - 1);
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    coney_status status = coney_amqp_update_secret(stage.rabbit, token, &call);
    assert_true(status == CONEY_OK || status == CONEY_ETOOBIG || status == CONEY_EINVAL);
    amqp_peer_cut(stage.peer, amqp_peer_consumer(stage.peer, "q").connection, PEER_RST);
    if (status == CONEY_OK) {
        struct event event = events_wait(&stage.events, CONEY_EVENT_RECOVERY_FAILED, 0);
        assert_says(event.text, "shorten");
        assert_int_equal(coney_amqp_update_secret(stage.rabbit, "short", &call), CONEY_OK);
    }
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_false(events_say(&stage.events, "xxxxxxxx"));
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void a_connection_lost_before_it_has_answered_takes_the_secret_at_its_next_log_in(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call update = {0};
    coney_call call = {0};
    amqp_stage_up(&stage);
    amqp_peer_cut_at(stage.peer, AMQP_CONNECTION_UPDATE_SECRET, 1, PEER_RST);
    assert_int_equal(coney_amqp_update_secret(stage.rabbit, "new", waited_call_of(&update, 0)), CONEY_OK);
    (void)waited_call_wait(&update);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    const struct amqp_peer_record *ok = amqp_peer_record_of(stage.peer, AMQP_CONNECTION_START_OK, 1);
    assert_true(bytes_equal(ok->method.connection_start_ok.response, CONEY_STR("\0guest\0new")));
    amqp_stage_down(&stage);
    waited_call_free(&update);
}

/* Requests ----------------------------------------------------------------------------------------------------------- */

/* Answers the n-th message that was published, with this correlation id (NULL: its own). */
static void reply(struct amqp_peer *peer, size_t n, const char *correlation, const char *body)
{
    struct amqp_peer_message request = amqp_peer_message_of(peer, n);
    uint8_t properties[2 + 1 + 32] = {0x04, 0, 32};
    /* flags, then in the order of their bits: delivery mode is not there; the correlation id is the first string */
    const uint8_t *at = request.properties.data;
    size_t skip = (at[0] & 0x10) != 0 ? 3 : 2;
    assert_int_equal(at[skip], 32);
    memcpy(properties + 3, correlation != NULL ? (const uint8_t *)correlation : at + skip + 1, 32);
    assert_true(amqp_peer_deliver_content(peer, "amq.rabbitmq.reply-to", coney_bytes_of(properties, sizeof properties),
                                          coney_bytes_str(body), 0));
}

static void M02_replies_with_a_foreign_a_missing_or_a_used_correlation_id_are_dropped_and_counted(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    coney_amqp_requester *requester = coney_amqp_requester_open(stage.rabbit, NULL, &call);
    assert_non_null(requester);
    struct waited_call waited = {0};
    coney_kept *kept = NULL;
    coney_amqp_message message = {.body = CONEY_STR("?"), .routing_key = CONEY_STR("service")};
    assert_int_equal(coney_amqp_request(requester, &message, &kept, waited_call_of(&waited, 0)), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 1);
    assert_true(amqp_peer_message_of(stage.peer, 0).mandatory);
    reply(stage.peer, 0, "00000000000000000000000000000001", "foreign");
    reply(stage.peer, 0, "not a number at all, 32 bytes...", "foreign");
    amqp_peer_deliver(stage.peer, "amq.rabbitmq.reply-to", 0, 1); /* without any */
    reply(stage.peer, 0, NULL, "mine");
    reply(stage.peer, 0, NULL, "again");
    assert_int_equal(waited_call_wait(&waited), CONEY_OK);
    assert_true(bytes_equal(coney_amqp_kept_delivery(kept)->body, CONEY_STR("mine")));
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK); /* on the same connection, behind them */
    assert_int_equal(coney_amqp_requester_dropped(requester), 4);
    assert_int_equal(coney_amqp_requester_close(&requester, &call), CONEY_OK);
    amqp_stage_down(&stage);
    waited_call_free(&waited);
}

static void M03_after_a_cut_the_reply_consumer_is_back_before_any_request(void **state)
{
    (void)state;
    char story[200];
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    coney_amqp_requester *requester = coney_amqp_requester_open(stage.rabbit, NULL, &call);
    assert_non_null(requester);
    coney_kept *kept = NULL;
    coney_amqp_message message = {.body = CONEY_STR("?"), .routing_key = CONEY_STR("service")};
    struct waited_call waited = {0};
    assert_int_equal(coney_amqp_request(requester, &message, &kept, waited_call_of(&waited, CONEY_OFF)), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 1);
    int64_t began = now_ms();
    amqp_peer_cut(stage.peer, PEER_ALL, PEER_RST);
    assert_int_equal(waited_call_wait(&waited), CONEY_ELOST);
    assert_null(kept);
    assert_true(now_ms() - began < scaled_ms(1000));
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(coney_amqp_request(requester, &message, &kept, waited_call_of(&waited, 0)), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 2);
    struct amqp_peer_message second = amqp_peer_message_of(stage.peer, 1);
    amqp_peer_story(stage.peer, second.connection, second.channel, story, sizeof story);
    assert_string_equal(story, "channel.open basic.consume basic.publish");
    reply(stage.peer, 1, NULL, "here");
    assert_int_equal(waited_call_wait(&waited), CONEY_OK);
    coney_kept_settle(&kept, CONEY_ACK);
    assert_int_equal(coney_amqp_requester_close(&requester, &call), CONEY_OK);
    amqp_stage_down(&stage);
    waited_call_free(&waited);
}

static void M04_no_two_requesters_share_a_correlation_id_or_a_queue_of_a_fixed_name(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    struct waited_call waited[2] = {0};
    coney_amqp_requester *requesters[2];
    coney_kept *kept[2] = {0};
    coney_amqp_message message = {.body = CONEY_STR("?"), .routing_key = CONEY_STR("service")};
    for (size_t i = 0; i < 2; i++) {
        requesters[i] = coney_amqp_requester_open(stage.rabbit, NULL, &call);
        assert_non_null(requesters[i]);
        assert_int_equal(coney_amqp_request(requesters[i], &message, &kept[i], waited_call_of(&waited[i], 0)), CONEY_OK);
        amqp_peer_wait_messages(stage.peer, i + 1);
    }
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE), 0);
    assert_true(amqp_peer_expect(stage.peer, AMQP_BASIC_CONSUME)->method.basic_consume.no_ack);
    assert_false(bytes_equal(amqp_peer_message_of(stage.peer, 0).properties, amqp_peer_message_of(stage.peer, 1).properties));
    reply(stage.peer, 0, NULL, "for the first"); /* the peer gives it to the second */
    reply(stage.peer, 1, NULL, "for the second");
    assert_int_equal(waited_call_wait(&waited[1]), CONEY_OK);
    assert_true(bytes_equal(coney_amqp_kept_delivery(kept[1])->body, CONEY_STR("for the second")));
    assert_int_equal(coney_amqp_requester_dropped(requesters[1]), 1);
    coney_kept_settle(&kept[1], CONEY_ACK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(coney_amqp_requester_close(&requesters[i], &call), CONEY_OK);
    assert_int_equal(waited_call_wait(&waited[0]), CONEY_ECLOSED);
    amqp_stage_down(&stage);
    waited_call_free(&waited[0]);
    waited_call_free(&waited[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(L04_recovery_declares_what_is_known_in_order_and_consumes_when_it_stands),
        cmocka_unit_test(L06_after_each_of_twenty_cuts_a_message_is_handled),
        cmocka_unit_test(L07_after_twenty_restarts_there_is_one_consumer_and_one_of_each_connection),
        cmocka_unit_test(L08_what_cannot_be_declared_again_is_told_in_words_and_tried_with_pauses),
        cmocka_unit_test(L12_a_forced_close_is_answered_and_got_over),
        cmocka_unit_test(L12_a_virtual_host_that_is_gone_is_told_with_pauses_until_it_is_back),
        cmocka_unit_test(connected_but_not_subscribed_is_seen_in_the_statistics),
        cmocka_unit_test(without_recovery_everything_ends_at_a_cut_and_says_so),
        cmocka_unit_test(SB_80_a_new_secret_reaches_every_link_and_every_later_log_in),
        cmocka_unit_test(SB_80_a_secret_that_is_refused_is_told_with_the_brokers_words_and_without_itself),
        cmocka_unit_test(SB_80_a_secret_that_no_log_in_can_carry_is_told_and_nothing_hangs),
        cmocka_unit_test(a_connection_lost_before_it_has_answered_takes_the_secret_at_its_next_log_in),
        cmocka_unit_test(M02_replies_with_a_foreign_a_missing_or_a_used_correlation_id_are_dropped_and_counted),
        cmocka_unit_test(M03_after_a_cut_the_reply_consumer_is_back_before_any_request),
        cmocka_unit_test(M04_no_two_requesters_share_a_correlation_id_or_a_queue_of_a_fixed_name),
    };
    return run_tests(tests);
}
