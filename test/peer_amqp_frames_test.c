/* Frames and contents of a hostile or careless broker, against the whole client. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include "proto/amqp091/publish.h"

enum { MIB = 1 << 20 };

/* A frame's head, as it stands. */
static coney_bytes head_of(uint8_t type, uint16_t channel, uint32_t size)
{
    static uint8_t head[AMQP_HEAD_BYTES];
    amqp_frame_head_write(head, type, channel, size);
    return coney_bytes_of(head, sizeof head);
}

/* The control connection is lost, and the sentence says why. */
static void is_lost(struct amqp_stage *stage, size_t nth, const char *words)
{
    struct event event = events_wait(&stage->events, CONEY_EVENT_DISCONNECTED, nth);
    assert_int_equal(event.status, CONEY_EPROTOCOL);
    assert_says(event.text, words);
}

static void recovers(struct amqp_stage *stage)
{
    coney_call call = {0};
    if (amqp_stage_declare(stage, "afterwards", &call) != CONEY_OK)
        fail_msg("nothing works any more: %s", call.text);
}

/* The parser ------------------------------------------------------------------------------------------------------- */

static void A02_a_frame_of_wild_size_ends_the_connection_on_its_head_alone(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0xffffffff, 0xfffffff8, 0xfffffff7, 0x80000000, 0x7fffffff};
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char words[80];
        snprintf(words, sizeof words, "size field says %u bytes", sizes[i]);
        amqp_peer_send_bytes(stage.peer, amqp_peer_connection(stage.peer, "control"), head_of(AMQP_FRAME_METHOD, 1, sizes[i]));
        is_lost(&stage, i, words);
        recovers(&stage);
    }
    amqp_stage_down(&stage);
}

struct closing {
    struct monitor monitor;
    size_t closed;
    coney_status status;
    uint32_t code;
    char text[512];
};

static void on_closed(void *ctx, coney_status status, uint32_t code, const char *text)
{
    struct closing *closing = ctx;
    monitor_lock(&closing->monitor);
    closing->closed++;
    closing->status = status;
    closing->code = code;
    snprintf(closing->text, sizeof closing->text, "%s", text);
    monitor_broadcast(&closing->monitor);
    monitor_unlock(&closing->monitor);
}

static void closing_wait(struct closing *closing)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&closing->monitor);
    while (closing->closed == 0 && monitor_wait(&closing->monitor, until))
        ;
    size_t closed = closing->closed;
    monitor_unlock(&closing->monitor);
    assert_int_equal(closed, 1);
}

static coney_amqp_channel *raw_channel(struct amqp_stage *stage, struct closing *closing)
{
    coney_call call = {0};
    coney_amqp_channel_options options = {.on_closed = on_closed, .ctx = closing};
    coney_amqp_channel *channel = coney_amqp_channel_open(stage->rabbit, &options, &call);
    if (channel == NULL)
        fail_msg("no channel: %s", call.text);
    return channel;
}

static void A05_the_first_error_holds_and_nothing_is_read_or_written_after_it(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct closing closing = {0};
    coney_call call = {0};
    amqp_stage_set(&stage);
    stage.options.no_recovery = true;
    amqp_stage_open(&stage);
    coney_amqp_channel *channel = raw_channel(&stage, &closing);
    uint8_t bytes[1007];
    memset(bytes, AMQP_FRAME_METHOD, sizeof bytes);
    amqp_frame_head_write(bytes, AMQP_FRAME_METHOD, 1, 200000);
    amqp_peer_send_bytes(stage.peer, 0, coney_bytes_of(bytes, sizeof bytes));
    closing_wait(&closing);
    assert_int_equal(closing.status, CONEY_EPROTOCOL);
    assert_says(closing.text, "200000 bytes");
    const coney_amqp_method select = {
        .class_id = 85, .method_id = 10, .fields = &(coney_value){.type = CONEY_VALUE_BOOL}, .field_count = 1};
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(coney_amqp_channel_call(channel, &select, NULL, &call), CONEY_OK);
        assert_says(call.text, "200000 bytes");
    }
    assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
    amqp_peer_wait_open(stage.peer, 0);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_CONFIRM_SELECT), 0);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_CHANNEL_CLOSE), 0);
    assert_int_equal(closing.closed, 1);
    amqp_stage_down(&stage);
    monitor_free(&closing.monitor);
}

static void A16_half_a_frame_at_a_deadline_is_not_thrown_away(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    uint8_t answer[64];
    struct amqp_method ok = {.id = AMQP_QUEUE_DECLARE_OK, .queue_declare_ok = {.queue = CONEY_STR("q")}};
    size_t len = amqp_encode(1, &ok, answer, sizeof answer);
    amqp_peer_raw_at(stage.peer, AMQP_QUEUE_DECLARE, 1, coney_bytes_of(answer, 5));
    amqp_peer_hold(stage.peer, AMQP_CHANNEL_CLOSE, 1); /* its answer must not come inside the frame */
    struct waited_call call = {0};
    assert_int_equal(amqp_stage_declare(&stage, "q", waited_call_of(&call, scaled_ms(500))), CONEY_OK);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 1);
    assert_int_equal(waited_call_wait(&call), CONEY_ETIMEDOUT);
    amqp_peer_send_bytes(stage.peer, 0, coney_bytes_of(answer + 5, len - 5));
    amqp_peer_release(stage.peer, AMQP_CHANNEL_CLOSE);
    recovers(&stage);
    assert_int_equal(amqp_peer_accepted(stage.peer), 1);
    waited_call_free(&call);
    amqp_stage_down(&stage);
}

/* Faults of frames and of their order ------------------------------------------------------------------------------- */

struct fault {
    const char *words;
    size_t len;
    uint8_t bytes[80];
};

/* On channel 1, which is open. */
static const struct fault faults[] = {
    {"heartbeat came on channel 1", 8, {8, 0, 1, 0, 0, 0, 0, 0xce}},
    {"heartbeat has a payload", 9, {8, 0, 0, 0, 0, 0, 1, 0, 0xce}},
    {"does not end with the octet 0xCE", 12, {1, 0, 1, 0, 0, 0, 4, 0, 50, 0, 11, 0xcd}},
    {"type 4", 8, {4, 0, 1, 0, 0, 0, 0, 0xce}},
    {"type 0", 8, {0, 0, 1, 0, 0, 0, 0, 0xce}},
    {"channel 9, which is not open", 12, {1, 0, 9, 0, 0, 0, 4, 0, 50, 0, 51, 0xce}},
    {"a body frame came without a content header", 9, {3, 0, 1, 0, 0, 0, 1, 'x', 0xce}},
    {"a content header came without a method", 22, {2, 0, 1, 0, 0, 0, 14, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xce}},
    {"basic.qos-ok answers nothing that was asked", 12, {1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 11, 0xce}},
    {"method.id", 12, {1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 99, 0xce}},
    {"channel 0", 12, {1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 41, 0xce}},
};

static void A18_each_breach_by_the_broker_ends_the_connection_with_its_own_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct amqp_stage stage;
        struct closing closing = {0};
        amqp_stage_up(&stage);
        coney_amqp_channel *channel = raw_channel(&stage, &closing);
        amqp_peer_send_bytes(stage.peer, 0, coney_bytes_of(faults[i].bytes, faults[i].len));
        is_lost(&stage, 0, faults[i].words);
        closing_wait(&closing);
        recovers(&stage);
        coney_amqp_channel_close(&channel, NULL);
        amqp_stage_down(&stage);
        monitor_free(&closing.monitor);
    }
}

/* deliver, header, body: the parts as they are asked for, on the consumer's channel. */
struct parts {
    uint64_t declared;
    size_t first_body;  /* bytes of the first body frame; 0: none */
    bool second_header; /* behind it */
    bool method;        /* behind it */
    size_t second_body; /* behind that */
};

static void push(uint8_t **at, uint8_t type, uint16_t channel, const void *payload, size_t len)
{
    uint8_t *to = amqp_frame_head_write(*at, type, channel, (uint32_t)len);
    memcpy(to, payload, len);
    to[len] = AMQP_END;
    *at = to + len + 1;
}

static void send_parts(struct amqp_peer *peer, const struct parts *parts)
{
    static uint8_t bytes[400000];
    static const uint8_t body[140000];
    struct amqp_peer_place place = amqp_peer_consumer(peer, "q");
    struct amqp_method deliver = {.id = AMQP_BASIC_DELIVER,
                                  .basic_deliver = {.consumer_tag = CONEY_STR("t"), .delivery_tag = 1}};
    uint8_t *at = bytes + amqp_encode(place.channel, &deliver, bytes, sizeof bytes);
    uint8_t header[AMQP_HEADER_LEAST] = {0, AMQP_CLASS_BASIC};
    store64(header + 4, parts->declared);
    push(&at, AMQP_FRAME_HEADER, place.channel, header, sizeof header);
    if (parts->first_body > 0)
        push(&at, AMQP_FRAME_BODY, place.channel, body, parts->first_body);
    if (parts->second_header)
        push(&at, AMQP_FRAME_HEADER, place.channel, header, sizeof header);
    if (parts->method)
        push(&at, AMQP_FRAME_METHOD, place.channel, "\0\74\0\13", 4);
    if (parts->second_body > 0)
        push(&at, AMQP_FRAME_BODY, place.channel, body, parts->second_body);
    amqp_peer_send_bytes(peer, place.connection, coney_bytes_of(bytes, (size_t)(at - bytes)));
}

/* A consumer that gets a message in such parts loses its connection with these words, and gets the next message after it is back. */
static void parts_are_refused(const struct parts *parts, const char *words, int64_t max_message)
{
    struct amqp_stage stage;
    struct parcels parcels = {0};
    amqp_stage_set(&stage);
    stage.options.max_message = max_message;
    amqp_stage_open(&stage);
    coney_amqp_consumer_options options = {.tag = "t"};
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, &options);
    send_parts(stage.peer, parts);
    is_lost(&stage, 0, words);
    events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
    amqp_peer_deliver(stage.peer, "q", 7, 1);
    parcels_wait(&parcels, 1);
    assert_int_equal(parcels_of(&parcels, 0).number, 7);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void A18_content_out_of_order_ends_the_connection_with_its_own_reason(void **state)
{
    (void)state;
    parts_are_refused(&(struct parts){.declared = 20, .first_body = 10, .second_header = true},
                      "a content header came inside a body", 0);
    parts_are_refused(&(struct parts){.declared = 20, .first_body = 10, .method = true}, "a method came inside the content", 0);
    parts_are_refused(&(struct parts){.declared = 20, .first_body = 30}, "more body than its content header says", 0);
    parts_are_refused(&(struct parts){.declared = 20, .first_body = 10, .second_body = 11},
                      "more body than its content header says", 0);
    parts_are_refused(&(struct parts){.declared = 0, .first_body = 1}, "a body frame came without a content header", 0);
}

static void A12_a_body_size_with_its_top_bit_set_ends_the_connection(void **state)
{
    (void)state;
    parts_are_refused(&(struct parts){.declared = UINT64_C(1) << 63, .first_body = 10}, "a body size beyond 2^63", 0);
    parts_are_refused(&(struct parts){.declared = UINT64_MAX, .first_body = 10}, "a body size beyond 2^63", 0);
}

static void A14_a_message_over_the_limit_is_refused_on_its_header_with_size_and_limit(void **state)
{
    (void)state;
    parts_are_refused(&(struct parts){.declared = MIB + 1}, "a message of 1048577 bytes: at most 1048576", MIB);
    parts_are_refused(&(struct parts){.declared = (128u << 20) + 1}, "a message of 134217729 bytes: at most 134217728", 0);
    parts_are_refused(&(struct parts){.declared = 5000, .first_body = 5000}, "a message of 5000 bytes: at most 4999", 4999);
}

static void A13_the_limit_holds_also_when_frames_have_none(void **state)
{
    (void)state;
    static const uint32_t frame_max[] = {0, 0x80000000, 0xffffffff};
    static uint8_t body[2 * MIB];
    for (size_t i = 0; i < sizeof frame_max / sizeof frame_max[0]; i++) {
        struct amqp_stage stage;
        struct parcels parcels = {0};
        amqp_stage_set(&stage);
        stage.options.max_message = MIB;
        amqp_peer_set_tune(stage.peer, 2047, frame_max[i], 60);
        amqp_stage_open(&stage);
        assert_int_equal(amqp_peer_expect(stage.peer, AMQP_CONNECTION_TUNE_OK)->method.connection_tune.frame_max, 131072);
        coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
        assert_true(amqp_peer_deliver_content(stage.peer, "q", coney_bytes_of(NULL, 0), coney_bytes_of(body, sizeof body),
                                              sizeof body));
        is_lost(&stage, 0, "at most");
        events_wait(&stage.events, CONEY_EVENT_RECOVERED, 0);
        assert_int_equal(parcels_count(&parcels), 0);
        warren_close_consumer(&consumer);
        amqp_stage_down(&stage);
        parcels_free(&parcels);
    }
}

/* Sizes that we send ------------------------------------------------------------------------------------------------ */

static void A04_a_body_one_byte_over_a_frame_goes_out_in_two(void **state)
{
    (void)state;
    static uint8_t body[3 * AMQP_FRAME_MAX_DEFAULT];
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_up(&stage);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)(i * 7 + i / 251);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    static const size_t sizes[] = {AMQP_FRAME_MAX_DEFAULT - 9,       AMQP_FRAME_MAX_DEFAULT - 8,
                                   AMQP_FRAME_MAX_DEFAULT - 7,       AMQP_FRAME_MAX_DEFAULT,
                                   2 * (AMQP_FRAME_MAX_DEFAULT - 8), 2 * (AMQP_FRAME_MAX_DEFAULT - 8) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        coney_amqp_message message = {.body = coney_bytes_of(body, sizes[i]), .tag = i};
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
    outcomes_wait(&outcomes, sizeof sizes / sizeof sizes[0]);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_true(bytes_equal(amqp_peer_message_of(stage.peer, i).body, coney_bytes_of(body, sizes[i])));
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

static void C06_a_broker_without_a_limit_on_frames_gets_pieces_of_the_default_size(void **state)
{
    (void)state;
    static uint8_t body[300000];
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    amqp_stage_set(&stage);
    amqp_peer_set_tune(stage.peer, 0, 0, 0);
    amqp_stage_open(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    coney_amqp_message message = {.body = coney_bytes_of(body, sizeof body)};
    assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    outcomes_wait(&outcomes, 1);
    assert_int_equal(amqp_peer_message_of(stage.peer, 0).body.len, sizeof body);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

static void C05_properties_that_fit_no_frame_cost_their_message_only(void **state)
{
    (void)state;
    static char large[5000];
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    memset(large, 'x', sizeof large);
    amqp_stage_set(&stage);
    amqp_peer_set_start(stage.peer, "3.13.7", NULL);
    amqp_peer_set_tune(stage.peer, 2047, 4096, 60);
    amqp_stage_open(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    const coney_field header = {CONEY_STR("h"), coney_value_string(coney_bytes_of(large, sizeof large))};
    coney_amqp_message with_header = {.body = CONEY_STR("x"), .headers = &header, .header_count = 1};
    amqp_publish_numbered(publisher, 0, 1);
    assert_int_equal(coney_amqp_publish(publisher, &with_header), CONEY_ETOOBIG);
    amqp_publish_numbered(publisher, 1, 1);
    outcomes_wait(&outcomes, 2);
    outcomes_are_in_order(&outcomes, 0, 2);
    assert_int_equal(amqp_peer_message_of(stage.peer, 1).tag, 2);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    outcomes_free(&outcomes);
}

/* What was received and how long it lives ---------------------------------------------------------------------------- */

static coney_settle keep_the_first(void *ctx, const coney_amqp_delivery *delivery, size_t nth)
{
    coney_kept **kept = ctx;
    if (nth > 0)
        return CONEY_ACK;
    *kept = coney_amqp_keep(delivery);
    return CONEY_KEPT;
}

/* Two octets of flags, and a table of one string. */
static const uint8_t with_header[] = {0x20, 0, 0, 0, 0, 8, 1, 'h', 'S', 0, 0, 0, 1, 'v'};

static void A19_a_name_and_a_kept_value_stay_as_they_were(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    coney_kept *kept = NULL;
    coney_call call = {0};
    amqp_stage_up(&stage);
    coney_amqp_queue_info info;
    coney_amqp_queue queue = {.info = &info};
    assert_int_equal(coney_amqp_queue_declare(stage.rabbit, &queue, &call), CONEY_OK);
    char name[256];
    snprintf(name, sizeof name, "%s", info.name);
    parcels.decide = keep_the_first;
    parcels.decide_ctx = &kept;
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    assert_true(
        amqp_peer_deliver_content(stage.peer, "q", coney_bytes_of(with_header, sizeof with_header), CONEY_STR("m0"), 0));
    amqp_peer_deliver(stage.peer, "q", 1, 1);
    parcels_wait(&parcels, 2); /* the second comes when the first has been kept */
    coney_value value;
    assert_true(coney_amqp_delivery_header(coney_amqp_kept_delivery(kept), CONEY_STR("h"), &value));
    amqp_peer_deliver(stage.peer, "q", 2, 999);
    parcels_wait(&parcels, 1001);
    assert_true(bytes_equal(value.as.bytes, CONEY_STR("v")));
    assert_true(bytes_equal(coney_amqp_kept_delivery(kept)->body, CONEY_STR("m0")));
    assert_string_equal(info.name, name);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void A21_what_a_failed_call_was_to_give_is_nothing_and_may_be_settled_twice(void **state)
{
    (void)state;
    struct amqp_stage stage;
    amqp_stage_up(&stage);
    coney_kept *kept = (coney_kept *)&stage; /* not to be looked at */
    amqp_peer_ignore(stage.peer, AMQP_BASIC_GET, 1);
    coney_call call = {.deadline = scaled_ns(60)};
    assert_int_equal(coney_amqp_get(stage.rabbit, "q", &kept, &call), CONEY_ETIMEDOUT);
    assert_null(kept);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    amqp_stage_down(&stage);
}

static void B10_headers_with_an_unknown_tag_cost_their_message_and_a_methods_table_the_connection(void **state)
{
    (void)state;
    static const uint8_t unknown[] = {0x20, 0, 0, 0, 0, 4, 1, 'h', 'Z', 1};
    struct amqp_stage stage;
    struct parcels parcels = {0};
    coney_kept *kept = NULL;
    amqp_stage_up(&stage);
    parcels.decide = keep_the_first;
    parcels.decide_ctx = &kept;
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    assert_true(amqp_peer_deliver_content(stage.peer, "q", coney_bytes_of(unknown, sizeof unknown), CONEY_STR("m0"), 0));
    amqp_peer_deliver(stage.peer, "q", 1, 1);
    parcels_wait(&parcels, 2);
    coney_amqp_properties properties;
    assert_int_equal(coney_amqp_delivery_properties(coney_amqp_kept_delivery(kept), &properties), CONEY_ECORRUPT);
    assert_int_equal(coney_kept_settle(&kept, CONEY_REJECT), CONEY_OK);
    warren_close_consumer(&consumer);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);

    static const uint8_t start[] = {1, 0, 0, 0,   0,   0, 22, 0, 10, 0, 10, 0, 9, 0, 0,
                                    0, 4, 1, 'k', 'Z', 0, 0,  0, 0,  0, 0,  0, 0, 0, 0xce};
    amqp_stage_down(&stage);
    amqp_stage_set(&stage);
    amqp_peer_raw_at(stage.peer, AMQP_PEER_GREETING, 1, coney_bytes_of(start, sizeof start));
    amqp_stage_refused(&stage, CONEY_EPROTOCOL, "table tag 0x5a");
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

static void a_content_in_pieces_of_any_size_is_put_together(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct parcels parcels = {0};
    amqp_stage_up(&stage);
    coney_amqp_consumer *consumer = amqp_stage_consumer(&stage, "q", &parcels, NULL);
    char body[500] = "m";
    memset(body + 1, '1', sizeof body - 1);
    for (size_t piece = 1; piece < sizeof body; piece = piece * 2 + 1)
        assert_true(
            amqp_peer_deliver_content(stage.peer, "q", coney_bytes_of(NULL, 0), coney_bytes_of(body, sizeof body), piece));
    parcels_wait(&parcels, 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(parcels_of(&parcels, i).body_len, sizeof body);
    warren_close_consumer(&consumer);
    amqp_stage_down(&stage);
    parcels_free(&parcels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(A02_a_frame_of_wild_size_ends_the_connection_on_its_head_alone),
        cmocka_unit_test(A04_a_body_one_byte_over_a_frame_goes_out_in_two),
        cmocka_unit_test(A05_the_first_error_holds_and_nothing_is_read_or_written_after_it),
        cmocka_unit_test(A12_a_body_size_with_its_top_bit_set_ends_the_connection),
        cmocka_unit_test(A13_the_limit_holds_also_when_frames_have_none),
        cmocka_unit_test(A14_a_message_over_the_limit_is_refused_on_its_header_with_size_and_limit),
        cmocka_unit_test(A16_half_a_frame_at_a_deadline_is_not_thrown_away),
        cmocka_unit_test(A18_each_breach_by_the_broker_ends_the_connection_with_its_own_reason),
        cmocka_unit_test(A18_content_out_of_order_ends_the_connection_with_its_own_reason),
        cmocka_unit_test(A19_a_name_and_a_kept_value_stay_as_they_were),
        cmocka_unit_test(A21_what_a_failed_call_was_to_give_is_nothing_and_may_be_settled_twice),
        cmocka_unit_test(B10_headers_with_an_unknown_tag_cost_their_message_and_a_methods_table_the_connection),
        cmocka_unit_test(C05_properties_that_fit_no_frame_cost_their_message_only),
        cmocka_unit_test(C06_a_broker_without_a_limit_on_frames_gets_pieces_of_the_default_size),
        cmocka_unit_test(a_content_in_pieces_of_any_size_is_put_together),
    };
    return run_tests(tests);
}
