/* How the scripted peer answers by default: like one broker node that has every stream. */
#define _GNU_SOURCE
#include "peer_internal.h"

void peer_name_copy(char out[PEER_NAME_BYTES], coney_bytes name)
{
    snprintf(out, PEER_NAME_BYTES, "%.*s", (int)name.len, name.len > 0 ? (const char *)name.data : "");
}

bool peer_name_is(const char *name, coney_bytes bytes)
{
    return bytes_equal(coney_bytes_of(name, strlen(name)), bytes);
}

coney_bytes peer_text(const char *string)
{
    return coney_bytes_of(string, strlen(string));
}

/* Names ---------------------------------------------------------------------------------------------------------- */

struct named *peer_named_find(struct peer *peer, enum named_kind kind, coney_bytes stream, coney_bytes reference)
{
    for (size_t i = 0; i < peer->name_count; i++) {
        struct named *n = &peer->names[i];
        if (n->kind == kind && peer_name_is(n->stream, stream) && peer_name_is(n->reference, reference))
            return n;
    }
    return NULL;
}

struct named *peer_named_set(struct peer *peer, enum named_kind kind, coney_bytes stream, coney_bytes reference, uint64_t value)
{
    struct named *named = peer_named_find(peer, kind, stream, reference);
    if (named == NULL) {
        peer->names = burrow_grow(peer->names, peer->name_count, &peer->name_cap, sizeof *peer->names);
        named = &peer->names[peer->name_count++];
        *named = (struct named){.kind = kind};
        peer_name_copy(named->stream, stream);
        peer_name_copy(named->reference, reference);
    }
    named->value = value;
    return named;
}

uint16_t peer_stream_code(struct peer *peer, coney_bytes stream)
{
    const struct named *named = peer_named_find(peer, NAMED_STREAM, stream, (coney_bytes){0});
    return named == NULL ? STREAM_CODE_OK : (uint16_t)named->value;
}

void peer_set_stream(struct peer *peer, const char *stream, uint16_t code)
{
    burrow_lock(&peer->burrow);
    peer_named_set(peer, NAMED_STREAM, peer_text(stream), (coney_bytes){0}, code);
    burrow_unlock(&peer->burrow);
}

void peer_set_sequence(struct peer *peer, const char *stream, const char *reference, uint64_t sequence)
{
    burrow_lock(&peer->burrow);
    peer_named_set(peer, NAMED_SEQUENCE, peer_text(stream), peer_text(reference), sequence);
    burrow_unlock(&peer->burrow);
}

void peer_set_offset(struct peer *peer, const char *stream, const char *reference, uint64_t offset)
{
    burrow_lock(&peer->burrow);
    peer_named_set(peer, NAMED_OFFSET, peer_text(stream), peer_text(reference), offset);
    burrow_unlock(&peer->burrow);
}

void peer_set_resolved(struct peer *peer, uint64_t offset)
{
    burrow_lock(&peer->burrow);
    peer->resolved = offset;
    burrow_unlock(&peer->burrow);
}

void peer_set_version(struct peer *peer, const char *version)
{
    burrow_lock(&peer->burrow);
    snprintf(peer->version, sizeof peer->version, "%s", version);
    burrow_unlock(&peer->burrow);
}

void peer_set_tune(struct peer *peer, uint32_t frame_max, uint32_t heartbeat)
{
    burrow_lock(&peer->burrow);
    peer->frame_max = frame_max;
    peer->heartbeat = heartbeat;
    burrow_unlock(&peer->burrow);
}

void peer_set_nodes(struct peer *peer, const struct peer_node *nodes, size_t count, int leader)
{
    assert_true(count <= PEER_NODES);
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < count; i++) {
        snprintf(peer->nodes[i].host, sizeof peer->nodes[i].host, "%s", nodes[i].host);
        peer->nodes[i].port = nodes[i].port;
    }
    peer->node_count = count;
    peer->leader = leader;
    burrow_unlock(&peer->burrow);
}

void peer_set_advertised(struct peer *peer, const char *host, uint16_t port)
{
    burrow_lock(&peer->burrow);
    snprintf(peer->advertised_host, sizeof peer->advertised_host, "%s", host);
    peer->advertised_port = port;
    burrow_unlock(&peer->burrow);
}

static bool knows_resolve(const struct peer *peer)
{
    unsigned major = 0, minor = 0;
    return sscanf(peer->version, "%u.%u", &major, &minor) == 2 && (major > 4 || (major == 4 && minor >= 3));
}

/* The handshake -------------------------------------------------------------------------------------------------- */

static void treat_peer_properties(struct peer *peer, const struct peer_record *record)
{
    uint8_t room[256];
    struct list_writer w = list_begin(room, sizeof room);
    list_add_pair(&w, CONEY_STR("product"), CONEY_STR("RabbitMQ"));
    list_add_pair(&w, CONEY_STR("version"), peer_text(peer->version));
    list_add_pair(&w, CONEY_STR("platform"), CONEY_STR("a test"));
    struct stream_frame answer = {0};
    assert_true(list_end(&w, &answer.peer_properties_answer.properties));
    peer_send_answer(peer, record, STREAM_CODE_OK, answer);
}

static void treat_sasl_handshake(struct peer *peer, const struct peer_record *record)
{
    uint8_t room[64];
    struct list_writer w = list_begin(room, sizeof room);
    list_add_string(&w, CONEY_STR("AMQPLAIN"));
    list_add_string(&w, CONEY_STR("PLAIN"));
    struct stream_frame answer = {0};
    assert_true(list_end(&w, &answer.sasl_handshake_answer.mechanisms));
    peer_send_answer(peer, record, STREAM_CODE_OK, answer);
}

static void treat_sasl_authenticate(struct peer *peer, const struct peer_record *record)
{
    peer_send_answer(peer, record, STREAM_CODE_OK, (struct stream_frame){0});
    if (peer_connection(peer, record->connection)->opened)
        return;
    struct stream_frame tune = {.key = STREAM_TUNE, .version = 1};
    tune.tune.frame_max = peer->frame_max;
    tune.tune.heartbeat = peer->heartbeat;
    peer_send(peer, record->connection, &tune);
}

static void treat_open(struct peer *peer, const struct peer_record *record)
{
    bool itself = peer->advertised_host[0] == '\0';
    char port[8];
    snprintf(port, sizeof port, "%u", itself ? peer->burrow.port : peer->advertised_port);
    uint8_t room[512];
    struct list_writer w = list_begin(room, sizeof room);
    list_add_pair(&w, CONEY_STR("advertised_host"), peer_text(itself ? peer->burrow.host : peer->advertised_host));
    list_add_pair(&w, CONEY_STR("advertised_port"), peer_text(port));
    struct stream_frame answer = {0};
    assert_true(list_end(&w, &answer.open_answer.properties));
    peer_connection(peer, record->connection)->opened = true;
    peer_send_answer(peer, record, STREAM_CODE_OK, answer);
}

static void treat_close(struct peer *peer, const struct peer_record *record)
{
    if (!record->frame.response)
        peer_send_answer(peer, record, STREAM_CODE_OK, (struct stream_frame){0});
    struct connection *c = peer_connection(peer, record->connection);
    if (c != NULL)
        c->base.closing = true;
    burrow_wake(&peer->burrow);
}

static void treat_versions(struct peer *peer, const struct peer_record *record)
{
    struct list_iter it = list_iter_of(record->frame.exchange_command_versions.commands);
    struct stream_version_range range;
    while (list_next_version(&it, &range))
        if (range.key == STREAM_DELIVER && range.max == 2)
            peer_connection(peer, record->connection)->deliver_version = 2;
    uint8_t room[512];
    struct list_writer w = list_begin(room, sizeof room);
    for (uint16_t key = STREAM_DECLARE_PUBLISHER; key <= STREAM_KEY_LAST; key++) {
        const struct stream_command *command = stream_command_of(key);
        bool skipped = key == STREAM_RESOLVE_OFFSET_SPEC && !knows_resolve(peer);
        if (command != NULL && (command->senders & STREAM_FROM_CLIENT) != 0 && !skipped)
            list_add_version(&w, (struct stream_version_range){key, 1, command->version_max});
    }
    struct stream_frame answer = {0};
    assert_true(list_end(&w, &answer.exchange_command_versions_answer.commands));
    peer_send_answer(peer, record, STREAM_CODE_OK, answer);
}

/* Streams -------------------------------------------------------------------------------------------------------- */

static void treat_with_ok(struct peer *peer, const struct peer_record *record)
{
    peer_send_answer(peer, record, STREAM_CODE_OK, (struct stream_frame){0});
}

static void treat_create(struct peer *peer, const struct peer_record *record)
{
    peer_named_set(peer, NAMED_STREAM, record->frame.create.stream, (coney_bytes){0}, STREAM_CODE_OK);
    treat_with_ok(peer, record);
}

static void treat_delete(struct peer *peer, const struct peer_record *record)
{
    coney_bytes stream = record->frame.delete.stream;
    uint16_t code = peer_stream_code(peer, stream);
    if (code == STREAM_CODE_OK)
        peer_named_set(peer, NAMED_STREAM, stream, (coney_bytes){0}, STREAM_CODE_STREAM_DOES_NOT_EXIST);
    peer_send_answer(peer, record, code, (struct stream_frame){0});
    char name[PEER_NAME_BYTES];
    peer_name_copy(name, stream);
    if (code == STREAM_CODE_OK)
        peer_lose_stream(peer, name, STREAM_CODE_STREAM_NOT_AVAILABLE);
}

static void metadata_add_stream(struct peer *peer, struct list_writer *w, coney_bytes stream)
{
    uint8_t room[2 * PEER_NODES];
    struct list_writer replicas = list_begin(room, sizeof room);
    struct stream_placement placement = {.stream = stream, .code = peer_stream_code(peer, stream), .leader = STREAM_NO_NODE};
    if (placement.code == STREAM_CODE_OK) {
        if (peer->leader != PEER_NO_LEADER)
            placement.leader = (uint16_t)peer->leader;
        for (size_t i = 0; i < peer->node_count; i++)
            if ((int)i != peer->leader)
                list_add_index(&replicas, (uint16_t)i);
    }
    assert_true(list_end(&replicas, &placement.replicas));
    list_add_placement(w, &placement);
}

static void treat_metadata(struct peer *peer, const struct peer_record *record)
{
    uint8_t broker_room[PEER_NODES * 270], stream_room[4096];
    struct list_writer brokers = list_begin(broker_room, sizeof broker_room);
    struct list_writer streams = list_begin(stream_room, sizeof stream_room);
    if (peer->node_count == 0)
        list_add_broker(&brokers, &(struct stream_broker){0, peer_text(peer->burrow.host), peer->burrow.port});
    for (size_t i = 0; i < peer->node_count; i++)
        list_add_broker(&brokers, &(struct stream_broker){(uint16_t)i, peer_text(peer->nodes[i].host), peer->nodes[i].port});
    struct list_iter it = list_iter_of(record->frame.metadata.streams);
    coney_bytes stream;
    while (list_next_string(&it, &stream))
        metadata_add_stream(peer, &streams, stream);
    struct stream_frame answer = {0};
    assert_true(list_end(&brokers, &answer.metadata_answer.brokers));
    assert_true(list_end(&streams, &answer.metadata_answer.streams));
    peer_send_answer(peer, record, 0, answer);
}

static void treat_stats(struct peer *peer, const struct peer_record *record)
{
    uint8_t room[256];
    struct list_writer w = list_begin(room, sizeof room);
    list_add_stat(&w, CONEY_STR("first_chunk_id"), 1);
    list_add_stat(&w, CONEY_STR("committed_chunk_id"), 2);
    list_add_stat(&w, CONEY_STR("last_chunk_id"), 3);
    list_add_stat(&w, CONEY_STR("something_new"), 5);
    struct stream_frame answer = {0};
    assert_true(list_end(&w, &answer.stream_stats_answer.stats));
    peer_send_answer(peer, record, peer_stream_code(peer, record->frame.stream_stats.stream), answer);
}

static void treat_partitions(struct peer *peer, const struct peer_record *record)
{
    uint8_t room[3 * PEER_NAME_BYTES];
    struct list_writer w = list_begin(room, sizeof room);
    for (int i = 0; i < 3; i++) {
        char name[PEER_NAME_BYTES];
        coney_bytes super_stream = record->frame.partitions.super_stream;
        snprintf(name, sizeof name, "%.*s-%d", (int)super_stream.len, (const char *)super_stream.data, i);
        list_add_string(&w, peer_text(name));
    }
    struct stream_frame answer = {0};
    assert_true(list_end(&w, &answer.partitions_answer.streams));
    peer_send_answer(peer, record, peer_stream_code(peer, record->frame.partitions.super_stream), answer);
}

static void treat_resolve(struct peer *peer, const struct peer_record *record)
{
    struct stream_frame answer = {0};
    answer.resolve_offset_spec_answer.offset =
        (struct stream_offset_spec){.type = STREAM_OFFSET_OFFSET, .value = peer->resolved};
    peer_send_answer(peer, record, peer_stream_code(peer, record->frame.resolve_offset_spec.stream), answer);
}

/* The table ------------------------------------------------------------------------------------------------------ */

typedef void (*treat_fn)(struct peer *peer, const struct peer_record *record);

/* Keys that are not here get no answer. */
static const treat_fn treatments[STREAM_KEY_LAST + 1] = {
    [STREAM_DECLARE_PUBLISHER] = peer_treat_declare_publisher,
    [STREAM_PUBLISH] = peer_treat_publish,
    [STREAM_QUERY_PUBLISHER_SEQUENCE] = peer_treat_query_sequence,
    [STREAM_DELETE_PUBLISHER] = peer_treat_delete_publisher,
    [STREAM_SUBSCRIBE] = peer_treat_subscribe,
    [STREAM_CREDIT] = peer_treat_credit,
    [STREAM_STORE_OFFSET] = peer_treat_store_offset,
    [STREAM_QUERY_OFFSET] = peer_treat_query_offset,
    [STREAM_UNSUBSCRIBE] = peer_treat_unsubscribe,
    [STREAM_CREATE] = treat_create,
    [STREAM_DELETE] = treat_delete,
    [STREAM_METADATA] = treat_metadata,
    [STREAM_PEER_PROPERTIES] = treat_peer_properties,
    [STREAM_SASL_HANDSHAKE] = treat_sasl_handshake,
    [STREAM_SASL_AUTHENTICATE] = treat_sasl_authenticate,
    [STREAM_OPEN] = treat_open,
    [STREAM_CLOSE] = treat_close,
    [STREAM_PARTITIONS] = treat_partitions,
    [STREAM_EXCHANGE_COMMAND_VERSIONS] = treat_versions,
    [STREAM_STREAM_STATS] = treat_stats,
    [STREAM_CREATE_SUPER_STREAM] = treat_with_ok,
    [STREAM_DELETE_SUPER_STREAM] = treat_with_ok,
    [STREAM_RESOLVE_OFFSET_SPEC] = treat_resolve,
};

void peer_treat(struct peer *peer, const struct peer_record *record)
{
    burrow_lock(&peer->burrow);
    treat_fn treat = record->frame.key <= STREAM_KEY_LAST ? treatments[record->frame.key] : NULL;
    if (treat != NULL && peer_connection(peer, record->connection) != NULL)
        treat(peer, record);
    burrow_unlock(&peer->burrow);
}
