/* metadata.h: asking where streams are, and reading the answer. No I/O. */
#ifndef CONEY_STREAM_METADATA_H
#define CONEY_STREAM_METADATA_H

#include "stream/conn.h"

#define METADATA_ROOM (STREAM_REFERENCE_MAX + 8)

/* Makes `frame` the Metadata command for one stream. Its list stands in `room`, METADATA_ROOM bytes that outlive the frame's use. False: the
 * name is too long for it. */
bool metadata_ask(struct stream_frame *frame, uint8_t *room, const char *stream);

/* What the answer says of the stream; false when it does not speak of it. */
bool metadata_find(const struct stream_metadata_answer *answer, const char *stream, struct stream_placement *placement);

/* The node that an index of the answer stands for; false when there is none, or its address is none that can be dialled. */
bool metadata_node(const struct stream_metadata_answer *answer, uint16_t index, struct node *node);

#endif
