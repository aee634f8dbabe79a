/* codec.h: every method of AMQP 0-9-1, to bytes and from bytes, for the client's side and the server's.
 *
 * One struct for each method, all in one tagged union. Strings are views: of the payload for what was decoded, of the caller's
 * memory for what is to be encoded. A field table is a coney_value, a map of the encoding CONEY_ENCODING_AMQP091 for
 * coney_value_find and its kin; it was read through when it was decoded, so a walk over it cannot fail. To be encoded it is
 * what a builder made by coney_builder_init_table gave, what amqp_table_value gave, or null for an empty table.
 * What the protocol reserves (tickets, empty strings) is not in the structs: written as zero, passed over when read.
 * Pure functions: no I/O, no clock, no heap; any thread. The data path has shorter ways of its own: content.h, publish.h, settle.h.
 *
 *     struct amqp_method m = {.id = AMQP_QUEUE_DECLARE, .queue_declare = {.queue = CONEY_STR("jobs"), .durable = true}};
 *     uint8_t buf[64];
 *     size_t len = amqp_encode(1, &m, buf, sizeof buf);
 */
#ifndef CONEY_PROTO_AMQP091_CODEC_H
#define CONEY_PROTO_AMQP091_CODEC_H

#include "proto/amqp091/frame.h"

#include <coney/value.h>

/* Connection ------------------------------------------------------------------------------------------------------ */

struct amqp_connection_start {
    uint8_t version_major;
    uint8_t version_minor;
    coney_value server_properties;
    coney_bytes mechanisms; /* separated by blanks */
    coney_bytes locales;
};

struct amqp_connection_start_ok {
    coney_value client_properties;
    coney_bytes mechanism;
    coney_bytes response;
    coney_bytes locale;
};

struct amqp_connection_secure {
    coney_bytes challenge;
};

struct amqp_connection_secure_ok {
    coney_bytes response;
};

/* Tune and tune-ok. */
struct amqp_connection_tune {
    uint16_t channel_max; /* 0: no limit */
    uint32_t frame_max;   /* 0: no limit */
    uint16_t heartbeat;   /* seconds; 0: off */
};

struct amqp_connection_open {
    coney_bytes vhost;
};

/* connection.close and channel.close. */
struct amqp_close {
    uint16_t code; /* enum amqp_code */
    coney_bytes text;
    uint16_t failed_class; /* with failed_method: what the peer objects to, 0 when it is none in particular */
    uint16_t failed_method;
};

struct amqp_connection_blocked {
    coney_bytes reason;
};

struct amqp_connection_update_secret {
    coney_bytes secret;
    coney_bytes reason;
};

/* Channel --------------------------------------------------------------------------------------------------------- */

/* Flow and flow-ok. */
struct amqp_channel_flow {
    bool active;
};

struct amqp_access_request {
    coney_bytes realm;
    bool exclusive;
    bool passive;
    bool active;
    bool write;
    bool read;
};

struct amqp_access_request_ok {
    uint16_t ticket;
};

/* Topology -------------------------------------------------------------------------------------------------------- */

struct amqp_exchange_declare {
    coney_bytes exchange;
    coney_bytes type;
    bool passive;
    bool durable;
    bool auto_delete;
    bool internal;
    bool nowait;
    coney_value arguments;
};

struct amqp_exchange_delete {
    coney_bytes exchange;
    bool if_unused;
    bool nowait;
};

/* exchange.bind and exchange.unbind. */
struct amqp_exchange_bind {
    coney_bytes destination;
    coney_bytes source;
    coney_bytes routing_key;
    bool nowait;
    coney_value arguments;
};

struct amqp_queue_declare {
    coney_bytes queue; /* empty: the broker makes a name up */
    bool passive;
    bool durable;
    bool exclusive;
    bool auto_delete;
    bool nowait;
    coney_value arguments;
};

struct amqp_queue_declare_ok {
    coney_bytes queue;
    uint32_t messages;
    uint32_t consumers;
};

struct amqp_queue_bind {
    coney_bytes queue;
    coney_bytes exchange;
    coney_bytes routing_key;
    bool nowait;
    coney_value arguments;
};

/* It has no nowait. */
struct amqp_queue_unbind {
    coney_bytes queue;
    coney_bytes exchange;
    coney_bytes routing_key;
    coney_value arguments;
};

struct amqp_queue_purge {
    coney_bytes queue;
    bool nowait;
};

struct amqp_queue_delete {
    coney_bytes queue;
    bool if_unused;
    bool if_empty;
    bool nowait;
};

/* queue.purge-ok and queue.delete-ok. */
struct amqp_queue_messages {
    uint32_t messages;
};

/* Basic ----------------------------------------------------------------------------------------------------------- */

struct amqp_basic_qos {
    uint32_t prefetch_size;
    uint16_t prefetch_count;
    bool global;
};

struct amqp_basic_consume {
    coney_bytes queue;
    coney_bytes consumer_tag; /* empty: the broker makes one up */
    bool no_local;
    bool no_ack;
    bool exclusive;
    bool nowait;
    coney_value arguments;
};

/* consume-ok and cancel-ok. */
struct amqp_basic_consumer {
    coney_bytes consumer_tag;
};

/* From the client a request; from the broker the news that the consumer is gone, with nowait. */
struct amqp_basic_cancel {
    coney_bytes consumer_tag;
    bool nowait;
};

struct amqp_basic_publish {
    coney_bytes exchange;
    coney_bytes routing_key;
    bool mandatory;
    bool immediate;
};

struct amqp_basic_return {
    uint16_t code;
    coney_bytes text;
    coney_bytes exchange;
    coney_bytes routing_key;
};

struct amqp_basic_deliver {
    coney_bytes consumer_tag;
    uint64_t delivery_tag;
    bool redelivered;
    coney_bytes exchange;
    coney_bytes routing_key;
};

struct amqp_basic_get {
    coney_bytes queue;
    bool no_ack;
};

struct amqp_basic_get_ok {
    uint64_t delivery_tag;
    bool redelivered;
    coney_bytes exchange;
    coney_bytes routing_key;
    uint32_t messages;
};

struct amqp_basic_ack {
    uint64_t delivery_tag; /* 0 with multiple: all */
    bool multiple;
};

struct amqp_basic_reject {
    uint64_t delivery_tag;
    bool requeue;
};

struct amqp_basic_nack {
    uint64_t delivery_tag;
    bool multiple;
    bool requeue; /* the broker's own nack has it set, and means nothing by it */
};

/* recover and recover-async. */
struct amqp_basic_recover {
    bool requeue;
};

struct amqp_confirm_select {
    bool nowait;
};

/* A method. Those without a member of their own have no fields, or share one. */
struct amqp_method {
    uint32_t id; /* enum amqp_method_id */
    union {
        struct amqp_connection_start connection_start;
        struct amqp_connection_start_ok connection_start_ok;
        struct amqp_connection_secure connection_secure;
        struct amqp_connection_secure_ok connection_secure_ok;
        struct amqp_connection_tune connection_tune; /* tune-ok too */
        struct amqp_connection_open connection_open;
        struct amqp_close close; /* of the connection, of a channel */
        struct amqp_connection_blocked connection_blocked;
        struct amqp_connection_update_secret connection_update_secret;
        struct amqp_channel_flow channel_flow; /* flow-ok too */
        struct amqp_access_request access_request;
        struct amqp_access_request_ok access_request_ok;
        struct amqp_exchange_declare exchange_declare;
        struct amqp_exchange_delete exchange_delete;
        struct amqp_exchange_bind exchange_bind; /* unbind too */
        struct amqp_queue_declare queue_declare;
        struct amqp_queue_declare_ok queue_declare_ok;
        struct amqp_queue_bind queue_bind;
        struct amqp_queue_unbind queue_unbind;
        struct amqp_queue_purge queue_purge;
        struct amqp_queue_delete queue_delete;
        struct amqp_queue_messages queue_messages; /* purge-ok, delete-ok */
        struct amqp_basic_qos basic_qos;
        struct amqp_basic_consume basic_consume;
        struct amqp_basic_consumer basic_consumer; /* consume-ok, cancel-ok */
        struct amqp_basic_cancel basic_cancel;
        struct amqp_basic_publish basic_publish;
        struct amqp_basic_return basic_return;
        struct amqp_basic_deliver basic_deliver;
        struct amqp_basic_get basic_get;
        struct amqp_basic_get_ok basic_get_ok;
        struct amqp_basic_ack basic_ack;
        struct amqp_basic_reject basic_reject;
        struct amqp_basic_nack basic_nack;
        struct amqp_basic_recover basic_recover; /* recover-async too */
        struct amqp_confirm_select confirm_select;
    };
};

enum amqp_side { AMQP_FROM_SERVER = 1, AMQP_FROM_CLIENT = 2 };

/* Decodes the payload of a method frame. NULL, or the static name of what is wrong: "method.id" (unknown), "method.end" (bytes
 * left over), a field, as "queue_declare.arguments", or a table's tag that does not exist, as "table tag 0x5a". *out is complete
 * only on NULL. Views point into the payload. Who may send a method is not checked: see amqp_method_from. */
const char *amqp_decode(coney_bytes payload, struct amqp_method *out);

/* Writes the whole method frame and returns its size. Returns the bytes that are needed, and writes nothing, when `cap` is
 * less; `buf` may be NULL when `cap` is 0. 0: the method has no form on the wire: unknown, a short string over 255 bytes, a
 * value that is no sound table. */
size_t amqp_encode(uint16_t channel, const struct amqp_method *in, void *buf, size_t cap);

/* "queue.declare-ok". "unknown method" for any other number. Static memory. */
const char *amqp_method_name(uint32_t id);

/* Whether `side` may send the method. */
bool amqp_method_from(uint32_t id, enum amqp_side side);

/* Whether a content header and a body follow the method. */
bool amqp_method_has_content(uint32_t id);

/* Whether `answer` is what `request` waits for: its "-ok", or get-empty for get. */
bool amqp_answers(uint32_t request, uint32_t answer);

/* Whether the method waits for an answer, unless its nowait is set. */
bool amqp_is_request(uint32_t id);

/* A frame of a method without fields, such as close-ok: 12 bytes. */
enum { AMQP_BARE_BYTES = 12 };
static inline void amqp_bare_write(uint8_t at[AMQP_BARE_BYTES], uint16_t channel, uint32_t id)
{
    store32(amqp_frame_head_write(at, AMQP_FRAME_METHOD, channel, 4), id);
    at[AMQP_BARE_BYTES - 1] = AMQP_END;
}

#endif
