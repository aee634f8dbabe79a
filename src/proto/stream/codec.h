/* codec.h: every message of the stream protocol, to bytes and from bytes, for the client's side and the server's.
 *
 * One struct for each message, all in one tagged union. Strings, byte runs and lists are views: of the frame for what was
 * decoded, of the caller's memory for what is to be encoded. Pure functions: no I/O, no clock, no heap; any thread.
 * The data path has shorter ways of its own: see fastpath.h and chunk.h.
 *
 *     struct stream_frame f = {.key = STREAM_OPEN, .version = 1, .correlation = 3, .open.vhost = CONEY_STR("/")};
 *     uint8_t buf[64];
 *     size_t len = stream_encode(&f, buf, sizeof buf);
 */
#ifndef CONEY_PROTO_STREAM_CODEC_H
#define CONEY_PROTO_STREAM_CODEC_H

#include "proto/stream/frame.h"
#include "proto/stream/list.h"

struct stream_offset_spec {
    uint16_t type;  /* enum stream_offset_type */
    uint64_t value; /* the offset, or the int64_t timestamp cast; 0 for the other types */
};

/* Commands and pushes -------------------------------------------------------------------------------------------- */

struct stream_declare_publisher {
    uint8_t publisher;
    coney_bytes reference; /* empty: no de-duplication */
    coney_bytes stream;
};

struct stream_publish {
    uint8_t publisher;
    struct stream_list entries; /* list_next_entry with the frame's version */
};

struct stream_publish_confirm {
    uint8_t publisher;
    struct stream_list ids; /* list_next_id; in no particular order, and an id may come twice */
};

struct stream_publish_errors {
    uint8_t publisher;
    struct stream_list errors; /* list_next_error */
};

struct stream_query_publisher_sequence {
    coney_bytes reference;
    coney_bytes stream;
};

struct stream_delete_publisher {
    uint8_t publisher;
};

struct stream_subscribe {
    uint8_t subscription;
    coney_bytes stream;
    struct stream_offset_spec offset;
    uint16_t credit;
    struct stream_list properties; /* list_next_pair; an empty list is left out on the wire */
};

struct stream_deliver {
    uint8_t subscription;
    uint64_t committed; /* version 2: first offset of the last committed chunk when this was sent; else 0 */
    coney_bytes chunk;  /* for chunk_open */
};

struct stream_credit {
    uint8_t subscription;
    int16_t credit; /* signed on the wire: brokers subtract a negative one */
};

struct stream_store_offset {
    coney_bytes reference;
    coney_bytes stream;
    uint64_t offset;
};

struct stream_query_offset {
    coney_bytes reference;
    coney_bytes stream;
};

struct stream_unsubscribe {
    uint8_t subscription;
};

struct stream_create {
    coney_bytes stream;
    struct stream_list arguments; /* list_next_pair */
};

struct stream_delete {
    coney_bytes stream;
};

struct stream_metadata {
    struct stream_list streams; /* list_next_string */
};

struct stream_metadata_update {
    uint16_t code;
    coney_bytes stream;
};

struct stream_peer_properties {
    struct stream_list properties; /* list_next_pair */
};

struct stream_sasl_authenticate {
    coney_bytes mechanism;
    coney_bytes data;
};

/* From the server a push; from the client its answer, which stream_decode marks as a response whichever of its two keys
 * it came under and stream_encode writes under 0x8014. */
struct stream_tune {
    uint32_t frame_max; /* bounds the size field; 0 = no limit */
    uint32_t heartbeat; /* seconds; 0 = off */
};

struct stream_open {
    coney_bytes vhost;
};

struct stream_close {
    uint16_t code;
    coney_bytes reason;
};

struct stream_route {
    coney_bytes routing_key;
    coney_bytes super_stream;
};

struct stream_partitions {
    coney_bytes super_stream;
};

struct stream_consumer_update {
    uint8_t subscription;
    bool active;
};

struct stream_exchange_command_versions {
    struct stream_list commands; /* list_next_version */
};

struct stream_stream_stats {
    coney_bytes stream;
};

struct stream_create_super_stream {
    coney_bytes name;
    struct stream_list partitions;   /* list_next_string */
    struct stream_list binding_keys; /* list_next_string */
    struct stream_list arguments;    /* list_next_pair */
};

struct stream_delete_super_stream {
    coney_bytes name;
};

struct stream_resolve_offset_spec {
    coney_bytes stream;
    struct stream_offset_spec offset;
    struct stream_list properties; /* list_next_pair; an empty list is left out on the wire */
};

/* Answers: what follows the code. With a code other than OK a peer may leave it out, and it reads as zero. -------- */

struct stream_query_publisher_sequence_answer {
    uint64_t sequence; /* 0 also for a reference that is not known */
};

struct stream_credit_answer { /* sent only when a Credit failed; no correlation id */
    uint8_t subscription;
};

struct stream_query_offset_answer {
    uint64_t offset;
};

struct stream_metadata_answer { /* has no code of its own */
    struct stream_list brokers; /* list_next_broker */
    struct stream_list streams; /* list_next_placement, in any order */
};

struct stream_peer_properties_answer {
    struct stream_list properties; /* list_next_pair */
};

struct stream_sasl_handshake_answer {
    struct stream_list mechanisms; /* list_next_string */
};

struct stream_sasl_authenticate_answer {
    coney_bytes challenge; /* read as u16 string or i32 bytes, whichever fits; written as a u16 string if it fits in one */
};

struct stream_open_answer {
    struct stream_list properties; /* list_next_pair: advertised_host, advertised_port */
};

struct stream_route_answer {
    struct stream_list streams; /* list_next_string */
};

struct stream_partitions_answer {
    struct stream_list streams; /* list_next_string */
};

struct stream_consumer_update_answer {
    struct stream_offset_spec offset;
};

struct stream_exchange_command_versions_answer {
    struct stream_list commands; /* list_next_version */
};

struct stream_stream_stats_answer {
    struct stream_list stats; /* list_next_stat */
};

struct stream_resolve_offset_spec_answer {
    struct stream_offset_spec offset;
};

/* ---------------------------------------------------------------------------------------------------------------- */

struct stream_frame {
    uint16_t key;         /* enum stream_key, never with the response bit */
    uint16_t version;     /* 1, and for Publish and Deliver also 2 */
    bool response;        /* an answer, to a command or to a push of the server */
    uint16_t code;        /* of an answer: enum stream_code; 0 where it carries none (Metadata, Tune) */
    uint32_t correlation; /* 0 where the message carries none */
    union {
        struct stream_declare_publisher declare_publisher;
        struct stream_publish publish;
        struct stream_publish_confirm publish_confirm;
        struct stream_publish_errors publish_error;
        struct stream_query_publisher_sequence query_publisher_sequence;
        struct stream_delete_publisher delete_publisher;
        struct stream_subscribe subscribe;
        struct stream_deliver deliver;
        struct stream_credit credit;
        struct stream_store_offset store_offset;
        struct stream_query_offset query_offset;
        struct stream_unsubscribe unsubscribe;
        struct stream_create create;
        struct stream_delete delete;
        struct stream_metadata metadata;
        struct stream_metadata_update metadata_update;
        struct stream_peer_properties peer_properties;
        struct stream_sasl_authenticate sasl_authenticate;
        struct stream_tune tune;
        struct stream_open open;
        struct stream_close close;
        struct stream_route route;
        struct stream_partitions partitions;
        struct stream_consumer_update consumer_update;
        struct stream_exchange_command_versions exchange_command_versions;
        struct stream_stream_stats stream_stats;
        struct stream_create_super_stream create_super_stream;
        struct stream_delete_super_stream delete_super_stream;
        struct stream_resolve_offset_spec resolve_offset_spec;

        struct stream_query_publisher_sequence_answer query_publisher_sequence_answer;
        struct stream_credit_answer credit_answer;
        struct stream_query_offset_answer query_offset_answer;
        struct stream_metadata_answer metadata_answer;
        struct stream_peer_properties_answer peer_properties_answer;
        struct stream_sasl_handshake_answer sasl_handshake_answer;
        struct stream_sasl_authenticate_answer sasl_authenticate_answer;
        struct stream_open_answer open_answer;
        struct stream_route_answer route_answer;
        struct stream_partitions_answer partitions_answer;
        struct stream_consumer_update_answer consumer_update_answer;
        struct stream_exchange_command_versions_answer exchange_command_versions_answer;
        struct stream_stream_stats_answer stream_stats_answer;
        struct stream_resolve_offset_spec_answer resolve_offset_spec_answer;
    };
};

/* Reads a frame without its size field (see stream_frame_body), as `from` sends it. NULL when all of it is well-formed;
 * else the name of the first field that is not, such as "metadata_answer.streams.code", and *out is not to be used.
 * "frame.key" and "frame.version": not a message that this side sends; "frame.end": bytes are left over.
 * Tolerant where brokers are odd: an answer with an error code may end after it, a SASL challenge has two forms, and brokers
 * up to 3.10 answer Route and Partitions without the response bit. */
CONEY_MUST_CHECK const char *stream_decode(coney_bytes body, enum stream_side from, struct stream_frame *out);

/* Writes the whole frame, size field included, and returns its bytes. When `cap` does not suffice nothing is written and the
 * bytes needed are returned; `buf` may be NULL with `cap` 0. 0: the message has no form on the wire (unknown key or
 * version, no such answer, a string over STREAM_STRING_MAX, an offset type that is none, a frame over 2^32-1). Lists are written as they stand. */
CONEY_MUST_CHECK size_t stream_encode(const struct stream_frame *in, void *buf, size_t cap);

/* The commands ---------------------------------------------------------------------------------------------------- */

struct stream_layout;

/* One row of the command table, which encoding, decoding, the names and the list of versions are made of. */
struct stream_command {
    uint16_t key;
    const char *name;
    uint8_t senders;     /* enum stream_side, or both: who sends it; the other side answers */
    uint8_t listed_by;   /* enum stream_side: who names it in ExchangeCommandVersions; 0 for nobody */
    uint8_t version_max; /* the lowest is 1 */
    bool correlated;     /* command and answer carry a correlation id */
    bool unmarked;       /* the answer may come without the response bit */
    const struct stream_layout *request;
    const struct stream_layout *answer; /* NULL: never answered */
};

/* NULL when there is no such command. `key` without the response bit. */
const struct stream_command *stream_command_of(uint16_t key);

/* Adds what `side` announces with ExchangeCommandVersions: a server the commands that it takes from an open connection; a
 * client only Deliver, since a broker drops the connection over a key that it does not know. 6 bytes a command. */
void stream_add_versions(struct list_writer *w, enum stream_side side);

#endif
