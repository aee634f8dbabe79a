/* chunk.h: the chunks in which a broker stores and delivers messages, read and written.
 *
 * chunk_open checks the header against the bytes at hand; chunk_next then yields message after message with its offset, at
 * about a dozen instructions each. The checksum is not computed here: a client compares `crc` with the CRC-32 (zlib) of
 * `data` before it believes any of it. All views point into the chunk's bytes. Pure functions, no allocation.
 *
 *     struct chunk chunk;
 *     const char *wrong = chunk_open(deliver.chunk, &chunk);
 *     struct chunk_walk walk = chunk_walk_of(&chunk);
 *     struct chunk_entry e;
 *     enum chunk_item item;
 *     while ((item = chunk_next(&walk, &e)) == CHUNK_MESSAGE) …
 */
#ifndef CONEY_PROTO_STREAM_CHUNK_H
#define CONEY_PROTO_STREAM_CHUNK_H

#include "base/bytes.h"

enum { CHUNK_HEADER_BYTES = 48, CHUNK_BATCH_BYTES = 11 };

enum chunk_type { CHUNK_USER = 0, CHUNK_TRACKING_DELTA = 1, CHUNK_TRACKING_SNAPSHOT = 2 };

struct chunk {
    uint8_t type;      /* enum chunk_type; walk only user chunks for messages */
    uint16_t entries;  /* messages and batches */
    uint32_t records;  /* offsets that the chunk takes: messages, those inside batches counted */
    int64_t timestamp; /* milliseconds since 1970, when the chunk was written */
    uint64_t epoch;    /* of the leader that wrote it */
    uint64_t first;    /* offset of the first message, which also is the chunk's id */
    uint32_t crc;      /* expected CRC-32 of `data` */
    coney_bytes data;  /* the entries */
};

/* Reads the header. NULL when it is sound, else the field that is not, e.g. "chunk.magic": bytes are missing or left over,
 * there are more entries than bytes for them, more records than entries can hold, or offsets beyond 2^64. The lengths of
 * bloom filter and trailer in the header are of no account: those bytes do not come with user chunks; a trailer that does
 * come behind the data is left aside. */
CONEY_MUST_CHECK const char *chunk_open(coney_bytes bytes, struct chunk *out);

enum chunk_item {
    CHUNK_END = 0,        /* every record was seen */
    CHUNK_MESSAGE = 1,    /* one message */
    CHUNK_COMPRESSED = 2, /* a batch that is not plain: `records` messages from `offset`; the walk goes on after it */
    CHUNK_DAMAGED = 3,    /* `records` messages from `offset` cannot be read (their batch is wrong inside: walk.field
                           * says where); the walk goes on after the batch */
    CHUNK_BROKEN = 4      /* the rest from walk.offset cannot be read: walk.field says what is wrong; ends the walk */
};

struct chunk_entry {
    uint64_t offset;
    coney_bytes data;      /* a message's bytes, or a compressed batch's data */
    uint32_t records;      /* COMPRESSED and DAMAGED only, as are the next two; may be 0 */
    uint32_t uncompressed; /* COMPRESSED: bytes after decompression, as the batch's writer claims */
    uint8_t compression;   /* COMPRESSED: 1 gzip, 2 snappy, 3 lz4, 4 zstd, 5 to 7 not defined */
};

struct chunk_walk {
    const uint8_t *at;
    const uint8_t *end;       /* of the chunk's data, or of the batch that is being walked */
    uint64_t offset;          /* of the next message */
    uint64_t limit;           /* offset after the last message of the chunk or of the batch */
    const uint8_t *outer_end; /* inside a batch: the chunk's `end`; else NULL */
    uint64_t outer_limit;     /* inside a batch: the chunk's `limit` */
    const char *field;        /* what was found wrong last, e.g. "chunk.batch.records" */
};

static inline struct chunk_walk chunk_walk_of(const struct chunk *chunk)
{
    const uint8_t *data = chunk->data.data;
    return (struct chunk_walk){
        .at = data,
        .end = data + chunk->data.len,
        .offset = chunk->first,
        .limit = chunk->first + chunk->records,
    };
}

/* The next message, if it stands there plainly. False otherwise, and nothing has changed. */
static inline bool chunk_take(struct chunk_walk *walk, struct chunk_entry *entry)
{
    const uint8_t *at = walk->at;
    size_t left = (size_t)(walk->end - at);
    if (left < 4 || walk->offset >= walk->limit)
        return false;
    /* A batch has the top bit set, which makes it larger than what is left of any chunk. */
    uint32_t len = load32(at);
    if (len > left - 4)
        return false;
    entry->offset = walk->offset++;
    entry->data = coney_bytes_of(at + 4, len);
    walk->at = at + 4 + len;
    return true;
}

/* chunk_next where chunk_take has nothing. */
enum chunk_item chunk_turn(struct chunk_walk *walk, struct chunk_entry *entry);

/* The next item; after CHUNK_BROKEN and CHUNK_END always CHUNK_END, with an entry of zeros. A plain batch is walked as its
 * messages. Terminates for any bytes: each item but a CHUNK_BROKEN takes at least four of them.
 * A walk and an entry that are locals of the loop stay in registers: the rare turn works on copies. */
static inline enum chunk_item chunk_next(struct chunk_walk *walk, struct chunk_entry *entry)
{
    if (__builtin_expect(chunk_take(walk, entry), 1))
        return CHUNK_MESSAGE;
    struct chunk_walk turning = *walk;
    struct chunk_entry found = {0};
    enum chunk_item item = chunk_turn(&turning, &found);
    *walk = turning;
    *entry = found;
    return item;
}

/* Writing -------------------------------------------------------------------------------------------------------- */

struct chunk_writer {
    struct writer out;
    uint32_t entries;
    uint32_t records;
    bool refused; /* something that has no form in a chunk was added */
};

/* Starts a chunk in memory that the caller owns. */
struct chunk_writer chunk_begin(void *buf, size_t cap, enum chunk_type type, int64_t timestamp, uint64_t epoch, uint64_t first);

/* Adds one message. */
void chunk_add(struct chunk_writer *w, coney_bytes message);

/* Adds `count` messages as a plain batch: 1 to 65535. */
void chunk_add_batch(struct chunk_writer *w, const coney_bytes *messages, size_t count);

/* Adds a batch as it stands; nothing inside is looked at, as brokers do. */
void chunk_add_raw_batch(struct chunk_writer *w, uint8_t compression, uint16_t records, uint32_t uncompressed,
                         coney_bytes data);

/* The entries so far: what the checksum is computed over. Empty when they do not fit. */
coney_bytes chunk_data(const struct chunk_writer *w);

/* Completes the header and returns the chunk's bytes; 0 when it did not fit (w->out.len were needed), or
 * something was added that has no form in a chunk: a message over 2^31-1 bytes, a batch of 0 or over 65535 messages, over
 * 65535 entries. */
size_t chunk_finish(struct chunk_writer *w, uint32_t crc);

#endif
