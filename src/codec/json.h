/* json.h: the two halves of the JSON codec. Any thread. */
#ifndef CONEY_CODEC_JSON_H
#define CONEY_CODEC_JSON_H

#include <coney/codec.h>

/* The functions of coney_codec. */
coney_status codec_json_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                               coney_arena *arena, coney_fault *fault);
coney_status codec_json_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                               coney_arena *arena, coney_fault *fault);

/* NULL when the body is one JSON value with nothing behind it that may stand in `depth` others; else what is wrong with it. *at is
 * the byte. The arena is for scratch. */
const char *codec_json_flaw(coney_bytes body, coney_arena *arena, uint32_t depth, size_t *at);

#endif
