#include "proto/amqp091/layout.h"
#include "proto/amqp091/samples.h"
#include "proto/amqp091/table.h"
#include "proto/amqp091/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* What amqp_decode says about bytes that lie exactly there. */
static const char *fault_of(const char *hex)
{
    struct amqp_method method;
    coney_bytes payload = bytes_of(hex);
    const char *field = amqp_decode(payload, &method);
    release(payload);
    return field;
}

static void assert_fault(const char *hex, const char *fault)
{
    const char *field = fault_of(hex);
    assert_non_null(field);
    assert_string_equal(field, fault);
}

static void assert_bytes(coney_bytes bytes, const char *wanted)
{
    assert_int_equal(bytes.len, strlen(wanted));
    assert_memory_equal(bytes.data, wanted, bytes.len);
}

/* The frame, in memory of its size. */
static coney_bytes encoded(uint16_t channel, const struct amqp_method *method)
{
    size_t size = amqp_encode(channel, method, NULL, 0);
    assert_true(size > AMQP_FRAME_BYTES);
    uint8_t *frame = exact_room(size);
    assert_int_equal(amqp_encode(channel, method, frame, size), size);
    return coney_bytes_of(frame, size);
}

static void assert_payload(const struct amqp_method *method, coney_bytes payload)
{
    coney_bytes frame = encoded(0x0102, method);
    const uint8_t *at = frame.data;
    assert_int_equal(frame.len, payload.len + AMQP_FRAME_BYTES);
    assert_memory_equal(at, "\x01\x01\x02", 3);
    assert_int_equal(load32(at + 3), payload.len);
    assert_memory_equal(at + AMQP_HEAD_BYTES, payload.data, payload.len);
    assert_int_equal(at[frame.len - 1], AMQP_END);
    release(frame);
}

/* Every method ----------------------------------------------------------------------------------------------------- */

static void every_method_has_a_sample(void **state)
{
    (void)state;
    assert_int_equal(SAMPLES, layout_method_count);
    for (size_t i = 0; i < SAMPLES; i++)
        assert_int_equal(samples[i].method.id, layout_methods[i].id);
}

static void every_method_is_written_as_the_protocol_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        coney_bytes payload = bytes_of(samples[i].payload);
        assert_payload(&samples[i].method, payload);
        release(payload);
    }
}

static void every_method_is_read_into_what_was_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        struct amqp_method method;
        coney_bytes payload = bytes_of(samples[i].payload);
        assert_null(amqp_decode(payload, &method));
        assert_int_equal(method.id, samples[i].method.id);
        assert_payload(&method, payload);
        release(payload);
    }
}

static void a_method_cut_anywhere_is_refused_with_the_field_that_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        coney_bytes payload = bytes_of(samples[i].payload);
        for (size_t len = 0; len < payload.len; len++) {
            struct amqp_method method;
            coney_bytes cut = exact_copy(payload.data, len);
            const char *field = amqp_decode(cut, &method);
            assert_non_null(field);
            if (len < 4)
                assert_string_equal(field, "method.id");
            else
                assert_non_null(strchr(field, '.'));
            release(cut);
        }
        release(payload);
    }
}

static void a_method_with_a_byte_too_many_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        char longer[512];
        snprintf(longer, sizeof longer, "%s 00", samples[i].payload);
        assert_fault(longer, "method.end");
    }
}

static void room_that_is_too_small_stays_untouched_and_the_need_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t size = amqp_encode(1, &samples[i].method, NULL, 0);
        uint8_t *room = exact_room(size - 1);
        memset(room, 0xee, size - 1);
        assert_int_equal(amqp_encode(1, &samples[i].method, room, size - 1), size);
        for (size_t at = 0; at < size - 1; at++)
            assert_int_equal(room[at], 0xee);
        free(room);
    }
}

static void an_unknown_method_is_refused_both_ways(void **state)
{
    (void)state;
    assert_fault("003c 0029", "method.id");
    assert_fault("0028 0029", "method.id"); /* exchange.unbind is answered by 51 */
    assert_fault("ffff ffff", "method.id");
    assert_int_equal(amqp_encode(1, &(struct amqp_method){.id = 7}, NULL, 0), 0);
    assert_string_equal(amqp_method_name(7), "unknown method");
    assert_false(amqp_method_from(7, AMQP_FROM_CLIENT));
    assert_false(amqp_method_has_content(7));
    assert_false(amqp_is_request(7));
    assert_false(amqp_answers(7, 0));
}

/* Fields ----------------------------------------------------------------------------------------------------------- */

static void each_field_is_read_into_its_own_place(void **state)
{
    (void)state;
    struct amqp_method m;
    coney_bytes deliver = bytes_of("003c 003c 02'me' 0000000000000102 01 01'x' 03'key'");
    assert_null(amqp_decode(deliver, &m));
    assert_bytes(m.basic_deliver.consumer_tag, "me");
    assert_true(m.basic_deliver.delivery_tag == 258);
    assert_true(m.basic_deliver.redelivered);
    assert_bytes(m.basic_deliver.exchange, "x");
    assert_bytes(m.basic_deliver.routing_key, "key");
    release(deliver);

    coney_bytes declare = bytes_of("0032 000a ffff 01'q' 15" TABLE_HEX);
    assert_null(amqp_decode(declare, &m));
    assert_bytes(m.queue_declare.queue, "q");
    assert_true(m.queue_declare.passive && m.queue_declare.exclusive && m.queue_declare.nowait);
    assert_false(m.queue_declare.durable || m.queue_declare.auto_delete);
    coney_value number;
    assert_true(coney_value_find(&m.queue_declare.arguments, CONEY_STR("a"), &number));
    assert_int_equal(number.type, CONEY_VALUE_I32);
    assert_int_equal(number.as.i64, 5);
    release(declare);
}

static void bits_beyond_those_of_the_method_are_passed_over(void **state)
{
    (void)state;
    struct amqp_method m;
    coney_bytes nack = bytes_of("003c 0078 0000000000000007 fd");
    assert_null(amqp_decode(nack, &m));
    assert_true(m.basic_nack.multiple);
    assert_false(m.basic_nack.requeue);
    release(nack);
}

static void I04_a_nack_ends_in_01_for_multiple_and_02_for_requeue(void **state)
{
    (void)state;
    struct amqp_method m = {.id = AMQP_BASIC_NACK, .basic_nack = {.delivery_tag = 7, .multiple = true}};
    coney_bytes frame = encoded(1, &m);
    assert_int_equal(((const uint8_t *)frame.data)[19], 1);
    release(frame);
    m.basic_nack.multiple = false;
    m.basic_nack.requeue = true;
    frame = encoded(1, &m);
    assert_int_equal(((const uint8_t *)frame.data)[19], 2);
    release(frame);
}

static void C08_a_short_string_of_255_bytes_goes_and_one_of_256_or_300_has_no_form(void **state)
{
    (void)state;
    static const char bytes[300];
    static const size_t lengths[] = {255, 256, 300};
    for (size_t i = 0; i < 3; i++) {
        coney_bytes name = coney_bytes_of(bytes, lengths[i]);
        const struct amqp_method methods[] = {
            {.id = AMQP_BASIC_PUBLISH, .basic_publish.routing_key = name},
            {.id = AMQP_BASIC_PUBLISH, .basic_publish.exchange = name},
            {.id = AMQP_QUEUE_DECLARE, .queue_declare.queue = name},
            {.id = AMQP_EXCHANGE_DECLARE, .exchange_declare.exchange = name},
            {.id = AMQP_BASIC_CONSUME, .basic_consume.consumer_tag = name},
            {.id = AMQP_CONNECTION_CLOSE, .close.text = name},
        };
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
            assert_int_equal(amqp_encode(1, &methods[m], NULL, 0) > 0, lengths[i] <= 255);
    }
    char umlauts[256];
    for (size_t i = 0; i < sizeof umlauts; i += 2)
        memcpy(umlauts + i, "\xc3\xa4", 2);
    struct amqp_method publish = {.id = AMQP_BASIC_PUBLISH, .basic_publish.routing_key = {umlauts, sizeof umlauts}};
    assert_int_equal(amqp_encode(1, &publish, NULL, 0), 0);
}

static void A09_a_length_that_promises_more_than_the_frame_holds_is_refused(void **state)
{
    (void)state;
    assert_fault("003c 0015 ff 'ab'", "basic_consumer.consumer_tag");
    assert_fault("000a 0014 7ffffff0 'abc'", "connection_secure.challenge");
    assert_fault("000a 0014 ffffffff", "connection_secure.challenge");
    assert_fault("0032 000a 0000 00 00 00000008 01'a' 'I' 00000005", "queue_declare.arguments");
    assert_fault("0032 000a 0000 00 00 00000007 01'a' 'S' 7ffffff0 'a'", "queue_declare.arguments");
}

static void B10_an_unknown_tag_in_a_methods_table_is_named(void **state)
{
    (void)state;
    assert_fault("0032 000a 0000 00 00 00000004 01'a' 'Z' 00", "table tag 0x5a");
    assert_fault("000a 000a 00 09 00000003 01'a' 'U' 00000000 00000000", "table tag 0x55");
}

static void an_empty_table_is_written_for_null(void **state)
{
    (void)state;
    struct amqp_method m = {.id = AMQP_QUEUE_UNBIND, .queue_unbind.queue = CONEY_STR("q")};
    coney_bytes wanted = bytes_of("0032 0032 0000 01'q' 00 00 00000000");
    assert_payload(&m, wanted);
    release(wanted);
}

static void what_is_no_table_has_no_form_where_a_table_stands(void **state)
{
    (void)state;
    coney_value damaged = amqp_table_value("\001aZ", 3, 1);
    coney_value foreign = damaged;
    foreign.encoding = CONEY_ENCODING_AMQP10;
    const coney_value wrong[] = {damaged, foreign, coney_value_string(CONEY_STR("table")), coney_value_i64(1)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct amqp_method m = {.id = AMQP_QUEUE_DECLARE, .queue_declare.arguments = wrong[i]};
        assert_int_equal(amqp_encode(1, &m, NULL, 0), 0);
    }
}

/* The table of methods --------------------------------------------------------------------------------------------- */

static void every_request_has_its_answers_and_no_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < layout_method_count; i++) {
        for (size_t j = 0; j < layout_method_count; j++) {
            const char *request = layout_methods[i].name;
            const char *answer = layout_methods[j].name;
            char ok[64];
            snprintf(ok, sizeof ok, "%s-ok", request);
            bool wanted =
                strcmp(answer, ok) == 0 || (strcmp(request, "basic.get") == 0 && strcmp(answer, "basic.get-empty") == 0);
            assert_int_equal(amqp_answers(layout_methods[i].id, layout_methods[j].id), wanted);
        }
    }
}

static void what_waits_for_an_answer_is_what_has_one(void **state)
{
    (void)state;
    assert_true(amqp_is_request(AMQP_QUEUE_DECLARE));
    assert_true(amqp_is_request(AMQP_BASIC_GET));
    assert_false(amqp_is_request(AMQP_BASIC_PUBLISH));
    assert_false(amqp_is_request(AMQP_BASIC_RECOVER_ASYNC));
    assert_false(amqp_is_request(AMQP_QUEUE_DECLARE_OK));
}

static void each_side_sends_its_own_methods(void **state)
{
    (void)state;
    static const uint32_t both[] = {AMQP_CONNECTION_CLOSE, AMQP_CONNECTION_CLOSE_OK, AMQP_CHANNEL_CLOSE, AMQP_CHANNEL_CLOSE_OK,
                                    AMQP_CHANNEL_FLOW,     AMQP_CHANNEL_FLOW_OK,     AMQP_BASIC_CANCEL,  AMQP_BASIC_CANCEL_OK,
                                    AMQP_BASIC_ACK,        AMQP_BASIC_NACK};
    for (size_t i = 0; i < layout_method_count; i++) {
        uint32_t id = layout_methods[i].id;
        bool either = false;
        for (size_t b = 0; b < sizeof both / sizeof *both; b++)
            either |= both[b] == id;
        assert_int_equal(amqp_method_from(id, AMQP_FROM_SERVER) && amqp_method_from(id, AMQP_FROM_CLIENT), either);
        assert_true(amqp_method_from(id, AMQP_FROM_SERVER) || amqp_method_from(id, AMQP_FROM_CLIENT));
    }
    assert_true(amqp_method_from(AMQP_BASIC_DELIVER, AMQP_FROM_SERVER));
    assert_false(amqp_method_from(AMQP_BASIC_DELIVER, AMQP_FROM_CLIENT));
    assert_false(amqp_method_from(AMQP_BASIC_PUBLISH, AMQP_FROM_SERVER));
    assert_true(amqp_method_from(AMQP_CONNECTION_START_OK, AMQP_FROM_CLIENT));
    assert_true(amqp_method_from(AMQP_CONNECTION_TUNE, AMQP_FROM_SERVER));
}

static void four_methods_carry_content(void **state)
{
    (void)state;
    for (size_t i = 0; i < layout_method_count; i++) {
        uint32_t id = layout_methods[i].id;
        bool wanted =
            id == AMQP_BASIC_PUBLISH || id == AMQP_BASIC_RETURN || id == AMQP_BASIC_DELIVER || id == AMQP_BASIC_GET_OK;
        assert_int_equal(amqp_method_has_content(id), wanted);
    }
}

static void a_bare_method_is_the_frame_that_the_codec_writes(void **state)
{
    (void)state;
    uint8_t bare[AMQP_BARE_BYTES];
    amqp_bare_write(bare, 0x0102, AMQP_CHANNEL_CLOSE_OK);
    coney_bytes frame = encoded(0x0102, &(struct amqp_method){.id = AMQP_CHANNEL_CLOSE_OK});
    assert_int_equal(frame.len, AMQP_BARE_BYTES);
    assert_memory_equal(bare, frame.data, frame.len);
    release(frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_has_a_sample),
        cmocka_unit_test(every_method_is_written_as_the_protocol_says),
        cmocka_unit_test(every_method_is_read_into_what_was_written),
        cmocka_unit_test(a_method_cut_anywhere_is_refused_with_the_field_that_is_missing),
        cmocka_unit_test(a_method_with_a_byte_too_many_is_refused),
        cmocka_unit_test(room_that_is_too_small_stays_untouched_and_the_need_is_told),
        cmocka_unit_test(an_unknown_method_is_refused_both_ways),
        cmocka_unit_test(each_field_is_read_into_its_own_place),
        cmocka_unit_test(bits_beyond_those_of_the_method_are_passed_over),
        cmocka_unit_test(I04_a_nack_ends_in_01_for_multiple_and_02_for_requeue),
        cmocka_unit_test(C08_a_short_string_of_255_bytes_goes_and_one_of_256_or_300_has_no_form),
        cmocka_unit_test(A09_a_length_that_promises_more_than_the_frame_holds_is_refused),
        cmocka_unit_test(B10_an_unknown_tag_in_a_methods_table_is_named),
        cmocka_unit_test(an_empty_table_is_written_for_null),
        cmocka_unit_test(what_is_no_table_has_no_form_where_a_table_stands),
        cmocka_unit_test(every_request_has_its_answers_and_no_other),
        cmocka_unit_test(what_waits_for_an_answer_is_what_has_one),
        cmocka_unit_test(each_side_sends_its_own_methods),
        cmocka_unit_test(four_methods_carry_content),
        cmocka_unit_test(a_bare_method_is_the_frame_that_the_codec_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
