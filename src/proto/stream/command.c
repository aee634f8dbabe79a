/* command.c: the command table of the stream protocol, and the layout of each message. */
#include "proto/stream/layout.h"

/* clang-format off */
/* What goes between the braces of a field: its kind, its place and name, and the names inside it. */
#define NAME(message, member) #message "." #member
#define AT(message, member) offsetof(struct stream_frame, message.member), NAME(message, member)
#define PLAIN(kind, message, member) \
    kind, AT(message, member), LIST_NONE, {NULL}

#define U8(message, member) PLAIN(FIELD_U8, message, member)
#define BOOL(message, member) PLAIN(FIELD_BOOL, message, member)
#define U16(message, member) PLAIN(FIELD_U16, message, member)
#define U32(message, member) PLAIN(FIELD_U32, message, member)
#define U64(message, member) PLAIN(FIELD_U64, message, member)
#define V2_U64(message, member) PLAIN(FIELD_V2_U64, message, member)
#define STRING(message, member) PLAIN(FIELD_STRING, message, member)
#define BYTES(message, member) PLAIN(FIELD_BYTES, message, member)
#define CHALLENGE(message, member) PLAIN(FIELD_CHALLENGE, message, member)
#define REST(message, member) PLAIN(FIELD_REST, message, member)

#define SPEC_OF(kind, message, member) \
    kind, AT(message, member), LIST_NONE, {NAME(message, member) ".type", NAME(message, member) ".value"}
#define START(message, member) SPEC_OF(FIELD_START, message, member)
#define SPEC(message, member) SPEC_OF(FIELD_SPEC, message, member)

#define STRINGS(message, member) \
    FIELD_LIST, AT(message, member), LIST_STRINGS, {NAME(message, member)}
#define PAIRS_OF(kind, message, member) \
    kind, AT(message, member), LIST_PAIRS, {NAME(message, member) ".key", NAME(message, member) ".value"}
#define PAIRS(message, member) PAIRS_OF(FIELD_LIST, message, member)
#define OPTIONAL_PAIRS(message, member) PAIRS_OF(FIELD_OPTIONAL_LIST, message, member)
#define VERSIONS(message, member) \
    FIELD_LIST, AT(message, member), LIST_VERSIONS, {NAME(message, member) ".key", NAME(message, member) ".min", NAME(message, member) ".max"}
#define LIST(kind, message, member) FIELD_LIST, AT(message, member), kind
/* clang-format on */

static const struct stream_layout empty = {.code = false};
static const struct stream_layout code_only = {.code = true};

static const struct stream_layout declare_publisher = {
    .fields = {{U8(declare_publisher, publisher)}, {STRING(declare_publisher, reference)}, {STRING(declare_publisher, stream)}},
};

static const struct stream_layout publish = {
    .fields = {{U8(publish, publisher)},
               {LIST(LIST_ENTRIES, publish, entries),
                {"publish.entries.id", "publish.entries.filter", "publish.entries.records", "publish.entries.length",
                 "publish.entries.data"}}},
};

static const struct stream_layout publish_confirm = {
    .fields = {{U8(publish_confirm, publisher)}, {LIST(LIST_IDS, publish_confirm, ids), {"publish_confirm.ids"}}},
};

static const struct stream_layout publish_error = {
    .fields = {{U8(publish_error, publisher)},
               {LIST(LIST_ERRORS, publish_error, errors), {"publish_error.errors.id", "publish_error.errors.code"}}},
};

static const struct stream_layout query_publisher_sequence = {
    .fields = {{STRING(query_publisher_sequence, reference)}, {STRING(query_publisher_sequence, stream)}},
};

static const struct stream_layout query_publisher_sequence_answer = {
    .code = true,
    .fields = {{U64(query_publisher_sequence_answer, sequence)}},
};

static const struct stream_layout delete_publisher = {
    .fields = {{U8(delete_publisher, publisher)}},
};

static const struct stream_layout subscribe = {
    .fields = {{U8(subscribe, subscription)},
               {STRING(subscribe, stream)},
               {START(subscribe, offset)},
               {U16(subscribe, credit)},
               {OPTIONAL_PAIRS(subscribe, properties)}},
};

static const struct stream_layout deliver = {
    .fields = {{U8(deliver, subscription)}, {V2_U64(deliver, committed)}, {REST(deliver, chunk)}},
};

static const struct stream_layout credit = {
    .fields = {{U8(credit, subscription)}, {U16(credit, credit)}},
};

static const struct stream_layout credit_answer = {
    .code = true,
    .fields = {{U8(credit_answer, subscription)}},
};

static const struct stream_layout store_offset = {
    .fields = {{STRING(store_offset, reference)}, {STRING(store_offset, stream)}, {U64(store_offset, offset)}},
};

static const struct stream_layout query_offset = {
    .fields = {{STRING(query_offset, reference)}, {STRING(query_offset, stream)}},
};

static const struct stream_layout query_offset_answer = {
    .code = true,
    .fields = {{U64(query_offset_answer, offset)}},
};

static const struct stream_layout unsubscribe = {
    .fields = {{U8(unsubscribe, subscription)}},
};

static const struct stream_layout create = {
    .fields = {{STRING(create, stream)}, {PAIRS(create, arguments)}},
};

static const struct stream_layout delete = {
    .fields = {{STRING(delete, stream)}},
};

static const struct stream_layout metadata = {
    .fields = {{STRINGS(metadata, streams)}},
};

static const struct stream_layout metadata_answer = {
    .fields = {{LIST(LIST_BROKERS, metadata_answer, brokers),
                {"metadata_answer.brokers.index", "metadata_answer.brokers.host", "metadata_answer.brokers.port"}},
               {LIST(LIST_PLACEMENTS, metadata_answer, streams),
                {"metadata_answer.streams.stream", "metadata_answer.streams.code", "metadata_answer.streams.leader",
                 "metadata_answer.streams.replicas"}}},
};

static const struct stream_layout metadata_update = {
    .fields = {{U16(metadata_update, code)}, {STRING(metadata_update, stream)}},
};

static const struct stream_layout peer_properties = {
    .fields = {{PAIRS(peer_properties, properties)}},
};

static const struct stream_layout peer_properties_answer = {
    .code = true,
    .fields = {{PAIRS(peer_properties_answer, properties)}},
};

static const struct stream_layout sasl_handshake_answer = {
    .code = true,
    .fields = {{STRINGS(sasl_handshake_answer, mechanisms)}},
};

static const struct stream_layout sasl_authenticate = {
    .fields = {{STRING(sasl_authenticate, mechanism)}, {BYTES(sasl_authenticate, data)}},
};

static const struct stream_layout sasl_authenticate_answer = {
    .code = true,
    .fields = {{CHALLENGE(sasl_authenticate_answer, challenge)}},
};

static const struct stream_layout tune = {
    .fields = {{U32(tune, frame_max)}, {U32(tune, heartbeat)}},
};

static const struct stream_layout open = {
    .fields = {{STRING(open, vhost)}},
};

static const struct stream_layout open_answer = {
    .code = true,
    .ok_only = true,
    .fields = {{PAIRS(open_answer, properties)}},
};

static const struct stream_layout close = {
    .fields = {{U16(close, code)}, {STRING(close, reason)}},
};

static const struct stream_layout route = {
    .fields = {{STRING(route, routing_key)}, {STRING(route, super_stream)}},
};

static const struct stream_layout route_answer = {
    .code = true,
    .fields = {{STRINGS(route_answer, streams)}},
};

static const struct stream_layout partitions = {
    .fields = {{STRING(partitions, super_stream)}},
};

static const struct stream_layout partitions_answer = {
    .code = true,
    .fields = {{STRINGS(partitions_answer, streams)}},
};

static const struct stream_layout consumer_update = {
    .fields = {{U8(consumer_update, subscription)}, {BOOL(consumer_update, active)}},
};

static const struct stream_layout consumer_update_answer = {
    .code = true,
    .fields = {{SPEC(consumer_update_answer, offset)}},
};

static const struct stream_layout exchange_command_versions = {
    .fields = {{VERSIONS(exchange_command_versions, commands)}},
};

static const struct stream_layout exchange_command_versions_answer = {
    .code = true,
    .fields = {{VERSIONS(exchange_command_versions_answer, commands)}},
};

static const struct stream_layout stream_stats = {
    .fields = {{STRING(stream_stats, stream)}},
};

static const struct stream_layout stream_stats_answer = {
    .code = true,
    .fields = {{LIST(LIST_STATS, stream_stats_answer, stats),
                {"stream_stats_answer.stats.name", "stream_stats_answer.stats.value"}}},
};

static const struct stream_layout create_super_stream = {
    .fields = {{STRING(create_super_stream, name)},
               {STRINGS(create_super_stream, partitions)},
               {STRINGS(create_super_stream, binding_keys)},
               {PAIRS(create_super_stream, arguments)}},
};

static const struct stream_layout delete_super_stream = {
    .fields = {{STRING(delete_super_stream, name)}},
};

static const struct stream_layout resolve_offset_spec = {
    .fields = {{STRING(resolve_offset_spec, stream)},
               {START(resolve_offset_spec, offset)},
               {OPTIONAL_PAIRS(resolve_offset_spec, properties)}},
};

static const struct stream_layout resolve_offset_spec_answer = {
    .code = true,
    .fields = {{SPEC(resolve_offset_spec_answer, offset)}},
};

enum { NOBODY = 0, SERVER = STREAM_FROM_SERVER, CLIENT = STREAM_FROM_CLIENT, BOTH = STREAM_FROM_SERVER | STREAM_FROM_CLIENT };

/* key, name, senders, listed by, highest version, correlated, unmarked, command, answer; the row's place is its key. */
static const struct stream_command commands[STREAM_KEY_LAST + 1] = {
    {0},
    {1, "DeclarePublisher", CLIENT, SERVER, 1, true, false, &declare_publisher, &code_only},
    {2, "Publish", CLIENT, SERVER, 2, false, false, &publish, NULL},
    {3, "PublishConfirm", SERVER, NOBODY, 1, false, false, &publish_confirm, NULL},
    {4, "PublishError", SERVER, NOBODY, 1, false, false, &publish_error, NULL},
    {5, "QueryPublisherSequence", CLIENT, SERVER, 1, true, false, &query_publisher_sequence, &query_publisher_sequence_answer},
    {6, "DeletePublisher", CLIENT, SERVER, 1, true, false, &delete_publisher, &code_only},
    {7, "Subscribe", CLIENT, SERVER, 1, true, false, &subscribe, &code_only},
    {8, "Deliver", SERVER, CLIENT, 2, false, false, &deliver, NULL},
    {9, "Credit", CLIENT, SERVER, 1, false, false, &credit, &credit_answer},
    {10, "StoreOffset", CLIENT, SERVER, 1, false, false, &store_offset, NULL},
    {11, "QueryOffset", CLIENT, SERVER, 1, true, false, &query_offset, &query_offset_answer},
    {12, "Unsubscribe", CLIENT, SERVER, 1, true, false, &unsubscribe, &code_only},
    {13, "Create", CLIENT, SERVER, 1, true, false, &create, &code_only},
    {14, "Delete", CLIENT, SERVER, 1, true, false, &delete, &code_only},
    {15, "Metadata", CLIENT, SERVER, 1, true, false, &metadata, &metadata_answer},
    {16, "MetadataUpdate", SERVER, NOBODY, 1, false, false, &metadata_update, NULL},
    {17, "PeerProperties", CLIENT, NOBODY, 1, true, false, &peer_properties, &peer_properties_answer},
    {18, "SaslHandshake", CLIENT, NOBODY, 1, true, false, &empty, &sasl_handshake_answer},
    {19, "SaslAuthenticate", CLIENT, NOBODY, 1, true, false, &sasl_authenticate, &sasl_authenticate_answer},
    {20, "Tune", SERVER, NOBODY, 1, false, true, &tune, &tune},
    {21, "Open", CLIENT, NOBODY, 1, true, false, &open, &open_answer},
    {22, "Close", BOTH, SERVER, 1, true, false, &close, &code_only},
    {23, "Heartbeat", BOTH, SERVER, 1, false, false, &empty, NULL},
    {24, "Route", CLIENT, SERVER, 1, true, true, &route, &route_answer},
    {25, "Partitions", CLIENT, SERVER, 1, true, true, &partitions, &partitions_answer},
    {26, "ConsumerUpdate", SERVER, NOBODY, 1, true, false, &consumer_update, &consumer_update_answer},
    {27, "ExchangeCommandVersions", CLIENT, NOBODY, 1, true, false, &exchange_command_versions,
     &exchange_command_versions_answer},
    {28, "StreamStats", CLIENT, SERVER, 1, true, false, &stream_stats, &stream_stats_answer},
    {29, "CreateSuperStream", CLIENT, SERVER, 1, true, false, &create_super_stream, &code_only},
    {30, "DeleteSuperStream", CLIENT, SERVER, 1, true, false, &delete_super_stream, &code_only},
    {31, "ResolveOffsetSpec", CLIENT, SERVER, 1, true, false, &resolve_offset_spec, &resolve_offset_spec_answer},
};

const struct stream_command *stream_command_of(uint16_t key)
{
    return key >= 1 && key <= STREAM_KEY_LAST ? &commands[key] : NULL;
}

const char *stream_key_name(uint16_t key)
{
    const struct stream_command *command = stream_command_of(key & (uint16_t)~STREAM_RESPONSE_BIT);
    return command != NULL ? command->name : "unknown command";
}

void stream_add_versions(struct list_writer *w, enum stream_side side)
{
    for (uint16_t key = 1; key <= STREAM_KEY_LAST; key++)
        if (commands[key].listed_by == side)
            list_add_version(w, (struct stream_version_range){key, 1, commands[key].version_max});
}
