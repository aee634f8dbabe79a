/* Services over AMQP on a real node: what comes, from which queue; bindings; settlements and attempts; prefetch; how subscriptions end and come back. */
#define _GNU_SOURCE
#include "amqp_rig.h"
#include "amqp_scene.h"
#include "scene.h"
#include "scissors.h"

#include "base/bytes.h"

static struct node node;

static void up(struct rig *rig)
{
    const char *uri = amqp_uri(node.amqp_port);
    rig_up(rig, uri);
    rig_see(rig, uri);
}

/* What comes --------------------------------------------------------------------------------------------------------------- */

static coney_settle see_everything(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)nth;
    const struct transport *transport = m->feed->transport;
    coney_delivery_info info = {0};
    coney_value colour = coney_value_null();
    transport->info(m, &info);
    coney_bytes type = transport->content_type(m);
    coney_bytes header_key = transport->key(m, "colour");
    bool found = transport->header(m, CONEY_STR("colour"), &colour);
    monitor_lock(&inbox->monitor);
    char *text = inbox->ctx;
    snprintf(text, 600, "%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%lld|%lld|%d", (int)type.len, (const char *)type.data,
             (int)info.source.len, (const char *)info.source.data, (int)info.correlation_id.len,
             (const char *)info.correlation_id.data, (int)info.message_id.len, (const char *)info.message_id.data,
             (int)info.type.len, (const char *)info.type.data, (int)info.reply_to.len, (const char *)info.reply_to.data,
             (int)info.key.len, (const char *)info.key.data, (int)header_key.len, (const char *)header_key.data,
             found ? (int)colour.as.bytes.len : 0, (const char *)colour.as.bytes.data,
             (long long)(info.expiration / CONEY_MILLISECOND), (long long)info.timestamp,
             info.has_priority ? info.priority : -1);
    inbox->ended++;
    monitor_broadcast(&inbox->monitor);
    monitor_unlock(&inbox->monitor);
    return CONEY_ACK;
}

static void a_message_arrives_with_all_that_it_was_published_with(void **state)
{
    (void)state;
    char seen[600], expected[600];
    struct rig rig;
    struct inbox inbox = {.decide = see_everything, .ctx = seen};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
    rig_start(&rig);
    coney_field colour = {CONEY_STR("colour"), coney_value_string(CONEY_STR("red"))};
    struct outgoing message = {.to = coney_bytes_str(rig.queue),
                               .body = CONEY_STR("m0"),
                               .content_type = CONEY_STR("application/json"),
                               .correlation_id = CONEY_STR("c-1"),
                               .reply_to = CONEY_STR("back"),
                               .message_id = CONEY_STR("id-1"),
                               .type = CONEY_STR("order"),
                               .key = CONEY_STR("k-7"),
                               .headers = &colour,
                               .header_count = 1,
                               .expiration = 60 * CONEY_SECOND - 1,
                               .timestamp = 1700000000000,
                               .priority = 3,
                               .has_priority = true};
    assert_int_equal(rig_publish_message(&rig, &message), CONEY_OK);
    inbox_wait_for(&inbox, &inbox.ended, 1);
    snprintf(expected, sizeof expected, "application/json|%s|c-1|id-1|order|back|k-7|red|red|60000|1700000000000|3", rig.queue);
    assert_string_equal(seen, expected);
    assert_true(rig.transport->connected(rig.broker->self));
    rig_down(&rig);
    inbox_free(&inbox);
}

static void a_message_without_a_key_has_its_routing_key_for_one_and_no_type(void **state)
{
    (void)state;
    char seen[600], expected[600];
    struct rig rig;
    struct inbox inbox = {.decide = see_everything, .ctx = seen};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
    rig_start(&rig);
    rig_publish(&rig, rig.queue, "m0");
    inbox_wait_for(&inbox, &inbox.ended, 1);
    snprintf(expected, sizeof expected, "|%s|||||%s|||0|0|-1", rig.queue, rig.queue);
    assert_string_equal(seen, expected);
    rig_down(&rig);
    inbox_free(&inbox);
}

static void more_headers_than_have_room_at_hand_go_with_the_key(void **state)
{
    (void)state;
    char seen[600];
    struct rig rig;
    struct inbox inbox = {.decide = see_everything, .ctx = seen};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
    rig_start(&rig);
    char names[40][8];
    coney_field fields[40];
    for (size_t i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "h%zu", i);
        fields[i] = (coney_field){coney_bytes_str(names[i]), coney_value_i64((int64_t)i)};
    }
    fields[39] = (coney_field){CONEY_STR("colour"), coney_value_string(CONEY_STR("blue"))};
    struct outgoing message = {.to = coney_bytes_str(rig.queue),
                               .body = CONEY_STR("m0"),
                               .key = CONEY_STR("k-7"),
                               .headers = fields,
                               .header_count = 40};
    assert_int_equal(rig_publish_message(&rig, &message), CONEY_OK);
    inbox_wait_for(&inbox, &inbox.ended, 1);
    assert_non_null(strstr(seen, "|k-7|blue|blue|"));
    rig_down(&rig);
    inbox_free(&inbox);
}

/* Bindings ----------------------------------------------------------------------------------------------------------------- */

static void publish_to(struct rig *rig, const char *exchange, const char *key, const char *body, const coney_field *headers)
{
    struct outcomes outcomes = {0};
    struct outlet_options options = {
        .name = "e", .exchange = exchange, .outcome = outcomes_add, .ctx = &outcomes, .drop_unroutable = true};
    struct outlet *outlet = rig_outlet(rig, &options);
    struct outgoing message = {
        .to = coney_bytes_str(key), .body = coney_bytes_str(body), .headers = headers, .header_count = headers != NULL ? 1 : 0};
    assert_int_equal(rig->transport->publish(outlet, &message, 0), CONEY_OK);
    outcomes_wait(&outcomes, 1);
    assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_OK);
    rig_close_outlet(rig, &outlet);
    outcomes_free(&outcomes);
}

static void bound_queues_get_what_their_bindings_say(void **state)
{
    (void)state;
    char topic[80], direct[80], fanout[80], headers[80];
    struct rig rig;
    struct inbox inbox = {0};
    up(&rig);
    fresh_name(topic, sizeof topic, "topic");
    fresh_name(direct, sizeof direct, "direct");
    fresh_name(fanout, sizeof fanout, "fanout");
    fresh_name(headers, sizeof headers, "headers");
    const coney_field match[] = {{CONEY_STR("x-match"), coney_value_string(CONEY_STR("all"))},
                                 {CONEY_STR("colour"), coney_value_string(CONEY_STR("red"))}};
    const coney_field red = {CONEY_STR("colour"), coney_value_string(CONEY_STR("red"))};
    const coney_field blue = {CONEY_STR("colour"), coney_value_string(CONEY_STR("blue"))};
    rig_add(&rig, &inbox,
            &(coney_subscription){
                .source = CONEY_QUEUE(rig.queue, .declare = true,
                                      .bindings = CONEY_BINDINGS(
                                          {.exchange = topic, .type = "topic", .key = "order.*.eu"},
                                          {.exchange = direct, .type = "direct", .key = "this"},
                                          {.exchange = fanout, .type = "fanout"},
                                          {.exchange = headers, .type = "headers", .arguments = match, .argument_count = 2},
                                          {.exchange = "amq.topic", .type = "topic", .key = rig.other}))});
    rig_start(&rig);
    publish_to(&rig, topic, "order.made.us", "no", NULL);
    publish_to(&rig, topic, "order.made.eu", "topic", NULL);
    publish_to(&rig, direct, "that", "no", NULL);
    publish_to(&rig, direct, "this", "direct", NULL);
    publish_to(&rig, fanout, "whatever", "fanout", NULL);
    publish_to(&rig, headers, "", "no", &blue);
    publish_to(&rig, headers, "", "headers", &red);
    publish_to(&rig, "amq.topic", rig.other, "own", NULL);
    static const char *const expected[] = {"topic", "direct", "fanout", "headers", "own"};
    inbox_wait(&inbox, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(inbox_of(&inbox, i).body, expected[i]);
    rig_wait_for_ready(&rig, rig.queue, 0);
    assert_int_equal(inbox_count(&inbox), 5);
    const char *const exchanges[] = {topic, direct, fanout, headers};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(coney_amqp_exchange_delete(rig.outside, exchanges[i], 0, NULL), CONEY_OK);
    rig_down(&rig);
    inbox_free(&inbox);
}

static void a_queue_that_the_broker_names_gets_what_it_is_bound_to_and_goes_with_the_service(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inboxes[2] = {0};
    up(&rig);
    for (int i = 0; i < 2; i++)
        rig_add(&rig, &inboxes[i],
                &(coney_subscription){
                    .source = CONEY_QUEUE(NULL, .declare = true,
                                          .bindings = CONEY_BINDINGS({.exchange = "amq.direct", .key = rig.queue}))});
    for (int round = 0; round < 2; round++) { /* and again after a stop */
        rig_start(&rig);
        publish_to(&rig, "amq.direct", rig.queue, "m0", NULL);
        for (int i = 0; i < 2; i++)
            inbox_wait(&inboxes[i], (size_t)round + 1);
        rig_stop(&rig);
    }
    rig_start(&rig);
    rig_down(&rig);
    for (int i = 0; i < 2; i++)
        inbox_free(&inboxes[i]);
}

/* Settlements and attempts -------------------------------------------------------------------------------------------------- */

static coney_settle requeue(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)inbox;
    (void)m;
    (void)nth;
    return CONEY_REQUEUE;
}

static void a_quorum_queue_counts_attempts_and_dead_letters_beyond_its_limit(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {.decide = requeue};
    up(&rig);
    coney_amqp_queue dead = {.name = rig.other};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &dead, NULL), CONEY_OK);
    rig_add(&rig, &inbox,
            &(coney_subscription){.source =
                                      CONEY_QUEUE(rig.queue, .declare = true, .type = CONEY_QUEUE_QUORUM, .delivery_limit = 2),
                                  .max_attempts = 3,
                                  .dead_letter = rig.other});
    rig_start(&rig);
    assert_true(rig.feeds[0]->counts);
    rig_publish(&rig, rig.queue, "m0");
    rig_wait_for_ready(&rig, rig.other, 1);
    assert_int_equal(inbox_count(&inbox), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(inbox_of(&inbox, i).attempt, i + 1);
    rig_down(&rig);
    inbox_free(&inbox);
}

static coney_settle requeue_once(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)inbox;
    (void)m;
    return nth == 0 ? CONEY_REQUEUE : CONEY_ACK;
}

static void a_classic_queue_says_only_that_a_message_comes_again(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {.decide = requeue_once};
    up(&rig);
    rig_add(&rig, &inbox,
            &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .type = CONEY_QUEUE_CLASSIC)});
    rig_start(&rig);
    assert_false(rig.feeds[0]->counts);
    rig_publish(&rig, rig.queue, "m0");
    inbox_wait(&inbox, 2);
    assert_int_equal(inbox_of(&inbox, 0).attempt, 1);
    assert_false(inbox_of(&inbox, 0).redelivered);
    assert_int_equal(inbox_of(&inbox, 1).attempt, 2);
    assert_true(inbox_of(&inbox, 1).redelivered);
    rig_down(&rig);
    inbox_free(&inbox);
}

static coney_settle reject(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)inbox;
    (void)m;
    (void)nth;
    return CONEY_REJECT;
}

static void a_rejected_message_goes_where_the_queue_says(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {.decide = reject};
    up(&rig);
    coney_amqp_queue dead = {.name = rig.other};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &dead, NULL), CONEY_OK);
    rig_add(&rig, &inbox,
            &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .dead_letter_exchange = "",
                                                        .dead_letter_routing_key = rig.other)});
    rig_start(&rig);
    rig_publish(&rig, rig.queue, "m0");
    rig_wait_for_ready(&rig, rig.other, 1);
    rig_down(&rig);
    inbox_free(&inbox);
}

struct shelf {
    struct incoming kept[64];
    size_t count;
};

static coney_settle keep(struct inbox *inbox, struct incoming *m, size_t nth)
{
    struct shelf *shelf = inbox->ctx;
    assert_true(nth < 64);
    assert_true(m->feed->transport->keep(m));
    monitor_lock(&inbox->monitor);
    shelf->kept[shelf->count++] = *m;
    monitor_broadcast(&inbox->monitor);
    monitor_unlock(&inbox->monitor);
    return CONEY_KEPT;
}

static void no_more_come_than_the_prefetch_and_what_is_kept_goes_back_at_the_end(void **state)
{
    (void)state;
    struct rig rig;
    struct shelf shelf = {.count = 0};
    struct inbox inbox = {.decide = keep, .ctx = &shelf};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .prefetch = 7)});
    rig_start(&rig);
    for (int i = 0; i < 20; i++)
        rig_publish(&rig, rig.queue, "m");
    inbox_wait_for(&inbox, &shelf.count, 7);
    assert_false(inbox_reach(&inbox, 8, 100));
    assert_int_equal(rig.transport->settle(&shelf.kept[0], CONEY_ACK), CONEY_OK);
    assert_int_equal(rig.transport->settle(&shelf.kept[3], CONEY_ACK), CONEY_OK);
    inbox_wait_for(&inbox, &shelf.count, 9);
    rig_unsubscribe(&rig);
    rig_wait_for_ready(&rig, rig.queue, 18);
    coney_delivery_info info = {0};
    rig.transport->info(&shelf.kept[5], &info);
    assert_true(rig.transport->attempt(&shelf.kept[5]) == 1);
    assert_true(bytes_equal(info.source, coney_bytes_str(rig.queue)));
    for (size_t i = 0; i < shelf.count; i++)
        if (shelf.kept[i].kept != NULL)
            assert_int_equal(rig.transport->settle(&shelf.kept[i], CONEY_ACK), CONEY_ECLOSED);
    rig_down(&rig);
    inbox_free(&inbox);
}

/* Stream queues -------------------------------------------------------------------------------------------------------------- */

static coney_settle third_time(struct inbox *inbox, struct incoming *m, size_t nth)
{
    (void)inbox;
    (void)m;
    return nth == 4 ? coney_retry_after(20 * CONEY_MILLISECOND) : nth == 5 ? CONEY_REQUEUE : CONEY_ACK;
}

static void a_stream_queue_is_read_from_its_first_message_and_what_comes_again_holds_up_the_rest(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {.decide = third_time};
    up(&rig);
    coney_amqp_queue stream = {.name = rig.queue, .type = CONEY_QUEUE_STREAM};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &stream, NULL), CONEY_OK);
    coney_amqp_publisher_options options = {.routing_key = rig.queue};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(rig.outside, &options, NULL);
    amqp_publish_numbered(publisher, 0, 10);
    amqp_publisher_close(&publisher);
    rig_add(&rig, &inbox,
            &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .type = CONEY_QUEUE_STREAM, .start = CONEY_STREAM_FIRST)});
    rig_start(&rig);
    inbox_wait(&inbox, 12);
    static const uint64_t offsets[12] = {0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9};
    static const uint64_t attempts[12] = {1, 1, 1, 1, 1, 2, 3, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(inbox_of(&inbox, i).offset, offsets[i]);
        assert_int_equal(inbox_of(&inbox, i).attempt, attempts[i]);
    }
    rig_down(&rig);
    inbox_free(&inbox);
}

/* The first time the fifth message comes it is kept, and settled from here. */
static coney_settle keep_the_fifth(struct inbox *inbox, struct incoming *m, size_t nth)
{
    return nth == 4 ? keep(inbox, m, 0) : CONEY_ACK;
}

static void a_kept_message_of_a_stream_queue_comes_again_with_those_behind_it(void **state)
{
    (void)state;
    struct rig rig;
    struct shelf shelf = {.count = 0};
    struct inbox inbox = {.decide = keep_the_fifth, .ctx = &shelf};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .type = CONEY_QUEUE_STREAM)});
    rig_start(&rig);
    for (int i = 0; i < 10; i++)
        rig_publish(&rig, rig.queue, "m");
    inbox_wait(&inbox, 10);
    assert_int_equal(rig.transport->settle(&shelf.kept[0], coney_retry_after(20 * CONEY_MILLISECOND)), CONEY_OK);
    inbox_wait(&inbox, 16);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(inbox_of(&inbox, i).offset, i < 10 ? i : i - 6);
    assert_false(inbox_reach(&inbox, 17, 100));
    rig_down(&rig);
    inbox_free(&inbox);
}

static void after_a_cut_a_stream_queue_is_read_on_where_it_was(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {0};
    struct scissors *scissors = scissors_start(node.amqp_port);
    rig_up(&rig, amqp_uri((uint16_t)atoi(strrchr(scissors_uri(scissors), ':') + 1)));
    rig_see(&rig, amqp_uri(node.amqp_port));
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .type = CONEY_QUEUE_STREAM)});
    rig_start(&rig);
    coney_amqp_publisher_options options = {.routing_key = rig.queue};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(rig.outside, &options, NULL);
    for (size_t round = 0; round < 3; round++) {
        amqp_publish_numbered(publisher, round * 50, 25);
        inbox_wait(&inbox, round * 50 + 1); /* where "next" began is known */
        scissors_cut_all(scissors);
        amqp_publish_numbered(publisher, round * 50 + 25, 25);
        inbox_wait(&inbox, (round + 1) * 50);
    }
    amqp_publisher_close(&publisher);
    size_t count = inbox_count(&inbox);
    bool has[150] = {false};
    for (size_t i = 0; i < count; i++)
        has[inbox_of(&inbox, i).offset] = true;
    for (size_t i = 0; i < 150; i++)
        if (!has[i])
            fail_msg("%zu was lost", i);
    assert_true(inbox.inactive >= 1 && inbox.active_again >= 1);
    rig_down(&rig);
    scissors_stop(&scissors);
    inbox_free(&inbox);
}

/* What is refused ------------------------------------------------------------------------------------------------------------ */

static void a_queue_that_does_not_exist_is_named(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {0};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue)});
    const char *text = rig_refused(&rig, CONEY_ENOTFOUND);
    assert_says(text, rig.queue);
    assert_says(text, ".declare");
    rig_down(&rig);
    inbox_free(&inbox);
}

static void a_queue_that_exists_with_other_arguments_is_refused_in_the_brokers_words(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {0};
    up(&rig);
    coney_amqp_queue other = {.name = rig.queue, .max_length = 5};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &other, NULL), CONEY_OK);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .max_length = 6)});
    const char *text = rig_refused(&rig, CONEY_EPRECONDITION);
    assert_says(text, rig.queue);
    assert_says(text, "x-max-length");
    rig_down(&rig);
    inbox_free(&inbox);
}

/* How subscriptions end and come back ------------------------------------------------------------------------------------------ */

static void ends_when_its_queue_is_deleted(coney_queue_type type)
{
    struct rig rig;
    struct inbox inbox = {0};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .type = type)});
    rig_start(&rig);
    rig_publish(&rig, rig.queue, "m0");
    inbox_wait(&inbox, 1);
    assert_int_equal(coney_amqp_queue_delete(rig.outside, rig.queue, 0, NULL), CONEY_OK);
    inbox_wait_for(&inbox, &inbox.ended, 1);
    assert_int_equal(inbox.ended_status, CONEY_ENOTFOUND);
    assert_says(inbox.ended_text, rig.queue);
    assert_int_equal(inbox.inactive, 1);
    rig_down(&rig);
    assert_int_equal(inbox.ended, 1);
    inbox_free(&inbox);
}

static void a_subscription_whose_queue_is_deleted_ends(void **state)
{
    (void)state;
    ends_when_its_queue_is_deleted(CONEY_QUEUE_CLASSIC);
    ends_when_its_queue_is_deleted(CONEY_QUEUE_QUORUM);
    ends_when_its_queue_is_deleted(CONEY_QUEUE_STREAM);
}

static void after_a_cut_a_subscription_is_active_again_and_nothing_is_lost(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {0};
    struct scissors *scissors = scissors_start(node.amqp_port);
    const char *port = strrchr(scissors_uri(scissors), ':');
    rig_up(&rig, amqp_uri((uint16_t)atoi(port + 1)));
    rig_see(&rig, amqp_uri(node.amqp_port));
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .type = CONEY_QUEUE_QUORUM)});
    rig_start(&rig);
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 50; i++) {
            char body[16];
            snprintf(body, sizeof body, "m%zu", round * 50 + i);
            struct outgoing message = {.to = coney_bytes_str(rig.queue), .body = coney_bytes_str(body)};
            assert_int_equal(rig.transport->publish(rig.outlet, &message, round * 50 + i), CONEY_OK);
            if (i == 25)
                scissors_cut_all(scissors);
        }
        inbox_wait_for(&inbox, &inbox.active_again, round + 1);
        outcomes_wait(&rig.outcomes, (round + 1) * 50);
    }
    assert_int_equal(inbox.inactive, inbox.active_again);
    assert_int_equal(outcomes_with(&rig.outcomes, CONEY_OK), 150);
    inbox_wait(&inbox, 150);
    rig_wait_for_ready(&rig, rig.queue, 0);
    for (size_t i = 0; i < 150; i++) {
        char body[16];
        snprintf(body, sizeof body, "m%zu", i);
        (void)inbox_find(&inbox, body, 0);
    }
    rig_down(&rig);
    scissors_stop(&scissors);
    inbox_free(&inbox);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_arrives_with_all_that_it_was_published_with),
        cmocka_unit_test(a_message_without_a_key_has_its_routing_key_for_one_and_no_type),
        cmocka_unit_test(more_headers_than_have_room_at_hand_go_with_the_key),
        cmocka_unit_test(bound_queues_get_what_their_bindings_say),
        cmocka_unit_test(a_queue_that_the_broker_names_gets_what_it_is_bound_to_and_goes_with_the_service),
        cmocka_unit_test(a_quorum_queue_counts_attempts_and_dead_letters_beyond_its_limit),
        cmocka_unit_test(a_classic_queue_says_only_that_a_message_comes_again),
        cmocka_unit_test(a_rejected_message_goes_where_the_queue_says),
        cmocka_unit_test(no_more_come_than_the_prefetch_and_what_is_kept_goes_back_at_the_end),
        cmocka_unit_test(a_stream_queue_is_read_from_its_first_message_and_what_comes_again_holds_up_the_rest),
        cmocka_unit_test(a_kept_message_of_a_stream_queue_comes_again_with_those_behind_it),
        cmocka_unit_test(after_a_cut_a_stream_queue_is_read_on_where_it_was),
        cmocka_unit_test(a_queue_that_does_not_exist_is_named),
        cmocka_unit_test(a_queue_that_exists_with_other_arguments_is_refused_in_the_brokers_words),
        cmocka_unit_test(a_subscription_whose_queue_is_deleted_ends),
        cmocka_unit_test(after_a_cut_a_subscription_is_active_again_and_nothing_is_lost),
    };
    return run_tests(tests);
}
