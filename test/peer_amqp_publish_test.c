/* Publishing: confirms and returns in any order, what a cut leaves open, pressure, callbacks that publish and close. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include "proto/amqp091/properties.h"

static coney_status publish(coney_amqp_publisher *publisher, const char *body, uint64_t tag)
{
    coney_amqp_message message = {.body = coney_bytes_str(body), .tag = tag};
    return coney_amqp_publish(publisher, &message);
}

static coney_amqp_publisher_stats stats_of(const coney_amqp_publisher *publisher)
{
    coney_amqp_publisher_stats stats;
    assert_int_equal(coney_amqp_publisher_get_stats(publisher, &stats), CONEY_OK);
    return stats;
}

/* A publisher whose messages are confirmed by hand. */
static coney_amqp_publisher *by_hand(struct amqp_stage *stage, struct outcomes *outcomes,
                                     const coney_amqp_publisher_options *options)
{
    amqp_stage_up(stage);
    amqp_peer_confirm_by_hand(stage->peer, true);
    return amqp_stage_publisher(stage, outcomes, options);
}

static void down(struct amqp_stage *stage, struct outcomes *outcomes, coney_amqp_publisher **publisher)
{
    if (publisher != NULL)
        amqp_publisher_close(publisher);
    amqp_stage_down(stage);
    outcomes_free(outcomes);
}

/* Confirms --------------------------------------------------------------------------------------------------------- */

static void one_ack_for_all_and_single_acks_in_reverse_settle_each_message_once(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 30);
    amqp_peer_wait_messages(stage.peer, 30);
    struct amqp_peer_place place = amqp_peer_publisher(stage.peer);
    amqp_peer_ack(stage.peer, place, 10, true);
    for (uint64_t tag = 20; tag > 10; tag--) {
        amqp_peer_ack(stage.peer, place, tag, false);
        amqp_peer_ack(stage.peer, place, tag, false); /* the wire repeats itself */
    }
    amqp_peer_nack(stage.peer, place, 25, true);
    amqp_peer_ack(stage.peer, place, 0, true);
    amqp_peer_ack(stage.peer, place, 0, true);
    outcomes_wait(&outcomes, 30);
    outcomes_are_each_once(&outcomes, 0, 30);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 25);
    assert_int_equal(outcomes_with(&outcomes, CONEY_EREFUSED), 5);
    assert_int_equal(outcomes_of(&outcomes, 10).tag, 19);
    down(&stage, &outcomes, &publisher);
}

static void a_confirm_of_what_was_never_published_ends_the_connection_and_confirms_nothing(void **state)
{
    (void)state;
    static const struct {
        uint64_t tag;
        bool multiple;
    } wild[] = {{0, false}, {4, false}, {4, true}, {UINT64_MAX, true}};
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        struct amqp_stage stage;
        struct outcomes outcomes = {0};
        coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, NULL);
        amqp_publish_numbered(publisher, 0, 3);
        amqp_peer_wait_messages(stage.peer, 3);
        amqp_peer_confirm_by_hand(stage.peer, false);
        amqp_peer_ack(stage.peer, amqp_peer_publisher(stage.peer), wild[i].tag, wild[i].multiple);
        assert_int_equal(events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0).status, CONEY_EPROTOCOL);
        outcomes_wait(&outcomes, 3);
        outcomes_are_in_order(&outcomes, 0, 3);
        assert_int_equal(amqp_peer_message_count(stage.peer), 6);
        down(&stage, &outcomes, &publisher);
    }
}

static void C02_empty_and_full_bodies_have_their_numbers(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, NULL);
    assert_int_equal(publish(publisher, "", 1), CONEY_OK);
    assert_int_equal(publish(publisher, "z", 2), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 2);
    assert_int_equal(amqp_peer_message_of(stage.peer, 0).body.len, 0);
    assert_int_equal(amqp_peer_message_of(stage.peer, 0).tag, 1);
    assert_int_equal(amqp_peer_message_of(stage.peer, 1).tag, 2);
    assert_int_equal(amqp_peer_confirm(stage.peer, 2), 2);
    outcomes_wait(&outcomes, 2);
    outcomes_are_in_order(&outcomes, 1, 2);
    down(&stage, &outcomes, &publisher);
}

struct chatty {
    struct outcomes outcomes;
    coney_amqp_publisher *publisher;
    uint64_t close_at;
    bool closed;
    size_t refused;
};

static void publish_again(void *ctx, const coney_outcome *outcome)
{
    struct chatty *chatty = ctx;
    if (!chatty->closed && outcome->tag == chatty->close_at) {
        coney_amqp_publisher_close(&chatty->publisher, NULL);
        chatty->closed = true;
    } else if (!chatty->closed && outcome->tag < 100) {
        chatty->refused += publish(chatty->publisher, "again", outcome->tag + 100) != CONEY_OK;
    }
    outcomes_add(&chatty->outcomes, outcome);
}

static void J05_ten_callbacks_of_one_ack_may_publish_and_close(void **state)
{
    (void)state;
    for (uint64_t close_at = 0; close_at < 12; close_at += 3) {
        struct amqp_stage stage;
        struct chatty chatty = {.close_at = close_at};
        coney_amqp_publisher_options options = {.routing_key = "q", .on_outcome = publish_again, .ctx = &chatty};
        chatty.publisher = by_hand(&stage, NULL, &options);
        coney_amqp_publisher *mine = chatty.publisher;
        amqp_publish_numbered(mine, 0, 10);
        amqp_peer_wait_messages(stage.peer, 10);
        amqp_peer_confirm_by_hand(stage.peer, false);
        amqp_peer_ack(stage.peer, amqp_peer_publisher(stage.peer), 10, true);
        size_t due = close_at < 10 ? 10 + close_at : 20; /* those before the closing one have published again */
        outcomes_wait(&chatty.outcomes, due);
        if (!chatty.closed)
            amqp_publisher_close(&chatty.publisher);
        coney_amqp_close(&stage.rabbit, NULL);
        assert_int_equal(outcomes_count(&chatty.outcomes), due);
        assert_int_equal(chatty.refused, 0);
        amqp_stage_down(&stage);
        outcomes_free(&chatty.outcomes);
    }
}

/* Returns ---------------------------------------------------------------------------------------------------------- */

static void returns_find_their_messages_whatever_was_confirmed_between(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, NULL);
    for (uint64_t tag = 0; tag < 6; tag++) /* pairs that are alike */
        assert_int_equal(publish(publisher, tag % 2 == 0 ? "even" : "odd", tag), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 6);
    struct amqp_peer_place place = amqp_peer_publisher(stage.peer);
    struct amqp_peer_message odd = amqp_peer_message_of(stage.peer, 1);
    amqp_peer_return(stage.peer, &odd, AMQP_CODE_NO_ROUTE, "NO_ROUTE"); /* 1 */
    amqp_peer_ack(stage.peer, place, 1, false);
    amqp_peer_ack(stage.peer, place, 3, false);
    amqp_peer_return(stage.peer, &odd, AMQP_CODE_NO_ROUTE, "NO_ROUTE"); /* 3 */
    amqp_peer_ack(stage.peer, place, 0, true);
    outcomes_wait(&outcomes, 6);
    outcomes_are_each_once(&outcomes, 0, 6);
    assert_int_equal(outcomes_with(&outcomes, CONEY_ERETURNED), 2);
    for (size_t i = 0; i < 6; i++) {
        struct outcome outcome = outcomes_of(&outcomes, i);
        assert_int_equal(outcome.status, outcome.tag == 1 || outcome.tag == 3 ? CONEY_ERETURNED : CONEY_OK);
        assert_int_equal(outcome.code, outcome.status == CONEY_ERETURNED ? 312 : 0);
    }
    down(&stage, &outcomes, &publisher);
}

static void a_return_that_fits_no_message_is_an_event_and_settles_nothing(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, &(coney_amqp_publisher_options){.name = "till"});
    assert_int_equal(publish(publisher, "mine", 1), CONEY_OK);
    amqp_peer_wait_messages(stage.peer, 1);
    struct amqp_peer_message foreign = amqp_peer_message_of(stage.peer, 0);
    foreign.body = CONEY_STR("other");
    amqp_peer_return(stage.peer, &foreign, AMQP_CODE_NO_ROUTE, "NO_ROUTE");
    struct event event = events_wait(&stage.events, CONEY_EVENT_RETURNED, 0);
    assert_int_equal(event.code, 312);
    assert_non_null(strstr(event.text, "publisher 'till' to queue 'q'"));
    assert_string_equal(event.name, "q");
    assert_int_equal(outcomes_count(&outcomes), 0);
    amqp_peer_confirm(stage.peer, 1);
    outcomes_wait(&outcomes, 1);
    assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_OK);
    down(&stage, &outcomes, &publisher);
}

/* Cuts ------------------------------------------------------------------------------------------------------------- */

static void J06_after_a_cut_the_open_ones_come_again_in_order_and_are_counted_from_one(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 10);
    amqp_peer_wait_messages(stage.peer, 10);
    struct amqp_peer_place place = amqp_peer_publisher(stage.peer);
    amqp_peer_ack(stage.peer, place, 3, true);
    amqp_peer_ack(stage.peer, place, 6, false);
    outcomes_wait(&outcomes, 4);
    amqp_peer_cut(stage.peer, place.connection, PEER_RST);
    events_wait(&stage.events, CONEY_EVENT_DISCONNECTED, 0);
    amqp_publish_numbered(publisher, 10, 2);
    amqp_peer_wait_messages(stage.peer, 18);
    static const char *const again[] = {"m3", "m4", "m6", "m7", "m8", "m9", "m10", "m11"};
    for (size_t i = 0; i < 8; i++) {
        struct amqp_peer_message message = amqp_peer_message_of(stage.peer, 10 + i);
        assert_true(bytes_equal(message.body, coney_bytes_str(again[i])));
        assert_int_equal(message.tag, i + 1);
    }
    amqp_peer_ack(stage.peer, amqp_peer_publisher(stage.peer), 8, true);
    outcomes_wait(&outcomes, 12);
    outcomes_are_each_once(&outcomes, 0, 12);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 12);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_CONFIRM_SELECT), 2);
    uint64_t resent = stats_of(publisher).resent; /* the last two may have gone into the socket before the cut was seen */
    assert_true(resent >= 6 && resent <= 8);
    down(&stage, &outcomes, &publisher);
}

static void J06_a_channel_that_the_broker_closes_begins_its_count_anew(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher_options options = {.no_resend = true};
    coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, &options);
    amqp_publish_numbered(publisher, 0, 5);
    amqp_peer_wait_messages(stage.peer, 5);
    amqp_peer_ack(stage.peer, amqp_peer_publisher(stage.peer), 2, true);
    outcomes_wait(&outcomes, 2);
    amqp_peer_close_channel(stage.peer, amqp_peer_publisher(stage.peer), AMQP_CODE_PRECONDITION_FAILED,
                            "PRECONDITION_FAILED - x");
    outcomes_wait(&outcomes, 5);
    for (size_t i = 2; i < 5; i++)
        assert_int_equal(outcomes_of(&outcomes, i).status, CONEY_EUNKNOWN);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    amqp_publish_numbered(publisher, 5, 1);
    amqp_peer_wait_messages(stage.peer, 6);
    assert_int_equal(amqp_peer_message_of(stage.peer, 5).tag, 1);
    amqp_peer_ack(stage.peer, amqp_peer_publisher(stage.peer), 1, false);
    outcomes_wait(&outcomes, 6);
    outcomes_are_in_order(&outcomes, 0, 6);
    assert_int_equal(outcomes_of(&outcomes, 5).status, CONEY_OK);
    down(&stage, &outcomes, &publisher);
}

static void J07_after_the_end_a_publish_is_an_error_and_leaves_nothing_behind(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_set(&stage);
    stage.options.no_recovery = true;
    amqp_stage_open(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 1);
    outcomes_wait(&outcomes, 1);
    amqp_peer_close_channel(stage.peer, amqp_peer_publisher(stage.peer), AMQP_CODE_NOT_FOUND, "NOT_FOUND - x");
    events_wait(&stage.events, CONEY_EVENT_GAVE_UP, 0);
    size_t due = 1; /* the event comes a moment before the end: what was accepted in it has its outcome */
    coney_status status;
    while ((status = publish(publisher, "x", due)) == CONEY_OK)
        due++;
    assert_int_equal(status, CONEY_ECLOSED);
    outcomes_wait(&outcomes, due);
    coney_amqp_publisher_stats before = stats_of(publisher);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(publish(publisher, "x", due + i), CONEY_ECLOSED);
    assert_int_equal(stats_of(publisher).accepted, before.accepted);
    while (stats_of(publisher).pending > 0) /* it is counted once the handler of the last outcome has returned */
        sched_yield();
    coney_amqp_publisher_close(&publisher, NULL);
    outcomes_are_each_once(&outcomes, 0, due);
    down(&stage, &outcomes, NULL);
}

static void K05_what_is_published_into_a_link_that_the_broker_has_dropped_is_sent_again(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    for (uint64_t i = 0; i < 10; i++) {
        amqp_peer_cut(stage.peer, amqp_peer_publisher(stage.peer).connection, i % 2 == 0 ? PEER_FIN : PEER_RST);
        amqp_publish_numbered(publisher, i, 1); /* the socket may still take it */
        outcomes_wait(&outcomes, i + 1);
    }
    outcomes_are_in_order(&outcomes, 0, 10);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 10);
    down(&stage, &outcomes, &publisher);
}

static void C12_a_message_that_the_broker_will_not_take_is_refused_alone_or_leaves_all_unknown(void **state)
{
    (void)state;
    static const char words[] = "PRECONDITION_FAILED - message size 17000000 is larger than configured max size 16777216";
    for (int no_resend = 0; no_resend < 2; no_resend++) {
        struct amqp_stage stage;
        struct outcomes outcomes = {0}, others = {0};
        coney_amqp_publisher_options options = {.no_resend = no_resend != 0};
        coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, &options);
        coney_amqp_publisher *other = amqp_stage_publisher(&stage, &others, NULL);
        struct amqp_peer_place of_other = amqp_peer_publisher(stage.peer);
        amqp_publish_numbered(publisher, 0, 5);
        amqp_peer_wait_messages(stage.peer, 5);
        amqp_peer_confirm_by_hand(stage.peer, false);
        amqp_peer_refuse(stage.peer, AMQP_BASIC_PUBLISH, 3, AMQP_CODE_PRECONDITION_FAILED, words);
        struct amqp_peer_message message = amqp_peer_message_of(stage.peer, 0);
        amqp_peer_close_channel(stage.peer, (struct amqp_peer_place){message.connection, message.channel},
                                AMQP_CODE_PRECONDITION_FAILED, words);
        outcomes_wait(&outcomes, 5);
        outcomes_are_in_order(&outcomes, 0, 5);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(outcomes_of(&outcomes, i).status, no_resend ? CONEY_EUNKNOWN : i == 2 ? CONEY_EREFUSED : CONEY_OK);
        assert_true(events_say(&stage.events, "larger than configured max size"));
        if (no_resend)
            amqp_peer_by_default(stage.peer, AMQP_BASIC_PUBLISH);
        amqp_publish_numbered(other, 0, 1);
        outcomes_wait(&others, 1);
        assert_int_equal(amqp_peer_publisher(stage.peer).connection, of_other.connection);
        amqp_publisher_close(&other);
        down(&stage, &outcomes, &publisher);
        outcomes_free(&others);
    }
}

static void a_message_that_is_alone_when_the_channel_is_closed_is_refused_also_where_nothing_is_sent_again(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher_options options = {.no_resend = true};
    coney_amqp_publisher *publisher = by_hand(&stage, &outcomes, &options);
    amqp_publish_numbered(publisher, 0, 2);
    amqp_peer_wait_messages(stage.peer, 2);
    amqp_peer_ack(stage.peer, amqp_peer_publisher(stage.peer), 1, false);
    amqp_peer_close_channel(stage.peer, amqp_peer_publisher(stage.peer), AMQP_CODE_NOT_FOUND, "NOT_FOUND - no exchange 'x'");
    outcomes_wait(&outcomes, 2);
    outcomes_are_in_order(&outcomes, 0, 2);
    assert_int_equal(outcomes_of(&outcomes, 1).status, CONEY_EREFUSED);
    assert_int_equal(outcomes_of(&outcomes, 1).code, 404);
    assert_int_equal(stats_of(publisher).refused, 1);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(amqp_peer_message_count(stage.peer), 2);
    down(&stage, &outcomes, &publisher);
}

/* What is on the wire ------------------------------------------------------------------------------------------------ */

static void O02_a_priority_of_zero_and_none_differ_on_the_wire(void **state)
{
    (void)state;
    static const uint8_t priorities[] = {0, 9, 10, 255};
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    assert_int_equal(publish(publisher, "x", 0), CONEY_OK);
    for (size_t i = 0; i < 4; i++) {
        coney_amqp_message message = {.body = CONEY_STR("x"), .has_priority = true, .priority = priorities[i]};
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
    outcomes_wait(&outcomes, 5);
    for (size_t i = 0; i < 5; i++) {
        struct amqp_properties properties;
        assert_null(amqp_properties_read(amqp_peer_message_of(stage.peer, i).properties, &properties));
        assert_int_equal((properties.flags & AMQP_PRIORITY) != 0, i > 0);
        assert_int_equal(properties.priority, i > 0 ? priorities[i - 1] : 0);
        assert_int_equal(properties.delivery_mode, AMQP_PERSISTENT);
    }
    down(&stage, &outcomes, &publisher);
}

static void an_address_and_a_content_type_of_a_messages_own_are_what_arrives(void **state)
{
    (void)state;
    enum { LARGE = 200000, CASES = 7 };
    static char large[LARGE];
    static char longest[256 + 1];
    memset(longest, 'k', 255);
    const struct {
        coney_bytes exchange, routing_key, type, body;
    } cases[CASES] = {
        {.exchange = CONEY_STR("other")},
        {.routing_key = CONEY_STR("a.b")},
        {.exchange = CONEY_STR(""), .routing_key = CONEY_STR("queue"), .type = CONEY_STR("application/json")},
        {.exchange = CONEY_STR("other"), .routing_key = coney_bytes_of(longest, 255), .type = coney_bytes_of(longest, 255)},
        {.routing_key = CONEY_STR(""), .body = CONEY_STR("body")},
        {.routing_key = CONEY_STR("big"), .type = CONEY_STR("t"), .body = coney_bytes_of(large, LARGE)},
        {.type = CONEY_STR("text/plain"), .body = CONEY_STR("b")},
    };
    for (int transient = 0; transient < 2; transient++) {
        struct amqp_stage stage;
        struct outcomes outcomes = {0};
        amqp_stage_up(&stage);
        coney_amqp_publisher_options options = {
            .exchange = "its own", .routing_key = "key", .transient = transient != 0, .drop_unroutable = transient != 0};
        coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, &options);
        coney_amqp_message batch[CASES];
        for (size_t i = 0; i < CASES; i++) {
            batch[i] = (coney_amqp_message){.exchange = cases[i].exchange,
                                            .routing_key = cases[i].routing_key,
                                            .content_type = cases[i].type,
                                            .body = cases[i].body,
                                            .tag = i};
            assert_int_equal(coney_amqp_publish(publisher, &batch[i]), CONEY_OK);
            batch[i].tag = CASES + i;
        }
        assert_int_equal(coney_amqp_publish_batch(publisher, batch, CASES, NULL), CONEY_OK);
        coney_amqp_message bad = {.routing_key = coney_bytes_of(longest, 256), .body = CONEY_STR("x")};
        assert_int_equal(coney_amqp_publish(publisher, &bad), CONEY_EINVAL);
        assert_int_equal(coney_amqp_publish_batch(publisher, &bad, 1, NULL), CONEY_EINVAL);
        outcomes_wait(&outcomes, 2 * CASES);
        outcomes_are_in_order(&outcomes, 0, 2 * CASES);
        for (size_t i = 0; i < 2 * CASES; i++) {
            const coney_amqp_message *sent = &batch[i % CASES];
            struct amqp_peer_message message = amqp_peer_message_of(stage.peer, i);
            struct amqp_properties properties;
            assert_null(amqp_properties_read(message.properties, &properties));
            assert_true(bytes_equal(message.exchange, sent->exchange.data != NULL ? sent->exchange : CONEY_STR("its own")));
            assert_true(
                bytes_equal(message.routing_key, sent->routing_key.data != NULL ? sent->routing_key : CONEY_STR("key")));
            assert_true(bytes_equal(properties.content_type, sent->content_type));
            assert_int_equal(properties.delivery_mode, transient ? 0 : AMQP_PERSISTENT);
            assert_true(bytes_equal(message.body, sent->body));
            assert_int_equal(message.mandatory, !transient);
        }
        down(&stage, &outcomes, &publisher);
    }
}

static void C11_what_brokers_do_not_implement_is_never_asked_for(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    for (unsigned i = 0; i < 4; i++) {
        coney_amqp_message message = {.body = CONEY_STR("x"), .transient = i % 2 == 1, .drop_unroutable = i >= 2};
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
    outcomes_wait(&outcomes, 4);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    for (size_t i = 0; i < 4; i++) {
        struct amqp_properties properties;
        const struct amqp_basic_publish *method = &amqp_peer_record_of(stage.peer, AMQP_BASIC_PUBLISH, i)->method.basic_publish;
        assert_false(method->immediate);
        assert_int_equal(method->mandatory, i < 2);
        assert_null(amqp_properties_read(amqp_peer_message_of(stage.peer, i).properties, &properties));
        assert_int_equal(properties.delivery_mode, i % 2 == 0 ? AMQP_PERSISTENT : 0);
    }
    const struct amqp_basic_qos *qos = &amqp_peer_record_of(stage.peer, AMQP_BASIC_QOS, 0)->method.basic_qos;
    assert_int_equal(qos->prefetch_size, 0);
    assert_int_equal(qos->prefetch_count, 256);
    assert_false(qos->global);
    warren_close_consumer(&consumer);
    down(&stage, &outcomes, &publisher);
    parcels_free(&parcels);
}

/* Pressure --------------------------------------------------------------------------------------------------------- */

static void F08_large_messages_to_a_slow_reader_arrive_byte_for_byte(void **state)
{
    (void)state;
    enum { COUNT = 12, SIZE = 1 << 20 };
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    int connection = amqp_peer_publisher(stage.peer).connection;
    uint8_t *bodies[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        struct dice dice = {i};
        bodies[i] = malloc(SIZE);
        assert_non_null(bodies[i]);
        for (size_t at = 0; at < SIZE; at += 8)
            store64(bodies[i] + at, dice_roll(&dice, UINT64_MAX));
    }
    amqp_peer_stop_reading(stage.peer, connection, true);
    for (size_t i = 0; i < COUNT; i++) {
        coney_amqp_message message = {.body = coney_bytes_of(bodies[i], SIZE - i), .tag = i};
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
        amqp_peer_stop_reading(stage.peer, connection, i % 2 == 0);
    }
    amqp_peer_stop_reading(stage.peer, connection, false);
    outcomes_wait(&outcomes, COUNT);
    outcomes_are_in_order(&outcomes, 0, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(bytes_equal(amqp_peer_message_of(stage.peer, i).body, coney_bytes_of(bodies[i], SIZE - i)));
        free(bodies[i]);
    }
    down(&stage, &outcomes, &publisher);
}

static void D11_a_full_socket_is_told_at_once_to_a_publisher_that_does_not_wait(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    coney_amqp_publisher_options options = {.enqueue_timeout = CONEY_OFF, .max_bytes = 8 << 20};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, &options);
    int connection = amqp_peer_publisher(stage.peer).connection;
    static char body[100000];
    coney_amqp_message message = {.body = coney_bytes_of(body, sizeof body)};
    amqp_peer_stop_reading(stage.peer, connection, true);
    size_t accepted = 0;
    coney_status status;
    while ((status = coney_amqp_publish(publisher, &message)) == CONEY_OK)
        accepted++;
    assert_int_equal(status, CONEY_EAGAIN);
    assert_true(accepted >= 80 && accepted < 90);
    amqp_peer_stop_reading(stage.peer, connection, false);
    outcomes_wait(&outcomes, accepted);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), accepted);
    down(&stage, &outcomes, &publisher);
}

static void a_blocked_connection_publishes_nothing_until_it_is_unblocked_and_consuming_goes_on(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    int connection = amqp_peer_publisher(stage.peer).connection;
    amqp_peer_send(
        stage.peer, connection, 0,
        &(struct amqp_method){.id = AMQP_CONNECTION_BLOCKED, .connection_blocked = {.reason = CONEY_STR("low on memory")}});
    assert_says(events_wait(&stage.events, CONEY_EVENT_BLOCKED, 0).text, "low on memory");
    amqp_publish_numbered(publisher, 0, 10);
    amqp_peer_feed(stage.peer, "q", 100);
    amqp_peer_wait_feed_done(stage.peer, 100);
    assert_int_equal(amqp_peer_message_count(stage.peer), 0);
    amqp_peer_send(stage.peer, connection, 0, &(struct amqp_method){.id = AMQP_CONNECTION_UNBLOCKED});
    outcomes_wait(&outcomes, 10);
    outcomes_are_in_order(&outcomes, 0, 10);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_UNBLOCKED), 1);
    warren_close_consumer(&consumer);
    down(&stage, &outcomes, &publisher);
    parcels_free(&parcels);
}

static void a_channel_that_is_told_to_stop_publishes_nothing_until_it_may(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    struct amqp_peer_place place = amqp_peer_publisher(stage.peer);
    struct amqp_method flow = {.id = AMQP_CHANNEL_FLOW, .channel_flow = {.active = false}};
    amqp_peer_send(stage.peer, place.connection, place.channel, &flow);
    assert_false(amqp_peer_expect(stage.peer, AMQP_CHANNEL_FLOW_OK)->method.channel_flow.active);
    amqp_publish_numbered(publisher, 0, 10);
    coney_call call = {0};
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    assert_int_equal(amqp_peer_message_count(stage.peer), 0);
    flow.channel_flow.active = true;
    amqp_peer_send(stage.peer, place.connection, place.channel, &flow);
    outcomes_wait(&outcomes, 10);
    outcomes_are_in_order(&outcomes, 0, 10);
    assert_true(amqp_peer_expect(stage.peer, AMQP_CHANNEL_FLOW_OK)->method.channel_flow.active);
    down(&stage, &outcomes, &publisher);
}

/* Callbacks -------------------------------------------------------------------------------------------------------- */

/* Ends the publisher, or the whole environment, inside the first callback that fits. */
struct ending {
    struct amqp_stage stage;
    struct outcomes outcomes;
    coney_amqp_publisher *publisher;
    struct waited_call closing;
    const struct ending_case *at;
    bool whole;
    bool done;
    _Atomic bool armed; /* `publisher` is there */
};

struct ending_case {
    coney_status outcome;   /* CONEY_EINVAL: at none */
    coney_event_type event; /* 0: at none */
    bool writable;
    void (*provoke)(struct ending *ending);
    bool no_resend;
};

static void end_when(struct ending *ending, bool fits)
{
    if (!fits || !ending->armed || ending->done)
        return;
    ending->done = true;
    coney_call *call = &ending->closing.call;
    coney_status status =
        ending->whole ? coney_amqp_close(&ending->stage.rabbit, call) : coney_amqp_publisher_close(&ending->publisher, call);
    assert_int_equal(status, CONEY_OK);
}

static void end_at_outcome(void *ctx, const coney_outcome *outcome)
{
    struct ending *ending = ctx;
    outcomes_add(&ending->outcomes, outcome);
    end_when(ending, outcome->status == ending->at->outcome);
}

static void end_when_writable(void *ctx)
{
    struct ending *ending = ctx;
    end_when(ending, ending->at->writable);
}

static void end_at_event(void *ctx, const coney_event *event)
{
    struct ending *ending = ctx;
    events_add(&ending->stage.events, event);
    end_when(ending, event->type == ending->at->event);
}

static void provoke_confirm(struct ending *ending)
{
    amqp_peer_ack(ending->stage.peer, amqp_peer_publisher(ending->stage.peer), 4, true);
}

static void provoke_nack(struct ending *ending)
{
    amqp_peer_nack(ending->stage.peer, amqp_peer_publisher(ending->stage.peer), 4, true);
}

static void provoke_return(struct ending *ending)
{
    struct amqp_peer_message message = amqp_peer_message_of(ending->stage.peer, 2);
    amqp_peer_return(ending->stage.peer, &message, AMQP_CODE_NO_ROUTE, "NO_ROUTE");
}

static void provoke_close(struct ending *ending)
{
    amqp_peer_refuse(ending->stage.peer, AMQP_BASIC_PUBLISH, 2, AMQP_CODE_NOT_FOUND, "NOT_FOUND - x");
    amqp_peer_close_channel(ending->stage.peer, amqp_peer_publisher(ending->stage.peer), AMQP_CODE_NOT_FOUND, "NOT_FOUND - x");
}

static void provoke_cut(struct ending *ending)
{
    amqp_peer_cut(ending->stage.peer, amqp_peer_publisher(ending->stage.peer).connection, PEER_RST);
}

static void provoke_nonsense(struct ending *ending)
{
    amqp_peer_ack(ending->stage.peer, amqp_peer_publisher(ending->stage.peer), 77, true);
}

static const struct ending_case endings[] = {
    {.outcome = CONEY_OK, .provoke = provoke_confirm},
    {.outcome = CONEY_EINVAL, .writable = true, .provoke = provoke_confirm},
    {.outcome = CONEY_EREFUSED, .provoke = provoke_nack},
    {.outcome = CONEY_ERETURNED, .provoke = provoke_return},
    {.outcome = CONEY_EREFUSED, .provoke = provoke_close},
    {.outcome = CONEY_EUNKNOWN, .provoke = provoke_close, .no_resend = true},
    {.outcome = CONEY_EUNKNOWN, .provoke = provoke_cut, .no_resend = true},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_CHANNEL_CLOSED, .provoke = provoke_close},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_RECOVERING, .provoke = provoke_close},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_RECOVERED, .provoke = provoke_close},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_DISCONNECTED, .provoke = provoke_cut},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_RECOVERING, .provoke = provoke_cut},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_CONNECTED, .provoke = provoke_cut},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_RECOVERED, .provoke = provoke_cut},
    {.outcome = CONEY_EINVAL, .event = CONEY_EVENT_DISCONNECTED, .provoke = provoke_nonsense},
};

static void end_inside(const struct ending_case *at, bool whole)
{
    struct ending ending = {.at = at, .whole = whole};
    waited_call_of(&ending.closing, 0);
    amqp_stage_set(&ending.stage);
    ending.stage.options.on_event = end_at_event;
    ending.stage.options.event_ctx = &ending;
    amqp_stage_open(&ending.stage);
    amqp_peer_confirm_by_hand(ending.stage.peer, true);
    coney_amqp_publisher_options options = {.routing_key = "q",
                                            .on_outcome = end_at_outcome,
                                            .on_writable = end_when_writable,
                                            .ctx = &ending,
                                            .max_messages = 4,
                                            .enqueue_timeout = CONEY_OFF,
                                            .no_resend = at->no_resend};
    coney_amqp_publisher *publisher = amqp_stage_publisher(&ending.stage, NULL, &options);
    amqp_publish_numbered(publisher, 0, 4);
    assert_int_equal(publish(publisher, "too many", 4), CONEY_EAGAIN);
    amqp_peer_wait_messages(ending.stage.peer, 4);
    amqp_peer_confirm_by_hand(ending.stage.peer, at->provoke == provoke_nack || at->provoke == provoke_return);
    ending.publisher = publisher;
    ending.armed = true;
    at->provoke(&ending);
    if (at->provoke == provoke_return)
        amqp_peer_confirm(ending.stage.peer, 4);
    assert_int_equal(waited_call_wait(&ending.closing), CONEY_OK);
    outcomes_are_each_once(&ending.outcomes, 0, 4);
    amqp_stage_down(&ending.stage);
    waited_call_free(&ending.closing);
    outcomes_free(&ending.outcomes);
}

static void a_publisher_and_its_environment_may_be_closed_inside_any_callback(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        end_inside(&endings[i], false);
        end_inside(&endings[i], true);
    }
}

static void J08_a_handler_that_stands_still_holds_up_no_confirms_and_no_close(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    struct parcels stuck = {.closed_gate = true}, parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer_options no_limit = {.prefetch = CONEY_OFF, .max_queued = 64 * 1024};
    coney_amqp_consumer *slow = amqp_stage_consumer(&stage, "slow", &stuck, &no_limit);
    amqp_peer_feed(stage.peer, "slow", 5000);
    parcels_wait_at_gate(&stuck);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    amqp_publish_numbered(publisher, 0, 1000);
    outcomes_wait(&outcomes, 1000);
    amqp_publisher_close(&publisher);
    struct waited_call closing = {0};
    assert_int_equal(coney_amqp_consumer_close(&slow, waited_call_of(&closing, 0)), CONEY_OK);
    assert_false(waited_call_reach(&closing, 30));
    parcels_open_gate(&stuck);
    assert_int_equal(waited_call_wait(&closing), CONEY_OK);
    assert_true(parcels_count(&stuck) < 5000);
    waited_call_free(&closing);
    down(&stage, &outcomes, NULL);
    parcels_free(&stuck);
    parcels_free(&parcels);
}

static coney_settle nonsense(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    (void)ctx;
    (void)delivery;
    return nth == 0 ? -99 : nth == 1 ? CONEY_KEPT : CONEY_ACK;
}

static void J09_a_handler_that_answers_nonsense_is_told_of_and_the_others_go_on(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    struct parcels parcels = {.decide = nonsense};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    amqp_peer_feed(stage.peer, "q", 10);
    amqp_peer_wait_feed_done(stage.peer, 10);
    assert_int_equal(parcels_count(&parcels), 12); /* the two were given back, and came again */
    assert_int_equal(amqp_peer_deliveries(stage.peer, AMQP_PEER_REQUEUED), 2);
    warren_close_consumer(&consumer);
    down(&stage, &outcomes, NULL);
    parcels_free(&parcels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_ack_for_all_and_single_acks_in_reverse_settle_each_message_once),
        cmocka_unit_test(a_confirm_of_what_was_never_published_ends_the_connection_and_confirms_nothing),
        cmocka_unit_test(C02_empty_and_full_bodies_have_their_numbers),
        cmocka_unit_test(an_address_and_a_content_type_of_a_messages_own_are_what_arrives),
        cmocka_unit_test(C11_what_brokers_do_not_implement_is_never_asked_for),
        cmocka_unit_test(C12_a_message_that_the_broker_will_not_take_is_refused_alone_or_leaves_all_unknown),
        cmocka_unit_test(a_message_that_is_alone_when_the_channel_is_closed_is_refused_also_where_nothing_is_sent_again),
        cmocka_unit_test(D11_a_full_socket_is_told_at_once_to_a_publisher_that_does_not_wait),
        cmocka_unit_test(F08_large_messages_to_a_slow_reader_arrive_byte_for_byte),
        cmocka_unit_test(J05_ten_callbacks_of_one_ack_may_publish_and_close),
        cmocka_unit_test(J06_after_a_cut_the_open_ones_come_again_in_order_and_are_counted_from_one),
        cmocka_unit_test(J06_a_channel_that_the_broker_closes_begins_its_count_anew),
        cmocka_unit_test(J07_after_the_end_a_publish_is_an_error_and_leaves_nothing_behind),
        cmocka_unit_test(a_publisher_and_its_environment_may_be_closed_inside_any_callback),
        cmocka_unit_test(J08_a_handler_that_stands_still_holds_up_no_confirms_and_no_close),
        cmocka_unit_test(J09_a_handler_that_answers_nonsense_is_told_of_and_the_others_go_on),
        cmocka_unit_test(K05_what_is_published_into_a_link_that_the_broker_has_dropped_is_sent_again),
        cmocka_unit_test(O02_a_priority_of_zero_and_none_differ_on_the_wire),
        cmocka_unit_test(returns_find_their_messages_whatever_was_confirmed_between),
        cmocka_unit_test(a_return_that_fits_no_message_is_an_event_and_settles_nothing),
        cmocka_unit_test(a_blocked_connection_publishes_nothing_until_it_is_unblocked_and_consuming_goes_on),
        cmocka_unit_test(a_channel_that_is_told_to_stop_publishes_nothing_until_it_may),
    };
    return run_tests(tests);
}
