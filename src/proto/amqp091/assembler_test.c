#include "proto/amqp091/assembler.h"
#include "proto/amqp091/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define DELIVER(channel) "01 " channel " 00000014 003c003c 00 0000000000000009 00 01'x' 03'key' ce "
#define HEADER(channel, size) "02 " channel " 0000000f 003c 0000 " size " 1000 02 ce "
#define BODY(channel, size, bytes) "03 " channel " " size " " bytes " ce "
#define ACK "01 0001 0000000d 003c0050 0000000000000001 00 ce "

enum { LIMIT = 1 << 20 };

/* A channel's assembler with its buffer, which is replaced by one of the exact size at every frame. */
struct channel {
    struct amqp_assembler assembler;
    uint8_t *buffer;
    size_t len;
};

/* Feeds whole frames one by one. NULL, or the fault; *units counts what was completed. */
static const char *feed(struct channel *c, const char *hex, unsigned *units)
{
    coney_bytes bytes = bytes_of(hex);
    const uint8_t *at = bytes.data;
    const char *fault = NULL;
    *units = 0;
    for (size_t left = bytes.len; left > 0 && fault == NULL;) {
        const char *field;
        size_t room = 0;
        size_t size = amqp_frame_size(at, left, UINT32_MAX, &field);
        assert_true(size > 0 && size <= left);
        fault = amqp_assembler_check(&c->assembler, at, size, LIMIT, &room);
        if (fault == NULL) {
            uint8_t *buffer = exact_room(room);
            if (c->assembler.len > 0)
                memcpy(buffer, c->buffer, c->assembler.len);
            free(c->buffer);
            c->buffer = buffer;
            c->len = room;
            *units += amqp_assembler_add(&c->assembler, at, size, buffer);
        }
        at += size;
        left -= size;
    }
    release(bytes);
    return fault;
}

static void assert_unit(struct channel *c, const char *frames, const char *unit)
{
    unsigned units;
    assert_null(feed(c, frames, &units));
    assert_int_equal(units, 1);
    assert_false(amqp_assembler_busy(&c->assembler));
    coney_bytes wanted = bytes_of(unit);
    assert_int_equal(c->len, wanted.len);
    assert_memory_equal(c->buffer, wanted.data, wanted.len);
    struct amqp_unit read;
    assert_true(amqp_unit_read(c->buffer, c->len, &read));
    assert_int_equal(read.id, AMQP_BASIC_DELIVER);
    release(wanted);
}

static void assert_fault(const char *frames, const char *fault)
{
    struct channel c = {0};
    unsigned units;
    const char *found = feed(&c, frames, &units);
    assert_ptr_equal(found, fault);
    free(c.buffer);
}

static void a_body_in_any_number_of_frames_becomes_one(void **state)
{
    (void)state;
    struct channel c = {0};
    const char *unit = DELIVER("0001") HEADER("0001", "0000000000000006") BODY("0001", "00000006", "'abcdef'");
    assert_unit(&c, unit, unit);
    assert_unit(&c,
                DELIVER("0001") HEADER("0001", "0000000000000006") BODY("0001", "00000004", "'abcd'")
                    BODY("0001", "00000002", "'ef'"),
                unit);
    assert_unit(&c,
                DELIVER("0001") HEADER("0001", "0000000000000006") BODY("0001", "00000001", "'a'") BODY("0001", "00000000", "")
                    BODY("0001", "00000005", "'bcdef'"),
                unit);
    free(c.buffer);
}

static void A20_an_empty_body_is_complete_with_its_header(void **state)
{
    (void)state;
    struct channel c = {0};
    const char *unit = DELIVER("0001") HEADER("0001", "0000000000000000");
    assert_unit(&c, unit, unit);
    assert_unit(&c, unit, unit);
    free(c.buffer);
}

static void channels_may_interleave(void **state)
{
    (void)state;
    struct channel one = {0}, two = {0};
    unsigned units;
    assert_null(feed(&one, DELIVER("0001"), &units));
    assert_null(feed(&two, DELIVER("0002") HEADER("0002", "0000000000000002"), &units));
    assert_null(feed(&one, HEADER("0001", "0000000000000002") BODY("0001", "00000001", "'a'"), &units));
    assert_null(feed(&two, BODY("0002", "00000002", "'xy'"), &units));
    assert_int_equal(units, 1);
    assert_null(feed(&one, BODY("0001", "00000001", "'b'"), &units));
    assert_int_equal(units, 1);
    struct amqp_unit unit;
    assert_true(amqp_unit_read(one.buffer, one.len, &unit));
    assert_int_equal(unit.channel, 1);
    assert_memory_equal(unit.body.data, "ab", 2);
    assert_true(amqp_unit_read(two.buffer, two.len, &unit));
    assert_int_equal(unit.channel, 2);
    assert_memory_equal(unit.body.data, "xy", 2);
    free(one.buffer);
    free(two.buffer);
}

static void A18_each_breach_of_the_order_has_its_own_reason(void **state)
{
    (void)state;
    assert_fault(HEADER("0001", "0000000000000003"), amqp_fault_no_method);
    assert_fault(BODY("0001", "00000001", "'a'"), amqp_fault_no_header);
    assert_fault(DELIVER("0001") BODY("0001", "00000001", "'a'"), amqp_fault_no_header);
    assert_fault(DELIVER("0001") HEADER("0001", "0000000000000003") HEADER("0001", "0000000000000003"),
                 amqp_fault_second_header);
    assert_fault(DELIVER("0001") DELIVER("0001"), amqp_fault_method_inside);
    assert_fault(DELIVER("0001") HEADER("0001", "0000000000000003") BODY("0001", "00000002", "'ab'") ACK,
                 amqp_fault_method_inside);
    assert_fault(DELIVER("0001") HEADER("0001", "0000000000000003") BODY("0001", "00000004", "'abcd'"),
                 amqp_fault_body_overrun);
    assert_fault(DELIVER("0001") HEADER("0001", "0000000000000003") BODY("0001", "00000002", "'ab'")
                     BODY("0001", "00000002", "'cd'"),
                 amqp_fault_body_overrun);
    assert_fault(DELIVER("0001") "02 0001 0000000d 003c 0000 0000000000000003 10 ce", amqp_fault_header_size);
    assert_fault(DELIVER("0001") "02 0001 0000000e 003c 0001 0000000000000003 0000 ce", amqp_fault_header_weight);
    assert_fault(DELIVER("0001") "02 0001 0000000e 0032 0000 0000000000000003 0000 ce", amqp_fault_header_class);
}

static void the_reasons_differ(void **state)
{
    (void)state;
    const char *const faults[] = {amqp_fault_no_method,     amqp_fault_no_header,     amqp_fault_second_header,
                                  amqp_fault_method_inside, amqp_fault_body_overrun,  amqp_fault_header_size,
                                  amqp_fault_header_class,  amqp_fault_header_weight, amqp_fault_body_negative,
                                  amqp_fault_body_too_large};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(faults[i], faults[j]);
}

static void A12_a_body_size_with_its_top_bit_set_is_refused(void **state)
{
    (void)state;
    assert_fault(DELIVER("0001") HEADER("0001", "8000000000000000") BODY("0001", "00000001", "'a'"), amqp_fault_body_negative);
    assert_fault(DELIVER("0001") HEADER("0001", "ffffffffffffffff"), amqp_fault_body_negative);
}

static void A14_a_body_over_the_limit_is_refused_at_its_header_and_its_size_is_known(void **state)
{
    (void)state;
    struct channel c = {0};
    unsigned units;
    assert_ptr_equal(feed(&c, DELIVER("0001") HEADER("0001", "0000000000100001"), &units), amqp_fault_body_too_large);
    assert_true(c.assembler.declared == LIMIT + 1);
    free(c.buffer);
    assert_fault(DELIVER("0001") HEADER("0001", "0000000000100000"), NULL);
}

/* Feeds one frame with a limit of the caller's; the room that is asked for is not made. */
static const char *check(struct amqp_assembler *a, const char *hex, uint64_t limit, size_t *room)
{
    coney_bytes frame = bytes_of(hex);
    const char *fault = amqp_assembler_check(a, frame.data, frame.len, limit, room);
    release(frame);
    return fault;
}

static void C07_no_body_passes_what_a_frame_can_say_whatever_the_limit(void **state)
{
    (void)state;
    size_t room;
    struct amqp_assembler a = {.state = AMQP_WAITS_FOR_HEADER};
    assert_null(check(&a, HEADER("0001", "00000000ffffffff"), UINT64_MAX, &room));
    assert_ptr_equal(check(&a, HEADER("0001", "0000000100000000"), UINT64_MAX, &room), amqp_fault_body_too_large);
    assert_true(a.declared == UINT64_C(1) << 32);

    a = (struct amqp_assembler){
        .state = AMQP_WAITS_FOR_BODY, .len = (size_t)5 << 30, .declared = UINT32_MAX, .left = UINT32_MAX};
    assert_null(check(&a, BODY("0001", "00000001", "'a'"), UINT64_MAX, &room));
    assert_true(room == ((size_t)5 << 30) + 1);
    assert_true(amqp_assembler_total(&a) == (UINT64_C(5) << 30) + UINT32_MAX + 1);
}

static void A09_room_is_asked_for_as_bytes_arrive_not_as_they_are_promised(void **state)
{
    (void)state;
    struct channel c = {0};
    unsigned units;
    assert_null(feed(&c, DELIVER("0001") HEADER("0001", "0000000000100000"), &units));
    size_t head = c.len;
    assert_true(head < 100);
    assert_null(feed(&c, BODY("0001", "00000003", "'abc'"), &units));
    assert_int_equal(c.len, head + 3);
    assert_true(amqp_assembler_total(&c.assembler) == head + LIMIT + 1);
    free(c.buffer);
}

static void an_assembler_is_busy_from_the_method_to_the_last_byte(void **state)
{
    (void)state;
    struct channel c = {0};
    unsigned units;
    assert_false(amqp_assembler_busy(&c.assembler));
    assert_null(feed(&c, DELIVER("0001"), &units));
    assert_true(amqp_assembler_busy(&c.assembler));
    assert_true(amqp_assembler_total(&c.assembler) == 0);
    assert_null(feed(&c, HEADER("0001", "0000000000000002") BODY("0001", "00000001", "'a'"), &units));
    assert_true(amqp_assembler_busy(&c.assembler));
    assert_null(feed(&c, BODY("0001", "00000001", "'b'"), &units));
    assert_false(amqp_assembler_busy(&c.assembler));
    free(c.buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_in_any_number_of_frames_becomes_one),
        cmocka_unit_test(A20_an_empty_body_is_complete_with_its_header),
        cmocka_unit_test(channels_may_interleave),
        cmocka_unit_test(A18_each_breach_of_the_order_has_its_own_reason),
        cmocka_unit_test(the_reasons_differ),
        cmocka_unit_test(A12_a_body_size_with_its_top_bit_set_is_refused),
        cmocka_unit_test(A14_a_body_over_the_limit_is_refused_at_its_header_and_its_size_is_known),
        cmocka_unit_test(C07_no_body_passes_what_a_frame_can_say_whatever_the_limit),
        cmocka_unit_test(A09_room_is_asked_for_as_bytes_arrive_not_as_they_are_promised),
        cmocka_unit_test(an_assembler_is_busy_from_the_method_to_the_last_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
