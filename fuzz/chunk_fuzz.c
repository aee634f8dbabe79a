/* chunk_fuzz.c: any bytes as a chunk.
 *
 * The first byte says whether the header's data length is set right before the walk (1), so that changed lengths get past
 * the header. The walk must end, move forward, stay inside its bytes, and give no offset twice nor one outside the chunk. A
 * chunk of messages only, written again, must read the same. */
#include "proto/stream/chunk.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

struct sum {
    uint64_t messages;
    uint64_t bytes;
    uint64_t content;
    bool whole; /* nothing but messages, to the end */
};

static void add_message(struct sum *sum, coney_bytes message)
{
    const uint8_t *at = message.data;
    sum->messages++;
    sum->bytes += message.len;
    for (size_t i = 0; i < message.len; i++)
        sum->content = sum->content * 31 + at[i];
}

static void check_item(const struct chunk *chunk, const struct chunk_walk *walk, enum chunk_item item,
                       const struct chunk_entry *entry, uint64_t expected)
{
    const uint8_t *start = chunk->data.data, *at = entry->data.data;
    require(walk->offset >= expected && walk->offset <= chunk->first + chunk->records);
    if (item == CHUNK_BROKEN) {
        require(walk->field != NULL && walk->offset == expected);
        return;
    }
    require(entry->offset == expected);
    require(walk->offset - expected == (item == CHUNK_MESSAGE ? 1 : entry->records));
    if (item == CHUNK_DAMAGED)
        require(walk->field != NULL);
    else
        require(at >= start && entry->data.len <= chunk->data.len - (size_t)(at - start));
}

static struct sum walk_all(const struct chunk *chunk, struct chunk_writer *copy)
{
    struct sum sum = {.whole = true};
    struct chunk_walk walk = chunk_walk_of(chunk);
    struct chunk_entry entry;
    uint64_t offset = walk.offset, items = 0;
    enum chunk_item item;
    while ((item = chunk_next(&walk, &entry)) != CHUNK_END) {
        check_item(chunk, &walk, item, &entry, offset);
        require(++items <= chunk->data.len / 4 + 1);
        offset = walk.offset;
        sum.whole = sum.whole && item == CHUNK_MESSAGE;
        if (item != CHUNK_MESSAGE)
            continue;
        add_message(&sum, entry.data);
        chunk_add(copy, entry.data);
    }
    require(!sum.whole || walk.offset == chunk->first + chunk->records);
    return sum;
}

static void check_chunk(coney_bytes bytes)
{
    struct chunk chunk, again;
    const char *field = chunk_open(bytes, &chunk);
    if (field != NULL) {
        require(*field != '\0');
        return;
    }
    size_t cap = CHUNK_HEADER_BYTES + chunk.data.len;
    uint8_t *room = malloc(cap);
    require(room != NULL);
    struct chunk_writer copy = chunk_begin(room, cap, CHUNK_USER, chunk.timestamp, chunk.epoch, chunk.first);
    struct sum sum = walk_all(&chunk, &copy);
    size_t len = chunk_finish(&copy, chunk.crc);
    if (sum.whole && copy.entries <= UINT16_MAX) {
        struct chunk_writer none = chunk_begin(NULL, 0, CHUNK_USER, 0, 0, 0);
        require(chunk_open(coney_bytes_of(room, len), &again) == NULL);
        require(again.first == chunk.first && again.records == chunk.records && again.timestamp == chunk.timestamp);
        struct sum same = walk_all(&again, &none);
        require(same.whole && same.messages == sum.messages && same.bytes == sum.bytes && same.content == sum.content);
    }
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t len = size - 1;
    uint8_t *bytes = malloc(len > 0 ? len : 1);
    require(bytes != NULL);
    memcpy(bytes, data + 1, len);
    if ((data[0] & 1) != 0 && len >= CHUNK_HEADER_BYTES)
        store32(bytes + 36, (uint32_t)(len - CHUNK_HEADER_BYTES));
    check_chunk(coney_bytes_of(bytes, len));
    free(bytes);
    return 0;
}
