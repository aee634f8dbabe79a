/* amqp_wire.h: AMQP 0-9-1 on a bare connection: one channel, number 1, besides channel 0.
 *
 * Names begin with wire91, for rabbitmq-c has amqp for its own. An answer that was not due ends the program, with the broker's
 * text where it closes the channel or the connection.
 */
#ifndef BENCH_AMQP_WIRE_H
#define BENCH_AMQP_WIRE_H

#include "wire.h"

/* Class and method in one number, as they stand on the wire. */
#define AMQP_METHOD(class, method) (UINT32_C(class) << 16 | (method))

enum amqp_method {
    CONNECTION_START = AMQP_METHOD(10, 10),
    CONNECTION_START_OK = AMQP_METHOD(10, 11),
    CONNECTION_TUNE = AMQP_METHOD(10, 30),
    CONNECTION_TUNE_OK = AMQP_METHOD(10, 31),
    CONNECTION_OPEN = AMQP_METHOD(10, 40),
    CONNECTION_OPEN_OK = AMQP_METHOD(10, 41),
    CONNECTION_CLOSE = AMQP_METHOD(10, 50),
    CONNECTION_CLOSE_OK = AMQP_METHOD(10, 51),
    CONNECTION_UPDATE_SECRET = AMQP_METHOD(10, 70),
    CHANNEL_OPEN = AMQP_METHOD(20, 10),
    CHANNEL_OPEN_OK = AMQP_METHOD(20, 11),
    CHANNEL_CLOSE = AMQP_METHOD(20, 40),
    CHANNEL_CLOSE_OK = AMQP_METHOD(20, 41),
    EXCHANGE_DECLARE = AMQP_METHOD(40, 10),
    EXCHANGE_DELETE = AMQP_METHOD(40, 20),
    EXCHANGE_BIND = AMQP_METHOD(40, 30),
    QUEUE_DECLARE = AMQP_METHOD(50, 10),
    QUEUE_DECLARE_OK = AMQP_METHOD(50, 11),
    QUEUE_BIND = AMQP_METHOD(50, 20),
    QUEUE_PURGE = AMQP_METHOD(50, 30),
    QUEUE_DELETE = AMQP_METHOD(50, 40),
    QUEUE_DELETE_OK = AMQP_METHOD(50, 41),
    QUEUE_UNBIND = AMQP_METHOD(50, 50),
    BASIC_QOS = AMQP_METHOD(60, 10),
    BASIC_QOS_OK = AMQP_METHOD(60, 11),
    BASIC_CONSUME = AMQP_METHOD(60, 20),
    BASIC_CONSUME_OK = AMQP_METHOD(60, 21),
    BASIC_CANCEL = AMQP_METHOD(60, 30),
    BASIC_PUBLISH = AMQP_METHOD(60, 40),
    BASIC_DELIVER = AMQP_METHOD(60, 60),
    BASIC_ACK = AMQP_METHOD(60, 80),
    BASIC_REJECT = AMQP_METHOD(60, 90),
    BASIC_NACK = AMQP_METHOD(60, 120),
    CONFIRM_SELECT = AMQP_METHOD(85, 10),
    CONFIRM_SELECT_OK = AMQP_METHOD(85, 11),
};

enum { AMQP_FRAME_METHOD = 1, AMQP_FRAME_HEADER = 2, AMQP_FRAME_BODY = 3, AMQP_FRAME_HEARTBEAT = 8, AMQP_FRAME_END = 0xce };

/* Sizes that the protocol fixes. */
enum {
    AMQP_FRAME_HEAD = 1 + 2 + 4,             /* type, channel, size of the payload */
    AMQP_FRAME_AROUND = AMQP_FRAME_HEAD + 1, /* with the end octet */
    AMQP_ARGUMENTS = 4,                      /* of a method, from its payload on */
    AMQP_CONTENT_SIZE = 4,                   /* of a content header: where the body's size stands */
    AMQP_ACK_SIZE = AMQP_FRAME_AROUND + AMQP_ARGUMENTS + 8 + 1,
    AMQP_NACK_MULTIPLE = 1, /* bit 0 of the octet after the tag, in ack and nack */
};

struct amqp_frame {
    const uint8_t *payload; /* valid until the next wire_fill, wire_make_room or wire91_read */
    size_t len;
    uint32_t method; /* 0 in a frame that is none */
    uint16_t channel;
    uint8_t type;
};

/* Logs in at `uri`, amqp://[user[:password]@]host[:port], virtual host "/", without heartbeats, and opens channel 1. */
struct wire wire91_open(const char *uri);

/* Waits until the broker has closed the connection. */
void wire91_close(struct wire *w);

/* The next frame, if all of it is in the buffer; no system call. A frame without its end octet ends the program. */
bool wire91_take(struct wire *w, struct amqp_frame *frame);

/* Waits for the next frame. wire91_expect: it must be this method. */
struct amqp_frame wire91_read(struct wire *w);
struct amqp_frame wire91_expect(struct wire *w, enum amqp_method method);

/* Each waits for the broker's -ok. `type` is that of a durable queue: "classic" or "quorum". wire91_delete returns how many
 * messages the queue still had. The consumer is called "c". */
void wire91_declare(struct wire *w, const char *queue, const char *type);
uint32_t wire91_delete(struct wire *w, const char *queue);
void wire91_confirm_select(struct wire *w);
void wire91_consume(struct wire *w, const char *queue, uint16_t prefetch);

/* Frames laid out in memory: a frame is what stands between wire91_begin, or wire91_begin_method, and wire91_end, which returns its
 * end. A short string has up to 255 bytes. */
uint8_t *wire91_begin(uint8_t *p, uint8_t type, uint16_t channel);
uint8_t *wire91_begin_method(uint8_t *p, uint16_t channel, uint32_t method);
uint8_t *wire91_end(uint8_t *begin, uint8_t *p);
uint8_t *put_short(uint8_t *p, const char *text);
uint8_t *put_long(uint8_t *p, const void *data, size_t len);

/* A content header and, unless `size` is 0, one body frame of as many x; delivery mode 2. */
uint8_t *put_content(uint8_t *p, uint16_t channel, size_t size);

/* The same of an order_json, with its content type. */
uint8_t *put_order(uint8_t *p, uint16_t channel, size_t size);

/* A publish to `queue` through the default exchange, mandatory and persistent. Its last byte but one is the body's last. */
uint8_t *put_amqp_publish(uint8_t *p, const char *queue, size_t size);

/* AMQP_ACK_SIZE bytes. */
uint8_t *put_ack(uint8_t *p, uint16_t channel, uint64_t tag, bool multiple);

#endif
