#include "proto/stream/chunk.h"
#include "proto/stream/codec.h"
#include "proto/stream/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SERVER STREAM_FROM_SERVER
#define CLIENT STREAM_FROM_CLIENT

#define FRAME(...) ((struct stream_frame){.version = 1, .key = __VA_ARGS__})
#define CALL(key_, ...) FRAME(key_, .correlation = __VA_ARGS__)
#define ANSWER(key_, correlation_, ...) FRAME(key_, .correlation = correlation_, .response = true, .code = __VA_ARGS__)

/* Lists for the frames under test stand here until the test ends. */
static uint8_t shelf[4096];
static size_t shelved;

static int clear_shelf(void **state)
{
    (void)state;
    shelved = 0;
    return 0;
}

static struct list_writer start_list(void)
{
    return list_begin(shelf + shelved, sizeof shelf - shelved);
}

static struct stream_list keep_list(struct list_writer *w)
{
    struct stream_list list = {0};
    assert_true(list_end(w, &list));
    shelved += list.len;
    return list;
}

static struct stream_list strings(const char *a, const char *b)
{
    struct list_writer w = start_list();
    list_add_string(&w, coney_bytes_of(a, strlen(a)));
    list_add_string(&w, coney_bytes_of(b, strlen(b)));
    return keep_list(&w);
}

static struct stream_list pair(const char *key, const char *value)
{
    struct list_writer w = start_list();
    list_add_pair(&w, coney_bytes_of(key, strlen(key)), coney_bytes_of(value, strlen(value)));
    return keep_list(&w);
}

static struct stream_list one_entry(uint16_t version, struct stream_publish_entry entry)
{
    struct list_writer w = start_list();
    list_add_entry(&w, version, &entry);
    return keep_list(&w);
}

/* Checks ----------------------------------------------------------------------------------------------------------- */

static void assert_encodes_to(const struct stream_frame *frame, coney_bytes wire)
{
    size_t size = stream_encode(frame, NULL, 0);
    assert_int_equal(size, wire.len);
    coney_bytes room = exact_copy(wire.data, wire.len);
    memset((void *)(uintptr_t)room.data, 0xee, room.len);
    assert_int_equal(stream_encode(frame, (void *)(uintptr_t)room.data, room.len - 1), wire.len);
    assert_int_equal(*(const uint8_t *)room.data, 0xee);
    assert_int_equal(stream_encode(frame, (void *)(uintptr_t)room.data, room.len), wire.len);
    assert_memory_equal(room.data, wire.data, wire.len);
    release(room);
}

static bool is_error_without_tail(const struct stream_frame *frame, size_t len)
{
    return frame->response && frame->code != STREAM_CODE_OK && len == 10;
}

/* Every shorter frame is refused by name, but for one that is a whole message by itself: it ends after an error code, or
 * encodes to its own bytes. */
static void assert_truncations_are_safe(coney_bytes body, enum stream_side from, bool may_end_early)
{
    for (size_t len = 0; len < body.len; len++) {
        coney_bytes shorter = exact_copy(body.data, len);
        struct stream_frame out;
        const char *field = stream_decode(shorter, from, &out);
        if (field == NULL && out.key == STREAM_DELIVER) {
            struct chunk chunk;
            field = chunk_open(out.deliver.chunk, &chunk);
        }
        if (field == NULL)
            assert_true(may_end_early);
        if (field == NULL && !is_error_without_tail(&out, len)) {
            uint8_t again[512];
            assert_int_equal(stream_encode(&out, again, sizeof again), len + STREAM_SIZE_BYTES);
            assert_memory_equal(again + STREAM_SIZE_BYTES, shorter.data, len);
        }
        release(shorter);
    }
}

static void assert_longer_is_refused(coney_bytes body, enum stream_side from)
{
    uint8_t longer[512] = {0};
    memcpy(longer, body.data, body.len);
    struct stream_frame out;
    if (load16(longer) != STREAM_DELIVER)
        assert_non_null(stream_decode(coney_bytes_of(longer, body.len + 1), from, &out));
}

static void assert_any_changed_byte_is_survived(coney_bytes body, enum stream_side from)
{
    static const uint8_t changes[] = {0x01, 0x80, 0x7f, 0xff};
    for (size_t at = 0; at < body.len; at++) {
        for (size_t i = 0; i < sizeof changes; i++) {
            coney_bytes changed = exact_copy(body.data, body.len);
            ((uint8_t *)(uintptr_t)changed.data)[at] ^= changes[i];
            struct stream_frame out;
            if (stream_decode(changed, from, &out) == NULL)
                assert_true(stream_encode(&out, NULL, 0) > 0);
            release(changed);
        }
    }
}

/* The frame and the wire say the same, in both directions. */
static void same(coney_bytes wire, enum stream_side from, struct stream_frame frame, bool may_end_early)
{
    assert_encodes_to(&frame, wire);

    coney_bytes body = exact_copy((const uint8_t *)wire.data + 4, wire.len - 4);
    struct stream_frame out;
    const char *field = stream_decode(body, from, &out);
    if (field != NULL)
        fail_msg("%s: %s", stream_key_name(frame.key), field);
    assert_int_equal(out.key, frame.key);
    assert_int_equal(out.version, frame.version);
    assert_int_equal(out.response, frame.response);
    assert_int_equal(out.code, frame.code);
    assert_int_equal(out.correlation, frame.correlation);
    assert_encodes_to(&out, wire);

    assert_truncations_are_safe(body, from, may_end_early);
    assert_longer_is_refused(body, from);
    assert_any_changed_byte_is_survived(body, from);
    release(body);
}

/* A vector with its size field, as it was seen on the wire. No shorter frame is a message. */
static void vector(const char *text, enum stream_side from, struct stream_frame frame)
{
    coney_bytes wire = bytes_of(text);
    assert_int_equal(load32(wire.data), wire.len - 4);
    same(wire, from, frame, false);
    release(wire);
}

/* A message without its size field. */
static void message_that(bool may_end_early, const char *text, enum stream_side from, struct stream_frame frame)
{
    coney_bytes body = bytes_of(text);
    uint8_t wire[512];
    store32(wire, (uint32_t)body.len);
    memcpy(wire + 4, body.data, body.len);
    same(coney_bytes_of(wire, body.len + 4), from, frame, may_end_early);
    release(body);
}

static void message(const char *text, enum stream_side from, struct stream_frame frame)
{
    message_that(false, text, from, frame);
}

/* Vectors of a live broker ------------------------------------------------------------------------------------------- */

static void the_vectors_of_opening_a_connection_hold(void **state)
{
    (void)state;
    vector("0000000c 0014 0001 00100000 0000003c", SERVER, FRAME(STREAM_TUNE, .tune = {1048576, 60}));
    vector("0000000c 8014 0001 00100000 0000003c", CLIENT, FRAME(STREAM_TUNE, .response = true, .tune = {1048576, 60}));
    vector("0000000b 0015 0001 00000003 0001 2f", CLIENT, CALL(STREAM_OPEN, 3, .open.vhost = CONEY_STR("/")));
    struct list_writer w = start_list();
    list_add_pair(&w, CONEY_STR("advertised_port"), CONEY_STR("5552"));
    list_add_pair(&w, CONEY_STR("advertised_host"), CONEY_STR("localhost"));
    vector(
        "00000041 8015 0001 00000003 0001 00000002 000f 'advertised_port' 0004 '5552' 000f 'advertised_host' 0009 'localhost'",
        SERVER, ANSWER(STREAM_OPEN, 3, 1, .open_answer.properties = keep_list(&w)));
    vector("00000004 0017 0001", CLIENT, FRAME(STREAM_HEARTBEAT));
    vector("00000004 0017 0001", SERVER, FRAME(STREAM_HEARTBEAT));
}

static void the_vector_of_a_client_that_announces_deliver_v2_holds(void **state)
{
    (void)state;
    struct list_writer w = start_list();
    stream_add_versions(&w, STREAM_FROM_CLIENT);
    vector("00000012 001b 0001 00000004 00000001 0008 0001 0002", CLIENT,
           CALL(STREAM_EXCHANGE_COMMAND_VERSIONS, 4, .exchange_command_versions.commands = keep_list(&w)));
}

static void a_server_announces_the_twenty_commands_that_an_open_connection_may_send(void **state)
{
    (void)state;
    struct list_writer w = start_list();
    stream_add_versions(&w, STREAM_FROM_SERVER);
    vector("00000086 801b 0001 00000004 0001 00000014"
           "0001 0001 0001  0002 0001 0002  0005 0001 0001  0006 0001 0001  0007 0001 0001  0009 0001 0001  000a 0001 0001"
           "000b 0001 0001  000c 0001 0001  000d 0001 0001  000e 0001 0001  000f 0001 0001  0016 0001 0001  0017 0001 0001"
           "0018 0001 0001  0019 0001 0001  001c 0001 0001  001d 0001 0001  001e 0001 0001  001f 0001 0001",
           SERVER, ANSWER(STREAM_EXCHANGE_COMMAND_VERSIONS, 4, 1, .exchange_command_versions_answer.commands = keep_list(&w)));
}

static void the_vectors_of_publishing_hold(void **state)
{
    (void)state;
    vector("0000000e 0001 0001 00000007 00 0000 0001 73", CLIENT,
           CALL(STREAM_DECLARE_PUBLISHER, 7, .declare_publisher.stream = CONEY_STR("s")));
    vector("0000000a 8001 0001 00000007 0001", SERVER, ANSWER(STREAM_DECLARE_PUBLISHER, 7, 1));

    struct stream_publish_entry hi = {.id = 1, .entry = {.records = 1, .data = CONEY_STR("hi")}};
    vector("00000017 0002 0001 00 00000001 0000000000000001 00000002 6869", CLIENT,
           FRAME(STREAM_PUBLISH, .publish.entries = one_entry(1, hi)));

    struct list_writer w = start_list();
    list_add_id(&w, 1);
    vector("00000011 0003 0001 00 00000001 0000000000000001", SERVER,
           FRAME(STREAM_PUBLISH_CONFIRM, .publish_confirm.ids = keep_list(&w)));

    w = start_list();
    list_add_error(&w, (struct stream_publish_error){1, STREAM_CODE_PUBLISHER_DOES_NOT_EXIST});
    vector("00000013 0004 0001 07 00000001 0000000000000001 0012", SERVER,
           FRAME(STREAM_PUBLISH_ERROR, .publish_error = {7, keep_list(&w)}));
}

static void the_vectors_of_batches_and_filter_values_hold(void **state)
{
    (void)state;
    struct stream_publish_entry batch = {
        .id = 100,
        .entry = {.batch = true, .records = 3, .uncompressed = 18, .data = CONEY_STR("\0\0\0\2h0\0\0\0\2h1\0\0\0\2h2")},
    };
    vector("0000002e 0002 0001 00 00000001"
           "0000000000000064 80 0003 00000012 00000012 00000002 6830 00000002 6831 00000002 6832",
           CLIENT, FRAME(STREAM_PUBLISH, .publish.entries = one_entry(1, batch)));

    struct stream_publish_entry filtered = {.id = 202, .filter = CONEY_STR("fv"), .entry.data = CONEY_STR("f")};
    struct stream_frame v2 = FRAME(STREAM_PUBLISH, .publish.entries = one_entry(2, filtered));
    v2.version = 2;
    vector("0000001a 0002 0002 00 00000001 00000000000000ca 0002 6676 00000001 66", CLIENT, v2);

    struct stream_publish_entry unfiltered = {.id = 202, .entry.data = CONEY_STR("n")};
    v2.publish.entries = one_entry(2, unfiltered);
    vector("00000018 0002 0002 00 00000001 00000000000000ca ffff 00000001 6e", CLIENT, v2);
}

static void the_vectors_of_consuming_hold(void **state)
{
    (void)state;
    vector(
        "00000018 0007 0001 00000008 00 0001 73 0004 0000000000000000 000a", CLIENT,
        CALL(STREAM_SUBSCRIBE, 8, .subscribe = {.stream = CONEY_STR("s"), .offset = {STREAM_OFFSET_OFFSET, 0}, .credit = 10}));
    vector("0000000a 8007 0001 00000008 0001", SERVER, ANSWER(STREAM_SUBSCRIBE, 8, 1));
    vector("00000007 0009 0001 09 0001", CLIENT, FRAME(STREAM_CREDIT, .credit = {9, 1}));
    vector("00000007 8009 0001 0004 09", SERVER,
           FRAME(STREAM_CREDIT, .response = true, .code = 4, .credit_answer.subscription = 9));
    vector("0000000a 001a 0001 00000000 05 01", SERVER, CALL(STREAM_CONSUMER_UPDATE, 0, .consumer_update = {5, true}));
    vector("0000000c 801a 0001 00000000 0001 0000", CLIENT, ANSWER(STREAM_CONSUMER_UPDATE, 0, 1));
    vector("00000014 801a 0001 00000000 0001 0004 0000000000000002", CLIENT,
           ANSWER(STREAM_CONSUMER_UPDATE, 0, 1, .consumer_update_answer.offset = {STREAM_OFFSET_OFFSET, 2}));
}

static void the_vector_of_deliver_v2_holds(void **state)
{
    (void)state;
    coney_bytes chunk = bytes_of("50 00 0001 00000001 000001a22b94c613 0000000000000001 0000000000000000 2b0c4d9e 00000006"
                                 "00000000 00000000 00000002 6869");
    struct stream_frame deliver = FRAME(STREAM_DELIVER, .deliver.chunk = chunk);
    deliver.version = 2;
    vector("00000043 0008 0002 00 0000000000000000 50 00 0001 00000001 000001a22b94c613 0000000000000001 0000000000000000"
           "2b0c4d9e 00000006 00000000 00000000 00000002 6869",
           SERVER, deliver);
    release(chunk);
}

static void the_vectors_of_metadata_and_close_hold(void **state)
{
    (void)state;
    struct list_writer w = start_list();
    list_add_placement(&w, &(struct stream_placement){.stream = CONEY_STR("none"), .code = 2, .leader = STREAM_NO_NODE});
    vector("0000001e 800f 0001 00000005 00000000 00000001 0004 6e6f6e65 0002 ffff 00000000", SERVER,
           ANSWER(STREAM_METADATA, 5, 0, .metadata_answer.streams = keep_list(&w)));
    vector("00000019 0016 0001 00000001 000d 000d 'unknown frame'", SERVER,
           CALL(STREAM_CLOSE, 1, .close = {STREAM_CODE_UNKNOWN_FRAME, CONEY_STR("unknown frame")}));
    vector("0000000a 8016 0001 00000001 0001", CLIENT, ANSWER(STREAM_CLOSE, 1, 1));
}

/* Every other message ------------------------------------------------------------------------------------------------ */

static void commands_of_publishers_hold(void **state)
{
    (void)state;
    message("0001 0001 01020304 ff 0003 'ref' 0002 's1'", CLIENT,
            CALL(STREAM_DECLARE_PUBLISHER, 0x01020304, .declare_publisher = {255, CONEY_STR("ref"), CONEY_STR("s1")}));
    message("0005 0001 00000001 0003 'ref' 0002 's1'", CLIENT,
            CALL(STREAM_QUERY_PUBLISHER_SEQUENCE, 1, .query_publisher_sequence = {CONEY_STR("ref"), CONEY_STR("s1")}));
    message("8005 0001 00000001 0001 ffffffffffffffff", SERVER,
            ANSWER(STREAM_QUERY_PUBLISHER_SEQUENCE, 1, 1, .query_publisher_sequence_answer.sequence = UINT64_MAX));
    message("0006 0001 00000002 07", CLIENT, CALL(STREAM_DELETE_PUBLISHER, 2, .delete_publisher.publisher = 7));
    message("8006 0001 00000002 0012", SERVER, ANSWER(STREAM_DELETE_PUBLISHER, 2, 18));

    struct list_writer w = start_list();
    for (uint64_t id = 3; id > 0; id--)
        list_add_id(&w, id);
    message("0003 0001 09 00000003 0000000000000003 0000000000000002 0000000000000001", SERVER,
            FRAME(STREAM_PUBLISH_CONFIRM, .publish_confirm = {9, keep_list(&w)}));
    message("0002 0001 09 00000000", CLIENT, FRAME(STREAM_PUBLISH, .publish.publisher = 9));
}

static void commands_of_subscriptions_hold(void **state)
{
    (void)state;
    struct stream_subscribe subscribe = {1, CONEY_STR("s1"), {STREAM_OFFSET_TIMESTAMP, (uint64_t)INT64_C(-1)}, 0xffff, {0}};
    message("0007 0001 00000001 01 0002 's1' 0005 ffffffffffffffff ffff", CLIENT,
            CALL(STREAM_SUBSCRIBE, 1, .subscribe = subscribe));
    subscribe = (struct stream_subscribe){1, CONEY_STR("s1"), {STREAM_OFFSET_NEXT, 0}, 10, pair("name", "app")};
    message_that(true, "0007 0001 00000001 01 0002 's1' 0003 000a 00000001 0004 'name' 0003 'app'", CLIENT,
                 CALL(STREAM_SUBSCRIBE, 1, .subscribe = subscribe));
    message("0009 0001 01 8000", CLIENT, FRAME(STREAM_CREDIT, .credit = {1, INT16_MIN}));
    message("000c 0001 00000003 01", CLIENT, CALL(STREAM_UNSUBSCRIBE, 3, .unsubscribe.subscription = 1));
    message("800c 0001 00000003 0004", SERVER, ANSWER(STREAM_UNSUBSCRIBE, 3, 4));
    message("001a 0001 00000007 05 00", SERVER, CALL(STREAM_CONSUMER_UPDATE, 7, .consumer_update = {5, false}));
}

static void commands_of_offsets_hold(void **state)
{
    (void)state;
    message("000a 0001 0003 'ref' 0002 's1' 8000000000000001", CLIENT,
            FRAME(STREAM_STORE_OFFSET, .store_offset = {CONEY_STR("ref"), CONEY_STR("s1"), UINT64_C(0x8000000000000001)}));
    message("000b 0001 00000002 0003 'ref' 0002 's1'", CLIENT,
            CALL(STREAM_QUERY_OFFSET, 2, .query_offset = {CONEY_STR("ref"), CONEY_STR("s1")}));
    message("800b 0001 00000002 0001 000000000000002a", SERVER,
            ANSWER(STREAM_QUERY_OFFSET, 2, 1, .query_offset_answer.offset = 42));
    message_that(true, "800b 0001 00000002 0013 0000000000000000", SERVER,
                 ANSWER(STREAM_QUERY_OFFSET, 2, STREAM_CODE_NO_OFFSET, .query_offset_answer.offset = 0));

    struct stream_resolve_offset_spec resolve = {CONEY_STR("s1"), {STREAM_OFFSET_LAST, 0}, {0}};
    message("001f 0001 00000003 0002 's1' 0002", CLIENT, CALL(STREAM_RESOLVE_OFFSET_SPEC, 3, .resolve_offset_spec = resolve));
    resolve.properties = pair("filter.0", "a");
    message_that(true, "001f 0001 00000003 0002 's1' 0002 00000001 0008 'filter.0' 0001 'a'", CLIENT,
                 CALL(STREAM_RESOLVE_OFFSET_SPEC, 3, .resolve_offset_spec = resolve));
    message("801f 0001 00000003 0001 0004 000000000000002a", SERVER,
            ANSWER(STREAM_RESOLVE_OFFSET_SPEC, 3, 1, .resolve_offset_spec_answer.offset = {STREAM_OFFSET_OFFSET, 42}));
}

static void commands_of_streams_hold(void **state)
{
    (void)state;
    struct stream_create create = {CONEY_STR("s1"), pair("max-age", "1h")};
    message("000d 0001 00000001 0002 's1' 00000001 0007 'max-age' 0002 '1h'", CLIENT, CALL(STREAM_CREATE, 1, .create = create));
    message("000d 0001 00000001 0002 's1' 00000000", CLIENT, CALL(STREAM_CREATE, 1, .create.stream = CONEY_STR("s1")));
    message("800d 0001 00000001 0005", SERVER, ANSWER(STREAM_CREATE, 1, STREAM_CODE_STREAM_EXISTS));
    message("000e 0001 00000002 0002 's1'", CLIENT, CALL(STREAM_DELETE, 2, .delete.stream = CONEY_STR("s1")));
    message("800e 0001 00000002 0001", SERVER, ANSWER(STREAM_DELETE, 2, 1));
    message("001c 0001 00000003 0002 's1'", CLIENT, CALL(STREAM_STREAM_STATS, 3, .stream_stats.stream = CONEY_STR("s1")));

    struct list_writer w = start_list();
    list_add_stat(&w, CONEY_STR("first_chunk_id"), -1);
    list_add_stat(&w, CONEY_STR("committed_offset"), 7);
    message("801c 0001 00000003 0001 00000002 000e 'first_chunk_id' ffffffffffffffff 0010 'committed_offset' 0000000000000007",
            SERVER, ANSWER(STREAM_STREAM_STATS, 3, 1, .stream_stats_answer.stats = keep_list(&w)));
    message_that(true, "801c 0001 00000003 0002 00000000", SERVER, ANSWER(STREAM_STREAM_STATS, 3, 2));
}

static void commands_of_topology_hold(void **state)
{
    (void)state;
    message("000f 0001 00000001 00000002 0002 's1' 0002 's2'", CLIENT,
            CALL(STREAM_METADATA, 1, .metadata.streams = strings("s1", "s2")));

    struct stream_metadata_answer answer;
    struct list_writer w = start_list();
    list_add_broker(&w, &(struct stream_broker){0, CONEY_STR("a"), 5552});
    list_add_broker(&w, &(struct stream_broker){1, CONEY_STR("b"), 5551});
    answer.brokers = keep_list(&w);
    w = start_list();
    list_add_index(&w, 1);
    list_add_index(&w, 2);
    struct stream_list replicas = keep_list(&w);
    w = start_list();
    list_add_placement(&w, &(struct stream_placement){CONEY_STR("s1"), 1, 0, replicas});
    list_add_placement(&w, &(struct stream_placement){CONEY_STR("s2"), 6, STREAM_NO_NODE, {0}});
    answer.streams = keep_list(&w);
    message("800f 0001 00000001 00000002 0000 0001 'a' 000015b0 0001 0001 'b' 000015af"
            "00000002 0002 's1' 0001 0000 00000002 0001 0002 0002 's2' 0006 ffff 00000000",
            SERVER, ANSWER(STREAM_METADATA, 1, 0, .metadata_answer = answer));
    message("800f 0001 00000001 00000000 00000000", SERVER, ANSWER(STREAM_METADATA, 1, 0));

    message("0010 0001 0006 0002 's1'", SERVER, FRAME(STREAM_METADATA_UPDATE, .metadata_update = {6, CONEY_STR("s1")}));
}

static void commands_of_super_streams_hold(void **state)
{
    (void)state;
    message("0018 0001 00000001 0003 'key' 0001 'S'", CLIENT,
            CALL(STREAM_ROUTE, 1, .route = {CONEY_STR("key"), CONEY_STR("S")}));
    message("8018 0001 00000001 0001 00000002 0001 'x' 0001 'y'", SERVER,
            ANSWER(STREAM_ROUTE, 1, 1, .route_answer.streams = strings("x", "y")));
    message("0019 0001 00000002 0001 'S'", CLIENT, CALL(STREAM_PARTITIONS, 2, .partitions.super_stream = CONEY_STR("S")));
    message("8019 0001 00000002 0001 00000002 0001 'x' 0001 'y'", SERVER,
            ANSWER(STREAM_PARTITIONS, 2, 1, .partitions_answer.streams = strings("x", "y")));

    struct stream_create_super_stream create = {
        .name = CONEY_STR("S"),
        .partitions = strings("S-0", "S-1"),
        .binding_keys = strings("0", "1"),
        .arguments = pair("max-age", "1h"),
    };
    message("001d 0001 00000003 0001 'S' 00000002 0003 'S-0' 0003 'S-1' 00000002 0001 '0' 0001 '1'"
            "00000001 0007 'max-age' 0002 '1h'",
            CLIENT, CALL(STREAM_CREATE_SUPER_STREAM, 3, .create_super_stream = create));
    message("801d 0001 00000003 0011", SERVER, ANSWER(STREAM_CREATE_SUPER_STREAM, 3, STREAM_CODE_PRECONDITION_FAILED));
    message("001e 0001 00000004 0001 'S'", CLIENT,
            CALL(STREAM_DELETE_SUPER_STREAM, 4, .delete_super_stream.name = CONEY_STR("S")));
    message("801e 0001 00000004 0001", SERVER, ANSWER(STREAM_DELETE_SUPER_STREAM, 4, 1));
}

static void commands_of_logging_in_hold(void **state)
{
    (void)state;
    message("0011 0001 00000001 00000001 0007 'product' 0005 'coney'", CLIENT,
            CALL(STREAM_PEER_PROPERTIES, 1, .peer_properties.properties = pair("product", "coney")));
    message("8011 0001 00000001 0001 00000001 0007 'version' 0005 '4.3.6'", SERVER,
            ANSWER(STREAM_PEER_PROPERTIES, 1, 1, .peer_properties_answer.properties = pair("version", "4.3.6")));
    message("0012 0001 00000002", CLIENT, CALL(STREAM_SASL_HANDSHAKE, 2));
    message("8012 0001 00000002 0001 00000002 0005 'PLAIN' 0008 'AMQPLAIN'", SERVER,
            ANSWER(STREAM_SASL_HANDSHAKE, 2, 1, .sasl_handshake_answer.mechanisms = strings("PLAIN", "AMQPLAIN")));
    message("0013 0001 00000003 0005 'PLAIN' 0000000c 00 'guest' 00 'guest'", CLIENT,
            CALL(STREAM_SASL_AUTHENTICATE, 3, .sasl_authenticate = {CONEY_STR("PLAIN"), CONEY_STR("\0guest\0guest")}));
    message("8013 0001 00000003 0001", SERVER, ANSWER(STREAM_SASL_AUTHENTICATE, 3, 1));
    message_that(true, "8013 0001 00000003 000a 0003 'why'", SERVER,
                 ANSWER(STREAM_SASL_AUTHENTICATE, 3, STREAM_CODE_SASL_CHALLENGE,
                        .sasl_authenticate_answer.challenge = CONEY_STR("why")));
    message("8015 0001 00000004 000c", SERVER, ANSWER(STREAM_OPEN, 4, STREAM_CODE_VHOST_ACCESS_FAILURE));
}

static void either_side_closes_and_answers_a_close(void **state)
{
    (void)state;
    struct stream_frame close = CALL(STREAM_CLOSE, 9, .close = {1, CONEY_STR("bye")});
    message("0016 0001 00000009 0001 0003 'bye'", CLIENT, close);
    message("0016 0001 00000009 0001 0003 'bye'", SERVER, close);
    message("8016 0001 00000009 0001", SERVER, ANSWER(STREAM_CLOSE, 9, 1));
    message("8016 0001 00000009 0001", CLIENT, ANSWER(STREAM_CLOSE, 9, 1));
}

/* Tolerance and refusals --------------------------------------------------------------------------------------------- */

static void decode(const char *text, enum stream_side from, struct stream_frame *out)
{
    coney_bytes body = bytes_of(text);
    const char *field = stream_decode(body, from, out);
    release(body);
    if (field != NULL)
        fail_msg("'%s': %s", text, field);
}

static void an_answer_with_an_error_may_end_at_its_code(void **state)
{
    (void)state;
    struct stream_frame out;
    decode("800b 0001 00000002 0013", SERVER, &out);
    assert_int_equal(out.code, STREAM_CODE_NO_OFFSET);
    assert_int_equal(out.query_offset_answer.offset, 0);
    decode("801c 0001 00000002 0002", SERVER, &out);
    assert_int_equal(out.stream_stats_answer.stats.count, 0);
    decode("801f 0001 00000002 0002", SERVER, &out);
    assert_int_equal(out.resolve_offset_spec_answer.offset.type, STREAM_OFFSET_NONE);
}

static void a_sasl_challenge_is_read_as_a_string_and_as_bytes(void **state)
{
    (void)state;
    static const char *const forms[] = {"8013 0001 00000003 000a 0003 'why'", "8013 0001 00000003 000a 00000003 'why'"};
    for (size_t i = 0; i < 2; i++) {
        coney_bytes body = bytes_of(forms[i]);
        struct stream_frame out;
        assert_null(stream_decode(body, STREAM_FROM_SERVER, &out));
        assert_true(bytes_equal(out.sasl_authenticate_answer.challenge, CONEY_STR("why")));
        release(body);
    }
    struct stream_frame out;
    decode("8013 0001 00000003 000a ffffffff", SERVER, &out);
    assert_int_equal(out.sasl_authenticate_answer.challenge.len, 0);
    decode("8013 0001 00000003 000a 00000000", SERVER, &out);
    decode("8013 0001 00000003 000a 0000", SERVER, &out);
    assert_int_equal(out.sasl_authenticate_answer.challenge.len, 0);
}

static void null_sasl_data_reads_as_empty(void **state)
{
    (void)state;
    struct stream_frame out;
    decode("0013 0001 00000003 0005 'PLAIN' ffffffff", CLIENT, &out);
    assert_int_equal(out.sasl_authenticate.data.len, 0);
}

static void a_client_answers_tune_under_either_key(void **state)
{
    (void)state;
    struct stream_frame out;
    decode("0014 0001 00001000 0000000a", CLIENT, &out);
    assert_true(out.response);
    assert_int_equal(out.tune.frame_max, 4096);
    assert_int_equal(out.tune.heartbeat, 10);
    decode("8014 0001 00001000 0000000a", CLIENT, &out);
    assert_true(out.response);
    decode("0014 0001 00001000 0000000a", SERVER, &out);
    assert_false(out.response);
}

static void old_brokers_answer_route_and_partitions_without_the_response_bit(void **state)
{
    (void)state;
    struct stream_frame out;
    decode("0018 0001 00000001 0001 00000001 0001 'x'", SERVER, &out);
    assert_true(out.response);
    assert_int_equal(out.key, STREAM_ROUTE);
    assert_int_equal(out.route_answer.streams.count, 1);
    decode("0019 0001 00000001 0002", SERVER, &out);
    assert_true(out.response);
    assert_int_equal(out.code, STREAM_CODE_STREAM_DOES_NOT_EXIST);
}

static void a_wrong_frame_is_refused_with_the_name_of_its_field(void **state)
{
    (void)state;
    static const struct {
        enum stream_side from;
        const char *text;
        const char *field;
    } wrong[] = {
        {SERVER, "", "frame.key"},
        {SERVER, "80", "frame.key"},
        {SERVER, "8001 00", "frame.version"},
        {SERVER, "0000 0001", "frame.key"},
        {SERVER, "0020 0001", "frame.key"},
        {SERVER, "ffff 0001", "frame.key"},
        {SERVER, "0001 0001 00000007 00 0000 0001 73", "frame.key"}, /* a client's command */
        {CLIENT, "0003 0001 00 00000000", "frame.key"},              /* a server's push */
        {CLIENT, "8001 0001 00000007 0001", "frame.key"},            /* a server's answer */
        {SERVER, "801a 0001 00000000 0001 0000", "frame.key"},       /* a client's answer */
        {SERVER, "8017 0001", "frame.key"},                          /* heartbeats have one key */
        {SERVER, "8014 0001 00100000 0000003c", "frame.key"},        /* the server asks, it does not answer */
        {SERVER, "8003 0001 00 00000000", "frame.key"},              /* never answered */
        {CLIENT, "0001 0002 00000007 00 0000 0001 73", "frame.version"},
        {CLIENT, "0001 0000 00000007 00 0000 0001 73", "frame.version"},
        {CLIENT, "0002 0003 00 00000000", "frame.version"},
        {SERVER, "8001 0002 00000007 0001", "frame.version"},
        {SERVER, "8001 0001 000000", "frame.correlation"},
        {SERVER, "8001 0001 00000007 00", "frame.code"},
        {SERVER, "8001 0001 00000007 0001 00", "frame.end"},
        {SERVER, "0017 0001 00", "frame.end"},
        {CLIENT, "0001 0001 00000007", "declare_publisher.publisher"},
        {CLIENT, "0001 0001 00000007 00 0002 61", "declare_publisher.reference"},
        {CLIENT, "0001 0001 00000007 00 ffff", "declare_publisher.reference"}, /* there is no null string */
        {CLIENT, "0001 0001 00000007 00 0000 00", "declare_publisher.stream"},
        {CLIENT, "0002 0001 00 00000001 00000000000000", "publish.entries.id"},
        {CLIENT, "0002 0001 00 00000001 0000000000000001 000000", "publish.entries.length"},
        {CLIENT, "0002 0001 00 00000001 0000000000000001 7fffffff 61", "publish.entries.data"},
        {CLIENT, "0002 0001 00 00000001 0000000000000001 80 00", "publish.entries.records"},
        {CLIENT, "0002 0001 00 00000001 0000000000000001 80 0001 00000005 00000005 00000001", "publish.entries.data"},
        {CLIENT, "0002 0002 00 00000001 0000000000000001 0003 6162", "publish.entries.filter"},
        {CLIENT, "0002 0002 00 00000001 0000000000000001 ffff 80000001 61", "publish.entries.data"}, /* no batches in v2 */
        {CLIENT, "0002 0001 00 00000002 0000000000000001 00000000", "publish.entries.id"},
        {CLIENT, "0002 0001 00 00000000 0000000000000001 00000000", "frame.end"},
        {SERVER, "0003 0001 00 ffffffff 0000000000000001", "publish_confirm.ids"},
        {SERVER, "0004 0001 00 00000001 0000000000000001 00", "publish_error.errors.code"},
        {CLIENT, "0007 0001 00000008 00 0001 73 0000 000a", "subscribe.offset.type"},
        {CLIENT, "0007 0001 00000008 00 0001 73 0006 000a", "subscribe.offset.type"},
        {CLIENT, "0007 0001 00000008 00 0001 73 0004 00000000", "subscribe.offset.value"},
        {CLIENT, "0007 0001 00000008 00 0001 73 0001 000a 00000001 0001 61", "subscribe.properties.value"},
        {CLIENT, "0007 0001 00000008 00 0001 73 0001 000a 0000", "subscribe.properties"},
        {SERVER, "0008 0002 00 00000000000000", "deliver.committed"},
        {SERVER, "8009 0001 0004", "credit_answer.subscription"},
        {SERVER, "800b 0001 00000002 0001", "query_offset_answer.offset"},
        {SERVER, "800f 0001 00000001 00000001 0000 0001 61 0000", "metadata_answer.brokers.port"},
        {SERVER, "800f 0001 00000001 00000000 00000001 0001 61 00", "metadata_answer.streams.code"},
        {SERVER, "800f 0001 00000001 00000000 00000001 0001 61 0001 0000 80000001 0000", "metadata_answer.streams.replicas"},
        {SERVER, "800f 0001 00000001 00000000 00000001 0001 61 0001 0000 00000002 0000", "metadata_answer.streams.replicas"},
        {SERVER, "8012 0001 00000001 0001 ffffffff", "sasl_handshake_answer.mechanisms"},
        {SERVER, "8013 0001 00000001 000a 00", "sasl_authenticate_answer.challenge"},
        {SERVER, "8013 0001 00000001 000a 0005 61", "sasl_authenticate_answer.challenge"},
        {SERVER, "8013 0001 00000001 000a 0001 6162", "frame.end"},
        {SERVER, "8013 0001 00000001 000a ffffffff 00", "sasl_authenticate_answer.challenge"},
        {CLIENT, "0013 0001 00000001 0000 fffffffe", "sasl_authenticate.data"},
        {SERVER, "8015 0001 00000003 0001", "open_answer.properties"},
        {SERVER, "001a 0001 00000000 05 02", "consumer_update.active"},
        {CLIENT, "801a 0001 00000000 0001 0006", "consumer_update_answer.offset.type"},
        {SERVER, "801b 0001 00000004 0001 00000001 0001 0001", "exchange_command_versions_answer.commands.max"},
        {SERVER, "801c 0001 00000003 0001 00000001 0001 61 00000000", "stream_stats_answer.stats.value"},
        {CLIENT, "001d 0001 00000003 0001 61 00000000 00000001 0001", "create_super_stream.binding_keys"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        coney_bytes body = bytes_of(wrong[i].text);
        struct stream_frame out;
        const char *field = stream_decode(body, wrong[i].from, &out);
        if (field == NULL || strcmp(field, wrong[i].field) != 0)
            fail_msg("'%s': expected %s, got %s", wrong[i].text, wrong[i].field, field != NULL ? field : "a message");
        release(body);
    }
}

static void what_has_no_form_on_the_wire_is_not_encoded(void **state)
{
    (void)state;
    static char long_text[STREAM_STRING_MAX + 1];
    struct stream_frame frames[] = {
        FRAME(0),
        FRAME(STREAM_KEY_LAST + 1),
        FRAME(STREAM_HEARTBEAT, .response = true),
        FRAME(STREAM_PUBLISH_CONFIRM, .response = true),
        CALL(STREAM_DELETE, 1, .delete.stream = {long_text, sizeof long_text}),
        CALL(STREAM_SASL_AUTHENTICATE, 1, .sasl_authenticate.data = {long_text, (size_t)INT32_MAX + 1}),
        CALL(STREAM_SUBSCRIBE, 1, .subscribe.stream = CONEY_STR("s")), /* offset type 0 */
        CALL(STREAM_RESOLVE_OFFSET_SPEC, 1, .resolve_offset_spec.offset.type = 6),
        ANSWER(STREAM_CONSUMER_UPDATE, 1, 1, .consumer_update_answer.offset.type = 6),
        {.key = STREAM_CREDIT, .version = 2},
        {.key = STREAM_CREDIT, .version = 0},
        {.key = STREAM_PUBLISH, .version = 3},
        {.key = STREAM_METADATA, .version = 2, .response = true},
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        assert_int_equal(stream_encode(&frames[i], NULL, 0), 0);

    struct stream_frame longest = CALL(STREAM_DELETE, 1, .delete.stream = {long_text, STREAM_STRING_MAX});
    assert_int_equal(stream_encode(&longest, NULL, 0), 4 + 8 + 2 + STREAM_STRING_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_vectors_of_opening_a_connection_hold, clear_shelf),
        cmocka_unit_test_setup(the_vector_of_a_client_that_announces_deliver_v2_holds, clear_shelf),
        cmocka_unit_test_setup(a_server_announces_the_twenty_commands_that_an_open_connection_may_send, clear_shelf),
        cmocka_unit_test_setup(the_vectors_of_publishing_hold, clear_shelf),
        cmocka_unit_test_setup(the_vectors_of_batches_and_filter_values_hold, clear_shelf),
        cmocka_unit_test_setup(the_vectors_of_consuming_hold, clear_shelf),
        cmocka_unit_test_setup(the_vector_of_deliver_v2_holds, clear_shelf),
        cmocka_unit_test_setup(the_vectors_of_metadata_and_close_hold, clear_shelf),
        cmocka_unit_test_setup(commands_of_publishers_hold, clear_shelf),
        cmocka_unit_test_setup(commands_of_subscriptions_hold, clear_shelf),
        cmocka_unit_test_setup(commands_of_offsets_hold, clear_shelf),
        cmocka_unit_test_setup(commands_of_streams_hold, clear_shelf),
        cmocka_unit_test_setup(commands_of_topology_hold, clear_shelf),
        cmocka_unit_test_setup(commands_of_super_streams_hold, clear_shelf),
        cmocka_unit_test_setup(commands_of_logging_in_hold, clear_shelf),
        cmocka_unit_test_setup(either_side_closes_and_answers_a_close, clear_shelf),
        cmocka_unit_test(an_answer_with_an_error_may_end_at_its_code),
        cmocka_unit_test(a_sasl_challenge_is_read_as_a_string_and_as_bytes),
        cmocka_unit_test(null_sasl_data_reads_as_empty),
        cmocka_unit_test(a_client_answers_tune_under_either_key),
        cmocka_unit_test(old_brokers_answer_route_and_partitions_without_the_response_bit),
        cmocka_unit_test(a_wrong_frame_is_refused_with_the_name_of_its_field),
        cmocka_unit_test(what_has_no_form_on_the_wire_is_not_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
