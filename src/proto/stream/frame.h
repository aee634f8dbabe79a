/* frame.h: the stream protocol's numbers, and cutting its frames out of a run of bytes.
 *
 * A frame is `u32 size | u16 key | u16 version | …`; the size does not count its own four bytes. The top bit of the key
 * marks an answer. Pure functions, any thread.
 */
#ifndef CONEY_PROTO_STREAM_FRAME_H
#define CONEY_PROTO_STREAM_FRAME_H

#include "base/bytes.h"

enum {
    STREAM_PORT = 5552,
    STREAM_TLS_PORT = 5551,
    STREAM_SIZE_BYTES = 4,     /* the size field itself */
    STREAM_SMALLEST_FRAME = 4, /* a key and a version: what the size field says at least */
    STREAM_RESPONSE_BIT = 0x8000,
    STREAM_NO_NODE = 0xffff,     /* metadata: a stream without a leader */
    STREAM_STRING_MAX = 65535,   /* bytes of a string */
    STREAM_FILTER_MAX = 65534,   /* bytes of a filter value: 65535 stands for none */
    STREAM_REFERENCE_MAX = 255,  /* bytes of a producer's or consumer's name */
    STREAM_CREDIT_MAX = 32767,   /* of one Credit frame: the field is signed */
    STREAM_IDS_A_LINK = 256,     /* publisher ids, and subscription ids, of one connection */
    STREAM_BATCH_RECORDS = 65535 /* messages of one sub-entry batch */
};

enum stream_key {
    STREAM_DECLARE_PUBLISHER = 1,
    STREAM_PUBLISH = 2,
    STREAM_PUBLISH_CONFIRM = 3,
    STREAM_PUBLISH_ERROR = 4,
    STREAM_QUERY_PUBLISHER_SEQUENCE = 5,
    STREAM_DELETE_PUBLISHER = 6,
    STREAM_SUBSCRIBE = 7,
    STREAM_DELIVER = 8,
    STREAM_CREDIT = 9,
    STREAM_STORE_OFFSET = 10,
    STREAM_QUERY_OFFSET = 11,
    STREAM_UNSUBSCRIBE = 12,
    STREAM_CREATE = 13,
    STREAM_DELETE = 14,
    STREAM_METADATA = 15,
    STREAM_METADATA_UPDATE = 16,
    STREAM_PEER_PROPERTIES = 17,
    STREAM_SASL_HANDSHAKE = 18,
    STREAM_SASL_AUTHENTICATE = 19,
    STREAM_TUNE = 20,
    STREAM_OPEN = 21,
    STREAM_CLOSE = 22,
    STREAM_HEARTBEAT = 23,
    STREAM_ROUTE = 24,
    STREAM_PARTITIONS = 25,
    STREAM_CONSUMER_UPDATE = 26,
    STREAM_EXCHANGE_COMMAND_VERSIONS = 27,
    STREAM_STREAM_STATS = 28,
    STREAM_CREATE_SUPER_STREAM = 29,
    STREAM_DELETE_SUPER_STREAM = 30,
    STREAM_RESOLVE_OFFSET_SPEC = 31,
    STREAM_KEY_LAST = 31
};

enum stream_code {
    STREAM_CODE_OK = 1,
    STREAM_CODE_STREAM_DOES_NOT_EXIST = 2,
    STREAM_CODE_SUBSCRIPTION_ID_EXISTS = 3,
    STREAM_CODE_SUBSCRIPTION_ID_DOES_NOT_EXIST = 4,
    STREAM_CODE_STREAM_EXISTS = 5,
    STREAM_CODE_STREAM_NOT_AVAILABLE = 6,
    STREAM_CODE_SASL_MECHANISM_NOT_SUPPORTED = 7,
    STREAM_CODE_AUTHENTICATION_FAILURE = 8,
    STREAM_CODE_SASL_ERROR = 9,
    STREAM_CODE_SASL_CHALLENGE = 10,
    STREAM_CODE_LOOPBACK_ONLY = 11,
    STREAM_CODE_VHOST_ACCESS_FAILURE = 12,
    STREAM_CODE_UNKNOWN_FRAME = 13,
    STREAM_CODE_FRAME_TOO_LARGE = 14,
    STREAM_CODE_INTERNAL_ERROR = 15,
    STREAM_CODE_ACCESS_REFUSED = 16,
    STREAM_CODE_PRECONDITION_FAILED = 17,
    STREAM_CODE_PUBLISHER_DOES_NOT_EXIST = 18,
    STREAM_CODE_NO_OFFSET = 19,
    STREAM_CODE_CANNOT_CHANGE_MECHANISM = 20,
    STREAM_CODE_CANNOT_CHANGE_USERNAME = 21,
    STREAM_CODE_LAST = 21
};

/* Where a subscription starts. The value of an offset specification counts for the last two types only. */
enum stream_offset_type {
    STREAM_OFFSET_NONE = 0, /* answers to ConsumerUpdate only: as the Subscribe said */
    STREAM_OFFSET_FIRST = 1,
    STREAM_OFFSET_LAST = 2,
    STREAM_OFFSET_NEXT = 3,
    STREAM_OFFSET_OFFSET = 4,
    STREAM_OFFSET_TIMESTAMP = 5 /* milliseconds since 1970, signed */
};

enum stream_side { STREAM_FROM_SERVER = 1, STREAM_FROM_CLIENT = 2 };

/* "stream does not exist": the code in words, for texts. "unknown code" for any other number. Static memory. */
const char *stream_code_name(uint16_t code);

/* "Subscribe": the command of a key, with or without the response bit. "unknown command" for any other. Static memory. */
const char *stream_key_name(uint16_t key);

/* The bytes of the frame that starts at `data`, its size field included; the frame may not be there whole yet.
 * 0 when fewer than four bytes are at hand. 0 with *field = "frame.size" when the size field says less than
 * STREAM_SMALLEST_FRAME or more than `size_max`, which like the negotiated frame_max does not count the size field; *field
 * is NULL in every other case. */
static inline size_t stream_frame_size(const void *data, size_t len, uint32_t size_max, const char **field)
{
    *field = NULL;
    if (len < STREAM_SIZE_BYTES)
        return 0;
    uint32_t size = load32(data);
    if (size < STREAM_SMALLEST_FRAME || size > size_max) {
        *field = "frame.size";
        return 0;
    }
    return (size_t)size + STREAM_SIZE_BYTES;
}

/* The frame without its size field: what stream_decode takes. `frame` holds `size` bytes as stream_frame_size gave them. */
static inline coney_bytes stream_frame_body(const void *frame, size_t size)
{
    return coney_bytes_of((const uint8_t *)frame + STREAM_SIZE_BYTES, size - STREAM_SIZE_BYTES);
}

/* The key of a frame body, response bit included. The body holds at least STREAM_SMALLEST_FRAME bytes. */
static inline uint16_t stream_body_key(coney_bytes body)
{
    return load16(body.data);
}

#endif
