/* locate.h: how a producer or consumer gets its place: metadata, and a connection to the right node. For member_kind. On the loop. */
#ifndef CONEY_STREAM_LOCATE_H
#define CONEY_STREAM_LOCATE_H

#include "stream/conn.h"

/* member_kind.unreachable */
#define LOCATE_UNREACHABLE                                                                                                     \
    " (the broker's metadata names this address: set an address resolver, or the broker's stream.advertised_host)"

/* member_kind.locate, leave and is_final. */
void stream_locate(struct member *member);
void stream_leave(struct member *member, bool held);
bool stream_is_final(const struct member *member, coney_status status);

/* member_failed when the broker has answered with this code: the text says what it means and what to do. The id is free. */
void stream_refused(struct member *member, uint16_t code);

/* The broker says that the stream has gone from this connection: MetadataUpdate. */
void stream_gone(struct member *member, uint32_t code);

#endif
