/* msgpack.h: the two halves of the MessagePack codec. Any thread. */
#ifndef CONEY_CODEC_MSGPACK_H
#define CONEY_CODEC_MSGPACK_H

#include <coney/codec.h>

/* The functions of coney_codec. */
coney_status codec_msgpack_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                  coney_arena *arena, coney_fault *fault);
coney_status codec_msgpack_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                  coney_arena *arena, coney_fault *fault);

/* Whether the bytes are one item with nothing behind it that may stand in `depth` others. */
bool codec_msgpack_is_item(coney_bytes bytes, uint32_t depth);

#endif
