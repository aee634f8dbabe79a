/* cbor.h: the two halves of the CBOR codec. Any thread. */
#ifndef CONEY_CODEC_CBOR_H
#define CONEY_CODEC_CBOR_H

#include <coney/codec.h>

/* The functions of coney_codec. */
coney_status codec_cbor_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                               coney_arena *arena, coney_fault *fault);
coney_status codec_cbor_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                               coney_arena *arena, coney_fault *fault);

/* Whether the bytes are one item with nothing behind it that may stand in `depth` others. */
bool codec_cbor_is_item(coney_bytes bytes, uint32_t depth);

/* The farthest time that a double of seconds tells to the millisecond. */
#define CBOR_TIME_MOST (INT64_C(1) << 50)

#endif
