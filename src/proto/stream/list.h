/* list.h: the lists inside stream protocol messages, as they stand on the wire.
 *
 * A list is a view of encoded elements and their number: a decoded message points into the frame, a message to be encoded
 * into a buffer that the caller filled with a list_writer. `{0}` is the empty list. What stream_decode gave is checked to
 * the last byte, so that iterating over it always yields `count` elements; over bytes of any other origin an iterator
 * stops early and never reads past the end. Pure functions of bytes, no allocation.
 *
 *     uint8_t room[256];
 *     struct list_writer w = list_begin(room, sizeof room);
 *     list_add_pair(&w, CONEY_STR("max-age"), CONEY_STR("1h"));
 *     if (!list_end(&w, &frame.create.arguments)) …
 *
 *     struct list_iter it = list_iter_of(frame.peer_properties_answer.properties);
 *     coney_bytes key, value;
 *     while (list_next_pair(&it, &key, &value)) …
 */
#ifndef CONEY_PROTO_STREAM_LIST_H
#define CONEY_PROTO_STREAM_LIST_H

#include "base/bytes.h"

struct stream_list {
    const void *encoded; /* the elements, without the count before them */
    size_t len;
    uint32_t count;
};

struct stream_broker {
    uint16_t index; /* what leader and replicas refer to */
    coney_bytes host;
    uint32_t port;
};

struct stream_placement {
    coney_bytes stream;
    uint16_t code;               /* enum stream_code: whether the stream is there at all */
    uint16_t leader;             /* index of a broker, or STREAM_NO_NODE */
    struct stream_list replicas; /* list_next_index; without the leader */
};

struct stream_version_range {
    uint16_t key;
    uint16_t min;
    uint16_t max;
};

struct stream_publish_error {
    uint64_t id;
    uint16_t code;
};

/* One entry as producers write it and chunks hold it: a message, or a batch of messages under one publishing id. */
struct stream_entry {
    bool batch;
    uint8_t compression;   /* of a batch: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; others are not defined */
    uint16_t records;      /* messages inside: 1 when not a batch */
    uint32_t uncompressed; /* bytes of the batch's records before compression, as its writer claims; not a batch: data.len */
    coney_bytes data;
};

struct stream_publish_entry {
    uint64_t id;
    coney_bytes filter; /* Publish version 2: the filter value; `data` is NULL for none */
    struct stream_entry entry;
};

/* Reading -------------------------------------------------------------------------------------------------------- */

struct list_iter {
    struct reader at;
};

static inline struct list_iter list_iter_of(struct stream_list list)
{
    return (struct list_iter){reader_of(list.encoded, list.len)};
}

/* Each gives the next element and true, or false at the end. Views live as long as the list's bytes. */
bool list_next_string(struct list_iter *it, coney_bytes *value);
bool list_next_pair(struct list_iter *it, coney_bytes *key, coney_bytes *value);
bool list_next_stat(struct list_iter *it, coney_bytes *name, int64_t *value);
bool list_next_version(struct list_iter *it, struct stream_version_range *range);
bool list_next_broker(struct list_iter *it, struct stream_broker *broker);
bool list_next_placement(struct list_iter *it, struct stream_placement *placement);
bool list_next_index(struct list_iter *it, uint16_t *index);
bool list_next_error(struct list_iter *it, struct stream_publish_error *error);

/* `version` is that of the Publish frame. */
bool list_next_entry(struct list_iter *it, uint16_t version, struct stream_publish_entry *entry);

static inline bool list_next_id(struct list_iter *it, uint64_t *id)
{
    if (reader_left(&it->at) < sizeof *id)
        return false;
    *id = load64(it->at.at);
    it->at.at += sizeof *id;
    return true;
}

/* The value of `key` in a list of pairs; an empty view with `data` NULL when it is not there. */
coney_bytes list_find(struct stream_list pairs, coney_bytes key);

/* Writing -------------------------------------------------------------------------------------------------------- */

struct list_writer {
    struct writer out;
    uint32_t count;
    bool refused; /* an element that has no form on the wire was added */
};

/* An empty list that will stand in `buf`, which the caller owns and keeps while the list is in use. */
struct list_writer list_begin(void *buf, size_t cap);

/* False when the elements need more than the buffer holds (they need w->out.len bytes), or one of them has no form on the
 * wire: a string over STREAM_STRING_MAX, a filter value over STREAM_FILTER_MAX, an entry over 2^31-1 bytes, a batch in
 * version 2. `list` is untouched then. */
bool list_end(const struct list_writer *w, struct stream_list *list);

void list_add_string(struct list_writer *w, coney_bytes value);
void list_add_pair(struct list_writer *w, coney_bytes key, coney_bytes value);
void list_add_stat(struct list_writer *w, coney_bytes name, int64_t value);
void list_add_version(struct list_writer *w, struct stream_version_range range);
void list_add_broker(struct list_writer *w, const struct stream_broker *broker);
void list_add_placement(struct list_writer *w, const struct stream_placement *placement);
void list_add_index(struct list_writer *w, uint16_t index);
void list_add_id(struct list_writer *w, uint64_t id);
void list_add_error(struct list_writer *w, struct stream_publish_error error);
void list_add_entry(struct list_writer *w, uint16_t version, const struct stream_publish_entry *entry);

#endif
