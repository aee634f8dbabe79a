/* frame.h: the numbers of AMQP 0-9-1, and cutting its frames out of a run of bytes.
 *
 * A frame is `u8 type | u16 channel | u32 size | payload | u8 0xCE`; the size counts the payload alone. Pure functions, any
 * thread.
 */
#ifndef CONEY_PROTO_AMQP091_FRAME_H
#define CONEY_PROTO_AMQP091_FRAME_H

#include "base/bytes.h"

enum {
    AMQP_PORT = 5672,
    AMQP_TLS_PORT = 5671,
    AMQP_HEAD_BYTES = 7,            /* before the payload */
    AMQP_FRAME_BYTES = 8,           /* around the payload */
    AMQP_END = 0xce,                /* the last octet of every frame */
    AMQP_PROTOCOL_HEADER_BYTES = 8, /* what a client begins with, and what a server of another version answers */
    AMQP_SHORT_MAX = 255,           /* bytes of a short string: names, keys, texts */
    AMQP_FRAME_MAX_DEFAULT = 131072,
    AMQP_FRAME_MAX_BEFORE_TUNE = 8192, /* until tune-ok: longer frames get no answer (4096 before RabbitMQ 4.1) */
    AMQP_FRAME_MAX_LEAST = 4096,       /* no peer may ask for less */
    AMQP_CHANNEL_MAX = 65535
};

enum amqp_frame_type { AMQP_FRAME_METHOD = 1, AMQP_FRAME_HEADER = 2, AMQP_FRAME_BODY = 3, AMQP_FRAME_HEARTBEAT = 8 };

/* Methods: the class in the upper half, its method in the lower, as they stand on the wire. */
#define AMQP_METHOD_ID(class, method) ((uint32_t)(class) << 16 | (uint32_t)(method))
#define AMQP_CLASS_OF(id) ((uint16_t)((id) >> 16))
#define AMQP_METHOD_OF(id) ((uint16_t)((id)&0xffff))

enum {
    AMQP_CLASS_CONNECTION = 10,
    AMQP_CLASS_CHANNEL = 20,
    AMQP_CLASS_ACCESS = 30,
    AMQP_CLASS_EXCHANGE = 40,
    AMQP_CLASS_QUEUE = 50,
    AMQP_CLASS_BASIC = 60,
    AMQP_CLASS_CONFIRM = 85,
    AMQP_CLASS_TX = 90
};

enum amqp_method_id {
    AMQP_CONNECTION_START = AMQP_METHOD_ID(10, 10),
    AMQP_CONNECTION_START_OK = AMQP_METHOD_ID(10, 11),
    AMQP_CONNECTION_SECURE = AMQP_METHOD_ID(10, 20),
    AMQP_CONNECTION_SECURE_OK = AMQP_METHOD_ID(10, 21),
    AMQP_CONNECTION_TUNE = AMQP_METHOD_ID(10, 30),
    AMQP_CONNECTION_TUNE_OK = AMQP_METHOD_ID(10, 31),
    AMQP_CONNECTION_OPEN = AMQP_METHOD_ID(10, 40),
    AMQP_CONNECTION_OPEN_OK = AMQP_METHOD_ID(10, 41),
    AMQP_CONNECTION_CLOSE = AMQP_METHOD_ID(10, 50),
    AMQP_CONNECTION_CLOSE_OK = AMQP_METHOD_ID(10, 51),
    AMQP_CONNECTION_BLOCKED = AMQP_METHOD_ID(10, 60),
    AMQP_CONNECTION_UNBLOCKED = AMQP_METHOD_ID(10, 61),
    AMQP_CONNECTION_UPDATE_SECRET = AMQP_METHOD_ID(10, 70),
    AMQP_CONNECTION_UPDATE_SECRET_OK = AMQP_METHOD_ID(10, 71),
    AMQP_CHANNEL_OPEN = AMQP_METHOD_ID(20, 10),
    AMQP_CHANNEL_OPEN_OK = AMQP_METHOD_ID(20, 11),
    AMQP_CHANNEL_FLOW = AMQP_METHOD_ID(20, 20),
    AMQP_CHANNEL_FLOW_OK = AMQP_METHOD_ID(20, 21),
    AMQP_CHANNEL_CLOSE = AMQP_METHOD_ID(20, 40),
    AMQP_CHANNEL_CLOSE_OK = AMQP_METHOD_ID(20, 41),
    AMQP_ACCESS_REQUEST = AMQP_METHOD_ID(30, 10),
    AMQP_ACCESS_REQUEST_OK = AMQP_METHOD_ID(30, 11),
    AMQP_EXCHANGE_DECLARE = AMQP_METHOD_ID(40, 10),
    AMQP_EXCHANGE_DECLARE_OK = AMQP_METHOD_ID(40, 11),
    AMQP_EXCHANGE_DELETE = AMQP_METHOD_ID(40, 20),
    AMQP_EXCHANGE_DELETE_OK = AMQP_METHOD_ID(40, 21),
    AMQP_EXCHANGE_BIND = AMQP_METHOD_ID(40, 30),
    AMQP_EXCHANGE_BIND_OK = AMQP_METHOD_ID(40, 31),
    AMQP_EXCHANGE_UNBIND = AMQP_METHOD_ID(40, 40),
    AMQP_EXCHANGE_UNBIND_OK = AMQP_METHOD_ID(40, 51),
    AMQP_QUEUE_DECLARE = AMQP_METHOD_ID(50, 10),
    AMQP_QUEUE_DECLARE_OK = AMQP_METHOD_ID(50, 11),
    AMQP_QUEUE_BIND = AMQP_METHOD_ID(50, 20),
    AMQP_QUEUE_BIND_OK = AMQP_METHOD_ID(50, 21),
    AMQP_QUEUE_PURGE = AMQP_METHOD_ID(50, 30),
    AMQP_QUEUE_PURGE_OK = AMQP_METHOD_ID(50, 31),
    AMQP_QUEUE_DELETE = AMQP_METHOD_ID(50, 40),
    AMQP_QUEUE_DELETE_OK = AMQP_METHOD_ID(50, 41),
    AMQP_QUEUE_UNBIND = AMQP_METHOD_ID(50, 50),
    AMQP_QUEUE_UNBIND_OK = AMQP_METHOD_ID(50, 51),
    AMQP_BASIC_QOS = AMQP_METHOD_ID(60, 10),
    AMQP_BASIC_QOS_OK = AMQP_METHOD_ID(60, 11),
    AMQP_BASIC_CONSUME = AMQP_METHOD_ID(60, 20),
    AMQP_BASIC_CONSUME_OK = AMQP_METHOD_ID(60, 21),
    AMQP_BASIC_CANCEL = AMQP_METHOD_ID(60, 30),
    AMQP_BASIC_CANCEL_OK = AMQP_METHOD_ID(60, 31),
    AMQP_BASIC_PUBLISH = AMQP_METHOD_ID(60, 40),
    AMQP_BASIC_RETURN = AMQP_METHOD_ID(60, 50),
    AMQP_BASIC_DELIVER = AMQP_METHOD_ID(60, 60),
    AMQP_BASIC_GET = AMQP_METHOD_ID(60, 70),
    AMQP_BASIC_GET_OK = AMQP_METHOD_ID(60, 71),
    AMQP_BASIC_GET_EMPTY = AMQP_METHOD_ID(60, 72),
    AMQP_BASIC_ACK = AMQP_METHOD_ID(60, 80),
    AMQP_BASIC_REJECT = AMQP_METHOD_ID(60, 90),
    AMQP_BASIC_RECOVER_ASYNC = AMQP_METHOD_ID(60, 100),
    AMQP_BASIC_RECOVER = AMQP_METHOD_ID(60, 110),
    AMQP_BASIC_RECOVER_OK = AMQP_METHOD_ID(60, 111),
    AMQP_BASIC_NACK = AMQP_METHOD_ID(60, 120),
    AMQP_CONFIRM_SELECT = AMQP_METHOD_ID(85, 10),
    AMQP_CONFIRM_SELECT_OK = AMQP_METHOD_ID(85, 11),
    AMQP_TX_SELECT = AMQP_METHOD_ID(90, 10),
    AMQP_TX_SELECT_OK = AMQP_METHOD_ID(90, 11),
    AMQP_TX_COMMIT = AMQP_METHOD_ID(90, 20),
    AMQP_TX_COMMIT_OK = AMQP_METHOD_ID(90, 21),
    AMQP_TX_ROLLBACK = AMQP_METHOD_ID(90, 30),
    AMQP_TX_ROLLBACK_OK = AMQP_METHOD_ID(90, 31)
};

enum amqp_code {
    AMQP_CODE_REPLY_SUCCESS = 200,
    AMQP_CODE_CONTENT_TOO_LARGE = 311,
    AMQP_CODE_NO_ROUTE = 312,
    AMQP_CODE_NO_CONSUMERS = 313,
    AMQP_CODE_CONNECTION_FORCED = 320,
    AMQP_CODE_INVALID_PATH = 402,
    AMQP_CODE_ACCESS_REFUSED = 403,
    AMQP_CODE_NOT_FOUND = 404,
    AMQP_CODE_RESOURCE_LOCKED = 405,
    AMQP_CODE_PRECONDITION_FAILED = 406,
    AMQP_CODE_FRAME_ERROR = 501,
    AMQP_CODE_SYNTAX_ERROR = 502,
    AMQP_CODE_COMMAND_INVALID = 503,
    AMQP_CODE_CHANNEL_ERROR = 504,
    AMQP_CODE_UNEXPECTED_FRAME = 505,
    AMQP_CODE_RESOURCE_ERROR = 506,
    AMQP_CODE_NOT_ALLOWED = 530,
    AMQP_CODE_NOT_IMPLEMENTED = 540,
    AMQP_CODE_INTERNAL_ERROR = 541
};

/* "NOT_FOUND": the name of a reply code, as the broker writes it in its texts. "UNKNOWN" for any other number. Static memory. */
const char *amqp_code_name(uint16_t code);

/* Soft: such an error closes its channel; a hard one closes the connection. The broker's close method has the last word: it
 * sends 403 for the connection when a login fails. False for a number that is no code. */
bool amqp_code_is_soft(uint16_t code);

/* "AMQP", 0, 0, 9, 1. */
extern const uint8_t amqp_protocol_header[AMQP_PROTOCOL_HEADER_BYTES];

/* A whole heartbeat frame. */
extern const uint8_t amqp_heartbeat[AMQP_FRAME_BYTES];

/* The payload that one frame may carry under a negotiated frame_max. 0, "no limit", gives that of the default: what is written
 * is cut into such pieces. Any other value is at least AMQP_FRAME_MAX_LEAST. */
static inline uint32_t amqp_payload_max(uint32_t frame_max)
{
    return (frame_max == 0 ? AMQP_FRAME_MAX_DEFAULT : frame_max) - AMQP_FRAME_BYTES;
}

/* The bytes of the frame that starts at `at`, all of it; it may not be there whole yet. Of `have` bytes 7 are needed: 0 with
 * *field NULL when there are fewer. 0 and *field set when this is no frame: what can be seen in the first 7 bytes is refused
 * on them alone, the end octet when it is at hand.
 *   "frame.type"         none of the four types; a server of another protocol version answers "AMQP…"
 *   "frame.size"         a payload larger than `payload_max`
 *   "frame.end"          the octet behind the payload is not 0xCE
 *   "heartbeat.channel"  a heartbeat on another channel than 0
 *   "heartbeat.size"     a heartbeat with a payload
 * Whether the channel is open is the caller's to know. */
static inline size_t amqp_frame_size(const void *at, size_t have, uint32_t payload_max, const char **field);

/* One whole frame, as amqp_frame_size measured it. */
struct amqp_frame {
    uint8_t type; /* enum amqp_frame_type */
    uint16_t channel;
    coney_bytes payload;
};

static inline struct amqp_frame amqp_frame_of(const void *at)
{
    const uint8_t *head = at;
    return (struct amqp_frame){
        .type = head[0], .channel = load16(head + 1), .payload = coney_bytes_of(head + AMQP_HEAD_BYTES, load32(head + 3))};
}

/* Heads a frame; the caller writes `size` bytes of payload at the place that is returned, and AMQP_END behind them. */
static inline uint8_t *amqp_frame_head_write(uint8_t *at, uint8_t type, uint16_t channel, uint32_t size)
{
    at[0] = type;
    store16(at + 1, channel);
    store32(at + 3, size);
    return at + AMQP_HEAD_BYTES;
}

/* Gives whole frames that lie behind each other, `len` bytes of them, another channel: what was written for a channel that is
 * gone can be sent again on its successor. Stops at what is no whole frame. */
void amqp_retarget(void *frames, size_t len, uint16_t channel);

/* What amqp_frame_size says about a head that no plain frame has. Out of line: it is for heartbeats and faults. */
const char *amqp_head_fault(const uint8_t *head, uint32_t payload_max);

static inline size_t amqp_frame_size(const void *at, size_t have, uint32_t payload_max, const char **field)
{
    const uint8_t *head = at;
    *field = NULL;
    if (have < AMQP_HEAD_BYTES)
        return 0;
    uint32_t size = load32(head + 3);
    if (__builtin_expect(head[0] != AMQP_FRAME_METHOD || size > payload_max, 0)) {
        *field = amqp_head_fault(head, payload_max);
        if (*field != NULL)
            return 0;
    }
    size_t total = (size_t)size + AMQP_FRAME_BYTES;
    if (have >= total && head[total - 1] != AMQP_END) {
        *field = "frame.end";
        return 0;
    }
    return total;
}

#endif
