/* fastpath.h: the data path of the stream protocol without the general codec: publish, confirm, deliver.
 *
 * Inline, a handful of instructions each. They write and read the same bytes as codec.h does. Writers take room that the
 * caller has made sure of; readers check every length. Pure functions of bytes.
 *
 *   frame size field     version 1: 9 + sum of (12 + len)    version 2: 9 + sum of (14 + filter + len)
 *                        batches:   9 + sum of (19 + len)
 */
#ifndef CONEY_PROTO_STREAM_FASTPATH_H
#define CONEY_PROTO_STREAM_FASTPATH_H

#include "proto/stream/codec.h"

enum {
    PUBLISH_HEADER_BYTES = 13,     /* of a Publish frame, size field included */
    PUBLISH_ENTRY_BYTES = 12,      /* before the body of a version 1 entry */
    PUBLISH_ENTRY_V2_BYTES = 14,   /* before the body of a version 2 entry, and the filter value besides */
    PUBLISH_BATCH_BYTES = 19,      /* before the data of a batch */
    PUBLISH_BATCH_RECORD_BYTES = 4 /* before each message inside a plain batch */
};

/* Heads a Publish frame of `entries` entries that take `entry_bytes` bytes together (at most 2^32-10). */
static inline void publish_header_write(uint8_t out[PUBLISH_HEADER_BYTES], uint8_t publisher, uint32_t entries,
                                        uint32_t entry_bytes, uint16_t version)
{
    store32(out, PUBLISH_HEADER_BYTES - STREAM_SIZE_BYTES + entry_bytes);
    store16(out + 4, STREAM_PUBLISH);
    store16(out + 6, version);
    out[8] = publisher;
    store32(out + 9, entries);
}

/* Heads a version 1 entry whose `len` bytes (at most 2^31-1) the caller writes at the place that is returned. */
static inline uint8_t *publish_entry_write(uint8_t *at, uint64_t id, uint32_t len)
{
    store64(at, id);
    store32(at + 8, len);
    return at + PUBLISH_ENTRY_BYTES;
}

/* The same for version 2. `filter.data` NULL means no filter value; filter.len is at most STREAM_FILTER_MAX. */
static inline uint8_t *publish_entry_write_v2(uint8_t *at, uint64_t id, coney_bytes filter, uint32_t len)
{
    store64(at, id);
    store16(at + 8, filter.data == NULL ? UINT16_MAX : (uint16_t)filter.len);
    if (filter.len > 0)
        memcpy(at + 10, filter.data, filter.len);
    store32(at + 10 + filter.len, len);
    return at + PUBLISH_ENTRY_V2_BYTES + filter.len;
}

/* Heads a batch of 1 to STREAM_BATCH_RECORDS messages under one id (version 1 only). The caller writes `len` bytes of data at
 * the place that is returned: plain, for each message its u32 length and its bytes; otherwise the same compressed. */
static inline uint8_t *publish_batch_write(uint8_t *at, uint64_t id, uint8_t compression, uint16_t records,
                                           uint32_t uncompressed, uint32_t len)
{
    store64(at, id);
    at[8] = (uint8_t)(0x80u | (compression & 7u) << 4);
    store16(at + 9, records);
    store32(at + 11, uncompressed);
    store32(at + 15, len);
    return at + PUBLISH_BATCH_BYTES;
}

/* Reads the body (see stream_frame_body) of a PublishConfirm; walk its ids with list_next_id. NULL, or the wrong field. */
static inline const char *confirm_read(coney_bytes body, struct stream_publish_confirm *out)
{
    const uint8_t *at = body.data;
    if (body.len < 9)
        return "publish_confirm.ids";
    if (load16(at + 2) != 1)
        return "frame.version";
    out->publisher = at[4];
    out->ids = (struct stream_list){.encoded = at + 9, .len = body.len - 9, .count = load32(at + 5)};
    return out->ids.len == (uint64_t)out->ids.count * 8 ? NULL : "publish_confirm.ids";
}

/* Reads the body of a Deliver, version 1 or 2. NULL, or the wrong field. */
static inline const char *deliver_read(coney_bytes body, struct stream_deliver *out)
{
    const uint8_t *at = body.data;
    if (body.len < 5)
        return "deliver.subscription";
    out->subscription = at[4];
    uint16_t version = load16(at + 2);
    if (version == 1) {
        out->committed = 0;
        out->chunk = coney_bytes_of(at + 5, body.len - 5);
        return NULL;
    }
    if (version != 2)
        return "frame.version";
    if (body.len < 13)
        return "deliver.committed";
    out->committed = load64(at + 5);
    out->chunk = coney_bytes_of(at + 13, body.len - 13);
    return NULL;
}

#endif
