/* list.c: the elements of the protocol's lists.
 *
 * One reader for each kind of element, which serves both the check at decoding, where it is told the names of the fields,
 * and the iterators. */
#include "proto/stream/layout.h"

enum { BATCH_BIT = 0x80, NO_FILTER = 0xffff };

static const char *const unnamed[LAYOUT_PARTS] = {"list", "list", "list", "list", "list"};

coney_bytes read_string(struct reader *r, const char *field)
{
    return read_bytes(r, read16(r, field), field);
}

bool write_string(struct writer *w, coney_bytes value)
{
    if (value.len > STREAM_STRING_MAX)
        return false;
    write16(w, (uint16_t)value.len);
    write_bytes(w, value.data, value.len);
    return true;
}

/* Elements, read ------------------------------------------------------------------------------------------------- */

static void read_pair(struct reader *r, const char *const part[], coney_bytes *key, coney_bytes *value)
{
    *key = read_string(r, part[0]);
    *value = read_string(r, part[1]);
}

static void read_stat(struct reader *r, const char *const part[], coney_bytes *name, int64_t *value)
{
    *name = read_string(r, part[0]);
    *value = (int64_t)read64(r, part[1]);
}

static struct stream_version_range read_version(struct reader *r, const char *const part[])
{
    struct stream_version_range range;
    range.key = read16(r, part[0]);
    range.min = read16(r, part[1]);
    range.max = read16(r, part[2]);
    return range;
}

static struct stream_broker read_broker(struct reader *r, const char *const part[])
{
    struct stream_broker broker;
    broker.index = read16(r, part[0]);
    broker.host = read_string(r, part[1]);
    broker.port = read32(r, part[2]);
    return broker;
}

static struct stream_placement read_placement(struct reader *r, const char *const part[])
{
    struct stream_placement placement;
    placement.stream = read_string(r, part[0]);
    placement.code = read16(r, part[1]);
    placement.leader = read16(r, part[2]);
    uint32_t replicas = read32(r, part[3]);
    bool fits = replicas <= reader_left(r) / sizeof(uint16_t);
    coney_bytes indexes = read_bytes(r, fits ? replicas * sizeof(uint16_t) : SIZE_MAX, part[3]);
    placement.replicas = (struct stream_list){indexes.data, indexes.len, replicas};
    return placement;
}

static struct stream_publish_error read_error(struct reader *r, const char *const part[])
{
    struct stream_publish_error error;
    error.id = read64(r, part[0]);
    error.code = read16(r, part[1]);
    return error;
}

static coney_bytes read_filter(struct reader *r, const char *field)
{
    uint16_t len = read16(r, field);
    return len == NO_FILTER ? (coney_bytes){0} : read_bytes(r, len, field);
}

static struct stream_entry read_batch(struct reader *r, const char *const part[])
{
    struct stream_entry entry = {.batch = true};
    entry.compression = read8(r, part[3]) >> 4 & 7;
    entry.records = read16(r, part[2]);
    entry.uncompressed = read32(r, part[3]);
    entry.data = read_bytes(r, read32(r, part[3]), part[4]);
    return entry;
}

static struct stream_publish_entry read_entry(struct reader *r, const char *const part[], uint16_t version)
{
    struct stream_publish_entry out = {.id = read64(r, part[0])};
    if (version > 1)
        out.filter = read_filter(r, part[1]);
    if (version == 1 && reader_left(r) > 0 && (*r->at & BATCH_BIT) != 0) {
        out.entry = read_batch(r, part);
        return out;
    }
    uint32_t len = read32(r, part[3]);
    out.entry = (struct stream_entry){.records = 1, .uncompressed = len, .data = read_bytes(r, len, part[4])};
    return out;
}

static void read_element(struct reader *r, const struct layout_field *field, uint16_t version)
{
    const char *const *part = field->parts;
    coney_bytes a, b;
    int64_t value;

    switch (field->list) {
    case LIST_NONE:
        break;
    case LIST_STRINGS:
        read_string(r, part[0]);
        break;
    case LIST_PAIRS:
        read_pair(r, part, &a, &b);
        break;
    case LIST_STATS:
        read_stat(r, part, &a, &value);
        break;
    case LIST_VERSIONS:
        read_version(r, part);
        break;
    case LIST_BROKERS:
        read_broker(r, part);
        break;
    case LIST_PLACEMENTS:
        read_placement(r, part);
        break;
    case LIST_IDS:
        read64(r, part[0]);
        break;
    case LIST_ERRORS:
        read_error(r, part);
        break;
    case LIST_ENTRIES:
        read_entry(r, part, version);
        break;
    }
}

void list_read(struct reader *r, const struct layout_field *field, uint16_t version, struct stream_list *list)
{
    uint32_t count = read32(r, field->name);
    const uint8_t *start = r->at;
    for (uint32_t i = 0; i < count && reader_ok(r); i++)
        read_element(r, field, version);
    if (reader_ok(r))
        *list = (struct stream_list){start, (size_t)(r->at - start), count};
}

/* Iterators ------------------------------------------------------------------------------------------------------ */

static bool at_end(const struct list_iter *it)
{
    return reader_left(&it->at) == 0;
}

bool list_next_string(struct list_iter *it, coney_bytes *value)
{
    if (at_end(it))
        return false;
    *value = read_string(&it->at, unnamed[0]);
    return reader_ok(&it->at);
}

bool list_next_pair(struct list_iter *it, coney_bytes *key, coney_bytes *value)
{
    if (at_end(it))
        return false;
    read_pair(&it->at, unnamed, key, value);
    return reader_ok(&it->at);
}

bool list_next_stat(struct list_iter *it, coney_bytes *name, int64_t *value)
{
    if (at_end(it))
        return false;
    read_stat(&it->at, unnamed, name, value);
    return reader_ok(&it->at);
}

bool list_next_version(struct list_iter *it, struct stream_version_range *range)
{
    if (at_end(it))
        return false;
    *range = read_version(&it->at, unnamed);
    return reader_ok(&it->at);
}

bool list_next_broker(struct list_iter *it, struct stream_broker *broker)
{
    if (at_end(it))
        return false;
    *broker = read_broker(&it->at, unnamed);
    return reader_ok(&it->at);
}

bool list_next_placement(struct list_iter *it, struct stream_placement *placement)
{
    if (at_end(it))
        return false;
    *placement = read_placement(&it->at, unnamed);
    return reader_ok(&it->at);
}

bool list_next_index(struct list_iter *it, uint16_t *index)
{
    if (at_end(it))
        return false;
    *index = read16(&it->at, unnamed[0]);
    return reader_ok(&it->at);
}

bool list_next_error(struct list_iter *it, struct stream_publish_error *error)
{
    if (at_end(it))
        return false;
    *error = read_error(&it->at, unnamed);
    return reader_ok(&it->at);
}

bool list_next_entry(struct list_iter *it, uint16_t version, struct stream_publish_entry *entry)
{
    if (at_end(it))
        return false;
    *entry = read_entry(&it->at, unnamed, version);
    return reader_ok(&it->at);
}

coney_bytes list_find(struct stream_list pairs, coney_bytes key)
{
    struct list_iter it = list_iter_of(pairs);
    coney_bytes at, value;
    while (list_next_pair(&it, &at, &value))
        if (bytes_equal(at, key))
            return value;
    return (coney_bytes){0};
}

/* Writers -------------------------------------------------------------------------------------------------------- */

struct list_writer list_begin(void *buf, size_t cap)
{
    return (struct list_writer){.out = writer_of(buf, cap)};
}

bool list_end(const struct list_writer *w, struct stream_list *list)
{
    if (w->refused || !writer_ok(&w->out))
        return false;
    *list = (struct stream_list){w->out.data, w->out.len, w->count};
    return true;
}

static void add_string(struct list_writer *w, coney_bytes value)
{
    if (!write_string(&w->out, value))
        w->refused = true;
}

void list_add_string(struct list_writer *w, coney_bytes value)
{
    add_string(w, value);
    w->count++;
}

void list_add_pair(struct list_writer *w, coney_bytes key, coney_bytes value)
{
    add_string(w, key);
    add_string(w, value);
    w->count++;
}

void list_add_stat(struct list_writer *w, coney_bytes name, int64_t value)
{
    add_string(w, name);
    write64(&w->out, (uint64_t)value);
    w->count++;
}

void list_add_version(struct list_writer *w, struct stream_version_range range)
{
    write16(&w->out, range.key);
    write16(&w->out, range.min);
    write16(&w->out, range.max);
    w->count++;
}

void list_add_broker(struct list_writer *w, const struct stream_broker *broker)
{
    write16(&w->out, broker->index);
    add_string(w, broker->host);
    write32(&w->out, broker->port);
    w->count++;
}

void list_add_placement(struct list_writer *w, const struct stream_placement *placement)
{
    add_string(w, placement->stream);
    write16(&w->out, placement->code);
    write16(&w->out, placement->leader);
    write32(&w->out, placement->replicas.count);
    write_bytes(&w->out, placement->replicas.encoded, placement->replicas.len);
    w->count++;
}

void list_add_index(struct list_writer *w, uint16_t index)
{
    write16(&w->out, index);
    w->count++;
}

void list_add_id(struct list_writer *w, uint64_t id)
{
    write64(&w->out, id);
    w->count++;
}

void list_add_error(struct list_writer *w, struct stream_publish_error error)
{
    write64(&w->out, error.id);
    write16(&w->out, error.code);
    w->count++;
}

static void add_filter(struct list_writer *w, coney_bytes filter)
{
    if (filter.data == NULL) {
        write16(&w->out, NO_FILTER);
        return;
    }
    if (filter.len > STREAM_FILTER_MAX)
        w->refused = true;
    add_string(w, filter);
}

void list_add_entry(struct list_writer *w, uint16_t version, const struct stream_publish_entry *entry)
{
    const struct stream_entry *e = &entry->entry;
    write64(&w->out, entry->id);
    if (version > 1)
        add_filter(w, entry->filter);
    if (e->data.len > (e->batch ? UINT32_MAX : INT32_MAX) || (e->batch && (version > 1 || e->compression > 7)))
        w->refused = true;
    if (e->batch) {
        write8(&w->out, (uint8_t)(BATCH_BIT | (e->compression & 7) << 4));
        write16(&w->out, e->records);
        write32(&w->out, e->uncompressed);
    }
    write32(&w->out, (uint32_t)e->data.len);
    write_bytes(&w->out, e->data.data, e->data.len);
    w->count++;
}
