/* The log-in: what is offered, asked for and agreed, and everything that can go wrong on the way. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include <coney/loop.h>

static coney_amqp *opened_as(struct amqp_stage *stage, const char *userinfo, const char *rest)
{
    char uri[300];
    coney_call call = {0};
    snprintf(uri, sizeof uri, "amqp://%s%s%s", userinfo, amqp_peer_address(stage->peer), rest);
    coney_amqp *rabbit = coney_amqp_open(uri, &stage->options, &call);
    if (rabbit == NULL)
        fail_msg("%s: %s", uri, call.text);
    return rabbit;
}

/* What is agreed ----------------------------------------------------------------------------------------------------- */

static void the_order_of_the_log_in_is_that_of_the_protocol(void **state)
{
    (void)state;
    char story[400];
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    amqp_peer_story(stage.peer, 0, 0, story, sizeof story);
    assert_string_equal(story, "connection.start-ok connection.tune-ok connection.open");
    coney_amqp_close(&stage.rabbit, NULL);
    amqp_peer_story(stage.peer, 0, 0, story, sizeof story);
    assert_string_equal(story, "connection.start-ok connection.tune-ok connection.open connection.close");
    amqp_stage_down(&stage);
}

static void K01_a_heartbeat_is_the_brokers_the_shorter_or_off(void **state)
{
    (void)state;
    static const struct {
        int64_t option; /* seconds; 0: not set, -1: off */
        uint16_t offered;
        uint16_t agreed;
    } cases[] = {{0, 60, 60},   {0, 7, 7},     {0, 0, 60},  {0, 600, 60}, {5, 60, 5},
                 {100, 60, 60}, {100, 0, 100}, {-1, 60, 0}, {-1, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        stage.options.heartbeat = cases[i].option > 0 ? cases[i].option * CONEY_SECOND : cases[i].option;
        amqp_peer_set_tune(stage.peer, 2047, 131072, cases[i].offered);
        amqp_stage_open(&stage);
        assert_int_equal(amqp_peer_expect(stage.peer, AMQP_CONNECTION_TUNE_OK)->method.connection_tune.heartbeat,
                         cases[i].agreed);
        amqp_stage_down(&stage);
    }
}

static void channel_max_and_frame_max_are_the_lower_and_zero_is_no_limit(void **state)
{
    (void)state;
    static const struct {
        int64_t channels, frame;
        uint16_t channel_max, agreed_channels;
        uint32_t frame_max, agreed_frame;
    } cases[] = {
        {0, 0, 2047, 2047, 131072, 131072},     {0, 0, 100, 100, 8192, 8192},
        {10, 65536, 2047, 10, 131072, 65536},   {0, 0, 0, 2047, 0, 131072},
        {65535, 1 << 20, 0, 65535, 0, 1 << 20}, {65535, 1 << 20, 65535, 65535, 131072, 131072},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        stage.options.channel_max = cases[i].channels;
        stage.options.frame_max = cases[i].frame;
        amqp_peer_set_tune(stage.peer, cases[i].channel_max, cases[i].frame_max, 60);
        amqp_stage_open(&stage);
        const struct amqp_connection_tune *tune =
            &amqp_peer_expect(stage.peer, AMQP_CONNECTION_TUNE_OK)->method.connection_tune;
        assert_int_equal(tune->channel_max, cases[i].agreed_channels);
        assert_int_equal(tune->frame_max, cases[i].agreed_frame);
        amqp_stage_down(&stage);
    }
}

static void D03_frames_that_are_too_small_for_the_protocol_are_no_offer(void **state)
{
    (void)state;
    static const uint32_t offers[] = {1, 8, 9, 4095};
    for (size_t i = 0; i < sizeof offers / sizeof offers[0]; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        amqp_peer_set_tune(stage.peer, 2047, offers[i], 60);
        amqp_stage_refused(&stage, CONEY_EPROTOCOL, "4096 at least");
        assert_int_equal(amqp_peer_count(stage.peer, AMQP_CONNECTION_TUNE_OK), 0);
        amqp_stage_down(&stage);
    }
}

static void D04_less_than_a_new_broker_takes_is_not_asked_for(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_set(&stage);
    stage.options.frame_max = 4096;
    amqp_stage_refused(&stage, CONEY_EINVAL, "no less than 8192");
    amqp_peer_set_start(stage.peer, "4.0.9", NULL);
    amqp_stage_open(&stage);
    amqp_peer_wait_count(stage.peer, AMQP_CONNECTION_TUNE_OK, 1);
    assert_int_equal(amqp_peer_record_of(stage.peer, AMQP_CONNECTION_TUNE_OK, 0)->method.connection_tune.frame_max, 4096);
    amqp_stage_down(&stage);
}

/* SASL --------------------------------------------------------------------------------------------------------------- */

static void logs_in(const char *offered, const char *wanted, const char *mechanism, coney_bytes response)
{
    struct amqp_stage stage;
    amqp_stage_set(&stage);
    amqp_peer_set_start(stage.peer, NULL, offered);
    stage.options.mechanism = wanted;
    coney_amqp *rabbit = opened_as(&stage, "me:secret@", "");
    const struct amqp_connection_start_ok *ok =
        &amqp_peer_expect(stage.peer, AMQP_CONNECTION_START_OK)->method.connection_start_ok;
    assert_true(bytes_equal(ok->mechanism, coney_bytes_str(mechanism)));
    assert_true(bytes_equal(ok->response, response));
    assert_true(bytes_equal(ok->locale, CONEY_STR("en_US")));
    coney_amqp_close(&rabbit, NULL);
    amqp_stage_down(&stage);
}

static void D10_a_mechanism_is_matched_whole_and_answered_in_its_own_form(void **state)
{
    (void)state;
    logs_in("AMQPLAIN PLAIN", NULL, "PLAIN", CONEY_STR("\0me\0secret"));
    logs_in("PLAINX PLAIN", NULL, "PLAIN", CONEY_STR("\0me\0secret"));
    logs_in("PLAIN", "plain", "PLAIN", CONEY_STR("\0me\0secret"));
    logs_in("AMQPLAIN PLAIN", "AMQPLAIN", "AMQPLAIN", CONEY_STR("\5LOGINS\0\0\0\2me\10PASSWORDS\0\0\0\6secret"));
    logs_in("PLAIN EXTERNAL", "EXTERNAL", "EXTERNAL", CONEY_STR(""));
    logs_in("ANONYMOUS PLAIN", "ANONYMOUS", "ANONYMOUS", CONEY_STR(""));
}

static void D10_a_mechanism_that_is_not_offered_is_told_before_anything_is_answered(void **state)
{
    (void)state;
    static const char *const offers[] = {"PLAINX", "XPLAIN", "PLAI", "EXTERNAL", ""};
    for (size_t i = 0; i < sizeof offers / sizeof offers[0]; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        amqp_peer_set_start(stage.peer, NULL, offers[i]);
        amqp_stage_refused(&stage, CONEY_EAUTH, "does not offer the SASL mechanism PLAIN");
        assert_int_equal(amqp_peer_count(stage.peer, AMQP_CONNECTION_START_OK), 0);
        amqp_stage_down(&stage);
    }
}

static void the_virtual_host_is_that_of_the_uri(void **state)
{
    (void)state;
    static const struct {
        const char *rest;
        const char *vhost;
    } cases[] = {{"", "/"}, {"/", ""}, {"/%2f", "/"}, {"/a%20b", "a b"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        coney_amqp *rabbit = opened_as(&stage, "", cases[i].rest);
        coney_bytes vhost = amqp_peer_expect(stage.peer, AMQP_CONNECTION_OPEN)->method.connection_open.vhost;
        assert_true(bytes_equal(vhost, coney_bytes_str(cases[i].vhost)));
        coney_amqp_close(&rabbit, NULL);
        amqp_stage_down(&stage);
    }
}

/* What goes wrong ---------------------------------------------------------------------------------------------------- */

static const uint32_t steps[] = {AMQP_PEER_GREETING, AMQP_CONNECTION_START_OK, AMQP_CONNECTION_OPEN};
enum { STEPS = sizeof steps / sizeof steps[0] };

static void D07_an_end_at_any_step_of_the_log_in_is_told_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * STEPS; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        amqp_peer_cut_at(stage.peer, steps[i % STEPS], PEER_EVERY, i < STEPS ? PEER_FIN : PEER_RST);
        int64_t began = now_ms();
        amqp_stage_refused(&stage, CONEY_ELOST, amqp_peer_address(stage.peer));
        assert_true(now_ms() - began < scaled_ms(2000));
        amqp_stage_down(&stage);
    }
}

static void D08_silence_at_any_step_of_the_log_in_ends_with_the_deadline(void **state)
{
    (void)state;
    for (size_t i = 0; i < STEPS; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        amqp_peer_ignore(stage.peer, steps[i], PEER_EVERY);
        coney_call call = {.deadline = scaled_ns(80)};
        assert_null(coney_amqp_open(amqp_peer_uri(stage.peer), &stage.options, &call));
        assert_int_equal(call.status, CONEY_ETIMEDOUT);
        amqp_peer_wait_open(stage.peer, 0);
        amqp_stage_down(&stage);
    }
}

static void a_method_out_of_turn_ends_the_log_in(void **state)
{
    (void)state;
    static const uint32_t ids[] = {AMQP_CONNECTION_SECURE_OK, AMQP_CONNECTION_OPEN_OK, AMQP_CONNECTION_TUNE_OK,
                                   AMQP_CHANNEL_OPEN_OK};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        uint8_t bytes[64];
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        struct amqp_method method = {.id = ids[i]};
        size_t len = amqp_encode(0, &method, bytes, sizeof bytes);
        amqp_peer_raw_at(stage.peer, AMQP_PEER_GREETING, PEER_EVERY, coney_bytes_of(bytes, len));
        amqp_stage_refused(&stage, CONEY_EPROTOCOL, amqp_method_name(ids[i]));
        amqp_stage_down(&stage);
    }
}

static void a_port_that_speaks_something_else_is_told_by_its_name(void **state)
{
    (void)state;
    static const struct {
        coney_bytes answer;
        const char *words;
    } strangers[] = {
        {CONEY_STR_INIT("AMQP\0\1\0\0"), "another version of AMQP (0-1-0-0)"},
        {CONEY_STR_INIT("HTTP/1.1 400 Bad Request\r\n\r\n"), "speaks HTTP"},
        {CONEY_STR_INIT("SSH-2.0-OpenSSH_9.2\r\n"), "speaks SSH"},
        {CONEY_STR_INIT("\x15\x03\x03\0\2\2\x46"), "speaks TLS"},
        {CONEY_STR_INIT("\0\0\0\x10 something else!"), "type 0"},
    };
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        struct amqp_stage stage;
        amqp_stage_set(&stage);
        amqp_peer_raw_at(stage.peer, AMQP_PEER_GREETING, PEER_EVERY, strangers[i].answer);
        amqp_stage_refused(&stage, CONEY_EPROTOCOL, strangers[i].words);
        amqp_stage_down(&stage);
    }
}

/* Coming back -------------------------------------------------------------------------------------------------------- */

static void D09_a_broker_that_closes_during_the_log_in_is_tried_again(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    for (size_t step = 0; step < STEPS; step++)
        amqp_peer_refuse(stage.peer, steps[step], 1, AMQP_CODE_CONNECTION_FORCED, "CONNECTION_FORCED - maintenance");
    amqp_peer_cut(stage.peer, amqp_peer_publisher(stage.peer).connection, PEER_RST);
    amqp_publish_numbered(publisher, 0, 10);
    outcomes_wait(&outcomes, 10);
    outcomes_are_in_order(&outcomes, 0, 10);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 10);
    assert_true(events_say(&stage.events, "maintenance"));
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

static void D09_an_environment_that_keeps_trying_works_once_the_broker_lets_it_in(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call open = {0};
    coney_call call = {0};
    amqp_stage_set(&stage);
    stage.options.keep_trying = true;
    amqp_peer_refuse(stage.peer, AMQP_CONNECTION_START_OK, 1, AMQP_CODE_ACCESS_REFUSED, "ACCESS_REFUSED - not yet");
    amqp_peer_refuse(stage.peer, AMQP_CONNECTION_OPEN, 1, AMQP_CODE_NOT_ALLOWED, "NOT_ALLOWED - vhost / is down");
    stage.rabbit = coney_amqp_open(amqp_peer_uri(stage.peer), &stage.options, waited_call_of(&open, CONEY_OFF));
    assert_non_null(stage.rabbit);
    assert_int_equal(waited_call_wait(&open), CONEY_EAUTH);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_EVHOST);
    assert_says(call.text, "vhost / is down");
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    amqp_stage_down(&stage);
    waited_call_free(&open);
}

static void L09_calls_made_during_the_log_in_wait_and_only_the_log_in_is_on_the_wire(void **state)
{
    (void)state;
    char story[400];
    struct amqp_stage stage;
    struct waited_call open = {0}, declare = {0};
    amqp_stage_set(&stage);
    amqp_peer_hold(stage.peer, AMQP_CONNECTION_OPEN, 1);
    stage.rabbit = coney_amqp_open(amqp_peer_uri(stage.peer), &stage.options, waited_call_of(&open, 0));
    assert_non_null(stage.rabbit);
    amqp_peer_wait_count(stage.peer, AMQP_CONNECTION_OPEN, 1);
    assert_int_equal(amqp_stage_declare(&stage, "q", waited_call_of(&declare, 0)), CONEY_OK);
    coney_call soon = {.deadline = scaled_ns(50)};
    assert_int_equal(amqp_stage_declare(&stage, "r", &soon), CONEY_ETIMEDOUT);
    amqp_peer_story(stage.peer, 0, PEER_ALL, story, sizeof story);
    assert_string_equal(story, "connection.start-ok connection.tune-ok connection.open");
    amqp_peer_release(stage.peer, AMQP_CONNECTION_OPEN);
    assert_int_equal(waited_call_wait(&open), CONEY_OK);
    assert_int_equal(waited_call_wait(&declare), CONEY_OK);
    amqp_stage_down(&stage);
    waited_call_free(&open);
    waited_call_free(&declare);
}

static void F10_an_environment_can_be_closed_at_any_step_of_the_log_in(void **state)
{
    (void)state;
    for (size_t i = 0; i < STEPS; i++) {
        struct amqp_stage stage;
        struct waited_call open = {0};
        amqp_stage_set(&stage);
        amqp_peer_ignore(stage.peer, steps[i], PEER_EVERY);
        stage.rabbit = coney_amqp_open(amqp_peer_uri(stage.peer), &stage.options, waited_call_of(&open, 0));
        assert_non_null(stage.rabbit);
        amqp_peer_wait_count(stage.peer, steps[i], 1);
        assert_int_equal(coney_amqp_close(&stage.rabbit, NULL), CONEY_OK);
        assert_int_equal(waited_call_wait(&open), CONEY_ECLOSED);
        assert_int_equal(waited_call_count(&open), 1);
        amqp_stage_down(&stage);
        waited_call_free(&open);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_the_log_in_is_that_of_the_protocol),
        cmocka_unit_test(K01_a_heartbeat_is_the_brokers_the_shorter_or_off),
        cmocka_unit_test(channel_max_and_frame_max_are_the_lower_and_zero_is_no_limit),
        cmocka_unit_test(D03_frames_that_are_too_small_for_the_protocol_are_no_offer),
        cmocka_unit_test(D04_less_than_a_new_broker_takes_is_not_asked_for),
        cmocka_unit_test(D07_an_end_at_any_step_of_the_log_in_is_told_at_once),
        cmocka_unit_test(D08_silence_at_any_step_of_the_log_in_ends_with_the_deadline),
        cmocka_unit_test(D09_a_broker_that_closes_during_the_log_in_is_tried_again),
        cmocka_unit_test(D09_an_environment_that_keeps_trying_works_once_the_broker_lets_it_in),
        cmocka_unit_test(D10_a_mechanism_is_matched_whole_and_answered_in_its_own_form),
        cmocka_unit_test(D10_a_mechanism_that_is_not_offered_is_told_before_anything_is_answered),
        cmocka_unit_test(the_virtual_host_is_that_of_the_uri),
        cmocka_unit_test(a_method_out_of_turn_ends_the_log_in),
        cmocka_unit_test(a_port_that_speaks_something_else_is_told_by_its_name),
        cmocka_unit_test(F10_an_environment_can_be_closed_at_any_step_of_the_log_in),
        cmocka_unit_test(L09_calls_made_during_the_log_in_wait_and_only_the_log_in_is_on_the_wire),
    };
    return run_tests(tests);
}
