#include "proto/stream/chunk.h"
#include "proto/stream/fastpath.h"
#include "proto/stream/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define V1_HEADER "50 00 0004 00000004 0000018bcfe56800 0000000000000001 0000000000000020 d966a143 00000030 00000000 00000000"
#define V1_ENTRIES "00000008 005375a003 6d3332 00000008 005375a003 6d3333 00000008 005375a003 6d3334 00000008 005375a003 6d3335"
#define V1_DELIVER "00000065 0008 0001 07" V1_HEADER V1_ENTRIES
#define V2_DELIVER "0000006d 0008 0002 07 000000000000001f" V1_HEADER V1_ENTRIES
#define V3_RECORDS V1_ENTRIES "00000008 005375a003 6d3336"
#define V4_GZIP "1f8b0800000000000203636060e060082e5dc09c6b6cc480601b23b14d90d8a6486c33005010c0833c000000"

static uint32_t crc32_of(coney_bytes bytes)
{
    const uint8_t *at = bytes.data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes.len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* The walk as text: "32=m32 33=m33" for messages, "34~5" for a compressed batch of five, "34?5" for five damaged messages,
 * "34!chunk.records" for a broken end. An AMQP data section of short form is shown without its five bytes. */
static const char *walk_of(coney_bytes bytes)
{
    static char text[4096];
    struct chunk chunk;
    const char *field = chunk_open(bytes, &chunk);
    if (field != NULL)
        return field;
    size_t len = 0;
    text[0] = '\0';
    struct chunk_walk walk = chunk_walk_of(&chunk);
    struct chunk_entry e;
    enum chunk_item item;
    while ((item = chunk_next(&walk, &e)) != CHUNK_END && len < sizeof text) {
        const char *body = e.data.data;
        size_t skip = e.data.len >= 5 && memcmp(body, "\0Su\xa0", 4) == 0 ? 5 : 0;
        const char *space = len > 0 ? " " : "";
        char *at = text + len;
        size_t room = sizeof text - len;
        if (item == CHUNK_MESSAGE)
            len += (size_t)snprintf(at, room, "%s%lu=%.*s", space, e.offset, (int)(e.data.len - skip), body + skip);
        else if (item == CHUNK_COMPRESSED)
            len += (size_t)snprintf(at, room, "%s%lu~%u", space, e.offset, e.records);
        else if (item == CHUNK_DAMAGED)
            len += (size_t)snprintf(at, room, "%s%lu?%u", space, e.offset, e.records);
        else
            len += (size_t)snprintf(at, room, "%s%lu!%s", space, walk.offset, walk.field);
    }
    return text;
}

/* A chunk that starts at offset 32 and is written by a test. */
static uint8_t room[4096];

static struct chunk_writer start(void)
{
    return chunk_begin(room, sizeof room, CHUNK_USER, 1700000000000, 1, 32);
}

static coney_bytes finish(struct chunk_writer *w)
{
    size_t len = chunk_finish(w, crc32_of(chunk_data(w)));
    assert_int_not_equal(len, 0);
    return coney_bytes_of(room, len);
}

/* A walk over an exact copy, so that a sanitizer sees a byte read past the end. */
static const char *walk_written(struct chunk_writer *w)
{
    coney_bytes written = finish(w);
    coney_bytes copy = exact_copy(written.data, written.len);
    const char *text = walk_of(copy);
    release(copy);
    return text;
}

static void add_raw(struct chunk_writer *w, uint16_t records, const char *text)
{
    coney_bytes data = bytes_of(text);
    chunk_add_raw_batch(w, 0, records, (uint32_t)data.len, data);
    release(data);
}

/* Reading ------------------------------------------------------------------------------------------------------------ */

static void a_chunk_gives_its_header_and_its_messages_with_their_offsets(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of(V1_HEADER V1_ENTRIES);
    struct chunk chunk;
    assert_null(chunk_open(bytes, &chunk));
    assert_int_equal(chunk.type, CHUNK_USER);
    assert_int_equal(chunk.entries, 4);
    assert_int_equal(chunk.records, 4);
    assert_int_equal(chunk.timestamp, 1700000000000);
    assert_int_equal(chunk.epoch, 1);
    assert_int_equal(chunk.first, 32);
    assert_int_equal(chunk.data.len, 48);
    assert_int_equal(chunk.crc, 0xd966a143);
    assert_int_equal(chunk.crc, crc32_of(chunk.data));
    assert_string_equal(walk_of(bytes), "32=m32 33=m33 34=m34 35=m35");
    release(bytes);
}

static void SB_27_a_plain_batch_is_read_as_its_messages(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    add_raw(&w, 5, V3_RECORDS);
    coney_bytes written = finish(&w);
    coney_bytes header = bytes_of("50 00 0001 00000005");
    assert_memory_equal(written.data, header.data, header.len);
    release(header);
    coney_bytes batch = bytes_of("80 0005 0000003c 0000003c" V3_RECORDS);
    assert_int_equal(written.len, CHUNK_HEADER_BYTES + batch.len);
    assert_memory_equal(room + CHUNK_HEADER_BYTES, batch.data, batch.len);
    release(batch);
    assert_string_equal(walk_of(written), "32=m32 33=m33 34=m34 35=m35 36=m36");
}

static void batches_and_messages_mix_and_offsets_count_through(void **state)
{
    (void)state;
    const coney_bytes two[] = {CONEY_STR("b"), CONEY_STR("c")};
    struct chunk_writer w = start();
    chunk_add(&w, CONEY_STR("a"));
    chunk_add_batch(&w, two, 2);
    chunk_add_batch(&w, two, 1);
    chunk_add(&w, CONEY_STR(""));
    chunk_add_batch(&w, two + 1, 1);
    assert_string_equal(walk_written(&w), "32=a 33=b 34=c 35=b 36= 37=c");
}

static void SB_36_bloom_and_trailer_fields_of_the_header_shift_nothing(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of("50 00 0004 00000004 0000018bcfe56800 0000000000000001 0000000000000020 d966a143 00000030"
                                 "0000000c 10000000" V1_ENTRIES);
    assert_string_equal(walk_of(bytes), "32=m32 33=m33 34=m34 35=m35");
    release(bytes);
}

static void SB_36_deliver_v2_gives_the_same_messages_and_the_committed_chunk(void **state)
{
    (void)state;
    static const char *const frames[] = {V1_DELIVER, V2_DELIVER};
    static const uint64_t committed[] = {0, 31};
    for (size_t i = 0; i < 2; i++) {
        coney_bytes frame = bytes_of(frames[i]);
        struct stream_deliver deliver;
        assert_null(deliver_read(stream_frame_body(frame.data, frame.len), &deliver));
        assert_int_equal(deliver.subscription, 7);
        assert_int_equal(deliver.committed, committed[i]);
        assert_string_equal(walk_of(deliver.chunk), "32=m32 33=m33 34=m34 35=m35");
        release(frame);
    }
}

static void SB_35_two_delivers_in_one_run_pass_their_checksums_wherever_they_lie(void **state)
{
    (void)state;
    coney_bytes frames = bytes_of(V1_DELIVER V2_DELIVER);
    for (size_t shift = 0; shift < 9; shift++) {
        uint8_t run[512];
        memcpy(run + shift, frames.data, frames.len);
        const uint8_t *at = run + shift;
        size_t left = frames.len;
        for (int i = 0; i < 2; i++) {
            const char *field;
            size_t size = stream_frame_size(at, left, UINT32_MAX, &field);
            struct stream_deliver deliver;
            struct chunk chunk;
            assert_null(deliver_read(stream_frame_body(at, size), &deliver));
            assert_null(chunk_open(deliver.chunk, &chunk));
            assert_int_equal(crc32_of(chunk.data), chunk.crc);
            at += size;
            left -= size;
        }
        assert_int_equal(left, 0);
    }
    release(frames);
}

static void a_trailer_that_comes_along_is_left_aside(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of("50 01 0001 00000001 0000018bcfe56800 0000000000000001 0000000000000020 00000000 00000006"
                                 "00000003 00000000 00000002 6869 ffffff");
    assert_string_equal(walk_of(bytes), "32=hi");
    release(bytes);
}

static void a_compressed_batch_is_one_item_and_the_walk_goes_on_behind_it(void **state)
{
    (void)state;
    coney_bytes gzip = bytes_of(V4_GZIP);
    struct chunk_writer w = start();
    chunk_add(&w, CONEY_STR("a"));
    chunk_add_raw_batch(&w, 1, 5, 60, gzip);
    chunk_add(&w, CONEY_STR("z"));
    coney_bytes written = finish(&w);
    assert_string_equal(walk_of(written), "32=a 33~5 38=z");

    struct chunk chunk;
    assert_null(chunk_open(written, &chunk));
    struct chunk_walk walk = chunk_walk_of(&chunk);
    struct chunk_entry e;
    assert_int_equal(chunk_next(&walk, &e), CHUNK_MESSAGE);
    assert_int_equal(chunk_next(&walk, &e), CHUNK_COMPRESSED);
    assert_int_equal(e.compression, 1);
    assert_int_equal(e.records, 5);
    assert_int_equal(e.uncompressed, 60);
    assert_true(bytes_equal(e.data, gzip));
    release(gzip);
}

static void every_kind_of_compression_is_reported_with_its_number(void **state)
{
    (void)state;
    for (uint8_t compression = 1; compression <= 7; compression++) {
        struct chunk_writer w = start();
        chunk_add_raw_batch(&w, compression, 2, 100, CONEY_STR("xyz"));
        struct chunk chunk;
        assert_null(chunk_open(finish(&w), &chunk));
        struct chunk_walk walk = chunk_walk_of(&chunk);
        struct chunk_entry e;
        assert_int_equal(chunk_next(&walk, &e), CHUNK_COMPRESSED);
        assert_int_equal(e.compression, compression);
        assert_int_equal(chunk_next(&walk, &e), CHUNK_END);
    }
}

static void an_empty_chunk_ends_at_once(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    assert_string_equal(walk_written(&w), "");
}

static void offsets_reach_up_to_the_last_one(void **state)
{
    (void)state;
    struct chunk_writer w = chunk_begin(room, sizeof room, CHUNK_USER, 0, 0, UINT64_MAX - 2);
    chunk_add(&w, CONEY_STR("a"));
    chunk_add(&w, CONEY_STR("b"));
    assert_string_equal(walk_written(&w), "18446744073709551613=a 18446744073709551614=b");
}

/* Damage ------------------------------------------------------------------------------------------------------------- */

static void a_header_that_cannot_be_is_refused_and_named(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        const char *field;
    } wrong[] = {
        {0, 0x51000004, "chunk.magic"},      {0, 0x40000004, "chunk.magic"},   {0, 0x50030004, "chunk.type"},
        {36, 0x2f, "chunk.data_length"},     {36, 0x31, "chunk.data_length"},  {36, 0xffffffff, "chunk.data_length"},
        {0, 0x5000000d, "chunk.entries"},    {0, 0x5000ffff, "chunk.entries"}, {4, 0xffffffff, "chunk.records"},
        {4, 4 * 65535 + 1, "chunk.records"}, {0, 0x50000000, "chunk.records"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        coney_bytes bytes = bytes_of(V1_HEADER V1_ENTRIES);
        store32((uint8_t *)(uintptr_t)bytes.data + wrong[i].at, wrong[i].value);
        struct chunk chunk;
        const char *field = chunk_open(bytes, &chunk);
        if (field == NULL || strcmp(field, wrong[i].field) != 0)
            fail_msg("%zu: expected %s, got %s", i, wrong[i].field, field != NULL ? field : "a chunk");
        release(bytes);
    }
}

static void offsets_beyond_the_last_one_are_refused(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of("50 00 0001 00000001 0000018bcfe56800 0000000000000001 ffffffffffffffff 00000000 00000004"
                                 "00000000 00000000 00000000");
    assert_string_equal(walk_of(bytes), "chunk.first");
    release(bytes);
}

static void every_shorter_chunk_is_refused_and_named(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of(V1_HEADER V1_ENTRIES);
    for (size_t len = 0; len < bytes.len; len++) {
        coney_bytes shorter = exact_copy(bytes.data, len);
        struct chunk chunk;
        assert_string_equal(chunk_open(shorter, &chunk), len < CHUNK_HEADER_BYTES ? "chunk.header" : "chunk.data_length");
        release(shorter);
    }
    release(bytes);
}

/* The header admits the cut, so that it is the walk that has to find it. */
static void a_cut_anywhere_in_the_entries_ends_the_walk_without_a_byte_read_past_it(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of("50 00 0002 00000006 0000018bcfe56800 0000000000000001 0000000000000020 d966a143 00000000"
                                 "00000000 00000000 00000001 61 80 0005 0000003c 0000003c" V3_RECORDS);
    for (size_t data = 8; data < bytes.len - CHUNK_HEADER_BYTES; data++) {
        coney_bytes shorter = exact_copy(bytes.data, CHUNK_HEADER_BYTES + data);
        store32((uint8_t *)(uintptr_t)shorter.data + 36, (uint32_t)data);
        const char *expected = data < 16 ? "32=a 33!chunk.batch.header" : "32=a 33!chunk.batch.length";
        assert_string_equal(walk_of(shorter), expected);
        release(shorter);
    }
    release(bytes);
}

static void a_record_count_that_is_not_that_of_the_entries_breaks_the_walk_where_it_shows(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    chunk_add(&w, CONEY_STR("a"));
    chunk_add(&w, CONEY_STR("b"));
    w.records = 1;
    assert_string_equal(walk_written(&w), "32=a 33!chunk.records");
    w.records = 3;
    assert_string_equal(walk_written(&w), "32=a 33=b 34!chunk.records");
}

static void a_message_longer_than_the_rest_breaks_the_walk(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    chunk_add(&w, CONEY_STR("a"));
    chunk_add(&w, CONEY_STR("b"));
    store32(room + CHUNK_HEADER_BYTES + 5, 2);
    assert_string_equal(walk_written(&w), "32=a 33!chunk.entry.length");
    store32(room + CHUNK_HEADER_BYTES + 5, INT32_MAX);
    assert_string_equal(walk_written(&w), "32=a 33!chunk.entry.length");
    w.out.len -= 2;
    assert_string_equal(walk_written(&w), "32=a 33!chunk.entry.length");
}

static void a_batch_of_more_records_than_the_chunk_breaks_the_walk(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    add_raw(&w, 3, "00000001 61 00000001 62");
    w.records = 2;
    assert_string_equal(walk_written(&w), "32!chunk.batch.records");
}

static void a_batch_that_lacks_messages_is_reported_and_the_walk_goes_on_at_the_right_offset(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    add_raw(&w, 5, "00000001 61 00000001 62 00000001 63");
    chunk_add(&w, CONEY_STR("z"));
    assert_string_equal(walk_written(&w), "32=a 33=b 34=c 35?2 37=z");
}

static void a_batch_with_more_messages_than_it_says_gives_no_offset_twice(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    add_raw(&w, 1, "00000001 61 00000001 62");
    chunk_add(&w, CONEY_STR("z"));
    assert_string_equal(walk_written(&w), "32=a 33?0 33=z");
}

static void a_message_longer_than_its_batch_does_not_reach_into_the_next_entry(void **state)
{
    (void)state;
    static const char *const batches[] = {"00000001 61 00000002 62", "00000001 61 7fffffff 62", "00000001 61 000000",
                                          "00000001 61 80 0001 00000001 00000001 00"};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct chunk_writer w = start();
        add_raw(&w, 2, batches[i]);
        chunk_add(&w, CONEY_STR("z"));
        assert_string_equal(walk_written(&w), "32=a 33?1 34=z");
    }
}

static void damage_is_named_while_the_walk_goes_on(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    add_raw(&w, 1, "00000002 61");
    struct chunk chunk;
    assert_null(chunk_open(finish(&w), &chunk));
    struct chunk_walk walk = chunk_walk_of(&chunk);
    struct chunk_entry e;
    assert_int_equal(chunk_next(&walk, &e), CHUNK_DAMAGED);
    assert_string_equal(walk.field, "chunk.batch.record.length");
    assert_int_equal(chunk_next(&walk, &e), CHUNK_END);
}

static void a_broken_walk_stays_at_its_end(void **state)
{
    (void)state;
    struct chunk_writer w = start();
    chunk_add(&w, CONEY_STR("a"));
    w.records = 2;
    struct chunk chunk;
    assert_null(chunk_open(finish(&w), &chunk));
    struct chunk_walk walk = chunk_walk_of(&chunk);
    struct chunk_entry e;
    assert_int_equal(chunk_next(&walk, &e), CHUNK_MESSAGE);
    assert_int_equal(chunk_next(&walk, &e), CHUNK_BROKEN);
    for (int i = 0; i < 3; i++)
        assert_int_equal(chunk_next(&walk, &e), CHUNK_END);
    assert_string_equal(walk.field, "chunk.records");
    assert_int_equal(walk.offset, 33);
}

static void sixty_thousand_empty_batches_take_no_stack(void **state)
{
    (void)state;
    enum { BATCHES = 65000, ROOM = CHUNK_HEADER_BYTES + (BATCHES + 1) * CHUNK_BATCH_BYTES };
    uint8_t *big = malloc(ROOM);
    assert_non_null(big);
    struct chunk_writer w = chunk_begin(big, ROOM, CHUNK_USER, 0, 0, 32);
    for (int i = 0; i < BATCHES; i++)
        chunk_add_raw_batch(&w, 0, 0, 0, (coney_bytes){0});
    chunk_add(&w, CONEY_STR("z"));
    assert_string_equal(walk_of(coney_bytes_of(big, chunk_finish(&w, 0))), "32=z");
    free(big);
}

/* Writing ------------------------------------------------------------------------------------------------------------ */

static void a_written_chunk_is_byte_for_byte_what_a_broker_stores(void **state)
{
    (void)state;
    static const char *const messages[] = {"005375a003 6d3332", "005375a003 6d3333", "005375a003 6d3334", "005375a003 6d3335"};
    struct chunk_writer w = start();
    for (size_t i = 0; i < 4; i++) {
        coney_bytes message = bytes_of(messages[i]);
        chunk_add(&w, message);
        release(message);
    }
    coney_bytes expected = bytes_of(V1_HEADER V1_ENTRIES);
    coney_bytes written = finish(&w);
    assert_int_equal(written.len, expected.len);
    assert_memory_equal(written.data, expected.data, expected.len);
    release(expected);
}

static void SB_33_a_batch_takes_1_to_65535_messages(void **state)
{
    (void)state;
    enum { ROOM = CHUNK_HEADER_BYTES + CHUNK_BATCH_BYTES + 65536 * 4 };
    coney_bytes *messages = calloc(65536, sizeof *messages);
    uint8_t *big = malloc(ROOM);
    assert_non_null(messages);
    assert_non_null(big);

    struct chunk_writer w = chunk_begin(big, ROOM, CHUNK_USER, 0, 0, 0);
    chunk_add_batch(&w, messages, 65535);
    size_t len = chunk_finish(&w, 0);
    struct chunk chunk;
    assert_null(chunk_open(coney_bytes_of(big, len), &chunk));
    assert_int_equal(chunk.records, 65535);
    struct chunk_walk walk = chunk_walk_of(&chunk);
    struct chunk_entry e;
    uint32_t seen = 0;
    while (chunk_next(&walk, &e) == CHUNK_MESSAGE)
        seen++;
    assert_int_equal(seen, 65535);
    assert_null(walk.field);

    static const size_t refused[] = {0, 65536};
    for (size_t i = 0; i < 2; i++) {
        w = chunk_begin(big, ROOM, CHUNK_USER, 0, 0, 0);
        chunk_add_batch(&w, messages, refused[i]);
        assert_int_equal(chunk_finish(&w, 0), 0);
    }
    free(big);
    free(messages);
}

static void a_chunk_that_does_not_fit_its_room_is_not_finished_and_says_what_it_needs(void **state)
{
    (void)state;
    for (size_t cap = 0; cap < CHUNK_HEADER_BYTES + 6; cap++) {
        uint8_t *small = malloc(cap > 0 ? cap : 1);
        assert_non_null(small);
        struct chunk_writer w = chunk_begin(small, cap, CHUNK_USER, 0, 0, 0);
        chunk_add(&w, CONEY_STR("hi"));
        assert_int_equal(chunk_data(&w).len, 0);
        assert_int_equal(chunk_finish(&w, 0), 0);
        assert_int_equal(w.out.len, CHUNK_HEADER_BYTES + 6);
        free(small);
    }
}

static void what_has_no_form_in_a_chunk_is_refused(void **state)
{
    (void)state;
    coney_bytes too_long = {room, (size_t)INT32_MAX + 1};
    struct chunk_writer w = start();
    chunk_add_batch(&w, &too_long, 1);
    assert_int_equal(chunk_finish(&w, 0), 0);
    w = start();
    chunk_add_raw_batch(&w, 8, 1, 1, CONEY_STR("x"));
    assert_int_equal(chunk_finish(&w, 0), 0);
    w = chunk_begin(NULL, 0, CHUNK_USER, 0, 0, 0);
    chunk_add(&w, too_long);
    assert_int_equal(chunk_finish(&w, 0), 0);
}

/* Any byte may be wrong -------------------------------------------------------------------------------------------------- */

static void any_changed_byte_leaves_a_walk_that_ends(void **state)
{
    (void)state;
    const coney_bytes three[] = {CONEY_STR("b"), CONEY_STR("cc"), CONEY_STR("")};
    struct chunk_writer w = start();
    chunk_add(&w, CONEY_STR("a"));
    chunk_add_batch(&w, three, 3);
    chunk_add_raw_batch(&w, 2, 4, 99, CONEY_STR("packed"));
    chunk_add(&w, CONEY_STR("z"));
    coney_bytes written = finish(&w);
    for (size_t at = 0; at < written.len; at++) {
        for (unsigned value = 0; value < 256; value++) {
            coney_bytes changed = exact_copy(written.data, written.len);
            ((uint8_t *)(uintptr_t)changed.data)[at] = (uint8_t)value;
            struct chunk chunk;
            if (chunk_open(changed, &chunk) == NULL) {
                struct chunk_walk walk = chunk_walk_of(&chunk);
                struct chunk_entry e;
                uint64_t items = 0;
                uint64_t reached = chunk.first;
                while (chunk_next(&walk, &e) != CHUNK_END) {
                    assert_true(walk.offset >= reached);
                    reached = walk.offset;
                    items++;
                }
                assert_true(items <= chunk.data.len / 4 + 1);
                assert_true(walk.offset <= chunk.first + chunk.records);
            }
            release(changed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_gives_its_header_and_its_messages_with_their_offsets),
        cmocka_unit_test(SB_27_a_plain_batch_is_read_as_its_messages),
        cmocka_unit_test(batches_and_messages_mix_and_offsets_count_through),
        cmocka_unit_test(SB_36_bloom_and_trailer_fields_of_the_header_shift_nothing),
        cmocka_unit_test(SB_36_deliver_v2_gives_the_same_messages_and_the_committed_chunk),
        cmocka_unit_test(SB_35_two_delivers_in_one_run_pass_their_checksums_wherever_they_lie),
        cmocka_unit_test(a_trailer_that_comes_along_is_left_aside),
        cmocka_unit_test(a_compressed_batch_is_one_item_and_the_walk_goes_on_behind_it),
        cmocka_unit_test(every_kind_of_compression_is_reported_with_its_number),
        cmocka_unit_test(an_empty_chunk_ends_at_once),
        cmocka_unit_test(offsets_reach_up_to_the_last_one),
        cmocka_unit_test(a_header_that_cannot_be_is_refused_and_named),
        cmocka_unit_test(offsets_beyond_the_last_one_are_refused),
        cmocka_unit_test(every_shorter_chunk_is_refused_and_named),
        cmocka_unit_test(a_cut_anywhere_in_the_entries_ends_the_walk_without_a_byte_read_past_it),
        cmocka_unit_test(a_record_count_that_is_not_that_of_the_entries_breaks_the_walk_where_it_shows),
        cmocka_unit_test(a_message_longer_than_the_rest_breaks_the_walk),
        cmocka_unit_test(a_batch_of_more_records_than_the_chunk_breaks_the_walk),
        cmocka_unit_test(a_batch_that_lacks_messages_is_reported_and_the_walk_goes_on_at_the_right_offset),
        cmocka_unit_test(a_batch_with_more_messages_than_it_says_gives_no_offset_twice),
        cmocka_unit_test(a_message_longer_than_its_batch_does_not_reach_into_the_next_entry),
        cmocka_unit_test(damage_is_named_while_the_walk_goes_on),
        cmocka_unit_test(a_broken_walk_stays_at_its_end),
        cmocka_unit_test(sixty_thousand_empty_batches_take_no_stack),
        cmocka_unit_test(a_written_chunk_is_byte_for_byte_what_a_broker_stores),
        cmocka_unit_test(SB_33_a_batch_takes_1_to_65535_messages),
        cmocka_unit_test(a_chunk_that_does_not_fit_its_room_is_not_finished_and_says_what_it_needs),
        cmocka_unit_test(what_has_no_form_in_a_chunk_is_refused),
        cmocka_unit_test(any_changed_byte_leaves_a_walk_that_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
