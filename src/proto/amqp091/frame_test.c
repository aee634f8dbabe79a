#include "proto/amqp091/settle.h"
#include "proto/amqp091/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PAYLOAD_MAX = AMQP_FRAME_MAX_DEFAULT - AMQP_FRAME_BYTES };

/* The size and the fault that amqp_frame_size finds in bytes that lie exactly there. */
static size_t size_of(const char *hex, const char **field)
{
    coney_bytes bytes = bytes_of(hex);
    size_t size = amqp_frame_size(bytes.data, bytes.len, PAYLOAD_MAX, field);
    release(bytes);
    return size;
}

static void assert_fault(const char *hex, const char *fault)
{
    const char *field;
    assert_int_equal(size_of(hex, &field), 0);
    assert_non_null(field);
    assert_string_equal(field, fault);
}

static void assert_size(const char *hex, size_t size)
{
    const char *field;
    assert_int_equal(size_of(hex, &field), size);
    assert_null(field);
}

static void A02_a_size_that_would_wrap_is_refused_on_the_seven_bytes_of_the_head(void **state)
{
    (void)state;
    assert_fault("01 0001 ffffffff", "frame.size");
    assert_fault("01 0001 fffffff8", "frame.size");
    assert_fault("01 0001 fffffff7", "frame.size");
    assert_fault("01 0001 80000000", "frame.size");
    assert_fault("02 0001 7fffffff", "frame.size");
    assert_fault("03 0001 0001fff9", "frame.size");
    assert_size("03 0001 0001fff8", AMQP_FRAME_MAX_DEFAULT);
}

static void A18_each_broken_frame_has_its_own_reason(void **state)
{
    (void)state;
    assert_fault("08 0001 00000000 ce", "heartbeat.channel");
    assert_fault("08 0000 00000001 00 ce", "heartbeat.size");
    assert_fault("01 0001 00000004 00 3c 00 50 cd", "frame.end");
    assert_fault("04 0001 00000000", "frame.type");
    assert_fault("00 0001 00000000", "frame.type");
    assert_fault("'AMQP' 00 00 09", "frame.type");
}

static void a_frame_is_measured_as_soon_as_its_head_is_there(void **state)
{
    (void)state;
    assert_size("", 0);
    assert_size("01 0001 000000", 0);
    assert_size("01 0001 00000005", 13);
    assert_size("01 0001 00000001 aa", 9);
    assert_size("01 0001 00000001 aa ce", 9);
    assert_size("08 0000 00000000", 8);
    assert_size("08 0000 00000000 ce 01", 8);
}

static void a_frame_without_payload_is_a_frame(void **state)
{
    (void)state;
    assert_size("03 0001 00000000 ce", 8);
    struct amqp_frame frame = amqp_frame_of("\x03\x01\x02\x00\x00\x00\x00\xce");
    assert_int_equal(frame.type, AMQP_FRAME_BODY);
    assert_int_equal(frame.channel, 0x0102);
    assert_int_equal(frame.payload.len, 0);
}

static void the_fixed_frames_are_what_the_protocol_says(void **state)
{
    (void)state;
    assert_memory_equal(amqp_protocol_header, "AMQP\0\0\x09\x01", 8);
    assert_memory_equal(amqp_heartbeat, "\x08\0\0\0\0\0\0\xce", 8);
    const char *field;
    assert_int_equal(amqp_frame_size(amqp_heartbeat, sizeof amqp_heartbeat, PAYLOAD_MAX, &field), 8);
    assert_null(field);
}

static void C06_no_limit_on_frames_gives_pieces_of_the_default_size(void **state)
{
    (void)state;
    assert_int_equal(amqp_payload_max(0), 131064);
    assert_int_equal(amqp_payload_max(4096), 4088);
    assert_int_equal(amqp_payload_max(UINT32_MAX), UINT32_MAX - 8);
}

static void every_code_has_its_name_and_its_reach(void **state)
{
    (void)state;
    static const struct {
        uint16_t code;
        bool soft;
        const char *name;
    } codes[] = {
        {200, false, "REPLY_SUCCESS"},     {311, true, "CONTENT_TOO_LARGE"},
        {312, true, "NO_ROUTE"},           {313, true, "NO_CONSUMERS"},
        {320, false, "CONNECTION_FORCED"}, {402, false, "INVALID_PATH"},
        {403, true, "ACCESS_REFUSED"},     {404, true, "NOT_FOUND"},
        {405, true, "RESOURCE_LOCKED"},    {406, true, "PRECONDITION_FAILED"},
        {501, false, "FRAME_ERROR"},       {502, false, "SYNTAX_ERROR"},
        {503, false, "COMMAND_INVALID"},   {504, false, "CHANNEL_ERROR"},
        {505, false, "UNEXPECTED_FRAME"},  {506, false, "RESOURCE_ERROR"},
        {530, false, "NOT_ALLOWED"},       {540, false, "NOT_IMPLEMENTED"},
        {541, false, "INTERNAL_ERROR"},    {0, false, "UNKNOWN"},
        {407, false, "UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_string_equal(amqp_code_name(codes[i].code), codes[i].name);
        assert_int_equal(amqp_code_is_soft(codes[i].code), codes[i].soft);
    }
}

static void frames_get_another_channel_and_nothing_else_changes(void **state)
{
    (void)state;
    coney_bytes frames =
        bytes_of("01 0001 00000004 005a000a ce  02 0001 00000002 0001 ce  03 0001 00000000 ce  03 0001 00000009 00");
    coney_bytes wanted =
        bytes_of("01 01ff 00000004 005a000a ce  02 01ff 00000002 0001 ce  03 01ff 00000000 ce  03 0001 00000009 00");
    amqp_retarget((void *)(uintptr_t)frames.data, frames.len, 0x01ff);
    assert_memory_equal(frames.data, wanted.data, wanted.len);
    amqp_retarget((void *)(uintptr_t)frames.data, 0, 7);
    assert_memory_equal(frames.data, wanted.data, wanted.len);
    release(frames);
    release(wanted);
}

static void I04_a_nack_has_multiple_in_bit_0_and_requeue_in_bit_1(void **state)
{
    (void)state;
    uint8_t frame[AMQP_SETTLE_BYTES];
    struct amqp_settle read;
    assert_ptr_equal(amqp_nack_write(frame, 1, 7, true, false), frame + sizeof frame);
    assert_memory_equal(frame, "\x01\0\x01\0\0\0\x0d\0\x3c\0\x78\0\0\0\0\0\0\0\x07\x01\xce", sizeof frame);
    amqp_nack_write(frame, 1, 7, false, true);
    assert_int_equal(frame[19], 2);
    assert_true(amqp_settle_read(frame, sizeof frame, &read));
    assert_int_equal(read.id, AMQP_BASIC_NACK);
    assert_int_equal(read.flags, AMQP_NACK_REQUEUE);
}

static void acks_and_rejects_are_written_and_read_in_21_bytes(void **state)
{
    (void)state;
    uint8_t frame[AMQP_SETTLE_BYTES];
    struct amqp_settle read;
    amqp_ack_write(frame, 0x0203, UINT64_MAX - 1, true);
    assert_memory_equal(frame, "\x01\x02\x03\0\0\0\x0d\0\x3c\0\x50\xff\xff\xff\xff\xff\xff\xff\xfe\x01\xce", sizeof frame);
    assert_true(amqp_settle_read(frame, sizeof frame, &read));
    assert_int_equal(read.id, AMQP_BASIC_ACK);
    assert_int_equal(read.channel, 0x0203);
    assert_true(read.tag == UINT64_MAX - 1);
    assert_int_equal(read.flags, AMQP_SETTLE_MULTIPLE);

    amqp_reject_write(frame, 1, 9, true);
    assert_memory_equal(frame, "\x01\0\x01\0\0\0\x0d\0\x3c\0\x5a\0\0\0\0\0\0\0\x09\x01\xce", sizeof frame);
    assert_true(amqp_settle_read(frame, sizeof frame, &read));
    assert_int_equal(read.id, AMQP_BASIC_REJECT);
}

static void what_settles_nothing_is_not_read_as_a_settlement(void **state)
{
    (void)state;
    uint8_t frame[AMQP_SETTLE_BYTES + 1] = {0};
    struct amqp_settle read;
    amqp_ack_write(frame, 1, 1, false);
    assert_false(amqp_settle_read(frame, AMQP_SETTLE_BYTES - 1, &read));
    assert_false(amqp_settle_read(frame, AMQP_SETTLE_BYTES + 1, &read));
    frame[10] = 0x46;
    assert_false(amqp_settle_read(frame, AMQP_SETTLE_BYTES, &read));
    frame[10] = 0x50;
    frame[0] = AMQP_FRAME_BODY;
    assert_false(amqp_settle_read(frame, AMQP_SETTLE_BYTES, &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(A02_a_size_that_would_wrap_is_refused_on_the_seven_bytes_of_the_head),
        cmocka_unit_test(A18_each_broken_frame_has_its_own_reason),
        cmocka_unit_test(a_frame_is_measured_as_soon_as_its_head_is_there),
        cmocka_unit_test(a_frame_without_payload_is_a_frame),
        cmocka_unit_test(the_fixed_frames_are_what_the_protocol_says),
        cmocka_unit_test(C06_no_limit_on_frames_gives_pieces_of_the_default_size),
        cmocka_unit_test(every_code_has_its_name_and_its_reach),
        cmocka_unit_test(frames_get_another_channel_and_nothing_else_changes),
        cmocka_unit_test(I04_a_nack_has_multiple_in_bit_0_and_requeue_in_bit_1),
        cmocka_unit_test(acks_and_rejects_are_written_and_read_in_21_bytes),
        cmocka_unit_test(what_settles_nothing_is_not_read_as_a_settlement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
