/* Every reply code of the protocol, also those that no real broker sends: what the user gets has the code, the broker's words, the right status, a
 * sentence. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

struct refusal {
    uint16_t code;
    coney_status status; /* when it closes a channel; of a hard one, when it ends a log-in before connection.open */
};

static const struct refusal soft[] = {
    {AMQP_CODE_CONTENT_TOO_LARGE, CONEY_EBROKER},
    {AMQP_CODE_NO_ROUTE, CONEY_EBROKER},
    {AMQP_CODE_NO_CONSUMERS, CONEY_EBROKER},
    {AMQP_CODE_ACCESS_REFUSED, CONEY_EACCESS},
    {AMQP_CODE_NOT_FOUND, CONEY_ENOTFOUND},
    {AMQP_CODE_RESOURCE_LOCKED, CONEY_EUNAVAILABLE},
    {AMQP_CODE_PRECONDITION_FAILED, CONEY_EPRECONDITION},
};

static const struct refusal hard[] = {
    {AMQP_CODE_CONNECTION_FORCED, CONEY_ELOST},  {AMQP_CODE_INVALID_PATH, CONEY_EBROKER},
    {AMQP_CODE_FRAME_ERROR, CONEY_EBROKER},      {AMQP_CODE_SYNTAX_ERROR, CONEY_EBROKER},
    {AMQP_CODE_COMMAND_INVALID, CONEY_EBROKER},  {AMQP_CODE_CHANNEL_ERROR, CONEY_EBROKER},
    {AMQP_CODE_UNEXPECTED_FRAME, CONEY_EBROKER}, {AMQP_CODE_RESOURCE_ERROR, CONEY_EBROKER},
    {AMQP_CODE_NOT_ALLOWED, CONEY_EBROKER},      {AMQP_CODE_NOT_IMPLEMENTED, CONEY_EBROKER},
    {AMQP_CODE_INTERNAL_ERROR, CONEY_EBROKER},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* "NOT_FOUND - words 404": what the broker says, unlike for any other code. */
static const char *words_of(uint16_t code)
{
    static char words[80];
    snprintf(words, sizeof words, "%s - words %u", amqp_code_name(code), code);
    return words;
}

static void is_told(const coney_call *call, coney_status status, uint16_t code)
{
    if (call->status != status)
        fail_msg("code %u: %s instead of %s: %s", code, coney_status_name(call->status), coney_status_name(status), call->text);
    assert_int_equal(call->code, code);
    const char *words = strstr(words_of(code), "words");
    assert_says(call->text, words);
    assert_true(strlen(call->text) > strlen(words) + 20);
}

/* Channels --------------------------------------------------------------------------------------------------------- */

static void a_soft_code_fails_its_call_and_costs_nothing_else(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    for (size_t i = 0; i < COUNT(soft); i++) {
        coney_call call = {0};
        amqp_peer_refuse(stage.peer, AMQP_QUEUE_DECLARE, 1, soft[i].code, words_of(soft[i].code));
        amqp_stage_declare(&stage, "q", &call);
        is_told(&call, soft[i].status, soft[i].code);
        assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    }
    assert_int_equal(amqp_peer_accepted(stage.peer), 1);
    amqp_stage_down(&stage);
}

static void a_hard_code_ends_the_connection_and_its_calls_say_why(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    for (size_t i = 0; i < COUNT(hard); i++) {
        coney_call call = {0};
        amqp_peer_refuse(stage.peer, AMQP_QUEUE_DECLARE, 1, hard[i].code, words_of(hard[i].code));
        amqp_stage_declare(&stage, "q", &call);
        is_told(&call, CONEY_ELOST, hard[i].code);
        struct event event = events_wait(&stage.events, CONEY_EVENT_SERVER_CLOSE, i);
        assert_int_equal(event.code, hard[i].code);
        assert_says(event.text, words_of(hard[i].code));
        assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
        amqp_peer_wait_count(stage.peer, AMQP_CONNECTION_CLOSE_OK, i + 1);
    }
    amqp_stage_down(&stage);
}

static void opening_a_publisher_or_a_consumer_that_is_refused_says_why(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer_options consumer_options = {.on_delivery = parcels_add, .ctx = &parcels};
    coney_amqp_publisher_options publisher_options = {.routing_key = "q"};
    for (size_t i = 0; i < COUNT(soft); i++) {
        coney_call call = {0};
        amqp_peer_refuse(stage.peer, AMQP_BASIC_CONSUME, 1, soft[i].code, words_of(soft[i].code));
        assert_null(coney_amqp_consumer_open(stage.rabbit, "q", &consumer_options, &call));
        is_told(&call, soft[i].status, soft[i].code);
        amqp_peer_refuse(stage.peer, AMQP_CONFIRM_SELECT, 1, soft[i].code, words_of(soft[i].code));
        assert_null(coney_amqp_publisher_open(stage.rabbit, &publisher_options, &call));
        is_told(&call, soft[i].status, soft[i].code);
    }
    for (size_t i = 0; i < COUNT(hard); i++) {
        coney_call call = {0};
        amqp_peer_refuse(stage.peer, AMQP_BASIC_CONSUME, 1, hard[i].code, words_of(hard[i].code));
        assert_null(coney_amqp_consumer_open(stage.rabbit, "q", &consumer_options, &call));
        is_told(&call, CONEY_ELOST, hard[i].code);
    }
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void a_get_and_a_transaction_that_are_refused_say_why(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    for (size_t i = 0; i < COUNT(soft); i++) {
        coney_call call = {0};
        coney_kept *kept = NULL;
        amqp_peer_refuse(stage.peer, AMQP_BASIC_GET, 1, soft[i].code, words_of(soft[i].code));
        coney_amqp_get(stage.rabbit, "q", &kept, &call);
        is_told(&call, soft[i].status, soft[i].code);
        amqp_peer_refuse(stage.peer, AMQP_TX_COMMIT, 1, soft[i].code, words_of(soft[i].code));
        coney_amqp_tx *tx = coney_amqp_tx_begin(stage.rabbit, &call);
        assert_non_null(tx);
        assert_int_equal(coney_amqp_tx_publish(tx, &(coney_amqp_message){.body = CONEY_STR("x")}), CONEY_OK);
        coney_amqp_tx_commit(&tx, &call);
        is_told(&call, soft[i].status, soft[i].code);
    }
    amqp_stage_down(&stage);
}

/* Messages --------------------------------------------------------------------------------------------------------- */

static void a_message_that_closes_its_channel_is_refused_with_the_code_and_the_others_go_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(soft); i++) {
        struct amqp_stage stage;
        struct outcomes outcomes = {0};
        amqp_stage_up(&stage);
        coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
        amqp_peer_confirm_by_hand(stage.peer, true);
        amqp_publish_numbered(publisher, 0, 3);
        amqp_peer_wait_messages(stage.peer, 3);
        amqp_peer_confirm_by_hand(stage.peer, false);
        amqp_peer_refuse(stage.peer, AMQP_BASIC_PUBLISH, 2, soft[i].code,
                         words_of(soft[i].code)); /* of those that come again */
        amqp_peer_close_channel(stage.peer, amqp_peer_publisher(stage.peer), soft[i].code, words_of(soft[i].code));
        outcomes_wait(&outcomes, 3);
        outcomes_are_in_order(&outcomes, 0, 3);
        assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_OK);
        assert_int_equal(outcomes_of(&outcomes, 1).status, CONEY_EREFUSED);
        assert_int_equal(outcomes_of(&outcomes, 1).code, soft[i].code);
        assert_int_equal(outcomes_of(&outcomes, 2).status, CONEY_OK);
        coney_call call = {0};
        coney_amqp_message message = {.body = CONEY_STR("x")};
        amqp_peer_refuse(stage.peer, AMQP_BASIC_PUBLISH, 1, soft[i].code, words_of(soft[i].code));
        coney_amqp_publish_wait(publisher, &message, &call);
        is_told(&call, CONEY_EREFUSED, soft[i].code);
        amqp_publisher_close(&publisher);
        amqp_stage_down(&stage);
        outcomes_free(&outcomes);
    }
}

static void a_returned_message_has_the_brokers_code_and_words_whatever_the_code(void **state)
{
    (void)state;
    static const uint16_t codes[] = {AMQP_CODE_NO_ROUTE, AMQP_CODE_NO_CONSUMERS, AMQP_CODE_CONTENT_TOO_LARGE};
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    amqp_peer_confirm_by_hand(stage.peer, true);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, NULL, NULL);
    for (size_t i = 0; i < COUNT(codes); i++) {
        struct waited_call waited = {0};
        coney_amqp_message message = {.body = CONEY_STR("x")};
        assert_int_equal(coney_amqp_publish_wait(publisher, &message, waited_call_of(&waited, 0)), CONEY_OK);
        amqp_peer_wait_messages(stage.peer, i + 1);
        struct amqp_peer_message published = amqp_peer_message_of(stage.peer, i);
        amqp_peer_return(stage.peer, &published, codes[i], words_of(codes[i]));
        amqp_peer_confirm(stage.peer, 1);
        assert_int_equal(waited_call_wait(&waited), CONEY_ERETURNED);
        is_told(&waited.answer, CONEY_ERETURNED, codes[i]);
        waited_call_free(&waited);
    }
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
}

/* The log-in ------------------------------------------------------------------------------------------------------- */

static void a_code_that_ends_the_log_in_is_told_at_open(void **state)
{
    (void)state;
    static const uint32_t steps[] = {AMQP_PEER_GREETING, AMQP_CONNECTION_START_OK, AMQP_CONNECTION_OPEN};
    for (size_t step = 0; step < COUNT(steps); step++) {
        for (size_t i = 0; i < COUNT(hard); i++) {
            struct amqp_stage stage;
            coney_call call = {0};
            amqp_stage_set(&stage);
            amqp_peer_refuse(stage.peer, steps[step], 1, hard[i].code, words_of(hard[i].code));
            assert_null(coney_amqp_open(amqp_peer_uri(stage.peer), &stage.options, &call));
            bool vhost = steps[step] == AMQP_CONNECTION_OPEN && hard[i].status != CONEY_ELOST;
            is_told(&call, vhost ? CONEY_EVHOST : hard[i].status, hard[i].code);
            amqp_stage_down(&stage);
        }
    }
}

static void a_refused_user_is_told_apart_from_a_refused_virtual_host(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_set(&stage);
    amqp_peer_refuse(stage.peer, AMQP_CONNECTION_START_OK, 1, AMQP_CODE_ACCESS_REFUSED, "ACCESS_REFUSED - Login was refused");
    amqp_stage_refused(&stage, CONEY_EAUTH, "check the user name and the password");
    amqp_peer_refuse(stage.peer, AMQP_CONNECTION_OPEN, 1, AMQP_CODE_ACCESS_REFUSED, "ACCESS_REFUSED - not yours");
    amqp_stage_refused(&stage, CONEY_EVHOST, "virtual host '/'");
    amqp_stage_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_soft_code_fails_its_call_and_costs_nothing_else),
        cmocka_unit_test(a_hard_code_ends_the_connection_and_its_calls_say_why),
        cmocka_unit_test(opening_a_publisher_or_a_consumer_that_is_refused_says_why),
        cmocka_unit_test(a_get_and_a_transaction_that_are_refused_say_why),
        cmocka_unit_test(a_message_that_closes_its_channel_is_refused_with_the_code_and_the_others_go_on),
        cmocka_unit_test(a_returned_message_has_the_brokers_code_and_words_whatever_the_code),
        cmocka_unit_test(a_code_that_ends_the_log_in_is_told_at_open),
        cmocka_unit_test(a_refused_user_is_told_apart_from_a_refused_virtual_host),
    };
    return run_tests(tests);
}
