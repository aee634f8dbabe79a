/* stream_wire.h: the stream protocol on a bare connection.
 *
 * An answer that was not due ends the program.
 */
#ifndef BENCH_STREAM_WIRE_H
#define BENCH_STREAM_WIRE_H

#include "wire.h"

enum {
    KEY_DECLARE_PUBLISHER = 1,
    KEY_PUBLISH = 2,
    KEY_PUBLISH_CONFIRM = 3,
    KEY_SUBSCRIBE = 7,
    KEY_DELIVER = 8,
    KEY_CREDIT = 9,
    KEY_STORE_OFFSET = 10,
    KEY_UNSUBSCRIBE = 12,
    KEY_CREATE = 13,
    KEY_DELETE = 14,
    KEY_METADATA = 15,
    KEY_PEER_PROPERTIES = 17,
    KEY_SASL_HANDSHAKE = 18,
    KEY_SASL_AUTHENTICATE = 19,
    KEY_TUNE = 20,
    KEY_OPEN = 21,
    KEY_CLOSE = 22,
    KEY_HEARTBEAT = 23,
    KEY_VERSIONS = 27,
    KEY_RESPONSE = 0x8000,
    CODE_OK = 1,
};

enum offset_kind { OFFSET_FIRST = 1, OFFSET_NEXT = 3 };

/* Sizes that the protocol fixes (the size field of a frame included). */
enum {
    PUBLISH_HEADER = 4 + 2 + 2 + 1 + 4,
    ENTRY_HEADER = 8 + 4, /* publishing id, length */
    DATA_SECTION = 5,     /* 00 53 75 a0 length */
    CONFIRM_HEADER = 4 + 2 + 2 + 1 + 4,
    DELIVER_HEADER = 4 + 2 + 2 + 1 + 8, /* version 2: with the committed chunk id */
    CHUNK_HEADER = 48,
    CHUNK_ENTRIES = 2, /* offsets into the chunk header */
    CHUNK_RECORDS = 4,
    CHUNK_ID = 24,
    CHUNK_CRC = 32,
};

static inline uint8_t *put_text(uint8_t *p, const char *text)
{
    size_t len = strlen(text);
    p = put16(p, (uint16_t)len);
    return (uint8_t *)memcpy(p, text, len) + len;
}

struct frame {
    const uint8_t *data; /* from the size field on; valid until the next wire_fill, wire_make_room or wire_read */
    size_t len;          /* the size field included */
    uint16_t key;
};

/* Logs in at `uri`, rabbitmq-stream://[user[:password]@]host[:port], virtual host "/", with a receive buffer of `buffer` bytes,
 * without heartbeats and with Deliver version 2. */
struct wire wire_open(const char *uri, size_t buffer);

/* Each waits for the broker's OK. Publisher and subscription have the id 0, the publisher no name. */
void wire_create(struct wire *w, const char *stream);
void wire_delete(struct wire *w, const char *stream);
void wire_declare(struct wire *w, const char *stream);
void wire_subscribe(struct wire *w, const char *stream, enum offset_kind from, uint16_t credit);
void wire_unsubscribe(struct wire *w); /* chunks that are still under way are dropped */

/* Grants `credit` more chunks; not answered. */
void wire_credit(struct wire *w, uint16_t credit);

/* The next frame, if all of it is in the buffer; no system call. */
bool wire_take(struct wire *w, struct frame *frame);

/* Waits for the next frame. */
struct frame wire_read(struct wire *w);

#endif
