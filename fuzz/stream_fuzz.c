/* stream_fuzz.c: any bytes as a message of the stream protocol.
 *
 * The first byte picks the command; the second the sender (1 = client), whether it is an answer (2) and the version (from
 * bit 2 on, plus 1); the rest is what follows the version. What decodes must have lists of as many elements as they say, and
 * encode to bytes that decode to the same message. The data path's readers must agree with the codec. */
#include "proto/stream/fastpath.h"
#include "proto/stream/layout.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool next_element(struct list_iter *it, enum list_kind kind, uint16_t version)
{
    coney_bytes a, b;
    int64_t stat;
    uint64_t id;
    struct stream_version_range range;
    struct stream_broker broker;
    struct stream_placement placement;
    struct stream_publish_error error;
    struct stream_publish_entry entry;

    switch (kind) {
    case LIST_NONE:
        break;
    case LIST_STRINGS:
        return list_next_string(it, &a);
    case LIST_PAIRS:
        return list_next_pair(it, &a, &b);
    case LIST_STATS:
        return list_next_stat(it, &a, &stat);
    case LIST_VERSIONS:
        return list_next_version(it, &range);
    case LIST_BROKERS:
        return list_next_broker(it, &broker);
    case LIST_PLACEMENTS:
        return list_next_placement(it, &placement);
    case LIST_IDS:
        return list_next_id(it, &id);
    case LIST_ERRORS:
        return list_next_error(it, &error);
    case LIST_ENTRIES:
        return list_next_entry(it, version, &entry);
    }
    return false;
}

static void check_lists(const struct stream_frame *frame)
{
    const struct stream_command *command = stream_command_of(frame->key);
    const struct stream_layout *layout = frame->response ? command->answer : command->request;
    for (const struct layout_field *field = layout->fields; field->name != NULL; field++) {
        if (field->list == LIST_NONE)
            continue;
        struct stream_list list;
        memcpy(&list, (const char *)frame + field->at, sizeof list);
        struct list_iter it = list_iter_of(list);
        uint32_t count = 0;
        while (next_element(&it, field->list, frame->version))
            count++;
        require(count == list.count && reader_ok(&it.at));
    }
}

static void check_data_path(coney_bytes body, const struct stream_frame *frame)
{
    struct stream_publish_confirm confirm;
    struct stream_deliver deliver;
    if (frame->key == STREAM_PUBLISH_CONFIRM) {
        require(confirm_read(body, &confirm) == NULL);
        require(confirm.publisher == frame->publish_confirm.publisher);
        require(confirm.ids.encoded == frame->publish_confirm.ids.encoded);
        require(confirm.ids.count == frame->publish_confirm.ids.count);
    }
    if (frame->key == STREAM_DELIVER) {
        require(deliver_read(body, &deliver) == NULL);
        require(deliver.subscription == frame->deliver.subscription && deliver.committed == frame->deliver.committed);
        require(bytes_equal(deliver.chunk, frame->deliver.chunk));
    }
}

/* The whole frame in a block of its own. */
static coney_bytes encoded(const struct stream_frame *frame)
{
    size_t size = stream_encode(frame, NULL, 0);
    require(size >= STREAM_SIZE_BYTES + STREAM_SMALLEST_FRAME);
    uint8_t *wire = malloc(size);
    require(wire != NULL && stream_encode(frame, wire, size) == size);
    const char *field;
    require(stream_frame_size(wire, size, UINT32_MAX, &field) == size);
    return coney_bytes_of(wire, size);
}

static void check_message(coney_bytes body, enum stream_side from)
{
    struct stream_frame frame, again;
    const char *field = stream_decode(body, from, &frame);
    if (field != NULL) {
        require(*field != '\0');
        return;
    }
    check_lists(&frame);
    check_data_path(body, &frame);

    coney_bytes first = encoded(&frame);
    require(stream_decode(stream_frame_body(first.data, first.len), from, &again) == NULL);
    require(again.key == frame.key && again.version == frame.version && again.response == frame.response);
    require(again.code == frame.code && again.correlation == frame.correlation);
    coney_bytes second = encoded(&again);
    require(bytes_equal(first, second));
    free((void *)(uintptr_t)first.data);
    free((void *)(uintptr_t)second.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    uint8_t *body = malloc(size + 2);
    require(body != NULL);
    store16(body, data[0] | (data[1] & 2 ? STREAM_RESPONSE_BIT : 0));
    store16(body + 2, (uint16_t)((data[1] >> 2) + 1));
    memcpy(body + 4, data + 2, size - 2);
    check_message(coney_bytes_of(body, size + 2), data[1] & 1 ? STREAM_FROM_CLIENT : STREAM_FROM_SERVER);
    free(body);
    return 0;
}
