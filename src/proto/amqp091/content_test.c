#include "proto/amqp091/content.h"
#include "proto/amqp091/publish.h"
#include "proto/amqp091/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PAYLOAD_MAX = 4096 - AMQP_FRAME_BYTES };

#define DELIVER "01 0001 00000016 003c003c 02'me' 0000000000000009 00 01'x' 03'key' ce "
#define HEADER(size) "02 0001 0000000f 003c 0000 " size " 1000 02 ce "
#define BODY "03 0001 00000003 'abc' ce "
#define ACK "01 0001 0000000d 003c0050 0000000000000001 00 ce "
enum { DELIVER_BYTES = 30, HEADER_BYTES = 23, BODY_BYTES = 11 };

/* The extent of the first `have` bytes, which lie in memory of exactly that size. */
static size_t extent_of(coney_bytes bytes, size_t have, const char **field)
{
    coney_bytes cut = exact_copy(bytes.data, have);
    size_t size = amqp_content_extent(cut.data, have, PAYLOAD_MAX, field);
    release(cut);
    return size;
}

static void assert_extent(const char *hex, size_t wanted)
{
    const char *field;
    coney_bytes bytes = bytes_of(hex);
    assert_int_equal(extent_of(bytes, bytes.len, &field), wanted);
    assert_null(field);
    release(bytes);
}

static void a_delivery_in_three_frames_is_one_unit(void **state)
{
    (void)state;
    assert_extent(DELIVER HEADER("0000000000000003") BODY, DELIVER_BYTES + HEADER_BYTES + BODY_BYTES);
    assert_extent(DELIVER HEADER("0000000000000003") BODY ACK, DELIVER_BYTES + HEADER_BYTES + BODY_BYTES);
}

static void C02_an_empty_body_has_no_frame(void **state)
{
    (void)state;
    assert_extent(DELIVER HEADER("0000000000000000"), DELIVER_BYTES + HEADER_BYTES);
    assert_extent(DELIVER HEADER("0000000000000000") ACK, DELIVER_BYTES + HEADER_BYTES);
    assert_extent(DELIVER HEADER("0000000000000000") "03 0001 00000000 ce", DELIVER_BYTES + HEADER_BYTES);
}

static void what_must_be_at_hand_grows_until_the_unit_is_there(void **state)
{
    (void)state;
    coney_bytes unit = bytes_of(DELIVER HEADER("0000000000000003") BODY);
    size_t header = DELIVER_BYTES + HEADER_BYTES;
    for (size_t have = 0; have < unit.len; have++) {
        const char *field;
        size_t wanted = have < 7                   ? 0
                        : have < DELIVER_BYTES     ? DELIVER_BYTES
                        : have < DELIVER_BYTES + 7 ? DELIVER_BYTES + 7
                        : have < header            ? header
                        : have < header + 7        ? header + 7
                                                   : unit.len;
        assert_int_equal(extent_of(unit, have, &field), wanted);
        assert_null(field);
    }
    release(unit);
}

static void other_frames_stand_alone(void **state)
{
    (void)state;
    assert_extent(ACK DELIVER, 21);
    assert_extent("08 0000 00000000 ce" DELIVER, 8);
    assert_extent(HEADER("0000000000000003") BODY, HEADER_BYTES);
    assert_extent(BODY, BODY_BYTES);
    assert_extent("01 0001 00000002 003c ce" DELIVER, 10);
}

static void a_message_that_is_no_plain_unit_falls_into_its_frames(void **state)
{
    (void)state;
    /* another frame between */
    assert_extent(DELIVER "08 0000 00000000 ce", DELIVER_BYTES);
    assert_extent(DELIVER ACK, DELIVER_BYTES);
    assert_extent(DELIVER "02 0002 0000000f 003c 0000 0000000000000000 1000 02 ce", DELIVER_BYTES);
    assert_extent(DELIVER HEADER("0000000000000003") "08 0000 00000000 ce", DELIVER_BYTES);
    assert_extent(DELIVER HEADER("0000000000000003") "03 0002 00000003 'abc' ce", DELIVER_BYTES);
    /* a body in pieces, too short, too long */
    assert_extent(DELIVER HEADER("0000000000000006") BODY BODY, DELIVER_BYTES);
    assert_extent(DELIVER HEADER("0000000000000002") BODY, DELIVER_BYTES);
    assert_extent(DELIVER HEADER("0000000000001000") BODY, DELIVER_BYTES);
    assert_extent(DELIVER HEADER("8000000000000000") BODY, DELIVER_BYTES);
    assert_extent(DELIVER HEADER("ffffffffffffffff") BODY, DELIVER_BYTES);
    /* a header that is not sound */
    assert_extent(DELIVER "02 0001 ffffffff", DELIVER_BYTES);
    assert_extent(DELIVER "02 0001 0000000d", DELIVER_BYTES);
    assert_extent(DELIVER "02 0001 0000000f 003c 0001 0000000000000000 1000 02 ce", DELIVER_BYTES);
    assert_extent(DELIVER "02 0001 0000000f 0032 0000 0000000000000000 1000 02 ce", DELIVER_BYTES);
    assert_extent(DELIVER "02 0001 0000000f 003c 0000 0000000000000000 1000 02 cd", DELIVER_BYTES);
    assert_extent(DELIVER HEADER("0000000000000003") "03 0001 00000003 'abc' cd", DELIVER_BYTES);
}

static void a_fault_in_the_first_frame_is_named(void **state)
{
    (void)state;
    const char *field;
    coney_bytes bytes = bytes_of("01 0001 00001000");
    assert_int_equal(extent_of(bytes, bytes.len, &field), 0);
    assert_string_equal(field, "frame.size");
    release(bytes);
    bytes = bytes_of("01 0001 00000004 003c003c cd");
    assert_int_equal(extent_of(bytes, bytes.len, &field), 0);
    assert_string_equal(field, "frame.end");
    release(bytes);
}

static void the_shortcut_knows_the_methods_that_carry_content(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < 128; class ++)
        for (uint32_t method = 0; method < 128; method++)
            assert_int_equal(amqp_carries_content(class << 16 | method), amqp_method_has_content(class << 16 | method));
}

/* Units ------------------------------------------------------------------------------------------------------------ */

static void a_unit_is_told_from_a_frame_and_read_in_place(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of(DELIVER HEADER("0000000000000003") BODY);
    const uint8_t *at = bytes.data;
    struct amqp_unit unit;
    assert_true(amqp_is_unit(at, bytes.len));
    assert_false(amqp_is_unit(at, DELIVER_BYTES));
    assert_true(amqp_unit_read(at, bytes.len, &unit));
    assert_int_equal(unit.channel, 1);
    assert_int_equal(unit.id, AMQP_BASIC_DELIVER);
    assert_ptr_equal(unit.method.data, at + 7);
    assert_int_equal(unit.method.len, 22);
    assert_int_equal(unit.properties.len, 3);
    assert_memory_equal(unit.properties.data, "\x10\x00\x02", 3);
    assert_int_equal(unit.body.len, 3);
    assert_memory_equal(unit.body.data, "abc", 3);

    assert_true(amqp_unit_read(at, DELIVER_BYTES + HEADER_BYTES, &unit));
    assert_int_equal(unit.body.len, 0);
    release(bytes);
}

static void a_reader_of_units_never_passes_the_end(void **state)
{
    (void)state;
    coney_bytes whole = bytes_of(DELIVER HEADER("0000000000000003") BODY);
    struct amqp_unit unit;
    for (size_t len = 0; len < whole.len; len++) {
        coney_bytes cut = exact_copy(whole.data, len);
        assert_int_equal(amqp_unit_read(cut.data, len, &unit), len == DELIVER_BYTES + HEADER_BYTES);
        release(cut);
    }
    /* sizes that lie, at each of the three places */
    static const size_t places[] = {3, DELIVER_BYTES + 3, DELIVER_BYTES + HEADER_BYTES + 3};
    static const uint32_t sizes[] = {0, 3, 13, 255, UINT32_MAX};
    for (size_t p = 0; p < 3; p++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            coney_bytes forged = exact_copy(whole.data, whole.len);
            store32((uint8_t *)(uintptr_t)forged.data + places[p], sizes[s]);
            assert_int_equal(amqp_unit_read(forged.data, forged.len, &unit), p == 2 && sizes[s] == 3);
            release(forged);
        }
    }
    release(whole);
}

static void a_delivery_is_read_as_the_codec_reads_it(void **state)
{
    (void)state;
    static const char *const payloads[] = {
        "003c003c 02'me' 0000000000000102 01 01'x' 03'key'",
        "003c003c 00 ffffffffffffffff 00 00 00",
        "003c003c 02'me' 0000000000000102 fe 01'x' 03'key'",
    };
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        coney_bytes payload = bytes_of(payloads[i]);
        struct amqp_basic_deliver fast = {0};
        struct amqp_method slow;
        assert_null(amqp_deliver_read(payload, &fast));
        assert_null(amqp_decode(payload, &slow));
        assert_true(fast.delivery_tag == slow.basic_deliver.delivery_tag);
        assert_int_equal(fast.redelivered, slow.basic_deliver.redelivered);
        assert_true(bytes_equal(fast.consumer_tag, slow.basic_deliver.consumer_tag));
        assert_true(bytes_equal(fast.exchange, slow.basic_deliver.exchange));
        assert_true(bytes_equal(fast.routing_key, slow.basic_deliver.routing_key));
        for (size_t len = 4; len < payload.len; len++) {
            coney_bytes cut = exact_copy(payload.data, len);
            const char *field = amqp_deliver_read(cut, &fast);
            assert_non_null(field);
            assert_string_equal(field, amqp_decode(cut, &slow));
            release(cut);
        }
        release(payload);
    }
    struct amqp_basic_deliver fast;
    coney_bytes longer = bytes_of("003c003c 00 ffffffffffffffff 00 00 00 00");
    assert_string_equal(amqp_deliver_read(longer, &fast), "method.end");
    release(longer);
}

/* Publishing ------------------------------------------------------------------------------------------------------- */

static coney_bytes publish_frame(void)
{
    struct amqp_method publish = {
        .id = AMQP_BASIC_PUBLISH,
        .basic_publish = {.exchange = CONEY_STR("x"), .routing_key = CONEY_STR("key"), .mandatory = true}};
    size_t size = amqp_encode(1, &publish, NULL, 0);
    uint8_t *frame = exact_room(size);
    amqp_encode(1, &publish, frame, size);
    return coney_bytes_of(frame, size);
}

/* A message of `len` bytes in memory of exactly the size that was counted. */
static coney_bytes published(uint16_t channel, const char *body, size_t len, uint32_t payload_max)
{
    static const uint8_t persistent[] = {0x10, 0x00, 0x02};
    coney_bytes method = publish_frame();
    coney_bytes properties = coney_bytes_of(persistent, sizeof persistent);
    size_t size = amqp_publish_size(method.len, properties.len, len, payload_max);
    uint8_t *room = exact_room(size);
    uint8_t *end = amqp_publish_write(room, method, channel, properties, coney_bytes_of(body, len), payload_max);
    assert_ptr_equal(end, room + size);
    release(method);
    return coney_bytes_of(room, size);
}

static void a_publish_is_three_frames_in_one_run(void **state)
{
    (void)state;
    coney_bytes wanted = bytes_of("01 0007 0000000d 003c0028 0000 01'x' 03'key' 01 ce "
                                  "02 0007 0000000f 003c 0000 0000000000000003 1000 02 ce 03 0007 00000003 'abc' ce");
    coney_bytes run = published(7, "abc", 3, PAYLOAD_MAX);
    assert_int_equal(run.len, wanted.len);
    assert_memory_equal(run.data, wanted.data, wanted.len);
    struct amqp_unit unit;
    assert_true(amqp_unit_read(run.data, run.len, &unit));
    assert_int_equal(unit.id, AMQP_BASIC_PUBLISH);
    release(run);
    release(wanted);
}

static void a_head_that_was_made_once_gives_the_same_bytes(void **state)
{
    (void)state;
    uint8_t room[64];
    coney_bytes method = publish_frame();
    struct amqp_publish_head head = amqp_publish_head_make(room, method, 7, coney_bytes_of("\x10\0\x02", 3));
    assert_int_equal(head.len, amqp_publish_size(method.len, 3, 0, 4));
    static const size_t lengths[] = {0, 3, 4, 9};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        coney_bytes wanted = published(7, "123456789", lengths[i], 4);
        uint8_t *run = exact_room(wanted.len);
        assert_ptr_equal(amqp_publish_after_head(run, &head, 7, coney_bytes_of("123456789", lengths[i]), 4), run + wanted.len);
        assert_memory_equal(run, wanted.data, wanted.len);
        free(run);
        release(wanted);
    }
    release(method);
}

static void C02_an_empty_body_is_published_without_a_body_frame(void **state)
{
    (void)state;
    coney_bytes run = published(7, NULL, 0, PAYLOAD_MAX);
    assert_int_equal(run.len, 21 + 23);
    struct amqp_unit unit;
    assert_true(amqp_unit_read(run.data, run.len, &unit));
    assert_int_equal(unit.body.len, 0);
    release(run);
}

static void a_body_is_cut_where_a_frame_is_full(void **state)
{
    (void)state;
    static const size_t pieces[][2] = {{3, 1}, {4, 1}, {5, 2}, {8, 2}, {9, 3}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        coney_bytes run = published(7, "123456789", pieces[i][0], 4);
        const uint8_t *at = run.data;
        at += 21 + 23;
        size_t frames = 0;
        char body[16];
        size_t len = 0;
        for (; at < (const uint8_t *)run.data + run.len; frames++) {
            struct amqp_frame frame = amqp_frame_of(at);
            assert_int_equal(frame.type, AMQP_FRAME_BODY);
            assert_int_equal(frame.channel, 7);
            assert_true(frame.payload.len <= 4);
            memcpy(body + len, frame.payload.data, frame.payload.len);
            len += frame.payload.len;
            assert_int_equal(at[frame.payload.len + 7], AMQP_END);
            at += frame.payload.len + AMQP_FRAME_BYTES;
        }
        assert_int_equal(frames, pieces[i][1]);
        assert_int_equal(len, pieces[i][0]);
        assert_memory_equal(body, "123456789", len);
        release(run);
    }
}

static void C07_sizes_are_counted_in_64_bits(void **state)
{
    (void)state;
    size_t five_gib = (size_t)5 << 30;
    size_t frames = (five_gib + PAYLOAD_MAX - 1) / PAYLOAD_MAX;
    assert_true(amqp_publish_size(21, 3, five_gib, PAYLOAD_MAX) == 21 + 23 + five_gib + 8 * frames);
    uint8_t head[64];
    coney_bytes method = publish_frame();
    amqp_publish_begin(head, method, 1, 3, five_gib);
    assert_true(load64(head + method.len + 11) == five_gib);
    release(method);
}

static void a_message_gets_another_channel_in_all_its_frames(void **state)
{
    (void)state;
    coney_bytes run = published(7, "123456789", 9, 4);
    coney_bytes other = published(300, "123456789", 9, 4);
    amqp_retarget((void *)(uintptr_t)run.data, run.len, 300);
    assert_memory_equal(run.data, other.data, run.len);
    release(run);
    release(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delivery_in_three_frames_is_one_unit),
        cmocka_unit_test(C02_an_empty_body_has_no_frame),
        cmocka_unit_test(what_must_be_at_hand_grows_until_the_unit_is_there),
        cmocka_unit_test(other_frames_stand_alone),
        cmocka_unit_test(a_message_that_is_no_plain_unit_falls_into_its_frames),
        cmocka_unit_test(a_fault_in_the_first_frame_is_named),
        cmocka_unit_test(the_shortcut_knows_the_methods_that_carry_content),
        cmocka_unit_test(a_unit_is_told_from_a_frame_and_read_in_place),
        cmocka_unit_test(a_reader_of_units_never_passes_the_end),
        cmocka_unit_test(a_delivery_is_read_as_the_codec_reads_it),
        cmocka_unit_test(a_publish_is_three_frames_in_one_run),
        cmocka_unit_test(a_head_that_was_made_once_gives_the_same_bytes),
        cmocka_unit_test(C02_an_empty_body_is_published_without_a_body_frame),
        cmocka_unit_test(a_body_is_cut_where_a_frame_is_full),
        cmocka_unit_test(C07_sizes_are_counted_in_64_bits),
        cmocka_unit_test(a_message_gets_another_channel_in_all_its_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
