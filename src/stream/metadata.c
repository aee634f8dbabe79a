/* metadata.c: see metadata.h. */
#include "stream/metadata.h"

#include "base/text.h"

bool metadata_ask(struct stream_frame *frame, uint8_t *room, const char *stream)
{
    struct list_writer list = list_begin(room, METADATA_ROOM);
    list_add_string(&list, coney_bytes_str(stream));
    *frame = (struct stream_frame){.key = STREAM_METADATA};
    return list_end(&list, &frame->metadata.streams);
}

bool metadata_find(const struct stream_metadata_answer *answer, const char *stream, struct stream_placement *placement)
{
    struct list_iter it = list_iter_of(answer->streams);
    while (list_next_placement(&it, placement))
        if (bytes_equal(placement->stream, coney_bytes_str(stream)))
            return true;
    return false;
}

bool metadata_node(const struct stream_metadata_answer *answer, uint16_t index, struct node *node)
{
    struct list_iter it = list_iter_of(answer->brokers);
    struct stream_broker broker;
    while (list_next_broker(&it, &broker)) {
        if (broker.index != index || broker.host.len == 0 || broker.host.len >= HOST_CAP || broker.port == 0 ||
            broker.port > UINT16_MAX)
            continue;
        text_from_wire(node->host, sizeof node->host, broker.host);
        node->port = (uint16_t)broker.port;
        return true;
    }
    return false;
}
