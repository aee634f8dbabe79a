#include "proto/stream/fastpath.h"
#include "proto/stream/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A Publish frame of the general codec for one entry. */
static size_t general(uint8_t *out, size_t cap, uint16_t version, struct stream_publish_entry entry)
{
    uint8_t room[256];
    struct list_writer w = list_begin(room, sizeof room);
    list_add_entry(&w, version, &entry);
    struct stream_frame frame = {.key = STREAM_PUBLISH, .version = version, .publish.publisher = 9};
    assert_true(list_end(&w, &frame.publish.entries));
    return stream_encode(&frame, out, cap);
}

static void assert_same_frame(const uint8_t *fast, const uint8_t *end, uint16_t version, struct stream_publish_entry entry)
{
    uint8_t slow[512];
    size_t len = general(slow, sizeof slow, version, entry);
    assert_int_equal(end - fast, len);
    assert_memory_equal(fast, slow, len);
}

static uint8_t *put(uint8_t *at, coney_bytes body)
{
    memcpy(at, body.data, body.len);
    return at + body.len;
}

static void a_publish_frame_written_in_place_is_the_one_of_the_general_codec(void **state)
{
    (void)state;
    uint8_t frame[256];
    publish_header_write(frame, 9, 1, PUBLISH_ENTRY_BYTES + 2, 1);
    uint8_t *end = put(publish_entry_write(frame + PUBLISH_HEADER_BYTES, 77, 2), CONEY_STR("hi"));
    assert_same_frame(frame, end, 1, (struct stream_publish_entry){.id = 77, .entry.data = CONEY_STR("hi")});
}

static void version_2_takes_a_filter_value_or_none(void **state)
{
    (void)state;
    uint8_t frame[256];
    static const coney_bytes filters[] = {CONEY_STR_INIT("fv"), CONEY_STR_INIT(""), {NULL, 0}};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        publish_header_write(frame, 9, 1, (uint32_t)(PUBLISH_ENTRY_V2_BYTES + filters[i].len + 2), 2);
        uint8_t *end = put(publish_entry_write_v2(frame + PUBLISH_HEADER_BYTES, 77, filters[i], 2), CONEY_STR("hi"));
        struct stream_publish_entry entry = {.id = 77, .filter = filters[i], .entry.data = CONEY_STR("hi")};
        assert_same_frame(frame, end, 2, entry);
    }
}

static void a_batch_written_in_place_is_the_one_of_the_general_codec(void **state)
{
    (void)state;
    uint8_t frame[256];
    publish_header_write(frame, 9, 1, PUBLISH_BATCH_BYTES + 6, 1);
    uint8_t *end = put(publish_batch_write(frame + PUBLISH_HEADER_BYTES, 77, 3, 500, 9999, 6), CONEY_STR("packed"));
    struct stream_entry batch = {
        .batch = true, .compression = 3, .records = 500, .uncompressed = 9999, .data = CONEY_STR("packed")};
    assert_same_frame(frame, end, 1, (struct stream_publish_entry){.id = 77, .entry = batch});
}

static void SB_49_a_frame_is_as_large_as_its_entries_say(void **state)
{
    (void)state;
    static const uint32_t bodies[] = {921600, 460800, 1000};
    const uint32_t frame_max = 1048576;
    uint32_t size = PUBLISH_HEADER_BYTES - STREAM_SIZE_BYTES;
    assert_int_equal(size, 9);

    size += PUBLISH_ENTRY_BYTES + bodies[0];
    assert_int_equal(size, 9 + 12 + 921600);
    assert_true(size + PUBLISH_ENTRY_BYTES + bodies[1] > frame_max);
    uint32_t small = 0;
    for (; size + PUBLISH_ENTRY_BYTES + bodies[2] <= frame_max; small++)
        size += PUBLISH_ENTRY_BYTES + bodies[2];
    assert_int_equal(small, 125);

    uint8_t header[PUBLISH_HEADER_BYTES];
    publish_header_write(header, 0, 1 + small, size - 9, 1);
    const char *field;
    assert_int_equal(stream_frame_size(header, sizeof header, frame_max, &field), size + 4);
    assert_null(field);
    publish_header_write(header, 0, 2, 2 * PUBLISH_ENTRY_BYTES + bodies[0] + bodies[1], 1);
    assert_int_equal(stream_frame_size(header, sizeof header, frame_max, &field), 0);
    assert_string_equal(field, "frame.size");
}

static void a_confirm_is_read_as_the_general_codec_reads_it(void **state)
{
    (void)state;
    coney_bytes body = bytes_of("0003 0001 05 00000003 0000000000000003 ffffffffffffffff 0000000000000003");
    static const uint64_t expected[] = {3, UINT64_MAX, 3};
    struct stream_publish_confirm fast = {0};
    struct stream_frame slow;
    assert_null(confirm_read(body, &fast));
    assert_null(stream_decode(body, STREAM_FROM_SERVER, &slow));
    assert_int_equal(fast.publisher, 5);
    assert_int_equal(fast.ids.count, 3);
    assert_ptr_equal(fast.ids.encoded, slow.publish_confirm.ids.encoded);
    assert_int_equal(fast.ids.len, slow.publish_confirm.ids.len);

    struct list_iter it = list_iter_of(fast.ids);
    uint64_t id;
    size_t n = 0;
    for (; list_next_id(&it, &id); n++)
        assert_int_equal(id, expected[n]);
    assert_int_equal(n, 3);
    release(body);
}

static void a_confirm_whose_count_is_not_its_length_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "0003 0001 05 00000002 0000000000000003",
        "0003 0001 05 00000001 0000000000000003 00",
        "0003 0001 05 00000000 0000000000000003",
        "0003 0001 05 20000001 0000000000000003", /* times 8 it would fit in 32 bits */
        "0003 0001 05 000000",
        "0003 0001",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        coney_bytes body = bytes_of(wrong[i]);
        struct stream_publish_confirm out;
        assert_string_equal(confirm_read(body, &out), "publish_confirm.ids");
        release(body);
    }
    coney_bytes body = bytes_of("0003 0002 05 00000000");
    struct stream_publish_confirm out;
    assert_string_equal(confirm_read(body, &out), "frame.version");
    release(body);
}

static void a_deliver_is_read_as_the_general_codec_reads_it(void **state)
{
    (void)state;
    static const char *const frames[] = {"0008 0001 07 'chunk'", "0008 0002 07 0000000000000102 'chunk'", "0008 0001 07"};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        coney_bytes body = bytes_of(frames[i]);
        struct stream_deliver fast = {0};
        struct stream_frame slow;
        assert_null(deliver_read(body, &fast));
        assert_null(stream_decode(body, STREAM_FROM_SERVER, &slow));
        assert_int_equal(fast.subscription, slow.deliver.subscription);
        assert_int_equal(fast.committed, slow.deliver.committed);
        assert_true(bytes_equal(fast.chunk, slow.deliver.chunk));
        release(body);
    }
}

static void a_deliver_that_is_cut_short_or_of_another_version_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *field;
    } wrong[] = {
        {"0008 0001", "deliver.subscription"},
        {"0008 0002 07 00000000000000", "deliver.committed"},
        {"0008 0003 07 0000000000000000", "frame.version"},
        {"0008 0000 07", "frame.version"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        coney_bytes body = bytes_of(wrong[i].text);
        struct stream_deliver out;
        assert_string_equal(deliver_read(body, &out), wrong[i].field);
        release(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_publish_frame_written_in_place_is_the_one_of_the_general_codec),
        cmocka_unit_test(version_2_takes_a_filter_value_or_none),
        cmocka_unit_test(a_batch_written_in_place_is_the_one_of_the_general_codec),
        cmocka_unit_test(SB_49_a_frame_is_as_large_as_its_entries_say),
        cmocka_unit_test(a_confirm_is_read_as_the_general_codec_reads_it),
        cmocka_unit_test(a_confirm_whose_count_is_not_its_length_is_refused),
        cmocka_unit_test(a_deliver_is_read_as_the_general_codec_reads_it),
        cmocka_unit_test(a_deliver_that_is_cut_short_or_of_another_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
