/* Services over AMQP on a real node: what goes out: copies that come back now or later, dead letters, publishers, requests, transactions. */
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

/* Copies ------------------------------------------------------------------------------------------------------------------- */

/* A retry as the framework makes it: the message is kept, its copy sent, and when that is confirmed the message is acked. */
struct retry {
    struct rig *rig;
    struct incoming m;
    coney_status status;
};

struct retries {
    struct rig *rig;
    const char *to;    /* NULL: back */
    int64_t delays[4]; /* of "m0" …; 0: at once */
    uint64_t most;     /* copies of a message */
    struct retry all[16];
    _Atomic size_t begun, done;
    coney_status status; /* of the last call of copy */
};

static void copied(void *ctx, const coney_outcome *outcome)
{
    struct retries *retries = ctx;
    struct retry *retry = &retries->all[outcome->tag];
    retry->status = outcome->status;
    bool ok = outcome->status == CONEY_OK;
    retry->m.feed->transport->settle(&retry->m, ok ? CONEY_ACK : CONEY_REQUEUE);
    retries->done++;
}

static coney_settle copy(struct inbox *inbox, struct incoming *m, size_t nth)
{
    struct retries *retries = inbox->ctx;
    const struct transport *transport = m->feed->transport;
    uint64_t attempt = transport->attempt(m);
    (void)nth;
    if (attempt > retries->most)
        return CONEY_ACK;
    unsigned number = (unsigned)(((const char *)m->body.data)[1] - '0') % 4;
    size_t at = retries->begun++;
    assert_true(at < 16);
    assert_true(transport->keep(m));
    retries->all[at].m = *m;
    retries->status = transport->copy(&retries->all[at].m, retries->to, attempt, retries->delays[number], copied, retries, at);
    assert_int_equal(retries->status, CONEY_OK);
    return CONEY_KEPT;
}

static const char *waiting(struct rig *rig, int64_t ms)
{
    char name[260];
    snprintf(name, sizeof name, "%s.wait.%lld", rig->queue, (long long)ms);
    return rig_owns(rig, name);
}

static void a_short_delay_does_not_wait_behind_a_long_one(void **state)
{
    (void)state;
    struct rig rig;
    struct retries retries = {.rig = &rig, .delays = {1500 * CONEY_MILLISECOND, 100 * CONEY_MILLISECOND}, .most = 1};
    struct inbox inbox = {.decide = copy, .ctx = &retries};
    up(&rig);
    waiting(&rig, 1500);
    waiting(&rig, 100);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true, .delay = CONEY_DELAY_QUEUE)});
    rig_start(&rig);
    assert_true(rig.transport->delays(rig.feeds[0]));
    rig_publish(&rig, rig.queue, "m0");
    rig_publish(&rig, rig.queue, "m1");
    inbox_wait(&inbox, 4);
    struct arrival late[2] = {inbox_find(&inbox, "m0", 1), inbox_find(&inbox, "m1", 1)};
    assert_string_equal(inbox_of(&inbox, 2).body, "m1");
    assert_true(late[0].at - inbox_find(&inbox, "m0", 0).at >= 1499);
    assert_true(late[1].at - inbox_find(&inbox, "m1", 0).at >= 99);
    assert_int_equal(late[0].attempt, 2);
    assert_int_equal(late[1].attempt, 2);
    rig_wait_for_ready(&rig, rig.queue, 0);
    rig_down(&rig);
    inbox_free(&inbox);
}

static void attempts_are_counted_over_copies_from_queues_that_count_nothing_and_from_those_that_do(void **state)
{
    (void)state;
    static const coney_queue_type types[] = {CONEY_QUEUE_CLASSIC, CONEY_QUEUE_QUORUM};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        struct retries retries = {.rig = &rig, .delays = {0, 20 * CONEY_MILLISECOND}, .most = 4};
        struct inbox inbox = {.decide = copy, .ctx = &retries};
        up(&rig);
        waiting(&rig, 20);
        rig_add(&rig, &inbox,
                &(coney_subscription){
                    .source = CONEY_QUEUE(rig.queue, .declare = true, .type = types[i], .delay = CONEY_DELAY_QUEUE)});
        rig_start(&rig);
        rig_publish(&rig, rig.queue, "m0");
        inbox_wait(&inbox, 5);
        rig_publish(&rig, rig.queue, "m1");
        inbox_wait(&inbox, 10);
        for (size_t n = 0; n < 10; n++)
            assert_int_equal(inbox_of(&inbox, n).attempt, n % 5 + 1);
        rig_wait_for_ready(&rig, rig.queue, 0);
        rig_down(&rig);
        inbox_free(&inbox);
    }
}

static void a_waiting_queue_that_was_deleted_is_declared_again(void **state)
{
    (void)state;
    struct rig rig;
    struct retries retries = {.rig = &rig, .delays = {20 * CONEY_MILLISECOND}, .most = 1};
    struct inbox inbox = {.decide = copy, .ctx = &retries};
    up(&rig);
    const char *name = waiting(&rig, 20);
    rig_add(&rig, &inbox,
            &(coney_subscription){
                .source = CONEY_QUEUE(rig.queue, .declare = true, .type = CONEY_QUEUE_QUORUM, .delay = CONEY_DELAY_QUEUE)});
    rig_start(&rig);
    rig_publish(&rig, rig.queue, "m0");
    inbox_wait(&inbox, 2);
    assert_int_equal(coney_amqp_queue_delete(rig.outside, name, 0, NULL), CONEY_OK);
    retries.most = 2;
    rig_publish(&rig, rig.queue, "m4"); /* returned, requeued, copied again */
    inbox_wait(&inbox, 5);
    assert_int_equal(retries.all[1].status, CONEY_ERETURNED);
    assert_int_equal(inbox_of(&inbox, 4).attempt, 3);
    rig_down(&rig);
    inbox_free(&inbox);
}

static coney_settle failing_copy(struct inbox *inbox, struct incoming *m, size_t nth)
{
    struct retries *retries = inbox->ctx;
    (void)nth;
    coney_status status = m->feed->transport->copy(m, NULL, 1, retries->delays[0], copied, retries, 0);
    monitor_lock(&inbox->monitor);
    retries->status = status;
    inbox->ended++;
    monitor_broadcast(&inbox->monitor);
    monitor_unlock(&inbox->monitor);
    return CONEY_ACK;
}

static void without_declare_the_waiting_queue_must_be_there(void **state)
{
    (void)state;
    struct rig rig;
    struct retries retries = {.rig = &rig, .delays = {3 * CONEY_SECOND}};
    struct inbox inbox = {.decide = failing_copy, .ctx = &retries};
    up(&rig);
    coney_amqp_queue queue = {.name = rig.queue};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &queue, NULL), CONEY_OK);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .delay = CONEY_DELAY_QUEUE)});
    const char *text = rig_refused(&rig, CONEY_ENOTFOUND); /* for the default of on_failure */
    assert_says(text, ".wait.1000");
    assert_says(text, "x-message-ttl 1000");
    rig_stop(&rig);
    coney_amqp_queue second = {.name = waiting(&rig, 1000)};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &second, NULL), CONEY_OK);
    rig_start(&rig);
    rig_publish(&rig, rig.queue, "m0");
    inbox_wait_for(&inbox, &inbox.ended, 1);
    assert_int_equal(retries.status, CONEY_ENOTFOUND);
    rig_down(&rig);
    inbox_free(&inbox);
}

static void copies_that_have_no_way_back_are_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct retries retries = {.rig = &rig, .delays = {CONEY_SECOND}};
    struct inbox held = {.decide = failing_copy, .ctx = &retries};
    up(&rig);
    rig_add(&rig, &held, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
    rig_add(&rig, &held, &(coney_subscription){.source = CONEY_QUEUE(rig.other, .declare = true, .type = CONEY_QUEUE_STREAM)});
    rig_start(&rig);
    assert_false(rig.transport->delays(rig.feeds[0]));
    rig_publish(&rig, rig.queue, "m0");
    inbox_wait_for(&held, &held.ended, 1);
    assert_int_equal(retries.status, CONEY_EUNSUPPORTED);
    retries.delays[0] = 0;
    rig_publish(&rig, rig.other, "m0");
    inbox_wait_for(&held, &held.ended, 2);
    assert_int_equal(retries.status, CONEY_EUNSUPPORTED);
    rig_down(&rig);
    inbox_free(&held);
}

static void a_copy_has_all_that_the_message_had(void **state)
{
    (void)state;
    struct rig rig;
    struct retries retries = {.rig = &rig, .to = rig.other, .most = 3};
    struct inbox inbox = {.decide = copy, .ctx = &retries};
    up(&rig);
    coney_amqp_queue dead = {.name = rig.other};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &dead, NULL), CONEY_OK);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
    rig_start(&rig);
    coney_field headers[] = {{CONEY_STR("colour"), coney_value_string(CONEY_STR("red"))},
                             {CONEY_STR("x-coney-attempts"), coney_value_i8(2)},
                             {CONEY_STR("size"), coney_value_u16(7)}};
    coney_amqp_message message = {.body = CONEY_STR("m0"),
                                  .routing_key = coney_bytes_str(rig.queue),
                                  .content_type = CONEY_STR("text/plain"),
                                  .content_encoding = CONEY_STR("gzip"),
                                  .correlation_id = CONEY_STR("c"),
                                  .reply_to = CONEY_STR("r"),
                                  .message_id = CONEY_STR("m"),
                                  .type = CONEY_STR("t"),
                                  .user_id = CONEY_STR("guest"),
                                  .app_id = CONEY_STR("a"),
                                  .headers = headers,
                                  .header_count = 3,
                                  .expiration = 90 * CONEY_SECOND,
                                  .timestamp = 1700000000000,
                                  .priority = 4,
                                  .has_priority = true,
                                  .transient = true};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(rig.outside, &(coney_amqp_publisher_options){0}, NULL);
    assert_int_equal(coney_amqp_publish_wait(publisher, &message, NULL), CONEY_OK);
    rig_wait_for_ready(&rig, rig.other, 1);
    assert_int_equal(inbox_of(&inbox, 0).attempt, 3);

    coney_kept *kept = NULL;
    coney_amqp_properties p;
    coney_value value;
    uint64_t number = 0;
    assert_int_equal(coney_amqp_get(rig.outside, rig.other, &kept, NULL), CONEY_OK);
    assert_non_null(kept);
    assert_int_equal(coney_amqp_delivery_properties(coney_amqp_kept_delivery(kept), &p), CONEY_OK);
    assert_true(bytes_equal(p.content_type, message.content_type));
    assert_true(bytes_equal(p.content_encoding, message.content_encoding));
    assert_true(bytes_equal(p.correlation_id, message.correlation_id));
    assert_true(bytes_equal(p.reply_to, message.reply_to));
    assert_true(bytes_equal(p.message_id, message.message_id));
    assert_true(bytes_equal(p.type, message.type));
    assert_true(bytes_equal(p.app_id, message.app_id));
    assert_true(bytes_equal(p.expiration, CONEY_STR("90000")));
    assert_int_equal(p.user_id.len, 0);
    assert_int_equal(p.timestamp, message.timestamp);
    assert_true(p.has_priority && p.priority == 4 && !p.persistent);
    assert_int_equal(p.headers.count, 6);
    assert_true(coney_value_find(&p.headers, CONEY_STR("colour"), &value));
    assert_true(coney_value_find(&p.headers, CONEY_STR("size"), &value));
    assert_true(coney_value_find(&p.headers, CONEY_STR("x-coney-attempts"), &value));
    assert_true(coney_value_to_u64(&value, &number));
    assert_int_equal(number, 3);
    coney_kept_settle(&kept, CONEY_ACK);
    coney_amqp_publisher_close(&publisher, NULL);
    rig_down(&rig);
    inbox_free(&inbox);
}

static void a_copy_goes_to_no_queue_that_had_the_message_by_its_CC(void **state)
{
    (void)state;
    struct rig rig;
    struct retries retries = {.rig = &rig, .most = 2};
    struct inbox inbox = {.decide = copy, .ctx = &retries};
    up(&rig);
    coney_amqp_queue too = {.name = rig.other};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &too, NULL), CONEY_OK);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
    rig_start(&rig);
    uint8_t room[512];
    coney_builder builder;
    coney_field cc = {.key = CONEY_STR("CC")};
    coney_builder_init_table(&builder, room, sizeof room);
    coney_value table;
    coney_builder_begin(&builder, CONEY_VALUE_MAP);
    coney_builder_put_begin(&builder, cc.key, CONEY_VALUE_LIST);
    coney_builder_add(&builder, coney_value_string(coney_bytes_str(rig.other)));
    coney_builder_end(&builder);
    coney_builder_end(&builder);
    assert_int_equal(coney_builder_finish(&builder, &table), CONEY_OK);
    assert_true(coney_value_find(&table, cc.key, &cc.value));
    const struct outgoing message = {
        .to = coney_bytes_str(rig.queue), .body = CONEY_STR("m0"), .headers = &cc, .header_count = 1};
    assert_int_equal(rig_publish_message(&rig, &message), CONEY_OK);
    inbox_wait(&inbox, 3);
    rig_wait_for_ready(&rig, rig.other, 1);
    rig_down(&rig);
    inbox_free(&inbox);
}

static void copies_find_a_queue_that_the_broker_calls_by_another_name_after_a_cut(void **state)
{
    (void)state;
    struct rig rig;
    struct retries retries = {.rig = &rig, .most = 3};
    struct inbox inbox = {.decide = copy, .ctx = &retries};
    struct scissors *scissors = scissors_start(node.amqp_port);
    rig_up(&rig, amqp_uri((uint16_t)atoi(strrchr(scissors_uri(scissors), ':') + 1)));
    rig_see(&rig, amqp_uri(node.amqp_port));
    const coney_queue_binding *bindings = CONEY_BINDINGS({.exchange = rig.other, .type = "fanout"});
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE("", .declare = true, .bindings = bindings)});
    rig_start(&rig);
    for (size_t cuts = 1; cuts <= 2; cuts++) {
        scissors_cut_all(scissors);
        inbox_wait_for(&inbox, &inbox.active_again, cuts);
        coney_amqp_publisher_options options = {.exchange = rig.other};
        coney_amqp_publisher *publisher = coney_amqp_publisher_open(rig.outside, &options, NULL);
        const coney_amqp_message message = {.body = CONEY_STR("m0")};
        assert_int_equal(coney_amqp_publish_wait(publisher, &message, NULL), CONEY_OK);
        coney_amqp_publisher_close(&publisher, NULL);
        inbox_wait(&inbox, 4 * cuts);
        assert_int_equal(inbox_of(&inbox, 4 * cuts - 1).attempt, 4);
    }
    assert_int_equal(coney_amqp_exchange_delete(rig.outside, rig.other, 0, NULL), CONEY_OK);
    rig_down(&rig);
    scissors_stop(&scissors);
    inbox_free(&inbox);
}

/* Publishers --------------------------------------------------------------------------------------------------------------- */

static void what_no_queue_takes_is_returned_unless_that_is_no_failure(void **state)
{
    (void)state;
    struct rig rig;
    up(&rig);
    rig_start(&rig);
    struct outgoing message = {.to = coney_bytes_str(rig.queue), .body = CONEY_STR("m0")};
    assert_int_equal(rig_publish_message(&rig, &message), CONEY_ERETURNED);
    message.drop_unroutable = true;
    assert_int_equal(rig_publish_message(&rig, &message), CONEY_OK);
    message.drop_unroutable = false;
    message.to_requester = true;
    assert_int_equal(rig_publish_message(&rig, &message), CONEY_OK);
    char longer[300];
    memset(longer, 'x', sizeof longer);
    message.to = coney_bytes_of(longer, 256);
    assert_int_equal(rig_publish_message(&rig, &message), CONEY_EINVAL);
    rig_down(&rig);
}

static void a_plain_publisher_has_its_outcome_when_the_message_was_written(void **state)
{
    (void)state;
    struct rig rig;
    struct outcomes outcomes = {0};
    up(&rig);
    coney_amqp_queue queue = {.name = rig.queue};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &queue, NULL), CONEY_OK);
    rig_start(&rig);
    struct outlet_options options = {
        .name = "plain", .policy = CONEY_PUBLISH_PLAIN, .transient = true, .outcome = outcomes_add, .ctx = &outcomes};
    struct outlet *outlet = rig_outlet(&rig, &options);
    struct outgoing message = {.to = coney_bytes_str(rig.queue), .body = CONEY_STR("m0")};
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(rig.transport->publish(outlet, &message, i), CONEY_OK);
    outcomes_wait(&outcomes, 10);
    outcomes_are_each_once(&outcomes, 0, 10);
    rig_wait_for_ready(&rig, rig.queue, 10);
    rig_close_outlet(&rig, &outlet);
    rig_down(&rig);
    outcomes_free(&outcomes);
}

/* Requests ----------------------------------------------------------------------------------------------------------------- */

static coney_settle answer(struct inbox *inbox, struct incoming *m, size_t nth)
{
    struct rig *rig = inbox->ctx;
    coney_delivery_info info = {0};
    (void)nth;
    rig->transport->info(m, &info);
    if (m->body.len > 1 && memcmp(m->body.data, "no", 2) == 0)
        return CONEY_ACK;
    struct outgoing reply = {.to = info.reply_to,
                             .body = m->body,
                             .correlation_id = info.correlation_id,
                             .content_type = CONEY_STR("text/plain"),
                             .to_requester = true};
    assert_int_equal(rig->transport->publish(rig->outlet, &reply, 0), CONEY_OK);
    return CONEY_ACK;
}

static void a_request_has_its_reply_and_one_that_nobody_answers_ends_in_time(void **state)
{
    (void)state;
    struct rig rig;
    struct inbox inbox = {.decide = answer, .ctx = &rig};
    up(&rig);
    rig_add(&rig, &inbox, &(coney_subscription){.source = CONEY_QUEUE(rig.queue, .declare = true)});
    rig_start(&rig);
    for (int i = 0; i < 3; i++) {
        coney_call call = {0};
        struct incoming reply = {0};
        struct outgoing request = {.to = coney_bytes_str(rig.queue), .body = CONEY_STR("ping"), .key = CONEY_STR("k")};
        coney_delivery_info info = {0};
        assert_int_equal(rig.transport->request(rig.outlet, &request, &reply, &call), CONEY_OK);
        rig.transport->info(&reply, &info);
        assert_true(bytes_equal(reply.body, CONEY_STR("ping")));
        assert_true(bytes_equal(info.content_type, CONEY_STR("text/plain")));
        assert_true(bytes_equal(rig.transport->content_type(&reply), CONEY_STR("text/plain")));
        assert_int_equal(rig.transport->settle(&reply, CONEY_ACK), CONEY_OK);
    }
    coney_call call = {.deadline = 100 * CONEY_MILLISECOND};
    struct incoming reply = {0};
    struct outgoing unanswered = {.to = coney_bytes_str(rig.queue), .body = CONEY_STR("no answer")};
    assert_int_equal(rig.transport->request(rig.outlet, &unanswered, &reply, &call), CONEY_ETIMEDOUT);
    struct outgoing nobody = {.to = coney_bytes_str(rig.other), .body = CONEY_STR("ping")};
    call = (coney_call){0};
    assert_int_equal(rig.transport->request(rig.outlet, &nobody, &reply, &call), CONEY_ERETURNED);
    rig_down(&rig);
    inbox_free(&inbox);
}

/* Transactions ------------------------------------------------------------------------------------------------------------- */

static void a_transaction_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    struct rig rig;
    up(&rig);
    coney_amqp_queue queue = {.name = rig.queue};
    assert_int_equal(coney_amqp_queue_declare(rig.outside, &queue, NULL), CONEY_OK);
    rig_start(&rig);
    struct outgoing message = {.to = coney_bytes_str(rig.queue), .body = CONEY_STR("m0"), .key = CONEY_STR("k")};
    for (int commit = 0; commit < 2; commit++) {
        coney_call call = {0};
        void *tx = NULL;
        assert_int_equal(rig.transport->tx_begin(rig.outlet, &tx, &call), CONEY_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rig.transport->tx_publish(tx, &message), CONEY_OK);
        rig_wait_for_ready(&rig, rig.queue, 0);
        assert_int_equal(commit ? rig.transport->tx_commit(tx, &call) : rig.transport->tx_abort(tx, &call), CONEY_OK);
        rig_wait_for_ready(&rig, rig.queue, commit ? 3 : 0);
    }
    rig_down(&rig);
}

int main(void)
{
    if (!node_shared(&node))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_delay_does_not_wait_behind_a_long_one),
        cmocka_unit_test(attempts_are_counted_over_copies_from_queues_that_count_nothing_and_from_those_that_do),
        cmocka_unit_test(a_waiting_queue_that_was_deleted_is_declared_again),
        cmocka_unit_test(without_declare_the_waiting_queue_must_be_there),
        cmocka_unit_test(copies_that_have_no_way_back_are_refused),
        cmocka_unit_test(a_copy_has_all_that_the_message_had),
        cmocka_unit_test(a_copy_goes_to_no_queue_that_had_the_message_by_its_CC),
        cmocka_unit_test(copies_find_a_queue_that_the_broker_calls_by_another_name_after_a_cut),
        cmocka_unit_test(what_no_queue_takes_is_returned_unless_that_is_no_failure),
        cmocka_unit_test(a_plain_publisher_has_its_outcome_when_the_message_was_written),
        cmocka_unit_test(a_request_has_its_reply_and_one_that_nobody_answers_ends_in_time),
        cmocka_unit_test(a_transaction_appears_whole_or_not_at_all),
    };
    return run_tests(tests);
}
