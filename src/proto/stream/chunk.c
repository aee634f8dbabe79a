/* chunk.c: the chunk header, the rare turns of the walk, and writing chunks. */
#include "proto/stream/chunk.h"

enum { MAGIC_AND_VERSION = 0x50, BATCH_BIT = 0x80, SMALLEST_ENTRY = 4, BATCH_RECORDS_MAX = 65535 };

/* The header ----------------------------------------------------------------------------------------------------- */

static const char *check(const struct chunk *chunk, uint32_t data_len, uint32_t trailer_len, size_t left)
{
    if (chunk->type > CHUNK_TRACKING_SNAPSHOT)
        return "chunk.type";
    if (data_len > INT32_MAX || (left != data_len && left != (uint64_t)data_len + trailer_len))
        return "chunk.data_length";
    if (chunk->entries > data_len / SMALLEST_ENTRY)
        return "chunk.entries";
    if (chunk->records > (uint64_t)chunk->entries * BATCH_RECORDS_MAX)
        return "chunk.records";
    if (chunk->first > UINT64_MAX - chunk->records)
        return "chunk.first";
    return NULL;
}

const char *chunk_open(coney_bytes bytes, struct chunk *out)
{
    if (bytes.len < CHUNK_HEADER_BYTES)
        return "chunk.header";
    const uint8_t *at = bytes.data;
    if (at[0] != MAGIC_AND_VERSION)
        return "chunk.magic";

    uint32_t data_len = load32(at + 36);
    *out = (struct chunk){
        .type = at[1],
        .entries = load16(at + 2),
        .records = load32(at + 4),
        .timestamp = (int64_t)load64(at + 8),
        .epoch = load64(at + 16),
        .first = load64(at + 24),
        .crc = load32(at + 32),
        .data = coney_bytes_of(at + CHUNK_HEADER_BYTES, data_len),
    };
    return check(out, data_len, load32(at + 40), bytes.len - CHUNK_HEADER_BYTES);
}

/* The walk ------------------------------------------------------------------------------------------------------- */

/* An item ends a turn of the walk; NO_ITEM means that the walk stands elsewhere now. */
enum { NO_ITEM = -1 };

static int broken(struct chunk_walk *walk, const char *field)
{
    walk->field = field;
    walk->at = walk->end;
    walk->limit = walk->offset;
    return CHUNK_BROKEN;
}

/* Goes back from a batch to the chunk around it, at the offset behind the batch. */
static void leave_batch(struct chunk_walk *walk)
{
    walk->at = walk->end;
    walk->end = walk->outer_end;
    walk->offset = walk->limit;
    walk->limit = walk->outer_limit;
    walk->outer_end = NULL;
}

static int damaged(struct chunk_walk *walk, struct chunk_entry *entry, const char *field)
{
    walk->field = field;
    *entry = (struct chunk_entry){.offset = walk->offset, .records = (uint32_t)(walk->limit - walk->offset)};
    leave_batch(walk);
    return CHUNK_DAMAGED;
}

static void enter_batch(struct chunk_walk *walk, coney_bytes data, uint16_t records)
{
    walk->outer_end = walk->end;
    walk->outer_limit = walk->limit;
    walk->at = data.data;
    walk->end = walk->at + data.len;
    walk->limit = walk->offset + records;
}

static int open_batch(struct chunk_walk *walk, struct chunk_entry *entry)
{
    const uint8_t *at = walk->at;
    size_t left = (size_t)(walk->end - at);
    if (left < CHUNK_BATCH_BYTES)
        return broken(walk, "chunk.batch.header");
    uint8_t compression = at[0] >> 4 & 7;
    uint16_t records = load16(at + 1);
    coney_bytes data = {at + CHUNK_BATCH_BYTES, load32(at + 7)};
    if (records > walk->limit - walk->offset)
        return broken(walk, "chunk.batch.records");
    if (data.len > left - CHUNK_BATCH_BYTES)
        return broken(walk, "chunk.batch.length");
    if (compression == 0) {
        enter_batch(walk, data, records);
        return NO_ITEM;
    }
    *entry = (struct chunk_entry){
        .offset = walk->offset, .data = data, .records = records, .uncompressed = load32(at + 3), .compression = compression};
    walk->at = at + CHUNK_BATCH_BYTES + data.len;
    walk->offset += records;
    return CHUNK_COMPRESSED;
}

/* Something else than a message that fits stands at walk->at: the end of the chunk, a batch, or nonsense. */
static int turn_in_chunk(struct chunk_walk *walk, struct chunk_entry *entry)
{
    if (walk->at == walk->end)
        return walk->offset == walk->limit ? CHUNK_END : broken(walk, "chunk.records");
    if ((*walk->at & BATCH_BIT) != 0)
        return open_batch(walk, entry);
    return broken(walk, walk->offset < walk->limit ? "chunk.entry.length" : "chunk.records");
}

/* The same inside a plain batch: its end, or nonsense. */
static int turn_in_batch(struct chunk_walk *walk, struct chunk_entry *entry)
{
    bool no_bytes = walk->at == walk->end;
    bool no_records = walk->offset == walk->limit;
    if (no_bytes != no_records)
        return damaged(walk, entry, "chunk.batch.records");
    if (!no_bytes)
        return damaged(walk, entry, "chunk.batch.record.length");
    leave_batch(walk);
    return NO_ITEM;
}

enum chunk_item chunk_turn(struct chunk_walk *walk, struct chunk_entry *entry)
{
    do {
        int item = walk->outer_end != NULL ? turn_in_batch(walk, entry) : turn_in_chunk(walk, entry);
        if (item != NO_ITEM)
            return (enum chunk_item)item;
    } while (!chunk_take(walk, entry));
    return CHUNK_MESSAGE;
}

/* Writing -------------------------------------------------------------------------------------------------------- */

struct chunk_writer chunk_begin(void *buf, size_t cap, enum chunk_type type, int64_t timestamp, uint64_t epoch, uint64_t first)
{
    struct chunk_writer w = {.out = writer_of(buf, cap)};
    write8(&w.out, MAGIC_AND_VERSION);
    write8(&w.out, (uint8_t)type);
    write16(&w.out, 0);
    write32(&w.out, 0);
    write64(&w.out, (uint64_t)timestamp);
    write64(&w.out, epoch);
    write64(&w.out, first);
    for (int i = 0; i < 4; i++)
        write32(&w.out, 0);
    return w;
}

static void write_record(struct writer *out, coney_bytes message)
{
    write32(out, (uint32_t)message.len);
    write_bytes(out, message.data, message.len);
}

void chunk_add(struct chunk_writer *w, coney_bytes message)
{
    if (message.len > INT32_MAX)
        w->refused = true;
    write_record(&w->out, message);
    w->entries++;
    w->records++;
}

static void add_batch_header(struct chunk_writer *w, uint8_t compression, uint16_t records, uint32_t uncompressed, uint32_t len)
{
    write8(&w->out, (uint8_t)(BATCH_BIT | (compression & 7) << 4));
    write16(&w->out, records);
    write32(&w->out, uncompressed);
    write32(&w->out, len);
    w->entries++;
    w->records += records;
}

void chunk_add_batch(struct chunk_writer *w, const coney_bytes *messages, size_t count)
{
    uint64_t len = 0;
    bool fits = count >= 1 && count <= BATCH_RECORDS_MAX;
    for (size_t i = 0; fits && i < count; i++) {
        fits = messages[i].len <= INT32_MAX;
        len += SMALLEST_ENTRY + messages[i].len;
    }
    if (!fits || len > INT32_MAX) {
        w->refused = true;
        return;
    }
    add_batch_header(w, 0, (uint16_t)count, (uint32_t)len, (uint32_t)len);
    for (size_t i = 0; i < count; i++)
        write_record(&w->out, messages[i]);
}

void chunk_add_raw_batch(struct chunk_writer *w, uint8_t compression, uint16_t records, uint32_t uncompressed, coney_bytes data)
{
    if (data.len > INT32_MAX || compression > 7)
        w->refused = true;
    add_batch_header(w, compression, records, uncompressed, (uint32_t)data.len);
    write_bytes(&w->out, data.data, data.len);
}

coney_bytes chunk_data(const struct chunk_writer *w)
{
    if (!writer_ok(&w->out))
        return (coney_bytes){0};
    return coney_bytes_of(w->out.data + CHUNK_HEADER_BYTES, w->out.len - CHUNK_HEADER_BYTES);
}

size_t chunk_finish(struct chunk_writer *w, uint32_t crc)
{
    size_t data_len = w->out.len - CHUNK_HEADER_BYTES;
    if (w->refused || !writer_ok(&w->out) || w->entries > UINT16_MAX || data_len > INT32_MAX)
        return 0;
    store16(w->out.data + 2, (uint16_t)w->entries);
    store32(w->out.data + 4, w->records);
    store32(w->out.data + 32, crc);
    store32(w->out.data + 36, (uint32_t)data_len);
    return w->out.len;
}
