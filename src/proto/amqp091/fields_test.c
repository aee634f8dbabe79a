#include "proto/amqp091/fields.h"

#include "proto/amqp091/samples.h"
#include "proto/amqp091/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void every_method_goes_through_its_values_unchanged(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        coney_value values[AMQP_FIELDS_MOST];
        struct amqp_method again;
        uint8_t frame[256];
        coney_bytes payload = bytes_of(samples[i].payload);
        size_t count = amqp_fields_of(&samples[i].method, values);
        assert_null(amqp_method_of_fields(samples[i].method.id, values, count, &again));
        assert_int_equal(amqp_encode(1, &again, frame, sizeof frame), payload.len + AMQP_FRAME_BYTES);
        assert_memory_equal(frame + AMQP_HEAD_BYTES, payload.data, payload.len);
        release(payload);
    }
}

static void values_stand_in_the_order_of_the_specification_with_what_is_reserved(void **state)
{
    (void)state;
    const struct amqp_method get = {.id = AMQP_BASIC_GET, .basic_get = {CONEY_STR("q"), true}};
    coney_value values[AMQP_FIELDS_MOST];
    assert_int_equal(amqp_fields_of(&get, values), 3);
    assert_int_equal(values[0].type, CONEY_VALUE_U16);
    assert_true(bytes_equal(values[1].as.bytes, CONEY_STR("q")));
    assert_true(values[2].as.boolean);
}

static void nulls_stand_for_zero_and_what_is_reserved_is_not_sent(void **state)
{
    (void)state;
    coney_value values[8] = {coney_value_signed(CONEY_VALUE_I32, 77)};
    struct amqp_method method;
    assert_null(amqp_method_of_fields(AMQP_QUEUE_DECLARE, values, 8, &method));
    assert_int_equal(method.queue_declare.queue.len, 0);
    assert_false(method.queue_declare.durable);
    assert_int_equal(method.queue_declare.arguments.type, CONEY_VALUE_NULL);
}

static void a_value_that_does_not_fit_its_field_is_named(void **state)
{
    (void)state;
    static const char long_name[256] = {'n'};
    struct amqp_method method;
    const coney_value zero = coney_value_null();
    const coney_value good[] = {zero, coney_value_u16(200), coney_value_bool(true)};
    const coney_value large[] = {zero, coney_value_i64(65536), zero};
    const coney_value negative[] = {coney_value_i64(-1), zero, zero};
    const coney_value number[] = {zero, zero, coney_value_i64(1)};
    assert_null(amqp_method_of_fields(AMQP_BASIC_QOS, good, 3, &method));
    assert_int_equal(method.basic_qos.prefetch_count, 200);
    assert_string_equal(amqp_method_of_fields(AMQP_BASIC_QOS, large, 3, &method), "basic_qos.prefetch_count");
    assert_string_equal(amqp_method_of_fields(AMQP_BASIC_QOS, negative, 3, &method), "basic_qos.prefetch_size");
    assert_string_equal(amqp_method_of_fields(AMQP_BASIC_QOS, number, 3, &method), "basic_qos.global");
    assert_string_equal(amqp_method_of_fields(AMQP_BASIC_QOS, good, 2, &method), "method.fields");
    assert_string_equal(amqp_method_of_fields(AMQP_TX_SELECT, good, 1, &method), "method.fields");
    assert_string_equal(amqp_method_of_fields(0x12345678, good, 3, &method), "method.id");

    const coney_value name[] = {zero, coney_value_string(coney_bytes_of(long_name, sizeof long_name)), zero};
    const coney_value no_table[] = {zero, zero, zero, zero, zero, zero, zero, coney_value_i64(1)};
    assert_string_equal(amqp_method_of_fields(AMQP_BASIC_GET, name, 3, &method), "basic_get.queue");
    assert_string_equal(amqp_method_of_fields(AMQP_QUEUE_DECLARE, no_table, 8, &method), "queue_declare.arguments");
}

static void only_a_request_without_nowait_waits(void **state)
{
    (void)state;
    struct amqp_method method = {.id = AMQP_QUEUE_DECLARE};
    assert_true(amqp_method_waits(&method));
    method.queue_declare.nowait = true;
    assert_false(amqp_method_waits(&method));
    assert_true(amqp_method_waits(&(struct amqp_method){.id = AMQP_QUEUE_UNBIND}));
    assert_false(amqp_method_waits(&(struct amqp_method){.id = AMQP_BASIC_ACK}));
    assert_false(amqp_method_waits(&(struct amqp_method){.id = 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_goes_through_its_values_unchanged),
        cmocka_unit_test(values_stand_in_the_order_of_the_specification_with_what_is_reserved),
        cmocka_unit_test(nulls_stand_for_zero_and_what_is_reserved_is_not_sent),
        cmocka_unit_test(a_value_that_does_not_fit_its_field_is_named),
        cmocka_unit_test(only_a_request_without_nowait_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
